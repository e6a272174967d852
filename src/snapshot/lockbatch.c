/*
 * lockbatch.c
 *		Read locks on several small tables at once.  See lockbatch.h.
 *
 * Everything between the first grant and the last UNLOCK is time that somebody's writers wait.  So nothing is done in
 * turn there that can be done at once: answers are taken in the order in which they come, and who has not answered is
 * dealt with when the others are unlocked.  A lock that is granted too late is held until then, for nothing, and counts.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "snapshot/clock.h"
#include "snapshot/lockbatch.h"

/* How long the first of the locks is waited for; no writer waits meanwhile. */
#define PATIENCE_US 30000
/*
 * How long a table that is locked waits for others to be: so long at least, and half of what all the rest of the hold takes (views
 * opened, locks given back), at most so long.  Where that takes long, on a source or a machine that is busy, waiting less than that would not shorten
 * the hold by much, but make more rounds, each with a lock, of fewer tables.
 */
#define SPREAD_LEAST_US 1000
#define SPREAD_MOST_US 10000
/* So many are asked for even if the time is over: a machine that is slow today must not be asked for them one by one. */
#define LEAST_ASKED 8
/* Answers looked at in one go. */
#define MOST_EVENTS 64
/* Seconds until the server ends an idle lock connection: a half-open one cannot block writers for longer. */
#define LOCK_IDLE_TIMEOUT_S 30
/* Before the server does so by itself. */
#define LOCK_RECONNECT_S 20

/* Of one connection's lock. */
typedef enum LockState
{
	LOCK_FREE = 0,
	LOCK_WAITS,					/* for the answer to LOCK TABLES */
	LOCK_HELD,
	LOCK_UNLOCKING				/* for the answer to UNLOCK TABLES */
} LockState;

typedef struct BatchLock
{
	SourceConn *conn;			/* opened at need; NULL: not yet */
	int64		used_at_us;		/* monotonic clock */
	LockState	state;
	bool		killed;			/* KILL QUERY was sent for its wait */
	int64		granted_at_us;
} BatchLock;

struct LockBatch
{
	MemoryContext context;
	const SourceOptions *options;
	const char *server_uuid;
	int			most;
	BatchLock  *locks;
	int			nasked;			/* the first so many of them */
	WaitEventSet *sockets;		/* of their connections */
	int			ngranted;
	int			nwaiting;		/* for an answer */
	int64		given_up_at_us; /* what is granted later is given back at once; 0: still of use */
	int64		held_worst_us;
	int64		rest_us;		/* from the last answer that counted to the end, in the last rounds on average; 0: not known */
	int64		spread_us;
};

LockBatch *
capstan_lockbatch_create(const SourceOptions *options, const char *server_uuid, int most)
{
	LockBatch  *batch = palloc0(sizeof(LockBatch));

	batch->context = CurrentMemoryContext;
	batch->options = options;
	batch->server_uuid = server_uuid;
	batch->most = most;
	batch->locks = palloc0(sizeof(BatchLock) * most);
	return batch;
}

/* A connection that will not be found closed by the server's wait_timeout. */
static void
make_ready(LockBatch *batch, BatchLock *lock)
{
	MemoryContext caller;

	if (lock->conn != NULL && capstan_clock_us() - lock->used_at_us < LOCK_RECONNECT_S * INT64CONST(1000000))
		return;
	caller = MemoryContextSwitchTo(batch->context);
	if (lock->conn != NULL)
		capstan_wire_close(lock->conn);
	lock->conn = NULL;
	lock->conn = capstan_wire_connect_to(batch->options, "lock", batch->server_uuid);
	/* should we vanish, the server itself gives up the wait */
	capstan_wire_exec(lock->conn, psprintf("SET SESSION wait_timeout = %d, lock_wait_timeout = 1", LOCK_IDLE_TIMEOUT_S));
	lock->used_at_us = capstan_clock_us();
	MemoryContextSwitchTo(caller);
}

