/*
 * tablewindow.c
 *		The next some thousand small tables to be copied, with what the source says of them, read at once.
 *
 * Used by the coordinator, which plans rounds of many tables from it, and by every copy worker, which reads them as the window
 * describes them.  The source's information_schema costs about as much for one table as for all of a schema, so it must
 * not be asked in every round.
 *
 * A window may be some rounds old.  A definition that was changed since then is found all the same: the change stands in the
 * binary log before G, so the stream meets it before the round's rows are written, and halts (ddlguard.c).
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "worker/copyworker.h"

/* Tables of a window: bounds its memory.  Builds for tests have several windows where others have one. */
#ifdef CAPSTAN_FAULT_POINTS
#define WINDOW_TABLES 40
#else
#define WINDOW_TABLES 2000
#endif
/* So often a table's lock is tried with those of others. */
#define MOST_FAILURES 3

struct TableWindow
{
	MemoryContext context;		/* reset for each window */
	int			ntables;
	PipelineTable **tables;		/* in the order in which they are planned */
	SourceTableInfo **sources;	/* NULL: gone from the source */
	int			next;			/* coordinator: the first one not planned yet */
	int			nagain;			/* coordinator: planned, but not copied; they come first */
	int		   *again;			/* their places */
	int		   *failures;		/* coordinator: so many times a table's lock was not had with others */
};

TableWindow *
capstan_window_create(MemoryContext parent)
{
	TableWindow *window = MemoryContextAllocZero(parent, sizeof(TableWindow));

	window->context = AllocSetContextCreate(parent, "capstan table window", ALLOCSET_DEFAULT_SIZES);
	return window;
}

/* The small tables among those that are not copied. */
static void
load_window(CopyRun *run, TableWindow *window)
{
	MemoryContext round_context = run->round_context;
	List	   *tables;
	List	   *names = NIL;
	ListCell   *cell;

	Assert(window->nagain == 0);
	window->ntables = 0;
	window->next = 0;
	MemoryContextReset(window->context);
	run->round_context = window->context;
	capstan_copy_begin_catalog(run);
	tables = capstan_meta_uncopied_tables(run->pipeline->id, CAPSTAN_SMALL_TABLE_ROWS, CAPSTAN_SMALL_TABLE_BYTES, 0, WINDOW_TABLES);
	capstan_copy_commit_catalog(run);
	window->tables = palloc(sizeof(PipelineTable *) * Max(list_length(tables), 1));
	foreach(cell, tables)
	{
		PipelineTable *table = lfirst(cell);

		if (table->has_ranges || capstan_roundplan_is_alone(run, table->id) || capstan_roundplan_is_deferred(run, table->id) ||
			table->rows_estimate < 0 ||
			table->rows_estimate > CAPSTAN_SMALL_TABLE_ROWS || table->bytes_estimate > CAPSTAN_SMALL_TABLE_BYTES)
			continue;
		window->tables[window->ntables++] = table;
		names = lappend(names, list_make2(table->source_schema, table->source_table));
	}
	window->again = palloc(sizeof(int) * Max(window->ntables, 1));
	window->failures = palloc0(sizeof(int) * Max(window->ntables, 1));
	if (window->ntables > 0)
	{
		List	   *described = capstan_wire_describe_tables(run->conn, names);

		window->sources = palloc(sizeof(SourceTableInfo *) * window->ntables);
		foreach(cell, described)
			window->sources[foreach_current_index(cell)] = lfirst(cell);
	}
	run->round_context = round_context;
	MemoryContextSwitchTo(round_context);
}

int
capstan_window_next(CopyRun *run, PipelineTable **tables, int most)
{
	TableWindow *window = run->window;
	int			n = 0;

	if (window->nagain == 0 && window->next == window->ntables)
		load_window(run, window);
	while (n < most && window->nagain > 0)
		tables[n++] = window->tables[window->again[--window->nagain]];
	while (n < most && window->next < window->ntables)
		tables[n++] = window->tables[window->next++];
	return n;
}

static int
find_table(const TableWindow *window, int64 id)
{
	for (int i = 0; i < window->ntables; i++)
		if (window->tables[i]->id == id)
			return i;
	return -1;
}

bool
capstan_window_again(CopyRun *run, int64 table_id, bool failed)
{
	TableWindow *window = run->window;
	int			i = find_table(window, table_id);

	if (failed && ++window->failures[i] >= MOST_FAILURES)
		return false;
	window->again[window->nagain++] = i;
	return true;
}

void
capstan_window_cover(CopyRun *run, List *tables)
{
	bool		covered = true;
	ListCell   *cell;

	/* the coordinator's own window is the one that it plans from */
	if (run->index == 0)
		return;
	foreach(cell, tables)
		covered = covered && find_table(run->window, ((PipelineTable *) lfirst(cell))->id) >= 0;
	if (!covered)
		load_window(run, run->window);
}

bool
capstan_window_find(const CopyRun *run, int64 table_id, SourceTableInfo **source)
{
	int			i = find_table(run->window, table_id);

	if (i < 0)
		return false;
	*source = run->window->sources[i];
	return true;
}
