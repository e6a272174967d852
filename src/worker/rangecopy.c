/*
 * rangecopy.c
 *		One key range: read from the view, written to the target.
 *
 * Called by the copy workers in the phase COPY, inside the transaction that commits rows and copied_range.
 *
 * The stream stands still meanwhile, so a range must end in time, whatever its rows weigh.  A range of a key that can be
 * paged is read in pieces of some megabytes, in key order; when its time is up it is cut at the last row
 * written: what was written is a copied range of its own, the rest stays planned, and comes in another round with a new G.  (What
 * the source sends of the piece beyond that row is thrown away; that is what bounds the size of a piece.)
 * Other ranges are read to their end.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "snapshot/readview.h"
#include "worker/copyworker.h"
#include "worker/fault.h"

/* Interrupts and the clock are looked at this often. */
#define INTERRUPT_ROWS 256
#define INTERRUPT_BYTES (1024 * 1024)
/* A piece: so many bytes by the mean of what was read so far, at first by the source's estimate; and so many rows. */
#define PIECE_BYTES (8 * 1024 * 1024)
#define LEAST_PIECE_ROWS 50
#define MOST_PIECE_ROWS 100000
/* Of capstan.range_time: ranges are planned to take that, so twice as much is out of the ordinary. */
#define TIMES_RANGE_TIME 2

/* A range while it is copied. */
typedef struct RangeCopy
{
	CopyRun    *run;
	RangeJob   *job;
	const SourceColumn **columns;
	SourceValue *values;
	RangeWriter *writer;
	int64		rows;
	uint64		bytes;
	bytea	  **last;			/* key of the last row, where a piece ended before the range */
} RangeCopy;

SourceValue *
capstan_copy_decode_bound(const SourceTable *source, bytea **encoded)
{
	SourceValue *values;

	if (encoded == NULL)
		return NULL;
	values = palloc(sizeof(SourceValue) * source->nkey);
	for (int i = 0; i < source->nkey; i++)
		capstan_map_decode_key(&source->columns[source->key[i]], encoded[i], &values[i]);
	return values;
}

static bytea **
encode_key(const SourceTable *source, const SourceValue *row)
{
	bytea	  **key = palloc(sizeof(bytea *) * source->nkey);

	for (int i = 0; i < source->nkey; i++)
		key[i] = capstan_map_encode_key(&source->columns[source->key[i]], &row[source->key[i]]);
	return key;
}

typedef enum PieceEnd
{
	PIECE_RANGE_ENDS,			/* there are no more rows */
	PIECE_FULL,
	PIECE_TIME_IS_UP
} PieceEnd;

/* Copies what the statement gives, `most` rows of the range (0: all of them). */
static PieceEnd
copy_piece(RangeCopy *copy, const char *select, int64 most)
{
	SourceCursor *cursor = capstan_wire_open_cursor(copy->run->conn, select, copy->columns, copy->job->source->ncolumns);
	int64		rows = 0;
	uint64		looked_at = 0;
	PieceEnd	end = PIECE_RANGE_ENDS;

	while (end == PIECE_RANGE_ENDS && capstan_wire_fetch(cursor, copy->values))
	{
		capstan_range_writer_put(copy->writer, copy->values);
		CAPSTAN_FAULT("copy_row");
		if (++rows == most)
			end = PIECE_FULL;
		if (rows % INTERRUPT_ROWS == 0 || capstan_wire_cursor_bytes(cursor) - looked_at > INTERRUPT_BYTES)
		{
			looked_at = capstan_wire_cursor_bytes(cursor);
			capstan_process_check_interrupts();
			if (most > 0 && capstan_copy_time_is_up(copy->run))
				end = PIECE_TIME_IS_UP;
		}
	}
	if (end != PIECE_RANGE_ENDS)
		copy->last = encode_key(copy->job->source, copy->values);
	copy->bytes += capstan_wire_cursor_bytes(cursor);
	capstan_wire_close_cursor(cursor);
	copy->rows += rows;
	return end;
}

