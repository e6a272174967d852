/*
 * test_row.c
 *		Text of column types, and that every fact a signature is made of changes it.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/collation.h"
#include "row.h"

static void
check_type(SourceColumn column, const char *expected)
{
	StrBuf		out;

	capstan_strbuf_init(&out);
	capstan_source_column_type(&column, &out);
	CHECK_STR(out.data, expected);
	capstan_strbuf_free(&out);
}

static void
test_types(void)
{
	check_type((SourceColumn) {.type = SOURCE_BIGINT, .is_unsigned = true}, "bigint unsigned");
	check_type((SourceColumn) {.type = SOURCE_DECIMAL, .precision = 10, .scale = 2}, "decimal(10,2)");
	check_type((SourceColumn) {.type = SOURCE_VARCHAR, .octets = 80, .collation = 255}, "varchar(80 bytes)");
	check_type((SourceColumn) {.type = SOURCE_TEXT, .length_bytes = 1}, "tinytext");
	check_type((SourceColumn) {.type = SOURCE_TEXT, .length_bytes = 2}, "text");
	check_type((SourceColumn) {.type = SOURCE_BLOB, .length_bytes = 3}, "mediumblob");
	check_type((SourceColumn) {.type = SOURCE_BLOB, .length_bytes = 4}, "longblob");
	check_type((SourceColumn) {.type = SOURCE_TIMESTAMP, .scale = 6}, "timestamp(6)");
	check_type((SourceColumn) {.type = SOURCE_TIME}, "time");
	check_type((SourceColumn) {.type = SOURCE_YEAR, .is_unsigned = true}, "year");
	check_type((SourceColumn) {.type = SOURCE_BIT, .precision = 17}, "bit(17)");
	check_type((SourceColumn) {.type = SOURCE_ENUM}, "enum");
	check_type((SourceColumn) {.type = SOURCE_OTHER, .other_name = "xml"}, "xml");
	check_type((SourceColumn) {.type = SOURCE_OTHER}, "unknown type");
	/* Facts that a type does not have do not show. */
	check_type((SourceColumn) {.type = SOURCE_JSON, .length_bytes = 4, .is_unsigned = true}, "json");
	check_type((SourceColumn) {.type = SOURCE_DATE, .octets = 3, .is_unsigned = true}, "date");
}

#define FACTS 14

/* A table with one fact changed, or none. */
static void
make_signature(int fact, StrBuf *out)
{
	static SourceBytes labels[] = {{"a", 1}, {"b,'", 3}, {"other", 5}};
	SourceColumn columns[] = {
		{.name = "id", .type = SOURCE_INT, .in_key = true},
		{.name = "v", .type = SOURCE_VARCHAR, .octets = 80, .collation = 255, .nullable = true},
		{.name = "e", .type = SOURCE_ENUM, .nlabels = 2, .labels = labels, .collation = 255},
		{.name = "d", .type = SOURCE_DECIMAL, .precision = 10, .scale = 2, .nullable = true},
	};
	int			key[] = {0, 1};
	SourceTable table = {
		.schema_name = "s", .table_name = "t", .ncolumns = 4, .columns = columns, .nkey = 1, .key = key
	};
	SourceBytes fewer[] = {labels[0], labels[2]};

	switch (fact)
	{
		case 0:
			columns[0].name = "Id";
			break;
		case 1:
			columns[0].type = SOURCE_BIGINT;
			break;
		case 2:
			columns[0].is_unsigned = true;
			break;
		case 3:
			columns[1].nullable = false;
			break;
		case 4:
			columns[1].octets = 81;
			break;
		case 5:
			columns[1].collation = 45;
			break;
		case 6:
			columns[1].invisible = true;
			break;
		case 7:
			columns[2].labels = fewer;
			break;
		case 8:
			columns[3].scale = 3;
			break;
		case 9:
			table.nkey = 2;
			break;
		case 10:
			table.nkey = 0;
			break;
		case 11:
			key[0] = 1;
			break;
		case 12:
			table.key_has_prefix = true;
			break;
		case 13:
			table.ncolumns = 3;
			break;
	}
	capstan_source_table_signature(&table, out);
}

