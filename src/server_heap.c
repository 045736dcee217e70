/*-------------------------------------------------------------------------
 *
 * server_heap.c
 *	  What the server program takes by malloc.
 *
 * PostgreSQL's own memory contexts, and all else in the server program, call
 * malloc, realloc, free and the like of the C library.  These calls are
 * redirected to functions that charge and release what they are given, as
 * kind "server", and call on.  A request of a memory context that does not fit
 * is refused where that does no harm; all others are let through and counted.
 *
 * Charged is what malloc_usable_size() says, and the word that the C library
 * keeps before each piece.
 *
 * What this cannot see: memory that libraries take by themselves, extensions'
 * own calls of malloc included, and what the C library takes within a call
 * and gives back itself.  What a library has taken and the server frees makes
 * the count fall below the truth; it never falls below zero, and is set right
 * when it is above what the C library says is in use.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <malloc.h>

#include "call_sites.h"
#include "free_heap.h"
#include "got.h"
#include "ledger.h"
#include "refuse.h"
#include "report.h"
#include "server_heap.h"
#include "statement.h"

static void *(*real_malloc) (size_t size);
static void *(*real_calloc) (size_t count, size_t size);
static void *(*real_realloc) (void *pointer, size_t size);
static void (*real_free) (void *pointer);
static char *(*real_strdup) (const char *string);
static char *(*real_strndup) (const char *string, size_t size);
static int	(*real_posix_memalign) (void **pointer, size_t alignment, size_t size);
static void *(*real_aligned_alloc) (size_t alignment, size_t size);
static char *(*real_realpath) (const char *path, char *resolved);
static char *(*real_realpath_chk) (const char *path, char *resolved, size_t size);

bool		server_heap_accounted = false;	/* calls are redirected */

/* Bytes that a piece of memory is charged with. */
static inline Size
piece_size(void *pointer)
{
	return malloc_usable_size(pointer) + sizeof(size_t);
}

/* ----------------------------------------------------------------
 *		Requests that do not fit
 * ----------------------------------------------------------------
 */

/* Let a request through over the limit. */
static void
waive(Size bytes, bool by_context)
{
	ledger_waive(bytes);
	if (!by_context)
		statement_unrefused(bytes);
}

/*
 * may_pass
 *		Whether a request that does not fit is let through.
 */
static bool
may_pass(Size growth, const void *site)
{
	if (!call_site_is_context(site) || !refuse_is_safe(growth, FOR_MEMORY) ||
		refuse_within_float(growth))
		return true;
	ledger_make_room(growth, true, ALL_RECLAIMERS);
	return ledger_fits(growth);
}

/*
 * may_pass_test
 *		The same while a test has requests counted, of those that might be
 *		refused one is.
 */
static bool
may_pass_test(Size growth, Size requested, const void *site)
{
	return !call_site_is_context(site) || call_site_tries_smaller(site, requested) ||
		!refuse_is_safe(growth, FOR_MEMORY) || !ledger_count_down();
}

/*
 * over_limit
 *		A request does not fit; whether it is refused.
 *
 * growth: bytes more than before
 * requested: bytes asked for
 * site: where the call returns to
 *
 * A block that the caller tries again at half the size is not counted as
 * refused, the last one is.
 */
static pg_noinline bool
over_limit(Size growth, Size requested, const void *site)
{
	bool		test = ledger_is_counting_down();
	int			saved_errno = errno;

	if (refuse_serves_client())
		ledger_make_room(growth, true, OWN_RECLAIMERS);
	errno = saved_errno;
	if (ledger_fits(growth))
		return false;
	if (test ? may_pass_test(growth, requested, site) : may_pass(growth, site))
	{
		if (!ledger_fits(growth))
			waive(growth, call_site_is_context(site));
		errno = saved_errno;
		return false;
	}
	if (!call_site_tries_smaller(site, requested))
	{
		ledger_refuse(SIFT_SERVER, test ? REFUSED_BY_TEST : REFUSED_BY_LIMIT);
		report_refusal(NULL, requested, ERROR_OR_NULL);
	}
	refuse_note();
	errno = ENOMEM;
	return true;
}

/* Charge a piece that was given out; NULL is none. */
static inline void *
charge(void *pointer)
{
	if (likely(pointer != NULL))
	{
		Size		bytes = piece_size(pointer);

		ledger_take(SIFT_SERVER, bytes);
		if (unlikely(bytes >= LARGE_PIECE))
			free_heap_changed(bytes);
	}
	return pointer;
}

/* What was taken elsewhere may be freed here: never below zero. */
static inline void
release(Size bytes)
{
	ledger_release(SIFT_SERVER, Min(bytes, ledger_bytes(SIFT_SERVER)));
}

/* ----------------------------------------------------------------
 *		What is called in place of the C library's functions
 * ----------------------------------------------------------------
 */

