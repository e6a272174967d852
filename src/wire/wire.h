/*
 * wire.h
 *		Talking to the MySQL source through libmysqlclient (or MariaDB
 *		Connector/C): connect, query, describe tables, read rows.
 *
 * Used by worker/, snapshot/ and sqlapi/.  This folder is the only one that includes <mysql.h>.
 *
 * All functions run in a Postgres backend and raise ERROR on failure.  Our own
 * memory is palloc'd in the current context; the client library's (malloc, sockets)
 * belongs to the SourceConn, which is freed by capstan_wire_close or, after an
 * ERROR, by the memory context that the SourceConn was made in
 * (reset callback) - so that a backend's failed function leaks no connection.
 *
 * SQLSTATEs: 08001 cannot connect, 08006 connection lost, 28P01 access denied
 * for the user, 42501 missing privilege, 42P01 no such table, 55P03 lock wait timeout
 * or query killed, 40P01 deadlock; others HV000 (fdw_error) with MySQL's number and text.
 * Messages never contain the password, nor the text of statements with values.
 */
#ifndef CAPSTAN_WIRE_H
#define CAPSTAN_WIRE_H

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"

#include "object.h"
#include "row.h"

typedef enum SourceSslMode
{
	SSL_MODE_OPTION_DISABLED,
	SSL_MODE_OPTION_PREFERRED,	/* default */
	SSL_MODE_OPTION_REQUIRED,
	SSL_MODE_OPTION_VERIFY_CA,
	SSL_MODE_OPTION_VERIFY_IDENTITY
} SourceSslMode;

typedef struct SourceOptions
{
	char	   *server_name;	/* the foreign server's name, for messages */
	char	   *hosts;			/* 'a' or 'a,b:3307': tried in order */
	int			port;			/* for hosts without their own */
	char	   *user;
	char	   *password;		/* NULL: none */
	SourceSslMode ssl_mode;
	char	   *ssl_ca;			/* NULL: the client library's default */
	char	   *ssl_cert;
	char	   *ssl_key;
	int			connect_timeout_s;	/* default 10 */
	int			read_timeout_s;	/* default 60: a connection silent for longer is dead */
} SourceOptions;

typedef struct SourceConn SourceConn;

/* Where an answer, or the first row of one, has not come in time. */
#define CAPSTAN_SLOW_SOURCE_HINT "If the source is there and only slow, increase the server option read_timeout."

/*
 * Connects to the first host that answers.  purpose: shown on the source as connection
 * attribute program_name "capstan/<purpose>".  Session set up: time_zone '+00:00' (and
 * asserted), sql_mode '', character_set_results NULL (raw column bytes), names utf8mb4, REPEATABLE READ, autocommit=1,
 * sql_select_limit none, max_execution_time 0, net_write_timeout and net_read_timeout raised, show_gipk ON. LOCAL INFILE off; cleartext auth plugins only over TLS.
 * Refuses MariaDB servers and versions below 8.0.
 */
extern SourceConn *capstan_wire_connect(const SourceOptions *options, const char *purpose);
/*
 * The same, to the server with this uuid: raises CAPSTAN_ERRCODE_SOURCE_IDENTITY if the one that answers first is another.  For all that is to fit what
 * is read over another connection, also when it is opened anew: meanwhile the first of several hosts may be back.
 */
extern SourceConn *capstan_wire_connect_to(const SourceOptions *options, const char *purpose, const char *server_uuid);
extern void capstan_wire_close(SourceConn *conn);	/* NULL allowed */
/* Has a source let this process in, with some password? */
extern bool capstan_wire_was_let_in(void);

extern const char *capstan_wire_server_uuid(SourceConn *conn);	/* read at connect, cached */
extern const char *capstan_wire_server_version(SourceConn *conn);	/* "9.7.4-2" */
extern int	capstan_wire_server_version_num(SourceConn *conn);	/* 90704 */
extern uint64_t capstan_wire_thread_id(SourceConn *conn);
extern const char *capstan_wire_host(SourceConn *conn); /* the one connected to, "host:port" */
extern bool capstan_wire_is_tls(SourceConn *conn);

typedef struct SourceResult
{
	int			nrows;
	int			ncolumns;
	char	 ***rows;			/* rows[i][j]: NUL-terminated text or NULL */
} SourceResult;

/* binlog_do_db and binlog_ignore_db: lists with commas; NULL: there is no binary log. */
typedef struct BinlogFilters
{
	const char *only;
	const char *without;
} BinlogFilters;

