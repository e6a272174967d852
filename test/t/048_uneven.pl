# Ranges end in time, whatever their rows weigh.
#
# Why: ranges of so many rows are fine until the rows become a thousand times as heavy; the stream stands still for a
# range, so everybody reading the target waits with it.
# How: a table whose first rows are small and whose last ones weigh a megabyte, one that has them in the middle under a
# text key, and one with keys far apart; writers on all of them. A trigger notes each range that is cut. A worker that stands still for
# longer than its range may take; and, without writers, a table whose heavy rows lie in one planned range, where a range may take 10 ms.
# Then three tables of some rounds each.
# Asserted: contents are equal; large tables take turns; the longest stand-still is a small multiple of capstan.range_time; ranges were cut, and
# the table is complete all the same; after a kill too; a worker that hangs is reported. Of heavy rows few are written in one go.
# Not asserted: throughput.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0', '--max-allowed-packet=64M' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'200ms'", 'capstan.copy_workers' => 2, 'client_connection_check_interval' => "'100ms'" });

$my->sql(<<'SQL');
CREATE DATABASE u; USE u; SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE late (id INT PRIMARY KEY, n INT, b LONGBLOB);
INSERT INTO late WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 40000) SELECT n, n, 'small' FROM s;
INSERT INTO late WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 120) SELECT 40000 + n, n, REPEAT(CHAR(65 + n % 26), 1000000) FROM s;
CREATE TABLE middle (k VARCHAR(20) PRIMARY KEY, n INT, b LONGBLOB) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci;
INSERT INTO middle WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) SELECT CONCAT(ELT(1 + n % 3, 'ä', 'N', 'z'), n), n, 'small' FROM s;
UPDATE middle SET b = REPEAT('m', 1000000) WHERE k LIKE 'n1%' LIMIT 60;
CREATE TABLE sparse (id BIGINT UNSIGNED PRIMARY KEY, n INT);
INSERT INTO sparse WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) SELECT n + IF(n > 10000, 18000000000000000000, 0) + IF(n > 10000, n * 1000000000, 0), n FROM s;
DELIMITER //
CREATE PROCEDURE churn(rounds INT)
BEGIN
  DECLARE i, x INT DEFAULT 0;
  WHILE i < rounds DO
    SET x = 1 + FLOOR(RAND() * 40000);
    UPDATE late SET n = n + 1 WHERE id = x;
    INSERT IGNORE INTO late VALUES (50000 + i, i, 'appended');
    UPDATE late SET id = id + 100000 WHERE id = x + 7;
    SET @k = CONCAT(ELT(1 + x % 3, 'ä', 'N', 'z'), x);
    UPDATE middle SET n = -n, b = IF(n % 50 = 0, REPEAT('y', 200000), b) WHERE k = @k;
    DELETE FROM sparse WHERE id = x;
    DO SLEEP(0.002);
    SET i = i + 1;
  END WHILE;
