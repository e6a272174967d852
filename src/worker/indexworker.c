/*
 * indexworker.c
 *		Index workers: build the indexes of copied tables, then ANALYZE them.
 *
 * Started by the pipeline worker (indexbuild.c) when all tables are copied, several at a time.  Each takes one table after
 * the other, by a lock for each table; the indexes of one table are built one after the other, since CREATE INDEX
 * CONCURRENTLY excludes itself there.
 *
 * A small table's index is built at once, in one transaction with its state: the stream waits some milliseconds if it wants
 * to write there.  A large one's is built CONCURRENTLY, so that the stream never waits.  That commits several times:
 *
 *	 pending --commit--> building --CREATE INDEX CONCURRENTLY--> done
 *	                        |  a worker that ended here leaves an invalid index,
 *	                        v  which the next one drops before it begins again
 *	                     failed (an incident of severity warning says why; the pipeline goes on)
 *
 * It acts as the pipeline's owner; Postgres itself runs functions in an index as the owner of the table.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "errcodes.h"
#include "meta/tableobject.h"
#include "worker/internal.h"
#include "worker/lock.h"

/* Up to this size a table's index is built in the stream's way. */
#define SMALL_TABLE_BLOCKS 512
/* How long that may wait for the table, since the stream waits behind it. */
#define SMALL_TABLE_LOCK_TIMEOUT "500ms"

PGDLLEXPORT void capstan_index_main(Datum main_arg);

typedef struct IndexRun
{
	MemoryContext table_context;	/* reset after each table */
	PipelineSlot *slot;
	Pipeline   *pipeline;
} IndexRun;

static void
begin(IndexRun *run)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(run->table_context);
}

static void
commit(IndexRun *run)
{
	if (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(run->table_context);
}

/*
 * A statement that commits by itself, as if it came from a client.  Everything that it is given lives in table_context, since
 * what is in the transaction's own memory is gone at its first commit.
 */
static void
run_utility(IndexRun *run, const char *sql)
{
	List	   *raw = pg_parse_query(sql);
	PlannedStmt *statement = makeNode(PlannedStmt);
	Node	   *utility = linitial_node(RawStmt, raw)->stmt;

	if (IsA(utility, IndexStmt))
		((IndexStmt *) utility)->concurrent = true;
	statement->commandType = CMD_UTILITY;
	statement->utilityStmt = utility;
	begin(run);
	ProcessUtility(statement, sql, false, PROCESS_UTILITY_TOPLEVEL, NULL, NULL, None_Receiver, NULL);
	commit(run);
}

static void
set_state(IndexRun *run, const MetaObject *index, const char *state, const char *note)
{
	begin(run);
	capstan_meta_set_object_state(index->id, state, note);
	commit(run);
}

/* The index of that name on the table, whether it is valid or not; InvalidOid. */
static Oid
find_index(const MetaObject *index, bool *valid)
{
	Oid			relid = get_relname_relid(index->target_object, get_rel_namespace(index->target));

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_INDEX || IndexGetRelation(relid, true) != index->target)
		return InvalidOid;
	*valid = get_index_isvalid(relid);
	return relid;
}

/* What an earlier try has left; true if that was a whole index already. */
static bool
clear_leftover(IndexRun *run, const MetaObject *index, bool interrupted)
{
	bool		valid = false;
	Oid			found;

	begin(run);
	found = find_index(index, &valid);
	commit(run);
	if (!OidIsValid(found))
		return false;
	if (valid)
		return interrupted;
	begin(run);
	{
		char	   *sql = psprintf("DROP INDEX CONCURRENTLY %s",
								   quote_qualified_identifier(get_namespace_name(get_rel_namespace(index->target)), index->target_object));

		commit(run);
		run_utility(run, sql);
	}
	return false;
}

static bool
is_small(IndexRun *run, const MetaObject *index)
{
	Relation	relation;
	bool		small = true;

	begin(run);
	relation = try_relation_open(index->target, AccessShareLock);
	if (relation != NULL)
	{
		small = relation->rd_rel->relkind == RELKIND_RELATION && RelationGetNumberOfBlocks(relation) <= SMALL_TABLE_BLOCKS;
		relation_close(relation, AccessShareLock);
	}
	commit(run);
	return small;
}

