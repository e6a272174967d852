# Many small tables share rounds, and nobody on the source pays for it.
#
# Why: a round for each table makes thousands of tables slow; one LOCK TABLES for many of them makes
# MySQL end the users' transactions (error 1213) that hold the tables the other way round.
# How: 90 tables, some empty, some without a key or with one that is no good for paging, some that
# are larger than the source believes; writers with overlapping transactions over several
# tables in any order, each on rows of its own, found by key, so that rows are no cause of deadlocks; a
# transaction that stays open on some tables for seconds; workers killed.
# Asserted: contents are equal; far fewer rounds than tables; no statement of a writer failed; none waited longer than
# the bound, or after a kill than the source's own; tables that could not be locked with others came alone.
# Not asserted: speed (doc/scale.md).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $TABLES = 90;
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'max_locks_per_transaction' => 500, 'capstan.copy_workers' => 3 });

# Every tenth is empty, without a key, or of an ENUM key; a few are large, which the statistics do not know.
my $sql = "CREATE DATABASE m; USE m;\n";
for my $n (0 .. $TABLES - 1)
{
	my $key = $n % 10 == 1 ? '' : $n % 10 == 2 ? ", e ENUM('b','a','c') NOT NULL, PRIMARY KEY (e, id)" : ', PRIMARY KEY (id)';

	$sql .= "CREATE TABLE t$n (id INT NOT NULL, w INT, n INT, s VARCHAR(40)$key) STATS_AUTO_RECALC = 0;\n";
	next if $n % 10 == 0;
	my $columns = $n % 10 == 2 ? '(id, w, n, s, e)' : '(id, w, n, s)';
	my $e = $n % 10 == 2 ? ", ELT(1 + n % 3, 'a', 'b', 'c')" : '';
	my $rows = $n % 100 == 5 ? 3000 : 8;
	$sql .= "INSERT INTO t$n $columns WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < $rows) SELECT /*+ SET_VAR(cte_max_recursion_depth=5000) */ n, n % 4, 0, 'x'$e FROM s;\n";
}
$sql .= <<'SQL';
CREATE DATABASE w; CREATE TABLE w.worst (w INT PRIMARY KEY, us BIGINT, statements BIGINT); CREATE TABLE w.go (on_ INT);
DELIMITER //
CREATE PROCEDURE write_some(me INT, first INT, rounds INT)
BEGIN
  DECLARE k, t INT DEFAULT 0;
  DECLARE i INT DEFAULT first;
  DECLARE longest, took BIGINT DEFAULT 0;
  DECLARE began DATETIME(6);
  WHILE i < first + rounds DO
    START TRANSACTION;
    SET k = 0;
    WHILE k < 4 DO
      SET t = FLOOR(RAND() * 90), began = SYSDATE(6);
      SET @s = CASE IF(t % 10 IN (1, 2), 1, FLOOR(RAND() * 3))
        WHEN 0 THEN CONCAT('UPDATE t', t, ' SET n = n + 1, s = ', i, ' WHERE id = ', me + 1)
        WHEN 1 THEN CONCAT('INSERT INTO t', t, ' (id, w, n, s) VALUES (', 10000 + i * 100 + me * 10 + k, ', ', me, ', 0, ', i, ')')
        ELSE CONCAT('DELETE FROM t', t, ' WHERE id BETWEEN ', 10000 + (i - 20) * 100 + me * 10, ' AND ', 10000 + (i - 20) * 100 + me * 10 + 9) END;
      PREPARE p FROM @s; EXECUTE p; DEALLOCATE PREPARE p;
      SET took = TIMESTAMPDIFF(MICROSECOND, began, SYSDATE(6)), longest = GREATEST(longest, took), k = k + 1;
      DO SLEEP(0.005);
    END WHILE;
    COMMIT;
    SET i = i + 1;
  END WHILE;
  INSERT INTO w.worst VALUES (me, longest, rounds * 4) ON DUPLICATE KEY UPDATE us = GREATEST(us, longest), statements = statements + rounds * 4;
