/*
 * introspect.c
 *		What the source's information_schema says about tables, as SourceTables.
 *
 * The result must be the very SourceTable that binlog/ makes of a table map with FULL metadata, since both are
 * compared by their signature (row.h).  Three things are not obvious:
 *
 * - The table map's primary key is the server's: without a PRIMARY KEY, the first UNIQUE key, in the order of
 *   SHOW INDEX, whose columns are all NOT NULL, whole, and not virtual.
 * - Labels of ENUM and SET are sent in the column's character set; information_schema has them in utf8mb3,
 *   quoted.  The server itself is asked to convert them back (labels.c).
 * - Invisible columns, also the one of a generated invisible primary key, are in the table map.
 *
 * The number of queries does not depend on the number of tables, but for tables that have two or more candidates for the
 * key (one SHOW INDEX each) and for labels that need the server's conversion (one query for some hundreds).
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/collation.h"
#include "wire/introspect.h"

/* From this number of tables on, whole schemas are read and filtered here. */
#define MAX_NAMED_TABLES 64

/* Server-side text of a unique key while it is collected. */
typedef struct KeyCandidate
{
	char	   *name;
	bool		primary;
	bool		usable;			/* NOT NULL, whole, not virtual columns only */
	bool		has_prefix;
	int			ncolumns;
	int			columns[16];	/* MySQL's limit for the columns of an index */
	bool		descends[16];
} KeyCandidate;

/* What a SourceColumn has no room for. */
typedef struct ColumnExtra
{
	bool		is_virtual;		/* generated, not stored */
	char	   *generation;		/* of a virtual one: its expression */
	char	   *label_text;		/* ENUM, SET: the type as information_schema writes it */
} ColumnExtra;

typedef struct TableBuild
{
	SourceTableInfo *info;
	int			capacity;		/* of info->table.columns and extras */
	ColumnExtra *extras;
	int			ncandidates;
	KeyCandidate *candidates;
} TableBuild;

typedef struct Build
{
	SourceConn *conn;
	int			ntables;
	TableBuild *tables;			/* sorted by schema, name */
	TableBuild *last;			/* rows of one table come together */
} Build;

static int
compare_names(const char *schema_a, const char *table_a, const char *schema_b, const char *table_b)
{
	int			c = strcmp(schema_a, schema_b);

	return c != 0 ? c : strcmp(table_a, table_b);
}

static int
compare_builds(const void *a, const void *b)
{
	const SourceTable *ta = &((const TableBuild *) a)->info->table;
	const SourceTable *tb = &((const TableBuild *) b)->info->table;

	return compare_names(ta->schema_name, ta->table_name, tb->schema_name, tb->table_name);
}

