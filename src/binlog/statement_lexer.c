/*
 * statement_lexer.c
 *		Tokens of MySQL's SQL: comments, quotes, words.  For statement.c.
 *
 * Comments: "-- " and "#" to the end of the line, slash-star to star-slash.  An executed comment, slash-star-bang
 * with or without a version number, is code; so its beginning and its end are skipped alone.
 * (https://dev.mysql.com/doc/refman/en/comments.html)
 */
#include "binlog/statement_lexer.h"

#include <string.h>

#include "base/memory.h"

void
capstan_sql_begin(SqlLexer *lexer, const char *sql, size_t length, bool ansi_quotes, bool no_backslash_escapes)
{
	lexer->pos = sql;
	lexer->end = sql + length;
	lexer->ansi_quotes = ansi_quotes;
	lexer->no_backslash_escapes = no_backslash_escapes;
	lexer->in_executed = false;
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' ||
		(unsigned char) c >= 0x80;
}

static bool
looking_at(const SqlLexer *lexer, const char *text)
{
	size_t		length = strlen(text);

	return (size_t) (lexer->end - lexer->pos) >= length && memcmp(lexer->pos, text, length) == 0;
}

static void
skip_line(SqlLexer *lexer)
{
	while (lexer->pos < lexer->end && *lexer->pos != '\n')
		lexer->pos++;
}

/* false: the comment does not end. */
static bool
skip_block_comment(SqlLexer *lexer)
{
	lexer->pos += 2;
	while (lexer->pos < lexer->end)
	{
		if (looking_at(lexer, "*/"))
		{
			lexer->pos += 2;
			return true;
		}
		lexer->pos++;
	}
	return false;
}

/* White space and comments; false: a comment does not end. */
static bool
skip_blank(SqlLexer *lexer)
{
	while (lexer->pos < lexer->end)
	{
		if (is_space(*lexer->pos))
			lexer->pos++;
		else if (*lexer->pos == '#')
			skip_line(lexer);
		else if (looking_at(lexer, "--") &&
				 (lexer->end - lexer->pos == 2 || (unsigned char) lexer->pos[2] <= ' '))
			skip_line(lexer);
		else if (!lexer->in_executed && looking_at(lexer, "/*!"))
		{
			lexer->in_executed = true;
			lexer->pos += 3;
			while (lexer->pos < lexer->end && is_digit(*lexer->pos))
				lexer->pos++;
		}
		else if (looking_at(lexer, "/*"))
		{
			if (!skip_block_comment(lexer))
				return false;
		}
		else if (lexer->in_executed && looking_at(lexer, "*/"))
		{
			lexer->in_executed = false;
			lexer->pos += 2;
		}
		else
			break;
	}
	return true;
}

/* From the opening quote to behind the closing one; false: there is none. */
static bool
skip_quoted(SqlLexer *lexer, bool backslash)
{
	char		quote = *lexer->pos++;

	while (lexer->pos < lexer->end)
	{
		char		c = *lexer->pos++;

		if (c == '\\' && backslash)
		{
			if (lexer->pos < lexer->end)
				lexer->pos++;
		}
		else if (c == quote)
		{
			if (lexer->pos == lexer->end || *lexer->pos != quote)
				return true;
			lexer->pos++;
		}
	}
	return false;
}

static SqlTokenKind
next_kind(SqlLexer *lexer)
{
	char		c = *lexer->pos;

	if (c == '`' || (c == '"' && lexer->ansi_quotes))
		return skip_quoted(lexer, false) ? SQL_QUOTED : SQL_ERROR;
	if (c == '\'' || c == '"')
		return skip_quoted(lexer, !lexer->no_backslash_escapes) ? SQL_STRING : SQL_ERROR;
	if ((c == 'x' || c == 'X') && lexer->end - lexer->pos > 1 && lexer->pos[1] == '\'')
	{
		lexer->pos++;
		return skip_quoted(lexer, false) ? SQL_HEX : SQL_ERROR;
	}
	if (is_word_char(c))
	{
		while (lexer->pos < lexer->end && is_word_char(*lexer->pos))
			lexer->pos++;
		return SQL_WORD;
	}
	lexer->pos++;
	return SQL_CHAR;
}

