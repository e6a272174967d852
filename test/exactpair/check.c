/*
 * check.c
 *		The judgement: what a view shows against what the GTID set or position names.
 *
 * Called by main.c while no writer runs.  Both sides are sets {1..k} of a writer's transactions: his commits follow
 * one another, so their GTIDs and their places in the binary log ascend.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exactpair.h"

/* How many of the writer's transactions have a GTID below the number. */
static int64_t
commits_below(const Writer *writer, int64_t number)
{
	int64_t		low = 0;
	int64_t		high = writer->ncommits;

	while (low < high)
	{
		int64_t		middle = (low + high) / 2;

		if (writer->gtid[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The same by places in the binary log. */
static int64_t
commits_before(const Writer *writer, const Places *places, int file, uint64_t position)
{
	int64_t		low = 0;
	int64_t		high = writer->ncommits;

	while (low < high)
	{
		int64_t		middle = (low + high) / 2;
		int64_t		index = writer->gtid[middle] - places->first;
		bool		before;

		if (index < 0)
			before = true;		/* of an earlier cycle */
		else
		{
			if (index >= places->count || places->places[index].file == 0)
				die("GTID %lld is not in the binary log", (long long) writer->gtid[middle]);
			before = places->places[index].file < file ||
				(places->places[index].file == file && places->places[index].position < position);
		}
		if (before)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Walks over the intervals of our server in the text of a GTID set, "uuid:1-5:7,\nuuid:1-3".  Call with *at = NULL
 * first.  Tagged parts are none of the writers'.
 */
static bool
next_interval(const char *set, const char **at, int64_t *from, int64_t *to)
{
	char	   *end;

	if (*at == NULL)
	{
		*at = strstr(set, server_uuid);
		if (*at == NULL)
			return false;
		*at += strlen(server_uuid);
	}
	if (**at != ':')
		return false;
	*from = strtoll(*at + 1, &end, 10);
	if (end == *at + 1)
		return false;
	*to = *from;
	if (*end == '-')
		*to = strtoll(end + 1, &end, 10);
	*at = end;
	return true;
}

void
judge(Verdict *verdict, const Capture *capture, const Writer *writers, int n, const Places *places)
{
	int64_t		missing = 0;
	int64_t		future = 0;

	for (int i = 0; i < n; i++)
	{
		const Writer *writer = &writers[i];
		int64_t		shown = capture->shown[i];

		if (shown > writer->ncommits)
			die("a view shows transaction %lld of writer %d, who did %lld", (long long) shown, i, (long long) writer->ncommits);
		if (capture->gtid_set == NULL)
		{
			int64_t		named = commits_before(writer, places, capture->file, capture->position);

			missing += named > shown ? named - shown : 0;
			future += shown > named ? shown - named : 0;
		}
		else
		{
			const char *at = NULL;
			int64_t		from;
			int64_t		to;
			int64_t		both = 0;

			while (next_interval(capture->gtid_set, &at, &from, &to))
			{
				/* numbers first + 1 .. last are named by this interval */
				int64_t		first = commits_below(writer, from);
				int64_t		last = commits_below(writer, to + 1);

				if (last > shown)
					missing += last - (first > shown ? first : shown);
				if (first < shown)
					both += (last < shown ? last : shown) - first;
			}
			future += shown - both;
		}
	}
	verdict->captures++;
	verdict->missing += missing;
	verdict->future += future;
	verdict->missing_captures += missing > 0;
	verdict->future_captures += future > 0;
}

/* Where the binary log ends now: the number in the name of its file, and the position. */
void
binlog_place(MYSQL *conn, int *file, uint64_t *position)
{
	MYSQL_RES  *result;
	MYSQL_ROW	row;
	const char *dot;

	/* until 8.2 the statement had another name */
	if (mysql_query(conn, "SHOW BINARY LOG STATUS") != 0 && mysql_query(conn, "SHOW MASTER STATUS") != 0)
		die("SHOW BINARY LOG STATUS: %s", mysql_error(conn));
	result = mysql_store_result(conn);
	row = result == NULL ? NULL : mysql_fetch_row(result);
	dot = row == NULL ? NULL : strrchr(row[0], '.');
	if (dot == NULL)
		die("SHOW BINARY LOG STATUS: no file");
	*file = atoi(dot + 1);
	*position = strtoull(row[1], NULL, 10);
	mysql_free_result(result);
}

static void
add_place(Places *places, int64_t number, int file, uint64_t position)
{
	if (places->count == 0)
		places->first = number;
	if (number < places->first)
		die("GTID %lld comes late in the binary log", (long long) number);
	while (number - places->first >= places->count)
	{
		if ((places->count & (places->count - 1)) == 0)
		{
			places->places = realloc(places->places, sizeof(struct Place) * (places->count == 0 ? 1 : places->count * 2));
			if (places->places == NULL)
				die("out of memory");
		}
		places->places[places->count++] = (struct Place) {0, 0};
	}
	places->places[number - places->first] = (struct Place) {file, position};
}

/* Reads the binary log from the given place on. */
void
places_read(Places *places, MYSQL *conn, int file, uint64_t position)
{
	char	   *basename = query_text(conn, "SELECT SUBSTRING_INDEX(@@GLOBAL.log_bin_basename, '/', -1)", 0);
	int			last_file;
	uint64_t	last_position;

	binlog_place(conn, &last_file, &last_position);
	places->count = 0;
	for (; file <= last_file; file++, position = 4)
	{
		char		sql[300];
		MYSQL_RES  *result;
		MYSQL_ROW	row;

		snprintf(sql, sizeof(sql), "SHOW BINLOG EVENTS IN '%s.%06d' FROM %llu", basename, file, (unsigned long long) position);
		if (mysql_query(conn, sql) != 0)
			die("%s: %s", sql, mysql_error(conn));
		result = mysql_use_result(conn);
		while (result != NULL && (row = mysql_fetch_row(result)) != NULL)
		{
			const char *uuid;

			/* Info: SET @@SESSION.GTID_NEXT= 'uuid:number' */
			if (strcmp(row[2], "Gtid") == 0 && (uuid = strstr(row[5], server_uuid)) != NULL)
				add_place(places, strtoll(uuid + strlen(server_uuid) + 1, NULL, 10), file, strtoull(row[1], NULL, 10));
		}
		if (mysql_errno(conn) != 0)
			die("%s: %s", sql, mysql_error(conn));
		mysql_free_result(result);
	}
	free(basename);
}
