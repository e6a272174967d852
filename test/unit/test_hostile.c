/*
 * test_hostile.c
 *		Bytes made to take for ever, or all memory: each is read in a time that grows with its length, or refused.
 *
 * Why: nothing interrupts the pure layers, and a process that the machine's memory is not enough for is killed, which
 * restarts the cluster.  Fuzzers do not find these: it takes large inputs of one kind.
 * Asserted: processor time, the largest request for memory, the error.  The limits are far above what is needed and far below
 * what the obvious way of reading the bytes would take.
 * Not asserted: what comes over a connection (t/059_hostile_bytes.pl).
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "base/memory.h"
#include "binlog/json_internal.h"
#include "builder.h"

#define MOST_SECONDS 8

static clock_t started;

static void
begin(const char *name)
{
	unit_begin(name);
	capstan_memory_largest = 0;
	started = clock();
}

static void
end(size_t most_memory)
{
	double		seconds = (double) (clock() - started) / CLOCKS_PER_SEC;

	CHECK_MSG(seconds < MOST_SECONDS, "it took %.1f s", seconds);
	CHECK_MSG(capstan_memory_largest <= most_memory, "%zu bytes at once, more than %zu", capstan_memory_largest,
			  most_memory);
	unit_begin("hostile");
}

/* ---- GTID sets: every part belongs before all that came before it ---- */

static void
check_same_set(StrBuf *descending, StrBuf *ascending)
{
	CapstanError error;
	GtidSet    *a = capstan_gtidset_parse(descending->data, descending->length, &error);
	GtidSet    *b = capstan_gtidset_parse(ascending->data, ascending->length, &error);
	StrBuf		encoded = {NULL, 0, 0};
	GtidSet    *c;

	CHECK(a != NULL && b != NULL && capstan_gtidset_equal(a, b));
	capstan_gtidset_encode(b, &encoded);
	c = capstan_gtidset_decode((uint8_t *) encoded.data, encoded.length, &error);
	CHECK(c != NULL && capstan_gtidset_equal(b, c));
	capstan_gtidset_free(a);
	capstan_gtidset_free(b);
	capstan_gtidset_free(c);
	capstan_strbuf_free(&encoded);
}

static void
test_gtid_order(void)
{
	enum
	{
		NSOURCES = 120000,
		NINTERVALS = 250000
	};
	StrBuf		descending = {NULL, 0, 0};
	StrBuf		ascending = {NULL, 0, 0};

	begin("GTID sets of many sources");
	for (int i = 0; i < NSOURCES; i++)
	{
		capstan_strbuf_printf(&descending, "%08x-0000-0000-0000-000000000000:1,", NSOURCES - 1 - i);
		capstan_strbuf_printf(&ascending, "%08x-0000-0000-0000-000000000000:1,", i);
	}
	check_same_set(&descending, &ascending);
	end(128 * descending.length);

	begin("GTID sets of many intervals");
	capstan_strbuf_reset(&descending);
	capstan_strbuf_reset(&ascending);
	capstan_strbuf_append_str(&descending, "00000000-0000-0000-0000-000000000000");
	capstan_strbuf_append_str(&ascending, "00000000-0000-0000-0000-000000000000");
	for (int i = 0; i < NINTERVALS; i++)
	{
		capstan_strbuf_printf(&descending, ":%d", 3 * (NINTERVALS - i));
		capstan_strbuf_printf(&ascending, ":%d", 3 * (i + 1));
	}
	check_same_set(&descending, &ascending);
	end(128 * descending.length);
	capstan_strbuf_free(&descending);
	capstan_strbuf_free(&ascending);
}

/* ---- table maps: a field that is read as often as it comes ---- */

