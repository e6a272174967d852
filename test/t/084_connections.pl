# Connections to the source are bounded, and what cannot have its set waits without one.
#
# Why: a MySQL that has no connection left turns its applications away; and pipelines that each hold half of what they need wait for ever.
# How: three pipelines that want to copy at the same time, under bounds that let one or two of them; locks on targets hold copies up, so that
# it is sure who must wait; a pipeline stopped, a copy worker killed so that Postgres restarts. The account on
# the source has MAX_USER_CONNECTIONS just as high as the bound, so that MySQL itself refuses the first connection too many, and its process
# list is sampled all the while.
# Asserted: no sample is above the bound and no connection was refused; who waits is shown as waiting, with no connection, and comes in order;
# SQL functions still get a connection; a small pipeline overtakes one that cannot get its set anyway; all of them complete,
# contents are equal; after all of it nothing is counted that is not there.
# Not asserted: sources that are not MySQL servers of their own; two calls of SQL functions at a time.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--sync-binlog=0', '--innodb-flush-log-at-trx-commit=0' ]);
my $pg = CapstanTest::Postgres->start(conf => {
		'max_worker_processes' => 24, 'max_locks_per_transaction' => 500, 'client_connection_check_interval' => "'100ms'",
		'capstan.max_source_connections' => 11 });

my $sql = '';
for my $schema (qw(a b c d e))
{
	$sql .= "CREATE DATABASE $schema; USE $schema;\n";
	$sql .= "CREATE TABLE t$_ (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20)); INSERT INTO t$_ (v) VALUES ('$schema'), ('$_');\n" for 1 .. 12;
}
$my->sql($sql . <<'SQL');
CREATE DATABASE sampled; USE sampled; CREATE TABLE most (n INT, samples INT); CREATE TABLE stop (id INT PRIMARY KEY);
DELIMITER //
CREATE PROCEDURE sample()
BEGIN
  DECLARE n, most, samples INT DEFAULT 0;
  SET sql_log_bin = 0;
  WHILE NOT EXISTS (SELECT * FROM stop) DO
    SELECT COUNT(*) INTO n FROM performance_schema.processlist WHERE user = 'capstan';
    SET most = GREATEST(n, most), samples = samples + 1;
    DO SLEEP(0.003);
  END WHILE;
  INSERT INTO most VALUES (most, samples);
  DELETE FROM stop;
END //
SQL
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my @writers = map { my $schema = $_; $my->writer(sub { sleep 0.02; "INSERT INTO $schema.t" . (1 + $_[0] % 12) . " (v) VALUES ('w$_[0]')" }) } qw(a b c);

my $sampler;

sub bound
{
	my ($n) = @_;

	$my->sql("ALTER USER capstan WITH MAX_USER_CONNECTIONS $n");
	$pg->safe_psql("ALTER SYSTEM SET capstan.max_source_connections = $n");
	$pg->reload;
	$sampler = $my->background('USE sampled; CALL sample()');
}

# The highest number of connections since bound(); no test without at least some samples.
sub never_above
{
	my ($n) = @_;

	$my->sql('SET sql_log_bin = 0; DELETE FROM sampled.most; INSERT INTO sampled.stop VALUES (1)');
	$sampler->wait;
	my ($row) = $my->query('SELECT n, samples FROM sampled.most');
	cmp_ok($row->[1], '>', 50, "$row->[1] samples");
	cmp_ok($row->[0], '<=', $n, "never above $n, at most $row->[0]");
	is($pg->safe_psql("SELECT message FROM capstan.incident WHERE severity <> 'warning' AND sqlstate NOT IN ('57P01', '57P02')"), '', '... and none was refused');
}

