/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  Who holds how many bytes, by kind, against which limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_LEDGER_H
#define SIFT_LEDGER_H

#include "sift.h"

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
	int			saved_errno;	/* for REFUSED_BY_SYSTEM */
} Refusal;

extern Refusal ledger_last_refusal;

extern void ledger_set_limits(int memory_limit_kb, int max_memory_limit_kb);
extern const char *ledger_limit_name(void);

extern Size ledger_bytes(SiftKind kind);
extern int64 ledger_limit(void);

extern bool ledger_fits(Size bytes);
extern bool ledger_make_room(Size wanted, bool by_limit);
extern bool ledger_charge(SiftKind kind, Size bytes, Size spare);
extern void ledger_release(SiftKind kind, Size bytes);
extern void ledger_move(SiftKind from, SiftKind to, Size bytes);
extern void ledger_refuse(SiftKind kind, RefusalReason reason);
extern void ledger_block_taken(SiftKind kind);
extern void ledger_block_returned(SiftKind kind);

extern void ledger_add_reclaimer(const char *name, int cost,
								 SiftReclaimer callback, void *arg);
extern void ledger_reset_peak(void);
extern void ledger_refuse_charge(int64 n);

#endif							/* SIFT_LEDGER_H */
