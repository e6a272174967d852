/*
 * partialchange.c
 *		A change whose row images lack columns (binlog_row_image = MINIMAL, NOBLOB), or have differences to JSON documents
 *		that are not in them (binlog_row_value_options = PARTIAL_JSON besides).
 *
 * Called by the pipeline worker like capstan_apply_change, for rows events that are not full.
 *
 *	 insert		a column that is absent has its constant default, noted when the pipeline started
 *	 delete		the key is enough
 *	 update		what is absent in the after image is unchanged: taken from the before image where it
 *				is there; else only the columns at hand are set, in the row found by the old key;
 *				differences are applied to the document in that row
 *
 * What cannot be known is never guessed: a row that has to be put as a whole, but of
 * which columns are absent, is an ERROR, except while the row's range is still to be copied,
 * which then brings it.
 *
 * Why the document in the target's row is the one that the differences were made for: a row that is there, and that the gate
 * lets changes through to, equals the source's at the stream's position (design section 6: the target is a subset of the source at each
 * boundary, and inside a source transaction all of its earlier changes are applied already).  And why what comes out is what the whole new
 * document would have become: json and text keep MySQL's text, and a container's text is made of its members' texts; jsonb writes
 * out each number, string and name so that it reads it back as the same, its members are in MySQL's order, and the nul_bytes policy
 * acts on each string by itself, never on a name.
 */
#include "postgres.h"

#include "access/relation.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply/internal.h"
#include "errcodes.h"

/* Kept for so many different sets of columns per table. */
#define MOST_PLANS 64

typedef struct PartialPlan
{
	bool	   *set;			/* by mapped column: is it set? */
	SPIPlanPtr	plan;			/* $1..$n: new values, $n+1..: old key */
} PartialPlan;

static void
raise_image(ApplyTable *table, const char *column, const char *why)
{
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_ROW_IMAGE),
			 errmsg("a row of %s.%s was logged without all that is needed", table->info->source_schema, table->info->source_table),
			 column == NULL ? errdetail("%s.", why) : errdetail("Column %s: %s.", column, why),
			 errhint("binlog_row_image = FULL on the source, in every session, avoids this; then call capstan.resync_table().")));
}

/* The text of a document in the target's row: what the type's output function writes. */
static SourceBytes
document_text(const ColumnMap *column, Datum value)
{
	SourceBytes text;
	Oid			output;
	bool		is_varlena;

	getTypeOutputInfo(column->typid, &output, &is_varlena);
	text.data = OidOutputFunctionCall(output, value);
	text.length = strlen(text.data);
	return text;
}

static void
check_key(ApplyTable *table, const SourceValue *row)
{
	TableMap   *map = table->map;

	for (int i = 0; i < map->nkey; i++)
	{
		const ColumnMap *column = &map->columns[map->key[i]];

		if (row[column->source_index].kind == VALUE_ABSENT)
			raise_image(table, column->source->name, "the key is not in the image");
	}
}

/* The inserted row with its defaults. */
static void
apply_insert(ApplyTable *table, const SourceChange *change)
{
	int			n = change->table->ncolumns;
	SourceValue *row = palloc(sizeof(SourceValue) * n);
	SourceValue *defaults = table->info->defaults == NULL ? NULL : capstan_map_decode_row(table->info->defaults, n);
	SourceChange full = *change;

	for (int i = 0; i < n; i++)
	{
		row[i] = change->after[i];
		if (row[i].kind != VALUE_ABSENT)
			continue;
		if (defaults == NULL || defaults[i].kind == VALUE_ABSENT)
			raise_image(table, change->table->columns[i].name, "it is absent in an inserted row and its default is not known");
		row[i] = defaults[i];
	}
	full.after = row;
	capstan_apply_change(table, &full);
}

void
apply_drop_partial_plans(ApplyTable *table)
{
	ListCell   *cell;

	foreach(cell, table->partial_plans)
	{
		PartialPlan *partial = lfirst(cell);

		SPI_freeplan(partial->plan);
		pfree(partial->set);
		pfree(partial);
	}
	list_free(table->partial_plans);
	table->partial_plans = NIL;
}

