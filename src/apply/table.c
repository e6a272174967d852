/*
 * table.c
 *		A captured table as a worker works with it: map, plans, owner.
 *
 * Called by worker/ and the other files of apply/.  Maps and plans are made at first use, in a
 * transaction, and made again when a relcache invalidation says that the target changed.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "apply/apply.h"
#include "apply/internal.h"
#include "base/pages.h"
#include "errcodes.h"

/* All ApplyTables of this process. */
static List *all_tables = NIL;

/* Those that are valid, and some that were: what invalidations have to look at.  Others of thousands need not be marked. */
static List *marked_tables = NIL;

/* Since the last trim: maps made. */
static int	opened = 0;
/* Some 20 kB each, Postgres' own part included. */
#define MOST_OPEN_TABLES 1000

/* May come at any time inside catalog access: only marks. */
static void
target_changed(Datum arg, Oid relid)
{
	ListCell   *cell;

	foreach(cell, marked_tables)
	{
		ApplyTable *table = lfirst(cell);

		if (relid == InvalidOid || table->info->target == relid ||
			(table->nparts > 0 && bsearch(&relid, table->parts, table->nparts, sizeof(Oid), oid_cmp) != NULL))
			table->valid = false;
	}
}

/* A label of an enum type was renamed or added: maps keep what labels are, and nothing tells the tables. */
static void
labels_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	target_changed(arg, InvalidOid);
}

/* A schema got another name, and another one perhaps its old name: statements name the target by it, and nothing tells the tables. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	ListCell   *cell;

	foreach(cell, marked_tables)
	{
		ApplyTable *table = lfirst(cell);

		if (hashvalue == 0 || table->schema_hash == hashvalue)
			table->valid = false;
	}
}

void
capstan_apply_init(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(target_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(ENUMOID, labels_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
	registered = true;
}

ApplyTable *
capstan_apply_table_create(PipelineTable *info, Oid pipeline_owner, MapPolicies policies, MemoryContext parent)
{
	MemoryContext caller;
	ApplyTable *table = MemoryContextAllocZero(parent, sizeof(ApplyTable));

	table->context = parent;
	table->info = info;
	table->pipeline_owner = pipeline_owner;
	table->policies = policies;
	table->copied = strcmp(info->state, "streaming") == 0;
	table->untouched = info->untouched;

	caller = MemoryContextSwitchTo(TopMemoryContext);
	all_tables = lappend(all_tables, table);
	MemoryContextSwitchTo(caller);
	return table;
}

/* The pipeline's owner must be able to act as the table's owner, whose code (constraints, triggers, indexes) will run. */
void
apply_check_owner(ApplyTable *table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table->info->target));
	char	   *pipeline_owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the target table of %s.%s does not exist any more", table->info->source_schema, table->info->source_table),
				 errhint("Call capstan.remove_table() and, to make it anew, capstan.add_table(); or restore the table.")));
	table->table_owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	if (has_privs_of_role(table->pipeline_owner, table->table_owner))
		return;
	/* nothing keeps a role from being dropped that is only named in capstan's catalog */
	pipeline_owner = GetUserNameFromId(table->pipeline_owner, true);
	if (pipeline_owner == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the pipeline's owner does not exist any more"),
				 errhint("Drop the pipeline and create it again as another role.")));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("the pipeline's owner \"%s\" may not write to the target table of %s.%s", pipeline_owner,
					table->info->source_schema, table->info->source_table),
			 errdetail("It is neither the owner of the table nor a member of the owning role \"%s\".",
					   GetUserNameFromId(table->table_owner, false)),
			 errhint("GRANT %s TO %s;", quote_identifier(GetUserNameFromId(table->table_owner, false)), quote_identifier(pipeline_owner))));
}

SPIPlanPtr
apply_keep_plan(const char *sql, int nargs, Oid *types)
{
	SPIPlanPtr	plan = SPI_prepare(sql, nargs, types);

	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare a statement on a target table: %s", SPI_result_code_string(SPI_result));
	return plan;
}

/* A domain over an enum type has no operators of its own, and does not get those of the type. */
void
apply_append_key_equals(StringInfo sql, const ColumnMap *column, Relation relation, int parameter)
{
	const char *name = quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation), column->attnum - 1)->attname));
	const char *cast = "";

	if (column->typid != column->basetypid && type_is_enum(column->basetypid))
		cast = psprintf("::%s", format_type_be_qualified(column->basetypid));
	appendStringInfo(sql, "%s%s OPERATOR(pg_catalog.=) $%d%s", name, cast, parameter, cast);
}

