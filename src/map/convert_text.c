/*
 * convert_text.c
 *		Converters of text, ENUM, SET and binary strings.
 *
 * Text arrives in the column's character set and leaves as utf-8; what is not valid, or has no
 * character, in its character set is an error.  Zero bytes, which Postgres' text cannot hold, fall under the
 * nul_bytes policy; in a key they are always an error, since without them two keys could be one.
 *
 * ENUM and SET come as a number with the labels of their table (VALUE_LABEL) or as the
 * label's text (VALUE_BYTES); both give the same Datum.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "compat.h"
#include "map/internal.h"

#define MAX_SET_LABELS 64
#define TOO_LONG "is longer than a Postgres value can be (1 GB)"
#define SHORTEN "Shorten the value on the source."

void
capstan_convert_count_nul(ColumnMap *map)
{
	if (map->table->policies.nul_bytes == NUL_BYTES_HALT)
		capstan_convert_fail(map, "has a zero byte (U+0000) and nul_bytes is halt",
							 "Set the pipeline's nul_bytes to strip or replace, or correct the value on the source.");
	if (map->in_key)
		capstan_convert_fail(map, "has a zero byte (U+0000) in the primary key, where no substitute is safe",
							 "Correct the value on the source.");
	map->table->nul_bytes_applied++;
}

static text *
without_nuls(ColumnMap *map, const text *input)
{
	const char *in = VARDATA_ANY(input);
	size_t		length = VARSIZE_ANY_EXHDR(input);
	size_t		nuls = 0;
	bool		replace = map->table->policies.nul_bytes == NUL_BYTES_REPLACE;
	size_t		size;
	text	   *result;
	char	   *out;

	capstan_convert_count_nul(map);
	for (size_t i = 0; i < length; i++)
		nuls += in[i] == '\0';
	size = length - nuls + (replace ? 3 * nuls : 0);
	if (size > MAX_VARLENA_DATA)
		capstan_convert_fail(map, TOO_LONG, SHORTEN);

	result = (text *) palloc(VARHDRSZ + size);
	SET_VARSIZE(result, VARHDRSZ + size);
	out = VARDATA(result);
	for (size_t i = 0; i < length; i++)
	{
		if (in[i] != '\0')
			*out++ = in[i];
		else if (replace)
		{
			memcpy(out, "\xEF\xBF\xBD", 3);
			out += 3;
		}
	}
	return result;
}

static text *
text_of_bytes(ColumnMap *map, const SourceBytes *bytes)
{
	TextFault	fault;
	const CharsetConverter *charset = column_private(map)->charset;
	text	   *result;

	result = capstan_charset_to_text(charset, bytes->data, bytes->length, &fault);
	switch (fault)
	{
		case TEXT_OK:
			if (map->in_key && capstan_charset_has_second_code(charset, bytes->data, bytes->length))
				capstan_convert_fail(map, "has, in the primary key, a character by the second of its two codes, so that two keys could become one",
									 "Write the value again on the source by a client of character set utf8mb4, or convert the column to utf8mb4 there.");
			break;
		case TEXT_HAS_NUL:
			return without_nuls(map, result);
		case TEXT_INVALID:
			capstan_convert_fail(map, "has bytes that are not valid, or no character, in the column's character set",
								 "Correct the value on the source.");
		case TEXT_TOO_LONG:
			capstan_convert_fail(map, TOO_LONG, SHORTEN);
	}
	return result;
}

Datum
capstan_convert_text(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_BYTES)
		capstan_convert_wrong_kind(map, value);
	if (map->source->octets > 0 && value->u.bytes.length > map->source->octets)
		capstan_convert_fail(map, "is longer than declared", NULL);
	return PointerGetDatum(text_of_bytes(map, &value->u.bytes));
}

static Datum
copy_text(const text *input)
{
	return PointerGetDatum(cstring_to_text_with_len(VARDATA_ANY(input), VARSIZE_ANY_EXHDR(input)));
}

/* 0 is the error value ''; i is label i. */
static int
enum_index(const ColumnMap *map, const SourceValue *value)
{
	if (value->u.uinteger > (uint64) map->source->nlabels)
		capstan_convert_fail(map, "is the number of a label that the column does not have", NULL);
	return (int) value->u.uinteger;
}

Datum
capstan_convert_enum_text(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int			index;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_BYTES)
		return PointerGetDatum(text_of_bytes(map, &value->u.bytes));
	if (value->kind != VALUE_LABEL)
		capstan_convert_wrong_kind(map, value);
	index = enum_index(map, value);
	if (index == 0)
		return PointerGetDatum(cstring_to_text_with_len("", 0));
	return copy_text(column_private(map)->label_texts[index - 1]);
}

/* The number of the label with these bytes; -1 if there is none. */
static int
find_label(const SourceColumn *column, const char *data, size_t length)
{
	for (int i = 0; i < column->nlabels; i++)
		if (column->labels[i].length == length &&
			(length == 0 || memcmp(column->labels[i].data, data, length) == 0))
			return i + 1;
	return length == 0 ? 0 : -1;
}

