/*
 * pipelineworker.h
 *		What the files of the pipeline worker share: the running pipeline.
 *
 *	 pipelineworker.c	start: slot, catalog, source, position; main loop; end
 *	 stream.c			one event after the other: source transactions, groups, commit
 *	 ddlguard.c			statements in the log: which may pass, which halt
 *	 describe.c			what the log does not tell of a table
 *	 roundgate.c		the worker's side of snapshot rounds
 *	 consistentgate.c	the same of snapshot => 'consistent'
 *	 witness.c			is the source the one it was?
 *	 indexbuild.c		the worker's side of building indexes after the copy
 *	 bounds.c			how near it is to what it must not exceed
 */
#ifndef CAPSTAN_PIPELINEWORKER_H
#define CAPSTAN_PIPELINEWORKER_H

#include "postmaster/bgworker.h"
#include "utils/hsearch.h"

#include "apply/apply.h"
#include "base/gtidset.h"
#include "binlog/binlog.h"
#include "binlog/statement.h"
#include "meta/meta.h"
#include "wire/binlogstream.h"
#include "worker/internal.h"

/* Of PipelineRun.schemas: a source schema that holds captured tables. */
typedef struct SchemaEntry
{
	char		name[64 * 4 + 1];
} SchemaEntry;

typedef struct PipelineRun
{
	/* Lives as long as the worker. */
	MemoryContext stream_context;	/* decoder, GTID sets, tables */
	MemoryContext event_context;	/* reset after each event */
	MemoryContext row_context;	/* reset after each row change */
	PipelineSlot *slot;
	Pipeline   *pipeline;
	SourceOptions *options;
	BinlogStream *stream;
	BinlogDecoder *decoder;
	TimestampTz clock;			/* now, give or take EVENTS_PER_CLOCK events; never older than the wait before them */
	int			clock_events;	/* handled since it was looked at */
	char		source_uuid[37];
	List	   *tables;			/* of ApplyTable */
	HTAB	   *tables_by_name;
	HTAB	   *tables_by_id;	/* the stream's table ids */
	uint64		last_serial;	/* of the table map that was looked up last; 0: none */
	ApplyTable *last_table;		/* what was found; never NULL if last_serial is not 0 */
	const ApplyTable *named_table;	/* whose name is in table_name; NULL: none */
	char		table_name[CAPSTAN_TABLE_TEXT_MAX];
	List	   *dirty_tables;	/* of ApplyTable: those with counters to be saved, each once */
	HTAB	   *schemas;		/* that hold captured tables */
	SourceConn *describing;		/* see describe.c; NULL: none is open */
	TimestampTz described_at;	/* it was used last */
	bool		fold_names;		/* the source compares names without case (lower_case_table_names) */

	/* Position: what was applied in memory, committed or in the open group. */
	GtidSet    *applied;
	GtidSet    *applied_since;	/* of it what is not in the set that the catalog has as a whole; NULL: the catalog always has all */
	StrBuf		applied_text;
	bool		progress_dirty; /* applied is ahead of the catalog */
	TimestampTz progress_saved_at;
	TimestampTz stats_due;		/* when pg_stat is told of what it does not know yet; 0: it knows all */
	uint64		commit_us;		/* source commit time of the last applied transaction */
	GtidSet    *executed_before; /* on the source, when the stream was opened: until it is applied, heartbeats may come while
								 * the source still seeks; NULL from then on */

	/* Does the source still mean the same by its GTIDs?  See witness.c. */
	Witness		witness;		/* the latest one */
	GtidSet    *witness_awaited;	/* asked for, not here yet; NULL: none is */
	bool		skipping;		/* the events that come are the witness's */

	/* Source transaction. */
	bool		in_transaction; /* between GTID and the group's end */
	bool		begun;			/* after its BEGIN */
	bool		has_rows;		/* of captured tables */
	Gtid		gtid;
	uint64		gtid_commit_us;
	uint64		gtid_original_us;	/* 0: not told */
	int64		transaction_bytes;

	/* Group: the open Postgres transaction. */
	bool		group_open;
	int64		group_rows;
	int64		group_bytes;
	int64		group_transactions;
	TimestampTz group_started_at;
	int64		commit_takes;	/* its commit, by and large, microseconds */
	char		alone_until[120];	/* GTID up to which no other transaction joins a group; empty: they may */
	bool		announced;		/* "streaming" was logged */
	TimestampTz announced_at;
	bool		advanced;		/* what an earlier failure may have stood in the way of was done */
	bool		recovered;		/* failures reset, retries resolved */

	/* Snapshot round: what is still missing before the stream has reached it. */
	int64		round;
	GtidSet    *needed;			/* NULL: no round waits */
	TimestampTz needed_since;
	BackgroundWorkerHandle *copy_handles[CAPSTAN_MAX_COPY_WORKERS];
	int			ncopy;
	bool		copying;		/* some table is not copied yet */
	int			starts;			/* of the copy since a round was completed, this one included; 0: it was completed by us */

	/* Bounds. */
	uint64		logged_us;		/* when the transaction begun last was committed on the source streamed from: Unix epoch; 0: none was */
	struct BoundsWatch *bounds; /* see bounds.c */
} PipelineRun;

