/*
 * targetchecks.c
 *		What preflight checks of the Postgres side: this server, and each target table.
 *
 * Called by plan.c, as the calling user: catalogs are read with that user's rights, and
 * nothing is changed.  search_path is pinned while our statements run.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/twophase.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "errcodes.h"
#include "meta/pipelinedef.h"
#include "sqlapi/internal.h"
#include "worker/shmem.h"

/* What the catalogs say of a target's name. */
typedef struct TargetState
{
	bool		schema_exists;
	bool		may_create;		/* in the schema, or, without it, schemas in the database */
	bool		exists;
	Oid			relid;
	char		relkind;
	char		persistence;
	Oid			owner;
	bool		owned;			/* by a role whose rights the caller has */
	bool		row_security;	/* active for the caller */
	char	   *triggers;		/* that fire even in a replica session; NULL: none */
	char	   *referenced_by;	/* foreign keys of tables that are not captured; NULL: none */
	char	   *heirs;			/* tables that inherit from it, as ALTER TABLE statements that end that; NULL: none */
	char	   *writer;			/* another pipeline; NULL: none */
	bool		shared;			/* and that one shares it */
	int			updatable;		/* events that it takes, as pg_relation_is_updatable() says */
} TargetState;

#define TARGETS_SQL \
	"SELECT n.oid, " \
	"CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE') " \
	"ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END, " \
	"c.oid, c.relkind, c.relpersistence, c.relowner, pg_has_role(c.relowner, 'USAGE'), " \
	"c.relkind IN ('r', 'p') AND row_security_active(c.oid), " \
	"CASE WHEN c.relkind = 'f' THEN pg_relation_is_updatable(c.oid, false) END, " \
	"(SELECT string_agg(x.name, ', ' ORDER BY x.name) FROM (" \
	"  SELECT tgname::text FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgenabled IN ('A', 'R') " \
	"  UNION ALL SELECT rulename::text FROM pg_rewrite WHERE ev_class = c.oid AND ev_enabled IN ('A', 'R')) AS x(name)), " \
	"(SELECT string_agg(f.conname || ' of ' || f.conrelid::regclass::text, ', ' ORDER BY f.conname) FROM pg_constraint f " \
	"  WHERE f.contype = 'f' AND f.confrelid = c.oid AND f.conrelid <> c.oid AND f.conparentid = 0 " \
	"  AND NOT EXISTS (SELECT FROM w AS v JOIN pg_namespace vn ON vn.nspname = v.s::name " \
	"    JOIN pg_class vc ON vc.relnamespace = vn.oid AND vc.relname = v.t::name WHERE vc.oid = f.conrelid)), " \
	/* not partitions; nor chunks of a hypertable, which are as good as those */ \
	"(SELECT string_agg(format('ALTER TABLE %s NO INHERIT %s;', h.inhrelid::regclass, c.oid::regclass), ' ' ORDER BY h.inhrelid) " \
	"  FROM pg_inherits h JOIN pg_class hc ON hc.oid = h.inhrelid JOIN pg_namespace hn ON hn.oid = hc.relnamespace " \
	"  WHERE h.inhparent = c.oid AND c.relkind <> 'p' AND hn.nspname <> '_timescaledb_internal') " \
	"FROM w LEFT JOIN pg_namespace n ON n.nspname = w.s::name " \
	"LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.t::name " \
	"ORDER BY w.i"

static char *
user_name(void)
{
	return GetUserNameFromId(GetUserId(), false);
}

PreflightCheck *
sqlapi_target_check(PipelinePlan *plan, PlannedTable *table, CheckStatus status, const char *what, int sqlerrcode)
{
	PreflightCheck *check = sqlapi_add_check(plan, status, psprintf("%s %s", what, table->target_name));

	check->sqlerrcode = sqlerrcode;
	if (status == CHECK_ERROR)
		table->usable = false;
	return check;
}

