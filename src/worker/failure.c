/*
 * failure.c
 *		What becomes of an ERROR in a worker: an incident, and the decision to retry or
 *		to halt.
 *
 * Called once, in the PG_CATCH of a worker's main function; the process ends afterwards.  The
 * only place where a running pipeline becomes `retrying` or `halted`.
 *
 * Postgres' own messages can hold row values ("Key (email)=(...) already exists"): what
 * is logged and stored of them is SQLSTATE and names, unless capstan.log_row_values
 * is on.  Our own messages never hold values.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "meta/meta.h"
#include "meta/pipelinedef.h"
#include "wire/wire.h"
#include "worker/internal.h"

/* Back-off after the n-th transient failure in a row: doubles up to the longest. */
#define BACKOFF_FIRST_MS 250
#define BACKOFF_LONGEST_MS 30000
/* How often a failure that may be over by the next try is tried again: some 16 s */
#define UNDER_WAY_TRIES 6

FailurePlace MyPlace;

/* Can its message hold values of rows?  By SQLSTATE; and what a trigger of the target raises, whatever SQLSTATE it gives it. */
static bool
may_hold_values(const ErrorData *error)
{
	if (error->funcname != NULL && strcmp(error->funcname, "exec_stmt_raise") == 0)
		return true;
	/* of another server, where it may have been raised with any SQLSTATE */
	if (error->funcname != NULL && strcmp(error->funcname, "pgfdw_report_error") == 0 &&
		ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION)
		return !capstan_errcode_is_transient(error->sqlerrcode);
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION:
		case ERRCODE_WITH_CHECK_OPTION_VIOLATION:
		case ERRCODE_PLPGSQL_ERROR:
		case ERRCODE_EXTERNAL_ROUTINE_EXCEPTION:
		case ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION:
			return true;
	}
	return error->sqlerrcode == ERRCODE_PROGRAM_LIMIT_EXCEEDED;
}

static void
append_name(StringInfo text, const char *what, const char *name)
{
	if (name != NULL && name[0] != '\0')
		appendStringInfo(text, "%s%s %s", text->len > 0 ? ", " : "", what, name);
}

/*
 * A row of a foreign table that cannot be seen there and is there: what a worker that was killed had sent to be committed may be on its
 * way yet.  The next try sees it.  If it does not go away, it is another row.
 */
static bool
may_be_under_way(const ErrorData *error, const PipelineSlot *slot)
{
	return error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION && error->funcname != NULL && strcmp(error->funcname, "pgfdw_report_error") == 0 &&
		slot->failures < UNDER_WAY_TRIES;
}

/*
 * The password was right when this process began.  It may have been changed since, there and in the user mapping, which the next process reads; should
 * that be refused too, it is wrong.
 */
static bool
may_be_rotated(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_INVALID_PASSWORD && capstan_wire_was_let_in();
}

/* The one refusal of this kind that names a table and no constraint. */
static bool
lacks_partition(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_CHECK_VIOLATION && error->constraint_name == NULL && error->table_name != NULL;
}

/* The message without values. */
static char *
safe_message(const ErrorData *error)
{
	if (capstan_log_row_values || !may_hold_values(error))
		return pstrdup(error->message == NULL ? "missing error text" : error->message);

	switch (error->sqlerrcode)
	{
		case ERRCODE_UNIQUE_VIOLATION:
			if (error->constraint_name == NULL)
				return pstrdup("duplicate key value violates a unique constraint of the target");
			return psprintf("duplicate key value violates unique constraint \"%s\" of the target", error->constraint_name);
		case ERRCODE_NOT_NULL_VIOLATION:
			return psprintf("null value in column \"%s\" of target table \"%s\"",
							error->column_name == NULL ? "?" : error->column_name,
							error->table_name == NULL ? "?" : error->table_name);
		case ERRCODE_CHECK_VIOLATION:
			if (lacks_partition(error))
				return psprintf("target table \"%s\" has no partition for a row", error->table_name);
			return psprintf("a row violates constraint \"%s\" of the target",
							error->constraint_name == NULL ? "?" : error->constraint_name);
		default:
			return psprintf("the target refused a row with SQLSTATE %s", unpack_sql_state(error->sqlerrcode));
	}
}

