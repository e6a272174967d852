/*
 * exactpair.h
 *		Does a read view hold exactly the transactions that a GTID set names?
 *
 * A program for the tests, against a real MySQL.  N writers change a table in transactions of
 * several shapes.  The k-th transaction of writer w, whatever else it does, sets the row of w in
 * the table to k, so that what a view holds of w is one number, and the server tells the writer
 * the GTID of each commit.  Meanwhile the main thread captures, again and again, a GTID set G (or
 * a file position) and a view, in one of several ways:
 *
 *	 pair				lock connection A, view connection B, as the snapshot does it
 *	 write_pair			the same with LOCK TABLES ... WRITE, the touch after UNLOCK
 *	 one_connection		lock, G and view on one connection: START TRANSACTION unlocks first
 *	 no_lock_set_first	G, then the view
 *	 no_lock_view_first	the view, then G
 *	 file_position		SHOW BINARY LOG STATUS, then the view
 *	 read_committed		pair, but B reads below REPEATABLE READ: no snapshot, and warning 138
 *
 * Once the writers stand still and all their GTIDs are known, each capture is judged:
 *
 *	 missing	transactions in G that the view does not show: lost for ever by a copy
 *	 future		transactions that the view shows and that are not in G
 *
 * A further mode takes no captures:
 *
 *	 overlap	writers whose transactions on a given table overlap; the longest time that a
 *				statement of theirs took is reported
 *
 * main.c: options, table, cycles, report.  writer.c: the writers.  capture.c: the ways to
 * capture.  check.c: the judgement.
 */
#ifndef EXACTPAIR_H
#define EXACTPAIR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <mysql.h>

#define MAX_WRITERS 64
/* Each is 5 % longer than the one before it; the first is TOOK_FIRST_MS. */
#define TOOK_BUCKETS 400
#define TOOK_FIRST_MS 0.01
#define TOOK_GROWTH 1.05
#define TABLE_T "exactpair.t"
#define TABLE_U "exactpair.u"

typedef enum CaptureMode
{
	MODE_PAIR,
	MODE_WRITE_PAIR,
	MODE_ONE_CONNECTION,
	MODE_NO_LOCK_SET_FIRST,
	MODE_NO_LOCK_VIEW_FIRST,
	MODE_FILE_POSITION,
	MODE_READ_COMMITTED,
	MODE_OVERLAP
} CaptureMode;

typedef struct Options
{
	const char *socket;
	const char *user;
	const char *mode_name;
	CaptureMode mode;
	int			writers;
	double		seconds;
	const char *expect;			/* "exact", "missing", "future" or NULL */
	int			least_captures; /* of "exact" */
	const char *order_commits;	/* "ON" or "OFF": set on the server; NULL: left alone */
	bool		quick;			/* writers do short transactions only */
	bool		ddl;			/* a further thread alters the table now and then */
	int			ntables;
	char	   *tables[2];		/* of MODE_OVERLAP */
	int			npauses;
	int			pauses_ms[8];	/* of MODE_OVERLAP: the writers' transactions take so long */
} Options;

typedef struct Capture
{
	char	   *gtid_set;		/* or NULL: the position counts */
	int			file;			/* number of the binary log */
	uint64_t	position;
	int64_t		shown[MAX_WRITERS]; /* k of each writer, as the view has it */
} Capture;

typedef struct Writer
{
	pthread_t	thread;
	MYSQL	   *conn;
	int			number;
	unsigned int seed;
	int64_t		ncommits;
	int64_t		allocated;
	int64_t    *gtid;			/* number part of the GTID of transaction k at [k - 1] */
	/* MODE_OVERLAP */
	int			pause_ms;
	int64_t		statements;
	int64_t		errors;
	double		worst_ms;
	int64_t		took[TOOK_BUCKETS];	/* how many statements took how long, see took_bucket */
	double		worst_at;
	char	   *worst_statement;
} Writer;

/* Binary log place where each transaction starts, by the number part of its GTID. */
typedef struct Places
{
	int64_t		first;
	int64_t		count;
	struct Place
	{
		int			file;		/* 0: no such transaction */
		uint64_t	position;
	}		   *places;
} Places;

typedef struct Verdict
{
	int64_t		captures;
	int64_t		missing_captures;	/* captures with at least one */
	int64_t		future_captures;
	int64_t		missing;		/* transactions */
	int64_t		future;
} Verdict;

typedef struct CaptureCounts
{
	int64_t		read_locks;
	int64_t		flush_locks;
	int64_t		write_locks;
	int64_t		refused_tries;	/* lock not granted within its bound */
	int64_t		redone;			/* the touch met a change of the definition */
	atomic_long	altered;		/* statements of the thread that alters T */
	int64_t		warned;			/* START TRANSACTION gave warning 138 */
} CaptureCounts;

extern Options options;
extern atomic_bool writers_stop;
extern char server_uuid[40];

/* main.c */
extern void die(const char *format,...) __attribute__((noreturn, format(printf, 1, 2)));
extern double now_s(void);
extern void sleep_us(long us);
extern MYSQL *connect_to_server(void);
extern void execute(MYSQL *conn, const char *format,...) __attribute__((format(printf, 2, 3)));
extern char *query_text(MYSQL *conn, const char *sql, int column);

/* writer.c */
extern void writers_open(Writer *writers, int n);
extern void writers_run(Writer *writers, int n);
extern void writers_join(Writer *writers, int n);
extern void writers_close(Writer *writers, int n);
extern void *ddl_main(void *unused);

/* capture.c */
extern void capture_open(void);
extern bool capture_take(Capture *capture);
extern void capture_close(void);
extern CaptureCounts capture_counts;

/* check.c */
extern void binlog_place(MYSQL *conn, int *file, uint64_t *position);
extern void places_read(Places *places, MYSQL *conn, int file, uint64_t position);
extern void judge(Verdict *verdict, const Capture *capture, const Writer *writers, int n, const Places *places);

#endif
