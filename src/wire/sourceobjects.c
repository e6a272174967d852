/*
 * sourceobjects.c
 *		What belongs to tables besides columns and key, from the source's information_schema.
 *
 * Called by sqlapi/ when a pipeline is created.  Set-wise: the number of queries does not depend on the number of tables.
 * Nothing is judged here; what becomes of it on the target is map/'s business.
 */
#include "postgres.h"

#include "wire/introspect.h"

/* Servers without them have not the columns and tables that tell of them either. */
#define VERSION_WITH_EXPRESSIONS 80013
#define VERSION_WITH_CHECKS 80016

/* Growing arrays of a SourceObjects double. */
#define GROW(array, n, type) \
	do { \
		if ((n) == 0) \
			(array) = palloc(sizeof(type)); \
		else if (((n) & ((n) - 1)) == 0) \
			(array) = repalloc(array, sizeof(type) * (n) * 2); \
		memset(&(array)[n], 0, sizeof(type)); \
	} while (0)

typedef struct ObjectReader
{
	int			ntables;
	SourceTableInfo **tables;	/* sorted by schema, name */
	SourceTableInfo *last;		/* rows of one table come together */
} ObjectReader;

static int
compare_names(const char *schema_name, const char *table_name, const SourceTable *table)
{
	int			c = strcmp(schema_name, table->schema_name);

	return c != 0 ? c : strcmp(table_name, table->table_name);
}

static int
compare_infos(const void *a, const void *b)
{
	const SourceTable *left = &(*(SourceTableInfo *const *) a)->table;
	const SourceTable *right = &(*(SourceTableInfo *const *) b)->table;

	return compare_names(left->schema_name, left->table_name, right);
}

