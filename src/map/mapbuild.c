/*
 * mapbuild.c
 *		Builds the TableMap of a source table and a target, and converts rows by it.
 *
 * Building is the only time that the catalog is read; converting a value afterwards looks
 * nothing up (except to name things in an error).  Whoever keeps a map across transactions
 * rebuilds it after an invalidation of the target, and when the source table's signature or labels change: labels
 * are read from the copy of the SourceTable that is made here.
 *
 * Generated columns: the table map of the binary log does not tell them (SourceTable.table_id
 * is not 0 then).  A target column that Postgres generates is left out when the source column is generated, or
 * cannot be asked; the schema was asked when the table was captured.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/collation.h"
#include "compat.h"
#include "errcodes.h"
#include "map/internal.h"

/* ---- the copy of the source table ---- */

static char *
copy_string(const char *string)
{
	return string != NULL ? pstrdup(string) : NULL;
}

static void
copy_column(SourceColumn *column)
{
	SourceBytes *labels = column->labels;

	column->name = copy_string(column->name);
	column->other_name = copy_string(column->other_name);
	column->labels = (SourceBytes *) palloc0(sizeof(SourceBytes) * Max(column->nlabels, 1));
	for (int i = 0; i < column->nlabels; i++)
	{
		char	   *data = (char *) palloc(labels[i].length + 1);

		if (labels[i].length > 0)
			memcpy(data, labels[i].data, labels[i].length);
		data[labels[i].length] = '\0';
		column->labels[i].data = data;
		column->labels[i].length = labels[i].length;
	}
}

static SourceTable *
copy_source_table(const SourceTable *source)
{
	SourceTable *copy = (SourceTable *) palloc(sizeof(SourceTable));

	*copy = *source;
	copy->schema_name = copy_string(source->schema_name);
	copy->table_name = copy_string(source->table_name);
	copy->columns = (SourceColumn *) palloc0(sizeof(SourceColumn) * Max(source->ncolumns, 1));
	copy->key = (int *) palloc0(sizeof(int) * Max(source->nkey, 1));
	for (int i = 0; i < source->ncolumns; i++)
	{
		copy->columns[i] = source->columns[i];
		copy_column(&copy->columns[i]);
	}
	for (int i = 0; i < source->nkey; i++)
		copy->key[i] = source->key[i];
	/* of no use here */
	copy->key_name = NULL;
	copy->key_descends = NULL;
	return copy;
}

/* ---- one column ---- */

static bool
is_key_column(const SourceTable *source, int index)
{
	for (int i = 0; i < source->nkey; i++)
		if (source->key[i] == index)
			return true;
	return false;
}

/* ' (the target has a column "id")' if only the case differs. */
static char *
similar_name(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (!attribute->attisdropped && pg_strcasecmp(NameStr(attribute->attname), name) == 0)
			return psprintf(" (names are compared exactly: it has a column \"%s\")", NameStr(attribute->attname));
	}
	return pstrdup("");
}

static Form_pg_attribute
find_attribute(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0)
			return attribute;
	}
	return NULL;
}

static void
prepare_labels(ColumnMap *column)
{
	const SourceColumn *source = column->source;
	ColumnPrivate *private = column_private(column);

	private->label_texts = (text **) palloc0(sizeof(text *) * Max(source->nlabels, 1));
	for (int i = 0; i < source->nlabels; i++)
	{
		TextFault	fault;

		private->label_texts[i] = capstan_charset_to_text(private->charset, source->labels[i].data,
														  source->labels[i].length, &fault);
	}
	if (!type_is_enum(column->basetypid))
		return;
	private->label_oids = (Oid *) palloc0(sizeof(Oid) * (source->nlabels + 1));
	for (int i = 0; i <= source->nlabels; i++)
	{
		char	   *label = i == 0 ? pstrdup("") : text_to_cstring(private->label_texts[i - 1]);

		private->label_oids[i] = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid,
												 ObjectIdGetDatum(column->basetypid), CStringGetDatum(label));
		pfree(label);
	}
}

