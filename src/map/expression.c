/*
 * expression.c
 *		MySQL's expressions made SQL of the same meaning, or nothing.
 *
 * Called by constraintddl.c and defaultddl.c for what capstan makes on the targets that it created itself, so a column has the
 * default type of its source type.  What is not known to mean the same for every value that the columns can have
 * is refused, with the reason; the list of what is translated is the code below.  A CHECK that accepts less than the
 * source's would halt the stream, one that accepts more would be a lie.
 *
 *	   expression	::= unary { operator expression }		by the precedence of operators
 *	   unary		::= "not" unary | "-" unary | primary
 *	   primary		::= "(" expression ")" | literal | name | function "(" expressions ")"
 *
 * Integers: MySQL computes in 64 bits and raises an error beyond them, or below zero when an operand is unsigned.  So
 * the range of each part is worked out, and only what can never leave 64 bits is translated, to arithmetic with numeric, which raises
 * no errors at all.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/collation.h"
#include "map/expression.h"
#include "map/objectmap.h"

#define MAX_ARGUMENTS 1000
#define MAX_LENGTH 65536
#define MAX_DEPTH 500

static ExprNode *parse_expression(ExprParser *parser, int precedence);

ExprNode *
capstan_expression_refuse(ExprParser *parser, const char *format,...)
{
	if (parser->reason == NULL)
	{
		va_list		args;
		StringInfoData text;

		initStringInfo(&text);
		for (;;)
		{
			int			needed;

			va_start(args, format);
			needed = appendStringInfoVA(&text, format, args);
			va_end(args);
			if (needed == 0)
				break;
			enlargeStringInfo(&text, needed);
		}
		parser->reason = text.data;
	}
	return NULL;
}

static void
advance(ExprParser *parser)
{
	parser->token = capstan_expression_token(&parser->p);
	if (parser->token.kind == EXPR_BAD)
		refuse(parser, "it has %s", parser->token.text);
}

static bool
at_word(ExprParser *parser, const char *word)
{
	return parser->token.kind == EXPR_WORD && strcmp(parser->token.text, word) == 0;
}

static bool
at_operator(ExprParser *parser, const char *text)
{
	return parser->token.kind == EXPR_OPERATOR && strcmp(parser->token.text, text) == 0;
}

static bool
skip_word(ExprParser *parser, const char *word)
{
	if (!at_word(parser, word))
		return false;
	advance(parser);
	return true;
}

static bool
expect_operator(ExprParser *parser, const char *text)
{
	if (!at_operator(parser, text))
	{
		refuse(parser, "it is not understood at \"%s\"", parser->token.text);
		return false;
	}
	advance(parser);
	return true;
}

static ExprNode *
make_node(ExprClass class, char *sql)
{
	ExprNode   *node = palloc0(sizeof(ExprNode));

	node->class = class;
	node->sql = sql;
	return node;
}

static ExprNode *
make_integer(char *sql, bool is_unsigned, ExprInt low, ExprInt high)
{
	ExprNode   *node = make_node(CLASS_INT, sql);

	node->numeric = true;
	node->is_unsigned = is_unsigned;
	node->low = low;
	node->high = high;
	return node;
}

const char *
capstan_expression_class_name(ExprClass class)
{
	switch (class)
	{
		case CLASS_NULL:
			return "NULL";
		case CLASS_BOOL:
			return "a condition";
		case CLASS_INT:
			return "an integer";
		case CLASS_DECIMAL:
			return "a decimal";
		case CLASS_DOUBLE:
			return "a floating-point number";
		case CLASS_STRING:
		case CLASS_TEXT:
			return "a text";
		case CLASS_HEX:
		case CLASS_BYTES:
			return "a binary string";
		case CLASS_DATE:
			return "a date";
		case CLASS_DATETIME:
			return "a datetime";
		case CLASS_OTHER:
			break;
	}
	return "a column of another type";
}

/* As operand of AND, OR, NOT. */
static char *
condition(ExprParser *parser, ExprNode *node)
{
	switch (node->class)
	{
		case CLASS_BOOL:
			return node->sql;
		case CLASS_INT:
		case CLASS_DECIMAL:
			return psprintf("(%s <> 0)", node->sql);
		case CLASS_NULL:
			return pstrdup("NULL::boolean");
		default:
			refuse(parser, "%s is taken as a condition", capstan_expression_class_name(node->class));
			return NULL;
	}
}

