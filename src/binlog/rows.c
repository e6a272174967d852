/*
 * rows.c
 *		Rows events: from the event to a cursor over its changes.
 *
 * Body (Rows_event in MySQL's libs/mysql/binlog/event/rows_event.h):
 *
 *	   u48 table id, u16 flags
 *	   v2 only: u16 length of extra data, itself included, and the data (partitions, NDB): skipped
 *	   lenenc column count
 *	   bitmap of the columns in the before image (update, delete) or after image (insert)
 *	   update only: bitmap of the columns in the after image
 *	   rows: per change the before image, the after image, as far as the kind has them
 *
 * An image: a bitmap with one bit for each column in it, set for NULL, then the values that are not NULL.
 * The after image of PARTIAL_UPDATE_ROWS has in front of it
 *	   lenenc options; if bit 0 is set, a bitmap with one bit per JSON column of the table: set,
 *	   the column's value is not a document but u32 length and a list of differences.
 */
#include "binlog/internal.h"

#include "base/memory.h"

#define DUMMY_TABLE_ID 0xffffff
#define PARTIAL_JSON_UPDATES 1

static const SourceDocuments documents = {
	.text = capstan_json_to_text,
	.walk = capstan_json_walk,
	.patch = capstan_json_apply_diffs_to_text,
};

/* A scratch buffer that one huge row made larger is given back with the next row. */
#define SCRATCH_KEPT ((size_t) 4 * 1024 * 1024)

/* Type codes; v1 is what servers wrote from 5.1.16 to 5.6. */
enum
{
	WRITE_ROWS_V1 = 23,
	UPDATE_ROWS_V1 = 24,
	DELETE_ROWS_V1 = 25,
	WRITE_ROWS = 30,
	UPDATE_ROWS = 31,
	DELETE_ROWS = 32,
	PARTIAL_UPDATE_ROWS = 39
};

static SourceChangeKind
change_kind(uint8_t type_code)
{
	switch (type_code)
	{
		case WRITE_ROWS_V1:
		case WRITE_ROWS:
			return CHANGE_INSERT;
		case DELETE_ROWS_V1:
		case DELETE_ROWS:
			return CHANGE_DELETE;
		default:
			return CHANGE_UPDATE;
	}
}

static int
count_bits(const uint8_t *bitmap, int nbits)
{
	int			count = 0;

	for (int i = 0; i < nbits; i++)
		count += capstan_bitmap_test(bitmap, i);
	return count;
}

/* Room for two images of a table and for their scratch values. */
static void
make_room(RowsCursor *rows, int ncolumns)
{
	if (ncolumns <= rows->capacity)
		return;
	rows->capacity = 0;
	rows->before = capstan_realloc(rows->before, (size_t) ncolumns * sizeof(SourceValue));
	rows->after = capstan_realloc(rows->after, (size_t) ncolumns * sizeof(SourceValue));
	rows->documents = capstan_realloc(rows->documents, (size_t) ncolumns * sizeof(SourceBytes));
	rows->scratch.values = capstan_realloc(rows->scratch.values, 2 * (size_t) ncolumns * sizeof(ScratchValue));
	rows->capacity = ncolumns;
}

void
capstan_rows_free(RowsCursor *rows)
{
	capstan_free(rows->before);
	capstan_free(rows->after);
	capstan_free(rows->documents);
	capstan_free(rows->scratch.values);
	capstan_strbuf_free(&rows->scratch.bytes);
}

