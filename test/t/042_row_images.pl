# Row images that lack columns: binlog_row_image = MINIMAL and NOBLOB, set by sessions, and
# changing from one statement to the next.
#
# Why: a column that is absent and taken for NULL is a silently wrong value.
# How: the same statements under every image, before, during and after a snapshot; tables
# with constant, expression and no defaults, generated columns, blobs, changed keys.
# Asserted: contents are equal, no row was a surprise. A default that is not known halts with partial_row_image.
# The same with binlog_row_metadata = MINIMAL, set while the pipeline streams.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'20ms'" });

$my->sql(<<'SQL');
SET sql_mode = '', time_zone = '+05:00';
CREATE DATABASE r;
USE r;
CREATE TABLE wide (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT 7, b VARCHAR(20) CHARACTER SET latin1 DEFAULT 'é',
  c DATETIME(3) DEFAULT '2024-01-02 03:04:05.678', d ENUM('x','y') DEFAULT 'y', e BIT(9) DEFAULT b'101', f DECIMAL(10,2) DEFAULT 1.5,
  g VARBINARY(10) DEFAULT 0x0102, h INT NOT NULL, i INT, j FLOAT DEFAULT 0.1, k INT DEFAULT (1+1),
  l TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, m SET('p','q') DEFAULT 'p,q', n INT AS (a + 1) VIRTUAL, o INT AS (a + 2) STORED,
  p TEXT, q BLOB, r JSON, s BINARY(4) DEFAULT 'ab', t VARCHAR(10) NOT NULL DEFAULT '', u BIGINT UNSIGNED DEFAULT 18446744073709551615,
  v DATE DEFAULT '2024-02-29', w TIME(2) DEFAULT '-01:02:03.45', x YEAR DEFAULT 2024, y DOUBLE DEFAULT -0.5, z TINYINT(1) DEFAULT 1);
CREATE TABLE strict (id INT PRIMARY KEY, i INT NOT NULL, s VARCHAR(10) NOT NULL, b BINARY(3) NOT NULL, e ENUM('one','two') NOT NULL,
  m SET('p','q') NOT NULL, f DECIMAL(5,2) NOT NULL, bi BIT(10) NOT NULL, y YEAR NOT NULL, t TIME NOT NULL, fl FLOAT NOT NULL, tx TEXT NOT NULL);
CREATE TABLE strict_constant (id INT PRIMARY KEY, f FLOAT NOT NULL DEFAULT 0, g FLOAT NOT NULL DEFAULT 0.1234567, d DOUBLE NOT NULL DEFAULT 0.1, ti TIME(6) NOT NULL DEFAULT '-838:59:58.000001', t2 TIME NOT NULL DEFAULT 0,
  ts TIMESTAMP(3) NOT NULL DEFAULT '2020-01-02 03:04:05.678', y YEAR NOT NULL DEFAULT 70, dt DATETIME(2) NOT NULL DEFAULT '2020-01-02 03:04:05.10', da DATE NOT NULL DEFAULT '2024-02-29',
  e ENUM('é','ß') CHARACTER SET utf16 NOT NULL DEFAULT 'ß', s SET('é','ß') CHARACTER SET gb18030 NOT NULL DEFAULT 'é,ß', c CHAR(4) CHARACTER SET utf16le NOT NULL DEFAULT '😀', q VARCHAR(10) NOT NULL DEFAULT 'really?',
  b BINARY(4) NOT NULL DEFAULT '', vb VARBINARY(4) NOT NULL DEFAULT 'é', bi BIT(12) NOT NULL DEFAULT 5, de DECIMAL(10,4) NOT NULL DEFAULT 1.5, dz DECIMAL(8,2) ZEROFILL NOT NULL DEFAULT 1.5, d0 DECIMAL(5,5) ZEROFILL NOT NULL DEFAULT 0, n0 VARCHAR(5) CHARACTER SET latin1 NOT NULL DEFAULT 'é', u BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615);
