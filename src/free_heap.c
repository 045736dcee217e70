/*-------------------------------------------------------------------------
 *
 * free_heap.c
 *	  Free memory that the C library keeps.
 *
 * What is freed does not go back to the system at once, but for large pieces,
 * and those have their pages taken away and must touch new ones the next time.
 * Here the C library is told to keep all but very large pieces, so that a
 * statement that is repeated finds its memory warm; how much that is is
 * published, and counted in the total; and it is given back where it is in the
 * way.  When it should be given back is not known here, but for one case: while
 * charged and kept memory together pass the limit of the session.
 *
 * Published is what is free and resident: the C library does not know which
 * of its free pages it has given back.  It is the private memory of the
 * process less what is charged and what was there beside that when all free
 * memory had been given back.
 *
 * What this cannot do: with another allocator than glibc's nothing is known
 * or given back, and where the DBA has tuned glibc's malloc for the server, it
 * is left as it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include "free_heap.h"
#include "ledger.h"
#include "procfs.h"

/* The C library's own figures; its older call for them overflows. */
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#if __GLIBC_PREREQ(2, 33)
#define HAVE_MALLINFO2			1
#endif
#endif

extern char **environ;

/*
 * How the C library is told to keep memory: pieces up to 32 MB come from the
 * heap, the end of which stays, and grows by 4 MB.  Larger ones keep pages of
 * their own, which can be moved: else a piece that is made longer would be
 * copied, and the process be larger meanwhile by the old one.  (Up to 2.34 the
 * C library takes no more than that either.)
 */
#define KEPT_PIECE				(32 * 1024 * 1024)
#define KEPT_HEAP				2000000000
#define HEAP_STEP				(4 * 1024 * 1024)

#ifdef HAVE_MALLINFO2

static bool is_glibc = false;	/* malloc is the C library's own */

/* What was seen when the heap was looked at last. */
static const void *heap_end = NULL;
static int64 bytes_then = 0;
static int64 free_pieces_then = 0;

/* Private memory that is neither charged nor free; bytes, -1 if not known. */
static int64 unexplained = -1;

/* The memory that is taken from the C library. */
static inline int64
in_use(const struct mallinfo2 *info)
{
	return info->uordblks + info->hblkhd;
}

/*
 * resident_part
 *		Of the free bytes, those that are in memory.
 *
 * untouched: bytes that were taken just now
 *
 * When it is asked first nothing has been given back but, maybe, the end of
 * the heap, which may never have been touched.
 */
static int64
resident_part(int64 free_bytes, int64 end_bytes, int64 untouched)
{
	int64		private_memory = procfs_own_private_memory();
	int64		beside = private_memory + untouched - my_account->charged_bytes;

	if (private_memory == 0)
		return 0;
	if (unexplained < 0)
		unexplained = Max(beside - (free_bytes - end_bytes), 0);
	return Max(Min(free_bytes, beside - unexplained), 0);
}

/*
 * look_at_heap
 *		Publish the free memory, and set the count right if it is too high.
 *
 * mallinfo2() looks at every free piece, which can take milliseconds: see
 * heap_has_changed().
 *
 * untouched: bytes that were taken just now
 */
static pg_noinline void
look_at_heap(int64 untouched)
{
	struct mallinfo2 info = mallinfo2();
	int64		excess = (int64) ledger_bytes(SIFT_SERVER) - in_use(&info);

	if (excess > 0)
		ledger_release(SIFT_SERVER, excess);
	grants_publish_free_heap(resident_part(info.fordblks, info.keepcost, untouched));
	heap_end = sbrk(0);
	bytes_then = ledger_bytes(SIFT_SERVER);
	free_pieces_then = info.ordblks;
}

/*
 * heap_has_changed
 *		Whether so much has changed since the last look that it is worth one.
 *
 * least: bytes
 * each: and bytes for each free piece that there was then
 */
static inline bool
heap_has_changed(int64 least, int64 each)
{
	int64		change = (int64) ledger_bytes(SIFT_SERVER) - bytes_then;

	return (change < 0 ? -change : change) >= Max(least, free_pieces_then * each);
}

#endif

