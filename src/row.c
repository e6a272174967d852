/*
 * row.c
 *		Text about a source table: the type of a column, and the signature that
 *		tells whether a table is still the one that was captured.  See row.h.
 *
 * A signature is made on one side from information_schema and on the other from a
 * table map with FULL metadata, so it holds only what both know.  Not in it:
 * whether a column is generated, defaults, comments, secondary indexes, display widths,
 * the dimensions of a VECTOR, the SRID of a GEOMETRY.  In labels a character beyond the BMP is
 * written as "?", which is all that information_schema, in utf8mb3, shows of it.
 *
 *	   signature ::= column { ", " column } [ ", primary key (" name { ", " name } ")" [ " prefix" ] ]
 *	   column    ::= name " " type [ "('label', ...)" ] [ " collate " id ] [ " not null" ] [ " invisible" ]
 *
 * Names stand in "", labels in ''.  Bytes that are not printable ASCII are \xNN, in labels
 * always (their character set is the column's), in names only control characters.
 */
#include "row.h"

#include <string.h>

#include "base/collation.h"
#include "base/pages.h"

/* Shorter bytes are not worth the call; noted defaults, which are no producer's, are always shorter. */
#define FORGET_LENGTH (1024 * 1024)

static const char *
integer_name(SourceType type)
{
	switch (type)
	{
		case SOURCE_TINYINT:
			return "tinyint";
		case SOURCE_SMALLINT:
			return "smallint";
		case SOURCE_MEDIUMINT:
			return "mediumint";
		case SOURCE_INT:
			return "int";
		default:
			return "bigint";
	}
}

static const char *
size_prefix(uint8_t length_bytes)
{
	switch (length_bytes)
	{
		case 1:
			return "tiny";
		case 3:
			return "medium";
		case 4:
			return "long";
		default:
			return "";
	}
}

static void
append_temporal(const SourceColumn *column, const char *name, StrBuf *out)
{
	capstan_strbuf_append_str(out, name);
	if (column->scale > 0)
		capstan_strbuf_printf(out, "(%d)", column->scale);
}

void
capstan_source_column_type(const SourceColumn *column, StrBuf *out)
{
	const char *sign = column->is_unsigned ? " unsigned" : "";

	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			capstan_strbuf_printf(out, "%s%s", integer_name(column->type), sign);
			break;
		case SOURCE_DECIMAL:
			capstan_strbuf_printf(out, "decimal(%d,%d)%s", column->precision, column->scale, sign);
			break;
		case SOURCE_FLOAT:
			capstan_strbuf_printf(out, "float%s", sign);
			break;
		case SOURCE_DOUBLE:
			capstan_strbuf_printf(out, "double%s", sign);
			break;
		case SOURCE_BIT:
			capstan_strbuf_printf(out, "bit(%d)", column->precision);
			break;
		case SOURCE_DATE:
			capstan_strbuf_append_str(out, "date");
			break;
		case SOURCE_DATETIME:
			append_temporal(column, "datetime", out);
			break;
		case SOURCE_TIMESTAMP:
			append_temporal(column, "timestamp", out);
			break;
		case SOURCE_TIME:
			append_temporal(column, "time", out);
			break;
		case SOURCE_YEAR:
			capstan_strbuf_append_str(out, "year");
			break;
		case SOURCE_CHAR:
			capstan_strbuf_printf(out, "char(%u bytes)", column->octets);
			break;
		case SOURCE_VARCHAR:
			capstan_strbuf_printf(out, "varchar(%u bytes)", column->octets);
			break;
		case SOURCE_BINARY:
			capstan_strbuf_printf(out, "binary(%u)", column->octets);
			break;
		case SOURCE_VARBINARY:
			capstan_strbuf_printf(out, "varbinary(%u)", column->octets);
			break;
		case SOURCE_TEXT:
			capstan_strbuf_printf(out, "%stext", size_prefix(column->length_bytes));
			break;
		case SOURCE_BLOB:
			capstan_strbuf_printf(out, "%sblob", size_prefix(column->length_bytes));
			break;
		case SOURCE_ENUM:
			capstan_strbuf_append_str(out, "enum");
			break;
		case SOURCE_SET:
			capstan_strbuf_append_str(out, "set");
			break;
		case SOURCE_JSON:
			capstan_strbuf_append_str(out, "json");
			break;
		case SOURCE_GEOMETRY:
			capstan_strbuf_append_str(out, "geometry");
			break;
		case SOURCE_VECTOR:
			capstan_strbuf_append_str(out, "vector");
			break;
		case SOURCE_OTHER:
			capstan_strbuf_append_str(out, column->other_name != NULL ? column->other_name : "unknown type");
			break;
	}
}

/* The bytes between two `quote`s; what could end the text or is not printable is escaped. */
static void
append_quoted(StrBuf *out, const char *data, size_t length, char quote, bool ascii_only)
{
	capstan_strbuf_append_char(out, quote);
	for (size_t i = 0; i < length; i++)
	{
		unsigned char c = (unsigned char) data[i];

		if (c < 0x20 || c == 0x7f || c == '\\' || c == (unsigned char) quote || (ascii_only && c >= 0x80))
			capstan_strbuf_printf(out, "\\x%02x", c);
		else
			capstan_strbuf_append_char(out, (char) c);
	}
	capstan_strbuf_append_char(out, quote);
}

static void
append_name(StrBuf *out, const char *name)
{
	if (name != NULL)
		append_quoted(out, name, strlen(name), '"', false);
	else
		capstan_strbuf_append_char(out, '?');
}

