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
#include "context_tree.h"
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

/* ----------------------------------------------------------------
 *		The largest contexts
 * ----------------------------------------------------------------
 */

/*
 * Bytes by name, of all contexts of this process.  Names are constants, so
 * contexts that are made at one place share the pointer.  A table for more
 * names than a server has at a time; what comes when it is full is left out.
 */
#define NAME_TABLE_SIZE			512

typedef struct NameBytes
{
	const char *name;
	int64		bytes;
} NameBytes;

static NameBytes name_table[NAME_TABLE_SIZE];

static void
add_bytes(const char *name, Size bytes)
{
	uint32		at = (uint32) (((uintptr_t) name >> 3) * 0x9E3779B1u) % NAME_TABLE_SIZE;

	for (int tries = 0; tries < NAME_TABLE_SIZE; tries++)
	{
		NameBytes  *entry = &name_table[(at + tries) % NAME_TABLE_SIZE];

		if (entry->name == NULL || entry->name == name)
		{
			entry->name = name;
			entry->bytes += bytes;
			return;
		}
	}
}

/*
 * find_top_contexts
 *		The names that most bytes go by, the largest first.
 */
static void
find_top_contexts(RefusalRecord *record)
{
	memset(name_table, 0, sizeof(name_table));
	for (MemoryContext context = TopMemoryContext; context != NULL;
		 context = context_tree_next(context))
		add_bytes(context->name, context->mem_allocated);

	for (record->ntop = 0; record->ntop < REFUSAL_TOP_CONTEXTS; record->ntop++)
	{
		NameBytes  *most = &name_table[0];

		for (int i = 1; i < NAME_TABLE_SIZE; i++)
		{
			if (name_table[i].bytes > most->bytes)
				most = &name_table[i];
		}
		if (most->bytes == 0)
			break;
		strlcpy(record->top[record->ntop].name, most->name, NAMEDATALEN);
		record->top[record->ntop].bytes = most->bytes;
		most->bytes = 0;
	}
}

/* ----------------------------------------------------------------
 *		Writing and reading
 * ----------------------------------------------------------------
 */

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
	find_top_contexts(&last);

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
