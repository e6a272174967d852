/*
 * connection.c
 *		Life of a connection to the source: waiting, closing, and what is known of it.
 *
 * connect.c opens it, query.c and the others use it.
 *
 * Ownership: a SourceConn lives in a memory context of its own, a child of the one current at
 * connect time.  Deleting that context (capstan_wire_close, or the clean-up after an ERROR) runs the
 * callback below, which closes the library's handle: no way out leaks a socket.
 *
 * Waiting: Connector/C asks a callback of ours whenever it would block, so every wait is one of
 * Postgres' own, on latch and socket, and ends when the backend is told to stop.  Oracle's library
 * blocks in its own poll(); there we wait before we let it read, where that is possible.  Where it is not (prepared
 * statements, the dump), a timer looks now and then whether the backend is told to stop or the source has been silent for too long, and if so
 * shuts the socket down, which ends the library's wait.
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "base/pages.h"
#include "compat.h"
#include "wire/internal.h"

#ifdef WIRE_CONNECTOR_C
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#define SSL_get1_peer_certificate SSL_get_peer_certificate
#endif
#endif

/* A farewell that cannot be sent in this time is not worth more of it. */
#define CLOSE_TIMEOUT_MS 2000

/* All open connections of this process, for the library's callbacks. */
static dlist_head connections = DLIST_STATIC_INIT(connections);

/* The one that is being made: the library does not know its socket yet. */
static SourceConn *connecting = NULL;

static void stop_timer(void);

static void
close_connection(void *arg)
{
	SourceConn *conn = arg;

	/* an error may have left it there */
	if (connecting == conn)
		connecting = NULL;
	capstan_wire_end_blocking();
	if (conn->mysql != NULL)
	{
		conn->closing = true;
		conn->timeout_ms = CLOSE_TIMEOUT_MS;
		if (conn->connected)
			capstan_wire_begin_blocking(conn);
		mysql_close(conn->mysql);
		conn->mysql = NULL;
		/* The socket's number may soon be somebody else's. */
		capstan_wire_end_blocking();
		/* The library has cut the statement off from the connection, so this sends nothing and reads nothing. */
		if (conn->stmt != NULL)
			(void) mysql_stmt_close(conn->stmt);
		conn->stmt = NULL;
	}
	if (conn->fd_reserved)
	{
		ReleaseExternalFD();
		conn->fd_reserved = false;
	}
	dlist_delete(&conn->node);
	stop_timer();
}

SourceConn *
capstan_wire_new_connection(const char *server_name)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "capstan source connection",
												  ALLOCSET_SMALL_SIZES);
	SourceConn *conn = MemoryContextAllocZero(context, sizeof(SourceConn));

	conn->context = context;
	conn->server_name = MemoryContextStrdup(context, server_name);
	conn->host = MemoryContextStrdup(context, "");
	conn->timeout_ms = -1;
	conn->callback.func = close_connection;
	conn->callback.arg = conn;
	dlist_push_head(&connections, &conn->node);
	MemoryContextRegisterResetCallback(context, &conn->callback);

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to source \"%s\": too many open files", server_name),
				 errhint("Raise max_files_per_process, or the operating system's limit on open files.")));
	conn->fd_reserved = true;
	return conn;
}

void
capstan_wire_close(SourceConn *conn)
{
	if (conn != NULL)
		MemoryContextDelete(conn->context);
}

/* The connection's statement state is unknown or it is dead: nothing more may be sent. */
void
capstan_wire_forget_packet(SourceConn *conn)
{
	NET		   *net = &conn->mysql->net;

	if (net->buff != NULL)
		capstan_pages_forget(net->buff, net->buff_end - net->buff);
}

void
capstan_wire_mark_lost(SourceConn *conn)
{
	conn->busy = true;
}

void
capstan_wire_cut(SourceConn *conn)
{
	conn->busy = true;
	conn->closing = true;
	(void) shutdown(capstan_wire_socket(conn), SHUT_RDWR);
}

void
capstan_wire_check_idle(SourceConn *conn)
{
	if (conn->mysql == NULL || conn->busy || conn->cursor != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_DOES_NOT_EXIST),
				 errmsg("the connection to source \"%s\" cannot be used", conn->server_name),
				 errdetail("It was lost, or is in the middle of another statement.")));
}

