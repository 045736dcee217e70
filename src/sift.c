/*-------------------------------------------------------------------------
 *
 * sift.c
 *	  Entry of the library: settings, hooks, the start and end of a backend.
 *
 * Nothing else knows about PostgreSQL's start-up.  Loaded through
 * shared_preload_libraries, the library has its slots in shared memory and
 * every process of the server has its account there.  Loaded into a single
 * session, it works for that session.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "block.h"
#include "caches.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/executor.h"
#include "explain_option.h"
#include "guard.h"
#include "idle.h"
#include "ledger.h"
#include "method_table.h"
#include "optimizer/planner.h"
#include "parser/analyze.h"
#include "refusal_ring.h"
#include "refuse.h"
#include "report.h"
#include "row_context.h"
#include "row_store.h"
#include "segments.h"
#include "server_heap.h"
#include "slots.h"
#include "statement.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "tracking.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static void track(void);

static int	memory_limit = -1;
static int	max_memory_limit = -1;
static int	max_memory_limit_assigned = 0;	/* how often */
static int	total_memory_limit = -1;
static bool account_server = true;

static const struct config_enum_entry tracked_statements_options[] = {
	{"none", TRACK_NONE, false},
	{"top", TRACK_TOP, false},
	{"all", TRACK_ALL, false},
	{NULL, 0, false}
};

static bool hooks_are_set = false;

/* Utility statements that are being executed, one within another. */
static int	utility_depth = 0;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze_hook = NULL;
static planner_hook_type prev_planner_hook = NULL;
static ExecutorStart_hook_type prev_ExecutorStart_hook = NULL;
static ExecutorRun_hook_type prev_ExecutorRun_hook = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish_hook = NULL;
static ProcessUtility_hook_type prev_ProcessUtility_hook = NULL;

/*
 * limit_changed
 *		A limit was set.  The slot is taken here too, so that a session shows
 *		its limit even where nothing that the server takes is charged.
 */
static void
limit_changed(LedgerLimit which, int limit)
{
	grants_attach();
	ledger_set_limit(which, limit);
	statement_limit_changed(which);
	if (limit >= 0 && server_heap_is_accounted())
		guard_contexts();
}

static void
assign_memory_limit(int newval, void *extra)
{
	limit_changed(LIMIT_OF_USER, newval);
}

static void
assign_max_memory_limit(int newval, void *extra)
{
	max_memory_limit_assigned++;
	limit_changed(LIMIT_OF_SUPERUSER, newval);
}

static void
assign_total_memory_limit(int newval, void *extra)
{
	limit_changed(LIMIT_OF_TOTAL, newval);
}

static void
assign_track_statements(int newval, void *extra)
{
	if (newval != TRACK_NONE)
		track();
}

static void
assign_log_min_peak(int newval, void *extra)
{
	if (newval >= 0)
		track();
}

/*
 * define_max_memory_limit
 *		Define it, over the text that may be there from before.
 *
 * A session to which the library comes by session_preload_libraries finds
 * settings that were made when it began as mere text.  PostgreSQL leaves out
 * what the user may not set, with a WARNING, and with it the limit of the role
 * that it took the place of.  So the session ends, as it does where the library
 * was there before.  A superuser's typing error ends none.
 */
static void
define_max_memory_limit(void)
{
	bool		is_there = GetConfigOption("sift.max_memory_limit", true, false) != NULL;

	max_memory_limit_assigned = 0;
	DefineCustomIntVariable("sift.max_memory_limit",
							"Sets the most that sift.memory_limit can be in effect.",
							"-1 means no limit.",
							&max_memory_limit,
							-1, -1, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB,
							NULL, assign_max_memory_limit, NULL);
	/* the default is assigned in any case */
	if (is_there && max_memory_limit_assigned == 1 && IsInitProcessingMode() && !superuser())
		ereport(FATAL,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set parameter \"%s\"", "sift.max_memory_limit"),
				 errdetail("The session was to begin with a value that was not accepted.")));
}

/*
 * define_settings
 *		Define the settings, each once: _PG_init is run again when it ended
 *		in an error.
 */
