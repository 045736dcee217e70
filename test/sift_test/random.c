/*
 * random.c
 *	  Random operations on many contexts, compared with a model.
 *
 * The model is a table of chunks: address, size and the byte it is filled
 * with.  After each operation the chunk that it touched is compared, and from
 * time to time everything: contents of all chunks, bytes of all contexts,
 * and, where the server is built with checks, its own walk of all contexts.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_random);

#define CONTEXTS			12
#define CHUNKS				20000
#define CHECK_EVERY			20000

typedef struct Chunk
{
	char	   *address;		/* NULL: none */
	Size		size;
	int			context;
	char		byte;
} Chunk;

typedef struct Model
{
	pg_prng_state random;
	MemoryContext parent;
	MemoryContext contexts[CONTEXTS];
	Chunk	   *chunks;
	Size		live;			/* bytes of all chunks */
	Size		most;			/* and the most that they may become */
	bool		limited;		/* there is a limit, so requests may be refused */
	int64		refused;
} Model;

/* A row context, a batch context, a bare one, and so on. */
static bool
is_row(int context)
{
	return context % 3 == 0;
}

static bool
is_bare(int context)
{
	return context % 3 == 2;
}

static void
create(Model *model, int i)
{
	int			growth = pg_prng_uint64_range(&model->random, 0, 3);

	if (is_row(i))
		model->contexts[i] = SiftRowContextCreate(model->parent, "sift_test random row",
												  (Size) 1024 << growth, (Size) 65536 << growth);
	else
		model->contexts[i] = SiftBatchContextCreate(model->parent, "sift_test random batch",
													is_bare(i) ? SIFT_BATCH_BARE : 0,
													(Size) 1024 << growth, (Size) 262144 << growth);
}

/* Mostly small, up to 64 MB. */
static Size
random_size(Model *model)
{
	uint64		bits = pg_prng_uint64_range(&model->random, 0, 9999);
	Size		most;

	if (bits < 7000)
		most = 256;
	else if (bits < 9300)
		most = 8 * 1024;
	else if (bits < 9950)
		most = 128 * 1024;
	else if (bits < 9998)
		most = 2 * 1024 * 1024;
	else
		most = 64 * 1024 * 1024;
	return pg_prng_uint64_range(&model->random, 0, most);
}

static void
fill(Model *model, Chunk *chunk)
{
	chunk->byte = (char) pg_prng_uint64(&model->random);
	memset(chunk->address, chunk->byte, chunk->size);
}

static void
check(const Chunk *chunk, Size size)
{
	if (size == 0)
		return;
	EXPECT_EQUAL(chunk->address[0], chunk->byte);
	EXPECT(memcmp(chunk->address, chunk->address + 1, size - 1) == 0);
}

static void
alloc_chunk(Model *model, Chunk *chunk)
{
	Size		size = random_size(model);
	int			context = pg_prng_uint64_range(&model->random, 0, CONTEXTS - 1);
	int			flags = MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE;

	if (model->live + size > model->most)
		return;
	if (size % 3 == 0 && size < 1000 && !model->limited)
		chunk->address = is_row(context) ? SiftRowAlloc(model->contexts[context], size) :
			SiftBatchAlloc(model->contexts[context], size);
	else
	{
		if (size <= 8192 && size % 7 == 0)
			flags |= MCXT_ALLOC_ZERO;
		chunk->address = MemoryContextAllocExtended(model->contexts[context], size, flags);
	}
	if (chunk->address == NULL)
	{
		model->refused++;
		return;
	}
	chunk->size = size;
	chunk->context = context;
	model->live += size;
	if (flags & MCXT_ALLOC_ZERO)
	{
		chunk->byte = 0;
		check(chunk, size);
	}
	fill(model, chunk);
}

static void
free_chunk(Model *model, Chunk *chunk)
{
	check(chunk, chunk->size);
	if (is_bare(chunk->context))
		return;
	if (is_row(chunk->context) && chunk->size % 2 == 0)
		SiftRowFree(chunk->address);
	else
		pfree(chunk->address);
	model->live -= chunk->size;
	chunk->address = NULL;
}

