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
 * that are right already are not written.  Columns that the source does not have keep their values in rows whose key stays.  Without a
 * key everything is replaced.
 *
 * Triggers and rules of the target that fire for us may suppress a row: then it is not the shadow's content, which is an error.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "apply/internal.h"
#include "errcodes.h"
#include "meta/generation.h"

/* Two tables are joined while everything waits: more than usual, but a bound all the same (a hash may take twice as much). */
#define EXCHANGE_WORK_MEM "32MB"

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

/* "s.k = t.k AND ..."; t is `other`. */
static char *
key_condition(const TableShadow *shadow, const char *other)
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

		appendStringInfo(&sql, "%ss.%s%s OPERATOR(pg_catalog.=) %s.%s%s", sql.len > 0 ? " AND " : "", name, cast, other, name, cast);
	}
	return sql.data;
}

/* "t.a, t.b" */
static char *
column_list(List *columns, const char *prefix)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, columns)
		appendStringInfo(&sql, "%s%s%s", sql.len > 0 ? ", " : "", prefix, quote_identifier(lfirst(cell)));
	return sql.data;
}

/* Returns the number of rows. */
static int64
run(const char *sql, int expected)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != expected)
		elog(ERROR, "exchanging the content of a table returned %s", SPI_result_code_string(rc));
	return (int64) SPI_processed;
}

/* alias_and_condition: of the rows to be counted; "": all. */
static int64
count_rows(const char *name, const char *alias_and_condition)
{
	bool		isnull;

	(void) run(psprintf("SELECT pg_catalog.count(*) FROM %s%s", name, alias_and_condition), SPI_OK_SELECT);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* Columns of the target that hold what the source does not have: somebody's own. */
static List *
own_columns(const TableShadow *shadow)
{
	Relation	relation = relation_open(shadow->target, NoLock);
	TupleDesc	desc = RelationGetDescr(relation);
	List	   *own = NIL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		bool		fed = false;
		ListCell   *cell;

		foreach(cell, shadow->columns)
			fed = fed || strcmp(lfirst(cell), NameStr(attribute->attname)) == 0;
		if (!attribute->attisdropped && attribute->attgenerated == '\0' && !fed)
			own = lappend(own, pstrdup(NameStr(attribute->attname)));
	}
	relation_close(relation, NoLock);
	return own;
}

/* Could something of the target's make nothing of a row that we delete or insert? */
static bool
may_suppress(Oid target)
{
	Relation	relation = relation_open(target, NoLock);
	bool		may = apply_runs_code(relation);

	relation_close(relation, NoLock);
	return may;
}

static void
raise_suppressed(const ApplyTable *table, int64 rows)
{
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_INEXACT),
			 errmsg("the new content of a resynced table did not get into the target as it is"),
			 errdetail("Table %s.%s: rows suppressed: " INT64_FORMAT ".", table->info->source_schema, table->info->source_table, rows),
			 errhint("A trigger or rule of the target that is enabled ALWAYS or REPLICA suppresses or redirects rows: disable it, and call "
					 "capstan.resume_pipeline().")));
}

static void
replace_rows(const ApplyTable *table, const TableShadow *shadow, const char *target, const char *source, const char *insert)
{
	int64		left;
	int64		inserted;

	(void) run(psprintf("DELETE FROM %s", target), SPI_OK_DELETE);
	left = may_suppress(shadow->target) ? count_rows(target, "") : 0;
	inserted = run(insert, SPI_OK_INSERT);
	left += count_rows(source, "") - inserted;
	if (left != 0)
		raise_suppressed(table, left);
}

/*
 * Deletes what is not right.  Where there are columns of somebody's own, rows that have another content but the same key are written again at
 * once, with what they had there: the count has all of the DELETE done before the first INSERT.
 */
static void
delete_rows(const TableShadow *shadow, const char *target, const char *source, const char *wrong)
{
	List	   *own = own_columns(shadow);
	List	   *kept = list_concat_copy(shadow->key, own);

	if (own == NIL)
		(void) run(psprintf("DELETE FROM %s%s", target, wrong), SPI_OK_DELETE);
	else
		(void) run(psprintf("WITH gone AS (DELETE FROM %s%s RETURNING %s) INSERT INTO %s (%s, %s) OVERRIDING SYSTEM VALUE "
							"SELECT %s, %s FROM gone AS g JOIN %s AS s ON %s WHERE (SELECT pg_catalog.count(*) FROM gone) > 0",
							target, wrong, column_list(kept, "t."), target, column_list(shadow->columns, ""), column_list(own, ""),
							column_list(shadow->columns, "s."), column_list(own, "g."), source, key_condition(shadow, "g")),
				   SPI_OK_INSERT);
}

static void
exchange_rows(const ApplyTable *table, const TableShadow *shadow)
{
	const char *target = capstan_map_relation_name(shadow->target);
	const char *source = capstan_map_relation_name(shadow->shadow);
	const char *insert = psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s AS s", target,
								  column_list(shadow->columns, ""), column_list(shadow->columns, "s."), source);
	const char *wrong;
	int64		there;
	int64		wanted;

	if (shadow->key == NIL)
	{
		replace_rows(table, shadow, target, source, insert);
		return;
	}
	wrong = psprintf(" AS t WHERE NOT EXISTS (SELECT FROM %s AS s WHERE %s AND ROW(%s)::record OPERATOR(pg_catalog.*=) ROW(%s)::record)",
					 source, key_condition(shadow, "t"), column_list(shadow->columns, "s."), column_list(shadow->columns, "t."));
	delete_rows(shadow, target, source, wrong);
	if (may_suppress(shadow->target) && (there = count_rows(target, wrong)) > 0)
		raise_suppressed(table, there);
	/* the target is a part of the shadow now: if it has as many rows, it is the shadow */
	there = count_rows(target, "");
	wanted = count_rows(source, "");
	if (there != wanted)
		there += run(psprintf("%s WHERE NOT EXISTS (SELECT FROM %s AS t WHERE %s)", insert, target, key_condition(shadow, "t")), SPI_OK_INSERT);
	if (there != wanted)
		raise_suppressed(table, wanted - there);
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
	capstan_apply_force_sync(shadow->target);
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
	exchange_rows(table, shadow);
	capstan_apply_leave_owner(&owner);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	capstan_meta_shadow_exchanged(table->info->id);
	CommandCounterIncrement();
	capstan_apply_drop_shadow(table->info->id, false);
}
