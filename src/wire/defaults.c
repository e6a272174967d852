/*
 * defaults.c
 *		What a column gets when an INSERT does not name it.
 *
 * With binlog_row_image = MINIMAL the log leaves out columns that the statement did not
 * name and whose default is a constant; the server itself is asked for those constants,
 * so that they come out just as it would store them.  Expression defaults, timestamps set by the
 * server and generated columns are always in the image (seen on MySQL 9.7).
 *
 * Called by sqlapi/ when a pipeline is created and by the pipeline worker at its first start.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "wire/internal.h"

/*
 * What a column that is NOT NULL and has no default gets in a session without strict mode
 * (https://dev.mysql.com/doc/refman/en/data-type-defaults.html).  ABSENT where there is none.
 */
static SourceValue
implicit_default(const SourceColumn *column)
{
	SourceValue value;

	memset(&value, 0, sizeof(value));
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
			value.kind = column->is_unsigned ? VALUE_UINT : VALUE_INT;
			break;
		case SOURCE_YEAR:
			value.kind = VALUE_INT;
			break;
		case SOURCE_FLOAT:
			value.kind = VALUE_FLOAT;
			break;
		case SOURCE_DOUBLE:
			value.kind = VALUE_DOUBLE;
			break;
		case SOURCE_DATE:
		case SOURCE_DATETIME:
			value.kind = VALUE_DATETIME;
			break;
		case SOURCE_TIMESTAMP:
			value.kind = VALUE_TIMESTAMP;
			break;
		case SOURCE_TIME:
			value.kind = VALUE_TIME;
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_TEXT:
		case SOURCE_VARBINARY:
		case SOURCE_BLOB:
			value.kind = VALUE_BYTES;
			value.u.bytes.data = "";
			break;
		case SOURCE_BINARY:
			value.kind = VALUE_BYTES;
			value.u.bytes.data = palloc0(column->octets + 1);
			value.u.bytes.length = column->octets;
			break;
		case SOURCE_BIT:
			value.kind = VALUE_BITS;
			value.u.bytes.length = (column->precision + 7) / 8;
			value.u.bytes.data = palloc0(value.u.bytes.length);
			break;
		case SOURCE_DECIMAL:
			{
				StringInfoData text;

				initStringInfo(&text);
				appendStringInfoChar(&text, '0');
				for (int i = 0; i < column->scale; i++)
					appendStringInfoString(&text, i == 0 ? ".0" : "0");
				value.kind = VALUE_DECIMAL;
				value.u.bytes.data = text.data;
				value.u.bytes.length = text.len;
				break;
			}
		case SOURCE_ENUM:
			value.kind = VALUE_LABEL;
			value.u.uinteger = 1;
			break;
		case SOURCE_SET:
			value.kind = VALUE_LABEL;
			break;
		default:
			value.kind = VALUE_ABSENT;
			break;
	}
	return value;
}

/* Out of the cursor's buffers into the current context. */
static SourceValue
keep_value(const SourceValue *value)
{
	SourceValue kept = *value;

	switch (value->kind)
	{
		case VALUE_DECIMAL:
		case VALUE_BITS:
		case VALUE_BYTES:
		case VALUE_JSON:
			kept.u.bytes.data = memcpy(palloc(value->u.bytes.length + 1), value->u.bytes.data, value->u.bytes.length);
			break;
		default:
			break;
	}
	return kept;
}

SourceValue *
capstan_wire_column_defaults(SourceConn *conn, const SourceTable *table)
{
	SourceValue *defaults = palloc0(sizeof(SourceValue) * table->ncolumns);
	const SourceColumn **asked = palloc(sizeof(SourceColumn *) * table->ncolumns);
	int		   *indexes = palloc(sizeof(int) * table->ncolumns);
	SourceValue *values = palloc(sizeof(SourceValue) * table->ncolumns);
	StringInfoData sql;
	SourceCursor *cursor;
	int			n = 0;

	initStringInfo(&sql);
	for (int i = 0; i < table->ncolumns; i++)
	{
		const SourceColumn *column = &table->columns[i];

		if (column->server_fills)
			defaults[i].kind = VALUE_ABSENT;
		else if (column->constant_default)
		{
			appendStringInfo(&sql, "%sDEFAULT(%s)", n > 0 ? ", " : "SELECT ", capstan_wire_quote_identifier(column->name));
			asked[n] = column;
			indexes[n++] = i;
		}
		else if (column->nullable)
			defaults[i].kind = VALUE_NULL;
		else
			defaults[i] = implicit_default(column);
	}
	if (n == 0)
		return defaults;

	/* a row that is not there still has its defaults */
	appendStringInfo(&sql, " FROM %s.%s RIGHT JOIN (SELECT 1 AS one) AS one ON FALSE",
					 capstan_wire_quote_identifier(table->schema_name), capstan_wire_quote_identifier(table->table_name));
	cursor = capstan_wire_open_cursor(conn, sql.data, asked, n);
	if (!capstan_wire_fetch(cursor, values))
		elog(ERROR, "no row of defaults for %s.%s", table->schema_name, table->table_name);
	for (int i = 0; i < n; i++)
		defaults[indexes[i]] = keep_value(&values[i]);
	while (capstan_wire_fetch(cursor, values))
		 /* the clean end */ ;
	capstan_wire_close_cursor(cursor);
	return defaults;
}
