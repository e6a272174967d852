/*
 * convert_extension.c
 *		Converters to types of other extensions: GEOMETRY to PostGIS' geometry, VECTOR to pgvector's
 *		vector; and VECTOR to real[].
 *
 * The extensions' types are made by their own receive functions, the binary form that their clients send;
 * nothing is known here of how they store a value.  Formats (MySQL: sql/spatial.h, sql-common/vector; PostGIS: EWKB;
 * pgvector: vector_recv):
 *
 *		MySQL GEOMETRY	SRID 4 bytes little-endian, then WKB
 *		WKB				byte order 1 byte, type 4 bytes, then what the type has
 *		EWKB			byte order 1 byte, type with the bit 0x20000000 4 bytes, SRID 4 bytes, then the same;
 *						without an SRID it is WKB
 *		MySQL VECTOR	numbers of 4 bytes, little-endian
 *		vector			their count 2 bytes, 2 bytes zero, the numbers; all big-endian
 *
 * Axes: MySQL's storage has x before y, and of geographic coordinates the longitude first, whatever its text forms show for the
 * SRID.  That is PostGIS' order too, so coordinates are not touched.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "map/internal.h"

#define SRID_BYTES 4
#define WKB_HEADER_BYTES 5
#define WKB_LITTLE_ENDIAN 1
#define WKB_LAST_TYPE 7			/* GeometryCollection; none of them has Z or M */
#define EWKB_HAS_SRID 0x20000000

void
capstan_convert_prepare_receive(ColumnMap *column)
{
	ColumnPrivate *private = column_private(column);
	Oid			receive;

	getTypeBinaryInputInfo(column->basetypid, &receive, &private->receive_typioparam);
	fmgr_info_cxt(receive, &private->receive, CurrentMemoryContext);
}

static Datum
call_receive(ColumnMap *map, void *message)
{
	ColumnPrivate *private = column_private(map);

	return ReceiveFunctionCall(&private->receive, (StringInfo) message, private->receive_typioparam, map->typmod);
}

/* A message of `length` bytes to be filled in. */
static void
make_message(StringInfo message, size_t length)
{
	message->data = (char *) palloc(length + 1);
	message->data[length] = '\0';
	message->len = (int) length;
	message->maxlen = (int) length + 1;
	message->cursor = 0;
}

static uint32
little_endian(const char *data)
{
	const uint8 *p = (const uint8 *) data;

	return (uint32) p[3] << 24 | p[2] << 16 | p[1] << 8 | p[0];
}

static void
put_little_endian(char *data, uint32 number)
{
	for (int i = 0; i < 4; i++)
		data[i] = (char) (number >> 8 * i);
}

/* PostGIS would check the type itself, but it would give a value without SRID that of the column. */
static void
check_geometry(const ColumnMap *map, uint32 srid, uint32 type)
{
	if (type == 0 || type > WKB_LAST_TYPE)
		capstan_convert_fail(map, "is not what MySQL stores as a geometry", NULL);
	if (srid > POSTGIS_MOST_SRID)
		capstan_convert_fail(map, "has an SRID above 999999, the greatest that PostGIS has",
							 "Use bytea for the target column, or another SRID on the source.");
	if (map->typmod < 0)
		return;
	if (GEOMETRY_TYPMOD_SRID(map->typmod) != 0 && (uint32) GEOMETRY_TYPMOD_SRID(map->typmod) != srid)
		capstan_convert_fail(map, "has another SRID than the target column", "Use geometry without an SRID for the target column.");
	if (GEOMETRY_TYPMOD_TYPE(map->typmod) != 0 && (uint32) GEOMETRY_TYPMOD_TYPE(map->typmod) != type)
		capstan_convert_fail(map, "is of another type of geometry than the target column", "Use geometry without a type for the target column.");
}

