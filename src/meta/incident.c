/*
 * incident.c
 *		capstan.incident: every halt, retry and warning, and how it was resolved.
 *
 * Called by the workers (in a transaction of its own when something failed) and by
 * the SQL functions that resolve incidents.  Texts come ready made and hold no
 * row values.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"

#include "meta/internal.h"
#include "meta/meta.h"

/*
 * The newest open incident of the pipeline that tells the same story; 0 if there is none.  A retry that was
 * over only minutes ago goes on: a connection that comes and goes must not fill the table.
 */
static int64
find_same(const Incident *incident)
{
	Oid			types[5] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID};
	Datum		values[5] = {
		CStringGetTextDatum(incident->pipeline),
		CStringGetTextDatum(incident->severity),
		CStringGetTextDatum(incident->class),
		CStringGetTextDatum(incident->message),
		CStringGetTextDatum(META_GOES_ON)
	};

	meta_execute("SELECT id FROM capstan.incident WHERE pipeline = $1 AND severity = $2 AND class = $3 "
				 "AND message = $4 AND (resolved_at IS NULL OR (severity = 'retry' AND resolution = $5 "
				 "AND last_at > pg_catalog.now() - '10 minutes'::pg_catalog.interval)) ORDER BY id DESC LIMIT 1",
				 5, types, values, NULL, SPI_OK_SELECT);
	return SPI_processed == 0 ? 0 : meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
}

int64
capstan_meta_record_incident(const Incident *incident)
{
	MetaIdentity identity;
	int64		id = 0;

	capstan_meta_enter(&identity);
	if (strcmp(incident->severity, "retry") == 0 || strcmp(incident->severity, "warning") == 0)
		id = find_same(incident);

	if (id != 0)
	{
		Oid			types[2] = {INT8OID, TEXTOID};
		Datum		values[2] = {Int64GetDatum(id)};
		char		nulls[2] = {' '};

		values[1] = meta_text_or_null(incident->detail, &nulls[1]);
		meta_execute("UPDATE capstan.incident SET occurrences = occurrences + 1, detail = $2, "
					 "last_at = pg_catalog.clock_timestamp(), "
					 "resolved_at = NULL, resolved_by = NULL, resolution = NULL WHERE id = $1",
					 2, types, values, nulls, SPI_OK_UPDATE);
	}
	else
	{
		Oid			types[10];
		Datum		values[10];
		char		nulls[10];

		for (int i = 0; i < 10; i++)
			types[i] = TEXTOID;
		values[0] = meta_text_or_null(incident->pipeline, &nulls[0]);
		values[1] = meta_text_or_null(incident->severity, &nulls[1]);
		values[2] = meta_text_or_null(incident->class, &nulls[2]);
		values[3] = meta_text_or_null(incident->sqlerrcode == 0 ? NULL : unpack_sql_state(incident->sqlerrcode), &nulls[3]);
		values[4] = meta_text_or_null(incident->message, &nulls[4]);
		values[5] = meta_text_or_null(incident->detail, &nulls[5]);
		values[6] = meta_text_or_null(incident->hint, &nulls[6]);
		values[7] = meta_text_or_null(incident->gtid, &nulls[7]);
		values[8] = meta_text_or_null(incident->source_table, &nulls[8]);
		values[9] = meta_text_or_null(incident->source_statement, &nulls[9]);
		meta_execute("INSERT INTO capstan.incident (pipeline, severity, class, sqlstate, message, detail, hint, "
					 "gtid, source_table, source_statement) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) "
					 "RETURNING id", 10, types, values, nulls, SPI_OK_INSERT_RETURNING);
		id = meta_get_int64(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, 0);
	}
	capstan_meta_leave(&identity);
	return id;
}

char *
capstan_meta_last_retry(const char *pipeline)
{
	MemoryContext caller = CurrentMemoryContext;
	MetaIdentity identity;
	char	   *message = NULL;
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(pipeline)};

	capstan_meta_enter(&identity);
	/* that a copy worker ended is but the consequence */
	meta_execute("SELECT message FROM capstan.incident WHERE pipeline = $1 AND severity = 'retry' "
				 "ORDER BY class = 'copy_worker', last_at DESC LIMIT 1", 1, types, values, NULL, SPI_OK_SELECT);
	if (SPI_processed > 0)
		message = meta_get_text(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, caller);
	capstan_meta_leave(&identity);
	return message;
}

void
capstan_meta_halt(int64 pipeline_id, int64 incident_id)
{
	MetaIdentity identity;
	Oid			types[2] = {INT8OID, INT8OID};
	Datum		values[2] = {Int64GetDatum(pipeline_id), Int64GetDatum(incident_id)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.pipeline SET halted_by = $2 WHERE id = $1", 2, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}

void
capstan_meta_resolve_incidents(const char *pipeline, const char *severity, const char *resolution)
{
	MetaIdentity identity;
	Oid			types[3] = {TEXTOID, TEXTOID, TEXTOID};
	Datum		values[3] = {CStringGetTextDatum(pipeline), CStringGetTextDatum(severity), CStringGetTextDatum(resolution)};

	capstan_meta_enter(&identity);
	meta_execute("UPDATE capstan.incident SET resolved_at = pg_catalog.clock_timestamp(), "
				 "resolved_by = (SESSION_USER)::pg_catalog.text, resolution = $3 "
				 "WHERE pipeline = $1 AND severity = $2 AND resolved_at IS NULL",
				 3, types, values, NULL, SPI_OK_UPDATE);
	capstan_meta_leave(&identity);
}
