/*
 * preflight.c
 *		Is the source fit to be replicated from?  Settings; the other parts are called from here.
 *
 * Used by capstan.preflight() and, with the first error raised, by create_pipeline().  Nothing is changed on the source; the
 * right to lock is found out by locking one table of each schema for a moment (preflightrights.c).
 *
 * A fix is a statement for the source, or a few with the waits between them; where only a restart helps, it says so.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "errcodes.h"
#include "wire/preflight.h"

#define ONE_DAY 86400

static const char *const variable_names[] = {
	"log_bin", "gtid_mode", "enforce_gtid_consistency", "binlog_format", "binlog_row_image", "binlog_row_metadata",
	"binlog_row_value_options", "log_replica_updates", "log_slave_updates", "server_id", "require_secure_transport",
	"sync_binlog", "innodb_flush_log_at_trx_commit", "binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge",
	"innodb_native_foreign_keys", "read_only", "super_read_only", "version_comment", "pxc_strict_mode", "basedir",
	"aurora_version", "max_write_lock_count", "binlog_checksum", "binlog_error_action"
};

const char *
capstan_preflight_variable(Preflight *pf, const char *name)
{
	for (int i = 0; i < pf->nvariables; i++)
		if (strcmp(pf->names[i], name) == 0)
			return pf->values[i];
	return NULL;
}

bool
capstan_preflight_variable_is_on(Preflight *pf, const char *name)
{
	const char *value = capstan_preflight_variable(pf, name);

	return value != NULL && (strcasecmp(value, "ON") == 0 || strcmp(value, "1") == 0);
}

void
capstan_preflight_add(Preflight *pf, const char *name, CheckStatus status, char *found, char *wanted, char *fix, int sqlerrcode)
{
	PreflightCheck *check = palloc0(sizeof(PreflightCheck));

	check->name = pstrdup(name);
	check->status = status;
	check->found = found;
	check->wanted = wanted;
	if (status != CHECK_OK)
	{
		check->fix = fix;
		check->sqlerrcode = sqlerrcode;
	}
	pf->checks = lappend(pf->checks, check);
}

static void
read_variables(Preflight *pf)
{
	StringInfoData sql;
	SourceResult *result;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SHOW GLOBAL VARIABLES WHERE Variable_name IN (");
	for (int i = 0; i < (int) lengthof(variable_names); i++)
		appendStringInfo(&sql, "%s'%s'", i > 0 ? ", " : "", variable_names[i]);
	appendStringInfoChar(&sql, ')');
	result = capstan_wire_query(pf->conn, sql.data, WIRE_VALUE WIRE_NULLABLE);
	pf->names = palloc0(sizeof(char *) * Max(result->nrows, 1));
	pf->values = palloc0(sizeof(char *) * Max(result->nrows, 1));
	for (int i = 0; i < result->nrows; i++)
	{
		pf->names[i] = result->rows[i][0];
		pf->values[i] = result->rows[i][1] != NULL ? result->rows[i][1] : pstrdup("");
	}
	pf->nvariables = result->nrows;
}

static void
find_schemas(Preflight *pf)
{
	ListCell   *lc;

	foreach(lc, pf->tables)
	{
		SourceTableInfo *info = lfirst(lc);
		bool		known = false;
		ListCell   *lc2;

		foreach(lc2, pf->schemas)
			if (strcmp(lfirst(lc2), info->table.schema_name) == 0)
				known = true;
		if (!known)
			pf->schemas = lappend(pf->schemas, info->table.schema_name);
	}
}

static void
check_server(Preflight *pf)
{
	const char *comment = capstan_preflight_variable(pf, "version_comment");
	char	   *id = capstan_wire_query_value(pf->conn, "SELECT CONNECTION_ID()");
	char	   *uuid = capstan_wire_query_value(pf->conn, "SELECT @@GLOBAL.server_uuid");

	capstan_preflight_add(pf, "version", CHECK_OK, pstrdup(capstan_wire_server_version(pf->conn)),
						  pstrdup("MySQL 8.0 or newer"), NULL, 0);
	capstan_preflight_add(pf, "flavour", CHECK_OK, pstrdup(comment != NULL ? comment : ""),
						  pstrdup("MySQL, Percona Server or a managed MySQL"), NULL, 0);

	/* A multiplexing proxy would give us another session for each statement. */
	if (id == NULL || uuid == NULL || strtoull(id, NULL, 10) != pf->conn->thread_id || strcmp(uuid, pf->conn->uuid) != 0)
		capstan_preflight_add(pf, "session", CHECK_ERROR, pstrdup("statements reach different sessions or servers"),
							  pstrdup("a direct connection"), pstrdup("Connect to the server itself, not through a proxy."),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
}

