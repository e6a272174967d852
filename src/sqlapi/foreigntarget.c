/*
 * foreigntarget.c
 *		Preflight of a foreign table as a target: is its remote table one in which no row can come twice?
 *
 * Called by targetchecks.c, as the calling user.  postgres_fdw does not tell constraints of the remote table, but it reads
 * any table there; so the remote information_schema is read through foreign tables that are made for it, in a subtransaction that is
 * rolled back.
 *
 * Why the constraint is needed: the worker's rows are committed there before they are here, and a worker that was killed may have sent a
 * COMMIT that takes effect while the next worker is at the same changes again.  An insert then waits for it and is refused, and is
 * tried again; without the constraint the row would be there twice, without a word.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/resowner.h"

#include "errcodes.h"
#include "sqlapi/internal.h"

typedef enum RemoteKey
{
	REMOTE_KEY_FOUND,
	REMOTE_KEY_MISSING,
	REMOTE_KEY_NOT_TOLD
} RemoteKey;

/* Names that the target's schema is not likely to have; if it has them we are not told anything. */
#define CONSTRAINTS "capstan_remote_constraints"
#define COLUMNS "capstan_remote_columns"

/* $1 the foreign table, $2 the source's key; the remote names are in the options of table and columns. */
#define LOOK_SQL \
	"WITH t AS (SELECT COALESCE((SELECT option_value FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'schema_name'), n.nspname) AS s, " \
	"  COALESCE((SELECT option_value FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'table_name'), c.relname) AS t " \
	"  FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE f.ftrelid = $1), " \
	"k AS (SELECT array_agg(COALESCE((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), " \
	"  a.attname) ORDER BY 1) AS names FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = ANY ($2) AND NOT a.attisdropped) " \
	"SELECT FROM (SELECT x.constraint_schema, x.constraint_name, array_agg(x.column_name) AS names FROM %s." COLUMNS " x, t " \
	"  WHERE x.table_schema = t.s AND x.table_name = t.t GROUP BY 1, 2) AS u " \
	"JOIN %s." CONSTRAINTS " y ON y.constraint_schema = u.constraint_schema AND y.constraint_name = u.constraint_name, t, k " \
	"WHERE y.table_schema = t.s AND y.table_name = t.t AND y.is_deferrable = 'NO' AND y.constraint_type IN ('PRIMARY KEY', 'UNIQUE') " \
	"AND u.names @> k.names AND u.names <@ k.names"

static void
run(const char *sql)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc != SPI_OK_UTILITY)
		elog(ERROR, "\"%s\" returned %s", sql, SPI_result_code_string(rc));
}

static bool
find_key(const PlannedTable *table, const char *server)
{
	const SourceTable *source = &table->info->table;
	const char *schema = quote_identifier(table->target_schema);
	Datum	   *key = palloc(sizeof(Datum) * source->nkey);
	Oid			types[2] = {OIDOID, TEXTARRAYOID};
	Datum		values[2];
	bool		found;

	for (int i = 0; i < source->nkey; i++)
		key[i] = CStringGetTextDatum(source->columns[source->key[i]].name);
	values[0] = ObjectIdGetDatum(table->target);
	values[1] = PointerGetDatum(construct_array(key, source->nkey, TEXTOID, -1, false, TYPALIGN_INT));
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run(psprintf("CREATE FOREIGN TABLE %s." CONSTRAINTS " (constraint_schema text, constraint_name text, table_schema text, table_name text, "
				 "constraint_type text, is_deferrable text) SERVER %s OPTIONS (schema_name 'information_schema', table_name 'table_constraints')",
				 schema, quote_identifier(server)));
	run(psprintf("CREATE FOREIGN TABLE %s." COLUMNS " (constraint_schema text, constraint_name text, table_schema text, table_name text, "
				 "column_name text) SERVER %s OPTIONS (schema_name 'information_schema', table_name 'key_column_usage')",
				 schema, quote_identifier(server)));
	if (SPI_execute_with_args(psprintf(LOOK_SQL, schema, schema), 2, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "looking for the key of a remote table failed");
	found = SPI_processed > 0;
	SPI_finish();
	return found;
}

/* Whatever fails is no error of ours: then it is not known.  *why: the reason. */
static RemoteKey
look(const PlannedTable *table, char **why)
{
	ForeignServer *server = GetForeignServer(GetForeignTable(table->target)->serverid);
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	RemoteKey	volatile result = REMOTE_KEY_NOT_TOLD;

	if (strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "postgres_fdw") != 0)
	{
		*why = "only of postgres_fdw it can be seen";
		return REMOTE_KEY_NOT_TOLD;
	}
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		result = find_key(table, server->servername) ? REMOTE_KEY_FOUND : REMOTE_KEY_MISSING;
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
			ReThrowError(error);
		*why = error->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return result;
}

void
sqlapi_check_remote_key(PipelinePlan *plan, PlannedTable *table)
{
	PreflightCheck *check;
	char	   *why = "";
	RemoteKey	key;

	if (table->info->table.nkey == 0)
		return;					/* has its complaint */
	key = look(table, &why);
	if (key == REMOTE_KEY_FOUND)
		return;
	check = sqlapi_target_check(plan, table, key == REMOTE_KEY_MISSING ? CHECK_ERROR : CHECK_WARNING, "target_remote_key",
								CAPSTAN_ERRCODE_TARGET_TABLE);
	check->found = key == REMOTE_KEY_MISSING ? "the remote table has no unique constraint on just the source's key"
		: psprintf("not known whether the remote table is unique by the source's key: %s", why);
	check->wanted = "a primary key, or a unique constraint that is not deferrable: after a crash a row could be there twice without it";
	check->fix = "On the other server: ALTER TABLE ... ADD PRIMARY KEY (...);";
}
