/*
 * lock.c
 *		Heavyweight locks that keep processes of one pipeline apart.  See lock.h.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "worker/lock.h"

/* Last field of the tag; pg_advisory_lock uses 1 and 2. */
#define TAG_WORKER	0xCA01
#define TAG_COPY	0xCA02
#define TAG_INDEX	0xCA03

#define DROP_WAIT_MS 10000

static void
make_tag(LOCKTAG *tag, int64 pipeline_id, uint16 which)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, (uint32) (pipeline_id >> 32), (uint32) pipeline_id, which);
}

bool
capstan_lock_pipeline_worker(int64 pipeline_id)
{
	LOCKTAG		tag;

	LockAcquireResult result;

	make_tag(&tag, pipeline_id, TAG_WORKER);
	StartTransactionCommand();
	result = LockAcquire(&tag, ExclusiveLock, true, true);
	CommitTransactionCommand();
	return result != LOCKACQUIRE_NOT_AVAIL;
}

void
capstan_lock_wait_for_copy_workers(int64 pipeline_id)
{
	LOCKTAG		tag;

	make_tag(&tag, pipeline_id, TAG_COPY);
	StartTransactionCommand();
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	CommitTransactionCommand();
}

void
capstan_lock_copy_worker(int64 pipeline_id)
{
	LOCKTAG		tag;

	make_tag(&tag, pipeline_id, TAG_COPY);
	StartTransactionCommand();
	(void) LockAcquire(&tag, ShareLock, true, false);
	CommitTransactionCommand();
}

bool
capstan_lock_table_for_indexes(int64 table_id)
{
	LOCKTAG		tag;
	LockAcquireResult result;

	make_tag(&tag, table_id, TAG_INDEX);
	StartTransactionCommand();
	result = LockAcquire(&tag, ExclusiveLock, true, true);
	CommitTransactionCommand();
	return result != LOCKACQUIRE_NOT_AVAIL;
}

void
capstan_unlock_table_for_indexes(int64 table_id)
{
	LOCKTAG		tag;

	make_tag(&tag, table_id, TAG_INDEX);
	(void) LockRelease(&tag, ExclusiveLock, true);
}

void
capstan_lock_pipeline_for_drop(int64 pipeline_id)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), DROP_WAIT_MS);
	LOCKTAG		tag;

	make_tag(&tag, pipeline_id, TAG_WORKER);
	while (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("the worker of the pipeline is still running"),
					 errdetail("It did not end within %d seconds.", DROP_WAIT_MS / 1000),
					 errhint("Call capstan.stop_pipeline() first, in a transaction of its own, and look at capstan.pipeline_status.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 20, COMPAT_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
