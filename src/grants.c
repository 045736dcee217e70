/*-------------------------------------------------------------------------
 *
 * grants.c
 *	  What a process may charge without asking the others.
 *
 * A session is limited as a whole, with its parallel workers, and so is the
 * server.  Both are counted where all their processes can reach them, and a
 * process draws from there in grants of 1 MB, so that what it charges and
 * releases moves within its own slot most of the time.  It gives back what it
 * has to spare when that is two grants.
 *
 * A session without workers can be charged to the last byte of its limit,
 * since its last grant is as small as it must be.  Each worker may add one
 * grant to the limit, so that what the others have drawn and do not use does
 * not count against it.
 *
 * Drawn is more than charged, or the same.  What was charged against a limit
 * (a waiver, the float) is drawn to the byte.
 *
 * Where the library is not preloaded the counters are the process's own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "grants.h"
#include "storage/ipc.h"

/* Nothing is asked for in earnest above this; sums of it do not overflow. */
#define MOST_BYTES				((Size) 1 << 60)

GrantWindow grant_window = {.bottom = PG_INT64_MIN};
void		(*grants_on_growth) (void) = NULL;
void		(*grants_before_detach) (void) = NULL;

static int64 total_limit = -1;	/* bytes; in force where there is a total */

/* ----------------------------------------------------------------
 *		The counters
 * ----------------------------------------------------------------
 */

/* The limit of the session, and a grant for each worker; -1 without one. */
static int64
session_limit(void)
{
	int64		limit = my_account->limit_bytes;

	return limit < 0 ? -1 :
		limit + GRANT_SIZE * (int64) pg_atomic_read_u32(&my_session->workers);
}

/* The bytes that a counter is below its limit, negative above it. */
static int64
room_in(pg_atomic_uint64 *counter, int64 limit)
{
	return limit < 0 ? PG_INT64_MAX : limit - (int64) pg_atomic_read_u64(counter);
}

/*
 * add_within
 *		Add bytes to a counter, "least" or up to "most" of them, if its limit
 *		allows.
 *
 * Returns the bytes added, -1 when there is no room for the least.
 */
static int64
add_within(pg_atomic_uint64 *counter, int64 limit, int64 least, int64 most)
{
	uint64		drawn = pg_atomic_read_u64(counter);

	for (;;)
	{
		int64		bytes = limit < 0 ? most : Min(most, limit - (int64) drawn);

		if (bytes < least)
			return -1;
		if (bytes == 0 || pg_atomic_compare_exchange_u64(counter, &drawn, drawn + bytes))
			return bytes;
	}
}

static void
note_total_peak(void)
{
	slots_raise_peak(&my_total->peak, pg_atomic_read_u64(&my_total->drawn));
}

/* Add to the total, whatever its limit says; bytes may be negative. */
static void
add_to_total(int64 bytes)
{
	pg_atomic_fetch_add_u64(&my_total->drawn, bytes);
	note_total_peak();
}

/* Whether no limit is passed by what is there. */
static bool
within_limits(void)
{
	return room_in(&my_session->drawn, session_limit()) >= 0 && grants_total_room() >= 0;
}

/*
 * set_window
 *		What this process has drawn is so many bytes from now on.
 */
static void
set_window(int64 drawn)
{
	int64		shared = pg_atomic_read_u64(&my_slot->session.shared_bytes);

	my_slot->granted = drawn;
	grant_window.top = drawn;
	grant_window.fits = within_limits() ? drawn : 0;
	grant_window.bottom = drawn - 2 * GRANT_SIZE;
	grant_window.highest = Max(grant_window.highest, drawn);
	grant_window.limited = my_account->limit_bytes >= 0 || grants_total_limit() >= 0;
	if (grants_total_room() >= 0)
		grant_window.within_total = grants_session_held();
	if (shared > 0)
		slots_raise_peak(&my_slot->session.peak, my_account->charged_bytes + shared);
	if (unlikely((int64) pg_atomic_read_u64(&my_session->drawn) != drawn))
		slots_raise_peak(&my_session->statement_peak, grants_session_held());
}

/* ----------------------------------------------------------------
 *		Drawing and giving back
 * ----------------------------------------------------------------
 */

/*
 * grants_draw
 *		Draw what is missing to charge that many bytes more, and some to spare.
 *
 * Without any limit nothing is drawn ahead; grants_cover() will.
 */
GrantResult
grants_draw(Size bytes)
{
	int64		least;
	int64		from_session;
	int64		from_total;

	if (!grant_window.limited)
		return GRANTED;
	/* it may take and release memory; so not when some is drawn and not charged */
	if (unlikely(grant_window.watched))
		grants_on_growth();
	if (grant_window.fits == 0)
		grants_give_back(0);
	least = Max(my_account->charged_bytes + (int64) Min(bytes, MOST_BYTES) - grant_window.top, 0);
	from_session = add_within(&my_session->drawn, session_limit(), least,
							  TYPEALIGN64(GRANT_SIZE, least));
	if (from_session < 0)
		return OVER_SESSION_LIMIT;
	from_total = add_within(&my_total->drawn, grants_total_limit(), least, from_session);
	pg_atomic_fetch_sub_u64(&my_session->drawn, from_session - Max(from_total, 0));
	if (from_total < 0)
		return OVER_TOTAL_LIMIT;
	note_total_peak();
	set_window(grant_window.top + from_total);
	return GRANTED;
}

/*
 * grants_cover
 *		More is charged than was drawn: draw it, whatever the limits say, and
 *		to spare if they allow.
 */
