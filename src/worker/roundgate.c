/*
 * roundgate.c
 *		The pipeline worker's side of snapshot rounds: stand still exactly at G.
 *
 * The other side, which plans rounds, takes locks and copies, is coordinator.c and
 * copyworker.c.  A round's steps (RoundPhase in shmem.h) and who moves it on:
 *
 *	 coordinator	IDLE/FINISHED -> PREPARE -> (lock, G) OPEN_VIEWS -> (unlock) [TOUCH ->] VIEWS_OPEN
 *	 pipeline worker	VIEWS_OPEN -> COPY		at the first boundary where G is in the applied set
 *	 pipeline worker	COPY -> FINISHED		when every copy worker has committed its ranges
 *
 * Why it is exact
 * ---------------
 * For a table T of the round let G be the GTID set that the coordinator read, and V the views that the copy
 * workers opened, both while a lock kept writers of T out.
 *
 * (1) V holds exactly the changes of T that are in G.  A transaction that changed T holds T's metadata
 *	   lock from before its first change until after its engine commit and after its
 *	   GTID entered gtid_executed.  The table lock excludes that.  So each one was, when the lock
 *	   was granted, either complete in both senses (visible to V, member of G), or will touch T only after
 *	   the unlock (not visible to V, not in G).
 *
 * (2) In the source's binary log all of G stands before any change of T that is not in G: members of G were
 *	   flushed to the log before G was read, the others begin to change T after the unlock.
 *
 * (3) The stream reads in log order and stops here, at the first boundary at which the applied set P
 *	   contains G.  Then P holds every change of T that is in G, and none that is not: such a change stands
 *	   in the log after all of G (2), so an earlier boundary would have had P contain G already.
 *	   (A change of T received before the unlock cannot be outside of G: it was flushed, hence begun, before
 *	   the lock was granted, hence complete.  So that none received after the unlock is applied before G is known
 *	   here, no transaction is begun in the phases OPEN_VIEWS and TOUCH: see capstan_round_at_boundary.)
 *
 * So while the stream stands still the copied part of the target table is T at G, the rows that are
 * written are T at G, and the next change of T in the stream is the first one after G: no gap, no repetition.
 * P may hold transactions outside of G that do not touch T; they do no harm.
 *
 * (2) and (3) speak of one server's log: stream, lock and views must show the same server_uuid.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "worker/connections.h"
#include "worker/fault.h"
#include "worker/pipelineworker.h"

/* How often the copy workers are looked after while the stream runs. */
#define COPY_WORKER_CHECK_MS 500
/* The source may say that it has nothing more before we look at G: heartbeats under way do not count. */
#define NEEDED_LATE_MS 5000
/* A round that takes so long, and so many times capstan.range_time, is reported. */
#define STALL_MS 10000
#define STALL_TIMES_RANGE_TIME 10

static void
begin_catalog(PipelineRun *run)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->event_context);
}

static void
commit_catalog(PipelineRun *run)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->event_context);
}

void
capstan_round_load_ranges(PipelineRun *run, ApplyTable *table)
{
	capstan_apply_set_ranges(table, capstan_meta_ranges(table->info->id, table->info->generation));
}

/* The table is copied; in the transaction that says so. */
void
capstan_round_finish_table(PipelineRun *run, ApplyTable *table)
{
	instr_time	start;
	instr_time	end;

	table->untouched = false;
	table->copied = true;
	if (!table->info->in_shadow)
		return;
	INSTR_TIME_SET_CURRENT(start);
	pgstat_report_activity(STATE_RUNNING, "exchanging the content of a resynced table");
	capstan_stream_note_table(table->info->source_schema, table->info->source_table);
	capstan_apply_exchange(table);
	MemoryContextSwitchTo(run->event_context);
	MyPlace.table[0] = '\0';
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s.%s is resynced, generation %d, exchanged in %d ms", run->pipeline->name,
					table->info->source_schema, table->info->source_table, table->info->generation,
					(int) INSTR_TIME_GET_MILLISEC(end))));
}

static bool
some_copied(List *ranges)
{
	ListCell   *cell;

	foreach(cell, ranges)
		if (((CopyRange *) lfirst(cell))->copied)
			return true;
	return false;
}

