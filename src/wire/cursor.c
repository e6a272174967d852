/*
 * cursor.c
 *		Rows of a SELECT as SourceValues: binary protocol, unbuffered.
 *
 * The binary protocol is a matter of correctness: the text protocol rounds FLOAT to six digits.
 *
 * One value, whichever way it came: what is made here must be the very SourceValue that binlog/ makes of the
 * same value in a row event (ENUM and SET apart, which come as text here; see row.h).  So the result's
 * metadata is compared with the SourceColumn before the first row, and a definition that has
 * changed in between raises instead of giving other values.
 *
 * Memory: a buffer for each column, kept from row to row.  Values too long for it make it grow up to
 * KEPT_BUFFER_SIZE; a longer value gets a buffer of its own that is freed at the next fetch.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "errcodes.h"
#include "wire/internal.h"

#define FIRST_BUFFER_SIZE 1024
#define KEPT_BUFFER_SIZE (256 * 1024)
/* A varlena of Postgres and its header. */
#define LONGEST_VALUE ((unsigned long) (MaxAllocSize - VARHDRSZ))

/* Connector/C 3.3 knows it, its older headers and Oracle's do not. */
#define FETCH_MALFORMED 102

#define FLAG_UNSIGNED 32
#define FLAG_ENUM 256
#define FLAG_SET 2048

/* Type codes that one of the headers lacks. */
#define TYPE_VECTOR 242
#define TYPE_JSON 245

typedef struct CursorColumn
{
	const SourceColumn *column;
	char	   *buffer;			/* for bytes; size in the bind */
	char	   *long_buffer;	/* this row's value, too long to keep room for; or NULL */
	union
	{
		int8		tiny;
		int16		small;
		int32		medium;
		int64		big;
		float		real32;
		double		real64;
		MYSQL_TIME	time;
	}			fixed;
	unsigned long length;
	WireBool	is_null;
	WireBool	truncated;
} CursorColumn;

struct SourceCursor
{
	MemoryContext context;		/* child of the connection's */
	SourceConn *conn;
	MYSQL_STMT *stmt;
	int			ncolumns;
	CursorColumn *columns;
	MYSQL_BIND *binds;
	bool		rebind;			/* some buffer has moved */
	bool		ended;
	uint64		nrows;
	uint64		bytes;
};

static void raise_statement(SourceCursor *cursor) __attribute__((noreturn));
static void
raise_statement(SourceCursor *cursor)
{
	unsigned int number = mysql_stmt_errno(cursor->stmt);
	const char *text = mysql_stmt_error(cursor->stmt);
	const char *state = mysql_stmt_sqlstate(cursor->stmt);
	char	   *message;
	char	   *sqlstate;

	/* Connector/C leaves an error that ends a result with the connection alone. */
	if (number == 0)
	{
		number = mysql_errno(cursor->conn->mysql);
		text = mysql_error(cursor->conn->mysql);
		state = mysql_sqlstate(cursor->conn->mysql);
	}
	if (number == 0)
	{
		number = CR_SERVER_LOST;
		text = "the client library failed without an error";
	}
	message = pstrdup(text);
	sqlstate = pstrdup(state);

	/* Whatever it was, a result may be left half read. */
	capstan_wire_mark_lost(cursor->conn);
	if (number == CR_NET_PACKET_TOO_LARGE)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_VALUE),
				 errmsg("a row of source \"%s\" is longer than 1 GB", cursor->conn->server_name)));
	capstan_wire_raise_number(cursor->conn, "read rows from", number, sqlstate, message);
}

/*
 * Does the result's field give the values of this column?  Display widths are not compared, nor is nullability: a
 * NULL is a NULL.
 */
