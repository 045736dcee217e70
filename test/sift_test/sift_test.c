/*
 * sift_test.c
 *	  C tests of Sift: what cannot be reached from SQL.
 *
 * The tests are the other files of this folder; here is what they share, and
 * what can only be seen in the postmaster.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sift_test.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);
PG_FUNCTION_INFO_V1(sift_test_refuse_charge);

char		hint[256];

static MemoryContext test_context;

int
expected_error(void)
{
	test_context = CurrentMemoryContext;
	return 0;
}

int
caught_error(void)
{
	ErrorData  *error;
	int			sqlstate;

	MemoryContextSwitchTo(test_context);
	error = CopyErrorData();
	FlushErrorState();
	sqlstate = error->sqlerrcode;
	strlcpy(hint, error->hint ? error->hint : "", sizeof(hint));
	FreeErrorData(error);
	return sqlstate;
}

int64
used_bytes(void)
{
	SiftUsageData usage;

	SiftUsage(&usage);
	return usage.kinds[SIFT_ROW].bytes + usage.kinds[SIFT_BATCH].bytes +
		usage.kinds[SIFT_LARGE].bytes;
}

int64
refusals(void)
{
	SiftUsageData usage;
	int64		sum = 0;

	SiftUsage(&usage);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		sum += usage.kinds[kind].refusals;
	return sum;
}

void
set_limit(Size bytes)
{
	char		value[32];

	snprintf(value, sizeof(value), "%zukB", bytes / 1024);
	SetConfigOption("sift.memory_limit", value, PGC_USERSET, PGC_S_SESSION);
}

void
set_no_limit(void)
{
	SetConfigOption("sift.memory_limit", "-1", PGC_USERSET, PGC_S_SESSION);
}

Datum
sift_test_refuse_charge(PG_FUNCTION_ARGS)
{
	SiftGetApi()->test_refuse_charge(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}

/*
 * Preloaded, it asks for a context in the postmaster; the log tells how that
 * ended.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress || !IsPostmasterEnvironment)
		return;
	EXPECT_ERROR(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				 SiftRowContextCreate(TopMemoryContext, "postmaster", SIFT_ROW_DEFAULT_SIZES));
	EXPECT_ERROR(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				 SiftBatchContextCreate(TopMemoryContext, "postmaster", 0, SIFT_BATCH_DEFAULT_SIZES));
	elog(LOG, "sift_test: no context in the postmaster");
	sift_test_nest();
}
