/*
 * told.h
 *		A binary JSON document told to a visitor that writes it down again: the text must be that of capstan_json_to_text().
 *		For the unit tests and the fuzzers.
 */
#ifndef CAPSTAN_TOLD_H
#define CAPSTAN_TOLD_H

#include <inttypes.h>

#include "binlog/json_internal.h"

typedef struct ToldText
{
	StrBuf	   *out;
	bool		first;			/* in its container, or behind a name */
} ToldText;

static inline StrBuf *
told_value(void *arg)
{
	ToldText   *text = arg;

	if (!text->first)
		capstan_strbuf_append_str(text->out, ", ");
	text->first = false;
	return text->out;
}

static inline void
told_begin(void *arg, bool is_object)
{
	capstan_strbuf_append_char(told_value(arg), is_object ? '{' : '[');
	((ToldText *) arg)->first = true;
}

static inline void
told_end(void *arg, bool is_object)
{
	capstan_strbuf_append_char(((ToldText *) arg)->out, is_object ? '}' : ']');
	((ToldText *) arg)->first = false;
}

static inline void
told_name(void *arg, const char *data, size_t length)
{
	StrBuf	   *out = told_value(arg);

	capstan_json_print_string(out, (const uint8_t *) data, length);
	capstan_strbuf_append_str(out, ": ");
	((ToldText *) arg)->first = true;
}

static inline void
told_string(void *arg, const char *data, size_t length, bool made)
{
	(void) made;
	capstan_json_print_string(told_value(arg), (const uint8_t *) data, length);
}

static inline void
told_integer(void *arg, int64_t value)
{
	capstan_strbuf_printf(told_value(arg), "%" PRId64, value);
}

static inline void
told_number(void *arg, const char *text)
{
	capstan_strbuf_append_str(told_value(arg), text);
}

static inline void
told_boolean(void *arg, bool value)
{
	capstan_strbuf_append_str(told_value(arg), value ? "true" : "false");
}

static inline void
told_null(void *arg)
{
	capstan_strbuf_append_str(told_value(arg), "null");
}

/* Appended to out, which holds what was told so far if it is no document. */
static inline bool
told_text(bool (*walk) (const uint8_t *, size_t, const SourceDocumentVisitor *, void *, CapstanError *),
		  const uint8_t *data, size_t length, StrBuf *out, CapstanError *error)
{
	static const SourceDocumentVisitor visitor = {
		told_begin, told_end, told_name, told_string, told_integer, told_number, told_boolean, told_null
	};
	ToldText	text = {out, true};

	return walk(data, length, &visitor, &text, error);
}

#endif
