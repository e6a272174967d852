/*
 * values.c
 *		One value of a row image made into a SourceValue.
 *
 * Formats, where MySQL's names say little (integers little-endian unless said
 * otherwise; Field::pack and the conversions in mysys/my_time.cc):
 *
 *	   DATE			3 bytes: day 5 bits, month 4, year 15
 *	   TIME			3 bytes, signed: hhmmss as a decimal number (before 5.6)
 *	   DATETIME		8 bytes: YYYYMMDDhhmmss as a decimal number (before 5.6)
 *	   TIMESTAMP	4 bytes: seconds (before 5.6)
 *	   TIMESTAMP2	4 bytes big-endian seconds, then the fraction
 *	   DATETIME2	5 bytes big-endian: sign 1 bit (set: not negative), year * 13 + month 17,
 *					day 5, hour 5, minute 6, second 6; then the fraction
 *	   TIME2		3 bytes big-endian: offset 0x800000; hour 10 bits, minute 6, second 6; with the
 *					fraction behind it one number, so negative times count their fraction down
 *	   fraction		(scale + 1) / 2 bytes big-endian, in units of 10^-2, 10^-4 or 10^-6 seconds
 *
 * Every range is checked: a value that MySQL cannot have stored means that the bytes are not what we
 * take them for, and that must not go unseen.
 */
#include "binlog/internal.h"

#define USECS_PER_SECOND 1000000

static bool
malformed(const SourceColumn *column, CapstanError *error)
{
	return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "value of column \"%s\" is malformed",
						 column->name != NULL ? column->name : "?");
}

/* Integers of `width` bytes, sign-extended. */
static int64_t
read_signed(ByteReader *reader, int width)
{
	uint64_t	value = capstan_bytes_uint(reader, width);
	int			shift = 64 - 8 * width;

	return (int64_t) (value << shift) >> shift;
}

static int
fraction_bytes(int scale)
{
	return (scale + 1) / 2;
}

/* Microseconds from a fraction's number. */
static uint32_t
fraction_to_usecs(uint64_t fraction, int scale)
{
	static const uint32_t unit[4] = {0, 10000, 100, 1};

	return (uint32_t) fraction * unit[fraction_bytes(scale)];
}

static uint32_t
read_fraction(ByteReader *reader, int scale)
{
	int			width = fraction_bytes(scale);

	return width == 0 ? 0 : fraction_to_usecs(capstan_bytes_uint_be(reader, width), scale);
}

static bool
decode_datetime2(const SourceColumn *column, ByteReader *reader, SourceValue *value)
{
	SourceDateTime *to = &value->u.datetime;
	uint64_t	packed = capstan_bytes_uint_be(reader, 5);
	uint32_t	day_part = (uint32_t) (packed >> 17 & 0x3fffff);
	uint32_t	time_part = (uint32_t) (packed & 0x1ffff);

	if ((packed & UINT64_C(0x8000000000)) == 0)
		return false;
	value->kind = VALUE_DATETIME;
	to->year = (uint16_t) ((day_part >> 5) / 13);
	to->month = (uint8_t) ((day_part >> 5) % 13);
	to->day = (uint8_t) (day_part & 31);
	to->hour = (uint8_t) (time_part >> 12);
	to->minute = (uint8_t) (time_part >> 6 & 63);
	to->second = (uint8_t) (time_part & 63);
	to->microsecond = read_fraction(reader, column->scale);
	return to->year <= 9999 && to->hour < 24 && to->minute < 60 && to->second < 60 &&
		to->microsecond < USECS_PER_SECOND;
}

static bool
decode_datetime(ByteReader *reader, SourceValue *value)
{
	SourceDateTime *to = &value->u.datetime;
	uint64_t	digits = capstan_bytes_u64(reader);
	uint64_t	day_part = digits / 1000000;

	if (digits > UINT64_C(99991231235959))
		return false;
	value->kind = VALUE_DATETIME;
	to->year = (uint16_t) (day_part / 10000);
	to->month = (uint8_t) (day_part / 100 % 100);
	to->day = (uint8_t) (day_part % 100);
	to->hour = (uint8_t) (digits / 10000 % 100);
	to->minute = (uint8_t) (digits / 100 % 100);
	to->second = (uint8_t) (digits % 100);
	to->microsecond = 0;
	return to->month <= 12 && to->day <= 31 && to->hour < 24 && to->minute < 60 && to->second < 60;
}

static bool
decode_date(ByteReader *reader, SourceValue *value)
{
	SourceDateTime *to = &value->u.datetime;
	uint64_t	packed = capstan_bytes_uint(reader, 3);

	memset(to, 0, sizeof(*to));
	value->kind = VALUE_DATETIME;
	to->year = (uint16_t) (packed >> 9);
	to->month = (uint8_t) (packed >> 5 & 15);
	to->day = (uint8_t) (packed & 31);
	return to->year <= 9999 && to->month <= 12;
}

