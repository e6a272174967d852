/*
 * test_events.c
 *		Events made by hand: what is refused, and kinds that the recorded files do not have.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/crc32.h"
#include "builder.h"
#include "told.h"

/* One event on a fresh decoder. */
static bool
decode_one(uint8_t type, uint16_t flags, const char *hex, BinlogEvent *event, CapstanError *error, StrBuf *raw)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		body;
	bool		ok;

	capstan_strbuf_init(&body);
	build_hex(&body, hex);
	build_event(raw, type, flags, &body);
	ok = build_decode(decoder, raw, event, error);
	CHECK(ok == (error->code == CAPSTAN_OK));
	capstan_strbuf_free(&body);
	capstan_binlog_free(decoder);
	return ok;
}

static void
check_refused(uint8_t type, const char *hex, CapstanErrorCode code)
{
	BinlogEvent event;
	CapstanError error;
	StrBuf		raw = {NULL, 0, 0};
	bool		ok = decode_one(type, 0, hex, &event, &error, &raw);

	CHECK_MSG(!ok && error.code == code && error.message[0] != '\0', "type %d body %s: code %d", type, hex, error.code);
	capstan_strbuf_free(&raw);
}

static void
test_kinds(void)
{
	static const struct
	{
		uint8_t		type;
		BinlogEventKind kind;
		const char *body;
	}			cases[] = {
		{3, BINLOG_STOP, ""},
		{5, BINLOG_IGNORED, "02 0100000000000000"},
		{13, BINLOG_IGNORED, ""},
		{14, BINLOG_IGNORED, ""},
		{28, BINLOG_IGNORED, ""},
		{36, BINLOG_IGNORED, "00"},
		{37, BINLOG_IGNORED, "00"},
		{34, BINLOG_ANONYMOUS_GTID, "01 00000000000000000000000000000000 0000000000000000"},
		{16, BINLOG_XID, "0100000000000000"},
		{26, BINLOG_INCIDENT, "0100 04 6c6f7374"},
		{27, BINLOG_HEARTBEAT, "62696e2e303031"},
		{41, BINLOG_HEARTBEAT, "01 07 62696e2e303031 02 09 fe0000000001000000 00"},
		{18, BINLOG_QUERY, "00000000 00000000 01 0000 0000 00000000000000000000000000 64 00 4c4f4144"},
	};
	StrBuf		raw = {NULL, 0, 0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		BinlogEvent event;
		CapstanError error;

		if (!CHECK_MSG(decode_one(cases[i].type, 0, cases[i].body, &event, &error, &raw) && event.kind == cases[i].kind,
					   "type %d: %s", cases[i].type, error.message))
			continue;
		CHECK(event.type_code == cases[i].type && event.timestamp == 1700000000 && event.server_id == 7);
		switch (cases[i].type)
		{
			case 26:
				CHECK(event.u.incident.number == 1 && event.u.incident.message.length == 4 &&
					  memcmp(event.u.incident.message.data, "lost", 4) == 0);
				break;
			case 27:
				CHECK(event.u.rotate.position == 1234 && event.u.rotate.file.length == 7);
				break;
			case 41:
				CHECK(event.u.rotate.position == UINT64_C(0x100000000) && event.end_position == UINT64_C(0x100000000));
				CHECK(event.u.rotate.file.length == 7 && memcmp(event.u.rotate.file.data, "bin.001", 7) == 0);
				break;
			case 18:
				CHECK(event.u.query.sql.length == 4 && memcmp(event.u.query.sql.data, "LOAD", 4) == 0);
				CHECK(event.u.query.schema.length == 1);
				break;
			default:
				break;
		}
	}

	/* An unknown type stops, unless the source says that it may be left out. */
	{
		BinlogEvent event;
		CapstanError error;

		CHECK(!decode_one(43, 0, "00", &event, &error, &raw) && error.code == CAPSTAN_ERROR_UNSUPPORTED);
		CHECK(decode_one(43, 0x80, "00", &event, &error, &raw) && event.kind == BINLOG_IGNORED);
		CHECK(decode_one(200, 0x80, "00", &event, &error, &raw) && event.kind == BINLOG_IGNORED);
		CHECK(!decode_one(1, 0, "00", &event, &error, &raw));
	}
	capstan_strbuf_free(&raw);
}

