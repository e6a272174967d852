/*
 * main.c
 *		exactpair: options, the table, cycles of capturing and judging, the report.  See exactpair.h.
 *
 * Exit code: 0 what was expected, 1 something else, 2 the program could not do its work.
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exactpair.h"

/* Violations are looked for after so long, to end as soon as there is one. */
#define CYCLE_S 1.0
/* On a machine that is busy with other things captures take longer: so many times --seconds for what there must be of them. */
#define PATIENCE 50

Options		options = {.user = "root", .writers = 8, .seconds = 15, .least_captures = 200};
char		server_uuid[40];

static const char *const mode_names[] = {
	[MODE_PAIR] = "pair",
	[MODE_WRITE_PAIR] = "write_pair",
	[MODE_ONE_CONNECTION] = "one_connection",
	[MODE_NO_LOCK_SET_FIRST] = "no_lock_set_first",
	[MODE_NO_LOCK_VIEW_FIRST] = "no_lock_view_first",
	[MODE_FILE_POSITION] = "file_position",
	[MODE_READ_COMMITTED] = "read_committed",
	[MODE_OVERLAP] = "overlap",
};
static atomic_bool ended_by_signal;

void
die(const char *format,...)
{
	va_list		arguments;

	va_start(arguments, format);
	fputs("exactpair: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_exit(2);
}

double
now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void
sleep_us(long us)
{
	struct timespec pause = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&pause, NULL);
}

MYSQL *
connect_to_server(void)
{
	MYSQL	   *conn = mysql_init(NULL);

	if (conn == NULL || mysql_real_connect(conn, "localhost", options.user, "", NULL, 0, options.socket, 0) == NULL)
		die("no connection to %s: %s", options.socket, conn == NULL ? "out of memory" : mysql_error(conn));
	return conn;
}

void
execute(MYSQL *conn, const char *format,...)
{
	char		sql[1000];
	va_list		arguments;
	MYSQL_RES  *result;

	va_start(arguments, format);
	vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	if (mysql_query(conn, sql) != 0)
		die("%s: %s", sql, mysql_error(conn));
	result = mysql_store_result(conn);
	if (result != NULL)
		mysql_free_result(result);
}

/* A column of the first row, to be freed. */
char *
query_text(MYSQL *conn, const char *sql, int column)
{
	MYSQL_RES  *result;
	MYSQL_ROW	row;
	char	   *text;

	if (mysql_query(conn, sql) != 0 || (result = mysql_store_result(conn)) == NULL)
		die("%s: %s", sql, mysql_error(conn));
	row = mysql_fetch_row(result);
	if (row == NULL || row[column] == NULL)
		die("%s: no value", sql);
	text = strdup(row[column]);
	mysql_free_result(result);
	return text;
}

static void
create_tables(MYSQL *conn)
{
	execute(conn, "DROP DATABASE IF EXISTS exactpair");
	execute(conn, "CREATE DATABASE exactpair");
	execute(conn, "CREATE TABLE " TABLE_T " (id INT PRIMARY KEY, k BIGINT NOT NULL, pad VARCHAR(200) NOT NULL)");
	execute(conn, "CREATE TABLE " TABLE_U " (id INT PRIMARY KEY, k BIGINT NOT NULL)");
}

/* The writers at work for so many seconds, captures all along, then the judgement. */
static void
run_cycle(MYSQL *conn, Writer *writers, double seconds, Verdict *verdict)
{
	Capture    *captures = NULL;
	int64_t		ncaptures = 0;
	int64_t		allocated = 0;
	Places		places = {0};
	pthread_t	ddl_thread;
	int			file;
	uint64_t	position;
	double		start = now_s();
	int64_t		least = options.expect != NULL && strcmp(options.expect, "exact") == 0 ? options.least_captures : 0;

	binlog_place(conn, &file, &position);
	writers_run(writers, options.writers);
	if (options.ddl && pthread_create(&ddl_thread, NULL, ddl_main, NULL) != 0)
		die("no thread for DDL");
	sleep_us(50000);
	while (now_s() < start + seconds ||
		   ((ncaptures < least || (options.ddl && capture_counts.redone == 0)) && now_s() < start + PATIENCE * seconds))
	{
		if (ncaptures == allocated)
		{
			allocated = allocated == 0 ? 1000 : allocated * 2;
			captures = realloc(captures, sizeof(Capture) * allocated);
			if (captures == NULL)
				die("out of memory");
		}
		if (capture_take(&captures[ncaptures]))
			ncaptures++;
	}
	writers_join(writers, options.writers);
	if (options.ddl)
		pthread_join(ddl_thread, NULL);

	if (options.mode == MODE_FILE_POSITION)
		places_read(&places, conn, file, position);
	for (int64_t i = 0; i < ncaptures; i++)
	{
		judge(verdict, &captures[i], writers, options.writers, &places);
		free(captures[i].gtid_set);
	}
	free(captures);
	free(places.places);
}

