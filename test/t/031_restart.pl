# What is down comes back; what is stopped or halted stays so; a bad network does no harm.
#
# Why: promises P1 and P2; nobody looks after a pipeline at night.
# How: three pipelines, of which one streams, one is stopped, one is halted, through restarts of
# Postgres; the streaming one goes through a proxy that stalls, cuts, and flips bits; the
# source goes away; somebody locks a target table; what asks for a start or a stop is rolled back.
# Asserted: states and incidents say what happened, retries are resolved by the recovery and
# backed off, nothing of a damaged transaction is applied, no connection is waited for
# for ever, rows are equal in the end.
# Not asserted: kills under load (030), positions that are lost (032).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::Proxy;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { max_prepared_transactions => 5, 'capstan.lock_timeout' => "'500ms'" });
my $proxy = CapstanTest::Proxy->start($my->host, $my->port);

$my->sql(q{
	CREATE DATABASE shop; USE shop;
	CREATE TABLE run (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT); INSERT INTO run (v) VALUES ('old');
	CREATE TABLE stopped LIKE run; CREATE TABLE halted LIKE run; CREATE TABLE other LIKE run});
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
# The proxy has to see what goes through it.
$pg->safe_psql(sprintf q{
	CREATE SERVER proxied FOREIGN DATA WRAPPER capstan
		OPTIONS (host '127.0.0.1', port '%s', ssl_mode 'disabled', read_timeout '2', connect_timeout '2');
	CREATE USER MAPPING FOR CURRENT_USER SERVER proxied OPTIONS (user 'capstan', password 'sesam')}, $proxy->port);
$pg->safe_psql(q{
	SELECT capstan.create_pipeline('run', server => 'proxied', tables => '{shop.run}');
	SELECT capstan.create_pipeline('stopped', server => 'source', tables => '{shop.stopped}');
	SELECT capstan.create_pipeline('halted', server => 'source', tables => '{shop.halted}');
	SELECT capstan.start_pipeline('run'); SELECT capstan.start_pipeline('stopped'); SELECT capstan.start_pipeline('halted')});
$pg->safe_psql("SELECT capstan.wait_for_snapshot('$_', timeout => '180 s'); SELECT capstan.wait_for_source('$_', timeout => '180 s')") for qw(run stopped halted);

sub state_is
{
	my ($pipeline, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$pipeline'", $state), $name);
}

# Of the pipeline "run", from its next connect on.
sub timeouts
{
	my ($read, $connect) = @_;

	$pg->safe_psql("ALTER SERVER proxied OPTIONS (SET read_timeout '$read', SET connect_timeout '$connect');
		SELECT capstan.stop_pipeline('run')");
	$pg->safe_psql("SELECT capstan.start_pipeline('run')");
}

# So many tries there were.
sub tries { return $pg->value('SELECT coalesce(sum(occurrences), 0) FROM capstan.incident') }

sub arrives
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_source('run', timeout => '180 s')});
	is($rc, 0, "$name: goes on") or diag($err);
	tables_equal($my, $pg, ['shop.run'], $name);
	ok($pg->poll_query_until(q{SELECT count(*) FROM capstan.incident WHERE severity = 'retry' AND resolved_at IS NULL}, 0),
		"$name: retries are resolved");
}

# An incident that was over for a short time is opened again, so what is new has a newer last_at.
sub now
{
	return $pg->value('SELECT clock_timestamp()');
}