/* NULL for a table that was not asked for. */
static TableBuild *
find_build(Build *build, const char *schema_name, const char *table_name)
{
	int			low = 0;
	int			high = build->ntables;

	if (build->last != NULL &&
		compare_names(schema_name, table_name, build->last->info->table.schema_name,
					  build->last->info->table.table_name) == 0)
		return build->last;
	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		const SourceTable *table = &build->tables[middle].info->table;
		int			c = compare_names(schema_name, table_name, table->schema_name, table->table_name);

		if (c == 0)
		{
			build->last = &build->tables[middle];
			return build->last;
		}
		if (c < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static const struct
{
	const char *name;
	SourceType	type;
	uint8		length_bytes;
}			type_names[] = {
	{"tinyint", SOURCE_TINYINT, 0},
	{"smallint", SOURCE_SMALLINT, 0},
	{"mediumint", SOURCE_MEDIUMINT, 0},
	{"int", SOURCE_INT, 0},
	{"bigint", SOURCE_BIGINT, 0},
	{"decimal", SOURCE_DECIMAL, 0},
	{"float", SOURCE_FLOAT, 0},
	{"double", SOURCE_DOUBLE, 0},
	{"bit", SOURCE_BIT, 0},
	{"date", SOURCE_DATE, 0},
	{"datetime", SOURCE_DATETIME, 0},
	{"timestamp", SOURCE_TIMESTAMP, 0},
	{"time", SOURCE_TIME, 0},
	{"year", SOURCE_YEAR, 0},
	{"char", SOURCE_CHAR, 0},
	{"varchar", SOURCE_VARCHAR, 0},
	{"tinytext", SOURCE_TEXT, 1},
	{"text", SOURCE_TEXT, 2},
	{"mediumtext", SOURCE_TEXT, 3},
	{"longtext", SOURCE_TEXT, 4},
	{"binary", SOURCE_BINARY, 0},
	{"varbinary", SOURCE_VARBINARY, 0},
	{"tinyblob", SOURCE_BLOB, 1},
	{"blob", SOURCE_BLOB, 2},
	{"mediumblob", SOURCE_BLOB, 3},
	{"longblob", SOURCE_BLOB, 4},
	{"enum", SOURCE_ENUM, 0},
	{"set", SOURCE_SET, 0},
	{"json", SOURCE_JSON, 4},
	{"geometry", SOURCE_GEOMETRY, 4},
	{"point", SOURCE_GEOMETRY, 4},
	{"linestring", SOURCE_GEOMETRY, 4},
	{"polygon", SOURCE_GEOMETRY, 4},
	{"multipoint", SOURCE_GEOMETRY, 4},
	{"multilinestring", SOURCE_GEOMETRY, 4},
	{"multipolygon", SOURCE_GEOMETRY, 4},
	{"geomcollection", SOURCE_GEOMETRY, 4},
	{"geometrycollection", SOURCE_GEOMETRY, 4},
	{"vector", SOURCE_VECTOR, 4},
};

static int
to_int(const char *text)
{
	return text != NULL ? atoi(text) : 0;
}

/* A size of a column; what no column has must not decide how much memory is taken for its values. */
static int
to_size(Build *build, const char *text, int most)
{
	int			size = to_int(text);

	if (size < 0 || size > most)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("source \"%s\" describes a column of size %d, where %d is the largest", build->conn->server_name,
						size, most)));
	return size;
}

static uint16
collation_id(Build *build, const char *name)
{
	uint16		id;

	if (name == NULL)
		return 63;
	id = capstan_collation_id(name);

	/* Servers before 8.0.29 call utf8mb3 utf8. */
	if (id == 0 && strncmp(name, "utf8_", 5) == 0)
	{
		char	   *longer = psprintf("utf8mb3_%s", name + 5);

		id = capstan_collation_id(longer);
		pfree(longer);
	}
	if (id == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("collation \"%s\" of source \"%s\" is not known", name, build->conn->server_name)));
	return id;
}

/* WKB codes of the types that a column can be limited to; 0 for any. */
static uint8
geometry_type(const char *name)
{
	static const char *const names[] = {
		"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection"
	};

	for (int i = 0; i < (int) lengthof(names); i++)
		if (strcmp(names[i], name) == 0)
			return (uint8) i;
	return strcmp(name, "geometrycollection") == 0 ? 7 : 0;
}

/* The columns of the query in read_columns. */
enum
{
	COL_SCHEMA, COL_TABLE, COL_NAME, COL_TYPE, COL_FULL_TYPE, COL_NULLABLE, COL_OCTETS, COL_PRECISION, COL_SCALE,
	COL_FRACTION, COL_COLLATION, COL_EXTRA, COL_GENERATION, COL_HAS_DEFAULT, COL_SRID, COL_COMMENT
};

