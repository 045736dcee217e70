/*-------------------------------------------------------------------------
 *
 * tuple.h
 *	  Rows as single chunks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_TUPLE_H
#define SIFT_TUPLE_H

#include "access/htup.h"
#include "access/tupdesc.h"

extern MinimalTuple tuple_form(MemoryContext row, TupleDesc desc,
							   const Datum *values, const bool *isnull);
extern uint64 tuple_put(MemoryContext store, TupleTableSlot *slot);
extern void tuple_get(MemoryContext store, uint64 id, TupleTableSlot *slot);

#endif							/* SIFT_TUPLE_H */
