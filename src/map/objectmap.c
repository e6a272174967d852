/*
 * objectmap.c
 *		Goes through the objects of all tables: what becomes of each on the target.  See objectmap.h.
 *
 * Names: MySQL's indexes have a name of their own for each table, Postgres' share one space with all relations of a
 * schema.  So an index is called table_index; a name that is taken or too long for 63 bytes gets the first eight digits of a
 * hash of the full one instead of its end.  The same source gives the same names.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "map/objectbuild.h"

typedef struct NameKey
{
	char		scope[NAMEDATALEN * 2]; /* schema, or schema and table */
	char		name[NAMEDATALEN];
} NameKey;

typedef struct TableKey
{
	char		schema_name[64 * 4 + 1];
	char		table_name[64 * 4 + 1];
} TableKey;

typedef struct TableEntry
{
	TableKey	key;
	int			number;
} TableEntry;

static HTAB *
make_hash(const char *name, Size key_size, Size entry_size)
{
	HASHCTL		control;

	memset(&control, 0, sizeof(control));
	control.keysize = key_size;
	control.entrysize = entry_size;
	control.hcxt = CurrentMemoryContext;
	return hash_create(name, 1024, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static TableKey
table_key(const char *schema_name, const char *table_name)
{
	TableKey	key;

	memset(&key, 0, sizeof(key));
	strlcpy(key.schema_name, schema_name, sizeof(key.schema_name));
	strlcpy(key.table_name, table_name, sizeof(key.table_name));
	return key;
}

TargetObject *
object_add(ObjectBuild *build, int table, const char *kind, const char *name, const char *definition)
{
	TargetObject *object = palloc0(sizeof(TargetObject));

	object->table = table;
	object->kind = kind;
	object->name = name;
	object->definition = definition;
	object->state = "pending";
	object->refers_to = -1;
	build->objects = lappend(build->objects, object);
	return object;
}

void
object_refuse(TargetObject *object, char *note)
{
	object->state = "not_translated";
	object->statement = NULL;
	object->target_object = NULL;
	object->note = note;
}

void
object_leave(TargetObject *object, char *note)
{
	object->state = "left_to_user";
	object->note = note;
}

char *
object_escape(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	for (const char *c = text; *c != '\0'; c++)
	{
		if (*c == '%')
			appendStringInfoChar(&out, '%');
		appendStringInfoChar(&out, *c);
	}
	return out.data;
}

char *
object_quote(const char *identifier)
{
	return object_escape(quote_identifier(identifier));
}

/* True if the name was free; it is taken from then on. */
static bool
take_name(HTAB *names, const char *scope, const char *name)
{
	NameKey		key;
	bool		found;

	memset(&key, 0, sizeof(key));
	strlcpy(key.scope, scope, sizeof(key.scope));
	strlcpy(key.name, name, sizeof(key.name));
	(void) hash_search(names, &key, HASH_ENTER, &found);
	return !found;
}

/* At most NAMEDATALEN - 1 bytes: the beginning of `wanted`, and a hash of all of it and of the number of the attempt. */
static char *
hashed_name(const char *wanted, int attempt)
{
	char	   *salted = psprintf("%s %d", wanted, attempt);
	uint32		hash = DatumGetUInt32(hash_any((const unsigned char *) salted, (int) strlen(salted)));
	int			length = pg_mbcliplen(wanted, (int) strlen(wanted), NAMEDATALEN - 1 - 9);

	return psprintf("%.*s_%08x", length, wanted, hash);
}

char *
object_relation_name(ObjectBuild *build, int table, const char *wanted)
{
	const char *schema = build->tables[table].target_schema;
	Oid			namespace = get_namespace_oid(schema, true);

	for (int attempt = 0;; attempt++)
	{
		char	   *name = attempt == 0 ? pstrdup(wanted) : hashed_name(wanted, attempt);

		if (strlen(name) < NAMEDATALEN && take_name(build->relation_names, schema, name) &&
			!(OidIsValid(namespace) && OidIsValid(get_relname_relid(name, namespace))))
			return name;
	}
}

char *
object_constraint_name(ObjectBuild *build, int table, const char *wanted)
{
	const ObjectTable *owner = &build->tables[table];
	char	   *scope = psprintf("%s.%s", owner->target_schema, owner->target_table);
	Oid			namespace = get_namespace_oid(owner->target_schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(owner->target_table, namespace) : InvalidOid;

	for (int attempt = 0;; attempt++)
	{
		char	   *name = attempt == 0 ? pstrdup(wanted) : hashed_name(wanted, attempt);

		if (strlen(name) < NAMEDATALEN && take_name(build->constraint_names, scope, name) &&
			!(OidIsValid(relid) && ConstraintNameIsUsed(CONSTRAINT_RELATION, relid, name)))
			return name;
	}
}

/* -1: not captured. */
static int
find_table(ObjectBuild *build, const char *schema_name, const char *table_name)
{
	TableKey	key = table_key(schema_name, table_name);
	TableEntry *entry = hash_search(build->table_numbers, &key, HASH_FIND, NULL);

	return entry != NULL ? entry->number : -1;
}

static void
add_comment(ObjectBuild *build, int table, const char *column, const char *comment)
{
	TargetObject *object = object_add(build, table, "comment", column, comment);
	char	   *literal = object_escape(quote_literal_cstr(comment));

	if (column == NULL)
		object->statement = psprintf("COMMENT ON TABLE %%1$s IS %s", literal);
	else
		object->statement = psprintf("COMMENT ON COLUMN %%1$s.%s IS %s", object_quote(column), literal);
}

static void
add_default(ObjectBuild *build, int table, const SourceColumn *column, const SourceColumnObject *extra)
{
	TargetObject *object = object_add(build, table, "default", column->name, extra->default_text);
	char	   *note = "it has a zero byte";
	char	   *sql = extra->default_is_cut ? NULL : capstan_map_default(column, extra->default_text, extra->default_is_expression, &note);

	if (sql == NULL)
	{
		object_refuse(object, note);
		return;
	}
	object->note = note;
	object->statement = psprintf("ALTER TABLE %%1$s ALTER COLUMN %s SET DEFAULT %s", object_quote(column->name), object_escape(sql));
}

/* An identity column where the type can be one; BIGINT UNSIGNED is numeric here, and gets a sequence. */
static void
add_auto_increment(ObjectBuild *build, int table, const SourceColumn *column)
{
	const ObjectTable *owner = &build->tables[table];
	TargetObject *object = object_add(build, table, "auto_increment", column->name, "AUTO_INCREMENT");
	char	   *quoted = object_quote(column->name);
	char	   *sequence;

	object->target_object = column->name;
	switch (column->type)
	{
		case SOURCE_TINYINT:
		case SOURCE_SMALLINT:
		case SOURCE_MEDIUMINT:
		case SOURCE_INT:
			break;
		case SOURCE_BIGINT:
			if (!column->is_unsigned)
				break;
			sequence = quote_qualified_identifier(owner->target_schema,
												  object_relation_name(build, table,
																	   psprintf("%s_%s_seq", owner->target_table, column->name)));
			object->statement = psprintf("CREATE SEQUENCE %s OWNED BY %%1$s.%s; "
										 "ALTER TABLE %%1$s ALTER COLUMN %s SET DEFAULT nextval(%s)",
										 object_escape(sequence), quoted, quoted, object_escape(quote_literal_cstr(sequence)));
			return;
		default:
			object_refuse(object, "AUTO_INCREMENT of a column that holds no integers is not translated");
			return;
	}
	object->statement = psprintf("ALTER TABLE %%1$s ALTER COLUMN %s ADD GENERATED BY DEFAULT AS IDENTITY", quoted);
}

static void
add_column_objects(ObjectBuild *build, int table, const SourceColumnObject *extra)
{
	const SourceColumn *column = &build->tables[table].source->columns[extra->column];

	if (extra->comment != NULL)
		add_comment(build, table, column->name, extra->comment);
	if (extra->default_text != NULL)
		add_default(build, table, column, extra);
	if (extra->auto_increment)
		add_auto_increment(build, table, column);
	if (extra->generation != NULL)
		object_refuse(object_add(build, table, "generated", column->name, extra->generation),
					  "it is a plain column here, and holds what the source computes; rows that are written here are to give its value");
	if (extra->on_update)
		object_refuse(object_add(build, table, "on_update", column->name, "ON UPDATE CURRENT_TIMESTAMP"),
					  "PostgreSQL has no such clause: a trigger can do the same for rows that are written here");
}

static void
add_check(ObjectBuild *build, int table, const SourceCheck *check)
{
	TargetObject *object = object_add(build, table, "check", check->name, check->clause);
	char	   *reason = NULL;
	char	   *sql;

	if (!check->enforced)
	{
		object_refuse(object, "the source does not enforce it");
		return;
	}
	sql = capstan_expression_check(build->tables[table].source, check->clause, build->policies, &reason);
	if (sql == NULL)
	{
		object_refuse(object, reason);
		return;
	}
	object->target_object = object_constraint_name(build, table, check->name);
	object->statement = psprintf("ALTER TABLE %%1$s ADD CONSTRAINT %s CHECK (%s) NOT VALID",
								 object_quote(object->target_object), object_escape(sql));
}

static void
add_table(ObjectBuild *build, int table)
{
	const ObjectTable *owner = &build->tables[table];
	const SourceObjects *objects = owner->objects;
	int			before = list_length(build->objects);

	for (int i = 0; i < objects->nindexes; i++)
		if (owner->source->key_name == NULL || strcmp(owner->source->key_name, objects->indexes[i].name) != 0)
			object_add_index(build, table, &objects->indexes[i]);
	if (objects->comment != NULL)
		add_comment(build, table, NULL, objects->comment);
	for (int i = 0; i < objects->ncolumns; i++)
		add_column_objects(build, table, &objects->columns[i]);
	for (int i = 0; i < objects->nchecks; i++)
		add_check(build, table, &objects->checks[i]);
	for (int i = 0; i < objects->nforeign_keys; i++)
	{
		const SourceForeignKey *key = &objects->foreign_keys[i];

		object_add_foreign_key(build, table, key, find_table(build, key->parent_schema, key->parent_table));
	}
	if (owner->made)
		return;
	for (int i = before; i < list_length(build->objects); i++)
	{
		TargetObject *object = list_nth(build->objects, i);

		if (strcmp(object->state, "pending") == 0)
			object_leave(object, "the table was there before the pipeline");
	}
}

List *
capstan_map_objects(const ObjectTable *tables, int ntables, MapPolicies policies)
{
	ObjectBuild build;

	memset(&build, 0, sizeof(build));
	build.tables = tables;
	build.ntables = ntables;
	build.policies = policies;
	build.relation_names = make_hash("capstan names of relations", sizeof(NameKey), sizeof(NameKey));
	build.constraint_names = make_hash("capstan names of constraints", sizeof(NameKey), sizeof(NameKey));
	build.table_numbers = make_hash("capstan tables", sizeof(TableKey), sizeof(TableEntry));
	for (int i = 0; i < ntables; i++)
	{
		TableKey	key = table_key(tables[i].source->schema_name, tables[i].source->table_name);
		TableEntry *entry = hash_search(build.table_numbers, &key, HASH_ENTER, NULL);

		entry->number = i;
	}
	for (int i = 0; i < ntables; i++)
		add_table(&build, i);
	return build.objects;
}