/* Names that Postgres or we know of, and the place in the stream. */
static char *
safe_detail(const ErrorData *error)
{
	StringInfoData text;
	bool		scrubbed = !capstan_log_row_values && may_hold_values(error);

	initStringInfo(&text);
	if (error->detail != NULL && !scrubbed)
		appendStringInfoString(&text, error->detail);
	else
	{
		append_name(&text, "schema", error->schema_name);
		append_name(&text, "table", error->table_name);
		append_name(&text, "column", error->column_name);
		append_name(&text, "constraint", error->constraint_name);
	}
	if (MyPlace.table[0] != '\0' && strstr(text.data, MyPlace.table) == NULL)
		appendStringInfo(&text, "%sSource table %s.", text.len > 0 ? " " : "", MyPlace.table);
	if (MyPlace.gtid[0] != '\0' && strstr(text.data, MyPlace.gtid) == NULL)
		appendStringInfo(&text, "%sSource transaction %s.", text.len > 0 ? " " : "", MyPlace.gtid);
	return text.len > 0 ? text.data : NULL;
}

static const char *
safe_hint(const ErrorData *error)
{
	bool		scrubbed = !capstan_log_row_values && may_hold_values(error);

	if (error->hint != NULL && !scrubbed)
		return error->hint;
	if (scrubbed && lacks_partition(error))
		return "Create the partition (CREATE TABLE ... PARTITION OF ...), or a default one, and call capstan.resume_pipeline(). With "
			"capstan.log_row_values = on the message shows the partition key.";
	if (scrubbed)
		return "Set capstan.log_row_values = on and start the pipeline again to see the full message with its values.";
	return NULL;
}

/*
 * Was the world changed while this worker ran?  Somebody has added, removed or resynced tables: the worker will be replaced, and may have
 * failed over just that.  If it is a failure of its own, the next one meets it again.
 */
static bool
is_superseded(PipelineSlot *slot, bool is_pipeline_worker)
{
	bool		superseded;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	superseded = slot->generation != slot->running_generation || (!is_pipeline_worker && slot->run_id != MyArgs.generation);
	LWLockRelease(Capstan->lock);
	return superseded;
}

/*
 * In a transaction of its own; says whether the pipeline is halted now (or was before).
 *
 * Who stops, starts, or resyncs holds the row of the pipeline until he commits.  What he was about to put right must not halt it behind his
 * back: so before a halt he is waited for, and it is asked once more whether he has.
 */
static bool
store(Incident *incident, PipelineSlot *slot, int64 pipeline_id, bool is_pipeline_worker, bool transient)
{
	Pipeline   *pipeline;
	bool		halted;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!transient)
	{
		(void) capstan_meta_lock_pipeline(incident->pipeline);
		transient = is_superseded(slot, is_pipeline_worker);
		if (transient)
			incident->severity = "retry";
	}
	pipeline = capstan_meta_pipeline_by_id(pipeline_id);
	halted = pipeline != NULL && pipeline->halted_by != 0;
	if (pipeline != NULL && !(halted && transient))
	{
		int64		id = capstan_meta_record_incident(incident);

		if (!transient && !halted)
			capstan_meta_halt(pipeline_id, id);
		halted = halted || !transient;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return halted || pipeline == NULL;
}

/*
 * A definite failure (and want of memory) takes the whole transactions of its group back with it, and at the group's commit it is not even known
 * which one it is.  Then nothing is halted yet: the next worker commits them one by one, so that all that comes before the
 * failure is applied and the incident names its transaction.
 */
