/*
 * request.c
 *		Arguments of create_pipeline and preflight: read and checked, before anything is asked
 *		of source or target.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "sqlapi/internal.h"

typedef struct Choice
{
	const char *name;
	int			value;
} Choice;

static const Choice zero_dates_choices[] = {
	{"null", ZERO_DATES_NULL}, {"infinity", ZERO_DATES_INFINITY}, {"halt", ZERO_DATES_HALT}, {NULL, 0}
};
static const Choice nul_bytes_choices[] = {
	{"halt", NUL_BYTES_HALT}, {"strip", NUL_BYTES_STRIP}, {"replace", NUL_BYTES_REPLACE}, {NULL, 0}
};

static int
choose(const char *argument, const char *value, const Choice *choices)
{
	char	   *all = "";

	for (int i = 0; choices[i].name != NULL; i++)
	{
		if (strcmp(value, choices[i].name) == 0)
			return choices[i].value;
		all = psprintf("%s%s%s", all, i == 0 ? "" : ", ", choices[i].name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\": \"%s\"", argument, value),
			 errhint("Valid values are %s.", all)));
	return 0;					/* not reached */
}

static void
check_snapshot(const char *snapshot)
{
	if (strcmp(snapshot, "incremental") == 0 || strcmp(snapshot, "consistent") == 0 || strcmp(snapshot, "never") == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\": \"%s\"", "snapshot", snapshot),
			 errhint("Valid values are incremental, consistent, never.")));
}

/* "schema.table": the first point separates them, as on the source side. */
static void
check_pattern(const char *pattern)
{
	const char *point = strchr(pattern, '.');

	if (point == NULL || point == pattern || point[1] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid table pattern: \"%s\"", pattern),
				 errhint("A pattern is schema.table, where * stands for any characters and ? for one: 'shop.*'.")));
}

static List *
read_patterns(ArrayType *array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			count;
	List	   *patterns = NIL;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"tables\" names no table"),
				 errhint("Give at least one pattern schema.table, such as tables => '{shop.*}'.")));
	for (int i = 0; i < count; i++)
	{
		char	   *pattern;
		bool		known = false;
		ListCell   *lc;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument \"tables\" must not contain nulls")));
		pattern = TextDatumGetCString(elements[i]);
		check_pattern(pattern);
		foreach(lc, patterns)
			known = known || strcmp(lfirst(lc), pattern) == 0;
		if (!known)
			patterns = lappend(patterns, pattern);
	}
	return patterns;
}

/* What would touch the rows of other pipelines, or take the same key for right in silence. */
static void
check_shared(const PipelineRequest *request)
{
	if (!request->shared_target)
		return;
	if (request->truncate_target)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("truncate_target contradicts shared_target"),
				 errdetail("It would remove the rows of the other pipelines."),
				 errhint("TRUNCATE the table before the first of its pipelines is created.")));
	if (strcmp(request->snapshot, "incremental") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shared_target needs snapshot => 'incremental'"),
				 errdetail("A consistent copy that starts over empties its targets, and of a target that is declared to equal the source "
						   "nobody knows whose rows are whose.")));
}

void
sqlapi_read_request(FunctionCallInfo fcinfo, int first, PipelineRequest *request)
{
	memset(request, 0, sizeof(PipelineRequest));
	if (PG_ARGISNULL(first))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "server")));
	request->server = pstrdup(NameStr(*PG_GETARG_NAME(first)));
	if (PG_ARGISNULL(first + 1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "tables")));
	request->patterns = read_patterns(PG_GETARG_ARRAYTYPE_P(first + 1));
	request->snapshot = sqlapi_text_argument(fcinfo, first + 2, "snapshot");
	check_snapshot(request->snapshot);
	if (PG_ARGISNULL(first + 3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "truncate_target")));
	request->truncate_target = PG_GETARG_BOOL(first + 3);
	request->zero_dates = sqlapi_text_argument(fcinfo, first + 4, "zero_dates");
	request->policies.zero_dates = choose("zero_dates", request->zero_dates, zero_dates_choices);
	request->nul_bytes = sqlapi_text_argument(fcinfo, first + 5, "nul_bytes");
	request->policies.nul_bytes = choose("nul_bytes", request->nul_bytes, nul_bytes_choices);
	if (PG_ARGISNULL(first + 6))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" must not be null", "shared_target")));
	request->shared_target = PG_GETARG_BOOL(first + 6);

	if (request->truncate_target && strcmp(request->snapshot, "never") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("truncate_target contradicts snapshot => 'never'"),
				 errdetail("Without a copy, the target must hold the source's rows already."),
				 errhint("Leave out truncate_target, or use snapshot => 'incremental'.")));
	check_shared(request);
}
