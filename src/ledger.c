/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  Who holds how many bytes, by kind, against which limit.
 *
 * Everything that Sift takes from the operating system is charged here before
 * it is taken; what the server program takes is asked about before
 * (ledger_fits) and charged when it is there (ledger_take).  Limits are tested
 * here, by way of grants.c, though more may be let through.  Idle memory is
 * charged as well, so the sum of all kinds is what the process really has.
 *
 * A charge that does not fit is refused.  Whoever asks for memory calls
 * ledger_make_room() before that: it asks the reclaimers, in order of their
 * cost, until the request fits.  That is a call of its own because a
 * reclaimer may be code of an extension: it may give back memory of any
 * context, and may even raise, so the caller must have nothing half done.
 *
 * The ledger does not know blocks, contexts or the operating system.  Bytes
 * are Size where they are asked for and int64 where they are kept.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "ledger.h"
#include "miscadmin.h"

/* A reclaimer, in a list by rising cost. */
typedef struct Reclaimer
{
	struct Reclaimer *next;
	const char *name;
	int			cost;
	SiftReclaimer callback;
	void	   *arg;
} Reclaimer;

Refusal		ledger_last_refusal;

static Reclaimer *reclaimers = NULL;
static bool reclaiming = false; /* no reclaimer is asked from within another */
static int64 refuse_countdown = 0;	/* charges until the one refused for a test */
static bool counting_down = false;	/* a test has them counted */
static int64 session_limits[NUM_SESSION_LIMITS] = {-1, -1}; /* bytes */
static GrantResult last_draw = GRANTED;

/* Which of the limits of the session counts. */
static LedgerLimit
limit_in_effect(void)
{
	return (uint64) session_limits[LIMIT_OF_SUPERUSER] < (uint64) session_limits[LIMIT_OF_USER] ?
		LIMIT_OF_SUPERUSER : LIMIT_OF_USER;
}

/*
 * ledger_set_limit
 *		Set one of the limits, -1 for none: the total in MB, the others in kB.
 *
 * A limit below what is held takes nothing away; nothing more is granted
 * until it fits.
 */
void
ledger_set_limit(LedgerLimit which, int limit)
{
	if (which == LIMIT_OF_TOTAL)
		grants_set_total_limit(limit);
	else
	{
		session_limits[which] = limit < 0 ? -1 : (int64) limit * 1024;
		my_account->limit_bytes = session_limits[limit_in_effect()];
		grants_give_back(0);
	}
}

/* A limit in bytes, -1 for none. */
int64
ledger_limit_of(LedgerLimit which)
{
	return which == LIMIT_OF_TOTAL ? grants_total_limit() : session_limits[which];
}

/*
 * ledger_limit_passed
 *		The limit that the last request which did not fit would pass.
 */
LedgerLimit
ledger_limit_passed(void)
{
	return last_draw == OVER_TOTAL_LIMIT ? LIMIT_OF_TOTAL : limit_in_effect();
}

/* The setting of a limit, for messages. */
const char *
ledger_limit_name(LedgerLimit which)
{
	static const char *const names[NUM_LIMITS] = {
		[LIMIT_OF_USER] = "sift.memory_limit",
		[LIMIT_OF_SUPERUSER] = "sift.max_memory_limit",
		[LIMIT_OF_TOTAL] = "sift.total_memory_limit"
	};

	return names[which];
}

/*
 * ledger_draw
 *		Whether that many bytes more would pass no limit, where that cannot be
 *		told from what was granted before.
 */
bool
ledger_draw(Size bytes)
{
	if (unlikely(!slots_attached))
		grants_attach();
	last_draw = grants_draw(bytes);
	return last_draw == GRANTED;
}

/*
 * ledger_draw_beside
 *		Charge the session with bytes that are not in this process's account.
 *
 * force: whatever the limits say
 */
bool
ledger_draw_beside(Size bytes, bool force)
{
	if (unlikely(!slots_attached))
		grants_attach();
	last_draw = grants_take_beside(bytes, force);
	return last_draw == GRANTED;
}

/*
 * ledger_is_within_limits
 *		Whether no limit is passed now.  (ledger_fits(0) goes by what was granted
 *		before; others may have taken more since.)
 */
