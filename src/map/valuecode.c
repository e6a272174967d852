/*
 * valuecode.c
 *		SourceValues as bytes, to be kept in the catalog (pipeline_table.defaults).
 *
 *	   row   ::= value*
 *	   value ::= kind (1 byte) [ payload ]
 *
 *		NULL, ABSENT				nothing
 *		INT, UINT, TIMESTAMP, TIME, LABEL	8 bytes
 *		FLOAT, DOUBLE				4, 8 bytes, IEEE 754
 *		DATETIME					year 2, month, day, hour, minute, second 1 each, microsecond 4
 *		others						length 4, bytes
 *
 * Integers are big-endian.  What is read back was written by us, but is checked all the same.
 */
#include "postgres.h"

#include "libpq/pqformat.h"

#include "compat.h"
#include "map/internal.h"

bytea *
capstan_map_encode_row(const SourceValue *values, int nvalues)
{
	StringInfoData out;

	pq_begintypsend(&out);
	for (int i = 0; i < nvalues; i++)
	{
		const SourceValue *value = &values[i];

		pq_sendint8(&out, value->kind);
		switch (value->kind)
		{
			case VALUE_NULL:
			case VALUE_ABSENT:
				break;
			case VALUE_INT:
			case VALUE_UINT:
			case VALUE_TIMESTAMP:
			case VALUE_TIME:
			case VALUE_LABEL:
				pq_sendint64(&out, value->u.uinteger);
				break;
			case VALUE_FLOAT:
				pq_sendfloat4(&out, value->u.real32);
				break;
			case VALUE_DOUBLE:
				pq_sendfloat8(&out, value->u.real64);
				break;
			case VALUE_DATETIME:
				pq_sendint16(&out, value->u.datetime.year);
				pq_sendint8(&out, value->u.datetime.month);
				pq_sendint8(&out, value->u.datetime.day);
				pq_sendint8(&out, value->u.datetime.hour);
				pq_sendint8(&out, value->u.datetime.minute);
				pq_sendint8(&out, value->u.datetime.second);
				pq_sendint32(&out, value->u.datetime.microsecond);
				break;
			case VALUE_DECIMAL:
			case VALUE_BITS:
			case VALUE_BYTES:
			case VALUE_JSON:
				pq_sendint32(&out, value->u.bytes.length);
				pq_sendbytes(&out, value->u.bytes.data, value->u.bytes.length);
				break;
			case VALUE_JSON_BINARY:
			case VALUE_JSON_DIFFS:
				elog(ERROR, "a document that is not text cannot be stored");
		}
	}
	return pq_endtypsend(&out);
}

static void
decode_value(StringInfo in, SourceValue *value)
{
	memset(value, 0, sizeof(*value));
	value->kind = pq_getmsgbyte(in);
	switch (value->kind)
	{
		case VALUE_NULL:
		case VALUE_ABSENT:
			break;
		case VALUE_INT:
		case VALUE_UINT:
		case VALUE_TIMESTAMP:
		case VALUE_TIME:
		case VALUE_LABEL:
			value->u.uinteger = pq_getmsgint64(in);
			break;
		case VALUE_FLOAT:
			value->u.real32 = pq_getmsgfloat4(in);
			break;
		case VALUE_DOUBLE:
			value->u.real64 = pq_getmsgfloat8(in);
			break;
		case VALUE_DATETIME:
			value->u.datetime.year = pq_getmsgint(in, 2);
			value->u.datetime.month = pq_getmsgbyte(in);
			value->u.datetime.day = pq_getmsgbyte(in);
			value->u.datetime.hour = pq_getmsgbyte(in);
			value->u.datetime.minute = pq_getmsgbyte(in);
			value->u.datetime.second = pq_getmsgbyte(in);
			value->u.datetime.microsecond = pq_getmsgint(in, 4);
			break;
		case VALUE_DECIMAL:
		case VALUE_BITS:
		case VALUE_BYTES:
		case VALUE_JSON:
			value->u.bytes.length = pq_getmsgint(in, 4);
			value->u.bytes.data = pq_getmsgbytes(in, value->u.bytes.length);
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("a stored value is damaged")));
	}
}

SourceValue *
capstan_map_decode_row(const bytea *encoded, int nvalues)
{
	SourceValue *values = palloc(sizeof(SourceValue) * Max(nvalues, 1));
	StringInfoData in;

	in.data = (char *) VARDATA_ANY(encoded);
	in.len = VARSIZE_ANY_EXHDR(encoded);
	in.maxlen = in.len;
	in.cursor = 0;
	for (int i = 0; i < nvalues; i++)
		decode_value(&in, &values[i]);
	pq_getmsgend(&in);
	return values;
}
