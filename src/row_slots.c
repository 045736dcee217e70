/*-------------------------------------------------------------------------
 *
 * row_slots.c
 *	  Where the rows of a store are.
 *
 * A row's slot holds its address.  256 slots are a page; a directory tells where
 * the pages are.  Free slots of a page are chained through themselves, as odd
 * numbers, and pages that have some through their heads.
 *
 * A page that is mostly free is packed when the store is compacted: it becomes a
 * bitmap and the addresses of its rows, side by side (its pointer is odd then).
 * A page without rows goes.  So slots follow the rows, though these are removed
 * in any order.  A packed page is unpacked when slots are wanted.
 *
 * Pages and the directory are chunks that can move, like rows, in a context of
 * their own below the store: among rows they would hold blocks whose rows have
 * gone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger.h"
#include "port/pg_bitutils.h"
#include "row_context.h"
#include "row_store.h"

/* Pages with fewer rows are packed. */
#define MOST_PACKED				(SIFT_PAGE_SLOTS / 4)

#define LEAST_DIRECTORY			8

/* Of the first block and the largest. */
#define SLOT_BLOCK_LEAST		((Size) 4 * 1024)
#define SLOT_BLOCK_SIZES		SLOT_BLOCK_LEAST, ((Size) 32 * 1024)

#define BITMAP_WORDS			(SIFT_PAGE_SLOTS / 64)

typedef struct PackedPage
{
	uint64		bitmap[BITMAP_WORDS];	/* slots that have a row */
	uint64		rows[FLEXIBLE_ARRAY_MEMBER];	/* their addresses */
} PackedPage;

#define packed_page(entry)		((PackedPage *) ((entry) - 1))

/* ----------------------------------------------------------------
 *		Chunks of slots
 * ----------------------------------------------------------------
 */

/* The context of slots was deleted, or is about to be: no row has an id. */
static void
forget_slots(void *arg)
{
	RowStore   *store = arg;

	store->slots = NULL;
	memset(&store->context.rows, 0, sizeof(SiftRows));
	store->slot_bytes = 0;
	store->packed_rows = 0;
	store->directory_size = 0;
	store->dense_pages = 0;
	store->next_page = 0;
}

/* Before the first slot of a store.  Raises 53200. */
static void
make_context(RowStore *store)
{
	MemoryContext context = row_context_create(&store->context.cursor.header, "Sift row slots",
											   SLOT_BLOCK_SIZES);

	store->slots_callback.func = forget_slots;
	store->slots_callback.arg = store;
	MemoryContextRegisterResetCallback(context, &store->slots_callback);
	store->slots = (SiftContext *) context;
}

/*
 * row_slots_drop
 *		All rows are gone.
 */
void
row_slots_drop(RowStore *store)
{
	if (store->slots != NULL)
		MemoryContextDelete(&store->slots->cursor.header);
}

/*
 * alloc_slots
 *		Make a chunk of slots.
 *
 * word: of its RowHeader
 *
 * Raises 53200.
 */
static char *
alloc_slots(RowStore *store, Size size, uint64 word)
{
	char	   *address = row_chunk_alloc(store->slots, size);

	ROW_HEADER(address)->number = 0;
	ROW_HEADER(address)->word = word;
	store->slot_bytes += row_chunk_length(address);
	return address;
}

static void
free_slots(RowStore *store, char *address)
{
	store->slot_bytes -= row_chunk_length(address);
	row_chunk_free(store->slots, address);
}

/* ----------------------------------------------------------------
 *		Packed pages
 * ----------------------------------------------------------------
 */

static inline bool
packed_has(const PackedPage *page, int slot)
{
	return (page->bitmap[slot / 64] >> slot % 64 & 1) != 0;
}

/* How many rows of a packed page come before a slot's. */
static int
packed_rank(const PackedPage *page, int slot)
{
	int			rank = 0;

	for (int i = 0; i < slot / 64; i++)
		rank += pg_popcount64(page->bitmap[i]);
	return rank + pg_popcount64(page->bitmap[slot / 64] & (((uint64) 1 << slot % 64) - 1));
}

