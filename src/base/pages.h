/*
 * pages.h
 *		Giving the memory of large buffers back without freeing them.
 */
#ifndef CAPSTAN_PAGES_H
#define CAPSTAN_PAGES_H

#include <stddef.h>

/*
 * Nobody will read these bytes again before they are written: the system may have their pages.  The buffer stays, and may be written; what is read
 * of it before is anything.  For memory of malloc or palloc; a no-op where the system does not know it.
 */
extern void capstan_pages_forget(const void *data, size_t length);

/* Zero bytes, without using memory for them as long as nobody writes them.  For memory of malloc or palloc. */
extern void capstan_pages_clear(void *data, size_t length);

/*
 * Once per worker: large allocations are the system's own again as soon as they are freed, however many there were.  (glibc would
 * raise its bound for that to the largest that it has seen, and keep them.)
 */
extern void capstan_pages_init(void);

/* After much was freed in small pieces: what the allocator keeps goes back to the system, as far as it can. */
extern void capstan_pages_trim(void);

#endif