/* "k1 = $3 AND k2 = $1" */
static void
append_key_condition(StringInfo sql, TableMap *map, Relation relation)
{
	for (int i = 0; i < map->nkey; i++)
	{
		appendStringInfoString(sql, i > 0 ? " AND " : " WHERE ");
		apply_append_key_equals(sql, &map->columns[map->key[i]], relation, map->key[i] + 1);
	}
}

/* The statements, with the mapped columns as parameters $1 .. $n. */
static void
make_plans(ApplyTable *table, Relation relation)
{
	TableMap   *map = table->map;
	TupleDesc	desc = RelationGetDescr(relation);
	const char *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
												  RelationGetRelationName(relation));
	Oid		   *types = palloc(sizeof(Oid) * map->ncolumns);
	StringInfoData insert;
	StringInfoData conflict;
	StringInfoData update;
	StringInfoData key;
	StringInfoData sql;
	int			nset = 0;

	initStringInfo(&insert);
	initStringInfo(&conflict);
	initStringInfo(&update);
	initStringInfo(&key);
	initStringInfo(&sql);
	for (int i = 0; i < map->ncolumns; i++)
	{
		const char *column = quote_identifier(NameStr(TupleDescAttr(desc, map->columns[i].attnum - 1)->attname));

		types[i] = map->columns[i].typid;
		appendStringInfo(&insert, "%s%s", i > 0 ? ", " : "", column);
		appendStringInfo(&sql, "%s$%d", i > 0 ? ", " : "", i + 1);
		if (!map->columns[i].in_key)
			appendStringInfo(&update, "%s%s = $%d", nset++ > 0 ? ", " : "", column, i + 1);
		else
			appendStringInfo(&conflict, "%s%s", conflict.len > 0 ? ", " : "", column);
	}
	append_key_condition(&key, map, relation);

	if (map->nkey == 0)
	{
		table->insert = apply_keep_plan(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)",
												 name, insert.data, sql.data), map->ncolumns, types);
		return;
	}
	/* a foreign table has no index that a conflict could be inferred from: apply_insert_row looks first */
	table->insert = apply_keep_plan(psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)%s", name, insert.data, sql.data,
											 table->remote ? "" : psprintf(" ON CONFLICT (%s) DO NOTHING", conflict.data)),
									map->ncolumns, types);
	table->update = nset == 0 ? NULL :
		apply_keep_plan(psprintf("UPDATE %s SET %s%s", name, update.data, key.data), map->ncolumns, types);
	table->delete = apply_keep_plan(psprintf("DELETE FROM %s%s", name, key.data), map->ncolumns, types);
	table->select = apply_keep_plan(psprintf("SELECT %s FROM %s%s", insert.data, name, key.data), map->ncolumns, types);
}

SPIPlanPtr
apply_lock_plan(ApplyTable *table)
{
	TableMap   *map = table->map;
	Relation	relation;
	Oid		   *types;
	StringInfoData sql;

	if (table->lock != NULL)
		return table->lock;
	relation = relation_open(map->relid, NoLock);
	types = palloc(sizeof(Oid) * map->ncolumns);
	initStringInfo(&sql);
	for (int i = 0; i < map->ncolumns; i++)
	{
		types[i] = map->columns[i].typid;
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "SELECT ",
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation), map->columns[i].attnum - 1)->attname)));
	}
	appendStringInfo(&sql, " FROM %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation)));
	append_key_condition(&sql, map, relation);
	appendStringInfoString(&sql, " FOR UPDATE");
	table->lock = apply_keep_plan(sql.data, map->ncolumns, types);
	relation_close(relation, NoLock);
	return table->lock;
}

void
apply_need_plans(ApplyTable *table)
{
	Relation	relation;

	if (table->insert != NULL)
		return;
	relation = relation_open(table->map->relid, NoLock);
	make_plans(table, relation);
	relation_close(relation, NoLock);
}

static void
drop_plan(SPIPlanPtr *plan)
{
	if (*plan != NULL)
		SPI_freeplan(*plan);
	*plan = NULL;
}

