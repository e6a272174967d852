/*
 * builder.c
 *		See builder.h.
 */
#include "builder.h"

#include <string.h>

#include "unit.h"

void
build_uint(StrBuf *out, uint64_t value, int width)
{
	for (int i = 0; i < width; i++)
		capstan_strbuf_append_char(out, (char) (value >> (8 * i)));
}

void
build_uint_be(StrBuf *out, uint64_t value, int width)
{
	for (int i = width - 1; i >= 0; i--)
		capstan_strbuf_append_char(out, (char) (value >> (8 * i)));
}

void
build_lenenc(StrBuf *out, uint64_t value)
{
	if (value < 0xfb)
		build_uint(out, value, 1);
	else if (value <= 0xffff)
	{
		build_uint(out, 0xfc, 1);
		build_uint(out, value, 2);
	}
	else
	{
		build_uint(out, 0xfe, 1);
		build_uint(out, value, 8);
	}
}

static int
digit(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

void
build_hex(StrBuf *out, const char *hex)
{
	for (; *hex != '\0'; hex++)
	{
		if (*hex == ' ')
			continue;
		build_uint(out, (uint64_t) (digit(hex[0]) << 4 | digit(hex[1])), 1);
		hex++;
	}
}

void
build_name(StrBuf *out, const char *name)
{
	build_lenenc(out, strlen(name));
	capstan_strbuf_append(out, name, strlen(name) + 1);
}

void
build_event(StrBuf *out, uint8_t type, uint16_t flags, const StrBuf *body)
{
	capstan_strbuf_reset(out);
	build_uint(out, 1700000000, 4);
	build_uint(out, type, 1);
	build_uint(out, 7, 4);
	build_uint(out, 19 + body->length, 4);
	build_uint(out, 1234, 4);
	build_uint(out, flags, 2);
	capstan_strbuf_append(out, body->data, body->length);
}

void
build_table_map(StrBuf *out, const char *types, const char *metadata, const char *optional)
{
	StrBuf		body;
	StrBuf		part;
	size_t		ncolumns;

	capstan_strbuf_init(&body);
	capstan_strbuf_init(&part);
	build_uint(&body, 1, 6);
	build_uint(&body, 0, 2);
	build_name(&body, "s");
	build_name(&body, "t");
	build_hex(&part, types);
	ncolumns = part.length;
	build_lenenc(&body, ncolumns);
	capstan_strbuf_append(&body, part.data, part.length);
	capstan_strbuf_reset(&part);
	build_hex(&part, metadata);
	build_lenenc(&body, part.length);
	capstan_strbuf_append(&body, part.data, part.length);
	for (size_t i = 0; i < (ncolumns + 7) / 8; i++)
		build_uint(&body, 0xff, 1);
	build_hex(&body, optional);
	build_event(out, 19, 0, &body);
	capstan_strbuf_free(&body);
	capstan_strbuf_free(&part);
}

void
build_rows(StrBuf *out, uint8_t type, int ncolumns, const char *images)
{
	StrBuf		body;

	capstan_strbuf_init(&body);
	build_uint(&body, 1, 6);
	build_uint(&body, BINLOG_ROW_FLAG_STATEMENT_END, 2);
	if (type >= 30)
		build_uint(&body, 2, 2);
	build_lenenc(&body, (uint64_t) ncolumns);
	for (int image = 0; image < (type == 31 || type == 24 || type == 39 ? 2 : 1); image++)
	{
		for (int i = 0; i < ncolumns; i += 8)
			build_uint(&body, ncolumns - i >= 8 ? 0xff : (1u << (ncolumns - i)) - 1, 1);
	}
	build_hex(&body, images);
	build_event(out, type, 0, &body);
	capstan_strbuf_free(&body);
}

bool
build_decode(BinlogDecoder *decoder, const StrBuf *event, BinlogEvent *out, CapstanError *error)
{
	error->code = CAPSTAN_OK;
	error->message[0] = '\0';
	return capstan_binlog_decode(decoder, (const uint8_t *) event->data, event->length, out, error);
}
