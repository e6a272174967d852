/*
 * errcodes.h
 *		SQLSTATEs of our own, and what a SQLSTATE means for a pipeline.
 *
 * Class "CA" is ours; where Postgres has a fitting SQLSTATE it is used instead (08001
 * no connection, 28P01 wrong password, 42501 missing privilege, 22023 wrong option
 * value, 42704 unknown server or pipeline ...).
 *
 * To be included after postgres.h.
 */
#ifndef CAPSTAN_ERRCODES_H
#define CAPSTAN_ERRCODES_H

/*		name													SQLSTATE					 incident class */
#define CAPSTAN_ERRCODE_DDL				MAKE_SQLSTATE('C','A','0','0','1')	/* ddl_on_captured_table */
#define CAPSTAN_ERRCODE_TABLE_MAP		MAKE_SQLSTATE('C','A','0','0','2')	/* table_map_mismatch */
#define CAPSTAN_ERRCODE_STATEMENT		MAKE_SQLSTATE('C','A','0','0','3')	/* statement_logged */
#define CAPSTAN_ERRCODE_ROW_IMAGE		MAKE_SQLSTATE('C','A','0','0','4')	/* partial_row_image */
#define CAPSTAN_ERRCODE_UNDECODABLE		MAKE_SQLSTATE('C','A','0','0','5')	/* undecodable_event */
#define CAPSTAN_ERRCODE_CHECKSUM		MAKE_SQLSTATE('C','A','0','0','6')	/* event_checksum (transient) */
#define CAPSTAN_ERRCODE_GTIDS_PURGED	MAKE_SQLSTATE('C','A','0','0','7')	/* gtids_purged */
#define CAPSTAN_ERRCODE_POSITION_AHEAD	MAKE_SQLSTATE('C','A','0','0','8')	/* position_ahead_of_source */
#define CAPSTAN_ERRCODE_SOURCE_IDENTITY MAKE_SQLSTATE('C','A','0','0','9')	/* source_identity: copy and stream reached different servers (transient) */
#define CAPSTAN_ERRCODE_INEXACT			MAKE_SQLSTATE('C','A','0','1','0')	/* snapshot_inexact */
#define CAPSTAN_ERRCODE_VALUE			MAKE_SQLSTATE('C','A','0','1','1')	/* value_not_convertible */
#define CAPSTAN_ERRCODE_SOURCE_SETTING	MAKE_SQLSTATE('C','A','0','1','2')	/* source_setting */
#define CAPSTAN_ERRCODE_LOCK			MAKE_SQLSTATE('C','A','0','1','3')	/* table_lock_not_granted (transient) */
#define CAPSTAN_ERRCODE_CASCADE			MAKE_SQLSTATE('C','A','0','1','4')	/* fk_cascade_unlogged */
#define CAPSTAN_ERRCODE_LOST_EVENTS		MAKE_SQLSTATE('C','A','0','1','5')	/* source_lost_events */
#define CAPSTAN_ERRCODE_PREPARED_XA		MAKE_SQLSTATE('C','A','0','1','6')	/* prepared_xa */
#define CAPSTAN_ERRCODE_SOURCE_TABLE	MAKE_SQLSTATE('C','A','0','1','7')	/* source_table: missing, no key, engine, column type */
#define CAPSTAN_ERRCODE_TARGET_TABLE	MAKE_SQLSTATE('C','A','0','1','8')	/* target_table: missing, not empty, no key, wrong column type */
#define CAPSTAN_ERRCODE_PIPELINE_STATE	MAKE_SQLSTATE('C','A','0','1','9')	/* pipeline_state: not running, halted, running already */
#define CAPSTAN_ERRCODE_WAIT_TIMEOUT	MAKE_SQLSTATE('C','A','0','2','0')	/* wait_timeout */
#define CAPSTAN_ERRCODE_COPY_WORKER		MAKE_SQLSTATE('C','A','0','2','1')	/* copy_worker: another process of the pipeline failed; its own incident says why (transient) */
#define CAPSTAN_ERRCODE_EXTENSION		MAKE_SQLSTATE('C','A','0','2','2')	/* extension_version: library and SQL objects differ, or not preloaded */
#define CAPSTAN_ERRCODE_SERVER_ID		MAKE_SQLSTATE('C','A','0','2','3')	/* server_id_taken: another client streams under our id (transient) */
#define CAPSTAN_ERRCODE_DIVERGED		MAKE_SQLSTATE('C','A','0','2','4')	/* source_diverged: GTIDs were given to other transactions again */
#define CAPSTAN_ERRCODE_SHARED_KEY		MAKE_SQLSTATE('C','A','0','2','5')	/* shared_key_conflict: a key of a shared target is there already */
/* Bounds, see worker/bounds.c; warnings at 80 % have the same class. */
#define CAPSTAN_ERRCODE_RETENTION		MAKE_SQLSTATE('C','A','0','3','0')	/* binlog_retention */
#define CAPSTAN_ERRCODE_ATTEMPTS		MAKE_SQLSTATE('C','A','0','3','1')	/* round_attempts */
#define CAPSTAN_ERRCODE_SNAPSHOT_TIME	MAKE_SQLSTATE('C','A','0','3','2')	/* snapshot_time */
#define CAPSTAN_ERRCODE_DISK			MAKE_SQLSTATE('C','A','0','3','3')	/* disk_usage */

/* Does the failure go away by itself (network, server gone, deadlock, shutdown), so that a retry is right? */
extern bool capstan_errcode_is_transient(int sqlerrcode);
/* The incident class: a name of ours for CA..., else the SQLSTATE's five characters. */
extern const char *capstan_errcode_class(int sqlerrcode);

#endif
