/*
 * coordinator.c
 *		Copy worker 0: plans snapshot rounds, takes the lock, reads G, lets the views be
 *		opened, and copies like the others.
 *
 *	 plan			ranges of one table, up to one for each copy worker, into copied_range
 *	 PREPARE		wait until every copy worker is READY
 *	 lock			tablelock.c; then on the lock's connection G := @@GLOBAL.gtid_executed
 *	 OPEN_VIEWS		wait until every view is open; unlock
 *	 (TOUCH)		after a lock that shuts out readers: pin the tables now
 *	 VIEWS_OPEN		G is stored; from here the pipeline worker moves the phases on (roundgate.c)
 *	 COPY			copy the own ranges
 *	 FINISHED		next plan
 *
 * What goes wrong between lock and VIEWS_OPEN costs an attempt, not the round: the plan
 * stays, new views are opened under a new lock.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "snapshot/readview.h"
#include "worker/copyworker.h"

/* Rows of a range: the first guess for a table, and the least; the most is capstan.max_range_rows, which wins. */
#define FIRST_RANGE_BYTES (8 * 1024 * 1024)
#define LEAST_RANGE_ROWS 500
/* A range grows at most so many times from one round to the next. */
#define RANGE_GROWTH 4

/* The lock is held no longer than this for views to be opened. */
#define VIEWS_TIMEOUT_MS 500
#define READY_TIMEOUT_MS 60000
/* A touch is bounded (readview.c); more than that means that a copy worker is in trouble. */
#define TOUCH_TIMEOUT_MS 2000
#define POLL_MS 1000

/* Time for one climb of the lock ladder; after that a warning incident and a longer pause. */
#define LOCK_BUDGET_MS 30000
#define LOCK_PAUSE_MS 5000
/* So many attempts at a round without success make a warning incident. */
#define ATTEMPTS_TO_REPORT 10

typedef struct RoundPlan
{
	List	   *ranges;			/* of CopyRange */
	PipelineTable *table;
	char	   *name;			/* quoted, for the lock */
} RoundPlan;

static void
wait_phase(CopyRun *run)
{
	capstan_process_wait(POLL_MS, CAPSTAN_WAIT_ROUND);
	LWLockAcquire(Capstan->lock, LW_SHARED);
	if (run->slot->pid == 0 || run->slot->run_id != MyArgs.generation)
	{
		LWLockRelease(Capstan->lock);
		proc_exit(0);
	}
	LWLockRelease(Capstan->lock);
}

/* New phase; with it, all steps back to WAITING if asked for. */
static void
set_phase(CopyRun *run, RoundPhase phase, bool reset_steps)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->phase = phase;
	run->slot->round = run->round;
	run->slot->attempt = run->attempt;
	if (reset_steps)
		for (int i = 0; i < run->slot->ncopy; i++)
			run->slot->copy[i].step = COPY_WAITING;
	capstan_shmem_wake(run->slot);
	LWLockRelease(Capstan->lock);
}

/* Have all copy workers but us reached the step?  -1: one failed to open its view. */
static int
others_reached(CopyRun *run, CopyWorkerStep step)
{
	int			reached = 1;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	for (int i = 1; i < run->slot->ncopy; i++)
	{
		if (run->slot->copy[i].step == COPY_VIEW_FAILED)
		{
			reached = -1;
			break;
		}
		if (run->slot->copy[i].step != step)
			reached = 0;
	}
	LWLockRelease(Capstan->lock);
	return reached;
}

/* Waits for that; false after the timeout or when one failed. */
static bool
wait_for_others(CopyRun *run, CopyWorkerStep step, int timeout_ms)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	int			reached;

	while ((reached = others_reached(run, step)) == 0)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

		if (left <= 0)
			return false;
		capstan_process_wait(Min(left, POLL_MS), CAPSTAN_WAIT_ROUND);
	}
	return reached > 0;
}

/* ---------------------------------------------------------------------
 * Planning
 * --------------------------------------------------------------------- */

