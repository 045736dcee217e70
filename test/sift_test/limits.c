/*
 * limits.c
 *	  What happens near a limit: reclaimers, hints, small blocks, trims.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "miscadmin.h"
#include "sift_test.h"

PG_FUNCTION_INFO_V1(sift_test_limits);
PG_FUNCTION_INFO_V1(sift_test_bad_reclaimer);
PG_FUNCTION_INFO_V1(sift_test_few_addresses);

#define MB(n)			((Size) (n) * 1024 * 1024)

static MemoryContext
create_row(MemoryContext parent)
{
	return SiftRowContextCreate(parent, "sift_test limits row", SIFT_ROW_DEFAULT_SIZES);
}

static MemoryContext
create_batch(void)
{
	return SiftBatchContextCreate(CurrentMemoryContext, "sift_test limits batch", 0,
								  SIFT_BATCH_DEFAULT_SIZES);
}

static SiftUsageData
usage_now(void)
{
	SiftUsageData usage;

	SiftUsage(&usage);
	return usage;
}

/*
 * A refusal without an error leaves nothing behind: not in the chain of error
 * contexts, and no hint for another error of the same code.
 */
static void
test_no_oom(void)
{
	MemoryContext context = create_row(CurrentMemoryContext);
	ErrorContextCallback *before = error_context_stack;

	EXPECT(MemoryContextAllocExtended(context, MB(2), MCXT_ALLOC_NO_OOM) == NULL);
	EXPECT(error_context_stack == before);
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY,
				 ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of something else"))));
	EXPECT(hint[0] == '\0');
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAlloc(context, MB(2)));
	EXPECT(hint[0] != '\0');
	EXPECT(error_context_stack == before);
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY,
				 ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of something else"))));
	EXPECT(hint[0] == '\0');
	MemoryContextDelete(context);
}

/* The hint of a context that is in no tree, and of one that is not made. */
static void
test_hints(void)
{
	MemoryContext context = create_row(NULL);

	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAlloc(context, MB(2)));
	EXPECT(hint[0] != '\0');
	MemoryContextDelete(context);
	set_limit(0);
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, create_batch());
	EXPECT(hint[0] != '\0');
}

/* Up to the last kilobytes a limit can be used. */
static void
test_last_bytes(void)
{
	MemoryContext row = create_row(CurrentMemoryContext);
	MemoryContext batch = create_batch();
	SiftUsageData usage;
	Size		chunks = 0;

	while (MemoryContextAllocExtended(row, 100, MCXT_ALLOC_NO_OOM) != NULL)
		chunks++;
	usage = usage_now();
	EXPECT(usage.charged_bytes <= usage.limit_bytes);
	EXPECT(usage.charged_bytes > usage.limit_bytes - 8192);
	EXPECT(chunks * 120 > usage.limit_bytes * 0.85);
	EXPECT(MemoryContextAllocExtended(batch, 5000, MCXT_ALLOC_NO_OOM) == NULL);

	/* what was given back can be used, in blocks of the usual size */
	MemoryContextReset(row);
	for (Size i = 0; i < chunks / 2; i++)
		(void) MemoryContextAlloc(row, 100);
	usage = usage_now();
	EXPECT(usage.kinds[SIFT_ROW].bytes >=
		   16384 * (usage.kinds[SIFT_ROW].blocks_taken - usage.kinds[SIFT_ROW].blocks_returned));
	MemoryContextDelete(row);
	MemoryContextDelete(batch);
}

/*
 * Three reclaimers, in order of cost: one has nothing, one resets "spare",
 * one raises.  They do nothing while there is no spare context.
 */
static MemoryContext spare = NULL;
static int	calls[3];
static int	order;
static Size asked;

static Size
reclaim(Size wanted, void *arg)
{
	int			which = (int) (intptr_t) arg;
	Size		before;

	if (spare == NULL)
		return 0;
	EXPECT(wanted > 0);
	calls[which] = ++order;
	asked = wanted;
	if (which == 0)
		return 0;
	if (which == 2)
		elog(ERROR, "a reclaimer that raises");
	before = spare->mem_allocated;
	MemoryContextReset(spare);
	return before - spare->mem_allocated;
}

