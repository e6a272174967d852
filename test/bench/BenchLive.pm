# make bench, a pipeline beside a source at work: latency, locks, and what it costs when there is nothing to do.
#
# Latency: writer.c commits single-row transactions on MySQL at a fixed rate, open loop (a late one delays none after it), and notes
# when it sent each and when the answer was there. Visible is the commit timestamp of the row's transaction on the target (track_commit_timestamp),
# by the same clock. Listed is "sent to visible", which has MySQL's own execution and commit in it and so is an upper bound of
# commit-to-visible, and "answered to visible", which may be negative: the log is sent when the answer is. The first tenth of the time is left out.
#
# Locks: the same writer on a table that is being copied in short rounds; what table_status says of the locks, and
# what the writer's statements took without the pipeline and with it.
#
# Idle: CPU of the processes of a pipeline with 100 tables, from the scheduler (nanoseconds), while nothing happens.

package BenchLive;

use strict;
use warnings;
use utf8;

use File::Temp ();
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::LockLog;
use Bench;
use Scale;

my $COLUMNS = 'id BIGINT NOT NULL PRIMARY KEY, at DATETIME(6) NOT NULL, note VARCHAR(100) NOT NULL';
my @RATES = (100, 1000, 5000);

# How long each is looked at; less where ROWS says that this is but a trial.
sub _seconds { my ($bench) = @_; return $ENV{SECONDS} || ($bench->rows < 100_000 ? 2 : 8) }

sub _build
{
	my ($rc, $out, $err) = CapstanTest::run_command([ 'make', '-s', '-C', "$CapstanTest::TOP/test/bench", "BUILD=$Bench::OUT" ]);

	die "$out$err" if $rc != 0;
}

# Starts it; its output, for _moments.
sub writer
{
	my ($bench, $table, $first, $rate, $seconds) = @_;
	my $dir = File::Temp->newdir('capstan-bench.XXXXXX', TMPDIR => 1);
	my $pid = CapstanTest::spawn([ "$Bench::OUT/writer", $bench->my->dir . '/mysql.sock', $table, $first, $rate, $seconds, $rate < 500 ? 1 : $rate < 2500 ? 4 : 16 ],
		stdout => "$dir/out", stderr => "$dir/err");

	return CapstanTest::Background->new(pid => $pid, dir => $dir);
}

sub finish
{
	my ($writer) = @_;

	die $writer->errors if $writer->wait != 0;
}

sub latency
{
	my ($bench) = @_;
	my $db = $bench->database('latency');
	my ($first, %got) = (1);

	_build();
	$bench->my->sql("CREATE DATABASE latency; CREATE TABLE latency.l ($COLUMNS)");
	$db->safe_psql("SELECT capstan.create_pipeline('p', server => 'source', tables => '{latency.l}')");
	$bench->start_pipeline($db);
	$db->safe_psql("SELECT capstan.wait_for_snapshot('p')");
	for my $repetition (1 .. $bench->repeat)
	{
		for my $rate ($repetition % 2 ? @RATES : reverse @RATES)
		{
			my $seconds = _seconds($bench);

			$bench->settle;
			push @{ $got{$rate} }, _latency_at($bench, $db, $first, $rate, $seconds);
			$first += $rate * $seconds;
		}
	}
	tables_equal($bench->my, $db, ['latency.l'], 'latency');
	_print_latency($bench, \%got);
	$bench->drop_pipeline($db);
	$bench->pg->safe_psql('DROP DATABASE latency');
	$bench->my->sql('DROP DATABASE latency');
	return \%got;
}

