/*
 * consistentgate.c
 *		The pipeline worker's side of snapshot => 'consistent': one generation of all tables, then the position.
 *
 * Called by pipelineworker.c before it opens the stream, as long as the pipeline has no position.  The other side
 * is consistentcopy.c.
 *
 *	 what an earlier generation left is taken out of the targets; its number is not used again
 *	 IDLE -> ... -> VIEWS_OPEN	the coordinator: pins, lock, G, views
 *	 VIEWS_OPEN -> COPY			note what the tables look like
 *	 COPY -> FINISHED			when every copy worker is done: in one transaction all tables become `streaming` and the
 *								position becomes G
 *	 then the stream is opened, at G
 *
 * Why it is exact
 * ---------------
 * Let G be the GTID set and V the views, all of them opened while a lock kept changes of captured tables out.
 *
 * (1) Every V holds exactly the changes of captured tables that are in G.  Under LOCK TABLES this is (1) of roundgate.c, for all tables
 *	   at once.  Under FLUSH TABLES WITH READ LOCK no commit runs: a commit holds the lock that this one excludes from before the log is
 *	   written until its GTID has entered gtid_executed and its changes are visible.  A transaction that is open meanwhile has
 *	   not committed, is in no view and not in G.  But for a prepared XA transaction, which is in no view, and in G: so there must be none
 *	   (globallock.c).
 *
 * (2) No view reads another table than the one that was there at G: from before the lock until the last view is closed a
 *	   transaction of ours holds the metadata locks of all of them (the pins), and what they look like is compared with what was
 *	   captured after that.
 *
 * (3) The targets were empty, nothing but the copy writes to them, and every table is read whole: as one range, or by ranges that
 *	   follow each other from the beginning to the end, each of whose bounds is the one before it, byte for byte.
 *
 * So when all is copied the targets are the captured tables at G, at the same G for all.  The stream then asks for what is not in G, in the
 * order of the log: no gap, no repetition.  A crash before the position is written finds none, and starts over; after it the
 * position and the rows that it stands for are there together.
 *
 * What the stream needs has to stay in the source's binary log for as long as the copy takes.  When it does not, the stream
 * says so (gtids_purged) before anything is applied.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "worker/pipelineworker.h"

#define CHECK_MS 500

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

bool
capstan_consistent_is_due(PipelineRun *run)
{
	bool		due;

	if (!run->copying || strcmp(run->pipeline->snapshot, "consistent") != 0)
		return false;
	begin_catalog(run);
	due = !capstan_meta_has_progress(run->pipeline->id);
	commit_catalog(run);
	return due;
}

static void
report_start_over(PipelineRun *run, int nemptied)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = "snapshot_started_over";
	incident.message = "the consistent snapshot was not completed and starts over";
	incident.detail = psprintf("Tables that were emptied again: %d.", nemptied);
	incident.hint = "Views of the source end with their connections: a consistent snapshot cannot be resumed. "
		"snapshot => 'incremental' can.";
	(void) capstan_meta_record_incident(&incident);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail)));
}

/* Takes out what an earlier generation has copied, all in one transaction with the new number. */
static void
start_over(PipelineRun *run)
{
	List	   *ids;
	List	   *tables = NIL;
	ListCell   *cell;

	begin_catalog(run);
	ids = capstan_meta_partly_copied_tables(run->pipeline->id);
	foreach(cell, ids)
		tables = lappend(tables, capstan_round_find_table(run, *(int64 *) lfirst(cell)));
	capstan_apply_empty(tables);
	if (capstan_meta_next_generation(run->pipeline->id))
	{
		report_start_over(run, list_length(tables));
		foreach(cell, run->tables)
			((ApplyTable *) lfirst(cell))->info->generation++;
	}
	commit_catalog(run);
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

static bool
all_done(PipelineRun *run)
{
	bool		all = true;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 0; i < run->ncopy; i++)
		if (run->slot->copy[i].step != COPY_DONE)
			all = false;
	LWLockRelease(Capstan->lock);
	return all;
}

/* They are pinned: what they look like now they did at G. */
static void
note_tables(PipelineRun *run)
{
	SourceConn *conn = capstan_wire_connect_to(run->options, psprintf("tables %s", run->pipeline->name), run->source_uuid);

	begin_catalog(run);
	capstan_pipeline_note_tables(run, conn);
	commit_catalog(run);
	capstan_wire_close(conn);
}

