/*-------------------------------------------------------------------------
 *
 * range.c
 *	  The range of addresses that a process reserves for Sift: the system
 *	  calls, and nothing else.
 *
 * A process reserves the range once, when it takes its first block, and never
 * gives it back.  It is inaccessible then, which takes a few microseconds, and
 * neither memory nor commit charge.  Memory is committed with mprotect.  A
 * whole extent goes back by mapping fresh inaccessible pages over it: with
 * vm.overcommit_memory = 2 nothing else returns the commit charge.  Part of
 * one goes back by madvise, and stays accessible: a hole would be two mappings
 * more, of which a process can have 65,530 (vm.max_map_count).
 *
 * Behind the extents lie two tables, for whoever keeps account of them; they
 * are not charged (about 8 bytes a block and 520 an extent).
 *
 * What is not committed is left out of core dumps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "procfs.h"
#include "range.h"

#define NUM_TABLES				(BLOCK_TABLE + 1)

/* Tables grow by this much at least. */
#define TABLE_STEP				((Size) 64 * 1024)

Range		range;

static struct
{
	char	   *start;
	Size		size;			/* reserved */
	Size		committed;		/* of these bytes, from the start */
} tables[NUM_TABLES];

/*
 * read_huge_page_mode
 *		What the system does with requests for large pages.
 */
static void
read_huge_page_mode(void)
{
	char		mode[64];
	int			fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
	ssize_t		length = fd < 0 ? -1 : read(fd, mode, sizeof(mode) - 1);

	if (fd >= 0)
		close(fd);
	mode[Max(length, 0)] = '\0';
	range.huge_everywhere = strstr(mode, "[always]") != NULL;
	range.huge_allowed = range.huge_everywhere || strstr(mode, "[madvise]") != NULL;
}

/*
 * range_size
 *		Bytes to reserve for extents: a quarter of what RLIMIT_AS leaves at
 *		most, since libraries need addresses as well.
 */
static Size
range_size(void)
{
	struct rlimit limit;
	Size		size = RANGE_SIZE;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
	{
		Size		mapped = procfs_own_address_space();

		size = limit.rlim_cur > mapped ? (limit.rlim_cur - mapped) / 4 : 0;
	}
	return Min(size, RANGE_SIZE) & ~(EXTENT_SIZE - 1);
}

/*
 * lay_out
 *		Sizes for a range of that many bytes; returns their sum.
 */
static Size
lay_out(Size size)
{
	range.extents = size / EXTENT_SIZE;
	tables[EXTENT_TABLE].size = page_round(range.extents * EXTENT_TABLE_ENTRY) + range.page_size;
	tables[BLOCK_TABLE].size = page_round((range.extents * EXTENT_UNITS + 1) * BLOCK_TABLE_ENTRY);

	/* an extent more, since the first must begin at a multiple of its size */
	return size + EXTENT_SIZE + tables[EXTENT_TABLE].size + tables[BLOCK_TABLE].size;
}

/*
 * range_reserve
 *		Reserve the range, unless that is done.
 *
 * Where the system does not give that many addresses (Valgrind does not),
 * half as many are asked for, and so on.  Returns false, with errno set, when
 * it has none left.
 */
bool
range_reserve(void)
{
	char	   *reserved = MAP_FAILED;
	Size		size;

	if (range.base != NULL)
		return true;
	range.page_size = sysconf(_SC_PAGESIZE);
	range.page_units = range.page_size / UNIT_SIZE;
	errno = ENOMEM;
	for (size = range_size(); size >= EXTENT_SIZE; size = size / 2 & ~(EXTENT_SIZE - 1))
	{
		reserved = mmap(NULL, lay_out(size), PROT_NONE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (reserved != MAP_FAILED)
			break;
	}
	if (reserved == MAP_FAILED)
		return false;
	range.base = (char *) TYPEALIGN(EXTENT_SIZE, reserved);
	tables[EXTENT_TABLE].start = range.base + size;
	tables[BLOCK_TABLE].start = tables[EXTENT_TABLE].start + tables[EXTENT_TABLE].size;

	/* advice: where it is not taken, nothing is wrong */
	read_huge_page_mode();
	(void) madvise(range.base, size, MADV_DONTDUMP);
	if (range.huge_everywhere)
		range_keep_small_pages(range.base, size);
	return true;
}

/*
 * range_table
 *		A table of which that many bytes at least can be used; zero at first.
 *
 * Returns NULL, with errno set, when the system has no memory for it.
 */
void *
range_table(RangeTable table, Size bytes)
{
	Size		committed = tables[table].committed;

	Assert(bytes <= tables[table].size);
	if (bytes > committed)
	{
		committed = page_round(Max(bytes, committed + TABLE_STEP));
		committed = Min(committed, tables[table].size);
		if (mprotect(tables[table].start, committed, PROT_READ | PROT_WRITE) != 0)
			return NULL;
		tables[table].committed = committed;
	}
	return tables[table].start;
}

/*
 * range_commit
 *		Make whole pages accessible.
 *
 * huge: with large pages, if the system has some
 *
 * Returns false, with errno set, when the system has no memory.
 */
bool
range_commit(char *address, Size size, bool huge)
{
	if (mprotect(address, size, PROT_READ | PROT_WRITE) != 0)
		return false;
	(void) madvise(address, size, MADV_DODUMP);
	if (huge)
		(void) madvise(address, size, MADV_HUGEPAGE);
	return true;
}

/*
 * range_unmap_extent
 *		Make an extent what it was before it was ever committed.
 *
 * Returns false, with nothing changed, when the system cannot do that.
 */
bool
range_unmap_extent(char *address)
{
	if (mmap(address, EXTENT_SIZE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			 -1, 0) == MAP_FAILED)
		return false;
	(void) madvise(address, EXTENT_SIZE, MADV_DONTDUMP);
	if (range.huge_everywhere)
		range_keep_small_pages(address, EXTENT_SIZE);
	return true;
}

/*
 * range_discard
 *		Give the memory of whole pages back; they stay accessible.
 */
bool
range_discard(char *address, Size size)
{
	return madvise(address, size, MADV_DONTNEED) == 0;
}

/* Have no large pages made of small ones. */
void
range_keep_small_pages(char *address, Size size)
{
	(void) madvise(address, size, MADV_NOHUGEPAGE);
}
