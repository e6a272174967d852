/*
 * change.c
 *		One change of the stream into its target table, through SPI with kept plans, or directly (direct.c).
 *
 * Called by the pipeline worker for each row change, inside the group's transaction.  Inserts into plain tables are gathered
 * (insertbatch.c).
 *
 * What is written, by design:
 *	 insert		put: INSERT .. ON CONFLICT (key) DO NOTHING, then UPDATE if the key was there
 *	 update		UPDATE by key, and put when no row was there; a changed key (by bytes) is
 *				delete + put
 *	 delete		DELETE by key; a missing row is no error
 *
 * A foreign table has no ON CONFLICT (key): the row is looked for first.  So what its server has committed and this one has not, and
 * what therefore comes again, comes to the same, also where the remote table has no unique index.  That it is no more than the last
 * group: what was written there is followed by a commit here that outlives a crash, before more is written there.
 *
 * A target that is shared with other pipelines (shards): the row of a key belongs to who has inserted it.  An insert that finds its key
 * is an ERROR, so a pipeline that goes on has inserted all that it updates and deletes, and never meets a row of another one.
 *
 * Outside a copy the surprises (a row that was there, a row that was not) are counted.
 *
 * The gate: while a table with an ordered key is being copied, a change of a key outside the
 * copied ranges is left out, for its range will bring it.  Each half of an update
 * meets the gate on its own.  A table without a key waits for its only range as a whole (keyless.c).
 */
#include "postgres.h"

#include "executor/spi.h"
#include "miscadmin.h"

#include "apply/internal.h"
#include "errcodes.h"

/*
 * Rows that the open transaction changes again, before it should be committed: by the direct way 20, which let a page be pruned before it is
 * full; a statement, which does not tell whose row it changed, takes longer itself.
 */
#define MOST_REWRITTEN 500
#define SURELY_REWRITTEN 25

static int	rewritten = 0;

void
apply_note_rewritten(bool sure)
{
	/* one source transaction may go on for more rows than an int counts */
	if (rewritten < MOST_REWRITTEN)
		rewritten += sure ? SURELY_REWRITTEN : 1;
}

bool
capstan_apply_wants_commit(void)
{
	return rewritten >= MOST_REWRITTEN;
}

void
capstan_apply_end_group(void)
{
	apply_direct_close_all();
	rewritten = 0;
}

void
apply_set_row(ApplyTable *table, const SourceValue *row)
{
	capstan_map_row(table->map, row, table->values, table->isnull);
	apply_set_arguments(table);
}

void
apply_set_arguments(ApplyTable *table)
{
	TableMap   *map = table->map;

	for (int i = 0; i < map->ncolumns; i++)
	{
		AttrNumber	attnum = map->columns[i].attnum;

		table->arguments[i] = table->values[attnum - 1];
		table->nulls[i] = table->isnull[attnum - 1] ? 'n' : ' ';
	}
}

void
apply_set_key(ApplyTable *table, const SourceValue *row)
{
	TableMap   *map = table->map;

	memset(table->nulls, 'n', map->ncolumns);
	for (int i = 0; i < map->nkey; i++)
	{
		ColumnMap  *column = &map->columns[map->key[i]];
		bool		isnull;

		table->arguments[map->key[i]] = column->convert(column, &row[column->source_index], &isnull);
		table->nulls[map->key[i]] = isnull ? 'n' : ' ';
	}
}

uint64
apply_execute(ApplyTable *table, SPIPlanPtr plan, int expected)
{
	MemoryContext caller = CurrentMemoryContext;
	int			rc = SPI_execute_plan(plan, table->arguments, table->nulls, false, 0);

	/* SPI leaves us in its procedure's context, which lives until the end of the group */
	MemoryContextSwitchTo(caller);
	if (rc != expected)
		elog(ERROR, "statement on a target table returned %s", SPI_result_code_string(rc));
	if (rc == SPI_OK_UPDATE || rc == SPI_OK_DELETE)
		apply_note_rewritten(false);
	return SPI_processed;
}

