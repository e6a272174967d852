# make bench, growth: is a row, or a transaction, as cheap when there is more of everything?
#
#   rows       the copy of tables of 60-byte rows, of ROWS / 10 to 4 * ROWS rows, or GROWTH_ROWS='1000000 100000000'
#   tables     catching up single-row transactions on one of 1 .. 1000 captured tables, or GROWTH_TABLES='1 10000'; the same while they
#              come (1000 tx/s), which shows what a commit costs
#   intervals  the same, with a source whose gtid_executed has 1 .. 10,000 intervals, or GROWTH_INTERVALS
#
# Also drawn: build/bench/growth.svg.

package BenchGrowth;

use strict;
use warnings;
use utf8;

use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use Bench;
use BenchLive;
use Curves;
use Scale;

my $RATE = 1000;

sub _points
{
	my ($name, @default) = @_;

	return split ' ', $ENV{$name} if $ENV{$name};
	return @default;
}

sub run
{
	my ($bench) = @_;
	my $small = $bench->rows < 100_000;
	my %got;

	BenchLive::_build();
	$got{rows} = _rows($bench, _points('GROWTH_ROWS', map { int($bench->rows * $_) } $small ? (1, 4) : (0.1, 0.4, 1, 4)));
	$got{tables} = _tables($bench, _points('GROWTH_TABLES', $small ? (1, 10) : (1, 10, 100, 1000)));
	$got{intervals} = _intervals($bench, _points('GROWTH_INTERVALS', $small ? (1, 100) : (1, 10, 100, 1000, 10_000)));
	_print($bench, \%got);
	return \%got;
}

# ----------------------------------------------------------------------

# Microseconds of a copied row, with the start-up taken off by an empty table.
sub _rows
{
	my ($bench, @sizes) = @_;
	my $db = $bench->database('growth');
	my (@points, $start);

	for my $rows (0, @sizes)
	{
		Scale::make_rows($bench->my, 'g', $rows || 1);
		$bench->settle;
		my $cpu = Bench::cluster_cpu($bench->pg);
		my $f = Scale::run($bench->my, $db, 'g');
		$cpu = Bench::cluster_cpu($bench->pg) - $cpu;
		tables_equal($bench->my, $db, ['g.*'], 'growth: ' . Bench::thousands($rows || 1) . ' rows');
		$start //= $f->{copy};
		push @points, { n => $rows, us => ($f->{copy} - $start) / $rows * 1e6, cpu => $cpu / $rows * 1e6, wal => $f->{copy_wal} / $rows, memory => $f->{memory}{'copy RssAnon'} // 0 } if $rows;
		Scale::drop($db, 'g');
		$bench->my->sql('DROP DATABASE g');
	}
	$bench->pg->safe_psql('DROP DATABASE growth');
	return \@points;
}

# ----------------------------------------------------------------------

# No more than two: there are many points.
sub _repeat { my ($bench) = @_; return $bench->repeat > 2 ? 2 : $bench->repeat }

# So many transactions in a backlog.
sub _backlog { my ($bench) = @_; return int($bench->rows * 0.03) || 100 }

# Tables t00000 .. of schema g, as Scale makes them, and one for marks.
sub _make_source
{
	my ($bench, $tables) = @_;

	Scale::make_tables($bench->my, 'g', $tables);
	$bench->my->sql('CREATE TABLE g.hot (id BIGINT NOT NULL PRIMARY KEY, at DATETIME(6) NOT NULL, note VARCHAR(100) NOT NULL); CREATE TABLE g.mark (id INT PRIMARY KEY)');
	$bench->my->sql("USE lib;\nDELIMITER //\nDROP PROCEDURE IF EXISTS hot //\nCREATE PROCEDURE hot(i INT, last INT) BEGIN WHILE i < last DO SET i = i + 1; INSERT INTO g.hot VALUES (i, NOW(6), REPEAT('x', 80)); END WHILE; END //\n");
}

# A database with a pipeline on g.hot, g.mark and tables that match the pattern; it stands still at the source's position.
sub _pipeline
{
	my ($bench, $name, $pattern) = @_;
	my $db = $bench->database($name);

	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{g.hot,g.mark" . ($pattern ? ",$pattern" : '') . "}')");
	$bench->start_pipeline($db);
	$db->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '1800 s')");
	$bench->stop_pipeline($db);
	return $db;
}

