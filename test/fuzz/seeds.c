/*
 * seeds.c
 *		Makes the inputs that the fuzzers begin with out of the recorded binary log files of test/unit/data.
 *
 * Usage: seeds DIRECTORY SOURCES FILE...		writes DIRECTORY/<target>/<hash>, and says how many of each there are
 *
 * Decoding the files calls what the targets call, with real bytes: the linker's --wrap lets the functions below see
 * them first.  A target without any seed is an error, and so is a kind of thing that the files have none of (kinds.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32.h"
#include "binlog/internal.h"
#include "binlog/statement.h"
#include "kinds.h"

#define HEADER_LENGTH 19
/* Larger ones are slow to mutate and teach nothing. */
#define LARGEST_SEED 20000
/* Added to the type of a rows event: documents are left (fuzz_rows.c).  A multiple of the number of types, from 128 on. */
#define LEAVING 133

static const char *const targets[] = {
	"binlog", "payload", "tablemap", "rows", "json", "jsondiff", "decimal", "gtidset", "statement", "charset"
};

#define NTARGETS (sizeof(targets) / sizeof(targets[0]))

static const char *directory;
static int	counts[NTARGETS];
static StrBuf map_body;			/* of the last table map */
static bool recording;
static bool leaving;			/* the second reading of a file, with documents left as they are: for "rows" only */

static void
save(const char *target, const StrBuf *bytes)
{
	char		path[1024];
	FILE	   *file;
	size_t		at = 0;

	if (bytes->length > LARGEST_SEED || (leaving && strcmp(target, "rows") != 0))
		return;
	while (strcmp(targets[at], target) != 0)
		at++;
	snprintf(path, sizeof(path), "%s/%s/%08x", directory, target, capstan_crc32(bytes->data, bytes->length));
	file = fopen(path, "wb");
	if (file == NULL || fwrite(bytes->data, 1, bytes->length, file) != bytes->length || fclose(file) != 0)
	{
		perror(path);
		exit(1);
	}
	counts[at]++;
}

static void
append_uint(StrBuf *out, uint64_t value, int width)
{
	for (int i = 0; i < width; i++)
		capstan_strbuf_append_char(out, (char) (value >> (8 * i)));
}

/* ---- what the decoder is seen to call ---- */

extern bool __real_capstan_json_to_text(const uint8_t *data, size_t length, StrBuf *out, CapstanError *error);
extern bool __wrap_capstan_json_to_text(const uint8_t *data, size_t length, StrBuf *out, CapstanError *error);
bool
__wrap_capstan_json_to_text(const uint8_t *data, size_t length, StrBuf *out, CapstanError *error)
{
	StrBuf		seed;

	capstan_strbuf_init(&seed);
	capstan_strbuf_append(&seed, data, length);
	if (recording)
	{
		save("json", &seed);
		kinds_json(data, length);
	}
	capstan_strbuf_free(&seed);
	return __real_capstan_json_to_text(data, length, out, error);
}

extern bool __real_capstan_json_apply_diffs(const uint8_t *document, size_t document_length, const uint8_t *diffs,
											size_t diffs_length, StrBuf *out, CapstanError *error);
extern bool __wrap_capstan_json_apply_diffs(const uint8_t *document, size_t document_length, const uint8_t *diffs,
											size_t diffs_length, StrBuf *out, CapstanError *error);
bool
__wrap_capstan_json_apply_diffs(const uint8_t *document, size_t document_length, const uint8_t *diffs,
								size_t diffs_length, StrBuf *out, CapstanError *error)
{
	StrBuf		seed;

	capstan_strbuf_init(&seed);
	append_uint(&seed, document_length, 4);
	capstan_strbuf_append(&seed, document, document_length);
	capstan_strbuf_append(&seed, diffs, diffs_length);
	if (recording)
		save("jsondiff", &seed);
	capstan_strbuf_free(&seed);
	return __real_capstan_json_apply_diffs(document, document_length, diffs, diffs_length, out, error);
}

extern bool __real_capstan_decimal_to_text(const uint8_t *packed, int precision, int scale, StrBuf *out);
extern bool __wrap_capstan_decimal_to_text(const uint8_t *packed, int precision, int scale, StrBuf *out);
bool
__wrap_capstan_decimal_to_text(const uint8_t *packed, int precision, int scale, StrBuf *out)
{
	StrBuf		seed;

	capstan_strbuf_init(&seed);
	append_uint(&seed, (uint64_t) precision - 1, 1);
	append_uint(&seed, (uint64_t) scale, 1);
	capstan_strbuf_append(&seed, packed, (size_t) capstan_decimal_packed_size(precision, scale));
	if (recording)
		save("decimal", &seed);
	capstan_strbuf_free(&seed);
	return __real_capstan_decimal_to_text(packed, precision, scale, out);
}

extern const SourceTable *__real_capstan_tablemap_decode(BinlogDecoder *decoder, const uint8_t *body, size_t length,
														 CapstanError *error);
extern const SourceTable *__wrap_capstan_tablemap_decode(BinlogDecoder *decoder, const uint8_t *body, size_t length,
														 CapstanError *error);
