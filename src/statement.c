/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  What a session may keep from one statement to the next.
 *
 * With more held than the limit allows nothing could be done any more, not
 * even to raise the limit.  So in each top-level statement small requests may
 * pass the limit, or what was held when the statement began, by a float.  A
 * session could then grow by a float with each statement.  What it keeps is
 * bounded by its base: when a statement begins and the session held more than
 * its base and a float, and cannot give it back, the statement is refused,
 * unless it is one that gives memory back or asks for nothing.  What is kept
 * nevertheless, by such statements and by messages that are no statements, has
 * a bound too (MOST_ABOVE_BASE), above which nothing else is done and the float
 * is just what giving back takes.
 *
 * The base of a limit is what the session may keep under it: the limit, or
 * what was held when the limit was set below that; it falls with what is
 * held.  Each limit has its own, so that setting one never moves the other's.
 * The limit of all backends counts while it is passed; what the session may
 * keep under it is what it held when that was not so.
 * What was taken in large pieces that could not be refused (the buffers of
 * temporary tables) is not held against the session; and after DISCARD ALL the
 * base is what is left, within that bound.
 *
 * A top-level statement is known by its start time, of which PostgreSQL sets
 * one for each message of the client.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "caches.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "nodes/parsenodes.h"
#include "refusal_ring.h"
#include "replication/walsender.h"
#include "report.h"
#include "statement.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

/* What small requests may pass the limit by, in each top-level statement. */
#define STATEMENT_FLOAT			((int64) 1024 * 1024)

/*
 * What a session can keep above its base whatever it does.  Compiled regular
 * expressions may take much of it, which nothing gives back.
 */
#define MOST_ABOVE_BASE			((int64) 16 * 1024 * 1024)

/* Requests up to this are let through within the float. */
#define SMALL_REQUEST			((Size) 64 * 1024)

/* The float of a session that keeps that much. */
#define LAST_FLOAT				((int64) 256 * 1024)

static int64 bases[NUM_LIMITS] = {-1, -1, -1};	/* bytes; of limits that are
												 * set */
static bool session_began = false;	/* a statement has begun */

/* The top-level statement that is being executed. */
static TimestampTz started = 0;
static int64 held_at_start = 0; /* bytes */
static int64 granted_at_start = 0;	/* of these, to the caches over the limit */
static bool passed = false;		/* it was checked, and goes through */
static bool caches_checked = false;
static bool giving_back = false;	/* it is executed, and gives memory back */
static bool discarding_all = false; /* it is DISCARD ALL, and executed */

/* Large pieces over the limit, since the session was below it; bytes. */
static int64 unrefused = 0;

/*
 * lower_base
 *		The base falls with what is held, never below the limit.
 */
static void
lower_base(LedgerLimit which)
{
	int64		limit = which == LIMIT_OF_TOTAL ? 0 : ledger_limit_of(which);

	bases[which] = Max(limit, Min(bases[which], ledger_held()));
}

/* Whether a limit counts for what the session may keep. */
static bool
counts(LedgerLimit which)
{
	return which == LIMIT_OF_TOTAL ? grants_total_room() < 0 : ledger_limit_of(which) >= 0;
}

/*
 * statement_limit_changed
 *		A limit was set: find its base.
 */
void
statement_limit_changed(LedgerLimit which)
{
	if (ledger_limit_of(which) < 0)
		bases[which] = -1;
	else
	{
		if (bases[which] < 0)
			bases[which] = PG_INT64_MAX;
		lower_base(which);
	}
}

/*
 * notice_statement
 *		See whether a new top-level statement has begun.
 *
 * What a session needed to come up is part of the base of a limit that it
 * came up with.
 */
static void
notice_statement(void)
{
	if (started == GetCurrentStatementStartTimestamp())
		return;
	started = GetCurrentStatementStartTimestamp();
	held_at_start = ledger_held();
	granted_at_start = caches_granted();
	passed = false;
	caches_checked = false;
	giving_back = false;
	if (ledger_is_within_limits())
		unrefused = 0;
	for (LedgerLimit which = 0; which < NUM_LIMITS; which++)
	{
		if (ledger_limit_of(which) < 0)
			continue;
		if (!session_began)
			bases[which] = Max(bases[which], held_at_start);
		if (which == LIMIT_OF_TOTAL)
			bases[which] = Max(bases[which], grant_window.within_total);
		lower_base(which);
	}
	grant_window.within_total = Min(grant_window.within_total, held_at_start);
	session_began = true;
}

/*
 * statement_unrefused
 *		A request that does not fit was let through, since its caller could
 *		not do without.
 */
void
statement_unrefused(Size bytes)
{
	if (bytes > SMALL_REQUEST)
		unrefused += bytes;
}

/* The bytes that the session may begin a statement with, and so many more. */
static int64
allowed(int64 more)
{
	int64		least = PG_INT64_MAX;

	for (LedgerLimit which = 0; which < NUM_LIMITS; which++)
	{
		if (counts(which))
			least = Min(least, bases[which] + caches_granted() + unrefused + more);
	}
	return least;
}

/*
 * statement_small
 *		The bytes up to which a request is a small one.
 *
 * RESET ALL and its like first note what they do, in a list that may be long.
 * Where others have used up the total, the whole float is there for what a
 * session needs that looks for the cause.
 */
Size
statement_small(void)
{
	return giving_back || ledger_limit_passed() == LIMIT_OF_TOTAL ?
		STATEMENT_FLOAT : SMALL_REQUEST;
}

