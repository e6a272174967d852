# Tables without a key are kept exactly equal: duplicates and NULLs included, whatever the row image.
#
# Why: without a key a change that is applied twice, or to the wrong number of rows, shows in
# nothing but the contents; a snapshot that overlaps the stream by one row repeats it for ever.
# How: tables of every type without a key, some with an index on the target, one into
# partitions, one that others inherit from; writers that make and remove duplicates before, during and after a snapshot, under
# all row images; workers killed meanwhile, and the server.
# Asserted: contents are equal; no row was a surprise; indexes of the target are used.
# Not asserted: speed of tables without any index.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start;

$my->sql(<<'SQL');
CREATE DATABASE k;
USE k;
CREATE TABLE r11 (a INT, b VARCHAR(5));
INSERT INTO r11 VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
CREATE TABLE every (a TINYINT UNSIGNED, b DECIMAL(20,5), c FLOAT, d DOUBLE, e BIT(9), f DATE, g DATETIME(3), h TIMESTAMP(6) NULL, i TIME(2), j YEAR,
  k CHAR(5), l VARCHAR(20) CHARACTER SET latin1, m TEXT, n BINARY(4), o VARBINARY(9), p BLOB, q ENUM('x','y'), r SET('p','q'), s JSON, t GEOMETRY, u INT AS (a + 1) VIRTUAL);
INSERT INTO every (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t) VALUES
  (255, 1.50000, -0e0, 0.1, b'101', '2024-02-29', '2024-02-29 01:02:03.004', '2024-01-01 00:00:00.123456', '-01:02:03.4', 2024, 'a', 'é', 'text', 'ab', x'00', x'00ff', 'y', 'p,q', '{"a": 1.0, "b": [1, null]}', ST_GeomFromText('POINT(1 2)')),
  (255, 1.50000, 0e0, 0.1, b'101', '2024-02-29', '2024-02-29 01:02:03.004', '2024-01-01 00:00:00.123456', '-01:02:03.4', 2024, 'a', 'é', 'text', 'ab', x'00', x'00ff', 'y', 'p,q', '{"a": 1, "b": [1, null]}', ST_GeomFromText('POINT(1 2)')),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO every (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t) SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t FROM every;
CREATE TABLE plain (a INT, b VARCHAR(20), c BLOB);
INSERT INTO plain WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n % 50, IF(n % 7 = 0, NULL, n % 3), REPEAT(CHAR(65 + n % 2), 100) FROM s;
CREATE TABLE indexed LIKE plain;
INSERT INTO indexed SELECT a + 50 * FLOOR(RAND() * 400), b, c FROM plain;
INSERT INTO indexed SELECT a + 10000, b, c FROM indexed; INSERT INTO indexed SELECT a + 20000, b, c FROM indexed;
CREATE TABLE parted LIKE plain;
INSERT INTO parted SELECT * FROM plain;
CREATE TABLE nullable (a INT UNIQUE, b INT);
INSERT INTO nullable VALUES (1, 1), (NULL, 1), (NULL, 1), (2, 2);
CREATE TABLE nothing (a INT, b INT);

DELIMITER //
CREATE PROCEDURE churn(rounds INT)
BEGIN
  DECLARE i, x, y INT DEFAULT 0;
  WHILE i < rounds DO
    SET x = FLOOR(RAND() * 50), y = FLOOR(RAND() * 40000);
    CASE FLOOR(RAND() * 8)
      WHEN 0 THEN INSERT INTO plain VALUES (x, NULL, 'new'), (x, NULL, 'new'), (x, '1', NULL);
      WHEN 1 THEN DELETE FROM plain WHERE a = x LIMIT 2;
      WHEN 2 THEN UPDATE plain SET b = IF(b IS NULL, '2', NULL) WHERE a = x LIMIT 3;
      WHEN 3 THEN UPDATE indexed SET a = IF(a = y, NULL, a), b = 'new' WHERE a BETWEEN y AND y + 60 LIMIT 2; INSERT INTO indexed VALUES (y, NULL, NULL);
      WHEN 4 THEN DELETE FROM indexed WHERE a BETWEEN y AND y + 60 LIMIT 1; INSERT INTO indexed VALUES (NULL, 'n', NULL);
      WHEN 5 THEN UPDATE parted SET a = (a + 25) % 50 WHERE a = x LIMIT 3;
      WHEN 6 THEN START TRANSACTION; INSERT INTO parted SELECT * FROM parted WHERE a = x LIMIT 1; DELETE FROM parted WHERE a = x LIMIT 1; UPDATE nullable SET b = b + 1 WHERE a IS NULL LIMIT 1; COMMIT;
      ELSE INSERT INTO nothing VALUES (x, y), (x, y); DELETE FROM nothing WHERE a = x LIMIT 1;
    END CASE;
    SET i = i + 1;
  END WHILE;
END //
DELIMITER ;
SQL
$my->grant;
$pg->safe_psql(<<'SQL');
CREATE EXTENSION capstan;
CREATE SCHEMA k;
CREATE TABLE k.indexed (a integer, b varchar(20), c bytea);
CREATE INDEX indexed_a ON k.indexed (a);
CREATE TABLE k.parted (a integer, b varchar(20), c bytea) PARTITION BY RANGE (a);
CREATE TABLE k.parted_low PARTITION OF k.parted FOR VALUES FROM (0) TO (25);
CREATE TABLE k.parted_rest PARTITION OF k.parted DEFAULT;
SQL
$pg->create_server('source', $my);

