/*
 * writer.c
 *		Single-row transactions at a given rate, and when each was committed.
 *
 *		writer SOCKET TABLE FIRST_ID RATE SECONDS CONNECTIONS
 *
 * Row FIRST_ID + k is due k / RATE seconds after the start, whatever became of those before it; each connection writes every
 * CONNECTIONS-th of them.  The table has columns id, at, note; "at" is the server's SYSDATE(6).  On standard output, a line for each
 * row: id, and in microseconds since the epoch when it was due, when its statement (which commits) was sent, and when the server's answer was
 * there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <errno.h>
#include <time.h>
#include <pthread.h>

#include <mysql.h>

typedef struct Moment
{
	int64_t		due;
	int64_t		sent;
	int64_t		answered;
} Moment;

static const char *table;
static int64_t first_id;
static long rate;
static long connections;
static long rows;
static int64_t start_us;
static MYSQL *conns[256];
static Moment *moments;

static void
die(const char *what, const char *why)
{
	fprintf(stderr, "writer: %s: %s\n", what, why);
	exit(1);
}

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
sleep_until(int64_t us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};

	while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void *
writer_main(void *argument)
{
	long		me = (long) (intptr_t) argument;

	mysql_thread_init();
	for (long k = me; k < rows; k += connections)
	{
		Moment	   *moment = &moments[k];
		char		sql[300];
		int			length;

		length = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (%lld, SYSDATE(6), REPEAT('x', 80))", table, (long long) (first_id + k));
		moment->due = start_us + k * 1000000 / rate;
		if (moment->due > now_us())
			sleep_until(moment->due);
		moment->sent = now_us();
		if (mysql_real_query(conns[me], sql, length) != 0)
			die(sql, mysql_error(conns[me]));
		moment->answered = now_us();
	}
	mysql_thread_end();
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t	threads[256];

	if (argc != 7)
		die("usage", "writer SOCKET TABLE FIRST_ID RATE SECONDS CONNECTIONS");
	table = argv[2];
	first_id = atoll(argv[3]);
	rate = atol(argv[4]);
	rows = rate * atol(argv[5]);
	connections = atol(argv[6]);
	if (rate < 1 || rows < 1 || connections < 1 || connections > 256)
		die("usage", "a number is out of range");
	moments = calloc(rows, sizeof(Moment));
	if (moments == NULL)
		die("calloc", "out of memory");
	mysql_library_init(0, NULL, NULL);
	for (long i = 0; i < connections; i++)
	{
		conns[i] = mysql_init(NULL);
		if (conns[i] == NULL || mysql_real_connect(conns[i], NULL, "root", "", NULL, 0, argv[1], 0) == NULL)
			die("connect", conns[i] == NULL ? "out of memory" : mysql_error(conns[i]));
	}
	start_us = now_us() + 50000;
	for (long i = 0; i < connections; i++)
		if (pthread_create(&threads[i], NULL, writer_main, (void *) (intptr_t) i) != 0)
			die("pthread_create", "no thread");
	for (long i = 0; i < connections; i++)
		pthread_join(threads[i], NULL);
	for (long k = 0; k < rows; k++)
		printf("%lld\t%lld\t%lld\t%lld\n", (long long) (first_id + k), (long long) moments[k].due, (long long) moments[k].sent, (long long) moments[k].answered);
	return 0;
}
