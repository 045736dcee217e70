/*-------------------------------------------------------------------------
 *
 * extent_map.c
 *	  Which units of the range are used, and which are committed.
 *
 * The range is cut into extents of 2 MB (the size of a large page on x86-64
 * and arm64), the extents into units of 1 kB.  Two bitmaps an extent, a bit a
 * unit, tell what is used by a block and what is committed, that is,
 * accessible and charged:
 *
 *		used, committed			part of a block
 *		not used, committed		idle
 *		neither					address space only
 *
 * A run is a number of units in a row.  Since runs are bits, free neighbours
 * are one run without further ado.  Searches find the lowest run: that keeps
 * blocks close together, so that whole extents become free.  Runs of an extent
 * or less lie in one extent; longer ones begin at one.
 *
 * This file calls nothing of the system but to have its own tables, and knows
 * nothing of charges.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "extent_map.h"
#include "port/pg_bitutils.h"

#define EXTENT_WORDS			(EXTENT_UNITS / 64)

typedef struct ExtentBits
{
	uint64		used[EXTENT_WORDS];
	uint64		committed[EXTENT_WORDS];
} ExtentBits;

StaticAssertDecl(sizeof(ExtentIndex) + sizeof(ExtentBits) == EXTENT_TABLE_ENTRY,
				 "range.h must know how much there is an extent");

ExtentIndex *extent_index;
uint32		extent_high = 0;

static ExtentBits *extent_bits;

/* ----------------------------------------------------------------
 *		Bitmaps
 * ----------------------------------------------------------------
 */

/* The bits of a word that belong to [first, last). */
static inline uint64
word_mask(uint32 word, uint32 first, uint32 last)
{
	uint32		from = Max(first, word * 64) - word * 64;
	uint32		to = Min(last, word * 64 + 64) - word * 64;

	return (~UINT64CONST(0) << from) & (~UINT64CONST(0) >> (64 - to));
}

static void
set_bits(uint64 *bits, uint32 first, uint32 last)
{
	for (uint32 w = first / 64; w * 64 < last; w++)
		bits[w] |= word_mask(w, first, last);
}

static void
clear_bits(uint64 *bits, uint32 first, uint32 last)
{
	for (uint32 w = first / 64; w * 64 < last; w++)
		bits[w] &= ~word_mask(w, first, last);
}

static uint32
count_bits(const uint64 *bits, uint32 first, uint32 last)
{
	uint32		count = 0;

	for (uint32 w = first / 64; w * 64 < last; w++)
		count += pg_popcount64(bits[w] & word_mask(w, first, last));
	return count;
}

/*
 * next_unit
 *		The first unit from "from" on that is (or is not) available.
 *
 * Available is what is not used and, with idle_only, committed.
 */
static uint32
next_unit(const ExtentBits *extent, uint32 from, bool idle_only, bool available)
{
	for (uint32 w = from / 64; w < EXTENT_WORDS; w++)
	{
		uint64		bits = ~extent->used[w];

		if (idle_only)
			bits &= extent->committed[w];
		if (!available)
			bits = ~bits;
		if (w == from / 64)
			bits &= ~UINT64CONST(0) << (from % 64);
		if (bits != 0)
			return w * 64 + pg_rightmost_one_pos64(bits);
	}
	return EXTENT_UNITS;
}

/* ----------------------------------------------------------------
 *		Finding a run
 * ----------------------------------------------------------------
 */

/*
 * find_in_extent
 *		The lowest available run of that many units in one extent.
 *
 * Runs of pages begin on a page, smaller ones on a multiple of their size.
 * Corrects the index when the extent turns out to have no such run.
 */
static uint32
find_in_extent(uint32 e, uint32 units, bool idle_only)
{
	const ExtentBits *extent = &extent_bits[e];
	uint32		alignment = Min(units, range.page_units);
	uint32		longest = 0;
	uint32		first;

	for (first = next_unit(extent, 0, idle_only, true);
		 first < EXTENT_UNITS;
		 first = next_unit(extent, first, idle_only, true))
	{
		uint32		last = next_unit(extent, first, idle_only, false);
		uint32		start = TYPEALIGN(alignment, first);

		if (start + units <= last)
			return e * EXTENT_UNITS + start;
		longest = Max(longest, last - first);
		first = last;
	}
	if (!idle_only)
		extent_index[e].longest = longest;
	return NO_UNIT;
}

/*
 * keeps_off
 *		Whether a request must not lie in an extent.
 *
 * Blocks of less than a page, in which contexts themselves lie, live long and
 * would hold large pages for nothing.
 */
static bool
keeps_off(uint32 e, uint32 units)
{
	return extent_index[e].huge && units < range.page_units;
}

/*
 * map_find_run
 *		The lowest run for a request of an extent or less.
 */
