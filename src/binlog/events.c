/*
 * events.c
 *		Events: header, checksum, dispatch, and all bodies without rows in them.
 *
 * Header (Log_event_header in MySQL's libs/mysql/binlog/event/binlog_event.h):
 *
 *	   u32 timestamp, u8 type, u32 server id, u32 length, u32 end position, u16 flags
 *
 * The bodies are drawn where they are read.  A type that is not known stops the stream, unless the source
 * marked the event as ignorable.
 */
#include "binlog/internal.h"

#include <stdio.h>

#include "base/crc32.h"
#include "base/memory.h"

enum
{
	QUERY_EVENT = 2,
	STOP_EVENT = 3,
	ROTATE_EVENT = 4,
	INTVAR_EVENT = 5,
	APPEND_BLOCK_EVENT = 9,
	DELETE_FILE_EVENT = 11,
	RAND_EVENT = 13,
	USER_VAR_EVENT = 14,
	FORMAT_DESCRIPTION_EVENT = 15,
	XID_EVENT = 16,
	BEGIN_LOAD_QUERY_EVENT = 17,
	EXECUTE_LOAD_QUERY_EVENT = 18,
	TABLE_MAP_EVENT = 19,
	WRITE_ROWS_EVENT_V1 = 23,
	UPDATE_ROWS_EVENT_V1 = 24,
	DELETE_ROWS_EVENT_V1 = 25,
	INCIDENT_EVENT = 26,
	HEARTBEAT_EVENT = 27,
	IGNORABLE_EVENT = 28,
	ROWS_QUERY_EVENT = 29,
	WRITE_ROWS_EVENT = 30,
	UPDATE_ROWS_EVENT = 31,
	DELETE_ROWS_EVENT = 32,
	GTID_EVENT = 33,
	ANONYMOUS_GTID_EVENT = 34,
	PREVIOUS_GTIDS_EVENT = 35,
	TRANSACTION_CONTEXT_EVENT = 36,
	VIEW_CHANGE_EVENT = 37,
	XA_PREPARE_EVENT = 38,
	PARTIAL_UPDATE_ROWS_EVENT = 39,
	TRANSACTION_PAYLOAD_EVENT = 40,
	HEARTBEAT_EVENT_V2 = 41,
	GTID_TAGGED_EVENT = 42
};

#define FLAG_BINLOG_IN_USE 0x0001
#define FLAG_IGNORABLE 0x0080
#define FLAGS_OFFSET 17

#define GTID_NUMBER_MAX ((uint64_t) INT64_MAX - 1)
#define XID_PART_MAX 64

/* Bits of sql_mode. */
#define SQL_MODE_ANSI_QUOTES (UINT64_C(1) << 2)
#define SQL_MODE_NO_BACKSLASH_ESCAPES (UINT64_C(1) << 20)

BinlogDecoder *
capstan_binlog_create(void)
{
	BinlogDecoder *decoder = capstan_alloc0(sizeof(BinlogDecoder));

	decoder->statement = 1;
	capstan_strbuf_init(&decoder->rows.scratch.bytes);
	return decoder;
}

void
capstan_binlog_free(BinlogDecoder *decoder)
{
	if (decoder == NULL)
		return;
	capstan_tablemap_clear(decoder);
	capstan_rows_free(&decoder->rows);
	capstan_payload_free(&decoder->payload);
	capstan_free(decoder);
}

void
capstan_binlog_reset(BinlogDecoder *decoder, bool checksummed)
{
	decoder->checksummed = checksummed;
	decoder->statement++;
	decoder->statement_ended = false;
	decoder->position = 0;
	decoder->rows.map = NULL;
	capstan_payload_close(decoder);
	/* Another server may use the same table ids. */
	capstan_tablemap_clear(decoder);
}

void
capstan_binlog_set_wanted(BinlogDecoder *decoder, BinlogWanted wanted, void *arg)
{
	decoder->wanted = wanted;
	decoder->wanted_arg = arg;
	/* what was remembered was so by the answers of the one before */
	decoder->rows.map = NULL;
	capstan_tablemap_clear(decoder);
}

