/*-------------------------------------------------------------------------
 *
 * idle.h
 *	  When a session gives back the memory that it keeps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_IDLE_H
#define SIFT_IDLE_H

extern void idle_statement(void);
extern void idle_begin(void);
extern void idle_transaction_ended(void);

#endif							/* SIFT_IDLE_H */
