/*
 * wireerror.c
 *		The client library's errors made into Postgres'.
 *
 * MySQL's error numbers say more than its SQLSTATEs (mostly HY000), so the number decides.
 * The SQLSTATE chosen here decides in turn whether a pipeline retries (errcodes.c).
 *
 * Texts of MySQL can hold row values ("Incorrect DATE value: '...'") and pieces of statements ("near '...'");
 * for those numbers the text is left out and the number has to do.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "errcodes.h"
#include "wire/internal.h"

bool
capstan_wire_error_is_loss(unsigned int number)
{
	switch (number)
	{
		case CR_SERVER_GONE_ERROR:
		case CR_SERVER_LOST:
		case CR_MALFORMED_PACKET:
		case 2012:				/* CR_SERVER_HANDSHAKE_ERR */
		case 2055:				/* CR_SERVER_LOST_EXTENDED */
		case 5013:				/* CR_ERR_NET_READ of Connector/C, NET_WRITE and NET_UNCOMPRESS */
		case 5014:
		case 5015:
		case WIRE_ER_ABORTING_CONNECTION:
		case WIRE_ER_NET_PACKETS_OUT_OF_ORDER:
		case WIRE_ER_NET_UNCOMPRESS:
		case WIRE_ER_NET_READ:
		case WIRE_ER_NET_READ_INTERRUPTED:
		case WIRE_ER_NET_WRITE_INTERRUPTED:
		case WIRE_ER_SERVER_SHUTDOWN:
		case WIRE_ER_NORMAL_SHUTDOWN:
		case WIRE_ER_NEW_ABORTING_CONNECTION:
		case WIRE_ER_NET_ERROR_ON_WRITE:
		case WIRE_ER_SESSION_WAS_KILLED:
		case WIRE_ER_CLIENT_INTERACTION_TIMEOUT:
			return true;
		default:
			return false;
	}
}

const char *
capstan_wire_plain_sqlstate(const char *sqlstate)
{
	return strlen(sqlstate) == 5 && strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 ? sqlstate : "HY000";
}

int
capstan_wire_sqlstate(unsigned int number, const char *message)
{
	if (capstan_wire_error_is_loss(number))
		return ERRCODE_CONNECTION_FAILURE;

	switch (number)
	{
		case CR_CONNECTION_ERROR:
		case CR_CONN_HOST_ERROR:
		case CR_IPSOCK_ERROR:
		case CR_UNKNOWN_HOST:
		case WIRE_ER_HOST_IS_BLOCKED:
			return ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;

			/*
			 * The handshake of TLS broke: perhaps the network; but a certificate that is not trusted, or a file that
			 * cannot be read, stays so until someone acts.
			 */
		case CR_SSL_CONNECTION_ERROR:
			if (message != NULL &&
				(strcasestr(message, "certificate") != NULL || strcasestr(message, "verif") != NULL ||
				 strcasestr(message, "required") != NULL || strcasestr(message, "file") != NULL ||
				 strcasestr(message, "self-signed") != NULL || strcasestr(message, "host") != NULL ||
				 strcasestr(message, "subject") != NULL || strcasestr(message, "key") != NULL))
				return ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION;
			return ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;

			/* The plugin calls it so when the connection broke. */
		case 2061:				/* CR_AUTH_PLUGIN_ERR */
			if (message != NULL && strcasestr(message, "couldn't read") != NULL)
				return ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION;
			return ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION;
		case WIRE_ER_SECURE_TRANSPORT_REQUIRED:
		case 2059:				/* CR_AUTH_PLUGIN_CANNOT_LOAD */
		case WIRE_CR_PLUGIN_NOT_ALLOWED:
			return ERRCODE_FDW_UNABLE_TO_ESTABLISH_CONNECTION;

		case WIRE_ER_ACCESS_DENIED:
		case WIRE_ER_ACCESS_DENIED_NO_PASSWORD:
		case WIRE_ER_HOST_NOT_PRIVILEGED:
		case WIRE_ER_MUST_CHANGE_PASSWORD:
		case WIRE_ER_MUST_CHANGE_PASSWORD_LOGIN:
		case WIRE_ER_ACCOUNT_LOCKED:
			return ERRCODE_INVALID_PASSWORD;

		case WIRE_ER_DBACCESS_DENIED:
		case WIRE_ER_TABLEACCESS_DENIED:
		case WIRE_ER_COLUMNACCESS_DENIED:
		case WIRE_ER_SPECIFIC_ACCESS_DENIED:
		case WIRE_ER_PROCACCESS_DENIED:
			return ERRCODE_INSUFFICIENT_PRIVILEGE;

		case WIRE_ER_NO_SUCH_TABLE:
		case WIRE_ER_BAD_DB:
			return ERRCODE_UNDEFINED_TABLE;

		case WIRE_ER_LOCK_WAIT_TIMEOUT:
		case WIRE_ER_LOCK_NOWAIT:
		case WIRE_ER_QUERY_TIMEOUT:
		case WIRE_ER_QUERY_INTERRUPTED:
			return ERRCODE_LOCK_NOT_AVAILABLE;
		case WIRE_ER_LOCK_DEADLOCK:
			return ERRCODE_T_R_DEADLOCK_DETECTED;

			/* A view older than the table's definition: a new one will do, if the change was harmless. */
		case WIRE_ER_TABLE_DEF_CHANGED:
			return ERRCODE_T_R_SERIALIZATION_FAILURE;

		case WIRE_ER_CON_COUNT:
		case WIRE_ER_TOO_MANY_USER_CONNECTIONS:
		case WIRE_ER_USER_LIMIT_REACHED:
			return ERRCODE_TOO_MANY_CONNECTIONS;

			/* The source says that it lacks something now, or is closed for maintenance. */
		case WIRE_ER_SERVER_OFFLINE_MODE:
		case WIRE_ER_DISK_FULL:
		case WIRE_ER_OUTOFMEMORY:
		case WIRE_ER_OUT_OF_SORTMEMORY:
		case WIRE_ER_OUT_OF_RESOURCES:
		case WIRE_ER_RECORD_FILE_FULL:
		case WIRE_ER_CANT_CREATE_THREAD:
		case WIRE_ER_PREPARED_STATEMENTS:
		case WIRE_ER_CONNECTION_MEMORY:
		case WIRE_ER_GLOBAL_MEMORY:
			return ERRCODE_CONNECTION_EXCEPTION;

		case CR_OUT_OF_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		default:
			return ERRCODE_FDW_ERROR;
	}
}

