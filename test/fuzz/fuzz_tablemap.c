/*
 * fuzz_tablemap.c
 *		libFuzzer target: the body of a table map, twice, since the second comes from the cache.
 */
#include "fuzz.h"

#define TABLE_MAP_EVENT 19

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	size_t		length;
	uint8_t    *raw = fuzz_event(TABLE_MAP_EVENT, data, size, &length);
	const SourceTable *first = NULL;

	capstan_memory_largest = 0;
	for (int i = 0; i < 2; i++)
	{
		BinlogEvent event;
		CapstanError error = {CAPSTAN_OK, ""};

		if (!capstan_binlog_decode(decoder, raw, length, &event, &error))
		{
			fuzz_must_explain(&error);
			if (first != NULL)
				FUZZ_FAIL("the second time it is malformed");
			continue;
		}
		if (i == 1 && event.u.table != first)
			FUZZ_FAIL("the second time it is another table");
		first = event.u.table;
		fuzz_read_table(first);
	}
	fuzz_check_memory(size);
	capstan_binlog_free(decoder);
	free(raw);
	return 0;
}
