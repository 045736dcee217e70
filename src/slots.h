/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  One slot in shared memory for each process that has a PGPROC.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_SLOTS_H
#define SIFT_SLOTS_H

#include "sift.h"

/*
 * The account of this process: its slot once slots_attach() has found one, a
 * private copy before, after, and where the library is not preloaded.
 *
 * Only the process itself writes it, with plain stores; readers in other
 * processes may be a moment late, and never see half a number.
 */
extern SiftUsageData *my_account;

/* True when slots_attach() has nothing left to do. */
extern bool slots_attached;

extern void slots_request(void);
extern void slots_startup(void);
extern bool slots_exist(void);
extern void slots_attach(void);
extern bool slots_read(int pid, SiftUsageData *account);

#endif							/* SIFT_SLOTS_H */
