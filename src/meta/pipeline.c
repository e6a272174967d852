/*
 * pipeline.c
 *		Reading pipelines and their tables, and counting what happened to them.
 *
 * Called by the workers and by the SQL functions, inside a transaction of theirs.
 * Definitions are written in pipelinedef.c.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "meta/internal.h"
#include "meta/meta.h"

#define PIPELINE_COLUMNS \
	"id, name, server, owner, snapshot, zero_dates, nul_bytes, desired_state, halted_by, replica_uuid, " \
	"system_identifier, database_oid, tables, shared_target"

static MapPolicies
policies_from_text(const char *zero_dates, const char *nul_bytes)
{
	MapPolicies policies;

	policies.zero_dates = strcmp(zero_dates, "halt") == 0 ? ZERO_DATES_HALT :
		strcmp(zero_dates, "infinity") == 0 ? ZERO_DATES_INFINITY : ZERO_DATES_NULL;
	policies.nul_bytes = strcmp(nul_bytes, "strip") == 0 ? NUL_BYTES_STRIP :
		strcmp(nul_bytes, "replace") == 0 ? NUL_BYTES_REPLACE : NUL_BYTES_HALT;
	return policies;
}

/* A text[] without NULLs, copied into `context`. */
static List *
texts_from_array(Datum array, MemoryContext context)
{
	MemoryContext caller = MemoryContextSwitchTo(context);
	List	   *texts = NIL;
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		texts = lappend(texts, TextDatumGetCString(elements[i]));
	MemoryContextSwitchTo(caller);
	return texts;
}

/* The pipeline of one result row of PIPELINE_COLUMNS, in `context`. */
static Pipeline *
pipeline_from_tuple(HeapTuple tuple, TupleDesc desc, MemoryContext context)
{
	Pipeline   *pipeline = MemoryContextAllocZero(context, sizeof(Pipeline));
	bool		isnull;

	pipeline->id = meta_get_int64(tuple, desc, 1, 0);
	pipeline->name = meta_get_text(tuple, desc, 2, context);
	pipeline->server = meta_get_text(tuple, desc, 3, context);
	pipeline->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
	pipeline->snapshot = meta_get_text(tuple, desc, 5, context);
	pipeline->policies = policies_from_text(SPI_getvalue(tuple, desc, 6), SPI_getvalue(tuple, desc, 7));
	pipeline->run = strcmp(SPI_getvalue(tuple, desc, 8), "running") == 0;
	pipeline->halted_by = meta_get_int64(tuple, desc, 9, 0);
	strlcpy(pipeline->replica_uuid, SPI_getvalue(tuple, desc, 10), sizeof(pipeline->replica_uuid));
	pipeline->belongs_here =
		meta_get_int64(tuple, desc, 11, 0) == (int64) GetSystemIdentifier() &&
		DatumGetObjectId(SPI_getbinval(tuple, desc, 12, &isnull)) == MyDatabaseId;
	pipeline->shared_target = DatumGetBool(SPI_getbinval(tuple, desc, 14, &isnull));
	pipeline->patterns = texts_from_array(SPI_getbinval(tuple, desc, 13, &isnull), context);
	return pipeline;
}

/* All pipelines of a query over PIPELINE_COLUMNS with at most one argument. */
static List *
load_pipelines(const char *sql, int nargs, Oid type, Datum value)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	List	   *pipelines = NIL;

	capstan_meta_enter(&identity);
	meta_execute(sql, nargs, &type, &value, NULL, SPI_OK_SELECT);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Pipeline   *pipeline = pipeline_from_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, caller);
		MemoryContext spi = MemoryContextSwitchTo(caller);

		pipelines = lappend(pipelines, pipeline);
		MemoryContextSwitchTo(spi);
	}
	capstan_meta_leave(&identity);
	return pipelines;
}

Pipeline *
capstan_meta_pipeline_by_id(int64 id)
{
	List	   *found = load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline WHERE id = $1",
									   1, INT8OID, Int64GetDatum(id));

	return found == NIL ? NULL : linitial(found);
}

Pipeline *
capstan_meta_pipeline_by_name(const char *name)
{
	List	   *found = load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline WHERE name = $1",
									   1, TEXTOID, CStringGetTextDatum(name));

	return found == NIL ? NULL : linitial(found);
}

List *
capstan_meta_runnable_pipelines(void)
{
	return load_pipelines("SELECT " PIPELINE_COLUMNS " FROM capstan.pipeline "
						  "WHERE desired_state = 'running' AND halted_by IS NULL ORDER BY id",
						  0, InvalidOid, (Datum) 0);
}
