/*-------------------------------------------------------------------------
 *
 * sift.h
 *	  Accounted memory contexts for authors of PostgreSQL extensions.
 *
 * This is the only header that Sift installs.  An extension includes it as
 *
 *		#include "extension/sift/sift.h"
 *
 * after postgres.h, and does not link against Sift: the library is found by
 * load_external_function() when the first call is made, and the first call
 * raises an error when it is missing or of another layout.
 *
 * Words.  A chunk is what one palloc returns.  A block is what is taken from
 * the operating system and charged to the session; chunks are carved from it
 * by moving a cursor.  A row context gives a block back when its last chunk
 * is freed; a batch context gives all blocks back at once.  Sizes are in
 * bytes everywhere.
 *
 * What every call may raise:
 *	53200	out of memory: sift.memory_limit, sift.max_memory_limit or
 *			sift.total_memory_limit would be passed, or the operating system has
 *			no memory
 *	58P01	the library is not installed (first call of a session)
 *	55000	the library is of another version than this header (likewise)
 *
 * Both kinds of contexts are PostgreSQL's MemoryContexts.  Their memory
 * belongs to the context, the context belongs to its parent and goes with it;
 * palloc, pfree, repalloc, MemoryContextReset, MemoryContextDelete and so on
 * work as in any other context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_H
#define SIFT_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"

/*
 * Kinds of memory, as the column "kind" of the view sift_memory_usage.
 */
typedef enum SiftKind
{
	SIFT_ROW,					/* blocks of row contexts */
	SIFT_BATCH,					/* blocks of batch contexts */
	SIFT_LARGE,					/* blocks of their own for large chunks */
	SIFT_IDLE,					/* empty blocks kept for reuse */
	SIFT_SERVER,				/* what the server program takes by malloc */
	SIFT_SHARED					/* dynamic shared memory of the session, in its
								 * leader's account */
} SiftKind;

#define SIFT_NUM_KINDS			(SIFT_SHARED + 1)

/* What one kind holds, and what became of it since the backend started. */
typedef struct SiftKindUsage
{
	int64		bytes;			/* held now */
	int64		peak_bytes;		/* most held, since start or sift_reset_peak() */
	int64		blocks_taken;	/* blocks ever taken */
	int64		blocks_returned;	/* blocks ever given back */
	int64		refusals;		/* requests turned down */
} SiftKindUsage;

/* The account of a backend. */
typedef struct SiftUsageData
{
	int64		limit_bytes;	/* the limit in effect; -1 without one */
	int64		charged_bytes;	/* held, all kinds */
	int64		peak_bytes;		/* most held */
	int64		waived_bytes;	/* let through over the limit, ever */
	int64		free_heap_bytes;	/* kept free by the C library; -1 if not known */
	SiftKindUsage kinds[SIFT_NUM_KINDS];
} SiftUsageData;

/*
 * A reclaimer: is asked for "wanted" bytes before a request is refused, gives
 * back what it can spare and returns the bytes given back (0 for none; Sift
 * goes by its own count).  It may free chunks, and reset or delete contexts,
 * but for the context that is being allocated in, which it may reset, a chunk
 * that is being resized, and the parent of a context that is being created.
 * It may not raise, and may not count on getting memory from Sift.  It runs
 * inside palloc, wherever that is called.
 */
typedef Size (*SiftReclaimer) (Size wanted, void *arg);

/*
 * Block sizes: of the first block and of the largest, powers of two from 1 kB
 * to 64 MB.  Blocks grow with the context; a chunk that is large for them
 * gets a block of its own, rounded up to whole pages.
 */
#define SIFT_ROW_DEFAULT_SIZES		((Size) 1024), ((Size) 256 * 1024)
#define SIFT_BATCH_DEFAULT_SIZES	((Size) 8 * 1024), ((Size) 2 * 1024 * 1024)

/*
 * Flag for SiftBatchContextCreate: chunks have no header.  The densest and
 * fastest form, as PostgreSQL's Bump.  pfree, repalloc, palloc_aligned,
 * GetMemoryChunkContext and GetMemoryChunkSpace must not be used on its
 * chunks: an error in an assert-enabled build, undefined otherwise.
 */
#define SIFT_BATCH_BARE				0x01

