/*
 * plan.c
 *		What a pipeline would capture, and every check of source and target: the one
 *		code path of capstan.preflight() and capstan.create_pipeline().
 *
 * Runs as the calling user, in a transaction; changes nothing on either side.  Checks of
 * the source alone are in wire/, of types and keys in map/, of the target in targetchecks.c.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "errcodes.h"
#include "sqlapi/internal.h"
#include "worker/connections.h"
#include "worker/serveroptions.h"

int
sqlapi_pin_settings(void)
{
	static const struct
	{
		const char *name;
		const char *value;
	}			pinned[] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"standard_conforming_strings", "on"},
		{"transform_null_equals", "off"},
		{"array_nulls", "on"},
		{"DateStyle", "ISO, YMD"},
		{"IntervalStyle", "postgres"},
		{"TimeZone", "UTC"},
	};
	int			level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(pinned); i++)
		(void) set_config_option(pinned[i].name, pinned[i].value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

PreflightCheck *
sqlapi_add_check(PipelinePlan *plan, CheckStatus status, const char *name)
{
	PreflightCheck *check = palloc0(sizeof(PreflightCheck));

	check->name = name;
	check->status = status;
	check->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
	plan->checks = lappend(plan->checks, check);
	return check;
}

/* The account as GRANT wants it: 'user'@'host'. */
static char *
source_account(SourceConn *conn)
{
	char	   *account = capstan_wire_query_value(conn, "SELECT CURRENT_USER()");
	char	   *at = account == NULL ? NULL : strrchr(account, '@');

	if (at == NULL)
		return NULL;
	return psprintf("%s@%s", capstan_wire_quote_literal(pnstrdup(account, at - account)),
					capstan_wire_quote_literal(at + 1));
}

static void
check_unmatched(PipelinePlan *plan, SourceConn *conn, List *unmatched)
{
	char	   *account = unmatched == NIL ? NULL : source_account(conn);
	ListCell   *lc;

	foreach(lc, unmatched)
	{
		char	   *pattern = lfirst(lc);
		char	   *schema = pnstrdup(pattern, strchr(pattern, '.') - pattern);
		PreflightCheck *check = sqlapi_add_check(plan, CHECK_ERROR, psprintf("pattern %s", pattern));

		check->found = "no table that the account can see";
		check->wanted = "at least one base table";
		if (strpbrk(schema, "*?") == NULL && account != NULL)
			check->fix = psprintf("Correct the spelling, or let the account see the tables: GRANT SELECT, LOCK TABLES ON %s.* TO %s;",
								  capstan_wire_quote_identifier(schema), account);
		else
			check->fix = "Correct the spelling, or grant the account SELECT on the tables.";
		check->sqlerrcode = CAPSTAN_ERRCODE_SOURCE_TABLE;
	}
}

/* The name as Postgres can have it; MySQL's may be longer in bytes. */
static char *
target_identifier(const char *source)
{
	char	   *name = pstrdup(source);	/* of another encoding the database was refused already */

	truncate_identifier(name, strlen(name), false);
	return name;
}

/* What is to be resynced; NULL: nothing of that kind. */
static const PipelineTable *
captured_table(const PipelineRequest *request, const SourceTableInfo *info)
{
	ListCell   *lc;

	foreach(lc, request->resync)
	{
		const PipelineTable *captured = lfirst(lc);

		if (strcmp(captured->source_schema, info->table.schema_name) == 0 && strcmp(captured->source_table, info->table.table_name) == 0)
			return captured;
	}
	return NULL;
}

static void
report_missing(PipelinePlan *plan, const char *name, const char *fix)
{
	PreflightCheck *check = sqlapi_add_check(plan, CHECK_ERROR, psprintf("source_table %s", name));

	check->found = "no such table, or the account cannot see it";
	check->wanted = "a base table of the source, written as it spells it";
	check->fix = pstrdup(fix);
	check->sqlerrcode = CAPSTAN_ERRCODE_SOURCE_TABLE;
}

/* The tables of a request for single ones. */
static List *
find_single_tables(PipelinePlan *plan, SourceConn *conn)
{
	const PipelineRequest *request = plan->request;
	SourceTableInfo *info;
	List	   *infos = NIL;
	ListCell   *lc;

	if (request->add != NULL)
	{
		char	   *schema;
		char	   *table;

		info = sqlapi_find_source_table(conn, request->add, &schema, &table);
		if (info != NULL)
			return list_make1(info);
		report_missing(plan, request->add, "Name it as schema.table; the account must have a privilege on it.");
		return NIL;
	}
	foreach(lc, request->resync)
	{
		const PipelineTable *captured = lfirst(lc);

		CHECK_FOR_INTERRUPTS();
		info = capstan_wire_describe_table(conn, captured->source_schema, captured->source_table);
		if (info != NULL)
			infos = lappend(infos, info);
		else
			report_missing(plan, psprintf("%s.%s", captured->source_schema, captured->source_table), "Call capstan.remove_table().");
	}
	return infos;
}

static bool
has_errors(const PipelinePlan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->checks)
		if (((PreflightCheck *) lfirst(lc))->status == CHECK_ERROR)
			return true;
	return false;
}

/* What row images without a column imply: for all of a pipeline this is noted at its first start. */
static void
note_defaults(PipelinePlan *plan, SourceConn *conn)
{
	ListCell   *lc;

	foreach(lc, plan->tables)
	{
		PlannedTable *table = lfirst(lc);
		const SourceTable *source = &table->info->table;

		table->defaults = capstan_map_encode_row(capstan_wire_column_defaults(conn, source), source->ncolumns);
	}
}

