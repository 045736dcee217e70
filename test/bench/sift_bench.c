/*-------------------------------------------------------------------------
 *
 * sift_bench.c
 *	  How long an operation takes in memory contexts of several kinds, and by
 *	  other allocators.
 *
 * One call of sift_bench() is one measurement of one kind at one work.  Call it
 * once a backend: what was done before decides how the C library's malloc goes
 * about things, and what memory is warm.
 *
 * Memory is taken by palloc and pfree in the CurrentMemoryContext, as real
 * code does, and eight bytes of each chunk are written.  The loops are
 * compiled once for these two, once for each of Sift's inline functions, and once
 * for allocators that are called as malloc is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "utils/memutils_internal.h"
#endif

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(sift_bench);
PG_FUNCTION_INFO_V1(sift_bench_touch);

/* A measurement goes on at least this long. */
#define MEASURE_NS		INT64CONST(60000000)

/* Bytes that pass through a queue before it is measured. */
#define WARM_UP_SIZE	(INT64CONST(32) * 1024 * 1024)

/* How often each chunk is replaced in random order, on average. */
#define RANDOM_TURNS	20

/* Memory from here on is warmed up, bytes. */
#define MUCH			(INT64CONST(64) * 1024 * 1024)

/* Pairs of alloc and free between two looks at the clock. */
#define ZERO_PAIRS		1024

/* Sizes of chunks repeat after this many. */
#define NUM_SIZES		1024

/* Slab is made for small chunks: few larger ones fit into one of its blocks. */
#define SLAB_MOST		512

/*
 * A malloc of this size, once freed, lets the C library hold on to up to twice
 * as much (mallopt(3), M_MMAP_THRESHOLD).  It takes no notice of more than 32
 * MiB.
 */
#define TRAINING_SIZE	33000000

typedef enum Kind
{
	ASET,
	GENERATION,
	BUMP,
	SLAB,
	ROW,
	BATCH,
	BARE,
	ROW_INLINE,
	BATCH_INLINE,
	BARE_INLINE,
	FLOOR,						/* does nothing: what palloc itself takes */
	PEER						/* one of peers.c, the first */
} Kind;

static const char *const kind_names[] = {
	"aset", "generation", "bump", "slab", "row", "batch", "bare",
	"row inline", "batch inline", "bare inline", "floor",
	"malloc", "jemalloc", "mimalloc", "tcmalloc"
};

typedef enum Work
{
	RESET,						/* fill a context and reset it */
	QUEUE,						/* free the oldest chunk, alloc a new one */
	ZERO,						/* the only chunk comes and goes */
	RANDOM,						/* free any chunk, alloc a new one */
	TOUCH,						/* fill for the first time, write each page */
	FILL,						/* fill an empty context */
	FREE						/* free all chunks in random order */
} Work;

static const char *const work_names[] = {"reset", "queue", "zero", "random", "touch", "fill", "free"};

/* How memory is taken and freed. */
typedef enum Way
{
	BY_PALLOC,
	BY_ROW,
	BY_BATCH,
	BY_PEER
} Way;

typedef struct Bench
{
	Kind		kind;
	Work		work;
	Size		sizes[NUM_SIZES];	/* of the chunks, in turn */
	Size		size;			/* of all chunks of RESET, ZERO and TOUCH */
	uint64		count;			/* chunks that are alive */
	uint64		warm_up;		/* chunks that a queue takes before it is
								 * measured */
	MemoryContext context;
	const Peer *peer;			/* of a kind from PEER on */
	double		held;			/* bytes that are held in the end, as a multiple
								 * of those asked for (RANDOM): by a context,
								 * or of a peer's private memory */
} Bench;

/* A chunk of a queue or a batch.  Its bytes go on, but nobody writes them. */
typedef struct Link
{
	struct Link *next;
} Link;

typedef struct Queue
{
	Link	   *head;			/* the oldest */
	Link	   *tail;
	uint64		taken;			/* chunks that ever came in */
} Queue;

/* ----------------------------------------------------------------
 *		The floor: a context that always has the same chunk
 * ----------------------------------------------------------------
 */

static MemoryContextData floor_context;

/* On 15 pfree looks for the context before the chunk. */
static struct
{
	MemoryContext context;
	int64		chunk;
}			floor_chunk = {&floor_context, 0};

