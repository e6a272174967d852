/*
 * tableobject.c
 *		capstan.table_object: what else belongs to the captured tables.  See tableobject.h.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "map/objectmap.h"
#include "meta/internal.h"
#include "meta/tableobject.h"

typedef const char *(*TextOf) (const TargetObject *object);

static const char *
kind_of(const TargetObject *object)
{
	return object->kind;
}

static const char *
name_of(const TargetObject *object)
{
	return object->name;
}

static const char *
definition_of(const TargetObject *object)
{
	return object->definition;
}

static const char *
target_object_of(const TargetObject *object)
{
	return object->target_object;
}

static const char *
statement_of(const TargetObject *object)
{
	return object->statement;
}

static const char *
state_of(const TargetObject *object)
{
	return object->state;
}

static const char *
note_of(const TargetObject *object)
{
	return object->note;
}

static Datum
texts(List *objects, TextOf text_of)
{
	int			n = list_length(objects);
	Datum	   *values = palloc(sizeof(Datum) * n);
	bool	   *nulls = palloc(sizeof(bool) * n);
	int			lower_bound = 1;

	for (int i = 0; i < n; i++)
	{
		const char *text = text_of(list_nth(objects, i));

		nulls[i] = text == NULL;
		values[i] = text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
	}
	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lower_bound, TEXTOID, -1, false, TYPALIGN_INT));
}

static Datum
numbers(List *objects, bool refers_to)
{
	int			n = list_length(objects);
	Datum	   *values = palloc(sizeof(Datum) * n);

	for (int i = 0; i < n; i++)
	{
		TargetObject *object = list_nth(objects, i);

		values[i] = Int32GetDatum(refers_to ? object->refers_to : object->table);
	}
	return PointerGetDatum(construct_array(values, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

/* One statement, however many there are. */
void
meta_insert_objects(int64 pipeline_id, List *objects)
{
	Oid			types[10] = {INT8OID, INT4ARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID,
	TEXTARRAYOID, TEXTARRAYOID};
	Datum		values[10];

	if (objects == NIL)
		return;
	values[0] = Int64GetDatum(pipeline_id);
	values[1] = numbers(objects, false);
	values[2] = numbers(objects, true);
	values[3] = texts(objects, kind_of);
	values[4] = texts(objects, name_of);
	values[5] = texts(objects, definition_of);
	values[6] = texts(objects, target_object_of);
	values[7] = texts(objects, statement_of);
	values[8] = texts(objects, state_of);
	values[9] = texts(objects, note_of);
	meta_execute("WITH tables AS (SELECT id, pg_catalog.row_number() OVER (ORDER BY id) - 1 AS number "
				 "FROM capstan.pipeline_table WHERE pipeline_id = $1) "
				 "INSERT INTO capstan.table_object (pipeline_id, table_id, kind, name, definition, target_object, statement, refers_to, state, note) "
				 "SELECT $1, t.id, u.kind, u.name, u.definition, u.target_object, u.statement, r.id, u.state, u.note "
				 "FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3), pg_catalog.unnest($4), pg_catalog.unnest($5), pg_catalog.unnest($6), "
				 "pg_catalog.unnest($7), pg_catalog.unnest($8), pg_catalog.unnest($9), pg_catalog.unnest($10)) WITH ORDINALITY "
				 "AS u(number, refers_to, kind, name, definition, target_object, statement, state, note, n) "
				 "JOIN tables t ON t.number = u.number LEFT JOIN tables r ON r.number = u.refers_to ORDER BY u.n",
				 10, types, values, NULL, SPI_OK_INSERT);
	if (SPI_processed != (uint64) list_length(objects))
		elog(ERROR, "not every object found its table");
}

#define OBJECT_COLUMNS \
	"SELECT o.id, o.table_id, t.source_schema || '.' || t.source_table, t.target::oid, o.kind, o.name, o.target_object, " \
	"CASE WHEN c.oid IS NOT NULL AND (o.refers_to IS NULL OR rc.oid IS NOT NULL) THEN " \
	"pg_catalog.format(o.statement, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname), " \
	"pg_catalog.quote_ident(rn.nspname) || '.' || pg_catalog.quote_ident(rc.relname)) END, o.state " \
	"FROM capstan.table_object o JOIN capstan.pipeline_table t ON t.id = o.table_id " \
	"LEFT JOIN pg_catalog.pg_class c ON c.oid = t.target LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace " \
	"LEFT JOIN capstan.pipeline_table r ON r.id = o.refers_to " \
	"LEFT JOIN pg_catalog.pg_class rc ON rc.oid = r.target LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace "

