/*-------------------------------------------------------------------------
 *
 * block.h
 *	  Blocks: numbered, charged pieces of memory that contexts carve.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_BLOCK_H
#define SIFT_BLOCK_H

#include "chunk.h"
#include "extent.h"

/* The block table, indexed by block number; NULL before the first block. */
extern SiftBlockEntry *block_table;

extern SiftBlock *block_take(struct SiftContext *context, SiftKind kind, Size size);
extern void block_give(SiftBlock *block);
extern GrowResult block_grow(SiftBlock *block, Size size);
extern void block_shrink(SiftBlock *block, Size size);
extern SiftBlock *block_by_number(uint32 number);

extern bool block_fits(Size size);
extern void block_settle(void);
extern Size block_trim(void);

#endif							/* SIFT_BLOCK_H */
