/*
 * preflighttables.c
 *		Can each of the tables be copied and followed?
 *
 * One row for each complaint, and one for all tables that are fine: ten thousand tables must not give
 * forty thousand rows.
 */
#include "postgres.h"

#include "errcodes.h"
#include "wire/preflight.h"

static char *
table_name(const SourceTable *table)
{
	return psprintf("%s.%s", table->schema_name, table->table_name);
}

static char *
quoted_name(const SourceTable *table)
{
	return psprintf("%s.%s", capstan_wire_quote_identifier(table->schema_name),
					capstan_wire_quote_identifier(table->table_name));
}

/*
 * Only InnoDB has read views, so only its tables can be copied.  Of the others MyISAM's changes are all in the binary
 * log and can be followed; MEMORY tables are emptied by a restart, BLACKHOLE, FEDERATED and NDB are not what they seem.
 */
static int
check_engine(Preflight *pf, const SourceTableInfo *info)
{
	bool		followed = strcasecmp(info->engine, "MyISAM") == 0 || strcasecmp(info->engine, "ARCHIVE") == 0;

	if (info->view)
	{
		capstan_preflight_add(pf, psprintf("table %s", table_name(&info->table)), CHECK_ERROR, pstrdup("a view"),
							  pstrdup("a base table"), pstrdup("Name the tables that the view reads."),
							  CAPSTAN_ERRCODE_SOURCE_TABLE);
		return 1;
	}
	if (strcasecmp(info->engine, "InnoDB") == 0)
		return 0;
	capstan_preflight_add(pf, psprintf("engine %s", table_name(&info->table)),
						  !pf->with_copy && followed ? CHECK_WARNING : CHECK_ERROR,
						  pstrdup(info->engine[0] != '\0' ? info->engine : "unknown: the table may be damaged"), pstrdup("InnoDB"),
						  psprintf("ALTER TABLE %s ENGINE = InnoDB;", quoted_name(&info->table)),
						  CAPSTAN_ERRCODE_SOURCE_TABLE);
	return 1;
}

static int
check_key(Preflight *pf, const SourceTableInfo *info)
{
	if (info->table.nkey == 0)
		capstan_preflight_add(pf, psprintf("primary_key %s", table_name(&info->table)), CHECK_WARNING, pstrdup("none"),
							  pstrdup("a primary key; without one the whole row is looked for, and the table is copied in one piece"),
							  psprintf("ALTER TABLE %s ADD COLUMN my_row_id bigint unsigned NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY;",
									   quoted_name(&info->table)),
							  CAPSTAN_ERRCODE_SOURCE_TABLE);
	else if (info->table.key_has_prefix)
		capstan_preflight_add(pf, psprintf("primary_key %s", table_name(&info->table)), CHECK_WARNING,
							  pstrdup("of prefixes of columns"),
							  pstrdup("a primary key of whole columns; with prefixes the table is copied in one piece"),
							  NULL, CAPSTAN_ERRCODE_SOURCE_TABLE);
	else
		return 0;
	return 1;
}

static int
check_columns(Preflight *pf, const SourceTableInfo *info)
{
	int			ncomplaints = 0;

	for (int i = 0; i < info->table.ncolumns; i++)
	{
		const SourceColumn *column = &info->table.columns[i];

		if (column->type == SOURCE_OTHER)
		{
			ncomplaints++;
			capstan_preflight_add(pf, psprintf("column %s.%s", table_name(&info->table), column->name), CHECK_ERROR,
								  pstrdup(column->other_name), pstrdup("a type that can be converted"),
								  pstrdup("Leave the table out, or give the column another type."),
								  CAPSTAN_ERRCODE_SOURCE_TABLE);
		}
	}
	return ncomplaints;
}

/*
 * A copied row has such a column's value in UTC, a changed one in the time zone of the session that changed it: so a row without a key would not
 * be found by its columns.
 */
static int
check_zoned_column(Preflight *pf, const SourceTableInfo *info)
{
	bool		keyless = info->table.nkey == 0;

	if (info->zoned_column == NULL)
		return 0;
	capstan_preflight_add(pf, psprintf("virtual_column %s.%s", table_name(&info->table), info->zoned_column), keyless ? CHECK_ERROR : CHECK_WARNING,
						  pstrdup("computed from a TIMESTAMP, in the time zone of each session that reads or writes it"),
						  pstrdup(keyless ? "one value for each row: without a key it is found by its values" : "one value for each row"),
						  psprintf("Drop the column and add it anew as STORED%s.", keyless ? ", give the table a primary key, or leave it out" : ""),
						  CAPSTAN_ERRCODE_SOURCE_TABLE);
	return 1;
}

