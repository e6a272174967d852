/*
 * copyworker.c
 *		Copy workers: during a snapshot they read key ranges from the source and write
 *		them to the target.
 *
 * Started by the pipeline worker.  A round, as one of them lives it (see roundgate.c for
 * the proof and coordinator.c for who moves the phases on):
 *
 *	 PREPARE		find the own ranges, describe their tables		-> step READY
 *	 OPEN_VIEWS		open the read view, touch the tables			-> step TOUCHED (VIEW_OPEN without the touch)
 *	 TOUCH			touch the table, after a lock by WRITE or FLUSH   -> step TOUCHED
 *	 COPY			read and write the ranges (rangecopy.c), one transaction	-> step DONE
 *
 * The worker holds a lock for life (lock.h) that keeps a new pipeline worker from
 * streaming while it could still commit.
 *
 * A failure is recorded (failure.c) and ends the worker; the pipeline worker sees that and ends
 * too, so that everything starts again from the catalog.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "errcodes.h"
#include "snapshot/readview.h"
#include "worker/connections.h"
#include "worker/copyworker.h"
#include "worker/fault.h"
#include "worker/lock.h"
#include "worker/serveroptions.h"

/* A phase change wakes us; this is only how long a lost one could cost. */
#define PHASE_POLL_MS 1000

PGDLLEXPORT void capstan_copy_main(Datum main_arg);

void
capstan_copy_set_step(CopyRun *run, CopyWorkerStep step)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	/* what belongs to an attempt that was given up must not count for the next one */
	if (run->slot->run_id == MyArgs.generation && run->slot->round == run->round && run->slot->attempt == run->attempt)
	{
		run->slot->copy[run->index].step = step;
		capstan_shmem_wake(run->slot);
	}
	LWLockRelease(Capstan->lock);
}

void
capstan_copy_begin_catalog(CopyRun *run)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->round_context);
}

void
capstan_copy_commit_catalog(CopyRun *run)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->round_context);
}

/* The table as the source has it now (NULL: gone) must be the one that was captured. */
SourceTable *
capstan_copy_check_described(const PipelineTable *info, SourceTableInfo *described)
{
	StrBuf		signature;

	if (described == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("source table %s.%s is gone before it was copied", info->source_schema, info->source_table),
				 errhint("Call capstan.remove_table().  Or, if the table is there and only hidden from the account: GRANT SELECT, LOCK TABLES ON %s.*, "
						 "and call capstan.resume_pipeline().", capstan_wire_quote_identifier(info->source_schema))));
	capstan_strbuf_init(&signature);
	capstan_source_table_signature(&described->table, &signature);
	if (strcmp(signature.data, info->definition) != 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
				 errmsg("source table %s.%s is not what it was when it was captured", info->source_schema, info->source_table),
				 errdetail("Captured: %s. Now: %s.", info->definition, signature.data),
				 errhint("Make the target table what it should be, and call capstan.resync_table().")));
	capstan_strbuf_free(&signature);
	if (described->masked_column != NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("column %s of source table %s.%s has a masking policy", described->masked_column, info->source_schema, info->source_table),
				 errdetail("Queries get what the policy makes of a value, the binary log has the value itself."),
				 errhint("Drop the policy from the column, and call capstan.resync_table(), or call capstan.remove_table().")));
	return &described->table;
}

SourceTable *
capstan_copy_describe(CopyRun *run, const PipelineTable *info)
{
	return capstan_copy_check_described(info, capstan_wire_describe_table(run->conn, info->source_schema, info->source_table));
}

/* The same for all tables of this worker in the round; many: in a round of many tables. */
static List *
describe_tables(CopyRun *run, List *tables, bool many)
{
	List	   *sources = NIL;
	ListCell   *cell;

	if (list_length(tables) == 1 && run->described_table == ((PipelineTable *) linitial(tables))->id)
		return list_make1(run->described);
	if (many)
		capstan_window_cover(run, tables);
	foreach(cell, tables)
	{
		PipelineTable *info = lfirst(cell);
		SourceTableInfo *source;

		if (!many || !capstan_window_find(run, info->id, &source))
			source = capstan_wire_describe_table(run->conn, info->source_schema, info->source_table);
		sources = lappend(sources, capstan_copy_check_described(info, source));
	}
	return sources;
}

