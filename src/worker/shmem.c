/*
 * shmem.c
 *		The pipelines' slots in shared memory.  See shmem.h.
 *
 * Request and startup hooks run in the postmaster while it preloads; everything else in backends and
 * workers.  A slot is made by a SQL function (at its COMMIT) or by the probe of
 * a database at server start, and freed by the launcher when nobody wants it any more.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "errcodes.h"
#include "worker/internal.h"
#include "worker/shmem.h"

CapstanShared *Capstan = NULL;

static shmem_startup_hook_type previous_startup_hook = NULL;
#if COMPAT_SHMEM_REQUEST_HOOK
static shmem_request_hook_type previous_request_hook = NULL;
#endif

/* What SQL functions asked for in this transaction, in TopTransactionContext. */
typedef struct RunRequest
{
	int64		pipeline_id;
	NameData	name;
	Oid			owner;
	bool		run;
	SubTransactionId subid;
	struct RunRequest *next;
} RunRequest;

static RunRequest *requests = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(CapstanShared, slots), mul_size(capstan_max_pipelines, sizeof(PipelineSlot)));
}

static void
request_memory(void)
{
#if COMPAT_SHMEM_REQUEST_HOOK
	if (previous_request_hook)
		previous_request_hook();
#endif
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("capstan", 1);
}