static void
test_repeated_fields(void)
{
	enum
	{
		NCOLUMNS = 4096,
		TIMES = 2000000
	};
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		body = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	BinlogEvent event;
	CapstanError error;

	begin("table maps with a field again and again");
	build_uint(&body, 1, 6);
	build_uint(&body, 0, 2);
	build_name(&body, "s");
	build_name(&body, "t");
	build_lenenc(&body, NCOLUMNS);
	for (int i = 0; i < NCOLUMNS; i++)
		build_uint(&body, BINLOG_TYPE_DATE, 1);
	build_lenenc(&body, 0);
	for (int i = 0; i < NCOLUMNS / 8; i++)
		build_uint(&body, 0, 1);
	/* Signedness, of no bytes since no column is a number. */
	for (int i = 0; i < TIMES; i++)
		build_hex(&body, "0100");
	build_event(&raw, 19, 0, &body);
	CHECK(!build_decode(decoder, &raw, &event, &error) && error.code == CAPSTAN_ERROR_MALFORMED);
	end(2 * raw.length);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&raw);
	capstan_binlog_free(decoder);
}

/* ---- JSON ---- */

static void
test_json_differences(void)
{
	enum
	{
		TIMES = 1000000
	};
	static const uint8_t document[] = {JSON_SMALL_ARRAY, 0, 0, 4, 0};
	StrBuf		diffs = {NULL, 0, 0};
	StrBuf		out = {NULL, 0, 0};
	CapstanError error = {CAPSTAN_OK, ""};

	/* Each is inserted in front of all the others. */
	begin("JSON differences");
	for (int i = 0; i < TIMES; i++)
	{
		static const uint8_t insert[] = {1, 4, '$', '[', '0', ']', 2, JSON_LITERAL, 0};

		capstan_strbuf_append(&diffs, insert, sizeof(insert));
	}
	CHECK(!capstan_json_apply_diffs(document, sizeof(document), (uint8_t *) diffs.data, diffs.length, &out, &error));
	CHECK(error.code == CAPSTAN_ERROR_LIMIT && error.message[0] != '\0');
	end(128 * diffs.length);
	capstan_strbuf_free(&diffs);
	capstan_strbuf_free(&out);
}

/* One difference to a large array, by its bytes and by its text: what stays takes little beside the document. */
static void
test_json_large_difference(void)
{
	enum
	{
		TIMES = 1000000
	};
	static const uint8_t replace[] = {0, 7, '$', '[', 'l', 'a', 's', 't', ']', 2, JSON_LITERAL, 1};
	StrBuf		document = {NULL, 0, 0};
	StrBuf		out = {NULL, 0, 0};
	StrBuf		again = {NULL, 0, 0};
	CapstanError error = {CAPSTAN_OK, ""};
	SourceBytes diffs = {(const char *) replace, sizeof(replace)};
	SourceBytes text;

	begin("JSON difference to a large array");
	build_uint(&document, JSON_LARGE_ARRAY, 1);
	build_uint(&document, TIMES, 4);
	build_uint(&document, 8 + 5 * (uint64_t) TIMES, 4);
	for (int i = 0; i < TIMES; i++)
	{
		build_uint(&document, JSON_INT16, 1);
		build_uint(&document, (uint64_t) i % 7, 4);
	}
	CHECK(capstan_json_apply_diffs((uint8_t *) document.data, document.length, replace, sizeof(replace), &out, &error));
	CHECK(out.length == 3 * TIMES + 3 && memcmp(out.data, "[0, 1, 2, ", 10) == 0 && memcmp(out.data + out.length - 7, "5, true]" + 1, 7) == 0);
	end(4 * document.length);

	begin("JSON difference to a large text");
	text.data = out.data;
	text.length = out.length;
	CHECK(capstan_json_apply_diffs_to_text(&text, &diffs, &again, &error));
	CHECK(again.length == out.length && memcmp(again.data, out.data, out.length) == 0);
	end(4 * document.length);
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&out);
	capstan_strbuf_free(&again);
}

typedef struct Containers
{
	size_t		told;
} Containers;

static void
count_container(void *arg, bool is_object)
{
	(void) is_object;
	((Containers *) arg)->told++;
}

static void
ignore_end(void *arg, bool is_object)
{
	(void) arg;
	(void) is_object;
}