/* Jobs of the last round are freed with their tables' plans. */
static void
forget_jobs(CopyRun *run)
{
	ApplyTable *last = NULL;
	ListCell   *cell;

	foreach(cell, run->jobs)
	{
		RangeJob   *job = lfirst(cell);

		if (job->table != last)
			capstan_apply_table_free(job->table);
		last = job->table;
	}
	run->jobs = NIL;
	run->gtid_set = NULL;
	MemoryContextSwitchTo(run->round_context);
	MemoryContextReset(run->round_context);
}

static bool
is_left_out(const CopyRun *run, const RangeJob *job)
{
	for (int i = 0; i < run->nleft_out; i++)
		if (run->left_out[i] == job->range->table_id)
			return true;
	return false;
}

/* The names of the tables that this worker copies in the round, each once. */
static List *
tables_to_touch(CopyRun *run)
{
	ListCell   *cell;
	ApplyTable *last = NULL;
	List	   *names = NIL;

	foreach(cell, run->jobs)
	{
		RangeJob   *job = lfirst(cell);

		if (job->table != last && !is_left_out(run, job))
			names = lappend(names, job->quoted_name);
		last = job->table;
	}
	return names;
}

void
capstan_copy_prepare(CopyRun *run)
{
	List	   *ranges;
	List	   *tables;
	List	   *sources;
	ListCell   *cell;
	RangeJob   *last = NULL;
	int			ntables = 0;
	bool		many;

	forget_jobs(run);
	LWLockAcquire(Capstan->lock, LW_SHARED);
	many = run->slot->many;
	LWLockRelease(Capstan->lock);
	capstan_copy_begin_catalog(run);
	ranges = capstan_meta_ranges_of_round(run->pipeline->id, run->round, run->index);
	CAPSTAN_FAULT("ranges_read");
	tables = ranges == NIL ? NIL : capstan_meta_tables_of_worker(run->pipeline->id, run->round, run->index);
	capstan_copy_commit_catalog(run);
	sources = describe_tables(run, tables, many);

	/* by table and seq, so that jobs of one table follow each other */
	foreach(cell, ranges)
	{
		RangeJob   *job = palloc0(sizeof(RangeJob));

		job->range = lfirst(cell);
		if (last != NULL && last->range->table_id == job->range->table_id)
		{
			job->table = last->table;
			job->source = last->source;
			job->quoted_name = last->quoted_name;
		}
		else
		{
			PipelineTable *info = ntables < list_length(tables) ? list_nth(tables, ntables) : NULL;

			/* resynced or removed since the ranges were read */
			if (info == NULL || info->id != job->range->table_id || info->generation != job->range->generation)
				capstan_meta_raise_not_planned(job->range);
			job->source = list_nth(sources, ntables++);
			job->table = capstan_apply_table_create(info, run->pipeline->owner, run->pipeline->policies, run->round_context);
			job->quoted_name = capstan_quoted_table(info->source_schema, info->source_table);
		}
		run->jobs = lappend(run->jobs, job);
		last = job;
	}
	run->nleft_out = 0;
	if (run->jobs != NIL)
		capstan_readview_warm_up(run->conn, tables_to_touch(run));
}

CopyWorkerStep
capstan_copy_open_view(CopyRun *run, bool touch)
{
	List	   *names;
	bool		good = true;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	run->nleft_out = run->slot->nleft_out;
	memcpy(run->left_out, run->slot->left_out, sizeof(int64) * run->nleft_out);
	LWLockRelease(Capstan->lock);
	names = tables_to_touch(run);
	if (names == NIL && !run->consistent)
		return touch ? COPY_TOUCHED : COPY_VIEW_OPEN;
	if (touch && names != NIL)
		good = capstan_readview_open_and_touch(run->conn, names);
	else
		capstan_readview_open(run->conn);
	run->view_open = true;
	CAPSTAN_FAULT("view_open");
	return !good ? COPY_VIEW_FAILED : touch ? COPY_TOUCHED : COPY_VIEW_OPEN;
}

