/*
 * defaults.c
 *		What a column gets when an INSERT does not name it.
 *
 * With binlog_row_image = MINIMAL the log leaves out columns that the statement did not
 * name and whose default is a constant; the server itself is asked for those constants,
 * so that they come out just as it would store them.  Expression defaults, timestamps set by the
 * server and generated columns are always in the image (seen on MySQL 9.7).
 *
 * Called by sqlapi/ when a pipeline is created and by the pipeline worker at its first start.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "base/collation.h"
#include "wire/internal.h"

/*
 * What a column that is NOT NULL and has no default gets in a session without strict mode
 * (https://dev.mysql.com/doc/refman/en/data-type-defaults.html).  ABSENT where there is none.
 */
static SourceValue
implicit_default(const SourceColumn *column)
{
	SourceValue value;

	memset(&value, 0, sizeof(value));
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			value.kind = column->is_unsigned ? VALUE_UINT : VALUE_INT;
			break;
		case SOURCE_YEAR:
			value.kind = VALUE_INT;
			break;
		case SOURCE_FLOAT:
			value.kind = VALUE_FLOAT;
			break;
		case SOURCE_DOUBLE:
			value.kind = VALUE_DOUBLE;
			break;
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			value.kind = VALUE_DATETIME;
			break;
		case SOURCE_TIMESTAMP:
			value.kind = VALUE_TIMESTAMP;
			break;
		case SOURCE_TIME:
			value.kind = VALUE_TIME;
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
		case SOURCE_VARBINARY:
		case SOURCE_BLOB:
			value.kind = VALUE_BYTES;
			value.u.bytes.data = "";
			break;
		case SOURCE_BINARY:
			value.kind = VALUE_BYTES;
			value.u.bytes.data = palloc0(column->octets + 1);
			value.u.bytes.length = column->octets;
			break;
		case SOURCE_BIT:
			value.kind = VALUE_BITS;
			value.u.bytes.length = (column->precision + 7) / 8;
			value.u.bytes.data = palloc0(value.u.bytes.length);
			break;
		case SOURCE_DECIMAL:
			{
				StringInfoData text;

				initStringInfo(&text);
				appendStringInfoChar(&text, '0');
				for (int i = 0; i < column->scale; i++)
					appendStringInfoString(&text, i == 0 ? ".0" : "0");
				value.kind = VALUE_DECIMAL;
				value.u.bytes.data = text.data;
				value.u.bytes.length = text.len;
				break;
			}
		case SOURCE_ENUM:
			value.kind = VALUE_LABEL;
			value.u.uinteger = 1;
			break;
		case SOURCE_SET:
			value.kind = VALUE_LABEL;
			break;
		default:
			value.kind = VALUE_ABSENT;
			break;
	}
	return value;
}

/* "0x6162" or "b'101'" as information_schema shows binary and BIT defaults: bytes, right-aligned in `length` if that is given. */
static bool
parse_binary(const char *text, size_t length, SourceValue *value)
{
	size_t		n = strlen(text);
	char	   *bytes;

	if (strncmp(text, "0x", 2) == 0 && n % 2 == 0)
	{
		size_t		given = (n - 2) / 2;

		bytes = palloc0(Max(length, given) + 1);
		for (size_t i = 0; i < given; i++)
		{
			unsigned int byte;

			if (sscanf(text + 2 + 2 * i, "%2x", &byte) != 1)
				return false;
			bytes[i] = (char) byte;
		}
		value->u.bytes.length = Max(length, given);
	}
	else if (strncmp(text, "b'", 2) == 0 && n >= 3 && text[n - 1] == '\'')
	{
		bytes = palloc0(length + 1);
		for (size_t i = 0; i < n - 3; i++)
		{
			size_t		bit = n - 4 - i;

			if ((text[2 + bit] != '0' && text[2 + bit] != '1') || i / 8 >= length)
				return false;
			if (text[2 + bit] == '1')
				bytes[length - 1 - i / 8] |= 1 << (i % 8);
		}
		value->u.bytes.length = length;
	}
	else
		return false;
	value->u.bytes.data = bytes;
	return true;
}

/* "[-]838:59:59[.123456]" as microseconds. */
static bool
parse_time(const char *text, int64_t *microseconds)
{
	bool		negative = text[0] == '-';
	unsigned int hour,
				minute,
				second;
	char		fraction[7] = "000000";
	int			read = 0;

	if (sscanf(text + negative, "%3u:%2u:%2u%n", &hour, &minute, &second, &read) != 3)
		return false;
	text += negative + read;
	if (*text == '.')
	{
		size_t		digits = strspn(text + 1, "0123456789");

		memcpy(fraction, text + 1, Min(digits, 6));
		text += 1 + digits;
	}
	*microseconds = ((hour * INT64_C(60) + minute) * 60 + second) * 1000000 + atoi(fraction);
	if (negative)
		*microseconds = -*microseconds;
	return *text == '\0';
}

