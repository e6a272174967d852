/*
 * fuzz_payload.c
 *		libFuzzer target: transaction payloads.  The first byte chooses: the body of the event as it is, or the events
 *		inside, which are put into an honest frame here so that the fuzzer need not guess how to compress; and whether the
 *		declared size is right.
 */
#include <zstd.h>

#include "fuzz.h"

#define PAYLOAD_EVENT 40

/* What may be held: an inner event, so not more than was declared, and the first buffer. */
#define LARGEST_INFLATED ((size_t) 64 * 1024 * 1024)

static void
read_all(BinlogDecoder *decoder)
{
	const uint8_t *data;
	size_t		length;
	CapstanError error = {CAPSTAN_OK, ""};
	size_t		inflated = 0;
	int			rc;

	while ((rc = capstan_binlog_payload_next(decoder, &data, &length, &error)) == 1)
	{
		BinlogEvent event;

		fuzz_touch(data, length);
		inflated += length;
		if (inflated > LARGEST_INFLATED)
			break;
		if (!capstan_binlog_decode_inner(decoder, data, length, &event, &error))
			fuzz_must_explain(&error);
		else if (event.kind == BINLOG_ROWS && event.u.rows.table != NULL && event.u.rows.table->ncolumns > 0)
			fuzz_read_changes(decoder);
	}
	if (rc < 0)
		fuzz_must_explain(&error);
}

static size_t
put_uint(uint8_t *to, uint8_t field, uint64_t value)
{
	to[0] = field;
	to[1] = 9;
	to[2] = 0xfe;
	for (int i = 0; i < 8; i++)
		to[3 + i] = (uint8_t) (value >> (8 * i));
	return 11;
}

static void
decode(const uint8_t *body, size_t body_length)
{
	BinlogDecoder *decoder = capstan_binlog_create();
	size_t		length;
	uint8_t    *raw = fuzz_event(PAYLOAD_EVENT, body, body_length, &length);
	BinlogEvent event;
	CapstanError error = {CAPSTAN_OK, ""};

	if (!capstan_binlog_decode(decoder, raw, length, &event, &error))
		fuzz_must_explain(&error);
	else
		read_all(decoder);
	capstan_binlog_free(decoder);
	free(raw);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		bound = ZSTD_compressBound(size);
	uint8_t    *body;
	size_t		header = 0;
	size_t		compressed;
	uint8_t		choice;

	if (size == 0)
		return 0;
	choice = data[0];
	data++;
	size--;
	if ((choice & 1) == 0)
	{
		decode(data, size);
		return 0;
	}
	body = malloc(64 + bound);
	header += put_uint(body, 2, choice & 2 ? 255 : 0);
	header += put_uint(body + header, 3, choice & 4 ? size + choice : size);
	if (choice & 2)
	{
		compressed = size;
		memcpy(body + 64, data, size);
	}
	else
		compressed = ZSTD_compress(body + 64, bound, data, size, 1);
	header += put_uint(body + header, 1, compressed);
	body[header++] = 0;
	memmove(body + header, body + 64, compressed);
	decode(body, header + compressed);
	free(body);
	return 0;
}
