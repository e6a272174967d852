/*
 * lock.h
 *		Heavyweight locks that keep processes of one pipeline apart.
 *
 * Lock tags, in the advisory space with a class of our own (a user's
 * pg_advisory_lock cannot meet them):
 *
 *	 worker tag		the pipeline worker holds it exclusively for life: there is never a
 *					second one, and DROP can wait for its end
 *	 copy tag		every copy worker holds it shared for life; a new pipeline worker takes it
 *					exclusively once before it streams, so that no copy worker of an
 *					earlier run can commit a range after the stream has gone on
 *	 index tag		one for each captured table: who builds its indexes holds it
 */
#ifndef CAPSTAN_LOCK_H
#define CAPSTAN_LOCK_H

/* For the pipeline worker: session-level; false if another worker has it. */
extern bool capstan_lock_pipeline_worker(int64 pipeline_id);
/* For the pipeline worker, at start: waits until no copy worker is left. */
extern void capstan_lock_wait_for_copy_workers(int64 pipeline_id);
/* For copy workers: session-level. */
extern void capstan_lock_copy_worker(int64 pipeline_id);
/* For index workers: session-level; false if another one has the table. */
extern bool capstan_lock_table_for_indexes(int64 table_id);
extern void capstan_unlock_table_for_indexes(int64 table_id);
/*
 * For drop_pipeline: until the transaction's end no worker can start.  Waits up to 10 s for
 * a running one to leave; ERRCODE_OBJECT_IN_USE after that.
 */
extern void capstan_lock_pipeline_for_drop(int64 pipeline_id);

#endif