#if PG_VERSION_NUM >= 160000
static void *
floor_alloc(MemoryContext context, Size size, int flags)
{
	return &floor_chunk.chunk;
}
#else
static void *
floor_alloc(MemoryContext context, Size size)
{
	return &floor_chunk.chunk;
}

static void
floor_free(MemoryContext context, void *chunk)
{
}
#endif

static void
floor_reset(MemoryContext context)
{
}

static const MemoryContextMethods floor_methods = {
	.alloc = floor_alloc,
#if PG_VERSION_NUM < 160000
	.free_p = floor_free,
#endif
	.reset = floor_reset,
	.delete_context = floor_reset
};

static MemoryContext
floor_create(void)
{
#if PG_VERSION_NUM >= 160000
	MemoryContextCreate(&floor_context, T_AllocSetContext, MCTX_ASET_ID,
						CurrentMemoryContext, "floor");
	floor_context.methods = &floor_methods;
#else
	MemoryContextCreate(&floor_context, T_AllocSetContext, &floor_methods,
						CurrentMemoryContext, "floor");
#endif
	return &floor_context;
}

/* ----------------------------------------------------------------
 *		Works
 * ----------------------------------------------------------------
 */

static pg_attribute_always_inline void *
take(const Bench *bench, MemoryContext context, Way way, Size size)
{
	switch (way)
	{
		case BY_ROW:
			return SiftRowAlloc(context, size);
		case BY_BATCH:
			return SiftBatchAlloc(context, size);
		case BY_PEER:
			return bench->peer->alloc(size);
		default:
			return palloc(size);
	}
}

static pg_attribute_always_inline void
give(const Bench *bench, Way way, void *chunk)
{
	if (way == BY_ROW)
		SiftRowFree(chunk);
	else if (way == BY_PEER)
		bench->peer->free(chunk);
	else
		pfree(chunk);
}

/* Fill the context and reset it; by a peer, free chunk by chunk. */
static pg_attribute_always_inline void
one_batch(const Bench *bench, Way way)
{
	MemoryContext context = bench->context;
	Size		size = bench->size;
	uint64		count = bench->count;
	Link	   *last = NULL;

	for (uint64 i = 0; i < count; i++)
	{
		Link	   *link = take(bench, context, way, size);

		link->next = last;
		last = link;
	}
	if (way != BY_PEER)
		MemoryContextReset(context);
	else
	{
		while (last != NULL)
		{
			Link	   *next = last->next;

			give(bench, way, last);
			last = next;
		}
	}
	CHECK_FOR_INTERRUPTS();
}

/* One batch is not measured, since the first touch of its memory is not. */
static pg_attribute_always_inline double
measure_reset(Bench *bench, Way way)
{
	int64		batches = 0;
	int64		start;
	int64		passed;

	one_batch(bench, way);
	start = clock_ns();
	do
	{
		one_batch(bench, way);
		batches++;
	} while ((passed = clock_ns() - start) < MEASURE_NS);
	return (double) passed / batches / bench->count;
}

/* Put a chunk at the end of a queue. */
static pg_attribute_always_inline void
append(const Bench *bench, Way way, Queue *queue)
{
	Size		size = bench->sizes[queue->taken++ % NUM_SIZES];

	queue->tail = queue->tail->next = take(bench, bench->context, way, size);
}

/* Replace each chunk of a full queue, the oldest first. */
static pg_attribute_always_inline void
one_turn(const Bench *bench, Way way, Queue *queue)
{
	uint64		count = bench->count;

	for (uint64 i = 0; i < count; i++)
	{
		Link	   *oldest = queue->head;

		queue->head = oldest->next;
		give(bench, way, oldest);
		append(bench, way, queue);
	}
	CHECK_FOR_INTERRUPTS();
}

/*
 * What counts is the steady state: the queue is full, and the blocks of the
 * context have grown to their final size.
 */
static pg_attribute_always_inline double
measure_queue(Bench *bench, Way way)
{
	Link		first = {NULL};
	Queue		queue = {.tail = &first};
	uint64		taken_before;
	int64		start;
	int64		passed;

	while (queue.taken < bench->count)
		append(bench, way, &queue);
	queue.head = first.next;
	while (queue.taken < bench->warm_up)
		one_turn(bench, way, &queue);

	taken_before = queue.taken;
	start = clock_ns();
	do
	{
		one_turn(bench, way, &queue);
	} while ((passed = clock_ns() - start) < MEASURE_NS);
	return (double) passed / (queue.taken - taken_before);
}