sub _latency_at
{
	my ($bench, $db, $first, $rate, $seconds) = @_;
	my $writer = writer($bench, 'latency.l', $first, $rate, $seconds);
	my $cost = $bench->cost_of(sub { finish($writer) });

	$db->safe_psql("SELECT capstan.wait_for_source('p', timeout => '300 s')");
	my ($row) = $db->query(<<"SQL");
CREATE TEMP TABLE w (id bigint, due bigint, sent bigint, answered bigint);
\\copy w FROM '$writer->{dir}/out'
WITH r AS (SELECT w.*, extract(epoch FROM pg_xact_commit_timestamp(l.xmin)) * 1e6 AS visible FROM w JOIN latency.l l USING (id) WHERE due >= (SELECT min(due) + (max(due) - min(due)) / 10 FROM w))
SELECT count(*), count(*) * 1e6 / (max(answered) - min(sent)), percentile_cont(0.5) WITHIN GROUP (ORDER BY visible - sent) / 1000, percentile_cont(0.99) WITHIN GROUP (ORDER BY visible - sent) / 1000,
  max(visible - sent) / 1000, percentile_cont(0.5) WITHIN GROUP (ORDER BY visible - answered) / 1000, percentile_cont(0.99) WITHIN GROUP (ORDER BY visible - answered) / 1000,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY answered - sent) / 1000.0, percentile_cont(0.99) WITHIN GROUP (ORDER BY answered - sent) / 1000.0, max(sent - due) / 1000.0,
  count(DISTINCT visible)::float / count(*) FROM r;
SQL
	@$cost{qw(count rate median p99 worst answered_median answered_p99 commit_median commit_p99 late commits)} = @$row;
	ok($cost->{count} >= $rate * $seconds * 0.9, "latency at $rate tx/s: every row has a commit timestamp");
	return $cost;
}

sub _print_latency
{
	my ($bench, $got) = @_;
	my @lines;

	for my $rate (@RATES)
	{
		my @cost = @{ $got->{$rate} };
		my $middle = sub { my ($key) = @_; return Bench::median(map { $_->{$key} } @cost) };

		push @lines, [ $rate, sprintf('%.0f', $middle->('rate')), (map { sprintf '%.1f', $middle->($_) } qw(median p99)), sprintf('%.1f', max(map { $_->{worst} } @cost)),
			(map { sprintf '%.1f', $middle->($_) } qw(answered_median answered_p99 commit_median commit_p99)), sprintf('%.1f', max(map { $_->{late} } @cost)),
			sprintf('%.2f', $middle->('commits')), sprintf('%.0f', $middle->('target') / ($rate * _seconds($bench)) * 1e6), sprintf('%.0f', $middle->('wal') / ($rate * _seconds($bench))) ];
	}
	$bench->table('latency', [ 'tx/s wanted', 'had', 'sent to visible ms: median', 'p99', 'worst', 'answered to visible: median', 'p99', 'the commit on MySQL: median', 'p99', 'writer behind at worst', 'commits on the target per tx', 'CPU us per tx, target', 'WAL B/tx' ],
		\@lines, sprintf('Single-row transactions, %d s each; medians of %d, worst of all.', _seconds($bench), $bench->repeat));
}

# ----------------------------------------------------------------------

sub locks
{
	my ($bench) = @_;
	my $db = $bench->database('locks');
	my $seconds = _seconds($bench);
	my $rows = min(1_000_000, int($bench->rows / 2));
	my %got;

	_build();
	$bench->my->sql("CREATE DATABASE locks; USE locks; SET sql_log_bin = 0; CREATE TABLE l ($COLUMNS); INSERT INTO l SELECT n, NOW(6), REPEAT('x', 80) FROM lib.m WHERE n <= $rows; ANALYZE NO_WRITE_TO_BINLOG TABLE l");
	$bench->set($db, 'capstan.range_time' => '20ms', 'capstan.copy_workers' => 2, 'log_min_messages' => 'debug1');
	my $position = $bench->pg->log_position;
	my $writer = writer($bench, 'locks.l', 10_000_000, 1000, $seconds);
	finish($writer);
	$got{without} = [ _took($writer) ];
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{locks.l}')");
	$writer = writer($bench, 'locks.l', 20_000_000, 1000, $seconds);
	sleep 0.5;
	$bench->start_pipeline($db);
	$db->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '600 s')");
	my $busy = $writer->running;
	finish($writer);
	$got{with} = [ _took($writer) ];
	$db->safe_psql("SELECT capstan.wait_for_source('p', timeout => '300 s')");
	tables_equal($bench->my, $db, ['locks.l'], 'locks');
	my ($lock) = $db->query(q{SELECT lock_count, lock_tries, lock_read, lock_flush, lock_write, pause_total_us / 1000.0 / lock_count, pause_worst_us / 1000.0 FROM capstan.pipeline_table});
	my @locks = values %{ CapstanTest::LockLog::read_from($bench->pg->log_path, $position) };
	$got{lock} = $lock;
	$bench->table('locks', [ 'locks', 'tries', 'by READ, FLUSH, WRITE', 'wait ms: p50, p99, worst', 'hold ms: p50, p99, worst', 'stream stands still ms: avg, worst', 'statements without a pipeline ms: p50, p99, worst', 'with' ],
		[ [ @$lock[0, 1], join(', ', @$lock[2 .. 4]), (map { my $what = $_; CapstanTest::LockLog::spread(map { @{ $_->{$what} } } @locks) } qw(wait hold)), sprintf('%.1f, %.1f', @$lock[5, 6]),
			map { join ', ', map { sprintf '%.1f', $_ } @{ $got{$_} } } 'without', 'with' ] ],
		sprintf('A table of %s rows copied in rounds of 20 ms, while 1000 rows/s are inserted into it%s.', Bench::thousands($rows), $busy ? '' : ' (the copy took longer than the writer wrote)'));
	$bench->drop_pipeline($db);
	$bench->pg->safe_psql('DROP DATABASE locks');
	$bench->my->sql('DROP DATABASE locks');
	return \%got;
}

