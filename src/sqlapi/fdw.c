/*
 * fdw.c
 *		Validator of foreign-data wrapper "capstan": the options of its servers and
 *		user mappings.
 *
 * Called by CREATE/ALTER SERVER and USER MAPPING.  The wrapper has no handler: servers
 * and mappings are where connections and secrets are kept, foreign tables are not served.
 *
 *		server			host, port, ssl_mode, ssl_ca, ssl_cert, ssl_key, connect_timeout, read_timeout
 *		user mapping	user, password
 */
#include "postgres.h"

#include <limits.h>

#include "access/reloptions.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "compat.h"
#include "worker/serveroptions.h"

PG_FUNCTION_INFO_V1(capstan_fdw_validator);

typedef enum OptionKind
{
	OPTION_TEXT,
	OPTION_HOSTS,
	OPTION_INTEGER,
	OPTION_SSL_MODE,
	OPTION_FILE					/* names a file on the machine of the Postgres server */
} OptionKind;

typedef struct KnownOption
{
	const char *name;
	Oid			catalog;
	OptionKind	kind;
	int			min;
	int			max;
	bool		empty_allowed;
} KnownOption;

static const KnownOption known_options[] = {
	{"host", ForeignServerRelationId, OPTION_HOSTS, 0, 0, false},
	{"port", ForeignServerRelationId, OPTION_INTEGER, 1, 65535, false},
	{"ssl_mode", ForeignServerRelationId, OPTION_SSL_MODE, 0, 0, false},
	{"ssl_ca", ForeignServerRelationId, OPTION_FILE, 0, 0, false},
	{"ssl_cert", ForeignServerRelationId, OPTION_FILE, 0, 0, false},
	{"ssl_key", ForeignServerRelationId, OPTION_FILE, 0, 0, false},
	{"connect_timeout", ForeignServerRelationId, OPTION_INTEGER, 1, 3600, false},
	{"read_timeout", ForeignServerRelationId, OPTION_INTEGER, 2, 86400, false},
	{"user", UserMappingRelationId, OPTION_TEXT, 0, 0, false},
	{"password", UserMappingRelationId, OPTION_TEXT, 0, 0, true},
};

static const KnownOption *
find_option(const char *name, Oid catalog)
{
	for (int i = 0; i < (int) lengthof(known_options); i++)
		if (known_options[i].catalog == catalog && strcmp(known_options[i].name, name) == 0)
			return &known_options[i];
	return NULL;
}

/* Nearest name of the catalog within two changes, or NULL. */
static const char *
nearest_option(const char *name, Oid catalog)
{
	const char *nearest = NULL;
	int			nearest_distance = 3;

	if (strlen(name) > NAMEDATALEN)
		return NULL;
	for (int i = 0; i < (int) lengthof(known_options); i++)
	{
		int			distance;

		if (known_options[i].catalog != catalog)
			continue;
		distance = varstr_levenshtein_less_equal(name, strlen(name), known_options[i].name,
												 strlen(known_options[i].name), 1, 1, 1, nearest_distance, true);
		if (distance < nearest_distance)
		{
			nearest = known_options[i].name;
			nearest_distance = distance;
		}
	}
	return nearest;
}

static void
refuse_unknown(const char *name, Oid catalog)
{
	Oid			other = catalog == ForeignServerRelationId ? UserMappingRelationId : ForeignServerRelationId;
	const char *nearest = nearest_option(name, catalog);
	StringInfoData hint;

	initStringInfo(&hint);
	if (find_option(name, other) != NULL && catalog == ForeignServerRelationId)
		appendStringInfo(&hint, "Option \"%s\" belongs to the user mapping: "
						 "CREATE USER MAPPING ... OPTIONS (user '...', password '...'). ", name);
	else if (find_option(name, other) != NULL)
		appendStringInfo(&hint, "Option \"%s\" belongs to the server. ", name);
	else if (nearest != NULL)
		appendStringInfo(&hint, "Perhaps you meant the option \"%s\". ", nearest);

	if (catalog == ForeignServerRelationId || catalog == UserMappingRelationId)
	{
		const char *separator = "";

		appendStringInfoString(&hint, "Valid options in this context are: ");
		for (int i = 0; i < (int) lengthof(known_options); i++)
		{
			if (known_options[i].catalog != catalog)
				continue;
			appendStringInfo(&hint, "%s%s", separator, known_options[i].name);
			separator = ", ";
		}
		appendStringInfoChar(&hint, '.');
	}
	else
		appendStringInfoString(&hint, "There are no valid options in this context.");

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\"", name),
			 errhint("%s", hint.data)));
}

