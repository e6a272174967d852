/*
 * tableobject.h
 *		capstan.table_object: indexes, constraints and the like of the captured tables, and how far each is.
 *
 * Like the rest of meta/: inside the caller's transaction, acting as the extension's owner, no rights checked.
 */
#ifndef CAPSTAN_TABLEOBJECT_H
#define CAPSTAN_TABLEOBJECT_H

#include "meta/meta.h"

typedef struct MetaObject
{
	int64		id;
	int64		table_id;
	char	   *source_table;	/* "schema.table" */
	Oid			target;
	char	   *kind;
	char	   *name;			/* NULL: the table's own */
	char	   *target_object;	/* NULL: none */
	char	   *statement;		/* NULL: the target is gone */
	char	   *state;
} MetaObject;

/* Ids (int64 *) of the copied tables for which there is something to do, those with most rows first. */
extern List *capstan_meta_unindexed_tables(int64 pipeline_id);
/* The indexes of a table that are to be built: List of MetaObject *. */
extern List *capstan_meta_indexes_to_build(int64 table_id);
/* Its target and name for messages; false if it is gone, or ANALYZE was run or is not worth it. */
extern bool capstan_meta_wants_analyze(int64 table_id, Oid *target, char **source_table);
extern void capstan_meta_set_analyzed(int64 table_id);
/* What a worker was at, or is. */
extern List *capstan_meta_begun_indexes(int64 pipeline_id);
/* What create_constraints has to do, in the order in which it should. */
extern List *capstan_meta_constraints_to_make(int64 pipeline_id);
/* Those of set_sequences. */
extern List *capstan_meta_sequences(int64 pipeline_id);
/* note NULL: what it was. */
extern void capstan_meta_set_object_state(int64 id, const char *state, const char *note);

#endif
