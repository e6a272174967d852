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

/*
 * We build with -fvisibility=hidden: what SQL and the postmaster look up by name must be
 * marked.  PGDLLEXPORT does so only from 16 on, and PG_FUNCTION_INFO_V1 marks the function itself, not only
 * its info record, from 16 on too.
 */
#if PG_VERSION_NUM < 160000
#include "fmgr.h"
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(function) \
	extern PGDLLEXPORT Datum function(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##function(void); \
	const Pg_finfo_record * \
	pg_finfo_##function(void) \
	{ \
		static const Pg_finfo_record info = {1}; \
\
		return &info; \
	} \
	extern int	no_such_variable
#endif

/* May the role use the foreign server? */
#if PG_VERSION_NUM >= 160000
#define COMPAT_SERVER_ACLCHECK(server, role) object_aclcheck(ForeignServerRelationId, server, role, ACL_USAGE)
#else
#define COMPAT_SERVER_ACLCHECK(server, role) pg_foreign_server_aclcheck(server, role, ACL_USAGE)
#endif

/* May the role connect to the database? */
#if PG_VERSION_NUM >= 160000
#define COMPAT_CONNECT_ACLCHECK(database, role) object_aclcheck(DatabaseRelationId, database, role, ACL_CONNECT)
#else
#define COMPAT_CONNECT_ACLCHECK(database, role) pg_database_aclcheck(database, role, ACL_CONNECT)
#endif

/* 17 has a timeout for whole transactions, armed in background workers too. */
#define COMPAT_TRANSACTION_TIMEOUT (PG_VERSION_NUM >= 170000)

/* Shared memory is asked for in a hook from 15 on, in _PG_init before. */
#define COMPAT_SHMEM_REQUEST_HOOK (PG_VERSION_NUM >= 150000)

#if PG_VERSION_NUM >= 150000
#define COMPAT_RESERVE_GUC_PREFIX(prefix) MarkGUCPrefixReserved(prefix)
#else
#define COMPAT_RESERVE_GUC_PREFIX(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* A timeout that fires again and again; in 14 it fires once.  Needs utils/timeout.h and utils/timestamp.h. */
#if PG_VERSION_NUM >= 150000
#define COMPAT_ENABLE_TIMEOUT_EVERY(id, ms) \
	enable_timeout_every(id, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms), ms)
#else
#define COMPAT_ENABLE_TIMEOUT_EVERY(id, ms) enable_timeout_after(id, ms)
#endif

/* The wait event of waits that need no name of their own. */
#define COMPAT_WAIT_EXTENSION PG_WAIT_EXTENSION
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define COMPAT_NEW_WAIT_EVENT(name) WaitEventExtensionNew(name)
#elif PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#define COMPAT_NEW_WAIT_EVENT(name) PG_WAIT_EXTENSION
#endif

/* A set to wait on that lives as long as the process, or until it is freed. */
#if PG_VERSION_NUM >= 170000
#define COMPAT_CREATE_WAIT_EVENT_SET(nevents) CreateWaitEventSet(NULL, nevents)
#else
#define COMPAT_CREATE_WAIT_EVENT_SET(nevents) CreateWaitEventSet(CurrentMemoryContext, nevents)
#endif

/* A range table of the one relation that an executor state writes to; needs parser/parse_relation.h from 16 on. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_INIT_RANGE_TABLE(estate, rte) \
	do { \
		List	   *permissions_ = NIL; \
		(void) addRTEPermissionInfo(&permissions_, rte); \
		ExecInitRangeTable(estate, list_make1(rte), permissions_, bms_make_singleton(1)); \
	} while (0)
#elif PG_VERSION_NUM >= 160000
#define COMPAT_INIT_RANGE_TABLE(estate, rte) \
	do { \
		List	   *permissions_ = NIL; \
		(void) addRTEPermissionInfo(&permissions_, rte); \
		ExecInitRangeTable(estate, list_make1(rte), permissions_); \
	} while (0)
#else
#define COMPAT_INIT_RANGE_TABLE(estate, rte) ExecInitRangeTable(estate, list_make1(rte))
#endif

/* Index entries of a tuple just inserted, duplicates being errors. */
#if PG_VERSION_NUM >= 160000
#define COMPAT_INSERT_INDEX_TUPLES(relinfo, slot, estate) \
	ExecInsertIndexTuples(relinfo, slot, estate, false, false, NULL, NIL, false)
#else
#define COMPAT_INSERT_INDEX_TUPLES(relinfo, slot, estate) \
	ExecInsertIndexTuples(relinfo, slot, estate, false, false, NULL, NIL)
#endif

/* Whether an update leaves an index's columns alone can be said in its IndexInfo; 14 looks at the range table each time. */
#define COMPAT_HAS_UNCHANGED_HINT (PG_VERSION_NUM >= 150000)

/* What table_tuple_update() says of the indexes, and the index entries of an updated tuple, duplicates being errors. */
#if PG_VERSION_NUM >= 160000
#define COMPAT_UPDATE_INDEXES TU_UpdateIndexes
#define COMPAT_UPDATES_INDEXES(update) ((update) != TU_None)
#define COMPAT_UPDATES_ALL_INDEXES(update) ((update) == TU_All)
#define COMPAT_INSERT_INDEX_TUPLES_OF_UPDATE(relinfo, slot, estate, update) \
	ExecInsertIndexTuples(relinfo, slot, estate, true, false, NULL, NIL, (update) == TU_Summarizing)
#else
#define COMPAT_UPDATE_INDEXES bool
#define COMPAT_UPDATES_INDEXES(update) (update)
#define COMPAT_UPDATES_ALL_INDEXES(update) (update)
#define COMPAT_INSERT_INDEX_TUPLES_OF_UPDATE(relinfo, slot, estate, update) \
	ExecInsertIndexTuples(relinfo, slot, estate, COMPAT_HAS_UNCHANGED_HINT, false, NULL, NIL)
#endif

/* A plain index scan. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_INDEX_BEGINSCAN(relation, index, snapshot, nkeys) index_beginscan(relation, index, snapshot, NULL, nkeys, 0)
#else
#define COMPAT_INDEX_BEGINSCAN(relation, index, snapshot, nkeys) index_beginscan(relation, index, snapshot, nkeys, 0)
#endif

/* Generated columns that are computed on reading. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_HAS_VIRTUAL_COLUMNS(constr) ((constr)->has_generated_virtual)
#else
#define COMPAT_HAS_VIRTUAL_COLUMNS(constr) false
#endif

#endif
