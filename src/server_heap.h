/*-------------------------------------------------------------------------
 *
 * server_heap.h
 *	  What the server program takes by malloc.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_SERVER_HEAP_H
#define SIFT_SERVER_HEAP_H

extern bool server_heap_start(void);
extern bool server_heap_accounted;

/* Whether the kind "server" is accounted. */
static inline bool
server_heap_is_accounted(void)
{
	return server_heap_accounted;
}

#endif							/* SIFT_SERVER_HEAP_H */
