/*
 * rangewriter.c
 *		Writing the rows of a copied range.
 *
 * Called by copy workers, one writer at a time, all in one transaction.  Two ways:
 *
 *	 batches	table_multi_insert, for plain tables where no row of the range can be
 *				there yet (an ordered key: the gate kept them out).  A duplicate key then
 *				means a broken premise.
 *	 rows		INSERT .. ON CONFLICT (key) DO NOTHING through SPI, for everything else.  A row that is
 *				there already (the stream brought it, or of a foreign table a copy that was not committed here) must be equal to it, column by column;
 *				a difference is snapshot_inexact.
 *
 * Both run as the owner of the target, whose constraints and index expressions are evaluated.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parse_relation.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "apply/internal.h"
#include "compat.h"
#include "errcodes.h"

/* As COPY does it: enough to pay for the batch, little enough to stay in cache. */
#define BATCH_ROWS 1000
#define BATCH_BYTES (64 * 1024)

struct RangeWriter
{
	ApplyTable *table;
	bool		may_exist;
	bool		batches;
	int64		rows;
	MemoryContext row_context;	/* reset after each row, or batch */
	Relation	relation;

	/* batches */
	EState	   *estate;
	ResultRelInfo *result_relation;
	BulkInsertState bulk;
	CommandId	command;
	TupleTableSlot **slots;
	int			nslots;			/* made */
	int			nrows;			/* filled */
	Size		bytes;
};

/*
 * No code of the table runs but its constraints and index expressions, rows go nowhere else, and every column
 * comes from the source (defaults are the executor's business)?
 */
static bool
can_batch(const TableMap *map, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);
	int			live = 0;

	if (relation->rd_rel->relkind != RELKIND_RELATION || relation->rd_rel->relispartition)
		return false;
	if (relation->trigdesc != NULL || relation->rd_rules != NULL)
		return false;
	if (desc->constr != NULL && (desc->constr->has_generated_stored || COMPAT_HAS_VIRTUAL_COLUMNS(desc->constr)))
		return false;
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			live++;
	return live == map->ncolumns;
}

/* The executor's view of the target, good for index entries and constraint checks. */
static void
init_executor(RangeWriter *writer)
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

RangeWriter *
capstan_range_writer_begin(ApplyTable *table, bool may_exist)
{
	RangeWriter *writer = palloc0(sizeof(RangeWriter));

	writer->table = table;
	writer->may_exist = may_exist;
	writer->relation = table_open(table->info->target, RowExclusiveLock);
	writer->row_context = AllocSetContextCreate(CurrentMemoryContext, "capstan range rows", ALLOCSET_DEFAULT_SIZES);
	writer->batches = !may_exist && can_batch(table->map, writer->relation);
	if (writer->batches)
	{
		init_executor(writer);
		writer->bulk = GetBulkInsertState();
		writer->command = GetCurrentCommandId(true);
		writer->slots = palloc0(sizeof(TupleTableSlot *) * BATCH_ROWS);
	}
	else
		apply_need_plans(table);
	return writer;
}

static void
insert_batch(RangeWriter *writer)
{
	bool		constrained = RelationGetDescr(writer->relation)->constr != NULL;

	if (constrained)
		for (int i = 0; i < writer->nrows; i++)
			ExecConstraints(writer->result_relation, writer->slots[i], writer->estate);
	table_multi_insert(writer->relation, writer->slots, writer->nrows, writer->command, 0, writer->bulk);
	for (int i = 0; i < writer->nrows; i++)
	{
		if (writer->result_relation->ri_NumIndices > 0)
			(void) COMPAT_INSERT_INDEX_TUPLES(writer->result_relation, writer->slots[i], writer->estate);
		ExecClearTuple(writer->slots[i]);
		ResetPerTupleExprContext(writer->estate);
	}
}

static void
flush_batch(RangeWriter *writer)
{
	MemoryContext caller = CurrentMemoryContext;
	TableOwnerContext owner;

	if (writer->nrows == 0)
		return;
	MemoryContextSwitchTo(writer->row_context);
	capstan_apply_enter_owner(writer->table, &owner);
	PG_TRY();
	{
		insert_batch(writer);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		char	   *constraint;

		if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		constraint = error->constraint_name == NULL ? "?" : error->constraint_name;
		if (writer->table->info->shared)
			apply_raise_shared(writer->table, constraint);
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_INEXACT),
				 errmsg("a row that is copied meets another one in unique index \"%s\" of the target", constraint),
				 errdetail("Table %s.%s: nothing in the range was there before, and the source holds no two such rows.",
						   writer->table->info->source_schema, writer->table->info->source_table),
				 errhint("Something else writes to the target table, or its unique index is stricter than the source's.")));
	}
	PG_END_TRY();
	capstan_apply_leave_owner(&owner);
	MemoryContextSwitchTo(caller);
	MemoryContextReset(writer->row_context);
	writer->nrows = 0;
	writer->bytes = 0;
}