void
capstan_binlog_leave_documents(BinlogDecoder *decoder)
{
	decoder->leave_documents = true;
}

static bool
cut_off(const char *what, CapstanError *error)
{
	return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "%s event is cut off", what);
}

static SourceBytes
take_bytes(ByteReader *reader, size_t length)
{
	SourceBytes bytes;

	bytes.data = (const char *) capstan_bytes_take(reader, length);
	bytes.length = bytes.data != NULL ? length : 0;
	return bytes;
}

static SourceBytes
take_rest(ByteReader *reader)
{
	return take_bytes(reader, capstan_bytes_left(reader));
}

/*
 * FORMAT_DESCRIPTION:
 *	   u16 version 4, char[50] server version, u32 created, u8 header length 19,
 *	   u8 post-header length for each event type from 1, u8 checksum algorithm, u32 CRC
 *
 * The CRC is there even when the algorithm is 0 (none).  It was made with the in-use flag
 * cleared, which the server sets while the file is open.
 */
static bool
decode_format(BinlogDecoder *decoder, const uint8_t *data, size_t length, CapstanError *error)
{
	enum
	{
		FIXED = 2 + 50 + 4 + 1,
		TRAILER = 1 + BINLOG_CHECKSUM_LENGTH
	};
	static const struct
	{
		uint8_t		type;
		uint8_t		length;
	}			expected[] = {
		{QUERY_EVENT, 13}, {TABLE_MAP_EVENT, 8}, {WRITE_ROWS_EVENT_V1, 8}, {UPDATE_ROWS_EVENT_V1, 8},
		{DELETE_ROWS_EVENT_V1, 8}, {WRITE_ROWS_EVENT, 10}, {UPDATE_ROWS_EVENT, 10}, {DELETE_ROWS_EVENT, 10},
		{PARTIAL_UPDATE_ROWS_EVENT, 10}
	};
	ByteReader	reader = capstan_bytes_reader(data, length);
	uint16_t	version;
	uint8_t		header_length;
	const uint8_t *post_headers;
	size_t		ntypes;
	uint8_t		algorithm;

	capstan_bytes_skip(&reader, BINLOG_HEADER_LENGTH);
	version = capstan_bytes_u16(&reader);
	capstan_bytes_skip(&reader, 50 + 4);
	header_length = capstan_bytes_u8(&reader);
	if (reader.failed || capstan_bytes_left(&reader) < TRAILER)
		return cut_off("format description", error);
	ntypes = capstan_bytes_left(&reader) - TRAILER;
	post_headers = capstan_bytes_take(&reader, ntypes);
	algorithm = capstan_bytes_u8(&reader);
	if (version != 4 || header_length != BINLOG_HEADER_LENGTH || algorithm > 1)
		return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED,
							 "binary log has version %d, headers of %d bytes and checksum algorithm %d",
							 version, header_length, algorithm);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
	{
		/* 0: the server does not write this type any more. */
		if (expected[i].type <= ntypes && post_headers[expected[i].type - 1] != 0 &&
			post_headers[expected[i].type - 1] != expected[i].length)
			return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED,
								 "events of type %d have an unknown header of %d bytes",
								 expected[i].type, post_headers[expected[i].type - 1]);
	}
	if (algorithm == 1)
	{
		uint8_t		flags[2] = {data[FLAGS_OFFSET] & (uint8_t) ~FLAG_BINLOG_IN_USE, data[FLAGS_OFFSET + 1]};
		uint32_t	crc = capstan_crc32(data, FLAGS_OFFSET);

		crc = capstan_crc32_extend(crc, flags, sizeof(flags));
		crc = capstan_crc32_extend(crc, data + BINLOG_HEADER_LENGTH,
								   length - BINLOG_HEADER_LENGTH - BINLOG_CHECKSUM_LENGTH);
		if (crc != capstan_bytes_u32(&reader))
			return capstan_error(error, CAPSTAN_ERROR_CHECKSUM, "format description event does not match its checksum");
	}
	decoder->checksummed = algorithm == 1;
	return true;
}

