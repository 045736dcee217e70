/*
 * pressure.c
 *	  Row stores when memory is short: what reclaimers may do to the stores that ask
 *	  for it, and compaction at the limit and above it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sift_test.h"

PG_FUNCTION_INFO_V1(sift_test_store_pressure);
PG_FUNCTION_INFO_V1(sift_test_store_pins_pressure);

#define MB(n)			((Size) (n) * 1024 * 1024)

static MemoryContext store;
static MemoryContext other;
static MemoryContext spare;		/* memory for a reclaimer to give, or NULL */
static uint64 ids[100000];

/* What the reclaimer does; NULL for nothing. */
static void (*when_asked) (void) = NULL;
static int	asked = 0;

static Size
reclaim(Size wanted, void *arg)
{
	asked++;
	if (when_asked != NULL)
		when_asked();
	return 0;
}

/* Have the reclaimer, which does nothing until it is told what. */
static void
start(void)
{
	static bool registered = false;

	when_asked = NULL;
	if (!registered)
		SiftRegisterReclaimer("store pressure", 10, reclaim, NULL);
	registered = true;
}

static void
have_spare(void)
{
	spare = SiftBatchContextCreate(CurrentMemoryContext, "sift_test spare", 0, SIFT_BATCH_DEFAULT_SIZES);
	(void) MemoryContextAllocHuge(spare, MB(4));
}

static void
give_spare(void)
{
	if (spare != NULL)
		MemoryContextDelete(spare);
	spare = NULL;
}

/*
 * Have no more than so many bytes fit from now on, idle memory counted as given back,
 * and the reclaimer do that.
 */
static void
press(int64 bytes, void (*action) (void))
{
	SiftUsageData usage;

	SiftUsage(&usage);
	set_limit(usage.charged_bytes - usage.kinds[SIFT_IDLE].bytes + bytes);
	when_asked = action;
	asked = 0;
}

static void
relax(void)
{
	when_asked = NULL;
	set_no_limit();
}

static Size
held(void)
{
	return MemoryContextMemAllocated(store, true);
}

static void
reset_store(void)
{
	MemoryContextReset(store);
}

static void
reset_and_give(void)
{
	give_spare();
	reset_store();
}

/* The store is reset while it asks, be it for rows or for slots. */
static void
check_reset(void)
{
	void	   *address;

	for (Size limit = MB(1) / 2; limit < MB(1); limit += 8192)
	{
		store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
		set_limit(limit);
		when_asked = reset_store;
		asked = 0;
		for (int i = 0; i < 40000; i++)
		{
			uint64		id = SiftRowPut(store, i % 9, &address);

			EXPECT(SiftRowGet(store, id) == address);
		}
		EXPECT(asked > 0);
		relax();
		MemoryContextDelete(store);
	}

	/* it does not pass for empty */
	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	have_spare();
	press(0, reset_and_give);
	(void) SiftRowPut(store, 10, &address);
	EXPECT(asked > 0 && !store->isReset);
	relax();
	MemoryContextDelete(store);
}

static void
put_other(void)
{
	void	   *address;

	give_spare();
	if (ids[0] == 0)
		ids[0] = SiftRowPut(other, 10, &address);
}

/* A row is put while another one is. */
static void
check_put(void)
{
	void	   *address;
	void	   *other_address;
	uint64		id;

	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	other = SiftRowStoreCreate(CurrentMemoryContext, "sift_test other");
	(void) SiftRowPut(other, 10, &other_address);
	(void) SiftRowPut(store, 10, &address);
	have_spare();
	ids[0] = 0;
	press(0, put_other);
	id = SiftRowPut(store, 100000, &address);
	EXPECT(ids[0] != 0 && SiftRowGet(store, id) == address);
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, ids[0]));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(other, id));
	relax();
	MemoryContextDelete(store);
	MemoryContextDelete(other);
}

/*
 * With room for a block of the size that is due and not for one that has room for a
 * row, compaction has the reserve, and asks nobody.  Eleven rows are a block, and too
 * much of that is live for new rows to be put there, when one is removed.
 */
static void
check_small_room(void)
{
	const int	count = 1100;
	void	   *address;
	MemoryContext caller = CurrentMemoryContext;

	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	for (int i = 0; i < count; i++)
	{
		ids[i] = SiftRowPut(store, i % 11 < 10 ? 5800 : 7000, &address);
		*(int *) address = i;
	}
	for (int i = 10; i < count; i += 11)
		SiftRowRemove(store, ids[i]);

	/* blocks get small */
	asked = 0;
	while (asked == 0)
	{
		press(5 * 1024, NULL);
		PG_TRY();
		{
			for (int i = 0; i < 1000; i++)
				(void) SiftRowPut(store, 100, &address);
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(caller);
			FlushErrorState();
		}
		PG_END_TRY();
	}
	(void) SiftRowStoreCompact(store, 5000);

	press(6 * 1024, reset_store);
	EXPECT(SiftRowStoreCompact(store, (Size) -1) > 400000);
	EXPECT_EQUAL(asked, 0);
	relax();
	for (int i = 0; i < count; i++)
		EXPECT(i % 11 == 10 || *(int *) SiftRowGet(store, ids[i]) == i);
	MemoryContextDelete(store);
}

