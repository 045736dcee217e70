/*-------------------------------------------------------------------------
 *
 * statement_table.h
 *	  What statements have needed, in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_STATEMENT_TABLE_H
#define SIFT_STATEMENT_TABLE_H

/* A statement, as pg_stat_statements tells them apart. */
typedef struct StatementKey
{
	int64		queryid;		/* 0: it has none, and is not kept */
	Oid			userid;
	Oid			dbid;
	bool		toplevel;		/* not part of another statement */
} StatementKey;

/* What one execution of it needed. */
typedef struct StatementUse
{
	int64		peak;			/* bytes, above what was held when it began */
	int64		refusals;		/* requests turned down */
	int64		waived;			/* bytes let through over the limit */
} StatementUse;

typedef struct StatementEntry
{
	StatementKey key;
	int64		calls;
	int64		max_peak;		/* bytes */
	int64		sum_of_peaks;
	int64		last_peak;
	int64		refusals;
	int64		waived;			/* bytes */
	double		usage;			/* calls, of which older ones count less */
} StatementEntry;

extern int	statement_table_most;	/* sift.max_statements */

extern void statement_table_request(void);
extern void statement_table_startup(void);
extern bool statement_table_exists(void);
extern void statement_table_add(const StatementKey *key, bool first,
								const StatementUse *use, const StatementUse *before);
extern void statement_table_reset(void);
extern int	statement_table_sets(void);
extern int	statement_table_read(int set, StatementEntry *entries);

/* The most that statement_table_read() gives at a time. */
#define STATEMENT_SET_SIZE		32

#endif							/* SIFT_STATEMENT_TABLE_H */