static void
add_range(CopyRun *run, RoundPlan *plan, const PipelineTable *table, int64 seq, bytea **low, bytea **high, int nkey)
{
	CopyRange  *range = palloc0(sizeof(CopyRange));

	range->table_id = table->id;
	range->generation = table->generation;
	range->seq = seq;
	range->low = low;
	range->high = high;
	range->nkey = nkey;
	range->worker = list_length(plan->ranges) % run->slot->ncopy;
	plan->ranges = lappend(plan->ranges, range);
}

/* The key of the n-th row after low; NULL if fewer are left. */
static bytea **
find_boundary(CopyRun *run, const SourceTable *source, bytea **low, int64 n)
{
	SourceValue *low_values = NULL;
	SourceValue *values = palloc(sizeof(SourceValue) * source->nkey);
	const SourceColumn **columns = palloc(sizeof(SourceColumn *) * source->nkey);
	SourceCursor *cursor;
	bytea	  **boundary = NULL;

	if (low != NULL)
	{
		low_values = palloc(sizeof(SourceValue) * source->nkey);
		for (int i = 0; i < source->nkey; i++)
			capstan_map_decode_key(&source->columns[source->key[i]], low[i], &low_values[i]);
	}
	for (int i = 0; i < source->nkey; i++)
		columns[i] = &source->columns[source->key[i]];
	cursor = capstan_wire_open_cursor(run->lock->helper, capstan_boundary_select(source, low_values, n), columns, source->nkey);
	if (capstan_wire_fetch(cursor, values))
	{
		boundary = palloc(sizeof(bytea *) * source->nkey);
		for (int i = 0; i < source->nkey; i++)
			boundary[i] = capstan_map_encode_key(columns[i], &values[i]);
		while (capstan_wire_fetch(cursor, values))
			;
	}
	capstan_wire_close_cursor(cursor);
	return boundary;
}

/* How many rows a range of this table should have. */
static int64
choose_range_rows(CopyRun *run, const PipelineTable *table)
{
	int64		row_bytes = 200;

	if (run->planned_table == table->id && run->range_rows > 0)
		return run->range_rows;
	if (table->rows_estimate > 0 && table->bytes_estimate > 0)
		row_bytes = Max(table->bytes_estimate / table->rows_estimate, 1);
	run->planned_table = table->id;
	run->range_rows = Min(Max(FIRST_RANGE_BYTES / row_bytes, LEAST_RANGE_ROWS), capstan_max_range_rows);
	return run->range_rows;
}

/* After a round: so many rows that copying a range takes capstan.range_time. */
static void
learn_range_rows(CopyRun *run)
{
	int64		rows;

	if (run->copied_us <= 0 || run->copied_rows <= 0 || run->range_rows <= 0)
		return;
	rows = (int64) ((double) run->copied_rows * capstan_range_time * 1000.0 / run->copied_us);
	rows = Min(rows, run->range_rows * RANGE_GROWTH);
	run->range_rows = Min(Max(rows, LEAST_RANGE_ROWS), capstan_max_range_rows);
}

/* Ranges of one table: those planned before a crash, then new ones, up to one for each worker. */
static void
plan_table(CopyRun *run, RoundPlan *plan, PipelineTable *table)
{
	List	   *ranges = capstan_meta_ranges(table->id, table->generation);
	bytea	  **low = NULL;
	int			nkey = 0;
	int64		seq = 1;
	bool		at_end = false;
	ListCell   *cell;
	SourceTable *source;
	int64		rows;

	plan->table = table;
	plan->name = capstan_quoted_table(table->source_schema, table->source_table);
	foreach(cell, ranges)
	{
		CopyRange  *range = lfirst(cell);

		if (!range->copied)
			add_range(run, plan, table, range->seq, range->low, range->high, range->nkey);
		low = range->high;
		nkey = range->nkey;
		at_end = range->high == NULL;
		seq = range->seq + 1;
	}
	if (!table->key_pageable)
	{
		if (ranges == NIL)
			add_range(run, plan, table, seq, NULL, NULL, 0);
		return;
	}
	if (at_end || list_length(plan->ranges) >= run->slot->ncopy)
		return;

	source = capstan_copy_describe(run, table);
	run->described_table = table->id;
	run->described = source;
	rows = choose_range_rows(run, table);
	while (!at_end && list_length(plan->ranges) < run->slot->ncopy)
	{
		bytea	  **high = find_boundary(run, source, low, rows);

		nkey = source->nkey;
		add_range(run, plan, table, seq++, low, high, nkey);
		low = high;
		at_end = high == NULL;
	}
}

