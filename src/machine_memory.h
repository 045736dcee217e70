/*-------------------------------------------------------------------------
 *
 * machine_memory.h
 *	  How much memory the machine, or the control group, gives this server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_MACHINE_MEMORY_H
#define SIFT_MACHINE_MEMORY_H

typedef struct MachineMemory
{
	int64		bytes;			/* -1 if it is not known */
	char		source[MAXPGPATH];	/* the file that says so */
} MachineMemory;

extern void machine_memory(const char *root, MachineMemory *memory);

#endif							/* SIFT_MACHINE_MEMORY_H */