static bool
as_expected(const Verdict *verdict, const Writer *writers)
{
	for (int i = 0; i < options.writers; i++)
		if (writers[i].ncommits == 0)
			die("writer %d did nothing", i);
	/* each view that was opened, those that were given up, too */
	if (options.mode == MODE_READ_COMMITTED && capture_counts.warned != verdict->captures + capture_counts.redone)
		return false;
	if (options.expect == NULL)
		return true;
	if (strcmp(options.expect, "exact") == 0)
		return verdict->missing == 0 && verdict->future == 0 && verdict->captures >= options.least_captures &&
			(!options.ddl || capture_counts.redone > 0);
	return strcmp(options.expect, "missing") == 0 ? verdict->missing > 0 : verdict->future > 0;
}

static int
run_captures(void)
{
	static Writer writers[MAX_WRITERS];
	MYSQL	   *conn = connect_to_server();
	Verdict		verdict = {0};
	double		start;
	int64_t		transactions = 0;
	bool		look_for_violations = options.expect != NULL && strcmp(options.expect, "exact") != 0;
	bool		expected;
	char	   *text;

	if (options.order_commits != NULL)
		execute(conn, "SET GLOBAL binlog_order_commits = %s", options.order_commits);
	text = query_text(conn, "SELECT @@server_uuid", 0);
	snprintf(server_uuid, sizeof(server_uuid), "%s", text);
	free(text);
	create_tables(conn);
	writers_open(writers, options.writers);
	capture_open();
	start = now_s();
	do
		run_cycle(conn, writers, look_for_violations ? CYCLE_S : options.seconds, &verdict);
	while (now_s() < start + options.seconds && !(look_for_violations && as_expected(&verdict, writers)));

	for (int i = 0; i < options.writers; i++)
		transactions += writers[i].ncommits;
	text = query_text(conn, "SELECT IF(@@GLOBAL.binlog_order_commits, 'ON', 'OFF')", 0);
	printf("mode=%s order_commits=%s writers=%d seconds=%.1f transactions=%lld captures=%lld "
		   "captures_missing=%lld captures_future=%lld missing=%lld future=%lld "
		   "read=%lld flush=%lld write=%lld refused=%lld redone=%lld altered=%ld warned=%lld\n",
		   options.mode_name, text, options.writers, now_s() - start, (long long) transactions, (long long) verdict.captures,
		   (long long) verdict.missing_captures, (long long) verdict.future_captures,
		   (long long) verdict.missing, (long long) verdict.future,
		   (long long) capture_counts.read_locks, (long long) capture_counts.flush_locks, (long long) capture_counts.write_locks,
		   (long long) capture_counts.refused_tries, (long long) capture_counts.redone, capture_counts.altered, (long long) capture_counts.warned);
	free(text);
	capture_close();
	mysql_close(conn);
	expected = as_expected(&verdict, writers);
	writers_close(writers, options.writers);
	return expected ? 0 : 1;
}

static void
end_by_signal(int signal_number)
{
	(void) signal_number;
	ended_by_signal = true;
}

/* So long took that part of the statements, at most (to 5 %). */
static double
percentile_ms(const int64_t *took, int64_t statements, double part)
{
	double		limit = TOOK_FIRST_MS;
	int64_t		below = 0;

	for (int i = 0; i < TOOK_BUCKETS; i++, limit *= TOOK_GROWTH)
	{
		below += took[i];
		if ((double) below >= part * (double) statements)
			break;
	}
	return limit;
}

/* One line for each length of transactions: the worst of its writers. */
static int
run_overlap(void)
{
	static Writer writers[MAX_WRITERS];
	double		start;

	if (options.ntables == 0 || options.npauses == 0)
		die("overlap needs --tables and --pauses");
	signal(SIGTERM, end_by_signal);
	signal(SIGINT, end_by_signal);
	writers_open(writers, options.writers);
	start = now_s();
	writers_run(writers, options.writers);
	while (!ended_by_signal && now_s() < start + options.seconds)
		sleep_us(20000);
	writers_join(writers, options.writers);
	for (int i = 0; i < options.npauses; i++)
	{
		const Writer *worst = NULL;
		int64_t		transactions = 0;
		int64_t		statements = 0;
		int64_t		errors = 0;
		int64_t		took[TOOK_BUCKETS] = {0};

		for (int j = i; j < options.writers; j += options.npauses)
		{
			transactions += writers[j].ncommits;
			statements += writers[j].statements;
			errors += writers[j].errors;
			for (int k = 0; k < TOOK_BUCKETS; k++)
				took[k] += writers[j].took[k];
			if (worst == NULL || writers[j].worst_ms > worst->worst_ms)
				worst = &writers[j];
		}
		if (worst != NULL)
			printf("pause_ms=%d transactions=%lld statements=%lld errors=%lld p50_ms=%.1f p99_ms=%.1f p999_ms=%.1f worst_ms=%.1f worst_at_s=%.1f worst_statement=%s\n",
				   options.pauses_ms[i], (long long) transactions, (long long) statements, (long long) errors,
				   percentile_ms(took, statements, 0.5), percentile_ms(took, statements, 0.99), percentile_ms(took, statements, 0.999),
				   worst->worst_ms, worst->worst_at - start, worst->worst_statement);
	}
	writers_close(writers, options.writers);
	return 0;
}