/* ---- integers ---- */

static char *
as_numeric(ExprNode *node)
{
	return node->numeric ? node->sql : psprintf("%s::numeric", node->sql);
}

static bool
fits(bool is_unsigned, ExprInt low, ExprInt high)
{
	if (is_unsigned)
		return low >= 0 && high <= (ExprInt) UINT64_MAX;
	return low >= INT64_MIN && high <= INT64_MAX;
}

static ExprNode *
divide(ExprParser *parser, const char *operator, ExprNode *left, ExprNode *right)
{
	bool		modulo = strcmp(operator, "%") == 0;
	ExprInt		divisor = right->low;

	/* By zero gives NULL or an error, as the source's sql_mode says. */
	if (!right->literal || divisor <= 0)
		return refuse(parser, "a division by what is not a positive literal can be one by zero");
	if (modulo)
		return make_integer(psprintf("mod(%s, %s)", as_numeric(left), as_numeric(right)), left->is_unsigned,
							left->low < 0 ? 1 - divisor : 0, left->high > 0 ? divisor - 1 : 0);
	return make_integer(psprintf("div(%s, %s)", as_numeric(left), as_numeric(right)),
						left->is_unsigned || right->is_unsigned, left->low / divisor, left->high / divisor);
}

static ExprNode *
compute(ExprParser *parser, const char *operator, ExprNode *left, ExprNode *right)
{
	bool		is_unsigned = left->is_unsigned || right->is_unsigned;
	bool		overflow;
	ExprInt		low;
	ExprInt		high;

	if (left->class != CLASS_INT || right->class != CLASS_INT)
		return refuse(parser, "\"%s\" of anything but integers is not translated", operator);
	if (strcmp(operator, "%") == 0 || strcmp(operator, "div") == 0)
		return divide(parser, operator, left, right);
	if (operator[0] == '+')
	{
		overflow = __builtin_add_overflow(left->low, right->low, &low);
		overflow |= __builtin_add_overflow(left->high, right->high, &high);
	}
	else if (operator[0] == '-')
	{
		overflow = __builtin_sub_overflow(left->low, right->high, &low);
		overflow |= __builtin_sub_overflow(left->high, right->low, &high);
	}
	else
	{
		ExprInt		products[4];

		overflow = __builtin_mul_overflow(left->low, right->low, &products[0]);
		overflow |= __builtin_mul_overflow(left->low, right->high, &products[1]);
		overflow |= __builtin_mul_overflow(left->high, right->low, &products[2]);
		overflow |= __builtin_mul_overflow(left->high, right->high, &products[3]);
		low = high = products[0];
		for (int i = 1; i < 4; i++)
		{
			low = Min(low, products[i]);
			high = Max(high, products[i]);
		}
	}
	if (overflow || !fits(is_unsigned, low, high))
		return refuse(parser, "\"%s\" raises an error on the source when its result is beyond 64 bits%s", operator,
					  is_unsigned ? " or below zero" : "");
	return make_integer(psprintf("(%s %s %s)", as_numeric(left), operator, as_numeric(right)), is_unsigned, low, high);
}

static ExprNode *
negate(ExprParser *parser, ExprNode *node)
{
	ExprNode   *result;

	if (node == NULL)
		return NULL;
	if (node->literal && (node->class == CLASS_DECIMAL || node->class == CLASS_DOUBLE))
	{
		node->sql = psprintf("(- %s)", node->sql);
		return node;
	}
	if (node->class != CLASS_INT)
		return refuse(parser, "\"-\" of anything but integers is not translated");
	if (!fits(false, -node->high, -node->low))
		return refuse(parser, "\"-\" raises an error on the source when its result is beyond 64 bits");
	result = make_integer(psprintf("(- %s)", node->literal ? node->sql : as_numeric(node)), false, -node->high, -node->low);
	result->literal = node->literal;
	result->numeric = !node->literal;
	return result;
}