static bool
field_matches(const MYSQL_FIELD *field, const SourceColumn *column)
{
	int			code = (int) field->type;
	bool		binary = field->charsetnr == 63;
	bool		same_sign = ((field->flags & FLAG_UNSIGNED) != 0) == column->is_unsigned;
	bool		same_text = field->charsetnr == column->collation;

	switch (column->type)
	{
		case SOURCE_TINYINT:
			return code == MYSQL_TYPE_TINY && same_sign;
		case SOURCE_SMALLINT:
			return code == MYSQL_TYPE_SHORT && same_sign;
		case SOURCE_MEDIUMINT:
			return code == MYSQL_TYPE_INT24 && same_sign;
		case SOURCE_INT:
			return code == MYSQL_TYPE_LONG && same_sign;
		case SOURCE_BIGINT:
			return code == MYSQL_TYPE_LONGLONG && same_sign;
		case SOURCE_DECIMAL:
			return code == MYSQL_TYPE_NEWDECIMAL && same_sign && field->decimals == column->scale;
		case SOURCE_FLOAT:
			return code == MYSQL_TYPE_FLOAT;
		case SOURCE_DOUBLE:
			return code == MYSQL_TYPE_DOUBLE;
		case SOURCE_BIT:
			return code == MYSQL_TYPE_BIT && field->length == column->precision;
		case SOURCE_DATE:
			return code == MYSQL_TYPE_DATE || code == MYSQL_TYPE_NEWDATE;
		case SOURCE_DATETIME:
			return code == MYSQL_TYPE_DATETIME && field->decimals == column->scale;
		case SOURCE_TIMESTAMP:
			return code == MYSQL_TYPE_TIMESTAMP && field->decimals == column->scale;
		case SOURCE_TIME:
			return code == MYSQL_TYPE_TIME && field->decimals == column->scale;
		case SOURCE_YEAR:
			return code == MYSQL_TYPE_YEAR;
		case SOURCE_CHAR:
			return code == MYSQL_TYPE_STRING && (field->flags & (FLAG_ENUM | FLAG_SET)) == 0 && !binary &&
				same_text && field->length == column->octets;
		case SOURCE_BINARY:
			return code == MYSQL_TYPE_STRING && (field->flags & (FLAG_ENUM | FLAG_SET)) == 0 && binary &&
				field->length == column->octets;
		case SOURCE_VARCHAR:
			return code == MYSQL_TYPE_VAR_STRING && !binary && same_text && field->length == column->octets;
		case SOURCE_VARBINARY:
			return code == MYSQL_TYPE_VAR_STRING && binary && field->length == column->octets;
		case SOURCE_TEXT:
			return (code == MYSQL_TYPE_BLOB || code == MYSQL_TYPE_TINY_BLOB || code == MYSQL_TYPE_MEDIUM_BLOB ||
					code == MYSQL_TYPE_LONG_BLOB) && !binary && same_text;
		case SOURCE_BLOB:
			return (code == MYSQL_TYPE_BLOB || code == MYSQL_TYPE_TINY_BLOB || code == MYSQL_TYPE_MEDIUM_BLOB ||
					code == MYSQL_TYPE_LONG_BLOB) && binary;
		case SOURCE_ENUM:
			return code == MYSQL_TYPE_STRING && (field->flags & FLAG_ENUM) != 0 && same_text;
		case SOURCE_SET:
			return code == MYSQL_TYPE_STRING && (field->flags & FLAG_SET) != 0 && same_text;
		case SOURCE_JSON:
			return code == TYPE_JSON;
		case SOURCE_GEOMETRY:
			return code == MYSQL_TYPE_GEOMETRY;
		case SOURCE_VECTOR:

			/* Selected as binary string: see capstan_wire_append_select_list. */
			return (code == MYSQL_TYPE_VAR_STRING || code == MYSQL_TYPE_BLOB || code == MYSQL_TYPE_MEDIUM_BLOB ||
					code == MYSQL_TYPE_LONG_BLOB) && binary;
		case SOURCE_OTHER:
			break;
	}
	return false;
}

static void
set_bytes_bind(SourceCursor *cursor, CursorColumn *c, MYSQL_BIND *bind, unsigned long size)
{
	bind->buffer_type = MYSQL_TYPE_BLOB;
	c->buffer = MemoryContextAlloc(cursor->context, size);
	bind->buffer = c->buffer;
	bind->buffer_length = size;
}