/*
 * Waits for the socket: 1 ready, 0 timed out, -1 told to stop.  Never raises for an interrupt that would end the
 * statement, since the library's frames may be below us: the caller's error path does that.
 */
static int
wait_socket(int fd, int socket_event, int timeout_ms)
{
	instr_time	start;
	long		left = timeout_ms;

	INSTR_TIME_SET_CURRENT(start);
	for (;;)
	{
		int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | socket_event;
		int			rc;

		if (InterruptPending && InterruptHoldoffCount == 0 && QueryCancelHoldoffCount == 0 && CritSectionCount == 0)
		{
			if (ProcDiePending || QueryCancelPending)
				return -1;
			/* nor for a cancellation that comes just now */
			HOLD_CANCEL_INTERRUPTS();
			CHECK_FOR_INTERRUPTS();
			RESUME_CANCEL_INTERRUPTS();
		}
		if (timeout_ms >= 0)
			events |= WL_TIMEOUT;
		rc = WaitLatchOrSocket(MyLatch, events, fd, left, COMPAT_WAIT_EXTENSION);
		if (rc & WL_LATCH_SET)
			ResetLatch(MyLatch);
		if (rc & socket_event)
			return 1;
		if (timeout_ms >= 0)
		{
			instr_time	now;

			INSTR_TIME_SET_CURRENT(now);
			INSTR_TIME_SUBTRACT(now, start);
			left = timeout_ms - (long) INSTR_TIME_GET_MILLISEC(now);
			if (left <= 0)
				return 0;
		}
	}
}

bool
capstan_wire_wait_readable(SourceConn *conn, int timeout_ms)
{
	int			rc;

	while ((rc = wait_socket(capstan_wire_socket(conn), WL_SOCKET_READABLE, timeout_ms)) < 0)
		CHECK_FOR_INTERRUPTS();
	return rc > 0;
}

#ifdef WIRE_CONNECTOR_C

static SourceConn *
find_connection(my_socket handle)
{
	dlist_iter	iter;

	dlist_foreach(iter, &connections)
	{
		SourceConn *conn = dlist_container(SourceConn, node, iter.cur);

		if (conn->mysql != NULL && mysql_get_socket(conn->mysql) == handle)
			return conn;
	}
	return NULL;
}

/* MARIADB_OPT_IO_WAIT.  The library's own timeout is milliseconds in some places and seconds in others: ours counts. */
static int
io_wait(my_socket handle, my_bool is_read, int timeout)
{
	SourceConn *conn = find_connection(handle);
	int			rc;

	if (conn == NULL)
		conn = connecting;
	if (conn == NULL || conn->closing)
	{
		errno = ETIMEDOUT;
		return -1;
	}
	rc = wait_socket(handle, is_read ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE, conn->timeout_ms);
	if (rc == 0)
		errno = ETIMEDOUT;
	else if (rc < 0)
		errno = EINTR;
	return rc;
}

bool
capstan_wire_library_is_openssl(void)
{
	static int	answer = -1;
	const char *library = NULL;

	if (answer < 0)
		answer = mariadb_get_infov(NULL, MARIADB_TLS_LIBRARY, &library) == 0 && library != NULL &&
			strncmp(library, "OpenSSL", 7) == 0;
	return answer == 1;
}

void *
capstan_wire_ssl(MYSQL *mysql)
{
	/* How the library's TLS object begins in all of 3.x; its header needs another one that is not always installed. */
	typedef struct TlsObject
	{
		void	   *data;
		MARIADB_PVIO *pvio;
		void	   *ssl;
	} TlsObject;
	TlsObject  *tls = mysql->net.pvio != NULL ? (TlsObject *) mysql->net.pvio->ctls : NULL;

	return tls != NULL && capstan_wire_library_is_openssl() && tls->pvio == mysql->net.pvio ? tls->ssl : NULL;
}

static bool
is_certified_for(SSL *ssl, const char *host)
{
	X509	   *certificate = SSL_get1_peer_certificate(ssl);
	bool		result;

	if (certificate == NULL)
		return false;
	result = X509_check_host(certificate, host, 0, 0, NULL) == 1 || X509_check_ip_asc(certificate, host, 0) == 1;
	X509_free(certificate);
	return result;
}

