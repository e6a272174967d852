/*
 * fixtures.c
 *		See fixtures.h.
 */
#include "fixtures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "unit.h"

void
fixture_open(BinlogFile *file, const char *name, bool checksummed)
{
	memset(file, 0, sizeof(*file));
	file->data = unit_load(name, &file->length);
	file->pos = 4;				/* the magic number */
	file->decoder = capstan_binlog_create();
	capstan_binlog_reset(file->decoder, checksummed);
	CHECK(file->length > 4 && memcmp(file->data, "\xfe" "bin", 4) == 0);
}

void
fixture_close(BinlogFile *file)
{
	capstan_binlog_free(file->decoder);
	free(file->data);
}

bool
fixture_next(BinlogFile *file, BinlogEvent *event, CapstanError *error)
{
	ByteReader	reader;
	uint32_t	length;

	error->code = CAPSTAN_OK;
	if (file->in_payload)
	{
		const uint8_t *data;
		size_t		inner_length;
		int			rc = capstan_binlog_payload_next(file->decoder, &data, &inner_length, error);

		if (rc < 0)
			return false;
		if (rc > 0)
			return capstan_binlog_decode_inner(file->decoder, data, inner_length, event, error);
		file->in_payload = false;
	}
	if (file->pos == file->length)
		return false;
	reader = capstan_bytes_reader(file->data + file->pos, file->length - file->pos);
	capstan_bytes_skip(&reader, 9);
	length = capstan_bytes_u32(&reader);
	if (reader.failed || length > file->length - file->pos)
		return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "file is cut off");
	file->pos += length;
	if (!capstan_binlog_decode(file->decoder, file->data + file->pos - length, length, event, error))
		return false;
	if (event->kind == BINLOG_PAYLOAD)
	{
		file->in_payload = true;
		file->payload_end = event->end_position;
	}
	return true;
}

static void
append_fraction(StrBuf *out, uint32_t usecs, int scale)
{
	char		digits[8];

	if (scale == 0)
		return;
	snprintf(digits, sizeof(digits), "%06u", usecs % 1000000);
	capstan_strbuf_append_char(out, '.');
	capstan_strbuf_append(out, digits, (size_t) scale);
}

static void
append_hex(StrBuf *out, SourceBytes bytes, bool shorten)
{
	if (shorten && bytes.length > 200)
	{
		capstan_strbuf_printf(out, "#%zu:%u", bytes.length, capstan_crc32(bytes.data, bytes.length));
		return;
	}
	for (size_t i = 0; i < bytes.length; i++)
		capstan_strbuf_printf(out, "%02X", (uint8_t) bytes.data[i]);
}

static void
append_timestamp(StrBuf *out, int64_t usecs, int scale)
{
	time_t		seconds = (time_t) (usecs / 1000000);
	struct tm	tm;
	char		text[32];

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	capstan_strbuf_append_str(out, usecs == 0 ? "0000-00-00 00:00:00" : text);
	append_fraction(out, (uint32_t) (usecs % 1000000), scale);
}

static void
append_value(StrBuf *out, const SourceColumn *column, const SourceValue *value)
{
	const SourceDateTime *datetime = &value->u.datetime;
	int64_t		time;

	switch (value->kind)
	{
		case VALUE_NULL:
			capstan_strbuf_append_str(out, "NULL");
			break;
		case VALUE_ABSENT:
			capstan_strbuf_append_str(out, "ABSENT");
			break;
		case VALUE_JSON_BINARY:
			capstan_strbuf_append_str(out, "DOCUMENT");
			break;
		case VALUE_JSON_DIFFS:
			capstan_strbuf_append_str(out, "DIFFERENCES");
			break;
		case VALUE_INT:
			capstan_strbuf_printf(out, "%" PRId64, value->u.integer);
			break;
		case VALUE_UINT:
		case VALUE_LABEL:
			capstan_strbuf_printf(out, "%" PRIu64, value->u.uinteger);
			break;
		case VALUE_FLOAT:
			capstan_strbuf_printf(out, "f%.17g", value->u.real32);
			break;
		case VALUE_DOUBLE:
			capstan_strbuf_printf(out, "f%.17g", value->u.real64);
			break;
		case VALUE_DECIMAL:
			capstan_strbuf_append(out, value->u.bytes.data, value->u.bytes.length);
			break;
		case VALUE_BITS:
			append_hex(out, value->u.bytes, false);
			break;
		case VALUE_DATETIME:
			capstan_strbuf_printf(out, "%04d-%02d-%02d", datetime->year, datetime->month, datetime->day);
			if (column->type == SOURCE_DATETIME)
			{
				capstan_strbuf_printf(out, " %02d:%02d:%02d", datetime->hour, datetime->minute, datetime->second);
				append_fraction(out, datetime->microsecond, column->scale);
			}
			break;
		case VALUE_TIMESTAMP:
			append_timestamp(out, value->u.integer, column->scale);
			break;
		case VALUE_TIME:
			time = value->u.integer < 0 ? -value->u.integer : value->u.integer;
			capstan_strbuf_printf(out, "%s%02d:%02d:%02d", value->u.integer < 0 ? "-" : "",
								  (int) (time / INT64_C(3600000000)), (int) (time / 60000000 % 60),
								  (int) (time / 1000000 % 60));
			append_fraction(out, (uint32_t) (time % 1000000), column->scale);
			break;
		case VALUE_BYTES:
		case VALUE_JSON:
			append_hex(out, value->u.bytes, true);
			break;
	}
}

static void
append_image(StrBuf *out, const SourceTable *table, const SourceValue *values)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		capstan_strbuf_append_char(out, '\t');
		append_value(out, &table->columns[i], &values[i]);
	}
}

void
fixture_format_change(const SourceChange *change, StrBuf *out)
{
	static const char *const names[] = {"", "insert", "update", "delete"};

	capstan_strbuf_append_str(out, names[change->kind]);
	capstan_strbuf_append_char(out, '\t');
	capstan_strbuf_append_str(out, change->table->table_name);
	if (change->before != NULL)
		append_image(out, change->table, change->before);
	if (change->after != NULL)
		append_image(out, change->table, change->after);
}
