/*
 * globallock.c
 *		A short lock that keeps writers out of all captured tables at once.  See globallock.h.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "errcodes.h"
#include "snapshot/clock.h"
#include "snapshot/globallock.h"
#include "snapshot/tablelock.h"

/* Seconds until the server ends an idle lock connection: a half-open one cannot block writers for longer. */
#define LOCK_IDLE_TIMEOUT_S 30
/* Before the server does so by itself. */
#define LOCK_RECONNECT_S 20
/* A statement that has run for so long may well go on for longer than we want to wait. */
#define LONG_STATEMENT_S 1

/* MySQL's error numbers: https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html */
#define MYSQL_TABLE_ACCESS_DENIED 1142
#define MYSQL_DB_ACCESS_DENIED 1044
#define MYSQL_SPECIFIC_ACCESS_DENIED 1227
#define MYSQL_NO_SUCH_TABLE 1146
#define MYSQL_BAD_DB 1049

static SourceConn *
open_lock_connection(const SourceOptions *options, const char *server_uuid)
{
	SourceConn *conn = capstan_wire_connect_to(options, "lock", server_uuid);

	capstan_wire_exec(conn, psprintf("SET SESSION wait_timeout = %d", LOCK_IDLE_TIMEOUT_S));
	return conn;
}

GlobalLock *
capstan_globallock_create(const SourceOptions *options, const char *server_uuid)
{
	GlobalLock *lock = palloc0(sizeof(GlobalLock));

	lock->context = CurrentMemoryContext;
	lock->options = options;
	lock->server_uuid = server_uuid;
	lock->conn = open_lock_connection(options, server_uuid);
	lock->last_used_us = capstan_clock_us();
	lock->helper = capstan_wire_connect_to(options, "helper", server_uuid);
	lock->global_allowed = true;
	return lock;
}

static char *
lock_tables_statement(List *names)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, names)
		appendStringInfo(&sql, "%s%s READ", sql.len == 0 ? "LOCK TABLES " : ", ", (char *) lfirst(cell));
	return sql.data;
}

/* Waits for the answer; false: not within the bound. */
static bool
answer_within(SourceConn *conn, int64 deadline_us)
{
	for (;;)
	{
		long		left = (long) ((deadline_us - capstan_clock_us() + 999) / 1000);
		int			events;

		if (left <= 0)
			return false;
		events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   capstan_wire_socket(conn), left, COMPAT_WAIT_EXTENSION);
		if (events & WL_SOCKET_READABLE)
			return true;
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* 0 when granted, else MySQL's error number. */
static unsigned int
try_kind(GlobalLock *lock, GlobalLockKind kind, const char *sql, long bound_ms)
{
	int64		start;
	unsigned int code;
	char	   *message = NULL;
	int64		waited;
	bool		killed = false;

	/* should the network break, the server itself gives up the wait that holds writers back; KILL QUERY comes before that */
	capstan_wire_exec(lock->conn, psprintf("SET SESSION lock_wait_timeout = %ld", bound_ms / 1000 + 2));
	start = capstan_clock_us();
	capstan_wire_send(lock->conn, sql);
	if (!answer_within(lock->conn, start + bound_ms * 1000))
	{
		(void) capstan_wire_try_exec(lock->helper,
									 psprintf("KILL QUERY " UINT64_FORMAT, (uint64) capstan_wire_thread_id(lock->conn)), NULL);
		killed = true;
	}
	code = capstan_wire_receive(lock->conn, &message);
	strlcpy(lock->refusal, code == 0 || message == NULL ? "" : message, sizeof(lock->refusal));
	/* granted after all: the kill may hit the next statement, which must not be one that counts */
	if (code == 0 && killed)
		(void) capstan_wire_try_exec(lock->conn, "DO 0", NULL);
	lock->last_used_us = capstan_clock_us();
	waited = lock->last_used_us - start;
	lock->tries++;
	lock->wait_total_us += waited;
	lock->wait_worst_us = Max(lock->wait_worst_us, waited);
	if (code == 0)
	{
		lock->held = kind;
		lock->granted_at_us = lock->last_used_us;
	}
	else
		capstan_wire_exec(lock->conn, "UNLOCK TABLES");
	return code;
}

/*
 * Does a statement run that GLOBAL would wait for, and whose table would be closed to others when we give up?  As far as the account
 * sees it.
 */
static bool
long_statement_runs(GlobalLock *lock)
{
	SourceResult *result;

	return capstan_wire_try_query(lock->helper,
								  psprintf("SELECT 1 FROM performance_schema.processlist WHERE COMMAND IN ('Query', 'Execute') "
										   "AND TIME >= %d AND USER <> 'system user' AND ID <> CONNECTION_ID() LIMIT 1",
										   LONG_STATEMENT_S), NULL, &result, NULL) == 0 && result->nrows > 0;
}

/*
 * GLOBAL lets a prepared XA transaction be: its PREPARE is in gtid_executed already, what it has changed is in no view, and its COMMIT will tell
 * nothing of that.  So there must be none; no other one can be prepared while GLOBAL is held.  TABLES waits for those that matter, and so is the only one
 * for an account that may not see all of them.
 */
static bool
none_is_prepared(GlobalLock *lock)
{
	SourceResult *result;

	if (capstan_wire_try_query(lock->helper, "XA RECOVER", NULL, &result, NULL) == 0)
		return result->nrows == 0;
	lock->global_allowed = false;
	return false;
}

/* What the account needs to lock all of them. */
static char *
needed_grants(GlobalLock *lock, List *names)
{
	char	   *account = capstan_wire_account(lock->helper);
	const char *last = "";
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, names)
	{
		char	   *schema = capstan_tablelock_schema(lfirst(cell));

		if (strcmp(schema, last) != 0)
			appendStringInfo(&sql, "GRANT SELECT, LOCK TABLES ON %s.* TO %s; ", schema, account);
		last = schema;
	}
	appendStringInfo(&sql, "or GRANT FLUSH_TABLES, XA_RECOVER_ADMIN ON *.* TO %s;", account);
	return sql.data;
}