/* The catalog's tables must be those that were copied: nobody may have added one, or begun another generation, meanwhile. */
static void
check_tables(PipelineRun *run)
{
	List	   *tables = capstan_meta_tables(run->pipeline->id);
	bool		same = list_length(tables) == list_length(run->tables);

	for (int i = 0; same && i < list_length(tables); i++)
	{
		const PipelineTable *now = list_nth(tables, i);
		const PipelineTable *then = ((ApplyTable *) list_nth(run->tables, i))->info;

		same = now->id == then->id && now->generation == then->generation;
	}
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tables of the pipeline were changed while they were copied")));
}

/* Everything is committed: all tables and the position, at once. */
static void
finish(PipelineRun *run, int64 round)
{
	char	   *gtid_set;
	List	   *ids;
	ListCell   *cell;

	begin_catalog(run);
	gtid_set = capstan_meta_load_round(run->pipeline->id, round);
	if (gtid_set == NULL)
		elog(ERROR, "snapshot round " INT64_FORMAT " has no GTID set", round);
	if (capstan_meta_unfinished_ranges(run->pipeline->id) > 0)
		elog(ERROR, "not every range of snapshot round " INT64_FORMAT " is copied", round);
	check_tables(run);
	ids = capstan_meta_settle_whole_tables(run->pipeline->id, round);
	foreach(cell, ids)
		capstan_round_finish_table(run, capstan_round_find_table(run, *(int64 *) lfirst(cell)));
	foreach(cell, run->tables)
	{
		ApplyTable *table = lfirst(cell);

		if (!table->copied)
			capstan_round_settle_table(run, table);
		if (!table->copied)
			elog(ERROR, "table %s.%s is not copied as a whole", table->info->source_schema, table->info->source_table);
	}
	capstan_meta_resolve_warning(run->pipeline->name, "snapshot_started_over", "the snapshot is complete");
	capstan_bounds_round_completed(run);
	capstan_meta_init_progress(run->pipeline->id, gtid_set, run->source_uuid);
	commit_catalog(run);
}

/*
 * Until the views are open.  Meanwhile there is no position, and no transaction that is waited for: bounds.c is told that all that came
 * before the last moment at which G was certainly not read is of no interest.
 */
static int64
await_views(PipelineRun *run)
{
	int64		round;

	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		RoundPhase	phase = current_phase(run, &round);

		if (phase < ROUND_OPEN_VIEWS || run->needed_since == 0)
			run->needed_since = now;
		if (phase == ROUND_VIEWS_OPEN)
			return round;
		capstan_round_check_workers(run);
		capstan_bounds_check(run);
		capstan_process_wait(CHECK_MS, CAPSTAN_WAIT_ROUND);
	}
}

void
capstan_consistent_run(PipelineRun *run)
{
	int64		round;
	CapstanError error;
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);

	run->applied = capstan_gtidset_parse("", 0, &error);
	MemoryContextSwitchTo(caller);
	capstan_bounds_count_start(run);
	start_over(run);
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->consistent = true;
	run->slot->next_whole = 0;
	run->slot->next_small = 0;
	LWLockRelease(Capstan->lock);
	capstan_round_launch_workers(run);

	pgstat_report_activity(STATE_IDLE, "waiting for the lock of the consistent snapshot");
	round = await_views(run);
	/* the stream is to begin here: what is logged from now on must be kept (bounds.c) */
	run->needed_since = GetCurrentTimestamp();
	note_tables(run);
	pgstat_report_activity(STATE_IDLE, "waiting for the consistent snapshot");
	set_phase(run, ROUND_COPY);
	while (!all_done(run))
	{
		capstan_round_check_workers(run);
		capstan_bounds_check(run);
		capstan_process_wait(CHECK_MS, CAPSTAN_WAIT_ROUND);
	}
	finish(run, round);
	capstan_gtidset_free(run->applied);
	run->applied = NULL;
	set_phase(run, ROUND_FINISHED);
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->consistent = false;
	LWLockRelease(Capstan->lock);
	run->ncopy = 0;
	run->copying = false;
	run->advanced = true;
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": consistent snapshot complete, %d tables", run->pipeline->name, list_length(run->tables))));
}
