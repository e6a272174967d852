/*
 * statement.c
 *		What a statement in the binary log means for the tables we follow: the heads of statements.
 *		The tokens come from statement_lexer.c.
 *
 * Everything that is not surely understood is STATEMENT_UNKNOWN: a statement is taken for harmless because it is
 * on a list, never because it is on none.
 */
#include "binlog/statement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/collation.h"
#include "base/memory.h"
#include "binlog/statement_lexer.h"

#define XID_PART_MAX 64

typedef struct Parser
{
	SqlLexer	lexer;
	SqlToken	token;			/* the one to look at */
	Statement  *statement;
} Parser;

static void
advance(Parser *parser)
{
	capstan_sql_next(&parser->lexer, &parser->token);
}

static bool
is_word(const Parser *parser, const char *word)
{
	return capstan_sql_is_word(&parser->token, word);
}

static bool
is_char(const Parser *parser, char c)
{
	return parser->token.kind == SQL_CHAR && *parser->token.start == c;
}

static bool
accept(Parser *parser, const char *word)
{
	if (!is_word(parser, word))
		return false;
	advance(parser);
	return true;
}

static bool
accept_char(Parser *parser, char c)
{
	if (!is_char(parser, c))
		return false;
	advance(parser);
	return true;
}

/* `words` is a NULL-terminated list. */
static bool
is_any(const Parser *parser, const char *const *words)
{
	for (; *words != NULL; words++)
	{
		if (is_word(parser, *words))
			return true;
	}
	return false;
}

/* Nothing left but semicolons? */
static bool
at_end(const Parser *parser)
{
	Parser		probe = *parser;

	while (is_char(&probe, ';'))
		advance(&probe);
	return probe.token.kind == SQL_END;
}

/* Is there more of this statement? */
static bool
more(const Parser *parser)
{
	return parser->token.kind != SQL_END && parser->token.kind != SQL_ERROR && !is_char(parser, ';');
}

static void
set_command(Parser *parser, const char *first, const char *second)
{
	snprintf(parser->statement->command, sizeof(parser->statement->command), "%s%s%s",
			 first, second[0] != '\0' ? " " : "", second);
}

/* ---- names ---- */

static char *
accept_identifier(Parser *parser)
{
	char	   *name;

	if (parser->token.kind != SQL_WORD && parser->token.kind != SQL_QUOTED)
		return NULL;
	name = capstan_sql_token_text(&parser->token);
	advance(parser);
	return name;
}

static void
add_table(Statement *statement, char *schema_name, char *table_name)
{
	int			n = statement->ntables;

	/* Capacity in powers of two. */
	if ((n & (n - 1)) == 0)
		statement->tables = capstan_realloc(statement->tables,
											(n == 0 ? 1 : 2 * (size_t) n) * sizeof(StatementTable));
	statement->tables[n].schema_name = schema_name;
	statement->tables[n].table_name = table_name;
	statement->ntables++;
}

/* name or schema.name, white space and comments allowed around the point; false if there is none. */
static bool
parse_table(Parser *parser)
{
	char	   *first = accept_identifier(parser);
	char	   *second;

	if (first == NULL)
		return false;
	if (!accept_char(parser, '.'))
	{
		add_table(parser->statement, NULL, first);
		return true;
	}
	second = accept_identifier(parser);
	if (second == NULL && is_char(parser, '*'))
	{
		/* t.* in a DELETE */
		add_table(parser->statement, NULL, first);
		return true;
	}
	if (second == NULL)
	{
		capstan_free(first);
		return false;
	}
	add_table(parser->statement, first, second);
	return true;
}

static StatementKind
table_ddl(bool understood)
{
	return understood ? STATEMENT_TABLE_DDL : STATEMENT_UNKNOWN;
}

static bool
accept_if_exists(Parser *parser)
{
	if (!accept(parser, "IF"))
		return false;
	accept(parser, "NOT");
	return accept(parser, "EXISTS");
}

/* ---- definitions ---- */

/* DEFINER = user, DEFINER = 'user'@'host', DEFINER = CURRENT_USER(). */
static void
skip_definer(Parser *parser)
{
	accept_char(parser, '=');
	advance(parser);
	while (is_char(parser, '(') || is_char(parser, ')'))
		advance(parser);
	if (accept_char(parser, '@'))
		advance(parser);
}

