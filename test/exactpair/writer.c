/*
 * writer.c
 *		The writers: each a thread with a connection of its own.
 *
 * Called by main.c.  A transaction that the server rolls back (deadlock) is done again under the same number;
 * anything else that fails ends the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mysqld_error.h>

#include "exactpair.h"

/* Rows of T: 0.. the writers' counters; from SHARED_ROW on for all; from OWN_ROW * (w + 1) on each writer's own. */
#define SHARED_ROW 500
#define SHARED_ROWS 8
#define OWN_ROW 1000
#define INSERTED_ROW 100

/* Raised to end all writers' threads. */
atomic_bool writers_stop;

static int
random_below(Writer *writer, int n)
{
	return rand_r(&writer->seed) % n;
}

/* False: rolled back by the server, do it again. */
static bool
statement(Writer *writer, const char *format, long long a, long long b)
{
	char		sql[500];
	unsigned int code;

	snprintf(sql, sizeof(sql), format, a, b);
	if (mysql_query(writer->conn, sql) == 0)
		return true;
	code = mysql_errno(writer->conn);
	if (code == ER_LOCK_DEADLOCK || code == ER_LOCK_WAIT_TIMEOUT)
	{
		execute(writer->conn, "ROLLBACK");
		return false;
	}
	die("writer %d: %s: %s", writer->number, sql, mysql_error(writer->conn));
}

static bool
set_counter(Writer *writer, int64_t k)
{
	return statement(writer, "UPDATE " TABLE_T " SET k = %lld WHERE id = %lld", k, writer->number);
}

static bool
begin(Writer *writer)
{
	return statement(writer, "BEGIN", 0, 0);
}

static bool
commit(Writer *writer)
{
	return statement(writer, "COMMIT", 0, 0);
}

/* Keeps the transaction open for a moment, so that it overlaps with others and is met by captures in the middle. */
static bool
linger(Writer *writer)
{
	sleep_us(random_below(writer, 4) == 0 ? random_below(writer, 10000) : random_below(writer, 1000));
	return true;
}

static bool
several_rows(Writer *writer, int64_t k)
{
	return begin(writer) && set_counter(writer, k) &&
		statement(writer, "UPDATE " TABLE_T " SET k = %1$lld WHERE id BETWEEN %2$lld AND %2$lld + 4", k, OWN_ROW * (writer->number + 1)) &&
		commit(writer);
}

static bool
insert_delete(Writer *writer, int64_t k)
{
	long long	base = OWN_ROW * (writer->number + 1) + INSERTED_ROW;

	return begin(writer) &&
		statement(writer, "REPLACE INTO " TABLE_T " VALUES (%lld, %lld, REPEAT('x', 100))", base + k % 50, k) &&
		statement(writer, "DELETE FROM " TABLE_T " WHERE id = %lld", base + (k + 25) % 50, 0) &&
		set_counter(writer, k) && commit(writer);
}

static bool
two_tables(Writer *writer, int64_t k, bool t_first)
{
	return begin(writer) && (!t_first || set_counter(writer, k)) &&
		statement(writer, "UPDATE " TABLE_U " SET k = %lld WHERE id = %lld", k, writer->number) &&
		linger(writer) && (t_first || set_counter(writer, k)) && commit(writer);
}

static bool
shared_row(Writer *writer, int64_t k)
{
	return begin(writer) &&
		statement(writer, "UPDATE " TABLE_T " SET k = k + %lld WHERE id = %lld", 1, SHARED_ROW + random_below(writer, SHARED_ROWS)) &&
		set_counter(writer, k) && linger(writer) && commit(writer);
}

static bool
joined(Writer *writer, int64_t k)
{
	return statement(writer, "UPDATE " TABLE_T " JOIN " TABLE_U " USING (id) SET t.k = %1$lld, u.k = %1$lld WHERE t.id = %2$lld",
					 k, writer->number);
}

