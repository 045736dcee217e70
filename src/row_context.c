/*-------------------------------------------------------------------------
 *
 * row_context.c
 *	  Contexts whose chunks are freed one by one.
 *
 * For rows that are kept and removed singly.  A block goes back when its last
 * chunk is freed; a block that is still being carved then is carved again
 * from its beginning.  One live chunk holds its block, so blocks are small:
 * they grow to 64 kB, and to 256 kB only in a context of 64 MB and more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "context.h"
#include "row_context.h"

static METHOD_ALLOC(row_alloc)
{
	return context_alloc(context, size, METHOD_FLAGS);
}

/* On 17 and 18 also what the server's table of methods gets, for both types. */
const MemoryContextMethods row_context_methods = {
	.alloc = row_alloc,
	SHARED_METHODS
};

/*
 * row_context_create
 *		SiftRowContextCreate, see sift.h.
 */
MemoryContext
row_context_create(MemoryContext parent, const char *name,
				   Size first_size, Size max_size)
{
	return context_create(parent, name, ROW_CONTEXT, &row_context_methods,
						  sizeof(SiftContext), first_size, max_size);
}

bool
is_row_context(MemoryContext context)
{
	return context->methods == &row_context_methods;
}
