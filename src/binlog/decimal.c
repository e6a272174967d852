/*
 * decimal.c
 *		Packed decimals: the storage format of DECIMAL columns, also inside JSON.
 *
 * The digits before and after the point are packed apart, in groups of nine per big-endian
 * 4-byte integer; a rest of 1 to 8 digits takes 1, 1, 2, 2, 3, 3, 4, 4 bytes.  The rest stands first
 * before the point and last after it.  The highest bit of the first byte is inverted; for
 * negative numbers all bits are inverted.  (decimal2bin in MySQL's strings/decimal.cc.)
 */
#include "binlog/internal.h"

#define DIGITS_PER_GROUP 9
#define GROUP_BYTES 4

static const uint8_t bytes_of_digits[DIGITS_PER_GROUP + 1] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t power_of_ten[DIGITS_PER_GROUP + 1] = {
	1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000
};

static int
packed_part_size(int digits)
{
	return digits / DIGITS_PER_GROUP * GROUP_BYTES + bytes_of_digits[digits % DIGITS_PER_GROUP];
}

int
capstan_decimal_packed_size(int precision, int scale)
{
	return packed_part_size(precision - scale) + packed_part_size(scale);
}

/* One group of `digits` digits; advances *from and *to. */
static bool
unpack_group(const uint8_t **from, int digits, uint8_t mask, char **to)
{
	uint32_t	group = 0;

	for (int i = 0; i < bytes_of_digits[digits]; i++)
		group = group << 8 | (uint8_t) (*(*from)++ ^ mask);
	if (group >= power_of_ten[digits])
		return false;
	for (int i = digits - 1; i >= 0; i--)
	{
		(*to)[i] = (char) ('0' + group % 10);
		group /= 10;
	}
	*to += digits;
	return true;
}

bool
capstan_decimal_to_text(const uint8_t *packed, int precision, int scale, StrBuf *out)
{
	uint8_t		copy[DECIMAL_DIGITS_MAX];
	char		digits[DECIMAL_DIGITS_MAX];
	char		text[DECIMAL_DIGITS_MAX + 3];	/* "-0." */
	const uint8_t *from = copy;
	char	   *to = digits;
	char	   *end = text;
	int			whole = precision - scale;
	int			leading = 0;
	bool		negative;
	bool		zero = true;
	uint8_t		mask;

	memcpy(copy, packed, (size_t) capstan_decimal_packed_size(precision, scale));
	negative = (copy[0] & 0x80) == 0;
	mask = negative ? 0xff : 0;
	copy[0] ^= 0x80;

	if (!unpack_group(&from, whole % DIGITS_PER_GROUP, mask, &to))
		return false;
	for (int i = 0; i < whole / DIGITS_PER_GROUP; i++)
	{
		if (!unpack_group(&from, DIGITS_PER_GROUP, mask, &to))
			return false;
	}
	for (int i = 0; i < scale / DIGITS_PER_GROUP; i++)
	{
		if (!unpack_group(&from, DIGITS_PER_GROUP, mask, &to))
			return false;
	}
	if (!unpack_group(&from, scale % DIGITS_PER_GROUP, mask, &to))
		return false;

	for (int i = 0; i < precision && zero; i++)
		zero = digits[i] == '0';
	while (leading < whole && digits[leading] == '0')
		leading++;
	if (negative && !zero)
		*end++ = '-';
	if (leading == whole)
		*end++ = '0';
	memcpy(end, digits + leading, (size_t) (whole - leading));
	end += whole - leading;
	if (scale > 0)
	{
		*end++ = '.';
		memcpy(end, digits + whole, (size_t) scale);
		end += scale;
	}
	capstan_strbuf_append(out, text, (size_t) (end - text));
	return true;
}
