/*-------------------------------------------------------------------------
 *
 * explain_option.h
 *	  EXPLAIN (ANALYZE, SIFT).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_EXPLAIN_OPTION_H
#define SIFT_EXPLAIN_OPTION_H

extern void explain_option_start(void (*track) (void));

#endif							/* SIFT_EXPLAIN_OPTION_H */