static int64
piece_rows(const RangeCopy *copy)
{
	const PipelineTable *info = copy->job->table->info;
	int64		row_bytes = 200;

	if (copy->rows > 0)
		row_bytes = copy->bytes / copy->rows;
	else if (info->rows_estimate > 0 && info->bytes_estimate > 0)
		row_bytes = info->bytes_estimate / info->rows_estimate;
	return Min(Max(PIECE_BYTES / Max(row_bytes, 1), LEAST_PIECE_ROWS), MOST_PIECE_ROWS);
}

bool
capstan_copy_time_is_up(const CopyRun *run)
{
	return !run->consistent && TimestampDifferenceExceeds(run->copy_started_at, GetCurrentTimestamp(), TIMES_RANGE_TIME * capstan_range_time);
}

/* True when all of the range was copied; else the rest begins behind copy->last. */
static bool
copy_pieces(RangeCopy *copy)
{
	const SourceTable *source = copy->job->source;
	CopyRange  *range = copy->job->range;
	SourceValue *high = capstan_copy_decode_bound(source, range->high);
	bytea	  **low = range->low;

	for (;;)
	{
		int64		most = piece_rows(copy);
		char	   *select = capstan_range_select(source, capstan_copy_decode_bound(source, low), high, most);
		PieceEnd	end = copy_piece(copy, select, most);

		if (end == PIECE_RANGE_ENDS)
			return true;
		if (end == PIECE_TIME_IS_UP || capstan_copy_time_is_up(copy->run))
			return false;
		low = copy->last;
	}
}

int64
capstan_copy_range(CopyRun *run, RangeJob *job)
{
	RangeCopy	copy = {0};
	bool		complete = true;

	/* rows of another table would fit as well as those of this one */
	if (strcmp(job->source->schema_name, job->table->info->source_schema) != 0 ||
		strcmp(job->source->table_name, job->table->info->source_table) != 0)
		elog(ERROR, "the description of another table was taken for that of %s.%s", job->table->info->source_schema,
			 job->table->info->source_table);
	snprintf(MyPlace.table, sizeof(MyPlace.table), "%s.%s", job->source->schema_name, job->source->table_name);
	copy.run = run;
	copy.job = job;
	copy.columns = palloc(sizeof(SourceColumn *) * job->source->ncolumns);
	copy.values = palloc(sizeof(SourceValue) * job->source->ncolumns);
	for (int i = 0; i < job->source->ncolumns; i++)
		copy.columns[i] = &job->source->columns[i];
	capstan_apply_table_open(job->table, job->source);

	/*
	 * Without a gate the stream, if there is one, may have brought rows of the range; without a key, and to a shared table, it left all of them to
	 * us.
	 */
	copy.writer = capstan_range_writer_begin(job->table, !run->consistent && !job->table->info->key_ordered && !job->table->info->shared &&
											 job->source->nkey > 0);
	if (job->table->info->key_pageable)
		complete = copy_pieces(&copy);
	else
		(void) copy_piece(&copy, capstan_range_select(job->source, NULL, NULL, 0), 0);
	(void) capstan_range_writer_end(copy.writer);
	CAPSTAN_FAULT("range_written");

	run->copied_bytes += copy.bytes;
	if (complete)
		capstan_meta_finish_range(job->range, run->gtid_set, copy.rows);
	else
		capstan_meta_cut_range(job->range, copy.last, job->source->nkey, run->gtid_set, copy.rows);
	if (job->table->map->zero_dates_applied > 0 || job->table->map->nul_bytes_applied > 0)
		capstan_apply_flush_counters(job->table, run->pipeline->name);
	/* a partition may have changed before it was locked, in a way that is refused */
	capstan_apply_table_open(job->table, job->source);
	return copy.rows;
}
