# Tables of a running pipeline: one more, one less, one anew, all anew; the others go on meanwhile.
#
# Why: what went wrong with one table must not cost the copy of all of them, and whoever reads a table must not notice that it
# is repaired.
# How: writers set a version in all rows of a table in one transaction, for a key that is ordered, one that is not, and none;
# readers of the target count rows and versions all the time, in snapshots new and old. Meanwhile tables are added, removed, corrupted and
# resynced; workers and Postgres are killed within a resync; a table is altered on the source, and then here; binary logs are purged.
# Asserted: readers see all rows, of one version; a table that nobody touched never lags by more than some seconds; contents are equal in the
# end; what depends on a table stays; generations count up, and every action is in capstan.incident; nothing is left over.
# Not asserted: how long the exchange of a large table takes.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
# An exchange waits for a target that somebody has locked, and the stream and other calls on the table with it: so long at most.
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_range_rows' => 100, 'max_worker_processes' => 20, 'capstan.lock_timeout' => "'5s'" });
my @versioned = qw(inv txt bag);

$my->grant;
$my->sql(<<'SQL');
CREATE DATABASE s; USE s;
SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE inv (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(60));
CREATE TABLE txt (name VARCHAR(30) PRIMARY KEY, v INT NOT NULL);
CREATE TABLE bag (v INT NOT NULL, pad VARCHAR(20));
CREATE TABLE still (id INT PRIMARY KEY, d DECIMAL(10,2), t TEXT, UNIQUE KEY d (d));
CREATE TABLE beat (id INT PRIMARY KEY, at DATETIME(6));
CREATE TABLE later (id INT AUTO_INCREMENT PRIMARY KEY, v INT, KEY by_v (v));
INSERT INTO inv WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i, 0, REPEAT('p', 50) FROM n;
INSERT INTO txt WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 800) SELECT CONCAT('Ä', i), 0 FROM n;
INSERT INTO bag WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT 0, IF(i % 3, NULL, 'same') FROM n;
INSERT INTO still WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 50) SELECT i, i, 'text' FROM n;
INSERT INTO beat VALUES (1, UTC_TIMESTAMP(6));
INSERT INTO later (v) VALUES (1), (2);
CREATE DATABASE ctl; USE ctl;
CREATE TABLE go (x INT);
INSERT INTO go VALUES (1);
DELIMITER //
CREATE PROCEDURE versions(which CHAR(10), pause DOUBLE) BEGIN
  DECLARE n INT DEFAULT (SELECT MAX(v) FROM s.inv) + 1;
  DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;
  WHILE (SELECT x FROM go) = 1 DO
    CASE which WHEN 'inv' THEN UPDATE s.inv SET v = n; WHEN 'txt' THEN UPDATE s.txt SET v = n; ELSE UPDATE s.bag SET v = n; END CASE;
    SET n = n + 1;
    DO SLEEP(pause);
  END WHILE;
END//
CREATE PROCEDURE beats() BEGIN
  WHILE (SELECT x FROM go) = 1 DO UPDATE s.beat SET at = UTC_TIMESTAMP(6); INSERT INTO s.later (v) VALUES (1); DELETE FROM s.later WHERE id % 7 = 0; DO SLEEP(0.02); END WHILE;
END//
SQL
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my @tables = map { "s.$_" } qw(inv txt bag still beat);
start_pipeline($pg, 'p', \@tables);
$pg->safe_psql('CREATE VIEW s.seen AS SELECT * FROM s.still; CREATE ROLE reader; GRANT SELECT ON s.still TO reader');

# ---- readers and writers ----

my @writers;

sub write_on
{
	$my->sql('UPDATE ctl.go SET x = 1');
	my $last = $pg->value('SELECT at FROM s.beat');
	@writers = (map({ $my->background("CALL ctl.versions('$_', 0.4)") } @versioned), $my->background('CALL ctl.beats()'));
	# before there is a beat the table lags behind the last time
	$pg->poll_query_until("SELECT at > '$last' FROM s.beat");
}

sub write_off
{
	$my->sql('UPDATE ctl.go SET x = 0');
	$_->wait for splice @writers;
}