sub incident_comes
{
	my ($since, $re, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @found;
	ok(CapstanTest::poll_until(
			sub {
				@found = $pg->query("SELECT class, message FROM capstan.incident WHERE pipeline = 'run' AND severity = 'retry' AND last_at > '$since'");
				return grep { "@$_" =~ $re } @found;
			}), $name)
	  or diag(join "\n", map { "@$_" } @found);
}

# ---- stopped and halted stay so

$pg->safe_psql(q{SELECT capstan.stop_pipeline('stopped')});
$my->sql(q{ALTER TABLE shop.halted ADD COLUMN w INT});
state_is('halted', 'halted', 'DDL on a captured table halts');
state_is('stopped', 'stopped', 'stop');
my $halts = $pg->value(q{SELECT count(*) FROM capstan.incident WHERE severity = 'halt'});

for my $mode ('fast', 'immediate')
{
	$pg->restart($mode);
	$my->sql(q{INSERT INTO shop.run (v) VALUES ('after a restart')});
	arrives("after a restart ($mode)");
	is($pg->value(q{SELECT string_agg(pipeline || ' ' || state, ', ' ORDER BY pipeline) FROM capstan.pipeline_status}),
		'halted halted, run streaming, stopped stopped', "$mode: running runs, stopped is stopped, halted is halted");
	is(scalar($pg->worker_pids(qr/capstan pipeline/)), 1, "$mode: and there is one worker");
	is($pg->value(q{SELECT count(*) FROM capstan.incident WHERE severity = 'halt'}), $halts, "$mode: and no new halt");
}
$pg->safe_psql(q{SELECT capstan.resume_pipeline('halted', actor_note => 'looked at it')});
ok($pg->poll_query_until(q{SELECT count(*) FROM capstan.incident WHERE severity = 'halt' AND class = 'ddl_on_captured_table'}, $halts + 1),
	'resume_pipeline lets it try again, and it halts again');
state_is('halted', 'halted', 'halted');
is($pg->safe_psql(q{SELECT resolved_by, resolution FROM capstan.incident WHERE severity = 'halt' AND resolved_at IS NOT NULL}), join("\n", ('postgres|looked at it') x $halts), 'the first halt is resolved, with who and why');

# ---- the source goes away

my $since = now();
$my->stop;
state_is('run', 'retrying', 'a source that is down: retrying');
isnt($pg->value(q{SELECT last_error FROM capstan.pipeline_status WHERE pipeline = 'run'}) // '', '', 'with an error to look at');
sleep(2);
my ($rows, $occurrences) = split /\|/, $pg->safe_psql("SELECT count(*), sum(occurrences) FROM capstan.incident WHERE pipeline = 'run' AND last_at > '$since'");
cmp_ok($rows, '<=', 3, "tries become fewer incidents ($rows for $occurrences tries)");
$my->start_again;
$my->sql(q{INSERT INTO shop.run (v) VALUES ('after the source was down')});
arrives('after the source was down');

# ---- a network that is no good

$since = now();
$proxy->stall;
$my->sql(q{INSERT INTO shop.run (v) VALUES ('held back')});
my $start = time();
incident_comes($since, qr/silent|Lost connection/, 'a half-open connection is noticed');
note(sprintf 'after %.1f s', time() - $start);
$proxy->pass;
arrives('after a half-open connection');

# A timeout that is longer than the bound on what must not wait for it. That for connecting is waited for, with Oracle's library.
timeouts(120, 8);
arrives('with long timeouts');
$proxy->stall;
sleep(0.3);
$start = time();
$pg->safe_psql(q{SELECT capstan.stop_pipeline('run')});
state_is('run', 'stopped', 'stops although the source is silent');
cmp_ok(time() - $start, '<', 60, sprintf 'within %.1f s', time() - $start);
$pg->safe_psql(q{SELECT capstan.start_pipeline('run')});
state_is('run', 'connecting', 'connects, and gets no answer');
$start = time();
$pg->stop('fast');
cmp_ok(time() - $start, '<', 60, sprintf 'a shutdown waits for a silent source no longer than connecting may take (%.1f s)', time() - $start);
$proxy->pass;
$pg->start_again;
arrives('after a stop and a shutdown with a silent source');
timeouts(2, 2);

# What takes longer than a source may be silent, by the stream and by the copy, while bytes come.
$since = now();
$proxy->slow(1e6);
$my->sql(q{INSERT INTO shop.run (v) VALUES (REPEAT('slow', 1250000))});
$pg->safe_psql(q{SELECT capstan.wait_for_source('run', timeout => '180 s'); SELECT capstan.resync_table('run', 'shop.run', 'a slow network')});
$pg->safe_psql(q{SELECT capstan.wait_for_snapshot('run', timeout => '180 s'); SELECT capstan.wait_for_source('run', timeout => '180 s')});
$proxy->pass;
arrives('over a slow network');
is($pg->incidents("pipeline = 'run' AND occurred_at > '$since' AND severity IN ('halt', 'retry')"), '', 'that is slow is not taken for dead');

# What is written takes longer than the source may be silent, which nobody has asked for anything meanwhile: more tables than copy workers, of
# which the first ones take that long when they have been read.
my @late = map { "late$_" } 1 .. 3;
$my->sql("USE shop; " . join(' ', map { "CREATE TABLE $_ (id INT PRIMARY KEY); INSERT INTO $_ VALUES (1);" } @late));
$pg->create_server('hasty', $my, options => { read_timeout => 4 });
$pg->safe_psql(join(' ', map { "CREATE TABLE shop.$_ (id int PRIMARY KEY);" } @late) . q{
	CREATE FUNCTION shop.takes_long() RETURNS bool LANGUAGE plpgsql AS $$
	BEGIN
		IF NOT EXISTS (} . join(' UNION ALL ', map { "SELECT FROM shop.$_" } @late) . q{) THEN PERFORM pg_sleep(6); END IF;
		RETURN true;
	END $$;} . join(' ', map { "ALTER TABLE shop.$_ ADD CHECK (shop.takes_long());" } @late) . q{
	SELECT capstan.create_pipeline('late', server => 'hasty', tables => '{shop.late*}');
	SELECT capstan.start_pipeline('late')});
$pg->safe_psql(q{SELECT capstan.wait_for_snapshot('late', timeout => '180 s')});
tables_equal($my, $pg, [ map { "shop.$_" } @late ], 'after a slow write');
is($pg->incidents("pipeline = 'late' AND severity IN ('halt', 'retry')"), '', 'a slow write is not taken for a silent source');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('late')});
state_is('late', 'stopped', 'and stops');
$pg->safe_psql(q{SELECT capstan.drop_pipeline('late')});

