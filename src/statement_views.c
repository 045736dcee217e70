/*-------------------------------------------------------------------------
 *
 * statement_views.c
 *	  The SQL functions that tell what statements have needed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "tracking.h"
#include "view_rows.h"

PGDLLEXPORT Datum sift_memory_usage_statements_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_last_statement_1_0(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum sift_reset_statements_1_0(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(sift_memory_usage_statements_1_0);
PG_FUNCTION_INFO_V1(sift_last_statement_1_0);
PG_FUNCTION_INFO_V1(sift_reset_statements_1_0);

/* Columns that tell whose statement it is are for those who may know. */
static void
store_statement(ReturnSetInfo *result, const StatementEntry *entry)
{
	RowBuilder	row = {0};

	if (view_shows(entry->key.userid))
	{
		put(&row, ObjectIdGetDatum(entry->key.userid));
		put(&row, ObjectIdGetDatum(entry->key.dbid));
		put(&row, Int64GetDatum(entry->key.queryid));
		put(&row, BoolGetDatum(entry->key.toplevel));
		put_number(&row, entry->calls);
	}
	else
	{
		while (row.columns < 5)
			put_null(&row);
	}
	put_number(&row, entry->max_peak);
	put_number(&row, entry->calls > 0 ? entry->sum_of_peaks / entry->calls : -1);
	put_number(&row, entry->last_peak);
	if (view_shows(entry->key.userid))
		put_number(&row, entry->refusals);
	else
		put_null(&row);
	put_number(&row, entry->waived);
	store_row(result, &row);
}

static void
list_statements(ReturnSetInfo *result)
{
	StatementEntry entries[STATEMENT_SET_SIZE];

	for (int set = 0; set < statement_table_sets(); set++)
	{
		int			count = statement_table_read(set, entries);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < count; i++)
			store_statement(result, &entries[i]);
	}
}

Datum
sift_memory_usage_statements_1_0(PG_FUNCTION_ARGS)
{
	view_needs_preload(statement_table_exists());
	view_answer(list_statements, fcinfo);
	return (Datum) 0;
}

/*
 * sift_last_statement
 *		What the top-level statement before needed in this session; nulls when
 *		there was none, or it was not looked at.
 */
Datum
sift_last_statement_1_0(PG_FUNCTION_ARGS)
{
	RowBuilder	row = {0};
	TupleDesc	desc;
	int64		queryid;
	StatementUse use;
	bool		known = tracking_last(&queryid, &use);

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (known && queryid != 0)
		put(&row, Int64GetDatum(queryid));
	else
		put_null(&row);
	put_number(&row, known ? use.peak : -1);
	put_number(&row, known ? use.refusals : -1);
	put_number(&row, known ? use.waived : -1);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row.values, row.nulls)));
}

/*
 * sift_reset_statements
 *		Forget what statements have needed.
 */
Datum
sift_reset_statements_1_0(PG_FUNCTION_ARGS)
{
	view_needs_preload(statement_table_exists());
	statement_table_reset();
	PG_RETURN_VOID();
}
