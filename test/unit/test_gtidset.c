/*
 * test_gtidset.c
 *		GTID sets: text, algebra against a naive model, and against what MySQL says
 *		(data/gtids.tsv), the binary form.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gtidset.h"

static GtidSet *
parse(const char *text)
{
	CapstanError error;
	GtidSet    *set = capstan_gtidset_parse(text, strlen(text), &error);

	CHECK_MSG(set != NULL, "\"%s\": %s", text, set == NULL ? error.message : "");
	return set != NULL ? set : capstan_gtidset_create();
}

/* Canonical text in a static buffer. */
static const char *
show(const GtidSet *set)
{
	static StrBuf buffers[4];
	static int	next;
	StrBuf	   *out = &buffers[next++ % 4];

	capstan_strbuf_reset(out);
	capstan_gtidset_format(set, out);
	return out->data;
}

static const char *
show_free(GtidSet *set)
{
	const char *text = show(set);

	capstan_gtidset_free(set);
	return text;
}

#define U1 "3e11fa47-71ca-11e1-9e33-c80aa9429562"
#define U2 "4e11fa47-71ca-11e1-9e33-c80aa9429562"

static void
test_text(void)
{
	static const struct
	{
		const char *input;
		const char *canonical;	/* NULL: refused */
	}			cases[] = {
		{"", ""},
		{" \n", ""},
		{",,", ""},
		{U1 ":1", U1 ":1"},
		{U1 ":1-1", U1 ":1"},
		{U1 ":1-5:7", U1 ":1-5:7"},
		{U1 ":7:1-5:6", U1 ":1-7"},
		{U1 ":3-9:1-4:20:15-30", U1 ":1-9:15-30"},
		{"3E11FA47-71CA-11E1-9E33-C80AA9429562:2", U1 ":2"},
		{" " U2 " : 1 - 3 ,\n" U1 ":9 , ", U1 ":9," U2 ":1-3"},
		{U1 ":1," U1 ":2", U1 ":1-2"},
		{U1 ":1-5:7," U2 ":1-3:tag:1-9:tag2:4", U1 ":1-5:7," U2 ":1-3:tag:1-9:tag2:4"},
		{U1 ":TAG:4:b:1:3:tag:5," U1 ":2", U1 ":2:b:1:3:tag:4-5"},
		{U1 ":_:1", U1 ":_:1"},
		{U1 ":abcdefghijklmnopqrstuvwxyz_01234:1", U1 ":abcdefghijklmnopqrstuvwxyz_01234:1"},
		{U1 ":9223372036854775806", U1 ":9223372036854775806"},
		{U1 ":1-9223372036854775806", U1 ":1-9223372036854775806"},
		{U1 ":abcdefghijklmnopqrstuvwxyz_012345:1", NULL},
		{U1 ":9223372036854775807", NULL},
		{U1 ":99999999999999999999", NULL},
		{U1 ":0", NULL},
		{U1 ":1-0", NULL},
		{U1 ":5-3", NULL},
		{U1, NULL},
		{U1 ":", NULL},
		{U1 ":tag", NULL},
		{U1 ":tag:", NULL},
		{U1 ":1:tag", NULL},
		{U1 ":a:b:1", NULL},
		{U1 ":1-", NULL},
		{U1 ":1x", NULL},
		{U1 ":1 2", NULL},
		{U1 ":-1", NULL},
		{U1 ":1;", NULL},
		{"3e11fa4771ca11e19e33c80aa9429562:1", NULL},
		{"3e11fa47-71ca-11e1-9e33-c80aa942956g:1", NULL},
		{"x", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		CapstanError error = {CAPSTAN_OK, ""};
		GtidSet    *set = capstan_gtidset_parse(cases[i].input, strlen(cases[i].input), &error);

		if (cases[i].canonical == NULL)
		{
			CHECK_MSG(set == NULL, "\"%s\" was accepted", cases[i].input);
			CHECK(error.code == CAPSTAN_ERROR_MALFORMED && error.message[0] != '\0');
			capstan_gtidset_free(set);
		}
		else if (CHECK_MSG(set != NULL, "\"%s\": %s", cases[i].input, error.message))
			CHECK_STR(show_free(set), cases[i].canonical);
	}
}

/* ---- against a model: which of 3 x 40 numbers are in the set ---- */

#define SOURCES 3
#define NUMBERS 40

typedef struct Model
{
	bool		has[SOURCES][NUMBERS + 1];
} Model;

static Gtid
make_gtid(int source, uint64_t number)
{
	static const char *const tags[SOURCES] = {"", "", "tag"};
	Gtid		gtid;

	memset(&gtid, 0, sizeof(gtid));
	gtid.uuid[0] = (uint8_t) (source == 2 ? 1 : source);
	strcpy(gtid.tag, tags[source]);
	gtid.number = number;
	return gtid;
}

static void
check_model(const GtidSet *set, const Model *model)
{
	uint64_t	count = 0;

	for (int s = 0; s < SOURCES; s++)
	{
		for (int n = 1; n <= NUMBERS; n++)
		{
			Gtid		gtid = make_gtid(s, (uint64_t) n);

			count += model->has[s][n];
			if (capstan_gtidset_contains(set, &gtid) != model->has[s][n])
			{
				CHECK_MSG(false, "source %d number %d in %s", s, n, show(set));
				return;
			}
		}
	}
	CHECK(capstan_gtidset_count(set) == count);
	CHECK(capstan_gtidset_is_empty(set) == (count == 0));
	/* What is printed reads back the same, and so does the binary form. */
	{
		GtidSet    *again = parse(show(set));
		StrBuf		encoded;
		CapstanError error;

		CHECK(capstan_gtidset_equal(set, again));
		capstan_gtidset_free(again);
		capstan_strbuf_init(&encoded);
		capstan_gtidset_encode(set, &encoded);
		again = capstan_gtidset_decode((const uint8_t *) encoded.data, encoded.length, &error);
		CHECK(again != NULL && capstan_gtidset_equal(set, again));
		capstan_gtidset_free(again);
		/* Cut off anywhere, it is refused. */
		for (size_t cut = 0; cut < encoded.length; cut += 1 + encoded.length / 16)
		{
			again = capstan_gtidset_decode((const uint8_t *) encoded.data, cut, &error);
			CHECK(again == NULL);
			capstan_gtidset_free(again);
		}
		capstan_strbuf_free(&encoded);
	}
}

static GtidSet *
random_set(Model *model)
{
	GtidSet    *set = capstan_gtidset_create();
	int			steps = (int) (unit_random() % 80);

	memset(model, 0, sizeof(*model));
	for (int i = 0; i < steps; i++)
	{
		int			s = (int) (unit_random() % SOURCES);
		int			n = 1 + (int) (unit_random() % NUMBERS);
		Gtid		gtid = make_gtid(s, (uint64_t) n);

		if (unit_random() % 4 == 0)
		{
			capstan_gtidset_remove(set, &gtid);
			model->has[s][n] = false;
		}
		else
		{
			capstan_gtidset_add(set, &gtid);
			model->has[s][n] = true;
		}
	}
	return set;
}

static void
test_model(void)
{
	for (int round = 0; round < 500; round++)
	{
		Model		a_model;
		Model		b_model;
		Model		expected;
		GtidSet    *a = random_set(&a_model);
		GtidSet    *b = random_set(&b_model);
		GtidSet    *copy = capstan_gtidset_copy(a);
		GtidSet    *result;
		bool		subset = true;

		check_model(a, &a_model);
		CHECK(capstan_gtidset_equal(a, copy));
		capstan_gtidset_add_set(copy, b);
		for (int i = 0; i < SOURCES * (NUMBERS + 1); i++)
			(&expected.has[0][0])[i] = (&a_model.has[0][0])[i] || (&b_model.has[0][0])[i];
		check_model(copy, &expected);
		CHECK(capstan_gtidset_contains_set(copy, a) && capstan_gtidset_contains_set(copy, b));
		capstan_gtidset_add_set(copy, copy);
		check_model(copy, &expected);

		for (int i = 0; i < SOURCES * (NUMBERS + 1); i++)
		{
			(&expected.has[0][0])[i] = (&a_model.has[0][0])[i] && !(&b_model.has[0][0])[i];
			subset = subset && !(&expected.has[0][0])[i];
		}
		result = capstan_gtidset_subtract(a, b);
		check_model(result, &expected);
		CHECK(capstan_gtidset_contains_set(b, a) == subset);
		CHECK(capstan_gtidset_equal(a, b) == (memcmp(&a_model, &b_model, sizeof(Model)) == 0));
		capstan_gtidset_free(result);

		for (int i = 0; i < SOURCES * (NUMBERS + 1); i++)
			(&expected.has[0][0])[i] = (&a_model.has[0][0])[i] && (&b_model.has[0][0])[i];
		result = capstan_gtidset_intersect(a, b);
		check_model(result, &expected);
		capstan_gtidset_free(result);
		capstan_gtidset_free(copy);
		capstan_gtidset_free(a);
		capstan_gtidset_free(b);
	}
}

/* a, b, subset(a, b), subtract(a, b), subtract(b, a), a without nothing; recorded from a server. */
static void
test_server(void)
{
	size_t		length;
	char	   *data = (char *) unit_load("gtids.tsv", &length);
	char	   *rest = data;
	char	   *line;
	int			lines = 0;

	while ((line = unit_line(&rest)) != NULL)
	{
		GtidSet    *a = parse(unit_field(&line, '\t'));
		GtidSet    *b = parse(unit_field(&line, '\t'));
		const char *subset = unit_field(&line, '\t');
		const char *a_without_b = unit_field(&line, '\t');
		const char *b_without_a = unit_field(&line, '\t');

		CHECK(capstan_gtidset_contains_set(b, a) == (subset[0] == '1'));
		CHECK_STR(show_free(capstan_gtidset_subtract(a, b)), a_without_b);
		CHECK_STR(show_free(capstan_gtidset_subtract(b, a)), b_without_a);
		CHECK_STR(show(a), line);
		capstan_gtidset_free(a);
		capstan_gtidset_free(b);
		lines++;
	}
	CHECK(lines > 300);
	free(data);
}

static void
test_encoding(void)
{
	static const uint8_t untagged[] = {
		1, 0, 0, 0, 0, 0, 0, 0,
		0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62,
		2, 0, 0, 0, 0, 0, 0, 0,
		1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0,
		7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0
	};
	static const uint8_t tagged[] = {
		1, 1, 0, 0, 0, 0, 0, 1,
		0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62,
		6, 't', 'a', 'g',
		1, 0, 0, 0, 0, 0, 0, 0,
		9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0
	};
	GtidSet    *set = parse(U1 ":1-5:7");
	StrBuf		out;
	CapstanError error;

	capstan_strbuf_init(&out);
	capstan_gtidset_encode(set, &out);
	CHECK(out.length == sizeof(untagged) && memcmp(out.data, untagged, sizeof(untagged)) == 0);
	capstan_gtidset_free(set);
	capstan_strbuf_reset(&out);
	set = parse(U1 ":tag:9");
	capstan_gtidset_encode(set, &out);
	CHECK(out.length == sizeof(tagged) && memcmp(out.data, tagged, sizeof(tagged)) == 0);
	capstan_gtidset_free(set);

	/* Hostile: a huge count, an empty and a reversed interval, bytes behind, an unknown format, a bad tag. */
	for (int i = 0; i < 6; i++)
	{
		uint8_t		bytes[sizeof(untagged) + 1];
		size_t		length = sizeof(untagged);

		memcpy(bytes, untagged, length);
		bytes[length] = 0;
		switch (i)
		{
			case 0:
				memset(bytes, 0xff, 7);
				break;
			case 1:
				bytes[40] = 1;
				break;
			case 2:
				memset(bytes + 40, 0xff, 8);
				break;
			case 3:
				length++;
				break;
			case 4:
				bytes[7] = 2;
				break;
			case 5:
				memset(bytes + 24, 0xff, 8);
				break;
		}
		set = capstan_gtidset_decode(bytes, length, &error);
		CHECK_MSG(set == NULL, "hostile encoding %d", i);
		capstan_gtidset_free(set);
	}
	capstan_strbuf_free(&out);
}

static void
test_single(void)
{
	Gtid		gtid = make_gtid(0, 1);
	char		text[CAPSTAN_GTID_TEXT_MAX];
	uint8_t		uuid[16];
	char		uuid_text[37];
	GtidSet    *set;

	CHECK(capstan_uuid_parse(U1, uuid));
	capstan_uuid_format(uuid, uuid_text);
	CHECK_STR(uuid_text, U1);
	CHECK(!capstan_uuid_parse("3e11fa47-71ca-11e1-9e33-c80aa942956", uuid));
	CHECK(!capstan_uuid_parse("", uuid));
	memcpy(gtid.uuid, uuid, 16);
	gtid.number = INT64_MAX - 1;
	memset(gtid.tag, 't', CAPSTAN_GTID_TAG_MAX);
	gtid.tag[CAPSTAN_GTID_TAG_MAX] = '\0';
	capstan_gtid_format(&gtid, text);
	CHECK_STR(text, U1 ":tttttttttttttttttttttttttttttttt:9223372036854775806");
	gtid.tag[0] = '\0';
	gtid.number = 1;
	capstan_gtid_format(&gtid, text);
	CHECK_STR(text, U1 ":1");

	/* Numbers that no GTID has leave the set as it is. */
	set = capstan_gtidset_create();
	gtid.number = 0;
	capstan_gtidset_add(set, &gtid);
	gtid.number = UINT64_MAX;
	capstan_gtidset_add(set, &gtid);
	capstan_gtidset_remove(set, &gtid);
	CHECK(capstan_gtidset_is_empty(set));
	CHECK_STR(show(set), "");
	capstan_gtidset_free(set);
	set = parse(U1 ":1-9223372036854775806," U2 ":1-9223372036854775806," U2 ":t:1-9223372036854775806");
	CHECK(capstan_gtidset_count(set) == UINT64_MAX);
	capstan_gtidset_free(set);
	capstan_gtidset_free(NULL);
}

void
test_gtidset(void)
{
	test_text();
	test_model();
	test_server();
	test_encoding();
	test_single();
}
