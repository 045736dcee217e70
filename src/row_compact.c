/*-------------------------------------------------------------------------
 *
 * row_compact.c
 *	  Moving the live rows of a store together.
 *
 * Live rows are copied out of the blocks that have the fewest, behind each other
 * into blocks where no row is yet; a block whose last row has moved goes back.
 * That happens when more than a quarter of what a store holds is unused, half dead
 * blocks first and no others; when it is asked for, to the end; and when memory is
 * short, so far as that gives some back.  It is done a piece at a time, and only
 * within calls that say so in sift.h: a reclaimer runs inside palloc, where no row
 * may move, so the one here only has each store compacted at its next call.
 *
 * It works with the session at its limit: a store that is not small keeps an empty
 * block in reserve, which the first block that goes then replaces.
 *
 * Rows that are pinned stay, and hold their blocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger.h"
#include "miscadmin.h"
#include "row_store.h"

/* Less than this is not worth it. */
#define LITTLE					((Size) 128 * 1024)

/* Stores that hold more have a block in reserve. */
#define WORTH_A_RESERVE			((Size) 4 * 1024 * 1024)

/* Bytes that may be copied in one call. */
#define LEAST_BUDGET			((Size) 64 * 1024)
#define BUDGET_FRACTION			64	/* of the store */
#define BUDGET_IN_NEED			((Size) 4 * 1024 * 1024)

/* What may be live of a block that is cleared, in sixteenths. */
#define HALF					8
#define NEARLY_ALL				15

/*
 * note_pressure
 *		A reclaimer: has the stores compacted later, and gives nothing now.
 */
static Size
note_pressure(Size wanted, void *arg)
{
	dlist_iter	iter;

	dlist_foreach(iter, &sift_contexts)
	{
		SiftContext *context = dlist_container(SiftContext, node, iter.cur);

		if (context->type != ROW_STORE)
			continue;
		((RowStore *) context)->in_need = true;
		context->rows.least_live = MaxAllocHugeSize;
	}
	return 0;
}

/* Before the first store of the process is created.  Raises 53200. */
void
row_compact_start(void)
{
	static bool started = false;

	if (started)
		return;
	ledger_add_reclaimer("row stores", COST_OF_IDLE_BLOCKS, note_pressure, NULL);
	started = true;
}

/*
 * set_least_live
 *		When the store is to be compacted next: when a quarter is unused.
 *
 * tried: it was compacted just now, so not before there is somewhat less
 */
static void
set_least_live(RowStore *store, bool tried)
{
	Size		held = store_held(store);
	Size		live = store->context.rows.live;
	Size		least_used = held - Min(held, held / 4 + LITTLE);
	Size		least = least_used - Min(least_used, store->slot_bytes);
	double		slots = (double) store->context.rows.rows * MOST_SLOT_BYTES;

	/* with so few rows left, of this length on the mean, slots are unused, too */
	if (live > 0)
		least = Max(least, (Size) (least_used * (live / (live + slots))));
	store->compacted_at = held;
	store->in_need = false;
	store->context.rows.least_live = tried ? Min(least, live - Min(live / 2, held / 32)) : least;
}

/* A store was created or reset. */
void
row_compact_reset(RowStore *store)
{
	set_least_live(store, false);
}

/* Have the slots of a block's live rows in the processor's cache soon. */
static void
prefetch_slots(RowStore *store, SiftBlock *block)
{
	char	   *carved = block->carved;
	uint64		header;

	for (char *at = block_start(block->context, block); at < carved; at += header_length(header))
	{
		char	   *chunk = at + CHUNK_HEADER_SIZE;

		header = chunk_header(chunk);
		if (!header_is_dead(header))
			row_slots_prefetch(store, row_of_chunk(chunk));
	}
}

/*
 * move_row
 *		Move a live chunk of a block to where no chunk is yet; false if it cannot
 *		be moved.
 */
static bool
move_row(RowStore *store, SiftContext *context, char *row)
{
	Size		size = row_room(row);
	char	   *moved;

#ifdef MEMORY_CONTEXT_CHECKING
	size = chunk_requested_size(chunk_of_row(row)) - ROW_OFFSET;
#endif
	if (row_is_pinned(row) || !row_slots_repoint(store, row, row))
		return false;
	moved = row_chunk_alloc_dense(context, size);
	if (moved == NULL)
		return false;
	*ROW_HEADER(moved) = *ROW_HEADER(row);
	memcpy(moved, row, size);
	(void) row_slots_repoint(store, row, moved);
	row_chunk_free(context, row);
	return true;
}

/*
 * clear_block
 *		Move all rows out of a block, which goes back then.
 *
 * live: bytes of its chunks
 *
 * Returns false when the budget does not suffice.
 */
