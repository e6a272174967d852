/*
 * introspect.h
 *		Private to wire/: the steps of describing tables.
 *
 *	   tablelist.c	which tables there are and which the patterns mean
 *	   introspect.c	their columns, keys, cascades
 *	   labels.c		labels of ENUM and SET
 */
#ifndef CAPSTAN_WIRE_INTROSPECT_H
#define CAPSTAN_WIRE_INTROSPECT_H

#include "wire/internal.h"

/* Fills columns, key, cascades of SourceTableInfos that have names only (List of SourceTableInfo *). */
extern void capstan_wire_fill_tables(SourceConn *conn, List *infos);

/* Collects the labels of many columns, so that the server can be asked for all of them together. */
typedef struct Labels Labels;
extern Labels *capstan_wire_labels_create(void);
/* column_type: "enum('a','b')".  The column must stay where it is until _finish. */
extern void capstan_wire_labels_add(Labels *labels, SourceColumn *column, const char *column_type);
extern void capstan_wire_labels_finish(Labels *labels, SourceConn *conn);

#endif
