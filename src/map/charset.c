/*
 * charset.c
 *		Bytes of a MySQL character set made utf-8 text.
 *
 * Called by the text converters and by whoever reads labels.  Knows nothing of
 * policies: a zero byte is reported, not judged.
 *
 * The result is what MySQL's own CONVERT(... USING utf8mb4) gives, character by character.  Where that would
 * be "?" or U+FFFD, MySQL's signs for "no such character", there is no result: TEXT_INVALID, as for bytes
 * that are not well-formed in their character set.
 *
 * The codes of all sets but cp932, eucjpms, ujis, sjis and armscii8 stand for one character each.  In those, some
 * characters have two codes: as text nothing is lost by that, but two keys could become one, so
 * capstan_charset_has_second_code() tells whether a text has a code that MySQL itself would not have chosen.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "compat.h"
#include "map/charset.h"

/* Up to this input, room for the longest possible result is taken; above it, the result is measured first. */
#define UNMEASURED_INPUT 8192

/* One byte becomes at most three: all characters of more than three bytes in utf-8 have four bytes here, too. */
#define MOST_BYTES_PER_BYTE 3

/* As many as MySQL has. */
#define MAX_CHARSETS 64

const CharsetConverter *
capstan_charset_converter(const char *charset)
{
	static const CharsetConverter *known[MAX_CHARSETS];
	static int	nknown = 0;
	const CharsetConverter *converter;

	for (int i = 0; i < nknown; i++)
		if (strcmp(known[i]->name, charset) == 0)
			return known[i];
	converter = capstan_charset_build(charset);
	if (converter != NULL && nknown < MAX_CHARSETS)
		known[nknown++] = converter;
	return converter;
}

/* ---- utf-8 ---- */

bool
capstan_charset_is_utf8(const char *data, size_t length)
{
	return length <= MaxAllocSize &&
		pg_encoding_verifymbstr(PG_UTF8, data, (int) length) == (int) length;
}

/* Postgres' check ends at a zero byte, so it is taken up again behind each. */
TextFault
capstan_charset_check_utf8(const char *data, size_t length)
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

static bool
has_four_byte_characters(const char *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char) data[i] >= 0xF0)
			return true;
	return false;
}

static text *
utf8_to_text(const CharsetConverter *converter, const char *data, size_t length, TextFault *fault)
{
	text	   *result;

	*fault = capstan_charset_check_utf8(data, length);
	if (converter->kind == CHARSET_UTF8MB3 && has_four_byte_characters(data, length))
		*fault = TEXT_INVALID;
	if (*fault == TEXT_INVALID)
		return NULL;
	result = (text *) palloc(VARHDRSZ + length);
	SET_VARSIZE(result, VARHDRSZ + length);
	if (length > 0)
		memcpy(VARDATA(result), data, length);
	return result;
}

/* ---- one character of each kind ---- */

/*
 * The character at p, of `left` bytes (at least one): its code point in *c, its length returned.  0: no character,
 * or cut off.
 */
typedef int (*DecodeCharacter) (const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c);

static inline int
decode_one_byte(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	*c = converter->one[*p];
	return *c != 0 || *p == 0 ? 1 : 0;
}

/* gb18030: second and fourth byte 30 to 39, first and third 81 to FE; the four are the digits of a number. */
static int
decode_four_bytes(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	uint32		number;

	if (left < 4 || p[0] < 0x81 || p[0] > 0xFE || p[1] < 0x30 || p[1] > 0x39 ||
		p[2] < 0x81 || p[2] > 0xFE || p[3] < 0x30 || p[3] > 0x39)
		return 0;
	number = (((p[0] - 0x81) * 10 + p[1] - 0x30) * 126 + p[2] - 0x81) * 10 + p[3] - 0x30;
	if (number < GB18030_BMP_CODES)
		*c = converter->four[number];
	else if (number >= GB18030_ABOVE_BMP && number - GB18030_ABOVE_BMP <= 0x10FFFF - 0x10000)
		*c = 0x10000 + number - GB18030_ABOVE_BMP;
	else
		return 0;
	return *c != 0 ? 4 : 0;
}

static inline int
decode_many_bytes(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	*c = converter->one[*p];
	if (*c != 0 || *p == 0)
		return 1;
	if (left < 2)
		return 0;
	if (*p == CHARSET_SHIFT3 && converter->three.cells != NULL)
	{
		*c = left < 3 ? 0 : charset_grid_cell(&converter->three, p[1], p[2]);
		return *c != 0 ? 3 : 0;
	}
	*c = charset_grid_cell(&converter->two, p[0], p[1]);
	if (*c != 0)
		return 2;
	return converter->four != NULL ? decode_four_bytes(converter, p, left, c) : 0;
}

#define IS_SURROGATE(c) (((c) & 0xF800) == 0xD800)
#define IS_FIRST_SURROGATE(c) (((c) & 0xFC00) == 0xD800)
#define IS_SECOND_SURROGATE(c) (((c) & 0xFC00) == 0xDC00)

static inline int
decode_ucs2(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	if (left < 2)
		return 0;
	*c = p[0] << 8 | p[1];
	return IS_SURROGATE(*c) ? 0 : 2;
}

/* From two units of utf-16. */
static inline int
decode_units(uint32 unit, uint32 next, size_t left, uint32 *c)
{
	*c = unit;
	if (!IS_SURROGATE(unit))
		return 2;
	if (left < 4 || !IS_FIRST_SURROGATE(unit) || !IS_SECOND_SURROGATE(next))
		return 0;
	*c = 0x10000 + ((unit & 0x3FF) << 10 | (next & 0x3FF));
	return 4;
}

