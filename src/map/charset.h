/*
 * charset.h
 *		What the files charset*.c share: the facts about MySQL's character sets, and converters.
 *
 *		charset_data.c	the characters, as strings; written by test/bin/charset-data
 *		charset_build.c	makes a converter's tables of them
 *		charset.c		converts by it
 */
#ifndef CAPSTAN_CHARSET_H
#define CAPSTAN_CHARSET_H

#include "map/internal.h"

/* Characters of the bytes from `first` on; below it, bytes are ASCII. */
typedef struct CharsetCells
{
	const char *charset;
	uint8		first;
	const char *cells;			/* utf-8, a blank where there is none */
} CharsetCells;

/* Characters of a row from column `first` on. */
typedef struct CharsetRow
{
	uint8		row;
	uint8		first;
	const char *cells;
} CharsetRow;

/* Each ends with a null pointer. */
extern const CharsetCells capstan_charset_one_byte[];
/* Row and column are the two bytes ... */
extern const CharsetRow capstan_charset_big5_rows[];
extern const CharsetRow capstan_charset_gb_rows[];
extern const CharsetRow capstan_charset_ks_rows[];
/* ... or those of JIS X 0208 with its continuations, and of JIS X 0212, from 1 on. */
extern const CharsetRow capstan_charset_jis_rows[];
extern const CharsetRow capstan_charset_jis2_rows[];

typedef enum CharsetKind
{
	CHARSET_UTF8,
	CHARSET_UTF8MB3,
	CHARSET_ONE_BYTE,
	CHARSET_MANY_BYTES,			/* one to four, by the tables below */
	CHARSET_UCS2,
	CHARSET_UTF16,
	CHARSET_UTF16LE,
	CHARSET_UTF32
} CharsetKind;

/* Code points by two bytes; 0 for none. */
typedef struct CharsetGrid
{
	uint8		first_lead;
	uint8		last_lead;
	uint8		first_trail;
	uint8		last_trail;
	uint16	   *cells;			/* NULL: no grid */
} CharsetGrid;

/* What lies before a third byte: single shift 3 of EUC. */
#define CHARSET_SHIFT3 0x8F

/* gb18030: the four-byte codes of the BMP, and those of the planes above it, as numbers. */
#define GB18030_BMP_CODES 39420
#define GB18030_ABOVE_BMP 189000

struct CharsetConverter
{
	const char *name;
	CharsetKind kind;
	bool		ascii;			/* bytes below 0x80 are ASCII and stand for themselves wherever a character begins */
	uint16		one[256];		/* code points of single bytes; 0 for none (and for the zero byte) */
	CharsetGrid two;
	CharsetGrid three;			/* behind CHARSET_SHIFT3 */
	uint16	   *four;			/* gb18030: GB18030_BMP_CODES code points */
	int			nsecond;		/* codes whose character MySQL itself gives another code */
	uint32	   *second;			/* ascending */
};

static inline uint16
charset_grid_cell(const CharsetGrid *grid, uint8 lead, uint8 trail)
{
	if (lead < grid->first_lead || lead > grid->last_lead || trail < grid->first_trail || trail > grid->last_trail)
		return 0;
	return grid->cells[(lead - grid->first_lead) * (grid->last_trail - grid->first_trail + 1) + trail - grid->first_trail];
}

/* A new converter in TopMemoryContext; NULL for a name that is not known. */
extern CharsetConverter *capstan_charset_build(const char *name);

#endif
