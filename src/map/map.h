/*
 * map.h
 *		Source columns and values made into Postgres': types, converters, target tables.
 *
 * Knows Postgres; knows MySQL only through row.h and base/collation.h.
 */
#ifndef CAPSTAN_MAP_H
#define CAPSTAN_MAP_H

#include "access/attnum.h"
#include "access/tupdesc.h"
#include "nodes/pg_list.h"

#include "row.h"

typedef enum ZeroDates
{
	ZERO_DATES_NULL,
	ZERO_DATES_INFINITY,
	ZERO_DATES_HALT
} ZeroDates;

typedef enum NulBytes
{
	NUL_BYTES_HALT,
	NUL_BYTES_STRIP,
	NUL_BYTES_REPLACE			/* by U+FFFD */
} NulBytes;

typedef struct MapPolicies
{
	ZeroDates	zero_dates;
	NulBytes	nul_bytes;
} MapPolicies;

typedef struct ColumnMap ColumnMap;

/*
 * Makes a Datum of a value, in the current memory context.  The value's kind is VALUE_NULL or one that
 * the column's type has; VALUE_ABSENT is the caller's business.  *isnull is set.
 * Raises CAPSTAN_ERRCODE_VALUE with table and column in the detail, never the value.
 */
typedef Datum (*ColumnConvert) (ColumnMap *map, const SourceValue *value, bool *isnull);

struct ColumnMap
{
	int			source_index;	/* in SourceTable.columns */
	AttrNumber	attnum;			/* in the target */
	Oid			typid;			/* the target column's type; a domain's own oid */
	Oid			basetypid;		/* under domains */
	int32		typmod;
	bool		typbyval;
	int16		typlen;
	bool		in_key;
	bool		not_null;		/* on the target */
	ColumnConvert convert;
	const SourceColumn *source; /* the map's copy; labels were read here: see capstan_map_has_labels_of */
	struct TableMap *table;		/* back, for messages and counters */
	void	   *private_data;	/* charset converter, label Datums, FmgrInfo ... in the TableMap's context */
};

/* Everything needed to make a target tuple of a source row. */
typedef struct TableMap
{
	MemoryContext context;		/* all of it lives here; delete to free */
	char	   *source_name;	/* "schema.table", for messages */
	Oid			relid;
	int			natts;			/* of the target, dropped ones counted */
	int			ncolumns;		/* mapped columns: one for each source column (generated target columns excluded) */
	ColumnMap  *columns;
	int			nkey;
	int		   *key;			/* indexes into `columns`, in the source's key order */
	Oid			key_index;		/* target: the unique, valid, immediate, not partial index on just the key columns */
	int			nsource;		/* columns of the source table */
	MapPolicies policies;
	bool		has_domains;	/* making values runs their CHECK constraints: to be done as the target's owner */
	const SourceDocuments *documents;	/* of whose rows are converted; set by who has VALUE_JSON_BINARY in them */
	/* counters, zeroed by whoever persists them */
	uint64		zero_dates_applied;
	uint64		nul_bytes_applied;
} TableMap;

/*
 * Checks source against target and makes the map in a new child of `parent`.  `source` is copied.
 * Raises CAPSTAN_ERRCODE_TARGET_TABLE (target column missing, extra NOT NULL column without default, no converter for the pair,
 * typmod too narrow, no usable key index, deferrable or partial one, nondeterministic collation of a key column, row security, ...)
 * or CAPSTAN_ERRCODE_SOURCE_TABLE.  A table map (table_id not 0) does not tell generated columns: then a column that the
 * target generates is left out without asking.  Foreign tables have no key_index.  Caller holds at least AccessShareLock on the relation.
 */
extern TableMap *capstan_map_build(const SourceTable *source, Oid relid, MapPolicies policies, MemoryContext parent);

/*
 * Are the labels that the map was built from those of this table?  Signatures (row.h) do not tell all labels
 * apart: who gets a new table map of a table asks, and builds the map again.
 */
extern bool capstan_map_has_labels_of(const TableMap *map, const SourceTable *source);

/* The table's quoted name with its schema; NULL if it is gone, which may be so as long as it is not locked. */
extern char *capstan_map_relation_name(Oid relid);

/* Same checks, but collects the complaints (List of char *, palloc'd) instead of raising: for preflight. */
extern List *capstan_map_complaints(const SourceTable *source, Oid relid, MapPolicies policies);
/* Complaints that need no target: column types without converter, names that collide in 63 bytes. */
extern List *capstan_map_source_complaints(const SourceTable *source);

/* The converted value, in the current context; an ERROR if it is NULL where the target may not be. */
extern Datum capstan_map_value(ColumnMap *column, const SourceValue *value, bool *isnull);

/* Fills values/isnull (natts each; unmapped are NULL) from a full row; counts policies. */
extern void capstan_map_row(TableMap *map, const SourceValue *row, Datum *values, bool *isnull);
/*
 * The same for who puts the values into a tuple once, at once, and does nothing else with them.  true: the value, or some of the row, is a large
 * one, and only moved then (largevalue.c), out of the row: that must neither be forgotten nor read by others meanwhile.
 */
extern bool capstan_map_value_to_move(ColumnMap *column, const SourceValue *value, Datum *datum, bool *isnull);
extern bool capstan_map_row_to_move(TableMap *map, const SourceValue *row, Datum *values, bool *isnull);

/* The default type for a column as SQL text: "numeric(10,2)", "varchar(80)", ...; NULL if there is none. */
extern char *capstan_map_default_type(const SourceColumn *column);

/*
 * CREATE TABLE statement for the target (schema-qualified, quoted, NOT NULL, primary key), without the
 * final semicolon.
 */
extern char *capstan_map_table_ddl(const SourceTable *source, const char *target_schema, const char *target_table, MapPolicies policies);

/*
 * COMMENT ON statements (List of char *) for the table that the statement above makes; comments are of the table, and of
 * each column of the source, NULL where there is none.
 */
extern List *capstan_map_comment_ddl(const SourceTable *source, const char *target_schema, const char *target_table,
									 const char *table_comment, char *const *column_comments);

/* Order of the key provably the same on both sides (design section 6, "the gate")? */
extern bool capstan_map_key_is_ordered(const SourceTable *source);
/* Can the source page through this key in an order that can be shown right? */
extern bool capstan_map_key_is_pageable(const SourceTable *source);
/* <0, 0, >0 for two key values of a column for which key_is_ordered holds. */
extern int	capstan_map_compare_key(const SourceColumn *column, const SourceValue *a, const SourceValue *b);
/* Byte-for-byte the same value?  For "did this UPDATE change the key". */
extern bool capstan_map_same_value(const SourceValue *a, const SourceValue *b);

/*
 * Keys as exact bytes for capstan.copied_range: text forms of the values, one bytea each.  Decode gives values whose
 * bytes point into the input.
 */
extern bytea *capstan_map_encode_key(const SourceColumn *column, const SourceValue *value);
extern void capstan_map_decode_key(const SourceColumn *column, bytea *encoded, SourceValue *value);

/* All values of a row as bytes, for the catalog; read back, bytes point into the input. */
extern bytea *capstan_map_encode_row(const SourceValue *values, int nvalues);
extern SourceValue *capstan_map_decode_row(const bytea *encoded, int nvalues);

#endif
