/*
 * ddlguard.c
 *		Statements in the binary log: which may pass, and which halt the pipeline.
 *
 * Called by stream.c for every statement that names tables or is not known.  A
 * statement that touches a captured table, or may do so, is an ERROR with the statement in
 * the incident; all others pass.  What is not understood is never taken for harmless
 * where something captured could be meant.
 */
#include "postgres.h"

#include <ctype.h>

#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/collation.h"
#include "binlog/statement_lexer.h"
#include "errcodes.h"
#include "worker/pipelineworker.h"

/* An incident holds at most so much of a statement. */
#define STATEMENT_KEPT 8192

/* Text of the statement in `context`, cut and valid in the database's encoding. */
static char *
statement_text(const BinlogEvent *event, MemoryContext context)
{
	size_t		length = Min(event->u.query.sql.length, STATEMENT_KEPT);
	char	   *text = MemoryContextAlloc(context, length + 1);

	memcpy(text, event->u.query.sql.data, length);
	text[length] = '\0';
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	/* it may be in any character set, or cut within a character */
	if (!pg_verifymbstr(text, length, true))
		for (size_t i = 0; i < length; i++)
			if (IS_HIGHBIT_SET(text[i]))
				text[i] = '?';
	return text;
}

/* For the incident of the failure to come. */
static void
note_statement(const BinlogEvent *event)
{
	MyPlace.statement = statement_text(event, TopMemoryContext);
}

/*
 * The same of a statement that may hold row values, which are private: "?" for each literal, nothing of comments, one blank for what is
 * between tokens.
 */
static void
note_without_values(const BinlogEvent *event)
{
	char	   *text;
	const char *behind;
	SqlLexer	lexer;
	SqlToken	token;
	StringInfoData out;

	if (capstan_log_row_values)
	{
		note_statement(event);
		return;
	}
	text = statement_text(event, CurrentMemoryContext);
	behind = text;
	initStringInfo(&out);
	capstan_sql_begin(&lexer, text, strlen(text), event->u.query.ansi_quotes, event->u.query.no_backslash_escapes);
	for (;;)
	{
		capstan_sql_next(&lexer, &token);
		if (token.kind == SQL_END || token.kind == SQL_ERROR)
			break;
		if (token.start > behind && out.len > 0)
			appendStringInfoChar(&out, ' ');
		if (token.kind == SQL_STRING || token.kind == SQL_HEX || (token.kind == SQL_WORD && isdigit((unsigned char) token.start[0])))
			appendStringInfoChar(&out, '?');
		else
			appendBinaryStringInfo(&out, token.start, (int) token.length);
		behind = token.start + token.length;
	}
	/* what was cut off, or is not understood */
	if (token.kind == SQL_ERROR)
		appendStringInfoString(&out, " ...");
	MyPlace.statement = MemoryContextStrdup(TopMemoryContext, out.data);
}

static const char *
schema_of(const StatementTable *table, const char *default_schema)
{
	return table->schema_name != NULL ? table->schema_name : default_schema;
}

static void
halt_for_statement(const BinlogEvent *event, const Statement *statement, const char *schema_name, const char *table_name)
{
	note_statement(event);
	capstan_stream_note_table(schema_name, table_name);
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_DDL),
			 errmsg("%s on captured table %s.%s", statement->command[0] == '\0' ? "a statement" : statement->command,
					schema_name, table_name),
			 errhint("Following DDL is not supported yet: nothing of it was applied. Make the target table what it should be, and call "
					 "capstan.resync_table(), or capstan.remove_table().")));
}

/*
 * Names of a statement are as somebody typed them; where the source does not tell case apart, they may differ from the
 * captured ones in it.  Letters beyond ASCII are then taken as equal to each other: rather halt once too often.
 */
static bool
same_name(const char *typed, const char *captured)
{
	for (; *typed != '\0' && *captured != '\0'; typed++, captured++)
	{
		if (IS_HIGHBIT_SET(*typed) && IS_HIGHBIT_SET(*captured))
			continue;
		if (pg_tolower((unsigned char) *typed) != pg_tolower((unsigned char) *captured))
			return false;
	}
	return *typed == *captured;
}

