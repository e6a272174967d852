/*
 * fuzz_jsondiff.c
 *		libFuzzer target: u32 length of a binary JSON document, the document, differences for it.
 */
#include "binlog/internal.h"
#include "fuzz.h"

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
		fuzz_touch(out.data, out.length);
	fuzz_check_memory(size);
	capstan_strbuf_free(&out);
	free(document);
	free(diffs);
	return 0;
}