END //
SQL
# Few enough heavy rows for any machine to take its time over all of them, and for a planned range to hold them all.
$my->sql(<<'SQL');
CREATE DATABASE h; USE h; SET SESSION cte_max_recursion_depth = 100000;
CREATE TABLE heavy (id INT PRIMARY KEY, b LONGBLOB);
INSERT INTO heavy WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 140) SELECT n, IF(n > 100, REPEAT(CHAR(65 + n % 26), 1000000), 'small') FROM s;
SQL
$my->sql('CREATE DATABASE r; USE r; ' . join ' ', map { "CREATE TABLE $_ (id INT PRIMARY KEY, n INT);
	INSERT INTO $_ WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n, n FROM s; ANALYZE TABLE $_;" } qw(first second third));
$my->grant;
$pg->safe_psql(q{CREATE EXTENSION capstan;
	CREATE TABLE cuts (table_name text, rows bigint);
	CREATE FUNCTION note_cut() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		INSERT INTO public.cuts SELECT source_table, NEW.rows FROM capstan.pipeline_table WHERE id = NEW.table_id;
		RETURN NEW;
	END $$;
	CREATE TRIGGER cut AFTER INSERT ON capstan.copied_range FOR EACH ROW WHEN (NEW.gtid_set IS NOT NULL) EXECUTE FUNCTION note_cut();
	ALTER TABLE capstan.copied_range ENABLE ALWAYS TRIGGER cut});
$pg->create_server('source', $my);

sub cuts { return $pg->value('SELECT count(*) FROM cuts') }

sub write_on { return $my->background('USE u; CALL churn(1500)') }

# A copy worker that hangs in the middle of a range is named. A lock on the target keeps it there until it stands still; nobody writes until
# then, or the stream would come to the lock first. The writer, and how long it hung, in ms.
sub stall
{
	my ($lock) = @_;
	my $pid = poll_until(sub { $pg->value("SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE a.backend_type = 'capstan copy' AND l.relation = 'u.late'::regclass AND NOT l.granted LIMIT 1") })
	  or die 'no copy worker';
	my $start = time();

	kill('STOP', $pid);
	$lock->stop;
	my $writer = write_on();
	ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE class = 'snapshot_stalled' AND detail LIKE '%process $pid%'", 1), 'a worker that hangs makes an incident');
	kill('CONT', $pid);
	return ($writer, 1000 * (time() - $start));
}

sub hold
{
	my ($table) = @_;
	my $lock = $pg->background("BEGIN; LOCK TABLE $table IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)");

	$pg->poll_query_until("SELECT count(*) > 0 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted");
	return $lock;
}

for my $run (1, 2)
{
	$pg->safe_psql("SELECT capstan.create_pipeline('u', server => 'source', tables => '{u.*}', truncate_target => true)");
	my $lock = $run == 1 ? hold('u.late') : undef;
	my $meter = $my->stall_meter;
	my ($writer, $hung) = $run == 1 ? () : (write_on(), 0);
	$pg->safe_psql("SELECT capstan.start_pipeline('u')");
	($writer, $hung) = stall($lock) if $run == 1;
	# what stood still for longer than it may take ends at its next look at the clock
	ok(poll_until(sub { cuts() > 0 }), 'ranges are cut') if $run == 1;
	for (1 .. ($run == 2 ? 3 : 0))
	{
		sleep 0.7;
		kill('TERM', $_) for $pg->worker_pids(qr/capstan copy/);
	}
	ok(poll_until(sub { ($pg->psql("SELECT capstan.wait_for_snapshot('u', timeout => '180 s')"))[0] == 0 }), "run $run: the snapshot completes");
	my $stalled = $meter->worst_ms;
	is($writer->wait, 0, "run $run: the writer is through");
	is($pg->incidents("class = 'snapshot_stalled' AND resolved_at IS NULL"), '', "run $run: no round is reported as stalled any more");
	sync_pipeline($pg, 'u');
	tables_equal($my, $pg, ['u.*'], "run $run");
	is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, "run $run: no row was a surprise");
	is($pg->value("SELECT count(*) FROM capstan.copied_range WHERE low IS NOT NULL OR high IS NOT NULL OR gtid_set IS NULL"), 0, "run $run: one whole range is left of each table");
	my $worst = $pg->value('SELECT max(pause_worst_us) / 1000 FROM capstan.pipeline_table');
	note("longest stand-still: $worst ms, rounds: " . $pg->value('SELECT round FROM capstan.snapshot_round'));
	# twice the range_time, and a piece that is under way
	cmp_ok($worst, '<', $hung + 4000 + 10 * $stalled, "run $run: the longest stand-still");
	cmp_ok($worst, '>', 0, "run $run: it is measured");
	drop_pipeline($pg, 'u');
}

subtest 'heavy rows in one planned range' => sub {
	my $before = cuts();

	$pg->safe_psql("ALTER SYSTEM SET capstan.range_time = '10ms'");
	$pg->reload;
	$pg->safe_psql("SELECT capstan.create_pipeline('h', server => 'source', tables => '{h.*}'); SELECT capstan.start_pipeline('h')");
	ok(poll_until(sub { ($pg->psql("SELECT capstan.wait_for_snapshot('h', timeout => '180 s')"))[0] == 0 }), 'the snapshot completes');
	cmp_ok(cuts(), '>', $before, 'ranges were cut');
	# the rows of one transaction of a worker, which is to take twice capstan.range_time at most
	my $most = $pg->value('SELECT max(n) FROM (SELECT count(*) AS n FROM h.heavy WHERE id > 100 GROUP BY xmin) t');
	cmp_ok($most, "<=", 25, "of 40 heavy rows $most were written in one go");
	tables_equal($my, $pg, ['h.*'], 'heavy rows');
	drop_pipeline($pg, 'h');
};

# Or one that grows faster than it is copied would keep all others waiting for ever.
subtest 'large tables take turns' => sub {
	$pg->safe_psql('ALTER SYSTEM SET capstan.max_range_rows = 100');
	$pg->reload;
	$pg->safe_psql("SELECT capstan.create_pipeline('r', server => 'source', tables => '{r.*}'); SELECT capstan.start_pipeline('r');");
	ok(poll_until(sub { ($pg->psql("SELECT capstan.wait_for_snapshot('r', timeout => '180 s')"))[0] == 0 }), 'the snapshot completes');
	is($pg->value('SELECT max(copy_started_at) < min(copy_finished_at) FROM capstan.pipeline_table'), 't', 'all have begun before one of them is complete')
	  or diag($pg->safe_psql('SELECT source_table, copy_started_at, copy_finished_at FROM capstan.pipeline_table'));
	tables_equal($my, $pg, ['r.*'], 'tables that took turns');
	drop_pipeline($pg, 'r');
};

done_testing();
