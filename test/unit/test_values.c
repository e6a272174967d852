/*
 * test_values.c
 *		Packed decimals, and values in formats that servers of today do not write: the temporal types from before
 *		5.6, rows events of version 1; and values that no server writes, which must be refused.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binlog/internal.h"
#include "builder.h"
#include "fixtures.h"

static void
check_decimal(const char *hex, int precision, int scale, const char *expected)
{
	StrBuf		packed;
	StrBuf		out;

	capstan_strbuf_init(&packed);
	capstan_strbuf_init(&out);
	build_hex(&packed, hex);
	CHECK((int) packed.length == capstan_decimal_packed_size(precision, scale));
	if (expected != NULL)
	{
		CHECK(capstan_decimal_to_text((uint8_t *) packed.data, precision, scale, &out));
		CHECK_STR(out.data, expected);
	}
	else
		CHECK(!capstan_decimal_to_text((uint8_t *) packed.data, precision, scale, &out));
	capstan_strbuf_free(&packed);
	capstan_strbuf_free(&out);
}

void
test_decimal(void)
{
	check_decimal("810dfb38d204d2", 14, 4, "1234567890.1234");
	check_decimal("7ef204c72dfb2d", 14, 4, "-1234567890.1234");
	check_decimal("80000000000000", 14, 4, "0.0000");
	check_decimal("7fffffffffffff", 14, 4, "0.0000");	/* a negative zero */
	check_decimal("8001", 3, 1, "0.1");
	check_decimal("89", 1, 1, "0.9");
	check_decimal("8a", 1, 1, NULL);
	check_decimal("80", 1, 1, "0.0");
	check_decimal("85", 1, 1, "0.5");
	check_decimal("7a", 1, 1, "-0.5");
	check_decimal("89", 1, 0, "9");
	check_decimal("8a", 1, 0, NULL);	/* ten in one digit */
	check_decimal("bb9aca00", 9, 0, NULL);	/* 10^9 in nine digits */
	check_decimal("bb9ac9ff", 9, 0, "999999999");
	check_decimal("80000001", 9, 9, "0.000000001");
	check_decimal("e4", 2, 0, NULL);
}

/* One row of one column; NULL: it must be refused. */
static void
check_value(const char *type, const char *metadata, const char *optional, const char *image, const char *expected)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		event;
	BinlogEvent decoded;
	CapstanError error;
	SourceChange change;

	capstan_strbuf_init(&event);
	build_table_map(&event, type, metadata, optional);
	if (CHECK_MSG(build_decode(decoder, &event, &decoded, &error), "type %s: %s", type, error.message))
	{
		BinlogNext	next;
		StrBuf		line;
		uint8_t	   *copy;

		capstan_strbuf_init(&line);
		build_rows(&event, 30, 1, image);
		/* Of exactly its size, so that the sanitizer sees a read past the end. */
		copy = malloc(event.length);
		memcpy(copy, event.data, event.length);
		CHECK(capstan_binlog_decode(decoder, copy, event.length, &decoded, &error));
		next = capstan_binlog_next_change(decoder, &change, &error);
		if (expected == NULL)
		{
			CHECK_MSG(next == BINLOG_ERROR && error.code != CAPSTAN_OK, "type %s value %s was accepted", type, image);
			CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_ERROR);
		}
		else if (CHECK_MSG(next == BINLOG_CHANGE, "type %s value %s: %s", type, image, error.message))
		{
			fixture_format_change(&change, &line);
			CHECK_STR(line.data + strlen("insert\tt\t"), expected);
			CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_END);
		}
		free(copy);
		capstan_strbuf_free(&line);
	}
	capstan_strbuf_free(&event);
	capstan_binlog_free(decoder);
}

#define SIGNED "010100"
#define UNSIGNED "010180"
#define LATIN1 "020108"
#define BINARY "02013f"

