/*
 * sift_test.h
 *	  What the C tests share.
 */
#ifndef SIFT_TEST_H
#define SIFT_TEST_H

#include "extension/sift/sift.h"

#define EXPECT(condition) \
	do { \
		if (!(condition)) \
			elog(ERROR, "%s, line %d: expected %s", __FILE__, __LINE__, #condition); \
	} while (0)

#define EXPECT_EQUAL(a, b) \
	do { \
		int64		a_ = (int64) (a); \
		int64		b_ = (int64) (b); \
		if (a_ != b_) \
			elog(ERROR, "%s, line %d: expected %s = %s, found %lld and %lld", \
				 __FILE__, __LINE__, #a, #b, (long long) a_, (long long) b_); \
	} while (0)

/* The statement must raise this SQLSTATE.  Sets "hint". */
#define EXPECT_ERROR(sqlstate, statement) \
	do { \
		int			found_ = expected_error(); \
		PG_TRY(); \
		{ \
			statement; \
		} \
		PG_CATCH(); \
		{ \
			found_ = caught_error(); \
		} \
		PG_END_TRY(); \
		if (found_ != (sqlstate)) \
			elog(ERROR, "%s, line %d: expected %s to raise %s, found %s", \
				 __FILE__, __LINE__, #statement, #sqlstate, unpack_sql_state(found_)); \
	} while (0)

/* What a chunk takes more on servers that check chunks; bytes, at most. */
#ifdef MEMORY_CONTEXT_CHECKING
#define CHECKING_BYTES		16
#else
#define CHECKING_BYTES		0
#endif

extern char hint[256];			/* of the error caught last; "" without one */
extern int	expected_error(void);
extern int	caught_error(void);

/* Bytes charged to blocks in use, idle ones not counted. */
extern int64 used_bytes(void);

/* Requests of any kind that were turned down. */
extern int64 refusals(void);

/* Set sift.memory_limit; bytes, whole kB of which count. */
extern void set_limit(Size bytes);
extern void set_no_limit(void);

/* Be called when a query is started. */
extern void sift_test_nest(void);

#endif							/* SIFT_TEST_H */
