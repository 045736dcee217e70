/*
 * store.c
 *	  Row stores: random operations beside a model, refusals, what is not allowed,
 *	  pins and transactions, tuples, and how much is held.
 *
 * The model has the id, size and byte of each row.  Rows are filled with that
 * byte, so a row that is mixed up with another one, or moved while it is pinned,
 * does not pass.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(sift_test_store);
PG_FUNCTION_INFO_V1(sift_test_store_random);
PG_FUNCTION_INFO_V1(sift_test_store_refusals);
PG_FUNCTION_INFO_V1(sift_test_store_shrinks);
PG_FUNCTION_INFO_V1(sift_test_store_thin);
PG_FUNCTION_INFO_V1(sift_test_store_fill);

typedef struct Row
{
	uint64		id;				/* 0: none */
	uint64		last_id;		/* of the row that was here before */
	Size		size;
	char		byte;
	char	   *pinned_at;		/* address, while it is pinned */
} Row;

typedef struct Model
{
	MemoryContext store;
	pg_prng_state random;
	Row		   *rows;
	int			count;			/* of "rows" */
	int			active;			/* of these, that operations choose from */
	uint64		last_id;
	int64		refused;
} Model;

static uint64
choose(Model *model, uint64 most)
{
	return pg_prng_uint64_range(&model->random, 0, most);
}

/* Mostly small; some have a block of their own. */
static Size
choose_size(Model *model)
{
	uint64		what = choose(model, 999);

	return choose(model, what < 900 ? 300 : what < 997 ? 6000 : 200000);
}

static void
check_row(Model *model, Row *row)
{
	char	   *address = SiftRowGet(model->store, row->id);

	EXPECT_EQUAL(SiftRowSize(model->store, row->id), row->size);
	EXPECT(row->pinned_at == NULL || row->pinned_at == address);
	for (Size i = 0; i < row->size; i++)
		EXPECT(address[i] == row->byte);
}

static void
fill_row(Model *model, Row *row, char *address, Size size)
{
	row->size = size;
	row->byte = (char) choose(model, 255);
	memset(address, row->byte, size);
}

/* An operation that may be refused; false if it was. */
static bool
attempt(Model *model, void (*operation) (Model *model, Row *row, Size size), Row *row, Size size)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		operation(model, row, size);
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		FlushErrorState();
		model->refused++;
	}
	PG_END_TRY();
	return done;
}

static void
put(Model *model, Row *row, Size size)
{
	void	   *address;
	uint64		id = SiftRowPut(model->store, size, &address);

	EXPECT(id != 0);
	row->id = id;
	fill_row(model, row, address, size);
}

static void
replace(Model *model, Row *row, Size size)
{
	void	   *address;

	SiftRowReplace(model->store, row->id, size, &address);
	fill_row(model, row, address, size);
}

static void
pin(Model *model, Row *row, Size size)
{
	row->pinned_at = SiftRowPin(model->store, row->id);
}

static void
unpin(Model *model, Row *row)
{
	SiftRowUnpin(model->store, row->id);
	row->pinned_at = NULL;
}

static void
remove_row(Model *model, Row *row)
{
	SiftRowRemove(model->store, row->id);
	row->last_id = row->id;
	row->id = 0;
}

/* Make room: the server cancels a statement that is refused again and again. */
static void
thin_out(Model *model)
{
	for (int i = 0; i < model->count; i++)
	{
		if (model->rows[i].id != 0 && model->rows[i].pinned_at == NULL && i % 4 != model->refused % 4)
			remove_row(model, &model->rows[i]);
	}
}

/* A walk gives each row once, in the order of ids, though others come and go. */
static void
walk(Model *model)
{
	SiftRowWalk walk = {0};
	uint64		id;
	uint64		before = 0;
	void	   *address;
	int			seen = 0;
	int			rows = 0;

	for (int i = 0; i < model->count; i++)
		rows += model->rows[i].id != 0;
	while (SiftRowNext(model->store, &walk, &id, &address))
	{
		EXPECT(id > before);
		EXPECT(address == SiftRowGet(model->store, id));
		before = id;
		seen++;
	}
	EXPECT_EQUAL(seen, rows);
	EXPECT(!SiftRowNext(model->store, &walk, &id, &address));
}

static void
check_store(Model *model)
{
	for (int i = 0; i < model->count; i++)
	{
		Row		   *row = &model->rows[i];

		if (row->id != 0)
			check_row(model, row);
		else if (row->last_id != 0 && i % 64 == 0)
			EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(model->store, row->last_id));
	}
	walk(model);
