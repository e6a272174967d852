# Who drops a target or a role while capstan has it in hand gets an error out of capstan, and nobody else notices.
#
# Why: what one look at the catalog has found may be gone at the next; a name that is not there any more and is used all the same ends the
# process, and Postgres then ends every session of the cluster.
# How: a target is dropped while the constraint of another one is validated before it, and while the source is asked about it for a resync; the owner of a pipeline is
# dropped while it streams into another one's table, which is then looked at again.
# Asserted: what is said, and that a session that was open all the time is open at the end.
# Not asserted: a resync or removal while ranges are read (034).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;
use CapstanTest::BothWays;
use CapstanTest::Proxy;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;
my $proxy = CapstanTest::Proxy->start($my->host, $my->port);

$my->grant;
$my->sql(q{CREATE DATABASE d; USE d; CREATE TABLE a (id INT PRIMARY KEY, CONSTRAINT ca CHECK (id > 0)); CREATE TABLE b (id INT PRIMARY KEY, CONSTRAINT cb CHECK (id > 0));
	CREATE TABLE late (id INT PRIMARY KEY); CREATE TABLE orphan (id INT PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO orphan VALUES (1)});
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql(sprintf q{
	CREATE SERVER proxied FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '%s', ssl_mode 'disabled', read_timeout '20', connect_timeout '20');
	CREATE USER MAPPING FOR PUBLIC SERVER proxied OPTIONS (user 'capstan', password 'sesam')}, $proxy->port);
my $bystander = $pg->background('SELECT pg_sleep(598)');

# ---- while constraints are validated

start_pipeline($pg, 'd', [ 'd.a', 'd.b' ]);
is($pg->safe_psql("SELECT name, result FROM capstan.create_constraints('d', validate => false)"), "ca|not_valid\ncb|not_valid", 'made, not validated');
my $holder = $pg->background('BEGIN; LOCK TABLE d.a; SELECT pg_sleep(599)');
$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = 'd.a'::regclass AND mode = 'AccessExclusiveLock' AND granted", 1);
my $maker = $pg->background("SELECT name, result FROM capstan.create_constraints('d')");
$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = 'd.a'::regclass AND mode = 'ShareUpdateExclusiveLock' AND NOT granted", 1);
$pg->safe_psql('DROP TABLE d.b');
$pg->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()");
$holder->wait;
is($maker->wait, 0, 'a target that goes away while another one is validated') or diag($maker->errors);
is($maker->output, "ca|done\ncb|failed: the target table is gone\n", '... is told of');
is($pg->safe_psql("SELECT name, state, note FROM capstan.object_status WHERE pipeline = 'd' ORDER BY 1"), "ca|done|\ncb|failed|the target table is gone", '... and noted');
is($pg->safe_psql("SELECT count(*) FROM capstan.set_sequences('d')"), 0, 'no sequence is to be set');
drop_pipeline($pg, 'd');

# ---- while the source is asked

start_pipeline($pg, 'late', ['d.late'], server => 'proxied');
$proxy->stall;
my $resync = $pg->background(q{SELECT capstan.resync_table('late', 'd.late', 'a test')});
ok($pg->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%resync_table%' AND pid <> pg_backend_pid() AND state = 'active'", 1), 'a resync is under way');
# Oracle's library does not tell Postgres that it waits for the source
sleep(1);
$pg->safe_psql('DROP TABLE d.late');
$proxy->pass;
isnt($resync->wait, 0, 'a target that goes away while the source is asked about it');
like($resync->errors, qr/ERROR:  the target table of d\.late does not exist any more/, '... is told of');
$pg->safe_psql("SELECT capstan.stop_pipeline('late'); SELECT capstan.drop_pipeline('late')");

# ---- the pipeline's owner

$pg->safe_psql('CREATE ROLE boss SUPERUSER LOGIN; CREATE TABLE d.orphan (id int PRIMARY KEY)');
$pg->safe_psql("SET ROLE boss; SELECT capstan.create_pipeline('orphan', server => 'proxied', tables => '{d.orphan}'); SELECT capstan.start_pipeline('orphan')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('orphan', timeout => '180 s')");
$my->sql('INSERT INTO d.orphan VALUES (2)');
sync_pipeline($pg, 'orphan');
$pg->safe_psql('DROP ROLE boss; ANALYZE d.orphan');
$my->sql('INSERT INTO d.orphan VALUES (3)');
my $incident = expect_halt($pg, 'orphan', '42704', qr/the pipeline's owner does not exist any more/, qr/as another role/);
is($pg->value('SELECT count(*) FROM d.orphan'), 2, 'nothing is written for an owner who is not there');

ok($bystander->running, 'a session beside all that is still there');
$pg->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(598)'");
$bystander->wait;
done_testing();
