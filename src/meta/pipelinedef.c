/*
 * pipelinedef.c
 *		Writing pipelines, and looking at one as it is now.  See pipelinedef.h.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "meta/internal.h"
#include "meta/pipelinedef.h"
#include "meta/tableobject.h"

/* A text[] of a List of char *. */
Datum
meta_text_array(List *strings)
{
	Datum	   *elements = palloc(sizeof(Datum) * Max(list_length(strings), 1));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, strings)
		elements[n++] = CStringGetTextDatum(lfirst(lc));
	return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

static int64
insert_pipeline(const PipelineDefinition *definition)
{
	Oid			types[10] = {TEXTOID, TEXTOID, OIDOID, TEXTARRAYOID, TEXTOID, TEXTOID, TEXTOID, INT8OID, OIDOID, BOOLOID};
	Datum		values[10] = {
		CStringGetTextDatum(definition->name),
		CStringGetTextDatum(definition->server),
		ObjectIdGetDatum(definition->owner),
		meta_text_array(definition->patterns),
		CStringGetTextDatum(definition->snapshot),
		CStringGetTextDatum(definition->zero_dates),
		CStringGetTextDatum(definition->nul_bytes),
		Int64GetDatum((int64) GetSystemIdentifier()),
		ObjectIdGetDatum(MyDatabaseId),
		BoolGetDatum(definition->shared_target)
	};

	meta_execute("INSERT INTO capstan.pipeline (name, server, owner, tables, snapshot, zero_dates, nul_bytes, "
				 "replica_uuid, system_identifier, database_oid, shared_target) "
				 "VALUES ($1, $2, $3, $4, $5, $6, $7, pg_catalog.gen_random_uuid(), $8, $9, $10) RETURNING id",
				 10, types, values, NULL, SPI_OK_INSERT_RETURNING);
	return meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
}

int64
meta_insert_table(int64 pipeline_id, const PipelineTableDefinition *table)
{
	Oid			types[12] = {INT8OID, TEXTOID, TEXTOID, OIDOID, TEXTARRAYOID, BOOLOID, BOOLOID, TEXTOID, TEXTOID, INT8OID, INT8OID, BOOLOID};
	Datum		values[12] = {
		Int64GetDatum(pipeline_id),
		CStringGetTextDatum(table->source_schema),
		CStringGetTextDatum(table->source_table),
		ObjectIdGetDatum(table->target),
		meta_text_array(table->key),
		BoolGetDatum(table->key_ordered),
		BoolGetDatum(table->key_pageable),
		CStringGetTextDatum(table->signature),
		CStringGetTextDatum(table->state),
		Int64GetDatum(table->rows_estimate),
		Int64GetDatum(table->bytes_estimate),
		BoolGetDatum(table->shared)
	};
	char		nulls[13] = "            ";

	if (table->rows_estimate < 0)
		nulls[9] = 'n';
	if (table->bytes_estimate < 0)
		nulls[10] = 'n';
	meta_execute("INSERT INTO capstan.pipeline_table (pipeline_id, source_schema, source_table, target, key, "
				 "key_ordered, key_pageable, definition, state, rows_estimate, bytes_estimate, shared, generation) "
				 "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1 + COALESCE((SELECT r.generation FROM capstan.removed_table r "
				 "WHERE r.pipeline_id = $1 AND r.source_schema = $2 AND r.source_table = $3), 0)) RETURNING id",
				 12, types, values, nulls, SPI_OK_INSERT_RETURNING);
	return meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
}

int64
capstan_meta_create_pipeline(const PipelineDefinition *definition)
{
	MetaIdentity identity;
	ListCell   *lc;
	int64		id;

	capstan_meta_enter(&identity);
	id = insert_pipeline(definition);
	foreach(lc, definition->tables)
		(void) meta_insert_table(id, lfirst(lc));
	meta_insert_objects(id, definition->objects);
	capstan_meta_leave(&identity);
	return id;
}

