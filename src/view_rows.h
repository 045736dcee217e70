/*-------------------------------------------------------------------------
 *
 * view_rows.h
 *	  What the functions behind the views share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_VIEW_ROWS_H
#define SIFT_VIEW_ROWS_H

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

extern bool view_shows(Oid userid);
extern void view_needs_preload(bool preloaded);
extern void view_answer(void (*list) (ReturnSetInfo *result), FunctionCallInfo fcinfo);

#define MAX_COLUMNS				22

/* A row in the making: columns are put one after the other. */
typedef struct RowBuilder
{
	int			columns;
	Datum		values[MAX_COLUMNS];
	bool		nulls[MAX_COLUMNS];
} RowBuilder;

static inline void
put(RowBuilder *row, Datum value)
{
	row->nulls[row->columns] = false;
	row->values[row->columns++] = value;
}

static inline void
put_null(RowBuilder *row)
{
	row->nulls[row->columns] = true;
	row->values[row->columns++] = (Datum) 0;
}

/* A number, null when it is negative: not known, or there is none. */
static inline void
put_number(RowBuilder *row, int64 number)
{
	if (number < 0)
		put_null(row);
	else
		put(row, Int64GetDatum(number));
}

static inline void
put_text(RowBuilder *row, const char *text)
{
	if (text == NULL)
		put_null(row);
	else
		put(row, CStringGetTextDatum(text));
}

static inline void
store_row(ReturnSetInfo *result, RowBuilder *row)
{
	Assert(row->columns == result->setDesc->natts);
	tuplestore_putvalues(result->setResult, result->setDesc, row->values, row->nulls);
}

#endif							/* SIFT_VIEW_ROWS_H */
