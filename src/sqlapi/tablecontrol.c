/*
 * tablecontrol.c
 *		capstan.add_table(), remove_table(), resync_table(), restart_snapshot(): single tables of a pipeline that may be running.
 *
 * Each locks the pipeline's row first, writes down what is wanted, and has the pipeline worker replaced at COMMIT: the next one
 * begins it (meta/generation.h).  Source and target are looked at through plan.c, as the pipeline's owner, whose rights
 * the caller has.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "apply/apply.h"
#include "compat.h"
#include "errcodes.h"
#include "meta/generation.h"
#include "sqlapi/internal.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(capstan_add_table);
PG_FUNCTION_INFO_V1(capstan_remove_table);
PG_FUNCTION_INFO_V1(capstan_resync_table);
PG_FUNCTION_INFO_V1(capstan_restart_snapshot);

/* Acting as the pipeline's owner. */
typedef struct Caller
{
	Oid			userid;
	int			sec_context;
} Caller;

static void
become_owner(const Pipeline *pipeline, Caller *caller)
{
	GetUserIdAndSecContext(&caller->userid, &caller->sec_context);
	SetUserIdAndSecContext(pipeline->owner, caller->sec_context | SECURITY_LOCAL_USERID_CHANGE);
}

static void
become_caller(const Caller *caller)
{
	SetUserIdAndSecContext(caller->userid, caller->sec_context);
}

static char *
read_reason(FunctionCallInfo fcinfo, int n)
{
	char	   *reason = sqlapi_text_argument(fcinfo, n, "reason");

	if (reason[strspn(reason, " \t\r\n")] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be empty", "reason"),
				 errhint("It is kept in capstan.incident.")));
	return reason;
}

static char *
source_name(const PipelineTable *table)
{
	return psprintf("%s.%s", table->source_schema, table->source_table);
}

static PipelineTable *
get_table(const Pipeline *pipeline, const char *name)
{
	PipelineTable *table = capstan_meta_table_by_name(pipeline->id, name);

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("pipeline \"%s\" does not capture table \"%s\"", pipeline->name, name),
				 errhint("SELECT source_schema, source_table FROM capstan.table_status WHERE pipeline = %s lists those that it does.",
						 quote_literal_cstr(pipeline->name))));
	return table;
}

static void
init_request(PipelineRequest *request, const Pipeline *pipeline, const char *purpose)
{
	memset(request, 0, sizeof(*request));
	request->name = pipeline->name;
	request->server = pipeline->server;
	request->snapshot = "incremental";
	request->policies = pipeline->policies;
	request->shared_target = pipeline->shared_target;
	request->purpose = purpose;
}

static void
warn(const PipelinePlan *plan)
{
	ListCell   *lc;

	foreach(lc, plan->checks)
	{
		PreflightCheck *check = lfirst(lc);

		if (check->status == CHECK_WARNING)
			ereport(WARNING,
					(errmsg("pipeline \"%s\": %s: %s", plan->request->name, check->name, check->found),
					 errdetail("Wanted: %s.", check->wanted),
					 check->fix == NULL ? 0 : errhint("%s", check->fix)));
	}
}

/* Exactly this table as a pattern; a dot in the schema's name is a '?' there. */
static char *
pattern_of(const SourceTable *source)
{
	char	   *schema = pstrdup(source->schema_name);

	for (char *c = schema; *c != '\0'; c++)
		if (*c == '.')
			*c = '?';
	return psprintf("%s.%s", schema, source->table_name);
}

/*
 * The worker is replaced at COMMIT.  A halt over one of these tables is over (NIL: over whatever it was); another one stays.  begins: a
 * copy, for which a worker is needed.
 */
static void
replace_worker(const Pipeline *pipeline, List *names, const char *resolution, bool begins)
{
	bool		halted = pipeline->halted_by != 0;

	if (halted)
	{
		char	   *named = capstan_meta_incident_table(pipeline->halted_by);
		bool		over = names == NIL;
		ListCell   *lc;

		foreach(lc, names)
			over = over || (named != NULL && strcmp(named, lfirst(lc)) == 0);
		if (over)
		{
			capstan_meta_clear_halt(pipeline->id, pipeline->name, GetUserId(), resolution);
			halted = false;
		}
	}
	if (pipeline->run && !halted && pipeline->belongs_here && Capstan != NULL)
		capstan_shmem_request_run(pipeline->id, pipeline->name, pipeline->owner, true);
	else if (begins)
		ereport(NOTICE,
				(errmsg("pipeline \"%s\" is %s: the copy begins when it is started", pipeline->name, halted ? "halted" : "not running")));
}

/* ---------------------------------------------------------------------
 * Adding and removing
 * --------------------------------------------------------------------- */

