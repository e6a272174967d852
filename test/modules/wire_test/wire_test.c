/*
 * wire_test.c
 *		SQL functions that show what wire/ reads, for the tests.
 *
 * Built with the sources of wire/ and of what it needs, not with the whole extension; never installed for users.
 *
 * Options come as one text: 'host=127.0.0.1 port=3306 user=u password=p ssl_mode=required ssl_ca=/x read_timeout=5'.
 * Values are shown as kind and content, so that a test sees the SourceValue and not somebody's conversion:
 *
 *	   int 1 | uint 1 | float 3f800000 | dec 1.00 | bits 0a | dt 2024-01-02 03:04:05.000006 | ts 1 | time -1 | bytes 6162 | json {} | null
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/crc32.h"
#include "binlog/binlog.h"
#include "compat.h"
#include "wire/binlogstream.h"
#include "wire/wire.h"

PG_MODULE_MAGIC;

static SourceOptions *
parse_options(text *arg)
{
	SourceOptions *options = palloc0(sizeof(SourceOptions));
	char	   *rest = text_to_cstring(arg);
	char	   *item;

	options->server_name = "test";
	options->port = 3306;
	options->ssl_mode = SSL_MODE_OPTION_PREFERRED;
	options->connect_timeout_s = 5;
	options->read_timeout_s = 30;
	while ((item = strsep(&rest, " ")) != NULL)
	{
		char	   *value = strchr(item, '=');

		if (value == NULL)
			continue;
		*value++ = '\0';
		if (strcmp(item, "host") == 0)
			options->hosts = value;
		else if (strcmp(item, "port") == 0)
			options->port = atoi(value);
		else if (strcmp(item, "user") == 0)
			options->user = value;
		else if (strcmp(item, "password") == 0)
			options->password = value;
		else if (strcmp(item, "ssl_ca") == 0)
			options->ssl_ca = value;
		else if (strcmp(item, "ssl_cert") == 0)
			options->ssl_cert = value;
		else if (strcmp(item, "ssl_key") == 0)
			options->ssl_key = value;
		else if (strcmp(item, "read_timeout") == 0)
			options->read_timeout_s = atoi(value);
		else if (strcmp(item, "connect_timeout") == 0)
			options->connect_timeout_s = atoi(value);
		else if (strcmp(item, "ssl_mode") == 0)
		{
			static const char *const names[] = {"disabled", "preferred", "required", "verify_ca", "verify_identity"};

			for (int i = 0; i < (int) lengthof(names); i++)
				if (strcmp(names[i], value) == 0)
					options->ssl_mode = (SourceSslMode) i;
		}
		else
			elog(ERROR, "unknown option \"%s\"", item);
	}
	return options;
}

static void
append_hex(StringInfo out, SourceBytes bytes)
{
	for (size_t i = 0; i < bytes.length; i++)
		appendStringInfo(out, "%02x", (unsigned char) bytes.data[i]);
}

static char *
show_value(const SourceValue *value)
{
	StringInfoData out;

	initStringInfo(&out);
	switch (value->kind)
	{
		case VALUE_NULL:
			appendStringInfoString(&out, "null");
			break;
		case VALUE_ABSENT:
			appendStringInfoString(&out, "absent");
			break;
		case VALUE_JSON_DIFFS:
			appendStringInfoString(&out, "differences");
			break;
		case VALUE_INT:
			appendStringInfo(&out, "int " INT64_FORMAT, (int64) value->u.integer);
			break;
		case VALUE_UINT:
			appendStringInfo(&out, "uint " UINT64_FORMAT, (uint64) value->u.uinteger);
			break;
		case VALUE_FLOAT:
			{
				uint32		bits;

				memcpy(&bits, &value->u.real32, sizeof(bits));
				appendStringInfo(&out, "float %08x", bits);
			}
			break;
		case VALUE_DOUBLE:
			{
				uint64		bits;

				memcpy(&bits, &value->u.real64, sizeof(bits));
				appendStringInfo(&out, "double %08x%08x", (uint32) (bits >> 32), (uint32) bits);
			}
			break;
		case VALUE_DECIMAL:
			appendStringInfo(&out, "dec %.*s", (int) value->u.bytes.length, value->u.bytes.data);
			break;
		case VALUE_BITS:
			appendStringInfoString(&out, "bits ");
			append_hex(&out, value->u.bytes);
			break;
		case VALUE_DATETIME:
			appendStringInfo(&out, "dt %04d-%02d-%02d %02d:%02d:%02d.%06u",
							 value->u.datetime.year, value->u.datetime.month, value->u.datetime.day,
							 value->u.datetime.hour, value->u.datetime.minute, value->u.datetime.second,
							 value->u.datetime.microsecond);
			break;
		case VALUE_TIMESTAMP:
			appendStringInfo(&out, "ts " INT64_FORMAT, (int64) value->u.integer);
			break;
		case VALUE_TIME:
			appendStringInfo(&out, "time " INT64_FORMAT, (int64) value->u.integer);
			break;
		case VALUE_BYTES:
			if (value->u.bytes.length > 200)
				appendStringInfo(&out, "bytes #%zu hash %u", value->u.bytes.length,
								 DatumGetUInt32(hash_any((const unsigned char *) value->u.bytes.data,
														 (int) value->u.bytes.length)));
			else
			{
				appendStringInfoString(&out, "bytes ");
				append_hex(&out, value->u.bytes);
			}
			break;
		case VALUE_LABEL:
			appendStringInfo(&out, "label " UINT64_FORMAT, (uint64) value->u.uinteger);
			break;
		case VALUE_JSON:
			appendStringInfo(&out, "json %.*s", (int) value->u.bytes.length, value->u.bytes.data);
			break;
	}
	return out.data;
}

static char *
show_table(const SourceTableInfo *info)
{
	StrBuf		out;

	capstan_strbuf_init(&out);
	capstan_source_table_signature(&info->table, &out);
	return psprintf("%s.%s [%s]%s%s%s%s: %s", info->table.schema_name, info->table.table_name, info->engine,
					info->view ? " view" : "",
					info->cascade_child ? " cascade " : "", info->cascade_child ? info->cascade_constraint : "",
					info->has_unsupported ? " unsupported" : "", out.data != NULL ? out.data : "");
}

static void
put_line(ReturnSetInfo *rsinfo, const char *line)
{
	Datum		values[1];
	bool		nulls[1] = {false};

	values[0] = CStringGetTextDatum(line);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static ReturnSetInfo *
begin_lines(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);
	TupleDesc	desc = CreateTemplateTupleDesc(1);

	TupleDescInitEntry(desc, 1, "line", TEXTOID, -1, 0);
	rsinfo->returnMode = SFRM_Materialize;
	rsinfo->setDesc = desc;
	rsinfo->setResult = tuplestore_begin_heap(true, false, work_mem);
	MemoryContextSwitchTo(old);
	return rsinfo;
}

/* wire_info(options): what is known of a connection. */
PG_FUNCTION_INFO_V1(wire_info);
PGDLLEXPORT Datum
wire_info(PG_FUNCTION_ARGS)
{
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	char	   *line = psprintf("uuid %d version %d tls %d host %s id %d",
								(int) strlen(capstan_wire_server_uuid(conn)), capstan_wire_server_version_num(conn),
								capstan_wire_is_tls(conn), capstan_wire_host(conn), capstan_wire_thread_id(conn) > 0);

	capstan_wire_close(conn);
	PG_RETURN_TEXT_P(cstring_to_text(line));
}

