/*
 * pages.c
 *		Giving the memory of large buffers back without freeing them.  See pages.h.
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>

#include "base/pages.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#define LARGE_ALLOCATION (4 * 1024 * 1024)

#ifdef __linux__

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

void
capstan_pages_forget(const void *data, size_t length)
{
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	begin = ((uintptr_t) data + page - 1) / page * page;
	uintptr_t	end = ((uintptr_t) data + length) / page * page;

	/* only whole pages: what shares one with them may be needed.  A failure costs memory and nothing else */
	if (data != NULL && end > begin)
		(void) madvise((void *) begin, end - begin, MADV_DONTNEED);
}

#else

void
capstan_pages_forget(const void *data, size_t length)
{
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