static SPIPlanPtr
make_plan(ApplyTable *table, const bool *set)
{
	TableMap   *map = table->map;
	Relation	relation = relation_open(map->relid, NoLock);
	Oid		   *types = palloc(sizeof(Oid) * (map->ncolumns + map->nkey));
	StringInfoData sql;
	int			nset = 0;
	SPIPlanPtr	plan;

	initStringInfo(&sql);
	appendStringInfo(&sql, "UPDATE %s SET ",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)), RelationGetRelationName(relation)));
	for (int i = 0; i < map->ncolumns; i++)
	{
		types[i] = map->columns[i].typid;
		if (set[i])
			appendStringInfo(&sql, "%s%s = $%d", nset++ > 0 ? ", " : "",
							 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation), map->columns[i].attnum - 1)->attname)), i + 1);
	}
	for (int i = 0; i < map->nkey; i++)
	{
		const ColumnMap *column = &map->columns[map->key[i]];

		types[map->ncolumns + i] = column->typid;
		appendStringInfoString(&sql, i > 0 ? " AND " : " WHERE ");
		apply_append_key_equals(&sql, column, relation, map->ncolumns + i + 1);
	}
	plan = apply_keep_plan(sql.data, map->ncolumns + map->nkey, types);
	relation_close(relation, NoLock);
	return plan;
}

static SPIPlanPtr
find_plan(ApplyTable *table, const bool *set)
{
	int			ncolumns = table->map->ncolumns;
	PartialPlan *partial;
	MemoryContext caller;
	ListCell   *cell;

	foreach(cell, table->partial_plans)
	{
		partial = lfirst(cell);
		if (memcmp(partial->set, set, sizeof(bool) * ncolumns) == 0)
			return partial->plan;
	}
	if (list_length(table->partial_plans) >= MOST_PLANS)
		apply_drop_partial_plans(table);
	caller = MemoryContextSwitchTo(table->map->context);
	partial = palloc(sizeof(PartialPlan));
	partial->set = memcpy(palloc(sizeof(bool) * ncolumns), set, sizeof(bool) * ncolumns);
	MemoryContextSwitchTo(caller);
	partial->plan = make_plan(table, set);
	MemoryContextSwitchTo(table->map->context);
	table->partial_plans = lappend(table->partial_plans, partial);
	MemoryContextSwitchTo(caller);
	return partial->plan;
}

/* The document of one column of the target's row, after its differences. */
static SourceValue
patch_document(ApplyTable *table, const SourceChange *change, const ColumnMap *column, HeapTuple tuple, TupleDesc desc, int field)
{
	const SourceValue *value = &change->after[column->source_index];
	SourceBytes document;
	SourceValue patched;
	StrBuf		text;
	CapstanError error;
	bool		isnull;
	Datum		stored = SPI_getbinval(tuple, desc, field, &isnull);

	if (isnull)
		raise_image(table, column->source->name, "differences to a JSON document were logged, but the target has none there");
	document = document_text(column, stored);
	capstan_strbuf_init(&text);
	if (!change->documents->patch(&document, &value->u.bytes, &text, &error))
		raise_image(table, column->source->name,
					"differences to a JSON document were logged that do not fit the document on the target");
	patched.kind = VALUE_JSON;
	patched.u.bytes.data = text.data;
	patched.u.bytes.length = text.length;
	return patched;
}

/* Differences made documents, in `row`; false if the target does not have the row with the old key. */
static bool
patch_documents(ApplyTable *table, const SourceChange *change, SourceValue *row)
{
	TableMap   *map = table->map;
	SPITupleTable *found;
	bool		is_there;

	apply_set_key(table, change->before);
	is_there = apply_lock_row(table);
	found = SPI_tuptable;
	for (int i = 0; i < map->ncolumns && is_there; i++)
	{
		const ColumnMap *column = &map->columns[i];

		/* should it come again after a crash, it would be applied to its own result */
		if (table->remote && row[column->source_index].kind == VALUE_JSON_DIFFS)
			raise_image(table, column->source->name,
						"differences to a JSON document were logged, and the target is a foreign table; set binlog_row_image = FULL");

		if (row[column->source_index].kind == VALUE_JSON_DIFFS)
			row[column->source_index] = patch_document(table, change, column, found->vals[0], found->tupdesc, i + 1);
	}
	SPI_freetuptable(found);
	return is_there;
}