/*
 * The constant default of a column that is NOT NULL, which DEFAULT() does not tell for a row that is not there: from the text
 * in information_schema, given in the column's character set.  ABSENT where that text is not exact or not known: a FLOAT has six digits there, a
 * TIMESTAMP is in the time zone of whoever made the table, a "?" may be a character beyond the BMP.
 */
static SourceValue
parse_default(const SourceColumn *column, const char *text)
{
	SourceValue value;
	unsigned int year = 0,
				month,
				day,
				hour = 0,
				minute = 0,
				second = 0;
	int			read = 0;
	char	   *end = NULL;
	bool		good = false;

	memset(&value, 0, sizeof(value));
	errno = 0;
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
		case SOURCE_YEAR:
			value.kind = column->is_unsigned && column->type != SOURCE_YEAR ? VALUE_UINT : VALUE_INT;
			if (value.kind == VALUE_UINT)
				value.u.uinteger = strtoull(text, &end, 10);
			else
				value.u.integer = strtoll(text, &end, 10);
			good = errno == 0 && end != text && *end == '\0';
			break;
		case SOURCE_DECIMAL:
			value.kind = VALUE_DECIMAL;
			good = strspn(text, "-0123456789.") == strlen(text) && text[0] != '\0';
			/* of a ZEROFILL column, which has no negative values */
			while (text[0] == '0' && text[1] >= '0' && text[1] <= '9')
				text++;
			value.u.bytes.data = pstrdup(text);
			value.u.bytes.length = strlen(text);
			break;
		case SOURCE_DOUBLE:
			value.kind = VALUE_DOUBLE;
			value.u.real64 = strtod(text, &end);
			good = end != text && *end == '\0';
			break;
		case SOURCE_BIT:
			value.kind = VALUE_BITS;
			good = parse_binary(text, (column->precision + 7) / 8, &value);
			break;
		case SOURCE_BINARY:
			value.kind = VALUE_BYTES;
			good = parse_binary(text, column->octets, &value);
			break;
		case SOURCE_VARBINARY:
			value.kind = VALUE_BYTES;
			good = parse_binary(text, 0, &value);
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_ENUM:
		case SOURCE_SET:
			value.kind = VALUE_BYTES;
			value.u.bytes.data = pstrdup(text);
			value.u.bytes.length = strlen(text);
			good = strchr(text, '?') == NULL;
			break;
		case SOURCE_FLOAT:
			value.kind = VALUE_FLOAT;
			good = strcmp(text, "0") == 0;
			break;
		case SOURCE_TIMESTAMP:
			value.kind = VALUE_TIMESTAMP;
			good = strspn(text, "0-: .") == strlen(text);
			break;
		case SOURCE_TIME:
			value.kind = VALUE_TIME;
			good = parse_time(text, &value.u.integer);
			break;
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			value.kind = VALUE_DATETIME;
			good = sscanf(text, "%4u-%2u-%2u%n %2u:%2u:%2u%n", &year, &month, &day, &read, &hour, &minute, &second, &read) >= 3;
			value.u.datetime.year = year;
			value.u.datetime.month = good ? month : 0;
			value.u.datetime.day = good ? day : 0;
			value.u.datetime.hour = hour;
			value.u.datetime.minute = minute;
			value.u.datetime.second = second;
			if (good && text[read] == '.')
			{
				char		fraction[7] = "000000";
				size_t		digits = strspn(text + read + 1, "0123456789");

				memcpy(fraction, text + read + 1, Min(digits, 6));
				value.u.datetime.microsecond = atoi(fraction);
				read += 1 + (int) digits;
			}
			good = good && text[read] == '\0';
			break;
		default:
			break;
	}
	if (!good)
		value.kind = VALUE_ABSENT;
	return value;
}

