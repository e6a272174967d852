/*
 * test_statement.c
 *		Statements of the binary log: what they are and which tables they name.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "binlog/statement.h"

static const char *
kind_name(StatementKind kind)
{
	static const char *const names[] = {
		"?", "begin", "commit", "rollback", "savepoint", "rollback to", "xa start", "xa end", "xa prepare", "xa commit",
		"xa rollback", "table", "database", "harmless", "dml", "unknown"
	};

	return names[kind];
}

/* "kind command: table, schema.table [created] [temporary] [xid]" */
static void
describe(const Statement *statement, StrBuf *out)
{
	capstan_strbuf_printf(out, "%s %s:", kind_name(statement->kind), statement->command);
	for (int i = 0; i < statement->ntables; i++)
	{
		const StatementTable *table = &statement->tables[i];

		capstan_strbuf_printf(out, "%s %s%s%s", i > 0 ? "," : "", table->schema_name != NULL ? table->schema_name : "",
							  table->schema_name != NULL ? "." : "", table->table_name != NULL ? table->table_name : "");
	}
	if (statement->creates_table)
		capstan_strbuf_append_str(out, statement->if_not_exists ? " [created if not there]" : " [created]");
	if (statement->temporary)
		capstan_strbuf_append_str(out, " [temporary]");
	if (statement->xid != NULL)
		capstan_strbuf_printf(out, " %s", statement->xid);
}

static void
check_mode(const char *sql, const char *expected, bool ansi_quotes, bool no_backslash_escapes)
{
	Statement	statement;
	StrBuf		out;

	capstan_strbuf_init(&out);
	capstan_statement_parse(sql, strlen(sql), ansi_quotes, no_backslash_escapes, &statement);
	describe(&statement, &out);
	CHECK_MSG(strcmp(out.data, expected) == 0, "%s\n\tgot      %s\n\texpected %s", sql, out.data, expected);
	capstan_statement_free(&statement);
	capstan_strbuf_free(&out);
}

static void
check(const char *sql, const char *expected)
{
	check_mode(sql, expected, false, false);
}

static void
test_transactions(void)
{
	check("BEGIN", "begin BEGIN:");
	check("begin work", "begin BEGIN:");
	check("START TRANSACTION READ WRITE", "begin START TRANSACTION:");
	check("COMMIT", "commit COMMIT:");
	check("COMMIT /* xid=7 */", "commit COMMIT:");
	check("ROLLBACK", "rollback ROLLBACK:");
	check("ROLLBACK WORK", "rollback ROLLBACK:");
	check("ROLLBACK TO `s`", "rollback to ROLLBACK:");
	check("rollback work to savepoint s", "rollback to ROLLBACK:");
	check("SAVEPOINT `s`", "savepoint SAVEPOINT:");
	check("RELEASE SAVEPOINT `s`", "savepoint RELEASE:");
	check("XA START X'6774',X'6271',7", "xa start XA START: X'6774',X'6271',7");
	check("XA START X'78',X'',1", "xa start XA START: X'78',X'',1");
	check("XA BEGIN 'x'", "xa start XA BEGIN: X'78',X'',1");
	check("XA END 'g''t','b\\n'", "xa end XA END: X'672774',X'620a',1");
	check("XA PREPARE 0x4142, X'C1', 0x10", "xa prepare XA PREPARE: X'4142',X'c1',16");
	check("XA COMMIT X'79',X'7a',1 ONE PHASE", "xa commit XA COMMIT: X'79',X'7a',1");
	check("XA ROLLBACK X'78',X'',1", "xa rollback XA ROLLBACK: X'78',X'',1");
	check_mode("XA END 'a\\b'", "xa end XA END: X'615c62',X'',1", false, true);
	check("XA START X'7'", "unknown XA START:");
	check("XA START X'zz'", "unknown XA START:");
	check("XA START", "unknown XA START:");
	check("XA START 'a','b',c", "unknown XA START:");
	check("XA START 'a','b',99999999999", "unknown XA START:");
	check("XA START '01234567890123456789012345678901234567890123456789012345678901234'", "unknown XA START:");
	check("XA RECOVER", "unknown XA:");
}

