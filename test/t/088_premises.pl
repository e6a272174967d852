# What the exactness of the copy rests on: that the lock is needed, that it is missed when it is lost, and that a copy finds out when the target is not what it must be.
#
# Why: G and the views fit each other only because a lock keeps writers out between them. A lock that does nothing, or was lost unnoticed, would show
# in a row that is twice in a table without a key, some day, in somebody else's database.
# How: a build with fault points (src/worker/fault.h). The coordinator stands still after it has read G and before its view is open, and a row is written to a table without a key:
# while the lock is held; when it was given back (the red twin); when the source has killed its session, or all sessions of ours. Then copies into targets
# that hold rows which they must not. A table that is copied anew, whose last change before G the stream leaves out, and the worker ends between the copy's commit and its own.
# A source that says no more while its tables are locked. Two hosts, of which the first one comes back between two rounds.
# Asserted: held, the writer waits and the contents are equal; given back, the row is there twice; killed, the round is tried again and contents are
# equal. Rows in the way halt with snapshot_inexact, whatever the kind of key, without their values. What was left out stays left out. A source that is silent is
# tried again. Locks of another server than the stream's are refused.
# Not asserted: that the pair itself is exact (020), places of crashes (034).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;
use CapstanTest::Proxy;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(fault_points => 1, conf => { 'max_worker_processes' => 20 });

$my->grant;
$my->sql(q{CREATE DATABASE s; USE s; CREATE TABLE bag (v INT); INSERT INTO bag VALUES (1), (1), (2)});
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# One copy of the table; $meanwhile->() between G and the view.
sub copy_meanwhile
{
	my ($name, $point, $action, $meanwhile) = @_;

	$pg->fault_point($point, $action, copy_index => 0);
	start_pipeline($pg, 'p', ['s.bag'], truncate_target => 'true', timeout => '');
	ok($pg->wait_struck(180), "$name: between G and the view");
	$meanwhile->();
	$pg->fault_go;
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
	sync_pipeline($pg, 'p');
}

my $writer;
copy_meanwhile('held', 'g_asked', 'hold', sub {
	$writer = $my->background('INSERT INTO s.bag VALUES (3)');
	$my->wait_executing('INSERT INTO s.bag%');
	sleep(0.5);
	ok($writer->running, 'held: a writer waits');
});
is($writer->wait, 0, 'held: and goes on');
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['s.bag'], 'held');
drop_pipeline($pg, 'p');

copy_meanwhile('given back', 'without_lock', 'say', sub {
	# it was struck before it gives the lock back and asks for G
	ok(poll_until(sub {
				$my->value(q{SELECT COUNT(*) FROM performance_schema.events_statements_current s JOIN performance_schema.threads t USING (THREAD_ID)
					JOIN performance_schema.session_connect_attrs a ON a.PROCESSLIST_ID = t.PROCESSLIST_ID AND a.ATTR_NAME = 'program_name'
					WHERE a.ATTR_VALUE = 'capstan/lock' AND s.SQL_TEXT = 'SELECT @@GLOBAL.gtid_executed' AND s.END_EVENT_ID IS NOT NULL}) == 1;
			}), 'given back: G is there');
	$my->sql('INSERT INTO s.bag VALUES (4)');
});
is($pg->value('SELECT count(*) FROM s.bag WHERE v = 4'), 2, 'given back: a row that was written then is there twice');
drop_pipeline($pg, 'p');

for ([ 'the lock is killed', "= (SELECT OWNER_THREAD_ID FROM performance_schema.metadata_locks WHERE OBJECT_NAME = 'bag' AND LOCK_STATUS = 'GRANTED' AND LOCK_TYPE LIKE 'SHARED%' LIMIT 1)" ],
	[ 'all is killed', 'IS NOT NULL' ])
{
	my ($name, $which) = @$_;
	copy_meanwhile($name, 'g_asked', 'hold', sub {
		my @ids = map { $_->[0] } $my->query("SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = 'capstan' AND THREAD_ID $which");
		ok(@ids > 0, "$name: some session of ours");
		$my->try_sql("KILL $_") for @ids;
		$my->sql('INSERT INTO s.bag VALUES (5)');
	});
	tables_equal($my, $pg, ['s.bag'], $name);
	cmp_ok($pg->value("SELECT count(*) FROM capstan.incident WHERE pipeline = 'p' AND severity = 'retry'"), '>', 0, "$name: it was tried again");
	drop_pipeline($pg, 'p');
}

# ---- rows in the way ----

