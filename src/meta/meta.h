/*
 * meta.h
 *		Our own catalog tables: pipelines, progress, tables, ranges, incidents.
 *
 * All functions run inside a transaction of the caller's.  The pipeline's owner has no
 * rights on these tables: each function acts as the extension's owner while it touches
 * them (capstan_meta_enter/leave), with search_path pinned to pg_catalog, and checks nothing about the caller: that is done
 * in sqlapi/.
 */
#ifndef CAPSTAN_META_H
#define CAPSTAN_META_H

#include "nodes/pg_list.h"
#include "datatype/timestamp.h"

#include "base/gtidset.h"
#include "map/map.h"

typedef struct MetaIdentity
{
	Oid			userid;
	int			sec_context;
	int			guc_level;
} MetaIdentity;

/* SPI_connect and act as the extension's owner; and back.  An ERROR in between is cleaned up by the transaction's abort. */
extern void capstan_meta_enter(MetaIdentity *identity);
extern void capstan_meta_leave(MetaIdentity *identity);

typedef struct Pipeline
{
	int64		id;
	char	   *name;
	char	   *server;
	Oid			owner;
	List	   *patterns;		/* char *: what create_pipeline was asked to capture */
	char	   *snapshot;		/* 'incremental', 'consistent', 'never' */
	MapPolicies policies;
	bool		shared_target;	/* other pipelines may write the same tables */
	bool		run;			/* desired_state = 'running' */
	int64		halted_by;		/* incident id; 0: not halted */
	char		replica_uuid[37];
	bool		belongs_here;	/* system identifier and database are this one's */
} Pipeline;

/* NULL if there is none.  Palloc'd in the current context. */
extern Pipeline *capstan_meta_pipeline_by_id(int64 id);
extern Pipeline *capstan_meta_pipeline_by_name(const char *name);
/* Those that should run: List of Pipeline *; not the halted ones. */
extern List *capstan_meta_runnable_pipelines(void);

typedef struct PipelineTable
{
	int64		id;
	char	   *source_schema;
	char	   *source_table;
	Oid			target;			/* where rows go: its shadow while it is resynced */
	bool		key_ordered;
	bool		key_pageable;
	char	   *definition;
	bytea	   *defaults;		/* capstan_map_encode_row; NULL: not noted */
	char	   *state;			/* 'requested', 'pending', 'copying', 'streaming' */
	int			generation;
	char	   *since;			/* GTID set, see generation.h; NULL: captured by create_pipeline */
	bool		untouched;		/* since is set, and nothing of this generation is copied */
	bool		in_shadow;
	bool		shared;			/* other pipelines write the target, too */
	int64		rows_estimate;
	int64		bytes_estimate;
	bool		has_ranges;		/* of the uncopied ones only: planned or copied otherwise than as a whole */
} PipelineTable;

extern List *capstan_meta_tables(int64 pipeline_id);	/* by id */
/* By "schema.table" as the source spells it; NULL: not captured. A name of two tables is raised. */
extern PipelineTable *capstan_meta_table_by_name(int64 pipeline_id, const char *name);
/* Up to `most` of those that are not copied, the small ones (by the source's estimate) first; of the large ones first those behind `after`. */
extern List *capstan_meta_uncopied_tables(int64 pipeline_id, int64 small_rows, int64 small_bytes, int64 after, int most);
/* One of them; NULL: it is copied, or gone. */
extern PipelineTable *capstan_meta_uncopied_table(int64 table_id);
/* Those with planned ranges of a round for one worker, by id. */
extern List *capstan_meta_tables_of_worker(int64 pipeline_id, int64 round, int worker);
extern void capstan_meta_set_rows_estimate(int64 table_id, int64 rows);

extern void capstan_meta_set_defaults(int64 table_id, bytea *defaults);

/* Figures to be added to a table's row. */
typedef struct TableCounters
{
	int64		inserted;
	int64		updated;
	int64		deleted;
	int64		missing;
	int64		existing;
	int64		zero_dates;
	int64		nul_bytes;
} TableCounters;

/* Which policies acted on the table for the first time. */
typedef struct FirstActs
{
	bool		zero_dates;
	bool		nul_bytes;
} FirstActs;

extern FirstActs capstan_meta_add_counters(int64 table_id, const TableCounters *counters);

/* A transaction that was applied, by which the source is known again (worker/witness.c). */
typedef struct Witness
{
	char		gtid[CAPSTAN_GTID_TEXT_MAX];	/* "": none */
	uint64		commit_us;		/* when it was committed where it began: Unix epoch */
} Witness;

/* Position.  NULL from load: the pipeline never started. */
extern GtidSet *capstan_meta_load_progress(int64 pipeline_id, char source_uuid[37], Witness *witness);
extern void capstan_meta_init_progress(int64 pipeline_id, const char *applied, const char *source_uuid);
/*
 * The hot one: a kept plan.  applied: NULL leaves what is stored; since: what was applied besides, or NULL.  source_commit_us: Unix
 * epoch, 0 unknown.  Raises if the row is gone (pipeline dropped).
 */
extern void capstan_meta_save_progress(int64 pipeline_id, const char *applied, const char *since, const char *source_uuid,
									   uint64 source_commit_us, const Witness *witness);

typedef struct Incident
{
	const char *pipeline;
	const char *severity;		/* 'halt', 'retry', 'warning' */
	const char *class;
	int			sqlerrcode;		/* 0: none */
	const char *message;
	const char *detail;			/* from here on NULL allowed */
	const char *hint;
	const char *gtid;
	const char *source_table;
	const char *source_statement;
} Incident;

/*
 * Adds the incident and returns its id.  A 'retry' or 'warning' like the newest unresolved one of the pipeline (class and message)
 * counts that one up, and tells its detail as it is now.
 */
