/*-------------------------------------------------------------------------
 *
 * extent.h
 *	  Where Sift's own blocks come from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_EXTENT_H
#define SIFT_EXTENT_H

#include "range.h"

typedef enum GrowResult
{
	GROW_DONE,
	GROW_NOT_FREE,				/* what follows is used */
	GROW_REFUSED				/* it is free, and the bytes are refused */
} GrowResult;


extern void *extent_take(Size size, SiftKind kind);
extern bool extent_has_idle(Size size);
extern GrowResult extent_grow(void *address, Size old_size, Size new_size, SiftKind kind);
extern void extent_give(void *address, Size size, SiftKind kind);
extern Size extent_trim(Size keep, bool break_up);
extern int64 extent_idle_runs(void);

#endif							/* SIFT_EXTENT_H */