static void
prepare_private(ColumnMap *column)
{
	const SourceColumn *source = column->source;
	ColumnPrivate *private = (ColumnPrivate *) palloc0(sizeof(ColumnPrivate));
	int			precision;

	column->private_data = private;
	private->source_type = capstan_typemap_source_type(source);
	private->target_type = format_type_with_typemod(column->typid, column->typid == column->basetypid ? column->typmod : -1);
	private->numeric_scale = -1;
	if (column->basetypid == NUMERICOID && column->typmod >= (int32) VARHDRSZ)
		private->numeric_scale = capstan_typemap_numeric_scale(column->typmod, &precision);
	if (capstan_typemap_has_charset(source))
		private->charset = capstan_charset_converter(capstan_collation_charset(source->collation));
	if (source->type == SOURCE_ENUM || source->type == SOURCE_SET)
		prepare_labels(column);
	if (capstan_typemap_is_received(column->basetypid))
		capstan_convert_prepare_receive(column);

	/* Also a domain without constraints: it may get one while the map is in use, and the table would not be told. */
	if (column->typid != column->basetypid)
	{
		private->inner = column->convert;
		column->convert = capstan_convert_domain;
		column->table->has_domains = true;
	}
}

/* A text key is compared by bytes, or two keys of the source could be one on the target. */
static void
check_key_column(Complaints *complaints, Form_pg_attribute attribute, Oid basetypid)
{
	if (capstan_typemap_is_citext(basetypid))
		capstan_map_complain_target(complaints,
									"Key column \"%s\" is of type citext, which takes different keys of the source for one. Use text.",
									NameStr(attribute->attname));
	else if (OidIsValid(attribute->attcollation) && !get_collation_isdeterministic(attribute->attcollation))
		capstan_map_complain_target(complaints,
									"Key column \"%s\" has a nondeterministic collation, which takes different keys of the source for one. Use COLLATE \"C\".",
									NameStr(attribute->attname));
}

/* Fills *column; false: a complaint was made. */
static bool
map_column(Complaints *complaints, ColumnMap *column, const SourceColumn *source, Form_pg_attribute attribute)
{
	const TypePair *pair;
	char	   *misfit;

	column->source = source;
	column->attnum = attribute->attnum;
	column->typid = attribute->atttypid;
	column->typmod = attribute->atttypmod;
	column->basetypid = getBaseTypeAndTypmod(column->typid, &column->typmod);
	column->typbyval = attribute->attbyval;
	column->typlen = attribute->attlen;
	column->not_null = attribute->attnotnull;

	/* Of a type that has no converter at all, the source's checks complain. */
	if (capstan_map_default_type(source) == NULL)
		return false;
	if (column->in_key)
		check_key_column(complaints, attribute, column->basetypid);
	pair = capstan_typemap_find(source, column->basetypid);
	if (pair == NULL)
	{
		capstan_map_complain_target(complaints,
									"Target column \"%s\" is of type %s; MySQL's %s is converted to: %s. Change the column's type.",
									source->name, format_type_with_typemod(attribute->atttypid, attribute->atttypmod),
									capstan_typemap_source_type(source), capstan_typemap_accepted(source));
		return false;
	}
	misfit = capstan_typemap_check(pair, source, column->basetypid, column->typmod);
	if (misfit != NULL)
	{
		capstan_map_complain_target(complaints,
									"Target column \"%s\" of type %s %s. Change the column's type; the default for MySQL's %s is %s.",
									source->name, format_type_with_typemod(attribute->atttypid, attribute->atttypmod),
									misfit, capstan_typemap_source_type(source), capstan_map_default_type(source));
		return false;
	}
	column->convert = capstan_typemap_converter(pair);
	return true;
}

/* ---- the table ---- */

