/*
 * gtidset_io.c
 *		GTID sets as text and in the server's binary form.
 *
 * Binary, integers little-endian (Gtid_set::encode and Gtid_format in MySQL's
 * sql/rpl_gtid_set.cc):
 *
 *	   untagged:	u64 count, then per source
 *					uuid[16]  u64 nintervals  nintervals x (u64 first, u64 last + 1)
 *	   tagged:		u64 with format 1 in the highest and in the lowest byte and the count
 *					in the six bytes between, then per (uuid, tag)
 *					uuid[16]  tag length  tag  u64 nintervals  intervals as above
 *
 * The tag's length is one byte, length << 1 (a variable-length integer of MySQL's serialization library;
 * tags have at most 32 bytes).
 */
#include "base/gtidset_internal.h"

#include <string.h>

#include "base/bytes.h"

#define FORMAT_UNTAGGED 0
#define FORMAT_TAGGED 1

static const char hex_digits[] = "0123456789abcdef";

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool
capstan_uuid_parse(const char *text, uint8_t uuid[16])
{
	int			at = 0;

	for (int i = 0; i < 16; i++)
	{
		int			high;
		int			low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && text[at++] != '-')
			return false;
		high = hex_value(text[at]);
		if (high < 0)
			return false;
		low = hex_value(text[at + 1]);
		if (low < 0)
			return false;
		uuid[i] = (uint8_t) (high << 4 | low);
		at += 2;
	}
	return true;
}

void
capstan_uuid_format(const uint8_t uuid[16], char out[37])
{
	char	   *to = out;

	for (int i = 0; i < 16; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		*to++ = hex_digits[uuid[i] >> 4];
		*to++ = hex_digits[uuid[i] & 15];
	}
	*to = '\0';
}

/* Decimal digits and a NUL; returns how many digits. */
static size_t
format_number(uint64_t number, char out[21])
{
	char		reversed[20];
	size_t		n = 0;

	do
	{
		reversed[n++] = (char) ('0' + number % 10);
		number /= 10;
	} while (number > 0);
	for (size_t i = 0; i < n; i++)
		out[i] = reversed[n - 1 - i];
	out[n] = '\0';
	return n;
}

void
capstan_gtid_format(const Gtid *gtid, char out[CAPSTAN_GTID_TEXT_MAX])
{
	char	   *to = out + 36;
	size_t		tag_length = strlen(gtid->tag);

	capstan_uuid_format(gtid->uuid, out);
	*to++ = ':';
	if (tag_length > 0)
	{
		memcpy(to, gtid->tag, tag_length);
		to += tag_length;
		*to++ = ':';
	}
	format_number(gtid->number, to);
}

void
capstan_gtidset_format(const GtidSet *set, StrBuf *out)
{
	char		text[37];

	/* So that out->data is a string for the empty set too. */
	capstan_strbuf_append(out, "", 0);
	for (size_t i = 0; i < set->nsources; i++)
	{
		const GtidSource *source = &set->sources[i];

		if (i == 0 || memcmp(source->uuid, set->sources[i - 1].uuid, sizeof(source->uuid)) != 0)
		{
			if (i > 0)
				capstan_strbuf_append_char(out, ',');
			capstan_uuid_format(source->uuid, text);
			capstan_strbuf_append(out, text, 36);
		}
		if (source->tag[0] != '\0')
		{
			capstan_strbuf_append_char(out, ':');
			capstan_strbuf_append_str(out, source->tag);
		}
		for (size_t j = 0; j < source->nintervals; j++)
		{
			const GtidInterval *interval = &source->intervals[j];

			capstan_strbuf_append_char(out, ':');
			capstan_strbuf_append(out, text, format_number(interval->first, text));
			if (interval->last > interval->first)
			{
				capstan_strbuf_append_char(out, '-');
				capstan_strbuf_append(out, text, format_number(interval->last, text));
			}
		}
	}
}

/* ---- parsing ---- */

typedef struct SetParser
{
	const char *start;
	const char *pos;
	const char *end;
	CapstanError *error;
} SetParser;

