/*
 * charset_build.c
 *		The tables of a character set, made of the strings in charset_data.c.
 *
 * Called by charset.c once for each character set and process.  The tables live as long as
 * the process: 0.5 kB for a set of one byte, 25 to 130 kB for one of several.
 *
 * The strings hold what cannot be worked out.  The rest follows from how the standards were made:
 *
 *	- gb18030, gbk: the ideographs of Unicode 1.1 that GB 2312 does not have stand in order in the
 *	  two areas GBK/3 and GBK/4; the user-defined areas are runs of private use characters; the
 *	  four-byte codes are all other characters of the BMP, in order, then the planes above.
 *	- euckr (as Microsoft extended it): the Hangul syllables that KS X 1001 does not have, in order.
 *	- the Japanese sets have the same rows, at other places.
 *
 * Where MySQL differs from the standards, MySQL is followed: that is what its clients see.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "map/charset.h"

#define PRIVATE_USE_FIRST 0xE000
#define PRIVATE_USE_LAST 0xF8FF

/* ---- cells ---- */

static void
make_grid(CharsetGrid *grid, uint8 first_lead, uint8 last_lead, uint8 first_trail, uint8 last_trail)
{
	grid->first_lead = first_lead;
	grid->last_lead = last_lead;
	grid->first_trail = first_trail;
	grid->last_trail = last_trail;
	grid->cells = (uint16 *) MemoryContextAllocZero(TopMemoryContext,
													sizeof(uint16) * (last_lead - first_lead + 1) * (last_trail - first_trail + 1));
}

/* Codes outside of the grid are left out: gb2312 takes of the rows of GB what it has. */
static void
put(CharsetGrid *grid, unsigned code, unsigned c)
{
	unsigned	lead = code >> 8;
	unsigned	trail = code & 0xFF;

	if (lead >= grid->first_lead && lead <= grid->last_lead && trail >= grid->first_trail && trail <= grid->last_trail)
		grid->cells[(lead - grid->first_lead) * (grid->last_trail - grid->first_trail + 1) + trail - grid->first_trail] = (uint16) c;
}

static void
clear_range(CharsetGrid *grid, unsigned first, unsigned last)
{
	for (unsigned code = first; code <= last; code++)
		put(grid, code, 0);
}

/* The next character of a string of cells; 0 for a blank. */
static unsigned
next_cell(const char **cells)
{
	const unsigned char *p = (const unsigned char *) *cells;

	*cells += pg_utf_mblen(p);
	return *p == ' ' ? 0 : (unsigned) utf8_to_unicode(p);
}

typedef unsigned (*CodeOfCell) (unsigned row, unsigned column);

static void
put_rows(CharsetGrid *grid, const CharsetRow *rows, unsigned first_row, unsigned last_row, CodeOfCell code)
{
	for (; rows->cells != NULL; rows++)
	{
		const char *cells = rows->cells;

		if (rows->row < first_row || rows->row > last_row)
			continue;
		for (unsigned column = rows->first; *cells != '\0'; column++)
			put(grid, code(rows->row, column), next_cell(&cells));
	}
}

/* 0x7F is never the second byte of these sets. */
#define IS_HOLE(trail) ((trail) == 0x7F)

/* Consecutive code points for an area, row by row. */
static void
put_run(CharsetGrid *grid, unsigned first_lead, unsigned last_lead, unsigned first_trail, unsigned last_trail, unsigned c)
{
	for (unsigned lead = first_lead; lead <= last_lead; lead++)
		for (unsigned trail = first_trail; trail <= last_trail; trail++)
			if (!IS_HOLE(trail))
				put(grid, lead << 8 | trail, c++);
}

/* ---- what is there already ---- */

/* A bit for each character of the BMP. */
typedef struct Seen
{
	uint8		bits[0x10000 / 8];
} Seen;

static bool
seen(const Seen *set, unsigned c)
{
	return (set->bits[c / 8] & (1 << c % 8)) != 0;
}