/* Plans the next round and stores it; false when nothing is left to copy. */
static bool
plan_round(CopyRun *run, RoundPlan *plan)
{
	List	   *tables;
	ListCell   *cell;
	PipelineTable *next = NULL;
	memset(plan, 0, sizeof(*plan));
	capstan_copy_begin_catalog(run);
	tables = capstan_meta_tables(run->pipeline->id);
	foreach(cell, tables)
	{
		PipelineTable *table = lfirst(cell);

		if (next == NULL && strcmp(table->state, "streaming") != 0)
			next = table;
	}
	if (next == NULL)
	{
		capstan_copy_commit_catalog(run);
		return false;
	}
	plan_table(run, plan, next);
	if (plan->ranges == NIL)
		elog(ERROR, "table " INT64_FORMAT " is not copied, but has no range left to copy", next->id);

	run->round = capstan_meta_last_round(run->pipeline->id) + 1;
	capstan_meta_save_round(run->pipeline->id, run->round, NULL);
	foreach(cell, plan->ranges)
	{
		CopyRange  *range = lfirst(cell);

		capstan_meta_set_table_state(range->table_id, "copying");
		capstan_meta_plan_range(range, run->round);
	}
	capstan_copy_commit_catalog(run);
	return true;
}

/* ---------------------------------------------------------------------
 * The exact pair
 * --------------------------------------------------------------------- */

static void
save_lock_figures(CopyRun *run, int64 hold_us)
{
	LockFigures figures;

	figures.tries = run->lock->tries;
	figures.wait_worst_us = run->lock->wait_worst_us;
	figures.wait_total_us = run->lock->wait_total_us;
	figures.hold_us = hold_us;
	capstan_meta_add_lock_figures(run->pipeline->id, run->round, &figures);
}

/* The lock was not had within its budget: say so where the operator looks, and go on trying. */
static void
report_no_lock(CopyRun *run, const RoundPlan *plan)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = capstan_errcode_class(CAPSTAN_ERRCODE_LOCK);
	incident.sqlerrcode = CAPSTAN_ERRCODE_LOCK;
	incident.message = psprintf("no lock on %s for a snapshot round yet", plan->name);
	incident.detail = psprintf("%d tries within %d s; worst wait %d ms; last answer of the source: %s", run->lock->tries,
							   LOCK_BUDGET_MS / 1000, (int) (run->lock->wait_worst_us / 1000),
							   run->lock->refusal == NULL ? "none" : run->lock->refusal);
	incident.hint = capstan_tablelock_hint(run->lock);
	incident.source_table = plan->name;
	capstan_copy_begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	save_lock_figures(run, 0);
	capstan_copy_commit_catalog(run);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail),
			 errhint("%s", incident.hint)));
}

/* The lock was had, but no view of use came of it, again and again: somebody alters the table, or the source is very slow. */
static void
report_attempts(CopyRun *run, const RoundPlan *plan)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = "snapshot_round_retried";
	incident.message = psprintf("a snapshot round on %s is tried again and again", plan->name);
	incident.detail = psprintf("%d times so far: the read views were not open in time, or the table was changed meanwhile.", run->attempt);
	incident.hint = "Look for ALTER, OPTIMIZE or FLUSH on the table in the process list of the source, and at its load.";
	incident.source_table = plan->name;
	capstan_copy_begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	capstan_copy_commit_catalog(run);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail),
			 errhint("%s", incident.hint)));
}

static void
take_lock(CopyRun *run, const RoundPlan *plan)
{
	while (!capstan_tablelock_acquire(run->lock, plan->name, capstan_max_lock_wait, LOCK_BUDGET_MS))
	{
		report_no_lock(run, plan);
		capstan_process_wait(LOCK_PAUSE_MS, CAPSTAN_WAIT_SOURCE_LOCK);
	}
}

/*
 * One attempt: G and the views, under one lock.  NULL: try again.  The views are the
 * others' and ours.
 */
