/*
 * stats.c
 *		capstan.worker_stats(): what shared memory knows of this database's pipelines.
 *
 * The views join it with the catalog.  Anybody may call it, and gets the pipelines that he may
 * see.  Empty where the library is not preloaded.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "sqlapi/internal.h"
#include "worker/connections.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(capstan_worker_stats);
PG_FUNCTION_INFO_V1(capstan_belongs_here);
PG_FUNCTION_INFO_V1(capstan_version);

#define STATS_COLUMNS 19

/* A slot's fields, copied under the lock, so that nothing that may fail happens while it is held. */
typedef struct SlotCopy
{
	int64		pipeline_id;
	Oid			owner;
	bool		wanted;
	WorkerState state;
	TimestampTz state_since;
	TimestampTz restart_at;
	int			failures;
	ConnectProblem problem;
	pid_t		pid;
	int			copy_workers;
	int			connections;
	char		source_uuid[37];
	uint64		transactions;
	uint64		rows;
	uint64		commits;
	uint64		bytes;
	uint64		last_event_us;
	uint64		last_commit_source_us;
	uint64		caught_up_us;
} SlotCopy;

static void
copy_slot(PipelineSlot *slot, SlotCopy *copy)
{
	copy->pipeline_id = slot->pipeline_id;
	copy->owner = slot->owner;
	copy->wanted = slot->wanted;
	copy->state = slot->state;
	copy->state_since = slot->state_since;
	copy->restart_at = slot->restart_at;
	copy->failures = slot->failures;
	copy->problem = slot->pid == 0 ? slot->problem : CONNECT_NO_PROBLEM;
	copy->pid = slot->pid;
	copy->copy_workers = 0;
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		if (slot->copy[i].pid != 0)
			copy->copy_workers++;
	copy->connections = capstan_connections_of(slot);
	memcpy(copy->source_uuid, slot->source_uuid, sizeof(copy->source_uuid));
	copy->transactions = pg_atomic_read_u64(&slot->transactions);
	copy->rows = pg_atomic_read_u64(&slot->rows);
	copy->commits = pg_atomic_read_u64(&slot->commits);
	copy->bytes = pg_atomic_read_u64(&slot->bytes);
	copy->last_event_us = pg_atomic_read_u64(&slot->last_event_us);
	copy->last_commit_source_us = pg_atomic_read_u64(&slot->last_commit_source_us);
	copy->caught_up_us = pg_atomic_read_u64(&slot->caught_up_us);
}

/* 0 and NULL for a time that is not known. */
static Datum
time_or_null(TimestampTz time, bool *isnull)
{
	*isnull = time == 0;
	return TimestampTzGetDatum(time);
}

static void
put_slot(Tuplestorestate *rows, TupleDesc desc, const SlotCopy *slot)
{
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {0};
	const char *text;
	const char *hint;
	TimestampTz source_time = slot->last_commit_source_us == 0 ? 0 :
		(TimestampTz) slot->last_commit_source_us -
		((TimestampTz) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);

	values[0] = Int64GetDatum(slot->pipeline_id);
	values[1] = CStringGetTextDatum(capstan_worker_state_name(slot->state));
	values[2] = time_or_null(slot->state_since, &nulls[2]);
	values[3] = time_or_null(slot->state == WORKER_RETRYING ? slot->restart_at : 0, &nulls[3]);
	values[4] = Int32GetDatum(slot->failures);
	nulls[5] = slot->pid == 0;
	values[5] = Int32GetDatum((int32) slot->pid);
	values[6] = Int32GetDatum(slot->copy_workers);
	nulls[7] = slot->source_uuid[0] == '\0';
	values[7] = nulls[7] ? (Datum) 0 : CStringGetTextDatum(slot->source_uuid);
	values[8] = Int64GetDatum((int64) slot->transactions);
	values[9] = Int64GetDatum((int64) slot->rows);
	values[10] = Int64GetDatum((int64) slot->commits);
	values[11] = Int64GetDatum((int64) slot->bytes);
	values[12] = time_or_null((TimestampTz) slot->last_event_us, &nulls[12]);
	values[13] = time_or_null(source_time, &nulls[13]);
	values[14] = time_or_null((TimestampTz) slot->caught_up_us, &nulls[14]);
	values[15] = BoolGetDatum(slot->wanted);
	values[16] = Int32GetDatum(slot->connections);
	text = capstan_connect_problem_text(slot->problem, &hint);
	nulls[17] = text == NULL;
	values[17] = nulls[17] ? (Datum) 0 : CStringGetTextDatum(text);
	nulls[18] = hint == NULL;
	values[18] = nulls[18] ? (Datum) 0 : CStringGetTextDatum(hint);
	tuplestore_putvalues(rows, desc, values, nulls);
}

Datum
capstan_worker_stats(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows = sqlapi_begin_rows(fcinfo, &desc);
	SlotCopy   *copies;
	int			ncopies = 0;

	if (desc->natts != STATS_COLUMNS)
		elog(ERROR, "capstan.worker_stats() is declared with %d columns, not %d", desc->natts, STATS_COLUMNS);
	if (Capstan == NULL)
		return (Datum) 0;

	copies = palloc(sizeof(SlotCopy) * Max(Capstan->nslots, 1));
	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 0; i < Capstan->nslots; i++)
		if (Capstan->slots[i].in_use && Capstan->slots[i].database == MyDatabaseId)
			copy_slot(&Capstan->slots[i], &copies[ncopies++]);
	LWLockRelease(Capstan->lock);

	for (int i = 0; i < ncopies; i++)
		if (sqlapi_may_see(copies[i].owner))
			put_slot(rows, desc, &copies[i]);
	return (Datum) 0;
}

/* Is this the cluster and database of a pipeline's row? */
Datum
capstan_belongs_here(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_INT64(0) == (int64) GetSystemIdentifier() && PG_GETARG_OID(1) == MyDatabaseId);
}

/* Of the library, which may be newer than the SQL objects. */
Datum
capstan_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text("1.0"));
}
