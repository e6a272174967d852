/*
 * create.c
 *		capstan.preflight(), capstan.create_pipeline(), capstan.table_ddl().
 *
 * All three look at source and target through plan.c.  create_pipeline raises the first failed
 * check, before anything is changed; then it makes what is missing, as the calling user, and writes the
 * catalog, all in the caller's transaction.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/scansup.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "errcodes.h"
#include "map/objectmap.h"
#include "meta/pipelinedef.h"
#include "sqlapi/internal.h"
#include "worker/connections.h"
#include "worker/serveroptions.h"

PG_FUNCTION_INFO_V1(capstan_preflight);
PG_FUNCTION_INFO_V1(capstan_create_pipeline);
PG_FUNCTION_INFO_V1(capstan_table_ddl);

Datum
capstan_preflight(PG_FUNCTION_ARGS)
{
	static const char *const status_names[] = {"ok", "warning", "error"};
	PipelineRequest request;
	PipelinePlan *plan;
	Tuplestorestate *rows;
	TupleDesc	desc;
	ListCell   *lc;

	rows = sqlapi_begin_rows(fcinfo, &desc);
	sqlapi_read_request(fcinfo, 0, &request);
	plan = sqlapi_plan_pipeline(&request, false);
	foreach(lc, plan->checks)
	{
		PreflightCheck *check = lfirst(lc);
		const char *texts[5] = {check->name, status_names[check->status], check->found, check->wanted, check->fix};
		Datum		values[5];
		bool		nulls[5];

		for (int i = 0; i < 5; i++)
		{
			nulls[i] = texts[i] == NULL;
			values[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(texts[i]);
		}
		tuplestore_putvalues(rows, desc, values, nulls);
	}
	return (Datum) 0;
}

/* Names go into process titles, log lines and messages: plain ASCII, and no more than a Name holds. */
static void
check_name(const char *name)
{
	bool		good = name[0] != '\0' && strlen(name) < NAMEDATALEN;

	for (const char *c = name; *c != '\0' && good; c++)
		good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' ||
			(c != name && (*c == '-' || *c == '.'));
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("invalid pipeline name: \"%s\"", name),
				 errhint("A name has 1 to %d of the characters A-Z, a-z, 0-9, \"_\", and, after the first, \"-\" and \".\".",
						 NAMEDATALEN - 1)));
}

/* '{shop.*,"a b.c"}' as a literal, for the hint. */
static char *
patterns_literal(List *patterns)
{
	StringInfoData out;
	ListCell   *lc;

	initStringInfo(&out);
	appendStringInfoChar(&out, '{');
	foreach(lc, patterns)
	{
		if (out.len > 1)
			appendStringInfoChar(&out, ',');
		appendStringInfoChar(&out, '"');
		for (const char *c = lfirst(lc); *c != '\0'; c++)
		{
			if (*c == '"' || *c == '\\')
				appendStringInfoChar(&out, '\\');
			appendStringInfoChar(&out, *c);
		}
		appendStringInfoChar(&out, '"');
	}
	appendStringInfoChar(&out, '}');
	return quote_literal_cstr(out.data);
}

