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

#include "bench.h"

/* All arenas, for jemalloc's mallctl (its manual, MALLCTL_ARENAS_ALL). */
#define PURGE_ALL_ARENAS	"arena.4096.purge"

/* What a library gives memory back with. */
static void *trim_function;

static void
trim_glibc(void)
{
	malloc_trim(0);
}

static void
trim_jemalloc(void)
{
	int			(*control) (const char *, void *, size_t *, void *, size_t) = trim_function;

	control(PURGE_ALL_ARENAS, NULL, NULL, NULL, 0);
}

static void
trim_mimalloc(void)
{
	void		(*collect) (bool force) = trim_function;

	collect(true);
}

static void
trim_tcmalloc(void)
{
	void		(*release) (void) = trim_function;

	release();
}

typedef struct Library
{
	const char *name;
	const char *file;
	const char *alloc;
	const char *free;
	const char *trim;
	void		(*call_trim) (void);
} Library;

static const Library libraries[] = {
	{"jemalloc", "libjemalloc.so", "malloc", "free", "mallctl", trim_jemalloc},
	{"mimalloc", "libmimalloc.so", "mi_malloc", "mi_free", "mi_collect", trim_mimalloc},
	{"tcmalloc", "libtcmalloc_minimal.so", "tc_malloc", "tc_free",
	"MallocExtension_ReleaseFreeMemory", trim_tcmalloc}
};

static void *
find(void *handle, const Library *library, const char *function)
{
	void	   *found = dlsym(handle, function);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("no function \"%s\" in \"%s\"", function, library->file)));
	return found;
}

static const Peer *
load(const Library *library)
{
	static Peer peer;
	void	   *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (handle == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("could not load \"%s\": %s", library->file, dlerror())));
	peer.alloc = find(handle, library, library->alloc);
	peer.free = find(handle, library, library->free);
	trim_function = find(handle, library, library->trim);
	peer.trim = library->call_trim;
	return &peer;
}

/*
 * An allocator by its name, NULL if it is none of these.  One library a process.
 * Raises 58P01 and 42883 when the library is not there, or is another one.
 */
const Peer *
peer_find(const char *name)
{
	static const Peer glibc = {malloc, free, trim_glibc};

	if (strcmp(name, "malloc") == 0)
		return &glibc;
	for (int i = 0; i < lengthof(libraries); i++)
	{
		if (strcmp(name, libraries[i].name) == 0)
			return load(&libraries[i]);
	}
	return NULL;
}
