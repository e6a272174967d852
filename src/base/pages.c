/*
 * pages.c
 *		Giving the memory of large buffers back without freeing them.  See pages.h.
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LARGE_ALLOCATION (4 * 1024 * 1024)

#ifdef __linux__

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Only whole pages: what shares one with them may be needed.  false: there are none, or the system does not do it. */
static bool
drop_pages(const void *data, size_t length, char **begin, char **end)
{
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	first = ((uintptr_t) data + page - 1) / page * page;
	uintptr_t	behind = ((uintptr_t) data + length) / page * page;

	*begin = (char *) first;
	*end = (char *) behind;
	return data != NULL && behind > first && madvise(*begin, behind - first, MADV_DONTNEED) == 0;
}

void
capstan_pages_forget(const void *data, size_t length)
{
	char	   *begin;
	char	   *end;

	/* a failure costs memory and nothing else */
	(void) drop_pages(data, length, &begin, &end);
}

/* Private anonymous pages that were dropped read as zero bytes: madvise(2). */
void
capstan_pages_clear(void *data, size_t length)
{
	char	   *begin;
	char	   *end;

	if (!drop_pages(data, length, &begin, &end))
	{
		memset(data, 0, length);
		return;
	}
	memset(data, 0, (size_t) (begin - (char *) data));
	memset(end, 0, (size_t) ((char *) data + length - end));
}

#else

void
capstan_pages_forget(const void *data, size_t length)
{
}

void
capstan_pages_clear(void *data, size_t length)
{
	memset(data, 0, length);
}

#endif

void
capstan_pages_init(void)
{
#ifdef __GLIBC__
	(void) mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION);
	(void) mallopt(M_TRIM_THRESHOLD, LARGE_ALLOCATION);
#endif
}

void
capstan_pages_trim(void)
{
#ifdef __GLIBC__
	(void) malloc_trim(0);
#endif
}
