/*
 * kinds.c
 *		Which kinds of things the corpus has.
 *
 * What there is to have is read from the enumerations in the sources themselves, so that a kind that is added there is missing here
 * until something of it is recorded (test/unit/data/generate.pl) or made by hand (handmade.pl).
 */
#include "kinds.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binlog/json_internal.h"

#define MOST 256

static bool events[MOST];		/* by type code */
static bool columns[MOST];		/* BinlogType with a value that is not NULL */
static bool fields[MOST];		/* MetadataField */
static bool values[MOST];		/* SourceValueKind */
static bool json[MOST];			/* JsonType */
static bool statements[MOST];	/* StatementKind */

/* What has no enumeration. */
static const char *const forms[] = {
	"a payload that is compressed",
	"a payload that is not compressed",
	"a table map in a payload",
	"JSON differences in a payload",
	"a GTID with a tag",
	"a GTID without a tag",
	"an insert without some columns",
	"an update without some columns",
	"a delete without some columns",
	"JSON differences with a full image",
	"JSON differences without the document",
	"a table map without names",
	"a key with a prefix",
	"a rows event that only ends a statement",
	"a decimal in JSON",
	"a date in JSON",
	"a time in JSON",
	"a datetime in JSON",
	"bytes in JSON",
};
#define NFORMS (sizeof(forms) / sizeof(forms[0]))
static bool forms_seen[NFORMS];

static void
form(const char *what, bool seen)
{
	for (size_t i = 0; i < NFORMS; i++)
	{
		if (strcmp(forms[i], what) == 0)
		{
			forms_seen[i] |= seen;
			return;
		}
	}
	fprintf(stderr, "no such form: %s\n", what);
	exit(1);
}

void
kinds_event(const BinlogDecoder *decoder, const BinlogEvent *event, bool in_payload)
{
	events[event->type_code] = true;
	switch (event->kind)
	{
		case BINLOG_GTID:
			form("a GTID with a tag", event->u.gtid.gtid.tag[0] != '\0');
			form("a GTID without a tag", event->u.gtid.gtid.tag[0] == '\0');
			break;
		case BINLOG_PAYLOAD:
			form("a payload that is compressed", decoder->payload.compression == PAYLOAD_ZSTD);
			form("a payload that is not compressed", decoder->payload.compression == PAYLOAD_NONE);
			break;
		case BINLOG_TABLE_MAP:
			form("a table map in a payload", in_payload);
			form("a table map without names", !event->u.table->has_names);
			form("a key with a prefix", event->u.table->key_has_prefix);
			break;
		case BINLOG_ROWS:
			form("a rows event that only ends a statement", event->u.rows.table == NULL);
			form("JSON differences in a payload", event->u.rows.partial_json && in_payload);
			form("JSON differences with a full image", event->u.rows.partial_json && event->u.rows.full_image);
			form("an insert without some columns", event->u.rows.kind == CHANGE_INSERT && !event->u.rows.full_image);
			form("an update without some columns", event->u.rows.kind == CHANGE_UPDATE && !event->u.rows.full_image);
			form("a delete without some columns", event->u.rows.kind == CHANGE_DELETE && !event->u.rows.full_image);
			break;
		default:
			break;
	}
}

/* A table map that was decoded without a fault. */
void
kinds_table_map(const uint8_t *body, size_t length)
{
	ByteReader	reader = capstan_bytes_reader(body, length);
	size_t		ncolumns;

	capstan_bytes_skip(&reader, 8);
	capstan_bytes_skip(&reader, capstan_bytes_lenenc(&reader) + 1);
	capstan_bytes_skip(&reader, capstan_bytes_lenenc(&reader) + 1);
	ncolumns = capstan_bytes_lenenc(&reader);
	capstan_bytes_skip(&reader, ncolumns);
	capstan_bytes_skip(&reader, capstan_bytes_lenenc(&reader));
	capstan_bytes_skip(&reader, (ncolumns + 7) / 8);
	while (capstan_bytes_left(&reader) > 0)
	{
		fields[capstan_bytes_u8(&reader)] = true;
		capstan_bytes_skip(&reader, capstan_bytes_lenenc(&reader));
	}
}

