/*
 * generation.c
 *		Copies of single tables of a pipeline.  See generation.h.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "map/objectmap.h"
#include "meta/generation.h"
#include "meta/internal.h"

/* Between enter and leave. */
static void
set_start(int64 table_id, const GenerationStart *start)
{
	Oid			types[3] = {INT8OID, TEXTOID, BYTEAOID};
	Datum		values[3] = {Int64GetDatum(table_id), CStringGetTextDatum(start->since), PointerGetDatum(start->defaults)};
	char		nulls[4] = "   ";

	if (start->defaults == NULL)
		nulls[2] = 'n';
	meta_execute("UPDATE capstan.pipeline_table SET since = $2::capstan.gtid_set, defaults = $3 WHERE id = $1",
				 3, types, values, nulls, SPI_OK_UPDATE);
}

/* How many tables the pipeline has; meta_insert_objects counts them in the order of their ids. */
static int64
count_tables(int64 pipeline_id)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	meta_execute("SELECT pg_catalog.count(*) FROM capstan.pipeline_table WHERE pipeline_id = $1", 1, types, values, NULL, SPI_OK_SELECT);
	return meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
}

static void
add_pattern(int64 pipeline_id, const char *pattern)
{
	Oid			types[2] = {INT8OID, TEXTOID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), CStringGetTextDatum(pattern)};

	meta_execute("UPDATE capstan.pipeline SET tables = tables || $2 WHERE id = $1 AND NOT $2 = ANY (tables)",
				 2, types, values, NULL, SPI_OK_UPDATE);
}

/*
 * Only keys between tables that are captured by one call are translated: one between a table that was added and one that was there
 * must not be listed as a key to a table that is not captured.
 */
static void
note_later_keys(int64 pipeline_id, int64 table_id)
{
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), Int64GetDatum(table_id)};

	meta_execute("UPDATE capstan.table_object o SET note = pg_catalog.format('the pipeline captures %s.%s, but by another call (add_table): "
				 "to be made by hand', t.source_schema, t.source_table) FROM capstan.pipeline_table t "
				 "WHERE o.pipeline_id = $1 AND o.kind = 'foreign_key' AND o.state = 'not_translated' AND o.note LIKE 'the pipeline does not capture %' "
				 "AND t.pipeline_id = $1 AND $2 IN (o.table_id, t.id) "
				 "AND pg_catalog.strpos(o.definition, ') REFERENCES ' || t.source_schema || '.' || t.source_table || ' (') > 0",
				 2, types, values, NULL, SPI_OK_UPDATE);
}

/* Keys of other tables to one that goes away: they are still the source's. */
static void
note_keys_to_removed(int64 table_id)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	meta_execute("UPDATE capstan.table_object o SET refers_to = NULL, statement = NULL, "
				 "state = CASE WHEN o.state = 'done' THEN o.state ELSE 'not_translated' END, "
				 "note = pg_catalog.format('the pipeline does not capture %s.%s any more', t.source_schema, t.source_table) "
				 "FROM capstan.pipeline_table t WHERE t.id = $1 AND o.refers_to = $1 AND o.table_id <> $1",
				 1, types, values, NULL, SPI_OK_UPDATE);
}

void
capstan_meta_add_table(int64 pipeline_id, const PipelineTableDefinition *table, const GenerationStart *start,
					   const char *pattern, List *objects)
{
	MetaIdentity identity;
	int			number;
	int64		table_id;
	ListCell   *cell;

	capstan_meta_enter(&identity);
	/* its id is the greatest, so its number is that of the tables before it */
	number = (int) count_tables(pipeline_id);
	table_id = meta_insert_table(pipeline_id, table);
	set_start(table_id, start);
	add_pattern(pipeline_id, pattern);
	foreach(cell, objects)
	{
		TargetObject *object = lfirst(cell);

		object->table += number;
		if (object->refers_to >= 0)
			object->refers_to += number;
	}
	meta_insert_objects(pipeline_id, objects);
	note_later_keys(pipeline_id, table_id);
	capstan_meta_leave(&identity);
}