static bool
parse_error(const SetParser *parser, const char *what)
{
	return capstan_error(parser->error, CAPSTAN_ERROR_MALFORMED, "invalid GTID set: %s at character %zu",
						 what, (size_t) (parser->pos - parser->start) + 1);
}

static void
skip_space(SetParser *parser)
{
	while (parser->pos < parser->end &&
		   (*parser->pos == ' ' || (*parser->pos >= '\t' && *parser->pos <= '\r')))
		parser->pos++;
}

static bool
at_char(const SetParser *parser, char c)
{
	return parser->pos < parser->end && *parser->pos == c;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
parse_number(SetParser *parser, uint64_t *number)
{
	uint64_t	value = 0;

	if (parser->pos == parser->end || !is_digit(*parser->pos))
		return parse_error(parser, "expected a number");
	for (; parser->pos < parser->end && is_digit(*parser->pos); parser->pos++)
	{
		value = value * 10 + (uint64_t) (*parser->pos - '0');
		if (value > CAPSTAN_GTID_NUMBER_MAX)
			return parse_error(parser, "number is out of range");
	}
	if (value == 0)
		return parse_error(parser, "number is out of range");
	*number = value;
	return true;
}

static bool
parse_tag(SetParser *parser, char tag[CAPSTAN_GTID_TAG_MAX + 1])
{
	int			length = 0;

	for (; parser->pos < parser->end; parser->pos++)
	{
		char		c = *parser->pos;

		if (c >= 'A' && c <= 'Z')
			c = (char) (c - 'A' + 'a');
		if (!((c >= 'a' && c <= 'z') || c == '_' || (length > 0 && is_digit(c))))
			break;
		if (length == CAPSTAN_GTID_TAG_MAX)
			return parse_error(parser, "tag is too long");
		tag[length++] = c;
	}
	if (length == 0)
		return parse_error(parser, "expected a number or a tag");
	tag[length] = '\0';
	return true;
}

/* uuid { ":" ( tag ":" interval | interval ) }, at least one interval after the uuid and after each tag. */
static bool
parse_source(SetParser *parser, GtidSet *set)
{
	uint8_t		uuid[16];
	char		tag[CAPSTAN_GTID_TAG_MAX + 1] = "";
	bool		need_interval = true;

	if (parser->end - parser->pos < 36 || !capstan_uuid_parse(parser->pos, uuid))
		return parse_error(parser, "expected a uuid");
	parser->pos += 36;

	for (;;)
	{
		uint64_t	first;
		uint64_t	last;

		skip_space(parser);
		if (!at_char(parser, ':'))
			break;
		parser->pos++;
		skip_space(parser);
		if (parser->pos == parser->end || !is_digit(*parser->pos))
		{
			if (need_interval && tag[0] != '\0')
				return parse_error(parser, "expected a number");
			if (!parse_tag(parser, tag))
				return false;
			need_interval = true;
			continue;
		}
		if (!parse_number(parser, &first))
			return false;
		last = first;
		skip_space(parser);
		if (at_char(parser, '-'))
		{
			parser->pos++;
			skip_space(parser);
			if (!parse_number(parser, &last))
				return false;
			if (last < first)
				return parse_error(parser, "interval ends before it begins");
		}
		capstan_gtidset_append(set, uuid, tag, first, last);
		need_interval = false;
	}
	return need_interval ? parse_error(parser, "expected \":\" and a number") : true;
}

GtidSet *
capstan_gtidset_parse(const char *text, size_t length, CapstanError *error)
{
	GtidSet    *set = capstan_gtidset_create();
	SetParser	parser = {text, text, text + length, error};

	for (;;)
	{
		/* Empty members are fine: "a:1,,b:1", a leading or trailing comma. */
		skip_space(&parser);
		while (at_char(&parser, ','))
		{
			parser.pos++;
			skip_space(&parser);
		}
		if (parser.pos == parser.end)
		{
			capstan_gtidset_settle(set);
			return set;
		}
		if (!parse_source(&parser, set))
			break;
		if (parser.pos < parser.end && !at_char(&parser, ','))
		{
			parse_error(&parser, "unexpected character");
			break;
		}
	}
	capstan_gtidset_free(set);
	return NULL;
}

/* ---- the binary form ---- */

static void
append_u64(StrBuf *out, uint64_t value)
{
	uint8_t		bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t) (value >> (8 * i));
	capstan_strbuf_append(out, bytes, sizeof(bytes));
}

