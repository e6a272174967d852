/*
 * preflightrights.c
 *		May the account do what a pipeline does?  Found out by doing it.
 *
 * Grants can come from roles, be taken back in part (partial_revokes), or be refused by a managed service whatever
 * SHOW GRANTS says.  So each right is tried with the statement that needs it: SHOW REPLICAS (REPLICATION SLAVE),
 * SELECT * ... LIMIT 0 (on some tables only where the grants cover the schema), LOCK TABLES ... READ, which is given up again at once.
 */
#include "postgres.h"

#include "errcodes.h"
#include "wire/introspect.h"
#include "wire/preflight.h"

#define MAX_LISTED_TABLES 5

static bool
is_denied(unsigned int number)
{
	return capstan_wire_sqlstate(number, NULL) == ERRCODE_INSUFFICIENT_PRIVILEGE ||
		capstan_wire_sqlstate(number, NULL) == ERRCODE_INVALID_PASSWORD;
}

static void
check_replication_slave(Preflight *pf)
{
	char	   *message = NULL;
	SourceResult *result;
	unsigned int number = capstan_wire_try_query(pf->conn,
												 pf->conn->version_num >= 80022 ? "SHOW REPLICAS" : "SHOW SLAVE HOSTS",
												 NULL, &result, &message);

	capstan_preflight_add(pf, "privilege_replication_slave", number == 0 ? CHECK_OK : CHECK_ERROR,
						  number == 0 ? pstrdup("granted") : message, pstrdup("REPLICATION SLAVE"),
						  psprintf("GRANT REPLICATION SLAVE ON *.* TO %s;", pf->account), ERRCODE_INSUFFICIENT_PRIVILEGE);
}

static char *
quoted_table(const SourceTable *table)
{
	return psprintf("%s.%s", capstan_wire_quote_identifier(table->schema_name),
					capstan_wire_quote_identifier(table->table_name));
}

/*
 * Do the grants themselves say that the whole schema may be read?  Then one table is tried for many, since a try opens
 * the table on the source.  Any REVOKE (partial_revokes) leaves that to the tries.
 */
static bool
schema_is_granted(Preflight *pf, const char *schema_name)
{
	SourceResult *result;
	char	   *on_schema = psprintf(" ON %s.* TO ", capstan_wire_quote_identifier(schema_name));
	bool		granted = false;

	if (capstan_wire_try_query(pf->conn, "SHOW GRANTS", WIRE_VALUE, &result, NULL) != 0)
		return false;
	for (int i = 0; i < result->nrows; i++)
	{
		const char *grant = result->rows[i][0];
		const char *on;

		if (grant == NULL || strncmp(grant, "REVOKE", 6) == 0)
			return false;
		on = strstr(grant, " ON *.* TO ");
		if (on == NULL)
			on = strstr(grant, on_schema);
		if (on != NULL && (strncmp(grant, "GRANT ALL PRIVILEGES", 20) == 0 || strncmp(grant, "GRANT SELECT", 12) == 0))
			granted = true;
	}
	return granted;
}

/* All columns of each table: a grant on some of them is not enough. */
static void
check_select(Preflight *pf, const char *schema_name)
{
	StringInfoData missing;
	int			nmissing = 0;
	int			ntables = 0;
	bool		granted = schema_is_granted(pf, schema_name);
	ListCell   *lc;

	initStringInfo(&missing);
	foreach(lc, pf->tables)
	{
		SourceTableInfo *info = lfirst(lc);
		char	   *message = NULL;
		unsigned int number;

		if (info->view || strcmp(info->table.schema_name, schema_name) != 0)
			continue;
		ntables++;
		if (granted && ntables > MAX_LISTED_TABLES)
			continue;
		number = capstan_wire_try_exec(pf->conn, psprintf("SELECT * FROM %s LIMIT 0", quoted_table(&info->table)), &message);
		if (number == 0)
			continue;
		nmissing++;
		if (nmissing <= MAX_LISTED_TABLES)
			appendStringInfo(&missing, "%s%s%s", nmissing > 1 ? ", " : "", info->table.table_name,
							 is_denied(number) ? "" : psprintf(" (%s)", message));
		else if (nmissing == MAX_LISTED_TABLES + 1)
			appendStringInfoString(&missing, ", ...");
	}
	if (ntables == 0)
		return;
	capstan_preflight_add(pf, psprintf("privilege_select %s", schema_name), nmissing == 0 ? CHECK_OK : CHECK_ERROR,
						  nmissing == 0 ? pstrdup("granted") :
						  psprintf("missing on %d of %d tables: %s", nmissing, ntables, missing.data),
						  pstrdup("SELECT on whole tables"),
						  psprintf("GRANT SELECT ON %s.* TO %s;", capstan_wire_quote_identifier(schema_name), pf->account),
						  ERRCODE_INSUFFICIENT_PRIVILEGE);
}