const SourceTable *
__wrap_capstan_tablemap_decode(BinlogDecoder *decoder, const uint8_t *body, size_t length, CapstanError *error)
{
	capstan_strbuf_reset(&map_body);
	capstan_strbuf_append(&map_body, body, length);
	save("tablemap", &map_body);
	kinds_table_map(body, length);
	return __real_capstan_tablemap_decode(decoder, body, length, error);
}

extern bool __real_capstan_rows_begin(BinlogDecoder *decoder, uint8_t type_code, const uint8_t *body, size_t length,
									  BinlogEvent *event, CapstanError *error);
extern bool __wrap_capstan_rows_begin(BinlogDecoder *decoder, uint8_t type_code, const uint8_t *body, size_t length,
									  BinlogEvent *event, CapstanError *error);
bool
__wrap_capstan_rows_begin(BinlogDecoder *decoder, uint8_t type_code, const uint8_t *body, size_t length,
						  BinlogEvent *event, CapstanError *error)
{
	static const uint8_t types[] = {23, 24, 25, 30, 31, 32, 39};
	StrBuf		seed;
	uint8_t		index = 0;

	while (types[index] != type_code)
		index++;
	capstan_strbuf_init(&seed);
	append_uint(&seed, map_body.length, 2);
	capstan_strbuf_append(&seed, map_body.data, map_body.length);
	append_uint(&seed, leaving ? LEAVING + index : index, 1);
	capstan_strbuf_append(&seed, body, length);
	save("rows", &seed);
	capstan_strbuf_free(&seed);
	return __real_capstan_rows_begin(decoder, type_code, body, length, event, error);
}

extern bool __real_capstan_payload_begin(BinlogDecoder *decoder, const uint8_t *body, size_t length,
										 BinlogEvent *event, CapstanError *error);
extern bool __wrap_capstan_payload_begin(BinlogDecoder *decoder, const uint8_t *body, size_t length,
										 BinlogEvent *event, CapstanError *error);
bool
__wrap_capstan_payload_begin(BinlogDecoder *decoder, const uint8_t *body, size_t length, BinlogEvent *event,
							 CapstanError *error)
{
	StrBuf		seed;

	capstan_strbuf_init(&seed);
	append_uint(&seed, 0, 1);
	capstan_strbuf_append(&seed, body, length);
	save("payload", &seed);
	capstan_strbuf_free(&seed);
	return __real_capstan_payload_begin(decoder, body, length, event, error);
}

/* ---- the recorded files ---- */

static void
save_statement(const char *sql, size_t length, bool ansi_quotes, bool no_backslash_escapes)
{
	StrBuf		seed;
	Statement	statement;

	capstan_strbuf_init(&seed);
	append_uint(&seed, (ansi_quotes ? 1u : 0) | (no_backslash_escapes ? 2u : 0), 1);
	capstan_strbuf_append(&seed, sql, length);
	save("statement", &seed);
	capstan_strbuf_free(&seed);
	capstan_statement_parse(sql, length, ansi_quotes, no_backslash_escapes, &statement);
	kinds_statement((int) statement.kind);
	capstan_statement_free(&statement);
}

static void
save_texts(const SourceTable *table, const SourceValue *values)
{
	for (int i = 0; values != NULL && i < table->ncolumns; i++)
	{
		StrBuf		seed;

		if (values[i].kind != VALUE_BYTES || table->columns[i].collation == 0)
			continue;
		capstan_strbuf_init(&seed);
		append_uint(&seed, table->columns[i].collation, 2);
		capstan_strbuf_append(&seed, values[i].u.bytes.data, values[i].u.bytes.length);
		save("charset", &seed);
		capstan_strbuf_free(&seed);
	}
}

static void
read_event(BinlogDecoder *decoder, const BinlogEvent *event, bool in_payload)
{
	SourceChange change;
	CapstanError error;
	BinlogNext	next;

	kinds_event(decoder, event, in_payload);
	if (event->kind == BINLOG_QUERY)
		save_statement(event->u.query.sql.data, event->u.query.sql.length, event->u.query.ansi_quotes,
					   event->u.query.no_backslash_escapes);
	if (event->kind != BINLOG_ROWS || event->u.rows.table == NULL)
		return;
	recording = true;
	while ((next = capstan_binlog_next_change(decoder, &change, &error)) == BINLOG_CHANGE)
	{
		kinds_change(decoder, &change);
		save_texts(change.table, change.before);
		save_texts(change.table, change.after);
	}
	recording = false;
	if (next == BINLOG_ERROR)
	{
		fprintf(stderr, "rows of a recorded event: %s\n", error.message);
		exit(1);
	}
}

/* The events inside as the payload's target wants them, too: to be compressed, and plain. */
static void
read_payload(BinlogDecoder *decoder)
{
	StrBuf		seed;
	BinlogEvent event;
	CapstanError error;
	const uint8_t *data;
	size_t		length;

	capstan_strbuf_init(&seed);
	append_uint(&seed, 1, 1);
	while (capstan_binlog_payload_next(decoder, &data, &length, &error) == 1)
	{
		capstan_strbuf_append(&seed, data, length);
		if (capstan_binlog_decode_inner(decoder, data, length, &event, &error))
			read_event(decoder, &event, true);
	}
	save("payload", &seed);
	seed.data[0] = 3;
	save("payload", &seed);
	capstan_strbuf_free(&seed);
}

