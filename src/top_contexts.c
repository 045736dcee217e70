/*-------------------------------------------------------------------------
 *
 * top_contexts.c
 *	  The names that most of this process's memory goes by.
 *
 * Looked for where there is no memory, and in the middle of a request for
 * some: nothing is allocated here.  Names only, since idents carry query text.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "context_tree.h"
#include "top_contexts.h"

/*
 * Bytes by name, of all contexts of this process.  Names are constants, so
 * contexts that are made at one place share the pointer.  A table for more
 * names than a server has at a time; what comes when it is full is left out.
 */
#define NAME_TABLE_SIZE			512

typedef struct NameBytes
{
	const char *name;
	int64		bytes;
} NameBytes;

static NameBytes name_table[NAME_TABLE_SIZE];

static void
add_bytes(const char *name, Size bytes)
{
	uint32		at = (uint32) (((uintptr_t) name >> 3) * 0x9E3779B1u) % NAME_TABLE_SIZE;

	for (int tries = 0; tries < NAME_TABLE_SIZE; tries++)
	{
		NameBytes  *entry = &name_table[(at + tries) % NAME_TABLE_SIZE];

		if (entry->name == NULL || entry->name == name)
		{
			entry->name = name;
			entry->bytes += bytes;
			return;
		}
	}
}

/*
 * top_contexts_find
 *		The names that most bytes go by now.
 */
void
top_contexts_find(TopContexts *top)
{
	memset(name_table, 0, sizeof(name_table));
	for (MemoryContext context = TopMemoryContext; context != NULL;
		 context = context_tree_next(context))
		add_bytes(context->name, context->mem_allocated);

	for (top->count = 0; top->count < MOST_TOP_CONTEXTS; top->count++)
	{
		NameBytes  *most = &name_table[0];

		for (int i = 1; i < NAME_TABLE_SIZE; i++)
		{
			if (name_table[i].bytes > most->bytes)
				most = &name_table[i];
		}
		if (most->bytes == 0)
			break;
		strlcpy(top->contexts[top->count].name, most->name, NAMEDATALEN);
		top->contexts[top->count].bytes = most->bytes;
		most->bytes = 0;
	}
}
