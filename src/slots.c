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
 * Beside it is what a session shares with its parallel workers, and once for
 * the server what all share.
 *
 * Without shared_preload_libraries there is no shared memory: the process
 * then keeps its account to itself, and nobody else can see it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "postmaster/bgworker.h"
#include "slots.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

typedef struct SharedState
{
	SiftTotal	total;
	SiftSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} SharedState;

static SharedState *shared = NULL;

/* 15 has no other name for the auxiliary processes' PGPROCs either */
#define NUM_SLOTS			(MaxBackends + NUM_AUXILIARY_PROCS)

static SiftTotal private_total;
static SiftSlot private_slot = {
	.account = {.limit_bytes = -1, .free_heap_bytes = -1}
};
SiftSlot   *my_slot = &private_slot;
SiftUsageData *my_account = &private_slot.account;
SiftSession *my_session = &private_slot.session;
SiftTotal  *my_total = &private_total;
bool		slots_attached = false;

static Size
shared_size(void)
{
	return add_size(offsetof(SharedState, slots), mul_size(NUM_SLOTS, sizeof(SiftSlot)));
}

/*
 * slots_request
 *		Ask for the shared memory (shmem_request_hook).
 */
void
slots_request(void)
{
	RequestAddinShmemSpace(shared_size());
}

/*
 * slots_startup
 *		Find or make the shared memory (shmem_startup_hook).
 *
 * All atomic counters are 64 and 32 bits wide on the systems that are
 * supported, so that zero bytes are counters of zero.
 */
void
slots_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("sift slots", shared_size(), &found);
	if (!found)
		memset(shared, 0, shared_size());
	LWLockRelease(AddinShmemInitLock);
}

/*
 * slots_exist
 *		Whether the accounts of other processes can be read.
 */
bool
slots_exist(void)
{
	return shared != NULL;
}

/*
 * leader_pid
 *		The leader of this process if it is a parallel worker, else 0.
 *
 * Known from the start, before ParallelWorkerMain() has run.
 */
static int
leader_pid(void)
{
	if (MyBgworkerEntry == NULL ||
		strcmp(MyBgworkerEntry->bgw_function_name, "ParallelWorkerMain") != 0)
		return 0;
	return MyBgworkerEntry->bgw_notify_pid;
}

bool
slots_are_shared(void)
{
	return my_slot != &private_slot;
}

/* Whether this process charges the account of a leader. */
bool
slots_is_worker(void)
{
	return my_slot->leader_pid != 0;
}

/*
 * slots_attach
 *		Take the slot of this process, if there is one by now.
 *
 * The account is carried over; the caller sees to what was drawn for it, and
 * to slots_detach() at the end.  Cheap, and may be called again until
 * slots_attached is true.  Returns whether the slot was taken just now.
 */
bool
slots_attach(void)
{
	SiftSlot   *slot;
	const SiftSlot *leader;

	if (slots_attached || MyProc == NULL)
		return false;
	slots_attached = true;
	if (shared == NULL)
		return false;
	slot = &shared->slots[my_proc_index()];
	slot->account = private_slot.account;
	slot->peak_before = private_slot.peak_before;
	slot->granted = 0;
	slot->leader_pid = leader_pid();
	pg_atomic_write_u64(&slot->session.shared_peak, 0);
	pg_atomic_write_u64(&slot->session.segments_made, 0);
	pg_atomic_write_u64(&slot->session.segments_removed, 0);
	pg_atomic_write_u64(&slot->session.peak, 0);
	pg_atomic_write_u64(&slot->session.statement_peak, 0);
	pg_atomic_write_u64(&slot->session.refused, 0);
	pg_atomic_write_u64(&slot->session.waived, 0);
	pg_atomic_write_u32(&slot->session.has_refusals, 0);
	pg_atomic_write_u32(&slot->session.near_limit, 0);
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		pg_atomic_write_u64(&slot->session.refusals[kind], 0);
	pg_atomic_write_u64(&slot->session.waived_bytes, 0);

	leader = slot->leader_pid != 0 ? slots_find(slot->leader_pid) : NULL;
	if (leader == NULL)
		slot->leader_pid = 0;
	else
	{
		int64		limit = leader->account.limit_bytes;

		pg_read_barrier();
		if (leader->pid == slot->leader_pid)
			slot->account.limit_bytes = limit;
	}
	memset(&private_slot.session, 0, sizeof(private_slot.session));
	memset(&private_total, 0, sizeof(private_total));
	my_slot = slot;
	my_account = &slot->account;
	my_session = leader == NULL ? &slot->session : unconstify(SiftSession *, &leader->session);
	my_total = &shared->total;
	pg_write_barrier();
	slot->pid = MyProcPid;
	return true;
}

