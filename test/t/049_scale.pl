# Memory and state do not grow with the number of rows or tables; many tables share rounds.
#
# Why: what is kept per row, per range or per table fills the memory on the day that counts.
# How: snapshots of a table and of one four times as large, in ranges of the usual size; of 100 one-row tables
# and of 400.
# Asserted: contents are equal; the workers' own memory is the same for both sizes but for noise, and under 100 MB; rounds
# grow no faster than the tables; one range is left of each table; the source is not asked for each table what it is.
# Not asserted: speed, which make scale measures; larger numbers (make scale, make soak).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../scale";
use Test::More;
use CapstanTest;
use Scale;

my $my = CapstanTest::MySQL->start(options => [ '--sync-binlog=0', '--innodb-flush-log-at-trx-commit=0' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => {@Scale::CONF, 'capstan.range_time' => "'300ms'"});

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# Statements that asked information_schema.
sub asked { return $my->value(q{SELECT SUM(COUNT_STAR) FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE '%`information_schema`%' AND DIGEST_TEXT NOT LIKE '%processlist%'}) // 0 }

my %figures;
for my $scenario ([ 'rows', 250_000 ], [ 'rows', 1_000_000 ], [ 'tables', 100 ], [ 'tables', 400 ])
{
	my ($kind, $count) = @$scenario;

	($kind eq 'rows' ? \&Scale::make_rows : \&Scale::make_tables)->($my, 's', $count);
	my $before = asked();
	my $f = $figures{"$kind $count"} = Scale::run($my, $pg, 's', sample => 0.05);
	$f->{asked} = asked() - $before;
	note("$kind $count: the source was asked $f->{asked} times what its tables are");
	is($f->{rows}, $count, "$kind $count: rows copied");
	is($pg->value('SELECT count(*) FILTER (WHERE low IS NOT NULL OR high IS NOT NULL OR gtid_set IS NULL) || \' \' || count(*) = \'0 \' || (SELECT count(*) FROM capstan.pipeline_table) FROM capstan.copied_range'), 't', "$kind $count: one range for each table");
	if ($kind eq 'rows') { tables_equal($my, $pg, ['s.*'], "$kind $count") }
	else { is((Scale::same_tables($my, $pg, 's'))[1], undef, "$kind $count: contents are equal") }
	my $memory = $f->{memory};
	note(sprintf '%s %d: %.1f s, %d rounds, own memory of pipeline worker %.0f MB, copy worker %.0f MB', $kind, $count, $f->{copy}, $f->{rounds}, $memory->{'pipeline RssAnon'} // 0, $memory->{'copy RssAnon'} // 0);
	cmp_ok($memory->{'copy RssAnon'}, '<', 100, "$kind $count: memory of a copy worker");
	cmp_ok($memory->{'pipeline RssAnon'}, '<', 100, "$kind $count: memory of the pipeline worker");
	Scale::drop($pg, 's');
}
cmp_ok($figures{'rows 1000000'}{memory}{'copy RssAnon'}, '<', $figures{'rows 250000'}{memory}{'copy RssAnon'} + 8, 'four times the rows in the same memory');
# How many tables share a round depends on how many locks are had in some milliseconds: fewer on a busy machine, but several everywhere.
cmp_ok($figures{"tables $_"}{rounds}, '<=', $_ / 2, "$_ tables share rounds") for 100, 400;
cmp_ok($figures{'tables 100'}{asked}, '>', 0, 'the source was asked what its tables are');
cmp_ok($figures{'tables 400'}{asked}, '<=', $figures{'tables 100'}{asked} + 60, '... of all of them together, not of each');

done_testing();
