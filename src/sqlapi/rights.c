/*
 * rights.c
 *		Who may see and who may change a pipeline.
 *
 * Called by the other files of sqlapi/.  EXECUTE on the functions comes first (it is revoked
 * from PUBLIC); these are the checks that depend on the pipeline.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "sqlapi/internal.h"

/* Members of the owner and of pg_monitor. */
bool
sqlapi_may_see(Oid owner)
{
	return has_privs_of_role(GetUserId(), owner) || has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

void
sqlapi_require_owner(const Pipeline *pipeline)
{
	if (!has_privs_of_role(GetUserId(), pipeline->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of pipeline \"%s\"", pipeline->name)));
}

Pipeline *
sqlapi_get_pipeline(const char *name)
{
	Pipeline   *pipeline = capstan_meta_pipeline_by_name(name);

	if (pipeline == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("pipeline \"%s\" does not exist", name),
				 errhint("SELECT pipeline FROM capstan.pipeline_status lists the pipelines of this database.")));
	return pipeline;
}

char *
sqlapi_text_argument(FunctionCallInfo fcinfo, int n, const char *argument)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", argument)));
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}