static bool
set_time(SourceValue *value, bool negative, uint32_t hour, uint32_t minute, uint32_t second, uint32_t usecs)
{
	int64_t		time = ((int64_t) hour * 3600 + minute * 60 + second) * USECS_PER_SECOND + usecs;

	value->kind = VALUE_TIME;
	value->u.integer = negative ? -time : time;
	return hour <= 838 && minute < 60 && second < 60 && usecs < USECS_PER_SECOND;
}

static bool
decode_time2(const SourceColumn *column, ByteReader *reader, SourceValue *value)
{
	int			width = fraction_bytes(column->scale);
	int			shift = 8 * width;
	int64_t		packed = (int64_t) capstan_bytes_uint_be(reader, 3 + width) - ((int64_t) 0x800000 << shift);
	uint64_t	magnitude = (uint64_t) (packed < 0 ? -packed : packed);
	uint32_t	seconds = (uint32_t) (magnitude >> shift);
	uint64_t	fraction = magnitude & ((UINT64_C(1) << shift) - 1);

	return set_time(value, packed < 0, seconds >> 12 & 1023, seconds >> 6 & 63, seconds & 63,
					fraction_to_usecs(fraction, column->scale)) && seconds >> 22 == 0;
}

static bool
decode_time(ByteReader *reader, SourceValue *value)
{
	int64_t		digits = read_signed(reader, 3);
	uint32_t	magnitude = (uint32_t) (digits < 0 ? -digits : digits);

	return set_time(value, digits < 0, magnitude / 10000, magnitude / 100 % 100, magnitude % 100, 0);
}

static bool
decode_timestamp2(const SourceColumn *column, ByteReader *reader, SourceValue *value)
{
	uint64_t	seconds = capstan_bytes_uint_be(reader, 4);
	uint32_t	usecs = read_fraction(reader, column->scale);

	value->kind = VALUE_TIMESTAMP;
	value->u.integer = (int64_t) seconds * USECS_PER_SECOND + usecs;
	return usecs < USECS_PER_SECOND;
}

void
capstan_value_set_scratch(SourceValue *value, SourceValueKind kind, Scratch *scratch, size_t offset)
{
	value->kind = kind;
	value->u.bytes.data = NULL;
	value->u.bytes.length = scratch->bytes.length - offset;
	scratch->values[scratch->nvalues].value = value;
	scratch->values[scratch->nvalues].offset = offset;
	scratch->nvalues++;
}

static bool
decode_decimal(const SourceColumn *column, ByteReader *reader, SourceValue *value, Scratch *scratch)
{
	size_t		offset = scratch->bytes.length;
	const uint8_t *packed = capstan_bytes_take(reader,
											   (size_t) capstan_decimal_packed_size(column->precision, column->scale));

	if (packed == NULL || !capstan_decimal_to_text(packed, column->precision, column->scale, &scratch->bytes))
		return false;
	capstan_value_set_scratch(value, VALUE_DECIMAL, scratch, offset);
	return true;
}

bool
capstan_value_take_bytes(const ColumnLayout *layout, ByteReader *reader, SourceValue *value)
{
	size_t		length = (size_t) capstan_bytes_uint(reader, layout->width);

	value->kind = VALUE_BYTES;
	value->u.bytes.data = (const char *) capstan_bytes_take(reader, length);
	value->u.bytes.length = length;
	return value->u.bytes.data != NULL;
}

/* BINARY(n) comes without its trailing zero bytes. */
static void
pad_binary(const SourceColumn *column, SourceValue *value, Scratch *scratch)
{
	size_t		offset = scratch->bytes.length;
	size_t		missing = column->octets - value->u.bytes.length;

	capstan_strbuf_append(&scratch->bytes, value->u.bytes.data, value->u.bytes.length);
	memset(capstan_strbuf_reserve(&scratch->bytes, missing), 0, missing + 1);
	scratch->bytes.length += missing;
	capstan_value_set_scratch(value, VALUE_BYTES, scratch, offset);
}

static bool
decode_string(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader,
			  SourceValue *value, Scratch *scratch)
{
	if (!capstan_value_take_bytes(layout, reader, value) || value->u.bytes.length > column->octets)
		return false;
	if (column->type == SOURCE_BINARY && value->u.bytes.length < column->octets)
		pad_binary(column, value, scratch);
	return true;
}

static bool
decode_json(const ColumnLayout *layout, ByteReader *reader, SourceValue *value, Scratch *scratch,
			CapstanError *error)
{
	size_t		offset = scratch->bytes.length;

	if (!capstan_value_take_bytes(layout, reader, value))
		return false;
	if (!capstan_json_to_text((const uint8_t *) value->u.bytes.data, value->u.bytes.length, &scratch->bytes, error))
		return false;
	capstan_value_set_scratch(value, VALUE_JSON, scratch, offset);
	return true;
}

