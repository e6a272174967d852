/*
 * coordinator.c
 *		Copy worker 0: takes the lock of a snapshot round, reads G, lets the views be
 *		opened, and copies like the others.
 *
 *	 plan			roundplan.c: ranges of one table, or many small tables, into copied_range
 *	 PREPARE		wait until every copy worker is READY
 *	 lock			one table: tablelock.c; many: lockbatch.c, and what it does not get is left out
 *	 OPEN_VIEWS		G := @@GLOBAL.gtid_executed, while the views are opened; when all are open, unlock
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
#include "snapshot/clock.h"
#include "snapshot/readview.h"
#include "worker/connections.h"
#include "worker/copyworker.h"
#include "worker/fault.h"

/* The lock is held no longer than this for views to be opened. */
#define VIEWS_TIMEOUT_MS 500
#define READY_TIMEOUT_MS 60000
/* A touch is bounded (readview.c); more than that means that a copy worker is in trouble. */
#define TOUCH_TIMEOUT_MS 2000
#define POLL_MS 1000
/* Tables that a round of many plans for at least, and how long it aims to hold their locks: each table adds to that. */
#define LEAST_BATCH 4
#define HOLD_WANTED_US 1000

/* Time for one climb of the lock ladder; after that a warning incident, a longer pause, and other tables.  Shorter where a try may wait only shortly. */
#define LOCK_BUDGET_MS Min(30000, Max(2000, 30 * capstan_max_lock_wait))
#define LOCK_PAUSE_MS Min(5000, Max(200, 5 * capstan_max_lock_wait))
/* So many attempts at a round without success make a warning incident. */
#define ATTEMPTS_TO_REPORT 10

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

void
capstan_coordinator_await_phase(CopyRun *run, RoundPhase wanted)
{
	for (;;)
	{
		RoundPhase	phase;

		LWLockAcquire(Capstan->lock, LW_SHARED);
		phase = run->slot->phase;
		LWLockRelease(Capstan->lock);
		if (phase == wanted)
			return;
		wait_phase(run);
	}
}

/* New phase; with it, all steps back to WAITING if asked for. */
void
capstan_coordinator_set_phase(CopyRun *run, RoundPhase phase, bool reset_steps)
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
bool
capstan_coordinator_wait_for_others(CopyRun *run, CopyWorkerStep step, int timeout_ms)
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
 * The exact pair
 * --------------------------------------------------------------------- */

/* kind: which lock was had; TABLE_LOCK_NONE and hold_us 0: none. */
static void
save_lock_figures(CopyRun *run, const RoundPlan *plan, TableLockKind kind, int64 hold_us)
{
	LockFigures figures;

	figures.read = kind == TABLE_LOCK_READ;
	figures.flush = kind == TABLE_LOCK_FLUSH;
	figures.write = kind == TABLE_LOCK_WRITE;
	if (plan->ntables > 1)
	{
		figures.tries = 1;
		figures.wait_worst_us = run->batch_wait_us;
		figures.wait_total_us = run->batch_wait_us;
	}
	else
	{
		figures.tries = run->lock->tries;
		figures.wait_worst_us = run->lock->wait_worst_us;
		figures.wait_total_us = run->lock->wait_total_us;
	}
	figures.hold_us = hold_us;
	/* each lock for itself, for test/bin/lock-figures */
	if (kind != TABLE_LOCK_NONE)
		ereport(DEBUG1,
				(errmsg_internal("capstan pipeline \"%s\": lock of round " INT64_FORMAT " by %s on %d tables: wait %d us, hold %d us",
								 run->pipeline->name, run->round, figures.write ? "WRITE" : figures.flush ? "FLUSH" : "READ",
								 plan->ntables - run->nleft_out, (int) figures.wait_total_us, (int) hold_us)));
	capstan_meta_add_lock_figures(run->pipeline->id, run->round, run->left_out, run->nleft_out, &figures);
}