/* 100,000 members that are all the same empty array, or a document that has them: 7 bytes each, an entry and an array. */
static void
test_json_containers(void)
{
	static const SourceDocumentVisitor visitor = {.begin = count_container, .end = ignore_end};
	enum
	{
		TIMES = 100000
	};

	for (int honest = 0; honest < 2; honest++)
	{
		Containers	containers = {0};
		StrBuf		document = {NULL, 0, 0};
		StrBuf		out = {NULL, 0, 0};
		CapstanError error = {CAPSTAN_OK, ""};
		uint64_t	head = 8 + 5 * (uint64_t) TIMES;

		begin(honest ? "JSON of arrays" : "JSON of the same array");
		build_uint(&document, JSON_LARGE_ARRAY, 1);
		build_uint(&document, TIMES, 4);
		build_uint(&document, head + 4 * (honest ? TIMES : 1), 4);
		for (uint64_t i = 0; i < TIMES; i++)
		{
			build_uint(&document, JSON_SMALL_ARRAY, 1);
			build_uint(&document, head + (honest ? 4 * i : 0), 4);
		}
		for (int i = 0; i < (honest ? TIMES : 1); i++)
			build_uint(&document, 0x00040000, 4);
		CHECK(capstan_json_walk((uint8_t *) document.data, document.length, &visitor, &containers, &error) == (honest == 1));
		CHECK(capstan_json_to_text((uint8_t *) document.data, document.length, &out, &error) == (honest == 1));
		CHECK(honest ? containers.told == TIMES + 1 : error.code == CAPSTAN_ERROR_MALFORMED);
		CHECK_MSG(containers.told <= document.length / 7, "%zu arrays told of %zu bytes", containers.told, document.length);
		end(32 * document.length);
		capstan_strbuf_free(&document);
		capstan_strbuf_free(&out);
	}
}

/* Arrays in arrays as deep as the bytes go, or all pointing to the same one. */
static void
test_json_documents(void)
{
	StrBuf		document = {NULL, 0, 0};
	StrBuf		out = {NULL, 0, 0};
	CapstanError error = {CAPSTAN_OK, ""};

	begin("deep JSON");
	build_uint(&document, JSON_LARGE_ARRAY, 1);
	for (int depth = 0; depth < 200000; depth++)
	{
		build_uint(&document, 1, 4);
		build_uint(&document, 13 * (200000 - (uint64_t) depth), 4);
		build_uint(&document, JSON_LARGE_ARRAY, 1);
		build_uint(&document, 13, 4);
	}
	CHECK(!capstan_json_to_text((uint8_t *) document.data, document.length, &out, &error));
	CHECK(error.code == CAPSTAN_ERROR_LIMIT);
	end(32 * document.length);

	/* 50 levels, each of whose 1000 members is the next level. */
	begin("wide JSON");
	capstan_strbuf_reset(&document);
	build_uint(&document, JSON_LARGE_ARRAY, 1);
	for (int depth = 0; depth < 50; depth++)
	{
		build_uint(&document, 1000, 4);
		build_uint(&document, 5008 * (50 - (uint64_t) depth), 4);
		for (int i = 0; i < 1000; i++)
		{
			build_uint(&document, depth < 49 ? JSON_LARGE_ARRAY : JSON_LITERAL, 1);
			build_uint(&document, depth < 49 ? 5008 : 0, 4);
		}
	}
	capstan_strbuf_reset(&out);
	CHECK(!capstan_json_to_text((uint8_t *) document.data, document.length, &out, &error));
	CHECK(error.code == CAPSTAN_ERROR_MALFORMED);
	end(32 * document.length);
	capstan_strbuf_free(&document);
	capstan_strbuf_free(&out);
}

/* ---- compressed transactions ---- */

