/*
 * typemap.c
 *		Which source types become which Postgres types.
 *
 * One table, the first pair of a source type being its default.  doc/types.md says the same in
 * words; test/bin/check-types compares the two.
 *
 * A pair is accepted when the target can hold every value of the source, with these exceptions
 * that check each value: an unsigned integer to the signed one of its size, 0/1 to boolean,
 * BIT(64) to bigint, TIME to time, ENUM's error value to an enum type.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/collation.h"
#include "compat.h"
#include "map/internal.h"

/* Most characters of a varchar(n): MaxAttrSize of htup_details.h. */
#define MAX_VARCHAR 10485760

/* Targets without a fixed oid. */
#define ANY_ENUM ANYENUMOID
#define CITEXT ((Oid) 1)
#define GEOMETRY ((Oid) 2)		/* of PostGIS */
#define VECTOR ((Oid) 3)		/* of pgvector */

typedef enum Sign
{
	ANY_SIGN,
	SIGNED,
	UNSIGNED
} Sign;

struct TypePair
{
	SourceType	source;
	Sign		sign;
	Oid			target;
	ColumnConvert convert;
	PairCheck	check;			/* NULL: fits always */
};

static char *fits_numeric(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *fits_bit(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *is_one_bit(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *fits_fraction(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *fits_interval(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *fits_characters(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *is_sixteen_bytes(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *has_labels(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *no_empty_label(const SourceColumn *column, Oid basetypid, int32 typmod);
static char *fits_geometry(const SourceColumn *column, Oid basetypid, int32 typmod);

static const TypePair pairs[] = {
	{SOURCE_TINYINT, ANY_SIGN, INT2OID, capstan_convert_int2, NULL},
	{SOURCE_TINYINT, ANY_SIGN, INT4OID, capstan_convert_int4, NULL},
	{SOURCE_TINYINT, ANY_SIGN, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_TINYINT, ANY_SIGN, NUMERICOID, capstan_convert_int_numeric, fits_numeric},
	{SOURCE_TINYINT, ANY_SIGN, BOOLOID, capstan_convert_int_bool, NULL},

	{SOURCE_SMALLINT, SIGNED, INT2OID, capstan_convert_int2, NULL},
	{SOURCE_SMALLINT, SIGNED, INT4OID, capstan_convert_int4, NULL},
	{SOURCE_SMALLINT, SIGNED, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_SMALLINT, SIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},
	{SOURCE_SMALLINT, SIGNED, BOOLOID, capstan_convert_int_bool, NULL},

	{SOURCE_SMALLINT, UNSIGNED, INT4OID, capstan_convert_int4, NULL},
	{SOURCE_SMALLINT, UNSIGNED, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_SMALLINT, UNSIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},
	{SOURCE_SMALLINT, UNSIGNED, INT2OID, capstan_convert_int2, NULL},
	{SOURCE_SMALLINT, UNSIGNED, BOOLOID, capstan_convert_int_bool, NULL},

	{SOURCE_MEDIUMINT, ANY_SIGN, INT4OID, capstan_convert_int4, NULL},
	{SOURCE_MEDIUMINT, ANY_SIGN, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_MEDIUMINT, ANY_SIGN, NUMERICOID, capstan_convert_int_numeric, fits_numeric},

	{SOURCE_INT, SIGNED, INT4OID, capstan_convert_int4, NULL},
	{SOURCE_INT, SIGNED, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_INT, SIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},

	{SOURCE_INT, UNSIGNED, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_INT, UNSIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},
	{SOURCE_INT, UNSIGNED, INT4OID, capstan_convert_int4, NULL},

	{SOURCE_BIGINT, SIGNED, INT8OID, capstan_convert_int8, NULL},
	{SOURCE_BIGINT, SIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},

	{SOURCE_BIGINT, UNSIGNED, NUMERICOID, capstan_convert_int_numeric, fits_numeric},
	{SOURCE_BIGINT, UNSIGNED, INT8OID, capstan_convert_int8, NULL},

	{SOURCE_DECIMAL, ANY_SIGN, NUMERICOID, capstan_convert_decimal, fits_numeric},
	{SOURCE_FLOAT, ANY_SIGN, FLOAT4OID, capstan_convert_float4, NULL},
	{SOURCE_DOUBLE, ANY_SIGN, FLOAT8OID, capstan_convert_float8, NULL},

	{SOURCE_BIT, ANY_SIGN, BITOID, capstan_convert_bit, fits_bit},
	{SOURCE_BIT, ANY_SIGN, BOOLOID, capstan_convert_bit_bool, is_one_bit},
	{SOURCE_BIT, ANY_SIGN, BYTEAOID, capstan_convert_bit_bytea, NULL},
	{SOURCE_BIT, ANY_SIGN, INT8OID, capstan_convert_bit_int8, NULL},

	{SOURCE_DATE, ANY_SIGN, DATEOID, capstan_convert_date, NULL},
	{SOURCE_DATETIME, ANY_SIGN, TIMESTAMPOID, capstan_convert_datetime, fits_fraction},
	{SOURCE_TIMESTAMP, ANY_SIGN, TIMESTAMPTZOID, capstan_convert_timestamp, fits_fraction},
	{SOURCE_TIME, ANY_SIGN, INTERVALOID, capstan_convert_time_interval, fits_interval},
	{SOURCE_TIME, ANY_SIGN, TIMEOID, capstan_convert_time, fits_fraction},
	{SOURCE_YEAR, ANY_SIGN, INT2OID, capstan_convert_int2, NULL},
	{SOURCE_YEAR, ANY_SIGN, INT4OID, capstan_convert_int4, NULL},

	{SOURCE_CHAR, ANY_SIGN, VARCHAROID, capstan_convert_text, fits_characters},
	{SOURCE_CHAR, ANY_SIGN, TEXTOID, capstan_convert_text, NULL},
	{SOURCE_CHAR, ANY_SIGN, CITEXT, capstan_convert_text, NULL},
	{SOURCE_VARCHAR, ANY_SIGN, VARCHAROID, capstan_convert_text, fits_characters},
	{SOURCE_VARCHAR, ANY_SIGN, TEXTOID, capstan_convert_text, NULL},
	{SOURCE_VARCHAR, ANY_SIGN, CITEXT, capstan_convert_text, NULL},
	{SOURCE_TEXT, ANY_SIGN, TEXTOID, capstan_convert_text, NULL},
	{SOURCE_TEXT, ANY_SIGN, VARCHAROID, capstan_convert_text, fits_characters},
	{SOURCE_TEXT, ANY_SIGN, CITEXT, capstan_convert_text, NULL},

	{SOURCE_ENUM, ANY_SIGN, TEXTOID, capstan_convert_enum_text, NULL},
	{SOURCE_ENUM, ANY_SIGN, VARCHAROID, capstan_convert_enum_text, fits_characters},
	{SOURCE_ENUM, ANY_SIGN, ANY_ENUM, capstan_convert_enum, has_labels},
	{SOURCE_SET, ANY_SIGN, TEXTOID, capstan_convert_set_text, NULL},
	{SOURCE_SET, ANY_SIGN, VARCHAROID, capstan_convert_set_text, fits_characters},
	{SOURCE_SET, ANY_SIGN, TEXTARRAYOID, capstan_convert_set_array, no_empty_label},

	{SOURCE_BINARY, ANY_SIGN, BYTEAOID, capstan_convert_bytea, NULL},
	{SOURCE_BINARY, ANY_SIGN, UUIDOID, capstan_convert_uuid, is_sixteen_bytes},
	{SOURCE_VARBINARY, ANY_SIGN, BYTEAOID, capstan_convert_bytea, NULL},
	{SOURCE_BLOB, ANY_SIGN, BYTEAOID, capstan_convert_bytea, NULL},

	{SOURCE_JSON, ANY_SIGN, JSONBOID, capstan_convert_jsonb, NULL},
	{SOURCE_JSON, ANY_SIGN, JSONOID, capstan_convert_json, NULL},
	{SOURCE_JSON, ANY_SIGN, TEXTOID, capstan_convert_json_text, NULL},

	{SOURCE_GEOMETRY, ANY_SIGN, GEOMETRY, capstan_convert_geometry, fits_geometry},
	{SOURCE_GEOMETRY, ANY_SIGN, BYTEAOID, capstan_convert_bytea, NULL},
	{SOURCE_VECTOR, ANY_SIGN, VECTOR, capstan_convert_vector, NULL},
	{SOURCE_VECTOR, ANY_SIGN, FLOAT4ARRAYOID, capstan_convert_vector_array, NULL},
};

bool
capstan_typemap_is_citext(Oid typid)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	bool		named;

	if (!HeapTupleIsValid(tuple))
		return false;
	named = strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), "citext") == 0;
	ReleaseSysCache(tuple);
	return named && IsBinaryCoercible(typid, TEXTOID);
}

/* The type of that name that belongs to the extension, in whatever schema; InvalidOid if there is none. */
static Oid
extension_type(const char *extension_name, const char *type_name)
{
	Oid			extension = get_extension_oid(extension_name, true);
	CatCList   *list;
	Oid			result = InvalidOid;

	if (!OidIsValid(extension))
		return InvalidOid;
	list = SearchSysCacheList1(TYPENAMENSP, CStringGetDatum(type_name));
	for (int i = 0; i < list->n_members && !OidIsValid(result); i++)
	{
		Oid			typid = ((Form_pg_type) GETSTRUCT(&list->members[i]->tuple))->oid;

		if (getExtensionOfObject(TypeRelationId, typid) == extension)
			result = typid;
	}
	ReleaseSysCacheList(list);
	return result;
}

static bool
is_extension_type(Oid typid, const char *extension_name, const char *type_name)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	bool		named;

	if (!HeapTupleIsValid(tuple))
		return false;
	named = strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), type_name) == 0;
	ReleaseSysCache(tuple);
	return named && extension_type(extension_name, type_name) == typid;
}

#define POSTGIS "postgis", "geometry"
#define PGVECTOR "vector", "vector"

bool
capstan_typemap_is_received(Oid typid)
{
	return is_extension_type(typid, POSTGIS) || is_extension_type(typid, PGVECTOR);
}

static bool
pair_is_for(const TypePair *pair, const SourceColumn *column)
{
	if (pair->source != column->type)
		return false;
	return pair->sign == ANY_SIGN || (pair->sign == UNSIGNED) == column->is_unsigned;
}

const TypePair *
capstan_typemap_find(const SourceColumn *column, Oid basetypid)
{
	for (int i = 0; i < (int) lengthof(pairs); i++)
	{
		const TypePair *pair = &pairs[i];

		if (!pair_is_for(pair, column))
			continue;
		if (pair->target == basetypid ||
			(pair->target == ANY_ENUM && type_is_enum(basetypid)) ||
			(pair->target == CITEXT && capstan_typemap_is_citext(basetypid)) ||
			(pair->target == GEOMETRY && is_extension_type(basetypid, POSTGIS)) ||
			(pair->target == VECTOR && is_extension_type(basetypid, PGVECTOR)))
			return pair;
	}
	return NULL;
}

ColumnConvert
capstan_typemap_converter(const TypePair *pair)
{
	return pair->convert;
}

char *
capstan_typemap_check(const TypePair *pair, const SourceColumn *column, Oid basetypid, int32 typmod)
{
	return pair->check != NULL ? pair->check(column, basetypid, typmod) : NULL;
}

char *
capstan_typemap_accepted(const SourceColumn *column)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < (int) lengthof(pairs); i++)
	{
		if (!pair_is_for(&pairs[i], column))
			continue;
		if (buf.len > 0)
			appendStringInfoString(&buf, ", ");
		if (pairs[i].target == ANY_ENUM)
			appendStringInfoString(&buf, "an enum type");
		else if (pairs[i].target == CITEXT)
			appendStringInfoString(&buf, "citext");
		else if (pairs[i].target == GEOMETRY)
			appendStringInfoString(&buf, "geometry of PostGIS");
		else if (pairs[i].target == VECTOR)
			appendStringInfoString(&buf, "vector of pgvector");
		else
			appendStringInfoString(&buf, format_type_be(pairs[i].target));
	}
	return buf.data;
}

