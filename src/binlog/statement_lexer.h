/*
 * statement_lexer.h
 *		Tokens of MySQL's SQL, for statement.c only.
 */
#ifndef CAPSTAN_STATEMENT_LEXER_H
#define CAPSTAN_STATEMENT_LEXER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum SqlTokenKind
{
	SQL_END,
	SQL_ERROR,					/* a quote or comment that does not end */
	SQL_WORD,					/* keyword, unquoted identifier, number */
	SQL_QUOTED,					/* `identifier`, or "identifier" with ansi_quotes */
	SQL_STRING,					/* 'text' or "text" */
	SQL_HEX,					/* X'..' */
	SQL_CHAR					/* any other single character */
} SqlTokenKind;

typedef struct SqlToken
{
	SqlTokenKind kind;
	const char *start;			/* in the statement; quotes included */
	size_t		length;
} SqlToken;

typedef struct SqlLexer
{
	const char *pos;
	const char *end;
	bool		ansi_quotes;
	bool		no_backslash_escapes;
	bool		in_executed;	/* within an executed comment */
} SqlLexer;

extern void capstan_sql_begin(SqlLexer *lexer, const char *sql, size_t length, bool ansi_quotes,
							  bool no_backslash_escapes);
/* After SQL_END and SQL_ERROR the same again. */
extern void capstan_sql_next(SqlLexer *lexer, SqlToken *token);
/* `word` in upper case; quoted identifiers are no words. */
extern bool capstan_sql_is_word(const SqlToken *token, const char *word);
/* A word, or a quoted identifier without its quotes; NUL-terminated, from memory.h. */
extern char *capstan_sql_token_text(const SqlToken *token);
/* The bytes of a string, X'..' or 0x..; false if it is none or has more than `size`. */
extern bool capstan_sql_token_string(const SqlToken *token, bool no_backslash_escapes,
									 char *bytes, size_t size, size_t *length);

#endif
