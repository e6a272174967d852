/*
 * constraints.c
 *		capstan.create_constraints(), capstan.set_sequences().
 *
 * What was noted when the pipeline was created and is not built by its worker: defaults, identity columns,
 * comments, CHECK constraints and foreign keys, at a moment that the operator chooses.  Each statement runs in a subtransaction of its
 * own, as the owner of the table, so that one that fails stops no other.
 *
 * The stream may go on meanwhile.  It enforces CHECK constraints and no foreign keys (session_replication_role), gives a value to
 * every column, and needs no defaults.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "compat.h"
#include "errcodes.h"
#include "meta/pipelinedef.h"
#include "meta/tableobject.h"
#include "sqlapi/internal.h"

PG_FUNCTION_INFO_V1(capstan_create_constraints);
PG_FUNCTION_INFO_V1(capstan_set_sequences);

/* The worker and we may lock two tables in opposite order; who loses tries again. */
#define DEADLOCK_TRIES 5

/* The pipeline, if its tables are copied and indexed. */
static Pipeline *
ready_pipeline(FunctionCallInfo fcinfo, const char *function)
{
	Pipeline   *pipeline = sqlapi_get_pipeline(sqlapi_text_argument(fcinfo, 0, "pipeline"));
	PipelineLook look;

	PreventCommandIfReadOnly(function);
	sqlapi_require_owner(pipeline);
	(void) capstan_meta_lock_pipeline(pipeline->name);
	capstan_meta_look(pipeline->id, false, &look);
	if (!look.exists || !look.started || look.tables_pending + look.tables_unindexed > 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("the tables of pipeline \"%s\" are not all copied and indexed yet", pipeline->name),
				 errhint("SELECT capstan.wait_for_snapshot(%s);", quote_literal_cstr(pipeline->name))));
	return pipeline;
}

static char gone[] = "the target table is gone";

/* InvalidOid if the table is gone.  The pipeline's owner must be able to act for it. */
static Oid
table_owner(const Pipeline *pipeline, const MetaObject *object)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(object->target));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	if (!has_privs_of_role(pipeline->owner, owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the pipeline's owner \"%s\" may not act for the owner of the target of %s",
						GetUserNameFromId(pipeline->owner, true), object->source_table)));
	return owner;
}

/* The message for the result, without values of rows. */
static char *
safe_message(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	if (category == ERRCODE_DATA_EXCEPTION || error->message == NULL)
		return psprintf("SQLSTATE %s", unpack_sql_state(error->sqlerrcode));
	return pstrdup(error->message);
}

/* In a subtransaction.  NULL, or the error; *deadlock tells that another try may help. */
static char *
try_statement(const char *sql, char **value, bool *deadlock)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner resources = CurrentResourceOwner;
	char	   *volatile failure = NULL;

	*deadlock = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		int			rc;

		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "SPI_connect failed");
		rc = SPI_execute(sql, false, 0);
		if (rc < 0)
			elog(ERROR, "a statement returned %s", SPI_result_code_string(rc));
		if (value != NULL && rc == SPI_OK_SELECT && SPI_processed == 1)
		{
			char	   *text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

			*value = text == NULL ? NULL : MemoryContextStrdup(caller, text);
		}
		SPI_finish();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_OUT_OF_MEMORY)
			ReThrowError(error);
		*deadlock = error->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED;
		failure = safe_message(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = resources;
	return failure;
}

/* As the table's owner, whose code (functions in constraints and indexes) may run. */
static char *
run_as(Oid owner, const char *sql, char **value)
{
	int			guc_level = sqlapi_pin_settings();
	Oid			caller;
	int			sec_context;
	char	   *failure;
	bool		deadlock;
	int			tries = 0;

	GetUserIdAndSecContext(&caller, &sec_context);
	SetUserIdAndSecContext(owner, sec_context | SECURITY_RESTRICTED_OPERATION);
	do
		failure = try_statement(sql, value, &deadlock);
	while (deadlock && ++tries < DEADLOCK_TRIES);
	SetUserIdAndSecContext(caller, sec_context);
	AtEOXact_GUC(false, guc_level);
	return failure;
}

/* Behind the greatest value that is there; never back. */
static char *
set_sequence(Oid owner, const MetaObject *object, char **last_value)
{
	char	   *table = capstan_map_relation_name(object->target);
	char	   *sequence = NULL;
	char	   *failure;

	if (table == NULL)
		return gone;
	failure = run_as(owner, psprintf("SELECT pg_get_serial_sequence(%s, %s)", quote_literal_cstr(table),
									 quote_literal_cstr(object->target_object)), &sequence);
	if (failure != NULL)
		return failure;
	if (sequence == NULL)
		return pstrdup("the column has no sequence");
	return run_as(owner, psprintf("SELECT setval(%s, GREATEST(m, 1), m >= 1) - (m < 1)::int FROM (SELECT COALESCE(GREATEST("
								  "(SELECT max(%s) FROM ONLY %s)::bigint, (SELECT last_value FROM %s WHERE is_called)), 0) AS m) AS m",
								  quote_literal_cstr(sequence), quote_identifier(object->target_object), table, sequence), last_value);
}