static void
usage(void)
{
	fputs("usage: exactpair --socket=PATH --mode=MODE [option...]\n"
		  "  --mode            pair, write_pair, one_connection, no_lock_set_first, no_lock_view_first,\n"
		  "                    file_position, read_committed, overlap\n"
		  "  --user            without a password (root)\n"
		  "  --writers         (8)\n"
		  "  --seconds         (15)\n"
		  "  --expect          exact: no violation; missing, future: at least one such, and end with it\n"
		  "  --least-captures  of exact (200)\n"
		  "  --order-commits   ON or OFF: set binlog_order_commits\n"
		  "  --quick           writers do short transactions only\n"
		  "  --ddl             alter the table meanwhile\n"
		  "  --tables          of overlap: schema.table[,schema.table] with columns id, n, note\n"
		  "  --pauses          of overlap: how long transactions take, ms, e.g. 20,200,2000; the writers take turns\n", stderr);
	exit(2);
}

static void
parse_pauses(const char *text)
{
	char	   *end;

	for (;;)
	{
		long		ms = strtol(text, &end, 10);

		if (end == text || ms <= 0 || options.npauses == 8)
			usage();
		options.pauses_ms[options.npauses++] = ms;
		if (*end == '\0')
			return;
		text = end + 1;
	}
}

static void
parse_tables(char *text)
{
	for (char *name = strtok(text, ","); name != NULL; name = strtok(NULL, ","))
	{
		if (options.ntables == 2)
			usage();
		options.tables[options.ntables++] = name;
	}
}

static void
parse_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"socket", required_argument, NULL, 's'}, {"user", required_argument, NULL, 'u'},
		{"mode", required_argument, NULL, 'm'}, {"writers", required_argument, NULL, 'w'},
		{"seconds", required_argument, NULL, 't'}, {"expect", required_argument, NULL, 'e'},
		{"least-captures", required_argument, NULL, 'l'}, {"order-commits", required_argument, NULL, 'o'},
		{"quick", no_argument, NULL, 'q'}, {"ddl", no_argument, NULL, 'd'},
		{"tables", required_argument, NULL, 'T'}, {"pauses", required_argument, NULL, 'p'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
	{
		switch (option)
		{
			case 's':
				options.socket = optarg;
				break;
			case 'u':
				options.user = optarg;
				break;
			case 'm':
				options.mode_name = optarg;
				break;
			case 'w':
				options.writers = atoi(optarg);
				break;
			case 't':
				options.seconds = atof(optarg);
				break;
			case 'e':
				options.expect = optarg;
				break;
			case 'l':
				options.least_captures = atoi(optarg);
				break;
			case 'o':
				options.order_commits = optarg;
				break;
			case 'q':
				options.quick = true;
				break;
			case 'd':
				options.ddl = true;
				break;
			case 'T':
				parse_tables(optarg);
				break;
			case 'p':
				parse_pauses(optarg);
				break;
			default:
				usage();
		}
	}
}

int
main(int argc, char **argv)
{
	int			modes = sizeof(mode_names) / sizeof(mode_names[0]);
	int			mode = 0;

	parse_options(argc, argv);
	if (options.socket == NULL || options.mode_name == NULL || options.writers < 1 || options.writers > MAX_WRITERS)
		usage();
	if (options.expect != NULL && strcmp(options.expect, "exact") != 0 && strcmp(options.expect, "missing") != 0 &&
		strcmp(options.expect, "future") != 0)
		usage();
	if (options.order_commits != NULL && strcmp(options.order_commits, "ON") != 0 && strcmp(options.order_commits, "OFF") != 0)
		usage();
	while (mode < modes && strcmp(mode_names[mode], options.mode_name) != 0)
		mode++;
	if (mode == modes)
		usage();
	options.mode = mode;
	if (mysql_library_init(0, NULL, NULL) != 0)
		die("the client library does not start");
	return options.mode == MODE_OVERLAP ? run_overlap() : run_captures();
}