CopyWorkerStep
capstan_copy_touch(CopyRun *run)
{
	RangeJob   *job = run->jobs == NIL ? NULL : linitial(run->jobs);

	if (job != NULL && !capstan_readview_touch(run->conn, job->quoted_name))
		return COPY_VIEW_FAILED;
	/* a change that slipped in between unlock and touch and left the rows alone (RENAME COLUMN) is in no error */
	if (job != NULL)
		(void) capstan_copy_describe(run, job->table->info);
	return COPY_TOUCHED;
}

void
capstan_copy_drop_view(CopyRun *run)
{
	if (run->view_open)
		capstan_readview_close(run->conn);
	run->view_open = false;
}

/*
 * Phase COPY.  The ranges of this worker in one transaction: rows, copied_range, rows_copied.
 */
void
capstan_copy_ranges(CopyRun *run)
{
	instr_time	start;
	instr_time	end;
	ListCell   *cell;

	run->copied_rows = 0;
	run->copied_bytes = 0;
	run->copied_us = 0;
	if (run->jobs == NIL)
		return;
	CAPSTAN_FAULT("copy_begin");
	INSTR_TIME_SET_CURRENT(start);
	run->copy_started_at = GetCurrentTimestamp();
	capstan_copy_begin_catalog(run);
	run->gtid_set = capstan_meta_load_round(run->pipeline->id, run->round);
	if (run->gtid_set == NULL)
		elog(ERROR, "snapshot round " INT64_FORMAT " has no GTID set", run->round);
	capstan_apply_trim();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	MemoryContextSwitchTo(run->round_context);
	pgstat_report_activity(STATE_RUNNING, "copying");
	foreach(cell, run->jobs)
	{
		MemoryContext context;

		if (is_left_out(run, lfirst(cell)))
			continue;
		/* what is left stays planned */
		if (run->copied_rows > 0 && capstan_copy_time_is_up(run))
			break;
		context = AllocSetContextCreate(run->round_context, "capstan range", ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(context);
		run->copied_rows += capstan_copy_range(run, lfirst(cell));
		MemoryContextSwitchTo(run->round_context);
		MemoryContextDelete(context);
	}
	MyPlace.table[0] = '\0';
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	CAPSTAN_FAULT("copy_before_commit");
	capstan_copy_commit_catalog(run);
	CAPSTAN_FAULT("copy_committed");
	pgstat_report_activity(STATE_IDLE, NULL);
	pgstat_report_stat(true);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	run->copied_us = (int64) INSTR_TIME_GET_MICROSEC(end);
}

/* Where the slot is, from a follower's view. */
typedef struct RoundView
{
	RoundPhase	phase;
	int64		round;
	int			attempt;
	CopyWorkerStep step;
	bool		touch_in_lock;
	bool		over;			/* the coordinator is gone, or the run is another one's */
} RoundView;

static RoundView
look(CopyRun *run)
{
	RoundView	view;
	static bool coordinator_seen = false;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	view.phase = run->slot->phase;
	view.round = run->slot->round;
	view.attempt = run->slot->attempt;
	view.touch_in_lock = run->slot->touch_in_lock;
	view.step = run->slot->copy[run->index].step;
	if (run->slot->copy[0].pid != 0)
		coordinator_seen = true;
	view.over = run->slot->run_id != MyArgs.generation || run->slot->pid == 0 ||
		(coordinator_seen && run->slot->copy[0].pid == 0);
	LWLockRelease(Capstan->lock);
	return view;
}

static void
follow(CopyRun *run)
{
	for (;;)
	{
		RoundView	view = look(run);

		if (view.over)
			return;
		if (view.phase == ROUND_PREPARE && view.step == COPY_WAITING)
		{
			capstan_copy_drop_view(run);
			if (view.round != run->round)
			{
				run->round = view.round;
				if (!run->consistent)
					capstan_copy_prepare(run);
			}
			run->attempt = view.attempt;
			capstan_copy_set_step(run, COPY_READY);
		}
		else if (view.phase == ROUND_OPEN_VIEWS && view.step == COPY_READY && view.attempt == run->attempt)
			capstan_copy_set_step(run, capstan_copy_open_view(run, view.touch_in_lock));
		else if (view.phase == ROUND_TOUCH && view.step == COPY_VIEW_OPEN && view.attempt == run->attempt)
			capstan_copy_set_step(run, capstan_copy_touch(run));
		else if (view.phase == ROUND_COPY && view.step == COPY_TOUCHED)
		{
			if (run->consistent)
				capstan_consistent_copy(run);
			else
				capstan_copy_ranges(run);
			capstan_copy_drop_view(run);
			capstan_copy_set_step(run, COPY_DONE);
		}
		else
			capstan_process_wait(PHASE_POLL_MS, CAPSTAN_WAIT_ROUND);
	}
}

static void
detach(int code, Datum arg)
{
	CopyWorkerSlot *copy = &MySlot->copy[MyArgs.copy_index];

	LWLockReleaseAll();
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	if (copy->pid == MyProcPid)
	{
		copy->pid = 0;
		copy->latch = NULL;
		copy->step = COPY_ABSENT;
		capstan_connections_leave_copy(MySlot, MyArgs.copy_index);
		capstan_shmem_wake(MySlot);
	}
	LWLockRelease(Capstan->lock);
}

/* The place in the slot; false if the run that started us is over. */
static bool
attach(int index)
{
	bool		mine;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	MySlot = &Capstan->slots[index];
	mine = MySlot->in_use && MySlot->pid != 0 && MySlot->database == MyArgs.database &&
		MySlot->pipeline_id == MyArgs.pipeline_id &&
		MySlot->run_id == MyArgs.generation && MySlot->copy[MyArgs.copy_index].pid == 0;
	if (mine)
	{
		MySlot->copy[MyArgs.copy_index].pid = MyProcPid;
		MySlot->copy[MyArgs.copy_index].latch = MyLatch;
		MySlot->copy[MyArgs.copy_index].step = COPY_WAITING;
		before_shmem_exit(detach, (Datum) 0);
	}
	LWLockRelease(Capstan->lock);
	return mine;
}

static void
run_copy_worker(void)
{
	CopyRun    *run;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "capstan copy", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(context);
	run = palloc0(sizeof(CopyRun));
	run->run_context = context;
	run->round_context = AllocSetContextCreate(context, "capstan round", ALLOCSET_DEFAULT_SIZES);
	run->slot = MySlot;
	run->window = capstan_window_create(context);
	run->index = MyArgs.copy_index;
	LWLockAcquire(Capstan->lock, LW_SHARED);
	run->consistent = MySlot->consistent;
	strlcpy(run->source_uuid, MySlot->source_uuid, sizeof(run->source_uuid));
	LWLockRelease(Capstan->lock);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
	run->pipeline = capstan_meta_pipeline_by_id(MyArgs.pipeline_id);
	if (run->pipeline != NULL)
		run->options = capstan_server_options(run->pipeline->server, run->pipeline->owner);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	if (run->pipeline == NULL)
		return;
	SetConfigOption("synchronous_commit", GetConfigOption("capstan.synchronous_commit", false, false), PGC_SUSET, PGC_S_OVERRIDE);
	capstan_process_set_title("copy", run->pipeline->name, run->index);

	run->conn = capstan_wire_connect_to(run->options, psprintf("copy %s %d", run->pipeline->name, run->index + 1), run->source_uuid);
	capstan_readview_prepare(run->conn);
	MemoryContextSwitchTo(run->round_context);
	if (run->index == 0)
		capstan_coordinator_main(run);
	else
		follow(run);
}

void
capstan_copy_main(Datum main_arg)
{
	memcpy(&MyArgs, MyBgworkerEntry->bgw_extra, sizeof(MyArgs));
	if (!attach(DatumGetInt32(main_arg)))
		proc_exit(0);
	capstan_process_connect(MyArgs.database, MyArgs.owner);
	capstan_apply_init();
	capstan_lock_copy_worker(MyArgs.pipeline_id);

	PG_TRY();
	{
		run_copy_worker();
	}
	PG_CATCH();
	{
		capstan_failure_record(MySlot, MyArgs.pipeline_id, false);
		proc_exit(1);
	}
	PG_END_TRY();
	proc_exit(0);
}
