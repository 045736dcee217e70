/*
 * got_test.c
 *	  Redirect malloc and free in a small program, src/got.c linked in.
 *
 * Runs where the server cannot be tried: on an emulated processor.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "got.h"

static void *(*next_malloc) (size_t size);
static void (*next_free) (void *pointer);
static void *(*next_absent) (size_t size);
static int	mallocs = 0;
static int	frees = 0;

static void *
counted_malloc(size_t size)
{
	mallocs++;
	return next_malloc(size);
}

static void
counted_free(void *pointer)
{
	frees++;
	next_free(pointer);
}

/* Through pointers that the compiler knows nothing about. */
static void (*volatile free_by_address) (void *pointer);

static const GotRedirection list[] = {
	{"malloc", counted_malloc, (void **) &next_malloc},
	{"free", counted_free, (void **) &next_free},
	{"no_such_function", counted_malloc, (void **) &next_absent}
};

static int
expect(const char *what, int is, int should_be)
{
	if (is == should_be)
		return 0;
	printf("%s: %d, expected %d\n", what, is, should_be);
	return 1;
}

int
main(void)
{
	int			failed = 0;
	const char *why;
	char	   *volatile chunk = malloc(10);	/* bound before */

	why = got_redirect(list, 3);
	if (why != NULL)
	{
		printf("not redirected: %s\n", why);
		return 1;
	}
	free(chunk);
	chunk = malloc(100);
	chunk[99] = 1;
	free_by_address = free;
	free_by_address(chunk);
	failed |= expect("calls of malloc", mallocs, 1);
	failed |= expect("calls of free", frees, 2);
	failed |= expect("a function that is not imported", next_absent != NULL, 0);

	/* what a library does for itself is not seen */
	chunk = strdup("of the library");
	failed |= expect("malloc inside a library", mallocs, 1);

	why = got_restore(list);
	failed |= expect("restored", why == NULL, 1);
	free(chunk);
	failed |= expect("free after that", frees, 2);
	return failed;
}