/* After ranges of the table were committed: fewer and larger ones, and perhaps the table is complete. */
void
capstan_round_settle_table(PipelineRun *run, ApplyTable *table)
{
	List	   *ranges;

	capstan_meta_merge_ranges(table->info->id, table->info->generation);
	ranges = capstan_meta_ranges(table->info->id, table->info->generation);
	if (some_copied(ranges))
		table->untouched = false;
	if (list_length(ranges) == 1)
	{
		CopyRange  *range = linitial(ranges);

		if (range->copied && range->low == NULL && range->high == NULL)
		{
			capstan_meta_set_table_state(table->info->id, table->info->generation, "streaming");
			capstan_round_finish_table(run, table);
		}
	}
	if (!table->copied && table->info->key_ordered && table->map != NULL)
		capstan_apply_set_ranges(table, ranges);
}

/* run->tables are by id. */
ApplyTable *
capstan_round_find_table(PipelineRun *run, int64 id)
{
	int			low = 0;
	int			high = list_length(run->tables);

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		ApplyTable *table = list_nth(run->tables, middle);

		if (table->info->id == id)
			return table;
		if (table->info->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	elog(ERROR, "no table " INT64_FORMAT " in the pipeline", id);
}

/* Are there still tables to be copied? */
static void
note_progress(PipelineRun *run)
{
	ListCell   *cell;

	run->copying = false;
	foreach(cell, run->tables)
		if (!((ApplyTable *) lfirst(cell))->copied)
			run->copying = true;
	if (run->copying)
		return;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->state = WORKER_STREAMING;
	run->slot->state_since = GetCurrentTimestamp();
	LWLockRelease(Capstan->lock);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": snapshot complete, %d tables", run->pipeline->name, list_length(run->tables))));
}

static bool
start_copy_worker(PipelineRun *run, int index)
{
	BackgroundWorker worker;
	WorkerArgs	args = MyArgs;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = Int32GetDatum((int32) (run->slot - Capstan->slots));
	strlcpy(worker.bgw_library_name, "capstan", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "capstan_copy_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_type, "capstan copy", sizeof(worker.bgw_type));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "capstan copy \"%s\" %d", NameStr(run->slot->name), index + 1);
	args.generation = run->slot->run_id;
	args.copy_index = index;
	memcpy(worker.bgw_extra, &args, sizeof(args));
	return RegisterDynamicBackgroundWorker(&worker, &run->copy_handles[index]);
}

void
capstan_round_launch_workers(PipelineRun *run)
{
	MemoryContext caller;
	int			started = 1;
	int			wanted;

	/* the coordinator, number 0, comes last: it counts the others */
	caller = MemoryContextSwitchTo(run->stream_context);
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	memset(run->slot->copy, 0, sizeof(run->slot->copy));
	run->slot->phase = ROUND_IDLE;
	LWLockRelease(Capstan->lock);
	wanted = capstan_connections_share_out(run->slot, true);
	while (started < wanted && start_copy_worker(run, started))
		started++;
	for (int i = started; i < wanted; i++)
		capstan_connections_absent(run->slot, i);
	if (started < wanted)
		ereport(LOG,
				(errmsg("capstan pipeline \"%s\": only %d of %d copy workers", run->pipeline->name, started, wanted),
				 errhint("Increase max_worker_processes.")));
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->ncopy = started;
	LWLockRelease(Capstan->lock);
	run->ncopy = started;
	if (!start_copy_worker(run, 0))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no copy worker can be started"),
				 errhint("Increase max_worker_processes and restart the server.")));
	MemoryContextSwitchTo(caller);
}

void
capstan_round_start_workers(PipelineRun *run)
{
	ListCell   *cell;

	capstan_bounds_count_start(run);
	/* what an earlier run committed and did not live to settle */
	begin_catalog(run);
	foreach(cell, run->tables)
	{
		ApplyTable *table = lfirst(cell);

		if (strcmp(table->info->state, "copying") == 0)
			capstan_round_settle_table(run, table);
	}
	commit_catalog(run);
	note_progress(run);
	if (!run->copying)
	{
		begin_catalog(run);
		capstan_bounds_round_completed(run);
		commit_catalog(run);
		(void) capstan_connections_share_out(run->slot, false);
		return;
	}
	if (run->slot->copy_reserved == 0)
		capstan_connections_acquire(run->slot, true);
	capstan_round_launch_workers(run);
}

