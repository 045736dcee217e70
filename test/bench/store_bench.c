/*-------------------------------------------------------------------------
 *
 * store_bench.c
 *	  How fast a row store is: beside a row context, beside a pointer, over many
 *	  rows, and when it is compacted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "bench.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(sift_bench_store);
PG_FUNCTION_INFO_V1(sift_bench_store_many);
PG_FUNCTION_INFO_V1(sift_bench_store_compact);

/* Rows that stay in the processor's cache, and how often each is read. */
#define CACHED_ROWS			1000
#define CACHED_TURNS		20000

static double
seconds(void)
{
	return clock_ns() / 1e9;
}

static Datum
answer(FunctionCallInfo fcinfo, double first, double second)
{
	TupleDesc	desc;
	Datum		values[2] = {Float8GetDatum(first), Float8GetDatum(second)};
	bool		isnull[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(desc, values, isnull));
}

/* Have the first one removed and a new one put, as in a queue; ns a pair. */
static double
turn_over_store(int size, int64 rows, int64 pairs)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "bench store");
	uint64	   *ids = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(uint64));
	void	   *address;
	double		start;

	for (int64 i = 0; i < rows; i++)
		ids[i] = SiftRowPut(store, size, &address);
	start = seconds();
	for (int64 i = 0, at = 0; i < pairs; i++)
	{
		SiftRowRemove(store, ids[at]);
		ids[at] = SiftRowPut(store, size, &address);
		*(int64 *) address = i;
		if (++at == rows)
			at = 0;
	}
	start = seconds() - start;
	pfree(ids);
	MemoryContextDelete(store);
	return start * 1e9 / pairs;
}

static double
turn_over_context(int size, int64 rows, int64 pairs)
{
	MemoryContext context = SiftRowContextCreate(CurrentMemoryContext, "bench row", SIFT_ROW_DEFAULT_SIZES);
	void	  **chunks = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(void *));
	double		start;

	for (int64 i = 0; i < rows; i++)
		chunks[i] = MemoryContextAlloc(context, size);
	start = seconds();
	for (int64 i = 0, at = 0; i < pairs; i++)
	{
		pfree(chunks[at]);
		chunks[at] = MemoryContextAlloc(context, size);
		*(int64 *) chunks[at] = i;
		if (++at == rows)
			at = 0;
	}
	start = seconds() - start;
	pfree(chunks);
	MemoryContextDelete(context);
	return start * 1e9 / pairs;
}

/* ns that a put and a remove take, and a palloc and a pfree in a row context. */
Datum
sift_bench_store(PG_FUNCTION_ARGS)
{
	int			size = PG_GETARG_INT32(0);
	int64		rows = PG_GETARG_INT64(1);
	int64		pairs = Max(rows * 3, 10000000);
	double		store = turn_over_store(size, rows, pairs);

	return answer(fcinfo, store, turn_over_context(size, rows, pairs));
}

/*
 * In cache: ns of a get of a row and of the use of a pointer, both in random
 * order.  Over many rows: gets a second, among which come a tenth as many pairs of
 * put and remove.
 */
Datum
sift_bench_store_many(PG_FUNCTION_ARGS)
{
	int64		rows = PG_GETARG_INT64(0);
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "bench store");
	uint64	   *ids = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(uint64));
	int		  **pointers = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(int *));
	int		   *order = palloc(CACHED_ROWS * sizeof(int));
	volatile int64 sum = 0;
	int64		read = 0;
	void	   *address;
	double		start;
	double		by_id;
	double		by_pointer;
	double		gets;
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int64 i = 0; i < rows; i++)
	{
		ids[i] = SiftRowPut(store, 100, &address);
		pointers[i] = address;
		*pointers[i] = i;
	}
	for (int i = 0; i < CACHED_ROWS; i++)
		order[i] = pg_prng_uint64_range(&random, 0, CACHED_ROWS - 1);

	start = seconds();
	for (int turn = 0; turn < CACHED_TURNS; turn++)
	{
		for (int i = 0; i < CACHED_ROWS; i++)
			read += *(int *) SiftRowGet(store, ids[order[i]]);
	}
	by_id = (seconds() - start) * 1e9 / ((double) CACHED_TURNS * CACHED_ROWS);
	sum = read;
	start = seconds();
	for (int turn = 0; turn < CACHED_TURNS; turn++)
	{
		for (int i = 0; i < CACHED_ROWS; i++)
			read += *(volatile int *) pointers[order[i]];
	}
	by_pointer = (seconds() - start) * 1e9 / ((double) CACHED_TURNS * CACHED_ROWS);
	sum = read;

	start = seconds();
	for (int64 i = 0; i < rows; i++)
	{
		read += *(int *) SiftRowGet(store, ids[pg_prng_uint64(&random) % rows]);
		if (i % 10 == 0)
		{
			int64		replaced = pg_prng_uint64(&random) % rows;

			SiftRowRemove(store, ids[replaced]);
			ids[replaced] = SiftRowPut(store, 100, &address);
			*(int *) address = i;
		}
	}
	gets = rows / (seconds() - start);
	sum = read;
	(void) sum;
	MemoryContextDelete(store);
	return answer(fcinfo, by_id - by_pointer, gets);
}

/*
 * Rows of which one of "keep" stays, and is pinned while the others are removed;
 * GB a second that compaction gives back afterwards, and that it copies.
 */
Datum
sift_bench_store_compact(PG_FUNCTION_ARGS)
{
	int			size = PG_GETARG_INT32(0);
	int64		rows = PG_GETARG_INT64(1);
	int			keep = PG_GETARG_INT32(2);
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "bench store");
	uint64	   *ids = MemoryContextAllocHuge(CurrentMemoryContext, rows * sizeof(uint64));
	int64		live = 0;
	void	   *address;
	double		start;
	Size		given;
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int64 i = 0; i < rows; i++)
	{
		ids[i] = SiftRowPut(store, size, &address);
		memset(address, 1, size);
		if (pg_prng_uint64_range(&random, 0, keep - 1) == 0)
		{
			(void) SiftRowPin(store, ids[i]);
			live += size;
		}
		else
			ids[i] |= (uint64) 1 << 63;
	}
	/* slots are below 2^30, so the highest bit of an id can be a mark */
	for (int64 i = 0; i < rows; i++)
	{
		if (ids[i] >> 63 != 0)
			SiftRowRemove(store, ids[i] & ~((uint64) 1 << 63));
	}
	for (int64 i = 0; i < rows; i++)
	{
		if (ids[i] >> 63 == 0)
			SiftRowUnpin(store, ids[i]);
	}
	start = seconds();
	given = SiftRowStoreCompact(store, (Size) -1);
	start = seconds() - start;
	MemoryContextDelete(store);
	return answer(fcinfo, given / start / 1e9, live / start / 1e9);
}