#ifdef MEMORY_CONTEXT_CHECKING
	MemoryContextCheck(model->store);
#endif
}

/* All rows are gone; one of pins that were taken goes with them. */
static void
reset_store(Model *model)
{
	MemoryContextReset(model->store);
	EXPECT_EQUAL(model->store->mem_allocated, 1024);
	for (int i = 0; i < model->count; i++)
	{
		Row		   *row = &model->rows[i];

		if (row->id != 0)
			row->last_id = row->id;
		row->id = 0;
		row->pinned_at = NULL;
	}
}

static void
operate(Model *model)
{
	Row		   *row = &model->rows[choose(model, model->active - 1)];
	uint64		what = choose(model, 99999);

	if (what < 5)
		reset_store(model);
	else if (what < 200)
		SiftRowStoreCompact(model->store, choose(model, 3) == 0 ? (Size) -1 : choose(model, 200000));
	else if (row->id == 0)
	{
		if (!attempt(model, put, row, choose_size(model)))
			thin_out(model);
	}
	else if (row->pinned_at != NULL)
	{
		EXPECT_ERROR(ERRCODE_OBJECT_IN_USE, SiftRowRemove(model->store, row->id));
		check_row(model, row);
		unpin(model, row);
	}
	else if (what % 50 == 0)
		attempt(model, pin, row, 0);
	else if (what % 4 == 0)
	{
		if (!attempt(model, replace, row, choose_size(model)))
			thin_out(model);
	}
	else
	{
		check_row(model, row);
		remove_row(model, row);
	}
}

static void
start_model(Model *model, int64 seed, int count)
{
	pg_prng_seed(&model->random, seed);
	model->count = model->active = count;
	model->rows = palloc0(count * sizeof(Row));
	model->store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
}

/*
 * The store grows and shrinks: of "count" rows those that may be there are first
 * more, then fewer.
 */
Datum
sift_test_store_random(PG_FUNCTION_ARGS)
{
	int64		seed = PG_GETARG_INT64(0);
	int			operations = PG_GETARG_INT32(1);
	int			count = PG_GETARG_INT32(2);
	Model		model = {0};

	start_model(&model, seed, count);
	for (int i = 1; i <= operations; i++)
	{
		/* a tenth of the time few rows, which leaves others where they are */
		model.active = i / 5000 % 3 == 2 ? count / 20 + 1 : count;
		operate(&model);
		if (i % 10000 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			check_store(&model);
			if (i / 10000 % 3 == 1)
			{
				for (int r = 0; r < count; r++)
				{
					if (model.rows[r].id != 0 && model.rows[r].pinned_at == NULL && r % 20 != 0)
						remove_row(&model, &model.rows[r]);
				}
				check_store(&model);
			}
		}
	}
	check_store(&model);
	MemoryContextDelete(model.store);
	EXPECT_EQUAL(used_bytes(), 0);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("seed %lld: %d operations, %lld refused",
											  (long long) seed, operations,
											  (long long) model.refused)));
}

/*
 * The same few operations, the n-th charge refused, for each n.  (What compaction
 * is refused raises no error.)
 */
Datum
sift_test_store_refusals(PG_FUNCTION_ARGS)
{
	int			n = 0;
	int64		before;
	Model		model;

	do
	{
		before = refusals();
		memset(&model, 0, sizeof(model));
		start_model(&model, 1, 3000);
		SiftGetApi()->test_refuse_charge(++n);
		for (int i = 0; i < 10000; i++)
			operate(&model);
		for (int i = 0; i < model.count; i++)
		{
			if (model.rows[i].id != 0 && model.rows[i].pinned_at == NULL && i % 10 != 0)
				remove_row(&model, &model.rows[i]);
		}
		SiftRowStoreCompact(model.store, (Size) -1);
		check_store(&model);
		SiftGetApi()->test_refuse_charge(0);
		MemoryContextDelete(model.store);
		EXPECT_EQUAL(used_bytes(), 0);
	} while (refusals() > before);
	PG_RETURN_INT32(n - 1);
}

/* ----------------------------------------------------------------
 *		One by one
 * ----------------------------------------------------------------
 */

