/*
 * shmem.h
 *		Shared memory: one slot per pipeline that runs or should run.
 *
 * The slot is where SQL functions, the launcher, the pipeline worker and its copy
 * workers meet.  All of it is lost with the postmaster (and after a crash restart): nothing
 * here is truth, the catalog is.
 */
#ifndef CAPSTAN_SHMEM_H
#define CAPSTAN_SHMEM_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"

#define CAPSTAN_MAX_COPY_WORKERS 16
/* Tables that one snapshot round copies at most; so many connections of the source lock them. */
#define CAPSTAN_ROUND_TABLES 32

/* Ordered: from WORKER_WAITING on a process is there. */
typedef enum WorkerState
{
	WORKER_STOPPED = 0,
	WORKER_HALTED,				/* a definite failure; stays so until someone acts */
	WORKER_RETRYING,			/* a transient failure; restarts at restart_at */
	WORKER_STARTING,			/* asked for, no process yet */
	WORKER_WAITING,				/* a process is there, and waits for its share of connections, see connections.h */
	WORKER_CONNECTING,
	WORKER_SNAPSHOT,			/* streams, and copies tables */
	WORKER_STREAMING
} WorkerState;

extern const char *capstan_worker_state_name(WorkerState state);

/* A snapshot round's steps, in order; see snapshot/round.h for who moves it on. */
typedef enum RoundPhase
{
	ROUND_IDLE = 0,				/* no round, or its coordinator is planning one */
	ROUND_PREPARE,				/* planned; copy workers make sure of their connections */
	ROUND_OPEN_VIEWS,			/* the lock is held: open the views now */
	ROUND_TOUCH,				/* the lock, one by WRITE or FLUSH, was given back: touch the table */
	ROUND_VIEWS_OPEN,			/* unlocked, G is in capstan.snapshot_round: the stream goes on up to G */
	ROUND_COPY,					/* the stream stands at G: write the ranges */
	ROUND_FINISHED				/* all ranges committed; the stream goes on */
} RoundPhase;

typedef enum CopyWorkerStep
{
	COPY_ABSENT = 0,
	COPY_WAITING,				/* attached, nothing to do */
	COPY_READY,					/* connection checked for this round */
	COPY_VIEW_OPEN,				/* but its tables not touched yet */
	COPY_TOUCHED,				/* view open, metadata of its tables pinned */
	COPY_DONE,					/* its ranges of this round are committed */
	COPY_VIEW_FAILED			/* the view is not the lock's: the coordinator tries again */
} CopyWorkerStep;

typedef struct CopyWorkerSlot
{
	pid_t		pid;			/* 0: none */
	Latch	   *latch;
	CopyWorkerStep step;
	int			connections;	/* to the source, that it may have open */
} CopyWorkerSlot;

/* Why a worker could not connect to its database: it would end before it could say so. */
typedef enum ConnectProblem
{
	CONNECT_NO_PROBLEM,
	CONNECT_NO_DATABASE,
	CONNECT_CLOSED_DATABASE,
	CONNECT_NO_OWNER,
	CONNECT_NO_LOGIN,
	CONNECT_NO_RIGHT
} ConnectProblem;