static void
check_slots(PipelinePlan *plan)
{
	PreflightCheck *check;
	int			used = 0;
	int			wanted;

	if (Capstan == NULL)
	{
		check = sqlapi_add_check(plan, CHECK_ERROR, "preload");
		check->found = "capstan is not in shared_preload_libraries";
		check->wanted = "shared_preload_libraries = 'capstan'";
		check->fix = "Add capstan to shared_preload_libraries in postgresql.conf and restart the server.";
		return;
	}
	check = sqlapi_add_check(plan, CHECK_OK, "preload");
	check->found = check->wanted = "capstan is in shared_preload_libraries";

	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 0; i < Capstan->nslots; i++)
		if (Capstan->slots[i].in_use)
			used++;
	LWLockRelease(Capstan->lock);

	check = sqlapi_add_check(plan, used < Capstan->nslots ? CHECK_OK : CHECK_WARNING, "pipeline_slots");
	check->found = psprintf("%d of %d in use", used, Capstan->nslots);
	check->wanted = "one free to start the pipeline";
	if (check->status != CHECK_OK)
		check->fix = psprintf("ALTER SYSTEM SET capstan.max_pipelines = %d; and restart the server", Capstan->nslots * 2);

	/* the launcher, and for each pipeline its worker and the copy workers of a snapshot; parallel query wants some too */
	wanted = 1 + (used + 1) * (1 + capstan_copy_workers);
	check = sqlapi_add_check(plan, wanted <= max_worker_processes ? CHECK_OK : CHECK_WARNING, "max_worker_processes");
	check->found = psprintf("%d", max_worker_processes);
	check->wanted = psprintf("at least %d: the launcher, and %d for each of %d pipelines", wanted,
							 1 + capstan_copy_workers, used + 1);
	if (check->status != CHECK_OK)
		check->fix = psprintf("ALTER SYSTEM SET max_worker_processes = %d; and restart the server", wanted + 8);
}

void
sqlapi_check_instance(PipelinePlan *plan)
{
	bool		utf8 = GetDatabaseEncoding() == PG_UTF8;
	PreflightCheck *check;

	check_slots(plan);

	check = sqlapi_add_check(plan, utf8 ? CHECK_OK : CHECK_ERROR, "database_encoding");
	check->found = pstrdup(GetDatabaseEncodingName());
	check->wanted = "UTF8";
	check->sqlerrcode = ERRCODE_FEATURE_NOT_SUPPORTED;
	if (!utf8)
		check->fix = "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0; and use that one";
}

/* Asks the catalogs for all targets in one query. */
static TargetState *
load_states(PipelinePlan *plan)
{
	int			count = list_length(plan->tables);
	MemoryContext caller = CurrentMemoryContext;
	TargetState *states = palloc0(sizeof(TargetState) * Max(count, 1));
	Datum	   *schemas = palloc(sizeof(Datum) * Max(count, 1));
	Datum	   *names = palloc(sizeof(Datum) * Max(count, 1));
	Oid			types[2] = {TEXTARRAYOID, TEXTARRAYOID};
	Datum		values[2];

	for (int i = 0; i < count; i++)
	{
		PlannedTable *table = list_nth(plan->tables, i);

		schemas[i] = CStringGetTextDatum(table->target_schema);
		names[i] = CStringGetTextDatum(table->target_table);
	}
	values[0] = PointerGetDatum(construct_array(schemas, count, TEXTOID, -1, false, TYPALIGN_INT));
	values[1] = PointerGetDatum(construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args("WITH w AS (SELECT * FROM unnest($1, $2) WITH ORDINALITY AS u(s, t, i)) " TARGETS_SQL,
							  2, types, values, NULL, true, 0) != SPI_OK_SELECT || SPI_processed != (uint64) count)
		elog(ERROR, "reading the catalog entries of %d targets failed", count);

	for (int i = 0; i < count; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		TargetState *state = &states[i];
		char	   *text;
		bool		isnull;

		(void) SPI_getbinval(tuple, desc, 1, &isnull);
		state->schema_exists = !isnull;
		state->may_create = DatumGetBool(SPI_getbinval(tuple, desc, 2, &isnull));
		state->relid = DatumGetObjectId(SPI_getbinval(tuple, desc, 3, &isnull));
		state->exists = !isnull;
		if (isnull)
			continue;
		state->relkind = DatumGetChar(SPI_getbinval(tuple, desc, 4, &isnull));
		state->persistence = DatumGetChar(SPI_getbinval(tuple, desc, 5, &isnull));
		state->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 6, &isnull));
		state->owned = DatumGetBool(SPI_getbinval(tuple, desc, 7, &isnull));
		state->row_security = DatumGetBool(SPI_getbinval(tuple, desc, 8, &isnull));
		state->updatable = DatumGetInt32(SPI_getbinval(tuple, desc, 9, &isnull));
		text = SPI_getvalue(tuple, desc, 10);
		state->triggers = text == NULL ? NULL : MemoryContextStrdup(caller, text);
		text = SPI_getvalue(tuple, desc, 11);
		state->referenced_by = text == NULL ? NULL : MemoryContextStrdup(caller, text);
		text = SPI_getvalue(tuple, desc, 12);
		state->heirs = text == NULL ? NULL : MemoryContextStrdup(caller, text);
	}
	SPI_finish();
	return states;
}

