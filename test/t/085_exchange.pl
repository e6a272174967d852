# What is around a table that is resynced: columns of somebody's own, triggers, references, publications.
#
# Why: resync_table is called to make a table right; it must not quietly lose what somebody has added to it, nor take for done what a
# trigger has undone.
# How: targets with columns that the source does not have (one with a default, an identity, a generated one), unique values swapped between rows that
# are wrong; triggers that are enabled ALWAYS and make nothing of a DELETE or INSERT; a table that refers to a target with ON DELETE CASCADE, a
# prepared statement and a view that read it; default privileges of the schema; a publication that cannot tell deleted rows.
# Asserted: own columns keep their values in every row whose key stays, new rows get defaults, rows are equal to the source; what triggers suppress
# halts, and goes on when they are disabled; nobody but the owner may read what is being built; nothing cascades; readers need not prepare again.
# Not asserted: readers while it happens (081).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_range_rows' => 100, 'max_worker_processes' => 20, wal_level => 'logical' });

$my->grant;
$my->sql(q{CREATE DATABASE s; USE s;
	CREATE TABLE own (k VARCHAR(10), n INT, u INT UNIQUE, v DECIMAL(8,2), PRIMARY KEY (k, n));
	INSERT INTO own WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 300) SELECT CONCAT('k', i % 3), i, i, i / 4 FROM r;
	CREATE TABLE kept (id INT PRIMARY KEY, v INT); INSERT INTO kept SELECT n, n FROM own;
	CREATE TABLE put LIKE kept; INSERT INTO put SELECT * FROM kept;
	CREATE TABLE bag (v INT); INSERT INTO bag SELECT n % 5 FROM own;
	CREATE TABLE parent LIKE kept; INSERT INTO parent SELECT * FROM kept;
	CREATE TABLE told (v INT); INSERT INTO told SELECT v FROM bag});
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql(q{CREATE SCHEMA s;
	CREATE TABLE s.own (note text DEFAULT 'none', k varchar(10) COLLATE "C", n int, gone int, "No." int GENERATED ALWAYS AS IDENTITY, u int UNIQUE, v numeric(8,2), PRIMARY KEY (k, n),
		twice numeric GENERATED ALWAYS AS (v * 2) STORED);
	ALTER TABLE s.own DROP gone;
	CREATE TABLE s.ref (id int)});
start_pipeline($pg, 'p', [ map { "s.$_" } qw(own kept put bag parent told) ]);

sub resync
{
	my ($table) = @_;
	$pg->safe_psql("SELECT capstan.resync_table('p', 's.$table', 'a test')");
}

