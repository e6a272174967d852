/*
 * fuzz_rows.c
 *		libFuzzer target: a table map and a rows event of it: u16 length of the table map's body, the body, u8 type of the
 *		rows event (from 128 on: documents are left as they are), its body.  The event's table id is made the map's.
 */
#include "fuzz.h"

#define TABLE_MAP_EVENT 19
#define TABLE_ID_LENGTH 6

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t types[] = {23, 24, 25, 30, 31, 32, 39};
	ByteReader	reader = capstan_bytes_reader(data, size);
	size_t		map_length = capstan_bytes_u16(&reader);
	const uint8_t *map_body = capstan_bytes_take(&reader, map_length);
	uint8_t		choice = capstan_bytes_u8(&reader);
	BinlogDecoder *decoder;
	BinlogEvent event;
	CapstanError error = {CAPSTAN_OK, ""};
	uint8_t    *map;
	uint8_t    *rows;
	size_t		rows_length;

	if (reader.failed)
		return 0;
	decoder = capstan_binlog_create();
	if (choice >= 128)
		capstan_binlog_leave_documents(decoder);
	map = fuzz_event(TABLE_MAP_EVENT, map_body, map_length, &map_length);
	rows = fuzz_event(types[choice % sizeof(types)], reader.pos, capstan_bytes_left(&reader), &rows_length);
	capstan_memory_largest = 0;
	if (!capstan_binlog_decode(decoder, map, map_length, &event, &error))
		fuzz_must_explain(&error);
	else
	{
		if (rows_length >= 19 + TABLE_ID_LENGTH)
			memcpy(rows + 19, map + 19, TABLE_ID_LENGTH);
		if (!capstan_binlog_decode(decoder, rows, rows_length, &event, &error))
			fuzz_must_explain(&error);
		else if (event.u.rows.table != NULL)
			fuzz_read_changes(decoder);
	}
	fuzz_check_memory(size);
	capstan_binlog_free(decoder);
	free(map);
	free(rows);
	return 0;
}
