# Numbers, bits, ENUM, SET and YEAR have one value, by the copy and by the stream.
#
# Why: readers of row events took unsigned integers for signed ones, ENUM for its index,
# bits in the wrong order, YEAR 0 for 1900; the text protocol rounds FLOAT.
# How: a table with the extremes of every type, the same values before and after the
# snapshot. ENUM in a key, foreign keys to BIGINT UNSIGNED, BOOLEAN targets.
# Asserted: the exact text in Postgres, the types made, equality byte by byte; a value that does
# not fit the type that the user chose halts, and is not shown.
# Not asserted: changes of definitions.

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

my $nines = '9' x 65;
my $thirty = '9' x 30;
my @tables = (
	CapstanTest::BothWays->new($my, $pg, 'v.integers', [
		[ 'ti', 'TINYINT', 'smallint', [ -128, 127, 0, -1 ] ],
		[ 'tu', 'TINYINT UNSIGNED', 'smallint', [ 255, 0, 128, 127 ] ],
		[ 't1', 'TINYINT(1)', 'smallint', [ 2, -1, 127, 1, 0 ] ],
		[ 'si', 'SMALLINT', 'smallint', [ -32768, 32767, -1 ] ],
		[ 'su', 'SMALLINT UNSIGNED', 'integer', [ 65535, 0, 32768 ] ],
		[ 'mi', 'MEDIUMINT', 'integer', [ -8388608, 8388607, -1 ] ],
		[ 'mu', 'MEDIUMINT UNSIGNED', 'integer', [ 16777215, 0, 8388608 ] ],
		[ 'i', 'INT', 'integer', [ -2147483648, 2147483647, -1 ] ],
		[ 'iu', 'INT UNSIGNED', 'bigint', [ 4294967295, 0, 2147483648 ] ],
		[ 'bi', 'BIGINT', 'bigint', [ '-9223372036854775808', '9223372036854775807', -1 ] ],
		[ 'bu', 'BIGINT UNSIGNED', 'numeric(20,0)', [ '18446744073709551615', 0, '9223372036854775808' ] ],
		[ 'z', 'INT(8) ZEROFILL', 'bigint', [ 42, 0, 4294967295 ] ],
		[ 'bz', 'BIGINT ZEROFILL', 'numeric(20,0)', [ 42, 0, '18446744073709551615' ] ],
		[ 'y', 'YEAR', 'smallint', [ [ '0000', 0 ], 1901, 2155, [ "'0'", 2000 ], 1970 ] ],
		[ 'nn', 'BIGINT UNSIGNED NOT NULL', 'numeric(20,0)', [ '18446744073709551614', 1 ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.decimals', [
		[ 'a', 'DECIMAL(65,30)', 'numeric(65,30)', [ '-' . '9' x 35 . ".$thirty", '9' x 35 . ".$thirty",
				'0.' . '0' x 29 . '1', '-0.' . '0' x 29 . '1', [ '0', '0.' . '0' x 30 ], [ '1e3', '1000.' . '0' x 30 ] ] ],
		[ 'b', 'DECIMAL(65,0)', 'numeric(65,0)', [ "-$nines", $nines, 0, '1' . '0' x 64, '1' . '0' x 9, '1' . '0' x 18 ] ],
		[ 'c', 'DECIMAL(1,1)', 'numeric(1,1)', [ -0.9, 0.9, '0.0', -0.1, 0.5, -0.5 ] ],
		[ 'd', 'DECIMAL(10,2) UNSIGNED', 'numeric(10,2)', [ '0.00', '99999999.99', '0.01', '1.00' ] ],
		[ 'e', 'DECIMAL(9,9)', 'numeric(9,9)', [ '-0.999999999', '0.000000001', '0.100000000' ] ],
		[ 'f', 'DECIMAL(18,9)', 'numeric(18,9)', [ '-999999999.999999999', '1.000000001', '-1.100000000' ] ],
		[ 'g', 'DECIMAL(10,3) ZEROFILL', 'numeric(10,3)', [ [ '7.5', '7.500' ], [ '0', '0.000' ], '1234567.125' ] ],
		[ 'h', 'DECIMAL(30,30)', 'numeric(30,30)', [ "-0.$thirty", "0.$thirty" ] ],
		[ 'n', 'DECIMAL(14,4) NOT NULL', 'numeric(14,4)', [ '-1.0000', '1000000000.0001', '-9999999999.9999' ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.floats', [
		[ 'f', 'FLOAT', 'real', [ [ '16777216', '1.6777216e+07' ], [ '3.402823466e38', '3.4028235e+38' ], [ '-3.402823466e38', '-3.4028235e+38' ],
				[ '1.17549435e-38', '1.1754944e-38' ], [ '-0e0', '-0' ], [ '0', '0' ], [ '1e-45', '1e-45' ], [ '0.1', '0.1' ],
				[ '8388608.5', '8.388608e+06' ], [ '1234567', '1.234567e+06' ], [ '16777217', '1.6777216e+07' ] ] ],
		[ 'd', 'DOUBLE', 'double precision', [ [ '0.1', '0.1' ], [ '1.7976931348623157e308', '1.7976931348623157e+308' ],
				[ '-1.7976931348623157e308', '-1.7976931348623157e+308' ], [ '2.2250738585072014e-308', '2.2250738585072014e-308' ],
				[ '-0e0', '-0' ], [ '0', '0' ], [ '5e-324', '5e-324' ], [ '0.30000000000000004', '0.30000000000000004' ],
				[ '9007199254740993', '9.007199254740992e+15' ], [ '1e15', '1e+15' ], [ '123456789012345680000', '1.2345678901234568e+20' ] ] ],
		[ 'fd', 'FLOAT(10,3)', 'real', [ [ '1.5', '1.5' ], [ '-1234567.125', '-1.2345671e+06' ] ] ],
		[ 'du', 'DOUBLE UNSIGNED', 'double precision', [ [ '1.5', '1.5' ], [ '0', '0' ] ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.bits', [
		[ 'b1', 'BIT(1)', 'bit(1)', [ [ "b'1'", '1' ], [ "b'0'", '0' ] ] ],
		[ 'b7', 'BIT(7)', 'bit(7)', [ [ "b'1000001'", '1000001' ], [ "b'0000010'", '0000010' ] ] ],
		[ 'b8', 'BIT(8)', 'bit(8)', [ [ "b'00001010'", '00001010' ], [ "b'10000000'", '10000000' ] ] ],
		[ 'b9', "BIT(9) DEFAULT b'1'", 'bit(9)', [ [ "b'100000001'", '100000001' ], [ 'DEFAULT', '000000001' ] ] ],
		[ 'b17', 'BIT(17)', 'bit(17)', [ [ "b'10000000000000001'", '10000000000000001' ], [ "b'00000000100000010'", '00000000100000010' ] ] ],
		[ 'b33', 'BIT(33)', 'bit(33)', [ [ '4294967297', '1' . '0' x 31 . '1' ], [ '1', '0' x 32 . '1' ] ] ],
		[ 'b64', 'BIT(64)', 'bit(64)', [ [ '18446744073709551615', '1' x 64 ], [ '9223372036854775809', '1' . '0' x 62 . '1' ] ] ],
		[ 'bn', 'BIT(3) NOT NULL', 'bit(3)', [ [ "b'110'", '110' ], [ "b'011'", '011' ], [ "b'000'", '000' ] ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.labels', [
		[ 'e', "ENUM('new','active','gone')", 'text', [ "'active'", "'new'", "'gone'", [ "'nonsense'", '' ], [ '3', 'gone' ] ] ],
		[ 'eu', "ENUM('größe','€','a''b','x y') CHARACTER SET utf8mb4", 'text', [ "'größe'", "'€'", [ "'a''b'", "a'b" ], "'x y'" ] ],
		[ 'el', "ENUM('é','z') CHARACTER SET latin1", 'text', [ "'é'", "'z'" ] ],
		[ 'ee', "ENUM('','a')", 'text', [ "''", "'a'" ] ],
		[ 's', "SET('a','b','c')", 'text', [ [ "'c,a'", 'a,c' ], "''", "'b'", [ "'c,b,a,a'", 'a,b,c' ] ] ],
		[ 's64', 'SET(' . join(',', map { "'m$_'" } 1 .. 64) . ')', 'text', [ "'m1,m64'", "'m32,m33'", "'m64'", [ '18446744073709551615', join ',', map { "m$_" } 1 .. 64 ] ] ],
		[ 'e300', 'ENUM(' . join(',', map { "'l$_'" } 1 .. 300) . ')', 'text', [ "'l1'", "'l255'", "'l256'", "'l300'" ] ],
		[ 'en', "ENUM('x','y') NOT NULL DEFAULT 'y'", 'text', [ "'x'", [ 'DEFAULT', 'y' ] ] ] ]));

$_->fill for @tables;
$my->sql(<<'SQL');
USE v;
CREATE TABLE i15 (k ENUM('b','a'), n INT, v INT, PRIMARY KEY (k, n));
INSERT INTO i15 VALUES ('a', 1, 1), ('b', 1, 1), ('b', 2, 1);
CREATE TABLE parent (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, p_id BIGINT UNSIGNED, FOREIGN KEY (p_id) REFERENCES parent (id));
INSERT INTO parent VALUES (1), (18446744073709551614);
INSERT INTO child VALUES (1, 18446744073709551614), (2, NULL);
SQL

my @names = ((map { $_->name } @tables), qw(v.i15 v.parent v.child));
start_pipeline($pg, 'values', \@names);
$_->stream for @tables;
$my->sql(<<'SQL');
USE v;
INSERT INTO i15 VALUES ('a', 2, 1), ('b', 3, 1), ('a', 3, 1);
UPDATE i15 SET v = 2;
UPDATE i15 SET k = 'a' WHERE k = 'b' AND n = 3 AND v = 9;
DELETE FROM i15 WHERE n = 2;
UPDATE i15 SET k = 'b', n = 7 WHERE k = 'a' AND n = 3;
INSERT INTO parent VALUES (18446744073709551615);
INSERT INTO child VALUES (3, 18446744073709551615);
SQL
if (sync_pipeline($pg, 'values'))
{
	$_->check for @tables;
}
tables_equal($my, $pg, \@names, 'all of them');
no_surprise($pg, 'values');
is($pg->value("SELECT string_agg(k || n || v, ' ' ORDER BY k, n) FROM v.i15"), 'a12 b12 b32 b72', 'ENUM in the key: updates and deletes hit their rows');

# Keys between unsigned columns: both sides have one type, so the constraint can be made afterwards.
$pg->safe_psql('ALTER TABLE v.child ADD FOREIGN KEY (p_id) REFERENCES v.parent (id)');
is($pg->value('SELECT count(*) FROM v.child JOIN v.parent ON parent.id = p_id'), 2, 'foreign key to BIGINT UNSIGNED holds');
drop_pipeline($pg, 'values');

# Types that the user chose.
$my->sql("USE v; CREATE TABLE flags (id INT PRIMARY KEY, f TINYINT(1), b BIT(1), e ENUM('x','y'), s SET('x','y'), u BIGINT UNSIGNED, w BIT(20));
	INSERT INTO flags VALUES (1, 1, b'1', 'y', 'x,y', 9223372036854775807, 3), (2, 0, b'0', 'x', '', 0, 1048575), (3, NULL, NULL, NULL, NULL, NULL, NULL)");
$pg->safe_psql("CREATE TYPE v.xy AS ENUM ('y', 'x');
	CREATE TABLE v.flags (id int PRIMARY KEY, f boolean, b boolean, e v.xy, s text[], u bigint, w bigint)");
start_pipeline($pg, 'chosen', ['v.flags']);
$my->sql("USE v; INSERT INTO flags SELECT id + 10, f, b, e, s, u, w FROM flags");
sync_pipeline($pg, 'chosen');
is_deeply([ json_rows($pg, 'SELECT json_build_array(f, b, e, s, u, w) FROM v.flags WHERE id < 10 ORDER BY id') ],
	[ [ JSON::PP::true, JSON::PP::true, 'y', [ 'x', 'y' ], 9223372036854775807, 3 ], [ JSON::PP::false, JSON::PP::false, 'x', [], 0, 1048575 ], [ (undef) x 6 ] ],
	'chosen types: copied');
is($pg->value('SELECT count(*) FROM v.flags a JOIN v.flags b ON b.id = a.id + 10 AND (a.f, a.b, a.e, a.s, a.u, a.w) IS NOT DISTINCT FROM (b.f, b.b, b.e, b.s, b.u, b.w)'),
	3, 'chosen types: streamed the same');

for my $case (
	[ 'f = 2', qr/Column "f"/ ],
	[ 'f = -1', qr/Column "f"/ ],
	[ 'u = 9223372036854775808', qr/Column "u"/ ],
	[ "e = 'nonsense'", qr/Column "e"/ ])
{
	my ($set, $says) = @$case;
	$my->sql("SET sql_mode = ''; UPDATE v.flags SET $set WHERE id = 12");
	my $incident = expect_halt($pg, 'chosen', 'value_not_convertible', $says, qr/v\.flags/);
	unlike(join(' ', map { $_ // '' } values %$incident), qr/9223372036854775808/, 'the value is not shown') if $set =~ /^u/;
	is($pg->value('SELECT f FROM v.flags WHERE id = 12'), 'f', "$set: never something else");
	$my->sql("UPDATE v.flags SET f = 0, u = 0, e = 'x' WHERE id = 12");
	drop_pipeline($pg, 'chosen');
	start_pipeline($pg, 'chosen', ['v.flags'], truncate_target => 'true');
}
$my->sql('UPDATE v.flags SET f = 2 WHERE id = 12');
expect_halt($pg, 'chosen', 'value_not_convertible', qr/Column "f"/);
drop_pipeline($pg, 'chosen');
start_pipeline($pg, 'chosen', ['v.flags'], truncate_target => 'true', timeout => '');
expect_halt($pg, 'chosen', 'value_not_convertible', qr/Column "f"/);
is($pg->value('SELECT count(*) FROM v.flags'), 0, 'the copy halts at such a value too');
drop_pipeline($pg, 'chosen');

done_testing();