for my $way (['flip', qr/event_checksum/, 'a flipped bit'], ['cut', qr/./, 'a connection cut in the middle of an event'])
{
	my ($method, $class, $name) = @$way;
	my $before = $pg->value('SELECT max(id) FROM shop.run');
	my $tries = tries();

	$since = now();
	$proxy->$method('MARK' . uc $method);
	$my->sql(sprintf q{BEGIN; INSERT INTO shop.run (v) VALUES ('first of two'); INSERT INTO shop.run (v) VALUES ('x MARK%s x'); COMMIT;
		INSERT INTO shop.run (v) VALUES ('behind it')}, uc $method);
	incident_comes($since, $class, "$name: noticed");
	sleep(1.5);
	is($pg->value('SELECT max(id) FROM shop.run'), $before, "$name: nothing of the transaction is applied, nor what comes after it");
	$tries = tries() - $tries;
	cmp_ok($tries, '<=', 8, "$name: tries are backed off ($tries)");
	$proxy->pass;
	arrives("after $name");
}

$proxy->refuse;
state_is('run', 'retrying', 'connections are refused: retrying');
$proxy->pass;
arrives('after connections were refused');
# From here on the network is good, and a machine that stands still for some seconds no reason to connect again.
timeouts(60, 10);
arrives('with timeouts as usual');

# ---- a lock on the target

$since = now();
my $locker = $pg->background('BEGIN; LOCK TABLE shop.run IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)');
$pg->poll_query_until(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'shop.run'::regclass AND mode = 'AccessExclusiveLock' AND granted});
$my->sql(q{INSERT INTO shop.run (v) VALUES ('locked out')});
incident_comes($since, qr/^55P03/, 'a target that is locked: a retry');
sleep(3);
$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()});
$locker->wait;
is($pg->value("SELECT count(*) FROM capstan.incident WHERE class = '55P03'"), 1, 'one incident, however often it was tried');
cmp_ok($pg->value("SELECT sum(occurrences) FROM capstan.incident WHERE class = '55P03'"), '<=', 6, 'and with back-off');
arrives('after a lock on the target');

# ---- asked for, but rolled back

