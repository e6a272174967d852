/*
 * targetcheck.c
 *		Is a table fit to be a target?  What does not depend on single columns' types.
 *
 * Why deferrable unique indexes are refused, even those that are not the key: the worker runs with
 * session_replication_role = replica, where the deferred check, an internal trigger, does not fire,
 * and two equal keys would stand in the table unnoticed.  Why unlogged tables: a crash
 * empties them, and the position, which is logged, would stay.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "map/internal.h"

char *
capstan_map_relation_name(Oid relid)
{
	/* a look at the catalog may bring the news of a DROP: what was found before says nothing of what comes next */
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *name = get_rel_name(relid);

	return schema == NULL || name == NULL ? NULL : quote_qualified_identifier(schema, name);
}

static void
check_deferrable(Complaints *complaints, Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Oid			indexoid = lfirst_oid(cell);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexoid));
		Form_pg_index index;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if ((index->indisunique || index->indisexclusion) && !index->indimmediate)
			capstan_map_complain_target(complaints,
										"Index \"%s\" of table \"%s\" belongs to a deferrable constraint, which is not enforced while capstan writes. Make the constraint NOT DEFERRABLE.",
										get_rel_name(indexoid), RelationGetRelationName(rel));
		ReleaseSysCache(tuple);
	}
	list_free(indexes);
}

static void
check_persistence(Complaints *complaints, Relation rel)
{
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		capstan_map_complain_target(complaints,
									"Table \"%s\" is unlogged or temporary: a crash would empty it while the position stays. Use ALTER TABLE ... SET LOGGED.",
									RelationGetRelationName(rel));
}

/* The partitions below a partitioned target; they are the tables that hold the rows. */
static void
check_partitions(Complaints *complaints, Relation rel)
{
	List	   *relids = find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL);
	ListCell   *cell;

	foreach(cell, relids)
	{
		Relation	partition;

		if (lfirst_oid(cell) == RelationGetRelid(rel))
			continue;
		partition = table_open(lfirst_oid(cell), NoLock);
		check_persistence(complaints, partition);
		if (partition->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
			check_deferrable(complaints, partition);
		table_close(partition, AccessShareLock);
	}
	list_free(relids);
}

bool
capstan_target_is_remote(Relation rel)
{
	List	   *relids = NIL;
	ListCell   *cell;
	bool		remote = rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;

	if (!remote && (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE || rel->rd_rel->relhassubclass))
		relids = find_all_inheritors(RelationGetRelid(rel), AccessShareLock, NULL);
	foreach(cell, relids)
		remote = remote || get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE;
	list_free(relids);
	return remote;
}

void
capstan_target_check_table(Complaints *complaints, Relation rel)
{
	char		relkind = rel->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE && relkind != RELKIND_FOREIGN_TABLE)
	{
		capstan_map_complain_target(complaints, "\"%s\" is neither an ordinary, a partitioned nor a foreign table.",
									RelationGetRelationName(rel));
		return;
	}
	if (IsCatalogRelation(rel))
		capstan_map_complain_target(complaints, "Table \"%s\" is a system catalog.", RelationGetRelationName(rel));
	check_persistence(complaints, rel);
	if (check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		capstan_map_complain_target(complaints,
									"Row security of table \"%s\" applies to role \"%s\". Use ALTER TABLE ... DISABLE ROW LEVEL SECURITY, or a pipeline owner that it does not apply to.",
									RelationGetRelationName(rel), GetUserNameFromId(GetUserId(), false));
	/* who writes the rows */
	else if (check_enable_rls(RelationGetRelid(rel), rel->rd_rel->relowner, true) == RLS_ENABLED)
		capstan_map_complain_target(complaints,
									"Row security of table \"%s\" applies to its owner, too. Use ALTER TABLE ... NO FORCE ROW LEVEL SECURITY.",
									RelationGetRelationName(rel));
	if (relkind == RELKIND_PARTITIONED_TABLE)
		check_partitions(complaints, rel);
	if (relkind != RELKIND_FOREIGN_TABLE)
		check_deferrable(complaints, rel);
}

