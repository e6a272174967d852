/*
 * exchange.c
 *		The end of a table's resync: the target gets the content of its shadow.
 *
 * Called by the pipeline worker at the boundary at which the last range of the table was copied, in the transaction
 * that makes the table 'streaming'.  So a crash leaves both or neither, and readers see the old content or the new one, by
 * plain MVCC: there is no moment without rows, and no lock that readers would wait for.
 *
 * With a key: rows of the target that the shadow does not have byte for byte are deleted, then what is missing is inserted.  After the
 * first step the target is a part of the shadow, so no unique index or constraint can be in the way of the second; and rows
 * that are right already are not written.  Without a key everything is replaced.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "apply/internal.h"
#include "errcodes.h"
#include "meta/generation.h"

/* Two tables are joined while everything waits: more than usual, but a bound all the same (a hash may take twice as much). */
#define EXCHANGE_WORK_MEM "32MB"

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

/* A value must not become another one on its way from the shadow to the target. */
static void
check_column(const ApplyTable *table, const TableShadow *shadow, const char *name)
{
	AttrNumber	from = get_attnum(shadow->shadow, name);
	AttrNumber	to = get_attnum(shadow->target, name);
	Oid			types[2];
	Oid			collations[2];
	int32		typmods[2];

	if (from != InvalidAttrNumber && to != InvalidAttrNumber)
	{
		get_atttypetypmodcoll(shadow->shadow, from, &types[0], &typmods[0], &collations[0]);
		get_atttypetypmodcoll(shadow->target, to, &types[1], &typmods[1], &collations[1]);
		if (types[0] == types[1] && typmods[0] == typmods[1] && collations[0] == collations[1])
			return;
	}
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_TARGET_TABLE),
			 errmsg("column \"%s\" of the target was changed while the table was resynced", name),
			 errdetail("Table %s.%s.", table->info->source_schema, table->info->source_table),
			 errhint("Call capstan.resync_table() again.")));
}

/* "s.k = t.k AND ..." */
static char *
key_condition(const TableShadow *shadow)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, shadow->key)
	{
		const char *name = quote_identifier(lfirst(cell));
		Oid			type = get_atttype(shadow->target, get_attnum(shadow->target, lfirst(cell)));
		Oid			base = getBaseType(type);
		const char *cast = base != type && type_is_enum(base) ? psprintf("::%s", format_type_be_qualified(base)) : "";

		appendStringInfo(&sql, "%ss.%s%s OPERATOR(pg_catalog.=) t.%s%s", sql.len > 0 ? " AND " : "", name, cast, name, cast);
	}
	return sql.data;
}

/* "t.a, t.b": the columns that come from the source. */
static char *
column_list(const TableShadow *shadow, const char *prefix)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, shadow->columns)
		appendStringInfo(&sql, "%s%s%s", sql.len > 0 ? ", " : "", prefix, quote_identifier(lfirst(cell)));
	return sql.data;
}

static void
run(const char *sql, int expected)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != expected)
		elog(ERROR, "exchanging the content of a table returned %s", SPI_result_code_string(rc));
}

static int64
count_rows(const char *name)
{
	bool		isnull;

	run(psprintf("SELECT pg_catalog.count(*) FROM %s", name), SPI_OK_SELECT);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

static void
exchange_rows(const TableShadow *shadow)
{
	const char *target = qualified_name(shadow->target);
	const char *source = qualified_name(shadow->shadow);
	const char *insert = psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s AS s", target,
								  column_list(shadow, ""), column_list(shadow, "s."), source);

	if (shadow->key == NIL)
	{
		run(psprintf("DELETE FROM %s", target), SPI_OK_DELETE);
		run(insert, SPI_OK_INSERT);
		return;
	}
	run(psprintf("DELETE FROM %s AS t WHERE NOT EXISTS (SELECT FROM %s AS s WHERE %s AND "
				 "ROW(%s)::record OPERATOR(pg_catalog.*=) ROW(%s)::record)", target, source, key_condition(shadow),
				 column_list(shadow, "s."), column_list(shadow, "t.")), SPI_OK_DELETE);
	/* the target is a part of the shadow now: if it has as many rows, it is the shadow */
	if (count_rows(target) != count_rows(source))
		run(psprintf("%s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s)", insert, target, key_condition(shadow)), SPI_OK_INSERT);
}

void
capstan_apply_drop_shadow(int64 table_id, bool wait)
{
	TableShadow *shadow = capstan_meta_shadow(table_id);
	ObjectAddress object;

	if (shadow == NULL)
		return;
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(shadow->shadow)))
	{
		/* somebody looks at it (pg_dump, say): later, then */
		if (wait)
			LockRelationOid(shadow->shadow, AccessExclusiveLock);
		else if (!ConditionalLockRelationOid(shadow->shadow, AccessExclusiveLock))
			return;
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(shadow->shadow)))
		{
			ObjectAddressSet(object, RelationRelationId, shadow->shadow);
			performDeletion(&object, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		}
	}
	capstan_meta_forget_shadow(table_id);
}

void
capstan_apply_exchange(ApplyTable *table)
{
	TableShadow *shadow = capstan_meta_shadow(table->info->id);
	TableOwnerContext owner;
	ListCell   *cell;

	Assert(table->info->in_shadow);
	if (shadow == NULL || shadow->shadow != table->info->target)
		elog(ERROR, "table " INT64_FORMAT " has no shadow any more", table->info->id);
	LockRelationOid(shadow->shadow, RowExclusiveLock);
	LockRelationOid(shadow->target, RowExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(shadow->shadow)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table in which the new content of %s.%s was built does not exist any more", table->info->source_schema,
						table->info->source_table),
				 errhint("Call capstan.resync_table() again.")));
	table->info->target = shadow->target;
	table->info->in_shadow = false;
	table->valid = false;
	apply_check_owner(table);
	foreach(cell, shadow->columns)
		check_column(table, shadow, lfirst(cell));

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	capstan_apply_enter_owner(table, &owner);
	/* ends with the owner's settings */
	(void) set_config_option("work_mem", EXCHANGE_WORK_MEM, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	exchange_rows(shadow);
	capstan_apply_leave_owner(&owner);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	capstan_meta_shadow_exchanged(table->info->id);
	CommandCounterIncrement();
	capstan_apply_drop_shadow(table->info->id, false);
}
