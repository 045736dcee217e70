/*-------------------------------------------------------------------------
 *
 * peers.c
 *	  Allocators that are not PostgreSQL's: the C library's, and those that Debian
 *	  has, loaded when they are asked for.
 *
 * They are called through pointers, as a program calls a library.  jemalloc wants
 * more of the memory that the loader keeps for libraries which come late than
 * there is by default: start the server with
 * GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include "bench.h"

/* All arenas, for jemalloc's mallctl (its manual, MALLCTL_ARENAS_ALL). */
#define PURGE_ALL_ARENAS	"arena.4096.purge"

static int	(*jemalloc_control) (const char *, void *, size_t *, void *, size_t);
static void (*mimalloc_collect) (bool force);

static void
trim_glibc(void)
{
	malloc_trim(0);
}

static void
trim_jemalloc(void)
{
	jemalloc_control(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
}

static void
trim_mimalloc(void)
{
	mimalloc_collect(true);
}

static void *
load(const char *file)
{
	void	   *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (library == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("could not load \"%s\": %s", file, dlerror())));
	return library;
}

static void *
find(void *library, const char *function)
{
	void	   *found = dlsym(library, function);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("no function \"%s\" in a library: %s", function, dlerror())));
	return found;
}

/* An allocator by its name, NULL if it is none of these.  Raises 58P01. */
const Peer *
peer_find(const char *name)
{
	static Peer peer;
	void	   *library;

	peer.name = name;
	if (strcmp(name, "malloc") == 0)
	{
		peer.alloc = malloc;
		peer.free = free;
		peer.trim = trim_glibc;
	}
	else if (strcmp(name, "jemalloc") == 0)
	{
		library = load("libjemalloc.so");
		peer.alloc = find(library, "malloc");
		peer.free = find(library, "free");
		jemalloc_control = find(library, "mallctl");
		peer.trim = trim_jemalloc;
	}
	else if (strcmp(name, "mimalloc") == 0)
	{
		library = load("libmimalloc.so");
		peer.alloc = find(library, "mi_malloc");
		peer.free = find(library, "mi_free");
		mimalloc_collect = find(library, "mi_collect");
		peer.trim = trim_mimalloc;
	}
	else if (strcmp(name, "tcmalloc") == 0)
	{
		library = load("libtcmalloc_minimal.so");
		peer.alloc = find(library, "tc_malloc");
		peer.free = find(library, "tc_free");
		peer.trim = find(library, "MallocExtension_ReleaseFreeMemory");
	}
	else
		return NULL;
	return &peer;
}

/* Private memory of the process that is resident, bytes. */
int64
private_memory(void)
{
	FILE	   *file = fopen("/proc/self/statm", "r");
	long long	resident = 0;
	long long	shared = 0;

	if (file == NULL || fscanf(file, "%*d %lld %lld", &resident, &shared) != 2)
		elog(ERROR, "could not read /proc/self/statm");
	fclose(file);
	return (resident - shared) * sysconf(_SC_PAGESIZE);
}
