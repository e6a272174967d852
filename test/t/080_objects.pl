# Indexes, constraints, defaults and comments of the source: each comes with the same meaning, or is listed with the reason.
#
# Why: a target without its indexes is of no use, and a constraint that means something else is worse than none: one that
# is stricter halts the stream, one that is weaker lets in what the source would not have.
# How: a schema with everything in it, copied and streamed under writers; index workers killed in the middle; constraints made
# while the stream goes on; the source asked what each CHECK says of each row of a grid of values, the target too.
# Asserted: what is translated, what is not and why, exactly; indexes there and valid; contents equal; expressions equal on
# all rows; what a unique index, a CHECK, a foreign key or a default does with rows that are written here; what is said of keys to tables that are
# captured later, or no longer.
# Not asserted: how fast indexes are built.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'max_worker_processes' => 20 });

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my ($old_foreign_keys) = $my->value("SELECT COUNT(*) FROM performance_schema.global_variables WHERE VARIABLE_NAME = 'restrict_fk_on_non_standard_key'");

# ---- a schema with everything ----

$my->sql("SET SESSION restrict_fk_on_non_standard_key = OFF") if $old_foreign_keys;
$my->sql(<<'SQL');
CREATE DATABASE o;
USE o;
CREATE TABLE parent (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY COMMENT 'the 100% key', k INT NOT NULL, code VARCHAR(10) COLLATE utf8mb4_0900_bin,
  name VARCHAR(30), UNIQUE KEY by_code (code), KEY by_k (k DESC, id), KEY by_name (name(5)), UNIQUE KEY `we``ird %s "key"` (name), FULLTEXT KEY words (name))
  COMMENT 'it''s a \\ table';
CREATE TABLE child (id INT AUTO_INCREMENT PRIMARY KEY, p_id BIGINT UNSIGNED, code VARCHAR(10) COLLATE utf8mb4_0900_bin, ci VARCHAR(30), a INT NOT NULL DEFAULT 7,
  FOREIGN KEY (p_id) REFERENCES parent (id) ON DELETE CASCADE, CONSTRAINT by_code FOREIGN KEY (code) REFERENCES parent (code) ON UPDATE RESTRICT,
  CONSTRAINT by_ci FOREIGN KEY (ci) REFERENCES parent (name),
  CONSTRAINT positive CHECK (a > 0), CONSTRAINT child_pkey CHECK (a < 1000), CONSTRAINT logs CHECK (LOG(a) >= 0), CONSTRAINT unenforced CHECK (a > 100) NOT ENFORCED);
CREATE TABLE outside (id INT PRIMARY KEY);
CREATE TABLE orphan (id INT PRIMARY KEY, x INT, FOREIGN KEY (x) REFERENCES outside (id));
CREATE TABLE defaults (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  i INT DEFAULT -5, u BIGINT UNSIGNED DEFAULT 18446744073709551615, d DECIMAL(10,2) DEFAULT 1.5, f FLOAT DEFAULT 0.1, f0 FLOAT DEFAULT 0, db DOUBLE DEFAULT 1e-10,
  v VARCHAR(20) DEFAULT 'x''y\\z é', q VARCHAR(5) DEFAULT 'a?', c CHAR(5) DEFAULT 'ab', c2 CHAR(5) DEFAULT ('ab '), e ENUM('a', 'b') DEFAULT 'b', s SET('x', 'y') DEFAULT 'x,y',
  b BINARY(4) DEFAULT 'ab', vb VARBINARY(4) DEFAULT 'ab', bits BIT(4) DEFAULT b'101', y YEAR DEFAULT 2020, t TIME DEFAULT '-10:11:12', da DATE DEFAULT '2020-01-31',
  dt DATETIME(3) DEFAULT '2020-01-31 01:02:03.123', ts TIMESTAMP NULL DEFAULT '2020-01-31 01:02:03', now0 TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  now3 DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), now5 TIMESTAMP(5) DEFAULT CURRENT_TIMESTAMP(5), today DATE DEFAULT (CURRENT_DATE),
  uuid CHAR(36) DEFAULT (UUID()), tx TEXT DEFAULT ('lit'), calc INT DEFAULT (1 + 2), half INT DEFAULT (5 / 2), j JSON DEFAULT (JSON_ARRAY()),
  g INT AS (i + 1) STORED, gv INT AS (i * 2) VIRTUAL);
CREATE TABLE wide (id INT PRIMARY KEY, a VARCHAR(768), b VARCHAR(250), t TEXT, bl BLOB, j JSON, g POINT NOT NULL SRID 0, e ENUM('', 'x'),
  UNIQUE KEY wide (a), KEY prefixed (t(20)), UNIQUE KEY unique_prefix (t(20)), KEY bytes (bl(8)), KEY expr ((LENGTH(a))), SPATIAL KEY place (g),
  KEY hidden (b) INVISIBLE, UNIQUE KEY label (e), KEY pkey (b), KEY whole (b(10)), KEY multi ((CAST(j -> '$.a' AS UNSIGNED ARRAY))));