static void
require_new(const Pipeline *pipeline, const char *name)
{
	if (capstan_meta_table_by_name(pipeline->id, name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("pipeline \"%s\" captures table \"%s\" already", pipeline->name, name),
				 errhint("capstan.resync_table() copies it anew.")));
}

Datum
capstan_add_table(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.add_table()");
	char	   *name = sqlapi_text_argument(fcinfo, 1, "table");
	PipelineRequest request;
	PipelinePlan *plan;
	PlannedTable *planned;
	GenerationStart start;
	Caller		caller;

	if (PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "truncate_target")));
	if (strchr(name, '.') == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid table name: \"%s\"", name),
				 errhint("Name it as schema.table.")));
	capstan_shmem_require();
	require_new(pipeline, name);
	init_request(&request, pipeline, psprintf("add table %s to pipeline \"%s\"", name, pipeline->name));
	request.add = name;
	request.truncate_target = PG_GETARG_BOOL(2);
	if (request.truncate_target && pipeline->shared_target)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("truncate_target contradicts shared_target"),
				 errdetail("It would remove the rows of the other pipelines.")));

	become_owner(pipeline, &caller);
	plan = sqlapi_plan_pipeline(&request, true);
	sqlapi_raise_failed_check(plan);
	if (list_length(plan->tables) != 1)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("\"%s\" is a view", name)));
	planned = linitial(plan->tables);
	/* the source may not tell case apart in names */
	require_new(pipeline, planned->source_name);
	warn(plan);
	sqlapi_prepare_targets(plan);
	start.since = plan->since;
	start.defaults = planned->defaults;
	capstan_meta_add_table(pipeline->id, sqlapi_define_table(planned, "requested", pipeline->shared_target), &start, pattern_of(&planned->info->table),
						   sqlapi_map_objects(plan));
	become_caller(&caller);

	capstan_meta_record_action(pipeline->name, "table_added", psprintf("table %s was added", planned->source_name),
							   planned->source_name, GetUserId(), "add_table");
	replace_worker(pipeline, list_make1(planned->source_name), "add_table", true);
	PG_RETURN_VOID();
}

Datum
capstan_remove_table(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.remove_table()");
	PipelineTable *table = get_table(pipeline, sqlapi_text_argument(fcinfo, 1, "table"));
	char	   *name = source_name(table);

	capstan_apply_drop_shadow(table->id, true);
	capstan_meta_remove_table(table->id);
	capstan_meta_record_action(pipeline->name, "table_removed", psprintf("table %s was removed", name), name, GetUserId(), "remove_table");
	replace_worker(pipeline, list_make1(name), "remove_table", false);
	PG_RETURN_VOID();
}

/* ---------------------------------------------------------------------
 * New generations
 * --------------------------------------------------------------------- */

static void
run(const char *sql)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != SPI_OK_UTILITY)
		elog(ERROR, "\"%s\" returned %s", sql, SPI_result_code_string(rc));
}

static const char *
key_clause(const SourceTable *source)
{
	StringInfoData columns;

	if (source->nkey == 0)
		return "";
	initStringInfo(&columns);
	for (int i = 0; i < source->nkey; i++)
		appendStringInfo(&columns, "%s%s", i > 0 ? ", " : "", quote_identifier(source->columns[source->key[i]].name));
	return psprintf(", PRIMARY KEY (%s)", columns.data);
}

/* Default privileges of the schema must not open to others what the target may keep from them. */
static void
close_to_others(const char *qualified)
{
	SPITupleTable *grantees;
	uint64		n;

	if (SPI_execute(psprintf("SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END "
							 "FROM pg_class c CROSS JOIN aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee "
							 "WHERE c.oid = %s::regclass AND a.grantee <> c.relowner", quote_literal_cstr(qualified)), false, 0) != SPI_OK_SELECT)
		elog(ERROR, "the privileges of %s could not be read", qualified);
	n = SPI_processed;
	grantees = SPI_tuptable;
	for (uint64 i = 0; i < n; i++)
		run(psprintf("REVOKE ALL ON TABLE %s FROM %s CASCADE", qualified, SPI_getvalue(grantees->vals[i], grantees->tupdesc, 1)));
}

/*
 * A table like the target, made as its owner, for nobody else.  Of indexes it needs the one that rows are found by; the target has the others, and what is unique
 * there is checked when the content gets there.  Autovacuum is kept away from it, so that nothing but somebody's look is in the way when it is
 * dropped.
 */
