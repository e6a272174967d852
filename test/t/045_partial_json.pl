# Differences to JSON documents, where the binary log has neither the document before nor the one
# after: binlog_row_value_options = PARTIAL_JSON with binlog_row_image = MINIMAL and NOBLOB.
#
# Why: the document that is stored must become, bit by bit, what the whole new document would have
# become, in jsonb, json and text; and a difference to a document that is not there must not be lost.
# How: the source's settings are these, and binlog_row_metadata = MINIMAL, from the start. Random
# statements on every kind of value and name, in two tables (one with ordered keys, one of text keys whose changes
# are not kept out while it is copied), while they are copied and after; under all images. Generated columns
# before, in and behind the key, keys that nobody wrote down, a partitioned target. Then a target
# that somebody else has changed.
# Asserted: json and text are byte by byte what MySQL prints, and jsonb is what it is made of that text, on
# disk too; no row was a surprise. nul_bytes: a changed document is the same as one that comes whole. A missing row, a
# missing document and one that the differences do not fit halt with partial_row_image, and it goes on once they are put right.
# Not asserted: that MySQL logs differences rather than documents (it does; without
# the code for it, this halts at the first one).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'20ms'" });

$my->sql(<<'SQL');
SET GLOBAL binlog_row_image = MINIMAL; SET GLOBAL binlog_row_value_options = PARTIAL_JSON; SET GLOBAL binlog_row_metadata = MINIMAL;
CREATE DATABASE p;
USE p;
SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON;
CREATE TABLE docs (id INT PRIMARY KEY, j JSON, k JSON, l JSON, n INT, filler LONGBLOB);
CREATE TABLE named (id VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, j JSON, k JSON, l JSON, n INT);
CREATE TABLE parts LIKE docs;
CREATE TABLE gen (a INT, id INT AS (a * 2) STORED PRIMARY KEY, g JSON AS (JSON_EXTRACT(j, '$.a')) STORED, v JSON AS (JSON_EXTRACT(j, '$.b')) VIRTUAL,
  j JSON, z INT AS (JSON_LENGTH(j)) STORED, hidden INT DEFAULT 5 INVISIBLE, e JSON DEFAULT (JSON_OBJECT('made', 1)), KEY ((a + 1)));
SET sql_generate_invisible_primary_key = ON;
CREATE TABLE gipk (j JSON, n INT DEFAULT 3);
SET sql_generate_invisible_primary_key = OFF;
CREATE TABLE uniq (a VARCHAR(10) NOT NULL, b INT NOT NULL, j JSON NOT NULL, UNIQUE (b, a));
CREATE TABLE keyless (a INT, j JSON, b LONGTEXT);
CREATE TABLE nul (id INT PRIMARY KEY, j JSON);

DELIMITER //
-- Large enough for a difference to be smaller.
CREATE FUNCTION document(i INT) RETURNS JSON DETERMINISTIC NO SQL
BEGIN
  RETURN JSON_OBJECT('a', i, 'b', JSON_ARRAY(1.0, -0.0, 1e17, 1.50, CAST('1.10' AS DECIMAL(5,2)), JSON_OBJECT('x', NULL, 'y', TRUE)), 'list', JSON_ARRAY(1, 2, 3, 4),
    'ключ', 'значение', '"q"\n', JSON_OBJECT('d', CAST('2020-01-02' AS DATE), 'bin', CAST('x' AS BINARY)), '', i, 'pad', REPEAT('} "x": \\', 9),
    'big', 18446744073709551615, 'deep', JSON_OBJECT('deep', JSON_OBJECT('deep', JSON_ARRAY(JSON_OBJECT('deep', JSON_ARRAY())))));
END //
CREATE FUNCTION some_value(r DOUBLE) RETURNS JSON DETERMINISTIC NO SQL
BEGIN
  RETURN CASE FLOOR(r * 12) WHEN 0 THEN CAST(FLOOR(r * 1000) AS JSON) WHEN 1 THEN CAST(1.0 AS JSON) WHEN 2 THEN CAST(r * 1e-10 AS JSON)
    WHEN 3 THEN JSON_ARRAY() WHEN 4 THEN JSON_OBJECT('zz', 1, 'a', JSON_ARRAY(2.0, 'x"y')) WHEN 5 THEN JSON_QUOTE('é\t"\\/😀\u0001')
    WHEN 6 THEN CAST(CAST('2024-02-29 10:00:00.5' AS DATETIME(6)) AS JSON) WHEN 7 THEN CAST(CAST('-1.230' AS DECIMAL(10,3)) AS JSON)
    WHEN 8 THEN CAST('null' AS JSON) WHEN 9 THEN CAST(-9223372036854775808 AS JSON) WHEN 10 THEN CAST('1e308' AS JSON) ELSE CAST(CAST('bytes' AS BINARY) AS JSON) END;