CREATE TABLE a_very_long_name_of_a_table_that_leaves_no_room_for_an_index_na (id INT PRIMARY KEY, x INT, y INT, KEY x (x), KEY y (y));
CREATE TABLE mine (id INT PRIMARY KEY, x INT, KEY by_x (x));
INSERT INTO parent (k, code, name) VALUES (1, 'a', 'Anna'), (2, 'A', 'anne'), (3, NULL, NULL), (4, NULL, NULL);
INSERT INTO child (p_id, code, ci) VALUES (1, 'a', 'ANNA'), (2, 'A', NULL), (NULL, NULL, NULL);
INSERT INTO defaults (i) VALUES (1), (2);
INSERT INTO mine VALUES (1, 1);
INSERT INTO a_very_long_name_of_a_table_that_leaves_no_room_for_an_index_na VALUES (1, 1, 1);
INSERT INTO wide (id, a, g, e) VALUES (1, 'a', POINT(1, 2), 'x');
CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, x INT, y VARCHAR(100), UNIQUE KEY by_x (x), KEY by_y (y, x));
INSERT INTO big (x, y) VALUES (1, REPEAT('y', 100)), (2, REPEAT('z', 100));
SET SESSION cte_max_recursion_depth = 100000;
INSERT INTO big (x, y) WITH RECURSIVE n AS (SELECT 3 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i, CONCAT(REPEAT('y', 80), i) FROM n;
CREATE TABLE second (id INT PRIMARY KEY, y VARCHAR(100), KEY by_y (y));
INSERT INTO second SELECT id, y FROM big;
SQL
$pg->safe_psql('CREATE SCHEMA o; CREATE TABLE o.mine (id int PRIMARY KEY, x int)');
my @tables = map { "o.$_" } qw(parent child orphan defaults wide a_very_long_name_of_a_table_that_leaves_no_room_for_an_index_na mine big second);
my $objects = "SELECT source_table, kind, name, state, statement, note FROM capstan.object_status WHERE pipeline = 'o' ORDER BY id";

sub objects { my ($where) = @_; return $pg->safe_psql("SELECT kind, name, state, coalesce(statement, ''), coalesce(note, '') FROM capstan.object_status WHERE pipeline = 'o' AND $where ORDER BY id") }

# An old snapshot keeps CREATE INDEX CONCURRENTLY from ending.
$pg->safe_psql("CREATE TABLE public.other (x int); INSERT INTO other VALUES (1); CREATE FUNCTION sharing() RETURNS int STABLE LANGUAGE plpgsql AS
	\$\$ DECLARE r record; BEGIN FOR r IN SELECT capstan.wait_for_snapshot('o', timeout => '60 s') LOOP END LOOP; RETURN 1; END \$\$");
my $reader = $pg->background("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM other; SELECT pg_sleep(600)");
$pg->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND wait_event = 'PgSleep' AND backend_xmin IS NOT NULL", '1');
start_pipeline($pg, 'o', \@tables, timeout => 0);
$pg->poll_query_until("SELECT count(*) FROM capstan.object_status WHERE state = 'building' AND source_table = 'big'", '1')
  or diag($pg->safe_psql($objects));
$pg->poll_query_until("SELECT count(*) FROM pg_index WHERE indrelid = 'o.big'::regclass AND NOT indisvalid AND indisready", '1');
ok($pg->poll_query_until("SELECT count(DISTINCT pid) FROM pg_stat_progress_create_index WHERE relid IN ('o.big'::regclass, 'o.second'::regclass)", '2'), 'indexes of several tables are built at a time');
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'indexing'), 'the pipeline says that it builds indexes');
$my->sql("UPDATE o.big SET x = -x WHERE id = 1; INSERT INTO o.big (x, y) VALUES (-2, 'new')");
sync_pipeline($pg, 'o');
is($pg->value("SELECT count(*) FROM o.big WHERE x IN (-1, -2)"), 2, 'the stream goes on while an index is built');


# The one that cannot end; another may just have built the index of a small table.
sub builder { return $pg->value("SELECT pid FROM pg_stat_progress_create_index WHERE relid = 'o.big'::regclass") }