bool
apply_lock_row(ApplyTable *table)
{
	apply_need_plans(table);
	while (apply_execute(table, apply_lock_plan(table), SPI_OK_SELECT) == 0)
	{
		bool		is_there;

		SPI_freetuptable(SPI_tuptable);
		is_there = apply_execute(table, table->select, SPI_OK_SELECT) > 0;
		if (!is_there)
			return false;
		SPI_freetuptable(SPI_tuptable);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

bool
apply_row_appeared(ApplyTable *table)
{
	bool		is_there;

	if (table->fires)
		return false;
	is_there = apply_lock_row(table);
	SPI_freetuptable(SPI_tuptable);
	return is_there;
}

bool
apply_insert_row(ApplyTable *table)
{
	bool		is_there;

	if (!table->remote)
		return apply_execute(table, table->insert, SPI_OK_INSERT) > 0;
	is_there = apply_execute(table, table->select, SPI_OK_SELECT) > 0;
	SPI_freetuptable(SPI_tuptable);
	if (is_there)
		return false;
	if (apply_execute(table, table->insert, SPI_OK_INSERT) == 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TARGET_TABLE),
				 errmsg("the server of a foreign table did not take a row"),
				 errdetail("Table %s.%s.", table->info->source_schema, table->info->source_table),
				 errhint("A trigger or rule of the remote table may suppress or redirect it.")));
	return true;
}

void
apply_raise_shared(ApplyTable *table, const char *constraint)
{
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_SHARED_KEY),
			 errmsg("the %s of an inserted row is there already in a target that other pipelines write, too",
					constraint == NULL ? "key" : psprintf("value of unique index \"%s\"", constraint)),
			 errdetail("Table %s.%s. Nothing was overwritten.", table->info->source_schema, table->info->source_table),
			 errhint("Two sources have a row with the same key. If it moves from one to the other, wait until the other pipeline has deleted it; "
					 "else delete it in the other source, or give it another key there. Then call capstan.resume_pipeline().")));
}

/*
 * Without a key, and with a key whose order is not known in a shared table, nothing tells the rows that the copy will bring from
 * those that must not be there.
 */
bool
apply_waits_for_copy(const ApplyTable *table)
{
	return !table->copied && (table->map->nkey == 0 || (table->info->shared && !table->info->key_ordered));
}

bool
apply_passes_gate(ApplyTable *table, const SourceValue *row)
{
	TableMap   *map = table->map;

	if (table->copied)
		return true;
	if (!table->info->key_ordered)
		return !apply_waits_for_copy(table);
	for (int r = 0; r < table->nranges; r++)
	{
		KeyRange   *range = &table->ranges[r];
		bool		above = range->low == NULL;
		bool		within = range->high == NULL;

		for (int i = 0; i < map->nkey && !above; i++)
		{
			ColumnMap  *column = &map->columns[map->key[i]];
			int			order = capstan_map_compare_key(column->source, &row[column->source_index], &range->low[i]);

			if (order < 0)
				break;
			above = order > 0;
		}
		if (!above)
			continue;
		for (int i = 0; i < map->nkey && !within; i++)
		{
			ColumnMap  *column = &map->columns[map->key[i]];
			int			order = capstan_map_compare_key(column->source, &row[column->source_index], &range->high[i]);

			if (order > 0)
				break;
			within = order < 0 || i == map->nkey - 1;
		}
		if (within)
			return true;
	}
	return false;
}

static bool
same_key(TableMap *map, const SourceValue *a, const SourceValue *b)
{
	for (int i = 0; i < map->nkey; i++)
	{
		int			index = map->columns[map->key[i]].source_index;

		if (!capstan_map_same_value(&a[index], &b[index]))
			return false;
	}
	return true;
}

bool
apply_is_exact(ApplyTable *table)
{
	return table->copied || table->info->key_ordered;
}

static bool
insert_row(ApplyTable *table)
{
	if (table->direct)
		return apply_direct_insert(table);
	return apply_insert_row(table);
}

/* The row that was set, into the one with its key. */
static bool
update_row(ApplyTable *table)
{
	if (table->direct)
		return apply_direct_update(table);
	/* a table of key columns alone: there is nothing to set */
	return table->update != NULL && apply_execute(table, table->update, SPI_OK_UPDATE) > 0;
}

