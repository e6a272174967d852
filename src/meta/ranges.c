/*
 * ranges.c
 *		The snapshot's own tables: capstan.snapshot_round and capstan.copied_range.
 *
 * A range is written twice: when its round is planned, and when a copy worker commits
 * its rows (gtid_set set).  Ranges of a table follow each other: the low of one is
 * the high of the one before it, byte for byte.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "errcodes.h"
#include "meta/internal.h"
#include "meta/meta.h"

void
capstan_meta_save_round(int64 pipeline_id, int64 round, const char *gtid_set)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, INT8OID, TEXTOID};
	Datum		values[3] = {Int64GetDatum(pipeline_id), Int64GetDatum(round)};
	char		nulls[3] = {' ', ' ', ' '};

	values[2] = meta_text_or_null(gtid_set, &nulls[2]);
	capstan_meta_enter(&identity);
	meta_execute("INSERT INTO capstan.snapshot_round VALUES ($1, $2, $3::capstan.gtid_set) "
				 "ON CONFLICT (pipeline_id) DO UPDATE SET round = EXCLUDED.round, gtid_set = EXCLUDED.gtid_set",
				 3, types, values, nulls, SPI_OK_INSERT);
	capstan_meta_leave(&identity);
}

char *
capstan_meta_load_round(int64 pipeline_id, int64 round)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), Int64GetDatum(round)};
	char	   *text = NULL;

	capstan_meta_enter(&identity);
	meta_execute("SELECT gtid_set::text FROM capstan.snapshot_round WHERE pipeline_id = $1 AND round = $2",
				 2, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
		text = meta_get_text(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, caller);
	capstan_meta_leave(&identity);
	return text;
}

int64
capstan_meta_last_round(int64 pipeline_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};
	int64		round = 0;

	capstan_meta_enter(&identity);
	meta_execute("SELECT round FROM capstan.snapshot_round WHERE pipeline_id = $1", 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
		round = meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
	capstan_meta_leave(&identity);
	return round;
}

int
capstan_meta_count_start(int64 pipeline_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};
	bool		isnull;
	int			starts;

	capstan_meta_enter(&identity);
	meta_execute("INSERT INTO capstan.snapshot_round AS r (pipeline_id, round, starts) VALUES ($1, 0, 1) "
				 "ON CONFLICT (pipeline_id) DO UPDATE SET starts = r.starts + 1 RETURNING starts",
				 1, types, values, NULL, SPI_OK_INSERT_RETURNING);
	starts = DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	capstan_meta_leave(&identity);
	return starts;
}

void
capstan_meta_forget_starts(int64 pipeline_id)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.snapshot_round SET starts = 0 WHERE pipeline_id = $1", 1, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

/* A bytea[] made into an array of pointers in `context`; NULL for NULL. */
static bytea **
key_from_array(Datum array, bool isnull, int *nkey, MemoryContext context)
{
	Datum	   *elements;
	bool	   *nulls;
	bytea	  **key;
	int			n;

	if (isnull)
		return NULL;
	deconstruct_array(DatumGetArrayTypeP(array), BYTEAOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	key = MemoryContextAlloc(context, sizeof(bytea *) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		bytea	   *element = DatumGetByteaPP(elements[i]);

		key[i] = MemoryContextAlloc(context, VARSIZE_ANY_EXHDR(element) + VARHDRSZ);
		SET_VARSIZE(key[i], VARSIZE_ANY_EXHDR(element) + VARHDRSZ);
		memcpy(VARDATA(key[i]), VARDATA_ANY(element), VARSIZE_ANY_EXHDR(element));
	}
	*nkey = n;
	return key;
}

static Datum
key_to_array(bytea **key, int nkey, char *null)
{
	Datum	   *elements;

	*null = key == NULL ? 'n' : ' ';
	if (key == NULL)
		return (Datum) 0;
	elements = palloc(sizeof(Datum) * Max(nkey, 1));
	for (int i = 0; i < nkey; i++)
		elements[i] = PointerGetDatum(key[i]);
	return PointerGetDatum(construct_array(elements, nkey, BYTEAOID, -1, false, TYPALIGN_INT));
}

#define RANGE_COLUMNS "r.table_id, r.generation, r.seq, r.low, r.high, r.worker, r.gtid_set IS NOT NULL, r.rows"

static List *
load_ranges(const char *sql, int nargs, Oid *types, Datum *values)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *ranges = NIL;

	capstan_meta_enter(&identity);
	meta_execute(sql, nargs, types, values, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		CopyRange  *range = MemoryContextAllocZero(caller, sizeof(CopyRange));
		MemoryContext spi;
		Datum		value;
		bool		isnull;

		range->table_id = meta_get_int64(tuple, desc, 1, 0);
		range->generation = DatumGetInt32(SPI_getbinval(tuple, desc, 2, &isnull));
		range->seq = meta_get_int64(tuple, desc, 3, 0);
		value = SPI_getbinval(tuple, desc, 4, &isnull);
		range->low = key_from_array(value, isnull, &range->nkey, caller);
		value = SPI_getbinval(tuple, desc, 5, &isnull);
		range->high = key_from_array(value, isnull, &range->nkey, caller);
		range->worker = DatumGetInt32(SPI_getbinval(tuple, desc, 6, &isnull));
		range->copied = DatumGetBool(SPI_getbinval(tuple, desc, 7, &isnull));
		range->rows = meta_get_int64(tuple, desc, 8, 0);

		spi = MemoryContextSwitchTo(caller);
		ranges = lappend(ranges, range);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return ranges;
}

List *
capstan_meta_ranges(int64 table_id, int generation)
{
	Oid			types[2] = {INT8OID, INT4OID};
	Datum		values[2] = {Int64GetDatum(table_id), Int32GetDatum(generation)};

	return load_ranges("SELECT " RANGE_COLUMNS " FROM capstan.copied_range r "
					   "WHERE table_id = $1 AND generation = $2 ORDER BY seq", 2, types, values);
}

CopyRange *
capstan_meta_last_range(int64 table_id, int generation)
{
	Oid			types[2] = {INT8OID, INT4OID};
	Datum		values[2] = {Int64GetDatum(table_id), Int32GetDatum(generation)};
	List	   *last = load_ranges("SELECT " RANGE_COLUMNS " FROM capstan.copied_range r "
								   "WHERE table_id = $1 AND generation = $2 ORDER BY seq DESC LIMIT 1", 2, types, values);

	return last == NIL ? NULL : linitial(last);
}

List *
capstan_meta_ranges_of_round(int64 pipeline_id, int64 round, int worker)
{
	Oid			types[3] = {INT8OID, INT8OID, INT4OID};
	Datum		values[3] = {Int64GetDatum(pipeline_id), Int64GetDatum(round), Int32GetDatum(worker)};

	return load_ranges("SELECT " RANGE_COLUMNS " FROM capstan.copied_range r "
					   "JOIN capstan.pipeline_table t ON t.id = r.table_id AND t.generation = r.generation "
					   "WHERE t.pipeline_id = $1 AND r.round = $2 AND r.worker = $3 AND r.gtid_set IS NULL "
					   "ORDER BY r.table_id, r.seq", 3, types, values);
}

static void
plan_range(const CopyRange *range, int64 round)
{
	Oid			types[7] = {INT8OID, INT4OID, INT8OID, BYTEAARRAYOID, BYTEAARRAYOID, INT8OID, INT4OID};
	Datum		values[7];
	char		nulls[7] = {' ', ' ', ' ', ' ', ' ', ' ', ' '};

	values[0] = Int64GetDatum(range->table_id);
	values[1] = Int32GetDatum(range->generation);
	values[2] = Int64GetDatum(range->seq);
	values[3] = key_to_array(range->low, range->nkey, &nulls[3]);
	values[4] = key_to_array(range->high, range->nkey, &nulls[4]);
	values[5] = Int64GetDatum(round);
	values[6] = Int32GetDatum(range->worker);
	meta_execute("INSERT INTO capstan.copied_range (table_id, generation, seq, low, high, round, worker) "
				 "VALUES ($1, $2, $3, $4, $5, $6, $7) "
				 "ON CONFLICT (table_id, generation, seq) DO UPDATE SET round = EXCLUDED.round, worker = EXCLUDED.worker",
				 7, types, values, nulls, SPI_OK_INSERT);
}

void
capstan_meta_plan_ranges(List *ranges, int64 round)
{
	MetaIdentity identity;
	Oid			types[1] = {INT8ARRAYOID};
	Datum		values[1];
	Datum	   *ids = palloc(sizeof(Datum) * list_length(ranges));
	ListCell   *cell;

	capstan_meta_enter(&identity);
	foreach(cell, ranges)
	{
		plan_range(lfirst(cell), round);
		ids[foreach_current_index(cell)] = Int64GetDatum(((CopyRange *) lfirst(cell))->table_id);
	}
	values[0] = PointerGetDatum(construct_array(ids, list_length(ranges), INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	meta_execute("UPDATE capstan.pipeline_table SET state = 'copying', copy_started_at = pg_catalog.clock_timestamp() "
				 "WHERE id = ANY ($1) AND state = 'pending'", 1, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

static void
add_rows_copied(int64 table_id, int64 rows)
{
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(table_id), Int64GetDatum(rows)};

	meta_execute("UPDATE capstan.pipeline_table SET rows_copied = rows_copied + $2 WHERE id = $1",
				 2, types, values, NULL, SPI_OK_UPDATE);
}

void
capstan_meta_raise_not_planned(const CopyRange *range)
{
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_COPY_WORKER),
			 errmsg("a range is not planned any more"),
			 errdetail("Range " INT64_FORMAT " of table " INT64_FORMAT ".", range->seq, range->table_id)));
}

void
capstan_meta_finish_range(const CopyRange *range, const char *gtid_set, int64 rows)
{
	MetaIdentity identity;
	Oid			types[5] = {INT8OID, INT4OID, INT8OID, TEXTOID, INT8OID};
	Datum		values[5] = {
		Int64GetDatum(range->table_id),
		Int32GetDatum(range->generation),
		Int64GetDatum(range->seq),
		CStringGetTextDatum(gtid_set),
		Int64GetDatum(rows)
	};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.copied_range SET gtid_set = $4::capstan.gtid_set, rows = $5 "
				 "WHERE table_id = $1 AND generation = $2 AND seq = $3 AND gtid_set IS NULL",
				 5, types, values, NULL, SPI_OK_UPDATE);
	if (SPI_processed != 1)
		capstan_meta_raise_not_planned(range);
	add_rows_copied(range->table_id, rows);
	capstan_meta_leave(&identity);
}

