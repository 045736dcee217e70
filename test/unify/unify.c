/*
 * unify.c
 *	  The SQL functions.
 *
 * What can fail comes first and is undone when it does: rows are added behind
 * those that are there, and count only when all of them are made.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "unify.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(unify_register);
PG_FUNCTION_INFO_V1(unify_load);
PG_FUNCTION_INFO_V1(unify_write);
PG_FUNCTION_INFO_V1(unify_move);
PG_FUNCTION_INFO_V1(unify_read);
PG_FUNCTION_INFO_V1(unify_drop);
PG_FUNCTION_INFO_V1(unify_stats);

static Table *
table_argument(FunctionCallInfo fcinfo)
{
	return table_find(text_to_cstring(PG_GETARG_TEXT_PP(0)));
}

Datum
unify_register(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *allocator = text_to_cstring(PG_GETARG_TEXT_PP(1));

	for (Allocator a = BY_SIFT; a <= BY_ASET; a++)
	{
		if (strcmp(allocator, allocator_name(a)) == 0)
		{
			table_create(name, a);
			PG_RETURN_VOID();
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown allocator \"%s\"", allocator),
			 errhint("The allocators are \"sift\", \"store\", \"malloc\" and \"aset\".")));
}

/* ----------------------------------------------------------------
 *		Adding rows
 * ----------------------------------------------------------------
 */

/* What a table was before a call that adds rows to it. */
typedef struct Mark
{
	Table	   *table;
	bool		had_desc;
	int64		room;
	int64		added;			/* rows behind the last that counts */
	MemoryContext scratch;		/* for one row at a time */
} Mark;

static Mark
mark_table(Table *table)
{
	Mark		mark = {table, table->desc != NULL, table->room, 0,
		AllocSetContextCreate(CurrentMemoryContext, "unify scratch", ALLOCSET_DEFAULT_SIZES)
	};

	return mark;
}

/* Make a row behind the last one; it does not count yet. */
static void
add_row(volatile Mark *mark, TupleDesc desc, Datum *values, bool *isnull)
{
	Table	   *table = mark->table;
	MemoryContext caller = MemoryContextSwitchTo(mark->scratch);

	table_reserve(table, mark->added + 1);
	table->rows[table->first + table->count + mark->added] = row_form(table, desc, values, isnull);
	mark->added++;
	MemoryContextSwitchTo(caller);
	MemoryContextReset(mark->scratch);
}

/* Make the table what it was.  Cannot fail: lists are only made shorter. */
static void
undo(volatile Mark *mark)
{
	Table	   *table = mark->table;

	while (mark->added > 0)
		row_free(table, table->rows[table->first + table->count + --mark->added]);
	if (mark->room == 0 && table->rows != NULL)
	{
		pfree(table->rows);
		table->rows = NULL;
	}
	else if (mark->room < table->room)
		table->rows = repalloc_huge(table->rows, mark->room * sizeof(Row));
	table->room = mark->room;
	if (!mark->had_desc && table->desc != NULL)
	{
		FreeTupleDesc(table->desc);
		table->desc = NULL;
	}
}

/* Add the rows of a query; they do not count yet. */
static void
add_query(volatile Mark *mark, const char *query)
{
	Portal		portal;
	Datum	   *values = NULL;
	bool	   *isnull = NULL;

	SPI_connect();
	portal = SPI_cursor_parse_open(NULL, query, &(SPIParseOpenOptions) {.read_only = true});
	for (;;)
	{
		TupleDesc	desc;

		SPI_cursor_fetch(portal, true, 1000);
		desc = SPI_tuptable->tupdesc;
		if (values == NULL)
		{
			table_set_desc(mark->table, desc);
			values = palloc(desc->natts * sizeof(Datum));
			isnull = palloc(desc->natts * sizeof(bool));
		}
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			heap_deform_tuple(SPI_tuptable->vals[i], desc, values, isnull);
			add_row(mark, desc, values, isnull);
		}
		SPI_freetuptable(SPI_tuptable);
		CHECK_FOR_INTERRUPTS();
	}
	SPI_cursor_close(portal);
	SPI_finish();
}

