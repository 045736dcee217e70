/*-------------------------------------------------------------------------
 *
 * pin_bench.c
 *	  What is held when most of many rows have been freed.
 *
 * A session fills memory with rows, frees all but a few, which lie anywhere, and
 * is then asked by how much its private memory has grown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <malloc.h>
#include <sys/mman.h>

#include "bench.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(sift_bench_pin);
PG_FUNCTION_INFO_V1(sift_bench_pinned);
PG_FUNCTION_INFO_V1(sift_bench_pin_trim);

/* Sizes of rows, bytes. */
#define LEAST_SIZE			40
#define MOST_SIZE			400
#define MEAN_SIZE			((LEAST_SIZE + MOST_SIZE) / 2)

static const Peer *peer = NULL; /* NULL: a context */
static int64 memory_before = 0; /* private memory, bytes */

/*
 * Fill "bytes" of memory with rows and free each of them but for one in "keep",
 * in the order in which they were made; returns the bytes of those that stay,
 * until the session ends.
 */
Datum
sift_bench_pin(PG_FUNCTION_ARGS)
{
	char	   *kind = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int64		count = PG_GETARG_INT64(1) / MEAN_SIZE;
	int			keep = PG_GETARG_INT32(2);
	bool		is_store = strcmp(kind, "store") == 0;
	MemoryContext context = NULL;
	uint64	   *rows;			/* addresses, or ids */
	int64		kept = 0;
	pg_prng_state random;

	peer = peer_find(kind);
	memory_before = private_memory();
	rows = mmap(NULL, count * sizeof(uint64), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rows == MAP_FAILED)
		elog(ERROR, "could not map memory: %m");
	if (is_store)
		context = SiftRowStoreCreate(TopMemoryContext, "pin");
	else if (strcmp(kind, "row") == 0)
		context = SiftRowContextCreate(TopMemoryContext, "pin", SIFT_ROW_DEFAULT_SIZES);
	else if (strcmp(kind, "generation") == 0)
		context = GenerationContextCreate(TopMemoryContext, "pin", ALLOCSET_DEFAULT_SIZES);
	else if (strcmp(kind, "aset") == 0)
		context = AllocSetContextCreate(TopMemoryContext, "pin", ALLOCSET_DEFAULT_SIZES);
	else if (peer == NULL)
		elog(ERROR, "unknown kind: \"%s\"", kind);

	pg_prng_seed(&random, 1);
	for (int64 i = 0; i < count; i++)
	{
		Size		size = pg_prng_uint64_range(&random, LEAST_SIZE, MOST_SIZE);
		void	   *row;

		if (is_store)
			rows[i] = SiftRowPut(context, size, &row);
		else
		{
			row = peer != NULL ? peer->alloc(size) : MemoryContextAlloc(context, size);
			rows[i] = (uintptr_t) row;
		}
		memset(row, 1, size);
		*(int *) row = size;
	}
	for (int64 i = 0; i < count; i++)
	{
		void	   *row = is_store ? SiftRowGet(context, rows[i]) : (void *) (uintptr_t) rows[i];

		if (pg_prng_uint64_range(&random, 1, keep) == 1)
			kept += *(int *) row;
		else if (is_store)
			SiftRowRemove(context, rows[i]);
		else if (peer != NULL)
			peer->free(row);
		else
			pfree(row);
	}
	munmap(rows, count * sizeof(uint64));
	PG_RETURN_INT64(kept);
}

/* Bytes by which the session has grown since sift_bench_pin began. */
Datum
sift_bench_pinned(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(private_memory() - memory_before);
}

/* Have the allocator give back all that it can. */
Datum
sift_bench_pin_trim(PG_FUNCTION_ARGS)
{
	if (peer != NULL)
		peer->trim();
	else
		malloc_trim(0);
	PG_RETURN_VOID();
}
