/*
 * json.c
 *		Binary JSON made into the text that MySQL itself prints for it.
 *
 * Format (sql-common/json_binary.h in MySQL's sources; integers little-endian):
 *
 *	   document ::= u8 type, value
 *	   type	0 small object, 1 large object, 2 small array, 3 large array,
 *			4 literal (u8: 0 null, 1 true, 2 false), 5 i16, 6 u16, 7 i32, 8 u32, 9 i64, 10 u64,
 *			11 double, 12 string, 15 opaque
 *
 *	   object ::= count, size, count x { key offset, u16 key length },
 *				  count x { u8 type, value offset or the value itself }, keys, values
 *	   array  ::= count, size, count x { u8 type, value offset or the value itself }, values
 *	   string ::= length, bytes (utf-8);	opaque ::= u8 column type, length, bytes
 *
 * Counts, sizes and offsets have 2 bytes in small and 4 in large containers; offsets count from the
 * container's count.  A value itself stands in the place of its offset if it is a literal or an integer
 * that fits there.  A length has 7 bits per byte, the low ones first, the high bit set if more follow.
 *
 * Nothing keeps offsets from pointing to the same bytes again and again, so a few bytes
 * could mean an endless text.  An honest document prints at most OUTPUT_FACTOR
 * bytes for each of its own; more than that is an error.  So are more values than there is room for: who makes
 * something of them may need a hundred times as much for an empty array as its text has.
 */
#include "binlog/json_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define OUTPUT_FACTOR 12
#define OUTPUT_EXTRA 512
#define OUTPUT_MAX ((size_t) 1024 * 1024 * 1024 - 1)

/* Of a small container the entry of a value, and the count and size of one that is in it. */
#define LEAST_ENTRY 3
#define LEAST_CONTAINER 4

static bool
malformed(JsonPrinter *printer)
{
	return capstan_error(printer->error, CAPSTAN_ERROR_MALFORMED, "JSON value is malformed");
}

size_t
capstan_json_most_text(size_t document_length)
{
	return document_length < OUTPUT_MAX / OUTPUT_FACTOR ? document_length * OUTPUT_FACTOR + OUTPUT_EXTRA : OUTPUT_MAX;
}

static bool
is_container(const JsonValue *value)
{
	return value->type <= JSON_LARGE_ARRAY;
}

/* The outermost value has no entry. */
size_t
capstan_json_room(size_t document_length)
{
	return document_length + LEAST_ENTRY;
}

bool
capstan_json_take_room(size_t *room, const JsonValue *value)
{
	size_t		least = LEAST_ENTRY + (is_container(value) ? LEAST_CONTAINER : 0);

	if (*room < least)
		return false;
	*room -= least;
	return true;
}

void
capstan_json_printer(JsonPrinter *printer, StrBuf *out, size_t document_length, CapstanError *error)
{
	printer->out = out;
	printer->limit = out->length + capstan_json_most_text(document_length);
	printer->room = capstan_json_room(document_length);
	printer->error = error;
}

static bool
check_output(JsonPrinter *printer)
{
	return printer->out->length <= printer->limit ? true : malformed(printer);
}

/* ---- scalars ---- */

static void
print_unsigned(StrBuf *out, uint64_t value)
{
	char		digits[20];
	char	   *start = digits + sizeof(digits);

	do
		*--start = (char) ('0' + value % 10);
	while ((value /= 10) > 0);
	capstan_strbuf_append(out, start, (size_t) (digits + sizeof(digits) - start));
}

static void
print_signed(StrBuf *out, int64_t value)
{
	if (value < 0)
		capstan_strbuf_append_char(out, '-');
	print_unsigned(out, value < 0 ? 0 - (uint64_t) value : (uint64_t) value);
}

/*
 * shortest_digits() of what people write most: up to 15 digits, few of them after the point.  A decimal of up to 15 digits is the only such that
 * reads back as its double; that it does so is seen by a division that rounds correctly, as both operands are exact.  0: it is not one.
 */
