/*
 * internal.h
 *		What the files of map/ share and nobody else needs.
 *
 *		complaints.c	complaints, and those about the source table alone
 *		typemap.c		which pairs of types there are, the default types
 *		charset*.c		bytes of a MySQL character set made utf-8 (see charset.h)
 *		convert_*.c		the converters: SourceValue -> Datum
 *		largevalue.c	large values that are moved, not copied
 *		mapbuild.c		builds a TableMap, converts rows
 *		targetcheck.c	complaints about a target's columns and indexes
 *		ddl.c			CREATE TABLE, names
 *		key.c			keys: order, comparison, stored form
 */
#ifndef CAPSTAN_MAP_INTERNAL_H
#define CAPSTAN_MAP_INTERNAL_H

#include "fmgr.h"
#include "utils/relcache.h"

#include "map/map.h"

/* ---- complaints ---- */

/* Sentences that say what is wrong and what to do, collected in the current memory context. */
typedef struct Complaints
{
	List	   *texts;			/* of char * */
	int			nsource;		/* how many of them are the source's fault */
} Complaints;

extern void capstan_map_complain_source(Complaints *complaints, const char *format,...) pg_attribute_printf(2, 3);
extern void capstan_map_complain_target(Complaints *complaints, const char *format,...) pg_attribute_printf(2, 3);
/* What needs no target, but not the names of schema and table, which a target may have chosen otherwise. */
extern void capstan_map_check_source(Complaints *complaints, const SourceTable *source);
/* One a line. */
extern char *capstan_map_join_complaints(const List *texts);

/* ---- character sets (charset.c) ---- */

typedef struct CharsetConverter CharsetConverter;

typedef enum TextFault
{
	TEXT_OK,
	TEXT_HAS_NUL,				/* a result there is, with the zero bytes in it */
	TEXT_INVALID,				/* no result */
	TEXT_TOO_LONG				/* no result */
} TextFault;

/* By MySQL's name of the character set; NULL if there is none. */
extern const CharsetConverter *capstan_charset_converter(const char *charset);
/* The bytes as utf-8 text in the current memory context; NULL for the last two faults. */
extern text *capstan_charset_to_text(const CharsetConverter *converter, const char *data, size_t length, TextFault *fault);
/*
 * Does a valid text have a character by a code that MySQL itself gives another code?  Texts without one are
 * equal as utf-8 only if their bytes are equal.
 */
extern bool capstan_charset_has_second_code(const CharsetConverter *converter, const char *data, size_t length);
/* TEXT_OK, TEXT_HAS_NUL or TEXT_INVALID; up to 1 GB. */
extern TextFault capstan_charset_check_utf8(const char *data, size_t length);
/* Valid utf-8 without zero bytes? */
extern bool capstan_charset_is_utf8(const char *data, size_t length);

/* ---- what a ColumnMap's private_data points to ---- */

typedef struct ColumnPrivate
{
	const char *source_type;	/* for messages */
	const char *target_type;
	const CharsetConverter *charset;	/* text, ENUM, SET */
	text	  **label_texts;	/* ENUM, SET: source->nlabels of them, as utf-8 */
	Oid		   *label_oids;		/* Postgres enum: [0] of '' or InvalidOid, [i] of label i */
	int			numeric_scale;	/* numeric target: digits after the point, -1 without typmod */
	FmgrInfo	receive;		/* types of other extensions: their receive function */
	Oid			receive_typioparam;
	ColumnConvert inner;		/* domain with constraints: the base type's converter */
	void	   *domain_cache;	/* of domain_check() */
} ColumnPrivate;

static inline ColumnPrivate *
column_private(const ColumnMap *map)
{
	return (ColumnPrivate *) map->private_data;
}

/* The most bytes of data that a varlena can hold. */
#define MAX_VARLENA_DATA ((size_t) (MaxAllocSize - VARHDRSZ - 8))

/* ---- the type map (typemap.c) ---- */

/* NULL, or why the target's typmod (or labels, or length) does not fit: "holds at most 10 characters ..." */
typedef char *(*PairCheck) (const SourceColumn *column, Oid basetypid, int32 typmod);

typedef struct TypePair TypePair;

