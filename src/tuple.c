/*-------------------------------------------------------------------------
 *
 * tuple.c
 *	  Rows as single chunks, and in row stores.
 *
 * A row is formed by heap_form_minimal_tuple(), which makes one palloc.  What
 * it does not do is fetch values that are stored out of line, or decompress:
 * that is done here, in a context of its own, so that nothing but the row
 * ends up in the row context.  Expanded values are flattened there as well,
 * since a type's own code may allocate while it does that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "compat.h"
#include "row_context.h"
#include "row_store.h"
#include "tuple.h"

/* Whether a value must be fetched, decompressed or flattened. */
static bool
is_toasted(TupleDesc desc, int i, const Datum *values, const bool *isnull)
{
	struct varlena *value;

	if (isnull[i] || TupleDescAttr(desc, i)->attlen != -1)
		return false;
	value = (struct varlena *) DatumGetPointer(values[i]);
	return VARATT_IS_COMPRESSED(value) || VARATT_IS_EXTERNAL(value);
}

/* A value as it is without any toasting, in a context. */
static Datum
detoast_in(MemoryContext scratch, Datum value)
{
	MemoryContext caller_context = MemoryContextSwitchTo(scratch);
	struct varlena *plain = detoast_attr((struct varlena *) DatumGetPointer(value));

	MemoryContextSwitchTo(caller_context);
	return PointerGetDatum(plain);
}

/*
 * form_plain
 *		heap_form_minimal_tuple() of values without any toasting, in a context.
 */
static MinimalTuple
form_plain(MemoryContext context, TupleDesc desc, const Datum *values, const bool *isnull)
{
	MemoryContext scratch = NULL;
	MemoryContext caller_context;
	Datum	   *plain = NULL;
	MinimalTuple tuple;

	for (int i = 0; i < desc->natts; i++)
	{
		if (!is_toasted(desc, i, values, isnull))
			continue;
		if (scratch == NULL)
		{
			scratch = AllocSetContextCreate(CurrentMemoryContext,
											"Sift row", ALLOCSET_DEFAULT_SIZES);
			plain = MemoryContextAlloc(scratch, desc->natts * sizeof(Datum));
			memcpy(plain, values, desc->natts * sizeof(Datum));
		}
		plain[i] = detoast_in(scratch, values[i]);
	}
	caller_context = MemoryContextSwitchTo(context);
	tuple = form_minimal_tuple(desc, plain ? plain : values, isnull);
	MemoryContextSwitchTo(caller_context);
	if (scratch != NULL)
		MemoryContextDelete(scratch);
	return tuple;
}

/*
 * tuple_form
 *		SiftRowFormTuple, see sift.h.
 */
MinimalTuple
tuple_form(MemoryContext row, TupleDesc desc, const Datum *values, const bool *isnull)
{
	if (!is_row_context(row))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("memory context \"%s\" is not a Sift row context", row->name)));
	return form_plain(row, desc, values, isnull);
}

/*
 * tuple_put
 *		SiftRowPutTuple, see sift.h.
 */
uint64
tuple_put(MemoryContext store, TupleTableSlot *slot)
{
	MinimalTuple tuple;
	void	   *row;
	uint64		id;

	slot_getallattrs(slot);
	/* the caller's context may be one without pfree; the slot's is not */
	tuple = form_plain(slot->tts_mcxt, slot->tts_tupleDescriptor,
					   slot->tts_values, slot->tts_isnull);
	PG_TRY();
	{
		id = row_put(store, tuple->t_len, &row);
		memcpy(row, tuple, tuple->t_len);
	}
	PG_FINALLY();
	{
		pfree(tuple);
	}
	PG_END_TRY();
	return id;
}

/*
 * tuple_get
 *		SiftRowGetTuple, see sift.h.
 */
void
tuple_get(MemoryContext store, uint64 id, TupleTableSlot *slot)
{
	ExecStoreMinimalTuple(row_get(store, id), slot, false);
}