/* False: not known, REPLICATION CLIENT is missing. */
extern bool capstan_wire_binlog_filters(SourceConn *conn, BinlogFilters *filters);
/* Raises if the source has given up its binary log after an error (binlog_error_action = IGNORE_ERROR); as far as the account sees it. */
extern void capstan_wire_check_logging(SourceConn *conn);
/* Are changes of the schema not in the binary log? */
extern bool capstan_wire_leaves_out(const BinlogFilters *filters, const char *schema_name);
/* *known: as above. */
extern bool capstan_wire_is_replica(SourceConn *conn, bool *known);

extern void capstan_wire_exec(SourceConn *conn, const char *sql);
/* 0, or MySQL's error number (text in *message if not NULL, palloc'd); connection failures are raised all the same. */
extern unsigned int capstan_wire_try_exec(SourceConn *conn, const char *sql, char **message);

/*
 * What a result must have, so that its rows can be looked at: for each column from the first one a letter, there may be more columns.  A
 * column with a letter is text in utf-8.  Anything else that the source sends is an error, ERRCODE_PROTOCOL_VIOLATION.  NULL: nothing, the
 * rows are only counted.
 */
#define WIRE_VALUE "v"			/* never NULL */
#define WIRE_NULLABLE "n"
#define WIRE_ANY "a"			/* not looked at */
extern SourceResult *capstan_wire_query(SourceConn *conn, const char *sql, const char *expected);
extern unsigned int capstan_wire_try_query(SourceConn *conn, const char *sql, const char *expected, SourceResult **result,
										   char **message);
/* First column of the first row; NULL if there is no row or it is NULL. */
extern char *capstan_wire_query_value(SourceConn *conn, const char *sql);
/* The one column of the one row, which must be there. */
extern char *capstan_wire_query_not_null(SourceConn *conn, const char *sql);
/* Warnings of the last statement. */
extern unsigned int capstan_wire_warning_count(SourceConn *conn);

/* Once, for a connection that will be given two statements at a time. */
extern void capstan_wire_allow_two(SourceConn *conn);

/*
 * Two statements sent at once, where a round trip more counts; the second is run if the first did not fail.  The first has no result set;
 * first_warnings: how many it gave.  0 or the error number of either.
 */
extern unsigned int capstan_wire_try_exec_two(SourceConn *conn, const char *first, const char *second, unsigned int *first_warnings, char **message);

/*
 * A statement that may block (LOCK TABLES), sent without waiting for the answer, so
 * that the caller can watch its latch and its clock, and KILL QUERY from another connection.
 */
extern void capstan_wire_send(SourceConn *conn, const char *sql);
/* The connection's socket, to wait on with WaitLatchOrSocket. */
extern int	capstan_wire_socket(SourceConn *conn);
/* Collects the answer (blocks until it is there): 0 or the error number. */
extern unsigned int capstan_wire_receive(SourceConn *conn, char **message);
/* The same where the socket is known to be readable: saves a wait, where each microsecond counts. */
extern unsigned int capstan_wire_take(SourceConn *conn, char **message);
/* The answer to a query of which only counts whether it finds a row: 0 or the error number. */
extern unsigned int capstan_wire_receive_found(SourceConn *conn, bool *found, char **message);
/* The answer to a query of one value that was sent; raises as capstan_wire_query_not_null does. */
extern char *capstan_wire_receive_not_null(SourceConn *conn);

/* `name` with backquotes, doubled inside; palloc'd. */
extern char *capstan_wire_quote_identifier(const char *name);
/* A string literal for the connection's utf8mb4, backslash-safe; palloc'd. */
extern char *capstan_wire_quote_literal(const char *text);

/*
 * The value as a MySQL literal that compares as the column does: numbers as digits, decimals exact, temporal as
 * DATE'..'/TIMESTAMP'..'/TIME'..' text, binary x'..', text _charset x'..' COLLATE the column's collation, BIT b'..'.
 * Not for ENUM, SET, FLOAT, DOUBLE, JSON (raises).
 */
extern void capstan_wire_append_literal(StringInfo out, const SourceColumn *column, const SourceValue *value);

/*
 * The source's tables that match any of the patterns (schema.table, * and ?, matched as the
 * source's lower_case_table_names says), base tables only, system schemas never, ordered by name; set-wise: a fixed number of queries whatever
 * the number of tables.  Each pattern that matches nothing is reported in *unmatched (List of char *).
 */
typedef struct SourceTableInfo
{
	SourceTable table;			/* columns in ordinal order, all of them: invisible and generated too */
	char	   *engine;
	int64_t		rows_estimate;
	int64_t		data_bytes;
	bool		cascade_child;	/* has a foreign key with ON DELETE/UPDATE CASCADE, SET NULL or SET DEFAULT */
	char	   *cascade_constraint; /* its name */
	char	   *comment;		/* of the table; NULL: none */
	char	  **column_comments;	/* the same of each column */
	bool		has_unsupported; /* some column is SOURCE_OTHER */
	char	   *zoned_column;	/* VIRTUAL and computed from a TIMESTAMP, in the time zone of who reads or writes it; NULL: none */
	char	   *settled_column; /* VIRTUAL and computed by a setting of who reads or writes it; NULL: none */
	const char *settled_by;		/* the name of that */
	char	   *masked_column;	/* what is read of it is made by a masking policy; NULL: none */
	bool		view;			/* a view matched the pattern literally: not copied; says so */
	SourceObjects *objects;		/* NULL until capstan_wire_fill_objects */
} SourceTableInfo;

