/*
 * control.c
 *		capstan.start_pipeline(), resume_pipeline(), stop_pipeline(), drop_pipeline(), adopt_pipeline().
 *
 * Desired state is a column of capstan.pipeline; the launcher hears of it at COMMIT.  Each
 * function locks the pipeline's row first, so that they take turns.
 */
#include "postgres.h"

#include "catalog/index.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "apply/apply.h"
#include "compat.h"
#include "errcodes.h"
#include "meta/generation.h"
#include "meta/tableobject.h"
#include "sqlapi/internal.h"
#include "worker/lock.h"
#include "worker/serveroptions.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(capstan_start_pipeline);
PG_FUNCTION_INFO_V1(capstan_resume_pipeline);
PG_FUNCTION_INFO_V1(capstan_stop_pipeline);
PG_FUNCTION_INFO_V1(capstan_drop_pipeline);
PG_FUNCTION_INFO_V1(capstan_adopt_pipeline);

Pipeline *
sqlapi_lock_own_pipeline(FunctionCallInfo fcinfo, const char *function)
{
	char	   *name = sqlapi_text_argument(fcinfo, 0, "pipeline");
	Pipeline   *pipeline;

	PreventCommandIfReadOnly(function);
	/* rights first: a stranger must not hold the row's lock */
	sqlapi_require_owner(sqlapi_get_pipeline(name));
	(void) capstan_meta_lock_pipeline(name);
	pipeline = sqlapi_get_pipeline(name);
	sqlapi_require_owner(pipeline);
	return pipeline;
}

/* Is a worker there, or on its way without having to wait for a back-off? */
static bool
is_under_way(int64 pipeline_id)
{
	PipelineSlot *slot;
	bool		under_way;

	LWLockAcquire(Capstan->lock, LW_SHARED);
	slot = capstan_shmem_find(MyDatabaseId, pipeline_id);
	under_way = slot != NULL && slot->wanted && slot->state >= WORKER_STARTING;
	LWLockRelease(Capstan->lock);
	return under_way;
}

static void
require_here(const Pipeline *pipeline)
{
	if (!pipeline->belongs_here)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" belongs to another cluster or database", pipeline->name),
				 errdetail("This database is a copy of the one it was created in; both must not run at once."),
				 errhint("If this copy is the one to go on: SELECT capstan.adopt_pipeline(%s);",
						 quote_literal_cstr(pipeline->name))));
}

/* Can it run here at all? */
static void
require_startable(const Pipeline *pipeline)
{
	capstan_shmem_require();
	require_here(pipeline);
	/* what the worker will need of our own catalogs had better be there now */
	(void) capstan_server_options(pipeline->server, pipeline->owner);
}

/* To run from COMMIT on; what had halted it is resolved by the caller, with these words. */
static void
start(const Pipeline *pipeline, const char *resolution)
{
	if (pipeline->halted_by != 0)
		capstan_meta_clear_halt(pipeline->id, pipeline->name, GetUserId(), resolution);
	if (!pipeline->run)
		capstan_meta_set_desired_state(pipeline->id, true);
	capstan_shmem_request_run(pipeline->id, pipeline->name, pipeline->owner, true);
}

Datum
capstan_start_pipeline(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.start_pipeline()");

	require_startable(pipeline);
	if (pipeline->run && pipeline->halted_by == 0 && is_under_way(pipeline->id))
	{
		ereport(NOTICE,
				(errmsg("pipeline \"%s\" is running already", pipeline->name)));
		PG_RETURN_VOID();
	}
	start(pipeline, "start_pipeline");
	PG_RETURN_VOID();
}

/* Only what is halted, and with a word about why: it stays with the incident. */
Datum
capstan_resume_pipeline(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.resume_pipeline()");
	char	   *note = sqlapi_text_argument(fcinfo, 1, "actor_note");

	if (note[strspn(note, " \t\r\n")] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"%s\" must not be empty", "actor_note"),
				 errhint("Say what was done about the incident; capstan.start_pipeline() asks for no note.")));
	if (pipeline->halted_by == 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" is not halted", pipeline->name),
				 pipeline->run ? 0 :
				 errhint("It was stopped: SELECT capstan.start_pipeline(%s);", quote_literal_cstr(pipeline->name))));
	require_startable(pipeline);
	start(pipeline, note);
	PG_RETURN_VOID();
}

Datum
capstan_stop_pipeline(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.stop_pipeline()");

	if (!pipeline->run)
		ereport(NOTICE,
				(errmsg("pipeline \"%s\" is stopped already", pipeline->name)));
	else
		capstan_meta_set_desired_state(pipeline->id, false);
	if (Capstan != NULL)
		capstan_shmem_request_run(pipeline->id, pipeline->name, pipeline->owner, false);
	PG_RETURN_VOID();
}

/* CREATE INDEX CONCURRENTLY that was ended leaves an index which is written to, unique ones refuse rows, and is of no use; nobody will come back to it. */
static void
warn_of_half_indexes(const Pipeline *pipeline)
{
	List	   *indexes = capstan_meta_begun_indexes(pipeline->id);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		MetaObject *index = lfirst(cell);
		Oid			namespace = get_rel_namespace(index->target);
		Oid			relid = get_relname_relid(index->target_object, namespace);
		char	   *name;

		if (!OidIsValid(relid) || IndexGetRelation(relid, true) != index->target || get_index_isvalid(relid))
			continue;
		name = quote_qualified_identifier(get_namespace_name(namespace), index->target_object);
		ereport(WARNING,
				(errmsg("index %s of %s was not completed", name, index->source_table),
				 errhint("DROP INDEX CONCURRENTLY %s;", name)));
	}
}

Datum
capstan_drop_pipeline(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.drop_pipeline()");
	List	   *shadows;
	ListCell   *cell;

	if (pipeline->run)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("pipeline \"%s\" is running", pipeline->name),
				 errhint("Stop it first, in a transaction of its own: SELECT capstan.stop_pipeline(%s);",
						 quote_literal_cstr(pipeline->name))));
	capstan_lock_pipeline_for_drop(pipeline->id);
	shadows = capstan_meta_tables_with_shadow(pipeline->id, false);
	foreach(cell, shadows)
		capstan_apply_drop_shadow(*(int64 *) lfirst(cell), true);
	warn_of_half_indexes(pipeline);
	capstan_meta_drop_pipeline(pipeline->id, pipeline->name, GetUserId());
	if (Capstan != NULL)
		capstan_shmem_request_run(pipeline->id, pipeline->name, pipeline->owner, false);
	PG_RETURN_VOID();
}

Datum
capstan_adopt_pipeline(PG_FUNCTION_ARGS)
{
	Pipeline   *pipeline = sqlapi_lock_own_pipeline(fcinfo, "capstan.adopt_pipeline()");

	if (pipeline->belongs_here)
	{
		ereport(NOTICE,
				(errmsg("pipeline \"%s\" belongs to this database already", pipeline->name)));
		PG_RETURN_VOID();
	}
	capstan_meta_adopt_pipeline(pipeline->id);
	if (pipeline->run && pipeline->halted_by == 0)
	{
		capstan_shmem_require();
		capstan_shmem_request_run(pipeline->id, pipeline->name, pipeline->owner, true);
	}
	PG_RETURN_VOID();
}
