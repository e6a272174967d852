/*
 * object.h
 *		What belongs to a source table besides its columns and key: indexes, foreign keys, CHECK
 *		constraints, defaults, comments.
 *
 * Producer: wire/.  Consumer: map/, which says what becomes of them on the target.  Texts are as the source's
 * information_schema has them, in utf-8; see map/expression.c for how it writes expressions.
 *
 * Plain C types only, as in row.h.
 */
#ifndef CAPSTAN_OBJECT_H
#define CAPSTAN_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* MySQL's limit for the columns of an index and of a foreign key. */
#define SOURCE_MAX_PARTS 16

typedef struct SourceIndexPart
{
	int			column;			/* in SourceTable.columns; -1: an expression */
	uint32_t	prefix;			/* characters, or bytes of binary columns, that count; 0: the whole value */
	bool		descending;
} SourceIndexPart;

typedef struct SourceIndex
{
	char	   *name;
	char	   *type;			/* "BTREE", "HASH", "FULLTEXT", "SPATIAL" */
	bool		unique;
	bool		invisible;
	int			nparts;
	SourceIndexPart parts[SOURCE_MAX_PARTS];
	char	   *expression;		/* of the first part that is one; NULL: none is */
} SourceIndex;

typedef struct SourceForeignKey
{
	char	   *name;
	int			ncolumns;
	int			columns[SOURCE_MAX_PARTS];	/* in SourceTable.columns */
	char	   *parent_schema;
	char	   *parent_table;
	char	   *parent_columns[SOURCE_MAX_PARTS];
	char	   *on_update;		/* "NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT" */
	char	   *on_delete;
} SourceForeignKey;

typedef struct SourceCheck
{
	char	   *name;
	char	   *clause;
	bool		enforced;
} SourceCheck;

/* Of a column that has any of these. */
typedef struct SourceColumnObject
{
	int			column;			/* in SourceTable.columns */
	char	   *default_text;	/* NULL: none */
	bool		default_is_expression;
	bool		default_is_cut;	/* it has a zero byte: default_text ends there */
	bool		auto_increment;
	bool		on_update;		/* ON UPDATE CURRENT_TIMESTAMP */
	char	   *generation;		/* of a generated column; NULL: it is none */
	char	   *comment;		/* NULL: none */
} SourceColumnObject;

typedef struct SourceObjects
{
	int			nindexes;		/* the key's own one is among them */
	SourceIndex *indexes;
	int			nforeign_keys;
	SourceForeignKey *foreign_keys;
	int			nchecks;
	SourceCheck *checks;
	int			ncolumns;
	SourceColumnObject *columns;
	char	   *comment;		/* NULL: none */
} SourceObjects;

#endif