static inline int
decode_utf16(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	if (left < 2)
		return 0;
	return decode_units(p[0] << 8 | p[1], left < 4 ? 0 : p[2] << 8 | p[3], left, c);
}

static inline int
decode_utf16le(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	if (left < 2)
		return 0;
	return decode_units(p[1] << 8 | p[0], left < 4 ? 0 : p[3] << 8 | p[2], left, c);
}

static inline int
decode_utf32(const CharsetConverter *converter, const uint8 *p, size_t left, uint32 *c)
{
	if (left < 4)
		return 0;
	*c = (uint32) p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
	return *c > 0x10FFFF || (*c < 0x10000 && IS_SURROGATE(*c)) ? 0 : 4;
}

/* ---- all characters ---- */

static inline int
utf8_length(uint32 c)
{
	return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static inline char *
append_utf8(char *out, uint32 c)
{
	if (c < 0x80)
		*out++ = (char) c;
	else if (c < 0x800)
	{
		*out++ = (char) (0xC0 | c >> 6);
		*out++ = (char) (0x80 | (c & 0x3F));
	}
	else if (c < 0x10000)
	{
		*out++ = (char) (0xE0 | c >> 12);
		*out++ = (char) (0x80 | (c >> 6 & 0x3F));
		*out++ = (char) (0x80 | (c & 0x3F));
	}
	else
	{
		*out++ = (char) (0xF0 | c >> 18);
		*out++ = (char) (0x80 | (c >> 12 & 0x3F));
		*out++ = (char) (0x80 | (c >> 6 & 0x3F));
		*out++ = (char) (0x80 | (c & 0x3F));
	}
	return out;
}

/* Eight bytes that are all ASCII, and none of them zero? */
static inline bool
is_plain_ascii(const uint8 *p)
{
	uint64		chunk;

	memcpy(&chunk, p, sizeof(chunk));
	return ((chunk | (chunk - UINT64CONST(0x0101010101010101))) & UINT64CONST(0x8080808080808080)) == 0;
}

/* Bytes of the result. */
static pg_attribute_always_inline size_t
measure(const CharsetConverter *converter, const uint8 *p, const uint8 *end, DecodeCharacter decode)
{
	size_t		size = 0;

	while (p < end)
	{
		uint32		c;
		int			length;

		if (converter->ascii && end - p >= 8 && is_plain_ascii(p))
		{
			p += 8;
			size += 8;
			continue;
		}
		length = decode(converter, p, end - p, &c);
		/* What stops the conversion needs no room. */
		if (length == 0)
			break;
		p += length;
		size += utf8_length(c);
	}
	return size;
}

static pg_attribute_always_inline text *
transcode(const CharsetConverter *converter, const char *data, size_t input_length, TextFault *fault, DecodeCharacter decode)
{
	const uint8 *p = (const uint8 *) data;
	const uint8 *end = p + input_length;
	size_t		room = input_length <= UNMEASURED_INPUT ? input_length * MOST_BYTES_PER_BYTE : measure(converter, p, end, decode);
	text	   *result;
	char	   *out;

	if (room > MAX_VARLENA_DATA)
	{
		*fault = TEXT_TOO_LONG;
		return NULL;
	}
	*fault = TEXT_OK;
	result = (text *) palloc(VARHDRSZ + room);
	out = VARDATA(result);
	while (p < end)
	{
		uint32		c;
		int			length;

		if (converter->ascii && end - p >= 8 && is_plain_ascii(p))
		{
			memcpy(out, p, 8);
			p += 8;
			out += 8;
			continue;
		}
		length = decode(converter, p, end - p, &c);
		if (length == 0)
		{
			*fault = TEXT_INVALID;
			pfree(result);
			return NULL;
		}
		if (c == 0)
			*fault = TEXT_HAS_NUL;
		p += length;
		out = append_utf8(out, c);
	}
	SET_VARSIZE(result, out - (char *) result);
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
	switch (converter->kind)
	{
		case CHARSET_UTF8:
		case CHARSET_UTF8MB3:
			return utf8_to_text(converter, data, length, fault);
		case CHARSET_ONE_BYTE:
			return transcode(converter, data, length, fault, decode_one_byte);
		case CHARSET_MANY_BYTES:
			return transcode(converter, data, length, fault, decode_many_bytes);
		case CHARSET_UCS2:
			return transcode(converter, data, length, fault, decode_ucs2);
		case CHARSET_UTF16:
			return transcode(converter, data, length, fault, decode_utf16);
		case CHARSET_UTF16LE:
			return transcode(converter, data, length, fault, decode_utf16le);
		case CHARSET_UTF32:
			return transcode(converter, data, length, fault, decode_utf32);
	}
	*fault = TEXT_INVALID;
	return NULL;
}

/* ---- second codes ---- */

static bool
is_second_code(const CharsetConverter *converter, uint32 code)
{
	int			low = 0;
	int			high = converter->nsecond;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (converter->second[middle] == code)
			return true;
		if (converter->second[middle] < code)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool
capstan_charset_has_second_code(const CharsetConverter *converter, const char *data, size_t length)
{
	const uint8 *p = (const uint8 *) data;
	const uint8 *end = p + length;

	if (converter->nsecond == 0)
		return false;
	while (p < end)
	{
		uint32		c;
		uint32		code = 0;
		int			n = decode_many_bytes(converter, p, end - p, &c);

		if (n == 0)
			return false;
		for (int i = 0; i < n; i++)
			code = code << 8 | *p++;
		if (is_second_code(converter, code))
			return true;
	}
	return false;
}
