/*-------------------------------------------------------------------------
 *
 * tracking.h
 *	  How much memory each statement of this session takes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_TRACKING_H
#define SIFT_TRACKING_H

#include "access/parallel.h"
#include "executor/execdesc.h"
#include "peak.h"
#include "statement_table.h"

/* sift.track_statements */
typedef enum TrackedStatements
{
	TRACK_NONE,
	TRACK_TOP,
	TRACK_ALL
} TrackedStatements;

/* One execution of a statement: what it has needed by now. */
typedef struct StatementCall
{
	StatementUse use;
	StatementUse added;			/* what of it is in the table */
	int64		kept;			/* bytes that are left of it from one stretch of its
								 * work to the next */
	bool		is_added;		/* it is counted in the table */
	bool		is_logged;
	bool		near_limit_is_logged;
} StatementCall;

/*
 * A stretch of work for a statement, in a variable of the function that
 * begins and ends it.
 */
typedef struct TrackedWork
{
	struct TrackedWork *outer;
	PeakFrame	frame;
	StatementKey key;
	StatementCall call;
	struct TrackedExecution *execution; /* of a query, while it is run */
} TrackedWork;

extern int	tracked_statements; /* sift.track_statements */
extern int	tracking_log_min_peak;	/* sift.log_min_peak, kB */
extern int	tracking_depth;		/* stretches that are being worked on */
extern bool tracking_for_explain;	/* EXPLAIN wants the peak of its statement */

extern void tracking_begin(TrackedWork *work, int64 queryid);
extern void tracking_end(TrackedWork *work);
extern void tracking_planned(TrackedWork *work);
extern void tracking_before_start(const QueryDesc *query);
extern void tracking_after_start(const QueryDesc *query);
extern void tracking_begin_query(TrackedWork *work, const QueryDesc *query);
extern void tracking_end_query(TrackedWork *work);
extern void tracking_abort(int nest_level);
extern void tracking_refused(int64 queryid);
extern void tracking_watch_worker(void);
extern int64 tracking_peak_of_plan(const PlannedStmt *plan);
extern bool tracking_last(int64 *queryid, StatementUse *use);

/*
 * tracking_is_finished_by_running
 *		Whether ExecutorFinish has nothing to do for a query: it changes nothing.
 */
static inline bool
tracking_is_finished_by_running(const QueryDesc *query)
{
	return query->operation == CMD_SELECT && !query->plannedstmt->hasModifyingCTE;
}

/*
 * tracking_applies
 *		Whether what begins now is a statement that is looked at.
 */
static inline bool
tracking_applies(void)
{
	if (tracking_depth > 0)
		return tracked_statements == TRACK_ALL || tracking_for_explain;
	return (tracked_statements != TRACK_NONE || tracking_log_min_peak >= 0 ||
			tracking_for_explain) &&
		!IsParallelWorker();
}

#endif							/* SIFT_TRACKING_H */
