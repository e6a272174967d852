/*
 * onecut.c
 *		What only snapshot => 'consistent' asks of the catalog: all tables of a pipeline copied as one generation.
 *
 * Called by worker/consistentgate.c and consistentcopy.c.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"

#include "meta/internal.h"
#include "meta/meta.h"

static void
run(const char *sql, int64 pipeline_id, int expected)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	meta_execute(sql, 1, types, values, NULL, expected);
}

bool
capstan_meta_has_progress(int64 pipeline_id)
{
	MetaIdentity identity;
	bool		found;

	capstan_meta_enter(&identity);
	run("SELECT 1 FROM capstan.pipeline_progress WHERE pipeline_id = $1", pipeline_id, SPI_OK_SELECT);
	found = SPI_processed > 0;
	capstan_meta_leave(&identity);
	return found;
}

List *
capstan_meta_partly_copied_tables(int64 pipeline_id)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *ids = NIL;

	capstan_meta_enter(&identity);
	run("SELECT t.id FROM capstan.pipeline_table t WHERE t.pipeline_id = $1 AND EXISTS (SELECT FROM capstan.copied_range r "
		"WHERE r.table_id = t.id AND r.generation = t.generation AND (r.rows > 0 OR "
		/* rows of a foreign table may have been committed there, and not here */
		"EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = t.target AND c.relkind = 'f')))", pipeline_id, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		int64	   *id = MemoryContextAlloc(caller, sizeof(int64));
		MemoryContext spi;

		*id = meta_get_int64(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, 0);
		spi = MemoryContextSwitchTo(caller);
		ids = lappend(ids, id);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return ids;
}

bool
capstan_meta_next_generation(int64 pipeline_id)
{
	MetaIdentity identity;
	bool		begun;

	capstan_meta_enter(&identity);
	run("DELETE FROM capstan.copied_range r USING capstan.pipeline_table t WHERE r.table_id = t.id AND t.pipeline_id = $1 "
		"AND r.generation <> t.generation", pipeline_id, SPI_OK_DELETE);
	run("DELETE FROM capstan.copied_range r USING capstan.pipeline_table t WHERE r.table_id = t.id AND t.pipeline_id = $1",
		pipeline_id, SPI_OK_DELETE);
	begun = SPI_processed > 0;
	if (begun)
		run("UPDATE capstan.pipeline_table SET generation = generation + 1, state = 'pending', rows_copied = 0, "
			"zero_dates_applied = 0, nul_bytes_applied = 0, copy_started_at = NULL WHERE pipeline_id = $1 AND state <> 'requested'",
			pipeline_id, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
	return begun;
}

void
capstan_meta_add_lock_figures_to_all(int64 pipeline_id, const LockFigures *figures)
{
	MetaIdentity identity;
	Oid			types[7] = {INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID};
	Datum		values[7] = {
		Int64GetDatum(pipeline_id),
		Int64GetDatum(figures->tries),
		Int64GetDatum(figures->wait_worst_us),
		Int64GetDatum(figures->wait_total_us),
		Int64GetDatum(figures->hold_us),
		Int64GetDatum(figures->read),
		Int64GetDatum(figures->flush)
	};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table SET lock_tries = lock_tries + $2, "
				 "lock_wait_worst_us = GREATEST(lock_wait_worst_us, $3), "
				 "lock_wait_total_us = lock_wait_total_us + $4, "
				 "lock_count = lock_count + CASE WHEN $5 > 0 THEN 1 ELSE 0 END, "
				 "lock_read = lock_read + $6, lock_flush = lock_flush + $7, "
				 "lock_hold_worst_us = GREATEST(lock_hold_worst_us, $5), "
				 "lock_hold_total_us = lock_hold_total_us + $5 WHERE pipeline_id = $1",
				 7, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_lock_table(int64 table_id)
{
	MetaIdentity identity;

	capstan_meta_enter(&identity);
	run("SELECT 1 FROM capstan.pipeline_table WHERE id = $1 FOR UPDATE", table_id, SPI_OK_SELECT);
	capstan_meta_leave(&identity);
}

int64
capstan_meta_unfinished_ranges(int64 pipeline_id)
{
	MetaIdentity identity;
	int64		count;

	capstan_meta_enter(&identity);
	run("SELECT pg_catalog.count(*) FROM capstan.copied_range r JOIN capstan.pipeline_table t "
		"ON t.id = r.table_id AND t.generation = r.generation WHERE t.pipeline_id = $1 AND r.gtid_set IS NULL",
		pipeline_id, SPI_OK_SELECT);
	count = meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
	capstan_meta_leave(&identity);
	return count;
}
