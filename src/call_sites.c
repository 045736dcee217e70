/*-------------------------------------------------------------------------
 *
 * call_sites.c
 *	  From where the server's memory contexts call malloc and realloc.
 *
 * Memory contexts answer a malloc that fails with an error that PostgreSQL
 * knows how to deal with.  Other callers in the server do not: some end the
 * session, some go on with wrong results.  So only a call of a memory context
 * may be refused, and it is known by its return address.
 *
 * The addresses are learned when the library is loaded: malloc and realloc are
 * redirected to functions that note who calls them, and a context of each
 * type is made to call them from every place that its source has.  (A compiler
 * may make one place of two.)  A place that is not learned only means that
 * requests from there are never refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "call_sites.h"
#include "compat.h"
#include "got.h"

/* aset.c tries a smaller block when one larger than this is refused. */
#define TRIES_SMALLER_ABOVE		((Size) 1024 * 1024)

/* More than the places that any version has. */
#define MAX_SITES				32

static const void *sites[MAX_SITES];
static int	nsites = 0;

/* Where aset.c calls for a block, and for a smaller one. */
static const void *block_site = NULL;
static const void *smaller_block_site = NULL;

static void *(*real_malloc) (size_t size);
static void *(*real_realloc) (void *pointer, size_t size);
static int	ncalls = 0;			/* while learning */
static int	nsteps = 0;			/* of them each was to call */
static int	nmissed = 0;		/* and so many did not */
static bool refuse_large = false;	/* refuse the next large one, once */

/*
 * call_site_is_context
 *		Whether a call that returns to this address is a memory context's.
 */
bool
call_site_is_context(const void *site)
{
	for (int i = 0; i < nsites; i++)
	{
		if (sites[i] == site)
			return true;
	}
	return false;
}

/*
 * call_site_tries_smaller
 *		Whether the caller asks for less when this request is refused.
 */
bool
call_site_tries_smaller(const void *site, Size size)
{
	return size > TRIES_SMALLER_ABOVE &&
		(site == block_site || site == smaller_block_site);
}

static void
learn(const void *site)
{
	ncalls++;
	if (!call_site_is_context(site) && nsites < MAX_SITES)
		sites[nsites++] = site;
}

static void *
learning_malloc(size_t size)
{
	learn(__builtin_return_address(0));
	if (refuse_large && size > TRIES_SMALLER_ABOVE)
	{
		block_site = __builtin_return_address(0);
		refuse_large = false;
		return NULL;
	}
	if (block_site != NULL && smaller_block_site == NULL)
		smaller_block_site = __builtin_return_address(0);
	return real_malloc(size);
}

static void *
learning_realloc(void *pointer, size_t size)
{
	learn(__builtin_return_address(0));
	return real_realloc(pointer, size);
}

/* ----------------------------------------------------------------
 *		Contexts that call from every place
 * ----------------------------------------------------------------
 */

/* Something that must call for memory at least so many times. */
#define STEP(calls, action) \
	do { \
		int			before = ncalls; \
\
		action; \
		nsteps += (calls); \
		nmissed += Max((calls) - (ncalls - before), 0); \
	} while (0)

/* Sizes that no list of freed contexts serves. */
#define LEARNING_BLOCK_SIZE		((Size) 16 * 1024)
#define LARGE_CHUNK_SIZE		((Size) 100 * 1024)

/* Chunks for more than two blocks. */
static void
fill_blocks(MemoryContext context)
{
	for (Size size = 0; size < 2 * LEARNING_BLOCK_SIZE; size += 512)
		(void) MemoryContextAlloc(context, 512);
}

/* A block that is refused and tried again at half the size, as aset.c does. */
static void
fill_refused_block(MemoryContext context)
{
	refuse_large = true;
	(void) MemoryContextAlloc(context, 512);
	(void) MemoryContextAlloc(context, 512);
	refuse_large = false;
}

static void
learn_aset(MemoryContext parent)
{
	MemoryContext set;
	void	   *chunk;

	STEP(1, set = AllocSetContextCreate(parent, "Sift learning", (Size) 1024,
										2 * TRIES_SMALLER_ABOVE, 2 * TRIES_SMALLER_ABOVE));
	STEP(2, fill_refused_block(set));
	STEP(1, chunk = MemoryContextAlloc(set, LARGE_CHUNK_SIZE));
	STEP(1, chunk = repalloc(chunk, 2 * LARGE_CHUNK_SIZE));
	pfree(chunk);
}

static void
learn_generation(MemoryContext parent)
{
	MemoryContext set;

	STEP(1, set = GenerationContextCreate(parent, "Sift learning", 0,
										  LEARNING_BLOCK_SIZE, LEARNING_BLOCK_SIZE));
	STEP(1, (void) MemoryContextAlloc(set, LARGE_CHUNK_SIZE));
	STEP(1, fill_blocks(set));
}

static void
learn_slab(MemoryContext parent)
{
	MemoryContext set;

	STEP(1, set = SlabContextCreate(parent, "Sift learning", LEARNING_BLOCK_SIZE, 512));
	STEP(1, fill_blocks(set));
}

static void
learn_bump(MemoryContext parent)
{
#ifdef HAVE_BUMP_CONTEXT
	MemoryContext set;

	STEP(1, set = BumpContextCreate(parent, "Sift learning", 0,
									LEARNING_BLOCK_SIZE, LEARNING_BLOCK_SIZE));
	STEP(1, (void) MemoryContextAlloc(set, LARGE_CHUNK_SIZE));
	STEP(1, fill_blocks(set));
#endif
}

/*
 * call_sites_learn
 *		Learn the places, from where contexts call.
 *
 * Returns NULL, or why calls cannot be redirected; then nothing is learned.
 * Raises 53200 when there is no memory; calls lead to where they did then.
 */
const char *
call_sites_learn(void)
{
	static const GotRedirection redirections[] = {
		{"malloc", learning_malloc, (void **) &real_malloc},
		{"realloc", learning_realloc, (void **) &real_realloc}
	};
	MemoryContext parent = AllocSetContextCreate(CurrentMemoryContext, "Sift learning",
												 ALLOCSET_DEFAULT_SIZES);
	const char *why;

	nsites = nsteps = nmissed = 0;
	why = got_redirect(redirections, lengthof(redirections));
	if (why != NULL)
	{
		MemoryContextDelete(parent);
		return why;
	}
	PG_TRY();
	{
		learn_aset(parent);
		learn_generation(parent);
		learn_slab(parent);
		learn_bump(parent);
	}
	PG_FINALLY();
	{
		why = got_restore(redirections);
		MemoryContextDelete(parent);
	}
	PG_END_TRY();
	if (why == NULL && nmissed > 0)
		ereport(LOG,
				(errmsg("sift missed %d of the %d places where the server's memory contexts take memory",
						nmissed, nsteps),
				 errdetail("What is taken there is counted, and never refused.")));
	return why;
}