static Oid
make_shadow(const PlannedTable *planned, int generation)
{
	const char *name = psprintf("capstan_shadow_" INT64_FORMAT "_%d", planned->captured->id, generation);
	const char *qualified = quote_qualified_identifier(planned->target_schema, name);
	int			guc_level = sqlapi_pin_settings();
	int			sec_context;
	Oid			userid;
	Oid			shadow;

	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(planned->target_owner, sec_context | SECURITY_RESTRICTED_OPERATION);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run(psprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING INDEXES%s) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false)",
				 qualified, planned->target_name, key_clause(&planned->info->table)));
	close_to_others(qualified);
	run(psprintf("COMMENT ON TABLE %s IS %s", qualified,
				 quote_literal_cstr(psprintf("new content of %s, which capstan resyncs; it will be dropped", planned->target_name))));
	SPI_finish();
	SetUserIdAndSecContext(userid, sec_context);
	AtEOXact_GUC(false, guc_level);
	shadow = get_relname_relid(name, get_namespace_oid(planned->target_schema, false));
	if (!OidIsValid(shadow))
		elog(ERROR, "table %s was created, but is not there", qualified);
	return shadow;
}

static List *
column_names(const TableMap *map, Oid relid, bool key)
{
	List	   *names = NIL;

	for (int i = 0; i < (key ? map->nkey : map->ncolumns); i++)
		names = lappend(names, get_attname(relid, map->columns[key ? map->key[i] : i].attnum, false));
	return names;
}

static void
begin_resync(const Pipeline *pipeline, const PipelinePlan *plan, const PlannedTable *planned, const char *reason)
{
	const char *name = source_name(planned->captured);
	GenerationStart start = {plan->since, planned->defaults};
	TableShadow shadow = {0};
	TableMap   *map;
	int			generation;
	Caller		caller;

	/* before the table's row is locked: a worker that is at the shadow may want that row next */
	capstan_apply_drop_shadow(planned->captured->id, true);
	generation = capstan_meta_new_generation(planned->captured->id, sqlapi_define_table(planned, "requested", false), &start);
	become_owner(pipeline, &caller);
	shadow.shadow = make_shadow(planned, generation);
	map = capstan_map_build(&planned->info->table, shadow.shadow, pipeline->policies, CurrentMemoryContext);
	shadow.columns = column_names(map, shadow.shadow, false);
	shadow.key = column_names(map, shadow.shadow, true);
	MemoryContextDelete(map->context);
	become_caller(&caller);
	capstan_meta_set_shadow(planned->captured->id, &shadow);
	capstan_meta_record_action(pipeline->name, "table_resynced", psprintf("table %s is copied anew, generation %d", name, generation),
							   name, GetUserId(), reason);
}

static void
resync(const Pipeline *pipeline, List *tables, const char *purpose, const char *reason)
{
	PipelineRequest request;
	PipelinePlan *plan;
	Caller		caller;
	ListCell   *lc;

	if (pipeline->shared_target)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot %s: other pipelines write its target tables, too", purpose),
				 errdetail("What is copied anew replaces all rows of the target, and whose they are is not known."),
				 errhint("Call capstan.remove_table() in each pipeline that shares the table, TRUNCATE it, and call capstan.add_table() in each.")));
	foreach(lc, tables)
	{
		PipelineTable *table = lfirst(lc);
		TableShadow *shadow = capstan_meta_shadow(table->id);

		if (shadow != NULL)
			table->target = shadow->target;
		if (get_rel_name(table->target) == NULL)
			sqlapi_raise_target_gone(source_name(table));
	}
	init_request(&request, pipeline, purpose);
	request.resync = tables;
	request.truncate_target = true; /* what it holds is no matter */
	become_owner(pipeline, &caller);
	plan = sqlapi_plan_pipeline(&request, false);
	sqlapi_raise_failed_check(plan);
	become_caller(&caller);
	if (list_length(plan->tables) != list_length(tables))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("cannot %s: a table of the source is a view now", purpose)));
	foreach(lc, plan->tables)
		begin_resync(pipeline, plan, lfirst(lc), reason);
}

Datum
capstan_resync_table(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.resync_table()");
	char	   *name = sqlapi_text_argument(fcinfo, 1, "table");
	char	   *reason = read_reason(fcinfo, 2);
	PipelineTable *table = get_table(pipeline, name);

	capstan_shmem_require();
	resync(pipeline, list_make1(table), psprintf("resync table %s of pipeline \"%s\"", name, pipeline->name), reason);
	replace_worker(pipeline, list_make1(source_name(table)), reason, true);
	PG_RETURN_VOID();
}

Datum
capstan_restart_snapshot(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.restart_snapshot()");
	char	   *reason = read_reason(fcinfo, 1);
	List	   *tables = capstan_meta_tables(pipeline->id);

	if (tables == NIL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" captures no table", pipeline->name)));
	capstan_shmem_require();
	resync(pipeline, tables, psprintf("restart the snapshot of pipeline \"%s\"", pipeline->name), reason);
	replace_worker(pipeline, NIL, reason, true);
	PG_RETURN_VOID();
}
