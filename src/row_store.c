/*-------------------------------------------------------------------------
 *
 * row_store.c
 *	  Stores of rows that can move (see sift.h).
 *
 * A store is a memory context of its own type.  Its rows are chunks that are
 * carved as in a row context, dead ones used again as there; but they go by ids,
 * so live ones can be moved together (row_compact.c).  An id names the row's slot
 * (row_slots.c) and has bits of a number that tells the row from others that have
 * had the slot.
 *
 * palloc in a store makes large chunks, so that the blocks of rows have nothing
 * in them that must stay.
 *
 * Here nothing is counted a chunk but what the store needs to know: its rows and
 * their bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "method_table.h"
#include "row_store.h"

#define MAX_ROW_SIZE			(MaxAllocSize - 64)
#define FIRST_BLOCK_SIZE		((Size) 1024)
#define MAX_ROW_BLOCK_SIZE		((Size) 64 * 1024)

/* Numbers of rows are odd, and unique in the process. */
uint64		row_next_number = 1;

/* ----------------------------------------------------------------
 *		A store as a memory context
 * ----------------------------------------------------------------
 */

static METHOD_ALLOC(store_alloc)
{
	check_request_size(context, size, METHOD_FLAGS);
	return context_alloc_large((SiftContext *) context, size, METHOD_FLAGS);
}

static void
store_reset(MemoryContext context)
{
	RowStore   *store = (RowStore *) context;

	row_pins_forget_store(store);
	row_slots_drop(store);
	context_reset(context);
	row_compact_reset(store);
}

static void
store_delete(MemoryContext context)
{
	row_pins_forget_store((RowStore *) context);
	context_delete(context);
}

const MemoryContextMethods row_store_methods = {
	.alloc = store_alloc,
	CHUNK_AND_USAGE_METHODS,
	.reset = store_reset,
	.delete_context = store_delete
};

/*
 * row_store_create
 *		SiftRowStoreCreate, see sift.h.
 */
MemoryContext
row_store_create(MemoryContext parent, const char *name)
{
	MemoryContext context;

	row_compact_start();
	context = context_create(parent, name, ROW_STORE, &row_store_methods, sizeof(RowStore),
							 FIRST_BLOCK_SIZE, MAX_ROW_BLOCK_SIZE);
	row_compact_reset((RowStore *) context);
	return context;
}

bool
is_row_store(MemoryContext context)
{
	return context->methods == &row_store_methods;
}

/* ----------------------------------------------------------------
 *		Rows
 * ----------------------------------------------------------------
 */

static pg_noinline void
not_a_store(MemoryContext context)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("memory context \"%s\" is not a Sift row store", context->name)));
}

/* The store that a context is; 22023 if it is none. */
static inline RowStore *
store_of(MemoryContext context)
{
	if (unlikely(!is_row_store(context)))
		not_a_store(context);
	return (RowStore *) context;
}

/* The row of an id, whose page may be packed; 42704 if there is none. */
static pg_noinline char *
find_row_slow(RowStore *store, uint64 id)
{
	char	  **slot = row_slots_find(store, id >> SIFT_ID_SLOT_SHIFT);

	if (slot == NULL || ((SiftRowNumber(*slot) ^ id) & SIFT_ID_NUMBER_MASK) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("row store \"%s\" has no row with id %llu",
						store->context.cursor.header.name, (unsigned long long) id),
				 errdetail("The row was removed, or it is one of another store.")));
	return *slot;
}

/* The row of an id; 42704 if there is none. */
static inline char *
find_row(RowStore *store, uint64 id)
{
	return SiftRowFind(&store->context.rows, id) ? : find_row_slow(store, id);
}

static pg_noinline void
row_pinned(RowStore *store, uint64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("row %llu of row store \"%s\" is pinned",
					(unsigned long long) id, store->context.cursor.header.name)));
}