/* What was made of it when it was opened. */
static void
drop_map(ApplyTable *table)
{
	drop_plan(&table->insert);
	drop_plan(&table->update);
	drop_plan(&table->delete);
	drop_plan(&table->select);
	drop_plan(&table->lock);
	apply_drop_partial_plans(table);
	apply_drop_keyless_plans(table);
	table->nparts = 0;
	if (table->parts != NULL)
		pfree(table->parts);
	table->parts = NULL;
	if (table->map == NULL)
		return;
	table->counters.zero_dates += table->map->zero_dates_applied;
	table->counters.nul_bytes += table->map->nul_bytes_applied;
	MemoryContextDelete(table->map->context);
	table->map = NULL;
}

/* Before the map is made, which looks at them: what is done to one meanwhile must be seen. */
static void
note_partitions(ApplyTable *table, Relation relation)
{
	List	   *relids;
	ListCell   *cell;

	if (relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return;
	relids = find_all_inheritors(RelationGetRelid(relation), NoLock, NULL);
	table->parts = MemoryContextAlloc(table->context, sizeof(Oid) * list_length(relids));
	foreach(cell, relids)
		table->parts[table->nparts++] = lfirst_oid(cell);
	qsort(table->parts, table->nparts, sizeof(Oid), oid_cmp);
	list_free(relids);
}

/* Invalidations are heeded from now on. */
static void
mark_valid(ApplyTable *table)
{
	MemoryContext caller;

	if (!table->marked)
	{
		caller = MemoryContextSwitchTo(TopMemoryContext);
		marked_tables = lappend(marked_tables, table);
		MemoryContextSwitchTo(caller);
		table->marked = true;
	}
	table->valid = true;
}

void
capstan_apply_table_open(ApplyTable *table, const SourceTable *source)
{
	Relation	relation;
	MemoryContext caller;

	/* the lock first, in every transaction: it brings the invalidations of what changed before it, and nothing changes after */
	LockRelationOid(table->info->target, RowExclusiveLock);
	if (table->valid)
	{
		if (table->remote)
			ForceSyncCommit();
		return;
	}

	apply_direct_close(table);
	/* before looking: an invalidation that comes meanwhile must be seen again */
	mark_valid(table);
	relation = try_relation_open(table->info->target, NoLock);
	apply_check_owner(table);
	drop_map(table);
	note_partitions(table, relation);

	table->map = capstan_map_build(source, table->info->target, table->policies, table->context);
	opened++;
	table->schema_hash = GetSysCacheHashValue1(NAMESPACEOID, ObjectIdGetDatum(RelationGetNamespace(relation)));
	table->remote = relation->rd_rel->relkind == RELKIND_FOREIGN_TABLE;
	if (table->remote)
		ForceSyncCommit();
	table->runs_code = apply_runs_code(relation);
	table->direct = !table->runs_code && apply_direct_is_possible(table, relation);
	table->fires = table->remote || apply_fires(relation);

	caller = MemoryContextSwitchTo(table->map->context);
	table->values = palloc(sizeof(Datum) * table->map->natts);
	table->isnull = palloc(sizeof(bool) * table->map->natts);
	table->arguments = palloc(sizeof(Datum) * table->map->ncolumns);
	table->nulls = palloc(table->map->ncolumns);
	MemoryContextSwitchTo(caller);
	relation_close(relation, NoLock);
}

void
capstan_apply_table_free(ApplyTable *table)
{
	all_tables = list_delete_ptr(all_tables, table);
	marked_tables = list_delete_ptr(marked_tables, table);
	apply_direct_close(table);
	drop_map(table);
	if (table->range_context != NULL)
		MemoryContextDelete(table->range_context);
	if (table->described_context != NULL)
		MemoryContextDelete(table->described_context);
	pfree(table);
}

void
capstan_apply_trim(void)
{
	ListCell   *cell;

	if (opened < MOST_OPEN_TABLES)
		return;
	opened = 0;
	foreach(cell, all_tables)
	{
		ApplyTable *table = lfirst(cell);

		Assert(table->writer == NULL);
		drop_map(table);
		table->valid = false;
		table->marked = false;
		if (table->range_context != NULL)
			MemoryContextReset(table->range_context);
		table->nranges = 0;
		table->ranges = NULL;
	}
	list_free(marked_tables);
	marked_tables = NIL;
	/* Postgres keeps some 8 kB of each table that a process has ever opened, and never fewer */
	InvalidateSystemCaches();
	capstan_pages_trim();
}

void
capstan_apply_enter_owner(ApplyTable *table, TableOwnerContext *saved)
{
	GetUserIdAndSecContext(&saved->userid, &saved->sec_context);
	SetUserIdAndSecContext(table->table_owner, saved->sec_context | SECURITY_RESTRICTED_OPERATION);
	saved->guc_level = NewGUCNestLevel();
}

void
capstan_apply_leave_owner(const TableOwnerContext *saved)
{
	AtEOXact_GUC(false, saved->guc_level);
	SetUserIdAndSecContext(saved->userid, saved->sec_context);
}

/* The value in `context`, bytes copied. */
static SourceValue
copy_value(const SourceValue *value)
{
	SourceValue copy = *value;

	switch (value->kind)
	{
		case VALUE_DECIMAL:
		case VALUE_BITS:
		case VALUE_BYTES:
		case VALUE_JSON:
			copy.u.bytes.data = memcpy(palloc(value->u.bytes.length + 1), value->u.bytes.data, value->u.bytes.length);
			break;
		default:
			break;
	}
	return copy;
}

static SourceValue *
decode_key(TableMap *map, bytea **encoded)
{
	SourceValue *key;

	if (encoded == NULL)
		return NULL;
	key = palloc(sizeof(SourceValue) * map->nkey);
	for (int i = 0; i < map->nkey; i++)
	{
		SourceValue value;

		capstan_map_decode_key(map->columns[map->key[i]].source, encoded[i], &value);
		key[i] = copy_value(&value);
	}
	return key;
}

void
capstan_apply_set_ranges(ApplyTable *table, List *ranges)
{
	MemoryContext caller;
	ListCell   *cell;

	Assert(table->map != NULL);
	if (table->range_context == NULL)
		table->range_context = AllocSetContextCreate(table->context, "capstan ranges", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(table->range_context);
	table->nranges = 0;
	caller = MemoryContextSwitchTo(table->range_context);
	table->ranges = palloc(sizeof(KeyRange) * Max(list_length(ranges), 1));
	foreach(cell, ranges)
	{
		CopyRange  *range = lfirst(cell);

		if (!range->copied)
			continue;
		table->ranges[table->nranges].low = decode_key(table->map, range->low);
		table->ranges[table->nranges].high = decode_key(table->map, range->high);
		table->nranges++;
	}
	MemoryContextSwitchTo(caller);
}

/* Nothing is changed in silence: the first value of a table that a policy changes makes a warning. */
static void
warn_of_policy(ApplyTable *table, const char *pipeline, const char *class, const char *what, const char *option)
{
	Incident	incident;

	memset(&incident, 0, sizeof(incident));
	incident.pipeline = pipeline;
	incident.severity = "warning";
	incident.class = class;
	incident.message = psprintf("values of %s.%s were changed: %s", table->info->source_schema, table->info->source_table, what);
	incident.detail = psprintf("The pipeline's policy %s acted for the first time on this table.", option);
	incident.hint = "capstan.table_status counts how often it acts. Choose another policy when the pipeline is created.";
	incident.source_table = psprintf("%s.%s", table->info->source_schema, table->info->source_table);
	(void) capstan_meta_record_incident(&incident);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", pipeline, incident.message),
			 errdetail_internal("%s", incident.detail)));
}

