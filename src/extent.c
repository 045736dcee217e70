/*-------------------------------------------------------------------------
 *
 * extent.c
 *	  Where Sift's own blocks come from: runs of the reserved range, committed
 *	  and charged.
 *
 * A request takes the lowest run that is long enough, of idle memory if there
 * is one; what the run lacks is charged and committed, 64 kB at least as long
 * as the limit allows.  A large block takes the run of the large block that went
 * last, if that is as long.  Nothing ever moves.
 *
 * Large pages.  From HUGE_FROM bytes on a process commits whole extents and
 * asks for 2 MB pages, which makes first touch several times cheaper.  One
 * byte in such an extent is 2 MB of resident memory, so all of it is charged
 * at once, the uncarved rest as idle, and it goes back as a whole: to give
 * back a part the kernel must split the large page, which is slow.  That is
 * done only where the alternative is a refusal, and by sift_trim().
 *
 * What this file cannot do: hold more than RANGE_SIZE in one process, or move
 * a block out of the way of a large one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "extent.h"
#include "extent_map.h"
#include "ledger.h"

#define COMMIT_STEP				((uint32) (64 * 1024 / UNIT_SIZE))
#define HUGE_FROM				((Size) 4 * 1024 * 1024)

/* ----------------------------------------------------------------
 *		Commit and give back
 * ----------------------------------------------------------------
 */

/* How generous a commit is. */
typedef enum CommitPlan
{
	COMMIT_HUGE,				/* a whole extent, others will use the rest */
	COMMIT_HUGE_BODY,			/* the extents that the run fills */
	COMMIT_STEPS,				/* 64 kB around a small run */
	COMMIT_PAGES				/* the pages of the run */
} CommitPlan;

static bool
segment_is_huge(const Segment *segment, CommitPlan plan)
{
	const ExtentIndex *index = &extent_index[segment->extent];

	if (index->used > 0 || index->idle > 0)
		return false;
	return plan == COMMIT_HUGE ||
		(plan == COMMIT_HUGE_BODY && segment->last - segment->first == EXTENT_UNITS);
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
	return (segment->last - segment->first - map_committed(segment)) * UNIT_SIZE;
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
	return unit_address(segment->extent * EXTENT_UNITS + segment->first);
}

static Size
segment_bytes(const Segment *segment)
{
	return (segment->last - segment->first) * UNIT_SIZE;
}

/*
 * commit_segment
 *		Make the window of a segment accessible.
 *
 * The new units are idle until they are marked as used.
 */
static bool
commit_segment(const Segment *window, bool huge)
{
	if (uncommitted_bytes(window) == 0)
		return true;
	if (!range_commit(segment_address(window), segment_bytes(window), huge))
		return false;
	map_mark_committed(window);
	if (huge)
		extent_index[window->extent].huge = true;
	return true;
}

/*
 * decommit
 *		Give committed, unused units back to the system.
 *
 * The charge in the ledger is the caller's.  Returns false, with nothing
 * changed, when the system will not have it.
 */