# A row for each look that was wrong, and the worst lag of a table that nobody touches.
$pg->safe_psql(q{
	CREATE TABLE public.wrong (what text, rows int, versions int);
	CREATE TABLE public.lag (worst interval);
	CREATE PROCEDURE public.look() LANGUAGE plpgsql AS $$
	DECLARE t text; r record; wanted int; worst interval := '0'; round int := 0;
	BEGIN
		LOOP
			round := round + 1;
			FOREACH t IN ARRAY ARRAY['inv', 'txt', 'bag'] LOOP
				wanted := CASE t WHEN 'inv' THEN 2000 WHEN 'txt' THEN 800 ELSE 100 END;
				EXECUTE format('SELECT count(*) AS n, count(DISTINCT v) AS v FROM s.%I', t) INTO r;
				IF r.n <> wanted OR r.v <> 1 THEN INSERT INTO public.wrong VALUES (t, r.n, r.v); END IF;
			END LOOP;
			worst := greatest(worst, (SELECT clock_timestamp() - at AT TIME ZONE 'UTC' FROM s.beat));
			DELETE FROM public.lag; INSERT INTO public.lag VALUES (worst);
			PERFORM pg_sleep(0.03);
			COMMIT;
			EXIT WHEN EXISTS (SELECT FROM pg_tables WHERE tablename = 'enough');
		END LOOP;
	END $$});
# The same in a snapshot that is older than the look.
my $late = q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM public.lag; SELECT pg_sleep(0.7);
	CREATE TEMP TABLE seen AS SELECT count(*) AS n, count(DISTINCT v) AS v FROM s.inv; COMMIT;
	INSERT INTO public.wrong SELECT 'inv, late', n, v FROM seen WHERE n <> 2000 OR v <> 1; DROP TABLE seen;} x 1000;
my ($reader, $late_reader, $meter);

sub read_on
{
	$pg->safe_psql('DROP TABLE IF EXISTS public.enough');
	$reader = $pg->background('CALL public.look()');
	$late_reader = $pg->background($late);
	$meter //= $my->stall_meter;
}

# $most is so far from the second or so that it takes that only what waits for ever exceeds it.
sub read_off
{
	my ($name, $most) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$pg->safe_psql('CREATE TABLE public.enough ()');
	ok($late_reader->running, "$name: the late reader had no error") or diag($late_reader->errors);
	$late_reader->stop;
	is($reader->wait, 0, "$name: the other one neither") or diag($reader->errors);
	is($pg->safe_psql('SELECT * FROM public.wrong LIMIT 5'), '', "$name: readers saw all rows, of one version");
	my $stalled = $meter->worst_ms;
	undef $meter;
	is($pg->value("SELECT worst < '$most s'::interval + 5 * '$stalled ms'::interval FROM public.lag"), 't', "$name: a table that nobody touched never lagged by more than $most s")
	  or diag($pg->value('SELECT worst FROM public.lag'));
	note("$name: worst lag ", $pg->value('SELECT worst FROM public.lag'));
}

sub done { $pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')") }

sub all_equal
{
	my ($name, @more) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	sync_pipeline($pg, 'p');
	tables_equal($my, $pg, [ @tables, @more ], $name);
	# one that somebody is reading is dropped later
	ok($pg->poll_query_until("SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan\\_shadow%') + (SELECT count(*) FROM capstan.table_shadow)", 0), "$name: no shadow is left");
}

sub generation { return $pg->value("SELECT generation FROM capstan.table_status WHERE pipeline = 'p' AND source_table = '$_[0]'") }

# ---- one more, one less ----

write_on();
read_on();
$pg->safe_psql("SELECT capstan.add_table('p', 's.later')");
done();
is($pg->safe_psql("SELECT state, generation FROM capstan.table_status WHERE source_table = 'later'"), 'streaming|1', 'a table is added and copied while it is written');
is($pg->value("SELECT count(*) FROM pg_indexes WHERE schemaname = 's' AND tablename = 'later'"), 2, 'and has its index');
is($pg->value("SELECT tables::text FROM capstan.pipeline"), '{s.inv,s.txt,s.bag,s.still,s.beat,s.later}', 'the pipeline means it, too');
like(($pg->psql("SELECT capstan.add_table('p', 's.later')"))[2], qr/captures table "s.later" already/, 'not twice');
like(($pg->psql("SELECT capstan.add_table('p', 's.nothing')"))[2], qr/source_table s.nothing: no such table/, 'nor what is not there');

# ---- anew: with each kind of key, and what was wrong ----

$pg->safe_psql("UPDATE s.still SET t = 'wrong' WHERE id = 3; DELETE FROM s.still WHERE id = 4; INSERT INTO s.still VALUES (1000, 1000, 'too many'); UPDATE s.still SET d = d + 0.5 WHERE id = 7");
my $oid = $pg->value("SELECT 's.still'::regclass::oid");
$pg->safe_psql("SELECT capstan.resync_table('p', 's.$_', 'a test of $_')") for qw(inv txt bag still);
done();
is(join(' ', map { generation($_) } qw(inv txt bag still beat)), '2 2 2 2 1', 'each has a new generation, the others have not');
is($pg->value("SELECT 's.still'::regclass::oid"), $oid, 'the target is the same table');
is($pg->value("SELECT count(*) = 50 AND has_table_privilege('reader', 's.still', 'SELECT') FROM s.seen"), 't', 'its view and its grants are there');
is($pg->safe_psql("SELECT class, source_table, resolved_by, resolution FROM capstan.incident WHERE severity = 'action' AND source_table IN ('s.later', 's.still') ORDER BY id"),
	"table_added|s.later|postgres|add_table\ntable_resynced|s.still|postgres|a test of still", 'who did what, and why');
read_off('resync', 30);
write_off();
all_equal('after a resync under load', 's.later');

# ---- killed within ----

# Between these two nothing is put into s.inv: what is copied for it stays in its shadow.
my $holder;

sub hold
{
	$holder = $pg->background('BEGIN; LOCK TABLE s.inv IN SHARE MODE; SELECT pg_sleep(599)');
	$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = 's.inv'::regclass AND mode = 'ShareLock' AND granted", 1);
}

sub let_go
{
	$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()});
	$holder->wait;
}