my $pid = builder();
my ($worker) = $pg->worker_pids('capstan pipeline');
ok($pid, 'there is an index worker');
kill 'TERM', $worker;
poll_until { my ($next) = $pg->worker_pids('capstan pipeline'); $next && $next != $worker };
$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'indexing');
ok((grep { $_ == $pid } $pg->worker_pids('capstan index')), 'another pipeline worker lets it go on');
$pg->safe_psql("SELECT capstan.stop_pipeline('o')");
ok((poll_until { !grep { $_ == $pid } $pg->worker_pids('capstan index') }), 'a stop ends it');
my (undef, undef, $said) = $pg->psql("BEGIN; SELECT capstan.drop_pipeline('o'); ROLLBACK");
like($said, qr/WARNING:  index (o\.big_by_.) of o\.big was not completed\nHINT:  DROP INDEX CONCURRENTLY \1;/, 'who drops the pipeline now is told what is left behind');
$pg->safe_psql("SELECT capstan.start_pipeline('o')");
ok((poll_until { $pid = builder() }), 'a start begins again');
$pg->poll_query_until("SELECT count(*) FROM pg_index WHERE indrelid = 'o.big'::regclass AND NOT indisvalid AND indisready", '1');
# Who could still read with an older snapshot must not be passed over by the index, and so cannot wait for it.
for my $statements ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT capstan.wait_for_snapshot('o', timeout => '60 s')",
	"BEGIN; DECLARE c CURSOR FOR SELECT * FROM other; SELECT capstan.wait_for_snapshot('o', timeout => '60 s')",
	"SELECT capstan.wait_for_snapshot('o', timeout => '60 s'), (SELECT count(*) FROM other)",
	"SELECT capstan.wait_for_snapshot('o', timeout => '60 s') FROM other",
	"DO \$\$ BEGIN PERFORM capstan.wait_for_snapshot('o', timeout => '60 s'); END \$\$",
	"SELECT sharing(), (SELECT count(*) FROM other)")
{
	my ($rc, $out, $err) = $pg->psql($statements);
	like($err, qr/wait for the snapshot of this statement/, "a waiter whose snapshot may be used again says that it cannot wait: $statements");
}
my $from = $pg->log_position;
kill 'KILL', $pid;
$pg->wait_restarted($from);
$pg->safe_psql("SELECT capstan.wait_for_snapshot('o', timeout => '180 s')");
$reader->stop;
is($pg->value("SELECT count(*) FROM pg_index WHERE indrelid::regclass::text LIKE 'o.%' AND NOT indisvalid"), 0, 'no half index is left');
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'streaming'), 'then it streams');
is($pg->value("SELECT reltuples > 30000 FROM pg_class WHERE oid = 'o.big'::regclass"), 't', 'a large table was analyzed');

# ---- what became of what ----