/* A copy worker that ended although there is work left has failed: its own incident says why. */
void
capstan_round_check_workers(PipelineRun *run)
{
	for (int i = 0; i < run->ncopy; i++)
	{
		pid_t		pid;

		if (GetBackgroundWorkerPid(run->copy_handles[i], &pid) == BGWH_STOPPED)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_COPY_WORKER),
					 errmsg("copy worker %d ended before the snapshot was complete", i + 1)));
	}
}

static RoundPhase
current_phase(PipelineRun *run, int64 *round)
{
	RoundPhase	phase;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	phase = run->slot->phase;
	*round = run->slot->round;
	LWLockRelease(Capstan->lock);
	return phase;
}

static void
set_phase(PipelineRun *run, RoundPhase phase)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->phase = phase;
	capstan_shmem_wake(run->slot);
	LWLockRelease(Capstan->lock);
}

/* A round whose G we do not know yet: what is missing of it? */
static void
load_round(PipelineRun *run, int64 round)
{
	MemoryContext caller;
	GtidSet    *set;
	CapstanError error;
	char	   *text;

	capstan_stream_commit(run);
	begin_catalog(run);
	text = capstan_meta_load_round(run->pipeline->id, round);
	commit_catalog(run);
	if (text == NULL)
		elog(ERROR, "snapshot round " INT64_FORMAT " has no GTID set", round);

	caller = MemoryContextSwitchTo(run->stream_context);
	set = capstan_gtidset_parse(text, strlen(text), &error);
	if (set == NULL)
		elog(ERROR, "GTID set of snapshot round " INT64_FORMAT " is broken: %s", round, error.message);
	run->needed = capstan_gtidset_subtract(set, run->applied);
	run->needed_since = GetCurrentTimestamp();
	capstan_gtidset_free(set);
	run->round = round;
	MemoryContextSwitchTo(caller);
}

void
capstan_round_note(PipelineRun *run, const Gtid *gtid)
{
	MemoryContext caller;

	if (run->needed == NULL)
		return;
	caller = MemoryContextSwitchTo(run->stream_context);
	capstan_gtidset_remove(run->needed, gtid);
	MemoryContextSwitchTo(caller);
}

/*
 * The source has nothing more to send.  All of G was in its log before G was read, so what is still missing then is not in
 * its log at all: somebody has changed gtid_purged.  The next connect finds out and says so; to wait would be for ever.
 */
void
capstan_round_at_end_of_log(PipelineRun *run)
{
	if (run->needed == NULL || capstan_gtidset_is_empty(run->needed) ||
		!TimestampDifferenceExceeds(run->needed_since, GetCurrentTimestamp(), NEEDED_LATE_MS))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_EXCEPTION),
			 errmsg("the source lists transactions as executed that its binary log does not hold")));
}

static bool
all_copied(PipelineRun *run)
{
	bool		all = true;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 0; i < run->ncopy; i++)
		if (run->slot->copy[i].step != COPY_DONE)
			all = false;
	LWLockRelease(Capstan->lock);
	return all;
}

/* A copy worker is slow, or hangs: say which, once for a round. */
static void
report_stall(PipelineRun *run, int seconds)
{
	Incident	incident;
	StringInfoData workers;

	initStringInfo(&workers);
	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 0; i < run->ncopy; i++)
		if (run->slot->copy[i].step != COPY_DONE)
			appendStringInfo(&workers, "%s%d (process %d)", workers.len > 0 ? ", " : "", i + 1, (int) run->slot->copy[i].pid);
	LWLockRelease(Capstan->lock);

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = "snapshot_stalled";
	incident.message = "a snapshot round takes long, and the stream stands still meanwhile";
	incident.detail = psprintf("Not done after %d s: copy worker %s.", seconds, workers.data);
	incident.hint = "A table whose key cannot be paged is copied in one piece. Else look at the worker in pg_stat_activity, and for its "
		"connection (capstan copy) in the process list of the source.";
	begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	commit_catalog(run);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail)));
}

