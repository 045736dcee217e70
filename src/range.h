/*-------------------------------------------------------------------------
 *
 * range.h
 *	  The range of addresses that a process reserves for Sift.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_RANGE_H
#define SIFT_RANGE_H

#include "sift.h"

#define RANGE_SIZE				((Size) 64 * 1024 * 1024 * 1024)
#define EXTENT_SIZE				((Size) 2 * 1024 * 1024)

/* What sizes and addresses are multiples of. */
#define UNIT_SIZE				((Size) 1024)
#define EXTENT_UNITS			((uint32) (EXTENT_SIZE / UNIT_SIZE))

typedef struct Range
{
	char	   *base;			/* of the extents; NULL before the reservation */
	uint32		extents;		/* that there is room for */
	Size		page_size;
	uint32		page_units;		/* units a page */
	bool		huge_allowed;	/* the system gives large pages on request */
	bool		huge_everywhere;	/* and without, unless told not to */
} Range;

extern Range range;

/* Tables in the reservation, beside the extents. */
typedef enum RangeTable
{
	EXTENT_TABLE,				/* extent_map.c: EXTENT_TABLE_ENTRY an extent */
	BLOCK_TABLE					/* block.c: BLOCK_TABLE_ENTRY a unit */
} RangeTable;

#define EXTENT_TABLE_ENTRY		((Size) 8 + 2 * EXTENT_UNITS / 8)
#define BLOCK_TABLE_ENTRY		sizeof(SiftBlockEntry)

extern bool range_reserve(void);
extern void *range_table(RangeTable table, Size bytes);
extern bool range_commit(char *address, Size size, bool huge);
extern bool range_unmap_extent(char *address);
extern bool range_discard(char *address, Size size);
extern void range_keep_small_pages(char *address, Size size);

/* The address of a unit. */
static inline char *
unit_address(uint32 unit)
{
	return range.base + unit * UNIT_SIZE;
}

/* The unit at an address. */
static inline uint32
unit_at(const void *address)
{
	return ((const char *) address - range.base) / UNIT_SIZE;
}

/* Round a size up to whole pages, which are whole units. */
static inline Size
page_round(Size size)
{
	return TYPEALIGN(range.page_size, size);
}

#endif							/* SIFT_RANGE_H */