static int
packed_rows(const PackedPage *page)
{
	return packed_rank(page, SIFT_PAGE_SLOTS - 1) + packed_has(page, SIFT_PAGE_SLOTS - 1);
}

/* Pack a page; false when that is beyond the budget, or there is no room. */
static bool
pack(RowStore *store, uint32 number, Size *budget)
{
	SiftSlotPage *page = SiftSlotPageAt(store->context.rows.pages[number]);
	Size		size = offsetof(PackedPage, rows) + page->live * sizeof(uint64);
	PackedPage *packed;
	int			count = 0;

	if (ROW_LENGTH(size) > *budget)
	{
		*budget = 0;
		return false;
	}
	packed = (PackedPage *) row_chunk_alloc_dense(store->slots, size);
	if (packed == NULL)
		return false;
	*ROW_HEADER(packed) = *ROW_HEADER(page);
	store->slot_bytes += ROW_LENGTH(size);
	*budget -= ROW_LENGTH(size);
	store->packed_rows += page->live;
	memset(packed->bitmap, 0, sizeof(packed->bitmap));
	for (int slot = 0; slot < SIFT_PAGE_SLOTS; slot++)
	{
		if (slot_is_free(page->slots[slot]))
			continue;
		packed->bitmap[slot / 64] |= (uint64) 1 << slot % 64;
		packed->rows[count++] = page->slots[slot];
	}
	Assert(count == page->live);
	store->context.rows.pages[number] = (char *) packed + 1;
	free_slots(store, (char *) page);
	return true;
}

/* ----------------------------------------------------------------
 *		Pages with free slots
 * ----------------------------------------------------------------
 */

/* Have the pages whose slots are not all taken in the chain, the first ones first. */
static void
chain_pages(RowStore *store)
{
	SiftRows   *rows = &store->context.rows;
	char	  **pages = rows->pages;

	rows->free_page = 0;
	for (int64 number = (int64) rows->num_pages - 1; number >= 0; number--)
	{
		SiftSlotPage *page;

		if (pages[number] == NULL || page_is_packed(pages[number]))
			continue;
		page = SiftSlotPageAt(pages[number]);
		if (page->free_slot == NO_SLOT)
			continue;
		page->next = rows->free_page;
		rows->free_page = number + 1;
	}
}

/*
 * make_page
 *		Make a page of free slots, or of those of a packed page.  Raises 53200.
 */
static void
make_page(RowStore *store, uint32 number)
{
	SiftSlotPage *page = (SiftSlotPage *) alloc_slots(store, sizeof(SiftSlotPage),
												(uint64) number << WORD_SLOT_SHIFT);
	char	   *entry = store->context.rows.pages[number];
	PackedPage *packed = entry != NULL ? packed_page(entry) : NULL;
	int			rows = packed != NULL ? packed_rows(packed) : 0;

	page->live = rows;
	page->free_slot = NO_SLOT;
	for (int slot = SIFT_PAGE_SLOTS - 1; slot >= 0; slot--)
	{
		if (packed != NULL && packed_has(packed, slot))
			page->slots[slot] = packed->rows[--rows];
		else
		{
			page->slots[slot] = SiftFreeSlot(page->free_slot);
			page->free_slot = slot;
		}
	}
	page->next = store->context.rows.free_page;
	store->context.rows.free_page = number + 1;
	store->dense_pages++;
	store->packed_rows -= page->live;
	store->context.rows.pages[number] = (char *) page->slots;
	if (packed != NULL)
		free_slots(store, (char *) packed);
}

/* Have room for one page more in the directory.  Raises 53200 and 54000. */
static void
grow_directory(RowStore *store)
{
	SiftRows   *rows = &store->context.rows;
	uint32		size = Max(store->directory_size * 2, LEAST_DIRECTORY);
	char	  **pages;

	if (rows->num_pages >= MAX_SLOTS / SIFT_PAGE_SLOTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row store \"%s\" cannot have more rows", store->context.cursor.header.name),
				 errdetail("It has slots for %llu rows.", (unsigned long long) MAX_SLOTS)));
	if (rows->num_pages < store->directory_size)
		return;
	pages = (char **) alloc_slots(store, size * sizeof(char *), DIRECTORY_WORD);
	if (rows->pages != NULL)
	{
		memcpy(pages, rows->pages, rows->num_pages * sizeof(char *));
		free_slots(store, (char *) rows->pages);
	}
	rows->pages = pages;
	store->directory_size = size;
}

