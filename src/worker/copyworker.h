/*
 * copyworker.h
 *		What the files of the copy workers share.
 *
 *	 copyworker.c		every copy worker: start, views, writing ranges
 *	 coordinator.c		copy worker 0 besides: takes the lock, reads G, moves the round on
 *	 rangecopy.c		one range, from the view to the target
 *	 roundplan.c		what the next round copies
 *	 tablewindow.c		small tables and their descriptions, many at once
 *	 consistentcopy.c	snapshot => 'consistent': all tables in one cut
 */
#ifndef CAPSTAN_COPYWORKER_H
#define CAPSTAN_COPYWORKER_H

#include "apply/apply.h"
#include "meta/meta.h"
#include "snapshot/lockbatch.h"
#include "snapshot/tablelock.h"
#include "wire/wire.h"
#include "worker/internal.h"

/* A table is small up to here; the bytes are the source's estimate.  Never more rows than one range may have. */
#define CAPSTAN_SMALL_TABLE_ROWS Min(1000, capstan_max_range_rows)
#define CAPSTAN_SMALL_TABLE_BYTES (1024 * 1024)

typedef struct TableWindow TableWindow;

/* One range of this worker in the current round. */
typedef struct RangeJob
{
	CopyRange  *range;
	ApplyTable *table;
	SourceTable *source;
	char	   *quoted_name;
} RangeJob;

/* A table whose lock was not had in its time: the others go first.  Forgotten when it was had. */
typedef struct DeferredTable
{
	int64		id;
	bool		waits;			/* until the others are copied */
	int			attempts;		/* as in CopyRun */
	double		attempts_told;
} DeferredTable;

/* Of a large table. */
typedef struct RangeSize
{
	int64		table_id;
	int64		rows;			/* that a range should have */
} RangeSize;

typedef struct CopyRun
{
	MemoryContext run_context;
	MemoryContext round_context;	/* reset before each round */
	PipelineSlot *slot;
	int			index;
	Pipeline   *pipeline;
	SourceOptions *options;
	char		source_uuid[37];	/* of the server that is streamed from: stream, lock and views must be of one, the proof needs it */
	SourceConn *conn;			/* B: holds the view, reads the ranges */

	/* the current round */
	int64		round;
	int			attempt;
	List	   *jobs;			/* of RangeJob */
	bool		view_open;
	TableWindow *window;
	int			nleft_out;		/* tables of the round that this attempt leaves out: not locked */
	int64		left_out[CAPSTAN_ROUND_TABLES];
	char	   *gtid_set;		/* G, from the phase COPY on */
	TimestampTz copy_started_at;	/* the phase COPY */

	bool		consistent;		/* all tables in one cut: no rounds of ranges */

	/* of the last round copied by this worker */
	int64		copied_rows;
	uint64		copied_bytes;
	int64		copied_us;

	/* coordinator only */
	TableLock  *lock;
	int64		described_table;	/* this round's table as the plan saw it on the source; 0: none */
	SourceTable *described;
	List	   *range_sizes;	/* of RangeSize */
	RangeSize  *planned_size;	/* the one of this round's table; NULL: nothing is to be learned from it */
	int64		last_turn;		/* the table that had its turn last; 0: none */
	bool		no_small_tables;	/* that are not copied, any more */
	int			attempts;		/* at the current round that failed: lock not had, or views not good */
	double		attempts_told;	/* see bounds.c */
	bool		had_a_round;
	LockBatch  *batch;
	int			most_tables;	/* of a round of many tables: there is a connection for each of them */
	int			batch_tables;	/* so many can be locked in the time that there is for it, as far as is known */
	int64		batch_wait_us;	/* of its last acquire */
	int64		batch_hold_us;	/* of what that had; 0: nothing */
	LockAnswer	answers[CAPSTAN_ROUND_TABLES];
	List	   *alone;			/* ids (int64 *) of small tables that could not be locked with others: one by one, after those */
	List	   *deferred;		/* of DeferredTable */
} CopyRun;

/* copyworker.c: the steps of a round that every copy worker takes */
extern void capstan_copy_prepare(CopyRun *run);
/* The step reached; COPY_VIEW_FAILED: the view is not usable, the coordinator must try again. */
extern CopyWorkerStep capstan_copy_open_view(CopyRun *run, bool touch);
/* Touches the only table of the round, without its lock. */
extern CopyWorkerStep capstan_copy_touch(CopyRun *run);
extern void capstan_copy_drop_view(CopyRun *run);
extern void capstan_copy_ranges(CopyRun *run);
/* The table as the source has it now; raises unless it is what was captured. */
extern SourceTable *capstan_copy_describe(CopyRun *run, const PipelineTable *info);
/* The same of what the source was asked for already; NULL: the table is gone. */
extern SourceTable *capstan_copy_check_described(const PipelineTable *info, SourceTableInfo *described);
extern void capstan_copy_set_step(CopyRun *run, CopyWorkerStep step);
extern void capstan_copy_begin_catalog(CopyRun *run);
extern void capstan_copy_commit_catalog(CopyRun *run);

