/*
 * binlogstream.c
 *		The dump of the source's binary log, over either client library.
 *
 * Oracle's library has mysql_binlog_open() and mysql_binlog_fetch().  Connector/C has no dump by GTID of its
 * own, so the command is sent through its command method and the packets are read one by one:
 *
 *	   COM_BINLOG_DUMP_GTID (30), little-endian:
 *		   flags 2 | server id 4 | file name length 4 | file name | position 8 | data length 4 | GTID set
 *
 *	   each packet of the answer:	0x00 | event
 *									0xfe (short)	the source ends the dump
 *									0xff			an error, taken by the library
 *
 * https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump_gtid.html
 *
 * Nothing but events comes out of here: every end of the stream is an ERROR.
 */
#include "postgres.h"

#include <poll.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"

#include "compat.h"
#include "errcodes.h"
#include "wire/binlogstream.h"
#include "wire/internal.h"

#ifdef WIRE_CONNECTOR_C
#include <openssl/ssl.h>
#endif

#define COMMAND_BINLOG_DUMP_GTID 30
#define BINLOG_THROUGH_GTID 4
#define FIRST_POSITION 4
#define LARGE_PACKET (1024 * 1024)

/*
 * The source looks for the first file, perhaps through very many, before it sends anything: half an hour.  After
 * that heartbeats come, and so many of them may be missing, but not less than this time.
 */
#define FIRST_EVENT_TIMEOUT_MS (30 * 60 * 1000)
#define MISSING_HEARTBEATS 20
#define MIN_SILENCE_MS 10000

struct BinlogStream
{
	SourceConn *conn;
	bool		started;		/* the first event is here */
	bool		lost;
	int			silence_ms;		/* as long as the source may say nothing */
	instr_time	heard;			/* when it last said something, as far as a wait knows */
	bool		said;			/* it has said something since */
	size_t		last_length;	/* of the packet read last */
#ifndef WIRE_CONNECTOR_C
	MYSQL_RPL	rpl;
#endif
	StrBuf		gtids;
};

static void
set_session(SourceConn *conn, const char *replica_uuid, int heartbeat_ms)
{
	char	   *uuid = capstan_wire_quote_literal(replica_uuid);
	uint64		period = (uint64) heartbeat_ms * 1000000;

	/* Each variable under both of its names: servers before 8.0.26 know the older ones only. */
	capstan_wire_exec(conn, psprintf("SET @source_heartbeat_period = " UINT64_FORMAT ", "
									 "@master_heartbeat_period = " UINT64_FORMAT ", "
									 "@source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32', "
									 "@replica_uuid = %s, @slave_uuid = %s",
									 period, period, uuid, uuid));
}

static uint32
choose_server_id(SourceConn *conn, const char *replica_uuid)
{
	char	   *theirs = capstan_wire_query_value(conn, "SELECT @@GLOBAL.server_id");
	uint32		id = DatumGetUInt32(hash_any((const unsigned char *) replica_uuid, (int) strlen(replica_uuid)));

	/* Away from the small numbers that people give by hand. */
	id |= 0x40000000;
	if (theirs != NULL && strtoul(theirs, NULL, 10) == id)
		id ^= 1;
	return id;
}

static void raise_dump(BinlogStream *stream, unsigned int number, const char *sqlstate, const char *message) __attribute__((noreturn));

/*
 * Error 1236 covers everything that may go wrong with a dump; only the text tells what.  Texts of 8.0 to 9.x, in
 * English since that is what the session asked for.
 */