void
capstan_meta_cut_range(const CopyRange *range, bytea **key, int nkey, const char *gtid_set, int64 rows)
{
	MetaIdentity identity;
	Oid			types[6] = {INT8OID, INT4OID, INT8OID, BYTEAARRAYOID, TEXTOID, INT8OID};
	char		nulls[6] = {' ', ' ', ' ', ' ', ' ', ' '};
	Datum		values[6] = {
		Int64GetDatum(range->table_id),
		Int32GetDatum(range->generation),
		Int64GetDatum(range->seq)
	};

	values[3] = key_to_array(key, nkey, &nulls[3]);
	values[4] = CStringGetTextDatum(gtid_set);
	values[5] = Int64GetDatum(rows);
	capstan_meta_enter(&identity);
	meta_execute("WITH rest AS ("
				 "  UPDATE capstan.copied_range SET low = $4 "
				 "  WHERE table_id = $1 AND generation = $2 AND seq = $3 AND gtid_set IS NULL RETURNING round, worker), "
				 "before AS ("
				 "  SELECT COALESCE(pg_catalog.max(seq), 0) AS seq FROM capstan.copied_range "
				 "  WHERE table_id = $1 AND generation = $2 AND seq < $3), "
				 "whole AS ("
				 "  SELECT low FROM capstan.copied_range WHERE table_id = $1 AND generation = $2 AND seq = $3) "
				 "INSERT INTO capstan.copied_range (table_id, generation, seq, low, high, round, worker, gtid_set, rows) "
				 "SELECT $1, $2, b.seq + 1, w.low, $4, r.round, r.worker, $5::capstan.gtid_set, $6 "
				 "FROM rest r, before b, whole w WHERE b.seq + 1 < $3",
				 6, types, values, nulls, SPI_OK_INSERT);
	if (SPI_processed != 1)
		capstan_meta_raise_not_planned(range);
	add_rows_copied(range->table_id, rows);
	capstan_meta_leave(&identity);
}

