/*
 * keyless.c
 *		Changes of tables without a key: the whole row is what is looked for.
 *
 * Called by change.c and partialchange.c.  A changed or deleted row is found by the bytes of all its
 * columns, and one row is changed for each change, so that duplicates and NULLs come out as on the source:
 *
 *		DELETE FROM t WHERE ctid = (SELECT ctid FROM t WHERE a = $1 AND b IS NULL AND record *= record LIMIT 1)
 *
 * The record comparison (record_image_eq) decides: it compares bytes, so that types without equality and values
 * that are equal but not the same are no matter.  The conditions before it are there for indexes alone: they name
 * columns that an index of the target has, and hold for every row whose bytes are those.  Which of them are IS NULL
 * is part of the statement, so there is a plan for each set of NULLs among the indexed columns.
 *
 * Such a table is copied as one range in one view.  Until that is committed all its changes are left to it: see
 * apply_passes_gate.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "apply/internal.h"

/* Kept for so many different sets of NULLs per table. */
#define MOST_PLANS 32

typedef struct KeylessPlan
{
	char	   *nulls;			/* by mapped column: 'n' or ' ' where the column is indexed, else ' ' */
	SPIPlanPtr	update;			/* $1..$n: new values, $n+1..$2n: the row as it was; NULL until needed */
	SPIPlanPtr	delete;			/* $1..$n: the row as it was; NULL until needed */
	SPIPlanPtr	search;			/* the same: is there one? */
} KeylessPlan;

typedef enum KeylessAct
{
	KEYLESS_UPDATE,
	KEYLESS_DELETE,
	KEYLESS_SEARCH
} KeylessAct;

static void
drop_plans(ApplyTable *table)
{
	ListCell   *cell;

	foreach(cell, table->keyless_plans)
	{
		KeylessPlan *plan = lfirst(cell);

		if (plan->update != NULL)
			SPI_freeplan(plan->update);
		if (plan->delete != NULL)
			SPI_freeplan(plan->delete);
		if (plan->search != NULL)
			SPI_freeplan(plan->search);
		pfree(plan->nulls);
		pfree(plan);
	}
	list_free(table->keyless_plans);
	table->keyless_plans = NIL;
}

void
apply_drop_keyless_plans(ApplyTable *table)
{
	drop_plans(table);
	table->indexed = NULL;		/* of the map's context */
}

/* Can the statements' operator, which is of pg_catalog, use a btree index of the type?  Types of extensions have their own, or none. */
static bool
has_core_equality(Oid typid)
{
	Oid			operator = lookup_type_cache(typid, TYPECACHE_EQ_OPR)->eq_opr;

	return OidIsValid(operator) && operator < FirstNormalObjectId;
}

/* By mapped column: does a btree index of the target begin with it?  Others cannot help to find a row. */
static bool *
find_indexed_columns(ApplyTable *table, Relation relation)
{
	TableMap   *map = table->map;
	bool	   *indexed = MemoryContextAllocZero(map->context, sizeof(bool) * map->ncolumns);
	List	   *indexes = RelationGetIndexList(relation);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);
		bool		usable = index->rd_index->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
			heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);

		for (int i = 0; i < map->ncolumns && usable; i++)
			if (map->columns[i].attnum == index->rd_index->indkey.values[0] && has_core_equality(map->columns[i].basetypid))
				indexed[i] = true;
		index_close(index, NoLock);
	}
	list_free(indexes);
	return indexed;
}

/*
 * May its rows be in other tables, too: partitions, chunks of a hypertable, tables that inherit from it?  Then there are rows with the same
 * ctid in several of them.
 */
static bool
has_other_tables(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE || relation->rd_rel->relhassubclass;
}

/* "(SELECT ctid FROM t WHERE ... LIMIT 1)"; parameters of the row as it was begin after `offset`. */
static void
append_row_search(StringInfo sql, ApplyTable *table, Relation relation, const char *name, const char *nulls, int offset)
{
	TableMap   *map = table->map;
	bool	   *indexed = table->indexed;
	StringInfoData columns;
	StringInfoData values;

	initStringInfo(&columns);
	initStringInfo(&values);
	appendStringInfo(sql, "(SELECT %s FROM %s WHERE ", has_other_tables(relation) ? "tableoid, ctid" : "ctid", name);
	for (int i = 0; i < map->ncolumns; i++)
	{
		const char *column = quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation), map->columns[i].attnum - 1)->attname));

		if (indexed[i] && nulls[i] == 'n')
			appendStringInfo(sql, "%s IS NULL AND ", column);
		else if (indexed[i])
		{
			apply_append_key_equals(sql, &map->columns[i], relation, offset + i + 1);
			appendStringInfoString(sql, " AND ");
		}
		appendStringInfo(&columns, "%s%s", i > 0 ? ", " : "", column);
		appendStringInfo(&values, "%s$%d", i > 0 ? ", " : "", offset + i + 1);
	}
	/* the casts keep the parser from comparing column by column */
	appendStringInfo(sql, "ROW(%s)::record OPERATOR(pg_catalog.*=) ROW(%s)::record LIMIT 1)", columns.data, values.data);
}