/* Pages at the end of the directory that are not there need no entry. */
static void
shrink_directory(RowStore *store)
{
	SiftRows   *rows = &store->context.rows;
	char	   *chunk;

	while (rows->num_pages > 0 && rows->pages[rows->num_pages - 1] == NULL)
		rows->num_pages--;
	if (rows->pages == NULL || rows->num_pages > store->directory_size / 4)
		return;
	/* a block of its own is made shorter without any request */
	chunk = chunk_of_row(rows->pages);
	if (!header_is_large(chunk_header(chunk)))
		return;
	store->slot_bytes -= row_chunk_length((char *) rows->pages);
	store->directory_size = Max(rows->num_pages * 2, LEAST_DIRECTORY);
	chunk = method_realloc(context_realloc, &store->slots->cursor.header, chunk,
						   ROW_OFFSET + store->directory_size * sizeof(char *), 0);
	Assert(row_of_chunk(chunk) == (char *) rows->pages);
	store->slot_bytes += row_chunk_length((char *) rows->pages);
}

/* Bytes that one page more may take, at most. */
static Size
bytes_for_page(const RowStore *store)
{
	Size		bytes = SLOT_BLOCK_LEAST;

	if (store->slots == NULL)
		bytes += HOME_BLOCK_SIZE;
	if (store->context.rows.num_pages == store->directory_size)
		bytes += SLOT_BLOCK_LEAST + store->directory_size * 2 * sizeof(char *);
	return bytes;
}

/* Make a page of which slots are free.  Raises 53200 and 54000. */
static void
add_free_page(RowStore *store)
{
	SiftRows   *rows = &store->context.rows;

	if (store->slots == NULL)
		make_context(store);
	/* rather one that is packed, or gone, than more pages */
	if (store->dense_pages < rows->num_pages)
	{
		uint32		number = store->next_page;

		do
		{
			number = number + 1 < rows->num_pages ? number + 1 : 0;
		} while (rows->pages[number] != NULL && !page_is_packed(rows->pages[number]));
		make_page(store, number);
		store->next_page = number;
		return;
	}
	grow_directory(store);
	rows->pages[rows->num_pages] = NULL;
	make_page(store, rows->num_pages);
	rows->num_pages++;
}

/*
 * row_slots_make_room
 *		Have a free slot.
 *
 * A reclaimer may reset the store, which deletes the context of slots.  So those of
 * extensions are asked before a page is made, and not while it is.
 *
 * Raises 53200 and 54000, and what a reclaimer raises.
 */
void
row_slots_make_room(RowStore *store)
{
	if (store->context.rows.free_page != 0)
		return;
	while (!block_fits(bytes_for_page(store)) &&
		   ledger_make_room(bytes_for_page(store), true, ALL_RECLAIMERS))
		;
	if (store->context.rows.free_page != 0)
		return;
	HOLD_INTERRUPTS();
	add_free_page(store);
	RESUME_INTERRUPTS();
}

/* ----------------------------------------------------------------
 *		Slots
 * ----------------------------------------------------------------
 */

/*
 * row_slots_find
 *		The slot of a row, NULL if it has none.
 */
char **
row_slots_find(RowStore *store, uint64 slot)
{
	uint64		number = slot >> SIFT_PAGE_SHIFT;
	char	   *entry;
	int			i = slot % SIFT_PAGE_SLOTS;

	if (number >= store->context.rows.num_pages)
		return NULL;
	entry = store->context.rows.pages[number];
	if (entry == NULL)
		return NULL;
	if (page_is_packed(entry))
	{
		PackedPage *page = packed_page(entry);

		return packed_has(page, i) ? (char **) &page->rows[packed_rank(page, i)] : NULL;
	}
	return slot_is_free(((uint64 *) entry)[i]) ? NULL : &((char **) entry)[i];
}

/*
 * row_slots_free_packed
 *		row_slots_free() where the page is packed.
 */