/* Refusals that no further try will change; others mean "not now". */
static void
check_refusal(GlobalLock *lock, List *names, unsigned int code)
{
	switch (code)
	{
		case MYSQL_NO_SUCH_TABLE:
		case MYSQL_BAD_DB:
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
					 errmsg("a table to be copied is gone from the source: %s", lock->refusal),
					 errhint("Drop the pipeline and create it again without the table.")));
			break;
		case MYSQL_TABLE_ACCESS_DENIED:
		case MYSQL_DB_ACCESS_DENIED:
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("the source refuses to lock a table: %s", lock->refusal),
					 errhint("%s", needed_grants(lock, names))));
			break;
	}
}

void
capstan_globallock_begin(GlobalLock *lock)
{
	Assert(lock->held == GLOBAL_LOCK_NONE);
	lock->tries = 0;
	lock->wait_worst_us = 0;
	lock->wait_total_us = 0;
}

bool
capstan_globallock_try(GlobalLock *lock, List *names, long bound_ms)
{
	unsigned int code;

	Assert(lock->held == GLOBAL_LOCK_NONE);
	if (capstan_clock_us() - lock->last_used_us > LOCK_RECONNECT_S * INT64CONST(1000000))
	{
		MemoryContext caller = MemoryContextSwitchTo(lock->context);

		capstan_wire_close(lock->conn);
		lock->conn = NULL;
		lock->conn = open_lock_connection(lock->options, lock->server_uuid);
		MemoryContextSwitchTo(caller);
	}
	if (lock->global_allowed && none_is_prepared(lock) && !long_statement_runs(lock))
	{
		code = try_kind(lock, GLOBAL_LOCK_GLOBAL, "FLUSH TABLES WITH READ LOCK", bound_ms);
		if (code == 0 && none_is_prepared(lock))
			return true;
		if (code == 0)
			(void) capstan_globallock_release(lock);
		if (code == MYSQL_SPECIFIC_ACCESS_DENIED)
			lock->global_allowed = false;
	}
	code = try_kind(lock, GLOBAL_LOCK_TABLES, lock_tables_statement(names), bound_ms);
	/* without LOCK TABLES there is still GLOBAL */
	if (code != 0 && !(lock->global_allowed && (code == MYSQL_TABLE_ACCESS_DENIED || code == MYSQL_DB_ACCESS_DENIED)))
		check_refusal(lock, names, code);
	return code == 0;
}

int64
capstan_globallock_release(GlobalLock *lock)
{
	int64		held;

	capstan_wire_exec(lock->conn, "UNLOCK TABLES");
	held = capstan_clock_us() - lock->granted_at_us;
	lock->last_used_us = capstan_clock_us();
	lock->held = GLOBAL_LOCK_NONE;
	return held;
}

char *
capstan_globallock_hint(const GlobalLock *lock)
{
	StringInfoData hint;

	initStringInfo(&hint);
	if (!lock->global_allowed)
		appendStringInfo(&hint, "GRANT FLUSH_TABLES, PROCESS, XA_RECOVER_ADMIN ON *.* TO %s; lets capstan lock without waiting for open transactions. ",
						 capstan_wire_account(lock->helper));
	appendStringInfoString(&hint, "Look for long statements in the process list of the source, and for long transactions in "
						   "information_schema.innodb_trx. A higher capstan.max_lock_wait lets capstan wait longer while it holds back writers.");
	capstan_tablelock_append_prepared(&hint, lock->helper);
	return hint.data;
}