/* ---- primaries ---- */

static void
set_range(ExprNode *node, const SourceColumn *column)
{
	int			bits = column->type == SOURCE_TINYINT ? 8 : column->type == SOURCE_SMALLINT ? 16 :
		column->type == SOURCE_MEDIUMINT ? 24 : column->type == SOURCE_INT ? 32 : 64;

	node->is_unsigned = column->is_unsigned;
	node->low = column->is_unsigned ? 0 : -((ExprInt) 1 << (bits - 1));
	node->high = ((ExprInt) 1 << (column->is_unsigned ? bits : bits - 1)) - 1;
}

static ExprNode *
column_node(ExprParser *parser, const SourceColumn *column)
{
	ExprNode   *node = make_node(CLASS_OTHER, pstrdup(quote_identifier(column->name)));

	node->column = column;
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			node->class = CLASS_INT;
			set_range(node, column);
			break;
		case SOURCE_DECIMAL:
			node->class = CLASS_DECIMAL;
			break;
		case SOURCE_FLOAT:
		case SOURCE_DOUBLE:
			node->class = CLASS_DOUBLE;
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
		case SOURCE_ENUM:
			node->class = CLASS_TEXT;
			break;
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
		case SOURCE_BLOB:
			node->class = CLASS_BYTES;
			break;
		case SOURCE_DATE:
			node->class = CLASS_DATE;
			break;
		case SOURCE_DATETIME:
			node->class = CLASS_DATETIME;
			break;
		default:
			break;
	}
	if (column->type == SOURCE_DATE || column->type == SOURCE_DATETIME || column->type == SOURCE_TIMESTAMP)
		parser->uses_date = true;
	return node;
}

static ExprNode *
parse_name(ExprParser *parser)
{
	char	   *name = parser->token.text;

	advance(parser);
	if (at_operator(parser, "."))
		return refuse(parser, "it has a qualified name");
	for (int i = 0; i < parser->source->ncolumns; i++)
		if (strcmp(parser->source->columns[i].name, name) == 0)
			return column_node(parser, &parser->source->columns[i]);
	/* MySQL writes them as the statement did */
	for (int i = 0; i < parser->source->ncolumns; i++)
		if (pg_strcasecmp(parser->source->columns[i].name, name) == 0)
			return column_node(parser, &parser->source->columns[i]);
	return refuse(parser, "it names a column that the table does not have");
}

static ExprNode *
parse_integer(ExprParser *parser, const char *digits)
{
	ExprInt		value = 0;
	ExprNode   *node;

	for (const char *c = digits; *c != '\0'; c++)
	{
		value = value * 10 + (*c - '0');
		if (value > (ExprInt) UINT64_MAX)
			return refuse(parser, "it has a literal beyond 64 bits");
	}
	node = make_integer(pstrdup(digits), value > INT64_MAX, value, value);
	node->literal = true;
	node->numeric = false;
	return node;
}

/* Behind the opening parenthesis; reads the closing one. */
static ExprNode **
parse_arguments(ExprParser *parser, int *n)
{
	ExprNode  **arguments = palloc(sizeof(ExprNode *) * MAX_ARGUMENTS);

	*n = 0;
	for (;;)
	{
		if (*n == MAX_ARGUMENTS)
		{
			refuse(parser, "it has more than %d arguments", MAX_ARGUMENTS);
			return NULL;
		}
		arguments[*n] = parse_expression(parser, 0);
		if (arguments[(*n)++] == NULL)
			return NULL;
		if (!at_operator(parser, ","))
			break;
		advance(parser);
	}
	return expect_operator(parser, ")") ? arguments : NULL;
}