/* wire_query(options, sql): rows of text, columns parted by "|". */
PG_FUNCTION_INFO_V1(wire_query);
PGDLLEXPORT Datum
wire_query(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	SourceResult *result = capstan_wire_query(conn, text_to_cstring(PG_GETARG_TEXT_PP(1)), NULL);

	for (int i = 0; i < result->nrows; i++)
	{
		StringInfoData line;

		initStringInfo(&line);
		for (int j = 0; j < result->ncolumns; j++)
			appendStringInfo(&line, "%s%s", j > 0 ? "|" : "", result->rows[i][j] != NULL ? result->rows[i][j] : "NULL");
		put_line(rsinfo, line.data);
	}
	capstan_wire_close(conn);
	return (Datum) 0;
}

/* wire_tables(options, patterns text[]): descriptions, then the patterns that matched nothing. */
PG_FUNCTION_INFO_V1(wire_tables);
PGDLLEXPORT Datum
wire_tables(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	Datum	   *elements;
	int			n;
	List	   *patterns = NIL;
	List	   *unmatched;
	List	   *infos;
	ListCell   *lc;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
		patterns = lappend(patterns, TextDatumGetCString(elements[i]));
	infos = capstan_wire_list_tables(conn, patterns, &unmatched);
	foreach(lc, infos)
		put_line(rsinfo, show_table(lfirst(lc)));
	foreach(lc, unmatched)
		put_line(rsinfo, psprintf("unmatched: %s", (char *) lfirst(lc)));
	capstan_wire_close(conn);
	return (Datum) 0;
}

