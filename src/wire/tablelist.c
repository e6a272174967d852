/*
 * tablelist.c
 *		Which tables the source has, and which of them patterns mean.
 *
 * Patterns are matched here, not by LIKE, so that one pass tells both which tables are wanted and which patterns
 * matched nothing.  Where the source compares names without case (lower_case_table_names 1 and 2), the source itself
 * makes both sides lower-case.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "wire/introspect.h"

typedef struct Pattern
{
	const char *text;			/* as given */
	char	   *schema_pattern; /* lower-case if names are */
	char	   *table_pattern;
	bool		literal;		/* no wildcards */
	bool		matched;
} Pattern;

typedef struct ListState
{
	int			npatterns;
	Pattern    *patterns;
	List	   *infos;
} ListState;

/* `*` is any number of characters, `?` one; all else is itself. */
static bool
matches(const char *pattern, const char *name)
{
	const char *star = NULL;
	const char *retry = NULL;

	while (*name != '\0')
	{
		if (*pattern == '*')
		{
			star = ++pattern;
			retry = name;
		}
		else if (*pattern == '?' || *pattern == *name)
		{
			/* A whole character for `?`; other bytes one by one. */
			name += *pattern == '?' ? pg_utf_mblen((const unsigned char *) name) : 1;
			pattern++;
		}
		else if (star != NULL)
		{
			pattern = star;
			retry += pg_utf_mblen((const unsigned char *) retry);
			name = retry;
		}
		else
			return false;
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

bool
capstan_wire_pattern_matches(const char *pattern, const char *schema_name, const char *table_name)
{
	const char *dot = strchr(pattern, '.');

	return dot != NULL && matches(pnstrdup(pattern, dot - pattern), schema_name) && matches(dot + 1, table_name);
}

/* Names of the source are utf-8 already; a pattern comes from SQL in the database's encoding. */
static char *
to_utf8(const char *text)
{
	return (char *) pg_do_encoding_conversion((unsigned char *) pstrdup(text), (int) strlen(text),
											  GetDatabaseEncoding(), PG_UTF8);
}

static Pattern *
parse_patterns(SourceConn *conn, List *texts, bool lower_case)
{
	Pattern    *patterns = palloc0(sizeof(Pattern) * Max(list_length(texts), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, texts)
	{
		Pattern    *pattern = &patterns[n++];
		char	   *text = to_utf8(lfirst(lc));
		char	   *dot;

		pattern->text = lfirst(lc);
		if (lower_case)
			text = capstan_wire_query_not_null(conn, psprintf("SELECT LOWER(%s)", capstan_wire_quote_literal(text)));
		dot = strchr(text, '.');
		if (dot == NULL || dot == text || dot[1] == '\0')
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid table pattern \"%s\"", pattern->text),
					 errhint("Patterns are schema.table, with * and ? as wildcards.")));
		*dot = '\0';
		pattern->schema_pattern = text;
		pattern->table_pattern = dot + 1;
		pattern->literal = strpbrk(pattern->text, "*?") == NULL;
	}
	return patterns;
}

/* The columns of the queries below. */
enum
{
	TAB_SCHEMA, TAB_NAME, TAB_TYPE, TAB_ENGINE, TAB_ROWS, TAB_BYTES, TAB_COMMENT, TAB_MATCH_SCHEMA, TAB_MATCH_NAME
};

#define TABLE_COLUMNS "TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH, TABLE_COMMENT"
#define TABLE_EXPECTED WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE

