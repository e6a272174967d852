/*
 * exprlexer.c
 *		MySQL's expressions, as information_schema writes them, made tokens.
 *
 * Called by expression.c.  The server prints its parse tree: names in backquotes, keywords and functions in lower
 * case, strings with the character set that they are in and with backslash escapes.  Then it
 * escapes that text once more:
 *
 *	   CHECK (a = 'it''s')		->	(`a` = _utf8mb4\'it\\\'s\')
 *
 * What is not ASCII in a string comes out garbled there (seen on MySQL 9.7), and what is beyond the BMP can come out as a
 * question mark: such strings are bad tokens.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "map/expression.h"

char *
capstan_expression_unescape(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	for (const char *p = text; *p != '\0'; p++)
	{
		if (*p == '\'')
			return NULL;
		if (*p == '\\')
		{
			p++;
			if (*p != '\'' && *p != '\\')
				return NULL;
		}
		appendStringInfoChar(&out, *p);
	}
	return out.data;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_word_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$';
}

static ExprToken
token(ExprTokenKind kind, char *text)
{
	ExprToken	result = {kind, text};

	return result;
}

/* On the opening quote. */
static ExprToken
read_string(const char **p)
{
	StringInfoData out;

	initStringInfo(&out);
	for ((*p)++; **p != '\''; (*p)++)
	{
		char		c = **p;

		if (c == '\0')
			return token(EXPR_BAD, "a string without an end");
		if (c == '\\')
		{
			(*p)++;
			switch (**p)
			{
				case '\'':
				case '\\':
					c = **p;
					break;
				case 'n':
					c = '\n';
					break;
				case 'r':
					c = '\r';
					break;
				case 'Z':
					c = '\032';
					break;
				default:
					return token(EXPR_BAD, "an unknown escape in a string");
			}
		}
		if ((unsigned char) c >= 0x80)
			return token(EXPR_BAD, "a string with characters that information_schema does not show right");
		if (c == '?')
			return token(EXPR_BAD, "a string with a question mark, which in information_schema can stand for another character");
		appendStringInfoChar(&out, c);
	}
	(*p)++;
	/* Two literals side by side would be one. */
	if (**p == '\'')
		return token(EXPR_BAD, "a string that goes on");
	return token(EXPR_STRING, out.data);
}

static ExprToken
read_name(const char **p)
{
	StringInfoData out;

	initStringInfo(&out);
	for ((*p)++;; (*p)++)
	{
		if (**p == '\0')
			return token(EXPR_BAD, "a name without an end");
		if (**p == '`' && *++*p != '`')
			break;
		appendStringInfoChar(&out, **p);
	}
	return token(EXPR_NAME, out.data);
}

static ExprToken
read_number(const char **p)
{
	const char *start = *p;
	ExprTokenKind kind = EXPR_INTEGER;

	if (start[0] == '0' && start[1] == 'x')
	{
		size_t		digits = strspn(start + 2, "0123456789abcdefABCDEF");

		*p = start + 2 + digits;
		if (digits == 0 || digits % 2 != 0 || is_word_character(**p))
			return token(EXPR_BAD, "a number that is not understood");
		return token(EXPR_HEX, pnstrdup(start + 2, digits));
	}
	while (is_digit(**p))
		(*p)++;
	if (**p == '.')
	{
		kind = EXPR_DECIMAL;
		for ((*p)++; is_digit(**p);)
			(*p)++;
	}
	if (**p == 'e' || **p == 'E')
	{
		kind = EXPR_FLOAT;
		(*p)++;
		if (**p == '-' || **p == '+')
			(*p)++;
		if (!is_digit(**p))
			return token(EXPR_BAD, "a number that is not understood");
		while (is_digit(**p))
			(*p)++;
	}
	if (is_word_character(**p) || *p - start > 100)
		return token(EXPR_BAD, "a number that is not understood");
	return token(kind, pnstrdup(start, *p - start));
}

/* What stands behind _utf16 and the like are the string's bytes: other characters than they seem. */
static bool
is_other_than_ascii(const char *charset)
{
	static const char *const others[] = {"ucs2", "utf16", "utf16le", "utf32", "swe7"};

	for (int i = 0; i < (int) lengthof(others); i++)
		if (strcmp(charset, others[i]) == 0)
			return true;
	return false;
}

static ExprToken
read_word(const char **p)
{
	const char *start = *p;
	char	   *word;

	while (is_word_character(**p))
		(*p)++;
	word = pnstrdup(start, *p - start);
	for (char *c = word; *c != '\0'; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c += 'a' - 'A';
	if (**p == '\'' && word[0] == '_')
	{
		if (strcmp(word, "_binary") == 0)
			return token(EXPR_BAD, "a binary string");
		if (is_other_than_ascii(word + 1))
			return token(EXPR_BAD, psprintf("a string of character set %s", word + 1));
		return read_string(p);
	}
	/* x'..', b'..', n'..' */
	if (**p == '\'' && word[1] == '\0')
		return token(EXPR_BAD, "a literal that is not understood");
	return token(EXPR_WORD, word);
}

ExprToken
capstan_expression_token(const char **p)
{
	static const char *const operators[] = {
		"<=>", "->>", "<=", ">=", "<>", "!=", "<<", ">>", "->", "||", "&&", ":="
	};

	while (**p == ' ')
		(*p)++;
	if (**p == '\0')
		return token(EXPR_END, "its end");
	if (**p == '\'')
		return read_string(p);
	if (**p == '`')
		return read_name(p);
	if (is_digit(**p))
		return read_number(p);
	if (is_word_character(**p))
		return read_word(p);
	for (int i = 0; i < (int) lengthof(operators); i++)
	{
		size_t		length = strlen(operators[i]);

		if (strncmp(*p, operators[i], length) == 0)
		{
			*p += length;
			return token(EXPR_OPERATOR, pstrdup(operators[i]));
		}
	}
	if (strchr("()=<>+-*/%,!~&|^.", **p) == NULL)
		return token(EXPR_BAD, "a character that is not understood");
	(*p)++;
	return token(EXPR_OPERATOR, pnstrdup(*p - 1, 1));
}
