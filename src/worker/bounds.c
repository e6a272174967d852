/*
 * bounds.c
 *		What a pipeline must not exceed: a warning incident at 80 % of each bound, a halt at the bound.
 *
 *	 binary log retention	how old the first transaction is that is not applied yet, against binlog_expire_logs_seconds
 *	 capstan.max_round_attempts	attempts at one snapshot round, by one process (called by the coordinator), and by one after the other
 *	 capstan.max_snapshot_time	time since the first table was copied, pauses and restarts included
 *	 capstan.max_disk_usage		the fullest of the target's file systems
 *
 * Called by the pipeline worker, between its events and while it stands still for a round; and by the coordinator.
 *
 * Retention halts only while tables are copied, and at 95 %: there it is the copy that holds the stream back, and what is left of the
 * time is the operator's, to raise the source's setting.  A pipeline that merely streams is as fast as it can be; to halt it would make
 * certain what is only likely.  (The source does not purge a file that a dump thread reads: while the stream is connected it still gets what
 * has expired.)
 */
#include "postgres.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "access/xact.h"
#include "catalog/pg_tablespace_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "worker/copyworker.h"
#include "worker/pipelineworker.h"

#define WARN_AT 0.8
/* A warning is over only when the value is some way below; a higher value is told again after so much. */
#define RESOLVE_BELOW 0.75
#define TELL_AGAIN 0.05
#define RETENTION_HALT_AT 0.95
/* So many looks go by before the source is asked again, or the tablespaces are listed again. */
#define LOOKS_PER_LIST 6

#define UNIX_TO_POSTGRES_US \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* How near to one bound we are. */
typedef struct BoundLook
{
	int			sqlerrcode;
	double		used;			/* 1: the bound is reached */
	double		halt_at;
	const char *bound;			/* its name */
	const char *of;				/* what is bounded, where there are several; or NULL */
	const char *detail;
	const char *remedy;
} BoundLook;

/* What was said about one bound. */
typedef struct BoundState
{
	bool		looked;			/* an earlier worker's warning has been taken care of */
	double		told;			/* the value that the open warning told; 0: there is none */
	char		of[NAMEDATALEN + 40];	/* and of what */
} BoundState;

typedef struct Disk
{
	char	   *path;
	char	   *name;
} Disk;

typedef struct BoundsWatch
{
	TimestampTz made_at;
	TimestampTz looked_at;
	int			looks;
	bool		copying;		/* as noted in the catalog */
	TimestampTz snapshot_started;	/* 0: none is under way */
	MemoryContext disks_context;
	List	   *disks;			/* of Disk; one for each file system */

	/* what the source said */
	TimestampTz asked_at;		/* 0: never */
	int64		expire_s;		/* 0: nothing expires */
	int64		clock_us;		/* its clock, minus ours */
	int64		current_us;		/* when it last had nothing that was not applied: its clock, Unix epoch */
	bool		unknown;		/* nothing came from it yet by which the lag could be told */

	BoundState	retention;
	BoundState	snapshot_time;
	BoundState	disk;
} BoundsWatch;

static void
begin_catalog(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit_catalog(MemoryContext caller)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
}

static char *
name_bound(const BoundLook *look, const char *reached)
{
	return look->of == NULL ? psprintf("%s is %s", look->bound, reached) :
		psprintf("%s is %s: %s", look->bound, reached, look->of);
}

static void
warn(const char *pipeline, const BoundLook *look)
{
	MemoryContext caller = CurrentMemoryContext;
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = pipeline;
	incident.severity = "warning";
	incident.class = capstan_errcode_class(look->sqlerrcode);
	incident.sqlerrcode = look->sqlerrcode;
	incident.message = name_bound(look, "nearly reached");
	incident.detail = look->detail;
	incident.hint = look->remedy;
	begin_catalog();
	(void) capstan_meta_record_incident(&incident);
	commit_catalog(caller);
	ereport(LOG,
			(errcode(look->sqlerrcode),
			 errmsg("capstan pipeline \"%s\": %s", pipeline, incident.message),
			 errdetail_internal("%s", look->detail),
			 errhint("%s", look->remedy)));
}

static void
raise_reached(const char *pipeline, const BoundLook *look)
{
	ereport(ERROR,
			(errcode(look->sqlerrcode),
			 errmsg("%s", name_bound(look, "reached")),
			 errdetail_internal("%s", look->detail),
			 errhint("%s Then: SELECT capstan.resume_pipeline(%s, '<what was done>');", look->remedy, quote_literal_cstr(pipeline))));
}

