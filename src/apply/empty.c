/*
 * empty.c
 *		Takes all rows out of target tables again, when a copy that cannot be gone on with starts over.
 *
 * Called by worker/consistentgate.c.  The tables were empty, or were truncated, when the pipeline was created, so all that is in them
 * is ours.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "apply/apply.h"
#include "apply/internal.h"

static char *
qualified_name(const ApplyTable *table)
{
	return capstan_map_relation_name(table->info->target);
}

static void
run(const char *sql, int expected)
{
	int			rc;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	rc = SPI_execute(sql, false, 0);
	if (rc != expected)
		elog(ERROR, "emptying target tables gave %s", SPI_result_code_string(rc));
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
}

/* False where it is not possible: a foreign key of a table that is not among these, a foreign table whose wrapper knows no TRUNCATE. */
static bool
try_truncate(const char *sql)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool		volatile done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		run(sql, SPI_OK_UTILITY);
		ReleaseCurrentSubTransaction();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (error->sqlerrcode != ERRCODE_FEATURE_NOT_SUPPORTED && error->sqlerrcode != ERRCODE_WRONG_OBJECT_TYPE &&
			ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_FDW_ERROR)
			ReThrowError(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return done;
}

/* Tables of one owner, acting as that role: triggers on TRUNCATE and DELETE are its code. */
static void
empty_tables_of_owner(List *tables)
{
	TableOwnerContext saved;
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, tables)
		appendStringInfo(&sql, "%s%s", sql.len == 0 ? "TRUNCATE " : ", ", qualified_name(lfirst(cell)));
	capstan_apply_enter_owner(linitial(tables), &saved);
	if (!try_truncate(sql.data))
		foreach(cell, tables)
			run(psprintf("DELETE FROM %s", qualified_name(lfirst(cell))), SPI_OK_DELETE);
	capstan_apply_leave_owner(&saved);
}

void
capstan_apply_empty(List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
	{
		ApplyTable *table = lfirst(cell);

		LockRelationOid(table->info->target, RowExclusiveLock);
		capstan_apply_force_sync(table->info->target);
		apply_check_owner(table);
	}
	while (tables != NIL)
	{
		Oid			owner = ((ApplyTable *) linitial(tables))->table_owner;
		List	   *same = NIL;
		List	   *others = NIL;

		foreach(cell, tables)
		{
			if (((ApplyTable *) lfirst(cell))->table_owner == owner)
				same = lappend(same, lfirst(cell));
			else
				others = lappend(others, lfirst(cell));
		}
		empty_tables_of_owner(same);
		tables = others;
	}
}
