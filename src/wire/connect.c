/*
 * connect.c
 *		Opening a connection to the source: hosts in turn, TLS, authentication, session set-up.
 *
 * What the two libraries call the same is done here for both; where they differ (TLS modes, the
 * server's RSA key, authentication plugins) there is one function for each.
 *
 * ssl_mode 'preferred' exists only in Oracle's library, and there the password of a cleartext
 * plugin could go either way.  So it is made of two attempts: with TLS required, and, only if
 * the server says that it has none, without.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "errcodes.h"
#include "wire/internal.h"

#define DEFAULT_PORT 3306
#define DEFAULT_CONNECT_TIMEOUT_S 10
#define MIN_VERSION 80000
#define MOST_GREETING_BYTES (1024 * 1024)	/* of the source until it lets us in */
#define NET_TIMEOUT_S 3600		/* the source's patience with a client that is slow to read */

/* By some source, this process has been. */
static bool was_let_in = false;

/* Why a host could not be used. */
typedef struct ConnectFailure
{
	int			sqlerrcode;
	unsigned int number;
	char	   *text;
	const char *hint;
} ConnectFailure;

static int
connect_timeout_of(const SourceOptions *options)
{
	return options->connect_timeout_s > 0 ? options->connect_timeout_s : DEFAULT_CONNECT_TIMEOUT_S;
}

static void
init_library(void)
{
	static bool initialized = false;

	if (initialized)
		return;
	if (mysql_library_init(0, NULL, NULL) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("could not initialize the MySQL client library")));
	initialized = true;
}

/* A server that asks for a local file gets none, whatever it says that it may. */
static int
refuse_infile_init(void **buffer, const char *filename, void *userdata)
{
	*buffer = NULL;
	return 1;
}

static int
refuse_infile_read(void *buffer, char *data, unsigned int length)
{
	return -1;
}

static void
refuse_infile_end(void *buffer)
{
}

static int
refuse_infile_error(void *buffer, char *message, unsigned int length)
{
	strlcpy(message, "local files are not sent", length);
	return CR_UNKNOWN_ERROR;
}

#ifdef WIRE_CONNECTOR_C

static void
set_tls(SourceConn *conn, const SourceOptions *options, bool tls)
{
	MYSQL	   *mysql = conn->mysql;
	my_bool		enforce = tls;

	/* Newer versions verify unless told otherwise. */
	my_bool		verify = tls && options->ssl_mode == SSL_MODE_OPTION_VERIFY_IDENTITY;

	mysql_optionsv(mysql, MYSQL_OPT_SSL_ENFORCE, &enforce);
	mysql_optionsv(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
	if (tls)
	{
		/* With a CA the chain is verified, by the library or by our guard; the host's name only with the option above. */
		if (options->ssl_mode >= SSL_MODE_OPTION_VERIFY_CA && options->ssl_ca != NULL)
			mysql_optionsv(mysql, MYSQL_OPT_SSL_CA, options->ssl_ca);
		if (options->ssl_cert != NULL)
			mysql_optionsv(mysql, MYSQL_OPT_SSL_CERT, options->ssl_cert);
		if (options->ssl_key != NULL)
			mysql_optionsv(mysql, MYSQL_OPT_SSL_KEY, options->ssl_key);
	}
	conn->want_tls = tls;
	conn->want_verified = tls && options->ssl_mode >= SSL_MODE_OPTION_VERIFY_CA && capstan_wire_library_is_openssl();
	if (tls && options->ssl_mode == SSL_MODE_OPTION_VERIFY_CA && !conn->want_verified)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ssl_mode verify_ca is not possible with this MySQL client library"),
				 errdetail("It does not use OpenSSL."),
				 errhint("Set the server option ssl_mode to verify_identity.")));
}

static void
set_authentication(SourceConn *conn, bool tls)
{
	/*
	 * The first answer is always made by this plugin, so it is a scramble, never a password.  Whoever asks for
	 * another plugin gets one of the list; "dialog" would ask the terminal.
	 */
	mysql_optionsv(conn->mysql, MYSQL_DEFAULT_AUTH, "caching_sha2_password");
	mysql_optionsv(conn->mysql, MARIADB_OPT_RESTRICTED_AUTH,
				   tls ? "caching_sha2_password,mysql_native_password,sha256_password,mysql_clear_password"
				   : "caching_sha2_password,mysql_native_password,sha256_password");
}