bool
capstan_rows_begin(BinlogDecoder *decoder, uint8_t type_code, const uint8_t *body, size_t length,
				   BinlogEvent *event, CapstanError *error)
{
	RowsCursor *rows = &decoder->rows;
	ByteReader	reader = capstan_bytes_reader(body, length);
	uint64_t	table_id = capstan_bytes_uint(&reader, 6);
	uint16_t	flags = capstan_bytes_u16(&reader);
	MappedTable *map;
	uint64_t	ncolumns;
	size_t		bitmap_length;

	rows->kind = change_kind(type_code);
	rows->partial = type_code == PARTIAL_UPDATE_ROWS;
	rows->failed = false;
	event->u.rows.table = NULL;
	event->u.rows.kind = rows->kind;
	event->u.rows.statement_end = (flags & BINLOG_ROW_FLAG_STATEMENT_END) != 0;
	event->u.rows.full_image = false;
	event->u.rows.partial_json = rows->partial;
	event->u.rows.row_flags = flags;
	event->u.rows.table_id = table_id;
	decoder->statement_ended = event->u.rows.statement_end;

	if (type_code >= WRITE_ROWS)
	{
		uint16_t	extra_length = capstan_bytes_u16(&reader);

		if (extra_length < 2)
			reader.failed = true;
		else
			capstan_bytes_skip(&reader, extra_length - 2u);
	}
	ncolumns = capstan_bytes_lenenc(&reader);
	if (reader.failed)
		return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "rows event is cut off");

	map = capstan_tablemap_find(decoder, table_id);
	if (map == NULL)
	{
		if (table_id == DUMMY_TABLE_ID && event->u.rows.statement_end)
			return true;
		return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "rows event for table id %llu, which is not mapped",
							 (unsigned long long) table_id);
	}
	event->u.rows.table = &map->table;
	if (!map->wanted)
		return true;

	if (ncolumns != (uint64_t) map->table.ncolumns)
		return capstan_error(error, CAPSTAN_ERROR_MALFORMED,
							 "rows event of \"%s.%s\" has %llu columns, its table map %d",
							 map->table.schema_name, map->table.table_name,
							 (unsigned long long) ncolumns, map->table.ncolumns);
	bitmap_length = (size_t) (map->table.ncolumns + 7) / 8;
	rows->before_columns = rows->kind == CHANGE_INSERT ? NULL : capstan_bytes_take(&reader, bitmap_length);
	rows->after_columns = rows->kind == CHANGE_DELETE ? NULL : capstan_bytes_take(&reader, bitmap_length);
	if (reader.failed)
		return capstan_error(error, CAPSTAN_ERROR_TRUNCATED, "rows event is cut off");
	rows->nbefore = rows->before_columns == NULL ? 0 : count_bits(rows->before_columns, map->table.ncolumns);
	rows->nafter = rows->after_columns == NULL ? 0 : count_bits(rows->after_columns, map->table.ncolumns);
	/* JSON differences are no gap: a full before image has the documents that they are for. */
	event->u.rows.full_image =
		(rows->before_columns == NULL || rows->nbefore == map->table.ncolumns) &&
		(rows->after_columns == NULL || rows->nafter == map->table.ncolumns);
	rows->leave_documents = decoder->leave_documents && event->u.rows.full_image && !rows->partial;

	/* Images without any column take no bytes: how many rows there are cannot be told. */
	if (capstan_bytes_left(&reader) == 0)
		return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED, "rows event of \"%s.%s\" has row images without columns",
							 map->table.schema_name, map->table.table_name);

	make_room(rows, map->table.ncolumns);
	rows->map = map;
	rows->reader = reader;
	return true;
}

/*
 * A JSON column of a partial after image: its document is the before image's with differences applied.  Where the image does not have
 * that, the differences are handed out; if there are none, the column is unchanged.
 */
static bool
decode_differences(RowsCursor *rows, int column, SourceValue *value, CapstanError *error)
{
	size_t		length = capstan_bytes_u32(&rows->reader);
	const uint8_t *differences = capstan_bytes_take(&rows->reader, length);
	const SourceBytes *document = &rows->documents[column];
	size_t		offset = rows->scratch.bytes.length;

	if (differences == NULL)
		return false;
	if (rows->before[column].kind == VALUE_ABSENT)
	{
		value->kind = length == 0 ? VALUE_ABSENT : VALUE_JSON_DIFFS;
		value->u.bytes.data = (const char *) differences;
		value->u.bytes.length = length;
		return true;
	}
	if (document->data == NULL)
		return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "JSON differences for a column that was NULL");
	if (!capstan_json_apply_diffs((const uint8_t *) document->data, document->length, differences, length,
								  &rows->scratch.bytes, error))
		return false;
	capstan_value_set_scratch(value, VALUE_JSON, &rows->scratch, offset);
	return true;
}

/* One value that is there; of a before image of a partial update the JSON documents are noted. */
static bool
decode_present(RowsCursor *rows, int column, SourceValue *value, CapstanError *error)
{
	const ColumnLayout *layout = &rows->map->layouts[column];
	const uint8_t *start = rows->reader.pos;

	if (rows->leave_documents && layout->code == BINLOG_TYPE_JSON)
	{
		if (!capstan_value_take_bytes(layout, &rows->reader, value))
			return false;
		value->kind = VALUE_JSON_BINARY;
		return true;
	}
	if (!capstan_value_decode(layout, &rows->map->table.columns[column], &rows->reader, value, &rows->scratch, error))
		return false;
	if (rows->partial && value->kind == VALUE_JSON)
	{
		rows->documents[column].data = (const char *) start + layout->width;
		rows->documents[column].length = (size_t) (rows->reader.pos - start) - layout->width;
	}
	return true;
}

