/*
 * fuzz_text.c
 *		libFuzzer target: statements, GTID sets and JSON documents; the first byte chooses.
 */
#include <stdlib.h>
#include <string.h>

#include "base/gtidset.h"
#include "binlog/binlog.h"
#include "binlog/statement.h"

/* What is printed reads back as the same set, in both forms. */
static void
round_trip(const GtidSet *set)
{
	StrBuf		text;
	StrBuf		encoded;
	CapstanError error;
	GtidSet    *again;

	capstan_strbuf_init(&text);
	capstan_strbuf_init(&encoded);
	capstan_gtidset_format(set, &text);
	again = capstan_gtidset_parse(text.data, text.length, &error);
	if (again == NULL || !capstan_gtidset_equal(set, again))
		abort();
	capstan_gtidset_free(again);
	capstan_gtidset_encode(set, &encoded);
	again = capstan_gtidset_decode((const uint8_t *) encoded.data, encoded.length, &error);
	if (again == NULL || !capstan_gtidset_equal(set, again))
		abort();
	capstan_gtidset_free(again);
	capstan_strbuf_free(&text);
	capstan_strbuf_free(&encoded);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CapstanError error = {CAPSTAN_OK, ""};
	Statement	statement;
	GtidSet    *set;
	StrBuf		out;
	uint8_t		choice;

	if (size == 0)
		return 0;
	choice = data[0];
	data++;
	size--;
	switch (choice % 4)
	{
		case 0:
			capstan_statement_parse((const char *) data, size, choice & 4, choice & 8, &statement);
			capstan_statement_free(&statement);
			break;
		case 1:
		case 2:
			set = choice % 4 == 1 ? capstan_gtidset_parse((const char *) data, size, &error) :
				capstan_gtidset_decode(data, size, &error);
			if (set != NULL)
				round_trip(set);
			else if (error.code == CAPSTAN_OK)
				abort();
			capstan_gtidset_free(set);
			break;
		default:
			capstan_strbuf_init(&out);
			if (!capstan_json_to_text(data, size, &out, &error) && error.code == CAPSTAN_OK)
				abort();
			capstan_strbuf_free(&out);
			break;
	}
	return 0;
}
