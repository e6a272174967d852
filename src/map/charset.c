/*
 * charset.c
 *		Bytes of a MySQL character set made utf-8 text.
 *
 * Called by the text converters and by whoever reads labels.  Knows nothing of
 * policies: a zero byte is reported, not judged.
 *
 * Two sorts of character set so far: those that are utf-8 already and only need to be
 * verified, and those of one byte per character whose lower half is ASCII, with a
 * table for the upper half.  A further one-byte set is one more table; a set of
 * several bytes per character needs a third sort.
 *
 * MySQL's latin1 is Windows-1252, with the five bytes that Windows leaves undefined (81, 8D, 8F,
 * 90, 9D) standing for the C1 control characters of the same number (MySQL manual, "West European Character Sets").
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "compat.h"
#include "map/internal.h"

struct CharsetConverter
{
	const char *name;
	const uint16 *high;			/* code points of 0x80 to 0xFF, 0 for none; NULL: it is utf-8 */
};

/* 0x80 to 0x9F; above it, byte and code point are the same. */
#define SAME_ROW(base) \
	base + 0, base + 1, base + 2, base + 3, base + 4, base + 5, base + 6, base + 7, \
	base + 8, base + 9, base + 10, base + 11, base + 12, base + 13, base + 14, base + 15

static const uint16 latin1_high[128] = {
	0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
	0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D, 0x017D, 0x008F,
	0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
	0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178,
	SAME_ROW(0xA0), SAME_ROW(0xB0), SAME_ROW(0xC0), SAME_ROW(0xD0), SAME_ROW(0xE0), SAME_ROW(0xF0)
};

static const uint16 ascii_high[128] = {0};

static const CharsetConverter converters[] = {
	{"utf8mb4", NULL},
	{"utf8mb3", NULL},
	{"ascii", ascii_high},
	{"latin1", latin1_high},
	{"binary", NULL},			/* labels of a binary ENUM: taken if they are utf-8 */
};

const CharsetConverter *
capstan_charset_converter(const char *charset)
{
	for (int i = 0; i < (int) lengthof(converters); i++)
		if (strcmp(converters[i].name, charset) == 0)
			return &converters[i];
	return NULL;
}

bool
capstan_charset_is_utf8(const char *data, size_t length)
{
	return length <= MaxAllocSize &&
		pg_encoding_verifymbstr(PG_UTF8, data, (int) length) == (int) length;
}

/* Postgres' check ends at a zero byte, so it is taken up again behind each. */
static TextFault
check_utf8(const char *data, size_t length)
{
	TextFault	fault = TEXT_OK;

	for (;;)
	{
		size_t		good = (size_t) pg_encoding_verifymbstr(PG_UTF8, data, (int) length);

		if (good == length)
			return fault;
		if (data[good] != '\0')
			return TEXT_INVALID;
		fault = TEXT_HAS_NUL;
		data += good + 1;
		length -= good + 1;
	}
}

static text *
text_of_size(size_t length)
{
	text	   *result = (text *) palloc(VARHDRSZ + length);

	SET_VARSIZE(result, VARHDRSZ + length);
	return result;
}

static text *
utf8_to_text(const char *data, size_t length, TextFault *fault)
{
	text	   *result;

	*fault = check_utf8(data, length);
	if (*fault == TEXT_INVALID)
		return NULL;
	result = text_of_size(length);
	if (length > 0)
		memcpy(VARDATA(result), data, length);
	return result;
}

static text *
one_byte_to_text(const uint16 *high, const char *data, size_t length, TextFault *fault)
{
	const unsigned char *in = (const unsigned char *) data;
	const unsigned char *end = in + length;
	size_t		size = length;
	text	   *result;
	char	   *out;

	*fault = TEXT_OK;
	for (const unsigned char *p = in; p < end; p++)
	{
		if (*p == 0)
			*fault = TEXT_HAS_NUL;
		if (*p >= 0x80)
		{
			uint16		c = high[*p - 0x80];

			if (c == 0)
			{
				*fault = TEXT_INVALID;
				return NULL;
			}
			size += c < 0x800 ? 1 : 2;
		}
	}
	if (size > MAX_VARLENA_DATA)
	{
		*fault = TEXT_TOO_LONG;
		return NULL;
	}

	result = text_of_size(size);
	out = VARDATA(result);
	if (size == length)
	{
		if (length > 0)
			memcpy(out, data, length);
		return result;
	}
	for (; in < end; in++)
	{
		uint16		c = *in < 0x80 ? *in : high[*in - 0x80];

		if (c < 0x80)
			*out++ = (char) c;
		else if (c < 0x800)
		{
			*out++ = (char) (0xC0 | (c >> 6));
			*out++ = (char) (0x80 | (c & 0x3F));
		}
		else
		{
			*out++ = (char) (0xE0 | (c >> 12));
			*out++ = (char) (0x80 | ((c >> 6) & 0x3F));
			*out++ = (char) (0x80 | (c & 0x3F));
		}
	}
	return result;
}

text *
capstan_charset_to_text(const CharsetConverter *converter, const char *data, size_t length, TextFault *fault)
{
	if (length > MAX_VARLENA_DATA)
	{
		*fault = TEXT_TOO_LONG;
		return NULL;
	}
	if (converter->high == NULL)
		return utf8_to_text(data, length, fault);
	return one_byte_to_text(converter->high, data, length, fault);
}
