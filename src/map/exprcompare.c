/*
 * exprcompare.c
 *		Which values MySQL and Postgres compare alike, and how that is written.
 *
 * Called by expression.c.  The types of all values together decide:
 *
 *	   integers, decimals			both sides exactly, by value
 *	   with a floating-point number	both sides as double precision; not one declared as (M,D): what differs from it by less than half of
 *									its last digit is equal to it there
 *	   text							by the column's collation: only _bin ones, by characters; utf8mb4_0900_bin by all of
 *									them, the others without blanks at the end (PAD SPACE), and then only = and <>
 *	   binary strings				by bytes
 *	   DATE, DATETIME				by the calendar; with a string literal only where that is written as the column's own
 *									values are, so that it does not matter whether it is compared as text or as a date
 *
 * TIMESTAMP is not compared: MySQL does so in the session's time zone, where an hour comes twice.
 */
#include "postgres.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/datetime.h"

#include "base/collation.h"
#include "map/expression.h"

static bool
is_padded(const char *collation)
{
	return strcmp(collation, "utf8mb4_0900_bin") != 0;
}

/* Do equal texts here have equal bytes there, and the other way round? */
static bool
is_plain_charset(const char *charset)
{
	return strcmp(charset, "utf8mb4") == 0 || strcmp(charset, "utf8mb3") == 0 || strcmp(charset, "latin1") == 0 ||
		strcmp(charset, "ascii") == 0;
}

static bool
comparable_texts(ExprParser *parser, ExprNode **nodes, int n, bool ordering)
{
	uint16		collation = 0;
	const char *name;
	bool		padded;
	bool		collated = false;

	for (int i = 0; i < n; i++)
	{
		const SourceColumn *column = nodes[i]->column;

		if (nodes[i]->class != CLASS_TEXT)
			continue;
		if (collation != 0 && column->collation != collation)
			return refuse(parser, "texts of two collations are compared") != NULL;
		collation = column->collation;
	}
	name = capstan_collation_name(collation);
	if (name == NULL || strlen(name) < 4 || strcmp(name + strlen(name) - 4, "_bin") != 0)
		return refuse(parser, "text is compared by collation %s, which PostgreSQL does not have", name != NULL ? name : "?") != NULL;
	if (!is_plain_charset(capstan_collation_charset(collation)))
		return refuse(parser, "text of character set %s is compared", capstan_collation_charset(collation)) != NULL;
	padded = is_padded(name);
	if (padded && ordering)
		return refuse(parser, "text is ordered by collation %s, which PostgreSQL does not have", name) != NULL;
	if (parser->policies.nul_bytes != NUL_BYTES_HALT)
		return refuse(parser, "text is compared, and zero bytes of texts are not kept here") != NULL;
	for (int i = 0; i < n; i++)
	{
		ExprNode   *node = nodes[i];

		if (node->class == CLASS_NULL)
			continue;
		if (node->class == CLASS_STRING)
		{
			char	   *text = pstrdup(node->string);

			for (size_t length = strlen(text); padded && length > 0 && text[length - 1] == ' '; length--)
				text[length - 1] = '\0';
			node->sql = quote_literal_cstr(text);
			continue;
		}
		if (node->column->type == SOURCE_CHAR && !padded)
			return refuse(parser, "CHAR is compared by collation %s", name) != NULL;
		if (node->column->type == SOURCE_ENUM && ordering)
			return refuse(parser, "an ENUM is ordered") != NULL;
		node->sql = padded ? psprintf("rtrim(%s, ' ')", node->sql) : node->sql;
		if (!collated)
			node->sql = psprintf("(%s COLLATE \"C\")", node->sql);
		collated = true;
	}
	return true;
}

static bool
comparable_bytes(ExprParser *parser, ExprNode **nodes, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (nodes[i]->class == CLASS_HEX)
			nodes[i]->sql = psprintf("'\\x%s'::bytea", nodes[i]->string);
		else if (nodes[i]->class == CLASS_STRING)
		{
			StringInfoData sql;

			/* strings are ASCII */
			initStringInfo(&sql);
			appendStringInfoString(&sql, "'\\x");
			for (const char *c = nodes[i]->string; *c != '\0'; c++)
				appendStringInfo(&sql, "%02x", (unsigned char) *c);
			appendStringInfoString(&sql, "'::bytea");
			nodes[i]->sql = sql.data;
		}
	}
	return true;
}

