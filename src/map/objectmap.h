/*
 * objectmap.h
 *		What becomes of indexes, foreign keys, checks, defaults and comments of the source on the target.
 *
 * Called by sqlapi/ when a pipeline is created.  What is not known to mean the same is not translated, and says why.
 */
#ifndef CAPSTAN_OBJECTMAP_H
#define CAPSTAN_OBJECTMAP_H

#include "map/map.h"
#include "object.h"

/* A table with its target, which exists. */
typedef struct ObjectTable
{
	const SourceTable *source;
	const SourceObjects *objects;
	char	   *target_schema;
	char	   *target_table;
	bool		made;			/* by capstan, so that its columns have the default types */
} ObjectTable;

typedef struct TargetObject
{
	int			table;			/* in the array of tables */
	const char *kind;			/* index, unique, foreign_key, check, default, auto_increment, generated, on_update, comment */
	const char *name;			/* on the source: of the index or constraint, or of the column; NULL: the table's own */
	const char *definition;		/* what the source says */
	char	   *target_object;	/* index, unique: name of the index; check, foreign_key: of the constraint; auto_increment: the column; else NULL */

	/*
	 * For format(): %1$s is the target's name, %2$s that of the table that a foreign key refers to.  NULL: there is
	 * none.
	 */
	char	   *statement;
	const char *state;			/* pending, not_translated, left_to_user */
	char	   *note;			/* why not; what is different */
	int			refers_to;		/* in the array of tables; -1: nowhere */
} TargetObject;

/* List of TargetObject *, by table; within one in the order in which they should be made. */
extern List *capstan_map_objects(const ObjectTable *tables, int ntables, MapPolicies policies);

/* The clause of a CHECK as SQL of the same meaning; NULL and why not. */
extern char *capstan_expression_check(const SourceTable *source, const char *clause, MapPolicies policies, char **reason);
/* What stands behind DEFAULT; NULL and why not.  *reason can be a remark on what is translated, too. */
extern char *capstan_map_default(const SourceColumn *column, const char *text, bool is_expression, char **reason);

#endif