void
capstan_sql_next(SqlLexer *lexer, SqlToken *token)
{
	bool		ended = skip_blank(lexer);

	token->start = lexer->pos;
	if (!ended)
		token->kind = SQL_ERROR;
	else if (lexer->pos == lexer->end)
		token->kind = lexer->in_executed ? SQL_ERROR : SQL_END;
	else
		token->kind = next_kind(lexer);
	if (token->kind == SQL_ERROR)
	{
		/* So that the next call comes here again. */
		lexer->pos = lexer->end;
		lexer->in_executed = true;
	}
	token->length = (size_t) (lexer->pos - token->start);
}

bool
capstan_sql_is_word(const SqlToken *token, const char *word)
{
	if (token->kind != SQL_WORD || strlen(word) != token->length)
		return false;
	for (size_t i = 0; i < token->length; i++)
	{
		char		c = token->start[i];

		if (c >= 'a' && c <= 'z')
			c = (char) (c - 'a' + 'A');
		if (c != word[i])
			return false;
	}
	return true;
}

char *
capstan_sql_token_text(const SqlToken *token)
{
	char	   *text = capstan_alloc(token->length + 1);
	char	   *to = text;
	const char *from = token->start;
	const char *end = token->start + token->length;

	if (token->kind == SQL_QUOTED)
	{
		char		quote = *from++;

		end--;
		while (from < end)
		{
			if (*from == quote)
				from++;			/* the first of two */
			*to++ = *from++;
		}
	}
	else
	{
		memcpy(to, from, token->length);
		to += token->length;
	}
	*to = '\0';
	return text;
}

static int
hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	c = (char) (c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
decode_hex(const char *from, size_t ndigits, char *bytes, size_t size, size_t *length)
{
	/* An odd number of digits means a zero in front. */
	size_t		n = (ndigits + 1) / 2;
	size_t		digit = ndigits % 2;

	if (n > size)
		return false;
	memset(bytes, 0, n);
	for (size_t i = 0; i < ndigits; i++, digit++)
	{
		int			value = hex_value(from[i]);

		if (value < 0)
			return false;
		bytes[digit / 2] = (char) ((unsigned char) bytes[digit / 2] << 4 | value);
	}
	*length = n;
	return true;
}

/* What a backslash makes of a character in a string literal. */
static char
unescape(char c)
{
	switch (c)
	{
		case '0':
			return '\0';
		case 'b':
			return '\b';
		case 'n':
			return '\n';
		case 'r':
			return '\r';
		case 't':
			return '\t';
		case 'Z':
			return '\032';
		default:
			return c;
	}
}

bool
capstan_sql_token_string(const SqlToken *token, bool no_backslash_escapes, char *bytes, size_t size, size_t *length)
{
	const char *from = token->start;
	const char *end = token->start + token->length;
	size_t		n = 0;
	char		quote;

	if (token->kind == SQL_HEX)
		return token->length % 2 == 1 && decode_hex(from + 2, token->length - 3, bytes, size, length);
	if (token->kind == SQL_WORD && token->length > 2 && from[0] == '0' && from[1] == 'x')
		return decode_hex(from + 2, token->length - 2, bytes, size, length);
	if (token->kind != SQL_STRING)
		return false;
	quote = *from++;
	end--;
	while (from < end)
	{
		char		c = *from++;

		if (c == '\\' && !no_backslash_escapes && from < end)
			c = unescape(*from++);
		else if (c == quote)
			from++;				/* the second of two */
		if (n == size)
			return false;
		bytes[n++] = c;
	}
	*length = n;
	return true;
}
