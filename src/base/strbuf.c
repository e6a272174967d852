/*
 * strbuf.c
 *		A growing byte string; see strbuf.h.
 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

#define STRBUF_FIRST_CAPACITY 64

void
capstan_strbuf_init(StrBuf *buf)
{
	buf->data = NULL;
	buf->length = 0;
	buf->capacity = 0;
}

void
capstan_strbuf_reset(StrBuf *buf)
{
	buf->length = 0;
	if (buf->data != NULL)
		buf->data[0] = '\0';
}

void
capstan_strbuf_free(StrBuf *buf)
{
	capstan_free(buf->data);
	capstan_strbuf_init(buf);
}

char *
capstan_strbuf_reserve(StrBuf *buf, size_t extra)
{
	/* One more for the NUL; a sum that wraps becomes a size no allocator grants. */
	size_t		needed = buf->length + extra + 1;

	if (needed <= extra)
		needed = SIZE_MAX;
	if (needed > buf->capacity)
	{
		size_t		capacity = buf->capacity < STRBUF_FIRST_CAPACITY ?
			STRBUF_FIRST_CAPACITY : buf->capacity;

		while (capacity < needed)
		{
			if (capacity > SIZE_MAX / 2)
			{
				capacity = needed;
				break;
			}
			capacity *= 2;
		}
		buf->data = buf->data == NULL ? capstan_alloc(capacity) :
			capstan_realloc(buf->data, capacity);
		buf->capacity = capacity;
	}
	return buf->data + buf->length;
}

void
capstan_strbuf_append(StrBuf *buf, const void *data, size_t length)
{
	char	   *to = capstan_strbuf_reserve(buf, length);

	if (length > 0)
		memcpy(to, data, length);
	buf->length += length;
	buf->data[buf->length] = '\0';
}

void
capstan_strbuf_append_char(StrBuf *buf, char c)
{
	char	   *to = capstan_strbuf_reserve(buf, 1);

	to[0] = c;
	to[1] = '\0';
	buf->length++;
}

void
capstan_strbuf_append_str(StrBuf *buf, const char *text)
{
	capstan_strbuf_append(buf, text, strlen(text));
}

void
capstan_strbuf_printf(StrBuf *buf, const char *format,...)
{
	size_t		room = 128;

	for (;;)
	{
		char	   *to = capstan_strbuf_reserve(buf, room);
		va_list		args;
		int			written;

		va_start(args, format);
		written = vsnprintf(to, room + 1, format, args);
		va_end(args);
		if (written < 0)
		{
			*to = '\0';
			return;
		}
		if ((size_t) written <= room)
		{
			buf->length += (size_t) written;
			return;
		}
		room = (size_t) written;
	}
}
