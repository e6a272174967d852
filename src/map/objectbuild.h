/*
 * objectbuild.h
 *		Private to map/: what the files behind objectmap.h share.
 *
 *		objectmap.c		goes through the tables; names; columns' defaults and comments, checks
 *		indexddl.c		indexes and unique keys
 *		foreignkeyddl.c	foreign keys
 *		defaultddl.c	DEFAULT
 */
#ifndef CAPSTAN_OBJECTBUILD_H
#define CAPSTAN_OBJECTBUILD_H

#include "utils/hsearch.h"

#include "map/expression.h"
#include "map/objectmap.h"

typedef struct ObjectBuild
{
	const ObjectTable *tables;
	int			ntables;
	MapPolicies policies;
	HTAB	   *relation_names; /* that are taken, by schema and name */
	HTAB	   *constraint_names;	/* by table and name */
	HTAB	   *table_numbers;	/* by source schema and name */
	List	   *objects;
} ObjectBuild;

/* A new object of a table, state pending; in the list. */
extern TargetObject *object_add(ObjectBuild *build, int table, const char *kind, const char *name, const char *definition);
extern void object_refuse(TargetObject *object, char *note);
extern void object_leave(TargetObject *object, char *note);
/* For text that goes into a statement for format(). */
extern char *object_escape(const char *text);
extern char *object_quote(const char *identifier);
/* A free name, the same whenever it is asked for of the same source: `wanted` if that is possible. */
extern char *object_relation_name(ObjectBuild *build, int table, const char *wanted);
extern char *object_constraint_name(ObjectBuild *build, int table, const char *wanted);

extern void object_add_index(ObjectBuild *build, int table, const SourceIndex *index);
/* parent: the number of the table that it refers to; -1: it is not captured. */
extern void object_add_foreign_key(ObjectBuild *build, int table, const SourceForeignKey *key, int parent);
/* Are rows unique by just these columns on the target, as soon as its indexes are there? */
extern bool object_is_unique(const ObjectTable *table, const int *columns, int ncolumns, MapPolicies policies);
/* Does the target tell two texts of the column apart whenever the source does, and only then? */
extern bool object_compares_alike(const SourceColumn *column);

#endif
