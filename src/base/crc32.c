/*
 * crc32.c
 *		The CRC-32 of zlib, by zlib; see crc32.h.
 */
#include "base/crc32.h"

#include <zlib.h>

uint32_t
capstan_crc32_extend(uint32_t crc, const void *data, size_t length)
{
	return (uint32_t) crc32_z(crc, data, length);
}

uint32_t
capstan_crc32(const void *data, size_t length)
{
	return capstan_crc32_extend(0, data, length);
}