/* The stream stands at G: let the ranges be written, and take note of them. */
static void
copy_round(PipelineRun *run)
{
	ListCell   *cell;
	List	   *ids;
	instr_time	start;
	instr_time	end;
	TimestampTz stall_at;
	static bool had_a_round = false;

	capstan_gtidset_free(run->needed);
	run->needed = NULL;
	/*
	 * All that was passed, also where no row was written for it: changes of a table of which nothing is copied yet are left out
	 * (meta/generation.h), and after a restart they must not come again to what is copied now.
	 */
	if (run->progress_dirty)
		capstan_stream_begin(run);
	capstan_stream_commit(run);
	CAPSTAN_FAULT("gate_reached");
	INSTR_TIME_SET_CURRENT(start);
	pgstat_report_activity(STATE_IDLE, "standing still for a snapshot round");
	set_phase(run, ROUND_COPY);
	stall_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), Max(STALL_MS, STALL_TIMES_RANGE_TIME * (int64) capstan_range_time));
	while (!all_copied(run))
	{
		capstan_round_check_workers(run);
		capstan_bounds_check(run);
		capstan_process_wait(COPY_WORKER_CHECK_MS, CAPSTAN_WAIT_ROUND);
		if (GetCurrentTimestamp() < stall_at)
			continue;
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_SUBTRACT(end, start);
		report_stall(run, (int) (INSTR_TIME_GET_MILLISEC(end) / 1000));
		stall_at = DT_NOEND;
	}

	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	CAPSTAN_FAULT("settle_begin");
	begin_catalog(run);
	/* the first round of this process ends what was said by an earlier one, too */
	if (stall_at == DT_NOEND || !had_a_round)
		capstan_meta_resolve_warning(run->pipeline->name, "snapshot_stalled", "the round was had");
	had_a_round = true;
	capstan_meta_add_pause(run->pipeline->id, run->round, (int64) INSTR_TIME_GET_MICROSEC(end));
	ids = capstan_meta_settle_whole_tables(run->pipeline->id, run->round);
	foreach(cell, ids)
		capstan_round_finish_table(run, capstan_round_find_table(run, *(int64 *) lfirst(cell)));
	ids = capstan_meta_tables_of_round(run->pipeline->id, run->round);
	foreach(cell, ids)
	{
		ApplyTable *table = capstan_round_find_table(run, *(int64 *) lfirst(cell));

		if (!table->copied)
			capstan_round_settle_table(run, table);
	}
	capstan_bounds_round_completed(run);
	CAPSTAN_FAULT("settle_before_commit");
	commit_catalog(run);
	CAPSTAN_FAULT("settled");
	note_progress(run);
	set_phase(run, ROUND_FINISHED);
	CAPSTAN_FAULT("round_finished");
	run->advanced = true;
}

/*
 * The boundary before a transaction (its GTID event is in hand), or an idle moment at a boundary.
 *
 * From the moment that the lock is held until G is known here, no transaction may be begun: it could
 * be one that is not in G, and the stream would have passed the point where it has to stand still.  A transaction
 * of that kind began on the source after the unlock, so its GTID event reached us after the phase OPEN_VIEWS was
 * set, and this look at the phase comes after the event.
 */
void
capstan_round_at_boundary(PipelineRun *run)
{
	static TimestampTz checked_at = 0;
	RoundPhase	phase;
	TimestampTz now;
	int64		round;

	if (!run->copying)
		return;
	Assert(!run->in_transaction);
	while ((phase = current_phase(run, &round)) == ROUND_OPEN_VIEWS || phase == ROUND_TOUCH)
	{
		capstan_stream_commit(run);
		capstan_round_check_workers(run);
		capstan_process_wait(COPY_WORKER_CHECK_MS, CAPSTAN_WAIT_ROUND);
	}
	if (phase == ROUND_VIEWS_OPEN)
	{
		if (run->needed == NULL)
			load_round(run, round);
		if (capstan_gtidset_is_empty(run->needed))
			copy_round(run);
		return;
	}
	now = GetCurrentTimestamp();
	if (TimestampDifferenceExceeds(checked_at, now, COPY_WORKER_CHECK_MS))
	{
		checked_at = now;
		capstan_round_check_workers(run);
	}
}