$my->sql(q{USE s; CREATE TABLE num (k INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO num VALUES (1, 'a'), (2, 'b'), (3, 'c');
	CREATE TABLE txt (k VARCHAR(10) PRIMARY KEY, v VARCHAR(20)); INSERT INTO txt SELECT CONCAT('k', k), v FROM num});
for ([ 'num', "2, 'secret'", qr/meets another one in unique index "num_pkey"/ ], [ 'num', "2, 'b'", qr/meets another one/ ], [ 'txt', "'k2', 'secret'", qr/differs from the one that is already in the target.*Table s\.txt, column v/s ])
{
	my ($table, $row, $says) = @$_;
	$pg->fault_point('lock_held', 'hold', copy_index => 0);
	start_pipeline($pg, 'p', ["s.$table"], truncate_target => 'true', timeout => '');
	ok($pg->wait_struck(180), "$table, $row: before the copy");
	$pg->safe_psql("INSERT INTO s.$table VALUES ($row)");
	$pg->fault_go;
	my $incident = expect_halt($pg, 'p', 'snapshot_inexact', $says);
	unlike(join(' ', map { $_ // '' } values %$incident) . $pg->log, qr/secret/, "$table, $row: no value is told");
	drop_pipeline($pg, 'p');
}

# ---- what the stream leaves out ----

# A row of a table that is to be copied anew is the last one before G: the stream passes it without a commit, and nothing is written for it. When the worker ends after the copy
# and before it commits anything else, the next one must not see it again.
start_pipeline($pg, 'p', [ 's.bag', 's.num' ], truncate_target => 'true');
$pg->fault_point('plan_committed', 'hold', copy_index => 0);
$pg->safe_psql("SELECT capstan.resync_table('p', 's.bag', 'a test')");
ok($pg->wait_struck(180), 'left out: before the lock');
my ($worker) = $pg->worker_pids(qr/capstan pipeline/);
kill('STOP', $worker);
$my->sql('INSERT INTO s.bag VALUES (6), (6)');
$pg->fault_go;
ok($pg->poll_query_until('SELECT count(*) FROM capstan.snapshot_round WHERE gtid_set IS NOT NULL', 1), 'left out: G is there');
$pg->fault_point('settle_begin', 'term');
kill('CONT', $worker);
ok($pg->wait_struck(180), 'left out: the worker ends after the copy');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, [ 's.bag', 's.num' ], 'left out');
is($pg->value("SELECT generation || ' ' || rows_inserted FROM capstan.table_status WHERE source_table = 'bag'"), '2 0', 'left out: it was copied, and not streamed');
drop_pipeline($pg, 'p');

# ---- a source that says no more ----

# Its host is gone, or something between keeps the connections open, when two locks are to be given back. The stream stands still
# meanwhile, so nobody else would find out.
my $stalling = CapstanTest::Proxy->start($my->host, $my->port);
$my->sql('USE s; CREATE TABLE l1 (id INT PRIMARY KEY); INSERT INTO l1 VALUES (1), (2); CREATE TABLE l2 LIKE l1; INSERT INTO l2 VALUES (3)');
$pg->safe_psql(sprintf("CREATE SERVER stalling FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '%s', ssl_mode 'disabled', read_timeout '2', connect_timeout '2');
	CREATE USER MAPPING FOR CURRENT_USER SERVER stalling OPTIONS (user 'capstan', password 'sesam')", $stalling->port));
$pg->fault_point('views_open', 'hold', copy_index => 0);
start_pipeline($pg, 'p', [ 's.l1', 's.l2' ], server => 'stalling', truncate_target => 'true', timeout => '');
ok($pg->wait_struck(180), 'silence: the locks are held');
$stalling->stall;
$pg->fault_go;
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE pipeline = 'p' AND severity = 'retry'", 't'), 'silence: it is not waited for for ever');
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE pipeline = 'p' AND severity = 'retry' AND hint ~ 'read_timeout'", 't'), '... and it says what to set, should the source be slow')
  or diag($pg->safe_psql("SELECT class, message, hint FROM capstan.incident"));
$stalling->pass;
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, [ 's.l1', 's.l2' ], 'silence');
drop_pipeline($pg, 'p');

# ---- two servers ----

# The first of two hosts is not there when the copy begins, and is back when further locks are needed: they would keep nobody out of the tables that are read.
my $back = CapstanTest::MySQL->start(name => 'back', options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $proxy = CapstanTest::Proxy->start($back->host, $back->port);
$proxy->refuse;
$my->sql("CREATE USER 'repl'\@'%' IDENTIFIED BY 'sesam'; GRANT REPLICATION SLAVE ON *.* TO 'repl'\@'%'; USE s; "
	  . join '', map { "CREATE TABLE k$_ (v INT); INSERT INTO k$_ VALUES ($_), ($_); " } 0 .. 7);
$back->sql(sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, SOURCE_USER = 'repl', SOURCE_PASSWORD = 'sesam', SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1; START REPLICA", $my->port));
is($back->sql("SELECT WAIT_FOR_EXECUTED_GTID_SET('" . $my->gtid_executed . "', 180)"), 0, 'two servers: they have the same');
$pg->safe_psql(sprintf("CREATE SERVER pair FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1:%d,127.0.0.1:%d');
	CREATE USER MAPPING FOR CURRENT_USER SERVER pair OPTIONS (user 'capstan', password 'sesam')", $proxy->port, $my->port));
# two locks at a time, until that is enough
$pg->safe_psql('ALTER SYSTEM SET capstan.max_pipeline_connections = 8');
$pg->reload;
$pg->poll_query_until('SHOW capstan.max_pipeline_connections', 8);
$pg->fault_point('plan_committed', 'hold', copy_index => 0);
start_pipeline($pg, 'p', [ map { "s.k$_" } 0 .. 7 ], server => 'pair', timeout => '');
ok($pg->wait_struck(180), 'two servers: the first round is planned');
is($pg->value('SELECT source_uuid FROM capstan.pipeline_status'), $my->value('SELECT @@server_uuid'), 'two servers: with the second');
$pg->safe_psql('ALTER SYSTEM RESET capstan.max_pipeline_connections');
$pg->reload;
$proxy->pass;
$pg->fault_go;
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
sync_pipeline($pg, 'p');
cmp_ok($pg->value("SELECT count(*) FROM capstan.incident WHERE pipeline = 'p' AND class = 'source_identity'"), '>', 0, 'two servers: no lock of the other one is taken for one');
tables_equal($my, $pg, [ map { "s.k$_" } 0 .. 7 ], 'two servers');
drop_pipeline($pg, 'p');

done_testing();
