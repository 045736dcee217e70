/*-------------------------------------------------------------------------
 *
 * rows_bench.c
 *	  Rows of several values: an allocation a value, or one chunk a row.
 *
 * Many rows are alive; the oldest is freed and a new one made, again and again.
 * In the end all are read back, and compared with what was put in.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "bench.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(sift_bench_rows);

#define MEASURED			1000000 /* rows that are freed and made */
#define SOURCES				1000	/* different rows */
#define MOST_VALUES			8
#define LONGEST_VALUE		100 /* bytes of a text */

typedef struct Source
{
	Datum		values[MOST_VALUES];
	bool		isnull[MOST_VALUES];
	MinimalTuple tuple;			/* of these values */
} Source;

typedef struct Rows
{
	int			columns;
	TupleDesc	desc;
	MemoryContext context;		/* a row context, a row store, or an AllocSet,
								 * which is the current one then */
	const Peer *peer;
	TupleTableSlot *slot;		/* to read a tuple */
	Source		sources[SOURCES];
} Rows;

/* How a row is made, freed, and read. */
typedef struct RowKind
{
	const char *name;
	void	   *(*make) (Rows *rows, Source *source);
	void		(*drop) (Rows *rows, void *row);
	void		(*read) (Rows *rows, void *row, Datum *values, bool *isnull);
} RowKind;

static MinimalTuple
form_tuple(Rows *rows, Source *source)
{
#if PG_VERSION_NUM >= 180000
	return heap_form_minimal_tuple(rows->desc, source->values, source->isnull, 0);
#else
	return heap_form_minimal_tuple(rows->desc, source->values, source->isnull);
#endif
}

static void
read_tuple(Rows *rows, void *row, Datum *values, bool *isnull)
{
	ExecStoreMinimalTuple(row, rows->slot, false);
	slot_getallattrs(rows->slot);
	memcpy(values, rows->slot->tts_values, rows->columns * sizeof(Datum));
	memcpy(isnull, rows->slot->tts_isnull, rows->columns * sizeof(bool));
}

/* ----------------------------------------------------------------
 *		An allocation a value, and one for their addresses
 * ----------------------------------------------------------------
 */

static void *
make_by_peer(Rows *rows, Source *source)
{
	Datum	   *row = rows->peer->alloc(rows->columns * sizeof(Datum));

	for (int i = 0; i < rows->columns; i++)
	{
		Size		size = VARSIZE(DatumGetPointer(source->values[i]));
		void	   *value = rows->peer->alloc(size);

		memcpy(value, DatumGetPointer(source->values[i]), size);
		row[i] = PointerGetDatum(value);
	}
	return row;
}

static void
drop_by_peer(Rows *rows, void *row)
{
	for (int i = 0; i < rows->columns; i++)
		rows->peer->free(DatumGetPointer(((Datum *) row)[i]));
	rows->peer->free(row);
}

static void
read_values(Rows *rows, void *row, Datum *values, bool *isnull)
{
	memcpy(values, row, rows->columns * sizeof(Datum));
	memset(isnull, false, rows->columns);
}

/* ----------------------------------------------------------------
 *		One chunk a row
 * ----------------------------------------------------------------
 */

static void *
make_tuple(Rows *rows, Source *source)
{
	return form_tuple(rows, source);
}

static void
drop_tuple(Rows *rows, void *row)
{
	pfree(row);
}

static void *
make_formed(Rows *rows, Source *source)
{
	return SiftRowFormTuple(rows->context, rows->desc, source->values, source->isnull);
}

static void *
make_ready(Rows *rows, Source *source)
{
	return memcpy(SiftRowAlloc(rows->context, source->tuple->t_len), source->tuple, source->tuple->t_len);
}

static void
drop_chunk(Rows *rows, void *row)
{
	SiftRowFree(row);
}

static void *
make_stored(Rows *rows, Source *source)
{
	void	   *address;
	uint64		id = SiftRowPut(rows->context, source->tuple->t_len, &address);

	memcpy(address, source->tuple, source->tuple->t_len);
	return (void *) (uintptr_t) id;
}

static void
drop_stored(Rows *rows, void *row)
{
	SiftRowRemove(rows->context, (uintptr_t) row);
}

static void
read_stored(Rows *rows, void *row, Datum *values, bool *isnull)
{
	read_tuple(rows, SiftRowGet(rows->context, (uintptr_t) row), values, isnull);
}

static const Peer palloc_and_pfree = {palloc, pfree, NULL};

static const RowKind kinds[] = {
	{"malloc", make_by_peer, drop_by_peer, read_values},
	{"jemalloc", make_by_peer, drop_by_peer, read_values},
	{"mimalloc", make_by_peer, drop_by_peer, read_values},
	{"tcmalloc", make_by_peer, drop_by_peer, read_values},
	{"aset", make_by_peer, drop_by_peer, read_values},
	{"aset tuple", make_tuple, drop_tuple, read_tuple},
	{"row formed", make_formed, drop_chunk, read_tuple},
	{"row ready", make_ready, drop_chunk, read_tuple},
	{"store ready", make_stored, drop_stored, read_stored}
};

