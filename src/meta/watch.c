/*
 * watch.c
 *		What the bounds (worker/bounds.c) need of the catalogs: since when the snapshot goes on, where the
 *		targets lie, and warnings that are over.
 *
 * Called by the workers, inside a transaction of theirs.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "meta/internal.h"
#include "meta/meta.h"

TimestampTz
capstan_meta_note_snapshot(int64 pipeline_id, bool copying)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};
	TimestampTz started = 0;
	bool		isnull = true;

	capstan_meta_enter(&identity);
	meta_execute("SELECT snapshot_started_at FROM capstan.pipeline_progress WHERE pipeline_id = $1",
				 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
		started = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	if (copying && isnull)
	{
		meta_execute("UPDATE capstan.pipeline_progress SET snapshot_started_at = pg_catalog.clock_timestamp() "
					 "WHERE pipeline_id = $1 RETURNING snapshot_started_at",
					 1, types, values, NULL, SPI_OK_UPDATE_RETURNING);
		if (SPI_processed > 0)
			started = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	}
	else if (!copying && !isnull)
	{
		meta_execute("UPDATE capstan.pipeline_progress SET snapshot_started_at = NULL WHERE pipeline_id = $1",
					 1, types, values, NULL, SPI_OK_UPDATE);
		isnull = true;
	}
	capstan_meta_leave(&identity);
	return isnull ? 0 : started;
}

List *
capstan_meta_tablespaces(int64 pipeline_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};
	List	   *found = NIL;

	capstan_meta_enter(&identity);
	meta_execute("WITH target AS (SELECT x.target::oid AS id FROM capstan.pipeline_table x WHERE x.pipeline_id = $1), "
				 "part AS (SELECT id FROM target UNION SELECT p.relid::oid FROM target, LATERAL pg_catalog.pg_partition_tree(id) p), "
				 "kept AS (SELECT id FROM part UNION ALL SELECT i.indexrelid FROM part JOIN pg_catalog.pg_index i ON i.indrelid = part.id) "
				 "SELECT DISTINCT s.oid::pg_catalog.int8, s.spcname::pg_catalog.text FROM kept JOIN pg_catalog.pg_class c ON c.oid = kept.id "
				 "JOIN pg_catalog.pg_tablespace s ON s.oid = c.reltablespace ORDER BY 1",
				 1, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		MetaTablespace *space = MemoryContextAlloc(caller, sizeof(MetaTablespace));
		MemoryContext spi;

		space->id = (Oid) meta_get_int64(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, 0);
		space->name = meta_get_text(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2, caller);
		spi = MemoryContextSwitchTo(caller);
		found = lappend(found, space);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return found;
}

void
capstan_meta_resolve_warning(const char *pipeline, const char *class, const char *resolution)
{
	MetaIdentity identity;
	Oid			types[3] = {TEXTOID, TEXTOID, TEXTOID};
	Datum		values[3] = {CStringGetTextDatum(pipeline), CStringGetTextDatum(class), CStringGetTextDatum(resolution)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.incident SET resolved_at = pg_catalog.clock_timestamp(), "
				 "resolved_by = (SESSION_USER)::pg_catalog.text, resolution = $3 "
				 "WHERE pipeline = $1 AND severity = 'warning' AND class = $2 AND resolved_at IS NULL",
				 3, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
