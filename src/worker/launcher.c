/*
 * launcher.c
 *		The launcher: one static background worker per cluster.
 *
 *	 server start (or crash restart, or promotion)
 *	   -> for each database, one at a time: a probe worker looks into capstan.pipeline
 *		  and marks what should run in shared memory
 *	   -> loop: start what is wanted and has no process, when its back-off is over;
 *		  end what is not wanted; free slots of stopped pipelines
 *
 * The launcher is connected to no database: it sees shared catalogs and shared memory
 * only.  It never decides whether a failure is worth a retry: the worker that failed
 * did (failure.c), by the state it left in its slot.
 */
#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "compat.h"
#include "meta/meta.h"
#include "worker/internal.h"
#include "worker/launcher.h"

#define LAUNCHER_NAP_MS 10000
#define START_RETRY_MS 1000
/* A database that could not be looked into is tried again after a while, which doubles. */
#define PROBE_RETRY_FIRST_MS 1000
#define PROBE_RETRY_LONGEST_MS 60000
#define OWNER_RETRY_MS 5000
/* Nothing is put off for longer than this. */
#define LONGEST_PAUSE_MS 60000

/* Handles of the pipeline workers started by this launcher, by slot. */
static BackgroundWorkerHandle **handles;

static void
forget_launcher(int code, Datum arg)
{
	LWLockReleaseAll();
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	Capstan->launcher_latch = NULL;
	Capstan->launcher_pid = 0;
	LWLockRelease(Capstan->lock);
}

/* Is the database one of capstan.databases (or is that empty)? */
static bool
is_configured(const char *database)
{
	List	   *names;
	ListCell   *cell;
	char	   *copy;

	if (capstan_databases == NULL || capstan_databases[0] == '\0')
		return true;
	copy = pstrdup(capstan_databases);
	if (!SplitIdentifierString(copy, ',', &names))
	{
		ereport(WARNING,
				(errmsg("capstan.databases is not a list of names: every database is looked into")));
		return true;
	}
	foreach(cell, names)
		if (strcmp(lfirst(cell), database) == 0)
			return true;
	return false;
}

static List *
list_databases(void)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *databases = NIL;
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext inside;

		if (!database->datallowconn || database->datistemplate || database->datconnlimit == -2 ||
			!is_configured(NameStr(database->datname)))
			continue;
		inside = MemoryContextSwitchTo(caller);
		databases = lappend_oid(databases, database->oid);
		MemoryContextSwitchTo(inside);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return databases;
}

static void
init_worker(BackgroundWorker *worker, const char *function, const char *type)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	worker->bgw_notify_pid = MyProcPid;
	strlcpy(worker->bgw_library_name, "capstan", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, sizeof(worker->bgw_function_name));
	strlcpy(worker->bgw_type, type, sizeof(worker->bgw_type));
}

/* Has the probe of the database come to its end? */
static bool
probe_succeeded(Oid database)
{
	bool		succeeded;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	succeeded = Capstan->probed == database;
	LWLockRelease(Capstan->lock);
	return succeeded;
}

