/*
 * direct.c
 *		Changes of plain tables without SPI: the executor's own routines, kept open for a whole group.
 *
 * Called by change.c.  A statement through SPI costs more than the row itself: plan validation, executor start and end, a
 * portal.  Here the target and its indexes are opened once for a group of source transactions, the row is found by its key
 * (findrow.c), and written by the table access method.
 *
 * Same results as the statements, by construction: what a statement would do besides (triggers, rules, partition routing, generated
 * columns, defaults, row security, other nodes) rules a table out, and it keeps its statements.  CHECK and NOT NULL constraints, unique and
 * exclusion constraints, expression indexes are the executor's here as there.
 *
 * A row may be changed again and again in one group: a new command begins where the row was written by the running one (begin_change).  Not with each
 * change, for Postgres remembers each pair of commands that made a row and that took it out again until the transaction ends.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "apply/direct.h"
#include "base/pages.h"
#include "compat.h"

/* Targets that are kept open at a time: each takes some tens of kilobytes. */
#define MOST_WRITERS 100
/* More rows than a page of an index has entries. */
#define MANY_UPDATED 500

bool		capstan_direct_apply = true;

/* Writers that are open now; an ERROR ends the process. */
static List *open_tables = NIL;

static bool
has_foreign_key_triggers_only(const TriggerDesc *triggers)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (RI_FKey_trigger_type(triggers->triggers[i].tgfoid) == RI_TRIGGER_NONE ||
			triggers->triggers[i].tgenabled == TRIGGER_FIRES_ALWAYS || triggers->triggers[i].tgenabled == TRIGGER_FIRES_ON_REPLICA)
			return false;
	return true;
}

bool
apply_direct_is_possible(const ApplyTable *table, Relation relation)
{
	const TableMap *map = table->map;
	TupleDesc	desc = RelationGetDescr(relation);
	int			live = 0;

	if (!capstan_direct_apply || map->nkey == 0 || !OidIsValid(map->key_index))
		return false;
	if (relation->rd_rel->relkind != RELKIND_RELATION || relation->rd_rel->relispartition || relation->rd_rel->relhassubclass ||
		relation->rd_rel->relam != HEAP_TABLE_AM_OID || relation->rd_rel->relrowsecurity || relation->rd_rules != NULL)
		return false;
	if (!has_foreign_key_triggers_only(relation->trigdesc))
		return false;
	if (desc->constr != NULL && (desc->constr->has_generated_stored || COMPAT_HAS_VIRTUAL_COLUMNS(desc->constr)))
		return false;
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			live++;
	/* a statement would be refused: let it be */
	if (pg_class_aclmask(RelationGetRelid(relation), table->table_owner, ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE,
						 ACLMASK_ALL) != (ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE))
		return false;
	return live == map->ncolumns;
}

static void
open_result_relation(DirectWriter *writer)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(writer->relation);
	rte->relkind = writer->relation->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
	writer->estate = CreateExecutorState();
	COMPAT_INIT_RANGE_TABLE(writer->estate, rte);
	writer->result_relation = makeNode(ResultRelInfo);
	InitResultRelInfo(writer->result_relation, writer->relation, 1, NULL, 0);
	ExecOpenIndices(writer->result_relation, false);
}

