/*-------------------------------------------------------------------------
 *
 * context.c
 *	  What row and batch contexts have in common: everything but the fast
 *	  path of alloc, and figures.
 *
 * A context lies in a block of its own of 1 kB, its home block; the rest of
 * that block is the first to be carved, and the home block stays until the
 * context is deleted.  Further blocks grow with the context.
 *
 * At most one block is carved at a time; its end is the context's cursor.
 * Alloc moves the cursor and writes a header, and touches nothing else.  How
 * many bytes of a block are live is in the block table (see LIVE_BIAS).
 *
 * What is carved is a run: an empty block, or in a row context a run of dead
 * chunks between two live ones of a block much of which is dead.  Immix (Blackburn
 * and McKinley, 2008) uses memory again in that way.  Where an old block is
 * carved its runs come one after the other, in the order of their addresses.
 *
 * What these contexts cannot do: move a chunk.  One live chunk holds its block.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "context.h"
#include "method_table.h"
#include "report.h"

/* Row blocks grow freely up to this, then with the context. */
#define ROW_FREE_GROWTH			((Size) 64 * 1024)
#define ROW_GROWTH_FRACTION		256

/* Chunks longer than this part of a block get a block of their own... */
#define LARGE_FRACTION			8
/* ... unless they are shorter than this, which whole pages would waste */
#define LARGE_MINIMUM			((Size) 2048)

/* An empty block is carved again if it has room for this many chunks. */
#define REOPEN_CHUNKS			16

/*
 * Blocks that are looked at for dead chunks before a new one is taken, at most;
 * and what may be live of one that is carved again, in eighths: where rows are
 * replaced in random order these two give 1.5 times the live bytes and headers.
 */
#define MOST_LOOKS				8
#define MOST_LIVE				5
#define MOST_LIVE_IN_NEED		7

/* Bytes ahead of the search for dead chunks that the processor is to fetch. */
#define LOOK_AHEAD				1024

/*
 * What is left of a run must have room for the header of a dead chunk, or be
 * nothing.
 */
#define DEAD_CHUNK_SIZE			(CHECK_SIZE + sizeof(uint64))
#define RUN_RESERVE				(CHECK_SIZE > 0 ? DEAD_CHUNK_SIZE : 0)

#define MIN_BLOCK_SIZE			((Size) 1024)
#define MAX_BLOCK_SIZE			((Size) 64 * 1024 * 1024)

dlist_head	sift_contexts = DLIST_STATIC_INIT(sift_contexts);

/* ----------------------------------------------------------------
 *		Blocks of a context
 * ----------------------------------------------------------------
 */

static inline SiftKind
block_kind(SiftContextType type)
{
	return is_batch(type) ? SIFT_BATCH : SIFT_ROW;
}

/*
 * link_block
 *		A context has got a block.
 *
 * A reclaimer that was asked before may have reset the context, which would
 * then pass for empty.
 */
static void
link_block(SiftContext *context, SiftBlock *block)
{
	dlist_push_head(&context->blocks, &block->node);
	context->cursor.header.mem_allocated += block->size;
	context->cursor.header.isReset = false;
}

/* Take a block out of its context and give it to the pool. */
static void
remove_block(SiftContext *context, SiftBlock *block)
{
	if (context->hand == &block->node)
		context->hand = dlist_has_next(&context->blocks, context->hand) ?
			dlist_next_node(&context->blocks, context->hand) : NULL;
	dlist_delete(&block->node);
	context->cursor.header.mem_allocated -= block->size;
	block_give(block);
}

/* Carve a run of a block from now on. */
static inline void
begin_run(SiftContext *context, SiftBlock *block, char *start, char *end)
{
	context->run_start = context->cursor.next = start;
	context->run_end = end;
	context->cursor.end = end == block_end(block) ? end : Max(end - RUN_RESERVE, start);
	VALGRIND_MAKE_MEM_NOACCESS(start, end - start);
}

/*
 * end_run
 *		The run is no longer carved: what is left of it is dead, or was never
 *		carved.
 */
static inline void
end_run(SiftContext *context, SiftBlock *block)
{
	char	   *next = context->cursor.next;

	block_table[block->number].live += next - context->run_start;
	if (context->run_end == block_end(block))
		block->carved = next;
	else if (next < context->run_end)
		chunk_set_header(next + CHUNK_HEADER_SIZE,
						 SiftHeaderKill(SiftHeaderMake(context->cursor.tag,
													   context->run_end - next)));
}

