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

/* What one query tells of a constraint, for rows of another one: joined here, since the server does so in quadratic time. */
typedef struct ConstraintText
{
	char	   *schema_name;
	char	   *name;
	char	   *texts[2];		/* CHECK: its clause; foreign key: ON UPDATE, ON DELETE */
} ConstraintText;

typedef struct ObjectReader
{
	int			ntables;
	SourceTableInfo **tables;	/* sorted by schema, name */
	SourceTableInfo *last;		/* rows of one table come together */
	int			ntexts;
	ConstraintText *texts;		/* sorted once all are there; names are unique in a schema, for each kind of constraint */
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
	{
		object->default_text = pstrdup(row[COLUMN_DEFAULT]);
		object->default_is_cut = strlen(object->default_text) < lengths[COLUMN_DEFAULT];
	}
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

static int
compare_texts(const void *a, const void *b)
{
	const ConstraintText *left = a;
	const ConstraintText *right = b;
	int			c = strcmp(left->schema_name, right->schema_name);

	return c != 0 ? c : strcmp(left->name, right->name);
}

static void
add_constraint_text(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	ObjectReader *reader = arg;
	ConstraintText *text;

	GROW(reader->texts, reader->ntexts, ConstraintText);
	text = &reader->texts[reader->ntexts++];
	text->schema_name = pstrdup(row[0]);
	text->name = pstrdup(row[1]);
	text->texts[0] = pstrdup(row[2] != NULL ? row[2] : "");
	text->texts[1] = pstrdup(row[3] != NULL ? row[3] : "");
}

static const ConstraintText *
find_text(ObjectReader *reader, char *schema_name, char *name)
{
	ConstraintText wanted = {schema_name, name, {NULL, NULL}};
	ConstraintText *found = bsearch(&wanted, reader->texts, reader->ntexts, sizeof(ConstraintText), compare_texts);

	/* it was dropped between the two queries, or made */
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("constraint \"%s\" in schema \"%s\" of the source is being changed", name, schema_name),
				 errhint("Try again.")));
	return found;
}

enum
{
	CHECK_SCHEMA, CHECK_TABLE, CHECK_NAME, CHECK_ENFORCED
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
	check->clause = find_text(arg, row[CHECK_SCHEMA], row[CHECK_NAME])->texts[0];
	check->enforced = row[CHECK_ENFORCED] != NULL && strcmp(row[CHECK_ENFORCED], "YES") == 0;
}

enum
{
	KEY_SCHEMA, KEY_TABLE, KEY_NAME, KEY_COLUMN, KEY_PARENT_SCHEMA, KEY_PARENT_TABLE, KEY_PARENT_COLUMN
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
		const ConstraintText *rules = find_text(arg, row[KEY_SCHEMA], row[KEY_NAME]);

		GROW(objects->foreign_keys, objects->nforeign_keys, SourceForeignKey);
		key = &objects->foreign_keys[objects->nforeign_keys++];
		key->name = pstrdup(row[KEY_NAME]);
		key->parent_schema = pstrdup(row[KEY_PARENT_SCHEMA]);
		key->parent_table = pstrdup(row[KEY_PARENT_TABLE]);
		key->on_update = rules->texts[0];
		key->on_delete = rules->texts[1];
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

/* Their schemas only: these tables do not tell of which table a constraint is, or not fast. */
static char *
schema_condition(const ObjectReader *reader)
{
	StringInfoData sql;
	const char *last = NULL;

	initStringInfo(&sql);
	for (int i = 0; i < reader->ntables; i++)
	{
		const char *schema_name = reader->tables[i]->table.schema_name;

		if (last == NULL || strcmp(last, schema_name) != 0)
			appendStringInfo(&sql, "%s%s", last == NULL ? "CONSTRAINT_SCHEMA IN (" : ", ", capstan_wire_quote_literal(schema_name));
		last = schema_name;
	}
	appendStringInfoChar(&sql, ')');
	return sql.data;
}

static void
read_texts(SourceConn *conn, ObjectReader *reader, const char *sql)
{
	reader->ntexts = 0;
	capstan_wire_for_each_row(conn, sql, WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE, add_constraint_text, reader);
	qsort(reader->texts, reader->ntexts, sizeof(ConstraintText), compare_texts);
}

static void
read_constraints(SourceConn *conn, ObjectReader *reader, const char *condition)
{
	char	   *schemas = schema_condition(reader);

	if (capstan_wire_server_version_num(conn) >= VERSION_WITH_CHECKS)
	{
		read_texts(conn, reader, psprintf("SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, CHECK_CLAUSE, NULL "
										  "FROM information_schema.CHECK_CONSTRAINTS WHERE %s", schemas));
		capstan_wire_for_each_row(conn,
								  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ENFORCED "
										   "FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE = 'CHECK' AND %s "
										   "ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME", condition),
								  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE, add_check, reader);
	}
	read_texts(conn, reader, psprintf("SELECT CONSTRAINT_SCHEMA, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE "
									  "FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE %s", schemas));
	capstan_wire_for_each_row(conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, "
									   "REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE "
									   "WHERE REFERENCED_TABLE_NAME IS NOT NULL AND %s "
									   "ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE,
							  add_foreign_key_part, reader);
}

void
capstan_wire_fill_objects(SourceConn *conn, List *infos)
{
	ObjectReader reader = {0};
	const SourceTable **tables;
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
	tables = palloc(sizeof(SourceTable *) * reader.ntables);
	for (int i = 0; i < reader.ntables; i++)
		tables[i] = &reader.tables[i]->table;
	condition = capstan_wire_table_condition(tables, reader.ntables, "TABLE_SCHEMA", "TABLE_NAME");
	read_columns_and_indexes(conn, &reader, condition);
	read_constraints(conn, &reader, condition);
}
