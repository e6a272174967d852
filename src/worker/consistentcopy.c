/*
 * consistentcopy.c
 *		The copy workers' side of snapshot => 'consistent': all tables at one GTID set G.
 *
 * Called by coordinator.c (copy worker 0) and copyworker.c.  The pipeline worker's side, and the proof, are in
 * consistentgate.c.  The phases are those of a round (shmem.h), of which there is only this one:
 *
 *	 PREPARE		the coordinator pins all tables: reads no row of each in one transaction, whose metadata locks
 *					keep every DDL off them until the copy is complete
 *	 lock			globallock.c; then G := @@GLOBAL.gtid_executed
 *	 OPEN_VIEWS		wait until every copy worker has its view open; unlock
 *	 VIEWS_OPEN		G is stored; the pipeline worker notes the tables
 *	 COPY			every copy worker takes work until none is left
 *
 * Pins come before the lock, not after it: opening thousands of tables takes seconds, and between an unlock and a pin a table could be
 * exchanged for another one (RENAME) that the views know as well.  One connection pins for all; should it be lost, the copy is.  It is
 * the one that connections.c counts for the stream, which is not open yet.
 *
 * Work is handed out in this order, which all workers compute alike:
 *
 *	 large tables that cannot be read by ranges, one at a time: they take longest
 *	 large tables by ranges: every worker takes the next range of the same table, the boundary found in its own view
 *	 small tables, some at a time: they even out the end
 *
 * Each piece is a Postgres transaction.  What is committed serves nobody if the copy fails: it starts over.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "errcodes.h"
#include "snapshot/globallock.h"
#include "snapshot/readview.h"
#include "worker/copyworker.h"

/* The lock is held no longer than this for views to be opened. */
#define VIEWS_TIMEOUT_MS 500
#define READY_TIMEOUT_MS 60000
/* The first try waits so long, each further one twice as long, up to capstan.max_lock_wait. */
#define FIRST_BOUND_MS 100
#define PAUSE_LEAST_MS 50
/* Time for tries; after that a warning incident and a longer pause. */
#define LOCK_BUDGET_MS 30000
#define LOCK_PAUSE_MS 5000
/* A join has at most 61 tables. */
#define PIN_TABLES 60
/* Seconds; the greatest that MySQL takes. */
#define PIN_IDLE_TIMEOUT_S 31536000
/* How often it is made sure, between two pieces of work, that the pins are still there. */
#define PIN_CHECK_MS 10000

/* What counts as small does not depend on settings: all workers must agree. */
#define SMALL_ROWS 1000
#define SMALL_BYTES (1024 * 1024)
#define SMALL_AT_A_TIME 32
/* Of small tables, so many are described at once: information_schema costs about as much for one table. */
#define DESCRIBED_AT_ONCE 2000

/* Noted of a table that looked small and is not: the source's estimates are wrong, and nothing is known of its rows. */
#define FOUND_LARGE_ROWS (SMALL_ROWS + 1)
/* So many tables are looked into by one statement, in this time. */
#define LOOK_TABLES 50
#define LOOK_BOUND_MS 5000

/* Of a range. */
#define RANGE_BYTES (32 * 1024 * 1024)
#define LEAST_RANGE_ROWS 500
#define UNKNOWN_ROW_BYTES 200

/* The tables in the order of work. */
typedef struct WorkList
{
	int			ntables;
	PipelineTable **tables;
	int			nwhole;			/* the first so many: large, not by ranges */
	int			nlarge;			/* with those that come by ranges; the rest is small */

	/* small tables: what the source says of those from `described_from` on */
	MemoryContext description_context;
	int			described_from;
	int			ndescribed;
	List	   *described;		/* of SourceTableInfo *; NULL: gone */
} WorkList;

/* The coordinator's connection that pins all tables. */
static SourceConn *pin = NULL;
static TimestampTz pin_checked_at = 0;

