# Changes of every shape arrive as what they did to the source's table.
#
# Why: key changes, REPLACE, cascades, savepoints, generated and invisible columns were
# applied twice, by halves or to the wrong column elsewhere; partial row images became NULLs.
# How: small tables, each with rows that are copied and rows that are streamed.
# Asserted: contents, equality with the source, no surprise; that what cannot be applied halts, with the
# position before it and everything before it applied, alone or among other transactions.
# Not asserted: following DDL.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--local-infile=ON' ]);
my $pg = CapstanTest::Postgres->start;
my $cascades_are_logged = $my->value("SELECT CAST(SUBSTRING_INDEX(VERSION(), '.', 2) AS DECIMAL(5,2)) >= 9.06 OR CAST(SUBSTRING_INDEX(VERSION(), '.', 1) AS UNSIGNED) > 9");

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$my->sql(<<'SQL');
CREATE DATABASE d;
USE d;
CREATE TABLE plain (id INT PRIMARY KEY, v INT);
INSERT INTO plain VALUES (1, 1), (2, 2), (3, 3);
CREATE TABLE uniq (id INT PRIMARY KEY, u INT UNIQUE, v INT);
INSERT INTO uniq VALUES (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1);
CREATE TABLE two (a INT, b VARCHAR(10), v INT, PRIMARY KEY (a, b), UNIQUE KEY (v));
INSERT INTO two VALUES (1, 'a', 1), (1, 'b', 2), (2, 'a', 3);
CREATE TABLE gen (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED, z INT, KEY ((a * 3)));
INSERT INTO gen (id, a, z) VALUES (1, 10, 99), (2, 20, 98);
CREATE TABLE genkey (j JSON, k VARCHAR(20) AS (j ->> '$.k') STORED NOT NULL, PRIMARY KEY (k));
INSERT INTO genkey (j) VALUES ('{"k": "one"}'), ('{"k": "two"}');
CREATE TABLE genout (id INT PRIMARY KEY, a INT, s INT AS (a * 2) STORED);
INSERT INTO genout (id, a) VALUES (1, 1);
SET sql_generate_invisible_primary_key = ON;
CREATE TABLE gipk (a INT);
INSERT INTO gipk VALUES (7), (7), (NULL);
SET sql_generate_invisible_primary_key = OFF;
CREATE TABLE hidden (id INT PRIMARY KEY, a INT INVISIBLE DEFAULT 5, b INT);
INSERT INTO hidden VALUES (1, 1);
CREATE TABLE notnullkey (u INT NOT NULL UNIQUE, v INT);
INSERT INTO notnullkey VALUES (1, 1), (2, 2);
CREATE TABLE onlykey (a INT, b INT, PRIMARY KEY (b, a));
INSERT INTO onlykey VALUES (1, 2), (3, 4);
CREATE TABLE trig (id INT AUTO_INCREMENT PRIMARY KEY, v INT);
CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20), trig_id INT);
CREATE TRIGGER trig_insert AFTER INSERT ON trig FOR EACH ROW INSERT INTO audit (what, trig_id) VALUES ('insert', NEW.id);
CREATE TRIGGER trig_before BEFORE UPDATE ON trig FOR EACH ROW SET NEW.v = NEW.v + 100;
CREATE TRIGGER trig_update AFTER UPDATE ON trig FOR EACH ROW INSERT INTO audit (what, trig_id) VALUES ('update', OLD.id);
INSERT INTO trig (v) VALUES (1), (2);
CREATE TABLE parts (id INT, d DATE, v INT, PRIMARY KEY (id, d)) PARTITION BY RANGE (YEAR(d))
  (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN (2030), PARTITION p2 VALUES LESS THAN MAXVALUE);
INSERT INTO parts VALUES (1, '2019-01-01', 1), (2, '2021-01-01', 1), (3, '2041-01-01', 1);
SQL

# Targets that the user made: s is generated on the target too.
$pg->safe_psql('CREATE SCHEMA d; CREATE TABLE d.genout (id int PRIMARY KEY, a int, s int)');
my @tables = map { "d.$_" } qw(plain uniq two gen genkey genout gipk hidden notnullkey onlykey trig audit parts);
start_pipeline($pg, 'd', \@tables);