static void
define_settings(void)
{
	static int	defined = 0;

	if (defined < 1)
		DefineCustomIntVariable("sift.memory_limit",
								"Limits the memory that this session may hold.",
								"-1 means no limit. sift.max_memory_limit counts where it is smaller.",
								&memory_limit,
								-1, -1, MAX_KILOBYTES,
								PGC_USERSET, GUC_UNIT_KB,
								NULL, assign_memory_limit, NULL);
	defined = Max(defined, 1);
	if (defined < 2)
		define_max_memory_limit();
	defined = Max(defined, 2);
	if (defined < 3)
		DefineCustomIntVariable("sift.total_memory_limit",
								"Limits the memory that all backends together may hold.",
								"-1 means no limit. It takes shared_preload_libraries.",
								&total_memory_limit,
								-1, -1, INT_MAX,
								PGC_SIGHUP, GUC_UNIT_MB,
								NULL, assign_total_memory_limit, NULL);
	defined = Max(defined, 3);
	if (defined < 4)
		DefineCustomBoolVariable("sift.account_server",
								 "Counts and limits what the server program takes by malloc.",
								 NULL,
								 &account_server,
								 true,
								 process_shared_preload_libraries_in_progress ?
								 PGC_POSTMASTER : PGC_SU_BACKEND, 0,
								 NULL, NULL, NULL);
	defined = Max(defined, 4);
	if (defined < 5)
		DefineCustomEnumVariable("sift.track_statements",
								 "Selects the statements whose memory is kept.",
								 "\"all\" are those that are part of others, too.",
								 &tracked_statements,
								 TRACK_TOP, tracked_statements_options,
								 PGC_SUSET, 0,
								 NULL, assign_track_statements, NULL);
	defined = Max(defined, 5);
	if (defined < 6)
		DefineCustomIntVariable("sift.max_statements",
								"Sets the most statements whose memory is kept.",
								NULL,
								&statement_table_most,
								5000, 100, INT_MAX / 2,
								process_shared_preload_libraries_in_progress ?
								PGC_POSTMASTER : PGC_SU_BACKEND, 0,
								NULL, NULL, NULL);
	defined = Max(defined, 6);
	if (defined < 7)
		DefineCustomIntVariable("sift.log_min_peak",
								"Logs statements whose peak of memory is this or more.",
								"-1 logs none.",
								&tracking_log_min_peak,
								-1, -1, MAX_KILOBYTES,
								PGC_SUSET, GUC_UNIT_KB,
								NULL, assign_log_min_peak, NULL);
	defined = Max(defined, 7);
	MarkGUCPrefixReserved("sift");
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	slots_request();
	segments_request();
	refusal_ring_request();
	statement_table_request();
}


/*
 * is_nested
 *		Whether a statement is part of another one: of a utility statement, or
 *		of a trigger, which a COMMIT may call.  A query that is part of another
 *		query is not seen here; it follows one that was checked.
 */
static bool
is_nested(void)
{
	return utility_depth > 0 || DatumGetInt32(pg_trigger_depth(NULL)) > 0;
}

/*
 * check_statement
 *		A statement begins, or goes on; see whether it may.
 *
 * utility: the statement, NULL for one that is planned
 * tables: the range table of that, NIL for a utility statement
 *
 * Raises 53200.
 */
static void
check_statement(Node *utility, List *tables, int64 queryid)
{
	if (ActivePortal == NULL && !is_nested())
		refuse_at_top_level();
	if (!server_heap_is_accounted())
		return;
	idle_statement();
	if (likely(!grant_window.limited))
		return;
	guard_contexts();
	guard_types();
	caches_drop_refused();
	if (!is_nested() && !statement_may_begin(utility, tables))
	{
		tracking_refused(queryid);
		statement_refuse();
	}
}

/*
 * after_parse_analysis
 *		A backend that inherited its limit shows it from its first statement;
 *		what a refusal has left of the last one is forgotten; and what parsing
 *		has needed is of no statement, though one may be open.
 */