static void
add_attribute(SourceConn *conn, const char *name, const char *value)
{
	mysql_optionsv(conn->mysql, MYSQL_OPT_CONNECT_ATTR_ADD, name, value);
}

#else							/* Oracle's library */

static void
set_tls(SourceConn *conn, const SourceOptions *options, bool tls)
{
	MYSQL	   *mysql = conn->mysql;
	unsigned int mode = SSL_MODE_DISABLED;

	if (tls)
	{
		mode = options->ssl_mode == SSL_MODE_OPTION_VERIFY_IDENTITY ? SSL_MODE_VERIFY_IDENTITY :
			options->ssl_mode == SSL_MODE_OPTION_VERIFY_CA ? SSL_MODE_VERIFY_CA : SSL_MODE_REQUIRED;
		if (options->ssl_mode >= SSL_MODE_OPTION_VERIFY_CA && options->ssl_ca != NULL)
			mysql_options(mysql, MYSQL_OPT_SSL_CA, options->ssl_ca);
		if (options->ssl_cert != NULL)
			mysql_options(mysql, MYSQL_OPT_SSL_CERT, options->ssl_cert);
		if (options->ssl_key != NULL)
			mysql_options(mysql, MYSQL_OPT_SSL_KEY, options->ssl_key);
	}
	mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
	conn->want_tls = tls;
}

static void
set_authentication(SourceConn *conn, bool tls)
{
	bool		cleartext = tls;
	bool		get_key = !tls;

	mysql_options(conn->mysql, MYSQL_DEFAULT_AUTH, "caching_sha2_password");
	mysql_options(conn->mysql, MYSQL_ENABLE_CLEARTEXT_PLUGIN, &cleartext);
	mysql_options(conn->mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &get_key);
}

static void
add_attribute(SourceConn *conn, const char *name, const char *value)
{
	mysql_options4(conn->mysql, MYSQL_OPT_CONNECT_ATTR_ADD, name, value);
}

#endif

static void
set_options(SourceConn *conn, const SourceOptions *options, const char *purpose, bool tls, bool is_socket)
{
	MYSQL	   *mysql = conn->mysql;
	unsigned int connect_timeout = connect_timeout_of(options);
	unsigned int io_timeout = Max(options->read_timeout_s, 0);
	unsigned int local_infile = 0;
	unsigned int protocol = is_socket ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
	unsigned long max_packet = 1024UL * 1024 * 1024;
	WireBool	report_truncation = true;

	mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_timeout);
	mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &io_timeout);
	mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &io_timeout);
	mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &local_infile);
	mysql_set_local_infile_handler(mysql, refuse_infile_init, refuse_infile_read, refuse_infile_end,
								   refuse_infile_error, NULL);
	mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
	mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &max_packet);
	mysql_options(mysql, MYSQL_REPORT_DATA_TRUNCATION, &report_truncation);
	mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
	set_tls(conn, options, tls);
	set_authentication(conn, tls);
	add_attribute(conn, "program_name", psprintf("capstan/%s", purpose));
	capstan_wire_hook_waits(conn);
}

/*
 * Connector/C reports what the server says before TLS begins (too many connections, host not allowed) as an error of
 * its own with the server's number in the text.
 */
static unsigned int
true_number(unsigned int number, const char *message)
{
	static const char marker[] = "cannot be verified: ";
	const char *found = number == CR_CONNECTION_ERROR ? strstr(message, marker) : NULL;
	unsigned int inner;

	if (found != NULL && sscanf(found + strlen(marker), "%u", &inner) == 1)
		return inner;
	return number;
}

/*
 * mysql_real_connect().  An error packet of number 65535 in place of a greeting makes Connector/C look for "MariaDB" in the
 * server's version, which it does not know yet: until it does there is an empty one.
 */
static MYSQL *
connect_library(SourceConn *conn, const SourceOptions *options, const char *host, int port)
{
	bool		is_socket = host[0] == '/';
	MYSQL	   *result;
#ifdef WIRE_CONNECTOR_C
	char	   *no_version = strdup("");

	conn->mysql->server_version = no_version;
#endif

	/* An empty password, not none: without one the library would look into its environment. */
	result = mysql_real_connect(conn->mysql, is_socket ? NULL : host, options->user,
								options->password != NULL ? options->password : "", NULL,
								is_socket ? 0 : port, is_socket ? host : NULL, 0);
#ifdef WIRE_CONNECTOR_C
	/* The library has put its own there; if it failed, it frees what is there. */
	if (result != NULL)
		free(no_version);
#endif
	return result;
}

