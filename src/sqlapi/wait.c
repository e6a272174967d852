/*
 * wait.c
 *		capstan.wait_for_snapshot(), wait_for_source(), wait_for_gtid().
 *
 * Polls the catalog, where a pipeline's state becomes true at the very moment its rows become
 * visible.  The first naps are short, because read-your-own-writes is what these functions are
 * mostly for.  A pipeline that will not get there by itself (halted, stopped) is an error at once.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/int.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "nodes/primnodes.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "errcodes.h"
#include "meta/pipelinedef.h"
#include "sqlapi/internal.h"
#include "worker/connections.h"
#include "worker/serveroptions.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(capstan_wait_for_snapshot);
PG_FUNCTION_INFO_V1(capstan_wait_for_source);
PG_FUNCTION_INFO_V1(capstan_wait_for_gtid);

#define FIRST_NAP_MS 5
#define LONGEST_NAP_MS 100
/* A nap between looks at a snapshot may be as long as so many of them, where they take long. */
#define NAPS_PER_LOOK 10
/* A statement's snapshot is registered for its QueryDesc and for its EState. */
#define REGISTERED_BY_STATEMENT 2

typedef struct Waiter
{
	Pipeline   *pipeline;
	const char *function;
	TimestampTz deadline;		/* DT_NOEND: none */
	Interval   *timeout;		/* for the message */
	const GtidSet *goal;		/* NULL: the snapshot */
	bool		passable;		/* nobody need heed the snapshot that our statement holds */
} Waiter;

static TimestampTz
deadline_after(Interval *timeout)
{
	int64		days;
	int64		microseconds;
	TimestampTz deadline;

	/* saturates, so that an infinite interval means what it says */
	days = (int64) timeout->month * DAYS_PER_MONTH + timeout->day;
	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &microseconds) ||
		pg_add_s64_overflow(microseconds, timeout->time, &microseconds))
		return timeout->month < 0 || timeout->time < 0 ? DT_NOBEGIN : DT_NOEND;
	if (microseconds < 0)
		return DT_NOBEGIN;
	if (pg_add_s64_overflow(GetCurrentTimestamp(), microseconds, &deadline))
		return DT_NOEND;
	return deadline;
}

/*
 * Is the call all that its statement does: SELECT capstan.wait_for_snapshot('...')?  Then nothing will be read with the snapshot of that
 * statement any more.
 */
static bool
is_whole_statement(FunctionCallInfo fcinfo)
{
	PlannedStmt *statement;
	Result	   *plan;
	FuncExpr   *call;
	ListCell   *cell;

	if (ActivePortal == NULL || list_length(ActivePortal->stmts) != 1)
		return false;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts);
	if (statement->commandType != CMD_SELECT || statement->subplans != NIL || !IsA(statement->planTree, Result))
		return false;
	plan = (Result *) statement->planTree;
	if (plan->plan.lefttree != NULL || plan->plan.initPlan != NIL || plan->resconstantqual != NULL ||
		list_length(plan->plan.targetlist) != 1)
		return false;
	call = (FuncExpr *) linitial_node(TargetEntry, plan->plan.targetlist)->expr;
	if (!IsA(call, FuncExpr) || call->funcid != fcinfo->flinfo->fn_oid)
		return false;
	/* an argument could be a function that calls us */
	foreach(cell, call->args)
		if (!IsA(lfirst(cell), Const) && !IsA(lfirst(cell), Param))
			return false;
	return true;
}

/* A statement inside of a function that is not VOLATILE shares the snapshot of the statement that called that, which may read on. */
static bool
is_used_once(Snapshot snapshot)
{
	return snapshot->active_count == 1 && snapshot->regd_count <= REGISTERED_BY_STATEMENT;
}

/*
 * The snapshot of the statement that called us keeps all rows that were updated or deleted since, for as long as we wait.  Where rows are updated
 * again and again that slows the very stream that we wait for: each update meets all versions before it.  And
 * CREATE INDEX CONCURRENTLY, which we may be waiting for, waits in turn for every snapshot that is older than the index.  It waits so that nobody uses the index with a snapshot whose rows it may lack: deleted ones.  PROC_IN_SAFE_IC
 * says that this process will not.  We may pretend to have no snapshot only where that is certain: none of the transaction outlives its statements (READ
 * COMMITTED), there is no other than this statement's (a cursor's, say), and this one reads nothing more.
 *
 * Until 14.3 VACUUM, too, passed over the snapshots of such processes, and removed rows that they see.
 */
static bool
may_let_others_pass(FunctionCallInfo fcinfo)
{
	const char *version = GetConfigOption("server_version_num", false, false);

	return !IsolationUsesXactSnapshot() && ThereAreNoPriorRegisteredSnapshots() && is_used_once(GetActiveSnapshot()) &&
		is_whole_statement(fcinfo) && atoi(version) >= 140004;
}

