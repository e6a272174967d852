/*
 * convert_json.c
 *		Converters of JSON.
 *
 * A value arrives as the text that MySQL's own CAST(json AS CHAR) prints, or as the document of a row image.  json and text
 * keep that text.  jsonb is what Postgres makes of it; of a document it is made without the text, by what jsonb_in() does behind its
 * parser.  It cannot hold U+0000, which falls under the nul_bytes policy.  In a member's name that is an error even then: without it
 * two members could have one name, and jsonb would keep the last.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "errcodes.h"
#include "map/internal.h"

#define NUL_ESCAPE "\\u0000"
#define NUL_ESCAPE_LENGTH 6
#define REPLACEMENT "\xEF\xBF\xBD"
#define REPLACEMENT_LENGTH 3
#define NUL_IN_NAME "has U+0000 in the name of a JSON member, where no substitute is safe"
#define NUL_IN_NAME_HINT "Use json or text for the target column, or correct the value on the source."

static void
raise_unreadable(const ColumnMap *map, const CapstanError *error)
{
	ereport(ERROR,
			(errcode(CAPSTAN_ERRCODE_UNDECODABLE),
			 errmsg("JSON document of column %s cannot be read: %s", map->source->name, error->message),
			 errhint("Nothing of this transaction was applied. If the source is healthy, this is a fault of capstan: keep the binary log file and report it.")));
}

/* VALUE_JSON, in the current context. */
static SourceValue
text_of_document(const ColumnMap *map, const SourceValue *document)
{
	SourceValue text = {.kind = VALUE_JSON};
	StrBuf		buffer;
	CapstanError error;

	capstan_strbuf_init(&buffer);
	if (!map->table->documents->text((const uint8_t *) document->u.bytes.data, document->u.bytes.length, &buffer, &error))
		raise_unreadable(map, &error);
	text.u.bytes.data = buffer.data;
	text.u.bytes.length = buffer.length;
	return text;
}

/* Checked and with a NUL behind it, for the input functions; to be freed by the caller, who may keep what is in his context for many rows. */
static char *
json_text_of(ColumnMap *map, const SourceValue *value)
{
	bool		is_document = value->kind == VALUE_JSON_BINARY;
	SourceValue text;

	if (is_document)
	{
		text = text_of_document(map, value);
		value = &text;
	}
	if (value->kind != VALUE_JSON)
		capstan_convert_wrong_kind(map, value);
	if (value->u.bytes.length > MAX_VARLENA_DATA)
		capstan_convert_fail(map, "is longer than a Postgres value can be (1 GB)", "Shorten the value on the source.");
	if (!capstan_charset_is_utf8(value->u.bytes.data, value->u.bytes.length))
		capstan_convert_fail(map, "is not valid utf-8", NULL);
	return is_document ? (char *) value->u.bytes.data : pnstrdup(value->u.bytes.data, value->u.bytes.length);
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
				memcpy(out, REPLACEMENT, REPLACEMENT_LENGTH);
				out += REPLACEMENT_LENGTH;
			}
			continue;
		}
		if (in_string && in[0] == '\\' && in[1] != '\0')
			*out++ = *in++;		/* and what it escapes, below */
		else if (*in == '"')
		{
			if (in_string && changed && is_member_name(in + 1))
				capstan_convert_fail(map, NUL_IN_NAME, NUL_IN_NAME_HINT);
			in_string = !in_string;
			changed = false;
		}
		*out++ = *in++;
	}
	*out = '\0';
}

/* ---- jsonb of a document ---- */

typedef struct JsonbBuilder
{
	ColumnMap  *map;
	JsonbParseState *state;		/* the containers around; NULL outside of all */
	JsonbValue	root;			/* when it is known */
	bool		nul_counted;
} JsonbBuilder;

static void
begin_container(void *arg, bool is_object)
{
	JsonbBuilder *builder = (JsonbBuilder *) arg;

	(void) pushJsonbValue(&builder->state, is_object ? WJB_BEGIN_OBJECT : WJB_BEGIN_ARRAY, NULL);
}

static void
end_container(void *arg, bool is_object)
{
	JsonbBuilder *builder = (JsonbBuilder *) arg;
	JsonbValue *container = pushJsonbValue(&builder->state, is_object ? WJB_END_OBJECT : WJB_END_ARRAY, NULL);

	if (builder->state == NULL)
		builder->root = *container;
}

static void
add_value(JsonbBuilder *builder, JsonbValue *value)
{
	if (builder->state == NULL)
		builder->root = *value;
	else
		(void) pushJsonbValue(&builder->state, builder->state->contVal.type == jbvArray ? WJB_ELEM : WJB_VALUE, value);
}

static void
check_length(JsonbBuilder *builder, size_t length)
{
	if (length > JENTRY_OFFLENMASK)
		capstan_convert_fail(builder->map, "has a JSON string that is longer than jsonb can hold (256 MB)",
							 "Use json or text for the target column, or shorten the value on the source.");
}