/* One attempt.  False: *failure says why, and conn->tls_refused whether it was for want of TLS. */
static bool
try_connect(SourceConn *conn, const SourceOptions *options, const char *purpose,
			const char *host, int port, bool tls, ConnectFailure *failure)
{
	bool		is_socket = host[0] == '/';
	MYSQL	   *mysql;

	conn->mysql = mysql_init(NULL);
	if (conn->mysql == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	conn->tls_refused = false;
	conn->untrusted = false;
	conn->want_host = tls && options->ssl_mode == SSL_MODE_OPTION_VERIFY_IDENTITY ? host : NULL;
	conn->timeout_ms = connect_timeout_of(options) * 1000;
	set_options(conn, options, purpose, tls, is_socket);

	capstan_wire_begin_connecting(conn);
	capstan_wire_expect(conn, MOST_GREETING_BYTES);
	mysql = connect_library(conn, options, host, port);
	capstan_wire_expect(conn, 0);
	capstan_wire_end_connecting(conn);
	CHECK_FOR_INTERRUPTS();

	if (mysql != NULL && tls && mysql_get_ssl_cipher(mysql) == NULL)
		conn->tls_refused = true;
	if (mysql != NULL && !conn->tls_refused && !conn->untrusted)
	{
		conn->connected = true;
		was_let_in = true;
		conn->want_host = NULL;
		conn->timeout_ms = options->read_timeout_s > 0 ? options->read_timeout_s * 1000 : -1;
		return true;
	}

	failure->number = true_number(mysql_errno(conn->mysql), mysql_error(conn->mysql));
	if (strstr(mysql_error(conn->mysql), "server does not support it") != NULL ||
		strstr(mysql_error(conn->mysql), "server doesn't support it") != NULL)
		conn->tls_refused = true;
	if (conn->tls_refused)
	{
		failure->number = CR_SSL_CONNECTION_ERROR;
		failure->sqlerrcode = ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION;
		failure->text = "the server does not offer TLS";
		failure->hint = "Set the server option ssl_mode to preferred or disabled, or switch on TLS on the source.";
	}
	else if (conn->untrusted)
	{
		failure->number = CR_SSL_CONNECTION_ERROR;
		failure->sqlerrcode = ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION;
		failure->text = conn->want_host != NULL ?
			psprintf("the server's certificate is not trusted, or not for the host \"%s\"", conn->want_host) :
			pstrdup("the server's certificate is not trusted");
		failure->hint = capstan_wire_error_hint(CR_SSL_CONNECTION_ERROR, "");
	}
	else
	{
		failure->sqlerrcode = capstan_wire_sqlstate(failure->number, mysql_error(conn->mysql));
		failure->text = capstan_wire_error_text(failure->number, mysql_error(conn->mysql));
		failure->hint = capstan_wire_error_hint(failure->number, mysql_error(conn->mysql));
	}

	conn->want_host = NULL;
	conn->closing = true;
	mysql_close(conn->mysql);
	conn->mysql = NULL;
	conn->closing = false;
	return false;
}

static bool
try_host(SourceConn *conn, const SourceOptions *options, const char *purpose,
		 const char *host, int port, ConnectFailure *failure)
{
	switch (options->ssl_mode)
	{
		case SSL_MODE_OPTION_DISABLED:
			return try_connect(conn, options, purpose, host, port, false, failure);
		case SSL_MODE_OPTION_PREFERRED:
			if (host[0] == '/')
				return try_connect(conn, options, purpose, host, port, false, failure);
			if (try_connect(conn, options, purpose, host, port, true, failure))
				return true;
			return conn->tls_refused &&
				try_connect(conn, options, purpose, host, port, false, failure);
		default:
			return try_connect(conn, options, purpose, host, port, true, failure);
	}
}

/*
 * The next of 'a, b:3307, [::1]:3308, /run/mysqld/mysqld.sock' as host and port; false at the end.
 */
static bool
next_host(char **position, int default_port, char **host, int *port)
{
	char	   *item;
	char	   *colon;

	do
	{
		item = strsep(position, ",");
		if (item == NULL)
			return false;
		while (*item == ' ')
			item++;
		for (size_t n = strlen(item); n > 0 && item[n - 1] == ' '; n--)
			item[n - 1] = '\0';
	} while (*item == '\0');

	*port = default_port;
	*host = item;
	if (item[0] == '/')
		return true;
	if (item[0] == '[')
	{
		char	   *end = strchr(item, ']');

		if (end != NULL)
		{
			*host = item + 1;
			*end = '\0';
			colon = end[1] == ':' ? end + 1 : NULL;
		}
		else
			colon = NULL;
	}
	else
	{
		colon = strchr(item, ':');
		/* Several colons without brackets: an IPv6 address. */
		if (colon != NULL && strchr(colon + 1, ':') != NULL)
			colon = NULL;
	}
	if (colon != NULL)
	{
		char	   *end;
		long		number = strtol(colon + 1, &end, 10);

		if (*end != '\0' || number < 1 || number > 65535)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid port \"%s\" in the list of hosts", colon + 1)));
		*colon = '\0';
		*port = (int) number;
	}
	return true;
}

