/*-------------------------------------------------------------------------
 *
 * batch_context.c
 *	  Contexts whose memory goes back all at once.
 *
 * For what is built, used and thrown away together.  Blocks double up to
 * 2 MB.  pfree only counts the dead bytes, so that any code may run in such a
 * context.  In a bare batch chunks have no header: they can neither be freed
 * nor resized, and lie closest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "batch_context.h"
#include "context.h"

/* The same code as row_alloc, kept apart for a branch history of its own. */
static METHOD_ALLOC(batch_alloc)
{
	return context_alloc(context, size, METHOD_FLAGS);
}

/*
 * bare_alloc
 *		Move the cursor.
 *
 * A size of 0, and one that wraps around when it is aligned, go the slow way.
 */
static METHOD_ALLOC(bare_alloc)
{
#if !SIFT_CHECKED_BUILD
	SiftCursor *cursor = (SiftCursor *) context;
	char	   *at = cursor->next;
	Size		length = MAXALIGN(size);

	if (likely(length - 1 < (Size) (cursor->end - at)))
	{
		cursor->next = at + length;
		return at;
	}
#endif
	return context_alloc_slow(context, size, METHOD_FLAGS);
}

static const MemoryContextMethods batch_context_methods = {
	.alloc = batch_alloc,
	SHARED_METHODS
};

static const MemoryContextMethods bare_batch_context_methods = {
	.alloc = bare_alloc,
	SHARED_METHODS
};

/*
 * batch_context_create
 *		SiftBatchContextCreate, see sift.h.
 */
MemoryContext
batch_context_create(MemoryContext parent, const char *name, int flags,
					 Size first_size, Size max_size)
{
	if ((flags & ~SIFT_BATCH_BARE) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid flags for a batch memory context: %d", flags),
				 errdetail("The only flag is SIFT_BATCH_BARE.")));
	if (flags & SIFT_BATCH_BARE)
		return context_create(parent, name, BARE_BATCH_CONTEXT,
							  &bare_batch_context_methods, sizeof(SiftContext),
							  first_size, max_size);
	return context_create(parent, name, BATCH_CONTEXT,
						  &batch_context_methods, sizeof(SiftContext),
						  first_size, max_size);
}
