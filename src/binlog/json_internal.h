/*
 * json_internal.h
 *		Binary JSON as json.c reads and prints it, and JSON text as jsontext.c takes it apart, for jsondiff.c only.
 */
#ifndef CAPSTAN_JSON_INTERNAL_H
#define CAPSTAN_JSON_INTERNAL_H

#include "binlog/internal.h"

#define JSON_DEPTH_MAX 100		/* the server's own limit */

typedef enum JsonType
{
	JSON_SMALL_OBJECT = 0,
	JSON_LARGE_OBJECT = 1,
	JSON_SMALL_ARRAY = 2,
	JSON_LARGE_ARRAY = 3,
	JSON_LITERAL = 4,
	JSON_INT16 = 5,
	JSON_UINT16 = 6,
	JSON_INT32 = 7,
	JSON_UINT32 = 8,
	JSON_INT64 = 9,
	JSON_UINT64 = 10,
	JSON_DOUBLE = 11,
	JSON_STRING = 12,
	JSON_OPAQUE = 15
} JsonType;

typedef enum JsonLiteral
{
	JSON_LITERAL_NULL = 0,
	JSON_LITERAL_TRUE = 1,
	JSON_LITERAL_FALSE = 2
} JsonLiteral;

/* length: of what is left behind data, not of the value, which tells its own. */
typedef struct JsonValue
{
	uint8_t		type;			/* JsonType */
	const uint8_t *data;
	size_t		length;
} JsonValue;

typedef struct JsonContainer
{
	bool		is_object;
	int			width;			/* of counts, sizes and offsets */
	uint64_t	count;
	size_t		size;
	const uint8_t *data;
} JsonContainer;

typedef struct JsonPrinter
{
	StrBuf	   *out;
	size_t		limit;			/* of out's length */
	size_t		room;			/* see capstan_json_take_room */
	CapstanError *error;
} JsonPrinter;

/* Limits the output, and the number of values, by what a document of that many bytes can honestly print. */
extern void capstan_json_printer(JsonPrinter *printer, StrBuf *out, size_t document_length, CapstanError *error);
/* depth: how many containers are around the value. */
extern bool capstan_json_print(JsonPrinter *printer, const JsonValue *value, int depth);
extern void capstan_json_print_string(StrBuf *out, const uint8_t *data, size_t length);

/* Most bytes of text that an honest document of that many bytes has. */
extern size_t capstan_json_most_text(size_t document_length);
/* The room that a document of that many bytes has for its values, and what one takes of it at least; false: there is not so much left. */
extern size_t capstan_json_room(size_t document_length);
extern bool capstan_json_take_room(size_t *room, const JsonValue *value);
/* An integer that is an int64_t; false if the value is something else, or cut off. */
extern bool capstan_json_integer(const JsonValue *value, int64_t *integer);
/* A JSON_STRING; false if it is cut off. */
extern bool capstan_json_string(const JsonValue *value, SourceBytes *string);

/* An object or array; false if its size or count is wrong. */
extern bool capstan_json_open(const JsonValue *value, JsonContainer *container);
/* key: objects only.  false if an offset points out of it. */
extern bool capstan_json_element(const JsonContainer *container, uint64_t index, SourceBytes *key, JsonValue *value);

/* ---- text (jsontext.c) ---- */

typedef struct JsonTextContainer
{
	bool		is_object;
	bool		first;			/* nothing was read yet */
	ByteReader	reader;
} JsonTextContainer;

typedef enum JsonTextNext
{
	JSON_TEXT_MALFORMED = -1,
	JSON_TEXT_END = 0,
	JSON_TEXT_MEMBER = 1
} JsonTextNext;

/* The one value of the text, without the blanks around it; false if it is not just one. */
extern bool capstan_json_text_value(const uint8_t *text, size_t length, SourceBytes *value);
extern bool capstan_json_text_is_container(const SourceBytes *value);
extern void capstan_json_text_open(const SourceBytes *value, JsonTextContainer *container);
/* key: objects only; what is between the quotes, escapes and all. */
extern JsonTextNext capstan_json_text_next(JsonTextContainer *container, SourceBytes *key, SourceBytes *value);
/* The key itself, appended to out; false if an escape is none that MySQL or jsonb writes. */
extern bool capstan_json_text_unescape(const SourceBytes *key, StrBuf *out);
/* Behind the backslash. */
extern bool capstan_json_text_read_escape(ByteReader *reader, StrBuf *out);

#endif