static void
test_refused(void)
{
	check_refused(33, "00", CAPSTAN_ERROR_TRUNCATED);
	check_refused(33, "00 00000000000000000000000000000000 0000000000000000", CAPSTAN_ERROR_MALFORMED);
	check_refused(33, "00 00000000000000000000000000000000 ffffffffffffff7f", CAPSTAN_ERROR_MALFORMED);
	check_refused(33, "00 00000000000000000000000000000000 0100000000000000 02 00", CAPSTAN_ERROR_TRUNCATED);
	check_refused(42, "", CAPSTAN_ERROR_TRUNCATED);
	check_refused(42, "02 76 00", CAPSTAN_ERROR_TRUNCATED);
	check_refused(42, "04 06 00", CAPSTAN_ERROR_UNSUPPORTED);	/* version 2 */
	check_refused(42, "02 06 1a", CAPSTAN_ERROR_UNSUPPORTED);	/* field 12 must be known */
	check_refused(42, "02 06 00", CAPSTAN_ERROR_TRUNCATED);	/* no uuid */
	check_refused(42, "02 2e 00 06 02 31 04 04 02 00000000000000000000000000000000", CAPSTAN_ERROR_MALFORMED);	/* tag "1" */
	check_refused(2, "00000000 00000000 01 0000 ff00", CAPSTAN_ERROR_TRUNCATED);
	check_refused(4, "0000", CAPSTAN_ERROR_TRUNCATED);
	check_refused(38, "00 01000000 41000000 00000000", CAPSTAN_ERROR_MALFORMED);
	check_refused(38, "00 01000000 01000000 01000000 61", CAPSTAN_ERROR_TRUNCATED);
	check_refused(41, "01 09 61", CAPSTAN_ERROR_TRUNCATED);
	check_refused(30, "010000000000 0100 0100", CAPSTAN_ERROR_TRUNCATED);
	check_refused(30, "010000000000 0100", CAPSTAN_ERROR_TRUNCATED);
	check_refused(19, "0100", CAPSTAN_ERROR_MALFORMED);
	check_refused(15, "0400", CAPSTAN_ERROR_TRUNCATED);
	check_refused(40, "01 01 05 00", CAPSTAN_ERROR_MALFORMED);
	check_refused(40, "01 01 00 02 01 07 03 01 00 00", CAPSTAN_ERROR_UNSUPPORTED);
	check_refused(40, "01 01 00 02 01 00 00", CAPSTAN_ERROR_MALFORMED);	/* no inflated size */
}

/* The header's own length, and the checksum. */
static void
test_framing(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		body = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	BinlogEvent event;
	CapstanError error;

	build_hex(&body, "0100000000000000 00000000");
	build_event(&raw, 16, 0, &body);
	capstan_binlog_reset(decoder, true);
	CHECK(!build_decode(decoder, &raw, &event, &error) && error.code == CAPSTAN_ERROR_CHECKSUM);
	raw.length -= 4;
	build_uint(&raw, capstan_crc32(raw.data, raw.length), 4);
	CHECK(build_decode(decoder, &raw, &event, &error) && event.kind == BINLOG_XID);
	for (size_t i = 0; i < raw.length; i++)
	{
		raw.data[i] ^= 0x10;
		CHECK(!build_decode(decoder, &raw, &event, &error));
		raw.data[i] ^= 0x10;
	}
	for (size_t length = 0; length < raw.length; length++)
		CHECK(!capstan_binlog_decode(decoder, (uint8_t *) raw.data, length, &event, &error) &&
			  error.code == CAPSTAN_ERROR_TRUNCATED);

	/* Nothing behind the header: no room for a checksum. */
	capstan_strbuf_reset(&body);
	build_event(&raw, 3, 0, &body);
	CHECK(!build_decode(decoder, &raw, &event, &error) && error.code == CAPSTAN_ERROR_TRUNCATED);
	capstan_binlog_reset(decoder, false);
	CHECK(build_decode(decoder, &raw, &event, &error));
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&raw);
	capstan_binlog_free(decoder);
	capstan_binlog_free(NULL);
}

