/*
 * internal.h
 *		What the files of binlog/ share.  Nobody else includes this.
 *
 *	   events.c		headers, checksums, dispatch, events without rows
 *	   tablemap.c	TABLE_MAP events and the cache of them
 *	   rows.c		rows events: images, bitmaps, the cursor
 *	   values.c		one value of a row image
 *	   decimal.c	packed decimals
 *	   json.c		binary JSON; jsondiff.c applies differences to it, or with jsontext.c to a text
 *	   payload.c	TRANSACTION_PAYLOAD
 */
#ifndef CAPSTAN_BINLOG_INTERNAL_H
#define CAPSTAN_BINLOG_INTERNAL_H

#include "base/bytes.h"
#include "binlog/binlog.h"

#define BINLOG_HEADER_LENGTH 19
#define BINLOG_CHECKSUM_LENGTH 4
#define BINLOG_COLUMNS_MAX 4096

/* enum_field_types of MySQL's include/field_types.h, as far as they occur in table maps. */
typedef enum BinlogType
{
	BINLOG_TYPE_DECIMAL = 0,	/* before 5.0; not supported */
	BINLOG_TYPE_TINY = 1,
	BINLOG_TYPE_SHORT = 2,
	BINLOG_TYPE_LONG = 3,
	BINLOG_TYPE_FLOAT = 4,
	BINLOG_TYPE_DOUBLE = 5,
	BINLOG_TYPE_NULL = 6,
	BINLOG_TYPE_TIMESTAMP = 7,
	BINLOG_TYPE_LONGLONG = 8,
	BINLOG_TYPE_INT24 = 9,
	BINLOG_TYPE_DATE = 10,
	BINLOG_TYPE_TIME = 11,
	BINLOG_TYPE_DATETIME = 12,
	BINLOG_TYPE_YEAR = 13,
	BINLOG_TYPE_NEWDATE = 14,
	BINLOG_TYPE_VARCHAR = 15,
	BINLOG_TYPE_BIT = 16,
	BINLOG_TYPE_TIMESTAMP2 = 17,
	BINLOG_TYPE_DATETIME2 = 18,
	BINLOG_TYPE_TIME2 = 19,
	BINLOG_TYPE_TYPED_ARRAY = 20,
	BINLOG_TYPE_VECTOR = 242,
	BINLOG_TYPE_JSON = 245,
	BINLOG_TYPE_NEWDECIMAL = 246,
	BINLOG_TYPE_ENUM = 247,
	BINLOG_TYPE_SET = 248,
	BINLOG_TYPE_TINY_BLOB = 249,
	BINLOG_TYPE_MEDIUM_BLOB = 250,
	BINLOG_TYPE_LONG_BLOB = 251,
	BINLOG_TYPE_BLOB = 252,
	BINLOG_TYPE_VAR_STRING = 253,
	BINLOG_TYPE_STRING = 254,
	BINLOG_TYPE_GEOMETRY = 255
} BinlogType;

/* How a column's values are laid out in a row image; the rest is in its SourceColumn. */
typedef struct ColumnLayout
{
	uint8_t		code;			/* BinlogType; ENUM and SET never hidden in STRING */
	uint8_t		width;			/* bytes of the value, or of its length, where the type has one */
} ColumnLayout;

/*
 * A table map.  It stays in the cache after its statement's end: servers map the same table with
 * the same bytes again and again, and comparing them is cheaper than decoding.
 */
typedef struct MappedTable
{
	SourceTable table;			/* ncolumns = 0 if not wanted */
	ColumnLayout *layouts;
	int			njson;			/* JSON columns */
	uint64_t	statement;		/* the decoder's number of the statement it was mapped in last */
	bool		wanted;
	uint8_t    *body;			/* the event after its header, owned; labels point into it */
	size_t		body_length;
	/* owned memory behind `table` */
	char	   *names;
	SourceBytes *labels;
	struct MappedTable *next;	/* in its bucket */
} MappedTable;

#define TABLE_CACHE_BUCKETS 1024	/* a power of two */

typedef struct TableCache
{
	MappedTable **buckets;
	size_t		count;
	size_t		bytes;			/* of all bodies */
	uint64_t	serial;			/* of the table decoded last */
} TableCache;

/* A value that points into the scratch buffer, which may still move while the row is decoded. */
typedef struct ScratchValue
{
	SourceValue *value;
	size_t		offset;
} ScratchValue;

typedef struct Scratch
{
	StrBuf		bytes;
	ScratchValue *values;
	int			nvalues;		/* room for 2 per column is made before a row is decoded */
} Scratch;