static void
load_writers(PipelinePlan *plan, TargetState *states)
{
	int			count = list_length(plan->tables);
	Oid		   *targets = palloc(sizeof(Oid) * Max(count, 1));
	List	   *writers;
	ListCell   *lc;

	for (int i = 0; i < count; i++)
		targets[i] = states[i].relid;	/* InvalidOid finds nothing */
	writers = capstan_meta_writers_of(targets, count);
	foreach(lc, writers)
	{
		TargetWriter *writer = lfirst(lc);

		for (int i = 0; i < count; i++)
			if (states[i].exists && states[i].relid == writer->target)
			{
				/* those that share it come first: one that does not is the last word */
				states[i].writer = writer->pipeline;
				states[i].shared = writer->shared;
			}
	}
}

static bool
is_reserved_schema(const char *name)
{
	return strncmp(name, "pg_", 3) == 0 || strcmp(name, "information_schema") == 0 || strcmp(name, "capstan") == 0;
}

/* Schemas that are not for user tables; false and a check if it is one. */
static bool
check_schema_name(PipelinePlan *plan, PlannedTable *table)
{
	PreflightCheck *check;

	if (!is_reserved_schema(table->target_schema))
		return true;
	check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_schema", ERRCODE_RESERVED_NAME);
	check->found = psprintf("schema name %s is reserved here", quote_identifier(table->target_schema));
	check->wanted = "a schema for user tables";
	check->fix = "Leave the table out of the patterns.";
	return false;
}

/* The target is to be made: may the caller? */
static void
check_creation(PipelinePlan *plan, PlannedTable *table, const TargetState *state, char **reported_schema)
{
	PreflightCheck *check;

	if (!state->may_create)
	{
		table->usable = false;
		/* tables come sorted by schema: one row for each schema is enough */
		if (*reported_schema != NULL && strcmp(*reported_schema, table->target_schema) == 0)
			return;
		*reported_schema = table->target_schema;
		check = sqlapi_add_check(plan, CHECK_ERROR, psprintf("target_schema %s", quote_identifier(table->target_schema)));
		check->sqlerrcode = ERRCODE_INSUFFICIENT_PRIVILEGE;
		if (state->schema_exists)
		{
			check->found = psprintf("role %s may not create tables in it", user_name());
			check->wanted = "CREATE and USAGE on the schema";
			check->fix = psprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %s;", quote_identifier(table->target_schema),
								  quote_identifier(user_name()));
		}
		else
		{
			check->found = psprintf("does not exist, and role %s may not create it", user_name());
			check->wanted = "the schema, or CREATE on the database";
			check->fix = psprintf("CREATE SCHEMA %s AUTHORIZATION %s; or GRANT CREATE ON DATABASE %s TO %s;",
								  quote_identifier(table->target_schema), quote_identifier(user_name()),
								  quote_identifier(get_database_name(MyDatabaseId)), quote_identifier(user_name()));
		}
	}
	if (strcmp(plan->request->snapshot, "never") == 0)
	{
		check = sqlapi_target_check(plan, table, CHECK_WARNING, "target_missing", 0);
		check->found = "does not exist: it will be made, and the source's rows are not copied";
		check->wanted = "with snapshot => 'never', a table that equals the source's";
		check->fix = "Create and fill it, or use snapshot => 'incremental'.";
	}
}

