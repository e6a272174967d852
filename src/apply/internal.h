/*
 * internal.h
 *		What the files of apply/ share.
 */
#ifndef CAPSTAN_APPLY_INTERNAL_H
#define CAPSTAN_APPLY_INTERNAL_H

#include "lib/stringinfo.h"
#include "utils/rel.h"

#include "apply/apply.h"

/* A row that is there, or is not, and is not met by a statement so often is one that triggers of a partition leave as it is. */
#define MOST_TRIES 10

/* Fills arguments and nulls of the mapped columns from a full row. */
extern void apply_set_row(ApplyTable *table, const SourceValue *row);
/* The same from table->values and isnull. */
extern void apply_set_arguments(ApplyTable *table);
/* The row that was set as it should be, whether one with its key is there or not. */
extern void apply_put_row(ApplyTable *table);
/* The same for the key columns alone; others become NULL. */
extern void apply_set_key(ApplyTable *table, const SourceValue *row);
/* Is the row's key in a copied range (or the table copied as a whole, or without a gate)? */
extern bool apply_passes_gate(ApplyTable *table, const SourceValue *row);
/* Is the copied part of the target known to equal the source at the stream's position? */
extern bool apply_is_exact(ApplyTable *table);
/* "k1 = $3", for a statement on the target. */
extern void apply_append_key_equals(StringInfo sql, const ColumnMap *column, Relation relation, int parameter);
/* Sets table->table_owner.  Raises 42501 when the pipeline's owner may not act for that role, 42P01 when the target is gone. */
extern void apply_check_owner(ApplyTable *table);
extern SPIPlanPtr apply_keep_plan(const char *sql, int nargs, Oid *types);
/* All mapped columns of the row with the key that was set, locked: prepared when it is first needed. */
extern SPIPlanPtr apply_lock_plan(ApplyTable *table);
/* Makes the table's plans if it has none; a copy in batches needs none. */
extern void apply_need_plans(ApplyTable *table);
extern void apply_drop_partial_plans(ApplyTable *table);
extern void apply_drop_keyless_plans(ApplyTable *table);
/* May the pipeline's owner act for the owner of the target?  Sets table_owner. */
extern void apply_check_owner(ApplyTable *table);
/* A change of a table without a key, full images.  As the table's owner. */
extern void apply_keyless_change(ApplyTable *table, const SourceChange *change);
/* All changes are left to the copy until the table is copied: nothing else tells which rows it will bring. */
extern bool apply_waits_for_copy(const ApplyTable *table);
/* change.c: a row was updated or deleted that the open transaction wrote itself (sure), or may have written; see capstan_apply_wants_commit. */
extern void apply_note_rewritten(bool sure);

/* direct.c: the same as the statements, for tables with `direct`.  What was set (apply_set_row, apply_set_key) is written, or found by its key. */
extern bool apply_direct_is_possible(const ApplyTable *table, Relation relation);
extern bool apply_direct_insert(ApplyTable *table);	/* false: there is a row with the key */
extern bool apply_direct_update(ApplyTable *table);	/* false: there is none */
/* The same of an update that leaves the key alone.  Nothing need be set; if true, large values of the change are not there any more. */
extern bool apply_direct_change(ApplyTable *table, const SourceChange *change);
extern bool apply_direct_delete(ApplyTable *table);	/* false: there is none */
extern void apply_direct_close(ApplyTable *table);
extern void apply_direct_close_all(void);
/* insertbatch.c: an insert that is written with others.  Then, or never, its errors are raised. */
extern void apply_direct_add(ApplyTable *table, const SourceValue *row);
/* Writes what was added. */
extern void apply_direct_flush(ApplyTable *table);
/* Before anything but apply_direct_add is done to the table. */
extern void apply_flush_before(ApplyTable *table);
/* Do triggers or rules of the target fire for us?  Of partitions and the like we do not know: then it may be. */
extern bool apply_runs_code(Relation relation);
/* The same of the target alone, whatever its partitions have. */
extern bool apply_fires(Relation relation);
/*
 * By statements: locks the row whose key was set, whatever others do meanwhile, and leaves all mapped columns of it in SPI_tuptable, which
 * the caller frees; false: there is none.
 */
extern bool apply_lock_row(ApplyTable *table);
/*
 * A statement touched no row.  Is there one with the key that was set after all, which its snapshot did not show?  It is locked now: the
 * next statement sees it.  Not where triggers or rules fire, which may be why.
 */
extern bool apply_row_appeared(ApplyTable *table);
/* The row that was set, by statement; false: there is one with its key, or (no foreign table) a trigger did not let it in. */
extern bool apply_insert_row(ApplyTable *table);
/* Another pipeline's row has the key, or what else the unique index is of; NULL: it is the key. */
extern void apply_raise_shared(ApplyTable *table, const char *constraint) __attribute__((noreturn));
/* Runs a plan with what was set; returns the number of rows it touched. */
extern uint64 apply_execute(ApplyTable *table, SPIPlanPtr plan, int expected);

#endif
