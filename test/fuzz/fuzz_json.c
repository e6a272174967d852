/*
 * fuzz_json.c
 *		libFuzzer target: a binary JSON document.
 */
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const SourceDocuments documents = {.text = capstan_json_to_text, .walk = capstan_json_walk};
	uint8_t    *copy = fuzz_copy(data, size);

	capstan_memory_largest = 0;
	fuzz_read_document(&documents, copy, size);
	fuzz_check_memory(size);
	free(copy);
	return 0;
}
