# A worker that is to be replaced does not write any more to a table that is not its own.
#
# Why: remove_table and add_table act at COMMIT, but the old worker lives for some moments longer, and waits for the very lock on the
# target that the caller held. What it writes then into a table that was just emptied for a new copy stays there for ever,
# if the source deletes it before that copy: its delete is left to the copy.
# How: the launcher, which ends the old worker, stands still (SIGSTOP), so that those moments last as long as they must; rows are
# written and deleted on the source meanwhile. With the table taken out and in again in one transaction, in two, in another
# pipeline, and in a pipeline that was stopped.
# Asserted: nothing appears in the target before its new copy, and contents are equal after it.
# Not asserted: how long a replacement takes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'max_worker_processes' => 20 });

$my->grant;
$my->sql(q{CREATE DATABASE s; USE s;
	CREATE TABLE txt (k VARCHAR(20) PRIMARY KEY, v INT); INSERT INTO txt VALUES ('first', 1);
	CREATE TABLE bag (k VARCHAR(20), v INT); INSERT INTO bag VALUES ('first', 1);
	CREATE TABLE num (k INT PRIMARY KEY, v INT); INSERT INTO num VALUES (1, 1);
	CREATE TABLE beat (id INT PRIMARY KEY, n INT); INSERT INTO beat VALUES (1, 0)});
my %row = (txt => "'ghost'", bag => "'ghost'", num => 4711);
my @tables = map { "s.$_" } sort keys %row;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
start_pipeline($pg, 'p', [ @tables, 's.beat' ]);

sub wait_done { $pg->safe_psql("SELECT capstan.wait_for_snapshot('$_[0]', timeout => '180 s')") }

# $sql takes the tables out and in; what the source writes after it must wait for the copy, by pipeline $by.
sub take_out_and_in
{
	my ($name, $by, @sql) = @_;
	my ($launcher) = $pg->worker_pids(qr/capstan launcher/);

	my $beat = $my->value('SELECT n FROM s.beat');

	kill('STOP', $launcher) or die "no launcher: $!";
	# The old worker waits for the locks of this, if the caller is slow to commit.
	my $writer = $my->background(join '', map { my $n = $_; map({ "INSERT INTO s.$_ VALUES ($row{$_}, $n); " } sort keys %row), 'UPDATE s.beat SET n = n + 1; DO SLEEP(0.05); ', map { "DELETE FROM s.$_ WHERE k = $row{$_}; " } sort keys %row } 1 .. 24);
	poll_until(sub { $my->value('SELECT n FROM s.beat') > $beat + 2 });
	$pg->safe_psql($_) for @sql;
	my $seen = '';
	my $until = time() + 0.7;
	$seen .= $pg->value('SELECT (SELECT count(*) FROM s.txt) + (SELECT count(*) FROM s.bag) + (SELECT count(*) FROM s.num)') while time() < $until;
	like($seen, qr/^0+$/, "$name: nothing is written before the copy");
	# Should the old worker be at it all the same: it ends when a row is there.
	if ($seen =~ /[1-9]/)
	{
		my ($old) = $pg->worker_pids(qr/capstan pipeline/);
		$pg->poll_query_until('SELECT count(*) > 0 FROM s.txt', 't', 2);
		kill('STOP', $old);
	}
	$writer->wait;
	kill('CONT', $launcher);
	sleep(0.3);
	kill('CONT', $_) for $pg->worker_pids(qr/capstan pipeline/);
	wait_done($by);
	sync_pipeline($pg, $by);
	tables_equal($my, $pg, \@tables, $name);
	is($pg->incidents("severity = 'halt'"), '', "$name: nothing halted");
}

my $out = join '; ', map { "SELECT capstan.remove_table('p', '$_')" } @tables;
my $in = join '; ', map { "SELECT capstan.add_table('p', '$_', truncate_target => true)" } @tables;
take_out_and_in('in one transaction', 'p', "BEGIN; $out; $in; SELECT pg_sleep(0.3); COMMIT");
take_out_and_in('one after the other', 'p', $out, "$in");

# By hand, and into another pipeline.
take_out_and_in('another pipeline', 'q', $out, 'TRUNCATE s.txt, s.bag, s.num',
	"SELECT capstan.create_pipeline('q', server => 'source', tables => '{s.txt, s.bag, s.num}'); SELECT capstan.start_pipeline('q')");
drop_pipeline($pg, 'q');
$pg->safe_psql($in);
wait_done('p');

# Stopped, and not yet gone.
take_out_and_in('stopped', 'p', "SELECT capstan.stop_pipeline('p')", "BEGIN; $out; $in; COMMIT", "SELECT capstan.start_pipeline('p')");

done_testing();
