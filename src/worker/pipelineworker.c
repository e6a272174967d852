/*
 * pipelineworker.c
 *		The pipeline worker: one per running pipeline.
 *
 * Started by the launcher.  Connects to the database as the pipeline's owner and to the source, finds out
 * where it stands, starts copy workers if tables are still to be copied, and then
 * streams until it is told to end or fails.
 *
 *	 attach slot -> lock -> load -> connect -> check position -> [copy workers] -> stream
 *
 * A failure is an ERROR that reaches main: it is recorded (failure.c), the process ends,
 * and the launcher starts a new one if that is right.  There is no other recovery: every
 * state is rebuilt from the catalog.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "errcodes.h"
#include "meta/generation.h"
#include "worker/connections.h"
#include "worker/lock.h"
#include "worker/pipelineworker.h"
#include "worker/serveroptions.h"

/*
 * The dump thread may send a transaction before the source lists it as executed: how long
 * "applied is not a subset of executed" may last on a healthy server.
 */
#define AHEAD_GRACE_MS 15000
#define AHEAD_POLL_MS 200
/* How long the previous worker of this pipeline may need to go away. */
#define PREDECESSOR_WAIT_MS 10000
/* A FATAL so long after the start counts as a failure to start. */
#define FATAL_SOON_MS 5000
/* At most so many events are handled before the clock is looked at again. */
#define EVENTS_PER_CLOCK 100
/* A worker that has streamed for so long has recovered, whatever it did. */
#define RECOVERED_AFTER_MS 10000

PGDLLEXPORT void capstan_pipeline_main(Datum main_arg);

static void
set_state(PipelineSlot *slot, WorkerState state)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	if (slot->state != state)
	{
		slot->state = state;
		slot->state_since = GetCurrentTimestamp();
	}
	LWLockRelease(Capstan->lock);
}

/*
 * The end left no word for the launcher: what was asked for, or a FATAL.  That can be an administrator's; but if it came
 * soon it may come again (a connection limit, a database that is closed), so not at once.
 */
static void
leave_untold(PipelineSlot *slot)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		soon = !TimestampDifferenceExceeds(slot->started_at, now, FATAL_SOON_MS);

	slot->state_since = now;
	if (!slot->wanted || slot->generation != slot->running_generation)
	{
		slot->state = WORKER_STOPPED;
		return;
	}
	slot->state = WORKER_RETRYING;
	if (soon)
		slot->restart_at = TimestampTzPlusMilliseconds(now, capstan_failure_backoff_ms(slot->failures++));
}

/* At exit: the slot is left to the launcher, copy workers end too. */
static void
detach(int code, Datum arg)
{
	PipelineSlot *slot = MySlot;

	LWLockReleaseAll();
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	if (slot->pid == MyProcPid)
	{
		slot->pid = 0;
		slot->latch = NULL;
		if (slot->state > WORKER_STARTING)
			leave_untold(slot);
		for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
			if (slot->copy[i].pid != 0)
				kill(slot->copy[i].pid, SIGTERM);
		slot->phase = ROUND_IDLE;
		capstan_connections_leave_pipeline(slot);
		capstan_shmem_wake(slot);
	}
	LWLockRelease(Capstan->lock);
}

/* The slot is ours; false if it is not the one we were started for. */
static bool
attach(int index)
{
	PipelineSlot *slot = &Capstan->slots[index];
	bool		mine;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	mine = slot->in_use && slot->wanted && slot->pid == 0 &&
		slot->database == MyArgs.database && slot->pipeline_id == MyArgs.pipeline_id;
	if (mine)
	{
		MySlot = slot;
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
		slot->running_generation = MyArgs.generation;
		slot->run_id++;
		slot->state = WORKER_CONNECTING;
		slot->state_since = slot->started_at = GetCurrentTimestamp();
		slot->phase = ROUND_IDLE;
		slot->ncopy = 0;
		slot->consistent = false;
		slot->source_uuid[0] = '\0';
		before_shmem_exit(detach, (Datum) 0);
	}
	LWLockRelease(Capstan->lock);
	return mine;
}

static void
check_extension(void)
{
	if (!OidIsValid(get_extension_oid("capstan", true)))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_EXTENSION),
				 errmsg("extension capstan is not installed in this database any more")));
}