static DirectWriter *
open_writer(ApplyTable *table)
{
	MemoryContext context;
	MemoryContext caller;
	DirectWriter *writer;

	if (list_length(open_tables) >= MOST_WRITERS)
		apply_direct_close(linitial(open_tables));
	context = AllocSetContextCreate(TopTransactionContext, "capstan direct writer", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	writer = palloc0(sizeof(DirectWriter));
	writer->context = context;
	writer->relation = table_open(table->info->target, NoLock);
	open_result_relation(writer);
	for (int i = 0; i < writer->result_relation->ri_NumIndices; i++)
		if (RelationGetRelid(writer->result_relation->ri_IndexRelationDescs[i]) == table->map->key_index)
			writer->key_index = writer->result_relation->ri_IndexRelationDescs[i];
	if (writer->key_index == NULL)
		elog(ERROR, "key index %u of the target table is gone", table->map->key_index);
	direct_find_init(writer, table->map);
	/* one that keeps a tuple, which is what the table gets: a virtual one would copy the values once more */
	writer->row = MakeSingleTupleTableSlot(RelationGetDescr(writer->relation), &TTSOpsHeapTuple);
	insert_batch_init(writer);

	MemoryContextSwitchTo(TopMemoryContext);
	open_tables = lappend(open_tables, table);
	MemoryContextSwitchTo(caller);
	table->writer = writer;
	return writer;
}

DirectWriter *
direct_writer(ApplyTable *table)
{
	return table->writer != NULL ? table->writer : open_writer(table);
}

void
apply_direct_close(ApplyTable *table)
{
	DirectWriter *writer = table->writer;

	if (writer == NULL)
		return;
	apply_direct_flush(table);
	table->writer = NULL;
	open_tables = list_delete_ptr(open_tables, table);
	insert_batch_end(writer);
	direct_find_end(writer);
	ExecDropSingleTupleTableSlot(writer->row);
	ExecCloseIndices(writer->result_relation);
	FreeExecutorState(writer->estate);
	table_close(writer->relation, NoLock);
	MemoryContextDelete(writer->context);
}

void
capstan_apply_flush(void)
{
	ListCell   *cell;

	foreach(cell, open_tables)
		apply_direct_flush(lfirst(cell));
}

void
apply_direct_close_all(void)
{
	while (open_tables != NIL)
		apply_direct_close(linitial(open_tables));
}

/* The row that was found is about to be changed. */
static void
begin_change(DirectWriter *writer)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(writer->found, false, NULL);

	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
	{
		if (HeapTupleHeaderGetCmin(tuple->t_data) >= GetCurrentCommandId(false))
			CommandCounterIncrement();
		apply_note_rewritten(true);
	}
	writer->was_updated = (tuple->t_data->t_infomask & HEAP_UPDATED) != 0;
}

/* The row that was set, in writer->row. */
static void
fill_row(ApplyTable *table, DirectWriter *writer)
{
	int			natts = RelationGetDescr(writer->relation)->natts;

	ExecClearTuple(writer->row);
	memcpy(writer->row->tts_values, table->values, sizeof(Datum) * natts);
	memcpy(writer->row->tts_isnull, table->isnull, sizeof(bool) * natts);
	ExecStoreVirtualTuple(writer->row);
}

/*
 * As heap_form_tuple() does it, which has its tuple written with zero bytes first: here what is moved is never there twice.
 */
void
direct_form_row(TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	Size		header_size = SizeofHeapTupleHeader;
	Size		size = heap_compute_data_size(desc, slot->tts_values, slot->tts_isnull);
	bool		has_nulls = memchr(slot->tts_isnull, true, desc->natts) != NULL;
	HeapTuple	tuple;
	HeapTupleHeader header;

	if (has_nulls)
		header_size += BITMAPLEN(desc->natts);
	header_size = MAXALIGN(header_size);
	tuple = MemoryContextAlloc(slot->tts_mcxt, HEAPTUPLESIZE + header_size + size);
	capstan_pages_clear(tuple, HEAPTUPLESIZE + header_size + size);
	header = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	tuple->t_len = header_size + size;
	tuple->t_data = header;
	ItemPointerSetInvalid(&tuple->t_self);
	ItemPointerSetInvalid(&header->t_ctid);
	HeapTupleHeaderSetNatts(header, desc->natts);
	header->t_hoff = header_size;
	heap_fill_tuple(desc, slot->tts_values, slot->tts_isnull, (char *) header + header_size, size,
					&header->t_infomask, has_nulls ? header->t_bits : NULL);
	ExecStoreHeapTuple(tuple, slot, true);
}

/*
 * Does this column of the row that was found stay as it is?  Values that the update leaves alone and that lie in the TOAST table stay there, the
 * new row points to them; those that lie compressed in the row are not compressed again, and a document is not read again.  Neither
 * is converted.
 */
