/*
 * tablelock.c
 *		A short lock on source tables that must be had and must not hurt.  See tablelock.h.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "errcodes.h"
#include "snapshot/clock.h"
#include "snapshot/tablelock.h"

/* READ holds nobody back while it waits: the bound is for our own patience. */
#define READ_TRIES 3
#define READ_BOUND_MS 100
/* Where neither FLUSH nor WRITE is possible READ is all there is; it may wait longer. */
#define READ_ONLY_BOUND_MS 10000
#define STRONG_FIRST_BOUND_MS 100
/* A try that failed is followed by a pause for the writers, at least this one. */
#define PAUSE_LEAST_MS 20
/* Seconds until the server ends an idle lock connection: a half-open one cannot block writers for longer. */
#define LOCK_IDLE_TIMEOUT_S 30
/* Before the server does so by itself. */
#define LOCK_RECONNECT_S 20

/* In a hint. */
#define MAX_LISTED_XA 5

/* MySQL's error numbers: https://dev.mysql.com/doc/mysql-errors/en/server-error-reference.html */
#define MYSQL_TABLE_ACCESS_DENIED 1142
#define MYSQL_DB_ACCESS_DENIED 1044
#define MYSQL_SPECIFIC_ACCESS_DENIED 1227
#define MYSQL_NO_SUCH_TABLE 1146
#define MYSQL_BAD_DB 1049
#define MYSQL_READ_ONLY 1290
#define MYSQL_READ_ONLY_MODE 1836

static void
pause_ms(long ms)
{
	int64		until = capstan_clock_us() + ms * 1000;

	for (;;)
	{
		long		left = (long) ((until - capstan_clock_us()) / 1000);

		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, COMPAT_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static SourceConn *
open_lock_connection(const SourceOptions *options, const char *server_uuid)
{
	SourceConn *conn = capstan_wire_connect_to(options, "lock", server_uuid);

	capstan_wire_exec(conn, psprintf("SET SESSION wait_timeout = %d", LOCK_IDLE_TIMEOUT_S));
	return conn;
}

TableLock *
capstan_tablelock_create(const SourceOptions *options, const char *server_uuid)
{
	TableLock  *lock = palloc0(sizeof(TableLock));

	lock->context = CurrentMemoryContext;
	lock->options = options;
	lock->server_uuid = server_uuid;
	lock->conn = open_lock_connection(options, server_uuid);
	lock->last_used_us = capstan_clock_us();
	lock->helper = capstan_wire_connect_to(options, "helper", server_uuid);
	lock->flush_allowed = true;
	lock->write_allowed = true;
	return lock;
}

static char *
lock_statement(TableLockKind kind, const char *name)
{
	switch (kind)
	{
		case TABLE_LOCK_FLUSH:
			return psprintf("FLUSH TABLES %s WITH READ LOCK", name);
		case TABLE_LOCK_WRITE:
			return psprintf("LOCK TABLES %s WRITE", name);
		default:
			return psprintf("LOCK TABLES %s READ", name);
	}
}

/* Waits for A's answer; false: not within the bound. */
static bool
answer_within(TableLock *lock, int64 deadline_us)
{
	for (;;)
	{
		long		left = (long) ((deadline_us - capstan_clock_us() + 999) / 1000);
		int			events;

		if (left <= 0)
			return false;
		events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   capstan_wire_socket(lock->conn), left, COMPAT_WAIT_EXTENSION);
		if (events & WL_SOCKET_READABLE)
			return true;
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* One try of one rung: 0 when granted, else MySQL's error number. */
static unsigned int
try_lock(TableLock *lock, TableLockKind kind, const char *name, long bound_ms)
{
	int64		start;
	unsigned int code;
	int64		waited;
	bool		killed = false;

	/* should the network break, the server itself gives up the wait that holds writers back; KILL QUERY comes before that */
	capstan_wire_exec(lock->conn, psprintf("SET SESSION lock_wait_timeout = %ld", bound_ms / 1000 + 2));
	start = capstan_clock_us();
	capstan_wire_send(lock->conn, lock_statement(kind, name));
	if (!answer_within(lock, start + bound_ms * 1000))
	{
		(void) capstan_wire_try_exec(lock->helper,
									 psprintf("KILL QUERY " UINT64_FORMAT, (uint64) capstan_wire_thread_id(lock->conn)),
									 NULL);
		killed = true;
	}
	code = capstan_wire_receive(lock->conn, &lock->refusal);
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
		lock->granted_at_us = capstan_clock_us();
	}
	else if (kind == TABLE_LOCK_FLUSH)
		capstan_wire_exec(lock->conn, "UNLOCK TABLES");
	return code;
}

char *
capstan_tablelock_schema(const char *name)
{
	const char *end = strstr(name, "`.`");

	return pnstrdup(name, end == NULL ? strlen(name) : (Size) (end - name + 1));
}

/* Refusals that no further try will change; others mean "not now". */
static void
check_refusal(TableLock *lock, TableLockKind kind, const char *name, unsigned int code)
{
	switch (code)
	{
		case MYSQL_NO_SUCH_TABLE:
		case MYSQL_BAD_DB:
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
					 errmsg("a table to be copied is gone from the source: %s", lock->refusal),
					 errhint("Call capstan.remove_table().")));
			break;
		case MYSQL_TABLE_ACCESS_DENIED:
		case MYSQL_DB_ACCESS_DENIED:
			if (kind == TABLE_LOCK_FLUSH)
				lock->flush_allowed = false;
			else
				ereport(ERROR,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("the source refuses to lock a table: %s", lock->refusal),
						 errhint("GRANT SELECT, LOCK TABLES ON %s.* TO %s;", capstan_tablelock_schema(name), capstan_wire_account(lock->helper))));
			break;
		case MYSQL_SPECIFIC_ACCESS_DENIED:
			if (kind == TABLE_LOCK_FLUSH)
				lock->flush_allowed = false;
			else
				lock->write_allowed = false;
			break;
		case MYSQL_READ_ONLY:
		case MYSQL_READ_ONLY_MODE:
			lock->write_allowed = false;
			break;
	}
}