/* A label of the table map and what the schema shows of it give the same signature. */
static void
check_label(const char *collation, const char *label, size_t length, const char *shown, size_t shown_length)
{
	SourceBytes labels[] = {{label, length}};
	SourceColumn column = {.name = "e", .type = SOURCE_ENUM, .nlabels = 1, .labels = labels, .collation = capstan_collation_id(collation)};
	SourceTable table = {.schema_name = "s", .table_name = "t", .ncolumns = 1, .columns = &column};
	StrBuf		signature;
	StrBuf		expected;

	capstan_strbuf_init(&signature);
	capstan_strbuf_init(&expected);
	CHECK(column.collation != 0);
	capstan_source_table_signature(&table, &signature);
	labels[0].data = shown;
	labels[0].length = shown_length;
	capstan_source_table_signature(&table, &expected);
	CHECK_STR(signature.data, expected.data);
	capstan_strbuf_free(&signature);
	capstan_strbuf_free(&expected);
}

#define CHECK_LABEL(collation, label, shown) check_label(collation, label, sizeof(label) - 1, shown, sizeof(shown) - 1)

/* Beyond the BMP, information_schema shows "?". */
static void
test_labels(void)
{
	CHECK_LABEL("utf8mb4_bin", "a\xf0\x9f\x98\x80z", "a?z");
	CHECK_LABEL("utf8mb4_bin", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", "??");
	CHECK_LABEL("utf16_bin", "\0a\xd8\x3d\xde\0\0z", "\0a\0?\0z");
	CHECK_LABEL("utf16le_bin", "a\0\x3d\xd8\0\xdez\0", "a\0?\0z\0");
	CHECK_LABEL("utf32_bin", "\0\0\0a\0\1\xf6\0", "\0\0\0a\0\0\0?");
	CHECK_LABEL("gb18030_bin", "a\x94\x39\xfc\x36\xd6\xd0", "a?\xd6\xd0");
	/* Nothing of the BMP, and nothing cut off, is taken for one. */
	CHECK_LABEL("gb18030_bin", "\x81\x30\x90\x31\x90\x30", "\x81\x30\x90\x31\x90\x30");
	CHECK_LABEL("utf8mb4_bin", "\xef\xbf\xbf\xf0\x9f\x98", "\xef\xbf\xbf\xf0\x9f\x98");
	CHECK_LABEL("utf16_bin", "\xd8\x3d\xde", "\xd8\x3d\xde");
	CHECK_LABEL("utf32_bin", "\0\1", "\0\1");
	CHECK_LABEL("latin1_bin", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
	CHECK_LABEL("utf8mb4_bin", "", "");
}

/* A table that was dropped between two questions, or of which the account sees no more than the name. */
static void
test_no_columns(void)
{
	SourceTable table = {.schema_name = "s", .table_name = "t"};
	StrBuf		text;

	capstan_strbuf_init(&text);
	capstan_source_table_signature(&table, &text);
	CHECK(text.data != NULL && text.data[0] == '\0');
	capstan_strbuf_free(&text);
	capstan_source_table_shape(&table, &text);
	CHECK(text.data != NULL && text.data[0] == '\0');
	capstan_strbuf_free(&text);
}

void
test_row(void)
{
	StrBuf		signatures[FACTS + 1];

	test_types();
	test_labels();
	test_no_columns();
	for (int i = 0; i <= FACTS; i++)
	{
		capstan_strbuf_init(&signatures[i]);
		make_signature(i, &signatures[i]);
		CHECK(strchr(signatures[i].data, '\n') == NULL);
		for (int j = 0; j < i; j++)
			CHECK_MSG(strcmp(signatures[i].data, signatures[j].data) != 0, "facts %d and %d give the same signature", i, j);
	}
	CHECK_STR(signatures[FACTS].data,
			  "\"id\" int not null, \"v\" varchar(80 bytes) collate 255, \"e\" enum('a','b,\\x27') collate 255 not null, "
			  "\"d\" decimal(10,2), primary key (\"id\")");
	for (int i = 0; i <= FACTS; i++)
		capstan_strbuf_free(&signatures[i]);
}