sub create { $pg->safe_psql("SELECT capstan.create_pipeline('$_', server => 'source', tables => '{$_.*}', truncate_target => true)") for @_ }
sub start { $pg->safe_psql("SELECT capstan.start_pipeline('$_')") for @_ }
sub stop { $pg->safe_psql("SELECT capstan.stop_pipeline('$_')") for @_ }
sub status { join ' ', map { join ':', @$_ } $pg->query("SELECT pipeline, state, source_connections FROM capstan.pipeline_status WHERE pipeline IN ('" . join("','", @_) . "') ORDER BY 1") }
sub state_is { my ($name, $state, $why) = @_; ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$name'", $state), "$name: $why") or diag(status('a' .. 'e')) }

sub complete
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for (@_)
	{
		my ($rc, undef, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('$_', timeout => '180 s')");
		is($rc, 0, "$_: complete") or diag($err, status('a' .. 'e'));
	}
}

# A lock on a target table, until ->stop.
sub hold
{
	my ($table) = @_;
	my $psql = $pg->background("BEGIN; LOCK TABLE $table; SELECT pg_sleep(1800)");

	$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted", 1);
	return $psql;
}

my ($rc, undef, $err) = $pg->psql('ALTER SYSTEM SET capstan.max_source_connections = 5');
like($err, qr/must be at least 6, or 0 for no bound/, 'a bound that is too low for any snapshot is refused');

# ---- one at a time: 6 to copy, 2 to stream

bound(11);
create(qw(a b c));
$pg->safe_psql("SELECT capstan.create_pipeline('e', server => 'source', tables => '{e.*}', snapshot => 'never')");
my $lock = hold('a.t12');
start('a');
state_is('a', 'snapshot', 'the first one copies');
start('b');
state_is('b', 'waiting', 'the second one waits');
start('c');
state_is('c', 'waiting', 'the third one, too');
start('e');
state_is('e', 'waiting', 'what it needs is free, but others came before');
sleep 1;
like(status(qw(a b c e)), qr/^a:snapshot:\d+ b:waiting:0 c:waiting:0 e:waiting:0$/, 'who waits holds nothing');
stop('e');
is($my->value("SELECT COUNT(*) FROM performance_schema.session_connect_attrs WHERE attr_value REGEXP 'capstan/.* [bc]'"), 0, '... not on the source either');
ok(poll_until(sub { $pg->log_contains(qr/capstan pipeline "b": waits for 6 connections to sources/) }), '... the log says so');
is(($pg->psql(q{SELECT * FROM capstan.preflight('source', '{d.*}')}))[0], 0, 'preflight has a connection nevertheless');
$lock->stop;
complete(qw(a b c));
is($pg->value(q{SELECT string_agg(source_schema, '' ORDER BY first) FROM (SELECT source_schema, min(copy_started_at) AS first, lag(max(copy_finished_at)) OVER (ORDER BY min(copy_started_at)) AS before FROM capstan.pipeline_table GROUP BY 1) x WHERE before IS NULL OR before < first}),
	'abc', 'they copied in order of arrival, one after the other');
sync_pipeline($pg, $_) for qw(a b c);
ok($pg->poll_query_until('SELECT sum(source_connections) FROM capstan.pipeline_status', 6), 'what is copied keeps its stream alone');
never_above(11);
drop_pipeline($pg, $_) for qw(a b c);
$pg->safe_psql('DELETE FROM capstan.incident');

# ---- two at a time; one is stopped, a copy worker is killed

bound(15);
create(qw(a b c));
$lock = hold('a.t12');
my $other = hold('b.t12');
my $third = hold('c.t12');			# or it could be done before anyone has looked
start(qw(a b));
state_is($_, 'snapshot', 'copies') for qw(a b);
start('c');
state_is('c', 'waiting', 'waits while two copy');
stop('b');
state_is('c', 'snapshot', 'goes on when one of them is stopped');
start('b');
state_is('b', 'waiting', 'now it is its turn to wait');
# One that a lock holds up, or it could be done and gone.
my $victim;
ok(poll_until(sub { ($victim) = $pg->worker_pids(qr/capstan copy "[ac]"/) }), 'a copy worker is at work');
my $from = $pg->log_position;
kill('KILL', $victim);
$pg->wait_restarted($from);
$_->stop for $other, $third, $lock;
complete(qw(a b c));
sync_pipeline($pg, $_) for qw(a b c);
$_->stop for @writers;
ok($pg->poll_query_until('SELECT sum(source_connections) FROM capstan.pipeline_status', 6), 'nothing is counted twice, nothing forgotten');
never_above(15);

# ---- who cannot get its set anyway does not stand in the way; and a pipeline's share

$pg->safe_psql('ALTER SYSTEM SET capstan.max_pipeline_connections = 5');
bound(9);
create('d');
$lock = hold('d.t12');
start('d');
state_is('d', 'waiting', 'three streams leave too little');
start('e');
state_is('e', 'streaming', 'streams nevertheless');
stop(qw(a b));
sleep 1.5;
is(status('d'), 'd:waiting:0', 'd: still too little');
stop('c');
state_is('d', 'snapshot', 'gets going when there is room');
# the copy worker is started a moment after that
ok($pg->poll_query_until("SELECT copy_workers || ' ' || source_connections FROM capstan.pipeline_status WHERE pipeline = 'd'", '1 5'), 'd: no more than its share');
sleep 1;
is($pg->value("SELECT copy_workers || ' ' || source_connections FROM capstan.pipeline_status WHERE pipeline = 'd'"), '1 5', '... nor later');
$lock->stop;
complete('d');
sync_pipeline($pg, 'd');
never_above(9);

bound(11);
start(qw(a b c));
sync_pipeline($pg, $_) for qw(a b c);
tables_equal($my, $pg, [qw(a.* b.* c.* d.*)], 'after all of it');
is($pg->value("SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status"), 0, 'no row was a surprise');
never_above(11);

done_testing();