static bool
decommit(const Segment *segment)
{
	bool		whole = segment_bytes(segment) == EXTENT_SIZE;

	if (whole ? !range_unmap_extent(segment_address(segment)) :
		!range_discard(segment_address(segment), segment_bytes(segment)))
		return false;
	map_mark_uncommitted(segment);
	if (whole)
		extent_index[segment->extent].huge = false;
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
static Size
own_bytes(void)
{
	return ledger_bytes(SIFT_ROW) + ledger_bytes(SIFT_BATCH) +
		ledger_bytes(SIFT_LARGE) + ledger_bytes(SIFT_IDLE);
}

/*
 * choose_plan
 *		The most generous plan that the limit has room for.
 */
static CommitPlan
choose_plan(uint32 unit, uint32 units)
{
	CommitPlan	huge = units > EXTENT_UNITS ? COMMIT_HUGE_BODY : COMMIT_HUGE;
	Size		own;

	if (range.huge_allowed && units >= range.page_units &&
		own_bytes() + units * UNIT_SIZE >= HUGE_FROM &&
		ledger_fits(plan_bytes(unit, units, huge, &own)))
		return huge;
	if (ledger_fits(plan_bytes(unit, units, COMMIT_STEPS, &own)))
		return COMMIT_STEPS;
	return COMMIT_PAGES;
}

/*
 * The run that a large block gave last is still marked as used, though it is
 * charged as idle memory: the next one may be as long, and take it as it is.
 * Other blocks always take the lowest run, so that whole extents become free.
 */
static uint32 last_unit = 0;
static uint32 last_units = 0;	/* 0: there is none */

static pg_noinline void
mark_last_free(void)
{
	foreach_segment(segment, last_unit, last_units)
		map_mark_free(&segment);
	last_units = 0;
}

/* Whether it serves for a block. */
static inline bool
last_serves(uint32 units, SiftKind kind)
{
	return last_units == units && kind == SIFT_LARGE && ledger_fits(0);
}

/* To be called before anybody looks at the map. */
static inline void
settle_last(void)
{
	if (last_units > 0)
		mark_last_free();
}

/* The lowest run for a request, of idle memory if there is one. */
static uint32
find_run(uint32 units)
{
	uint32		unit = NO_UNIT;

	settle_last();
	if (units <= EXTENT_UNITS)
	{
		if (ledger_bytes(SIFT_IDLE) >= units * UNIT_SIZE)
			unit = map_find_run(units, true);
		if (unit == NO_UNIT)
			unit = map_find_run(units, false);
	}
	return unit != NO_UNIT ? unit : map_find_extents(units);
}

/* Bytes that a request takes from the system at least, wherever it lies. */
static Size
least_bytes(uint32 units)
{
	Size		size = units * UNIT_SIZE;
	Size		idle = ledger_bytes(SIFT_IDLE);

	return size > idle ? size - idle : 0;
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
		Size		needed = least_bytes(units);

		if (likely(ledger_fits(needed)))
		{
			Size		own;

			unit = find_run(units);
			if (unit == NO_UNIT)
			{
				if (ledger_make_room(units * UNIT_SIZE, false, ALL_RECLAIMERS))
					continue;
				ledger_refuse(kind, REFUSED_BY_RANGE);
				return NO_UNIT;
			}
			if (!map_open(unit, units))
			{
				ledger_refuse(kind, REFUSED_BY_SYSTEM);
				return NO_UNIT;
			}
			needed = plan_bytes(unit, units, COMMIT_PAGES, &own);
			if (likely(ledger_fits(needed)))
				return unit;
		}
		if (!ledger_make_room(needed, true, ALL_RECLAIMERS))
		{
			map_close();
			ledger_refuse(kind, REFUSED_BY_LIMIT);
			return NO_UNIT;
		}
	}
}

/* What became of a run. */
typedef enum UseResult
{
	RUN_USED,
	RUN_REFUSED,				/* by the ledger, which has noted it */
	RUN_NOT_COMMITTED			/* by the system; errno tells why */
} UseResult;

/*
 * use_run
 *		Charge, commit and mark a free run.
 *
 * Unless that is done nothing is charged and nothing marked.
 */
static UseResult
use_run(uint32 unit, uint32 units, SiftKind kind, CommitPlan plan)
{
	Size		own;
	Size		bytes = plan_bytes(unit, units, plan, &own);

	if (!ledger_charge(kind, own, bytes - own))
		return RUN_REFUSED;
	if (bytes > 0)
	{
		Size		missing = commit_run(unit, units, plan);

		if (missing > 0)
		{
			/* what is there is idle; released first, so that no peak has it */
			ledger_release(SIFT_IDLE, missing);
			ledger_move(kind, SIFT_IDLE, own);
			return RUN_NOT_COMMITTED;
		}
		ledger_block_taken(SIFT_IDLE);
	}
	foreach_segment(segment, unit, units)
		map_mark_used(&segment);
	ledger_move(SIFT_IDLE, kind, units * UNIT_SIZE - own);
	return RUN_USED;
}

