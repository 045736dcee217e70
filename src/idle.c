/*-------------------------------------------------------------------------
 *
 * idle.c
 *	  When a session gives back the memory that it keeps.
 *
 * Between statements memory stays warm.  It goes back when no statement has
 * begun for a second, and when one begins and the session has kept far more
 * for a second than it needed.  Not at the end of a transaction, where locks
 * are still held.
 *
 * Code cannot run in a session that waits for its client, but for what the
 * server itself does there: when it is told that it has to catch up with
 * invalidation messages, it starts and ends a transaction.  A timer says so,
 * and the end of that transaction, outside of any signal handler and with no
 * lock, gives memory back.  So an idle period costs one transaction, and one
 * look at the queue of invalidation messages, if there was something to give
 * back, and nothing after that.
 *
 * What this cannot reach: a session that idles within a transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "block.h"
#include "compat.h"
#include "free_heap.h"
#include "idle.h"
#include "ledger.h"
#include "replication/walsender.h"
#include "storage/sinval.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* How long a session must have begun no statement; ms. */
#define IDLE_TIME				1000

/* What is worth giving back when the session idles; bytes. */
#define WORTH_A_TRIM			((int64) 1024 * 1024)

/* What is worth asking for the time; bytes. */
#define WORTH_A_LOOK			((int64) 4 * 1024 * 1024)

/* What a session that works may keep beyond what it needed lately; bytes. */
#define MOST_KEPT				((int64) 64 * 1024 * 1024)

/* How long it needed it "lately"; ms. */
#define LATELY					1000

bool		idle_attention = true;
static bool trims = false;		/* a client's session that keeps memory, with a
								 * timer */
static TimeoutId timer;
static volatile sig_atomic_t idle_trim_is_due = false;
static bool busy_trim_is_due = false;

/* The most that was charged in this span of time and the one before. */
static TimestampTz span_began = 0;
static int64 needed_now = 0;
static int64 needed_before = 0;

/*
 * time_is_up
 *		The timer's handler: runs as a signal handler.
 *
 * Within a transaction nothing is done; the end of it sets the timer again.
 */
static void
time_is_up(void)
{
	if (IsTransactionOrTransactionBlock())
		return;
	idle_trim_is_due = true;
	HandleCatchupInterrupt();
}

/*
 * start
 *		Once a process, when its first statement begins: keep memory warm.
 *
 * Ends the session when ten other timers of extensions are there already.
 */
static void
start(void)
{
	bool		is_session = MyBackendType == B_BACKEND && !am_walsender;

	if (!is_session && !IsParallelWorker())
		return;
	if (!free_heap_keep_warm() || !is_session)
		return;
	timer = RegisterTimeout(USER_TIMEOUT, time_is_up);
	trims = true;
}

/* Give back all that is kept. */
static void
trim(void)
{
	idle_trim_is_due = false;
	busy_trim_is_due = false;
	block_trim();
	free_heap_trim();
	grants_give_back(0);
}

/*
 * idle_statement_begins
 *		A statement begins: the first one, or one after the session has idled or
 *		has kept too much.
 */
void
idle_statement_begins(void)
{
	static bool started = false;

	idle_attention = false;
	if (!started)
	{
		started = true;
		start();
	}
	if (!trims)
		return;
	idle_trim_is_due = false;
	if (get_timeout_active(timer))
		disable_timeout(timer, false);
	if (busy_trim_is_due)
		trim();
}

/*
 * keeps_more_than_needed
 *		Whether a session that works keeps far more than it needed lately.
 */
static bool
keeps_more_than_needed(int64 highest)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		limit = ledger_limit();
	int64		most = limit < 0 ? MOST_KEPT : Min(MOST_KEPT, limit / 4);

	if (TimestampDifferenceExceeds(span_began, now, LATELY))
	{
		needed_before = TimestampDifferenceExceeds(span_began, now, 2 * LATELY) ? 0 : needed_now;
		needed_now = 0;
		span_began = now;
	}
	needed_now = Max(needed_now, highest);
	return my_account->charged_bytes + my_account->free_heap_bytes >
		Max(needed_now, needed_before) + most;
}

/*
 * idle_begin
 *		The session may idle from now on: set the timer, if there is something
 *		to give back.
 *
 * To be called when a transaction or a utility statement has ended: a ROLLBACK
 * of a transaction that has failed before ends none, and errors stop timers.
 */
void
idle_begin(void)
{
	if (!trims || my_account->free_heap_bytes <= WORTH_A_TRIM)
		return;
	idle_attention = true;
	if (!get_timeout_active(timer))
		enable_timeout_after(timer, IDLE_TIME);
}

/*
 * idle_transaction_ended
 *		A transaction has ended: publish what is kept, and see to it that it
 *		goes back in time.
 */
void
idle_transaction_ended(void)
{
	int64		highest = grant_window.highest;

	free_heap_publish();
	if (!trims)
		return;
	if (idle_trim_is_due)
		trim();
	else if (my_account->free_heap_bytes > WORTH_A_LOOK)
		busy_trim_is_due = keeps_more_than_needed(highest);
	idle_begin();
}