static void
check_setting(Preflight *pf, const char *name, const char *wanted, char *fix)
{
	const char *found = capstan_preflight_variable(pf, name);

	/* Not there: a version that has only one way. */
	if (found == NULL)
		return;
	capstan_preflight_add(pf, name, strcasecmp(found, wanted) == 0 ? CHECK_OK : CHECK_ERROR,
						  pstrdup(found), pstrdup(wanted), fix, CAPSTAN_ERRCODE_SOURCE_SETTING);
}

/* gtid_mode moves one step at a time, and each step has its condition. */
static char *
gtid_mode_fix(Preflight *pf)
{
	const char *mode = capstan_preflight_variable(pf, "gtid_mode");
	StringInfoData fix;

	initStringInfo(&fix);
	if (!capstan_preflight_variable_is_on(pf, "enforce_gtid_consistency"))
		appendStringInfoString(&fix,
							   "SET PERSIST enforce_gtid_consistency = WARN; -- run the usual load, mend what the error log complains of\n"
							   "SET PERSIST enforce_gtid_consistency = ON;\n");
	if (strcasecmp(mode, "OFF") == 0)
		appendStringInfoString(&fix, "SET PERSIST gtid_mode = OFF_PERMISSIVE; -- on every server of the topology\n");
	if (strcasecmp(mode, "OFF") == 0 || strcasecmp(mode, "OFF_PERMISSIVE") == 0)
		appendStringInfoString(&fix, "SET PERSIST gtid_mode = ON_PERMISSIVE; -- on every server of the topology\n");
	appendStringInfoString(&fix,
						   "SHOW STATUS LIKE 'Ongoing_anonymous_transaction_count'; -- wait for 0 on every server, and until the replicas have caught up\n"
						   "SET PERSIST gtid_mode = ON;");
	return fix.data;
}