static void
resize_chunk(Model *model, Chunk *chunk)
{
	Size		size = random_size(model);
	char	   *resized;

	if (is_bare(chunk->context) || model->live + size > model->most)
		return;
	resized = repalloc_extended(chunk->address, size, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);
	if (resized == NULL)
	{
		model->refused++;
		check(chunk, chunk->size);
		return;
	}
	chunk->address = resized;
	check(chunk, Min(size, chunk->size));
	model->live += size - chunk->size;
	chunk->size = size;
	fill(model, chunk);
}

/* Reset or delete one context and forget its chunks. */
static void
end_context(Model *model, bool reset)
{
	int			context = pg_prng_uint64_range(&model->random, 0, CONTEXTS - 1);

	for (int i = 0; i < CHUNKS; i++)
	{
		Chunk	   *chunk = &model->chunks[i];

		if (chunk->address == NULL || chunk->context != context)
			continue;
		check(chunk, chunk->size);
		model->live -= chunk->size;
		chunk->address = NULL;
	}
	if (reset)
	{
		MemoryContextReset(model->contexts[context]);
		EXPECT_EQUAL(model->contexts[context]->mem_allocated, 1024);
		return;
	}
	MemoryContextDelete(model->contexts[context]);
	create(model, context);
}

static void
check_all(Model *model)
{
	SiftUsageData usage;
	int64		all_kinds = 0;

	for (int i = 0; i < CHUNKS; i++)
	{
		if (model->chunks[i].address != NULL)
			check(&model->chunks[i], model->chunks[i].size);
	}
	SiftUsage(&usage);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
	{
		EXPECT(usage.kinds[kind].bytes >= 0);
		all_kinds += usage.kinds[kind].bytes;
	}
	EXPECT_EQUAL(usage.charged_bytes, all_kinds);
	EXPECT_EQUAL(MemoryContextMemAllocated(model->parent, true) - model->parent->mem_allocated,
				 used_bytes());
	EXPECT(usage.limit_bytes < 0 || usage.charged_bytes <= usage.limit_bytes);
#ifdef MEMORY_CONTEXT_CHECKING
	MemoryContextCheck(model->parent);
#endif
}

Datum
sift_test_random(PG_FUNCTION_ARGS)
{
	int64		seed = PG_GETARG_INT64(0);
	int			operations = PG_GETARG_INT32(1);
	Model		model = {.most = PG_GETARG_INT64(2)};

	SiftUsageData usage;

	SiftUsage(&usage);
	model.limited = usage.limit_bytes >= 0;
	EXPECT_EQUAL(used_bytes(), 0);
	pg_prng_seed(&model.random, seed);
	model.chunks = palloc0(sizeof(Chunk) * CHUNKS);
	model.parent = AllocSetContextCreate(CurrentMemoryContext, "sift_test random",
										 ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < CONTEXTS; i++)
		create(&model, i);
	for (int i = 1; i <= operations; i++)
	{
		Chunk	   *chunk = &model.chunks[pg_prng_uint64_range(&model.random, 0, CHUNKS - 1)];
		uint64		what = pg_prng_uint64_range(&model.random, 0, 99999);

		if (what < 10)
			end_context(&model, what < 5);
		else if (chunk->address == NULL)
			alloc_chunk(&model, chunk);
		else if (what % 4 == 0)
			resize_chunk(&model, chunk);
		else
			free_chunk(&model, chunk);
		if (i % CHECK_EVERY == 0)
		{
			CHECK_FOR_INTERRUPTS();
			check_all(&model);
		}
	}
	check_all(&model);
	MemoryContextDelete(model.parent);
	EXPECT_EQUAL(used_bytes(), 0);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("seed %lld: %d operations, %lld refused",
											  (long long) seed, operations,
											  (long long) model.refused)));
}
