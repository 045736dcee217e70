/*
 * turnover.c
 *	  Memory that is taken and given back again and again.
 */
#include "postgres.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_cross_zero);
PG_FUNCTION_INFO_V1(sift_test_churn);
PG_FUNCTION_INFO_V1(sift_test_replace);

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

/*
 * Replace chunks in random order, each 20 times on average, and fill them.
 */
Datum
sift_test_replace(PG_FUNCTION_ARGS)
{
	int			min_size = PG_GETARG_INT32(0);
	int			max_size = PG_GETARG_INT32(1);
	int			count = PG_GETARG_INT32(2);
	MemoryContext context = SiftRowContextCreate(CurrentMemoryContext, "sift_test replace",
												 SIFT_ROW_DEFAULT_SIZES);
	char	  **chunks = palloc0(count * sizeof(char *));
	int		   *sizes = palloc0(count * sizeof(int));
	int64		live = 0;
	double		held;
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int64 n = 0; n < (int64) count * 21; n++)
	{
		int			i = n < count ? n : pg_prng_uint64_range(&random, 0, count - 1);

		if (chunks[i] != NULL)
		{
			EXPECT(chunks[i][0] == (char) i && chunks[i][sizes[i] - 1] == (char) i);
			pfree(chunks[i]);
			live -= sizes[i] + CHECKING_BYTES;
		}
		sizes[i] = pg_prng_uint64_range(&random, min_size, max_size);
		chunks[i] = MemoryContextAlloc(context, sizes[i]);
		memset(chunks[i], i, sizes[i]);
		live += sizes[i] + CHECKING_BYTES;
	}
	held = (double) MemoryContextMemAllocated(context, false) / live;
	MemoryContextDelete(context);
	PG_RETURN_FLOAT8(held);
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