List *
capstan_meta_writers_of(const Oid *targets, int ntargets)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *writers = NIL;
	Oid			types[1] = {OIDARRAYOID};
	Datum		values[1];
	Datum	   *elements = palloc(sizeof(Datum) * Max(ntargets, 1));
	SPIPlanPtr	plan;
	Snapshot	snapshot;

	for (int i = 0; i < ntargets; i++)
		elements[i] = ObjectIdGetDatum(targets[i]);
	values[0] = PointerGetDatum(construct_array(elements, ntargets, OIDOID, sizeof(Oid), true, TYPALIGN_INT));

	capstan_meta_enter(&identity);
	plan = SPI_prepare("SELECT t.target::oid, p.name, t.shared FROM capstan.pipeline_table t "
					   "JOIN capstan.pipeline p ON p.id = t.pipeline_id "
					   "WHERE t.target = ANY ($1) ORDER BY t.shared DESC, p.name", 1, types);
	if (plan == NULL)
		elog(ERROR, "preparing a statement on the capstan catalog failed");
	/* our own changes in this transaction are to be seen, too */
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	if (SPI_execute_snapshot(plan, values, NULL, snapshot, InvalidSnapshot, true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "looking for the writers of target tables failed");
	UnregisterSnapshot(snapshot);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		TargetWriter *writer = MemoryContextAlloc(caller, sizeof(TargetWriter));
		MemoryContext spi;
		bool		isnull;

		writer->target = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
		writer->pipeline = meta_get_text(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2, caller);
		writer->shared = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 3, &isnull));
		spi = MemoryContextSwitchTo(caller);
		writers = lappend(writers, writer);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return writers;
}

bool
capstan_meta_lock_pipeline(const char *name)
{
	MetaIdentity identity;
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(name)};
	bool		found;

	capstan_meta_enter(&identity);
	meta_execute("SELECT id FROM capstan.pipeline WHERE name = $1 FOR UPDATE", 1, types, values, NULL, SPI_OK_SELECT);
	found = SPI_processed > 0;
	capstan_meta_leave(&identity);
	return found;
}

void
capstan_meta_set_desired_state(int64 id, bool run)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, TEXTOID};
	Datum		values[2] = {Int64GetDatum(id), CStringGetTextDatum(run ? "running" : "stopped")};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline SET desired_state = $2 WHERE id = $1", 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

/* Between enter and leave.  severities: an SQL list of literals. */
static void
resolve_incidents(const char *name, const char *severities, Oid by, const char *resolution)
{
	Oid			types[3] = {TEXTOID, TEXTOID, TEXTOID};
	Datum		values[3] = {
		CStringGetTextDatum(name),
		CStringGetTextDatum(GetUserNameFromId(by, false)),
		CStringGetTextDatum(resolution)
	};

	meta_execute(psprintf("UPDATE capstan.incident SET resolved_at = pg_catalog.clock_timestamp(), "
						  "resolved_by = $2, resolution = $3 "
						  "WHERE pipeline = $1 AND resolved_at IS NULL AND severity IN (%s)", severities),
				 3, types, values, NULL, SPI_OK_UPDATE);
}

void
capstan_meta_clear_halt(int64 id, const char *name, Oid by, const char *resolution)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(id)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline SET halted_by = NULL WHERE id = $1", 1, types, values, NULL, SPI_OK_UPDATE);
	resolve_incidents(name, "'halt', 'retry'", by, resolution);
	capstan_meta_leave(&identity);
	/* who lets it go on gives it all of its attempts again */
	capstan_meta_forget_starts(id);
}

void
capstan_meta_drop_pipeline(int64 id, const char *name, Oid by)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(id)};

	capstan_meta_enter(&identity);
	resolve_incidents(name, "'halt', 'retry', 'warning', 'recovery'", by, "drop_pipeline");
	/* progress, tables, ranges and the round go with it */
	meta_enforce_references();
	meta_execute("DELETE FROM capstan.pipeline WHERE id = $1", 1, types, values, NULL, SPI_OK_DELETE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_adopt_pipeline(int64 id)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, INT8OID, OIDOID};
	Datum		values[3] = {Int64GetDatum(id), Int64GetDatum((int64) GetSystemIdentifier()), ObjectIdGetDatum(MyDatabaseId)};

	capstan_meta_enter(&identity);
	/* A uuid of its own: under the old one, this copy and the original would throw each other off the source. */
	meta_execute("UPDATE capstan.pipeline SET system_identifier = $2, database_oid = $3, "
				 "replica_uuid = pg_catalog.gen_random_uuid() WHERE id = $1",
				 3, types, values, NULL, SPI_OK_UPDATE);
	/* A dump has the ranges that were planned, and not the number of their round: it must not come again for other ones. */
	meta_execute("INSERT INTO capstan.snapshot_round (pipeline_id, round) SELECT $1, max(r.round) FROM capstan.copied_range r "
				 "JOIN capstan.pipeline_table t ON t.id = r.table_id WHERE t.pipeline_id = $1 HAVING max(r.round) IS NOT NULL "
				 "ON CONFLICT (pipeline_id) DO UPDATE SET round = GREATEST(snapshot_round.round, EXCLUDED.round)",
				 1, types, values, NULL, SPI_OK_INSERT);
	capstan_meta_leave(&identity);
}