$my->sql(<<'SQL');
USE d;
UPDATE plain SET id = 20 WHERE id = 2;
UPDATE plain SET id = id + 1 WHERE id >= 3 ORDER BY id DESC;
INSERT INTO plain VALUES (5, 5);
UPDATE plain SET id = 6, v = 6 WHERE id = 5;
UPDATE plain SET v = NULL WHERE id = 1;
INSERT IGNORE INTO plain VALUES (1, 99), (50, 50);
DELETE FROM plain WHERE id = 50;
INSERT INTO plain VALUES (50, 51);
-- unique keys
REPLACE INTO uniq VALUES (5, 10, 2);
REPLACE INTO uniq VALUES (2, 30, 2);
INSERT INTO uniq VALUES (9, 40, 9) ON DUPLICATE KEY UPDATE v = v + 10, u = 41;
INSERT INTO uniq VALUES (4, 42, 9) ON DUPLICATE KEY UPDATE id = 44;
INSERT INTO uniq VALUES (6, NULL, 1), (7, NULL, 1);
BEGIN; UPDATE uniq SET u = 1000 WHERE id = 5; UPDATE uniq SET u = 10 WHERE id = 2; UPDATE uniq SET u = 30 WHERE id = 5; COMMIT;
UPDATE two SET a = 3, b = 'c' WHERE a = 1 AND b = 'b';
UPDATE two SET b = 'A' WHERE a = 1 AND b = 'a';
UPDATE two SET b = 'A ' WHERE a = 2;
DELETE FROM two WHERE v = 1;
INSERT INTO two VALUES (9, '', 1);
-- generated and invisible columns
UPDATE gen SET a = 11 WHERE id = 1;
INSERT INTO gen (id, a, z) VALUES (3, 30, 97), (4, NULL, NULL);
DELETE FROM gen WHERE id = 2;
UPDATE genkey SET j = '{"k": "three", "x": 1}' WHERE k = 'one';
INSERT INTO genkey (j) VALUES ('{"k": "four"}');
DELETE FROM genkey WHERE k = 'two';
INSERT INTO genout (id, a) VALUES (2, 2);
UPDATE genout SET a = 5 WHERE id = 1;
INSERT INTO gipk VALUES (7), (8);
DELETE FROM gipk WHERE a = 7 LIMIT 1;
UPDATE gipk SET a = 9 WHERE a IS NULL;
INSERT INTO hidden VALUES (2, 2);
INSERT INTO hidden (id, a, b) VALUES (3, 33, 3);
UPDATE hidden SET a = 6 WHERE id = 1;
UPDATE notnullkey SET u = 3 WHERE u = 1;
DELETE FROM notnullkey WHERE u = 2;
INSERT INTO notnullkey VALUES (4, NULL);
INSERT INTO onlykey VALUES (5, 6), (2, 1);
UPDATE onlykey SET a = 33 WHERE a = 3;
DELETE FROM onlykey WHERE a = 1;
-- triggers, several tables, many rows
INSERT INTO trig (v) VALUES (3), (4);
UPDATE trig JOIN plain ON plain.id = trig.id SET trig.v = 50, plain.v = 51;
DELETE trig, plain FROM trig JOIN plain ON plain.id = trig.id WHERE trig.id = 4;
INSERT INTO trig (v) SELECT v FROM trig ORDER BY id;
UPDATE parts SET d = '2035-01-01' WHERE id = 1;
UPDATE parts SET v = 2;
DELETE FROM parts WHERE id = 3;
INSERT INTO parts VALUES (4, '2001-01-01', 4);
-- savepoints
BEGIN; INSERT INTO plain VALUES (100, 1); SAVEPOINT s; INSERT INTO plain VALUES (101, 1); ROLLBACK TO s; INSERT INTO plain VALUES (102, 1); SAVEPOINT t; RELEASE SAVEPOINT t; COMMIT;
BEGIN; SAVEPOINT s; INSERT INTO plain VALUES (103, 1); ROLLBACK TO s; COMMIT;
BEGIN; INSERT INTO plain VALUES (104, 1); ROLLBACK;
BEGIN; INSERT INTO plain VALUES (105, 1); SAVEPOINT a; UPDATE plain SET v = 2 WHERE id = 105; SAVEPOINT b; DELETE FROM plain WHERE id = 105; ROLLBACK TO b; COMMIT;
CREATE TABLE myisam_beside (id INT PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO myisam_beside VALUES (1), (2);
BEGIN; INSERT INTO plain VALUES (106, 1); COMMIT;
-- what managed servers write
CREATE TABLE mysql.rds_heartbeat2 (id INT PRIMARY KEY, value BIGINT);
CREATE TABLE mysql.rds_sysinfo (name VARCHAR(25), value VARCHAR(50));
SET SESSION binlog_format = STATEMENT;
INSERT INTO mysql.rds_heartbeat2 (id, value) VALUES (1, 1505423904000) ON DUPLICATE KEY UPDATE value = 1505423904000;
USE mysql;
DELETE FROM rds_sysinfo WHERE name = 'innodb_txn_key';
INSERT INTO rds_sysinfo (name, value) VALUES ('innodb_txn_key', 'Fri Aug 25 04:00:00 2023');
SET SESSION binlog_format = ROW;
INSERT INTO d.plain VALUES (107, 1);
SQL
sync_pipeline($pg, 'd');
tables_equal($my, $pg, \@tables, 'after all of them');
no_surprise($pg, 'd');
is($pg->value("SELECT string_agg(concat(id, ':', v), ' ' ORDER BY id) FROM d.plain"), '1:51 6:6 21:2 50:51 100:1 102:1 105:2 106:1 107:1', 'key changes and savepoints');
is($pg->value("SELECT string_agg(concat(id, ':', u, ':', v), ' ' ORDER BY id) FROM d.uniq"), '2:10:2 5:30:2 6::1 7::1 44:41:11', 'REPLACE and ON DUPLICATE KEY');
is($pg->value("SELECT string_agg(concat_ws(':', id, a, v, s, z), ' ' ORDER BY id) FROM d.gen"), '1:11:12:22:99 3:30:31:60:97 4', 'generated columns in the middle');
is($pg->value("SELECT string_agg(concat(my_row_id, ':', a), ' ' ORDER BY my_row_id) FROM d.gipk"), '2:7 3:9 4:7 5:8', 'the invisible key is the key');
is($pg->value("SELECT array_agg(attname)::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) WHERE indrelid = 'd.gipk'::regclass AND indisprimary"), '{my_row_id}', '... on the target too');
drop_pipeline($pg, 'd');

# Foreign keys that change children.
$my->sql(<<'SQL');
USE d;
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE n (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE g (id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) REFERENCES c (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE);
CREATE TABLE ck (pid INT, n INT, PRIMARY KEY (pid, n), FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO p VALUES (1), (2), (5), (6);
INSERT INTO c VALUES (10, 1), (11, 1), (20, 2), (60, 6);
INSERT INTO n VALUES (1, 1), (2, 2), (5, 5);
INSERT INTO g VALUES (1, 10), (2, 20), (3, 60);
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 2), (5, NULL), (6, 5);
INSERT INTO ck VALUES (1, 1), (1, 2), (2, 1), (5, 1);
SQL
my @family = map { "d.$_" } qw(p c n g tree ck);
if ($cascades_are_logged)
{
	start_pipeline($pg, 'family', \@family);
	$my->sql(<<'SQL');
USE d;
DELETE FROM p WHERE id = 1;
UPDATE p SET id = 3 WHERE id = 2;
DELETE FROM tree WHERE id = 1;
BEGIN; INSERT INTO p VALUES (7); INSERT INTO c VALUES (70, 7), (71, 7); INSERT INTO g VALUES (7, 70); UPDATE p SET id = 8 WHERE id = 7; DELETE FROM c WHERE id = 71; COMMIT;
UPDATE c SET id = 600 WHERE id = 60;
DELETE FROM p WHERE id = 6;
INSERT INTO ck VALUES (8, 1);
UPDATE p SET id = 9 WHERE id = 8;
REPLACE INTO p VALUES (5);
SQL
	sync_pipeline($pg, 'family');
	tables_equal($my, $pg, \@family, 'cascades');
	no_surprise($pg, 'family');
	is($pg->value("SELECT string_agg(concat(id, ':', pid), ' ' ORDER BY id) FROM d.c"), '20:3 70:9', 'children are deleted and moved once');
	drop_pipeline($pg, 'family');

	# The parent alone, the child alone, with keys on the target as well.
	$pg->safe_psql('ALTER TABLE d.c ADD FOREIGN KEY (pid) REFERENCES d.p (id) ON DELETE CASCADE ON UPDATE CASCADE');
	start_pipeline($pg, 'family', [ 'd.p', 'd.c' ], truncate_target => 'true');
	$my->sql('USE d; INSERT INTO p VALUES (11), (12); INSERT INTO c VALUES (110, 11), (120, 12); UPDATE p SET id = 13 WHERE id = 12; DELETE FROM p WHERE id = 11');
	sync_pipeline($pg, 'family');
	tables_equal($my, $pg, [ 'd.p', 'd.c' ], 'the target has such a key too');
	no_surprise($pg, 'family');
	drop_pipeline($pg, 'family');
}
else
{
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('family', server => 'source', tables => '{d.p,d.c}')");
	isnt($rc, 0, 'a child of a cascade that is not logged is refused');
	like($err, qr/cascade d\.c/, '... by name');
}

# Row images that lack columns (042 has all of them): nothing becomes NULL.
$pg->safe_psql('DROP TABLE d.plain');
$my->sql("CREATE TABLE d.r01 (id INT PRIMARY KEY, a INT, b TEXT, j JSON); INSERT INTO d.r01 VALUES (1, 1, 'x', '[1]'), (2, 1, 'y', '[2]')");
start_pipeline($pg, 'r', ['d.r01']);
for my $sql (
	"SET SESSION binlog_row_image = 'MINIMAL'; UPDATE d.r01 SET a = 2", "SET SESSION binlog_row_image = 'NOBLOB'; UPDATE d.r01 SET a = 3 WHERE id = 1",
	"SET SESSION binlog_row_image = 'MINIMAL'; UPDATE d.r01 SET id = 3 WHERE id = 1", "SET SESSION binlog_row_image = 'MINIMAL'; DELETE FROM d.r01 WHERE id = 2",
	"SET SESSION binlog_row_image = 'MINIMAL'; INSERT INTO d.r01 (id, a) VALUES (4, 4)", "SET SESSION binlog_row_image = 'NOBLOB'; DELETE FROM d.r01 WHERE id = 4")
{
	$my->sql($sql);
	sync_pipeline($pg, 'r');
	tables_equal($my, $pg, ['d.r01'], $sql);
}
is($pg->value('SELECT concat(id, a, b, j) FROM d.r01'), '33x[1]', 'columns that were not there are what they were');
no_surprise($pg, 'r');
drop_pipeline($pg, 'r');

# What halts: the position stays before it, all that came before is there, nothing of it is. Even
# where all of it comes at once, so that a group holds more than the transaction that fails.
$my->sql('DELETE FROM d.r01');
for my $case (
	[ 'ddl_on_captured_table', 'TRUNCATE d.r01; INSERT INTO d.r01 (id, a) VALUES (8, 8)' ],
	[ 'ddl_on_captured_table', 'ALTER TABLE d.r01 ADD x INT; ALTER TABLE d.r01 DROP x' ],
	[ 'statement_logged', 'SET SESSION binlog_format = STATEMENT; UPDATE d.r01 SET a = 8' ],
	[ 'value_not_convertible', q(INSERT INTO d.r01 VALUES (9, 9, CONCAT('n', CHAR(0)), NULL)) ],
	[ 'P0001', 'UPDATE d.r01 SET a = 13' ])
{
	my ($class, $sql) = @$case;

	for my $at_once (0, 1)
	{
		my $what = $sql . ($at_once ? ', among others' : '');
		$my->sql("REPLACE INTO d.r01 VALUES (1, 1, 'x', '[1]')");
		start_pipeline($pg, 'r', ['d.r01'], truncate_target => 'true');
		$pg->safe_psql("CREATE OR REPLACE FUNCTION d.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no thirteen: %'', NEW; END';
			DROP TRIGGER IF EXISTS refuse ON d.r01; CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON d.r01 FOR EACH ROW
			WHEN (NEW.a = 13) EXECUTE FUNCTION d.refuse(); ALTER TABLE d.r01 ENABLE ALWAYS TRIGGER refuse");
		$pg->safe_psql("SELECT capstan.stop_pipeline('r')") if $at_once;
		my $before = $my->gtid_executed;
		$my->sql("UPDATE d.r01 SET a = 6; UPDATE d.r01 SET a = 7; $sql; INSERT INTO d.r01 VALUES (20, 1, NULL, NULL)");
		$pg->safe_psql("SELECT capstan.start_pipeline('r')") if $at_once;
		my $incident = halted_by($pg, 'r');
		is($incident->{class}, $class, "$what: halts");
		is($pg->value("SELECT string_agg(concat(id, a, b, j), ' ') FROM d.r01"), '17x[1]', '... nothing of it is applied, and all that came before');
		is($pg->value("SELECT capstan.gtid_count(capstan.gtid_subtract(applied, '$before')) || ' ' || capstan.gtid_contains(applied, '$incident->{gtid}') FROM capstan.pipeline_status"),
			'2 false', '... the position is before it, and the incident names it');
		unlike($incident->{message}, qr/thirteen/, '... without the target\'s words');
		$pg->safe_psql("SELECT capstan.start_pipeline('r')");
		halted_by($pg, 'r');
		is($pg->value("SELECT count(*) FROM capstan.incident WHERE gtid = '$incident->{gtid}'"), 2, '... started again, it halts again');
		drop_pipeline($pg, 'r');
		$my->sql('DELETE FROM d.r01');
	}
}

done_testing();
