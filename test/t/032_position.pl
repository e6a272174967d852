# The position: it moves on without rows, it lives with the data, and it is never believed against the evidence.
#
# Why: promises P2 and P6. A position that stands still pins old binary logs until they are purged; one that the
# source cannot continue from must stop the pipeline and not be papered over.
# How: writes to a table that is not captured, then binary logs purged and Postgres
# restarted; logs purged while the pipeline is stopped; RESET BINARY LOGS AND GTIDS; a standby that is promoted
# while its primary still has the same pipeline.
# Asserted: what streams on and what halts, and with which class and hint; a halt stays over a restart and comes
# again after start_pipeline; rows are equal where they should be.
# Not asserted: crashes (030), restarts in general (031).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'10ms'" });

$my->sql(q{
	CREATE DATABASE shop; USE shop;
	CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT); INSERT INTO t (v) VALUES ('old');
	CREATE TABLE idle (id INT PRIMARY KEY); CREATE TABLE elsewhere (id INT AUTO_INCREMENT PRIMARY KEY)});
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

sub create
{
	$pg->safe_psql(q{SELECT capstan.create_pipeline('p', server => 'source', tables => '{shop.t,shop.idle}', truncate_target => true);
		SELECT capstan.start_pipeline('p')});
	$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s'); SELECT capstan.wait_for_snapshot('p')});
}

sub state_is
{
	my ($state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', $state), $name)
	  or diag($pg->safe_psql('SELECT class, message, detail FROM capstan.incident ORDER BY id DESC LIMIT 3'));
}

sub arrives
{
	my ($name, $where) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$where //= $pg;
	$my->sql("INSERT INTO shop.t (v) VALUES ('$name')");
	my ($rc, $out, $err) = $where->psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
	is($rc, 0, "$name: goes on") or diag($err);
	tables_equal($my, $where, ['shop.t'], $name);
}

sub halts
{
	my ($class, $hint, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	state_is('halted', "$name: halts");
	my ($found) = $pg->query(q{SELECT class, concat(message, ' ', detail), hint FROM capstan.incident WHERE severity = 'halt' ORDER BY id DESC LIMIT 1});
	is($found->[0], $class, "$name: with its class") or diag($found->[1]);
	like($found->[2], $hint, "$name: and a hint that names the remedy");
	$pg->restart;
	sleep(2);
	is($pg->value('SELECT state FROM capstan.pipeline_status'), 'halted', "$name: stays halted over a restart");
	is(scalar($pg->worker_pids(qr/capstan pipeline/)), 0, "$name: without a worker");
	my $before = $pg->value(q{SELECT count(*) FROM capstan.incident WHERE severity = 'halt'});
	$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
	ok($pg->poll_query_until(q{SELECT count(*) FROM capstan.incident WHERE severity = 'halt'}, $before + 1),
		"$name: start_pipeline lets it try again, and it halts again");
	return $found->[1];
}

sub drop
{
	$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'p'");
	$pg->safe_psql(q{SELECT capstan.drop_pipeline('p')});
}

# ---- captured tables are idle, others are not

create();
for my $mode ('fast', 'immediate')
{
	$my->sql('INSERT INTO shop.elsewhere VALUES ()') for 1 .. 20;
	my $executed = $my->gtid_executed;
	ok($pg->poll_query_until("SELECT applied OPERATOR(capstan.@>) '$executed'::capstan.gtid_set FROM capstan.pipeline_progress", 't'),
		'transactions without rows of ours move the position in the catalog');
	my $purged = $my->purge_logs;
	isnt($purged, '', "binary logs are purged: $purged");
	$pg->restart($mode);
	state_is('streaming', "after a restart ($mode) it streams on");
	arrives("after idle tables, purged logs and a restart ($mode)");
}

# ---- GTIDs given by hand: empty transactions, gaps, and numbers that go down

my $uuid = '99999999-8888-7777-6666-555555555555';
$my->sql(join '; ', (map { "SET gtid_next = '$uuid:$_'; BEGIN; COMMIT" } 10, 5, 7, 12),
	"SET gtid_next = '$uuid:1000000000000'; INSERT INTO shop.t (v) VALUES ('by hand'); SET gtid_next = '$uuid:6'; INSERT INTO shop.t (v) VALUES ('and before it')");
arrives('after GTIDs given by hand');
is($pg->value(qq{SELECT applied OPERATOR(capstan.@>) '$uuid:5-7:10:12:1000000000000'::capstan.gtid_set
	AND NOT applied OPERATOR(capstan.@>) '$uuid:8'::capstan.gtid_set FROM capstan.pipeline_progress}), 't', 'the position holds them, and not what lies between');
$pg->safe_psql('SELECT pg_terminate_backend(pid) FROM capstan.pipeline_status');
arrives('after another connect from there');

# ---- purged while it was stopped

$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
state_is('stopped', 'stopped');
$my->sql(q{INSERT INTO shop.t (v) VALUES ('never to be seen in the log')});
$my->purge_logs;
$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
my $text = halts('gtids_purged', qr/restart_snapshot/, 'transactions that are needed were purged');
like($text, qr/[0-9a-f]{8}-.*:\d+/, 'it says which');
drop();
create();
arrives('after a new copy');

# ---- the source is reset

$my->sql('RESET BINARY LOGS AND GTIDS');
$my->sql(q{INSERT INTO shop.t (v) VALUES ('after the reset')});
state_is('halted', 'a source that was reset: halts');
is($pg->value(q{SELECT class FROM capstan.incident WHERE severity = 'halt' ORDER BY id DESC LIMIT 1}), 'position_ahead_of_source', 'with its class');
drop();
create();
arrives('after a new copy again');

# It was reset and has made as many new transactions as were applied of the old ones, so that the
# sets alone show nothing: while the pipeline is stopped, and so fast that it has not even noticed.
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
state_is('stopped', 'stopped');
$my->sql('RESET BINARY LOGS AND GTIDS; ' . q{INSERT INTO shop.t (v) VALUES ('again'); } x 100);
$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
halts('source_diverged', qr/restart_snapshot/, 'a source that has used its GTIDs again');
drop();
create();
arrives('after a third copy');
# The worker stands still meanwhile, or it could come back before there are as many.
my ($worker) = $pg->worker_pids(qr/capstan pipeline/);
kill('STOP', $worker);
$my->sql('RESET BINARY LOGS AND GTIDS; ' . q{INSERT INTO shop.t (v) VALUES ('and again'); } x 300);
kill('CONT', $worker);
state_is('halted', 'the same under a running pipeline: halts');
is($pg->value(q{SELECT class FROM capstan.incident WHERE severity = 'halt' ORDER BY id DESC LIMIT 1}), 'source_diverged', 'with its class');
drop();
create();
arrives('after a fourth copy');

# ---- GTIDs that are executed, but in no binary log: a snapshot round waits for them in vain

$my->sql(q{CREATE TABLE shop.big (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT);
	INSERT INTO shop.big (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT REPEAT('x', 100) FROM s;
	INSERT INTO shop.big (v) SELECT a.v FROM shop.big a, shop.big b WHERE b.id <= 10;
	CREATE TABLE shop.large LIKE shop.big; INSERT INTO shop.large SELECT * FROM shop.big});
# the round waits for a lock, and is not to be cut for that
$pg->safe_psql(q{ALTER SYSTEM SET capstan.range_time = '20s'});
$pg->reload;
$pg->safe_psql(q{SELECT capstan.create_pipeline('q', server => 'source', tables => '{shop.big,shop.large}')});
my $locker = $pg->background('BEGIN; LOCK TABLE shop.big IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)');
$pg->poll_query_until(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'shop.big'::regclass AND mode = 'AccessExclusiveLock' AND granted});
$pg->safe_psql(q{SELECT capstan.start_pipeline('q')});
ok($pg->poll_query_until(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'shop.big'::regclass AND NOT granted}), 'a round is being copied');
$my->sql(q{SET GLOBAL gtid_purged = '+11111111-2222-3333-4444-555555555555:1-5'});
$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()});
$locker->wait;
ok($pg->poll_query_until(q{SELECT state FROM capstan.pipeline_status WHERE pipeline = 'q'}, 'halted'),
	'a snapshot does not wait for what is in no binary log')
  or diag($pg->safe_psql(q{SELECT * FROM capstan.pipeline_status WHERE pipeline = 'q'}));
