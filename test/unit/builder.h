/*
 * builder.h
 *		Events made by hand, for what no server at hand writes any more and for what none
 *		ever should.
 */
#ifndef CAPSTAN_BUILDER_H
#define CAPSTAN_BUILDER_H

#include "base/strbuf.h"
#include "binlog/binlog.h"

extern void build_uint(StrBuf *out, uint64_t value, int width);
extern void build_uint_be(StrBuf *out, uint64_t value, int width);
extern void build_lenenc(StrBuf *out, uint64_t value);
/* Bytes from hex digits; blanks between them are skipped. */
extern void build_hex(StrBuf *out, const char *hex);
/* u8 length, text, NUL. */
extern void build_name(StrBuf *out, const char *name);
/* Header and body; without a checksum. */
extern void build_event(StrBuf *out, uint8_t type, uint16_t flags, const StrBuf *body);

/*
 * A table map with id 1, "s"."t", of columns with the given types and metadata, all nullable, and the
 * optional metadata; all as hex.
 */
extern void build_table_map(StrBuf *out, const char *types, const char *metadata, const char *optional);
/* A rows event for it with one full image or two; the images (with their null bitmaps) as hex. */
extern void build_rows(StrBuf *out, uint8_t type, int ncolumns, const char *images);

/* Decodes with a fresh error. */
extern bool build_decode(BinlogDecoder *decoder, const StrBuf *event, BinlogEvent *out, CapstanError *error);

#endif
