/*-------------------------------------------------------------------------
 *
 * tracking.c
 *	  How much memory each statement of this session takes.
 *
 * A statement is worked on in stretches: it is planned, its execution is
 * started, run, finished; a utility statement is one stretch.  Executions of
 * several statements may interleave, as cursors do, so what a statement needs
 * is put together from its own stretches: what it has kept from those before,
 * and the most that this one has held above what it began with.
 *
 * A call is added to the table at the end of the first stretch that runs it, or
 * fails, and what later ones need on top is added then.  So nothing depends on
 * a statement's coming to an end.
 *
 * Between its stretches a call is kept in the query's own memory, and goes with
 * it.
 *
 * Statements are those of pg_stat_statements, with its ids and levels: EXECUTE
 * and PREPARE are not looked at, the statement that is executed is.  What
 * comes before planning, the text of a statement and its parse tree, is not
 * part of its peak.
 *
 * Parallel workers do not track; what they hold is held by the session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "refuse.h"
#include "storage/ipc.h"
#include "top_contexts.h"
#include "tracking.h"
#include "utils/memutils.h"

int			tracked_statements = TRACK_TOP;
int			tracking_log_min_peak = -1;
int			tracking_depth = 0;
bool		tracking_for_explain = false;

/* The stretches that are being worked on. */
static TrackedWork *innermost = NULL;

/* What was planned last, until its execution is started. */
static struct
{
	bool		exists;
	int			depth;			/* tracking_depth */
	int64		queryid;
	StatementCall call;
}			planned;

/*
 * The queries that are in ExecutorStart, which may run others: not on the C
 * stack, since an error that leaves it is seen when the transaction is aborted.
 * What is started within so many is not known.
 */
#define MOST_STARTS				8

static struct TrackedStart
{
	const QueryDesc *query;		/* not looked into; may be gone */
	int			nest_level;		/* of the transaction */
	StatementKey key;
	StatementCall call;
	int64		held;			/* bytes, before it was started */
	uint64		folds;			/* peak_folds then */
}			starts[MOST_STARTS];
static int	num_starts = 0;

/*
 * An execution that was started, between two stretches of its work.  It goes
 * with the query's own memory, however that ends, and lies there, unless no
 * other one is there.
 */
typedef struct TrackedExecution
{
	dlist_node	node;
	MemoryContextCallback callback;
	const QueryDesc *query;
	StatementKey key;
	StatementCall call;
	int64		held;			/* bytes, before it was started */
	int64		held_started;	/* and after */
	uint64		folds;			/* peak_folds when it began to start */
} TrackedExecution;

static dlist_head executions = DLIST_STATIC_INIT(executions);
static TrackedExecution only_execution;

/* The last top-level statement that has ended. */
static StatementUse last_use;
static int64 last_queryid;
static bool has_last = false;

/* ----------------------------------------------------------------
 *		The log
 * ----------------------------------------------------------------
 */

/* A statement has passed this much of its limit, in hundredths. */
#define NEAR_LIMIT				80

/* Whether it has, for all processes of the session; the leader logs it. */
enum
{
	NOT_NEAR_LIMIT,
	NEAR_LIMIT_PASSED,
	NEAR_LIMIT_KNOWN			/* logged, or so from the beginning */
};

/* The largest contexts, when the session held that many bytes. */
static TopContexts sample;
static int64 sampled_at = 0;


/*
 * errdetail_contexts
 *		A message's detail: which statement it is, and the largest contexts.
 *
 * The text is not allocated: the current context may be one whose next block
 * is large, or whose chunks cannot be freed.
 */
static int
errdetail_contexts(int64 queryid)
{
	char		text[MOST_TOP_CONTEXTS * (NAMEDATALEN + 32)] = "";
	int			length = 0;

	for (int i = 0; i < sample.count; i++)
		length += snprintf(text + length, sizeof(text) - length, "%s\"%s\" %lld kB", i > 0 ? ", " : "",
						   sample.contexts[i].name, (long long) sample.contexts[i].bytes / 1024);
	return errdetail_log("Query identifier: %lld. Largest contexts: %s.", (long long) queryid, text);
}