# From the start to the mark.
sub _catch_up
{
	my ($bench, $db, $mark, $running) = @_;
	my $session = Bench::Session->new($db);

	$bench->settle;
	my $cost = $bench->cost_of(sub {
			my ($tick) = @_;
			my $began = time;

			$bench->start_pipeline($db);
			until ($session->query("SELECT id FROM g.mark WHERE id = $mark"))
			{
				$tick->();
				sleep 0.01;
				if (time > $began + 900) { Bench::assert_running($db); die "the mark does not come\n" }
			}
			return time - $began;
		});
	$session->close;
	$bench->stop_pipeline($db) unless $running;
	return $cost;
}

# State of the writing, over all calls.
my ($next_row, $next_mark) = (0, 0);

sub _write
{
	my ($bench, $rows) = @_;

	$bench->my->sql("CALL lib.hot($next_row, " . ($next_row + $rows) . ')') if $rows;
	$next_row += $rows;
	$bench->my->sql('INSERT INTO g.mark VALUES (' . ++$next_mark . ')');
	return $next_mark;
}

# One figure of databases: start-up, then a backlog, then transactions as they come.
sub _measure
{
	my ($bench, $point, $db) = @_;
	my $seconds = $bench->rows < 100_000 ? 1 : 2;

	push @{ $point->{start} }, _catch_up($bench, $db, $point->{mark_nothing})->{result} if $point->{mark_nothing};
	return unless $point->{mark};
	my $cost = _catch_up($bench, $db, $point->{mark}, 1);
	push @{ $point->{catch_up} }, $cost->{result};
	push @{ $point->{memory} }, $cost->{memory}{pipeline} // 0;

	# as they come: only this pipeline runs
	my ($first, $last) = (100_000_000 + $next_row, $RATE * $seconds);
	my $writer = BenchLive::writer($bench, 'g.hot', $first, $RATE, $seconds);
	my ($pid) = $bench->pg->worker_pids(qr/capstan pipeline/);
	$next_row += $last;
	$cost = $bench->cost_of(sub {
			my ($before) = Bench::process_cpu($pid);

			BenchLive::finish($writer);
			$db->safe_psql("SELECT capstan.wait_for_source('p')");
			return (Bench::process_cpu($pid))[0] - $before;
		});
	push @{ $point->{live_cpu} }, $cost->{result} / $last * 1e6;
	push @{ $point->{live_wal} }, $cost->{wal} / $last;
	$bench->stop_pipeline($db);
}

sub _finish_point
{
	my ($bench, $point) = @_;
	my $net = Bench::median(@{ $point->{catch_up} }) - Bench::median(@{ $point->{start} });

	$point->{us} = $net / _backlog($bench) * 1e6;
	$point->{$_} = Bench::median(@{ $point->{$_} }) for qw(live_cpu live_wal memory start);
	return $point;
}

sub _tables
{
	my ($bench, @counts) = @_;
	my $most = max(@counts);
	my @points;

	_make_source($bench, $most);
	for my $n (@counts)
	{
		# powers of ten: t00000, t0000?, t000??
		my $pattern = $n == 1 ? 'g.t00000' : 'g.t' . '0' x (5 - (length($n) - 1)) . '?' x (length($n) - 1);

		push @points, { n => $n, db => _pipeline($bench, "tables_$n", $pattern) };
	}
	for my $repetition (1 .. _repeat($bench))
	{
		for my $point ($repetition % 2 ? @points : reverse @points)
		{
			# what the pipeline has missed, while others were measured, first
			_catch_up($bench, $point->{db}, _write($bench, 0));
			$point->{mark_nothing} = _write($bench, 0);
			$point->{mark} = undef;
			_measure($bench, $point, $point->{db});
			($point->{mark_nothing}, $point->{mark}) = (undef, _write($bench, _backlog($bench)));
			_measure($bench, $point, $point->{db});
		}
	}
	for my $point (@points)
	{
		_catch_up($bench, $point->{db}, _write($bench, 0));
		tables_equal($bench->my, $point->{db}, [ 'g.hot' ], "growth: $point->{n} tables");
		_finish_point($bench, $point);
		_drop($bench, $point->{db});
	}
	$bench->my->sql('DROP DATABASE g');
	return \@points;
}