static void
test_table_ddl(void)
{
	check("ALTER TABLE t ADD c INT", "table ALTER TABLE: t");
	check("alter table `db`.`t` ADD c INT", "table ALTER TABLE: db.t");
	check("ALTER TABLE db . t ADD c INT", "table ALTER TABLE: db.t");
	check("ALTER TABLE db./* c */`t` ENGINE=InnoDB", "table ALTER TABLE: db.t");
	check("ALTER TABLE `we``ird` ADD c INT", "table ALTER TABLE: we`ird");
	check("ALTER TABLE `a.b` ADD c INT", "table ALTER TABLE: a.b");
	check("ALTER TABLE 1a ADD c INT", "table ALTER TABLE: 1a");
	check("ALTER TABLE Größe ADD c INT", "table ALTER TABLE: Größe");
	check("ALTER TABLE a RENAME TO b", "table ALTER TABLE: a, b");
	check("ALTER TABLE a RENAME b", "table ALTER TABLE: a, b");
	check("ALTER TABLE a ADD c INT, RENAME AS db.`b`, ADD d INT", "table ALTER TABLE: a, db.b");
	check("ALTER TABLE a RENAME = b", "table ALTER TABLE: a, b");
	check("ALTER TABLE a RENAME COLUMN x TO y, RENAME INDEX i TO j, RENAME KEY k TO l", "table ALTER TABLE: a");
	check("ALTER TABLE a COMMENT 'RENAME TO b'", "table ALTER TABLE: a");
	check("ALTER TABLE a COMMENT 'it\\'s; RENAME TO b'", "table ALTER TABLE: a");
	check("ALTER TABLE a COMMENT \"RENAME TO b\"", "table ALTER TABLE: a");
	check("ALTER TABLE a ADD `rename` INT", "table ALTER TABLE: a");
	check("ALTER TABLE a ADD COLUMN exchange INT", "table ALTER TABLE: a");
	check("ALTER TABLE pt EXCHANGE PARTITION p3 WITH TABLE db.t4 WITHOUT VALIDATION", "table ALTER TABLE: pt, db.t4");
	check("ALTER TABLE pt DROP PARTITION p1", "table ALTER TABLE: pt");
	check("ALTER TABLE t DISCARD TABLESPACE", "table ALTER TABLE: t");
	check("ALTER TABLE t ADD CHECK (c <> ';'), ADD d VARCHAR(10) DEFAULT (RENAME)", "table ALTER TABLE: t");
	check("ALTER TABLE t ADD c INT;", "table ALTER TABLE: t");
	check("ALTER TABLE t ADD c INT; DROP TABLE u", "unknown ALTER TABLE: t");
	check("ALTER TABLE", "unknown ALTER TABLE:");
	check("ALTER TABLE a RENAME TO", "unknown ALTER TABLE: a");
	check("ALTER TABLE a RENAME TO 'b'", "unknown ALTER TABLE: a");
	check("ALTER TABLE a COMMENT 'unterminated", "unknown ALTER TABLE: a");
	check("ALTER TABLE `unterminated", "unknown ALTER TABLE:");
	check("ALTER TABLE a.", "unknown ALTER TABLE:");

	check("DROP TABLE a", "table DROP TABLE: a");
	check("DROP TABLE IF EXISTS `a`,`db`.`b` , c /* generated by server */", "table DROP TABLE: a, db.b, c");
	check("DROP TABLES a, b CASCADE", "table DROP TABLE: a, b");
	check("DROP TEMPORARY TABLE IF EXISTS a RESTRICT", "table DROP TABLE: a [temporary]");
	check("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `d`.`t`", "table DROP TABLE: d.t [temporary]");
	check("DROP TABLE a b", "unknown DROP TABLE: a");
	check("DROP TABLE a,", "unknown DROP TABLE: a");
	check("TRUNCATE t", "table TRUNCATE TABLE: t");
	check("/* c */ truncate table p", "table TRUNCATE TABLE: p");
	check("-- a\n# b\n TRUNCATE TABLE db.p", "table TRUNCATE TABLE: db.p");
	check("--\nTRUNCATE p", "table TRUNCATE TABLE: p");
	check("TRUNCATE TABLE table1 x", "unknown TRUNCATE TABLE: table1");
	check("RENAME TABLE a TO tmp, b TO a, tmp TO b", "table RENAME TABLE: a, tmp, b, a, tmp, b");
	check("RENAME TABLES `x`.`a` TO `y`.`b`", "table RENAME TABLE: x.a, y.b");
	check("RENAME TABLE a", "unknown RENAME TABLE: a");
	check("RENAME USER a TO b", "harmless RENAME USER:");

	check("CREATE TABLE t (id INT)", "table CREATE TABLE: t [created]");
	check("CREATE TABLE IF NOT EXISTS db.t LIKE u", "table CREATE TABLE: db.t [created if not there]");
	check("CREATE TABLE t AS SELECT * FROM u", "table CREATE TABLE: t [created]");
	check("CREATE TABLE `ctas` (\n  `id` int NOT NULL\n) START TRANSACTION", "table CREATE TABLE: ctas [created]");
	check("CREATE TEMPORARY TABLE t(id INT)", "table CREATE TABLE: t [created] [temporary]");
	check("CREATE TABLE t(c VARCHAR(10) DEFAULT ';')", "table CREATE TABLE: t [created]");
	check("CREATE INDEX i ON t(a)", "table CREATE INDEX: t");
	check("CREATE UNIQUE INDEX `on` USING BTREE ON db.t(a)", "table CREATE INDEX: db.t");
	check("CREATE FULLTEXT INDEX i ON t(a)", "table CREATE INDEX: t");
	check("CREATE SPATIAL INDEX i ON t(a)", "table CREATE INDEX: t");
	check("DROP INDEX k2 ON x", "table DROP INDEX: x");
	check("DROP INDEX `PRIMARY` ON `x`.`y` ALGORITHM=INPLACE", "table DROP INDEX: x.y");
	check("DROP INDEX k2", "unknown DROP INDEX:");
	check("IMPORT TABLE FROM 'x.sdi'", "unknown :");
}