static int
few_digits(double value, char digits[20], int *point)
{
	static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};

	for (int after = 0; after < (int) (sizeof(powers) / sizeof(powers[0])); after++)
	{
		double		scaled = value * powers[after];
		uint64_t	number;
		int			ndigits = 0;
		char		reversed[20];

		if (scaled >= 1e15)
			return 0;
		number = (uint64_t) (scaled + 0.5);
		if (number == 0 || (double) number / powers[after] != value)
			continue;
		for (; number > 0; number /= 10)
			reversed[ndigits++] = (char) ('0' + number % 10);
		*point = ndigits - after;
		for (int i = 0; i < ndigits; i++)
			digits[i] = reversed[ndigits - 1 - i];
		while (ndigits > 1 && digits[ndigits - 1] == '0')
			ndigits--;
		return ndigits;
	}
	return 0;
}

/*
 * The shortest digits that read back as the value (of several such the nearest to it), without trailing
 * zeros, and the place of the point: value = 0.DIGITS * 10^point.  Returns how many digits.  value is finite and > 0.
 */
static int
shortest_digits(double value, char digits[20], int *point)
{
	uint64_t	bits;
	bool		subnormal;
	int			ndigits = few_digits(value, digits, point);

	if (ndigits > 0)
		return ndigits;
	memcpy(&bits, &value, sizeof(bits));
	subnormal = bits >> 52 == 0;
	/* A decimal of up to 15 digits survives a double, so trailing zeros aside 15 digits are minimal if they do. */
	for (int precision = subnormal ? 1 : 15;; precision++)
	{
		char		text[40];
		char	   *exponent;
		double		back;

		snprintf(text, sizeof(text), "%.*e", precision - 1, value);
		back = strtod(text, &exponent);
		exponent = strchr(text, 'e');
		if (back != value && precision < 17)
		{
			/*
			 * Below a power of two doubles lie twice as dense as above it, so its nearest decimal may
			 * belong to the neighbour below, while the next decimal above still belongs to it.
			 */
			char	   *last = exponent - 1;

			if ((bits & UINT64_C(0xfffffffffffff)) != 0 || precision < 15 || *last == '9')
				continue;
			++*last;
			if (strtod(text, NULL) != value)
				continue;
		}
		*point = atoi(exponent + 1) + 1;
		digits[0] = text[0];
		ndigits = 1;
		/* text[1] is the point, whatever it looks like in this locale. */
		for (const char *from = text + 2; from < exponent; from++)
			digits[ndigits++] = *from;
		while (ndigits > 1 && digits[ndigits - 1] == '0')
			ndigits--;
		return ndigits;
	}
}

/*
 * As my_gcvt in MySQL's strings/dtoa.cc prints with its widest field: positional from 1e-15 up to 15
 * digits before the point, or more if there are digits after it; otherwise d.ddde[-]x.  An integral value in
 * positional form gets ".0" from the JSON printer.
 */
static bool
print_double(JsonPrinter *printer, double value)
{
	StrBuf	   *out = printer->out;
	uint64_t	bits;
	char		digits[20];
	int			ndigits;
	int			point;

	memcpy(&bits, &value, sizeof(bits));
	if ((bits >> 52 & 0x7ff) == 0x7ff)
		return malformed(printer);	/* infinite or not a number */
	if (bits >> 63 != 0)
	{
		capstan_strbuf_append_char(out, '-');
		value = -value;
	}
	if (value == 0)
	{
		capstan_strbuf_append_str(out, "0.0");
		return true;
	}
	ndigits = shortest_digits(value, digits, &point);

	if (point < -14 || (point > 15 && ndigits <= point))
	{
		capstan_strbuf_append(out, digits, 1);
		if (ndigits > 1)
		{
			capstan_strbuf_append_char(out, '.');
			capstan_strbuf_append(out, digits + 1, (size_t) ndigits - 1);
		}
		capstan_strbuf_printf(out, "e%d", point - 1);
	}
	else if (point <= 0)
	{
		capstan_strbuf_append_str(out, "0.");
		capstan_strbuf_append(out, "00000000000000", (size_t) -point);
		capstan_strbuf_append(out, digits, (size_t) ndigits);
	}
	else if (ndigits > point)
	{
		capstan_strbuf_append(out, digits, (size_t) point);
		capstan_strbuf_append_char(out, '.');
		capstan_strbuf_append(out, digits + point, (size_t) (ndigits - point));
	}
	else
	{
		capstan_strbuf_append(out, digits, (size_t) ndigits);
		capstan_strbuf_append(out, "00000000000000", (size_t) (point - ndigits));
		capstan_strbuf_append_str(out, ".0");
	}
	return true;
}

