/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Memory contexts of the server that must not be refused.
 *
 * Some code of the server leaves a half-made entry behind when an allocation
 * fails: a process's references to shared statistics are entered into a hash
 * table before they are allocated, and the end of the transaction then frees
 * what was never there (pgstat_shmem.c of 15 to 18).  malloc cannot see for
 * which context it is called, but the context can say so: its method table is
 * replaced by a copy, of which alloc pauses refusing.
 *
 * The contexts are found by their names below TopMemoryContext, where the
 * server makes them when a session first needs them, before its first
 * statement.  They hold a few kilobytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "guard.h"
#include "refuse.h"

static const char *const guarded_names[] = {
	"PgStat Shared Ref",
	"PgStat Shared Ref Hash",
	"PgStat Pending"
};

static MemoryContextMethods guarded_methods;	/* AllocSet's, but for alloc */
static const MemoryContextMethods *aset_methods = NULL;
static int	nguarded = 0;

/* AllocSet's alloc, and nothing is refused meanwhile. */
static METHOD_ALLOC(guarded_alloc)
{
	bool		paused = refuse_pause(true);
	void	   *chunk;

	chunk = method_alloc(aset_methods, context, size, METHOD_FLAGS);
	refuse_pause(paused);
	return chunk;
}

static bool
is_to_be_guarded(MemoryContext context)
{
	if (context->methods != aset_methods)
		return false;
	for (int i = 0; i < lengthof(guarded_names); i++)
	{
		if (strcmp(context->name, guarded_names[i]) == 0)
			return true;
	}
	return false;
}

/*
 * guard_contexts
 *		Guard what there is by now; to be called when a statement begins.
 */
void
guard_contexts(void)
{
	if (nguarded == lengthof(guarded_names))
		return;
	if (aset_methods == NULL)
	{
		aset_methods = TopMemoryContext->methods;
		guarded_methods = *aset_methods;
		guarded_methods.alloc = guarded_alloc;
	}
	for (MemoryContext context = TopMemoryContext->firstchild; context != NULL;
		 context = context->nextchild)
	{
		if (is_to_be_guarded(context))
		{
			context->methods = &guarded_methods;
			nguarded++;
		}
	}
}