uint32
map_find_run(uint32 units, bool idle_only)
{
	for (uint32 e = 0; e < extent_high; e++)
	{
		const ExtentIndex *index = &extent_index[e];

		if (index->longest >= units && (!idle_only || index->idle >= units) &&
			!keeps_off(e, units))
		{
			uint32		unit = find_in_extent(e, units, idle_only);

			if (unit != NO_UNIT)
				return unit;
		}
	}
	return NO_UNIT;
}

/* Whether the first units of an extent are free; true beyond those used. */
static bool
begins_free(uint32 e, uint32 units)
{
	return e >= extent_high || units == 0 || extent_index[e].used == 0 ||
		next_unit(&extent_bits[e], 0, false, false) >= units;
}

/*
 * map_find_extents
 *		The lowest run for a request of more than an extent, or for one of
 *		which nothing is left below extent_high.
 *
 * Goes beyond extent_high, up to the end of the range.
 */
uint32
map_find_extents(uint32 units)
{
	uint32		whole = units / EXTENT_UNITS;
	uint32		rest = units % EXTENT_UNITS;
	uint32		needed = whole + (rest > 0 ? 1 : 0);
	uint32		first = 0;

	while (first + needed <= range.extents)
	{
		uint32		e = first;

		while (e < first + whole && (e >= extent_high || extent_index[e].used == 0))
			e++;
		if (e == first + whole && begins_free(e, rest) &&
			(e >= extent_high || !keeps_off(e, units)))
			return first * EXTENT_UNITS;
		first = e + 1;
	}
	return NO_UNIT;
}

/* Whether a run is free; true beyond what was ever used. */
bool
map_is_free(uint32 unit, uint32 units)
{
	foreach_segment(segment, unit, units)
	{
		if (segment.extent < extent_high &&
			next_unit(&extent_bits[segment.extent], segment.first, false, false) < segment.last)
			return false;
	}
	return true;
}

/* The first idle run of an extent at or behind a unit; empty if there is none. */
Segment
map_next_idle(uint32 e, uint32 from)
{
	const ExtentBits *extent = &extent_bits[e];
	Segment		run = {.extent = e};

	run.first = next_unit(extent, from, true, true);
	run.last = run.first < EXTENT_UNITS ? next_unit(extent, run.first, true, false) : run.first;
	return run;
}

/* How many units of a segment are committed. */
uint32
map_committed(const Segment *segment)
{
	return count_bits(extent_bits[segment->extent].committed, segment->first, segment->last);
}

/* ----------------------------------------------------------------
 *		Changes
 * ----------------------------------------------------------------
 */

/*
 * map_open
 *		Have the map reach over a run, all of which is new above extent_high.
 *
 * Returns false, with errno set, when there is no memory for the tables.
 */
bool
map_open(uint32 unit, uint32 units)
{
	uint32		needed = (unit + units + EXTENT_UNITS - 1) / EXTENT_UNITS;
	Size		index_size = range.extents * sizeof(ExtentIndex);
	char	   *table;

	if (needed <= extent_high)
		return true;

	/* the index comes first, and is touched only as far as it is used */
	table = range_table(EXTENT_TABLE, index_size + needed * sizeof(ExtentBits));
	if (table == NULL)
		return false;
	extent_index = (ExtentIndex *) table;
	extent_bits = (ExtentBits *) (table + index_size);
	for (; extent_high < needed; extent_high++)
		extent_index[extent_high].longest = EXTENT_UNITS;
	return true;
}

/* Forget extents at the top in which nothing is left. */
void
map_close(void)
{
	while (extent_high > 0 && extent_index[extent_high - 1].used == 0 &&
		   extent_index[extent_high - 1].idle == 0)
		extent_high--;
}

/* A segment, committed and free, becomes part of a block. */
void
map_mark_used(const Segment *segment)
{
	set_bits(extent_bits[segment->extent].used, segment->first, segment->last);
	extent_index[segment->extent].used += segment->last - segment->first;
	extent_index[segment->extent].idle -= segment->last - segment->first;
}

/* Part of a block becomes idle. */
void
map_mark_free(const Segment *segment)
{
	clear_bits(extent_bits[segment->extent].used, segment->first, segment->last);
	extent_index[segment->extent].used -= segment->last - segment->first;
	extent_index[segment->extent].idle += segment->last - segment->first;
	extent_index[segment->extent].longest = EXTENT_UNITS;
}

/* What of a segment was not committed is idle now. */
void
map_mark_committed(const Segment *segment)
{
	extent_index[segment->extent].idle +=
		segment->last - segment->first - map_committed(segment);
	set_bits(extent_bits[segment->extent].committed, segment->first, segment->last);
}

/* What of a segment was idle is address space only. */
void
map_mark_uncommitted(const Segment *segment)
{
	extent_index[segment->extent].idle -= map_committed(segment);
	clear_bits(extent_bits[segment->extent].committed, segment->first, segment->last);
}
