/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  One slot in shared memory for each process that has a PGPROC.
 *
 * A slot holds the account of one process, so that others can read it without
 * asking that process for anything.  The index of a slot is the process's
 * index among the PGPROCs, auxiliary processes included; so no lock is needed
 * to find or to give back a slot.  The postmaster, the logger and children
 * that are only there to refuse a connection have no PGPROC and no slot.
 *
 * Without shared_preload_libraries there is no shared memory: the process
 * then keeps its account to itself, and nobody else can see it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "port/atomics.h"
#include "slots.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

typedef struct SiftSlot
{
	int			pid;			/* owner; 0 when free.  Set after the account is
								 * in order, cleared before it goes */
	SiftUsageData account;
} SiftSlot;

static SiftSlot *slots = NULL;

/* 15 has no other name for the auxiliary processes' PGPROCs either */
#define NUM_SLOTS			(MaxBackends + NUM_AUXILIARY_PROCS)

static SiftUsageData private_account = {.limit_bytes = -1, .free_heap_bytes = -1};
SiftUsageData *my_account = &private_account;
bool		slots_attached = false;

/*
 * slots_request
 *		Ask for the shared memory (shmem_request_hook).
 */
void
slots_request(void)
{
	RequestAddinShmemSpace(mul_size(NUM_SLOTS, sizeof(SiftSlot)));
}

/*
 * slots_startup
 *		Find or make the shared memory (shmem_startup_hook).
 */
void
slots_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	slots = ShmemInitStruct("sift slots",
							mul_size(NUM_SLOTS, sizeof(SiftSlot)), &found);
	if (!found)
		memset(slots, 0, mul_size(NUM_SLOTS, sizeof(SiftSlot)));
	LWLockRelease(AddinShmemInitLock);
}

/*
 * slots_exist
 *		Whether the accounts of other processes can be read.
 */
bool
slots_exist(void)
{
	return slots != NULL;
}

/*
 * slots_detach
 *		Give the slot back at the end of the process.
 *
 * The account goes on in private: contexts may be deleted after this.
 */
static void
slots_detach(int code, Datum arg)
{
	SiftSlot   *slot = (SiftSlot *) DatumGetPointer(arg);

	private_account = slot->account;
	my_account = &private_account;
	slot->pid = 0;
	pg_write_barrier();
	memset(&slot->account, 0, sizeof(slot->account));
}

/*
 * slots_attach
 *		Take the slot of this process, if there is one by now.
 *
 * What was charged before is carried over.  Cheap, and may be called again
 * until slots_attached is true.
 */
void
slots_attach(void)
{
	SiftSlot   *slot;

	if (slots_attached || MyProc == NULL)
		return;
	if (slots == NULL)
	{
		slots_attached = true;
		return;
	}
	slot = &slots[my_proc_index()];
	on_shmem_exit(slots_detach, PointerGetDatum(slot));
	slot->account = private_account;
	my_account = &slot->account;
	pg_write_barrier();
	slot->pid = MyProcPid;
	slots_attached = true;
}

/*
 * slots_read
 *		Copy the account of another process.
 *
 * Returns false when that process has no slot (yet).
 */
bool
slots_read(int pid, SiftUsageData *account)
{
	for (int i = 0; i < NUM_SLOTS; i++)
	{
		volatile SiftSlot *slot = &slots[i];

		if (slot->pid != pid)
			continue;
		pg_read_barrier();
		*account = *(SiftUsageData *) &slot->account;
		pg_read_barrier();
		return slot->pid == pid;
	}
	return false;
}