/* Carve a block next, "live" bytes of which are. */
static void
set_current(SiftContext *context, SiftBlock *block, uint32 live)
{
	context->current = block;
	context->cursor.tag = has_headers(context) ?
		BLOCK_TAG(block->number, method_table_number()) : 0;
	block_table[block->number].live = LIVE_BIAS + live;
}

/* Begin to carve an empty block. */
static void
open_block(SiftContext *context, SiftBlock *block)
{
	set_current(context, block, 0);
	begin_run(context, block, block_start(context, block), block_end(block));
}

/* Stop carving; a row block that is empty by then goes back. */
static void
close_block(SiftContext *context)
{
	SiftBlock  *block = context->current;
	Size		live;

	if (block == NULL)
		return;
	live = block_live(context, block);
	if (is_batch(context->type))
		block->carved = context->cursor.next;
	else
		end_run(context, block);
	context->current = NULL;
	context->cursor.next = context->cursor.end = NULL;
	if (is_batch(context->type))
		return;
	if (block == home_block(context))
		block_table[block->number].live = live + HOME_PIN;
	else if (live > 0)
		block_table[block->number].live = live;
	else
		remove_block(context, block);
}

/* Make the home block as it was after create. */
static void
refresh_home(SiftContext *context)
{
	SiftBlock  *home = home_block(context);

	home->carved = block_start(context, home);
	VALGRIND_MAKE_MEM_NOACCESS(home->carved, block_end(home) - home->carved);
	block_table[home->number].live =
		is_batch(context->type) ? LIVE_BIAS : HOME_PIN;
	context->home_fresh = true;
}

/* Whether a row context carves a block in which nothing is live. */
static bool
carves_empty_block(SiftContext *context)
{
	return !is_batch(context->type) && context->current != NULL &&
		block_live(context, context->current) == 0;
}

/* Let go of the block that carves_empty_block() has found. */
static void
drop_empty_block(SiftContext *context)
{
	SiftBlock  *block = context->current;

	close_block(context);
	if (block == home_block(context))
		refresh_home(context);
}

/* The size of the next block, which is to have room for a chunk of that length. */
static inline Size
size_for(const SiftContext *context, Size length)
{
	Size		size = context->next_size;

	while (size - BLOCK_HEADER_SIZE < length)
		size *= 2;
	return size;
}

/*
 * new_block
 *		Take a block that has room for a chunk of that length.
 */
static SiftBlock *
new_block(SiftContext *context, Size length)
{
	Size		size = size_for(context, length);
	SiftBlock  *block;

	/* near the limit a smaller block may fit where this one does not */
	while (!block_fits(size) && size / 2 >= MIN_BLOCK_SIZE &&
		   size / 2 - BLOCK_HEADER_SIZE >= length)
		size /= 2;
	block = block_take(context, block_kind(context->type), size);
	if (block == NULL)
		return NULL;
	link_block(context, block);

	/* one live row holds its block, so row blocks stay small for long */
	size = Min(size * 2, context->max_size);
	if (is_batch(context->type) || size <= ROW_FREE_GROWTH ||
		size <= context->cursor.header.mem_allocated / ROW_GROWTH_FRACTION)
		context->next_size = size;
	return block;
}

/*
 * is_worth_reopening
 *		Should the empty block that is carved be carved again?
 *
 * Not if it is so small that a chunk which comes and goes would come here
 * nearly each time; a larger one takes its place then.
 */
static bool
is_worth_reopening(SiftContext *context, Size length)
{
	SiftBlock  *block = context->current;
	Size		room = block_end(block) - block_start(context, block);

	return length <= room &&
		(length * REOPEN_CHUNKS <= room ||
		 block->size >= Min(context->max_size, ROW_FREE_GROWTH));
}

/*
 * next_run
 *		Go on to the next run of the block being carved that has room for a chunk
 *		of that length.  Runs that are too short stay dead.
 */