/*
 * What the inline functions below rely on.  A change of any of it changes
 * SIFT_LAYOUT, and a library of another layout is refused at the first call.
 */
#if defined(USE_VALGRIND) || defined(MEMORY_CONTEXT_CHECKING)
#define SIFT_CHECKED_BUILD		1
#else
#define SIFT_CHECKED_BUILD		0
#endif
#define SIFT_LAYOUT				(0x200 + SIFT_CHECKED_BUILD)

/* How every Sift context begins. */
typedef struct SiftCursor
{
	MemoryContextData header;
	char	   *next;			/* where the next chunk goes; NULL: no block yet */
	char	   *end;			/* end of the block being carved */
	uint64		tag;			/* a chunk's header but for its length; 0 in a
								 * bare batch */
} SiftCursor;

/*
 * What follows in a row store.  A page has one slot a row, which holds the row's
 * address; an odd one is free, and tells the next that is.  A pointer to a page
 * that is odd is the library's.
 */
typedef struct SiftRows
{
	char	  **pages;			/* to their slots; NULL: no row has one of them */
	uint64		num_pages;
	uint64		rows;
	Size		live;			/* bytes of the rows' chunks */
	Size		least_live;		/* when there are less it is compacted */
	uint32		free_page;		/* number + 1 of the first page with free slots */
} SiftRows;

typedef struct SiftStoreHead
{
	SiftCursor	cursor;
	SiftRows	rows;
} SiftStoreHead;

#define SIFT_PAGE_SHIFT			8	/* slots a page, as a power of two */
#define SIFT_PAGE_SLOTS			(1 << SIFT_PAGE_SHIFT)

typedef struct SiftSlotPage
{
	uint16		live;
	uint16		free_slot;		/* first that is free, or SIFT_PAGE_SLOTS */
	uint32		next;			/* number + 1 of the next page with free slots */
	uint64		slots[SIFT_PAGE_SLOTS];
} SiftSlotPage;

#define SiftSlotPageAt(page)	((SiftSlotPage *) ((page) - offsetof(SiftSlotPage, slots)))
#define SiftFreeSlot(next)		(((uint64) (next) << 1) | 1)

/*
 * The id of a row: bits 33-63 are the number of its slot; the others are the low
 * bits of a number that no other row of the process has had, an odd one, so that 0
 * is no id.  (Numbers have 64 bits: an id may come again after 4 billion rows, if
 * that one gets the same slot.)
 */
#define SIFT_ID_SLOT_SHIFT		33
#define SIFT_ID_NUMBER_MASK		(((uint64) 1 << SIFT_ID_SLOT_SHIFT) - 1)
#define SiftRowId(slot, number) \
	((uint64) (slot) << SIFT_ID_SLOT_SHIFT | ((number) & SIFT_ID_NUMBER_MASK))

/*
 * Before a row are its chunk's header, its number (on 15 in place of the chunk's
 * context) and a word:
 *
 *	bits 0-3	0, so that from 16 on pfree finds out that it is no chunk
 *	4-34		number of its slot
 *	35-51		bytes at the end that were not asked for
 *	52-63		subtransactions that have it pinned
 */
#define SIFT_ROW_HEADER_SIZE	((Size) 24)
#define SIFT_WORD_SLOT_SHIFT	4
#define SIFT_WORD_SLACK_SHIFT	35
#define SIFT_WORD_PINS_SHIFT	52
#define SiftRowNumber(row)		(((uint64 *) (row))[-2])
#define SiftRowWord(row)		(((uint64 *) (row))[-1])

/* Rows up to this size are made inline; larger ones may have a block of their own. */
#define SIFT_ROW_INLINE_SIZE	((Size) 4096)

/* The row of an id, NULL if the library must look for it. */
static inline char *
SiftRowFind(const SiftRows *rows, uint64 id)
{
	uint64		slot = id >> SIFT_ID_SLOT_SHIFT;

	if (likely(slot >> SIFT_PAGE_SHIFT < rows->num_pages))
	{
		char	   *page = rows->pages[slot >> SIFT_PAGE_SHIFT];

		if (likely(((uintptr_t) page & 1) == 0 && page != NULL))
		{
			char	   *row = ((char **) page)[slot % SIFT_PAGE_SLOTS];

			if (likely(((uintptr_t) row & 1) == 0 &&
					   ((SiftRowNumber(row) ^ id) & SIFT_ID_NUMBER_MASK) == 0))
				return row;
		}
	}
	return NULL;
}

