/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  Memory contexts of the server that must not be refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_GUARD_H
#define SIFT_GUARD_H

extern void guard_contexts(void);
extern void guard_types(void);

#endif							/* SIFT_GUARD_H */
