/*-------------------------------------------------------------------------
 *
 * extent.c
 *	  Where Sift's own blocks come from: one reserved range of addresses.
 *
 * A process reserves a range of addresses once, when it takes its first
 * block, and never gives it back.  Reserving costs a few microseconds and no
 * memory.  The range is cut into extents of 2 MB (the size of a large page on
 * x86-64 and arm64), the extents into units of 1 kB.  Two bitmaps an extent
 * tell which units are used by a block and which are committed, that is,
 * readable, writable and charged:
 *
 *		used, committed			part of a block
 *		not used, committed		idle
 *		neither					address space only
 *
 * A request takes the lowest free run of units that is long enough, idle ones
 * first.  Lowest address first keeps blocks close together, so that whole
 * extents become free, and since runs are bits, free neighbours are one run
 * without further ado.  Nothing ever moves.  Memory is committed with
 * mprotect, 64 kB at least as long as the limit allows, and goes back by
 * mapping fresh inaccessible pages over it: with vm.overcommit_memory = 2
 * nothing else returns the commit charge.
 *
 * Large pages.  From HUGE_FROM bytes on a process commits whole extents and
 * asks for 2 MB pages, which makes first touch several times cheaper.  One
 * byte in such an extent is 2 MB of resident memory, so all of it is charged
 * at once, the uncarved rest as idle, and it goes back as a whole or not at
 * all: giving back a part would split the large page and free nothing.
 *
 * Requests of more than an extent start at the beginning of one.  What this
 * file cannot do: give back part of a large page, hold more than RANGE_SIZE
 * in one process, or move a block out of the way of a large one.
 *
 * The bookkeeping (512 bytes an extent, 8 an index entry) lies behind the
 * extents in the same reservation and is not charged.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "extent.h"
#include "ledger.h"
#include "port/pg_bitutils.h"
#include "procfs.h"
#include "slots.h"

#define RANGE_SIZE				((Size) 64 * 1024 * 1024 * 1024)
#define EXTENT_SIZE				((Size) 2 * 1024 * 1024)
#define EXTENT_UNITS			((uint32) (EXTENT_SIZE / UNIT_SIZE))
#define EXTENT_WORDS			(EXTENT_UNITS / 64)
#define COMMIT_STEP				((uint32) (64 * 1024 / UNIT_SIZE))
#define HUGE_FROM				((int64) 4 * 1024 * 1024)

#define NO_UNIT					PG_UINT32_MAX

/* The bitmaps of an extent, a bit a unit. */
typedef struct Extent
{
	uint64		used[EXTENT_WORDS];
	uint64		committed[EXTENT_WORDS];
} Extent;

/* What a search looks at first; dense, so that a search reads little. */
typedef struct ExtentIndex
{
	uint16		used;			/* units used */
	uint16		idle;			/* units committed and not used */
	uint16		longest;		/* no free run is longer than this */
	bool		huge;			/* committed as a whole, with large pages */
} ExtentIndex;

/* Part of a run that lies in one extent: units [first, last). */
typedef struct Segment
{
	uint32		extent;
	uint32		first;
	uint32		last;
} Segment;

static struct
{
	char	   *base;			/* of the extents; NULL before the reservation */
	uint32		extents;		/* that the range has room for */
	uint32		high;			/* extents that were ever used, from the lowest */
	uint32		page_units;		/* units a page */
	Size		page_size;
	bool		huge_allowed;	/* the system gives large pages on request */
	bool		huge_everywhere;	/* and without, unless told not to */
	ExtentIndex *index;
	Extent	   *extent;
	uint32		extents_committed;	/* entries of "extent" that are there */
	char	   *side_table;
	Size		side_table_committed;	/* bytes of it that are there */
} range;

/* ----------------------------------------------------------------
 *		The reservation
 * ----------------------------------------------------------------
 */

/*
 * read_huge_page_mode
 *		What the system does with requests for large pages.
 */
static void
read_huge_page_mode(void)
{
	char		mode[64];
	int			fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
	ssize_t		length = fd < 0 ? -1 : read(fd, mode, sizeof(mode) - 1);

	if (fd >= 0)
		close(fd);
	mode[Max(length, 0)] = '\0';
	range.huge_everywhere = strstr(mode, "[always]") != NULL;
	range.huge_allowed = range.huge_everywhere || strstr(mode, "[madvise]") != NULL;
}