void
capstan_gtidset_encode(const GtidSet *set, StrBuf *out)
{
	bool		tagged = false;

	for (size_t i = 0; i < set->nsources; i++)
	{
		if (set->sources[i].tag[0] != '\0')
			tagged = true;
	}

	if (tagged)
		append_u64(out, (uint64_t) FORMAT_TAGGED << 56 | (uint64_t) set->nsources << 8 | FORMAT_TAGGED);
	else
		append_u64(out, set->nsources);
	for (size_t i = 0; i < set->nsources; i++)
	{
		const GtidSource *source = &set->sources[i];

		capstan_strbuf_append(out, source->uuid, sizeof(source->uuid));
		if (tagged)
		{
			size_t		length = strlen(source->tag);

			capstan_strbuf_append_char(out, (char) (length << 1));
			capstan_strbuf_append(out, source->tag, length);
		}
		append_u64(out, source->nintervals);
		for (size_t j = 0; j < source->nintervals; j++)
		{
			append_u64(out, source->intervals[j].first);
			append_u64(out, source->intervals[j].last + 1);
		}
	}
}

/* A tag as the server stores it: normalised already, so other bytes are an error. */
static bool
decode_tag(ByteReader *reader, char tag[CAPSTAN_GTID_TAG_MAX + 1])
{
	uint8_t		length = capstan_bytes_u8(reader);
	const uint8_t *bytes;

	if ((length & 1) != 0 || length >> 1 > CAPSTAN_GTID_TAG_MAX)
		return false;
	length >>= 1;
	bytes = capstan_bytes_take(reader, length);
	if (bytes == NULL)
		return false;
	for (int i = 0; i < length; i++)
	{
		char		c = (char) bytes[i];

		if (!((c >= 'a' && c <= 'z') || c == '_' || (i > 0 && is_digit(c))))
			return false;
		tag[i] = c;
	}
	tag[length] = '\0';
	return true;
}

GtidSet *
capstan_gtidset_decode(const uint8_t *data, size_t length, CapstanError *error)
{
	ByteReader	reader = capstan_bytes_reader(data, length);
	uint64_t	count = capstan_bytes_u64(&reader);
	int			format = (int) (count >> 56);
	GtidSet    *set;

	if (reader.failed || format > FORMAT_TAGGED)
	{
		capstan_error(error, reader.failed ? CAPSTAN_ERROR_TRUNCATED : CAPSTAN_ERROR_UNSUPPORTED,
					  "GTID set has an unknown encoding");
		return NULL;
	}
	if (format == FORMAT_TAGGED)
		count = (count >> 8) & UINT64_C(0xffffffffffff);

	set = capstan_gtidset_create();
	for (uint64_t i = 0; i < count; i++)
	{
		const uint8_t *uuid = capstan_bytes_take(&reader, 16);
		char		tag[CAPSTAN_GTID_TAG_MAX + 1] = "";
		uint64_t	nintervals;

		if (format == FORMAT_TAGGED && !decode_tag(&reader, tag))
			goto malformed;
		nintervals = capstan_bytes_u64(&reader);
		for (uint64_t j = 0; j < nintervals; j++)
		{
			uint64_t	first = capstan_bytes_u64(&reader);
			uint64_t	after = capstan_bytes_u64(&reader);

			if (reader.failed || first < 1 || after <= first || after - 1 > CAPSTAN_GTID_NUMBER_MAX)
				goto malformed;
			capstan_gtidset_append(set, uuid, tag, first, after - 1);
		}
		if (reader.failed)
			goto malformed;
	}
	if (capstan_bytes_left(&reader) == 0)
	{
		capstan_gtidset_settle(set);
		return set;
	}

malformed:
	capstan_error(error, CAPSTAN_ERROR_MALFORMED, "encoded GTID set is malformed");
	capstan_gtidset_free(set);
	return NULL;
}