/* NULL for a table that was not asked for. */
static SourceTableInfo *
find_table(ObjectReader *reader, const char *schema_name, const char *table_name)
{
	int			low = 0;
	int			high = reader->ntables;

	if (reader->last != NULL && compare_names(schema_name, table_name, &reader->last->table) == 0)
		return reader->last;
	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		int			c = compare_names(schema_name, table_name, &reader->tables[middle]->table);

		if (c == 0)
			return reader->last = reader->tables[middle];
		if (c < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int
find_column(const SourceTable *table, const char *name)
{
	for (int i = 0; i < table->ncolumns; i++)
		if (name != NULL && strcmp(table->columns[i].name, name) == 0)
			return i;
	return -1;
}

static char *
text_or_null(const char *text)
{
	return text == NULL || text[0] == '\0' ? NULL : pstrdup(text);
}

static void
add_table_comment(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	SourceTableInfo *info = find_table(arg, row[0], row[1]);

	if (info != NULL)
		info->objects->comment = text_or_null(row[2]);
}

enum
{
	COLUMN_SCHEMA, COLUMN_TABLE, COLUMN_NAME, COLUMN_DEFAULT, COLUMN_EXTRA, COLUMN_GENERATION, COLUMN_COMMENT
};

static void
add_column_object(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	SourceTableInfo *info = find_table(arg, row[COLUMN_SCHEMA], row[COLUMN_TABLE]);
	const char *extra = row[COLUMN_EXTRA] != NULL ? row[COLUMN_EXTRA] : "";
	SourceObjects *objects;
	SourceColumnObject *object;
	int			column;

	if (info == NULL || (column = find_column(&info->table, row[COLUMN_NAME])) < 0)
		return;
	objects = info->objects;
	GROW(objects->columns, objects->ncolumns, SourceColumnObject);
	object = &objects->columns[objects->ncolumns++];
	object->column = column;
	object->generation = text_or_null(row[COLUMN_GENERATION]);
	if (row[COLUMN_DEFAULT] != NULL)
		object->default_text = pstrdup(row[COLUMN_DEFAULT]);
	object->default_is_expression = strstr(extra, "DEFAULT_GENERATED") != NULL;
	object->auto_increment = strstr(extra, "auto_increment") != NULL;
	object->on_update = strstr(extra, "on update ") != NULL;
	object->comment = text_or_null(row[COLUMN_COMMENT]);
}

enum
{
	INDEX_SCHEMA, INDEX_TABLE, INDEX_NAME, INDEX_NON_UNIQUE, INDEX_COLUMN, INDEX_COLLATION, INDEX_SUB_PART, INDEX_TYPE,
	INDEX_VISIBLE, INDEX_EXPRESSION
};

/* One row for each column of each index, in order. */
static void
add_index_part(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	SourceTableInfo *info = find_table(arg, row[INDEX_SCHEMA], row[INDEX_TABLE]);
	SourceObjects *objects;
	SourceIndex *index;
	SourceIndexPart *part;

	if (info == NULL)
		return;
	objects = info->objects;
	if (objects->nindexes == 0 || strcmp(objects->indexes[objects->nindexes - 1].name, row[INDEX_NAME]) != 0)
	{
		GROW(objects->indexes, objects->nindexes, SourceIndex);
		index = &objects->indexes[objects->nindexes++];
		index->name = pstrdup(row[INDEX_NAME]);
		index->type = pstrdup(row[INDEX_TYPE] != NULL ? row[INDEX_TYPE] : "");
		index->unique = row[INDEX_NON_UNIQUE] != NULL && strcmp(row[INDEX_NON_UNIQUE], "0") == 0;
		index->invisible = row[INDEX_VISIBLE] != NULL && strcmp(row[INDEX_VISIBLE], "NO") == 0;
	}
	index = &objects->indexes[objects->nindexes - 1];
	if (index->nparts == SOURCE_MAX_PARTS)
		elog(ERROR, "index \"%s\" of the source has more than %d columns", index->name, SOURCE_MAX_PARTS);
	part = &index->parts[index->nparts++];
	part->column = find_column(&info->table, row[INDEX_COLUMN]);
	part->prefix = row[INDEX_SUB_PART] != NULL ? strtoul(row[INDEX_SUB_PART], NULL, 10) : 0;
	part->descending = row[INDEX_COLLATION] != NULL && strcmp(row[INDEX_COLLATION], "D") == 0;
	if (part->column < 0 && index->expression == NULL)
		index->expression = pstrdup(row[INDEX_EXPRESSION] != NULL ? row[INDEX_EXPRESSION] : "");
}

enum
{
	CHECK_SCHEMA, CHECK_TABLE, CHECK_NAME, CHECK_CLAUSE, CHECK_ENFORCED
};

static void
add_check(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	SourceTableInfo *info = find_table(arg, row[CHECK_SCHEMA], row[CHECK_TABLE]);
	SourceCheck *check;

	if (info == NULL)
		return;
	GROW(info->objects->checks, info->objects->nchecks, SourceCheck);
	check = &info->objects->checks[info->objects->nchecks++];
	check->name = pstrdup(row[CHECK_NAME]);
	check->clause = pstrdup(row[CHECK_CLAUSE] != NULL ? row[CHECK_CLAUSE] : "");
	check->enforced = row[CHECK_ENFORCED] != NULL && strcmp(row[CHECK_ENFORCED], "YES") == 0;
}

enum
{
	KEY_SCHEMA, KEY_TABLE, KEY_NAME, KEY_COLUMN, KEY_PARENT_SCHEMA, KEY_PARENT_TABLE, KEY_PARENT_COLUMN, KEY_ON_UPDATE,
	KEY_ON_DELETE
};

/* One row for each column of each foreign key, in order. */
static void
add_foreign_key_part(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	SourceTableInfo *info = find_table(arg, row[KEY_SCHEMA], row[KEY_TABLE]);
	SourceObjects *objects;
	SourceForeignKey *key;

	if (info == NULL)
		return;
	objects = info->objects;
	if (objects->nforeign_keys == 0 || strcmp(objects->foreign_keys[objects->nforeign_keys - 1].name, row[KEY_NAME]) != 0)
	{
		GROW(objects->foreign_keys, objects->nforeign_keys, SourceForeignKey);
		key = &objects->foreign_keys[objects->nforeign_keys++];
		key->name = pstrdup(row[KEY_NAME]);
		key->parent_schema = pstrdup(row[KEY_PARENT_SCHEMA]);
		key->parent_table = pstrdup(row[KEY_PARENT_TABLE]);
		key->on_update = pstrdup(row[KEY_ON_UPDATE] != NULL ? row[KEY_ON_UPDATE] : "");
		key->on_delete = pstrdup(row[KEY_ON_DELETE] != NULL ? row[KEY_ON_DELETE] : "");
	}
	key = &objects->foreign_keys[objects->nforeign_keys - 1];
	if (key->ncolumns == SOURCE_MAX_PARTS)
		elog(ERROR, "foreign key \"%s\" of the source has more than %d columns", key->name, SOURCE_MAX_PARTS);
	key->columns[key->ncolumns] = find_column(&info->table, row[KEY_COLUMN]);
	if (key->columns[key->ncolumns] < 0)
		elog(ERROR, "foreign key \"%s\" of the source has an unknown column", key->name);
	key->parent_columns[key->ncolumns++] = pstrdup(row[KEY_PARENT_COLUMN]);
}

static void
read_columns_and_indexes(SourceConn *conn, ObjectReader *reader, const char *condition)
{
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES "
									   "WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_COMMENT <> '' AND %s", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_NULLABLE, add_table_comment, reader);
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_DEFAULT, EXTRA, "
									   "GENERATION_EXPRESSION, COLUMN_COMMENT FROM information_schema.COLUMNS "
									   "WHERE (COLUMN_DEFAULT IS NOT NULL OR EXTRA <> '' OR COLUMN_COMMENT <> '') AND %s "
									   "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE
							  WIRE_NULLABLE, add_column_object, reader);
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, COLLATION, "
									   "SUB_PART, INDEX_TYPE, IS_VISIBLE, %s FROM information_schema.STATISTICS "
									   "WHERE %s ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
									   capstan_wire_server_version_num(conn) >= VERSION_WITH_EXPRESSIONS ? "EXPRESSION" : "NULL", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE
							  WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE, add_index_part, reader);
}