void
capstan_lockbatch_connect(LockBatch *batch, int ntables)
{
	Assert(ntables <= batch->most);
	for (int i = 0; i < ntables; i++)
		make_ready(batch, &batch->locks[i]);
}

void
capstan_lockbatch_shrink(LockBatch *batch, int n)
{
	Assert(batch->nasked == 0);
	for (int i = n; i < batch->most; i++)
	{
		if (batch->locks[i].conn == NULL)
			continue;
		capstan_wire_close(batch->locks[i].conn);
		batch->locks[i].conn = NULL;
	}
}

/* The sockets of the first n connections. */
static void
begin_watch(LockBatch *batch, int n)
{
	MemoryContext caller = MemoryContextSwitchTo(batch->context);

	batch->sockets = COMPAT_CREATE_WAIT_EVENT_SET(n + 2);
	AddWaitEventToSet(batch->sockets, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(batch->sockets, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(batch->sockets, WL_SOCKET_READABLE, capstan_wire_socket(batch->locks[i].conn), NULL, &batch->locks[i]);
	MemoryContextSwitchTo(caller);
}

static void
ask(LockBatch *batch, BatchLock *lock, LockState state, const char *statement)
{
	capstan_wire_send(lock->conn, statement);
	lock->state = state;
	batch->nwaiting++;
}

/* An answer is there. */
static void
take_answer(LockBatch *batch, BatchLock *lock)
{
	bool		was_lock = lock->state == LOCK_WAITS;
	char	   *message = NULL;
	unsigned int code = capstan_wire_take(lock->conn, &message);

	lock->used_at_us = capstan_clock_us();
	lock->state = LOCK_FREE;
	batch->nwaiting--;
	/* the kill may hit the next statement, which must not be one that counts */
	if (lock->killed)
		(void) capstan_wire_try_exec(lock->conn, "DO 0", NULL);
	lock->killed = false;
	if (!was_lock && code != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_EXCEPTION),
				 errmsg("the source did not take back a table lock: %s", message)));
	if (!was_lock)
		batch->held_worst_us = Max(batch->held_worst_us, lock->used_at_us - lock->granted_at_us);
	/* a refusal for good is told when the table is tried alone */
	if (!was_lock || code != 0)
		return;
	if (batch->given_up_at_us != 0)
	{
		lock->granted_at_us = batch->given_up_at_us;
		ask(batch, lock, LOCK_UNLOCKING, "UNLOCK TABLES");
		return;
	}
	lock->granted_at_us = lock->used_at_us;
	lock->state = LOCK_HELD;
	batch->ngranted++;
}

