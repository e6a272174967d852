/*
 * test_tablemap.c
 *		Table maps: what FULL metadata of every type gives (as signatures), what is refused, the cache of maps,
 *		unwanted tables.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binlog/internal.h"
#include "builder.h"
#include "fixtures.h"

/* Signatures of the tables of data/generate.pl, from FULL metadata; written from their definitions. */
static void
test_signatures(void)
{
	static const struct
	{
		const char *table;
		const char *signature;
	}			expected[] = {
		{"ints", "\"id\" int not null, \"a\" tinyint, \"b\" smallint, \"c\" mediumint, \"d\" int, \"e\" bigint, "
			"\"ua\" tinyint unsigned, \"ub\" smallint unsigned, \"uc\" mediumint unsigned, \"ud\" int unsigned, "
		"\"ue\" bigint unsigned, \"z\" int unsigned, \"t1\" tinyint, \"y\" year, primary key (\"id\")"},
		{"decimals", "\"id\" int not null, \"a\" decimal(65,30), \"b\" decimal(65,0), \"c\" decimal(1,1), "
			"\"d\" decimal(10,2) unsigned, \"e\" decimal(9,9), \"f\" decimal(18,9), \"g\" decimal(20,10), \"h\" decimal(1,0), "
		"\"i\" decimal(30,30), \"j\" decimal(10,1), primary key (\"id\")"},
		{"floats", "\"id\" int not null, \"f\" float, \"d\" double, \"fu\" float unsigned, \"du\" double unsigned, \"f2\" float, "
		"primary key (\"id\")"},
		{"bits", "\"id\" int not null, \"b1\" bit(1), \"b7\" bit(7), \"b8\" bit(8), \"b9\" bit(9), \"b17\" bit(17), \"b33\" bit(33), "
		"\"b64\" bit(64), primary key (\"id\")"},
		{"times", "\"id\" int not null, \"d\" date, \"y\" year, \"dt0\" datetime, \"ts0\" timestamp, \"t0\" time, "
			"\"dt1\" datetime(1), \"ts1\" timestamp(1), \"t1\" time(1), \"dt2\" datetime(2), \"ts2\" timestamp(2), \"t2\" time(2), "
			"\"dt3\" datetime(3), \"ts3\" timestamp(3), \"t3\" time(3), \"dt4\" datetime(4), \"ts4\" timestamp(4), \"t4\" time(4), "
			"\"dt5\" datetime(5), \"ts5\" timestamp(5), \"t5\" time(5), \"dt6\" datetime(6), \"ts6\" timestamp(6), \"t6\" time(6), "
		"primary key (\"id\")"},
		{"lengths", "\"id\" int not null, \"c10\" char(40 bytes) collate 255, \"c63\" char(252 bytes) collate 255, "
			"\"c64\" char(256 bytes) collate 255, \"c255\" char(1020 bytes) collate 255, \"c0\" char(0 bytes) collate 255, "
			"\"v10\" varchar(40 bytes) collate 255, \"v63\" varchar(252 bytes) collate 255, \"v64\" varchar(256 bytes) collate 255, "
			"\"v300\" varchar(1200 bytes) collate 255, \"tt\" tinytext collate 255, \"t\" text collate 255, \"mt\" mediumtext collate 255, "
			"\"lt\" longtext collate 255, \"b1\" binary(1), \"b16\" binary(16), \"b255\" binary(255), \"vb10\" varbinary(10), "
		"\"vb300\" varbinary(300), \"tb\" tinyblob, \"bl\" blob, \"mb\" mediumblob, \"lb\" longblob, primary key (\"id\")"},
		{"shapes", "\"id\" int not null, \"g\" geometry, \"p\" geometry, \"l\" geometry, \"a\" geometry, \"m\" geometry, \"c\" geometry, "
		"primary key (\"id\")"},
		{"vectors", "\"id\" int not null, \"v\" vector, \"w\" vector, primary key (\"id\")"},
		{"odd `na\"me", "\"id\" int not null, \"Größe\" int invisible, \"a\\x5cb\" varchar(120 bytes) collate 255 not null, \"g\" int, "
		"\"st\" int, primary key (\"a\\x5cb\", \"id\")"},
		{"prefixed", "\"id\" int not null, \"t\" text collate 255 not null, primary key (\"t\", \"id\") prefix"},
		{"indexed", "\"id\" int not null, \"j\" json, \"a\" varchar(40 bytes) collate 255, primary key (\"id\")"},
		{"parted", "\"id\" int not null, \"v\" int, primary key (\"id\")"},
		{"hidden", "\"my_row_id\" bigint unsigned not null invisible, \"a\" int, primary key (\"my_row_id\")"},
		{"keyless", "\"id\" int, \"a\" varchar(40 bytes) collate 255"},
	};
	bool		seen[sizeof(expected) / sizeof(expected[0])] = {false};
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	StrBuf		out;

	capstan_strbuf_init(&out);
	fixture_open(&file, "types.binlog", true);
	while (fixture_next(&file, &event, &error))
	{
		if (event.kind != BINLOG_TABLE_MAP)
			continue;
		CHECK(event.u.table->has_names && event.u.table->table_id > 0 && event.u.table->serial > 0);
		CHECK_STR(event.u.table->schema_name, "unit");
		capstan_strbuf_reset(&out);
		capstan_source_table_signature(event.u.table, &out);
		for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		{
			if (strcmp(expected[i].table, event.u.table->table_name) != 0)
				continue;
			seen[i] = true;
			CHECK_STR(out.data, expected[i].signature);
		}
		/* Pieces of the two long ones. */
		if (strcmp(event.u.table->table_name, "labels") == 0)
		{
			CHECK(strstr(out.data, "\"e\" enum('new','active','gone') collate 255, ") != NULL);
			CHECK(strstr(out.data, ",'label 299','label 300') collate 255, ") != NULL);
			CHECK(strstr(out.data, "\"l\" enum('\\xe9','z') collate 8, ") != NULL);
			CHECK(strstr(out.data, "\"q\" enum('it\\x27s','tab\\x09','') collate 255 not null, ") != NULL);
			CHECK(strstr(out.data, ", \"s3\" set('a','b','c') collate 255, ") != NULL);
			CHECK(event.u.table->columns[10].nlabels == 64 && event.u.table->columns[2].nlabels == 300);
		}
		if (strcmp(event.u.table->table_name, "texts") == 0)
		{
			CHECK(strstr(out.data, "\"c_latin1\" char(20 bytes) collate 8, \"v_latin1\" varchar(20 bytes) collate 8, "
						 "\"t_latin1\" text collate 8, ") != NULL);
			CHECK(strstr(out.data, "\"c_utf32\" char(80 bytes) collate 60, ") != NULL);
			CHECK(strstr(out.data, "\"c_binary\" binary(20), \"v_binary\" varbinary(20), \"t_binary\" blob, ") != NULL);
		}
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s", error.message);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		CHECK_MSG(seen[i], "no table map of %s", expected[i].table);
	fixture_close(&file);
	capstan_strbuf_free(&out);
}

/* MINIMAL metadata: types, signs and collations are the same, names, labels and keys are missing. */
static void
test_minimal(void)
{
	BinlogFile	file;
	BinlogEvent event;
	CapstanError error;
	int			maps = 0;

	fixture_open(&file, "minimal.binlog", true);
	while (fixture_next(&file, &event, &error))
	{
		const SourceTable *table = event.u.table;

		if (event.kind != BINLOG_TABLE_MAP)
			continue;
		maps++;
		CHECK(!table->has_names && table->nkey == 0);
		for (int i = 0; i < table->ncolumns; i++)
			CHECK(table->columns[i].name == NULL && table->columns[i].nlabels == 0 && !table->columns[i].in_key);
		if (strcmp(table->table_name, "ints") == 0)
			CHECK(table->columns[10].is_unsigned && !table->columns[5].is_unsigned);
		if (strcmp(table->table_name, "lengths") == 0)
			CHECK(table->columns[15].type == SOURCE_BINARY && table->columns[1].collation == 255);
	}
	CHECK_MSG(error.code == CAPSTAN_OK, "%s", error.message);
	CHECK(maps > 20);
	fixture_close(&file);
}

static void
check_map(const char *types, const char *metadata, const char *optional, CapstanErrorCode expected)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		event;
	BinlogEvent decoded;
	CapstanError error;
	bool		ok;

	capstan_strbuf_init(&event);
	build_table_map(&event, types, metadata, optional);
	ok = build_decode(decoder, &event, &decoded, &error);
	CHECK_MSG(ok == (expected == CAPSTAN_OK) && (ok || error.code == expected),
			  "types %s metadata %s optional %s: %d %s", types, metadata, optional, error.code, error.message);
	capstan_strbuf_free(&event);
	capstan_binlog_free(decoder);
}