/* The value is never shown for a password; no check of this file fails on one. */
static void
refuse_value(const char *name, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 errhint("%s", hint)));
}

/* All of the text is digits, and the number lies between min and max. */
static bool
is_integer_between(const char *text, int min, int max)
{
	long		number = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
	{
		if (*text < '0' || *text > '9')
			return false;
		number = number * 10 + (*text - '0');
		if (number > INT_MAX)
			return false;
	}
	return number >= min && number <= max;
}

/* One of a list: 'a', 'a:3307', '[::1]:3307', '/run/mysqld/mysqld.sock'. */
static bool
is_host(const char *host)
{
	const char *colon;

	for (const char *c = host; *c != '\0'; c++)
		if ((unsigned char) *c <= ' ' || *c == 0x7f)
			return false;
	if (host[0] == '/')
		return host[1] != '\0';
	if (host[0] == '[')
	{
		const char *end = strchr(host, ']');

		if (end == NULL || end == host + 1)
			return false;
		return end[1] == '\0' || (end[1] == ':' && is_integer_between(end + 2, 1, 65535));
	}
	if (host[0] == '\0' || strpbrk(host, "/[]") != NULL)
		return false;
	colon = strchr(host, ':');
	return colon == NULL || (colon != host && is_integer_between(colon + 1, 1, 65535));
}

static void
check_hosts(const char *value)
{
	char	   *rest = pstrdup(value);
	char	   *host;

	while ((host = strsep(&rest, ",")) != NULL)
	{
		while (*host == ' ')
			host++;
		for (size_t n = strlen(host); n > 0 && host[n - 1] == ' '; n--)
			host[n - 1] = '\0';
		if (!is_host(host))
			refuse_value("host", value,
						 "A host is a name, an address, or the path of a socket, with \":port\" if it has its own; several are "
						 "separated by commas: 'db1,db2:3307'. An IPv6 address stands in brackets.");
	}
}

static void
check_value(const KnownOption *option, const char *value)
{
	SourceSslMode mode;

	if (*value == '\0' && !option->empty_allowed)
		refuse_value(option->name, value, "The value must not be empty; leave the option out for its default.");

	switch (option->kind)
	{
		case OPTION_TEXT:
			break;
		case OPTION_HOSTS:
			check_hosts(value);
			break;
		case OPTION_INTEGER:
			if (!is_integer_between(value, option->min, option->max))
				refuse_value(option->name, value,
							 psprintf("A whole number from %d to %d%s.", option->min, option->max,
									  strstr(option->name, "timeout") != NULL ? " (seconds)" : ""));
			break;
		case OPTION_SSL_MODE:
			if (!capstan_ssl_mode_parse(value, &mode))
				refuse_value(option->name, value,
							 "Valid values are disabled, preferred, required, verify_ca, verify_identity.");
			break;
		case OPTION_FILE:
			if (!is_absolute_path(value))
				refuse_value(option->name, value, "An absolute path on the machine of the PostgreSQL server.");
			if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("permission denied to set option \"%s\"", option->name),
						 errdetail("The option names a file on the machine of the PostgreSQL server."),
						 errhint("Only a superuser or a member of pg_read_server_files may set it.")));
			break;
	}
}

Datum
capstan_fdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst(lc);
		const KnownOption *option = find_option(def->defname, catalog);

		if (option == NULL)
			refuse_unknown(def->defname, catalog);
		else
			check_value(option, def->arg == NULL ? "" : defGetString(def));
	}
	PG_RETURN_VOID();
}
