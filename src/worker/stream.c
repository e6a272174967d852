/*
 * stream.c
 *		The stream: events made into source transactions, source transactions into groups.
 *
 * Called by the pipeline worker's main loop for each raw event.
 *
 *	 group		one Postgres transaction: whole source transactions, then one progress
 *				update, then COMMIT.  Opened by the first row of a captured table.
 *	 boundary	between two source transactions: the only place where a group is committed
 *				and where a snapshot round may stop the stream.
 *
 *	 GTID -> [BEGIN -> TABLE_MAP, ROWS ... -> XID | COMMIT]		rows
 *	 GTID -> QUERY												a statement of its own (DDL)
 *
 * Nothing is skipped because it is not understood: what is not known to be harmless is
 * an ERROR, and the open group goes with it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "worker/fault.h"
#include "worker/pipelineworker.h"

/* Without rows to commit, the position is saved this often. */
#define PROGRESS_INTERVAL_MS 1000
/* What was done is in pg_stat after so much, also when nothing is done any more. */
#define STATS_INTERVAL_MS 1000
/* Bytes of a GTID set's text that are little enough to be written at each commit, and to stay in the row. */
#define LARGE_POSITION 1000
/* Table ids remembered: more than a server has tables open. */
#define MOST_TABLE_IDS 50000

/* By the names that the table itself keeps. */
typedef struct TableKey
{
	const char *schema_name;
	const char *table_name;
} TableKey;

typedef struct TableByName
{
	TableKey	key;
	ApplyTable *table;
} TableByName;

typedef struct TableById
{
	uint64		table_id;
	uint64		serial;			/* of the table map looked at */
	ApplyTable *table;			/* NULL: not captured */
} TableById;

static void handle_event(PipelineRun *run, const BinlogEvent *event);

static uint32
hash_key(const void *key, Size keysize)
{
	const TableKey *name = key;

	return hash_combine(hash_bytes((const unsigned char *) name->schema_name, (int) strlen(name->schema_name)),
						hash_bytes((const unsigned char *) name->table_name, (int) strlen(name->table_name)));
}

/* 0: the same */
static int
compare_keys(const void *a, const void *b, Size keysize)
{
	const TableKey *left = a;
	const TableKey *right = b;

	return strcmp(left->schema_name, right->schema_name) != 0 || strcmp(left->table_name, right->table_name) != 0;
}

ApplyTable *
capstan_stream_find_table(PipelineRun *run, const char *schema_name, const char *table_name)
{
	TableKey	key = {schema_name, table_name};
	TableByName *entry = hash_search(run->tables_by_name, &key, HASH_FIND, NULL);

	return entry == NULL ? NULL : entry->table;
}

static bool
is_wanted(void *arg, const char *schema_name, const char *table_name)
{
	return capstan_stream_find_table((PipelineRun *) arg, schema_name, table_name) != NULL;
}