/*
 * The row that was set over the one with its key; true: there was none, it was inserted.
 *
 * An update may find no row, and the insert behind it one: somebody else took the row that the update waited for out, and put another one there, or
 * did so between the two.  Then it is begun again.  Triggers and rules may be why nothing was found: what they suppress is not tried again, and where they
 * are those of a partition, of which we do not know, not for ever.
 */
static bool
overwrite(ApplyTable *table)
{
	bool		locked = false;

	for (int i = 0; i < MOST_TRIES; i++)
	{
		if (update_row(table))
			return false;
		/* a trigger of a partition, of which we do not know */
		if (locked)
			return false;
		if (insert_row(table))
			return true;
		if (table->info->shared)
			apply_raise_shared(table, NULL);
		/* of a table of key columns alone nothing is to be updated */
		if (table->fires || (!table->direct && table->update == NULL))
			return false;
		locked = !table->direct && apply_row_appeared(table);
		CHECK_FOR_INTERRUPTS();
	}
	if (table->nparts == 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TARGET_TABLE),
				 errmsg("a row can neither be updated nor inserted in the target"),
				 errdetail("Table %s.%s.", table->info->source_schema, table->info->source_table),
				 errhint("Its unique index may take other keys for equal than the columns' types do.")));
	return false;
}

void
apply_put_row(ApplyTable *table)
{
	if (insert_row(table))
		return;
	if (table->info->shared)
		apply_raise_shared(table, NULL);
	if (apply_is_exact(table))
		table->counters.existing++;
	if (table->fires)
		(void) update_row(table);
	else
		(void) overwrite(table);
}

/* The same where an update, which leaves the key alone, says that a row with it should be there. */
static void
put_updated(ApplyTable *table, const SourceChange *update)
{
	if (table->direct && apply_direct_change(table, update))
		return;
	apply_set_row(table, update->after);
	if (overwrite(table) && apply_is_exact(table))
		table->counters.missing++;
}

/* The row whose key was set; false: there is none. */
static bool
take_out(ApplyTable *table)
{
	/* a scan that does not wait may miss a row that somebody moves behind it, and meets it when it looks again */
	if (table->direct)
		return apply_direct_delete(table) || apply_direct_delete(table);
	if (apply_execute(table, table->delete, SPI_OK_DELETE) > 0)
		return true;
	return apply_row_appeared(table) && apply_execute(table, table->delete, SPI_OK_DELETE) > 0;
}

static void
delete_row(ApplyTable *table, const SourceValue *row)
{
	apply_set_key(table, row);
	if (!take_out(table) && apply_is_exact(table))
		table->counters.missing++;
}

void
capstan_apply_change(ApplyTable *table, const SourceChange *change)
{
	TableOwnerContext owner;
	bool		before_passes = change->before != NULL && apply_passes_gate(table, change->before);
	bool		after_passes = change->after != NULL && apply_passes_gate(table, change->after);

	if (!before_passes && !after_passes)
		return;

	table->map->documents = change->documents;
	if (table->direct && change->kind == CHANGE_INSERT)
	{
		apply_direct_add(table, change->after);
		table->counters.inserted++;
		table->dirty = true;
		return;
	}
	if (!table->direct)
		apply_need_plans(table);
	apply_flush_before(table);
	capstan_apply_enter_owner(table, &owner);
	if (table->map->nkey == 0)
		apply_keyless_change(table, change);
	else if (before_passes && after_passes && same_key(table->map, change->before, change->after))
		put_updated(table, change);
	else
	{
		if (before_passes)
			delete_row(table, change->before);
		if (after_passes)
		{
			apply_set_row(table, change->after);
			if (change->before == NULL)
				capstan_source_values_forget(change->after, table->map->nsource);
			apply_put_row(table);
		}
	}
	capstan_apply_leave_owner(&owner);

	switch (change->kind)
	{
		case CHANGE_INSERT:
			table->counters.inserted++;
			break;
		case CHANGE_UPDATE:
			table->counters.updated++;
			break;
		case CHANGE_DELETE:
			table->counters.deleted++;
			break;
	}
	table->dirty = true;
}