static bool
value_stays(DirectWriter *writer, const ColumnMap *column, const SourceChange *change)
{
	TupleTableSlot *found = writer->found;
	int			a = column->attnum - 1;
	const SourceValue *after = &change->after[column->source_index];

	/* rows that are always short are not worth a look */
	if (column->typlen != -1 || !OidIsValid(writer->relation->rd_rel->reltoastrelid) || after->kind == VALUE_NULL)
		return false;
	slot_getsomeattrs(found, column->attnum);
	if (found->tts_isnull[a])
		return false;
	return (after->kind == VALUE_JSON_BINARY || VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(found->tts_values[a])) ||
			VARATT_IS_COMPRESSED(DatumGetPointer(found->tts_values[a]))) &&
		capstan_map_same_value(&change->before[column->source_index], after);
}

/* The after image, in writer->row; what stays is that of writer->found. */
static void
fill_changed_row(ApplyTable *table, DirectWriter *writer, const SourceChange *change)
{
	TableMap   *map = table->map;
	Datum	   *values = writer->row->tts_values;
	bool	   *isnull = writer->row->tts_isnull;
	bool		moves = false;

	ExecClearTuple(writer->row);
	memset(values, 0, sizeof(Datum) * map->natts);
	memset(isnull, true, sizeof(bool) * map->natts);
	for (int i = 0; i < map->ncolumns; i++)
	{
		ColumnMap  *column = &map->columns[i];
		const SourceValue *value = &change->after[column->source_index];
		int			a = column->attnum - 1;

		if (value_stays(writer, column, change))
		{
			values[a] = writer->found->tts_values[a];
			isnull[a] = false;
			continue;
		}
		moves |= capstan_map_value_to_move(column, value, &values[a], &isnull[a]);
	}
	if (moves)
		direct_form_row(writer->row);
	else
		ExecStoreVirtualTuple(writer->row);
	capstan_source_values_forget(change->before, map->nsource);
	capstan_source_values_forget(change->after, map->nsource);
}

static void
check_row(DirectWriter *writer)
{
	writer->row->tts_tableOid = RelationGetRelid(writer->relation);
	if (RelationGetDescr(writer->relation)->constr != NULL)
		ExecConstraints(writer->result_relation, writer->row, writer->estate);
}

static void
end_change(DirectWriter *writer)
{
	ExecClearTuple(writer->row);
	ExecClearTuple(writer->found);
	ResetPerTupleExprContext(writer->estate);
}

/* Between finding a row and changing it somebody else changed it: the group is tried again. */
void
direct_check_result(ApplyTable *table, TM_Result result)
{
	if (result == TM_Ok)
		return;
	if (result == TM_Updated || result == TM_Deleted || result == TM_BeingModified)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a row of the target of %s.%s is changed by somebody else at the same time",
						table->info->source_schema, table->info->source_table)));
	elog(ERROR, "changing a row of a target table gave %d", (int) result);
}

/* Is there a publication to which it could not be told?  Inserts can always. */
static void
check_replica_identity(DirectWriter *writer, bool *checked, CmdType command)
{
	if (!*checked)
		CheckCmdReplicaIdentity(writer->relation, command);
	*checked = true;
}

bool
apply_direct_insert(ApplyTable *table)
{
	DirectWriter *writer = direct_writer(table);

	if (direct_find_row(table, writer))
	{
		ExecClearTuple(writer->found);
		return false;
	}
	fill_row(table, writer);
	check_row(writer);
	table_tuple_insert(writer->relation, writer->row, GetCurrentCommandId(true), 0, NULL);
	if (writer->result_relation->ri_NumIndices > 0)
		(void) COMPAT_INSERT_INDEX_TUPLES(writer->result_relation, writer->row, writer->estate);
	end_change(writer);
	return true;
}

/*
 * An index that is told that an update leaves its columns alone looks for entries of dead versions before it splits a page.  For the key's that is so
 * with each update, but where many rows have been updated for the first time, and all at once, there are none yet: the
 * versions before go with this group.
 */
static bool
may_have_dead_entries(const DirectWriter *writer)
{
	return writer->was_updated || writer->nupdated < MANY_UPDATED;
}

