/*
 * tables.c
 *		capstan.pipeline_table: the captured tables of a pipeline, their copy state and counters.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "meta/internal.h"
#include "meta/meta.h"

#define SHADOW "(SELECT s.shadow FROM capstan.table_shadow s WHERE s.table_id = t.id AND NOT s.exchanged)"
#define TABLE_COLUMNS "t.id, t.source_schema, t.source_table, COALESCE(" SHADOW ", t.target)::oid, t.key_ordered, t.key_pageable, " \
	"t.definition, t.state, t.generation, t.rows_estimate, t.bytes_estimate, t.defaults, t.since, " \
	"t.since IS NOT NULL AND t.state <> 'streaming' AND NOT EXISTS (SELECT FROM capstan.copied_range r " \
	"WHERE r.table_id = t.id AND r.generation = t.generation AND r.gtid_set IS NOT NULL), " SHADOW " IS NOT NULL, t.shared"
/* Anything planned or copied but the whole table as one range that is not copied? */
#define HAS_RANGES "EXISTS (SELECT 1 FROM capstan.copied_range r WHERE r.table_id = t.id AND r.generation = t.generation " \
	"AND (r.low IS NOT NULL OR r.high IS NOT NULL OR r.gtid_set IS NOT NULL))"

static PipelineTable *
load_table(HeapTuple tuple, TupleDesc desc, MemoryContext context)
{
	PipelineTable *table = MemoryContextAllocZero(context, sizeof(PipelineTable));
	Datum		value;
	bool		isnull;

	table->id = meta_get_int64(tuple, desc, 1, 0);
	table->source_schema = meta_get_text(tuple, desc, 2, context);
	table->source_table = meta_get_text(tuple, desc, 3, context);
	table->target = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
	table->key_ordered = DatumGetBool(SPI_getbinval(tuple, desc, 5, &isnull));
	table->key_pageable = DatumGetBool(SPI_getbinval(tuple, desc, 6, &isnull));
	table->definition = meta_get_text(tuple, desc, 7, context);
	table->state = meta_get_text(tuple, desc, 8, context);
	table->generation = DatumGetInt32(SPI_getbinval(tuple, desc, 9, &isnull));
	table->rows_estimate = meta_get_int64(tuple, desc, 10, -1);
	table->bytes_estimate = meta_get_int64(tuple, desc, 11, -1);
	value = SPI_getbinval(tuple, desc, 12, &isnull);
	if (!isnull)
	{
		bytea	   *stored = DatumGetByteaP(value);

		table->defaults = MemoryContextAlloc(context, VARSIZE(stored));
		memcpy(table->defaults, stored, VARSIZE(stored));
	}
	table->since = meta_get_text(tuple, desc, 13, context);
	table->untouched = DatumGetBool(SPI_getbinval(tuple, desc, 14, &isnull));
	table->in_shadow = DatumGetBool(SPI_getbinval(tuple, desc, 15, &isnull));
	table->shared = DatumGetBool(SPI_getbinval(tuple, desc, 16, &isnull));
	if (desc->natts > 16)
		table->has_ranges = DatumGetBool(SPI_getbinval(tuple, desc, 17, &isnull));
	return table;
}

static List *
load_tables(const char *sql, int nargs, Oid *types, Datum *values)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *tables = NIL;

	capstan_meta_enter(&identity);
	meta_execute(sql, nargs, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		PipelineTable *table = load_table(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, caller);
		MemoryContext spi = MemoryContextSwitchTo(caller);

		tables = lappend(tables, table);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return tables;
}

List *
capstan_meta_tables(int64 pipeline_id)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	return load_tables("SELECT " TABLE_COLUMNS " FROM capstan.pipeline_table t WHERE t.pipeline_id = $1 ORDER BY t.id",
					   1, types, values);
}

PipelineTable *
capstan_meta_table_by_name(int64 pipeline_id, const char *name)
{
	Oid			types[2] = {INT8OID, TEXTOID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), CStringGetTextDatum(name)};
	List	   *found = load_tables("SELECT " TABLE_COLUMNS " FROM capstan.pipeline_table t "
									"WHERE t.pipeline_id = $1 AND t.source_schema || '.' || t.source_table = $2", 2, types, values);

	/* `a.b`.c and a.`b.c` */
	if (list_length(found) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_PARAMETER),
				 errmsg("\"%s\" is the name of %d tables of the pipeline", name, list_length(found)),
				 errdetail("They are in different schemas of the source, which have dots in their names."),
				 errhint("Capture them by pipelines of their own.")));
	return found == NIL ? NULL : linitial(found);
}

List *
capstan_meta_uncopied_tables(int64 pipeline_id, int64 small_rows, int64 small_bytes, int64 after, int most)
{
	Oid			types[5] = {INT8OID, INT8OID, INT8OID, INT8OID, INT4OID};
	Datum		values[5] = {
		Int64GetDatum(pipeline_id), Int64GetDatum(small_rows), Int64GetDatum(small_bytes), Int64GetDatum(after), Int32GetDatum(most)
	};

	return load_tables("SELECT " TABLE_COLUMNS ", " HAS_RANGES " FROM capstan.pipeline_table t, "
					   "LATERAL (SELECT COALESCE(t.rows_estimate > $2 OR t.bytes_estimate > $3, true) AS large) l "
					   "WHERE t.pipeline_id = $1 AND t.state <> 'streaming' AND t.state <> 'requested' "
					   "ORDER BY l.large, l.large AND t.id <= $4, t.id LIMIT $5",
					   5, types, values);
}

PipelineTable *
capstan_meta_uncopied_table(int64 table_id)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};
	List	   *found = load_tables("SELECT " TABLE_COLUMNS ", " HAS_RANGES " FROM capstan.pipeline_table t "
									"WHERE t.id = $1 AND t.state <> 'streaming' AND t.state <> 'requested'", 1, types, values);

	return found == NIL ? NULL : linitial(found);
}

List *
capstan_meta_tables_of_worker(int64 pipeline_id, int64 round, int worker)
{
	Oid			types[3] = {INT8OID, INT8OID, INT4OID};
	Datum		values[3] = {Int64GetDatum(pipeline_id), Int64GetDatum(round), Int32GetDatum(worker)};

	return load_tables("WITH planned AS MATERIALIZED (SELECT DISTINCT r.table_id, r.generation FROM capstan.copied_range r "
					   "WHERE r.round = $2 AND r.worker = $3 AND r.gtid_set IS NULL) "
					   "SELECT " TABLE_COLUMNS " FROM planned p JOIN capstan.pipeline_table t "
					   "ON t.id = p.table_id AND t.generation = p.generation WHERE t.pipeline_id = $1 ORDER BY t.id",
					   3, types, values);
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
capstan_meta_set_table_state(int64 table_id, int generation, const char *state)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, TEXTOID, INT4OID};
	Datum		values[3] = {Int64GetDatum(table_id), CStringGetTextDatum(state), Int32GetDatum(generation)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET state = $2, "
				 "copy_started_at = CASE WHEN $2 = 'copying' THEN pg_catalog.clock_timestamp() ELSE copy_started_at END, "
				 "copy_finished_at = CASE WHEN $2 = 'streaming' THEN pg_catalog.clock_timestamp() END "
				 "WHERE id = $1 AND state <> $2 AND generation = $3",
				 3, types, values, NULL, SPI_OK_UPDATE);
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

void
capstan_meta_set_rows_estimate(int64 table_id, int64 rows)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(table_id), Int64GetDatum(rows)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET rows_estimate = $2 WHERE id = $1", 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