/* A CHECK that the rows do not fulfil must not stay: it would refuse what the stream brings.  A foreign key may, the stream does not ask it. */
static char *
validate_constraint(Oid owner, const MetaObject *object)
{
	const char *constraint = quote_identifier(object->target_object);
	char	   *table = capstan_map_relation_name(object->target);
	char	   *failure = gone;
	const char *state = "done";

	if (table != NULL && OidIsValid(owner))
		failure = run_as(owner, psprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", table, constraint), NULL);
	if (failure == gone)
		state = "failed";
	else if (failure != NULL)
	{
		state = "not_valid";
		if (strcmp(object->kind, "check") == 0 &&
			run_as(owner, psprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", table, constraint), NULL) == NULL)
			state = "failed";
	}
	capstan_meta_set_object_state(object->id, state, failure != NULL ? failure : "");
	return failure != NULL ? psprintf("%s: %s", state, failure) : pstrdup("done");
}

/* Returns the result's text. */
static char *
make_object(const Pipeline *pipeline, MetaObject *object, bool validate)
{
	Oid			owner = table_owner(pipeline, object);
	bool		constraint = strcmp(object->kind, "check") == 0 || strcmp(object->kind, "foreign_key") == 0;
	char	   *failure;

	if (!OidIsValid(owner) || object->statement == NULL)
		failure = gone;
	else if (strcmp(object->state, "not_valid") != 0)
		failure = run_as(owner, object->statement, NULL);
	else
		failure = NULL;
	if (failure == NULL && strcmp(object->kind, "auto_increment") == 0)
	{
		char	   *not_set = set_sequence(owner, object, NULL);

		capstan_meta_set_object_state(object->id, "done", not_set);
		return not_set != NULL ? psprintf("done, but the sequence could not be set: %s", not_set) : "done";
	}
	if (failure != NULL)
	{
		capstan_meta_set_object_state(object->id, "failed", failure);
		return psprintf("failed: %s", failure);
	}
	if (!constraint || !validate)
	{
		capstan_meta_set_object_state(object->id, constraint ? "not_valid" : "done", NULL);
		return constraint ? "not_valid" : "done";
	}
	return NULL;				/* to be validated */
}

static void
put_row(Tuplestorestate *rows, TupleDesc desc, const MetaObject *object, const char *result)
{
	const char *texts[5] = {object->source_table, object->kind, object->name, object->statement, result};
	Datum		values[5];
	bool		nulls[5];

	for (int i = 0; i < 5; i++)
	{
		nulls[i] = texts[i] == NULL;
		values[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}
	tuplestore_putvalues(rows, desc, values, nulls);
}

/*
 * All are made before the first is validated: to make one takes a lock that keeps the stream away for the rest of
 * the transaction, but not long; to validate one reads the whole table.
 */
Datum
capstan_create_constraints(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows = sqlapi_begin_rows(fcinfo, &desc);
	Pipeline   *pipeline = ready_pipeline(fcinfo, "capstan.create_constraints()");
	bool		validate = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	List	   *objects = capstan_meta_constraints_to_make(pipeline->id);
	List	   *to_validate = NIL;
	ListCell   *lc;

	foreach(lc, objects)
	{
		char	   *result = make_object(pipeline, lfirst(lc), validate);

		if (result == NULL)
			to_validate = lappend(to_validate, lfirst(lc));
		else
			put_row(rows, desc, lfirst(lc), result);
	}
	foreach(lc, to_validate)
		put_row(rows, desc, lfirst(lc), validate_constraint(table_owner(pipeline, lfirst(lc)), lfirst(lc)));
	return (Datum) 0;
}

Datum
capstan_set_sequences(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Tuplestorestate *rows = sqlapi_begin_rows(fcinfo, &desc);
	Pipeline   *pipeline = ready_pipeline(fcinfo, "capstan.set_sequences()");
	List	   *objects = capstan_meta_sequences(pipeline->id);
	ListCell   *lc;

	foreach(lc, objects)
	{
		MetaObject *object = lfirst(lc);
		Oid			owner = table_owner(pipeline, object);
		char	   *last_value = NULL;
		char	   *failure = OidIsValid(owner) ? set_sequence(owner, object, &last_value) : gone;
		Datum		values[4];
		bool		nulls[4] = {false, false, last_value == NULL, false};

		values[0] = CStringGetTextDatum(object->source_table);
		values[1] = CStringGetTextDatum(object->name);
		values[2] = last_value == NULL ? (Datum) 0 : Int64GetDatum(strtoll(last_value, NULL, 10));
		values[3] = CStringGetTextDatum(failure == NULL ? "done" : psprintf("failed: %s", failure));
		tuplestore_putvalues(rows, desc, values, nulls);
	}
	return (Datum) 0;
}
