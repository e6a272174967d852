/*
 * process.c
 *		What pipeline and copy workers have in common: start, settings, waits.
 *
 * Called by the worker main functions.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/ps_status.h"

#include "compat.h"
#include "base/pages.h"
#include "worker/internal.h"

PipelineSlot *MySlot = NULL;
WorkerArgs	MyArgs;

/*
 * Settings of the database or the owner must not change what the worker does: pinned
 * with a source that ALTER DATABASE and ALTER ROLE do not reach.
 */
static const struct
{
	const char *name;
	const char *value;
}			pinned[] = {
	{"role", "none"},			/* we are the owner, not who it becomes at login */
	{"session_replication_role", "replica"},	/* no ordinary triggers, rules, foreign-key checks */
	{"search_path", "pg_catalog, pg_temp"},
	{"DateStyle", "ISO, YMD"},
	{"IntervalStyle", "postgres"},
	{"TimeZone", "UTC"},
	{"extra_float_digits", "1"},
	{"bytea_output", "hex"},
	{"standard_conforming_strings", "on"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"row_security", "off"},
	{"statement_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
#if COMPAT_TRANSACTION_TIMEOUT
	{"transaction_timeout", "0"},
#endif
	{"array_nulls", "on"},
	{"transform_null_equals", "off"},
	{"exit_on_error", "off"},	/* an ERROR is caught, told of, and judged */
	{"plan_cache_mode", "force_generic_plan"},
	{"jit", "off"},
};

void
capstan_process_connect(Oid database, Oid userid)
{
	capstan_pages_init();
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, userid, 0);

	for (int i = 0; i < (int) lengthof(pinned); i++)
		SetConfigOption(pinned[i].name, pinned[i].value, PGC_SUSET, PGC_S_OVERRIDE);
	/* somebody's lock on a target: a retry and an incident, not a silent stop */
	SetConfigOption("lock_timeout", GetConfigOption("capstan.lock_timeout", false, false), PGC_SUSET, PGC_S_OVERRIDE);
}

void
capstan_process_set_title(const char *kind, const char *pipeline, int copy_index)
{
	char		title[NAMEDATALEN + 40];

	if (copy_index >= 0)
		snprintf(title, sizeof(title), "capstan %s \"%s\" %d", kind, pipeline, copy_index + 1);
	else
		snprintf(title, sizeof(title), "capstan %s \"%s\"", kind, pipeline);
	SetConfigOption("application_name", title, PGC_USERSET, PGC_S_OVERRIDE);
	pgstat_report_appname(title);
}

uint32
capstan_wait_event(CapstanWait wait)
{
	static uint32 events[CAPSTAN_WAIT_CONNECTIONS + 1];

	if (events[wait] != 0)
		return events[wait];
	switch (wait)
	{
		case CAPSTAN_WAIT_LAUNCHER:
			events[wait] = COMPAT_NEW_WAIT_EVENT("CapstanLauncherMain");
			break;
		case CAPSTAN_WAIT_STREAM:
			events[wait] = COMPAT_NEW_WAIT_EVENT("CapstanStream");
			break;
		case CAPSTAN_WAIT_ROUND:
			events[wait] = COMPAT_NEW_WAIT_EVENT("CapstanSnapshotRound");
			break;
		case CAPSTAN_WAIT_SOURCE_LOCK:
			events[wait] = COMPAT_NEW_WAIT_EVENT("CapstanSourceLock");
			break;
		case CAPSTAN_WAIT_CONNECTIONS:
			events[wait] = COMPAT_NEW_WAIT_EVENT("CapstanSourceConnections");
			break;
	}
	return events[wait];
}

void
capstan_process_check_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
	/* a busy source never lets us come to a wait that would notice */
	if (!PostmasterIsAlive())
		proc_exit(1);
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

void
capstan_process_wait(long timeout_ms, CapstanWait wait)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout_ms, capstan_wait_event(wait));
	ResetLatch(MyLatch);
	capstan_process_check_interrupts();
}