void
capstan_stream_init(PipelineRun *run)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);
	HASHCTL		control;
	ListCell   *cell;

	memset(&control, 0, sizeof(control));
	control.keysize = sizeof(TableKey);
	control.entrysize = sizeof(TableByName);
	control.hcxt = run->stream_context;
	control.hash = hash_key;
	control.match = compare_keys;
	run->tables_by_name = hash_create("capstan tables by name", 64, &control, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	control.keysize = sizeof(uint64);
	control.entrysize = sizeof(TableById);
	run->tables_by_id = hash_create("capstan tables by id", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	control.keysize = sizeof(SchemaEntry);
	control.entrysize = sizeof(SchemaEntry);
	run->schemas = hash_create("capstan schemas", 16, &control, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);

	foreach(cell, run->tables)
	{
		ApplyTable *table = lfirst(cell);
		TableKey	key = {table->info->source_schema, table->info->source_table};
		TableByName *entry;

		entry = hash_search(run->tables_by_name, &key, HASH_ENTER, NULL);
		entry->table = table;
		(void) hash_search(run->schemas, table->info->source_schema, HASH_ENTER, NULL);
	}
	run->decoder = capstan_binlog_create();
	capstan_binlog_reset(run->decoder, true);
	capstan_binlog_set_wanted(run->decoder, is_wanted, run);
	capstan_binlog_leave_documents(run->decoder);
	capstan_strbuf_init(&run->applied_text);
	capstan_apply_place = MyPlace.table;
	MemoryContextSwitchTo(caller);

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	strlcpy(run->alone_until, run->slot->alone_until, sizeof(run->alone_until));
	run->slot->alone_until[0] = '\0';
	LWLockRelease(Capstan->lock);
	MyPlace.alone = run->alone_until[0] != '\0';
}

static void
raise_decoder_error(const CapstanError *error)
{
	ereport(ERROR,
			(errcode(error->code == CAPSTAN_ERROR_CHECKSUM ? CAPSTAN_ERRCODE_CHECKSUM : CAPSTAN_ERRCODE_UNDECODABLE),
			 errmsg("binary log event cannot be read: %s", error->message),
			 error->code == CAPSTAN_ERROR_CHECKSUM ? 0 :
			 errhint("Nothing of this transaction was applied. If the source is healthy, this is a fault of capstan: keep the binary log file and report it.")));
}

/* ---------------------------------------------------------------------
 * Groups
 * --------------------------------------------------------------------- */

void
capstan_stream_begin(PipelineRun *run)
{
	if (run->group_open)
		return;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	capstan_apply_trim();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	/* plans and values of one change live in the row context; see apply_rows */
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->event_context);
	run->group_open = true;
	run->group_rows = 0;
	run->group_bytes = 0;
	run->group_transactions = 0;
	run->group_started_at = GetCurrentTimestamp();
	pgstat_report_activity(STATE_RUNNING, "applying");
}

static void
format_set(PipelineRun *run, const GtidSet *set)
{
	capstan_strbuf_reset(&run->applied_text);
	capstan_gtidset_format(set, &run->applied_text);
}

/* A set of thousands of intervals is not written at each commit, but what was applied since it was. */
static void
save_progress(PipelineRun *run)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);

	bool		whole = run->applied_since == NULL;

	if (!whole)
	{
		format_set(run, run->applied_since);
		whole = run->applied_text.length > LARGE_POSITION;
	}
	if (whole)
	{
		format_set(run, run->applied);
		capstan_gtidset_free(run->applied_since);
		run->applied_since = run->applied_text.length > LARGE_POSITION ? capstan_gtidset_create() : NULL;
	}
	MemoryContextSwitchTo(caller);
	capstan_meta_save_progress(run->pipeline->id, whole ? run->applied_text.data : NULL, whole ? NULL : run->applied_text.data,
							   run->source_uuid, run->commit_us, &run->witness);
}

/* Does the table have something to tell that must not wait? */
static bool
is_surprised(const ApplyTable *table)
{
	return table->counters.missing > 0 || table->counters.existing > 0 ||
		(table->map != NULL && (table->map->zero_dates_applied > 0 || table->map->nul_bytes_applied > 0));
}

/* Surprises at once, the rest every second: a row of the catalog per table and group would cost more than the rows. */
static void
flush_counters(PipelineRun *run, bool all)
{
	int			kept = 0;

	for (int i = 0; i < list_length(run->dirty_tables); i++)
	{
		ApplyTable *table = list_nth(run->dirty_tables, i);

		if (all || is_surprised(table))
			capstan_apply_flush_counters(table, run->pipeline->name);
		else
			lfirst(list_nth_cell(run->dirty_tables, kept++)) = table;
	}
	/* list_truncate() would forget an empty list without freeing it, each second */
	if (kept > 0)
		run->dirty_tables = list_truncate(run->dirty_tables, kept);
	else
	{
		list_free(run->dirty_tables);
		run->dirty_tables = NIL;
	}
}

/* Its first change since its counters were saved. */
static void
note_dirty(PipelineRun *run, ApplyTable *table)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);

	run->dirty_tables = lappend(run->dirty_tables, table);
	MemoryContextSwitchTo(caller);
}