static bool
next_run(SiftContext *context, Size length)
{
	SiftBlock  *block = context->current;
	char	   *at = context->run_end;
	char	   *carved = block->carved;
	char	   *end = block_end(block);

	if (at == end)
		return false;
	while (at < carved)
	{
		uint64		header = chunk_header(at + CHUNK_HEADER_SIZE);
		char	   *run = at;

		at += header_length(header);
		for (char *line = run + LOOK_AHEAD; line < at + LOOK_AHEAD; line += 64)
			__builtin_prefetch(line, 1);
		if (!header_is_dead(header))
			continue;
		while (at < carved && header_is_dead(header = chunk_header(at + CHUNK_HEADER_SIZE)))
			at += header_length(header);
		if (at == carved)
			at = carved = run;	/* what follows was never carved */
		else if ((Size) (at - run) >= length + RUN_RESERVE)
		{
			end_run(context, block);
			begin_run(context, block, run, at);
			return true;
		}
	}
	if ((Size) (end - carved) < length)
		return false;
	end_run(context, block);
	begin_run(context, block, carved, end);
	return true;
}

/*
 * find_dead_block
 *		A block of which much is dead, NULL if none was found.
 *
 * A hand goes round the blocks.  Each time it looks at some: at more, the more
 * often that was worth it.  So few blocks are mostly dead for long, and who frees
 * in order does not pay for it.
 *
 * in_need: look at all, and be content with less
 */
static SiftBlock *
find_dead_block(SiftContext *context, bool in_need)
{
	int64		looks = in_need ? PG_INT64_MAX : context->looks;
	Size		eighths = in_need ? MOST_LIVE_IN_NEED : MOST_LIVE;
	dlist_node *first = context->hand;

	while (looks-- > 0)
	{
		SiftBlock  *block;

		if (context->hand == NULL)
			context->hand = dlist_head_node(&context->blocks);
		block = dlist_container(SiftBlock, node, context->hand);
		context->hand = dlist_has_next(&context->blocks, context->hand) ?
			dlist_next_node(&context->blocks, context->hand) : NULL;
		if (block->kind != SIFT_LARGE && block != context->current && block != context->reserve &&
			block != home_block(context) &&
			block_table[block->number].live <= block->size / 8 * eighths)
		{
			context->looks = Min(context->looks * 2, MOST_LOOKS);
			return block;
		}
		if (context->hand == first)
			break;
	}
	context->looks = Max(context->looks / 2, 1);
	return NULL;
}

/*
 * use_dead_block
 *		Carve the dead chunks of a block next, if one is found that has room for
 *		a chunk of that length.
 */
static bool
use_dead_block(SiftContext *context, Size length)
{
	SiftBlock  *block = find_dead_block(context, !block_fits(context->next_size));

	if (block == NULL)
		return false;
	close_block(context);
	set_current(context, block, block_table[block->number].live);
	begin_run(context, block, block_start(context, block), block_start(context, block));
	return next_run(context, length);
}

/*
 * next_block
 *		Have a block carved next that has room for a chunk of that length.
 *
 * Returns false when no block is to be had.
 */
static bool
next_block(SiftContext *context, Size length)
{
	SiftBlock  *home = home_block(context);
	SiftBlock  *block;

	if (carves_empty_block(context))
	{
		if (is_worth_reopening(context, length))
		{
			open_block(context, context->current);
			return true;
		}
		drop_empty_block(context);
	}
	else if (context->current != NULL && next_run(context, length))
		return true;

	if (context->home_fresh &&
		length <= (Size) (block_end(home) - block_start(context, home)))
	{
		block = home;
		context->home_fresh = false;
	}
	else if (!is_batch(context->type) && use_dead_block(context, length))
		return true;
	else
		block = new_block(context, length);
	if (block == NULL)
		return false;
	close_block(context);
	open_block(context, block);
	return true;
}

/* ----------------------------------------------------------------
 *		Alloc, but for its fast path
 * ----------------------------------------------------------------
 */

/*
 * fail
 *		A request was refused: raise, or return NULL, as it asks for.
 */
static void *
fail(SiftContext *context, Size size, int flags)
{
	report_refusal(context->cursor.header.name, size,
				   !METHOD_SEES_FLAGS ? ERROR_OR_NULL :
				   (flags & MCXT_ALLOC_NO_OOM) != 0 ? NULL_ONLY : ERROR_NEXT);
	return allocation_failure(&context->cursor.header, size, flags);
}