/* Shadows that somebody looked at when their content was exchanged. */
static void
drop_leftovers(PipelineRun *run)
{
	List	   *ids = capstan_meta_tables_with_shadow(run->pipeline->id, true);
	ListCell   *cell;

	foreach(cell, ids)
		capstan_apply_drop_shadow(*(int64 *) lfirst(cell), false);
}

/* Definition, source options, tables; false if the pipeline should not run after all. */
static bool
load_pipeline(PipelineRun *run)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *tables;
	ListCell   *cell;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	check_extension();
	MemoryContextSwitchTo(run->stream_context);
	run->pipeline = capstan_meta_pipeline_by_id(MyArgs.pipeline_id);
	if (run->pipeline == NULL || !run->pipeline->run || run->pipeline->halted_by != 0)
	{
		PopActiveSnapshot();
		CommitTransactionCommand();
		MemoryContextSwitchTo(caller);
		return false;
	}
	run->options = capstan_server_options(run->pipeline->server, run->pipeline->owner);
	/* no other worker is left: what was asked for of single tables begins here */
	capstan_meta_begin_generations(run->pipeline->id);
	drop_leftovers(run);
	tables = capstan_meta_tables(run->pipeline->id);
	foreach(cell, tables)
	{
		PipelineTable *info = lfirst(cell);
		ApplyTable *table = capstan_apply_table_create(info, run->pipeline->owner, run->pipeline->policies, run->stream_context);

		run->tables = lappend(run->tables, table);
		if (!table->copied)
			run->copying = true;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return true;
}

/* Settings of the source that the stream rests on; on every connect. */
static void
check_source(SourceConn *conn)
{
	static const struct
	{
		const char *variable;
		const char *wanted;
		const char *fix;
	}			checks[] = {
		{"gtid_mode", "ON", "Set gtid_mode step by step to ON on the source."},
		{"log_bin", "1", "Start the source with --log-bin."},
		{"binlog_format", "ROW", "SET PERSIST binlog_format = 'ROW';"},
	};

	for (int i = 0; i < (int) lengthof(checks); i++)
	{
		char	   *found = capstan_wire_query_value(conn, psprintf("SELECT @@GLOBAL.%s", checks[i].variable));

		if (found == NULL || pg_strcasecmp(found, checks[i].wanted) != 0)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
					 errmsg("%s is %s on the source", checks[i].variable, found == NULL ? "not set" : found),
					 errdetail("capstan needs %s.", checks[i].wanted),
					 errhint("%s", checks[i].fix)));
	}
}

/* Is in the log what is done to the captured tables?  Preflight has asked, but it may be another server now, or have been started otherwise. */
static void
check_log_is_whole(PipelineRun *run, SourceConn *conn)
{
	const char *name = capstan_wire_server_version_num(conn) >= 80026 ? "log_replica_updates" : "log_slave_updates";
	BinlogFilters filters;
	bool		known;
	ListCell   *cell;

	if (strcmp(capstan_wire_query_not_null(conn, psprintf("SELECT @@GLOBAL.%s", name)), "0") == 0 && capstan_wire_is_replica(conn, &known))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
				 errmsg("%s is OFF on the source, which is a replica", name),
				 errdetail("What it gets from its own source is not in its binary log."),
				 errhint("Start it with --%s=ON, or let the host of the server lead to another one. If it has got changes meanwhile, "
						 "capstan.restart_snapshot() copies all tables anew.", name)));
	capstan_wire_check_logging(conn);
	if (!capstan_wire_binlog_filters(conn, &filters))
		return;
	foreach(cell, run->tables)
	{
		const char *schema_name = ((ApplyTable *) lfirst(cell))->info->source_schema;

		if (capstan_wire_leaves_out(&filters, schema_name))
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
					 errmsg("changes of \"%s\" are not in the binary log of the source", schema_name),
					 errdetail("binlog_do_db=%s binlog_ignore_db=%s", filters.only, filters.without),
					 errhint("Start the source without these filters. If it was written to meanwhile, capstan.restart_snapshot() copies "
							 "all tables anew.")));
	}
}

/*
 * A server that leaves foreign-key cascades to InnoDB does not log them.  Preflight refuses such child tables, but the
 * server may have been started with the setting since.
 */
