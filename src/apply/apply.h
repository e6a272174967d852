/*
 * apply.h
 *		Writing rows into target tables: the stream's changes, and the copy's ranges.
 *
 * Used by worker/.  Knows Postgres; knows the source only through row.h.
 */
#ifndef CAPSTAN_APPLY_H
#define CAPSTAN_APPLY_H

#include "executor/spi.h"

#include "map/map.h"
#include "meta/meta.h"
#include "row.h"

typedef struct DirectWriter DirectWriter;

/* Names of 64 characters each may be longer in bytes. */
#define CAPSTAN_TABLE_TEXT_MAX 520

/* A copied key range in comparable form: low exclusive, high inclusive; NULL without bound. */
typedef struct KeyRange
{
	SourceValue *low;
	SourceValue *high;
} KeyRange;

/*
 * A captured table as a worker works with it.  There may be ten thousand of them: what only a table in use needs is made
 * when it is used, and capstan_apply_trim() takes it away again.
 */
typedef struct ApplyTable
{
	MemoryContext context;		/* the one given to capstan_apply_table_create; map and ranges are children of it */
	PipelineTable *info;		/* the catalog's row, as loaded; the caller's */
	Oid			pipeline_owner;
	MapPolicies policies;

	/* Made at first use and again after the target's definition changed. */
	bool		valid;
	bool		marked;			/* table.c's: invalidations look at it */
	uint32		schema_hash;	/* of the target's schema, as its invalidations name it */
	TableMap   *map;
	int			nparts;			/* the partitions below a partitioned target, by their OIDs: what is done to them counts, too */
	Oid		   *parts;
	Oid			table_owner;
	SPIPlanPtr	insert;			/* ON CONFLICT (key) DO NOTHING; without a key just INSERT, and the others are NULL */
	SPIPlanPtr	update;			/* by key, other columns; NULL if there are none */
	SPIPlanPtr	delete;			/* by key */
	SPIPlanPtr	select;			/* all mapped columns by key */
	SPIPlanPtr	lock;			/* the same FOR UPDATE; NULL: not needed yet */
	bool		remote;			/* a foreign table: rows may be there of which nothing was committed here */
	bool		direct;			/* written without statements (direct.c) */
	bool		runs_code;		/* triggers or rules may fire when it is written */
	bool		fires;			/* its own do, or those of another server */
	DirectWriter *writer;		/* open in this group; NULL: not yet */
	List	   *partial_plans;	/* of PartialPlan (partialchange.c): UPDATEs of some columns */
	List	   *keyless_plans;	/* of KeylessPlan (keyless.c) */
	bool	   *indexed;		/* keyless.c: by mapped column, in the map's context; NULL: not looked up */
	Datum	   *values;			/* scratch of one row, by attribute number */
	bool	   *isnull;
	Datum	   *arguments;		/* scratch of one statement, by mapped column */
	char	   *nulls;

	/* Copy state as far as this worker knows it. */
	bool		copied;			/* all of it */
	bool		untouched;		/* the stream leaves it out: see meta/generation.h */
	int			nranges;
	KeyRange   *ranges;			/* of a table with an ordered key that is being copied */
	MemoryContext range_context;	/* NULL: not needed yet */

	/* Set by the pipeline worker (describe.c). */
	SourceTable *described;		/* from the source's schema; NULL: not needed yet */
	MemoryContext described_context;	/* it lives here; NULL: not needed yet */
	uint64		described_id;	/* table id that it was asked for last */
	uint64		defaults_id;	/* the same for the defaults */

	TableCounters counters;		/* not yet persisted */
	bool		dirty;			/* counters are not zero */
} ApplyTable;

/* info must live as long as the table. */
extern ApplyTable *capstan_apply_table_create(PipelineTable *info, Oid pipeline_owner, MapPolicies policies,
											  MemoryContext parent);

extern void capstan_apply_table_free(ApplyTable *table);

