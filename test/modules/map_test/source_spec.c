/*
 * source_spec.c
 *		SourceTables and SourceValues written as text, for tests.
 *
 *		table	::= part { ";" part }
 *		part	::= "@prefix" | "@nonames" | "@streamed" | column
 *		column	::= name type { "unsigned" | "notnull" | "key" | "generated" | "collate=" name }
 *		name	::= word | "`" any but backquote "`"
 *		type	::= word [ "(" arguments ")" ]		as in MySQL; labels 'a' or x'e9'
 *
 *		value	::= "null" | "absent" | "int 5" | "uint 5" | "float 0x1p-3" | "double 0.1" | "decimal -1.50"
 *				  | "bits \x0a" | "bytes \x00ff" | "text abc" | "label 3" | "json {}" | "document \x0400" | "huge" | "hugejson"
 *				  | "datetime 2024-02-29 23:59:58.000001" | "timestamp 1000000" | "time -1" (microseconds)
 *
 * The table is called shop.t; its default collation is utf8mb4_0900_ai_ci.
 */
#include "postgres.h"

#include <math.h>

#include "lib/stringinfo.h"

#include "base/collation.h"
#include "source_spec.h"

#define MAX_COLUMNS 2000

static int
hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *found = strchr(digits, c);

	if (c == '\0' || found == NULL)
		elog(ERROR, "bad hex digit");
	return (int) (found - digits);
}

static SourceBytes
hex_bytes(const char *hex, size_t length)
{
	SourceBytes result;
	char	   *data = palloc(length / 2 + 1);

	for (size_t i = 0; i + 1 < length; i += 2)
		data[i / 2] = (char) (hex_digit(hex[i]) << 4 | hex_digit(hex[i + 1]));
	result.data = data;
	result.length = length / 2;
	return result;
}

/* ---- tables ---- */

static const char *
skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\n' || *p == '\t')
		p++;
	return p;
}

/* Up to a blank, a semicolon or an opening parenthesis. */
static char *
read_word(const char **p)
{
	const char *start = *p;

	if (*start == '`')
	{
		const char *end = strchr(start + 1, '`');

		if (end == NULL)
			elog(ERROR, "no closing backquote");
		*p = end + 1;
		return pnstrdup(start + 1, end - start - 1);
	}
	*p += strcspn(start, " \n\t;(");
	return pnstrdup(start, *p - start);
}

static void
read_labels(SourceColumn *column, const char *p, const char *end)
{
	column->labels = palloc0(sizeof(SourceBytes) * 70);
	while (p < end)
	{
		const char *quote = memchr(p, '\'', end - p);
		const char *close = quote != NULL ? memchr(quote + 1, '\'', end - quote - 1) : NULL;

		if (close == NULL)
			elog(ERROR, "bad label");
		if (*p == 'x')
			column->labels[column->nlabels++] = hex_bytes(quote + 1, close - quote - 1);
		else
		{
			column->labels[column->nlabels].data = pnstrdup(quote + 1, close - quote - 1);
			column->labels[column->nlabels++].length = close - quote - 1;
		}
		p = close + 1;
		if (p < end && *p == ',')
			p++;
	}
}

typedef struct TypeName
{
	const char *name;
	SourceType	type;
	int			length_bytes;
	bool		text;
} TypeName;

static const TypeName type_names[] = {
	{"tinyint", SOURCE_TINYINT, 0, false}, {"smallint", SOURCE_SMALLINT, 0, false},
	{"mediumint", SOURCE_MEDIUMINT, 0, false}, {"int", SOURCE_INT, 0, false}, {"bigint", SOURCE_BIGINT, 0, false},
	{"decimal", SOURCE_DECIMAL, 0, false}, {"float", SOURCE_FLOAT, 0, false}, {"double", SOURCE_DOUBLE, 0, false},
	{"bit", SOURCE_BIT, 0, false}, {"date", SOURCE_DATE, 0, false}, {"datetime", SOURCE_DATETIME, 0, false},
	{"timestamp", SOURCE_TIMESTAMP, 0, false}, {"time", SOURCE_TIME, 0, false}, {"year", SOURCE_YEAR, 0, false},
	{"char", SOURCE_CHAR, 0, true}, {"varchar", SOURCE_VARCHAR, 0, true},
	{"tinytext", SOURCE_TEXT, 1, true}, {"text", SOURCE_TEXT, 2, true}, {"mediumtext", SOURCE_TEXT, 3, true},
	{"longtext", SOURCE_TEXT, 4, true}, {"binary", SOURCE_BINARY, 0, false}, {"varbinary", SOURCE_VARBINARY, 0, false},
	{"blob", SOURCE_BLOB, 2, false}, {"longblob", SOURCE_BLOB, 4, false}, {"enum", SOURCE_ENUM, 0, true},
	{"set", SOURCE_SET, 0, true}, {"json", SOURCE_JSON, 4, false}, {"geometry", SOURCE_GEOMETRY, 4, false},
	{"vector", SOURCE_VECTOR, 4, false},
};

