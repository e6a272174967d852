/*
 * guc.c
 *		Settings.  Defined in _PG_init, also in backends that only call SQL functions.
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "apply/apply.h"
#include "compat.h"
#include "worker/connections.h"
#include "worker/shmem.h"

int			capstan_max_pipelines = 16;
char	   *capstan_databases = NULL;
int			capstan_copy_workers = 2;
bool		capstan_log_row_values = false;
int			capstan_max_lock_wait = 1000;
int			capstan_range_time = 2000;
int			capstan_max_range_rows = 20 * 1000 * 1000;
int			capstan_group_rows = 10000;
int			capstan_group_bytes = 16384;
int			capstan_group_time = 200;
int			capstan_heartbeat = 100;
int			capstan_lock_timeout = 60000;
int			capstan_max_source_connections = 100;
int			capstan_max_pipeline_connections = 40;
int			capstan_bounds_interval = 10000;
int			capstan_max_round_attempts = 1000;
int			capstan_max_snapshot_time = 0;
int			capstan_max_disk_usage = 95;
int			capstan_synchronous_commit = SYNCHRONOUS_COMMIT_OFF;

static const struct config_enum_entry synchronous_commit_options[] = {
	{"off", SYNCHRONOUS_COMMIT_OFF, false},
	{"local", SYNCHRONOUS_COMMIT_LOCAL_FLUSH, false},
	{"remote_write", SYNCHRONOUS_COMMIT_REMOTE_WRITE, false},
	{"on", SYNCHRONOUS_COMMIT_REMOTE_FLUSH, false},
	{"remote_apply", SYNCHRONOUS_COMMIT_REMOTE_APPLY, false},
	{NULL, 0, false}
};

static void
define_int(const char *name, const char *description, int *variable, int boot, int min, int max, GucContext context, int flags)
{
	DefineCustomIntVariable(name, description, NULL, variable, boot, min, max, context, flags, NULL, NULL, NULL);
}

/* Less would be enough for no snapshot. */
static bool
check_connections(int *value, int least)
{
	if (*value == 0 || *value >= least)
		return true;
	GUC_check_errdetail("It must be at least %d, or 0 for no bound.", least);
	return false;
}

static bool
check_source_connections(int *value, void **extra, GucSource source)
{
	return check_connections(value, CAPSTAN_LEAST_PIPELINE_CONNECTIONS + 1);
}

static bool
check_pipeline_connections(int *value, void **extra, GucSource source)
{
	return check_connections(value, CAPSTAN_LEAST_PIPELINE_CONNECTIONS);
}

void
capstan_guc_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		define_int("capstan.max_pipelines",
				   "Number of pipelines that can run in this cluster.",
				   &capstan_max_pipelines, 16, 1, 1024, PGC_POSTMASTER, 0);

	DefineCustomStringVariable("capstan.databases",
							   "Databases to look into for pipelines at server start, comma-separated.",
							   "Empty: every database that can be connected to.",
							   &capstan_databases, "", PGC_SIGHUP, GUC_LIST_INPUT, NULL, NULL, NULL);
	define_int("capstan.copy_workers", "Copy workers of a pipeline during its snapshot.",
			   &capstan_copy_workers, 2, 1, CAPSTAN_MAX_COPY_WORKERS, PGC_SUSET, 0);
	define_int("capstan.max_lock_wait",
			   "Longest time a lock on a source table may be waited for while it holds back writers there.",
			   &capstan_max_lock_wait, 1000, 10, 60000, PGC_SUSET, GUC_UNIT_MS);
	define_int("capstan.range_time",
			   "Time that copying one round of ranges should take; the stream stands still meanwhile.",
			   &capstan_range_time, 2000, 10, 600000, PGC_SUSET, GUC_UNIT_MS);
	define_int("capstan.max_range_rows", "Most rows of a range, however fast ranges are copied.",
			   &capstan_max_range_rows, 20 * 1000 * 1000, 1, INT_MAX, PGC_SUSET, 0);
	define_int("capstan.group_rows", "Rows after which a group of source transactions is committed.",
			   &capstan_group_rows, 10000, 1, INT_MAX, PGC_SUSET, 0);
	define_int("capstan.group_bytes", "Binary log bytes after which a group of source transactions is committed.",
			   &capstan_group_bytes, 16384, 1, MAX_KILOBYTES, PGC_SUSET, GUC_UNIT_KB);
	define_int("capstan.group_time", "Time after which a group of source transactions is committed.",
			   &capstan_group_time, 200, 1, 60000, PGC_SUSET, GUC_UNIT_MS);
	define_int("capstan.heartbeat", "How often an idle source is asked to show that it is alive.",
			   &capstan_heartbeat, 100, 10, 10000, PGC_SUSET, GUC_UNIT_MS);
	define_int("capstan.lock_timeout",
			   "How long a worker waits for a lock that somebody holds on a target table before it retries.",
			   &capstan_lock_timeout, 60000, 100, INT_MAX, PGC_SUSET, GUC_UNIT_MS);
	DefineCustomIntVariable("capstan.max_source_connections",
							"Connections to sources that this server has open at a time; 0: no bound.",
							"A pipeline that cannot have what it needs waits. One connection is kept for SQL functions.",
							&capstan_max_source_connections, 100, 0, 100000, PGC_SIGHUP, 0, check_source_connections, NULL, NULL);
	DefineCustomIntVariable("capstan.max_pipeline_connections",
							"Connections to its source that a pipeline has open at a time; 0: no bound.",
							"Fewer copy workers are started, and fewer small tables share a snapshot round, where it is not enough.",
							&capstan_max_pipeline_connections, 40, 0, 100000, PGC_SIGHUP, 0, check_pipeline_connections, NULL, NULL);
	define_int("capstan.bounds_interval", "How often a pipeline looks how near it is to its bounds.",
			   &capstan_bounds_interval, 10000, 100, 3600000, PGC_SUSET, GUC_UNIT_MS);
	define_int("capstan.max_round_attempts", "Attempts at a snapshot round after which the pipeline halts; 0: no bound.",
			   &capstan_max_round_attempts, 1000, 0, INT_MAX, PGC_SUSET, 0);
	define_int("capstan.max_snapshot_time", "Time that a snapshot may take before the pipeline halts; 0: no bound.",
			   &capstan_max_snapshot_time, 0, 0, INT_MAX, PGC_SUSET, GUC_UNIT_S);
	define_int("capstan.max_disk_usage",
			   "Percentage of a file system of the target that may be used before the pipeline halts; 0: no bound.",
			   &capstan_max_disk_usage, 95, 0, 100, PGC_SUSET, 0);
	DefineCustomEnumVariable("capstan.synchronous_commit",
							 "synchronous_commit of the pipelines' workers.",
							 "Rows and position commit together, so that off loses nothing: "
							 "what a crash takes back is applied again.",
							 &capstan_synchronous_commit, SYNCHRONOUS_COMMIT_OFF, synchronous_commit_options,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("capstan.direct_apply",
							 "Writes changes of plain tables without SQL statements; the results are the same.",
							 NULL, &capstan_direct_apply, true, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("capstan.log_row_values",
							 "Lets row values into log messages and incidents.",
							 NULL, &capstan_log_row_values, false, PGC_SUSET, 0, NULL, NULL, NULL);

	COMPAT_RESERVE_GUC_PREFIX("capstan");
}