/* The first failed check as an ERROR, with what else failed and how to see it all. */
void
sqlapi_raise_failed_check(const PipelinePlan *plan)
{
	const PipelineRequest *request = plan->request;
	PreflightCheck *first = NULL;
	StringInfoData others;
	int			more = 0;
	ListCell   *lc;

	initStringInfo(&others);
	foreach(lc, plan->checks)
	{
		PreflightCheck *check = lfirst(lc);

		if (check->status != CHECK_ERROR)
			continue;
		if (first == NULL)
		{
			first = check;
			continue;
		}
		more++;
		if (more <= 10)
			appendStringInfo(&others, "%s%s", more == 1 ? "" : ", ", check->name);
	}
	if (first == NULL)
		return;
	if (more > 10)
		appendStringInfoString(&others, ", ...");

	ereport(ERROR,
			(errcode(first->sqlerrcode),
			 errmsg("cannot %s: %s: %s", request->purpose, first->name, first->found),
			 more == 0 ? errdetail("Wanted: %s.", first->wanted) :
			 errdetail_plural("Wanted: %s. %d more check fails: %s.",
							  "Wanted: %s. %d more checks fail: %s.",
							  more, first->wanted, more, others.data),
			 request->patterns == NIL ? (first->fix == NULL ? 0 : errhint("%s", first->fix)) :
			 errhint("%s%sSELECT * FROM capstan.preflight(%s, tables => %s%s%s) shows all checks.",
					 first->fix == NULL ? "" : first->fix, first->fix == NULL ? "" : "\n",
					 quote_literal_cstr(request->server), patterns_literal(request->patterns),
					 strcmp(request->snapshot, "incremental") == 0 ? "" : psprintf(", snapshot => '%s'", request->snapshot),
					 request->truncate_target ? ", truncate_target => true" : request->shared_target ? ", shared_target => true" : "")));
}

/* A statement of the calling user's. */
static void
run(const char *sql)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != SPI_OK_UTILITY)
		elog(ERROR, "\"%s\" returned %s", sql, SPI_result_code_string(rc));
}

/* What the source's table has of comments, for the table just made. */
static List *
comment_statements(const SourceTableInfo *info, const char *target_schema, const char *target_table)
{
	return capstan_map_comment_ddl(&info->table, target_schema, target_table, info->comment, info->column_comments);
}

/* Between SPI_connect and SPI_finish, with search_path pinned. */
static void
create_targets(PipelinePlan *plan)
{
	char	   *made_schema = NULL;
	ListCell   *lc;

	/* tables come sorted by schema, so those of one stand together */
	foreach(lc, plan->tables)
	{
		PlannedTable *table = lfirst(lc);
		ListCell   *lc2;

		if (OidIsValid(table->target))
			continue;
		if (!table->schema_exists && (made_schema == NULL || strcmp(made_schema, table->target_schema) != 0))
		{
			run(psprintf("CREATE SCHEMA %s", quote_identifier(table->target_schema)));
			made_schema = table->target_schema;
		}
		run(capstan_map_table_ddl(&table->info->table, table->target_schema, table->target_table,
								  plan->request->policies));
		CommandCounterIncrement();
		foreach(lc2, comment_statements(table->info, table->target_schema, table->target_table))
			run(lfirst(lc2));
		table->target = get_relname_relid(table->target_table, get_namespace_oid(table->target_schema, false));
		if (!OidIsValid(table->target))
			elog(ERROR, "table %s was created, but is not there", table->target_name);
		table->made = true;
	}
}

/*
 * TRUNCATE of all targets of one owner in one statement, so that keys between them do not stand in
 * the way.  As the owner of the tables: their triggers are that role's code, and must not
 * run with the rights of a superuser who creates the pipeline.
 */
static void
truncate_targets(PipelinePlan *plan, List *existing)
{
	Oid			caller;
	int			sec_context;

	GetUserIdAndSecContext(&caller, &sec_context);
	while (existing != NIL)
	{
		Oid			owner = ((PlannedTable *) linitial(existing))->target_owner;
		List	   *others = NIL;
		StringInfoData sql;
		ListCell   *lc;

		initStringInfo(&sql);
		foreach(lc, existing)
		{
			PlannedTable *table = lfirst(lc);

			if (table->target_owner != owner)
				others = lappend(others, table);
			else
				appendStringInfo(&sql, "%s%s", sql.len == 0 ? "TRUNCATE " : ", ", table->target_name);
		}
		SetUserIdAndSecContext(owner, sec_context | SECURITY_RESTRICTED_OPERATION);
		run(sql.data);
		SetUserIdAndSecContext(caller, sec_context);
		existing = others;
	}
}