static void
test_reclaimers(Size limit, Size spared, Size wanted)
{
	MemoryContext context = create_batch();
	MemoryContext kept = create_batch();

	set_limit(limit);
	memset(calls, 0, sizeof(calls));
	order = 0;
	spare = create_batch();
	(void) MemoryContextAllocHuge(spare, spared);
	(void) MemoryContextAllocHuge(kept, limit - spared - MB(1) / 4);
	EXPECT_EQUAL(order, 0);

	(void) MemoryContextAllocHuge(context, wanted);
	EXPECT_EQUAL(calls[0], 1);
	EXPECT_EQUAL(calls[1], 2);
	EXPECT_EQUAL(calls[2], 0);

	/* nothing is left to give: the last one is asked, and its error is ours */
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, MemoryContextAllocHuge(context, limit));
	EXPECT_EQUAL(calls[2], 5);
	spare = (MemoryContextDelete(spare), NULL);
	MemoryContextDelete(context);
	MemoryContextDelete(kept);
	EXPECT_EQUAL(used_bytes(), 0);
}

/* Below what is held a reclaimer is asked for what is held too much as well. */
static void
test_reclaim_excess(void)
{
	MemoryContext context = create_batch();

	set_limit(MB(20));
	spare = create_batch();
	(void) MemoryContextAllocHuge(spare, MB(2));
	(void) MemoryContextAllocHuge(context, MB(10));
	set_limit(MB(11));
	(void) MemoryContextAlloc(context, 500000);
	EXPECT(asked > MB(1));
	spare = (MemoryContextDelete(spare), NULL);
	MemoryContextDelete(context);
}

/* A context that its own reclaimer resets is not taken for empty. */
static void
test_reset_while_allocating(void)
{
	set_limit(MB(4));
	order = 0;
	spare = create_batch();
	while (order < 2)
		(void) MemoryContextAlloc(spare, 100);
	EXPECT(!spare->isReset && spare->mem_allocated > 1024);
	MemoryContextReset(spare);
	EXPECT_EQUAL(spare->mem_allocated, 1024);
	spare = (MemoryContextDelete(spare), NULL);
}

/* How many mappings this process has. */
static int
mappings(void)
{
	FILE	   *file = fopen("/proc/self/maps", "r");
	int			lines = 0;

	EXPECT(file != NULL);
	for (int c; (c = fgetc(file)) != EOF;)
		lines += c == '\n';
	fclose(file);
	return lines;
}

/* Trimming many small holes gives their memory back, and makes no mappings. */
static void
test_holes(void)
{
	MemoryContext parent = AllocSetContextCreate(CurrentMemoryContext, "sift_test holes",
												 ALLOCSET_DEFAULT_SIZES);
	MemoryContext contexts[3000];
	int			before;
	SiftUsageData usage;

	/* below this limit no large pages are used */
	set_limit(MB(3) + MB(3) / 4);
	for (int i = 0; i < lengthof(contexts); i++)
		contexts[i] = create_row(parent);
	before = mappings();
	for (int i = 0; i < lengthof(contexts); i++)
	{
		if (i % 8 != 0)
			MemoryContextDelete(contexts[i]);
	}
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAlloc(contexts[0], MB(4)));
	usage = usage_now();
	EXPECT(usage.kinds[SIFT_IDLE].bytes <= 375 * 3 * 1024 + 8192);
	EXPECT(mappings() < before + 10);
	MemoryContextDelete(parent);
}

/* Bytes of private memory that count against RLIMIT_DATA. */
static Size
data_bytes(void)
{
	FILE	   *file = fopen("/proc/self/status", "r");
	char		line[256];
	long		kb = -1;

	EXPECT(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
	{
		if (sscanf(line, "VmData: %ld kB", &kb) == 1)
			break;
	}
	fclose(file);
	EXPECT(kb > 0);
	return (Size) kb * 1024;
}

/*
 * The system has no memory, where no limit of ours is: a clear error or NULL,
 * nothing charged for it, not even as a peak, and what fits is granted.
 */
static void
test_system_refusals(void)
{
	MemoryContext batch = create_batch();
	MemoryContext kept = create_batch();
	struct rlimit before;
	struct rlimit limit;
	SiftUsageData usage;
	SiftUsageData after;

	set_no_limit();
	for (int i = 0; i < 20; i++)
		(void) MemoryContextAlloc(kept, MB(2) - 100000);
	EXPECT(getrlimit(RLIMIT_DATA, &before) == 0);
	limit = before;
	limit.rlim_cur = data_bytes() + MB(20);
	EXPECT(setrlimit(RLIMIT_DATA, &limit) == 0);

	usage = usage_now();
	for (Size size = MB(30); size <= MB(480); size *= 2)
	{
		EXPECT(MemoryContextAllocExtended(batch, size, MCXT_ALLOC_NO_OOM) == NULL);
		EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAlloc(batch, size));
		EXPECT(strstr(hint, "operating system") != NULL);
	}
	after = usage_now();
	EXPECT_EQUAL(after.peak_bytes, usage.peak_bytes);
	EXPECT_EQUAL(after.kinds[SIFT_LARGE].peak_bytes, usage.kinds[SIFT_LARGE].peak_bytes);
	EXPECT_EQUAL(after.kinds[SIFT_LARGE].bytes, usage.kinds[SIFT_LARGE].bytes);
	EXPECT(after.charged_bytes <= usage.charged_bytes);

	memset(MemoryContextAlloc(batch, MB(10)), 1, MB(10));
	for (int i = 0; i < 10000; i++)
		(void) MemoryContextAlloc(batch, 100);
	EXPECT(setrlimit(RLIMIT_DATA, &before) == 0);
	MemoryContextDelete(batch);
	MemoryContextDelete(kept);
}

