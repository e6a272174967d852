/*
 * gtidset.c
 *		GTID sets: representation and algebra.  The text and the binary form are
 *		in gtidset_io.c, the representation in gtidset_internal.h.
 */
#include "base/gtidset_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

GtidSet *
capstan_gtidset_create(void)
{
	return capstan_alloc0(sizeof(GtidSet));
}

void
capstan_gtidset_free(GtidSet *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; i < set->nsources; i++)
		capstan_free(set->sources[i].intervals);
	capstan_free(set->sources);
	capstan_free(set);
}

GtidSet *
capstan_gtidset_copy(const GtidSet *set)
{
	GtidSet    *copy = capstan_gtidset_create();

	if (set->nsources == 0)
		return copy;
	copy->sources = capstan_alloc0(set->nsources * sizeof(GtidSource));
	copy->capacity = set->nsources;
	for (size_t i = 0; i < set->nsources; i++)
	{
		const GtidSource *from = &set->sources[i];
		GtidSource *to = &copy->sources[i];

		*to = *from;
		to->intervals = capstan_alloc(from->nintervals * sizeof(GtidInterval));
		to->capacity = from->nintervals;
		memcpy(to->intervals, from->intervals, from->nintervals * sizeof(GtidInterval));
	}
	copy->nsources = set->nsources;
	copy->last = set->last;
	return copy;
}

static int
compare_source(const GtidSource *source, const uint8_t *uuid, const char *tag)
{
	int			order = memcmp(source->uuid, uuid, sizeof(source->uuid));

	return order != 0 ? order : strcmp(source->tag, tag);
}

