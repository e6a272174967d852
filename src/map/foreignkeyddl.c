/*
 * foreignkeyddl.c
 *		Foreign keys of the source as statements of Postgres.
 *
 * Called by objectmap.c.  The actions ON DELETE and ON UPDATE act for what is written here only: triggers of foreign keys do not fire for
 * the stream, which brings what the source's own actions did.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "map/objectbuild.h"

static int
find_column(const SourceTable *source, const char *name)
{
	for (int i = 0; i < source->ncolumns; i++)
		if (strcmp(source->columns[i].name, name) == 0)
			return i;
	/* MySQL writes them as the statement did */
	for (int i = 0; i < source->ncolumns; i++)
		if (pg_strcasecmp(source->columns[i].name, name) == 0)
			return i;
	return -1;
}

static void
append_names(StringInfo out, const SourceTable *source, const int *columns, int ncolumns)
{
	for (int i = 0; i < ncolumns; i++)
		appendStringInfo(out, "%s%s", i > 0 ? ", " : "", object_quote(source->columns[columns[i]].name));
}

static char *
source_definition(const SourceTable *source, const SourceForeignKey *key)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoString(&out, "FOREIGN KEY (");
	for (int i = 0; i < key->ncolumns; i++)
		appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", source->columns[key->columns[i]].name);
	appendStringInfo(&out, ") REFERENCES %s.%s (", key->parent_schema, key->parent_table);
	for (int i = 0; i < key->ncolumns; i++)
		appendStringInfo(&out, "%s%s", i > 0 ? ", " : "", key->parent_columns[i]);
	appendStringInfo(&out, ") ON DELETE %s ON UPDATE %s", key->on_delete, key->on_update);
	return out.data;
}

static bool
is_known_action(const char *action)
{
	/* SET DEFAULT is accepted by MySQL's parser only, InnoDB refuses it. */
	return strcmp(action, "NO ACTION") == 0 || strcmp(action, "RESTRICT") == 0 || strcmp(action, "CASCADE") == 0 ||
		strcmp(action, "SET NULL") == 0;
}

void
object_add_foreign_key(ObjectBuild *build, int table, const SourceForeignKey *key, int parent)
{
	const SourceTable *source = build->tables[table].source;
	const SourceTable *referenced = parent >= 0 ? build->tables[parent].source : NULL;
	TargetObject *object = object_add(build, table, "foreign_key", key->name, source_definition(source, key));
	int			columns[SOURCE_MAX_PARTS];
	StringInfoData out;

	if (parent < 0)
	{
		object_refuse(object, psprintf("the pipeline does not capture %s.%s", key->parent_schema, key->parent_table));
		return;
	}
	for (int i = 0; i < key->ncolumns; i++)
	{
		columns[i] = find_column(referenced, key->parent_columns[i]);
		if (columns[i] < 0)
		{
			object_refuse(object, "it refers to a column that the other table does not have");
			return;
		}
	}
	if (!object_is_unique(&build->tables[parent], columns, key->ncolumns, build->policies))
	{
		object_refuse(object, "the columns that it refers to are not unique by an index that capstan makes");
		return;
	}
	if (!is_known_action(key->on_delete) || !is_known_action(key->on_update))
	{
		object_refuse(object, "its action is not translated");
		return;
	}

	object->refers_to = parent;
	object->target_object = object_constraint_name(build, table, key->name);
	initStringInfo(&out);
	appendStringInfo(&out, "ALTER TABLE %%1$s ADD CONSTRAINT %s FOREIGN KEY (", object_quote(object->target_object));
	append_names(&out, source, key->columns, key->ncolumns);
	appendStringInfoString(&out, ") REFERENCES %2$s (");
	append_names(&out, referenced, columns, key->ncolumns);
	appendStringInfo(&out, ") ON DELETE %s ON UPDATE %s NOT VALID", key->on_delete, key->on_update);
	object->statement = out.data;
	for (int i = 0; i < key->ncolumns; i++)
		if (!object_compares_alike(&source->columns[key->columns[i]]))
			object_leave(object, "the source compares these texts by another collation: a row that refers to another one there, 'A' to 'a', does not here");
}