/* The half of a ready-quoted `schema`.`table` that begins here, as a literal; *end: behind it. */
static char *
literal_of(const char *quoted, const char **end)
{
	StringInfoData name;
	const char *p = quoted + 1;

	initStringInfo(&name);
	for (; *p != '\0' && (p[0] != '`' || p[1] == '`'); p++)
	{
		if (*p == '`')
			p++;
		appendStringInfoChar(&name, *p);
	}
	*end = *p == '\0' ? p : p + 1;
	return capstan_wire_quote_literal(name.data);
}

/*
 * LOCK TABLES .. WRITE also locks what foreign keys and triggers lead to: for as long as it waits for one of them it holds another, and a
 * transaction that has them the other way round is ended by MySQL.  So such a table is locked by the other statements only.  (Triggers are shown to accounts
 * with TRIGGER alone.)
 */
static bool
write_locks_others(TableLock *lock, const char *name)
{
	const char *rest;
	char	   *schema = literal_of(name, &rest);
	char	   *table = literal_of(rest + 1, &rest);
	SourceResult *result;

	return capstan_wire_try_query(lock->helper,
								  psprintf("SELECT 1 FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND REFERENCED_TABLE_NAME IS NOT NULL "
										   "AND (REFERENCED_TABLE_SCHEMA <> TABLE_SCHEMA OR REFERENCED_TABLE_NAME <> TABLE_NAME) "
										   "UNION ALL SELECT 1 FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = %s AND REFERENCED_TABLE_NAME = %s "
										   "AND (REFERENCED_TABLE_SCHEMA <> TABLE_SCHEMA OR REFERENCED_TABLE_NAME <> TABLE_NAME) "
										   "UNION ALL SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s LIMIT 1",
										   schema, table, schema, table, schema, table), WIRE_VALUE, &result, NULL) != 0 || result->nrows > 0;
}

static TableLockKind
strongest(const TableLock *lock)
{
	return lock->flush_allowed ? TABLE_LOCK_FLUSH : lock->write_allowed && lock->write_alone ? TABLE_LOCK_WRITE : TABLE_LOCK_READ;
}

static TableLockKind
next_kind(TableLock *lock, const char *name)
{
	if (lock->tries < READ_TRIES)
		return TABLE_LOCK_READ;
	if (strongest(lock) == TABLE_LOCK_WRITE && !lock->write_asked)
	{
		lock->write_asked = true;
		lock->write_alone = !write_locks_others(lock, name);
	}
	return strongest(lock);
}

/* Twice as long as the try on average, at random, so as not to move in step with the writers' transactions. */
static long
pause_after(long tried_ms)
{
	return tried_ms + (long) (2.0 * tried_ms * random() / (double) RAND_MAX);
}