static void
set_type(Build *build, SourceColumn *column, char **row)
{
	bool		has_collation = false;

	column->type = SOURCE_OTHER;
	for (int i = 0; i < (int) lengthof(type_names); i++)
	{
		if (strcmp(type_names[i].name, row[COL_TYPE]) == 0)
		{
			column->type = type_names[i].type;
			column->length_bytes = type_names[i].length_bytes;
			break;
		}
	}
	switch (column->type)
	{
		case SOURCE_DECIMAL:
			column->precision = to_size(build, row[COL_PRECISION], 65);
			column->scale = to_size(build, row[COL_SCALE], 30);
			break;
		case SOURCE_BIT:
			column->precision = to_size(build, row[COL_PRECISION], 64);
			break;
		case SOURCE_FLOAT:
		case SOURCE_DOUBLE:
			column->fixed_point = row[COL_FULL_TYPE] != NULL && strchr(row[COL_FULL_TYPE], ',') != NULL;
			break;
		case SOURCE_DATETIME:
		case SOURCE_TIMESTAMP:
		case SOURCE_TIME:
			column->scale = to_size(build, row[COL_FRACTION], 6);
			break;
		case SOURCE_CHAR:
		case SOURCE_VARCHAR:
		case SOURCE_BINARY:
		case SOURCE_VARBINARY:
			column->octets = to_size(build, row[COL_OCTETS], 65535);
			has_collation = true;
			break;
		case SOURCE_TEXT:
		case SOURCE_BLOB:
			has_collation = true;
			break;
		case SOURCE_ENUM:
		case SOURCE_SET:
			has_collation = true;
			break;
		case SOURCE_GEOMETRY:
			column->geometry_type = geometry_type(row[COL_TYPE]);
			column->has_srid = row[COL_SRID] != NULL;
			column->srid = column->has_srid ? (uint32) strtoul(row[COL_SRID], NULL, 10) : 0;
			break;
		case SOURCE_OTHER:
			column->other_name = pstrdup(row[COL_FULL_TYPE] != NULL ? row[COL_FULL_TYPE] : row[COL_TYPE]);
			break;
		default:
			break;
	}
	if (has_collation)
		column->collation = collation_id(build, row[COL_COLLATION]);
}

static void
grow_columns(TableBuild *t)
{
	SourceTable *table = &t->info->table;
	int			capacity = Max(t->capacity * 2, 8);

	if (t->capacity == 0)
	{
		table->columns = palloc(sizeof(SourceColumn) * capacity);
		t->extras = palloc(sizeof(ColumnExtra) * capacity);
		t->info->column_comments = palloc(sizeof(char *) * capacity);
	}
	else
	{
		table->columns = repalloc(table->columns, sizeof(SourceColumn) * capacity);
		t->extras = repalloc(t->extras, sizeof(ColumnExtra) * capacity);
		t->info->column_comments = repalloc(t->info->column_comments, sizeof(char *) * capacity);
	}
	memset(table->columns + t->capacity, 0, sizeof(SourceColumn) * (capacity - t->capacity));
	memset(t->extras + t->capacity, 0, sizeof(ColumnExtra) * (capacity - t->capacity));
	memset(t->info->column_comments + t->capacity, 0, sizeof(char *) * (capacity - t->capacity));
	t->capacity = capacity;
}

static void
add_column(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	Build	   *build = arg;
	TableBuild *t = find_build(build, row[COL_SCHEMA], row[COL_TABLE]);
	SourceTable *table;
	SourceColumn *column;
	ColumnExtra *column_extra;
	const char *extra = row[COL_EXTRA] != NULL ? row[COL_EXTRA] : "";

	if (t == NULL)
		return;
	table = &t->info->table;
	if (table->ncolumns == t->capacity)
		grow_columns(t);
	column_extra = &t->extras[table->ncolumns];
	if (row[COL_COMMENT] != NULL && row[COL_COMMENT][0] != '\0')
		t->info->column_comments[table->ncolumns] = pstrdup(row[COL_COMMENT]);
	column = &table->columns[table->ncolumns++];
	column->name = pstrdup(row[COL_NAME]);
	column->is_unsigned = row[COL_FULL_TYPE] != NULL && strstr(row[COL_FULL_TYPE], " unsigned") != NULL;
	column->nullable = row[COL_NULLABLE] != NULL && strcmp(row[COL_NULLABLE], "YES") == 0;
	column->generated = row[COL_GENERATION] != NULL && row[COL_GENERATION][0] != '\0';
	column->server_fills = column->generated || strstr(extra, "DEFAULT_GENERATED") != NULL || strstr(extra, "auto_increment") != NULL;
	column->constant_default = !column->server_fills && strcmp(row[COL_HAS_DEFAULT], "1") == 0;
	column->invisible = strstr(extra, "INVISIBLE") != NULL;
	column_extra->is_virtual = strstr(extra, "VIRTUAL GENERATED") != NULL;
	if (column_extra->is_virtual && row[COL_GENERATION] != NULL)
		column_extra->generation = pstrdup(row[COL_GENERATION]);
	if (strstr(extra, "MASKING POLICY") != NULL && t->info->masked_column == NULL)
		t->info->masked_column = column->name;
	set_type(build, column, row);
	if (column->type == SOURCE_ENUM || column->type == SOURCE_SET)
		column_extra->label_text = pstrdup(row[COL_FULL_TYPE]);
	/* Labels may contain the word. */
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
		case SOURCE_BIGINT:
		case SOURCE_DECIMAL:
		case SOURCE_FLOAT:
		case SOURCE_DOUBLE:
			break;
		default:
			column->is_unsigned = false;
			break;
	}
	if (column->type == SOURCE_OTHER)
		t->info->has_unsupported = true;
}