static void
take_sample(void)
{
	top_contexts_find(&sample);
	sampled_at = ledger_held();
}

/*
 * emit
 *		Log a line, with the largest contexts.
 *
 * Nothing is refused for it, nor is it a place to be cancelled, so it does not go
 * to the client, who may not read; and what tells where an error has come from
 * is not asked.
 */
static void
emit(const char *text, int64 queryid)
{
	bool		paused = refuse_pause(true);
	ErrorContextCallback *stack = error_context_stack;

	error_context_stack = NULL;
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		ereport(LOG_SERVER_ONLY, (errmsg_internal("%s", text), errdetail_contexts(queryid)));
	}
	PG_FINALLY();
	{
		refuse_pause(paused);
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
	error_context_stack = stack;
}

/* Log that a statement has passed most of its limit, if it has, once. */
static void
log_near_limit(int64 queryid, StatementCall *call)
{
	char		text[128];

	if (pg_atomic_read_u32(&my_session->near_limit) != NEAR_LIMIT_PASSED)
		return;
	pg_atomic_write_u32(&my_session->near_limit, NEAR_LIMIT_KNOWN);
	if (call->near_limit_is_logged)
		return;
	call->near_limit_is_logged = true;
	if (sampled_at == 0)
		take_sample();
	snprintf(text, sizeof(text), "statement has passed %d%% of its memory limit, %lld kB",
			 NEAR_LIMIT, (long long) ledger_limit() / 1024);
	emit(text, queryid);
}

/* Log a statement whose peak is large enough, once. */
static void
log_peak(int64 queryid, StatementCall *call)
{
	char		text[128];

	if (call->is_logged || call->use.peak < (int64) tracking_log_min_peak * 1024)
		return;
	call->is_logged = true;
	if (sampled_at == 0)
		take_sample();
	if (ledger_limit() < 0)
		snprintf(text, sizeof(text), "memory of statement: peak %lld kB, no limit",
				 (long long) call->use.peak / 1024);
	else
		snprintf(text, sizeof(text), "memory of statement: peak %lld kB, limit %lld kB",
				 (long long) call->use.peak / 1024, (long long) ledger_limit() / 1024);
	emit(text, queryid);
}

/* Whether so many bytes are nearly all that the session may hold. */
static bool
is_near_limit(int64 held)
{
	return ledger_limit() > 0 && held > ledger_limit() / 100 * NEAR_LIMIT;
}

/* The session has held so many bytes. */
static void
note_near_limit(int64 held)
{
	if (is_near_limit(held) && pg_atomic_read_u32(&my_session->near_limit) == NOT_NEAR_LIMIT)
	{
		pg_atomic_write_u32(&my_session->near_limit, NEAR_LIMIT_PASSED);
		take_sample();
	}
}

/*
 * grown
 *		The session takes some MB more (grants_on_growth).
 *
 * Called in the middle of a request for memory, so contexts are looked at, which
 * only reads, and nothing is logged before a statement begins or ends.
 */
static void
grown(void)
{
	if (tracking_log_min_peak < 0)
		return;
	if (innermost != NULL &&
		ledger_held() - innermost->frame.held >= (int64) tracking_log_min_peak * 1024 &&
		ledger_held() > sampled_at + sampled_at / 4)
		take_sample();
	note_near_limit(ledger_held());
}

/* A statement of its own begins that may have to be logged. */
static void
watch(void)
{
	sampled_at = 0;
	pg_atomic_write_u32(&my_session->near_limit,
						is_near_limit(ledger_held()) ? NEAR_LIMIT_KNOWN : NOT_NEAR_LIMIT);
	grants_on_growth = grown;
	grant_window.watched = true;
}

