/*
 * lockbatch.c
 *		Read locks on several small tables at once.  See lockbatch.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "snapshot/lockbatch.h"

/* How long tables that are locked already wait for those that are not: their writers wait with them. */
#define PATIENCE_MS 30
/* Seconds until the server ends an idle lock connection: a half-open one cannot block writers for longer. */
#define LOCK_IDLE_TIMEOUT_S 30
/* Before the server does so by itself. */
#define LOCK_RECONNECT_S 20

struct LockBatch
{
	MemoryContext context;
	const SourceOptions *options;
	int			most;
	SourceConn **connections;	/* opened at need; NULL: not yet */
	int64	   *used_at_us;		/* monotonic clock */
	bool	   *held;
	int64		granted_at_us;	/* the first of those that are held */
};

static int64
now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

LockBatch *
capstan_lockbatch_create(const SourceOptions *options, int most)
{
	LockBatch  *batch = palloc0(sizeof(LockBatch));

	batch->context = CurrentMemoryContext;
	batch->options = options;
	batch->most = most;
	batch->connections = palloc0(sizeof(SourceConn *) * most);
	batch->used_at_us = palloc0(sizeof(int64) * most);
	batch->held = palloc0(sizeof(bool) * most);
	return batch;
}

/* A connection that will not be found closed by the server's wait_timeout. */
static void
make_ready(LockBatch *batch, int i)
{
	MemoryContext caller;

	if (batch->connections[i] != NULL && now_us() - batch->used_at_us[i] < LOCK_RECONNECT_S * INT64CONST(1000000))
		return;
	caller = MemoryContextSwitchTo(batch->context);
	if (batch->connections[i] != NULL)
		capstan_wire_close(batch->connections[i]);
	batch->connections[i] = NULL;
	batch->connections[i] = capstan_wire_connect(batch->options, "lock");
	/* should we vanish, the server itself gives up the wait */
	capstan_wire_exec(batch->connections[i],
					  psprintf("SET SESSION wait_timeout = %d, lock_wait_timeout = 1", LOCK_IDLE_TIMEOUT_S));
	batch->used_at_us[i] = now_us();
	MemoryContextSwitchTo(caller);
}

static bool
answer_within(SourceConn *conn, int64 deadline_us)
{
	for (;;)
	{
		long		left = (long) ((deadline_us - now_us() + 999) / 1000);
		int			events;

		/* an answer that is there counts, however late we look */
		events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   capstan_wire_socket(conn), Max(left, 0), COMPAT_WAIT_EXTENSION);
		if (events & WL_SOCKET_READABLE)
			return true;
		if (left <= 0)
			return false;
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
capstan_lockbatch_connect(LockBatch *batch, int ntables)
{
	Assert(ntables <= batch->most);
	for (int i = 0; i < ntables; i++)
		make_ready(batch, i);
}

void
capstan_lockbatch_shrink(LockBatch *batch, int n)
{
	for (int i = n; i < batch->most; i++)
	{
		if (batch->connections[i] == NULL)
			continue;
		Assert(!batch->held[i]);
		capstan_wire_close(batch->connections[i]);
		batch->connections[i] = NULL;
	}
}

int
capstan_lockbatch_acquire(LockBatch *batch, SourceConn *helper, char **names, int nnames, bool *granted)
{
	int64		deadline;
	bool	   *killed = palloc0(sizeof(bool) * nnames);
	int			ngranted = 0;

	capstan_lockbatch_connect(batch, nnames);
	batch->granted_at_us = 0;
	deadline = now_us() + PATIENCE_MS * 1000;
	for (int i = 0; i < nnames; i++)
		capstan_wire_send(batch->connections[i], psprintf("LOCK TABLES %s READ", names[i]));
	for (int i = 0; i < nnames; i++)
	{
		SourceConn *conn = batch->connections[i];

		if (!answer_within(conn, deadline))
		{
			(void) capstan_wire_try_exec(helper, psprintf("KILL QUERY " UINT64_FORMAT, (uint64) capstan_wire_thread_id(conn)), NULL);
			killed[i] = true;
		}
		/* a refusal for good is told when the table is tried alone */
		granted[i] = capstan_wire_receive(conn, NULL) == 0;
		batch->used_at_us[i] = now_us();
		batch->held[i] = granted[i];
		if (!granted[i])
			continue;
		ngranted++;
		if (batch->granted_at_us == 0)
			batch->granted_at_us = batch->used_at_us[i];
		/* granted after all: the kill may hit the next statement, which must not be one that counts */
		if (killed[i])
			(void) capstan_wire_try_exec(conn, "DO 0", NULL);
	}
	return ngranted;
}

int64
capstan_lockbatch_release(LockBatch *batch)
{
	int64		held_us;

	for (int i = 0; i < batch->most; i++)
		if (batch->held[i])
			capstan_wire_send(batch->connections[i], "UNLOCK TABLES");
	held_us = now_us() - batch->granted_at_us;
	for (int i = 0; i < batch->most; i++)
	{
		char	   *message = NULL;

		if (!batch->held[i])
			continue;
		batch->held[i] = false;
		if (capstan_wire_receive(batch->connections[i], &message) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_EXCEPTION),
					 errmsg("the source did not take back a table lock: %s", message)));
		batch->used_at_us[i] = now_us();
		held_us = Max(held_us, batch->used_at_us[i] - batch->granted_at_us);
	}
	return held_us;
}
