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
#include "compat.h"
#include "ledger.h"
#include "method_table.h"
#include "parser/analyze.h"
#include "report.h"
#include "row_context.h"
#include "slots.h"
#include "storage/ipc.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static int	memory_limit = -1;
static int	max_memory_limit = -1;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static post_parse_analyze_hook_type prev_post_parse_analyze_hook = NULL;

/*
 * The slot is taken here too, so that a session shows its limit before it
 * has charged anything.
 */
static void
assign_memory_limit(int newval, void *extra)
{
	ledger_set_limits(newval, max_memory_limit);
	slots_attach();
}

static void
assign_max_memory_limit(int newval, void *extra)
{
	ledger_set_limits(memory_limit, newval);
	slots_attach();
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
		DefineCustomIntVariable("sift.max_memory_limit",
								"Sets the most that sift.memory_limit can be in effect.",
								"-1 means no limit.",
								&max_memory_limit,
								-1, -1, MAX_KILOBYTES,
								PGC_SUSET, GUC_UNIT_KB,
								NULL, assign_max_memory_limit, NULL);
	defined = Max(defined, 2);
	MarkGUCPrefixReserved("sift");
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	slots_request();
}

static void
start_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	slots_startup();
}

/*
 * before_statement
 *		A backend that inherited its limit shows it from its first statement;
 *		what a refusal has left of the last one is forgotten.
 */
static void
before_statement(ParseState *pstate, Query *query, JumbleState *jstate)
{
	if (prev_post_parse_analyze_hook)
		prev_post_parse_analyze_hook(pstate, query, jstate);
	if (unlikely(!slots_attached))
		slots_attach();
	report_forget();
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
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			block_settle();
			report_forget();
			break;
		default:
			break;
	}
}

void
_PG_init(void)
{
	static bool hooked = false;

	method_table_register(&row_context_methods);
	report_start();
	if (!hooked)
	{
		RegisterXactCallback(end_transaction, NULL);
		hooked = true;
		if (process_shared_preload_libraries_in_progress)
		{
			prev_shmem_request_hook = shmem_request_hook;
			shmem_request_hook = request_shared_memory;
			prev_shmem_startup_hook = shmem_startup_hook;
			shmem_startup_hook = start_shared_memory;
			prev_post_parse_analyze_hook = post_parse_analyze_hook;
			post_parse_analyze_hook = before_statement;
		}
	}
	define_settings();
}