bool
capstan_tablelock_acquire(TableLock *lock, const char *name, int max_wait_ms, int budget_ms)
{
	int64		deadline = capstan_clock_us() + (int64) budget_ms * 1000;
	long		strong_bound = Min(STRONG_FIRST_BOUND_MS, max_wait_ms);

	Assert(lock->held == TABLE_LOCK_NONE);
	lock->tries = 0;
	lock->wait_worst_us = 0;
	lock->wait_total_us = 0;

	if (capstan_clock_us() - lock->last_used_us > LOCK_RECONNECT_S * INT64CONST(1000000))
	{
		/* it must outlive the round, in whose context we are called */
		MemoryContext caller = MemoryContextSwitchTo(lock->context);

		capstan_wire_close(lock->conn);
		lock->conn = NULL;
		lock->conn = open_lock_connection(lock->options, lock->server_uuid);
		MemoryContextSwitchTo(caller);
	}
	lock->write_asked = false;
	lock->write_alone = true;
	for (;;)
	{
		TableLockKind kind = next_kind(lock, name);
		bool		only_read = kind == TABLE_LOCK_READ && lock->tries >= READ_TRIES;
		long		bound = only_read ? Min(READ_ONLY_BOUND_MS, budget_ms) : kind == TABLE_LOCK_READ ? READ_BOUND_MS : strong_bound;
		int64		start = capstan_clock_us();
		unsigned int code = try_lock(lock, kind, name, bound);

		if (code == 0)
			return true;
		check_refusal(lock, kind, name, code);
		if (capstan_clock_us() >= deadline)
			return false;
		if (kind == strongest(lock) && kind != TABLE_LOCK_READ)
			strong_bound = Min(strong_bound * 2, max_wait_ms);
		pause_ms(Max(PAUSE_LEAST_MS, kind == TABLE_LOCK_READ ? 0 : pause_after((long) ((capstan_clock_us() - start) / 1000))));
	}
}

int64
capstan_tablelock_release(TableLock *lock)
{
	int64		held;

	capstan_wire_exec(lock->conn, "UNLOCK TABLES");
	held = capstan_clock_us() - lock->granted_at_us;
	lock->held = TABLE_LOCK_NONE;
	return held;
}

/* What ends a prepared transaction: XA RECOVER CONVERT XID tells its three parts as lengths and one hexadecimal number. */
static void
append_xa(StringInfo hint, char **row)
{
	const char *digits = strncmp(row[3], "0x", 2) == 0 ? row[3] + 2 : row[3];
	/* whatever the source says */
	int			global = (int) Min(strtoul(row[1], NULL, 10), strlen(digits) / 2) * 2;

	appendStringInfo(hint, " XA ROLLBACK X'%.*s', X'%s', %s;", global, digits, digits + global, row[0]);
}

void
capstan_tablelock_append_prepared(StringInfo hint, SourceConn *helper)
{
	SourceResult *prepared = NULL;

	if (capstan_wire_try_query(helper, "XA RECOVER CONVERT XID", WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE, &prepared, NULL) != 0)
	{
		appendStringInfoString(hint, " A prepared XA transaction keeps its tables locked until XA COMMIT or XA ROLLBACK "
							   "(XA RECOVER CONVERT XID lists them; it needs XA_RECOVER_ADMIN).");
		return;
	}
	if (prepared->nrows == 0)
		return;
	appendStringInfo(hint, " Prepared XA transactions on the source: %d. Each keeps its tables locked until XA COMMIT or XA ROLLBACK:",
					 prepared->nrows);
	for (int i = 0; i < Min(prepared->nrows, MAX_LISTED_XA); i++)
		append_xa(hint, prepared->rows[i]);
}

char *
capstan_tablelock_hint(const TableLock *lock)
{
	StringInfoData hint;

	initStringInfo(&hint);
	if (!lock->flush_allowed)
		appendStringInfo(&hint, "GRANT FLUSH_TABLES ON *.* TO %s; lets capstan queue fairly behind open transactions. ",
						 capstan_wire_account(lock->helper));
	appendStringInfoString(&hint, "Look for long transactions on the table in information_schema.innodb_trx of the source. "
						   "A higher capstan.max_lock_wait lets capstan wait longer while it holds back writers; "
						   "where nothing can be granted, SET GLOBAL max_write_lock_count = 16 on the source helps.");
	capstan_tablelock_append_prepared(&hint, lock->helper);
	return hint.data;
}