static void
raise_dump(BinlogStream *stream, unsigned int number, const char *sqlstate, const char *message)
{
	static const struct
	{
		const char *text;
		int			sqlerrcode;
		const char *hint;
	}			causes[] = {
		{"purged", CAPSTAN_ERRCODE_GTIDS_PURGED,
		"The transactions that are missing are gone from the source: copy the tables again, and raise binlog_expire_logs_seconds on the source."},
		{"more GTIDs than", CAPSTAN_ERRCODE_POSITION_AHEAD,
		"The source has lost transactions that were applied here, or it is another server."},
		{"same server_uuid/server_id", CAPSTAN_ERRCODE_SERVER_ID,
		"Another client streams with this pipeline's identity: is a copy of this database running elsewhere?"},
		{"anonymous transaction", CAPSTAN_ERRCODE_SOURCE_SETTING,
		"gtid_mode was not ON on the source for a while, and what has no GTID cannot be streamed. With gtid_mode = ON there again, "
		"capstan.restart_snapshot() copies all tables anew."},
		{"GTID_MODE", CAPSTAN_ERRCODE_SOURCE_SETTING,
		"The source needs gtid_mode=ON."},
		{"Binary log is not open", CAPSTAN_ERRCODE_SOURCE_SETTING,
		"The source needs log_bin."},

		/* RESET BINARY LOGS under our feet; the next connect finds out what it means. */
		{"could not find next log", ERRCODE_CONNECTION_FAILURE, NULL},
		{"I/O error reading log event", ERRCODE_CONNECTION_FAILURE, NULL},
		{"Could not open log file", ERRCODE_CONNECTION_FAILURE, NULL},
		{"exceeded max_allowed_packet", CAPSTAN_ERRCODE_UNDECODABLE,
		"Raise replica_max_allowed_packet and max_allowed_packet on the source."},
	};
	SourceConn *conn = stream->conn;
	int			sqlerrcode = CAPSTAN_ERRCODE_UNDECODABLE;
	const char *hint = NULL;

	stream->lost = true;
	if (number != WIRE_ER_MASTER_FATAL_READING_BINLOG)
	{
		if (number == WIRE_ER_SPECIFIC_ACCESS_DENIED || number == WIRE_ER_ACCESS_DENIED)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("could not stream from source \"%s\": %s", conn->server_name,
							capstan_wire_error_text(number, message)),
					 errhint("Run on the source: GRANT REPLICATION SLAVE ON *.* TO the account of the user mapping.")));
		capstan_wire_raise_number(conn, "stream from", number, sqlstate, message);
	}
	capstan_wire_mark_lost(conn);
	for (int i = 0; i < (int) lengthof(causes); i++)
	{
		if (strcasestr(message, causes[i].text) != NULL)
		{
			sqlerrcode = causes[i].sqlerrcode;
			hint = causes[i].hint;
			break;
		}
	}
	ereport(ERROR,
			(errcode(sqlerrcode),
			 errmsg("source \"%s\" ended the stream: %s", conn->server_name, capstan_wire_error_text(number, message)),
			 errdetail("MySQL error %u (%s) at %s.", number, capstan_wire_plain_sqlstate(sqlstate), conn->host),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void raise_library(BinlogStream *stream) __attribute__((noreturn));
static void
raise_library(BinlogStream *stream)
{
	MYSQL	   *mysql = stream->conn->mysql;
	unsigned int number = mysql_errno(mysql);
	char	   *message = pstrdup(mysql_error(mysql));
	char	   *sqlstate = pstrdup(mysql_sqlstate(mysql));

	raise_dump(stream, number != 0 ? number : CR_SERVER_LOST, sqlstate, message);
}

static void raise_end(BinlogStream *stream) __attribute__((noreturn));
static void
raise_end(BinlogStream *stream)
{
	stream->lost = true;
	capstan_wire_mark_lost(stream->conn);
	CHECK_FOR_INTERRUPTS();
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("source \"%s\" ended the stream", stream->conn->server_name),
			 errdetail("It is shutting down, or the stream was killed there.")));
}

#ifdef WIRE_CONNECTOR_C

static void
store_uint(StrBuf *out, uint64 value, int width)
{
	for (int i = 0; i < width; i++)
		capstan_strbuf_append_char(out, (char) (value >> (8 * i) & 0xff));
}

