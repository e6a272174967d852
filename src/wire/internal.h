/*
 * internal.h
 *		What the files of wire/ share, and the one place that includes <mysql.h>.
 *
 * Two client libraries have this header: Oracle's libmysqlclient and MariaDB
 * Connector/C.  WIRE_CONNECTOR_C tells which one it is.
 */
#ifndef CAPSTAN_WIRE_INTERNAL_H
#define CAPSTAN_WIRE_INTERNAL_H

/* postgres.h comes first, in the .c. */
/* Connector/C declares lists with names that Postgres has, too; nothing here calls them. */
#define list_add connector_list_add
#define list_cons connector_list_cons
#define list_delete connector_list_delete
#define list_free connector_list_free
#define list_length connector_list_length
#define list_reverse connector_list_reverse
#define list_walk connector_list_walk
#include <mysql.h>
#include <errmsg.h>
#if defined(MARIADB_BASE_VERSION) || defined(MARIADB_PACKAGE_VERSION)
#define WIRE_CONNECTOR_C 1
#include <ma_pvio.h>
#endif
#undef list_add
#undef list_cons
#undef list_delete
#undef list_free
#undef list_length
#undef list_reverse
#undef list_walk

#ifdef WIRE_CONNECTOR_C
typedef my_bool WireBool;
#else
typedef bool WireBool;
#endif

#include "lib/ilist.h"
#include "utils/palloc.h"

#include "wire/wire.h"

/* Connector/C's refusal of an authentication plugin that is not in its list. */
#define WIRE_CR_PLUGIN_NOT_ALLOWED 5010

/* Server errors that are looked at by number: https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html */
#define WIRE_ER_DISK_FULL						1021
#define WIRE_ER_OUTOFMEMORY						1037
#define WIRE_ER_OUT_OF_SORTMEMORY				1038
#define WIRE_ER_CON_COUNT						1040
#define WIRE_ER_OUT_OF_RESOURCES				1041
#define WIRE_ER_DBACCESS_DENIED					1044
#define WIRE_ER_ACCESS_DENIED					1045
#define WIRE_ER_BAD_DB							1049
#define WIRE_ER_SERVER_SHUTDOWN					1053
#define WIRE_ER_NORMAL_SHUTDOWN					1077
#define WIRE_ER_RECORD_FILE_FULL				1114
#define WIRE_ER_HOST_IS_BLOCKED					1129
#define WIRE_ER_HOST_NOT_PRIVILEGED				1130
#define WIRE_ER_CANT_CREATE_THREAD				1135
#define WIRE_ER_TABLEACCESS_DENIED				1142
#define WIRE_ER_COLUMNACCESS_DENIED				1143
#define WIRE_ER_NO_SUCH_TABLE					1146
#define WIRE_ER_ABORTING_CONNECTION				1152
#define WIRE_ER_PACKET_TOO_LARGE				1153
#define WIRE_ER_NET_PACKETS_OUT_OF_ORDER		1156
#define WIRE_ER_NET_UNCOMPRESS					1157
#define WIRE_ER_NET_READ						1158
#define WIRE_ER_NET_READ_INTERRUPTED			1159
#define WIRE_ER_NET_ERROR_ON_WRITE				1160
#define WIRE_ER_NET_WRITE_INTERRUPTED			1161
#define WIRE_ER_NEW_ABORTING_CONNECTION			1184
#define WIRE_ER_TOO_MANY_USER_CONNECTIONS		1203
#define WIRE_ER_LOCK_WAIT_TIMEOUT				1205
#define WIRE_ER_LOCK_DEADLOCK					1213
#define WIRE_ER_USER_LIMIT_REACHED				1226
#define WIRE_ER_SPECIFIC_ACCESS_DENIED			1227
#define WIRE_ER_MASTER_FATAL_READING_BINLOG		1236
#define WIRE_ER_QUERY_INTERRUPTED				1317
#define WIRE_ER_PROCACCESS_DENIED				1370
#define WIRE_ER_PREPARED_STATEMENTS				1461
#define WIRE_ER_ACCESS_DENIED_NO_PASSWORD		1698
#define WIRE_ER_TABLE_DEF_CHANGED				1412
#define WIRE_ER_MUST_CHANGE_PASSWORD			1820
#define WIRE_ER_MUST_CHANGE_PASSWORD_LOGIN		1862
#define WIRE_ER_QUERY_TIMEOUT					3024
#define WIRE_ER_SERVER_OFFLINE_MODE				3032
#define WIRE_ER_ACCOUNT_LOCKED					3118
#define WIRE_ER_SECURE_TRANSPORT_REQUIRED		3159
#define WIRE_ER_SESSION_WAS_KILLED				3169
#define WIRE_ER_LOCK_NOWAIT						3572
#define WIRE_ER_WRONG_COMPRESSION				3922
#define WIRE_ER_CLIENT_INTERACTION_TIMEOUT		4031
#define WIRE_ER_GLOBAL_MEMORY					4081
#define WIRE_ER_CONNECTION_MEMORY				4082

