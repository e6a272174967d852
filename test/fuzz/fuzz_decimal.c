/*
 * fuzz_decimal.c
 *		libFuzzer target: u8 precision, u8 scale, a packed decimal.  What is printed must be in row.h's form.
 */
#include "binlog/internal.h"
#include "fuzz.h"

static void
check_text(const char *text, size_t length, size_t scale)
{
	size_t		whole = 0;
	bool		negative = length > 0 && text[0] == '-';
	bool		zero = true;

	if (negative)
	{
		text++;
		length--;
	}
	for (size_t i = 0; i < length; i++)
		zero = zero && (text[i] == '0' || text[i] == '.');
	while (whole < length && text[whole] >= '0' && text[whole] <= '9')
		whole++;
	if (whole == 0 || (whole > 1 && text[0] == '0') || (negative && zero))
		FUZZ_FAIL("a decimal that is not in its canonical form");
	if (length - whole != (scale > 0 ? scale + 1 : 0) || (scale > 0 && text[whole] != '.'))
		FUZZ_FAIL("a decimal with the wrong number of digits");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int			precision;
	int			scale;
	uint8_t    *packed;
	size_t		length;
	StrBuf		out;

	if (size < 2)
		return 0;
	precision = 1 + data[0] % DECIMAL_DIGITS_MAX;
	scale = data[1] % (precision + 1);
	length = (size_t) capstan_decimal_packed_size(precision, scale);
	if (size - 2 < length)
		return 0;
	packed = fuzz_copy(data + 2, length);
	capstan_strbuf_init(&out);
	if (capstan_decimal_to_text(packed, precision, scale, &out))
		check_text(out.data, out.length, (size_t) scale);
	capstan_strbuf_free(&out);
	free(packed);
	return 0;
}
