/*
 * key.c
 *		Keys: whose order is the same on both sides, comparison, and the form in which a
 *		key is stored as the bound of a copied range.
 *
 * Stored form, by the kind of the value (all of them exact):
 *
 *		VALUE_INT, VALUE_UINT		decimal digits, "-" before negative ones
 *		VALUE_TIMESTAMP, VALUE_TIME	the same, of the microseconds
 *		VALUE_DECIMAL				its text
 *		VALUE_DATETIME				"2024-02-29 23:59:58.000001", DATE too
 *		VALUE_BITS, VALUE_BYTES		the bytes
 *
 * The kind is not stored; the column tells it.
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "map/internal.h"

#define DATETIME_LENGTH 26

/* Compared by value on both sides, by the same rule. */
static bool
type_is_ordered(SourceType type)
{
	switch (type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
		case SOURCE_DECIMAL:
		case SOURCE_DATE:
		case SOURCE_DATETIME:
		case SOURCE_TIMESTAMP:
		case SOURCE_TIME:
		case SOURCE_YEAR:
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			return true;
		default:
			return false;
	}
}

/* MySQL's WHERE and ORDER BY agree on it: not so for ENUM, SET (string, index), FLOAT, DOUBLE (rounding). */
static bool
type_is_pageable(SourceType type)
{
	return type_is_ordered(type) || type == SOURCE_CHAR || type == SOURCE_VARCHAR || type == SOURCE_BIT;
}

static bool
all_key_columns(const SourceTable *source, bool (*test) (SourceType))
{
	if (source->nkey == 0 || source->key_has_prefix)
		return false;
	for (int i = 0; i < source->nkey; i++)
		if (!test(source->columns[source->key[i]].type))
			return false;
	return true;
}

/* A key whose index runs up in one column and down in another is paged in that order, which the gate does not know. */
bool
capstan_map_key_is_ordered(const SourceTable *source)
{
	return all_key_columns(source, type_is_ordered) && !capstan_source_key_is_mixed(source);
}

bool
capstan_map_key_is_pageable(const SourceTable *source)
{
	return all_key_columns(source, type_is_pageable);
}

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b) ? 1 : 0)

static int
compare_bytes(const SourceBytes *a, const SourceBytes *b)
{
	size_t		shorter = Min(a->length, b->length);
	int			result = shorter > 0 ? memcmp(a->data, b->data, shorter) : 0;

	return result != 0 ? result : COMPARE(a->length, b->length);
}

/* Texts of the same scale without leading zeros: of the same sign, the longer one is farther from zero. */
static int
compare_decimals(const SourceBytes *a, const SourceBytes *b)
{
	bool		a_negative = a->length > 0 && a->data[0] == '-';
	bool		b_negative = b->length > 0 && b->data[0] == '-';
	int			result;

	if (a_negative != b_negative)
		return a_negative ? -1 : 1;
	result = a->length != b->length ? COMPARE(a->length, b->length) : compare_bytes(a, b);
	return a_negative ? -result : result;
}

static int
compare_datetimes(const SourceDateTime *a, const SourceDateTime *b)
{
	if (a->year != b->year)
		return COMPARE(a->year, b->year);
	if (a->month != b->month)
		return COMPARE(a->month, b->month);
	if (a->day != b->day)
		return COMPARE(a->day, b->day);
	if (a->hour != b->hour)
		return COMPARE(a->hour, b->hour);
	if (a->minute != b->minute)
		return COMPARE(a->minute, b->minute);
	if (a->second != b->second)
		return COMPARE(a->second, b->second);
	return COMPARE(a->microsecond, b->microsecond);
}

int
capstan_map_compare_key(const SourceColumn *column, const SourceValue *a, const SourceValue *b)
{
	if (a->kind != b->kind)
		elog(ERROR, "key values of kinds %d and %d of one column", (int) a->kind, (int) b->kind);
	switch (a->kind)
	{
		case VALUE_INT:
		case VALUE_TIMESTAMP:
		case VALUE_TIME:
			return COMPARE(a->u.integer, b->u.integer);
		case VALUE_UINT:
			return COMPARE(a->u.uinteger, b->u.uinteger);
		case VALUE_DECIMAL:
			return compare_decimals(&a->u.bytes, &b->u.bytes);
		case VALUE_DATETIME:
			return compare_datetimes(&a->u.datetime, &b->u.datetime);
		case VALUE_BYTES:
			if (column->type == SOURCE_BINARY || column->type == SOURCE_VARBINARY)
				return compare_bytes(&a->u.bytes, &b->u.bytes);
			break;
		default:
			break;
	}
	elog(ERROR, "key column \"%s\" has no order that both sides share", column->name);
}

bool
capstan_map_same_value(const SourceValue *a, const SourceValue *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind)
	{
		case VALUE_NULL:
		case VALUE_ABSENT:
			return true;
		case VALUE_JSON_DIFFS:
			return false;
		case VALUE_INT:
		case VALUE_TIMESTAMP:
		case VALUE_TIME:
			return a->u.integer == b->u.integer;
		case VALUE_UINT:
		case VALUE_LABEL:
			return a->u.uinteger == b->u.uinteger;
		case VALUE_FLOAT:
			return memcmp(&a->u.real32, &b->u.real32, sizeof(a->u.real32)) == 0;
		case VALUE_DOUBLE:
			return memcmp(&a->u.real64, &b->u.real64, sizeof(a->u.real64)) == 0;
		case VALUE_DATETIME:
			return compare_datetimes(&a->u.datetime, &b->u.datetime) == 0;
		case VALUE_DECIMAL:
		case VALUE_BITS:
		case VALUE_BYTES:
		case VALUE_JSON:
		case VALUE_JSON_BINARY:
			return compare_bytes(&a->u.bytes, &b->u.bytes) == 0;
	}
	return false;
}