/* Likewise, for other settings; where the row is found by its key, and sessions leave the setting as it is, no harm is done. */
static int
check_settled_column(Preflight *pf, const SourceTableInfo *info)
{
	if (info->settled_column == NULL || info->table.nkey > 0)
		return 0;
	capstan_preflight_add(pf, psprintf("virtual_column %s.%s", table_name(&info->table), info->settled_column), CHECK_ERROR,
						  psprintf("computed by %s of each session that reads or writes it", info->settled_by),
						  pstrdup("one value for each row: without a key it is found by its values"),
						  pstrdup("Drop the column and add it anew as STORED, give the table a primary key, or leave it out."),
						  CAPSTAN_ERRCODE_SOURCE_TABLE);
	return 1;
}

/*
 * Queries get what the policy makes of a value, unless it spares the account, which cannot be seen from here; the binary log has the value
 * itself.  So the copy and the stream would disagree.
 */
static int
check_masking(Preflight *pf, const SourceTableInfo *info)
{
	if (info->masked_column == NULL)
		return 0;
	capstan_preflight_add(pf, psprintf("masking_policy %s.%s", table_name(&info->table), info->masked_column),
						  pf->with_copy ? CHECK_ERROR : CHECK_WARNING,
						  pstrdup("a masking policy: a copy reads what it makes of a value, the binary log has the value itself"),
						  pstrdup("none"),
						  psprintf("ALTER TABLE %s ALTER COLUMN %s DROP MASKING POLICY;", quoted_name(&info->table),
								   capstan_wire_quote_identifier(info->masked_column)),
						  CAPSTAN_ERRCODE_SOURCE_TABLE);
	return 1;
}

/* The schema's own text of a label does not always tell it; table maps with MINIMAL metadata tell none. */
static int
check_labels(Preflight *pf, const SourceTableInfo *info)
{
	const char *metadata = capstan_preflight_variable(pf, "binlog_row_metadata");
	int			ncomplaints = 0;

	if (metadata == NULL || strcasecmp(metadata, "MINIMAL") != 0)
		return 0;
	for (int i = 0; i < info->table.ncolumns; i++)
	{
		const SourceColumn *column = &info->table.columns[i];

		if (capstan_source_labels_are_told(column))
			continue;
		ncomplaints++;
		capstan_preflight_add(pf, psprintf("labels %s.%s", table_name(&info->table), column->name), CHECK_ERROR,
							  pstrdup("a label with \"?\", which may stand for another character, and binlog_row_metadata = MINIMAL"),
							  pstrdup("labels that the schema or the binary log tells"),
							  pstrdup("SET PERSIST binlog_row_metadata = 'FULL';"),
							  CAPSTAN_ERRCODE_SOURCE_SETTING);
	}
	return ncomplaints;
}

/*
 * A change that InnoDB makes by itself in a child table is not in the binary log.  From 9.6 on the server makes
 * it, and logs it, unless the old way is asked for.
 */
static int
check_cascade(Preflight *pf, const SourceTableInfo *info)
{
	bool		logged = pf->conn->version_num >= 90600 &&
		!capstan_preflight_variable_is_on(pf, "innodb_native_foreign_keys");

	if (!info->cascade_child || logged)
		return 0;
	capstan_preflight_add(pf, psprintf("cascade %s", table_name(&info->table)), CHECK_ERROR,
						  psprintf("foreign key %s changes rows without a trace in the binary log", info->cascade_constraint),
						  pstrdup("no ON DELETE or ON UPDATE CASCADE, SET NULL or SET DEFAULT"),
						  pf->conn->version_num >= 90600 ? pstrdup("SET PERSIST_ONLY innodb_native_foreign_keys = OFF; -- then restart the source") :
						  pstrdup("Upgrade the source to MySQL 9.6 or newer, which logs these changes, or let the key RESTRICT."),
						  CAPSTAN_ERRCODE_CASCADE);
	return 1;
}

void
capstan_preflight_tables(Preflight *pf)
{
	int			nfine = 0;
	ListCell   *lc;

	foreach(lc, pf->tables)
	{
		SourceTableInfo *info = lfirst(lc);
		int			ncomplaints = check_engine(pf, info);

		if (!info->view)
			ncomplaints += check_key(pf, info) + check_columns(pf, info) + check_zoned_column(pf, info) + check_settled_column(pf, info) + check_masking(pf, info) + check_labels(pf, info) + check_cascade(pf, info);
		if (ncomplaints == 0)
			nfine++;
	}
	if (pf->tables != NIL)
		capstan_preflight_add(pf, "tables", CHECK_OK, psprintf("%d of %d without complaint", nfine, list_length(pf->tables)),
							  pstrdup("engine, key, columns and foreign keys fit"), NULL, 0);
}
