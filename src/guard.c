/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Memory contexts of the server that must not be refused.
 *
 * Some code of the server leaves a half-made entry behind when an allocation
 * fails, in its own tables, in shared memory or on disk: a process's
 * references to shared statistics are entered into a hash table before they
 * are allocated, and the end of the transaction frees what was never there
 * (pgstat_shmem.c of 15 to 18); a file is made before it is noted that it must
 * go when the transaction fails (storage.c); a segment of shared memory is
 * entered before its descriptor is allocated (dsm.c); settings end the session
 * (guc.c of 17 and 18).  Such things are small, live long, and are in a few
 * contexts.
 *
 * malloc cannot see for which context it is called, but the context can say
 * so: its method table is replaced by a copy, of which alloc pauses refusing
 * for small chunks.  The contexts are TopMemoryContext and some below it,
 * which the server makes when a session first needs them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "guard.h"
#include "refuse.h"
#include "utils/typcache.h"

/* By name, or by ident where the context is a hash table's. */
static const char *const guarded_names[] = {
	"GUC hash table",
	"GUCMemoryContext",
	"LOCALLOCK hash",
	"MdSmgr",
	"PgStat Pending",
	"PgStat Shared Ref",
	"PgStat Shared Ref Hash"
};

/* Chunks up to this are guarded. */
#define SMALL_CHUNK				((Size) 1024)

static MemoryContextMethods guarded_methods;	/* AllocSet's, but for alloc */
static const MemoryContextMethods *aset_methods = NULL;

/* AllocSet's alloc, and nothing is refused meanwhile if the chunk is small. */
static METHOD_ALLOC(guarded_alloc)
{
	bool		paused;
	void	   *chunk;

	if (size > SMALL_CHUNK)
		return method_alloc(aset_methods, context, size, METHOD_FLAGS);
	paused = refuse_pause(true);
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
		if (strcmp(context->name, guarded_names[i]) == 0 ||
			(context->ident != NULL && strcmp(context->ident, guarded_names[i]) == 0))
			return true;
	}
	return false;
}

/*
 * guard_contexts
 *		Guard what there is by now, once a top-level statement; to be called
 *		when a limit is set, and when a statement begins.
 */
void
guard_contexts(void)
{
	static TimestampTz guarded_at = -1;

	if (!IsUnderPostmaster || guarded_at == GetCurrentStatementStartTimestamp())
		return;
	guarded_at = GetCurrentStatementStartTimestamp();
	if (aset_methods == NULL)
	{
		aset_methods = TopMemoryContext->methods;
		guarded_methods = *aset_methods;
		guarded_methods.alloc = guarded_alloc;
		TopMemoryContext->methods = &guarded_methods;
	}
	for (MemoryContext context = TopMemoryContext->firstchild; context != NULL;
		 context = context->nextchild)
	{
		if (is_to_be_guarded(context))
			context->methods = &guarded_methods;
	}
}

/*
 * guard_types
 *		Have the type cache made, whose parts are not made again when one of
 *		them failed (typcache.c of 18); to be called when a statement begins.
 */
void
guard_types(void)
{
	static bool made = false;
	bool		paused;

	if (made || !IsTransactionState())
		return;
	paused = refuse_pause(true);
	(void) lookup_type_cache(INT4OID, 0);
	refuse_pause(paused);
	made = true;
}