static void
set_type(SourceColumn *column, const char *word)
{
	column->type = SOURCE_OTHER;
	column->other_name = pstrdup(word);
	for (int i = 0; i < (int) lengthof(type_names); i++)
		if (strcmp(type_names[i].name, word) == 0)
		{
			column->type = type_names[i].type;
			column->length_bytes = type_names[i].length_bytes;
			column->collation = type_names[i].text ? capstan_collation_id("utf8mb4_0900_ai_ci") : 0;
			column->other_name = NULL;
		}
	if (column->type == SOURCE_BIT)
		column->precision = 1;
}

static void
set_arguments(SourceColumn *column, const char *arguments, const char *end)
{
	int			first = atoi(arguments);
	const char *comma = memchr(arguments, ',', end - arguments);

	switch (column->type)
	{
		case SOURCE_ENUM:
		case SOURCE_SET:
			read_labels(column, arguments, end);
			break;
		case SOURCE_DECIMAL:
			column->precision = first;
			column->scale = comma != NULL ? atoi(comma + 1) : 0;
			break;
		case SOURCE_BIT:
			column->precision = first;
			break;
		case SOURCE_FLOAT:
		case SOURCE_DOUBLE:
			column->fixed_point = comma != NULL;
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			column->octets = first;	/* made bytes when the collation is known */
			break;
		default:
			column->scale = first;
	}
}

static const char *
read_column(SourceTable *table, const char *p)
{
	SourceColumn *column = &table->columns[table->ncolumns];

	column->nullable = true;
	column->name = read_word(&p);
	p = skip_blanks(p);
	set_type(column, read_word(&p));
	if (*p == '(')
	{
		const char *end = strchr(p, ')');

		if (end == NULL)
			elog(ERROR, "no closing parenthesis");
		set_arguments(column, p + 1, end);
		p = end + 1;
	}
	for (p = skip_blanks(p); *p != '\0' && *p != ';'; p = skip_blanks(p))
	{
		char	   *word = read_word(&p);

		if (strcmp(word, "unsigned") == 0)
			column->is_unsigned = true;
		else if (strcmp(word, "notnull") == 0)
			column->nullable = false;
		else if (strcmp(word, "generated") == 0)
			column->generated = true;
		else if (strcmp(word, "key") == 0)
		{
			column->in_key = true;
			column->nullable = false;
			table->key[table->nkey++] = table->ncolumns;
		}
		else if (strncmp(word, "collate=", 8) == 0)
		{
			column->collation = capstan_collation_id(word + 8);
			if (column->collation == 0)
				column->collation = atoi(word + 8);
		}
		else
			elog(ERROR, "unknown word \"%s\"", word);
	}
	if (column->type == SOURCE_CHAR || column->type == SOURCE_VARCHAR)
		column->octets *= capstan_charset_max_bytes(capstan_collation_charset(column->collation));
	table->ncolumns++;
	return p;
}

SourceTable *
source_spec_table(const char *spec)
{
	SourceTable *table = palloc0(sizeof(SourceTable));
	const char *p = skip_blanks(spec);

	table->schema_name = pstrdup("shop");
	table->table_name = pstrdup("t");
	table->has_names = true;
	table->columns = palloc0(sizeof(SourceColumn) * MAX_COLUMNS);
	table->key = palloc0(sizeof(int) * MAX_COLUMNS);
	while (*p != '\0')
	{
		if (*p == '@')
		{
			char	   *word = read_word(&p);

			if (strcmp(word, "@prefix") == 0)
				table->key_has_prefix = true;
			else if (strcmp(word, "@nonames") == 0)
				table->has_names = false;
			else if (strcmp(word, "@streamed") == 0)
				table->table_id = 77;
			else
				elog(ERROR, "unknown word \"%s\"", word);
			p = skip_blanks(p);
		}
		else
			p = read_column(table, p);
		if (*p == ';')
			p = skip_blanks(p + 1);
	}
	if (!table->has_names)
		for (int i = 0; i < table->ncolumns; i++)
			table->columns[i].name = NULL;
	return table;
}