/* u64 position, name of the next file. */
static bool
decode_rotate(BinlogDecoder *decoder, ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	event->kind = BINLOG_ROTATE;
	event->u.rotate.position = capstan_bytes_u64(reader);
	event->u.rotate.file = take_rest(reader);
	decoder->position = event->u.rotate.position;
	return reader->failed ? cut_off("rotate", error) : true;
}

/* Name of the file; the position is the header's. */
static bool
decode_heartbeat(ByteReader *reader, BinlogEvent *event)
{
	event->kind = BINLOG_HEARTBEAT;
	event->u.rotate.position = event->end_position;
	event->u.rotate.file = take_rest(reader);
	return true;
}

/* { u8 field, lenenc length, value } up to field 0: 1 name of the file, 2 lenenc position. */
static bool
decode_heartbeat_v2(ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	event->kind = BINLOG_HEARTBEAT;
	event->u.rotate.position = event->end_position;
	while (capstan_bytes_left(reader) > 0)
	{
		uint8_t		field = capstan_bytes_u8(reader);
		size_t		length;
		SourceBytes value;
		ByteReader	value_reader;

		if (field == 0)
			break;
		length = (size_t) capstan_bytes_lenenc(reader);
		value = take_bytes(reader, length);
		if (reader->failed)
			break;
		if (field == 1)
			event->u.rotate.file = value;
		else if (field == 2)
		{
			value_reader = capstan_bytes_reader(value.data, value.length);
			event->u.rotate.position = capstan_bytes_lenenc(&value_reader);
			if (value_reader.failed)
				return cut_off("heartbeat", error);
			event->end_position = event->u.rotate.position;
		}
	}
	return reader->failed ? cut_off("heartbeat", error) : true;
}

static bool
check_gtid(const BinlogEvent *event, CapstanError *error)
{
	uint64_t	number = event->u.gtid.gtid.number;

	if (number < 1 || number > GTID_NUMBER_MAX)
		return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "GTID event has number %llu",
							 (unsigned long long) number);
	return true;
}

/*
 * u8 flags, uuid[16], u64 number; then, each part only if the server is new enough:
 *	   u8 2, u64 last committed, u64 sequence number
 *	   u56 immediate commit time in microseconds; if its highest bit is set, u56 original commit time
 *	   lenenc transaction length
 *	   (server versions, commit group ticket: not read)
 */
static bool
decode_gtid(ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	const uint64_t has_original = UINT64_C(1) << 55;
	const uint8_t *uuid;

	capstan_bytes_skip(reader, 1);
	uuid = capstan_bytes_take(reader, 16);
	event->u.gtid.gtid.number = capstan_bytes_u64(reader);
	if (reader->failed)
		return cut_off("GTID", error);
	memcpy(event->u.gtid.gtid.uuid, uuid, 16);
	if (event->type_code == ANONYMOUS_GTID_EVENT)
		event->kind = BINLOG_ANONYMOUS_GTID;
	else
	{
		event->kind = BINLOG_GTID;
		if (!check_gtid(event, error))
			return false;
	}

	if (capstan_bytes_left(reader) == 0 || capstan_bytes_u8(reader) != 2)
		return true;
	capstan_bytes_skip(reader, 8 + 8);
	if (capstan_bytes_left(reader) > 0)
	{
		uint64_t	immediate = capstan_bytes_uint(reader, 7);
		uint64_t	original = (immediate & has_original) != 0 ? capstan_bytes_uint(reader, 7) : immediate;

		event->u.gtid.immediate_commit_us = immediate & ~has_original;
		event->u.gtid.original_commit_us = original;
		if (capstan_bytes_left(reader) > 0)
			event->u.gtid.transaction_length = capstan_bytes_lenenc(reader);
	}
	return reader->failed ? cut_off("GTID", error) : true;
}

