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
/* Runs a plan with what was set; returns the number of rows it touched. */
extern uint64 apply_execute(ApplyTable *table, SPIPlanPtr plan, int expected);

#endif