static List *
load_objects(const char *sql, int64 id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *objects = NIL;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(id)};

	capstan_meta_enter(&identity);
	meta_execute(sql, 1, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MetaObject *object = MemoryContextAllocZero(caller, sizeof(MetaObject));
		MemoryContext spi;
		bool		isnull;

		object->id = meta_get_int64(tuple, desc, 1, 0);
		object->table_id = meta_get_int64(tuple, desc, 2, 0);
		object->source_table = meta_get_text(tuple, desc, 3, caller);
		object->target = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
		object->kind = meta_get_text(tuple, desc, 5, caller);
		object->name = meta_get_text(tuple, desc, 6, caller);
		object->target_object = meta_get_text(tuple, desc, 7, caller);
		object->statement = meta_get_text(tuple, desc, 8, caller);
		object->state = meta_get_text(tuple, desc, 9, caller);
		spi = MemoryContextSwitchTo(caller);
		objects = lappend(objects, object);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return objects;
}

List *
capstan_meta_indexes_to_build(int64 table_id)
{
	return load_objects(OBJECT_COLUMNS "WHERE o.table_id = $1 AND o.kind IN ('index', 'unique') AND o.state IN ('pending', 'building') ORDER BY o.id",
						table_id);
}

List *
capstan_meta_begun_indexes(int64 pipeline_id)
{
	return load_objects(OBJECT_COLUMNS "WHERE o.pipeline_id = $1 AND o.kind IN ('index', 'unique') AND o.state = 'building' ORDER BY o.id", pipeline_id);
}

List *
capstan_meta_constraints_to_make(int64 pipeline_id)
{
	return load_objects(OBJECT_COLUMNS "WHERE o.pipeline_id = $1 AND o.kind NOT IN ('index', 'unique') AND o.statement IS NOT NULL "
						"AND o.state IN ('pending', 'not_valid', 'failed') "
						"ORDER BY o.kind = 'foreign_key', o.kind = 'check', o.id", pipeline_id);
}

List *
capstan_meta_sequences(int64 pipeline_id)
{
	return load_objects(OBJECT_COLUMNS "WHERE o.pipeline_id = $1 AND o.kind = 'auto_increment' AND o.state = 'done' ORDER BY o.id", pipeline_id);
}

List *
capstan_meta_unindexed_tables(int64 pipeline_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *ids = NIL;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	capstan_meta_enter(&identity);
	meta_execute("SELECT t.id FROM capstan.pipeline_table t WHERE t.pipeline_id = $1 AND " META_UNINDEXED " ORDER BY t.rows_copied DESC, t.id",
				 1, types, values, NULL, SPI_OK_SELECT);
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

bool
capstan_meta_wants_analyze(int64 table_id, Oid *target, char **source_table)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};
	bool		wants;

	capstan_meta_enter(&identity);
	meta_execute("SELECT t.target::oid, t.source_schema || '.' || t.source_table FROM capstan.pipeline_table t "
				 "WHERE t.id = $1 AND " META_UNINDEXED, 1, types, values, NULL, SPI_OK_SELECT);
	wants = SPI_processed > 0;
	if (wants)
	{
		bool		isnull;

		*target = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		*source_table = meta_get_text(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, caller);
	}
	capstan_meta_leave(&identity);
	return wants;
}

void
capstan_meta_set_analyzed(int64 table_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(table_id)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET analyzed = true WHERE id = $1", 1, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_set_object_state(int64 id, const char *state, const char *note)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, TEXTOID, TEXTOID};
	char		nulls[4] = "   ";
	Datum		values[3] = {Int64GetDatum(id), CStringGetTextDatum(state)};

	values[2] = meta_text_or_null(note, &nulls[2]);
	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.table_object SET state = $2, note = COALESCE($3, note), changed_at = pg_catalog.clock_timestamp() WHERE id = $1",
				 3, types, values, nulls, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