/* Does MySQL's text of this error quote values or the statement? */
static bool
text_has_values(unsigned int number)
{
	switch (number)
	{
		case 1062:				/* duplicate entry */
		case 1064:				/* syntax error near */
		case 1149:
		case 1264:
		case 1265:
		case 1292:				/* truncated incorrect value */
		case 1300:				/* invalid character string */
		case 1366:
		case 1367:
		case 1411:
		case 1525:
		case 1586:
		case 3140:				/* invalid JSON text */
		case 3141:
		case 3147:
		case 3854:				/* cannot convert string */
			return true;
		default:
			return false;
	}
}

char *
capstan_wire_error_text(unsigned int number, const char *message)
{
	char	   *text;

	if (message == NULL || message[0] == '\0')
		return psprintf("error %u", number);
	if (text_has_values(number))
		return psprintf("error %u (text withheld, it may contain row values)", number);
	/* The library prints what happens to lie in its buffer. */
	if (number == WIRE_CR_PLUGIN_NOT_ALLOWED)
		return pstrdup("the source asks for an authentication plugin that is not allowed on this connection");

	/* An error packet from before the protocol was agreed on begins with the SQLSTATE. */
	if (message[0] == '#' && strlen(message) > 6)
		message += 6;
	text = pstrdup(message);
	/* It goes into sentences of ours. */
	for (size_t n = strlen(text); n > 0 && (text[n - 1] == '.' || text[n - 1] == ' ' || text[n - 1] == '\n'); n--)
		text[n - 1] = '\0';
	/* Connector/C reports EINPROGRESS when a connection was refused. */
	if (number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR)
	{
		char	   *progress = psprintf(" (%d)", EINPROGRESS);
		size_t		n = strlen(text);

		if (n > strlen(progress) && strcmp(text + n - strlen(progress), progress) == 0)
			text[n - strlen(progress)] = '\0';
	}
	if (GetDatabaseEncoding() != PG_UTF8 || !pg_verify_mbstr(PG_UTF8, text, (int) strlen(text), true))
	{
		for (char *p = text; *p != '\0'; p++)
			if ((unsigned char) *p >= 0x80)
				*p = '?';
	}
	return text;
}