static bool
clear_block(RowStore *store, SiftBlock *block, Size live, Size *budget)
{
	SiftContext *context = block->context;
	char	   *at = block_start(context, block);
	char	   *carved = block->carved;

	if (live > *budget)
	{
		*budget = 0;
		return false;
	}
	prefetch_slots(store, block);
	context_hold_block(block);
	while (live > 0 && at < carved)
	{
		char	   *chunk = at + CHUNK_HEADER_SIZE;
		uint64		header = chunk_header(chunk);
		Size		length = header_length(header);

		at += length;
		if (header_is_dead(header))
			continue;
		if (!move_row(store, context, row_of_chunk(chunk)))
			break;
		live -= length;
		*budget -= length;
	}
	context_unhold_block(context, block, context == &store->context);
	return true;
}

/*
 * clear_blocks
 *		Clear blocks of a context of the store of which no more than a part is
 *		live, until no more than "unused" bytes are unused, or the budget does not
 *		suffice.
 */
static void
clear_blocks(RowStore *store, SiftContext *context, int sixteenths, Size unused, Size *budget)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &context->blocks)
	{
		SiftBlock  *block = dlist_container(SiftBlock, node, iter.cur);
		Size		live;

		if (store_unused(store) <= unused)
			return;
		if (block->kind == SIFT_LARGE || block == context->current ||
			block == context->reserve || block == home_block(context))
			continue;
		live = block_table[block->number].live;
		if (live > block->size / 16 * sixteenths || live > context_dense_room(context))
			continue;
		if (!clear_block(store, block, live, budget))
			return;
	}
}

/* Have a block in reserve, or none where the store is small. */
static void
see_to_reserve(RowStore *store)
{
	if (store_held(store) >= WORTH_A_RESERVE)
		context_keep_reserve(&store->context);
	else if (store_held(store) < WORTH_A_RESERVE / 2)
		context_drop_reserve(&store->context);
}

/*
 * compact
 *		Compact the store, emptiest blocks first.
 *
 * sixteenths: most that may be live of a block that is cleared
 * unused: stop when no more is unused, bytes
 * budget: bytes that may be copied; what is left of it, 0 if it did not suffice
 *
 * Returns the bytes by which it got smaller.
 */
static Size
compact(RowStore *store, int sixteenths, Size unused, Size *budget)
{
	Size		before = store_held(store);

	/* nothing moves within palloc */
	if (ledger_is_reclaiming())
		return 0;
	/* no reclaimer of an extension is asked, which might remove what is moved */
	HOLD_INTERRUPTS();
	context_close_sparse(&store->context);
	row_slots_pack(store, budget);
	if (store->slots != NULL)
		context_close_sparse(store->slots);
	for (int most = 2; most < sixteenths + 2; most += 2)
	{
		clear_blocks(store, &store->context, Min(most, sixteenths), unused, budget);
		if (store->slots != NULL)
			clear_blocks(store, store->slots, Min(most, sixteenths), unused, budget);
	}
	see_to_reserve(store);
	RESUME_INTERRUPTS();
	set_least_live(store, true);
	return before - Min(before, store_held(store));
}

/* Compact a store since memory is short. */
static void
compact_in_need(RowStore *store)
{
	Size		budget = BUDGET_IN_NEED;

	(void) compact(store, NEARLY_ALL, store_held(store) / 16, &budget);
}

/*
 * row_compact_some
 *		Compact a bit of the store: it is due.
 */
void
row_compact_some(RowStore *store)
{
	Size		held = store_held(store);
	Size		budget = Max(held / BUDGET_FRACTION, LEAST_BUDGET);

	if (store->in_need)
		compact_in_need(store);
	else if (store_unused(store) > held / 4 + LITTLE)
		(void) compact(store, HALF, held / 8, &budget);
	else
		set_least_live(store, false);
}

/*
 * row_compact_before_block
 *		A row needs a new block, perhaps.
 */
void
row_compact_before_block(RowStore *store)
{
	Size		held = store_held(store);

	if (unlikely(!block_fits(store->context.next_size)))
	{
		if (store_unused(store) > held / 8 + LITTLE)
			compact_in_need(store);
		return;
	}
	/* it has grown, or got smaller */
	if (!store->in_need &&
		(held > store->compacted_at + store->compacted_at / 16 + LITTLE ||
		held < store->compacted_at - store->compacted_at / 16))
	{
		see_to_reserve(store);
		set_least_live(store, false);
	}
	row_compact_if_due(store);
}

/*
 * row_compact
 *		Compact a store as far as it goes.
 *
 * budget: bytes that may be copied
 *
 * Returns the bytes by which it got smaller; the system gets them back.  When
 * there is no more to be done it also gets the idle memory of the process.
 */
Size
row_compact(RowStore *store, Size budget)
{
	Size		idle = ledger_bytes(SIFT_IDLE);
	Size		given = compact(store, NEARLY_ALL, 0, &budget);

	if (budget > 0)
		(void) block_trim();
	else
		(void) extent_trim(idle, false);
	return given;
}
