/*
 * generation.h
 *		Copies of single tables of a pipeline: adding and removing tables, new generations, shadows.
 *
 * Like the rest of meta/: inside the caller's transaction, acting as the extension's owner, no rights checked.
 *
 * A generation begins in two steps, so that no worker that knows the table otherwise takes part in it:
 *
 *	 SQL function		state 'requested', a new number, the new definition, `since`; at COMMIT the pipeline worker is replaced
 *	 next pipeline worker	before anything else, when no worker of the one before it is left: 'pending' (capstan_meta_begin_generations)
 *
 * `since` is what the source had executed before the definition was read.  What is in it has happened before this generation: its
 * copy brings it, whatever the table looked like then.  So until something of the generation is copied
 *
 *	 row changes of the table are left out, be they in `since` or not
 *	 statements on it pass if they are in `since`, and halt the pipeline otherwise
 *
 * Why that is exact: nothing of the generation is on the target yet.  The first round that copies something of it stops the stream
 * at the first boundary with G in the applied set, and then all changes of the table that the stream has passed are in G, hence in the
 * view that is copied (roundgate.c); that position is committed before anything is copied, so they do not come again either.  From there on the rules for any table hold: what is copied equals the source, and the
 * rest of the target is a part of it, namely nothing.  A statement that is in `since` is in effect in the definition that was read after
 * it; one that is not may not be, and the copy could read what it has described wrongly.
 */
#ifndef CAPSTAN_GENERATION_H
#define CAPSTAN_GENERATION_H

#include "meta/meta.h"
#include "meta/pipelinedef.h"

/* What a new generation begins with. */
typedef struct GenerationStart
{
	const char *since;
	bytea	   *defaults;		/* NULL: not noted */
} GenerationStart;

/* A table more, 'requested'; the pattern is added to the pipeline's.  objects: List of TargetObject * of this table alone. */
extern void capstan_meta_add_table(int64 pipeline_id, const PipelineTableDefinition *table, const GenerationStart *start,
								   const char *pattern, List *objects);
/* The target stays. */
extern void capstan_meta_remove_table(int64 table_id);
/* 'requested'; returns the new generation. */
extern int	capstan_meta_new_generation(int64 table_id, const PipelineTableDefinition *table, const GenerationStart *start);

/*
 * For a pipeline worker that begins, when no other worker of the pipeline is left: what is 'requested' becomes 'pending'.  If that
 * are all tables, the position is forgotten, too: nothing on the target rests on it.
 */
extern void capstan_meta_begin_generations(int64 pipeline_id);

/* Where the new content of a table is built while the target keeps the old one. */
typedef struct TableShadow
{
	Oid			shadow;
	Oid			target;
	List	   *columns;		/* char *, of the target: what comes from the source */
	List	   *key;			/* char *, of the target; NIL: it has none */
	bool		exchanged;		/* only to be dropped */
} TableShadow;

extern TableShadow *capstan_meta_shadow(int64 table_id);	/* NULL: none */
extern void capstan_meta_set_shadow(int64 table_id, const TableShadow *shadow);
extern void capstan_meta_shadow_exchanged(int64 table_id);
extern void capstan_meta_forget_shadow(int64 table_id);
/* Ids (int64 *) of the pipeline's tables that have a shadow; only_exchanged: those that are to be dropped. */
extern List *capstan_meta_tables_with_shadow(int64 pipeline_id, bool only_exchanged);

/* What somebody did, and why: an incident of severity 'action', resolved as it is made. */
extern void capstan_meta_record_action(const char *pipeline, const char *class, const char *message, const char *source_table,
									   Oid by, const char *reason);
/* The source table that an incident names; NULL: none. */
extern char *capstan_meta_incident_table(int64 incident_id);

#endif