/* A walk through the rows of a store; zero before it begins. */
typedef struct SiftRowWalk
{
	uint64		next_slot;
	uint64		before;			/* rows of this number and higher are newer */
} SiftRowWalk;

/* One entry a block, in a table indexed by block number. */
typedef struct SiftBlockEntry
{
	uint32		live;			/* live bytes, biased while it is carved */
	uint32		unit;			/* private to Sift */
} SiftBlockEntry;

/*
 * Chunk header: the 8 bytes before the chunk (15: the 8 bytes before its
 * context's address).  "Length" is that of header and chunk, a multiple of 8
 * below 4 GB; its three low bits are marks.
 *
 *	16 and later	bits 0-3 method number, 4-35 length, 36-63 block number
 *	15				bits 0-31 length, 32-63 block number
 *
 * A dead chunk is marked: by method number 0, which the server refuses to
 * free again, or by SIFT_MARK_DEAD on 15.
 */
#define SIFT_MARK_LARGE			0x01	/* alone in a large block */
#define SIFT_MARK_DEAD			0x02

#if PG_VERSION_NUM >= 160000
#define SIFT_CHUNK_HEADER_SIZE	((Size) 8)
#define SIFT_HEADER_OFFSET		((Size) 8)
#define SiftHeaderMake(tag, length)	((tag) | ((uint64) (length) << 4))
#define SiftHeaderBlock(header)	((uint32) ((header) >> 36))
#define SiftHeaderLength(header) ((uint32) ((header) >> 4))
#define SiftHeaderKill(header)	((header) & ~(uint64) 0x0F)
#else
#define SIFT_CHUNK_HEADER_SIZE	((Size) 16)
#define SIFT_HEADER_OFFSET		((Size) 16)
#define SiftHeaderMake(tag, length)	((tag) | (uint64) (length))
#define SiftHeaderBlock(header)	((uint32) ((header) >> 32))
#define SiftHeaderLength(header) ((uint32) (header))
#define SiftHeaderKill(header)	((header) | SIFT_MARK_DEAD)
#endif

/* The header word of a chunk. */
#define SiftChunkHeader(chunk)	((uint64 *) ((char *) (chunk) - SIFT_HEADER_OFFSET))

/*
 * The library as its clients see it.  Entries are only ever added at the end.
 */
typedef struct SiftApi
{
	uint32		size;			/* sizeof(SiftApi) in the library */
	uint32		layout;			/* SIFT_LAYOUT in the library */
	SiftBlockEntry *blocks;		/* set when the first context is created */
	MemoryContext (*row_context_create) (MemoryContext parent, const char *name,
										 Size initBlockSize, Size maxBlockSize);
	MemoryContext (*batch_context_create) (MemoryContext parent, const char *name,
										   int flags, Size initBlockSize,
										   Size maxBlockSize);
	MinimalTuple (*row_form_tuple) (MemoryContext row, TupleDesc desc,
									const Datum *values, const bool *isnull);
	void		(*row_block_empty) (uint32 block);
	void		(*register_reclaimer) (const char *name, int cost,
									   SiftReclaimer callback, void *arg);
	void		(*usage) (SiftUsageData *usage);

	/*
	 * For tests, superusers only (42501 otherwise): refuse the n-th charge
	 * from now on, once; 0 for none.
	 */
	void		(*test_refuse_charge) (int64 n);

	uint64	   *row_number;		/* of the next row */
	void		(*row_store_dead) (MemoryContext store);
	MemoryContext (*row_store_create) (MemoryContext parent, const char *name);
	uint64		(*row_put) (MemoryContext store, Size size, void **address);
	void	   *(*row_get) (MemoryContext store, uint64 id);
	Size		(*row_size) (MemoryContext store, uint64 id);
	void	   *(*row_replace) (MemoryContext store, uint64 id, Size size);
	void		(*row_remove) (MemoryContext store, uint64 id);
	void	   *(*row_pin) (MemoryContext store, uint64 id);
	void		(*row_unpin) (MemoryContext store, uint64 id);
	bool		(*row_next) (MemoryContext store, SiftRowWalk *walk,
							 uint64 *id, void **address);
	uint64		(*row_put_tuple) (MemoryContext store, TupleTableSlot *slot);
	void		(*row_get_tuple) (MemoryContext store, uint64 id, TupleTableSlot *slot);
	Size		(*row_store_compact) (MemoryContext store, Size budget);
} SiftApi;