static void
check_cascades(PipelineRun *run, SourceConn *conn)
{
	SourceResult *result;

	if (capstan_wire_try_query(conn, "SELECT @@GLOBAL.innodb_native_foreign_keys", WIRE_NULLABLE, &result, NULL) != 0 ||
		result->nrows == 0 || result->rows[0][0] == NULL || strcmp(result->rows[0][0], "0") == 0)
		return;
	result = capstan_wire_query(conn, "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME "
								"FROM information_schema.REFERENTIAL_CONSTRAINTS "
								"WHERE DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') "
								"OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')",
								WIRE_VALUE WIRE_VALUE WIRE_VALUE);
	for (int i = 0; i < result->nrows; i++)
		if (capstan_stream_find_table(run, result->rows[i][0], result->rows[i][1]) != NULL)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_CASCADE),
					 errmsg("foreign key %s of %s.%s changes rows without a trace in the binary log", result->rows[i][2],
							result->rows[i][0], result->rows[i][1]),
					 errdetail("The source runs with innodb_native_foreign_keys = ON."),
					 errhint("SET PERSIST_ONLY innodb_native_foreign_keys = OFF; restart the source; then drop the pipeline and create "
							 "it again with truncate_target => true if rows were changed by cascades meanwhile.")));
}

static GtidSet *
query_gtid_set(SourceConn *conn, const char *variable)
{
	char	   *text = capstan_wire_query_not_null(conn, psprintf("SELECT @@GLOBAL.%s", variable));
	CapstanError error;
	GtidSet    *set;

	set = capstan_gtidset_parse(text, strlen(text), &error);
	if (set == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
				 errmsg("the source's %s is not a GTID set: %s", variable, error.message)));
	return set;
}

static char *
gtid_text(const GtidSet *set)
{
	StrBuf		buf;

	capstan_strbuf_init(&buf);
	capstan_gtidset_format(set, &buf);
	return buf.data == NULL ? "" : buf.data;
}

/*
 * At the first start, right after the position was taken: the tables must be what they were when the pipeline was created (a
 * change since then does not come in the stream), and their defaults are noted.  A change from here on does come in
 * the stream, and halts it.
 */
void
capstan_pipeline_note_tables(PipelineRun *run, SourceConn *conn)
{
	MemoryContext caller = MemoryContextSwitchTo(run->event_context);
	List	   *described = capstan_wire_list_tables(conn, run->pipeline->patterns, NULL);
	ListCell   *cell;
	int			found = 0;

	foreach(cell, described)
	{
		const SourceTable *source = &((SourceTableInfo *) lfirst(cell))->table;
		ApplyTable *table = capstan_stream_find_table(run, source->schema_name, source->table_name);
		StrBuf		signature;
		bytea	   *defaults;

		if (table == NULL)
			continue;
		capstan_strbuf_init(&signature);
		capstan_source_table_signature(source, &signature);
		if (strcmp(signature.data, table->info->definition) != 0)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
					 errmsg("source table %s.%s is not what it was when the pipeline was created", source->schema_name, source->table_name),
					 errdetail("Then: %s. Now: %s.", table->info->definition, signature.data),
					 errhint("Make the target table what it should be, and call capstan.resync_table().")));
		defaults = capstan_map_encode_row(capstan_wire_column_defaults(conn, source), source->ncolumns);
		capstan_meta_set_defaults(table->info->id, defaults);
		MemoryContextSwitchTo(run->stream_context);
		table->info->defaults = DatumGetByteaPCopy(PointerGetDatum(defaults));
		MemoryContextSwitchTo(run->event_context);
		found++;
	}
	if (found != list_length(run->tables))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("%d of %d source tables are gone since the pipeline was created", list_length(run->tables) - found,
						list_length(run->tables)),
				 errhint("Call capstan.remove_table() for them, or, if they are only hidden from the account, GRANT SELECT on them.")));
	MemoryContextSwitchTo(caller);
}

/*
 * The position: from the catalog, or, at the first start, what the source has executed now.  Then: nothing
 * applied that the source does not know, nothing needed that it has purged.  Returns what to open the dump with.
 */