static void
start_dump(BinlogStream *stream, uint32 server_id)
{
	MYSQL	   *mysql = stream->conn->mysql;
	StrBuf		command;

	capstan_strbuf_init(&command);
	store_uint(&command, BINLOG_THROUGH_GTID, 2);
	store_uint(&command, server_id, 4);
	store_uint(&command, 0, 4);
	store_uint(&command, FIRST_POSITION, 8);
	store_uint(&command, stream->gtids.length, 4);
	capstan_strbuf_append(&command, stream->gtids.data, stream->gtids.length);
	if (mysql->methods->db_command(mysql, (enum enum_server_command) COMMAND_BINLOG_DUMP_GTID,
								   command.data, command.length, 1, NULL) != 0)
		raise_library(stream);
	capstan_strbuf_free(&command);
}

/* The next packet with its first byte. */
static void
read_packet(BinlogStream *stream, const uint8_t **data, size_t *length)
{
	MYSQL	   *mysql = stream->conn->mysql;
	unsigned long n = mysql_net_read_packet(mysql);

	if (n == packet_error)
		raise_library(stream);
	*data = mysql->net.read_pos;
	*length = n;
}

/* 1: something is buffered, 0: nothing is, -1: not known. */
static int
is_buffered(BinlogStream *stream)
{
	MYSQL	   *mysql = stream->conn->mysql;
	MARIADB_PVIO *pvio = mysql->net.pvio;
	SSL		   *ssl;

	if (pvio == NULL)
		return 1;
	if (pvio->cache != NULL && pvio->cache + pvio->cache_size > pvio->cache_pos)
		return 1;
	if (pvio->ctls == NULL)
		return 0;
	ssl = capstan_wire_ssl(mysql);
	return ssl != NULL ? SSL_has_pending(ssl) : -1;
}

static void
end_dump(BinlogStream *stream)
{
}

#else							/* Oracle's library */

static void
fix_gtid_set(MYSQL_RPL *rpl, unsigned char *packet)
{
	const BinlogStream *stream = rpl->gtid_set_arg;

	memcpy(packet, stream->gtids.data, stream->gtids.length);
}

static void
start_dump(BinlogStream *stream, uint32 server_id)
{
	MYSQL_RPL  *rpl = &stream->rpl;

	memset(rpl, 0, sizeof(*rpl));
	rpl->file_name = "";
	rpl->start_position = FIRST_POSITION;
	rpl->server_id = server_id;
	rpl->flags = MYSQL_RPL_GTID | BINLOG_THROUGH_GTID;
	rpl->gtid_set_encoded_size = stream->gtids.length;
	rpl->fix_gtid_set = fix_gtid_set;
	rpl->gtid_set_arg = stream;
	if (mysql_binlog_open(stream->conn->mysql, rpl) != 0)
		raise_library(stream);
}

static void
read_packet(BinlogStream *stream, const uint8_t **data, size_t *length)
{
	/* The library's read timeout does not hold for the source's search for the first file. */
	if (!stream->started && !capstan_wire_wait_readable(stream->conn, FIRST_EVENT_TIMEOUT_MS))
		capstan_wire_raise_silent(stream->conn, FIRST_EVENT_TIMEOUT_MS);
	capstan_wire_begin_blocking(stream->conn);
	if (mysql_binlog_fetch(stream->conn->mysql, &stream->rpl) != 0)
		raise_library(stream);
	capstan_wire_end_blocking();
	*data = stream->rpl.buffer;
	*length = stream->rpl.size;
}

static int
is_buffered(BinlogStream *stream)
{
	return -1;
}

static void
end_dump(BinlogStream *stream)
{
	if (!stream->lost)
		mysql_binlog_close(stream->conn->mysql, &stream->rpl);
}

#endif