static void
pause_ms(long ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
	long		left;

	while ((left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until)) > 0)
		capstan_process_wait(left, CAPSTAN_WAIT_SOURCE_LOCK);
}

/* ---------------------------------------------------------------------
 * The cut
 * --------------------------------------------------------------------- */

/* Names of all tables, quoted; in the current memory context. */
static List *
load_names(CopyRun *run)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *tables;
	List	   *names = NIL;
	ListCell   *cell;

	capstan_copy_begin_catalog(run);
	tables = capstan_meta_tables(run->pipeline->id);
	MemoryContextSwitchTo(caller);
	foreach(cell, tables)
	{
		PipelineTable *table = lfirst(cell);

		names = lappend(names, capstan_quoted_table(table->source_schema, table->source_table));
	}
	capstan_copy_commit_catalog(run);
	MemoryContextSwitchTo(caller);
	return names;
}

static void
unpin(void)
{
	capstan_wire_exec(pin, "COMMIT");
}

/* False: some table's metadata is not to be had now. */
static bool
pin_tables(List *names)
{
	List	   *some = NIL;
	ListCell   *cell;

	capstan_wire_exec(pin, "START TRANSACTION");
	foreach(cell, names)
	{
		some = lappend(some, lfirst(cell));
		if (list_length(some) < PIN_TABLES && lnext(names, cell) != NULL)
			continue;
		if (!capstan_readview_pin(pin, some))
			return false;
		list_free(some);
		some = NIL;
	}
	pin_checked_at = GetCurrentTimestamp();
	return true;
}

/* Raises if the connection is gone, and the pins with it. */
static void
check_pin(long unless_within_ms)
{
	if (pin == NULL || !TimestampDifferenceExceeds(pin_checked_at, GetCurrentTimestamp(), unless_within_ms))
		return;
	capstan_wire_exec(pin, "DO 0");
	pin_checked_at = GetCurrentTimestamp();
}

/* kind: the lock that was held; GLOBAL_LOCK_NONE and hold_us 0: none was had. */
static void
save_lock_figures(CopyRun *run, const GlobalLock *lock, GlobalLockKind kind, int64 hold_us)
{
	LockFigures figures;

	figures.read = kind == GLOBAL_LOCK_TABLES;
	figures.flush = kind == GLOBAL_LOCK_GLOBAL;
	figures.write = 0;
	figures.tries = lock->tries;
	figures.wait_worst_us = lock->wait_worst_us;
	figures.wait_total_us = lock->wait_total_us;
	figures.hold_us = hold_us;
	capstan_meta_add_lock_figures_to_all(run->pipeline->id, &figures);
}

static void
report_no_cut(CopyRun *run, const GlobalLock *lock)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = capstan_errcode_class(CAPSTAN_ERRCODE_LOCK);
	incident.sqlerrcode = CAPSTAN_ERRCODE_LOCK;
	incident.message = pstrdup("no lock on all tables for the consistent snapshot yet");
	incident.detail = psprintf("%d tries within %d s; worst wait %d ms; last answer of the source: %s", lock->tries,
							   LOCK_BUDGET_MS / 1000, (int) (lock->wait_worst_us / 1000),
							   lock->refusal[0] == '\0' ? "none" : lock->refusal);
	incident.hint = capstan_globallock_hint(lock);
	capstan_copy_begin_catalog(run);
	(void) capstan_meta_record_incident(&incident);
	save_lock_figures(run, lock, GLOBAL_LOCK_NONE, 0);
	capstan_copy_commit_catalog(run);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errdetail_internal("%s", incident.detail),
			 errhint("%s", incident.hint)));
}