/* Index and state at once. */
static void
build_small(IndexRun *run, const MetaObject *index)
{
	int			rc;

	begin(run);
	(void) set_config_option("lock_timeout", SMALL_TABLE_LOCK_TIMEOUT, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	rc = SPI_execute(index->statement, false, 0);
	if (rc != SPI_OK_UTILITY)
		elog(ERROR, "CREATE INDEX returned %s", SPI_result_code_string(rc));
	SPI_finish();
	capstan_meta_set_object_state(index->id, "done", NULL);
	commit(run);
}

static void
build_large(IndexRun *run, const MetaObject *index)
{
	set_state(run, index, "building", NULL);
	run_utility(run, index->statement);
	set_state(run, index, "done", NULL);
}

/* Takes the current error; the transaction is over.  Values of rows are in the detail only, but for those of bad values. */
static ErrorData *
take_error(IndexRun *run)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(run->table_context);
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(run->table_context);
	if (error->message == NULL || ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_DATA_EXCEPTION)
		error->message = psprintf("SQLSTATE %s", unpack_sql_state(error->sqlerrcode));
	return error;
}

/* pg_cancel_backend() means this index, all else that goes away by itself is tried again. */
static bool
goes_away(const ErrorData *error)
{
	return capstan_errcode_is_transient(error->sqlerrcode) && error->sqlerrcode != ERRCODE_QUERY_CANCELED;
}

static void
record_failure(IndexRun *run, const MetaObject *index, const ErrorData *error)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = "index_not_built";
	incident.sqlerrcode = error->sqlerrcode;
	incident.message = psprintf("index %s of %s could not be built: %s", index->name, index->source_table, error->message);
	incident.hint = "The pipeline goes on without it. capstan.object_status has the statement, to be run by hand.";
	incident.source_table = index->source_table;
	begin(run);
	capstan_meta_set_object_state(index->id, "failed", error->message);
	(void) capstan_meta_record_incident(&incident);
	commit(run);
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message)));
}

/* Raises what goes away by itself; the next worker tries again. */
static void
build_index(IndexRun *run, MetaObject *index)
{
	ErrorData  *volatile error = NULL;
	volatile bool small;

	if (clear_leftover(run, index, strcmp(index->state, "building") == 0))
	{
		set_state(run, index, "done", NULL);
		return;
	}
	if (index->statement == NULL)
	{
		set_state(run, index, "failed", "the target table is gone");
		return;
	}
	small = is_small(run, index);
	PG_TRY();
	{
		if (small)
			build_small(run, index);
		else
			build_large(run, index);
	}
	PG_CATCH();
	{
		error = take_error(run);
	}
	PG_END_TRY();
	if (error != NULL && small && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
	{
		/* somebody uses the table for longer: so as not to stand in the stream's way */
		error = NULL;
		PG_TRY();
		{
			build_large(run, index);
		}
		PG_CATCH();
		{
			error = take_error(run);
		}
		PG_END_TRY();
	}
	if (error == NULL)
		return;
	if (goes_away(error))
		ReThrowError(error);
	/* half an index would still refuse rows */
	(void) clear_leftover(run, index, false);
	record_failure(run, index, error);
}

static void
analyze(IndexRun *run, int64 table_id)
{
	Oid			target;
	char	   *source_table;
	char	   *volatile sql = NULL;
	ErrorData  *volatile error = NULL;

	begin(run);
	if (capstan_meta_wants_analyze(table_id, &target, &source_table))
	{
		char		kind = get_rel_relkind(target);

		char	   *name = capstan_map_relation_name(target);

		if (name != NULL && (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE))
			sql = psprintf("ANALYZE %s", name);
	}
	commit(run);
	PG_TRY();
	{
		if (sql != NULL)
			run_utility(run, sql);
	}
	PG_CATCH();
	{
		error = take_error(run);
	}
	PG_END_TRY();
	if (error != NULL && goes_away(error))
		ReThrowError(error);
	if (error != NULL)
		ereport(LOG,
				(errmsg("capstan pipeline \"%s\": %s: %s", run->pipeline->name, sql, error->message)));
	begin(run);
	capstan_meta_set_analyzed(table_id);
	commit(run);
}

static void
work_on_table(IndexRun *run, int64 table_id)
{
	List	   *indexes;
	ListCell   *lc;

	/* what another worker has done meanwhile is not in it any more */
	begin(run);
	indexes = capstan_meta_indexes_to_build(table_id);
	commit(run);
	foreach(lc, indexes)
	{
		MetaObject *index = lfirst(lc);

		strlcpy(MyPlace.table, index->source_table, sizeof(MyPlace.table));
		pgstat_report_activity(STATE_RUNNING, psprintf("building index %s of %s", index->name, index->source_table));
		build_index(run, index);
		capstan_process_check_interrupts();
	}
	pgstat_report_activity(STATE_RUNNING, "analyzing");
	analyze(run, table_id);
	MyPlace.table[0] = '\0';
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Is the pipeline still to run?  Whether its worker is there at the moment does not matter.  Caller holds the lock. */
static bool
is_wanted(const PipelineSlot *slot)
{
	return slot->in_use && slot->wanted && slot->state != WORKER_HALTED && slot->database == MyArgs.database &&
		slot->pipeline_id == MyArgs.pipeline_id;
}

static bool
is_still_wanted(void)
{
	bool		wanted;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	wanted = is_wanted(MySlot);
	LWLockRelease(Capstan->lock);
	return wanted;
}

static void
detach(int code, Datum arg)
{
	LWLockReleaseAll();
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS; i++)
		if (MySlot->index_pids[i] == MyProcPid)
			MySlot->index_pids[i] = 0;
	capstan_shmem_wake(MySlot);
	LWLockRelease(Capstan->lock);
}

/* A place in the slot, by which the launcher finds us; false if we are not wanted any more or there is none. */
static bool
attach(int index)
{
	bool		attached = false;

	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	MySlot = &Capstan->slots[index];
	for (int i = 0; i < CAPSTAN_MAX_COPY_WORKERS && !attached && is_wanted(MySlot); i++)
		if (MySlot->index_pids[i] == 0)
		{
			MySlot->index_pids[i] = MyProcPid;
			before_shmem_exit(detach, (Datum) 0);
			attached = true;
		}
	LWLockRelease(Capstan->lock);
	return attached;
}

static void
run_index_worker(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "capstan index", ALLOCSET_DEFAULT_SIZES);
	IndexRun	run;
	List	   *tables;
	ListCell   *lc;

	memset(&run, 0, sizeof(run));
	run.slot = MySlot;
	run.table_context = context;
	begin(&run);
	run.pipeline = capstan_meta_pipeline_by_id(MyArgs.pipeline_id);
	tables = run.pipeline == NULL ? NIL : capstan_meta_unindexed_tables(MyArgs.pipeline_id);
	commit(&run);
	if (tables == NIL)
		return;
	capstan_process_set_title("index", run.pipeline->name, MyArgs.copy_index);
	SetConfigOption("synchronous_commit", GetConfigOption("capstan.synchronous_commit", false, false), PGC_SUSET, PGC_S_OVERRIDE);
	/* the locks that are waited for without end let the stream pass */
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);

	run.table_context = AllocSetContextCreate(context, "capstan index table", ALLOCSET_DEFAULT_SIZES);
	foreach(lc, tables)
	{
		int64		table_id = *(int64 *) lfirst(lc);

		if (!is_still_wanted())
			return;
		if (!capstan_lock_table_for_indexes(table_id))
			continue;
		MemoryContextSwitchTo(run.table_context);
		work_on_table(&run, table_id);
		capstan_unlock_table_for_indexes(table_id);
		MemoryContextReset(run.table_context);
	}
}