static pg_attribute_always_inline double
measure_zero(Bench *bench, Way way)
{
	MemoryContext context = bench->context;
	Size		size = bench->size;
	int64		pairs = 0;
	int64		start = clock_ns();
	int64		passed;

	do
	{
		for (int64 i = 0; i < ZERO_PAIRS; i++)
		{
			int64	   *chunk = take(bench, context, way, size);

			*chunk = i;
			give(bench, way, chunk);
		}
		pairs += ZERO_PAIRS;
		CHECK_FOR_INTERRUPTS();
	} while ((passed = clock_ns() - start) < MEASURE_NS);
	return (double) passed / pairs;
}

/* Replace chunks in random order, which mixes old and new ones. */
static pg_attribute_always_inline double
measure_random(Bench *bench, Way way)
{
	uint64		count = bench->count;
	uint64		taken = 0;
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext->parent, "rows", ALLOCSET_DEFAULT_SIZES);
	uint64	  **chunks = MemoryContextAllocHuge(rows, count * sizeof(uint64 *));
	uint64		live = 0;
	pg_prng_state random;
	int64		memory_before;
	int64		start;
	double		ns;

	pg_prng_seed(&random, 2);
	memset(chunks, 0, count * sizeof(uint64 *));
	memory_before = private_memory();
	while (taken < count)
	{
		chunks[taken] = take(bench, bench->context, way, bench->sizes[taken % NUM_SIZES]);
		*chunks[taken] = bench->sizes[taken % NUM_SIZES];
		taken++;
	}
	start = clock_ns();
	for (int turn = 0; turn < RANDOM_TURNS; turn++)
	{
		for (uint64 i = 0; i < count; i++)
		{
			uint64	  **chunk = &chunks[pg_prng_uint64(&random) % count];
			Size		size = bench->sizes[taken++ % NUM_SIZES];

			give(bench, way, *chunk);
			*chunk = take(bench, bench->context, way, size);
			**chunk = size;
		}
		CHECK_FOR_INTERRUPTS();
	}
	ns = (double) (clock_ns() - start) / (taken - count);
	for (uint64 i = 0; i < count; i++)
		live += *chunks[i];
	bench->held = (double) (way == BY_PEER ? private_memory() - memory_before :
							MemoryContextMemAllocated(bench->context, false)) / live;
	for (uint64 i = 0; way == BY_PEER && i < count; i++)
		give(bench, way, chunks[i]);
	MemoryContextDelete(rows);
	return ns;
}

/*
 * Fill an empty context, and free all in random order, again and again; ns that
 * an alloc takes, or a free.
 */
static pg_attribute_always_inline double
measure_fill_and_free(Bench *bench, Way way, bool frees)
{
	uint64		count = bench->count;
	MemoryContext rows = AllocSetContextCreate(CurrentMemoryContext->parent, "rows", ALLOCSET_DEFAULT_SIZES);
	uint64	  **chunks = MemoryContextAllocHuge(rows, count * sizeof(uint64 *));
	int64		turns = 0;
	int64		filled = 0;
	int64		freed = 0;
	pg_prng_state random;

	pg_prng_seed(&random, 2);
	do
	{
		int64		start = clock_ns();

		for (uint64 i = 0; i < count; i++)
		{
			chunks[i] = take(bench, bench->context, way, bench->sizes[i % NUM_SIZES]);
			*chunks[i] = i;
		}
		filled += clock_ns() - start;
		for (uint64 i = count - 1; i > 0; i--)
		{
			uint64		other = pg_prng_uint64_range(&random, 0, i);
			uint64	   *chunk = chunks[i];

			chunks[i] = chunks[other];
			chunks[other] = chunk;
		}
		start = clock_ns();
		for (uint64 i = 0; i < count; i++)
			give(bench, way, chunks[i]);
		freed += clock_ns() - start;
		turns++;
		CHECK_FOR_INTERRUPTS();
	} while ((frees ? freed : filled) < MEASURE_NS);
	MemoryContextDelete(rows);
	return (double) (frees ? freed : filled) / turns / count;
}

static pg_attribute_always_inline double
measure_fill(Bench *bench, Way way)
{
	return measure_fill_and_free(bench, way, false);
}

static pg_attribute_always_inline double
measure_free(Bench *bench, Way way)
{
	return measure_fill_and_free(bench, way, true);
}