static void
publish(PipelineRun *run)
{
	pg_atomic_fetch_add_u64(&run->slot->transactions, run->group_transactions);
	pg_atomic_fetch_add_u64(&run->slot->rows, run->group_rows);
	pg_atomic_fetch_add_u64(&run->slot->commits, 1);
	pg_atomic_write_u64(&run->slot->last_commit_source_us, run->commit_us);
}

/* In pg_stat_activity: the last transaction applied. */
static void
report_position(PipelineRun *run)
{
	char		gtid[CAPSTAN_GTID_TEXT_MAX];
	char		activity[CAPSTAN_GTID_TEXT_MAX + 20];

	capstan_gtid_format(&run->gtid, gtid);
	snprintf(activity, sizeof(activity), "applied %s", gtid);
	pgstat_report_activity(STATE_IDLE, activity);
}

/* Rows that were kept back.  In a group of one transaction an error is that one's. */
static void
flush_rows(PipelineRun *run)
{
	if (MyPlace.alone)
		memcpy(MyPlace.gtid, MyPlace.last_gtid, sizeof(MyPlace.gtid));
	capstan_apply_flush();
	if (MyPlace.alone)
		MyPlace.gtid[0] = '\0';
}

void
capstan_stream_commit(PipelineRun *run)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		interval_over = TimestampDifferenceExceeds(run->progress_saved_at, now, PROGRESS_INTERVAL_MS);
	TimestampTz flushed;

	if (!run->group_open)
		return;
	Assert(!run->in_transaction);
	flush_rows(run);
	flushed = GetCurrentTimestamp();
	flush_counters(run, interval_over);
	CAPSTAN_FAULT("group_before_progress");
	save_progress(run);
	CAPSTAN_FAULT("group_before_commit");
	if (MyPlace.alone)
		strlcpy(MyPlace.gtid, MyPlace.last_gtid, sizeof(MyPlace.gtid));
	PopActiveSnapshot();
	capstan_apply_end_group();
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	CommitTransactionCommand();
	CAPSTAN_FAULT("group_committed");
	MemoryContextSwitchTo(run->event_context);
	run->group_open = false;
	run->commit_takes += (GetCurrentTimestamp() - flushed - run->commit_takes) / 8;
	run->progress_dirty = false;
	if (interval_over)
		run->progress_saved_at = now;
	publish(run);
	if (run->group_transactions > 0 && !run->copying)
		run->advanced = true;
	run->group_rows = 0;
	run->group_transactions = 0;
	if (MyPlace.alone)
	{
		MyPlace.gtid[0] = '\0';
		if (strcmp(MyPlace.last_gtid, run->alone_until) == 0)
			MyPlace.alone = false;
	}
	MyPlace.last_gtid[0] = '\0';
	report_position(run);
	/* says nothing if it did just now, and nobody else would ever do it for us */
	pgstat_report_stat(false);
	if (run->stats_due == 0)
		run->stats_due = TimestampTzPlusMilliseconds(now, STATS_INTERVAL_MS);
}

static void
report_stats_if_due(PipelineRun *run)
{
	if (run->stats_due == 0 || run->clock < run->stats_due)
		return;
	pgstat_report_stat(true);
	run->stats_due = 0;
}

/* Old versions of its rows are in the way.  But where commits wait for a disk a group lasts as long as one. */
static bool
is_rewriting(PipelineRun *run)
{
	return capstan_apply_wants_commit() &&
		(synchronous_commit == SYNCHRONOUS_COMMIT_OFF || GetCurrentTimestamp() - run->group_started_at >= run->commit_takes);
}