/* Complaints of map/ about types, keys, names; one row with all of them. */
static void
check_map(PipelinePlan *plan, PlannedTable *table)
{
	List	   *complaints = OidIsValid(table->target)
		? capstan_map_complaints(&table->info->table, table->target, plan->request->policies)
		: capstan_map_source_complaints(&table->info->table);
	PreflightCheck *check;
	StringInfoData found;
	ListCell   *lc;

	if (complaints == NIL)
		return;
	initStringInfo(&found);
	foreach(lc, complaints)
		appendStringInfo(&found, "%s%s", found.len == 0 ? "" : "; ", (char *) lfirst(lc));
	if (OidIsValid(table->target))
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_columns", CAPSTAN_ERRCODE_TARGET_TABLE);
		check->wanted = "a column with a fitting type for each column of the source, and a unique index on the key";
		check->fix = psprintf("ALTER TABLE %s ...; SELECT capstan.table_ddl(%s, %s) shows the table that capstan would make.",
							  table->target_name, quote_literal_cstr(plan->request->server),
							  quote_literal_cstr(table->source_name));
	}
	else
	{
		check = sqlapi_add_check(plan, CHECK_ERROR, psprintf("columns %s", table->source_name));
		check->sqlerrcode = CAPSTAN_ERRCODE_SOURCE_TABLE;
		check->wanted = "a supported type for every column";
		check->fix = psprintf("Leave %s out of the patterns, or change the columns on the source.", table->source_name);
		table->usable = false;
	}
	check->found = found.data;
}

/* Is there a row?  In a snapshot of this moment, so that a lock taken before means what it says. */
static bool
target_has_rows(const char *target_name)
{
	SPIPlanPtr	plan;
	Snapshot	snapshot;
	bool		found;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = SPI_prepare(psprintf("SELECT FROM %s LIMIT 1", target_name), 0, NULL);
	if (plan == NULL)
		elog(ERROR, "preparing a look into %s failed", target_name);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (SPI_execute_snapshot(plan, NULL, NULL, snapshot, InvalidSnapshot, true, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "looking into %s failed", target_name);
	found = SPI_processed > 0;
	UnregisterSnapshot(snapshot);
	SPI_finish();
	return found;
}

static void
check_content(PipelinePlan *plan, PlannedTable *table, const TargetState *state)
{
	PreflightCheck *check;

	if (plan->request->truncate_target || strcmp(plan->request->snapshot, "never") == 0)
		return;
	if (plan->request->shared_target && state->writer != NULL)
		return;
	if (!target_has_rows(table->target_name))
		return;
	check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_empty", CAPSTAN_ERRCODE_TARGET_TABLE);
	check->found = "the table holds rows";
	check->wanted = "an empty table, to copy the source's rows into";
	check->fix = psprintf("TRUNCATE %s; or truncate_target => true; or, if it equals the source already, snapshot => 'never'",
						  table->target_name);
}

/* Things that are allowed, but that somebody should know. */
static void
check_surroundings(PipelinePlan *plan, PlannedTable *table, const TargetState *state)
{
	PreflightCheck *check;

	if (state->triggers != NULL)
	{
		check = sqlapi_target_check(plan, table, CHECK_WARNING, "target_triggers", 0);
		check->found = psprintf("enabled ALWAYS or REPLICA: %s", state->triggers);
		check->wanted = "no trigger or rule that changes what is replicated";
		check->fix = psprintf("ALTER TABLE %s DISABLE TRIGGER ... (ENABLE TRIGGER alone does not fire for replicated rows)",
							  table->target_name);
	}
	if (state->heirs != NULL)
	{
		check = sqlapi_target_check(plan, table, CHECK_WARNING, "target_heirs", 0);
		check->found = "other tables inherit from it: updates, deletes, truncation and resyncs reach their rows, too";
		check->wanted = "a table without heirs";
		check->fix = state->heirs;
	}
	/* of a single table, the others of its pipeline are not told from strangers */
	if (state->referenced_by != NULL && plan->request->patterns != NIL)
	{
		check = sqlapi_target_check(plan, table, CHECK_WARNING, "target_references", 0);
		check->found = psprintf("referenced by tables that are not captured: %s", state->referenced_by);
		check->wanted = "references among captured tables: others are not checked when rows are replicated";
		check->fix = "Capture those tables too, or drop the constraints.";
	}
}

static void
check_writer(PipelinePlan *plan, PlannedTable *table, const TargetState *state)
{
	PreflightCheck *check;

	if (state->writer == NULL || (state->shared && plan->request->shared_target))
		return;
	check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_writer", ERRCODE_OBJECT_IN_USE);
	check->found = psprintf("pipeline \"%s\" writes it", state->writer);
	check->wanted = "one pipeline for each table, or shared_target for all of them";
	check->fix = psprintf("Leave the table out of the patterns, or SELECT capstan.drop_pipeline(%s);%s",
						  quote_literal_cstr(state->writer),
						  state->shared ? " or, for shards of one table with keys of their own, shared_target => true" : "");
}

/* Bits of pg_relation_is_updatable(). */
#define TAKES_ALL ((1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE))

static void
check_foreign(PipelinePlan *plan, PlannedTable *table, const TargetState *state)
{
	PreflightCheck *check;

	if ((state->updatable & TAKES_ALL) != TAKES_ALL)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_foreign", ERRCODE_WRONG_OBJECT_TYPE);
		check->found = "the foreign table does not take inserts, updates and deletes";
		check->wanted = "a foreign table that can be written";
		check->fix = psprintf("ALTER FOREIGN TABLE %s OPTIONS (SET updatable 'true'); or another foreign-data wrapper", table->target_name);
		return;
	}
	if (plan->request->shared_target)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_shared", CAPSTAN_ERRCODE_TARGET_TABLE);
		check->found = "a foreign table: after a crash rows of this pipeline may be there that it does not know of";
		check->wanted = "with shared_target, a table of this database";
		check->fix = "Leave it out of the patterns, or use one pipeline for each foreign table.";
		return;
	}
	sqlapi_check_remote_key(plan, table);
	if (!table->usable)
		return;
	check = sqlapi_target_check(plan, table, CHECK_WARNING, "target_foreign", 0);
	check->found = "a foreign table: its rows are committed on the other server before the position is committed here";
	check->wanted = "readers there that can live with changes that are applied once more after a crash";
	check->fix = "See \"Foreign tables\" in doc/operations.md.";
}

