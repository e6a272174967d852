/*
 * findrow.c
 *		The row of a plain table with a given key, as direct.c and insertbatch.c change it.
 *
 * It is found by an index scan with a dirty snapshot, as the apply worker of logical replication does it: it sees what this transaction
 * did, and what others have not committed yet, for which it waits.
 *
 * A statement that changes many rows mostly goes by their key, in the order in which they were inserted, and so do those who work off a queue: the next
 * row lies behind the one before, on the same page.  While that is so, some rows behind it are looked at first, which spares the way
 * down the index, a fifth of the work of an update.  Rows that are updated again and again are where the last update put them; the index
 * would lead past all of their versions of this group, more each time.  The key is unique, so the row that is found either way is the same.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "apply/direct.h"
#include "compat.h"

/* So many rows behind the last one: two sessions of the source that take turns are followed, too. */
#define NEIGHBOURS 8

/* key = argument, in the order of the index's columns */
static void
init_keys(DirectWriter *writer, const TableMap *map)
{
	Relation	index = writer->key_index;
	TupleDesc	desc = RelationGetDescr(writer->relation);

	writer->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	writer->comparable = true;
	for (int i = 0; i < writer->nkeys; i++)
	{
		Oid			type = index->rd_opcintype[i];
		Oid			equals = get_opfamily_member(index->rd_opfamily[i], type, type, BTEqualStrategyNumber);
		Form_pg_attribute attribute = TupleDescAttr(desc, index->rd_index->indkey.values[i] - 1);

		if (!OidIsValid(equals))
			elog(ERROR, "key index %u has no equality operator for column %d", RelationGetRelid(index), i + 1);
		ScanKeyInit(&writer->keys[i], i + 1, BTEqualStrategyNumber, get_opcode(equals), (Datum) 0);
		writer->keys[i].sk_collation = index->rd_indcollation[i];
		for (int j = 0; j < map->ncolumns; j++)
			if (map->columns[j].attnum == index->rd_index->indkey.values[i])
				writer->arguments[i] = j;
		/* what may lie in the TOAST table cannot be looked at while a page is locked */
		if (attribute->attlen <= 0 || attribute->atttypid != type)
			writer->comparable = false;
	}
}

void
direct_find_init(DirectWriter *writer, const TableMap *map)
{
	init_keys(writer, map);
	InitDirtySnapshot(writer->snapshot);
	writer->scan = COMPAT_INDEX_BEGINSCAN(writer->relation, writer->key_index, &writer->snapshot, writer->nkeys);
	writer->found = table_slot_create(writer->relation, NULL);
	ItemPointerSetInvalid(&writer->last);
	writer->in_order = false;
	writer->written = palloc0(sizeof(WrittenRow) * WRITTEN_ROWS);
}

void
direct_find_end(DirectWriter *writer)
{
	index_endscan(writer->scan);
	ExecDropSingleTupleTableSlot(writer->found);
}

static bool
has_key(DirectWriter *writer, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(writer->relation);

	for (int i = 0; i < writer->nkeys; i++)
	{
		ScanKey		key = &writer->keys[i];
		bool		isnull;
		Datum		value = heap_getattr(tuple, writer->key_index->rd_index->indkey.values[i], desc, &isnull);

		if (isnull || !DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, key->sk_argument)))
			return false;
	}
	return true;
}

