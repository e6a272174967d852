/*
 * payload.c
 *		TRANSACTION_PAYLOAD events: the events of a whole transaction, usually
 *		compressed, inflated as a stream.
 *
 * Body (codecs/binary.cpp in MySQL's libs/mysql/binlog/event):
 *
 *	   { lenenc field, lenenc length, value } until field 0, which has neither length nor value
 *			1: lenenc size of the payload, 2: lenenc compression (0 ZSTD, 255 none),
 *			3: lenenc inflated size
 *	   the payload: events with their headers, without checksums, end positions 0
 *
 * Of the inflated bytes only as many are held as the event in hand needs.
 */
#include "binlog/internal.h"

#include <zstd.h>

#include "base/memory.h"

enum
{
	FIELD_END = 0,
	FIELD_PAYLOAD_SIZE = 1,
	FIELD_COMPRESSION = 2,
	FIELD_INFLATED_SIZE = 3
};

/* No server writes a larger event. */
#define EVENT_LENGTH_MAX ((size_t) 1024 * 1024 * 1024)
#define BUFFER_FIRST_CAPACITY ((size_t) 256 * 1024)
#define BUFFER_KEPT ((size_t) 1024 * 1024)

static bool
malformed(const char *what, CapstanError *error)
{
	return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "transaction payload is malformed: %s", what);
}

void
capstan_payload_close(BinlogDecoder *decoder)
{
	PayloadCursor *payload = &decoder->payload;

	payload->open = false;
	payload->begin = 0;
	payload->end = 0;
	if (payload->capacity > BUFFER_KEPT)
	{
		capstan_free(payload->buffer);
		payload->buffer = NULL;
		payload->capacity = 0;
	}
}

void
capstan_payload_free(PayloadCursor *payload)
{
	capstan_free(payload->buffer);
	if (payload->zstd != NULL)
		ZSTD_freeDStream(payload->zstd);
}

bool
capstan_payload_begin(BinlogDecoder *decoder, const uint8_t *body, size_t length,
					  BinlogEvent *event, CapstanError *error)
{
	PayloadCursor *payload = &decoder->payload;
	ByteReader	reader = capstan_bytes_reader(body, length);
	uint64_t	size = UINT64_MAX;
	uint64_t	compression = UINT64_MAX;
	uint64_t	inflated = UINT64_MAX;

	for (;;)
	{
		uint64_t	field = capstan_bytes_lenenc(&reader);
		size_t		value_length;
		ByteReader	value;

		if (field == FIELD_END || reader.failed)
			break;
		value_length = (size_t) capstan_bytes_lenenc(&reader);
		value.pos = capstan_bytes_take(&reader, value_length);
		if (value.pos == NULL)
			break;
		value.end = value.pos + value_length;
		value.failed = false;
		if (field == FIELD_PAYLOAD_SIZE)
			size = capstan_bytes_lenenc(&value);
		else if (field == FIELD_COMPRESSION)
			compression = capstan_bytes_lenenc(&value);
		else if (field == FIELD_INFLATED_SIZE)
			inflated = capstan_bytes_lenenc(&value);
		if (value.failed)
			return malformed("header field", error);
	}
	if (reader.failed || size != capstan_bytes_left(&reader))
		return malformed("its size differs from what the event holds", error);
	if (compression == PAYLOAD_NONE && inflated == UINT64_MAX)
		inflated = size;
	if (inflated == UINT64_MAX)
		return malformed("no inflated size", error);
	if (compression != PAYLOAD_ZSTD && compression != PAYLOAD_NONE)
		return capstan_error(error, CAPSTAN_ERROR_UNSUPPORTED, "transaction payload has unknown compression %llu",
							 (unsigned long long) compression);

	if (compression == PAYLOAD_ZSTD)
	{
		if (payload->zstd == NULL)
			payload->zstd = ZSTD_createDStream();
		if (payload->zstd == NULL || ZSTD_isError(ZSTD_initDStream(payload->zstd)))
			return capstan_error(error, CAPSTAN_ERROR_LIMIT, "out of memory for inflating a transaction payload");
	}
	payload->open = true;
	payload->compression = (PayloadCompression) compression;
	payload->input = reader;
	payload->declared = inflated;
	payload->produced = 0;
	payload->handed_out = 0;
	payload->frame_done = false;
	payload->begin = 0;
	payload->end = 0;
	event->u.payload.compressed_size = size;
	event->u.payload.inflated_size = inflated;
	return true;
}