/* char_length() and length() of a column. */
static ExprNode *
length_node(ExprParser *parser, const char *function, bool characters, const ExprNode *argument)
{
	const SourceColumn *column = argument->column;
	const char *charset = column != NULL && argument->class == CLASS_TEXT ? capstan_collation_charset(column->collation) : NULL;
	const char *to = NULL;

	if (argument->class == CLASS_BYTES)
		to = "octet_length";
	else if (charset != NULL && column->type != SOURCE_ENUM && parser->policies.nul_bytes == NUL_BYTES_HALT)
	{
		if (characters || capstan_charset_max_bytes(charset) == 1)
			to = "char_length";
		else if (strcmp(charset, "utf8mb4") == 0 || strcmp(charset, "utf8mb3") == 0)
			to = "octet_length";
	}
	if (to == NULL)
		return refuse(parser, "%s() of it is not translated", function);
	return make_integer(psprintf("%s(%s)::numeric", to, argument->sql), false, 0, UINT32_MAX);
}

static ExprNode *
coalesce_node(ExprParser *parser, const char *function, ExprNode **arguments, int n)
{
	StringInfoData sql;
	ExprNode   *node = make_integer(NULL, true, 0, 0);

	initStringInfo(&sql);
	for (int i = 0; i < n; i++)
	{
		if (arguments[i]->class != CLASS_INT)
			return refuse(parser, "%s() of anything but integers is not translated", function);
		appendStringInfo(&sql, "%s%s", i == 0 ? "COALESCE(" : ", ", as_numeric(arguments[i]));
		node->low = i == 0 ? arguments[i]->low : Min(node->low, arguments[i]->low);
		node->high = i == 0 ? arguments[i]->high : Max(node->high, arguments[i]->high);
		node->is_unsigned = node->is_unsigned && arguments[i]->is_unsigned;
	}
	/* signed and unsigned together are a decimal */
	if (!fits(node->is_unsigned, node->low, node->high))
		return refuse(parser, "%s() of signed and unsigned integers is not translated", function);
	appendStringInfoChar(&sql, ')');
	node->sql = sql.data;
	return node;
}

static ExprNode *
parse_function(ExprParser *parser, const char *function)
{
	ExprNode  **arguments;
	int			n;
	bool		characters = strcmp(function, "char_length") == 0;

	advance(parser);
	if (!characters && strcmp(function, "length") != 0 && strcmp(function, "coalesce") != 0 && strcmp(function, "ifnull") != 0)
		return refuse(parser, "function %s() is not translated", function);
	arguments = parse_arguments(parser, &n);
	if (arguments == NULL)
		return NULL;
	if (function[0] == 'c' && !characters)
		return coalesce_node(parser, function, arguments, n);
	if (function[0] == 'i')
		return n == 2 ? coalesce_node(parser, function, arguments, n) : refuse(parser, "ifnull() has not two arguments");
	if (n != 1)
		return refuse(parser, "%s() has not one argument", function);
	return length_node(parser, function, characters, arguments[0]);
}

/* DATE'2020-01-31' */
static ExprNode *
parse_typed_literal(ExprParser *parser, ExprClass class)
{
	ExprNode   *node = make_node(class, NULL);

	node->literal = true;
	node->string = parser->token.text;
	advance(parser);
	return node;
}

static ExprNode *
parse_word(ExprParser *parser)
{
	char	   *word = parser->token.text;

	advance(parser);
	if (at_operator(parser, "("))
		return parse_function(parser, word);
	if (parser->token.kind == EXPR_STRING && strcmp(word, "date") == 0)
		return parse_typed_literal(parser, CLASS_DATE);
	if (parser->token.kind == EXPR_STRING && strcmp(word, "timestamp") == 0)
		return parse_typed_literal(parser, CLASS_DATETIME);
	if (strcmp(word, "null") == 0)
		return make_node(CLASS_NULL, "NULL");
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
		return make_node(CLASS_BOOL, word);
	return refuse(parser, "\"%s\" is not translated", word);
}

