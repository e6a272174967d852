# Every pair of types that is accepted works: by the copy, by the stream, as a key, and where there is no key.
#
# Why: the defaults are what everybody tests; a target that the user made goes through other converters, and a key of such a type
# through other parameters, indexes and comparisons.
# How: target tables made by hand, a column for every pair of the table in doc/types.md, the same values by both ways; a table for
# every pair that can be a key, in which rows are inserted, updated, moved and deleted by it, and one without a key. Values that the type has no room for.
# Asserted: that no pair of the document is missing here; exact text; equality byte by byte; what does not fit halts,
# by the stream and by the copy, names the column and shows no value; a domain's constraints count, also those that came later.
# Not asserted: PostGIS and pgvector (072, 073).

use strict;
use warnings;
use utf8;
no warnings 'qw';
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->grant;
$pg->safe_psql("CREATE EXTENSION capstan; CREATE EXTENSION citext; CREATE SCHEMA v; CREATE SCHEMA k; CREATE SCHEMA w; CREATE SCHEMA h; CREATE SCHEMA types; SET search_path = types, public;
	CREATE TYPE mood AS ENUM ('z', 'é', 'a''b', 'back\\slash', '', 'x');
	CREATE DOMAIN any_text AS text; CREATE DOMAIN short_text AS any_text CHECK (length(VALUE) < 40); CREATE DOMAIN name AS varchar(20) NOT NULL;
	CREATE DOMAIN positive AS int CHECK (VALUE > 0); CREATE DOMAIN small AS int CHECK (VALUE > 0); CREATE DOMAIN big AS bigint; CREATE DOMAIN amount AS numeric(12,3); CREATE DOMAIN day AS date;
	CREATE DOMAIN moment AS timestamptz(6); CREATE DOMAIN span AS interval; CREATE DOMAIN id AS uuid; CREATE DOMAIN mood_of_day AS mood; CREATE DOMAIN tags AS text[] CHECK (cardinality(VALUE) < 3);
	CREATE DOMAIN doc AS jsonb CHECK (jsonb_typeof(VALUE) = 'object'); CREATE DOMAIN raw AS bytea; CREATE DOMAIN ci AS citext; CREATE DOMAIN flag AS boolean;
	CREATE DOMAIN bits AS bit(9); CREATE DOMAIN single AS real; CREATE TYPE strict AS ENUM ('z')");
$pg->create_server('source', $my);

my $bits = "BIT(9)";
my $enum = "ENUM('é','a''b','back\\\\slash','x','z')";
my $uuid = [ [ "x'00112233445566778899aabbccddeeff'", '00112233-4455-6677-8899-aabbccddeeff' ], [ "x'ff'", 'ff000000-0000-0000-0000-000000000000' ], [ "''", '00000000-0000-0000-0000-000000000000' ],
	[ "x'ffffffffffffffffffffffffffffffff'", 'ffffffff-ffff-ffff-ffff-ffffffffffff' ], [ "x'20202020202020202020202020202020'", '20202020-2020-2020-2020-202020202020' ] ];
my $words = [ "'é€😀'", "'A'", "'b'", "'  blank'", "''" ];
my $ends = sub { my ($low, $high) = @_; return [ $low, $high, 1, $low ? 0 : () ] };

# [ MySQL type, type of the target, values, domain ]; a domain is over the type, and a column of its own.
my @pairs = (
	(map { [ 'TINYINT', $_, $ends->(-128, 127), $_ eq 'integer' ? 'types.big' : () ] } qw(smallint integer bigint numeric numeric(3,0))),
	[ 'TINYINT', 'numeric(10,3)', [ [ -128, '-128.000' ], [ 0, '0.000' ], [ 127, '127.000' ] ], 'types.amount' ],
	[ 'TINYINT', 'boolean', [ [ 0, 'false' ], [ 1, 'true' ] ], 'types.flag' ], [ 'TINYINT(1)', 'boolean', [ [ 'FALSE', 'false' ], [ 'TRUE', 'true' ] ] ],
	[ 'TINYINT UNSIGNED', 'boolean', [ [ 1, 'true' ], [ 0, 'false' ] ] ], (map { [ 'TINYINT UNSIGNED', $_, [ 0, 255, 1 ] ] } qw(smallint integer bigint numeric)),
	(map { [ 'SMALLINT', $_, $ends->(-32768, 32767) ] } qw(smallint integer bigint numeric numeric(5,0))), [ 'SMALLINT', 'boolean', [ [ 0, 'false' ], [ 1, 'true' ] ] ],
	(map { [ 'SMALLINT UNSIGNED', $_, $ends->(0, 65535) ] } qw(integer bigint numeric)), [ 'SMALLINT UNSIGNED', 'smallint', [ 0, 32767, 1 ] ], [ 'SMALLINT UNSIGNED', 'boolean', [ [ 0, 'false' ], [ 1, 'true' ] ] ],
	(map { [ 'MEDIUMINT', $_, $ends->(-8388608, 8388607) ] } qw(integer bigint numeric)), (map { [ 'MEDIUMINT UNSIGNED', $_, $ends->(0, 16777215) ] } qw(integer bigint numeric(8,0))),
	(map { [ 'INT', $_, $ends->(-2147483648, 2147483647) ] } qw(integer bigint numeric)), [ 'INT', 'integer', [ 1, 2147483647 ], 'types.positive' ],
	(map { [ 'INT UNSIGNED', $_, $ends->(0, 4294967295) ] } qw(bigint numeric numeric(10,0))), [ 'INT UNSIGNED', 'integer', $ends->(0, 2147483647) ],
	(map { [ 'BIGINT', $_, $ends->('-9223372036854775808', '9223372036854775807') ] } qw(bigint numeric numeric(19,0))),
	(map { [ 'BIGINT UNSIGNED', $_, $ends->(0, '18446744073709551615') ] } qw(numeric numeric(20,0))), [ 'BIGINT UNSIGNED', 'bigint', $ends->(0, '9223372036854775807') ],
	[ 'DECIMAL(10,2)', 'numeric(10,2)', [ '-99999999.99', '0.00', '0.01' ] ], [ 'DECIMAL(10,2)', 'numeric', [ '-99999999.99', '0.00', '1.50' ] ], [ 'DECIMAL(9,3)', 'numeric(12,3)', [ '-999999.999', '0.100' ], 'types.amount' ],
	[ 'DECIMAL(10,2)', 'numeric(14,5)', [ [ '-99999999.99', '-99999999.99000' ], [ '0', '0.00000' ], [ '1.5', '1.50000' ] ] ], [ 'DECIMAL(20,0)', 'numeric(20,0)', [ '9' x 20, 0, '-1' ] ],
	[ 'FLOAT', 'real', [ [ '0.1', '0.1' ], [ '-0e0', '-0' ], [ 16777216, '1.6777216e+07' ] ], 'types.single' ], [ 'DOUBLE', 'double precision', [ [ '0.1', '0.1' ], [ '-0e0', '-0' ], [ '5e-324', '5e-324' ] ] ],
	[ $bits, 'bit(9)', [ [ "b'100000001'", '100000001' ], [ "b'000000010'", '000000010' ] ], 'types.bits' ], [ 'BIT(1)', 'boolean', [ [ "b'1'", 'true' ], [ "b'0'", 'false' ] ] ], [ 'BIT(1)', 'bit(1)', [ [ "b'1'", '1' ], [ "b'0'", '0' ] ] ],
	[ $bits, 'bytea', [ [ "b'100000001'", '\x0101' ], [ "b'000000010'", '\x0002' ] ] ], [ 'BIT(64)', 'bytea', [ [ '18446744073709551615', '\x' . 'ff' x 8 ], [ '1', '\x' . '00' x 7 . '01' ] ] ], [ 'BIT(1)', 'bytea', [ [ 1, '\x01' ], [ 0, '\x00' ] ] ],
	[ $bits, 'bigint', [ [ "b'100000001'", 257 ], [ "b'000000010'", 2 ] ] ], [ 'BIT(64)', 'bigint', [ '9223372036854775807', 0, 1 ] ],
	[ 'DATE', 'date', [ "'0001-01-01'", "'9999-12-31'", "'2024-02-29'" ], 'types.day' ], (map { [ 'DATETIME(3)', $_, [ [ "'2024-02-29 23:59:59.999'", '2024-02-29 23:59:59.999' ], "'1000-01-01 00:00:00'" ] ] } 'timestamp(3) without time zone', 'timestamp without time zone', 'timestamp(4) without time zone'),
	[ 'TIMESTAMP(3) NULL', 'timestamp(3) with time zone', [ [ "'2024-01-01 00:00:00.25'", '2024-01-01 00:00:00.25+00' ], [ "'1970-01-01 00:00:01.001'", '1970-01-01 00:00:01.001+00' ] ], 'types.moment' ],
	[ 'TIMESTAMP NULL', 'timestamp with time zone', [ [ "'2038-01-19 03:14:07'", '2038-01-19 03:14:07+00' ] ] ],
	[ 'TIME(3)', 'interval(3)', [ [ "'-838:59:58.999'", '-838:59:58.999' ], "'24:00:00'", "'00:00:00'" ], 'types.span' ], [ 'TIME', 'interval', [ "'838:59:59'", "'-00:00:01'" ] ],
	[ 'TIME(6)', 'time without time zone', [ "'00:00:00'", "'24:00:00'", [ "'23:59:59.999999'", '23:59:59.999999' ], [ "'00:00:00.000001'", '00:00:00.000001' ] ] ], [ 'TIME', 'time(0) without time zone', [ "'12:34:56'", "'24:00:00'" ] ],
	[ 'YEAR', 'smallint', [ 1901, 2155, [ '0000', 0 ] ] ], [ 'YEAR', 'integer', [ 1901, 2155, [ '0000', 0 ] ] ],
	(map { my $type = $_; (map { [ $type, $_, $words, $_ eq 'text' ? 'types.short_text' : $_ eq 'citext' ? 'types.ci' : () ] } ($type eq 'TEXT' ? () : 'character varying(20)'), 'text', 'citext', 'character varying') } 'VARCHAR(20)', "CHAR(20) COLLATE utf8mb4_0900_bin", 'TEXT'),
	[ 'VARCHAR(20) NOT NULL', 'character varying(20)', $words, 'types.name' ], [ 'TINYTEXT', 'character varying(255)', [ [ "REPEAT('ü', 127)", 'ü' x 127 ], "'x'" ] ],
	[ $enum, 'text', [ "'é'", [ "'a''b'", "a'b" ], [ 3, 'back\slash' ], [ "'none'", '' ] ], 'types.short_text' ], [ $enum, 'character varying(10)', [ "'é'", "'x'", [ 3, 'back\slash' ] ] ],
	[ $enum, 'types.mood', [ "'é'", [ 2, "a'b" ], [ 3, 'back\slash' ], "'z'", [ "'none'", '' ] ], 'types.mood_of_day' ],
	[ "SET('b','a''x','c')", 'text', [ [ "'c,b'", 'b,c' ], [ 2, "a'x" ], "''" ], 'types.any_text' ], [ "SET('b','a''x','c')", 'character varying(7)', [ [ 7, "b,a'x,c" ], "''" ] ],
	[ "SET('b','a''x','c d')", 'text[]', [ [ 7, q({b,a'x,"c d"}) ], [ "''", '{}' ], [ 4, '{"c d"}' ] ] ], [ "SET('b','a')", 'text[]', [ [ 3, '{b,a}' ], [ "''", '{}' ] ], 'types.tags' ],
	[ 'BINARY(16)', 'uuid', $uuid, 'types.id' ], [ 'BINARY(4)', 'bytea', [ [ "x'01'", '\x01000000' ], [ "x'00000001'", '\x00000001' ], [ "''", '\x00000000' ] ], 'types.raw' ],
	[ 'VARBINARY(16)', 'bytea', [ [ "x'0100'", '\x0100' ], [ "''", '\x' ], [ "x'2020'", '\x2020' ] ] ], [ 'BLOB', 'bytea', [ [ "x'00ff'", '\x00ff' ], [ "''", '\x' ] ], 'types.raw' ],
	[ 'JSON', 'jsonb', [ [ q('{"b": 1.0, "a": [true]}'), '{"a": [true], "b": 1.0}' ], [ q('{}'), '{}' ] ], 'types.doc' ], (map { [ 'JSON', $_, [ [ q('{"b": 1.0, "a": [true]}'), '{"a": [true], "b": 1.0}' ], [ "'\"x\"'", '"x"' ] ] ] } qw(json text)),
	[ 'POINT', 'bytea', [ [ "ST_GeomFromText('POINT(1 2)')", '\x000000000101000000000000000000f03f0000000000000040' ] ] ],
	($my->value('SELECT VERSION()') =~ /^8\./ ? () : [ 'VECTOR(3)', 'real[]', [ [ "TO_VECTOR('[1,2.5,-3]')", '{1,2.5,-3}' ] ] ]));

# No pair of the document is missing. Types are what comes before a parenthesis, and without a sign where both go the same way.
sub is_tested
{
	my ($type, $target) = @_;
	my %long = (timestamp => 'timestamp without time zone', timestamptz => 'timestamp with time zone', time => 'time without time zone', varchar => 'character varying', 'an enum type' => 'types.mood');

	$target = $long{$target} // $target;
	return grep {
		(my $from = $_->[0]) =~ s/\(.*?\)(?= |$)//;
		(my $to = $_->[1]) =~ s/\(.*?\)//;
		$from =~ s/ (?:NOT )?NULL$| COLLATE.*//;
		$from = 'GEOMETRY' if $from eq 'POINT';
		$from eq $type && $to eq $target;
	} @pairs;
}

open(my $document, '<:utf8', "$FindBin::Bin/../../doc/types.md") or die "doc/types.md: $!";
my ($lines) = join('', <$document>) =~ /types: begin.*?\n\|---.*?\n(.*?)\n<!-- types: end/s;
my @missing;
for my $line (grep { /^\|/ } split /\n/, $lines)
{
	my (undef, $type, $default, $others) = map { s/^\s+|\s+$//gr } split /\|/, $line, -1;
	next if $type eq 'VECTOR' && $my->value('SELECT VERSION()') =~ /^8\./;
	for my $target ($default, split /, (?![^(]*\))/, $others)
	{
		next if $target =~ /PostGIS|pgvector/;
		$target =~ s/ ?\(.*//;
		push @missing, "$type to $target" unless is_tested($type, $target);
	}
}
is("@missing", '', 'every pair of doc/types.md is tested here');
isnt(scalar(split /\n/, $lines), 0, 'the document has a table');

# Wide tables, by the half of the list.
my @tables;
for my $part (0 .. 2)
{
	my (@columns, $n);
	for my $pair (@pairs[ grep { $_ % 3 == $part } 0 .. $#pairs ])
	{
		my ($type, $target, $values, $domain) = @$pair;
		push @columns, [ 'c' . ++$n, $type, $_, $values ] for $target, $domain // ();
	}
	my $name = "v.pairs$part";
	push @tables, CapstanTest::BothWays->new($my, $pg, $name, \@columns);
	$pg->safe_psql("CREATE TABLE $name (id int PRIMARY KEY, touched int, " . join(', ', map { "$_->[0] $_->[2]" } @columns) . ')');
}
$_->fill for @tables;

# A table for every pair that can be a key. Rows 0 .. 2 are copied, 3 and 4 come by the stream; then 0 is moved, 2 and 4 are deleted, 1 is
# updated, 3 stays. Where there are too few values to tell rows apart, n belongs to the key. MySQL finds its rows by n.
my ($number, @keys, @ddl) = (0);
my ($before, $after) = ("CREATE DATABASE k; USE k; $CapstanTest::BothWays::SESSION", "USE k; $CapstanTest::BothWays::SESSION");
for my $pair (map { my ($type, $target, $values, $domain) = @$_; map { [ $type, $_, $values ] } $target, $domain // () } @pairs)
{
	my ($type, $target, $values) = @$pair;
	next if $type =~ /JSON|POINT|VECTOR/ || $target =~ /citext|types\.ci$/;
	my $name = 't' . ++$number;
	my $prefix = $type =~ /TEXT|BLOB/ ? '(30)' : '';
	(my $not_null = $type) =~ s/ (?:NOT )?NULL$//;
	my @values = map { ref $_ ? $_ : [ $_, CapstanTest::BothWays::_bare($_) ] } @$values;
	my $alone = @values >= 3;
	my $row = sub { my ($n) = @_; return "($values[$n % @values][0], $n, 1)" };
	my $key = $alone ? "k$prefix" : "k$prefix, n";

	$before .= "CREATE TABLE $name (k $not_null NOT NULL, n INT NOT NULL, v INT, PRIMARY KEY ($key)); INSERT INTO $name VALUES " . join(', ', map { $row->($_) } 0 .. ($alone ? 1 : 2)) . ";\n";
	if ($alone)
	{
		# 0 and 1 copied, 2 streamed; 1 goes, 0 is updated, 2 takes the key of 1
		$after .= "INSERT INTO $name VALUES " . $row->(2) . "; UPDATE $name SET v = 2; DELETE FROM $name WHERE n = 1; UPDATE $name SET v = 3 WHERE n = 0; UPDATE $name SET k = $values[1][0] WHERE n = 2;\n";
		push @keys, [ $name, "$type to $target", [ [ $values[0][1], 0, 3 ], [ $values[1][1], 2, 2 ] ] ];
	}
	else
	{
		$after .= "INSERT INTO $name VALUES " . $row->(3) . ', ' . $row->(4) . "; UPDATE $name SET v = 2 WHERE n IN (0, 3); UPDATE $name SET k = $values[-1][0], n = 7 WHERE n = 0; DELETE FROM $name WHERE n IN (2, 4); UPDATE $name SET v = 3 WHERE n = 1;\n";
		push @keys, [ $name, "$type to $target", [ [ $values[1 % @values][1], 1, 3 ], [ $values[3 % @values][1], 3, 2 ], [ $values[-1][1], 7, 2 ] ] ];
	}
	push @ddl, "CREATE TABLE k.$name (k $target, n int, v int, PRIMARY KEY (" . ($alone ? 'k' : 'k, n') . '));';
}

# A table without a key for every target, with an index where the type takes one: rows are found by their bytes.
my (@keyless, %seen);
$before .= "CREATE DATABASE w; USE w;\n";
$after .= "USE w;\n";
for my $pair (map { my ($type, $target, $values, $domain) = @$_; map { [ $type, $_, $values ] } $target, $domain // () } @pairs)
{
	my ($type, $target, $values) = @$pair;
	next if $seen{$target}++;
	my @values = map { ref $_ ? $_ : [ $_, CapstanTest::BothWays::_bare($_) ] } @$values;
	my ($first, $last) = @values[ 0, -1 ];
	my $name = 't' . (@keyless + 1);

	$before .= "CREATE TABLE $name (k $type, v INT); INSERT INTO $name VALUES ($first->[0], 1), ($first->[0], 1), ($last->[0], 2);\n";
	$after .= "INSERT INTO $name VALUES ($last->[0], 2), ($first->[0], 3); UPDATE $name SET v = 4 WHERE v = 1 LIMIT 1; DELETE FROM $name WHERE v = 2 LIMIT 1; UPDATE $name SET k = $last->[0] WHERE v = 3;\n";
	push @ddl, "CREATE TABLE w.$name (k $target, v int);", $target eq 'json' ? () : "CREATE INDEX ON w.$name (k);";
	push @keyless, [ $name, "$type to $target", [ [ $first->[1], 1 ], [ $last->[1], 2 ], [ $last->[1], 3 ], [ $first->[1], 4 ] ] ];
}
$my->sql($before);
$pg->safe_psql(join "\n", @ddl);

start_pipeline($pg, 'pairs', [ (map { $_->name } @tables), 'k.*', 'w.*' ]);
$_->stream for @tables;
$my->sql($after);
if (sync_pipeline($pg, 'pairs'))
{
	$_->check for @tables;
}
no_surprise($pg, 'pairs');
my %is = map { $_->[0] => $_->[1] } json_rows($pg, join ' UNION ALL ', map { "SELECT json_build_array('$_->[0]', (SELECT json_agg(json_build_array(k::text, n, v) ORDER BY n) FROM k.$_->[0]))" } @keys);
is_deeply($is{ $_->[0] }, $_->[2], "$_->[1], as a key") for @keys;
%is = map { $_->[0] => $_->[1] } json_rows($pg, join ' UNION ALL ', map { "SELECT json_build_array('$_->[0]', (SELECT json_agg(json_build_array(k::text, v) ORDER BY v) FROM w.$_->[0]))" } @keyless);
is_deeply($is{ $_->[0] }, $_->[2], "$_->[1], without a key") for @keyless;
drop_pipeline($pg, 'pairs');

# What the type has no room for. A row that fits, first; then one that does not, streamed, then copied.
my $case_number;
for my $case (
	[ 'SMALLINT UNSIGNED', 'smallint', 32767, 32768, qr/out of the target type's range/ ], [ 'BIT(64)', 'bigint', '9223372036854775807', '9223372036854775808', qr/out of the target type's range.*bytea/s ],
	[ 'SMALLINT', 'types.flag', 1, -1, qr/neither 0 nor 1/ ], [ 'INT', 'types.positive', 1, -12345, qr/SQLSTATE 23514, constraint "positive_check"/ ], [ 'VARCHAR(20)', 'types.name', "''", 'NULL', qr/SQLSTATE 23502/ ],
	[ "SET('a','b','c')", 'types.tags', 3, 7, qr/SQLSTATE 23514/ ], [ 'JSON', 'types.doc', "'{}'", "'[\"long\"]'", qr/SQLSTATE 23514/ ])
{
	my ($type, $target, $fits, $not, $says) = @$case;
	my $table = 'h.t' . ++$case_number;
	$my->sql("CREATE DATABASE IF NOT EXISTS h; $CapstanTest::BothWays::SESSION CREATE TABLE $table (id INT PRIMARY KEY, k $type); INSERT INTO $table VALUES (1, $fits)");
	$pg->safe_psql("CREATE TABLE $table (id int PRIMARY KEY, k $target)");
	start_pipeline($pg, 'h', [$table]);
	$my->sql("$CapstanTest::BothWays::SESSION INSERT INTO $table VALUES (2, $fits); UPDATE $table SET k = $not WHERE id = 1");
	for my $way ('streamed', $target =~ /bigint|positive/ ? 'copied' : ())
	{
		my $incident = expect_halt($pg, 'h', 'value_not_convertible', qr/Column "k"/, qr/\Q$table\E/, $says);
		unlike(join(' ', map { $_ // '' } @$incident{qw(message detail hint)}), qr/12345|long|32768|2147483648/, "$type to $target, $way: the value is not shown");
		is($pg->value("SELECT string_agg(id::text, ' ' ORDER BY id) FROM $table"), $way eq 'streamed' ? '1 2' : undef, "$type to $target, $way: what does not fit is not there");
		drop_pipeline($pg, 'h');
		start_pipeline($pg, 'h', [$table], truncate_target => 'true', timeout => '') if $way eq 'streamed' && $target =~ /bigint|positive/;
	}
}

# Constraints that a domain gets while the pipeline runs, its first one, too.
$my->sql('USE h; CREATE TABLE later (id INT PRIMARY KEY, d INT, e INT)');
$pg->safe_psql('CREATE DOMAIN types.free AS int; CREATE TABLE h.later (id int PRIMARY KEY, d types.free, e types.small)');
for my $case ([ 'ALTER DOMAIN types.free ADD CONSTRAINT small CHECK (VALUE < 10)', 'INSERT INTO h.later VALUES (2, 10, 1)', qr/Column "d".*constraint "small"/s ],
	[ 'ALTER DOMAIN types.free DROP CONSTRAINT small; ALTER DOMAIN types.small ADD CONSTRAINT small CHECK (VALUE < 10)', 'INSERT INTO h.later VALUES (2, 10, 10)', qr/Column "e".*constraint "small"/s ])
{
	my ($ddl, $sql, $says) = @$case;
	start_pipeline($pg, 'h', ['h.later'], truncate_target => 'true');
	$my->sql('INSERT INTO h.later VALUES (1, 1, 1)');
	sync_pipeline($pg, 'h');
	$pg->safe_psql($ddl);
	$my->sql($sql);
	expect_halt($pg, 'h', 'value_not_convertible', $says);
	is($pg->value('SELECT count(*) FROM h.later'), 1, "$ddl: what it refuses is not there");
	drop_pipeline($pg, 'h');
	$my->sql('DELETE FROM h.later');
}

# Labels that the enum type loses, and gets, while the pipeline runs.
$pg->safe_psql("CREATE TYPE types.moving AS ENUM ('a', 'b'); CREATE TABLE h.moving (id int PRIMARY KEY, e types.moving)");
$my->sql("CREATE TABLE h.moving (id INT PRIMARY KEY, e ENUM('a','b')); INSERT INTO h.moving VALUES (1, 'a')");
start_pipeline($pg, 'h', ['h.moving']);
$my->sql("INSERT INTO h.moving VALUES (2, 'b')");
sync_pipeline($pg, 'h');
$pg->safe_psql("ALTER TYPE types.moving RENAME VALUE 'a' TO 'old'; ALTER TYPE types.moving ADD VALUE 'a'");
$my->sql("INSERT INTO h.moving VALUES (3, 'a')");
sync_pipeline($pg, 'h');
is($pg->value("SELECT string_agg(e::text, ' ' ORDER BY id) FROM h.moving"), 'old b a', 'a label is what it is called now');
$pg->safe_psql("ALTER TYPE types.moving RENAME VALUE 'a' TO 'other'");
$my->sql("INSERT INTO h.moving VALUES (4, 'a')");
expect_halt($pg, 'h', 'target_table', qr/lacks the source's label "a"/);
drop_pipeline($pg, 'h');

# Refused before anything is made: a pair that is none, a label that the enum type lacks, keys that citext would make one.
$my->sql("USE h; CREATE TABLE refused (id INT PRIMARY KEY, a ENUM('z','new label'), b SET('','x'), c BIT(2), d BINARY(15), e DATETIME, f ENUM('z')); CREATE TABLE ci (k VARCHAR(20) PRIMARY KEY)");
$pg->safe_psql('CREATE TABLE h.refused (id int PRIMARY KEY, a types.mood, b text[], c boolean, d uuid, e timestamptz, f types.mood_of_day); CREATE TABLE h.ci (k types.ci PRIMARY KEY)');
my $found = $pg->value(q{SELECT found FROM capstan.preflight('source', tables => '{h.refused}') WHERE "check" = 'target_columns h.refused'});
like($found, $_, "refused: $_") for qr/"a".*lacks the source's label "new label"/, qr/"b".*the source's label ''/, qr/"c".*one bit/, qr/"d".*16 bytes/, qr/"e".*timestamp without time zone/;
unlike($found, qr/"f"/, 'refused: and nothing else');
like($pg->value(q{SELECT found FROM capstan.preflight('source', tables => '{h.ci}') WHERE "check" = 'target_columns h.ci'}), qr/"k" is of type citext/, 'refused: a domain over citext as a key');

done_testing();