END //
CREATE PROCEDURE change_one(key_text VARCHAR(40), r DOUBLE)
BEGIN
  DECLARE v, w JSON;
  SET v = some_value(r * 97 - FLOOR(r * 97)), w = some_value(r * 89 - FLOOR(r * 89));
  CASE FLOOR(r * 14)
    WHEN 0 THEN SET @f = 'JSON_SET(#, "$.a", CAST(? AS JSON), "$.list[1]", CAST(? AS JSON))';
    WHEN 1 THEN SET @f = 'JSON_SET(#, "$.ab", CAST(? AS JSON), @path, CAST(? AS JSON))', @path = '$.""';
    WHEN 2 THEN SET @f = 'JSON_REPLACE(#, "$.b[1]", CAST(? AS JSON), "$.b[5].x", CAST(? AS JSON))';
    WHEN 3 THEN SET @f = 'JSON_REMOVE(JSON_SET(#, "$.ab", CAST(? AS JSON), "$.list[9]", CAST(? AS JSON)), "$.list[0]")';
    WHEN 4 THEN SET @f = 'JSON_SET(#, @path, CAST(? AS JSON), @other, CAST(? AS JSON))', @other = '$."ключ"', @path = CONCAT('$.', JSON_QUOTE('"q"\n'), '.d');
    WHEN 5 THEN SET @f = 'JSON_REMOVE(JSON_SET(#, "$.x", CAST(? AS JSON), "$.deep.y", CAST(? AS JSON)), "$.x", "$.ab")';
    WHEN 6 THEN SET @f = 'JSON_SET(#, "$.deep.deep.deep[0].deep[0]", CAST(? AS JSON), "$.deep.deep.deep[0].deep[1]", CAST(? AS JSON))';
    WHEN 7 THEN SET @f = 'JSON_SET(#, "$.a.zz", CAST(? AS JSON), "$.a[0]", CAST(? AS JSON))';
    WHEN 8 THEN SET @f = 'JSON_SET(#, @path, CAST(? AS JSON), "$.big", CAST(? AS JSON))', @path = CONCAT('$.', JSON_QUOTE('é\t'));
    WHEN 9 THEN SET @f = 'JSON_SET(JSON_REMOVE(#, "$.nothing", "$.list[last]"), "$.list[0]", CAST(? AS JSON), "$.deep.z", CAST(? AS JSON))';
    WHEN 10 THEN SET @f = 'JSON_MERGE_PATCH(#, JSON_OBJECT("a", CAST(? AS JSON), "c", CAST(? AS JSON)))';
    WHEN 11 THEN SET @f = 'IF(JSON_VALID(?) AND JSON_VALID(?), document(7), #)';
    WHEN 12 THEN SET @f = 'IF(JSON_VALID(?) AND JSON_VALID(?), NULL, #)';
    ELSE SET @f = 'COALESCE(JSON_SET(#, "$.a", CAST(? AS JSON)), document(1), ?)';
  END CASE;
  SET @v = v, @w = w, @k = key_text;
  SET @s = CONCAT('UPDATE ', @t, ' SET n = n + 1, j = ', REPLACE(@f, '#', 'j'), ', k = ', REPLACE(@f, '#', 'k'), ', l = ', REPLACE(@f, '#', 'l'), ' WHERE id = ?');
  PREPARE s FROM @s;
  EXECUTE s USING @v, @w, @v, @w, @v, @w, @k;
