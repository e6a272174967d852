/*
 * fuzz.h
 *		What the fuzz targets share: what must hold whatever the bytes were.
 *
 * The sanitizers find what is read or written out of bounds, and leaks; libFuzzer finds what takes too long.  Found here:
 * a failure that does not say why, and memory asked for out of proportion to the bytes that are there.
 */
#ifndef CAPSTAN_FUZZ_H
#define CAPSTAN_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "binlog/binlog.h"
#include "../unit/told.h"

/* A request for memory: this much at any time, and so many times the input's size. */
#define FUZZ_MEMORY_FIXED ((size_t) 1024 * 1024)
#define FUZZ_MEMORY_FACTOR 128

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_FAIL(what) (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (what)), abort())

static inline void
fuzz_must_explain(const CapstanError *error)
{
	if (error->code == CAPSTAN_OK || error->message[0] == '\0')
		FUZZ_FAIL("a failure without a reason");
}

static inline void
fuzz_check_memory(size_t size)
{
	if (capstan_memory_largest > FUZZ_MEMORY_FIXED + FUZZ_MEMORY_FACTOR * size)
		FUZZ_FAIL("memory out of proportion to the input");
}

/* A copy of its own, so that the sanitizer sees the first byte too many. */
static inline uint8_t *
fuzz_copy(const uint8_t *data, size_t length)
{
	uint8_t    *copy = malloc(length > 0 ? length : 1);

	if (length > 0)
		memcpy(copy, data, length);
	return copy;
}

/* Reads every byte, for the sanitizer. */
static inline void
fuzz_touch(const void *data, size_t length)
{
	volatile unsigned sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += ((const unsigned char *) data)[i];
	(void) sum;
}

/* A document has one text, printed or told, and is none by both or by neither. */
static inline void
fuzz_read_document(const SourceDocuments *documents, const uint8_t *data, size_t length)
{
	StrBuf		text;
	StrBuf		told;
	CapstanError error = {CAPSTAN_OK, ""};
	bool		is_told;

	capstan_strbuf_init(&text);
	capstan_strbuf_init(&told);
	is_told = told_text(documents->walk, data, length, &told, &error);
	if (!is_told)
		fuzz_must_explain(&error);
	error.code = CAPSTAN_OK;
	if (!documents->text(data, length, &text, &error))
		fuzz_must_explain(&error);
	else if (!is_told || text.length != told.length || memcmp(text.data, told.data, text.length) != 0)
		FUZZ_FAIL("a document is told in another way than it is printed");
	capstan_strbuf_free(&text);
	capstan_strbuf_free(&told);
}

/* Every byte of every value of an image; of a document that was left its text. */
static inline void
fuzz_touch_values(const SourceChange *change, const SourceValue *values)
{
	for (int i = 0; values != NULL && i < change->table->ncolumns; i++)
	{
		if (values[i].kind == VALUE_JSON_BINARY)
			fuzz_read_document(change->documents, (const uint8_t *) values[i].u.bytes.data, values[i].u.bytes.length);
		switch (values[i].kind)
		{
			case VALUE_DECIMAL:
			case VALUE_BITS:
			case VALUE_BYTES:
			case VALUE_JSON:
			case VALUE_JSON_BINARY:
				fuzz_touch(values[i].u.bytes.data, values[i].u.bytes.length);
				break;
			default:
				break;
		}
	}
}

/* All changes of the rows event just decoded. */
static inline void
fuzz_read_changes(BinlogDecoder *decoder)
{
	SourceChange change;
	BinlogNext	next;
	CapstanError error = {CAPSTAN_OK, ""};

	while ((next = capstan_binlog_next_change(decoder, &change, &error)) == BINLOG_CHANGE)
	{
		fuzz_touch_values(&change, change.before);
		fuzz_touch_values(&change, change.after);
	}
	if (next == BINLOG_ERROR)
		fuzz_must_explain(&error);
}

static inline void
fuzz_read_table(const SourceTable *table)
{
	StrBuf		out;

	capstan_strbuf_init(&out);
	capstan_source_table_signature(table, &out);
	capstan_source_table_shape(table, &out);
	capstan_strbuf_free(&out);
}

/* An event of the given type with this body and no checksum; free() it. */
static inline uint8_t *
fuzz_event(uint8_t type, const uint8_t *body, size_t body_length, size_t *length)
{
	uint8_t    *event;

	*length = 19 + body_length;
	event = calloc(1, *length);
	event[4] = type;
	for (int i = 0; i < 4; i++)
		event[9 + i] = (uint8_t) (*length >> (8 * i));
	if (body_length > 0)
		memcpy(event + 19, body, body_length);
	return event;
}

#endif