/* Put rows; all but one of "keep" are removed, and none is moved before that. */
static void
fill_and_thin(int keep)
{
	void	   *address;

	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	for (int i = 0; i < lengthof(ids); i++)
	{
		ids[i] = SiftRowPut(store, 100, &address);
		if (i % keep == 1)
			(void) SiftRowPin(store, ids[i]);
	}
	for (int i = 0; i < lengthof(ids); i++)
	{
		if (i % keep != 1)
			SiftRowRemove(store, ids[i]);
	}
	for (int i = 1; i < lengthof(ids); i += keep)
		SiftRowUnpin(store, ids[i]);
	(void) SiftRowStoreCompact(store, 0);
}

/* Above the limit compaction goes as far as below it. */
static void
check_above_limit(void)
{
	Size		without;

	fill_and_thin(3);
	(void) SiftRowStoreCompact(store, (Size) -1);
	without = held();
	MemoryContextDelete(store);

	fill_and_thin(3);
	press(-(int64) MB(1), NULL);
	(void) SiftRowStoreCompact(store, (Size) -1);
	EXPECT(held() <= without + 128 * 1024);
	relax();
	MemoryContextDelete(store);
}

/* A store that has grown since it was asked for memory is compacted nevertheless. */
static void
check_asked_and_grown(void)
{
	void	   *address;
	Size		before;

	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	for (int i = 0; i < lengthof(ids); i++)
		ids[i] = SiftRowPut(store, 100, &address);
	(void) SiftRowStoreCompact(store, (Size) -1);
	for (int i = 0; i < lengthof(ids); i += 5)
		SiftRowRemove(store, ids[i]);
	have_spare();
	press(0, give_spare);
	(void) SiftRowPut(store, MB(2), &address);
	EXPECT(asked > 0);
	relax();
	before = held();
	for (int i = 0; i < 40; i++)
		(void) SiftRowPut(store, 4000, &address);
	EXPECT(held() < before);
	MemoryContextDelete(store);
}

Datum
sift_test_store_pressure(PG_FUNCTION_ARGS)
{
	EXPECT_EQUAL(used_bytes(), 0);
	start();
	check_reset();
	check_put();
	check_small_room();
	check_above_limit();
	check_asked_and_grown();
	EXPECT_EQUAL(used_bytes(), 0);
	PG_RETURN_VOID();
}

/* ----------------------------------------------------------------
 *		Pins, whose memory is the server's
 * ----------------------------------------------------------------
 */

static bool pinned[20000];
static char *heap_spare;		/* memory of the server for a reclaimer to give, or NULL */

static void
put_rows(void)
{
	void	   *address;

	store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	memset(pinned, 0, sizeof(pinned));
	for (int i = 0; i < lengthof(pinned); i++)
		ids[i] = SiftRowPut(store, 100, &address);
}

/* As a cache does: rows that are not pinned go. */
static void
evict(void)
{
	for (int i = 0; i < lengthof(pinned); i++)
	{
		if (ids[i] != 0 && !pinned[i])
		{
			SiftRowRemove(store, ids[i]);
			ids[i] = 0;
		}
	}
}

/* A row goes while it is being pinned. */
static void
check_evict(void)
{
	volatile int i = 0;

	put_rows();
	press(0, evict);
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT,
				 for (; i < lengthof(pinned); i++)
				 {
					 (void) SiftRowPin(store, ids[i]);
					 pinned[i] = true;
				 });
	relax();
	EXPECT_EQUAL(asked, 1);
	EXPECT_EQUAL(ids[i], 0);
	for (int r = 0; r < i; r++)
	{
		EXPECT_ERROR(ERRCODE_OBJECT_IN_USE, SiftRowRemove(store, ids[r]));
		SiftRowUnpin(store, ids[r]);
		SiftRowRemove(store, ids[r]);
	}
	MemoryContextDelete(store);
}

static void
unpin_all(void)
{
	if (heap_spare != NULL)
		pfree(heap_spare);
	heap_spare = NULL;
	for (int i = 0; i < lengthof(pinned); i++)
	{
		if (pinned[i])
			SiftRowUnpin(store, ids[i]);
		pinned[i] = false;
	}
}

/*
 * Other pins end while a row is being pinned.  Whether these are in the new one's way
 * depends on addresses, so once may not tell.
 */
static void
check_unpin(void)
{
	put_rows();
	heap_spare = palloc(MB(10));
	press(0, unpin_all);
	for (int i = 0; i < lengthof(pinned); i++)
	{
		(void) SiftRowPin(store, ids[i]);
		pinned[i] = true;
	}
	relax();
	EXPECT(asked > 0 && !pinned[0] && pinned[lengthof(pinned) - 1]);
	for (int i = 0; i < lengthof(pinned); i++)
	{
		if (pinned[i])
			SiftRowUnpin(store, ids[i]);
		if (i % 100 == 0)
			EXPECT_ERROR(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, SiftRowUnpin(store, ids[i]));
	}
	MemoryContextDelete(store);
}

Datum
sift_test_store_pins_pressure(PG_FUNCTION_ARGS)
{
	start();
	check_evict();
	check_unpin();
	PG_RETURN_VOID();
}