/* Words between CREATE, ALTER or DROP and what kind of thing it is about. */
static void
skip_modifiers(Parser *parser)
{
	static const char *const plain[] = {
		"OR", "REPLACE", "UNIQUE", "FULLTEXT", "ONLINE", "OFFLINE", "IGNORE", "AGGREGATE", "UNDO", "JSON",
		"RELATIONAL", "DUALITY", "EXTERNAL", "MATERIALIZED", NULL
	};

	for (;;)
	{
		if (is_any(parser, plain))
			advance(parser);
		else if (accept(parser, "TEMPORARY"))
			parser->statement->temporary = true;
		else if (accept(parser, "DEFINER"))
			skip_definer(parser);
		else if (accept(parser, "ALGORITHM"))
		{
			accept_char(parser, '=');
			advance(parser);
		}
		else if (accept(parser, "SQL"))
		{
			accept(parser, "SECURITY");
			advance(parser);
		}
		else
			return;
	}
}

/* [name] [USING x] ON table: tables are named after ON. */
static bool
parse_index_table(Parser *parser)
{
	(void) accept_if_exists(parser);
	for (int i = 0; i < 8 && more(parser); i++)
	{
		if (accept(parser, "ON"))
			return parse_table(parser);
		advance(parser);
	}
	return false;
}

/* What comes after RENAME in ALTER TABLE: another table, unless it is a column or an index that gets a new name. */
static bool
parse_alter_rename(Parser *parser)
{
	if (is_word(parser, "COLUMN") || is_word(parser, "INDEX") || is_word(parser, "KEY"))
		return true;
	if (!accept(parser, "TO") && !accept(parser, "AS"))
		accept_char(parser, '=');
	return parse_table(parser);
}

/* EXCHANGE PARTITION p WITH TABLE t; EXCHANGE alone may be a column. */
static bool
parse_exchange(Parser *parser)
{
	if (!accept(parser, "PARTITION"))
		return true;
	advance(parser);
	if (!accept(parser, "WITH") || !accept(parser, "TABLE"))
		return false;
	return parse_table(parser);
}

static StatementKind
parse_alter_table(Parser *parser)
{
	int			depth = 0;

	(void) accept_if_exists(parser);
	if (!parse_table(parser))
		return STATEMENT_UNKNOWN;
	while (more(parser))
	{
		if (is_char(parser, '('))
			depth++;
		else if (is_char(parser, ')'))
			depth--;
		if (depth == 0 && accept(parser, "RENAME"))
		{
			if (!parse_alter_rename(parser))
				return STATEMENT_UNKNOWN;
		}
		else if (depth == 0 && accept(parser, "EXCHANGE"))
		{
			if (!parse_exchange(parser))
				return STATEMENT_UNKNOWN;
		}
		else
			advance(parser);
	}
	return STATEMENT_TABLE_DDL;
}

/* Kinds of things that are no base table and whose definition changes none. */
static const char *const harmless_objects[] = {
	"VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE",
	"RESOURCE", "LIBRARY", "INSTANCE", "SPATIAL", NULL
};

static bool
is_database(const Parser *parser)
{
	return is_word(parser, "DATABASE") || is_word(parser, "SCHEMA");
}

static StatementKind
parse_harmless_object(Parser *parser, const char *verb)
{
	char	   *object;

	if (!is_any(parser, harmless_objects))
		return STATEMENT_UNKNOWN;
	object = capstan_sql_token_text(&parser->token);
	for (char *c = object; *c != '\0'; c++)
	{
		if (*c >= 'a' && *c <= 'z')
			*c = (char) (*c - 'a' + 'A');
	}
	set_command(parser, verb, object);
	capstan_free(object);
	return STATEMENT_HARMLESS;
}

