# Everything that can be killed is killed, under load, and nothing is lost or repeated.
#
# Why: promise P1, exactly once, and P3, source transactions stay whole.
# How: the load and the oracles of soak/CrashLoad.pm; strikes in random order, first
# while tables are copied, then while the pipeline streams. CAPSTAN_SEED repeats an order.
# Asserted: after each strike the pipeline comes back by itself; at the end contents are
# equal, every change was applied exactly once, the position is the source's, nothing halted, no
# reader saw half of a source transaction.
# Not asserted: loss of the machine (fsync is off here).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../soak";
use List::Util qw(shuffle);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CrashLoad;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'10ms'", 'capstan.lock_timeout' => "'700ms'" });
note("seed $CapstanTest::SEED");

my $load = CrashLoad->new(my => $my, pg => $pg, rows => 60_000);
$load->start_writers;
$load->start_pipeline;

for my $phase ('snapshot', 'stream')
{
	if ($phase eq 'stream')
	{
		# Ranges were short, so that there are many moments to strike. What is left of them is copied in a few.
		$pg->safe_psql("ALTER SYSTEM SET capstan.range_time = '1s'");
		$pg->reload;
		my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('crash', timeout => '600 s')});
		is($rc, 0, 'the snapshot is completed') or diag($err);
	}
	my ($struck, $copies) = (0, 1);
	my $until = time() + 25;
	for my $name (shuffle(grep { $_ ne 'stop mysqld' } $load->strikes_for($phase)))
	{
		sleep(rand 0.5);
		last if time() > $until && $struck >= 6;
		if ($load->phase ne $phase)
		{
			# Copied already, on a fast machine: once more.
			last if $struck >= 4 || $copies == 30;
			$copies++;
			$load->drop_pipeline;
			$load->start_pipeline;
			redo;
		}
		my $s = $load->strike($name);
		next unless $s->{hit};
		$struck++;
		ok(!$s->{error}, sprintf '%s while %s: back after %.1f s', $name, $s->{phase}, $s->{seconds})
		  or diag($s->{error});
		last if $s->{error};
	}
	cmp_ok($struck, '>=', 4, "enough strikes during $phase");
}

$load->stop_writers;
$load->check('at the end');
done_testing();