struct SourceConn
{
	MemoryContext context;		/* the connection's own; its deletion closes the connection */
	MemoryContextCallback callback;
	dlist_node	node;			/* in the list of this process' connections */
	MYSQL	   *mysql;			/* NULL once closed */
	struct SourceCursor *cursor;	/* the open one, or NULL; dangling while the context is being deleted */
	MYSQL_STMT *stmt;			/* its statement */
	bool		fd_reserved;	/* AcquireExternalFD() to be given back */
	bool		connected;
	bool		want_tls;		/* not a byte of an authentication in clear */
	bool		tls_refused;	/* want_tls, and the server does not offer it: cut off before authenticating */
	bool		want_verified;	/* nor to a server whose certificate no authority of ours has signed */
	const char *want_host;		/* nor to one whose certificate is for another host; NULL: for any host */
	bool		untrusted;		/* the certificate is not what is wanted: cut off before a password was sent */
	bool		closing;		/* no more waiting */
	bool		busy;			/* a statement is under way, or was left in the middle */
	int			timeout_ms;		/* silence that means a dead connection; -1: none */
	uint64		expected_bytes; /* as many may still come; 0: any number */

	char	   *server_name;
	char	   *host;			/* "host:port" */
	char	   *uuid;
	char	   *version;
	int			version_num;
	uint64		thread_id;
};

/* connection.c */

/* A SourceConn without a handle, in its own context under the current one. */
extern SourceConn *capstan_wire_new_connection(const char *server_name);
/* Around mysql_real_connect(). */
extern void capstan_wire_hook_waits(SourceConn *conn);
extern void capstan_wire_begin_connecting(SourceConn *conn);
extern void capstan_wire_end_connecting(SourceConn *conn);

/* Around a call that may block inside the library: with Oracle's, an interrupt then cuts the connection. */
extern void capstan_wire_begin_blocking(SourceConn *conn);
extern void capstan_wire_end_blocking(void);
/* Does Connector/C use OpenSSL, so that its TLS objects can be asked?  Not for Oracle's library. */
extern bool capstan_wire_library_is_openssl(void);
/* Connector/C's SSL object of a connection, or NULL: not TLS, not OpenSSL, or not known. */
extern void *capstan_wire_ssl(MYSQL *mysql);
/* Raises if the connection is closed or in the middle of something. */
extern void capstan_wire_check_idle(SourceConn *conn);
/* Waits until the socket can be read, the connection's timeout at most; handles interrupts.  False: timed out. */
extern bool capstan_wire_wait_readable(SourceConn *conn, int timeout_ms);
/*
 * From now on the source may send so many bytes; 0: any number.  More end the connection, since the library keeps all that it
 * takes for one packet or one list of columns.  Connector/C only.
 */
extern void capstan_wire_expect(SourceConn *conn, uint64 most_bytes);
extern void capstan_wire_mark_lost(SourceConn *conn);
/* Nothing of the last packet is needed any more: the library's buffer for packets, which never shrinks, need not hold memory. */
extern void capstan_wire_forget_packet(SourceConn *conn);
/* Ends all reading and writing, so that the library's clean-up does not wait for the rest of a result. */
extern void capstan_wire_cut(SourceConn *conn);

/* query.c */

/* The definitions of a result's columns: far more than any honest one has. */
#define MOST_HEADER_BYTES ((uint64) 32 * 1024 * 1024)

/* Calls the function for each row (row[j] NUL-terminated or NULL) of a result that is not kept in memory. */
typedef void (*WireRowFunction) (void *arg, char **row, const unsigned long *lengths, int ncolumns);
extern void capstan_wire_for_each_row(SourceConn *conn, const char *sql, const char *expected, WireRowFunction function,
									  void *arg);

/* wireerror.c */
/* MySQL's SQLSTATE if it is one, for messages: five bytes of the source's. */
extern const char *capstan_wire_plain_sqlstate(const char *sqlstate);
/* Is the connection gone with this error? */
extern bool capstan_wire_error_is_loss(unsigned int number);
/* The library's text, valid in the database's encoding and free of values; palloc'd. */
extern char *capstan_wire_error_text(unsigned int number, const char *message);
extern const char *capstan_wire_error_hint(unsigned int number, const char *message);
/* Raises what the library reports about the connection; action: "read from". */
extern void capstan_wire_raise(SourceConn *conn, const char *action) __attribute__((noreturn));
extern void capstan_wire_raise_number(SourceConn *conn, const char *action, unsigned int number, const char *sqlstate,
									  const char *message) __attribute__((noreturn));
extern void capstan_wire_raise_silent(SourceConn *conn, int timeout_ms) __attribute__((noreturn));

#endif