static void
set_host(SourceConn *conn, const char *host, int port)
{
	if (host[0] == '/')
		conn->host = MemoryContextStrdup(conn->context, host);
	else
	{
		char	   *text = strchr(host, ':') != NULL ? psprintf("[%s]:%d", host, port) : psprintf("%s:%d", host, port);

		conn->host = MemoryContextStrdup(conn->context, text);
	}
}

/* Raises for all hosts together; if a retry may help with one of them, the SQLSTATE says so. */
static void
raise_failures(const SourceOptions *options, const ConnectFailure *chosen, const char *details)
{
	ereport(ERROR,
			(errcode(chosen->sqlerrcode),
			 errmsg("could not connect to source \"%s\": %s", options->server_name, chosen->text),
			 errdetail("%s", details),
			 errhint("%s", chosen->hint != NULL ? chosen->hint :
					 "Check the server options host and port, that MySQL runs there, and that it accepts connections from this machine (bind_address, skip_networking, firewalls).")));
}

static void
connect_any(SourceConn *conn, const SourceOptions *options, const char *purpose)
{
	char	   *position = pstrdup(options->hosts != NULL ? options->hosts : "localhost");
	char	   *host;
	int			port;
	ConnectFailure chosen = {0};
	StringInfoData details;

	initStringInfo(&details);
	while (next_host(&position, options->port > 0 ? options->port : DEFAULT_PORT, &host, &port))
	{
		ConnectFailure failure = {0};

		set_host(conn, host, port);
		if (try_host(conn, options, purpose, host, port, &failure))
			return;
		appendStringInfo(&details, "%s%s: %s.", details.len > 0 ? " " : "", conn->host, failure.text);
		if (chosen.text == NULL ||
			(capstan_errcode_is_transient(failure.sqlerrcode) && !capstan_errcode_is_transient(chosen.sqlerrcode)))
			chosen = failure;
	}
	if (chosen.text == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no host to connect to for source \"%s\"", options->server_name),
				 errhint("Set the server option host.")));
	raise_failures(options, &chosen, details.data);
}

static void
check_flavour(SourceConn *conn)
{
	const char *version = mysql_get_server_info(conn->mysql);
	int			major = 0;
	int			minor = 0;
	int			patch = 0;

	if (version == NULL)
		version = "";
	conn->version = MemoryContextStrdup(conn->context, capstan_wire_error_text(0, version));
	if (strcasestr(version, "mariadb") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("source \"%s\" is a MariaDB server", conn->server_name),
				 errdetail("Its version is %s. MariaDB's GTIDs and binary log are not MySQL's.", conn->version)));
	if (sscanf(version, "%d.%d.%d", &major, &minor, &patch) < 2 || major > 99 || minor > 99 || patch > 99)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the version \"%s\" of source \"%s\" is not understood", conn->version, conn->server_name)));
	conn->version_num = major * 10000 + minor * 100 + patch;
	if (conn->version_num < MIN_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("source \"%s\" is MySQL %s, and 8.0 is the oldest version that is supported",
						conn->server_name, conn->version)));
}

/* What init_connect has left: locks, an open transaction, temporary tables in front of others, variables of the session. */
static void
reset_session(SourceConn *conn)
{
	bool		failed;

	capstan_wire_begin_blocking(conn);
	failed = mysql_reset_connection(conn->mysql) != 0;
	capstan_wire_end_blocking();
	if (failed)
		capstan_wire_raise(conn, "reset the session on");
}