/*
 * slots_detach
 *		Give the slot back at the end of the process.
 *
 * The account goes on in private: contexts may be deleted after this.
 */
void
slots_detach(void)
{
	SiftSlot   *slot = my_slot;

	private_slot.account = slot->account;
	private_slot.peak_before = slot->peak_before;
	my_slot = &private_slot;
	my_account = &private_slot.account;
	my_session = &private_slot.session;
	my_total = &private_total;
	slot->pid = 0;
	pg_write_barrier();
	memset(&slot->account, 0, sizeof(slot->account));
}

/* The index of the slot that the session of this process lies in. */
int
slots_session_index(void)
{
	int			index = slots_of_session(my_session) - shared->slots;

	Assert(slots_are_shared() && index >= 0 && index < NUM_SLOTS);
	return index;
}

SiftSession *
slots_session(int index)
{
	return &shared->slots[index].session;
}

/* What all processes of the server share, for whoever has no slot (any more). */
SiftTotal *
slots_total(void)
{
	return &shared->total;
}

/*
 * slots_usage
 *		The account in a slot with what lies beside it: the session's shared
 *		memory, and what its workers have left.
 */
void
slots_usage(const SiftSlot *slot, SiftUsageData *usage)
{
	SiftSession *session = unconstify(SiftSession *, &slot->session);
	SiftKindUsage *kind = &usage->kinds[SIFT_SHARED];

	*usage = *(const SiftUsageData *) &slot->account;
	kind->bytes = pg_atomic_read_u64(&session->shared_bytes);
	kind->peak_bytes = pg_atomic_read_u64(&session->shared_peak);
	kind->blocks_taken = pg_atomic_read_u64(&session->segments_made);
	kind->blocks_returned = pg_atomic_read_u64(&session->segments_removed);
	usage->charged_bytes += kind->bytes;
	usage->peak_bytes = Max(usage->peak_bytes, slot->peak_before);
	usage->peak_bytes = Max(usage->peak_bytes, (int64) pg_atomic_read_u64(&session->peak));
	usage->waived_bytes += pg_atomic_read_u64(&session->waived_bytes);
	for (int i = 0; i < SIFT_NUM_KINDS; i++)
		usage->kinds[i].refusals += pg_atomic_read_u64(&session->refusals[i]);
}

/*
 * slots_next
 *		The slot in use that follows, the first one after NULL; NULL at the end.
 *
 * Its owner may end at any moment, and another one take it.
 */
const SiftSlot *
slots_next(const SiftSlot *slot)
{
	for (slot = slot == NULL ? shared->slots : slot + 1;
		 slot < shared->slots + NUM_SLOTS; slot++)
	{
		if (*(volatile const int *) &slot->pid != 0)
		{
			pg_read_barrier();
			return slot;
		}
	}
	return NULL;
}

/*
 * slots_find
 *		The slot of a process, NULL when it has none (yet).
 */
const SiftSlot *
slots_find(int pid)
{
	const SiftSlot *slot = NULL;

	while ((slot = slots_next(slot)) != NULL)
	{
		if (slot->pid == pid)
			return slot;
	}
	return NULL;
}

/*
 * slots_session_usage
 *		What the session of this process holds: the leader's account, and of
 *		its workers' the bytes.
 */
void
slots_session_usage(SiftUsageData *usage)
{
	const SiftSlot *leader = slots_of_session(my_session);
	int			pid = slots_is_worker() ? my_slot->leader_pid : MyProcPid;
	const SiftSlot *slot = NULL;

	slots_usage(leader, usage);
	if (pg_atomic_read_u32(&my_session->workers) == 0)
		return;
	while ((slot = slots_next(slot)) != NULL)
	{
		if (slot->leader_pid != pid)
			continue;
		usage->charged_bytes += slot->account.charged_bytes;
		for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
			usage->kinds[kind].bytes += slot->account.kinds[kind].bytes;
	}
}
