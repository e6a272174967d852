# What surrounds our own catalog does not break it: dumps in the middle of a copy, sessions that enforce nothing, locks on its rows, who owns its schema, databases with
# many grants.
#
# Why: workers act on schema capstan as a superuser; a restored copy counts rounds anew while it has the ranges of old ones; what relies on foreign keys
# is left behind where they do not act; a halt that is not stored is told to nobody; the launcher has no database and cannot read what lies in a TOAST table.
# How and asserted: each by itself, below; at the end a session that was open all the time is open.
# Not asserted: a schema that is dropped under a running worker.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Basename qw(dirname);
use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(fault_points => 1, conf => { 'capstan.max_range_rows' => 100, 'capstan.lock_timeout' => "'1s'" });

$my->grant;
$my->sql(q{CREATE DATABASE d; USE d; CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE big (id INT PRIMARY KEY, v INT); SET cte_max_recursion_depth = 10000;
	INSERT INTO big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i, 0 FROM n; ANALYZE TABLE big});

# ---- whose schema it is

$pg->safe_psql('CREATE ROLE mallory; CREATE DATABASE taken; GRANT CREATE ON DATABASE taken TO mallory');
$pg->safe_psql('CREATE SCHEMA capstan AUTHORIZATION mallory', database => 'taken');
my ($rc, $out, $err) = $pg->psql('CREATE EXTENSION capstan', database => 'taken');
isnt($rc, 0, "the extension is not made in somebody's schema");
like($err, qr/belongs to a role that is not a superuser.*DROP SCHEMA capstan/s, '... which is said');
$pg->safe_psql('ALTER SCHEMA capstan OWNER TO postgres; CREATE EXTENSION IF NOT EXISTS capstan', database => 'taken');

$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my $bystander = $pg->background('SELECT pg_sleep(597)');

# ---- a dump in the middle of a copy

$pg->fault_point('plan_committed', 'hold');
start_pipeline($pg, 'p', ['d.big'], timeout => 0);
ok($pg->wait_struck(180), 'ranges are planned');
my $dump = File::Temp->new(SUFFIX => '.sql');
is(CapstanTest::reap(CapstanTest::spawn([ dirname(($pg->psql_words)[0]) . '/pg_dump', '-h', $pg->host, '-U', 'postgres', 'postgres' ], stdout => "$dump")), 0, 'pg_dump');
$pg->fault_go;
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
drop_pipeline($pg, 'p');
$pg->safe_psql('CREATE DATABASE copy TEMPLATE template0');
($rc, $out, $err) = CapstanTest::run_command([ $pg->psql_words(database => 'copy'), '-qAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dump" ]);
is($rc, 0, 'restored') or diag($err);
my $planned = $pg->value('SELECT max(round) FROM capstan.copied_range', database => 'copy');
cmp_ok($planned, '>', 0, '... with ranges of a round');
$pg->safe_psql("SELECT capstan.adopt_pipeline('p')", database => 'copy');
is($pg->value('SELECT round FROM capstan.snapshot_round', database => 'copy'), $planned, '... whose number does not come again');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')", database => 'copy');
tables_equal($my, bless({ %$pg, database => 'copy' }, ref $pg), ['d.big'], 'its copy');
$pg->safe_psql("SELECT capstan.stop_pipeline('p')", database => 'copy');
$pg->safe_psql("SELECT capstan.drop_pipeline('p')", database => 'copy');

# ---- a halt that cannot be stored

start_pipeline($pg, 'p', ['d.a']);
$pg->safe_psql('ALTER TABLE d.a ADD CONSTRAINT low CHECK (v < 10)');
my $holder = $pg->background("BEGIN; SELECT capstan.stop_pipeline('p'); SELECT pg_sleep(599); ROLLBACK");
$pg->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()", 1);
my $from = $pg->log_position;
$my->sql('INSERT INTO d.a VALUES (1, 100)');
poll_until { substr($pg->log, $from) =~ /could not be stored/ };
like(substr($pg->log, $from), qr/could not be stored/, 'somebody holds the row of the pipeline');
$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()});
$holder->wait;
ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE severity = 'halt' AND message LIKE '%low%'", 1), '... and the halt is stored when it can be');
is($pg->value('SELECT state FROM capstan.pipeline_status'), 'halted', '... and seen');
$pg->safe_psql("ALTER TABLE d.a DROP CONSTRAINT low; SELECT capstan.resume_pipeline('p', 'a test')");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['d.a'], '... and it goes on');

# ---- many grants on the database

$pg->safe_psql(q{DO $$ BEGIN FOR i IN 1..1000 LOOP EXECUTE format('CREATE ROLE r%s', i); END LOOP; EXECUTE (SELECT 'GRANT CONNECT ON DATABASE postgres TO ' || string_agg('r' || i, ',') FROM generate_series(1, 1000) i); END $$});
cmp_ok($pg->value(q{SELECT pg_column_size(datacl) FROM pg_database WHERE datname = 'postgres'}), '>', 2100, 'privileges that do not fit into the row of the database');
$from = $pg->log_position;
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'p'");
$my->sql('INSERT INTO d.a VALUES (2, 2)');
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['d.a'], 'a worker is started there');
unlike(substr($pg->log, $from), qr/FATAL.*pg_class/, '... by a launcher that lives');

# ---- a session that does not enforce foreign keys

my $quiet = 'SET session_replication_role = replica;';
$pg->safe_psql("SELECT capstan.add_table('p', 'd.big', truncate_target => true)");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
$pg->safe_psql("$quiet SELECT capstan.remove_table('p', 'd.big')");
is($pg->value('SELECT (SELECT count(*) FROM capstan.pipeline_table) || \' \' || (SELECT count(*) FROM capstan.copied_range WHERE table_id NOT IN (SELECT id FROM capstan.pipeline_table))'), '1 0', 'nothing is left of a table that is removed');
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->safe_psql("$quiet SELECT capstan.drop_pipeline('p')");
is($pg->value("SELECT count(*) FROM capstan.$_"), 0, "nothing is left of a pipeline that is dropped: $_") for qw(pipeline pipeline_table pipeline_progress copied_range snapshot_round);

# ---- the operating system's name of the server

$pg->safe_psql(q{CREATE ROLE clerk; GRANT USAGE ON FOREIGN DATA WRAPPER capstan TO clerk; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA capstan TO clerk});
($rc, $out, $err) = $pg->psql(q{SET SESSION AUTHORIZATION clerk; CREATE SERVER local FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1,/run/mysql.sock'); CREATE USER MAPPING FOR clerk SERVER local OPTIONS (user 'postgres', password 'any');
	SELECT * FROM capstan.preflight('local', tables => '{d.*}')});
isnt($rc, 0, 'a role that is no superuser does not connect by a Unix socket');
like($err, qr/only superusers may connect to a source by a Unix socket/, '... which is said');

ok($bystander->running, 'a session beside all that is still there');
$pg->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(597)'");
$bystander->wait;
done_testing();