/* Room behind buffer[end]: by moving what is left to the front, or by growing up to a little over `needed`. */
static void
make_room(PayloadCursor *payload, size_t needed)
{
	size_t		capacity = payload->capacity < BUFFER_FIRST_CAPACITY ? BUFFER_FIRST_CAPACITY : payload->capacity;

	if (payload->begin > 0)
	{
		memmove(payload->buffer, payload->buffer + payload->begin, payload->end - payload->begin);
		payload->end -= payload->begin;
		payload->begin = 0;
	}
	/* Doubling as bytes arrive, so that a length alone does not make us allocate. */
	if (payload->end == payload->capacity)
	{
		if (payload->capacity >= BUFFER_FIRST_CAPACITY)
			capacity = payload->capacity * 2 < needed ? payload->capacity * 2 : needed;
		if (capacity <= payload->end)
			capacity = payload->end + BUFFER_FIRST_CAPACITY;
		payload->buffer = capstan_realloc(payload->buffer, capacity);
		payload->capacity = capacity;
	}
}

/* Inflates until at least `needed` bytes wait; fewer only at the payload's end. */
static bool
inflate_until(PayloadCursor *payload, size_t needed, CapstanError *error)
{
	while (payload->end - payload->begin < needed)
	{
		ZSTD_inBuffer in = {payload->input.pos, capstan_bytes_left(&payload->input), 0};
		ZSTD_outBuffer out;
		size_t		result;

		if (payload->frame_done && in.size == 0)
			return true;
		if (payload->end == payload->capacity || payload->capacity - payload->begin < needed)
			make_room(payload, needed);
		out.dst = payload->buffer + payload->end;
		out.size = payload->capacity - payload->end;
		out.pos = 0;
		result = ZSTD_decompressStream(payload->zstd, &out, &in);
		if (ZSTD_isError(result))
			return capstan_error(error, CAPSTAN_ERROR_MALFORMED, "transaction payload cannot be inflated: %s",
								 ZSTD_getErrorName(result));
		if (out.pos == 0 && in.pos == 0 && result != 0)
			return malformed("compressed bytes are cut off", error);
		payload->input.pos += in.pos;
		payload->end += out.pos;
		payload->produced += out.pos;
		payload->frame_done = result == 0;
		if (payload->produced > payload->declared)
			return malformed("more bytes than declared", error);
	}
	return true;
}

/* At least `needed` bytes at *data, or fewer at the end. */
static bool
peek(PayloadCursor *payload, size_t needed, const uint8_t **data, size_t *available, CapstanError *error)
{
	if (payload->compression == PAYLOAD_NONE)
	{
		*data = payload->input.pos;
		*available = capstan_bytes_left(&payload->input);
		return true;
	}
	if (!inflate_until(payload, needed, error))
		return false;
	*data = payload->buffer + payload->begin;
	*available = payload->end - payload->begin;
	return true;
}

static void
consume(PayloadCursor *payload, size_t length)
{
	payload->handed_out += length;
	if (payload->compression == PAYLOAD_NONE)
	{
		payload->input.pos += length;
		payload->produced += length;
	}
	else
		payload->begin += length;
}

int
capstan_binlog_payload_next(BinlogDecoder *decoder, const uint8_t **data, size_t *length, CapstanError *error)
{
	PayloadCursor *payload = &decoder->payload;
	const uint8_t *bytes;
	size_t		available;
	ByteReader	header;
	size_t		event_length;

	if (!payload->open)
	{
		malformed("none is open", error);
		return -1;
	}
	if (!peek(payload, BINLOG_HEADER_LENGTH, &bytes, &available, error))
		goto failed;
	if (available == 0)
	{
		if (payload->produced != payload->declared)
		{
			malformed("fewer bytes than declared", error);
			goto failed;
		}
		capstan_payload_close(decoder);
		return 0;
	}
	if (available < BINLOG_HEADER_LENGTH)
	{
		malformed("an event's header is cut off", error);
		goto failed;
	}
	header = capstan_bytes_reader(bytes, BINLOG_HEADER_LENGTH);
	capstan_bytes_skip(&header, 9);
	event_length = capstan_bytes_u32(&header);
	/* Before anything is inflated for it: nothing can be longer than what was declared and is not handed out yet. */
	if (event_length < BINLOG_HEADER_LENGTH || event_length > EVENT_LENGTH_MAX ||
		event_length > payload->declared - payload->handed_out)
	{
		malformed("an event's length", error);
		goto failed;
	}
	if (!peek(payload, event_length, &bytes, &available, error))
		goto failed;
	if (available < event_length)
	{
		malformed("an event is cut off", error);
		goto failed;
	}
	consume(payload, event_length);
	*data = bytes;
	*length = event_length;
	return 1;

failed:
	capstan_payload_close(decoder);
	return -1;
}
