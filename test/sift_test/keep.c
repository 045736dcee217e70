/*
 * keep.c
 *	  Rows of any query, kept in a row context from one statement to the next.
 *
 * What an engine that keeps rows in memory would do, as short as can be: each
 * row is one chunk, and the rows are an array in the same context.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "sift_test.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(sift_test_keep);
PG_FUNCTION_INFO_V1(sift_test_kept);
PG_FUNCTION_INFO_V1(sift_test_free);
PG_FUNCTION_INFO_V1(sift_test_drop);

/* Lies in its own context. */
typedef struct Kept
{
	struct Kept *next;
	char	   *name;
	MemoryContext context;
	TupleDesc	desc;
	int64		count;
	int64		room;
	MinimalTuple *rows;			/* NULL where one was freed */
} Kept;

static Kept *all_kept = NULL;

static Kept **
find(const char *name)
{
	Kept	  **link = &all_kept;

	while (*link != NULL && strcmp((*link)->name, name) != 0)
		link = &(*link)->next;
	return link;
}

static Kept *
find_existing(const char *name)
{
	Kept	   *kept = *find(name);

	if (kept == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no rows are kept as \"%s\"", name)));
	return kept;
}

static void
drop(Kept **link)
{
	Kept	   *kept = *link;

	*link = kept->next;
	MemoryContextDelete(kept->context);
}

static void
keep_row(Kept *kept, HeapTuple tuple, TupleDesc desc, Datum *values, bool *nulls)
{
	if (kept->count == kept->room)
	{
		int64		room = Max(kept->room * 2, 64);

		kept->rows = kept->rows == NULL ?
			MemoryContextAllocHuge(kept->context, room * sizeof(MinimalTuple)) :
			repalloc_huge(kept->rows, room * sizeof(MinimalTuple));
		kept->room = room;
	}
	heap_deform_tuple(tuple, desc, values, nulls);
	kept->rows[kept->count] = SiftRowFormTuple(kept->context, desc, values, nulls);
	kept->count++;
}

static void
keep_query(Kept *kept, const char *query)
{
	Portal		portal;
	Datum	   *values = NULL;
	bool	   *nulls = NULL;

	SPI_connect();
	portal = SPI_cursor_parse_open(NULL, query, &(SPIParseOpenOptions) {.read_only = true});
	for (;;)
	{
		TupleDesc	desc;

		SPI_cursor_fetch(portal, true, 1000);
		desc = SPI_tuptable->tupdesc;
		if (values == NULL)
		{
			MemoryContext caller = MemoryContextSwitchTo(kept->context);

			kept->desc = CreateTupleDescCopy(desc);
			MemoryContextSwitchTo(caller);
			values = palloc(desc->natts * sizeof(Datum));
			nulls = palloc(desc->natts * sizeof(bool));
		}
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
			keep_row(kept, SPI_tuptable->vals[i], desc, values, nulls);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	SPI_finish();
}

/*
 * The context is the statement's until all rows are there, so that a load
 * that fails leaves nothing.
 */
Datum
sift_test_keep(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	MemoryContext context = SiftRowContextCreate(CurrentMemoryContext, "sift_test kept",
												 SIFT_ROW_DEFAULT_SIZES);
	Kept	   *kept = MemoryContextAllocZero(context, sizeof(Kept));
	Kept	  **link;

	kept->context = context;
	kept->name = MemoryContextStrdup(context, name);
	MemoryContextSetIdentifier(context, kept->name);
	keep_query(kept, text_to_cstring(PG_GETARG_TEXT_PP(1)));

	link = find(name);
	if (*link != NULL)
		drop(link);
	MemoryContextSetParent(context, TopMemoryContext);
	kept->next = all_kept;
	all_kept = kept;
	PG_RETURN_INT64(kept->count);
}

Datum
sift_test_kept(PG_FUNCTION_ARGS)
{
	Kept	   *kept = find_existing(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TupleTableSlot *slot;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	slot = MakeSingleTupleTableSlot(kept->desc, &TTSOpsMinimalTuple);
	for (int64 i = 0; i < kept->count; i++)
	{
		if (kept->rows[i] == NULL)
			continue;
		ExecStoreMinimalTuple(kept->rows[i], slot, false);
		tuplestore_puttupleslot(result->setResult, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	return (Datum) 0;
}

Datum
sift_test_free(PG_FUNCTION_ARGS)
{
	Kept	   *kept = find_existing(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int			n = PG_GETARG_INT32(1);
	int64		freed = 0;

	for (int64 i = 0; i < kept->count; i++)
	{
		if (kept->rows[i] == NULL || (n > 0 && i % n == 0))
			continue;
		SiftRowFree(kept->rows[i]);
		kept->rows[i] = NULL;
		freed++;
	}
	PG_RETURN_INT64(freed);
}

Datum
sift_test_drop(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));

	(void) find_existing(name);
	drop(find(name));
	PG_RETURN_VOID();
}