/*
 * give_way
 *		The system has refused memory: give it what is idle, that which the
 *		request has got before it failed with it.
 *
 * Returns whether that was the last try; errno stays.
 */
static bool
give_way(bool last)
{
	int			save_errno = errno;

	(void) extent_trim(0, true);
	errno = save_errno;
	return last;
}

/*
 * find_idle_run
 *		An idle run that needs neither room below the limit nor a commit.
 *
 * This is the common case once a session is warm, and spares it all counting.
 */
static uint32
find_idle_run(uint32 units)
{
	if (units > EXTENT_UNITS || ledger_bytes(SIFT_IDLE) < units * UNIT_SIZE ||
		!ledger_fits(0))
		return NO_UNIT;
	settle_last();
	return map_find_run(units, true);
}

/* Charge a run of idle memory to a block; NULL, with nothing charged, if refused. */
static void *
charge_idle_run(uint32 unit, uint32 units, SiftKind kind)
{
	if (!ledger_charge(kind, 0, 0))
		return NULL;
	ledger_move(SIFT_IDLE, kind, units * UNIT_SIZE);
	return unit_address(unit);
}

/* find_idle_run() has found one: charge and mark it. */
static void *
use_idle_run(uint32 unit, uint32 units, SiftKind kind)
{
	Segment		segment = segment_at(unit, unit + units);
	void	   *address = charge_idle_run(unit, units, kind);

	if (address != NULL)
		map_mark_used(&segment);
	return address;
}

/* last_serves(): charge that run, which is marked. */
static void *
use_last_run(SiftKind kind)
{
	void	   *address = charge_idle_run(last_unit, last_units, kind);

	Assert(last_unit % Min(last_units, range.page_units) == 0);
	if (address != NULL)
		last_units = 0;
	return address;
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
	uint32		idle;

	Assert(size % UNIT_SIZE == 0);
	if (last_serves(units, kind))
		return use_last_run(kind);
	if (unlikely(size > range.extents * EXTENT_SIZE))
	{
		ledger_refuse(kind, ledger_fits(size) ? REFUSED_BY_RANGE : REFUSED_BY_LIMIT);
		return NULL;
	}
	idle = find_idle_run(units);
	if (likely(idle != NO_UNIT))
		return use_idle_run(idle, units, kind);
	for (bool retry = false;; retry = true)
	{
		uint32		unit = find_charged_run(units, kind);

		if (unit == NO_UNIT)
			return NULL;
		switch (use_run(unit, units, kind,
						retry ? COMMIT_PAGES : choose_plan(unit, units)))
		{
			case RUN_USED:
				return unit_address(unit);
			case RUN_REFUSED:
				return NULL;
			case RUN_NOT_COMMITTED:
				if (!give_way(retry))
					break;
				ledger_refuse(kind, REFUSED_BY_SYSTEM);
				return NULL;
		}
	}
}

/* Whether a block of that size can be made of idle memory alone. */
bool
extent_has_idle(Size size)
{
	return find_idle_run(size / UNIT_SIZE) != NO_UNIT;
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
	uint32		unit = unit_at(address) + old_size / UNIT_SIZE;
	uint32		units = (new_size - old_size) / UNIT_SIZE;
	Size		needed;
	Size		own;

	settle_last();
	if (new_size > RANGE_SIZE || unit + units > range.extents * EXTENT_UNITS ||
		!map_is_free(unit, units))
		return GROW_NOT_FREE;
	if (!map_open(unit, units))
	{
		ledger_refuse(kind, REFUSED_BY_SYSTEM);
		return GROW_REFUSED;
	}
	while (!ledger_fits(needed = plan_bytes(unit, units, COMMIT_PAGES, &own)))
	{
		if (!ledger_make_room(needed, true, ALL_RECLAIMERS))
		{
			ledger_refuse(kind, REFUSED_BY_LIMIT);
			return GROW_REFUSED;
		}
		/* a reclaimer may have taken what was free */
		settle_last();
		if (!map_is_free(unit, units) || !map_open(unit, units))
			return GROW_NOT_FREE;
	}
	switch (use_run(unit, units, kind, choose_plan(unit, units)))
	{
		case RUN_USED:
			return GROW_DONE;
		case RUN_REFUSED:
			return GROW_REFUSED;
		case RUN_NOT_COMMITTED:
			break;
	}
	/* moving, which looks at idle memory, may do what growing cannot */
	return GROW_NOT_FREE;
}