/*
 * tracking_watch_worker
 *		A parallel worker runs its part of a statement.
 */
void
tracking_watch_worker(void)
{
	grants_on_growth = grown;
	grant_window.watched = tracking_log_min_peak >= 0;
}

/* ----------------------------------------------------------------
 *		Stretches of work
 * ----------------------------------------------------------------
 */

/*
 * abandon
 *		The session ends in the middle of its statements: they count too
 *		(before_shmem_exit).
 */
static void
abandon(int code, Datum arg)
{
	while (innermost != NULL)
		tracking_end(innermost);
}

static inline void
set_key(StatementKey *key, int64 queryid)
{
	key->queryid = queryid;
	key->userid = GetUserId();
	key->dbid = MyDatabaseId;
	key->toplevel = tracking_depth == 0;
}

/* Whether another call of the statement is worked on within this one. */
static bool
is_within_itself(const TrackedWork *work)
{
	for (const TrackedWork *inner = innermost; inner != work; inner = inner->outer)
	{
		if (inner->key.queryid == work->key.queryid && inner->key.userid == work->key.userid &&
			inner->key.toplevel == work->key.toplevel)
			return true;
	}
	return false;
}

/*
 * What was refused and waived since this was done last goes to all calls that
 * are being worked on, or started, and to one that was.
 */
static void
take_refusals_slow(StatementUse *use)
{
	int64		refused;
	int64		waived;

	pg_atomic_exchange_u32(&my_session->has_refusals, 0);
	refused = pg_atomic_exchange_u64(&my_session->refused, 0);
	waived = pg_atomic_exchange_u64(&my_session->waived, 0);
	for (TrackedWork *work = innermost; work != NULL; work = work->outer)
	{
		if (is_within_itself(work))
			continue;
		work->call.use.refusals += refused;
		work->call.use.waived += waived;
	}
	for (int i = 0; i < num_starts; i++)
	{
		starts[i].call.use.refusals += refused;
		starts[i].call.use.waived += waived;
	}
	if (use != NULL)
	{
		use->refusals += refused;
		use->waived += waived;
	}
}

/*
 * take_refusals
 *		A stretch begins or ends: what was refused and waived meanwhile is of
 *		those that are being worked on, and of "use".
 */
static inline void
take_refusals(StatementUse *use)
{
	if (unlikely(pg_atomic_read_u32(&my_session->has_refusals) != 0))
		take_refusals_slow(use);
}

/*
 * begin
 *		A stretch of work begins for the call that is in it; the peak began
 *		already.
 */
static inline void
begin(TrackedWork *work)
{
	static bool registered = false;

	if (unlikely(!registered))
	{
		before_shmem_exit(abandon, (Datum) 0);
		registered = true;
	}
	if (unlikely(tracking_log_min_peak >= 0) && innermost == NULL)
		watch();
	work->outer = innermost;
	innermost = work;
	tracking_depth++;
}

/*
 * finish
 *		The innermost stretch ends: put what it has needed to what the call has.
 */
static inline void
finish(TrackedWork *work)
{
	StatementCall *call = &work->call;
	int64		held = work->frame.held;
	int64		peak;

	Assert(work == innermost);
	take_refusals(NULL);
	innermost = work->outer;
	tracking_depth--;
	peak = peak_end(&work->frame);
	/* the request that has passed it may have been the last one */
	if (unlikely(tracking_log_min_peak >= 0))
		note_near_limit(held + peak);
	peak += call->kept;
	call->use.peak = Max(call->use.peak, peak);
}

/* The call goes on: what is left of the stretch that has ended is kept. */
static void
keep(TrackedWork *work)
{
	work->call.kept = Max(work->call.kept + ledger_held() - work->frame.held, 0);
}

/*
 * add
 *		Keep what a call has needed by now.
 */