static int
find_column(const SourceTable *table, const char *name)
{
	for (int i = 0; i < table->ncolumns; i++)
		if (strcmp(table->columns[i].name, name) == 0)
			return i;
	return -1;
}

/* Does a prefix of this length hold the column's whole value?  The server then takes the key for a whole one. */
static bool
prefix_is_whole(const SourceColumn *column, int characters)
{
	int			width;

	if ((column->type != SOURCE_BLOB && column->type != SOURCE_TEXT) || column->length_bytes != 1)
		return false;
	width = column->collation == 63 ? 1 : capstan_charset_max_bytes(capstan_collation_charset(column->collation));
	return characters * width == 255;
}

/* One row of STATISTICS: a column of a unique key; rows of a key in order. */
static void
add_key_column(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	TableBuild *t = find_build(arg, row[0], row[1]);
	KeyCandidate *key = NULL;
	int			c;

	if (t == NULL)
		return;
	for (int i = 0; i < t->ncandidates; i++)
		if (strcmp(t->candidates[i].name, row[2]) == 0)
			key = &t->candidates[i];
	if (key == NULL)
	{
		if (t->candidates == NULL)
			t->candidates = palloc(sizeof(KeyCandidate));
		else
			t->candidates = repalloc(t->candidates, sizeof(KeyCandidate) * (t->ncandidates + 1));
		key = &t->candidates[t->ncandidates++];
		memset(key, 0, sizeof(KeyCandidate));
		key->name = pstrdup(row[2]);
		key->primary = strcmp(row[2], "PRIMARY") == 0;
		key->usable = true;
	}
	/* No name: an expression. */
	c = row[3] != NULL ? find_column(&t->info->table, row[3]) : -1;
	if (c < 0 || key->ncolumns == (int) lengthof(key->columns))
	{
		key->usable = false;
		return;
	}
	if (t->info->table.columns[c].nullable || t->extras[c].is_virtual)
		key->usable = false;
	if (row[4] != NULL)
	{
		key->has_prefix = true;
		if (!key->primary && !prefix_is_whole(&t->info->table.columns[c], to_int(row[4])))
			key->usable = false;
	}
	key->descends[key->ncolumns] = row[5] != NULL && strcmp(row[5], "D") == 0;
	key->columns[key->ncolumns++] = c;
}

/* Of several unique keys that could serve as primary key: the server's choice. */
static KeyCandidate *
first_candidate(Build *build, TableBuild *t)
{
	SourceTable *table = &t->info->table;
	SourceResult *result = capstan_wire_query(build->conn,
											  psprintf("SHOW INDEX FROM %s.%s",
													   capstan_wire_quote_identifier(table->schema_name),
													   capstan_wire_quote_identifier(table->table_name)),
											  WIRE_VALUE WIRE_NULLABLE WIRE_VALUE);

	/* Columns: Table, Non_unique, Key_name, ... */
	for (int i = 0; i < result->nrows; i++)
		for (int k = 0; k < t->ncandidates; k++)
			if (t->candidates[k].usable &&
				strcmp(t->candidates[k].name, result->rows[i][2]) == 0)
				return &t->candidates[k];
	return NULL;
}