/*
 * wire_rows(options, schema, table, tail): the table's rows as SourceValues, one line each.  Of a long result only
 * the last line is kept and the count.  sleep_ms: pause after each row, so that a test can do harm in between.
 */
PG_FUNCTION_INFO_V1(wire_rows);
PGDLLEXPORT Datum
wire_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	char	   *schema_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *table_name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	char	   *tail = text_to_cstring(PG_GETARG_TEXT_PP(3));
	bool		quiet = PG_GETARG_BOOL(4);
	SourceTableInfo *info = capstan_wire_describe_table(conn, schema_name, table_name);
	const SourceColumn **columns;
	SourceValue *values;
	StringInfoData sql;
	SourceCursor *cursor;
	uint64		nrows = 0;

	if (info == NULL)
		elog(ERROR, "no such table");
	columns = palloc(sizeof(SourceColumn *) * info->table.ncolumns);
	for (int i = 0; i < info->table.ncolumns; i++)
		columns[i] = &info->table.columns[i];
	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	capstan_wire_append_select_list(&sql, &info->table, NULL, 0);
	appendStringInfo(&sql, " FROM %s.%s %s", capstan_wire_quote_identifier(schema_name),
					 capstan_wire_quote_identifier(table_name), tail);
	values = palloc0(sizeof(SourceValue) * info->table.ncolumns);
	cursor = capstan_wire_open_cursor(conn, sql.data, columns, info->table.ncolumns);
	while (capstan_wire_fetch(cursor, values))
	{
		nrows++;
		if (!quiet)
		{
			StringInfoData line;

			initStringInfo(&line);
			for (int i = 0; i < info->table.ncolumns; i++)
				appendStringInfo(&line, "%s%s", i > 0 ? " | " : "", show_value(&values[i]));
			put_line(rsinfo, line.data);
		}
	}
	if (quiet)
		put_line(rsinfo, psprintf("rows " UINT64_FORMAT " bytes " UINT64_FORMAT, nrows,
								  (uint64) capstan_wire_cursor_bytes(cursor)));
	capstan_wire_close_cursor(cursor);
	/* The connection is good for more. */
	put_line(rsinfo, psprintf("after: %s", capstan_wire_query_value(conn, "SELECT 'ok'")));
	capstan_wire_close(conn);
	return (Datum) 0;
}

static GtidSet *
parse_gtids(char *given)
{
	CapstanError error;
	GtidSet    *set = capstan_gtidset_parse(given, strlen(given), &error);

	if (set == NULL)
		elog(ERROR, "%s", error.message);
	return set;
}

/*
 * wire_stream(options, gtid_set, uuid, heartbeat_ms, stop): events until `stop` heartbeats have come, one line each: type code and whether
 * its checksum is right.  verbose = false: only the counts.
 */