/*
 * The library's report of each write, after it was done.  Two things are looked at here before any password is
 * sent, since no version of Connector/C does it alone; the first answer of ours holds no more than a scramble
 * (MYSQL_DEFAULT_AUTH), so it is early enough to cut the connection after that.
 *
 * 1. With TLS asked for and a server (or somebody in between) that does not offer it, the library goes on in
 * clear, and its caching_sha2_password plugin, which takes "asked for" for "has", would send the password as
 * it is.
 *
 * 2. Version 3.3 verifies the chain of certificates if it is given an authority, and the host's name on demand; 3.4
 * verifies both or nothing, leaves out the name of 127.0.0.1 (where a tunnel may begin), and can be told by
 * the environment to verify nothing.
 */
static void
guard_password(int mode, MYSQL *mysql)
{
	SourceConn *conn = connecting;

	if (mode != 1 || conn == NULL || conn->mysql != mysql || !conn->want_tls || mysql->net.pvio == NULL)
		return;
	if (mysql->net.pvio->ctls == NULL)
		conn->tls_refused = (mysql->client_flag & CLIENT_SSL) == 0;
	else if (conn->want_verified)
	{
		SSL		   *ssl = capstan_wire_ssl(mysql);

		conn->untrusted = ssl == NULL || SSL_get_verify_result(ssl) != X509_V_OK ||
			(conn->want_host != NULL && !is_certified_for(ssl, conn->want_host));
	}
	if (conn->tls_refused || conn->untrusted)
		(void) shutdown(mysql_get_socket(mysql), SHUT_RDWR);
}

/* Ends a connection on which the source sends without an end. */
static void
count_bytes(MYSQL *mysql, size_t length)
{
	dlist_iter	iter;

	dlist_foreach(iter, &connections)
	{
		SourceConn *conn = dlist_container(SourceConn, node, iter.cur);

		if (conn->mysql != mysql || conn->expected_bytes == 0)
			continue;
		/* A failed read has length -1. */
		if ((ssize_t) length <= 0)
			return;
		if (length < conn->expected_bytes)
			conn->expected_bytes -= length;
		else
			(void) shutdown(mysql_get_socket(mysql), SHUT_RDWR);
		return;
	}
}

static void
watch_bytes(int mode, MYSQL *mysql, const uchar *buffer, size_t length)
{
	guard_password(mode, mysql);
	if (mode == 0)
		count_bytes(mysql, length);
}

void
capstan_wire_expect(SourceConn *conn, uint64 most_bytes)
{
	conn->expected_bytes = most_bytes;
}

/* Exported by the library, but in none of its headers. */
extern int	ma_pvio_register_callback(my_bool add, void (*function) (int mode, MYSQL *mysql, const uchar *buffer, size_t length))
			__attribute__((weak));

void
capstan_wire_hook_waits(SourceConn *conn)
{
	static bool guarded = false;

	if (!guarded)
		guarded = ma_pvio_register_callback != NULL && ma_pvio_register_callback(1, watch_bytes) == 0;
	if (!guarded && conn->want_tls)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("this MySQL client library cannot be kept from sending a password in clear text"),
				 errhint("Set the server option ssl_mode to disabled, or build capstan with another client library.")));
	mysql_optionsv(conn->mysql, MARIADB_OPT_IO_WAIT, (void *) io_wait);
}

void
capstan_wire_begin_connecting(SourceConn *conn)
{
	connecting = conn;
}

void
capstan_wire_end_connecting(SourceConn *conn)
{
	connecting = NULL;

	/* Under TLS the library reads with SSL_read(), which on a blocking socket would not ask us to wait. */
	if (conn->mysql != NULL && mysql_get_socket(conn->mysql) >= 0)
	{
		int			fd = mysql_get_socket(conn->mysql);
		int			flags = fcntl(fd, F_GETFL);

		if (flags >= 0)
			(void) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	}
}

void
capstan_wire_begin_blocking(SourceConn *conn)
{
}

void
capstan_wire_end_blocking(void)
{
}

static void
stop_timer(void)
{
}

int
capstan_wire_socket(SourceConn *conn)
{
	return mysql_get_socket(conn->mysql);
}

