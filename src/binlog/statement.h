/*
 * statement.h
 *		What a statement in the binary log means for the tables we follow.
 *
 * A tokenizer that knows MySQL's comments (also the executed ones), quoting and
 * identifiers, and the heads of the statements that name tables.  It does not parse
 * expressions.  When in doubt the answer is STATEMENT_UNKNOWN, and the caller must
 * treat that as touching every table it names or might name.
 */
#ifndef CAPSTAN_STATEMENT_H
#define CAPSTAN_STATEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "row.h"

typedef enum StatementKind
{
	STATEMENT_BEGIN = 1,		/* BEGIN, START TRANSACTION */
	STATEMENT_COMMIT,
	STATEMENT_ROLLBACK,			/* whole transaction */
	STATEMENT_SAVEPOINT,		/* SAVEPOINT, RELEASE SAVEPOINT */
	STATEMENT_ROLLBACK_TO,
	STATEMENT_XA_START,
	STATEMENT_XA_END,
	STATEMENT_XA_PREPARE,
	STATEMENT_XA_COMMIT,
	STATEMENT_XA_ROLLBACK,
	STATEMENT_TABLE_DDL,		/* ALTER/DROP/TRUNCATE/RENAME/CREATE TABLE, CREATE/DROP INDEX: `tables` names all it names */
	STATEMENT_DATABASE_DDL,		/* DROP DATABASE (schema name in tables[0].schema_name); others are harmless */
	STATEMENT_HARMLESS,			/* changes no row and no shape of a base table: users, grants, views, routines, triggers, events, ANALYZE, FLUSH, CREATE DATABASE, ... */
	STATEMENT_DML,				/* INSERT, UPDATE, DELETE, REPLACE, LOAD ..., WITH ..., CALL: logged as a statement */
	STATEMENT_UNKNOWN
} StatementKind;

typedef struct StatementTable
{
	char	   *schema_name;	/* NULL: the default database */
	char	   *table_name;		/* NULL for DROP DATABASE */
} StatementTable;

typedef struct Statement
{
	StatementKind kind;
	bool		creates_table;	/* CREATE TABLE (any form): tables[0] is the new one */
	bool		if_not_exists;	/* ... and it may be there already */
	bool		temporary;		/* CREATE/DROP TEMPORARY TABLE */
	int			ntables;
	StatementTable *tables;		/* for TABLE_DDL and DML: every table it changes, RENAME's both sides, EXCHANGE's both, DML's
								 * targets as far as they can be told; not what CREATE TABLE .. LIKE or SELECT reads */
	char	   *xid;			/* XA: the xid's text in canonical form X'..',X'..',n */
	char		command[40];	/* "ALTER TABLE", "DROP TABLE": upper-case first words, for messages */
} Statement;

/* ansi_quotes and no_backslash_escapes come from the session; pass false when not known. Memory from memory.h. */
extern void capstan_statement_parse(const char *sql, size_t length, bool ansi_quotes, bool no_backslash_escapes, Statement *statement);
extern void capstan_statement_free(Statement *statement);

/*
 * Can kind and names be relied on?  A statement stands in the log in the client's character set (query.charset of the
 * event), and so do the names in it.  false: a name has characters outside of ASCII in another set than utf-8, so
 * that it cannot be compared; or the set is one in which a byte of a character may look like a quote (gbk, sjis,
 * big5).  Then treat it as STATEMENT_UNKNOWN.
 */
extern bool capstan_statement_is_certain(const Statement *statement, const char *sql, size_t length, uint16_t collation);

#endif