static void
see(Seen *set, unsigned c)
{
	set->bits[c / 8] |= 1 << c % 8;
}

static void
see_grid(Seen *set, const CharsetGrid *grid)
{
	int			n = (grid->last_lead - grid->first_lead + 1) * (grid->last_trail - grid->first_trail + 1);

	for (int i = 0; i < n; i++)
		see(set, grid->cells[i]);
}

/* The next character from *c up to `last` that has not been seen; 0 if there is none left. */
static unsigned
next_missing(const Seen *set, unsigned *c, unsigned last)
{
	while (*c <= last && seen(set, *c))
		(*c)++;
	return *c <= last ? (*c)++ : 0;
}

/* The area's empty cells get the characters from *c up to `last` that have not been seen. */
static void
put_missing(CharsetGrid *grid, const Seen *set, unsigned first_lead, unsigned last_lead,
			unsigned first_trail, unsigned last_trail, unsigned *c, unsigned last)
{
	for (unsigned lead = first_lead; lead <= last_lead; lead++)
		for (unsigned trail = first_trail; trail <= last_trail; trail++)
		{
			unsigned	missing;

			if (IS_HOLE(trail) || charset_grid_cell(grid, lead, trail) != 0)
				continue;
			missing = next_missing(set, c, last);
			if (missing == 0)
				return;
			put(grid, lead << 8 | trail, missing);
		}
}

/* ---- Chinese ---- */

static unsigned
code_direct(unsigned row, unsigned column)
{
	return row << 8 | column;
}

static void
build_big5(CharsetConverter *converter)
{
	make_grid(&converter->two, 0xA1, 0xF9, 0x40, 0xFE);
	put_rows(&converter->two, capstan_charset_big5_rows, 0, 0xFF, code_direct);
}

/* The two-byte codes of gb18030. */
static void
build_gb_grid(CharsetGrid *grid)
{
	Seen	   *set = (Seen *) palloc0(sizeof(Seen));
	unsigned	c = 0x4E00;

	make_grid(grid, 0x81, 0xFE, 0x40, 0xFE);
	put_rows(grid, capstan_charset_gb_rows, 0, 0xFC, code_direct);
	see_grid(set, grid);
	/* GBK/3 and GBK/4.  What follows GBK/4 in its last rows is in the strings. */
	put_missing(grid, set, 0x81, 0xA0, 0x40, 0xFE, &c, 0x9FA5);
	put_missing(grid, set, 0xAA, 0xFD, 0x40, 0xA0, &c, 0x9FA5);
	put_rows(grid, capstan_charset_gb_rows, 0xFD, 0xFF, code_direct);
	put_run(grid, 0xAA, 0xAF, 0xA1, 0xFE, 0xE000);
	put_run(grid, 0xF8, 0xFE, 0xA1, 0xFE, 0xE234);
	put_run(grid, 0xA1, 0xA7, 0x40, 0xA0, 0xE4C6);
	pfree(set);
}

/*
 * One exception to the order of the four-byte codes: A8BC was U+E7C7 when they were assigned, and U+1E3F had
 * a code of four bytes; the two have changed places since (GB 18030-2005).
 */
static void
build_gb18030(CharsetConverter *converter)
{
	Seen	   *set = (Seen *) palloc0(sizeof(Seen));
	unsigned	c = 0x80;

	build_gb_grid(&converter->two);
	see_grid(set, &converter->two);
	set->bits[0x1E3F / 8] &= ~(1 << 0x1E3F % 8);
	see(set, 0xE7C7);
	for (unsigned i = 0xD800; i < 0xE000; i++)
		see(set, i);
	converter->four = (uint16 *) MemoryContextAllocZero(TopMemoryContext, sizeof(uint16) * GB18030_BMP_CODES);
	for (int i = 0; i < GB18030_BMP_CODES; i++)
	{
		unsigned	missing = next_missing(set, &c, 0xFFFF);

		converter->four[i] = (uint16) (missing == 0x1E3F ? 0xE7C7 : missing);
	}
	pfree(set);
}

