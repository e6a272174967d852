/*
 * connections.c
 *		How many connections to sources there may be at a time.  See connections.h.
 *
 * All figures are in the pipelines' slots, under CapstanShared->lock; there is no sum that could drift.
 *
 * Order: who waits has a ticket.  A later one may overtake an earlier one only if that could not have its set even if every snapshot were over
 * (the streams of others alone leave too few): somebody must stop a pipeline or raise the bound, and until then the later one
 * would wait for nothing.
 *
 * No deadlock: what is waited for is had at once or not at all, and the only ones who wait while they hold something are running streams whose
 * tables are to be copied again; copies end without waiting for connections.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "worker/connections.h"
#include "worker/internal.h"

#define STREAM_CONNECTIONS 2
#define RESERVED_FOR_SQL 1
/* How long the source may need to notice that a process is gone. */
#define LINGER_MS Max(1000, 2 * capstan_heartbeat)
#define POLL_MS 500
/* Only a batch of so many locks is one. */
#define LEAST_BATCH 2
/* How long a SQL function waits. */
#define SQL_WAIT_MS 10000

static bool borrowed = false;

/* What pipelines may have together, and each. */
static int
pipelines_limit(void)
{
	return capstan_max_source_connections == 0 ? INT_MAX : capstan_max_source_connections - RESERVED_FOR_SQL;
}

static int
share_limit(void)
{
	return Min(capstan_max_pipeline_connections == 0 ? INT_MAX : capstan_max_pipeline_connections, pipelines_limit());
}

int
capstan_connections_of(const PipelineSlot *slot)
{
	int			sum = slot->stream_connections + slot->copy_reserved;

	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		sum += slot->copy[i].connections;
	return sum;
}

/* By pipelines, those that may still be open on the source, too; and by SQL functions beyond what is theirs. */
static int
in_use(void)
{
	TimestampTz now = GetCurrentTimestamp();
	int			sum = 0;

	Assert(LWLockHeldByMe(Capstan->lock));
	for (int i = 0; i < Capstan->nslots; i++)
	{
		PipelineSlot *slot = &Capstan->slots[i];

		if (slot->lingering_until <= now)
			slot->lingering = 0;
		sum += slot->lingering;
		if (slot->in_use)
			sum += capstan_connections_of(slot);
	}
	return sum + Max(Capstan->sql_connections - RESERVED_FOR_SQL, 0);
}

/* What streams have, which they keep for as long as they run. */
static int
streams_in_use(void)
{
	int			sum = 0;

	for (int i = 0; i < Capstan->nslots; i++)
		if (Capstan->slots[i].in_use)
			sum += Capstan->slots[i].stream_connections;
	return sum;
}

/* Somebody gave something back: caller holds the lock. */
static void
wake_waiters(void)
{
	for (int i = 0; i < Capstan->nslots; i++)
		if (Capstan->slots[i].in_use && Capstan->slots[i].ticket != 0 && Capstan->slots[i].latch != NULL)
			SetLatch(Capstan->slots[i].latch);
}

static bool
anybody_waits(void)
{
	for (int i = 0; i < Capstan->nslots; i++)
		if (Capstan->slots[i].in_use && Capstan->slots[i].ticket != 0)
			return true;
	return false;
}

/* Whoever came before, and could get what he wants once snapshots are over, comes first. */
static bool
is_our_turn(const PipelineSlot *slot)
{
	int			streams = streams_in_use();

	for (int i = 0; i < Capstan->nslots; i++)
	{
		const PipelineSlot *other = &Capstan->slots[i];

		if (other->in_use && other->ticket != 0 && other->ticket < slot->ticket &&
			other->tickets_need <= pipelines_limit() - (streams - other->stream_connections))
			return false;
	}
	return true;
}

/* As many copy workers as are set, or as fit into the pipeline's share. */
static int
copy_workers(void)
{
	return Max(Min(capstan_copy_workers, share_limit() - CAPSTAN_LEAST_PIPELINE_CONNECTIONS + 1), 1);
}

static void
set_waiting(PipelineSlot *slot, int need, int used)
{
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": waits for %d connections to sources", NameStr(slot->name), need),
			 errdetail_internal("%d of %d are taken.", used, pipelines_limit()),
			 errhint("Stop another pipeline, or increase capstan.max_source_connections.")));
}