/*
 * range_size
 *		Bytes to reserve for extents: a quarter of what RLIMIT_AS leaves at
 *		most, since libraries need addresses as well.
 */
static Size
range_size(void)
{
	struct rlimit limit;
	Size		size = RANGE_SIZE;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
	{
		Size		mapped = procfs_own_address_space();

		size = limit.rlim_cur > mapped ? (limit.rlim_cur - mapped) / 4 : 0;
	}
	return Min(size, RANGE_SIZE) & ~(EXTENT_SIZE - 1);
}

/* Make [from, to) of the bookkeeping readable and writable. */
static bool
commit_bookkeeping(char *from, char *to)
{
	uintptr_t	first = (uintptr_t) from & ~(range.page_size - 1);
	uintptr_t	last = ((uintptr_t) to + range.page_size - 1) & ~(range.page_size - 1);

	return mprotect((void *) first, last - first, PROT_READ | PROT_WRITE) == 0;
}

/*
 * extent_reserve
 *		Reserve the range, unless that is done.
 *
 * Returns false, with errno set, when the system has no addresses left.
 */
bool
extent_reserve(void)
{
	Size		size = range_size();
	Size		total;
	char	   *reserved;
	char	   *base;

	if (range.base != NULL)
		return true;
	range.page_size = sysconf(_SC_PAGESIZE);
	range.page_units = range.page_size / UNIT_SIZE;
	range.extents = size / EXTENT_SIZE;
	if (range.extents == 0)
	{
		errno = ENOMEM;
		return false;
	}

	/*
	 * Extents, index, bitmaps and side table; a page more for each table, so
	 * that it can begin on one, and an extent more, since the first must
	 * begin at a multiple of its size.
	 */
	total = size + EXTENT_SIZE + 3 * range.page_size +
		range.extents * (sizeof(ExtentIndex) + sizeof(Extent)) +
		size / UNIT_SIZE * sizeof(SiftBlockEntry);
	reserved = mmap(NULL, total, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return false;
	base = (char *) TYPEALIGN(EXTENT_SIZE, reserved);
	range.index = (ExtentIndex *) (base + size);
	range.extent = (Extent *) TYPEALIGN(range.page_size, range.index + range.extents);
	range.side_table = (char *) TYPEALIGN(range.page_size, range.extent + range.extents);
	if (!commit_bookkeeping((char *) range.index, (char *) (range.extent + 1)))
	{
		int			save_errno = errno;

		munmap(reserved, total);
		errno = save_errno;
		return false;
	}
	range.extents_committed = 1;
	range.high = 0;

	/* advice: where it is not taken, nothing is wrong */
	read_huge_page_mode();
	(void) madvise(base, size, MADV_DONTDUMP);
	if (range.huge_everywhere)
		(void) madvise(base, size, MADV_NOHUGEPAGE);
	range.base = base;
	return true;
}

/* The address of a unit. */
char *
extent_address(uint32 unit)
{
	return range.base + unit * UNIT_SIZE;
}

/* The unit at an address. */
uint32
extent_unit(const void *address)
{
	return ((const char *) address - range.base) / UNIT_SIZE;
}

/* Round a size up to whole pages, which are whole units. */
Size
extent_page_round(Size size)
{
	return TYPEALIGN(range.page_size, size);
}

/*
 * extent_side_table
 *		A table in the reservation with room for an entry a unit.
 *
 * Returns its address with that many entries committed at least, or NULL
 * (charged is nothing, the refusal is noted).  The first entries are zero.
 */
void *
extent_side_table(uint32 entries, Size entry_size, SiftKind kind)
{
	Size		needed = entries * entry_size;

	if (needed > range.side_table_committed)
	{
		Size		commit = Max(needed, range.side_table_committed + COMMIT_STEP * UNIT_SIZE);

		commit = extent_page_round(commit);
		if (!commit_bookkeeping(range.side_table, range.side_table + commit))
		{
			ledger_refuse(kind, REFUSED_BY_SYSTEM);
			return NULL;
		}
		range.side_table_committed = commit;
	}
	return range.side_table;
}

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
next_unit(const Extent *extent, uint32 from, bool idle_only, bool available)
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
	const Extent *extent = &range.extent[e];
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
		range.index[e].longest = longest;
	return NO_UNIT;
}