static SourceTableInfo *
make_info(char **row)
{
	SourceTableInfo *info = palloc0(sizeof(SourceTableInfo));

	info->table.schema_name = pstrdup(row[TAB_SCHEMA]);
	info->table.table_name = pstrdup(row[TAB_NAME]);
	info->view = row[TAB_TYPE] == NULL || strcmp(row[TAB_TYPE], "BASE TABLE") != 0;
	info->engine = pstrdup(row[TAB_ENGINE] != NULL ? row[TAB_ENGINE] : "");
	info->rows_estimate = row[TAB_ROWS] != NULL ? strtoll(row[TAB_ROWS], NULL, 10) : 0;
	if (row[TAB_COMMENT] != NULL && row[TAB_COMMENT][0] != '\0')
		info->comment = pstrdup(row[TAB_COMMENT]);
	info->data_bytes = row[TAB_BYTES] != NULL ? strtoll(row[TAB_BYTES], NULL, 10) : 0;
	return info;
}

static void
match_table(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	ListState  *state = arg;
	bool		is_view = row[TAB_TYPE] == NULL || strcmp(row[TAB_TYPE], "BASE TABLE") != 0;
	bool		wanted = false;

	for (int i = 0; i < state->npatterns; i++)
	{
		Pattern    *pattern = &state->patterns[i];

		if ((!is_view || pattern->literal) &&
			matches(pattern->schema_pattern, row[TAB_MATCH_SCHEMA]) &&
			matches(pattern->table_pattern, row[TAB_MATCH_NAME]))
		{
			pattern->matched = true;
			wanted = true;
		}
	}
	if (wanted)
		state->infos = lappend(state->infos, make_info(row));
}

List *
capstan_wire_list_tables(SourceConn *conn, List *patterns, List **unmatched)
{
	char	   *lower_case = capstan_wire_query_value(conn, "SELECT @@GLOBAL.lower_case_table_names");
	bool		fold = lower_case != NULL && strcmp(lower_case, "0") != 0;
	ListState	state = {0};

	state.npatterns = list_length(patterns);
	state.patterns = parse_patterns(conn, patterns, fold);
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT " TABLE_COLUMNS ", %s FROM information_schema.TABLES "
									   "WHERE TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') "
									   "ORDER BY TABLE_SCHEMA, TABLE_NAME",
									   fold ? "LOWER(TABLE_SCHEMA), LOWER(TABLE_NAME)" : "TABLE_SCHEMA, TABLE_NAME"),
							  TABLE_EXPECTED WIRE_VALUE WIRE_VALUE, match_table, &state);
	capstan_wire_fill_tables(conn, state.infos);

	if (unmatched != NULL)
	{
		*unmatched = NIL;
		for (int i = 0; i < state.npatterns; i++)
			if (!state.patterns[i].matched)
				*unmatched = lappend(*unmatched, pstrdup(state.patterns[i].text));
	}
	return state.infos;
}

static void
keep_table(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	ListState  *state = arg;

	state->infos = lappend(state->infos, make_info(row));
}

List *
capstan_wire_describe_tables(SourceConn *conn, List *names)
{
	List	   *infos = NIL;
	ListCell   *cell;

	foreach(cell, names)
	{
		SourceTableInfo *info = palloc0(sizeof(SourceTableInfo));

		info->table.schema_name = linitial((List *) lfirst(cell));
		info->table.table_name = lsecond((List *) lfirst(cell));
		infos = lappend(infos, info);
	}
	capstan_wire_fill_tables(conn, infos);
	foreach(cell, infos)
		if (((SourceTableInfo *) lfirst(cell))->table.ncolumns == 0)
			lfirst(cell) = NULL;
	return infos;
}

SourceTableInfo *
capstan_wire_describe_table(SourceConn *conn, const char *schema_name, const char *table_name)
{
	ListState	state = {0};

	capstan_wire_for_each_row(conn,
							  psprintf("SELECT " TABLE_COLUMNS " FROM information_schema.TABLES "
									   "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
									   capstan_wire_quote_literal(schema_name), capstan_wire_quote_literal(table_name)),
							  TABLE_EXPECTED, keep_table, &state);
	if (state.infos == NIL)
		return NULL;
	capstan_wire_fill_tables(conn, state.infos);
	/* dropped just now, or shown to us only by its name */
	return ((SourceTableInfo *) linitial(state.infos))->table.ncolumns == 0 ? NULL : linitial(state.infos);
}
