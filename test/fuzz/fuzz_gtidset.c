/*
 * fuzz_gtidset.c
 *		libFuzzer target: two GTID sets, each as text or in the wire form.  u8 choice, u16 length of the first, both.
 *		What is printed reads back as the same set, in both forms, and the algebra holds.
 */
#include "fuzz.h"

static void
must_equal(const GtidSet *a, const GtidSet *b)
{
	if (a == NULL || b == NULL || !capstan_gtidset_equal(a, b))
		FUZZ_FAIL("two sets that must be equal");
}

static void
round_trip(const GtidSet *set)
{
	StrBuf		text;
	StrBuf		encoded;
	CapstanError error = {CAPSTAN_OK, ""};
	GtidSet    *again;

	capstan_strbuf_init(&text);
	capstan_strbuf_init(&encoded);
	capstan_gtidset_format(set, &text);
	again = capstan_gtidset_parse(text.data, text.length, &error);
	must_equal(set, again);
	capstan_gtidset_free(again);
	capstan_gtidset_encode(set, &encoded);
	again = capstan_gtidset_decode((const uint8_t *) encoded.data, encoded.length, &error);
	must_equal(set, again);
	capstan_gtidset_free(again);
	capstan_strbuf_free(&text);
	capstan_strbuf_free(&encoded);
}

/* a = (a - b) + (a & b), b contains nothing of a - b, and the union contains both. */
static void
check_algebra(const GtidSet *a, const GtidSet *b)
{
	GtidSet    *rest = capstan_gtidset_subtract(a, b);
	GtidSet    *both = capstan_gtidset_intersect(a, b);
	GtidSet    *nothing = capstan_gtidset_intersect(rest, b);
	GtidSet    *united = capstan_gtidset_copy(rest);
	GtidSet    *all = capstan_gtidset_copy(a);

	capstan_gtidset_add_set(united, both);
	must_equal(united, a);
	if (!capstan_gtidset_is_empty(nothing) || !capstan_gtidset_contains_set(b, both))
		FUZZ_FAIL("a difference that is none");
	capstan_gtidset_add_set(all, b);
	if (!capstan_gtidset_contains_set(all, a) || !capstan_gtidset_contains_set(all, b))
		FUZZ_FAIL("a union that lacks something");
	if (capstan_gtidset_contains_set(a, b) != capstan_gtidset_equal(all, a))
		FUZZ_FAIL("contains_set and the union disagree");
	round_trip(all);
	capstan_gtidset_free(rest);
	capstan_gtidset_free(both);
	capstan_gtidset_free(nothing);
	capstan_gtidset_free(united);
	capstan_gtidset_free(all);
}

static GtidSet *
read_set(const uint8_t *data, size_t length, bool as_text)
{
	uint8_t    *copy = fuzz_copy(data, length);
	CapstanError error = {CAPSTAN_OK, ""};
	GtidSet    *set = as_text ? capstan_gtidset_parse((const char *) copy, length, &error) :
		capstan_gtidset_decode(copy, length, &error);

	if (set == NULL)
		fuzz_must_explain(&error);
	else
		round_trip(set);
	free(copy);
	return set;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ByteReader	reader = capstan_bytes_reader(data, size);
	uint8_t		choice = capstan_bytes_u8(&reader);
	size_t		length = capstan_bytes_u16(&reader);
	GtidSet    *a;
	GtidSet    *b;

	if (reader.failed)
		return 0;
	length %= capstan_bytes_left(&reader) + 1;
	capstan_memory_largest = 0;
	a = read_set(reader.pos, length, choice & 1);
	b = read_set(reader.pos + length, capstan_bytes_left(&reader) - length, choice & 2);
	if (a != NULL && b != NULL)
		check_algebra(a, b);
	fuzz_check_memory(size);
	capstan_gtidset_free(a);
	capstan_gtidset_free(b);
	return 0;
}
