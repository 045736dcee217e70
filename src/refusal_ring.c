/*-------------------------------------------------------------------------
 *
 * refusal_ring.c
 *	  The last refusals of the whole server, in shared memory.
 *
 * A refusal is written where there is no memory: nothing is allocated here,
 * and no lock is waited for but a spinlock, since a request may be refused
 * anywhere.  The record is put together in this process's own memory and
 * copied in one go.
 *
 * The spinlock guards all of the ring.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "refusal_ring.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

typedef struct RefusalRing
{
	slock_t		mutex;
	int64		written;		/* records ever written */
	RefusalRecord records[REFUSAL_RING_SIZE];
} RefusalRing;

static RefusalRing *ring = NULL;
static RefusalRecord last;		/* the last one of this process */

/*
 * refusal_ring_request
 *		Ask for the shared memory (shmem_request_hook).
 */
void
refusal_ring_request(void)
{
	RequestAddinShmemSpace(sizeof(RefusalRing));
}

/*
 * refusal_ring_startup
 *		Find or make the shared memory (shmem_startup_hook).
 */
void
refusal_ring_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ring = ShmemInitStruct("sift refusals", sizeof(RefusalRing), &found);
	if (!found)
	{
		memset(ring, 0, sizeof(RefusalRing));
		SpinLockInit(&ring->mutex);
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * refusal_ring_exists
 *		Whether refusals are kept: not without shared memory.
 */
bool
refusal_ring_exists(void)
{
	return ring != NULL;
}

/*
 * refusal_ring_add
 *		Keep a refusal of this process.
 *
 * requested: bytes asked for
 * context_name: NULL when it is not known (yet)
 */
void
refusal_ring_add(SiftKind kind, Size requested, const char *context_name)
{
	if (ring == NULL || MyProc == NULL)
		return;
	memset(&last, 0, sizeof(last));
	last.at = GetCurrentTimestamp();
	last.pid = MyProcPid;
	last.userid = MyProc->roleId;
	last.dbid = MyProc->databaseId;
	last.queryid = (int64) pgstat_get_my_query_id();
	if (context_name != NULL)
		strlcpy(last.context_name, context_name, NAMEDATALEN);
	last.kind = kind;
	last.requested_bytes = requested;
	last.charged_bytes = ledger_held();
	last.limit_bytes = ledger_limit_of(ledger_last_refusal.limit);
	top_contexts_find(&last.top);

	SpinLockAcquire(&ring->mutex);
	last.number = ++ring->written;
	ring->records[last.number % REFUSAL_RING_SIZE] = last;
	SpinLockRelease(&ring->mutex);
}

/*
 * refusal_ring_amend
 *		Of the last refusal of this process the context has become known, and
 *		the bytes that were asked of it (0 if not).
 */
void
refusal_ring_amend(const char *context_name, int64 requested)
{
	RefusalRecord *record;

	if (ring == NULL || last.number == 0)
		return;
	record = &ring->records[last.number % REFUSAL_RING_SIZE];
	SpinLockAcquire(&ring->mutex);
	if (record->number == last.number)
	{
		strlcpy(record->context_name, context_name, NAMEDATALEN);
		if (requested > 0)
			record->requested_bytes = requested;
	}
	SpinLockRelease(&ring->mutex);
}

/*
 * refusal_ring_newest
 *		The number of the newest record, 0 when there is none.
 */
int64
refusal_ring_newest(void)
{
	int64		newest;

	SpinLockAcquire(&ring->mutex);
	newest = ring->written;
	SpinLockRelease(&ring->mutex);
	return newest;
}

/*
 * refusal_ring_read
 *		Copy the record of that number; false when it is not kept any more.
 */
bool
refusal_ring_read(int64 number, RefusalRecord *record)
{
	SpinLockAcquire(&ring->mutex);
	*record = ring->records[number % REFUSAL_RING_SIZE];
	SpinLockRelease(&ring->mutex);
	return record->number == number;
}
