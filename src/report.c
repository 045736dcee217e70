/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What a user is told when a request is refused.
 *
 * The error is PostgreSQL's own: 53200, "out of memory".  It is raised by
 * mcxt.c, so the hint is added by an error context callback, which is pushed
 * when the request is refused.  That reaches the client at any log level, and
 * PL handlers too.  The callback goes with the error: whoever catches an
 * error puts the chain of callbacks back to what it was.
 *
 * A request with MCXT_ALLOC_NO_OOM gets NULL and no error.  Where a method
 * sees that flag nothing is pushed.  On 15 it does not; there the callback
 * may stay in the chain until a caller takes its own callback off, and must
 * not add its hint to some other error of the same code.  What tells them
 * apart is that mcxt.c, and nobody else, prints the statistics of all
 * contexts to stderr right before its error: a Sift context that is asked for
 * them calls report_error_follows().
 *
 * Nothing here allocates before the error is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger.h"
#include "report.h"
#include "slots.h"

/* How far a refusal has got. */
static enum
{
	NO_REFUSAL,
	REFUSED,					/* and it is not known whether that is an error */
	ERROR_FOLLOWS				/* the next error is its error */
} state = NO_REFUSAL;

static Refusal refusal;			/* the one that "state" is about */

#define kind_kb(kind) \
	((my_account->kinds[kind].bytes + 1023) / 1024)

/* The hint for a refusal that a limit has caused. */
static void
hint_limit(void)
{
	errhint("%s is %lld kB; held are %lld kB: row %lld kB, batch %lld kB, large %lld kB, idle %lld kB.",
			ledger_limit_name(),
			(long long) my_account->limit_bytes / 1024,
			(long long) (my_account->charged_bytes + 1023) / 1024,
			(long long) kind_kb(SIFT_ROW), (long long) kind_kb(SIFT_BATCH),
			(long long) kind_kb(SIFT_LARGE), (long long) kind_kb(SIFT_IDLE));
}

/*
 * add_hint
 *		The error context callback.
 */
static void
add_hint(void *arg)
{
	if (state != ERROR_FOLLOWS || geterrcode() != ERRCODE_OUT_OF_MEMORY)
		return;
	state = NO_REFUSAL;
	switch (refusal.reason)
	{
		case REFUSED_BY_LIMIT:
			hint_limit();
			break;
		case REFUSED_BY_SYSTEM:
			errhint("The operating system gave no memory: %s.",
					strerror(refusal.saved_errno));
			break;
		case REFUSED_BY_RANGE:
			errhint("The range of addresses that is reserved for Sift's memory contexts has no room left.");
			break;
		case REFUSED_BY_TEST:
			errhint("The charge was refused for a test.");
			break;
	}
}

/*
 * report_refusal
 *		A request was refused: have the hint added to its error.
 *
 * outcome_known: the caller sees the flags of the request
 * no_error: and they ask for no error
 */
void
report_refusal(bool outcome_known, bool no_error)
{
	static ErrorContextCallback callback = {.callback = add_hint};

	if (outcome_known && no_error)
	{
		state = NO_REFUSAL;
		return;
	}
	refusal = ledger_last_refusal;
	state = outcome_known ? ERROR_FOLLOWS : REFUSED;
	for (ErrorContextCallback *c = error_context_stack; c != NULL; c = c->previous)
	{
		if (c == &callback)
			return;
	}
	callback.previous = error_context_stack;
	error_context_stack = &callback;
}

/*
 * report_error_follows
 *		The server is about to raise an out-of-memory error of a context.
 */
void
report_error_follows(void)
{
	if (state == REFUSED)
		state = ERROR_FOLLOWS;
}