/*
 * SiftGetApi
 *		The library's functions; loads the library when needed.
 *
 * Raises 58P01 when the library is not there, 55000 when it is older than
 * this header or lays memory out differently.  Life time: the process.
 */
static inline const SiftApi *
SiftGetApi(void)
{
	static const SiftApi *api = NULL;

	if (unlikely(api == NULL))
	{
		const SiftApi *(*find) (void) = (const SiftApi *(*) (void))
			load_external_function("$libdir/sift", "sift_api", true, NULL);
		const SiftApi *found = find();

		if (found->size < sizeof(SiftApi) || found->layout != SIFT_LAYOUT)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the library \"sift\" does not fit this extension"),
					 errdetail("The extension was built for size %zu and layout %u, the library has size %u and layout %u.",
							   sizeof(SiftApi), (unsigned) SIFT_LAYOUT,
							   (unsigned) found->size, (unsigned) found->layout),
					 errhint("Build the extension again with the installed \"sift.h\", and reconnect.")));
		api = found;
	}
	return api;
}

/*
 * SiftRowContextCreate
 *		Create a context whose chunks are freed one by one.
 *
 * parent: owner of the context; NULL for none
 * name: a constant string (MemoryContextSetIdentifier for more)
 * initBlockSize, maxBlockSize: SIFT_ROW_DEFAULT_SIZES, unless there is reason
 *
 * Costs 1 kB until something is allocated.  A block whose chunks are all
 * freed is given back; one live chunk holds its whole block.  Also raises
 * 22023 for a block size that is not allowed, 55000 in the postmaster, and
 * 0A000 where this server has no place for the context types (said in the
 * log at load).
 */
static inline MemoryContext
SiftRowContextCreate(MemoryContext parent, const char *name,
					 Size initBlockSize, Size maxBlockSize)
{
	return SiftGetApi()->row_context_create(parent, name,
											initBlockSize, maxBlockSize);
}

/*
 * SiftBatchContextCreate
 *		Create a context whose memory goes back all at once, on reset or
 *		delete.
 *
 * parent, name, sizes: as in SiftRowContextCreate (SIFT_BATCH_DEFAULT_SIZES)
 * flags: 0 or SIFT_BATCH_BARE
 *
 * pfree is allowed (not in a bare batch) and gives nothing back before the
 * reset.  Raises what SiftRowContextCreate raises.
 */
static inline MemoryContext
SiftBatchContextCreate(MemoryContext parent, const char *name, int flags,
					   Size initBlockSize, Size maxBlockSize)
{
	return SiftGetApi()->batch_context_create(parent, name, flags,
											  initBlockSize, maxBlockSize);
}

/*
 * SiftBatchAlloc
 *		palloc in a batch context, inline.
 *
 * batch: from SiftBatchContextCreate, bare or not, and nothing else
 * size: bytes, up to MaxAllocSize
 *
 * The chunk belongs to the context and lives until its reset.  Raises what
 * palloc raises.
 */
static inline void *
SiftBatchAlloc(MemoryContext batch, Size size)
{
#if !SIFT_CHECKED_BUILD
	SiftCursor *cursor = (SiftCursor *) batch;
	char	   *at = cursor->next;

	if (likely(size <= MaxAllocSize))
	{
		Size		length = MAXALIGN(size);

		if (cursor->tag == 0)
		{
			/* length 0 goes the slow way, which makes it a chunk of its own */
			if (likely(length - 1 < (Size) (cursor->end - at)))
			{
				cursor->next = at + length;
				return at;
			}
		}
		else
		{
			length += SIFT_CHUNK_HEADER_SIZE;
			if (likely(length <= (Size) (cursor->end - at)))
			{
				*(uint64 *) at = SiftHeaderMake(cursor->tag, length);
#if PG_VERSION_NUM < 160000
				((MemoryContext *) at)[1] = batch;
#endif
				cursor->next = at + length;
				return at + SIFT_CHUNK_HEADER_SIZE;
			}
		}
	}
#endif
	return MemoryContextAlloc(batch, size);
}

