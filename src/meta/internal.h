/*
 * internal.h
 *		What the files of meta/ share.  All between capstan_meta_enter and _leave.
 */
#ifndef CAPSTAN_META_INTERNAL_H
#define CAPSTAN_META_INTERNAL_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "nodes/pg_list.h"

/* Runs one statement, whose plan is kept; `expected` is the SPI_OK_ code it must give. */
/* Between capstan_meta_enter() and capstan_meta_leave(): ON DELETE CASCADE acts, whatever session_replication_role the session has. */
extern void meta_enforce_references(void);
extern void meta_execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls, int expected);
/* A text Datum, or 0 and 'n' in *null. */
extern Datum meta_text_or_null(const char *text, char *null);
/* Any column in its text form, in `context`; NULL when NULL. */
extern char *meta_get_text(HeapTuple tuple, TupleDesc desc, int column, MemoryContext context);
extern int64 meta_get_int64(HeapTuple tuple, TupleDesc desc, int column, int64 when_null);

/* A text[] of a List of char *. */
extern Datum meta_text_array(List *strings);

/* pipelinedef.c: its id. */
struct PipelineTableDefinition;
extern int64 meta_insert_table(int64 pipeline_id, const struct PipelineTableDefinition *table);

/* tableobject.c: List of TargetObject *, for a pipeline whose tables were inserted in their order. */
extern void meta_insert_objects(int64 pipeline_id, List *objects);

/*
 * Is there something to be done for a copied table t: an index to be built, or ANALYZE?  That is for tables with as many rows as
 * autovacuum would look at by default.
 */
#define META_UNINDEXED \
	"t.state = 'streaming' AND (EXISTS (SELECT FROM capstan.table_object o WHERE o.pipeline_id = t.pipeline_id AND o.table_id = t.id " \
	"AND o.kind IN ('index', 'unique') AND o.state IN ('pending', 'building')) OR (NOT t.analyzed AND t.rows_copied >= 50))"

#endif
