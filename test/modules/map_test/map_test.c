/*
 * map_test.c
 *		The functions of map.h, callable from SQL; for tests only.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "portability/instr_time.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "binlog/binlog.h"
#include "compat.h"
#include "map/map.h"
#include "source_spec.h"

PG_MODULE_MAGIC;

/* Built with hidden visibility, as the extension is. */
#define TEST_FUNCTION(name) \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	PG_FUNCTION_INFO_V1(name)

static SourceTable *
table_arg(FunctionCallInfo fcinfo)
{
	return source_spec_table(text_to_cstring(PG_GETARG_TEXT_PP(0)));
}

static void
value_arg(FunctionCallInfo fcinfo, int n, SourceValue *value)
{
	source_spec_value(text_to_cstring(PG_GETARG_TEXT_PP(n)), value);
}

/* A set of texts, by value per call: works on every version. */
static Datum
return_texts(FunctionCallInfo fcinfo, List *(*make) (FunctionCallInfo fcinfo))
{
	FuncCallContext *context;
	List	   *texts;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		context = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
		context->user_fctx = make(fcinfo);
		MemoryContextSwitchTo(old);
	}
	context = SRF_PERCALL_SETUP();
	texts = (List *) context->user_fctx;
	if ((int) context->call_cntr < list_length(texts))
	{
		/* SRF_RETURN_NEXT counts before it looks at its argument. */
		char	   *next = (char *) list_nth(texts, (int) context->call_cntr);

		SRF_RETURN_NEXT(context, CStringGetTextDatum(next));
	}
	SRF_RETURN_DONE(context);
}

static List *
make_default_types(FunctionCallInfo fcinfo)
{
	SourceTable *table = table_arg(fcinfo);
	List	   *result = NIL;

	for (int i = 0; i < table->ncolumns; i++)
	{
		char	   *type = capstan_map_default_type(&table->columns[i]);

		result = lappend(result, psprintf("%s: %s", table->columns[i].name, type != NULL ? type : "none"));
	}
	return result;
}

static const MapPolicies default_policies = {ZERO_DATES_NULL, NUL_BYTES_HALT};

static List *
make_complaints(FunctionCallInfo fcinfo)
{
	return capstan_map_complaints(table_arg(fcinfo), PG_GETARG_OID(1), default_policies);
}

static List *
make_source_complaints(FunctionCallInfo fcinfo)
{
	return capstan_map_source_complaints(table_arg(fcinfo));
}

TEST_FUNCTION(map_test_default_types);
Datum
map_test_default_types(PG_FUNCTION_ARGS)
{
	return return_texts(fcinfo, make_default_types);
}

TEST_FUNCTION(map_test_complaints);
Datum
map_test_complaints(PG_FUNCTION_ARGS)
{
	return return_texts(fcinfo, make_complaints);
}

TEST_FUNCTION(map_test_source_complaints);
Datum
map_test_source_complaints(PG_FUNCTION_ARGS)
{
	return return_texts(fcinfo, make_source_complaints);
}

TEST_FUNCTION(map_test_ddl);
Datum
map_test_ddl(PG_FUNCTION_ARGS)
{
	char	   *schema = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char	   *table = text_to_cstring(PG_GETARG_TEXT_PP(2));

	PG_RETURN_TEXT_P(cstring_to_text(capstan_map_table_ddl(table_arg(fcinfo), schema, table, default_policies)));
}

static SourceValue *
row_arg(FunctionCallInfo fcinfo, int n, const SourceTable *table)
{
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;
	SourceValue *row;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(n), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &nelements);
	if (nelements != table->ncolumns)
		elog(ERROR, "%d values for %d columns", nelements, table->ncolumns);
	row = palloc0(sizeof(SourceValue) * nelements);
	for (int i = 0; i < nelements; i++)
		source_spec_value(nulls[i] ? "null" : TextDatumGetCString(elements[i]), &row[i]);
	return row;
}

