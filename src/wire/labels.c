/*
 * labels.c
 *		Labels of ENUM and SET columns: from information_schema's text to the bytes of the column's character set.
 *
 * COLUMN_TYPE has them in utf8, between quotes ('' inside for one) and with backslash escapes:
 *
 *	   enum('new','it''s','back\\slash')
 *
 * information_schema is utf8mb3, so a character beyond the BMP shows as "?".  Such a label cannot be told from
 * one with a real question mark.  Signatures (row.c) write it so, too; what the stream converts comes with the
 * table map's labels, and the copy sends the label's own text.
 */
#include "postgres.h"

#include "base/collation.h"
#include "wire/introspect.h"

/* Labels in one query; each is a column of its result. */
#define LABELS_PER_QUERY 500

typedef struct PendingLabel
{
	SourceBytes *label;			/* utf-8 until converted */
	const char *charset;
} PendingLabel;

struct Labels
{
	int			npending;
	int			capacity;
	PendingLabel *pending;
};

Labels *
capstan_wire_labels_create(void)
{
	return palloc0(sizeof(Labels));
}

static bool
is_plain(const SourceBytes *label)
{
	for (size_t i = 0; i < label->length; i++)
	{
		unsigned char c = (unsigned char) label->data[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			  c == ' ' || c == '_' || c == '-' || c == '.' || c == ',' || c == '/' || c == '+' || c == ':'))
			return false;
	}
	return true;
}

/* Are the bytes of a label in this character set those of utf-8? */
static bool
same_as_utf8(const char *charset, const SourceBytes *label)
{
	if (strcmp(charset, "utf8mb4") == 0 || strcmp(charset, "utf8mb3") == 0 || strcmp(charset, "binary") == 0)
		return true;
	if (strcmp(charset, "ucs2") == 0 || strncmp(charset, "utf16", 5) == 0 || strcmp(charset, "utf32") == 0)
		return false;
	return is_plain(label);
}

/* Parses one quoted label at *text (on its opening quote) and moves behind it.  False: not one. */
static bool
parse_label(const char **text, SourceBytes *label)
{
	const char *p = *text;
	StringInfoData out;

	if (*p++ != '\'')
		return false;
	initStringInfo(&out);
	for (; *p != '\0'; p++)
	{
		if (*p == '\'')
		{
			if (p[1] != '\'')
				break;
			p++;
			appendStringInfoChar(&out, '\'');
		}
		else if (*p == '\\' && p[1] != '\0')
		{
			p++;
			switch (*p)
			{
				case 'n':
					appendStringInfoChar(&out, '\n');
					break;
				case 'r':
					appendStringInfoChar(&out, '\r');
					break;
				case '0':
					appendStringInfoChar(&out, '\0');
					break;
				case 'Z':
					appendStringInfoChar(&out, '\032');
					break;
				default:
					appendStringInfoChar(&out, *p);
					break;
			}
		}
		else
			appendStringInfoChar(&out, *p);
	}
	if (*p != '\'')
		return false;
	*text = p + 1;
	label->data = out.data;
	label->length = out.len;
	return true;
}

static void
add_pending(Labels *labels, SourceBytes *label, const char *charset)
{
	if (labels->npending == labels->capacity)
	{
		labels->capacity = Max(labels->capacity * 2, 64);
		labels->pending = labels->pending == NULL ? palloc(sizeof(PendingLabel) * labels->capacity)
			: repalloc(labels->pending, sizeof(PendingLabel) * labels->capacity);
	}
	labels->pending[labels->npending].label = label;
	labels->pending[labels->npending].charset = charset;
	labels->npending++;
}

void
capstan_wire_labels_add(Labels *labels, SourceColumn *column, const char *column_type)
{
	const char *p = column_type != NULL ? strchr(column_type, '(') : NULL;
	const char *charset = capstan_collation_charset(column->collation);
	int			capacity = 8;

	column->labels = palloc(sizeof(SourceBytes) * capacity);
	while (p != NULL && (*p == '(' || *p == ','))
	{
		p++;
		if (column->nlabels == capacity)
		{
			capacity *= 2;
			column->labels = repalloc(column->labels, sizeof(SourceBytes) * capacity);
		}
		if (!parse_label(&p, &column->labels[column->nlabels]))
			break;
		column->nlabels++;
	}
	if (p == NULL || *p != ')' || column->nlabels == 0 || charset == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("the type of column \"%s\" is not understood", column->name),
				 errdetail("It begins with \"%.20s\".", column_type != NULL ? column_type : "")));

	/* From here on the array does not move. */
	for (int i = 0; i < column->nlabels; i++)
		if (!same_as_utf8(charset, &column->labels[i]))
			add_pending(labels, &column->labels[i], charset);
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void
set_from_hex(SourceBytes *label, const char *hex)
{
	size_t		length = hex != NULL ? strlen(hex) / 2 : 0;
	char	   *bytes = palloc(length + 1);

	if (hex == NULL || strlen(hex) % 2 != 0)
		elog(ERROR, "a label could not be converted");
	for (size_t i = 0; i < length; i++)
	{
		int			high = hex_digit(hex[2 * i]);
		int			low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			elog(ERROR, "a label could not be converted");
		bytes[i] = (char) (high << 4 | low);
	}
	bytes[length] = '\0';
	label->data = bytes;
	label->length = length;
}

void
capstan_wire_labels_finish(Labels *labels, SourceConn *conn)
{
	for (int start = 0; start < labels->npending; start += LABELS_PER_QUERY)
	{
		int			n = Min(LABELS_PER_QUERY, labels->npending - start);
		PendingLabel *pending = labels->pending + start;
		StringInfoData sql;
		SourceResult *result;

		initStringInfo(&sql);
		for (int i = 0; i < n; i++)
		{
			appendStringInfo(&sql, "%sHEX(CONVERT(_utf8mb4 x'", i > 0 ? ", " : "SELECT ");
			for (size_t j = 0; j < pending[i].label->length; j++)
				appendStringInfo(&sql, "%02x", (unsigned char) pending[i].label->data[j]);
			appendStringInfo(&sql, "' USING %s))", pending[i].charset);
		}
		result = capstan_wire_query(conn, sql.data, NULL);
		if (result->nrows != 1 || result->ncolumns != n)
			elog(ERROR, "labels could not be converted");
		for (int i = 0; i < n; i++)
			set_from_hex(pending[i].label, result->rows[0][i]);
	}
}
