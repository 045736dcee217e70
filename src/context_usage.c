/*-------------------------------------------------------------------------
 *
 * context_usage.c
 *	  Figures of a context: for views and statistics, and to check it.
 *
 * Nothing is counted while chunks are made and freed but the live bytes of
 * each block, so figures are computed when they are asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "context.h"

/*
 * block_live
 *		Bytes of a block's chunks that are live, headers included.
 */
Size
block_live(SiftContext *context, SiftBlock *block)
{
	uint32		live = block_table[block->number].live;
	Size		carved = block_carved(context, block) - block_start(context, block);

	if (block->kind == SIFT_LARGE)
		return live == 0 || live == LIVE_BIAS - (SIFT_MARK_LARGE | MAXIMUM_ALIGNOF) ? 0 : carved;
	if (is_batch(context->type))
		return carved - (LIVE_BIAS - live);
	if (block == context->current)
		return (int32) (live - LIVE_BIAS) + (context->cursor.next - context->run_start);
	return block == home_block(context) ? live - HOME_PIN : live;
}

/*
 * context_usage
 *		What a context holds.  Reads its blocks' headers, not its chunks.
 */
void
context_usage(SiftContext *context, ContextUsage *usage)
{
	dlist_iter	iter;

	memset(usage, 0, sizeof(*usage));
	dlist_foreach(iter, &context->blocks)
	{
		SiftBlock  *block = dlist_container(SiftBlock, node, iter.cur);
		char	   *carved = block_carved(context, block);
		Size		live = block_live(context, block);

		usage->blocks++;
		usage->total += block->size;
		usage->free += block_end(block) - carved;
		usage->dead += carved - block_start(context, block) - live;
	}
	usage->used = usage->total - usage->free - usage->dead;
}

/* Where the next chunk is, from "at" on: behind the run that is being carved. */
static char *
chunk_from(SiftContext *context, SiftBlock *block, char *at)
{
	return block == context->current && at == context->cursor.next &&
		context->run_end != block_end(block) ? context->run_end : at;
}

/* The chunk that follows the one at "at". */
static char *
chunk_after(SiftContext *context, SiftBlock *block, char *at)
{
	if (block->kind == SIFT_LARGE)
		return block_end(block);
	return chunk_from(context, block, at + header_length(chunk_header(at + CHUNK_HEADER_SIZE)));
}

/*
 * context_count_chunks
 *		How many live chunks a context has; -1 where they have no headers.
 *
 * Reads every header.
 */
int64
context_count_chunks(SiftContext *context)
{
	int64		chunks = 0;
	dlist_iter	iter;

	if (context->type == BARE_BATCH_CONTEXT)
		return -1;
	dlist_foreach(iter, &context->blocks)
	{
		SiftBlock  *block = dlist_container(SiftBlock, node, iter.cur);
		char	   *carved = block_carved(context, block);

		CHECK_FOR_INTERRUPTS();
		for (char *at = chunk_from(context, block, block_start(context, block)); at < carved;
			 at = chunk_after(context, block, at))
		{
			if (!header_is_dead(chunk_header(at + CHUNK_HEADER_SIZE)))
				chunks++;
		}
	}
	return chunks;
}

/*
 * context_stats
 *		Statistics for MemoryContextStats and its like.
 *
 * Dead bytes count as free, as what other contexts have in their freelists;
 * chunks are not counted, since this runs at each out-of-memory error.
 */
void
context_stats(MemoryContext mcontext, MemoryStatsPrintFunc printfunc,
			  void *passthru, MemoryContextCounters *totals,
			  bool print_to_stderr)
{
	ContextUsage usage;

	context_usage((SiftContext *) mcontext, &usage);
	if (printfunc)
	{
		char		text[200];

		snprintf(text, sizeof(text),
				 "%zu total in %zu blocks; %zu free (%zu dead); %zu used",
				 usage.total, usage.blocks, usage.free + usage.dead,
				 usage.dead, usage.used);
		printfunc(mcontext, passthru, text, print_to_stderr);
	}
	if (totals)
	{
		totals->nblocks += usage.blocks;
		totals->totalspace += usage.total;
		totals->freespace += usage.free + usage.dead;
	}
}

#ifdef MEMORY_CONTEXT_CHECKING
/*
 * check_block
 *		Walk a block's chunks and compare with what the block table says.
 */
static void
check_block(SiftContext *context, SiftBlock *block)
{
	const char *name = context->cursor.header.name;
	char	   *carved = block_carved(context, block);
	Size		live = 0;

	if (block->context != context)
		elog(WARNING, "problem in Sift context %s: block %p has a bogus context link",
			 name, block);
	for (char *at = chunk_from(context, block, block_start(context, block)), *after;
		 at < carved; at = after)
	{
		char	   *chunk = at + CHUNK_HEADER_SIZE;
		uint64		header = chunk_header(chunk);

		after = chunk_after(context, block, at);
		if (after <= at || after > carved ||
			(!header_is_dead(header) && SiftHeaderBlock(header) != block->number))
		{
			elog(WARNING, "problem in Sift context %s: bad header of chunk %p in block %p",
				 name, chunk, block);
			return;
		}
		if (header_is_dead(header))
			continue;
		live += block->kind == SIFT_LARGE ? after - at : header_length(header);
		if (!sentinel_ok(chunk, chunk_requested_size(chunk)))
			elog(WARNING, "problem in Sift context %s: detected write past chunk end in block %p, chunk %p",
				 name, block, chunk);
	}
	if (live != block_live(context, block))
		elog(WARNING, "problem in Sift context %s: block %p has %zu live bytes, not %zu",
			 name, block, live, block_live(context, block));
}

/*
 * context_check
 *		Walk through the context and warn about what does not add up.
 */
void
context_check(MemoryContext mcontext)
{
	SiftContext *context = (SiftContext *) mcontext;
	Size		total = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &context->blocks)
	{
		SiftBlock  *block = dlist_container(SiftBlock, node, iter.cur);

		check_block(context, block);
		total += block->size;
	}
	if (total != mcontext->mem_allocated)
		elog(WARNING, "problem in Sift context %s: blocks have %zu bytes, not %zu",
			 mcontext->name, total, mcontext->mem_allocated);
}
#endif