static MapPolicies
policies_arg(FunctionCallInfo fcinfo, int n)
{
	char	   *zero_dates = text_to_cstring(PG_GETARG_TEXT_PP(n));
	char	   *nul_bytes = text_to_cstring(PG_GETARG_TEXT_PP(n + 1));
	MapPolicies policies;

	policies.zero_dates = zero_dates[0] == 'n' ? ZERO_DATES_NULL :
		zero_dates[0] == 'i' ? ZERO_DATES_INFINITY : ZERO_DATES_HALT;
	policies.nul_bytes = nul_bytes[0] == 'h' ? NUL_BYTES_HALT :
		nul_bytes[0] == 's' ? NUL_BYTES_STRIP : NUL_BYTES_REPLACE;
	return policies;
}

static void
insert_row(TableMap *map, Datum *values, bool *isnull)
{
	StringInfoData sql;
	StringInfoData parameters;
	Oid		   *types = palloc0(sizeof(Oid) * map->ncolumns);
	Datum	   *arguments = palloc0(sizeof(Datum) * map->ncolumns);
	char	   *nulls = palloc0(map->ncolumns + 1);

	initStringInfo(&sql);
	initStringInfo(&parameters);
	appendStringInfo(&sql, "INSERT INTO %s (",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(map->relid)), get_rel_name(map->relid)));
	for (int i = 0; i < map->ncolumns; i++)
	{
		int			at = map->columns[i].attnum - 1;

		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(get_attname(map->relid, map->columns[i].attnum, false)));
		appendStringInfo(&parameters, "%s$%d", i > 0 ? ", " : "", i + 1);
		types[i] = map->columns[i].typid;
		arguments[i] = values[at];
		nulls[i] = isnull[at] ? 'n' : ' ';
	}
	appendStringInfo(&sql, ") OVERRIDING SYSTEM VALUE VALUES (%s) RETURNING *", parameters.data);
	if (SPI_execute_with_args(sql.data, map->ncolumns, types, arguments, nulls, false, 0) != SPI_OK_INSERT_RETURNING)
		elog(ERROR, "insert failed");

	/*
	 * INSERT brings a parameter to the column's typmod, a copy by tuples does not: so there must have been
	 * nothing left to bring.
	 */
	for (int i = 0; i < map->ncolumns; i++)
	{
		ColumnMap  *column = &map->columns[i];
		bool		stored_isnull;
		Datum		stored = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column->attnum, &stored_isnull);

		if (stored_isnull != (nulls[i] == 'n') ||
			(!stored_isnull && !datum_image_eq(stored, arguments[i], column->typbyval, column->typlen)))
			elog(ERROR, "column \"%s\" was stored otherwise than it was converted", column->source->name);
	}
}