void
grants_cover(void)
{
	int64		missing = my_account->charged_bytes - grant_window.top;
	int64		bytes = TYPEALIGN64(GRANT_SIZE, missing);

	if (room_in(&my_session->drawn, session_limit()) < bytes || grants_total_room() < bytes)
		bytes = missing;
	pg_atomic_fetch_add_u64(&my_session->drawn, bytes);
	add_to_total(bytes);
	set_window(grant_window.top + bytes);
	if (unlikely(grant_window.watched))
		grants_on_growth();
}

/*
 * grants_give_back
 *		Give back what was drawn and is not charged, but for so many bytes.
 */
void
grants_give_back(int64 spare)
{
	int64		bytes = grant_window.top - my_account->charged_bytes - spare;

	if (bytes > 0)
	{
		pg_atomic_fetch_sub_u64(&my_session->drawn, bytes);
		pg_atomic_fetch_sub_u64(&my_total->drawn, bytes);
	}
	set_window(grant_window.top - Max(bytes, 0));
}

/*
 * leave_refusals
 *		A worker ends: what it was refused is on its leader's record.
 */
static void
leave_refusals(void)
{
	for (int kind = 0; kind < SIFT_NUM_KINDS; kind++)
		pg_atomic_fetch_add_u64(&my_session->refusals[kind], my_account->kinds[kind].refusals);
	pg_atomic_fetch_add_u64(&my_session->waived_bytes, my_account->waived_bytes);
}

/* The end of the process: nothing stays drawn for it. */
static void
detach(int code, Datum arg)
{
	if (grants_before_detach != NULL)
		grants_before_detach();
	pg_atomic_fetch_sub_u64(&my_session->drawn, grant_window.top);
	pg_atomic_fetch_sub_u64(&my_total->drawn,
							grant_window.top + Max(my_account->free_heap_bytes, 0));
	if (slots_is_worker())
	{
		leave_refusals();
		pg_atomic_fetch_sub_u32(&my_session->workers, 1);
	}
	slots_detach();
	set_window(0);
	grants_cover();
}

/*
 * grants_attach
 *		Take the slot of this process, if there is one by now, and draw there
 *		what is charged.
 */
void
grants_attach(void)
{
	if (!slots_attach())
		return;
	on_shmem_exit(detach, (Datum) 0);
	if (slots_is_worker())
		pg_atomic_fetch_add_u32(&my_session->workers, 1);
	add_to_total(Max(my_account->free_heap_bytes, 0));
	set_window(0);
	grants_cover();
	grant_window.within_total = grants_session_held();
}

/* ----------------------------------------------------------------
 *		The total
 * ----------------------------------------------------------------
 */

/*
 * grants_set_total_limit
 *		Set the limit of all backends in MB, -1 for none.
 */
void
grants_set_total_limit(int limit_mb)
{
	total_limit = limit_mb < 0 ? -1 : (int64) limit_mb * 1024 * 1024;
	grants_give_back(0);
}

/*
 * grants_total_limit
 *		That limit in bytes, -1 without one, and where this process is counted
 *		with no other.
 */
int64
grants_total_limit(void)
{
	return slots_are_shared() ? total_limit : -1;
}

/* Bytes that all backends are below it, negative when they are above it. */
int64
grants_total_room(void)
{
	return room_in(&my_total->drawn, grants_total_limit());
}

/*
 * grants_total_held
 *		Bytes that all backends hold: charged, kept free by the C library, and
 *		in shared memory that is no session's.
 *
 * What was drawn and is not charged is left out; exact when nothing happens.
 */
int64
grants_total_held(void)
{
	int64		held = pg_atomic_read_u64(&slots_total()->drawn);
	const SiftSlot *slot = NULL;

	while ((slot = slots_next(slot)) != NULL)
		held -= slot->granted - slot->account.charged_bytes;
	return Max(held, 0);
}

/* The free memory that the C library keeps is so many bytes by now. */
void
grants_publish_free_heap(int64 bytes)
{
	add_to_total(bytes - Max(my_account->free_heap_bytes, 0));
	my_account->free_heap_bytes = bytes;
}

/* ----------------------------------------------------------------
 *		The session
 * ----------------------------------------------------------------
 */

/* Let the session's peaks, of more than this process, begin at what is there. */
void
grants_reset_peak(void)
{
	uint64		shared = pg_atomic_read_u64(&my_slot->session.shared_bytes);

	pg_atomic_write_u64(&my_slot->session.shared_peak, shared);
	pg_atomic_write_u64(&my_slot->session.peak, my_account->charged_bytes + shared);
}

/*
 * grants_take_beside
 *		Draw bytes for the session that are not in the account of a process.
 *
 * force: whatever the limits say
 */
GrantResult
grants_take_beside(Size bytes, bool force)
{
	int64		count = (int64) Min(bytes, MOST_BYTES);

	/* what this process has to spare is not in its own way */
	if (room_in(&my_session->drawn, session_limit()) < count || grants_total_room() < count)
		grants_give_back(0);
	if (add_within(&my_session->drawn, force ? -1 : session_limit(), count, count) < 0)
		return OVER_SESSION_LIMIT;
	if (add_within(&my_total->drawn, force ? -1 : grants_total_limit(), count, count) < 0)
	{
		grants_release(my_session, count);
		return OVER_TOTAL_LIMIT;
	}
	note_total_peak();
	set_window(grant_window.top);
	return GRANTED;
}

/* What was drawn beside is gone, or is the server's: for a session, maybe not one's own. */
void
grants_release(SiftSession *session, Size bytes)
{
	pg_atomic_fetch_sub_u64(&session->drawn, bytes);
}

/*
 * grants_take_total
 *		The server has so many bytes more, or less, that are no session's.
 */
void
grants_take_total(int64 bytes)
{
	SiftTotal  *total = slots_total();

	slots_raise_peak(&total->peak, pg_atomic_add_fetch_u64(&total->drawn, bytes));
}