const char *
capstan_wire_error_hint(unsigned int number, const char *message)
{
	switch (number)
	{
		case WIRE_ER_ACCESS_DENIED:
		case WIRE_ER_ACCESS_DENIED_NO_PASSWORD:
			return "Check user and password of the user mapping, and the account on the source: its host part, and whether it "
				"requires TLS (server option ssl_mode) or a client certificate (ssl_cert, ssl_key).";
		case WIRE_ER_TABLEACCESS_DENIED:
			return "GRANT SELECT, LOCK TABLES on the schemas of captured tables to the account on the source.";
		case WIRE_ER_SECURE_TRANSPORT_REQUIRED:
			return "The source has require_secure_transport=ON: set the server option ssl_mode to preferred, required, verify_ca or verify_identity.";
		case WIRE_ER_HOST_IS_BLOCKED:
			return "Run FLUSH HOSTS (or TRUNCATE performance_schema.host_cache) on the source.";
		case WIRE_ER_MUST_CHANGE_PASSWORD:
		case WIRE_ER_MUST_CHANGE_PASSWORD_LOGIN:
			return "The account's password has expired: set a new one with ALTER USER on the source, and in the user mapping.";
		case WIRE_ER_ACCOUNT_LOCKED:
			return "Unlock it with ALTER USER ... ACCOUNT UNLOCK on the source.";
		case CR_SSL_CONNECTION_ERROR:
			return "Check the server options ssl_mode, ssl_ca, ssl_cert and ssl_key.";
		case WIRE_ER_CON_COUNT:
			return "Raise max_connections on the source.";
		case WIRE_ER_TOO_MANY_USER_CONNECTIONS:
		case WIRE_ER_USER_LIMIT_REACHED:
			return "Raise max_user_connections, or the account's resource limits, on the source.";
		case WIRE_ER_SERVER_OFFLINE_MODE:
			return "SET GLOBAL offline_mode = OFF; on the source lets accounts without CONNECTION_ADMIN in again.";
		case WIRE_ER_WRONG_COMPRESSION:
			return "capstan's connections are not compressed: add uncompressed to protocol_compression_algorithms of the source.";
		case WIRE_ER_PREPARED_STATEMENTS:
			return "Look for clients that do not close their prepared statements, or raise max_prepared_stmt_count on the source.";
		case WIRE_ER_NEW_ABORTING_CONNECTION:
			return "If it failed right after it was opened, init_connect of the source may have a fault: its error log tells.";
		case WIRE_ER_PACKET_TOO_LARGE:
			return "Raise max_allowed_packet on the source.";
		case 2059:				/* CR_AUTH_PLUGIN_CANNOT_LOAD */
		case WIRE_CR_PLUGIN_NOT_ALLOWED:
			return "Give the account on the source the authentication plugin caching_sha2_password; one that wants the password in clear text needs TLS.";
		default:
			return strstr(message, "timed out") != NULL ? CAPSTAN_SLOW_SOURCE_HINT : NULL;
	}
}

void
capstan_wire_raise_number(SourceConn *conn, const char *action, unsigned int number, const char *sqlstate,
						  const char *message)
{
	int			sqlerrcode = capstan_wire_sqlstate(number, message);
	const char *hint = capstan_wire_error_hint(number, message);
	char	   *text = capstan_wire_error_text(number, message);

	/* Once connected, an error of TLS is a connection that broke. */
	if (number == CR_SSL_CONNECTION_ERROR)
	{
		sqlerrcode = ERRCODE_CONNECTION_FAILURE;
		hint = NULL;
	}
	if (sqlerrcode == ERRCODE_CONNECTION_FAILURE)
		capstan_wire_mark_lost(conn);

	capstan_wire_end_blocking();

	/* If the wait was broken off because we are to stop, that is the error to raise. */
	CHECK_FOR_INTERRUPTS();

	ereport(ERROR,
			(errcode(sqlerrcode),
			 errmsg("could not %s source \"%s\": %s", action, conn->server_name, text),
			 errdetail("MySQL error %u (%s) at %s.", number, capstan_wire_plain_sqlstate(sqlstate), conn->host),
			 hint != NULL ? errhint("%s", hint) : 0));
}

void
capstan_wire_raise(SourceConn *conn, const char *action)
{
	unsigned int number = mysql_errno(conn->mysql);
	char	   *message = pstrdup(mysql_error(conn->mysql));
	char	   *sqlstate = pstrdup(mysql_sqlstate(conn->mysql));

	capstan_wire_raise_number(conn, action, number, sqlstate, message);
}

void
capstan_wire_raise_silent(SourceConn *conn, int timeout_ms)
{
	capstan_wire_mark_lost(conn);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("source \"%s\" has been silent for %d ms", conn->server_name, timeout_ms),
			 errdetail("The connection to %s is taken for dead.", conn->host),
			 errhint(CAPSTAN_SLOW_SOURCE_HINT)));
}