/* LOCK TABLES is a right on schemas, so one table tells.  That the lock could not be had in time is no matter here. */
static void
check_lock(Preflight *pf, const char *schema_name)
{
	ListCell   *lc;

	foreach(lc, pf->tables)
	{
		SourceTableInfo *info = lfirst(lc);
		char	   *message = NULL;
		unsigned int number;
		bool		granted;

		if (info->view || strcmp(info->table.schema_name, schema_name) != 0)
			continue;
		number = capstan_wire_try_exec(pf->conn, psprintf("LOCK TABLES %s READ", quoted_table(&info->table)), &message);
		if (number == 0)
			capstan_wire_exec(pf->conn, "UNLOCK TABLES");
		/* Vanished meanwhile, or no SELECT, which has a check of its own. */
		if (number == WIRE_ER_NO_SUCH_TABLE || number == WIRE_ER_TABLEACCESS_DENIED)
			continue;
		granted = number == 0 || number == WIRE_ER_LOCK_WAIT_TIMEOUT;
		capstan_preflight_add(pf, psprintf("privilege_lock_tables %s", schema_name), granted ? CHECK_OK : CHECK_ERROR,
							  granted ? pstrdup("granted") : message, pstrdup("LOCK TABLES"),
							  psprintf("GRANT LOCK TABLES ON %s.* TO %s;", capstan_wire_quote_identifier(schema_name), pf->account),
							  ERRCODE_INSUFFICIENT_PRIVILEGE);
		return;
	}
}

/* Does SHOW GRANTS, active roles included, name one of the privileges on *.*? */
static bool
has_global_grant(Preflight *pf, const char *const *privileges, int n)
{
	SourceResult *result;

	if (capstan_wire_try_query(pf->conn, "SHOW GRANTS", WIRE_VALUE, &result, NULL) != 0)
		return false;
	for (int i = 0; i < result->nrows; i++)
	{
		const char *grant = result->rows[i][0];
		char	   *list;
		char	   *on;
		char	   *item;

		if (grant == NULL || strncmp(grant, "GRANT ", 6) != 0)
			continue;
		list = pstrdup(grant + 6);
		on = strstr(list, " ON *.* ");
		if (on == NULL)
			continue;
		*on = '\0';
		while ((item = strsep(&list, ",")) != NULL)
		{
			while (*item == ' ')
				item++;
			for (int p = 0; p < n; p++)
				if (strcmp(item, privileges[p]) == 0)
					return true;
		}
	}
	return false;
}

/* Foreign keys between these tables and others; of many tables, those of their schemas. */
static char *
count_foreign_keys(Preflight *pf)
{
	const SourceTable **tables = palloc(sizeof(SourceTable *) * Max(list_length(pf->tables), 1));
	int			ntables = 0;
	ListCell   *lc;

	foreach(lc, pf->tables)
		tables[ntables++] = &((SourceTableInfo *) lfirst(lc))->table;
	if (ntables == 0)
		return pstrdup("0");
	return capstan_wire_query_not_null(pf->conn,
									   psprintf("SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE (%s OR %s) "
												"AND (UNIQUE_CONSTRAINT_SCHEMA <> CONSTRAINT_SCHEMA OR REFERENCED_TABLE_NAME <> TABLE_NAME)",
												capstan_wire_table_condition(tables, ntables, "CONSTRAINT_SCHEMA", "TABLE_NAME"),
												capstan_wire_table_condition(tables, ntables, "UNIQUE_CONSTRAINT_SCHEMA", "REFERENCED_TABLE_NAME")));
}

/*
 * A READ lock starves under steady writes; the two stronger ones do not.  LOCK TABLES ... WRITE is refused on a read-only
 * server, and not used where foreign keys would have it lock other tables, too (snapshot/tablelock.c); FLUSH TABLES ... WITH READ LOCK needs a right
 * of its own.
 */
