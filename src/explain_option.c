/*-------------------------------------------------------------------------
 *
 * explain_option.c
 *	  EXPLAIN (ANALYZE, SIFT): the peak of the statement that is explained.
 *
 * From 18 on extensions can have options of EXPLAIN; before, this does nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "explain_option.h"

#ifdef HAVE_EXPLAIN_OPTIONS

#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "tracking.h"

static int	extension_id;
static void (*have_it_tracked) (void);

static explain_validate_options_hook_type prev_explain_validate_options_hook = NULL;
static explain_per_plan_hook_type prev_explain_per_plan_hook = NULL;

/* Whether the option is on; kept as a pointer that is there or not. */
static bool
is_wanted(ExplainState *es)
{
	return GetExplainExtensionState(es, extension_id) != NULL;
}

static void
take_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	SetExplainExtensionState(es, extension_id, defGetBoolean(option) ? es : NULL);
}

/*
 * validate_options
 *		All options are known: without ANALYZE there is no peak.
 */
static void
validate_options(ExplainState *es, List *options, ParseState *pstate)
{
	if (prev_explain_validate_options_hook)
		prev_explain_validate_options_hook(es, options, pstate);
	if (!is_wanted(es))
		return;
	if (!es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "SIFT")));
	have_it_tracked();
	tracking_for_explain = true;
}

static void
explain_plan(PlannedStmt *plan, IntoClause *into, ExplainState *es,
			 const char *query_string, ParamListInfo params, QueryEnvironment *environment)
{
	int64		peak;

	if (prev_explain_per_plan_hook)
		prev_explain_per_plan_hook(plan, into, es, query_string, params, environment);
	if (!is_wanted(es))
		return;
	peak = tracking_peak_of_plan(plan);
	if (peak >= 0)
		ExplainPropertyInteger("Peak Memory", "kB", (peak + 1023) / 1024, es);
}

/*
 * explain_option_start
 *		Have EXPLAIN know the option.
 *
 * track: called when it is used, to have statements looked at
 */
void
explain_option_start(void (*track) (void))
{
	have_it_tracked = track;
	extension_id = GetExplainExtensionId("sift");
	RegisterExtensionExplainOption("sift", take_option);
	prev_explain_validate_options_hook = explain_validate_options_hook;
	explain_validate_options_hook = validate_options;
	prev_explain_per_plan_hook = explain_per_plan_hook;
	explain_per_plan_hook = explain_plan;
}

#else

void
explain_option_start(void (*track) (void))
{
}

#endif
