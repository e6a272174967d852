/*
 * serveroptions.c
 *		Foreign server and user mapping made into SourceOptions.  See serveroptions.h.
 *
 * The values were checked when they were set (sqlapi/fdw.c); the password is read
 * here, handed to the client library, and goes nowhere else.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "compat.h"
#include "worker/serveroptions.h"

bool
capstan_ssl_mode_parse(const char *text, SourceSslMode *mode)
{
	static const struct
	{
		const char *name;
		SourceSslMode mode;
	}			modes[] = {
		{"disabled", SSL_MODE_OPTION_DISABLED},
		{"preferred", SSL_MODE_OPTION_PREFERRED},
		{"required", SSL_MODE_OPTION_REQUIRED},
		{"verify_ca", SSL_MODE_OPTION_VERIFY_CA},
		{"verify_identity", SSL_MODE_OPTION_VERIFY_IDENTITY},
	};

	for (int i = 0; i < (int) lengthof(modes); i++)
	{
		if (strcmp(text, modes[i].name) == 0)
		{
			*mode = modes[i].mode;
			return true;
		}
	}
	return false;
}

/* The server, after it was checked to be one of ours that the role may use. */
static ForeignServer *
get_server(const char *server_name, Oid userid)
{
	ForeignServer *server = GetForeignServerByName(server_name, true);

	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", server_name),
				 errhint("Create it: CREATE SERVER %s FOREIGN DATA WRAPPER capstan OPTIONS (host '...').",
						 quote_identifier(server_name))));
	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "capstan") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a capstan server", server_name),
				 errdetail("Its foreign-data wrapper is \"%s\".", GetForeignDataWrapper(server->fdwid)->fdwname),
				 errhint("Name a server made with FOREIGN DATA WRAPPER capstan.")));
	if (COMPAT_SERVER_ACLCHECK(server->serverid, userid) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign server %s", server_name),
				 errhint("Grant it: GRANT USAGE ON FOREIGN SERVER %s TO %s;", quote_identifier(server_name),
						 quote_identifier(GetUserNameFromId(userid, false)))));
	return server;
}

/* The role's own mapping or PUBLIC's; GetUserMapping() alone would say less. */
static UserMapping *
get_mapping(ForeignServer *server, Oid userid)
{
	if (!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid), ObjectIdGetDatum(server->serverid)) &&
		!SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(server->serverid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" has no user mapping for server \"%s\"",
						GetUserNameFromId(userid, false), server->servername),
				 errhint("Create it: CREATE USER MAPPING FOR %s SERVER %s OPTIONS (user '...', password '...').",
						 quote_identifier(GetUserNameFromId(userid, false)), quote_identifier(server->servername))));
	return GetUserMapping(userid, server->serverid);
}

static void
read_server(ForeignServer *server, SourceOptions *options)
{
	ListCell   *lc;

	foreach(lc, server->options)
	{
		DefElem    *def = lfirst(lc);
		char	   *value = defGetString(def);

		if (strcmp(def->defname, "host") == 0)
			options->hosts = value;
		else if (strcmp(def->defname, "port") == 0)
			options->port = atoi(value);
		else if (strcmp(def->defname, "ssl_mode") == 0)
			(void) capstan_ssl_mode_parse(value, &options->ssl_mode);
		else if (strcmp(def->defname, "ssl_ca") == 0)
			options->ssl_ca = value;
		else if (strcmp(def->defname, "ssl_cert") == 0)
			options->ssl_cert = value;
		else if (strcmp(def->defname, "ssl_key") == 0)
			options->ssl_key = value;
		else if (strcmp(def->defname, "connect_timeout") == 0)
			options->connect_timeout_s = atoi(value);
		else if (strcmp(def->defname, "read_timeout") == 0)
			options->read_timeout_s = atoi(value);
	}
}

SourceOptions *
capstan_server_options(const char *server_name, Oid userid)
{
	ForeignServer *server = get_server(server_name, userid);
	UserMapping *mapping = get_mapping(server, userid);
	SourceOptions *options = palloc0(sizeof(SourceOptions));
	ListCell   *lc;

	options->server_name = pstrdup(server->servername);
	options->hosts = pstrdup(CAPSTAN_DEFAULT_HOST);
	options->port = CAPSTAN_DEFAULT_PORT;
	options->ssl_mode = SSL_MODE_OPTION_PREFERRED;
	options->connect_timeout_s = CAPSTAN_DEFAULT_CONNECT_TIMEOUT;
	options->read_timeout_s = CAPSTAN_DEFAULT_READ_TIMEOUT;
	read_server(server, options);

	foreach(lc, mapping->options)
	{
		DefElem    *def = lfirst(lc);

		if (strcmp(def->defname, "user") == 0)
			options->user = defGetString(def);
		else if (strcmp(def->defname, "password") == 0)
			options->password = defGetString(def);
	}

	if (options->user == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("the user mapping for server \"%s\" names no MySQL user", server->servername),
				 errhint("ALTER USER MAPPING FOR %s SERVER %s OPTIONS (ADD user '...').",
						 OidIsValid(mapping->userid) ? quote_identifier(GetUserNameFromId(mapping->userid, false)) : "PUBLIC",
						 quote_identifier(server->servername))));

	/* Without one, the identity of the server process (a client certificate, an open account) would speak for the role. */
	if ((options->password == NULL || options->password[0] == '\0') && !superuser_arg(userid))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("password is required"),
				 errdetail("A role that is not a superuser must give a password in its user mapping for server \"%s\".",
						   server->servername),
				 errhint("ALTER USER MAPPING FOR %s SERVER %s OPTIONS (ADD password '...').",
						 OidIsValid(mapping->userid) ? quote_identifier(GetUserNameFromId(mapping->userid, false)) : "PUBLIC",
						 quote_identifier(server->servername))));
	/* so would its name in the operating system, to an account that auth_socket lets in */
	if (strchr(options->hosts, '/') != NULL && !superuser_arg(userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("only superusers may connect to a source by a Unix socket"),
				 errdetail("Server \"%s\" has one as its host.", server->servername)));
	return options;
}
