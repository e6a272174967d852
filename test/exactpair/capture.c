/*
 * capture.c
 *		The ways to capture a GTID set or position together with a view.
 *
 * Called by main.c, from its thread.  See exactpair.h for the modes.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mysqld_error.h>

#include "exactpair.h"

#define WARN_WITHOUT_SNAPSHOT 138
/* since 5.7; Connector/C does not know it */
#ifndef ER_QUERY_TIMEOUT
#define ER_QUERY_TIMEOUT 3024
#endif

#define READ_BOUND_MS 30
#define STRONG_BOUND_MS 2000

CaptureCounts capture_counts;

static MYSQL *lock_conn;		/* A */
static MYSQL *view_conn;		/* B */
static MYSQL *helper_conn;
static int64_t captures_begun;

void
capture_open(void)
{
	lock_conn = connect_to_server();
	view_conn = connect_to_server();
	helper_conn = connect_to_server();
	execute(view_conn, "SET SESSION TRANSACTION ISOLATION LEVEL %s",
			options.mode == MODE_READ_COMMITTED ? "READ COMMITTED" : "REPEATABLE READ");
}

void
capture_close(void)
{
	mysql_close(lock_conn);
	mysql_close(view_conn);
	mysql_close(helper_conn);
}

/* A statement that waits no longer than the bound: false, the lock was not granted. */
static bool
lock_within(const char *sql, int bound_ms)
{
	struct pollfd waiting = {.fd = lock_conn->net.fd, .events = POLLIN};
	unsigned int code;
	bool		killed = false;

	if (mysql_send_query(lock_conn, sql, strlen(sql)) != 0)
		die("%s: %s", sql, mysql_error(lock_conn));
	if (poll(&waiting, 1, bound_ms) == 0)
	{
		execute(helper_conn, "KILL QUERY %lu", mysql_thread_id(lock_conn));
		killed = true;
	}
	if (mysql_read_query_result(lock_conn) == 0)
	{
		/* granted after all: the kill may hit the next statement, which is to be one that does not count */
		if (killed)
			(void) mysql_query(lock_conn, "DO 0");
		return true;
	}
	code = mysql_errno(lock_conn);
	if (code != ER_QUERY_INTERRUPTED && code != ER_LOCK_WAIT_TIMEOUT)
		die("%s: %s", sql, mysql_error(lock_conn));
	/* FLUSH TABLES may have got half of the way */
	execute(lock_conn, "UNLOCK TABLES");
	capture_counts.refused_tries++;
	return false;
}

/* A lock that keeps writers out and lets readers in: READ, and where it starves FLUSH, which is also tried at once half of the time. */
static void
lock_for_readers(void)
{
	for (;;)
	{
		if (captures_begun % 2 == 0 && lock_within("LOCK TABLES " TABLE_T " READ", READ_BOUND_MS))
		{
			capture_counts.read_locks++;
			return;
		}
		if (lock_within("FLUSH TABLES " TABLE_T " WITH READ LOCK", STRONG_BOUND_MS))
		{
			capture_counts.flush_locks++;
			return;
		}
	}
}

static char *
read_set(MYSQL *conn)
{
	return query_text(conn, "SELECT @@GLOBAL.gtid_executed", 0);
}