END //
-- names: of a table with text keys; moves: keys change, too.
CREATE PROCEDURE churn(rounds INT, names BOOL, moves BOOL)
BEGIN
  DECLARE i, r INT DEFAULT 0;
  WHILE i < rounds DO
    SET r = 1 + FLOOR(RAND() * @rows);
    START TRANSACTION;
    CALL change_one(IF(names, CONCAT('É name ', r), r), RAND());
    CALL change_one(IF(names, CONCAT('É name ', r), r), RAND());
    IF i % 9 = 0 THEN
      SET @d = IF(names, CONCAT('É name ', r), r);
      SET @s = CONCAT('DELETE FROM ', @t, ' WHERE id = ?'); PREPARE s FROM @s; EXECUTE s USING @d;
      IF i % 2 = 0 THEN
        SET @s = CONCAT('INSERT INTO ', @t, ' (id, j, n) VALUES (?, document(', r, '), 0)'); PREPARE s FROM @s; EXECUTE s USING @d;
        SET @s = CONCAT('UPDATE ', @t, ' SET k = j, l = j WHERE id = ?'); PREPARE s FROM @s; EXECUTE s USING @d;
        CALL change_one(@d, RAND());
      END IF;
    END IF;
    IF moves AND i % 7 = 0 THEN
      SET @d = IF(names, CONCAT('É name ', r), r), @e = IF(names, CONCAT('name ', r + 1000), r + 1000);
      SET @s = CONCAT('UPDATE IGNORE ', @t, ' SET id = ?, j = JSON_SET(j, "$.moved", ?), k = JSON_SET(k, "$.moved", ?), l = JSON_SET(l, "$.moved", ?) WHERE id = ?');
      PREPARE s FROM @s; EXECUTE s USING @e, @d, @d, @d, @d;
    END IF;
    IF i % 5 = 0 THEN SAVEPOINT a; CALL change_one(IF(names, CONCAT('É name ', r), r), RAND()); ROLLBACK TO a; END IF;
    COMMIT;
    SET i = i + 1;
  END WHILE;
END //
DELIMITER ;
INSERT INTO docs WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 600) SELECT n, document(n), document(n), document(n), n, REPEAT('x', 9000) FROM s;
INSERT INTO named SELECT CONCAT(IF(id % 2 = 0, 'É', 'e'), ' Name ', id), j, k, l, n FROM docs;
INSERT INTO parts SELECT id, j, k, l, n, NULL FROM docs WHERE id <= 20;
INSERT INTO gen (a, j) VALUES (1, document(1)), (2, document(2)), (3, NULL);
INSERT INTO gipk VALUES (document(1), 1), (document(2), 2);
INSERT INTO uniq VALUES ('a', 1, document(1)), ('b', 2, document(2));
INSERT INTO keyless VALUES (1, document(1), REPEAT('b', 300)), (1, document(1), REPEAT('b', 300)), (2, document(2), NULL);
INSERT INTO nul VALUES (1, JSON_OBJECT('a', 'x\0y', 'b', REPEAT('p\0', 200), 'c', '\\u0000')), (2, JSON_ARRAY());
SQL
$my->grant;

$pg->safe_psql(<<'SQL');
CREATE EXTENSION capstan;
CREATE SCHEMA p;
CREATE TABLE p.docs (id int PRIMARY KEY, j jsonb, k json, l text, n int, filler bytea);
CREATE TABLE p.named (id varchar(40) COLLATE "C" PRIMARY KEY, j jsonb, k json, l text, n int);
CREATE DOMAIN p.document AS jsonb CHECK (jsonb_typeof(VALUE) <> 'string');
CREATE TABLE p.parts (l text, k json, n int, id int PRIMARY KEY, filler bytea, j p.document) PARTITION BY RANGE (id);
CREATE TABLE p.parts_low PARTITION OF p.parts FOR VALUES FROM (MINVALUE) TO (10);
CREATE TABLE p.parts_high PARTITION OF p.parts FOR VALUES FROM (10) TO (MAXVALUE);
SQL
$pg->create_server('source', $my);

