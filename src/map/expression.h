/*
 * expression.h
 *		Private to map/: MySQL's expressions, as information_schema writes them.
 *
 *		exprlexer.c		the text -> tokens
 *		expression.c	tokens -> SQL of the same meaning, or why not
 *		exprcompare.c	comparisons: the part where the meanings differ most
 */
#ifndef CAPSTAN_EXPRESSION_H
#define CAPSTAN_EXPRESSION_H

#include "map/internal.h"

typedef enum ExprTokenKind
{
	EXPR_END,
	EXPR_INTEGER,				/* 12 */
	EXPR_DECIMAL,				/* 0.5 */
	EXPR_FLOAT,					/* 1e3 */
	EXPR_STRING,				/* 'a', _utf8mb4'a' */
	EXPR_HEX,					/* 0x6162: its digits, an even number */
	EXPR_NAME,					/* `a` */
	EXPR_WORD,					/* in lower case */
	EXPR_OPERATOR,
	EXPR_BAD					/* text says why */
} ExprTokenKind;

typedef struct ExprToken
{
	ExprTokenKind kind;
	char	   *text;
} ExprToken;

/*
 * information_schema writes an expression with a backslash before each quote and each backslash.  NULL: this text is not
 * written so.
 */
extern char *capstan_expression_unescape(const char *text);
/* The token at *p, which moves behind it. */
extern ExprToken capstan_expression_token(const char **p);

/* What a part of an expression gives. */
typedef enum ExprClass
{
	CLASS_NULL,					/* the literal */
	CLASS_BOOL,
	CLASS_INT,
	CLASS_DECIMAL,
	CLASS_DOUBLE,
	CLASS_STRING,				/* a literal */
	CLASS_TEXT,					/* a column */
	CLASS_HEX,					/* a literal */
	CLASS_BYTES,				/* a column */
	CLASS_DATE,
	CLASS_DATETIME,
	CLASS_OTHER					/* a column that can only be asked whether it is NULL */
} ExprClass;

/* No overflow of MySQL's 64 bits goes unseen in it.  Postgres' type, which is aligned as palloc does. */
typedef int128 ExprInt;

typedef struct ExprNode
{
	ExprClass	class;
	char	   *sql;
	bool		literal;
	bool		numeric;		/* the SQL is of type numeric */
	bool		is_unsigned;	/* CLASS_INT: as MySQL sees it */
	ExprInt		low;			/* CLASS_INT: all values are between */
	ExprInt		high;
	char	   *string;			/* CLASS_STRING: the text; CLASS_HEX: the digits */
	const SourceColumn *column; /* of a bare column */
} ExprNode;

typedef struct ExprParser
{
	const SourceTable *source;
	MapPolicies policies;
	const char *p;
	ExprToken	token;			/* the next one */
	char	   *reason;			/* why it is not translated: the first one */
	int			depth;

	/* Under zero_dates = null a column may be NULL where the source has a date. */
	bool		uses_date;
	bool		asks_for_null;	/* IS NULL of a date */
	bool		negates;
	bool		tells_null;		/* IS NOT NULL of a date, IS TRUE, <=>, ... */
} ExprParser;

/* Sets the reason; gives NULL. */
extern ExprNode *capstan_expression_refuse(ExprParser *parser, const char *format,...) pg_attribute_printf(2, 3);
#define refuse capstan_expression_refuse

/*
 * Makes the SQL of values such that Postgres compares them as MySQL does.  ordering: by < and the like, not only by =.
 * False: it cannot; the reason is set.
 */
extern bool capstan_expression_comparable(ExprParser *parser, ExprNode **nodes, int n, bool ordering);

/* Of an expression without columns; NULL and why not. */
extern ExprNode *capstan_expression_constant(const char *text, char **reason);

/* The name for messages: "an integer". */
extern const char *capstan_expression_class_name(ExprClass class);

#endif