/*
 * find_run
 *		The lowest run for a request of an extent or less.
 */
static uint32
find_run(uint32 units, bool idle_only)
{
	for (uint32 e = 0; e < range.high; e++)
	{
		const ExtentIndex *index = &range.index[e];

		if (index->longest >= units && (!idle_only || index->idle >= units))
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
	return e >= range.high || units == 0 || range.index[e].used == 0 ||
		next_unit(&range.extent[e], 0, false, false) >= units;
}

/*
 * find_extents
 *		The lowest run for a request of more than an extent, or for one of
 *		which nothing is left below range.high.
 *
 * Goes beyond range.high, up to the end of the range.
 */
static uint32
find_extents(uint32 units)
{
	uint32		whole = units / EXTENT_UNITS;
	uint32		rest = units % EXTENT_UNITS;
	uint32		needed = whole + (rest > 0 ? 1 : 0);
	uint32		first = 0;

	while (first + needed <= range.extents)
	{
		uint32		e = first;

		while (e < first + whole && (e >= range.high || range.index[e].used == 0))
			e++;
		if (e == first + whole && begins_free(e, rest))
			return first * EXTENT_UNITS;
		first = e + 1;
	}
	return NO_UNIT;
}

/*
 * open_extents
 *		Bring the bookkeeping up to the extents of a run.
 */
static bool
open_extents(uint32 unit, uint32 units)
{
	uint32		needed = (unit + units + EXTENT_UNITS - 1) / EXTENT_UNITS;

	if (needed > range.extents_committed)
	{
		uint32		commit = Min(needed + 127, range.extents);

		if (!commit_bookkeeping((char *) (range.extent + range.extents_committed),
								(char *) (range.extent + commit)))
			return false;
		range.extents_committed = commit;
	}
	for (; range.high < needed; range.high++)
		range.index[range.high].longest = EXTENT_UNITS;
	return true;
}

/* The part of a run that begins at "unit" and lies in one extent. */
static Segment
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

/* ----------------------------------------------------------------
 *		Commit and give back
 * ----------------------------------------------------------------
 */

/* How generous a commit is. */
typedef enum CommitPlan
{
	COMMIT_HUGE,				/* whole extents where nothing is there yet */
	COMMIT_STEPS,				/* 64 kB around a small run */
	COMMIT_PAGES				/* the pages of the run */
} CommitPlan;

static bool
segment_is_huge(const Segment *segment, CommitPlan plan)
{
	const ExtentIndex *index = &range.index[segment->extent];

	return plan == COMMIT_HUGE && index->used == 0 && index->idle == 0;
}

/*
 * commit_window
 *		The units to commit for a segment under a plan.
 */
static Segment
commit_window(Segment segment, CommitPlan plan)
{
	Segment		window = segment;
	uint32		step = plan == COMMIT_PAGES ? range.page_units :
		Max(COMMIT_STEP, range.page_units);

	if (segment_is_huge(&segment, plan))
	{
		window.first = 0;
		window.last = EXTENT_UNITS;
	}
	else
	{
		/* only small runs take the step; others would be cut up by it */
		if (segment.last - segment.first >= step)
			step = range.page_units;
		window.first -= window.first % step;
		window.last = TYPEALIGN(step, window.last);
	}
	return window;
}

static Size
uncommitted_bytes(const Segment *segment)
{
	return (segment->last - segment->first -
			count_bits(range.extent[segment->extent].committed,
					   segment->first, segment->last)) * UNIT_SIZE;
}

/*
 * plan_bytes
 *		Bytes that a plan takes from the system for a run, and how many of
 *		them are the run's own.
 */
static Size
plan_bytes(uint32 unit, uint32 units, CommitPlan plan, Size *own)
{
	Size		bytes = 0;

	*own = 0;
	foreach_segment(segment, unit, units)
	{
		Segment		window = commit_window(segment, plan);

		bytes += uncommitted_bytes(&window);
		*own += uncommitted_bytes(&segment);
	}
	return bytes;
}

static char *
segment_address(const Segment *segment)
{
	return extent_address(segment->extent * EXTENT_UNITS + segment->first);
}

static Size
segment_bytes(const Segment *segment)
{
	return (segment->last - segment->first) * UNIT_SIZE;
}

/*
 * commit_segment
 *		Make the window of a segment readable and writable.
 *
 * The new units are idle until they are marked as used.
 */
static bool
commit_segment(const Segment *window, bool huge)
{
	ExtentIndex *index = &range.index[window->extent];
	uint32		new_units = uncommitted_bytes(window) / UNIT_SIZE;

	if (new_units == 0)
		return true;
	if (mprotect(segment_address(window), segment_bytes(window),
				 PROT_READ | PROT_WRITE) != 0)
		return false;
	(void) madvise(segment_address(window), segment_bytes(window), MADV_DODUMP);
	if (huge)
	{
		(void) madvise(segment_address(window), segment_bytes(window), MADV_HUGEPAGE);
		index->huge = true;
	}
	set_bits(range.extent[window->extent].committed, window->first, window->last);
	index->idle += new_units;
	return true;
}

/*
 * decommit
 *		Give committed, unused units back to the system.
 *
 * The charge is the caller's.  Returns false, with nothing changed, when the
 * system cannot map anything over them.
 */
static bool
decommit(const Segment *segment)
{
	ExtentIndex *index = &range.index[segment->extent];
	uint32		units = count_bits(range.extent[segment->extent].committed,
								   segment->first, segment->last);

	if (mmap(segment_address(segment), segment_bytes(segment), PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			 -1, 0) == MAP_FAILED)
		return false;
	(void) madvise(segment_address(segment), segment_bytes(segment), MADV_DONTDUMP);
	if (range.huge_everywhere)
		(void) madvise(segment_address(segment), segment_bytes(segment), MADV_NOHUGEPAGE);
	clear_bits(range.extent[segment->extent].committed, segment->first, segment->last);
	index->idle -= units;
	if (segment->last - segment->first == EXTENT_UNITS)
		index->huge = false;
	return true;
}

/*
 * commit_run
 *		Commit what a run lacks.  The charge is there already.
 *
 * When the system fails half way, what was committed stays, as idle memory;
 * returns the bytes that are missing then, 0 when all is well.
 */
static Size
commit_run(uint32 unit, uint32 units, CommitPlan plan)
{
	Size		missing = 0;
	bool		failed = false;

	foreach_segment(segment, unit, units)
	{
		Segment		window = commit_window(segment, plan);

		if (failed || !commit_segment(&window, segment_is_huge(&segment, plan)))
		{
			failed = true;
			missing += uncommitted_bytes(&window);
		}
	}
	return missing;
}

/* ----------------------------------------------------------------
 *		Taking and giving runs
 * ----------------------------------------------------------------
 */

/* What Sift itself holds, idle memory with it. */
static int64
own_bytes(void)
{
	const SiftKindUsage *kinds = my_account->kinds;

	return kinds[SIFT_ROW].bytes + kinds[SIFT_BATCH].bytes +
		kinds[SIFT_LARGE].bytes + kinds[SIFT_IDLE].bytes;
}

/*
 * choose_plan
 *		The most generous plan that the limit has room for.
 */
static CommitPlan
choose_plan(uint32 unit, uint32 units)
{
	Size		own;

	if (range.huge_allowed && own_bytes() >= HUGE_FROM &&
		ledger_fits(plan_bytes(unit, units, COMMIT_HUGE, &own)))
		return COMMIT_HUGE;
	if (ledger_fits(plan_bytes(unit, units, COMMIT_STEPS, &own)))
		return COMMIT_STEPS;
	return COMMIT_PAGES;
}

/*
 * find_charged_run
 *		Find a run that the limit has room for, asking the reclaimers if need
 *		be.
 *
 * Reclaimers change what is committed and free, so each time they gave
 * something the search begins anew.
 */
static uint32
find_charged_run(uint32 units, SiftKind kind)
{
	for (;;)
	{
		uint32		unit = NO_UNIT;
		Size		needed = units * UNIT_SIZE;

		if (units <= EXTENT_UNITS)
		{
			if ((Size) my_account->kinds[SIFT_IDLE].bytes >= needed)
				unit = find_run(units, true);
			if (unit == NO_UNIT)
				unit = find_run(units, false);
		}
		if (unit == NO_UNIT)
			unit = find_extents(units);
		if (unit != NO_UNIT)
		{
			Size		own;

			if (!open_extents(unit, units))
			{
				ledger_refuse(kind, REFUSED_BY_SYSTEM);
				return NO_UNIT;
			}
			needed = plan_bytes(unit, units, COMMIT_PAGES, &own);
			if (likely(ledger_fits(needed)))
				return unit;
		}
		if (!ledger_make_room(needed))
		{
			ledger_refuse(kind, unit == NO_UNIT && ledger_fits(needed) ?
						  REFUSED_BY_RANGE : REFUSED_BY_LIMIT);
			return NO_UNIT;
		}
	}
}

/*
 * use_run
 *		Charge, commit and mark a free run.
 *
 * Returns false, with nothing charged and nothing marked, when that fails.
 */
static bool
use_run(uint32 unit, uint32 units, SiftKind kind)
{
	CommitPlan	plan = choose_plan(unit, units);
	Size		own;
	Size		bytes = plan_bytes(unit, units, plan, &own);

	if (!ledger_charge(kind, own, bytes - own))
		return false;
	if (bytes > 0)
	{
		Size		missing = commit_run(unit, units, plan);

		if (missing > 0)
		{
			ledger_refuse(kind, REFUSED_BY_SYSTEM);
			ledger_move(kind, SIFT_IDLE, own);
			ledger_release(SIFT_IDLE, missing);
			return false;
		}
		my_account->kinds[SIFT_IDLE].blocks_taken++;
	}
	foreach_segment(segment, unit, units)
	{
		ExtentIndex *index = &range.index[segment.extent];

		set_bits(range.extent[segment.extent].used, segment.first, segment.last);
		index->used += segment.last - segment.first;
		index->idle -= segment.last - segment.first;
	}
	ledger_move(SIFT_IDLE, kind, units * UNIT_SIZE - own);
	return true;
}

/*
 * extent_take
 *		Take memory for a block and charge it.
 *
 * size: bytes, a power of two or whole pages
 *
 * Returns NULL, with nothing charged, when it is refused.  The memory holds
 * what an earlier block left there.  Raises what a reclaimer raises, with
 * nothing charged.
 */
void *
extent_take(Size size, SiftKind kind)
{
	uint32		units = size / UNIT_SIZE;
	uint32		unit;

	Assert(size % UNIT_SIZE == 0);
	if (unlikely(size > range.extents * EXTENT_SIZE))
	{
		ledger_refuse(kind, ledger_fits(size) ? REFUSED_BY_RANGE : REFUSED_BY_LIMIT);
		return NULL;
	}
	unit = find_charged_run(units, kind);
	if (unit == NO_UNIT || !use_run(unit, units, kind))
		return NULL;
	return extent_address(unit);
}

/* Whether a run is free; true beyond what was ever used. */
static bool
run_is_free(uint32 unit, uint32 units)
{
	foreach_segment(segment, unit, units)
	{
		if (segment.extent < range.high &&
			next_unit(&range.extent[segment.extent], segment.first, false, false) < segment.last)
			return false;
	}
	return true;
}

/*
 * extent_grow
 *		Make a block longer where it is, if what follows it is free.
 *
 * Nothing is changed unless it is done.  Raises what a reclaimer raises.
 */
GrowResult
extent_grow(void *address, Size old_size, Size new_size, SiftKind kind)
{
	uint32		unit = extent_unit(address) + old_size / UNIT_SIZE;
	uint32		units = (new_size - old_size) / UNIT_SIZE;
	Size		needed;
	Size		own;

	if (new_size > RANGE_SIZE || unit + units > range.extents * EXTENT_UNITS ||
		!run_is_free(unit, units))
		return GROW_NOT_FREE;
	if (!open_extents(unit, units))
	{
		ledger_refuse(kind, REFUSED_BY_SYSTEM);
		return GROW_REFUSED;
	}
	while (!ledger_fits(needed = plan_bytes(unit, units, COMMIT_PAGES, &own)))
	{
		if (!ledger_make_room(needed))
		{
			ledger_refuse(kind, REFUSED_BY_LIMIT);
			return GROW_REFUSED;
		}
		/* a reclaimer may have taken what was free */
		if (!run_is_free(unit, units) || !open_extents(unit, units))
			return GROW_NOT_FREE;
	}
	return use_run(unit, units, kind) ? GROW_DONE : GROW_REFUSED;
}

/*
 * extent_give
 *		Take back a block, or the end of one, as idle memory.
 */
void
extent_give(void *address, Size size, SiftKind kind)
{
	uint32		unit = extent_unit(address);
	uint32		units = size / UNIT_SIZE;

	foreach_segment(segment, unit, units)
	{
		ExtentIndex *index = &range.index[segment.extent];

		clear_bits(range.extent[segment.extent].used, segment.first, segment.last);
		index->used -= segment.last - segment.first;
		index->idle += segment.last - segment.first;
		index->longest = EXTENT_UNITS;
	}
	ledger_move(kind, SIFT_IDLE, size);
}

/*
 * trim_run
 *		Give one idle run back to the system and release its charge.
 */
static Size
trim_run(const Segment *run)
{
	Size		bytes = count_bits(range.extent[run->extent].committed,
								   run->first, run->last) * UNIT_SIZE;

	if (!decommit(run))
		return 0;
	ledger_release(SIFT_IDLE, bytes);
	my_account->kinds[SIFT_IDLE].blocks_returned++;
	return bytes;
}

/* Idle bytes above what is to be kept. */
static Size
excess(Size keep)
{
	Size		idle = my_account->kinds[SIFT_IDLE].bytes;

	return idle > keep ? idle - keep : 0;
}

/*
 * trim_extent
 *		Give back idle memory of one extent, whole pages only.
 */
static Size
trim_extent(uint32 e, Size keep)
{
	const Extent *extent = &range.extent[e];
	Size		given = 0;
	uint32		first = next_unit(extent, 0, true, true);

	while (first < EXTENT_UNITS && excess(keep) > 0)
	{
		uint32		last = next_unit(extent, first, true, false);
		uint32		most = extent_page_round(excess(keep)) / UNIT_SIZE;
		Segment		run;

		run.extent = e;
		run.first = TYPEALIGN(range.page_units, first);
		run.last = last - last % range.page_units;
		if (run.first < run.last)
		{
			run.first = Max(run.first, run.last - Min(run.last, most));
			given += trim_run(&run);
		}
		first = next_unit(extent, last, true, true);
	}
	return given;
}

/*
 * extent_trim
 *		Give idle memory back to the system until no more than "keep" bytes
 *		are left.
 *
 * Highest addresses first; whole extents before parts of others.  What lies
 * in large pages goes in whole extents or not at all.  Returns the bytes
 * given back.
 */
Size
extent_trim(Size keep)
{
	Size		given = 0;

	for (uint32 e = range.high; e-- > 0 && excess(keep) > 0;)
	{
		const ExtentIndex *index = &range.index[e];
		Segment		whole = {e, 0, EXTENT_UNITS};

		if (index->used == 0 && index->idle > 0 &&
			(index->huge || excess(keep) >= index->idle * UNIT_SIZE))
			given += trim_run(&whole);
	}
	for (uint32 e = range.high; e-- > 0 && excess(keep) > 0;)
	{
		if (range.index[e].idle > 0 && !range.index[e].huge)
			given += trim_extent(e, keep);
	}
	while (range.high > 0 && range.index[range.high - 1].used == 0 &&
		   range.index[range.high - 1].idle == 0)
		range.high--;
	return given;
}

/*
 * extent_idle_runs
 *		How many pieces the idle memory is in.
 */
int64
extent_idle_runs(void)
{
	int64		runs = 0;

	for (uint32 e = 0; e < range.high; e++)
	{
		const Extent *extent = &range.extent[e];

		if (range.index[e].idle == 0)
			continue;
		for (uint32 first = next_unit(extent, 0, true, true);
			 first < EXTENT_UNITS;
			 first = next_unit(extent, next_unit(extent, first, true, false), true, true))
			runs++;
	}
	return runs;
}
