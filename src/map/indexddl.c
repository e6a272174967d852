/*
 * indexddl.c
 *		Indexes and unique keys of the source as statements of Postgres.
 *
 * Called by objectmap.c.  An index that is not unique means speed only, so it may differ in detail.  A unique one must never refuse
 * a row that the source has: the stream would halt.  It may accept more: by a collation that ignores case 'a' and 'A' are one
 * there and two here, which the note says.
 *
 * A btree index holds no keys beyond a third of a page, about 2,700 bytes; a row with a larger one could not be written any
 * more.  An index whose keys can be larger by the types of its columns is left to the user, who knows the values.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "base/collation.h"
#include "map/charset.h"
#include "map/objectbuild.h"

/* Of the 2704 bytes of an 8 kB page's third some go to headers and alignment. */
#define MAX_KEY_BYTES 2600
/* For each column: length word and alignment. */
#define COLUMN_OVERHEAD 12

static const char *
charset_of(const SourceColumn *column)
{
	const char *charset = capstan_collation_charset(column->collation);

	return charset != NULL ? charset : "";
}

/* Bytes of a character of this column in utf-8. */
static uint32
character_bytes(const SourceColumn *column)
{
	const char *charset = charset_of(column);

	if (strcmp(charset, "ascii") == 0)
		return 1;
	/* without characters beyond the BMP */
	return capstan_charset_max_bytes(charset) <= 3 ? 3 : 4;
}

/* Most bytes of the first `prefix` characters (0: all) of a value. */
static uint64
key_bytes(const SourceColumn *column, uint32 prefix)
{
	uint64		most = 16;

	switch (column->type)
	{
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
			most = (uint64) capstan_typemap_characters(column) * character_bytes(column);
			break;
		case SOURCE_TEXT:
			/* a byte of some character sets is a character of three bytes in utf-8 */
			most = 3 * ((UINT64CONST(1) << (8 * column->length_bytes)) - 1);
			break;
		case SOURCE_BLOB:
			most = (UINT64CONST(1) << (8 * column->length_bytes)) - 1;
			break;
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			most = column->octets;
			break;
		case SOURCE_ENUM:
		case SOURCE_SET:
			most = 0;
			for (int i = 0; i < column->nlabels; i++)
			{
				/* labels of a character set of one byte a character can become three */
				uint64		bytes = column->labels[i].length * 3;

				most = column->type == SOURCE_SET ? most + bytes + 1 : Max(most, bytes);
			}
			break;
		case SOURCE_DECIMAL:
			most = column->precision;
			break;
		default:
			break;
	}
	if (prefix > 0 && capstan_typemap_has_charset(column))
		return Min(most, (uint64) prefix * character_bytes(column));
	return prefix > 0 ? Min(most, prefix) : most;
}

static uint64
index_bytes(const SourceTable *source, const SourceIndex *index, bool with_prefixes)
{
	uint64		sum = 0;

	for (int i = 0; i < index->nparts; i++)
		sum += COLUMN_OVERHEAD + key_bytes(&source->columns[index->parts[i].column], with_prefixes ? index->parts[i].prefix : 0);
	return sum;
}

static bool
has_prefix(const SourceIndex *index)
{
	for (int i = 0; i < index->nparts; i++)
		if (index->parts[i].prefix > 0)
			return true;
	return false;
}

static bool
has_empty_label(const SourceColumn *column)
{
	for (int i = 0; i < column->nlabels; i++)
		if (column->labels[i].length == 0)
			return true;
	return false;
}

/* Can two values that the source tells apart be one here?  Then why. */
static const char *
can_coincide(const SourceColumn *column, MapPolicies policies)
{
	bool		text = capstan_typemap_has_charset(column);
	const CharsetConverter *converter = text ? capstan_charset_converter(charset_of(column)) : NULL;

	if (text && (converter == NULL || converter->nsecond > 0))
		return "two codes of its character set are one character here";
	if (text && policies.nul_bytes != NUL_BYTES_HALT)
		return "zero bytes of texts are not kept here";
	if ((column->type == SOURCE_ENUM || column->type == SOURCE_SET) && has_empty_label(column))
		return "its label '' is the same text here as no label";
	if ((column->type == SOURCE_DATE || column->type == SOURCE_DATETIME) && policies.zero_dates == ZERO_DATES_INFINITY)
		return "all zero dates are one here";
	return NULL;
}