void
capstan_target_check_unfed(Complaints *complaints, Relation rel, const bool *fed)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped || fed[i] || !attribute->attnotnull ||
			attribute->atthasdef || attribute->attidentity != '\0' || attribute->attgenerated != '\0')
			continue;
		capstan_map_complain_target(complaints,
									"Target column \"%s\" is NOT NULL, has no default, and no source column feeds it. Give it a default, or drop the column or its NOT NULL.",
									NameStr(attribute->attname));
	}
}

static bool
same_columns(Form_pg_index index, const AttrNumber *attnums, int nkey)
{
	if (index->indnkeyatts != nkey)
		return false;
	for (int i = 0; i < nkey; i++)
	{
		bool		found = false;

		for (int j = 0; j < nkey; j++)
			found = found || index->indkey.values[j] == attnums[i];
		if (!found)
			return false;
	}
	return true;
}

static bool
has_nondeterministic_collation(HeapTuple indextuple, int nkey)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, indextuple, Anum_pg_index_indcollation, &isnull);
	oidvector  *collations = (oidvector *) DatumGetPointer(datum);

	for (int i = 0; i < nkey; i++)
		if (OidIsValid(collations->values[i]) && !get_collation_isdeterministic(collations->values[i]))
			return true;
	return false;
}

/* Does the index take for equal what the columns' types do?  The operator class of another type may not: bpchar_ops on a text ignores blanks. */
static bool
has_equality_of_types(HeapTuple indextuple, Relation rel, int nkey)
{
	Form_pg_index index = (Form_pg_index) GETSTRUCT(indextuple);
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, indextuple, Anum_pg_index_indclass, &isnull);
	oidvector  *classes = (oidvector *) DatumGetPointer(datum);

	for (int i = 0; i < nkey; i++)
	{
		Oid			type = getBaseType(TupleDescAttr(RelationGetDescr(rel), index->indkey.values[i] - 1)->atttypid);
		Oid			family = get_opclass_family(classes->values[i]);
		Oid			input = get_opclass_input_type(classes->values[i]);

		if (get_opfamily_member(family, input, input, BTEqualStrategyNumber) != lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr)
			return false;
	}
	return true;
}

/* NULL: usable.  Else why not, as the end of a sentence that begins with the index. */
static const char *
why_not_usable(HeapTuple indextuple, Relation rel, int nkey)
{
	Form_pg_index index = (Form_pg_index) GETSTRUCT(indextuple);

	if (!index->indisvalid || !index->indisready || !index->indislive)
		return "is not valid";
	if (!index->indimmediate)
		return "is deferrable";
	if (!heap_attisnull(indextuple, Anum_pg_index_indpred, NULL))
		return "is partial";
	if (has_nondeterministic_collation(indextuple, nkey))
		return "has a nondeterministic collation";
	if (!has_equality_of_types(indextuple, rel, nkey))
		return "has an operator class with another equality than the columns' types";
	return NULL;
}

/* "id, n": the columns, for messages. */
static char *
column_list(Relation rel, const AttrNumber *attnums, int nkey)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < nkey; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(rel), attnums[i] - 1)->attname)));
	return buf.data;
}

Oid
capstan_target_find_key_index(Complaints *complaints, Relation rel, const AttrNumber *attnums, int nkey)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *cell;
	Oid			result = InvalidOid;
	StringInfoData reasons;

	initStringInfo(&reasons);
	foreach(cell, indexes)
	{
		Oid			indexoid = lfirst_oid(cell);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexoid));
		Form_pg_index index;
		const char *reason;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		if (index->indisunique && same_columns(index, attnums, nkey))
		{
			reason = why_not_usable(tuple, rel, nkey);
			if (reason != NULL)
				appendStringInfo(&reasons, " Index \"%s\" %s.", get_rel_name(indexoid), reason);
			else if (!OidIsValid(result) || index->indisprimary)
				result = indexoid;
		}
		ReleaseSysCache(tuple);
	}
	list_free(indexes);

	if (!OidIsValid(result))
		capstan_map_complain_target(complaints,
									"Table \"%s\" has no unique index on just the source's key (%s) that is valid, not deferrable, not partial and without expressions.%s Add PRIMARY KEY (%s).",
									RelationGetRelationName(rel), column_list(rel, attnums, nkey), reasons.data,
									column_list(rel, attnums, nkey));
	pfree(reasons.data);
	return result;
}