/* The same for a row that is to be changed; 55006 if it is pinned. */
static inline char *
find_unpinned_row(RowStore *store, uint64 id)
{
	char	   *row = find_row(store, id);

	if (unlikely(row_is_pinned(row)))
		row_pinned(store, id);
	return row;
}

/*
 * row_chunk_refused
 *		Raise the error of a request that was refused, where the method has not.
 */
void
row_chunk_refused(SiftContext *context, Size size)
{
	MemoryContextStats(TopMemoryContext);
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed on request of size %zu in memory context \"%s\".",
					   size, context->cursor.header.name)));
}

static inline void
check_size(Size size)
{
	if (unlikely(size > MAX_ROW_SIZE))
		elog(ERROR, "invalid size of a row: %zu", size);
}

/* Before a row is made for which the block being carved has no room. */
static pg_noinline void
prepare(RowStore *store, Size length)
{
	if (length > (Size) (store->context.cursor.end - store->context.cursor.next))
		row_compact_before_block(store);
	row_slots_make_room(store);
}

/*
 * make_row
 *		Make a row, which has neither number nor slot yet.
 *
 * length: ROW_LENGTH of its size
 *
 * Sets its word, but for the slot, and tells how long its chunk is.  A reclaimer may
 * put rows, replace and remove others meanwhile, or reset the store.
 */
static inline char *
make_row(RowStore *store, Size size, Size *length)
{
	char	   *row = row_chunk_alloc(&store->context, size);
	Size		room = *length - CHUNK_HEADER_SIZE - ROW_OFFSET;

	if (unlikely(*length > store->context.large_from))
	{
		room = row_room(row);
		*length = row_chunk_length(row);
	}
	ROW_HEADER(row)->word = (uint64) (room - size) << WORD_SLACK_SHIFT;
	return row;
}

/*
 * row_put
 *		SiftRowPut, see sift.h.
 */
uint64
row_put(MemoryContext context, Size size, void **address)
{
	RowStore   *store = store_of(context);
	SiftRows   *rows = &store->context.rows;
	Size		length = ROW_LENGTH(size);
	uint64		slot;
	uint64		id;
	char	   *row;

	check_size(size);
	if (unlikely(rows->free_page == 0 ||
				 length > (Size) (store->context.cursor.end - store->context.cursor.next)))
		prepare(store, length);
	row = make_row(store, size, &length);
	while (unlikely(rows->free_page == 0))
	{
		/* a reclaimer has reset the store, or put rows */
		row_chunk_free(&store->context, row);
		prepare(store, ROW_LENGTH(size));
		length = ROW_LENGTH(size);
		row = make_row(store, size, &length);
	}

	/* nothing fails from here on */
	context->isReset = false;
	slot = row_slots_take(store, row);
	id = SiftRowId(slot, row_next_number);
	ROW_HEADER(row)->number = row_next_number;
	ROW_HEADER(row)->word |= slot << WORD_SLOT_SHIFT;
	rows->rows++;
	rows->live += length;
	*address = row;
	row_next_number += 2;
	return id;
}

/*
 * row_get
 *		SiftRowGet, where it is not told inline.
 */
void *
row_get(MemoryContext context, uint64 id)
{
	return find_row_slow(store_of(context), id);
}

/*
 * row_size
 *		SiftRowSize, see sift.h.
 */
Size
row_size(MemoryContext context, uint64 id)
{
	char	   *row = find_row(store_of(context), id);

	return row_room(row) - row_slack(row);
}

/*
 * row_replace
 *		SiftRowReplace, see sift.h.
 */
