/*-------------------------------------------------------------------------
 *
 * segments.c
 *	  Dynamic shared memory that a session makes.
 *
 * The server makes a segment by shm_open() and gives it its size by
 * posix_fallocate(), and whoever is the last to let go of it calls
 * shm_unlink().  These calls are redirected: the session of the process that
 * makes a segment is charged with it, as kind "shared", be it the leader or a
 * worker; and the same session is released when it goes, whoever removes it.
 * A table in shared memory tells whose it is.
 *
 * Some segments are not for the session that makes them: the server's
 * statistics, and what outlives the session.  They are the server's, at once or
 * from then on: they count in the total, and are shown with the postmaster.
 *
 * A segment that does not fit is refused by ENOMEM, which becomes an ERROR
 * where PostgreSQL made ready for a full file system.
 *
 * What this cannot see: segments where dynamic_shared_memory_type is not
 * "posix", what is taken from min_dynamic_shared_memory, which was paid for
 * when the server started, and segments of a library that is not loaded by
 * shared_preload_libraries, since there is no table then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "compat.h"
#include "got.h"
#include "ledger.h"
#include "refuse.h"
#include "report.h"
#include "segments.h"
#include "statement.h"
#include "storage/dsm_impl.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

/* "/PostgreSQL." and a number */
#define SEGMENT_NAME_SIZE		32

/* As many as the server can have: dsm.c has a table of that size. */
#define MAX_SEGMENTS			(64 + 5 * MaxBackends)

/* The session of a segment that is the server's. */
#define NO_SESSION				(-1)

typedef struct Segment
{
	char		name[SEGMENT_NAME_SIZE];	/* hash key; must be first */
	Size		bytes;
	int			session;		/* index of the slot; or NO_SESSION */
} Segment;

static HTAB *segments = NULL;
static LWLock *segments_lock;

static bool redirected = false;
static int	(*real_shm_open) (const char *name, int flags, mode_t mode);
static int	(*real_shm_unlink) (const char *name);
static int	(*real_posix_fallocate) (int fd, off_t offset, off_t length);

/* The segment that this process is making. */
static int	new_fd = -1;		/* -1: none */
static char new_name[SEGMENT_NAME_SIZE];

/* ----------------------------------------------------------------
 *		The table
 * ----------------------------------------------------------------
 */

/*
 * segments_request
 *		Ask for the shared memory (shmem_request_hook).
 */
void
segments_request(void)
{
	RequestAddinShmemSpace(hash_estimate_size(MAX_SEGMENTS, sizeof(Segment)));
	RequestNamedLWLockTranche("sift_segments", 1);
}

/*
 * segments_startup
 *		Find or make the table (shmem_startup_hook).
 */
void
segments_startup(void)
{
	HASHCTL		info = {.keysize = SEGMENT_NAME_SIZE, .entrysize = sizeof(Segment)};

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	segments = ShmemInitHash("sift segments", MAX_SEGMENTS, MAX_SEGMENTS, &info,
							 HASH_ELEM | HASH_STRINGS);
	segments_lock = &GetNamedLWLockTranche("sift_segments")->lock;
	LWLockRelease(AddinShmemInitLock);
}

/* Whether this process can use the table: not the postmaster. */
static bool
has_table(void)
{
	return segments != NULL && IsUnderPostmaster && MyProc != NULL;
}

/* The session of this process has so many bytes of shared memory more. */
static void
note_taken(Size bytes)
{
	uint64		shared = pg_atomic_add_fetch_u64(&my_session->shared_bytes, bytes);
	int64		leader = slots_of_session(my_session)->account.charged_bytes;

	pg_atomic_fetch_add_u64(&my_session->segments_made, 1);
	slots_raise_peak(&my_session->shared_peak, shared);
	slots_raise_peak(&my_session->peak, leader + shared);
}

/*
 * enter
 *		Note whose a segment is, which is charged already; false when the table
 *		is full.
 */
static bool
enter(const char *name, Size bytes, int session)
{
	Segment    *segment;

	LWLockAcquire(segments_lock, LW_EXCLUSIVE);
	segment = hash_search(segments, name, HASH_ENTER_NULL, NULL);
	if (segment != NULL)
	{
		segment->bytes = bytes;
		segment->session = session;
		if (session == NO_SESSION)
			pg_atomic_fetch_add_u64(&slots_total()->shared_bytes, bytes);
		else
			note_taken(bytes);
	}
	LWLockRelease(segments_lock);
	return segment != NULL;
}

/* A session is not charged with a segment any more. */
static void
release_session(SiftSession *session, Size bytes)
{
	grants_release(session, bytes);
	pg_atomic_fetch_sub_u64(&session->shared_bytes, bytes);
	pg_atomic_fetch_add_u64(&session->segments_removed, 1);
}

