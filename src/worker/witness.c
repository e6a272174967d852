/*
 * witness.c
 *		Does the source still mean the same by its GTIDs?
 *
 * Called by the pipeline worker: at connect, at each GTID event, at the end of each source transaction.
 *
 * A GTID set says which transactions were applied, not what they were.  A source that was reset (RESET BINARY
 * LOGS AND GTIDS keeps its uuid) or restored to an earlier time gives the same numbers again to other transactions; as
 * soon as it has made enough of them, "applied is a subset of executed" holds, and the stream would go on as if
 * nothing had happened, without the new transactions that bear old numbers.
 *
 * So a recently applied transaction, the witness, is remembered with its original commit time (microseconds; replicas
 * keep it), and on each connect it is asked for once more: the dump is opened with the applied set less the witness.  When
 * it comes its commit time must be the one that is remembered; it is not applied again.  A source that has
 * purged the witness is not asked.
 *
 * Large transactions are no witnesses, since each connect sends the witness again; an older one stays good.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "errcodes.h"
#include "worker/pipelineworker.h"

#define WITNESS_MOST_BYTES (16 * 1024 * 1024)

/*
 * The set to open the dump with: what was applied, less the witness if there is one that the source can send.  In the
 * current memory context, which must be the stream's.
 */
GtidSet *
capstan_witness_summon(PipelineRun *run, const GtidSet *purged)
{
	GtidSet    *gone;
	CapstanError error;

	run->witness_awaited = NULL;
	if (run->witness.gtid[0] == '\0')
		return capstan_gtidset_copy(run->applied);
	run->witness_awaited = capstan_gtidset_parse(run->witness.gtid, strlen(run->witness.gtid), &error);
	if (run->witness_awaited == NULL)
		elog(ERROR, "stored witness of pipeline " INT64_FORMAT " is broken: %s", run->pipeline->id, error.message);
	gone = capstan_gtidset_subtract(run->witness_awaited, purged);
	if (capstan_gtidset_is_empty(gone) || !capstan_gtidset_contains_set(run->applied, run->witness_awaited))
	{
		capstan_gtidset_free(run->witness_awaited);
		run->witness_awaited = NULL;
	}
	capstan_gtidset_free(gone);
	if (run->witness_awaited == NULL)
		return capstan_gtidset_copy(run->applied);
	return capstan_gtidset_subtract(run->applied, run->witness_awaited);
}

static char *
commit_time_text(uint64 commit_us)
{
	return pstrdup(timestamptz_to_str((TimestampTz) commit_us -
									  (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY));
}

/* A GTID event: is it the witness, whose events are to be left out?  Raises if it is an impostor. */
bool
capstan_witness_is(PipelineRun *run, const BinlogEvent *event)
{
	uint64		commit_us = event->u.gtid.original_commit_us;

	if (run->witness_awaited == NULL || !capstan_gtidset_contains(run->witness_awaited, &event->u.gtid.gtid))
		return false;
	if (commit_us != 0 && commit_us != run->witness.commit_us)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_DIVERGED),
				 errmsg("the source uses GTIDs again that it had used for other transactions"),
				 errdetail("Transaction %s was committed at %s when it was applied here, and at %s if source %s is asked now.",
						   run->witness.gtid, commit_time_text(run->witness.commit_us), commit_time_text(commit_us),
						   run->source_uuid),
				 errhint("The source was reset, or restored to an earlier time: its tables and the target have gone apart. "
						 "capstan.restart_snapshot() copies all of them anew.")));
	capstan_gtidset_free(run->witness_awaited);
	run->witness_awaited = NULL;
	return true;
}

/* A source transaction of so many bytes was applied; its text is in MyPlace. */
void
capstan_witness_note(PipelineRun *run, uint64 original_commit_us, int64 bytes)
{
	if (original_commit_us == 0 || bytes > WITNESS_MOST_BYTES)
		return;
	strlcpy(run->witness.gtid, MyPlace.gtid, sizeof(run->witness.gtid));
	run->witness.commit_us = original_commit_us;
}
