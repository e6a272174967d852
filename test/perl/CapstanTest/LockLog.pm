# What the target's log tells of the locks on the source, at log_min_messages = debug1: a line for each lock of a snapshot round.

package CapstanTest::LockLog;

use strict;
use warnings;
use utf8;

# Since a position of the log: { kind => { tables => .., wait => [microseconds], hold => [..] } }; kinds are READ, FLUSH, WRITE and
# "READ, shared", whose lock on several tables counts once.
sub read_from
{
	my ($path, $position) = @_;
	my %of;

	open(my $log, '<', $path) or die "$path: $!\n";
	seek($log, $position, 0);
	while (<$log>)
	{
		my ($kind, $tables, $wait, $hold) = /lock of round \d+ by (\w+) on (\d+) tables: wait (\d+) us, hold (\d+) us/ or next;
		my $locks = $of{ $tables > 1 ? "$kind, shared" : $kind } //= { tables => 0 };

		$locks->{tables} += $tables;
		push @{ $locks->{wait} }, $wait;
		push @{ $locks->{hold} }, $hold;
	}
	return \%of;
}

# Median, p99 and worst of microseconds, in ms.
sub spread
{
	my @us = sort { $a <=> $b } @_;

	return @us ? sprintf('%.1f, %.1f, %.1f', map { $_ / 1000 } $us[ @us / 2 ], $us[ @us * 0.99 ], $us[-1]) : '';
}

1;