static void
clear_private_use(CharsetGrid *grid)
{
	int			n = (grid->last_lead - grid->first_lead + 1) * (grid->last_trail - grid->first_trail + 1);

	for (int i = 0; i < n; i++)
		if (grid->cells[i] >= PRIVATE_USE_FIRST && grid->cells[i] <= PRIVATE_USE_LAST)
			grid->cells[i] = 0;
}

static void
build_gbk(CharsetConverter *converter)
{
	CharsetGrid *grid = &converter->two;

	build_gb_grid(grid);
	clear_private_use(grid);
	/* What GB 18030 added. */
	put(grid, 0xA2E3, 0);
	put(grid, 0xA8BC, 0);
	put(grid, 0xA8BF, 0);
	clear_range(grid, 0xA989, 0xA995);
	clear_range(grid, 0xFE50, 0xFEA0);
}

static void
build_gb2312(CharsetConverter *converter)
{
	CharsetGrid *grid = &converter->two;

	make_grid(grid, 0xA1, 0xF7, 0xA1, 0xFE);
	put_rows(grid, capstan_charset_gb_rows, 0, 0xFF, code_direct);
	clear_private_use(grid);
	put(grid, 0xA1A4, 0x30FB);
	put(grid, 0xA1AA, 0x2015);
	/* What GBK and GB 18030 added. */
	clear_range(grid, 0xA2A1, 0xA2AA);
	put(grid, 0xA2E3, 0);
	clear_range(grid, 0xA6E0, 0xA6F5);
	clear_range(grid, 0xA8BB, 0xA8C0);
}

/* ---- Korean ---- */

static void
build_euckr(CharsetConverter *converter)
{
	CharsetGrid *grid = &converter->two;
	Seen	   *set = (Seen *) palloc0(sizeof(Seen));
	unsigned	c = 0xAC00;

	make_grid(grid, 0x81, 0xFD, 0x41, 0xFE);
	put_rows(grid, capstan_charset_ks_rows, 0, 0xFF, code_direct);
	see_grid(set, grid);
	/* A second byte is 41-5A, 61-7A, 81-FE; up to lead A0 all of them, then those that KS X 1001 leaves. */
	for (unsigned lead = 0x81; lead <= 0xC6; lead++)
	{
		put_missing(grid, set, lead, lead, 0x41, 0x5A, &c, 0xD7A3);
		put_missing(grid, set, lead, lead, 0x61, 0x7A, &c, 0xD7A3);
		put_missing(grid, set, lead, lead, 0x81, lead <= 0xA0 ? 0xFE : 0xA0, &c, 0xD7A3);
	}
	pfree(set);
}

/* ---- Japanese ---- */

/* Rows beyond NEC's row 13, and what JIS X 0208 itself has. */
#define JIS_NEC_ROW 13
#define JIS_LAST_ROW 84
#define JIS2_LAST_ROW 77
#define MOST_ROWS 0xFF

static unsigned
code_shifted(unsigned row, unsigned column)
{
	unsigned	lead = (row - 1) / 2 + 0x81;
	unsigned	trail = row % 2 == 1 ? column + 0x3F : column + 0x9E;

	if (lead > 0x9F)
		lead += 0x40;
	if (row % 2 == 1 && trail >= 0x7F)
		trail++;
	return lead << 8 | trail;
}

static unsigned
code_euc(unsigned row, unsigned column)
{
	return (row + 0xA0) << 8 | (column + 0xA0);
}