/*
 * SiftRowAlloc
 *		palloc in a row context, inline.
 *
 * row: from SiftRowContextCreate, and nothing else
 * size: bytes, up to MaxAllocSize
 *
 * The chunk belongs to the context and lives until it is freed, by
 * SiftRowFree or pfree, or the context is reset.  Raises what palloc raises.
 */
static inline void *
SiftRowAlloc(MemoryContext row, Size size)
{
#if !SIFT_CHECKED_BUILD
	SiftCursor *cursor = (SiftCursor *) row;
	char	   *at = cursor->next;
	Size		length = MAXALIGN(size) + SIFT_CHUNK_HEADER_SIZE;

	if (likely(size <= MaxAllocSize && length <= (Size) (cursor->end - at)))
	{
		*(uint64 *) at = SiftHeaderMake(cursor->tag, length);
#if PG_VERSION_NUM < 160000
		((MemoryContext *) at)[1] = row;
#endif
		cursor->next = at + length;
		return at + SIFT_CHUNK_HEADER_SIZE;
	}
#endif
	return MemoryContextAlloc(row, size);
}

/*
 * SiftRowFree
 *		pfree of a chunk of a row context, inline.
 *
 * chunk: from SiftRowAlloc, or from palloc, repalloc and the like in a row
 * context; not from palloc_aligned.  Raises nothing.
 */
static inline void
SiftRowFree(void *chunk)
{
#if !SIFT_CHECKED_BUILD
	const SiftApi *api = SiftGetApi();
	uint64		header = *SiftChunkHeader(chunk);
	SiftBlockEntry *entry = &api->blocks[SiftHeaderBlock(header)];

	/* what follows it is freed next, often */
	__builtin_prefetch((char *) SiftChunkHeader(chunk) + SiftHeaderLength(header), 1);
	*SiftChunkHeader(chunk) = SiftHeaderKill(header);
	entry->live -= SiftHeaderLength(header);
	if (unlikely((int32) entry->live <= 0))
		api->row_block_empty(SiftHeaderBlock(header));
#else
	pfree(chunk);
#endif
}

/*
 * SiftRowFormTuple
 *		Form a row as one chunk of a row context, long values included.
 *
 * row: context that gets the row
 * desc, values, isnull: as for heap_form_minimal_tuple()
 *
 * Values that are stored out of line or compressed are fetched and
 * decompressed, expanded values are flattened: the row refers to nothing
 * outside itself.  It belongs to the context; free it with SiftRowFree or
 * pfree.  Also raises what fetching a value and heap_form_minimal_tuple()
 * raise; nothing is left in the context then.
 */
static inline MinimalTuple
SiftRowFormTuple(MemoryContext row, TupleDesc desc,
				 const Datum *values, const bool *isnull)
{
	return SiftGetApi()->row_form_tuple(row, desc, values, isnull);
}

/*
 * Row stores: rows that can move.
 *
 * A chunk never moves, so one that is live holds its block.  A row of a store has
 * an id instead, and the store moves the live rows together when too much of it
 * is dead: within SiftRowPut, SiftRowReplace, SiftRowRemove, SiftRowStoreCompact
 * and the SQL function sift_compact(), and nowhere else.  So an address is valid
 * until the next of these calls for that store, or as long as the row is pinned.
 *
 * An id is valid until its row is removed, or the store is reset or deleted.
 * What is given another id raises 42704; what is given another of Sift's contexts
 * raises 22023.  Other contexts must not be given.
 */

/*
 * SiftRowStoreCreate
 *		Create a row store.
 *
 * parent, name: as in SiftRowContextCreate, whose errors it raises
 *
 * The store is a memory context: it belongs to its parent; MemoryContextReset
 * removes all rows, MemoryContextDelete the store.  Costs 1 kB without rows.
 * palloc works in it, for what belongs to the store, and takes whole pages.  A
 * row's address is no chunk: neither pfree nor repalloc may be given it.
 */
