/*
 * turnover.c
 *	  Memory that is taken and given back again and again.
 */
#include "postgres.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "funcapi.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_cross_zero);
PG_FUNCTION_INFO_V1(sift_test_churn);

/*
 * One palloc and its pfree, many times, in an otherwise empty context.  The
 * two calls of getppid let whoever traces the process find the beginning and
 * the end.
 */
Datum
sift_test_cross_zero(PG_FUNCTION_ARGS)
{
	int			size = PG_GETARG_INT32(0);
	int			times = PG_GETARG_INT32(1);
	MemoryContext context;

	(void) SiftGetApi();
	(void) syscall(SYS_getppid);
	context = SiftRowContextCreate(CurrentMemoryContext, "sift_test zero", SIFT_ROW_DEFAULT_SIZES);
	for (int i = 0; i < times; i++)
	{
		char	   *chunk = MemoryContextAlloc(context, size);

		chunk[0] = 1;
		pfree(chunk);
	}
	(void) syscall(SYS_getppid);
	MemoryContextDelete(context);
	PG_RETURN_VOID();
}

/* Private resident bytes of this process. */
static int64
resident_bytes(void)
{
	FILE	   *file = fopen("/proc/self/statm", "r");
	long		size,
				resident,
				shared;

	EXPECT(file != NULL);
	EXPECT(fscanf(file, "%ld %ld %ld", &size, &resident, &shared) == 3);
	fclose(file);
	return (int64) (resident - shared) * sysconf(_SC_PAGESIZE);
}

static void
one_round(int contexts)
{
	MemoryContext parent = AllocSetContextCreate(CurrentMemoryContext, "sift_test churn",
												 ALLOCSET_DEFAULT_SIZES);
	int64		before = used_bytes();
	MemoryContext *all = palloc(sizeof(MemoryContext) * contexts);

	for (int i = 0; i < contexts; i++)
		all[i] = SiftRowContextCreate(parent, "sift_test churn row", SIFT_ROW_DEFAULT_SIZES);
	EXPECT(used_bytes() - before <= (int64) contexts * 1100);
	for (int i = 0; i < contexts; i++)
	{
		for (int j = 0; j < 1000; j++)
			memset(MemoryContextAlloc(all[i], 100 + j % 100), 1, 100);
	}
	EXPECT(used_bytes() - before >= (int64) contexts * 100000);
	MemoryContextDelete(parent);
	EXPECT_EQUAL(used_bytes(), before);
	pfree(all);
}

Datum
sift_test_churn(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 1; i <= PG_GETARG_INT32(1); i++)
	{
		SiftUsageData usage;
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		one_round(PG_GETARG_INT32(0));
		SiftUsage(&usage);
		values[0] = Int32GetDatum(i);
		values[1] = Int64GetDatum(usage.charged_bytes);
		values[2] = Int64GetDatum(resident_bytes());
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