void
capstan_json_print_string(StrBuf *out, const uint8_t *data, size_t length)
{
	size_t		plain = 0;

	capstan_strbuf_append_char(out, '"');
	for (size_t i = 0; i < length; i++)
	{
		char		escape;

		if (data[i] >= 0x20 && data[i] != '"' && data[i] != '\\')
			continue;
		capstan_strbuf_append(out, data + plain, i - plain);
		plain = i + 1;
		switch (data[i])
		{
			case '\b':
				escape = 'b';
				break;
			case '\t':
				escape = 't';
				break;
			case '\n':
				escape = 'n';
				break;
			case '\f':
				escape = 'f';
				break;
			case '\r':
				escape = 'r';
				break;
			case '"':
			case '\\':
				escape = (char) data[i];
				break;
			default:
				capstan_strbuf_printf(out, "\\u%04x", data[i]);
				continue;
		}
		capstan_strbuf_append_char(out, '\\');
		capstan_strbuf_append_char(out, escape);
	}
	capstan_strbuf_append(out, data + plain, length - plain);
	capstan_strbuf_append_char(out, '"');
}

/* Base64 with a line break, as JSON escapes it, after each 76 characters but the last. */
static void
print_base64(StrBuf *out, const uint8_t *data, size_t length)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < length; i += 3)
	{
		size_t		left = length - i;
		uint32_t	group = (uint32_t) data[i] << 16 | (left > 1 ? (uint32_t) data[i + 1] << 8 : 0) |
			(left > 2 ? data[i + 2] : 0u);
		char		text[4];

		if (i > 0 && i % 57 == 0)
			capstan_strbuf_append_str(out, "\\n");
		text[0] = alphabet[group >> 18];
		text[1] = alphabet[group >> 12 & 63];
		text[2] = left > 1 ? alphabet[group >> 6 & 63] : '=';
		text[3] = left > 2 ? alphabet[group & 63] : '=';
		capstan_strbuf_append(out, text, sizeof(text));
	}
}

/*
 * Temporal values are i64: microseconds in the low 24 bits, above them as in DATETIME2 and TIME2;
 * negative times are negated as a whole.
 */
static bool
print_temporal(JsonPrinter *printer, uint8_t column_type, const uint8_t *data, size_t length)
{
	ByteReader	reader = capstan_bytes_reader(data, length);
	int64_t		packed = (int64_t) capstan_bytes_u64(&reader);
	bool		negative = packed < 0;
	uint64_t	magnitude = negative ? 0 - (uint64_t) packed : (uint64_t) packed;
	uint32_t	usecs = (uint32_t) (magnitude & 0xffffff);
	uint32_t	second = (uint32_t) (magnitude >> 24 & 63);
	uint32_t	minute = (uint32_t) (magnitude >> 30 & 63);
	uint64_t	above = magnitude >> 36;

	if (reader.failed || capstan_bytes_left(&reader) > 0 || usecs > 999999 || second > 59 || minute > 59)
		return malformed(printer);
	if (column_type == BINLOG_TYPE_TIME)
	{
		if (above > 838)
			return malformed(printer);
		capstan_strbuf_printf(printer->out, "\"%s%02u:%02u:%02u.%06u\"", negative ? "-" : "",
							  (unsigned) above, minute, second, usecs);
	}
	else
	{
		uint32_t	hour = (uint32_t) (above & 31);
		uint32_t	day = (uint32_t) (above >> 5 & 31);
		uint64_t	month = (above >> 10) % 13;
		uint64_t	year = (above >> 10) / 13;

		if (negative || hour > 23 || year > 9999)
			return malformed(printer);
		capstan_strbuf_printf(printer->out, "\"%04u-%02u-%02u", (unsigned) year, (unsigned) month, day);
		if (column_type != BINLOG_TYPE_DATE)
			capstan_strbuf_printf(printer->out, " %02u:%02u:%02u.%06u", hour, minute, second, usecs);
		capstan_strbuf_append_char(printer->out, '"');
	}
	return true;
}

/* u8 precision, u8 scale, packed decimal. */
static bool
print_decimal(JsonPrinter *printer, const uint8_t *data, size_t length)
{
	if (length < 2 || data[0] < 1 || data[0] > DECIMAL_DIGITS_MAX || data[1] > data[0] ||
		length - 2 != (size_t) capstan_decimal_packed_size(data[0], data[1]) ||
		!capstan_decimal_to_text(data + 2, data[0], data[1], printer->out))
		return malformed(printer);
	return true;
}