/* ---- stored form ---- */

/* The kind of a column's values; VALUE_NULL for columns that no range is bounded by. */
static SourceValueKind
key_kind(const SourceColumn *column)
{
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			return column->is_unsigned ? VALUE_UINT : VALUE_INT;
		case SOURCE_YEAR:
			return VALUE_INT;
		case SOURCE_DECIMAL:
			return VALUE_DECIMAL;
		case SOURCE_BIT:
			return VALUE_BITS;
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			return VALUE_DATETIME;
		case SOURCE_TIMESTAMP:
			return VALUE_TIMESTAMP;
		case SOURCE_TIME:
			return VALUE_TIME;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			return VALUE_BYTES;
		default:
			return VALUE_NULL;
	}
}

static bytea *
make_bytea(const char *data, size_t length)
{
	bytea	   *result = (bytea *) palloc(VARHDRSZ + length);

	SET_VARSIZE(result, VARHDRSZ + length);
	if (length > 0)
		memcpy(VARDATA(result), data, length);
	return result;
}

bytea *
capstan_map_encode_key(const SourceColumn *column, const SourceValue *value)
{
	char		buffer[64];
	int			length = 0;

	if (value->kind == VALUE_NULL || value->kind != key_kind(column))
		elog(ERROR, "value of kind %d cannot bound a range of key column \"%s\"", (int) value->kind, column->name);
	switch (value->kind)
	{
		case VALUE_INT:
		case VALUE_TIMESTAMP:
		case VALUE_TIME:
			length = snprintf(buffer, sizeof(buffer), INT64_FORMAT, value->u.integer);
			break;
		case VALUE_UINT:
			length = snprintf(buffer, sizeof(buffer), UINT64_FORMAT, value->u.uinteger);
			break;
		case VALUE_DATETIME:
			length = snprintf(buffer, sizeof(buffer), "%04u-%02u-%02u %02u:%02u:%02u.%06u",
							  value->u.datetime.year, value->u.datetime.month, value->u.datetime.day,
							  value->u.datetime.hour, value->u.datetime.minute, value->u.datetime.second,
							  value->u.datetime.microsecond);
			if (length != DATETIME_LENGTH)
				elog(ERROR, "date out of range in key column \"%s\"", column->name);
			break;
		default:
			return make_bytea(value->u.bytes.data, value->u.bytes.length);
	}
	return make_bytea(buffer, length);
}

/* Nothing but digits, at least one, no overflow. */
static bool
parse_digits(const char *data, size_t length, uint64 *result)
{
	uint64		number = 0;

	if (length == 0)
		return false;
	for (size_t i = 0; i < length; i++)
	{
		uint64		digit = (uint64) (unsigned char) data[i] - '0';

		if (digit > 9 || number > (PG_UINT64_MAX - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*result = number;
	return true;
}

static bool
parse_signed(const char *data, size_t length, int64 *result)
{
	bool		negative = length > 0 && data[0] == '-';
	uint64		number;

	if (!parse_digits(data + negative, length - negative, &number))
		return false;
	if (number > (uint64) PG_INT64_MAX + negative)
		return false;
	*result = negative ? (int64) (0 - number) : (int64) number;
	return true;
}

static bool
parse_datetime(const char *data, size_t length, SourceDateTime *result)
{
	static const struct
	{
		int			start;
		int			length;
	}			fields[] = {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}, {20, 6}};
	uint64		numbers[lengthof(fields)];

	if (length != DATETIME_LENGTH)
		return false;
	for (int i = 0; i < (int) lengthof(fields); i++)
		if (!parse_digits(data + fields[i].start, fields[i].length, &numbers[i]))
			return false;
	if (data[4] != '-' || data[7] != '-' || data[10] != ' ' || data[13] != ':' || data[16] != ':' || data[19] != '.')
		return false;
	result->year = (uint16_t) numbers[0];
	result->month = (uint8_t) numbers[1];
	result->day = (uint8_t) numbers[2];
	result->hour = (uint8_t) numbers[3];
	result->minute = (uint8_t) numbers[4];
	result->second = (uint8_t) numbers[5];
	result->microsecond = (uint32_t) numbers[6];
	return true;
}

void
capstan_map_decode_key(const SourceColumn *column, bytea *encoded, SourceValue *value)
{
	const char *data;
	size_t		length;
	bool		good = true;

	encoded = (bytea *) PG_DETOAST_DATUM_PACKED(PointerGetDatum(encoded));
	data = VARDATA_ANY(encoded);
	length = VARSIZE_ANY_EXHDR(encoded);

	memset(value, 0, sizeof(*value));
	value->kind = key_kind(column);
	switch (value->kind)
	{
		case VALUE_NULL:
			good = false;
			break;
		case VALUE_INT:
		case VALUE_TIMESTAMP:
		case VALUE_TIME:
			good = parse_signed(data, length, &value->u.integer);
			break;
		case VALUE_UINT:
			good = parse_digits(data, length, &value->u.uinteger);
			break;
		case VALUE_DATETIME:
			good = parse_datetime(data, length, &value->u.datetime);
			break;
		default:
			value->u.bytes.data = data;
			value->u.bytes.length = length;
	}
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a stored key bound of column \"%s\" is damaged", column->name)));
}
