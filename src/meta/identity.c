/*
 * identity.c
 *		Acting as the extension's owner while our own catalog tables are touched.
 *
 * Called by every function of this folder.  The pipeline's owner has no rights on the
 * tables of schema capstan; the bootstrap superuser always has.  Statements name
 * everything with its schema, and search_path is pinned besides, so that no
 * object of a user can be met here.  Sequential scans are out: plans are kept from when a table was empty.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "meta/internal.h"
#include "meta/meta.h"

/* More than there are statements in this folder. */
#define MOST_PLANS 80

void
capstan_meta_enter(MetaIdentity *identity)
{
	GetUserIdAndSecContext(&identity->userid, &identity->sec_context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
						   identity->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	identity->guc_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_seqscan", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
capstan_meta_leave(MetaIdentity *identity)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	AtEOXact_GUC(false, identity->guc_level);
	SetUserIdAndSecContext(identity->userid, identity->sec_context);
}

void
meta_enforce_references(void)
{
	(void) set_config_option("session_replication_role", "origin", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* The kept plan of a statement.  All of them are texts in this folder, so there are only so many. */
static SPIPlanPtr
find_plan(const char *sql, int nargs, Oid *types)
{
	static int	nplans = 0;
	static const char *texts[MOST_PLANS];
	static SPIPlanPtr plans[MOST_PLANS];
	SPIPlanPtr	plan;

	for (int i = 0; i < nplans; i++)
		if (strcmp(texts[i], sql) == 0)
			return plans[i];
	plan = SPI_prepare(sql, nargs, types);
	if (plan == NULL)
		elog(ERROR, "could not prepare a statement on the capstan catalog: %s", SPI_result_code_string(SPI_result));
	if (nplans < MOST_PLANS)
	{
		if (SPI_keepplan(plan) != 0)
			elog(ERROR, "SPI_keepplan failed");
		texts[nplans] = MemoryContextStrdup(TopMemoryContext, sql);
		plans[nplans++] = plan;
	}
	return plan;
}

void
meta_execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls, int expected)
{
	int			rc = SPI_execute_plan(find_plan(sql, nargs, types), values, nulls, false, 0);

	if (rc != expected)
		elog(ERROR, "statement on the capstan catalog returned %s: %s", SPI_result_code_string(rc), sql);
}

Datum
meta_text_or_null(const char *text, char *null)
{
	*null = text == NULL ? 'n' : ' ';
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

char *
meta_get_text(HeapTuple tuple, TupleDesc desc, int column, MemoryContext context)
{
	char	   *value = SPI_getvalue(tuple, desc, column);

	return value == NULL ? NULL : MemoryContextStrdup(context, value);
}

int64
meta_get_int64(HeapTuple tuple, TupleDesc desc, int column, int64 when_null)
{
	bool		isnull;
	Datum		value = SPI_getbinval(tuple, desc, column, &isnull);

	return isnull ? when_null : DatumGetInt64(value);
}