/* Takes the answers that are there, or that come within so many milliseconds. */
static void
take_answers(LockBatch *batch, long timeout_ms)
{
	WaitEvent	events[MOST_EVENTS];
	int			nevents = WaitEventSetWait(batch->sockets, timeout_ms, events, MOST_EVENTS, COMPAT_WAIT_EXTENSION);

	for (int i = 0; i < nevents; i++)
	{
		BatchLock  *lock = events[i].user_data;

		if (events[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		else if (lock != NULL && (lock->state == LOCK_WAITS || lock->state == LOCK_UNLOCKING))
			take_answer(batch, lock);
	}
}

/* All that are still to come.  The stream stands still meanwhile: raises when there is none for as long as makes a connection a dead one. */
static void
take_all_answers(LockBatch *batch)
{
	int64		patience_us = batch->options->read_timeout_s * INT64CONST(1000000);
	int64		deadline = capstan_clock_us() + patience_us;

	while (batch->nwaiting > 0)
	{
		int			waiting = batch->nwaiting;
		int64		left = deadline - capstan_clock_us();

		if (left <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("source \"%s\" has been silent for %d s", batch->options->server_name, batch->options->read_timeout_s),
					 errdetail("Answers to LOCK TABLES or UNLOCK TABLES that are missing: %d.", batch->nwaiting),
					 errhint(CAPSTAN_SLOW_SOURCE_HINT)));
		take_answers(batch, (left + 999) / 1000);
		if (batch->nwaiting < waiting)
			deadline = capstan_clock_us() + patience_us;
	}
}

void
capstan_lockbatch_look(LockBatch *batch, const char *select, char **names, const char *rest, int nnames, bool *found, bool *failed)
{
	capstan_lockbatch_connect(batch, nnames);
	for (int i = 0; i < nnames; i++)
		capstan_wire_send(batch->locks[i].conn, psprintf("%s FROM %s %s", select, names[i], rest));
	for (int i = 0; i < nnames; i++)
	{
		failed[i] = capstan_wire_receive_found(batch->locks[i].conn, &found[i], NULL) != 0;
		batch->locks[i].used_at_us = capstan_clock_us();
	}
}

int
capstan_lockbatch_acquire(LockBatch *batch, char **names, int nnames, LockAnswer *answers)
{
	char	  **statements = palloc(sizeof(char *) * nnames);
	int64		deadline;
	int64		left;

	for (int i = 0; i < nnames; i++)
		statements[i] = psprintf("LOCK TABLES %s READ", names[i]);
	capstan_lockbatch_connect(batch, nnames);
	begin_watch(batch, nnames);
	batch->spread_us = Min(Max(batch->rest_us / 2, SPREAD_LEAST_US), SPREAD_MOST_US);
	batch->ngranted = 0;
	batch->given_up_at_us = 0;
	batch->held_worst_us = 0;

	/* the deadline moves once: when the first of them is granted */
	deadline = capstan_clock_us() + PATIENCE_US;
	for (batch->nasked = 0; batch->nasked < nnames; batch->nasked++)
	{
		bool		none = batch->ngranted == 0;

		if (batch->nasked >= LEAST_ASKED && capstan_clock_us() >= deadline)
			break;
		ask(batch, &batch->locks[batch->nasked], LOCK_WAITS, statements[batch->nasked]);
		take_answers(batch, 0);
		if (none && batch->ngranted > 0)
			deadline = Min(deadline, capstan_clock_us() + batch->spread_us);
	}
	do
	{
		bool		none = batch->ngranted == 0;

		/* what is there when the time is over counts, however late we look */
		left = deadline - capstan_clock_us();
		if (batch->nwaiting > 0)
			take_answers(batch, (Max(left, 0) + 500) / 1000);
		if (none && batch->ngranted > 0)
			deadline = Min(deadline, capstan_clock_us() + batch->spread_us);
	} while (batch->nwaiting > 0 && left > 0);
	batch->given_up_at_us = capstan_clock_us();

	for (int i = 0; i < nnames; i++)
	{
		LockState	state = batch->locks[i].state;

		answers[i] = i >= batch->nasked ? LOCK_NOT_ASKED : state == LOCK_HELD ? LOCK_GRANTED : state == LOCK_WAITS ? LOCK_ASKED : LOCK_REFUSED;
	}
	return batch->ngranted;
}

int64
capstan_lockbatch_release(LockBatch *batch, SourceConn *helper)
{
	for (int i = 0; i < batch->nasked; i++)
		if (batch->locks[i].state == LOCK_HELD)
			ask(batch, &batch->locks[i], LOCK_UNLOCKING, "UNLOCK TABLES");
	/* locks that came too late are given back here */
	take_answers(batch, 0);
	for (int i = 0; i < batch->nasked; i++)
	{
		BatchLock  *lock = &batch->locks[i];

		if (lock->state != LOCK_WAITS)
			continue;
		lock->killed = true;
		(void) capstan_wire_try_exec(helper, psprintf("KILL QUERY " UINT64_FORMAT, (uint64) capstan_wire_thread_id(lock->conn)), NULL);
	}
	take_all_answers(batch);
	FreeWaitEventSet(batch->sockets);
	batch->sockets = NULL;
	batch->nasked = 0;
	if (batch->ngranted > 0)
		batch->rest_us += (capstan_clock_us() - batch->given_up_at_us - batch->rest_us) / 4;
	return batch->held_worst_us;
}
