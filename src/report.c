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
 * and no error.  Where a method of Sift's sees that flag, the refusal knows;
 * on 15, and in malloc, it does not.  What tells them apart there is that
 * mcxt.c prints the statistics of all contexts right before its error.  A
 * context without memory, the witness, is put into the tree at the refusal, as
 * the first that is asked for its statistics; it pushes the callback.
 *
 * An error that somebody else than mcxt.c raises after a NULL has no hint.
 * What this cannot see: that the statistics are printed for an allocation that
 * failed after one that was refused without an error, in the same statement.
 * That error gets the hint too.
 *
 * The name of a context of the server's is only known from the error, which
 * is read for it (name_context).
 *
 * Each such error writes all contexts to the log, caught or not; a statement
 * that goes on catching them is cancelled in the end.
 *
 * Nothing here allocates before the error is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "caches.h"
#include "compat.h"
#include "context_tree.h"
#include "ledger.h"
#include "method_table.h"
#include "refusal_ring.h"
#include "report.h"

/* Refusals of a top-level statement after which it is cancelled. */
#define MAX_STATEMENT_REFUSALS	100

/* Room for a copy of an error of mcxt.c's. */
#define ERROR_COPY_SIZES		((Size) 0), ((Size) 2048), ((Size) 8192)

/* How far a refusal has got. */
static enum
{
	NO_REFUSAL,
	REFUSED,					/* and it is not known whether that is an error */
	ERROR_FOLLOWS				/* the next error is its error */
} state = NO_REFUSAL;

static Refusal refusal;			/* the one that "state" is about */
static MemoryContextData witness;
static MemoryContext error_copy = NULL; /* made before there is an error */

/*
 * report_limit_hint
 *		For ereport: the hint that a limit is passed, and what is held.
 *
 * advice: a sentence that follows, "" for none
 */
int
report_limit_hint(LedgerLimit limit, const char *advice)
{
	SiftUsageData held;
	char		all[64] = "";
	long long	kb[SIFT_NUM_KINDS];

	slots_session_usage(&held);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		kb[kind] = (held.kinds[kind].bytes + 1023) / 1024;
	if (limit == LIMIT_OF_TOTAL)
		snprintf(all, sizeof(all), " all backends hold %lld kB;",
				 (long long) (grants_total_held() + 1023) / 1024);
	return errhint("%s is %lld kB;%s held are %lld kB: row %lld kB, batch %lld kB, large %lld kB, idle %lld kB, server %lld kB, shared %lld kB.%s%s",
				   ledger_limit_name(limit), (long long) ledger_limit_of(limit) / 1024, all,
				   (long long) (held.charged_bytes + 1023) / 1024,
				   kb[SIFT_ROW], kb[SIFT_BATCH], kb[SIFT_LARGE], kb[SIFT_IDLE],
				   kb[SIFT_SERVER], kb[SIFT_SHARED],
				   advice[0] != '\0' ? " " : "", advice);
}

/* ----------------------------------------------------------------
 *		The name of the context
 * ----------------------------------------------------------------
 */

/*
 * quoted_name
 *		What stands between quotes in a message; false if there is nothing.
 */
static bool
quoted_name(const char *message, char *name, Size size)
{
	const char *start = strchr(message, '"');
	const char *end = start != NULL ? strrchr(start + 1, '"') : NULL;

	if (end == NULL)
		return false;
	strlcpy(name, start + 1, Min(size, (Size) (end - start)));
	return true;
}

/*
 * mentioned_name
 *		The longest name of a context that occurs in a message.
 *
 * For translations that quote otherwise.
 */
static void
mentioned_name(const char *message, char *name, Size size)
{
	name[0] = '\0';
	for (MemoryContext context = TopMemoryContext; context != NULL;
		 context = context_tree_next(context))
	{
		if (strlen(context->name) > strlen(name) && strstr(message, context->name) != NULL)
			strlcpy(name, context->name, size);
	}
}

