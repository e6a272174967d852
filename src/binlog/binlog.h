/*
 * binlog.h
 *		The binary log's bytes made into events.
 *
 * Pure: no server, no Postgres.  Memory comes from base/memory.h: the decoder keeps and grows
 * buffers, so call all of its functions in the memory context it was made in.
 * Everything in the input is untrusted.
 *
 * Use:
 *		decoder = capstan_binlog_create();
 *		for each raw event as the dump protocol sends it (without the leading OK byte):
 *			capstan_binlog_decode(decoder, data, length, &event, &error)
 *			switch (event.kind)
 *				BINLOG_ROWS: while (capstan_binlog_next_change(decoder, &change, &error) == BINLOG_CHANGE) ...
 *				BINLOG_PAYLOAD: while ((rc = capstan_binlog_payload_next(decoder, &data, &length, &error)) == 1)
 *					capstan_binlog_decode_inner(decoder, data, length, &event, &error), and as above;
 *
 * Formats: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html
 * and the event class comments of libs/mysql/binlog/event/ in MySQL's sources.
 */
#ifndef CAPSTAN_BINLOG_H
#define CAPSTAN_BINLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/gtidset.h"
#include "row.h"

typedef enum BinlogEventKind
{
	BINLOG_IGNORED = 0,			/* known and of no interest, or unknown with LOG_EVENT_IGNORABLE_F */
	BINLOG_FORMAT,				/* FORMAT_DESCRIPTION: checksums, header sizes (handled inside) */
	BINLOG_ROTATE,
	BINLOG_GTID,				/* GTID and GTID_TAGGED: a group begins */
	BINLOG_ANONYMOUS_GTID,		/* a group without GTID: never right with gtid_mode=ON */
	BINLOG_QUERY,
	BINLOG_XID,					/* the group's end */
	BINLOG_XA_PREPARE,			/* the group's end */
	BINLOG_TABLE_MAP,
	BINLOG_ROWS,
	BINLOG_ROWS_QUERY,			/* the statement's text, for information */
	BINLOG_PAYLOAD,				/* TRANSACTION_PAYLOAD: compressed or plain events inside */
	BINLOG_HEARTBEAT,
	BINLOG_PREVIOUS_GTIDS,
	BINLOG_INCIDENT,			/* the source says that it lost events */
	BINLOG_STOP
} BinlogEventKind;

typedef struct BinlogEvent
{
	BinlogEventKind kind;
	uint8_t		type_code;		/* as in the header */
	uint16_t	flags;
	uint32_t	timestamp;		/* seconds; the statement's start; 0 for artificial events */
	uint32_t	server_id;
	uint64_t	end_position;	/* log_pos; 0 inside payloads and for artificial events */
	union
	{
		struct
		{
			SourceBytes file;
			uint64_t	position;
		}			rotate;		/* heartbeats fill it too */
		struct
		{
			Gtid		gtid;
			uint64_t	immediate_commit_us;	/* of the server we read from; 0 if not told */
			uint64_t	original_commit_us; /* of the server where it began; 0 if not told */
			uint64_t	transaction_length; /* bytes; 0 if not told */
		}			gtid;
		struct
		{
			SourceBytes schema; /* default database of the statement, may be "" */
			SourceBytes sql;
			uint16_t	error_code;
			uint16_t	charset;	/* character_set_client collation id; 0 if not told */
			bool		ansi_quotes;	/* the session's sql_mode, for capstan_statement_parse */
			bool		no_backslash_escapes;
		}			query;
		struct
		{
			SourceBytes xid;	/* canonical text X'gtrid',X'bqual',formatid as XA statements in the log have it */
			bool		one_phase;
		}			xa_prepare;
		const SourceTable *table;	/* BINLOG_TABLE_MAP: owned by the decoder, until the same id is mapped again, the end of the
									 * statement, or a new file. table->serial tells whether it is a map seen before. */
		struct
		{
			const SourceTable *table;	/* NULL: the dummy rows event that only ends a statement, table id 0xffffff */
			SourceChangeKind kind;
			bool		statement_end;
			bool		full_image; /* every column is present in every image of this event */
			bool		partial_json;	/* PARTIAL_UPDATE_ROWS: JSON columns may come as differences */
			uint16_t	row_flags;
			uint64_t	table_id;
		}			rows;
		struct
		{
			uint64_t	compressed_size;
			uint64_t	inflated_size;
		}			payload;
		struct
		{
			uint16_t	number;
			SourceBytes message;
		}			incident;
		struct
		{
			SourceBytes data;	/* for capstan_gtidset_decode */
		}			previous_gtids;
	}			u;
} BinlogEvent;