/* Where (uuid, tag) is or belongs. */
static size_t
find_source(const GtidSet *set, const uint8_t *uuid, const char *tag, bool *found)
{
	size_t		low = 0;
	size_t		high = set->nsources;

	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;
		int			order = compare_source(&set->sources[middle], uuid, tag);

		if (order == 0)
		{
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = false;
	return low;
}

static const GtidSource *
lookup_source(const GtidSet *set, const uint8_t *uuid, const char *tag)
{
	bool		found;
	size_t		at = find_source(set, uuid, tag, &found);

	return found ? &set->sources[at] : NULL;
}

/* Room for one more at `at`, empty. */
static GtidSource *
insert_source(GtidSet *set, size_t at, const uint8_t *uuid, const char *tag)
{
	GtidSource *source;

	if (set->nsources == set->capacity)
	{
		set->capacity = set->capacity == 0 ? 4 : set->capacity * 2;
		set->sources = capstan_realloc(set->sources, set->capacity * sizeof(GtidSource));
	}
	memmove(&set->sources[at + 1], &set->sources[at], (set->nsources - at) * sizeof(GtidSource));
	set->nsources++;
	source = &set->sources[at];
	memset(source, 0, sizeof(*source));
	memcpy(source->uuid, uuid, sizeof(source->uuid));
	strcpy(source->tag, tag);
	return source;
}

GtidSource *
capstan_gtidset_source(GtidSet *set, const uint8_t *uuid, const char *tag)
{
	bool		found;
	size_t		at;

	if (set->last < set->nsources && compare_source(&set->sources[set->last], uuid, tag) == 0)
		return &set->sources[set->last];

	at = find_source(set, uuid, tag, &found);
	set->last = at;
	return found ? &set->sources[at] : insert_source(set, at, uuid, tag);
}

/* A set has no source without intervals. */
static void
drop_if_empty(GtidSet *set, GtidSource *source)
{
	size_t		at = (size_t) (source - set->sources);

	if (source->nintervals > 0)
		return;
	capstan_free(source->intervals);
	memmove(&set->sources[at], &set->sources[at + 1], (set->nsources - at - 1) * sizeof(GtidSource));
	set->nsources--;
}

/* Index of the first interval that ends at or after `number`. */
static size_t
find_interval(const GtidSource *source, uint64_t number)
{
	size_t		low = 0;
	size_t		high = source->nintervals;

	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;

		if (source->intervals[middle].last < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
insert_interval(GtidSource *source, size_t at, uint64_t first, uint64_t last)
{
	if (source->nintervals == source->capacity)
	{
		source->capacity = source->capacity == 0 ? 2 : source->capacity * 2;
		source->intervals = capstan_realloc(source->intervals, source->capacity * sizeof(GtidInterval));
	}
	memmove(&source->intervals[at + 1], &source->intervals[at],
			(source->nintervals - at) * sizeof(GtidInterval));
	source->intervals[at].first = first;
	source->intervals[at].last = last;
	source->nintervals++;
}

void
capstan_gtidset_add_interval(GtidSource *source, uint64_t first, uint64_t last)
{
	size_t		from;
	size_t		to;

	/* The usual cases: the next number of the last interval, or one beyond it. */
	if (source->nintervals > 0)
	{
		GtidInterval *tail = &source->intervals[source->nintervals - 1];

		if (first == tail->last + 1)
		{
			tail->last = last;
			return;
		}
		if (first > tail->last)
		{
			insert_interval(source, source->nintervals, first, last);
			return;
		}
	}

	/* Intervals from..to-1 overlap or touch the new one and become one with it. */
	from = find_interval(source, first - 1);
	to = from;
	while (to < source->nintervals && source->intervals[to].first <= last + 1)
		to++;
	if (from == to)
	{
		insert_interval(source, from, first, last);
		return;
	}
	if (source->intervals[from].first < first)
		first = source->intervals[from].first;
	if (source->intervals[to - 1].last > last)
		last = source->intervals[to - 1].last;
	source->intervals[from].first = first;
	source->intervals[from].last = last;
	memmove(&source->intervals[from + 1], &source->intervals[to],
			(source->nintervals - to) * sizeof(GtidInterval));
	source->nintervals -= to - from - 1;
}

/* ---- from parts in any order ---- */

void
capstan_gtidset_append(GtidSet *set, const uint8_t *uuid, const char *tag, uint64_t first, uint64_t last)
{
	GtidSource *source = set->nsources > 0 ? &set->sources[set->nsources - 1] : NULL;

	if (source == NULL || compare_source(source, uuid, tag) != 0)
		source = insert_source(set, set->nsources, uuid, tag);
	insert_interval(source, source->nintervals, first, last);
}

static int
compare_sources(const void *a, const void *b)
{
	const GtidSource *other = b;

	return compare_source(a, other->uuid, other->tag);
}

static int
compare_intervals(const void *a, const void *b)
{
	const GtidInterval *x = a;
	const GtidInterval *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorted, and those that overlap or touch made one. */
static void
settle_intervals(GtidSource *source)
{
	GtidInterval *intervals = source->intervals;
	bool		sorted = true;
	size_t		n = 0;

	for (size_t i = 1; i < source->nintervals && sorted; i++)
		sorted = intervals[i - 1].first <= intervals[i].first;
	if (!sorted)
		qsort(intervals, source->nintervals, sizeof(GtidInterval), compare_intervals);
	for (size_t i = 0; i < source->nintervals; i++)
	{
		if (n == 0 || intervals[i].first > intervals[n - 1].last + 1)
			intervals[n++] = intervals[i];
		else if (intervals[i].last > intervals[n - 1].last)
			intervals[n - 1].last = intervals[i].last;
	}
	source->nintervals = n;
}

/* Appends the intervals of `from`, which is gone then. */
static void
take_intervals(GtidSource *to, GtidSource *from)
{
	for (size_t i = 0; i < from->nintervals; i++)
		insert_interval(to, to->nintervals, from->intervals[i].first, from->intervals[i].last);
	capstan_free(from->intervals);
}

void
capstan_gtidset_settle(GtidSet *set)
{
	bool		sorted = true;
	size_t		n = 0;

	for (size_t i = 1; i < set->nsources && sorted; i++)
		sorted = compare_sources(&set->sources[i - 1], &set->sources[i]) < 0;
	if (!sorted)
	{
		qsort(set->sources, set->nsources, sizeof(GtidSource), compare_sources);
		for (size_t i = 0; i < set->nsources; i++)
		{
			if (n > 0 && compare_sources(&set->sources[n - 1], &set->sources[i]) == 0)
				take_intervals(&set->sources[n - 1], &set->sources[i]);
			else
				set->sources[n++] = set->sources[i];
		}
		set->nsources = n;
	}
	for (size_t i = 0; i < set->nsources; i++)
		settle_intervals(&set->sources[i]);
}

void
capstan_gtidset_add(GtidSet *set, const Gtid *gtid)
{
	if (gtid->number < 1 || gtid->number > CAPSTAN_GTID_NUMBER_MAX)
		return;
	capstan_gtidset_add_interval(capstan_gtidset_source(set, gtid->uuid, gtid->tag), gtid->number, gtid->number);
}

void
capstan_gtidset_remove(GtidSet *set, const Gtid *gtid)
{
	bool		found;
	size_t		source_at = find_source(set, gtid->uuid, gtid->tag, &found);
	GtidSource *source;
	GtidInterval *interval;
	size_t		at;

	if (!found)
		return;
	source = &set->sources[source_at];
	at = find_interval(source, gtid->number);
	if (at == source->nintervals || source->intervals[at].first > gtid->number)
		return;
	interval = &source->intervals[at];
	if (interval->first < gtid->number && interval->last > gtid->number)
	{
		uint64_t	first = interval->first;

		interval->first = gtid->number + 1;
		insert_interval(source, at, first, gtid->number - 1);
	}
	else if (interval->first < gtid->number)
		interval->last = gtid->number - 1;
	else if (interval->last > gtid->number)
		interval->first = gtid->number + 1;
	else
	{
		memmove(interval, interval + 1, (source->nintervals - at - 1) * sizeof(GtidInterval));
		source->nintervals--;
		drop_if_empty(set, source);
	}
}

/* source := source united with other, in one pass over both. */
static void
unite_source(GtidSource *source, const GtidSource *other)
{
	size_t		capacity = source->nintervals + other->nintervals;
	GtidInterval *merged = capstan_alloc(capacity * sizeof(GtidInterval));
	size_t		n = 0;
	size_t		i = 0;
	size_t		j = 0;

	while (i < source->nintervals || j < other->nintervals)
	{
		GtidInterval next;

		if (j == other->nintervals ||
			(i < source->nintervals && source->intervals[i].first <= other->intervals[j].first))
			next = source->intervals[i++];
		else
			next = other->intervals[j++];
		if (n > 0 && next.first <= merged[n - 1].last + 1)
		{
			if (next.last > merged[n - 1].last)
				merged[n - 1].last = next.last;
		}
		else
			merged[n++] = next;
	}
	capstan_free(source->intervals);
	source->intervals = merged;
	source->nintervals = n;
	source->capacity = capacity;
}

void
capstan_gtidset_add_set(GtidSet *set, const GtidSet *other)
{
	if (set == other)
		return;
	for (size_t i = 0; i < other->nsources; i++)
	{
		const GtidSource *from = &other->sources[i];
		GtidSource *to = capstan_gtidset_source(set, from->uuid, from->tag);

		if (from->nintervals == 1)
			capstan_gtidset_add_interval(to, from->intervals[0].first, from->intervals[0].last);
		else
			unite_source(to, from);
	}
}

bool
capstan_gtidset_contains(const GtidSet *set, const Gtid *gtid)
{
	const GtidSource *source = lookup_source(set, gtid->uuid, gtid->tag);
	size_t		at;

	if (source == NULL)
		return false;
	at = find_interval(source, gtid->number);
	return at < source->nintervals && source->intervals[at].first <= gtid->number;
}

bool
capstan_gtidset_contains_set(const GtidSet *set, const GtidSet *sub)
{
	for (size_t i = 0; i < sub->nsources; i++)
	{
		const GtidSource *part = &sub->sources[i];
		const GtidSource *whole = lookup_source(set, part->uuid, part->tag);

		if (whole == NULL)
			return false;
		for (size_t j = 0; j < part->nintervals; j++)
		{
			size_t		at = find_interval(whole, part->intervals[j].first);

			if (at == whole->nintervals || whole->intervals[at].first > part->intervals[j].first ||
				whole->intervals[at].last < part->intervals[j].last)
				return false;
		}
	}
	return true;
}

bool
capstan_gtidset_equal(const GtidSet *a, const GtidSet *b)
{
	if (a->nsources != b->nsources)
		return false;
	for (size_t i = 0; i < a->nsources; i++)
	{
		const GtidSource *x = &a->sources[i];
		const GtidSource *y = &b->sources[i];

		if (compare_source(x, y->uuid, y->tag) != 0 || x->nintervals != y->nintervals ||
			memcmp(x->intervals, y->intervals, x->nintervals * sizeof(GtidInterval)) != 0)
			return false;
	}
	return true;
}

bool
capstan_gtidset_is_empty(const GtidSet *set)
{
	return set->nsources == 0;
}

uint64_t
capstan_gtidset_count(const GtidSet *set)
{
	uint64_t	count = 0;

	for (size_t i = 0; i < set->nsources; i++)
	{
		for (size_t j = 0; j < set->sources[i].nintervals; j++)
		{
			const GtidInterval *interval = &set->sources[i].intervals[j];
			uint64_t	length = interval->last - interval->first + 1;

			if (length > UINT64_MAX - count)
				return UINT64_MAX;
			count += length;
		}
	}
	return count;
}

static void
append_interval(GtidSet *set, const GtidSource *like, uint64_t first, uint64_t last)
{
	GtidSource *source = capstan_gtidset_source(set, like->uuid, like->tag);

	insert_interval(source, source->nintervals, first, last);
}

GtidSet *
capstan_gtidset_subtract(const GtidSet *a, const GtidSet *b)
{
	GtidSet    *result = capstan_gtidset_create();

	for (size_t i = 0; i < a->nsources; i++)
	{
		const GtidSource *from = &a->sources[i];
		const GtidSource *without = lookup_source(b, from->uuid, from->tag);
		size_t		k = 0;

		for (size_t j = 0; j < from->nintervals; j++)
		{
			uint64_t	first = from->intervals[j].first;
			uint64_t	last = from->intervals[j].last;
			bool		rest = true;

			while (without != NULL && k < without->nintervals && without->intervals[k].last < first)
				k++;
			for (; without != NULL && k < without->nintervals && without->intervals[k].first <= last; k++)
			{
				if (without->intervals[k].first > first)
					append_interval(result, from, first, without->intervals[k].first - 1);
				if (without->intervals[k].last >= last)
				{
					/* It may reach into the next interval of a: k stays. */
					rest = false;
					break;
				}
				first = without->intervals[k].last + 1;
			}
			if (rest)
				append_interval(result, from, first, last);
		}
	}
	return result;
}

GtidSet *
capstan_gtidset_intersect(const GtidSet *a, const GtidSet *b)
{
	GtidSet    *result = capstan_gtidset_create();

	for (size_t i = 0; i < a->nsources; i++)
	{
		const GtidSource *x = &a->sources[i];
		const GtidSource *y = lookup_source(b, x->uuid, x->tag);
		size_t		j = 0;
		size_t		k = 0;

		while (y != NULL && j < x->nintervals && k < y->nintervals)
		{
			uint64_t	first = x->intervals[j].first;
			uint64_t	last = x->intervals[j].last;

			if (y->intervals[k].first > first)
				first = y->intervals[k].first;
			if (y->intervals[k].last < last)
				last = y->intervals[k].last;
			if (first <= last)
				append_interval(result, x, first, last);
			if (x->intervals[j].last < y->intervals[k].last)
				j++;
			else
				k++;
		}
	}
	return result;
}
