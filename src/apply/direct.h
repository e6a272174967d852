/*
 * direct.h
 *		What direct.c, findrow.c and insertbatch.c share: a target that is written to without statements.
 */
#ifndef CAPSTAN_DIRECT_H
#define CAPSTAN_DIRECT_H

#include "access/genam.h"
#include "access/relscan.h"
#include "nodes/execnodes.h"

#include "apply/internal.h"

/* Inserts that are not written yet; see insertbatch.c. */
typedef struct InsertBatch
{
	MemoryContext context;		/* of the rows' values; reset when they are written */
	TupleTableSlot **slots;		/* of heap tuples, which is what the table gets */
	int			nslots;			/* made */
	int			nrows;			/* filled */
	IndexInfo  *key_info;		/* of key_index */
	ResultRelInfo others;		/* the target with all indexes but key_index */
} InsertBatch;

/* Where the last update put a row. */
typedef struct WrittenRow
{
	uint32		key_hash;
	ItemPointerData tid;		/* invalid: none yet */
} WrittenRow;

#define WRITTEN_ROWS 256

/* A target that is open; until the end of the group. */
struct DirectWriter
{
	MemoryContext context;
	Relation	relation;
	EState	   *estate;
	ResultRelInfo *result_relation;
	Relation	key_index;		/* one of those that result_relation has open */
	IndexScanDesc scan;
	SnapshotData snapshot;		/* dirty */
	int			nkeys;
	ScanKeyData keys[INDEX_MAX_KEYS];
	int			arguments[INDEX_MAX_KEYS];	/* which argument each scan key compares with */
	TupleTableSlot *found;
	ItemPointerData last;		/* where the last one was found */
	bool		in_order;		/* close behind the one before: the next one may be, too */
	uint32		key_hash;		/* of the key looked for last */
	WrittenRow *written;		/* WRITTEN_ROWS, by key_hash */
	bool		comparable;		/* keys of the table's rows can be compared in place */
	TupleTableSlot *row;
	int			nupdated;		/* rows */
	bool		was_updated;	/* the row found is a new version of an older one */
	bool		may_update;		/* checked: publications do not forbid it */
	bool		may_delete;
	InsertBatch batch;
};

/* direct.c */
extern DirectWriter *direct_writer(ApplyTable *table);
/* The slot's values made its tuple; for those of capstan_map_row_to_move. */
extern void direct_form_row(TupleTableSlot *slot);
/* Raises where a row was changed by somebody else. */
extern void direct_check_result(ApplyTable *table, TM_Result result);

/* findrow.c */
extern void direct_find_init(DirectWriter *writer, const TableMap *map);
extern void direct_find_end(DirectWriter *writer);
/* The row whose key was set (apply_set_row, apply_set_key) into writer->found; false if there is none. */
extern bool direct_find_row(ApplyTable *table, DirectWriter *writer);
/* It was updated, to what lies there now. */
extern void direct_note_written(DirectWriter *writer, const ItemPointerData *tid);

/* insertbatch.c: the row's entry in the key's index; false if there may be another row with the key (UNIQUE_CHECK_PARTIAL). */
extern bool insert_key_entry(DirectWriter *writer, TupleTableSlot *slot, IndexUniqueCheck check, bool unchanged);
/* The same; `writer` has its result_relation and key_index. */
extern void insert_batch_init(DirectWriter *writer);
extern void insert_batch_end(DirectWriter *writer);

#endif
