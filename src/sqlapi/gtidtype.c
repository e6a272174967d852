/*
 * gtidtype.c
 *		The SQL type capstan.gtid_set: input, output, set algebra.
 *
 * Called by SQL only.  A value is a varlena with the canonical text (base/gtidset.h), so
 * equality and hashing are those of the bytes, and the cast to text costs nothing.
 * There is no order: sets are only partly ordered, by @>.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"

#include "compat.h"
#include "sqlapi/internal.h"

PG_FUNCTION_INFO_V1(capstan_gtid_set_in);
PG_FUNCTION_INFO_V1(capstan_gtid_set_out);
PG_FUNCTION_INFO_V1(capstan_gtid_set_recv);
PG_FUNCTION_INFO_V1(capstan_gtid_set_send);
PG_FUNCTION_INFO_V1(capstan_gtid_union);
PG_FUNCTION_INFO_V1(capstan_gtid_subtract);
PG_FUNCTION_INFO_V1(capstan_gtid_intersect);
PG_FUNCTION_INFO_V1(capstan_gtid_contains);
PG_FUNCTION_INFO_V1(capstan_gtid_contained);
PG_FUNCTION_INFO_V1(capstan_gtid_overlaps);
PG_FUNCTION_INFO_V1(capstan_gtid_eq);
PG_FUNCTION_INFO_V1(capstan_gtid_ne);
PG_FUNCTION_INFO_V1(capstan_gtid_hash);
PG_FUNCTION_INFO_V1(capstan_gtid_hash_extended);
PG_FUNCTION_INFO_V1(capstan_gtid_count);
PG_FUNCTION_INFO_V1(capstan_gtid_is_empty);

GtidSet *
sqlapi_gtidset_from_text(const char *text, size_t length)
{
	CapstanError error;
	GtidSet    *set = capstan_gtidset_parse(text, length, &error);

	if (set == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s", "gtid_set"),
				 errdetail_internal("%s", error.message),
				 errhint("A GTID set looks like \"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77:80\"; "
						 "a tag stands before its numbers, as in \"uuid:tag:1-5\".")));
	return set;
}

GtidSet *
sqlapi_gtidset_from_datum(Datum value)
{
	text	   *packed = DatumGetTextPP(value);

	return sqlapi_gtidset_from_text(VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
}

static Datum
set_to_datum(const GtidSet *set)
{
	StrBuf		out;

	capstan_strbuf_init(&out);
	capstan_gtidset_format(set, &out);
	return PointerGetDatum(cstring_to_text_with_len(out.data == NULL ? "" : out.data, (int) out.length));
}

Datum
capstan_gtid_set_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);

	return set_to_datum(sqlapi_gtidset_from_text(text, strlen(text)));
}

Datum
capstan_gtid_set_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(TextDatumGetCString(PG_GETARG_DATUM(0)));
}

/* The binary form is the text too: it needs no version of its own. */
Datum
capstan_gtid_set_recv(PG_FUNCTION_ARGS)
{
	StringInfo	message = (StringInfo) PG_GETARG_POINTER(0);
	int			length;
	char	   *text = pq_getmsgtext(message, message->len - message->cursor, &length);

	return set_to_datum(sqlapi_gtidset_from_text(text, length));
}

Datum
capstan_gtid_set_send(PG_FUNCTION_ARGS)
{
	text	   *packed = PG_GETARG_TEXT_PP(0);
	StringInfoData out;

	pq_begintypsend(&out);
	pq_sendtext(&out, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
	PG_RETURN_BYTEA_P(pq_endtypsend(&out));
}

Datum
capstan_gtid_union(PG_FUNCTION_ARGS)
{
	GtidSet    *set = sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0));

	capstan_gtidset_add_set(set, sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1)));
	return set_to_datum(set);
}

Datum
capstan_gtid_subtract(PG_FUNCTION_ARGS)
{
	return set_to_datum(capstan_gtidset_subtract(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0)),
												 sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1))));
}

Datum
capstan_gtid_intersect(PG_FUNCTION_ARGS)
{
	return set_to_datum(capstan_gtidset_intersect(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0)),
												  sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1))));
}

Datum
capstan_gtid_contains(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(capstan_gtidset_contains_set(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0)),
												sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1))));
}

Datum
capstan_gtid_contained(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(capstan_gtidset_contains_set(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1)),
												sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0))));
}

Datum
capstan_gtid_overlaps(PG_FUNCTION_ARGS)
{
	GtidSet    *common = capstan_gtidset_intersect(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0)),
												   sqlapi_gtidset_from_datum(PG_GETARG_DATUM(1)));

	PG_RETURN_BOOL(!capstan_gtidset_is_empty(common));
}

static bool
same_bytes(Datum left, Datum right)
{
	text	   *a = DatumGetTextPP(left);
	text	   *b = DatumGetTextPP(right);

	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

Datum
capstan_gtid_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(same_bytes(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

Datum
capstan_gtid_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!same_bytes(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

Datum
capstan_gtid_hash(PG_FUNCTION_ARGS)
{
	text	   *packed = PG_GETARG_TEXT_PP(0);

	return hash_any((unsigned char *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
}

Datum
capstan_gtid_hash_extended(PG_FUNCTION_ARGS)
{
	text	   *packed = PG_GETARG_TEXT_PP(0);

	return hash_any_extended((unsigned char *) VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed),
							 PG_GETARG_INT64(1));
}

Datum
capstan_gtid_count(PG_FUNCTION_ARGS)
{
	uint64		count = capstan_gtidset_count(sqlapi_gtidset_from_datum(PG_GETARG_DATUM(0)));

	if (count > PG_INT64_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("number of GTIDs out of range for type bigint")));
	PG_RETURN_INT64((int64) count);
}

Datum
capstan_gtid_is_empty(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(0)) == 0);
}
