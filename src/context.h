/*-------------------------------------------------------------------------
 *
 * context.h
 *	  What row and batch contexts have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_CONTEXT_H
#define SIFT_CONTEXT_H

#include "block.h"

typedef enum SiftContextType
{
	ROW_CONTEXT,
	ROW_STORE,					/* a row context whose rows can move */
	BATCH_CONTEXT,				/* chunks with headers */
	BARE_BATCH_CONTEXT
} SiftContextType;

typedef struct SiftContext
{
	SiftCursor	cursor;			/* header, where to carve, tag of the block */
	SiftRows	rows;			/* of a row store */
	SiftContextType type;
	uint32		own_size;		/* bytes of this struct and what is behind it */
	bool		home_fresh;		/* nothing was carved from the home block since
								 * create or reset */
	SiftBlock  *current;		/* block being carved, or NULL */
	char	   *run_start;		/* where in it carving began, and where it ends: */
	char	   *run_end;		/* the block's end, or a live chunk */
	dlist_head	blocks;			/* all blocks; the home block is the last */
	dlist_node *hand;			/* block that is looked at next for dead chunks;
								 * NULL: the first one */
	int			looks;			/* how many are looked at then */
	SiftBlock  *reserve;		/* empty, for chunks that are moved; or NULL */
	Size		first_size;		/* of the first block, after the home block */
	Size		max_size;		/* of a block */
	Size		next_size;		/* of the next block */
	Size		large_from;		/* chunks this long get a block of their own */
	dlist_node	node;			/* in sift_contexts */
} SiftContext;

/* Size of the block that a context itself lies in. */
#define HOME_BLOCK_SIZE			((Size) 1024)

/*
 * Live bytes in the block table.  While a block of a row context is carved,
 * and always in a batch context, LIVE_BIAS is added and carving changes
 * nothing: the entry is LIVE_BIAS and what was live when carving began, less
 * what was freed since, so that it cannot fall to zero.  When a row block is
 * closed its entry becomes its live bytes; the home block keeps HOME_PIN more,
 * since it cannot be given back.
 */
#define LIVE_BIAS				((uint32) 1 << 30)
#define HOME_PIN				((uint32) 8)

/* All Sift contexts of this process, the newest first. */
extern dlist_head sift_contexts;

/* ----------------------------------------------------------------
 *		Blocks of a context
 * ----------------------------------------------------------------
 */

static inline SiftBlock *
home_block(SiftContext *context)
{
	return (SiftBlock *) ((char *) context - BLOCK_HEADER_SIZE);
}

/* Whether chunks are not given back one by one. */
static inline bool
is_batch(SiftContextType type)
{
	return type >= BATCH_CONTEXT;
}

/* Where the first chunk of a block begins. */
static inline char *
block_start(SiftContext *context, SiftBlock *block)
{
	return (char *) block + BLOCK_HEADER_SIZE +
		(block == home_block(context) ? MAXALIGN(context->own_size) : 0);
}

static inline char *
block_end(SiftBlock *block)
{
	return (char *) block + block->size;
}

/*
 * Where the last chunk of a block ends.  (Before that there may be a run that
 * is being carved, see chunk_from().)
 */
static inline char *
block_carved(SiftContext *context, SiftBlock *block)
{
	return block == context->current && context->run_end == block_end(block) ?
		context->cursor.next : block->carved;
}

/* Whether the block's chunks have headers. */
static inline bool
has_headers(SiftContext *context)
{
#ifdef MEMORY_CONTEXT_CHECKING
	return true;				/* so that misuse of a bare batch is found */
#else
	return context->type != BARE_BATCH_CONTEXT;
#endif
}

extern Size block_live(SiftContext *context, SiftBlock *block);

/* ----------------------------------------------------------------
 *		What contexts do
 * ----------------------------------------------------------------
 */

/* What a context holds, for views and statistics.  Bytes. */
typedef struct ContextUsage
{
	Size		blocks;
	Size		total;			/* used + free + dead */
	Size		used;			/* live chunks and all headers */
	Size		free;			/* not carved yet */
	Size		dead;			/* freed, not yet to be used again */
} ContextUsage;

extern MemoryContext context_create(MemoryContext parent, const char *name,
									SiftContextType type,
									const MemoryContextMethods *methods, Size own_size,
									Size first_size, Size max_size);