static GtidSet *
find_position(PipelineRun *run, SourceConn *conn)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);
	char		stored_uuid[37];
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), AHEAD_GRACE_MS);
	GtidSet    *purged;
	GtidSet    *from;

	strlcpy(run->source_uuid, capstan_wire_server_uuid(conn), sizeof(run->source_uuid));
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->stream_context);
	run->applied = capstan_meta_load_progress(run->pipeline->id, stored_uuid, &run->witness);
	if (run->applied == NULL)
	{
		run->applied = query_gtid_set(conn, "gtid_executed");
		capstan_meta_init_progress(run->pipeline->id, gtid_text(run->applied), run->source_uuid);
		capstan_pipeline_note_tables(run, conn);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->stream_context);

	for (;;)
	{
		GtidSet    *executed = query_gtid_set(conn, "gtid_executed");
		GtidSet    *ahead;

		if (capstan_gtidset_contains_set(executed, run->applied))
		{
			run->executed_before = executed;
			break;
		}
		ahead = capstan_gtidset_subtract(run->applied, executed);
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_POSITION_AHEAD),
					 errmsg("transactions were applied that the source does not have"),
					 errdetail("Source %s lacks %s.", run->source_uuid, gtid_text(ahead)),
					 errhint("The source was reset, rebuilt, or is another server that lags or lost transactions. Wait for it to catch up and start the "
							 "pipeline again; if it lost them for good, capstan.restart_snapshot() copies all tables anew.")));
		capstan_gtidset_free(executed);
		capstan_gtidset_free(ahead);
		capstan_process_wait(AHEAD_POLL_MS, CAPSTAN_WAIT_STREAM);
	}
	purged = query_gtid_set(conn, "gtid_purged");
	if (!capstan_gtidset_contains_set(run->applied, purged))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_GTIDS_PURGED),
				 errmsg("the source has purged transactions that were not applied yet"),
				 errdetail("Missing: %s.", gtid_text(capstan_gtidset_subtract(purged, run->applied))),
				 errhint("They cannot be streamed any more: capstan.restart_snapshot() copies all tables anew. Keep binary logs "
						 "for longer by binlog_expire_logs_seconds on the source.")));
	from = capstan_witness_summon(run, purged);
	capstan_gtidset_free(purged);
	MemoryContextSwitchTo(caller);
	return from;
}

static void
log_start(PipelineRun *run, SourceConn *conn)
{
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": connected to %s, server %s, MySQL %s", run->pipeline->name,
					capstan_wire_host(conn), run->source_uuid, capstan_wire_server_version(conn))));
}

static void
publish_source(PipelineRun *run)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	strlcpy(run->slot->source_uuid, run->source_uuid, sizeof(run->slot->source_uuid));
	LWLockRelease(Capstan->lock);
}

/* All tables in one cut, before there is a stream. */
static void
copy_consistently(PipelineRun *run)
{
	SourceConn *conn = capstan_wire_connect(run->options, psprintf("check %s", run->pipeline->name));

	check_source(conn);
	check_log_is_whole(run, conn);
	check_cascades(run, conn);
	strlcpy(run->source_uuid, capstan_wire_server_uuid(conn), sizeof(run->source_uuid));
	log_start(run, conn);
	capstan_wire_close(conn);
	publish_source(run);
	set_state(run->slot, WORKER_SNAPSHOT);
	capstan_consistent_run(run);
}

static void
open_stream(PipelineRun *run)
{
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);
	SourceConn *conn = capstan_wire_connect(run->options, psprintf("stream %s", run->pipeline->name));
	GtidSet    *from;

	check_source(conn);
	check_log_is_whole(run, conn);
	check_cascades(run, conn);
	run->fold_names = strcmp(capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.lower_case_table_names"), "0") != 0;
	from = find_position(run, conn);
	log_start(run, conn);
	publish_source(run);
	run->stream = capstan_binlogstream_open(conn, from, 0, run->pipeline->replica_uuid, capstan_heartbeat);
	MemoryContextSwitchTo(caller);
}

/* The first event came: the connection works. */
static void
announce(PipelineRun *run)
{
	run->announced = true;
	run->announced_at = GetCurrentTimestamp();
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": streaming", run->pipeline->name)));
}

/*
 * Earlier retries are over, not when the source can be reached again, but when something was applied, or copied while
 * that is to be done, or there is nothing to apply: else what fails again and again would do so without back-off.
 */
static void
recover(PipelineRun *run)
{
	run->recovered = true;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	run->slot->failures = 0;
	LWLockRelease(Capstan->lock);

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	capstan_meta_resolve_incidents(run->pipeline->name, "retry", META_GOES_ON);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->event_context);
}

static bool
has_recovered(PipelineRun *run)
{
	return run->announced && !run->group_open &&
		(run->advanced ||
		 TimestampDifferenceExceeds(run->announced_at, GetCurrentTimestamp(), RECOVERED_AFTER_MS));
}

