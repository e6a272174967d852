/*
 * test_json.c
 *		Binary JSON: doubles against thousands that a server printed (data/doubles.tsv), and documents
 *		that no server makes.  Whole documents are in the json fixture.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binlog/internal.h"
#include "builder.h"
#include "told.h"

/* The same told to a visitor. */
static bool
is_told_as(const uint8_t *document, size_t length, const char *expected)
{
	StrBuf		out = {NULL, 0, 0};
	CapstanError error;
	bool		same = told_text(capstan_json_walk, document, length, &out, &error) && strcmp(out.data, expected) == 0;

	capstan_strbuf_free(&out);
	return same;
}

static void
test_doubles(void)
{
	size_t		length;
	char	   *data = (char *) unit_load("doubles.tsv", &length);
	char	   *rest = data;
	char	   *line;
	int			count = 0;
	StrBuf		document;
	StrBuf		out;
	CapstanError error;

	capstan_strbuf_init(&document);
	capstan_strbuf_init(&out);
	while ((line = unit_line(&rest)) != NULL)
	{
		const char *hex = unit_field(&line, '\t');

		capstan_strbuf_reset(&document);
		capstan_strbuf_reset(&out);
		build_hex(&document, "0b");
		build_hex(&document, hex);
		CHECK(capstan_json_to_text((uint8_t *) document.data, document.length, &out, &error));
		CHECK_MSG(strcmp(out.data, line) == 0, "double %s: got %s, expected %s", hex, out.data, line);
		CHECK_MSG(is_told_as((uint8_t *) document.data, document.length, line), "double %s is told in another way", hex);
		count++;
	}
	CHECK(count > 5000);
	free(data);
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&out);
}

/* Decimals of up to 15 digits, of which up to 7 come after the point: each prints as it was written. */
static void
test_short_doubles(void)
{
	uint64_t	random = 1;
	int			different = 0;

	for (int i = 0; i < 200000; i++)
	{
		StrBuf		out = {NULL, 0, 0};
		uint8_t		document[9] = {11};
		CapstanError error;
		char		expected[40];
		double		value;
		uint64_t	power = 1;
		int			after;
		uint64_t	number;

		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		after = 1 + (int) (random >> 60) % 7;
		for (int digits = 1 + (int) (random >> 33) % 15; digits > 0; digits--)
			power *= 10;
		number = (random >> 8) % power;
		power = 1;
		for (int digit = 0; digit < after; digit++)
			power *= 10;
		snprintf(expected, sizeof(expected), "%s%llu.%0*llu", i % 2 ? "-" : "", (unsigned long long) (number / power), after,
				 (unsigned long long) (number % power));
		value = strtod(expected, NULL);
		for (size_t last = strlen(expected) - 1; expected[last] == '0' && expected[last - 1] != '.'; last--)
			expected[last] = '\0';
		memcpy(document + 1, &value, sizeof(value));
		different += !capstan_json_to_text(document, sizeof(document), &out, &error) || strcmp(out.data, expected) != 0;
		capstan_strbuf_free(&out);
	}
	CHECK_MSG(different == 0, "%d doubles print in another way", different);
}

/* NULL: it must be refused. */
static void
check_json(const char *hex, const char *expected)
{
	StrBuf		document;
	StrBuf		out;
	CapstanError error;
	uint8_t    *copy;
	bool		ok;

	capstan_strbuf_init(&document);
	capstan_strbuf_init(&out);
	capstan_strbuf_append(&document, "", 0);
	build_hex(&document, hex);
	copy = malloc(document.length + (document.length == 0));
	memcpy(copy, document.data, document.length);
	ok = capstan_json_to_text(copy, document.length, &out, &error);
	CHECK_MSG(ok == (expected != NULL), "%s: %s", hex, ok ? out.data : error.message);
	if (ok && expected != NULL)
		CHECK_STR(out.data, expected);
	CHECK_MSG(is_told_as(copy, document.length, expected != NULL ? expected : "") == (expected != NULL), "%s: told", hex);
	free(copy);
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&out);
}

