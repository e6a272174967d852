/*
 * roundplan.c
 *		What the next snapshot round copies: ranges of one table, up to one for each copy worker, or many small
 *		tables at once, each as a whole.
 *
 * Called by the coordinator.  A plan is stored in copied_range, and stays there over a crash: ranges that were planned are
 * planned again, as they are, before new ones.
 *
 * A table counts as small when the source's estimates say so and a look into it agrees that the row of number
 * CAPSTAN_SMALL_TABLE_ROWS + 1 is not there.  A table that could not be locked together with others comes alone, when the others are done.
 * One that could not be locked alone within its time (a prepared XA transaction may hold it for ever) lets all others go first.
 */
#include "postgres.h"

#include "snapshot/readview.h"
#include "worker/copyworker.h"
#include "worker/fault.h"

/* Rows of a range: the first guess for a table, and the least; the most is capstan.max_range_rows, which wins. */
#define FIRST_RANGE_BYTES (8 * 1024 * 1024)
#define LEAST_RANGE_ROWS 500
/* A range grows at most so many times from one round to the next. */
#define RANGE_GROWTH 4

/* The look into small tables waits no longer for their metadata. */
#define LOOK_BOUND_MS 1000

static void
add_range(CopyRun *run, RoundPlan *plan, const PipelineTable *table, int64 seq, bytea **low, bytea **high, int nkey)
{
	CopyRange  *range = palloc0(sizeof(CopyRange));

	range->table_id = table->id;
	range->generation = table->generation;
	range->seq = seq;
	range->low = low;
	range->high = high;
	range->nkey = nkey;
	/* 0 workers: a new pipeline worker has begun, and will end this one */
	range->worker = list_length(plan->ranges) % Max(run->slot->ncopy, 1);
	plan->ranges = lappend(plan->ranges, range);
}

bytea **
capstan_roundplan_boundary(SourceConn *conn, const SourceTable *source, bytea **low, int64 n)
{
	SourceValue *low_values = capstan_copy_decode_bound(source, low);
	SourceValue *values = palloc(sizeof(SourceValue) * source->nkey);
	const SourceColumn **columns = palloc(sizeof(SourceColumn *) * source->nkey);
	SourceCursor *cursor;
	bytea	  **boundary = NULL;

	for (int i = 0; i < source->nkey; i++)
		columns[i] = &source->columns[source->key[i]];
	cursor = capstan_wire_open_cursor(conn, capstan_boundary_select(source, low_values, n), columns, source->nkey);
	if (capstan_wire_fetch(cursor, values))
	{
		boundary = palloc(sizeof(bytea *) * source->nkey);
		for (int i = 0; i < source->nkey; i++)
			boundary[i] = capstan_map_encode_key(columns[i], &values[i]);
		while (capstan_wire_fetch(cursor, values))
			;
	}
	capstan_wire_close_cursor(cursor);
	return boundary;
}

/* What was learned of the table's ranges; at first nothing, but what the source's estimate tells. */
static RangeSize *
range_size(CopyRun *run, const PipelineTable *table)
{
	int64		row_bytes = 200;
	MemoryContext caller;
	RangeSize  *size;
	ListCell   *cell;

	foreach(cell, run->range_sizes)
		if (((RangeSize *) lfirst(cell))->table_id == table->id)
			return lfirst(cell);
	if (table->rows_estimate > 0 && table->bytes_estimate > 0)
		row_bytes = Max(table->bytes_estimate / table->rows_estimate, 1);
	caller = MemoryContextSwitchTo(run->run_context);
	size = palloc(sizeof(RangeSize));
	size->table_id = table->id;
	size->rows = Min(Max(FIRST_RANGE_BYTES / row_bytes, LEAST_RANGE_ROWS), capstan_max_range_rows);
	run->range_sizes = lappend(run->range_sizes, size);
	MemoryContextSwitchTo(caller);
	return size;
}

void
capstan_roundplan_learn(CopyRun *run)
{
	RangeSize  *size = run->planned_size;
	int64		rows;

	if (run->copied_us <= 0 || run->copied_rows <= 0 || size == NULL)
		return;
	rows = (int64) ((double) run->copied_rows * capstan_range_time * 1000.0 / run->copied_us);
	rows = Min(rows, size->rows * RANGE_GROWTH);
	size->rows = Min(Max(rows, LEAST_RANGE_ROWS), capstan_max_range_rows);
}

/*
 * Has the table's metadata until capstan_wire_exec("COMMIT"), so that no query for a boundary waits behind somebody's lock on the table, and all
 * other tables with it.  False: not to be had now.
 */
