/*
 * connections.h
 *		How many connections to sources there may be at a time: capstan.max_source_connections over the whole
 *		server, capstan.max_pipeline_connections for each pipeline.
 *
 * Counted is what may be opened, before it is opened, until the process that could have it open has ended.  A pipeline gets what it
 * cannot do without all at once, or waits for it holding nothing:
 *
 *	 stream			2	the stream, and one for what is asked beside it (describe.c, ddlguard.c, bounds.c)
 *	 coordinator	3	its view, the lock, the helper
 *	 copy worker	1	its view, each
 *
 * A consistent snapshot comes before the stream, and has one more beside it, which pins the tables: that is counted with the stream's two.
 *
 * Beyond that the coordinator takes what is free for locks on many small tables (snapshot/lockbatch.h).  The last connection of the server is
 * for SQL functions, one after the other.
 */
#ifndef CAPSTAN_CONNECTIONS_H
#define CAPSTAN_CONNECTIONS_H

#include "wire/wire.h"
#include "worker/shmem.h"

#define CAPSTAN_COORDINATOR_CONNECTIONS 3
/* What a pipeline needs at least, with one copy worker. */
#define CAPSTAN_LEAST_PIPELINE_CONNECTIONS 5

/* Pipeline worker, before it connects.  Waits in state `waiting`, in the order of arrival. */
extern void capstan_connections_acquire(PipelineSlot *slot, bool with_copy);
/* The copy workers that were taken into account become the slot's; returns how many.  0 with with_copy false: gives theirs back. */
extern int	capstan_connections_share_out(PipelineSlot *slot, bool with_copy);
/* Copy worker number i does not come. */
extern void capstan_connections_absent(PipelineSlot *slot, int i);

/*
 * Exit callbacks: what this process had.  The source may need a moment to notice, so it counts for a little longer.  The caller
 * holds the lock exclusively.
 */
extern void capstan_connections_leave_pipeline(PipelineSlot *slot);
extern void capstan_connections_leave_copy(PipelineSlot *slot, int i);

/*
 * Coordinator: how many connections it may have for locks on many tables, from `want` down to 2, or 0.  If that is fewer than before, the ones
 * too many must be closed, and then this be called again with what is left.
 */
extern int	capstan_connections_for_batch(PipelineSlot *slot, int want);

/* How many the slot has.  The caller holds the lock. */
extern int	capstan_connections_of(const PipelineSlot *slot);

/* SQL functions: a connection of their own.  Raises 53300 when none is free for some seconds. */
extern SourceConn *capstan_connections_open(const SourceOptions *options, const char *purpose);
extern void capstan_connections_close(SourceConn *conn);

#endif
