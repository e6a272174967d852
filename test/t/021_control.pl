# Start, stop, drop, the waits and the views, with a pipeline that really runs.
#
# Why: this is what an operator holds in the hand; and what the waits promise is what an
# application builds read-your-own-writes on.
# How: one small table; each function in and out of its transaction; the source stopped
# and started; the whole database dumped and restored under another name.
# Asserted: nothing happens before COMMIT, and nothing after ROLLBACK; a wait returns as
# soon as the rows are visible and not before, also under REPEATABLE READ, and says what is
# missing when it gives up; states and lag in the views are true; a restored copy waits
# to be adopted and then goes on from what it holds; a failure that somebody puts right at the same time does not halt; the password is nowhere.
# Not asserted: bad arguments (020_bad_input.pl, sql/), crashes.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Basename qw(dirname);
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->sql(q{
	CREATE DATABASE shop; USE shop;
	CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t (v) VALUES ('old')});
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

sub state_is
{
	my ($state, $name) = @_;
	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', $state), $name);
}

# SQLSTATE, the rest of the error text, and how long it took.
sub failure
{
	my ($sql) = @_;
	my $start = time();
	my (undef, undef, $err) = $pg->psql($sql, options => [ '-v', 'VERBOSITY=verbose' ]);
	return ($err =~ /(?:ERROR|FATAL):  (\w{5}): / ? $1 : 'none', $err, time() - $start);
}

sub insert
{
	$my->sql("INSERT INTO shop.t (v) VALUES ('new')");
	return $my->value('SELECT COUNT(*) FROM shop.t');
}

# Transactional.
$pg->safe_psql(q{BEGIN; SELECT capstan.create_pipeline('p', server => 'source', tables => '{shop.*}'); SELECT capstan.start_pipeline('p'); ROLLBACK});
sleep(1);
is($pg->value('SELECT count(*) FROM capstan.pipeline'), 0, 'rolled back: no pipeline');
is($pg->value(q{SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'}), 0, 'nor its schema');
is(scalar($pg->worker_pids(qr/capstan pipeline/)), 0, 'nor a worker');
$pg->safe_psql(q{BEGIN; SELECT capstan.create_pipeline('p', server => 'source', tables => '{shop.*}'); SELECT capstan.start_pipeline('p'); COMMIT});
$pg->safe_psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '180 s')});
is($pg->value('SELECT count(*) FROM shop.t'), 1, 'create and start in one transaction: it runs from COMMIT on');
state_is('streaming', 'state: streaming');
is($pg->safe_psql(q{SELECT state, rows_copied, rows_missing, rows_existing, lock_count > 0, lock_hold_worst > '0' FROM capstan.table_status}),
	'streaming|1|0|0|t|t', 'table_status');
my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.start_pipeline('p')});
like($err, qr/NOTICE:  pipeline "p" is running already/, 'starting it again is said to be nothing');

