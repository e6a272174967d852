/*
 * complaints.c
 *		Complaints, and those that need no target: types and character sets without a
 *		converter, names that Postgres cannot keep.
 *
 * A complaint is a sentence or two for the operator: what is wrong, and what mends it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/heap.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"

#include "base/collation.h"
#include "map/internal.h"

/* Appends the formatted text; the arguments are used up, so another turn needs a copy of them. */
static pg_attribute_printf(1, 0) char *
format_complaint(const char *format, va_list args)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (;;)
	{
		va_list		again;
		int			needed;

		va_copy(again, args);
		needed = appendStringInfoVA(&buf, format, again);
		va_end(again);
		if (needed == 0)
			return buf.data;
		enlargeStringInfo(&buf, needed);
	}
}

void
capstan_map_complain_source(Complaints *complaints, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	complaints->texts = lappend(complaints->texts, format_complaint(format, args));
	va_end(args);
	complaints->nsource++;
}

void
capstan_map_complain_target(Complaints *complaints, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	complaints->texts = lappend(complaints->texts, format_complaint(format, args));
	va_end(args);
}

char *
capstan_map_join_complaints(const List *texts)
{
	StringInfoData buf;
	ListCell   *cell;

	initStringInfo(&buf);
	foreach(cell, texts)
	{
		if (buf.len > 0)
			appendStringInfoChar(&buf, '\n');
		appendStringInfoString(&buf, (const char *) lfirst(cell));
	}
	return buf.data;
}

static void
check_name_length(Complaints *complaints, const char *what, const char *name)
{
	if (strlen(name) >= NAMEDATALEN)
		capstan_map_complain_source(complaints,
									"The name of %s \"%s\" is longer than %d bytes, which is all that Postgres keeps of a name. Rename it on the source, or leave the table out.",
									what, name, NAMEDATALEN - 1);
	if (!capstan_charset_is_utf8(name, strlen(name)))
		capstan_map_complain_source(complaints, "The name of %s \"%s\" is not valid utf-8.", what, name);
}

/* What is left of a name in 63 bytes, without half characters. */
static int
kept_bytes(const char *name)
{
	int			length = (int) strlen(name);

	return length < NAMEDATALEN ? length : pg_encoding_mbcliplen(PG_UTF8, name, length, NAMEDATALEN - 1);
}

static void
check_column_names(Complaints *complaints, const SourceTable *source)
{
	for (int i = 0; i < source->ncolumns; i++)
	{
		const char *name = source->columns[i].name;

		check_name_length(complaints, "column", name);
		if (SystemAttributeByName(name) != NULL)
			capstan_map_complain_source(complaints,
										"Column \"%s\" has the name of a system column of Postgres. Rename it on the source, or leave the table out.",
										name);
		for (int j = 0; strlen(name) >= NAMEDATALEN && j < source->ncolumns; j++)
		{
			const char *other = source->columns[j].name;
			int			length = kept_bytes(name);

			/* Of two long names, the first one reports. */
			if (j != i && (strlen(other) < NAMEDATALEN || i < j) &&
				kept_bytes(other) == length && memcmp(name, other, length) == 0)
				capstan_map_complain_source(complaints,
											"Columns \"%s\" and \"%s\" have the same name in the first %d bytes.",
											name, other, NAMEDATALEN - 1);
		}
	}
}

static void
check_labels(Complaints *complaints, const SourceColumn *column, const CharsetConverter *converter)
{
	for (int i = 0; i < column->nlabels; i++)
	{
		TextFault	fault;

		if (column->in_key && column->labels[i].length == 0)
			capstan_map_complain_source(complaints,
										"Column \"%s\" of the primary key has the label '', which cannot be told from MySQL's error value and the empty set. Remove the label, or leave the table out.",
										column->name);
		(void) capstan_charset_to_text(converter, column->labels[i].data, column->labels[i].length, &fault);
		if (fault != TEXT_OK)
			capstan_map_complain_source(complaints,
										"Label %d of column \"%s\" has a zero byte or bytes that are not valid, or no character, in its character set.",
										i + 1, column->name);
		else if (column->in_key &&
				 capstan_charset_has_second_code(converter, column->labels[i].data, column->labels[i].length))
			capstan_map_complain_source(complaints,
										"Label %d of column \"%s\" of the primary key has a character by the second of its two codes, so that two labels could become one. Change the column to utf8mb4 on the source, or leave the table out.",
										i + 1, column->name);
	}
}

static void
check_charset(Complaints *complaints, const SourceColumn *column)
{
	const char *charset = capstan_collation_charset(column->collation);
	const CharsetConverter *converter = charset != NULL ? capstan_charset_converter(charset) : NULL;

	if (charset == NULL)
		capstan_map_complain_source(complaints, "Column \"%s\" has the collation with id %u, which is not known.",
									column->name, column->collation);
	else if (converter == NULL)
		capstan_map_complain_source(complaints,
									"There is no converter for character set %s of column \"%s\". Change the column to utf8mb4 on the source, or leave the table out.",
									charset, column->name);
	else
		check_labels(complaints, column, converter);
}

void
capstan_map_check_source(Complaints *complaints, const SourceTable *source)
{
	if (!source->has_names)
	{
		capstan_map_complain_source(complaints,
									"The table map has no column names. Set binlog_row_metadata = FULL on the source.");
		return;
	}
	if (GetDatabaseEncoding() != PG_UTF8)
		capstan_map_complain_target(complaints,
									"The database's encoding is %s; text is converted to UTF8 only. Use a database with encoding UTF8.",
									GetDatabaseEncodingName());
	if (source->ncolumns > MaxHeapAttributeNumber)
		capstan_map_complain_source(complaints, "The table has %d columns; a table of Postgres has at most %d.",
									source->ncolumns, MaxHeapAttributeNumber);
	check_column_names(complaints, source);
	for (int i = 0; i < source->ncolumns; i++)
	{
		const SourceColumn *column = &source->columns[i];

		if (capstan_map_default_type(column) == NULL)
			capstan_map_complain_source(complaints,
										"There is no converter for column \"%s\" of type %s. Change the column's type on the source, or leave the table out.",
										column->name, capstan_typemap_source_type(column));
		else if (capstan_typemap_has_charset(column))
			check_charset(complaints, column);
	}
}

List *
capstan_map_source_complaints(const SourceTable *source)
{
	Complaints	complaints = {0};

	check_name_length(&complaints, "schema", source->schema_name);
	check_name_length(&complaints, "table", source->table_name);
	capstan_map_check_source(&complaints, source);
	return complaints.texts;
}