/* Ids that are none. */
static void
check_ids(void)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	MemoryContext other = SiftRowStoreCreate(CurrentMemoryContext, "sift_test other");
	MemoryContext row = SiftRowContextCreate(CurrentMemoryContext, "sift_test row", SIFT_ROW_DEFAULT_SIZES);
	void	   *address;
	uint64		first = SiftRowPut(store, 10, &address);
	uint64		id = SiftRowPut(store, 10, &address);
	uint64		foreign = SiftRowPut(other, 10, &address);

	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, 0));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, (uint64) -1));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, id + 1));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, foreign));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(other, first));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowRemove(other, first));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE, SiftRowGet(row, id));
	EXPECT_ERROR(ERRCODE_INVALID_PARAMETER_VALUE, SiftRowPut(row, 10, &address));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, SiftRowPut(store, MaxAllocSize, &address));
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, SiftRowPut(store, (Size) -1, &address));
#if PG_VERSION_NUM >= 160000
	EXPECT_ERROR(ERRCODE_INTERNAL_ERROR, pfree(SiftRowGet(store, id)));
#endif

	/* the slot is used again, the id is not */
	SiftRowRemove(store, id);
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, id));
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowRemove(store, id));
	EXPECT(SiftRowPut(store, 10, &address) >> SIFT_ID_SLOT_SHIFT == id >> SIFT_ID_SLOT_SHIFT);
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, id));
	MemoryContextReset(store);
	(void) SiftRowPut(store, 10, &address);
	EXPECT_ERROR(ERRCODE_UNDEFINED_OBJECT, SiftRowGet(store, first));
	MemoryContextDelete(store);
	MemoryContextDelete(other);
	MemoryContextDelete(row);
}

/* A store is a context in which palloc works. */
static void
check_context(void)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	void	   *address;
	uint64		id = SiftRowPut(store, 100, &address);
	char	   *chunk = MemoryContextAllocZero(store, 100);

	memset(address, 1, 100);
	EXPECT(GetMemoryChunkContext(chunk) == store);
	chunk = repalloc(chunk, 100000);
	chunk = repalloc(chunk, 10);
	EXPECT(chunk[9] == 0 && ((char *) SiftRowGet(store, id))[99] == 1);
	SiftRowStoreCompact(store, (Size) -1);
	EXPECT(((char *) SiftRowGet(store, id))[99] == 1);
	pfree(chunk);
	MemoryContextDelete(store);
}

/* What is put while a walk is under way is not part of it. */
static void
check_walk(void)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	uint64		ids[1000];
	void	   *address;
	SiftRowWalk walk = {0};
	uint64		id;
	int			seen = 0;

	for (int i = 0; i < 1000; i++)
	{
		ids[i] = SiftRowPut(store, sizeof(int), &address);
		*(int *) address = i;
	}
	while (SiftRowNext(store, &walk, &id, &address))
	{
		int			i = *(int *) address;

		EXPECT(i == 0 || (i % 2 == 0 ? i % 4 == 0 : true));
		EXPECT(id == ids[i % 1000]);
		seen++;
		if (i % 4 == 0)
		{
			/* the one behind the next is removed, and its slot used again */
			SiftRowRemove(store, ids[i + 2]);
			(void) SiftRowPut(store, sizeof(int), &address);
			*(int *) address = -1;
			/* the next one is replaced by a longer one */
			SiftRowReplace(store, ids[i + 1], 100, &address);
			*(int *) address = i + 1;
		}
		if (i % 100 == 0)
			SiftRowStoreCompact(store, (Size) -1);
	}
	EXPECT_EQUAL(seen, 750);
	MemoryContextDelete(store);
}

/* Whether a row that lies alone in its block is moved. */
static bool
is_moved(MemoryContext store, uint64 id)
{
	char	   *before = SiftRowGet(store, id);

	SiftRowStoreCompact(store, (Size) -1);
	return SiftRowGet(store, id) != before;
}

/*
 * A store of many blocks, with little left in each: pinned rows were not moved
 * while the others were removed.
 */
static uint64
sparse_store(MemoryContext store)
{
	uint64		ids[20000];
	void	   *address;

	for (int i = 0; i < lengthof(ids); i++)
	{
		ids[i] = SiftRowPut(store, 100, &address);
		if (i % 700 == 350)
			(void) SiftRowPin(store, ids[i]);
	}
	for (int i = 0; i < lengthof(ids); i++)
	{
		if (i % 700 != 350)
			SiftRowRemove(store, ids[i]);
	}
	for (int i = 350; i < lengthof(ids); i += 700)
		SiftRowUnpin(store, ids[i]);
	return ids[350];
}