/*
 * Locked in the order of the plan, before anything is asked that must stay true.  Those that the caller does not own, and things
 * that are no tables, are refused anyway.
 */
static void
lock_existing(PipelinePlan *plan, const TargetState *states, LOCKMODE mode)
{
	for (int i = 0; i < list_length(plan->tables); i++)
	{
		PlannedTable *table = list_nth(plan->tables, i);
		const TargetState *state = &states[i];

		if (!state->exists || !state->owned || is_reserved_schema(table->target_schema) || (state->relkind != RELKIND_RELATION && state->relkind != RELKIND_PARTITIONED_TABLE &&
												state->relkind != RELKIND_FOREIGN_TABLE))
			continue;
		LockRelationOid(state->relid, mode);
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(state->relid)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("target table %s was dropped at the same time", table->target_name),
					 errhint("Try again.")));
	}
}

static void
check_existing(PipelinePlan *plan, PlannedTable *table, const TargetState *state)
{
	PreflightCheck *check;

	if (state->relkind != RELKIND_RELATION && state->relkind != RELKIND_PARTITIONED_TABLE &&
		state->relkind != RELKIND_FOREIGN_TABLE)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_kind", ERRCODE_WRONG_OBJECT_TYPE);
		check->found = "something else than a table has this name";
		check->wanted = "a table, or a free name";
		check->fix = "Rename or drop it.";
		return;
	}
	if (state->persistence != RELPERSISTENCE_PERMANENT)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_persistence", CAPSTAN_ERRCODE_TARGET_TABLE);
		check->found = "the table is unlogged: a crash would empty it";
		check->wanted = "a logged table";
		check->fix = psprintf("ALTER TABLE %s SET LOGGED;", table->target_name);
	}
	if (!state->owned)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_owner", ERRCODE_INSUFFICIENT_PRIVILEGE);
		check->found = psprintf("owned by %s", GetUserNameFromId(state->owner, false));
		check->wanted = psprintf("owned by %s, or by a role that it is a member of", user_name());
		check->fix = psprintf("ALTER TABLE %s OWNER TO %s; or GRANT %s TO %s;", table->target_name,
							  quote_identifier(user_name()), quote_identifier(GetUserNameFromId(state->owner, false)),
							  quote_identifier(user_name()));
	}
	if (state->row_security)
	{
		check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_row_security", CAPSTAN_ERRCODE_TARGET_TABLE);
		check->found = psprintf("row security applies to %s", user_name());
		check->wanted = "no row security between the pipeline and its rows";
		check->fix = psprintf("ALTER TABLE %s NO FORCE ROW LEVEL SECURITY; or DISABLE ROW LEVEL SECURITY",
							  table->target_name);
	}
	if (table->captured == NULL)
		check_writer(plan, table, state);
	if (state->relkind == RELKIND_FOREIGN_TABLE)
		check_foreign(plan, table, state);
	check_surroundings(plan, table, state);
	if (!table->usable)
		return;
	check_map(plan, table);
	if (table->usable)
		check_content(plan, table, state);
}