is($pg->value(q{SELECT class FROM capstan.incident WHERE pipeline = 'q' AND severity = 'halt'}), 'gtids_purged', 'with its class');
is($pg->value(q{SELECT string_agg(state, ', ' ORDER BY state) FROM capstan.table_status WHERE pipeline = 'q'}), 'copying, streaming', 'in its second round');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('q')});
$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'q'");
$pg->safe_psql(q{SELECT capstan.drop_pipeline('q')});
state_is('streaming', 'the other pipeline was connected and goes on');
$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM capstan.pipeline_status});
state_is('halted', 'until it connects again');
drop();
create();
arrives('after a fifth copy');

# ---- a standby is promoted

my $standby = CapstanTest::Postgres->start(name => 'standby');
$standby->stop;
my $words = CapstanTest::ctl('pg_psql_words', $pg->dir);
(my $bin = (split /\n/, $words)[0]) =~ s{/psql$}{};
my $data = $standby->data;
for my $command (['rm', '-rf', $data],
	["$bin/pg_basebackup", '-D', $data, '-h', $pg->host, '-p', 5432, '-U', 'postgres', '-R', '--checkpoint=fast'],
	$> == 0 ? ['chown', '-R', 'postgres:', $data] : ())
{
	my ($rc, $out, $err) = CapstanTest::run_command($command);
	is($rc, 0, $command->[0] =~ s{.*/}{}r) or diag($err);
}
$standby->append_conf(sprintf "unix_socket_directories = '%s'", $standby->host);
$standby->start_again;
arrives('on the primary');
ok($standby->poll_query_until(q{SELECT count(*) > 0 FROM shop.t WHERE v = 'on the primary'}), 'the standby follows');
is(scalar($standby->worker_pids(qr/capstan/)), 0, 'nothing of capstan runs on a standby');
is($standby->value('SELECT state FROM capstan.pipeline_status'), 'standby', 'and the view says so');
$pg->stop('immediate');
$my->sql(q{INSERT INTO shop.t (v) VALUES ('between two primaries')});
$standby->safe_psql('SELECT pg_promote()');
arrives('after the promotion', $standby);

# The old primary comes back, too: both stream with the same identity, and the source lets only one.
$pg->start_again;
ok(poll_until(
		sub {
			$my->sql(q{INSERT INTO shop.t (v) VALUES ('to both')});
			sleep(0.2);
			my $n = 0;
			$n += eval { $_->value(q{SELECT count(*) FROM capstan.incident WHERE class = 'server_id_taken'}) } // 0 for $pg, $standby;
			return $n > 0;
		}), 'two copies of a pipeline are told that they are two');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
arrives('after one of them was stopped', $standby);
$standby->safe_psql(q{SELECT capstan.stop_pipeline('p')});
$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
arrives('and the other one, when the first was stopped', $pg);

done_testing();