static StatementKind
parse_create(Parser *parser)
{
	skip_modifiers(parser);
	if (accept(parser, "TABLE"))
	{
		set_command(parser, "CREATE TABLE", "");
		parser->statement->if_not_exists = accept_if_exists(parser);
		parser->statement->creates_table = true;
		return table_ddl(parse_table(parser));
	}
	/* SPATIAL INDEX, or SPATIAL REFERENCE SYSTEM */
	if (is_word(parser, "SPATIAL"))
	{
		Parser		saved = *parser;

		advance(parser);
		if (!is_word(parser, "INDEX"))
			*parser = saved;
	}
	if (accept(parser, "INDEX"))
	{
		set_command(parser, "CREATE INDEX", "");
		return table_ddl(parse_index_table(parser));
	}
	if (is_database(parser))
	{
		set_command(parser, "CREATE DATABASE", "");
		return STATEMENT_HARMLESS;
	}
	return parse_harmless_object(parser, "CREATE");
}

static StatementKind
parse_alter(Parser *parser)
{
	skip_modifiers(parser);
	if (accept(parser, "TABLE"))
	{
		set_command(parser, "ALTER TABLE", "");
		return parse_alter_table(parser);
	}
	if (is_database(parser))
	{
		set_command(parser, "ALTER DATABASE", "");
		return STATEMENT_HARMLESS;
	}
	return parse_harmless_object(parser, "ALTER");
}

static bool
parse_table_list(Parser *parser)
{
	do
	{
		if (!parse_table(parser))
			return false;
	} while (accept_char(parser, ','));
	return true;
}

static StatementKind
parse_drop(Parser *parser)
{
	skip_modifiers(parser);
	if (accept(parser, "TABLE") || accept(parser, "TABLES"))
	{
		set_command(parser, "DROP TABLE", "");
		(void) accept_if_exists(parser);
		if (!parse_table_list(parser))
			return STATEMENT_UNKNOWN;
		if (!accept(parser, "RESTRICT"))
			accept(parser, "CASCADE");
		return table_ddl(at_end(parser));
	}
	if (accept(parser, "INDEX"))
	{
		set_command(parser, "DROP INDEX", "");
		return table_ddl(parse_index_table(parser));
	}
	if (is_database(parser))
	{
		char	   *name;

		advance(parser);
		set_command(parser, "DROP DATABASE", "");
		(void) accept_if_exists(parser);
		name = accept_identifier(parser);
		if (name == NULL)
			return STATEMENT_UNKNOWN;
		add_table(parser->statement, name, NULL);
		return at_end(parser) ? STATEMENT_DATABASE_DDL : STATEMENT_UNKNOWN;
	}
	return parse_harmless_object(parser, "DROP");
}

static StatementKind
parse_rename(Parser *parser)
{
	if (accept(parser, "USER"))
	{
		set_command(parser, "RENAME USER", "");
		return STATEMENT_HARMLESS;
	}
	set_command(parser, "RENAME TABLE", "");
	if (!accept(parser, "TABLE") && !accept(parser, "TABLES"))
		return STATEMENT_UNKNOWN;
	do
	{
		if (!parse_table(parser) || !accept(parser, "TO") || !parse_table(parser))
			return STATEMENT_UNKNOWN;
	} while (accept_char(parser, ','));
	return table_ddl(at_end(parser));
}

static StatementKind
parse_truncate(Parser *parser)
{
	set_command(parser, "TRUNCATE TABLE", "");
	accept(parser, "TABLE");
	return table_ddl(parse_table(parser) && at_end(parser));
}

/* OPTIMIZE, REPAIR, ANALYZE, CHECK, CHECKSUM: tables keep rows and shape. */
static StatementKind
parse_maintenance(Parser *parser, const char *verb)
{
	set_command(parser, verb, "TABLE");
	if (!accept(parser, "NO_WRITE_TO_BINLOG"))
		accept(parser, "LOCAL");
	return is_word(parser, "TABLE") || is_word(parser, "TABLES") ? STATEMENT_HARMLESS : STATEMENT_UNKNOWN;
}

/* Passwords and default roles; but SET STATEMENT .. FOR, of some servers, has a statement of any kind in it. */
static StatementKind
parse_set(Parser *parser)
{
	return is_word(parser, "STATEMENT") ? STATEMENT_UNKNOWN : STATEMENT_HARMLESS;
}

/* ---- DML: which tables, as far as the head tells ---- */

static const char *const dml_modifiers[] = {
	"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "INTO", "FROM", NULL
};