static void
set_bind(SourceCursor *cursor, CursorColumn *c, MYSQL_BIND *bind)
{
	bind->length = &c->length;
	bind->is_null = &c->is_null;
	bind->error = &c->truncated;
	bind->is_unsigned = c->column->is_unsigned;
	bind->buffer = &c->fixed;
	switch (c->column->type)
	{
		case SOURCE_TINYINT:
			bind->buffer_type = MYSQL_TYPE_TINY;
			bind->buffer_length = 1;
			break;
		case SOURCE_YEAR:
			bind->is_unsigned = true;
			/* FALLTHROUGH */
		case SOURCE_SMALLINT:
			bind->buffer_type = MYSQL_TYPE_SHORT;
			bind->buffer_length = 2;
			break;
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
			bind->buffer_type = MYSQL_TYPE_LONG;
			bind->buffer_length = 4;
			break;
		case SOURCE_BIGINT:
			bind->buffer_type = MYSQL_TYPE_LONGLONG;
			bind->buffer_length = 8;
			break;
		case SOURCE_FLOAT:
			bind->buffer_type = MYSQL_TYPE_FLOAT;
			bind->buffer_length = 4;
			break;
		case SOURCE_DOUBLE:
			bind->buffer_type = MYSQL_TYPE_DOUBLE;
			bind->buffer_length = 8;
			break;
		case SOURCE_DATE:
			bind->buffer_type = MYSQL_TYPE_DATE;
			bind->buffer_length = sizeof(MYSQL_TIME);
			break;
		case SOURCE_DATETIME:
		case SOURCE_TIMESTAMP:
			bind->buffer_type = MYSQL_TYPE_DATETIME;
			bind->buffer_length = sizeof(MYSQL_TIME);
			break;
		case SOURCE_TIME:
			bind->buffer_type = MYSQL_TYPE_TIME;
			bind->buffer_length = sizeof(MYSQL_TIME);
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			/* The longest value fits; one byte more for a final NUL of the library's. */
			set_bytes_bind(cursor, c, bind, c->column->octets + 1);
			break;
		default:
			set_bytes_bind(cursor, c, bind, FIRST_BUFFER_SIZE);
			break;
	}
}

static void
check_fields(SourceCursor *cursor)
{
	MYSQL_RES  *res = mysql_stmt_result_metadata(cursor->stmt);
	int			nfields = res != NULL ? (int) mysql_num_fields(res) : 0;
	int			wrong = -1;
	int			code = 0;

	for (int i = 0; i < nfields && i < cursor->ncolumns && wrong < 0; i++)
	{
		MYSQL_FIELD *field = mysql_fetch_field_direct(res, i);

		if (!field_matches(field, cursor->columns[i].column))
		{
			wrong = i;
			code = (int) field->type;
		}
	}
	if (res != NULL)
		mysql_free_result(res);
	if (nfields != cursor->ncolumns)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("a query on source \"%s\" has %d columns instead of %d",
						cursor->conn->server_name, nfields, cursor->ncolumns)));
	if (wrong >= 0)
	{
		const SourceColumn *column = cursor->columns[wrong].column;
		StrBuf		type;

		capstan_strbuf_init(&type);
		capstan_source_column_type(column, &type);
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("column \"%s\" on source \"%s\" is not what it was", column->name, cursor->conn->server_name),
				 errdetail("It was captured as %s; the source now sends type code %d.", type.data, code),
				 errhint("The table's definition has changed: copy it again.")));
	}
}