/*
 * statement_ceiling
 *		The bytes up to which small requests are let through.  What the caches
 *		were granted in this statement is not taken from its float.
 */
int64
statement_ceiling(void)
{
	int64		start;

	notice_statement();
	start = counts(LIMIT_OF_TOTAL) ? held_at_start : Max(ledger_limit(), held_at_start);
	start += Max(caches_granted() - granted_at_start, 0);
	if (giving_back)
		return start + STATEMENT_FLOAT;
	return Min(start + STATEMENT_FLOAT,
			   Max(allowed(MOST_ABOVE_BASE), held_at_start + LAST_FLOAT));
}

/* Whether the session keeps more than it may. */
static bool
keeps_too_much(void)
{
	return held_at_start > allowed(STATEMENT_FLOAT);
}

/* Whether SET is for a setting that exists: one that does not is made. */
static bool
setting_exists(VariableSetStmt *set)
{
	return set->kind != VAR_SET_VALUE || GetConfigOption(set->name, true, false) != NULL;
}

/*
 * gives_back
 *		Whether a utility statement gives memory back or asks for nothing.
 */
static bool
gives_back(Node *utility)
{
	if (utility == NULL)
		return false;
	switch (nodeTag(utility))
	{
		case T_VariableSetStmt:
			return setting_exists((VariableSetStmt *) utility);
		case T_VariableShowStmt:
		case T_DiscardStmt:
		case T_DeallocateStmt:
		case T_ClosePortalStmt:
		case T_UnlistenStmt:
			return true;
		case T_TransactionStmt:
			switch (((TransactionStmt *) utility)->kind)
			{
				case TRANS_STMT_BEGIN:
				case TRANS_STMT_START:
				case TRANS_STMT_COMMIT:
				case TRANS_STMT_ROLLBACK:
				case TRANS_STMT_ROLLBACK_TO:
				case TRANS_STMT_RELEASE:
				case TRANS_STMT_COMMIT_PREPARED:
				case TRANS_STMT_ROLLBACK_PREPARED:
					return true;
				default:
					return false;
			}
		default:
			return false;
	}
}

/*
 * looks_only
 *		Whether a query looks at no table, but for views of Sift's: what asks
 *		whether the session is there, and who holds what.
 *
 * Names will do, and the outermost query: what it keeps has a bound.  Above
 * that only the views may be looked at, since a query may call any function.
 */
static bool
looks_only(List *tables)
{
	bool		looks = held_at_start <= allowed(MOST_ABOVE_BASE);
	ListCell   *cell;

	foreach(cell, tables)
	{
		RangeTblEntry *table = lfirst_node(RangeTblEntry, cell);
		char	   *name;

		if (table->rtekind != RTE_RELATION)
			continue;
		name = get_rel_name(table->relid);
		if (table->relkind != RELKIND_VIEW || name == NULL ||
			strncmp(name, "sift_memory_", strlen("sift_memory_")) != 0)
			return false;
		looks = true;
	}
	return looks;
}

/* Give back what the session can do without. */
static void
give_back(void)
{
	ledger_make_room(0, true, OWN_RECLAIMERS);
	caches_drop();
	held_at_start = Min(held_at_start, ledger_held());
}

/*
 * statement_refuse
 *		Turn down the statement that is about to begin.  Raises 53200.
 */
void
statement_refuse(void)
{
	(void) ledger_is_within_limits();	/* tells which limit */
	ledger_refuse(SIFT_SERVER, REFUSED_BY_LIMIT);
	refusal_ring_add(SIFT_SERVER, 0, NULL);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("This session kept %lld kB when the statement began.",
					   (long long) held_at_start / 1024),
			 report_limit_hint(ledger_last_refusal.limit, "SET, RESET, SHOW, ROLLBACK, COMMIT, DISCARD, DEALLOCATE, CLOSE and UNLISTEN work.")));
}

/*
 * statement_may_begin
 *		Whether a statement may begin: not when the session keeps too much.
 *
 * utility: the statement, NULL for one that is planned
 * tables: the range table of that
 *
 * It is not part of another one.  May be called several times for one; once it
 * goes through it is not looked at again.
 */
bool
statement_may_begin(Node *utility, List *tables)
{
	if (MyBackendType != B_BACKEND || am_walsender)
		return true;
	notice_statement();
	if (!caches_checked)
	{
		caches_checked = true;
		caches_check();
	}
	if (passed || gives_back(utility))
		return true;
	if (keeps_too_much())
	{
		give_back();
		if (keeps_too_much() && (utility != NULL || !looks_only(tables)))
			return false;
	}
	passed = true;
	return true;
}

/*
 * statement_execute
 *		A utility statement is executed, and not only parsed to be kept.
 */
void
statement_execute(Node *utility)
{
	notice_statement();
	giving_back = gives_back(utility);
	discarding_all = IsA(utility, DiscardStmt) &&
		((DiscardStmt *) utility)->target == DISCARD_ALL;
}

/*
 * statement_done
 *		The utility statement has ended.  What DISCARD ALL leaves the session
 *		cannot give back.
 */
void
statement_done(void)
{
	if (!discarding_all)
		return;
	for (LedgerLimit which = 0; which < NUM_SESSION_LIMITS; which++)
	{
		int64		limit = ledger_limit_of(which);

		if (limit >= 0)
			bases[which] = Max(bases[which],
							   Min(ledger_held(), limit + unrefused + MOST_ABOVE_BASE));
	}
}
