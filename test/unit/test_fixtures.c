#define _GNU_SOURCE
/*
 * test_fixtures.c
 *		Recorded binary log files against what their server said about them: every value of
 *		every row image (SELECT), every event (SHOW BINLOG EVENTS), the GTIDs.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collation.h"
#include "binlog/statement.h"
#include "fixtures.h"

/* Equal texts, or floating-point numbers ("f...") of equal bits. */
static bool
same_value(const char *got, const char *expected)
{
	double		a;
	double		b;

	if (strcmp(got, expected) == 0)
		return true;
	if (got[0] != 'f' || expected[0] != 'f')
		return false;
	a = strtod(got + 1, NULL);
	b = strtod(expected + 1, NULL);
	return memcmp(&a, &b, sizeof(a)) == 0;
}

static void
compare_change(char *got, char *expected, const char *fixture)
{
	int			column = 0;

	for (;;)
	{
		char	   *g = unit_field(&got, '\t');
		char	   *e = unit_field(&expected, '\t');

		if (g == NULL && e == NULL)
			return;
		if (!CHECK_MSG(g != NULL && e != NULL && same_value(g, e), "%s: field %d: got \"%.200s\", expected \"%.200s\"",
					   fixture, column, g == NULL ? "(end)" : g, e == NULL ? "(end)" : e))
			return;
		column++;
	}
}