static SPIPlanPtr
make_plan(ApplyTable *table, const char *nulls, KeylessAct act)
{
	bool		update = act == KEYLESS_UPDATE;
	TableMap   *map = table->map;
	Relation	relation = relation_open(map->relid, NoLock);
	int			nargs = update ? 2 * map->ncolumns : map->ncolumns;
	Oid		   *types = palloc(sizeof(Oid) * nargs);
	const char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
												  RelationGetRelationName(relation));
	StringInfoData sql;
	SPIPlanPtr	plan;

	for (int i = 0; i < nargs; i++)
		types[i] = map->columns[i % map->ncolumns].typid;
	initStringInfo(&sql);
	if (update)
	{
		appendStringInfo(&sql, "UPDATE %s SET ", name);
		for (int i = 0; i < map->ncolumns; i++)
			appendStringInfo(&sql, "%s%s = $%d", i > 0 ? ", " : "",
							 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation), map->columns[i].attnum - 1)->attname)), i + 1);
	}
	else if (act == KEYLESS_DELETE)
		appendStringInfo(&sql, "DELETE FROM %s", name);
	if (act == KEYLESS_SEARCH)
		appendStringInfoString(&sql, "SELECT WHERE EXISTS ");
	else
		appendStringInfoString(&sql, has_other_tables(relation) ? " WHERE (tableoid, ctid) = " : " WHERE ctid = ");
	append_row_search(&sql, table, relation, name, nulls, update ? map->ncolumns : 0);
	plan = apply_keep_plan(sql.data, nargs, types);
	relation_close(relation, NoLock);
	return plan;
}

/* The plan for rows with these NULLs. */
static SPIPlanPtr
find_plan(ApplyTable *table, const char *nulls, KeylessAct act)
{
	TableMap   *map = table->map;
	char	   *wanted = palloc(map->ncolumns);
	KeylessPlan *plan = NULL;
	MemoryContext caller;
	SPIPlanPtr *statement;
	ListCell   *cell;

	if (table->indexed == NULL)
	{
		Relation	relation = relation_open(map->relid, NoLock);

		table->indexed = find_indexed_columns(table, relation);
		relation_close(relation, NoLock);
	}
	for (int i = 0; i < map->ncolumns; i++)
		wanted[i] = table->indexed[i] ? nulls[i] : ' ';
	foreach(cell, table->keyless_plans)
	{
		plan = lfirst(cell);
		if (memcmp(plan->nulls, wanted, map->ncolumns) == 0)
			break;
		plan = NULL;
	}
	if (plan == NULL)
	{
		if (list_length(table->keyless_plans) >= MOST_PLANS)
			drop_plans(table);
		caller = MemoryContextSwitchTo(table->map->context);
		plan = palloc0(sizeof(KeylessPlan));
		plan->nulls = memcpy(palloc(map->ncolumns), wanted, map->ncolumns);
		table->keyless_plans = lappend(table->keyless_plans, plan);
		MemoryContextSwitchTo(caller);
	}
	statement = act == KEYLESS_UPDATE ? &plan->update : act == KEYLESS_DELETE ? &plan->delete : &plan->search;
	if (*statement == NULL)
		*statement = make_plan(table, wanted, act);
	return *statement;
}

static uint64
execute(SPIPlanPtr plan, Datum *arguments, const char *nulls, int expected)
{
	MemoryContext caller = CurrentMemoryContext;
	int			rc = SPI_execute_plan(plan, arguments, nulls, false, 0);

	MemoryContextSwitchTo(caller);
	if (rc != expected)
		elog(ERROR, "statement on a target table without a key returned %s", SPI_result_code_string(rc));
	apply_note_rewritten(false);
	return SPI_processed;
}

/*
 * Updates or deletes one row that is what it was; false: there is none.  A statement that waited for somebody who then changed something else in the row
 * touches none, for the row is at another place by then; and the next one finds it.  Not where triggers or rules fire, which may be why.
 */
static bool
change_one(ApplyTable *table, KeylessAct act, Datum *arguments, const char *nulls, int before)
{
	int			expected = act == KEYLESS_UPDATE ? SPI_OK_UPDATE : SPI_OK_DELETE;

	for (int i = 0; i < MOST_TRIES; i++)
	{
		bool		is_there;

		if (execute(find_plan(table, nulls + before, act), arguments, nulls, expected) > 0)
			return true;
		if (table->fires)
			return false;
		is_there = execute(find_plan(table, nulls + before, KEYLESS_SEARCH), arguments + before, nulls + before, SPI_OK_SELECT) > 0;
		SPI_freetuptable(SPI_tuptable);
		if (!is_there)
			return false;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

static void
insert_row(ApplyTable *table, const SourceValue *row)
{
	apply_set_row(table, row);
	capstan_source_values_forget(row, table->map->nsource);
	(void) apply_execute(table, table->insert, SPI_OK_INSERT);
}

static void
update_row(ApplyTable *table, const SourceChange *change)
{
	int			n = table->map->ncolumns;
	Datum	   *arguments = palloc(sizeof(Datum) * 2 * n);
	char	   *nulls = palloc(2 * n);

	apply_set_row(table, change->before);
	memcpy(arguments + n, table->arguments, sizeof(Datum) * n);
	memcpy(nulls + n, table->nulls, n);
	apply_set_row(table, change->after);
	memcpy(arguments, table->arguments, sizeof(Datum) * n);
	memcpy(nulls, table->nulls, n);
	if (change_one(table, KEYLESS_UPDATE, arguments, nulls, n))
		return;
	(void) apply_execute(table, table->insert, SPI_OK_INSERT);
	table->counters.missing++;
}

static void
delete_row(ApplyTable *table, const SourceValue *row)
{
	apply_set_row(table, row);
	if (!change_one(table, KEYLESS_DELETE, table->arguments, table->nulls, 0))
		table->counters.missing++;
}

void
apply_keyless_change(ApplyTable *table, const SourceChange *change)
{
	switch (change->kind)
	{
		case CHANGE_INSERT:
			insert_row(table, change->after);
			break;
		case CHANGE_UPDATE:
			update_row(table, change);
			break;
		case CHANGE_DELETE:
			delete_row(table, change->before);
			break;
	}
}
