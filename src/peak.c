/*-------------------------------------------------------------------------
 *
 * peak.c
 *	  The most that a session has held within a stretch of its work.
 *
 * Stretches lie one within another: a statement, and another one that a
 * function of it executes.  The ledger notes one peak, that of this process's
 * account, and must not do more where memory is taken.  So when a stretch
 * begins or ends, that peak is folded into the stretch that was innermost, and
 * begins again at what is held; the stretch around takes over the peak of an
 * inner one.
 *
 * Where other processes of the session hold something, or shared memory, each
 * process notes the sum when it draws a grant (grants.c); what the others have
 * to spare then, a grant or two each, is in it.  Otherwise peaks are exact.
 *
 * A stretch must be ended by whoever has begun it, after an error too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "peak.h"

PeakFrame  *peak_innermost = NULL;
uint64		peak_folds = 0;

/*
 * peak_fold_into
 *		Put what was noted into a stretch.
 */
void
peak_fold_into(PeakFrame *frame)
{
	int64		beside = ledger_held() - my_account->charged_bytes;

	/* what is beside may have come or gone since */
	frame->peak = Max(frame->peak, my_account->peak_bytes + Min(frame->beside, beside));
	frame->beside = beside;
	if (unlikely(pg_atomic_read_u64(&my_session->statement_peak) != 0))
	{
		int64		sum = pg_atomic_exchange_u64(&my_session->statement_peak, 0);

		frame->peak = Max(frame->peak, sum);
	}
}

/*
 * peak_reset
 *		Let the peaks that views show begin again at what is held now; those of
 *		stretches stay as they are.
 */
void
peak_reset(void)
{
	peak_fold();
	ledger_reset_peak();
}