/* ---- values ---- */

static void
set_bytes(SourceValue *value, SourceValueKind kind, const char *text)
{
	value->kind = kind;
	if (strncmp(text, "\\x", 2) == 0)
		value->u.bytes = hex_bytes(text + 2, strlen(text + 2));
	else
	{
		value->u.bytes.data = text;
		value->u.bytes.length = strlen(text);
	}
}

static void
set_datetime(SourceValue *value, const char *text)
{
	int			year,
				month,
				day,
				hour = 0,
				minute = 0,
				second = 0,
				microsecond = 0;

	if (sscanf(text, "%d-%d-%d %d:%d:%d.%6d", &year, &month, &day, &hour, &minute, &second, &microsecond) < 3)
		elog(ERROR, "bad datetime");
	value->kind = VALUE_DATETIME;
	value->u.datetime.year = year;
	value->u.datetime.month = month;
	value->u.datetime.day = day;
	value->u.datetime.hour = hour;
	value->u.datetime.minute = minute;
	value->u.datetime.second = second;
	value->u.datetime.microsecond = microsecond;
}

void
source_spec_value(const char *text, SourceValue *value)
{
	const char *blank = strchr(text, ' ');
	char	   *kind = blank != NULL ? pnstrdup(text, blank - text) : pstrdup(text);
	const char *rest = blank != NULL ? blank + 1 : "";

	memset(value, 0x5A, sizeof(*value));	/* padding must not matter */
	if (strcmp(kind, "null") == 0)
		value->kind = VALUE_NULL;
	else if (strcmp(kind, "absent") == 0)
		value->kind = VALUE_ABSENT;
	else if (strcmp(kind, "int") == 0 || strcmp(kind, "timestamp") == 0 || strcmp(kind, "time") == 0)
	{
		value->kind = kind[0] == 'i' ? VALUE_INT : strcmp(kind, "time") == 0 ? VALUE_TIME : VALUE_TIMESTAMP;
		value->u.integer = strtoll(rest, NULL, 10);
	}
	else if (strcmp(kind, "uint") == 0 || strcmp(kind, "label") == 0)
	{
		value->kind = kind[0] == 'u' ? VALUE_UINT : VALUE_LABEL;
		value->u.uinteger = strtoull(rest, NULL, 10);
	}
	else if (strcmp(kind, "float") == 0)
	{
		value->kind = VALUE_FLOAT;
		value->u.real32 = strtof(rest, NULL);
	}
	else if (strcmp(kind, "double") == 0)
	{
		value->kind = VALUE_DOUBLE;
		value->u.real64 = strtod(rest, NULL);
	}
	else if (strcmp(kind, "decimal") == 0)
		set_bytes(value, VALUE_DECIMAL, rest);
	else if (strcmp(kind, "bits") == 0)
		set_bytes(value, VALUE_BITS, rest);
	else if (strcmp(kind, "bytes") == 0 || strcmp(kind, "text") == 0)
		set_bytes(value, VALUE_BYTES, rest);
	else if (strcmp(kind, "json") == 0)
	{
		value->kind = VALUE_JSON;
		value->u.bytes.data = rest;
		value->u.bytes.length = strlen(rest);
	}
	else if (strcmp(kind, "document") == 0)
		set_bytes(value, VALUE_JSON_BINARY, rest);
	else if (strcmp(kind, "huge") == 0 || strcmp(kind, "hugejson") == 0)
	{
		/* Says that it has a gigabyte and has not: to be refused before it is looked at. */
		value->kind = kind[4] == 'j' ? VALUE_JSON : VALUE_BYTES;
		value->u.bytes.data = rest;
		value->u.bytes.length = (size_t) 1 << 30;
	}
	else if (strcmp(kind, "datetime") == 0)
		set_datetime(value, rest);
	else
		elog(ERROR, "unknown kind \"%s\"", kind);
}