/*
 * context_alloc_large
 *		Alloc of a chunk in a block of its own, rounded up to whole pages.
 */
void *
context_alloc_large(SiftContext *context, Size size, int flags)
{
	Size		overhead = BLOCK_HEADER_SIZE + (has_headers(context) ? CHUNK_HEADER_SIZE : 0);
	uint32		length = SIFT_MARK_LARGE | MAXIMUM_ALIGNOF;
	SiftBlock  *block;
	char	   *start;

	block = block_take(context, SIFT_LARGE,
					   page_round(overhead + MAXALIGN(size + SENTINEL_SIZE)));
	if (block == NULL)
		return fail(context, size, flags);
	link_block(context, block);
	block->carved = block_end(block);
	block_table[block->number].live = is_batch(context->type) ? LIVE_BIAS : length;
	start = block_start(context, block);
	if (!has_headers(context))
		return start;
	return chunk_make(start, &context->cursor.header,
					  BLOCK_TAG(block->number, method_table_number()), length,
					  size, block_end(block) - start - CHUNK_HEADER_SIZE);
}

/*
 * context_alloc_slow
 *		Alloc where the block being carved has no room, and always in
 *		checking builds.
 */
void *
context_alloc_slow(MemoryContext mcontext, Size size, int flags)
{
	SiftContext *context = (SiftContext *) mcontext;
	Size		length;
	char	   *at;

	check_request_size(mcontext, size, flags);
	length = has_headers(context) ? CHUNK_LENGTH(size) : MAXALIGN(Max(size, 1));
	if (length > (Size) (context->cursor.end - context->cursor.next))
	{
		if (length > context->large_from)
			return context_alloc_large(context, size, flags);
		if (!next_block(context, length))
			return fail(context, size, flags);
	}
	at = context->cursor.next;
	context->cursor.next += length;
	if (!has_headers(context))
		return at;
	return chunk_make(at, mcontext, context->cursor.tag, length,
					  size, length - CHUNK_HEADER_SIZE);
}

/* ----------------------------------------------------------------
 *		Alloc for chunks that are moved (see row_compact.c)
 * ----------------------------------------------------------------
 */

/*
 * context_keep_reserve
 *		Have an empty block in reserve, if the limit allows.
 */
void
context_keep_reserve(SiftContext *context)
{
	SiftBlock  *block;

	if (context->reserve != NULL || !block_fits(context->max_size))
		return;
	block = block_take(context, block_kind(context->type), context->max_size);
	if (block == NULL)
		return;
	link_block(context, block);
	context->reserve = block;
}

/* Have none. */
void
context_drop_reserve(SiftContext *context)
{
	if (context->reserve == NULL)
		return;
	remove_block(context, context->reserve);
	context->reserve = NULL;
	block_settle();
}

/*
 * context_hold_block
 *		Have a block stay whose chunks are about to be moved or freed.
 */
void
context_hold_block(SiftBlock *block)
{
	block_table[block->number].live += HOME_PIN;
}

/*
 * context_unhold_block
 *		They were.  A block that is empty now goes back; where no other could be
 *		taken instead it becomes the reserve, if the context may have one.
 */
void
context_unhold_block(SiftContext *context, SiftBlock *block, bool may_reserve)
{
	block_table[block->number].live -= HOME_PIN;
	if (block_table[block->number].live > 0)
		return;
	if (may_reserve && context->reserve == NULL && block->size == context->max_size &&
		!block_fits(context->max_size))
	{
		block->carved = block_start(context, block);
		context->reserve = block;
		return;
	}
	remove_block(context, block);
	block_settle();
}

/*
 * context_close_sparse
 *		Have no block carved of which half is dead, so that it can be cleared.
 */
void
context_close_sparse(SiftContext *context)
{
	SiftBlock  *block = context->current;

	if (block == NULL || block == home_block(context) ||
		block_live(context, block) > (Size) (block_carved(context, block) - (char *) block) / 2)
		return;
	close_block(context);
	block_settle();
}

/*
 * context_dense_room
 *		How many bytes of chunks could be moved now, about.
 */
Size
context_dense_room(SiftContext *context)
{
	Size		room = 0;

	if (block_fits(context->next_size))
		return MaxAllocHugeSize;
	if (context->current != NULL && context->run_end == block_end(context->current))
		room = context->cursor.end - context->cursor.next;
	if (context->reserve != NULL)
		room += context->reserve->size - BLOCK_HEADER_SIZE;
	return room;
}

