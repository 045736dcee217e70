/*-------------------------------------------------------------------------
 *
 * block.c
 *	  Blocks: numbered, charged pieces of memory that contexts carve, and the
 *	  pool of empty ones.
 *
 * Each block has a number, which is in the header of each of its chunks.  The
 * number leads to an entry of a dense table with the block's live bytes: so
 * freeing a chunk touches the chunk's header and a small table that stays in
 * the processor's cache, and not the block's own header, which lies at the
 * same place of each block and would compete for the same cache lines.
 *
 * The pool.  A block that is given back stays committed, as idle memory that
 * any context of the process may take, so that a pattern which empties a
 * block again and again costs no system calls.  The pool is bounded: within a
 * transaction by a quarter of the limit and 64 MB, outside one by 1 MB, but
 * for idle parts of pages that are in use; and it is the first to go when a
 * charge does not fit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "block.h"
#include "ledger.h"

#define POOL_IN_TRANSACTION		((Size) 64 * 1024 * 1024)
#define POOL_OUTSIDE			((Size) 1024 * 1024)

/* Block numbers have 28 bits in a chunk's header. */
StaticAssertDecl(RANGE_SIZE / UNIT_SIZE < ((Size) 1 << 28),
				 "a block number must fit into a chunk's header");

SiftBlockEntry *block_table = NULL;

static uint32 table_size = 0;	/* entries that were ever in use */
static uint32 free_number = 0;	/* head of the chain of free entries, through
								 * "unit"; 0 ends it, and is never used */

/*
 * pool_reclaim
 *		The first reclaimer: gives back idle memory.
 *
 * POOL_OUTSIDE bytes at least, so that not each request near the limit costs
 * system calls; of large pages that are partly used only what is still
 * missing then.
 */
static Size
pool_reclaim(Size wanted, void *arg)
{
	Size		idle = ledger_bytes(SIFT_IDLE);
	Size		give = Max(wanted, POOL_OUTSIDE);
	Size		given = extent_trim(idle > give ? idle - give : 0, false);

	if (given < wanted)
		given += extent_trim(idle > wanted ? idle - wanted : 0, true);
	return given;
}

/*
 * start
 *		Before the first block of the process: reserve the range.
 *
 * Raises 53200 when there is no memory for the pool's entry as a reclaimer.
 */
static pg_noinline bool
start(SiftKind kind)
{
	if (!range_reserve())
	{
		ledger_refuse(kind, REFUSED_BY_SYSTEM);
		return false;
	}
	ledger_add_reclaimer("idle blocks", COST_OF_IDLE_BLOCKS, pool_reclaim, NULL);
	table_size = 1;
	return true;
}

/*
 * take_number
 *		A free entry of the table, 0 if there is no memory for one.
 */
static uint32
take_number(SiftKind kind)
{
	uint32		number = free_number;

	if (number != 0)
		free_number = block_table[number].unit;
	else
	{
		SiftBlockEntry *table = range_table(BLOCK_TABLE, (table_size + 1) * BLOCK_TABLE_ENTRY);

		if (table == NULL)
		{
			ledger_refuse(kind, REFUSED_BY_SYSTEM);
			return 0;
		}
		block_table = table;
		number = table_size++;
	}
	return number;
}

static void
give_number(uint32 number)
{
	block_table[number].live = 0;
	block_table[number].unit = free_number;
	free_number = number;
}

/*
 * block_take
 *		Take a block and charge it.
 *
 * size: bytes, a power of two of 1 kB or more, or whole pages
 *
 * Returns NULL, with nothing charged but idle memory, when it is refused.  The
 * block is not yet in a list of its context.  Raises what a reclaimer raises.
 */
