/*
 * literal.c
 *		Identifiers and values as text of MySQL's SQL.
 *
 * The session's sql_mode is empty, so "\" escapes in strings; literals of values use no escapes at all but x'..'.
 */
#include "postgres.h"

#include <limits.h>

#include "base/collation.h"
#include "wire/internal.h"

char *
capstan_wire_quote_identifier(const char *name)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '`');
	for (const char *p = name; *p != '\0'; p++)
	{
		if (*p == '`')
			appendStringInfoChar(&out, '`');
		appendStringInfoChar(&out, *p);
	}
	appendStringInfoChar(&out, '`');
	return out.data;
}

char *
capstan_wire_quote_literal(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '\'');
	for (const char *p = text; *p != '\0'; p++)
	{
		/* Bytes of a multi-byte character of utf-8 are never one of these. */
		if (*p == '\'' || *p == '\\')
			appendStringInfoChar(&out, '\\');
		appendStringInfoChar(&out, *p);
	}
	appendStringInfoChar(&out, '\'');
	return out.data;
}

static void
append_hex(StringInfo out, const char *data, size_t length)
{
	static const char digits[] = "0123456789abcdef";

	enlargeStringInfo(out, (int) Min(length * 2 + 3, (size_t) INT_MAX / 2));
	appendStringInfoString(out, "x'");
	for (size_t i = 0; i < length; i++)
	{
		unsigned char c = (unsigned char) data[i];

		appendStringInfoCharMacro(out, digits[c >> 4]);
		appendStringInfoCharMacro(out, digits[c & 15]);
	}
	appendStringInfoChar(out, '\'');
}

/* As an integer: a bit literal is a string, which is compared as a double, exact only up to 53 bits. */
static void
append_bits(StringInfo out, const SourceValue *value)
{
	uint64		number = 0;

	for (size_t i = 0; i < value->u.bytes.length; i++)
		number = number << 8 | (unsigned char) value->u.bytes.data[i];
	appendStringInfo(out, UINT64_FORMAT, number);
}

static void
append_text(StringInfo out, const SourceColumn *column, const SourceValue *value)
{
	const char *charset = capstan_collation_charset(column->collation);
	const char *collation = capstan_collation_name(column->collation);

	if (charset == NULL || collation == NULL)
		elog(ERROR, "unknown collation %d of column \"%s\"", column->collation, column->name);
	appendStringInfo(out, "_%s ", charset);
	append_hex(out, value->u.bytes.data, value->u.bytes.length);
	appendStringInfo(out, " COLLATE %s", collation);
}

static void
append_fraction(StringInfo out, int micros, int scale)
{
	if (scale > 0)
	{
		char		digits[8];

		snprintf(digits, sizeof(digits), "%06d", micros);
		appendStringInfo(out, ".%.*s", Min(scale, 6), digits);
	}
}

static void
append_datetime(StringInfo out, const SourceColumn *column, const SourceDateTime *t)
{
	if (column->type == SOURCE_DATE)
		appendStringInfo(out, "DATE'%04d-%02d-%02d'", t->year, t->month, t->day);
	else
	{
		appendStringInfo(out, "TIMESTAMP'%04d-%02d-%02d %02d:%02d:%02d", t->year, t->month, t->day,
						 t->hour, t->minute, t->second);
		append_fraction(out, (int) t->microsecond, column->scale);
		appendStringInfoChar(out, '\'');
	}
}

/* Days since 1970-01-01, not negative here, back to a civil date. */
static void
append_timestamp(StringInfo out, const SourceColumn *column, int64 micros)
{
	SourceDateTime t = {0};

	/* Zero is a value of its own; nothing of a TIMESTAMP lies before the epoch. */
	if (micros > 0)
	{
		int64		seconds = micros / INT64CONST(1000000);
		int64		days = seconds / 86400 + 719468;
		int			left = (int) (seconds % 86400);
		int			era = (int) (days / 146097);
		int			day_of_era = (int) (days % 146097);
		int			year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
		int			day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
		int			shifted_month = (5 * day_of_year + 2) / 153;

		t.day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
		t.month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;
		t.year = era * 400 + year_of_era + (t.month <= 2 ? 1 : 0);
		t.hour = left / 3600;
		t.minute = left / 60 % 60;
		t.second = left % 60;
		t.microsecond = (uint32) (micros % INT64CONST(1000000));
	}
	append_datetime(out, column, &t);
}

static void
append_time(StringInfo out, const SourceColumn *column, int64 micros)
{
	int64		absolute = micros < 0 ? -micros : micros;
	int64		seconds = absolute / INT64CONST(1000000);

	appendStringInfo(out, "TIME'%s%02d:%02d:%02d", micros < 0 ? "-" : "",
					 (int) (seconds / 3600), (int) (seconds / 60 % 60), (int) (seconds % 60));
	append_fraction(out, (int) (absolute % INT64CONST(1000000)), column->scale);
	appendStringInfoChar(out, '\'');
}

void
capstan_wire_append_literal(StringInfo out, const SourceColumn *column, const SourceValue *value)
{
	switch (value->kind)
	{
		case VALUE_NULL:
			appendStringInfoString(out, "NULL");
			return;
		case VALUE_INT:
			appendStringInfo(out, INT64_FORMAT, (int64) value->u.integer);
			return;
		case VALUE_UINT:
			appendStringInfo(out, UINT64_FORMAT, (uint64) value->u.uinteger);
			return;
		case VALUE_DECIMAL:
			appendBinaryStringInfo(out, value->u.bytes.data, (int) value->u.bytes.length);
			return;
		case VALUE_BITS:
			append_bits(out, value);
			return;
		case VALUE_DATETIME:
			append_datetime(out, column, &value->u.datetime);
			return;
		case VALUE_TIMESTAMP:
			append_timestamp(out, column, value->u.integer);
			return;
		case VALUE_TIME:
			append_time(out, column, value->u.integer);
			return;
		case VALUE_BYTES:
			if (column->type == SOURCE_CHAR || column->type == SOURCE_VARCHAR || column->type == SOURCE_TEXT)
			{
				append_text(out, column, value);
				return;
			}
			if (column->type == SOURCE_BINARY || column->type == SOURCE_VARBINARY || column->type == SOURCE_BLOB)
			{
				append_hex(out, value->u.bytes.data, value->u.bytes.length);
				return;
			}
			break;
		default:
			break;
	}
	elog(ERROR, "no literal for a value of column \"%s\"", column->name);
}
