/*
 * fuzz_jsondiff.c
 *		libFuzzer target: u32 length of a binary JSON document, the document, differences for it.
 *
 * The same differences applied to the document's text must give the same text.
 */
#include "binlog/internal.h"
#include "fuzz.h"

static void
compare_with_text(const uint8_t *document, size_t document_length, const uint8_t *diffs, size_t diffs_length, const StrBuf *expected)
{
	CapstanError error = {CAPSTAN_OK, ""};
	StrBuf		text;
	StrBuf		out;

	capstan_strbuf_init(&text);
	capstan_strbuf_init(&out);
	if (capstan_json_to_text(document, document_length, &text, &error))
	{
		SourceBytes before = {text.data, text.length};
		SourceBytes differences = {(const char *) diffs, diffs_length};

		if (!capstan_json_apply_diffs_to_text(&before, &differences, &out, &error))
			fuzz_must_explain(&error);
		else if (out.length != expected->length || memcmp(out.data, expected->data, out.length) != 0)
			abort();
	}
	capstan_strbuf_free(&text);
	capstan_strbuf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ByteReader	reader = capstan_bytes_reader(data, size);
	size_t		document_length = capstan_bytes_u32(&reader);
	const uint8_t *document_bytes;
	uint8_t    *document;
	uint8_t    *diffs;
	size_t		diffs_length;
	CapstanError error = {CAPSTAN_OK, ""};
	StrBuf		out;

	if (reader.failed)
		return 0;
	document_length %= capstan_bytes_left(&reader) + 1;
	document_bytes = capstan_bytes_take(&reader, document_length);
	diffs_length = capstan_bytes_left(&reader);
	document = fuzz_copy(document_bytes, document_length);
	diffs = fuzz_copy(reader.pos, diffs_length);
	capstan_memory_largest = 0;
	capstan_strbuf_init(&out);
	if (!capstan_json_apply_diffs(document, document_length, diffs, diffs_length, &out, &error))
		fuzz_must_explain(&error);
	else
	{
		fuzz_touch(out.data, out.length);
		compare_with_text(document, document_length, diffs, diffs_length, &out);
	}
	fuzz_check_memory(size);
	capstan_strbuf_free(&out);
	free(document);
	free(diffs);
	return 0;
}
