/*-------------------------------------------------------------------------
 *
 * top_contexts.h
 *	  The names that most of this process's memory goes by.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_TOP_CONTEXTS_H
#define SIFT_TOP_CONTEXTS_H

#define MOST_TOP_CONTEXTS		5

/* A name of a context, clipped, and the bytes of all contexts of that name. */
typedef struct ContextBytes
{
	char		name[NAMEDATALEN];
	int64		bytes;
} ContextBytes;

/* The largest first. */
typedef struct TopContexts
{
	int			count;
	ContextBytes contexts[MOST_TOP_CONTEXTS];
} TopContexts;

extern void top_contexts_find(TopContexts *top);

#endif							/* SIFT_TOP_CONTEXTS_H */