static void
startup(void)
{
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	Capstan = ShmemInitStruct("capstan", shared_size(), &found);
	if (!found)
	{
		memset(Capstan, 0, shared_size());
		Capstan->lock = &(GetNamedLWLockTranche("capstan"))->lock;
		Capstan->nslots = capstan_max_pipelines;
		for (int i = 0; i < Capstan->nslots; i++)
		{
			PipelineSlot *slot = &Capstan->slots[i];

			pg_atomic_init_u64(&slot->transactions, 0);
			pg_atomic_init_u64(&slot->rows, 0);
			pg_atomic_init_u64(&slot->commits, 0);
			pg_atomic_init_u64(&slot->bytes, 0);
			pg_atomic_init_u64(&slot->last_event_us, 0);
			pg_atomic_init_u64(&slot->last_commit_source_us, 0);
			pg_atomic_init_u64(&slot->caught_up_us, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
capstan_shmem_request_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
#if COMPAT_SHMEM_REQUEST_HOOK
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
#else
	request_memory();
#endif
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup;
}

void
capstan_shmem_require(void)
{
	if (Capstan == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("capstan must be loaded via shared_preload_libraries"),
				 errhint("Add capstan to shared_preload_libraries in postgresql.conf and restart the server.")));
}

const char *
capstan_worker_state_name(WorkerState state)
{
	switch (state)
	{
		case WORKER_STOPPED:
			return "stopped";
		case WORKER_HALTED:
			return "halted";
		case WORKER_RETRYING:
			return "retrying";
		case WORKER_STARTING:
			return "starting";
		case WORKER_WAITING:
			return "waiting";
		case WORKER_CONNECTING:
			return "connecting";
		case WORKER_SNAPSHOT:
			return "snapshot";
		case WORKER_STREAMING:
			return "streaming";
	}
	return "unknown";
}

PipelineSlot *
capstan_shmem_find(Oid database, int64 pipeline_id)
{
	Assert(LWLockHeldByMe(Capstan->lock));

	for (int i = 0; i < Capstan->nslots; i++)
	{
		PipelineSlot *slot = &Capstan->slots[i];

		if (slot->in_use && slot->database == database && slot->pipeline_id == pipeline_id)
			return slot;
	}
	return NULL;
}

/* Found or made; NULL when all are taken.  Caller holds the lock exclusively. */
static PipelineSlot *
find_or_make(Oid database, int64 pipeline_id)
{
	PipelineSlot *slot = capstan_shmem_find(database, pipeline_id);

	if (slot != NULL)
		return slot;
	for (int i = 0; i < Capstan->nslots; i++)
	{
		uint64		generation;
		uint64		run_id;
		int			lingering;
		TimestampTz lingering_until;

		slot = &Capstan->slots[i];
		if (slot->in_use)
			continue;

		/* never the same twice: a process of an earlier user of the slot must not take itself for one of the next */
		generation = slot->generation;
		run_id = slot->run_id;
		lingering = slot->lingering;
		lingering_until = slot->lingering_until;
		memset(slot, 0, offsetof(PipelineSlot, transactions));
		pg_atomic_write_u64(&slot->transactions, 0);
		pg_atomic_write_u64(&slot->rows, 0);
		pg_atomic_write_u64(&slot->commits, 0);
		pg_atomic_write_u64(&slot->bytes, 0);
		pg_atomic_write_u64(&slot->last_event_us, 0);
		pg_atomic_write_u64(&slot->last_commit_source_us, 0);
		pg_atomic_write_u64(&slot->caught_up_us, 0);
		slot->in_use = true;
		slot->database = database;
		slot->pipeline_id = pipeline_id;
		slot->generation = generation;
		slot->run_id = run_id;
		slot->lingering = lingering;
		slot->lingering_until = lingering_until;
		return slot;
	}
	return NULL;
}

void
capstan_shmem_wake(PipelineSlot *slot)
{
	Assert(LWLockHeldByMe(Capstan->lock));

	if (Capstan->launcher_latch != NULL)
		SetLatch(Capstan->launcher_latch);
	if (slot == NULL)
		return;
	if (slot->latch != NULL)
		SetLatch(slot->latch);
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		if (slot->copy[i].latch != NULL)
			SetLatch(slot->copy[i].latch);
}

/* The pipeline should run (or not) from now on; false when all slots are taken. */
bool
capstan_shmem_set_wanted(Oid database, int64 pipeline_id, const char *name, Oid owner, bool run)
{
	PipelineSlot *slot;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	slot = run ? find_or_make(database, pipeline_id) : capstan_shmem_find(database, pipeline_id);
	if (slot != NULL)
	{
		slot->wanted = run;
		if (run)
		{
			strlcpy(NameStr(slot->name), name, NAMEDATALEN);
			slot->owner = owner;
			slot->generation++;
			slot->restart_at = 0;
			slot->failures = 0;
			/* one that has halted is about to end */
			if (slot->pid == 0 || slot->state == WORKER_HALTED)
			{
				slot->state = WORKER_STARTING;
				slot->state_since = GetCurrentTimestamp();
			}
		}
		capstan_shmem_wake(slot);
	}
	LWLockRelease(Capstan->lock);
	return slot != NULL || !run;
}

/* What a rolled back subtransaction asked for is forgotten, what a committed one asked for is its parent's. */
static void
end_of_subtransaction(SubXactEvent event, SubTransactionId subid, SubTransactionId parent, void *arg)
{
	RunRequest **link = &requests;

	if (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB)
		return;
	while (*link != NULL)
	{
		if ((*link)->subid == subid && event == SUBXACT_EVENT_ABORT_SUB)
		{
			*link = (*link)->next;
			continue;
		}
		if ((*link)->subid == subid)
			(*link)->subid = parent;
		link = &(*link)->next;
	}
}

/* At the end of a transaction that called capstan_shmem_request_run; must not throw once it is committed. */
static void
end_of_transaction(XactEvent event, void *arg)
{
	RunRequest *request;

	if (event == XACT_EVENT_PRE_PREPARE && requests != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has started, stopped, or dropped a pipeline"),
				 errhint("COMMIT it.")));
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	request = requests;
	requests = NULL;
	if (event == XACT_EVENT_ABORT)
		return;
	for (; request != NULL; request = request->next)
		if (!capstan_shmem_set_wanted(MyDatabaseId, request->pipeline_id, NameStr(request->name),
									  request->owner, request->run))
			ereport(WARNING,
					(errmsg("pipeline \"%s\" does not start: all slots are taken", NameStr(request->name)),
					 errhint("Increase capstan.max_pipelines and restart the server.")));
}

void
capstan_shmem_request_run(int64 pipeline_id, const char *name, Oid owner, bool run)
{
	static bool registered = false;
	RunRequest *request;

	capstan_shmem_require();
	if (run)
	{
		int			free_slots = 0;
		bool		known;

		LWLockAcquire(Capstan->lock, LW_SHARED);
		known = capstan_shmem_find(MyDatabaseId, pipeline_id) != NULL;
		for (int i = 0; i < Capstan->nslots; i++)
			if (!Capstan->slots[i].in_use)
				free_slots++;
		LWLockRelease(Capstan->lock);
		if (!known && free_slots == 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("all %d pipeline slots are taken", capstan_max_pipelines),
					 errhint("Stop another pipeline, or increase capstan.max_pipelines and restart the server.")));
	}
	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		registered = true;
	}
	request = MemoryContextAlloc(TopTransactionContext, sizeof(RunRequest));
	request->pipeline_id = pipeline_id;
	strlcpy(NameStr(request->name), name, NAMEDATALEN);
	request->owner = owner;
	request->run = run;
	request->subid = GetCurrentSubTransactionId();
	request->next = NULL;

	/* the order of the calls is the order at commit */
	if (requests == NULL)
		requests = request;
	else
	{
		RunRequest *last = requests;

		while (last->next != NULL)
			last = last->next;
		last->next = request;
	}
}