/* "2020-01-31", or with time and exactly `digits` digits of a fraction behind it (-1: any number, or no time at all); is there such a day? */
static bool
is_calendar_text(const char *text, bool with_time, int digits)
{
	static const char date[] = "0000-00-00";
	static const char clock[] = " 00:00:00";
	size_t		length = strlen(text);
	int			fields[6] = {0};
	int			month_days;

	for (size_t i = 0; i < length && i < 19; i++)
	{
		char		wanted = i < 10 ? date[i] : clock[i - 10];

		if (wanted == '0' ? text[i] < '0' || text[i] > '9' : text[i] != wanted)
			return false;
	}
	if (length < 10 || (length > 10 && (length < 19 || !with_time)) || (length == 10 && with_time && digits >= 0))
		return false;
	if (length > 19 && (text[19] != '.' || strspn(text + 20, "0123456789") != length - 20 || length == 20 || length > 26))
		return false;
	if (digits >= 0 && with_time && length != (size_t) (digits > 0 ? 20 + digits : 19))
		return false;
	sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d", &fields[0], &fields[1], &fields[2], &fields[3], &fields[4], &fields[5]);
	if (fields[0] < 1 || fields[1] < 1 || fields[1] > 12 || fields[3] > 23 || fields[4] > 59 || fields[5] > 59)
		return false;
	month_days = day_tab[isleap(fields[0])][fields[1] - 1];
	return fields[2] >= 1 && fields[2] <= month_days;
}

static bool
comparable_dates(ExprParser *parser, ExprNode **nodes, int n)
{
	const SourceColumn *column = NULL;
	int			ncolumns = 0;
	bool		as_dates = true;

	if (parser->policies.zero_dates == ZERO_DATES_INFINITY)
		return refuse(parser, "dates are compared, and those without a month or a day are -infinity here") != NULL;
	for (int i = 0; i < n; i++)
	{
		if (nodes[i]->column != NULL)
		{
			column = nodes[i]->column;
			ncolumns++;
		}
		if (nodes[i]->class == CLASS_DATETIME ||
			(nodes[i]->class == CLASS_STRING && column != NULL && column->type == SOURCE_DATETIME))
			as_dates = false;
	}
	for (int i = 0; i < n; i++)
	{
		ExprNode   *node = nodes[i];

		if (node->class == CLASS_NULL)
			continue;
		if (node->class == CLASS_STRING)
		{
			bool		with_time = column != NULL && column->type == SOURCE_DATETIME;

			if (ncolumns != 1 || !is_calendar_text(node->string, with_time, with_time && n == 2 ? -1 : column->scale))
				return refuse(parser, "a string that is not written as the column's values are is compared with a date") != NULL;
			node->sql = psprintf("'%s'::%s", node->string, as_dates ? "date" : "timestamp");
		}
		else if (node->literal)
		{
			if (!is_calendar_text(node->string, node->class == CLASS_DATETIME, node->class == CLASS_DATETIME ? -1 : 0))
				return refuse(parser, "a literal is no date") != NULL;
			node->sql = psprintf("'%s'::%s", node->string, as_dates ? "date" : "timestamp");
		}
		else if (node->class == CLASS_DATE && !as_dates)
			node->sql = psprintf("%s::timestamp", node->sql);
	}
	return true;
}

bool
capstan_expression_comparable(ExprParser *parser, ExprNode **nodes, int n, bool ordering)
{
	int			count[CLASS_OTHER + 1] = {0};
	int			known;

	for (int i = 0; i < n; i++)
		count[nodes[i]->class]++;
	known = n - count[CLASS_NULL];
	if (known == 0)
		return refuse(parser, "NULL is compared with NULL") != NULL;
	if (count[CLASS_INT] + count[CLASS_DECIMAL] == known)
		return true;
	if (count[CLASS_INT] + count[CLASS_DECIMAL] + count[CLASS_DOUBLE] == known)
	{
		for (int i = 0; i < n; i++)
			if (nodes[i]->column != NULL && nodes[i]->column->fixed_point)
				return refuse(parser, "a floating-point number with a fixed number of digits is compared") != NULL;
		/* of several values, MySQL compares each pair by its own types */
		if (n > 2 && nodes[0]->class != CLASS_DOUBLE)
			return refuse(parser, "floating-point and exact numbers are compared in one list") != NULL;
		for (int i = 0; i < n; i++)
			if (nodes[i]->class != CLASS_NULL)
				nodes[i]->sql = psprintf("%s::float8", nodes[i]->sql);
		return true;
	}
	if (count[CLASS_TEXT] > 0 && count[CLASS_TEXT] + count[CLASS_STRING] == known)
		return comparable_texts(parser, nodes, n, ordering);
	if (count[CLASS_BYTES] > 0 && count[CLASS_BYTES] + count[CLASS_STRING] + count[CLASS_HEX] == known)
		return comparable_bytes(parser, nodes, n);
	if (parser->uses_date && count[CLASS_DATE] + count[CLASS_DATETIME] + count[CLASS_STRING] == known &&
		count[CLASS_DATE] + count[CLASS_DATETIME] > 0)
		return comparable_dates(parser, nodes, n);
	for (int i = 1; i < n; i++)
		if (nodes[i]->class != nodes[0]->class)
			return refuse(parser, "%s is compared with %s", capstan_expression_class_name(nodes[0]->class),
						  capstan_expression_class_name(nodes[i]->class)) != NULL;
	return refuse(parser, "%s is compared", capstan_expression_class_name(nodes[0]->class)) != NULL;
}
