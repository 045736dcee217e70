/*
 * bench.h
 *	  What the files of the bench share.
 *
 * sift_bench.c	contexts and allocators, chunk by chunk
 * rows_bench.c	rows of several values
 * pin_bench.c	what is held when most has been freed
 * store_bench.c	row stores
 * peers.c		allocators that are not PostgreSQL's
 */
#ifndef BENCH_H
#define BENCH_H

#include <time.h>

#include "extension/sift/sift.h"

/* An allocator that is called as malloc and free are. */
typedef struct Peer
{
	const char *name;
	void	   *(*alloc) (size_t size);
	void		(*free) (void *chunk);
	void		(*trim) (void);		/* give all back that can be */
} Peer;

extern const Peer *peer_find(const char *name);
extern int64 private_memory(void);

static inline int64
clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64CONST(1000000000) + time.tv_nsec;
}

#endif							/* BENCH_H */