SiftBlock *
block_take(struct SiftContext *context, SiftKind kind, Size size)
{
	SiftBlock  *block;
	uint32		number;

	if (unlikely(table_size == 0) && !start(kind))
		return NULL;
	block = extent_take(size, kind);
	if (block == NULL)
		return NULL;
	number = take_number(kind);
	if (number == 0)
	{
		extent_give(block, size, kind);
		block_settle();
		return NULL;
	}
	VALGRIND_MAKE_MEM_UNDEFINED(block, BLOCK_HEADER_SIZE);
	block->context = context;
	block->size = size;
	block->carved = (char *) block + BLOCK_HEADER_SIZE;
	block->number = number;
	block->kind = kind;
	VALGRIND_MAKE_MEM_NOACCESS(block->carved, size - BLOCK_HEADER_SIZE);
	block_table[number].unit = unit_at(block);
	ledger_block_taken(kind);
	return block;
}

/*
 * block_give
 *		Give a block to the pool.
 *
 * It is in no list any more.  The caller calls block_settle() when it has
 * given what it has to give.
 */
void
block_give(SiftBlock *block)
{
	SiftKind	kind = block->kind;
	Size		size = block->size;

	give_number(block->number);
	ledger_block_returned(kind);
#ifdef CLOBBER_FREED_MEMORY
	wipe_mem(block, size);
#endif
	extent_give(block, size, kind);
	VALGRIND_MAKE_MEM_NOACCESS(block, size);
}

/*
 * block_grow
 *		Make a large block longer where it is.
 *
 * size: bytes, whole pages
 *
 * Nothing is changed unless it is done.  Raises what a reclaimer raises.
 */
GrowResult
block_grow(SiftBlock *block, Size size)
{
	GrowResult	result = extent_grow(block, block->size, size, block->kind);

	if (result == GROW_DONE)
	{
		VALGRIND_MAKE_MEM_NOACCESS((char *) block + block->size, size - block->size);
		block->size = size;
	}
	return result;
}

/*
 * block_shrink
 *		Give back the end of a large block.
 *
 * size: bytes that stay, whole pages
 */
void
block_shrink(SiftBlock *block, Size size)
{
	Size		old_size = block->size;

	block->size = size;
	extent_give((char *) block + size, old_size - size, block->kind);
	block_settle();
}

/* The block of a number that is in use. */
SiftBlock *
block_by_number(uint32 number)
{
	return (SiftBlock *) unit_address(block_table[number].unit);
}

/*
 * block_fits
 *		Whether the limit allows a block of that size without a reclaimer.
 *
 * What is not idle is committed, and so charged, by whole pages.
 */
bool
block_fits(Size size)
{
	return ledger_fits(TYPEALIGN(range.page_units * UNIT_SIZE, size)) || extent_has_idle(size);
}

/*
 * block_settle
 *		Hold the pool to its bound.
 *
 * To be called when blocks were given back and when a transaction ends.
 * Within a transaction it goes an eighth below its bound, so that not every
 * single block costs a system call.  What could not go, since it lies in
 * pages that are partly used, is not tried again until there is an eighth
 * more: else a session with many such pages would do nothing but that.
 */
void
block_settle(void)
{
	static Size stuck = 0;		/* idle bytes that the last trim left */
	Size		idle = ledger_bytes(SIFT_IDLE);
	int64		limit = ledger_limit();
	Size		bound = POOL_OUTSIDE;
	Size		target = POOL_OUTSIDE;

	if (IsTransactionState())
	{
		bound = limit < 0 ? POOL_IN_TRANSACTION : Min((Size) limit / 4, POOL_IN_TRANSACTION);
		target = bound - bound / 8;
	}
	stuck = Min(stuck, idle);
	if (idle <= bound || idle - stuck < stuck / 8)
		return;
	extent_trim(target, false);
	idle = ledger_bytes(SIFT_IDLE);
	stuck = idle > target ? idle : 0;
}

/*
 * block_trim
 *		Give the whole pool back to the system; returns the bytes.
 */
Size
block_trim(void)
{
	return extent_trim(0, true);
}