Datum
capstan_convert_enum(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int			index;
	Oid			oid;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_BYTES)
		index = find_label(map->source, value->u.bytes.data, value->u.bytes.length);
	else if (value->kind == VALUE_LABEL)
		index = enum_index(map, value);
	else
		capstan_convert_wrong_kind(map, value);
	if (index < 0)
		capstan_convert_fail(map, "is a label that the column does not have", NULL);
	oid = column_private(map)->label_oids[index];
	if (!OidIsValid(oid))
		capstan_convert_fail(map, "is MySQL's error value '', which the target's enum type does not have",
							 "Add the label '' to the enum type, use text for the target column, or correct the value on the source.");
	return ObjectIdGetDatum(oid);
}

static uint64
set_mask(const ColumnMap *map, const SourceValue *value)
{
	int			nlabels = map->source->nlabels;

	if (value->kind != VALUE_LABEL)
		capstan_convert_wrong_kind(map, value);
	if (nlabels < 64 && (value->u.uinteger >> nlabels) != 0)
		capstan_convert_fail(map, "has the bit of a label that the column does not have", NULL);
	return value->u.uinteger;
}

Datum
capstan_convert_set_text(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	text	  **labels = column_private(map)->label_texts;
	uint64		mask;
	size_t		size = 0;
	text	   *result;
	char	   *out;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_BYTES)
		return PointerGetDatum(text_of_bytes(map, &value->u.bytes));
	mask = set_mask(map, value);

	/* As MySQL writes it: a comma before a label where something stands already, which the label '' is not. */
	for (int i = 0; i < map->source->nlabels; i++)
		if (mask & (UINT64CONST(1) << i))
			size += VARSIZE_ANY_EXHDR(labels[i]) + (size > 0);
	result = (text *) palloc(VARHDRSZ + size);
	SET_VARSIZE(result, VARHDRSZ + size);
	out = VARDATA(result);
	for (int i = 0; i < map->source->nlabels; i++)
	{
		size_t		length = VARSIZE_ANY_EXHDR(labels[i]);

		if ((mask & (UINT64CONST(1) << i)) == 0)
			continue;
		if (out > VARDATA(result))
			*out++ = ',';
		memcpy(out, VARDATA_ANY(labels[i]), length);
		out += length;
	}
	return PointerGetDatum(result);
}

/*
 * The labels of a text form, each in the column's character set; MySQL joins them by a comma,
 * which no label contains.  Once as utf-8, the comma is one byte whatever the character set.
 */
static int
split_set(const ColumnMap *map, text *joined, Datum *elements)
{
	const char *start = VARDATA_ANY(joined);
	const char *end = start + VARSIZE_ANY_EXHDR(joined);
	int			n = 0;

	while (start < end)
	{
		const char *comma = memchr(start, ',', end - start);
		const char *stop = comma != NULL ? comma : end;

		if (n >= map->source->nlabels)
			capstan_convert_fail(map, "has more labels than the column", NULL);
		elements[n++] = PointerGetDatum(cstring_to_text_with_len(start, stop - start));
		start = stop + 1;
	}
	return n;
}

/* Text arrays are only accepted for a SET without the label '' (typemap.c): nothing is ambiguous here. */
Datum
capstan_convert_set_array(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	Datum		elements[MAX_SET_LABELS];
	int			n = 0;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_BYTES)
		n = split_set(map, text_of_bytes(map, &value->u.bytes), elements);
	else
	{
		uint64		mask = set_mask(map, value);

		for (int i = 0; i < map->source->nlabels; i++)
			if (mask & (UINT64CONST(1) << i))
				elements[n++] = PointerGetDatum(column_private(map)->label_texts[i]);
	}
	return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum
capstan_convert_bytea(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	const SourceBytes *bytes = &value->u.bytes;
	bytea	   *result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_BYTES)
		capstan_convert_wrong_kind(map, value);
	if (bytes->length > MAX_VARLENA_DATA)
		capstan_convert_fail(map, TOO_LONG, SHORTEN);
	if (map->source->type == SOURCE_BINARY ? bytes->length != map->source->octets :
		map->source->type == SOURCE_VARBINARY && bytes->length > map->source->octets)
		capstan_convert_fail(map, "has not the declared length", NULL);
	result = (bytea *) palloc(VARHDRSZ + bytes->length);
	SET_VARSIZE(result, VARHDRSZ + bytes->length);
	if (bytes->length > 0)
		memcpy(VARDATA(result), bytes->data, bytes->length);
	return PointerGetDatum(result);
}

Datum
capstan_convert_uuid(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	pg_uuid_t  *result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_BYTES)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length != UUID_LEN)
		capstan_convert_fail(map, "has not 16 bytes", NULL);
	result = (pg_uuid_t *) palloc(sizeof(pg_uuid_t));
	memcpy(result->data, value->u.bytes.data, UUID_LEN);
	return UUIDPGetDatum(result);
}