/*
 * The table is resynced (info->in_shadow), and its shadow complete: puts the content into the target, which is written to from now
 * on.  In the transaction that makes the table 'streaming', SPI not connected.
 */
extern void capstan_apply_exchange(ApplyTable *table);
/* If there is one; wait: for those who look at it, otherwise it is left if there are any. */
extern void capstan_apply_drop_shadow(int64 table_id, bool wait);

/*
 * Makes sure of map and plans.  In a transaction, SPI connected.  Raises as capstan_map_build does; 42501 when the
 * pipeline's owner may not act for the table's owner; 42P01 when the target is gone.
 */
extern void capstan_apply_table_open(ApplyTable *table, const SourceTable *source);

/* Once per process. */
extern void capstan_apply_init(void);

/*
 * At the beginning of a transaction, nothing being open: when many tables were used, forgets what it knows of all of them, and has Postgres
 * forget, too.  Both come again when it is needed.
 */
extern void capstan_apply_trim(void);

/* Before the transaction of a group is committed: closes what was kept open for it. */
extern void capstan_apply_end_group(void);

/*
 * Did the open transaction change rows again, which it had written itself, so often that it should be committed?  Until then none of their old
 * versions can go: each has to be passed by to find the row, and takes its room.
 */
extern bool capstan_apply_wants_commit(void);

/* Writes what is kept back to be written together: in the open transaction, before the counters are saved. */
extern void capstan_apply_flush(void);

/*
 * Where the caller keeps the name of the table that is changed, CAPSTAN_TABLE_TEXT_MAX bytes, for its messages; NULL: nowhere.  Set to
 * another table while rows of that are written which had been kept back.
 */
extern char *capstan_apply_place;

/* Plain tables are written without statements (direct.c): capstan.direct_apply, set by worker/. */
extern bool capstan_direct_apply;

/* The open transaction is flushed at COMMIT if the target is a foreign table.  For what is written without capstan_apply_table_open. */
extern void capstan_apply_force_sync(Oid target);

/* Takes all rows out of the targets of these ApplyTables.  In a transaction; raises as capstan_apply_table_open does. */
extern void capstan_apply_empty(List *tables);

/* From capstan.copied_range; only copied ones count.  For tables with key_ordered. */
extern void capstan_apply_set_ranges(ApplyTable *table, List *ranges);

/*
 * One change into the open transaction (SPI connected).  Both images full.  row_context is reset by the caller
 * after each change.  It may be kept back until capstan_apply_flush.
 */
extern void capstan_apply_change(ApplyTable *table, const SourceChange *change);

/*
 * The same for images in which columns are absent (binlog_row_image MINIMAL, NOBLOB) or are differences to a JSON document.
 * Raises CAPSTAN_ERRCODE_ROW_IMAGE when what is absent is needed.
 */
extern void capstan_apply_partial_change(ApplyTable *table, const SourceChange *change);

/* Adds the table's counters to its catalog row and zeroes them; the first act of a policy makes a warning. */
extern void capstan_apply_flush_counters(ApplyTable *table, const char *pipeline);

/*
 * Writing a range.  All in one transaction, SPI connected.
 */
typedef struct RangeWriter RangeWriter;

/* may_exist: rows of the range may be there already (keys without a gate), and must then be equal. */
extern RangeWriter *capstan_range_writer_begin(ApplyTable *table, bool may_exist);
extern void capstan_range_writer_put(RangeWriter *writer, const SourceValue *row);
/* Returns the number of rows put. */
extern int64 capstan_range_writer_end(RangeWriter *writer);

/* Acting as the owner of a target table. */
typedef struct TableOwnerContext
{
	Oid			userid;
	int			sec_context;
	int			guc_level;
} TableOwnerContext;

extern void capstan_apply_enter_owner(ApplyTable *table, TableOwnerContext *saved);
extern void capstan_apply_leave_owner(const TableOwnerContext *saved);

#endif
