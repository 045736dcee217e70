/*
 * refusals.c
 *	  Refuse the n-th charge, for every n, over a fixed workload.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_refusals);

/* Charged bytes but for idle ones, as the sum has them. */
static int64
charged_in_use(void)
{
	SiftUsageData usage;

	SiftUsage(&usage);
	return usage.charged_bytes - usage.kinds[SIFT_IDLE].bytes;
}

static void *
alloc(MemoryContext context, Size size, bool no_oom)
{
	char	   *chunk = no_oom ? MemoryContextAllocExtended(context, size, MCXT_ALLOC_NO_OOM) :
		MemoryContextAlloc(context, size);

	if (chunk != NULL)
		memset(chunk, 1, size);
	return chunk;
}

/* Rows in a context until it has blocks of every size; false at a NULL. */
static bool
fill_rows(MemoryContext row, bool no_oom)
{
	for (int i = 0; i < 3000; i++)
	{
		char	   *chunk = alloc(row, i % 500, no_oom);

		if (chunk == NULL)
			return false;
		if (i % 10 != 0)
			pfree(chunk);
	}
	return true;
}

/* A chunk that grows through small, block and large sizes. */
static bool
grow_chunk(MemoryContext context, bool no_oom)
{
	char	   *chunk = alloc(context, 16, no_oom);

	for (Size size = 32; chunk != NULL && size <= 8 * 1024 * 1024; size *= 2)
	{
		char	   *grown = no_oom ? repalloc_extended(chunk, size, MCXT_ALLOC_NO_OOM) :
			repalloc(chunk, size);

		if (grown == NULL)
			pfree(chunk);
		chunk = grown;
	}
	return chunk != NULL;
}

/* One row with long values, as one chunk. */
static void
form_row(MemoryContext row)
{
	TupleDesc	desc = CreateTemplateTupleDesc(2);
	Datum		values[2];
	bool		isnull[2] = {false, false};

	TupleDescInitEntry(desc, 1, "a", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "b", TEXTOID, -1, 0);
	values[0] = Int64GetDatum(1);
	values[1] = PointerGetDatum(cstring_to_text_with_len(palloc0(100000), 100000));
	pfree(SiftRowFormTuple(row, desc, values, isnull));
}

/* Every way of taking memory; false where a request answered NULL. */
static bool
workload(bool no_oom)
{
	MemoryContext row = SiftRowContextCreate(CurrentMemoryContext, "refused row",
											 SIFT_ROW_DEFAULT_SIZES);
	MemoryContext batch = SiftBatchContextCreate(CurrentMemoryContext, "refused batch", 0,
												 SIFT_BATCH_DEFAULT_SIZES);
	MemoryContext bare = SiftBatchContextCreate(CurrentMemoryContext, "refused bare",
												SIFT_BATCH_BARE, SIFT_BATCH_DEFAULT_SIZES);

	if (!fill_rows(row, no_oom) || !grow_chunk(row, no_oom) || !grow_chunk(batch, no_oom))
		return false;
	for (int i = 0; i < 1000; i++)
	{
		if (alloc(batch, i * 3, no_oom) == NULL || alloc(bare, i * 3, no_oom) == NULL)
			return false;
	}
	MemoryContextReset(batch);
	if (alloc(bare, 3000000, no_oom) == NULL || alloc(batch, 100, no_oom) == NULL)
		return false;
	if (!no_oom)
		form_row(row);
	return true;
}

/*
 * run
 *		The workload with the n-th charge refused; false when it was refused.
 *
 * Whatever happens, the account is afterwards what it was before.
 */
static bool
run(int n, bool no_oom)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext parent = AllocSetContextCreate(caller, "refused", ALLOCSET_DEFAULT_SIZES);
	int64		before = used_bytes();
	int64		refusals_before = refusals();
	int			sqlstate = expected_error();
	volatile bool done = false;

	SiftGetApi()->test_refuse_charge(n);
	PG_TRY();
	{
		MemoryContextSwitchTo(parent);
		done = workload(no_oom);
		MemoryContextSwitchTo(caller);
	}
	PG_CATCH();
	{
		sqlstate = caught_error();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	SiftGetApi()->test_refuse_charge(0);
#ifdef MEMORY_CONTEXT_CHECKING
	MemoryContextCheck(parent);
#endif
	MemoryContextDelete(parent);
	EXPECT_EQUAL(used_bytes(), before);
	EXPECT_EQUAL(charged_in_use(), before);
	EXPECT_EQUAL(refusals(), refusals_before + (done ? 0 : 1));
	if (!done && sqlstate != 0)
	{
		EXPECT_EQUAL(sqlstate, ERRCODE_OUT_OF_MEMORY);
		EXPECT(hint[0] != '\0');
	}
	else if (!done)
		EXPECT(no_oom);
	return done;
}

/* The number of charges of the workload, each of which was refused once. */
Datum
sift_test_refusals(PG_FUNCTION_ARGS)
{
	bool		no_oom = PG_GETARG_BOOL(0);
	int			n = 1;

	while (!run(n, no_oom))
	{
		/* what follows a refusal works */
		EXPECT(run(0, no_oom));
		n++;
	}
	PG_RETURN_INT32(n - 1);
}
