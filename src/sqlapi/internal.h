/*
 * internal.h
 *		What the files of sqlapi/ share.
 *
 * Everything here runs in a backend, called by SQL, as the calling user.
 */
#ifndef CAPSTAN_SQLAPI_INTERNAL_H
#define CAPSTAN_SQLAPI_INTERNAL_H

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/tuplestore.h"

#include "base/gtidset.h"
#include "meta/meta.h"
#include "wire/wire.h"

/* gtidtype.c: the set behind a gtid_set Datum, in the current context. */
extern GtidSet *sqlapi_gtidset_from_text(const char *text, size_t length);
extern GtidSet *sqlapi_gtidset_from_datum(Datum value);

/* resultset.c: a materialized result of a set-returning function. */
extern Tuplestorestate *sqlapi_begin_rows(FunctionCallInfo fcinfo, TupleDesc *tupdesc);

/* rights.c */
extern bool sqlapi_may_see(Oid owner);
extern void sqlapi_require_owner(const Pipeline *pipeline);
/* control.c: the pipeline named by the first argument, its row locked, owned by the caller. */
extern Pipeline *sqlapi_lock_own_pipeline(FunctionCallInfo fcinfo, const char *function);
/* The pipeline of that name, or ERROR 42704. */
extern Pipeline *sqlapi_get_pipeline(const char *name);
/* A text argument that must not be NULL. */
extern char *sqlapi_text_argument(FunctionCallInfo fcinfo, int n, const char *argument);

/*
 * What create_pipeline and preflight were asked for, and what they found out: the one
 * code path of both (plan.c, targetchecks.c).
 */
typedef struct PipelineRequest
{
	char	   *name;			/* NULL for preflight */
	char	   *server;
	List	   *patterns;		/* char * */
	char	   *snapshot;
	bool		truncate_target;
	bool		shared_target;
	char	   *zero_dates;
	char	   *nul_bytes;
	MapPolicies policies;

	/* Of single tables of a pipeline that is there (tablecontrol.c): either of them, instead of patterns. */
	char	   *add;			/* "schema.table" */
	List	   *resync;			/* PipelineTable * */
	const char *purpose;		/* "add table shop.orders to pipeline "shop"", for messages */
} PipelineRequest;

typedef struct PlannedTable
{
	SourceTableInfo *info;
	char	   *source_name;	/* "schema.table" */
	char	   *target_schema;	/* cut to NAMEDATALEN - 1 */
	char	   *target_table;
	char	   *target_name;	/* quoted and qualified */
	Oid			target;			/* InvalidOid: to be made */
	Oid			target_owner;
	bool		schema_exists;
	bool		made;			/* by us */
	bool		usable;			/* no error so far: the map can be asked */
	const PipelineTable *captured;	/* what is resynced */
	bytea	   *defaults;		/* of single tables: capstan_map_encode_row; NULL: not noted */
} PlannedTable;

typedef struct PipelinePlan
{
	const PipelineRequest *request;
	List	   *checks;			/* PreflightCheck * */
	List	   *tables;			/* PlannedTable * */
	char	   *since;			/* what the source had executed before it was asked for the tables */
} PipelinePlan;

/* Reads and validates the arguments from `first` on: server, tables, snapshot, truncate_target, zero_dates, nul_bytes, shared_target. */
extern void sqlapi_read_request(FunctionCallInfo fcinfo, int first, PipelineRequest *request);
/*
 * Connects to the source and runs every check; changes nothing.  With lock_targets existing targets
 * are locked against writers until the transaction's end, so that what was found stays true.
 */
extern PipelinePlan *sqlapi_plan_pipeline(const PipelineRequest *request, bool lock_targets);

/*
 * What the caller's settings must not change in statements of ours, in a new level of settings, until AtEOXact_GUC(false, level): where names are
 * looked up, and what literals and comparisons mean.
 */
extern int	sqlapi_pin_settings(void);

/* plan.c: a captured table's target is not there. */
extern void sqlapi_raise_target_gone(const char *source_table) __attribute__((noreturn));
extern PreflightCheck *sqlapi_add_check(PipelinePlan *plan, CheckStatus status, const char *name);

/* create.c: what create_pipeline does with a plan, for whoever else has one.  shared: with other pipelines. */

/* "schema.table" of the source, where the dot is known to it; schema and table are set even if there is none. */
extern SourceTableInfo *sqlapi_find_source_table(SourceConn *conn, char *name, char **schema, char **table);
extern void sqlapi_raise_failed_check(const PipelinePlan *plan);
extern void sqlapi_prepare_targets(PipelinePlan *plan);
/* List of TargetObject *; a notice if not all is translated. */
extern List *sqlapi_map_objects(const PipelinePlan *plan);
struct PipelineTableDefinition;
extern struct PipelineTableDefinition *sqlapi_define_table(const PlannedTable *planned, const char *state, bool shared);

/* targetchecks.c: called by sqlapi_plan_pipeline */
extern void sqlapi_check_instance(PipelinePlan *plan);
extern void sqlapi_check_targets(PipelinePlan *plan, bool lock_targets);
/* A check of one target; an error makes the table unusable. */
extern PreflightCheck *sqlapi_target_check(PipelinePlan *plan, PlannedTable *table, CheckStatus status, const char *what, int sqlerrcode);
/* foreigntarget.c: has the remote table of a foreign table a unique constraint on the source's key?  search_path is pinned. */
extern void sqlapi_check_remote_key(PipelinePlan *plan, PlannedTable *table);

#endif