/*
 * Each maximal run of copied ranges becomes its last one, with the low of its
 * first.  Its gtid_set stays that of the last: it is kept for information only, exactness is
 * decided in the round.
 */
void
capstan_meta_merge_ranges(int64 table_id, int generation)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, INT4OID};
	Datum		values[2] = {Int64GetDatum(table_id), Int32GetDatum(generation)};

	capstan_meta_enter(&identity);
	/* a run: copied ranges with no uncopied one between them; merging leaves holes in seq, so it counts places, not numbers */
	meta_execute("WITH placed AS ("
				 "  SELECT seq, low, rows, gtid_set IS NOT NULL AS copied, pg_catalog.row_number() OVER (ORDER BY seq) AS place"
				 "  FROM capstan.copied_range WHERE table_id = $1 AND generation = $2), "
				 "numbered AS ("
				 "  SELECT seq, low, rows, place - pg_catalog.row_number() OVER (ORDER BY seq) AS run"
				 "  FROM placed WHERE copied), "
				 "runs AS ("
				 "  SELECT pg_catalog.min(seq) AS first, pg_catalog.max(seq) AS last, pg_catalog.sum(rows)::bigint AS rows"
				 "  FROM numbered GROUP BY run HAVING pg_catalog.count(*) > 1), "
				 "gone AS ("
				 "  DELETE FROM capstan.copied_range c USING runs r WHERE c.table_id = $1 AND c.generation = $2 "
				 "  AND c.seq >= r.first AND c.seq < r.last) "
				 "UPDATE capstan.copied_range c SET low = n.low, rows = r.rows "
				 "FROM runs r JOIN numbered n ON n.seq = r.first "
				 "WHERE c.table_id = $1 AND c.generation = $2 AND c.seq = r.last",
				 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

/* The ids that a statement returns, as int64 *. */
static List *
load_ids(const char *sql, int64 pipeline_id, int64 round, int expected)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), Int64GetDatum(round)};
	List	   *ids = NIL;

	capstan_meta_enter(&identity);
	meta_execute(sql, 2, types, values, NULL, expected);
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