/* Small events come by the hundred thousand a second: the clock is not asked for each. */
static void
look_at_clock(PipelineRun *run)
{
	run->clock = GetCurrentTimestamp();
	run->clock_events = 0;
}

static void
fetch_event(PipelineRun *run, const uint8_t **data, size_t *length)
{
	bool		fresh = !capstan_binlogstream_buffered(run->stream) || ++run->clock_events >= EVENTS_PER_CLOCK;

	capstan_binlogstream_fetch(run->stream, data, length);
	pg_atomic_write_u64(&run->slot->bytes, pg_atomic_read_u64(&run->slot->bytes) + *length);
	if (!fresh)
		return;
	look_at_clock(run);
	pg_atomic_write_u64(&run->slot->last_event_us, (uint64) run->clock);
}

static void
stream_forever(PipelineRun *run)
{
	look_at_clock(run);
	for (;;)
	{
		const uint8_t *data;
		size_t		length;

		Assert(CurrentMemoryContext == run->event_context);
		capstan_process_check_interrupts();
		if (run->clock_events == 0 || capstan_bounds_is_due(run))
			capstan_bounds_check(run);
		if (!run->in_transaction)
		{
			bool		waiting = capstan_binlogstream_pending(run->stream);

			capstan_round_at_boundary(run);
			capstan_stream_commit_if_due(run, waiting);
			if (!run->recovered && has_recovered(run))
				recover(run);
			if (!run->copying && !run->group_open)
				capstan_index_supervise(run);
			if (!waiting && !run->group_open &&
				!capstan_binlogstream_wait(run->stream, capstan_heartbeat * 2, capstan_wait_event(CAPSTAN_WAIT_STREAM)))
			{
				look_at_clock(run);
				continue;
			}
		}
		fetch_event(run, &data, &length);
		capstan_stream_event(run, data, length);
		MemoryContextReset(run->event_context);
		if (!run->announced)
			announce(run);
	}
}

static void
run_pipeline(void)
{
	PipelineRun *run;
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "capstan stream", ALLOCSET_DEFAULT_SIZES);
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PREDECESSOR_WAIT_MS);

	MemoryContextSwitchTo(context);
	run = palloc0(sizeof(PipelineRun));
	run->stream_context = context;
	run->event_context = AllocSetContextCreate(context, "capstan event", ALLOCSET_DEFAULT_SIZES);
	run->row_context = AllocSetContextCreate(context, "capstan row", ALLOCSET_DEFAULT_SIZES);
	run->slot = MySlot;

	while (!capstan_lock_pipeline_worker(MyArgs.pipeline_id))
	{
		if (GetCurrentTimestamp() > deadline)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("another worker of the pipeline is still running")));
		capstan_process_wait(50, CAPSTAN_WAIT_STREAM);
	}
	capstan_lock_wait_for_copy_workers(MyArgs.pipeline_id);
	if (!load_pipeline(run))
		return;
	SetConfigOption("synchronous_commit", GetConfigOption("capstan.synchronous_commit", false, false), PGC_SUSET, PGC_S_OVERRIDE);
	capstan_process_set_title("pipeline", run->pipeline->name, -1);
	capstan_connections_acquire(run->slot, run->copying);

	MemoryContextSwitchTo(run->event_context);
	capstan_stream_init(run);
	if (capstan_consistent_is_due(run))
		copy_consistently(run);
	open_stream(run);
	set_state(run->slot, run->copying ? WORKER_SNAPSHOT : WORKER_STREAMING);
	if (run->copying)
		capstan_round_start_workers(run);
	stream_forever(run);
}

void
capstan_pipeline_main(Datum main_arg)
{
	memcpy(&MyArgs, MyBgworkerEntry->bgw_extra, sizeof(MyArgs));
	if (!attach(DatumGetInt32(main_arg)))
		proc_exit(0);
	capstan_process_connect(MyArgs.database, MyArgs.owner);
	capstan_apply_init();

	PG_TRY();
	{
		run_pipeline();
	}
	PG_CATCH();
	{
		capstan_failure_record(MySlot, MyArgs.pipeline_id, true);
		proc_exit(1);
	}
	PG_END_TRY();

	/* not to run after all: the launcher must not try again by itself, unless it was told to meanwhile */
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	if (MySlot->generation == MyArgs.generation)
		MySlot->wanted = false;
	LWLockRelease(Capstan->lock);
	proc_exit(0);
}
