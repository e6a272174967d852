# Large JSON documents have one value, by the copy and by the stream, in jsonb, json and text.
#
# Why: MySQL's binary form has small and large variants of everything, with other widths of counts, offsets and inlined values; a
# document of many megabytes is held several times while it is converted.
# How: documents of 20 MB, arrays and objects of 70,000 members, scalars of SQL types by the thousand, names of all kinds and lengths,
# nested as deep as MySQL takes it inside of large ones; copied, inserted, and updated beside; memory of the workers.
# Asserted: json and text are what MySQL's CAST(j AS CHAR) gives, by hash; jsonb is what Postgres makes of that text; memory stays within
# 30 times the largest document; what jsonb cannot hold halts.
# Not asserted: partial updates. Documents of 256 MB only with CAPSTAN_LONG=1.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--max-allowed-packet=1G', '--innodb-redo-log-capacity=2G', '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => { 'capstan.copy_workers' => 1 });

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan; CREATE SCHEMA v');
$pg->create_server('source', $my);

# Highest memory of the processes of this kind so far, in MB; copy workers do not live long.
my %peak = (copy => 0, pipeline => 0);

sub note_memory
{
	for my $dir (glob '/proc/[0-9]*')
	{
		my $title = eval { CapstanTest::slurp("$dir/cmdline") } // '';
		my ($kind) = $title =~ /capstan (copy|pipeline) "large"/ or next;
		my ($kb) = (eval { CapstanTest::slurp("$dir/status") } // '') =~ /^VmHWM:\s+(\d+) kB/m or next;
		$peak{$kind} = $kb / 1024 if $kb / 1024 > $peak{$kind};
	}
}

# Documents by name; `n` has the numbers 1 .. 70000.
my $depth = 98;
my %documents = (
	array => 'SELECT JSON_ARRAYAGG(n) FROM n',
	negatives => 'SELECT JSON_ARRAYAGG(-n * 1000000) FROM n',
	literals => "SELECT JSON_ARRAYAGG(CAST(ELT(1 + n % 3, 'null', 'true', 'false') AS JSON)) FROM n",
	object => "SELECT JSON_OBJECTAGG(CONCAT('k', n), n) FROM n",
	lengths => "SELECT JSON_OBJECTAGG(REPEAT('ä', n), REPEAT('v', n)) FROM n WHERE n <= 600",
	doubles => 'SELECT JSON_ARRAYAGG(n / 7e0) FROM n WHERE n <= 20000',
	decimals => 'SELECT JSON_ARRAYAGG(CAST(n / 8 AS DECIMAL(20,10))) FROM n WHERE n <= 20000',
	times => "SELECT JSON_ARRAYAGG(JSON_ARRAY(CAST(TIMESTAMPADD(MICROSECOND, n, '2020-01-01') AS DATETIME(6)), CAST(DATE_ADD('1000-01-01', INTERVAL n DAY) AS DATE),
		CAST(SEC_TO_TIME(n / 16 - 3000) AS TIME(6)), CAST(n % 200 + 1950 AS YEAR))) FROM n WHERE n <= 20000",
	bytes => "SELECT JSON_ARRAYAGG(JSON_ARRAY(CAST(REPEAT('b', n) AS BINARY), UNHEX(LPAD(HEX(n), 8, '0')), b'101', (SELECT b FROM bits), ST_GeomFromText('POINT(1 2)'))) FROM n WHERE n <= 1000",
	names => q{SELECT JSON_OBJECTAGG(CONCAT(CHAR(n USING utf8mb4), IF(n % 2, '', '"\\\\{}[],:')), CHAR(n USING utf8mb4)) FROM n WHERE n <= 127},
	odd_names => q{SELECT JSON_OBJECT('', 1, ' ', 2, '😀', 3, CONVERT(0xE280A8 USING utf8mb4), 4, REPEAT('k', 65535), 5, 'null', 6, '$', 7, '\\\\u0041', 8, '__proto__', 9)},
	edges => 'SELECT JSON_ARRAY(' . join(', ', map { "REPEAT('x', $_)" } 0, 1, 127, 128, 16383, 16384, 65521, 65535, 65536, 2097151, 2097152) . ')',
	nested => "SELECT JSON_ARRAY((SELECT JSON_ARRAYAGG(n) FROM n), CAST('" . '[' x $depth . '7' . ']' x $depth . "' AS JSON), (SELECT JSON_OBJECTAGG(CONCAT('k', n), JSON_OBJECT('n', n, 'a', JSON_ARRAY(n, NULL, TRUE))) FROM n WHERE n <= 30000), 1.0, 'end')",
	string => "SELECT JSON_OBJECT('s', REPEAT('0123456789abcd€', 1170000), 'n', 1)",
	records => q{SELECT JSON_ARRAYAGG(JSON_OBJECT('id', n, 'name', CONCAT('name "', n, '"'), 'price', n / 4e0, 'tags', JSON_ARRAY('a', 'b', n, NULL), 'text', REPEAT('lorem ipsum ', 16))) FROM n});

