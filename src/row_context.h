/*-------------------------------------------------------------------------
 *
 * row_context.h
 *	  Contexts whose chunks are freed one by one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_ROW_CONTEXT_H
#define SIFT_ROW_CONTEXT_H

#include "compat.h"

extern const MemoryContextMethods row_context_methods;

extern MemoryContext row_context_create(MemoryContext parent, const char *name,
										Size first_size, Size max_size);
extern bool is_row_context(MemoryContext context);

#endif							/* SIFT_ROW_CONTEXT_H */