static void
test_comments(void)
{
	check("/*!50100 ALTER TABLE t ADD c INT */", "table ALTER TABLE: t");
	check("ALTER /*!50100 TABLE t */ ADD c INT", "table ALTER TABLE: t");
	check("/*! ALTER */ TABLE /*!999999 t /* inner */ ADD c INT */", "table ALTER TABLE: t");
	check("DROP TABLE /*!40000 IF EXISTS */ `t`", "table DROP TABLE: t");
	check("DROP /*+ hint */ TABLE t # the end", "table DROP TABLE: t");
	check("DROP TABLE t -- the end", "table DROP TABLE: t");
	check("DROP TABLE t--1", "unknown DROP TABLE: t");
	check("/* never closed DROP TABLE t", "unknown :");
	check("DROP TABLE t /*! never closed", "unknown DROP TABLE: t");
	check("", "harmless :");
	check("  /* nothing */ ;", "harmless :");
	check("# Dummy event replacing event type 160 that cannot be handled", "harmless :");
	check_mode("DROP TABLE \"a\"\"b\", \"c\".\"d\"", "table DROP TABLE: a\"b, c.d", true, false);
	check("DROP TABLE \"a\"", "unknown DROP TABLE:");
	check_mode("ALTER TABLE a COMMENT '\\'", "table ALTER TABLE: a", false, true);
	check_mode("ALTER TABLE a COMMENT '\\'", "unknown ALTER TABLE: a", false, false);
}