static void
end_subtransaction(bool commits, ResourceOwner owner)
{
	MemoryContext context = CurrentMemoryContext;

	if (commits)
		ReleaseCurrentSubTransaction();
	else
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

static void
check_pins(void)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	uint64		id;

	for (int commits = 0; commits <= 1; commits++)
	{
		MemoryContextReset(store);
		id = sparse_store(store);
		EXPECT_ERROR(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, SiftRowUnpin(store, id));
		EXPECT(SiftRowPin(store, id) == SiftRowGet(store, id));
		(void) SiftRowPin(store, id);
		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(caller);
		(void) SiftRowPin(store, id);
		end_subtransaction(commits, owner);
		EXPECT(!is_moved(store, id));
		SiftRowUnpin(store, id);
		EXPECT_ERROR(ERRCODE_OBJECT_IN_USE, SiftRowRemove(store, id));
		{
			void	   *address;

			EXPECT_ERROR(ERRCODE_OBJECT_IN_USE, SiftRowReplace(store, id, 1, &address));
		}
		SiftRowUnpin(store, id);
		EXPECT_ERROR(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, SiftRowUnpin(store, id));

		/* pinned in a subtransaction only */
		MemoryContextReset(store);
		id = sparse_store(store);
		BeginInternalSubTransaction(NULL);
		MemoryContextSwitchTo(caller);
		(void) SiftRowPin(store, id);
		EXPECT(!is_moved(store, id));
		end_subtransaction(commits, owner);
		EXPECT(is_moved(store, id));
	}

	/* pins of a store that goes, while others stay */
	{
		MemoryContext other = SiftRowStoreCreate(CurrentMemoryContext, "sift_test other");
		uint64		other_id = sparse_store(other);

		(void) SiftRowPin(store, id);
		(void) SiftRowPin(other, other_id);
		MemoryContextDelete(store);
		EXPECT(!is_moved(other, other_id));
		SiftRowUnpin(other, other_id);
		EXPECT(is_moved(other, other_id));
		MemoryContextDelete(other);
	}
}

/* Nothing is copied beyond the budget, and with it the work is done in the end. */
static void
check_budget(void)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	Size		before;
	int			calls = 0;

	(void) sparse_store(store);
	before = MemoryContextMemAllocated(store, true);
	EXPECT_EQUAL(SiftRowStoreCompact(store, 0), 0);
	EXPECT_EQUAL(MemoryContextMemAllocated(store, true), before);
	while (SiftRowStoreCompact(store, 3000) > 0)
		calls++;
	EXPECT(calls > 1);
	EXPECT(MemoryContextMemAllocated(store, true) < before / 3);
	MemoryContextDelete(store);
}

static void
check_tuples(void)
{
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test store");
	MemoryContext bare = SiftBatchContextCreate(CurrentMemoryContext, "sift_test bare",
												SIFT_BATCH_BARE, SIFT_BATCH_DEFAULT_SIZES);
	MemoryContext caller;
	TupleTableSlot *slot;
	uint64		ids[3];

	SPI_connect();
	EXPECT_EQUAL(SPI_execute("SELECT i, repeat('x', i * 50000) || i, NULL::int FROM generate_series(1, 3) AS i", true, 0), SPI_OK_SELECT);
	slot = MakeSingleTupleTableSlot(SPI_tuptable->tupdesc, &TTSOpsHeapTuple);
	for (int i = 0; i < 3; i++)
	{
		ExecStoreHeapTuple(SPI_tuptable->vals[i], slot, false);
		/* where nothing can be freed */
		caller = MemoryContextSwitchTo(bare);
		ids[i] = SiftRowPutTuple(store, slot);
		MemoryContextSwitchTo(caller);
	}
	ExecDropSingleTupleTableSlot(slot);
	slot = MakeSingleTupleTableSlot(SPI_tuptable->tupdesc, &TTSOpsMinimalTuple);
	for (int i = 0; i < 3; i++)
	{
		bool		isnull;
		MinimalTuple tuple;
		bool		copied;

		SiftRowGetTuple(store, ids[i], slot);
		tuple = ExecFetchSlotMinimalTuple(slot, &copied);
		EXPECT(!copied && (void *) tuple == SiftRowGet(store, ids[i]));
		EXPECT_EQUAL(tuple->t_len, SiftRowSize(store, ids[i]));
		EXPECT_EQUAL(DatumGetInt32(slot_getattr(slot, 1, &isnull)), i + 1);
		EXPECT_EQUAL(strlen(TextDatumGetCString(slot_getattr(slot, 2, &isnull))), (i + 1) * 50000 + 1);
		(void) slot_getattr(slot, 3, &isnull);
		EXPECT(isnull);
	}
	ExecDropSingleTupleTableSlot(slot);
	SPI_finish();
	MemoryContextDelete(bare);
	MemoryContextDelete(store);
}

