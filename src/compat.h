/*
 * compat.h
 *		Differences between PostgreSQL 14 and 18, and nowhere else.
 *
 * To be included after postgres.h.
 */
#ifndef CAPSTAN_COMPAT_H
#define CAPSTAN_COMPAT_H

#if PG_VERSION_NUM < 140000
#error "capstan needs PostgreSQL 14 or newer"
#endif

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM >= 180000
#include "storage/waiteventset.h"
#endif

/* Shared memory is asked for in a hook from 15 on, in _PG_init before. */
#define COMPAT_SHMEM_REQUEST_HOOK (PG_VERSION_NUM >= 150000)

#if PG_VERSION_NUM >= 150000
#define COMPAT_RESERVE_GUC_PREFIX(prefix) MarkGUCPrefixReserved(prefix)
#else
#define COMPAT_RESERVE_GUC_PREFIX(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* The wait event of waits that need no name of their own. */
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define COMPAT_WAIT_EXTENSION WAIT_EVENT_EXTENSION
#define COMPAT_NEW_WAIT_EVENT(name) WaitEventExtensionNew(name)
#elif PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#define COMPAT_WAIT_EXTENSION PG_WAIT_EXTENSION
#define COMPAT_NEW_WAIT_EVENT(name) PG_WAIT_EXTENSION
#endif

#endif