static void
start_statement(SourceCursor *cursor, const char *sql)
{
	MYSQL_STMT *stmt = mysql_stmt_init(cursor->conn->mysql);

	if (stmt == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	cursor->stmt = stmt;
	cursor->conn->stmt = stmt;
	capstan_wire_begin_blocking(cursor->conn);
	capstan_wire_expect(cursor->conn, MOST_HEADER_BYTES);
	if (mysql_stmt_prepare(stmt, sql, strlen(sql)) != 0)
		raise_statement(cursor);
	check_fields(cursor);
	if (mysql_stmt_bind_result(stmt, cursor->binds) != 0)
		raise_statement(cursor);
	if (mysql_stmt_execute(stmt) != 0)
		raise_statement(cursor);
	capstan_wire_expect(cursor->conn, 0);
	capstan_wire_end_blocking();
}

SourceCursor *
capstan_wire_open_cursor(SourceConn *conn, const char *sql, const SourceColumn *const *columns, int ncolumns)
{
	MemoryContext context;
	SourceCursor *cursor;

	capstan_wire_check_idle(conn);
	context = AllocSetContextCreate(conn->context, "capstan source cursor", ALLOCSET_DEFAULT_SIZES);
	cursor = MemoryContextAllocZero(context, sizeof(SourceCursor));
	cursor->context = context;
	cursor->conn = conn;
	cursor->ncolumns = ncolumns;
	cursor->columns = MemoryContextAllocZero(context, sizeof(CursorColumn) * Max(ncolumns, 1));
	cursor->binds = MemoryContextAllocZero(context, sizeof(MYSQL_BIND) * Max(ncolumns, 1));
	for (int i = 0; i < ncolumns; i++)
	{
		if (columns[i]->type == SOURCE_OTHER)
			elog(ERROR, "column \"%s\" of an unsupported type in a cursor", columns[i]->name);
		cursor->columns[i].column = columns[i];
		set_bind(cursor, &cursor->columns[i], &cursor->binds[i]);
	}
	conn->cursor = cursor;
	start_statement(cursor, sql);
	return cursor;
}

/* Civil date to days since 1970-01-01 (proleptic Gregorian), integers only. */
static int64
days_since_epoch(int year, int month, int day)
{
	int64		y = year - (month <= 2 ? 1 : 0);
	int64		era = (y >= 0 ? y : y - 399) / 400;
	int64		year_of_era = y - era * 400;
	int64		day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	int64		day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

	return era * 146097 + day_of_era - 719468;
}

static int64
timestamp_micros(const MYSQL_TIME *t)
{
	int64		seconds;

	if (t->year == 0 && t->month == 0 && t->day == 0)
		return 0;
	seconds = days_since_epoch(t->year, t->month, t->day) * 86400 + t->hour * 3600 + t->minute * 60 + t->second;
	return seconds * INT64CONST(1000000) + (int64) t->second_part;
}

static int64
time_micros(const MYSQL_TIME *t)
{
	int64		seconds = ((int64) t->day * 24 + t->hour) * 3600 + t->minute * 60 + t->second;
	int64		micros = seconds * INT64CONST(1000000) + (int64) t->second_part;

	return t->neg ? -micros : micros;
}

static void
raise_value(SourceCursor *cursor, CursorColumn *c, const char *what)
{
	capstan_wire_mark_lost(cursor->conn);
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_VALUE),
			 errmsg("a value of column \"%s\" on source \"%s\" %s", c->column->name, cursor->conn->server_name, what)));
}

/*
 * The server gives a document whose text is longer than its max_allowed_packet as an empty text, which no document has, and a mere
 * warning.  A document may be inserted and be too long to be read: its binary form is often shorter, and the setting may have been lower since.
 */
static void
check_json(SourceCursor *cursor, CursorColumn *c)
{
	if (c->length > 0)
		return;
	capstan_wire_mark_lost(cursor->conn);
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_VALUE),
			 errmsg("the text of a JSON document in column \"%s\" is longer than source \"%s\" sends", c->column->name, cursor->conn->server_name),
			 errdetail("Its max_allowed_packet does not suffice."),
			 errhint("SET PERSIST max_allowed_packet = 1073741824 on the source; then call capstan.resume_pipeline().")));
}

/*
 * The text in row.h's form: the server pads ZEROFILL columns, the binary log does not.
 */
static void
set_decimal(SourceCursor *cursor, CursorColumn *c, char *text, unsigned long length, SourceValue *value)
{
	char	   *end = text + length;
	char	   *digits = text;
	char	   *point;
	bool		negative = false;
	bool		zero = true;

	if (digits < end && *digits == '-')
	{
		negative = true;
		digits++;
	}
	point = memchr(digits, '.', end - digits);
	for (char *p = digits; p < end; p++)
	{
		if (p == point)
			continue;
		if (*p < '0' || *p > '9')
			raise_value(cursor, c, "is no decimal number");
		if (*p != '0')
			zero = false;
	}
	if (digits == end || digits == point || (point != NULL ? end - point - 1 : 0) != c->column->scale)
		raise_value(cursor, c, "has not the digits that its type says");
	while (digits + 1 < (point != NULL ? point : end) && *digits == '0')
		digits++;
	/* There is room for the sign: it stood there, or a zero did. */
	if (negative && !zero)
		*--digits = '-';
	value->kind = VALUE_DECIMAL;
	value->u.bytes.data = digits;
	value->u.bytes.length = end - digits;
}

static void
set_datetime(const MYSQL_TIME *t, SourceValue *value)
{
	value->kind = VALUE_DATETIME;
	value->u.datetime.year = t->year;
	value->u.datetime.month = t->month;
	value->u.datetime.day = t->day;
	value->u.datetime.hour = t->hour;
	value->u.datetime.minute = t->minute;
	value->u.datetime.second = t->second;
	value->u.datetime.microsecond = t->second_part;
}