/*
 * The bytes of the character at p, if it is beyond the BMP; else 0.  *step is how far the next character is, or in a
 * set whose bytes tell by themselves, at least one byte.
 */
static size_t
beyond_bmp(const char *charset, const unsigned char *p, size_t left, size_t *step)
{
	*step = 1;
	if (strcmp(charset, "utf8mb4") == 0)
		return p[0] >= 0xf0 && left >= 4 ? 4 : 0;
	if (strncmp(charset, "utf16", 5) == 0)
	{
		*step = 2;
		return left >= 4 && (p[charset[5] == '\0' ? 0 : 1] & 0xfc) == 0xd8 ? 4 : 0;
	}
	if (strcmp(charset, "utf32") == 0)
	{
		*step = 4;
		return left >= 4 && p[1] != 0 ? 4 : 0;
	}
	if (strcmp(charset, "gb18030") == 0 && p[0] >= 0x81)
	{
		*step = left >= 4 && p[1] >= 0x30 && p[1] <= 0x39 ? 4 : 2;
		return *step == 4 && p[0] >= 0x90 ? 4 : 0;
	}
	return 0;
}

static void
append_label(StrBuf *out, const SourceColumn *column, const SourceBytes *label)
{
	const char *charset = capstan_collation_charset(column->collation);
	StrBuf		folded;
	size_t		step;

	capstan_strbuf_init(&folded);
	for (size_t i = 0; i < label->length; i += step)
	{
		const char *p = label->data + i;
		size_t		left = label->length - i;
		size_t		length = charset != NULL ? beyond_bmp(charset, (const unsigned char *) p, left, &step) : 0;

		if (charset == NULL)
			step = left;
		if (length == 0)
			capstan_strbuf_append(&folded, p, step < left ? step : left);
		else if (strcmp(charset, "utf16") == 0)
			capstan_strbuf_append(&folded, "\0?", 2);
		else if (strcmp(charset, "utf16le") == 0)
			capstan_strbuf_append(&folded, "?\0", 2);
		else if (strcmp(charset, "utf32") == 0)
			capstan_strbuf_append(&folded, "\0\0\0?", 4);
		else
			capstan_strbuf_append_char(&folded, '?');
		if (length > 0)
			step = length;
	}
	append_quoted(out, folded.data != NULL ? folded.data : "", folded.length, '\'', true);
	capstan_strbuf_free(&folded);
}

static void
append_column(StrBuf *out, const SourceColumn *column)
{
	append_name(out, column->name);
	capstan_strbuf_append_char(out, ' ');
	capstan_source_column_type(column, out);
	if (column->type == SOURCE_ENUM || column->type == SOURCE_SET)
	{
		for (int i = 0; i < column->nlabels; i++)
		{
			capstan_strbuf_append_char(out, i == 0 ? '(' : ',');
			append_label(out, column, &column->labels[i]);
		}
		capstan_strbuf_append_char(out, ')');
	}
	switch (column->type)
	{
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
		case SOURCE_ENUM:
		case SOURCE_SET:
			capstan_strbuf_printf(out, " collate %u", column->collation);
			break;
		default:
			break;
	}
	if (!column->nullable)
		capstan_strbuf_append_str(out, " not null");
	if (column->invisible)
		capstan_strbuf_append_str(out, " invisible");
}

void
capstan_source_table_signature(const SourceTable *table, StrBuf *out)
{
	/* of a table whose columns the source does not show it is empty, and not nothing */
	capstan_strbuf_append(out, "", 0);
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (i > 0)
			capstan_strbuf_append_str(out, ", ");
		append_column(out, &table->columns[i]);
	}
	for (int i = 0; i < table->nkey; i++)
	{
		capstan_strbuf_append_str(out, i == 0 ? ", primary key (" : ", ");
		append_name(out, table->columns[table->key[i]].name);
	}
	if (table->nkey > 0)
		capstan_strbuf_append_str(out, table->key_has_prefix ? ") prefix" : ")");
}

void
capstan_source_table_shape(const SourceTable *table, StrBuf *out)
{
	capstan_strbuf_append(out, "", 0);
	for (int i = 0; i < table->ncolumns; i++)
	{
		const SourceColumn *column = &table->columns[i];

		if (i > 0)
			capstan_strbuf_append_str(out, ", ");
		capstan_source_column_type(column, out);
		if (column->type == SOURCE_CHAR || column->type == SOURCE_VARCHAR || column->type == SOURCE_TEXT)
			capstan_strbuf_printf(out, " collate %u", column->collation);
		if (!column->nullable)
			capstan_strbuf_append_str(out, " not null");
	}
}

bool
capstan_source_key_is_mixed(const SourceTable *table)
{
	for (int i = 1; table->key_descends != NULL && i < table->nkey; i++)
		if (table->key_descends[i] != table->key_descends[0])
			return true;
	return false;
}

bool
capstan_source_labels_are_told(const SourceColumn *column)
{
	for (int i = 0; i < column->nlabels; i++)
		if (column->labels[i].length > 0 && memchr(column->labels[i].data, '?', column->labels[i].length) != NULL)
			return false;
	return true;
}

void
capstan_source_values_forget(const SourceValue *values, int nvalues)
{
	for (int i = 0; i < nvalues; i++)
		if ((values[i].kind == VALUE_BYTES || values[i].kind == VALUE_JSON || values[i].kind == VALUE_JSON_BINARY) &&
			values[i].u.bytes.length >= FORGET_LENGTH)
			capstan_pages_forget(values[i].u.bytes.data, values[i].u.bytes.length);
}
