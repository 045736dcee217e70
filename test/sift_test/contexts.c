/*
 * contexts.c
 *	  Everything that a server function may do with a memory context.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_contexts);
PG_FUNCTION_INFO_V1(sift_test_misuse);

typedef enum Type
{
	ROW,
	BATCH,
	BARE
} Type;

static MemoryContext
create(Type type)
{
	if (type == ROW)
		return SiftRowContextCreate(CurrentMemoryContext, "sift_test row", SIFT_ROW_DEFAULT_SIZES);
	return SiftBatchContextCreate(CurrentMemoryContext, "sift_test batch",
								  type == BARE ? SIFT_BATCH_BARE : 0,
								  SIFT_BATCH_DEFAULT_SIZES);
}

/* Sizes around everything that matters: words, blocks, large blocks, pages. */
static const Size sizes[] = {
	0, 1, 7, 8, 9, 100, 700, 960, 1000, 1024, 2000, 4040, 4096, 8000, 8192, 8200,
	32767, 65536, 65537, 262143, 262144, 1048576, 2097152, 2097153, 5000000
};

static bool
is_filled(const char *chunk, Size size, char byte)
{
	for (Size i = 0; i < size; i++)
	{
		if (chunk[i] != byte)
			return false;
	}
	return true;
}

/* Chunks of all sizes do not touch each other. */
static void
test_sizes(Type type)
{
	MemoryContext context = create(type);
	MemoryContext caller = MemoryContextSwitchTo(context);
	char	   *chunks[2][lengthof(sizes)];

	EXPECT_EQUAL(context->mem_allocated, 1024);
	EXPECT(MemoryContextIsEmpty(context));
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < lengthof(sizes); i++)
		{
			chunks[round][i] = palloc(sizes[i]);
			EXPECT(chunks[round][i] == (char *) MAXALIGN(chunks[round][i]));
			memset(chunks[round][i], i + round, sizes[i]);
		}
	}
	EXPECT(!MemoryContextIsEmpty(context));
	for (int i = 0; i < lengthof(sizes); i++)
	{
		EXPECT(is_filled(chunks[0][i], sizes[i], i));
		EXPECT(is_filled(chunks[1][i], sizes[i], i + 1));
		if (type == BARE)
			continue;
		EXPECT(GetMemoryChunkContext(chunks[0][i]) == context);
		EXPECT(GetMemoryChunkSpace(chunks[0][i]) >= sizes[i] + sizeof(uint64));
		EXPECT(GetMemoryChunkSpace(chunks[0][i]) <= sizes[i] + sizes[i] / 8 + 4096);
		pfree(chunks[0][i]);
	}
	for (int i = 0; i < lengthof(sizes); i++)
		EXPECT(is_filled(chunks[1][i], sizes[i], i + 1));
	MemoryContextSwitchTo(caller);
	MemoryContextReset(context);
	EXPECT_EQUAL(context->mem_allocated, 1024);
	EXPECT(MemoryContextIsEmpty(context));
	MemoryContextDelete(context);
}

/* Flags of palloc_extended, and sizes that no context gives. */
static void
test_flags(Type type)
{
	MemoryContext context = create(type);
	char	   *chunk;

	for (int i = 0; i < lengthof(sizes); i++)
	{
		memset(MemoryContextAlloc(context, sizes[i]), 0x55, sizes[i]);
		MemoryContextReset(context);
		chunk = MemoryContextAllocZero(context, sizes[i]);
		EXPECT(is_filled(chunk, sizes[i], 0));
		MemoryContextReset(context);
		chunk = MemoryContextAllocExtended(context, sizes[i], MCXT_ALLOC_ZERO | MCXT_ALLOC_NO_OOM);
		EXPECT(is_filled(chunk, sizes[i], 0));
		MemoryContextReset(context);
	}

	/* 2 GB, of which little is touched */
	chunk = MemoryContextAllocHuge(context, (Size) 2 << 30);
	chunk[0] = chunk[((Size) 2 << 30) - 1] = 1;
	MemoryContextReset(context);

	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, MemoryContextAlloc(context, (Size) -1));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, MemoryContextAlloc(context, (Size) -8));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, MemoryContextAlloc(context, MaxAllocSize + 1));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, MemoryContextAllocHuge(context, MaxAllocHugeSize + 1));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR,
				 MemoryContextAllocExtended(context, MaxAllocSize + 1, MCXT_ALLOC_NO_OOM));
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAllocHuge(context, MaxAllocHugeSize));
	EXPECT(hint[0] != '\0');
	EXPECT(MemoryContextAllocExtended(context, MaxAllocHugeSize,
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM) == NULL);
	EXPECT_EQUAL(context->mem_allocated, 1024);
	MemoryContextDelete(context);
}