/* Bytes to what is `bytes` in the value, lengthened to the column's fixed size if it has one. */
static void
set_bytes(SourceCursor *cursor, CursorColumn *c, char *data, SourceValue *value)
{
	unsigned long length = c->length;

	value->kind = VALUE_BYTES;
	switch (c->column->type)
	{
		case SOURCE_DECIMAL:
			set_decimal(cursor, c, data, length, value);
			return;
		case SOURCE_BIT:
			if (length != (unsigned long) (c->column->precision + 7) / 8)
				raise_value(cursor, c, "has not the bits that its type says");
			value->kind = VALUE_BITS;
			break;
		case SOURCE_BINARY:
			if (length < c->column->octets)
			{
				memset(data + length, 0, c->column->octets - length);
				length = c->column->octets;
			}
			break;
		case SOURCE_JSON:
			check_json(cursor, c);
			value->kind = VALUE_JSON;
			break;
		default:
			break;
	}
	value->u.bytes.data = data;
	value->u.bytes.length = length;
}

static void
set_value(SourceCursor *cursor, CursorColumn *c, SourceValue *value)
{
	bool		is_unsigned = c->column->is_unsigned;

	if (c->is_null)
	{
		value->kind = VALUE_NULL;
		return;
	}
	switch (c->column->type)
	{
		case SOURCE_TINYINT:
			value->u.integer = is_unsigned ? (int64) (uint8) c->fixed.tiny : c->fixed.tiny;
			cursor->bytes += 1;
			break;
		case SOURCE_SMALLINT:
			value->u.integer = is_unsigned ? (int64) (uint16) c->fixed.small : c->fixed.small;
			cursor->bytes += 2;
			break;
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
			value->u.integer = is_unsigned ? (int64) (uint32) c->fixed.medium : c->fixed.medium;
			cursor->bytes += 4;
			break;
		case SOURCE_BIGINT:
			value->u.integer = c->fixed.big;
			cursor->bytes += 8;
			break;
		case SOURCE_YEAR:
			value->kind = VALUE_INT;
			value->u.integer = (uint16) c->fixed.small;
			cursor->bytes += 2;
			return;
		case SOURCE_FLOAT:
			value->kind = VALUE_FLOAT;
			value->u.real32 = c->fixed.real32;
			cursor->bytes += 4;
			return;
		case SOURCE_DOUBLE:
			value->kind = VALUE_DOUBLE;
			value->u.real64 = c->fixed.real64;
			cursor->bytes += 8;
			return;
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			set_datetime(&c->fixed.time, value);
			cursor->bytes += 8;
			return;
		case SOURCE_TIMESTAMP:
			value->kind = VALUE_TIMESTAMP;
			value->u.integer = timestamp_micros(&c->fixed.time);
			cursor->bytes += 8;
			return;
		case SOURCE_TIME:
			value->kind = VALUE_TIME;
			value->u.integer = time_micros(&c->fixed.time);
			cursor->bytes += 8;
			return;
		default:
			cursor->bytes += c->length;
			set_bytes(cursor, c, c->long_buffer != NULL ? c->long_buffer : c->buffer, value);
			return;
	}
	/* u.integer and u.uinteger are the same bits. */
	value->kind = is_unsigned ? VALUE_UINT : VALUE_INT;
}

/* A value did not fit: makes room and reads it again, whole. */
static void
fetch_long_value(SourceCursor *cursor, int i)
{
	CursorColumn *c = &cursor->columns[i];
	MYSQL_BIND *bind = &cursor->binds[i];
	unsigned long length = c->length;
	unsigned long size = length + 1;
	MYSQL_BIND	whole;
	unsigned long whole_length = 0;
	WireBool	is_null = false;
	WireBool	truncated = false;

	if (length > LONGEST_VALUE)
		raise_value(cursor, c, "is longer than 1 GB");
	if (size <= KEPT_BUFFER_SIZE)
	{
		unsigned long kept = bind->buffer_length;

		while (kept < size)
			kept *= 2;
		pfree(c->buffer);
		set_bytes_bind(cursor, c, bind, kept);
		cursor->rebind = true;
	}
	else
		c->long_buffer = MemoryContextAllocHuge(cursor->context, size);

	memset(&whole, 0, sizeof(whole));
	whole.buffer_type = MYSQL_TYPE_BLOB;
	whole.buffer = c->long_buffer != NULL ? c->long_buffer : c->buffer;
	whole.buffer_length = size;
	whole.length = &whole_length;
	whole.is_null = &is_null;
	whole.error = &truncated;
	if (mysql_stmt_fetch_column(cursor->stmt, &whole, i, 0) != 0)
		raise_statement(cursor);
	if (is_null || truncated || whole_length != length)
		elog(ERROR, "the client library gave another value the second time");
	c->length = length;
}

