/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What a user is told when a request is refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_REPORT_H
#define SIFT_REPORT_H

#include "ledger.h"

/* What becomes of a refusal. */
typedef enum RefusalOutcome
{
	ERROR_NEXT,					/* the caller raises an error now */
	ERROR_OR_NULL,				/* an error or NULL, it cannot be seen which */
	NULL_ONLY					/* the request asks for no error */
} RefusalOutcome;

extern void report_start(void);
extern void report_refusal(const char *context_name, Size requested,
						   RefusalOutcome outcome);
extern void report_forget(void);
extern int	report_limit_hint(LedgerLimit limit, const char *advice);

#endif							/* SIFT_REPORT_H */
