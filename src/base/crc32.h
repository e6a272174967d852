/*
 * crc32.h
 *		The CRC-32 of zlib, as MySQL puts it at the end of every event.
 */
#ifndef CAPSTAN_CRC32_H
#define CAPSTAN_CRC32_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern uint32_t capstan_crc32(const void *data, size_t length);
/* The CRC of what came before, followed by these bytes; 0 before anything. */
extern uint32_t capstan_crc32_extend(uint32_t crc, const void *data, size_t length);

#endif