static void
choose_key(Build *build, TableBuild *t)
{
	SourceTable *table = &t->info->table;
	KeyCandidate *chosen = NULL;
	int			nusable = 0;

	for (int i = 0; i < t->ncandidates; i++)
	{
		if (t->candidates[i].usable)
		{
			nusable++;
			if (chosen == NULL || t->candidates[i].primary)
				chosen = &t->candidates[i];
		}
	}
	if (nusable > 1 && !chosen->primary)
		chosen = first_candidate(build, t);
	if (chosen == NULL)
		return;
	table->nkey = chosen->ncolumns;
	table->key = palloc(sizeof(int) * chosen->ncolumns);
	table->key_has_prefix = chosen->has_prefix;
	table->key_name = chosen->name;
	table->key_descends = palloc(sizeof(bool) * chosen->ncolumns);
	for (int i = 0; i < chosen->ncolumns; i++)
	{
		table->key[i] = chosen->columns[i];
		table->key_descends[i] = chosen->descends[i];
		table->columns[chosen->columns[i]].in_key = true;
	}
}

static void
add_cascade(void *arg, char **row, const unsigned long *lengths, int ncolumns)
{
	TableBuild *t = find_build(arg, row[0], row[1]);

	if (t != NULL && !t->info->cascade_child)
	{
		t->info->cascade_child = true;
		t->info->cascade_constraint = pstrdup(row[2]);
	}
}

char *
capstan_wire_table_condition(const SourceTable *const *tables, int ntables, const char *schema_column, const char *table_column)
{
	StringInfoData sql;
	const char *last = NULL;

	initStringInfo(&sql);
	if (ntables <= MAX_NAMED_TABLES)
	{
		for (int i = 0; i < ntables; i++)
			appendStringInfo(&sql, "%s(%s = %s AND %s = %s)", i > 0 ? " OR " : "(",
							 schema_column, capstan_wire_quote_literal(tables[i]->schema_name),
							 table_column, capstan_wire_quote_literal(tables[i]->table_name));
		appendStringInfoChar(&sql, ')');
		return sql.data;
	}
	appendStringInfo(&sql, "%s IN (", schema_column);
	for (int i = 0; i < ntables; i++)
	{
		if (last == NULL || strcmp(last, tables[i]->schema_name) != 0)
			appendStringInfo(&sql, "%s%s", last == NULL ? "" : ", ", capstan_wire_quote_literal(tables[i]->schema_name));
		last = tables[i]->schema_name;
	}
	appendStringInfoChar(&sql, ')');
	return sql.data;
}

static char *
table_condition(Build *build, const char *schema_column, const char *table_column)
{
	const SourceTable **tables = palloc(sizeof(SourceTable *) * build->ntables);

	for (int i = 0; i < build->ntables; i++)
		tables[i] = &build->tables[i].info->table;
	return capstan_wire_table_condition(tables, build->ntables, schema_column, table_column);
}

/* Now that no array of columns moves any more. */
static void
add_labels(Build *build)
{
	Labels	   *labels = capstan_wire_labels_create();

	for (int i = 0; i < build->ntables; i++)
	{
		TableBuild *t = &build->tables[i];

		for (int c = 0; c < t->info->table.ncolumns; c++)
			if (t->extras[c].label_text != NULL)
				capstan_wire_labels_add(labels, &t->info->table.columns[c], t->extras[c].label_text);
	}
	capstan_wire_labels_finish(labels, build->conn);
}

/*
 * The first virtual column whose value depends on the session's time zone: made from or into a TIMESTAMP, or from such a column, which
 * stands before it.
 */
static void
find_zoned_column(TableBuild *t)
{
	SourceTable *table = &t->info->table;
	bool	   *zoned = palloc0(sizeof(bool) * Max(table->ncolumns, 1));

	for (int i = 0; i < table->ncolumns; i++)
		zoned[i] = table->columns[i].type == SOURCE_TIMESTAMP;
	for (int i = 0; i < table->ncolumns; i++)
	{
		const char *generation = t->extras[i].generation;

		if (generation == NULL)
			continue;
		for (int j = 0; j < table->ncolumns && !zoned[i]; j++)
			zoned[i] = zoned[j] && strstr(generation, capstan_wire_quote_identifier(table->columns[j].name)) != NULL;
		if (zoned[i] && t->info->zoned_column == NULL)
			t->info->zoned_column = table->columns[i].name;
	}
	pfree(zoned);
}