/* ----------------------------------------------------------------
 *		The measurement
 * ----------------------------------------------------------------
 */

static void
make_sources(Rows *rows)
{
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int i = 0; i < SOURCES; i++)
	{
		Source	   *source = &rows->sources[i];

		for (int c = 0; c < rows->columns; c++)
		{
			int			length = pg_prng_uint64_range(&random, 1, LONGEST_VALUE);
			text	   *value = palloc(VARHDRSZ + length);

			SET_VARSIZE(value, VARHDRSZ + length);
			memset(VARDATA(value), 'a' + (i + c) % 26, length);
			source->values[c] = PointerGetDatum(value);
			source->isnull[c] = false;
		}
		source->tuple = form_tuple(rows, source);
	}
}

/* Every value of a row is as it was put in. */
static void
check_row(Rows *rows, const RowKind *kind, void *row, Source *source)
{
	Datum		values[MOST_VALUES];
	bool		isnull[MOST_VALUES];

	kind->read(rows, row, values, isnull);
	for (int c = 0; c < rows->columns; c++)
	{
		text	   *value = DatumGetTextPP(values[c]);
		text	   *expected = DatumGetTextPP(source->values[c]);

		if (isnull[c] || VARSIZE_ANY_EXHDR(value) != VARSIZE_ANY_EXHDR(expected) ||
			memcmp(VARDATA_ANY(value), VARDATA_ANY(expected), VARSIZE_ANY_EXHDR(value)) != 0)
			elog(ERROR, "kind \"%s\" has a wrong value", kind->name);
	}
}

/* ns that it takes to free a row and make another; bytes that a row takes. */
Datum
sift_bench_rows(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const RowKind *kind = NULL;
	int			count = PG_GETARG_INT32(2);
	Rows	   *rows = palloc0(sizeof(Rows));
	void	  **alive = palloc_extended(Max(count, 1) * sizeof(void *), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	int			turns = Max(MEASURED / Max(count, 1), 1);
	MemoryContext caller = CurrentMemoryContext;
	int64		before;
	int64		start = 0;
	TupleDesc	desc;
	Datum		values[2];
	bool		isnull[2] = {false, false};

	for (int i = 0; i < lengthof(kinds); i++)
	{
		if (strcmp(kinds[i].name, name) == 0)
			kind = &kinds[i];
	}
	rows->columns = PG_GETARG_INT32(1);
	if (kind == NULL || count < 1 || rows->columns < 1 || rows->columns > MOST_VALUES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown kind \"%s\", no rows, or not 1 to %d values", name, MOST_VALUES)));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	rows->desc = CreateTemplateTupleDesc(rows->columns);
	for (int c = 1; c <= rows->columns; c++)
		TupleDescInitEntry(rows->desc, c, "value", TEXTOID, -1, 0);
	make_sources(rows);
	rows->slot = MakeSingleTupleTableSlot(rows->desc, &TTSOpsMinimalTuple);
	rows->peer = peer_find(name);
	if (strncmp(name, "row", 3) == 0)
		rows->context = SiftRowContextCreate(CurrentMemoryContext, "rows", SIFT_ROW_DEFAULT_SIZES);
	else if (strncmp(name, "store", 5) == 0)
		rows->context = SiftRowStoreCreate(CurrentMemoryContext, "rows");
	else if (rows->peer == NULL)
	{
		rows->context = AllocSetContextCreate(CurrentMemoryContext, "rows", ALLOCSET_DEFAULT_SIZES);
		rows->peer = &palloc_and_pfree;
		caller = MemoryContextSwitchTo(rows->context);
	}

	before = private_memory();
	for (int i = 0; i < count; i++)
		alive[i] = kind->make(rows, &rows->sources[i % SOURCES]);
	for (int turn = 0; turn <= turns; turn++)
	{
		/* the first turn is not measured */
		if (turn == 1)
			start = clock_ns();
		for (int i = 0; i < count; i++)
		{
			kind->drop(rows, alive[i]);
			alive[i] = kind->make(rows, &rows->sources[i % SOURCES]);
		}
		CHECK_FOR_INTERRUPTS();
	}
	values[0] = Float8GetDatum((double) (clock_ns() - start) / count / turns);
	values[1] = Float8GetDatum((double) (rows->context != NULL ? MemoryContextMemAllocated(rows->context, true) :
										 private_memory() - before) / count);
	MemoryContextSwitchTo(caller);
	for (int i = 0; i < count; i++)
		check_row(rows, kind, alive[i], &rows->sources[i % SOURCES]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
}
