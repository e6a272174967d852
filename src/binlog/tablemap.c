/*
 * tablemap.c
 *		TABLE_MAP events made into SourceTables, and the cache of them.
 *
 * Body (Table_map_event in MySQL's libs/mysql/binlog/event/rows_event.h):
 *
 *	   u48 table id, u16 flags
 *	   u8 length, schema name, NUL;  u8 length, table name, NUL
 *	   lenenc column count, one type byte per column
 *	   lenenc length of the columns' metadata, the metadata: 0 to 2 bytes per column
 *	   bitmap: which columns are nullable
 *	   optional metadata: { u8 field, lenenc length, value }
 *
 * The optional metadata depends on the source's binlog_row_metadata.  MINIMAL gives
 * signedness and the character sets of text columns, without which values cannot be
 * told apart: a table map that lacks them where it needs them (servers before 8.0)
 * is refused.  FULL adds names, key, labels and the character sets of ENUM and SET.
 */
#include "binlog/internal.h"

#include "base/memory.h"

#define COLLATION_BINARY 63
#define TABLE_ID_LENGTH 6
#define NAME_LENGTH_MAX 256		/* bytes: 64 characters, utf-8 */
#define LABELS_PER_ENUM_MAX 65535
#define LABELS_PER_SET_MAX 64
/* Of all columns: an empty label is one byte here and sixteen in memory. */
#define LABELS_MAX ((size_t) 1024 * 1024)
#define DECIMAL_PRECISION_MAX 65
#define DECIMAL_SCALE_MAX 30
#define FRACTION_DIGITS_MAX 6

/* What the cache may hold of maps that no open statement needs, and what a statement may map. */
#define CACHE_TABLES_MAX 4096
#define CACHE_BYTES_MAX ((size_t) 16 * 1024 * 1024)

typedef enum MetadataField
{
	FIELD_SIGNEDNESS = 1,
	FIELD_DEFAULT_CHARSET,
	FIELD_COLUMN_CHARSET,
	FIELD_COLUMN_NAME,
	FIELD_SET_STR_VALUE,
	FIELD_ENUM_STR_VALUE,
	FIELD_GEOMETRY_TYPE,
	FIELD_SIMPLE_PRIMARY_KEY,
	FIELD_PRIMARY_KEY_WITH_PREFIX,
	FIELD_ENUM_AND_SET_DEFAULT_CHARSET,
	FIELD_ENUM_AND_SET_COLUMN_CHARSET,
	FIELD_COLUMN_VISIBILITY,
	FIELD_VECTOR_DIMENSIONALITY
} MetadataField;

static bool
bad_map(const MappedTable *map, const char *what, CapstanError *error)
{
	return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "table map of \"%s.%s\" is malformed: %s",
						 map->table.schema_name, map->table.table_name, what);
}

/* ---- column types ---- */

static bool
set_fraction(SourceColumn *column, SourceType type, uint8_t digits)
{
	column->type = type;
	column->scale = digits;
	return digits <= FRACTION_DIGITS_MAX;
}

static bool
set_blob(SourceColumn *column, ColumnLayout *layout, SourceType type, uint8_t length_bytes)
{
	column->type = type;
	column->length_bytes = length_bytes;
	layout->width = length_bytes;
	return length_bytes >= 1 && length_bytes <= 4;
}

static void
set_integer(SourceColumn *column, ColumnLayout *layout, SourceType type, uint8_t width)
{
	column->type = type;
	layout->width = width;
}

/*
 * STRING: the first byte is the real type (STRING, ENUM, SET), the second the length.  A
 * CHAR of more than 255 bytes has bits 8 and 9 of its length, inverted, in bits 4 and 5
 * of the first byte, which are set in each of the three types.
 */
static bool
set_string(SourceColumn *column, ColumnLayout *layout, uint8_t first, uint8_t second)
{
	uint8_t		real = first | 0x30;
	uint32_t	length = second | (uint32_t) ((first & 0x30) ^ 0x30) << 4;

	layout->code = real;
	switch (real)
	{
		case BINLOG_TYPE_STRING:
			column->type = SOURCE_CHAR;
			column->octets = length;
			layout->width = length > 255 ? 2 : 1;
			return true;
		case BINLOG_TYPE_ENUM:
			column->type = SOURCE_ENUM;
			layout->width = (uint8_t) length;
			return length == 1 || length == 2;
		case BINLOG_TYPE_SET:
			column->type = SOURCE_SET;
			layout->width = (uint8_t) length;
			return length >= 1 && length <= 8;
		default:
			return false;
	}
}

