/*
 * introspect.h
 *		Private to wire/: the steps of describing tables.
 *
 *	   tablelist.c	which tables there are and which the patterns mean
 *	   introspect.c	their columns, keys, cascades
 *	   labels.c		labels of ENUM and SET
 *	   sourceobjects.c	what else belongs to them: indexes, foreign keys, checks, defaults
 */
#ifndef CAPSTAN_WIRE_INTROSPECT_H
#define CAPSTAN_WIRE_INTROSPECT_H

#include "wire/internal.h"

/* Fills columns, key, cascades of SourceTableInfos that have names only (List of SourceTableInfo *). */
extern void capstan_wire_fill_tables(SourceConn *conn, List *infos);

/*
 * A condition that holds for the tables at least (sorted by schema); of many tables it names only their schemas, and who
 * asks leaves out what is too many.
 */
extern char *capstan_wire_table_condition(const SourceTable *const *tables, int ntables, const char *schema_column,
										  const char *table_column);

/* Collects the labels of many columns, so that the server can be asked for all of them together. */
typedef struct Labels Labels;
extern Labels *capstan_wire_labels_create(void);
/* column_type: "enum('a','b')".  The column must stay where it is until _finish. */
extern void capstan_wire_labels_add(Labels *labels, SourceColumn *column, const char *column_type);
extern void capstan_wire_labels_finish(Labels *labels, SourceConn *conn);

#endif