write_on();
read_on();
for my $victim (qr/capstan (pipeline|copy)/, 'postmaster')
{
	hold();
	$pg->safe_psql("SELECT capstan.resync_table('p', 's.inv', 'killed: $victim'); SELECT capstan.resync_table('p', 's.txt', 'killed: $victim')");
	ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.copied_range r JOIN capstan.pipeline_table t ON t.id = r.table_id AND t.generation = r.generation WHERE t.source_table = 'inv' AND t.state = 'copying' AND r.gtid_set IS NOT NULL"), "ranges are copied: $victim");
	if ($victim eq 'postmaster')
	{
		$_->stop for $reader, $late_reader;
		$pg->kill9_postmaster;
		$pg->start_again;
		read_on();
	}
	else
	{
		kill 'TERM', $pg->worker_pids($victim);
	}
	let_go();
	done();
}
# Another one before it is through: the number goes on, and what was begun is forgotten.
hold();
$pg->safe_psql("SELECT capstan.resync_table('p', 's.inv', 'one')");
ok($pg->poll_query_until("SELECT state FROM capstan.table_status WHERE source_table = 'inv'", 'copying'), 'another one before it is through');
$pg->safe_psql("SELECT capstan.resync_table('p', 's.inv', 'and another')");
let_go();
$pg->safe_psql("SELECT capstan.remove_table('p', 's.later')");
done();
is(generation('inv'), 6, 'generations count up');
$pg->safe_psql("SELECT capstan.wait_for_source('p', timeout => '180 s')");
is($pg->value("SELECT count(*) FROM capstan.table_status WHERE source_table = 'later'"), 0, 'a table is removed');
is($pg->value("SELECT count(*) > 0 FROM s.later"), 't', 'and its target stays');
read_off('kills', 30);
write_off();
all_equal('after kills');
is($pg->incidents("severity = 'halt'"), '', 'nothing has halted so far');
like(($pg->psql("SELECT capstan.add_table('p', 's.later')"))[2], qr/target_empty s.later: the table holds rows/, 'a removed table comes back only to an empty target');
$pg->safe_psql("SELECT capstan.add_table('p', 's.later', truncate_target => true)");
done();
all_equal('a removed table came back', 's.later');
is(generation('later'), 2, '... as a new generation');
$pg->safe_psql("SELECT capstan.resync_table('p', 's.later', 'once more'); SELECT capstan.remove_table('p', 's.later'); SELECT capstan.add_table('p', 's.later', truncate_target => true)");
done();
is(generation('later'), 4, '... and so each time: a number does not come back, be it of a copy that was never begun');
all_equal('a removed table came back again', 's.later');

# ---- altered on the source ----

