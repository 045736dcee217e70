/*-------------------------------------------------------------------------
 *
 * extent.h
 *	  Where Sift's own blocks come from: one reserved range of addresses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_EXTENT_H
#define SIFT_EXTENT_H

#include "sift.h"

/* What sizes and addresses are multiples of. */
#define UNIT_SIZE				((Size) 1024)

typedef enum GrowResult
{
	GROW_DONE,
	GROW_NOT_FREE,				/* what follows is used */
	GROW_REFUSED				/* it is free, and the bytes are refused */
} GrowResult;

extern bool extent_reserve(void);
extern char *extent_address(uint32 unit);
extern uint32 extent_unit(const void *address);
extern Size extent_page_round(Size size);
extern void *extent_side_table(uint32 entries, Size entry_size, SiftKind kind);

extern void *extent_take(Size size, SiftKind kind);
extern GrowResult extent_grow(void *address, Size old_size, Size new_size, SiftKind kind);
extern void extent_give(void *address, Size size, SiftKind kind);
extern Size extent_trim(Size keep);
extern int64 extent_idle_runs(void);

#endif							/* SIFT_EXTENT_H */