my ($pid) = $pg->worker_pids(qr/capstan pipeline "run"/);
$pg->safe_psql(q{BEGIN; SAVEPOINT s; SELECT capstan.stop_pipeline('run'); ROLLBACK TO s; COMMIT});
my ($rc, $out, $err) = $pg->psql(q{BEGIN; SELECT capstan.stop_pipeline('run'); PREPARE TRANSACTION 'x'});
like($err, qr/cannot PREPARE/, 'a stop cannot be prepared');
$pg->safe_psql(q{BEGIN; SAVEPOINT s; SELECT capstan.start_pipeline('stopped'); ROLLBACK TO s; SELECT 1; COMMIT});
sleep(1.5);
is(join(' ', $pg->worker_pids(qr/capstan pipeline/)), $pid, 'a stop that is rolled back to a savepoint, or not prepared, stops nothing; a start starts nothing');
$pg->safe_psql(q{BEGIN; SAVEPOINT s; SELECT capstan.stop_pipeline('run'); RELEASE s; COMMIT});
state_is('run', 'stopped', 'a stop in a released savepoint stops');
$pg->safe_psql(q{BEGIN; SAVEPOINT s; SELECT capstan.start_pipeline('run'); RELEASE s; COMMIT});
state_is('run', 'streaming', 'and a start starts');

# ---- ended again and again, stopped and started in a hurry

for (1 .. 5)
{
	$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM capstan.pipeline_status WHERE pipeline = 'run'});
	sleep(0.2);
}
state_is('run', 'streaming', 'terminated five times: streams');
for (1 .. 20)
{
	$pg->safe_psql(q{SELECT capstan.stop_pipeline('run')});
	$pg->safe_psql(q{SELECT capstan.start_pipeline('run')});
	sleep(rand 0.15);
}
$my->sql(q{INSERT INTO shop.run (v) VALUES ('after a hurry')});
arrives('stopped and started twenty times');
is(scalar($pg->worker_pids(qr/capstan pipeline "run"/)), 1, 'one worker');

# ---- a database that cannot be looked into at the start, and one that is dropped

$pg->safe_psql('ALTER TABLE capstan.pipeline RENAME COLUMN replica_uuid TO broken');
$pg->restart;
ok(poll_until(sub { $pg->log =~ /column "replica_uuid" does not exist/ }), 'the catalog cannot be read at the start');
$pg->safe_psql('ALTER TABLE capstan.pipeline RENAME COLUMN broken TO replica_uuid');
state_is('run', 'streaming', 'it is looked into again, and the pipeline starts by itself');
arrives('after a late start');

$pg->safe_psql('CREATE DATABASE doomed');
$pg->safe_psql('CREATE EXTENSION capstan', database => 'doomed');
$pg->safe_psql(sprintf(q{
	CREATE SERVER source FOREIGN DATA WRAPPER capstan OPTIONS (host '%s', port '%s');
	CREATE USER MAPPING FOR CURRENT_USER SERVER source OPTIONS (user 'capstan', password 'sesam');
	SELECT capstan.create_pipeline('doomed', server => 'source', tables => '{shop.other}');
	SELECT capstan.start_pipeline('doomed'); }, $my->host, $my->port), database => 'doomed');
$pg->safe_psql(q{SELECT capstan.wait_for_source('doomed', timeout => '180 s')}, database => 'doomed');

# Meanwhile it is closed: a worker would end before it could say why, so that none is started.
$pg->safe_psql('ALTER DATABASE doomed ALLOW_CONNECTIONS false');
my $from = $pg->log_position;
kill('TERM', $pg->worker_pids(qr/capstan pipeline "doomed"/));
ok(poll_until(sub { $pg->log_contains(qr/"doomed": not started: its database does not accept connections/, $from) }), 'a database that is closed is told of');
sleep(5);
my $told = () = substr(CapstanTest::slurp($pg->log_path), $from) =~ /not accept/g;
cmp_ok($told, '<=', 2, "... once, or twice if a worker met it first ($told in 5 s)");
$pg->safe_psql('ALTER DATABASE doomed ALLOW_CONNECTIONS true');
ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'streaming', undef, database => 'doomed'), 'and it streams again when it is open');

# Postgres itself waits for the sessions to go for five seconds only.
ok(poll_until(sub { ($pg->psql('DROP DATABASE IF EXISTS doomed WITH (FORCE)'))[0] == 0 }), 'a database is dropped under its pipeline');
sleep(3);
my $tries = () = $pg->log =~ /database .* does not exist/g;
cmp_ok($tries, '<=', 1, 'a pipeline whose database was dropped is not started again and again');

$pg->safe_psql("SELECT capstan.stop_pipeline('run')");
done_testing();