static void
add(const StatementKey *key, StatementCall *call)
{
	if (!key->toplevel && tracked_statements != TRACK_ALL)
		return;					/* EXPLAIN will ask for it */
	if (tracked_statements != TRACK_NONE)
		statement_table_add(key, !call->is_added, &call->use, &call->added);
	if (key->toplevel)
	{
		last_use = call->use;
		last_queryid = key->queryid;
		has_last = true;
	}
	if (unlikely(tracking_log_min_peak >= 0))
	{
		log_near_limit(key->queryid, call);
		log_peak(key->queryid, call);
		if (innermost == NULL)
			grant_window.watched = false;
	}
}

/*
 * tracking_begin
 *		A stretch of work begins that is the whole of a statement, or planning
 *		it.
 */
void
tracking_begin(TrackedWork *work, int64 queryid)
{
	take_refusals(NULL);
	memset(&work->call, 0, sizeof(work->call));
	set_key(&work->key, queryid);
	peak_begin(&work->frame);
	begin(work);
}

/*
 * tracking_end
 *		The innermost stretch of work ends, and its statement with it, well or
 *		not.
 */
void
tracking_end(TrackedWork *work)
{
	finish(work);
	add(&work->key, &work->call);
}

/* ----------------------------------------------------------------
 *		Executions of queries
 * ----------------------------------------------------------------
 */

/* An execution has ended. */
static void
forget_execution(void *execution)
{
	dlist_delete(&((TrackedExecution *) execution)->node);
}

/* The execution of a query, NULL if it is not known. */
static TrackedExecution *
find_execution(const QueryDesc *query)
{
	dlist_iter	iter;

	dlist_foreach(iter, &executions)
	{
		TrackedExecution *execution = dlist_container(TrackedExecution, node, iter.cur);

		if (execution->query == query)
			return execution;
	}
	return NULL;
}

/*
 * tracking_planned
 *		A statement was planned.  It counts when it is executed.
 */
void
tracking_planned(TrackedWork *work)
{
	finish(work);
	keep(work);
	if (unlikely(tracking_log_min_peak >= 0))
		log_near_limit(work->key.queryid, &work->call);
	planned.exists = true;
	planned.depth = tracking_depth;
	planned.queryid = work->key.queryid;
	planned.call = work->call;
}

/*
 * tracking_before_start
 *		The execution of a query is about to be started.
 */
void
tracking_before_start(const QueryDesc *query)
{
	int64		queryid = (int64) query->plannedstmt->queryId;
	struct TrackedStart *start;

	if (unlikely(num_starts == MOST_STARTS))
		return;
	take_refusals(NULL);
	start = &starts[num_starts];
	/* planned just now: what that has needed is part of the call */
	if (planned.exists && planned.depth == tracking_depth && planned.queryid == queryid)
		start->call = planned.call;
	else
		memset(&start->call, 0, sizeof(start->call));
	planned.exists = false;
	set_key(&start->key, queryid);
	start->query = query;
	start->nest_level = GetCurrentTransactionNestLevel();
	peak_fold();
	start->folds = peak_folds;
	start->held = ledger_held();
	num_starts++;
}

/*
 * add_start
 *		What is left of starting a query is part of the call, and so is the peak,
 *		if nothing else came in between.
 */
static void
add_start(StatementCall *call, int64 held, int64 held_started, uint64 folds)
{
	int64		most = held_started;

	if (folds == peak_folds)
		most = Max(most, my_account->peak_bytes);
	call->use.peak = Max(call->use.peak, call->kept + most - held);
	call->kept = Max(call->kept + held_started - held, 0);
}

/*
 * tracking_after_start
 *		It was started.
 */