void
sqlapi_prepare_targets(PipelinePlan *plan)
{
	int			guc_level = sqlapi_pin_settings();
	List	   *existing = NIL;
	ListCell   *lc;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	foreach(lc, plan->tables)
		if (OidIsValid(((PlannedTable *) lfirst(lc))->target))
			existing = lappend(existing, lfirst(lc));
	if (plan->request->truncate_target)
		truncate_targets(plan, existing);
	create_targets(plan);
	SPI_finish();
	AtEOXact_GUC(false, guc_level);
}

PipelineTableDefinition *
sqlapi_define_table(const PlannedTable *planned, const char *state, bool shared)
{
	const SourceTable *source = &planned->info->table;
	PipelineTableDefinition *table = palloc0(sizeof(PipelineTableDefinition));
	StrBuf		signature;

	if (source->ncolumns == 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("the source shows no column of table %s.%s", source->schema_name, source->table_name),
				 errhint("It was dropped meanwhile, or the account may not see all of it: GRANT SELECT ON %s.%s;",
						 capstan_wire_quote_identifier(source->schema_name), capstan_wire_quote_identifier(source->table_name))));
	capstan_strbuf_init(&signature);
	capstan_source_table_signature(source, &signature);
	table->source_schema = source->schema_name;
	table->source_table = source->table_name;
	table->target = planned->target;
	for (int i = 0; i < source->nkey; i++)
		table->key = lappend(table->key, source->columns[source->key[i]].name);
	/*
	 * Rows of a foreign table may be there although the range that brought them was not committed here.  Without a gate the stream
	 * keeps them right until the range is copied again, which then meets what it would write.
	 */
	table->key_ordered = capstan_map_key_is_ordered(source) && (get_rel_relkind(planned->target) != RELKIND_FOREIGN_TABLE || planned->captured != NULL);
	/* of a shared table each row that is there already is somebody else's: no change may come before its range (change.c) */
	table->key_pageable = capstan_map_key_is_pageable(source) && (table->key_ordered || !shared);
	table->shared = shared;
	table->signature = signature.data;
	table->state = state;
	table->rows_estimate = planned->info->rows_estimate;
	table->bytes_estimate = planned->info->data_bytes;
	return table;
}

/* What becomes of indexes, constraints and the like. */
List *
sqlapi_map_objects(const PipelinePlan *plan)
{
	int			ntables = list_length(plan->tables);
	ObjectTable *tables = palloc0(sizeof(ObjectTable) * ntables);
	int			not_translated = 0;
	int			left = 0;
	List	   *objects;
	ListCell   *lc;

	for (int i = 0; i < ntables; i++)
	{
		PlannedTable *planned = list_nth(plan->tables, i);

		tables[i].source = &planned->info->table;
		tables[i].objects = planned->info->objects;
		tables[i].target_schema = planned->target_schema;
		tables[i].target_table = planned->target_table;
		tables[i].made = planned->made;
	}
	objects = capstan_map_objects(tables, ntables, plan->request->policies);
	foreach(lc, objects)
	{
		const char *state = ((TargetObject *) lfirst(lc))->state;

		if (strcmp(state, "not_translated") == 0)
			not_translated++;
		else if (strcmp(state, "left_to_user") == 0)
			left++;
	}
	if (not_translated + left > 0)
		ereport(NOTICE,
				(errmsg("pipeline \"%s\": %d indexes, constraints and the like of the source are not translated, %d are left to you",
						plan->request->name, not_translated, left),
				 errhint("SELECT * FROM capstan.object_status WHERE pipeline = %s AND state IN ('not_translated', 'left_to_user') says which, and why.",
						 quote_literal_cstr(plan->request->name))));
	return objects;
}

