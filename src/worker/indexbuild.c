/*
 * indexbuild.c
 *		The pipeline worker's side of building indexes: when all is copied, start index workers, and again until there is
 *		nothing left to do.
 *
 * Called between groups of the stream, which goes on meanwhile.  The other side is indexworker.c; what is to be done and what
 * is done is in capstan.table_object, so a worker that ended, for whatever reason, is simply followed by another.
 *
 * Index workers outlive the pipeline worker that has started them: what has taken hours so far goes on when the source is gone for a
 * while, and the next pipeline worker's index workers find those tables locked.  The launcher ends them when the pipeline is not to run.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "meta/tableobject.h"
#include "worker/pipelineworker.h"

/* How often workers that should be there are looked after. */
#define CHECK_MS 100
/* After workers that left something undone: a while, doubling. */
#define AGAIN_FIRST_MS 1000
#define AGAIN_LONGEST_MS 30000

static BackgroundWorkerHandle *handles[CAPSTAN_MAX_COPY_WORKERS];
static int	nhandles = 0;
static bool done = false;
static bool begun = false;
static long again_ms = AGAIN_FIRST_MS;
static TimestampTz look_at = 0;

/* How many tables there is something to do for. */
static int
count_tables(PipelineRun *run)
{
	int			count;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->event_context);
	count = list_length(capstan_meta_unindexed_tables(run->pipeline->id));
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->event_context);
	return count;
}

static bool
start_worker(PipelineRun *run, int index)
{
	BackgroundWorker worker;
	WorkerArgs	args = MyArgs;
	MemoryContext caller;
	bool		started;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = Int32GetDatum((int32) (run->slot - Capstan->slots));
	strlcpy(worker.bgw_library_name, "capstan", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "capstan_index_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_type, "capstan index", sizeof(worker.bgw_type));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "capstan index \"%s\" %d", NameStr(run->slot->name), index + 1);
	args.generation = run->slot->run_id;
	args.copy_index = index;
	memcpy(worker.bgw_extra, &args, sizeof(args));
	caller = MemoryContextSwitchTo(run->stream_context);
	started = RegisterDynamicBackgroundWorker(&worker, &handles[nhandles]);
	MemoryContextSwitchTo(caller);
	if (started)
		nhandles++;
	return started;
}

static bool
all_ended(void)
{
	for (int i = 0; i < nhandles; i++)
	{
		pid_t		pid;

		if (GetBackgroundWorkerPid(handles[i], &pid) != BGWH_STOPPED)
			return false;
	}
	for (int i = 0; i < nhandles; i++)
		pfree(handles[i]);
	nhandles = 0;
	return true;
}

void
capstan_index_supervise(PipelineRun *run)
{
	TimestampTz now;
	int			tables;
	int			wanted;
	bool		again;

	if (done)
		return;
	now = GetCurrentTimestamp();
	if (now < look_at)
		return;
	look_at = TimestampTzPlusMilliseconds(now, CHECK_MS);
	again = nhandles > 0;
	if (!all_ended())
		return;
	tables = count_tables(run);
	if (tables == 0)
	{
		done = true;
		if (begun)
			ereport(LOG,
					(errmsg("capstan pipeline \"%s\": indexes complete", run->pipeline->name)));
		return;
	}
	if (again)
	{
		/* they left something undone */
		look_at = TimestampTzPlusMilliseconds(now, again_ms);
		again_ms = Min(again_ms * 2, AGAIN_LONGEST_MS);
		return;
	}
	wanted = Min(tables, capstan_copy_workers);
	while (nhandles < wanted && start_worker(run, nhandles))
		continue;
	if (!begun || nhandles == 0)
		ereport(LOG,
				(errmsg("capstan pipeline \"%s\": indexes of %d tables to be built, %d index workers", run->pipeline->name, tables, nhandles),
				 nhandles < wanted ? errhint("Increase max_worker_processes.") : 0));
	begun = true;
	if (nhandles == 0)
	{
		look_at = TimestampTzPlusMilliseconds(now, again_ms);
		again_ms = Min(again_ms * 2, AGAIN_LONGEST_MS);
	}
}
