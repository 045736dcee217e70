/*-------------------------------------------------------------------------
 *
 * extent_map.h
 *	  Which units of the range are used, and which are committed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_EXTENT_MAP_H
#define SIFT_EXTENT_MAP_H

#include "range.h"

#define NO_UNIT					PG_UINT32_MAX

/* What a search looks at first; dense, so that a search reads little. */
typedef struct ExtentIndex
{
	uint16		used;			/* units used */
	uint16		idle;			/* units committed and not used */
	uint16		longest;		/* no free run is longer than this */
	bool		huge;			/* committed as a whole, with large pages */
} ExtentIndex;

/* Indexed by extent; only those below extent_high are in order. */
extern ExtentIndex *extent_index;

/* Extents that were ever used, from the lowest. */
extern uint32 extent_high;

/* Part of a run that lies in one extent: units [first, last) of it. */
typedef struct Segment
{
	uint32		extent;
	uint32		first;
	uint32		last;
} Segment;

/* The part of a run that begins at "unit" and lies in one extent. */
static inline Segment
segment_at(uint32 unit, uint32 end)
{
	Segment		segment;

	segment.extent = unit / EXTENT_UNITS;
	segment.first = unit % EXTENT_UNITS;
	segment.last = Min(end - segment.extent * EXTENT_UNITS, EXTENT_UNITS);
	return segment;
}

#define foreach_segment(segment, unit, units) \
	for (Segment segment = segment_at(unit, (unit) + (units)); \
		 segment.extent * EXTENT_UNITS + segment.first < (unit) + (units); \
		 segment = segment_at((segment.extent + 1) * EXTENT_UNITS, (unit) + (units)))

/* All of an extent. */
static inline Segment
whole_extent(uint32 e)
{
	return segment_at(e * EXTENT_UNITS, (e + 1) * EXTENT_UNITS);
}

extern bool map_open(uint32 unit, uint32 units);
extern void map_close(void);
extern uint32 map_find_run(uint32 units, bool idle_only);
extern uint32 map_find_extents(uint32 units);
extern bool map_is_free(uint32 unit, uint32 units);
extern Segment map_next_idle(uint32 e, uint32 from);
extern uint32 map_committed(const Segment *segment);

extern void map_mark_used(const Segment *segment);
extern void map_mark_free(const Segment *segment);
extern void map_mark_committed(const Segment *segment);
extern void map_mark_uncommitted(const Segment *segment);

#endif							/* SIFT_EXTENT_MAP_H */
