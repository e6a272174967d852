# A lock connection that has been idle for long is opened anew, and serves all rounds after that.
#
# Why: the source ends idle lock connections after 30 s (they must not block anybody for longer if we vanish), so the coordinator replaces one that
# has not been used for 20 s. A round takes so long when the target is locked, or the stream has to catch up. The new connection was once
# given the life of one round, and then used in the next: memory that was freed.
# How: the target is locked for 21 s in the first round of a table that is copied in many; one copy worker.
# Asserted: the lock connection is another one after that, rounds follow, no worker fails, nor has one crashed (then the server
# begins anew, and the copy goes on as if nothing had happened), contents are equal.
# Not asserted: batches of small tables and consistent snapshots, which have connections of their own kind.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $IDLE = 21;
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'20ms'", 'capstan.copy_workers' => 1, 'capstan.max_range_rows' => 2000 });

$my->sql(<<'SQL');
SET cte_max_recursion_depth = 100000;
CREATE DATABASE s; USE s; CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(100));
INSERT INTO a WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT i, REPEAT('x', i % 100) FROM n;
ANALYZE TABLE a;
SQL
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql("SELECT capstan.create_pipeline('p', server => 'source', tables => '{s.*}')");

sub lock_connection
{
	return $my->value("SELECT MAX(PROCESSLIST_ID) FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE = 'capstan/lock'");
}
sub rounds { return $pg->value('SELECT round FROM capstan.snapshot_round') }

# A lock on the target, and how to end it.
sub hold { return $pg->background("BEGIN; LOCK TABLE s.a IN SHARE MODE; SELECT pg_sleep($_[0])") }
sub let_go { $pg->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep($_[0])%' AND pid <> pg_backend_pid()") }
sub held { return $pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = 's.a'::regclass AND mode = 'ShareLock' AND granted = $_[0]", 1) }

# It begins anew with all others when a process has crashed.
sub checkpointer_start { return $pg->value("SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'") }

my $up = checkpointer_start();
my $holder = hold(599);
held('true');
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 's.a'::regclass AND NOT l.granted AND a.backend_type = 'capstan copy'"),
	'the first round waits for the target');
my $first = lock_connection();
my $before = rounds();
sleep($IDLE);
my $writer = $my->writer(sub { my ($n) = @_; select(undef, undef, undef, 0.01); "UPDATE s.a SET v = 'w$n' WHERE id = " . (1 + $n * 7919 % 30000) });
# The next one comes after the copy of this round, and holds the round after it: else all could be copied, and the connection gone, before anybody looks.
my $next = hold(598);
held('false');
let_go(599);
ok(poll_until(sub { (lock_connection() // $first) != $first }), 'the lock connection is a new one');
let_go(598);
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
cmp_ok(rounds() - $before, '>', 5, 'it has served many rounds');
is($pg->value("SELECT string_agg(class || ': ' || message, '; ') FROM capstan.incident WHERE severity IN ('retry', 'halt')"), undef, 'no worker has failed');
is(checkpointer_start(), $up, '... or crashed');
$writer->stop;
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['s.*'], 'after it');
done_testing;
