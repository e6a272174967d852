/*
 * lockbatch.h
 *		Read locks on several small tables at once, for as long as views are opened.
 *
 * Used by the snapshot's coordinator (worker/) where many small tables share one round.
 *
 * Each table is locked on a connection of its own.  One LOCK TABLES for all would wait for one table while it holds
 * another, and MySQL would end a user's transaction that has them the other way round (error 1213: it always takes the one that
 * is not LOCK TABLES).  Here no connection of ours ever holds one lock and waits for another, so there is no cycle that
 * MySQL could see; one that runs through two of our connections is cut by our patience: what is not granted within that
 * is left out of the round, and comes later by itself, over the ladder of tablelock.h.
 */
#ifndef CAPSTAN_LOCKBATCH_H
#define CAPSTAN_LOCKBATCH_H

#include "wire/wire.h"

typedef struct LockBatch LockBatch;

/* Opens no connection yet.  At most `most` tables at a time.  Lives in the current memory context. */
extern LockBatch *capstan_lockbatch_create(const SourceOptions *options, int most);

/* Opens connections for so many tables, or again those that the server may have closed: no time to lose later. */
extern void capstan_lockbatch_connect(LockBatch *batch, int ntables);

/* Closes connections beyond so many; none holds a lock. */
extern void capstan_lockbatch_shrink(LockBatch *batch, int n);

/*
 * LOCK TABLES ... READ on each of the names (ready-quoted); returns how many were granted, and which.  helper: a
 * connection that is free, for KILL QUERY.  Connection failures are raised.
 */
extern int	capstan_lockbatch_acquire(LockBatch *batch, SourceConn *helper, char **names, int nnames, bool *granted);

/* Gives back all of them; returns for how long the first one was held, microseconds. */
extern int64 capstan_lockbatch_release(LockBatch *batch);

#endif