void
capstan_stream_commit_if_due(PipelineRun *run, bool more_waiting)
{
	if (run->group_open)
	{
		if (!more_waiting || MyPlace.alone || run->group_rows >= capstan_group_rows ||
			run->group_bytes >= (int64) capstan_group_bytes * 1024 || is_rewriting(run) ||
			TimestampDifferenceExceeds(run->group_started_at, run->clock, capstan_group_time))
			capstan_stream_commit(run);
		return;
	}
	report_stats_if_due(run);
	if (!run->progress_dirty && run->dirty_tables == NIL)
		return;

	/* only transactions without rows of ours, or counters left: at the latest a second later */
	if (TimestampDifferenceExceeds(run->progress_saved_at, run->clock, PROGRESS_INTERVAL_MS))
	{
		capstan_stream_begin(run);
		capstan_stream_commit(run);
	}
}

/* ---------------------------------------------------------------------
 * Source transactions
 * --------------------------------------------------------------------- */

static void
begin_transaction(PipelineRun *run, const BinlogEvent *event)
{
	if (run->in_transaction)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("a source transaction began before the one before it ended")));
	run->logged_us = event->u.gtid.immediate_commit_us;
	capstan_round_at_boundary(run);
	if (capstan_gtidset_contains(run->applied, &event->u.gtid.gtid))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("the source sent a transaction that was applied before"),
				 errhint("The server reads another position than the one asked for; look for a proxy between capstan and the source.")));
	run->in_transaction = true;
	run->begun = false;
	run->has_rows = false;
	run->gtid = event->u.gtid.gtid;
	run->gtid_commit_us = event->u.gtid.original_commit_us != 0 ?
		event->u.gtid.original_commit_us : event->u.gtid.immediate_commit_us;
	run->gtid_original_us = event->u.gtid.original_commit_us;
	run->transaction_bytes = 0;
	capstan_gtid_format(&run->gtid, MyPlace.gtid);
	MyPlace.table[0] = '\0';
}

static void
end_transaction(PipelineRun *run)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);

	if (!run->in_transaction)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("a source transaction ended that never began")));
	capstan_gtidset_add(run->applied, &run->gtid);
	if (run->applied_since != NULL)
		capstan_gtidset_add(run->applied_since, &run->gtid);
	MemoryContextSwitchTo(caller);
	run->in_transaction = false;
	run->begun = false;
	run->progress_dirty = true;
	run->commit_us = run->gtid_commit_us;
	capstan_witness_note(run, run->gtid_original_us, run->transaction_bytes);
	run->group_transactions++;
	if (run->group_open)
		memcpy(MyPlace.last_gtid, MyPlace.gtid, sizeof(MyPlace.last_gtid));
	MyPlace.gtid[0] = '\0';
	MyPlace.table[0] = '\0';
	capstan_round_note(run, &run->gtid);
}

void
capstan_stream_note_table(const char *schema_name, const char *table_name)
{
	snprintf(MyPlace.table, sizeof(MyPlace.table), "%s.%s", schema_name, table_name);
}

/* The same, from event to event of one table without writing it anew. */
static void
note_table(PipelineRun *run, const ApplyTable *table)
{
	if (run->named_table != table)
		snprintf(run->table_name, sizeof(run->table_name), "%s.%s", table->info->source_schema, table->info->source_table);
	run->named_table = table;
	memcpy(MyPlace.table, run->table_name, sizeof(MyPlace.table));
}

/* ---------------------------------------------------------------------
 * Statements
 * --------------------------------------------------------------------- */