/* The lock was not had within its budget, or the table could not even be read: say so where the operator looks. */
static void
report_no_lock(CopyRun *run, const RoundPlan *plan)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = capstan_errcode_class(CAPSTAN_ERRCODE_LOCK);
	incident.sqlerrcode = CAPSTAN_ERRCODE_LOCK;
	incident.message = psprintf("no lock on %s for a snapshot round yet", plan->names[0]);
	incident.detail = plan->blocked ? "Reading it, to find ranges, would have waited: it is locked, or its definition is about to be changed." :
		psprintf("%d tries within %d s; worst wait %d ms; last answer of the source: %s", run->lock->tries,
				 LOCK_BUDGET_MS / 1000, (int) (run->lock->wait_worst_us / 1000),
				 run->lock->refusal == NULL ? "none" : run->lock->refusal);
	incident.hint = capstan_tablelock_hint(run->lock);
	incident.source_table = plan->names[0];
	capstan_copy_begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	if (!plan->blocked)
		save_lock_figures(run, plan, TABLE_LOCK_NONE, 0);
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
	incident.message = psprintf("a snapshot round on %s%s is tried again and again", plan->names[0],
								plan->ntables > 1 ? psprintf(" and %d other tables", plan->ntables - 1) : "");
	incident.detail = psprintf("%d times so far: the read views were not open in time, or the table was changed meanwhile.", run->attempt);
	incident.hint = "Look for ALTER, OPTIMIZE or FLUSH on the table in the process list of the source, and at its load.";
	incident.source_table = plan->names[0];
	capstan_copy_begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	capstan_copy_commit_catalog(run);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail),
			 errhint("%s", incident.hint)));
}

/* The only table of the round is not to be had now: other tables go first. */
static void
give_way(CopyRun *run, const RoundPlan *plan)
{
	DeferredTable *table;

	report_no_lock(run, plan);
	table = capstan_roundplan_defer(run, plan->tables[0]->id);
	run->attempts = table->attempts;
	run->attempts_told = table->attempts_told;
	capstan_bounds_count_attempt(run, plan->names[0]);
	table->attempts = run->attempts;
	table->attempts_told = run->attempts_told;
	capstan_process_wait(LOCK_PAUSE_MS, CAPSTAN_WAIT_SOURCE_LOCK);
}

/* The lock on the only table of the round.  False: not within its time. */
static bool
take_lock(CopyRun *run, const RoundPlan *plan)
{
	if (capstan_tablelock_acquire(run->lock, plan->names[0], capstan_max_lock_wait, LOCK_BUDGET_MS))
		return true;
	give_way(run, plan);
	run->left_out[run->nleft_out++] = plan->tables[0]->id;
	return false;
}

/* How many tables the next rounds plan for: some more than could be locked in this one, fewer where that was held for long. */
static void
learn_batch(CopyRun *run, int ngranted)
{
	int			next = ngranted + ngranted / 4 + 1;

	if (run->batch_hold_us > HOLD_WANTED_US)
		next = ngranted - Max(ngranted / 8, 1);
	run->batch_tables = Min(Max(next, LEAST_BATCH), CAPSTAN_ROUND_TABLES);
}

/* Locks on many tables; those that are not to be had now are left out.  False: none was had. */
static bool
take_locks(CopyRun *run, const RoundPlan *plan)
{
	int64		start = capstan_clock_us();
	int			ngranted = capstan_lockbatch_acquire(run->batch, plan->names, plan->ntables, run->answers);

	run->batch_wait_us = capstan_clock_us() - start;
	if (ngranted == 0)
		(void) capstan_lockbatch_release(run->batch, run->lock->helper);
	for (int i = 0; i < plan->ntables; i++)
		if (run->answers[i] != LOCK_GRANTED)
			run->left_out[run->nleft_out++] = plan->tables[i]->id;
	return ngranted > 0;
}

