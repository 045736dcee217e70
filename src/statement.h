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
#include "nodes/pg_list.h"

extern void statement_limit_changed(LedgerLimit which);
extern Size statement_small(void);
extern int64 statement_ceiling(void);
extern void statement_unrefused(Size bytes);
extern bool statement_may_begin(Node *utility, List *tables);
extern void statement_refuse(void);
extern void statement_execute(Node *utility);
extern void statement_done(void);

#endif							/* SIFT_STATEMENT_H */
