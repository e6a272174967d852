# make bench, the stream: capstan and Postgres' native logical replication catch up with the same changes.
#
# Each kind of change is written once to MySQL and once to a Postgres publisher, by the same loops, while the pipelines and the subscriptions stand
# still: a backlog. Then each repetition lets a pipeline catch up, and a subscription, one after the other and every other time
# in the other order; repetitions are databases of one target cluster, with the same tables, so that both have the same settings and each repetition
# does all of the work. The last transaction of a backlog is a mark; the time that counts is from starting the pipeline (enabling the subscription)
# until the mark is seen on the target (asked for every 10 ms), less what that takes where the mark is all there is. Rows are counted once
# for each change of a row.
#
# The sending side runs on the same machine: walsender and publisher for one, mysqld for the other; their CPU is listed.
# Native replication is as it comes: text format, synchronous_commit = off, which is capstan's, too.
#
# After each kind of change all tables have the same digest everywhere, and those of the first pipeline equal MySQL's value by value.

package BenchStream;

use strict;
use warnings;
use utf8;

use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use Bench;
use StreamLoad;

my $TIMEOUT = 900;

sub run
{
	my ($bench) = @_;

	return _run($bench, 'stream', $bench->repeat, StreamLoad::kinds($bench));
}

# One long backlog, once.
sub backlog
{
	my ($bench) = @_;

	return _run($bench, 'backlog', 1, StreamLoad::backlog($bench));
}

sub _run
{
	my ($bench, $name, $repeat, @kinds) = @_;
	my %got;
	my @runs = _prepare($bench, $repeat);
	my $mark = 1;

	# what is there before the first measurement: rows for the mix, and the first connections
	_write($bench, StreamLoad::fill($bench), $mark);
	for my $run (@runs) { $run->{catch_up}->($mark) }
	for my $kind (@kinds)
	{
		my $seconds = _write($bench, $kind, ++$mark);

		for my $repetition (1 .. $repeat)
		{
			my @now = grep { $_->{repetition} == $repetition } @runs;

			for my $run ($repetition % 2 ? @now : reverse @now)
			{
				push @{ $got{ $kind->{name} }{ $run->{by} } }, $run->{catch_up}->($mark);
			}
		}
		_compare($bench, $kind, @runs);
		printf "# %s: written in %.0f s\n", $kind->{name}, $seconds;
	}
	_print($bench, $name, $repeat, \%got, @kinds);
	_clean($bench, @runs);
	return \%got;
}

# The databases c1, c2, .. with a pipeline, n1, n2, .. with a subscription; all stand still.
sub _prepare
{
	my ($bench, $repeat) = @_;
	my $publisher = Bench::in_database($bench->publisher, 'bench');
	my ($my, $schema, @runs) = ($bench->my);

	$my->sql(StreamLoad::mysql_tables($bench));
	$bench->publisher->safe_psql('CREATE DATABASE bench');
	for my $repetition (1 .. $repeat)
	{
		my $db = $bench->database("c$repetition");

		$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{bench.*}')");
		$bench->start_pipeline($db);
		$db->safe_psql("SELECT capstan.wait_for_snapshot('p')");
		$bench->stop_pipeline($db);
		# as native replication reaches its publisher
		$db->safe_psql(sprintf "ALTER SERVER source OPTIONS (SET host '%s/mysql.sock')", $my->dir) unless $ENV{TLS};
		push @runs, { by => 'capstan', repetition => $repetition, db => $db, catch_up => sub { _capstan($bench, $db, @_) } };
	}
	# the tables are those that capstan has made
	$schema = _schema($runs[0]{db});
	$publisher->safe_psql("$schema; " . StreamLoad::postgres_procedures($bench) . '; CREATE PUBLICATION p FOR TABLE ' . join(', ', map { "bench.$_" } StreamLoad::tables()));
	for my $repetition (1 .. $repeat)
	{
		my ($name, $db) = ("n$repetition", Bench::in_database($bench->pg, "n$repetition"));

		$bench->pg->safe_psql("CREATE DATABASE $name");
		$db->safe_psql($schema);
		$db->safe_psql(sprintf(q{CREATE SUBSCRIPTION %s CONNECTION '%s' PUBLICATION p WITH (copy_data = false, enabled = false)}, $name, $publisher->connection_string));
		push @runs, { by => 'native', repetition => $repetition, db => $db, catch_up => sub { _native($bench, $db, @_) } };
	}
	return @runs;
}

sub _schema
{
	my ($db) = @_;
	my @words = grep { $_ ne '-X' } $db->psql_words;

	$words[0] =~ s/psql$/pg_dump/;
	my ($rc, $out, $err) = CapstanTest::run_command([ @words, '-s', '-n', 'bench' ]);
	die "pg_dump: $err" if $rc != 0;
	return $out;
}

# Writes the changes to both sources, the mark last; how long that took.
sub _write
{
	my ($bench, $kind, $mark) = @_;
	my $start = time;
	my $publisher = Bench::in_database($bench->publisher, 'bench');
	my $end = "INSERT INTO bench.mark VALUES ($mark, '$kind->{name}')";
	# in a file of its own: a dump reads the file that it starts in from its beginning, and what was before is not part of the measurement
	$bench->my->sql('FLUSH BINARY LOGS');
	# some kinds are written by two sessions, which write different rows
	my @writers = map { $bench->my->background("USE lib; $_") } @{ $kind->{mysql} };

	push @writers, map { $publisher->background("SET synchronous_commit = off; $_") } @{ $kind->{postgres} };
	for (@writers) { die $_->errors if $_->wait != 0 }
	$bench->my->sql($end);
	$publisher->safe_psql($end);
	return time - $start;
}

