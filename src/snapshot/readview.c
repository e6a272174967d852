/*
 * readview.c
 *		A consistent read view on the source and the statements that read from it.  See readview.h.
 *
 * Keys are compared by MySQL alone, in the order of the column's own collation.  A composite
 * key is compared row-wise by
 *
 *		a >= x AND (a > x OR (a = x AND (b > y OR (b = y AND c > z))))
 *
 * where the first term is implied by the second and only helps the optimizer to a range.  Rows are read in the order of the key's
 * index, so that the server need not sort all that is left of a table for each piece of it: where the index runs up in one column and down
 * in another, order and comparisons of the latter are turned round.  (One that runs down in all of them is read backwards.)
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "errcodes.h"
#include "snapshot/readview.h"

#define MYSQL_TABLE_ACCESS_DENIED 1142
#define MYSQL_TABLE_DEFINITION_CHANGED 1412
#define MYSQL_LOCK_WAIT_TIMEOUT 1205
#define MYSQL_LOCK_DEADLOCK 1213
#define MYSQL_QUERY_TIMEOUT 3024

/*
 * A touch waits no longer than this for the table's metadata: an ALTER that queues before it, and behind a view of ours, would
 * hold back every writer for as long as we wait.
 */
#define TOUCH_BOUND_MS 400

void
capstan_readview_prepare(SourceConn *conn)
{
	capstan_wire_exec(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
	capstan_wire_allow_two(conn);
}

#define OPEN_STATEMENT "START TRANSACTION WITH CONSISTENT SNAPSHOT"

static void
check_view(unsigned int warnings)
{
	if (warnings != 0)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_SETTING),
				 errmsg("the source does not open a consistent read view"),
				 errdetail("START TRANSACTION WITH CONSISTENT SNAPSHOT gave a warning."),
				 errhint("Look at SHOW WARNINGS after that statement on the source; InnoDB and REPEATABLE READ are needed.")));
}

void
capstan_readview_open(SourceConn *conn)
{
	capstan_wire_exec(conn, OPEN_STATEMENT);
	check_view(capstan_wire_warning_count(conn));
}

/* Reads nothing, or one row: nobody looks at it. */
static char *
touch_statement(const char *names, int limit)
{
	return psprintf("SELECT /*+ MAX_EXECUTION_TIME(%d) */ 1 FROM %s LIMIT %d", TOUCH_BOUND_MS, names, limit);
}

static char *
list_names(List *quoted_names)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, quoted_names)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(cell));
	return names.data;
}

void
capstan_readview_warm_up(SourceConn *conn, List *quoted_names)
{
	(void) capstan_wire_try_exec(conn, touch_statement(list_names(quoted_names), 0), NULL);
}

/* What a touch was answered: is the view of use? */
static bool
check_touch(unsigned int code, const char *names, const char *message)
{
	if (code == MYSQL_TABLE_ACCESS_DENIED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("table %s cannot be read from the source: %s", names, message),
				 errhint("GRANT SELECT, LOCK TABLES on its schema to the account, and call capstan.resume_pipeline().")));
	if (code != 0 && code != MYSQL_TABLE_DEFINITION_CHANGED && code != MYSQL_QUERY_TIMEOUT &&
		code != MYSQL_LOCK_WAIT_TIMEOUT && code != MYSQL_LOCK_DEADLOCK)
	{
		int			sqlerrcode = capstan_wire_sqlstate(code, message);

		/* a source that is out of memory, or where somebody ends queries, is asked again */
		ereport(ERROR,
				(errcode(capstan_errcode_is_transient(sqlerrcode) ? sqlerrcode : CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("table %s cannot be read from the source: %s", names, message)));
	}
	return code == 0;
}

bool
capstan_readview_open_and_touch(SourceConn *conn, List *quoted_names)
{
	char	   *names = list_names(quoted_names);
	char	   *message;
	unsigned int warnings = 0;
	unsigned int code = capstan_wire_try_exec_two(conn, OPEN_STATEMENT, touch_statement(names, 0), &warnings, &message);

	check_view(warnings);
	return check_touch(code, names, message);
}

bool
capstan_readview_pin(SourceConn *conn, List *quoted_names)
{
	char	   *names = list_names(quoted_names);
	char	   *message;
	unsigned int code = capstan_wire_try_exec(conn, touch_statement(names, 0), &message);

	return check_touch(code, names, message);
}