is(objects("kind IN ('index', 'unique')"), <<'OUT' =~ s/\n\z//r, 'indexes: built, left or not translated, with the reason');
index|x|done|CREATE INDEX a_very_long_name_of_a_table_that_leaves_no_room_for_an_e6648a85 ON o.a_very_long_name_of_a_table_that_leaves_no_room_for_an_index_na USING btree (x)|
index|y|done|CREATE INDEX a_very_long_name_of_a_table_that_leaves_no_room_for_an_4609d06d ON o.a_very_long_name_of_a_table_that_leaves_no_room_for_an_index_na USING btree (y)|
unique|by_x|done|CREATE UNIQUE INDEX big_by_x ON o.big USING btree (x)|
index|by_y|done|CREATE INDEX big_by_y ON o.big USING btree (y, x)|
index|by_ci|done|CREATE INDEX child_by_ci ON o.child USING btree (ci)|
index|by_code|done|CREATE INDEX child_by_code ON o.child USING btree (code)|
index|p_id|done|CREATE INDEX child_p_id ON o.child USING btree (p_id)|
index|by_x|left_to_user|CREATE INDEX mine_by_x ON o.mine USING btree (x)|the table was there before the pipeline
index|x|done|CREATE INDEX orphan_x ON o.orphan USING btree (x)|
unique|by_code|done|CREATE UNIQUE INDEX parent_by_code ON o.parent USING btree (code)|
index|by_k|done|CREATE INDEX parent_by_k ON o.parent USING btree (k DESC, id)|
index|by_name|done|CREATE INDEX parent_by_name ON o.parent USING btree (name)|of whole values instead of prefixes
unique|we`ird %s "key"|done|CREATE UNIQUE INDEX "parent_we`ird %s ""key""" ON o.parent USING btree (name)|texts that the source's collation takes for equal are different here
index|words|not_translated||PostgreSQL searches texts in another way: see GIN indexes on to_tsvector()
index|by_y|done|CREATE INDEX second_by_y ON o.second USING btree (y)|
index|bytes|left_to_user|CREATE INDEX wide_bytes ON o.wide USING btree ("substring"(bl, 1, 8))|an index of prefixes serves queries that compare the same expression only
index|expr|not_translated||an index on an expression is not translated
index|hidden|done|CREATE INDEX wide_hidden ON o.wide USING btree (b)|invisible on the source
unique|label|left_to_user|CREATE UNIQUE INDEX wide_label ON o.wide USING btree (e)|values of column "e" that differ on the source can be equal here: its label '' is the same text here as no label
index|multi|not_translated||an index on an expression is not translated
index|pkey|done|CREATE INDEX wide_pkey_a44f9aeb ON o.wide USING btree (b)|
index|place|not_translated||a spatial index needs the type of PostGIS
index|prefixed|left_to_user|CREATE INDEX wide_prefixed ON o.wide USING btree ("left"(t, 20))|an index of prefixes serves queries that compare the same expression only
unique|unique_prefix|done|CREATE UNIQUE INDEX wide_unique_prefix ON o.wide USING btree ("left"(t, 20))|texts that the source's collation takes for equal are different here
index|whole|done|CREATE INDEX wide_whole ON o.wide USING btree (b)|of whole values instead of prefixes
unique|wide|left_to_user|CREATE UNIQUE INDEX wide_wide ON o.wide USING btree (a)|by their types its keys can be larger than the 2600 bytes that fit into an index, and a row with a larger one could not be written; create it if your values are shorter
OUT
is($pg->value(q{SELECT count(*) FROM capstan.object_status o WHERE o.state = 'done' AND o.kind IN ('index', 'unique') AND
	NOT EXISTS (SELECT FROM pg_indexes i WHERE regexp_replace(i.indexdef, ' ON \S+', '') = regexp_replace(o.statement, ' ON \S+', '') AND i.schemaname = 'o')}), 0, 'those that are done are there, as their statements say')
  or diag($pg->safe_psql("SELECT statement FROM capstan.object_status WHERE state = 'done' EXCEPT SELECT indexdef FROM pg_indexes"));
is(objects("state = 'not_translated' AND kind NOT IN ('index', 'unique')"), <<'OUT' =~ s/\n\z//r, 'everything else that is not translated, with the reason');
check|logs|not_translated||function log() is not translated
check|unenforced|not_translated||the source does not enforce it
default|f|not_translated||information_schema shows six digits of it, which need not be all
default|q|not_translated||a question mark in information_schema can stand for another character
default|ts|not_translated||information_schema does not tell its time zone
on_update|now3|not_translated||PostgreSQL has no such clause: a trigger can do the same for rows that are written here
default|now5|not_translated||CURRENT_TIMESTAMP(5) is not translated
default|uuid|not_translated||function uuid() is not translated: it makes version 1, gen_random_uuid() makes version 4
default|half|not_translated||"/" is not translated
default|j|not_translated||function json_array() is not translated
generated|g|not_translated||it is a plain column here, and holds what the source computes; rows that are written here are to give its value
generated|gv|not_translated||it is a plain column here, and holds what the source computes; rows that are written here are to give its value
foreign_key|orphan_ibfk_1|not_translated||the pipeline does not capture o.outside
OUT

# ---- constraints, while the stream goes on ----

$my->sql("SET foreign_key_checks = 0; INSERT INTO o.child (p_id, code, a) VALUES (7777, 'a', 1)");
my $writer = $my->background(join '', map { "UPDATE o.child SET a = a + 1; INSERT INTO o.parent (k) VALUES ($_); INSERT INTO o.defaults (i) VALUES ($_); UPDATE o.child SET p_id = $_ + 4 WHERE id = 3;\n" } 1 .. 100);
sync_pipeline($pg, 'o');
is($pg->safe_psql("SELECT kind, name, result FROM capstan.create_constraints('o', validate => false) WHERE result <> 'done'"),
	"check|child_pkey|not_valid\ncheck|positive|not_valid\nforeign_key|by_code|not_valid\nforeign_key|child_ibfk_1|not_valid", 'defaults are there at once, constraints not validated');
$writer->wait;
sync_pipeline($pg, 'o');
is($pg->safe_psql("SELECT kind, name, result FROM capstan.create_constraints('o')"),
	qq{check|child_pkey|done\ncheck|positive|done\nforeign_key|by_code|done\nforeign_key|child_ibfk_1|not_valid: insert or update on table "child" violates foreign key constraint "child_ibfk_1"},
	'what the rows do not fulfil is reported, and stops nothing');
$my->sql("DELETE FROM o.child WHERE p_id = 7777; DELETE FROM o.parent WHERE id = 2");
sync_pipeline($pg, 'o');
is($pg->safe_psql("SELECT name, result FROM capstan.create_constraints('o')"), 'child_ibfk_1|done', 'a later call does what is left');
is($pg->safe_psql("SELECT count(*) FROM capstan.create_constraints('o')"), '0', 'then there is nothing left');
is($pg->safe_psql("SELECT conname, contype, convalidated FROM pg_constraint WHERE conrelid = 'o.child'::regclass AND contype <> 'n' ORDER BY 1"),
	"by_code|f|t\nchild_ibfk_1|f|t\nchild_pkey|p|t\nchild_pkey_8af6e048|c|t\npositive|c|t", 'constraints are valid');
is($pg->safe_psql("SELECT obj_description('o.parent'::regclass), col_description('o.parent'::regclass, 1)"), q{it's a \ table|the 100% key}, 'comments');
tables_equal($my, $pg, \@tables, 'with constraints and writers');

# Images without a column get what the source's default is, not what the target's would be.
$my->sql("SET binlog_row_image = MINIMAL; SET timestamp = 1500000000; INSERT INTO o.defaults (id, f0) VALUES (201, 3), (202, 4); UPDATE o.defaults SET i = 9 WHERE id = 201; INSERT INTO o.child (id) VALUES (1000)");
sync_pipeline($pg, 'o');
tables_equal($my, $pg, \@tables, 'partial images beside defaults of the target');

# ---- cut-over: rows that are written here ----

$pg->safe_psql("SELECT capstan.stop_pipeline('o')");
is($pg->safe_psql("SELECT source_table, last_value, result FROM capstan.set_sequences('o') ORDER BY 1"),
	join("\n", map { "o.$_|" . $my->value("SELECT MAX(id) FROM o.$_") . '|done' } qw(big child defaults parent)), 'sequences are set behind what is there');
is($pg->safe_psql("SELECT count(*) FROM capstan.set_sequences('o') WHERE result = 'done'"), 4, 'and again');
for my $table (qw(parent child defaults))
{
	my ($values) = $table eq 'parent' ? '(k) VALUES (9)' : $table eq 'child' ? '(code) VALUES (NULL)' : 'DEFAULT VALUES';
	my $mysql_values = $table eq 'defaults' ? '() VALUES ()' : $values;
	my $id = $pg->safe_psql("SET TimeZone = 'UTC'; INSERT INTO o.$table $values RETURNING id");
	is($id, $my->value("SELECT MAX(id) + 1 FROM o.$table"), "$table: the next number");
	$my->sql("SET time_zone = '+00:00'; INSERT INTO o.$table $mysql_values");
}
# the same defaults on both sides, but for those that are the moment and those that are not translated
$pg->safe_psql("UPDATE o.defaults SET f = 0.1, q = 'a?', ts = '2020-01-31 01:02:03+00', uuid = NULL, half = 3, j = '[]', g = i + 1, gv = i * 2, now5 = NULL WHERE id = (SELECT max(id) FROM o.defaults)");
is($pg->value("SET timezone = 'UTC'; SELECT now0 BETWEEN now() - interval '10 min' AND now() AND now0 = date_trunc('second', now0) AND now3 = date_trunc('milliseconds', now3) AND now3 BETWEEN timezone('UTC', now() - interval '10 min') AND timezone('UTC', now())
	AND today BETWEEN current_date - 1 AND current_date FROM o.defaults ORDER BY id DESC LIMIT 1"), 't', 'defaults that are the moment');
$my->sql("SET \@id = (SELECT MAX(id) FROM o.defaults); UPDATE o.defaults SET now0 = '2000-01-01', now3 = '2000-01-01', today = '2000-01-01', now5 = NULL, uuid = NULL, ts = ts WHERE id = \@id");
$pg->safe_psql("UPDATE o.defaults SET now0 = '2000-01-01+00', now3 = '2000-01-01', today = '2000-01-01' WHERE id = (SELECT max(id) FROM o.defaults)");
tables_equal($my, $pg, [ 'o.defaults', 'o.parent', 'o.child' ], 'a row of defaults');
for ([ "INSERT INTO o.child (a) VALUES (0)", 'positive' ], [ "INSERT INTO o.child (p_id) VALUES (99999)", 'child_ibfk_1' ], [ "INSERT INTO o.parent (k, code) VALUES (1, 'a')", 'parent_by_code' ])
{
	my ($sql, $constraint) = @$_;
	my ($rc, $out, $err) = $pg->psql($sql);
	ok($rc != 0 && $err =~ /"$constraint"/, "refused: $sql") or diag($err);
}
is($pg->safe_psql("UPDATE o.child SET code = NULL WHERE id = 1; DELETE FROM o.parent WHERE id = 1; SELECT count(*) FROM o.child WHERE id = 1"), '0', 'ON DELETE CASCADE for what is written here');

# ---- each CHECK says of each row what the source says ----

my @checks = ('a > 0', 'a <> k', 'u > -1', 'bu <= 18446744073709551614', 'bu > b', 'b < u', 'A BETWEEN -1 AND K', 'a NOT BETWEEN 1 AND 2', 'a IN (1, 2, NULL)', 'a NOT IN (-1, 2)', 'a <=> k', 'a <=> NULL',
	'(a > 0) IS TRUE', '(a > k) IS NOT FALSE', 'a IS NOT NULL', 'k IS NULL', 'NOT (a = k)', 'a > 0 XOR k > 0', 'a AND k', 'a OR NOT k', 'a + k * 2 < 5', 'a - k > 0', 'u + 1 > a', 'a % 3 = 1', 'a % 3 = -1', 'a DIV 2 = -1', 'u DIV 2 > a',
	'-a < k', '2147483647 + 1 > u', 'COALESCE(k, a, 0) > 0', 'IFNULL(k, 5) = 5', 'd >= 0.5', 'd = a', 'd > u', 'x >= 1e0', 'f = 0.1', 'f > d', 'x > b', 'x = bu', 'f BETWEEN -0.5 AND 0.1', 'x IN (1, 2.5, 1e3)', 'a = 1.0', 'a = 1e0', 'b = 9223372036854775807e0',
	"z = 'a'", "z = 'a '", "z <> ''", "z IN ('a', 'B ')", "n = 'a'", "n < 'b'", "n > 'B'", "n IN ('a', 'A')", "n BETWEEN 'A' AND 'a'", 'z <=> NULL', "l = 'a'", "e = 'a'", "e IN ('b', '')", 'LENGTH(z) > 1', 'CHAR_LENGTH(ci) = 1', 'CHAR_LENGTH(z) = LENGTH(z)', 'LENGTH(l) = 2', 'LENGTH(vb) = 2',
	"vb = x'6162'", "vb > 'ab'", "da > DATE '2020-01-01'", "da > '2020-02-28'", "dt > '2020-01-01'", "dt = '2020-01-01 00:00:00'", 'dt > da', 'dt = da', "da BETWEEN '2000-01-01' AND '2020-02-29'", "dt BETWEEN '2000-01-01 00:00:00' AND '2020-01-01 00:00:00'",
	"da IN ('2020-02-29', '2000-01-01')", "d3 IN ('2020-01-01 00:00:00.500', '2000-01-01 00:00:00.000')", "d3 > TIMESTAMP '2020-01-01 00:00:00.25'", 'da IS NULL OR dt > da', 'd3 > dt', "dt < '2020-01-01 00:00:00.5'",
	'b BETWEEN 0 AND 18446744073709551615', 'bu BETWEEN -1 AND 5', 'bu BETWEEN b AND bu', 'b BETWEEN u AND bu', 'bu NOT IN (-1, 1)', 'bu <> -1', 'd BETWEEN b AND bu', 'a < 1.5', 'a = 0.5', 'a BETWEEN 0.5 AND 1.5', 'k > 200', 'u < 4294967295.5', 'k = 0.5e0', 'd < 0.495', 'f = 16777217', 'x = 9007199254740993',
	"da < TIMESTAMP '2020-01-01 12:00:00'", "da = TIMESTAMP '2020-01-01 12:00:00'", "dt >= TIMESTAMP '2020-01-01 00:00:00.5'", 'd3 BETWEEN da AND dt', "ch = 'a '", 'CHAR_LENGTH(ch) = 1', "bn = 'a'", "bn > x'61'");
my $columns = "id INT PRIMARY KEY, a INT, k TINYINT, u INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, d DECIMAL(10,2), f FLOAT, x DOUBLE, z VARCHAR(20) COLLATE utf8mb4_bin, n VARCHAR(20) COLLATE utf8mb4_0900_bin, ci VARCHAR(20), l VARCHAR(20) COLLATE latin1_bin, e ENUM('a', 'B', 'b') COLLATE utf8mb4_bin, vb VARBINARY(10), da DATE, dt DATETIME, d3 DATETIME(3), ch CHAR(5) COLLATE utf8mb4_bin, bn BINARY(3)";
$my->sql("CREATE DATABASE c; CREATE TABLE c.vals ($columns); CREATE TABLE c.chk ($columns" . join('', map { ", CONSTRAINT c$_ CHECK ($checks[$_])" } 0 .. $#checks) . ')');
my %values = (a => [ 'NULL', 0, 1, -1, 2, 3, -3, 2147483647, -2147483648 ], k => [ 'NULL', 0, 1, -1, 2, 3, 127 ], u => [ 'NULL', 0, 1, 4294967295, 3 ], b => [ 'NULL', 0, -1, '9223372036854775807', '-9223372036854775808' ],
	bu => [ 'NULL', 0, 1, '18446744073709551615', '9223372036854775808' ], d => [ 'NULL', '0.50', '0.49', '1.00', '-1', '99999999.99', 0.1 ], f => [ 'NULL', 0.1, '-0.5', 1, '3e38', 16777216 ], x => [ 'NULL', 0.1, 1, 2.5, 1000, 9007199254740992, '9223372036854775807', '-1e300' ],
	z => [ 'NULL', "''", "'a'", "'a '", "'A'", "'B'", "'é'", "'ab'", "'b'", "'a\\t'" ], n => [ 'NULL', "''", "'a'", "'a '", "'A'", "'B'", "'é'", "'b'" ], ci => [ 'NULL', "''", "'é'", "'ab'", "'😀'" ], l => [ 'NULL', "''", "'a'", "'a '", "'é'", "'éa'" ],
	e => [ 'NULL', "'a'", "'B'", "'b'", 0 ], vb => [ 'NULL', "''", "'ab'", "'ab '", "x'6100'", "x'ff'" ], da => [ 'NULL', "'2020-01-01'", "'2020-02-29'", "'2000-01-01'", "'9999-12-31'" ],
	dt => [ 'NULL', "'2020-01-01'", "'2020-01-01 00:00:01'", "'2020-02-29 12:00:00'", "'2000-01-01'" ], d3 => [ 'NULL', "'2020-01-01 00:00:00.500'", "'2020-01-01 00:00:00.250'", "'2000-01-01'" ], ch => [ 'NULL', "'a'", "''", "'ab '" ], bn => [ 'NULL', "'a'", "''", "x'6100ff'" ]);
my @names = qw(a k u b bu d f x z n ci l e vb da dt d3 ch bn);
# Every pair of values of a and k, and of the others in steps that have no common factor.
my @rows = map { my $row = $_; my $i = 0; '(' . join(', ', $row, map { my $v = $values{$_}; $i++; $v->[ ($i == 1 ? $row : $i == 2 ? $row / @{ $values{a} } : $row * $i + $row / @$v) % @$v ] } @names) . ')' } 0 .. 629;
$my->sql("SET sql_mode = ''; INSERT INTO c.vals VALUES " . join(', ', @rows));
start_pipeline($pg, 'c', [ 'c.vals', 'c.chk' ]);
tables_equal($my, $pg, [ 'c.vals' ], 'the values are the same');
my %translated = map { /^c(\d+)\|(.*)$/ } split /\n/, $pg->safe_psql(q{SELECT name, substring(statement FROM 'CHECK (\(.*\)) NOT VALID$') FROM capstan.object_status WHERE pipeline = 'c' AND kind = 'check' AND state = 'pending'});
is(join("\n", map { $checks[$_] } grep { !defined $translated{$_} } 0 .. $#checks), '', 'all of these checks are translated')
  or diag($pg->safe_psql("SELECT name, definition, note FROM capstan.object_status WHERE pipeline = 'c' AND state = 'not_translated'"));
my @known = sort { $a <=> $b } keys %translated;
my @there = split /\n/, $my->sql('SELECT id, ' . join(', ', map { "($checks[$_])" } @known) . ' FROM c.vals ORDER BY id');
my @here = split /\n/, $pg->safe_psql("SELECT array_to_string(ARRAY[id::text, " . join(', ', map { "coalesce(($translated{$_})::int::text, 'NULL')" } @known) . "], E'\\t') FROM c.vals ORDER BY id");
my %differ;
for my $row (0 .. $#there)
{
	my @source = split /\t/, $there[$row];
	my @target = split /\t/, $here[$row] // '';
	for (0 .. $#known) { push @{ $differ{ $known[$_] } }, $row if $source[ $_ + 1 ] ne ($target[ $_ + 1 ] // '') }
}
is(join("\n", map { "$checks[$_] -> $translated{$_}: $rows[ $differ{$_}[0] ]" } sort { $a <=> $b } keys %differ), '', scalar(@known) . ' checks say the same of ' . scalar(@there) . ' rows');
is($pg->safe_psql("SELECT count(*), count(*) FILTER (WHERE result = 'done') FROM capstan.create_constraints('c')"), scalar(@known) . '|' . scalar(@known), 'and can all be made');

# ---- what the source compares in a way of its own: not translated, and so no row of its is refused ----

$my->sql(<<'SQL');
SET sql_mode = '';
CREATE DATABASE w;
USE w;
CREATE TABLE fixed (id INT PRIMARY KEY, f FLOAT(10,2), x DOUBLE(10,2), CONSTRAINT equal_f CHECK (f <= 0.1), CONSTRAINT equal_x CHECK (x = f), CONSTRAINT whole CHECK (x IS NOT NULL OR f IS NULL));
CREATE TABLE texts (id INT PRIMARY KEY, z VARCHAR(10) COLLATE utf8mb4_bin, n VARCHAR(5) DEFAULT 'a\0b', CONSTRAINT wide CHECK (z <> _utf16'ab'), CONSTRAINT same CHECK (z <> _latin1'cd'));
CREATE TABLE constant (id INT PRIMARY KEY, da DATE, CONSTRAINT dates CHECK (da > '2000-01-01' AND DATE '2021-01-01' > '2020-01-01'));
CREATE TABLE partial (id INT PRIMARY KEY, da DATE, dt DATETIME, CONSTRAINT later CHECK (da >= '2015-01-01'), CONSTRAINT later_than CHECK (dt > da), CONSTRAINT some CHECK (da IS NOT NULL));
INSERT INTO fixed VALUES (1, 0, 0);
INSERT INTO texts VALUES (1, 'aa', 'n');
INSERT INTO constant VALUES (1, '2020-01-01');
INSERT INTO partial VALUES (1, '2015-05-01', '2015-06-01');
SQL
my @tiny = map { "t$_" } 1 .. 9;
$my->sql('CREATE TABLE w.tiny (id INT PRIMARY KEY, ' . join(', ', map { "$_ TINYTEXT CHARACTER SET latin1" } @tiny) . ', KEY of_all (' . join(', ', map { "$_(255)" } @tiny) . '), KEY of_two (t1(255), t2(255)))');
start_pipeline($pg, 'w', [qw(w.fixed w.texts w.constant w.tiny)]);
start_pipeline($pg, 'infinity', ['w.partial'], zero_dates => "'infinity'");
is($pg->safe_psql("SELECT source_table, name, state, coalesce(note, '') FROM capstan.object_status WHERE pipeline IN ('w', 'infinity') AND kind IN ('check', 'default', 'index') ORDER BY 1, 2"), <<'OUT' =~ s/\n\z//r, 'they are not translated');
constant|dates|not_translated|a string that is not written as the column's values are is compared with a date
fixed|equal_f|not_translated|a floating-point number with a fixed number of digits is compared
fixed|equal_x|not_translated|a floating-point number with a fixed number of digits is compared
fixed|whole|pending|
partial|later|not_translated|dates are compared, and those without a month or a day are -infinity here
partial|later_than|not_translated|dates are compared, and those without a month or a day are -infinity here
partial|some|pending|
texts|n|not_translated|it has a zero byte
texts|same|pending|
texts|wide|not_translated|it has a string of character set utf16
tiny|of_all|left_to_user|by their types its keys can be larger than the 2600 bytes that fit into an index, and a row with a larger one could not be written; create it if your values are shorter
tiny|of_two|done|of whole values instead of prefixes
OUT
$pg->safe_psql("SELECT capstan.create_constraints('w'), capstan.create_constraints('infinity')");
my @long = map { "'" . join('', map { chr(0xC0 + int rand 0x40) } 1 .. 255) . "'" } @tiny;
$my->sql("SET sql_mode = ''; USE w; INSERT INTO fixed VALUES (2, 0.1, 0.1); INSERT INTO texts VALUES (2, 'ab', 'n'), (3, 'cde', NULL); INSERT INTO constant VALUES (2, '2020-01-01'); INSERT INTO tiny VALUES (1, " . join(', ', @long) . ");
	INSERT INTO partial VALUES (2, '2015-05-00', '2015-06-00')");
sync_pipeline($pg, $_) for qw(w infinity);
tables_equal($my, $pg, [qw(w.fixed w.texts w.constant w.tiny)], 'and rows that they would refuse are there');
is($pg->value("SELECT string_agg(concat_ws(' ', id, da, dt), ',' ORDER BY id) FROM w.partial"), '1 2015-05-01 2015-06-01 00:00:00,2 -infinity -infinity', '... dates, too');
drop_pipeline($pg, $_) for qw(w infinity);

# ---- keys between tables that were not captured at once ----

$my->sql("CREATE DATABASE k; USE k; CREATE TABLE top (id INT PRIMARY KEY); CREATE TABLE middle (id INT PRIMARY KEY, top INT, CONSTRAINT up FOREIGN KEY (top) REFERENCES top (id));
	CREATE TABLE bottom (id INT PRIMARY KEY, middle INT, CONSTRAINT to_middle FOREIGN KEY (middle) REFERENCES middle (id))");
sub keys_of_k { $pg->safe_psql("SELECT name, state, note FROM capstan.object_status WHERE pipeline = 'k' AND kind = 'foreign_key' ORDER BY 1") }
start_pipeline($pg, 'k', [qw(k.top k.bottom)]);
is(keys_of_k(), 'to_middle|not_translated|the pipeline does not capture k.middle', 'a key to a table that is not captured');
$pg->safe_psql("SELECT capstan.add_table('k', 'k.middle')");
is(keys_of_k(), "to_middle|not_translated|the pipeline captures k.middle, but by another call (add_table): to be made by hand\nup|not_translated|the pipeline captures k.top, but by another call (add_table): to be made by hand", 'what is said when it is added');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('k', timeout => '180 s')");
drop_pipeline($pg, 'k');
$pg->safe_psql('DROP SCHEMA k CASCADE');
start_pipeline($pg, 'k', ['k.*']);
is($pg->safe_psql("SELECT name, result FROM capstan.create_constraints('k') WHERE name = 'up'"), 'up|done', 'one that is made');
$pg->safe_psql("UPDATE capstan.table_object SET state = 'pending' WHERE name = 'to_middle'; SELECT capstan.remove_table('k', 'k.middle')");
is(keys_of_k(), 'to_middle|not_translated|the pipeline does not capture k.middle any more', 'a key to a table that is captured no longer is not forgotten');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('k', timeout => '180 s')");
is($pg->safe_psql("SELECT count(*) FROM capstan.create_constraints('k')"), 0, 'and not tried');
drop_pipeline($pg, 'k');

# ---- an index that cannot be built stops nothing ----

$my->sql("CREATE DATABASE f; CREATE TABLE f.t (id INT PRIMARY KEY, x INT, y INT, KEY x (x), KEY y (y)); INSERT INTO f.t VALUES (1, 1, 1)");
$pg->safe_psql("SELECT capstan.create_pipeline('f', server => 'source', tables => '{f.*}'); CREATE TABLE f.t_x (a int)");
$pg->safe_psql("SELECT capstan.start_pipeline('f')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('f', timeout => '180 s')");
is($pg->safe_psql("SELECT name, state, note FROM capstan.object_status WHERE pipeline = 'f' ORDER BY 1"), qq{x|failed|relation "t_x" already exists\ny|done|}, 'its note says why');
is($pg->safe_psql("SELECT severity, class, message FROM capstan.incident WHERE pipeline = 'f'"), qq{warning|index_not_built|index x of f.t could not be built: relation "t_x" already exists}, 'and an incident');
$my->sql("INSERT INTO f.t VALUES (2, 2, 2)");
sync_pipeline($pg, 'f');
tables_equal($my, $pg, [ 'f.t' ], 'the stream goes on');

is($pg->incidents("severity = 'halt'"), '', 'nothing halted');
done_testing();
