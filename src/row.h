/*
 * row.h
 *		The one contract between the half that knows MySQL and the half that
 *		knows Postgres: what a source table looks like, and what a row of it is.
 *
 * Producers: binlog/ (table maps and row events) and wire/ (result sets of the copy,
 * and the source's information_schema).  Consumers: map/ and apply/.  A value
 * that comes by the binary log and the same value by the copy are the same
 * SourceValue, so that one converter serves both.
 *
 * Plain C types only: this header is used by the pure layers too.
 */
#ifndef CAPSTAN_ROW_H
#define CAPSTAN_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

/*
 * Column types as a user of MySQL names them.  The table map's codes are finer
 * and coarser at once (VARCHAR for VARBINARY, BLOB for TEXT); producers tell them
 * apart by the column's collation (63 is binary).
 */
typedef enum SourceType
{
	SOURCE_TINYINT = 1,
	SOURCE_SMALLINT,
	SOURCE_MEDIUMINT,
	SOURCE_INT,
	SOURCE_BIGINT,
	SOURCE_DECIMAL,
	SOURCE_FLOAT,
	SOURCE_DOUBLE,
	SOURCE_BIT,
	SOURCE_DATE,
	SOURCE_DATETIME,
	SOURCE_TIMESTAMP,
	SOURCE_TIME,
	SOURCE_YEAR,
	SOURCE_CHAR,
	SOURCE_VARCHAR,
	SOURCE_TEXT,				/* TINYTEXT .. LONGTEXT: see length_bytes */
	SOURCE_BINARY,
	SOURCE_VARBINARY,
	SOURCE_BLOB,				/* TINYBLOB .. LONGBLOB: see length_bytes */
	SOURCE_ENUM,
	SOURCE_SET,
	SOURCE_JSON,
	SOURCE_GEOMETRY,
	SOURCE_VECTOR,
	SOURCE_OTHER				/* known by name only; never has a converter */
} SourceType;

typedef struct SourceBytes
{
	const char *data;
	size_t		length;
} SourceBytes;

typedef struct SourceColumn
{
	char	   *name;			/* utf-8, case as on the source; NULL: the table map had no names */
	SourceType	type;
	bool		is_unsigned;
	bool		nullable;
	bool		in_key;			/* part of the primary key */
	bool		generated;		/* from the schema only: the table map does not tell */
	bool		invisible;
	bool		server_fills;	/* from the schema only: generated, expression default, AUTO_INCREMENT */
	bool		constant_default;	/* from the schema only */
	bool		fixed_point;	/* FLOAT, DOUBLE: declared as (M,D), which the source compares not exactly; from the schema only */
	uint32_t	octets;			/* CHAR, VARCHAR, BINARY, VARBINARY: most bytes a value can have; else 0 */
	uint8_t		length_bytes;	/* TEXT, BLOB, JSON, GEOMETRY, VECTOR: 1 to 4 bytes of length; else 0 */
	uint8_t		precision;		/* DECIMAL: digits; BIT: bits (1 to 64); else 0 */
	uint8_t		geometry_type;	/* GEOMETRY: WKB code of the only type that the column holds; 0 any, or not known. From the schema only */
	bool		has_srid;		/* GEOMETRY: all values have this SRID; from the schema only */
	uint32_t	srid;
	uint8_t		scale;			/* DECIMAL: digits after the point; DATETIME, TIMESTAMP, TIME: fraction digits; else 0 */
	uint16_t	collation;		/* MySQL collation id for text, ENUM, SET; 63 binary; 0 where it has none */
	int			nlabels;		/* ENUM, SET */
	SourceBytes *labels;		/* in the column's character set */
	char	   *other_name;		/* SOURCE_OTHER: the source's name of the type, or "type 123" */
} SourceColumn;

typedef struct SourceTable
{
	char	   *schema_name;	/* utf-8 */
	char	   *table_name;
	int			ncolumns;
	SourceColumn *columns;
	int			nkey;			/* columns of the primary key; 0 if there is none */
	int		   *key;			/* indexes into columns, in key order */
	bool		key_has_prefix; /* a key column counts only by a prefix of its value */
	char	   *key_name;		/* of its index on the source; NULL from a table map, which does not tell */
	bool	   *key_descends;	/* of each key column: does the index run down in it?  NULL from a table map */
	bool		has_names;		/* false: a table map with MINIMAL metadata */
	uint64_t	table_id;		/* of the table map; 0 from the schema */
	uint64_t	serial;			/* of the table map's content: while a decoder lives, the same serial is the same
								 * definition, so what was checked or planned for it holds; 0 from the schema */
} SourceTable;

