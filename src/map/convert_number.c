/*
 * convert_number.c
 *		Converters of integers, YEAR, DECIMAL, FLOAT, DOUBLE and BIT.
 *
 * Ranges are checked whatever the declared types promise: what comes from the network
 * may at worst stop its own pipeline.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/varbit.h"

#include "compat.h"
#include "map/internal.h"

/* DECIMAL(65,30): sign, point, 65 digits, a zero before the point. */
#define DECIMAL_TEXT_MAX 72

#define OUT_OF_RANGE "is out of the target type's range"
#define WIDEN_TARGET "Widen the target column's type."

static int64
integer_of(const ColumnMap *map, const SourceValue *value)
{
	if (value->kind == VALUE_INT)
		return value->u.integer;
	if (value->kind != VALUE_UINT)
		capstan_convert_wrong_kind(map, value);
	if (value->u.uinteger > (uint64) PG_INT64_MAX)
		capstan_convert_fail(map, OUT_OF_RANGE, WIDEN_TARGET);
	return (int64) value->u.uinteger;
}

Datum
capstan_convert_int2(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int64		integer;

	if (convert_null(value, isnull))
		return (Datum) 0;
	integer = integer_of(map, value);
	if (integer < PG_INT16_MIN || integer > PG_INT16_MAX)
		capstan_convert_fail(map, OUT_OF_RANGE, WIDEN_TARGET);
	return Int16GetDatum((int16) integer);
}

Datum
capstan_convert_int4(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int64		integer;

	if (convert_null(value, isnull))
		return (Datum) 0;
	integer = integer_of(map, value);
	if (integer < PG_INT32_MIN || integer > PG_INT32_MAX)
		capstan_convert_fail(map, OUT_OF_RANGE, WIDEN_TARGET);
	return Int32GetDatum((int32) integer);
}

Datum
capstan_convert_int8(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	return Int64GetDatum(integer_of(map, value));
}

Datum
capstan_convert_int_numeric(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	Datum		result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_UINT && value->u.uinteger > (uint64) PG_INT64_MAX)
	{
		char		digits[24];

		snprintf(digits, sizeof(digits), UINT64_FORMAT, value->u.uinteger);
		result = DirectFunctionCall3(numeric_in, CStringGetDatum(digits), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	}
	else
		result = NumericGetDatum(int64_to_numeric(integer_of(map, value)));

	/* numeric(22,2) prints 5 as 5.00; room for the digits was checked when the map was built. */
	if (column_private(map)->numeric_scale > 0)
		result = DirectFunctionCall2(numeric, result, Int32GetDatum(map->typmod));
	return result;
}

Datum
capstan_convert_int_bool(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int64		integer;

	if (convert_null(value, isnull))
		return (Datum) 0;
	integer = integer_of(map, value);
	if (integer != 0 && integer != 1)
		capstan_convert_fail(map, "is neither 0 nor 1", "Use smallint for the target column.");
	return BoolGetDatum(integer == 1);
}

/*
 * Is it the text that row.h promises, within the declared precision?  Then numeric_in has
 * nothing to round and nothing to refuse.
 */
static bool
is_decimal_text(const SourceColumn *column, const char *text, size_t length)
{
	size_t		position = 0;
	size_t		whole;
	size_t		scale = column->scale;

	if (position < length && text[position] == '-')
		position++;
	for (whole = 0; position < length && text[position] >= '0' && text[position] <= '9'; position++)
		whole++;
	if (whole == 0)
		return false;
	if (text[position - whole] == '0' ? whole > 1 : whole > (size_t) column->precision - scale)
		return false;
	if (scale == 0)
		return position == length;
	if (position >= length || text[position] != '.' || length - position - 1 != scale)
		return false;
	for (position++; position < length; position++)
		if (text[position] < '0' || text[position] > '9')
			return false;
	return true;
}

/* As many digits as an int64 holds for certain. */
#define INT64_DIGITS 18

/* The digits of a text that is_decimal_text has seen, without its point. */
static int64
decimal_digits(const char *text, size_t length)
{
	bool		negative = text[0] == '-';
	int64		number = 0;

	for (size_t i = negative; i < length; i++)
		if (text[i] != '.')
			number = number * 10 + (text[i] - '0');
	return negative ? -number : number;
}

Datum
capstan_convert_decimal(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	char		buffer[DECIMAL_TEXT_MAX];

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_DECIMAL)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length >= sizeof(buffer) ||
		!is_decimal_text(map->source, value->u.bytes.data, value->u.bytes.length))
		capstan_convert_fail(map, "has not the declared precision and scale", NULL);


	/* The same number with the same scale, made twice as fast. */
	if (map->source->precision <= INT64_DIGITS &&
		(column_private(map)->numeric_scale == -1 || column_private(map)->numeric_scale == map->source->scale))
		return NumericGetDatum(int64_div_fast_to_numeric(decimal_digits(value->u.bytes.data, value->u.bytes.length),
														 map->source->scale));
	memcpy(buffer, value->u.bytes.data, value->u.bytes.length);
	buffer[value->u.bytes.length] = '\0';
	return DirectFunctionCall3(numeric_in, CStringGetDatum(buffer),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(map->typmod));
}

Datum
capstan_convert_float4(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_FLOAT)
		capstan_convert_wrong_kind(map, value);
	return Float4GetDatum(value->u.real32);
}

Datum
capstan_convert_float8(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind != VALUE_DOUBLE)
		capstan_convert_wrong_kind(map, value);
	return Float8GetDatum(value->u.real64);
}

/* The bits as a number; the column has at most 64. */
static uint64
bits_of(const ColumnMap *map, const SourceValue *value)
{
	int			nbits = map->source->precision;
	uint64		bits = 0;

	if (value->kind != VALUE_BITS)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length != (size_t) (nbits + 7) / 8 || nbits > 64)
		capstan_convert_fail(map, "has not the declared number of bits", NULL);
	for (size_t i = 0; i < value->u.bytes.length; i++)
		bits = (bits << 8) | (unsigned char) value->u.bytes.data[i];
	if (nbits < 64 && (bits >> nbits) != 0)
		capstan_convert_fail(map, "has not the declared number of bits", NULL);
	return bits;
}

/* MySQL puts the spare bits of the first byte before the value, Postgres those of the last byte behind it. */
Datum
capstan_convert_bit(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	int			nbits = map->source->precision;
	uint64		bits;
	VarBit	   *result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	bits = bits_of(map, value) << (64 - nbits);
	result = (VarBit *) palloc0(VARBITTOTALLEN(nbits));
	SET_VARSIZE(result, VARBITTOTALLEN(nbits));
	VARBITLEN(result) = nbits;
	for (int i = 0; i < (nbits + 7) / 8; i++)
		VARBITS(result)[i] = (bits8) (bits >> (56 - 8 * i));
	return VarBitPGetDatum(result);
}

Datum
capstan_convert_bit_bool(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	return BoolGetDatum(bits_of(map, value) == 1);
}

Datum
capstan_convert_bit_bytea(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	(void) bits_of(map, value);
	return PointerGetDatum(cstring_to_text_with_len(value->u.bytes.data, (int) value->u.bytes.length));
}

Datum
capstan_convert_bit_int8(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	uint64		bits;

	if (convert_null(value, isnull))
		return (Datum) 0;
	bits = bits_of(map, value);
	if (bits > (uint64) PG_INT64_MAX)
		capstan_convert_fail(map, OUT_OF_RANGE, "Use bit(64) or bytea for the target column.");
	return Int64GetDatum((int64) bits);
}