/* repalloc up and down through all sizes, with a neighbour and without. */
static void
test_repalloc(Type type)
{
	MemoryContext context = create(type);

	for (int neighbour = 0; neighbour < 2; neighbour++)
	{
		for (int from = 0; from < lengthof(sizes); from++)
		{
			for (int to = 0; to < lengthof(sizes); to++)
			{
				char	   *chunk = MemoryContextAlloc(context, sizes[from]);

				memset(chunk, 0x33, sizes[from]);
				if (neighbour)
					memset(MemoryContextAlloc(context, 24), 0x44, 24);
				chunk = repalloc(chunk, sizes[to]);
				EXPECT(is_filled(chunk, Min(sizes[from], sizes[to]), 0x33));
				memset(chunk, 0x22, sizes[to]);
				EXPECT(GetMemoryChunkContext(chunk) == context);
				pfree(chunk);
				MemoryContextReset(context);
			}
		}
	}
	{
		char	   *chunk = MemoryContextAlloc(context, 100);
		void	   *ignored;
		int64		before;

		memset(chunk, 0x11, 100);
		before = used_bytes();
		EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, ignored = repalloc(chunk, (Size) -1));
		EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, ignored = repalloc(chunk, MaxAllocSize + 1));
		EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, ignored = repalloc_huge(chunk, MaxAllocHugeSize));
		(void) ignored;
		EXPECT(is_filled(chunk, 100, 0x11));
		EXPECT_EQUAL(used_bytes(), before);
	}

	/* the last chunk grows where it is */
	{
		char	   *chunk = MemoryContextAlloc(context, 16);

		EXPECT(repalloc(chunk, 64) == chunk);
	}
	MemoryContextDelete(context);
}

/* Aligned chunks, which the server makes inside others. */
static void
test_aligned(Type type)
{
#if PG_VERSION_NUM >= 160000
	MemoryContext context = create(type);

	for (int i = 0; i < lengthof(sizes); i++)
	{
		for (Size alignment = 16; alignment <= 8192; alignment *= 2)
		{
			char	   *chunk = MemoryContextAllocAligned(context, sizes[i], alignment, 0);

			EXPECT(chunk == (char *) TYPEALIGN(alignment, chunk));
			memset(chunk, 0x66, sizes[i]);
			EXPECT(GetMemoryChunkContext(chunk) == context);
			chunk = repalloc(chunk, sizes[i] * 3 / 2 + 1000);
			EXPECT(chunk == (char *) TYPEALIGN(alignment, chunk));
			EXPECT(is_filled(chunk, sizes[i], 0x66));
			pfree(chunk);
		}
	}
	MemoryContextDelete(context);
#endif
}

static void
count_call(void *arg)
{
	++*(int *) arg;
}