static bool
set_apart(PipelineSlot *slot)
{
	if (MyPlace.last_gtid[0] == '\0' || MyPlace.alone)
		return false;
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	strlcpy(slot->alone_until, MyPlace.gtid[0] != '\0' ? MyPlace.gtid : MyPlace.last_gtid, sizeof(slot->alone_until));
	slot->state = WORKER_STARTING;
	slot->state_since = GetCurrentTimestamp();
	slot->restart_at = 0;
	LWLockRelease(Capstan->lock);
	return true;
}

long
capstan_failure_backoff_ms(int failures)
{
	return Min(BACKOFF_FIRST_MS << Min(failures, 10), BACKOFF_LONGEST_MS);
}

/* What the launcher should do now. */
static void
tell_launcher(PipelineSlot *slot, int sqlerrcode, bool halted)
{
	LWLockAcquire(Capstan->lock, LW_EXCLUSIVE);
	slot->last_sqlerrcode = sqlerrcode;
	slot->state_since = GetCurrentTimestamp();
	if (slot->generation != slot->running_generation)
	{
		/* somebody acted after we had failed: the next worker finds out what that was */
		slot->state = WORKER_STARTING;
		slot->restart_at = 0;
	}
	else if (halted)
		slot->state = WORKER_HALTED;
	else
	{
		slot->state = WORKER_RETRYING;
		slot->restart_at = TimestampTzPlusMilliseconds(slot->state_since, capstan_failure_backoff_ms(slot->failures++));
	}
	LWLockRelease(Capstan->lock);
}

void
capstan_failure_record(PipelineSlot *slot, int64 pipeline_id, bool is_pipeline_worker)
{
	const char *pipeline = NameStr(slot->name);
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "capstan failure", ALLOCSET_DEFAULT_SIZES);
	ErrorData  *error;
	Incident	incident;
	bool		transient;
	bool		halted = false;
	char	   *not_stored = NULL; /* why the incident could not be stored */

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	/* storing it may have to wait for a lock, and must not be the one wait that nothing ends */
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(context);

	transient = capstan_errcode_is_transient(error->sqlerrcode) || may_be_under_way(error, slot) || may_be_rotated(error) ||
		is_superseded(slot, is_pipeline_worker);
	/* the next try takes as much memory and as many locks, each transaction by itself far less */
	if (is_pipeline_worker && (!transient || error->sqlerrcode == ERRCODE_OUT_OF_MEMORY) && set_apart(slot))
	{
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("capstan pipeline \"%s\": a group of transactions failed, they are tried one by one: %s", pipeline,
						safe_message(error))));
		return;
	}
	memset(&incident, 0, sizeof(incident));
	incident.pipeline = pipeline;
	incident.severity = transient ? "retry" : "halt";
	incident.class = capstan_errcode_class(error->sqlerrcode);
	incident.sqlerrcode = error->sqlerrcode;
	incident.message = safe_message(error);
	incident.detail = safe_detail(error);
	incident.hint = safe_hint(error);
	incident.gtid = MyPlace.gtid[0] == '\0' ? NULL : MyPlace.gtid;
	incident.source_table = MyPlace.table[0] == '\0' ? NULL : MyPlace.table;
	incident.source_statement = MyPlace.statement;

	PG_TRY();
	{
		halted = store(&incident, slot, pipeline_id, is_pipeline_worker, transient);
	}
	PG_CATCH();
	{
		/* the catalog cannot be written now: it is tried again, for a halt that the catalog does not have would be told to nobody */
		MemoryContextSwitchTo(context);
		not_stored = safe_message(CopyErrorData());
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	if (is_pipeline_worker)
		tell_launcher(slot, error->sqlerrcode, halted);

	ereport(LOG,
			(errcode(error->sqlerrcode),
			 errmsg("capstan pipeline \"%s\": %s: %s", pipeline, halted ? "halted" : "retrying", incident.message),
			 incident.detail != NULL ? errdetail_internal("%s", incident.detail) : 0,
			 incident.hint != NULL ? errhint("%s", incident.hint) : 0,
			 not_stored == NULL ? 0 : (errcontext("the incident could not be stored: %s", not_stored))));
}
