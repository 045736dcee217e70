/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  Who holds how many bytes, by kind, against which limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_LEDGER_H
#define SIFT_LEDGER_H

#include "grants.h"

/* The limits.  Of the first two, a session's, the smaller one is in effect. */
typedef enum LedgerLimit
{
	LIMIT_OF_USER,				/* sift.memory_limit */
	LIMIT_OF_SUPERUSER,			/* sift.max_memory_limit */
	LIMIT_OF_TOTAL				/* sift.total_memory_limit */
} LedgerLimit;

#define NUM_SESSION_LIMITS		(LIMIT_OF_SUPERUSER + 1)
#define NUM_LIMITS				(LIMIT_OF_TOTAL + 1)

/* Why the last request was turned down. */
typedef enum RefusalReason
{
	REFUSED_BY_LIMIT,			/* a limit would be passed */
	REFUSED_BY_SYSTEM,			/* the operating system has no memory */
	REFUSED_BY_RANGE,			/* the reserved range is full */
	REFUSED_BY_TEST				/* ledger_refuse_charge() */
} RefusalReason;

typedef struct Refusal
{
	RefusalReason reason;
	LedgerLimit limit;			/* for REFUSED_BY_LIMIT */
	SiftKind	kind;
	int			saved_errno;	/* for REFUSED_BY_SYSTEM */
} Refusal;

extern Refusal ledger_last_refusal;

/* Whom ledger_make_room() asks. */
typedef enum Reclaimers
{
	OWN_RECLAIMERS,				/* Sift's, which cannot fail */
	ALL_RECLAIMERS				/* those of extensions too, which may raise */
} Reclaimers;

/* Costs of Sift's own reclaimers; those of extensions are 1 and more. */
#define COST_OF_IDLE_BLOCKS		(-1)
#define COST_OF_FREE_HEAP		0

extern void ledger_set_limit(LedgerLimit which, int limit);
extern const char *ledger_limit_name(LedgerLimit which);
extern int64 ledger_limit_of(LedgerLimit which);
extern LedgerLimit ledger_limit_passed(void);
extern bool ledger_draw(Size bytes);
extern bool ledger_draw_beside(Size bytes, bool force);
extern bool ledger_is_within_limits(void);

extern bool ledger_make_room(Size wanted, bool by_limit, Reclaimers whom);
extern bool ledger_is_reclaiming(void);
extern bool ledger_charge(SiftKind kind, Size bytes, Size spare);
extern void ledger_move(SiftKind from, SiftKind to, Size bytes);
extern void ledger_refuse(SiftKind kind, RefusalReason reason);
extern void ledger_waive(Size bytes);
extern void ledger_block_taken(SiftKind kind);
extern void ledger_block_returned(SiftKind kind);

extern void ledger_add_reclaimer(const char *name, int cost,
								 SiftReclaimer callback, void *arg);
extern void ledger_reset_peak(void);
extern void ledger_refuse_charge(int64 n);
extern bool ledger_is_counting_down(void);
extern bool ledger_count_down(void);

/* Bytes that are held of a kind. */
static inline Size
ledger_bytes(SiftKind kind)
{
	return my_account->kinds[kind].bytes;
}

/* Bytes that are held of all kinds, by the whole session. */
static inline int64
ledger_held(void)
{
	return grants_session_held();
}

/* The limit of the session that is in effect in bytes, -1 without one. */
static inline int64
ledger_limit(void)
{
	return my_account->limit_bytes;
}

/*
 * ledger_fits
 *		Whether that many bytes more would pass no limit.
 *
 * 0 bytes do not fit either while more is held than a limit allows.
 */
static inline bool
ledger_fits(Size bytes)
{
	return likely((uint64) my_account->charged_bytes + bytes <= (uint64) grant_window.fits) ||
		ledger_draw(bytes);
}

/* Note the most that a kind has held. */
static inline void
ledger_note_peak(SiftKind kind)
{
	SiftKindUsage *usage = &my_account->kinds[kind];

	if (usage->bytes > usage->peak_bytes)
		usage->peak_bytes = usage->bytes;
}

/*
 * ledger_take
 *		Charge what is there already, whatever the limits say.
 */
static inline void
ledger_take(SiftKind kind, Size bytes)
{
	SiftUsageData *account;

	if (unlikely(!slots_attached))
		grants_attach();
	account = my_account;
	account->charged_bytes += bytes;
	account->kinds[kind].bytes += bytes;
	if (unlikely(account->charged_bytes > grant_window.top))
		grants_cover();
	if (account->charged_bytes > account->peak_bytes)
		account->peak_bytes = account->charged_bytes;
	ledger_note_peak(kind);
}

/*
 * ledger_release
 *		Take back a charge: the bytes are the operating system's again.
 */
static inline void
ledger_release(SiftKind kind, Size bytes)
{
	my_account->charged_bytes -= bytes;
	my_account->kinds[kind].bytes -= bytes;
	if (unlikely(my_account->charged_bytes < grant_window.bottom))
		grants_give_back(GRANT_SIZE);
}

#endif							/* SIFT_LEDGER_H */
