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

/* No page of slots. */
#define NO_PAGE					PG_UINT32_MAX

typedef struct RowStore
{
	SiftContext context;		/* with where the pages of slots are */
	uint64		rows;
	Size		live;			/* bytes of the chunks of rows */
	Size		slot_bytes;		/* and of those of slots */
	Size		least_used;		/* compacted when there are less of both */
	Size		compacted_at;	/* what the store held when that was set */
	uint32		pressure;		/* row_store_pressure when it was compacted last */
	uint32		directory_size; /* pages that it has room for */
	uint32		free_page;		/* first of the chain of pages with free slots */
	uint32		dense_pages;	/* that are not packed */
	uint64		dense_rows;		/* rows that these have */
	uint32		next_page;		/* looked at next for one that is not dense */
	uint32		pins;			/* entries in row_pins.c */
} RowStore;

/* Bytes that the store holds. */
static inline Size
store_held(const RowStore *store)
{
	return store->context.cursor.header.mem_allocated;
}

/* Bytes that are neither rows nor slots. */
static inline Size
store_unused(const RowStore *store)
{
	return store_held(store) - store->live - store->slot_bytes;
}

/* ----------------------------------------------------------------
 *		Slots (row_slots.c)
 * ----------------------------------------------------------------
 */

#define NO_SLOT					SIFT_PAGE_SLOTS

/* A free slot, with the next one that is free. */
#define FREE_SLOT(next)			(((uint64) (next) << 1) | 1)
#define slot_is_free(slot)		(((slot) & 1) != 0)

typedef struct SlotPage
{
	uint16		live;
	uint16		free_slot;		/* first of the chain, or NO_SLOT */
	uint32		next;			/* page with free slots, or NO_PAGE */
	uint64		slots[SIFT_PAGE_SLOTS];
} SlotPage;

/* Pointers in the directory. */
#define page_is_packed(entry)	(((uintptr_t) (entry) & 1) != 0)
#define dense_page(entry)		((SlotPage *) ((entry) - offsetof(SlotPage, slots)))

extern void row_slots_free_packed(RowStore *store, uint64 slot);

/*
 * row_slots_take
 *		Give a row a slot, which must be free; returns its number.
 */
static inline uint64
row_slots_take(RowStore *store, void *row)
{
	uint32		number = store->free_page;
	SlotPage   *page = dense_page(store->context.slots.pages[number]);
	int			slot = page->free_slot;

	page->free_slot = page->slots[slot] >> 1;
	page->slots[slot] = (uint64) (uintptr_t) row;
	page->live++;
	store->dense_rows++;
	if (unlikely(page->free_slot == NO_SLOT))
		store->free_page = page->next;
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
	char	   *entry = store->context.slots.pages[number];
	int			i = slot % SIFT_PAGE_SLOTS;
	SlotPage   *page = dense_page(entry);

	if (unlikely(page_is_packed(entry)))
	{
		row_slots_free_packed(store, slot);
		return;
	}
	if (unlikely(page->free_slot == NO_SLOT))
	{
		page->next = store->free_page;
		store->free_page = number;
	}
	page->slots[i] = FREE_SLOT(page->free_slot);
	page->free_slot = i;
	page->live--;
	store->dense_rows--;
}

extern char **row_slots_find(RowStore *store, uint64 slot);
extern bool row_slots_next(RowStore *store, uint64 *slot);
extern void row_slots_make_room(RowStore *store);
extern void row_slots_reset(RowStore *store);
extern void row_slots_pack(RowStore *store, Size *budget);
extern bool row_slots_repoint(RowStore *store, char *address, char *moved);
extern void row_slots_prefetch(RowStore *store, const char *address);

/* row_compact.c */
extern uint32 row_store_pressure;
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
	if (unlikely(store->live + store->slot_bytes < store->least_used ||
				 store->pressure != row_store_pressure))
		row_compact_some(store);
}

/* row_pins.c */
extern void row_pins_add(RowStore *store, char *row);
extern void row_pins_drop(RowStore *store, char *row);
extern void row_pins_forget_store(RowStore *store);
extern void row_pins_end_transaction(void);
extern void row_pins_end_subtransaction(SubTransactionId id);

/* row_store.c */
extern const MemoryContextMethods row_store_methods;
extern MemoryContext row_store_create(MemoryContext parent, const char *name);
extern bool is_row_store(MemoryContext context);
extern uint64 row_put(MemoryContext context, Size size, void **address);
extern void *row_get(MemoryContext context, uint64 id);
extern Size row_size(MemoryContext context, uint64 id);
extern void *row_replace(MemoryContext context, uint64 id, Size size);
extern void row_remove(MemoryContext context, uint64 id);
extern void *row_pin(MemoryContext context, uint64 id);
extern void row_unpin(MemoryContext context, uint64 id);
extern bool row_next(MemoryContext context, SiftRowWalk *walk, uint64 *id, void **address);
extern Size row_store_compact(MemoryContext context, Size budget);
extern Size row_store_compact_all(void);

#endif							/* SIFT_ROW_STORE_H */
