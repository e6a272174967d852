/*
 * internal.h
 *		What the files of worker/ share.
 */
#ifndef CAPSTAN_WORKER_INTERNAL_H
#define CAPSTAN_WORKER_INTERNAL_H

#include "apply/apply.h"
#include "worker/shmem.h"

/* shmem.c */
extern bool capstan_shmem_set_wanted(Oid database, int64 pipeline_id, const char *name, Oid owner, bool run);

/* process.c: what pipeline and copy workers have in common */

/* In bgw_extra of pipeline and copy workers; bgw_main_arg is the slot's index. */
typedef struct WorkerArgs
{
	Oid			database;
	Oid			owner;
	int64		pipeline_id;
	uint64		generation;		/* pipeline worker: the request it was started for; copy worker: the run_id */
	int			copy_index;		/* copy workers only */
} WorkerArgs;

extern PipelineSlot *MySlot;
extern WorkerArgs MyArgs;

/* Signal handlers, then the database, as the owner, then the pinned settings. */
extern void capstan_process_connect(Oid database, Oid userid);
extern void capstan_process_set_title(const char *kind, const char *pipeline, int copy_index);
extern void capstan_process_check_interrupts(void);

typedef enum CapstanWait
{
	CAPSTAN_WAIT_LAUNCHER,
	CAPSTAN_WAIT_STREAM,
	CAPSTAN_WAIT_ROUND,
	CAPSTAN_WAIT_SOURCE_LOCK,
	CAPSTAN_WAIT_CONNECTIONS
} CapstanWait;

extern uint32 capstan_wait_event(CapstanWait wait);

/* Waits for the latch, at most timeout_ms; handles interrupts. */
extern void capstan_process_wait(long timeout_ms, CapstanWait wait);

/* failure.c */

/*
 * Called in a PG_CATCH of a worker's main function: makes an incident of the current error, halts the pipeline
 * if it is definite, logs.  For the pipeline worker it also leaves in the slot what the launcher should do; a copy worker
 * leaves that to the pipeline worker, which ends after it.  Leaves no transaction open.
 */
extern void capstan_failure_record(PipelineSlot *slot, int64 pipeline_id, bool is_pipeline_worker);

/* How long to wait after so many failures in a row. */
extern long capstan_failure_backoff_ms(int failures);

/*
 * Where the worker is in the stream, for error texts and incidents; empty strings when unknown.
 */
typedef struct FailurePlace
{
	char		gtid[120];
	char		table[CAPSTAN_TABLE_TEXT_MAX];
	char	   *statement;		/* palloc'd in TopMemoryContext or NULL */
	char		last_gtid[120]; /* of the latest whole transaction in the open group; empty: there is none */
	bool		alone;			/* transactions are committed one by one, see alone_until in shmem.h */
} FailurePlace;

extern FailurePlace MyPlace;

#endif