static inline MemoryContext
SiftRowStoreCreate(MemoryContext parent, const char *name)
{
	return SiftGetApi()->row_store_create(parent, name);
}

/*
 * SiftRowPut
 *		Put a row into a store; the caller fills it.
 *
 * size: bytes, up to 1 GB less 64
 * address: of the row, aligned as a chunk
 *
 * Returns its id, never 0.  Also raises 54000 for more than 2,147,483,648 rows.
 */
static inline uint64
SiftRowPut(MemoryContext store, Size size, void **address)
{
	const SiftApi *api = SiftGetApi();

#if !SIFT_CHECKED_BUILD
	SiftCursor *cursor = (SiftCursor *) store;
	SiftRows   *rows = &((SiftStoreHead *) store)->rows;
	char	   *at = cursor->next;
	Size		length = MAXALIGN(size) + SIFT_ROW_HEADER_SIZE;

	if (likely(size <= SIFT_ROW_INLINE_SIZE && rows->free_page != 0 &&
			   length <= (Size) (cursor->end - at)))
	{
		SiftSlotPage *page = SiftSlotPageAt(rows->pages[rows->free_page - 1]);
		uint64		number = *api->row_number;
		uint64		slot = ((uint64) (rows->free_page - 1) << SIFT_PAGE_SHIFT) + page->free_slot;
		uint64	   *place = &page->slots[page->free_slot];
		char	   *row = at + SIFT_ROW_HEADER_SIZE;

		*api->row_number = number + 2;
		cursor->next = at + length;
		*(uint64 *) at = SiftHeaderMake(cursor->tag, length);
		SiftRowNumber(row) = number;
		SiftRowWord(row) = slot << SIFT_WORD_SLOT_SHIFT |
			(uint64) (MAXALIGN(size) - size) << SIFT_WORD_SLACK_SHIFT;
		page->free_slot = *place >> 1;
		*place = (uint64) (uintptr_t) row;
		page->live++;
		if (unlikely(page->free_slot == SIFT_PAGE_SLOTS))
			rows->free_page = page->next;
		rows->rows++;
		rows->live += length;
		*address = row;
		return SiftRowId(slot, number);
	}
#endif
	return api->row_put(store, size, address);
}

/*
 * SiftRowGet
 *		The address of a row.
 */
static inline void *
SiftRowGet(MemoryContext store, uint64 id)
{
	char	   *row = SiftRowFind(&((const SiftStoreHead *) store)->rows, id);

	return likely(row != NULL) ? row : SiftGetApi()->row_get(store, id);
}

/*
 * SiftRowSize
 *		The size of a row, as it was asked for; bytes.
 */
static inline Size
SiftRowSize(MemoryContext store, uint64 id)
{
	return SiftGetApi()->row_size(store, id);
}

/*
 * SiftRowReplace
 *		Give a row another content, of that size; the caller fills it.
 *
 * address: of the row, which keeps its id
 *
 * What it was is gone, unless this raises an error.  Also raises 55006 when the
 * row is pinned, and 42704 when a reclaimer has removed it meanwhile.
 */
static inline void
SiftRowReplace(MemoryContext store, uint64 id, Size size, void **address)
{
	*address = SiftGetApi()->row_replace(store, id, size);
}

/*
 * SiftRowRemove
 *		Remove a row.  Also raises 55006 when it is pinned.
 */
static inline void
SiftRowRemove(MemoryContext store, uint64 id)
{
	const SiftApi *api = SiftGetApi();

#if !SIFT_CHECKED_BUILD
	SiftRows   *rows = &((SiftStoreHead *) store)->rows;
	char	   *row = SiftRowFind(rows, id);

	if (likely(row != NULL && SiftRowWord(row) >> SIFT_WORD_PINS_SHIFT == 0))
	{
		uint64	   *header = (uint64 *) (row - SIFT_ROW_HEADER_SIZE);
		uint32		length = SiftHeaderLength(*header);
		SiftBlockEntry *entry = &api->blocks[SiftHeaderBlock(*header)];
		uint64		slot = id >> SIFT_ID_SLOT_SHIFT;
		SiftSlotPage *page = SiftSlotPageAt(rows->pages[slot >> SIFT_PAGE_SHIFT]);

		if (likely((length & SIFT_MARK_LARGE) == 0))
		{
			if (unlikely(page->free_slot == SIFT_PAGE_SLOTS))
			{
				page->next = rows->free_page;
				rows->free_page = (slot >> SIFT_PAGE_SHIFT) + 1;
			}
			page->slots[slot % SIFT_PAGE_SLOTS] = SiftFreeSlot(page->free_slot);
			page->free_slot = slot % SIFT_PAGE_SLOTS;
			page->live--;
			rows->rows--;
			rows->live -= length;
			*header = SiftHeaderKill(*header);
			entry->live -= length;
			if (unlikely((int32) entry->live <= 0))
				api->row_block_empty(SiftHeaderBlock(*header));
			if (unlikely(rows->live < rows->least_live))
				api->row_store_dead(store);
			return;
		}
	}
#endif
	api->row_remove(store, id);
}