# Documents as MySQL prints them, byte by byte; jsonb as it is made of that text.
sub documents_equal
{
	my ($table, $name) = @_;
	my $theirs = $my->sql("SELECT HEX(CAST(id AS CHAR)), COALESCE(HEX(CAST(k AS CHAR)), 'NULL'), COALESCE(HEX(CAST(l AS CHAR)), 'NULL'), n FROM p.$table");
	my $ours = $pg->safe_psql("SELECT " . join(" || E'\\t' || ", map { "coalesce(upper(encode(convert_to($_\::text, 'UTF8'), 'hex')), 'NULL')" } qw(id k l)) . " || E'\\t' || n FROM p.$table");
	$_ = join "\n", sort split /\n/, $_ for $theirs, $ours;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($ours eq $theirs && $ours ne '', "$name: json and text of $table are MySQL's text") or diag(first_difference($ours, $theirs));
	is($pg->value("SELECT count(*) FROM p.$table WHERE j IS DISTINCT FROM l::jsonb OR j::text <> (l::jsonb)::text
	  OR pg_column_size(j || '{}') <> pg_column_size(l::jsonb || '{}')"), 0, "$name: jsonb of $table is made of it");
	ok($pg->value("SELECT count(DISTINCT l) FROM p.$table") > 1, "$name: $table has several documents");
}

sub first_difference
{
	my ($ours, $theirs) = map { [ split /\n/, $_ ] } @_;
	for my $i (0 .. $#$theirs)
	{
		next if ($ours->[$i] // '') eq $theirs->[$i];
		return join "\n", map { join "\t", map { /^(?:[0-9A-F]{2})+$/ ? pack('H*', $_) : $_ } split /\t/, $_ // 'none' } $ours->[$i], $theirs->[$i];
	}
	return scalar(@$ours) . ' and ' . scalar(@$theirs) . ' rows';
}

my @all = map { "p.$_" } qw(docs named parts gen gipk uniq keyless);
$pg->safe_psql("SELECT capstan.create_pipeline('p', server => 'source', tables => '{" . join(',', @all) . "}')");
my @writers = map {
	my ($table, $image, $names) = @$_;
	$my->background("USE p; SET binlog_row_image = $image; SET \@t = '$table', \@rows = 600; CALL churn(250, $names, @{[ $image eq 'FULL' ? 1 : 0 ]})")
} [ 'docs', 'MINIMAL', 0 ], [ 'docs', 'NOBLOB', 0 ], [ 'docs', 'FULL', 0 ], [ 'named', 'MINIMAL', 1 ], [ 'named', 'FULL', 1 ];
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
is($rc, 0, 'snapshot under changes') or diag($err);
is($_->wait, 0, 'writer') or diag($_->errors) for @writers;
sync_pipeline($pg, 'p');
tables_equal($my, $pg, [qw(p.gen p.gipk p.uniq p.keyless)], 'after the snapshot');
documents_equal($_, 'after the snapshot') for qw(docs named parts);

# Everything streamed, keys that change with the document included.
for my $image (qw(MINIMAL NOBLOB FULL))
{
	my $compressed = $image eq 'NOBLOB' ? 'ON' : 'OFF';

	$my->sql("USE p; SET binlog_row_image = $image, SESSION binlog_transaction_compression = $compressed; SET \@t = 'docs', \@rows = 600; CALL churn(60, 0, 1);
	  SET \@t = 'named'; CALL churn(60, 1, 1); SET \@t = 'parts', \@rows = 20; CALL churn(60, 0, 1);" . <<'SQL');
DELETE FROM parts WHERE id < 1000;
UPDATE parts SET j = document(1), k = document(1), l = document(1), n = 0, id = id % 1000;
UPDATE parts SET id = id - 500, j = JSON_SET(j, '$.a', id), k = JSON_SET(k, '$.a', id), l = JSON_SET(l, '$.a', id) WHERE id > 12;
UPDATE parts SET id = id + 500, j = JSON_SET(j, '$.a', id), k = JSON_SET(k, '$.a', id), l = JSON_SET(l, '$.a', id) WHERE id < 0;
INSERT IGNORE INTO parts SELECT id, document(id), document(id), document(id), 0, NULL FROM docs WHERE id <= 20;
UPDATE gen SET j = JSON_SET(j, '$.a', JSON_ARRAY(1.0), '$.new', 1) WHERE id = 2;
UPDATE gen SET j = JSON_REMOVE(j, '$.b[0]'), hidden = hidden + 1, e = JSON_SET(e, '$.made', 2) WHERE id = 4;
UPDATE gen SET a = a + 10, j = JSON_SET(j, '$.list[0]', 'moved');
UPDATE gen SET a = a - 10;
INSERT INTO gen (a) VALUES (50);
INSERT INTO gen (a, j, hidden) VALUES (51, document(51), NULL);
UPDATE gen SET j = document(50) WHERE a = 50;
UPDATE gen SET j = JSON_SET(j, '$.a', 'x') WHERE a = 50;
DELETE FROM gen WHERE a = 51;
DELETE FROM gen WHERE a = 50;
INSERT INTO gipk (j) VALUES (document(3));
UPDATE gipk SET j = JSON_SET(j, '$.a', n, '$.b[last]', 'end');
UPDATE gipk SET n = 9, j = JSON_REMOVE(j, '$.list[0]') WHERE n = 3;
DELETE FROM gipk WHERE n = 9;
INSERT INTO uniq VALUES ('c', 3, document(3)) ON DUPLICATE KEY UPDATE j = JSON_SET(j, '$.again', TRUE);
INSERT INTO uniq VALUES ('c', 3, document(3)) ON DUPLICATE KEY UPDATE j = JSON_SET(j, '$.again', TRUE);
UPDATE uniq SET b = b + 10, j = JSON_SET(j, '$.a', NULL);
UPDATE uniq SET b = b - 10;
REPLACE INTO uniq VALUES ('a', 1, document(9));
UPDATE keyless SET j = JSON_SET(j, '$.a', CONCAT(j->'$.a', '+')) WHERE a = 1 LIMIT 1;
UPDATE keyless SET a = a + 1, j = JSON_REMOVE(j, '$.list[last]') WHERE b IS NULL;
UPDATE uniq, gipk SET uniq.j = JSON_SET(uniq.j, '$.both', 1), gipk.j = JSON_SET(gipk.j, '$.both', 2) WHERE uniq.b = gipk.n;
SQL
	sync_pipeline($pg, 'p');
	tables_equal($my, $pg, [qw(p.gen p.gipk p.uniq p.keyless)], $image);
	documents_equal($_, $image) for qw(docs named parts);
}
no_surprise($pg, 'p');

# A target that somebody else has changed: nothing is guessed, and it goes on once that is put right.
my $break = 'SET binlog_row_image = MINIMAL; UPDATE p.docs SET j = JSON_SET(j, "$.deep.deep.w", 1.0), k = JSON_SET(k, "$.deep.deep.w", 1.0), l = JSON_SET(l, "$.deep.deep.w", 1.0) WHERE id = 1';
$my->sql("DELETE FROM p.docs WHERE id = 1; INSERT INTO p.docs (id, j, k, l, n) SELECT 1, d, d, d, 0 FROM (SELECT p.document(1) d) t");
sync_pipeline($pg, 'p');
$pg->safe_psql('CREATE TABLE aside AS SELECT * FROM p.docs WHERE id = 1');
for my $case ([ 'the row is missing', 'DELETE FROM p.docs WHERE id = 1', qr/does not have the row/ ],
	[ 'the document is missing', 'UPDATE p.docs SET k = NULL WHERE id = 1', qr/Column k: .*has none/ ],
	[ 'a document of another shape', q(UPDATE p.docs SET j = jsonb_set(j, '{deep}', '[]') WHERE id = 1), qr/Column j: .*do not fit/ ],
	[ 'a text that is no document', q(UPDATE p.docs SET l = '{"deep": {"deep"' WHERE id = 1), qr/Column l: .*do not fit/ ])
{
	my ($name, $damage, $says) = @$case;

	$pg->safe_psql($damage);
	$my->sql($break);
	expect_halt($pg, 'p', 'partial_row_image', $says, qr/binlog_row_image = FULL/, qr/p\.docs/);
	$pg->safe_psql('DELETE FROM p.docs WHERE id = 1; INSERT INTO p.docs SELECT * FROM aside');
	$pg->safe_psql("SELECT capstan.start_pipeline('p')");
	sync_pipeline($pg, 'p');
	is($pg->value(q(SELECT bool_and(j @> '{"deep": {"deep": {"w": 1.0}}}' AND j = k::jsonb AND j = l::jsonb) FROM p.docs WHERE id = 1)), 't', "$name, and put right");
	$my->sql('SET binlog_row_image = FULL; UPDATE p.docs SET j = JSON_REMOVE(j, "$.deep.deep.w"), k = j, l = j WHERE id = 1');
	sync_pipeline($pg, 'p');
}
tables_equal($my, $pg, \@all, 'in the end');
documents_equal('docs', 'in the end');
drop_pipeline($pg, 'p');

# U+0000 in jsonb: what was stripped or replaced before stays so, what comes is treated likewise, and the same
# document as a whole gives the same.
for my $policy (qw(strip replace))
{
	start_pipeline($pg, 'nul', ['p.nul'], nul_bytes => "'$policy'", truncate_target => $policy eq 'replace' ? 'true' : 'false');
	$my->sql(q{USE p; SET binlog_row_image = MINIMAL; UPDATE nul SET j = JSON_SET(j, '$.n', 'one\0two', '$.a', '\0') WHERE id = 1; UPDATE nul SET j = JSON_REMOVE(j, '$.c') WHERE id = 1;
	  SET binlog_row_value_options = ''; UPDATE nul SET j = (SELECT j FROM (SELECT j FROM nul WHERE id = 1) t) WHERE id = 2});
	sync_pipeline($pg, 'nul');
	is($pg->value('SELECT (SELECT j::text FROM p.nul WHERE id = 1) = (SELECT j::text FROM p.nul WHERE id = 2)'), 't', "$policy: difference or document, the same");
	is($pg->value("SELECT j->>'n' FROM p.nul WHERE id = 1"), $policy eq 'strip' ? 'onetwo' : "one\x{fffd}two", "$policy: it acted");
	drop_pipeline($pg, 'nul');
}

done_testing();