/* Positions past 4 GiB: the header has only their low half. */
static void
test_positions(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		body = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	BinlogEvent event;
	CapstanError error;
	static const uint64_t positions[] = {
		1000, UINT64_C(0x90000000), UINT64_C(0xfffffff0), UINT64_C(0x100000010), UINT64_C(0x1f0000000), UINT64_C(0x200000001)
	};

	build_hex(&body, "0100000000000000");
	for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
	{
		build_event(&raw, 16, 0, &body);
		for (int byte = 0; byte < 4; byte++)
			raw.data[13 + byte] = (char) (positions[i] >> (8 * byte));
		CHECK(build_decode(decoder, &raw, &event, &error));
		CHECK(event.end_position == positions[i]);
	}
	/* An artificial event has none; a new file starts anew. */
	memset(raw.data + 13, 0, 4);
	CHECK(build_decode(decoder, &raw, &event, &error) && event.end_position == 0);
	capstan_strbuf_reset(&body);
	build_hex(&body, "0400000000000000 62696e2e303032");
	build_event(&raw, 4, 0x20, &body);
	CHECK(build_decode(decoder, &raw, &event, &error) && event.kind == BINLOG_ROTATE && event.u.rotate.position == 4);
	capstan_strbuf_reset(&body);
	build_hex(&body, "0100000000000000");
	build_event(&raw, 16, 0, &body);
	CHECK(build_decode(decoder, &raw, &event, &error) && event.end_position == 1234);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&raw);
	capstan_binlog_free(decoder);
}

/*
 * Documents that are left as they are.  Columns: INT, JSON.  An image is a null bitmap, the number, u32 length and the document:
 * 04 01 is true, 04 02 false, 04 03 no document.
 */
static void
test_left_documents(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		map = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	StrBuf		text = {NULL, 0, 0};
	BinlogEvent event;
	CapstanError error;
	SourceChange change;

	build_table_map(&map, "03f5", "04", "010100");
	for (int leave = 0; leave < 2; leave++)
	{
		SourceValueKind kind = leave ? VALUE_JSON_BINARY : VALUE_JSON;

		CHECK(build_decode(decoder, &map, &event, &error));
		build_rows(&raw, 31, 2, "00 01000000 02000000 0401 00 02000000 02000000 0402 02 01000000 00 02000000 02000000 0401");
		CHECK(build_decode(decoder, &raw, &event, &error));
		for (int row = 0; row < 2; row++)
		{
			CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE);
			CHECK(change.before[0].u.integer == 1 && change.after[0].u.integer == 2);
			CHECK(change.before[1].kind == (row == 0 ? kind : VALUE_NULL) && change.after[1].kind == kind);
			for (int told = 0; leave && told < 2; told++)
			{
				const SourceBytes *document = &change.after[1].u.bytes;

				capstan_strbuf_reset(&text);
				if (told)
					CHECK(told_text(change.documents->walk, (const uint8_t *) document->data, document->length, &text, &error));
				else
					CHECK(change.documents->text((const uint8_t *) document->data, document->length, &text, &error));
				CHECK_STR(text.data, row == 0 ? "false" : "true");
			}
		}
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_END);

		/* inserts and deletes; what is left is not looked at */
		for (uint8_t type = 30; type <= 32; type += 2)
		{
			CHECK(build_decode(decoder, &map, &event, &error));
			build_rows(&raw, type, 2, "00 01000000 02000000 0401");
			CHECK(build_decode(decoder, &raw, &event, &error));
			CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE);
			CHECK((type == 30 ? change.after : change.before)[1].kind == kind);
			CHECK(build_decode(decoder, &map, &event, &error));
			build_rows(&raw, type, 2, "00 01000000 02000000 0403");
			CHECK(build_decode(decoder, &raw, &event, &error));
			CHECK(capstan_binlog_next_change(decoder, &change, &error) == (leave ? BINLOG_CHANGE : BINLOG_ERROR));
		}
		/* cut off */
		CHECK(build_decode(decoder, &map, &event, &error));
		build_rows(&raw, 32, 2, "00 01000000 03000000 0401");
		CHECK(build_decode(decoder, &raw, &event, &error));
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_ERROR);
		capstan_binlog_leave_documents(decoder);
	}
	capstan_strbuf_free(&map);
	capstan_strbuf_free(&raw);
	capstan_strbuf_free(&text);
	capstan_binlog_free(decoder);
}