/* Bytes a row takes, roughly: what bounds the memory of a batch. */
static Size
row_bytes(ApplyTable *table)
{
	TableMap   *map = table->map;
	Size		bytes = 0;

	for (int i = 0; i < map->ncolumns; i++)
	{
		AttrNumber	attnum = map->columns[i].attnum;

		if (!table->isnull[attnum - 1])
			bytes += datumGetSize(table->values[attnum - 1], map->columns[i].typbyval, map->columns[i].typlen);
	}
	return bytes;
}

static void
add_to_batch(RangeWriter *writer, const SourceValue *row)
{
	ApplyTable *table = writer->table;
	TupleTableSlot *slot;
	TableOwnerContext owner;
	MemoryContext caller;

	if (writer->nrows == writer->nslots)
		writer->slots[writer->nslots++] = table_slot_create(writer->relation, NULL);
	slot = writer->slots[writer->nrows];
	ExecClearTuple(slot);

	caller = MemoryContextSwitchTo(writer->row_context);
	if (table->map->has_domains)
		capstan_apply_enter_owner(table, &owner);
	capstan_map_row(table->map, row, slot->tts_values, slot->tts_isnull);
	if (table->map->has_domains)
		capstan_apply_leave_owner(&owner);
	memcpy(table->values, slot->tts_values, sizeof(Datum) * table->map->natts);
	memcpy(table->isnull, slot->tts_isnull, sizeof(bool) * table->map->natts);
	capstan_source_values_forget(row, table->map->nsource);
	MemoryContextSwitchTo(caller);

	ExecStoreVirtualTuple(slot);
	writer->nrows++;
	writer->bytes += row_bytes(table);
	if (writer->nrows >= BATCH_ROWS || writer->bytes >= BATCH_BYTES)
		flush_batch(writer);
}

/* The row that is there must be what we were about to write. */
static void
check_equal(ApplyTable *table)
{
	TableMap   *map = table->map;
	HeapTuple	tuple;
	TupleDesc	desc;

	if (apply_execute(table, table->select, SPI_OK_SELECT) != 1)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_INEXACT),
				 errmsg("a row that is copied can neither be inserted nor found in the target"),
				 errdetail("Table %s.%s.", table->info->source_schema, table->info->source_table),
				 errhint("A trigger or rule of the target table may suppress or redirect it.")));
	tuple = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	for (int i = 0; i < map->ncolumns; i++)
	{
		bool		isnull;
		Datum		there = SPI_getbinval(tuple, desc, i + 1, &isnull);
		bool		same;

		if (isnull || table->nulls[i] == 'n')
			same = isnull && table->nulls[i] == 'n';
		else
			same = datum_image_eq(there, table->arguments[i], map->columns[i].typbyval, map->columns[i].typlen);
		if (!same)
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_INEXACT),
					 errmsg("a row that is copied differs from the one that is already in the target"),
					 errdetail("Table %s.%s, column %s.", table->info->source_schema, table->info->source_table,
							   map->columns[i].source->name),
					 errhint("Something else writes to the target table, or the source does not log all of its changes.")));
	}
	SPI_freetuptable(SPI_tuptable);
}

void
capstan_range_writer_put(RangeWriter *writer, const SourceValue *row)
{
	ApplyTable *table = writer->table;

	writer->rows++;
	if (writer->batches)
		add_to_batch(writer, row);
	else
	{
		MemoryContext caller = MemoryContextSwitchTo(writer->row_context);
		TableOwnerContext owner;

		capstan_apply_enter_owner(table, &owner);
		apply_set_row(table, row);
		capstan_source_values_forget(row, table->map->nsource);
		if (!apply_insert_row(table))
		{
			if (table->info->shared)
				apply_raise_shared(table, NULL);
			check_equal(table);
		}
		capstan_apply_leave_owner(&owner);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(writer->row_context);
	}
}

int64
capstan_range_writer_end(RangeWriter *writer)
{
	int64		rows = writer->rows;

	if (writer->batches)
	{
		flush_batch(writer);
		for (int i = 0; i < writer->nslots; i++)
			ExecDropSingleTupleTableSlot(writer->slots[i]);
		FreeBulkInsertState(writer->bulk);
		table_finish_bulk_insert(writer->relation, 0);
		ExecCloseIndices(writer->result_relation);
		FreeExecutorState(writer->estate);
		CommandCounterIncrement();
	}
	table_close(writer->relation, NoLock);
	MemoryContextDelete(writer->row_context);
	pfree(writer);
	return rows;
}
