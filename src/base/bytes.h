/*
 * bytes.h
 *		Bounded reader over untrusted bytes.
 *
 * Every read checks what is left.  Past the end the reader becomes `failed`,
 * stays so, and all further reads return 0 (or NULL): a decoder may read a
 * whole structure and look at `failed` once at the end, but must look before it
 * uses a count or length for an allocation or a loop.
 *
 * Integers are little-endian, as MySQL's protocol writes them, except where the
 * name says be.  "Length-encoded" is the integer of the client/server
 * protocol: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html
 */
#ifndef CAPSTAN_BYTES_H
#define CAPSTAN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ByteReader
{
	const uint8_t *pos;
	const uint8_t *end;
	bool		failed;
} ByteReader;

static inline ByteReader
capstan_bytes_reader(const void *data, size_t length)
{
	ByteReader	reader;

	reader.pos = (const uint8_t *) data;
	reader.end = reader.pos + length;
	reader.failed = false;
	return reader;
}

static inline size_t
capstan_bytes_left(const ByteReader *reader)
{
	return (size_t) (reader->end - reader->pos);
}

/* The next `length` bytes in place, or NULL and failed; nothing is copied. */
static inline const uint8_t *
capstan_bytes_take(ByteReader *reader, size_t length)
{
	const uint8_t *start = reader->pos;

	if (reader->failed || length > capstan_bytes_left(reader))
	{
		reader->failed = true;
		reader->pos = reader->end;
		return NULL;
	}
	reader->pos += length;
	return start;
}

static inline void
capstan_bytes_skip(ByteReader *reader, size_t length)
{
	(void) capstan_bytes_take(reader, length);
}

/* Little-endian unsigned integer of 1 to 8 bytes. */
static inline uint64_t
capstan_bytes_uint(ByteReader *reader, int width)
{
	const uint8_t *p = capstan_bytes_take(reader, (size_t) width);
	uint64_t	value = 0;

	if (p == NULL)
		return 0;
	for (int i = width - 1; i >= 0; i--)
		value = (value << 8) | p[i];
	return value;
}

/* Big-endian unsigned integer of 1 to 8 bytes. */
static inline uint64_t
capstan_bytes_uint_be(ByteReader *reader, int width)
{
	const uint8_t *p = capstan_bytes_take(reader, (size_t) width);
	uint64_t	value = 0;

	if (p == NULL)
		return 0;
	for (int i = 0; i < width; i++)
		value = (value << 8) | p[i];
	return value;
}

static inline uint8_t
capstan_bytes_u8(ByteReader *reader)
{
	const uint8_t *p = capstan_bytes_take(reader, 1);

	return p == NULL ? 0 : *p;
}

static inline uint16_t
capstan_bytes_u16(ByteReader *reader)
{
	return (uint16_t) capstan_bytes_uint(reader, 2);
}

static inline uint32_t
capstan_bytes_u32(ByteReader *reader)
{
	return (uint32_t) capstan_bytes_uint(reader, 4);
}

static inline uint64_t
capstan_bytes_u64(ByteReader *reader)
{
	return capstan_bytes_uint(reader, 8);
}

/* Length-encoded integer; the NULL marker 0xfb and 0xff are failures. */
static inline uint64_t
capstan_bytes_lenenc(ByteReader *reader)
{
	uint8_t		first = capstan_bytes_u8(reader);

	if (first < 0xfb)
		return first;
	switch (first)
	{
		case 0xfc:
			return capstan_bytes_uint(reader, 2);
		case 0xfd:
			return capstan_bytes_uint(reader, 3);
		case 0xfe:
			return capstan_bytes_uint(reader, 8);
		default:
			reader->failed = true;
			reader->pos = reader->end;
			return 0;
	}
}

#endif