/* The expression without what is quoted, be it as a string or as a name. */
static char *
without_quoted(const char *expression)
{
	char	   *bare = pstrdup(expression);
	char	   *to = bare;
	char		quote = '\0';

	for (const char *p = expression; *p != '\0'; p++)
	{
		if (quote == '\0' && (*p == '\'' || *p == '`'))
			quote = *p;
		else if (*p == quote)
			quote = '\0';
		else if (quote == '\0')
			*to++ = *p;
	}
	*to = '\0';
	return bare;
}

/* The first virtual column whose value depends on another setting of the session, as the server's own functions go. */
static void
find_settled_column(TableBuild *t)
{
	static const struct
	{
		const char *words;
		const char *setting;
	}			causes[] = {
		{"dayname(", "lc_time_names"}, {"monthname(", "lc_time_names"}, {"date_format(", "lc_time_names"},
		{"aes_encrypt(", "block_encryption_mode"}, {"aes_decrypt(", "block_encryption_mode"},
		{" / ", "div_precision_increment"}
	};

	for (int i = 0; i < t->info->table.ncolumns; i++)
	{
		char	   *bare = t->extras[i].generation == NULL ? NULL : without_quoted(t->extras[i].generation);

		for (int c = 0; bare != NULL && c < (int) lengthof(causes) && t->info->settled_column == NULL; c++)
			if (strstr(bare, causes[c].words) != NULL)
			{
				t->info->settled_column = t->info->table.columns[i].name;
				t->info->settled_by = causes[c].setting;
			}
	}
}

static void
read_details(Build *build)
{
	char	   *condition = table_condition(build, "TABLE_SCHEMA", "TABLE_NAME");

	capstan_wire_for_each_row(build->conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, "
									   "CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, "
									   "COLLATION_NAME, EXTRA, GENERATION_EXPRESSION, COLUMN_DEFAULT IS NOT NULL, SRS_ID, COLUMN_COMMENT "
									   "FROM information_schema.COLUMNS WHERE %s "
									   "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE
							  WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE
							  WIRE_NULLABLE WIRE_NULLABLE WIRE_ANY WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE,
							  add_column, build);
	add_labels(build);
	capstan_wire_for_each_row(build->conn,
							  psprintf("SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART, COLLATION "
									   "FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND %s "
									   "ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE WIRE_NULLABLE WIRE_NULLABLE WIRE_NULLABLE, add_key_column, build);
	for (int i = 0; i < build->ntables; i++)
	{
		choose_key(build, &build->tables[i]);
		find_zoned_column(&build->tables[i]);
		find_settled_column(&build->tables[i]);
	}

	condition = table_condition(build, "CONSTRAINT_SCHEMA", "TABLE_NAME");
	capstan_wire_for_each_row(build->conn,
							  psprintf("SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME "
									   "FROM information_schema.REFERENTIAL_CONSTRAINTS "
									   "WHERE (UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') OR "
									   "DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')) AND %s "
									   "ORDER BY CONSTRAINT_NAME", condition),
							  WIRE_VALUE WIRE_VALUE WIRE_VALUE, add_cascade, build);
}

void
capstan_wire_fill_tables(SourceConn *conn, List *infos)
{
	Build		build = {0};
	ListCell   *lc;

	build.conn = conn;
	build.tables = palloc0(sizeof(TableBuild) * Max(list_length(infos), 1));
	foreach(lc, infos)
	{
		SourceTableInfo *info = lfirst(lc);

		info->table.has_names = true;
		build.tables[build.ntables++].info = info;
	}
	if (build.ntables == 0)
		return;
	qsort(build.tables, build.ntables, sizeof(TableBuild), compare_builds);
	read_details(&build);
}