/* Outside of a transaction. */
static void
judge(const char *pipeline, BoundState *state, const BoundLook *look)
{
	MemoryContext caller = CurrentMemoryContext;
	const char *of = look->of == NULL ? "" : look->of;

	if (look->used >= look->halt_at)
		raise_reached(pipeline, look);
	if (look->used >= WARN_AT)
	{
		if (state->told == 0 || look->used >= state->told + TELL_AGAIN || strcmp(state->of, of) != 0)
		{
			warn(pipeline, look);
			state->told = look->used;
			strlcpy(state->of, of, sizeof(state->of));
		}
	}
	else if (!state->looked || (state->told > 0 && look->used < RESOLVE_BELOW))
	{
		begin_catalog();
		capstan_meta_resolve_warning(pipeline, capstan_errcode_class(look->sqlerrcode), "below the bound again");
		commit_catalog(caller);
		state->told = 0;
	}
	state->looked = true;
}

/* ---------------------------------------------------------------------
 * Binary log retention
 * --------------------------------------------------------------------- */

/* 0: nothing expires by itself. */
static int64
ask_expiry(SourceConn *conn)
{
	int			version = capstan_wire_server_version_num(conn);
	int64		seconds = strtoll(capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.binlog_expire_logs_seconds"), NULL, 10);
	SourceResult *result;

	if (version >= 80029 &&
		strcmp(capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.binlog_expire_logs_auto_purge"), "0") == 0)
		return 0;
	/* the older setting rules where the other one is 0 */
	if (seconds == 0 && version < 80400 &&
		capstan_wire_try_query(conn, "SELECT @@GLOBAL.expire_logs_days", WIRE_VALUE, &result, NULL) == 0 && result->nrows == 1)
		seconds = strtoll(result->rows[0][0], NULL, 10) * SECS_PER_DAY;
	return Max(seconds, 0);
}

static void
ask(PipelineRun *run, BoundsWatch *watch)
{
	SourceConn *conn;
	CapstanError error;
	char	   *executed;
	GtidSet    *set;
	int64		clock_us;

	capstan_describe_close(run);
	conn = capstan_wire_connect(run->options, "bounds");
	/* it speaks of another server's log, in the middle of a fail-over */
	if (strcmp(run->source_uuid, capstan_wire_server_uuid(conn)) != 0)
	{
		capstan_wire_close(conn);
		return;
	}
	capstan_wire_check_logging(conn);
	watch->expire_s = ask_expiry(conn);
	clock_us = (int64) (strtod(capstan_wire_query_not_null(conn, "SELECT UNIX_TIMESTAMP(SYSDATE(6))"), NULL) * 1e6);
	executed = capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.gtid_executed");
	set = capstan_gtidset_parse(executed, strlen(executed), &error);
	if (set != NULL && capstan_gtidset_contains_set(run->applied, set))
		watch->current_us = clock_us;
	watch->clock_us = clock_us - (GetCurrentTimestamp() + UNIX_TO_POSTGRES_US);
	watch->asked_at = GetCurrentTimestamp();
	capstan_wire_close(conn);
}

/* Of a source that lets nobody in now, or not any more by what we know of the account (its password is being changed). */
static bool
concerns_new_connections(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_CONNECTION_EXCEPTION || category == ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION ||
		sqlerrcode == ERRCODE_TOO_MANY_CONNECTIONS;
}

/* That it cannot be asked now must not end the stream: it may have room for one connection only. */
static void
try_to_ask(PipelineRun *run, BoundsWatch *watch)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "capstan bounds", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		ask(run, watch);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (!concerns_new_connections(error->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		ereport(LOG,
				(errmsg("capstan pipeline \"%s\": the source could not be asked how long it keeps its binary log: %s",
						run->pipeline->name, error->message)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}

/*
 * How old the first transaction is that is not applied, at most, seconds; negative: not known yet.  The one begun last is either it or one
 * before it; whatever came after the source had nothing new is younger than that moment, and what is not in the G of a round that the
 * stream has reached is younger than G.
 */
static double
lag_s(const PipelineRun *run, const BoundsWatch *watch)
{
	int64		to_source_us = UNIX_TO_POSTGRES_US + watch->clock_us;
	TimestampTz caught_up = (TimestampTz) pg_atomic_read_u64(&run->slot->caught_up_us);
	int64		until = Max((int64) run->logged_us, watch->current_us);

	/* an earlier worker's may be long ago, and nothing have happened since */
	if (caught_up >= watch->made_at)
		until = Max(until, caught_up + to_source_us);
	if (run->needed == NULL && run->needed_since != 0)
		until = Max(until, run->needed_since + to_source_us);
	return until == 0 ? -1 : Max(GetCurrentTimestamp() + to_source_us - until, 0) / 1e6;
}

static void
check_retention(PipelineRun *run, BoundsWatch *watch)
{
	BoundLook	look = {.sqlerrcode = CAPSTAN_ERRCODE_RETENTION, .halt_at = run->copying ? RETENTION_HALT_AT : INFINITY};
	bool		asked = watch->asked_at == 0 || watch->looks % LOOKS_PER_LIST == 0;
	double		lag;

	if (asked)
		try_to_ask(run, watch);
	lag = lag_s(run, watch);
	if (!asked && watch->expire_s > 0 && lag / watch->expire_s >= WARN_AT)
	{
		/* somebody may have acted, or there is nothing to lag behind */
		try_to_ask(run, watch);
		lag = lag_s(run, watch);
	}
	watch->unknown = watch->asked_at != 0 && lag < 0;
	if (watch->asked_at == 0 || watch->unknown)
		return;
	look.used = watch->expire_s == 0 ? 0 : lag / watch->expire_s;
	look.bound = "binlog_expire_logs_seconds of the source";
	look.detail = psprintf("The first transaction that is not applied is up to %.0f s old, and the source keeps its binary log for " INT64_FORMAT " s: %d %%.%s",
						   lag, watch->expire_s, (int) (look.used * 100),
						   run->copying ? psprintf(" The pipeline halts at %d %% while tables are copied.", (int) (RETENTION_HALT_AT * 100)) : "");
	look.remedy = psprintf("SET PERSIST binlog_expire_logs_seconds = " INT64_FORMAT "; on the source lets it keep for longer what is needed. Do not PURGE BINARY LOGS there.",
						   Min(watch->expire_s * 4, INT64CONST(4294967295)));
	judge(run->pipeline->name, &watch->retention, &look);
}

/* ---------------------------------------------------------------------
 * Snapshot: time and attempts
 * --------------------------------------------------------------------- */

static void
check_snapshot_time(PipelineRun *run, BoundsWatch *watch)
{
	BoundLook	look = {.sqlerrcode = CAPSTAN_ERRCODE_SNAPSHOT_TIME, .halt_at = 1};
	double		taken_s;

	if (watch->copying != run->copying || !watch->snapshot_time.looked)
	{
		MemoryContext caller = CurrentMemoryContext;

		begin_catalog();
		watch->snapshot_started = capstan_meta_note_snapshot(run->pipeline->id, run->copying);
		commit_catalog(caller);
		watch->copying = run->copying;
	}
	taken_s = watch->snapshot_started == 0 ? 0 : (GetCurrentTimestamp() - watch->snapshot_started) / 1e6;
	look.used = capstan_max_snapshot_time == 0 ? 0 : taken_s / capstan_max_snapshot_time;
	look.bound = "capstan.max_snapshot_time";
	look.detail = psprintf("The snapshot goes on since %s, %.0f s ago, and the bound is %d s: %d %%.",
						   timestamptz_to_str(watch->snapshot_started), taken_s, capstan_max_snapshot_time, (int) (look.used * 100));
	look.remedy = "More capstan.copy_workers, or a longer capstan.range_time, make it faster; a higher capstan.max_snapshot_time lets it take longer (0: no bound).";
	judge(run->pipeline->name, &watch->snapshot_time, &look);
}

void
capstan_bounds_count_attempt(CopyRun *run, const char *table)
{
	BoundLook	look = {.sqlerrcode = CAPSTAN_ERRCODE_ATTEMPTS, .halt_at = 1, .of = table};
	BoundState	state = {.looked = true, .told = run->attempts_told};

	run->attempts++;
	if (capstan_max_round_attempts == 0)
		return;
	look.used = (double) run->attempts / capstan_max_round_attempts;
	look.bound = "capstan.max_round_attempts";
	look.detail = psprintf("%d attempts at one snapshot round so far, the bound is %d.", run->attempts, capstan_max_round_attempts);
	look.remedy = "Look for long transactions on the table in information_schema.innodb_trx of the source, and for ALTER, OPTIMIZE or FLUSH in its process list; "
		"a higher capstan.max_lock_wait or capstan.max_round_attempts (0: no bound) lets capstan try for longer.";
	strlcpy(state.of, table, sizeof(state.of));
	judge(run->pipeline->name, &state, &look);
	run->attempts_told = state.told;
}

/* What an earlier process has told of so much. */
static double
told_before(double used)
{
	return used < WARN_AT ? 0 : WARN_AT + TELL_AGAIN * floor((used - WARN_AT) / TELL_AGAIN);
}

/*
 * A process that fails takes its count of attempts with it: so what is counted in the catalog is how often the copy was begun.  What it ends by
 * each time may go away by itself, as far as can be told (temp_file_limit, a source that is short of memory), and not do so.
 */
void
capstan_bounds_count_start(PipelineRun *run)
{
	BoundLook	look = {.sqlerrcode = CAPSTAN_ERRCODE_ATTEMPTS, .halt_at = 1};
	BoundState	state = {.looked = true};
	MemoryContext caller = CurrentMemoryContext;
	char	   *last;
	int			failed;

	begin_catalog();
	run->starts = capstan_meta_count_start(run->pipeline->id);
	last = capstan_meta_last_retry(run->pipeline->name);
	last = last == NULL ? NULL : MemoryContextStrdup(caller, last);
	commit_catalog(caller);
	failed = run->starts - 1;
	if (capstan_max_round_attempts == 0 || failed == 0)
		return;
	look.used = (double) failed / capstan_max_round_attempts;
	look.bound = "capstan.max_round_attempts";
	look.detail = psprintf("%d times in a row the copy has ended before a round of it was complete, the bound is %d. Last failure: %s.",
						   failed, capstan_max_round_attempts, last == NULL ? "none was noted" : last);
	look.remedy = "Put right what the incidents of severity retry tell; or raise capstan.max_round_attempts (0: no bound).";
	state.told = told_before((failed - 1.0) / capstan_max_round_attempts);
	judge(run->pipeline->name, &state, &look);
}

void
capstan_bounds_round_completed(PipelineRun *run)
{
	if (run->starts == 0)
		return;
	capstan_meta_forget_starts(run->pipeline->id);
	/* of this count or, where somebody had it begin again, of the one before */
	capstan_meta_resolve_warning(run->pipeline->name, capstan_errcode_class(CAPSTAN_ERRCODE_ATTEMPTS), "a round was completed");
	run->starts = 0;
}

void
capstan_bounds_end_attempts(CopyRun *run)
{
	static const char *const classes[] = {"table_lock_not_granted", "snapshot_round_retried", "round_attempts"};
	/* a round that was had is not complete yet: what was said of those that failed before it stays */
	int			nclasses = run->attempts > 0 ? lengthof(classes) : lengthof(classes) - 1;
	MemoryContext caller = CurrentMemoryContext;

	/* the first round of this process ends what was said by an earlier one, too */
	if (run->attempts > 0 || !run->had_a_round)
	{
		begin_catalog();
		for (int i = 0; i < nclasses; i++)
			capstan_meta_resolve_warning(run->pipeline->name, classes[i], "the round was had");
		commit_catalog(caller);
	}
	run->had_a_round = true;
	run->attempts = 0;
	run->attempts_told = 0;
}

/* ---------------------------------------------------------------------
 * Disk
 * --------------------------------------------------------------------- */

static void
add_disk(BoundsWatch *watch, const char *path, const char *name, dev_t *seen, int *nseen)
{
	struct stat status;
	Disk	   *disk;

	/* a tablespace that was dropped just now */
	if (stat(path, &status) != 0)
		return;
	for (int i = 0; i < *nseen; i++)
		if (seen[i] == status.st_dev)
			return;
	seen[(*nseen)++] = status.st_dev;
	disk = palloc(sizeof(Disk));
	disk->path = pstrdup(path);
	disk->name = pstrdup(name);
	watch->disks = lappend(watch->disks, disk);
}

/* Paths are relative to the data directory, in which every process of the server stands. */
static void
list_disks(PipelineRun *run, BoundsWatch *watch)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *spaces;
	ListCell   *cell;
	dev_t	   *seen;
	int			nseen = 0;

	begin_catalog();
	MemoryContextReset(watch->disks_context);
	MemoryContextSwitchTo(watch->disks_context);
	watch->disks = NIL;
	spaces = capstan_meta_tablespaces(run->pipeline->id);
	seen = palloc(sizeof(dev_t) * (list_length(spaces) + 3));
	add_disk(watch, ".", "data directory", seen, &nseen);
	add_disk(watch, "pg_wal", "pg_wal", seen, &nseen);
	if (MyDatabaseTableSpace != DEFAULTTABLESPACE_OID)
		add_disk(watch, psprintf("pg_tblspc/%u", MyDatabaseTableSpace), "tablespace of the database", seen, &nseen);
	foreach(cell, spaces)
	{
		MetaTablespace *space = lfirst(cell);

		if (space->id != DEFAULTTABLESPACE_OID && space->id != GLOBALTABLESPACE_OID)
			add_disk(watch, psprintf("pg_tblspc/%u", space->id), psprintf("tablespace \"%s\"", space->name), seen, &nseen);
	}
	commit_catalog(caller);
}

/* Used, of what we may use: as df has it.  Negative: cannot be told. */
static double
disk_usage(const Disk *disk, struct statvfs *fs)
{
	double		used;

	if (statvfs(disk->path, fs) != 0 || fs->f_blocks == 0)
		return -1;
	used = (double) (fs->f_blocks - fs->f_bfree);
	return used / (used + (double) fs->f_bavail);
}

/* only_halt: a transaction is open, so there is no place for a warning now. */
static void
check_disks(PipelineRun *run, BoundsWatch *watch, bool only_halt)
{
	BoundLook	look = {.sqlerrcode = CAPSTAN_ERRCODE_DISK, .halt_at = 1};
	ListCell   *cell;

	look.bound = "capstan.max_disk_usage";
	foreach(cell, watch->disks)
	{
		Disk	   *disk = lfirst(cell);
		struct statvfs fs;
		double		usage = capstan_max_disk_usage == 0 ? -1 : disk_usage(disk, &fs);

		if (usage < 0 || usage * 100 / capstan_max_disk_usage <= look.used)
			continue;
		look.used = usage * 100 / capstan_max_disk_usage;
		look.of = disk->name;
		look.detail = psprintf("%d %% of its file system is used, " INT64_FORMAT " MB are free, and the bound is %d %%.", (int) (usage * 100),
							   (int64) ((uint64) fs.f_bavail * fs.f_frsize / 1024 / 1024), capstan_max_disk_usage);
	}
	look.remedy = "Free space there or enlarge it; or raise capstan.max_disk_usage (0: no bound).";
	if (!only_halt)
		judge(run->pipeline->name, &watch->disk, &look);
	else if (look.used >= look.halt_at)
		raise_reached(run->pipeline->name, &look);
}

/* --------------------------------------------------------------------- */

static BoundsWatch *
make_watch(PipelineRun *run)
{
	BoundsWatch *watch = MemoryContextAllocZero(run->stream_context, sizeof(BoundsWatch));

	watch->made_at = GetCurrentTimestamp();
	watch->disks_context = AllocSetContextCreate(run->stream_context, "capstan disks", ALLOCSET_SMALL_SIZES);
	return watch;
}

/*
 * Is there something that the last look could not know, and the first event tells?  Asked after each event: the one that follows may be the
 * one that waits for a lock until the worker ends.
 */
bool
capstan_bounds_is_due(const PipelineRun *run)
{
	return run->bounds != NULL && run->bounds->unknown && run->logged_us != 0 && !run->group_open;
}

void
capstan_bounds_check(PipelineRun *run)
{
	BoundsWatch *watch = run->bounds;
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext caller;
	MemoryContext context;

	if (watch == NULL)
		watch = run->bounds = make_watch(run);
	/* a clock that was set back must not put it off */
	if (now >= watch->looked_at && !TimestampDifferenceExceeds(watch->looked_at, now, capstan_bounds_interval) &&
		!capstan_bounds_is_due(run))
		return;
	watch->looked_at = now;
	caller = CurrentMemoryContext;
	context = AllocSetContextCreate(run->stream_context, "capstan bounds check", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(context);
	if (run->group_open && !run->in_transaction)
	{
		capstan_stream_commit(run);
		MemoryContextSwitchTo(context);
	}
	if (run->group_open)
		check_disks(run, watch, true);
	else
	{
		if (watch->looks % LOOKS_PER_LIST == 0)
			list_disks(run, watch);
		check_disks(run, watch, false);
		check_snapshot_time(run, watch);
		check_retention(run, watch);
		watch->looks++;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
}
