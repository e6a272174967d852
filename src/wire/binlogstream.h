/*
 * binlogstream.h
 *		The source's binary log as a stream of raw events, by GTID auto-position.
 *
 * Hides the two client libraries: Oracle's has mysql_binlog_open/fetch/close, MariaDB's
 * Connector/C sends COM_BINLOG_DUMP_GTID through its db_command method.
 *
 * SQLSTATEs besides wire.h's: CAPSTAN_ERRCODE_GTIDS_PURGED, CAPSTAN_ERRCODE_POSITION_AHEAD, CAPSTAN_ERRCODE_SERVER_ID from
 * the texts of error 1236; an unknown 1236 is definite (CAPSTAN_ERRCODE_UNDECODABLE).
 */
#ifndef CAPSTAN_BINLOGSTREAM_H
#define CAPSTAN_BINLOGSTREAM_H

#include "base/gtidset.h"
#include "wire/wire.h"

typedef struct BinlogStream BinlogStream;

/*
 * Starts the dump on conn, which from now on belongs to the stream.  server_id: 0 picks one from
 * replica_uuid.  heartbeat_ms: how often an idle source says so.
 */
extern BinlogStream *capstan_binlogstream_open(SourceConn *conn, const GtidSet *executed,
											   uint32_t server_id, const char *replica_uuid, int heartbeat_ms);

/*
 * The next event's bytes (no leading OK byte), valid until the next call.  Blocks; a
 * heartbeat event comes at the latest after heartbeat_ms.  A source silent for several heartbeats raises 08006.
 */
extern void capstan_binlogstream_fetch(BinlogStream *stream, const uint8_t **data, size_t *length);

/*
 * Is something waiting already (in the library's buffer or the socket)?  Only a hint: false may
 * be wrong under TLS.
 */
extern bool capstan_binlogstream_pending(BinlogStream *stream);

/* Is the next event, or the beginning of it, here already, so that no system call is needed to know?  False where that cannot be known. */
extern bool capstan_binlogstream_buffered(BinlogStream *stream);

/*
 * Waits for bytes on the socket, the latch (which it resets), or the timeout, whichever comes first.  True: there is something to
 * fetch; also where it cannot be known whether bytes are buffered (Oracle's library), and then the fetch waits for a heartbeat at most.
 * A source silent for too long raises 08006 here too.
 */
extern bool capstan_binlogstream_wait(BinlogStream *stream, long timeout_ms, uint32_t wait_event_info);

extern void capstan_binlogstream_close(BinlogStream *stream);

#endif