/* The lock is held: G, and the views, ours and the others'; then the lock is given back.  False: not all views were open in time. */
static bool
open_views(CopyRun *run, GlobalLock *lock)
{
	char	   *gtid_set = capstan_wire_query_not_null(lock->conn, "SELECT @@GLOBAL.gtid_executed");
	GlobalLockKind kind = lock->held;
	bool		good;
	int64		hold_us;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->touch_in_lock = true;
	run->slot->nleft_out = 0;
	LWLockRelease(Capstan->lock);
	capstan_coordinator_set_phase(run, ROUND_OPEN_VIEWS, false);
	good = capstan_copy_open_view(run, true) == COPY_TOUCHED;
	good = good && capstan_coordinator_wait_for_others(run, COPY_TOUCHED, VIEWS_TIMEOUT_MS);
	hold_us = capstan_globallock_release(lock);

	capstan_copy_begin_catalog(run);
	save_lock_figures(run, lock, kind, hold_us);
	capstan_globallock_begin(lock);
	if (good)
		capstan_meta_save_round(run->pipeline->id, run->round, gtid_set);
	capstan_copy_commit_catalog(run);
	return good;
}

static void
take_cut(CopyRun *run, GlobalLock *lock, List *names)
{
	TimestampTz give_up_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LOCK_BUDGET_MS);
	long		bound = Min(FIRST_BOUND_MS, capstan_max_lock_wait);
	MemoryContext try_context = AllocSetContextCreate(run->run_context, "capstan lock try", ALLOCSET_DEFAULT_SIZES);

	capstan_globallock_begin(lock);
	for (run->attempt = 1;; run->attempt++)
	{
		TimestampTz start = GetCurrentTimestamp();
		long		tried_ms;

		MemoryContextReset(try_context);
		MemoryContextReset(run->round_context);
		MemoryContextSwitchTo(try_context);
		capstan_coordinator_set_phase(run, ROUND_PREPARE, true);
		if (!capstan_coordinator_wait_for_others(run, COPY_READY, READY_TIMEOUT_MS))
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_COPY_WORKER),
					 errmsg("not every copy worker got ready for the consistent snapshot")));
		if (pin_tables(names))
		{
			start = GetCurrentTimestamp();
			if (!capstan_globallock_try(lock, names, bound))
				bound = Min(bound * 2, capstan_max_lock_wait);
			else if (open_views(run, lock))
			{
				capstan_bounds_end_attempts(run);
				return;
			}
		}
		/* an ALTER that waits for our pins holds back writers */
		unpin();
		capstan_copy_drop_view(run);
		if (GetCurrentTimestamp() >= give_up_at)
		{
			report_no_cut(run, lock);
			capstan_bounds_count_attempt(run, "all tables");
			capstan_globallock_begin(lock);
			bound = Min(FIRST_BOUND_MS, capstan_max_lock_wait);
			pause_ms(LOCK_PAUSE_MS);
			give_up_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LOCK_BUDGET_MS);
		}
		/* twice as long as the try on average, at random, so as not to move in step with the writers */
		tried_ms = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
		pause_ms(Max(PAUSE_LEAST_MS, tried_ms + (long) (2.0 * tried_ms * random() / (double) RAND_MAX)));
	}
}

static bool
looks_small(const PipelineTable *table)
{
	return table->rows_estimate >= 0 && table->rows_estimate <= SMALL_ROWS && table->bytes_estimate <= SMALL_BYTES;
}

/* Their places among the n tables that have more rows than a small one, as text; NULL: they could not be read in time. */
static SourceResult *
look_into(SourceConn *conn, PipelineTable **tables, int n)
{
	StringInfoData sql;
	SourceResult *large = NULL;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT /*+ MAX_EXECUTION_TIME(%d) */ place FROM (", LOOK_BOUND_MS);
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s(SELECT %d AS place FROM %s LIMIT 1 OFFSET %d)", i == 0 ? "" : " UNION ALL ", i,
						 capstan_quoted_table(tables[i]->source_schema, tables[i]->source_table), SMALL_ROWS);
	appendStringInfoString(&sql, ") AS looked");
	return capstan_wire_try_query(conn, sql.data, WIRE_VALUE, &large, NULL) == 0 ? large : NULL;
}