/* A frame of events of `event_length` bytes, all zero behind the header, that says `declared`. */
static void
build_bomb(StrBuf *raw, int nevents, size_t event_length, uint32_t event_says, uint64_t declared)
{
	ZSTD_CCtx  *zstd = ZSTD_createCCtx();
	uint8_t    *event = calloc(1, event_length);
	StrBuf		body = {NULL, 0, 0};
	StrBuf		frame = {NULL, 0, 0};

	event[4] = 29;
	for (int i = 0; i < 4; i++)
		event[9 + i] = (uint8_t) (event_says >> (8 * i));
	for (int i = 0; i < nevents; i++)
	{
		ZSTD_inBuffer in = {event, event_length, 0};
		ZSTD_EndDirective last = i == nevents - 1 ? ZSTD_e_end : ZSTD_e_continue;
		size_t		left;

		do
		{
			ZSTD_outBuffer to = {capstan_strbuf_reserve(&frame, 65536), 65536, 0};

			left = ZSTD_compressStream2(zstd, &to, &in, last);
			frame.length += to.pos;
		} while (in.pos < in.size || (last == ZSTD_e_end && left > 0));
	}
	build_hex(&body, "02 01 00 01 09 fe");
	build_uint(&body, frame.length, 8);
	build_hex(&body, "03 09 fe");
	build_uint(&body, declared, 8);
	build_hex(&body, "00");
	capstan_strbuf_append(&body, frame.data, frame.length);
	build_event(raw, 40, 0, &body);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&frame);
	free(event);
	ZSTD_freeCCtx(zstd);
}

/* Reads it all; the bytes of the events that came out. */
static uint64_t
inflate(const StrBuf *raw, CapstanError *error)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	BinlogEvent event;
	const uint8_t *data;
	size_t		length;
	uint64_t	total = 0;
	int			rc;

	error->code = CAPSTAN_OK;
	CHECK(build_decode(decoder, raw, &event, error));
	while ((rc = capstan_binlog_payload_next(decoder, &data, &length, error)) == 1)
	{
		CHECK(capstan_binlog_decode_inner(decoder, data, length, &event, error));
		total += length;
	}
	CHECK((rc == 0) == (error->code == CAPSTAN_OK));
	capstan_binlog_free(decoder);
	return total;
}

static void
test_bombs(void)
{
	const size_t megabyte = 1024 * 1024;
	StrBuf		raw = {NULL, 0, 0};
	CapstanError error;

	/* A few kB that are 256 MB. */
	build_bomb(&raw, 256, megabyte, (uint32_t) megabyte, 256 * megabyte);
	CHECK_MSG(raw.length < 64 * 1024, "%zu bytes", raw.length);
	begin("a payload that is much larger inflated");
	CHECK(inflate(&raw, &error) == 256 * megabyte);
	end(2 * megabyte + 1024);

	/* The same, but says that it is small. */
	begin("a payload that is larger than it says");
	memcpy(raw.data + 19 + 3 + 11 + 3, (uint8_t[8]) {0, 0, 0x20}, 8);
	CHECK(inflate(&raw, &error) <= 2 * megabyte && error.code == CAPSTAN_ERROR_MALFORMED);
	end(2 * megabyte + 1024);

	/* One event that says it is longer than all that is declared: nothing is inflated for it. */
	build_bomb(&raw, 200, megabyte, (uint32_t) (200 * megabyte), 100 * megabyte);
	begin("an event longer than its payload");
	CHECK(inflate(&raw, &error) == 0 && error.code == CAPSTAN_ERROR_MALFORMED);
	end(megabyte);

	/* One that is longer than any server writes. */
	build_bomb(&raw, 200, megabyte, UINT32_C(0x7fffffff), UINT64_C(1) << 40);
	begin("an event longer than there are");
	CHECK(inflate(&raw, &error) == 0 && error.code == CAPSTAN_ERROR_MALFORMED);
	end(megabyte);
	capstan_strbuf_free(&raw);
}

void
test_hostile(void)
{
	test_gtid_order();
	test_repeated_fields();
	test_json_differences();
	test_json_large_difference();
	test_json_containers();
	test_json_documents();
	test_bombs();
}
