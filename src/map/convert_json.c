/*
 * convert_json.c
 *		Converters of JSON.
 *
 * A value arrives as the text that MySQL's own CAST(json AS CHAR) prints.  json and text
 * keep that text; jsonb cannot hold U+0000, so there its escape falls under the nul_bytes
 * policy.  In a member's name it is an error even then: without it two members could have
 * one name, and jsonb would keep the last.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "map/internal.h"

#define NUL_ESCAPE "\\u0000"
#define NUL_ESCAPE_LENGTH 6

/* Checked and with a NUL behind it, for the input functions. */
static char *
json_text_of(ColumnMap *map, const SourceValue *value)
{
	if (value->kind != VALUE_JSON)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length > MAX_VARLENA_DATA)
		capstan_convert_fail(map, "is longer than a Postgres value can be (1 GB)", "Shorten the value on the source.");
	if (!capstan_charset_is_utf8(value->u.bytes.data, value->u.bytes.length))
		capstan_convert_fail(map, "is not valid utf-8", NULL);
	return pnstrdup(value->u.bytes.data, value->u.bytes.length);
}

/* Behind a string's closing quote: is a colon what comes next? */
static bool
is_member_name(const char *behind)
{
	while (*behind == ' ' || *behind == '\t' || *behind == '\n' || *behind == '\r')
		behind++;
	return *behind == ':';
}

/*
 * The escapes of U+0000 taken out or replaced, in place: the text does not grow.  An escaped backslash
 * before u0000 is no such escape, so the strings are walked through.
 */
static void
apply_nul_bytes(ColumnMap *map, char *json)
{
	bool		replace = map->table->policies.nul_bytes == NUL_BYTES_REPLACE;
	bool		in_string = false;
	bool		changed = false;	/* in this string */
	bool		counted = false;
	char	   *out = json;

	for (const char *in = json; *in != '\0';)
	{
		if (in_string && strncmp(in, NUL_ESCAPE, NUL_ESCAPE_LENGTH) == 0)
		{
			if (!counted)
				capstan_convert_count_nul(map);
			counted = true;
			changed = true;
			in += NUL_ESCAPE_LENGTH;
			if (replace)
			{
				memcpy(out, "\xEF\xBF\xBD", 3);
				out += 3;
			}
			continue;
		}
		if (in_string && in[0] == '\\' && in[1] != '\0')
			*out++ = *in++;		/* and what it escapes, below */
		else if (*in == '"')
		{
			if (in_string && changed && is_member_name(in + 1))
				capstan_convert_fail(map, "has U+0000 in the name of a JSON member, where no substitute is safe",
									 "Use json or text for the target column, or correct the value on the source.");
			in_string = !in_string;
			changed = false;
		}
		*out++ = *in++;
	}
	*out = '\0';
}

static Datum
call_jsonb_in(ColumnMap *map, void *arg)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum((char *) arg));
}

static Datum
call_json_in(ColumnMap *map, void *arg)
{
	return DirectFunctionCall1(json_in, CStringGetDatum((char *) arg));
}

Datum
capstan_convert_jsonb(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	char	   *json;

	if (convert_null(value, isnull))
		return (Datum) 0;
	json = json_text_of(map, value);
	if (strstr(json, NUL_ESCAPE) != NULL)
		apply_nul_bytes(map, json);
	return capstan_convert_guarded(map, call_jsonb_in, json);
}

Datum
capstan_convert_json(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	return capstan_convert_guarded(map, call_json_in, json_text_of(map, value));
}

Datum
capstan_convert_json_text(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	if (convert_null(value, isnull))
		return (Datum) 0;
	return PointerGetDatum(cstring_to_text(json_text_of(map, value)));
}