/* Looks into every database once; false if some could not be looked into. */
static bool
probe_databases(void)
{
	List	   *databases = list_databases();
	ListCell   *cell;
	bool		complete = true;

	foreach(cell, databases)
	{
		BackgroundWorker worker;
		BackgroundWorkerHandle *handle;

		init_worker(&worker, "capstan_probe_main", "capstan probe");
		snprintf(worker.bgw_name, sizeof(worker.bgw_name), "capstan probe of database %u", lfirst_oid(cell));
		worker.bgw_main_arg = ObjectIdGetDatum(lfirst_oid(cell));
		LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
		Capstan->probed = InvalidOid;
		LWLockRelease(Capstan->lock);
		if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		{
			complete = false;
			continue;
		}
		if (WaitForBackgroundWorkerShutdown(handle) == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		pfree(handle);
		if (!probe_succeeded(lfirst_oid(cell)))
			complete = false;
	}
	list_free(databases);
	return complete;
}

/* Marked already, by start_pipeline or an earlier look? */
static bool
is_wanted(int64 pipeline_id)
{
	PipelineSlot *slot;
	bool		wanted;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	slot = capstan_shmem_find(MyDatabaseId, pipeline_id);
	wanted = slot != NULL && slot->wanted;
	LWLockRelease(Capstan->lock);
	return wanted;
}

/* One database: marks the pipelines that should run. */
PGDLLEXPORT void capstan_probe_main(Datum main_arg);

void
capstan_probe_main(Datum main_arg)
{
	List	   *pipelines = NIL;
	ListCell   *cell;

	capstan_process_connect(DatumGetObjectId(main_arg), InvalidOid);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (OidIsValid(get_extension_oid("capstan", true)))
		pipelines = capstan_meta_runnable_pipelines();
	foreach(cell, pipelines)
	{
		Pipeline   *pipeline = lfirst(cell);

		if (!pipeline->belongs_here)
			ereport(LOG,
					(errmsg("capstan pipeline \"%s\": not started, it belongs to another cluster or database", pipeline->name),
					 errhint("If this copy is the one to go on, call capstan.adopt_pipeline().")));
		else if (!is_wanted(pipeline->id) &&
				 !capstan_shmem_set_wanted(MyDatabaseId, pipeline->id, pipeline->name, pipeline->owner, true))
			ereport(WARNING,
					(errmsg("pipeline \"%s\" does not start: all slots are taken", pipeline->name),
					 errhint("Increase capstan.max_pipelines and restart the server.")));
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	Capstan->probed = MyDatabaseId;
	LWLockRelease(Capstan->lock);
	proc_exit(0);
}

/* Registers a pipeline worker for the slot; the caller holds no lock. */
static void
start_worker(int index)
{
	PipelineSlot *slot = &Capstan->slots[index];
	BackgroundWorker worker;
	WorkerArgs	args;
	static bool complained = false;

	init_worker(&worker, "capstan_pipeline_main", "capstan pipeline");
	LWLockAcquire(Capstan->lock, LW_SHARED);
	memset(&args, 0, sizeof(args));
	args.database = slot->database;
	args.owner = slot->owner;
	args.pipeline_id = slot->pipeline_id;
	args.generation = slot->generation;
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "capstan pipeline \"%s\"", NameStr(slot->name));
	LWLockRelease(Capstan->lock);
	worker.bgw_main_arg = Int32GetDatum(index);
	StaticAssertStmt(sizeof(args) <= BGW_EXTRALEN, "worker arguments do not fit");
	memcpy(worker.bgw_extra, &args, sizeof(args));

	if (handles[index] != NULL)
		pfree(handles[index]);
	handles[index] = NULL;
	if (RegisterDynamicBackgroundWorker(&worker, &handles[index]))
	{
		complained = false;
		return;
	}
	if (!complained)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("capstan pipeline \"%s\": no background worker can be started", NameStr(slot->name)),
				 errhint("Increase max_worker_processes and restart the server.")));
	complained = true;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	slot->restart_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), START_RETRY_MS);
	LWLockRelease(Capstan->lock);
}

/*
 * What the database says of connections.  Without a database of our own its row cannot be had from the cache if its privileges, those of
 * many roles, lie in the TOAST table: *readable then is false.
 */
static ConnectProblem
database_problem(Oid oid, bool *readable)
{
	ConnectProblem problem = CONNECT_NO_DATABASE;
	Relation	relation = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(relation, 0, NULL);
	HeapTuple	tuple;

	*readable = false;
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		if (database->oid != oid)
			continue;
		problem = database->datallowconn ? CONNECT_NO_PROBLEM : CONNECT_CLOSED_DATABASE;
		*readable = !HeapTupleHasExternal(tuple);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	return problem;
}

/* Why a worker could not connect as this role. */
static ConnectProblem
connect_problem(Oid database, Oid owner)
{
	HeapTuple	owner_tuple;
	ConnectProblem problem;
	bool		readable;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	problem = database_problem(database, &readable);
	owner_tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(owner));
	if (problem == CONNECT_NO_DATABASE)
		;
	else if (!HeapTupleIsValid(owner_tuple))
		problem = CONNECT_NO_OWNER;
	else if (!((Form_pg_authid) GETSTRUCT(owner_tuple))->rolcanlogin)
		problem = CONNECT_NO_LOGIN;
	/* else the worker itself is refused, and tried again */
	else if (problem == CONNECT_NO_PROBLEM && readable && COMPAT_CONNECT_ACLCHECK(database, owner) != ACLCHECK_OK)
		problem = CONNECT_NO_RIGHT;
	if (HeapTupleIsValid(owner_tuple))
		ReleaseSysCache(owner_tuple);
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	return problem;
}

const char *
capstan_connect_problem_text(ConnectProblem problem, const char **hint)
{
	static const struct
	{
		const char *text;
		const char *hint;
	}			texts[] = {
		[CONNECT_NO_PROBLEM] = {NULL, NULL},
		[CONNECT_NO_DATABASE] = {"its database does not exist any more", NULL},
		[CONNECT_CLOSED_DATABASE] = {"its database does not accept connections", "ALTER DATABASE .. ALLOW_CONNECTIONS true."},
		[CONNECT_NO_OWNER] = {"its owner does not exist any more", "Drop the pipeline and create it again as another role."},
		[CONNECT_NO_LOGIN] = {"its owner is not permitted to log in", "ALTER ROLE .. LOGIN, or drop the pipeline and create it again as another role."},
		[CONNECT_NO_RIGHT] = {"its owner may not connect to the database", "GRANT CONNECT ON DATABASE .. TO the owner."},
	};

	*hint = texts[problem].hint;
	return texts[problem].text;
}

