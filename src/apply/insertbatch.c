/*
 * insertbatch.c
 *		Inserts into a plain table, written many at a time.
 *
 * Called by change.c, as direct.c is.  An insert is converted and kept; the rows are written together by table_multi_insert (one lock and
 * one WAL record for a page of them) when something else is to be done to the table, when there are enough of them, or
 * at the end of the group.  They may come from several source transactions, which commit together anyway.
 *
 * The target is the same as if each had been written when it came:
 *
 * - The stream changes nothing else in the table meanwhile: its updates and deletes write the batch first, and so do partial images,
 *	 which go through statements.  What it does directly to other tables neither sees these rows nor is seen by them, for no trigger
 *	 runs and foreign keys are not checked (apply_direct_is_possible).  A statement on a table that has triggers or rules may have them
 *	 look here, so before it all that is kept is written.  Nobody else sees the rows before the group commits.
 * - Index entries are made row by row in the order of the inserts, and a row without index entries is met by no
 *	 uniqueness check.
 * - A row whose key is there already is not looked for beforehand: the entry in the key's index is made in the way of
 *	 INSERT .. ON CONFLICT, which says that there may be another one.  Then the row is taken out again and put the
 *	 other way (direct.c), before the next row gets its entries: it waits for other sessions, updates what is
 *	 there, and counts.
 * - Somebody who reads the target's log (logical decoding) would be told of a second row with the key, which a copy of the target has no
 *	 room for.  So where there may be one, the key is looked for beforehand all the same.
 *
 * An error is raised later than the row came.  The group is lost with it either way, and of several whole
 * transactions the one that is to blame is found by applying them one by one (worker/failure.c); capstan_apply_place
 * names the table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "apply/direct.h"
#include "compat.h"

/* Enough that a page's costs are shared by all of its rows; little enough to stay in the processor's cache. */
#define BATCH_ROWS 500
#define BATCH_BYTES (64 * 1024)
/* The context itself lies in its first block. */
#define BLOCK_OVERHEAD 1024

char	   *capstan_apply_place = NULL;

void
insert_batch_init(DirectWriter *writer)
{
	InsertBatch *batch = &writer->batch;
	ResultRelInfo *all = writer->result_relation;
	int			n = 0;

	batch->context = AllocSetContextCreate(writer->context, "capstan insert batch", 0, BATCH_BYTES, BATCH_BYTES);
	batch->slots = palloc0(sizeof(TupleTableSlot *) * BATCH_ROWS);
	batch->others = *all;
	batch->others.ri_IndexRelationDescs = palloc(sizeof(Relation) * all->ri_NumIndices);
	batch->others.ri_IndexRelationInfo = palloc(sizeof(IndexInfo *) * all->ri_NumIndices);
	for (int i = 0; i < all->ri_NumIndices; i++)
	{
		if (all->ri_IndexRelationDescs[i] == writer->key_index)
		{
			batch->key_info = all->ri_IndexRelationInfo[i];
			continue;
		}
		batch->others.ri_IndexRelationDescs[n] = all->ri_IndexRelationDescs[i];
		batch->others.ri_IndexRelationInfo[n++] = all->ri_IndexRelationInfo[i];
	}
	batch->others.ri_NumIndices = n;
}

void
insert_batch_end(DirectWriter *writer)
{
	Assert(writer->batch.nrows == 0);
	for (int i = 0; i < writer->batch.nslots; i++)
		ExecDropSingleTupleTableSlot(writer->batch.slots[i]);
}

void
apply_direct_add(ApplyTable *table, const SourceValue *row)
{
	DirectWriter *writer = direct_writer(table);
	InsertBatch *batch = &writer->batch;
	TupleTableSlot *slot;
	TableOwnerContext owner;
	MemoryContext caller;
	bool		moves;

	if (batch->nrows == batch->nslots)
	{
		caller = MemoryContextSwitchTo(writer->context);
		batch->slots[batch->nslots++] = MakeSingleTupleTableSlot(RelationGetDescr(writer->relation), &TTSOpsHeapTuple);
		MemoryContextSwitchTo(caller);
	}
	slot = batch->slots[batch->nrows];
	ExecClearTuple(slot);
	caller = MemoryContextSwitchTo(batch->context);
	if (table->map->has_domains)
		capstan_apply_enter_owner(table, &owner);
	moves = capstan_map_row_to_move(table->map, row, slot->tts_values, slot->tts_isnull);
	if (table->map->has_domains)
		capstan_apply_leave_owner(&owner);
	if (moves)
		direct_form_row(slot);
	else
		ExecStoreVirtualTuple(slot);
	capstan_source_values_forget(row, table->map->nsource);
	MemoryContextSwitchTo(caller);
	slot->tts_tableOid = RelationGetRelid(writer->relation);
	batch->nrows++;
	/* the first block is always there; what was moved is not in this context */
	if (moves || batch->nrows == BATCH_ROWS || MemoryContextMemAllocated(batch->context, false) > BATCH_BYTES + BLOCK_OVERHEAD)
		apply_direct_flush(table);
}

