/*
 * errcodes.c
 *		What a SQLSTATE means for a pipeline: retry or halt, and its incident class.
 *
 * The one place where transient is told from definite.  What is not listed as
 * transient is definite: a wrong guess in that direction stops loudly, the other
 * one would retry a bad value for ever.
 */
#include "postgres.h"

#include "utils/elog.h"

#include "errcodes.h"

typedef struct ErrcodeClass
{
	int			sqlerrcode;
	const char *name;
	bool		transient;
} ErrcodeClass;

static const ErrcodeClass own_codes[] = {
	{CAPSTAN_ERRCODE_DDL, "ddl_on_captured_table", false},
	{CAPSTAN_ERRCODE_TABLE_MAP, "table_map_mismatch", false},
	{CAPSTAN_ERRCODE_STATEMENT, "statement_logged", false},
	{CAPSTAN_ERRCODE_ROW_IMAGE, "partial_row_image", false},
	{CAPSTAN_ERRCODE_UNDECODABLE, "undecodable_event", false},
	{CAPSTAN_ERRCODE_CHECKSUM, "event_checksum", true},
	{CAPSTAN_ERRCODE_GTIDS_PURGED, "gtids_purged", false},
	{CAPSTAN_ERRCODE_POSITION_AHEAD, "position_ahead_of_source", false},
	{CAPSTAN_ERRCODE_SOURCE_IDENTITY, "source_identity", true},
	{CAPSTAN_ERRCODE_INEXACT, "snapshot_inexact", false},
	{CAPSTAN_ERRCODE_VALUE, "value_not_convertible", false},
	{CAPSTAN_ERRCODE_SOURCE_SETTING, "source_setting", false},
	{CAPSTAN_ERRCODE_LOCK, "table_lock_not_granted", true},
	{CAPSTAN_ERRCODE_CASCADE, "fk_cascade_unlogged", false},
	{CAPSTAN_ERRCODE_LOST_EVENTS, "source_lost_events", false},
	{CAPSTAN_ERRCODE_PREPARED_XA, "prepared_xa", false},
	{CAPSTAN_ERRCODE_SOURCE_TABLE, "source_table", false},
	{CAPSTAN_ERRCODE_TARGET_TABLE, "target_table", false},
	{CAPSTAN_ERRCODE_PIPELINE_STATE, "pipeline_state", false},
	{CAPSTAN_ERRCODE_WAIT_TIMEOUT, "wait_timeout", false},
	{CAPSTAN_ERRCODE_COPY_WORKER, "copy_worker", true},
	{CAPSTAN_ERRCODE_EXTENSION, "extension_version", false},
	{CAPSTAN_ERRCODE_SERVER_ID, "server_id_taken", true},
	{CAPSTAN_ERRCODE_DIVERGED, "source_diverged", false},
	{CAPSTAN_ERRCODE_SHARED_KEY, "shared_key_conflict", false},
	{CAPSTAN_ERRCODE_RETENTION, "binlog_retention", false},
	{CAPSTAN_ERRCODE_ATTEMPTS, "round_attempts", false},
	{CAPSTAN_ERRCODE_SNAPSHOT_TIME, "snapshot_time", false},
	{CAPSTAN_ERRCODE_DISK, "disk_usage", false},
};

static const ErrcodeClass *
find_own(int sqlerrcode)
{
	for (int i = 0; i < (int) lengthof(own_codes); i++)
		if (own_codes[i].sqlerrcode == sqlerrcode)
			return &own_codes[i];
	return NULL;
}

bool
capstan_errcode_is_transient(int sqlerrcode)
{
	const ErrcodeClass *own = find_own(sqlerrcode);

	if (own != NULL)
		return own->transient;

	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_TRANSACTION_ROLLBACK:	/* serialization failure, deadlock */
			return true;
	}
	switch (sqlerrcode)
	{
		case ERRCODE_LOCK_NOT_AVAILABLE:
		case ERRCODE_QUERY_CANCELED:
		case ERRCODE_ADMIN_SHUTDOWN:
		case ERRCODE_CRASH_SHUTDOWN:
		case ERRCODE_CANNOT_CONNECT_NOW:
		case ERRCODE_IO_ERROR:
			return true;
	}
	return false;
}

const char *
capstan_errcode_class(int sqlerrcode)
{
	const ErrcodeClass *own = find_own(sqlerrcode);

	return own != NULL ? own->name : unpack_sql_state(sqlerrcode);
}
