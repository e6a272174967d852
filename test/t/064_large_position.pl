# What a commit costs does not depend on how much was ever applied: the position's row stays one small HOT row, also where the
# source's GTID set has thousands of intervals.
#
# Why: the position is written in each apply transaction.  A set of 10,000 intervals is 100 kB of text, which would be formatted,
# parsed and written to TOAST each time; and a row that is not updated in place grows its table without end.
# How: a source whose gtid_executed has 4000 intervals of another server and two more; many small commits; transactions of many
# servers, so that what is kept beside the set grows large too; the worker stopped, killed with the cluster, and started
# again.  And before that, many commits while the set is small.
# Asserted: all updates of the row are HOT and its table has a few pages; the TOAST table has not grown over the small commits;
# the view shows what the source has executed; the position after each restart is right: contents are equal, no row is a
# surprise. What a worker has done is told to the server's statistics, also when nothing follows: we count by them, and so does autovacuum.
# Not asserted: times.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $intervals = 4000;
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start;

$pg->safe_psql('CREATE EXTENSION capstan');
$my->sql('CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT)');
$my->grant;
$pg->create_server('source', $my);

sub start_anew
{
	my ($name) = @_;

	$pg->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('$name', server => 'source', tables => '{d.*}', truncate_target => true)");
	$pg->safe_psql("SELECT capstan.start_pipeline('$name'); SELECT capstan.wait_for_snapshot('$name', timeout => '180 s')");
}

# Each of them is a group of its own where the worker keeps up; how many there are is counted, not assumed.
sub commit_often
{
	my ($from, $to) = @_;

	for (my $i = $from; $i < $to; $i += 50)
	{
		$my->sql(join '; ', map {; "INSERT INTO d.t VALUES ($_, 1)", "UPDATE d.t SET n = n + 1 WHERE id = $_" } $i .. $i + 49);
	}
}

# How many groups a worker makes of what it gets is its own affair; and it tells its statistics after a commit, if it did not just before.
sub commit_until
{
	my ($code) = @_;

	poll_until(sub {
			$my->sql('UPDATE d.t SET n = n + 1 WHERE id = 1');
			return $code->();
		});
}

sub all_equal
{
	my ($name, $what) = @_;
	(my $executed = $my->gtid_executed) =~ s/\s//g;

	sync_pipeline($pg, $name);
	tables_equal($my, $pg, ['d.*'], $what);
	is($pg->value("SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status WHERE pipeline = '$name'"), 0, "$what: no row was a surprise");
	is($pg->value("SELECT capstan.gtid_contains(applied, '$executed') AND capstan.gtid_contains('$executed', applied) FROM capstan.pipeline_status WHERE pipeline = '$name'"), 't', "$what: the view shows all of the position");
}

my $toast = q{SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'capstan.pipeline_progress'::regclass};
my $pages = q{SELECT pg_relation_size('capstan.pipeline_progress') / 8192};
sub updates { return split /\|/, $pg->value(q{SELECT pg_stat_get_tuples_updated(c) || '|' || pg_stat_get_tuples_hot_updated(c) FROM (VALUES ('capstan.pipeline_progress'::regclass)) v (c)}) }

start_anew('small');
commit_often(1, 1001);
all_equal('small', 'a small set');
commit_until(sub { (updates())[0] >= 20 });
my ($all, $hot) = updates();
is($hot, $all, "all $all updates of the row are HOT");
cmp_ok($pg->value($pages), '<=', 20, 'its table is small');
is($pg->value('SELECT applied_since IS NULL FROM capstan.pipeline_progress'), 't', 'a small set is written whole');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('small')});
$pg->poll_query_until(q{SELECT state FROM capstan.pipeline_status}, 'stopped');
$pg->safe_psql(q{SELECT capstan.drop_pipeline('small')});

my $other = '12345678-1234-1234-1234-123456789abc';
$my->sql("SET GLOBAL gtid_purged = '+$other:" . join(':', map { 3 * $_ . '-' . (3 * $_ + 1) } 1 .. $intervals) . "'");
start_anew('large');
commit_often(1001, 1101);
my $beside = 'SELECT applied_since IS NOT NULL FROM capstan.pipeline_progress';
commit_until(sub { $pg->value($beside) eq 't' });
all_equal('large', 'a large set');
is($pg->value('SELECT length(applied::text) > 20000 AND applied_since IS NOT NULL AND length(applied_since::text) < 1001 FROM capstan.pipeline_progress'), 't',
	'what came since is beside it');
my $size = $pg->value($toast);
cmp_ok($size, '>', 0, 'the set lies in TOAST');
my ($before) = updates();
commit_often(1101, 1501);
all_equal('large', 'more of it');
commit_until(sub { (updates())[0] >= $before + 20 });
($all, $hot) = updates();
cmp_ok($all, '>=', $before + 20, 'the position was written again and again');
is($pg->value($toast), $size, 'the set was not written again');
is($hot, $all, 'all updates of the row are HOT');
cmp_ok($pg->value($pages), '<=', 20, 'its table is small');

# What is beside the set becomes large, too.
$my->sql(join ';', map {; sprintf("SET GTID_NEXT = '00000000-0000-0000-0000-%012d:%d'; INSERT INTO d.t VALUES (%d, 1)", $_, 2 * $_, 2000 + $_) } 1 .. 60);
all_equal('large', 'of many servers');
is($pg->value('SELECT coalesce(length(applied_since::text), 0) < 1001 FROM capstan.pipeline_progress'), 't', 'what came since stays small');

# From what is stored in both.
commit_often(3001, 3051);
commit_until(sub { $pg->value($beside) eq 't' });
all_equal('large', 'before a stop');
is($pg->value($beside), 't', 'something is beside the set');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('large')});
$pg->poll_query_until(q{SELECT state FROM capstan.pipeline_status}, 'stopped');
commit_often(3051, 3101);
$pg->safe_psql(q{SELECT capstan.start_pipeline('large')});
all_equal('large', 'after a stop');
$pg->kill9_postmaster;
$pg->start_again;
commit_often(3101, 3151);
all_equal('large', 'after a crash');

# A commit right after one that has told of itself, and none after it: its counters are saved with it, since its rows are a surprise. (A crash
# begins with new statistics, and what it takes back is counted again; an orderly stop keeps them.)
$pg->restart;
$pg->safe_psql('DELETE FROM d.t WHERE id BETWEEN 3101 AND 3150');
my $inserted = q{SELECT pg_stat_get_tuples_inserted('d.t'::regclass)};
my ($told, $id) = ($pg->value($inserted), 3101);
my $told_at_last = $told + 50;
poll_until(sub {
		$my->sql('UPDATE d.t SET n = n + 1 WHERE id = ' . $id++);
		$pg->safe_psql("SELECT capstan.wait_for_source('large', timeout => '180 s')");
		return $pg->value($inserted) > $told || $id > 3149;
	});
$my->sql("UPDATE d.t SET n = n + 1 WHERE id BETWEEN $id AND 3150");
sync_pipeline($pg, 'large');
ok($pg->poll_query_until($inserted, $told_at_last), 'the statistics have all of it');

done_testing();