#if COMPAT_HAS_UNCHANGED_HINT
/* Are the index's columns in writer->row what they are in writer->found, byte by byte? */
static bool
leaves_columns_alone(DirectWriter *writer, const IndexInfo *index)
{
	TupleDesc	desc = RelationGetDescr(writer->relation);

	for (int i = 0; i < index->ii_NumIndexKeyAttrs; i++)
	{
		AttrNumber	number = index->ii_IndexAttrNumbers[i];
		Form_pg_attribute attribute;
		bool		was_null;
		bool		is_null;
		Datum		before;
		Datum		after;

		/* an expression */
		if (number <= 0)
			return false;
		attribute = TupleDescAttr(desc, number - 1);
		before = slot_getattr(writer->found, number, &was_null);
		after = slot_getattr(writer->row, number, &is_null);
		if (was_null != is_null || (!is_null && !datumIsEqual(before, after, attribute->attbyval, attribute->attlen)))
			return false;
	}
	return true;
}
#endif

/*
 * Of the row that was updated, and did not find room beside its old version.  The key is the one by which the old version was
 * found, which is ours now: nobody else can have a row with it, so the key's index need not look.
 */
static void
insert_index_entries(DirectWriter *writer, COMPAT_UPDATE_INDEXES update_indexes)
{
	ResultRelInfo *others = &writer->batch.others;

	if (COMPAT_UPDATES_ALL_INDEXES(update_indexes))
		(void) insert_key_entry(writer, writer->row, UNIQUE_CHECK_NO, may_have_dead_entries(writer));
	if (others->ri_NumIndices == 0)
		return;
#if COMPAT_HAS_UNCHANGED_HINT
	/* the executor would find out from the statement, once; here it is told row by row */
	for (int i = 0; i < others->ri_NumIndices; i++)
	{
		IndexInfo  *index = others->ri_IndexRelationInfo[i];

		index->ii_CheckedUnchanged = true;
		index->ii_IndexUnchanged = leaves_columns_alone(writer, index);
	}
#endif
	(void) COMPAT_INSERT_INDEX_TUPLES_OF_UPDATE(others, writer->row, writer->estate, update_indexes);
}

/* writer->row in place of writer->found. */
static void
update_found(ApplyTable *table, DirectWriter *writer)
{
	TM_FailureData failure;
	LockTupleMode lockmode;
	COMPAT_UPDATE_INDEXES update_indexes;

	check_row(writer);
	begin_change(writer);
	direct_check_result(table, table_tuple_update(writer->relation, &writer->found->tts_tid, writer->row, GetCurrentCommandId(true),
										   InvalidSnapshot, InvalidSnapshot, true, &failure, &lockmode, &update_indexes));
	direct_note_written(writer, &writer->row->tts_tid);
	if (COMPAT_UPDATES_INDEXES(update_indexes))
		insert_index_entries(writer, update_indexes);
	writer->nupdated++;
	end_change(writer);
}

bool
apply_direct_update(ApplyTable *table)
{
	DirectWriter *writer = direct_writer(table);

	check_replica_identity(writer, &writer->may_update, CMD_UPDATE);
	if (!direct_find_row(table, writer))
		return false;
	fill_row(table, writer);
	update_found(table, writer);
	return true;
}

bool
apply_direct_change(ApplyTable *table, const SourceChange *change)
{
	DirectWriter *writer = direct_writer(table);

	check_replica_identity(writer, &writer->may_update, CMD_UPDATE);
	apply_set_key(table, change->after);
	if (!direct_find_row(table, writer))
		return false;
	fill_changed_row(table, writer, change);
	update_found(table, writer);
	return true;
}

bool
apply_direct_delete(ApplyTable *table)
{
	DirectWriter *writer = direct_writer(table);
	TM_FailureData failure;

	check_replica_identity(writer, &writer->may_delete, CMD_DELETE);
	if (!direct_find_row(table, writer))
		return false;
	begin_change(writer);
	direct_check_result(table, table_tuple_delete(writer->relation, &writer->found->tts_tid, GetCurrentCommandId(true),
										   InvalidSnapshot, InvalidSnapshot, true, &failure, false));
	end_change(writer);
	return true;
}
