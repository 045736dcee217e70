/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What a user is told when a request is refused.
 *
 * The error is PostgreSQL's own: 53200, "out of memory".  It is raised by
 * mcxt.c, so the hint is added by an error context callback.  That reaches the
 * client at any log level, and PL handlers too.  The callback goes with the
 * error: whoever catches an error puts the chain of callbacks back to what it
 * was.
 *
 * So the callback may be pushed only when the error is certain.  Left in the
 * chain it would be taken off in place of somebody else's, whose frame then
 * dangles in the chain for good.  A request with MCXT_ALLOC_NO_OOM gets NULL
 * and no error.  Where a method sees that flag, the refusal knows.  On 15 it
 * does not: what tells them apart there is that mcxt.c prints the statistics
 * of all contexts right before its error.  A context without memory, the
 * witness, is put into the tree at the refusal, as the first that is asked for
 * its statistics; it pushes the callback.
 *
 * What this cannot see, on 15: that the statistics are printed for an
 * allocation that failed after one that was refused without an error, in the
 * same statement (transaction, where the library is not preloaded).  That
 * error gets the hint too.
 *
 * Nothing here allocates before the error is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger.h"
#include "method_table.h"
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
static MemoryContextData witness;

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
	report_forget();
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

/* The error is certain, and the next thing to happen. */
static void
expect_error(void)
{
	static ErrorContextCallback callback = {.callback = add_hint};

	state = ERROR_FOLLOWS;
	for (ErrorContextCallback *c = error_context_stack; c != NULL; c = c->previous)
	{
		if (c == &callback)
			return;
	}
	callback.previous = error_context_stack;
	error_context_stack = &callback;
}

/* ----------------------------------------------------------------
 *		The witness: a context that only listens
 * ----------------------------------------------------------------
 */

static METHOD_ALLOC(witness_alloc)
{
	return NULL;
}

static void
witness_ignore(MemoryContext context)
{
}

static bool
witness_is_empty(MemoryContext context)
{
	return true;
}

/*
 * witness_stats
 *		Statistics are asked for: of what comes before an error, if they are
 *		printed.
 */
static void
witness_stats(MemoryContext context, MemoryStatsPrintFunc printfunc,
			  void *passthru, MemoryContextCounters *totals,
			  bool print_to_stderr)
{
	if (print_to_stderr && printfunc != NULL && state == REFUSED)
		expect_error();
}

static const MemoryContextMethods witness_methods = {
	.alloc = witness_alloc,
	.reset = witness_ignore,
	.delete_context = witness_ignore,
	.is_empty = witness_is_empty,
#ifdef MEMORY_CONTEXT_CHECKING
	.check = witness_ignore,
#endif
	.stats = witness_stats
};

/* ----------------------------------------------------------------
 *		What others call
 * ----------------------------------------------------------------
 */

/*
 * report_start
 *		Make the witness, outside the tree.  Once a process or more often.
 */
void
report_start(void)
{
	if (!METHOD_SEES_FLAGS && witness.methods == NULL)
		method_table_create(&witness, ROW_CONTEXT_TAG, &witness_methods,
							NULL, "Sift witness");
}

/*
 * report_refusal
 *		A request was refused: have the hint added to its error.
 *
 * outcome_known: the caller sees the flags of the request
 * no_error: and they ask for no error
 *
 * With a known outcome the caller raises the error next.
 */
void
report_refusal(bool outcome_known, bool no_error)
{
	report_forget();
	refusal = ledger_last_refusal;
	if (!outcome_known)
	{
		state = REFUSED;
		MemoryContextSetParent(&witness, TopMemoryContext);
	}
	else if (!no_error)
		expect_error();
}

/*
 * report_forget
 *		No error came of the last refusal, or it has its hint.
 *
 * To be called when a statement begins and when a transaction ends.
 */
void
report_forget(void)
{
	if (state == NO_REFUSAL)
		return;
	state = NO_REFUSAL;
	if (!METHOD_SEES_FLAGS)
		MemoryContextSetParent(&witness, NULL);
}
