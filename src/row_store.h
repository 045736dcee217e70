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

/* row_slots.c */
extern char **row_slots_find(RowStore *store, uint64 slot);
extern bool row_slots_next(RowStore *store, uint64 *slot);
extern void row_slots_make_room(RowStore *store);
extern uint64 row_slots_take(RowStore *store, void *row);
extern void row_slots_free(RowStore *store, uint64 slot);
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