static ExprNode *
parse_primary(ExprParser *parser)
{
	char	   *text = parser->token.text;
	ExprNode   *node;

	switch (parser->token.kind)
	{
		case EXPR_INTEGER:
			advance(parser);
			return parse_integer(parser, text);
		case EXPR_DECIMAL:
		case EXPR_FLOAT:
			node = make_node(parser->token.kind == EXPR_DECIMAL ? CLASS_DECIMAL : CLASS_DOUBLE, text);
			node->literal = true;
			advance(parser);
			return node;
		case EXPR_STRING:
		case EXPR_HEX:
			node = make_node(parser->token.kind == EXPR_STRING ? CLASS_STRING : CLASS_HEX, NULL);
			node->literal = true;
			node->string = text;
			advance(parser);
			return node;
		case EXPR_NAME:
			return parse_name(parser);
		case EXPR_WORD:
			return parse_word(parser);
		default:
			break;
	}
	if (at_operator(parser, "("))
	{
		advance(parser);
		node = parse_expression(parser, 0);
		return node != NULL && expect_operator(parser, ")") ? node : NULL;
	}
	return refuse(parser, "it is not understood at \"%s\"", text);
}

/* ---- operators ---- */

/* MySQL's, from https://dev.mysql.com/doc/refman/en/operator-precedence.html; those that are not here are refused. */
enum
{
	BY_OR = 1, BY_XOR, BY_AND, BY_NOT, BY_COMPARISON, BY_SUM, BY_PRODUCT, BY_SIGN
};

static ExprNode *
parse_unary(ExprParser *parser)
{
	if (at_word(parser, "not"))
	{
		ExprNode   *node;
		char	   *sql;

		advance(parser);
		parser->negates = true;
		node = parse_expression(parser, BY_NOT);
		sql = node != NULL ? condition(parser, node) : NULL;
		return sql != NULL ? make_node(CLASS_BOOL, psprintf("(NOT %s)", sql)) : NULL;
	}
	if (at_operator(parser, "-"))
	{
		advance(parser);
		return negate(parser, parse_expression(parser, BY_SIGN));
	}
	return parse_primary(parser);
}

static ExprNode *
logical(ExprParser *parser, const char *operator, ExprNode *left, ExprNode *right)
{
	char	   *a = condition(parser, left);
	char	   *b = condition(parser, right);

	if (a == NULL || b == NULL)
		return NULL;
	return make_node(CLASS_BOOL, psprintf("(%s %s %s)", a, operator, b));
}

static ExprNode *
compare(ExprParser *parser, const char *operator, ExprNode *left, ExprNode *right)
{
	ExprNode   *nodes[2] = {left, right};
	bool		equality = strcmp(operator, "=") == 0 || strcmp(operator, "<>") == 0 || strcmp(operator, "<=>") == 0;

	if (strcmp(operator, "<=>") == 0)
	{
		parser->tells_null = true;
		operator = "IS NOT DISTINCT FROM";
	}
	if (!capstan_expression_comparable(parser, nodes, 2, !equality))
		return NULL;
	return make_node(CLASS_BOOL, psprintf("(%s %s %s)", left->sql, operator, right->sql));
}

/* Behind IS. */
static ExprNode *
parse_is(ExprParser *parser, ExprNode *left)
{
	bool		negated = skip_word(parser, "not");
	bool		is_date = left->column != NULL && (left->column->type == SOURCE_DATE || left->column->type == SOURCE_DATETIME ||
												   left->column->type == SOURCE_TIMESTAMP);

	if (skip_word(parser, "null"))
	{
		if (left->column == NULL && left->class != CLASS_BOOL && left->class != CLASS_INT)
			return refuse(parser, "IS NULL of %s is not translated", capstan_expression_class_name(left->class));
		if (is_date && !negated)
			parser->asks_for_null = true;
		else if (left->column == NULL || is_date)
			parser->tells_null = true;
		return make_node(CLASS_BOOL, psprintf("(%s IS %sNULL)", left->sql, negated ? "NOT " : ""));
	}
	parser->tells_null = true;
	if (left->class == CLASS_BOOL && (at_word(parser, "true") || at_word(parser, "false")))
	{
		char	   *word = parser->token.text;

		advance(parser);
		return make_node(CLASS_BOOL, psprintf("(%s IS %s%s)", left->sql, negated ? "NOT " : "", word));
	}
	return refuse(parser, "IS %s is not translated", parser->token.text);
}