/* The pair's entry; NULL if capstan has no converter from the one to the other. */
extern const TypePair *capstan_typemap_find(const SourceColumn *column, Oid basetypid);
extern ColumnConvert capstan_typemap_converter(const TypePair *pair);
extern char *capstan_typemap_check(const TypePair *pair, const SourceColumn *column, Oid basetypid, int32 typmod);
/* "smallint, integer, bigint": the accepted target types, for messages. */
extern char *capstan_typemap_accepted(const SourceColumn *column);
/* Is it citext, wherever that is installed? */
extern bool capstan_typemap_is_citext(Oid typid);
/* Is it a type of another extension that is made by its receive function? */
extern bool capstan_typemap_is_received(Oid typid);
/* Digits after the point of a numeric typmod; *precision gets all digits. */
extern int	capstan_typemap_numeric_scale(int32 typmod, int *precision);
/* Does the column hold characters (text, ENUM, SET)? */
extern bool capstan_typemap_has_charset(const SourceColumn *column);
/* The column's type as MySQL writes it, palloc'd. */
extern char *capstan_typemap_source_type(const SourceColumn *column);
/* CHAR and VARCHAR: the n they were declared with, in characters. */
extern uint32 capstan_typemap_characters(const SourceColumn *column);

/* ---- raising (convert_common.c) ---- */

/* Raises CAPSTAN_ERRCODE_VALUE.  reason continues "...: it "; hint may be NULL.  Neither holds a value. */
extern _Noreturn void capstan_convert_fail(const ColumnMap *map, const char *reason, const char *hint);
/* A value of a kind that the column's type does not have: a producer's fault. */
extern _Noreturn void capstan_convert_wrong_kind(const ColumnMap *map, const SourceValue *value);

/*
 * Calls call(map, arg); an error that Postgres raises about the value comes out as CAPSTAN_ERRCODE_VALUE with
 * nothing but its SQLSTATE and constraint name.  Cancel, shutdown, lack of memory and the like pass as they are.
 */
typedef Datum (*GuardedCall) (ColumnMap *map, void *arg);
extern Datum capstan_convert_guarded(ColumnMap *map, GuardedCall call, void *arg);

static inline bool
convert_null(const SourceValue *value, bool *isnull)
{
	*isnull = value->kind == VALUE_NULL;
	return *isnull;
}

/* ---- converters ---- */

extern Datum capstan_convert_domain(ColumnMap *map, const SourceValue *value, bool *isnull);

extern Datum capstan_convert_int2(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_int4(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_int8(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_int_numeric(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_int_bool(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_decimal(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_float4(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_float8(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_bit(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_bit_bool(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_bit_bytea(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_bit_int8(ColumnMap *map, const SourceValue *value, bool *isnull);

extern Datum capstan_convert_date(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_datetime(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_timestamp(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_time_interval(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_time(ColumnMap *map, const SourceValue *value, bool *isnull);

extern Datum capstan_convert_text(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_enum_text(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_enum(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_set_text(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_set_array(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_bytea(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_uuid(ColumnMap *map, const SourceValue *value, bool *isnull);

extern Datum capstan_convert_jsonb(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_json(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_json_text(ColumnMap *map, const SourceValue *value, bool *isnull);

/*
 * PostGIS' type modifier: SRID in the bits from 8 on, WKB type in those from 2 on, has Z, has M; 0 is any.  A greater SRID than the
 * greatest is changed by PostGIS, with no more than a notice.
 */
#define GEOMETRY_TYPMOD_SRID(typmod) ((typmod) >> 8 & 0xFFFFF)
#define GEOMETRY_TYPMOD_TYPE(typmod) ((typmod) >> 2 & 0x3F)
#define GEOMETRY_TYPMOD_HAS_ZM(typmod) (((typmod) & 3) != 0)
#define POSTGIS_MOST_SRID 999999

/* For types with capstan_typemap_is_received: looks up the receive function, in the current memory context. */
extern void capstan_convert_prepare_receive(ColumnMap *column);
extern Datum capstan_convert_geometry(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_vector(ColumnMap *map, const SourceValue *value, bool *isnull);
extern Datum capstan_convert_vector_array(ColumnMap *map, const SourceValue *value, bool *isnull);

/* From so many bytes on a value may be moved (largevalue.c). */
#define CAPSTAN_LARGE_VALUE (1024 * 1024)
/* A Datum that can be put into a tuple once; false: the value needs its converter. */
extern bool capstan_map_large_value(const ColumnMap *column, const SourceValue *value, Datum *datum);

/* What NUL_BYTES policies have in common: raises under halt and in keys, else counts. */
extern void capstan_convert_count_nul(ColumnMap *map);

/* ---- the target (targetcheck.c) ---- */

/* Persistence, kind, row security, deferrable unique indexes. */
extern void capstan_target_check_table(Complaints *complaints, Relation rel);
/* Are rows of it, or of some partition, on another server? */
extern bool capstan_target_is_remote(Relation rel);
/* Target columns that no source column feeds but that want a value. */
extern void capstan_target_check_unfed(Complaints *complaints, Relation rel, const bool *fed);
/* The index that identifies rows: unique on just these columns; InvalidOid and a complaint if there is none. */
extern Oid	capstan_target_find_key_index(Complaints *complaints, Relation rel, const AttrNumber *attnums, int nkey);

#endif
