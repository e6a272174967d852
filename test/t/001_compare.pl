# The comparison of source and target that all other tests rest on: it finds equal what
# is equal and different what is not.
#
# Why: a comparison that cannot fail proves nothing.
# How: a table with every everyday type and its extremes is written to MySQL, and the
# same values to Postgres as independent literals, without capstan. Then one value after
# the other is changed on the target.
# A writer that is behind with what it was given is stopped.
# Asserted: equal at first, different after each change, and the difference names it. A writer that was stopped has
# stopped on the server, too.
# Not asserted: anything about capstan.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { shared_preload_libraries => "''" });

$my->sql(<<'SQL');
CREATE DATABASE c;
USE c;
SET sql_mode = '', time_zone = '+00:00';
CREATE TABLE t (
  id BIGINT UNSIGNED PRIMARY KEY, ti TINYINT, tu TINYINT UNSIGNED ZEROFILL, de DECIMAL(65,30), ye YEAR,
  fl FLOAT, db DOUBLE, b1 BIT(1), b17 BIT(17), b64 BIT(64),
  da DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, tm TIME(6),
  tx TEXT, la VARCHAR(50) CHARACTER SET latin1, ch CHAR(10), en ENUM('a','ü'), se SET('x','y','z'),
  bi BINARY(4), bl BLOB, js JSON);