/*
 * context_alloc_dense
 *		Alloc where no chunk is yet.
 *
 * Takes the reserve when no other block fits; NULL when that is gone, too.
 * That is no refusal.
 */
void *
context_alloc_dense(SiftContext *context, Size size)
{
	Size		length = CHUNK_LENGTH(size);
	char	   *at;

	if (context->current == NULL || context->run_end != block_end(context->current) ||
		length > (Size) (context->cursor.end - context->cursor.next))
	{
		SiftBlock  *block = NULL;

		if (block_fits(size_for(context, length)))
			block = new_block(context, length);
		if (block == NULL)
		{
			block = context->reserve;
			context->reserve = NULL;
		}
		if (block == NULL)
			return NULL;
		close_block(context);
		open_block(context, block);
	}
	at = context->cursor.next;
	context->cursor.next += length;
	return chunk_make(at, &context->cursor.header, context->cursor.tag, length,
					  size, length - CHUNK_HEADER_SIZE);
}

/* ----------------------------------------------------------------
 *		Methods that are reached through a chunk
 * ----------------------------------------------------------------
 */

/* Room for the caller's bytes from a chunk on. */
static Size
chunk_room(const void *chunk, uint64 header)
{
	if (header_is_large(header))
		return block_end(block_by_number(SiftHeaderBlock(header))) - (char *) chunk;
	return header_length(header) - CHUNK_HEADER_SIZE;
}

/*
 * check_chunk
 *		In checking builds: may this chunk be freed or resized?
 */
static inline void
check_chunk(const void *chunk, uint64 header)
{
#ifdef MEMORY_CONTEXT_CHECKING
	SiftContext *context = block_by_number(SiftHeaderBlock(header))->context;

	if (context->type == BARE_BATCH_CONTEXT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("chunks of a bare batch context cannot be freed, resized or asked for their context"),
				 errdetail("The context is \"%s\".", context->cursor.header.name),
				 errhint("Create the context without SIFT_BATCH_BARE.")));
	if (header_is_dead(header))
		elog(ERROR, "detected double pfree in %s %p",
			 context->cursor.header.name, chunk);
	if (!sentinel_ok(chunk, chunk_requested_size(chunk)))
		elog(WARNING, "detected write past chunk end in %s %p",
			 context->cursor.header.name, chunk);
#endif
}

/*
 * context_block_empty
 *		The last chunk of a row block was freed: give the block back.
 */
pg_noinline void
context_block_empty(uint32 number)
{
	SiftBlock  *block = block_by_number(number);

	Assert(block != block->context->current);
	remove_block(block->context, block);
	block_settle();
}

/*
 * context_free
 *		pfree: the chunk's bytes are dead.
 */
METHOD_FREE(context_free)
{
	context_free_inline(pointer);
}

/* What checking builds do before that. */
void
context_check_free(void *pointer)
{
	uint64		header = chunk_header(pointer);

	check_chunk(pointer, header);
#ifdef CLOBBER_FREED_MEMORY
	wipe_mem(pointer, chunk_room(pointer, header));
#endif
}

/*
 * move_chunk
 *		repalloc by alloc, copy and free.
 */
static void *
move_chunk(SiftContext *context, void *chunk, uint64 header, Size size, int flags)
{
	SiftBlock  *block = block_by_number(SiftHeaderBlock(header));
	Size		room = chunk_room(chunk, header);
	void	   *moved = method_alloc(context->cursor.header.methods, &context->cursor.header, size, flags);

	if (moved == NULL)
		return NULL;
#ifdef MEMORY_CONTEXT_CHECKING
	room = chunk_requested_size(chunk);
#endif
	VALGRIND_MAKE_MEM_UNDEFINED(moved, size);
	VALGRIND_MAKE_MEM_DEFINED(chunk, room);
	memcpy(moved, chunk, Min(room, size));

	/* nobody can want a large block that was left, even in a batch */
	if (header_is_large(header))
	{
		remove_block(context, block);
		block_settle();
	}
	else
		method_free(context_free, &context->cursor.header, chunk);
	return moved;
}

/*
 * resize_large
 *		repalloc of a chunk in a large block: longer or shorter where it is,
 *		if that can be.
 */