typedef enum SourceValueKind
{
	VALUE_NULL = 0,
	VALUE_ABSENT,				/* not in this row image */
	VALUE_INT,					/* signed integers; YEAR (0, 1901..2155) */
	VALUE_UINT,					/* unsigned integers */
	VALUE_FLOAT,
	VALUE_DOUBLE,
	VALUE_DECIMAL,				/* bytes: text, exactly `scale` fraction digits, at least one digit before the
								 * point, no leading zeros, "-" for negative, never "-0" */
	VALUE_BITS,					/* bytes: big-endian, (n + 7) / 8 of them */
	VALUE_DATETIME,				/* datetime: DATE and DATETIME, zero and partial ones included */
	VALUE_TIMESTAMP,			/* integer: microseconds since 1970-01-01 UTC; 0 is MySQL's zero timestamp */
	VALUE_TIME,					/* integer: microseconds, negative for negative times */
	VALUE_BYTES,				/* bytes: text in the column's character set, or binary; CHAR without trailing
								 * blanks, BINARY(n) padded to n with 0x00 */
	VALUE_LABEL,				/* uinteger: ENUM index (0 is the error value '') or SET bit mask; labels of the
								 * SourceTable this value came with */
	VALUE_JSON,					/* bytes: utf-8 text exactly as MySQL's own CAST(json AS CHAR) prints it */
	VALUE_JSON_BINARY,			/* bytes: a document as it lies in a row image, neither looked at nor made into text: for the
								 * change's `documents`.  The same bytes are the same document, others may be it too */
	VALUE_JSON_DIFFS			/* bytes: in an after image, differences to a document that the before image does not have: for
								 * the change's `documents` */
} SourceValueKind;

typedef struct SourceDateTime
{
	uint16_t	year;
	uint8_t		month;
	uint8_t		day;
	uint8_t		hour;
	uint8_t		minute;
	uint8_t		second;
	uint32_t	microsecond;
} SourceDateTime;

/* What `bytes` points to lives until the producer reads its next row, or capstan_source_values_forget(). */
typedef struct SourceValue
{
	SourceValueKind kind;
	union
	{
		int64_t		integer;
		uint64_t	uinteger;
		float		real32;
		double		real64;
		SourceDateTime datetime;
		SourceBytes bytes;
	}			u;
} SourceValue;

typedef enum SourceChangeKind
{
	CHANGE_INSERT = 1,
	CHANGE_UPDATE,
	CHANGE_DELETE
} SourceChangeKind;

/*
 * Who is told what a JSON document is made of, in its order: a member's name before its value.  Strings and names are what is meant, without
 * escapes; they have been looked at by nobody, and may be no utf-8 and have zero bytes.  made: not from the document's own bytes, and gone when
 * the function returns.
 */
typedef struct SourceDocumentVisitor
{
	void		(*begin) (void *arg, bool is_object);
	void		(*end) (void *arg, bool is_object);
	void		(*name) (void *arg, const char *data, size_t length);
	void		(*string) (void *arg, const char *data, size_t length, bool made);
	void		(*integer) (void *arg, int64_t value);
	/* Any other number, as VALUE_JSON has it, with a NUL behind it; gone when the function returns. */
	void		(*number) (void *arg, const char *text);
	void		(*boolean) (void *arg, bool value);
	void		(*null) (void *arg);
} SourceDocumentVisitor;

/* The producer's own ways with its JSON documents.  Each says false, with an error, if it is none. */
typedef struct SourceDocuments
{
	/* VALUE_JSON's text of a VALUE_JSON_BINARY, appended to out. */
	bool		(*text) (const uint8_t *data, size_t length, StrBuf *out, CapstanError *error);
	/* A VALUE_JSON_BINARY, told to the visitor; nothing or a part of it was told if it is none. */
	bool		(*walk) (const uint8_t *data, size_t length, const SourceDocumentVisitor *visitor, void *arg, CapstanError *error);
	/*
	 * The text of a document after differences (VALUE_JSON_DIFFS), appended to out.  The document is given as the text of the one before, MySQL's or
	 * jsonb's; what is not changed stays as it is written there.  false, too, if they do not fit it.
	 */
	bool		(*patch) (const SourceBytes *document, const SourceBytes *differences, StrBuf *out, CapstanError *error);
} SourceDocuments;

/* One row's change; valid until the producer decodes the next one. */
typedef struct SourceChange
{
	SourceChangeKind kind;
	const SourceTable *table;
	const SourceValue *before;	/* table->ncolumns values; NULL for an insert */
	const SourceValue *after;	/* NULL for a delete */
	const SourceDocuments *documents;
} SourceChange;

/*
 * One line of text that says everything the table map tells about a table: column
 * names, types, signedness, sizes, nullability, collations, labels, key.  Made from the
 * schema and from a table map it is the same text exactly when the two agree;
 * it is stored when a table is captured and compared with every table map.
 */
extern void capstan_source_table_signature(const SourceTable *table, StrBuf *out);
/* Does the key's index run up in one column and down in another?  False for a table map, which does not tell. */
extern bool capstan_source_key_is_mixed(const SourceTable *table);

/*
 * The part of it that a table map tells with binlog_row_metadata = MINIMAL too: types, sizes, signedness, nullability, collations of
 * text; neither names, nor labels, nor the key.
 */
extern void capstan_source_table_shape(const SourceTable *table, StrBuf *out);

/*
 * Of a column described from the schema: are its labels what they seem?  information_schema shows a character beyond the BMP
 * as "?", so a label with one is not known from there.  True for columns without labels.
 */
extern bool capstan_source_labels_are_told(const SourceColumn *column);

/*
 * The consumer will not look at these values again, which it has from a producer: what they have of large bytes goes back to the
 * system at once.  So a row of 200 MB is not there once more while it is written.
 */
extern void capstan_source_values_forget(const SourceValue *values, int nvalues);

/* "bigint unsigned", "decimal(10,2)", "varchar(80 bytes)": for messages and signatures. */
extern void capstan_source_column_type(const SourceColumn *column, StrBuf *out);

#endif
