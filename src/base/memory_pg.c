/*
 * memory_pg.c
 *		The pure layers' allocation in the extension: the current memory
 *		context.  See memory.h.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/memory.h"

void *
capstan_alloc(size_t size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, size);
}

void *
capstan_alloc0(size_t size)
{
	void	   *pointer = MemoryContextAllocHuge(CurrentMemoryContext, size);

	memset(pointer, 0, size);
	return pointer;
}

void *
capstan_realloc(void *pointer, size_t size)
{
	if (pointer == NULL)
		return capstan_alloc(size);
	return repalloc_huge(pointer, size);
}

void
capstan_free(void *pointer)
{
	if (pointer != NULL)
		pfree(pointer);
}