TEST_FUNCTION(map_test_put);
Datum
map_test_put(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue *row = row_arg(fcinfo, 2, table);
	static const SourceDocuments documents = {.text = capstan_json_to_text, .walk = capstan_json_walk};
	TableMap   *map = capstan_map_build(table, PG_GETARG_OID(1), policies_arg(fcinfo, 3), CurrentMemoryContext);
	Datum	   *values = palloc(sizeof(Datum) * map->natts);
	bool	   *isnull = palloc(sizeof(bool) * map->natts);
	char	   *result;

	/* The map has its own copy: what it was built from may be gone. */
	for (int i = 0; i < table->ncolumns; i++)
	{
		memset(table->columns[i].name, 0x5A, strlen(table->columns[i].name));
		for (int j = 0; j < table->columns[i].nlabels; j++)
			memset((char *) table->columns[i].labels[j].data, 0x5A, table->columns[i].labels[j].length);
	}
	memset(table->columns, 0x5A, sizeof(SourceColumn) * table->ncolumns);
	map->documents = &documents;
	SPI_connect();
	capstan_map_row(map, row, values, isnull);
	insert_row(map, values, isnull);
	SPI_finish();
	result = psprintf("zero_dates %d, nul_bytes %d", (int) map->zero_dates_applied, (int) map->nul_bytes_applied);
	MemoryContextDelete(map->context);
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

TEST_FUNCTION(map_test_convert_time);
Datum
map_test_convert_time(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue *row = row_arg(fcinfo, 2, table);
	TableMap   *map = capstan_map_build(table, PG_GETARG_OID(1), default_policies, CurrentMemoryContext);
	Datum	   *values = palloc(sizeof(Datum) * map->natts);
	bool	   *isnull = palloc(sizeof(bool) * map->natts);
	MemoryContext per_row = AllocSetContextCreate(CurrentMemoryContext, "row", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(per_row);
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	for (int i = 0; i < PG_GETARG_INT32(3); i++)
	{
		capstan_map_row(map, row, values, isnull);
		MemoryContextReset(per_row);
	}
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	MemoryContextSwitchTo(old);
	PG_RETURN_FLOAT8((double) INSTR_TIME_GET_MICROSEC(end));
}

TEST_FUNCTION(map_test_key_index);
Datum
map_test_key_index(PG_FUNCTION_ARGS)
{
	TableMap   *map = capstan_map_build(table_arg(fcinfo), PG_GETARG_OID(1), default_policies, CurrentMemoryContext);

	PG_RETURN_OID(map->key_index);
}

TEST_FUNCTION(map_test_key_sort);
Datum
map_test_key_sort(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);

	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s, %s",
											  capstan_map_key_is_ordered(table) ? "ordered" : "not ordered",
											  capstan_map_key_is_pageable(table) ? "pageable" : "not pageable")));
}

TEST_FUNCTION(map_test_compare_key);
Datum
map_test_compare_key(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue a;
	SourceValue b;
	int			result;

	value_arg(fcinfo, 1, &a);
	value_arg(fcinfo, 2, &b);
	result = capstan_map_compare_key(&table->columns[0], &a, &b);
	PG_RETURN_INT32(result < 0 ? -1 : result > 0 ? 1 : 0);
}

TEST_FUNCTION(map_test_same_value);
Datum
map_test_same_value(PG_FUNCTION_ARGS)
{
	SourceValue a;
	SourceValue b;

	value_arg(fcinfo, 0, &a);
	value_arg(fcinfo, 1, &b);
	if (b.kind == VALUE_DATETIME)
	{
		/* Padding differs, the value does not. */
		SourceDateTime copy = b.u.datetime;

		memset(&b.u, 0xA5, sizeof(b.u));
		b.u.datetime.year = copy.year;
		b.u.datetime.month = copy.month;
		b.u.datetime.day = copy.day;
		b.u.datetime.hour = copy.hour;
		b.u.datetime.minute = copy.minute;
		b.u.datetime.second = copy.second;
		b.u.datetime.microsecond = copy.microsecond;
	}
	PG_RETURN_BOOL(capstan_map_same_value(&a, &b));
}

TEST_FUNCTION(map_test_encode_key);
Datum
map_test_encode_key(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue value;

	value_arg(fcinfo, 1, &value);
	PG_RETURN_BYTEA_P(capstan_map_encode_key(&table->columns[0], &value));
}

TEST_FUNCTION(map_test_key_survives);
Datum
map_test_key_survives(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue value;
	SourceValue decoded;

	value_arg(fcinfo, 1, &value);
	capstan_map_decode_key(&table->columns[0], capstan_map_encode_key(&table->columns[0], &value), &decoded);
	PG_RETURN_BOOL(capstan_map_same_value(&value, &decoded));
}

TEST_FUNCTION(map_test_decode_key);
Datum
map_test_decode_key(PG_FUNCTION_ARGS)
{
	SourceTable *table = table_arg(fcinfo);
	SourceValue decoded;

	capstan_map_decode_key(&table->columns[0], PG_GETARG_BYTEA_P(1), &decoded);
	PG_RETURN_BOOL(true);
}