/*
 * Was the statement run before the table's generation began, of which nothing is copied yet?  Then it is in effect in the definition
 * that was captured, and what it did to rows the copy brings: see meta/generation.h.
 */
static bool
came_before(PipelineRun *run, const ApplyTable *table)
{
	CapstanError error;
	GtidSet    *since;
	bool		before;

	if (!table->untouched)
		return false;
	since = capstan_gtidset_parse(table->info->since, strlen(table->info->since), &error);
	if (since == NULL)
		elog(ERROR, "GTID set of table " INT64_FORMAT " is broken: %s", table->info->id, error.message);
	before = capstan_gtidset_contains(since, &run->gtid);
	capstan_gtidset_free(since);
	return before;
}

/* Does a statement on this table concern what is captured? */
static bool
is_captured(PipelineRun *run, const char *schema_name, const char *table_name)
{
	ListCell   *cell;

	if (!run->fold_names)
	{
		ApplyTable *table = capstan_stream_find_table(run, schema_name, table_name);

		return table != NULL && !came_before(run, table);
	}
	foreach(cell, run->tables)
	{
		const ApplyTable *table = lfirst(cell);

		if (same_name(schema_name, table->info->source_schema) && same_name(table_name, table->info->source_table) &&
			!came_before(run, table))
			return true;
	}
	return false;
}

/* The same of a statement on a whole database. */
static bool
concerns_tables_of(PipelineRun *run, const char *schema_name)
{
	ListCell   *cell;

	foreach(cell, run->tables)
	{
		const ApplyTable *table = lfirst(cell);

		if ((run->fold_names ? same_name(schema_name, table->info->source_schema) :
			 strcmp(schema_name, table->info->source_schema) == 0) && !came_before(run, table))
			return true;
	}
	return false;
}

static bool
is_captured_schema(PipelineRun *run, const char *schema_name)
{
	HASH_SEQ_STATUS status;
	SchemaEntry *entry;

	if (!run->fold_names)
		return hash_search(run->schemas, schema_name, HASH_FIND, NULL) != NULL;
	hash_seq_init(&status, run->schemas);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (same_name(schema_name, entry->name))
		{
			hash_seq_term(&status);
			return true;
		}
	return false;
}

/* A new table that a pattern of the pipeline means is not captured: nobody should find that out by its absence. */
static void
warn_of_new_table(PipelineRun *run, const BinlogEvent *event, const char *schema_name, const char *table_name)
{
	Incident	incident;
	ListCell   *cell;
	bool		meant = false;

	/* one that is made once more before its copy */
	if (capstan_stream_find_table(run, schema_name, table_name) != NULL)
		return;
	foreach(cell, run->pipeline->patterns)
		if (capstan_wire_pattern_matches(lfirst(cell), schema_name, table_name))
			meant = true;
	if (!meant)
		return;
	memset(&incident, 0, sizeof(incident));
	incident.pipeline = run->pipeline->name;
	incident.severity = "warning";
	incident.class = "table_not_captured";
	incident.message = psprintf("new source table %s.%s is not captured", schema_name, table_name);
	incident.detail = "It fits a pattern of the pipeline, but patterns are resolved once, by create_pipeline.";
	incident.hint = psprintf("SELECT capstan.add_table(%s, %s);", quote_literal_cstr(run->pipeline->name),
							 quote_literal_cstr(psprintf("%s.%s", schema_name, table_name)));
	incident.gtid = MyPlace.gtid;
	incident.source_table = psprintf("%s.%s", schema_name, table_name);
	incident.source_statement = statement_text(event, CurrentMemoryContext);
	capstan_stream_begin(run);
	(void) capstan_meta_record_incident(&incident);
	ereport(LOG,
			(errmsg("capstan pipeline \"%s\": %s", run->pipeline->name, incident.message),
			 errhint("%s", incident.hint)));
}

