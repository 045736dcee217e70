/*-------------------------------------------------------------------------
 *
 * free_heap.h
 *	  Free memory that the C library keeps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_FREE_HEAP_H
#define SIFT_FREE_HEAP_H

/* Pieces whose coming and going is worth a look at the heap; bytes. */
#define LARGE_PIECE				((Size) 128 * 1024)

extern bool free_heap_find(const void *malloc_address);
extern Size free_heap_in_use(void);
extern void free_heap_start(void);
extern bool free_heap_keep_warm(void);
extern void free_heap_publish(void);
extern void free_heap_changed(Size untouched);
extern int64 free_heap_trim(void);

#endif							/* SIFT_FREE_HEAP_H */
