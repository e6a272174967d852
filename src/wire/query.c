/*
 * query.c
 *		Statements in the text protocol, with their whole result.
 *
 * Every statement is sent, then waited for on socket and latch, then read: so a query that takes long on the source
 * can be cancelled here.  Results are small (settings, information_schema); rows of tables go through cursor.c.
 *
 * What comes is looked at before anybody sees it: as many columns as were asked for, a value where there must be one, text
 * in the character set that the session has, and no more of it than any answer has.
 */
#include "postgres.h"

#include <limits.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "wire/internal.h"

/* The whole of an answer: far more than any honest one has. */
#define MOST_RESULT_BYTES ((uint64) 1024 * 1024 * 1024)

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
	capstan_wire_expect(conn, MOST_HEADER_BYTES);
	failed = mysql_read_query_result(conn->mysql) != 0;
	capstan_wire_expect(conn, 0);
	capstan_wire_end_blocking();
	return failed ? take_error(conn, "run a statement on", message) : 0;
}

/* ---- rows ---- */

static void raise_other_answer(SourceConn *conn, const char *detail) __attribute__((noreturn));

static void
raise_other_answer(SourceConn *conn, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("source \"%s\" answered something else than it was asked", conn->server_name),
			 errdetail("%s", detail)));
}

/* Not pg_verify_mbstr(), for which a NUL is no character. */
static bool
is_utf8(const char *text, unsigned long length)
{
	const unsigned char *p = (const unsigned char *) text;
	const unsigned char *end = p + length;

	while (p < end)
	{
		int			n = pg_utf_mblen(p);

		if (n > end - p || !pg_utf8_islegal(p, n))
			return false;
		p += n;
	}
	return true;
}

static void
check_row(SourceConn *conn, const char *expected, MYSQL_ROW row, const unsigned long *lengths)
{
	for (int i = 0; expected != NULL && expected[i] != '\0'; i++)
	{
		bool		wanted = expected[i] == WIRE_VALUE[0];

		if (row[i] == NULL && wanted)
			raise_other_answer(conn, psprintf("Column %d is NULL.", i + 1));
		if (row[i] == NULL || expected[i] == WIRE_ANY[0])
			continue;
		if ((wanted && memchr(row[i], '\0', lengths[i]) != NULL) ||
			!is_utf8(row[i], lengths[i]))
			raise_other_answer(conn, psprintf("Column %d is no text in utf8mb4.", i + 1));
	}
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

static void
read_rows(SourceConn *conn, MYSQL_RES *res, const char *expected, WireRowFunction function, void *arg)
{
	uint64		total = 0;
	unsigned int ncolumns = mysql_num_fields(res);
	MYSQL_ROW	row;

	if (expected != NULL && ncolumns < strlen(expected))
		raise_other_answer(conn, psprintf("The result has %u columns instead of %zu.", ncolumns, strlen(expected)));
	while ((row = fetch_row(conn, res)) != NULL)
	{
		unsigned long *lengths = mysql_fetch_lengths(res);

		CHECK_FOR_INTERRUPTS();
		if (lengths == NULL)
			raise_other_answer(conn, "A row has no lengths.");
		for (unsigned int i = 0; i < ncolumns; i++)
			total += lengths[i] + 1;
		if (total > MOST_RESULT_BYTES)
			raise_other_answer(conn, "The result has more than 1 GB.");
		check_row(conn, expected, row, lengths);
		function(arg, row, lengths, (int) ncolumns);
	}
}

/*
 * Reads the result set, if the statement had one, and makes the connection idle.  Left in the middle, the connection is of
 * no more use, but the library's memory must not leak.
 */
static unsigned int
read_result(SourceConn *conn, const char *expected, WireRowFunction function, void *arg, char **message)
{
	MYSQL_RES  *res = mysql_use_result(conn->mysql);

	if (res == NULL && (mysql_errno(conn->mysql) != 0 || mysql_field_count(conn->mysql) != 0))
		return take_error(conn, "read a result from", message);
	if (res == NULL && expected != NULL)
		raise_other_answer(conn, "There is no result.");
	if (res != NULL)
	{
		unsigned int number;

		PG_TRY();
		{
			read_rows(conn, res, expected, function, arg);
		}
		PG_CATCH();
		{
			capstan_wire_cut(conn);
			mysql_free_result(res);
			PG_RE_THROW();
		}
		PG_END_TRY();
		number = mysql_errno(conn->mysql);
		if (number != 0)
		{
			char	   *text = pstrdup(mysql_error(conn->mysql));
			char	   *sqlstate = pstrdup(mysql_sqlstate(conn->mysql));

			mysql_free_result(res);
			if (capstan_wire_error_is_loss(number) || number == CR_OUT_OF_MEMORY || number == CR_SSL_CONNECTION_ERROR)
				capstan_wire_raise_number(conn, "read a result from", number, sqlstate, text);
			CHECK_FOR_INTERRUPTS();
			copy_message(message, number, text);
			conn->busy = false;
			return number;
		}
		mysql_free_result(res);
	}
	if (mysql_more_results(conn->mysql))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("source \"%s\" answered with more than one result", conn->server_name)));
	conn->busy = false;
	return 0;
}

/* Of a result that nobody looks at. */
static void
ignore_row(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
}

typedef struct KeptRows
{
	SourceResult *result;
	int			capacity;
} KeptRows;