static void
set_up_session(SourceConn *conn)
{
	StringInfoData sql;
	SourceResult *result;
	char	   *time_zone;

	/*
	 * Whatever the server's defaults and init_connect say: each of these changes what we would read.  max_sort_length: rows are read in
	 * the order of their key, piece by piece.  Where the server sorts for that (an index up in one column and down in another), texts that
	 * are equal up to that length would come in any order, and rows be left out between two pieces.  sql_select_limit: a number, since DEFAULT is
	 * what SET GLOBAL says.  transaction_read_only: it refuses LOCK TABLES .. WRITE.  session_track_gtids: with a large set of GTIDs a COMMIT fails
	 * over it.  range_optimizer_max_mem_size: 0, no bound, beyond which each piece of a table would be looked for in all of it.
	 */
	reset_session(conn);
	capstan_wire_exec(conn, "SET NAMES utf8mb4");
	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "SET SESSION character_set_results = NULL, time_zone = '+00:00', sql_mode = '', "
					 "transaction_isolation = 'REPEATABLE-READ', transaction_read_only = 0, autocommit = 1, completion_type = 0, "
					 "sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_buffer_result = 0, sql_auto_is_null = 0, "
					 "max_execution_time = 0, max_sort_length = 8388608, optimizer_switch = 'use_invisible_indexes=on', "
					 "range_optimizer_max_mem_size = 0, session_track_gtids = 'OFF', "
					 "information_schema_stats_expiry = 0, lc_messages = 'en_US', sql_quote_show_create = 1, "
					 "wait_timeout = 28800, net_read_timeout = %d, net_write_timeout = %d",
					 NET_TIMEOUT_S, NET_TIMEOUT_S);
	if (conn->version_num >= 80013)
		appendStringInfoString(&sql, ", use_secondary_engine = 'OFF'");
	if (conn->version_num >= 80030)
		appendStringInfoString(&sql, ", show_gipk_in_create_table_and_information_schema = 1");
	capstan_wire_exec(conn, sql.data);

	result = capstan_wire_query(conn, "SELECT @@GLOBAL.server_uuid, CONNECTION_ID(), @@SESSION.time_zone, "
								"@@SESSION.sql_mode, @@SESSION.character_set_results",
								WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE);
	if (result->nrows != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("source \"%s\" did not say who it is", conn->server_name)));
	conn->uuid = MemoryContextStrdup(conn->context, result->rows[0][0]);
	conn->thread_id = strtoull(result->rows[0][1], NULL, 10);
	time_zone = result->rows[0][2];
	if (time_zone == NULL || strcmp(time_zone, "+00:00") != 0 ||
		result->rows[0][3] == NULL || result->rows[0][3][0] != '\0' || result->rows[0][4] != NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
				 errmsg("source \"%s\" did not take the session's settings", conn->server_name),
				 errdetail("time_zone must be +00:00, sql_mode empty, and character_set_results NULL."),
				 errhint("A proxy between capstan and the source that resets or shares sessions cannot be used: connect to the server itself.")));
}

SourceConn *
capstan_wire_connect(const SourceOptions *options, const char *purpose)
{
	SourceConn *conn;

	if (options->ssl_mode == SSL_MODE_OPTION_VERIFY_CA && (options->ssl_ca == NULL || options->ssl_ca[0] == '\0'))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ssl_mode verify_ca needs ssl_ca"),
				 errhint("Set the server option ssl_ca to a file with the certificate of the authority that signed the source's.")));
	init_library();
	conn = capstan_wire_new_connection(options->server_name);
	connect_any(conn, options, purpose);
	check_flavour(conn);
	set_up_session(conn);
	return conn;
}

SourceConn *
capstan_wire_connect_to(const SourceOptions *options, const char *purpose, const char *server_uuid)
{
	SourceConn *conn = capstan_wire_connect(options, purpose);

	if (strcmp(conn->uuid, server_uuid) != 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_IDENTITY),
				 errmsg("another server of source \"%s\" answers than the one that is streamed from", options->server_name),
				 errdetail("Stream: %s; %s for %s: %s.", server_uuid, conn->host, purpose, conn->uuid),
				 errhint("The host of the server must lead to one MySQL server at a time; a proxy must not spread connections.")));
	return conn;
}

bool
capstan_wire_was_let_in(void)
{
	return was_let_in;
}