/* The rows of JIS X 0208; the strings have Microsoft's reading of these seven characters. */
static void
put_jis_rows(CharsetGrid *grid, CodeOfCell code)
{
	put_rows(grid, capstan_charset_jis_rows, 1, JIS_NEC_ROW - 1, code);
	put_rows(grid, capstan_charset_jis_rows, JIS_NEC_ROW + 1, JIS_LAST_ROW, code);
	put(grid, code(1, 32), 0x005C);
	put(grid, code(1, 33), 0x301C);
	put(grid, code(1, 34), 0x2016);
	put(grid, code(1, 61), 0x2212);
	put(grid, code(1, 81), 0x00A2);
	put(grid, code(1, 82), 0x00A3);
	put(grid, code(2, 44), 0x00AC);
}

static void
build_sjis(CharsetConverter *converter)
{
	make_grid(&converter->two, 0x81, 0xFC, 0x40, 0xFC);
	put_jis_rows(&converter->two, code_shifted);
	for (int i = 0xA1; i <= 0xDF; i++)
		converter->one[i] = (uint16) (0xFF61 + i - 0xA1);
}

static void
build_cp932(CharsetConverter *converter)
{
	make_grid(&converter->two, 0x81, 0xFC, 0x40, 0xFC);
	put_rows(&converter->two, capstan_charset_jis_rows, 1, MOST_ROWS, code_shifted);
	put_run(&converter->two, 0xF0, 0xF9, 0x40, 0xFC, 0xE000);
	for (int i = 0xA1; i <= 0xDF; i++)
		converter->one[i] = (uint16) (0xFF61 + i - 0xA1);
}

/* What ujis and eucjpms have in common: katakana behind 8E, and the private use of rows 85 to 94. */
static void
build_euc_frame(CharsetConverter *converter)
{
	make_grid(&converter->two, 0x8E, 0xFE, 0xA1, 0xFE);
	make_grid(&converter->three, 0xA1, 0xFE, 0xA1, 0xFE);
	put_run(&converter->two, 0x8E, 0x8E, 0xA1, 0xDF, 0xFF61);
	put_run(&converter->two, 0xF5, 0xFE, 0xA1, 0xFE, 0xE000);
	put_run(&converter->three, 0xF5, 0xFE, 0xA1, 0xFE, 0xE3AC);
}

static void
build_ujis(CharsetConverter *converter)
{
	build_euc_frame(converter);
	put_jis_rows(&converter->two, code_euc);
	put_rows(&converter->three, capstan_charset_jis2_rows, 1, JIS2_LAST_ROW, code_euc);
	put(&converter->three, code_euc(2, 23), 0x007E);
	put(&converter->three, code_euc(2, 35), 0x00A6);
}

static void
build_eucjpms(CharsetConverter *converter)
{
	build_euc_frame(converter);
	put_rows(&converter->two, capstan_charset_jis_rows, 1, JIS_LAST_ROW, code_euc);
	put_rows(&converter->three, capstan_charset_jis2_rows, 1, MOST_ROWS, code_euc);
}

/* ---- second codes ---- */

typedef struct SecondCodes
{
	Seen		set;
	bool		late;			/* the second pass, over the codes that MySQL likes least */
	bool		shifted;		/* cp932 or sjis */
	int			n;
	uint32		codes[1024];
} SecondCodes;

/* Of two codes of a character MySQL chooses the lower one, but for NEC's copies of IBM's characters and sjis' backslash. */
static bool
is_late(bool shifted, unsigned code)
{
	return shifted && (code == 0x5C || code >> 8 == 0xED || code >> 8 == 0xEE);
}

static void
look_at_code(SecondCodes *second, unsigned code, unsigned c)
{
	if (c == 0 || second->late != is_late(second->shifted, code))
		return;
	if (!seen(&second->set, c))
		see(&second->set, c);
	else if (second->n < (int) lengthof(second->codes))
		second->codes[second->n++] = code;
	else
		elog(ERROR, "too many second codes");
}

static void
look_at_grid(SecondCodes *second, const CharsetGrid *grid, unsigned prefix)
{
	if (grid->cells == NULL)
		return;
	for (unsigned lead = grid->first_lead; lead <= grid->last_lead; lead++)
		for (unsigned trail = grid->first_trail; trail <= grid->last_trail; trail++)
			look_at_code(second, prefix | lead << 8 | trail, charset_grid_cell(grid, lead, trail));
}

