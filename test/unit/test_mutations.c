/*
 * test_mutations.c
 *		A small fuzzer: the recorded files with bits flipped, bytes replaced, pieces cut out.  Nothing may crash, read
 *		outside of its buffer (the sanitizers watch), ask for memory without measure (memory_malloc.c
 *		watches) or fail without saying why.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "binlog/binlog.h"
#include "binlog/statement.h"

/* Everything that can be read of one event; whether all of it was fine. */
static bool
exercise(BinlogDecoder *decoder, BinlogEvent *event, CapstanError *error, long *changes)
{
	if (event->kind == BINLOG_ROWS && event->u.rows.table != NULL)
	{
		SourceChange change;
		BinlogNext	next;

		while ((next = capstan_binlog_next_change(decoder, &change, error)) == BINLOG_CHANGE)
			++*changes;
		return next == BINLOG_END;
	}
	if (event->kind == BINLOG_PREVIOUS_GTIDS)
	{
		GtidSet    *set = capstan_gtidset_decode((const uint8_t *) event->u.previous_gtids.data.data,
												 event->u.previous_gtids.data.length, error);
		bool		ok = set != NULL;

		capstan_gtidset_free(set);
		return ok;
	}
	if (event->kind == BINLOG_QUERY)
	{
		Statement	statement;

		capstan_statement_parse(event->u.query.sql.data, event->u.query.sql.length, event->u.query.ansi_quotes,
								event->u.query.no_backslash_escapes, &statement);
		capstan_statement_free(&statement);
	}
	return true;
}

static void
check_error(const CapstanError *error)
{
	CHECK(error->code != CAPSTAN_OK && error->message[0] != '\0' && strlen(error->message) < sizeof(error->message));
}

/* Decodes one event from a buffer of exactly its size, and what is in it. */
static bool
decode_event(BinlogDecoder *decoder, const uint8_t *data, size_t length, long *changes)
{
	uint8_t    *copy = malloc(length > 0 ? length : 1);
	BinlogEvent event;
	CapstanError error = {CAPSTAN_OK, ""};
	bool		ok;

	memcpy(copy, data, length);
	ok = capstan_binlog_decode(decoder, copy, length, &event, &error) && exercise(decoder, &event, &error, changes);
	if (ok && event.kind == BINLOG_PAYLOAD)
	{
		const uint8_t *inner;
		size_t		inner_length;
		int			rc;

		while ((rc = capstan_binlog_payload_next(decoder, &inner, &inner_length, &error)) == 1)
		{
			ok = capstan_binlog_decode_inner(decoder, inner, inner_length, &event, &error) &&
				exercise(decoder, &event, &error, changes);
			if (!ok)
				break;
		}
		ok = ok && rc == 0;
	}
	if (!ok)
		check_error(&error);
	free(copy);
	return ok;
}

static void
mutate(uint8_t *event, size_t *length)
{
	int			times = 1 + (int) (unit_random() % 4);

	for (int i = 0; i < times; i++)
	{
		size_t		at = 19 + (size_t) (unit_random() % (*length - 19));

		switch (unit_random() % 5)
		{
			case 0:
				event[at] ^= (uint8_t) (1 << unit_random() % 8);
				break;
			case 1:
				event[at] = (uint8_t) unit_random();
				break;
			case 2:
				event[at] = unit_random() % 2 == 0 ? 0xff : 0;
				break;
			case 3:
				memset(event + at, (int) unit_random(), *length - at < 8 ? *length - at : 8);
				break;
			default:
				if (*length > 24)
					*length -= unit_random() % (*length - 23);
				break;
		}
		if (*length <= 20)
			break;
	}
	/* The frame stays right, so that what is inside is looked at. */
	for (int i = 0; i < 4; i++)
		event[9 + i] = (uint8_t) (*length >> (8 * i));
}

/* An event of a file that has a checksum, without it. */
static size_t
copy_event(uint8_t *to, const uint8_t *from, size_t body_length)
{
	memcpy(to, from, body_length);
	for (int i = 0; i < 4; i++)
		to[9 + i] = (uint8_t) (body_length >> (8 * i));
	return body_length;
}

/* Each event of the file as it is, and mutated `times` times, by decoders that saw the events before it. */
static void
mutate_file(const char *name, bool checksummed, int times, size_t longest)
{
	size_t		length;
	uint8_t    *data = unit_load(name, &length);
	BinlogDecoder *decoder = capstan_binlog_create();
	long		changes = 0;
	long		refused = 0;
	size_t		pos = 4;
	uint8_t		map[10000];		/* the last table map */
	size_t		map_length = 0;

	/* Without checksums, which mutated events would fail. */
	capstan_binlog_reset(decoder, false);
	while (pos < length)
	{
		ByteReader	reader = capstan_bytes_reader(data + pos + 9, 4);
		size_t		event_length = capstan_bytes_u32(&reader);
		uint8_t    *event = malloc(event_length);
		size_t		body_length = event_length - (checksummed ? 4 : 0);

		if (data[pos + 4] != 15 && event_length < longest)
		{
			for (int i = 0; i < times; i++)
			{
				size_t		mutated_length = copy_event(event, data + pos, body_length);

				/* Rows need one, and each rows event may end its statement. */
				if (map_length > 0)
					decode_event(decoder, map, map_length, &changes);
				mutate(event, &mutated_length);
				refused += !decode_event(decoder, event, mutated_length, &changes);
			}
			if (data[pos + 4] == 19 && body_length < sizeof(map))
				map_length = copy_event(map, data + pos, body_length);
		}
		else if (data[pos + 4] == 15)
		{
			/* All prefixes of the format description, in buffers of their size. */
			for (size_t cut = 19; cut < event_length; cut++)
			{
				BinlogEvent decoded;
				CapstanError error = {CAPSTAN_OK, ""};
				uint8_t    *copy = malloc(cut);

				memcpy(copy, data + pos, cut);
				memcpy(copy + 9, (uint8_t[]) {(uint8_t) cut, 0, 0, 0}, 4);
				if (!capstan_binlog_decode(decoder, copy, cut, &decoded, &error))
					check_error(&error);
				else
					CHECK(cut > 77 && copy[cut - 5] == 0);	/* looks like no checksum */
				free(copy);
			}
			capstan_binlog_reset(decoder, false);
		}
		free(event);
		pos += event_length;
	}
	CHECK_MSG(refused > 100 && changes > 100, "%s: %ld refused, %ld changes", name, refused, changes);
	capstan_binlog_free(decoder);
	free(data);
}

void
test_mutations(void)
{
	mutate_file("types.binlog", true, 200, 10000);
	mutate_file("minimal.binlog", true, 50, 10000);
	mutate_file("json.binlog", true, 40, 1000000);
	mutate_file("differences.binlog", true, 200, 100000);
	mutate_file("transactions.binlog", true, 300, 10000);
	mutate_file("images.binlog", true, 300, 10000);
}
