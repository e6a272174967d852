/*
 * fixtures.h
 *		Walking through a recorded binary log file, payloads opened.
 */
#ifndef CAPSTAN_FIXTURES_H
#define CAPSTAN_FIXTURES_H

#include "base/strbuf.h"
#include "binlog/binlog.h"

typedef struct BinlogFile
{
	uint8_t    *data;
	size_t		length;
	size_t		pos;			/* of the event to come */
	BinlogDecoder *decoder;
	bool		in_payload;
	uint64_t	payload_end;	/* end position of the payload event */
} BinlogFile;

extern void fixture_open(BinlogFile *file, const char *name, bool checksummed);
extern void fixture_close(BinlogFile *file);
/*
 * The next event, with those inside payloads after the payload's own; false at the end or on error
 * (error->code tells).
 */
extern bool fixture_next(BinlogFile *file, BinlogEvent *event, CapstanError *error);
/* A change as data/generate.pl writes it; kind, table, images, separated by tabs. */
extern void fixture_format_change(const SourceChange *change, StrBuf *out);

#endif