sub _ascending { return sort { $a <=> $b } @_ }

# Intervals can only be added, so that these are not interleaved.
sub _intervals
{
	my ($bench, @counts) = @_;
	my $other = '11111111-2222-3333-4444-555555555555';
	my ($there, $last, @points) = (1, 0);

	_make_source($bench, 1);
	for my $n (_ascending(@counts))
	{
		# the source's own transactions are one interval; the others come in no order that could be stored in less
		my @more = map { $last += 2 + $_ * 7919 % 997; $last } $there + 1 .. $n;

		$bench->my->sql("SET GLOBAL gtid_purged = '+$other:" . join(':', @more) . "'") if @more;
		$there = $n;
		my $db = _pipeline($bench, "intervals_$n");
		my $point = { n => $n, db => $db };

		for my $repetition (1 .. _repeat($bench))
		{
			($point->{mark_nothing}, $point->{mark}) = (_write($bench, 0), undef);
			_measure($bench, $point, $db);
			($point->{mark_nothing}, $point->{mark}) = (undef, _write($bench, _backlog($bench)));
			_measure($bench, $point, $db);
		}
		tables_equal($bench->my, $db, ['g.hot'], "growth: $n intervals");
		push @points, _finish_point($bench, $point);
		_drop($bench, $db);
	}
	$bench->my->sql('DROP DATABASE g');
	return \@points;
}

sub _drop
{
	my ($bench, $db) = @_;

	$bench->drop_pipeline($db);
	$bench->pg->safe_psql("DROP DATABASE $db->{database}");
}

# ----------------------------------------------------------------------

sub _print
{
	my ($bench, $got) = @_;

	$bench->table('growth', [ 'rows of the table', 'us per row', 'CPU us per row, target', 'WAL B/row', 'own MB of a copy worker' ],
		[ map { [ Bench::thousands($_->{n}), sprintf('%.2f', $_->{us}), sprintf('%.2f', $_->{cpu}), sprintf('%.0f', $_->{wal}), sprintf('%.0f', $_->{memory}) ] } @{ $got->{rows} } ], 'The copy of one table, once each, 2 workers.');
	for (([ 'tables', 'captured tables' ], [ 'intervals', 'intervals of gtid_executed' ]))
	{
		my ($key, $title) = @$_;

		$bench->table('growth', [ $title, 'us per transaction, catching up', 'CPU us of the worker, 1000 tx/s', 'WAL B/tx, 1000 tx/s', 'start-up s', 'own MB' ],
			[ map { [ $_->{n}, sprintf('%.1f', $_->{us}), sprintf('%.0f', $_->{live_cpu}), sprintf('%.0f', $_->{live_wal}), sprintf('%.2f', $_->{start}), sprintf('%.0f', $_->{memory}) ] } @{ $got->{$key} } ],
			sprintf('Single-row transactions on one table, backlogs of %s; medians of %d.', Bench::thousands(_backlog($bench)), _repeat($bench)));
	}
	my $series = sub { my ($key, $figure) = @_; return [ map { [ $_->{n}, $_->{$figure} ] } @{ $got->{$key} } ] };
	$bench->write('growth.svg', Curves::draw(
			{ title => 'us per row copied', x => 'rows of the table', lines => { 'by the clock' => $series->('rows', 'us'), 'CPU, target' => $series->('rows', 'cpu') } },
			{ title => 'us per transaction', x => 'captured tables', lines => { 'catching up' => $series->('tables', 'us'), 'CPU at 1000 tx/s' => $series->('tables', 'live_cpu') } },
			{ title => 'us per transaction', x => 'intervals of gtid_executed', lines => { 'catching up' => $series->('intervals', 'us'), 'CPU at 1000 tx/s' => $series->('intervals', 'live_cpu') } }));
}

1;
