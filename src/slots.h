/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  One slot in shared memory for each process that has a PGPROC.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_SLOTS_H
#define SIFT_SLOTS_H

#include "port/atomics.h"
#include "sift.h"

/*
 * What the processes of a session share.  It lies in the slot of the leader,
 * and is changed by all of them, by adding and subtracting only: a worker that
 * outlives its leader takes back what it has added, and until then it counts
 * for whoever has the slot.
 */
typedef struct SiftSession
{
	pg_atomic_uint64 drawn;		/* bytes: grants, and shared memory */
	pg_atomic_uint32 workers;	/* processes beside the leader */

	/* kind "shared" */
	pg_atomic_uint64 shared_bytes;
	pg_atomic_uint64 shared_peak;
	pg_atomic_uint64 segments_made;
	pg_atomic_uint64 segments_removed;
	pg_atomic_uint64 peak;		/* most of the leader's bytes and these */

	/* of the statement that is running; see peak.c */
	pg_atomic_uint64 statement_peak;	/* most of all processes' bytes, noted where
										 * there is more than one; 0: none */
	pg_atomic_uint64 refused;	/* requests turned down, of all processes; the
								 * leader takes them from here */
	pg_atomic_uint64 waived;	/* bytes, likewise */
	pg_atomic_uint32 has_refusals;	/* one of these two is not 0; set after it */
	pg_atomic_uint32 near_limit;	/* see tracking.c */

	/* what workers that have ended were refused and let through */
	pg_atomic_uint64 refusals[SIFT_NUM_KINDS];
	pg_atomic_uint64 waived_bytes;
} SiftSession;

/*
 * What all processes of the server share.
 */
typedef struct SiftTotal
{
	pg_atomic_uint64 drawn;		/* bytes: grants, free heaps, shared memory */
	pg_atomic_uint64 peak;		/* most of it */
	pg_atomic_uint64 refusals;	/* because of the total limit */
	pg_atomic_uint64 shared_bytes;	/* shared memory that is no session's */
} SiftTotal;

typedef struct SiftSlot
{
	int			pid;			/* owner; 0 when free.  Set after the account is
								 * in order, cleared before it goes */
	int			leader_pid;		/* of a parallel worker; else 0 */
	SiftUsageData account;		/* see my_account */
	int64		peak_before;	/* most bytes charged before the peak in the account
								 * began; see peak.c */
	int64		granted;		/* bytes drawn for the account, see grants.c */
	SiftSession session;
} SiftSlot;

/*
 * The slot of this process once slots_attach() has found one, a private one
 * before, after, and where the library is not preloaded.
 *
 * But for the session, only the process itself writes it, with plain stores;
 * readers in other processes may be a moment late, and never see half a
 * number.
 */
extern SiftSlot *my_slot;
extern SiftUsageData *my_account;	/* in it */

/* Of the leader's slot, and of the server; private ones likewise. */
extern SiftSession *my_session;
extern SiftTotal *my_total;

/* True when slots_attach() has nothing left to do. */
extern bool slots_attached;

/* Whether the slot is one that others can reach. */
extern bool slots_are_shared(void);

extern void slots_request(void);
extern void slots_startup(void);
extern bool slots_exist(void);
extern bool slots_attach(void);
extern void slots_detach(void);
extern bool slots_is_worker(void);

/* Indexes of slots, for what outlives a process. */
extern int	slots_session_index(void);
extern SiftSession *slots_session(int index);
extern SiftTotal *slots_total(void);

extern void slots_usage(const SiftSlot *slot, SiftUsageData *usage);
extern void slots_session_usage(SiftUsageData *usage);
extern const SiftSlot *slots_find(int pid);
extern const SiftSlot *slots_next(const SiftSlot *slot);

/* The slot that a session lies in. */
static inline const SiftSlot *
slots_of_session(const SiftSession *session)
{
	return (const SiftSlot *) ((const char *) session - offsetof(SiftSlot, session));
}

/* Let a peak be as high as that. */
static inline void
slots_raise_peak(pg_atomic_uint64 *peak, uint64 bytes)
{
	uint64		before = pg_atomic_read_u64(peak);

	while (before < bytes && !pg_atomic_compare_exchange_u64(peak, &before, bytes))
		;
}

#endif							/* SIFT_SLOTS_H */