/* Behind IN. */
static ExprNode *
parse_in(ExprParser *parser, ExprNode *left, bool negated)
{
	ExprNode  **items;
	ExprNode  **nodes;
	StringInfoData sql;
	int			n;

	if (!expect_operator(parser, "(") || (items = parse_arguments(parser, &n)) == NULL)
		return NULL;
	nodes = palloc(sizeof(ExprNode *) * (n + 1));
	nodes[0] = left;
	for (int i = 0; i < n; i++)
	{
		nodes[i + 1] = items[i];
		if (!items[i]->literal && items[i]->class != CLASS_NULL)
			return refuse(parser, "IN of anything but literals is not translated");
	}
	if (!capstan_expression_comparable(parser, nodes, n + 1, false))
		return NULL;
	initStringInfo(&sql);
	appendStringInfo(&sql, "(%s %s", left->sql, negated ? "NOT IN (" : "IN (");
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "", items[i]->sql);
	appendStringInfoString(&sql, "))");
	return make_node(CLASS_BOOL, sql.data);
}

/* Behind BETWEEN. */
static ExprNode *
parse_between(ExprParser *parser, ExprNode *left, bool negated)
{
	ExprNode   *nodes[3] = {left, NULL, NULL};

	nodes[1] = parse_expression(parser, BY_COMPARISON);
	if (nodes[1] == NULL)
		return NULL;
	if (!skip_word(parser, "and"))
		return refuse(parser, "it is not understood at \"%s\"", parser->token.text);
	nodes[2] = parse_expression(parser, BY_COMPARISON);
	if (nodes[2] == NULL || !capstan_expression_comparable(parser, nodes, 3, true))
		return NULL;
	return make_node(CLASS_BOOL, psprintf("(%s %sBETWEEN %s AND %s)", left->sql, negated ? "NOT " : "", nodes[1]->sql, nodes[2]->sql));
}

/* IS, IN, BETWEEN and what may follow NOT, with `left` read. */
static ExprNode *
parse_predicate(ExprParser *parser, ExprNode *left)
{
	bool		negated;

	if (skip_word(parser, "is"))
		return parse_is(parser, left);
	negated = skip_word(parser, "not");
	if (negated)
		parser->negates = true;
	if (skip_word(parser, "in"))
		return parse_in(parser, left, negated);
	if (skip_word(parser, "between"))
		return parse_between(parser, left, negated);
	return refuse(parser, "\"%s\" is not translated", parser->token.text);
}

static int
precedence_of(ExprParser *parser, bool *predicate)
{
	static const struct
	{
		const char *text;
		int			precedence;
	}			operators[] = {
		{"or", BY_OR}, {"xor", BY_XOR}, {"and", BY_AND}, {"=", BY_COMPARISON}, {"<>", BY_COMPARISON}, {"!=", BY_COMPARISON},
		{"<", BY_COMPARISON}, {"<=", BY_COMPARISON}, {">", BY_COMPARISON}, {">=", BY_COMPARISON}, {"<=>", BY_COMPARISON},
		{"+", BY_SUM}, {"-", BY_SUM}, {"*", BY_PRODUCT}, {"%", BY_PRODUCT}, {"div", BY_PRODUCT}
	};

	*predicate = at_word(parser, "is") || at_word(parser, "in") || at_word(parser, "between") || at_word(parser, "not") ||
		at_word(parser, "like");
	if (*predicate)
		return BY_COMPARISON;
	if (parser->token.kind == EXPR_OPERATOR || parser->token.kind == EXPR_WORD)
		for (int i = 0; i < (int) lengthof(operators); i++)
			if (strcmp(parser->token.text, operators[i].text) == 0)
				return operators[i].precedence;
	return 0;
}