/* The worker is due: start it, or put it off. */
static void
start_or_postpone(int index)
{
	PipelineSlot *slot = &Capstan->slots[index];
	ConnectProblem problem = connect_problem(slot->database, slot->owner);
	bool		told;
	const char *text;
	const char *hint;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	told = slot->problem == problem;
	slot->problem = problem;
	/* dropped WITH (FORCE), the pipeline with it */
	if (problem == CONNECT_NO_DATABASE)
		slot->wanted = false;
	else if (problem != CONNECT_NO_PROBLEM)
	{
		slot->state = WORKER_RETRYING;
		slot->last_sqlerrcode = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
		slot->restart_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), OWNER_RETRY_MS);
	}
	LWLockRelease(Capstan->lock);

	text = capstan_connect_problem_text(problem, &hint);
	if (problem == CONNECT_NO_PROBLEM)
		start_worker(index);
	else if (problem != CONNECT_NO_DATABASE && !told)
		ereport(LOG,
				(errmsg("capstan pipeline \"%s\": not started: %s", NameStr(slot->name), text),
				 errhint("%s", hint)));
}

/* Is a process of ours for the slot registered and not yet ended? */
static bool
has_process(int index)
{
	pid_t		pid;

	if (Capstan->slots[index].pid != 0)
		return true;
	if (handles[index] == NULL)
		return false;
	switch (GetBackgroundWorkerPid(handles[index], &pid))
	{
		case BGWH_STARTED:
		case BGWH_NOT_YET_STARTED:
			return true;
		default:
			return false;
	}
}

/* Caller holds the lock. */
static bool
has_copy_workers(const PipelineSlot *slot)
{
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		if (slot->copy[i].pid != 0)
			return true;
	return false;
}

/* Index workers outlive the pipeline worker: are there any?  Those of a pipeline that is not to run are told to end.  Caller holds the lock. */
static bool
look_after_index_workers(const PipelineSlot *slot)
{
	bool		found = false;

	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
	{
		if (slot->index_pids[i] == 0)
			continue;
		found = true;
		if (!slot->wanted || slot->state == WORKER_HALTED)
			kill(slot->index_pids[i], SIGTERM);
	}
	return found;
}

/* What one slot needs; returns milliseconds until it needs a look again. */
static long
look_after(int index)
{
	PipelineSlot *slot = &Capstan->slots[index];
	TimestampTz now = GetCurrentTimestamp();
	bool		process = has_process(index);
	bool		start = false;
	bool		index_workers;
	long		nap = LAUNCHER_NAP_MS;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	index_workers = slot->in_use && look_after_index_workers(slot);
	/* a worker that an earlier launcher had asked for may have come just now */
	process = process || slot->pid != 0;
	if (!slot->in_use)
		 /* nothing */ ;
	else if (slot->wanted && !process && slot->state != WORKER_HALTED)
	{
		/* a clock that was set back must not put it off for as long */
		if (slot->restart_at <= now || slot->restart_at > TimestampTzPlusMilliseconds(now, LONGEST_PAUSE_MS))
		{
			start = true;
			slot->state = WORKER_STARTING;
			slot->state_since = now;
		}
		else
			nap = TimestampDifferenceMilliseconds(now, slot->restart_at) + 1;
	}
	else if (slot->pid != 0 && (!slot->wanted || slot->running_generation != slot->generation))
	{
		/* ask again after a while: a worker may be busy in the client library */
		kill(slot->pid, SIGTERM);
		nap = 1000;
	}
	else if (!slot->wanted && !process && !has_copy_workers(slot) && !index_workers)
		slot->in_use = false;
	else if (process && slot->pid == 0)
		nap = 100;				/* starting or ending */
	if (index_workers && !slot->wanted)
		nap = Min(nap, 1000);
	LWLockRelease(Capstan->lock);

	if (start)
	{
		start_or_postpone(index);
		nap = 100;
	}
	return nap;
}

PGDLLEXPORT void
capstan_launcher_main(Datum main_arg)
{
	MemoryContext context;
	bool		probed = false;
	TimestampTz probe_at = 0;
	long		probe_pause = PROBE_RETRY_FIRST_MS;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	before_shmem_exit(forget_launcher, (Datum) 0);
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	Capstan->launcher_latch = MyLatch;
	Capstan->launcher_pid = MyProcPid;
	LWLockRelease(Capstan->lock);

	handles = MemoryContextAllocZero(TopMemoryContext, sizeof(BackgroundWorkerHandle *) * Capstan->nslots);
	context = AllocSetContextCreate(TopMemoryContext, "capstan launcher", ALLOCSET_DEFAULT_SIZES);
	pgstat_report_appname("capstan launcher");

	for (;;)
	{
		long		nap = LAUNCHER_NAP_MS;

		/* handles outlive the loop's context: they are made by palloc */
		MemoryContextSwitchTo(context);
		if (!probed && GetCurrentTimestamp() >= probe_at)
		{
			probed = probe_databases();
			probe_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), probe_pause);
			probe_pause = Min(probe_pause * 2, PROBE_RETRY_LONGEST_MS);
		}
		if (!probed)
			nap = Min(nap, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), probe_at) + 1);
		MemoryContextReset(context);
		MemoryContextSwitchTo(TopMemoryContext);
		for (int i = 0; i < Capstan->nslots; i++)
			nap = Min(nap, look_after(i));
		capstan_process_wait(nap, CAPSTAN_WAIT_LAUNCHER);
	}
}