/* The current error ends the worker.  The pipeline worker sees that there is something left, and starts another after a while. */
static void
give_up(void)
{
	IndexRun	run;
	ErrorData  *error;

	memset(&run, 0, sizeof(run));
	run.table_context = AllocSetContextCreate(TopMemoryContext, "capstan failure", ALLOCSET_DEFAULT_SIZES);
	error = take_error(&run);
	if (!goes_away(error))
	{
		Incident	incident;

		memset(&incident, 0, sizeof(incident));
		incident.pipeline = NameStr(MySlot->name);
		incident.severity = "warning";
		incident.class = "index_worker";
		incident.sqlerrcode = error->sqlerrcode;
		incident.message = psprintf("indexes could not be built: %s", error->message);
		incident.hint = "It is tried again and again; the pipeline goes on.";
		incident.source_table = MyPlace.table[0] == '\0' ? NULL : MyPlace.table;
		begin(&run);
		(void) capstan_meta_record_incident(&incident);
		commit(&run);
	}
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("capstan pipeline \"%s\": indexes are built again later: %s%s%s", NameStr(MySlot->name), error->message,
					MyPlace.table[0] != '\0' ? ", at " : "", MyPlace.table)));
}

void
capstan_index_main(Datum main_arg)
{
	memcpy(&MyArgs, MyBgworkerEntry->bgw_extra, sizeof(MyArgs));
	if (!attach(DatumGetInt32(main_arg)))
		proc_exit(0);
	capstan_process_connect(MyArgs.database, MyArgs.owner);

	PG_TRY();
	{
		run_index_worker();
	}
	PG_CATCH();
	{
		give_up();
		proc_exit(1);
	}
	PG_END_TRY();
	proc_exit(0);
}