void
capstan_meta_remove_table(int64 table_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	capstan_meta_enter(&identity);
	/* the number of its last copy stays: it must not come back, should the table be added again */
	meta_execute("INSERT INTO capstan.removed_table (pipeline_id, source_schema, source_table, generation) "
				 "SELECT pipeline_id, source_schema, source_table, generation FROM capstan.pipeline_table WHERE id = $1 "
				 "ON CONFLICT (pipeline_id, source_schema, source_table) DO UPDATE SET generation = EXCLUDED.generation",
				 1, types, values, NULL, SPI_OK_INSERT);
	note_keys_to_removed(table_id);
	/* ranges, objects and shadow go with it */
	meta_enforce_references();
	meta_execute("DELETE FROM capstan.pipeline_table WHERE id = $1", 1, types, values, NULL, SPI_OK_DELETE);
	capstan_meta_leave(&identity);
}

int
capstan_meta_new_generation(int64 table_id, const PipelineTableDefinition *table, const GenerationStart *start)
{
	MetaIdentity identity;
	int			generation;
	bool		isnull;
	char		nulls[8] = "       ";
	Oid			types[7] = {INT8OID, TEXTARRAYOID, BOOLOID, BOOLOID, TEXTOID, INT8OID, INT8OID};
	Datum		values[7] = {
		Int64GetDatum(table_id),
		meta_text_array(table->key),
		BoolGetDatum(table->key_ordered),
		BoolGetDatum(table->key_pageable),
		CStringGetTextDatum(table->signature),
		Int64GetDatum(table->rows_estimate),
		Int64GetDatum(table->bytes_estimate)
	};

	if (table->rows_estimate < 0)
		nulls[5] = 'n';
	if (table->bytes_estimate < 0)
		nulls[6] = 'n';
	capstan_meta_enter(&identity);
	/* what is of the generation before stays until no worker is left that may be at it */
	meta_execute("UPDATE capstan.pipeline_table SET state = 'requested', generation = generation + 1, key = $2, key_ordered = $3, "
				 "key_pageable = $4, definition = $5, rows_estimate = $6, bytes_estimate = $7 WHERE id = $1 RETURNING generation",
				 7, types, values, nulls, SPI_OK_UPDATE_RETURNING);
	if (SPI_processed != 1)
		elog(ERROR, "table " INT64_FORMAT " is gone", table_id);
	generation = DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	set_start(table_id, start);
	capstan_meta_leave(&identity);
	return generation;
}

