/*
 * charset_test.c
 *		Character sets, code by code, callable from SQL; for tests only.
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "compat.h"
#include "map/internal.h"

#define TEST_FUNCTION(name) \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

static const CharsetConverter *
charset_arg(FunctionCallInfo fcinfo)
{
	const CharsetConverter *converter = capstan_charset_converter(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	if (converter == NULL)
		elog(ERROR, "no such character set");
	return converter;
}

/* Each `width` bytes converted by themselves; "?" for what cannot be. */
TEST_FUNCTION(map_test_charset_codes);
Datum
map_test_charset_codes(PG_FUNCTION_ARGS)
{
	const CharsetConverter *converter = charset_arg(fcinfo);
	bytea	   *codes = PG_GETARG_BYTEA_PP(1);
	const char *data = VARDATA_ANY(codes);
	int			length = (int) VARSIZE_ANY_EXHDR(codes);
	int			width = PG_GETARG_INT32(2);
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i + width <= length; i += width)
	{
		TextFault	fault;
		text	   *converted = capstan_charset_to_text(converter, data + i, width, &fault);

		if (converted == NULL)
			appendStringInfoChar(&out, '?');
		else
		{
			appendBinaryStringInfo(&out, VARDATA_ANY(converted), VARSIZE_ANY_EXHDR(converted));
			pfree(converted);
		}
	}
	PG_RETURN_BYTEA_P(cstring_to_text_with_len(out.data, out.len));
}

/* NULL for what cannot be converted. */
TEST_FUNCTION(map_test_charset_text);
Datum
map_test_charset_text(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);
	TextFault	fault;
	text	   *converted = capstan_charset_to_text(charset_arg(fcinfo), VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), &fault);

	if (converted == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(converted);
}

TEST_FUNCTION(map_test_charset_second);
Datum
map_test_charset_second(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_BOOL(capstan_charset_has_second_code(charset_arg(fcinfo), VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)));
}

/* Microseconds for `times` conversions. */
TEST_FUNCTION(map_test_charset_time);
Datum
map_test_charset_time(PG_FUNCTION_ARGS)
{
	const CharsetConverter *converter = charset_arg(fcinfo);
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	for (int i = 0; i < PG_GETARG_INT32(2); i++)
	{
		TextFault	fault;

		pfree(capstan_charset_to_text(converter, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), &fault));
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	PG_RETURN_FLOAT8((double) INSTR_TIME_GET_MICROSEC(end));
}
