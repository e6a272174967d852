/*
 * decimal_test.c
 *		Is a DECIMAL made directly the very numeric that numeric_in makes of its text?  For tests only.
 */
#include "postgres.h"

#include "access/relation.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "compat.h"
#include "map/internal.h"
#include "source_spec.h"

PG_FUNCTION_INFO_V1(map_test_decimals);
PGDLLEXPORT Datum map_test_decimals(PG_FUNCTION_ARGS);

/* A number of `digits` digits as row.h has it; `pattern` says of what sort. */
static void
make_text(char *out, int precision, int scale, int pattern, uint64 *random)
{
	char		digits[80];
	int			whole = precision - scale;
	int			first = 0;
	bool		zero = true;

	for (int i = 0; i < precision; i++)
	{
		char		any;

		*random = *random * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
		any = (char) ('0' + (*random >> 33) % 10);
		switch (pattern % 8)
		{
			case 0:				/* all nines */
				digits[i] = '9';
				break;
			case 1:				/* a power of ten */
				digits[i] = i == pattern / 8 % precision ? '1' : '0';
				break;
			case 2:				/* zeros at the end */
				digits[i] = i < pattern / 8 % precision ? any : '0';
				break;
			case 3:				/* zeros at the beginning */
				digits[i] = i < pattern / 8 % precision ? '0' : any;
				break;
			case 4:				/* many zeros */
				digits[i] = (*random >> 40) % 3 == 0 ? any : '0';
				break;
			default:
				digits[i] = any;
		}
		zero = zero && digits[i] == '0';
	}
	while (first < whole && digits[first] == '0')
		first++;
	if (!zero && (pattern / 16) % 2 == 1)
		*out++ = '-';
	if (first == whole)
		*out++ = '0';
	while (first < whole)
		*out++ = digits[first++];
	if (scale > 0)
		*out++ = '.';
	while (first < precision)
		*out++ = digits[first++];
	*out = '\0';
}

/* Converts `count` values of a table's only column, a DECIMAL; the first text that became another numeric, or NULL. */
Datum
map_test_decimals(PG_FUNCTION_ARGS)
{
	SourceTable *table = source_spec_table(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	MapPolicies policies = {ZERO_DATES_NULL, NUL_BYTES_HALT};
	TableMap   *map = capstan_map_build(table, PG_GETARG_OID(1), policies, CurrentMemoryContext);
	ColumnMap  *column = &map->columns[0];
	uint64		random = 5;
	char		buffer[80];

	for (int i = 0; i < PG_GETARG_INT32(2); i++)
	{
		SourceValue value;
		Datum		ours;
		Datum		theirs;
		bool		isnull;

		make_text(buffer, table->columns[0].precision, table->columns[0].scale, i, &random);
		value.kind = VALUE_DECIMAL;
		value.u.bytes.data = buffer;
		value.u.bytes.length = strlen(buffer);
		ours = column->convert(column, &value, &isnull);
		theirs = DirectFunctionCall3(numeric_in, CStringGetDatum(buffer), ObjectIdGetDatum(InvalidOid), Int32GetDatum(column->typmod));
		if (isnull || !datum_image_eq(ours, theirs, false, -1))
			PG_RETURN_TEXT_P(cstring_to_text(buffer));
		pfree(DatumGetPointer(ours));
		pfree(DatumGetPointer(theirs));
	}
	PG_RETURN_NULL();
}
