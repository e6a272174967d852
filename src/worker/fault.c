/*
 * fault.c
 *		Strikes a worker at the place that a test has chosen; for tests only, see fault.h.
 *
 * The choice is a file in the data directory, so that it is there for every process and for the server that comes up
 * after the strike:
 *
 *		NAME PASSING ACTION [COPY_INDEX]
 *
 * The process that passes the place for the PASSING-th time (of those with the copy index, if there is one) acts.  The file is
 * removed before, and who removes it is the one that acts: each file strikes once.
 *
 *		kill			this process, by SIGKILL: the postmaster ends all others and starts anew
 *		postmaster		the postmaster, by SIGKILL
 *		term			this process, by SIGTERM
 *		hold			stand still until the file capstan_fault.go is there, and remove it
 *		say				what CAPSTAN_FAULT_SAYS asks at this place
 */
#include "postgres.h"

#include "worker/fault.h"

#ifdef CAPSTAN_FAULT_POINTS

#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "worker/internal.h"

#define FAULT_FILE "capstan_fault"
#define GO_FILE "capstan_fault.go"
#define HOLD_POLL_MS 20

typedef struct Fault
{
	char		name[64];
	int			passing;
	char		action[16];
	int			copy_index;		/* -1: any process */
} Fault;

static bool
read_fault(Fault *fault)
{
	FILE	   *file = AllocateFile(FAULT_FILE, "r");
	int			n;

	if (file == NULL)
		return false;
	fault->copy_index = -1;
	n = fscanf(file, "%63s %d %15s %d", fault->name, &fault->passing, fault->action, &fault->copy_index);
	FreeFile(file);
	return n >= 3;
}

void
capstan_fault_stand(void)
{
	while (unlink(GO_FILE) != 0)
		capstan_process_wait(HOLD_POLL_MS, CAPSTAN_WAIT_ROUND);
}

/* True: what it is to say. */
bool
capstan_fault_point(const char *name)
{
	static Fault last;
	static int	passed = 0;
	Fault		fault;

	memset(&fault, 0, sizeof(fault));
	if (!read_fault(&fault))
	{
		passed = 0;
		return false;
	}
	if (memcmp(&fault, &last, sizeof(fault)) != 0)
		passed = 0;
	last = fault;
	if (strcmp(fault.name, name) != 0 || (fault.copy_index >= 0 && fault.copy_index != MyArgs.copy_index) ||
		++passed < fault.passing || unlink(FAULT_FILE) != 0)
		return false;

	passed = 0;
	elog(LOG, "fault point %s: %s", name, fault.action);
	if (strcmp(fault.action, "kill") == 0)
		kill(MyProcPid, SIGKILL);
	else if (strcmp(fault.action, "postmaster") == 0)
		kill(PostmasterPid, SIGKILL);
	else if (strcmp(fault.action, "term") == 0)
		kill(MyProcPid, SIGTERM);
	else if (strcmp(fault.action, "hold") == 0)
		capstan_fault_stand();
	return strcmp(fault.action, "say") == 0;
}

#endif
