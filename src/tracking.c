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
 * Between its stretches a call is pending, in a variable, until its execution
 * ends.  Where another one starts meanwhile, and where an execution stops after
 * some rows, the call is put into the query's own memory, and goes with it.
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

#include "executor/executor.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "refuse.h"
#include "storage/ipc.h"
#include "top_contexts.h"
#include "tracking.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

int			tracked_statements = TRACK_TOP;
int			tracking_log_min_peak = -1;
int			tracking_depth = 0;
bool		tracking_for_explain = false;

/* The stretches that are being worked on. */
static TrackedWork *innermost = NULL;

/*
 * The call that is between two stretches of its work, and its query.  Without
 * a query it may be one that was planned, no more.
 */
const QueryDesc *tracking_pending_query = NULL;
static struct
{
	bool		is_planned;		/* and there is no query */
	bool		is_starting;	/* the query is in ExecutorStart */
	int			depth;			/* tracking_depth between its stretches */
	StatementKey key;
	StatementCall call;
	int64		held;			/* bytes, before it was started */
	int64		held_started;	/* and after */
	uint64		folds;			/* peak_folds when it began to start */
}			pending;

/* A call in the memory of its query. */
typedef struct Execution
{
	dlist_node	node;
	MemoryContextCallback callback;
	const QueryDesc *query;
	StatementCall call;
} Execution;

static dlist_head executions = DLIST_STATIC_INIT(executions);

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

/* The largest contexts, when the session held that many bytes. */
static TopContexts sample;
static int64 sampled_at = 0;

static bool must_log_near_limit = false;

/*
 * errdetail_contexts
 *		A message's detail: which statement it is, and the largest contexts.
 *
 * A worker knows the statement by what its leader has reported.
 */
static int
errdetail_contexts(int64 queryid)
{
	StringInfoData text;

	if (queryid == 0)
		queryid = (int64) pgstat_get_my_query_id();
	initStringInfo(&text);
	for (int i = 0; i < sample.count; i++)
		appendStringInfo(&text, "%s\"%s\" %lld kB", i > 0 ? ", " : "",
						 sample.contexts[i].name, (long long) sample.contexts[i].bytes / 1024);
	errdetail_log("Query identifier: %lld. Largest contexts: %s.", (long long) queryid, text.data);
	pfree(text.data);
	return 0;
}

static void
take_sample(void)
{
	top_contexts_find(&sample);
	sampled_at = ledger_held();
}

static void
log_near_limit(void)
{
	bool		paused = refuse_pause(true);

	must_log_near_limit = false;
	take_sample();
	ereport(LOG,
			(errmsg("statement has passed %d%% of its memory limit: %lld of %lld kB",
					NEAR_LIMIT, (long long) ledger_held() / 1024,
					(long long) ledger_limit() / 1024),
			 errdetail_contexts(innermost != NULL ? innermost->key.queryid : 0)));
	refuse_pause(paused);
}

/* Log a statement whose peak is large enough, once. */
static void
log_peak(const StatementKey *key, StatementCall *call)
{
	int64		limit = ledger_limit();
	bool		paused;

	if (call->is_logged || call->use.peak < (int64) tracking_log_min_peak * 1024)
		return;
	call->is_logged = true;
	paused = refuse_pause(true);
	if (sampled_at == 0)
		take_sample();
	ereport(LOG,
			(limit < 0 ?
			 errmsg("memory of statement: peak %lld kB, no limit",
					(long long) call->use.peak / 1024) :
			 errmsg("memory of statement: peak %lld kB, limit %lld kB",
					(long long) call->use.peak / 1024, (long long) limit / 1024),
			 errdetail_contexts(key->queryid)));
	refuse_pause(paused);
}

/* Whether the session holds nearly all that it may. */
static bool
is_near_limit(void)
{
	return ledger_limit() > 0 && ledger_held() > ledger_limit() / 100 * NEAR_LIMIT;
}

/*
 * grown
 *		The session has taken some MB more (grants_on_growth).
 *
 * Called in the middle of a request for memory: so contexts are looked at,
 * which only reads, and a line is logged where an ERROR would be safe as well.
 */
static void
grown(void)
{
	/* what is logged takes memory, too */
	grant_window.watched = false;
	if (tracking_log_min_peak < 0)
		return;
	if (innermost != NULL &&
		ledger_held() - innermost->frame.held >= (int64) tracking_log_min_peak * 1024 &&
		ledger_held() > sampled_at + sampled_at / 4)
		take_sample();
	if (is_near_limit() && pg_atomic_exchange_u32(&my_session->near_limit, 1) == 0)
		must_log_near_limit = true;
	if (must_log_near_limit && refuse_is_safe(0, FOR_MEMORY))
		log_near_limit();
	grant_window.watched = true;
}

/* A statement of its own begins that may have to be logged. */
static void
watch(void)
{
	sampled_at = 0;
	must_log_near_limit = false;
	pg_atomic_write_u32(&my_session->near_limit, is_near_limit());
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

/* What was refused and waived since this was done last goes to a call. */
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
		work->call.use.refusals += refused;
		work->call.use.waived += waived;
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
	int64		peak;

	Assert(work == innermost);
	take_refusals(NULL);
	innermost = work->outer;
	tracking_depth--;
	peak = call->kept + peak_end(&work->frame);
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
		if (must_log_near_limit)
			log_near_limit();
		log_peak(key, call);
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
	dlist_delete(&((Execution *) execution)->node);
}

