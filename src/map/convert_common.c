/*
 * convert_common.c
 *		What all converters need: how they fail, and domains.
 *
 * P9: no message here, and none that leaves here, contains a value.  Where Postgres' own code looks at a
 * value (JSON, CHECK constraints of domains) it runs under capstan_convert_guarded, which keeps of
 * Postgres' error the SQLSTATE and the constraint's name.  All other converters check
 * before they build, so that nothing in them can raise.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "errcodes.h"
#include "map/internal.h"

void
capstan_convert_fail(const ColumnMap *map, const char *reason, const char *hint)
{
	const ColumnPrivate *private = column_private(map);
	char	   *table = get_rel_name(map->table->relid);
	char	   *schema = get_namespace_name(get_rel_namespace(map->table->relid));

	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_VALUE),
			 errmsg("a value of source table \"%s\" cannot be converted", map->table->source_name),
			 errdetail("Column \"%s\" of source table \"%s\", %s to %s: the value %s.",
					   map->source->name, map->table->source_name,
					   private->source_type, private->target_type, reason),
			 hint != NULL ? errhint("%s", hint) : 0,
			 schema != NULL ? err_generic_string(PG_DIAG_SCHEMA_NAME, schema) : 0,
			 table != NULL ? err_generic_string(PG_DIAG_TABLE_NAME, table) : 0,
			 err_generic_string(PG_DIAG_COLUMN_NAME, map->source->name)));
	pg_unreachable();
}

void
capstan_convert_wrong_kind(const ColumnMap *map, const SourceValue *value)
{
	elog(ERROR, "source value of kind %d for column \"%s\" (%s) of source table \"%s\"",
		 (int) value->kind, map->source->name, column_private(map)->source_type, map->table->source_name);
	pg_unreachable();
}

/* Errors that are about the server's state and not about the value, and those that say already what is wrong with it. */
static bool
is_told_as_it_is(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_SYSTEM_ERROR:
		case ERRCODE_INTERNAL_ERROR:
			return true;
	}
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || sqlerrcode == CAPSTAN_ERRCODE_VALUE || sqlerrcode == CAPSTAN_ERRCODE_UNDECODABLE;
}

Datum
capstan_convert_guarded(ColumnMap *map, GuardedCall call, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *volatile reason = NULL;
	volatile Datum result = (Datum) 0;

	PG_TRY();
	{
		result = call(map, arg);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		/* PostGIS complains of a value by an internal error. */
		if (is_told_as_it_is(geterrcode()) &&
			!(geterrcode() == ERRCODE_INTERNAL_ERROR && OidIsValid(column_private(map)->receive.fn_oid)))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		if (error->constraint_name != NULL)
			reason = psprintf("is refused by Postgres with SQLSTATE %s, constraint \"%s\"",
							  unpack_sql_state(error->sqlerrcode), error->constraint_name);
		else
			reason = psprintf("is refused by Postgres with SQLSTATE %s", unpack_sql_state(error->sqlerrcode));
	}
	PG_END_TRY();

	if (reason != NULL)
		capstan_convert_fail(map, reason, "Correct the value on the source, or change the target column's type.");
	return result;
}

typedef struct DomainValue
{
	Datum		datum;
	bool		isnull;
} DomainValue;

static Datum
check_domain(ColumnMap *map, void *arg)
{
	const DomainValue *value = (const DomainValue *) arg;

	domain_check(value->datum, value->isnull, map->typid,
				 &column_private(map)->domain_cache, map->table->context);
	return value->datum;
}

/* A Datum handed over as a domain's is believed by the executor: its constraints are checked here or nowhere. */
Datum
capstan_convert_domain(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	DomainValue result;

	result.datum = column_private(map)->inner(map, value, isnull);
	result.isnull = *isnull;
	return capstan_convert_guarded(map, check_domain, &result);
}