static bool
mixed_transaction(Writer *writer, int64_t k)
{
	switch (random_below(writer, 8))
	{
		case 0:
		case 1:
			return set_counter(writer, k);
		case 2:
			return several_rows(writer, k);
		case 3:
			return insert_delete(writer, k);
		case 4:
			return two_tables(writer, k, true);
		case 5:
			return two_tables(writer, k, false);
		case 6:
			return shared_row(writer, k);
		default:
			return joined(writer, k);
	}
}

/* The GTID of the transaction just committed, as the server told it along with the OK. */
static void
note_commit(Writer *writer)
{
	const char *data;
	size_t		length;
	char		gtid[100];
	char	   *colon;

	if (mysql_session_track_get_first(writer->conn, SESSION_TRACK_GTIDS, &data, &length) != 0 || length >= sizeof(gtid))
		die("writer %d: the server did not tell the GTID of a commit", writer->number);
	memcpy(gtid, data, length);
	gtid[length] = '\0';
	colon = strchr(gtid, ':');
	if (colon == NULL || colon - gtid != (long) strlen(server_uuid) || memcmp(gtid, server_uuid, colon - gtid) != 0)
		die("writer %d: GTID %s is not of server %s", writer->number, gtid, server_uuid);
	if (writer->ncommits == writer->allocated)
	{
		writer->allocated = writer->allocated == 0 ? 1000 : writer->allocated * 2;
		writer->gtid = realloc(writer->gtid, sizeof(int64_t) * writer->allocated);
		if (writer->gtid == NULL)
			die("out of memory");
	}
	writer->gtid[writer->ncommits++] = strtoll(colon + 1, NULL, 10);
	if (writer->ncommits > 1 && writer->gtid[writer->ncommits - 1] <= writer->gtid[writer->ncommits - 2])
		die("writer %d: GTIDs do not ascend", writer->number);
}

static void *
writer_main(void *argument)
{
	Writer	   *writer = argument;

	mysql_thread_init();
	while (!writers_stop)
	{
		int64_t		k = writer->ncommits + 1;

		if (options.quick)
		{
			while (!set_counter(writer, k))
				;
		}
		else
		{
			/* changes of another table alone, which no view of T can tell */
			if (random_below(writer, 10) == 0)
				(void) statement(writer, "UPDATE " TABLE_U " SET k = %lld WHERE id = %lld", -k, writer->number);
			while (!mixed_transaction(writer, k))
				;
		}
		note_commit(writer);
		if (!options.quick && random_below(writer, 3) == 0)
			sleep_us(random_below(writer, 3000));
	}
	mysql_thread_end();
	return NULL;
}

static int
took_bucket(double ms)
{
	int			bucket = 0;

	for (double limit = TOOK_FIRST_MS; ms > limit && bucket < TOOK_BUCKETS - 1; limit *= TOOK_GROWTH)
		bucket++;
	return bucket;
}

/* A statement and how long it took; false: it failed, and the transaction is rolled back. */
static bool
timed(Writer *writer, const char *format, const char *table, long long row)
{
	char		sql[500];
	double		start = now_s();
	double		took;
	bool		failed;

	snprintf(sql, sizeof(sql), format, table, row);
	failed = mysql_query(writer->conn, sql) != 0;
	took = (now_s() - start) * 1000;
	writer->statements++;
	writer->took[took_bucket(took)]++;
	if (took > writer->worst_ms)
	{
		writer->worst_ms = took;
		writer->worst_at = start;
		free(writer->worst_statement);
		writer->worst_statement = strdup(sql);
	}
	if (!failed)
		return true;
	if (writer->errors++ == 0)
		fprintf(stderr, "writer %d: %s: %s\n", writer->number, sql, mysql_error(writer->conn));
	execute(writer->conn, "ROLLBACK");
	return false;
}

