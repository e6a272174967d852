/*
 * strbuf.h
 *		A growing byte string for the pure layers; always NUL-terminated after
 *		the first append.  Memory comes from memory.h.
 */
#ifndef CAPSTAN_STRBUF_H
#define CAPSTAN_STRBUF_H

#include <stddef.h>

typedef struct StrBuf
{
	char	   *data;			/* NULL until something is appended */
	size_t		length;			/* without the terminating NUL */
	size_t		capacity;
} StrBuf;

extern void capstan_strbuf_init(StrBuf *buf);
/* Keeps the memory, forgets the content. */
extern void capstan_strbuf_reset(StrBuf *buf);
extern void capstan_strbuf_free(StrBuf *buf);
extern void capstan_strbuf_append(StrBuf *buf, const void *data, size_t length);
extern void capstan_strbuf_append_char(StrBuf *buf, char c);
extern void capstan_strbuf_append_str(StrBuf *buf, const char *text);
extern void capstan_strbuf_printf(StrBuf *buf, const char *format,...)
	__attribute__((format(printf, 2, 3)));
/* Makes room for `extra` more bytes and returns where they go. */
extern char *capstan_strbuf_reserve(StrBuf *buf, size_t extra);

#endif