/* `depth` arrays around nothing, each the only element of the one around it. */
static bool
nested(int depth)
{
	StrBuf		document;
	StrBuf		out;
	CapstanError error;
	bool		ok;

	capstan_strbuf_init(&document);
	capstan_strbuf_init(&out);
	build_uint(&document, 2, 1);
	for (int i = depth; i > 1; i--)
	{
		build_uint(&document, 1, 2);
		build_uint(&document, 7 * (uint64_t) i - 3, 2);
		build_uint(&document, 2, 1);
		build_uint(&document, 7, 2);
	}
	build_uint(&document, 0, 2);
	build_uint(&document, 4, 2);
	ok = capstan_json_to_text((uint8_t *) document.data, document.length, &out, &error);
	CHECK(ok || error.code == CAPSTAN_ERROR_LIMIT);
	CHECK(!ok || out.length == 2 * (size_t) depth);
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&out);
	return ok;
}

static void
test_documents(void)
{
	check_json("", "null");
	check_json("0400", "null");
	check_json("0402", "false");
	check_json("0403", NULL);
	check_json("04", NULL);
	check_json("05ffff", "-1");
	check_json("06ffff", "65535");
	check_json("05ff", NULL);
	check_json("0d00", NULL);
	check_json("ff00", NULL);
	check_json("0c00", "\"\"");
	check_json("0c0161", "\"a\"");
	check_json("0c0261", NULL);
	check_json("0cffffffff7f61", NULL);
	check_json("0cffffffffff0161", NULL);	/* a length of more than 32 bits */
	check_json("0b000000000000f07f", NULL);	/* infinity */
	check_json("0b000000000000f87f", NULL);

	/* Arrays and objects: inlined values, offsets out of the value, sizes and counts that lie. */
	check_json("02 0000 0400", "[]");
	check_json("00 0000 0400", "{}");
	check_json("02 0100 0700 04 0100", "[true]");
	check_json("02 0100 0700 05 0080", "[-32768]");
	check_json("03 01000000 0d000000 07 ffffffff", "[-1]");
	check_json("03 01000000 0d000000 08 ffffffff", "[4294967295]");
	check_json("02 0100 0b00 07 0700 ffffffff", "[-1]");
	check_json("02 0100 0700 05 00", NULL);
	check_json("02 0100 0800 05 0080", NULL);
	check_json("02 0200 0700 05 0080", NULL);
	check_json("02 ffff 0700 05 0080", NULL);
	check_json("03 ffffffff 0d000000 07 ffffffff", NULL);
	check_json("02 0100 0700 0c 0700", NULL);
	check_json("02 0100 0900 0c 0700 0161", "[\"a\"]");
	check_json("02 0100 0900 0c 0900 0161", NULL);
	check_json("02 0000 0300", NULL);
	check_json("00 0100 0c00 0b00 0100 04 0000 61", "{\"a\": null}");
	check_json("00 0100 0c00 0b00 0200 04 0000 61", NULL);
	check_json("00 0100 0c00 ff00 0100 04 0000 61", NULL);
	/* An array that contains itself: depth ends it. */
	check_json("02 0100 0700 02 0000", NULL);
	/* Each of two elements is the array itself: the output's limit ends it. */
	check_json("02 0200 0a00 02 0000 02 0000", NULL);

	/* Opaque values. */
	check_json("0f f6 04 0402 8096 64", NULL);
	check_json("0f f6 04 0402 0164", NULL);
	check_json("0f f6 05 0402 8101 32", NULL);
	check_json("0f f6 04 0402 817b", NULL);
	check_json("0f f6 04 0402 8132", "1.50");
	check_json("0f f6 02 0402", NULL);
	check_json("0f f6 00", NULL);
	check_json("0f f6 04 0204 8132", NULL);
	check_json("0f 0b 08 0000000000000000", "\"00:00:00.000000\"");
	check_json("0f 0b 08 ffffffffffffffff", "\"-00:00:00.000001\"");
	check_json("0f 0b 07 00000000000000", NULL);
	check_json("0f 0b 08 0000000000000080", NULL);
	check_json("0f 0c 08 ffffffffffffffff", NULL);
	check_json("0f 0c 08 ffffffffffffff7f", NULL);
	check_json("0f fc 03 4d616e", "\"base64:type252:TWFu\"");
	check_json("0f fc 01 4d", "\"base64:type252:TQ==\"");
	check_json("0f fc 04 4d616e", NULL);
}