/* Which source column feeds which attribute; complains of those that feed none. */
static void
map_columns(Complaints *complaints, TableMap *map, const SourceTable *source, Relation rel, bool *fed)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < source->ncolumns; i++)
	{
		const SourceColumn *column = &source->columns[i];
		Form_pg_attribute attribute = find_attribute(desc, column->name);
		ColumnMap  *target = &map->columns[map->ncolumns];
		char	   *type = capstan_map_default_type(column);

		if (attribute == NULL)
		{
			capstan_map_complain_target(complaints, "Target table \"%s\" has no column \"%s\"%s. Add it: ALTER TABLE ... ADD COLUMN %s %s.",
										RelationGetRelationName(rel), column->name, similar_name(desc, column->name),
										quote_identifier(column->name), type != NULL ? type : "...");
			continue;
		}
		target->in_key = is_key_column(source, i);
		if (attribute->attgenerated != '\0')
		{
			if (target->in_key)
				capstan_map_complain_target(complaints, "Key column \"%s\" is generated on the target. Make it a plain column.",
											column->name);
			else if (!column->generated && source->table_id == 0)
				capstan_map_complain_target(complaints, "Target column \"%s\" is generated, the source's is not. Make it a plain column.",
											column->name);
			continue;
		}
		/* Of the key it is only the INSERT that gives a value. */
		if (attribute->attidentity == ATTRIBUTE_IDENTITY_ALWAYS && !target->in_key)
			capstan_map_complain_target(complaints,
										"Target column \"%s\" is GENERATED ALWAYS AS IDENTITY, so that no update could give it the source's value. Use ALTER TABLE ... ALTER COLUMN %s SET GENERATED BY DEFAULT.",
										column->name, quote_identifier(column->name));
		target->source_index = i;
		target->table = map;
		fed[attribute->attnum - 1] = true;
		if (map_column(complaints, target, column, attribute))
			map->ncolumns++;
	}
}

static void
map_key(Complaints *complaints, TableMap *map, const SourceTable *source, Relation rel)
{
	AttrNumber *attnums = (AttrNumber *) palloc0(sizeof(AttrNumber) * Max(source->nkey, 1));

	map->key = (int *) palloc0(sizeof(int) * Max(source->nkey, 1));
	for (int i = 0; i < source->nkey; i++)
		for (int j = 0; j < map->ncolumns; j++)
			if (map->columns[j].source_index == source->key[i])
			{
				map->key[map->nkey] = j;
				attnums[map->nkey++] = map->columns[j].attnum;
			}

	if (source->nkey == 0 && capstan_target_is_remote(rel))
		capstan_map_complain_target(complaints,
									"The table has no key, and rows of \"%s\" are on another server: what a crash there or here makes come again could not be told from new rows. Give it a primary key on the source, or use a table of this database.",
									RelationGetRelationName(rel));

	/* A key column that could not be mapped has its complaint; a foreign table has no indexes that are ours to see. */
	if (map->nkey > 0 && map->nkey == source->nkey && rel->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
		map->key_index = capstan_target_find_key_index(complaints, rel, attnums, map->nkey);
	pfree(attnums);
}

/* All in the current memory context, which is the map's. */
static TableMap *
make_map(Complaints *complaints, const SourceTable *original, Oid relid, MapPolicies policies)
{
	TableMap   *map = (TableMap *) palloc0(sizeof(TableMap));
	SourceTable *source = copy_source_table(original);
	Relation	rel;
	bool	   *fed;

	map->context = CurrentMemoryContext;
	map->source_name = psprintf("%s.%s", source->schema_name, source->table_name);
	map->relid = relid;
	map->nsource = source->ncolumns;
	map->policies = policies;
	map->columns = (ColumnMap *) palloc0(sizeof(ColumnMap) * Max(source->ncolumns, 1));

	capstan_map_check_source(complaints, source);
	if (!source->has_names)
		return map;

	/* Not table_open: what is no table gets its complaint like everything else. */
	rel = relation_open(relid, AccessShareLock);
	map->natts = RelationGetNumberOfAttributes(rel);
	fed = (bool *) palloc0(sizeof(bool) * Max(map->natts, 1));
	capstan_target_check_table(complaints, rel);
	map_columns(complaints, map, source, rel, fed);
	capstan_target_check_unfed(complaints, rel, fed);
	map_key(complaints, map, source, rel);
	relation_close(rel, AccessShareLock);

	if (complaints->texts == NIL)
		for (int i = 0; i < map->ncolumns; i++)
			prepare_private(&map->columns[i]);
	pfree(fed);
	return map;
}

TableMap *
capstan_map_build(const SourceTable *source, Oid relid, MapPolicies policies, MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "capstan table map", ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Complaints	complaints = {0};
	TableMap   *map;
	char	   *texts;

	map = make_map(&complaints, source, relid, policies);
	MemoryContextSwitchTo(caller);
	if (complaints.texts == NIL)
		return map;

	texts = capstan_map_join_complaints(complaints.texts);
	MemoryContextDelete(context);
	ereport(ERROR,
			(errcode(complaints.nsource > 0 ? CAPSTAN_ERRCODE_SOURCE_TABLE : CAPSTAN_ERRCODE_TARGET_TABLE),
			 errmsg("source table \"%s.%s\" cannot be replicated into table \"%s\"",
					source->schema_name, source->table_name, get_rel_name(relid)),
			 errdetail("%s", texts)));
}

List *
capstan_map_complaints(const SourceTable *source, Oid relid, MapPolicies policies)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext context = AllocSetContextCreate(caller, "capstan table map check", ALLOCSET_SMALL_SIZES);
	Complaints	complaints = {0};
	List	   *result = NIL;
	ListCell   *cell;

	MemoryContextSwitchTo(context);
	(void) make_map(&complaints, source, relid, policies);
	MemoryContextSwitchTo(caller);
	foreach(cell, complaints.texts)
		result = lappend(result, pstrdup((const char *) lfirst(cell)));
	MemoryContextDelete(context);
	return result;
}

