/*
 * gtidset_internal.h
 *		The representation of a GTID set, shared by gtidset.c and gtidset_io.c only.
 *
 * Invariants, which every function keeps: sources are sorted by uuid, then tag (bytes), and
 * each has at least one interval; intervals are sorted, disjoint, do not
 * touch, and lie within 1 .. CAPSTAN_GTID_NUMBER_MAX.  So equal sets have equal arrays, and
 * `last + 1` never wraps.
 */
#ifndef CAPSTAN_GTIDSET_INTERNAL_H
#define CAPSTAN_GTIDSET_INTERNAL_H

#include "base/gtidset.h"

#define CAPSTAN_GTID_NUMBER_MAX ((uint64_t) INT64_MAX - 1)

typedef struct GtidInterval
{
	uint64_t	first;
	uint64_t	last;			/* inclusive */
} GtidInterval;

typedef struct GtidSource
{
	uint8_t		uuid[16];
	char		tag[CAPSTAN_GTID_TAG_MAX + 1];
	size_t		nintervals;
	size_t		capacity;
	GtidInterval *intervals;
} GtidSource;

struct GtidSet
{
	size_t		nsources;
	size_t		capacity;
	size_t		last;			/* the source touched last: a hint, may be out of range */
	GtidSource *sources;
};

/* The source's entry, made if need be: the caller must add an interval to it at once. */
extern GtidSource *capstan_gtidset_source(GtidSet *set, const uint8_t *uuid, const char *tag);
/* The limits of an interval everywhere below: 1 <= first <= last <= CAPSTAN_GTID_NUMBER_MAX. */
extern void capstan_gtidset_add_interval(GtidSource *source, uint64_t first, uint64_t last);

/*
 * A set from parts in any order: append them all, then settle, which restores the invariants.  Until then only append, settle and
 * free may be called.  Inserting each part in its place would take quadratic time for a text in descending order, and whoever
 * sends that may be hostile.
 */
extern void capstan_gtidset_append(GtidSet *set, const uint8_t *uuid, const char *tag, uint64_t first, uint64_t last);
extern void capstan_gtidset_settle(GtidSet *set);

#endif
