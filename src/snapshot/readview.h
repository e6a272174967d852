/*
 * readview.h
 *		A consistent read view on the source, opened under somebody else's lock, and what is read from it.
 *
 * Used by copy workers.
 */
#ifndef CAPSTAN_READVIEW_H
#define CAPSTAN_READVIEW_H

#include "wire/wire.h"

/* Once for a connection that will open read views, so that it has not to be done while a lock is held. */
extern void capstan_readview_prepare(SourceConn *conn);

/*
 * START TRANSACTION WITH CONSISTENT SNAPSHOT.  Raises if the server says anything about it (below REPEATABLE READ it
 * would ignore the snapshot with a warning).
 */
extern void capstan_readview_open(SourceConn *conn);

/* Before the lock: has the source open the tables for this connection.  What is wrong with them is told by the touch. */
extern void capstan_readview_warm_up(SourceConn *conn, List *quoted_names);

/*
 * Opens a view and reads nothing from the tables (quoted names; at most 61, MySQL's limit for a join), which pins their metadata: no DDL can slip in any
 * more.  A lock of ours keeps changes out meanwhile.  Both in one go: the lock's writers wait.  False when the tables' metadata is
 * not to be had within a moment: the view is of no use, try again.
 */
extern bool capstan_readview_open_and_touch(SourceConn *conn, List *quoted_names);

/* In a transaction without a view: only the pins.  False when they are not to be had within a moment. */
extern bool capstan_readview_pin(SourceConn *conn, List *quoted_names);

/*
 * A touch without a lock, of one table and a view that is open.  It must read a row (or find none): only that makes the server compare the table
 * with the view; LIMIT 0 never raises error 1412.  False also when the table was changed since the view was opened.
 */
extern bool capstan_readview_touch(SourceConn *conn, const char *quoted_name);

/* COMMIT; releases view and metadata locks. */
extern void capstan_readview_close(SourceConn *conn);

/* `schema`.`table` */
extern char *capstan_quoted_table(const char *schema_name, const char *table_name);

/*
 * SELECT of all columns of the key range (low, high]; NULL: no bound.  nkey values each.  most: the first so many rows in key
 * order; 0: all of them, in no order.
 */
extern char *capstan_range_select(const SourceTable *table, const SourceValue *low, const SourceValue *high, int64 most);

/*
 * SELECT of the key columns of the n-th row after low, in key order; no row: fewer than n are left.
 */
extern char *capstan_boundary_select(const SourceTable *table, const SourceValue *low, int64 n);

#endif
