/*
 * jsonwalk.c
 *		Binary JSON told to a visitor (row.h), value by value: what json.c prints, without the text in between.
 *
 * What is printed in a way of its own, decimals, doubles and values of other SQL types, json.c prints here, too.
 */
#include "binlog/json_internal.h"

typedef struct Walker
{
	const SourceDocumentVisitor *visitor;
	void	   *arg;
	/* What may still be told, see json.c: offsets may point to the same bytes again and again. */
	size_t		left;			/* bytes */
	size_t		room;			/* for values */
	StrBuf		text;			/* of one value, as json.c prints it */
	StrBuf		plain;			/* of one that is a string, without escapes */
	CapstanError *error;
} Walker;

static bool
malformed(Walker *walker)
{
	return capstan_error(walker->error, CAPSTAN_ERROR_MALFORMED, "JSON value is malformed");
}

/* The two are at least what stands around a value in the text. */
static bool
spend(Walker *walker, size_t length)
{
	if (walker->left < length + 2)
		return malformed(walker);
	walker->left -= length + 2;
	return true;
}

static bool
walk_printed(Walker *walker, const JsonValue *value)
{
	JsonPrinter printer;
	SourceBytes between;

	capstan_strbuf_reset(&walker->text);
	capstan_json_printer(&printer, &walker->text, value->length, walker->error);
	if (!capstan_json_print(&printer, value, 0) || !spend(walker, walker->text.length))
		return false;
	if (walker->text.data[0] != '"')
	{
		walker->visitor->number(walker->arg, walker->text.data);
		return true;
	}
	between.data = walker->text.data + 1;
	between.length = walker->text.length - 2;
	capstan_strbuf_reset(&walker->plain);
	if (!capstan_json_text_unescape(&between, &walker->plain))
		return malformed(walker);
	walker->visitor->string(walker->arg, walker->plain.data, walker->plain.length, true);
	return true;
}

static bool walk_value(Walker *walker, const JsonValue *value, int depth);

static bool
walk_container(Walker *walker, const JsonValue *value, int depth)
{
	JsonContainer container;

	if (depth >= JSON_DEPTH_MAX)
		return capstan_error(walker->error, CAPSTAN_ERROR_LIMIT, "JSON value is nested deeper than %d levels", JSON_DEPTH_MAX);
	if (!capstan_json_open(value, &container))
		return malformed(walker);
	walker->visitor->begin(walker->arg, container.is_object);
	for (uint64_t i = 0; i < container.count; i++)
	{
		SourceBytes name;
		JsonValue	element;

		if (!capstan_json_element(&container, i, &name, &element))
			return malformed(walker);
		if (container.is_object)
		{
			if (!spend(walker, name.length))
				return false;
			walker->visitor->name(walker->arg, name.data, name.length);
		}
		if (!walk_value(walker, &element, depth + 1))
			return false;
	}
	walker->visitor->end(walker->arg, container.is_object);
	return true;
}

static bool
walk_literal(Walker *walker, const JsonValue *value)
{
	if (value->length < 1 || value->data[0] > JSON_LITERAL_FALSE)
		return malformed(walker);
	if (value->data[0] == JSON_LITERAL_NULL)
		walker->visitor->null(walker->arg);
	else
		walker->visitor->boolean(walker->arg, value->data[0] == JSON_LITERAL_TRUE);
	return true;
}

static bool
walk_value(Walker *walker, const JsonValue *value, int depth)
{
	SourceBytes string;
	int64_t		integer;

	if (!capstan_json_take_room(&walker->room, value))
		return malformed(walker);
	switch ((JsonType) value->type)
	{
		case JSON_SMALL_OBJECT:
		case JSON_LARGE_OBJECT:
		case JSON_SMALL_ARRAY:
		case JSON_LARGE_ARRAY:
			return walk_container(walker, value, depth);
		case JSON_STRING:
			if (!capstan_json_string(value, &string))
				return malformed(walker);
			if (!spend(walker, string.length))
				return false;
			walker->visitor->string(walker->arg, string.data, string.length, false);
			return true;
		case JSON_LITERAL:
			return walk_literal(walker, value);
		default:
			if (!capstan_json_integer(value, &integer))
				return walk_printed(walker, value);
			walker->visitor->integer(walker->arg, integer);
			return true;
	}
}

bool
capstan_json_walk(const uint8_t *data, size_t length, const SourceDocumentVisitor *visitor, void *arg, CapstanError *error)
{
	Walker		walker = {.visitor = visitor, .arg = arg, .left = capstan_json_most_text(length), .room = capstan_json_room(length), .error = error};
	JsonValue	value;
	bool		result;

	/* see capstan_json_to_text() */
	if (length == 0)
	{
		visitor->null(arg);
		return true;
	}
	value.type = data[0];
	value.data = data + 1;
	value.length = length - 1;
	capstan_strbuf_init(&walker.text);
	capstan_strbuf_init(&walker.plain);
	result = walk_value(&walker, &value, 0);
	capstan_strbuf_free(&walker.text);
	capstan_strbuf_free(&walker.plain);
	return result;
}
