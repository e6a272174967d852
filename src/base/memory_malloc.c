/*
 * memory_malloc.c
 *		The pure layers' allocation in stand-alone builds (unit tests, fuzzers):
 *		malloc, with a limit on a single request.  See memory.h.
 *
 * A request over the limit aborts: in a fuzzer that is how a length taken from the
 * input without a check shows.
 */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

#define MEMORY_REQUEST_LIMIT ((size_t) 256 * 1024 * 1024)

size_t		capstan_memory_largest;

static void *
checked(void *pointer, size_t size)
{
	if (pointer == NULL)
	{
		fprintf(stderr, "out of memory: request of %zu bytes\n", size);
		abort();
	}
	return pointer;
}

static void
check_size(size_t size)
{
	if (size > capstan_memory_largest)
		capstan_memory_largest = size;
	if (size > MEMORY_REQUEST_LIMIT)
	{
		fprintf(stderr, "allocation request of %zu bytes is over the limit\n", size);
		abort();
	}
}

void *
capstan_alloc(size_t size)
{
	check_size(size);
	return checked(malloc(size > 0 ? size : 1), size);
}

void *
capstan_alloc0(size_t size)
{
	check_size(size);
	return checked(calloc(1, size > 0 ? size : 1), size);
}

void *
capstan_realloc(void *pointer, size_t size)
{
	check_size(size);
	return checked(realloc(pointer, size > 0 ? size : 1), size);
}

void
capstan_free(void *pointer)
{
	free(pointer);
}
