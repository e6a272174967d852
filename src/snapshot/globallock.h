/*
 * globallock.h
 *		A short lock that keeps writers out of all captured tables at once: snapshot => 'consistent'.
 *
 * Used by the coordinator (worker/consistentcopy.c).  Two ways to have it, which different things stand in the way of:
 *
 *	 GLOBAL	FLUSH TABLES WITH READ LOCK (FLUSH_TABLES or RELOAD needed).  Waits for statements that run, whatever they read
 *			or write, and not for open transactions.  All statements that write and all commits wait behind it.  Of no use while an XA
 *			transaction is prepared.
 *	 TABLES	LOCK TABLES t1 READ, t2 READ, ...  Waits for open transactions that have changed one of the tables, and not for
 *			statements that read.  What it has got so far holds back the writers of those tables; a transaction
 *			that has them the other way round is ended by MySQL (error 1213).
 *
 * Where GLOBAL may be used the tries take turns, GLOBAL first.  Each wait is cut short by KILL QUERY from another connection of ours, after a
 * bound that starts small and grows to max_wait_ms.
 *
 * A GLOBAL that was given up leaves something behind: tables that it found in use by a running statement count as old, and whoever
 * opens one of them next waits until that statement has ended (measured on 9.7: a SELECT of 3 s, the lock given up after 0.2 s, the next
 * SELECT waited for 2.4 s).  So it is not tried while a statement is seen to run for some time; seeing those of others takes PROCESS.
 *
 * None of the statements makes a GTID.
 */
#ifndef CAPSTAN_GLOBALLOCK_H
#define CAPSTAN_GLOBALLOCK_H

#include "wire/wire.h"

typedef enum GlobalLockKind
{
	GLOBAL_LOCK_NONE = 0,
	GLOBAL_LOCK_GLOBAL,
	GLOBAL_LOCK_TABLES
} GlobalLockKind;

typedef struct GlobalLock
{
	MemoryContext context;		/* of the connections */
	SourceConn *conn;			/* holds the lock; no transaction is ever opened on it */
	SourceConn *helper;			/* kills conn's waiting statement */
	const SourceOptions *options;
	const char *server_uuid;
	bool		global_allowed; /* until the source says no */
	GlobalLockKind held;
	int64		granted_at_us;	/* monotonic clock */
	int64		last_used_us;
	/* of the last acquire */
	int			tries;
	int64		wait_worst_us;
	int64		wait_total_us;
	char		refusal[512];	/* text of the last failed try, or empty */
} GlobalLock;

/* Opens both connections, to the server with this uuid, in the current memory context. */
extern GlobalLock *capstan_globallock_create(const SourceOptions *options, const char *server_uuid);

/*
 * One try of each kind that may be used, none waiting longer than bound_ms.  names: of the tables, ready-quoted.  Raises 42501 with the
 * GRANT when LOCK TABLES is not granted, 42P01 when a table is gone.
 */
extern bool capstan_globallock_try(GlobalLock *lock, List *names, long bound_ms);

/* Sets the figures back, before the first try. */
extern void capstan_globallock_begin(GlobalLock *lock);

/* Returns how long the lock was held, microseconds. */
extern int64 capstan_globallock_release(GlobalLock *lock);

/* What an operator can do when the lock is not had. */
extern char *capstan_globallock_hint(const GlobalLock *lock);

#endif
