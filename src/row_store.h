/*-------------------------------------------------------------------------
 *
 * row_store.h
 *	  Rows that can move: what its files share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_ROW_STORE_H
#define SIFT_ROW_STORE_H

#include "row_chunk.h"

typedef struct RowStore
{
	SiftContext context;		/* of the rows, with what sift.h tells of them */
	SiftContext *slots;			/* a child: of pages and directory; or NULL */
	MemoryContextCallback slots_callback;
	Size		slot_bytes;		/* of the chunks of slots */
	uint64		packed_rows;	/* rows that have their slot in a packed page */
	Size		compacted_at;	/* bytes held when rows.least_live was set */
	uint32		directory_size; /* pages that it has room for */
	uint32		dense_pages;	/* that are not packed */
	uint32		next_page;		/* looked at next for one that is not dense */
	uint32		pins;			/* entries in row_pins.c */
	bool		in_need;		/* memory is short: compact as soon as may be */
} RowStore;

/* Bytes that the store holds. */
static inline Size
store_held(const RowStore *store)
{
	return store->context.cursor.header.mem_allocated +
		(store->slots != NULL ? store->slots->cursor.header.mem_allocated : 0);
}

/*
 * Bytes of slots a row that count as used: a row alone in its packed page takes
 * about 100.
 */
#define MOST_SLOT_BYTES			128

/* Bytes of slots that count as used. */
static inline Size
store_used_slots(const RowStore *store)
{
	return Min(store->slot_bytes, store->context.rows.rows * MOST_SLOT_BYTES);
}

/* Bytes that are neither rows nor used slots. */
static inline Size
store_unused(const RowStore *store)
{
	return store_held(store) - store->context.rows.live - store_used_slots(store);
}

/* ----------------------------------------------------------------
 *		Slots (row_slots.c)
 * ----------------------------------------------------------------
 */

#define NO_SLOT					SIFT_PAGE_SLOTS
#define slot_is_free(slot)		(((slot) & 1) != 0)

/* Pointers in the directory. */
#define page_is_packed(entry)	(((uintptr_t) (entry) & 1) != 0)

extern void row_slots_free_packed(RowStore *store, uint64 slot);

/*
 * row_slots_take
 *		Give a row a slot, which must be free; returns its number.
 */
static inline uint64
row_slots_take(RowStore *store, void *row)
{
	SiftRows   *rows = &store->context.rows;
	uint32		number = rows->free_page - 1;
	SiftSlotPage *page = SiftSlotPageAt(rows->pages[number]);
	int			slot = page->free_slot;

	page->free_slot = page->slots[slot] >> 1;
	page->slots[slot] = (uint64) (uintptr_t) row;
	page->live++;
	if (page->free_slot == NO_SLOT)
		rows->free_page = page->next;
	return ((uint64) number << SIFT_PAGE_SHIFT) + slot;
}

/*
 * row_slots_free
 *		A row has no slot any more.  Cannot fail.
 */
static inline void
row_slots_free(RowStore *store, uint64 slot)
{
	uint32		number = slot >> SIFT_PAGE_SHIFT;
	SiftRows   *rows = &store->context.rows;
	int			i = slot % SIFT_PAGE_SLOTS;
	SiftSlotPage *page;

	if (page_is_packed(rows->pages[number]))
	{
		row_slots_free_packed(store, slot);
		return;
	}
	page = SiftSlotPageAt(rows->pages[number]);
	if (page->free_slot == NO_SLOT)
	{
		page->next = rows->free_page;
		rows->free_page = number + 1;
	}
	page->slots[i] = SiftFreeSlot(page->free_slot);
	page->free_slot = i;
	page->live--;
}

extern char **row_slots_find(RowStore *store, uint64 slot);
extern bool row_slots_next(RowStore *store, uint64 *slot);
extern void row_slots_make_room(RowStore *store);
extern void row_slots_drop(RowStore *store);
extern void row_slots_pack(RowStore *store, Size *budget);
extern bool row_slots_repoint(RowStore *store, char *address, char *moved);
extern void row_slots_prefetch(RowStore *store, const char *address);

/* row_compact.c */
extern void row_compact_start(void);
extern void row_compact_reset(RowStore *store);
extern void row_compact_some(RowStore *store);
extern void row_compact_before_block(RowStore *store);
extern Size row_compact(RowStore *store, Size budget);

/*
 * row_compact_if_due
 *		Compact a bit of the store where too much is dead, or somebody has asked
 *		for memory.
 */
static inline void
row_compact_if_due(RowStore *store)
{
	if (unlikely(store->context.rows.live < store->context.rows.least_live))
		row_compact_some(store);
}

/* row_pins.c */
extern void row_pins_make_room(void);
extern void row_pins_add(RowStore *store, char *row);
extern void row_pins_drop(RowStore *store, char *row);
extern void row_pins_forget_store(RowStore *store);
extern void row_pins_end_transaction(void);
extern void row_pins_end_subtransaction(SubTransactionId id);

/* row_store.c */
extern const MemoryContextMethods row_store_methods;
extern MemoryContext row_store_create(MemoryContext parent, const char *name);
extern bool is_row_store(MemoryContext context);
extern uint64 row_next_number;
extern uint64 row_put(MemoryContext context, Size size, void **address);
extern void *row_get(MemoryContext context, uint64 id);
extern Size row_size(MemoryContext context, uint64 id);
extern void *row_replace(MemoryContext context, uint64 id, Size size);
extern void row_remove(MemoryContext context, uint64 id);
extern void row_store_dead(MemoryContext context);
extern void *row_pin(MemoryContext context, uint64 id);
extern void row_unpin(MemoryContext context, uint64 id);
extern bool row_next(MemoryContext context, SiftRowWalk *walk, uint64 *id, void **address);
extern Size row_store_compact(MemoryContext context, Size budget);
extern Size row_store_compact_all(void);

#endif							/* SIFT_ROW_STORE_H */