/*
 * An integer of MySQL's serialization library: as many low bits set in the first byte as
 * bytes follow, then a clear bit if fewer than 8 follow, then the number.
 * (libs/mysql/serialization/readme.md)
 */
static uint64_t
read_varlen(ByteReader *reader)
{
	uint8_t		first = capstan_bytes_u8(reader);
	int			following = 0;

	while (following < 8 && (first >> following & 1) != 0)
		following++;
	if (following == 0)
		return first >> 1;
	if (following == 8)
		return capstan_bytes_u64(reader);
	return (uint64_t) (uint8_t) (first >> (following + 1)) |
		capstan_bytes_uint(reader, following) << (7 - following);
}

static int64_t
read_varlen_signed(ByteReader *reader)
{
	uint64_t	value = read_varlen(reader);

	return (int64_t) (value >> 1 ^ (0 - (value & 1)));
}

static bool
decode_tag(ByteReader *reader, Gtid *gtid)
{
	uint64_t	length = read_varlen(reader);
	const uint8_t *tag;

	if (length > CAPSTAN_GTID_TAG_MAX)
		return false;
	tag = capstan_bytes_take(reader, (size_t) length);
	if (tag == NULL)
		return false;
	for (uint64_t i = 0; i < length; i++)
	{
		if (!((tag[i] >= 'a' && tag[i] <= 'z') || tag[i] == '_' || (i > 0 && tag[i] >= '0' && tag[i] <= '9')))
			return false;
	}
	memcpy(gtid->tag, tag, (size_t) length);
	gtid->tag[length] = '\0';
	return true;
}

/*
 * A message of the serialization library; all integers of variable length:
 *	   version 1, size of the message, 1 + the last field that must not be ignored or 0,
 *	   { field, value }: 0 flags, 1 uuid (16 integers), 2 number (signed), 3 tag (length, bytes),
 *	   4 last committed (signed), 5 sequence number (signed), 6 immediate commit time,
 *	   7 original commit time if it differs, 8 transaction length,
 *	   9 and 10 server versions, 11 commit group ticket
 *
 * Fields come in order and may be left out.  An unknown one is as long as the rest, so reading ends there.
 */
static bool
decode_gtid_tagged(ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	enum
	{
		FIELDS_KNOWN = 12
	};
	Gtid	   *gtid = &event->u.gtid.gtid;
	size_t		available = capstan_bytes_left(reader);
	uint64_t	version = read_varlen(reader);
	uint64_t	size = read_varlen(reader);
	uint64_t	last_required = read_varlen(reader);
	uint32_t	seen = 0;

	if (reader->failed || size > available)
		return cut_off("tagged GTID", error);
	if (version != 1 || last_required > FIELDS_KNOWN)
		return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED, "tagged GTID event has unknown fields");

	event->kind = BINLOG_GTID;
	while (capstan_bytes_left(reader) > 0)
	{
		uint64_t	field = read_varlen(reader);

		if (reader->failed || field >= FIELDS_KNOWN)
			break;
		seen |= UINT32_C(1) << field;
		switch (field)
		{
			case 1:
				for (int i = 0; i < 16; i++)
				{
					uint64_t	byte = read_varlen(reader);

					if (byte > 255)
						return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "tagged GTID event has a malformed uuid");
					gtid->uuid[i] = (uint8_t) byte;
				}
				break;
			case 2:
				gtid->number = (uint64_t) read_varlen_signed(reader);
				break;
			case 3:
				if (!decode_tag(reader, gtid))
					return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "tagged GTID event has a malformed tag");
				break;
			case 6:
				event->u.gtid.immediate_commit_us = read_varlen(reader);
				break;
			case 7:
				event->u.gtid.original_commit_us = read_varlen(reader);
				break;
			case 8:
				event->u.gtid.transaction_length = read_varlen(reader);
				break;
			default:
				(void) read_varlen(reader);
				break;
		}
	}
	if ((seen & 1 << 7) == 0)
		event->u.gtid.original_commit_us = event->u.gtid.immediate_commit_us;
	if (reader->failed || (seen & (1 << 1 | 1 << 2 | 1 << 3)) != (1 << 1 | 1 << 2 | 1 << 3))
		return cut_off("tagged GTID", error);
	return check_gtid(event, error);
}

