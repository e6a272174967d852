# Text and bytes have one value, by the copy and by the stream; NUL follows the policy; names
# keep their case and their oddities.
#
# Why: latin1 is cp1252, utf8mb3 has aliases, BINARY(n) is trimmed in the log, text was cut at
# a NUL, 4-byte characters were lost, quoting was forgotten.
# How: a table with a column for each character set, the same values by both ways; a table
# of blobs with all bytes in them; NUL under each policy; a table whose names need quotes.
# Asserted: exact text, types, equality byte by byte, counters and warnings of the policy, halts.
# Not asserted: collations on the target.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

my $all_latin1 = join '', map { chr } 0x20 .. 0x7e, 0xa0 .. 0xff;
(my $latin1_literal = $all_latin1) =~ s/(['\\])/\\$1/g;
my $every_byte = join '', map { sprintf '%02x', $_ } 0 .. 255;
my @tables = (
	CapstanTest::BothWays->new($my, $pg, 'v.text', [
		[ 't', 'TEXT', 'text', [ "'😀'", [ "CONCAT('e', _utf8mb4 x'CC81')", "e\x{301}" ], "'é'", "''", [ "'tab\\tline\\nreturn\\rquote\"back\\\\'", "tab\tline\nreturn\rquote\"back\\" ],
				[ "CONCAT('ctl', CHAR(1 USING utf8mb4), CHAR(127 USING utf8mb4))", "ctl\x01\x7f" ], [ "REPEAT('ä€😀', 5000)", 'ä€😀' x 5000 ], "'NULL'", [ "'\\\\N'", '\N' ] ] ],
		[ 'v', 'VARCHAR(20)', 'character varying(20)', [ "'😀'", "'trailing  '", "'  leading'", "'x'", [ "REPEAT('😀', 20)", '😀' x 20 ], "''" ] ],
		[ 'c', 'CHAR(10)', 'character varying(10)', [ [ "'pad   '", 'pad' ], "'  lead'", [ "REPEAT('😀', 10)", '😀' x 10 ], "''" ] ],
		[ 'c255', 'CHAR(255)', 'character varying(255)', [ [ "REPEAT('😀', 255)", '😀' x 255 ], "'a'", "''" ] ],
		[ 'v8000', 'VARCHAR(3000)', 'character varying(3000)', [ [ "REPEAT('ü', 3000)", 'ü' x 3000 ], "'a'" ] ],
		[ 'tt', 'TINYTEXT', 'text', [ [ "REPEAT('ü', 127)", 'ü' x 127 ], "''" ] ],
		[ 'mt', 'MEDIUMTEXT', 'text', [ [ "REPEAT('x', 100000)", 'x' x 100000 ], "'a'" ] ],
		[ 'lt', 'LONGTEXT', 'text', [ "'a'", [ "REPEAT('€', 70000)", '€' x 70000 ] ] ],
		[ 'm3', 'VARCHAR(10) CHARACTER SET utf8mb3', 'character varying(10)', [ "'é'", "'€'", "'ｆ'" ] ],
		[ 'bin', 'VARCHAR(10) COLLATE utf8mb4_bin', 'character varying(10)', [ "'é'", "'É'" ] ],
		[ 'nn', 'VARCHAR(5) NOT NULL', 'character varying(5)', [ "''", "'ÄÖÜäö'" ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.latin1', [
		[ 't', 'TEXT', 'text', [ "'€ œ “quote” é'", [ "'$latin1_literal'", $all_latin1 ], [ "'‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ'", '‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ' ],
				[ "_latin1 x'818d8f909d'", "\x{81}\x{8d}\x{8f}\x{90}\x{9d}" ] ] ],
		[ 'v', 'VARCHAR(300)', 'character varying(300)', [ [ "REPEAT('é', 300)", 'é' x 300 ], "'a'" ] ],
		[ 'c', 'CHAR(3)', 'character varying(3)', [ "'é€'", "'a'" ] ],
		[ 'e', "ENUM('é','€')", 'text', [ "'é'", "'€'" ] ] ], table => 'CHARSET latin1'),
	CapstanTest::BothWays->new($my, $pg, 'v.ascii', [
		[ 'a', 'VARCHAR(50)', 'character varying(50)', [ "'plain'", "''" ] ],
		[ 's', "SET('x','y')", 'text', [ [ "'y,x'", 'x,y' ] ] ],
		[ 'e', "ENUM('a','b') CHARACTER SET binary", 'text', [ "'b'" ] ] ], table => 'CHARSET ascii'),
	CapstanTest::BothWays->new($my, $pg, 'v.bytes', [
		[ 'b8', 'BINARY(8)', 'bytea', [ [ "x'0102000000000000'", '\x0102000000000000' ], [ "x'01'", '\x0100000000000000' ], [ "''", '\x0000000000000000' ], [ "x'ffffffffffffff20'", '\xffffffffffffff20' ] ] ],
		[ 'b255', 'BINARY(255)', 'bytea', [ [ "x'ff'", '\xff' . '00' x 254 ], [ "''", '\x' . '00' x 255 ] ] ],
		[ 'vb', 'VARBINARY(300)', 'bytea', [ [ "x'$every_byte'", "\\x$every_byte" ], [ "x'0000'", '\x0000' ], [ "''", '\x' ], [ "x'2020'", '\x2020' ] ] ],
		[ 'bl', 'BLOB', 'bytea', [ [ "x'$every_byte'", "\\x$every_byte" ], [ "REPEAT(x'$every_byte', 255)", '\x' . $every_byte x 255 ], [ "''", '\x' ] ] ],
		[ 'tb', 'TINYBLOB', 'bytea', [ [ "x'00'", '\x00' ], [ "''", '\x' ] ] ],
		[ 'mb', 'MEDIUMBLOB', 'bytea', [ [ "REPEAT(x'$every_byte', 1000)", '\x' . $every_byte x 1000 ] ] ],
		[ 'lb', 'LONGBLOB', 'bytea', [ [ "REPEAT(x'5c27220a0d00', 20000)", '\x' . '5c27220a0d00' x 20000 ] ] ],
		[ 'bn', 'BINARY(4) NOT NULL', 'bytea', [ [ "x'00'", '\x00000000' ], [ "x'00000001'", '\x00000001' ] ] ],
		[ 'cb', 'CHAR(4) CHARACTER SET binary', 'bytea', [ [ "'ab'", '\x61620000' ] ] ] ]));

$_->fill for @tables;
$my->sql(<<'SQL');
USE v;
CREATE TABLE b01 (k BINARY(8) PRIMARY KEY, v INT);
INSERT INTO b01 VALUES (x'0102000000000000', 1), (x'0102000000000001', 1), (x'00', 1);
CREATE TABLE n (n INT PRIMARY KEY);
INSERT INTO n WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
CREATE TABLE blobs (id INT PRIMARY KEY, b MEDIUMBLOB);
CREATE PROCEDURE blobs(base INT)
  INSERT INTO blobs SELECT base + n, LEFT(REPEAT(CONCAT(UNHEX(SHA2(n, 256)), UNHEX(SHA2(n, 512)), UNHEX(LPAD(HEX(n % 256), 2, '0'))), 850), FLOOR(65536 * n * n / 1000000)) FROM n;
CALL blobs(0);
CREATE DATABASE odd;
USE odd;
CREATE TABLE `order` (`select` INT PRIMARY KEY, `YES` INT, `sequence` INT, `a.b` INT, `with space` INT, `tick``x` INT, `Größe` INT, `end\` INT, `quo"te` INT, `$1` INT, `it's` INT);
INSERT INTO `order` VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
CREATE TABLE `Größe 'n "x` (id INT PRIMARY KEY, `ID2` INT);
INSERT INTO `Größe 'n "x` VALUES (1, 1);
CREATE TABLE `UPPER` (`Id` INT PRIMARY KEY);
INSERT INTO `UPPER` VALUES (1);
CREATE TABLE `upper` (`id` INT PRIMARY KEY);
INSERT INTO `upper` VALUES (2);
SQL

start_pipeline($pg, 'text', [ (map { $_->name } @tables), qw(v.b01 v.blobs odd.*) ]);
$_->stream for @tables;
$my->sql(<<'SQL');
USE v;
UPDATE b01 SET v = 2;
DELETE FROM b01 WHERE k = x'0000000000000000';
CALL blobs(2000);
UPDATE blobs SET b = CONCAT(b, x'00') WHERE id < 300;
USE odd;
INSERT INTO `order` VALUES (2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), (3, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
UPDATE `order` SET `a.b` = 44, `tick``x` = 66, `end\` = 88 WHERE `select` = 1;
DELETE FROM `order` WHERE `select` = 3;
INSERT INTO `Größe 'n "x` VALUES (2, 2);
UPDATE `Größe 'n "x` SET `ID2` = 5 WHERE id = 1;
INSERT INTO `UPPER` VALUES (3);
INSERT INTO `upper` VALUES (4);
SQL
if (sync_pipeline($pg, 'text'))
{
	$_->check for @tables;
}
my $bytes_of_name = "odd.Größe 'n \"x";
utf8::encode($bytes_of_name);
tables_equal($my, $pg, [ (map { $_->name } @tables), qw(v.b01 v.blobs odd.order odd.UPPER odd.upper), $bytes_of_name ], 'all of them');
is($pg->value(q{SELECT string_agg(encode(k, 'hex') || ':' || v, ' ' ORDER BY k) FROM v.b01}), '0102000000000000:2 0102000000000001:2', 'BINARY key: the padded row is hit');
is_deeply([ json_rows($pg, 'SELECT row_to_json(o) FROM odd."order" o WHERE "select" = 1') ],
	[ { select => 1, YES => 2, sequence => 3, 'a.b' => 44, 'with space' => 5, 'tick`x' => 66, 'Größe' => 7, 'end\\' => 88, 'quo"te' => 9, '$1' => 10, "it's" => 11 } ],
	'odd names keep their values');
is($pg->value('SELECT string_agg("Id"::text, \',\' ORDER BY "Id") FROM odd."UPPER"') . '/' . $pg->value('SELECT string_agg(id::text, \',\' ORDER BY id) FROM odd.upper'),
	'1,3/2,4', 'names that differ in case alone are two tables');
no_surprise($pg, 'text');
drop_pipeline($pg, 'text');

# NUL in text.
my $nul = "CONCAT('a', CHAR(0), 'b')";
for my $case ([ 'strip', 'ab' ], [ 'replace', "a\x{fffd}b" ])
{
	my ($policy, $becomes) = @$case;
	my $table = CapstanTest::BothWays->new($my, $pg, "nul.$policy", [
		[ 't', 'TEXT', 'text', [ [ $nul, $becomes ], "'y'", "'ok'" ] ],
		[ 'v', 'VARCHAR(20)', 'character varying(20)', [ "'ok'", [ "CHAR(0)", $policy eq 'strip' ? '' : "\x{fffd}" ] ] ],
		[ 'l', 'VARCHAR(3) CHARACTER SET latin1', 'character varying(3)', [ "'é'", [ "_latin1 x'e900e9'", $policy eq 'strip' ? 'éé' : "é\x{fffd}é" ] ] ] ]);

	$table->fill;
	start_pipeline($pg, 'nul', ["nul.$policy"], nul_bytes => "'$policy'");
	$table->stream;
	$table->check if sync_pipeline($pg, 'nul');
	# One of t, one of v, one of l in three rows; each copied four times, streamed three times.
	is($pg->value('SELECT nul_bytes_applied FROM capstan.table_status'), 3 * 7, "$policy: the counter counts");
	is($pg->value("SELECT count(*) FROM capstan.incident WHERE class = 'nul_bytes_applied' AND severity = 'warning' AND source_table = 'nul.$policy'"),
		1, "$policy: said once") or diag($pg->safe_psql('SELECT class, message, detail, source_table FROM capstan.incident'));
	drop_pipeline($pg, 'nul');
}
$my->sql("USE nul; CREATE TABLE h (id INT PRIMARY KEY, t TEXT, v VARCHAR(20)); INSERT INTO h VALUES (2, 'x', 'y')");
start_pipeline($pg, 'nul', ['nul.h']);
$my->sql("INSERT INTO nul.h VALUES (3, 'x', 'y'); INSERT INTO nul.h VALUES (1, $nul, 'secret')");
my $incident = expect_halt($pg, 'nul', 'value_not_convertible', qr/Column "t"/, qr/nul\.h/);
unlike(join(' ', map { $_ // '' } values %$incident), qr/secret/, 'no value in the incident');
is($pg->value('SELECT count(*) FROM nul.h WHERE id IN (2, 3)'), 2, 'what came before is there');
drop_pipeline($pg, 'nul');
start_pipeline($pg, 'nul', ['nul.h'], truncate_target => 'true', timeout => '');
expect_halt($pg, 'nul', 'value_not_convertible', qr/Column "t"/, qr/nul\.h/);
drop_pipeline($pg, 'nul');

# Names that Postgres cannot keep: refused by name.
my $long = 'n' x 62;
$my->sql("CREATE DATABASE refused; USE refused;
	CREATE TABLE ${long}aa (id INT PRIMARY KEY); CREATE TABLE ${long}ab (id INT PRIMARY KEY);
	CREATE TABLE c (id INT PRIMARY KEY, ${long}aa INT, ${long}ab INT);
	CREATE TABLE x (id INT PRIMARY KEY, ctid INT)");
for my $case (
	[ "refused.${long}a?", qr/${long}aa and refused\.${long}ab are both/ ], [ "refused.${long}aa", qr/${long}aa" is longer than 63 bytes/ ], [ 'refused.c', qr/"${long}ab".*longer than 63/s ],
	[ 'refused.x', qr/"ctid"/ ])
{
	my ($tables, $says) = @$case;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('no', server => 'source', tables => '{$tables}')");
	isnt($rc, 0, "$tables is refused");
	like($err, $says, '... by name');
}
is($pg->value("SELECT count(*) FROM pg_namespace WHERE nspname = 'refused'"), 0, 'nothing was made');

done_testing();