/* Reads the column's metadata; text and blob kinds are told apart later, by collation. */
static bool
decode_type(SourceColumn *column, ColumnLayout *layout, ByteReader *metadata, bool *supported)
{
	uint8_t		first;
	uint8_t		second;

	switch ((BinlogType) layout->code)
	{
		case BINLOG_TYPE_TINY:
			set_integer(column, layout, SOURCE_TINYINT, 1);
			return true;
		case BINLOG_TYPE_SHORT:
			set_integer(column, layout, SOURCE_SMALLINT, 2);
			return true;
		case BINLOG_TYPE_INT24:
			set_integer(column, layout, SOURCE_MEDIUMINT, 3);
			return true;
		case BINLOG_TYPE_LONG:
			set_integer(column, layout, SOURCE_INT, 4);
			return true;
		case BINLOG_TYPE_LONGLONG:
			set_integer(column, layout, SOURCE_BIGINT, 8);
			return true;
		case BINLOG_TYPE_FLOAT:
			column->type = SOURCE_FLOAT;
			return capstan_bytes_u8(metadata) == 4;
		case BINLOG_TYPE_DOUBLE:
			column->type = SOURCE_DOUBLE;
			return capstan_bytes_u8(metadata) == 8;
		case BINLOG_TYPE_NEWDECIMAL:
			column->type = SOURCE_DECIMAL;
			column->precision = capstan_bytes_u8(metadata);
			column->scale = capstan_bytes_u8(metadata);
			return column->precision >= 1 && column->precision <= DECIMAL_PRECISION_MAX &&
				column->scale <= DECIMAL_SCALE_MAX && column->scale <= column->precision;
		case BINLOG_TYPE_BIT:
			first = capstan_bytes_u8(metadata);
			second = capstan_bytes_u8(metadata);
			if (first >= 8 || second > 8 || second * 8 + first < 1 || second * 8 + first > 64)
				return false;
			column->type = SOURCE_BIT;
			column->precision = (uint8_t) (second * 8 + first);
			layout->width = (uint8_t) (second + (first > 0));
			return true;
		case BINLOG_TYPE_DATE:
		case BINLOG_TYPE_NEWDATE:
			column->type = SOURCE_DATE;
			return true;
		case BINLOG_TYPE_DATETIME2:
			return set_fraction(column, SOURCE_DATETIME, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_TIMESTAMP2:
			return set_fraction(column, SOURCE_TIMESTAMP, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_TIME2:
			return set_fraction(column, SOURCE_TIME, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_DATETIME:
			return set_fraction(column, SOURCE_DATETIME, 0);
		case BINLOG_TYPE_TIMESTAMP:
			return set_fraction(column, SOURCE_TIMESTAMP, 0);
		case BINLOG_TYPE_TIME:
			return set_fraction(column, SOURCE_TIME, 0);
		case BINLOG_TYPE_YEAR:
			column->type = SOURCE_YEAR;
			return true;
		case BINLOG_TYPE_VARCHAR:
		case BINLOG_TYPE_VAR_STRING:
			column->type = SOURCE_VARCHAR;
			column->octets = capstan_bytes_u16(metadata);
			layout->width = column->octets > 255 ? 2 : 1;
			return true;
		case BINLOG_TYPE_STRING:
		case BINLOG_TYPE_ENUM:
		case BINLOG_TYPE_SET:
			first = capstan_bytes_u8(metadata);
			second = capstan_bytes_u8(metadata);
			return set_string(column, layout, first, second);
		case BINLOG_TYPE_TINY_BLOB:
		case BINLOG_TYPE_MEDIUM_BLOB:
		case BINLOG_TYPE_LONG_BLOB:
		case BINLOG_TYPE_BLOB:
			return set_blob(column, layout, SOURCE_TEXT, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_JSON:
			return set_blob(column, layout, SOURCE_JSON, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_GEOMETRY:
			return set_blob(column, layout, SOURCE_GEOMETRY, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_VECTOR:
			return set_blob(column, layout, SOURCE_VECTOR, capstan_bytes_u8(metadata));
		case BINLOG_TYPE_DECIMAL:
		case BINLOG_TYPE_NULL:
		case BINLOG_TYPE_TYPED_ARRAY:
			break;
	}
	*supported = false;
	return true;
}

static bool
is_numeric(const SourceColumn *column)
{
	return column->type <= SOURCE_DOUBLE || column->type == SOURCE_YEAR;
}

/* CHAR, VARCHAR and TEXT, while the binary kinds still look like them. */
static bool
is_text(const SourceColumn *column)
{
	return column->type == SOURCE_CHAR || column->type == SOURCE_VARCHAR || column->type == SOURCE_TEXT;
}

/* Whose character sets the table map tells: MySQL counts VECTOR among them, but not JSON and GEOMETRY (sql/log_event.cc, is_character_type). */
static bool
tells_charset(const SourceColumn *column)
{
	return is_text(column) || column->type == SOURCE_VECTOR;
}

static bool
is_labelled(const SourceColumn *column)
{
	return column->type == SOURCE_ENUM || column->type == SOURCE_SET;
}

typedef bool (*ColumnFilter) (const SourceColumn *column);

static int
count_columns(const MappedTable *map, ColumnFilter filter)
{
	int			count = 0;

	for (int i = 0; i < map->table.ncolumns; i++)
		count += filter(&map->table.columns[i]);
	return count;
}

/* ---- optional metadata ---- */

static bool
decode_signedness(MappedTable *map, ByteReader *field)
{
	int			count = count_columns(map, is_numeric);
	const uint8_t *bits = capstan_bytes_take(field, (size_t) (count + 7) / 8);
	int			at = 0;

	if (bits == NULL)
		return false;
	for (int i = 0; i < map->table.ncolumns; i++)
	{
		SourceColumn *column = &map->table.columns[i];

		if (!is_numeric(column))
			continue;
		/* YEAR has a bit, but no sign */
		if (column->type != SOURCE_YEAR)
			column->is_unsigned = (bits[at / 8] & 0x80 >> at % 8) != 0;
		at++;
	}
	return true;
}

static bool
decode_visibility(MappedTable *map, ByteReader *field)
{
	const uint8_t *bits = capstan_bytes_take(field, (size_t) (map->table.ncolumns + 7) / 8);

	if (bits == NULL)
		return false;
	for (int i = 0; i < map->table.ncolumns; i++)
		map->table.columns[i].invisible = (bits[i / 8] & 0x80 >> i % 8) == 0;
	return true;
}

static bool
set_collation(SourceColumn *column, uint64_t id, bool *seen)
{
	/* of a VECTOR it says nothing */
	if (column->type != SOURCE_VECTOR)
		column->collation = (uint16_t) id;
	*seen = true;
	return id >= 1 && id <= UINT16_MAX;
}

/* One default collation, then pairs: index among the columns of the filter, collation. */
static bool
decode_default_charset(MappedTable *map, ByteReader *field, ColumnFilter filter, bool *seen)
{
	uint64_t	fallback = capstan_bytes_lenenc(field);
	uint64_t	next = UINT64_MAX;
	uint64_t	next_id = 0;
	uint64_t	index = 0;

	for (int i = 0; i < map->table.ncolumns; i++)
	{
		SourceColumn *column = &map->table.columns[i];

		if (!filter(column))
			continue;
		if (next == UINT64_MAX && capstan_bytes_left(field) > 0)
		{
			next = capstan_bytes_lenenc(field);
			next_id = capstan_bytes_lenenc(field);
			if (next < index)
				return false;
		}
		if (!set_collation(column, next == index ? next_id : fallback, seen))
			return false;
		if (next == index)
			next = UINT64_MAX;
		index++;
	}
	return next == UINT64_MAX;
}

static bool
decode_column_charset(MappedTable *map, ByteReader *field, ColumnFilter filter, bool *seen)
{
	for (int i = 0; i < map->table.ncolumns; i++)
	{
		if (filter(&map->table.columns[i]) &&
			!set_collation(&map->table.columns[i], capstan_bytes_lenenc(field), seen))
			return false;
	}
	return true;
}

static bool
decode_names(MappedTable *map, ByteReader *field)
{
	char	   *to;

	if (map->names != NULL)
		return false;
	to = map->names = capstan_alloc(capstan_bytes_left(field) + (size_t) map->table.ncolumns);
	for (int i = 0; i < map->table.ncolumns; i++)
	{
		size_t		length = (size_t) capstan_bytes_lenenc(field);
		const uint8_t *name = capstan_bytes_take(field, length);

		if (name == NULL || length > NAME_LENGTH_MAX || memchr(name, '\0', length) != NULL)
			return false;
		map->table.columns[i].name = to;
		memcpy(to, name, length);
		to[length] = '\0';
		to += length + 1;
	}
	map->table.has_names = true;
	return true;
}

/* For each column of the type: count, then length and bytes of each label. */
static bool
decode_labels(MappedTable *map, ByteReader field, SourceType type, uint64_t most, SourceBytes **to)
{
	for (int i = 0; i < map->table.ncolumns; i++)
	{
		SourceColumn *column = &map->table.columns[i];
		uint64_t	count;

		if (column->type != type)
			continue;
		count = capstan_bytes_lenenc(&field);
		if (field.failed || count < 1 || count > most)
			return false;
		if (to != NULL)
			column->labels = *to;
		column->nlabels = (int) count;
		for (uint64_t j = 0; j < count; j++)
		{
			size_t		length = (size_t) capstan_bytes_lenenc(&field);
			const uint8_t *label = capstan_bytes_take(&field, length);

			if (label == NULL)
				return false;
			if (to == NULL)
				continue;
			(*to)->data = (const char *) label;
			(*to)->length = length;
			(*to)++;
		}
	}
	return capstan_bytes_left(&field) == 0;
}

/* ENUM's and SET's labels, in two passes: check and count, then keep. */
static bool
decode_all_labels(MappedTable *map, const ByteReader *enums, const ByteReader *sets)
{
	size_t		total = 0;
	SourceBytes *to;

	if (enums->pos != NULL && !decode_labels(map, *enums, SOURCE_ENUM, LABELS_PER_ENUM_MAX, NULL))
		return false;
	if (sets->pos != NULL && !decode_labels(map, *sets, SOURCE_SET, LABELS_PER_SET_MAX, NULL))
		return false;
	for (int i = 0; i < map->table.ncolumns; i++)
		total += (size_t) map->table.columns[i].nlabels;
	if (total == 0)
		return true;
	if (total > LABELS_MAX)
		return false;
	to = map->labels = capstan_alloc(total * sizeof(SourceBytes));
	if (enums->pos != NULL)
		decode_labels(map, *enums, SOURCE_ENUM, LABELS_PER_ENUM_MAX, &to);
	if (sets->pos != NULL)
		decode_labels(map, *sets, SOURCE_SET, LABELS_PER_SET_MAX, &to);
	return true;
}

static bool
decode_key(MappedTable *map, ByteReader *field, bool with_prefix)
{
	SourceTable *table = &map->table;

	if (table->key != NULL)
		return false;
	table->key = capstan_alloc((size_t) table->ncolumns * sizeof(int));
	while (capstan_bytes_left(field) > 0)
	{
		uint64_t	index = capstan_bytes_lenenc(field);
		uint64_t	prefix = with_prefix ? capstan_bytes_lenenc(field) : 0;

		if (field->failed || index >= (uint64_t) table->ncolumns || table->columns[index].in_key)
			return false;
		table->columns[index].in_key = true;
		table->key[table->nkey++] = (int) index;
		if (prefix > 0)
			table->key_has_prefix = true;
	}
	return true;
}

typedef struct SeenMetadata
{
	uint32_t	fields;			/* a bit for each MetadataField */
	bool		signedness;
	bool		text_charset;
	bool		label_charset;
	ByteReader	enums;			/* pos is NULL: no such field */
	ByteReader	sets;
} SeenMetadata;

/*
 * A field comes once.  Each of some bytes may take as long as there are columns to read, so taken again and again they would
 * take for ever.
 */
static bool
is_first(SeenMetadata *seen, uint8_t type)
{
	uint32_t	bit = type <= FIELD_VECTOR_DIMENSIONALITY ? UINT32_C(1) << type : 0;

	if ((seen->fields & bit) != 0)
		return false;
	seen->fields |= bit;
	return true;
}

static bool
decode_field(MappedTable *map, uint8_t type, ByteReader *field, SeenMetadata *seen)
{
	switch ((MetadataField) type)
	{
		case FIELD_SIGNEDNESS:
			seen->signedness = true;
			return decode_signedness(map, field);
		case FIELD_DEFAULT_CHARSET:
			return decode_default_charset(map, field, tells_charset, &seen->text_charset);
		case FIELD_COLUMN_CHARSET:
			return decode_column_charset(map, field, tells_charset, &seen->text_charset);
		case FIELD_COLUMN_NAME:
			return decode_names(map, field);
		case FIELD_SET_STR_VALUE:
			seen->sets = *field;
			break;
		case FIELD_ENUM_STR_VALUE:
			seen->enums = *field;
			break;
		case FIELD_SIMPLE_PRIMARY_KEY:
			return decode_key(map, field, false);
		case FIELD_PRIMARY_KEY_WITH_PREFIX:
			return decode_key(map, field, true);
		case FIELD_ENUM_AND_SET_DEFAULT_CHARSET:
			return decode_default_charset(map, field, is_labelled, &seen->label_charset);
		case FIELD_ENUM_AND_SET_COLUMN_CHARSET:
			return decode_column_charset(map, field, is_labelled, &seen->label_charset);
		case FIELD_COLUMN_VISIBILITY:
			return decode_visibility(map, field);
		case FIELD_GEOMETRY_TYPE:
		case FIELD_VECTOR_DIMENSIONALITY:
			break;
	}
	/* Of no use here, or added by a later server: it does not change what the bytes of a row mean. */
	field->pos = field->end;
	return true;
}

static bool
decode_optional(MappedTable *map, ByteReader *reader, CapstanError *error)
{
	SeenMetadata seen;

	memset(&seen, 0, sizeof(seen));
	while (capstan_bytes_left(reader) > 0)
	{
		uint8_t		type = capstan_bytes_u8(reader);
		size_t		length = (size_t) capstan_bytes_lenenc(reader);
		const uint8_t *value = capstan_bytes_take(reader, length);
		ByteReader	field;

		if (value == NULL)
			return bad_map(map, "optional metadata is cut off", error);
		field = capstan_bytes_reader(value, length);
		if (!is_first(&seen, type) || !decode_field(map, type, &field, &seen) || field.failed ||
			(type != FIELD_SET_STR_VALUE && type != FIELD_ENUM_STR_VALUE && capstan_bytes_left(&field) > 0))
			return capstan_error(error, CAPSTAN_ERROR_MALFORMED,
								 "table map of \"%s.%s\" is malformed: metadata field %d",
								 map->table.schema_name, map->table.table_name, type);
	}
	if (!decode_all_labels(map, &seen.enums, &seen.sets))
		return bad_map(map, "labels", error);

	if ((!seen.signedness && count_columns(map, is_numeric) > 0) ||
		(!seen.text_charset && count_columns(map, is_text) > 0))
		return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED,
							 "table map of \"%s.%s\" does not tell signedness and character sets of its columns",
							 map->table.schema_name, map->table.table_name);
	if (map->table.has_names)
	{
		for (int i = 0; i < map->table.ncolumns; i++)
		{
			SourceColumn *column = &map->table.columns[i];

			if (is_labelled(column) && (column->nlabels == 0 || !seen.label_charset))
				return bad_map(map, "column names but no labels", error);
		}
	}
	return true;
}

/* Now that collations are known, the binary kinds get their names. */
static void
split_binary_types(MappedTable *map)
{
	for (int i = 0; i < map->table.ncolumns; i++)
	{
		SourceColumn *column = &map->table.columns[i];

		if (!is_text(column) || column->collation != COLLATION_BINARY)
			continue;
		if (column->type == SOURCE_CHAR)
			column->type = SOURCE_BINARY;
		else if (column->type == SOURCE_VARCHAR)
			column->type = SOURCE_VARBINARY;
		else
			column->type = SOURCE_BLOB;
	}
}

/* ---- the event ---- */

static bool
decode_columns(MappedTable *map, ByteReader *reader, CapstanError *error)
{
	SourceTable *table = &map->table;
	uint64_t	ncolumns = capstan_bytes_lenenc(reader);
	const uint8_t *types;
	size_t		metadata_length;
	const uint8_t *metadata_bytes;
	ByteReader	metadata;
	const uint8_t *nullable;

	if (reader->failed || ncolumns < 1)
		return bad_map(map, "column count", error);
	if (ncolumns > BINLOG_COLUMNS_MAX)
		return capstan_error(error, CAPSTAN_ERROR_LIMIT, "table map of \"%s.%s\" has more than %d columns",
							 table->schema_name, table->table_name, BINLOG_COLUMNS_MAX);
	types = capstan_bytes_take(reader, (size_t) ncolumns);
	metadata_length = (size_t) capstan_bytes_lenenc(reader);
	metadata_bytes = capstan_bytes_take(reader, metadata_length);
	nullable = capstan_bytes_take(reader, (size_t) (ncolumns + 7) / 8);
	if (reader->failed)
		return bad_map(map, "columns are cut off", error);

	table->ncolumns = (int) ncolumns;
	table->columns = capstan_alloc0(ncolumns * sizeof(SourceColumn));
	map->layouts = capstan_alloc0(ncolumns * sizeof(ColumnLayout));
	metadata = capstan_bytes_reader(metadata_bytes, metadata_length);
	for (int i = 0; i < table->ncolumns; i++)
	{
		bool		supported = true;

		map->layouts[i].code = types[i];
		table->columns[i].nullable = capstan_bitmap_test(nullable, i);
		if (!decode_type(&table->columns[i], &map->layouts[i], &metadata, &supported) || metadata.failed)
			return bad_map(map, "column types", error);
		if (!supported)
			return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED,
								 "column %d of \"%s.%s\" has type %d of the binary log, which is not supported",
								 i + 1, table->schema_name, table->table_name, types[i]);
		if (table->columns[i].type == SOURCE_JSON)
			map->njson++;
	}
	if (capstan_bytes_left(&metadata) > 0)
		return bad_map(map, "column metadata", error);

	if (!decode_optional(map, reader, error))
		return false;
	split_binary_types(map);
	return true;
}

/* A name with its length before and a NUL after it, in place. */
static char *
decode_name(ByteReader *reader)
{
	size_t		length = (size_t) capstan_bytes_lenenc(reader);
	const uint8_t *name;

	if (length > NAME_LENGTH_MAX)
		return NULL;
	name = capstan_bytes_take(reader, length + 1);
	if (name == NULL || name[length] != '\0' || strlen((const char *) name) != length)
		return NULL;
	return (char *) name;
}

/* ---- the cache ---- */

static void
free_table(MappedTable *map)
{
	capstan_free(map->table.columns);
	capstan_free(map->table.key);
	capstan_free(map->layouts);
	capstan_free(map->names);
	capstan_free(map->labels);
	capstan_free(map->body);
	capstan_free(map);
}

void
capstan_tablemap_clear(BinlogDecoder *decoder)
{
	TableCache *cache = &decoder->tables;

	if (cache->buckets == NULL)
		return;
	for (int i = 0; i < TABLE_CACHE_BUCKETS; i++)
	{
		while (cache->buckets[i] != NULL)
		{
			MappedTable *map = cache->buckets[i];

			cache->buckets[i] = map->next;
			free_table(map);
		}
	}
	capstan_free(cache->buckets);
	cache->buckets = NULL;
	cache->count = 0;
	cache->bytes = 0;
}

/* Forgets the tables that the current statement has not mapped. */
static void
shrink_cache(BinlogDecoder *decoder)
{
	TableCache *cache = &decoder->tables;

	for (int i = 0; i < TABLE_CACHE_BUCKETS; i++)
	{
		MappedTable **link = &cache->buckets[i];

		while (*link != NULL)
		{
			MappedTable *map = *link;

			if (map->statement == decoder->statement)
			{
				link = &map->next;
				continue;
			}
			*link = map->next;
			cache->count--;
			cache->bytes -= map->body_length;
			free_table(map);
		}
	}
}

static MappedTable **
find_link(TableCache *cache, uint64_t table_id)
{
	MappedTable **link = &cache->buckets[table_id & (TABLE_CACHE_BUCKETS - 1)];

	while (*link != NULL && (*link)->table.table_id != table_id)
		link = &(*link)->next;
	return link;
}

MappedTable *
capstan_tablemap_find(BinlogDecoder *decoder, uint64_t table_id)
{
	MappedTable *map;

	if (decoder->tables.buckets == NULL)
		return NULL;
	map = *find_link(&decoder->tables, table_id);
	return map != NULL && map->statement == decoder->statement ? map : NULL;
}

/* Everything but the cache: a new table from the bytes, or NULL. */
static MappedTable *
decode_map(BinlogDecoder *decoder, const uint8_t *body, size_t length, bool wanted, CapstanError *error)
{
	MappedTable *map = capstan_alloc0(sizeof(MappedTable));
	ByteReader	reader;

	map->body = capstan_alloc(length);
	map->body_length = length;
	memcpy(map->body, body, length);
	map->wanted = wanted;
	reader = capstan_bytes_reader(map->body, length);
	map->table.table_id = capstan_bytes_uint(&reader, TABLE_ID_LENGTH);
	map->table.serial = ++decoder->tables.serial;
	capstan_bytes_skip(&reader, 2);
	map->table.schema_name = decode_name(&reader);
	map->table.table_name = decode_name(&reader);
	if (wanted && !decode_columns(map, &reader, error))
	{
		free_table(map);
		return NULL;
	}
	return map;
}

const SourceTable *
capstan_tablemap_decode(BinlogDecoder *decoder, const uint8_t *body, size_t length, CapstanError *error)
{
	TableCache *cache = &decoder->tables;
	ByteReader	reader = capstan_bytes_reader(body, length);
	uint64_t	table_id = capstan_bytes_uint(&reader, TABLE_ID_LENGTH);
	const char *schema_name;
	const char *table_name;
	MappedTable **link;
	MappedTable *map;
	bool		wanted;

	if (cache->buckets == NULL)
		cache->buckets = capstan_alloc0(TABLE_CACHE_BUCKETS * sizeof(MappedTable *));
	link = find_link(cache, table_id);
	map = *link;
	if (map != NULL && map->body_length == length && memcmp(map->body, body, length) == 0)
	{
		map->statement = decoder->statement;
		return &map->table;
	}

	capstan_bytes_skip(&reader, 2);
	schema_name = decode_name(&reader);
	table_name = decode_name(&reader);
	if (reader.failed || schema_name == NULL || table_name == NULL)
	{
		capstan_error(error, CAPSTAN_ERROR_MALFORMED, "table map is malformed: names");
		return NULL;
	}
	wanted = decoder->wanted == NULL || decoder->wanted(decoder->wanted_arg, schema_name, table_name);

	if (map != NULL)
	{
		*link = map->next;
		cache->count--;
		cache->bytes -= map->body_length;
		free_table(map);
	}

	if (cache->count >= CACHE_TABLES_MAX || cache->bytes + length > CACHE_BYTES_MAX)
	{
		shrink_cache(decoder);
		if (cache->count >= CACHE_TABLES_MAX || cache->bytes + length > CACHE_BYTES_MAX)
		{
			capstan_error(error, CAPSTAN_ERROR_LIMIT, "a statement maps more than %d tables or %zu bytes of table maps",
						  CACHE_TABLES_MAX, CACHE_BYTES_MAX);
			return NULL;
		}
	}

	map = decode_map(decoder, body, length, wanted, error);
	if (map == NULL)
		return NULL;
	map->statement = decoder->statement;
	link = find_link(cache, table_id);
	map->next = *link;
	*link = map;
	cache->count++;
	cache->bytes += length;
	return &map->table;
}
