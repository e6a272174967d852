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
 * is left out of the round.
 *
 * The first lock that is granted starts a clock: its writers wait from then on.  After about a millisecond no
 * further lock is asked for, and none that was is waited for: a round has as many tables as can be had in that time.
 */
#ifndef CAPSTAN_LOCKBATCH_H
#define CAPSTAN_LOCKBATCH_H

#include "wire/wire.h"

typedef struct LockBatch LockBatch;

typedef enum LockAnswer
{
	LOCK_NOT_ASKED = 0,			/* there was no time left for it */
	LOCK_ASKED,					/* no answer in time; some other table's may be why */
	LOCK_REFUSED,
	LOCK_GRANTED
} LockAnswer;

/* Opens no connection yet; all will be to the server with this uuid.  At most `most` tables at a time.  Lives in the current memory context. */
extern LockBatch *capstan_lockbatch_create(const SourceOptions *options, const char *server_uuid, int most);

/* Opens connections for so many tables, or again those that the server may have closed: no time to lose later. */
extern void capstan_lockbatch_connect(LockBatch *batch, int ntables);

/* Closes connections beyond so many; none holds a lock. */
extern void capstan_lockbatch_shrink(LockBatch *batch, int n);

/*
 * Runs "select FROM name rest" for each of the names (ready-quoted) on the connection that is to lock it, which has the table opened
 * there, too.  found[i]: there was a row; failed[i]: it could not be run.  Connection failures are raised.
 */
extern void capstan_lockbatch_look(LockBatch *batch, const char *select, char **names, const char *rest, int nnames, bool *found, bool *failed);

/*
 * LOCK TABLES ... READ on each of the names (ready-quoted); returns how many were granted.  capstan_lockbatch_release must follow, even if none was.
 * Connection failures are raised.
 */
extern int	capstan_lockbatch_acquire(LockBatch *batch, char **names, int nnames, LockAnswer *answers);

/*
 * Gives back all of them, and ends the wait for those that were not granted in time.  helper: a connection that is free, for KILL
 * QUERY.  Returns for how long a table was locked at most, microseconds.
 */
extern int64 capstan_lockbatch_release(LockBatch *batch, SourceConn *helper);

#endif
