/*-------------------------------------------------------------------------
 *
 * chunk.h
 *	  Header formats: how a chunk and a block look in memory.
 *
 * A block:		SiftBlock | [SiftContext, in its home block] | chunks | free
 * A chunk:		[requested size, in checking builds] | header | bytes
 *
 * The header word is described in sift.h, since the inline functions there
 * make it.  On 15 the chunk's context follows it, where that server looks for
 * it.  Builds with MEMORY_CONTEXT_CHECKING put the requested size before the
 * header and a sentinel byte behind the bytes, as PostgreSQL's own contexts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_CHUNK_H
#define SIFT_CHUNK_H

#include "compat.h"
#include "lib/ilist.h"
#include "sift.h"
#include "utils/memdebug.h"

/*
 * What stands at the beginning of each block.
 */
typedef struct SiftBlock
{
	dlist_node	node;			/* in the list of the context */
	struct SiftContext *context;	/* owner */
	Size		size;			/* bytes, this header with it; whole units */
	char	   *carved;			/* end of the last chunk; for the block that is
								 * being carved the context's cursor counts */
	uint32		number;			/* index in the block table */
	SiftKind	kind;			/* what it is charged as */
} SiftBlock;

#define BLOCK_HEADER_SIZE		MAXALIGN(sizeof(SiftBlock))

/*
 * Length of a chunk's header.
 */
#ifdef MEMORY_CONTEXT_CHECKING
#define CHECK_SIZE				sizeof(Size)
#define SENTINEL_SIZE			1
#else
#define CHECK_SIZE				((Size) 0)
#define SENTINEL_SIZE			0
#endif
#define CHUNK_HEADER_SIZE		(CHECK_SIZE + SIFT_CHUNK_HEADER_SIZE)

/* Whole length of a chunk with room for "size" bytes.  May wrap around. */
#define CHUNK_LENGTH(size)		(MAXALIGN((size) + SENTINEL_SIZE) + CHUNK_HEADER_SIZE)

/* The low bits of a block's tag, and that tag itself (see SiftCursor). */
#if PG_VERSION_NUM >= 160000
#define METHOD_NUMBER_MASK		MEMORY_CONTEXT_METHODID_MASK
#define BLOCK_TAG(number, method) (((uint64) (number) << 36) | (method))
#else
#define BLOCK_TAG(number, method) ((uint64) (number) << 32)
#endif

/* Read the header word of a chunk. */
static inline uint64
chunk_header(const void *chunk)
{
	uint64		header;

	VALGRIND_MAKE_MEM_DEFINED(SiftChunkHeader(chunk), sizeof(uint64));
	header = *SiftChunkHeader(chunk);
	VALGRIND_MAKE_MEM_NOACCESS(SiftChunkHeader(chunk), sizeof(uint64));
	return header;
}

/* Write the header word of a chunk. */
static inline void
chunk_set_header(void *chunk, uint64 header)
{
	VALGRIND_MAKE_MEM_UNDEFINED(SiftChunkHeader(chunk), sizeof(uint64));
	*SiftChunkHeader(chunk) = header;
	VALGRIND_MAKE_MEM_NOACCESS(SiftChunkHeader(chunk), sizeof(uint64));
}

/* Length of a chunk, header included; not for a chunk in a large block. */
static inline Size
header_length(uint64 header)
{
	return SiftHeaderLength(header) & ~(uint32) (SIFT_MARK_LARGE | SIFT_MARK_DEAD);
}

static inline bool
header_is_large(uint64 header)
{
	return (SiftHeaderLength(header) & SIFT_MARK_LARGE) != 0;
}

static inline bool
header_is_dead(uint64 header)
{
#if PG_VERSION_NUM >= 160000
	return (header & METHOD_NUMBER_MASK) == 0;
#else
	return (SiftHeaderLength(header) & SIFT_MARK_DEAD) != 0;
#endif
}

/*
 * The requested size, which checking builds keep.
 */
#ifdef MEMORY_CONTEXT_CHECKING
#define chunk_requested(chunk)	((Size *) ((char *) (chunk) - CHUNK_HEADER_SIZE))

static inline Size
chunk_requested_size(const void *chunk)
{
	Size		size;

	VALGRIND_MAKE_MEM_DEFINED(chunk_requested(chunk), sizeof(Size));
	size = *chunk_requested(chunk);
	VALGRIND_MAKE_MEM_NOACCESS(chunk_requested(chunk), sizeof(Size));
	return size;
}
#endif

/*
 * chunk_set_size
 *		Note the requested size and put up what guards the bytes behind it.
 *
 * room: bytes from the chunk to the end of its length
 */
static inline void
chunk_set_size(void *chunk, Size size, Size room)
{
#ifdef MEMORY_CONTEXT_CHECKING
	VALGRIND_MAKE_MEM_UNDEFINED(chunk_requested(chunk), sizeof(Size));
	*chunk_requested(chunk) = size;
	VALGRIND_MAKE_MEM_NOACCESS(chunk_requested(chunk), sizeof(Size));
	Assert(size < room);
	set_sentinel(chunk, size);
#endif
	VALGRIND_MAKE_MEM_NOACCESS((char *) chunk + size, room - size);
}

/*
 * chunk_change_size
 *		chunk_set_size() for a chunk that has a size already.
 */
static inline void
chunk_change_size(void *chunk, Size size, Size room)
{
#ifdef MEMORY_CONTEXT_CHECKING
	Size		old_size = chunk_requested_size(chunk);

	if (size > old_size)
		VALGRIND_MAKE_MEM_UNDEFINED((char *) chunk + old_size, size - old_size);
#endif
	chunk_set_size(chunk, size, room);
}

/*
 * chunk_make
 *		Make a chunk at "at" and return it.
 *
 * length: of header and chunk, marks included; room: as in chunk_set_size
 */
static inline void *
chunk_make(char *at, MemoryContext context, uint64 tag, Size length,
		   Size size, Size room)
{
	char	   *chunk = at + CHUNK_HEADER_SIZE;

	chunk_set_header(chunk, SiftHeaderMake(tag, length));
#if PG_VERSION_NUM < 160000
	VALGRIND_MAKE_MEM_UNDEFINED((MemoryContext *) chunk - 1, sizeof(MemoryContext));
	((MemoryContext *) chunk)[-1] = context;
#endif
	chunk_set_size(chunk, size, room);
	return chunk;
}

#endif							/* SIFT_CHUNK_H */