my @images = qw(FULL MINIMAL NOBLOB);
sub churn { my ($rounds) = @_; return map { $my->background("SET binlog_row_image = '$_'; CALL k.churn($rounds)") } @images }

sub strike { my ($signal, $title) = @_; kill($signal, $_) for $pg->worker_pids($title) }

# No row was a surprise: none was missing or there already.
sub exact { my ($what) = @_; is($pg->value("SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status"), 0, "$what: no row was a surprise") }

is($pg->value(q{SELECT count(*) FROM capstan.preflight('source', '{k.*}') WHERE status = 'warning' AND "check" LIKE 'primary_key%'}), 7, 'preflight warns of each');
$pg->safe_psql("SELECT capstan.create_pipeline('k', server => 'source', tables => '{k.*}')");
my @writers = churn(2500);
$pg->safe_psql("SELECT capstan.start_pipeline('k'); SELECT capstan.wait_for_snapshot('k', timeout => '180 s')");
for (1 .. 3)
{
	sleep 0.5;
	strike('TERM', qr/capstan pipeline/);
}
$_->wait for @writers;
sync_pipeline($pg, 'k');
tables_equal($my, $pg, ['k.*'], 'after a snapshot and changes under load, with kills');
exact('streaming');

# The case by itself, and every type, under each image.
for my $image (@images)
{
	$my->sql("SET binlog_row_image = '$image'; USE k; DELETE FROM r11 WHERE a = 1 LIMIT 1; UPDATE r11 SET b = 'y' WHERE a IS NULL; INSERT INTO r11 VALUES (1, 'x');
		UPDATE every SET m = CONCAT(m, 'x') LIMIT 1; DELETE FROM every WHERE a IS NULL LIMIT 1; UPDATE every SET s = JSON_SET(s, '\$.c', 1) WHERE a = 255 LIMIT 2;
		INSERT INTO every (a) VALUES (7), (7), (NULL); UPDATE every SET c = -c WHERE c = 0 LIMIT 1; UPDATE every SET a = a - 1, p = NULL WHERE a = 255 LIMIT 1;
		UPDATE every SET t = ST_GeomFromText('POINT(3 4)') WHERE a = 7 LIMIT 1");
	sync_pipeline($pg, 'k');
	tables_equal($my, $pg, ['k.*'], "row image $image");
}
is($pg->value("SELECT count(*) || ' ' || count(*) FILTER (WHERE a IS NULL AND b = 'y') FROM k.r11"), '3 1', 'one row for each change');
exact('row images');
# All of the writers' changes may have come before the copy; and counters are told only now and then.
$my->sql("UPDATE k.indexed SET b = 'again' WHERE a IS NOT NULL LIMIT 150");
sync_pipeline($pg, 'k');
sleep 1;
$my->sql("UPDATE k.indexed SET b = 'and again' WHERE a IS NOT NULL LIMIT 1");
ok($pg->poll_query_until("SELECT idx_scan > 100 FROM pg_stat_user_indexes WHERE indexrelname = 'indexed_a'", 't'), 'an index of the target finds the rows');

# A snapshot again and again, killed in the middle: all of it, or nothing of it.
drop_pipeline($pg, 'k');
$pg->safe_psql("SELECT capstan.create_pipeline('k', server => 'source', tables => '{k.*}', truncate_target => true)");
@writers = churn(1500);
$pg->safe_psql("SELECT capstan.start_pipeline('k')");
for (1 .. 6)
{
	sleep 0.3;
	strike($_ == 4 ? 'KILL' : 'TERM', $_ % 2 ? qr/capstan copy/ : qr/capstan pipeline/);
}
poll_until(sub { ($pg->psql("SELECT capstan.wait_for_snapshot('k', timeout => '180 s')"))[0] == 0 }) or die 'no snapshot';
$_->wait for @writers;
sync_pipeline($pg, 'k');
tables_equal($my, $pg, ['k.*'], 'after a snapshot that was killed six times');
exact('a snapshot with kills');

# Somebody's table inherits from the target: rows of both are in places of the same number, and one row is changed all the same.
$pg->safe_psql("CREATE TABLE k.heir () INHERITS (k.r11); INSERT INTO k.heir SELECT 100 + g, 'mine' FROM generate_series(1, 50) g");
$my->sql("USE k; INSERT INTO r11 VALUES (7, 'a'), (7, 'b'), (7, 'c'); UPDATE r11 SET b = 'd' WHERE a = 7; DELETE FROM r11 WHERE a = 1 LIMIT 1; DELETE FROM r11 WHERE a = 7 LIMIT 2; UPDATE r11 SET a = 8 WHERE a IS NULL");
sync_pipeline($pg, 'k');
is($pg->value("SELECT count(*) FROM k.heir WHERE a > 100 AND b = 'mine'"), 50, 'rows of a table that inherits from the target are left alone');
$pg->safe_psql('DROP TABLE k.heir');
tables_equal($my, $pg, ['k.r11'], 'and those of the target are right');

# A row that is not there is a surprise that is counted, and mended as far as the image goes.
$pg->safe_psql("DELETE FROM k.nothing; INSERT INTO k.nothing VALUES (1, 1)");
$my->sql("DELETE FROM k.nothing; INSERT INTO k.nothing VALUES (1, 1)");
sync_pipeline($pg, 'k');
cmp_ok($pg->value("SELECT rows_missing FROM capstan.table_status WHERE source_table = 'nothing'"), '>', 0, 'missing rows are counted');
drop_pipeline($pg, 'k');

done_testing();