/* ---- strings, opaque values, containers ---- */

static bool
read_length(ByteReader *reader, size_t *length)
{
	uint64_t	value = 0;

	for (int shift = 0; shift < 35; shift += 7)
	{
		uint8_t		byte = capstan_bytes_u8(reader);

		value |= (uint64_t) (byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
		{
			*length = (size_t) value;
			return !reader->failed && value <= UINT32_MAX;
		}
	}
	return false;
}

static bool
print_opaque(JsonPrinter *printer, ByteReader *reader)
{
	uint8_t		column_type = capstan_bytes_u8(reader);
	size_t		length;
	const uint8_t *data;

	if (!read_length(reader, &length) || (data = capstan_bytes_take(reader, length)) == NULL)
		return malformed(printer);
	switch (column_type)
	{
		case BINLOG_TYPE_NEWDECIMAL:
			return print_decimal(printer, data, length);
		case BINLOG_TYPE_DATE:
		case BINLOG_TYPE_TIME:
		case BINLOG_TYPE_DATETIME:
		case BINLOG_TYPE_TIMESTAMP:
			return print_temporal(printer, column_type, data, length);
		default:
			capstan_strbuf_printf(printer->out, "\"base64:type%d:", column_type);
			print_base64(printer->out, data, length);
			capstan_strbuf_append_char(printer->out, '"');
			return check_output(printer);
	}
}

static bool
print_literal(JsonPrinter *printer, uint8_t literal)
{
	static const char *const names[] = {"null", "true", "false"};

	if (literal > JSON_LITERAL_FALSE)
		return malformed(printer);
	capstan_strbuf_append_str(printer->out, names[literal]);
	return true;
}

bool
capstan_json_integer(const JsonValue *value, int64_t *integer)
{
	ByteReader	reader = capstan_bytes_reader(value->data, value->length);

	switch ((JsonType) value->type)
	{
		case JSON_INT16:
			*integer = (int16_t) capstan_bytes_u16(&reader);
			break;
		case JSON_UINT16:
			*integer = capstan_bytes_u16(&reader);
			break;
		case JSON_INT32:
			*integer = (int32_t) capstan_bytes_u32(&reader);
			break;
		case JSON_UINT32:
			*integer = capstan_bytes_u32(&reader);
			break;
		case JSON_INT64:
			*integer = (int64_t) capstan_bytes_u64(&reader);
			break;
		case JSON_UINT64:
			*integer = (int64_t) capstan_bytes_u64(&reader);
			return !reader.failed && *integer >= 0;
		default:
			return false;
	}
	return !reader.failed;
}

bool
capstan_json_string(const JsonValue *value, SourceBytes *string)
{
	ByteReader	reader = capstan_bytes_reader(value->data, value->length);

	if (!read_length(&reader, &string->length))
		return false;
	string->data = (const char *) capstan_bytes_take(&reader, string->length);
	return string->data != NULL;
}

/* Is a value of this type itself in its entry, in place of an offset of `width` bytes? */
static bool
is_inlined(uint8_t type, int width)
{
	switch (type)
	{
		case JSON_LITERAL:
		case JSON_INT16:
		case JSON_UINT16:
			return true;
		case JSON_INT32:
		case JSON_UINT32:
			return width == 4;
		default:
			return false;
	}
}

bool
capstan_json_open(const JsonValue *value, JsonContainer *container)
{
	ByteReader	reader = capstan_bytes_reader(value->data, value->length);
	uint64_t	head;
	uint64_t	entry;

	container->is_object = value->type == JSON_SMALL_OBJECT || value->type == JSON_LARGE_OBJECT;
	container->width = value->type == JSON_SMALL_OBJECT || value->type == JSON_SMALL_ARRAY ? 2 : 4;
	container->data = value->data;
	container->count = capstan_bytes_uint(&reader, container->width);
	container->size = (size_t) capstan_bytes_uint(&reader, container->width);
	head = 2 * (uint64_t) container->width;
	entry = (uint64_t) container->width + 1 + (container->is_object ? (uint64_t) container->width + 2 : 0);
	return !reader.failed && container->size <= value->length && container->size >= head &&
		container->count <= (container->size - head) / entry;
}

bool
capstan_json_element(const JsonContainer *container, uint64_t index, SourceBytes *key, JsonValue *value)
{
	size_t		width = (size_t) container->width;
	size_t		key_entry = container->is_object ? width + 2 : 0;
	ByteReader	reader;

	/* That all entries are there was checked when it was opened. */
	if (container->is_object)
	{
		uint64_t	offset;

		reader = capstan_bytes_reader(container->data + 2 * width + index * key_entry, key_entry);
		offset = capstan_bytes_uint(&reader, container->width);
		key->length = capstan_bytes_u16(&reader);
		if (offset > container->size || key->length > container->size - offset)
			return false;
		key->data = (const char *) container->data + offset;
	}
	reader = capstan_bytes_reader(container->data + 2 * width + container->count * key_entry + index * (width + 1), width + 1);
	value->type = capstan_bytes_u8(&reader);
	if (is_inlined(value->type, container->width))
	{
		value->data = reader.pos;
		value->length = width;
	}
	else
	{
		uint64_t	offset = capstan_bytes_uint(&reader, container->width);

		if (offset >= container->size)
			return false;
		value->data = container->data + offset;
		value->length = container->size - (size_t) offset;
	}
	return true;
}

static bool
print_container(JsonPrinter *printer, const JsonValue *value, int depth)
{
	JsonContainer container;

	if (depth >= JSON_DEPTH_MAX)
		return capstan_error(printer->error, CAPSTAN_ERROR_LIMIT, "JSON value is nested deeper than %d levels",
							 JSON_DEPTH_MAX);
	if (!capstan_json_open(value, &container))
		return malformed(printer);
	capstan_strbuf_append_char(printer->out, container.is_object ? '{' : '[');
	for (uint64_t i = 0; i < container.count; i++)
	{
		SourceBytes key;
		JsonValue	element;

		if (!capstan_json_element(&container, i, &key, &element))
			return malformed(printer);
		if (i > 0)
			capstan_strbuf_append_str(printer->out, ", ");
		if (container.is_object)
		{
			capstan_json_print_string(printer->out, (const uint8_t *) key.data, key.length);
			capstan_strbuf_append_str(printer->out, ": ");
		}
		if (!check_output(printer) || !capstan_json_print(printer, &element, depth + 1))
			return false;
	}
	capstan_strbuf_append_char(printer->out, container.is_object ? '}' : ']');
	return true;
}

bool
capstan_json_print(JsonPrinter *printer, const JsonValue *value, int depth)
{
	ByteReader	reader = capstan_bytes_reader(value->data, value->length);
	uint64_t	bits;
	double		real;
	int64_t		integer;
	SourceBytes string;

	if (!capstan_json_take_room(&printer->room, value))
		return malformed(printer);
	switch ((JsonType) value->type)
	{
		case JSON_SMALL_OBJECT:
		case JSON_LARGE_OBJECT:
		case JSON_SMALL_ARRAY:
		case JSON_LARGE_ARRAY:
			return print_container(printer, value, depth);
		case JSON_STRING:
			if (!capstan_json_string(value, &string))
				return malformed(printer);
			capstan_json_print_string(printer->out, (const uint8_t *) string.data, string.length);
			return check_output(printer);
		case JSON_OPAQUE:
			return print_opaque(printer, &reader);
		case JSON_LITERAL:
			if (value->length < 1)
				return malformed(printer);
			return print_literal(printer, capstan_bytes_u8(&reader));
		case JSON_DOUBLE:
			bits = capstan_bytes_u64(&reader);
			memcpy(&real, &bits, sizeof(real));
			return reader.failed ? malformed(printer) : print_double(printer, real);
		case JSON_UINT64:
			print_unsigned(printer->out, capstan_bytes_u64(&reader));
			return reader.failed ? malformed(printer) : true;
		default:
			if (!capstan_json_integer(value, &integer))
				return malformed(printer);
			print_signed(printer->out, integer);
			return true;
	}
}

bool
capstan_json_to_text(const uint8_t *data, size_t length, StrBuf *out, CapstanError *error)
{
	JsonPrinter printer;
	JsonValue	value;

	/* No bytes at all: what IGNORE makes of a value it cannot store; the server reads it as null. */
	if (length == 0)
	{
		capstan_strbuf_append_str(out, "null");
		return true;
	}
	value.type = data[0];
	value.data = data + 1;
	value.length = length - 1;
	capstan_json_printer(&printer, out, length, error);
	return capstan_json_print(&printer, &value, 0);
}