static ExprNode *
combine(ExprParser *parser, const char *operator, int precedence, ExprNode *left, ExprNode *right)
{
	switch (precedence)
	{
		case BY_OR:
			return logical(parser, "OR", left, right);
		case BY_XOR:
			parser->negates = true;
			return logical(parser, "<>", left, right);
		case BY_AND:
			return logical(parser, "AND", left, right);
		case BY_COMPARISON:
			return compare(parser, strcmp(operator, "!=") == 0 ? "<>" : operator, left, right);
		default:
			return compute(parser, operator, left, right);
	}
}

/* Operators that bind more than `precedence`. */
static ExprNode *
parse_operators(ExprParser *parser, int precedence)
{
	ExprNode   *left;

	if (parser->reason != NULL)
		return NULL;
	left = parse_unary(parser);
	while (left != NULL && parser->reason == NULL)
	{
		bool		predicate;
		int			next = precedence_of(parser, &predicate);
		char	   *operator = parser->token.text;
		ExprNode   *right;

		if (next == 0 && (parser->token.kind == EXPR_WORD ||
						  (parser->token.kind == EXPR_OPERATOR && !at_operator(parser, ")") && !at_operator(parser, ","))))
			return refuse(parser, "\"%s\" is not translated", operator);
		if (next <= precedence)
			break;
		if (predicate)
		{
			left = parse_predicate(parser, left);
			continue;
		}
		advance(parser);
		right = parse_expression(parser, next);
		left = right != NULL ? combine(parser, operator, next, left, right) : NULL;
	}
	return parser->reason == NULL ? left : NULL;
}

static ExprNode *
parse_expression(ExprParser *parser, int precedence)
{
	ExprNode   *node;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (parser->depth == MAX_DEPTH)
		return refuse(parser, "it is nested more than %d levels deep", MAX_DEPTH);
	parser->depth++;
	node = parse_operators(parser, precedence);
	parser->depth--;
	return node;
}

/* ---- entry points ---- */

static ExprNode *
parse(ExprParser *parser, const SourceTable *source, const char *text, MapPolicies policies)
{
	char	   *plain = capstan_expression_unescape(text);
	ExprNode   *node;

	memset(parser, 0, sizeof(ExprParser));
	parser->source = source;
	parser->policies = policies;
	if (plain == NULL)
		return refuse(parser, "the source does not write it as expected");
	if (strlen(plain) > MAX_LENGTH)
		return refuse(parser, "it is longer than %d bytes", MAX_LENGTH);
	parser->p = plain;
	advance(parser);
	node = parse_expression(parser, 0);
	if (node != NULL && parser->token.kind != EXPR_END)
		return refuse(parser, "it is not understood at \"%s\"", parser->token.text);
	return node;
}

char *
capstan_expression_check(const SourceTable *source, const char *clause, MapPolicies policies, char **reason)
{
	ExprParser	parser;
	ExprNode   *node = parse(&parser, source, clause, policies);
	char	   *sql = node != NULL ? condition(&parser, node) : NULL;

	/*
	 * A zero date that has become NULL makes a comparison unknown, which passes; but not where NULL itself is told apart.  IS NULL
	 * may: it then passes, as the comparison does; unless it is turned round.
	 */
	if (sql != NULL && policies.zero_dates == ZERO_DATES_NULL && parser.uses_date &&
		(parser.tells_null || (parser.asks_for_null && parser.negates)))
	{
		refuse(&parser, "it tells NULL from dates, and zero dates are NULL here");
		sql = NULL;
	}
	*reason = parser.reason;
	return sql;
}

/* Without columns: what a DEFAULT can be. */
ExprNode *
capstan_expression_constant(const char *text, char **reason)
{
	static const SourceTable no_columns;
	MapPolicies policies = {ZERO_DATES_HALT, NUL_BYTES_HALT};
	ExprParser	parser;
	ExprNode   *node = parse(&parser, &no_columns, text, policies);

	*reason = parser.reason;
	return node;
}