/*
 * A query's status variables: { u8 code, value }, the lengths known only by code.  They come in
 * ascending order, so what is wanted (sql_mode 1, character set 4) is read before an unknown one.
 */
static void
decode_status(ByteReader status, BinlogEvent *event)
{
	uint64_t	sql_mode;

	while (capstan_bytes_left(&status) > 0)
	{
		switch (capstan_bytes_u8(&status))
		{
			case 0:				/* flags2 */
				capstan_bytes_skip(&status, 4);
				break;
			case 1:				/* sql_mode */
				sql_mode = capstan_bytes_u64(&status);
				event->u.query.ansi_quotes = (sql_mode & SQL_MODE_ANSI_QUOTES) != 0;
				event->u.query.no_backslash_escapes = (sql_mode & SQL_MODE_NO_BACKSLASH_ESCAPES) != 0;
				break;
			case 2:				/* catalog with NUL, very old */
				capstan_bytes_skip(&status, capstan_bytes_u8(&status) + 1u);
				break;
			case 3:				/* auto_increment increment, offset */
				capstan_bytes_skip(&status, 4);
				break;
			case 6:				/* catalog */
				capstan_bytes_skip(&status, capstan_bytes_u8(&status));
				break;
			case 4:				/* character_set_client, collation_connection, collation_server */
				event->u.query.charset = capstan_bytes_u16(&status);
				return;
			default:
				return;
		}
	}
}

/*
 * QUERY: u32 thread id, u32 seconds, u8 length of the default database, u16 error, u16 length of the status
 * variables; EXECUTE_LOAD_QUERY has 13 bytes more here; status variables, default database, NUL, statement.
 */
static bool
decode_query(ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	size_t		schema_length;
	size_t		status_length;
	const uint8_t *status;

	event->kind = BINLOG_QUERY;
	capstan_bytes_skip(reader, 4 + 4);
	schema_length = capstan_bytes_u8(reader);
	event->u.query.error_code = capstan_bytes_u16(reader);
	status_length = capstan_bytes_u16(reader);
	if (event->type_code == EXECUTE_LOAD_QUERY_EVENT)
		capstan_bytes_skip(reader, 13);
	status = capstan_bytes_take(reader, status_length);
	event->u.query.schema = take_bytes(reader, schema_length);
	capstan_bytes_skip(reader, 1);
	event->u.query.sql = take_rest(reader);
	if (reader->failed)
		return cut_off("query", error);
	decode_status(capstan_bytes_reader(status, status_length), event);
	return true;
}

/* u8 one phase, u32 format id, u32 length of gtrid, u32 length of bqual, both. */
static bool
decode_xa_prepare(BinlogDecoder *decoder, ByteReader *reader, BinlogEvent *event, CapstanError *error)
{
	uint8_t		one_phase = capstan_bytes_u8(reader);
	int32_t		format = (int32_t) capstan_bytes_u32(reader);
	uint32_t	lengths[2];
	char	   *to = decoder->xid;

	lengths[0] = capstan_bytes_u32(reader);
	lengths[1] = capstan_bytes_u32(reader);
	if (reader->failed || lengths[0] > XID_PART_MAX || lengths[1] > XID_PART_MAX)
		return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "XA prepare event has a malformed xid");
	for (int part = 0; part < 2; part++)
	{
		const uint8_t *bytes = capstan_bytes_take(reader, lengths[part]);

		if (bytes == NULL)
			return cut_off("XA prepare", error);
		to += sprintf(to, "X'");
		for (uint32_t i = 0; i < lengths[part]; i++)
			to += sprintf(to, "%02x", bytes[i]);
		to += sprintf(to, "',");
	}
	to += sprintf(to, "%d", format);
	event->kind = BINLOG_XA_PREPARE;
	event->u.xa_prepare.one_phase = one_phase != 0;
	event->u.xa_prepare.xid.data = decoder->xid;
	event->u.xa_prepare.xid.length = (size_t) (to - decoder->xid);
	return true;
}

