/*
 * kinds.h
 *		Which kinds of things the corpus has, and which it lacks.  For seeds.c only.
 */
#ifndef CAPSTAN_KINDS_H
#define CAPSTAN_KINDS_H

#include "binlog/internal.h"

extern void kinds_event(const BinlogDecoder *decoder, const BinlogEvent *event, bool in_payload);
extern void kinds_table_map(const uint8_t *body, size_t length);
extern void kinds_change(const BinlogDecoder *decoder, const SourceChange *change);
extern void kinds_json(const uint8_t *document, size_t length);
extern void kinds_statement(int kind);
/* Names what is missing on stderr; how many. source: the folder src. */
extern int	kinds_missing(const char *source);

#endif
