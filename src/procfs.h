/*-------------------------------------------------------------------------
 *
 * procfs.h
 *	  Figures that the kernel keeps of a process.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_PROCFS_H
#define SIFT_PROCFS_H

#include "nodes/pg_list.h"

/* Resident memory of a process, in bytes; -1 where it is not known. */
typedef struct ProcMemory
{
	int64		rss;			/* resident, shared memory with it */
	int64		rss_anon;		/* private part of it */
	int64		peak_rss;		/* most that was resident */
} ProcMemory;

#define PROC_TITLE_SIZE			64

extern Size procfs_own_address_space(void);
extern int64 procfs_own_private_memory(void);
extern bool procfs_memory(int pid, ProcMemory *memory);
extern List *procfs_children(int parent_pid);
extern void procfs_title(int pid, char *title);

#endif							/* SIFT_PROCFS_H */
