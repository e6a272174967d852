/*
 * jsontext.c
 *		JSON text taken apart one container at a time, for jsondiff.c only.
 *
 * The text is a document of the target's: what json.c or MySQL itself has printed, or what jsonb prints of that.  It may also be
 * what somebody else has put there, so nothing is believed; but what is between the members that are asked for is
 * not looked at more closely than it takes to find its end.
 */
#include "binlog/json_internal.h"

static void
skip_blanks(ByteReader *reader)
{
	while (capstan_bytes_left(reader) > 0 &&
		   (*reader->pos == ' ' || *reader->pos == '\n' || *reader->pos == '\t' || *reader->pos == '\r'))
		reader->pos++;
}

/* On the opening quote; moves behind the closing one. */
static bool
skip_string(ByteReader *reader)
{
	reader->pos++;
	while (capstan_bytes_left(reader) > 0)
	{
		uint8_t		c = *reader->pos++;

		if (c == '"')
			return true;
		if (c == '\\' && capstan_bytes_left(reader) > 0)
			reader->pos++;
	}
	return false;
}

static bool
ends_scalar(uint8_t c)
{
	return c == ',' || c == '}' || c == ']' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A container is skipped without recursion: brackets are counted. */
static bool
skip_value(ByteReader *reader)
{
	const uint8_t *start = reader->pos;
	int			depth = 0;

	while (capstan_bytes_left(reader) > 0)
	{
		uint8_t		c = *reader->pos;

		if (c == '"')
		{
			if (!skip_string(reader))
				return false;
			if (depth == 0)
				return true;
			continue;
		}
		if (depth == 0 && ends_scalar(c))
			break;
		reader->pos++;
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && --depth == 0)
			return true;
	}
	return depth == 0 && reader->pos > start;
}

bool
capstan_json_text_value(const uint8_t *text, size_t length, SourceBytes *value)
{
	ByteReader	reader = capstan_bytes_reader(text, length);

	skip_blanks(&reader);
	value->data = (const char *) reader.pos;
	if (!skip_value(&reader))
		return false;
	value->length = (size_t) (reader.pos - (const uint8_t *) value->data);
	skip_blanks(&reader);
	return capstan_bytes_left(&reader) == 0;
}

bool
capstan_json_text_is_container(const SourceBytes *value)
{
	return value->length > 0 && (value->data[0] == '{' || value->data[0] == '[');
}

void
capstan_json_text_open(const SourceBytes *value, JsonTextContainer *container)
{
	container->is_object = value->data[0] == '{';
	container->first = true;
	container->reader = capstan_bytes_reader((const uint8_t *) value->data + 1, value->length - 1);
}

JsonTextNext
capstan_json_text_next(JsonTextContainer *container, SourceBytes *key, SourceBytes *value)
{
	ByteReader *reader = &container->reader;

	skip_blanks(reader);
	if (capstan_bytes_left(reader) == 0)
		return JSON_TEXT_MALFORMED;
	if (*reader->pos == (container->is_object ? '}' : ']'))
		return capstan_bytes_left(reader) == 1 ? JSON_TEXT_END : JSON_TEXT_MALFORMED;
	if (!container->first)
	{
		if (*reader->pos++ != ',')
			return JSON_TEXT_MALFORMED;
		skip_blanks(reader);
	}
	container->first = false;
	if (container->is_object)
	{
		key->data = (const char *) reader->pos + 1;
		if (capstan_bytes_left(reader) == 0 || *reader->pos != '"' || !skip_string(reader))
			return JSON_TEXT_MALFORMED;
		key->length = (size_t) ((const char *) reader->pos - key->data) - 1;
		skip_blanks(reader);
		if (capstan_bytes_left(reader) == 0 || *reader->pos++ != ':')
			return JSON_TEXT_MALFORMED;
		skip_blanks(reader);
	}
	value->data = (const char *) reader->pos;
	if (!skip_value(reader))
		return JSON_TEXT_MALFORMED;
	value->length = (size_t) (reader->pos - (const uint8_t *) value->data);
	return JSON_TEXT_MEMBER;
}

static int
hex_value(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \uXXXX; MySQL and jsonb write it for control characters only. */
static bool
read_unicode(ByteReader *reader, StrBuf *out)
{
	const uint8_t *digits = capstan_bytes_take(reader, 4);
	int			code = 0;

	for (int i = 0; digits != NULL && i < 4; i++)
	{
		int			value = hex_value(digits[i]);

		if (value < 0)
			return false;
		code = code << 4 | value;
	}
	if (digits == NULL || code >= 0x80)
		return false;
	capstan_strbuf_append_char(out, (char) code);
	return true;
}

bool
capstan_json_text_read_escape(ByteReader *reader, StrBuf *out)
{
	static const char letters[] = "btnfr\"\\/";
	static const char meanings[] = "\b\t\n\f\r\"\\/";
	uint8_t		c = capstan_bytes_u8(reader);
	const char *letter;

	if (c == 'u')
		return read_unicode(reader, out);
	letter = c == '\0' ? NULL : strchr(letters, c);
	if (letter == NULL)
		return false;
	capstan_strbuf_append_char(out, meanings[letter - letters]);
	return true;
}

bool
capstan_json_text_unescape(const SourceBytes *key, StrBuf *out)
{
	ByteReader	reader = capstan_bytes_reader((const uint8_t *) key->data, key->length);

	while (capstan_bytes_left(&reader) > 0)
	{
		uint8_t		c = capstan_bytes_u8(&reader);

		if (c != '\\')
			capstan_strbuf_append_char(out, (char) c);
		else if (!capstan_json_text_read_escape(&reader, out))
			return false;
	}
	return true;
}
