/*-------------------------------------------------------------------------
 *
 * idle.h
 *	  When a session gives back the memory that it keeps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_IDLE_H
#define SIFT_IDLE_H

/* idle_statement_begins() has something to do. */
extern bool idle_attention;

extern void idle_statement_begins(void);
extern void idle_begin(void);
extern void idle_transaction_ended(void);

/*
 * idle_statement
 *		To be called when a statement begins.
 */
static inline void
idle_statement(void)
{
	if (unlikely(idle_attention))
		idle_statement_begins();
}

#endif							/* SIFT_IDLE_H */
