/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What a user is told when a request is refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_REPORT_H
#define SIFT_REPORT_H

extern void report_start(void);
extern void report_refusal(bool outcome_known, bool no_error);
extern void report_forget(void);

#endif							/* SIFT_REPORT_H */