static void
skip_dml_modifiers(Parser *parser)
{
	while (is_any(parser, dml_modifiers))
		advance(parser);
}

/* Names after the beginning, each comma and each JOIN, at the top level, up to one of the words that end the list. */
static void
parse_table_references(Parser *parser)
{
	static const char *const ends[] = {"SET", "WHERE", "ORDER", "LIMIT", "USING", "VALUES", "SELECT", NULL};
	int			depth = 0;
	bool		expect_name = true;

	while (more(parser) && !(depth == 0 && is_any(parser, ends)))
	{
		if (expect_name && depth == 0 && (parser->token.kind == SQL_WORD || parser->token.kind == SQL_QUOTED) &&
			!is_word(parser, "LATERAL"))
		{
			if (!parse_table(parser))
				return;
			/* s.t.* in a DELETE */
			accept_char(parser, '.');
			accept_char(parser, '*');
			expect_name = false;
			continue;
		}
		if (is_char(parser, '('))
			depth++;
		else if (is_char(parser, ')'))
			depth--;
		expect_name = depth == 0 && (is_char(parser, ',') || is_word(parser, "JOIN") || is_word(parser, "STRAIGHT_JOIN") ||
									 is_word(parser, "FROM"));
		advance(parser);
	}
}

static void
parse_delete(Parser *parser)
{
	skip_dml_modifiers(parser);
	parse_table_references(parser);
	if (accept(parser, "USING"))
		parse_table_references(parser);
}

static void
parse_with(Parser *parser)
{
	int			depth = 0;

	while (more(parser))
	{
		if (is_char(parser, '('))
			depth++;
		else if (is_char(parser, ')'))
			depth--;
		if (depth == 0 && accept(parser, "UPDATE"))
		{
			skip_dml_modifiers(parser);
			parse_table_references(parser);
			return;
		}
		if (depth == 0 && accept(parser, "DELETE"))
		{
			parse_delete(parser);
			return;
		}
		advance(parser);
	}
}

static void
parse_load(Parser *parser)
{
	while (more(parser))
	{
		if (accept(parser, "INTO") && accept(parser, "TABLE"))
		{
			parse_table(parser);
			return;
		}
		advance(parser);
	}
}

static StatementKind
parse_dml(Parser *parser, const char *verb)
{
	set_command(parser, verb, "");
	if (strcmp(verb, "INSERT") == 0 || strcmp(verb, "REPLACE") == 0)
	{
		skip_dml_modifiers(parser);
		parse_table(parser);
	}
	else if (strcmp(verb, "UPDATE") == 0)
	{
		skip_dml_modifiers(parser);
		parse_table_references(parser);
	}
	else if (strcmp(verb, "DELETE") == 0)
		parse_delete(parser);
	else if (strcmp(verb, "WITH") == 0)
		parse_with(parser);
	else if (strcmp(verb, "LOAD") == 0)
		parse_load(parser);
	return STATEMENT_DML;
}

/* ---- transactions ---- */

static bool
append_xid_part(Parser *parser, StrBuf *out)
{
	char		bytes[XID_PART_MAX];
	size_t		length;

	if (!capstan_sql_token_string(&parser->token, parser->lexer.no_backslash_escapes, bytes, sizeof(bytes), &length))
		return false;
	advance(parser);
	capstan_strbuf_append_str(out, "X'");
	for (size_t i = 0; i < length; i++)
		capstan_strbuf_printf(out, "%02x", (uint8_t) bytes[i]);
	capstan_strbuf_append_char(out, '\'');
	return true;
}

/* gtrid [, bqual [, format id]] in canonical form. */
static bool
parse_xid(Parser *parser)
{
	StrBuf		xid;
	bool		understood;

	capstan_strbuf_init(&xid);
	understood = append_xid_part(parser, &xid);
	capstan_strbuf_append_char(&xid, ',');
	if (understood && accept_char(parser, ','))
		understood = append_xid_part(parser, &xid);
	else
		capstan_strbuf_append_str(&xid, "X''");
	if (understood && accept_char(parser, ','))
	{
		char	   *number = accept_identifier(parser);
		char	   *end = number;
		unsigned long long format = number != NULL ? strtoull(number, &end, 0) : 0;

		understood = number != NULL && end != number && *end == '\0' && format <= INT32_MAX;
		capstan_strbuf_printf(&xid, ",%llu", format);
		capstan_free(number);
	}
	else
		capstan_strbuf_append_str(&xid, ",1");
	if (understood)
		parser->statement->xid = xid.data;
	else
		capstan_strbuf_free(&xid);
	return understood;
}