/* All fields under CapstanShared->lock, but for the atomics, which anybody may read. */
typedef struct PipelineSlot
{
	bool		in_use;
	Oid			database;
	Oid			owner;
	int64		pipeline_id;
	NameData	name;			/* cut to 63 bytes, for process titles and messages */
	bool		wanted;			/* should a worker be there? */
	uint64		generation;		/* of the request to run; a worker of an older one is ended */

	/* launcher */
	TimestampTz restart_at;		/* not before; 0: at once */
	ConnectProblem problem;		/* why no worker is started */
	int			failures;		/* transient ones in a row */

	/* pipeline worker; set by itself, pid and latch cleared by its exit callback */
	pid_t		pid;
	Latch	   *latch;
	uint64		running_generation;
	uint64		run_id;			/* a new one for each process; its copy workers carry it */
	WorkerState state;
	TimestampTz state_since;
	TimestampTz started_at;		/* the process */
	int			last_sqlerrcode;	/* of the last failure; 0 after a stop on request */
	char		source_uuid[37];	/* of the server it streams from; copy workers must see the same */
	char		alone_until[120];	/* GTID: the next worker commits each transaction for itself up to this one, with which a
									 * group failed; empty: none */

	/* snapshot */
	int			ncopy;			/* copy workers of this run */
	RoundPhase	phase;
	int64		round;
	int			attempt;		/* at the round's lock; a new one asks for new views */
	bool		many;			/* a round of many small tables */
	bool		touch_in_lock;	/* in OPEN_VIEWS, touch the tables too */
	int			nleft_out;		/* tables of the round that this attempt leaves out */
	int64		left_out[CAPSTAN_ROUND_TABLES];
	bool		consistent;		/* all tables in one cut, no stream meanwhile */
	int			next_whole;		/* of that copy: places in the lists of tables that nobody has taken yet (consistentcopy.c) */
	int			next_small;
	CopyWorkerSlot copy[CAPSTAN_MAX_COPY_WORKERS];

	/* connections to the source, see connections.h */
	uint64		ticket;			/* waits for them; the lowest comes first.  0: does not wait */
	int			tickets_need;	/* how many it wants to have in all */
	int			stream_connections;
	int			copy_reserved;	/* of copy workers that are not started yet */
	int			lingering;		/* of processes that have ended */
	TimestampTz lingering_until;	/* when the source must have noticed */

	pid_t		index_pids[CAPSTAN_MAX_COPY_WORKERS];	/* index workers; 0: none. Ended by the launcher when nothing is wanted any more */

	/* figures for the views */
	pg_atomic_uint64 transactions;	/* source transactions applied since the slot was taken */
	pg_atomic_uint64 rows;
	pg_atomic_uint64 commits;
	pg_atomic_uint64 bytes;		/* received from the log */
	pg_atomic_uint64 last_event_us; /* when the last event came: microseconds, Postgres epoch */
	pg_atomic_uint64 last_commit_source_us; /* source commit time of the last applied transaction, Unix epoch; 0 unknown */
	pg_atomic_uint64 caught_up_us;	/* when a heartbeat last said that the source had nothing more than what is applied and
									 * committed: microseconds, Postgres epoch; 0 never */
} PipelineSlot;

typedef struct CapstanShared
{
	LWLock	   *lock;
	pid_t		launcher_pid;
	Latch	   *launcher_latch;
	Oid			probed;			/* the database that was looked into last, with success */
	uint64		last_ticket;
	int			sql_connections;	/* to sources, by SQL functions */
	int			nslots;
	PipelineSlot slots[FLEXIBLE_ARRAY_MEMBER];
} CapstanShared;

extern CapstanShared *Capstan;	/* NULL when not preloaded */

/* From _PG_init, while preloading. */
extern void capstan_shmem_request_init(void);

/* ERROR with hint unless the library was preloaded. */
extern void capstan_shmem_require(void);

/*
 * For SQL functions: at COMMIT of the current transaction the pipeline should run (or not); the launcher is
 * woken then.  Raises ERRCODE_CONFIGURATION_LIMIT_EXCEEDED when all slots are taken.
 */
extern void capstan_shmem_request_run(int64 pipeline_id, const char *name, Oid owner, bool run);

/* A sentence without its end, and what to do; NULL for CONNECT_NO_PROBLEM. */
extern const char *capstan_connect_problem_text(ConnectProblem problem, const char **hint);

/* Caller holds the lock. */
extern PipelineSlot *capstan_shmem_find(Oid database, int64 pipeline_id);

/* Tells P that the world changed: wakes launcher, pipeline worker and copy workers of the slot. Caller holds the lock. */
extern void capstan_shmem_wake(PipelineSlot *slot);

/* GUCs (guc.c) */
extern int	capstan_max_pipelines;
extern char *capstan_databases;
extern int	capstan_copy_workers;
extern bool capstan_log_row_values;
extern int	capstan_max_lock_wait;	/* ms */
extern int	capstan_range_time;		/* ms: how long the stream may stand still for a round */
extern int	capstan_max_range_rows;
extern int	capstan_group_rows;
extern int	capstan_group_bytes;	/* kB */
extern int	capstan_group_time;		/* ms */
extern int	capstan_heartbeat;		/* ms */
extern int	capstan_lock_timeout;	/* ms */
extern int	capstan_max_source_connections; /* 0: no bound */
extern int	capstan_max_pipeline_connections;	/* 0: no bound */
extern int	capstan_bounds_interval;	/* ms */
extern int	capstan_max_round_attempts; /* 0: no bound */
extern int	capstan_max_snapshot_time;	/* s; 0: no bound */
extern int	capstan_max_disk_usage; /* percent; 0: no bound */
extern int	capstan_synchronous_commit;
extern void capstan_guc_init(void);

#endif
