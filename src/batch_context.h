/*-------------------------------------------------------------------------
 *
 * batch_context.h
 *	  Contexts whose memory goes back all at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_BATCH_CONTEXT_H
#define SIFT_BATCH_CONTEXT_H

#include "compat.h"

extern MemoryContext batch_context_create(MemoryContext parent, const char *name,
										  int flags, Size first_size, Size max_size);

#endif							/* SIFT_BATCH_CONTEXT_H */
