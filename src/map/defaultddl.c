/*
 * defaultddl.c
 *		DEFAULT clauses of the source as SQL.
 *
 * Called by objectmap.c.  A constant comes as information_schema shows it: its plain text, x'..' as 0x.., bits as b'..'.
 * What that text does not tell exactly is not translated: FLOAT is shown with six digits, TIMESTAMP in the time zone of whoever
 * created the table, and characters beyond the BMP as question marks.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "map/expression.h"
#include "map/objectmap.h"

static bool
is_number(const char *text)
{
	size_t		digits = strspn(text + (text[0] == '-'), "0123456789.eE+-");

	return digits > 0 && text[digits + (text[0] == '-')] == '\0';
}

/* CURRENT_TIMESTAMP without what is behind the column's digits: MySQL cuts it off, where Postgres would round. */
static char *
now_as(const SourceColumn *column, char **note)
{
	bool		local = column->type == SOURCE_DATETIME;
	const char *now = local ? "statement_timestamp()::timestamp" : "statement_timestamp()";

	if (local)
		*note = "the local time of the session's TimeZone, as it is that of the session's time_zone on the source";
	switch (column->scale)
	{
		case 0:
			return psprintf("date_trunc('second', %s)", now);
		case 3:
			return psprintf("date_trunc('milliseconds', %s)", now);
		case 6:
			return pstrdup(now);
		default:
			*note = psprintf("CURRENT_TIMESTAMP(%d) is not translated", column->scale);
			return NULL;
	}
}

/* "CURRENT_TIMESTAMP(3)", with as many digits as the column. */
static bool
is_now(const SourceColumn *column, const char *text)
{
	const char *tail = NULL;

	if (pg_strncasecmp(text, "CURRENT_TIMESTAMP", 17) == 0)
		tail = text + 17;
	else if (pg_strncasecmp(text, "now", 3) == 0)
		tail = text + 3;
	if (tail == NULL || (column->type != SOURCE_TIMESTAMP && column->type != SOURCE_DATETIME))
		return false;
	if (column->scale == 0)
		return tail[0] == '\0' || strcmp(tail, "()") == 0;
	return strcmp(tail, psprintf("(%d)", column->scale)) == 0;
}

/* CHAR never has blanks at its end. */
static char *
text_literal(const SourceColumn *column, const char *text)
{
	size_t		length = strlen(text);

	while (column->type == SOURCE_CHAR && length > 0 && text[length - 1] == ' ')
		length--;
	return quote_literal_cstr(pnstrdup(text, length));
}

static char *
expression_default(const SourceColumn *column, const char *text, char **note)
{
	ExprNode   *node;

	if (is_now(column, text))
		return now_as(column, note);
	if (column->type == SOURCE_DATE && strcmp(text, "curdate()") == 0)
	{
		*note = "the date in the session's TimeZone, as it is that of the session's time_zone on the source";
		return pstrdup("statement_timestamp()::date");
	}
	if (strcmp(text, "uuid()") == 0)
	{
		*note = "function uuid() is not translated: it makes version 1, gen_random_uuid() makes version 4";
		return NULL;
	}
	node = capstan_expression_constant(text, note);
	if (node == NULL)
		return NULL;
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			if (node->class == CLASS_INT)
				return node->sql;
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
			if (node->class == CLASS_STRING)
				return text_literal(column, node->string);
			break;
		default:
			break;
	}
	*note = psprintf("a default that is an expression with %s is not translated for this type", capstan_expression_class_name(node->class));
	return NULL;
}

/* "0x6162" to '\x6162'::bytea, padded to `length` bytes. */
static char *
bytes_default(const char *text, size_t length)
{
	StringInfoData out;
	size_t		digits = strlen(text);

	if (strncmp(text, "0x", 2) != 0 || digits % 2 != 0 || strspn(text + 2, "0123456789abcdefABCDEF") != digits - 2)
		return NULL;
	initStringInfo(&out);
	appendStringInfo(&out, "'\\x%s", text + 2);
	for (size_t given = digits / 2 - 1; given < length; given++)
		appendStringInfoString(&out, "00");
	appendStringInfoString(&out, "'::bytea");
	return out.data;
}

/* "b'101'" to B'0101' */
static char *
bits_default(const SourceColumn *column, const char *text)
{
	size_t		length = strlen(text);
	StringInfoData out;

	if (length < 4 || strncmp(text, "b'", 2) != 0 || text[length - 1] != '\'' || strspn(text + 2, "01") != length - 3 ||
		length - 3 > column->precision)
		return NULL;
	initStringInfo(&out);
	appendStringInfoString(&out, "B'");
	for (size_t i = length - 3; i < column->precision; i++)
		appendStringInfoChar(&out, '0');
	appendStringInfoString(&out, text + 2);
	return out.data;
}

/* A text without a question mark, which can stand for another character. */
static char *
text_default(const SourceColumn *column, const char *text, char **note)
{
	if (strchr(text, '?') == NULL)
		return text_literal(column, text);
	*note = "a question mark in information_schema can stand for another character";
	return NULL;
}

/* Has it a year, a month and a day? */
static bool
is_whole_date(const char *text)
{
	unsigned int year;
	unsigned int month;
	unsigned int day;

	return sscanf(text, "%4u-%2u-%2u", &year, &month, &day) == 3 && year > 0 && month > 0 && day > 0 &&
		strspn(text, "0123456789-:. ") == strlen(text);
}

static char *
constant_default(const SourceColumn *column, const char *text, char **note)
{
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
		case SOURCE_YEAR:
		case SOURCE_DECIMAL:
			return is_number(text) ? pstrdup(text) : NULL;
		case SOURCE_DOUBLE:
			return is_number(text) ? psprintf("'%s'::float8", text) : NULL;
		case SOURCE_FLOAT:
			if (strcmp(text, "0") == 0)
				return pstrdup(text);
			*note = "information_schema shows six digits of it, which need not be all";
			return NULL;
		case SOURCE_BIT:
			return bits_default(column, text);
		case SOURCE_BINARY:
			return bytes_default(text, column->octets);
		case SOURCE_VARBINARY:
			return bytes_default(text, 0);
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			if (is_whole_date(text))
				return psprintf("'%s'", text);
			*note = "it is no date";
			return NULL;
		case SOURCE_TIME:
			return strspn(text, "0123456789-:.") == strlen(text) ? psprintf("'%s'", text) : NULL;
		case SOURCE_TIMESTAMP:
			*note = "information_schema does not tell its time zone";
			return NULL;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_ENUM:
		case SOURCE_SET:
			return text_default(column, text, note);
		default:
			return NULL;
	}
}

char *
capstan_map_default(const SourceColumn *column, const char *text, bool is_expression, char **reason)
{
	char	   *sql;

	*reason = NULL;
	sql = is_expression ? expression_default(column, text, reason) : constant_default(column, text, reason);
	if (sql == NULL && *reason == NULL)
		*reason = "it is not understood";
	return sql;
}