# p50, p99 and worst of what the writer's statements took, in ms.
sub _took
{
	my ($writer) = @_;
	my @took = sort { $a <=> $b } map { my (undef, undef, $sent, $answered) = split /\t/; ($answered - $sent) / 1000 } split /\n/, $writer->output;

	return (Bench::quantile(0.5, @took), Bench::quantile(0.99, @took), $took[-1]);
}

# ----------------------------------------------------------------------

sub idle
{
	my ($bench) = @_;
	my $db = $bench->database('idle');
	my $seconds = _seconds($bench);
	my @lines;

	Scale::make_tables($bench->my, 'idle', 100);
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{idle.*}')");
	sleep 1;
	my %without = _idle_cpu($bench, $seconds);
	$bench->start_pipeline($db);
	$db->safe_psql("SELECT capstan.wait_for_snapshot('p')");
	sleep 1;
	my %with = _idle_cpu($bench, $seconds);
	is((Scale::same_tables($bench->my, $db, 'idle'))[1], undef, 'idle: contents are equal');
	$bench->table('idle', [ 'process', 'without a pipeline, % of a core', 'with one of 100 tables' ],
		[ map { my $name = $_; [ $name, map { defined $_->{$name} ? sprintf('%.2f', $_->{$name} * 100) : '' } \%without, \%with ] } sort keys %with ], "CPU while nothing happens, over $seconds s.");
	$bench->drop_pipeline($db);
	$bench->pg->safe_psql('DROP DATABASE idle');
	$bench->my->sql('DROP DATABASE idle');
	return { without => \%without, with => \%with };
}

# Cores used by each.
sub _idle_cpu
{
	my ($bench, $seconds) = @_;
	my %pids = (
		'capstan launcher' => [ $bench->pg->worker_pids(qr/capstan launcher/) ], 'capstan pipeline' => [ $bench->pg->worker_pids(qr/capstan pipeline/) ],
		'all of Postgres' => [ $bench->pg->postmaster_pid, Bench::children($bench->pg->postmaster_pid) ], 'MySQL' => [ $bench->my->pid ]);
	my %before = map { $_ => _run_time(@{ $pids{$_} }) } keys %pids;

	sleep $seconds;
	return map { $_ => (_run_time(@{ $pids{$_} }) - $before{$_}) / $seconds } grep { @{ $pids{$_} } } keys %pids;
}

# Seconds that the threads of these processes have run.
sub _run_time
{
	my $sum = 0;

	for my $file (map { glob "/proc/$_/task/*/schedstat" } @_)
	{
		open(my $in, '<', $file) or next;
		my ($ns) = (readline($in) // '') =~ /^(\d+)/;
		$sum += ($ns // 0) / 1e9;
	}
	return $sum;
}

1;
