/*
 * unit.c
 *		The harness of unit.h and main().
 *
 * Usage: unit [name of a test]...
 */
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *current = "?";
static long checks;
static long failures;
static uint64_t random_state = 88172645463325252u;

void
unit_begin(const char *name)
{
	current = name;
}

bool
unit_check(bool ok, const char *file, int line, const char *format,...)
{
	va_list		args;

	checks++;
	if (ok)
		return true;
	failures++;
	fprintf(stderr, "%s:%d: %s: ", file, line, current);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	if (failures > 100)
	{
		fprintf(stderr, "too many failures\n");
		exit(1);
	}
	return false;
}

bool
unit_check_str(const char *got, const char *expected, const char *file, int line)
{
	return unit_check(got != NULL && strcmp(got, expected) == 0, file, line, "got \"%.3000s\", expected \"%.3000s\"",
					  got == NULL ? "(null)" : got, expected);
}

uint8_t *
unit_load(const char *name, size_t *length)
{
	char		path[1024];
	FILE	   *file;
	long		size;
	uint8_t    *data;

	snprintf(path, sizeof(path), "%s/%s", UNIT_DATA, name);
	file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
	{
		perror(path);
		exit(1);
	}
	rewind(file);
	data = malloc((size_t) size + 1);
	if (data == NULL || fread(data, 1, (size_t) size, file) != (size_t) size)
	{
		perror(path);
		exit(1);
	}
	fclose(file);
	data[size] = '\0';
	*length = (size_t) size;
	return data;
}

char *
unit_field(char **rest, char separator)
{
	char	   *field = *rest;
	char	   *end;

	if (field == NULL)
		return NULL;
	end = strchr(field, separator);
	if (end == NULL)
		*rest = NULL;
	else
	{
		*end = '\0';
		*rest = end + 1;
	}
	return field;
}

char *
unit_line(char **rest)
{
	if (*rest == NULL || **rest == '\0')
		return NULL;
	return unit_field(rest, '\n');
}

/* xorshift64* */
uint64_t
unit_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

static const struct
{
	const char *name;
	void		(*run) (void);
}			tests[] = {
	{"base", test_base},
	{"gtidset", test_gtidset},
	{"decimal", test_decimal},
	{"json", test_json},
	{"values", test_values},
	{"tablemap", test_tablemap},
	{"events", test_events},
	{"fixtures", test_fixtures},
	{"statement", test_statement},
	{"row", test_row},
	{"mutations", test_mutations},
	{"hostile", test_hostile},
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
	{
		bool		wanted = argc == 1;
		long		before = checks;

		for (int j = 1; j < argc; j++)
			wanted = wanted || strcmp(argv[j], tests[i].name) == 0;
		if (!wanted)
			continue;
		current = tests[i].name;
		tests[i].run();
		printf("%-12s %8ld checks\n", tests[i].name, checks - before);
	}
	printf("%ld checks, %ld failed\n", checks, failures);
	return failures == 0 && checks > 0 ? 0 : 1;
}