static void
after_parse_analysis(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (prev_post_parse_analyze_hook)
		prev_post_parse_analyze_hook(pstate, query, jstate);
	if (unlikely(!slots_attached))
		grants_attach();
	report_forget();
	if (tracking_applies())
		peak_fold();
	check_statement(query->utilityStmt, query->rtable, query->queryId);
}

/* Plan a query, by what was there before or PostgreSQL itself. */
static inline PlannedStmt *
plan_untracked(Query *query, const char *query_string, int options, ParamListInfo params)
{
	if (prev_planner_hook)
		return prev_planner_hook(query, query_string, options, params);
	return standard_planner(query, query_string, options, params);
}

static pg_noinline PlannedStmt *
plan_tracked(Query *query, const char *query_string, int options, ParamListInfo params)
{
	PlannedStmt *result;
	TrackedWork work;

	tracking_begin(&work, query->queryId);
	PG_TRY();
	{
		result = plan_untracked(query, query_string, options, params);
	}
	PG_CATCH();
	{
		tracking_end(&work);
		PG_RE_THROW();
	}
	PG_END_TRY();
	tracking_planned(&work);
	return result;
}

/* A query is planned. */
static PlannedStmt *
plan_query(Query *query, const char *query_string, int options, ParamListInfo params)
{
	if (tracking_applies())
		return plan_tracked(query, query_string, options, params);
	return plan_untracked(query, query_string, options, params);
}

/* A query is executed, maybe one that was parsed before. */
static void
start_executor(QueryDesc *query, int eflags)
{
	bool		tracked = tracking_applies();

	check_statement(NULL, query->plannedstmt->rtable, query->plannedstmt->queryId);
	if (tracked)
		tracking_before_start(query);
	if (prev_ExecutorStart_hook)
		prev_ExecutorStart_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (tracked)
		tracking_after_start(query);
}

static inline void
run_untracked(RUN_PARAMETERS)
{
	if (prev_ExecutorRun_hook)
		prev_ExecutorRun_hook(RUN_ARGUMENTS);
	else
		standard_ExecutorRun(RUN_ARGUMENTS);
}

static pg_noinline void
run_tracked(RUN_PARAMETERS)
{
	TrackedWork work;

	tracking_begin_query(&work, query);
	PG_TRY();
	{
		run_untracked(RUN_ARGUMENTS);
	}
	PG_CATCH();
	{
		tracking_end(&work);
		PG_RE_THROW();
	}
	PG_END_TRY();
	tracking_end_query(&work);
}

/* A query is run, to its end or for some rows. */
static void
run_executor(RUN_PARAMETERS)
{
	if (unlikely(IsParallelWorker()))
	{
		tracking_watch_worker();
		run_untracked(RUN_ARGUMENTS);
	}
	else if (tracking_applies())
		run_tracked(RUN_ARGUMENTS);
	else
		run_untracked(RUN_ARGUMENTS);
}

static inline void
finish_untracked(QueryDesc *query)
{
	if (prev_ExecutorFinish_hook)
		prev_ExecutorFinish_hook(query);
	else
		standard_ExecutorFinish(query);
}

static pg_noinline void
finish_tracked(QueryDesc *query)
{
	TrackedWork work;

	tracking_begin_query(&work, query);
	PG_TRY();
	{
		finish_untracked(query);
	}
	PG_CATCH();
	{
		tracking_end(&work);
		PG_RE_THROW();
	}
	PG_END_TRY();
	tracking_end_query(&work);
}

/* A query was run; triggers follow, if it has changed anything. */
static void
finish_executor(QueryDesc *query)
{
	if (!tracking_is_finished_by_running(query) && tracking_applies())
		finish_tracked(query);
	else
		finish_untracked(query);
}

