/*
 * fuzz_binlog.c
 *		libFuzzer target: a binary log file.  Checksums are cut off unseen, lengths made right, so that
 *		the fuzzer need not guess them.
 */
#include "binlog/statement.h"
#include "fuzz.h"

#define MAGIC_LENGTH 4
#define HEADER_LENGTH 19
#define CHECKSUM_LENGTH 4

static void
read_event(BinlogDecoder *decoder, const BinlogEvent *event)
{
	CapstanError error = {CAPSTAN_OK, ""};
	Statement	statement;
	GtidSet    *set;

	switch (event->kind)
	{
		case BINLOG_ROWS:
			if (event->u.rows.table != NULL && event->u.rows.table->ncolumns > 0)
				fuzz_read_changes(decoder);
			break;
		case BINLOG_TABLE_MAP:
			fuzz_read_table(event->u.table);
			break;
		case BINLOG_QUERY:
			capstan_statement_parse(event->u.query.sql.data, event->u.query.sql.length, event->u.query.ansi_quotes,
									event->u.query.no_backslash_escapes, &statement);
			(void) capstan_statement_is_certain(&statement, event->u.query.sql.data, event->u.query.sql.length,
												event->u.query.charset);
			fuzz_touch(event->u.query.schema.data, event->u.query.schema.length);
			capstan_statement_free(&statement);
			break;
		case BINLOG_ROWS_QUERY:
			fuzz_touch(event->u.query.sql.data, event->u.query.sql.length);
			break;
		case BINLOG_ROTATE:
		case BINLOG_HEARTBEAT:
			fuzz_touch(event->u.rotate.file.data, event->u.rotate.file.length);
			break;
		case BINLOG_XA_PREPARE:
			fuzz_touch(event->u.xa_prepare.xid.data, event->u.xa_prepare.xid.length);
			break;
		case BINLOG_INCIDENT:
			fuzz_touch(event->u.incident.message.data, event->u.incident.message.length);
			break;
		case BINLOG_PREVIOUS_GTIDS:
			set = capstan_gtidset_decode((const uint8_t *) event->u.previous_gtids.data.data,
										 event->u.previous_gtids.data.length, &error);
			if (set == NULL)
				fuzz_must_explain(&error);
			capstan_gtidset_free(set);
			break;
		default:
			break;
	}
}

static void
read_payload(BinlogDecoder *decoder)
{
	const uint8_t *inner;
	size_t		length;
	BinlogEvent decoded;
	CapstanError error = {CAPSTAN_OK, ""};
	int			events = 0;
	int			rc;

	while ((rc = capstan_binlog_payload_next(decoder, &inner, &length, &error)) == 1 && events++ < 1000)
	{
		if (capstan_binlog_decode_inner(decoder, inner, length, &decoded, &error))
			read_event(decoder, &decoded);
		else
			fuzz_must_explain(&error);
	}
	if (rc < 0)
		fuzz_must_explain(&error);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	size_t		pos = MAGIC_LENGTH;

	while (pos + HEADER_LENGTH + CHECKSUM_LENGTH <= size)
	{
		ByteReader	reader = capstan_bytes_reader(data + pos + 9, 4);
		size_t		length = capstan_bytes_u32(&reader);
		uint8_t    *event;
		BinlogEvent decoded;
		CapstanError error = {CAPSTAN_OK, ""};

		if (length > size - pos)
			length = size - pos;
		if (length < HEADER_LENGTH + CHECKSUM_LENGTH)
			length = HEADER_LENGTH + CHECKSUM_LENGTH;
		event = fuzz_copy(data + pos, length);
		pos += length;
		if (event[4] != 15)
			length -= CHECKSUM_LENGTH;
		for (int i = 0; i < 4; i++)
			event[9 + i] = (uint8_t) (length >> (8 * i));
		if (!capstan_binlog_decode(decoder, event, length, &decoded, &error))
			fuzz_must_explain(&error);
		else if (decoded.kind == BINLOG_FORMAT)
			capstan_binlog_reset(decoder, false);
		else if (decoded.kind == BINLOG_PAYLOAD)
			read_payload(decoder);
		else
			read_event(decoder, &decoded);
		free(event);
	}
	capstan_binlog_free(decoder);
	return 0;
}