/* Tables of the round that were left out for good come in one of the next ones, or alone, later. */
static void
plan_left_out(CopyRun *run, const RoundPlan *plan)
{
	int			ngranted = 0;

	for (int i = 0; i < plan->ntables; i++)
	{
		ngranted += run->answers[i] == LOCK_GRANTED;
		if (run->answers[i] == LOCK_REFUSED ||
			(run->answers[i] != LOCK_GRANTED && !capstan_window_again(run, plan->tables[i]->id, run->answers[i] == LOCK_ASKED)))
			capstan_roundplan_put_alone(run, plan->tables[i]->id);
	}
	learn_batch(run, ngranted);
}

/*
 * One attempt: G and the views, under one lock.  False: try again.  The views are the others' and ours.
 */
static bool
capture(CopyRun *run, const RoundPlan *plan)
{
	char	   *gtid_set;
	SourceConn *g_conn;
	bool		many = plan->ntables > 1;
	bool		touch_in_lock;
	bool		without_lock;
	bool		good;
	int64		hold_us;
	TableLockKind kind;

	run->nleft_out = 0;
	run->batch_hold_us = 0;
	if (!(many ? take_locks(run, plan) : take_lock(run, plan)))
		return false;
	kind = many ? TABLE_LOCK_READ : run->lock->held;
	g_conn = many ? run->lock->helper : run->lock->conn;
	CAPSTAN_FAULT("lock_held");
	/* WRITE would keep the views out, and after FLUSH they would open the table anew, while everybody's writers wait */
	touch_in_lock = kind == TABLE_LOCK_READ;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->touch_in_lock = touch_in_lock;
	run->slot->nleft_out = run->nleft_out;
	memcpy(run->slot->left_out, run->left_out, sizeof(int64) * run->nleft_out);
	LWLockRelease(Capstan->lock);
	capstan_coordinator_set_phase(run, ROUND_OPEN_VIEWS, false);
	/* the red twin of the proof in roundgate.c */
	without_lock = CAPSTAN_FAULT_SAYS("without_lock");
	if (without_lock)
		capstan_wire_exec(run->lock->conn, "UNLOCK TABLES");
	/* all of it at once: it does not matter what comes first, as long as the lock is held */
	capstan_wire_send(g_conn, "SELECT @@GLOBAL.gtid_executed");
	CAPSTAN_FAULT("g_asked");
	if (without_lock)
		CAPSTAN_FAULT_STAND();
	good = capstan_copy_open_view(run, touch_in_lock) != COPY_VIEW_FAILED;
	gtid_set = capstan_wire_receive_not_null(g_conn);
	CAPSTAN_FAULT("g_read");
	good = good && capstan_coordinator_wait_for_others(run, touch_in_lock ? COPY_TOUCHED : COPY_VIEW_OPEN, VIEWS_TIMEOUT_MS);
	CAPSTAN_FAULT("views_open");
	hold_us = many ? capstan_lockbatch_release(run->batch, run->lock->helper) : capstan_tablelock_release(run->lock);
	run->batch_hold_us = hold_us;

	CAPSTAN_FAULT("unlocked");
	if (good && !touch_in_lock)
	{
		capstan_coordinator_set_phase(run, ROUND_TOUCH, false);
		good = capstan_copy_touch(run) != COPY_VIEW_FAILED &&
			capstan_coordinator_wait_for_others(run, COPY_TOUCHED, TOUCH_TIMEOUT_MS);
	}
	capstan_copy_begin_catalog(run);
	save_lock_figures(run, plan, kind, hold_us);
	if (good)
		capstan_meta_save_round(run->pipeline->id, run->round, gtid_set);
	capstan_copy_commit_catalog(run);
	CAPSTAN_FAULT("round_saved");
	return good;
}