void
capstan_meta_begin_generations(int64 pipeline_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	capstan_meta_enter(&identity);
	meta_execute("DELETE FROM capstan.copied_range r USING capstan.pipeline_table t "
				 "WHERE t.id = r.table_id AND t.pipeline_id = $1 AND t.state = 'requested'", 1, types, values, NULL, SPI_OK_DELETE);
	meta_execute("DELETE FROM capstan.pipeline_progress g WHERE g.pipeline_id = $1 "
				 "AND EXISTS (SELECT FROM capstan.pipeline_table t WHERE t.pipeline_id = $1) "
				 "AND NOT EXISTS (SELECT FROM capstan.pipeline_table t WHERE t.pipeline_id = $1 AND t.state <> 'requested')",
				 1, types, values, NULL, SPI_OK_DELETE);
	meta_execute("UPDATE capstan.pipeline_table SET state = 'pending', rows_copied = 0, copy_started_at = NULL, copy_finished_at = NULL, "
				 "analyzed = false WHERE pipeline_id = $1 AND state = 'requested'", 1, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

/* A text[] without NULLs as a List of char *, in `context`. */
static List *
texts(Datum array, MemoryContext context)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	List	   *list = NIL;
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		list = lappend(list, TextDatumGetCString(elements[i]));
	MemoryContextSwitchTo(caller);
	return list;
}

TableShadow *
capstan_meta_shadow(int64 table_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	TableShadow *shadow = NULL;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	capstan_meta_enter(&identity);
	meta_execute("SELECT s.shadow::oid, t.target::oid, s.columns, s.key, s.exchanged FROM capstan.table_shadow s "
				 "JOIN capstan.pipeline_table t ON t.id = s.table_id WHERE s.table_id = $1", 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
	{
		HeapTuple	tuple = SPI_tuptable->vals[0];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;

		shadow = MemoryContextAllocZero(caller, sizeof(TableShadow));
		shadow->shadow = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
		shadow->target = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
		shadow->columns = texts(SPI_getbinval(tuple, desc, 3, &isnull), caller);
		shadow->key = texts(SPI_getbinval(tuple, desc, 4, &isnull), caller);
		shadow->exchanged = DatumGetBool(SPI_getbinval(tuple, desc, 5, &isnull));
	}
	capstan_meta_leave(&identity);
	return shadow;
}

void
capstan_meta_set_shadow(int64 table_id, const TableShadow *shadow)
{
	MetaIdentity identity;
	Oid			types[4] = {INT8OID, OIDOID, TEXTARRAYOID, TEXTARRAYOID};
	Datum		values[4] = {
		Int64GetDatum(table_id),
		ObjectIdGetDatum(shadow->shadow),
		meta_text_array(shadow->columns),
		meta_text_array(shadow->key)
	};

	capstan_meta_enter(&identity);
	meta_execute("INSERT INTO capstan.table_shadow VALUES ($1, $2, $3, $4)", 4, types, values, NULL, SPI_OK_INSERT);
	capstan_meta_leave(&identity);
}

void
capstan_meta_shadow_exchanged(int64 table_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.table_shadow SET exchanged = true WHERE table_id = $1", 1, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_forget_shadow(int64 table_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	capstan_meta_enter(&identity);
	meta_execute("DELETE FROM capstan.table_shadow WHERE table_id = $1", 1, types, values, NULL, SPI_OK_DELETE);
	capstan_meta_leave(&identity);
}

List *
capstan_meta_tables_with_shadow(int64 pipeline_id, bool only_exchanged)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *ids = NIL;
	Oid			types[2] = {INT8OID, BOOLOID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), BoolGetDatum(only_exchanged)};

	capstan_meta_enter(&identity);
	meta_execute("SELECT s.table_id FROM capstan.table_shadow s JOIN capstan.pipeline_table t ON t.id = s.table_id "
				 "WHERE t.pipeline_id = $1 AND (s.exchanged OR NOT $2) ORDER BY s.table_id", 2, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		MemoryContext spi = MemoryContextSwitchTo(caller);
		int64	   *id = palloc(sizeof(int64));

		*id = meta_get_int64(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, 0);
		ids = lappend(ids, id);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return ids;
}

void
capstan_meta_record_action(const char *pipeline, const char *class, const char *message, const char *source_table,
						   Oid by, const char *reason)
{
	MetaIdentity identity;
	char		nulls[7] = "      ";
	Oid			types[6] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID};
	Datum		values[6] = {
		CStringGetTextDatum(pipeline),
		CStringGetTextDatum(class),
		CStringGetTextDatum(message),
		0,
		CStringGetTextDatum(GetUserNameFromId(by, false)),
		0
	};

	values[3] = meta_text_or_null(source_table, &nulls[3]);
	values[5] = meta_text_or_null(reason, &nulls[5]);
	capstan_meta_enter(&identity);
	meta_execute("INSERT INTO capstan.incident (pipeline, severity, class, message, source_table, resolved_at, resolved_by, resolution) "
				 "VALUES ($1, 'action', $2, $3, $4, pg_catalog.clock_timestamp(), $5, $6)", 6, types, values, nulls, SPI_OK_INSERT);
	capstan_meta_leave(&identity);
}

char *
capstan_meta_incident_table(int64 incident_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	char	   *table = NULL;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(incident_id)};

	capstan_meta_enter(&identity);
	meta_execute("SELECT source_table FROM capstan.incident WHERE id = $1", 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
		table = meta_get_text(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, caller);
	capstan_meta_leave(&identity);
	return table;
}
