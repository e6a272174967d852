/*
 * fuzz_binlog.c
 *		libFuzzer target: a binary log file. Checksums are cut off unseen, lengths made right, so that
 *		the fuzzer need not guess them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "binlog/binlog.h"
#include "binlog/statement.h"

#define MAGIC_LENGTH 4
#define HEADER_LENGTH 19
#define CHECKSUM_LENGTH 4

static void
must_explain(const CapstanError *error)
{
	if (error->code == CAPSTAN_OK || error->message[0] == '\0')
		abort();
}

/* Every byte of a value is read, for the sanitizer. */
static unsigned
read_values(const SourceTable *table, const SourceValue *values)
{
	unsigned	sum = 0;

	for (int i = 0; values != NULL && i < table->ncolumns; i++)
	{
		switch (values[i].kind)
		{
			case VALUE_DECIMAL:
			case VALUE_BITS:
			case VALUE_BYTES:
			case VALUE_JSON:
				for (size_t j = 0; j < values[i].u.bytes.length; j++)
					sum += (unsigned char) values[i].u.bytes.data[j];
				break;
			default:
				break;
		}
	}
	return sum;
}

static unsigned
read_event(BinlogDecoder *decoder, const BinlogEvent *event)
{
	CapstanError error = {CAPSTAN_OK, ""};
	unsigned	sum = 0;

	if (event->kind == BINLOG_ROWS && event->u.rows.table != NULL && event->u.rows.table->ncolumns > 0)
	{
		SourceChange change;
		BinlogNext	next;

		while ((next = capstan_binlog_next_change(decoder, &change, &error)) == BINLOG_CHANGE)
			sum += read_values(change.table, change.before) + read_values(change.table, change.after);
		if (next == BINLOG_ERROR)
			must_explain(&error);
	}
	else if (event->kind == BINLOG_TABLE_MAP)
	{
		StrBuf		out;

		capstan_strbuf_init(&out);
		capstan_source_table_signature(event->u.table, &out);
		capstan_strbuf_free(&out);
	}
	else if (event->kind == BINLOG_QUERY)
	{
		Statement	statement;

		capstan_statement_parse(event->u.query.sql.data, event->u.query.sql.length, event->u.query.ansi_quotes,
								event->u.query.no_backslash_escapes, &statement);
		capstan_statement_free(&statement);
	}
	return sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	size_t		pos = MAGIC_LENGTH;
	volatile unsigned sum = 0;

	while (pos + HEADER_LENGTH + CHECKSUM_LENGTH <= size)
	{
		ByteReader	reader = capstan_bytes_reader(data + pos + 9, 4);
		size_t		length = capstan_bytes_u32(&reader);
		uint8_t    *event;
		BinlogEvent decoded;
		CapstanError error = {CAPSTAN_OK, ""};
		const uint8_t *inner;
		size_t		inner_length;
		int			rc;

		if (length > size - pos)
			length = size - pos;
		if (length < HEADER_LENGTH + CHECKSUM_LENGTH)
			length = HEADER_LENGTH + CHECKSUM_LENGTH;
		pos += length;
		event = malloc(length);
		memcpy(event, data + pos - length, length);
		if (event[4] != 15)
			length -= CHECKSUM_LENGTH;
		for (int i = 0; i < 4; i++)
			event[9 + i] = (uint8_t) (length >> (8 * i));
		if (!capstan_binlog_decode(decoder, event, length, &decoded, &error))
			must_explain(&error);
		else if (decoded.kind == BINLOG_FORMAT)
			capstan_binlog_reset(decoder, false);
		else if (decoded.kind == BINLOG_PAYLOAD)
		{
			int			events = 0;

			while ((rc = capstan_binlog_payload_next(decoder, &inner, &inner_length, &error)) == 1 && events++ < 1000)
			{
				if (capstan_binlog_decode_inner(decoder, inner, inner_length, &decoded, &error))
					sum += read_event(decoder, &decoded);
				else
					must_explain(&error);
			}
			if (rc < 0)
				must_explain(&error);
		}
		else
			sum += read_event(decoder, &decoded);
		free(event);
	}
	capstan_binlog_free(decoder);
	return 0;
}