# Waits.
my ($unread, @took) = (0);
for (1 .. 30)
{
	my $count = insert();
	my $start = time();
	my ($read) = $pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s'); SELECT count(*) FROM shop.t}) =~ /(\d+)\z/;
	push @took, time() - $start;
	$unread++ if $read != $count;
}
is($unread, 0, '30 times, what was written before wait_for_source could be read after it');
# Of what would take a second each time, the fastest would, too; a machine that stands still now and then does so for some of them.
cmp_ok(min(@took), '<', 0.8, '... promptly');
insert();
my $executed = $my->gtid_executed;
$pg->safe_psql("SELECT capstan.wait_for_gtid('p', '$executed', timeout => '180 s')");
is($pg->value('SELECT count(*) FROM shop.t'), 32, 'wait_for_gtid likewise');
is($pg->value("SELECT applied OPERATOR(capstan.=) '$executed' FROM capstan.pipeline_status"), 't', 'the position is that of the source');
my ($uuid, $last) = $executed =~ /^([0-9a-f-]+):1-(\d+)$/;
my ($future, $further) = ($last + 1, $last + 5);
my ($state, $text, $took) = failure("SELECT capstan.wait_for_gtid('p', '$uuid:$future-$further', timeout => '1.5 s')");
is($state, 'CA020', 'a wait for what does not come ends with its timeout');
like($text, qr/DETAIL:  5 source transactions are not applied yet; the pipeline is in state "streaming"/, '... and says what is missing');
ok($took > 1.4 && $took < 60, '... in time') or diag($took);
($state, $text, $took) = failure("SET statement_timeout = '300ms'; SELECT capstan.wait_for_gtid('p', '$uuid:$future', timeout => '1 hour')");
is($state, '57014', 'a wait can be cancelled');
cmp_ok($took, '<', 60, '... at once');
my $waiter = $pg->background("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM shop.t; SELECT capstan.wait_for_gtid('p', '$uuid:$future', timeout => '180 s'); COMMIT");
$pg->poll_query_until(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%wait_for_gtid(%' AND state = 'active' AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()}, 1);
sleep(1);
ok($waiter->running, 'a wait under REPEATABLE READ waits');
# The rows that somebody updates meanwhile are kept only for who may still look at them.
my $passing = $pg->background("SELECT capstan.wait_for_gtid('p', '$uuid:$future', timeout => '170 s')");
my $horizon = q{SELECT backend_xmin FROM pg_stat_activity WHERE query LIKE '%wait_for_gtid(%timeout => ''%s s%' AND state = 'active' AND pid <> pg_backend_pid()};
my ($kept, $gone) = map { $horizon =~ s/%s/$_/r } 180, 170;
$pg->poll_query_until("SELECT ($gone) IS NOT NULL");
my ($kept_from, $gone_from) = ($pg->value($kept), $pg->value($gone));
$pg->safe_psql('SELECT txid_current()') for 1 .. 3;
ok($pg->poll_query_until("SELECT ($gone)::text::bigint >= $gone_from + 3"), 'a wait that is a statement of its own holds no old rows');
is($pg->value($kept), $kept_from, '... one whose transaction may read again does');
insert();
is($waiter->wait, 0, '... and ends though its transaction sees nothing of it') or diag($waiter->errors);
is($passing->wait, 0, '... so does the other') or diag($passing->errors);

# Lag: small while there is nothing to do, growing while it does not run.
sleep(3);
ok($pg->poll_query_until(q{SELECT lag < '2 s' FROM capstan.pipeline_status}), 'an idle pipeline does not lag');

# Stop, and go on.
$pg->safe_psql(q{BEGIN; SELECT capstan.stop_pipeline('p'); ROLLBACK});
sleep(0.5);
state_is('streaming', 'a stop that is rolled back stops nothing');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
state_is('stopped', 'state: stopped');
ok(CapstanTest::poll_until(sub { !$pg->worker_pids(qr/capstan pipeline/) }), 'no worker is left');
insert();
($state, $text, $took) = failure(q{SELECT capstan.wait_for_source('p', timeout => '1 hour')});
is($state, 'CA019', 'waiting for a stopped pipeline is an error');
cmp_ok($took, '<', 60, '... at once');
sleep(2);
cmp_ok($pg->value(q{SELECT extract(epoch FROM lag) FROM capstan.pipeline_status}), '>', 1.9, 'a stopped pipeline lags more and more');
$pg->restart;
state_is('stopped', 'a stopped pipeline stays stopped over a restart');
$pg->safe_psql(q{SELECT capstan.start_pipeline('p'); });
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
tables_equal($my, $pg, ['shop.*'], 'started again, it has caught up');
$pg->restart;
state_is('streaming', 'a running pipeline runs after a restart');

# The source goes away and comes back.
$my->stop;
state_is('retrying', 'state: retrying, while the source is away');
# In one look: between two it may have begun to try again.
ok($pg->poll_query_until(q{SELECT state = 'retrying' AND restart_at IS NOT NULL AND last_error IS NOT NULL AND last_error_at > now() - interval '1 minute' FROM capstan.pipeline_status}), '... with the error, and when it is tried again');
($state) = failure(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
is($state, '08001', 'wait_for_source says that it cannot be asked');
$my->start_again;
state_is('streaming', 'streaming again by itself');
insert();
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
ok($pg->poll_query_until(q{SELECT count(*) FROM capstan.incident_status WHERE severity = 'retry' AND resolved_at IS NULL}, 0), 'its incidents are resolved');

# Halted by a definite failure, and started again when it is mended.
$pg->safe_psql(q{ALTER TABLE shop.t ADD CONSTRAINT no_secret CHECK (v <> 'secret')});
$my->sql(q{INSERT INTO shop.t (v) VALUES ('secret')});
($state, $text) = failure(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
is($state, 'CA019', 'who waits hears that it is halted') or diag($text);
like($text, qr/pipeline "p" is halted: .*no_secret/s, '... and by which constraint');
unlike($text, qr/'secret'|\bsecret\b/, '... but not the value');
is($pg->safe_psql(q{SELECT state, desired_state, last_error LIKE '%no_secret%' FROM capstan.pipeline_status}), 'halted|running|t', 'state: halted, with the reason');
is($pg->value(q{SELECT count(*) FROM shop.t WHERE v = 'secret'}), 0, 'nothing was skipped or changed');
sleep(2);
is($pg->value(q{SELECT sum(occurrences) FROM capstan.incident_status WHERE severity = 'halt'}), 1, 'it is not tried again by itself');
ok(!$pg->log_contains(qr/\bsecret\b/), 'the value is not in the log');
$pg->safe_psql(q{ALTER TABLE shop.t DROP CONSTRAINT no_secret; SELECT capstan.start_pipeline('p')});
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
tables_equal($my, $pg, ['shop.*'], 'mended and started, it goes on');
is($pg->safe_psql(q{SELECT resolved_by, resolution FROM capstan.incident_status WHERE severity = 'halt'}), 'postgres|start_pipeline', 'the incident is resolved');

# Dumped and restored: the copy is not the original.
my $bin = dirname(($pg->psql_words)[0]);
my $dump = File::Temp->new(SUFFIX => '.sql');
$rc = CapstanTest::reap(CapstanTest::spawn([ "$bin/pg_dump", '-h', $pg->host, '-U', 'postgres', 'postgres' ], stdout => "$dump"));
is($rc, 0, 'pg_dump');
$pg->safe_psql('CREATE DATABASE copy TEMPLATE template0');
($rc, $out, $err) = CapstanTest::run_command([ $pg->psql_words(database => 'copy'), '-qAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dump" ]);
is($rc, 0, 'restored under another name') or diag($err);
my @copy = (database => 'copy');
is($pg->value('SELECT state, desired_state FROM capstan.pipeline_status', @copy), 'unadopted', 'the copy is not adopted');
is($pg->value('SELECT target::text || owner::text FROM capstan.pipeline_table JOIN capstan.pipeline ON true', @copy), 'shop.tpostgres', 'targets and owners are found by name');
($state, $text) = failure(q{\c copy} . "\n" . q{SELECT capstan.start_pipeline('p')});
is($state, 'CA019', 'it cannot be started');
like($text, qr/adopt_pipeline\('p'\)/, '... before it is adopted');
insert();
$pg->restart;
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
is(scalar($pg->worker_pids(qr/capstan pipeline/)), 1, 'after a restart only the original runs');
$pg->safe_psql(q{SELECT capstan.adopt_pipeline('p')}, @copy);
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')}, @copy);
is($pg->value('SELECT count(*) FROM shop.t', @copy), $my->value('SELECT COUNT(*) FROM shop.t'), 'adopted, it goes on from what it holds');
is($pg->value('SELECT rows_existing + rows_missing FROM capstan.table_status', @copy), 0, '... nothing twice');
insert();
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')}, @copy);
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
state_is('streaming', 'and the original runs beside it');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')}, @copy);
$pg->safe_psql(q{SELECT capstan.drop_pipeline('p')}, @copy);
is($pg->value('SELECT count(*) FROM capstan.pipeline_status', @copy), 0, 'stop and drop one after the other: drop waits for the worker');

# A worker fails over what somebody is about to put right: its halt waits for him, and is over then.
my ($failing) = $pg->worker_pids(qr/capstan pipeline/);
kill('STOP', $failing);
$my->sql('TRUNCATE TABLE shop.t');
my $holder = $pg->background('SELECT pg_advisory_lock(1); SELECT pg_sleep(600)');
$pg->poll_query_until(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted}, 1);
my $operator = $pg->background(q{BEGIN; SELECT capstan.resync_table('p', 'shop.t', 'it was truncated'); SELECT pg_advisory_lock(1); COMMIT});
$pg->poll_query_until(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted}, 1);
kill('CONT', $failing);
ok($pg->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE pid = $failing AND wait_event_type = 'Lock'", 1), 'a worker that fails waits for who has begun to resync the table');
$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()});
$holder->wait;
is($operator->wait, 0, '... which is done') or diag($operator->errors);
insert();
($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '180 s'); SELECT capstan.wait_for_source('p', timeout => '180 s')});
is($rc, 0, '... and it does not halt over what is put right') or diag($err);
tables_equal($my, $pg, ['shop.*'], 'resynced');

# Drop.
($state) = failure(q{SELECT capstan.drop_pipeline('p')});
is($state, 'CA019', 'a running pipeline is not dropped');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
$pg->safe_psql(q{BEGIN; SELECT capstan.drop_pipeline('p'); ROLLBACK; SELECT capstan.start_pipeline('p')});
$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
state_is('streaming', 'a drop that is rolled back does not matter');
$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
$pg->safe_psql(q{SELECT capstan.drop_pipeline('p')});
# the launcher frees it, some moments later
ok($pg->poll_query_until('SELECT count(*) FROM capstan.worker_stats()', 0), 'dropped, it leaves no slot') or diag($pg->safe_psql('SELECT * FROM capstan.worker_stats()'));
is($pg->value('SELECT count(*) FROM shop.t'), $my->value('SELECT COUNT(*) FROM shop.t'), '... and the target stays');

ok(!$pg->log_contains(qr/sesam/), 'the password is not in the log');
is($pg->value(q{SELECT count(*) FROM capstan.incident_status i WHERE i::text LIKE '%sesam%'}), 0, 'nor in an incident');

done_testing();
