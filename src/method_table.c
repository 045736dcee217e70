/*-------------------------------------------------------------------------
 *
 * method_table.c
 *	  The entry of Sift's contexts in the server's table of methods.
 *
 * Up to 15 a chunk is preceded by its context's address and everything goes
 * through context->methods: there is nothing to do.
 *
 * From 16 on pfree and its like look at the low bits of the 8 bytes before a
 * chunk, a method number, and go through a constant table of the server,
 * mcxt_methods.  The server offers no call to add a type, but keeps unused
 * entries.  TopMemoryContext->methods points to the entry MCTX_ASET_ID of the
 * table, so its start is known; Sift writes its methods into the highest
 * unused entry.
 *
 * What could go wrong is looked at first: known entries must be where they
 * are expected; an unused entry is one that is identical to the entry that
 * the server keeps for never used memory, so a number that the server or
 * another extension has taken is left alone; and afterwards a made-up chunk
 * must lead the server back to us.  If any of that
 * fails, the table is as it was, one LOG line says so, and creating a context
 * is an error from then on; everything else of Sift works.
 *
 * The table is written once a process, or once in the postmaster, whose
 * children inherit it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "method_table.h"

#if PG_VERSION_NUM >= 160000

static int	method_number = -1; /* ours; -1 while there is none */
static bool probe_reached;

/* Stands for get_chunk_context while the new entry is tried out. */
static MemoryContext
probe_chunk_context(void *pointer)
{
	probe_reached = true;
	return TopMemoryContext;
}

/*
 * write_entry
 *		Write one entry of the table, which lies in a read-only page.
 *
 * Returns false, with errno set and nothing changed, when the system will not
 * have it.
 */
static bool
write_entry(MemoryContextMethods *entry, const MemoryContextMethods *methods)
{
	uintptr_t	page = sysconf(_SC_PAGESIZE);
	uintptr_t	first = (uintptr_t) entry & ~(page - 1);
	uintptr_t	last = ((uintptr_t) (entry + 1) + page - 1) & ~(page - 1);

	if (mprotect((void *) first, last - first, PROT_READ | PROT_WRITE) != 0)
		return false;
	*entry = *methods;

	/* a page that stays writable does no harm */
	(void) mprotect((void *) first, last - first, PROT_READ);
	return true;
}

/*
 * server_finds_us
 *		Does a chunk with that method number lead the server to our entry?
 *
 * If not, the server finds an unused entry, which raises an error.
 */
static bool
server_finds_us(int number)
{
	uint64		memory[2] = {number, 0};
	MemoryContext caller_context = CurrentMemoryContext;

	probe_reached = false;
	PG_TRY();
	{
		(void) GetMemoryChunkContext(&memory[1]);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller_context);
		FlushErrorState();
	}
	PG_END_TRY();
	return probe_reached;
}

/*
 * is_method_table
 *		Is this the server's table, as far as that can be seen?
 *
 * It is not when something else has put its own methods into
 * TopMemoryContext.
 */
static bool
is_method_table(const MemoryContextMethods *table)
{
	return TopMemoryContext->methods->alloc == AllocSetAlloc &&
		table[MCTX_GENERATION_ID].alloc == GenerationAlloc &&
		table[MCTX_BUMP_ID].alloc == BumpAlloc;
}

/* The highest unused number, -1 when there is none. */
static int
find_unused(const MemoryContextMethods *table)
{
	const MemoryContextMethods *unused = &table[MCTX_0_RESERVED_UNUSEDMEM_ID];

	for (int number = MCTX_15_RESERVED_WIPEDMEM_ID - 1; number > MCTX_BUMP_ID; number--)
	{
		if (memcmp(&table[number], unused, sizeof(MemoryContextMethods)) == 0)
			return number;
	}
	return -1;
}

/*
 * method_table_register
 *		Write Sift's methods into the server's table.
 *
 * methods: what is reached through a chunk's header: free_p, realloc,
 * get_chunk_context and get_chunk_space.  A constant.
 *
 * Does nothing when that was done before.
 */
void
method_table_register(const MemoryContextMethods *methods)
{
	MemoryContextMethods *table;
	MemoryContextMethods saved;
	MemoryContextMethods probe = *methods;
	int			number;

	if (method_number >= 0)
		return;
	table = unconstify(MemoryContextMethods *, TopMemoryContext->methods) - MCTX_ASET_ID;
	number = is_method_table(table) ? find_unused(table) : -1;
	if (number < 0)
	{
		ereport(LOG,
				(errmsg("sift cannot create memory contexts on this server"),
				 errdetail("No method number for memory contexts is unused, or the table of methods is not where it was expected.")));
		return;
	}
	saved = table[number];
	probe.get_chunk_context = probe_chunk_context;
	if (!write_entry(&table[number], &probe))
	{
		ereport(LOG,
				(errmsg("sift cannot create memory contexts on this server"),
				 errdetail("The table of memory context methods cannot be written: %m.")));
		return;
	}
	if (!server_finds_us(number) || !write_entry(&table[number], methods))
	{
		(void) write_entry(&table[number], &saved);
		ereport(LOG,
				(errmsg("sift cannot create memory contexts on this server"),
				 errdetail("The server does not look up memory context methods where it was expected.")));
		return;
	}
	method_number = number;
}

bool
method_table_ready(void)
{
	return method_number >= 0;
}

/* The number that goes into the headers of chunks. */
int
method_table_number(void)
{
	return method_number;
}

/*
 * method_table_create
 *		MemoryContextCreate() with methods of our own.
 *
 * The table's entry serves all types, since it is only reached through chunks
 * and a chunk's block knows its context; the rest goes by context->methods.
 */
void
method_table_create(MemoryContext context, NodeTag tag,
					const MemoryContextMethods *methods,
					MemoryContext parent, const char *name)
{
	MemoryContextCreate(context, tag, (MemoryContextMethodID) method_number,
						parent, name);
	context->methods = methods;
}

#else							/* 15 */

void
method_table_register(const MemoryContextMethods *methods)
{
}

bool
method_table_ready(void)
{
	return true;
}

int
method_table_number(void)
{
	return 0;
}

void
method_table_create(MemoryContext context, NodeTag tag,
					const MemoryContextMethods *methods,
					MemoryContext parent, const char *name)
{
	MemoryContextCreate(context, tag, methods, parent, name);
}

#endif