static void *
accounted_malloc(size_t size)
{
	if (unlikely(!ledger_fits(size)) &&
		over_limit(size, size, __builtin_return_address(0)))
		return NULL;
	return charge(real_malloc(size));
}

static void *
accounted_realloc(void *pointer, size_t size)
{
	Size		before = pointer != NULL ? piece_size(pointer) : 0;

	if (size > before && unlikely(!ledger_fits(size - before)) &&
		over_limit(size - before, size, __builtin_return_address(0)))
		return NULL;
	pointer = real_realloc(pointer, size);
	if (likely(pointer != NULL) || size == 0)
		release(before);
	return charge(pointer);
}

static void
accounted_free(void *pointer)
{
	if (likely(pointer != NULL))
	{
		Size		bytes = piece_size(pointer);

		release(bytes);
		real_free(pointer);
		if (unlikely(bytes >= LARGE_PIECE))
			free_heap_changed(0);
	}
}

/* The following are never refused, since no memory context calls them. */

/* Charge what was taken without being asked about. */
static inline void *
charge_unasked(void *pointer)
{
	charge(pointer);
	if (unlikely(!ledger_fits(0)) && pointer != NULL)
		waive(piece_size(pointer), false);
	return pointer;
}

static void *
accounted_calloc(size_t count, size_t size)
{
	return charge_unasked(real_calloc(count, size));
}

static char *
accounted_strdup(const char *string)
{
	return charge_unasked(real_strdup(string));
}

static char *
accounted_strndup(const char *string, size_t size)
{
	return charge_unasked(real_strndup(string, size));
}

static int
accounted_posix_memalign(void **pointer, size_t alignment, size_t size)
{
	int			result = real_posix_memalign(pointer, alignment, size);

	if (result == 0)
		charge_unasked(*pointer);
	return result;
}

static void *
accounted_aligned_alloc(size_t alignment, size_t size)
{
	return charge_unasked(real_aligned_alloc(alignment, size));
}

/* Allocates only when it is given no buffer. */
static char *
accounted_realpath(const char *path, char *resolved)
{
	char	   *result = real_realpath(path, resolved);

	return resolved == NULL ? charge_unasked(result) : result;
}

static char *
accounted_realpath_chk(const char *path, char *resolved, size_t size)
{
	char	   *result = real_realpath_chk(path, resolved, size);

	return resolved == NULL ? charge_unasked(result) : result;
}

static const GotRedirection redirections[] = {
	{"malloc", accounted_malloc, (void **) &real_malloc},
	{"realloc", accounted_realloc, (void **) &real_realloc},
	{"free", accounted_free, (void **) &real_free},
	{"calloc", accounted_calloc, (void **) &real_calloc},
	{"strdup", accounted_strdup, (void **) &real_strdup},
	{"strndup", accounted_strndup, (void **) &real_strndup},
	{"posix_memalign", accounted_posix_memalign, (void **) &real_posix_memalign},
	{"aligned_alloc", accounted_aligned_alloc, (void **) &real_aligned_alloc},
	{"realpath", accounted_realpath, (void **) &real_realpath},
	{"__realpath_chk", accounted_realpath_chk, (void **) &real_realpath_chk}
};

/* The object, program or library, that an address belongs to; NULL for none. */
static const void *
object_of(const void *address)
{
	Dl_info		info;

	return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/*
 * check_allocator
 *		See where malloc and the others lead to: they must be of one object,
 *		and malloc_usable_size() with them.
 *
 * Returns NULL, or why the heap cannot be accounted.
 */
static const char *
check_allocator(void)
{
	const void *object = object_of(malloc_usable_size);

	if (real_malloc == NULL || real_realloc == NULL || real_free == NULL)
		return "the server program does not import malloc, realloc and free";
	if (object == NULL || object_of(real_malloc) != object ||
		object_of(real_realloc) != object || object_of(real_free) != object)
		return "malloc, realloc, free and malloc_usable_size are not of the same library";
	return NULL;
}

/*
 * server_heap_start
 *		Begin to account for what the server program takes.
 *
 * Returns false, with everything as before and a line in the log that says
 * why, when that cannot be done.  Once a process, or in the postmaster for all
 * processes.  Raises 53200.
 */
bool
server_heap_start(void)
{
	const char *why;

	if (server_heap_accounted)
		return true;
	why = call_sites_learn();
	if (why == NULL)
		why = got_redirect(redirections, lengthof(redirections));
	if (why == NULL)
	{
		why = check_allocator();
		if (why != NULL)
			got_restore(redirections);
	}
	if (why != NULL)
	{
		ereport(LOG,
				(errmsg("sift cannot account for what the server program takes by malloc"),
				 errdetail("%s.", why)));
		return false;
	}
	refuse_start();
	if (free_heap_find(real_malloc))
		free_heap_start();
	ledger_take(SIFT_SERVER, free_heap_in_use());
	server_heap_accounted = true;
	free_heap_publish();
	return true;
}