/* Release what a segment was charged to; nothing if it is not in the table. */
static void
remove_segment(const char *name)
{
	Segment    *segment;

	LWLockAcquire(segments_lock, LW_EXCLUSIVE);
	segment = hash_search(segments, name, HASH_REMOVE, NULL);
	if (segment != NULL)
	{
		/* the entry is free, and as it was until the lock is released */
		grants_take_total(-(int64) segment->bytes);
		if (segment->session != NO_SESSION)
			release_session(slots_session(segment->session), segment->bytes);
		else
			pg_atomic_fetch_sub_u64(&slots_total()->shared_bytes, segment->bytes);
	}
	LWLockRelease(segments_lock);
}

/*
 * leave_segments
 *		The session of this process ends: segments that outlive it are the
 *		server's.
 */
static void
leave_segments(void)
{
	HASH_SEQ_STATUS scan;
	Segment    *segment;
	int			index;

	if (slots_is_worker() || !has_table() || !slots_are_shared() ||
		pg_atomic_read_u64(&my_session->shared_bytes) == 0)
		return;
	index = slots_session_index();
	LWLockAcquire(segments_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, segments);
	while ((segment = hash_seq_search(&scan)) != NULL)
	{
		if (segment->session != index)
			continue;
		segment->session = NO_SESSION;
		release_session(my_session, segment->bytes);
		pg_atomic_fetch_add_u64(&slots_total()->shared_bytes, segment->bytes);
	}
	LWLockRelease(segments_lock);
}

/* ----------------------------------------------------------------
 *		Charging
 * ----------------------------------------------------------------
 */

/*
 * charge
 *		Charge the session with a segment that is to be made; false when it is
 *		refused.
 *
 * Extensions are not asked for memory: signals are blocked here, and would stay
 * so after an error.
 */
static bool
charge(Size bytes)
{
	bool		test = ledger_is_counting_down();

	if (ledger_draw_beside(bytes, false))
		return true;
	if (refuse_serves_client())
		ledger_make_room(bytes, true, OWN_RECLAIMERS);
	if (!refuse_is_safe(bytes, FOR_SEGMENT) ||
		(test ? !ledger_count_down() : refuse_within_float(bytes)))
	{
		if (!ledger_draw_beside(bytes, false))
		{
			ledger_waive(bytes);
			statement_unrefused(bytes);
			ledger_draw_beside(bytes, true);
		}
		return true;
	}
	/* last of all, since it tells which limit is passed */
	if (!test && ledger_draw_beside(bytes, false))
		return true;
	ledger_refuse(SIFT_SHARED, test ? REFUSED_BY_TEST : REFUSED_BY_LIMIT);
	report_refusal(NULL, bytes, ERROR_NEXT);
	refuse_note();
	return false;
}

/* ----------------------------------------------------------------
 *		What is called in place of the C library's functions
 * ----------------------------------------------------------------
 */

static int
accounted_shm_open(const char *name, int flags, mode_t mode)
{
	int			fd = real_shm_open(name, flags, mode);

	if (fd >= 0 && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0 && has_table() &&
		slots_are_shared())
	{
		new_fd = fd;
		strlcpy(new_name, name, sizeof(new_name));
	}
	return fd;
}

/* Is called for ordinary files as well; after EINTR it is called again. */
static int
accounted_posix_fallocate(int fd, off_t offset, off_t length)
{
	bool		servers;
	int			result;

	if (fd != new_fd || fd < 0)
		return real_posix_fallocate(fd, offset, length);
	servers = refuse_is_for_server();
	if (servers)
		grants_take_total(length);
	else if (!charge(length))
		return ENOMEM;
	result = real_posix_fallocate(fd, offset, length);
	if (result != 0 || !enter(new_name, length, servers ? NO_SESSION : slots_session_index()))
	{
		if (!servers)
			grants_release(my_session, length);
		grants_take_total(-(int64) length);
	}
	if (result == 0)
		new_fd = -1;
	return result;
}

static int
accounted_shm_unlink(const char *name)
{
	int			result = real_shm_unlink(name);
	int			saved_errno = errno;

	if (has_table() && (result == 0 || saved_errno == ENOENT))
	{
		if (strcmp(name, new_name) == 0)
			new_fd = -1;
		remove_segment(name);
	}
	errno = saved_errno;
	return result;
}

static const GotRedirection redirections[] = {
	{"shm_open", accounted_shm_open, (void **) &real_shm_open},
	{"shm_unlink", accounted_shm_unlink, (void **) &real_shm_unlink},
	{"posix_fallocate", accounted_posix_fallocate, (void **) &real_posix_fallocate}
};

/*
 * segments_are_accounted
 *		Whether the kind "shared" is accounted.
 */
bool
segments_are_accounted(void)
{
	return redirected && segments != NULL && dynamic_shared_memory_type == DSM_IMPL_POSIX;
}

/*
 * segments_start
 *		Begin to account for segments; in the postmaster, for all processes.
 *
 * What cannot be done is in the log.
 */
void
segments_start(void)
{
	const char *why;

	if (redirected)
		return;
	why = got_redirect(redirections, lengthof(redirections));
	if (why != NULL)
	{
		ereport(LOG,
				(errmsg("sift cannot account for dynamic shared memory"),
				 errdetail("%s.", why)));
		return;
	}
	grants_before_detach = leave_segments;
	redirected = true;
}
