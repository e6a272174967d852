/*
 * object_test.c
 *		The functions of objectmap.h, callable from SQL; for tests only.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "compat.h"
#include "map/objectmap.h"
#include "source_spec.h"

#define TEST_FUNCTION(name) \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

static Datum
sql_or_reason(const char *sql, const char *remark)
{
	if (sql == NULL)
		return CStringGetTextDatum(psprintf("not: %s", remark));
	return CStringGetTextDatum(remark == NULL ? sql : psprintf("%s -- %s", sql, remark));
}

TEST_FUNCTION(map_test_check_sql);
Datum
map_test_check_sql(PG_FUNCTION_ARGS)
{
	SourceTable *table = source_spec_table(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	char	   *zero_dates = text_to_cstring(PG_GETARG_TEXT_PP(2));
	char	   *nul_bytes = text_to_cstring(PG_GETARG_TEXT_PP(3));
	MapPolicies policies = {ZERO_DATES_NULL, NUL_BYTES_HALT};
	char	   *reason = NULL;
	char	   *sql;

	if (strcmp(zero_dates, "null") != 0)
		policies.zero_dates = ZERO_DATES_HALT;
	if (strcmp(nul_bytes, "halt") != 0)
		policies.nul_bytes = NUL_BYTES_STRIP;
	sql = capstan_expression_check(table, text_to_cstring(PG_GETARG_TEXT_PP(1)), policies, &reason);
	return sql_or_reason(sql, reason);
}

TEST_FUNCTION(map_test_default_sql);
Datum
map_test_default_sql(PG_FUNCTION_ARGS)
{
	SourceTable *table = source_spec_table(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	char	   *reason = NULL;
	char	   *sql = capstan_map_default(&table->columns[0], text_to_cstring(PG_GETARG_TEXT_PP(1)), PG_GETARG_BOOL(2), &reason);

	return sql_or_reason(sql, reason);
}