/* Callbacks, children, parents. */
static void
test_tree(Type type)
{
	MemoryContext context = create(type);
	MemoryContext other = AllocSetContextCreate(CurrentMemoryContext, "sift_test other",
												ALLOCSET_SMALL_SIZES);
	MemoryContext child = AllocSetContextCreate(context, "sift_test child", ALLOCSET_SMALL_SIZES);
	MemoryContext sift_child;
	int			calls = 0;
	MemoryContextCallback *callback = MemoryContextAlloc(context, sizeof(*callback));
	MemoryContextCounters counters = {0};
	int64		before;

	callback->func = count_call;
	callback->arg = &calls;
	MemoryContextRegisterResetCallback(context, callback);
	EXPECT(MemoryContextGetParent(child) == context);
	MemoryContextReset(context);
	EXPECT_EQUAL(calls, 1);
	EXPECT(context->firstchild == NULL);

	callback = MemoryContextAlloc(context, sizeof(*callback));
	callback->func = count_call;
	callback->arg = &calls;
	MemoryContextRegisterResetCallback(context, callback);
	MemoryContextSetIdentifier(context, "an ident");
	MemoryContextSetParent(context, other);
	EXPECT(MemoryContextGetParent(context) == other);
	context->methods->stats(context, NULL, NULL, &counters, false);
	EXPECT_EQUAL(counters.totalspace, context->mem_allocated);
	EXPECT_EQUAL(MemoryContextMemAllocated(other, true),
				 other->mem_allocated + context->mem_allocated);
	before = used_bytes();
	sift_child = SiftRowContextCreate(context, "sift_test grandchild", SIFT_ROW_DEFAULT_SIZES);
	EXPECT_EQUAL(sift_child->mem_allocated, 1024);
	EXPECT_EQUAL(used_bytes(), before + 1024);
	MemoryContextDelete(other);
	EXPECT_EQUAL(calls, 2);
}

/* The inline calls do what palloc and pfree do. */
static void
test_inline(Type type)
{
	MemoryContext context = create(type);
	char	   *chunks[lengthof(sizes)];

	for (int round = 0; round < 3; round++)
	{
		for (int i = 0; i < lengthof(sizes); i++)
		{
			chunks[i] = type == ROW ? SiftRowAlloc(context, sizes[i]) :
				SiftBatchAlloc(context, sizes[i]);
			EXPECT(chunks[i] != NULL && chunks[i] == (char *) MAXALIGN(chunks[i]));
			EXPECT(i == 0 || chunks[i] != chunks[i - 1]);
			memset(chunks[i], i + 1, sizes[i]);
		}
		for (int i = 0; i < lengthof(sizes); i++)
		{
			EXPECT(is_filled(chunks[i], sizes[i], i + 1));
			if (type == BARE)
				continue;
			EXPECT(GetMemoryChunkContext(chunks[i]) == context);
			if (type == ROW)
				SiftRowFree(chunks[i]);
			else
				pfree(chunks[i]);
		}
		EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, type == ROW ? SiftRowAlloc(context, (Size) -1) :
					 SiftBatchAlloc(context, (Size) -1));
		EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, type == ROW ? SiftRowAlloc(context, MaxAllocSize + 1) :
					 SiftBatchAlloc(context, MaxAllocSize + 1));
		if (round == 1)
			MemoryContextReset(context);
	}
	MemoryContextDelete(context);
}

/* A row block goes back with its last chunk; the one being carved is reused. */
static void
test_row_blocks(void)
{
	MemoryContext context = create(ROW);
	static char *chunks[20000];
	Size		full;

	for (int i = 0; i < lengthof(chunks); i++)
		chunks[i] = MemoryContextAlloc(context, 100);
	full = context->mem_allocated;
	EXPECT(full > lengthof(chunks) * 108 && full < lengthof(chunks) * 140);
	for (int i = 0; i < lengthof(chunks) / 2; i++)
		pfree(chunks[i]);
	EXPECT(context->mem_allocated < full * 6 / 10);
	for (int i = lengthof(chunks) / 2; i < lengthof(chunks); i++)
		pfree(chunks[i]);
	/* at most the home block and the one being carved */
	EXPECT(context->mem_allocated <= 1024 + 256 * 1024);

	full = context->mem_allocated;
	for (int i = 0; i < 1000000; i++)
		pfree(MemoryContextAlloc(context, i % 300));
	EXPECT_EQUAL(context->mem_allocated, full);

	/* one chunk of a large size, kept in a block of its own, goes back alone */
	chunks[0] = MemoryContextAlloc(context, 1000000);
	EXPECT(context->mem_allocated >= full + 1000000);
	pfree(chunks[0]);
	EXPECT_EQUAL(context->mem_allocated, full);
	MemoryContextDelete(context);
}