my @names = sort keys %documents;
my $insert = join '', map { "INSERT INTO documents SELECT $_ + 1, '$names[$_]', ($documents{ $names[$_] }), 0;\n" } 0 .. $#names;
$my->sql(<<"SQL");
$CapstanTest::BothWays::SESSION SET group_concat_max_len = 100000000; SET cte_max_recursion_depth = 100000;
CREATE DATABASE v; USE v;
CREATE TABLE n (n INT PRIMARY KEY);
INSERT INTO n WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 70000) SELECT n FROM s;
CREATE TABLE bits (b BIT(20)); INSERT INTO bits VALUES (70000);
CREATE TABLE documents (id INT PRIMARY KEY, name VARCHAR(20), j JSON, touched INT);
$insert
CREATE TABLE as_jsonb LIKE documents; CREATE TABLE as_json LIKE documents; CREATE TABLE as_text LIKE documents;
INSERT INTO as_jsonb SELECT * FROM documents; INSERT INTO as_json SELECT * FROM documents; INSERT INTO as_text SELECT * FROM documents;
SQL
my (%expected, $largest);
for my $row ($my->query("SELECT name, SHA2(t, 256), LENGTH(t) / 1048576 FROM (SELECT name, CAST(j AS CHAR) AS t FROM v.documents) d"))
{
	$expected{ $row->[0] } = $row->[1];
	$largest = $row->[2] if $row->[2] > ($largest // 0);
}
note(sprintf 'the largest document has %.1f MB', $largest);
cmp_ok($largest, '>', 19, 'documents of 20 MB');

$pg->safe_psql("CREATE TABLE v.as_$_ (id int PRIMARY KEY, name text, j $_, touched int)") for qw(jsonb json text);
start_pipeline($pg, 'large', [qw(v.as_jsonb v.as_json v.as_text)], timeout => '');
until ($pg->value("SELECT bool_and(state = 'streaming') FROM capstan.table_status") eq 't')
{
	note_memory();
	die 'the copy failed' if $pg->value('SELECT state FROM capstan.pipeline_status') eq 'halted';
	select(undef, undef, undef, 0.05);
}
$my->sql("USE v; INSERT INTO as_$_ SELECT id + 1000, name, j, 0 FROM documents") for qw(jsonb json text);
$my->sql("UPDATE v.as_jsonb SET touched = 1 WHERE id > 1000 AND name <> 'string'");
sync_pipeline($pg, 'large');
note_memory();
no_surprise($pg, 'large');

for my $type (qw(json text))
{
	my %rows = map { split /\|/ } split /\n/, $pg->safe_psql("SELECT id || '|' || encode(sha256(convert_to(j::text, 'UTF8')), 'hex') FROM v.as_$type");
	is_deeply(\%rows, { map { ($_ + 1 => $expected{ $names[$_] }, $_ + 1001 => $expected{ $names[$_] }) } 0 .. $#names }, "$type: what MySQL prints");
}
is($pg->safe_psql("SELECT string_agg(t.id::text, ' ') FROM v.as_text t LEFT JOIN v.as_jsonb b USING (id) WHERE ROW(t.j::jsonb)::record *<> ROW(b.j)::record"), '', 'jsonb: what Postgres makes of that text');
is($pg->safe_psql('SELECT count(*) FROM v.as_jsonb a JOIN v.as_jsonb b ON b.id = a.id + 1000 AND ROW(a.j)::record *= ROW(b.j)::record'), scalar(@names), 'jsonb: copied and streamed alike');
note(sprintf 'memory at most: copy worker %.0f MB, pipeline worker %.0f MB', @peak{qw(copy pipeline)});
cmp_ok($peak{copy}, '>', 0, 'a copy worker was seen');
cmp_ok($peak{$_}, '<', 30 * $largest, "the $_ worker's memory is bounded") for qw(copy pipeline);
drop_pipeline($pg, 'large');

# A string of 256 MB is too long for jsonb, but not for json and text.
if ($ENV{CAPSTAN_LONG})
{
	$my->sql("CREATE TABLE v.huge (id INT PRIMARY KEY, j JSON); INSERT INTO v.huge VALUES (1, JSON_ARRAY(REPEAT('x', 268435456)))");
	$pg->safe_psql('CREATE TABLE v.huge (id int PRIMARY KEY, j jsonb)');
	start_pipeline($pg, 'huge', ['v.huge'], timeout => '');
	expect_halt($pg, 'huge', 'value_not_convertible', qr/Column "j".*SQLSTATE 54000/s, qr/v\.huge/);
	drop_pipeline($pg, 'huge');
	$my->sql('CREATE TABLE v.tmp LIKE v.huge; RENAME TABLE v.huge TO v.old, v.tmp TO v.huge');
	start_pipeline($pg, 'huge', ['v.huge']);
	$my->sql('INSERT INTO v.huge SELECT * FROM v.old');
	expect_halt($pg, 'huge', 'value_not_convertible', qr/Column "j".*longer than jsonb can hold/s, qr/v\.huge/);
	drop_pipeline($pg, 'huge');
	for my $type (qw(json text))
	{
		$pg->safe_psql("TRUNCATE v.huge; ALTER TABLE v.huge ALTER j TYPE $type USING NULL");
		start_pipeline($pg, 'huge', ['v.huge'], timeout => '180 s');
		$my->sql('INSERT INTO v.huge SELECT id + 1, j FROM v.huge');
		sync_pipeline($pg, 'huge');
		is($pg->safe_psql("SELECT string_agg(encode(sha256(convert_to(j::text, 'UTF8')), 'hex'), ' ') FROM v.huge"), join(' ', ($my->value("SELECT SHA2(CAST(j AS CHAR), 256) FROM v.old")) x 2), "$type: 256 MB");
		drop_pipeline($pg, 'huge');
		$my->sql('DELETE FROM v.huge WHERE id > 1');
	}
}

done_testing();
