/*-------------------------------------------------------------------------
 *
 * context_tree.h
 *	  Walking the tree of memory contexts, without recursion.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_CONTEXT_TREE_H
#define SIFT_CONTEXT_TREE_H

#include "nodes/memnodes.h"

/*
 * context_tree_next
 *		The context that comes after this one in a walk that begins at
 *		TopMemoryContext, parents before their children; NULL at the end.
 */
static inline MemoryContext
context_tree_next(MemoryContext context)
{
	if (context->firstchild != NULL)
		return context->firstchild;
	while (context != NULL && context->nextchild == NULL)
		context = context->parent;
	return context != NULL ? context->nextchild : NULL;
}

#endif							/* SIFT_CONTEXT_TREE_H */
