/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  What a session may keep from one statement to the next.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_STATEMENT_H
#define SIFT_STATEMENT_H

#include "ledger.h"
#include "nodes/nodes.h"

/* What small requests may pass the limit by, in each top-level statement. */
#define STATEMENT_FLOAT		((int64) 1024 * 1024)

extern void statement_limit_changed(LedgerLimit which);
extern int64 statement_ceiling(void);
extern void statement_check(Node *utility, bool nested);

#endif							/* SIFT_STATEMENT_H */