static StatementKind
parse_xa(Parser *parser)
{
	static const struct
	{
		const char *word;
		StatementKind kind;
	}			verbs[] = {
		{"START", STATEMENT_XA_START}, {"BEGIN", STATEMENT_XA_START}, {"END", STATEMENT_XA_END},
		{"PREPARE", STATEMENT_XA_PREPARE}, {"COMMIT", STATEMENT_XA_COMMIT}, {"ROLLBACK", STATEMENT_XA_ROLLBACK}
	};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
	{
		if (accept(parser, verbs[i].word))
		{
			set_command(parser, "XA", verbs[i].word);
			return parse_xid(parser) ? verbs[i].kind : STATEMENT_UNKNOWN;
		}
	}
	return STATEMENT_UNKNOWN;
}

static StatementKind
parse_rollback(Parser *parser)
{
	set_command(parser, "ROLLBACK", "");
	accept(parser, "WORK");
	return is_word(parser, "TO") ? STATEMENT_ROLLBACK_TO : STATEMENT_ROLLBACK;
}

static StatementKind
parse_start(Parser *parser)
{
	set_command(parser, "START TRANSACTION", "");
	return is_word(parser, "TRANSACTION") ? STATEMENT_BEGIN : STATEMENT_UNKNOWN;
}

/* ---- the whole ---- */

typedef enum HeadRule
{
	HEAD_KIND,					/* the first word says it all */
	HEAD_DML,
	HEAD_MAINTENANCE,
	HEAD_PARSE
} HeadRule;

typedef struct Head
{
	const char *word;
	HeadRule	rule;
	StatementKind kind;
	StatementKind (*parse) (Parser *parser);
} Head;

static const Head heads[] = {
	{"BEGIN", HEAD_KIND, STATEMENT_BEGIN, NULL},
	{"COMMIT", HEAD_KIND, STATEMENT_COMMIT, NULL},
	{"SAVEPOINT", HEAD_KIND, STATEMENT_SAVEPOINT, NULL},
	{"RELEASE", HEAD_KIND, STATEMENT_SAVEPOINT, NULL},
	{"GRANT", HEAD_KIND, STATEMENT_HARMLESS, NULL},
	{"REVOKE", HEAD_KIND, STATEMENT_HARMLESS, NULL},
	{"FLUSH", HEAD_KIND, STATEMENT_HARMLESS, NULL},
	{"INSTALL", HEAD_KIND, STATEMENT_HARMLESS, NULL},
	{"UNINSTALL", HEAD_KIND, STATEMENT_HARMLESS, NULL},
	{"INSERT", HEAD_DML, STATEMENT_DML, NULL},
	{"REPLACE", HEAD_DML, STATEMENT_DML, NULL},
	{"UPDATE", HEAD_DML, STATEMENT_DML, NULL},
	{"DELETE", HEAD_DML, STATEMENT_DML, NULL},
	{"LOAD", HEAD_DML, STATEMENT_DML, NULL},
	{"WITH", HEAD_DML, STATEMENT_DML, NULL},
	{"CALL", HEAD_DML, STATEMENT_DML, NULL},
	{"DO", HEAD_DML, STATEMENT_DML, NULL},
	{"SELECT", HEAD_DML, STATEMENT_DML, NULL},
	{"OPTIMIZE", HEAD_MAINTENANCE, STATEMENT_HARMLESS, NULL},
	{"REPAIR", HEAD_MAINTENANCE, STATEMENT_HARMLESS, NULL},
	{"ANALYZE", HEAD_MAINTENANCE, STATEMENT_HARMLESS, NULL},
	{"CHECK", HEAD_MAINTENANCE, STATEMENT_HARMLESS, NULL},
	{"CHECKSUM", HEAD_MAINTENANCE, STATEMENT_HARMLESS, NULL},
	{"SET", HEAD_PARSE, STATEMENT_UNKNOWN, parse_set},
	{"START", HEAD_PARSE, STATEMENT_UNKNOWN, parse_start},
	{"ROLLBACK", HEAD_PARSE, STATEMENT_UNKNOWN, parse_rollback},
	{"XA", HEAD_PARSE, STATEMENT_UNKNOWN, parse_xa},
	{"CREATE", HEAD_PARSE, STATEMENT_UNKNOWN, parse_create},
	{"ALTER", HEAD_PARSE, STATEMENT_UNKNOWN, parse_alter},
	{"DROP", HEAD_PARSE, STATEMENT_UNKNOWN, parse_drop},
	{"RENAME", HEAD_PARSE, STATEMENT_UNKNOWN, parse_rename},
	{"TRUNCATE", HEAD_PARSE, STATEMENT_UNKNOWN, parse_truncate},
};