/* The row with the key if it is close behind the last one, and nobody else is at it.  The page is pruned as an index scan would do it. */
static bool
find_neighbour(DirectWriter *writer)
{
	BlockNumber block = ItemPointerGetBlockNumber(&writer->last);
	OffsetNumber first = OffsetNumberNext(ItemPointerGetOffsetNumber(&writer->last));
	HeapTuple	tuple = &((BufferHeapTupleTableSlot *) writer->found)->base.tupdata;
	Buffer		buffer = ReadBuffer(writer->relation, block);
	Page		page = BufferGetPage(buffer);
	OffsetNumber end;
	bool		found = false;

	ExecClearTuple(writer->found);
	heap_page_prune_opt(writer->relation, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	end = Min(PageGetMaxOffsetNumber(page), first + NEIGHBOURS - 1);
	for (OffsetNumber offset = first; offset <= end && !found; offset = OffsetNumberNext(offset))
	{
		ItemId		item = PageGetItemId(page, offset);

		if (!ItemIdIsNormal(item))
			continue;
		tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple->t_len = ItemIdGetLength(item);
		tuple->t_tableOid = RelationGetRelid(writer->relation);
		ItemPointerSet(&tuple->t_self, block, offset);
		found = has_key(writer, tuple) && HeapTupleSatisfiesVisibility(tuple, &writer->snapshot, buffer);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (found && !TransactionIdIsValid(writer->snapshot.xmin) && !TransactionIdIsValid(writer->snapshot.xmax))
	{
		ExecStorePinnedBufferHeapTuple(tuple, writer->found, buffer);
		return true;
	}
	ReleaseBuffer(buffer);
	return false;
}

static void
set_key(DirectWriter *writer, const Datum *arguments)
{
	writer->key_hash = 0;
	for (int i = 0; i < writer->nkeys; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(writer->key_index), i);

		writer->keys[i].sk_argument = arguments[writer->arguments[i]];
		writer->key_hash = hash_combine(writer->key_hash, datum_image_hash(writer->keys[i].sk_argument, attribute->attbyval, attribute->attlen));
	}
}

static WrittenRow *
written_row(DirectWriter *writer)
{
	return &writer->written[writer->key_hash % WRITTEN_ROWS];
}

void
direct_note_written(DirectWriter *writer, const ItemPointerData *tid)
{
	WrittenRow *written = written_row(writer);

	written->key_hash = writer->key_hash;
	written->tid = *tid;
}

/* The row with the key where it was written, if nobody else is at it.  The page is pruned as an index scan would do it. */
static bool
find_written(DirectWriter *writer)
{
	WrittenRow *written = written_row(writer);
	Buffer		buffer;
	bool		found;

	if (!ItemPointerIsValid(&written->tid) || written->key_hash != writer->key_hash)
		return false;
	ExecClearTuple(writer->found);
	buffer = ReadBuffer(writer->relation, ItemPointerGetBlockNumber(&written->tid));
	heap_page_prune_opt(writer->relation, buffer);
	found = table_tuple_fetch_row_version(writer->relation, &written->tid, (Snapshot) &writer->snapshot, writer->found) &&
		!TransactionIdIsValid(writer->snapshot.xmin) && !TransactionIdIsValid(writer->snapshot.xmax);
	ReleaseBuffer(buffer);
	for (int i = 0; i < writer->nkeys && found; i++)
	{
		ScanKey		key = &writer->keys[i];
		bool		isnull;
		Datum		value = slot_getattr(writer->found, writer->key_index->rd_index->indkey.values[i], &isnull);

		found = !isnull && DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation, value, key->sk_argument));
	}
	if (!found)
		ExecClearTuple(writer->found);
	return found;
}

/* The row found now is close behind the last one, or among the first of the next page. */
static bool
is_in_order(const ItemPointerData *last, const ItemPointerData *now)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(last);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(last);

	if (!ItemPointerIsValid(last))
		return false;
	if (ItemPointerGetBlockNumber(now) == block)
		return ItemPointerGetOffsetNumber(now) > offset && ItemPointerGetOffsetNumber(now) <= offset + NEIGHBOURS;
	return ItemPointerGetBlockNumber(now) == block + 1 && ItemPointerGetOffsetNumber(now) <= NEIGHBOURS;
}

static bool
find_by_index(DirectWriter *writer)
{
	for (;;)
	{
		TransactionId other;
		bool		found;

		index_rescan(writer->scan, writer->keys, writer->nkeys, NULL, 0);
		found = index_getnext_slot(writer->scan, ForwardScanDirection, writer->found);
		other = TransactionIdIsValid(writer->snapshot.xmin) ? writer->snapshot.xmin : writer->snapshot.xmax;
		/* a second pin would keep the page from being pruned by find_neighbour() */
		table_index_fetch_reset(writer->scan->xs_heapfetch);
		if (!found || !TransactionIdIsValid(other))
			return found;
		/* somebody else is at this row */
		ExecClearTuple(writer->found);
		XactLockTableWait(other, NULL, NULL, XLTW_None);
	}
}

bool
direct_find_row(ApplyTable *table, DirectWriter *writer)
{
	/* what the index's code allocates for itself must live as long as the scan */
	MemoryContext caller = MemoryContextSwitchTo(writer->context);
	bool		found;

	set_key(writer, table->arguments);
	found = find_written(writer) || (writer->in_order && find_neighbour(writer));
	if (!found)
	{
		found = find_by_index(writer);
		writer->in_order = found && writer->comparable && is_in_order(&writer->last, &writer->found->tts_tid);
	}
	if (found)
		writer->last = writer->found->tts_tid;
	MemoryContextSwitchTo(caller);
	return found;
}