/* In the current context. */
static void
take_out_nuls(JsonbBuilder *builder, JsonbValue *string)
{
	bool		replace = builder->map->table->policies.nul_bytes == NUL_BYTES_REPLACE;
	const char *in = string->val.string.val;
	const char *end = in + string->val.string.len;
	size_t		length = 0;
	char	   *out;

	for (const char *c = in; c < end; c++)
		length += *c != '\0' ? 1 : replace ? REPLACEMENT_LENGTH : 0;
	check_length(builder, length);
	out = (char *) palloc(length + 1);
	string->val.string.val = out;
	string->val.string.len = (int) length;
	for (; in < end; in++)
	{
		if (*in != '\0')
			*out++ = *in;
		else if (replace)
		{
			memcpy(out, REPLACEMENT, REPLACEMENT_LENGTH);
			out += REPLACEMENT_LENGTH;
		}
	}
}

static JsonbValue
make_string(JsonbBuilder *builder, const char *data, size_t length, bool copy, bool is_name)
{
	JsonbValue	string = {.type = jbvString};
	TextFault	fault;

	check_length(builder, length);
	/* before zero bytes are taken out: what they part is no character, and must not become one */
	fault = capstan_charset_check_utf8(data, length);
	if (fault == TEXT_INVALID)
		capstan_convert_fail(builder->map, "is not valid utf-8", NULL);
	string.val.string.val = copy ? memcpy(palloc(length + 1), data, length) : (char *) data;
	string.val.string.len = (int) length;
	if (fault != TEXT_HAS_NUL)
		return string;
	if (!builder->nul_counted)
		capstan_convert_count_nul(builder->map);
	builder->nul_counted = true;
	if (is_name)
		capstan_convert_fail(builder->map, NUL_IN_NAME, NUL_IN_NAME_HINT);
	take_out_nuls(builder, &string);
	return string;
}

static void
add_name(void *arg, const char *data, size_t length)
{
	JsonbBuilder *builder = (JsonbBuilder *) arg;
	JsonbValue	name = make_string(builder, data, length, false, true);

	(void) pushJsonbValue(&builder->state, WJB_KEY, &name);
}

static void
add_string(void *arg, const char *data, size_t length, bool made)
{
	JsonbBuilder *builder = (JsonbBuilder *) arg;
	JsonbValue	string = make_string(builder, data, length, made, false);

	add_value(builder, &string);
}

static void
add_integer(void *arg, int64_t integer)
{
	JsonbValue	value = {.type = jbvNumeric};

	value.val.numeric = int64_to_numeric(integer);
	add_value((JsonbBuilder *) arg, &value);
}

static void
add_number(void *arg, const char *text)
{
	JsonbValue	value = {.type = jbvNumeric};

	value.val.numeric = DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	add_value((JsonbBuilder *) arg, &value);
}

static void
add_boolean(void *arg, bool boolean)
{
	JsonbValue	value = {.type = jbvBool};

	value.val.boolean = boolean;
	add_value((JsonbBuilder *) arg, &value);
}

static void
add_null(void *arg)
{
	JsonbValue	value = {.type = jbvNull};

	add_value((JsonbBuilder *) arg, &value);
}

static Datum
build_jsonb(ColumnMap *map, void *arg)
{
	static const SourceDocumentVisitor visitor = {
		.begin = begin_container,
		.end = end_container,
		.name = add_name,
		.string = add_string,
		.integer = add_integer,
		.number = add_number,
		.boolean = add_boolean,
		.null = add_null,
	};
	static MemoryContext workspace = NULL;
	const SourceBytes *document = (const SourceBytes *) arg;
	JsonbBuilder builder = {.map = map};
	CapstanError error;
	MemoryContext caller;
	Datum		result;

	/* Its parts take several times the memory of the whole, and the caller may keep what is in his context for many rows. */
	if (workspace == NULL)
		workspace = AllocSetContextCreate(TopMemoryContext, "capstan JSON document", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(workspace);
	caller = MemoryContextSwitchTo(workspace);
	if (!map->table->documents->walk((const uint8_t *) document->data, document->length, &visitor, &builder, &error))
		raise_unreadable(map, &error);
	MemoryContextSwitchTo(caller);
	result = JsonbPGetDatum(JsonbValueToJsonb(&builder.root));
	MemoryContextReset(workspace);
	return result;
}

/* ---- converters ---- */

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
	Datum		result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	if (value->kind == VALUE_JSON_BINARY)
	{
		SourceBytes document = value->u.bytes;

		return capstan_convert_guarded(map, build_jsonb, &document);
	}
	json = json_text_of(map, value);
	if (strstr(json, NUL_ESCAPE) != NULL)
		apply_nul_bytes(map, json);
	result = capstan_convert_guarded(map, call_jsonb_in, json);
	pfree(json);
	return result;
}

Datum
capstan_convert_json(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	char	   *json;
	Datum		result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	json = json_text_of(map, value);
	result = capstan_convert_guarded(map, call_json_in, json);
	pfree(json);
	return result;
}

Datum
capstan_convert_json_text(ColumnMap *map, const SourceValue *value, bool *isnull)
{
	char	   *json;
	text	   *result;

	if (convert_null(value, isnull))
		return (Datum) 0;
	json = json_text_of(map, value);
	result = cstring_to_text(json);
	pfree(json);
	return PointerGetDatum(result);
}