# From $start->() to the commit of the mark. $stop->() is measured by nothing.
sub _until_mark
{
	my ($bench, $db, $mark, $start, $stop) = @_;
	my $session = Bench::Session->new($db);

	$bench->settle;
	my $cost = $bench->cost_of(sub {
			my ($tick) = @_;
			my $began = time;
			my $give_up = $began + $TIMEOUT;

			$start->();
			while (1)
			{
				return time - $began if $session->query("SELECT id FROM bench.mark WHERE id = $mark");
				$tick->();
				sleep 0.01;
				if (time > $give_up) { Bench::assert_running($db) if $db->{database} =~ /^c/; die "the mark does not come\n" }
			}
		});
	$session->close;
	$stop->();
	$cost->{until_mark} = $cost->{result};
	return $cost;
}

sub _capstan
{
	my ($bench, $db, $mark) = @_;

	return _until_mark($bench, $db, $mark, sub { $bench->start_pipeline($db) }, sub { $bench->stop_pipeline($db) });
}

sub _native
{
	my ($bench, $db, $mark) = @_;
	my $name = $db->{database};

	return _until_mark($bench, $db, $mark, sub { $db->safe_psql("ALTER SUBSCRIPTION $name ENABLE") }, sub {
			$db->safe_psql("ALTER SUBSCRIPTION $name DISABLE");
			poll_until { !$bench->pg->worker_pids(qr/logical replication worker/) } or die "the apply worker does not end\n";
			poll_until { !$bench->publisher->worker_pids(qr/walsender/) } or die "the walsender does not end\n";
		});
}

# Contents after one kind of change.
sub _compare
{
	my ($bench, $kind, @runs) = @_;
	my @tables = map { "bench.$_" } @{ $kind->{tables} };
	my $want = Bench::digests(Bench::in_database($bench->publisher, 'bench'), @tables);
	my ($first) = grep { $_->{by} eq 'capstan' } @runs;

	tables_equal($bench->my, $first->{db}, \@tables, "stream, $kind->{name}");
	is(Bench::digests($_->{db}, @tables), $want, "stream, $kind->{name}, $_->{by} $_->{repetition}: contents are those of the publisher") for @runs;
}

sub _print
{
	my ($bench, $name, $repeat, $got, @kinds) = @_;
	my @lines;
	my %start = map { my $by = $_; $by => Bench::median(map { $_->{until_mark} } @{ $got->{nothing}{$by} }) } 'capstan', 'native';

	for my $kind (grep { $_->{changes} } @kinds)
	{
		my %by = map {
			my @cost = @{ $got->{ $kind->{name} }{$_} };
			my $middle = sub { my ($key) = @_; return Bench::median(map { $_->{$key} } @cost) };
			my $seconds = $middle->('until_mark') - $start{$_};

			# the difference of so short times would tell nothing
			my $shown = $seconds >= 0.1;
			$_ => {
				rate => $shown ? $kind->{changes} / $seconds : undef, transactions => $shown ? $kind->{transactions} / $seconds : undef, seconds => $middle->('until_mark'),
				source => ($middle->('mysql') + $middle->('publisher')) / $kind->{changes} * 1e6, target => $middle->('target') / $kind->{changes} * 1e6,
				wal => $middle->('wal') / $kind->{changes},
				memory => Bench::median(map { $_->{memory}{pipeline} // $_->{memory}{apply} } @cost) }
		} 'capstan', 'native';
		my ($c, $n) = @by{qw(capstan native)};

		push @lines, [
			$kind->{name}, Bench::thousands($kind->{changes}), (map { sprintf '%.2f', $_->{seconds} } $c, $n), (map { _speed($_->{rate}) } $c, $n),
			(map { _speed($_->{transactions}) } $c, $n), $c->{rate} && $n->{rate} ? sprintf('%.2f', $c->{rate} / $n->{rate}) : '',
			map { my $key = $_; join(', ', map { defined $_->{$key} ? sprintf($key =~ /wal|memory/ ? '%.0f' : '%.1f', $_->{$key}) : '' } $c, $n) } qw(source target wal memory) ];
	}
	$bench->table($name, [ 'changes', 'rows', 'capstan s', 'native s', 'capstan rows/s', 'native rows/s', 'capstan tx/s', 'native tx/s', 'ratio', 'CPU s per M rows: source', 'target', 'WAL B/row', 'own MB of the applying worker' ], \@lines,
		sprintf('Medians of %d. Each pair is capstan, native. Seconds include the start-up of %.2f and %.2f s, rates and the ratio do not.', $repeat, @start{qw(capstan native)}));
}

sub _speed { my ($rate) = @_; return defined $rate ? Bench::thousands($rate) : 'too short' }

sub _clean
{
	my ($bench, @runs) = @_;

	for my $run (@runs)
	{
		my $db = $run->{db};

		if ($run->{by} eq 'capstan') { $bench->drop_pipeline($db) }
		else { $db->safe_psql("DROP SUBSCRIPTION $db->{database}") }
		$bench->pg->safe_psql("DROP DATABASE $db->{database}");
	}
	$bench->my->sql('DROP DATABASE bench');
	$bench->publisher->safe_psql('DROP DATABASE bench');
}

1;