/* Rows events of version 1, extra data, the dummy that only ends a statement. */
static void
test_rows_events(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		map = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	StrBuf		body = {NULL, 0, 0};
	BinlogEvent event;
	CapstanError error;
	SourceChange change;
	static const uint8_t types[] = {23, 24, 25, 30, 31, 32};
	static const SourceChangeKind kinds[] = {CHANGE_INSERT, CHANGE_UPDATE, CHANGE_DELETE, CHANGE_INSERT, CHANGE_UPDATE, CHANGE_DELETE};

	build_table_map(&map, "0d0d", "", "0101c0");
	for (size_t i = 0; i < sizeof(types); i++)
	{
		bool		update = kinds[i] == CHANGE_UPDATE;

		CHECK(build_decode(decoder, &map, &event, &error));
		build_rows(&raw, types[i], 2, update ? "00 6465 02 66 01 67 00 6869" : "00 6465 02 66");
		CHECK(build_decode(decoder, &raw, &event, &error) && event.u.rows.kind == kinds[i] && event.u.rows.full_image);
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE && change.kind == kinds[i]);
		CHECK((change.before != NULL) == (kinds[i] != CHANGE_INSERT) && (change.after != NULL) == (kinds[i] != CHANGE_DELETE));
		CHECK((change.before != NULL ? change.before : change.after)[0].u.integer == 2000);
		CHECK((change.before != NULL ? change.before : change.after)[1].u.integer == 2001);
		if (update)
			CHECK(change.after[0].u.integer == 2002 && change.after[1].kind == VALUE_NULL);
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE);
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_END);
		CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_END);
	}

	/* Extra row information (a partition id here) is skipped by its length. */
	CHECK(build_decode(decoder, &map, &event, &error));
	build_hex(&body, "010000000000 0100 0500 010203 02 03 00 6465");
	build_event(&raw, 30, 0, &body);
	CHECK(build_decode(decoder, &raw, &event, &error));
	CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE && change.after[1].u.integer == 2001);

	/* An image without columns has no bytes: how many rows there are is not known. */
	CHECK(build_decode(decoder, &map, &event, &error));
	capstan_strbuf_reset(&body);
	build_hex(&body, "010000000000 0100 0200 02 00");
	build_event(&raw, 30, 0, &body);
	CHECK(!build_decode(decoder, &raw, &event, &error) && error.code == CAPSTAN_ERROR_UNSUPPORTED);

	/* The dummy. */
	capstan_strbuf_reset(&body);
	build_hex(&body, "ffffff000000 0100 0200 01 ff");
	build_event(&raw, 30, 0, &body);
	CHECK(build_decode(decoder, &raw, &event, &error));
	CHECK(event.kind == BINLOG_ROWS && event.u.rows.table == NULL && event.u.rows.statement_end);
	CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_ERROR);
	capstan_strbuf_reset(&body);
	build_hex(&body, "ffffff000000 0000 0200 01 ff");
	build_event(&raw, 30, 0, &body);
	CHECK(!build_decode(decoder, &raw, &event, &error));

	/* Values do not outlive the next event. */
	CHECK(build_decode(decoder, &map, &event, &error));
	CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_ERROR);
	capstan_strbuf_free(&map);
	capstan_strbuf_free(&raw);
	capstan_strbuf_free(&body);
	capstan_binlog_free(decoder);
}

/* A payload event around `inner`, compressed or not, that declares `declared` bytes. */
static void
build_payload(StrBuf *out, const StrBuf *inner, bool compress, uint64_t declared)
{
	StrBuf		body = {NULL, 0, 0};
	StrBuf		packed = {NULL, 0, 0};

	if (compress)
	{
		char	   *to = capstan_strbuf_reserve(&packed, ZSTD_compressBound(inner->length));

		packed.length = ZSTD_compress(to, ZSTD_compressBound(inner->length), inner->data, inner->length, 3);
	}
	else
		capstan_strbuf_append(&packed, inner->data, inner->length);
	build_hex(&body, "01 09 fe");
	build_uint(&body, packed.length, 8);
	build_hex(&body, compress ? "02 01 00" : "02 03 fcff00");
	build_hex(&body, "03 09 fe");
	build_uint(&body, declared, 8);
	build_hex(&body, "00");
	capstan_strbuf_append(&body, packed.data, packed.length);
	build_event(out, 40, 0, &body);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&packed);
}

