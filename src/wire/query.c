/*
 * query.c
 *		Statements in the text protocol, with their whole result.
 *
 * Every statement is sent, then waited for on socket and latch, then read: so a query that takes long on the source
 * can be cancelled here.  Results are small (settings, information_schema); rows of tables go through cursor.c.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/memutils.h"

#include "wire/internal.h"

static void
copy_message(char **message, unsigned int number, const char *text)
{
	if (message != NULL)
		*message = capstan_wire_error_text(number, text);
}

/*
 * The error just reported: raised when the connection is gone, else returned.  0 never comes out of here.
 */
static unsigned int
take_error(SourceConn *conn, const char *action, char **message)
{
	unsigned int number = mysql_errno(conn->mysql);

	if (number == 0 || number == CR_COMMANDS_OUT_OF_SYNC || number == CR_OUT_OF_MEMORY ||
		number == CR_SSL_CONNECTION_ERROR ||
		capstan_wire_error_is_loss(number))
		capstan_wire_raise(conn, action);
	CHECK_FOR_INTERRUPTS();
	copy_message(message, number, mysql_error(conn->mysql));
	conn->busy = false;
	return number;
}

static unsigned int
send_query(SourceConn *conn, const char *sql, char **message)
{
	bool		failed;

	capstan_wire_check_idle(conn);
	conn->busy = true;
	capstan_wire_begin_blocking(conn);
	failed = mysql_send_query(conn->mysql, sql, strlen(sql)) != 0;
	capstan_wire_end_blocking();
	return failed ? take_error(conn, "send a statement to", message) : 0;
}

static unsigned int
read_answer(SourceConn *conn, char **message)
{
	bool		failed;

	capstan_wire_begin_blocking(conn);
	failed = mysql_read_query_result(conn->mysql) != 0;
	capstan_wire_end_blocking();
	return failed ? take_error(conn, "run a statement on", message) : 0;
}

static SourceResult *
copy_result(MYSQL_RES *res)
{
	SourceResult *result = palloc0(sizeof(SourceResult));
	uint64		nrows = res != NULL ? mysql_num_rows(res) : 0;

	if (nrows == 0)
		return result;
	if (nrows > INT_MAX)
		elog(ERROR, "too many rows in a result");
	result->ncolumns = (int) mysql_num_fields(res);
	result->rows = MemoryContextAllocHuge(CurrentMemoryContext, nrows * sizeof(char **));
	for (uint64 i = 0; i < nrows; i++)
	{
		MYSQL_ROW	row = mysql_fetch_row(res);
		unsigned long *lengths = mysql_fetch_lengths(res);

		if (row == NULL)
			elog(ERROR, "a stored result has fewer rows than it says");
		result->rows[i] = palloc(result->ncolumns * sizeof(char *));
		for (int j = 0; j < result->ncolumns; j++)
			result->rows[i][j] = row[j] != NULL ? pnstrdup(row[j], lengths[j]) : NULL;
		result->nrows++;
	}
	return result;
}

/* Reads the result set, if the statement had one, and makes the connection idle. */
static unsigned int
read_result(SourceConn *conn, SourceResult **result, char **message)
{
	MYSQL_RES  *res;
	SourceResult *volatile copied = NULL;	/* set inside PG_TRY */

	capstan_wire_begin_blocking(conn);
	res = mysql_store_result(conn->mysql);
	capstan_wire_end_blocking();
	if (res == NULL && (mysql_errno(conn->mysql) != 0 || mysql_field_count(conn->mysql) != 0))
		return take_error(conn, "read a result from", message);

	/* The library's copy is malloc'd. */
	PG_TRY();
	{
		if (result != NULL)
			copied = copy_result(res);
	}
	PG_FINALLY();
	{
		if (res != NULL)
			mysql_free_result(res);
	}
	PG_END_TRY();
	if (mysql_more_results(conn->mysql))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("source \"%s\" answered with more than one result", conn->server_name)));
	conn->busy = false;
	if (result != NULL)
		*result = copied;
	return 0;
}

static MYSQL_ROW
fetch_row(SourceConn *conn, MYSQL_RES *res)
{
	MYSQL_ROW	row;

	capstan_wire_begin_blocking(conn);
	row = mysql_fetch_row(res);
	capstan_wire_end_blocking();
	return row;
}

void
capstan_wire_for_each_row(SourceConn *conn, const char *sql, WireRowFunction function, void *arg)
{
	MYSQL_RES  *res;
	MYSQL_ROW	row;

	if (send_query(conn, sql, NULL) != 0)
		capstan_wire_raise(conn, "query");
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	if (read_answer(conn, NULL) != 0)
		capstan_wire_raise(conn, "query");
	conn->busy = true;
	res = mysql_use_result(conn->mysql);
	if (res == NULL)
		capstan_wire_raise(conn, "read a result from");

	/* Left in the middle, the connection is of no more use, but the library's memory must not leak. */
	PG_TRY();
	{
		while ((row = fetch_row(conn, res)) != NULL)
		{
			CHECK_FOR_INTERRUPTS();
			function(arg, row);
		}
	}
	PG_CATCH();
	{
		capstan_wire_cut(conn);
		mysql_free_result(res);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (mysql_errno(conn->mysql) != 0)
	{
		unsigned int number = mysql_errno(conn->mysql);
		char	   *message = pstrdup(mysql_error(conn->mysql));
		char	   *sqlstate = pstrdup(mysql_sqlstate(conn->mysql));

		mysql_free_result(res);
		capstan_wire_raise_number(conn, "read a result from", number, sqlstate, message);
	}
	mysql_free_result(res);
	conn->busy = false;
}

static unsigned int
run(SourceConn *conn, const char *sql, SourceResult **result, char **message)
{
	unsigned int number = send_query(conn, sql, message);

	if (number != 0)
		return number;
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	number = read_answer(conn, message);
	return number != 0 ? number : read_result(conn, result, message);
}

unsigned int
capstan_wire_try_exec(SourceConn *conn, const char *sql, char **message)
{
	return run(conn, sql, NULL, message);
}

void
capstan_wire_exec(SourceConn *conn, const char *sql)
{
	if (capstan_wire_try_exec(conn, sql, NULL) != 0)
		capstan_wire_raise(conn, "run a statement on");
}

unsigned int
capstan_wire_try_query(SourceConn *conn, const char *sql, SourceResult **result, char **message)
{
	*result = NULL;
	return run(conn, sql, result, message);
}

SourceResult *
capstan_wire_query(SourceConn *conn, const char *sql)
{
	SourceResult *result;

	if (capstan_wire_try_query(conn, sql, &result, NULL) != 0)
		capstan_wire_raise(conn, "query");
	return result;
}

char *
capstan_wire_query_value(SourceConn *conn, const char *sql)
{
	SourceResult *result = capstan_wire_query(conn, sql);

	return result->nrows > 0 ? result->rows[0][0] : NULL;
}

unsigned int
capstan_wire_warning_count(SourceConn *conn)
{
	return mysql_warning_count(conn->mysql);
}

void
capstan_wire_send(SourceConn *conn, const char *sql)
{
	if (send_query(conn, sql, NULL) != 0)
		capstan_wire_raise(conn, "send a statement to");
}

unsigned int
capstan_wire_receive(SourceConn *conn, char **message)
{
	unsigned int number;

	/* The caller keeps the time. */
	(void) capstan_wire_wait_readable(conn, -1);
	number = read_answer(conn, message);
	return number != 0 ? number : read_result(conn, NULL, message);
}