bool
object_compares_alike(const SourceColumn *column)
{
	if (column->type == SOURCE_ENUM || column->type == SOURCE_SET)
		return false;
	return !capstan_typemap_has_charset(column) || strcmp(capstan_collation_name(column->collation), "utf8mb4_0900_bin") == 0;
}

/* Why a unique key would be stricter here than on the source; NULL: it is not. */
static char *
stricter(const SourceTable *source, const SourceIndex *index, MapPolicies policies)
{
	for (int i = 0; i < index->nparts; i++)
	{
		const SourceColumn *column = &source->columns[index->parts[i].column];
		const char *why = can_coincide(column, policies);

		if (why != NULL)
			return psprintf("values of column \"%s\" that differ on the source can be equal here: %s", column->name, why);
	}
	return NULL;
}

static bool
is_kind_without_btree(const SourceColumn *column)
{
	return column->type == SOURCE_JSON || column->type == SOURCE_GEOMETRY || column->type == SOURCE_VECTOR || column->type == SOURCE_OTHER;
}

/* As the source would write it. */
static char *
source_definition(const SourceTable *source, const SourceIndex *index)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "%s(", strcmp(index->type, "FULLTEXT") == 0 ? "FULLTEXT KEY " : strcmp(index->type, "SPATIAL") == 0 ?
					 "SPATIAL KEY " : index->unique ? "UNIQUE KEY " : "KEY ");
	for (int i = 0; i < index->nparts; i++)
	{
		const SourceIndexPart *part = &index->parts[i];

		appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", part->column >= 0 ? source->columns[part->column].name : index->expression);
		if (part->prefix > 0 && strcmp(index->type, "SPATIAL") != 0)
			appendStringInfo(&out, "(%u)", part->prefix);
		if (part->descending)
			appendStringInfoString(&out, " DESC");
	}
	appendStringInfoString(&out, index->invisible ? ") INVISIBLE" : ")");
	return out.data;
}

static void
append_part(StringInfo out, const SourceColumn *column, const SourceIndexPart *part, bool with_prefix)
{
	char	   *name = object_quote(column->name);

	if (!with_prefix || part->prefix == 0)
		appendStringInfoString(out, name);
	else if (capstan_typemap_has_charset(column))
		appendStringInfo(out, "\"left\"(%s, %u)", name, part->prefix);
	else
		appendStringInfo(out, "\"substring\"(%s, 1, %u)", name, part->prefix);
	if (part->descending)
		appendStringInfoString(out, " DESC");
}

static char *
statement(ObjectBuild *build, TargetObject *object, const SourceIndex *index, const char *method, bool with_prefixes)
{
	const ObjectTable *owner = &build->tables[object->table];
	StringInfoData out;

	object->target_object = object_relation_name(build, object->table, psprintf("%s_%s", owner->target_table, index->name));
	initStringInfo(&out);
	appendStringInfo(&out, "CREATE %sINDEX %s ON %%1$s USING %s (", index->unique ? "UNIQUE " : "",
					 object_quote(object->target_object), method);
	for (int i = 0; i < index->nparts; i++)
	{
		if (i > 0)
			appendStringInfoString(&out, ", ");
		append_part(&out, &owner->source->columns[index->parts[i].column], &index->parts[i], with_prefixes);
	}
	appendStringInfoChar(&out, ')');
	return out.data;
}

static void
add_spatial(ObjectBuild *build, TargetObject *object, const SourceIndex *index)
{
	const SourceColumn *column = &build->tables[object->table].source->columns[index->parts[0].column];

	if (strcmp(capstan_map_default_type(column), "bytea") == 0)
		object_refuse(object, "a spatial index needs the type of PostGIS");
	else
		object->statement = statement(build, object, index, "gist", false);
}