/* The first number in a message outside of quotes, 0 if there is none. */
static int64
number_in(const char *message)
{
	bool		quoted = false;

	for (; *message != '\0'; message++)
	{
		if (*message == '"')
			quoted = !quoted;
		else if (!quoted && isdigit((unsigned char) *message))
			return strtoll(message, NULL, 10);
	}
	return 0;
}

/*
 * name_context
 *		Find the name of the context in the error that is being raised, and do
 *		what follows from it.
 */
static void
name_context(void)
{
	MemoryContext caller = MemoryContextSwitchTo(error_copy);
	ErrorData  *error = CopyErrorData();
	char		name[NAMEDATALEN];

	if (error->detail != NULL)
	{
		if (!quoted_name(error->detail, name, sizeof(name)))
			mentioned_name(error->detail, name, sizeof(name));
		refusal_ring_amend(name, number_in(error->detail));
		if (CacheMemoryContext != NULL && strcmp(name, CacheMemoryContext->name) == 0)
			caches_drop_soon();
	}
	MemoryContextSwitchTo(caller);
	MemoryContextReset(error_copy);
}

/* ----------------------------------------------------------------
 *		The hint
 * ----------------------------------------------------------------
 */

/* Whether this is VACUUM, which up to 16 takes its memory at once, used or not. */
static bool
is_vacuum(void)
{
	return MyProc != NULL && (MyProc->statusFlags & PROC_IN_VACUUM) != 0;
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
	if (refusal.kind == SIFT_SERVER)
		name_context();
	switch (refusal.reason)
	{
		case REFUSED_BY_LIMIT:
			report_limit_hint(refusal.limit, is_vacuum() ? "VACUUM takes up to maintenance_work_mem." : "");
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
 * cancel_hopeless
 *		Cancel a top-level statement that goes on being refused, as a user
 *		would, which no handler catches.
 */
static void
cancel_hopeless(void)
{
	static TimestampTz statement = 0;
	static int	refusals = 0;

	if (MyBackendType != B_BACKEND && !IsParallelWorker())
		return;
	if (statement != GetCurrentStatementStartTimestamp())
	{
		statement = GetCurrentStatementStartTimestamp();
		refusals = 0;
	}
	if (++refusals <= MAX_STATEMENT_REFUSALS)
		return;
	QueryCancelPending = true;
	InterruptPending = true;
}

/* The error is certain, and the next thing to happen. */
static void
expect_error(void)
{
	static ErrorContextCallback callback = {.callback = add_hint};

	state = ERROR_FOLLOWS;
	if (refusal.reason == REFUSED_BY_LIMIT)
		cancel_hopeless();
	if (refusal.kind == SIFT_SERVER)
		caches_error();
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
 *
 * Raises 53200.
 */
void
report_start(void)
{
	if (witness.methods == NULL)
		method_table_create(&witness, ROW_CONTEXT_TAG, &witness_methods,
							NULL, "Sift witness");
	if (error_copy == NULL)
		error_copy = AllocSetContextCreate(TopMemoryContext, "Sift error", ERROR_COPY_SIZES);
}

/*
 * report_refusal
 *		A request was refused: keep a record, and have the hint added to its
 *		error.
 *
 * context_name: NULL when the caller does not know it
 * requested: bytes asked for
 */
void
report_refusal(const char *context_name, Size requested, RefusalOutcome outcome)
{
	report_forget();
	refusal = ledger_last_refusal;
	refusal_ring_add(refusal.kind, requested, context_name);
	switch (outcome)
	{
		case ERROR_NEXT:
			expect_error();
			break;
		case ERROR_OR_NULL:
			state = REFUSED;
			MemoryContextSetParent(&witness, TopMemoryContext);
			break;
		case NULL_ONLY:
			break;
	}
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
	MemoryContextSetParent(&witness, NULL);
}