static bool
decode_label(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader, SourceValue *value)
{
	uint64_t	number = capstan_bytes_uint(reader, layout->width);

	value->kind = VALUE_LABEL;
	value->u.uinteger = number;
	if (column->nlabels == 0)
		return true;			/* MINIMAL metadata: not known */
	if (column->type == SOURCE_ENUM)
		return number <= (uint64_t) column->nlabels;
	return column->nlabels >= 64 || number >> column->nlabels == 0;
}

static bool
decode_number(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader, SourceValue *value)
{
	if (column->is_unsigned)
	{
		value->kind = VALUE_UINT;
		value->u.uinteger = capstan_bytes_uint(reader, layout->width);
	}
	else
	{
		value->kind = VALUE_INT;
		value->u.integer = read_signed(reader, layout->width);
	}
	return true;
}

static bool
decode_value(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader,
			 SourceValue *value, Scratch *scratch, CapstanError *error)
{
	uint32_t	bits32;
	uint64_t	bits64;

	switch ((BinlogType) layout->code)
	{
		case BINLOG_TYPE_TINY:
		case BINLOG_TYPE_SHORT:
		case BINLOG_TYPE_INT24:
		case BINLOG_TYPE_LONG:
		case BINLOG_TYPE_LONGLONG:
			return decode_number(layout, column, reader, value);
		case BINLOG_TYPE_FLOAT:
			bits32 = capstan_bytes_u32(reader);
			value->kind = VALUE_FLOAT;
			memcpy(&value->u.real32, &bits32, sizeof(bits32));
			return true;
		case BINLOG_TYPE_DOUBLE:
			bits64 = capstan_bytes_u64(reader);
			value->kind = VALUE_DOUBLE;
			memcpy(&value->u.real64, &bits64, sizeof(bits64));
			return true;
		case BINLOG_TYPE_NEWDECIMAL:
			return decode_decimal(column, reader, value, scratch);
		case BINLOG_TYPE_BIT:
			value->kind = VALUE_BITS;
			value->u.bytes.data = (const char *) capstan_bytes_take(reader, layout->width);
			value->u.bytes.length = layout->width;
			/* No bit set above the column's width. */
			return value->u.bytes.data != NULL && (column->precision % 8 == 0 ||
												   (uint8_t) value->u.bytes.data[0] >> column->precision % 8 == 0);
		case BINLOG_TYPE_DATE:
		case BINLOG_TYPE_NEWDATE:
			return decode_date(reader, value);
		case BINLOG_TYPE_DATETIME2:
			return decode_datetime2(column, reader, value);
		case BINLOG_TYPE_DATETIME:
			return decode_datetime(reader, value);
		case BINLOG_TYPE_TIME2:
			return decode_time2(column, reader, value);
		case BINLOG_TYPE_TIME:
			return decode_time(reader, value);
		case BINLOG_TYPE_TIMESTAMP2:
			return decode_timestamp2(column, reader, value);
		case BINLOG_TYPE_TIMESTAMP:
			value->kind = VALUE_TIMESTAMP;
			value->u.integer = (int64_t) capstan_bytes_u32(reader) * USECS_PER_SECOND;
			return true;
		case BINLOG_TYPE_YEAR:
			value->kind = VALUE_INT;
			value->u.integer = capstan_bytes_u8(reader);
			if (value->u.integer > 0)
				value->u.integer += 1900;
			return true;
		case BINLOG_TYPE_VARCHAR:
		case BINLOG_TYPE_VAR_STRING:
		case BINLOG_TYPE_STRING:
			return decode_string(layout, column, reader, value, scratch);
		case BINLOG_TYPE_TINY_BLOB:
		case BINLOG_TYPE_MEDIUM_BLOB:
		case BINLOG_TYPE_LONG_BLOB:
		case BINLOG_TYPE_BLOB:
		case BINLOG_TYPE_GEOMETRY:
		case BINLOG_TYPE_VECTOR:
			return capstan_value_take_bytes(layout, reader, value);
		case BINLOG_TYPE_JSON:
			return decode_json(layout, reader, value, scratch, error);
		case BINLOG_TYPE_ENUM:
		case BINLOG_TYPE_SET:
			return decode_label(layout, column, reader, value);
		case BINLOG_TYPE_DECIMAL:
		case BINLOG_TYPE_NULL:
		case BINLOG_TYPE_TYPED_ARRAY:
			break;				/* refused with the table map */
	}
	return false;
}

bool
capstan_value_decode(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader,
					 SourceValue *value, Scratch *scratch, CapstanError *error)
{
	error->code = CAPSTAN_OK;
	if (!decode_value(layout, column, reader, value, scratch, error) || reader->failed)
	{
		if (error->code == CAPSTAN_OK)
			malformed(column, error);
		return false;
	}
	return true;
}