/* u16 number, u8 length, message. */
static bool
decode_incident(ByteReader *reader, BinlogEvent *event)
{
	event->kind = BINLOG_INCIDENT;
	event->u.incident.number = capstan_bytes_u16(reader);
	event->u.incident.message = take_bytes(reader, capstan_bytes_u8(reader));
	/* Whatever the message: the incident itself is what counts. */
	return true;
}

static bool
decode_body(BinlogDecoder *decoder, ByteReader *reader, bool inner, BinlogEvent *event, CapstanError *error)
{
	switch (event->type_code)
	{
		case QUERY_EVENT:
		case EXECUTE_LOAD_QUERY_EVENT:
			return decode_query(reader, event, error);
		case XID_EVENT:
			event->kind = BINLOG_XID;
			return true;
		case TABLE_MAP_EVENT:
			event->kind = BINLOG_TABLE_MAP;
			event->u.table = capstan_tablemap_decode(decoder, reader->pos, capstan_bytes_left(reader), error);
			return event->u.table != NULL;
		case WRITE_ROWS_EVENT_V1:
		case UPDATE_ROWS_EVENT_V1:
		case DELETE_ROWS_EVENT_V1:
		case WRITE_ROWS_EVENT:
		case UPDATE_ROWS_EVENT:
		case DELETE_ROWS_EVENT:
		case PARTIAL_UPDATE_ROWS_EVENT:
			event->kind = BINLOG_ROWS;
			return capstan_rows_begin(decoder, event->type_code, reader->pos, capstan_bytes_left(reader),
									  event, error);
		case ROWS_QUERY_EVENT:
			/* A length of one byte, which long statements overflow, and the statement. */
			event->kind = BINLOG_ROWS_QUERY;
			capstan_bytes_skip(reader, 1);
			event->u.query.sql = take_rest(reader);
			return true;
		case INTVAR_EVENT:
		case RAND_EVENT:
		case USER_VAR_EVENT:
		case APPEND_BLOCK_EVENT:
		case DELETE_FILE_EVENT:
		case BEGIN_LOAD_QUERY_EVENT:
			/* They prepare a statement, which follows as QUERY or EXECUTE_LOAD_QUERY. */
		case IGNORABLE_EVENT:
		case TRANSACTION_CONTEXT_EVENT:
		case VIEW_CHANGE_EVENT:
			event->kind = BINLOG_IGNORED;
			return true;
		case XA_PREPARE_EVENT:
			return decode_xa_prepare(decoder, reader, event, error);
		case INCIDENT_EVENT:
			return decode_incident(reader, event);
		default:
			break;
	}
	if (!inner)
	{
		switch (event->type_code)
		{
			case STOP_EVENT:
				event->kind = BINLOG_STOP;
				return true;
			case ROTATE_EVENT:
				return decode_rotate(decoder, reader, event, error);
			case HEARTBEAT_EVENT:
				return decode_heartbeat(reader, event);
			case HEARTBEAT_EVENT_V2:
				return decode_heartbeat_v2(reader, event, error);
			case GTID_EVENT:
			case ANONYMOUS_GTID_EVENT:
				return decode_gtid(reader, event, error);
			case GTID_TAGGED_EVENT:
				return decode_gtid_tagged(reader, event, error);
			case PREVIOUS_GTIDS_EVENT:
				event->kind = BINLOG_PREVIOUS_GTIDS;
				event->u.previous_gtids.data = take_rest(reader);
				return true;
			case TRANSACTION_PAYLOAD_EVENT:
				event->kind = BINLOG_PAYLOAD;
				return capstan_payload_begin(decoder, reader->pos, capstan_bytes_left(reader), event, error);
			default:
				break;
		}
	}
	if ((event->flags & FLAG_IGNORABLE) != 0)
	{
		event->kind = BINLOG_IGNORED;
		return true;
	}
	return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED, "events of type %d are not known%s", event->type_code,
						 inner ? " inside a transaction payload" : "");
}