sub wait_done { $pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')") }

sub same
{
	my ($name, $sql) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sync_pipeline($pg, 'p');
	is_deeply([ $pg->query($sql) ], [ $my->query($sql) ], $name);
}

# ---- columns of somebody's own ----

$pg->safe_psql(q{UPDATE s.own SET note = 'note of ' || n;
	CREATE TABLE public.before AS SELECT * FROM s.own;
	UPDATE s.own SET u = -u WHERE n IN (1, 2); UPDATE s.own SET u = 3 + n WHERE n IN (-1); UPDATE s.own SET u = CASE n WHEN 1 THEN 2 ELSE 1 END WHERE n IN (1, 2);
	UPDATE s.own SET v = v + 1 WHERE n % 10 = 0; DELETE FROM s.own WHERE n = 5; INSERT INTO s.own (k, n, u) VALUES ('k9', 9999, 9999)});
resync('own');
wait_done();
same('rows with columns of somebody\'s own are those of the source', 'SELECT k, n, u, v FROM s.own ORDER BY n');
is($pg->value(q{SELECT count(*) FROM s.own o JOIN public.before b USING (k, n, note, "No.", u, v, twice)}), 299, 'and those columns have kept their values');
is($pg->value(q{SELECT note || ' ' || ("No." > 300) FROM s.own WHERE n = 5}), 'none true', 'but where the row was not there');

# ---- who may look into it meanwhile ----

$pg->safe_psql(q{CREATE ROLE nosy; CREATE ROLE "No. 2"; GRANT USAGE ON SCHEMA s TO nosy;
	ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO nosy, PUBLIC; ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT ALL ON TABLES TO "No. 2" WITH GRANT OPTION;
	GRANT SELECT ON s.own TO nosy});
is($pg->safe_psql(q{BEGIN; SELECT capstan.resync_table('p', 's.kept', 'privileges');
	SELECT count(*), count(*) FILTER (WHERE has_table_privilege('nosy', oid, 'SELECT') OR has_table_privilege('No. 2', oid, 'INSERT')) FROM pg_class WHERE relname ~ '^capstan_shadow_[0-9_]+$' AND relnamespace = 's'::regnamespace; COMMIT}),
	"\n1|0", 'default privileges of the schema do not open the new content to those who may not read the target');
$pg->safe_psql('ALTER DEFAULT PRIVILEGES IN SCHEMA s REVOKE ALL ON TABLES FROM nosy, PUBLIC, "No. 2"');
wait_done();
is($pg->value(q{SELECT has_table_privilege('nosy', 's.kept', 'SELECT') OR NOT has_table_privilege('nosy', 's.own', 'SELECT')}), 'f', 'and those of targets are as they were');

# ---- triggers ----

$pg->safe_psql(q{CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'});
for ([ 'kept', 'DELETE' ], [ 'put', 'INSERT' ], [ 'bag', 'INSERT' ], [ 'bag', 'DELETE' ])
{
	my ($table, $command) = @$_;
	$pg->safe_psql("CREATE TRIGGER nothing BEFORE $command ON s.$table FOR EACH ROW EXECUTE FUNCTION public.nothing(); UPDATE s.$table SET v = 1000 WHERE v = 3");
	$pg->safe_psql("ALTER TABLE s.$table ENABLE ALWAYS TRIGGER nothing");
	resync($table);
	expect_halt($pg, 'p', 'snapshot_inexact', qr/Table s\.$table: rows suppressed/, qr/resume_pipeline/);
	$pg->safe_psql("ALTER TABLE s.$table DISABLE TRIGGER nothing; SELECT capstan.resume_pipeline('p', 'trigger disabled')");
	wait_done();
	sync_pipeline($pg, 'p');
	tables_equal($my, $pg, ["s.$table"], "$table without the trigger that suppressed $command");
	$pg->safe_psql("DROP TRIGGER nothing ON s.$table");
}

# ---- readers and references ----

$pg->safe_psql(q{INSERT INTO s.ref SELECT id FROM s.parent; ALTER TABLE s.ref ADD FOREIGN KEY (id) REFERENCES s.parent ON DELETE CASCADE ON UPDATE CASCADE; CREATE VIEW public.seen AS SELECT * FROM s.parent;
	UPDATE s.parent SET v = 1000 WHERE id % 2 = 0});
my $reader = $pg->background(q{PREPARE p AS SELECT string_agg(v::text, ',' ORDER BY id) FROM s.parent WHERE id < 5; EXECUTE p;
	DO $$ BEGIN FOR i IN 1 .. 6000 LOOP EXIT WHEN NOT EXISTS (SELECT FROM public.seen WHERE v = 1000); PERFORM pg_sleep(0.05); COMMIT; END LOOP; END $$; EXECUTE p});
$pg->poll_query_until(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO $$ BEGIN FOR%'}, 1);
resync('parent');
wait_done();
is($reader->wait, 0, 'a reader goes on');
is($reader->output, "1,1000,3,1000\n1,2,3,4\n", 'with its prepared statement and through a view');
is($pg->value('SELECT count(*) FROM s.ref'), 300, 'nothing has cascaded');
tables_equal($my, $pg, ['s.parent'], 'a table that another one refers to');

# ---- a publication ----

$pg->safe_psql('UPDATE s.told SET v = 7 WHERE v = 1; CREATE PUBLICATION pub FOR TABLE s.told');
resync('told');
expect_halt($pg, 'p', '55000', qr/replica identity/, qr/s\.told/);
$pg->safe_psql(q{ALTER TABLE s.told REPLICA IDENTITY FULL; SELECT capstan.resume_pipeline('p', 'replica identity given')});
wait_done();
same('a published table', 'SELECT v, count(*) FROM s.told GROUP BY v ORDER BY v');
# what somebody was reading is dropped later
ok($pg->poll_query_until("SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan\\_shadow%'", 0), 'nothing is left over');

done_testing();