BinlogStream *
capstan_binlogstream_open(SourceConn *conn, const GtidSet *executed, uint32_t server_id,
						  const char *replica_uuid, int heartbeat_ms)
{
	BinlogStream *stream;
	MemoryContext old;
	int			read_timeout = conn->timeout_ms;

	capstan_wire_check_idle(conn);
	set_session(conn, replica_uuid, heartbeat_ms);
	if (server_id == 0)
		server_id = choose_server_id(conn, replica_uuid);

	old = MemoryContextSwitchTo(conn->context);
	stream = palloc0(sizeof(BinlogStream));
	stream->conn = conn;
	stream->silence_ms = Max(MISSING_HEARTBEATS * heartbeat_ms, MIN_SILENCE_MS);
	if (read_timeout > 0)
		stream->silence_ms = Min(stream->silence_ms, Max(read_timeout, 3 * heartbeat_ms));
	capstan_strbuf_init(&stream->gtids);
	capstan_gtidset_encode(executed, &stream->gtids);
	MemoryContextSwitchTo(old);

	conn->busy = true;
	conn->timeout_ms = FIRST_EVENT_TIMEOUT_MS;
	INSTR_TIME_SET_CURRENT(stream->heard);
	start_dump(stream, server_id);
	return stream;
}

void
capstan_binlogstream_fetch(BinlogStream *stream, const uint8_t **data, size_t *length)
{
	const uint8_t *packet;
	size_t		n;

	CHECK_FOR_INTERRUPTS();
	if (stream->lost)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("the stream from source \"%s\" has ended", stream->conn->server_name)));
	/* the library keeps the buffer of its longest packet */
	if (stream->last_length >= LARGE_PACKET)
		capstan_wire_forget_packet(stream->conn);
	read_packet(stream, &packet, &n);
	stream->last_length = n;
	if (n == 0 || (packet[0] == 0xfe && n < 9))
		raise_end(stream);
	if (packet[0] != 0)
	{
		stream->lost = true;
		capstan_wire_mark_lost(stream->conn);
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("source \"%s\" sent something else than an event", stream->conn->server_name),
				 errdetail("The packet begins with 0x%02x and has %zu bytes.", packet[0], n)));
	}
	if (!stream->started)
	{
		stream->started = true;
		stream->conn->timeout_ms = stream->silence_ms;
	}
	stream->said = true;
	*data = packet + 1;
	*length = n - 1;
}

bool
capstan_binlogstream_buffered(BinlogStream *stream)
{
	return is_buffered(stream) > 0;
}

bool
capstan_binlogstream_pending(BinlogStream *stream)
{
	struct pollfd pfd;

	if (is_buffered(stream) > 0)
		return true;
	pfd.fd = capstan_wire_socket(stream->conn);
	pfd.events = POLLIN;
	pfd.revents = 0;
	return poll(&pfd, 1, 0) > 0;
}

bool
capstan_binlogstream_wait(BinlogStream *stream, long timeout_ms, uint32_t wait_event_info)
{
	int			patience = stream->started ? stream->silence_ms : FIRST_EVENT_TIMEOUT_MS;
	instr_time	now;
	long		left;
	int			rc;

	if (stream->lost || is_buffered(stream) != 0)
		return true;
	INSTR_TIME_SET_CURRENT(now);
	if (stream->said)
	{
		/* what came was worked on until now: silence begins here */
		stream->heard = now;
		stream->said = false;
	}
	INSTR_TIME_SUBTRACT(now, stream->heard);
	left = Max(patience - (long) INSTR_TIME_GET_MILLISEC(now), 0);
	rc = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						   capstan_wire_socket(stream->conn), Min(timeout_ms, left), wait_event_info);
	if (rc & WL_LATCH_SET)
		ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	/* A caller that fetches only after this wait must learn here that nothing will come. */
	if ((rc & (WL_LATCH_SET | WL_SOCKET_READABLE)) == 0 && left <= timeout_ms)
	{
		stream->lost = true;
		capstan_wire_raise_silent(stream->conn, patience);
	}
	return (rc & WL_SOCKET_READABLE) != 0;
}

void
capstan_binlogstream_close(BinlogStream *stream)
{
	end_dump(stream);
	capstan_wire_close(stream->conn);
}