CREATE TABLE face (id INT PRIMARY KEY, e ENUM('a','😀') CHARACTER SET utf8mb4 NOT NULL DEFAULT '😀');
INSERT INTO face (id) VALUES (1);
CREATE TABLE empty_first (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 3, ts TIMESTAMP NOT NULL DEFAULT '2020-01-01 05:00:00', c CHAR(2) NOT NULL DEFAULT '😀', f FLOAT NOT NULL DEFAULT 0.1234567);
CREATE TABLE two (a INT, b VARCHAR(10), c INT, d TEXT, PRIMARY KEY (a, b));
CREATE TABLE bulk (id INT PRIMARY KEY, n INT, t TEXT);
INSERT INTO bulk WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n * 10, n, REPEAT('x', 8000) FROM s;
INSERT INTO bulk SELECT id + 10000, n, t FROM bulk; INSERT INTO bulk SELECT id + 20000, n, t FROM bulk; INSERT INTO bulk SELECT id + 40000, n, t FROM bulk;
INSERT INTO wide (h, p, q, r) VALUES (1, 'text', 'blob', '{"a": 1}'), (2, NULL, NULL, NULL);
INSERT INTO strict_constant (id) VALUES (1);
INSERT INTO two VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y');

DELIMITER //
CREATE PROCEDURE every_change(base INT)
BEGIN
  INSERT INTO wide (h) VALUES (base), (base + 1), (base + 2);
  INSERT INTO wide (h, a, p, q, r) VALUES (base + 3, NULL, REPEAT('p', 300), REPEAT('q', 300), '[1, 2]');
  UPDATE wide SET a = a + 10 WHERE h = base;
  UPDATE wide SET p = 'changed', c = NULL WHERE h = base + 1;
  UPDATE wide SET id = id + 1000000 WHERE h = base + 2;
  UPDATE wide SET r = JSON_SET(r, '$[0]', 'one'), i = 5 WHERE h = base + 3;
  UPDATE wide SET i = i + 1, d = 'x' WHERE h IN (1, 2);
  INSERT INTO wide (id, h) VALUES (1, 1) ON DUPLICATE KEY UPDATE a = a + 1;
  REPLACE INTO wide (id, h, z) VALUES (2, 2, 9);
  DELETE FROM wide WHERE h = base + 3;
  INSERT INTO strict_constant (id) VALUES (base);
  UPDATE strict_constant SET c = 'x' WHERE id = base;
  INSERT INTO strict_constant (id, f) VALUES (base + 1, 2);
  SET SESSION sql_mode = '';
  INSERT INTO strict (id) VALUES (base), (base + 1);
  UPDATE strict SET i = 3, s = 'x' WHERE id = base;
  SET SESSION sql_mode = DEFAULT;
  INSERT INTO two (a, b) VALUES (base, 'k'), (base, 'K2');
  UPDATE two SET c = 5 WHERE a = base AND b = 'k';
  UPDATE two SET b = 'moved' WHERE a = base AND b = 'k';
  UPDATE two SET a = a + 1, d = 'both' WHERE a = base AND b = 'K2';
  DELETE FROM two WHERE a = base AND b = 'moved';
END //
CREATE PROCEDURE churn(rounds INT)
BEGIN
  DECLARE i, r INT DEFAULT 0;
  WHILE i < rounds DO
    SET r = 10 * (1 + FLOOR(RAND() * 8000));
    UPDATE bulk SET n = n + 1 WHERE id = r;
    SET r = 10 * (1 + FLOOR(RAND() * 8000));
    DELETE FROM bulk WHERE id = r;
    INSERT IGNORE INTO bulk (id, n) VALUES (5 + 10 * FLOOR(RAND() * 8000), i);
    SET i = i + 1;
  END WHILE;
END //
DELIMITER ;
CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
GRANT SELECT, LOCK TABLES ON r.* TO 'capstan'@'%';
SQL
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql("SELECT capstan.create_pipeline('r', server => 'source', tables => '{r.*}')");