static void
open_view(MYSQL *conn)
{
	unsigned int warnings;

	execute(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
	warnings = mysql_warning_count(conn);
	if (warnings == 0)
		return;
	if (options.mode == MODE_READ_COMMITTED && warnings == 1)
	{
		char	   *code = query_text(conn, "SHOW WARNINGS", 1);

		if (atoi(code) == WARN_WITHOUT_SNAPSHOT)
			capture_counts.warned++;
		free(code);
		return;
	}
	die("START TRANSACTION WITH CONSISTENT SNAPSHOT gave %u warnings", warnings);
}

/*
 * Pins the definition of T for the view.  False: it has changed since, or it is about to.  Under a lock that lets readers
 * in nothing can have changed, but an ALTER TABLE that waits for that very lock lets no new reader in: a touch
 * without a limit of time would wait for ourselves.  Without a lock a row must be read, for LIMIT 0 never gives 1412.
 */
static bool
touch(bool locked)
{
	MYSQL_RES  *result = NULL;
	const char *sql = locked ? "SELECT /*+ MAX_EXECUTION_TIME(100) */ 1 FROM " TABLE_T " LIMIT 0" :
		"SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1 FROM " TABLE_T " LIMIT 1";

	if (mysql_query(view_conn, sql) != 0 || (result = mysql_store_result(view_conn)) == NULL)
	{
		if (mysql_errno(view_conn) != ER_TABLE_DEF_CHANGED && mysql_errno(view_conn) != ER_QUERY_TIMEOUT)
			die("touch: %s", mysql_error(view_conn));
		return false;
	}
	mysql_free_result(result);
	return true;
}

static void
read_view(MYSQL *conn, Capture *capture)
{
	MYSQL_RES  *result;
	MYSQL_ROW	row;
	int			rows = 0;

	if (mysql_query(conn, "SELECT id, k FROM " TABLE_T " WHERE id < 100 ORDER BY id") != 0)
		die("read: %s", mysql_error(conn));
	result = mysql_store_result(conn);
	if (result == NULL)
		die("read: %s", mysql_error(conn));
	while ((row = mysql_fetch_row(result)) != NULL)
	{
		if (atoi(row[0]) != rows)
			die("the view lacks the row of writer %d", rows);
		capture->shown[rows++] = strtoll(row[1], NULL, 10);
	}
	mysql_free_result(result);
	if (rows != options.writers)
		die("the view shows %d writers", rows);
	execute(conn, "COMMIT");
}

/* Writers go on meanwhile; a view that moved would show it. */
static void
let_writers_go_on(void)
{
	static unsigned int seed = 1;

	sleep_us(rand_r(&seed) % 3000);
}

/*
 * The place between view and touch, where DDL can slip in, or, under the lock, queue up.  Without a lock waits until it
 * did.
 */
static void
let_ddl_come(bool locked)
{
	double		end = now_s() + (locked ? 0.03 : 0.5);
	long		altered = capture_counts.altered;

	if (!options.ddl || captures_begun % 4 < 2)
		return;
	while (now_s() < end && capture_counts.altered == altered)
		sleep_us(1000);
}

static bool
give_up(Capture *capture)
{
	capture_counts.redone++;
	execute(view_conn, "COMMIT");
	free(capture->gtid_set);
	return false;
}

static bool
take_pair(Capture *capture)
{
	bool		touched;

	lock_for_readers();
	capture->gtid_set = read_set(lock_conn);
	open_view(view_conn);
	let_ddl_come(true);
	touched = touch(true);
	execute(lock_conn, "UNLOCK TABLES");
	if (!touched)
		return give_up(capture);
	let_writers_go_on();
	read_view(view_conn, capture);
	return true;
}

static bool
take_write_pair(Capture *capture)
{
	while (!lock_within("LOCK TABLES " TABLE_T " WRITE", STRONG_BOUND_MS))
		;
	capture_counts.write_locks++;
	capture->gtid_set = read_set(lock_conn);
	open_view(view_conn);
	execute(lock_conn, "UNLOCK TABLES");
	let_ddl_come(false);
	if (!touch(false))
		return give_up(capture);
	let_writers_go_on();
	read_view(view_conn, capture);
	return true;
}

/* False: nothing captured, try again. */
bool
capture_take(Capture *capture)
{
	captures_begun++;
	memset(capture, 0, sizeof(*capture));
	switch (options.mode)
	{
		case MODE_PAIR:
		case MODE_READ_COMMITTED:
			return take_pair(capture);
		case MODE_WRITE_PAIR:
			return take_write_pair(capture);
		case MODE_ONE_CONNECTION:
			lock_for_readers();
			capture->gtid_set = read_set(lock_conn);
			open_view(lock_conn);
			read_view(lock_conn, capture);
			return true;
		case MODE_NO_LOCK_SET_FIRST:
			capture->gtid_set = read_set(lock_conn);
			open_view(view_conn);
			break;
		case MODE_NO_LOCK_VIEW_FIRST:
			open_view(view_conn);
			capture->gtid_set = read_set(lock_conn);
			break;
		case MODE_FILE_POSITION:
			binlog_place(lock_conn, &capture->file, &capture->position);
			open_view(view_conn);
			break;
		case MODE_OVERLAP:
			die("no captures in this mode");
	}
	read_view(view_conn, capture);
	return true;
}