/* All changes of a fixture, in order; `partial` events, at least, have JSON differences. */
static void
test_changes(const char *fixture, int at_least, int partial)
{
	char		name[64];
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	size_t		length;
	char	   *expected;
	char	   *rest;
	int			changes = 0;
	StrBuf		line;

	snprintf(name, sizeof(name), "%s.expected", fixture);
	rest = expected = (char *) unit_load(name, &length);
	snprintf(name, sizeof(name), "%s.binlog", fixture);
	fixture_open(&file, name, true);
	capstan_strbuf_init(&line);
	while (fixture_next(&file, &event, &error))
	{
		SourceChange change;
		BinlogNext	next;

		if (event.kind != BINLOG_ROWS)
			continue;
		CHECK(event.u.rows.table != NULL && event.u.rows.full_image);
		partial -= event.u.rows.partial_json;
		CHECK((event.u.rows.row_flags & BINLOG_ROW_FLAG_SQL_FOREIGN_KEY) != 0);
		while ((next = capstan_binlog_next_change(file.decoder, &change, &error)) == BINLOG_CHANGE)
		{
			char	   *wanted = unit_line(&rest);

			CHECK(change.table == event.u.rows.table && change.kind == event.u.rows.kind);
			capstan_strbuf_reset(&line);
			fixture_format_change(&change, &line);
			if (!CHECK_MSG(wanted != NULL, "%s: more changes than expected: %.100s", fixture, line.data))
				break;
			compare_change(line.data, wanted, fixture);
			changes++;
		}
		CHECK_MSG(next == BINLOG_END, "%s: %s", fixture, error.message);
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s: %s", fixture, error.message);
	CHECK_MSG(unit_line(&rest) == NULL, "%s: fewer changes than expected", fixture);
	CHECK_MSG(changes >= at_least, "%s: only %d changes", fixture, changes);
	CHECK_MSG(partial <= 0, "%s: %d too few events with differences", fixture, partial);
	capstan_strbuf_free(&line);
	fixture_close(&file);
	free(expected);
}

static const char *
event_name(const BinlogEvent *event)
{
	switch (event->type_code)
	{
		case 2:
			return "Query";
		case 4:
			return "Rotate";
		case 5:
			return "Intvar";
		case 13:
			return "RAND";
		case 14:
			return "User var";
		case 15:
			return "Format_desc";
		case 16:
			return "Xid";
		case 17:
			return "Begin_load_query";
		case 18:
			return "Execute_load_query";
		case 19:
			return "Table_map";
		case 26:
			return "Incident";
		case 29:
			return "Rows_query";
		case 30:
			return "Write_rows";
		case 31:
			return "Update_rows";
		case 32:
			return "Delete_rows";
		case 33:
			return "Gtid";
		case 34:
			return "Anonymous_Gtid";
		case 35:
			return "Previous_gtids";
		case 38:
			return "XA_prepare";
		case 39:
			return "Update_rows_partial";
		case 40:
			return "Transaction_payload";
		case 42:
			return "Gtid_tagged_log_event";
		default:
			return "?";
	}
}

static void
append_bytes(StrBuf *out, SourceBytes bytes)
{
	capstan_strbuf_append(out, bytes.data, bytes.length);
}

/* The Info column of SHOW BINLOG EVENTS, as far as the event has it. */
static void
format_info(const BinlogEvent *event, StrBuf *out)
{
	char		gtid[CAPSTAN_GTID_TEXT_MAX];

	switch (event->kind)
	{
		case BINLOG_GTID:
			capstan_gtid_format(&event->u.gtid.gtid, gtid);
			capstan_strbuf_printf(out, "SET @@SESSION.GTID_NEXT= '%s'", gtid);
			break;
		case BINLOG_ANONYMOUS_GTID:
			capstan_strbuf_append_str(out, "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'");
			break;
		case BINLOG_INCIDENT:
			capstan_strbuf_printf(out, "#%d (LOST_EVENTS)", event->u.incident.number);
			break;
		case BINLOG_QUERY:
			if (event->u.query.schema.length > 0 && memmem(event->u.query.sql.data, event->u.query.sql.length, " ", 1) != NULL &&
				strncmp(event->u.query.sql.data, "XA ", 3) != 0 && strncmp(event->u.query.sql.data, "SAVEPOINT", 9) != 0)
				capstan_strbuf_printf(out, "use `%.*s`; ", (int) event->u.query.schema.length, event->u.query.schema.data);
			append_bytes(out, event->u.query.sql);
			break;
		case BINLOG_TABLE_MAP:
			capstan_strbuf_printf(out, "table_id: %llu (%s.%s)", (unsigned long long) event->u.table->table_id,
								  event->u.table->schema_name, event->u.table->table_name);
			break;
		case BINLOG_ROWS:
			capstan_strbuf_printf(out, "table_id: %llu flags:%s%s%s", (unsigned long long) event->u.rows.table_id,
								  event->u.rows.statement_end ? " STMT_END_F" : "",
								  (event->u.rows.row_flags & BINLOG_ROW_FLAG_NO_FOREIGN_KEY_CHECKS) != 0 ? " NO_FOREIGN_KEY_CHECKS_F" : "",
								  (event->u.rows.row_flags & BINLOG_ROW_FLAG_SQL_FOREIGN_KEY) != 0 ? " USE_SQL_FOREIGN_KEY_F" : "");
			break;
		case BINLOG_XA_PREPARE:
			capstan_strbuf_printf(out, event->u.xa_prepare.one_phase ? "XA COMMIT %.*s ONE PHASE" : "XA PREPARE %.*s",
								  (int) event->u.xa_prepare.xid.length, event->u.xa_prepare.xid.data);
			break;
		case BINLOG_ROTATE:
			append_bytes(out, event->u.rotate.file);
			capstan_strbuf_printf(out, ";pos=%llu", (unsigned long long) event->u.rotate.position);
			break;
		case BINLOG_ROWS_QUERY:
			capstan_strbuf_append_str(out, "# ");
			append_bytes(out, event->u.query.sql);
			break;
		case BINLOG_PAYLOAD:
			capstan_strbuf_printf(out, "compression='ZSTD', decompressed_size=%llu bytes",
								  (unsigned long long) event->u.payload.inflated_size);
			break;
		default:
			break;
	}
}

/* Positions, types and contents of the events, and all GTIDs together. */
static void
test_event_list(const char *fixture)
{
	char		name[64];
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	size_t		length;
	char	   *expected;
	char	   *gtids;
	char	   *rest;
	GtidSet    *set = capstan_gtidset_create();
	StrBuf		info;
	uint64_t	last_commit = 0;

	snprintf(name, sizeof(name), "%s.events", fixture);
	rest = expected = (char *) unit_load(name, &length);
	snprintf(name, sizeof(name), "%s.gtids", fixture);
	gtids = (char *) unit_load(name, &length);
	snprintf(name, sizeof(name), "%s.binlog", fixture);
	fixture_open(&file, name, strcmp(fixture, "unchecked") != 0);
	capstan_strbuf_init(&info);
	while (fixture_next(&file, &event, &error))
	{
		bool		inner = file.in_payload && event.kind != BINLOG_PAYLOAD;
		char	   *line = unit_line(&rest);
		char	   *type;
		char	   *end;
		char	   *comment;

		if (!CHECK_MSG(line != NULL, "%s: more events than the server lists", fixture))
			break;
		unit_field(&line, '\t');
		type = unit_field(&line, '\t');
		end = unit_field(&line, '\t');
		CHECK_STR(event_name(&event), type);
		CHECK_MSG((inner ? file.payload_end : event.end_position) == strtoull(end, NULL, 10), "%s: end position %s", fixture, end);
		CHECK(event.server_id == 7);
		/* XID numbers are the server's own comments. */
		if ((comment = strstr(line, " /* xid=")) != NULL || (comment = strstr(line, " ;file_id=")) != NULL)
			*comment = '\0';
		capstan_strbuf_reset(&info);
		capstan_strbuf_append(&info, "", 0);
		format_info(&event, &info);
		if (event.kind == BINLOG_QUERY && strchr(info.data, '\n') != NULL)
			*strchr(info.data, '\n') = '\0';
		if (event.kind == BINLOG_IGNORED)
			CHECK(event.type_code < 18);	/* they only prepare the statement that follows */
		else if (event.kind == BINLOG_XID || event.kind == BINLOG_FORMAT || event.kind == BINLOG_PREVIOUS_GTIDS)
			CHECK(info.length == 0);
		else
			CHECK_STR(info.data, line);

		if (event.kind == BINLOG_GTID)
		{
			CHECK(event.u.gtid.immediate_commit_us >= last_commit &&
				  event.u.gtid.immediate_commit_us > UINT64_C(1500000000000000));
			CHECK(event.u.gtid.original_commit_us == event.u.gtid.immediate_commit_us);
			CHECK(event.u.gtid.transaction_length > 100 && event.u.gtid.transaction_length < file.length);
			CHECK(!capstan_gtidset_contains(set, &event.u.gtid.gtid));
			last_commit = event.u.gtid.immediate_commit_us;
			capstan_gtidset_add(set, &event.u.gtid.gtid);
		}
		if (event.kind == BINLOG_PREVIOUS_GTIDS)
		{
			GtidSet    *previous = capstan_gtidset_decode((const uint8_t *) event.u.previous_gtids.data.data,
														  event.u.previous_gtids.data.length, &error);

			CHECK(previous != NULL && capstan_gtidset_is_empty(previous));
			capstan_gtidset_free(previous);
		}
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s: %s", fixture, error.message);
	CHECK_MSG(unit_line(&rest) == NULL, "%s: fewer events than the server lists", fixture);
	capstan_strbuf_reset(&info);
	capstan_gtidset_format(set, &info);
	capstan_strbuf_append_char(&info, '\n');
	CHECK_STR(info.data, gtids);
	capstan_strbuf_free(&info);
	capstan_gtidset_free(set);
	fixture_close(&file);
	free(expected);
	free(gtids);
}

/*
 * Rows that are no full images, and statements with their sql_mode.  The values were written down by
 * hand from the statements in data/generate.pl.
 */
static void
test_partial_rows(void)
{
	static const char *const minimal_rows[] = {
		"update\ta\t1\tABSENT\tABSENT\t6D696E696D616C",
		"delete\ta\t2\tABSENT",
		"insert\ta\t6\tABSENT"
	};

	/*
	 * Differences: applied where the before image is full (see the differences fixture), which it is in the first two
	 * (only the end is compared), else they are handed out.
	 */
	static const char *const partial_rows[] = {
		"70227D\t5",
		"70227D\t5",
		"update\tdocs\t2\tABSENT\tABSENT\tABSENT\tABSENT\tABSENT\tDIFFERENCES\t6",
		"update\tdocs\t2\tABSENT\tABSENT\tABSENT\tABSENT\t5B335D\tDIFFERENCES\tABSENT",
		"update\tdocs\t3\tABSENT\tABSENT\tABSENT\tABSENT\t5B335D\tDIFFERENCES\tABSENT",
		"update\tdocs\t3\tABSENT\tABSENT\tABSENT\tABSENT\tABSENT\tNULL\t7"
	};
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	StrBuf		line;
	int			minimal = 0;
	int			partial = 0;
	int			ansi = 0;
	int			cascaded = 0;

	fixture_open(&file, "transactions.binlog", true);
	capstan_strbuf_init(&line);
	while (fixture_next(&file, &event, &error))
	{
		SourceChange change;
		int			rows = 0;

		if (event.kind == BINLOG_QUERY && event.u.query.sql.length > 8 &&
			memmem(event.u.query.sql.data, event.u.query.sql.length, "\"quoted\"", 8) != NULL)
		{
			Statement	statement;

			CHECK(event.u.query.ansi_quotes && event.u.query.no_backslash_escapes);
			CHECK_STR(capstan_collation_charset(event.u.query.charset), "utf8mb4");
			capstan_statement_parse(event.u.query.sql.data, event.u.query.sql.length, true, true, &statement);
			CHECK(statement.kind == STATEMENT_TABLE_DDL && statement.ntables == 1);
			CHECK_STR(statement.tables[0].table_name, "quoted");
			capstan_statement_free(&statement);
			ansi++;
		}
		else if (event.kind == BINLOG_QUERY)
			CHECK(!event.u.query.ansi_quotes && !event.u.query.no_backslash_escapes);
		if (event.kind != BINLOG_ROWS)
			continue;
		if (strcmp(event.u.rows.table->table_name, "child") == 0 && event.u.rows.kind == CHANGE_DELETE)
			cascaded++;
		while (capstan_binlog_next_change(file.decoder, &change, &error) == BINLOG_CHANGE)
		{
			capstan_strbuf_reset(&line);
			fixture_format_change(&change, &line);
			rows++;
			if (event.u.rows.partial_json)
			{
				CHECK(event.u.rows.full_image == (partial < 2));
				CHECK((strstr(line.data, "ABSENT") == NULL) == event.u.rows.full_image);
				if (CHECK(partial < 6 && line.length >= strlen(partial_rows[partial])))
					CHECK_STR(line.data + line.length - strlen(partial_rows[partial]), partial_rows[partial]);
				partial++;
			}
			else if (!event.u.rows.full_image)
			{
				if (CHECK(minimal < 3))
					CHECK_STR(line.data, minimal_rows[minimal]);
				minimal++;
			}
			else
				CHECK(strstr(line.data, "ABSENT") == NULL);
		}
		CHECK_MSG(error.code == CAPSTAN_OK, "%s", error.message);
		CHECK(rows > 0);
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s", error.message);
	CHECK(minimal == 3);
	CHECK(partial == 6);
	CHECK(ansi == 2);
	CHECK(cascaded == 1);
	capstan_strbuf_free(&line);
	fixture_close(&file);
}

/* Types and events of older servers; the values are those of data/handmade.pl. */
static void
test_handmade(void)
{
	static const char image[] = "\t1\t2024-02-29 23:59:59\t2023-11-14 22:13:20\t123:59:59\t2024-02-29\t74657874";
	static const char *const kinds[] = {"insert", "update", "delete", "insert"};
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	SourceChange change;
	StrBuf		line;
	StrBuf		expected;
	int			changes = 0;

	capstan_strbuf_init(&line);
	capstan_strbuf_init(&expected);
	fixture_open(&file, "handmade.binlog", true);
	while (fixture_next(&file, &event, &error))
	{
		while (event.kind == BINLOG_ROWS && event.u.rows.table != NULL &&
			   capstan_binlog_next_change(file.decoder, &change, &error) == BINLOG_CHANGE)
		{
			capstan_strbuf_reset(&line);
			capstan_strbuf_reset(&expected);
			fixture_format_change(&change, &line);
			if (changes < 4)
				capstan_strbuf_printf(&expected, "%s\told%s%s", kinds[changes], image, changes == 1 ? image : "");
			else
				capstan_strbuf_append_str(&expected, "insert\told\t1\t3\t74\t7575\t767676");
			CHECK_STR(line.data, expected.data);
			changes++;
		}
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s", error.message);
	CHECK(changes == 5 && event.kind == BINLOG_STOP);
	fixture_close(&file);
	capstan_strbuf_free(&line);
	capstan_strbuf_free(&expected);
}

void
test_fixtures(void)
{
	static const char *const fixtures[] = {"types", "minimal", "json", "differences", "transactions", "statements", "images", "anonymous", "unchecked"};

	test_changes("types", 100, 0);
	test_changes("minimal", 100, 0);
	test_changes("json", 60, 0);
	test_changes("differences", 25, 18);
	for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++)
		test_event_list(fixtures[i]);
	test_partial_rows();
	test_handmade();
}