void
tracking_after_start(const QueryDesc *query)
{
	MemoryContext context = query->estate->es_query_cxt;
	TrackedExecution *execution;
	const struct TrackedStart *start;
	int			i = num_starts - 1;

	/* one within may have failed, and somebody has made nothing of it */
	while (i >= 0 && starts[i].query != query)
		i--;
	if (unlikely(i < 0))
		return;
	/* if this is refused, the start has failed */
	execution = dlist_is_empty(&executions) ? &only_execution :
		MemoryContextAlloc(context, sizeof(TrackedExecution));
	start = &starts[i];
	num_starts = i;
	execution->query = query;
	execution->key = start->key;
	execution->call = start->call;
	execution->held = start->held;
	execution->held_started = ledger_held();
	execution->folds = start->folds;
	execution->callback.func = forget_execution;
	execution->callback.arg = execution;
	dlist_push_head(&executions, &execution->node);
	MemoryContextRegisterResetCallback(context, &execution->callback);
}

/*
 * tracking_abort
 *		A transaction has failed, or the part of it that is nested so deep.  The
 *		queries that were being started in it have failed, too.
 */
void
tracking_abort(int nest_level)
{
	if (num_starts > 0)
		take_refusals(NULL);
	while (num_starts > 0 && starts[num_starts - 1].nest_level >= nest_level)
	{
		struct TrackedStart *start = &starts[--num_starts];

		add_start(&start->call, start->held, ledger_held(), start->folds);
		add(&start->key, &start->call);
	}
	planned.exists = false;
}

/*
 * tracking_begin_query
 *		A query is run, or finished.
 *
 * Mostly it was just started; then that is part of the same stretch.
 */
void
tracking_begin_query(TrackedWork *work, const QueryDesc *query)
{
	TrackedExecution *execution = find_execution(query);

	work->execution = execution;
	if (execution != NULL)
	{
		bool		just_started = execution->folds == peak_folds;

		take_refusals(&execution->call.use);
		if (unlikely(!just_started))
			add_start(&execution->call, execution->held, execution->held_started, execution->folds);
		work->key = execution->key;
		work->call = execution->call;
		if (likely(just_started))
			peak_begin_after_fold(&work->frame, execution->held);
		else
			peak_begin(&work->frame);
	}
	else
	{
		take_refusals(NULL);
		memset(&work->call, 0, sizeof(work->call));
		work->call.is_added = query->already_executed;
		set_key(&work->key, (int64) query->plannedstmt->queryId);
		peak_begin(&work->frame);
	}
	begin(work);
}

/*
 * tracking_end_query
 *		It was run, or finished, without an error.
 */
void
tracking_end_query(TrackedWork *work)
{
	TrackedExecution *execution = work->execution;

	tracking_end(work);
	if (execution == NULL)
		return;
	keep(work);
	execution->call = work->call;
	execution->call.is_added = true;
	execution->call.added = work->call.use;
	/* there is no start to be added any more */
	execution->held = execution->held_started = 0;
	execution->folds = 0;
}

/*
 * tracking_refused
 *		A statement is turned down before it begins.
 */
void
tracking_refused(int64 queryid)
{
	TrackedWork work;

	if (!tracking_applies())
		return;
	tracking_begin(&work, queryid);
	work.call.use.refusals = 1;
	tracking_end(&work);
}

/* ----------------------------------------------------------------
 *		What this session can be asked
 * ----------------------------------------------------------------
 */

/*
 * tracking_last
 *		What the last top-level statement needed that has ended; false when there
 *		was none.
 */
bool
tracking_last(int64 *queryid, StatementUse *use)
{
	*queryid = last_queryid;
	*use = last_use;
	return has_last;
}

/*
 * tracking_peak_of_plan
 *		Bytes that an execution of a plan has needed so far, which has run and
 *		not ended; -1 if there is none.
 */
int64
tracking_peak_of_plan(const PlannedStmt *plan)
{
	dlist_iter	iter;

	dlist_foreach(iter, &executions)
	{
		TrackedExecution *execution = dlist_container(TrackedExecution, node, iter.cur);

		if (execution->query->plannedstmt == plan)
			return execution->call.use.peak;
	}
	return -1;
}