/* ns a page */
static pg_attribute_always_inline double
measure_touch(Bench *bench, Way way)
{
	const Size	page_size = sysconf(_SC_PAGESIZE);
	Size		size = bench->size;
	int64		start = clock_ns();

	for (uint64 i = 0; i < bench->count; i++)
	{
		char	   *chunk = take(bench, bench->context, way, size);

		for (Size at = 0; at < size; at += page_size)
			chunk[at] = 1;
	}
	return (double) (clock_ns() - start) * page_size / (bench->count * size);
}

/* A loop of its own for each work and way. */
#define DEFINE_LOOP(work, way) \
static pg_noinline double \
work##_##way(Bench *bench) \
{ \
	return measure_##work(bench, way); \
}

DEFINE_LOOP(reset, BY_PALLOC)
DEFINE_LOOP(reset, BY_ROW)
DEFINE_LOOP(reset, BY_BATCH)
DEFINE_LOOP(queue, BY_PALLOC)
DEFINE_LOOP(queue, BY_ROW)
DEFINE_LOOP(zero, BY_PALLOC)
DEFINE_LOOP(zero, BY_ROW)
DEFINE_LOOP(random, BY_PALLOC)
DEFINE_LOOP(random, BY_ROW)
DEFINE_LOOP(touch, BY_PALLOC)
DEFINE_LOOP(fill, BY_PALLOC)
DEFINE_LOOP(fill, BY_ROW)
DEFINE_LOOP(free, BY_PALLOC)
DEFINE_LOOP(free, BY_ROW)
DEFINE_LOOP(reset, BY_PEER)
DEFINE_LOOP(queue, BY_PEER)
DEFINE_LOOP(zero, BY_PEER)
DEFINE_LOOP(random, BY_PEER)
DEFINE_LOOP(touch, BY_PEER)
DEFINE_LOOP(fill, BY_PEER)
DEFINE_LOOP(free, BY_PEER)

/* Batches are reset only, see can_do(). */
static double (*const loops[][4]) (Bench *bench) = {
	[RESET] = {reset_BY_PALLOC, reset_BY_ROW, reset_BY_BATCH, reset_BY_PEER},
	[QUEUE] = {queue_BY_PALLOC, queue_BY_ROW, NULL, queue_BY_PEER},
	[ZERO] = {zero_BY_PALLOC, zero_BY_ROW, NULL, zero_BY_PEER},
	[RANDOM] = {random_BY_PALLOC, random_BY_ROW, NULL, random_BY_PEER},
	[TOUCH] = {touch_BY_PALLOC, NULL, NULL, touch_BY_PEER},
	[FILL] = {fill_BY_PALLOC, fill_BY_ROW, NULL, fill_BY_PEER},
	[FREE] = {free_BY_PALLOC, free_BY_ROW, NULL, free_BY_PEER}
};

static Way
way_of(Kind kind)
{
	switch (kind)
	{
		case ROW_INLINE:
			return BY_ROW;
		case BATCH_INLINE:
		case BARE_INLINE:
			return BY_BATCH;
		default:
			return kind >= PEER ? BY_PEER : BY_PALLOC;
	}
}

/* ----------------------------------------------------------------
 *		The SQL functions
 * ----------------------------------------------------------------
 */

/* The place of a name in a list. */
static int
find_name(const char *const *names, int num_names, text *name)
{
	char	   *wanted = text_to_cstring(name);

	for (int i = 0; i < num_names; i++)
	{
		if (strcmp(names[i], wanted) == 0)
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown kind or work: \"%s\"", wanted)));
}

static bool
can_do(Kind kind, Work work, int min_size, int max_size)
{
	switch (kind)
	{
		case BUMP:
			return PG_VERSION_NUM >= 170000 && (work == RESET || work == TOUCH);
		case SLAB:
			return min_size == max_size && max_size <= SLAB_MOST && work != RANDOM && work != TOUCH;
		case ROW_INLINE:
			return work != TOUCH;
		case GENERATION:
			return work != RANDOM;	/* would hold many times what is asked for */
		case BATCH:
		case BARE:
			return work == RESET || work == TOUCH;
		case BATCH_INLINE:
		case BARE_INLINE:
			return work == RESET;
		case FLOOR:
			/* from 16 on pfree would need an entry in the server's table */
			return PG_VERSION_NUM < 160000 || work == RESET;
		default:
			return true;
	}
}