static void
init_waiter(Waiter *waiter, FunctionCallInfo fcinfo, int timeout_argument, const char *function)
{
	memset(waiter, 0, sizeof(Waiter));
	waiter->function = function;
	waiter->pipeline = sqlapi_get_pipeline(sqlapi_text_argument(fcinfo, 0, "pipeline"));
	waiter->deadline = DT_NOEND;
	waiter->passable = may_let_others_pass(fcinfo);
	if (!PG_ARGISNULL(timeout_argument))
	{
		waiter->timeout = PG_GETARG_INTERVAL_P(timeout_argument);
		waiter->deadline = deadline_after(waiter->timeout);
		if (waiter->deadline == DT_NOBEGIN)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("timeout must not be negative"),
					 errhint("Give an interval such as '10 s', or NULL to wait without limit.")));
	}
}

/* How many GTIDs of the goal are not applied. */
static uint64
count_missing(const Waiter *waiter, const PipelineLook *look)
{
	GtidSet    *applied;

	if (look->applied == NULL)
		return capstan_gtidset_count(waiter->goal);
	applied = sqlapi_gtidset_from_text(look->applied, strlen(look->applied));
	return capstan_gtidset_count(capstan_gtidset_subtract(waiter->goal, applied));
}

static bool
is_reached(const Waiter *waiter, const PipelineLook *look)
{
	if (waiter->goal == NULL)
		return look->started && look->tables_pending == 0 && look->tables_unindexed == 0;
	return look->started && count_missing(waiter, look) == 0;
}

/* An ERROR if the pipeline will not get there by itself. */
static void
raise_if_hopeless(const Waiter *waiter, const PipelineLook *look)
{
	const char *name = waiter->pipeline->name;

	if (!look->exists)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("pipeline \"%s\" was dropped meanwhile", name)));
	if (look->halted_by != 0)
	{
		bool		may_see = sqlapi_may_see(look->owner);
		const char *message = may_see && look->halt_message != NULL ? look->halt_message : NULL;

		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 message == NULL ? errmsg("pipeline \"%s\" is halted", name)
				 : errmsg("pipeline \"%s\" is halted: %s", name, message),
				 may_see && look->halt_detail != NULL ? errdetail_internal("%s", look->halt_detail) : 0,
				 may_see && look->halt_hint != NULL ? errhint("%s", look->halt_hint) :
				 may_see ? errhint("capstan.incident_status tells more; capstan.start_pipeline() lets it try again.") :
				 errhint("Its owner finds the reason in capstan.pipeline_status.")));
	}
	if (!look->run)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" is stopped", name),
				 errhint("SELECT capstan.start_pipeline(%s);", quote_literal_cstr(name))));
	if (!look->belongs_here)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" belongs to another cluster or database", name),
				 errhint("If this copy is the one to go on: SELECT capstan.adopt_pipeline(%s);", quote_literal_cstr(name))));
	capstan_shmem_require();
}

static const char *
worker_state(const Waiter *waiter)
{
	PipelineSlot *slot;
	WorkerState state = WORKER_STARTING;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	slot = capstan_shmem_find(MyDatabaseId, waiter->pipeline->id);
	if (slot != NULL)
		state = slot->state;
	LWLockRelease(Capstan->lock);
	return capstan_worker_state_name(state);
}

static void
raise_timeout(const Waiter *waiter, const PipelineLook *look)
{
	char	   *timeout = DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(waiter->timeout)));
	const char *state = worker_state(waiter);

	if (waiter->goal == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_WAIT_TIMEOUT),
				 errmsg("timeout of %s waiting for the snapshot of pipeline \"%s\"", timeout, waiter->pipeline->name),
				 errdetail(INT64_FORMAT " of " INT64_FORMAT " tables are not copied yet, " INT64_FORMAT " wait for indexes; the pipeline is in state \"%s\".",
						   look->tables_pending, look->tables, look->tables_unindexed, state),
				 errhint("capstan.table_status shows how far each table is, capstan.object_status each index.")));
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_WAIT_TIMEOUT),
			 errmsg("timeout of %s waiting for pipeline \"%s\"", timeout, waiter->pipeline->name),
			 errdetail(UINT64_FORMAT " source transactions are not applied yet; the pipeline is in state \"%s\".",
					   count_missing(waiter, look), state),
			 errhint("capstan.pipeline_status shows state and lag.")));
}