/* The same to the document as text, which is not touched where it is not changed. */
static void
check_text_difference(const char *text, const StrBuf *diffs, const char *expected)
{
	SourceBytes document = {text, strlen(text)};
	SourceBytes differences = {diffs->data, diffs->length};
	StrBuf		out = {NULL, 0, 0};
	CapstanError error = {CAPSTAN_OK, ""};
	bool		ok = capstan_json_apply_diffs_to_text(&document, &differences, &out, &error);

	CHECK_MSG(ok == (expected != NULL), "%s: %s", text, ok ? out.data : error.message);
	if (ok && expected != NULL)
		CHECK_STR(out.data, expected);
	CHECK(ok == (error.code == CAPSTAN_OK));
	for (size_t cut = 0; cut < document.length && expected != NULL; cut++)
	{
		char	   *copy = memcpy(malloc(cut + 1), text, cut);	/* so that a byte too many is noticed */

		document.data = copy;
		document.length = cut;
		capstan_strbuf_reset(&out);
		CHECK(!capstan_json_apply_diffs_to_text(&document, &differences, &out, &error));
		free(copy);
	}
	capstan_strbuf_free(&out);
}

static void
build_difference(StrBuf *diffs, int op, const char *path, const char *value)
{
	StrBuf		bytes = {NULL, 0, 0};

	build_uint(diffs, (uint64_t) op, 1);
	build_lenenc(diffs, strlen(path));
	capstan_strbuf_append_str(diffs, path);
	build_hex(&bytes, value);
	if (bytes.length > 0)
	{
		build_lenenc(diffs, bytes.length);
		capstan_strbuf_append(diffs, bytes.data, bytes.length);
	}
	capstan_strbuf_free(&bytes);
}

/* op, path, value as hex of a binary document ("" with a remove), applied to {"a": [1, 2], "b": "x"}. */
static void
check_difference(int op, const char *path, const char *value, const char *expected)
{
	static const char document_hex[] =
		"00 0200 2300 1200 0100 1300 0100 02 1400 0c 2100 61 62 0200 0a00 05 0100 05 0200 000000 01 78";
	StrBuf		document = {NULL, 0, 0};
	StrBuf		diffs = {NULL, 0, 0};
	StrBuf		out = {NULL, 0, 0};
	CapstanError error = {CAPSTAN_OK, ""};
	bool		ok;

	build_hex(&document, document_hex);
	build_difference(&diffs, op, path, value);
	check_text_difference("{\"a\": [1, 2], \"b\": \"x\"}", &diffs, expected);
	ok = capstan_json_apply_diffs((uint8_t *) document.data, document.length, (uint8_t *) diffs.data, diffs.length, &out, &error);
	CHECK_MSG(ok == (expected != NULL), "%d %s: %s", op, path, ok ? out.data : error.message);
	if (ok && expected != NULL)
		CHECK_STR(out.data, expected);
	CHECK(ok == (error.code == CAPSTAN_OK));
	/* Cut off, it is refused, whatever is cut. */
	for (size_t cut = 1; cut < diffs.length && expected != NULL; cut++)
	{
		capstan_strbuf_reset(&out);
		CHECK(!capstan_json_apply_diffs((uint8_t *) document.data, document.length, (uint8_t *) diffs.data, cut, &out, &error));
	}
	/* Nothing of it fits a scalar, and none fits no document at all. */
	CHECK(!capstan_json_apply_diffs((const uint8_t *) "\x04", 2, (uint8_t *) diffs.data, diffs.length, &out, &error));
	CHECK(!capstan_json_apply_diffs((const uint8_t *) "", 0, (uint8_t *) diffs.data, diffs.length, &out, &error));
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&diffs);
	capstan_strbuf_free(&out);
}

static void
check_text(int op, const char *path, const char *value, const char *text, const char *expected)
{
	StrBuf		diffs = {NULL, 0, 0};

	build_difference(&diffs, op, path, value);
	check_text_difference(text, &diffs, expected);
	capstan_strbuf_free(&diffs);
}