write_on();
sleep(0.5);
# Rows that look like neither what was captured nor what there is in the end.
$my->sql("ALTER TABLE s.inv ADD w INT DEFAULT 3; INSERT INTO s.inv (id, v) VALUES (9999, 1); ALTER TABLE s.inv MODIFY pad VARCHAR(70), ADD x INT; DELETE FROM s.inv WHERE id = 9999; RENAME TABLE s.txt TO s.text2; ALTER TABLE s.text2 MODIFY v BIGINT NOT NULL; RENAME TABLE s.text2 TO s.txt");
expect_halt($pg, 'p', 'ddl_on_captured_table', qr/s\.inv/, qr/resync_table/);
like(($pg->psql("SELECT capstan.resync_table('p', 's.inv', 'altered')"))[2], qr/target_columns s.inv/, 'the target must fit first');
$pg->safe_psql("ALTER TABLE s.inv ADD w integer, ADD x integer, ALTER pad TYPE varchar(70)");
$pg->safe_psql("SELECT capstan.resync_table('p', 's.inv', 'w was added')");
expect_halt($pg, 'p', 'ddl_on_captured_table', qr/s\.txt/);
is($pg->value("SELECT resolution FROM capstan.incident WHERE severity = 'halt' AND source_table = 's.inv'"), 'w was added', 'the halt is resolved by the reason');
$pg->safe_psql("DROP VIEW s.seen; ALTER TABLE s.txt ALTER v TYPE bigint");
$pg->safe_psql("SELECT capstan.resync_table('p', 's.txt', 'v is longer')");
done();
write_off();
all_equal('after ALTER here and there', 's.later');
$my->sql("ALTER TABLE s.inv DROP w");
expect_halt($pg, 'p', 'ddl_on_captured_table', qr/s\.inv/);
$pg->safe_psql("SELECT capstan.resync_table('p', 's.still', 'not what has halted it')");
is($pg->value("SELECT state FROM capstan.pipeline_status"), 'halted', 'a resync of another table does not let it go on');
$pg->safe_psql("SELECT capstan.remove_table('p', 's.inv')");
@tables = grep { $_ ne 's.inv' } @tables;
done();
all_equal('the altered table was removed');
is(generation('still'), 3, 'the other one was resynced then');

$my->sql("DROP TABLE s.bag; CREATE TABLE s.bag (v INT NOT NULL, pad VARCHAR(20)); INSERT INTO s.bag VALUES (1, 'new'), (1, 'new'), (1, NULL)");
expect_halt($pg, 'p', 'ddl_on_captured_table', qr/s\.bag/);
$pg->safe_psql("SELECT capstan.resync_table('p', 's.bag', 'made once more')");
done();
all_equal('a table that was dropped and made again');
is($pg->incidents("class = 'table_not_captured'"), '', 'and nobody takes it for a new one');
# What was altered after the definition was read is not passed over, though nothing is copied yet.
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped');
$pg->safe_psql("SELECT capstan.resync_table('p', 's.still', 'too early')");
$my->sql("INSERT INTO s.still VALUES (1500, 1500, 'x'); ALTER TABLE s.still ADD z INT DEFAULT 7; INSERT INTO s.still (id) VALUES (1501)");
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
# The stream meets it, or the copy finds another definition than it was told.
like(halted_by($pg, 'p')->{class}, qr/ddl_on_captured_table|table_map_mismatch/, 'an ALTER after that halts');
is($pg->value("SELECT count(*) FROM capstan.copied_range r JOIN capstan.pipeline_table t ON t.id = r.table_id AND t.generation = r.generation WHERE t.source_table = 'still' AND r.gtid_set IS NOT NULL"), 0,
	'before anything is copied');
$pg->safe_psql("ALTER TABLE s.still ADD z integer; SELECT capstan.resync_table('p', 's.still', 'z')");
done();
all_equal('and is passed over by the next resync');

# ---- all anew ----

$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped');
$my->sql("UPDATE s.txt SET v = v + 1; UPDATE s.bag SET v = v + 1; FLUSH LOGS; INSERT INTO s.still VALUES (2000, 2000, 'x', 1)");
$my->purge_logs;
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
expect_halt($pg, 'p', 'gtids_purged');
$pg->safe_psql("SELECT capstan.restart_snapshot('p', 'binary logs were purged')");
done();
all_equal('after a new snapshot', 's.later');
$my->sql("INSERT INTO s.still VALUES (2001, 2001, 'y', 2); DELETE FROM s.later WHERE v = 2");
all_equal('and it streams', 's.later');

# ---- nothing is left of it ----

$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->safe_psql("SELECT capstan.resync_table('p', 's.still', 'never begun'); SELECT capstan.resync_table('p', 's.txt', 'removed'); SELECT capstan.remove_table('p', 's.txt')");
is($pg->value("SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan\\_shadow%' AND relkind = 'r'"), 1, 'a removed table takes its shadow along');
is($pg->safe_psql("SELECT indisprimary, (SELECT count(*) FROM pg_index WHERE indrelid = 's.still'::regclass)
	FROM pg_index JOIN capstan.table_shadow ON indrelid = shadow"), 't|2', 'a shadow has the index of the key, and no other');
$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status");
$pg->safe_psql("SELECT capstan.drop_pipeline('p')");
is($pg->value("SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan\\_shadow%'"), 0, 'and so does a dropped pipeline');
tables_equal($my, $pg, ['s.still', 's.txt'], 'what was not begun has changed nothing');

done_testing();