static void
test_others(void)
{
	check("CREATE DATABASE d", "harmless CREATE DATABASE:");
	check("CREATE SCHEMA IF NOT EXISTS d", "harmless CREATE DATABASE:");
	check("ALTER DATABASE d CHARACTER SET utf8mb4", "harmless ALTER DATABASE:");
	check("DROP DATABASE IF EXISTS `d b`", "database DROP DATABASE: d b.");
	check("drop schema d", "database DROP DATABASE: d.");
	check("DROP DATABASE", "unknown DROP DATABASE:");
	check("CREATE USER 'u'@'%' IDENTIFIED BY 'x'", "harmless CREATE USER:");
	check("CREATE DEFINER=`root`@`localhost` TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN DELETE FROM u; END",
		  "harmless CREATE TRIGGER:");
	check("CREATE DEFINER=CURRENT_USER() PROCEDURE p() BEGIN DROP TABLE t; END", "harmless CREATE PROCEDURE:");
	check("CREATE ALGORITHM=UNDEFINED DEFINER='a'@'b' SQL SECURITY DEFINER VIEW v AS SELECT 1", "harmless CREATE VIEW:");
	check("CREATE OR REPLACE VIEW v AS SELECT 1", "harmless CREATE VIEW:");
	check("CREATE OR REPLACE JSON RELATIONAL DUALITY VIEW v AS SELECT 1", "harmless CREATE VIEW:");
	check("CREATE DEFINER=`a`@`b` EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", "harmless CREATE EVENT:");
	check("CREATE AGGREGATE FUNCTION f RETURNS INTEGER SONAME 'x.so'", "harmless CREATE FUNCTION:");
	check("CREATE UNDO TABLESPACE u ADD DATAFILE 'u.ibu'", "harmless CREATE TABLESPACE:");
	check("CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'", "harmless CREATE SPATIAL:");
	check("DROP SPATIAL REFERENCE SYSTEM IF EXISTS 4120", "harmless DROP SPATIAL:");
	check("ALTER DEFINER=a@b EVENT e RENAME TO f", "harmless ALTER EVENT:");
	check("DROP VIEW IF EXISTS v", "harmless DROP VIEW:");
	check("DROP TRIGGER tr", "harmless DROP TRIGGER:");
	check("GRANT ALL ON *.* TO u", "harmless GRANT:");
	check("REVOKE ALL ON d.* FROM u", "harmless REVOKE:");
	check("FLUSH PRIVILEGES", "harmless FLUSH:");
	check("SET PASSWORD FOR u = 'x'", "harmless SET:");
	check("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", "unknown SET:");
	check("ANALYZE TABLE t", "harmless ANALYZE TABLE:");
	check("OPTIMIZE LOCAL TABLE t", "harmless OPTIMIZE TABLE:");
	check("REPAIR NO_WRITE_TO_BINLOG TABLES t", "harmless REPAIR TABLE:");
	check("ANALYZE t", "unknown ANALYZE TABLE:");
	check("CREATE", "unknown CREATE:");
	check("CREATE THING x", "unknown CREATE:");
	check("FROBNICATE", "unknown :");
	check("`DROP` TABLE t", "unknown :");
	check("(SELECT 1)", "unknown :");
	check("GRANT ALL ON *.* TO u; DROP TABLE t", "unknown GRANT:");
}

