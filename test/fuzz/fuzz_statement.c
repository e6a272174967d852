/*
 * fuzz_statement.c
 *		libFuzzer target: the lexer and the parser of statements.  The first byte chooses the session's settings.
 */
#include "binlog/statement.h"
#include "binlog/statement_lexer.h"
#include "fuzz.h"

/* Tokens lie one behind the other in the statement, and end. */
static void
read_tokens(const char *sql, size_t length, bool ansi_quotes, bool no_backslash_escapes)
{
	SqlLexer	lexer;
	SqlToken	token;
	const char *end = sql;

	capstan_sql_begin(&lexer, sql, length, ansi_quotes, no_backslash_escapes);
	do
	{
		char		bytes[64];
		size_t		n;

		capstan_sql_next(&lexer, &token);
		if (token.start < end || token.start + token.length > sql + length)
			FUZZ_FAIL("a token outside of the statement");
		if (token.kind != SQL_END && token.kind != SQL_ERROR)
		{
			if (token.length == 0)
				FUZZ_FAIL("a token of no length");
			if (token.kind == SQL_WORD || token.kind == SQL_QUOTED)
				capstan_free(capstan_sql_token_text(&token));
			if (capstan_sql_token_string(&token, no_backslash_escapes, bytes, sizeof(bytes), &n))
				fuzz_touch(bytes, n);
		}
		end = token.start + token.length;
	} while (token.kind != SQL_END && token.kind != SQL_ERROR);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t collations[] = {0, 8, 28, 45, 63, 255};
	Statement	statement;
	uint8_t		choice;
	char	   *sql;

	if (size == 0)
		return 0;
	choice = data[0];
	sql = (char *) fuzz_copy(data + 1, size - 1);
	capstan_memory_largest = 0;
	read_tokens(sql, size - 1, choice & 1, choice & 2);
	capstan_statement_parse(sql, size - 1, choice & 1, choice & 2, &statement);
	if (statement.kind < STATEMENT_BEGIN || statement.kind > STATEMENT_UNKNOWN)
		FUZZ_FAIL("a statement of no kind");
	for (int i = 0; i < statement.ntables; i++)
	{
		if (statement.tables[i].schema_name == NULL && statement.tables[i].table_name == NULL)
			FUZZ_FAIL("a table without a name");
	}
	(void) capstan_statement_is_certain(&statement, sql, size - 1, collations[choice / 4 % 6]);
	capstan_statement_free(&statement);
	fuzz_check_memory(size);
	free(sql);
	return 0;
}
