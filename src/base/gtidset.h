/*
 * gtidset.h
 *		GTID sets, tagged ones included.
 *
 * A GTID names one source transaction: source uuid, optional tag (MySQL 8.3
 * and later), number from 1 to 2^63 - 2.  A set keeps, for each (uuid, tag),
 * sorted disjoint intervals that do not touch.
 *
 * Text form: https://dev.mysql.com/doc/refman/en/replication-gtids-concepts.html
 *
 *	   uuid:1-5:7,uuid2:1-3:tag:1-9:tag2:4
 *
 * Canonical text: uuids lower-case with hyphens, in byte order; within a uuid
 * the untagged intervals first, then the tags in byte order, lower-case; a
 * one-number interval as "7"; uuids separated by ",", no white space.  The empty
 * set is "".  Input may have white space and newlines around separators,
 * upper case, overlapping and unordered intervals, repeated uuids.
 *
 * Memory comes from memory.h: sets live in the memory context they were made in,
 * so do not grow a set while another context is current.
 */
#ifndef CAPSTAN_GTIDSET_H
#define CAPSTAN_GTIDSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

#define CAPSTAN_GTID_TAG_MAX 32

typedef struct Gtid
{
	uint8_t		uuid[16];
	char		tag[CAPSTAN_GTID_TAG_MAX + 1];	/* "" without a tag */
	uint64_t	number;
} Gtid;

/* uuid (36) + ":" + tag + ":" + number (20) + NUL */
#define CAPSTAN_GTID_TEXT_MAX (36 + 1 + CAPSTAN_GTID_TAG_MAX + 1 + 20 + 1)

typedef struct GtidSet GtidSet;

extern GtidSet *capstan_gtidset_create(void);
extern GtidSet *capstan_gtidset_copy(const GtidSet *set);
extern void capstan_gtidset_free(GtidSet *set);

/* NULL and error when the text is not a GTID set. */
extern GtidSet *capstan_gtidset_parse(const char *text, size_t length, CapstanError *error);
/* Appends the canonical text. */
extern void capstan_gtidset_format(const GtidSet *set, StrBuf *out);
extern void capstan_gtid_format(const Gtid *gtid, char out[CAPSTAN_GTID_TEXT_MAX]);
/* Parses exactly 36 characters of a hyphenated uuid. */
extern bool capstan_uuid_parse(const char *text, uint8_t uuid[16]);
extern void capstan_uuid_format(const uint8_t uuid[16], char out[37]);

/* O(1) for the usual next number of a known source, O(log n) otherwise (plus the shift). */
extern void capstan_gtidset_add(GtidSet *set, const Gtid *gtid);
extern void capstan_gtidset_remove(GtidSet *set, const Gtid *gtid);
extern void capstan_gtidset_add_set(GtidSet *set, const GtidSet *other);

extern bool capstan_gtidset_contains(const GtidSet *set, const Gtid *gtid);
/* Is `sub` a subset of `set`? */
extern bool capstan_gtidset_contains_set(const GtidSet *set, const GtidSet *sub);
extern bool capstan_gtidset_equal(const GtidSet *a, const GtidSet *b);
extern bool capstan_gtidset_is_empty(const GtidSet *set);
/* Number of GTIDs; saturates at UINT64_MAX. */
extern uint64_t capstan_gtidset_count(const GtidSet *set);
/* A new set: a without b. */
extern GtidSet *capstan_gtidset_subtract(const GtidSet *a, const GtidSet *b);
/* A new set: what is in both. */
extern GtidSet *capstan_gtidset_intersect(const GtidSet *a, const GtidSet *b);

/*
 * The binary form that COM_BINLOG_DUMP_GTID sends: interval ends exclusive; the
 * format with tags (MySQL 8.3+) only when the set holds a tag.
 */
extern void capstan_gtidset_encode(const GtidSet *set, StrBuf *out);
/* The same form read back (PREVIOUS_GTIDS events). */
extern GtidSet *capstan_gtidset_decode(const uint8_t *data, size_t length, CapstanError *error);

#endif