static void *
resize_large(SiftContext *context, void *chunk, uint64 header, Size size, int flags)
{
	SiftBlock  *block = block_by_number(SiftHeaderBlock(header));
	Size		old_size = block->size;
	Size		new_size = page_round((char *) chunk - (char *) block +
									  MAXALIGN(size + SENTINEL_SIZE));

	if (new_size > old_size)
	{
		switch (block_grow(block, new_size))
		{
			case GROW_DONE:
				break;
			case GROW_NOT_FREE:
				return move_chunk(context, chunk, header, size, flags);
			case GROW_REFUSED:
				return fail(context, size, flags);
		}
	}
	else if (new_size < old_size)
		block_shrink(block, new_size);
	block->carved = block_end(block);
	context->cursor.header.mem_allocated += new_size - old_size;
	chunk_change_size(chunk, size, block_end(block) - (char *) chunk);
	return chunk;
}

/*
 * context_realloc
 *		repalloc: in place where the chunk has room, is the last one of the
 *		block being carved, or has a block of its own; else it moves.
 */
METHOD_REALLOC(context_realloc)
{
	uint64		header = chunk_header(pointer);
	SiftContext *owner = block_by_number(SiftHeaderBlock(header))->context;
	Size		length;
	Size		room;

	check_chunk(pointer, header);
	check_request_size(&owner->cursor.header, size, METHOD_FLAGS);
	if (header_is_large(header))
		return resize_large(owner, pointer, header, size, METHOD_FLAGS);

	length = CHUNK_LENGTH(size);
	room = chunk_room(pointer, header);
	if (size + SENTINEL_SIZE > room)
	{
		Size		more = length - header_length(header);

		if ((char *) pointer + room != owner->cursor.next ||
			more > (Size) (owner->cursor.end - owner->cursor.next))
			return move_chunk(owner, pointer, header, size, METHOD_FLAGS);
		owner->cursor.next += more;
		room += more;
		chunk_set_header(pointer, SiftHeaderMake(owner->cursor.tag, length));
	}
	chunk_change_size(pointer, size, room);
	return pointer;
}

/* The context of a chunk, for GetMemoryChunkContext(). */
MemoryContext
context_of_chunk(void *pointer)
{
	uint64		header = chunk_header(pointer);

	check_chunk(pointer, header);
	return &block_by_number(SiftHeaderBlock(header))->context->cursor.header;
}

/* Bytes that a chunk takes, for GetMemoryChunkSpace(). */
METHOD_CHUNK_SPACE(context_chunk_space)
{
	uint64		header = chunk_header(pointer);

	check_chunk(pointer, header);
	return CHUNK_HEADER_SIZE + chunk_room(pointer, header);
}

/* ----------------------------------------------------------------
 *		Create, reset, delete
 * ----------------------------------------------------------------
 */

/*
 * check_creation
 *		Raise an error when no context can be made, or not with these sizes.
 */
static void
check_creation(Size first_size, Size max_size)
{
	if (IsPostmasterEnvironment && !IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a Sift memory context cannot be created in the postmaster"),
				 errdetail("Its memory would be inherited by every backend, and charged to none."),
				 errhint("Create the context in the backend that uses it.")));
	if (!method_table_ready())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this server has no place for Sift's memory contexts"),
				 errdetail("The table of memory context methods could not be extended when the library was loaded."),
				 errhint("The server's log has a line with the reason.")));
	if (first_size < MIN_BLOCK_SIZE || first_size > max_size || max_size > MAX_BLOCK_SIZE ||
		(first_size & (first_size - 1)) != 0 || (max_size & (max_size - 1)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid block sizes for a memory context: %zu and %zu",
						first_size, max_size),
				 errdetail("Block sizes are powers of two from 1 kB to 64 MB, and the first is not above the largest."),
				 errhint("Use SIFT_ROW_DEFAULT_SIZES or SIFT_BATCH_DEFAULT_SIZES.")));
}

/* Length from which chunks get a block of their own. */
static Size
large_length(SiftContextType type, Size max_size)
{
	Size		size = is_batch(type) ? max_size : Min(max_size, ROW_FREE_GROWTH);

	return Max(size / LARGE_FRACTION,
			   Min(max_size - BLOCK_HEADER_SIZE, LARGE_MINIMUM));
}