/* A batch block that repalloc has left goes back at once if it was large. */
static void
test_batch_growth(void)
{
	MemoryContext context = create(BATCH);
	char	   *chunk = MemoryContextAlloc(context, 1024);

	for (Size size = 2048; size <= 64 * 1024 * 1024; size *= 2)
	{
		chunk = repalloc(chunk, size);
		chunk[size - 1] = 1;
	}
	EXPECT(context->mem_allocated < 70 * 1024 * 1024);
	MemoryContextDelete(context);
}

/* What may not be asked for. */
static void
test_bad_input(void)
{
	int64		before = used_bytes();

	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRowContextCreate(CurrentMemoryContext, "bad", 0, 1024));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRowContextCreate(CurrentMemoryContext, "bad", 512, 1024));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRowContextCreate(CurrentMemoryContext, "bad", 1024, 3000));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRowContextCreate(CurrentMemoryContext, "bad", 8192, 4096));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftBatchContextCreate(CurrentMemoryContext, "bad", 0, 1024, (Size) 128 << 20));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftBatchContextCreate(CurrentMemoryContext, "bad", 2, SIFT_BATCH_DEFAULT_SIZES));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRowFormTuple(CurrentMemoryContext, NULL, NULL, NULL));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE,
				 SiftRegisterReclaimer("bad", 0, NULL, NULL));
	EXPECT_EQUAL(used_bytes(), before);
}

/* Every pair of block sizes that is allowed. */
static void
test_block_sizes(void)
{
	int64		before = used_bytes();

	for (Size first = 1024; first <= (Size) 64 << 20; first *= 8)
	{
		for (Size largest = first; largest <= (Size) 64 << 20; largest *= 4)
		{
			MemoryContext row = SiftRowContextCreate(CurrentMemoryContext, "sizes", first, largest);
			MemoryContext batch = SiftBatchContextCreate(CurrentMemoryContext, "sizes", 0, first, largest);

			for (int i = 0; i < lengthof(sizes); i++)
			{
				memset(MemoryContextAlloc(row, sizes[i]), 1, sizes[i]);
				memset(MemoryContextAlloc(batch, sizes[i]), 1, sizes[i]);
			}
			MemoryContextDelete(row);
			MemoryContextDelete(batch);
		}
	}
	EXPECT_EQUAL(used_bytes(), before);
}

Datum
sift_test_contexts(PG_FUNCTION_ARGS)
{
	int64		before = used_bytes();

	for (Type type = ROW; type <= BARE; type++)
	{
		test_sizes(type);
		test_flags(type);
		test_tree(type);
		test_inline(type);
		if (type == BARE)
			continue;
		test_repalloc(type);
		test_aligned(type);
	}
	test_row_blocks();
	test_batch_growth();
	test_bad_input();
	test_block_sizes();
	EXPECT_EQUAL(used_bytes(), before);
	PG_RETURN_VOID();
}

/* What only a checking build finds; tells whether this is one. */
Datum
sift_test_misuse(PG_FUNCTION_ARGS)
{
#ifdef MEMORY_CONTEXT_CHECKING
	MemoryContext bare = create(BARE);
	MemoryContext row = create(ROW);
	char	   *chunk = MemoryContextAlloc(bare, 100);
	char	   *freed = MemoryContextAlloc(row, 100);
	char	   *neighbour = MemoryContextAlloc(row, 100);

	EXPECT_ERROR(ERRCODE_FEATURE_NOT_SUPPORTED, pfree(chunk));
	EXPECT_ERROR(ERRCODE_FEATURE_NOT_SUPPORTED, chunk = repalloc(chunk, 200));
#if PG_VERSION_NUM >= 160000
	EXPECT_ERROR(ERRCODE_FEATURE_NOT_SUPPORTED, GetMemoryChunkContext(chunk));
#endif
	pfree(freed);
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, pfree(freed));
	pfree(neighbour);
	MemoryContextDelete(bare);
	MemoryContextDelete(row);
	PG_RETURN_TEXT_P(cstring_to_text("checked"));
#else
	PG_RETURN_TEXT_P(cstring_to_text("not a checking build"));
#endif
}
