/*
 * describe.c
 *		What the binary log does not tell of a captured table, asked of the source.
 *
 * Called by stream.c: for table maps without names (binlog_row_metadata = MINIMAL), and for inserted rows without some of their
 * columns (binlog_row_image = MINIMAL), whose defaults the log does not tell.
 *
 * The source answers for now, the log speaks of an earlier time.  What is right for both:
 *
 *	 names, labels, key		only if they are those that were captured (the signature says so).  They were so when the stream's first
 *							position was taken (note_tables), a logged statement that changes them halts the stream where it stands in
 *							the log, so at each place before it they are the captured ones.
 *	 defaults				likewise, those that were noted
 *
 * So what is asked can only confirm, and anything else is an ERROR: also if the statement is still to come in the log.  It is asked again for each
 * table id, since statements that are not logged (sql_log_bin = 0) change the table's id, too.  What such statements change and
 * change back while the stream lags is not seen.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "worker/pipelineworker.h"

/* A connection that was not used for so long may be gone: a new one then. */
#define MOST_IDLE_MS 60000

/* Kept: with many tables they are all described soon after each other. */
static SourceConn *
describing_conn(PipelineRun *run)
{
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext caller = MemoryContextSwitchTo(run->stream_context);

	if (run->describing != NULL && TimestampDifferenceExceeds(run->described_at, now, MOST_IDLE_MS))
	{
		capstan_wire_close(run->describing);
		run->describing = NULL;
	}
	if (run->describing == NULL)
		run->describing = capstan_wire_connect_to(run->options, "describe", run->source_uuid);
	run->described_at = now;
	MemoryContextSwitchTo(caller);
	return run->describing;
}

void
capstan_describe_close(PipelineRun *run)
{
	if (run->describing != NULL)
		capstan_wire_close(run->describing);
	run->describing = NULL;
}

static void
check_labels(const SourceTable *described)
{
	for (int i = 0; i < described->ncolumns; i++)
	{
		const SourceColumn *column = &described->columns[i];

		if (!capstan_source_labels_are_told(column))
			ereport(ERROR,
					(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
					 errmsg("the labels of column %s of %s cannot be told from the source's schema", column->name, MyPlace.table),
					 errdetail("A label has a \"?\", which may stand for another character, and the table map has no labels."),
					 errhint("SET PERSIST binlog_row_metadata = 'FULL' on the source; then call capstan.resync_table().")));
	}
}

/* The source's schema, which must be the captured one. */
static void
describe_table(PipelineRun *run, ApplyTable *table)
{
	const PipelineTable *info = table->info;
	SourceConn *conn = describing_conn(run);
	MemoryContext caller;
	SourceTableInfo *described;
	StrBuf		signature;

	if (table->described_context == NULL)
		table->described_context = AllocSetContextCreate(table->context, "capstan description", ALLOCSET_START_SMALL_SIZES);
	MemoryContextReset(table->described_context);
	table->described = NULL;
	caller = MemoryContextSwitchTo(table->described_context);
	described = capstan_wire_describe_table(conn, info->source_schema, info->source_table);
	capstan_strbuf_init(&signature);
	if (described != NULL)
		capstan_source_table_signature(&described->table, &signature);
	if (described == NULL || strcmp(signature.data, info->definition) != 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
				 errmsg("the source's schema of %s is not the captured one any more, and the binary log does not tell all of it", MyPlace.table),
				 described == NULL ? errdetail("The table is gone, or hidden from the account.") :
				 errdetail("Captured: %s. Now: %s.", info->definition, signature.data),
				 errhint("SET PERSIST binlog_row_metadata = 'FULL' and binlog_row_image = 'FULL' on the source let the log tell everything; then "
						 "call capstan.resync_table().")));
	table->described = &described->table;
	MemoryContextSwitchTo(caller);
}

void
capstan_describe_check_shape(PipelineRun *run, ApplyTable *table, const SourceTable *source)
{
	StrBuf		expected;
	StrBuf		seen;

	if (table->described == NULL || table->described_id != source->table_id)
	{
		describe_table(run, table);
		table->described_id = source->table_id;
	}
	check_labels(table->described);
	capstan_strbuf_init(&expected);
	capstan_strbuf_init(&seen);
	capstan_source_table_shape(table->described, &expected);
	capstan_source_table_shape(source, &seen);
	if (strcmp(expected.data, seen.data) != 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
				 errmsg("source table %s is not what it was when it was captured", MyPlace.table),
				 errdetail("Captured: %s. In the binary log now: %s.", expected.data, seen.data),
				 errhint("Make the target table what it should be, and call capstan.resync_table().")));
	capstan_strbuf_free(&expected);
	capstan_strbuf_free(&seen);
}

/* Where one of the two is not known (see defaults.c), they are not compared: what was noted is what counts. */
static bool
same_defaults(const SourceValue *noted, const SourceValue *now, int n)
{
	for (int i = 0; i < n; i++)
		if (noted[i].kind != VALUE_ABSENT && now[i].kind != VALUE_ABSENT && !capstan_map_same_value(&noted[i], &now[i]))
			return false;
	return true;
}

void
capstan_describe_check_defaults(PipelineRun *run, ApplyTable *table, const SourceTable *source)
{
	MemoryContext caller;

	if (table->defaults_id == source->table_id || table->info->defaults == NULL)
		return;
	if (table->described == NULL || table->described_id != source->table_id)
	{
		describe_table(run, table);
		table->described_id = source->table_id;
	}
	caller = MemoryContextSwitchTo(run->event_context);
	if (!same_defaults(capstan_map_decode_row(table->info->defaults, table->described->ncolumns),
					   capstan_wire_column_defaults(describing_conn(run), table->described), table->described->ncolumns))
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_TABLE_MAP),
				 errmsg("defaults of %s are not what they were when the pipeline was started first", MyPlace.table),
				 errdetail("A row was inserted, and logged without its defaults (binlog_row_image = MINIMAL)."),
				 errhint("SET PERSIST binlog_row_image = 'FULL' on the source; then call capstan.resync_table().")));
	table->defaults_id = source->table_id;
	MemoryContextSwitchTo(caller);
}