static void
read_constraints(SourceConn *conn, ObjectReader *reader, const char *condition)
{
	if (capstan_wire_server_version_num(conn) >= VERSION_WITH_CHECKS)
		capstan_wire_for_each_row(conn,
								  psprintf("SELECT t.TABLE_SCHEMA, t.TABLE_NAME, c.CONSTRAINT_NAME, c.CHECK_CLAUSE, t.ENFORCED "
										   "FROM information_schema.TABLE_CONSTRAINTS t JOIN information_schema.CHECK_CONSTRAINTS c "
										   "ON c.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA AND c.CONSTRAINT_NAME = t.CONSTRAINT_NAME "
										   "WHERE t.CONSTRAINT_TYPE = 'CHECK' AND %s "
										   "ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.CONSTRAINT_NAME", condition),
								  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE, add_check, reader);
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.CONSTRAINT_NAME, t.COLUMN_NAME, t.REFERENCED_TABLE_SCHEMA, "
									   "t.REFERENCED_TABLE_NAME, t.REFERENCED_COLUMN_NAME, r.UPDATE_RULE, r.DELETE_RULE "
									   "FROM information_schema.KEY_COLUMN_USAGE t JOIN information_schema.REFERENTIAL_CONSTRAINTS r "
									   "ON r.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = t.CONSTRAINT_NAME "
									   "AND r.TABLE_NAME = t.TABLE_NAME "
									   "WHERE t.REFERENCED_TABLE_NAME IS NOT NULL AND %s "
									   "ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, t.CONSTRAINT_NAME, t.ORDINAL_POSITION", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE
							  WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE, add_foreign_key_part, reader);
}

void
capstan_wire_fill_objects(SourceConn *conn, List *infos)
{
	ObjectReader reader = {0};
	ListCell   *lc;
	char	   *condition;

	if (infos == NIL)
		return;
	reader.tables = palloc(sizeof(SourceTableInfo *) * list_length(infos));
	foreach(lc, infos)
	{
		SourceTableInfo *info = lfirst(lc);

		info->objects = palloc0(sizeof(SourceObjects));
		reader.tables[reader.ntables++] = info;
	}
	qsort(reader.tables, reader.ntables, sizeof(SourceTableInfo *), compare_infos);

	{
		const SourceTable **tables = palloc(sizeof(SourceTable *) * reader.ntables);

		for (int i = 0; i < reader.ntables; i++)
			tables[i] = &reader.tables[i]->table;
		read_columns_and_indexes(conn, &reader,
								 capstan_wire_table_condition(tables, reader.ntables, "TABLE_SCHEMA", "TABLE_NAME"));
		condition = capstan_wire_table_condition(tables, reader.ntables, "t.TABLE_SCHEMA", "t.TABLE_NAME");
	}
	read_constraints(conn, &reader, condition);
}
