/*-------------------------------------------------------------------------
 *
 * caches.c
 *	  The server's catalog caches, when there is no memory for them.
 *
 * What a session has looked up in the catalogs it keeps, in a context that
 * takes ever larger blocks and never gives one back.  When the next one is
 * refused, no statement works any more that looks at one more table or view,
 * Sift's own among them; and as a hash table of the caches that is due to be
 * enlarged is tried again with each lookup, not even those that do.
 *
 * So the caches are dropped after they were refused memory, and before a
 * statement of a session above its limit when they have no room; what they
 * held is free for new entries then.  For the way there they are granted one
 * block over the limit.
 *
 * Dropping them is what PostgreSQL does to a session that has missed
 * invalidation messages.  It costs the next statements some lookups, so it is
 * done once, until they have been in order.
 *
 * They are dropped as well after an error that may have come while
 * invalidation messages were worked off: what it has cut short is not done
 * again, and entries would be stale.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "caches.h"
#include "compat.h"
#include "ledger.h"
#include "port/pg_bitutils.h"
#include "storage/sinval.h"
#include "utils/inval.h"

/* Room that the caches should have for the tables of a statement. */
#define CACHE_ROOM				((Size) 128 * 1024)

/* The largest block that they are granted. */
#define LARGEST_GRANT			((Size) 1024 * 1024)

static bool dropped = false;	/* and not in order since */
static bool refused = false;	/* to be dropped */
static bool called_back = true; /* drop_refused() has run since it was last
								 * registered */
static int64 granted = 0;		/* bytes over the limit */
static uint64 messages_seen = 0;	/* when the last statement began */

/*
 * caches_drop
 *		Drop the caches; cached plans are marked as well.
 */
void
caches_drop(void)
{
	if (dropped && !refused)
		return;
	dropped = true;
	refused = false;
	InvalidateSystemCaches();
}

/*
 * drop_refused
 *		MessageContext is reset: one statement has ended, the next has not
 *		begun.  Within a transaction the next statement drops them.
 *
 * Outside of one, only lists are made for it, and freed; not in MessageContext,
 * whose next block may be large.
 */
static void
drop_refused(void *arg)
{
	MemoryContext caller;

	called_back = true;
	if (!refused || IsTransactionState())
		return;
	caller = MemoryContextSwitchTo(TopMemoryContext);
	caches_drop();
	MemoryContextSwitchTo(caller);
}

/*
 * caches_drop_soon
 *		A request for the caches was refused, or what is in them may be stale.
 */
void
caches_drop_soon(void)
{
	static MemoryContextCallback callback = {.func = drop_refused};

	refused = true;
	if (!called_back || MessageContext == NULL)
		return;
	called_back = false;
	MemoryContextRegisterResetCallback(MessageContext, &callback);
}

/*
 * caches_error
 *		A request of the server's is refused, and an error follows.
 *
 * It may have come in the middle of invalidation messages, which are not seen
 * again: of other sessions, or of this transaction.
 */
void
caches_error(void)
{
	if (messages_seen != SharedInvalidMessageCounter ||
		TransactionIdIsValid(GetTopTransactionIdIfAny()))
		caches_drop_soon();
}

/*
 * caches_drop_refused
 *		Drop them now if that is due; for where catalogs may be read.
 */
void
caches_drop_refused(void)
{
	if (refused)
		caches_drop();
}

/*
 * is_for_caches
 *		Whether the caches' context seems to need a block of that many bytes.
 *
 * Whose block it is cannot be seen.  The server mostly switches to that context,
 * but enlarges the hash tables of the caches from any other.  As blocks double,
 * the next one is as large as all before, but for chunks with their own.
 */
static bool
is_for_caches(Size bytes)
{
	return CacheMemoryContext != NULL &&
		(CurrentMemoryContext == CacheMemoryContext ||
		 bytes == pg_prevpower2_size_t(CacheMemoryContext->mem_allocated));
}

/*
 * caches_grant
 *		Whether a request that does not fit is let through as a block of the
 *		caches: one, until the session is below its limit again.
 */
bool
caches_grant(Size bytes)
{
	if (bytes > LARGEST_GRANT || granted > 0 || !is_for_caches(bytes))
		return false;
	granted = bytes;
	return true;
}

/* Bytes that were granted over the limit. */
int64
caches_granted(void)
{
	return granted;
}

/* Bytes that the caches' context has free. */
static Size
cache_room(void)
{
	MemoryContextCounters counters = {0};

	CacheMemoryContext->methods->stats(CacheMemoryContext, NULL, NULL, &counters, true);
	return counters.freespace;
}

/*
 * caches_check
 *		Drop the caches if they have no room; to be called when a statement
 *		begins.
 */
void
caches_check(void)
{
	messages_seen = SharedInvalidMessageCounter;
	if (ledger_is_within_limits())
	{
		granted = 0;
		dropped = false;
	}
	else if (CacheMemoryContext != NULL && cache_room() < CACHE_ROOM)
		caches_drop();
	else
		dropped = false;
}