/* The header's 32 bits, made whole by what came before in the file. */
static uint64_t
full_position(BinlogDecoder *decoder, uint32_t low)
{
	uint64_t	position = (decoder->position & ~UINT64_C(0xffffffff)) | low;

	if (low == 0)
		return 0;
	if (position < decoder->position && decoder->position - position > UINT64_C(0x80000000))
		position += UINT64_C(0x100000000);
	return position;
}

static bool
decode_header(BinlogDecoder *decoder, const uint8_t *data, size_t length, BinlogEvent *event, CapstanError *error)
{
	ByteReader	reader = capstan_bytes_reader(data, length);
	uint32_t	event_length;

	memset(event, 0, sizeof(*event));
	event->timestamp = capstan_bytes_u32(&reader);
	event->type_code = capstan_bytes_u8(&reader);
	event->server_id = capstan_bytes_u32(&reader);
	event_length = capstan_bytes_u32(&reader);
	event->end_position = full_position(decoder, capstan_bytes_u32(&reader));
	event->flags = capstan_bytes_u16(&reader);
	if (reader.failed || event_length != length)
		return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "event of %zu bytes says that it has %u",
							 length, event_length);

	/* What the last event left is not valid any more. */
	decoder->rows.map = NULL;
	if (decoder->statement_ended)
	{
		decoder->statement++;
		decoder->statement_ended = false;
	}
	return true;
}

bool
capstan_binlog_decode(BinlogDecoder *decoder, const uint8_t *data, size_t length,
					  BinlogEvent *event, CapstanError *error)
{
	ByteReader	reader;

	if (!decode_header(decoder, data, length, event, error))
		return false;
	capstan_payload_close(decoder);
	if (event->type_code == FORMAT_DESCRIPTION_EVENT)
	{
		event->kind = BINLOG_FORMAT;
		decoder->statement++;
		decoder->position = event->end_position;
		return decode_format(decoder, data, length, error);
	}
	if (decoder->checksummed)
	{
		ByteReader	trailer;

		if (length < BINLOG_HEADER_LENGTH + BINLOG_CHECKSUM_LENGTH)
			return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "event has no room for its checksum");
		length -= BINLOG_CHECKSUM_LENGTH;
		trailer = capstan_bytes_reader(data + length, BINLOG_CHECKSUM_LENGTH);
		if (capstan_crc32(data, length) != capstan_bytes_u32(&trailer))
			return capstan_error(error, CAPSTAN_ERROR_CHECKSUM, "event of type %d does not match its checksum",
								 event->type_code);
	}
	reader = capstan_bytes_reader(data, length);
	capstan_bytes_skip(&reader, BINLOG_HEADER_LENGTH);
	if (!decode_body(decoder, &reader, false, event, error))
		return false;

	/* A rotate event ends the file that its own position belongs to. */
	if (event->kind != BINLOG_ROTATE && event->end_position > decoder->position)
		decoder->position = event->end_position;
	/* A group begins: no statement before it reaches into it. */
	if (event->kind == BINLOG_GTID || event->kind == BINLOG_ANONYMOUS_GTID)
		decoder->statement++;
	return true;
}

bool
capstan_binlog_decode_inner(BinlogDecoder *decoder, const uint8_t *data, size_t length,
							BinlogEvent *event, CapstanError *error)
{
	ByteReader	reader;

	if (!decode_header(decoder, data, length, event, error))
		return false;
	event->end_position = 0;
	reader = capstan_bytes_reader(data, length);
	capstan_bytes_skip(&reader, BINLOG_HEADER_LENGTH);
	return decode_body(decoder, &reader, true, event, error);
}
