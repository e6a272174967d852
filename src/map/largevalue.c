/*
 * largevalue.c
 *		Values of many megabytes that are moved into the target's tuple instead of being copied.
 *
 * A converter copies a value out of the producer's buffer, and Postgres copies the Datum into the tuple: a row of 200 MB would be there
 * twice at either time.  Here the Datum is an expanded object (utils/expandeddatum.h) that points to the producer's bytes; whoever
 * forms the tuple has it write them there, and each megabyte of the buffer goes back to the system as soon as it is written.
 *
 * So such a Datum is good for one thing, to be put into a tuple once, before anybody looks at the value otherwise and before the producer's
 * bytes are given up (capstan_source_values_forget).  The second time is an ERROR.
 */
#include "postgres.h"

#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "base/pages.h"
#include "compat.h"
#include "map/charset.h"

#define MOVED_AT_ONCE ((Size) 1024 * 1024)

typedef struct LargeValue
{
	ExpandedObjectHeader header;
	SourceBytes bytes;			/* no data once they were moved */
} LargeValue;

static Size
flat_size(ExpandedObjectHeader *header)
{
	return VARHDRSZ + ((LargeValue *) header)->bytes.length;
}

static void
move(ExpandedObjectHeader *header, void *result, Size size)
{
	LargeValue *large = (LargeValue *) header;
	const char *from = large->bytes.data;
	char	   *to = VARDATA(result);

	if (from == NULL)
		elog(ERROR, "a large value was to be moved twice");
	if (size != flat_size(header))
		elog(ERROR, "a large value was to be moved into %zu bytes", size);
	large->bytes.data = NULL;
	SET_VARSIZE(result, size);
	for (Size left = large->bytes.length; left > 0;)
	{
		Size		length = Min(left, MOVED_AT_ONCE);

		memcpy(to, from, length);
		capstan_pages_forget(from, length);
		to += length;
		from += length;
		left -= length;
	}
}

/* Are the value's bytes those of the Datum, and the value one that its converter would take? */
static bool
is_plain(const ColumnMap *column, const SourceBytes *bytes)
{
	if (column->in_key || bytes->length > MAX_VARLENA_DATA || column->source->length_bytes == 0)
		return false;
	if (column->convert == capstan_convert_bytea)
		return true;
	return column->convert == capstan_convert_text && column_private(column)->charset->kind == CHARSET_UTF8 &&
		capstan_charset_is_utf8(bytes->data, bytes->length);
}

bool
capstan_map_large_value(const ColumnMap *column, const SourceValue *value, Datum *datum)
{
	static const ExpandedObjectMethods methods = {flat_size, move};
	LargeValue *large;

	if (!is_plain(column, &value->u.bytes))
		return false;
	large = palloc(sizeof(LargeValue));
	EOH_init_header(&large->header, &methods, CurrentMemoryContext);
	large->bytes = value->u.bytes;
	*datum = EOHPGetRODatum(&large->header);
	return true;
}