#define LOOK_SQL \
	"SELECT p.desired_state, p.system_identifier, p.database_oid, p.owner::oid, p.halted_by, " \
	"i.message, i.detail, i.hint, g.pipeline_id IS NOT NULL, " \
	"CASE WHEN NOT $2 THEN NULL WHEN g.applied_since IS NULL THEN g.applied ELSE capstan.gtid_union(g.applied, g.applied_since) END, " \
	"CASE WHEN NOT $2 THEN (SELECT pg_catalog.count(*) FROM capstan.pipeline_table t WHERE t.pipeline_id = p.id) END, " \
	"CASE WHEN NOT $2 THEN (SELECT pg_catalog.count(*) FROM capstan.pipeline_table t WHERE t.pipeline_id = p.id AND t.state <> 'streaming') END, " \
	"CASE WHEN NOT $2 AND NOT EXISTS (SELECT FROM capstan.pipeline_table t WHERE t.pipeline_id = p.id AND t.state <> 'streaming') THEN " \
	"(SELECT pg_catalog.count(*) FROM capstan.pipeline_table t WHERE t.pipeline_id = p.id AND " META_UNINDEXED ") END, " \
	"NOT $2 AND EXISTS (SELECT FROM capstan.table_object o JOIN capstan.pipeline_table t ON t.id = o.table_id WHERE t.pipeline_id = p.id AND o.state = 'building') " \
	"FROM capstan.pipeline p " \
	"LEFT JOIN capstan.pipeline_progress g ON g.pipeline_id = p.id " \
	"LEFT JOIN capstan.incident i ON i.id = p.halted_by " \
	"WHERE p.id = $1"

/*
 * A plan kept for the session's life, because waiters look many times a second; and an own snapshot,
 * because under REPEATABLE READ the transaction's would show the same for ever.
 */
void
capstan_meta_look(int64 id, bool with_applied, PipelineLook *look)
{
	static SPIPlanPtr plan = NULL;
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Snapshot	snapshot;
	Datum		values[2] = {Int64GetDatum(id), BoolGetDatum(with_applied)};
	int			rc;

	memset(look, 0, sizeof(PipelineLook));
	capstan_meta_enter(&identity);
	if (plan == NULL)
	{
		Oid			types[2] = {INT8OID, BOOLOID};
		SPIPlanPtr	made = SPI_prepare(LOOK_SQL, 2, types);

		if (made == NULL || SPI_keepplan(made) != 0)
			elog(ERROR, "preparing a statement on the capstan catalog failed");
		plan = made;
	}
	/* our own changes in this transaction are to be seen too */
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	rc = SPI_execute_snapshot(plan, values, "  ", snapshot, InvalidSnapshot, true, false, 1);
	UnregisterSnapshot(snapshot);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "looking at a pipeline returned %s", SPI_result_code_string(rc));
	if (SPI_processed > 0)
	{
		HeapTuple	tuple = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;

		look->exists = true;
		look->run = strcmp(SPI_getvalue(tuple, desc, 1), "running") == 0;
		look->belongs_here = meta_get_int64(tuple, desc, 2, 0) == (int64) GetSystemIdentifier() &&
			DatumGetObjectId(SPI_getbinval(tuple, desc, 3, &isnull)) == MyDatabaseId;
		look->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
		look->halted_by = meta_get_int64(tuple, desc, 5, 0);
		look->halt_message = meta_get_text(tuple, desc, 6, caller);
		look->halt_detail = meta_get_text(tuple, desc, 7, caller);
		look->halt_hint = meta_get_text(tuple, desc, 8, caller);
		look->started = DatumGetBool(SPI_getbinval(tuple, desc, 9, &isnull));
		look->applied = meta_get_text(tuple, desc, 10, caller);
		look->tables = meta_get_int64(tuple, desc, 11, 0);
		look->tables_pending = meta_get_int64(tuple, desc, 12, 0);
		look->tables_unindexed = meta_get_int64(tuple, desc, 13, 0);
		look->building = DatumGetBool(SPI_getbinval(tuple, desc, 14, &isnull));
	}
	capstan_meta_leave(&identity);
}