static MemoryContext
create_context(Kind kind, Size size)
{
	MemoryContext parent = CurrentMemoryContext;

	switch (kind)
	{
		case GENERATION:
			return GenerationContextCreate(parent, "generation", ALLOCSET_DEFAULT_SIZES);
#if PG_VERSION_NUM >= 170000
		case BUMP:
			return BumpContextCreate(parent, "bump", ALLOCSET_DEFAULT_SIZES);
#endif
		case SLAB:
			return SlabContextCreate(parent, "slab", SLAB_DEFAULT_BLOCK_SIZE, size);
		case ROW:
		case ROW_INLINE:
			return SiftRowContextCreate(parent, "row", SIFT_ROW_DEFAULT_SIZES);
		case BATCH:
		case BATCH_INLINE:
			return SiftBatchContextCreate(parent, "batch", 0, SIFT_BATCH_DEFAULT_SIZES);
		case BARE:
		case BARE_INLINE:
			return SiftBatchContextCreate(parent, "bare", SIFT_BATCH_BARE,
										  SIFT_BATCH_DEFAULT_SIZES);
		case FLOOR:
			return floor_create();
		default:
			return AllocSetContextCreate(parent, "aset", ALLOCSET_DEFAULT_SIZES);
	}
}

/* The same sizes each time, evenly spread from the smallest to the largest. */
static void
choose_sizes(Bench *bench, int min_size, int max_size, int64 alive)
{
	int			mean = (min_size + max_size) / 2;
	pg_prng_state random;

	pg_prng_seed(&random, 1);
	for (int i = 0; i < NUM_SIZES; i++)
		bench->sizes[i] = pg_prng_uint64_range(&random, min_size, max_size);
	bench->size = max_size;
	bench->count = Max(alive / mean, 1);
	bench->warm_up = WARM_UP_SIZE / mean;
}

/* Have the C library hold on to memory that is freed. */
static void
train_malloc(void)
{
	void	   *volatile memory = malloc(TRAINING_SIZE);

	free(memory);
}

/* Take memory and touch it, in large pages or small ones; ns a small page. */
static double
touch_memory(Size size, int advice)
{
	Size		page_size = sysconf(_SC_PAGESIZE);
	int64		start = clock_ns();
	char	   *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not map %zu bytes: %m", size)));
	(void) madvise(memory, size, advice);
	for (Size at = 0; at < size; at += page_size)
		memory[at] = 1;
	munmap(memory, size);
	return (double) (clock_ns() - start) * page_size / size;
}

/*
 * Have the memory that is measured with touched before: what a virtual machine
 * was not given yet is slow, large pages and small ones apart.
 */
static void
warm_up(int64 alive)
{
	if (alive < MUCH)
		return;
	touch_memory(alive + alive / 4, MADV_HUGEPAGE);
	touch_memory(alive + alive / 4, MADV_NOHUGEPAGE);
}

Datum
sift_bench(PG_FUNCTION_ARGS)
{
	int			min_size = PG_GETARG_INT32(2);
	int			max_size = PG_GETARG_INT32(3);
	Bench		bench;
	MemoryContext old_context;
	TupleDesc	desc;
	Datum		values[2];
	bool		isnull[2] = {true, true};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	bench.kind = find_name(kind_names, lengthof(kind_names), PG_GETARG_TEXT_PP(0));
	bench.work = find_name(work_names, lengthof(work_names), PG_GETARG_TEXT_PP(1));
	if (!can_do(bench.kind, bench.work, min_size, max_size))
		PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
	warm_up(PG_GETARG_INT64(4));
	choose_sizes(&bench, min_size, max_size, PG_GETARG_INT64(4));
	if (PG_GETARG_BOOL(5))
		train_malloc();
	if (bench.kind >= PEER)
		bench.peer = peer_find(kind_names[bench.kind]);

	bench.context = create_context(bench.kind, bench.size);
	old_context = MemoryContextSwitchTo(bench.context);
	values[0] = Float8GetDatum(loops[bench.work][way_of(bench.kind)] (&bench));
	isnull[0] = false;
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(bench.context);
	if (bench.work == RANDOM)
	{
		values[1] = Float8GetDatum(bench.held);
		isnull[1] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, isnull)));
}

Datum
sift_bench_touch(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(touch_memory(PG_GETARG_INT64(0), MADV_NOHUGEPAGE));
}