/* Reads all; how many events came, or -1. */
static int
read_payload(BinlogDecoder *decoder, const StrBuf *raw, CapstanError *error)
{
	BinlogEvent event;
	const uint8_t *data;
	size_t		length;
	int			count = 0;
	int			rc;

	if (!build_decode(decoder, raw, &event, error))
		return -1;
	CHECK(event.kind == BINLOG_PAYLOAD);
	while ((rc = capstan_binlog_payload_next(decoder, &data, &length, error)) == 1)
	{
		if (!capstan_binlog_decode_inner(decoder, data, length, &event, error))
			return -1;
		CHECK(event.end_position == 0 && (event.kind == BINLOG_XID || event.kind == BINLOG_ROWS_QUERY));
		count++;
	}
	if (rc < 0)
		CHECK(capstan_binlog_payload_next(decoder, &data, &length, error) == -1);
	return rc < 0 ? -1 : count;
}

static void
test_payloads(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		inner = {NULL, 0, 0};
	StrBuf		one = {NULL, 0, 0};
	StrBuf		body = {NULL, 0, 0};
	StrBuf		raw = {NULL, 0, 0};
	CapstanError error;

	/* Small events and one that is larger than any buffer to begin with, which does not compress. */
	build_hex(&body, "0100000000000000");
	build_event(&one, 16, 0, &body);
	for (int i = 0; i < 1000; i++)
		capstan_strbuf_append(&inner, one.data, one.length);
	for (int i = 0; i < 400000; i++)
		build_uint(&body, unit_random(), 8);
	build_event(&one, 29, 0, &body);
	capstan_strbuf_append(&inner, one.data, one.length);
	capstan_strbuf_reset(&body);
	build_hex(&body, "0100000000000000");
	build_event(&one, 16, 0, &body);
	for (int i = 0; i < 1000; i++)
		capstan_strbuf_append(&inner, one.data, one.length);

	for (int compress = 0; compress < 2; compress++)
	{
		for (int again = 0; again < 2; again++)
		{
			build_payload(&raw, &inner, compress == 1, inner.length);
			CHECK(read_payload(decoder, &raw, &error) == 2001);
		}
		build_payload(&raw, &inner, compress == 1, inner.length - 1);
		CHECK(read_payload(decoder, &raw, &error) == -1 && error.code == CAPSTAN_ERROR_MALFORMED);
		build_payload(&raw, &inner, compress == 1, inner.length + 1);
		CHECK(read_payload(decoder, &raw, &error) == -1 && error.code == CAPSTAN_ERROR_MALFORMED);
		/* The last event cut off. */
		inner.length -= 3;
		build_payload(&raw, &inner, compress == 1, inner.length);
		CHECK(read_payload(decoder, &raw, &error) == -1 && error.code == CAPSTAN_ERROR_MALFORMED);
		inner.length += 3;
	}

	/* A hostile length inside: no allocation of that size is tried. */
	capstan_strbuf_reset(&inner);
	build_event(&one, 16, 0, &body);
	memset(one.data + 9, 0x3f, 4);
	capstan_strbuf_append(&inner, one.data, one.length);
	build_payload(&raw, &inner, true, UINT64_C(1) << 62);
	CHECK(read_payload(decoder, &raw, &error) == -1);

	/* What may not be inside: another payload, a GTID, a format description. */
	for (int i = 0; i < 3; i++)
	{
		static const uint8_t types[] = {40, 33, 15};

		build_event(&one, types[i], 0, &body);
		capstan_strbuf_reset(&inner);
		capstan_strbuf_append(&inner, one.data, one.length);
		build_payload(&raw, &inner, true, inner.length);
		CHECK(read_payload(decoder, &raw, &error) == -1 && error.code == CAPSTAN_ERROR_UNSUPPORTED);
	}

	/* An event outside closes the payload. */
	{
		BinlogEvent event;
		const uint8_t *data;
		size_t		length;

		build_event(&one, 16, 0, &body);
		capstan_strbuf_reset(&inner);
		capstan_strbuf_append(&inner, one.data, one.length);
		build_payload(&raw, &inner, true, inner.length);
		CHECK(build_decode(decoder, &raw, &event, &error));
		CHECK(build_decode(decoder, &one, &event, &error));
		CHECK(capstan_binlog_payload_next(decoder, &data, &length, &error) == -1);
	}
	capstan_strbuf_free(&inner);
	capstan_strbuf_free(&one);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&raw);
	capstan_binlog_free(decoder);
}

void
test_events(void)
{
	test_kinds();
	test_refused();
	test_framing();
	test_positions();
	test_rows_events();
	test_left_documents();
	test_payloads();
}