extern List *capstan_wire_list_tables(SourceConn *conn, List *patterns, List **unmatched);
/* Does one pattern (utf-8) mean this table?  Names and pattern are compared as they are. */
extern bool capstan_wire_pattern_matches(const char *pattern, const char *schema_name, const char *table_name);
/*
 * Columns, keys, cascades of tables as they are now, by a fixed number of queries.  names: List of (schema, table) Lists of char *, used in
 * the result, a List of SourceTableInfo in the same order; NULL in the place of a table that does not exist.
 */
extern List *capstan_wire_describe_tables(SourceConn *conn, List *names);
/* One table, and all that is known of it. */
extern SourceTableInfo *capstan_wire_describe_table(SourceConn *conn, const char *schema_name, const char *table_name);

/*
 * Indexes, foreign keys, checks, defaults, comments of these tables (List of SourceTableInfo *); a fixed number of queries.
 */
extern void capstan_wire_fill_objects(SourceConn *conn, List *infos);

/*
 * What each column gets when an INSERT does not name it (table->ncolumns values, palloc'd), as row images without it imply;
 * ABSENT where such an image cannot come (expression defaults, generated columns, AUTO_INCREMENT).
 */
extern SourceValue *capstan_wire_column_defaults(SourceConn *conn, const SourceTable *table);

/*
 * Reading rows through the binary protocol, unbuffered.  select_columns: as from
 * capstan_wire_select_list.  The caller gives the whole statement; `columns` are
 * the SourceColumns of its result, in order.
 */
typedef struct SourceCursor SourceCursor;

/* "`a`, `b`, ..." of these columns (NULL indexes: all of the table). */
extern void capstan_wire_append_select_list(StringInfo out, const SourceTable *table, const int *indexes, int nindexes);
extern SourceCursor *capstan_wire_open_cursor(SourceConn *conn, const char *sql, const SourceColumn *const *columns, int ncolumns);
/*
 * True and the row's values, or false at the clean end.  A result cut short raises.  Values
 * point into the cursor's own buffers until the next fetch.  Checks for interrupts now and then.
 * A temporal value carries u.datetime etc. exactly as row.h says (TIMESTAMP by the UTC session).
 */
extern bool capstan_wire_fetch(SourceCursor *cursor, SourceValue *values);
/* Bytes of row data received by this cursor so far. */
extern uint64_t capstan_wire_cursor_bytes(SourceCursor *cursor);
extern void capstan_wire_close_cursor(SourceCursor *cursor);

/* 'user'@'host' of the account that the session was given, as GRANT wants it. */
extern char *capstan_wire_account(SourceConn *conn);
/* Postgres' SQLSTATE for an error of MySQL's; message: its text, or NULL. */
extern int	capstan_wire_sqlstate(unsigned int number, const char *message);

/* One row of capstan.preflight(). */
typedef enum CheckStatus
{
	CHECK_OK,
	CHECK_WARNING,
	CHECK_ERROR
} CheckStatus;

typedef struct PreflightCheck
{
	const char *name;			/* "gtid_mode", "privilege_lock_tables", "primary_key shop.orders" ... */
	CheckStatus status;
	char	   *found;
	char	   *wanted;
	char	   *fix;			/* the statement that mends it, or NULL */
	int			sqlerrcode;		/* raised by create_pipeline when status is CHECK_ERROR */
} PreflightCheck;

/*
 * The checks that only need the source: version, flavour, log_bin, gtid_mode, enforce_gtid_consistency, binlog_format, binlog_row_image,
 * binlog_row_metadata, binlog_row_value_options, log_replica_updates (on a replica), server_id, privileges (REPLICATION SLAVE, REPLICATION CLIENT if needed, SELECT and LOCK TABLES on
 * every schema named; the exact GRANT), require_secure_transport, binlog filters, sync_binlog, binlog_expire_logs_seconds, and per
 * table: engine, key, column types, cascades (see design section 6 "Before the first row" and mysql-notes 3.7).
 * Appends PreflightChecks.  with_copy: false for snapshot => 'never' (no LOCK TABLES needed); one_cut: true for 'consistent'.
 */
extern List *capstan_wire_preflight(SourceConn *conn, const SourceOptions *options, List *tables, bool with_copy,
									bool one_cut);

#endif