static void
handle_query(PipelineRun *run, const BinlogEvent *event)
{
	Statement	statement;
	const char *default_schema;
	BinlogEvent converted;

	Assert(CurrentMemoryContext == run->event_context);
	/* as the server itself writes it before the rows of each transaction */
	if (event->u.query.sql.length == 5 && memcmp(event->u.query.sql.data, "BEGIN", 5) == 0)
	{
		run->begun = true;
		return;
	}
	default_schema = pnstrdup(event->u.query.schema.data, event->u.query.schema.length);
	capstan_statement_parse(event->u.query.sql.data, event->u.query.sql.length,
							event->u.query.ansi_quotes, event->u.query.no_backslash_escapes, &statement);
	if (!capstan_statement_is_certain(&statement, event->u.query.sql.data, event->u.query.sql.length,
									  event->u.query.charset))
	{
		converted = *event;
		capstan_guard_convert(run, &converted);
		event = &converted;
		capstan_statement_parse(event->u.query.sql.data, event->u.query.sql.length,
								event->u.query.ansi_quotes, event->u.query.no_backslash_escapes, &statement);
	}

	switch (statement.kind)
	{
		case STATEMENT_BEGIN:
		case STATEMENT_XA_START:
			run->begun = true;
			return;
		case STATEMENT_COMMIT:
			end_transaction(run);
			return;
		case STATEMENT_SAVEPOINT:
		case STATEMENT_ROLLBACK_TO:
		case STATEMENT_XA_END:
			return;
		case STATEMENT_ROLLBACK:
			if (run->has_rows)
				ereport(ERROR,
						(errcode(CAPSTAN_ERRCODE_STATEMENT),
						 errmsg("a source transaction with rows of captured tables ends in ROLLBACK"),
						 errdetail("It also changed tables without transactions, whose changes stay."),
						 errhint("What of it counts cannot be told from the log: capstan.restart_snapshot() copies all tables anew.")));
			end_transaction(run);
			return;
		case STATEMENT_XA_PREPARE:
		case STATEMENT_XA_COMMIT:
		case STATEMENT_XA_ROLLBACK:
		case STATEMENT_HARMLESS:
			break;
		case STATEMENT_TABLE_DDL:
		case STATEMENT_DATABASE_DDL:
		case STATEMENT_DML:
		case STATEMENT_UNKNOWN:
			capstan_guard_statement(run, event, &statement, default_schema);
			break;
	}
	if (!run->begun)
		end_transaction(run);
}

/* ---------------------------------------------------------------------
 * Rows
 * --------------------------------------------------------------------- */

/* Table ids are never used again by a server: forget them all now and then rather than keep them for ever. */
static void
bound_table_ids(PipelineRun *run)
{
	HASH_SEQ_STATUS status;
	TableById  *entry;

	if (hash_get_num_entries(run->tables_by_id) < MOST_TABLE_IDS)
		return;
	hash_seq_init(&status, run->tables_by_id);
	while ((entry = hash_seq_search(&status)) != NULL)
		(void) hash_search(run->tables_by_id, &entry->table_id, HASH_REMOVE, NULL);
}

/* The captured table a table map speaks of, checked against what was captured; NULL: not captured. */
static ApplyTable *
table_of_map(PipelineRun *run, const SourceTable *source)
{
	bool		found;
	TableById  *entry;
	StrBuf		signature;
	ApplyTable *table;

	if (source->serial == run->last_serial)
		return run->last_table;
	run->last_serial = 0;
	bound_table_ids(run);
	entry = hash_search(run->tables_by_id, &source->table_id, HASH_ENTER, &found);
	if (found && entry->serial == source->serial)
	{
		/* what is left out now may not be tomorrow (see below): that is looked up again */
		if (entry->table != NULL)
		{
			run->last_serial = source->serial;
			run->last_table = entry->table;
		}
		return entry->table;
	}

	entry->serial = source->serial;
	entry->table = table = capstan_stream_find_table(run, source->schema_name, source->table_name);
	if (table == NULL)
		return NULL;
	if (table->untouched)
	{
		/* whatever it looks like here: the copy brings it (meta/generation.h) */
		entry->table = NULL;
		entry->serial = 0;
		return NULL;
	}
	capstan_stream_note_table(source->schema_name, source->table_name);
	if (!source->has_names)
	{
		capstan_describe_check_shape(run, table, source);
		return table;
	}
	capstan_strbuf_init(&signature);
	capstan_source_table_signature(source, &signature);
	if (strcmp(signature.data, table->info->definition) != 0)
	{
		entry->table = NULL;
		entry->serial = 0;
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
				 errmsg("source table %s is not what it was when it was captured", MyPlace.table),
				 errdetail("Captured: %s. In the binary log now: %s.", table->info->definition, signature.data),
				 errhint("Make the target table what it should be, and call capstan.resync_table().")));
	}
	capstan_strbuf_free(&signature);
	if (table->valid && !capstan_map_has_labels_of(table->map, source))
		table->valid = false;
	return table;
}