static void
note_image(const BinlogDecoder *decoder, const SourceChange *change, const SourceValue *image)
{
	for (int i = 0; image != NULL && i < change->table->ncolumns; i++)
	{
		values[image[i].kind] = true;
		if (image[i].kind != VALUE_NULL && image[i].kind != VALUE_ABSENT)
			columns[decoder->rows.map->layouts[i].code] = true;
		form("JSON differences without the document", image[i].kind == VALUE_JSON_DIFFS);
	}
}

void
kinds_change(const BinlogDecoder *decoder, const SourceChange *change)
{
	note_image(decoder, change, change->before);
	note_image(decoder, change, change->after);
}

static void
note_value(const JsonValue *value)
{
	JsonContainer container;

	json[value->type] = true;
	if (value->type == JSON_OPAQUE && value->length > 0)
	{
		uint8_t		type = value->data[0];

		form("a decimal in JSON", type == BINLOG_TYPE_NEWDECIMAL);
		form("a date in JSON", type == BINLOG_TYPE_DATE);
		form("a time in JSON", type == BINLOG_TYPE_TIME);
		form("a datetime in JSON", type == BINLOG_TYPE_DATETIME);
		form("bytes in JSON", type == BINLOG_TYPE_VARCHAR || type >= BINLOG_TYPE_TINY_BLOB);
	}
	if (value->type > JSON_LARGE_ARRAY || !capstan_json_open(value, &container))
		return;
	for (uint64_t i = 0; i < container.count; i++)
	{
		SourceBytes key;
		JsonValue	element;

		if (capstan_json_element(&container, i, &key, &element))
			note_value(&element);
	}
}

void
kinds_json(const uint8_t *document, size_t length)
{
	JsonValue	value;

	if (length == 0)
		return;
	value.type = document[0];
	value.data = document + 1;
	value.length = length - 1;
	note_value(&value);
}

void
kinds_statement(int kind)
{
	statements[kind] = true;
}

/* ---- what there is ---- */

/* Column types that are refused, so that nothing of them can be had. */
static const char *const refused[] = {"BINLOG_TYPE_DECIMAL", "BINLOG_TYPE_NULL", "BINLOG_TYPE_TYPED_ARRAY"};

static bool
is_refused(const char *name)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
	{
		if (strcmp(refused[i], name) == 0)
			return true;
	}
	return false;
}

/* Of the enumeration that begins behind the line `marker`: each name and its value, and whether it was seen. */
static int
missing_of(const char *source, const char *file, const char *marker, const bool *seen)
{
	char		path[1024];
	char		line[1024];
	FILE	   *in;
	bool		inside = false;
	int			value = -1;
	int			found = 0;
	int			missing = 0;

	snprintf(path, sizeof(path), "%s/%s", source, file);
	in = fopen(path, "r");
	while (in != NULL && fgets(line, sizeof(line), in) != NULL)
	{
		char		name[100];
		char	   *equals;

		if (!inside)
		{
			inside = strncmp(line, marker, strlen(marker)) == 0 && line[strlen(marker)] == '\n';
			continue;
		}
		if (line[0] == '}')
			break;
		if (sscanf(line, "\t%99[A-Z_0-9]", name) != 1)
			continue;
		equals = strchr(line, '=');
		value = equals != NULL && isdigit((unsigned char) equals[2]) ? atoi(equals + 2) : value + 1;
		found++;
		if (value < MOST && !seen[value] && !is_refused(name))
		{
			fprintf(stderr, "the corpus has no %s (%d, %s)\n", name, value, file);
			missing++;
		}
	}
	if (in != NULL)
		fclose(in);
	if (found < 2)
	{
		fprintf(stderr, "no enumeration \"%s\" in %s\n", marker, path);
		exit(1);
	}
	return missing;
}

int
kinds_missing(const char *source)
{
	int			missing = 0;

	missing += missing_of(source, "binlog/events.c", "enum", events);
	missing += missing_of(source, "binlog/internal.h", "typedef enum BinlogType", columns);
	missing += missing_of(source, "binlog/tablemap.c", "typedef enum MetadataField", fields);
	missing += missing_of(source, "row.h", "typedef enum SourceValueKind", values);
	missing += missing_of(source, "binlog/json_internal.h", "typedef enum JsonType", json);
	missing += missing_of(source, "binlog/statement.h", "typedef enum StatementKind", statements);
	for (size_t i = 0; i < NFORMS; i++)
	{
		if (!forms_seen[i])
		{
			fprintf(stderr, "the corpus has not: %s\n", forms[i]);
			missing++;
		}
	}
	return missing;
}
