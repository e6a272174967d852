/*
 * crc32.c
 *		The CRC-32 of zlib; see crc32.h.
 *
 * zlib's own needs about a nanosecond for a byte of the short events that most transactions consist of.  x86 processors multiply
 * polynomials over GF(2) by an instruction: 16 bytes are folded onto the next 16 (or 64 onto 64) by a product with
 * x^n mod P, bit-reflected, and what is left at the end is reduced by Barrett's method.  The method and its constants:
 * Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 */
#include "base/crc32.h"

#include <zlib.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CRC32_BY_FOLDING
#include <smmintrin.h>
#include <wmmintrin.h>
#endif

#ifdef CRC32_BY_FOLDING

#define FOLDED_AT_ONCE 64

#define CRC32_TARGET __attribute__((target("pclmul,sse4.1")))

static inline CRC32_TARGET __m128i
load(const unsigned char *data)
{
	return _mm_loadu_si128((const __m128i *) data);
}

/* `folded` moved on by the distance that `constants` stand for, onto `next`. */
static inline CRC32_TARGET __m128i
fold(__m128i folded, __m128i constants, __m128i next)
{
	__m128i		low = _mm_clmulepi64_si128(folded, constants, 0x00);
	__m128i		high = _mm_clmulepi64_si128(folded, constants, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* 128 bits to 32. */
static inline CRC32_TARGET uint32_t
reduce(__m128i folded, __m128i by_16)
{
	const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);
	const __m128i to_64 = _mm_set_epi64x(0, 0x163cd6124);
	const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);	/* quotient, polynomial */
	__m128i		rest = _mm_xor_si128(_mm_srli_si128(folded, 8), _mm_clmulepi64_si128(folded, by_16, 0x10));
	__m128i		quotient;

	rest = _mm_xor_si128(_mm_srli_si128(rest, 4), _mm_clmulepi64_si128(_mm_and_si128(rest, low_32), to_64, 0x00));
	quotient = _mm_clmulepi64_si128(_mm_and_si128(rest, low_32), barrett, 0x10);
	quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), barrett, 0x00);
	return (uint32_t) _mm_extract_epi32(_mm_xor_si128(rest, quotient), 1);
}

/* Two shifts by bytes that are known at run time only: loaded from here, a shuffle moves bytes by as many as it is away from the middle. */
static const unsigned char moves[48] = {
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80
};

/*
 * The last 1 to 15 bytes, which end at `end` and have 15 others of ours before them.  The first `length` bytes of `folded` are folded onto
 * sixteen that consist of its others and of these.
 */
static inline CRC32_TARGET __m128i
fold_rest(__m128i folded, __m128i by_16, const unsigned char *end, size_t length)
{
	__m128i		to_end = load(moves + length);
	__m128i		to_start = load(moves + 16 + length);
	__m128i		rest = _mm_and_si128(load(end - 16), _mm_shuffle_epi8(_mm_set1_epi8(-1), to_end));

	return fold(_mm_shuffle_epi8(folded, to_end), by_16, _mm_or_si128(_mm_shuffle_epi8(folded, to_start), rest));
}

/* At least 16 bytes.  The CRC as zlib passes it, inverted at both ends. */
static CRC32_TARGET uint32_t
crc32_folded(uint32_t crc, const unsigned char *data, size_t length)
{
	const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	__m128i		folded = _mm_xor_si128(load(data), _mm_cvtsi32_si128((int) ~crc));

	data += 16;
	length -= 16;
	if (length >= 2 * FOLDED_AT_ONCE - 16)
	{
		__m128i		second = load(data);
		__m128i		third = load(data + 16);
		__m128i		fourth = load(data + 32);

		data += 48;
		length -= 48;
		for (; length >= FOLDED_AT_ONCE; data += FOLDED_AT_ONCE, length -= FOLDED_AT_ONCE)
		{
			folded = fold(folded, by_64, load(data));
			second = fold(second, by_64, load(data + 16));
			third = fold(third, by_64, load(data + 32));
			fourth = fold(fourth, by_64, load(data + 48));
		}
		folded = fold(folded, by_16, second);
		folded = fold(folded, by_16, third);
		folded = fold(folded, by_16, fourth);
	}
	for (; length >= 16; data += 16, length -= 16)
		folded = fold(folded, by_16, load(data));
	if (length > 0)
		folded = fold_rest(folded, by_16, data + length, length);
	return ~reduce(folded, by_16);
}

static bool
can_fold(void)
{
	static int	can = -1;

	if (can < 0)
		can = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
	return can != 0;
}

#endif

uint32_t
capstan_crc32_extend(uint32_t crc, const void *data, size_t length)
{
#ifdef CRC32_BY_FOLDING
	if (length >= 16 && can_fold())
		return crc32_folded(crc, data, length);
#endif
	return (uint32_t) crc32_z(crc, data, length);
}

uint32_t
capstan_crc32(const void *data, size_t length)
{
	return capstan_crc32_extend(0, data, length);
}