static bool
overlap_transaction(Writer *writer, const char *first, const char *second, long long base)
{
	if (!timed(writer, "BEGIN /* %s %lld */", first, base) ||
		!timed(writer, "UPDATE %s SET n = n + 1 WHERE id = %lld", first, base))
		return false;
	sleep_us(writer->pause_ms * 500L);
	if (!timed(writer, "REPLACE INTO %s VALUES (%lld, 1, 'came')", second, base + 1 + random_below(writer, 200)) ||
		!timed(writer, "DELETE FROM %s WHERE id = %lld", first, base + 1 + random_below(writer, 200)))
		return false;
	sleep_us(writer->pause_ms * 500L);
	return timed(writer, "UPDATE %s SET n = n + 1 WHERE id = %lld", second, base) &&
		timed(writer, "COMMIT /* %s %lld */", second, base);
}

/*
 * Transactions end to end, each open for its pause; the tables have columns id, n, note.  Every writer has rows of his own,
 * so that what a statement waits for is never a row.  With two tables every other writer takes them in the other order.
 */
static void *
overlap_main(void *argument)
{
	Writer	   *writer = argument;
	long long	base = 1000000LL + 1000 * writer->number;
	const char *first = options.tables[writer->number % options.ntables];
	const char *second = options.tables[(writer->number + 1) % options.ntables];

	mysql_thread_init();
	for (int i = 0; i < options.ntables; i++)
		execute(writer->conn, "REPLACE INTO %s VALUES (%lld, 0, 'first')", options.tables[i], base);
	/* not in step with one another */
	sleep_us(random_below(writer, writer->pause_ms * 1000));
	while (!writers_stop)
		if (overlap_transaction(writer, first, second, base))
			writer->ncommits++;
	mysql_thread_end();
	return NULL;
}

/* Builds T anew now and then, which leaves its columns as they are. */
void *
ddl_main(void *unused)
{
	MYSQL	   *conn;

	(void) unused;
	mysql_thread_init();
	conn = connect_to_server();
	while (!writers_stop)
	{
		execute(conn, "ALTER TABLE " TABLE_T " FORCE");
		capture_counts.altered++;
		sleep_us(50000);
	}
	mysql_close(conn);
	mysql_thread_end();
	return NULL;
}

void
writers_open(Writer *writers, int n)
{
	for (int i = 0; i < n; i++)
	{
		writers[i].number = i;
		writers[i].seed = 1000 + i;
		writers[i].conn = connect_to_server();
		execute(writers[i].conn, "SET SESSION session_track_gtids = OWN_GTID, SESSION innodb_lock_wait_timeout = 20");
		if (options.npauses > 0)
			writers[i].pause_ms = options.pauses_ms[i % options.npauses];
		if (options.mode == MODE_OVERLAP)
			continue;
		execute(writers[i].conn, "INSERT INTO " TABLE_T " VALUES (%d, 0, ''), (%d, 0, ''), (%d, 0, ''), (%d, 0, ''), (%d, 0, ''), (%d, 0, '')",
				i, OWN_ROW * (i + 1), OWN_ROW * (i + 1) + 1, OWN_ROW * (i + 1) + 2, OWN_ROW * (i + 1) + 3, OWN_ROW * (i + 1) + 4);
		execute(writers[i].conn, "INSERT INTO " TABLE_U " VALUES (%d, 0)", i);
	}
	if (options.mode != MODE_OVERLAP)
		for (int i = 0; i < SHARED_ROWS; i++)
			execute(writers[0].conn, "INSERT INTO " TABLE_T " VALUES (%d, 0, '')", SHARED_ROW + i);
}

void
writers_run(Writer *writers, int n)
{
	writers_stop = false;
	for (int i = 0; i < n; i++)
		if (pthread_create(&writers[i].thread, NULL, options.mode == MODE_OVERLAP ? overlap_main : writer_main, &writers[i]) != 0)
			die("no thread for a writer");
}

void
writers_join(Writer *writers, int n)
{
	writers_stop = true;
	for (int i = 0; i < n; i++)
		pthread_join(writers[i].thread, NULL);
}

void
writers_close(Writer *writers, int n)
{
	for (int i = 0; i < n; i++)
	{
		mysql_close(writers[i].conn);
		free(writers[i].gtid);
		free(writers[i].worst_statement);
	}
}