bool
capstan_typemap_has_charset(const SourceColumn *column)
{
	switch (column->type)
	{
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
		case SOURCE_ENUM:
		case SOURCE_SET:
			return true;
		default:
			return false;
	}
}

char *
capstan_typemap_source_type(const SourceColumn *column)
{
	StrBuf		buf;
	char	   *result;

	capstan_strbuf_init(&buf);
	capstan_source_column_type(column, &buf);
	result = pstrdup(buf.data != NULL ? buf.data : "");
	capstan_strbuf_free(&buf);
	return result;
}

uint32
capstan_typemap_characters(const SourceColumn *column)
{
	const char *charset = capstan_collation_charset(column->collation);
	int			max_bytes = charset != NULL ? capstan_charset_max_bytes(charset) : 0;

	return max_bytes > 0 ? column->octets / max_bytes : column->octets;
}

/* ---- checks of a pair's details ---- */

/* As numeric.c packs it since 15, where scales may be negative; for 14's scales it is the same. */
int
capstan_typemap_numeric_scale(int32 typmod, int *precision)
{
	*precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
	return (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024;
}

static int
whole_digits(const SourceColumn *column)
{
	switch (column->type)
	{
		case SOURCE_TINYINT:
			return 3;
		case SOURCE_SMALLINT:
			return 5;
		case SOURCE_MEDIUMINT:
			return column->is_unsigned ? 8 : 7;
		case SOURCE_INT:
			return 10;
		case SOURCE_BIGINT:
			return column->is_unsigned ? 20 : 19;
		default:
			return column->precision - column->scale;
	}
}

static char *
fits_numeric(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	int			precision;
	int			scale;
	int			source_scale = column->type == SOURCE_DECIMAL ? column->scale : 0;

	if (typmod < (int32) VARHDRSZ)
		return NULL;
	scale = capstan_typemap_numeric_scale(typmod, &precision);
	if (scale >= source_scale && precision - scale >= whole_digits(column))
		return NULL;
	return psprintf("holds %d digits before and %d after the point, the source up to %d and %d",
					precision - scale, scale, whole_digits(column), source_scale);
}

static char *
fits_bit(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	if (typmod < 0 || typmod == column->precision)
		return NULL;
	return psprintf("holds exactly %d bits, the source %d", typmod, column->precision);
}

static char *
is_one_bit(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	if (column->precision == 1)
		return NULL;
	return pstrdup("holds one bit, the source more");
}

static char *
fits_fraction(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	if (typmod < 0 || typmod >= column->scale)
		return NULL;
	return psprintf("holds %d fraction digits, the source %d", typmod, column->scale);
}

static char *
fits_interval(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	if (typmod < 0)
		return NULL;
	if (INTERVAL_RANGE(typmod) != INTERVAL_FULL_RANGE)
		return pstrdup("does not hold hours to seconds");
	if (INTERVAL_PRECISION(typmod) != INTERVAL_FULL_PRECISION && INTERVAL_PRECISION(typmod) < column->scale)
		return psprintf("holds %d fraction digits, the source %d", INTERVAL_PRECISION(typmod), column->scale);
	return NULL;
}

static text *label_text(const SourceColumn *column, int i);

/* Labels that cannot be read count by their bytes; they have a complaint of their own. */
static uint64
label_characters(const SourceColumn *column, int i)
{
	text	   *label = label_text(column, i);

	return label == NULL ? column->labels[i].length : (uint64) pg_mbstrlen_with_len(VARDATA_ANY(label), VARSIZE_ANY_EXHDR(label));
}

/* Most characters of a value. */
static uint64
most_characters(const SourceColumn *column)
{
	uint64		sum = 0;
	uint64		longest = 0;

	switch (column->type)
	{
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
			return capstan_typemap_characters(column);
		case SOURCE_TEXT:
			return (UINT64CONST(1) << (8 * column->length_bytes)) - 1;
		default:
			for (int i = 0; i < column->nlabels; i++)
			{
				uint64		characters = label_characters(column, i);

				sum += characters + (i > 0);
				longest = Max(longest, characters);
			}
			return column->type == SOURCE_SET ? sum : longest;
	}
}

static char *
fits_characters(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	uint64		most = most_characters(column);

	if (typmod < (int32) VARHDRSZ || (uint64) (typmod - VARHDRSZ) >= most)
		return NULL;
	return psprintf("holds %d characters, the source up to " UINT64_FORMAT, typmod - VARHDRSZ, most);
}

static char *
is_sixteen_bytes(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	if (column->octets == 16)
		return NULL;
	return psprintf("holds 16 bytes, the source %u", column->octets);
}

/* Labels without a converter have a complaint of their own. */
static text *
label_text(const SourceColumn *column, int i)
{
	const char *charset = capstan_collation_charset(column->collation);
	const CharsetConverter *converter = charset != NULL ? capstan_charset_converter(charset) : NULL;
	TextFault	fault;
	text	   *result;

	if (converter == NULL)
		return NULL;
	result = capstan_charset_to_text(converter, column->labels[i].data, column->labels[i].length, &fault);
	return fault == TEXT_OK ? result : NULL;
}

static char *
has_labels(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	for (int i = 0; i < column->nlabels; i++)
	{
		text	   *label = label_text(column, i);
		char	   *name;

		if (label == NULL)
			continue;
		name = text_to_cstring(label);
		if (strlen(name) >= NAMEDATALEN ||
			!SearchSysCacheExists2(ENUMTYPOIDNAME, ObjectIdGetDatum(basetypid), CStringGetDatum(name)))
			return psprintf("lacks the source's label \"%s\"", name);
	}
	return NULL;
}

static char *
no_empty_label(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	for (int i = 0; i < column->nlabels; i++)
		if (column->labels[i].length == 0)
			return pstrdup("cannot tell the source's label '' from no label at all");
	return NULL;
}

/* By WKB codes, as PostGIS' type modifiers have them; 0 is any. */
static const char *const geometry_names[] = {
	"Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"
};

#define GEOMETRY_COLLECTION 7

static const char *
geometry_name(const SourceColumn *column)
{
	return geometry_names[column->geometry_type < lengthof(geometry_names) ? column->geometry_type : 0];
}

/* Of a column that holds all types or SRIDs, each value is looked at. */
static char *
fits_geometry(const SourceColumn *column, Oid basetypid, int32 typmod)
{
	int			type = GEOMETRY_TYPMOD_TYPE(typmod);

	if (typmod < 0)
		return NULL;
	if (GEOMETRY_TYPMOD_HAS_ZM(typmod))
		return pstrdup("has a Z or M coordinate, the source has x and y");
	/* A column of MySQL's for collections holds MULTI... ones, too, one of PostGIS' for collections does not. */
	if (type != 0 && column->geometry_type != 0 && column->geometry_type != type && column->geometry_type != GEOMETRY_COLLECTION)
		return psprintf("holds another type of geometry, the source %s", geometry_name(column));
	if (GEOMETRY_TYPMOD_SRID(typmod) != 0 && column->has_srid && (uint32) GEOMETRY_TYPMOD_SRID(typmod) != column->srid)
		return psprintf("holds SRID %d, the source %u", GEOMETRY_TYPMOD_SRID(typmod), column->srid);
	return NULL;
}

/* ---- default types ---- */

static char *
qualified_type(Oid typid, const char *modifier)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(typid));
	Form_pg_type type;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", typid);
	type = (Form_pg_type) GETSTRUCT(tuple);
	result = psprintf("%s%s", quote_qualified_identifier(get_namespace_name(type->typnamespace), NameStr(type->typname)), modifier);
	ReleaseSysCache(tuple);
	return result;
}