/*
 * extent_give
 *		Take back a block, or the end of one, as idle memory.
 */
void
extent_give(void *address, Size size, SiftKind kind)
{
	uint32		unit = unit_at(address);
	uint32		units = size / UNIT_SIZE;

	if (kind == SIFT_LARGE)
	{
		settle_last();
		last_unit = unit;
		last_units = units;
	}
	else
	{
		foreach_segment(segment, unit, units)
			map_mark_free(&segment);
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
	Size		bytes = map_committed(run) * UNIT_SIZE;

	if (!decommit(run))
		return 0;
	ledger_release(SIFT_IDLE, bytes);
	ledger_block_returned(SIFT_IDLE);
	return bytes;
}

/* Idle bytes above what is to be kept. */
static Size
excess(Size keep)
{
	Size		idle = ledger_bytes(SIFT_IDLE);

	return idle > keep ? idle - keep : 0;
}

/*
 * trim_extent
 *		Give back idle memory of one extent, whole pages only.
 */
static Size
trim_extent(uint32 e, Size keep)
{
	Size		given = 0;

	for (Segment idle = map_next_idle(e, 0);
		 idle.first < idle.last && excess(keep) > 0;
		 idle = map_next_idle(e, idle.last))
	{
		uint32		most = page_round(excess(keep)) / UNIT_SIZE;
		Segment		run = idle;

		run.first = TYPEALIGN(range.page_units, idle.first);
		run.last = idle.last - idle.last % range.page_units;
		if (run.first >= run.last)
			continue;
		run.first = Max(run.first, run.last - Min(run.last, most));
		given += trim_run(&run);
	}
	return given;
}

/*
 * break_up_extent
 *		From here on an extent has small pages.
 *
 * The advice keeps the kernel from making a large page of it again, which
 * would be more memory than is charged.
 */
static void
break_up_extent(uint32 e)
{
	range_keep_small_pages(unit_address(e * EXTENT_UNITS), EXTENT_SIZE);
	extent_index[e].huge = false;
}

/*
 * extent_trim
 *		Give idle memory back to the system until no more than "keep" bytes
 *		are left.
 *
 * break_up: also what lies in large pages that are partly used.  That takes
 * time, and the extent has small pages from then on.
 *
 * Highest addresses first; whole extents before parts of others.  Returns the
 * bytes given back.
 */
Size
extent_trim(Size keep, bool break_up)
{
	Size		given = 0;

	settle_last();
	for (uint32 e = extent_high; e-- > 0 && excess(keep) > 0;)
	{
		const ExtentIndex *index = &extent_index[e];
		Segment		whole = whole_extent(e);

		if (index->used == 0 && index->idle > 0 &&
			(index->huge || excess(keep) >= index->idle * UNIT_SIZE))
			given += trim_run(&whole);
	}
	for (uint32 e = extent_high; e-- > 0 && excess(keep) > 0;)
	{
		if (extent_index[e].idle > 0 && !extent_index[e].huge)
			given += trim_extent(e, keep);
	}
	for (uint32 e = extent_high; break_up && e-- > 0 && excess(keep) > 0;)
	{
		if (extent_index[e].idle > 0 && extent_index[e].huge)
		{
			break_up_extent(e);
			given += trim_extent(e, keep);
		}
	}
	map_close();
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

	settle_last();
	for (uint32 e = 0; e < extent_high; e++)
	{
		if (extent_index[e].idle == 0)
			continue;
		for (Segment idle = map_next_idle(e, 0); idle.first < idle.last;
			 idle = map_next_idle(e, idle.last))
			runs++;
	}
	return runs;
}