/* rangecopy.c: one range, in the open transaction; returns the rows that were copied */
extern int64 capstan_copy_range(CopyRun *run, RangeJob *job);
extern SourceValue *capstan_copy_decode_bound(const SourceTable *source, bytea **encoded);
/* Has the stream stood still for so long that the round must end? */
extern bool capstan_copy_time_is_up(const CopyRun *run);

/* coordinator.c */
extern void capstan_coordinator_main(CopyRun *run);
/* New phase; with it, all steps back to WAITING if asked for. */
extern void capstan_coordinator_set_phase(CopyRun *run, RoundPhase phase, bool reset_steps);
/* Waits until all copy workers but us have reached the step; false after the timeout or when one failed. */
extern bool capstan_coordinator_wait_for_others(CopyRun *run, CopyWorkerStep step, int timeout_ms);
/* Waits until the pipeline worker has moved on to the phase; ends the process if it is gone. */
extern void capstan_coordinator_await_phase(CopyRun *run, RoundPhase wanted);

/* consistentcopy.c */
/* What copy worker 0 does instead of rounds. */
extern void capstan_consistent_main(CopyRun *run);
/* Phase COPY, in every copy worker: reads whatever is not taken yet from the open view, until nothing is left. */
extern void capstan_consistent_copy(CopyRun *run);

/* bounds.c */

/* An attempt at the current round has failed; raises when it was one too many.  Outside of a transaction. */
extern void capstan_bounds_count_attempt(CopyRun *run, const char *table);
/* The round was had. */
extern void capstan_bounds_end_attempts(CopyRun *run);

/* A round: ranges of one table, or several tables of one range each. */
typedef struct RoundPlan
{
	List	   *ranges;			/* of CopyRange */
	int			ntables;		/* at most CAPSTAN_ROUND_TABLES */
	PipelineTable **tables;
	char	  **names;			/* quoted, for the lock */
	bool		blocked;		/* the only table's ranges cannot be planned now: somebody has locked it, or alters it */
	int			nlarge;			/* tables that turned out not to be small: remembered with the plan */
	int64		large[CAPSTAN_ROUND_TABLES];
} RoundPlan;

/* tablewindow.c */
extern TableWindow *capstan_window_create(MemoryContext parent);
/* The next small tables that are not planned yet, up to `most`; returns how many.  Outside of a transaction.  They live until the next call. */
extern int	capstan_window_next(CopyRun *run, PipelineTable **tables, int most);
/*
 * A table of the last plan was not locked, and is to be planned again, before those that were not planned yet.  failed: the source did not
 * give the lock in time; false when that was so too often: it is better locked alone.
 */
extern bool capstan_window_again(CopyRun *run, int64 table_id, bool failed);
/*
 * Before any of the tables (List of PipelineTable) of a round of many is looked for: begins another window if this one does not have all of them.  What
 * was found in the one before is gone.
 */
extern void capstan_window_cover(CopyRun *run, List *tables);
/* What the source said of a table (NULL: it is gone), until the next window; false: it is not in this one. */
extern bool capstan_window_find(const CopyRun *run, int64 table_id, SourceTableInfo **source);

/* roundplan.c: plans the next round and stores it, run->round; false when nothing is left to copy */
extern bool capstan_roundplan_next(CopyRun *run, RoundPlan *plan);
/* The table is not planned with others any more. */
extern void capstan_roundplan_put_alone(CopyRun *run, int64 table_id);
/* The table comes again when all others are copied, or deferred too. */
extern DeferredTable *capstan_roundplan_defer(CopyRun *run, int64 table_id);
extern bool capstan_roundplan_is_deferred(const CopyRun *run, int64 table_id);
/* A round of the table was had. */
extern void capstan_roundplan_had(CopyRun *run, int64 table_id);
extern bool capstan_roundplan_is_alone(const CopyRun *run, int64 table_id);
/* After a round: so many rows that copying a range takes capstan.range_time. */
extern void capstan_roundplan_learn(CopyRun *run);
/* The key of the n-th row after low; NULL if fewer are left. */
extern bytea **capstan_roundplan_boundary(SourceConn *conn, const SourceTable *source, bytea **low, int64 n);

#endif
