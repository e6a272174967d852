/*
 * bench.c
 *		What decoding costs: nanoseconds for a row and for a value of each table of data/types.binlog and data/json.binlog, whose tables
 *		have a type or a family of types each.
 *
 * Usage: bench [rounds]; "make bench" builds it without sanitizers.  What conversion costs, tell convert_time() and charset_time() of
 * test/modules/map_test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "binlog/binlog.h"

#define MOST_TABLES 200

typedef struct Cost
{
	char		name[128];
	double		ns;				/* of a round */
	double		best;			/* of all rounds: the others were disturbed */
	long		rows;			/* of a round */
	long		values;
} Cost;

static Cost costs[MOST_TABLES];
static int	ncosts;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static Cost *
find_cost(const char *name)
{
	for (int i = 0; i < ncosts; i++)
		if (strcmp(costs[i].name, name) == 0)
			return &costs[i];
	if (ncosts == MOST_TABLES)
		exit(1);
	snprintf(costs[ncosts].name, sizeof(costs[0].name), "%s", name);
	return &costs[ncosts++];
}

static void
add_rows(BinlogDecoder *decoder, bool count)
{
	double		start = now();
	SourceChange change;
	CapstanError error;
	BinlogNext	next;
	const SourceTable *table = NULL;
	long		rows = 0;
	Cost	   *cost;

	while ((next = capstan_binlog_next_change(decoder, &change, &error)) == BINLOG_CHANGE)
	{
		table = change.table;
		rows += (change.before != NULL) + (change.after != NULL);
	}
	if (next == BINLOG_ERROR)
	{
		fprintf(stderr, "%s\n", error.message);
		exit(1);
	}
	if (table == NULL)
		return;
	cost = find_cost(table->table_name);
	cost->ns += now() - start;
	if (count)
	{
		cost->rows += rows;
		cost->values += rows * table->ncolumns;
	}
}

static void
end_round(void)
{
	for (int i = 0; i < ncosts; i++)
		if (costs[i].best == 0 || (costs[i].ns > 0 && costs[i].ns < costs[i].best))
			costs[i].best = costs[i].ns;
}

static void
run(const char *name, int rounds)
{
	char		path[1024];
	FILE	   *file;
	uint8_t    *data;
	size_t		length;
	BinlogDecoder *decoder = capstan_binlog_create();

	snprintf(path, sizeof(path), "%s/%s", UNIT_DATA, name);
	file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
	{
		perror(path);
		exit(1);
	}
	length = (size_t) ftell(file);
	rewind(file);
	data = malloc(length);
	if (data == NULL || fread(data, 1, length, file) != length)
		exit(1);
	fclose(file);

	for (int i = 0; i < rounds; i++)
	{
		for (int j = 0; j < ncosts; j++)
			costs[j].ns = 0;
		capstan_binlog_reset(decoder, true);
		for (size_t pos = 4; pos < length;)
		{
			ByteReader	reader = capstan_bytes_reader(data + pos, length - pos);
			uint32_t	size;
			BinlogEvent event;
			CapstanError error;

			capstan_bytes_skip(&reader, 9);
			size = capstan_bytes_u32(&reader);
			if (!capstan_binlog_decode(decoder, data + pos, size, &event, &error))
			{
				fprintf(stderr, "%s\n", error.message);
				exit(1);
			}
			pos += size;
			if (event.kind == BINLOG_ROWS)
				add_rows(decoder, i == 0);
		}
		end_round();
	}
	capstan_binlog_free(decoder);
	free(data);
}

static int
compare_costs(const void *a, const void *b)
{
	return strcmp(((const Cost *) a)->name, ((const Cost *) b)->name);
}

int
main(int argc, char **argv)
{
	int			rounds = argc > 1 ? atoi(argv[1]) : 200;

	run("types.binlog", rounds);
	run("json.binlog", rounds);
	qsort(costs, (size_t) ncosts, sizeof(Cost), compare_costs);
	printf("%-20s %10s %10s %10s\n", "table", "columns", "ns/row", "ns/value");
	for (int i = 0; i < ncosts; i++)
		if (costs[i].rows > 0)
			printf("%-20s %10ld %10.0f %10.1f\n", costs[i].name, costs[i].values / costs[i].rows,
				   costs[i].best / (double) costs[i].rows, costs[i].best / (double) costs[i].values);
	return 0;
}