/* Put a call into the memory of its query. */
static void
put_aside(const QueryDesc *query, const StatementCall *call)
{
	MemoryContext context = query->estate->es_query_cxt;
	Execution  *execution = MemoryContextAlloc(context, sizeof(Execution));

	execution->query = query;
	execution->call = *call;
	execution->callback.func = forget_execution;
	execution->callback.arg = execution;
	MemoryContextRegisterResetCallback(context, &execution->callback);
	dlist_push_head(&executions, &execution->node);
}

/* The call of a query that was put aside, NULL if it was not. */
static Execution *
find_execution(const QueryDesc *query)
{
	dlist_iter	iter;

	dlist_foreach(iter, &executions)
	{
		Execution  *execution = dlist_container(Execution, node, iter.cur);

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
	if (tracking_pending_query != NULL)
		return;
	keep(work);
	pending.is_planned = true;
	pending.depth = tracking_depth;
	pending.key = work->key;
	pending.call = work->call;
}

/*
 * add_start
 *		What is left of starting the pending query is part of the call, and so
 *		is the peak, if nothing else came in between.
 */
static void
add_start(void)
{
	StatementCall *call = &pending.call;
	int64		most = pending.held_started;

	if (pending.folds == peak_folds)
		most = Max(most, my_account->peak_bytes);
	call->use.peak = Max(call->use.peak, call->kept + most - pending.held);
	call->kept = Max(call->kept + pending.held_started - pending.held, 0);
}

/*
 * tracking_before_start
 *		The execution of a query is about to be started.
 */
void
tracking_before_start(const QueryDesc *query)
{
	int64		queryid = (int64) query->plannedstmt->queryId;

	if (unlikely(tracking_pending_query != NULL))
	{
		add_start();
		put_aside(tracking_pending_query, &pending.call);
	}
	/* planned just now: what that has needed is part of the call */
	if (!pending.is_planned || pending.depth != tracking_depth ||
		pending.key.queryid != queryid)
		memset(&pending.call, 0, sizeof(pending.call));
	set_key(&pending.key, queryid);
	pending.depth = tracking_depth;
	tracking_pending_query = query;
	take_refusals(NULL);
	peak_fold();
	pending.folds = peak_folds;
	pending.held = ledger_held();
	pending.is_starting = true;
	pending.is_planned = false;
}

/*
 * tracking_after_start
 *		It was started.
 */
void
tracking_after_start(const QueryDesc *query)
{
	if (tracking_pending_query != query)
		return;
	pending.is_starting = false;
	pending.held_started = ledger_held();
}

/*
 * tracking_abort
 *		A transaction or part of it has failed.  If the execution of a query was
 *		being started then, that is what has failed.
 */
void
tracking_abort(void)
{
	if (tracking_pending_query != NULL && pending.is_starting)
	{
		tracking_after_start(tracking_pending_query);
		take_refusals(&pending.call.use);
		add_start();
		add(&pending.key, &pending.call);
	}
	tracking_pending_query = NULL;
	pending.is_planned = false;
}

/* The call of a query that is not pending. */
static void
recall(TrackedWork *work, const QueryDesc *query)
{
	Execution  *execution = find_execution(query);

	set_key(&work->key, (int64) query->plannedstmt->queryId);
	if (execution != NULL)
		work->call = execution->call;
	else
	{
		memset(&work->call, 0, sizeof(work->call));
		work->call.is_added = query->already_executed;
	}
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
	if (likely(tracking_pending_query == query))
	{
		bool		just_started = pending.folds == peak_folds;

		take_refusals(&pending.call.use);
		tracking_pending_query = NULL;
		if (unlikely(!just_started))
			add_start();
		work->key = pending.key;
		work->call = pending.call;
		if (likely(just_started))
			peak_begin_after_fold(&work->frame, pending.held);
		else
			peak_begin(&work->frame);
	}
	else
	{
		take_refusals(NULL);
		recall(work, query);
		peak_begin(&work->frame);
	}
	begin(work);
}

/*
 * tracking_end_query
 *		It was run, or finished, without an error.
 *
 * may_repeat: it may be run again, for more rows
 */
void
tracking_end_query(TrackedWork *work, const QueryDesc *query, bool may_repeat)
{
	Execution  *execution;

	tracking_end(work);
	if (!may_repeat && tracking_is_finished_by_running(query) && !tracking_for_explain)
		return;
	keep(work);
	work->call.is_added = true;
	work->call.added = work->call.use;
	if (!may_repeat && dlist_is_empty(&executions) && tracking_pending_query == NULL)
	{
		pending.is_planned = false;
		pending.depth = tracking_depth;
		tracking_pending_query = query;
		pending.key = work->key;
		pending.call = work->call;
		pending.held = pending.held_started = ledger_held();
		pending.folds = 0;
		return;
	}
	execution = find_execution(query);
	if (execution != NULL)
		execution->call = work->call;
	else
		put_aside(query, &work->call);
}

/*
 * tracking_query_ends
 *		The execution of the pending query is about to end.
 */
void
tracking_query_ends(void)
{
	tracking_pending_query = NULL;
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

	if (tracking_pending_query != NULL && tracking_pending_query->plannedstmt == plan)
		return pending.call.use.peak;
	dlist_foreach(iter, &executions)
	{
		Execution  *execution = dlist_container(Execution, node, iter.cur);

		if (execution->query->plannedstmt == plan)
			return execution->call.use.peak;
	}
	return -1;
}
