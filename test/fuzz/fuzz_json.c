/*
 * fuzz_json.c
 *		libFuzzer target: a binary JSON document.
 */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy = fuzz_copy(data, size);
	CapstanError error = {CAPSTAN_OK, ""};
	StrBuf		out;

	capstan_memory_largest = 0;
	capstan_strbuf_init(&out);
	if (!capstan_json_to_text(copy, size, &out, &error))
		fuzz_must_explain(&error);
	else
		fuzz_touch(out.data, out.length);
	fuzz_check_memory(size);
	capstan_strbuf_free(&out);
	free(copy);
	return 0;
}
