# Many tables and large ones: what a snapshot of them costs, and that it is right.
#
#     scale.pl [SCENARIO...]      tables=1000 tables=10000 mixed=1000 rows=1000000 rows=10000000
#
# A line for each scenario, in the form of doc/scale.md. Exit code 0 if all contents are equal.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin";
use Test::More;
use CapstanTest;
use Scale;

$| = 1;
my @scenarios = @ARGV ? @ARGV : qw(tables=1000 tables=10000 mixed=1000 rows=1000000 rows=10000000);
my $my = CapstanTest::MySQL->start(options => [ '--innodb-buffer-pool-size=1G', '--table-open-cache=4000', '--sync-binlog=0', '--innodb-flush-log-at-trx-commit=0' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => {@Scale::CONF});

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
print "MySQL ", $my->value('SELECT VERSION()'), ", Postgres ", $pg->value('SHOW server_version'), ", ", $pg->value('SHOW capstan.copy_workers'), " copy workers\n\n";
print "| scenario | rows | create s | copy s | rounds | hold ms: p50, p99, worst | wait ms: p50, p99, worst | worst pause ms | WAL create MB | WAL copy MB | pipeline own MB | copy own MB |\n";
print "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
for my $scenario (@scenarios)
{
	my ($kind, $count) = $scenario =~ /^(tables|mixed|rows)=(\d+)$/ or die "no such scenario: $scenario\n";
	my $make = { tables => \&Scale::make_tables, mixed => \&Scale::make_mixed, rows => \&Scale::make_rows }->{$kind};

	$make->($my, 's', $count);
	my $f = Scale::run($my, $pg, 's');
	printf "| %s | %d | %.1f | %.1f | %d | %s | %s | %.0f | %.1f | %.1f | %.0f | %.0f |\n", $scenario, $f->{rows}, $f->{create}, $f->{copy}, $f->{rounds},
	  (map { CapstanTest::LockLog::spread(@{ $f->{$_} }) } qw(hold waited)), $f->{pause}, $f->{create_wal} / 1e6, $f->{copy_wal} / 1e6,
	  $f->{memory}{'pipeline RssAnon'} // 0, $f->{memory}{'copy RssAnon'} // 0;
	if ($kind eq 'rows')
	{
		tables_equal($my, $pg, ['s.*'], $scenario);
	}
	else
	{
		my ($compared, $difference) = Scale::same_tables($my, $pg, 's');
		is($difference, undef, "$scenario: $compared tables are equal");
	}
	Scale::drop($pg, 's');
	$my->sql('DROP DATABASE s');
}
done_testing();