static bool
pin_table(CopyRun *run, const PipelineTable *table)
{
	capstan_wire_exec(run->lock->helper, "START TRANSACTION READ ONLY");
	if (capstan_readview_pin(run->lock->helper, list_make1(capstan_quoted_table(table->source_schema, table->source_table))))
		return true;
	capstan_wire_exec(run->lock->helper, "COMMIT");
	return false;
}

/* Ranges of one table: those planned before a crash, then new ones, up to one for each worker. */
static void
plan_table(CopyRun *run, RoundPlan *plan, PipelineTable *table)
{
	List	   *ranges = capstan_meta_ranges(table->id, table->generation);
	bytea	  **low = NULL;
	int			nkey = 0;
	int64		seq = META_RANGE_STEP;
	bool		at_end = false;
	ListCell   *cell;
	SourceTable *source;

	foreach(cell, ranges)
	{
		CopyRange  *range = lfirst(cell);

		if (!range->copied)
			add_range(run, plan, table, range->seq, range->low, range->high, range->nkey);
		low = range->high;
		nkey = range->nkey;
		at_end = range->high == NULL;
		seq = (range->seq / META_RANGE_STEP + 1) * META_RANGE_STEP;
	}
	if (!table->key_pageable)
	{
		if (ranges == NIL)
			add_range(run, plan, table, seq, NULL, NULL, 0);
		return;
	}
	if (at_end || list_length(plan->ranges) >= run->slot->ncopy)
		return;

	source = capstan_copy_describe(run, table);
	run->described_table = table->id;
	run->described = source;
	if (!pin_table(run, table))
	{
		plan->blocked = plan->ranges == NIL;
		return;
	}
	run->planned_size = range_size(run, table);
	while (!at_end && list_length(plan->ranges) < run->slot->ncopy)
	{
		bytea	  **high = capstan_roundplan_boundary(run->lock->helper, source, low, run->planned_size->rows);

		nkey = source->nkey;
		add_range(run, plan, table, seq, low, high, nkey);
		seq += META_RANGE_STEP;
		low = high;
		at_end = high == NULL;
	}
	capstan_wire_exec(run->lock->helper, "COMMIT");
}

static void
add_table(RoundPlan *plan, PipelineTable *table)
{
	plan->tables[plan->ntables] = table;
	plan->names[plan->ntables++] = capstan_quoted_table(table->source_schema, table->source_table);
}

/*
 * Leaves those out of the batch that have more rows than the source's estimate says, and has them remembered as large.
 * One that cannot be read now is tried alone, and tells why.
 */
static void
look_into_tables(CopyRun *run, RoundPlan *plan)
{
	int			kept = 0;
	bool	   *large = palloc(sizeof(bool) * plan->ntables);
	bool	   *unread = palloc(sizeof(bool) * plan->ntables);

	capstan_lockbatch_look(run->batch, psprintf("SELECT /*+ MAX_EXECUTION_TIME(%d) */ 1", LOOK_BOUND_MS), plan->names,
						   psprintf("LIMIT 1 OFFSET %d", CAPSTAN_SMALL_TABLE_ROWS), plan->ntables, large, unread);
	for (int i = 0; i < plan->ntables; i++)
	{
		if (unread[i])
			capstan_roundplan_put_alone(run, plan->tables[i]->id);
		else if (large[i])
			plan->large[plan->nlarge++] = plan->tables[i]->id;
		else
		{
			plan->tables[kept] = plan->tables[i];
			plan->names[kept++] = plan->names[i];
		}
	}
	plan->ntables = kept;
}

/* The next small tables; false if there are no two of them. */
static bool
plan_batch(CopyRun *run, RoundPlan *plan)
{
	PipelineTable *tables[CAPSTAN_ROUND_TABLES];
	int			n;

	if (run->no_small_tables)
		return false;
	n = capstan_window_next(run, tables, run->most_tables);
	run->no_small_tables = n == 0;
	for (int i = 0; i < n; i++)
		add_table(plan, tables[i]);
	if (n > 1)
		look_into_tables(run, plan);
	if (plan->ntables == 1)
	{
		capstan_roundplan_put_alone(run, plan->tables[0]->id);
		plan->ntables = 0;
	}
	for (int i = 0; i < plan->ntables; i++)
		add_range(run, plan, plan->tables[i], META_RANGE_STEP, NULL, NULL, 0);
	return plan->ntables > 0;
}

void
capstan_roundplan_put_alone(CopyRun *run, int64 table_id)
{
	MemoryContext caller;
	int64	   *id;

	if (capstan_roundplan_is_alone(run, table_id))
		return;
	caller = MemoryContextSwitchTo(run->run_context);
	id = palloc(sizeof(int64));
	*id = table_id;
	run->alone = lappend(run->alone, id);
	MemoryContextSwitchTo(caller);
}