/* For the columns that are NOT NULL and have a constant default: one query. */
static void
ask_for_texts(SourceConn *conn, const SourceTable *table, SourceValue *defaults)
{
	StringInfoData sql;
	SourceResult *texts;
	char	   *expected;
	int			n = 0;

	initStringInfo(&sql);
	for (int i = 0; i < table->ncolumns; i++)
	{
		const SourceColumn *column = &table->columns[i];
		const char *charset = column->collation == 0 ? NULL : capstan_collation_charset(column->collation);

		if (column->nullable || !column->constant_default)
			continue;
		appendStringInfo(&sql, "%sHEX(CONVERT((SELECT COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s "
						 "AND TABLE_NAME = %s AND COLUMN_NAME = %s) USING %s))", n++ > 0 ? ", " : "SELECT ",
						 capstan_wire_quote_literal(table->schema_name), capstan_wire_quote_literal(table->table_name),
						 capstan_wire_quote_literal(column->name),
						 charset == NULL || strcmp(charset, "binary") == 0 ? "utf8mb4" : charset);
	}
	if (n == 0)
		return;
	expected = palloc0(n + 1);
	memset(expected, WIRE_NULLABLE[0], n);
	texts = capstan_wire_query(conn, sql.data, expected);
	if (texts->nrows != 1)
		elog(ERROR, "column defaults could not be converted");
	n = 0;
	for (int i = 0; i < table->ncolumns; i++)
	{
		const SourceColumn *column = &table->columns[i];
		const char *hex;
		SourceValue bytes;

		if (column->nullable || !column->constant_default)
			continue;
		hex = texts->rows[0][n++];
		memset(&bytes, 0, sizeof(bytes));
		if (hex == NULL || !parse_binary(psprintf("0x%s", hex), 0, &bytes) || memchr(bytes.u.bytes.data, '\0', bytes.u.bytes.length) != NULL)
			defaults[i].kind = VALUE_ABSENT;
		else
			defaults[i] = parse_default(column, bytes.u.bytes.data);
	}
}

/* Out of the cursor's buffers into the current context. */
static SourceValue
keep_value(const SourceValue *value)
{
	SourceValue kept = *value;

	switch (value->kind)
	{
		case VALUE_DECIMAL:
		case VALUE_BITS:
		case VALUE_BYTES:
		case VALUE_JSON:
			kept.u.bytes.data = memcpy(palloc(value->u.bytes.length + 1), value->u.bytes.data, value->u.bytes.length);
			break;
		default:
			break;
	}
	return kept;
}

/* The defaults that `from` tells of these columns, by the server's own DEFAULT(). */
static void
ask_for_values(SourceConn *conn, const SourceTable *table, const bool *wanted, const char *from, SourceValue *defaults)
{
	const SourceColumn **asked = palloc(sizeof(SourceColumn *) * table->ncolumns);
	int		   *indexes = palloc(sizeof(int) * table->ncolumns);
	SourceValue *values = palloc(sizeof(SourceValue) * table->ncolumns);
	StringInfoData sql;
	SourceCursor *cursor;
	int			n = 0;

	initStringInfo(&sql);
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (!wanted[i])
			continue;
		appendStringInfo(&sql, "%sDEFAULT(%s)", n > 0 ? ", " : "SELECT ", capstan_wire_quote_identifier(table->columns[i].name));
		asked[n] = &table->columns[i];
		indexes[n++] = i;
	}
	if (n == 0)
		return;
	appendStringInfo(&sql, " FROM %s.%s %s", capstan_wire_quote_identifier(table->schema_name),
					 capstan_wire_quote_identifier(table->table_name), from);
	cursor = capstan_wire_open_cursor(conn, sql.data, asked, n);
	while (capstan_wire_fetch(cursor, values))
		for (int i = 0; i < n; i++)
			defaults[indexes[i]] = keep_value(&values[i]);
	capstan_wire_close_cursor(cursor);
}

SourceValue *
capstan_wire_column_defaults(SourceConn *conn, const SourceTable *table)
{
	SourceValue *defaults = palloc0(sizeof(SourceValue) * table->ncolumns);
	bool	   *nullable = palloc0(sizeof(bool) * table->ncolumns);
	bool	   *unknown = palloc0(sizeof(bool) * table->ncolumns);

	for (int i = 0; i < table->ncolumns; i++)
	{
		const SourceColumn *column = &table->columns[i];

		defaults[i].kind = VALUE_ABSENT;
		if (column->server_fills)
			continue;
		if (column->constant_default)
			nullable[i] = column->nullable; /* the others: see ask_for_texts */
		else if (column->nullable)
			defaults[i].kind = VALUE_NULL;
		else
			defaults[i] = implicit_default(column);
	}
	ask_for_texts(conn, table, defaults);
	/* a row that is not there still has its defaults, those that may be NULL; any row has all of them */
	ask_for_values(conn, table, nullable, "RIGHT JOIN (SELECT 1 AS one) AS one ON FALSE", defaults);
	for (int i = 0; i < table->ncolumns; i++)
		unknown[i] = table->columns[i].constant_default && defaults[i].kind == VALUE_ABSENT;
	ask_for_values(conn, table, unknown, "LIMIT 1", defaults);
	return defaults;
}