/*
 * context_create
 *		Create a context of a type.
 *
 * parent, name: as for PostgreSQL's own contexts
 * methods: of the type, a constant
 * own_size: of what begins with a SiftContext, bytes; the rest of it is zero
 * first_size, max_size: of blocks, bytes
 *
 * Raises 53200, 55000, 0A000 and 22023 (see sift.h), with nothing left.
 */
MemoryContext
context_create(MemoryContext parent, const char *name, SiftContextType type,
			   const MemoryContextMethods *methods, Size own_size,
			   Size first_size, Size max_size)
{
	SiftBlock  *home;
	SiftContext *context;

	check_creation(first_size, max_size);
	Assert(BLOCK_HEADER_SIZE + MAXALIGN(own_size) < HOME_BLOCK_SIZE / 2);
	home = block_take(NULL, block_kind(type), HOME_BLOCK_SIZE);
	if (home == NULL)
	{
		report_refusal(name, HOME_BLOCK_SIZE, ERROR_NEXT);
		MemoryContextStats(TopMemoryContext);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed while creating memory context \"%s\".", name)));
	}

	/* nothing may fail from here on */
	context = (SiftContext *) ((char *) home + BLOCK_HEADER_SIZE);
	VALGRIND_MAKE_MEM_UNDEFINED(context, own_size);
	memset(context, 0, own_size);
	home->context = context;
	context->type = type;
	context->own_size = own_size;
	dlist_init(&context->blocks);
	dlist_push_head(&context->blocks, &home->node);
	context->first_size = context->next_size = first_size;
	context->max_size = max_size;
	context->large_from = large_length(type, max_size);
	context->looks = 1;
	refresh_home(context);
	method_table_create(&context->cursor.header,
						is_batch(type) ? BATCH_CONTEXT_TAG : ROW_CONTEXT_TAG,
						methods, parent, name);
	context->cursor.header.mem_allocated = HOME_BLOCK_SIZE;
	dlist_push_head(&sift_contexts, &context->node);
	return &context->cursor.header;
}

/*
 * give_blocks
 *		Give back all blocks but the home block.
 */
static void
give_blocks(SiftContext *context)
{
	SiftBlock  *home = home_block(context);
	dlist_mutable_iter iter;

#ifdef MEMORY_CONTEXT_CHECKING
	context_check(&context->cursor.header);
#endif
	context->current = NULL;
	context->cursor.next = context->cursor.end = NULL;
	context->hand = NULL;
	context->reserve = NULL;
	dlist_foreach_modify(iter, &context->blocks)
	{
		SiftBlock  *block = dlist_container(SiftBlock, node, iter.cur);

		if (block != home)
			remove_block(context, block);
	}
}

/*
 * context_reset
 *		Free all chunks; the home block stays.
 */
void
context_reset(MemoryContext mcontext)
{
	SiftContext *context = (SiftContext *) mcontext;

#ifdef CLOBBER_FREED_MEMORY
	SiftBlock  *home = home_block(context);
	char	   *start = block_start(context, home);
	char	   *carved = block_carved(context, home);
#endif

	give_blocks(context);
#ifdef CLOBBER_FREED_MEMORY
	wipe_mem(start, carved - start);
#endif
	refresh_home(context);
	context->next_size = context->first_size;
	block_settle();
}

/*
 * context_delete
 *		Give everything back, the context itself with it.
 */
void
context_delete(MemoryContext mcontext)
{
	SiftContext *context = (SiftContext *) mcontext;

	give_blocks(context);
	dlist_delete(&context->node);
	block_give(home_block(context));
	block_settle();
}

/* True until something is allocated after create or reset. */
bool
context_is_empty(MemoryContext mcontext)
{
	return mcontext->isReset;
}

/* ----------------------------------------------------------------
 *		Trim
 * ----------------------------------------------------------------
 */

/*
 * context_trim_all
 *		Give back every block that has no live chunk, and the pool.
 *
 * A row context keeps the block it carves; here it lets go of an empty one.
 * Returns the bytes that went back to the system.
 */
Size
context_trim_all(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &sift_contexts)
	{
		SiftContext *context = dlist_container(SiftContext, node, iter.cur);

		if (carves_empty_block(context))
			drop_empty_block(context);
	}
	return block_trim();
}