static void
check_strong_lock(Preflight *pf)
{
	static const char *const flush[] = {"RELOAD", "FLUSH_TABLES", "ALL PRIVILEGES"};
	bool		can_flush = has_global_grant(pf, flush, lengthof(flush));
	bool		read_only = capstan_preflight_variable_is_on(pf, "read_only") ||
		capstan_preflight_variable_is_on(pf, "super_read_only");

	if (!can_flush && !read_only)
	{
		char	   *keys = count_foreign_keys(pf);

		if (strcmp(keys, "0") != 0)
		{
			capstan_preflight_add(pf, "fair_lock", CHECK_WARNING,
								  psprintf("LOCK TABLES ... WRITE, but only READ, which steady writers starve, for tables with foreign keys (%s)", keys),
								  pstrdup("one that is not starved by writers"),
								  psprintf("GRANT FLUSH_TABLES ON *.* TO %s;", pf->account), ERRCODE_INSUFFICIENT_PRIVILEGE);
			return;
		}
	}
	capstan_preflight_add(pf, "fair_lock", can_flush || !read_only ? CHECK_OK : CHECK_WARNING,
						  pstrdup(can_flush ? "FLUSH TABLES ... WITH READ LOCK" :
								  (read_only ? "neither: the source is read-only and FLUSH_TABLES is not granted" : "LOCK TABLES ... WRITE")),
						  pstrdup("one that is not starved by writers"),
						  psprintf("GRANT FLUSH_TABLES ON *.* TO %s; -- or SET PERSIST max_write_lock_count = 16;", pf->account),
						  ERRCODE_INSUFFICIENT_PRIVILEGE);
}

/*
 * One lock for all tables.  Without FLUSH TABLES ... WITH READ LOCK it waits for open transactions while it holds some tables already;
 * without XA_RECOVER_ADMIN that one is not used, since it passes over prepared transactions; and
 * without PROCESS the statements that FLUSH would wait for, and leave tables closed behind, cannot be seen.
 */
static void
check_global_lock(Preflight *pf)
{
	static const char *const flush[] = {"RELOAD", "FLUSH_TABLES", "ALL PRIVILEGES"};
	static const char *const process[] = {"PROCESS", "ALL PRIVILEGES"};
	static const char *const recover[] = {"XA_RECOVER_ADMIN", "ALL PRIVILEGES"};
	bool		can_flush = has_global_grant(pf, flush, lengthof(flush));
	bool		can_see = has_global_grant(pf, process, lengthof(process));
	bool		can_recover = has_global_grant(pf, recover, lengthof(recover));
	char	   *missing = psprintf("%s%s%s", can_flush ? "" : ", FLUSH_TABLES", can_see ? "" : ", PROCESS", can_recover ? "" : ", XA_RECOVER_ADMIN");

	capstan_preflight_add(pf, "global_lock", can_flush && can_see && can_recover ? CHECK_OK : CHECK_WARNING,
						  pstrdup(!can_flush || !can_recover ? "LOCK TABLES ... READ on all tables: transactions that have changed one of them are waited for, and may "
								  "be ended as victims of a deadlock" :
								  can_see ? "FLUSH TABLES WITH READ LOCK" :
								  "FLUSH TABLES WITH READ LOCK, without seeing long statements first"),
						  pstrdup("FLUSH TABLES WITH READ LOCK, when no long statement runs"),
						  psprintf("GRANT %s ON *.* TO %s;", missing[0] == '\0' ? "" : missing + 2, pf->account),
						  ERRCODE_INSUFFICIENT_PRIVILEGE);
}

void
capstan_preflight_rights(Preflight *pf)
{
	ListCell   *lc;

	check_replication_slave(pf);
	/* Somebody's DDL or lock on a table may make a try wait: not long. */
	capstan_wire_exec(pf->conn, "SET SESSION lock_wait_timeout = 1");
	foreach(lc, pf->schemas)
	{
		check_select(pf, lfirst(lc));
		if (pf->with_copy)
			check_lock(pf, lfirst(lc));
	}
	capstan_wire_exec(pf->conn, "SET SESSION lock_wait_timeout = DEFAULT");
	if (pf->one_cut)
		check_global_lock(pf);
	else if (pf->with_copy)
		check_strong_lock(pf);
}