static void
keep_row(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	KeptRows   *kept = arg;
	SourceResult *result = kept->result;
	char	  **copy = palloc(sizeof(char *) * Max(ncolumns, 1));

	if (result->nrows == kept->capacity)
	{
		if (kept->capacity > INT_MAX / 2)
			elog(ERROR, "too many rows in a result");
		kept->capacity = Max(2 * kept->capacity, 8);
		result->rows = result->rows == NULL ? palloc(sizeof(char **) * kept->capacity) :
			repalloc_huge(result->rows, sizeof(char **) * (Size) kept->capacity);
	}
	for (int i = 0; i < ncolumns; i++)
		copy[i] = row[i] != NULL ? pnstrdup(row[i], lengths[i]) : NULL;
	result->ncolumns = ncolumns;
	result->rows[result->nrows++] = copy;
}

/* ---- statements ---- */

static unsigned int
run(SourceConn *conn, const char *sql, const char *expected, WireRowFunction function, void *arg, char **message)
{
	unsigned int number = send_query(conn, sql, message);

	if (number != 0)
		return number;
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	number = read_answer(conn, message);
	return number != 0 ? number : read_result(conn, expected, function, arg, message);
}

void
capstan_wire_for_each_row(SourceConn *conn, const char *sql, const char *expected, WireRowFunction function, void *arg)
{
	if (run(conn, sql, expected, function, arg, NULL) != 0)
		capstan_wire_raise(conn, "query");
}

unsigned int
capstan_wire_try_exec(SourceConn *conn, const char *sql, char **message)
{
	return run(conn, sql, NULL, ignore_row, NULL, message);
}

void
capstan_wire_exec(SourceConn *conn, const char *sql)
{
	if (capstan_wire_try_exec(conn, sql, NULL) != 0)
		capstan_wire_raise(conn, "run a statement on");
}

unsigned int
capstan_wire_try_query(SourceConn *conn, const char *sql, const char *expected, SourceResult **result, char **message)
{
	KeptRows	kept = {palloc0(sizeof(SourceResult)), 0};

	*result = kept.result;
	return run(conn, sql, expected, keep_row, &kept, message);
}

SourceResult *
capstan_wire_query(SourceConn *conn, const char *sql, const char *expected)
{
	SourceResult *result;

	if (capstan_wire_try_query(conn, sql, expected, &result, NULL) != 0)
		capstan_wire_raise(conn, "query");
	return result;
}

char *
capstan_wire_query_value(SourceConn *conn, const char *sql)
{
	SourceResult *result = capstan_wire_query(conn, sql, WIRE_NULLABLE);

	return result->nrows > 0 ? result->rows[0][0] : NULL;
}

static char *
only_value(SourceConn *conn, SourceResult *result)
{
	if (result->nrows != 1)
		raise_other_answer(conn, psprintf("The result has %d rows instead of one.", result->nrows));
	return result->rows[0][0];
}

char *
capstan_wire_query_not_null(SourceConn *conn, const char *sql)
{
	return only_value(conn, capstan_wire_query(conn, sql, WIRE_VALUE));
}

void
capstan_wire_allow_two(SourceConn *conn)
{
	bool		failed;

	capstan_wire_check_idle(conn);
	capstan_wire_begin_blocking(conn);
	failed = mysql_set_server_option(conn->mysql, MYSQL_OPTION_MULTI_STATEMENTS_ON) != 0;
	capstan_wire_end_blocking();
	if (failed)
		capstan_wire_raise(conn, "set an option of");
}

unsigned int
capstan_wire_try_exec_two(SourceConn *conn, const char *first, const char *second, unsigned int *first_warnings, char **message)
{
	unsigned int number = send_query(conn, psprintf("%s; %s", first, second), message);
	int			next;

	if (number != 0)
		return number;
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	number = read_answer(conn, message);
	if (number != 0)
		return number;
	if (mysql_field_count(conn->mysql) != 0 || !mysql_more_results(conn->mysql))
		raise_other_answer(conn, "There is another number of results than of statements.");
	*first_warnings = mysql_warning_count(conn->mysql);
	capstan_wire_begin_blocking(conn);
	capstan_wire_expect(conn, MOST_HEADER_BYTES);
	next = mysql_next_result(conn->mysql);
	capstan_wire_expect(conn, 0);
	capstan_wire_end_blocking();
	return next != 0 ? take_error(conn, "run a statement on", message) : read_result(conn, NULL, ignore_row, NULL, message);
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
capstan_wire_take(SourceConn *conn, char **message)
{
	unsigned int number = read_answer(conn, message);

	return number != 0 ? number : read_result(conn, NULL, ignore_row, NULL, message);
}

unsigned int
capstan_wire_receive(SourceConn *conn, char **message)
{
	/* The caller keeps the time; a source that is not there any more does not. */
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	return capstan_wire_take(conn, message);
}

static void
note_row(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	*(bool *) arg = true;
}

unsigned int
capstan_wire_receive_found(SourceConn *conn, bool *found, char **message)
{
	unsigned int number;

	*found = false;
	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	number = read_answer(conn, message);
	return number != 0 ? number : read_result(conn, NULL, note_row, found, message);
}

char *
capstan_wire_receive_not_null(SourceConn *conn)
{
	KeptRows	kept = {palloc0(sizeof(SourceResult)), 0};

	if (!capstan_wire_wait_readable(conn, conn->timeout_ms))
		capstan_wire_raise_silent(conn, conn->timeout_ms);
	if (read_answer(conn, NULL) != 0 || read_result(conn, WIRE_VALUE, keep_row, &kept, NULL) != 0)
		capstan_wire_raise(conn, "query");
	return only_value(conn, kept.result);
}