/* A reclaimer that gives little at a time is asked until it is enough. */
static MemoryContext little[200];

static Size
reclaim_little(Size wanted, void *arg)
{
	for (int i = 0; i < lengthof(little); i++)
	{
		if (little[i] == NULL)
			continue;
		MemoryContextDelete(little[i]);
		little[i] = NULL;
		return 1024;
	}
	return 0;
}

static void
test_reclaim_little(void)
{
	MemoryContext context = create_batch();

	set_limit(MB(1));
	for (int i = 0; i < lengthof(little); i++)
		little[i] = create_row(CurrentMemoryContext);
	(void) MemoryContextAlloc(context, MB(1) * 6 / 10);
	(void) MemoryContextAlloc(context, MB(1) * 2 / 10);
	EXPECT(little[0] == NULL && little[lengthof(little) - 1] != NULL);
	for (int i = 0; i < lengthof(little); i++)
	{
		if (little[i] != NULL)
			MemoryContextDelete(little[i]);
		little[i] = NULL;
	}
	MemoryContextDelete(context);
}

/* A reclaimer that does what it should not: it raises, or never comes back. */
static Size
reclaim_badly(Size wanted, void *hangs)
{
	if (hangs == NULL)
		elog(ERROR, "a reclaimer that raises");
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	return 0;
}

/* Register one, for the rest of the session. */
Datum
sift_test_bad_reclaimer(PG_FUNCTION_ARGS)
{
	SiftRegisterReclaimer("bad", 40, reclaim_badly, PG_GETARG_BOOL(0) ? (void *) 1 : NULL);
	PG_RETURN_VOID();
}

Datum
sift_test_limits(PG_FUNCTION_ARGS)
{
	EXPECT_EQUAL(used_bytes(), 0);
	SiftRegisterReclaimer("raises", 30, reclaim, (void *) 2);
	SiftRegisterReclaimer("gives", 20, reclaim, (void *) 1);
	SiftRegisterReclaimer("has nothing", 10, reclaim, (void *) 0);

	test_holes();
	set_limit(MB(1));
	test_no_oom();
	test_hints();
	for (Size limit = MB(1); limit <= MB(64); limit *= 4)
	{
		set_limit(limit);
		test_last_bytes();
	}
	test_reclaimers(MB(20), MB(12), MB(10));
	test_reclaimers(MB(20), MB(2), MB(1));
	test_reclaim_excess();
	test_reset_while_allocating();
	SiftRegisterReclaimer("little", 15, reclaim_little, NULL);
	test_reclaim_little();
	test_system_refusals();
	EXPECT_EQUAL(used_bytes(), 0);
	PG_RETURN_VOID();
}

/*
 * With few addresses left the range is small: it can be used to its end, what
 * lies behind it is not touched, and the hint does not blame a limit.
 */
Datum
sift_test_few_addresses(PG_FUNCTION_ARGS)
{
	FILE	   *file = fopen("/proc/self/statm", "r");
	long		pages;
	struct rlimit before;
	struct rlimit limit;
	MemoryContext row;
	Size		chunks = 0;

	EXPECT(file != NULL && fscanf(file, "%ld", &pages) == 1);
	fclose(file);
	EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
	limit = before;
	limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + PG_GETARG_INT64(0);
	EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);

	row = SiftRowContextCreate(CurrentMemoryContext, "sift_test few", 1024, 1024);
	while (MemoryContextAllocExtended(row, 900, MCXT_ALLOC_NO_OOM) != NULL)
		chunks++;
	EXPECT(chunks >= 6 * 1024);
	EXPECT_ERROR(ERRCODE_OUT_OF_MEMORY, MemoryContextAlloc(row, 900));
	EXPECT(strstr(hint, "range of addresses") != NULL);
	MemoryContextReset(row);
	EXPECT(MemoryContextAlloc(row, MB(4)) != NULL);
	MemoryContextDelete(row);
	EXPECT(setrlimit(RLIMIT_AS, &before) == 0);
	PG_RETURN_VOID();
}
