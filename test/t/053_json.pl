# A JSON document has one value, by the copy and by the stream, in jsonb, json and text.
#
# Why: the binary log holds MySQL's own binary form, and others rendered it in another way than
# the server does: 1.0 became 1, dates and decimals inside became base64, keys moved.
# How: a matrix of documents (every scalar, doubles of all sizes, integers at the limits of each
# form, nesting, sizes at which the form changes, escapes, values of SQL types), each in
# three columns, which are jsonb, json and text on the target, by both ways.
# Asserted: json and text are what MySQL's own CAST(j AS CHAR) gives, jsonb is what Postgres makes of
# that text; for the well-known cases literally; equality byte by byte. U+0000 under each
# policy in jsonb, untouched in json and text.
# Not asserted: partial updates.

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
$pg->safe_psql('CREATE EXTENSION capstan; CREATE SCHEMA v');
$pg->create_server('source', $my);

# A JSON text as an SQL literal.
sub text
{
	my ($json) = @_;
	$json =~ s/(['\\])/\\$1/g;
	return "CAST('$json' AS JSON)";
}

srand(42);
my @doubles;
while (@doubles < 400)
{
	my $double = @doubles % 2 ? unpack('d', pack('Q', int(rand(2**32)) * 2**32 + int(rand(2**32)))) : rand() * 10**int(rand(40) - 20);
	push @doubles, sprintf('%.17g', $double) unless $double != $double || abs($double) > 1e308;
}
my @documents = (
	# scalars, and what is none
	map({ text($_) } 'null', 'true', 'false', '""', '"x"', '0', '-1', '1.0', '-0.0', '1e0', '{}', '[]', '[null]', '{"":""}'),
	# integers at the limits of the forms
	text('[' . join(',', map { ($_ - 1, $_, $_ + 1, -$_ - 1, -$_) } 127, 255, 32767, 65535, 8388607, 2147483647) . ']'),
	text('[4294967294, 4294967295, 4294967296, 9223372036854775806, 9223372036854775807, 9223372036854775808, -9223372036854775808, 18446744073709551615, 18446744073709551616, -9223372036854775809]'),
	# doubles
	text('{"name":"a","id":1,"val":1.0,"pi":3.14}'),
	text('[0.1, 1.5, 100.0, 1e2, 1e15, 1e16, 1e17, 123456789012345678, 1.0e20, 1e21, 1e22, 1e-5, 1e-4, 0.00001, 1.5e-7, 1e-14, 1e-15, 1e-16, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 9007199254740993.0, 0.30000000000000004, 123456.789e3, 1e1]'),
	text('[' . join(',', @doubles) . ']'),
	# strings
	text('"tab\\t nl\\n cr\\r bs\\b ff\\f quote\\" back\\\\ slash\\/ \\u0001 \\u001f \\u007f \\u00e9 \\u20ac \\ud83d\\ude00"'),
	text('["é", "€", "😀", "' . "e\x{301}" . '", "\\\\u0000", "{\\"a\\": 1}", "1e5", "-0.0"]'),
	text('{"ключ": 1, "😀": 2, "a b": 3, "\\"q\\"": 4, "back\\\\slash": 5, "new\\nline": 6}'),
	map({ sprintf q{JSON_ARRAY(REPEAT('x', %d), REPEAT('é', %d))}, $_, $_ } 63, 64, 127, 128, 16383, 16384, 70000),
	# keys: of all lengths, twice the same, in the order of MySQL's own
	text('{"bb": 1, "a": 2, "ccc": 3, "aa": 4, "b": 5, "": 6}'), text('{"a": 1, "a": 2, "b": 1, "a": 3}'),
	"JSON_OBJECT(REPEAT('k', 60000), 1, 'z', 2)",
	# nesting, and the sizes where small forms become large ones
	text('[' x 99 . '1' . ']' x 99), text('{"a":' x 90 . '{"b":[1,{"c":null}]}' . '}' x 90),
	text('[' . join(',', 1 .. 3000) . ']'), text('{' . join(',', map { qq("k$_":$_) } 1 .. 3000) . '}'),
	text('[' . join(',', map { $_ + 100000 } 1 .. 13000) . ']'), text('[' . join(',', map { qq({"i":$_,"s":"v$_","n":null,"b":true,"d":$_.5}) } 1 .. 3000) . ']'),
	text('[[[],{}],{"a":[],"b":{}},[[[]]]]'),
	# values of SQL types inside
	q{JSON_OBJECT('d', CAST('2020-01-02' AS DATE), 't', CAST('-12:00:01.5' AS TIME(1)), 'dt', CAST('2020-01-02 03:04:05.678' AS DATETIME(3)), 'n', CAST('12345678901234567890.123' AS DECIMAL(30,3)), 'b', CAST('x' AS BINARY))},
	q{JSON_ARRAY(CAST('0001-01-01' AS DATE), CAST('9999-12-31 23:59:59.999999' AS DATETIME(6)), CAST('838:59:59' AS TIME), CAST('-838:59:59' AS TIME), CAST('-00:00:00.000001' AS TIME(6)), CAST('00:00:00' AS TIME))},
	q{JSON_ARRAY(CAST('0000-00-00' AS DATE), TIMESTAMP'2024-02-29 10:00:00', CAST(2024 AS YEAR))},
	q{JSON_ARRAY(CAST(0 AS DECIMAL(5,2)), CAST(-0.5 AS DECIMAL(10,5)), CAST('-99999999999999999999999999999999999.999999999999999999999999999999' AS DECIMAL(65,30)), 1.10, 0.0, -1.0, 100.00)},
	q{JSON_ARRAY(b'101', x'00ff', x'', BINARY 'abc', CAST(REPEAT('b', 57) AS BINARY), CAST(REPEAT('b', 58) AS BINARY), CAST(REPEAT('b', 500) AS BINARY))},
	q{JSON_ARRAY(CAST(1.5 AS FLOAT), CAST(0.1 AS FLOAT), CAST(0.1 AS DOUBLE), 1e10, PI())},
	q{JSON_ARRAY(18446744073709551615, -9223372036854775808, CAST(5 AS UNSIGNED), CAST(-5 AS SIGNED), TRUE, NULL, 'text')},
	q{(SELECT JSON_OBJECT('e', e, 's', s, 'y', y, 'b', b, 'bl', bl, 'c', c, 'g', g, 'f', f, 'ts', ts) FROM v.typed)},
	q{ST_AsGeoJSON(ST_GeomFromText('POLYGON((0 0,1 0,1 1.5,0 0))'))},
	q{JSON_MERGE_PRESERVE('{"a": 1}', '{"a": [2, {"b": 3}]}')}, q{JSON_SET('{"a": 1.50}', '$.c', CAST('1.10' AS DECIMAL(5,2)))});

$my->sql(<<'SQL');
CREATE DATABASE v;
CREATE TABLE v.typed (e ENUM('é','b'), s SET('x','y'), y YEAR, b BIT(10), bl BLOB, c CHAR(5), g POINT, f FLOAT, ts TIMESTAMP(3));
INSERT INTO v.typed VALUES ('é', 'x,y', 2024, b'1010', x'00ff10', 'c', POINT(1, 2.5), 0.1, '2024-01-01 10:00:00.125');
SQL

# What MySQL itself prints, and what Postgres makes of that.
my @printed = split /\n/, $my->sql($CapstanTest::BothWays::SESSION . join("\n", map { "SELECT CAST($_ AS CHAR);" } @documents), options => ['--raw']);
is(scalar(@printed), scalar(@documents), 'every document has its text');
my @expected = json_rows($pg, 'SELECT to_json(j::jsonb::text) FROM (VALUES '
	  . join(', ', map { my $n = $_; my $t = $printed[$n]; $t =~ s/'/''/g; "($n, '$t')" } 0 .. $#printed) . ') t (n, j) ORDER BY n');
my @columns = (
	[ 'j', 'JSON', 'jsonb', [ map { [ $documents[$_], $expected[$_] ] } 0 .. $#documents ] ],
	[ 'k', 'JSON', 'json', [ map { [ $documents[$_], $printed[$_] ] } 0 .. $#documents ] ],
	[ 'l', 'JSON', 'text', [ map { [ $documents[$_], $printed[$_] ] } 0 .. $#documents ] ],
	[ 'n', 'JSON NOT NULL', 'jsonb', [ [ "'[]'", '[]' ], [ "'null'", 'null' ] ] ]);

my $table = CapstanTest::BothWays->new($my, $pg, 'v.documents', \@columns);
$table->fill;
$pg->safe_psql('CREATE TABLE v.documents (id int PRIMARY KEY, touched int, j jsonb, k json, l text, n jsonb NOT NULL)');
start_pipeline($pg, 'json', ['v.documents']);
$table->stream;
$table->check if sync_pipeline($pg, 'json');
tables_equal($my, $pg, ['v.documents'], 'all documents');
is($pg->value('SELECT count(*) FROM v.documents WHERE NOT record_image_eq(ROW(j), ROW(l::jsonb))'), 0, 'jsonb has the bytes that Postgres makes of the text');
no_surprise($pg, 'json');

# Those that are known from elsewhere, literally.
my $number = 0;
for my $case (
	[ '{"name":"a","id":1,"val":1.0,"pi":3.14}', '{"id": 1, "pi": 3.14, "val": 1.0, "name": "a"}' ],
	[ '{"a": 1, "a": 2, "b": 1, "a": 3}', '{"a": 3, "b": 1}' ],
	[ '18446744073709551615', '18446744073709551615' ], [ '-0.0', '-0.0' ], [ '1e16', '1e16' ], [ '100.0', '100.0' ], [ '"\\u20ac"', '"€"' ])
{
	my ($json, $text) = @$case;
	my $id = 5000 + ++$number;
	$my->sql("$CapstanTest::BothWays::SESSION INSERT INTO v.documents VALUES ($id, 0, " . join(', ', (text($json)) x 4) . ')');
	$pg->safe_psql("SELECT capstan.wait_for_source('json', timeout => '180 s')");
	is($pg->value("SELECT l FROM v.documents WHERE id = $id"), $text, "$json is $text");
}
my $opaque = '{"b": "base64:type15:eA==", "d": "2020-01-02", "n": 12345678901234567890.123, "t": "-12:00:01.500000", "dt": "2020-01-02 03:04:05.678000"}';
is($pg->value("SELECT count(*) FROM v.documents WHERE l = '$opaque' AND k::text = '$opaque' AND j = '$opaque'"), 4, 'values of SQL types, literally')
  or diag(grep { /2020-01-02/ } map { "$_\n" } @printed);
drop_pipeline($pg, 'json');

# U+0000, which jsonb cannot hold: json and text keep it, jsonb follows the policy.
my $nul = text('{"a": "x\\u0000y", "b": "\\\\u0000", "c": ["\\u0000"]}');
for my $case ([ 'strip', '{"a": "xy", "b": "\\\\u0000", "c": [""]}' ], [ 'replace', "{\"a\": \"x\x{fffd}y\", \"b\": \"\\\\u0000\", \"c\": [\"\x{fffd}\"]}" ])
{
	my ($policy, $becomes) = @$case;
	my $kept = '{"a": "x\\u0000y", "b": "\\\\u0000", "c": ["\\u0000"]}';
	my $nuls = CapstanTest::BothWays->new($my, $pg, "v.nul_$policy", [
		[ 'j', 'JSON', 'jsonb', [ [ $nul, $becomes ] ] ], [ 'k', 'JSON', 'json', [ [ $nul, $kept ] ] ], [ 'l', 'JSON', 'text', [ [ $nul, $kept ] ] ] ]);
	$nuls->fill;
	$pg->safe_psql("CREATE TABLE v.nul_$policy (id int PRIMARY KEY, touched int, j jsonb, k json, l text)");
	start_pipeline($pg, 'nul', ["v.nul_$policy"], nul_bytes => "'$policy'");
	$nuls->stream;
	$nuls->check if sync_pipeline($pg, 'nul');
	# not for the update that leaves the document alone, which stays as it is
	is($pg->value('SELECT nul_bytes_applied FROM capstan.table_status'), 6, "$policy: the counter counts");
	drop_pipeline($pg, 'nul');
}
$my->sql("CREATE TABLE v.h (id INT PRIMARY KEY, j JSON); INSERT INTO v.h VALUES (1, '1')");
for my $case ([ 'halt', $nul ], [ 'strip', text('{"a\\u0000": 1, "a": 2}') ])
{
	my ($policy, $document) = @$case;
	start_pipeline($pg, 'h', ['v.h'], nul_bytes => "'$policy'", truncate_target => 'true');
	$my->sql("INSERT INTO v.h VALUES (2, $document)");
	expect_halt($pg, 'h', 'value_not_convertible', qr/Column "j"/, qr/v\.h/);
	drop_pipeline($pg, 'h');
	start_pipeline($pg, 'h', ['v.h'], nul_bytes => "'$policy'", truncate_target => 'true', timeout => '');
	expect_halt($pg, 'h', 'value_not_convertible', qr/Column "j"/, qr/v\.h/);
	is($pg->value('SELECT count(*) FROM v.h'), 0, "$policy: not copied");
	drop_pipeline($pg, 'h');
	$my->sql('DELETE FROM v.h WHERE id = 2');
}

done_testing();