bool
ledger_is_within_limits(void)
{
	return ledger_draw(0);
}

/* Tells whose code an error came from. */
static void
reclaimer_error_context(void *arg)
{
	errcontext("reclaimer \"%s\"", ((Reclaimer *) arg)->name);
}

/*
 * call_reclaimer
 *		Ask one reclaimer; the guard is taken off even if it raises.
 */
static void
call_reclaimer(Reclaimer *reclaimer, Size wanted)
{
	ErrorContextCallback context;

	context.callback = reclaimer_error_context;
	context.arg = reclaimer;
	context.previous = error_context_stack;
	error_context_stack = &context;
	reclaiming = true;
	PG_TRY();
	{
		(void) reclaimer->callback(wanted, reclaimer->arg);
	}
	PG_FINALLY();
	{
		reclaiming = false;
	}
	PG_END_TRY();
	error_context_stack = context.previous;
}

/* Bytes that must go before "wanted" bytes more can be had. */
static Size
to_give_back(Size wanted, bool by_limit)
{
	if (!by_limit)
		return wanted;
	if (ledger_limit_passed() == LIMIT_OF_TOTAL)
		return wanted - Min(grants_total_room(), (int64) wanted);
	return wanted - Min(my_account->limit_bytes - ledger_held(), (int64) wanted);
}

/*
 * ask_reclaimers
 *		Ask the reclaimers of this cost or less, as long as it takes.
 *
 * What extensions give back becomes idle memory or free heap first, so Sift's
 * own reclaimers are asked again after each of theirs.
 */
static void
ask_reclaimers(Size wanted, bool by_limit, int most_cost)
{
	for (Reclaimer *r = reclaimers; r != NULL && r->cost <= most_cost; r = r->next)
	{
		if (by_limit && ledger_draw(wanted))
			return;
		/* the free heap counts in the total alone */
		if (r->cost == COST_OF_FREE_HEAP && by_limit && ledger_limit_passed() != LIMIT_OF_TOTAL)
			continue;
		call_reclaimer(r, to_give_back(wanted, by_limit));
		if (r->cost > COST_OF_FREE_HEAP)
			ask_reclaimers(wanted, by_limit, COST_OF_FREE_HEAP);
	}
}

/*
 * ledger_make_room
 *		Ask reclaimers for memory.
 *
 * by_limit: until "wanted" bytes would fit; else all of them, since something
 *		other than the limit is in the way
 * whom: in a critical section, where an error would be a PANIC, and while a
 *		lock is held extensions are not asked in any case
 *
 * Returns whether blocks or idle memory were given back; the caller then looks
 * again at what it needs.  Raises what a reclaimer raises.
 */
bool
ledger_make_room(Size wanted, bool by_limit, Reclaimers whom)
{
	SiftUsageData before = *my_account;

	if (reclaiming)
		return false;
	ask_reclaimers(wanted, by_limit,
				   whom == OWN_RECLAIMERS || CritSectionCount > 0 || InterruptHoldoffCount > 0 ?
				   COST_OF_FREE_HEAP : INT_MAX);
	return my_account->charged_bytes < before.charged_bytes ||
		my_account->free_heap_bytes < before.free_heap_bytes ||
		my_account->kinds[SIFT_IDLE].bytes > before.kinds[SIFT_IDLE].bytes;
}

/*
 * ledger_is_reclaiming
 *		Whether a reclaimer is being asked, somewhere within a request.
 */
bool
ledger_is_reclaiming(void)
{
	return reclaiming;
}

/*
 * ledger_is_counting_down
 *		Whether a test has charges counted.  Nothing that the server program
 *		takes is refused then but by ledger_count_down().
 */
bool
ledger_is_counting_down(void)
{
	return counting_down;
}

/*
 * ledger_count_down
 *		Count a charge; whether it is the one to be refused.
 */
bool
ledger_count_down(void)
{
	return refuse_countdown > 0 && --refuse_countdown == 0;
}