/* Caller has found that it may. */
static void
let_indexes_pass(bool pass)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	if (pass)
		MyProc->statusFlags |= PROC_IN_SAFE_IC;
	else
		MyProc->statusFlags &= ~PROC_IN_SAFE_IC;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/* The same.  Rows that nobody else sees need not be kept for us; as SnapshotResetXmin() does it. */
static void
let_rows_go(void)
{
	TransactionId newest;

	/* registered, and perhaps older */
	InvalidateCatalogSnapshot();
	newest = GetLatestSnapshot()->xmin;
	if (TransactionIdPrecedes(MyProc->xmin, newest))
		MyProc->xmin = newest;
}

/* An ERROR where waiting for an index would last for ever: it would wait for us. */
static void
raise_if_in_the_way(const Waiter *waiter, const PipelineLook *look)
{
	if (waiter->goal != NULL || waiter->passable || !look->started || look->tables_pending > 0 || !look->building)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("pipeline \"%s\" builds indexes, which wait for the snapshot of this statement", waiter->pipeline->name),
			 errdetail("All tables are copied; " INT64_FORMAT " wait for indexes.", look->tables_unindexed),
			 errhint("Call capstan.wait_for_snapshot() in a statement of its own, SELECT capstan.wait_for_snapshot(%s), outside of functions and cursors, "
					 "under READ COMMITTED.", quote_literal_cstr(waiter->pipeline->name))));
}

static void
wait_in_turns(Waiter *waiter)
{
	MemoryContext turn = AllocSetContextCreate(CurrentMemoryContext, "capstan wait", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(turn);
	int			nap_ms = FIRST_NAP_MS;

	for (;;)
	{
		PipelineLook look;
		TimestampTz looked_at = GetCurrentTimestamp();
		int			look_ms;
		int			longest;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(turn);
		capstan_meta_look(waiter->pipeline->id, waiter->goal != NULL, &look);
		look_ms = (int) TimestampDifferenceMilliseconds(looked_at, GetCurrentTimestamp());
		if (look.exists && is_reached(waiter, &look))
			break;
		raise_if_hopeless(waiter, &look);
		raise_if_in_the_way(waiter, &look);
		if (waiter->deadline != DT_NOEND && GetCurrentTimestamp() >= waiter->deadline)
			raise_timeout(waiter, &look);
		if (waiter->passable)
			let_rows_go();

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 waiter->deadline == DT_NOEND ? nap_ms :
						 Min(nap_ms, Max(1, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), waiter->deadline))),
						 COMPAT_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		/* where ten thousand tables are to be counted */
		longest = waiter->goal == NULL ? Max(LONGEST_NAP_MS, Min(look_ms, LONGEST_NAP_MS) * NAPS_PER_LOOK) : LONGEST_NAP_MS;
		nap_ms = Min(nap_ms + nap_ms / 4 + 1, longest);
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(turn);
}

static void
wait_until_reached(Waiter *waiter)
{
	if (waiter->passable)
		let_indexes_pass(true);
	PG_TRY();
	{
		wait_in_turns(waiter);
	}
	PG_FINALLY();
	{
		if (waiter->passable)
			let_indexes_pass(false);
	}
	PG_END_TRY();
}

Datum
capstan_wait_for_snapshot(PG_FUNCTION_ARGS)
{
	Waiter		waiter;

	init_waiter(&waiter, fcinfo, 1, "wait_for_snapshot");
	wait_until_reached(&waiter);
	PG_RETURN_VOID();
}

Datum
capstan_wait_for_gtid(PG_FUNCTION_ARGS)
{
	Waiter		waiter;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "gtids")));
	init_waiter(&waiter, fcinfo, 2, "wait_for_gtid");
	waiter.goal = sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1));
	wait_until_reached(&waiter);
	PG_RETURN_VOID();
}

Datum
capstan_wait_for_source(PG_FUNCTION_ARGS)
{
	Waiter		waiter;
	PipelineLook look;
	SourceConn *conn;
	char	   *executed;

	init_waiter(&waiter, fcinfo, 1, "wait_for_source");
	/* the connection is made with the owner's mapping */
	sqlapi_require_owner(waiter.pipeline);
	capstan_meta_look(waiter.pipeline->id, false, &look);
	raise_if_hopeless(&waiter, &look);

	conn = capstan_connections_open(capstan_server_options(waiter.pipeline->server, waiter.pipeline->owner), "wait_for_source");
	/* what it did without a log is in no set */
	capstan_wire_check_logging(conn);
	executed = capstan_wire_query_not_null(conn, "SELECT @@GLOBAL.gtid_executed");
	capstan_connections_close(conn);
	waiter.goal = sqlapi_gtidset_from_text(executed, strlen(executed));
	wait_until_reached(&waiter);
	PG_RETURN_VOID();
}