void *
row_replace(MemoryContext context, uint64 id, Size size)
{
	RowStore   *store = store_of(context);
	Size		length = ROW_LENGTH(size);
	char	   *row = find_unpinned_row(store, id);
	char	   *chunk = chunk_of_row(row);
	uint64		slot = row_slot(row);
	uint64		number;
	char	   *replaced;
	char	  **address;

	check_size(size);
	if (!header_is_large(chunk_header(chunk)) && row_chunk_length(row) == length)
	{
		VALGRIND_MEMPOOL_CHANGE(context, chunk, chunk, size + ROW_OFFSET);
		chunk_change_size(chunk, size + ROW_OFFSET, row_room(row) + ROW_OFFSET);
		ROW_HEADER(row)->word &= ~(MAX_SLACK << WORD_SLACK_SHIFT);
		ROW_HEADER(row)->word |= (uint64) (row_room(row) - size) << WORD_SLACK_SHIFT;
		return row;
	}
	number = ROW_HEADER(row)->number;
	if (length > (Size) (store->context.cursor.end - store->context.cursor.next))
		row_compact_before_block(store);
	replaced = make_row(store, size, &length);
	ROW_HEADER(replaced)->number = number;
	ROW_HEADER(replaced)->word |= slot << WORD_SLOT_SHIFT;

	/* the row may have been moved, or a reclaimer has removed it */
	address = row_slots_find(store, slot);
	if (address == NULL || SiftRowNumber(*address) != number)
	{
		row_chunk_free(&store->context, replaced);
		(void) find_row(store, id);
	}
	row = *address;
	*address = replaced;
	store->context.rows.live += length - row_chunk_length(row);
	row_chunk_free(&store->context, row);
	return replaced;
}

/*
 * row_remove
 *		SiftRowRemove, see sift.h.
 */
void
row_remove(MemoryContext context, uint64 id)
{
	RowStore   *store = store_of(context);
	char	   *row = find_unpinned_row(store, id);

	store->context.rows.rows--;
	store->context.rows.live -= row_chunk_length(row);
	row_slots_free(store, row_slot(row));
	row_chunk_free(&store->context, row);
	row_compact_if_due(store);
}

/*
 * row_store_dead
 *		A row was removed, inline, and much is dead.
 */
void
row_store_dead(MemoryContext context)
{
	row_compact_some((RowStore *) context);
}

/*
 * row_pin, row_unpin
 *		SiftRowPin and SiftRowUnpin, see sift.h.
 */
void *
row_pin(MemoryContext context, uint64 id)
{
	RowStore   *store = store_of(context);
	char	   *row;

	row_pins_make_room();
	row = find_row(store, id);
	row_pins_add(store, row);
	return row;
}

void
row_unpin(MemoryContext context, uint64 id)
{
	RowStore   *store = store_of(context);

	row_pins_drop(store, find_row(store, id));
}

/*
 * row_next
 *		SiftRowNext, see sift.h.
 */
bool
row_next(MemoryContext context, SiftRowWalk *walk, uint64 *id, void **address)
{
	RowStore   *store = store_of(context);

	if (walk->before == 0)
		walk->before = row_next_number;
	while (row_slots_next(store, &walk->next_slot))
	{
		char	   *row = *row_slots_find(store, walk->next_slot);
		uint64		number = ROW_HEADER(row)->number;

		if (number < walk->before)
		{
			*id = SiftRowId(walk->next_slot++, number);
			*address = row;
			return true;
		}
		walk->next_slot++;
	}
	return false;
}

/*
 * row_store_compact
 *		SiftRowStoreCompact, see sift.h.
 */
Size
row_store_compact(MemoryContext context, Size budget)
{
	return row_compact(store_of(context), budget);
}

/*
 * row_store_compact_all
 *		Compact all stores of the process; returns the bytes by which they got
 *		smaller.  A place to be cancelled.
 */
Size
row_store_compact_all(void)
{
	const Size	step = (Size) 64 * 1024 * 1024;
	Size		given = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &sift_contexts)
	{
		SiftContext *context = dlist_container(SiftContext, node, iter.cur);
		Size		some;

		if (context->type != ROW_STORE)
			continue;
		do
		{
			CHECK_FOR_INTERRUPTS();
			some = row_compact((RowStore *) context, step);
			given += some;
		} while (some > 0);
	}
	return given;
}
