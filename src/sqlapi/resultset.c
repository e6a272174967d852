/*
 * resultset.c
 *		Materialized results of set-returning functions, the same on every version.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "sqlapi/internal.h"

Tuplestorestate *
sqlapi_begin_rows(FunctionCallInfo fcinfo, TupleDesc *tupdesc)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext caller;
	Tuplestorestate *rows;

	if (result == NULL || !IsA(result, ReturnSetInfo) || (result->allowedModes & SFRM_Materialize) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));

	caller = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	if (get_call_result_type(fcinfo, NULL, tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rows = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0, false, work_mem);
	result->returnMode = SFRM_Materialize;
	result->setResult = rows;
	result->setDesc = *tupdesc;
	MemoryContextSwitchTo(caller);
	return rows;
}