Datum
capstan_create_pipeline(PG_FUNCTION_ARGS)
{
	PipelineRequest request;
	PipelinePlan *plan;
	PipelineDefinition definition;
	char	   *name = sqlapi_text_argument(fcinfo, 0, "name");
	ListCell   *lc;

	sqlapi_read_request(fcinfo, 1, &request);
	request.name = name;
	request.purpose = psprintf("create pipeline \"%s\"", name);
	check_name(name);
	PreventCommandIfReadOnly("capstan.create_pipeline()");
	if (capstan_meta_pipeline_by_name(name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("pipeline \"%s\" already exists", name),
				 errhint("Choose another name, or remove it by capstan.drop_pipeline().")));

	plan = sqlapi_plan_pipeline(&request, true);
	sqlapi_raise_failed_check(plan);
	foreach(lc, plan->checks)
	{
		PreflightCheck *check = lfirst(lc);

		if (check->status == CHECK_WARNING)
			ereport(WARNING,
					(errmsg("pipeline \"%s\": %s: %s", name, check->name, check->found),
					 errdetail("Wanted: %s.", check->wanted),
					 check->fix == NULL ? 0 : errhint("%s", check->fix)));
	}

	sqlapi_prepare_targets(plan);

	memset(&definition, 0, sizeof(definition));
	definition.name = name;
	definition.server = request.server;
	definition.owner = GetUserId();
	definition.patterns = request.patterns;
	definition.snapshot = request.snapshot;
	definition.zero_dates = request.zero_dates;
	definition.nul_bytes = request.nul_bytes;
	definition.shared_target = request.shared_target;
	foreach(lc, plan->tables)
		definition.tables = lappend(definition.tables,
									sqlapi_define_table(lfirst(lc), strcmp(request.snapshot, "never") != 0 ? "pending" : "streaming",
														request.shared_target));
	definition.objects = sqlapi_map_objects(plan);
	PG_RETURN_INT64(capstan_meta_create_pipeline(&definition));
}

/*
 * The table of that name.  Either name may have dots in it: where the first one does not divide schema and table, the
 * next one may.  Sets *table behind the right one; NULL if there is none.
 */
SourceTableInfo *
sqlapi_find_source_table(SourceConn *conn, char *name, char **schema, char **table)
{
	for (char *point = strchr(name, '.'); point != NULL; point = strchr(point + 1, '.'))
	{
		SourceTableInfo *info;

		*schema = pnstrdup(name, point - name);
		*table = point + 1;
		info = capstan_wire_describe_table(conn, *schema, *table);
		if (info != NULL)
			return info;
	}
	return NULL;
}

Datum
capstan_table_ddl(PG_FUNCTION_ARGS)
{
	char	   *server = NameStr(*PG_GETARG_NAME(0));
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *point = strchr(name, '.');
	MapPolicies policies = {ZERO_DATES_NULL, NUL_BYTES_HALT};
	SourceConn *conn;
	SourceTableInfo *info;
	List	   *complaints;
	char	   *schema;
	char	   *table;
	StringInfoData out;
	ListCell   *lc;

	if (point == NULL || point == name || point[1] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid table name: \"%s\"", name),
				 errhint("Name it as schema.table.")));

	conn = capstan_connections_open(capstan_server_options(server, GetUserId()), "table_ddl");
	info = sqlapi_find_source_table(conn, name, &schema, &table);
	capstan_connections_close(conn);
	if (info == NULL || info->view)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 info == NULL ? errmsg("the source has no table \"%s\"", name) : errmsg("\"%s\" is a view", name),
				 errhint("Name a base table as schema.table, as the source spells it; the account must have a privilege on it.")));
	complaints = capstan_map_source_complaints(&info->table);
	if (complaints != NIL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("table \"%s\" cannot be made in PostgreSQL", name),
				 errdetail_internal("%s", (char *) linitial(complaints)),
				 errhint("capstan.preflight() shows everything that stands in the way.")));

	truncate_identifier(schema, strlen(schema), false);
	truncate_identifier(table, strlen(table), false);
	initStringInfo(&out);
	appendStringInfo(&out, "%s;", capstan_map_table_ddl(&info->table, schema, table, policies));
	foreach(lc, comment_statements(info, schema, table))
		appendStringInfo(&out, "\n%s;", (char *) lfirst(lc));
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
