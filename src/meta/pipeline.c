/*
 * pipeline.c
 *		Reading pipelines and their tables, and counting what happened to them.
 *
 * Called by the workers and by the SQL functions, inside a transaction of theirs.
 * Definitions are written in pipelinedef.c.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "meta/internal.h"
#include "meta/meta.h"

#define PIPELINE_COLUMNS \
	"id, name, server, owner, snapshot, zero_dates, nul_bytes, desired_state, halted_by, replica_uuid, " \
	"system_identifier, database_oid, tables"

static MapPolicies
policies_from_text(const char *zero_dates, const char *nul_bytes)
{
	MapPolicies policies;

	policies.zero_dates = strcmp(zero_dates, "halt") == 0 ? ZERO_DATES_HALT :
		strcmp(zero_dates, "infinity") == 0 ? ZERO_DATES_INFINITY : ZERO_DATES_NULL;
	policies.nul_bytes = strcmp(nul_bytes, "strip") == 0 ? NUL_BYTES_STRIP :
		strcmp(nul_bytes, "replace") == 0 ? NUL_BYTES_REPLACE : NUL_BYTES_HALT;
	return policies;
}

/* A text[] without NULLs, copied into `context`. */
static List *
texts_from_array(Datum array, MemoryContext context)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	List	   *texts = NIL;
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		texts = lappend(texts, TextDatumGetCString(elements[i]));
	MemoryContextSwitchTo(caller);
	return texts;
}

/* The pipeline of one result row of PIPELINE_COLUMNS, in `context`. */
static Pipeline *
pipeline_from_tuple(HeapTuple tuple, TupleDesc desc, MemoryContext context)
{
	Pipeline   *pipeline = MemoryContextAllocZero(context, sizeof(Pipeline));
	bool		isnull;

	pipeline->id = meta_get_int64(tuple, desc, 1, 0);
	pipeline->name = meta_get_text(tuple, desc, 2, context);
	pipeline->server = meta_get_text(tuple, desc, 3, context);
	pipeline->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
	pipeline->snapshot = meta_get_text(tuple, desc, 5, context);
	pipeline->policies = policies_from_text(SPI_getvalue(tuple, desc, 6), SPI_getvalue(tuple, desc, 7));
	pipeline->run = strcmp(SPI_getvalue(tuple, desc, 8), "running") == 0;
	pipeline->halted_by = meta_get_int64(tuple, desc, 9, 0);
	strlcpy(pipeline->replica_uuid, SPI_getvalue(tuple, desc, 10), sizeof(pipeline->replica_uuid));
	pipeline->belongs_here =
		meta_get_int64(tuple, desc, 11, 0) == (int64) GetSystemIdentifier() &&
		DatumGetObjectId(SPI_getbinval(tuple, desc, 12, &isnull)) == MyDatabaseId;
	pipeline->patterns = texts_from_array(SPI_getbinval(tuple, desc, 13, &isnull), context);
	return pipeline;
}

/* All pipelines of a query over PIPELINE_COLUMNS with at most one argument. */
static List *
load_pipelines(const char *sql, int nargs, Oid type, Datum value)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *pipelines = NIL;

	capstan_meta_enter(&identity);
	meta_execute(sql, nargs, &type, &value, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Pipeline   *pipeline = pipeline_from_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, caller);
		MemoryContext spi = MemoryContextSwitchTo(caller);

		pipelines = lappend(pipelines, pipeline);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return pipelines;
}

Pipeline *
capstan_meta_pipeline_by_id(int64 id)
{
	List	   *found = load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline WHERE id = $1",
									   1, INT8OID, Int64GetDatum(id));

	return found == NIL ? NULL : linitial(found);
}

Pipeline *
capstan_meta_pipeline_by_name(const char *name)
{
	List	   *found = load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline WHERE name = $1",
									   1, TEXTOID, CStringGetTextDatum(name));

	return found == NIL ? NULL : linitial(found);
}

List *
capstan_meta_runnable_pipelines(void)
{
	return load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline "
						  "WHERE desired_state = 'running' AND halted_by IS NULL ORDER BY id",
						  0, InvalidOid, (Datum) 0);
}