bool
capstan_readview_touch(SourceConn *conn, const char *quoted_name)
{
	char	   *message;
	unsigned int code = capstan_wire_try_exec(conn, touch_statement(quoted_name, 1), &message);

	return check_touch(code, quoted_name, message);
}

void
capstan_readview_close(SourceConn *conn)
{
	capstan_wire_exec(conn, "COMMIT");
}

char *
capstan_quoted_table(const char *schema_name, const char *table_name)
{
	return psprintf("%s.%s", capstan_wire_quote_identifier(schema_name), capstan_wire_quote_identifier(table_name));
}

/* Is this column of the key paged from its greatest value down? */
static bool
pages_down(const SourceTable *table, int i)
{
	return capstan_source_key_is_mixed(table) && table->key_descends[i];
}

/*
 * "key > values" (above), or "key <= values".  From column `from` on.
 */
static void
append_comparison(StringInfo sql, const SourceTable *table, const SourceValue *values, bool above, int from)
{
	const SourceColumn *column = &table->columns[table->key[from]];
	const char *name = capstan_wire_quote_identifier(column->name);
	bool		last = from == table->nkey - 1;
	bool		greater = above != pages_down(table, from);

	appendStringInfo(sql, "%s%s %s%s ", last ? "" : "(", name, greater ? ">" : "<", last && !above ? "=" : "");
	capstan_wire_append_literal(sql, column, &values[from]);
	if (last)
		return;
	appendStringInfo(sql, " OR (%s = ", name);
	capstan_wire_append_literal(sql, column, &values[from]);
	appendStringInfoString(sql, " AND ");
	append_comparison(sql, table, values, above, from + 1);
	appendStringInfoString(sql, "))");
}

static void
append_bound(StringInfo sql, const SourceTable *table, const SourceValue *values, bool above)
{
	if (table->nkey > 1)
	{
		const SourceColumn *column = &table->columns[table->key[0]];

		appendStringInfo(sql, "%s %s ", capstan_wire_quote_identifier(column->name), above != pages_down(table, 0) ? ">=" : "<=");
		capstan_wire_append_literal(sql, column, &values[0]);
		appendStringInfoString(sql, " AND ");
	}
	append_comparison(sql, table, values, above, 0);
}

/* The bounds were found in the order of the key's index: have it used for finding the rows again. */
static void
append_from_where(StringInfo sql, const SourceTable *table, const SourceValue *low, const SourceValue *high, bool use_key)
{
	appendStringInfo(sql, " FROM %s", capstan_quoted_table(table->schema_name, table->table_name));
	if (use_key)
		appendStringInfo(sql, " FORCE INDEX (%s)", capstan_wire_quote_identifier(table->key_name));
	if (low != NULL || high != NULL)
		appendStringInfoString(sql, " WHERE ");
	if (low != NULL)
		append_bound(sql, table, low, true);
	if (low != NULL && high != NULL)
		appendStringInfoString(sql, " AND ");
	if (high != NULL)
		append_bound(sql, table, high, false);
}

static void
append_key_order(StringInfo sql, const SourceTable *table)
{
	for (int i = 0; i < table->nkey; i++)
		appendStringInfo(sql, "%s%s%s", i > 0 ? ", " : " ORDER BY ",
						 capstan_wire_quote_identifier(table->columns[table->key[i]].name), pages_down(table, i) ? " DESC" : "");
}

char *
capstan_range_select(const SourceTable *table, const SourceValue *low, const SourceValue *high, int64 most)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	capstan_wire_append_select_list(&sql, table, NULL, 0);
	append_from_where(&sql, table, low, high, low != NULL || high != NULL || most > 0);
	if (most > 0)
	{
		append_key_order(&sql, table);
		appendStringInfo(&sql, " LIMIT " INT64_FORMAT, most);
	}
	return sql.data;
}

char *
capstan_boundary_select(const SourceTable *table, const SourceValue *low, int64 n)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	capstan_wire_append_select_list(&sql, table, table->key, table->nkey);
	append_from_where(&sql, table, low, NULL, true);
	append_key_order(&sql, table);
	appendStringInfo(&sql, " LIMIT 1 OFFSET " INT64_FORMAT, n - 1);
	return sql.data;
}
