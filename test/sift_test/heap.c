/*
 * heap.c
 *	  What is charged as kind "server", beside the C library's own figures.
 */
#include "postgres.h"

#include <malloc.h>

#include "sift_test.h"

PG_FUNCTION_INFO_V1(sift_test_heap_difference);

/* Bytes; negative when more is in use than is charged. */
Datum
sift_test_heap_difference(PG_FUNCTION_ARGS)
{
	SiftUsageData usage;
	struct mallinfo2 info = mallinfo2();

	SiftUsage(&usage);
	PG_RETURN_INT64(usage.kinds[SIFT_SERVER].bytes - (int64) (info.uordblks + info.hblkhd));
}
