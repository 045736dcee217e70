/*-------------------------------------------------------------------------
 *
 * refuse.c
 *	  Whether a request of the server program may be refused.
 *
 * A request that is refused becomes an ERROR, at any place that allocates.
 * Most can take that, some cannot: a critical section turns it into a PANIC, a
 * commit that has gone half way loses its locks, a handler that copies an
 * error is refused again until the stack of errors is full.  So a request is
 * refused only where a query could be cancelled, with two exceptions, for
 * memory that would be large: the text of an error, and a message that is
 * read from the client.
 *
 * Nothing here allocates.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "caches.h"
#include "compat.h"
#include "refuse.h"
#include "replication/walsender.h"
#include "statement.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"

/* What is large while a message is read or parsed in vain. */
#define LARGE_FOR_A_MESSAGE		((Size) 64 * 1024)

/* What may be refused although an error is in flight, once. */
#define LARGE_FOR_AN_ERROR		((Size) 1024 * 1024)

static Size empty_error_context;	/* bytes that ErrorContext has in use */
static bool refused_in_error = false;	/* since it was empty last */
static bool paused = false;		/* see refuse_pause() */
static sigjmp_buf *top_level = NULL;	/* where errors of no statement go */

/* Bytes of ErrorContext that are in use. */
static Size
error_context_bytes(void)
{
	MemoryContextCounters counters = {0};

	ErrorContext->methods->stats(ErrorContext, NULL, NULL, &counters, true);
	return counters.totalspace - counters.freespace;
}

/*
 * refuse_start
 *		See what ErrorContext holds while there is no error.
 */
void
refuse_start(void)
{
	empty_error_context = error_context_bytes();
}

/*
 * refuse_within_float
 *		Whether a request that does not fit passes as a small one, or as a
 *		block of the catalog caches.
 */
bool
refuse_within_float(Size bytes)
{
	if (bytes > statement_small())
		return caches_grant(bytes);
	return ledger_held() + (int64) bytes <= statement_ceiling();
}

static void
count_buffer_lock(LWLock *lock, LWLockMode mode, void *count)
{
	if (lock->tranche == LWTRANCHE_BUFFER_CONTENT)
		(*(uint32 *) count)++;
}

/*
 * The locks of what is shared for one parallel statement, and goes with it.
 * Those of statistics and of what lives longer are not among them.
 */
static void
count_parallel_lock(LWLock *lock, LWLockMode mode, void *count)
{
	if (lock->tranche == LWTRANCHE_PARALLEL_HASH_JOIN ||
		lock->tranche == LWTRANCHE_PARALLEL_QUERY_DSA)
		(*(uint32 *) count)++;
}

/*
 * interrupts_held_off
 *		Whether something other than harmless locks holds off interrupts.
 *
 * Each lock holds them off once, and an ERROR releases locks.  ANALYZE copies
 * its whole sample under the lock of a buffer, and a segment is made under
 * locks of the parallel statement that it is for; what holds other locks
 * changes shared memory, and may leave it half changed.
 */
static bool
interrupts_held_off(RefusedFor purpose)
{
	uint32		locks = 0;

	if (InterruptHoldoffCount == 0)
		return false;
	ForEachLWLockHeldByMe(purpose == FOR_SEGMENT ? count_parallel_lock : count_buffer_lock,
						  &locks);
	return InterruptHoldoffCount > locks;
}

/*
 * refuse_is_for_server
 *		Whether a segment that is made now is for more than this session: locks
 *		are held that are not of a parallel statement.
 */
bool
refuse_is_for_server(void)
{
	return interrupts_held_off(FOR_SEGMENT);
}

static bool
error_is_in_flight(void)
{
	return error_context_bytes() > empty_error_context;
}

/*
 * survives_error
 *		Whether an error in flight can be followed by this one.
 *
 * Each refusal deepens the stack of errors, which may have five; so only one
 * that is large is refused, and no other before the error is dealt with.
 */
static bool
survives_error(Size bytes)
{
	if (!error_is_in_flight())
	{
		refused_in_error = false;
		return true;
	}
	return bytes > LARGE_FOR_AN_ERROR && !refused_in_error;
}

/*
 * refuse_note
 *		A request is refused, after refuse_is_safe() has agreed.
 */
void
refuse_note(void)
{
	refused_in_error = error_is_in_flight();
}

/*
 * reads_message
 *		Whether the request is for the body of a message from the client.
 *
 * Cancelling is held off while a message is read, since an error in the middle
 * of it ends the session.  pq_getmessage() catches errors while it makes room
 * for the body, and discards the body then; so errors go elsewhere than at top
 * level, where all else that is done while reading has them go.  (Before the
 * first statement of a session top level is not known; it has nothing else to
 * do then.)
 */
static bool
reads_message(Size bytes)
{
	return bytes > LARGE_FOR_A_MESSAGE && pq_is_reading_msg() &&
		(top_level == NULL ? CurrentMemoryContext == MessageContext :
		 PG_exception_stack != top_level);
}

/*
 * parses_in_vain
 *		Whether the request is large and the transaction has failed already:
 *		what is left to do then is to parse statements, until one ends it.
 */
static bool
parses_in_vain(Size bytes)
{
	return bytes > LARGE_FOR_A_MESSAGE && IsAbortedTransactionBlockState();
}

/*
 * refuse_at_top_level
 *		To be called where errors go to the session's main loop.
 */
void
refuse_at_top_level(void)
{
	top_level = PG_exception_stack;
}

/*
 * refuse_serves_client
 *		Whether this process serves a client, as its backend or a worker of
 *		it.
 */
bool
refuse_serves_client(void)
{
	return IsUnderPostmaster &&
		(IsParallelWorker() ? !InitializingParallelWorker :
		 MyBackendType == B_BACKEND && !am_walsender);
}

/*
 * refuse_is_safe
 *		Whether an ERROR does no harm here and now.
 *
 * bytes: what is asked for
 */
bool
refuse_is_safe(Size bytes, RefusedFor purpose)
{
	if (paused || !refuse_serves_client() || !IsNormalProcessingMode() ||
		CritSectionCount > 0 || interrupts_held_off(purpose) ||
		PG_exception_stack == NULL || ExitOnAnyError || proc_exit_inprogress)
		return false;
	if (!reads_message(bytes) &&
		(QueryCancelHoldoffCount > 0 ||
		 (!IsTransactionState() && !parses_in_vain(bytes))))
		return false;
	return survives_error(bytes);
}

/*
 * refuse_pause
 *		Refuse nothing for a while: for what must answer at any limit, or cannot
 *		do without, and takes little.
 *
 * Returns what was so before, which the caller sets again.  An error in
 * between may leave it; it ends with the transaction.
 */
bool
refuse_pause(bool pause)
{
	bool		before = paused;

	paused = pause;
	return before;
}
