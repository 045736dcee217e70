/*
 * nested.c
 *	  A library that runs statements of its own while a query is being started.
 *
 * Preloaded, and where sift_test.nested is set in the session (a query).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/spi.h"
#include "sift_test.h"
#include "utils/guc.h"

static ExecutorStart_hook_type next_hook;

static void
start_with_another(QueryDesc *query, int eflags)
{
	const char *nested = GetConfigOption("sift_test.nested", true, false);
	static bool is_within = false;

	if (nested != NULL && !is_within)
	{
		is_within = true;
		PG_TRY();
		{
			SPI_connect();
			EXPECT_EQUAL(SPI_execute(nested, true, 0), SPI_OK_SELECT);
			SPI_finish();
		}
		PG_FINALLY();
		{
			is_within = false;
		}
		PG_END_TRY();
	}
	if (next_hook)
		next_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sift_test_nest(void)
{
	next_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_with_another;
}
