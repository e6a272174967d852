/*
 * copyworker.h
 *		What the files of the copy workers share.
 *
 *	 copyworker.c		every copy worker: start, views, writing ranges
 *	 coordinator.c		copy worker 0 besides: plans rounds, takes the lock, reads G
 */
#ifndef CAPSTAN_COPYWORKER_H
#define CAPSTAN_COPYWORKER_H

#include "apply/apply.h"
#include "meta/meta.h"
#include "snapshot/tablelock.h"
#include "wire/wire.h"
#include "worker/internal.h"

/* One range of this worker in the current round. */
typedef struct RangeJob
{
	CopyRange  *range;
	ApplyTable *table;
	SourceTable *source;
	char	   *quoted_name;
	char	   *select;			/* the statement that reads it */
} RangeJob;

typedef struct CopyRun
{
	MemoryContext run_context;
	MemoryContext round_context;	/* reset before each round */
	PipelineSlot *slot;
	int			index;
	Pipeline   *pipeline;
	SourceOptions *options;
	SourceConn *conn;			/* B: holds the view, reads the ranges */

	/* the current round */
	int64		round;
	int			attempt;
	List	   *jobs;			/* of RangeJob */
	bool		view_open;
	char	   *gtid_set;		/* G, from the phase COPY on */

	/* of the last round copied by this worker */
	int64		copied_rows;
	uint64		copied_bytes;
	int64		copied_us;

	/* coordinator only */
	TableLock  *lock;
	int64		described_table;	/* this round's table as the plan saw it on the source; 0: none */
	SourceTable *described;
	int64		planned_table;	/* the table that rounds are on; 0: none */
	int64		range_rows;		/* rows a range of it should have */
} CopyRun;

/* copyworker.c: the steps of a round that every copy worker takes */
extern void capstan_copy_prepare(CopyRun *run);
/* The step reached; COPY_VIEW_FAILED: the view is not usable, the coordinator must try again. */
extern CopyWorkerStep capstan_copy_open_view(CopyRun *run, bool touch);
extern CopyWorkerStep capstan_copy_touch(CopyRun *run, bool locked);
extern void capstan_copy_drop_view(CopyRun *run);
extern void capstan_copy_ranges(CopyRun *run);
/* The table as the source has it now; raises unless it is what was captured. */
extern SourceTable *capstan_copy_describe(CopyRun *run, const PipelineTable *info);
extern void capstan_copy_set_step(CopyRun *run, CopyWorkerStep step);
extern void capstan_copy_begin_catalog(CopyRun *run);
extern void capstan_copy_commit_catalog(CopyRun *run);
extern void capstan_copy_check_identity(CopyRun *run, SourceConn *conn);

/* coordinator.c */
extern void capstan_coordinator_main(CopyRun *run);

#endif