bool
capstan_wire_fetch(SourceCursor *cursor, SourceValue *values)
{
	bool		large = false;
	int			rc;

	CHECK_FOR_INTERRUPTS();
	if (cursor->ended)
		return false;
	for (int i = 0; i < cursor->ncolumns; i++)
	{
		if (cursor->columns[i].long_buffer != NULL)
		{
			pfree(cursor->columns[i].long_buffer);
			cursor->columns[i].long_buffer = NULL;
		}
	}
	if (cursor->rebind)
	{
		if (mysql_stmt_bind_result(cursor->stmt, cursor->binds) != 0)
			raise_statement(cursor);
		cursor->rebind = false;
	}

	capstan_wire_begin_blocking(cursor->conn);
	rc = mysql_stmt_fetch(cursor->stmt);
	capstan_wire_end_blocking();
	if (rc == MYSQL_NO_DATA)
	{
		/* The library says this only for the packet that ends a result; make sure that it has no error in hand. */
		if (mysql_stmt_errno(cursor->stmt) != 0 || mysql_errno(cursor->conn->mysql) != 0)
			raise_statement(cursor);
		cursor->ended = true;
		return false;
	}
	if (rc == FETCH_MALFORMED)
	{
		capstan_wire_mark_lost(cursor->conn);
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("source \"%s\" sent a malformed row", cursor->conn->server_name)));
	}
	if (rc != 0 && rc != MYSQL_DATA_TRUNCATED)
		raise_statement(cursor);

	cursor->nrows++;
	for (int i = 0; i < cursor->ncolumns; i++)
	{
		CursorColumn *c = &cursor->columns[i];

		if (!c->is_null && c->buffer != NULL && c->length > cursor->binds[i].buffer_length)
			fetch_long_value(cursor, i);
		else if (!c->is_null && rc == MYSQL_DATA_TRUNCATED && c->truncated)
			raise_value(cursor, c, "does not fit its type");
		set_value(cursor, c, &values[i]);
		large = large || c->long_buffer != NULL;
	}
	/* what is long was copied out of the library's buffer */
	if (large)
		capstan_wire_forget_packet(cursor->conn);
	return true;
}

uint64_t
capstan_wire_cursor_bytes(SourceCursor *cursor)
{
	return cursor->bytes;
}

void
capstan_wire_close_cursor(SourceCursor *cursor)
{
	SourceConn *conn = cursor->conn;
	MYSQL_STMT *stmt = cursor->stmt;

	/* Rows not fetched must be read all the same before the connection is good for anything else. */
	capstan_wire_begin_blocking(conn);
	if (mysql_stmt_free_result(stmt) != 0)
		raise_statement(cursor);
	conn->cursor = NULL;
	conn->stmt = NULL;
	if (mysql_stmt_close(stmt) != 0)
		capstan_wire_mark_lost(conn);
	capstan_wire_end_blocking();
	MemoryContextDelete(cursor->context);
}

/* "`a`, `b`, ..." */
void
capstan_wire_append_select_list(StringInfo out, const SourceTable *table, const int *indexes, int nindexes)
{
	int			n = indexes != NULL ? nindexes : table->ncolumns;

	for (int i = 0; i < n; i++)
	{
		const SourceColumn *column = &table->columns[indexes != NULL ? indexes[i] : i];
		char	   *name = capstan_wire_quote_identifier(column->name);

		if (i > 0)
			appendStringInfoString(out, ", ");
		/* Connector/C does not know the type, and would call a null pointer to read one. */
		if (column->type == SOURCE_VECTOR)
			appendStringInfo(out, "CAST(%s AS BINARY)", name);
		else
			appendStringInfoString(out, name);
		pfree(name);
	}
}
