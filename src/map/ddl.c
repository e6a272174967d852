/*
 * ddl.c
 *		The statements that make a target: CREATE TABLE, COMMENT ON.
 *
 * Every name is quoted where it must be and keeps its case.  Text columns of the primary key get
 * COLLATE "C": keys are compared by bytes on the target.  Generated columns become plain ones, which take
 * the values that the source computed.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "errcodes.h"
#include "map/internal.h"

static void
append_column(StringInfo out, const SourceColumn *column)
{
	appendStringInfo(out, "\t%s %s", quote_identifier(column->name), capstan_map_default_type(column));
	if (column->in_key && capstan_typemap_has_charset(column))
		appendStringInfoString(out, " COLLATE pg_catalog.\"C\"");
	if (!column->nullable)
		appendStringInfoString(out, " NOT NULL");
}

/*
 * A NOT NULL of the source stays one on the target whatever the policies say: with zero_dates
 * null, a zero date there is an error whose hint names the ways out.
 */
char *
capstan_map_table_ddl(const SourceTable *source, const char *target_schema, const char *target_table, MapPolicies policies)
{
	List	   *complaints = capstan_map_source_complaints(source);
	StringInfoData buf;

	if (complaints != NIL)
		ereport(ERROR,
				(errcode(CAPSTAN_ERRCODE_SOURCE_TABLE),
				 errmsg("source table \"%s.%s\" cannot be replicated", source->schema_name, source->table_name),
				 errdetail("%s", capstan_map_join_complaints(complaints))));

	initStringInfo(&buf);
	appendStringInfo(&buf, "CREATE TABLE %s (", quote_qualified_identifier(target_schema, target_table));
	for (int i = 0; i < source->ncolumns; i++)
	{
		appendStringInfoString(&buf, i > 0 ? ",\n" : "\n");
		append_column(&buf, &source->columns[i]);
	}
	if (source->nkey > 0)
	{
		appendStringInfoString(&buf, ",\n\tPRIMARY KEY (");
		for (int i = 0; i < source->nkey; i++)
			appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", quote_identifier(source->columns[source->key[i]].name));
		appendStringInfoChar(&buf, ')');
	}
	appendStringInfoString(&buf, "\n)");
	return buf.data;
}

List *
capstan_map_comment_ddl(const SourceTable *source, const char *target_schema, const char *target_table,
						const char *table_comment, char *const *column_comments)
{
	const char *table = quote_qualified_identifier(target_schema, target_table);
	List	   *statements = NIL;

	if (table_comment != NULL)
		statements = lappend(statements, psprintf("COMMENT ON TABLE %s IS %s", table, quote_literal_cstr(table_comment)));
	for (int i = 0; i < source->ncolumns; i++)
		if (column_comments[i] != NULL)
			statements = lappend(statements, psprintf("COMMENT ON COLUMN %s.%s IS %s", table, quote_identifier(source->columns[i].name),
													  quote_literal_cstr(column_comments[i])));
	return statements;
}