/* for the alloc methods */
extern void *context_alloc_slow(MemoryContext context, Size size, int flags);
extern void *context_alloc_large(SiftContext *context, Size size, int flags);

/* for chunks that are moved */
extern void context_keep_reserve(SiftContext *context);
extern void context_drop_reserve(SiftContext *context);
extern void context_hold_block(SiftBlock *block);
extern void context_unhold_block(SiftContext *context, SiftBlock *block, bool may_reserve);
extern void context_close_sparse(SiftContext *context);
extern Size context_dense_room(SiftContext *context);
extern void *context_alloc_dense(SiftContext *context, Size size);

/*
 * context_alloc
 *		Alloc of a chunk with a header: move the cursor and write the header;
 *		all else is out of line.
 *
 * size may be anything at all, also -1, for which the length wraps around;
 * flags are the caller's.  From one call to the next the cursor is all that is
 * waited for, so one addition is all that is done to it.
 */
static pg_attribute_always_inline void *
context_alloc(MemoryContext context, Size size, int flags)
{
#if !SIFT_CHECKED_BUILD
	SiftCursor *cursor = (SiftCursor *) context;
	char	   *at = cursor->next;
	Size		length = CHUNK_LENGTH(size);

	if (likely(length > size && length <= (Size) (cursor->end - at)))
	{
		cursor->next = at + length;
		return chunk_make(at, context, cursor->tag, length, size, size);
	}
#endif
	return context_alloc_slow(context, size, flags);
}

/* for the inline functions */
extern void context_block_empty(uint32 number);

extern void context_check_free(void *pointer);

/*
 * context_free_inline
 *		Free a chunk that has a header.
 *
 * Only the entry of a row block that is not being carved can fall to zero.
 */
static inline void
context_free_inline(void *pointer)
{
	uint64		header = chunk_header(pointer);
	SiftBlockEntry *entry = &block_table[SiftHeaderBlock(header)];

#if SIFT_CHECKED_BUILD
	context_check_free(pointer);
#endif
	/* what follows it is freed next, often */
	__builtin_prefetch((char *) SiftChunkHeader(pointer) + SiftHeaderLength(header), 1);
	chunk_set_header(pointer, SiftHeaderKill(header));
	entry->live -= SiftHeaderLength(header);
	if (unlikely((int32) entry->live <= 0))
		context_block_empty(SiftHeaderBlock(header));
}

/* methods that both types share */
extern METHOD_FREE(context_free);
extern METHOD_REALLOC(context_realloc);
extern METHOD_CHUNK_SPACE(context_chunk_space);
extern MemoryContext context_of_chunk(void *pointer);
extern void context_reset(MemoryContext context);
extern void context_delete(MemoryContext context);
extern bool context_is_empty(MemoryContext context);
extern void context_stats(MemoryContext context, MemoryStatsPrintFunc printfunc,
						  void *passthru, MemoryContextCounters *totals,
						  bool print_to_stderr);
#ifdef MEMORY_CONTEXT_CHECKING
extern void context_check(MemoryContext context);
#endif

#ifdef MEMORY_CONTEXT_CHECKING
#define CONTEXT_CHECK_METHOD	.check = context_check,
#else
#define CONTEXT_CHECK_METHOD
#endif

#if PG_VERSION_NUM >= 160000
#define CONTEXT_OF_CHUNK_METHOD	.get_chunk_context = context_of_chunk,
#else
#define CONTEXT_OF_CHUNK_METHOD
#endif

/* All methods but alloc, reset and delete_context. */
#define CHUNK_AND_USAGE_METHODS \
	.free_p = context_free, \
	.realloc = context_realloc, \
	CONTEXT_OF_CHUNK_METHOD \
	.get_chunk_space = context_chunk_space, \
	.is_empty = context_is_empty, \
	CONTEXT_CHECK_METHOD \
	.stats = context_stats

/* All methods but alloc. */
#define SHARED_METHODS \
	CHUNK_AND_USAGE_METHODS, \
	.reset = context_reset, \
	.delete_context = context_delete

/* for views and trim */
extern void context_usage(SiftContext *context, ContextUsage *usage);
extern int64 context_count_chunks(SiftContext *context);
extern Size context_trim_all(void);

#endif							/* SIFT_CONTEXT_H */