PG_FUNCTION_INFO_V1(wire_stream);
PGDLLEXPORT Datum
wire_stream(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	char	   *gtids = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *uuid = text_to_cstring(PG_GETARG_TEXT_PP(2));
	int			heartbeat_ms = PG_GETARG_INT32(3);
	int			stop = PG_GETARG_INT32(4);
	bool		verbose = PG_GETARG_BOOL(5);
	BinlogStream *stream = capstan_binlogstream_open(conn, parse_gtids(gtids), 0, uuid, heartbeat_ms);
	uint64		nevents = 0;
	uint64		nbytes = 0;
	uint64		nwrong = 0;
	int			nheartbeats = 0;

	while (nheartbeats < stop)
	{
		const uint8_t *data;
		size_t		length;
		bool		right;

		if (!capstan_binlogstream_pending(stream))
			capstan_binlogstream_wait(stream, 60000, PG_WAIT_EXTENSION);
		capstan_binlogstream_fetch(stream, &data, &length);
		if (length < 19)
			elog(ERROR, "event of %zu bytes", length);
		right = length >= 23 &&
			capstan_crc32(data, length - 4) == (data[length - 4] | data[length - 3] << 8 | data[length - 2] << 16 |
												(uint32) data[length - 1] << 24);
		nevents++;
		nbytes += length;
		if (!right)
			nwrong++;
		/* HEARTBEAT_LOG_EVENT and its second version */
		if (data[4] == 27 || data[4] == 41)
			nheartbeats++;
		if (verbose)
			put_line(rsinfo, psprintf("type %d %s", data[4], right ? "right" : "wrong"));
	}
	put_line(rsinfo, psprintf("events " UINT64_FORMAT " bytes " UINT64_FORMAT " wrong " UINT64_FORMAT,
							  nevents, nbytes, nwrong));
	capstan_binlogstream_close(stream);
	return (Datum) 0;
}

/*
 * wire_literals(options, schema, table): is the literal of each value of the (one) key column greater than just the values
 * before it in the source's order, and equal to itself alone?  One line for each that is not, and the count of values.
 */
PG_FUNCTION_INFO_V1(wire_literals);
PGDLLEXPORT Datum
wire_literals(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	char	   *schema_name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *table_name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	SourceTableInfo *info = capstan_wire_describe_table(conn, schema_name, table_name);
	const SourceColumn *column;
	char	   *name;
	char	   *from;
	List	   *literals = NIL;
	SourceValue value;
	SourceCursor *cursor;
	ListCell   *lc;
	int			n;
	int			i = 0;

	if (info == NULL || info->table.nkey != 1)
		elog(ERROR, "no such table, or not one key column");
	column = &info->table.columns[info->table.key[0]];
	name = capstan_wire_quote_identifier(column->name);
	from = psprintf("FROM %s.%s", capstan_wire_quote_identifier(schema_name), capstan_wire_quote_identifier(table_name));
	cursor = capstan_wire_open_cursor(conn, psprintf("SELECT %s %s ORDER BY %s", name, from, name), &column, 1);
	while (capstan_wire_fetch(cursor, &value))
	{
		StringInfoData literal;

		initStringInfo(&literal);
		capstan_wire_append_literal(&literal, column, &value);
		literals = lappend(literals, literal.data);
	}
	capstan_wire_close_cursor(cursor);
	n = list_length(literals);
	foreach(lc, literals)
	{
		char	   *literal = lfirst(lc);
		char	   *counts = capstan_wire_query_value(conn, psprintf("SELECT CONCAT_WS(' ', SUM(%s > %s), SUM(%s = %s), "
																	"(SELECT COUNT(*) %s WHERE %s > %s), (SELECT COUNT(*) %s WHERE %s = %s)) %s",
																	name, literal, name, literal,
																	from, name, literal, from, name, literal, from));
		char	   *right = psprintf("%d 1 %d 1", n - 1 - i, n - 1 - i);
		SourceResult *plan = capstan_wire_query(conn, psprintf("EXPLAIN FORMAT=TRADITIONAL SELECT %s %s FORCE INDEX (PRIMARY) WHERE %s > %s ORDER BY %s",
															   name, from, name, literal, name), NULL);

		/* "type" is the fifth column. */
		if (strcmp(counts, right) != 0 || (i < n - 1 && (plan->rows[0][4] == NULL || strcmp(plan->rows[0][4], "range") != 0)))
			put_line(rsinfo, psprintf("%s: %s instead of %s, %s", literal, counts, right,
									  plan->rows[0][4] != NULL ? plan->rows[0][4] : "no rows"));
		i++;
	}
	put_line(rsinfo, psprintf("values %d", n));
	capstan_wire_close(conn);
	return (Datum) 0;
}