/*
 * One image.  partial_bits: for each JSON column of the table whether the after image has
 * differences instead of a document; NULL if none has.
 */
static bool
decode_image(RowsCursor *rows, const uint8_t *columns, int ncolumns_present, const uint8_t *partial_bits,
			 SourceValue *values, CapstanError *error)
{
	const SourceTable *table = &rows->map->table;
	const uint8_t *nulls = capstan_bytes_take(&rows->reader, (size_t) (ncolumns_present + 7) / 8);
	int			present = 0;
	int			json = 0;

	if (nulls == NULL)
		return false;
	for (int i = 0; i < table->ncolumns; i++)
	{
		bool		differences = false;

		if (partial_bits != NULL && table->columns[i].type == SOURCE_JSON)
			differences = capstan_bitmap_test(partial_bits, json++);
		if (!capstan_bitmap_test(columns, i))
			values[i].kind = VALUE_ABSENT;
		else if (capstan_bitmap_test(nulls, present++))
			values[i].kind = VALUE_NULL;
		else if (!(differences ? decode_differences(rows, i, &values[i], error) :
				   decode_present(rows, i, &values[i], error)))
			return false;
	}
	return true;
}

static bool
decode_after_image(RowsCursor *rows, CapstanError *error)
{
	const uint8_t *partial_bits = NULL;

	if (rows->partial)
	{
		uint64_t	options = capstan_bytes_lenenc(&rows->reader);

		if ((options & ~(uint64_t) PARTIAL_JSON_UPDATES) != 0)
			return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED,
								 "rows event of \"%s.%s\" has unknown value options",
								 rows->map->table.schema_name, rows->map->table.table_name);
		if ((options & PARTIAL_JSON_UPDATES) != 0)
			partial_bits = capstan_bytes_take(&rows->reader, (size_t) (rows->map->njson + 7) / 8);
	}
	return decode_image(rows, rows->after_columns, rows->nafter, partial_bits, rows->after, error);
}

/* Scratch does not move any more: let the values point into it. */
static void
settle_scratch(Scratch *scratch)
{
	for (int i = 0; i < scratch->nvalues; i++)
		scratch->values[i].value->u.bytes.data = scratch->bytes.data + scratch->values[i].offset;
}

BinlogNext
capstan_binlog_next_change(BinlogDecoder *decoder, SourceChange *change, CapstanError *error)
{
	RowsCursor *rows = &decoder->rows;
	const uint8_t *start = rows->reader.pos;
	bool		decoded = true;

	if (rows->map == NULL || rows->failed)
	{
		capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED, "there is no rows event whose rows could be read");
		return BINLOG_ERROR;
	}
	if (capstan_bytes_left(&rows->reader) == 0)
		return BINLOG_END;

	if (rows->scratch.bytes.capacity > SCRATCH_KEPT)
		capstan_strbuf_free(&rows->scratch.bytes);
	capstan_strbuf_reset(&rows->scratch.bytes);
	rows->scratch.nvalues = 0;
	error->code = CAPSTAN_OK;
	if (rows->partial)
		memset(rows->documents, 0, (size_t) rows->map->table.ncolumns * sizeof(SourceBytes));
	if (rows->before_columns != NULL)
		decoded = decode_image(rows, rows->before_columns, rows->nbefore, NULL, rows->before, error);
	if (decoded && rows->after_columns != NULL)
		decoded = decode_after_image(rows, error);
	if (!decoded || rows->reader.failed || rows->reader.pos == start)
	{
		rows->failed = true;
		if (error->code == CAPSTAN_OK)
			capstan_error(error, CAPSTAN_ERROR_MALFORMED, "row of \"%s.%s\" is cut off",
						  rows->map->table.schema_name, rows->map->table.table_name);
		return BINLOG_ERROR;
	}
	settle_scratch(&rows->scratch);

	change->kind = rows->kind;
	change->table = &rows->map->table;
	change->before = rows->before_columns != NULL ? rows->before : NULL;
	change->after = rows->after_columns != NULL ? rows->after : NULL;
	change->documents = &documents;
	return BINLOG_CHANGE;
}