/*
 * With the lock on a target held.  Who takes tables out of the pipeline, or stops it, has said so in the slot before his locks were gone
 * (shmem.c); the launcher ends us some moments later.  Until then the target may have been emptied for another copy, which our rows
 * would not be part of: so nothing is written any more.  What was, in this transaction, is taken back.
 */
static void
leave_if_replaced(PipelineRun *run)
{
	bool		replaced;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	replaced = !run->slot->wanted || run->slot->generation != run->slot->running_generation;
	LWLockRelease(Capstan->lock);
	if (replaced)
		proc_exit(0);
}

/* Map and plans, and for a table that is being copied its ranges. */
static void
open_table(PipelineRun *run, ApplyTable *table, const SourceTable *source)
{
	bool		was_valid = table->valid;

	capstan_apply_table_open(table, source);
	leave_if_replaced(run);
	if (!was_valid && !table->copied && table->info->key_ordered)
		capstan_round_load_ranges(run, table);
}

static void
handle_rows(PipelineRun *run, const BinlogEvent *event)
{
	const SourceTable *source = event->u.rows.table;
	ApplyTable *table;
	SourceChange change;
	CapstanError error;
	BinlogNext	next;
	bool		was_dirty;

	if (source == NULL)
		return;
	if (!run->in_transaction || !run->begun)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("row event outside of a source transaction")));
	table = table_of_map(run, source);
	if (table == NULL)
		return;
	note_table(run, table);
	was_dirty = table->dirty;
	run->has_rows = true;
	if (event->u.rows.kind == CHANGE_INSERT && !event->u.rows.full_image)
		capstan_describe_check_defaults(run, table, source);
	capstan_stream_begin(run);
	if (!source->has_names)
		source = table->described;
	open_table(run, table, source);

	MemoryContextSwitchTo(run->stream_context);
	while ((next = capstan_binlog_next_change(run->decoder, &change, &error)) == BINLOG_CHANGE)
	{
		CHECK_FOR_INTERRUPTS();
		if (!table->valid)
		{
			MemoryContextSwitchTo(run->event_context);
			open_table(run, table, source);
		}
		MemoryContextSwitchTo(run->row_context);
		change.table = source;
		if (event->u.rows.full_image)
			capstan_apply_change(table, &change);
		else
			capstan_apply_partial_change(table, &change);
		MemoryContextReset(run->row_context);
		MemoryContextSwitchTo(run->stream_context);
		run->group_rows++;
		CAPSTAN_FAULT("stream_row");
	}
	MemoryContextSwitchTo(run->event_context);
	if (next == BINLOG_ERROR)
		raise_decoder_error(&error);
	/* a partition that the last row went to may have changed before it was locked, in a way that is refused */
	if (!table->valid)
		open_table(run, table, source);
	if (table->dirty && !was_dirty)
		note_dirty(run, table);
}

