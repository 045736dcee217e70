/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  Who holds how many bytes, by kind, against which limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_LEDGER_H
#define SIFT_LEDGER_H

#include "slots.h"

/* The limits of a session; the smaller one is in effect. */
typedef enum LedgerLimit
{
	LIMIT_OF_USER,				/* sift.memory_limit */
	LIMIT_OF_SUPERUSER			/* sift.max_memory_limit */
} LedgerLimit;

#define NUM_LIMITS				(LIMIT_OF_SUPERUSER + 1)

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
	SiftKind	kind;
	int			saved_errno;	/* for REFUSED_BY_SYSTEM */
} Refusal;

extern Refusal ledger_last_refusal;

/* Whom ledger_make_room() asks. */
typedef enum Reclaimers
{
	IDLE_BLOCKS,				/* Sift's own pool, which cannot fail */
	ALL_RECLAIMERS				/* those of extensions too, which may raise */
} Reclaimers;

extern void ledger_set_limit(LedgerLimit which, int limit_kb);
extern const char *ledger_limit_name(LedgerLimit which);
extern LedgerLimit ledger_limit_in_effect(void);
extern int64 ledger_limit_of(LedgerLimit which);

extern bool ledger_make_room(Size wanted, bool by_limit, Reclaimers whom);
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

/* Bytes that are held of all kinds. */
static inline int64
ledger_held(void)
{
	return my_account->charged_bytes;
}

/* The limit in effect in bytes, -1 without one. */
static inline int64
ledger_limit(void)
{
	return my_account->limit_bytes;
}

/*
 * ledger_fits
 *		Whether that many bytes more would pass no limit.
 *
 * 0 bytes do not fit either while more is held than the limit allows.  No
 * limit, -1, is the largest of all unsigned numbers.
 */
static inline bool
ledger_fits(Size bytes)
{
	return (uint64) my_account->charged_bytes + bytes <= (uint64) my_account->limit_bytes;
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
 *		Charge what is there already, whatever the limit says.
 */
static inline void
ledger_take(SiftKind kind, Size bytes)
{
	SiftUsageData *account;

	if (unlikely(!slots_attached))
		slots_attach();
	account = my_account;
	account->charged_bytes += bytes;
	account->kinds[kind].bytes += bytes;
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
}

#endif							/* SIFT_LEDGER_H */