/*
 * All targets are made, or locked, in one transaction: a table, its key, and mostly a TOAST table with its index
 * for each that is made.
 */
static void
check_lock_space(PipelinePlan *plan)
{
	int64		wanted = 0;
	int64		space = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts);
	PreflightCheck *check;
	ListCell   *lc;

	foreach(lc, plan->tables)
		wanted += OidIsValid(((PlannedTable *) lfirst(lc))->target) ? 1 : 4;
	if (wanted <= space / 2)
		return;
	check = sqlapi_add_check(plan, CHECK_WARNING, "max_locks_per_transaction");
	check->found = psprintf("%d: room for some " INT64_FORMAT " locks in the whole cluster", max_locks_per_xact, space);
	check->wanted = psprintf("room for " INT64_FORMAT " locks of create_pipeline, and as many of others", wanted);
	check->fix = psprintf("ALTER SYSTEM SET max_locks_per_transaction = " INT64_FORMAT "; and restart the server, or make several pipelines",
						  2 * wanted / (MaxBackends + max_prepared_xacts) + 1);
}

void
sqlapi_check_targets(PipelinePlan *plan, bool lock_targets)
{
	TargetState *states;
	int			guc_level = sqlapi_pin_settings();
	char	   *reported_schema = NULL;

	states = load_states(plan);
	lock_existing(plan, states, lock_targets ? ShareRowExclusiveLock : AccessShareLock);
	load_writers(plan, states);
	for (int i = 0; i < list_length(plan->tables); i++)
	{
		PlannedTable *table = list_nth(plan->tables, i);
		TargetState *state = &states[i];

		CHECK_FOR_INTERRUPTS();
		table->schema_exists = state->schema_exists;
		table->target = state->relid;
		table->target_owner = state->owner;
		if (!check_schema_name(plan, table))
			continue;
		if (plan->request->shared_target && table->info->table.nkey == 0)
		{
			PreflightCheck *check = sqlapi_target_check(plan, table, CHECK_ERROR, "target_shared", CAPSTAN_ERRCODE_TARGET_TABLE);

			check->found = "the table has no key: equal rows of two sources would not be told apart";
			check->wanted = "with shared_target, a key";
			check->fix = "Give the table a primary key on the source, or leave it out of the patterns.";
			continue;
		}
		if (state->exists)
			check_existing(plan, table, state);
		else
		{
			check_creation(plan, table, state, &reported_schema);
			check_map(plan, table);
		}
		if (table->usable)
		{
			PreflightCheck *check = sqlapi_target_check(plan, table, CHECK_OK, "target", 0);

			check->found = state->exists ? "fits the source" : "will be made";
			check->wanted = psprintf("a table for %s", table->source_name);
		}
	}
	check_lock_space(plan);
	AtEOXact_GUC(false, guc_level);
}