static void
advise(Preflight *pf, const char *name, bool good, const char *wanted, const char *fix)
{
	const char *found = capstan_preflight_variable(pf, name);

	if (found != NULL)
		capstan_preflight_add(pf, name, good ? CHECK_OK : CHECK_WARNING, pstrdup(found), pstrdup(wanted), pstrdup(fix),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
}

/* How much the log tells of a row: what is less than all can be followed, but at a price. */
static void
check_images(Preflight *pf)
{
	const char *image = capstan_preflight_variable(pf, "binlog_row_image");
	const char *metadata = capstan_preflight_variable(pf, "binlog_row_metadata");
	const char *options = capstan_preflight_variable(pf, "binlog_row_value_options");
	bool		full = image == NULL || strcasecmp(image, "FULL") == 0;

	advise(pf, "binlog_row_image", full,
		   "FULL; with less, an UPDATE of a row that the target lacks halts the pipeline instead of mending it, and so does a changed key during the first copy",
		   "SET PERSIST binlog_row_image = 'FULL'; -- then let the application reconnect");
	advise(pf, "binlog_row_metadata", metadata == NULL || strcasecmp(metadata, "FULL") == 0,
		   "FULL; with MINIMAL, names and labels are asked of the source, and a table that was altered meanwhile halts the pipeline before the rows that precede that",
		   "SET PERSIST binlog_row_metadata = 'FULL';");
	advise(pf, "binlog_row_value_options", full || options == NULL || options[0] == '\0',
		   "(empty), or binlog_row_image FULL; else each difference to a JSON document needs the one on the target, which is read and locked for it",
		   "SET PERSIST binlog_row_value_options = ''; -- then let the application reconnect");
}

static void
check_binlog(Preflight *pf)
{
	const char *server_id = capstan_preflight_variable(pf, "server_id");

	check_setting(pf, "log_bin", "ON", pstrdup("Add log_bin to the source's configuration file and restart it."));
	check_setting(pf, "enforce_gtid_consistency", "ON",
				  pstrdup("SET PERSIST enforce_gtid_consistency = WARN; -- run the usual load, mend what the error log complains of\n"
						  "SET PERSIST enforce_gtid_consistency = ON;"));
	if (capstan_preflight_variable(pf, "gtid_mode") != NULL)
		check_setting(pf, "gtid_mode", "ON", gtid_mode_fix(pf));
	check_setting(pf, "binlog_format", "ROW",
				  pstrdup("SET PERSIST binlog_format = 'ROW'; -- then let the application reconnect: sessions keep their format"));
	check_images(pf);
	if (server_id != NULL)
		capstan_preflight_add(pf, "server_id", strcmp(server_id, "0") != 0 ? CHECK_OK : CHECK_ERROR,
							  pstrdup(server_id), pstrdup("not 0"), pstrdup("SET PERSIST server_id = 1; -- unique in the topology"),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
}

/* A replica that does not log what it applies has a binary log without the primary's changes. */
static void
check_replica(Preflight *pf)
{
	const char *name = capstan_preflight_variable(pf, "log_replica_updates") != NULL ? "log_replica_updates" : "log_slave_updates";
	bool		on = capstan_preflight_variable_is_on(pf, name);

	pf->is_replica = capstan_wire_is_replica(pf->conn, &pf->replica_known);
	capstan_preflight_add(pf, "log_replica_updates",
						  on ? CHECK_OK : (pf->is_replica ? CHECK_ERROR : (pf->replica_known ? CHECK_OK : CHECK_WARNING)),
						  psprintf("%s, %s", on ? "ON" : "OFF",
								   pf->is_replica ? "a replica" : (pf->replica_known ? "not a replica" : "perhaps a replica")),
						  pstrdup("ON on a replica"),
						  psprintf("Add %s=ON to the source's configuration file and restart it.", name),
						  CAPSTAN_ERRCODE_SOURCE_SETTING);
}

static void
check_durability(Preflight *pf)
{
	const char *sync_binlog = capstan_preflight_variable(pf, "sync_binlog");
	const char *flush = capstan_preflight_variable(pf, "innodb_flush_log_at_trx_commit");
	const char *expire = capstan_preflight_variable(pf, "binlog_expire_logs_seconds");
	const char *basedir = capstan_preflight_variable(pf, "basedir");
	const char *error_action = capstan_preflight_variable(pf, "binlog_error_action");
	long		seconds = expire != NULL ? atol(expire) : 0;

	/* Without these, a crash of the source can lose transactions that were streamed already. */
	if (sync_binlog != NULL)
		capstan_preflight_add(pf, "sync_binlog", strcmp(sync_binlog, "1") == 0 ? CHECK_OK : CHECK_WARNING,
							  pstrdup(sync_binlog), pstrdup("1"), pstrdup("SET PERSIST sync_binlog = 1;"),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
	if (flush != NULL)
		capstan_preflight_add(pf, "innodb_flush_log_at_trx_commit", strcmp(flush, "1") == 0 ? CHECK_OK : CHECK_WARNING,
							  pstrdup(flush), pstrdup("1"), pstrdup("SET PERSIST innodb_flush_log_at_trx_commit = 1;"),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
	/* The other way, the source goes on without a log, and nobody tells us. */
	advise(pf, "binlog_error_action", error_action == NULL || strcasecmp(error_action, "ABORT_SERVER") == 0, "ABORT_SERVER",
		   "SET PERSIST binlog_error_action = 'ABORT_SERVER';");
	if (expire != NULL)
	{
		bool		kept = seconds == 0 || seconds >= ONE_DAY ||
			(capstan_preflight_variable(pf, "binlog_expire_logs_auto_purge") != NULL &&
			 !capstan_preflight_variable_is_on(pf, "binlog_expire_logs_auto_purge"));

		capstan_preflight_add(pf, "binlog_expire_logs_seconds", kept ? CHECK_OK : CHECK_WARNING,
							  pstrdup(expire), pstrdup("a day (86400) or more"),
							  pstrdup("SET PERSIST binlog_expire_logs_seconds = 259200;"), CAPSTAN_ERRCODE_SOURCE_SETTING);
	}
	/* There, files vanish minutes after they are closed whatever that variable says. */
	if (basedir != NULL && strstr(basedir, "rdsdbbin") != NULL)
		capstan_preflight_add(pf, "binlog_retention", CHECK_WARNING, pstrdup("a managed server with a retention of its own"),
							  pstrdup("a day or more"),
							  pstrdup("CALL mysql.rds_set_configuration('binlog retention hours', 72);"),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
}

static void
check_transport(Preflight *pf)
{
	bool		is_tls = capstan_wire_is_tls(pf->conn);
	bool		local = pf->conn->host[0] == '/';
	const char *required = capstan_preflight_variable(pf, "require_secure_transport");

	capstan_preflight_add(pf, "tls", is_tls || local ? CHECK_OK : CHECK_WARNING,
						  pstrdup(is_tls ? "encrypted" : (local ? "a local socket" : "not encrypted")),
						  pstrdup("encrypted"),
						  psprintf("ALTER SERVER %s OPTIONS (SET ssl_mode 'verify_identity'); -- in Postgres; ADD instead of SET if it has none",
								   quote_identifier(pf->options->server_name)),
						  CAPSTAN_ERRCODE_SOURCE_SETTING);
	if (required != NULL)
		capstan_preflight_add(pf, "require_secure_transport", CHECK_OK, pstrdup(required), pstrdup("any"), NULL, 0);
}

/* Is the schema an item of "a,b,c"? */
static bool
list_has(const char *list, const char *schema_name)
{
	char	   *rest = pstrdup(list);
	char	   *item;

	while ((item = strsep(&rest, ",")) != NULL)
		if (strcmp(item, schema_name) == 0)
			return true;
	return false;
}

bool
capstan_wire_binlog_filters(SourceConn *conn, BinlogFilters *filters)
{
	SourceResult *result;

	filters->only = filters->without = NULL;
	if (capstan_wire_try_query(conn, conn->version_num >= 80200 ? "SHOW BINARY LOG STATUS" : "SHOW MASTER STATUS",
							   WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE, &result, NULL) != 0)
		return false;
	/* Columns: File, Position, Binlog_Do_DB, Binlog_Ignore_DB, ...; no row: there is no binary log */
	if (result->nrows > 0)
	{
		filters->only = result->rows[0][2] != NULL ? result->rows[0][2] : "";
		filters->without = result->rows[0][3] != NULL ? result->rows[0][3] : "";
	}
	return true;
}

void
capstan_wire_check_logging(SourceConn *conn)
{
	BinlogFilters filters;

	/* log_bin stays ON then, and a stream that has read all of the log waits for more */
	if (capstan_wire_binlog_filters(conn, &filters) && filters.only == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_LOST_EVENTS),
				 errmsg("source \"%s\" has given up its binary log", conn->server_name),
				 errdetail("An error while it wrote the log made it do so (binlog_error_action = IGNORE_ERROR). What is changed there since then is not logged."),
				 errhint("SET PERSIST binlog_error_action = 'ABORT_SERVER'; on the source, mend what its error log tells of, and restart it; then "
						 "capstan.restart_snapshot() copies all tables anew.")));
}

bool
capstan_wire_leaves_out(const BinlogFilters *filters, const char *schema_name)
{
	if (filters->only == NULL)
		return false;
	return (filters->only[0] != '\0' && !list_has(filters->only, schema_name)) || list_has(filters->without, schema_name);
}

bool
capstan_wire_is_replica(SourceConn *conn, bool *known)
{
	SourceResult *result;

	*known = capstan_wire_try_query(conn, conn->version_num >= 80022 ? "SHOW REPLICA STATUS" : "SHOW SLAVE STATUS",
									NULL, &result, NULL) == 0;
	return *known && result->nrows > 0;
}

/*
 * Changes that the filters keep out of the binary log would be seen by the copy and never by the stream.
 */
static void
check_filters(Preflight *pf)
{
	BinlogFilters filters;
	ListCell   *lc;

	if (!capstan_wire_binlog_filters(pf->conn, &filters))
	{
		capstan_preflight_add(pf, "binlog_filters", CHECK_WARNING, pstrdup("not known: REPLICATION CLIENT is missing"),
							  pstrdup("no binlog_do_db or binlog_ignore_db that leaves out a captured schema"),
							  psprintf("GRANT REPLICATION CLIENT ON *.* TO %s;", pf->account),
							  ERRCODE_INSUFFICIENT_PRIVILEGE);
		return;
	}
	if (filters.only == NULL)
	{
		if (capstan_preflight_variable_is_on(pf, "log_bin"))
			capstan_preflight_add(pf, "binary_log", CHECK_ERROR, pstrdup("given up after an error (binlog_error_action = IGNORE_ERROR)"),
								  pstrdup("written"),
								  pstrdup("SET PERSIST binlog_error_action = 'ABORT_SERVER'; -- then mend what the error log tells of, and restart the source"),
								  CAPSTAN_ERRCODE_LOST_EVENTS);
		return;
	}
	foreach(lc, pf->schemas)
	{
		const char *schema_name = lfirst(lc);

		if (capstan_wire_leaves_out(&filters, schema_name))
		{
			capstan_preflight_add(pf, psprintf("binlog_filters %s", schema_name), CHECK_ERROR,
								  psprintf("binlog_do_db=%s binlog_ignore_db=%s", filters.only, filters.without),
								  psprintf("changes of \"%s\" in the binary log", schema_name),
								  pstrdup("Remove the filter from the source's configuration file and restart it."),
								  CAPSTAN_ERRCODE_SOURCE_SETTING);
			return;
		}
	}
	capstan_preflight_add(pf, "binlog_filters", CHECK_OK,
						  filters.only[0] == '\0' && filters.without[0] == '\0' ? pstrdup("none") :
						  psprintf("binlog_do_db=%s binlog_ignore_db=%s", filters.only, filters.without),
						  pstrdup("none that leaves out a captured schema"), NULL, 0);
}

/* They keep their locks over reconnects and restarts; only somebody's XA COMMIT or ROLLBACK ends them. */
static void
check_prepared_xa(Preflight *pf)
{
	SourceResult *result;

	if (capstan_wire_try_query(pf->conn, "XA RECOVER CONVERT XID", NULL, &result, NULL) != 0)
		return;
	capstan_preflight_add(pf, "prepared_xa", result->nrows == 0 ? CHECK_OK : CHECK_WARNING,
						  psprintf("%d prepared XA transactions", result->nrows), pstrdup("none that is left behind"),
						  pstrdup("XA RECOVER CONVERT XID; -- then XA COMMIT or XA ROLLBACK what nobody will end: it keeps its tables from being locked"),
						  CAPSTAN_ERRCODE_PREPARED_XA);
}

char *
capstan_wire_account(SourceConn *conn)
{
	char	   *account = capstan_wire_query_value(conn, "SELECT CURRENT_USER()");
	char	   *at = account != NULL ? strrchr(account, '@') : NULL;

	if (at == NULL)
		return pstrdup("the account of the user mapping");
	*at = '\0';
	return psprintf("%s@%s", capstan_wire_quote_literal(account), capstan_wire_quote_literal(at + 1));
}

List *
capstan_wire_preflight(SourceConn *conn, const SourceOptions *options, List *tables, bool with_copy, bool one_cut)
{
	Preflight	pf = {0};

	pf.conn = conn;
	pf.options = options;
	pf.tables = tables;
	pf.with_copy = with_copy;
	pf.one_cut = one_cut;
	find_schemas(&pf);
	read_variables(&pf);
	pf.account = capstan_wire_account(conn);

	check_server(&pf);
	check_binlog(&pf);
	check_replica(&pf);
	check_filters(&pf);
	capstan_preflight_rights(&pf);
	capstan_preflight_tables(&pf);
	check_durability(&pf);
	check_transport(&pf);
	check_prepared_xa(&pf);
	return pf.checks;
}