/*
 * free_heap_find
 *		See whether malloc, of that address, is glibc's own.
 */
bool
free_heap_find(const void *malloc_address)
{
#ifdef HAVE_MALLINFO2
	Dl_info		library;
	Dl_info		allocator;

	is_glibc = dladdr(gnu_get_libc_version, &library) != 0 &&
		dladdr(malloc_address, &allocator) != 0 &&
		library.dli_fbase == allocator.dli_fbase;
	return is_glibc;
#else
	return false;
#endif
}

/*
 * free_heap_in_use
 *		What has been taken from the C library so far.
 */
Size
free_heap_in_use(void)
{
#ifdef HAVE_MALLINFO2
	if (is_glibc)
	{
		struct mallinfo2 info = mallinfo2();

		return in_use(&info);
	}
#endif
	return MemoryContextMemAllocated(TopMemoryContext, true);
}

/* Whether the DBA has told the C library how to keep memory. */
static bool
has_tunables(void)
{
	const char *tunables = getenv("GLIBC_TUNABLES");

	if (tunables != NULL && strstr(tunables, "glibc.malloc.") != NULL)
		return true;
	for (char **variable = environ; *variable != NULL; variable++)
	{
		if (strncmp(*variable, "MALLOC_", strlen("MALLOC_")) == 0)
			return true;
	}
	return false;
}

/*
 * free_heap_keep_warm
 *		From now on this process keeps what it frees; false if it is not to.
 */
bool
free_heap_keep_warm(void)
{
#ifdef HAVE_MALLINFO2
	return is_glibc && !has_tunables() &&
		mallopt(M_MMAP_THRESHOLD, KEPT_PIECE) != 0 &&
		mallopt(M_TRIM_THRESHOLD, KEPT_HEAP) != 0 &&
		mallopt(M_TOP_PAD, HEAP_STEP) != 0;
#else
	return false;
#endif
}

/*
 * free_heap_publish
 *		Publish the free memory; to be called at the end of a transaction.
 */
void
free_heap_publish(void)
{
#ifdef HAVE_MALLINFO2
	if (is_glibc &&
		(sbrk(0) != heap_end || heap_has_changed(256 * 1024, 64) ||
		 grant_window.highest - grant_window.top >= Max(GRANT_SIZE, free_pieces_then * 64)))
		look_at_heap(0);
#endif
	grant_window.highest = grant_window.top;
}

/*
 * free_heap_changed
 *		The same within a statement, when a large piece was taken or freed.
 *
 * untouched: its bytes if it was taken, else 0
 *
 * What is charged fits, so what is kept beside it must go if both do not.
 */
void
free_heap_changed(Size untouched)
{
#ifdef HAVE_MALLINFO2
	int64		limit = ledger_limit();
	int			saved_errno = errno;

	if (!is_glibc || !heap_has_changed(1024 * 1024, 1024))
		return;
	look_at_heap(untouched);
	if (limit >= 0 && my_account->free_heap_bytes >= LARGE_PIECE &&
		ledger_held() + my_account->free_heap_bytes > limit)
		(void) free_heap_trim();
	errno = saved_errno;
#endif
}

/*
 * free_heap_trim
 *		Give back what is free; the bytes by which the process got smaller.
 */
int64
free_heap_trim(void)
{
	int64		before = procfs_own_private_memory();

#ifdef HAVE_MALLINFO2
	if (is_glibc)
	{
		malloc_trim(0);
		unexplained = Max(procfs_own_private_memory() - my_account->charged_bytes, 0);
		look_at_heap(0);
	}
#endif
	return Max(before - procfs_own_private_memory(), 0);
}

/* A reclaimer; see ledger_add_reclaimer(). */
static Size
reclaim(Size wanted, void *arg)
{
	if (my_account->free_heap_bytes < (int64) Min(wanted, LARGE_PIECE))
		return 0;
	return free_heap_trim();
}

/*
 * free_heap_start
 *		Let free memory be given back under pressure.
 *
 * Raises 53200.
 */
void
free_heap_start(void)
{
	ledger_add_reclaimer("free heap", COST_OF_FREE_HEAP, reclaim, NULL);
}
