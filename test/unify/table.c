/*
 * table.c
 *	  The tables of a session, and the lists of their rows.
 *
 * A table costs 1 kB when it is registered, the block that its context lies in
 * (BY_STORE another one).  Everything of it is in that context, but for rows by
 * malloc; dropping it deletes the context.
 */
#include "postgres.h"

#include "unify.h"

/* Entries of a list of rows, at least. */
#define LEAST_ROOM		32

static Table *tables = NULL;

const char *
allocator_name(Allocator allocator)
{
	switch (allocator)
	{
		case BY_SIFT:
			return "sift";
		case BY_STORE:
			return "store";
		case BY_MALLOC:
			return "malloc";
		case BY_ASET:
			return "aset";
	}
	return NULL;
}

Table *
table_first(void)
{
	return tables;
}

static Table *
lookup(const char *name)
{
	Table	   *table = tables;

	while (table != NULL && strcmp(table->name, name) != 0)
		table = table->next;
	return table;
}

/*
 * A table of that name; 42P01 without one, 55006 while rows are being loaded
 * into it, since the query of a load may call any function.
 */
Table *
table_find(const char *name)
{
	Table	   *table = lookup(name);

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("no table \"%s\" is registered", name),
				 errhint("unify_register() registers a table for this session.")));
	if (table->busy)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("table \"%s\" is being loaded", name)));
	return table;
}

/* Register a table; 42P07 if there is one of that name. */
Table *
table_create(const char *name, Allocator allocator)
{
	MemoryContext context;
	Table	   *table;

	if (lookup(name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("a table \"%s\" is registered already", name)));

	/* the caller's until it is complete */
	if (allocator == BY_SIFT || allocator == BY_STORE)
		context = SiftRowContextCreate(CurrentMemoryContext, "unify table",
									   SIFT_ROW_DEFAULT_SIZES);
	else
		context = AllocSetContextCreate(CurrentMemoryContext, "unify table",
										ALLOCSET_START_SMALL_SIZES);
	table = MemoryContextAllocZero(context, sizeof(Table));
	table->context = context;
	table->allocator = allocator;
	if (allocator == BY_STORE)
		table->store = SiftRowStoreCreate(context, "unify rows");
	table->name = MemoryContextStrdup(context, name);
	MemoryContextSetIdentifier(context, table->name);

	MemoryContextSetParent(context, TopMemoryContext);
	table->next = tables;
	tables = table;
	return table;
}

/* Drop a table: all its memory goes back at once. */
void
table_drop(Table *table)
{
	Table	  **link = &tables;

	while (*link != table)
		link = &(*link)->next;
	*link = table->next;
	if (table->allocator == BY_MALLOC)
		table_forget_first(table, table->count);
	MemoryContextDelete(table->context);
}

/*
 * table_set_desc
 *		Fix the type of the rows, or compare with it; 42804 if it is another.
 */
void
table_set_desc(Table *table, TupleDesc desc)
{
	if (table->desc == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(table->context);

		table->desc = CreateTupleDescCopy(desc);
		MemoryContextSwitchTo(caller);
		return;
	}
	if (table->desc->natts != desc->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows of table \"%s\" have %d columns, not %d",
						table->name, table->desc->natts, desc->natts)));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute ours = TupleDescAttr(table->desc, i);
		Form_pg_attribute theirs = TupleDescAttr(desc, i);

		if (ours->atttypid != theirs->atttypid)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column %d of table \"%s\" has another type", i + 1, table->name),
					 errdetail("The first load has fixed the type of the rows.")));
	}
}

/*
 * table_reserve
 *		Have room for that many rows more, so that adding them cannot fail.
 */
void
table_reserve(Table *table, int64 rows)
{
	int64		needed = table->first + table->count + rows;
	int64		room = Max(table->room, LEAST_ROOM);

	if (needed <= table->room)
		return;
	while (room < needed)
		room *= 2;
	if (table->rows == NULL)
		table->rows = MemoryContextAllocHuge(table->context, room * sizeof(Row));
	else
		table->rows = repalloc_huge(table->rows, room * sizeof(Row));
	table->room = room;
}

/*
 * table_forget_first
 *		Free the first rows.  Cannot fail: the list is only made shorter.
 */
void
table_forget_first(Table *table, int64 rows)
{
	int64		room = table->room;

	for (int64 i = 0; i < rows; i++)
		row_free(table, table->rows[table->first + i]);
	table->first += rows;
	table->count -= rows;
	if (table->first <= room / 2 && table->count > 0)
		return;

	/* close up */
	memmove(table->rows, table->rows + table->first, table->count * sizeof(Row));
	table->first = 0;
	while (room > LEAST_ROOM && table->count < room / 4)
		room /= 2;
	if (room < table->room)
		table->rows = repalloc_huge(table->rows, room * sizeof(Row));
	table->room = room;
}

/* Bytes that the table's allocator holds for it. */
int64
table_bytes(Table *table)
{
	return MemoryContextMemAllocated(table->context, true) + table->malloc_bytes;
}