/* stream.c */
extern void capstan_stream_init(PipelineRun *run);
/* Decodes and applies one raw event. */
extern void capstan_stream_event(PipelineRun *run, const uint8_t *data, size_t length);
/* At a boundary: commits the group if it is time, or must. */
extern void capstan_stream_commit_if_due(PipelineRun *run, bool more_waiting);
/* Commits the open group, if there is one. */
extern void capstan_stream_commit(PipelineRun *run);
/* Opens the group's transaction if it is not open. */
extern void capstan_stream_begin(PipelineRun *run);

/* NULL: not captured. */
extern ApplyTable *capstan_stream_find_table(PipelineRun *run, const char *schema_name, const char *table_name);
/* For error texts and incidents. */
extern void capstan_stream_note_table(const char *schema_name, const char *table_name);

/* ddlguard.c */

/*
 * A statement in the binary log that names tables or is not known: raises when it touches what is captured or
 * may do so, warns (in the group's transaction) when it makes a table that a pattern of the pipeline means.
 */
extern void capstan_guard_statement(PipelineRun *run, const BinlogEvent *event, const Statement *statement,
									const char *default_schema);

/*
 * Replaces the statement's text, which is in the client's character set, by the same in utf-8.  The source itself
 * converts it: names in it must come out as the source understood them.
 */
extern void capstan_guard_convert(PipelineRun *run, BinlogEvent *event);

/* describe.c */

/*
 * For a table map without names: makes table->described from the source's schema, which must be the captured one, and compares
 * its shape with the map's.
 */
extern void capstan_describe_check_shape(PipelineRun *run, ApplyTable *table, const SourceTable *source);
/* Beside the stream there is one connection at a time: to be called before another one is opened. */
extern void capstan_describe_close(PipelineRun *run);
/* For an inserted row of which columns are absent: are the source's defaults those that were noted? */
extern void capstan_describe_check_defaults(PipelineRun *run, ApplyTable *table, const SourceTable *source);

/* witness.c */
extern GtidSet *capstan_witness_summon(PipelineRun *run, const GtidSet *purged);
extern bool capstan_witness_is(PipelineRun *run, const BinlogEvent *event);
extern void capstan_witness_note(PipelineRun *run, uint64 original_commit_us, int64 bytes);

/* indexbuild.c */

/* At a boundary, between groups: when all is copied, sees to it that indexes are built, until they are. */
extern void capstan_index_supervise(PipelineRun *run);

/* bounds.c */

/*
 * Every capstan.bounds_interval: warns of what is near its bound, raises for what has reached it.  At a boundary the open group is committed
 * first; in the middle of a source transaction with rows only the disk is looked at.
 */
extern void capstan_bounds_check(PipelineRun *run);
extern bool capstan_bounds_is_due(const PipelineRun *run);
/* The copy begins, or is gone on with; raises when too often before no round came of it.  Outside of a transaction. */
extern void capstan_bounds_count_start(PipelineRun *run);
/* In the transaction that settles a round. */
extern void capstan_bounds_round_completed(PipelineRun *run);

/* roundgate.c */
extern void capstan_round_start_workers(PipelineRun *run);
/*
 * Before each source transaction and when the stream is idle: if a round waits and the stream has reached it, stands
 * still until it is copied.
 */
extern void capstan_round_at_boundary(PipelineRun *run);
/* A heartbeat: all that the source had is applied. */
extern void capstan_round_at_end_of_log(PipelineRun *run);
/* A transaction was applied. */
extern void capstan_round_note(PipelineRun *run, const Gtid *gtid);
/* Copied ranges into memory; tables all of whose ranges are copied become `streaming`. */
extern void capstan_round_load_ranges(PipelineRun *run, ApplyTable *table);
/* Starts copy workers, and the coordinator that they are counted by. */
extern void capstan_round_launch_workers(PipelineRun *run);
/* A copy worker that ended although there is work left has failed: its own incident says why. */
extern void capstan_round_check_workers(PipelineRun *run);
/* After ranges of the table were committed: fewer and larger ones, and perhaps the table is complete. */
extern void capstan_round_settle_table(PipelineRun *run, ApplyTable *table);
/* The table is copied; in the transaction that says so. */
extern void capstan_round_finish_table(PipelineRun *run, ApplyTable *table);
extern ApplyTable *capstan_round_find_table(PipelineRun *run, int64 id);

/* consistentgate.c */
/* Is this pipeline to be copied in one cut, and was not yet? */
extern bool capstan_consistent_is_due(PipelineRun *run);
/* Copies all tables; run->source_uuid is set, and no stream is open.  The position is there afterwards. */
extern void capstan_consistent_run(PipelineRun *run);

/* pipelineworker.c */
/*
 * At the first start, when the position is taken: the tables must be what they were when the pipeline was created, and their
 * defaults are noted.  In a transaction.
 */
extern void capstan_pipeline_note_tables(PipelineRun *run, SourceConn *conn);

#endif