Datum
sift_test_store(PG_FUNCTION_ARGS)
{
	check_ids();
	check_context();
	check_walk();
	check_pins();
	check_budget();
	check_tuples();
	EXPECT_EQUAL(used_bytes(), 0);
	PG_RETURN_VOID();
}

/* ----------------------------------------------------------------
 *		How much is held
 * ----------------------------------------------------------------
 */

/* What the view says of a column of the store of this name. */
static int64
view_says(const char *column, const char *name)
{
	bool		isnull;
	int64		value;

	SPI_connect();
	EXPECT_EQUAL(SPI_execute(psprintf("SELECT %s FROM sift_memory_usage_contexts WHERE name = '%s'", column, name), true, 0), SPI_OK_SELECT);
	EXPECT_EQUAL(SPI_processed, 1);
	value = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return value;
}

/*
 * Put rows, remove all but one of "keep" in random order, compact.  What is charged
 * may be 1.05 of the rows, with their headers, and their slots, and a block of each.
 * That again some times.
 */
Datum
sift_test_store_shrinks(PG_FUNCTION_ARGS)
{
	int			size = PG_GETARG_INT32(0);
	int			count = PG_GETARG_INT32(1);
	int			keep = PG_GETARG_INT32(2);
	int			rounds = PG_GETARG_INT32(3);
	MemoryContext store = SiftRowStoreCreate(CurrentMemoryContext, "sift_test shrinks");
	uint64	   *ids = palloc(count * sizeof(uint64));
	int64		most_slots = 0;
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int round = 0; round < rounds; round++)
	{
		SiftUsageData usage;
		int64		live = 0;
		int64		slots;
		void	   *address;

		for (int i = 0; i < count; i++)
		{
			if (round > 0 && ids[i] != 0)
				continue;
			ids[i] = SiftRowPut(store, size, &address);
			memset(address, i, size);
		}
		for (int i = 0; i < count; i++)
		{
			EXPECT(*(char *) SiftRowGet(store, ids[i]) == (char) i);
			if (pg_prng_uint64_range(&random, 0, keep - 1) == 0)
			{
				live++;
				continue;
			}
			SiftRowRemove(store, ids[i]);
			ids[i] = 0;
		}
		SiftRowStoreCompact(store, (Size) -1);
		SiftUsage(&usage);
		EXPECT_EQUAL(view_says("rows", "sift_test shrinks"), live);
		slots = view_says("slot_bytes", "sift_test shrinks");
		EXPECT_EQUAL(used_bytes(), MemoryContextMemAllocated(store, true));
		EXPECT(used_bytes() + usage.kinds[SIFT_IDLE].bytes <=
			   (live * (MAXALIGN(size) + 24 + CHECKING_BYTES) + slots) * 105 / 100 + 96 * 1024);
		most_slots = Max(most_slots, slots / live);
	}
	MemoryContextDelete(store);
	PG_RETURN_INT64(most_slots);
}

/* Keep a store for the rest of the session of which one row in ten has stayed. */
Datum
sift_test_store_thin(PG_FUNCTION_ARGS)
{
	int			count = PG_GETARG_INT32(0);
	MemoryContext store = SiftRowStoreCreate(TopMemoryContext, "sift_test thin");
	uint64	   *ids = palloc(count * sizeof(uint64));
	void	   *address;

	for (int i = 0; i < count; i++)
		ids[i] = SiftRowPut(store, 100, &address);
	for (int i = 0; i < count; i++)
	{
		if (i % 10 != 0)
			SiftRowRemove(store, ids[i]);
	}
	pfree(ids);
	PG_RETURN_VOID();
}

/* Keep a sparse store for the rest of the session; the bytes that it holds. */
Datum
sift_test_store_fill(PG_FUNCTION_ARGS)
{
	MemoryContext store = SiftRowStoreCreate(TopMemoryContext, "sift_test sparse");

	(void) sparse_store(store);
	PG_RETURN_INT64(MemoryContextMemAllocated(store, true));
}
