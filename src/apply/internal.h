/*
 * internal.h
 *		What the files of apply/ share.
 */
#ifndef CAPSTAN_APPLY_INTERNAL_H
#define CAPSTAN_APPLY_INTERNAL_H

#include "apply/apply.h"

/* Fills arguments and nulls of the mapped columns from a full row. */
extern void apply_set_row(ApplyTable *table, const SourceValue *row);
/* The same for the key columns alone; others become NULL. */
extern void apply_set_key(ApplyTable *table, const SourceValue *row);
/* Is the row's key in a copied range (or the table copied as a whole, or without a gate)? */
extern bool apply_passes_gate(ApplyTable *table, const SourceValue *row);
/* Is the copied part of the target known to equal the source at the stream's position? */
extern bool apply_is_exact(ApplyTable *table);
extern SPIPlanPtr apply_keep_plan(const char *sql, int nargs, Oid *types);
extern void apply_drop_partial_plans(ApplyTable *table);
/* Runs a plan with what was set; returns the number of rows it touched. */
extern uint64 apply_execute(ApplyTable *table, SPIPlanPtr plan, int expected);

#endif