/*
 * SiftRowPin
 *		Have a row stay where it is; returns its address.
 *
 * The pin ends with SiftRowUnpin, or with the (sub)transaction that took it,
 * however that ends.  A row may be pinned several times.  Pinned rows hold their
 * blocks, so pin few and not for long.  Also raises 25P01 outside a transaction.
 */
static inline void *
SiftRowPin(MemoryContext store, uint64 id)
{
	return SiftGetApi()->row_pin(store, id);
}

/*
 * SiftRowUnpin
 *		End one pin of a row, the one that was taken last.  Raises 55000 when it
 *		has none.
 */
static inline void
SiftRowUnpin(MemoryContext store, uint64 id)
{
	SiftGetApi()->row_unpin(store, id);
}

/*
 * SiftRowNext
 *		The next row of a walk; false when there is none.
 *
 * walk: the caller's, zero before the first call
 *
 * The order is that of the ids.  Walks over the rows that were there at the first
 * call: a row that was removed since is left out, one that was replaced comes as
 * it is now.  The caller may put, replace and remove rows between calls.
 */
static inline bool
SiftRowNext(MemoryContext store, SiftRowWalk *walk, uint64 *id, void **address)
{
	return SiftGetApi()->row_next(store, walk, id, address);
}

/*
 * SiftRowPutTuple
 *		Put what a slot holds into a store, as a MinimalTuple.
 *
 * Long values are part of it, as in SiftRowFormTuple.  Returns the row's id.
 */
static inline uint64
SiftRowPutTuple(MemoryContext store, TupleTableSlot *slot)
{
	return SiftGetApi()->row_put_tuple(store, slot);
}

/*
 * SiftRowGetTuple
 *		Have a slot show a row, where it lies.
 *
 * slot: of TTSOpsMinimalTuple, with the row's descriptor
 *
 * The slot shows it as long as its address is valid.
 */
static inline void
SiftRowGetTuple(MemoryContext store, uint64 id, TupleTableSlot *slot)
{
	SiftGetApi()->row_get_tuple(store, id, slot);
}

/*
 * SiftRowStoreCompact
 *		Move live rows together and give back what gets free.
 *
 * budget: bytes that may be copied, at most
 *
 * Takes the emptiest blocks first, until little is dead or the budget is used.
 * Returns the bytes by which the store got smaller.  Raises nothing for want of
 * memory.
 */
static inline Size
SiftRowStoreCompact(MemoryContext store, Size budget)
{
	return SiftGetApi()->row_store_compact(store, budget);
}

/*
 * SiftRegisterReclaimer
 *		Have a callback called before a request is refused.
 *
 * name: a constant string
 * cost: 1 or more; callbacks of lower cost are called first, Sift's own idle
 *		blocks before all of them
 * callback, arg: see SiftReclaimer
 *
 * Lasts as long as the process.  Also raises 22023 for a cost below 1.
 */
static inline void
SiftRegisterReclaimer(const char *name, int cost,
					  SiftReclaimer callback, void *arg)
{
	SiftGetApi()->register_reclaimer(name, cost, callback, arg);
}

/*
 * SiftUsage
 *		What this backend holds, by kind, in bytes.
 *
 * usage: filled in; belongs to the caller.
 */
static inline void
SiftUsage(SiftUsageData *usage)
{
	SiftGetApi()->usage(usage);
}

#endif							/* SIFT_H */
