/*
 * memory.h
 *		Allocation for the pure layers (base/, binlog/, row.c).
 *
 * The pure layers call these three functions and nothing else.  In the
 * extension they are palloc/repalloc/pfree in the CurrentMemoryContext
 * (memory_pg.c), so a caller chooses the life of what is made by switching
 * contexts; in the unit tests and fuzzers they are malloc with a limit
 * (memory_malloc.c).  None of them returns NULL: the extension's raise an
 * ERROR, the stand-alone ones abort.
 */
#ifndef CAPSTAN_MEMORY_H
#define CAPSTAN_MEMORY_H

#include <stddef.h>

extern void *capstan_alloc(size_t size);
extern void *capstan_alloc0(size_t size);
extern void *capstan_realloc(void *pointer, size_t size);
/* NULL is allowed and does nothing. */
extern void capstan_free(void *pointer);

/* Stand-alone builds only: the largest request since it was set to 0. */
extern size_t capstan_memory_largest;

#endif