void
capstan_apply_flush_counters(ApplyTable *table, const char *pipeline)
{
	FirstActs	first;

	if (table->map != NULL)
	{
		table->counters.zero_dates += table->map->zero_dates_applied;
		table->counters.nul_bytes += table->map->nul_bytes_applied;
		table->map->zero_dates_applied = 0;
		table->map->nul_bytes_applied = 0;
	}
	first = capstan_meta_add_counters(table->info->id, &table->counters);
	if (first.zero_dates)
		warn_of_policy(table, pipeline, "zero_dates_applied",
					   table->policies.zero_dates == ZERO_DATES_INFINITY ? "zero dates became -infinity" : "zero dates became NULL",
					   "zero_dates");
	if (first.nul_bytes)
		warn_of_policy(table, pipeline, "nul_bytes_applied",
					   table->policies.nul_bytes == NUL_BYTES_STRIP ? "zero bytes in text were left out" : "zero bytes in text became U+FFFD",
					   "nul_bytes");
	memset(&table->counters, 0, sizeof(table->counters));
	table->dirty = false;
}

/*
 * Another server may commit rows of a foreign table before this one does.  That they may be there must outlive a crash here, whatever
 * capstan.synchronous_commit is: how much comes again after it, and what has to be taken out when a copy starts over, follows from
 * what is known here.
 */
void
capstan_apply_force_sync(Oid target)
{
	if (get_rel_relkind(target) == RELKIND_FOREIGN_TABLE)
		ForceSyncCommit();
}