bool
capstan_roundplan_is_alone(const CopyRun *run, int64 table_id)
{
	ListCell   *cell;

	foreach(cell, run->alone)
		if (*(int64 *) lfirst(cell) == table_id)
			return true;
	return false;
}

static DeferredTable *
find_deferred(const CopyRun *run, int64 table_id)
{
	ListCell   *cell;

	foreach(cell, run->deferred)
		if (((DeferredTable *) lfirst(cell))->id == table_id)
			return lfirst(cell);
	return NULL;
}

bool
capstan_roundplan_is_deferred(const CopyRun *run, int64 table_id)
{
	return find_deferred(run, table_id) != NULL;
}

DeferredTable *
capstan_roundplan_defer(CopyRun *run, int64 table_id)
{
	DeferredTable *table = find_deferred(run, table_id);

	if (table == NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(run->run_context);

		table = palloc0(sizeof(DeferredTable));
		table->id = table_id;
		run->deferred = lappend(run->deferred, table);
		MemoryContextSwitchTo(caller);
	}
	table->waits = true;
	return table;
}

void
capstan_roundplan_had(CopyRun *run, int64 table_id)
{
	DeferredTable *table = find_deferred(run, table_id);

	if (table == NULL)
		return;
	run->deferred = list_delete_ptr(run->deferred, table);
	pfree(table);
}

/* The next table that could not be locked with others; NULL: there is none. */
static PipelineTable *
next_alone(CopyRun *run)
{
	while (run->alone != NIL)
	{
		PipelineTable *table = capstan_meta_uncopied_table(*(int64 *) linitial(run->alone));

		pfree(linitial(run->alone));
		run->alone = list_delete_first(run->alone);
		if (table != NULL)
			return table;
	}
	return NULL;
}

/*
 * The next table that is not copied; those whose lock was not had come when only such are left.  NULL: there is none.  Large ones take turns, round by
 * round: one to which rows are appended faster than they are copied has no end, and the others must not wait for that.
 */
static PipelineTable *
next_uncopied(CopyRun *run)
{
	List	   *tables = capstan_meta_uncopied_tables(run->pipeline->id, CAPSTAN_SMALL_TABLE_ROWS, CAPSTAN_SMALL_TABLE_BYTES,
													 run->last_turn, list_length(run->deferred) + 1);
	ListCell   *cell;

	foreach(cell, tables)
	{
		DeferredTable *table = find_deferred(run, ((PipelineTable *) lfirst(cell))->id);

		if (table == NULL || !table->waits)
			return lfirst(cell);
	}
	/* all of them have had their turn: once more */
	foreach(cell, run->deferred)
		((DeferredTable *) lfirst(cell))->waits = false;
	return tables == NIL ? NULL : linitial(tables);
}

/* Ranges of one table; false: nothing is left to copy. */
static bool
plan_alone(CopyRun *run, RoundPlan *plan)
{
	PipelineTable *table = next_alone(run);

	if (table == NULL)
	{
		table = next_uncopied(run);
		run->last_turn = table == NULL ? 0 : table->id;
	}
	if (table == NULL)
		return false;
	add_table(plan, table);
	plan_table(run, plan, table);
	if (plan->ranges == NIL && !plan->blocked)
		elog(ERROR, "table " INT64_FORMAT " is not copied, but has no range left to copy", table->id);
	return true;
}

bool
capstan_roundplan_next(CopyRun *run, RoundPlan *plan)
{
	bool		many;

	memset(plan, 0, sizeof(*plan));
	run->planned_size = NULL;
	plan->tables = palloc(sizeof(PipelineTable *) * CAPSTAN_ROUND_TABLES);
	plan->names = palloc(sizeof(char *) * CAPSTAN_ROUND_TABLES);
	many = plan_batch(run, plan);
	capstan_copy_begin_catalog(run);
	if (!many && !plan_alone(run, plan))
	{
		capstan_copy_commit_catalog(run);
		return false;
	}
	if (plan->blocked)
	{
		capstan_copy_commit_catalog(run);
		return true;
	}
	for (int i = 0; i < plan->nlarge; i++)
		capstan_meta_set_rows_estimate(plan->large[i], CAPSTAN_SMALL_TABLE_ROWS + 1);
	run->round = capstan_meta_last_round(run->pipeline->id) + 1;
	capstan_meta_save_round(run->pipeline->id, run->round, NULL);
	capstan_meta_plan_ranges(plan->ranges, run->round);
	CAPSTAN_FAULT("plan_before_commit");
	capstan_copy_commit_catalog(run);
	return true;
}