/* Does a table or database statement touch what is captured? */
static void
check_ddl(PipelineRun *run, const BinlogEvent *event, const Statement *statement, const char *default_schema)
{
	if (statement->temporary)
		return;
	for (int i = 0; i < statement->ntables; i++)
	{
		const StatementTable *named = &statement->tables[i];
		const char *schema_name = schema_of(named, default_schema);

		if (named->table_name != NULL)
		{
			/* what is captured is there, so that it did nothing; it is logged all the same */
			if (!statement->if_not_exists && is_captured(run, schema_name, named->table_name))
				halt_for_statement(event, statement, schema_name, named->table_name);
		}
		else if (statement->kind == STATEMENT_DATABASE_DDL && concerns_tables_of(run, schema_name))
			halt_for_statement(event, statement, schema_name, "*");
	}
	if (statement->creates_table && statement->ntables > 0 && statement->tables[0].table_name != NULL)
		warn_of_new_table(run, event, schema_of(&statement->tables[0], default_schema), statement->tables[0].table_name);
}

static bool
is_system_schema(const char *name)
{
	return strcmp(name, "mysql") == 0 || strcmp(name, "sys") == 0 ||
		strcmp(name, "performance_schema") == 0 || strcmp(name, "information_schema") == 0;
}

/* Rows changed by a statement that was logged as such: never right, except in MySQL's own schemas. */
static void
check_dml(const BinlogEvent *event, const Statement *statement, const char *default_schema)
{
	bool		system = statement->ntables > 0;

	for (int i = 0; i < statement->ntables; i++)
		if (!is_system_schema(schema_of(&statement->tables[i], default_schema)))
			system = false;
	if (system)
		return;
	note_without_values(event);
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_STATEMENT),
			 errmsg("rows were changed by a statement that is in the binary log as text"),
			 errdetail("A session of the source used binlog_format = STATEMENT or MIXED."),
			 errhint("Keep sessions from changing binlog_format on the source. What the statement did is not known here: "
					 "capstan.restart_snapshot() copies all tables anew.")));
}

/* Does the name occur in the text, in any case? */
static bool
mentions(const char *text, const char *name)
{
	size_t		length = strlen(name);

	for (; *text != '\0'; text++)
		if (pg_strncasecmp(text, name, length) == 0)
			return true;
	return false;
}

/* A statement that nobody knows: harmless only where nothing captured can be meant. */
static void
check_unknown(PipelineRun *run, const BinlogEvent *event, const char *default_schema)
{
	HASH_SEQ_STATUS status;
	SchemaEntry *entry;
	char	   *sql = pnstrdup(event->u.query.sql.data, event->u.query.sql.length);
	bool		suspect = is_captured_schema(run, default_schema);

	hash_seq_init(&status, run->schemas);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (mentions(sql, entry->name))
			suspect = true;
	if (!suspect && !run->begun)
		return;
	note_without_values(event);
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_STATEMENT),
			 errmsg("a statement in the binary log is not known"),
			 errdetail("Default database \"%s\".", default_schema),
			 errhint("capstan cannot tell whether it changes a captured table. capstan.incident holds its text.")));
}

void
capstan_guard_statement(PipelineRun *run, const BinlogEvent *event, const Statement *statement,
						const char *default_schema)
{
	switch (statement->kind)
	{
		case STATEMENT_DML:
			check_dml(event, statement, default_schema);
			break;
		case STATEMENT_UNKNOWN:
			check_unknown(run, event, default_schema);
			break;
		default:
			check_ddl(run, event, statement, default_schema);
			break;
	}
}

void
capstan_guard_convert(PipelineRun *run, BinlogEvent *event)
{
	const char *charset = capstan_collation_charset(event->u.query.charset);
	SourceConn *conn;
	StringInfoData sql;
	char	   *text;

	if (charset == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_STATEMENT),
				 errmsg("a statement in the binary log is in a character set that is not known"),
				 errdetail("Collation %u.", event->u.query.charset)));
	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT CONVERT(_%s x'", charset);
	for (size_t i = 0; i < event->u.query.sql.length; i++)
		appendStringInfo(&sql, "%02x", (unsigned char) event->u.query.sql.data[i]);
	appendStringInfoString(&sql, "' USING utf8mb4)");

	capstan_describe_close(run);
	conn = capstan_wire_connect(run->options, "charset");
	text = capstan_wire_query_value(conn, sql.data);
	capstan_wire_close(conn);
	if (text == NULL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_STATEMENT),
				 errmsg("a statement in the binary log cannot be read in its character set %s", charset)));
	event->u.query.sql.data = text;
	event->u.query.sql.length = strlen(text);
	event->u.query.charset = capstan_collation_id("utf8mb4_bin");
}