void
test_values(void)
{
	/* Before 5.6. */
	check_value("07", "", "", "00 00f15365", "2023-11-14 22:13:20");
	check_value("07", "", "", "00 00000000", "0000-00-00 00:00:00");
	check_value("0c", "", "", "00 37a0606c66120000", "2023-11-14 23:59:59");
	check_value("0c", "", "", "00 0000000000000000", "0000-00-00 00:00:00");
	check_value("0c", "", "", "00 ffffffffffffffff", NULL);
	check_value("0c", "", "", "00 39a0606c66120000", NULL);	/* 61 seconds */
	check_value("0b", "", "", "00 a7f57f", "838:59:59");
	check_value("0b", "", "", "00 590a80", "-838:59:59");
	check_value("0b", "", "", "00 ffffff", "-00:00:01");
	check_value("0b", "", "", "00 c7ffff", "-00:00:57");
	check_value("0b", "", "", "00 630000", NULL);	/* 99 seconds */
	check_value("0e", "", "", "00 5dce0f", "2023-02-29");

	/* Out of every range. */
	check_value("0a", "", "", "00 bfcf0f", NULL);	/* month 13 */
	check_value("0a", "", "", "00 ffffff", NULL);
	check_value("12", "00", "", "00 7fffffffff", NULL);	/* negative */
	check_value("12", "00", "", "00 8000018000", NULL);	/* hour 24 */
	check_value("12", "06", "", "00 8000000000 0f4240", NULL);	/* a million microseconds */
	check_value("12", "02", "", "00 8000000000 64", NULL);
	check_value("13", "00", "", "00 b47000", NULL);	/* over 838 hours: 839 */
	check_value("13", "00", "", "00 80003c", NULL);	/* second 60 */
	check_value("13", "06", "", "00 8000000f4240", NULL);
	check_value("11", "06", "", "00 00000001 0f4240", NULL);
	check_value("11", "00", "", "00 ffffffff", "2106-02-07 06:28:15");

	/* Bits above the column's width, label numbers past the labels. */
	check_value("10", "0100", "", "00 01", "01");
	check_value("10", "0100", "", "00 02", NULL);
	check_value("10", "0101", "", "00 01ff", "01FF");
	check_value("10", "0101", "", "00 02ff", NULL);
	check_value("10", "0008", "", "00 ffffffffffffffff", "FFFFFFFFFFFFFFFF");
	check_value("fe", "f701", "0a0108 0605 02 0161 0162", "00 02", "2");
	check_value("fe", "f701", "0a0108 0605 02 0161 0162", "00 03", NULL);
	check_value("fe", "f801", "0a0108 0505 02 0161 0162", "00 03", "3");
	check_value("fe", "f801", "0a0108 0505 02 0161 0162", "00 04", NULL);
	check_value("fe", "f801", "", "00 ff", "255");	/* labels not known */

	/* Strings: over their length, cut off. */
	check_value("fe", "fe04", LATIN1, "00 03616263", "616263");
	check_value("fe", "fe04", LATIN1, "00 056162636465", NULL);
	check_value("fe", "fe04", BINARY, "00 026162", "61620000");
	check_value("fe", "fe04", BINARY, "00 00", "00000000");
	check_value("fe", "fe04", BINARY, "00 0461626364", "61626364");
	check_value("fe", "fe04", LATIN1, "00 036162", NULL);
	check_value("0f", "0001", LATIN1, "00 0100 61", "61");	/* 256 bytes: two of length */
	check_value("0f", "ff00", LATIN1, "00 01 61", "61");
	check_value("fd", "ff00", LATIN1, "00 01 61", "61");
	check_value("fc", "04", LATIN1, "00 ffffffff", NULL);
	check_value("fc", "03", BINARY, "00 010000 ff", "FF");

	/* Numbers. */
	check_value("01", "", SIGNED, "00 80", "-128");
	check_value("01", "", UNSIGNED, "00 80", "128");
	check_value("09", "", SIGNED, "00 ffff7f", "8388607");
	check_value("09", "", SIGNED, "00 000080", "-8388608");
	check_value("09", "", UNSIGNED, "00 000080", "8388608");
	check_value("08", "", UNSIGNED, "00 ffffffffffffffff", "18446744073709551615");
	check_value("08", "", SIGNED, "00 ffffffffffffff", NULL);
	check_value("04", "04", SIGNED, "00 0000c07f", "fnan");
	check_value("f6", "0901", SIGNED, "00 7fffffff 09", NULL);

	/* JSON: no bytes are null, bad ones an error; NULL. */
	check_value("f5", "04", "", "00 00000000", "6E756C6C");
	check_value("f5", "04", "", "00 02000000 0403", NULL);
	check_value("f5", "04", "", "01", "NULL");
}