bool
capstan_map_has_labels_of(const TableMap *map, const SourceTable *source)
{
	for (int i = 0; i < map->ncolumns; i++)
	{
		const SourceColumn *ours = map->columns[i].source;
		const SourceColumn *theirs;

		if (map->columns[i].source_index >= source->ncolumns)
			return false;
		theirs = &source->columns[map->columns[i].source_index];
		if (ours->nlabels != theirs->nlabels)
			return false;
		for (int j = 0; j < ours->nlabels; j++)
			if (ours->labels[j].length != theirs->labels[j].length ||
				(ours->labels[j].length > 0 &&
				memcmp(ours->labels[j].data, theirs->labels[j].data, ours->labels[j].length) != 0))
				return false;
	}
	return true;
}

/* ---- rows ---- */

Datum
capstan_map_value(ColumnMap *column, const SourceValue *value, bool *isnull)
{
	Datum		converted = column->convert(column, value, isnull);

	if (*isnull && column->not_null)
		capstan_convert_fail(column, "is NULL and the target column is NOT NULL", "Drop the target column's NOT NULL.");
	return converted;
}

bool
capstan_map_value_to_move(ColumnMap *column, const SourceValue *value, Datum *datum, bool *isnull)
{
	*isnull = false;
	if (value->kind == VALUE_BYTES && value->u.bytes.length >= CAPSTAN_LARGE_VALUE &&
		capstan_map_large_value(column, value, datum))
		return true;
	*datum = capstan_map_value(column, value, isnull);
	return false;
}

static inline bool
map_row(TableMap *map, const SourceValue *row, Datum *values, bool *isnull, bool may_move)
{
	bool		moves = false;

	memset(values, 0, sizeof(Datum) * map->natts);
	memset(isnull, true, sizeof(bool) * map->natts);
	for (int i = 0; i < map->ncolumns; i++)
	{
		ColumnMap  *column = &map->columns[i];
		int			at = column->attnum - 1;

		if (may_move)
			moves |= capstan_map_value_to_move(column, &row[column->source_index], &values[at], &isnull[at]);
		else
			values[at] = capstan_map_value(column, &row[column->source_index], &isnull[at]);
	}
	return moves;
}

void
capstan_map_row(TableMap *map, const SourceValue *row, Datum *values, bool *isnull)
{
	(void) map_row(map, row, values, isnull, false);
}

bool
capstan_map_row_to_move(TableMap *map, const SourceValue *row, Datum *values, bool *isnull)
{
	return map_row(map, row, values, isnull, true);
}