/* A utility statement is executed. */
static void
process_utility(PlannedStmt *statement, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *destination,
				QueryCompletion *completion)
{
	ProcessUtility_hook_type process = prev_ProcessUtility_hook ?
		prev_ProcessUtility_hook : standard_ProcessUtility;
	TrackedWork work;
	bool		tracked;
	bool		for_explain = tracking_for_explain;

	check_statement(statement->utilityStmt, NIL, statement->queryId);
	/* what they execute is a statement by itself */
	tracked = tracking_applies() && !IsA(statement->utilityStmt, ExecuteStmt) &&
		!IsA(statement->utilityStmt, PrepareStmt);
	if (server_heap_is_accounted() && !is_nested())
		statement_execute(statement->utilityStmt);
	if (tracked)
		tracking_begin(&work, statement->queryId);
	utility_depth++;
	PG_TRY();
	{
		process(statement, query_string, read_only_tree, context, params,
				environment, destination, completion);
		/* the statement itself may be gone by now */
		if (server_heap_is_accounted() && utility_depth == 1)
		{
			statement_done();
			idle_begin();
		}
	}
	PG_FINALLY();
	{
		utility_depth--;
		tracking_for_explain = for_explain;
		if (tracked)
			tracking_end(&work);
	}
	PG_END_TRY();
}

/*
 * end_transaction
 *		What was kept for the transaction's sake goes back or is forgotten.
 */
static void
end_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			tracking_abort(1);
			/* FALLTHROUGH */
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			row_pins_end_transaction();
			if (ledger_bytes(SIFT_IDLE) > 0)
				block_settle();
			report_forget();
			(void) refuse_pause(false);
			if (server_heap_is_accounted())
				idle_transaction_ended();
			break;
		default:
			break;
	}
}

static void
end_subtransaction(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB || event == SUBXACT_EVENT_ABORT_SUB)
		row_pins_end_subtransaction(id);
	if (event == SUBXACT_EVENT_ABORT_SUB)
		tracking_abort(GetCurrentTransactionNestLevel());
}

/* Have the library called where it must be, each hook once. */
static void
set_hooks(void)
{
	if (hooks_are_set)
		return;
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_subtransaction, NULL);
	prev_post_parse_analyze_hook = post_parse_analyze_hook;
	post_parse_analyze_hook = after_parse_analysis;
	prev_ExecutorStart_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_executor;
	prev_ProcessUtility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	explain_option_start(track);
	hooks_are_set = true;
	if (tracked_statements != TRACK_NONE || tracking_log_min_peak >= 0)
		track();
}

/*
 * track
 *		Statements are to be looked at, and to have ids: have the library called
 *		for that, too.  Nothing is done before the other hooks are set.
 */
static void
track(void)
{
	static bool tracks = false;

	if (!hooks_are_set || tracks)
		return;
	tracks = true;
	if (statement_table_exists())
		EnableQueryId();
	prev_planner_hook = planner_hook;
	planner_hook = plan_query;
	prev_ExecutorRun_hook = ExecutorRun_hook;
	ExecutorRun_hook = run_executor;
	prev_ExecutorFinish_hook = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_executor;
}

/*
 * start_shared_memory
 *		Find or make the shared memory.  All libraries are loaded by now, so
 *		that Sift's hooks come first: pg_stat_statements takes the ids of utility
 *		statements away.
 */
static void
start_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	slots_startup();
	segments_startup();
	refusal_ring_startup();
	statement_table_startup();
	set_hooks();
}

/* Shared memory is made when all libraries are loaded, once or after a crash. */
static void
set_shared_memory_hooks(void)
{
	static bool hooked = false;

	if (hooked)
		return;
	hooked = true;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}

/*
 * warn_not_preloaded
 *		Who creates the extension in a session that loads the library for that
 *		believes that all is done: a SET in the next session succeeds, and there
 *		is no limit.
 */
static void
warn_not_preloaded(void)
{
	ereport(WARNING,
			(errmsg("sift is not loaded via \"shared_preload_libraries\""),
			 errdetail("Sessions that do not load the library themselves have no limit, whatever is set."),
			 errhint("Add \"sift\" to \"shared_preload_libraries\" and restart the server.")));
}

void
_PG_init(void)
{
	method_table_register(&row_context_methods);
	report_start();
	define_settings();
	if (account_server)
		(void) server_heap_start();
	if (!process_shared_preload_libraries_in_progress)
	{
		set_hooks();
		if (creating_extension)
			warn_not_preloaded();
		return;
	}
	set_shared_memory_hooks();
	if (server_heap_is_accounted())
		segments_start();
}