static char *
default_geometry_type(const SourceColumn *column)
{
	Oid			typid = extension_type(POSTGIS);
	bool		any_type = column->geometry_type == 0 || column->geometry_type == GEOMETRY_COLLECTION;
	const char *name = any_type ? geometry_names[0] : geometry_name(column);

	if (!OidIsValid(typid))
		return pstrdup("bytea");
	if (column->has_srid && column->srid > 0 && column->srid <= POSTGIS_MOST_SRID)
		return qualified_type(typid, psprintf("(%s,%u)", name, column->srid));
	return qualified_type(typid, any_type ? "" : psprintf("(%s)", name));
}

static char *
default_vector_type(void)
{
	Oid			typid = extension_type(PGVECTOR);

	/* No length: MySQL's VECTOR(n) holds shorter ones, too, pgvector's does not. */
	return OidIsValid(typid) ? qualified_type(typid, "") : pstrdup("real[]");
}

static char *
default_character_type(const SourceColumn *column)
{
	uint32		characters = capstan_typemap_characters(column);

	/* CHAR(0) is a type of MySQL's; varchar(0) is none of Postgres'. */
	if (characters == 0 || characters > MAX_VARCHAR)
		return pstrdup("text");
	return psprintf("varchar(%u)", characters);
}

char *
capstan_map_default_type(const SourceColumn *column)
{
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_YEAR:
			return pstrdup("smallint");
		case SOURCE_SMALLINT:
			return pstrdup(column->is_unsigned ? "integer" : "smallint");
		case SOURCE_MEDIUMINT:
			return pstrdup("integer");
		case SOURCE_INT:
			return pstrdup(column->is_unsigned ? "bigint" : "integer");
		case SOURCE_BIGINT:
			return pstrdup(column->is_unsigned ? "numeric(20,0)" : "bigint");
		case SOURCE_DECIMAL:
			return psprintf("numeric(%d,%d)", column->precision, column->scale);
		case SOURCE_FLOAT:
			return pstrdup("real");
		case SOURCE_DOUBLE:
			return pstrdup("double precision");
		case SOURCE_BIT:
			return psprintf("bit(%d)", column->precision);
		case SOURCE_DATE:
			return pstrdup("date");
		case SOURCE_DATETIME:
			return psprintf("timestamp(%d)", column->scale);
		case SOURCE_TIMESTAMP:
			return psprintf("timestamptz(%d)", column->scale);
		case SOURCE_TIME:
			return psprintf("interval(%d)", column->scale);
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
			return default_character_type(column);
		case SOURCE_TEXT:
		case SOURCE_ENUM:
		case SOURCE_SET:
			return pstrdup("text");
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
		case SOURCE_BLOB:
			return pstrdup("bytea");
		case SOURCE_JSON:
			return pstrdup("jsonb");
		case SOURCE_GEOMETRY:
			return default_geometry_type(column);
		case SOURCE_VECTOR:
			return default_vector_type();
		case SOURCE_OTHER:
			break;
	}
	return NULL;
}
