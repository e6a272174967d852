/*
 * pipelinedef.h
 *		Writing pipelines: create, drop, adopt, what should run; and looking at one as it is now.
 *
 * Called by sqlapi/, which has checked arguments and rights.  Like the rest of meta/:
 * inside the caller's transaction, acting as the extension's owner, no rights checked.
 */
#ifndef CAPSTAN_PIPELINEDEF_H
#define CAPSTAN_PIPELINEDEF_H

#include "meta/meta.h"

typedef struct PipelineTableDefinition
{
	const char *source_schema;
	const char *source_table;
	Oid			target;
	List	   *key;			/* char *: names of the key columns, in key order */
	bool		key_ordered;
	bool		key_pageable;
	bool		shared;			/* with other pipelines */
	const char *signature;		/* capstan_source_table_signature */
	const char *state;			/* 'pending', 'streaming', or 'requested' */
	int64		rows_estimate;	/* -1: unknown */
	int64		bytes_estimate;
} PipelineTableDefinition;

typedef struct PipelineDefinition
{
	const char *name;
	const char *server;
	Oid			owner;
	List	   *patterns;		/* char * */
	const char *snapshot;
	const char *zero_dates;
	const char *nul_bytes;
	bool		shared_target;
	List	   *tables;			/* PipelineTableDefinition * */
	List	   *objects;		/* TargetObject *, their numbers being places in `tables` */
} PipelineDefinition;

/* Its id.  A name or target that is taken ends in 23505: check first. */
extern int64 capstan_meta_create_pipeline(const PipelineDefinition *definition);

/* Which pipelines write these relations already. */
typedef struct TargetWriter
{
	Oid			target;
	char	   *pipeline;
	bool		shared;			/* with others that say so */
} TargetWriter;
/* As of this moment, whatever the isolation level of the transaction. */
extern List *capstan_meta_writers_of(const Oid *targets, int ntargets);

/* Locks the row until the transaction's end, so that start, stop and drop take turns.  False: there is none. */
extern bool capstan_meta_lock_pipeline(const char *name);

extern void capstan_meta_set_desired_state(int64 id, bool run);
/* The pipeline is halted no more; its open 'halt' and 'retry' incidents are resolved by that role. */
extern void capstan_meta_clear_halt(int64 id, const char *name, Oid by, const char *resolution);
/* Open incidents of every severity are resolved; the history stays. */
extern void capstan_meta_drop_pipeline(int64 id, const char *name, Oid by);
/* This cluster and database are the pipeline's from now on; the source sees a new replica. */
extern void capstan_meta_adopt_pipeline(int64 id);

/*
 * A pipeline as it is at this moment: the latest committed state, whatever the isolation level of
 * the transaction, and its own changes.
 */
typedef struct PipelineLook
{
	bool		exists;
	bool		run;
	bool		belongs_here;
	Oid			owner;
	int64		halted_by;		/* 0: not halted; then the incident's texts, NULL where it has none */
	char	   *halt_message;
	char	   *halt_detail;
	char	   *halt_hint;
	bool		started;		/* it has a position */
	char	   *applied;		/* gtid_set as text, NULL if not asked for or never started */
	/* 0 and false where the position was asked for: they are counted, which takes long where there are many tables */
	int64		tables;
	int64		tables_pending; /* not copied yet */
	int64		tables_unindexed;	/* when all are copied: those without some index or ANALYZE; before, 0 */
	bool		building;		/* an index, CONCURRENTLY */
} PipelineLook;

/* With the position, or with the numbers of tables. */
extern void capstan_meta_look(int64 id, bool with_applied, PipelineLook *look);

#endif