#else							/* Oracle's library */

bool
capstan_wire_library_is_openssl(void)
{
	return false;
}

void *
capstan_wire_ssl(MYSQL *mysql)
{
	return NULL;
}

void
capstan_wire_hook_waits(SourceConn *conn)
{
}

void
capstan_wire_expect(SourceConn *conn, uint64 most_bytes)
{
}

static void stop_ticking(void);

/* The library knows its socket only after the wait for it, so there its own timeout must hold: no signals meanwhile. */
void
capstan_wire_begin_connecting(SourceConn *conn)
{
	stop_ticking();
}

void
capstan_wire_end_connecting(SourceConn *conn)
{
}

#define INTERRUPT_CHECK_MS 250

static TimeoutId interrupt_timer;
static volatile int blocking_socket = -1;
static volatile bool interruptible; /* where the blocking call was made; in the handler interrupts are always held */
static volatile int ticks_patience; /* so many ticks without a byte are too many */
static volatile int ticks_left;

/* Has the source sent something since the last tick?  Through a socket of the file system only what nobody has read yet is seen. */
static bool
has_sent(int fd)
{
	int			unread;
#ifdef TCP_INFO
	struct tcp_info info;
	socklen_t	length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
		length >= offsetof(struct tcp_info, tcpi_last_data_recv) + sizeof(info.tcpi_last_data_recv) &&
		info.tcpi_last_data_recv <= INTERRUPT_CHECK_MS)
		return true;
#endif
	return ioctl(fd, FIONREAD, &unread) == 0 && unread > 0;
}

/*
 * In a signal handler: nothing but system calls and flags.  The library starts its read timeout anew after every signal, so the
 * silence is counted here, too; not the time, since one call may read a large event or row over a slow network.
 */
static void
check_blocking_call(void)
{
	int			save_errno = errno;

	if (blocking_socket < 0)
		return;
	if (has_sent(blocking_socket))
		ticks_left = ticks_patience;
	else
		ticks_left--;
	if ((interruptible && (ProcDiePending || QueryCancelPending)) || ticks_left == 0)
		(void) shutdown(blocking_socket, SHUT_RDWR);
	errno = save_errno;
}

void
capstan_wire_begin_blocking(SourceConn *conn)
{
	static bool registered = false;

	if (!registered)
	{
		interrupt_timer = RegisterTimeout(USER_TIMEOUT, check_blocking_call);
		registered = true;
	}
	interruptible = InterruptHoldoffCount == 0 && QueryCancelHoldoffCount == 0 && CritSectionCount == 0;
	/* No timeout: a number that does not come down to 0 within a year. */
	ticks_patience = conn->timeout_ms < 0 ? INT_MAX / INTERRUPT_CHECK_MS : conn->timeout_ms / INTERRUPT_CHECK_MS + 2;
	ticks_left = ticks_patience;
	blocking_socket = capstan_wire_socket(conn);
	if (!get_timeout_active(interrupt_timer))
		COMPAT_ENABLE_TIMEOUT_EVERY(interrupt_timer, INTERRUPT_CHECK_MS);
}

void
capstan_wire_end_blocking(void)
{
	blocking_socket = -1;
}

static void
stop_ticking(void)
{
	if (interrupt_timer >= USER_TIMEOUT && get_timeout_active(interrupt_timer))
		disable_timeout(interrupt_timer, false);
}

static void
stop_timer(void)
{
	if (dlist_is_empty(&connections))
		stop_ticking();
}

int
capstan_wire_socket(SourceConn *conn)
{
	return (int) conn->mysql->net.fd;
}

#endif

const char *
capstan_wire_server_uuid(SourceConn *conn)
{
	return conn->uuid;
}

const char *
capstan_wire_server_version(SourceConn *conn)
{
	return conn->version;
}

int
capstan_wire_server_version_num(SourceConn *conn)
{
	return conn->version_num;
}

uint64_t
capstan_wire_thread_id(SourceConn *conn)
{
	return conn->thread_id;
}

const char *
capstan_wire_host(SourceConn *conn)
{
	return conn->host;
}

bool
capstan_wire_is_tls(SourceConn *conn)
{
	return mysql_get_ssl_cipher(conn->mysql) != NULL;
}