Datum
capstan_convert_geometry(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	const SourceBytes *bytes = &value->u.bytes;
	StringInfoData message;
	const char *wkb;
	size_t		wkb_length;
	uint32		srid;
	uint32		type;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_BYTES)
		capstan_convert_wrong_kind(map, value);
	if (bytes->length > MAX_VARLENA_DATA)
		capstan_convert_fail(map, "is longer than a Postgres value can be (1 GB)", "Shorten the value on the source.");
	if (bytes->length < SRID_BYTES + WKB_HEADER_BYTES || bytes->data[SRID_BYTES] != WKB_LITTLE_ENDIAN)
		capstan_convert_fail(map, "is not what MySQL stores as a geometry", NULL);
	srid = little_endian(bytes->data);
	wkb = bytes->data + SRID_BYTES;
	wkb_length = bytes->length - SRID_BYTES;
	type = little_endian(wkb + 1);
	check_geometry(map, srid, type);

	if (srid == 0)
	{
		make_message(&message, wkb_length);
		memcpy(message.data, wkb, wkb_length);
	}
	else
	{
		make_message(&message, wkb_length + SRID_BYTES);
		message.data[0] = WKB_LITTLE_ENDIAN;
		put_little_endian(message.data + 1, type | EWKB_HAS_SRID);
		put_little_endian(message.data + WKB_HEADER_BYTES, srid);
		memcpy(message.data + WKB_HEADER_BYTES + SRID_BYTES, wkb + WKB_HEADER_BYTES, wkb_length - WKB_HEADER_BYTES);
	}
	return capstan_convert_guarded(map, call_receive, &message);
}

/* The count of a vector's numbers.  There may be none: a NOT NULL column that is added to a table with rows gives them that. */
static int
vector_count(ColumnMap *map, const SourceValue *value)
{
	if (value->kind != VALUE_BYTES)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length % sizeof(float4) != 0 ||
		value->u.bytes.length / sizeof(float4) > PG_INT16_MAX)
		capstan_convert_fail(map, "is not what MySQL stores as a vector", NULL);
	return (int) (value->u.bytes.length / sizeof(float4));
}

Datum
capstan_convert_vector(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	StringInfoData message;
	int			count;
	char	   *out;

	if (convert_null(value, isnull))
		return (Datum) 0;
	count = vector_count(map, value);
	if (count == 0)
		capstan_convert_fail(map, "is a vector without numbers, which type vector does not have",
							 "Give it numbers on the source, or use real[] as the target column's type.");
	make_message(&message, 4 + count * sizeof(float4));
	out = message.data;
	*out++ = (char) (count >> 8);
	*out++ = (char) count;
	*out++ = 0;
	*out++ = 0;
	for (int i = 0; i < count; i++)
	{
		uint32		number = pg_hton32(little_endian(value->u.bytes.data + i * sizeof(float4)));

		memcpy(out, &number, sizeof(number));
		out += sizeof(number);
	}
	return capstan_convert_guarded(map, call_receive, &message);
}

Datum
capstan_convert_vector_array(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	ArrayType  *result;
	size_t		size;
	int			count;
	char	   *out;

	if (convert_null(value, isnull))
		return (Datum) 0;
	count = vector_count(map, value);
	if (count == 0)
		return PointerGetDatum(construct_empty_array(FLOAT4OID));
	size = ARR_OVERHEAD_NONULLS(1) + count * sizeof(float4);
	result = (ArrayType *) palloc0(size);
	SET_VARSIZE(result, size);
	result->ndim = 1;
	result->dataoffset = 0;
	result->elemtype = FLOAT4OID;
	ARR_DIMS(result)[0] = count;
	ARR_LBOUND(result)[0] = 1;
	out = ARR_DATA_PTR(result);
	for (int i = 0; i < count; i++)
	{
		uint32		number = little_endian(value->u.bytes.data + i * sizeof(float4));

		memcpy(out + i * sizeof(number), &number, sizeof(number));
	}
	return PointerGetDatum(result);
}