void
sqlapi_raise_target_gone(const char *source_table)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("the target table of %s does not exist any more", source_table),
			 errhint("Call capstan.remove_table(), then capstan.add_table().")));
}

/* It may be called otherwise by now; or be gone, since it is not locked yet. */
static void
name_captured(PlannedTable *table)
{
	table->target_schema = get_namespace_name(get_rel_namespace(table->captured->target));
	table->target_table = get_rel_name(table->captured->target);
	if (table->target_schema == NULL || table->target_table == NULL)
		sqlapi_raise_target_gone(table->source_name);
}

static void
plan_tables(PipelinePlan *plan, List *infos)
{
	ListCell   *lc;

	foreach(lc, infos)
	{
		SourceTableInfo *info = lfirst(lc);
		PlannedTable *table;

		if (info->view)			/* reported by capstan_wire_preflight */
			continue;
		table = palloc0(sizeof(PlannedTable));
		table->info = info;
		table->source_name = psprintf("%s.%s", table->info->table.schema_name, table->info->table.table_name);
		table->target_schema = target_identifier(table->info->table.schema_name);
		table->target_table = target_identifier(table->info->table.table_name);
		table->captured = captured_table(plan->request, info);
		if (table->captured != NULL)
			name_captured(table);
		table->target_name = quote_qualified_identifier(table->target_schema, table->target_table);
		table->usable = true;
		plan->tables = lappend(plan->tables, table);
	}
}

static int
compare_targets(const ListCell *a, const ListCell *b)
{
	return strcmp(((PlannedTable *) lfirst(a))->target_name, ((PlannedTable *) lfirst(b))->target_name);
}

static int
compare_sources(const ListCell *a, const ListCell *b)
{
	const SourceTable *left = &((PlannedTable *) lfirst(a))->info->table;
	const SourceTable *right = &((PlannedTable *) lfirst(b))->info->table;
	int			by_schema = strcmp(left->schema_name, right->schema_name);

	return by_schema != 0 ? by_schema : strcmp(left->table_name, right->table_name);
}

/* Two tables of the source that would be one on the target. */
static void
check_collisions(PipelinePlan *plan)
{
	PlannedTable *previous = NULL;
	ListCell   *lc;

	list_sort(plan->tables, compare_targets);
	foreach(lc, plan->tables)
	{
		PlannedTable *table = lfirst(lc);

		if (previous != NULL && strcmp(previous->target_name, table->target_name) == 0)
		{
			PreflightCheck *check = sqlapi_add_check(plan, CHECK_ERROR, psprintf("target_name %s", table->source_name));

			check->found = psprintf("%s and %s are both %s in the %d bytes of a PostgreSQL name",
									previous->source_name, table->source_name, table->target_name, NAMEDATALEN - 1);
			check->wanted = "a target of its own for each table";
			check->fix = "Leave one of them out of the patterns, or rename it on the source.";
			check->sqlerrcode = CAPSTAN_ERRCODE_TARGET_TABLE;
			table->usable = false;
		}
		previous = table;
	}
	list_sort(plan->tables, compare_sources);
}

/* Errors first, then warnings; otherwise in the order they were made. */
static List *
sort_checks(List *checks)
{
	List	   *sorted = NIL;

	for (int status = CHECK_ERROR; status >= CHECK_OK; status--)
	{
		ListCell   *lc;

		foreach(lc, checks)
			if ((int) ((PreflightCheck *) lfirst(lc))->status == status)
				sorted = lappend(sorted, lfirst(lc));
	}
	return sorted;
}

PipelinePlan *
sqlapi_plan_pipeline(const PipelineRequest *request, bool lock_targets)
{
	PipelinePlan *plan = palloc0(sizeof(PipelinePlan));
	SourceOptions *options = capstan_server_options(request->server, GetUserId());
	bool		with_copy = strcmp(request->snapshot, "never") != 0;
	bool		single = request->add != NULL || request->resync != NIL;
	SourceConn *conn;
	PreflightCheck *check;
	List	   *infos;
	List	   *unmatched = NIL;

	plan->request = request;
	if (!single)
		sqlapi_check_instance(plan);

	conn = capstan_connections_open(options, "preflight");
	check = sqlapi_add_check(plan, CHECK_OK, "connection");
	check->found = psprintf("%s, MySQL %s, %s", capstan_wire_host(conn), capstan_wire_server_version(conn),
							capstan_wire_is_tls(conn) ? "with TLS" : "without TLS");
	check->wanted = "MySQL 8.0 or newer";

	if (single)
	{
		/* first this, then the tables: see meta/generation.h */
		plan->since = capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.gtid_executed");
		infos = find_single_tables(plan, conn);
	}
	else
	{
		infos = capstan_wire_list_tables(conn, request->patterns, &unmatched);
		check_unmatched(plan, conn, unmatched);
	}
	plan->checks = list_concat(plan->checks, capstan_wire_preflight(conn, options, infos, with_copy,
																   strcmp(request->snapshot, "consistent") == 0));
	if (request->name != NULL)
		capstan_wire_fill_objects(conn, infos);
	plan_tables(plan, infos);
	check_collisions(plan);
	if (single && !has_errors(plan))
		note_defaults(plan, conn);
	capstan_connections_close(conn);
	sqlapi_check_targets(plan, lock_targets);

	plan->checks = sort_checks(plan->checks);
	return plan;
}