/* A compressed transaction: its events one after the other. */
static void
handle_payload(PipelineRun *run)
{
	const uint8_t *data;
	size_t		length;
	CapstanError error;
	int			rc;

	for (;;)
	{
		BinlogEvent event;
		bool		decoded;

		MemoryContextSwitchTo(run->stream_context);
		rc = capstan_binlog_payload_next(run->decoder, &data, &length, &error);
		if (rc != 1)
			break;
		decoded = capstan_binlog_decode_inner(run->decoder, data, length, &event, &error);
		MemoryContextSwitchTo(run->event_context);
		if (!decoded)
			raise_decoder_error(&error);
		run->group_bytes += length;
		handle_event(run, &event);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(run->event_context);
	if (rc < 0)
		raise_decoder_error(&error);
}

/*
 * The source had nothing more to send: what the views call lag starts anew here.  Only if everything that came
 * before is committed, nothing came behind it while we were busy, and the source does not merely seek.
 */
static void
note_heartbeat(PipelineRun *run)
{
	if (run->in_transaction || run->group_open || capstan_binlogstream_pending(run->stream))
		return;
	if (run->executed_before != NULL)
	{
		if (!capstan_gtidset_contains_set(run->applied, run->executed_before))
			return;
		capstan_gtidset_free(run->executed_before);
		run->executed_before = NULL;
	}
	pg_atomic_write_u64(&run->slot->caught_up_us, (uint64) GetCurrentTimestamp());
	if (!run->copying)
		run->advanced = true;
	capstan_round_at_end_of_log(run);
}

/* ---------------------------------------------------------------------
 * Events
 * --------------------------------------------------------------------- */

static void
handle_event(PipelineRun *run, const BinlogEvent *event)
{
	switch (event->kind)
	{
		case BINLOG_GTID:
			run->skipping = capstan_witness_is(run, event);
			if (!run->skipping)
				begin_transaction(run, event);
			break;
		case BINLOG_ANONYMOUS_GTID:
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
					 errmsg("a source transaction has no GTID"),
					 errhint("gtid_mode must be ON on the source, and have been ON for all that is streamed.")));
			break;
		case BINLOG_QUERY:
			handle_query(run, event);
			break;
		case BINLOG_XID:
			end_transaction(run);
			break;
		case BINLOG_XA_PREPARE:
			if (!event->u.xa_prepare.one_phase && run->has_rows)
				ereport(ERROR,
						(errcode(CAPSTAN_ERRCODE_PREPARED_XA),
						 errmsg("a prepared XA transaction changed captured tables"),
						 errdetail("XA %.*s.", (int) event->u.xa_prepare.xid.length, event->u.xa_prepare.xid.data),
						 errhint("XA transactions in two phases are not supported yet: nothing of it was applied.")));
			end_transaction(run);
			break;
		case BINLOG_ROWS:
			handle_rows(run, event);
			break;
		case BINLOG_PAYLOAD:
			handle_payload(run);
			break;
		case BINLOG_INCIDENT:
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_LOST_EVENTS),
					 errmsg("the source says that it lost events"),
					 errdetail("Incident %u: %.*s", event->u.incident.number,
							   (int) Min(event->u.incident.message.length, 500), event->u.incident.message.data),
					 errhint("What was lost is not known: capstan.restart_snapshot() copies all tables anew.")));
			break;
		case BINLOG_HEARTBEAT:
			note_heartbeat(run);
			break;
		case BINLOG_IGNORED:
		case BINLOG_FORMAT:
		case BINLOG_ROTATE:
		case BINLOG_TABLE_MAP:
		case BINLOG_ROWS_QUERY:
		case BINLOG_PREVIOUS_GTIDS:
		case BINLOG_STOP:
			break;
	}
}

/* What comes between a GTID event and the next one. */
static bool
belongs_to_transaction(const BinlogEvent *event)
{
	switch (event->kind)
	{
		case BINLOG_QUERY:
		case BINLOG_TABLE_MAP:
		case BINLOG_ROWS:
		case BINLOG_ROWS_QUERY:
		case BINLOG_PAYLOAD:
		case BINLOG_XID:
		case BINLOG_XA_PREPARE:
			return true;
		default:
			return false;
	}
}

void
capstan_stream_event(PipelineRun *run, const uint8_t *data, size_t length)
{
	BinlogEvent event;
	CapstanError error;
	bool		decoded;

	MemoryContextSwitchTo(run->stream_context);
	decoded = capstan_binlog_decode(run->decoder, data, length, &event, &error);
	MemoryContextSwitchTo(run->event_context);
	if (!decoded)
		raise_decoder_error(&error);
	if (run->skipping && belongs_to_transaction(&event))
		return;
	run->group_bytes += length;
	run->transaction_bytes += length;
	handle_event(run, &event);
}
