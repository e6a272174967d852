# A live MySQL database appears in Postgres: rows that were there and rows that come.
#
# Why: the main job.
# How: tables of several key kinds with rows in them, writers that insert, update, delete
# and change keys all the while; pipeline created and started by SQL; more changes after
# the snapshot; stop, changes, start.
# Asserted: contents of every table are equal; no row was a surprise (rows_missing,
# rows_existing stay zero outside of a copy).
# Not asserted: speed, crashes.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'50ms'", 'capstan.max_range_rows' => 5000 });

$my->sql(<<'SQL');
CREATE DATABASE shop;
USE shop;
CREATE TABLE seq (n INT PRIMARY KEY);
INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(60) NOT NULL, total DECIMAL(12,2),
  state ENUM('new','paid','sent') NOT NULL DEFAULT 'new', note TEXT, at DATETIME(6) NOT NULL, touched TIMESTAMP(3) NULL);
INSERT INTO orders (customer, total, note, at)
  SELECT CONCAT('customer ', a.n), b.n * 1.5, IF(a.n % 3 = 0, NULL, REPEAT('nöte ', a.n % 7)), '2024-01-01 10:00:00.123456' + INTERVAL a.n MINUTE
  FROM seq a, seq b WHERE b.n < 50;
CREATE TABLE people (name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, age INT, email VARCHAR(80) UNIQUE);
INSERT INTO people SELECT CONCAT(CHAR(65 + n % 26), 'ä', n), n % 90, CONCAT('p', n, '@example.org') FROM seq;
CREATE TABLE order_lines (order_id INT, line INT, sku BINARY(8), qty INT, PRIMARY KEY (order_id, line));
INSERT INTO order_lines SELECT a.n, b.n, UNHEX(LPAD(HEX(a.n * 100 + b.n), 16, '0')), b.n FROM seq a, seq b WHERE b.n < 20;
CREATE TABLE tags (k VARBINARY(20) PRIMARY KEY, v JSON);
INSERT INTO tags SELECT LEFT(SHA2(n, 256), 20), JSON_OBJECT('n', n, 'x', n / 3) FROM seq;
CREATE TABLE empty_one (id INT PRIMARY KEY, x INT);
CREATE TABLE control (go INT);
INSERT INTO control VALUES (1);
CREATE TABLE ignored (id INT PRIMARY KEY);

DELIMITER //
CREATE PROCEDURE churn(me INT, rounds INT)
BEGIN
  DECLARE i, r, l INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR 1213 ROLLBACK;
  WHILE i < rounds AND (SELECT go FROM control) DO
    START TRANSACTION;
    INSERT INTO orders (customer, total, at) VALUES (CONCAT('w', me, ' ', i), i, NOW(6));
    SET r = 1 + FLOOR(RAND() * 50000);
    UPDATE orders SET total = total + 1, state = 'paid', touched = NOW(3) WHERE id = r;
    SET r = 1 + FLOOR(RAND() * 50000);
    DELETE FROM orders WHERE id = r;
    COMMIT;
    UPDATE IGNORE people SET name = CONCAT(CHAR(65 + FLOOR(RAND() * 26)), 'Ä', FLOOR(RAND() * 100000)) WHERE age = me * 10 ORDER BY RAND() LIMIT 1;
    SET r = FLOOR(RAND() * 1000), l = FLOOR(RAND() * 20);
    UPDATE IGNORE order_lines SET line = line + 20 WHERE order_id = r AND line = l;
    REPLACE INTO order_lines VALUES (FLOOR(RAND() * 1000), FLOOR(RAND() * 40), x'01', i);
    UPDATE tags SET v = JSON_SET(v, '$.n', i) WHERE k = LEFT(SHA2(r, 256), 20);
    INSERT INTO empty_one VALUES (me * 1000000 + i, i);
    INSERT IGNORE INTO ignored VALUES (i);
    SET i = i + 1;
  END WHILE;
END //
DELIMITER ;
CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
GRANT SELECT, LOCK TABLES ON shop.* TO 'capstan'@'%';
SQL

my @writers = map { $my->background("CALL shop.churn($_, 100000)") } 1 .. 3;

$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my @tables = qw(shop.orders shop.people shop.order_lines shop.tags shop.empty_one);
my $list = join ',', @tables;
is($pg->value("SELECT count(*) FROM capstan.preflight('source', '{$list}') WHERE status = 'error'"), 0, 'preflight has no error')
  or diag($pg->safe_psql("SELECT * FROM capstan.preflight('source', '{$list}') WHERE status <> 'ok'"));
$pg->safe_psql("SELECT capstan.create_pipeline('shop', server => 'source', tables => '{$list}')");
$pg->safe_psql("SELECT capstan.start_pipeline('shop')");
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('shop', timeout => '300 s')");
is($rc, 0, 'snapshot completes under load') or diag($err);
is($pg->value("SELECT sum(lock_count) > 5 FROM capstan.table_status"), 't', 'it took several rounds');

$my->sql('UPDATE shop.control SET go = 0');
$_->wait for @writers;
$pg->safe_psql("SELECT capstan.wait_for_source('shop', timeout => '180 s')");
tables_equal($my, $pg, \@tables, 'after snapshot and stream');
is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.pipeline_table'), 0, 'no row was a surprise');

$pg->safe_psql("SELECT capstan.stop_pipeline('shop')");
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped'), 'stops');
$my->sql("UPDATE shop.control SET go = 1; CALL shop.churn(7, 500)");
$pg->safe_psql("SELECT capstan.start_pipeline('shop')");
$pg->safe_psql("SELECT capstan.wait_for_source('shop', timeout => '180 s')");
tables_equal($my, $pg, \@tables, 'after a stop');
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'streaming'), 'streams');

$pg->safe_psql("SELECT capstan.stop_pipeline('shop')");
$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'shop'");
$pg->safe_psql("SELECT capstan.drop_pipeline('shop')");
is($pg->value("SELECT count(*) > 0 FROM shop.orders"), 't', 'the target tables stay');

done_testing();
