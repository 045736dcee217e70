/*-------------------------------------------------------------------------
 *
 * row_chunk.h
 *	  Chunks of a row store that can move.
 *
 * Such a chunk is a row, a page of slots, or the directory of pages.  It is an
 * ordinary chunk of the store's context, the blocks of which have no others (but
 * for large ones), with a RowHeader before the address that it goes by:
 *
 *	16 and later	chunk header | number | word | bytes
 *	15				chunk header | number, in place of the context | word | bytes
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_ROW_CHUNK_H
#define SIFT_ROW_CHUNK_H

#include "context.h"

/*
 * The word of a row is described in sift.h; that of a page is its number, shifted
 * like a slot's, that of the directory DIRECTORY_WORD.  Neither has a number.
 */
typedef struct RowHeader
{
	uint64		number;			/* of the row; 0 if it is none */
	uint64		word;
} RowHeader;

#define ROW_HEADER(address)		((RowHeader *) (address) - 1)

#define MAX_SLOTS				((uint64) 1 << 31)
#define MAX_PINS				((uint64) 0xFFF)
#define MAX_SLACK				((uint64) 0x1FFFF)
#define WORD_SLOT_SHIFT			SIFT_WORD_SLOT_SHIFT
#define WORD_SLACK_SHIFT		SIFT_WORD_SLACK_SHIFT
#define WORD_PINS_SHIFT			SIFT_WORD_PINS_SHIFT
#define DIRECTORY_WORD			((uint64) 1 << WORD_SLACK_SHIFT)

/* Bytes from the chunk to the address. */
#define ROW_OFFSET				(SIFT_ROW_HEADER_SIZE - SIFT_CHUNK_HEADER_SIZE)
#define chunk_of_row(address)	((char *) (address) - ROW_OFFSET)
#define row_of_chunk(chunk)		((char *) (chunk) + ROW_OFFSET)

/* Length of a chunk that has room for "size" bytes. */
#define ROW_LENGTH(size)		CHUNK_LENGTH((size) + ROW_OFFSET)

static inline uint64
row_slot(const char *address)
{
	return ROW_HEADER(address)->word >> WORD_SLOT_SHIFT & (MAX_SLOTS - 1);
}

static inline bool
row_is_pinned(const char *address)
{
	return ROW_HEADER(address)->word >> WORD_PINS_SHIFT != 0;
}

static inline Size
row_slack(const char *address)
{
	return ROW_HEADER(address)->word >> WORD_SLACK_SHIFT & MAX_SLACK;
}

/* Length of a chunk; of one in a large block the length of that. */
static inline Size
row_chunk_length(const char *address)
{
	uint64		header = chunk_header(chunk_of_row(address));

	return header_is_large(header) ? block_by_number(SiftHeaderBlock(header))->size :
		header_length(header);
}

/* Bytes from the address to the end of the chunk. */
static inline Size
row_room(const char *address)
{
	uint64		header = chunk_header(chunk_of_row(address));

	if (header_is_large(header))
		return block_end(block_by_number(SiftHeaderBlock(header))) - address;
	return header_length(header) - CHUNK_HEADER_SIZE - ROW_OFFSET;
}

extern void row_chunk_refused(SiftContext *context, Size size);

/* Make a chunk that has room for "size" bytes.  Raises 53200. */
static inline char *
row_chunk_alloc(SiftContext *context, Size size)
{
	void	   *chunk = context_alloc(&context->cursor.header, size + ROW_OFFSET, 0);

	if (unlikely(chunk == NULL))
		row_chunk_refused(context, size);
	VALGRIND_MEMPOOL_ALLOC(context, chunk, size + ROW_OFFSET);
	return row_of_chunk(chunk);
}

/* The same where no chunk is yet; NULL if there is no room. */
static inline char *
row_chunk_alloc_dense(SiftContext *context, Size size)
{
	void	   *chunk = context_alloc_dense(context, size + ROW_OFFSET);

	if (chunk == NULL)
		return NULL;
	VALGRIND_MEMPOOL_ALLOC(context, chunk, size + ROW_OFFSET);
	return row_of_chunk(chunk);
}

static inline void
row_chunk_free(SiftContext *context, char *address)
{
	char	   *chunk = chunk_of_row(address);

	VALGRIND_MEMPOOL_FREE(context, chunk);
	context_free_inline(chunk);
}

#endif							/* SIFT_ROW_CHUNK_H */