#define BINLOG_ROW_FLAG_STATEMENT_END	0x0001
#define BINLOG_ROW_FLAG_NO_FOREIGN_KEY_CHECKS 0x0002
/* MySQL 9.6+: foreign-key cascades of this change are in the log as rows (USE_SQL_FOREIGN_KEY_F there) */
#define BINLOG_ROW_FLAG_SQL_FOREIGN_KEY	0x0010

typedef struct BinlogDecoder BinlogDecoder;

extern BinlogDecoder *capstan_binlog_create(void);
extern void capstan_binlog_free(BinlogDecoder *decoder);

/*
 * Forgets table maps and checksum state, as at the start of a dump.  checksummed:
 * events carry a CRC32 (the session asked for it), until a FORMAT_DESCRIPTION says otherwise.
 */
extern void capstan_binlog_reset(BinlogDecoder *decoder, bool checksummed);

/*
 * Which tables' rows are wanted.  A table map of another table is only noted, its
 * rows events come out as BINLOG_ROWS with the table and need not be iterated.  To
 * spare the work of decoding columns of tables nobody wants, the decoder calls
 * this with the names at each table map that it does not remember; a false leaves table->ncolumns = 0.  The
 * answer for a table stays the same until another function is set or the decoder is reset.
 * Default: everything is wanted.
 */
typedef bool (*BinlogWanted) (void *arg, const char *schema_name, const char *table_name);
extern void capstan_binlog_set_wanted(BinlogDecoder *decoder, BinlogWanted wanted, void *arg);

/*
 * From the next rows event on: the documents of full images are VALUE_JSON_BINARY, not VALUE_JSON.  Those that stay as they are, or are deleted,
 * need not be read then, and nobody needs the text of those that become jsonb.
 */
extern void capstan_binlog_leave_documents(BinlogDecoder *decoder);

/*
 * One event with its 19-byte header and, if checksummed, its CRC32 (verified here).
 * What the event points to lives until the next call on this decoder, table maps longer.
 */
extern bool capstan_binlog_decode(BinlogDecoder *decoder, const uint8_t *data, size_t length,
								  BinlogEvent *event, CapstanError *error);

typedef enum BinlogNext
{
	BINLOG_ERROR = -1,
	BINLOG_END = 0,
	BINLOG_CHANGE = 1
} BinlogNext;

/*
 * The next row change of the BINLOG_ROWS event just decoded.  Values not in the row image
 * are VALUE_ABSENT.  In a partial JSON update, differences are applied to the document of the before image; if
 * that image does not have it (full_image is false then), the after value is VALUE_JSON_DIFFS, which change->documents->patch applies.
 */
extern BinlogNext capstan_binlog_next_change(BinlogDecoder *decoder, SourceChange *change, CapstanError *error);

/*
 * The next event inside the BINLOG_PAYLOAD just decoded: 1 and its bytes (header
 * included, no CRC), 0 at the end, -1 on error.  Inflates as a stream: memory is bounded by the
 * largest inner event, not by the payload.  Decode it with _decode_inner before the next call.
 */
extern int	capstan_binlog_payload_next(BinlogDecoder *decoder, const uint8_t **data, size_t *length, CapstanError *error);
extern bool capstan_binlog_decode_inner(BinlogDecoder *decoder, const uint8_t *data, size_t length,
										BinlogEvent *event, CapstanError *error);

/*
 * The raw bytes of the event just decoded stay with the caller; this tells for rows events
 * and table maps of one source transaction kept aside (prepared XA) that they can
 * be decoded later by a decoder in the same state: feed FORMAT_DESCRIPTION first.
 */

/* MySQL's text of a binary JSON value appended to out; false: malformed or nested over 100 levels. */
extern bool capstan_json_to_text(const uint8_t *data, size_t length, StrBuf *out, CapstanError *error);
/* The same told to a visitor (SourceDocuments.walk). */
extern bool capstan_json_walk(const uint8_t *data, size_t length, const SourceDocumentVisitor *visitor, void *arg, CapstanError *error);

#endif
