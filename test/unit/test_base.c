/*
 * test_base.c
 *		bytes.h, strbuf, crc32, collation, error.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/collation.h"
#include "base/crc32.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/strbuf.h"

static void
test_bytes(void)
{
	static const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 0xfa, 0xfc, 1, 2, 0xfd, 1, 2, 3, 0xfb};
	ByteReader	reader = capstan_bytes_reader(data, sizeof(data));

	CHECK(capstan_bytes_u16(&reader) == 0x0201);
	CHECK(capstan_bytes_uint_be(&reader, 2) == 0x0304);
	CHECK(capstan_bytes_u32(&reader) == 0x08070605);
	CHECK(capstan_bytes_lenenc(&reader) == 0xfa);
	CHECK(capstan_bytes_lenenc(&reader) == 0x0201);
	CHECK(capstan_bytes_lenenc(&reader) == 0x030201);
	CHECK(!reader.failed && capstan_bytes_left(&reader) == 1);
	CHECK(capstan_bytes_lenenc(&reader) == 0 && reader.failed);
	CHECK(capstan_bytes_u8(&reader) == 0 && capstan_bytes_take(&reader, 0) == NULL && capstan_bytes_left(&reader) == 0);

	reader = capstan_bytes_reader(data, sizeof(data));
	CHECK(capstan_bytes_take(&reader, SIZE_MAX) == NULL && reader.failed);
	reader = capstan_bytes_reader(data, sizeof(data));
	CHECK(capstan_bytes_u64(&reader) == UINT64_C(0x0807060504030201));
}

static void
test_strbuf(void)
{
	StrBuf		buf;

	capstan_strbuf_init(&buf);
	for (int i = 0; i < 1000; i++)
		capstan_strbuf_append_char(&buf, (char) ('a' + i % 26));
	CHECK(buf.length == 1000 && buf.data[999] == 'a' + 999 % 26 && buf.data[1000] == '\0');
	capstan_strbuf_reset(&buf);
	CHECK_STR(buf.data, "");
	capstan_strbuf_printf(&buf, "%d-%s", 7, "x");
	CHECK_STR(buf.data, "7-x");
	for (int width = 100; width < 2000; width += 37)
	{
		capstan_strbuf_reset(&buf);
		capstan_strbuf_append_str(&buf, "ab");
		capstan_strbuf_printf(&buf, "%*d", width, 42);
		CHECK(buf.length == (size_t) width + 2 && strlen(buf.data) == buf.length);
	}
	capstan_strbuf_append(&buf, "", 0);
	capstan_strbuf_free(&buf);
	CHECK(buf.data == NULL && buf.length == 0);
	capstan_strbuf_append(&buf, "", 0);
	CHECK_STR(buf.data, "");
	capstan_strbuf_free(&buf);
}

/* Neither a byte too few nor one too many, wherever pages begin. */
static void
test_pages(void)
{
	size_t		size = 64 * 1024;
	unsigned char *buffer = malloc(size);
	bool		right = true;

	for (size_t begin = 0; begin < 9000; begin += 1 + unit_random() % 500)
		for (int i = 0; i < 20; i++)
		{
			size_t		length = unit_random() % (size - begin);

			memset(buffer, 0xff, size);
			capstan_pages_clear(buffer + begin, length);
			for (size_t at = 0; at < size; at++)
				right = right && buffer[at] == (at >= begin && at < begin + length ? 0 : 0xff);
			memset(buffer, 0xff, size);
			capstan_pages_forget(buffer + begin, length);
			for (size_t at = 0; at < size; at++)
				right = right && (buffer[at] == 0xff || (at >= begin && at < begin + length));
		}
	CHECK(right);
	free(buffer);
}

static void
test_collation(void)
{
	CHECK_STR(capstan_collation_charset(255), "utf8mb4");
	CHECK_STR(capstan_collation_name(255), "utf8mb4_0900_ai_ci");
	CHECK_STR(capstan_collation_charset(63), "binary");
	CHECK_STR(capstan_collation_charset(8), "latin1");
	CHECK_STR(capstan_collation_charset(33), "utf8mb3");
	CHECK(capstan_collation_charset(0) == NULL && capstan_collation_name(0) == NULL);
	CHECK(capstan_collation_charset(17) == NULL);	/* a gap */
	CHECK(capstan_collation_charset(UINT16_MAX) == NULL && capstan_collation_name(UINT16_MAX) == NULL);
	CHECK(capstan_collation_id("utf8mb4_bin") == 46);
	CHECK(capstan_collation_id("utf8mb3_general_ci") == 33 && capstan_collation_id("utf8_general_ci") == 33);
	CHECK(capstan_collation_id("no_such") == 0 && capstan_collation_id("") == 0);
	CHECK(capstan_charset_max_bytes("utf8mb4") == 4 && capstan_charset_max_bytes("utf8") == 3);
	CHECK(capstan_charset_max_bytes("latin1") == 1 && capstan_charset_max_bytes("gbk") == 2);
	CHECK(capstan_charset_max_bytes("no_such") == 0);
	/* Every id: name and id belong together, and the character set has a width. */
	for (int id = 1, known = 0; id <= 400; id++)
	{
		const char *name = capstan_collation_name((uint16_t) id);

		if (name == NULL)
			continue;
		known++;
		CHECK(capstan_collation_id(name) == id);
		CHECK(strncmp(name, capstan_collation_charset((uint16_t) id), strlen(capstan_collation_charset((uint16_t) id))) == 0);
		CHECK(capstan_charset_max_bytes(capstan_collation_charset((uint16_t) id)) > 0);
		if (id == 323)
			CHECK(known == 286);
	}
}

/* Bit by bit, as the polynomial is defined. */
static uint32_t
slow_crc32(uint32_t crc, const uint8_t *data, size_t length)
{
	crc = ~crc;
	for (size_t i = 0; i < length; i++)
	{
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* Of every length up to several folds, from every alignment, and with a CRC before it. */
static void
test_crc32(void)
{
	uint8_t		data[400];
	uint32_t	random = 1;
	bool		same = true;

	CHECK(capstan_crc32("123456789", 9) == 0xcbf43926);
	CHECK(capstan_crc32_extend(capstan_crc32("1234", 4), "56789", 5) == 0xcbf43926);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t) ((random = random * 1664525 + 1013904223) >> 24);
	for (size_t length = 0; length <= sizeof(data) - 16; length++)
		for (size_t offset = 0; offset < 16; offset++)
		{
			random = random * 1664525 + 1013904223;
			same = same && capstan_crc32_extend(random, data + offset, length) == slow_crc32(random, data + offset, length);
		}
	CHECK(same);
}

void
test_base(void)
{
	CapstanError error;

	test_bytes();
	test_strbuf();
	test_pages();
	test_collation();
	test_crc32();
	CHECK(!capstan_error(&error, CAPSTAN_ERROR_LIMIT, "%s", "x") && error.code == CAPSTAN_ERROR_LIMIT);
	CHECK_STR(error.message, "x");
	capstan_error(&error, CAPSTAN_ERROR_LIMIT, "%01000d", 1);
	CHECK(strlen(error.message) == sizeof(error.message) - 1);
}
