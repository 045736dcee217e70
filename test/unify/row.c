/*
 * row.c
 *	  One row, by each of four allocators.
 *
 * This is where the difference lies that unify is there to show: a row as one
 * chunk that the session's account knows, against one allocation a value in a
 * heap that nobody counts.
 */
#include "postgres.h"

#include <malloc.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "unify.h"
#include "utils/datum.h"

/* ----------------------------------------------------------------
 *		One malloc a value
 * ----------------------------------------------------------------
 */

typedef struct MallocRow
{
	int			columns;
	bool	   *isnull;
	Datum		values[FLEXIBLE_ARRAY_MEMBER];
} MallocRow;

static void *
counted_malloc(Table *table, Size size)
{
	void	   *memory = malloc(size);

	if (memory == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	table->malloc_bytes += malloc_usable_size(memory);
	return memory;
}

static void
counted_free(Table *table, void *memory)
{
	table->malloc_bytes -= malloc_usable_size(memory);
	free(memory);
}

static void
malloc_row_free(Table *table, MallocRow *row)
{
	for (int i = 0; i < row->columns; i++)
	{
		if (!row->isnull[i] && !TupleDescAttr(table->desc, i)->attbyval)
			counted_free(table, DatumGetPointer(row->values[i]));
	}
	counted_free(table, row->isnull);
	counted_free(table, row);
}

/* A value in a malloc of its own. */
static Datum
malloc_value(Table *table, Datum value, Form_pg_attribute attribute)
{
	Size		size;
	void	   *copy;

	if (attribute->attbyval)
		return value;
	size = datumGetSize(value, false, attribute->attlen);
	copy = counted_malloc(table, size);
	memcpy(copy, DatumGetPointer(value), size);
	return PointerGetDatum(copy);
}

static MallocRow *
malloc_row_form(Table *table, Datum *values, bool *isnull)
{
	int			columns = table->desc->natts;
	MallocRow  *row = counted_malloc(table, offsetof(MallocRow, values) + columns * sizeof(Datum));

	/* as far as it has come, so that it can be freed */
	row->columns = 0;
	PG_TRY();
	{
		row->isnull = NULL;
		row->isnull = counted_malloc(table, Max(columns, 1) * sizeof(bool));
		for (int i = 0; i < columns; i++)
		{
			row->isnull[i] = isnull[i];
			row->values[i] = isnull[i] ? (Datum) 0 :
				malloc_value(table, values[i], TupleDescAttr(table->desc, i));
			row->columns = i + 1;
		}
	}
	PG_CATCH();
	{
		if (row->isnull != NULL)
			malloc_row_free(table, row);
		else
			counted_free(table, row);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return row;
}

/* ----------------------------------------------------------------
 *		A row store
 * ----------------------------------------------------------------
 */

#define row_id(row)		((uint64) (uintptr_t) (row))

static Row
store_row_form(Table *table, TupleDesc desc, Datum *values, bool *isnull)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	uint64		id;

	memcpy(slot->tts_values, values, desc->natts * sizeof(Datum));
	memcpy(slot->tts_isnull, isnull, desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	id = SiftRowPutTuple(table->store, slot);
	ExecDropSingleTupleTableSlot(slot);
	return (Row) (uintptr_t) id;
}

/* ----------------------------------------------------------------
 *		All of them
 * ----------------------------------------------------------------
 */

/* Values without any toasting, as SiftRowFormTuple makes them by itself. */
static void
detoast_values(TupleDesc desc, Datum *values, const bool *isnull)
{
	for (int i = 0; i < desc->natts; i++)
	{
		if (!isnull[i] && TupleDescAttr(desc, i)->attlen == -1)
			values[i] = PointerGetDatum(PG_DETOAST_DATUM(values[i]));
	}
}

/*
 * row_form
 *		Make a row of values; it belongs to the table.
 *
 * desc: the table's, or one that is physically the same
 *
 * May allocate in the caller's context.  Raises 53200, with nothing left.
 */
Row
row_form(Table *table, TupleDesc desc, Datum *values, bool *isnull)
{
	MemoryContext caller;
	Row			row;

	if (table->allocator == BY_SIFT)
		return SiftRowFormTuple(table->context, desc, values, isnull);
	if (table->allocator == BY_STORE)
		return store_row_form(table, desc, values, isnull);

	detoast_values(desc, values, isnull);
	if (table->allocator == BY_MALLOC)
		return malloc_row_form(table, values, isnull);
	caller = MemoryContextSwitchTo(table->context);
#if PG_VERSION_NUM >= 180000
	row = heap_form_minimal_tuple(desc, values, isnull, 0);
#else
	row = heap_form_minimal_tuple(desc, values, isnull);
#endif
	MemoryContextSwitchTo(caller);
	return row;
}

/*
 * row_deform
 *		The values of a row; they point into it, and are valid until a row is
 *		made or freed.
 */
void
row_deform(Table *table, Row row, Datum *values, bool *isnull)
{
	if (table->allocator == BY_MALLOC)
	{
		MallocRow  *parts = row;

		memcpy(values, parts->values, parts->columns * sizeof(Datum));
		memcpy(isnull, parts->isnull, parts->columns * sizeof(bool));
	}
	else
	{
		MinimalTuple minimal = table->allocator == BY_STORE ?
			SiftRowGet(table->store, row_id(row)) : row;
		HeapTupleData tuple;

		/* as if it had a heap tuple's header, which is not read */
		tuple.t_len = minimal->t_len + MINIMAL_TUPLE_OFFSET;
		tuple.t_data = (HeapTupleHeader) ((char *) minimal - MINIMAL_TUPLE_OFFSET);
		heap_deform_tuple(&tuple, table->desc, values, isnull);
	}
}

void
row_free(Table *table, Row row)
{
	switch (table->allocator)
	{
		case BY_SIFT:
			SiftRowFree(row);
			break;
		case BY_STORE:
			SiftRowRemove(table->store, row_id(row));
			break;
		case BY_MALLOC:
			malloc_row_free(table, row);
			break;
		case BY_ASET:
			pfree(row);
			break;
	}
}

/* How many allocations a row is. */
int64
row_allocations(Table *table, Row row)
{
	MallocRow  *parts = row;
	int64		allocations = 2;

	if (table->allocator != BY_MALLOC)
		return 1;
	for (int i = 0; i < parts->columns; i++)
	{
		if (!parts->isnull[i] && !TupleDescAttr(table->desc, i)->attbyval)
			allocations++;
	}
	return allocations;
}