typedef struct RowsCursor
{
	MappedTable *map;			/* NULL: no rows event, or one whose rows are not to be read */
	SourceChangeKind kind;
	bool		partial;		/* PARTIAL_UPDATE_ROWS */
	bool		leave_documents;	/* in this event, see binlog.h */
	bool		failed;			/* an error was reported: the rest cannot be read */
	ByteReader	reader;			/* over the rows */
	const uint8_t *before_columns;	/* bitmaps, in the event; NULL where the kind has no such image */
	const uint8_t *after_columns;
	int			nbefore;		/* bits set in them */
	int			nafter;
	SourceValue *before;		/* room for `capacity` values each */
	SourceValue *after;
	SourceBytes *documents;		/* partial: the before image's JSON columns as they are in the event, data is NULL for none */
	int			capacity;
	Scratch		scratch;
} RowsCursor;

typedef enum PayloadCompression
{
	PAYLOAD_ZSTD = 0,
	PAYLOAD_NONE = 255
} PayloadCompression;

typedef struct PayloadCursor
{
	bool		open;
	PayloadCompression compression;
	ByteReader	input;
	uint64_t	declared;		/* inflated size as the event tells */
	uint64_t	produced;		/* inflated so far */
	uint64_t	handed_out;		/* of the events so far; never more than declared */
	bool		frame_done;		/* the last frame begun is complete */
	void	   *zstd;			/* ZSTD_DStream, kept for the next payload */
	uint8_t    *buffer;
	size_t		capacity;
	size_t		begin;			/* buffer[begin .. end): inflated, not handed out yet */
	size_t		end;
} PayloadCursor;

struct BinlogDecoder
{
	bool		checksummed;
	bool		leave_documents;
	BinlogWanted wanted;
	void	   *wanted_arg;
	uint64_t	statement;		/* counts statements: table maps hold for one */
	bool		statement_ended;	/* the rows event just decoded was the last of its statement */
	uint64_t	position;		/* last end position of the current file, for events past 4 GiB */
	TableCache	tables;
	RowsCursor	rows;
	PayloadCursor payload;
	char		xid[2 * 2 * 64 + 32];	/* canonical text of an XA_PREPARE event */
};

/* tablemap.c: the event's body without checksum. */
extern const SourceTable *capstan_tablemap_decode(BinlogDecoder *decoder, const uint8_t *body, size_t length,
												  CapstanError *error);
/* The map of the current statement with this id, or NULL. */
extern MappedTable *capstan_tablemap_find(BinlogDecoder *decoder, uint64_t table_id);
extern void capstan_tablemap_clear(BinlogDecoder *decoder);

/* values.c: length and bytes, in place; VALUE_BYTES. */
extern bool capstan_value_take_bytes(const ColumnLayout *layout, ByteReader *reader, SourceValue *value);

/* rows.c */
extern bool capstan_rows_begin(BinlogDecoder *decoder, uint8_t type_code, const uint8_t *body, size_t length,
							   BinlogEvent *event, CapstanError *error);
extern void capstan_rows_free(RowsCursor *rows);

/*
 * values.c: one value that is not NULL.  What cannot be pointed to in place goes to scratch and is
 * noted there: set_scratch makes what was appended since `offset` the value.
 */
extern void capstan_value_set_scratch(SourceValue *value, SourceValueKind kind, Scratch *scratch, size_t offset);
extern bool capstan_value_decode(const ColumnLayout *layout, const SourceColumn *column, ByteReader *reader,
								 SourceValue *value, Scratch *scratch, CapstanError *error);

/*
 * decimal.c: the text of a packed decimal of the given precision (at most DECIMAL_DIGITS_MAX) and scale in
 * the form row.h wants, appended to out; false if the bytes are not one.  Columns have at most 65 digits;
 * inside JSON the server counts whole groups of nine.
 */
#define DECIMAL_DIGITS_MAX 81
extern int	capstan_decimal_packed_size(int precision, int scale);
extern bool capstan_decimal_to_text(const uint8_t *packed, int precision, int scale, StrBuf *out);

/* jsondiff.c: the text of a JSON document after differences, appended to out; of a binary one, and of one given as text. */
extern bool capstan_json_apply_diffs(const uint8_t *document, size_t document_length,
									 const uint8_t *diffs, size_t diffs_length, StrBuf *out, CapstanError *error);
extern bool capstan_json_apply_diffs_to_text(const SourceBytes *document, const SourceBytes *diffs, StrBuf *out, CapstanError *error);

/*
 * payload.c: reads the fields in front of the payload and makes it the current one.  A payload's events are
 * decoded while it is open; the next event outside closes it.
 */
extern bool capstan_payload_begin(BinlogDecoder *decoder, const uint8_t *body, size_t length,
								  BinlogEvent *event, CapstanError *error);
extern void capstan_payload_close(BinlogDecoder *decoder);
extern void capstan_payload_free(PayloadCursor *payload);

static inline bool
capstan_bitmap_test(const uint8_t *bitmap, int bit)
{
	return (bitmap[bit >> 3] >> (bit & 7) & 1) != 0;
}

#endif