static char *
capture(CopyRun *run, const RoundPlan *plan)
{
	char	   *gtid_set;
	bool		touch_in_lock;
	bool		good;
	int64		hold_us;

	take_lock(run, plan);
	gtid_set = capstan_wire_query_not_null(run->lock->conn, "SELECT @@GLOBAL.gtid_executed");
	touch_in_lock = run->lock->held != TABLE_LOCK_WRITE;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->touch_in_lock = touch_in_lock;
	LWLockRelease(Capstan->lock);
	set_phase(run, ROUND_OPEN_VIEWS, false);
	good = capstan_copy_open_view(run, touch_in_lock) != COPY_VIEW_FAILED;
	good = good && wait_for_others(run, touch_in_lock ? COPY_TOUCHED : COPY_VIEW_OPEN, VIEWS_TIMEOUT_MS);
	hold_us = capstan_tablelock_release(run->lock);

	if (good && !touch_in_lock)
	{
		set_phase(run, ROUND_TOUCH, false);
		good = capstan_copy_touch(run, false) != COPY_VIEW_FAILED &&
			wait_for_others(run, COPY_TOUCHED, TOUCH_TIMEOUT_MS);
	}
	capstan_copy_begin_catalog(run);
	save_lock_figures(run, hold_us);
	if (good)
		capstan_meta_save_round(run->pipeline->id, run->round, gtid_set);
	capstan_copy_commit_catalog(run);
	return good ? gtid_set : NULL;
}

static void
run_round(CopyRun *run, const RoundPlan *plan)
{
	for (run->attempt = 1;; run->attempt++)
	{
		capstan_copy_drop_view(run);
		set_phase(run, ROUND_PREPARE, true);
		if (run->attempt == 1)
			capstan_copy_prepare(run);
		if (!wait_for_others(run, COPY_READY, READY_TIMEOUT_MS))
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_COPY_WORKER),
					 errmsg("not every copy worker got ready for a snapshot round")));
		if (capture(run, plan) != NULL)
			break;
		if (run->attempt % ATTEMPTS_TO_REPORT == 0)
			report_attempts(run, plan);
		/* not at once: what was in the way may need a moment, and it must not find our view in its way */
		capstan_copy_drop_view(run);
		capstan_process_wait(Min(100 * run->attempt, LOCK_PAUSE_MS), CAPSTAN_WAIT_SOURCE_LOCK);
	}
	capstan_copy_set_step(run, COPY_TOUCHED);
	set_phase(run, ROUND_VIEWS_OPEN, false);

	for (;;)
	{
		RoundPhase	phase;

		LWLockAcquire(Capstan->lock, LW_SHARED);
		phase = run->slot->phase;
		LWLockRelease(Capstan->lock);
		if (phase == ROUND_COPY)
			break;
		wait_phase(run);
	}
	capstan_copy_ranges(run);
	capstan_copy_drop_view(run);
	capstan_copy_set_step(run, COPY_DONE);
	for (;;)
	{
		RoundPhase	phase;

		LWLockAcquire(Capstan->lock, LW_SHARED);
		phase = run->slot->phase;
		LWLockRelease(Capstan->lock);
		if (phase == ROUND_FINISHED)
			break;
		wait_phase(run);
	}
	learn_range_rows(run);
}

void
capstan_coordinator_main(CopyRun *run)
{
	MemoryContext plan_context = AllocSetContextCreate(run->run_context, "capstan round plan", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(run->run_context);
	run->lock = capstan_tablelock_create(run->options);
	capstan_copy_check_identity(run, run->lock->conn);
	MemoryContextSwitchTo(run->round_context);

	/* the others may need a moment to start */
	while (others_reached(run, COPY_WAITING) == 0)
		wait_phase(run);
	for (;;)
	{
		RoundPlan	plan;
		bool		more;
		MemoryContext round_context = run->round_context;

		/* the plan outlives what prepare makes of the round's context */
		run->described_table = 0;
		MemoryContextReset(plan_context);
		run->round_context = plan_context;
		MemoryContextSwitchTo(plan_context);
		more = plan_round(run, &plan);
		run->round_context = round_context;
		MemoryContextSwitchTo(round_context);
		if (!more)
			return;
		run_round(run, &plan);
	}
}