/* Differences to documents as the target has them. */
static void
test_text_differences(void)
{
	StrBuf		two = {NULL, 0, 0};

	/* What is not changed stays as it is written. */
	check_text(0, "$.b", "0401", "{\"b\": 1, \"n\": 1.0, \"cc\": -0.0, \"ddd\": 1e400, \"eeee\": \"\\u0000 \\\" ]}\"}",
			   "{\"b\": true, \"n\": 1.0, \"cc\": -0.0, \"ddd\": 1e400, \"eeee\": \"\\u0000 \\\" ]}\"}");
	check_text(1, "$[1]", "0c0179", "[1.50, {\"x\": [\"[\"]}]", "[1.50, \"y\", {\"x\": [\"[\"]}]");
	check_text(0, "$[1].x[0]", "0c0179", "[\"]\", {\"x\": [\"[\", []], \"y\": {}}]", "[\"]\", {\"x\": [\"y\", []], \"y\": {}}]");
	check_text(1, "$[0]", "0400", "[]", "[null]");
	check_text(1, "$[last]", "0400", "[]", "[null]");
	check_text(0, "$[last][last-1]", "0400", "[[1, 2], [3, 4]]", "[[1, 2], [null, 4]]");
	check_text(1, "$.a", "0400", "{}", "{\"a\": null}");
	check_text(2, "$.a", "", "{\"a\": {\"b\": [1, 2]}}", "{}");
	/* Names are compared as they are meant, by length and bytes. */
	check_text(0, "$.\"q\\\"\"", "0400", "{\"q\\\"\": 1, \"x\\n\": 2}", "{\"q\\\"\": null, \"x\\n\": 2}");
	check_text(1, "$.\"\\u0001\"", "0400", "{\"a\": 1, \"bb\": 2}", "{\"\\u0001\": null, \"a\": 1, \"bb\": 2}");
	check_text(0, "$.\"\\u0000\"", "0400", "{\"\\u0000\": 1, \"\\u0001\": 2}", "{\"\\u0000\": null, \"\\u0001\": 2}");
	check_text(0, "$.\"\u00e9\"", "0400", "{\"z\": 1, \"\u00e9\": 2}", "{\"z\": 1, \"\u00e9\": null}");
	/* One after the other, each to what the one before it left. */
	build_difference(&two, 1, "$.c", "02 0000 0400");
	build_difference(&two, 1, "$.c[0]", "0401");
	build_difference(&two, 2, "$.a", "");
	check_text_difference("{\"a\": 1}", &two, "{\"c\": [true]}");
	capstan_strbuf_free(&two);

	/* What is no document, and what does not fit one. */
	check_text(0, "$.a", "0400", "", NULL);
	check_text(0, "$.a", "0400", "null", NULL);
	check_text(0, "$.a", "0400", "\"a\"", NULL);
	check_text(0, "$.a", "0400", "{\"a\": 1} {}", NULL);
	check_text(0, "$.a", "0400", "{\"a\" 1}", NULL);
	check_text(0, "$.a", "0400", "{\"a\": 1 \"b\": 2}", NULL);
	check_text(0, "$.a", "0400", "{\"a\": 1, }", NULL);
	check_text(0, "$.a", "0400", "{\"a\":}", NULL);
	check_text(0, "$.a", "0400", "{a: 1}", NULL);
	check_text(0, "$.a", "0400", "{\"a\": 1]", NULL);
	check_text(0, "$.a", "0400", "{\"\\u00e9\": 1}", NULL);
	check_text(0, "$.a", "0400", "{\"\\x\": 1}", NULL);
	check_text(0, "$[0]", "0400", "[1 2]", NULL);
	check_text(0, "$[0]", "0400", "[,1]", NULL);
}