/*
 * wire_signatures(options, gtid_set): the signature of each table map from there on, in the order of the log, as
 * "schema.table: signature".
 */
PG_FUNCTION_INFO_V1(wire_signatures);
PGDLLEXPORT Datum
wire_signatures(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceConn *conn = capstan_wire_connect(parse_options(PG_GETARG_TEXT_PP(0)), "test");
	GtidSet    *executed = parse_gtids(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	BinlogStream *stream = capstan_binlogstream_open(conn, executed, 0, "11111111-1111-1111-1111-111111111111", 100);
	BinlogDecoder *decoder = capstan_binlog_create();
	BinlogEvent event = {0};
	int			nheartbeats = 0;

	/* Heartbeats also come while the source skips what is in the set; three in a row mean the end. */
	capstan_binlog_reset(decoder, true);
	while (nheartbeats < 3)
	{
		const uint8_t *data;
		size_t		length;
		CapstanError error;

		capstan_binlogstream_fetch(stream, &data, &length);
		if (!capstan_binlog_decode(decoder, data, length, &event, &error))
			elog(ERROR, "%s", error.message);
		nheartbeats = event.kind == BINLOG_HEARTBEAT ? nheartbeats + 1 : 0;
		if (event.kind == BINLOG_TABLE_MAP)
		{
			StrBuf		out;

			capstan_strbuf_init(&out);
			capstan_source_table_signature(event.u.table, &out);
			put_line(rsinfo, psprintf("%s.%s: %s", event.u.table->schema_name, event.u.table->table_name, out.data));
		}
	}
	capstan_binlogstream_close(stream);
	return (Datum) 0;
}

/* wire_preflight(options, patterns, with_copy): status, name, found, wanted, fix, SQLSTATE. */
PG_FUNCTION_INFO_V1(wire_preflight);
PGDLLEXPORT Datum
wire_preflight(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = begin_lines(fcinfo);
	SourceOptions *options = parse_options(PG_GETARG_TEXT_PP(0));
	SourceConn *conn = capstan_wire_connect(options, "test");
	Datum	   *elements;
	int			n;
	List	   *patterns = NIL;
	List	   *unmatched;
	ListCell   *lc;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
		patterns = lappend(patterns, TextDatumGetCString(elements[i]));
	foreach(lc, capstan_wire_preflight(conn, options, capstan_wire_list_tables(conn, patterns, &unmatched), PG_GETARG_BOOL(2), false))
	{
		PreflightCheck *check = lfirst(lc);
		static const char *const names[] = {"ok", "warning", "error"};

		put_line(rsinfo, psprintf("%s %s: found %s, wanted %s%s%s%s%s", names[check->status], check->name, check->found, check->wanted,
								  check->fix != NULL ? ", fix " : "", check->fix != NULL ? check->fix : "",
								  check->sqlerrcode != 0 ? " " : "",
								  check->sqlerrcode != 0 ? unpack_sql_state(check->sqlerrcode) : ""));
	}
	capstan_wire_close(conn);
	return (Datum) 0;
}