/* Whole groups behind the file's format description make small log files. */
static void
read_file(const char *path)
{
	FILE	   *file = fopen(path, "rb");
	static uint8_t data[4 * 1024 * 1024];
	size_t		size;
	size_t		pos = 4;
	BinlogDecoder *decoder = capstan_binlog_create();
	StrBuf		group;
	size_t		head = 0;

	if (leaving)
		capstan_binlog_leave_documents(decoder);

	if (file == NULL)
	{
		perror(path);
		exit(1);
	}
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	capstan_binlog_reset(decoder, true);
	capstan_strbuf_init(&group);
	capstan_strbuf_append(&group, data, 4);
	while (pos + HEADER_LENGTH <= size)
	{
		ByteReader	reader = capstan_bytes_reader(data + pos + 9, 4);
		size_t		length = capstan_bytes_u32(&reader);
		BinlogEvent event;
		CapstanError error;

		if (!capstan_binlog_decode(decoder, data + pos, length, &event, &error))
		{
			fprintf(stderr, "%s at %zu: %s\n", path, pos, error.message);
			exit(1);
		}
		if (event.kind == BINLOG_GTID || event.kind == BINLOG_ANONYMOUS_GTID)
		{
			save("binlog", &group);
			if (head > 0)
				group.length = head;
		}
		capstan_strbuf_append(&group, data + pos, length);
		if (event.kind == BINLOG_FORMAT)
			head = group.length;
		read_event(decoder, &event, false);
		if (event.kind == BINLOG_PAYLOAD)
			read_payload(decoder);
		pos += length;
	}
	save("binlog", &group);
	capstan_strbuf_free(&group);
	capstan_binlog_free(decoder);
}

/* Pairs of sets: as text, and encoded. */
static void
read_gtids(const char *path)
{
	FILE	   *file = fopen(path, "r");
	char		line[4096];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		char	   *second = strchr(line, '\t');
		char	   *end = second != NULL ? strchr(second + 1, '\t') : NULL;
		StrBuf		seed;

		if (end == NULL)
			continue;
		capstan_strbuf_init(&seed);
		append_uint(&seed, 3, 1);
		append_uint(&seed, (size_t) (second - line), 2);
		capstan_strbuf_append(&seed, line, (size_t) (second - line));
		capstan_strbuf_append(&seed, second + 1, (size_t) (end - second - 1));
		save("gtidset", &seed);
		for (int i = 0; i < 2; i++)
		{
			CapstanError error;
			const char *text = i == 0 ? line : second + 1;
			GtidSet    *set = capstan_gtidset_parse(text, (size_t) ((i == 0 ? second : end) - text), &error);
			StrBuf		encoded;

			if (set == NULL)
				continue;
			capstan_strbuf_init(&encoded);
			capstan_gtidset_encode(set, &encoded);
			capstan_strbuf_reset(&seed);
			append_uint(&seed, 0, 1);
			append_uint(&seed, encoded.length, 2);
			capstan_strbuf_append(&seed, encoded.data, encoded.length);
			capstan_strbuf_append(&seed, encoded.data, encoded.length);
			save("gtidset", &seed);
			capstan_strbuf_free(&encoded);
			capstan_gtidset_free(set);
		}
		capstan_strbuf_free(&seed);
	}
	if (file != NULL)
		fclose(file);
}

static void
read_statements(const char *path)
{
	FILE	   *file = fopen(path, "r");
	char		line[4096];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		size_t		length = strcspn(line, "\n");

		for (int i = 0; i < 4; i++)
			save_statement(line, length, i & 1, i & 2);
	}
	if (file != NULL)
		fclose(file);
}

int
main(int argc, char **argv)
{
	int			missing = 0;

	if (argc < 4)
		return 2;
	directory = argv[1];
	mkdir(directory, 0777);
	for (size_t i = 0; i < NTARGETS; i++)
	{
		char		path[1024];

		snprintf(path, sizeof(path), "%s/%s", directory, targets[i]);
		mkdir(path, 0777);
	}
	capstan_strbuf_init(&map_body);
	for (int i = 3; i < argc; i++)
	{
		if (strstr(argv[i], ".tsv") != NULL)
			read_gtids(argv[i]);
		else if (strstr(argv[i], ".sql") != NULL)
			read_statements(argv[i]);
		else
		{
			for (int leave = 0; leave < 2; leave++)
			{
				leaving = leave;
				read_file(argv[i]);
			}
			leaving = false;
		}
	}
	capstan_strbuf_free(&map_body);
	for (size_t i = 0; i < NTARGETS; i++)
	{
		printf("%s%s %d", i > 0 ? ", " : "seeds: ", targets[i], counts[i]);
		missing += counts[i] == 0;
	}
	putchar('\n');
	missing += kinds_missing(argv[2]);
	return missing == 0 ? 0 : 1;
}