List *
capstan_meta_tables(int64 pipeline_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *tables = NIL;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	capstan_meta_enter(&identity);
	meta_execute("SELECT id, source_schema, source_table, target::oid, key_ordered, key_pageable, "
				 "definition, state, generation, rows_estimate, bytes_estimate, defaults "
				 "FROM capstan.pipeline_table WHERE pipeline_id = $1 ORDER BY id",
				 1, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		PipelineTable *table = MemoryContextAllocZero(caller, sizeof(PipelineTable));
		MemoryContext spi;
		Datum		defaults;
		bool		isnull;

		table->id = meta_get_int64(tuple, desc, 1, 0);
		table->source_schema = meta_get_text(tuple, desc, 2, caller);
		table->source_table = meta_get_text(tuple, desc, 3, caller);
		table->target = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
		table->key_ordered = DatumGetBool(SPI_getbinval(tuple, desc, 5, &isnull));
		table->key_pageable = DatumGetBool(SPI_getbinval(tuple, desc, 6, &isnull));
		table->definition = meta_get_text(tuple, desc, 7, caller);
		table->state = meta_get_text(tuple, desc, 8, caller);
		table->generation = DatumGetInt32(SPI_getbinval(tuple, desc, 9, &isnull));
		table->rows_estimate = meta_get_int64(tuple, desc, 10, -1);
		table->bytes_estimate = meta_get_int64(tuple, desc, 11, -1);
		defaults = SPI_getbinval(tuple, desc, 12, &isnull);
		if (!isnull)
		{
			bytea	   *stored = DatumGetByteaP(defaults);

			table->defaults = MemoryContextAlloc(caller, VARSIZE(stored));
			memcpy(table->defaults, stored, VARSIZE(stored));
		}

		spi = MemoryContextSwitchTo(caller);
		tables = lappend(tables, table);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return tables;
}

FirstActs
capstan_meta_add_counters(int64 table_id, const TableCounters *counters)
{
	MetaIdentity identity;
	FirstActs	first = {false, false};
	Oid			types[8] = {INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID};
	Datum		values[8] = {
		Int64GetDatum(table_id),
		Int64GetDatum(counters->inserted),
		Int64GetDatum(counters->updated),
		Int64GetDatum(counters->deleted),
		Int64GetDatum(counters->missing),
		Int64GetDatum(counters->existing),
		Int64GetDatum(counters->zero_dates),
		Int64GetDatum(counters->nul_bytes)
	};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET rows_inserted = rows_inserted + $2, "
				 "rows_updated = rows_updated + $3, rows_deleted = rows_deleted + $4, "
				 "rows_missing = rows_missing + $5, rows_existing = rows_existing + $6, "
				 "zero_dates_applied = zero_dates_applied + $7, nul_bytes_applied = nul_bytes_applied + $8 "
				 "WHERE id = $1 RETURNING zero_dates_applied, nul_bytes_applied",
				 8, types, values, NULL, SPI_OK_UPDATE_RETURNING);
	if (SPI_processed > 0)
	{
		HeapTuple	tuple = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;

		first.zero_dates = counters->zero_dates > 0 && meta_get_int64(tuple, desc, 1, 0) == counters->zero_dates;
		first.nul_bytes = counters->nul_bytes > 0 && meta_get_int64(tuple, desc, 2, 0) == counters->nul_bytes;
	}
	capstan_meta_leave(&identity);
	return first;
}

void
capstan_meta_set_table_state(int64 table_id, const char *state)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, TEXTOID};
	Datum		values[2] = {Int64GetDatum(table_id), CStringGetTextDatum(state)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET state = $2, "
				 "copy_started_at = CASE WHEN $2 = 'copying' THEN pg_catalog.clock_timestamp() ELSE copy_started_at END, "
				 "copy_finished_at = CASE WHEN $2 = 'streaming' THEN pg_catalog.clock_timestamp() END "
				 "WHERE id = $1 AND state <> $2",
				 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_set_defaults(int64 table_id, bytea *defaults)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, BYTEAOID};
	Datum		values[2] = {Int64GetDatum(table_id), PointerGetDatum(defaults)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET defaults = $2 WHERE id = $1", 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
