# make bench measures, and looks at what it has measured.
#
# Why: a harness that is used now and then breaks unseen; figures of a copy that lost rows are worth nothing.
# How: each scenario at a size that says nothing about speed, as its own program, as make bench runs it.
# Asserted: it ends well, and has compared contents in each scenario; each table is there, and each cell that should be a number is one; the
# curves are drawn; a difference makes it fail.
# Not asserted: any speed.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../bench";
use Test::More;
use CapstanTest;
use Bench;

plan(skip_all => 'needs a MySQL, and CAPSTAN_SKIP_MYSQL is set') if $ENV{CAPSTAN_SKIP_MYSQL};
CapstanTest::ctl('pg_install_extension') unless $ENV{CAPSTAN_INSTALLED};

my %env = (
	CAPSTAN_INSTALLED => 1, BENCH_OUT => "$CapstanTest::TOP/build/bench-trial", ROWS => 5000, REPEAT => 1, SECONDS => 1, SCENARIOS => 'idle copy locks latency stream growth',
	WAYS => 'COPY|start-up|, 1 worker|fdw, indexes there', KINDS => 'single-row inserts|inserts of 100', GROWTH_ROWS => '5000 20000', GROWTH_TABLES => '10', GROWTH_INTERVALS => '100');
my @program = ('env', (map { "$_=$env{$_}" } sort keys %env), $^X, "$CapstanTest::TOP/test/bench/bench.pl");
my ($rc, $out, $err) = CapstanTest::run_command(\@program);

is($rc, 0, 'make bench in small') or diag($out, $err);
like($out, qr/^ok \d+ - \Q$_\E.*equal$/m, "contents were compared: $_")
  for 'idle: ', 'copy of plain: ', 'copy of indexed: ', 'locks: ', 'latency: ', 'stream, single-row inserts: ', 'stream, inserts of 100 columns', 'growth: ';
like($out, qr/^ok \d+ - \Q$_\E: contents are those of the source$/m, "contents were compared: $_") for 'COPY', 'capstan, 1 worker', 'capstan, 1 worker, indexes after';
like($out, qr/^ok \d+ - stream, \Q$_\E, (?:capstan|native) 1: contents are those of the publisher$/m, "contents were compared: $_") for 'single-row inserts';

# Name of a table => the numbers that each of its lines has at least, and how many lines.
my %want = (idle => [ 1, 4 ], copy => [ 3, 4 ], locks => [ 5, 1 ], latency => [ 13, 3 ], stream => [ 10, 2 ], growth => [ 4, 4 ]);
for my $name (sort keys %want)
{
	my ($numbers, $lines) = @{ $want{$name} };
	my @lines = grep { /^\| / && !/not installed|not usable/ } split /\n/, CapstanTest::slurp("$env{BENCH_OUT}/$name.md");
	my @poor = grep { scalar(() = /(?<=[|,]) -?[\d.]+(?: [kM])?(?= [|]|,)/g) < $numbers } grep { !/^\| (?:way|process|locks|tx\/s|changes|rows of|captured|intervals) / } @lines;
	my $heads = () = CapstanTest::slurp("$env{BENCH_OUT}/$name.md") =~ /^\|---/mg;

	is_deeply(\@poor, [], "$name: every figure is there");
	cmp_ok(@lines - $heads, '>=', $lines - ($name eq 'copy' ? 1 : 0), "$name: every line is there");
}
like(CapstanTest::slurp("$env{BENCH_OUT}/growth.svg"), qr/<polyline.*<polyline.*<polyline/s, 'the curves are drawn');

# Its own comparison finds a difference: digests of rows that differ in a character are not the same.
my $pg = CapstanTest::Postgres->start;
$pg->safe_psql("CREATE TABLE a AS SELECT n, 'text ' || n AS t FROM generate_series(1, 100) n; CREATE TABLE b AS SELECT * FROM a; CREATE TABLE c AS TABLE a; UPDATE c SET t = 'texT 50' WHERE n = 50");
is(Bench::digest($pg, 'b'), Bench::digest($pg, 'a'), 'equal contents have the same digest');
isnt(Bench::digest($pg, 'c'), Bench::digest($pg, 'a'), 'a changed letter gives another digest');
$pg->safe_psql("INSERT INTO b VALUES (1, 'text 1'); DELETE FROM b WHERE n = 2");
isnt(Bench::digest($pg, 'b'), Bench::digest($pg, 'a'), 'so does a row twice and one missing');

done_testing();