static StatementKind
parse_head(Parser *parser)
{
	/* Nothing but comments, as the server puts it in place of events it must leave out. */
	if (at_end(parser))
		return STATEMENT_HARMLESS;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
	{
		const Head *head = &heads[i];

		if (!accept(parser, head->word))
			continue;
		set_command(parser, head->word, "");
		switch (head->rule)
		{
			case HEAD_KIND:
				return head->kind;
			case HEAD_DML:
				return parse_dml(parser, head->word);
			case HEAD_MAINTENANCE:
				return parse_maintenance(parser, head->word);
			case HEAD_PARSE:
				return head->parse(parser);
		}
	}
	return STATEMENT_UNKNOWN;
}

/* Anything after a semicolon would be a second statement, which nobody looked at. */
static bool
is_single(Parser *parser)
{
	while (more(parser))
		advance(parser);
	return at_end(parser);
}

/* Routines, triggers and events hold statements with semicolons of their own. */
static bool
has_body(const Statement *statement)
{
	return statement->kind == STATEMENT_HARMLESS &&
		(strncmp(statement->command, "CREATE ", 7) == 0 || strncmp(statement->command, "ALTER ", 6) == 0);
}

void
capstan_statement_parse(const char *sql, size_t length, bool ansi_quotes, bool no_backslash_escapes,
						Statement *statement)
{
	Parser		parser;

	memset(statement, 0, sizeof(*statement));
	parser.statement = statement;
	capstan_sql_begin(&parser.lexer, sql, length, ansi_quotes, no_backslash_escapes);
	advance(&parser);
	statement->kind = parse_head(&parser);
	if (!has_body(statement) && !is_single(&parser))
		statement->kind = STATEMENT_UNKNOWN;
}

void
capstan_statement_free(Statement *statement)
{
	for (int i = 0; i < statement->ntables; i++)
	{
		capstan_free(statement->tables[i].schema_name);
		capstan_free(statement->tables[i].table_name);
	}
	capstan_free(statement->tables);
	capstan_free(statement->xid);
	statement->ntables = 0;
	statement->tables = NULL;
	statement->xid = NULL;
}

static bool
is_ascii(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
	{
		if ((unsigned char) text[i] >= 0x80)
			return false;
	}
	return true;
}

static bool
is_ascii_name(const char *name)
{
	return name == NULL || is_ascii(name, strlen(name));
}

bool
capstan_statement_is_certain(const Statement *statement, const char *sql, size_t length, uint16_t collation)
{
	/* The second byte of a character may be a backslash or a backquote. */
	static const char *const ambiguous[] = {"big5", "cp932", "gb18030", "gbk", "sjis"};
	const char *charset = capstan_collation_charset(collation);

	if ((charset != NULL && strncmp(charset, "utf8", 4) == 0) || is_ascii(sql, length))
		return true;
	if (charset == NULL)
		return false;
	for (size_t i = 0; i < sizeof(ambiguous) / sizeof(ambiguous[0]); i++)
	{
		if (strcmp(charset, ambiguous[i]) == 0)
			return false;
	}
	for (int i = 0; i < statement->ntables; i++)
	{
		if (!is_ascii_name(statement->tables[i].schema_name) || !is_ascii_name(statement->tables[i].table_name))
			return false;
	}
	return true;
}