END //
SQL
$sql .= <<'SQL';
CREATE PROCEDURE keep_open(run INT)
BEGIN
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  START TRANSACTION;
  INSERT INTO t13 VALUES (9000 + run, 9, 9, 9);
  INSERT INTO t12 VALUES (9000 + run, 9, 9, 9, 'a');
  INSERT INTO t11 VALUES (9000 + run, 9, 9, 9);
  WHILE NOT EXISTS (SELECT 1 FROM w.go) DO
    DO SLEEP(0.05) /* it is open */;
  END WHILE;
  COMMIT;
END //
SQL
$my->sql($sql);
$my->stale_statistics('m', map { "t$_" } grep { $_ % 100 == 5 } 0 .. $TABLES - 1);
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

sub round { return $pg->value('SELECT round FROM capstan.snapshot_round') }

for my $run (1, 2)
{
	$pg->safe_psql("SELECT capstan.create_pipeline('m', server => 'source', tables => '{m.*}', truncate_target => true)");
	$my->sql('DELETE FROM w.worst; DELETE FROM w.go');
	my $meter = $my->stall_meter;
	my @writers = map { $my->background("USE m; CALL write_some($_, $run * 1000, 250)") } 0 .. 3;
	# A transaction that nobody waits for: its tables cannot be locked, until others have been.
	my $open = $my->background("USE m; CALL keep_open($run)");
	$my->wait_executing('DO SLEEP(0.05)%');
	$pg->safe_psql("SELECT capstan.start_pipeline('m')");
	for (1 .. ($run == 2 ? 4 : 0))
	{
		sleep 0.8;
		kill('TERM', $_) for $pg->worker_pids($_ % 2 ? qr/capstan copy "m" 2/ : qr/capstan copy "m" 1/);
	}
	# Several rounds are over then, and these tables were in the first.
	ok($pg->poll_query_until("SELECT count(*) >= 60 FROM capstan.table_status WHERE state = 'streaming'", 't'), "run $run: the others are copied");
	$my->sql('INSERT INTO w.go VALUES (1)');
	ok(poll_until(sub { ($pg->psql("SELECT capstan.wait_for_snapshot('m', timeout => '180 s')"))[0] == 0 }), "run $run: the snapshot completes");
	is($_->wait, 0, "run $run: no statement of a writer failed") or diag($_->errors) for @writers, $open;
	my $stalled_ms = $meter->worst_ms;
	sync_pipeline($pg, 'm');
	tables_equal($my, $pg, ['m.*'], "run $run: all tables");
	is($pg->value("SELECT string_agg(source_table, ' ') FROM capstan.pipeline_table WHERE rows_estimate = 1001"), 't5', "run $run: what the statistics do not know was found out") if $run == 1;
	is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, "run $run: no row was a surprise");
	# who is killed while he waits for a lock cannot call it off: the source itself gives it up within two seconds more
	cmp_ok($my->value('SELECT MAX(us) FROM w.worst'), '<', ($run == 1 ? 1_500_000 : 3_500_000) + 1000 * $stalled_ms, "run $run: the worst wait of a writer");
	note('worst statement: ' . $my->value('SELECT MAX(us) FROM w.worst') / 1000 . ' ms; rounds: ' . round());
	next if $run == 2;
	note("$_->[0]: tries $_->[1], locks $_->[2], wait $_->[3] us, copied $_->[4]") for $pg->query("SELECT source_table, lock_tries, lock_count, lock_wait_total_us, copy_finished_at - copy_started_at FROM capstan.pipeline_table WHERE source_table IN ('t11', 't12', 't13', 't14')");
	cmp_ok(round(), '<', 60, 'rounds are shared');
	cmp_ok($pg->value("SELECT min(lock_tries) FROM capstan.pipeline_table WHERE source_table IN ('t11', 't12')"), '>', 1, 'what was locked came alone');
	drop_pipeline($pg, 'm');
}
drop_pipeline($pg, 'm');

done_testing();
