# Kills at random, for as long as asked for; see CrashLoad.pm for the load and the oracles.
#
#     soak.pl [--kills 50] [--rows 150000] [--seed N]
#
# In cycles: a pipeline over all tables, the old contents of the target given up; five strikes while
# it copies, five while it streams, each at a random moment; the writers stop; contents and
# oracles are checked. One line for each strike, a summary at the end. Exit code 0 if all
# was as it should be.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin";
use Getopt::Long;
use List::Util qw(max sum0);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CrashLoad;

my ($kills, $rows, $seed) = (50, 150_000, int(rand(1e9)));
GetOptions('kills=i' => \$kills, 'rows=i' => \$rows, 'seed=i' => \$seed) or die "usage: soak.pl [--kills N] [--rows N] [--seed N]\n";
srand($seed);
$| = 1;

my $STRIKES_PER_PHASE = 5;
my $LONGEST_PAUSE = 1.5;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'10ms'", 'capstan.lock_timeout' => "'700ms'" });
my $load = CrashLoad->new(my => $my, pg => $pg, rows => $rows, freeze => 3);
my @struck;
my %figures = (cycles => 0, changes => 0, samples => 0, transactions => 0);

print "# seed $seed, $kills strikes, ", $my->value('SELECT VERSION()'), ', ', $pg->value('SHOW server_version'), "\n";
while (@struck < $kills)
{
	# What changes the way a snapshot takes its locks and the order of what it sees.
	my ($flush, $order, $isolation, $workers) = (int(rand 2), int(rand 2), int(rand 2), 1 + int(rand 4));
	$my->sql(($flush ? 'GRANT' : 'REVOKE IF EXISTS') . ' FLUSH_TABLES ON *.* ' . ($flush ? 'TO' : 'FROM') . q{ 'capstan'@'%'});
	$my->sql("SET PERSIST binlog_order_commits = $order; SET PERSIST transaction_isolation = '"
		  . ($isolation ? 'READ-COMMITTED' : 'REPEATABLE-READ') . q{'});
	$pg->safe_psql("ALTER SYSTEM SET capstan.copy_workers = $workers");
	$pg->reload;
	printf "cycle %d: %s copy worker(s), FLUSH_TABLES %s, binlog_order_commits %s, writers %s\n", $figures{cycles} + 1, $workers,
	  $flush ? 'granted' : 'not granted', $order ? 'on' : 'off', $isolation ? 'READ COMMITTED' : 'REPEATABLE READ';
	$load->start_writers;
	$load->start_pipeline;
	for my $phase ('snapshot', 'stream')
	{
		$pg->psql(q{SELECT capstan.wait_for_snapshot('crash', timeout => '300 s')}) if $phase eq 'stream';
		my @names = $load->strikes_for($phase);
		for (my $n = 0; $n < $STRIKES_PER_PHASE && @struck < $kills;)
		{
			sleep(rand $LONGEST_PAUSE);
			last if $load->phase ne $phase;
			my $s = $load->strike($names[ rand @names ], 180);
			next unless $s->{hit};
			$n++;
			push @struck, $s;
			printf "%3d  %-8s  %-28s back after %5.1f s\n", scalar(@struck), $s->{phase}, $s->{what}, $s->{seconds};
			next unless $s->{error};
			fail("strike $s->{what}: $s->{error}");
			done_testing();
			exit 1;
		}
	}
	$load->stop_writers;
	$figures{cycles}++;
	$load->check("cycle $figures{cycles}");
	$figures{changes} += $pg->value('SELECT count(*) FROM capstan_seen');
	$figures{samples} += $pg->value('SELECT COALESCE(sum(good), 0) FROM samples');
	$load->drop_pipeline;
	# a broken premise would only be covered up by the next copy
	last unless Test::More->builder->is_passing;
}

my %by;
push @{ $by{"$_->{phase}  $_->{what}"} }, $_->{seconds} for @struck;
my @seconds = sort { $a <=> $b } map { $_->{seconds} } @struck;

print "\n";
printf "%-40s %3d  worst %5.1f s\n", $_, scalar(@{ $by{$_} }), max(@{ $by{$_} }) for sort keys %by;
printf "\n%d strikes (%d while copying, %d while streaming) in %d cycle(s): back after %.1f s (median), %.1f s (worst)\n",
  scalar(@struck), scalar(grep { $_->{phase} eq 'snapshot' } @struck), scalar(grep { $_->{phase} eq 'stream' } @struck),
  $figures{cycles}, $seconds[ @seconds / 2 ], $seconds[-1];
printf "%d changes counted one by one, %d samples of a reader: %s\n", $figures{changes}, $figures{samples},
  Test::More->builder->is_passing ? 'nothing lost, nothing repeated, nothing halved' : 'FAILED';
done_testing();
