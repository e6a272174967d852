/*
 * module.c
 *		The library's entry: settings, shared memory, the launcher.
 *
 * Loaded by the postmaster through shared_preload_libraries, which is what makes pipelines
 * run; loaded without that by a backend that calls a SQL function, it has settings but
 * neither shared memory nor launcher, and the functions that need them say so.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"

#include "compat.h"
#include "worker/launcher.h"
#include "worker/shmem.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

#define LAUNCHER_RESTART_SECONDS 1

static void
register_launcher(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	/* a standby has no launcher until it is promoted */
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = LAUNCHER_RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "capstan", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "capstan_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "capstan launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "capstan launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

void
_PG_init(void)
{
	capstan_guc_init();
	if (!process_shared_preload_libraries_in_progress)
		return;
	capstan_shmem_request_init();
	/* pg_upgrade starts servers, too, but nothing is to be replicated into them */
	if (!IsBinaryUpgrade)
		register_launcher();
}