bool
insert_key_entry(DirectWriter *writer, TupleTableSlot *slot, IndexUniqueCheck check, bool unchanged)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	FormIndexDatum(writer->batch.key_info, slot, writer->estate, values, isnull);
	return index_insert(writer->key_index, values, isnull, &slot->tts_tid, writer->relation, check, unchanged,
						writer->batch.key_info);
}

/* A row of the batch as the one that is set. */
static void
set_row(ApplyTable *table, TupleTableSlot *slot)
{
	TableMap   *map = table->map;

	slot_getallattrs(slot);
	memcpy(table->values, slot->tts_values, sizeof(Datum) * map->natts);
	memcpy(table->isnull, slot->tts_isnull, sizeof(bool) * map->natts);
	apply_set_arguments(table);
}

/* Will our changes be decoded?  Asked when the transaction has its number: who begins to read after that does not read it. */
static bool
has_readers(Relation relation)
{
	int			nslots;
	int			nactive;

	if (!RelationIsLogicallyLogged(relation))
		return false;
	(void) GetTopTransactionId();
	return ReplicationSlotsCountDBSlots(MyDatabaseId, &nslots, &nactive);
}

/*
 * Puts those whose key is there already the other way (direct.c), and returns how many rows are left, at the beginning.  They keep their order, and
 * those that are put do; before the others, which only makes unique values free.
 */
static int
put_known(ApplyTable *table, DirectWriter *writer, int nrows)
{
	TupleTableSlot **slots = writer->batch.slots;
	int			left = 0;

	for (int i = 0; i < nrows; i++)
	{
		TupleTableSlot *slot = slots[i];

		set_row(table, slot);
		if (direct_find_row(table, writer))
		{
			ExecClearTuple(writer->found);
			apply_put_row(table);
			ExecClearTuple(slot);
		}
		else
		{
			slots[i] = slots[left];
			slots[left++] = slot;
		}
	}
	return left;
}

/* A row that was written, but whose key may be there already. */
static void
put_again(ApplyTable *table, DirectWriter *writer, TupleTableSlot *slot)
{
	TM_FailureData failure;

	CommandCounterIncrement();
	direct_check_result(table, table_tuple_delete(writer->relation, &slot->tts_tid, GetCurrentCommandId(true), InvalidSnapshot,
												  InvalidSnapshot, true, &failure, false));
	CommandCounterIncrement();
	/* it keeps the tuple by now, and not the values */
	set_row(table, slot);
	apply_put_row(table);
}

static void
write_rows(ApplyTable *table, DirectWriter *writer, int nrows)
{
	InsertBatch *batch = &writer->batch;
	CommandId	command;

	if (has_readers(writer->relation))
		nrows = put_known(table, writer, nrows);
	if (nrows == 0)
		return;
	command = GetCurrentCommandId(true);
	if (RelationGetDescr(writer->relation)->constr != NULL)
		for (int i = 0; i < nrows; i++)
			ExecConstraints(writer->result_relation, batch->slots[i], writer->estate);
	if (nrows == 1)
		table_tuple_insert(writer->relation, batch->slots[0], command, 0, NULL);
	else
		table_multi_insert(writer->relation, batch->slots, nrows, command, 0, NULL);
	for (int i = 0; i < nrows; i++)
	{
		TupleTableSlot *slot = batch->slots[i];

		if (!insert_key_entry(writer, slot, UNIQUE_CHECK_PARTIAL, false))
			put_again(table, writer, slot);
		else if (batch->others.ri_NumIndices > 0)
			(void) COMPAT_INSERT_INDEX_TUPLES(&batch->others, slot, writer->estate);
		ExecClearTuple(slot);
		ResetPerTupleExprContext(writer->estate);
	}
	CommandCounterIncrement();
}

void
apply_flush_before(ApplyTable *table)
{
	if (table->runs_code)
		capstan_apply_flush();
	else
		apply_direct_flush(table);
}

void
apply_direct_flush(ApplyTable *table)
{
	DirectWriter *writer = table->writer;
	char		place[CAPSTAN_TABLE_TEXT_MAX];
	TableOwnerContext owner;
	MemoryContext caller;
	int			nrows;

	if (writer == NULL || writer->batch.nrows == 0)
		return;
	/* empty from now on, for whoever comes here again while it is written */
	nrows = writer->batch.nrows;
	writer->batch.nrows = 0;
	if (capstan_apply_place != NULL)
	{
		memcpy(place, capstan_apply_place, sizeof(place));
		snprintf(capstan_apply_place, sizeof(place), "%s.%s", table->info->source_schema, table->info->source_table);
	}
	caller = MemoryContextSwitchTo(writer->batch.context);
	capstan_apply_enter_owner(table, &owner);
	write_rows(table, writer, nrows);
	capstan_apply_leave_owner(&owner);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(writer->batch.context);
	if (capstan_apply_place != NULL)
		memcpy(capstan_apply_place, place, sizeof(place));
}