static void
run_round(CopyRun *run, const RoundPlan *plan)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->many = plan->ntables > 1;
	LWLockRelease(Capstan->lock);
	run->attempts = 0;
	run->attempts_told = 0;
	for (run->attempt = 1;; run->attempt++)
	{
		capstan_copy_drop_view(run);
		capstan_coordinator_set_phase(run, ROUND_PREPARE, true);
		if (plan->ntables > 1)
			capstan_lockbatch_connect(run->batch, plan->ntables);
		if (run->attempt == 1)
			capstan_copy_prepare(run);
		if (!capstan_coordinator_wait_for_others(run, COPY_READY, READY_TIMEOUT_MS))
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_COPY_WORKER),
					 errmsg("not every copy worker got ready for a snapshot round")));
		if (capture(run, plan))
			break;
		/* none of the tables was locked: others go first */
		if (run->nleft_out == plan->ntables)
		{
			if (plan->ntables > 1)
				plan_left_out(run, plan);
			return;
		}
		if (run->attempt % ATTEMPTS_TO_REPORT == 0)
			report_attempts(run, plan);
		capstan_bounds_count_attempt(run, plan->names[0]);
		/* not at once: what was in the way may need a moment, and it must not find our view in its way */
		capstan_copy_drop_view(run);
		capstan_process_wait(Min(100 * run->attempt, LOCK_PAUSE_MS), CAPSTAN_WAIT_SOURCE_LOCK);
	}
	if (plan->ntables > 1)
		plan_left_out(run, plan);
	/* what was said of a table that still waits for its lock stays */
	if (plan->ntables == 1)
		capstan_roundplan_had(run, plan->tables[0]->id);
	if (run->deferred == NIL)
		capstan_bounds_end_attempts(run);
	capstan_copy_set_step(run, COPY_TOUCHED);
	capstan_coordinator_set_phase(run, ROUND_VIEWS_OPEN, false);
	CAPSTAN_FAULT("views_announced");
	capstan_coordinator_await_phase(run, ROUND_COPY);
	capstan_copy_ranges(run);
	capstan_copy_drop_view(run);
	capstan_copy_set_step(run, COPY_DONE);
	CAPSTAN_FAULT("copy_done");
	capstan_coordinator_await_phase(run, ROUND_FINISHED);
	capstan_roundplan_learn(run);
}

/* How many tables may share the next round: as many as may be locked.  While none may, small ones come alone, too. */
static void
limit_batch(CopyRun *run, int want)
{
	int			allowed;

	while ((allowed = capstan_connections_for_batch(run->slot, want)) < want)
	{
		capstan_lockbatch_shrink(run->batch, allowed);
		want = allowed;
	}
	capstan_lockbatch_shrink(run->batch, allowed);
	run->most_tables = Max(allowed, 1);
}

void
capstan_coordinator_main(CopyRun *run)
{
	MemoryContext plan_context = AllocSetContextCreate(run->run_context, "capstan round plan", ALLOCSET_DEFAULT_SIZES);

	/* the others may need a moment to start */
	while (others_reached(run, COPY_WAITING) == 0)
		wait_phase(run);
	if (run->consistent)
	{
		capstan_consistent_main(run);
		return;
	}
	MemoryContextSwitchTo(run->run_context);
	run->lock = capstan_tablelock_create(run->options, run->source_uuid);
	run->batch = capstan_lockbatch_create(run->options, run->source_uuid, CAPSTAN_ROUND_TABLES);
	run->batch_tables = LEAST_BATCH;
	MemoryContextSwitchTo(run->round_context);

	for (;;)
	{
		RoundPlan	plan;
		bool		more;
		MemoryContext round_context = run->round_context;

		limit_batch(run, run->no_small_tables ? 0 : CAPSTAN_ROUND_TABLES);
		run->most_tables = Min(run->most_tables, run->batch_tables);
		/* the plan outlives what prepare makes of the round's context */
		run->described_table = 0;
		MemoryContextReset(plan_context);
		run->round_context = plan_context;
		MemoryContextSwitchTo(plan_context);
		more = capstan_roundplan_next(run, &plan);
		run->round_context = round_context;
		MemoryContextSwitchTo(round_context);
		if (!more)
			return;
		if (plan.blocked)
		{
			give_way(run, &plan);
			continue;
		}
		CAPSTAN_FAULT("plan_committed");
		if (plan.ntables == 1)
			limit_batch(run, 0);
		run_round(run, &plan);
	}
}