static void
test_dml(void)
{
	check("INSERT INTO t VALUES(1)", "dml INSERT: t");
	check("insert ignore db.t set a = 1", "dml INSERT: db.t");
	check("INSERT INTO `mysql`.`rds_heartbeat2` VALUES(1)", "dml INSERT: mysql.rds_heartbeat2");
	check("REPLACE LOW_PRIORITY INTO t SELECT 1", "dml REPLACE: t");
	check("UPDATE t SET a = 1", "dml UPDATE: t");
	check("UPDATE LOW_PRIORITY IGNORE a AS x JOIN db.b y ON x.i = y.i, c SET x.a = 1", "dml UPDATE: a, db.b, c");
	check("DELETE FROM t WHERE a = 1", "dml DELETE: t");
	check("DELETE t1, db.t2.* FROM t1 JOIN db.t2 ON f(t1.a, t2.a)", "dml DELETE: t1, db.t2, t1, db.t2");
	check("DELETE FROM a.*, b USING c JOIN d", "dml DELETE: a, b, c, d");
	check("WITH x AS (SELECT 1), y AS (DELETE) UPDATE t SET a = 1", "dml WITH: t");
	check("LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE db.`t` FIELDS TERMINATED BY ','", "dml LOAD: db.t");
	check("CALL p()", "dml CALL:");
	check("SELECT `d`.`f`(1)", "dml SELECT:");
	check("UPDATE t SET a = ';'", "dml UPDATE: t");
	check("UPDATE t SET a = 1; DROP TABLE t", "unknown UPDATE: t");
}

static void
check_certain(const char *sql, uint16_t collation, bool expected)
{
	Statement	statement;

	capstan_statement_parse(sql, strlen(sql), false, false, &statement);
	CHECK_MSG(capstan_statement_is_certain(&statement, sql, strlen(sql), collation) == expected, "%s, collation %d", sql, collation);
	capstan_statement_free(&statement);
}

void
test_statement(void)
{
	test_transactions();
	test_table_ddl();
	test_comments();
	test_others();
	test_dml();
	check_certain("DROP TABLE a", 8, true);
	check_certain("DROP TABLE a", 0, true);
	check_certain("DROP TABLE \xe9", 8, false);	/* latin1 */
	check_certain("DROP TABLE \xe9.a", 8, false);
	check_certain("ALTER TABLE a COMMENT '\xe9'", 8, true);
	check_certain("ALTER TABLE a COMMENT '\xe9\\'", 28, false);	/* gbk: is it a quote? */
	check_certain("ALTER TABLE a COMMENT '\xe9'", 0, false);
	check_certain("DROP TABLE \xc3\xa9", 255, true);
	check_certain("DROP TABLE \xc3\xa9", 33, true);

	/* Cut off at every length, in buffers of exactly that size: nothing is read behind it. */
	{
		static const char *const statements[] = {
			"/*!50100 ALTER */ TABLE `a``b`.`c` EXCHANGE PARTITION p WITH TABLE \"x\".y, COMMENT 'it''s \\' -- x\n",
			"XA START X'6774','b\\'q',0x10", "CREATE DEFINER=`a`@`b` VIEW v # x", "RENAME TABLE a.b TO c.d, e TO f;",
			"DELETE FROM a.*, `b`.c.* USING d JOIN (e, f) WHERE x"
		};

		for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
		{
			for (size_t length = 0; length <= strlen(statements[i]); length++)
			{
				StrBuf		copy = {NULL, 0, 0};
				Statement	statement;

				capstan_strbuf_append(&copy, statements[i] + strlen(statements[i]) - length, length);
				capstan_statement_parse(copy.data, length, length % 2 == 0, length % 3 == 0, &statement);
				CHECK(statement.kind >= STATEMENT_BEGIN && statement.kind <= STATEMENT_UNKNOWN);
				capstan_statement_free(&statement);
				capstan_strbuf_reset(&copy);
				capstan_strbuf_append(&copy, statements[i], length);
				capstan_statement_parse(copy.data, length, length % 2 == 0, length % 3 == 0, &statement);
				CHECK(statement.kind >= STATEMENT_BEGIN && statement.kind <= STATEMENT_UNKNOWN);
				capstan_statement_free(&statement);
				capstan_strbuf_free(&copy);
			}
		}
	}
}
