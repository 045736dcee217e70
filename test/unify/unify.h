/*
 * unify.h
 *	  A small engine that keeps rows in memory and moves them to columnar
 *	  files.
 *
 * row.c		one row, by each of four allocators
 * table.c		the tables of a session and the lists of their rows
 * columnar.c	the files
 * unify.c		the SQL functions
 */
#ifndef UNIFY_H
#define UNIFY_H

#include "extension/sift/sift.h"

/* How the memory of rows is had. */
typedef enum Allocator
{
	BY_SIFT,					/* a row context, one chunk a row */
	BY_STORE,					/* a row store, where rows can move */
	BY_MALLOC,					/* the C library, one malloc a value */
	BY_ASET						/* an AllocSet, one palloc a row */
} Allocator;

/*
 * A row.  BY_SIFT and BY_ASET it is a MinimalTuple; BY_STORE the id of one;
 * BY_MALLOC an array of a Datum and a null flag a column, with each value in a
 * malloc of its own.
 */
typedef void *Row;

/* A table.  It lies in its own context. */
typedef struct Table
{
	struct Table *next;
	const char *name;
	Allocator	allocator;
	MemoryContext context;		/* a row context, or an AllocSet */
	MemoryContext store;		/* BY_STORE: of the rows, within "context" */
	TupleDesc	desc;			/* type of the rows; NULL before the first */
	bool		busy;			/* rows are being loaded: hands off */
	int64		next_key;		/* of unify_write */
	int64		first;			/* rows[first .. first + count) are there */
	int64		count;
	int64		room;			/* entries of "rows" */
	Row		   *rows;
	int64		malloc_bytes;	/* BY_MALLOC: usable bytes of all values */
} Table;

/* row.c */
extern Row	row_form(Table *table, TupleDesc desc, Datum *values, bool *isnull);
extern void row_deform(Table *table, Row row, Datum *values, bool *isnull);
extern void row_free(Table *table, Row row);
extern int64 row_allocations(Table *table, Row row);

/* table.c */
extern Table *table_create(const char *name, Allocator allocator);
extern Table *table_find(const char *name);
extern Table *table_first(void);
extern void table_drop(Table *table);
extern void table_set_desc(Table *table, TupleDesc desc);
extern void table_reserve(Table *table, int64 rows);
extern void table_forget_first(Table *table, int64 rows);
extern int64 table_bytes(Table *table);
extern const char *allocator_name(Allocator allocator);

/* columnar.c */
extern void columnar_write(Table *table, int64 rows, const char *directory);
extern void columnar_read(const char *directory, TupleDesc desc,
						  void (*emit) (void *arg, Datum *values, bool *isnull),
						  void *arg);

#endif							/* UNIFY_H */