/* YEAR has a bit among the signs: those of the columns behind it stand one further. */
static void
test_year_among_numbers(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		event;
	BinlogEvent decoded;
	CapstanError error;

	capstan_strbuf_init(&event);
	build_table_map(&event, "030d0303", "", "0101 50");
	CHECK(build_decode(decoder, &event, &decoded, &error));
	for (int i = 0; i < 4; i++)
		CHECK(decoded.u.table->columns[i].is_unsigned == (i == 3));
	capstan_strbuf_free(&event);
	capstan_binlog_free(decoder);
}

static void
test_refused(void)
{
	/* Nothing optional: right for types that need nothing, else it cannot be told what values mean. */
	check_map("0a", "", "", CAPSTAN_OK);
	check_map("0d", "", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("0d", "", "010180", CAPSTAN_OK);
	check_map("03", "", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("03", "", "010100", CAPSTAN_OK);
	check_map("fc", "02", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("fc", "02", "02013f", CAPSTAN_OK);
	check_map("fc", "02", "0301 3f", CAPSTAN_OK);
	check_map("f5", "04", "", CAPSTAN_OK);
	check_map("ff", "04", "", CAPSTAN_OK);

	/* Types not known. */
	check_map("00", "", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("14", "", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("06", "", "", CAPSTAN_ERROR_UNSUPPORTED);
	check_map("c8", "", "", CAPSTAN_ERROR_UNSUPPORTED);

	/* Metadata of types. */
	check_map("12", "07", "", CAPSTAN_ERROR_MALFORMED);
	check_map("12", "", "", CAPSTAN_ERROR_MALFORMED);
	check_map("12", "0606", "", CAPSTAN_ERROR_MALFORMED);
	check_map("f6", "4200", "010100", CAPSTAN_ERROR_MALFORMED);
	check_map("f6", "0a1f", "010100", CAPSTAN_ERROR_MALFORMED);
	check_map("f6", "0a0b", "010100", CAPSTAN_ERROR_MALFORMED);
	check_map("f6", "0000", "010100", CAPSTAN_ERROR_MALFORMED);
	check_map("10", "0000", "", CAPSTAN_ERROR_MALFORMED);
	check_map("10", "0108", "", CAPSTAN_ERROR_MALFORMED);
	check_map("10", "0800", "", CAPSTAN_ERROR_MALFORMED);
	check_map("fc", "05", "020108", CAPSTAN_ERROR_MALFORMED);
	check_map("fc", "00", "020108", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f703", "", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f809", "", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f800", "", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "0304", "020108", CAPSTAN_ERROR_MALFORMED);
	check_map("04", "08", "010100", CAPSTAN_ERROR_MALFORMED);

	/* Optional fields. */
	check_map("03", "", "0100", CAPSTAN_ERROR_MALFORMED);
	check_map("03", "", "01020000", CAPSTAN_ERROR_MALFORMED);
	check_map("03", "", "0105 00", CAPSTAN_ERROR_MALFORMED);
	check_map("03", "", "01", CAPSTAN_ERROR_MALFORMED);
	check_map("03", "", "010100 63 02 abcd", CAPSTAN_OK);	/* a field of a later server */
	check_map("fc", "02", "020100", CAPSTAN_ERROR_MALFORMED);	/* collation 0 */
	check_map("fc", "02", "0203 08 0108", CAPSTAN_ERROR_MALFORMED);	/* exception for a column that is not there */
	check_map("fc", "02", "0203 08 0009", CAPSTAN_OK);
	check_map("fcfc", "0202", "0205 08 0109 0009", CAPSTAN_ERROR_MALFORMED);	/* not ascending */
	check_map("0a", "", "0402 0161", CAPSTAN_OK);
	check_map("0a", "", "0402 0261", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0404 0161 0162", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0402 0100", CAPSTAN_ERROR_MALFORMED);	/* a NUL in a name */
	check_map("0a", "", "0402 0161 0402 0161", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0801 00", CAPSTAN_OK);
	check_map("0a", "", "0801 01", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0802 0000", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0902 0000", CAPSTAN_OK);
	check_map("0a", "", "0901 00", CAPSTAN_ERROR_MALFORMED);
	check_map("0a", "", "0c00", CAPSTAN_ERROR_MALFORMED);

	/* Labels: names but no labels, none, more than there are bytes. */
	check_map("fe", "f701", "0402 0161", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f701", "0402 0161 0603 01 0161 0a0108", CAPSTAN_OK);
	check_map("fe", "f701", "0402 0161 0603 01 0161", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f701", "0601 00", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f701", "0603 02 0161", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f701", "0604 fdffffff", CAPSTAN_ERROR_MALFORMED);
	check_map("fe", "f801", "0501 41", CAPSTAN_ERROR_MALFORMED);

	/* No columns. */
	check_map("", "", "", CAPSTAN_ERROR_MALFORMED);
}

static bool
want_nothing(void *arg, const char *schema_name, const char *table_name)
{
	int		   *calls = arg;

	CHECK_STR(schema_name, "s");
	CHECK_STR(table_name, "t");
	++*calls;
	return false;
}

static void
test_unwanted(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		event;
	BinlogEvent decoded;
	CapstanError error;
	SourceChange change;
	int			calls = 0;
	uint64_t	serial;

	capstan_strbuf_init(&event);
	capstan_binlog_set_wanted(decoder, want_nothing, &calls);
	/* Of a type that could not be decoded. */
	build_table_map(&event, "14", "", "");
	CHECK(build_decode(decoder, &event, &decoded, &error));
	CHECK(calls == 1 && decoded.u.table->ncolumns == 0);
	build_rows(&event, 30, 1, "00");
	CHECK(build_decode(decoder, &event, &decoded, &error));
	CHECK(decoded.kind == BINLOG_ROWS && decoded.u.rows.table != NULL && decoded.u.rows.statement_end);
	CHECK(capstan_binlog_next_change(decoder, &change, &error) == BINLOG_ERROR);

	/* Wanted from now on: the same bytes are looked at again. */
	build_table_map(&event, "0a", "", "");
	CHECK(build_decode(decoder, &event, &decoded, &error));
	CHECK(calls == 2 && decoded.u.table->ncolumns == 0);
	serial = decoded.u.table->serial;
	capstan_binlog_set_wanted(decoder, NULL, NULL);
	CHECK(build_decode(decoder, &event, &decoded, &error));
	CHECK(calls == 2 && decoded.u.table->ncolumns == 1 && decoded.u.table->serial != serial);
	capstan_strbuf_free(&event);
	capstan_binlog_free(decoder);
}

/* A map holds for one statement; the same bytes come out as the same table, others as another. */
static void
test_cache(void)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		map;
	StrBuf		rows;
	BinlogEvent decoded;
	CapstanError error;
	const SourceTable *table;
	uint64_t	serial;

	capstan_strbuf_init(&map);
	capstan_strbuf_init(&rows);
	build_table_map(&map, "0a", "", "0402 0161");
	build_rows(&rows, 30, 1, "00 5dce0f");
	CHECK(!build_decode(decoder, &rows, &decoded, &error) && error.code == CAPSTAN_ERROR_MALFORMED);
	CHECK(build_decode(decoder, &map, &decoded, &error));
	table = decoded.u.table;
	serial = table->serial;
	CHECK(build_decode(decoder, &rows, &decoded, &error) && decoded.u.rows.table == table);
	/* The rows event ended the statement. */
	CHECK(!build_decode(decoder, &rows, &decoded, &error) && error.code == CAPSTAN_ERROR_MALFORMED);
	CHECK(build_decode(decoder, &map, &decoded, &error));
	CHECK(decoded.u.table == table && table->serial == serial);
	/* The same id, another definition. */
	build_table_map(&map, "0a", "", "0402 0162");
	CHECK(build_decode(decoder, &map, &decoded, &error));
	CHECK(decoded.u.table->serial != serial);
	CHECK_STR(decoded.u.table->columns[0].name, "b");
	serial = decoded.u.table->serial;
	/* Column counts that differ. */
	build_rows(&rows, 30, 2, "00 5dce0f 5dce0f");
	CHECK(!build_decode(decoder, &rows, &decoded, &error) && error.code == CAPSTAN_ERROR_MALFORMED);
	/* A reset forgets all; serials do not come back. */
	capstan_binlog_reset(decoder, false);
	CHECK(build_decode(decoder, &map, &decoded, &error) && decoded.u.table->serial > serial);

	/* Many tables: the cache stays bounded, and more than it holds in one statement is an error. */
	for (int statement = 0; statement < 3; statement++)
	{
		int			mapped = 0;

		capstan_binlog_reset(decoder, false);
		for (int id = 0; id < 6000; id++)
		{
			map.data[19] = (char) id;
			map.data[20] = (char) (id >> 8);
			if (statement == 2 && id % 100 == 99)
			{
				map.data[19] = (char) (id - 1);
				build_rows(&rows, 30, 1, "00 5dce0f");
				rows.data[19] = (char) (id - 1);
				rows.data[20] = (char) (id >> 8);
				CHECK(build_decode(decoder, &rows, &decoded, &error));
			}
			if (!build_decode(decoder, &map, &decoded, &error))
			{
				CHECK(error.code == CAPSTAN_ERROR_LIMIT);
				break;
			}
			mapped++;
		}
		CHECK(statement == 2 ? mapped == 6000 : mapped == 4096);
		CHECK(decoder->tables.count <= 4096);
	}
	capstan_strbuf_free(&map);
	capstan_strbuf_free(&rows);
	capstan_binlog_free(decoder);
}

void
test_tablemap(void)
{
	test_signatures();
	test_minimal();
	test_year_among_numbers();
	test_refused();
	test_unwanted();
	test_cache();
}