/* Sets the columns at hand in the row with the old key; returns the number of rows found. */
static uint64
update_some(ApplyTable *table, const SourceValue *old, const SourceValue *row, bool key_changed)
{
	TableMap   *map = table->map;
	int			nargs = map->ncolumns + map->nkey;
	Datum	   *arguments = palloc0(sizeof(Datum) * nargs);
	char	   *nulls = palloc(nargs);
	bool	   *set = palloc0(sizeof(bool) * map->ncolumns);
	bool		any = false;
	bool		isnull;
	MemoryContext caller = CurrentMemoryContext;
	SPIPlanPtr	plan;

	memset(nulls, 'n', nargs);
	for (int i = 0; i < map->ncolumns; i++)
	{
		ColumnMap  *column = &map->columns[i];
		const SourceValue *value = &row[column->source_index];

		if (value->kind == VALUE_ABSENT || (column->in_key && !key_changed))
			continue;
		arguments[i] = column->convert(column, value, &isnull);
		nulls[i] = isnull ? 'n' : ' ';
		set[i] = any = true;
	}
	for (int i = 0; i < map->nkey; i++)
	{
		ColumnMap  *column = &map->columns[map->key[i]];

		arguments[map->ncolumns + i] = column->convert(column, &old[column->source_index], &isnull);
		nulls[map->ncolumns + i] = isnull ? 'n' : ' ';
	}
	if (!any)
		return 1;

	plan = find_plan(table, set);
	if (SPI_execute_plan(plan, arguments, nulls, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "update of a target table returned %s", SPI_result_code_string(SPI_result));
	MemoryContextSwitchTo(caller);
	apply_note_rewritten(false);
	return SPI_processed;
}

/* The same, also if it takes somebody else's leave. */
static bool
update_row(ApplyTable *table, const SourceChange *change, const SourceValue *row, bool key_changed)
{
	if (update_some(table, change->before, row, key_changed) > 0)
		return true;
	apply_set_key(table, change->before);
	return apply_row_appeared(table) && update_some(table, change->before, row, key_changed) > 0;
}

static void
apply_update(ApplyTable *table, const SourceChange *change)
{
	TableMap   *map = table->map;
	int			n = change->table->ncolumns;
	SourceValue *row = palloc(sizeof(SourceValue) * n);
	bool		full = true;
	bool		has_diffs = false;
	bool		key_changed = false;
	bool		before_passes;
	bool		after_passes;

	check_key(table, change->before);
	for (int i = 0; i < n; i++)
	{
		row[i] = change->after[i].kind == VALUE_ABSENT ? change->before[i] : change->after[i];
		if (row[i].kind == VALUE_JSON_DIFFS)
			has_diffs = true;
		if (row[i].kind == VALUE_ABSENT || row[i].kind == VALUE_JSON_DIFFS)
			full = false;
	}
	if (full)
	{
		/* the before image is used for its key alone */
		SourceChange whole = *change;

		whole.after = row;
		capstan_apply_change(table, &whole);
		return;
	}
	for (int i = 0; i < map->nkey; i++)
	{
		int			index = map->columns[map->key[i]].source_index;

		if (!capstan_map_same_value(&change->before[index], &row[index]))
			key_changed = true;
	}
	before_passes = apply_passes_gate(table, change->before);
	after_passes = apply_passes_gate(table, row);
	if (!before_passes && !after_passes)
		return;
	if (before_passes && !after_passes)
	{
		SourceChange gone = *change;

		gone.kind = CHANGE_DELETE;
		gone.after = NULL;
		capstan_apply_change(table, &gone);
		return;
	}
	if (!before_passes)
		raise_image(table, NULL, "its key moved into the part of the table that is copied already, and not all of its columns are there");

	if ((has_diffs && !patch_documents(table, change, row)) ||
		!update_row(table, change, row, key_changed))
	{
		if (apply_is_exact(table))
			raise_image(table, NULL, "the target does not have the row that was changed, and not all of its columns are there to put it");
		if (key_changed)
			raise_image(table, NULL, "the key of a row that is not copied yet was changed, and not all of its columns are there");
		/* not copied yet: its range will bring it */
		return;
	}
	table->counters.updated++;
	table->dirty = true;
}

/* A table without a key: its rows are logged whole, whatever the row image, as they can be found in no other way. */
static bool
may_find_row(ApplyTable *table, const SourceChange *change)
{
	if (apply_waits_for_copy(table))
		return false;
	for (int i = 0; change->before != NULL && i < change->table->ncolumns; i++)
		if (change->before[i].kind == VALUE_ABSENT)
			raise_image(table, change->table->columns[i].name, "the table has no key, and the column is not in the image");
	return true;
}

void
capstan_apply_partial_change(ApplyTable *table, const SourceChange *change)
{
	TableOwnerContext owner;

	if (table->map->nkey == 0 && !may_find_row(table, change))
		return;
	apply_flush_before(table);
	switch (change->kind)
	{
		case CHANGE_INSERT:
			apply_insert(table, change);
			break;
		case CHANGE_DELETE:
			check_key(table, change->before);
			capstan_apply_change(table, change);
			break;
		case CHANGE_UPDATE:
			capstan_apply_enter_owner(table, &owner);
			apply_update(table, change);
			capstan_apply_leave_owner(&owner);
			break;
	}
}