/*
 * A table that is small by the source's estimates, which may be old, and large in fact would be copied by one worker while the others
 * have nothing to do.  Before the lock, since it only decides who copies what; noted in the catalog, where all workers find it.
 */
static void
find_large(CopyRun *run)
{
	MemoryContext context = AllocSetContextCreate(run->run_context, "capstan look", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	PipelineTable *looked[LOOK_TABLES];
	List	   *tables;
	List	   *ids = NIL;
	ListCell   *cell;
	int			n = 0;

	capstan_copy_begin_catalog(run);
	MemoryContextSwitchTo(context);
	tables = capstan_meta_tables(run->pipeline->id);
	capstan_copy_commit_catalog(run);
	MemoryContextSwitchTo(context);
	foreach(cell, tables)
	{
		SourceResult *large;

		if (looks_small(lfirst(cell)))
			looked[n++] = lfirst(cell);
		if (n == 0 || (n < LOOK_TABLES && lnext(tables, cell) != NULL))
			continue;
		large = look_into(run->conn, looked, n);
		for (int i = 0; large != NULL && i < large->nrows; i++)
			ids = lappend(ids, &looked[Min(Max(atoi(large->rows[i][0]), 0), n - 1)]->id);
		n = 0;
	}
	capstan_copy_begin_catalog(run);
	foreach(cell, ids)
		capstan_meta_set_rows_estimate(*(int64 *) lfirst(cell), FOUND_LARGE_ROWS);
	capstan_copy_commit_catalog(run);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

void
capstan_consistent_main(CopyRun *run)
{
	GlobalLock *lock;
	List	   *names;
	MemoryContext lock_context = AllocSetContextCreate(run->run_context, "capstan global lock", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(lock_context);
	lock = capstan_globallock_create(run->options, run->source_uuid);
	pin = capstan_wire_connect_to(run->options, "pin", run->source_uuid);
	capstan_wire_exec(pin, psprintf("SET SESSION wait_timeout = %d", PIN_IDLE_TIMEOUT_S));
	names = load_names(run);
	find_large(run);

	capstan_copy_begin_catalog(run);
	run->round = capstan_meta_last_round(run->pipeline->id) + 1;
	capstan_meta_save_round(run->pipeline->id, run->round, NULL);
	capstan_copy_commit_catalog(run);
	take_cut(run, lock, names);
	capstan_wire_close(lock->conn);
	capstan_wire_close(lock->helper);
	MemoryContextSwitchTo(run->round_context);

	capstan_copy_set_step(run, COPY_TOUCHED);
	capstan_coordinator_set_phase(run, ROUND_VIEWS_OPEN, false);
	capstan_coordinator_await_phase(run, ROUND_COPY);
	capstan_consistent_copy(run);
	capstan_copy_drop_view(run);
	while (!capstan_coordinator_wait_for_others(run, COPY_DONE, PIN_CHECK_MS))
		check_pin(0);
	check_pin(0);
	unpin();
	capstan_wire_close(pin);
	pin = NULL;
	capstan_copy_set_step(run, COPY_DONE);
	capstan_coordinator_await_phase(run, ROUND_FINISHED);
}

/* ---------------------------------------------------------------------
 * The work
 * --------------------------------------------------------------------- */

static int
work_class(const PipelineTable *table)
{
	if (looks_small(table))
		return 2;
	return table->key_pageable ? 1 : 0;
}

static int
compare_tables(const void *a, const void *b)
{
	const PipelineTable *left = *(PipelineTable *const *) a;
	const PipelineTable *right = *(PipelineTable *const *) b;
	int			difference = work_class(left) - work_class(right);

	if (difference != 0)
		return difference;
	if (work_class(left) < 2 && left->bytes_estimate != right->bytes_estimate)
		return left->bytes_estimate > right->bytes_estimate ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id ? 1 : 0;
}

/* In the current memory context. */
static WorkList *
make_work_list(CopyRun *run)
{
	MemoryContext caller = CurrentMemoryContext;
	WorkList   *work = palloc0(sizeof(WorkList));
	List	   *tables;
	ListCell   *cell;

	work->description_context = AllocSetContextCreate(caller, "capstan descriptions", ALLOCSET_DEFAULT_SIZES);
	capstan_copy_begin_catalog(run);
	MemoryContextSwitchTo(caller);
	tables = capstan_meta_tables(run->pipeline->id);
	capstan_copy_commit_catalog(run);
	MemoryContextSwitchTo(caller);
	work->tables = palloc(sizeof(PipelineTable *) * Max(list_length(tables), 1));
	foreach(cell, tables)
		work->tables[work->ntables++] = lfirst(cell);
	qsort(work->tables, work->ntables, sizeof(PipelineTable *), compare_tables);
	while (work->nwhole < work->ntables && work_class(work->tables[work->nwhole]) == 0)
		work->nwhole++;
	work->nlarge = work->nwhole;
	while (work->nlarge < work->ntables && work_class(work->tables[work->nlarge]) == 1)
		work->nlarge++;
	return work;
}

/* Takes up to `most` places of a list; returns how many, *first is where they begin. */
static int
take(int *next, int end, int most, int *first)
{
	int			n;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	*first = *next;
	n = Max(Min(most, end - *first), 0);
	*next = *first + n;
	LWLockRelease(Capstan->lock);
	return n;
}

static CopyRange *
make_range(const CopyRun *run, const PipelineTable *table, int64 seq)
{
	CopyRange  *range = palloc0(sizeof(CopyRange));

	range->table_id = table->id;
	range->generation = table->generation;
	range->seq = seq;
	range->worker = run->index;
	return range;
}

static void
add_job(CopyRun *run, ApplyTable *table, SourceTable *source, CopyRange *range)
{
	RangeJob   *job = palloc0(sizeof(RangeJob));

	job->range = range;
	job->table = table;
	job->source = source;
	job->quoted_name = capstan_quoted_table(source->schema_name, source->table_name);
	run->jobs = lappend(run->jobs, job);
}

/* Copies the jobs that were added; what is in the round's context is freed. */
static void
copy_jobs(CopyRun *run)
{
	capstan_copy_ranges(run);
	run->jobs = NIL;
	run->gtid_set = NULL;
	check_pin(PIN_CHECK_MS);
	capstan_process_check_interrupts();
	MemoryContextSwitchTo(run->round_context);
	MemoryContextReset(run->round_context);
}

/* Tables as a whole, in one transaction; sources: in their order. */
static void
copy_whole(CopyRun *run, PipelineTable **tables, SourceTable **sources, int n)
{
	ApplyTable *targets[SMALL_AT_A_TIME];
	List	   *ranges = NIL;

	Assert(n <= SMALL_AT_A_TIME);
	for (int i = 0; i < n; i++)
		ranges = lappend(ranges, make_range(run, tables[i], 1));
	capstan_copy_begin_catalog(run);
	for (int i = 0; i < n; i++)
		capstan_apply_force_sync(tables[i]->target);
	capstan_meta_plan_ranges(ranges, run->round);
	capstan_copy_commit_catalog(run);
	for (int i = 0; i < n; i++)
	{
		targets[i] = capstan_apply_table_create(tables[i], run->pipeline->owner, run->pipeline->policies, run->run_context);
		add_job(run, targets[i], sources[i], list_nth(ranges, i));
	}
	copy_jobs(run);
	for (int i = 0; i < n; i++)
		capstan_apply_table_free(targets[i]);
}

/* The next range of the table, planned in the catalog; NULL: nobody has left anything of it. */
static CopyRange *
take_range(CopyRun *run, const PipelineTable *table, const SourceTable *source)
{
	int64		row_bytes = table->rows_estimate > 0 && table->rows_estimate != FOUND_LARGE_ROWS ?
		Max(table->bytes_estimate / table->rows_estimate, 1) : UNKNOWN_ROW_BYTES;
	int64		rows = Min(Max(RANGE_BYTES / row_bytes, LEAST_RANGE_ROWS), capstan_max_range_rows);
	CopyRange  *last;
	CopyRange  *range = NULL;

	capstan_copy_begin_catalog(run);
	capstan_meta_lock_table(table->id);
	last = capstan_meta_last_range(table->id, table->generation);
	if (last == NULL || last->high != NULL)
	{
		range = make_range(run, table, last == NULL ? 1 : last->seq + 1);
		range->low = last == NULL ? NULL : last->high;
		range->high = capstan_roundplan_boundary(run->conn, source, range->low, rows);
		range->nkey = source->nkey;
		capstan_apply_force_sync(table->target);
		capstan_meta_plan_ranges(list_make1(range), run->round);
	}
	capstan_copy_commit_catalog(run);
	return range;
}

static void
copy_by_ranges(CopyRun *run, PipelineTable *table, SourceTable *source)
{
	ApplyTable *target = capstan_apply_table_create(table, run->pipeline->owner, run->pipeline->policies, run->run_context);
	CopyRange  *range;

	while ((range = take_range(run, table, source)) != NULL)
	{
		add_job(run, target, source, range);
		copy_jobs(run);
	}
	capstan_apply_table_free(target);
}

/* These small tables as the source has them. */
static void
describe_small(CopyRun *run, WorkList *work, int place, int n, SourceTable **sources)
{
	if (work->described == NIL || place < work->described_from || place + n > work->described_from + work->ndescribed)
	{
		List	   *names = NIL;

		MemoryContextReset(work->description_context);
		MemoryContextSwitchTo(work->description_context);
		work->described_from = place;
		work->ndescribed = Min(DESCRIBED_AT_ONCE, work->ntables - place);
		for (int i = 0; i < work->ndescribed; i++)
			names = lappend(names, list_make2(work->tables[place + i]->source_schema, work->tables[place + i]->source_table));
		work->described = capstan_wire_describe_tables(run->conn, names);
		MemoryContextSwitchTo(run->round_context);
	}
	for (int i = 0; i < n; i++)
		sources[i] = capstan_copy_check_described(work->tables[place + i],
												  list_nth(work->described, place + i - work->described_from));
}

/* A large table as the source has it, in `context`, which is reset. */
static SourceTable *
describe_large(CopyRun *run, const PipelineTable *table, MemoryContext context)
{
	SourceTable *source;

	MemoryContextReset(context);
	MemoryContextSwitchTo(context);
	source = capstan_copy_describe(run, table);
	MemoryContextSwitchTo(run->round_context);
	return source;
}

void
capstan_consistent_copy(CopyRun *run)
{
	MemoryContext work_context = AllocSetContextCreate(run->run_context, "capstan work list", ALLOCSET_DEFAULT_SIZES);
	MemoryContext large_context = AllocSetContextCreate(work_context, "capstan large table", ALLOCSET_DEFAULT_SIZES);
	WorkList   *work;
	int			first;
	int			n;

	MemoryContextSwitchTo(work_context);
	work = make_work_list(run);
	MemoryContextSwitchTo(run->round_context);

	while (take(&run->slot->next_whole, work->nwhole, 1, &first) > 0)
	{
		SourceTable *source = describe_large(run, work->tables[first], large_context);

		copy_whole(run, &work->tables[first], &source, 1);
	}
	for (int i = work->nwhole; i < work->nlarge; i++)
		copy_by_ranges(run, work->tables[i], describe_large(run, work->tables[i], large_context));
	while ((n = take(&run->slot->next_small, work->ntables - work->nlarge, SMALL_AT_A_TIME, &first)) > 0)
	{
		SourceTable *sources[SMALL_AT_A_TIME];

		first += work->nlarge;
		describe_small(run, work, first, n, sources);
		copy_whole(run, &work->tables[first], sources, n);
	}
	MemoryContextDelete(work_context);
}