void
row_slots_free_packed(RowStore *store, uint64 slot)
{
	uint32		number = slot >> SIFT_PAGE_SHIFT;
	PackedPage *page = packed_page(store->context.rows.pages[number]);
	int			i = slot % SIFT_PAGE_SLOTS;
	int			rank = packed_rank(page, i);
	int			rows = packed_rows(page);

	store->packed_rows--;
	page->bitmap[i / 64] &= ~((uint64) 1 << i % 64);
	memmove(&page->rows[rank], &page->rows[rank + 1], (rows - rank - 1) * sizeof(uint64));
	if (rows == 1)
	{
		store->context.rows.pages[number] = NULL;
		free_slots(store, (char *) page);
	}
}

/*
 * row_slots_next
 *		The first slot from a number on that has a row; false if none has.
 */
bool
row_slots_next(RowStore *store, uint64 *slot)
{
	SiftRows   *rows = &store->context.rows;

	while (*slot >> SIFT_PAGE_SHIFT < rows->num_pages)
	{
		if (rows->pages[*slot >> SIFT_PAGE_SHIFT] == NULL)
		{
			*slot = ((*slot >> SIFT_PAGE_SHIFT) + 1) << SIFT_PAGE_SHIFT;
			continue;
		}
		if (row_slots_find(store, *slot) != NULL)
			return true;
		(*slot)++;
	}
	return false;
}

/* ----------------------------------------------------------------
 *		Compaction
 * ----------------------------------------------------------------
 */

/*
 * row_slots_pack
 *		Pack the pages that are mostly free, if there are many.
 *
 * budget: bytes that may be copied
 */
void
row_slots_pack(RowStore *store, Size *budget)
{
	SiftRows   *rows = &store->context.rows;

	if (rows->rows - store->packed_rows >= (uint64) store->dense_pages * MOST_PACKED)
		return;
	for (uint64 number = 0; number < rows->num_pages; number++)
	{
		SiftSlotPage *page;

		if (rows->pages[number] == NULL || page_is_packed(rows->pages[number]))
			continue;
		page = SiftSlotPageAt(rows->pages[number]);
		if (page->live > MOST_PACKED)
			continue;
		if (page->live == 0)
		{
			rows->pages[number] = NULL;
			free_slots(store, (char *) page);
		}
		else if (!pack(store, number, budget))
			break;
		store->dense_pages--;
	}
	shrink_directory(store);
	chain_pages(store);
}

/*
 * row_slots_repoint
 *		A movable chunk is at another address now, which may be the same.
 *
 * Returns false, with nothing done, when the store does not know it.
 */
bool
row_slots_repoint(RowStore *store, char *address, char *moved)
{
	SiftRows   *rows = &store->context.rows;
	const RowHeader *header = ROW_HEADER(address);
	uint64		number = header->word >> WORD_SLOT_SHIFT;

	if (header->number != 0)
	{
		char	  **slot = row_slots_find(store, row_slot(address));

		if (slot == NULL || *slot != address)
			return false;
		*slot = moved;
	}
	else if (header->word == DIRECTORY_WORD)
	{
		if ((char *) rows->pages != address)
			return false;
		rows->pages = (char **) moved;
	}
	else if (number < rows->num_pages && rows->pages[number] != NULL)
	{
		char	   *entry = rows->pages[number];
		Size		offset = page_is_packed(entry) ? 1 : offsetof(SiftSlotPage, slots);

		if (entry != address + offset)
			return false;
		rows->pages[number] = moved + offset;
	}
	else
		return false;
	return true;
}

/* Have the slot of a row in the processor's cache soon. */
void
row_slots_prefetch(RowStore *store, const char *address)
{
	uint64		slot = row_slot(address);
	char	   *entry;

	if (ROW_HEADER(address)->number == 0 || slot >> SIFT_PAGE_SHIFT >= store->context.rows.num_pages)
		return;
	entry = store->context.rows.pages[slot >> SIFT_PAGE_SHIFT];
	if (entry != NULL)
		__builtin_prefetch(page_is_packed(entry) ? entry : entry + slot % SIFT_PAGE_SLOTS * sizeof(uint64));
}