static int
compare_codes(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static void
find_second_codes(CharsetConverter *converter)
{
	SecondCodes *second = (SecondCodes *) palloc0(sizeof(SecondCodes));

	second->shifted = strcmp(converter->name, "cp932") == 0 || strcmp(converter->name, "sjis") == 0;
	for (int pass = 0; pass < 2; pass++)
	{
		second->late = pass == 1;
		for (int i = 0; i < 256; i++)
			look_at_code(second, i, converter->one[i]);
		look_at_grid(second, &converter->two, 0);
		look_at_grid(second, &converter->three, CHARSET_SHIFT3 << 16);
	}
	if (second->n > 0)
	{
		qsort(second->codes, second->n, sizeof(uint32), compare_codes);
		converter->second = (uint32 *) MemoryContextAlloc(TopMemoryContext, sizeof(uint32) * second->n);
		memcpy(converter->second, second->codes, sizeof(uint32) * second->n);
		converter->nsecond = second->n;
	}
	pfree(second);
}

/* ---- all of them ---- */

static const struct
{
	const char *name;
	CharsetKind kind;
	void		(*build) (CharsetConverter *converter);
}			others[] = {
	{"utf8mb4", CHARSET_UTF8, NULL},
	{"utf8mb3", CHARSET_UTF8MB3, NULL},
	/* Labels of a binary ENUM: taken if they are utf-8. */
	{"binary", CHARSET_UTF8, NULL},
	{"ucs2", CHARSET_UCS2, NULL},
	{"utf16", CHARSET_UTF16, NULL},
	{"utf16le", CHARSET_UTF16LE, NULL},
	{"utf32", CHARSET_UTF32, NULL},
	{"big5", CHARSET_MANY_BYTES, build_big5},
	{"gb2312", CHARSET_MANY_BYTES, build_gb2312},
	{"gbk", CHARSET_MANY_BYTES, build_gbk},
	{"gb18030", CHARSET_MANY_BYTES, build_gb18030},
	{"euckr", CHARSET_MANY_BYTES, build_euckr},
	{"sjis", CHARSET_MANY_BYTES, build_sjis},
	{"cp932", CHARSET_MANY_BYTES, build_cp932},
	{"ujis", CHARSET_MANY_BYTES, build_ujis},
	{"eucjpms", CHARSET_MANY_BYTES, build_eucjpms},
};

static CharsetConverter *
make_converter(const char *name, CharsetKind kind)
{
	CharsetConverter *converter = (CharsetConverter *) MemoryContextAllocZero(TopMemoryContext, sizeof(CharsetConverter));

	converter->name = name;
	converter->kind = kind;
	return converter;
}

static void
put_ascii(CharsetConverter *converter, int end)
{
	for (int i = 0; i < end; i++)
		converter->one[i] = (uint16) i;
	converter->ascii = end == 0x80;
}

CharsetConverter *
capstan_charset_build(const char *name)
{
	CharsetConverter *converter;

	for (int i = 0; i < (int) lengthof(others); i++)
	{
		if (strcmp(others[i].name, name) != 0)
			continue;
		converter = make_converter(others[i].name, others[i].kind);
		if (others[i].build != NULL)
		{
			put_ascii(converter, 0x80);
			others[i].build(converter);
			find_second_codes(converter);
		}
		return converter;
	}
	for (const CharsetCells *set = capstan_charset_one_byte; set->charset != NULL; set++)
	{
		const char *cells = set->cells;

		if (strcmp(set->charset, name) != 0)
			continue;
		converter = make_converter(set->charset, CHARSET_ONE_BYTE);
		put_ascii(converter, set->first);
		for (int i = set->first; i < 256 && *cells != '\0'; i++)
			converter->one[i] = (uint16) next_cell(&cells);
		find_second_codes(converter);
		return converter;
	}
	return NULL;
}