void
capstan_connections_acquire(PipelineSlot *slot, bool with_copy)
{
	bool		told = false;

	for (;;)
	{
		int			stream = slot->stream_connections == 0 ? STREAM_CONNECTIONS : 0;
		int			copy = with_copy ? CAPSTAN_COORDINATOR_CONNECTIONS + copy_workers() - 1 : 0;
		int			need = stream + copy;
		int			used;
		bool		had;

		LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
		if (slot->ticket == 0)
			slot->ticket = ++Capstan->last_ticket;
		slot->tickets_need = slot->stream_connections + need;
		used = in_use();
		had = need <= pipelines_limit() - used && is_our_turn(slot);
		if (had)
		{
			slot->ticket = 0;
			slot->stream_connections += stream;
			slot->copy_reserved = copy;
			/* the next one may fit as well */
			wake_waiters();
		}
		if (slot->state != (had ? WORKER_CONNECTING : WORKER_WAITING) && slot->state < WORKER_SNAPSHOT)
		{
			slot->state = had ? WORKER_CONNECTING : WORKER_WAITING;
			slot->state_since = GetCurrentTimestamp();
		}
		LWLockRelease(Capstan->lock);
		if (had)
			return;
		if (!told)
			set_waiting(slot, need, used);
		told = true;
		capstan_process_wait(POLL_MS, CAPSTAN_WAIT_CONNECTIONS);
	}
}

int
capstan_connections_share_out(PipelineSlot *slot, bool with_copy)
{
	int			n;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	n = with_copy ? slot->copy_reserved - CAPSTAN_COORDINATOR_CONNECTIONS + 1 : 0;
	slot->copy_reserved = 0;
	for (int i = 0; i < n; i++)
		slot->copy[i].connections = i == 0 ? CAPSTAN_COORDINATOR_CONNECTIONS : 1;
	if (n == 0)
		wake_waiters();
	LWLockRelease(Capstan->lock);
	return n;
}

void
capstan_connections_absent(PipelineSlot *slot, int i)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	slot->copy[i].connections = 0;
	wake_waiters();
	LWLockRelease(Capstan->lock);
}

static void
linger(PipelineSlot *slot, int n)
{
	if (n == 0)
		return;
	slot->lingering += n;
	slot->lingering_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LINGER_MS);
	wake_waiters();
}

void
capstan_connections_leave_copy(PipelineSlot *slot, int i)
{
	Assert(LWLockHeldByMe(Capstan->lock));
	linger(slot, slot->copy[i].connections);
	slot->copy[i].connections = 0;
}

void
capstan_connections_leave_pipeline(PipelineSlot *slot)
{
	Assert(LWLockHeldByMe(Capstan->lock));
	slot->ticket = 0;
	slot->copy_reserved = 0;
	/* a copy worker that has not come yet finds out that it is not wanted before it connects */
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		if (slot->copy[i].pid == 0)
			slot->copy[i].connections = 0;
	linger(slot, slot->stream_connections);
	slot->stream_connections = 0;
	wake_waiters();
}

int
capstan_connections_for_batch(PipelineSlot *slot, int want)
{
	int			held;
	int			others;
	int			allowed;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	held = slot->copy[0].connections - CAPSTAN_COORDINATOR_CONNECTIONS;
	others = capstan_connections_of(slot) - held;
	/* who waits goes first */
	allowed = anybody_waits() ? Min(want, LEAST_BATCH) : want;
	allowed = Min(allowed, share_limit() - others);
	allowed = Min(allowed, Max(held, pipelines_limit() - (in_use() - held)));
	if (allowed < LEAST_BATCH)
		allowed = 0;
	if (allowed > held || want == allowed)
		slot->copy[0].connections = CAPSTAN_COORDINATOR_CONNECTIONS + allowed;
	if (allowed < held)
		wake_waiters();
	LWLockRelease(Capstan->lock);
	return allowed;
}

/* ---------------------------------------------------------------------
 * SQL functions
 * --------------------------------------------------------------------- */

static void
give_back(void)
{
	if (!borrowed)
		return;
	borrowed = false;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	Capstan->sql_connections--;
	LWLockRelease(Capstan->lock);
}

/* A function that failed: its connection was closed with its memory, or is soon. */
static void
end_of_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT)
		give_back();
}

static void
end_of_subtransaction(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		give_back();
}

static bool
borrow(void)
{
	bool		had;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	had = capstan_max_source_connections == 0 || Capstan->sql_connections < RESERVED_FOR_SQL ||
		(!anybody_waits() && in_use() < pipelines_limit());
	if (had)
		Capstan->sql_connections++;
	LWLockRelease(Capstan->lock);
	borrowed = had;
	return had;
}

SourceConn *
capstan_connections_open(const SourceOptions *options, const char *purpose)
{
	static bool registered = false;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SQL_WAIT_MS);

	/* not preloaded: there are no pipelines either */
	if (Capstan == NULL || borrowed)
		return capstan_wire_connect(options, purpose);
	if (!registered)
	{
		RegisterXactCallback(end_of_transaction, NULL);
		RegisterSubXactCallback(end_of_subtransaction, NULL);
		registered = true;
	}
	while (!borrow())
	{
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
					 errmsg("no connection to a source is free"),
					 errdetail("All %d are taken, by pipelines and other calls.", capstan_max_source_connections),
					 errhint("Try again, or increase capstan.max_source_connections.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 50, COMPAT_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return capstan_wire_connect(options, purpose);
}

void
capstan_connections_close(SourceConn *conn)
{
	capstan_wire_close(conn);
	if (Capstan != NULL)
		give_back();
}