/*
 * ledger_charge
 *		Charge a block of a kind, and what comes along with it as idle.
 *
 * kind: what the block is for
 * bytes: bytes of it that are new; 0 when it is made of idle memory alone
 * spare: bytes taken beside it, which become idle
 *
 * Returns false, with nothing charged, when a limit would be passed.  Peaks
 * are noted by ledger_move(), when the memory is really there.
 */
bool
ledger_charge(SiftKind kind, Size bytes, Size spare)
{
	SiftUsageData *account;

	if (unlikely(!slots_attached))
		grants_attach();
	account = my_account;
	if (unlikely(counting_down) && ledger_count_down())
	{
		ledger_refuse(kind, REFUSED_BY_TEST);
		return false;
	}
	if (unlikely(!ledger_fits(bytes + spare)))
	{
		ledger_refuse(kind, REFUSED_BY_LIMIT);
		return false;
	}
	account->charged_bytes += bytes + spare;
	account->kinds[kind].bytes += bytes;
	account->kinds[SIFT_IDLE].bytes += spare;
	if (unlikely(account->charged_bytes > grant_window.top))
		grants_cover();
	return true;
}

/*
 * ledger_move
 *		Bytes change their kind: the sum stays.  May be 0 bytes, to note the
 *		peaks of both kinds.
 */
void
ledger_move(SiftKind from, SiftKind to, Size bytes)
{
	my_account->kinds[from].bytes -= bytes;
	my_account->kinds[to].bytes += bytes;
	ledger_note_peak(from);
	ledger_note_peak(to);
	my_account->peak_bytes = Max(my_account->peak_bytes, my_account->charged_bytes);
}

/*
 * ledger_refuse
 *		Note that a request was turned down, and why.
 */
void
ledger_refuse(SiftKind kind, RefusalReason reason)
{
	ledger_last_refusal.reason = reason;
	ledger_last_refusal.limit = ledger_limit_passed();
	ledger_last_refusal.kind = kind;
	ledger_last_refusal.saved_errno = errno;
	my_account->kinds[kind].refusals++;
	pg_atomic_fetch_add_u64(&my_session->refused, 1);
	pg_atomic_write_u32(&my_session->has_refusals, 1);
	if (reason == REFUSED_BY_LIMIT && ledger_last_refusal.limit == LIMIT_OF_TOTAL)
		pg_atomic_fetch_add_u64(&my_total->refusals, 1);
}

/* A request over the limit was let through. */
void
ledger_waive(Size bytes)
{
	my_account->waived_bytes += bytes;
	pg_atomic_fetch_add_u64(&my_session->waived, bytes);
	pg_atomic_write_u32(&my_session->has_refusals, 1);
}

/* A block was taken, for a context or, of idle memory, from the system. */
void
ledger_block_taken(SiftKind kind)
{
	my_account->kinds[kind].blocks_taken++;
}

/* A block was given back, to the pool or, of idle memory, to the system. */
void
ledger_block_returned(SiftKind kind)
{
	my_account->kinds[kind].blocks_returned++;
}

/*
 * ledger_add_reclaimer
 *		Have a callback asked before a charge is refused.
 *
 * name is a constant.  Lasts as long as the process.  Raises 53200 when there
 * is no memory for the entry.
 */
void
ledger_add_reclaimer(const char *name, int cost, SiftReclaimer callback, void *arg)
{
	Reclaimer  *entry = MemoryContextAlloc(TopMemoryContext, sizeof(Reclaimer));
	Reclaimer **link = &reclaimers;

	while (*link != NULL && (*link)->cost <= cost)
		link = &(*link)->next;
	entry->name = name;
	entry->cost = cost;
	entry->callback = callback;
	entry->arg = arg;
	entry->next = *link;
	*link = entry;
}

/*
 * ledger_reset_peak
 *		Let the peaks begin again at what is held now.
 */
void
ledger_reset_peak(void)
{
	my_account->peak_bytes = my_account->charged_bytes;
	my_slot->peak_before = 0;
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		my_account->kinds[kind].peak_bytes = my_account->kinds[kind].bytes;
	grants_reset_peak();
}

/*
 * ledger_refuse_charge
 *		For tests: refuse the n-th charge from now on, once; 0 for none.
 */
void
ledger_refuse_charge(int64 n)
{
	refuse_countdown = n;
	counting_down = n > 0;
}
