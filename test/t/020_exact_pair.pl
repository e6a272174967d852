# A GTID set and a read view that name the same transactions: the snapshot rests on it.
#
# Why: a transaction of the set that the view misses is lost for ever, one that the view
# shows and the set does not name goes back in time on the target. MySQL promises none
# of this in its manual, so it is asked on every server version at hand.
# How: test/exactpair, eight writers against a real MySQL, captures in a loop, judged
# once the writers stand still; binlog_order_commits on and off, commits durable and
# fast, transactions short and mixed, an ALTER TABLE in between.
# Asserted: lock on one connection and view on another are exact, with LOCK TABLES READ,
# FLUSH TABLES WITH READ LOCK and LOCK TABLES WRITE. And the red twins, which show that
# the check can fail: the same on one connection, without the lock either way round, and
# a file position each miss transactions or show later ones. Below REPEATABLE READ there
# is no snapshot, and a warning that says so.
# Not asserted: anything about capstan; the ladder of locks is 021's.
#
# CAPSTAN_LONG=1: two minutes for each exact form instead of seconds.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $long = $ENV{CAPSTAN_LONG};
my $seconds = $long ? 120 : 3;
my $least = $long ? 1000 : 100;

my %granted = (read => 0, flush => 0, write => 0);
my $program = build_exactpair();
my $my = CapstanTest::MySQL->start;

# Exact: rows of (mode, commits durable, order, load).
durable(1);
exact('pair', 'ON');
exact('write_pair', 'OFF');
durable(0);
exact('pair', 'ON', '--quick');
exact('pair', 'OFF');
exact('write_pair', 'ON', '--quick');

# Tables are built anew all the while: the view either has its definition pinned, or
# the touch says so and there is another try.
my $n = exact('pair', 'ON', '--quick', '--ddl');
cmp_ok($n->{redone}, '>', 0, 'an ALTER TABLE that waits for the lock does not hang the touch');
$n = exact('write_pair', 'ON', '--quick', '--ddl');
cmp_ok($n->{redone}, '>', 0, 'an ALTER TABLE between UNLOCK and the touch is noticed');
cmp_ok($granted{$_}, '>', 0, "the $_ lock was among the captures") for sort keys %granted;

# Not exact.
for my $order ('ON', 'OFF')
{
	red('one_connection', $order, 'future');
	red('no_lock_set_first', $order, 'future');
	red('no_lock_view_first', $order, 'missing');
	red('file_position', $order, 'missing');
}
$n = red('read_committed', 'ON', 'future');
is($n->{warned}, $n->{captures} + $n->{redone}, 'START TRANSACTION WITH CONSISTENT SNAPSHOT gives warning 138 each time');

done_testing();

# The program of test/exactpair; its path.
sub build_exactpair
{
	my ($rc, $out, $err) = CapstanTest::run_command(
		[ 'make', '-s', '-C', "$CapstanTest::TOP/test/exactpair" ]);

	BAIL_OUT("exactpair does not build:\n$out$err") if $rc != 0;
	return "$CapstanTest::TOP/build/exactpair/exactpair";
}

# How commits reach the disk: it decides how far the log runs ahead of what is visible.
sub durable
{
	my ($on) = @_;

	$my->sql("SET GLOBAL sync_binlog = $on, GLOBAL innodb_flush_log_at_trx_commit = $on");
}

# Runs it and returns (exit code, its figures).
sub run_exactpair
{
	my ($name, @arguments) = @_;
	my ($rc, $out, $err) = CapstanTest::run_command(
		[ $program, '--socket=' . $my->dir . '/mysql.sock', @arguments ]);
	my %figures = $out =~ /(\w+)=(\S+)/g;

	note($out);
	diag("$name: exit code $rc\n$out$err") if $rc != 0;
	return ($rc, \%figures);
}

sub exact
{
	my ($mode, $order, @load) = @_;
	my $name = join(' ', $mode, "binlog_order_commits=$order", @load);
	my ($rc, $n) = run_exactpair($name, "--mode=$mode", "--order-commits=$order", '--expect=exact',
		"--seconds=$seconds", '--least-captures=' . (grep(/ddl/, @load) ? $least / 4 : $least), @load);

	is($rc, 0, "$name: exact in " . ($n->{captures} // 0) . ' captures among ' . ($n->{transactions} // 0) . ' transactions');
	$granted{$_} += $n->{$_} // 0 for keys %granted;
	return $n;
}

sub red
{
	my ($mode, $order, $expected) = @_;
	my $name = "$mode binlog_order_commits=$order";
	my ($rc, $n) = run_exactpair($name, "--mode=$mode", "--order-commits=$order", "--expect=$expected",
		'--seconds=300', '--quick');

	is($rc, 0, "$name: $expected " . ($n->{$expected} // 0) . ' transactions in ' . ($n->{captures} // 0) . ' captures');
	return $n;
}