static void
test_differences(void)
{
	check_difference(0, "$.b", "0401", "{\"a\": [1, 2], \"b\": true}");
	check_difference(0, "$.a", "0400", "{\"a\": null, \"b\": \"x\"}");
	check_difference(0, "$.a[1]", "0c0179", "{\"a\": [1, \"y\"], \"b\": \"x\"}");
	check_difference(0, "$.\"a\"[0]", "0400", "{\"a\": [null, 2], \"b\": \"x\"}");
	check_difference(1, "$.aa", "0400", "{\"a\": [1, 2], \"b\": \"x\", \"aa\": null}");
	check_difference(1, "$.\"\"", "0400", "{\"\": null, \"a\": [1, 2], \"b\": \"x\"}");
	check_difference(1, "$.\"\\u0001\\n\\\"\"", "0400", "{\"a\": [1, 2], \"b\": \"x\", \"\\u0001\\n\\\"\": null}");
	check_difference(1, "$.a[0]", "0400", "{\"a\": [null, 1, 2], \"b\": \"x\"}");
	check_difference(1, "$.a[2]", "0400", "{\"a\": [1, 2, null], \"b\": \"x\"}");
	check_difference(1, "$.a[99]", "0400", "{\"a\": [1, 2, null], \"b\": \"x\"}");
	check_difference(2, "$.a", "", "{\"b\": \"x\"}");
	check_difference(2, "$.a[0]", "", "{\"a\": [2], \"b\": \"x\"}");
	check_difference(0, "$.a[last]", "0400", "{\"a\": [1, null], \"b\": \"x\"}");
	check_difference(0, "$.a[last-1]", "0400", "{\"a\": [null, 2], \"b\": \"x\"}");
	check_difference(1, "$.a[last]", "0400", "{\"a\": [1, null, 2], \"b\": \"x\"}");
	check_difference(1, "$.a[last-9]", "0400", "{\"a\": [null, 1, 2], \"b\": \"x\"}");
	check_difference(2, "$.a[last-1]", "", "{\"a\": [2], \"b\": \"x\"}");

	/* What does not fit the document. */
	check_difference(0, "$.a[last-2]", "0400", NULL);
	check_difference(2, "$.a[last-2]", "", NULL);
	check_difference(0, "$.a[last].c", "0400", NULL);
	check_difference(0, "$.c", "0400", NULL);
	check_difference(0, "$.a[2]", "0400", NULL);
	check_difference(0, "$.a.b", "0400", NULL);
	check_difference(0, "$.b[0]", "0400", NULL);
	check_difference(0, "$[0]", "0400", NULL);
	check_difference(0, "$.c.d", "0400", NULL);
	check_difference(1, "$.b", "0400", NULL);
	check_difference(2, "$.c", "", NULL);
	check_difference(2, "$.a[2]", "", NULL);

	/* What is no path, no operation, no value. */
	check_difference(0, "$", "0400", NULL);
	check_difference(0, "", "0400", NULL);
	check_difference(0, "a", "0400", NULL);
	check_difference(0, "$.*", "0400", NULL);
	check_difference(0, "$.", "0400", NULL);
	check_difference(0, "$[", "0400", NULL);
	check_difference(0, "$.a[", "0400", NULL);
	check_difference(0, "$.a[*]", "0400", NULL);
	check_difference(0, "$.a[last", "0400", NULL);
	check_difference(0, "$.a[last-", "0400", NULL);
	check_difference(0, "$.a[last-]", "0400", NULL);
	check_difference(0, "$.a[last+1]", "0400", NULL);
	check_difference(0, "$.a[latest]", "0400", NULL);
	check_difference(0, "$.a[1 to last]", "0400", NULL);
	check_difference(0, "$.a[1", "0400", NULL);
	check_difference(0, "$.a[99999999999]", "0400", NULL);
	check_difference(0, "$.\"a", "0400", NULL);
	check_difference(0, "$.\"\\x\"", "0400", NULL);
	check_difference(0, "$.\"\\u00\"", "0400", NULL);
	check_difference(0, "$.\"\\u00e9\"", "0400", NULL);
	check_difference(3, "$.a", "0400", NULL);
	check_difference(0, "$.a", "0405", NULL);
	check_difference(0, "$.a", "04", NULL);
}

void
test_json(void)
{
	test_differences();
	test_text_differences();
	test_doubles();
	test_short_doubles();
	test_documents();
	CHECK(nested(1));
	CHECK(nested(100));
	CHECK(!nested(101));
	CHECK(!nested(5000));
}