static void
add_btree(ObjectBuild *build, TargetObject *object, const SourceIndex *index)
{
	const SourceTable *source = build->tables[object->table].source;
	bool		whole_fits = index_bytes(source, index, false) <= MAX_KEY_BYTES;
	bool		fits = index_bytes(source, index, true) <= MAX_KEY_BYTES;
	bool		with_prefixes = has_prefix(index) && (index->unique || !whole_fits);
	char	   *note = index->unique ? stricter(source, index, build->policies) : NULL;

	object->statement = statement(build, object, index, "btree", with_prefixes);
	if (note != NULL)
		object_leave(object, note);
	else if (!fits || (!whole_fits && !with_prefixes))
		object_leave(object, psprintf("by their types its keys can be larger than the %d bytes that fit into an index, and a row with a larger one "
									  "could not be written; create it if your values are shorter", MAX_KEY_BYTES));
	else if (with_prefixes && !index->unique)
		object_leave(object, "an index of prefixes serves queries that compare the same expression only");
	else if (has_prefix(index) && !index->unique)
		object->note = "of whole values instead of prefixes";
	else if (index->invisible)
		object->note = "invisible on the source";
	for (int i = 0; i < index->nparts && index->unique && object->note == NULL; i++)
		if (capstan_typemap_has_charset(&source->columns[index->parts[i].column]) &&
			!object_compares_alike(&source->columns[index->parts[i].column]))
			object->note = "texts that the source's collation takes for equal are different here";
}

void
object_add_index(ObjectBuild *build, int table, const SourceIndex *index)
{
	const SourceTable *source = build->tables[table].source;
	TargetObject *object = object_add(build, table, index->unique ? "unique" : "index", index->name, source_definition(source, index));

	if (strcmp(index->type, "FULLTEXT") == 0)
	{
		object_refuse(object, "PostgreSQL searches texts in another way: see GIN indexes on to_tsvector()");
		return;
	}
	for (int i = 0; i < index->nparts; i++)
		if (index->parts[i].column < 0)
		{
			object_refuse(object, "an index on an expression is not translated");
			return;
		}
	if (strcmp(index->type, "SPATIAL") == 0)
	{
		add_spatial(build, object, index);
		return;
	}
	for (int i = 0; i < index->nparts; i++)
		if (is_kind_without_btree(&source->columns[index->parts[i].column]))
		{
			object_refuse(object, "the type of one of its columns has no order here");
			return;
		}
	add_btree(build, object, index);
}

/* The same columns, in whatever order? */
static bool
same_columns(const int *a, int na, const int *b, int nb)
{
	if (na != nb)
		return false;
	for (int i = 0; i < na; i++)
	{
		bool		found = false;

		for (int j = 0; j < nb; j++)
			if (a[i] == b[j])
				found = true;
		if (!found)
			return false;
	}
	return true;
}

bool
object_is_unique(const ObjectTable *table, const int *columns, int ncolumns, MapPolicies policies)
{
	const SourceTable *source = table->source;

	if (!source->key_has_prefix && same_columns(source->key, source->nkey, columns, ncolumns))
		return true;
	for (int i = 0; i < table->objects->nindexes; i++)
	{
		const SourceIndex *index = &table->objects->indexes[i];
		int			of_index[SOURCE_MAX_PARTS];
		bool		plain = index->unique && strcmp(index->type, "FULLTEXT") != 0;

		for (int k = 0; k < index->nparts; k++)
		{
			of_index[k] = index->parts[k].column;
			plain = plain && of_index[k] >= 0 && index->parts[k].prefix == 0 && !is_kind_without_btree(&source->columns[of_index[k]]);
		}
		if (plain && same_columns(of_index, index->nparts, columns, ncolumns) &&
			stricter(source, index, policies) == NULL && index_bytes(source, index, false) <= MAX_KEY_BYTES)
			return true;
	}
	return false;
}
