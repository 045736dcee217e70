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
#include <unistd.h>

#include "extension/sift/sift.h"
#include "storage/fd.h"

/* An allocator that is called as malloc and free are. */
typedef struct Peer
{
	void	   *(*alloc) (size_t size);
	void		(*free) (void *chunk);
	void		(*trim) (void);		/* give all back that can be */
} Peer;

extern const Peer *peer_find(const char *name);

static inline int64
clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64CONST(1000000000) + time.tv_nsec;
}

/* Private memory of the process that is resident, bytes. */
static inline int64
private_memory(void)
{
	FILE	   *file = AllocateFile("/proc/self/statm", "r");
	long long	resident = 0;
	long long	shared = 0;

	if (file == NULL || fscanf(file, "%*d %lld %lld", &resident, &shared) != 2)
		elog(ERROR, "could not read /proc/self/statm");
	FreeFile(file);
	return (resident - shared) * sysconf(_SC_PAGESIZE);
}

#endif							/* BENCH_H */
