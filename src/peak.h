/*-------------------------------------------------------------------------
 *
 * peak.h
 *	  The most that a session has held within a stretch of its work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_PEAK_H
#define SIFT_PEAK_H

#include "ledger.h"

/*
 * A stretch, in a variable of the function that begins and ends it.  Bytes
 * are those of the whole session.
 */
typedef struct PeakFrame
{
	struct PeakFrame *outer;	/* the stretch that this one is part of */
	int64		held;			/* when it began */
	int64		beside;			/* not in this process's account, at the last fold */
	int64		peak;			/* the most held, as of the last fold */
} PeakFrame;

extern PeakFrame *peak_innermost;
extern uint64 peak_folds;		/* how often peaks were folded */

extern void peak_fold_into(PeakFrame *frame);
extern void peak_reset(void);

/*
 * peak_fold
 *		Put what was noted where it belongs, and begin to note anew.
 */
static inline void
peak_fold(void)
{
	int64		noted = my_account->peak_bytes;

	peak_folds++;
	if (peak_innermost != NULL)
		peak_fold_into(peak_innermost);
	if (noted > my_slot->peak_before)
		my_slot->peak_before = noted;
	my_account->peak_bytes = my_account->charged_bytes;
}

/*
 * peak_begin_after_fold
 *		A stretch began with the last fold, when "held" bytes were held.
 */
static inline void
peak_begin_after_fold(PeakFrame *frame, int64 held)
{
	frame->outer = peak_innermost;
	frame->held = frame->peak = held;
	frame->beside = ledger_held() - my_account->charged_bytes;
	peak_innermost = frame;
	/* noted since the last stretch, by workers that come to an end */
	if (unlikely(pg_atomic_read_u64(&my_session->statement_peak) != 0))
		pg_atomic_write_u64(&my_session->statement_peak, 0);
}

/*
 * peak_begin
 *		A stretch begins, within the one that is innermost now.
 */
static inline void
peak_begin(PeakFrame *frame)
{
	peak_fold();
	peak_begin_after_fold(frame, ledger_held());
}

/*
 * peak_end
 *		The innermost stretch ends.
 *
 * Returns the bytes that its most were above what it began with.
 */
static inline int64
peak_end(PeakFrame *frame)
{
	peak_fold();
	peak_innermost = frame->outer;
	if (unlikely(peak_innermost != NULL))
	{
		peak_innermost->peak = Max(peak_innermost->peak, frame->peak);
		peak_innermost->beside = frame->beside;
	}
	return frame->peak - frame->held;
}

#endif							/* SIFT_PEAK_H */
