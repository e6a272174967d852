/*
 * progress.c
 *		The position: capstan.pipeline_progress.
 *
 * Called by the pipeline worker alone.  save runs once in every apply transaction, so it
 * keeps its plan; the row it updates is narrow, with no index on what changes, so that the
 * update stays HOT.  A large GTID set lies in the TOAST table and is left there at most commits: what came since is
 * small, and beside it (applied_since).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "errcodes.h"
#include "meta/internal.h"
#include "meta/meta.h"

#define UNIX_TO_POSTGRES_US \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

static GtidSet *
parse_stored(int64 pipeline_id, const char *text)
{
	CapstanError error;
	GtidSet    *set = capstan_gtidset_parse(text, strlen(text), &error);

	if (set == NULL)
		elog(ERROR, "stored GTID set of pipeline " INT64_FORMAT " is broken: %s", pipeline_id, error.message);
	return set;
}

GtidSet *
capstan_meta_load_progress(int64 pipeline_id, char source_uuid[37], Witness *witness)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(pipeline_id)};
	GtidSet    *applied = NULL;

	memset(witness, 0, sizeof(*witness));
	capstan_meta_enter(&identity);
	meta_execute("SELECT applied::text, source_uuid, witness_gtid, witness_commit_us, applied_since::text "
				 "FROM capstan.pipeline_progress WHERE pipeline_id = $1",
				 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
	{
		char	   *text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
		char	   *uuid = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
		char	   *witness_gtid = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 3);
		char	   *since = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 5);
		MemoryContext spi = MemoryContextSwitchTo(caller);

		applied = parse_stored(pipeline_id, text);
		if (since != NULL)
		{
			GtidSet    *later = parse_stored(pipeline_id, since);

			capstan_gtidset_add_set(applied, later);
			capstan_gtidset_free(later);
		}
		MemoryContextSwitchTo(spi);
		strlcpy(source_uuid, uuid == NULL ? "" : uuid, 37);
		if (witness_gtid != NULL)
		{
			strlcpy(witness->gtid, witness_gtid, sizeof(witness->gtid));
			witness->commit_us = (uint64) meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 4, 0);
		}
	}
	capstan_meta_leave(&identity);
	return applied;
}

void
capstan_meta_init_progress(int64 pipeline_id, const char *applied, const char *source_uuid)
{
	MetaIdentity identity;
	Oid			types[3] = {INT8OID, TEXTOID, TEXTOID};
	Datum		values[3] = {Int64GetDatum(pipeline_id), CStringGetTextDatum(applied), CStringGetTextDatum(source_uuid)};

	capstan_meta_enter(&identity);
	meta_execute("INSERT INTO capstan.pipeline_progress (pipeline_id, applied, source_uuid) "
				 "VALUES ($1, $2::capstan.gtid_set, $3::pg_catalog.uuid)",
				 3, types, values, NULL, SPI_OK_INSERT);
	capstan_meta_leave(&identity);
}

void
capstan_meta_save_progress(int64 pipeline_id, const char *applied, const char *since, const char *source_uuid,
						   uint64 source_commit_us, const Witness *witness)
{
	static SPIPlanPtr plan = NULL;
	MetaIdentity identity;
	Oid			types[7] = {INT8OID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID, INT8OID, TEXTOID};
	Datum		values[7];
	char		nulls[7] = {' ', ' ', ' ', ' ', ' ', ' ', ' '};

	capstan_meta_enter(&identity);
	if (plan == NULL)
	{
		plan = SPI_prepare("UPDATE capstan.pipeline_progress SET "
						   "applied = COALESCE($2::capstan.gtid_set, applied), applied_since = $7::capstan.gtid_set, "
						   "source_uuid = $3::pg_catalog.uuid, "
						   "source_commit_time = COALESCE($4, source_commit_time), "
						   "witness_gtid = $5, witness_commit_us = $6, "
						   "updated_at = pg_catalog.now() WHERE pipeline_id = $1", 7, types);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare the progress update: %s", SPI_result_code_string(SPI_result));
	}
	values[0] = Int64GetDatum(pipeline_id);
	values[1] = meta_text_or_null(applied, &nulls[1]);
	values[6] = meta_text_or_null(since, &nulls[6]);
	values[2] = CStringGetTextDatum(source_uuid);
	values[3] = TimestampTzGetDatum((int64) source_commit_us - UNIX_TO_POSTGRES_US);
	if (source_commit_us == 0)
		nulls[3] = 'n';
	values[4] = CStringGetTextDatum(witness->gtid);
	values[5] = Int64GetDatum((int64) witness->commit_us);
	if (witness->gtid[0] == '\0')
		nulls[4] = nulls[5] = 'n';
	if (SPI_execute_plan(plan, values, nulls, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not update the progress");
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_PIPELINE_STATE),
				 errmsg("the progress row of the pipeline is gone"),
				 errdetail("capstan.pipeline_progress has no row for pipeline " INT64_FORMAT ".", pipeline_id),
				 errhint("The pipeline was dropped while it ran, or its catalog was changed by hand.")));
	capstan_meta_leave(&identity);
}