Datum
unify_load(PG_FUNCTION_ARGS)
{
	volatile Mark mark = mark_table(table_argument(fcinfo));

	PG_TRY();
	{
		mark.table->busy = true;
		add_query(&mark, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	}
	PG_CATCH();
	{
		mark.table->busy = false;
		undo(&mark);
		PG_RE_THROW();
	}
	PG_END_TRY();
	mark.table->busy = false;
	mark.table->count += mark.added;
	PG_RETURN_INT64(mark.added);
}

/* The type of unify_write's rows. */
#define WRITE_COLUMNS	6
#define LONGEST_TEXT	2000

static TupleDesc
write_desc(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(WRITE_COLUMNS);

	TupleDescInitEntry(desc, 1, "key", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "amount", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 3, "ratio", FLOAT8OID, -1, 0);
	TupleDescInitEntry(desc, 4, "name", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, 5, "note", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, 6, "body", TEXTOID, -1, 0);
	return desc;
}

/* A text of 0 to 2,000 bytes. */
static Datum
random_text(pg_prng_state *random)
{
	int			length = pg_prng_uint64_range(random, 0, LONGEST_TEXT);
	text	   *value = palloc(VARHDRSZ + length);

	SET_VARSIZE(value, VARHDRSZ + length);
	for (int i = 0; i < length; i++)
		VARDATA(value)[i] = 'a' + pg_prng_uint64_range(random, 0, 25);
	return PointerGetDatum(value);
}

static void
add_random_row(volatile Mark *mark, pg_prng_state *random, TupleDesc desc, int64 key)
{
	Datum		values[WRITE_COLUMNS];
	bool		isnull[WRITE_COLUMNS] = {false};
	MemoryContext caller = MemoryContextSwitchTo(mark->scratch);

	values[0] = Int64GetDatum(key);
	values[1] = Int64GetDatum((int64) pg_prng_uint64(random));
	values[2] = Float8GetDatum(pg_prng_double(random));
	for (int i = 3; i < WRITE_COLUMNS; i++)
	{
		isnull[i] = pg_prng_uint64_range(random, 0, 19) == 0;
		values[i] = isnull[i] ? (Datum) 0 : random_text(random);
	}
	MemoryContextSwitchTo(caller);
	add_row(mark, desc, values, isnull);
}

/* The key of a row that unify_write has made. */
static int64
key_of(Table *table, Row row)
{
	Datum		values[WRITE_COLUMNS];
	bool		isnull[WRITE_COLUMNS];

	row_deform(table, row, values, isnull);
	return DatumGetInt64(values[0]);
}

/*
 * The new versions of rows are made first, behind the rows that are there,
 * together with the rows that are new.  Then, when nothing can fail, they take
 * their places.
 */
typedef struct Write
{
	int64		inserts;
	int64		updates;
	int64		deletes;
	int64	   *targets;		/* rows to replace, by number */
	pg_prng_state random;
} Write;

static void
make_versions(volatile Mark *mark, Write *write)
{
	Table	   *table = mark->table;
	TupleDesc	desc = write_desc();

	table_set_desc(table, desc);
	for (int64 i = 0; i < write->updates; i++)
	{
		write->targets[i] = table->first + pg_prng_uint64_range(&write->random, 0, table->count - 1);
		add_random_row(mark, &write->random, desc,
					   key_of(table, table->rows[write->targets[i]]));
		CHECK_FOR_INTERRUPTS();
	}
	for (int64 i = 0; i < write->inserts; i++)
	{
		add_random_row(mark, &write->random, desc, table->next_key + i);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Cannot fail. */
static void
put_versions(volatile Mark *mark, Write *write)
{
	Table	   *table = mark->table;
	Row		   *made = table->rows + table->first + table->count;

	for (int64 i = 0; i < write->updates; i++)
	{
		row_free(table, table->rows[write->targets[i]]);
		table->rows[write->targets[i]] = made[i];
	}
	memmove(made, made + write->updates, write->inserts * sizeof(Row));
	table->count += write->inserts;
	table->next_key += write->inserts;
	for (int64 i = 0; i < write->deletes; i++)
	{
		int64		victim = table->first + pg_prng_uint64_range(&write->random, 0, table->count - 1);

		row_free(table, table->rows[victim]);
		table->rows[victim] = table->rows[table->first + --table->count];
	}
}

static void
check_write(Table *table, Write *write)
{
	if (write->inserts < 0 || write->updates < 0 || write->deletes < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a number of rows cannot be negative")));
	if (write->updates > 0 && table->count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("table \"%s\" has no rows to update", table->name)));
	if (write->deletes > table->count + write->inserts)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("table \"%s\" has not as many rows to delete", table->name)));
}

Datum
unify_write(PG_FUNCTION_ARGS)
{
	volatile Mark mark = mark_table(table_argument(fcinfo));
	Write		write = {
		.inserts = PG_GETARG_INT32(1),
		.updates = PG_GETARG_INT32(2),
		.deletes = PG_GETARG_INT32(3)
	};

	check_write(mark.table, &write);
	pg_prng_seed(&write.random, PG_GETARG_INT64(4));
	write.targets = palloc_extended(Max(write.updates, 1) * sizeof(int64), MCXT_ALLOC_HUGE);
	PG_TRY();
	{
		make_versions(&mark, &write);
	}
	PG_CATCH();
	{
		undo(&mark);
		PG_RE_THROW();
	}
	PG_END_TRY();
	put_versions(&mark, &write);
	PG_RETURN_INT64(mark.table->count);
}

/* ----------------------------------------------------------------
 *		Files
 * ----------------------------------------------------------------
 */

Datum
unify_move(PG_FUNCTION_ARGS)
{
	Table	   *table = table_argument(fcinfo);
	int64		rows = PG_GETARG_INT64(1);

	if (rows < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a number of rows cannot be negative")));
	rows = Min(rows, table->count);
	if (rows > 0)
	{
		columnar_write(table, rows, text_to_cstring(PG_GETARG_TEXT_PP(2)));
		table_forget_first(table, rows);
	}
	PG_RETURN_INT64(rows);
}

static void
put_result(void *arg, Datum *values, bool *isnull)
{
	ReturnSetInfo *result = arg;

	tuplestore_putvalues(result->setResult, result->setDesc, values, isnull);
}

Datum
unify_read(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	columnar_read(text_to_cstring(PG_GETARG_TEXT_PP(0)), result->setDesc, put_result, result);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 *		The rest
 * ----------------------------------------------------------------
 */

Datum
unify_drop(PG_FUNCTION_ARGS)
{
	table_drop(table_argument(fcinfo));
	PG_RETURN_VOID();
}

Datum
unify_stats(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (Table *table = table_first(); table != NULL; table = table->next)
	{
		Datum		values[5];
		bool		nulls[5] = {false};
		int64		allocations = 0;

		for (int64 i = 0; i < table->count; i++)
			allocations += row_allocations(table, table->rows[table->first + i]);
		values[0] = CStringGetTextDatum(table->name);
		values[1] = CStringGetTextDatum(allocator_name(table->allocator));
		values[2] = Int64GetDatum(table->count);
		values[3] = Int64GetDatum(table_bytes(table));
		values[4] = Int64GetDatum(allocations);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