List *
capstan_meta_tables_of_round(int64 pipeline_id, int64 round)
{
	return load_ids("SELECT DISTINCT t.id FROM capstan.pipeline_table t JOIN capstan.copied_range r "
					"ON r.table_id = t.id AND r.generation = t.generation WHERE t.pipeline_id = $1 AND r.round = $2",
					pipeline_id, round, SPI_OK_SELECT);
}

void
capstan_meta_add_pause(int64 pipeline_id, int64 round, int64 pause_us)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, INT8OID, INT8OID};
	Datum		values[3] = {Int64GetDatum(pipeline_id), Int64GetDatum(round), Int64GetDatum(pause_us)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table t SET pause_worst_us = GREATEST(pause_worst_us, $3), "
				 "pause_total_us = pause_total_us + $3 "
				 "FROM (SELECT DISTINCT table_id FROM capstan.copied_range WHERE round = $2) r "
				 "WHERE t.pipeline_id = $1 AND t.id = r.table_id", 3, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

List *
capstan_meta_settle_whole_tables(int64 pipeline_id, int64 round)
{
	return load_ids("UPDATE capstan.pipeline_table t SET state = 'streaming', copy_finished_at = pg_catalog.clock_timestamp() "
					"FROM capstan.copied_range r WHERE r.table_id = t.id AND r.generation = t.generation "
					"AND t.pipeline_id = $1 AND r.round = $2 AND t.state = 'copying' "
					"AND r.low IS NULL AND r.high IS NULL AND r.gtid_set IS NOT NULL RETURNING t.id",
					pipeline_id, round, SPI_OK_UPDATE_RETURNING);
}

void
capstan_meta_add_lock_figures(int64 pipeline_id, int64 round, const int64 *left_out, int nleft_out, const LockFigures *figures)
{
	MetaIdentity identity;
	Datum	   *ids = palloc(sizeof(Datum) * Max(nleft_out, 1));
	Oid			types[10] = {INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8ARRAYOID, INT8OID, INT8OID, INT8OID};
	Datum		values[10] = {
		Int64GetDatum(pipeline_id),
		Int64GetDatum(round),
		Int64GetDatum(figures->tries),
		Int64GetDatum(figures->wait_worst_us),
		Int64GetDatum(figures->wait_total_us),
		Int64GetDatum(figures->hold_us),
		(Datum) 0,
		Int64GetDatum(figures->read),
		Int64GetDatum(figures->flush),
		Int64GetDatum(figures->write)
	};

	for (int i = 0; i < nleft_out; i++)
		ids[i] = Int64GetDatum(left_out[i]);
	values[6] = PointerGetDatum(construct_array(ids, nleft_out, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline_table t SET lock_tries = lock_tries + $3, "
				 "lock_wait_worst_us = GREATEST(lock_wait_worst_us, $4), "
				 "lock_wait_total_us = lock_wait_total_us + $5, "
				 "lock_count = lock_count + h.n, lock_read = lock_read + h.n * $8, "
				 "lock_flush = lock_flush + h.n * $9, lock_write = lock_write + h.n * $10, "
				 "lock_hold_worst_us = GREATEST(lock_hold_worst_us, h.us), "
				 "lock_hold_total_us = lock_hold_total_us + h.us "
				 "FROM (SELECT table_id, us, CASE WHEN us > 0 THEN 1 ELSE 0 END AS n "
				 "FROM (SELECT r.table_id, CASE WHEN r.table_id = ANY ($7) THEN 0 ELSE $6 END AS us "
				 "FROM capstan.copied_range r WHERE r.round = $2 GROUP BY r.table_id) u) h "
				 "WHERE t.pipeline_id = $1 AND t.id = h.table_id",
				 10, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
