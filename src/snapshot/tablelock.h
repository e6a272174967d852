/*
 * tablelock.h
 *		A short lock on source tables that must be had and must not hurt.
 *
 * Used by the snapshot's coordinator (worker/).  Design section 6: "The lock must not hurt, and
 * must be had".  The ladder:
 *
 *	 READ	LOCK TABLES t READ, a few short tries.  Waiting for it holds nobody back,
 *			but it starves behind overlapping transactions.
 *	 FLUSH	FLUSH TABLES t WITH READ LOCK (FLUSH_TABLES or RELOAD needed) queues fairly: new writers wait
 *	 WRITE	LOCK TABLES t WRITE (not on a read-only server,             behind it.
 *			nor where it would lock other tables, too)
 *
 * The wait of FLUSH and WRITE is cut short by KILL QUERY from another connection of
 * ours after a bound that starts small and grows to max_wait_ms: that is the longest a
 * writer's statement is held back by a try.  Between tries writers have the table for
 * themselves for longer than the try took.
 *
 * None of the statements makes a GTID.
 *
 * One table at a time: a lock on several waits for one while it holds another, and a transaction that has them the other
 * way round is what MySQL then ends (error 1213), not us.
 */
#ifndef CAPSTAN_TABLELOCK_H
#define CAPSTAN_TABLELOCK_H

#include "lib/stringinfo.h"

#include "wire/wire.h"

typedef enum TableLockKind
{
	TABLE_LOCK_NONE = 0,
	TABLE_LOCK_READ,
	TABLE_LOCK_FLUSH,
	TABLE_LOCK_WRITE
} TableLockKind;

typedef struct TableLock
{
	SourceConn *conn;			/* A: holds the lock; no transaction is ever opened on it */
	SourceConn *helper;			/* kills A's waiting statement; free for other use between calls */
	MemoryContext context;		/* that both connections live in */
	const SourceOptions *options;
	const char *server_uuid;
	bool		flush_allowed;	/* until the source says no */
	bool		write_allowed;
	bool		write_asked;	/* of the last acquire: write_alone is known */
	bool		write_alone;	/* WRITE locks the table and no other one */
	TableLockKind held;
	int64		granted_at_us;	/* monotonic clock */
	int64		last_used_us;
	/* of the last acquire */
	int			tries;
	int64		wait_worst_us;
	int64		wait_total_us;
	char	   *refusal;		/* text of the last failed try, in its caller's context, or NULL */
} TableLock;

/* Opens both connections, to the server with this uuid, in the current memory context, which must outlive all calls. */
extern TableLock *capstan_tablelock_create(const SourceOptions *options, const char *server_uuid);

/*
 * Climbs the ladder until the lock is had or budget_ms is over (false).  name: ready-quoted
 * `schema`.`table`.  Raises 42501 with the GRANT when LOCK TABLES is not granted, 42P01 when
 * a table is gone.
 */
extern bool capstan_tablelock_acquire(TableLock *lock, const char *name, int max_wait_ms, int budget_ms);

/* Returns how long the lock was held, microseconds. */
extern int64 capstan_tablelock_release(TableLock *lock);

/* What an operator can do when the lock is not had: the missing GRANT, the statements that end prepared XA transactions. */
extern char *capstan_tablelock_hint(const TableLock *lock);
/* The last of these, for any lock that was not had. */
extern void capstan_tablelock_append_prepared(StringInfo hint, SourceConn *helper);
/* Of a ready-quoted `schema`.`table`, the first half. */
extern char *capstan_tablelock_schema(const char *name);

#endif