my @images = qw(FULL MINIMAL NOBLOB);
my @writers = map { $my->background("SET SESSION binlog_row_image = $_; CALL r.churn(1500)") } @images;
$pg->safe_psql("SELECT capstan.start_pipeline('r')");
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('r', timeout => '180 s')");
is($rc, 0, 'snapshot under changes with all images') or diag($err);
$_->wait for @writers;
$pg->safe_psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
tables_equal($my, $pg, ['r.*'], 'after the snapshot');

my $base = 100;
for my $image (@images, 'MINIMAL', 'metadata', @images)
{
	if ($image eq 'metadata')
	{
		$my->sql('SET GLOBAL binlog_row_metadata = MINIMAL');
		next;
	}
	$my->sql("USE r; SET SESSION binlog_row_image = $image; CALL every_change($base)");
	$base += 100;
}
($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
is($rc, 0, 'every change is applied') or diag($err);
tables_equal($my, $pg, ['r.*'], 'after every change under every image');
is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.pipeline_table'), 0, 'no row was a surprise');
is($pg->incidents("severity = 'halt'"), '', 'no halt');

$my->sql('SET GLOBAL binlog_row_metadata = FULL; SET binlog_row_image = MINIMAL; INSERT INTO r.face (id) VALUES (2)');
$pg->safe_psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
tables_equal($my, $pg, ['r.face'], 'a default that the schema does not tell');

# A document of which only a difference is logged.
$my->sql("USE r; SET SESSION binlog_row_value_options = 'PARTIAL_JSON'; UPDATE wide SET r = '{\"name\": \"a\", \"list\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}' WHERE id = 1;
	UPDATE wide SET r = JSON_SET(r, '\$.name', 'b', '\$.list[1]', 22) WHERE id = 1");
$pg->safe_psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
tables_equal($my, $pg, ['r.wide'], 'differences are applied to the document of a full image');
$my->sql("USE r; SET SESSION binlog_row_value_options = 'PARTIAL_JSON', SESSION binlog_row_image = MINIMAL; UPDATE wide SET i = 77 WHERE id = 1;
	UPDATE wide SET r = JSON_SET(r, '\$.name', 'c') WHERE id = 1");
$pg->safe_psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
tables_equal($my, $pg, ['r.wide'], 'and to the document of the target, where the image has none');

# Defaults that could not be asked for, since there was no row to ask for them, and that the schema does not tell.
for my $column (qw(ts c f))
{
	my @others = grep { $_ ne $column } qw(ts c f);
	$my->sql("USE r; SET binlog_row_image = MINIMAL, time_zone = '+05:00'; INSERT INTO empty_first (id, @{[ join ', ', @others ]}) SELECT 1, @{[ join ', ', map { $_ eq 'f' ? 5 : $_ eq 'c' ? q('x') : q('2024-01-01') } @others ]}");
	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'halted'), "an unknown default of $column halts");
	is($pg->safe_psql('SELECT class, detail FROM capstan.incident_status ORDER BY id DESC LIMIT 1') =~ /^partial_row_image\|Column $column: .*default is not known/, 1, '... and says so');
	is($pg->value('SELECT count(*) FROM r.empty_first'), 0, '... with nothing put');
	$pg->safe_psql("SELECT capstan.stop_pipeline('r')");
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'r'");
	$pg->safe_psql("SELECT capstan.drop_pipeline('r')");
	$my->sql('DELETE FROM r.empty_first');
	$pg->safe_psql("SELECT capstan.create_pipeline('r', server => 'source', tables => '{r.empty_first}'); SELECT capstan.start_pipeline('r')");
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('r', timeout => '180 s')");
}
$my->sql("USE r; SET binlog_row_image = MINIMAL; INSERT INTO empty_first (id, ts, c, f) VALUES (5, NOW(), 'y', 1)");
$pg->safe_psql("SELECT capstan.wait_for_source('r', timeout => '180 s')");
tables_equal($my, $pg, ['r.empty_first'], 'others are known');

done_testing();