extern int64 capstan_meta_record_incident(const Incident *incident);
/* A definite failure: pipeline.halted_by = incident. */
extern void capstan_meta_halt(int64 pipeline_id, int64 incident_id);
/* The resolution of a retry by itself. */
#define META_GOES_ON "the pipeline goes on"
/* Marks the open incidents of these severities resolved: ('retry' by the recovery, 'halt' by start_pipeline). */
extern void capstan_meta_resolve_incidents(const char *pipeline, const char *severity, const char *resolution);

/* watch.c */

/* Since when tables are being copied, over restarts; noted if it was not yet.  0: none are (copying is false). */
extern TimestampTz capstan_meta_note_snapshot(int64 pipeline_id, bool copying);

typedef struct MetaTablespace
{
	Oid			id;
	char	   *name;
} MetaTablespace;

/* Tablespaces with target tables or their indexes (List of MetaTablespace *), but for the database's own. */
extern List *capstan_meta_tablespaces(int64 pipeline_id);
/* What the last retry was over; NULL: there was none. */
extern char *capstan_meta_last_retry(const char *pipeline);
/* Open warnings of a class are over. */
extern void capstan_meta_resolve_warning(const char *pipeline, const char *class, const char *resolution);

/* Snapshot */
typedef struct CopyRange
{
	int64		table_id;
	int			generation;
	int64		seq;
	bytea	  **low;			/* nkey of them, or NULL: from the beginning */
	bytea	  **high;			/* or NULL: to the end */
	int			nkey;
	int			worker;
	bool		copied;
	int64		rows;
} CopyRange;

extern void capstan_meta_save_round(int64 pipeline_id, int64 round, const char *gtid_set);
/* The set of exactly this round; NULL if the row is of another one. */
extern char *capstan_meta_load_round(int64 pipeline_id, int64 round);
extern int64 capstan_meta_last_round(int64 pipeline_id);
/* The copy begins, or is gone on with: how often since a round was completed, this time included? */
extern int	capstan_meta_count_start(int64 pipeline_id);
/* A round is completed, or somebody lets the pipeline go on. */
extern void capstan_meta_forget_starts(int64 pipeline_id);
/* Its table was removed, or is resynced: CAPSTAN_ERRCODE_COPY_WORKER, since this worker is about to be replaced and is not to halt the pipeline. */
extern void capstan_meta_raise_not_planned(const CopyRange *range) __attribute__((noreturn));
/* Ranges of a table's current generation by seq. */
extern List *capstan_meta_ranges(int64 table_id, int generation);
/* Ranges (List of CopyRange) planned for a round; their tables are 'copying' from now on. */
extern void capstan_meta_plan_ranges(List *ranges, int64 round);
/* Planned ranges of a round for one worker, by table and seq. */
extern List *capstan_meta_ranges_of_round(int64 pipeline_id, int64 round, int worker);
/* The range is copied: gtid_set and rows are set, rows_copied of the table counted up. */
extern void capstan_meta_finish_range(const CopyRange *range, const char *gtid_set, int64 rows);
/*
 * The same for the part of the range up to `key` (nkey values): a range of its own, before the rest, which stays planned.
 */
extern void capstan_meta_cut_range(const CopyRange *range, bytea **key, int nkey, const char *gtid_set, int64 rows);
/* Between the numbers of two ranges that are planned one after the other: room for the parts of one that is cut. */
#define META_RANGE_STEP (INT64CONST(1) << 20)
/* Contiguous copied ranges become one, so that their number stays small. */
extern void capstan_meta_merge_ranges(int64 table_id, int generation);
/* Only if this is still the table's generation. */
extern void capstan_meta_set_table_state(int64 table_id, int generation, const char *state);

/* Ids (int64 *) of the tables with ranges in a round. */
extern List *capstan_meta_tables_of_round(int64 pipeline_id, int64 round);
/* For how long the stream stood still for a round: to the figures of its tables. */
extern void capstan_meta_add_pause(int64 pipeline_id, int64 round, int64 pause_us);
/* Tables that were copied as a whole in a round become 'streaming'; returns their ids (int64 *). */
extern List *capstan_meta_settle_whole_tables(int64 pipeline_id, int64 round);

/* What a lock on source tables cost; hold_us 0: it was not had. */
typedef struct LockFigures
{
	int64		tries;
	int64		wait_worst_us;
	int64		wait_total_us;
	int64		hold_us;
	/* which statement gave it: one of them 1, or none */
	int64		read;
	int64		flush;
	int64		write;
} LockFigures;

/* For all tables of a round; those left out were tried, and not held. */
extern void capstan_meta_add_lock_figures(int64 pipeline_id, int64 round, const int64 *left_out, int nleft_out, const LockFigures *figures);

/* onecut.c: snapshot => 'consistent' */

/* Is there a position?  Without one a consistent copy was never completed. */
extern bool capstan_meta_has_progress(int64 pipeline_id);
/* Ids (int64 *) of the tables of which the current generation has copied rows. */
extern List *capstan_meta_partly_copied_tables(int64 pipeline_id);
/* Forgets all ranges; if there were any, the next generation of all tables begins (true). */
extern bool capstan_meta_next_generation(int64 pipeline_id);
extern void capstan_meta_add_lock_figures_to_all(int64 pipeline_id, const LockFigures *figures);
/* Until the end of the transaction nobody else plans ranges of the table. */
extern void capstan_meta_lock_table(int64 table_id);
/* The last range of a table that is planned; NULL: none is. */
extern CopyRange *capstan_meta_last_range(int64 table_id, int generation);
/* Ranges that are planned and not copied. */
extern int64 capstan_meta_unfinished_ranges(int64 pipeline_id);

#endif