INSERT INTO t VALUES
  (1, -128, 7, -99999999999999999999999999999999999.999999999999999999999999999999, 1901,
   16777216, 0.1, b'1', b'00000000100000010', 18446744073709551615,
   '0001-01-01', '9999-12-31 23:59:59.999999', '2024-01-01 00:00:00.250', '-838:59:59',
   CONCAT('tab\tnewline\nreturn\rquote"back\\slash', CHAR(1 USING utf8mb4), CHAR(127 USING utf8mb4), ' / € 😀 é NULL'),
   '€ œ “é”', 'pad  ', 'ü', 'x,z', x'0102', x'00FF0A5C', '{"b": 1.0, "aa": [1e20, 1.5e-7, -0.0], "s": "1e5 \\n é", "": null}'),
  (18446744073709551615, 127, 255, 0.5, 0,
   3.402823466e38, 1.7976931348623157e308, b'0', b'0', 1,
   '0000-00-00', '2015-00-21 00:00:00', NULL, '838:59:58.999999',
   '', 'NULL', '', '', '', x'', x'', '[]'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 0, 0, 0, 2155, 1.17549435e-38, 2.2250738585072014e-308, 0, 0, 0, '1969-12-31', '1950-01-01 01:00:00.999999',
   '1970-01-01 00:00:01', '24:00:00', 'NULL', '', 'x', 'a', 'y', x'00000000', NULL, '12345678901234567890'),
  (5, 0, 0, 0, 2155, -0e0, 5e-324, 0, 0, 0, NULL, NULL, NULL, '-00:00:00.5', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"x"'),
  (6, 0, 0, 0, 2155, 1234567, 123456789012345680000, 0, 0, 0, NULL, NULL, NULL, '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'false');
CREATE TABLE s (k VARCHAR(20), n INT, PRIMARY KEY (k, n));
INSERT INTO s VALUES ('b', 1), ('B2', 1), ('ä', 2), ('Z', 1), ('a', 1), ('😀', 1), ('ﬀ', 1);
CREATE TABLE nokey (a INT, b VARCHAR(5));
INSERT INTO nokey VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
SQL

$pg->safe_psql(<<'SQL');
CREATE SCHEMA c;
CREATE DOMAIN c.name AS text;
CREATE TABLE c.t (
  id numeric(20,0) PRIMARY KEY, ti smallint, tu smallint, de numeric(65,30), ye smallint,
  fl real, db double precision, b1 bit(1), b17 bit(17), b64 bit(64),
  da date, dt timestamp(6), ts timestamptz(3), tm interval(6),
  tx text, la varchar(50), ch c.name, en text, se text, bi bytea, bl bytea, js jsonb);
SET timezone = 'UTC';
INSERT INTO c.t VALUES
  (1, -128, 7, -99999999999999999999999999999999999.999999999999999999999999999999, 1901,
   16777216, 0.1, b'1', b'00000000100000010', (-1::bigint)::bit(64),
   '0001-01-01', '9999-12-31 23:59:59.999999', '2024-01-01 00:00:00.250', '-838:59:59',
   E'tab\tnewline\nreturn\rquote"back\\slash\x01\x7f / € 😀 é NULL',
   '€ œ “é”', 'pad', 'ü', 'x,z', '\x01020000', '\x00FF0A5C', '{"b": 1.0, "aa": [1e20, 1.5e-7, 0.0], "s": "1e5 \n é", "": null}'),
  (18446744073709551615, 127, 255, 0.5, 0,
   3.402823466e38, 1.7976931348623157e308, b'0', 0::bit(17), 1::bit(64),
   NULL, NULL, NULL, '838:59:58.999999', '', 'NULL', '', '', '', '\x00000000', '', '[]'),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, 0, 0, 0, 2155, 1.17549435e-38, 2.2250738585072014e-308, b'0', 0::bit(17), 0::bit(64), '1969-12-31', '1950-01-01 01:00:00.999999',
   '1970-01-01 00:00:01', '24:00:00', 'NULL', '', 'x', 'a', 'y', '\x00000000', NULL, '12345678901234567890'),
  (5, 0, 0, 0, 2155, '-0', 5e-324, b'0', 0::bit(17), 0::bit(64), NULL, NULL, NULL, '-00:00:00.5', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"x"'),
  (6, 0, 0, 0, 2155, 1234567, 123456789012345680000, b'0', 0::bit(17), 0::bit(64), NULL, NULL, NULL, '0', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'false');
CREATE TABLE c.s (k text COLLATE "C", n int, PRIMARY KEY (k, n));
INSERT INTO c.s VALUES ('b', 1), ('B2', 1), ('ä', 2), ('Z', 1), ('a', 1), ('😀', 1), ('ﬀ', 1);
CREATE TABLE c.nokey (a int, b varchar(5));
INSERT INTO c.nokey VALUES (1, 'x'), (NULL, NULL), (1, 'x');
SQL

tables_equal($my, $pg, ['c.*'], 'every everyday type');

sub compare
{
	my (@tables) = @_;
	return CapstanTest::Compare::compare(
		mysql => $my->client_words, psql => [ $pg->psql_words ], tables => \@tables);
}

# Each change is a single one, made and taken back.
for my $change (
	[ 'id', '1', '2' ], [ 'ti', '4', '1' ], [ 'tu', '1', '6' ],
	[ 'de', '1', '-99999999999999999999999999999999999.999999999999999999999999999998' ],
	[ 'ye', '4', '2154' ], [ 'fl', '1', '16777217.0::float8::real + 2' ], [ 'fl', '5', '0' ],
	[ 'fl', '6', '1234567.1' ],
	[ 'db', '1', '0.10000000000000002' ], [ 'db', '5', '0' ], [ 'db', '6', '123456789012345660000' ],
	[ 'b1', '1', q(b'0') ],
	[ 'b17', '1', q(b'00000001000000100') ], [ 'b64', '1', '(-2::bigint)::bit(64)' ],
	[ 'da', '4', q('1970-01-01') ], [ 'da', '4', q('infinity') ], [ 'dt', '1', q('9999-12-31 23:59:59.999998') ],
	[ 'ts', '1', q('2024-01-01 00:00:00.251') ], [ 'ts', '1', q('2024-01-01 00:00:00.250+02') ],
	[ 'tm', '1', q('838:59:59') ], [ 'tm', '4', q('1 day') ], [ 'tm', '5', q('00:00:00.5') ],
	[ 'tx', '1', q(replace(tx, E'\x01', '')) ], [ 'tx', '1', q(replace(tx, E'\r', '')) ],
	[ 'tx', '1', q(tx || ' ') ], [ 'tx', '3', q('NULL') ], [ 'tx', '4', 'NULL' ],
	[ 'tx', '1', q(replace(tx, '😀', '😁')) ],
	[ 'la', '1', q(replace(la, '€', chr(128))) ], [ 'ch', '1', q('pad ') ], [ 'en', '1', q('u') ], [ 'se', '1', q('z,x') ],
	[ 'bi', '1', q('\x0102') ], [ 'bl', '1', q('\x00FF0A5D') ], [ 'bl', '3', q('') ],
	[ 'js', '1', q(jsonb_set(js, '{b}', '1')) ], [ 'js', '1', q(jsonb_set(js, '{aa,1}', '1.6e-7')) ],
	[ 'js', '3', q('null') ], [ 'js', '5', q('"y"') ])
{
	my ($column, $id, $value) = @$change;
	my $where = "WHERE id = $id";

	$pg->safe_psql("CREATE TABLE c.saved AS SELECT * FROM c.t $where; UPDATE c.t SET $column = $value $where");
	my ($result) = @{ compare('c.t') };
	ok(!$result->{equal}, "$column of row $id set to $value is found");
	$pg->safe_psql(($column eq 'id' ? "DELETE FROM c.t WHERE id = $value;" : "DELETE FROM c.t $where;")
		. 'INSERT INTO c.t SELECT * FROM c.saved; DROP TABLE c.saved');
}
tables_equal($my, $pg, ['c.t'], 'all changes taken back');

for my $change (
	[ 'c.s', "UPDATE c.s SET k = 'Ä' WHERE k = 'ä'", 'source: "ä"' ],
	[ 'c.s', "DELETE FROM c.s WHERE k = 'Z'", '1 rows only in the source' ],
	[ 'c.s', "INSERT INTO c.s VALUES ('zz', 1)", '1 only in the target' ],
	[ 'c.nokey', "INSERT INTO c.nokey VALUES (1, 'x')", '1 only in the target' ],
	[ 'c.nokey', "ALTER TABLE c.nokey RENAME b TO c", 'no column b' ],
	[ 'c.nokey', "ALTER TABLE c.nokey ADD d int", 'more columns in Postgres: d' ])
{
	my ($table, $sql, $says) = @$change;

	$pg->safe_psql('DROP TABLE IF EXISTS c.saved_s, c.saved_nokey;'
		. 'CREATE TABLE c.saved_s AS TABLE c.s; CREATE TABLE c.saved_nokey AS TABLE c.nokey;' . $sql);
	my ($result) = @{ compare($table) };
	ok(!$result->{equal}, "$sql is found");
	like($result->{difference}, qr/\Q$says\E/, 'and named');
	$pg->safe_psql('DROP TABLE c.s, c.nokey; ALTER TABLE c.saved_s RENAME TO s; ALTER TABLE c.saved_nokey RENAME TO nokey');
}
tables_equal($my, $pg, ['c.*'], 'all changes taken back');

# What looks like a number in a string is none, in a long one either.
$my->sql("CREATE TABLE c.texts (id INT PRIMARY KEY, j JSON); INSERT INTO c.texts VALUES (1, JSON_ARRAY(1e20, CONCAT(REPEAT('x', 70000), ' 1e2')))");
$pg->safe_psql("CREATE TABLE c.texts (id int PRIMARY KEY, j jsonb); INSERT INTO c.texts VALUES (1, jsonb_build_array(1e20, repeat('x', 70000) || ' 1e2'))");
tables_equal($my, $pg, ['c.texts'], 'a long string in JSON');
$pg->safe_psql("UPDATE c.texts SET j = replace(j::text, ' 1e2', ' 100')::jsonb");
ok(!compare('c.texts')->[0]{equal}, 'a number in a long string is found');

ok(!eval { compare('c.missing'); 1 }, 'a missing source table is an error');
$my->sql('CREATE TABLE c.more (id INT PRIMARY KEY)');
ok(!eval { compare('c.more'); 1 }, 'a missing target table is an error');

# Nor does a comparison prove anything while somebody still writes.
$my->sql('CREATE TABLE c.written (n INT PRIMARY KEY)');
my $writer = $my->writer(sub { my ($n) = @_; sleep(0.02); "DO SLEEP(0.2); INSERT INTO c.written VALUES ($n)" });
sub written { return $my->value('SELECT COUNT(*) FROM c.written') }
ok((poll_until { written() > 3 }), 'a writer writes');
$writer->stop;
my $at_stop = written();
sleep(1);
is(written(), $at_stop, 'and nothing any more when it was stopped');

done_testing();
