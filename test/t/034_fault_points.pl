# The copy is struck at every place of a round, and goes on from what was committed.
#
# Why: between lock and view, view and copy, copy and commit, commit and stream lies a moment in which
# half of the world knows of a step and the other half does not; kills at random (030) meet the long moments, not these.
# How: a build with fault points (src/worker/fault.h): the worker that passes one is killed by SIGKILL (the postmaster
# then ends all others), by SIGTERM, or together with the postmaster. In rounds of many tables, in rounds of one, and in the
# stream between them; writers move keys between ranges in both directions, delete and refill whole ranges, and
# append to a table faster than it is copied; there are empty, one-row and keyless tables, and keys that are not paged.
# Then some moments by themselves, standing still: ranges that were committed out of order; a range that is
# deleted while it is copied; a table that is resynced or removed between two looks at the catalog.
# Asserted: every place is met; contents are equal at the end; what a trigger notes of the commits of ranges in the
# catalog: they follow each other without gap and overlap, so none was copied twice; no row was a surprise; nothing halted. Out of
# order: exactly the committed ranges are kept up with.
# Not asserted: kills of MySQL, loss of the machine (030).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use List::Util qw(shuffle);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my @ROUND = qw(plan_before_commit plan_committed lock_held g_read view_open views_open unlocked round_saved views_announced gate_reached
  copy_begin copy_row range_written copy_before_commit copy_committed copy_done settle_begin settle_before_commit settled round_finished);
my @STREAM = qw(stream_row group_before_progress group_before_commit group_committed);
my $SMALL = $ENV{CAPSTAN_LONG} ? 700 : 200;
my $N = 300;

note("seed $CapstanTest::SEED");
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(fault_points => 1, conf => { 'capstan.max_range_rows' => $N, 'capstan.copy_workers' => 3,
		'max_locks_per_transaction' => 500 });

make_source();
$my->grant;
$pg->safe_psql(q{
	CREATE EXTENSION capstan;
	CREATE TABLE range_log (table_id int8, seq int8, low bytea[], high bytea[], rows int8);
	CREATE FUNCTION note_range() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO public.range_log VALUES (NEW.table_id, NEW.seq, NEW.low, NEW.high, NEW.rows);
		RETURN NEW;
	END $$;
	CREATE TRIGGER whole AFTER UPDATE ON capstan.copied_range FOR EACH ROW WHEN (OLD.gtid_set IS NULL AND NEW.gtid_set IS NOT NULL)
		EXECUTE FUNCTION note_range();
	CREATE TRIGGER cut AFTER INSERT ON capstan.copied_range FOR EACH ROW WHEN (NEW.gtid_set IS NOT NULL)
		EXECUTE FUNCTION note_range();
	ALTER TABLE capstan.copied_range ENABLE ALWAYS TRIGGER whole;
	ALTER TABLE capstan.copied_range ENABLE ALWAYS TRIGGER cut});
$pg->create_server('source', $my);

subtest 'every place of a round, under load' => sub {
	my @writers = map { $my->background("USE f; CALL churn($_)") } 0 .. 2;
	# rounds of many tables come first in a pipeline; what they leave behind after a strike comes alone
	my @many = map { [ $_, 'kill' ] } shuffle(@ROUND);
	my @alone = $ENV{CAPSTAN_LONG} ? map { ([ $_, 'kill' ], [ $_, 'term' ], [ $_, 'postmaster' ]) } @ROUND, @STREAM
	  : ((map { [ $_, rand() < 0.5 ? 'kill' : 'term' ] } @ROUND, @STREAM), [ $ROUND[ rand @ROUND ], 'postmaster' ]);
	splice(@many, 5) unless $ENV{CAPSTAN_LONG};
	my @todo = (@many, shuffle(@alone));
	my $met = 0;

	# a range that takes longer than twice that is cut
	$pg->safe_psql("ALTER SYSTEM SET capstan.range_time = '10ms'");
	$pg->reload;
	$pg->safe_psql(q{SELECT capstan.create_pipeline('f', server => 'source', tables => '{f.*}')});
	$pg->fault_point(@{ $todo[0] });
	$pg->safe_psql(q{SELECT capstan.start_pipeline('f')});
	for my $n (0 .. $#todo)
	{
		my ($point, $action) = @{ $todo[$n] };
		my $start = time();

		$pg->fault_point($point, $action, passing => $n < @many ? 1 : 1 + int(rand(3))) if $n > 0;
		unless ($pg->wait_struck(180))
		{
			fail("$point is passed");
			diag($pg->psql('SELECT state, last_error FROM capstan.pipeline_status; SELECT state, count(*), sum(rows_copied) FROM capstan.table_status GROUP BY 1'));
			last;
		}
		$met++;
		note(sprintf '%s %s after %.2f s', $action, $point, time() - $start);
		next if $action ne 'postmaster';
		poll_until { !kill(0, $pg->postmaster_pid) };
		$pg->start_again;
	}
	ok($pg->poll_query_until('SELECT max(n) > 1 FROM (SELECT count(DISTINCT table_id) AS n FROM capstan.copied_range GROUP BY round) r'), 'there were rounds of many tables');
	is($met, scalar(@todo), 'every place was met');
	is(scalar(grep { !$_->running } @writers), 0, 'the writers were at work all the time');
	$my->sql('UPDATE f_control.control SET go = 0');
	is($_->wait, 0, 'a writer ended well') or diag($_->errors) for @writers;
	# the long table's rest in a few rounds
	$pg->safe_psql("ALTER SYSTEM SET capstan.max_range_rows = 1000000; ALTER SYSTEM SET capstan.range_time = '5s'");
	$pg->reload;
	check('f', [ 'f.*' ]);
	note($pg->safe_psql('SELECT source_table, rows_copied FROM capstan.table_status WHERE rows_copied > 300'));
	drop_pipeline($pg, 'f');
	# what comes now counts on ranges of so many rows: none is to be cut because the machine, or the test, stands still
	$pg->safe_psql("ALTER SYSTEM SET capstan.max_range_rows = $N; ALTER SYSTEM SET capstan.range_time = '10min'");
	$pg->reload;
	$pg->poll_query_until('SHOW capstan.max_range_rows', $N);
};

# Range n of three, rows 10, 20, 30 ..: the keys in it.
for my $kind (['id INT PRIMARY KEY', 'id', sub { $_[0] }],
	[ "d DATE, id DECIMAL(10,2), PRIMARY KEY (d, id)", 'd, id', sub { sprintf "'2024-01-%02d', %d", 1 + $_[0] / 1000, $_[0] } ])
{
	my ($columns, $key, $value) = @$kind;

	subtest "ranges that were committed out of order, key ($key)" => sub {
		my $row = sub { '(' . $value->($_[0]) . ", $_[1])" };
		my $of = sub { '(' . $value->($_[0]) . ')' };
		my $copied = q{SELECT COALESCE(sum(rows), 0) FROM capstan.copied_range WHERE gtid_set IS NOT NULL};

		$my->sql("CREATE DATABASE g; USE g; CREATE TABLE t ($columns, v INT); INSERT INTO t VALUES "
			  . join(', ', map { $row->(10 * $_, 0) } 1 .. 5 * $N) . '; ANALYZE TABLE t');
		$pg->safe_psql(q{SELECT capstan.create_pipeline('g', server => 'source', tables => '{g.t}')});
		# of the first three ranges the second and third
		$pg->fault_point('range_written', 'hold', copy_index => 0);
		$pg->safe_psql(q{SELECT capstan.start_pipeline('g')});
		ok((poll_until { $pg->value($copied) == 2 * $N }), 'the second and third range are committed');
		$pg->safe_psql('CREATE TABLE flushed (); DROP TABLE flushed');
		my ($copy) = $pg->worker_pids(qr/capstan copy "g" 1/);
		$pg->fault_point('plan_committed', 'hold');
		kill('KILL', $copy);
		ok($pg->wait_struck(180), '... and the first is planned again, and stands still');
		is($pg->value($copied), 2 * $N, 'two are copied');
		# within each, from each to each, and beyond all of them
		my @places = (5, 15, 3005, 3015, 6005, 6015, 9005, 9015);
		my $sql = 'USE g; ';
		my $n = 0;
		for my $from (10, 3010, 6010, 9010)
		{
			$n += 40;
			$sql .= "UPDATE t SET v = v + 1 WHERE ($key) = " . $of->($from + $n) . ";
				DELETE FROM t WHERE ($key) = " . $of->($from + $n + 10) . ';
				INSERT INTO t VALUES ' . $row->($from + $n + 5, 1) . ';';
			for my $to (0 .. 3)
			{
				my @to = split /, /, $value->(3000 * $to + 1000 + $n + 3);
				my @names = split /, /, $key;
				my $set = join ', ', map { "$names[$_] = $to[$_]" } 0 .. $#names;
				$sql .= "UPDATE t SET v = 9, $set WHERE ($key) = " . $of->($from + 500 + 10 * $to) . ';';
				# there and back again
				@to = split /, /, $value->(3000 * $to + 2000 + $n + 5 + int($from / 3000));
				$set = join ', ', map { "$names[$_] = $to[$_]" } 0 .. $#names;
				$sql .= "START TRANSACTION; UPDATE t SET $set, v = 7 WHERE ($key) = " . $of->($from + 700 + 10 * $to) . "; UPDATE t SET $names[-1] = $names[-1] + 1 WHERE v = 7; UPDATE t SET v = 8 WHERE v = 7; COMMIT;"
				  if $to != int($from / 3000);
			}
		}
		# ends of the ranges
		$sql .= "UPDATE t SET v = 5 WHERE ($key) IN (" . join(', ', map { $of->($_) } 3000, 3010, 6000, 6010, 9000, 9010) . ');';
		my ($rc, $out, $err) = $my->try_sql($sql . 'INSERT INTO t VALUES ' . join(', ', map { $row->($_, 3) } @places));
		is($rc, 0, 'the source is changed') or diag($err);
		$pg->safe_psql(q{SELECT capstan.wait_for_source('g', timeout => '180 s')});
		# (3000, 9000]
		my $in = $key eq 'id' ? 'id > 3000 AND id <= 9000' : 'id > 3000 AND id <= 9000 AND (d, id) > ' . $of->(3000) . ' AND (d, id) <= ' . $of->(9000);
		is($pg->value(q{SELECT string_agg(id::int || ':' || v, ',' ORDER BY id) FROM g.t}),
			$my->value("SET group_concat_max_len = 1000000; SELECT GROUP_CONCAT(CONCAT(CAST(id AS SIGNED), ':', v) ORDER BY id) FROM g.t WHERE $in"),
			'the target holds these two, as they are now, and nothing else');
		$pg->fault_go;
		check('g', ['g.t']);
		drop_pipeline($pg, 'g');
		$my->sql('DROP DATABASE g');
		$pg->safe_psql('DROP TABLE g.t');
	};
}

subtest 'a range that is deleted while it is copied' => sub {
	$my->sql('CREATE DATABASE h; USE h; CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE k (n INT, v INT);
		CREATE TABLE x (id VARCHAR(10) PRIMARY KEY, v INT);
		INSERT INTO t VALUES ' . join(', ', map { "($_, 0)" } 1 .. 6 * $N) . '; INSERT INTO k SELECT id, 0 FROM t; INSERT INTO x SELECT id, 0 FROM t; ANALYZE TABLE t, k, x');
	for my $table (qw(t k x))
	{
		$pg->safe_psql("SELECT capstan.create_pipeline('h', server => 'source', tables => '{h.$table}')");
		$pg->fault_point('copy_row', 'hold', passing => 100, copy_index => 0);
		$pg->safe_psql(q{SELECT capstan.start_pipeline('h')});
		ok($pg->wait_struck(180), 'in mid-range');
		# the whole range and half of the next; then its rows come back, and go
		my $key = $table eq 'k' ? 'n' : 'id';
		$my->sql("USE h; DELETE FROM $table WHERE $key + 0 <= @{[ int(1.5 * $N) ]}");
		$pg->fault_point('copy_before_commit', 'hold', copy_index => 0);
		$pg->fault_go;
		ok($pg->wait_struck(180), '... and before its commit');
		# killed there, and once more; what is to be struck next is said before, or it might be over by then
		my ($copy) = $pg->worker_pids(qr/capstan copy "h" 1/);
		$pg->fault_point('copy_row', 'hold', passing => 100, copy_index => 0);
		kill('KILL', $copy);
		ok($pg->wait_struck(180), 'copied again, in mid-range');
		$my->sql("USE h; DELETE FROM $table WHERE $key + 0 <= @{[ 5 * $N ]}; INSERT INTO $table VALUES (1, 1), (2, 2)");
		$pg->fault_go;
		check('h', ["h.$table"]);
		drop_pipeline($pg, 'h');
	}
};

# Two looks at the catalog, and a resync or a removal between them.
subtest 'a table that goes away while its ranges are read' => sub {
	$my->sql('CREATE DATABASE r; USE r; CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (3); ANALYZE TABLE t, u');
	# both are the first worker's
	$pg->safe_psql('ALTER SYSTEM SET capstan.copy_workers = 1');
	$pg->reload;
	$pg->poll_query_until('SHOW capstan.copy_workers', 1);
	for my $table ('r.t', 'r.u')
	{
		for my $way ("SELECT capstan.resync_table('r', '$table', 'a test')", "SELECT capstan.remove_table('r', '$table')")
		{
			$pg->safe_psql("SELECT capstan.create_pipeline('r', server => 'source', tables => '{r.*}')");
			my $session = $pg->background('SELECT pg_sleep(599)');
			$pg->fault_point('ranges_read', 'hold', copy_index => 0);
			$pg->safe_psql(q{SELECT capstan.start_pipeline('r')});
			ok($pg->wait_struck(180), 'ranges are read');
			# who would end the worker before it looks again
			my ($pipeline) = $pg->worker_pids(qr/capstan pipeline/);
			my ($copy) = $pg->worker_pids(qr/capstan copy "r" 1/);
			kill('STOP', $pipeline);
			$pg->safe_psql($way);
			$pg->fault_go;
			ok((poll_until { !kill(0, $copy) }), 'the worker ends');
			kill('CONT', $pipeline);
			check('r', [ $way =~ /resync/ ? qw(r.t r.u) : grep { $_ ne $table } qw(r.t r.u) ]);
			ok($session->running, "no other session was ended: $way");
			$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(599)'});
			$session->wait;
			drop_pipeline($pg, 'r');
			$pg->safe_psql('DROP TABLE r.t, r.u');
		}
	}
};

done_testing();

# The pipeline ends its copy; contents, ranges, surprises.
sub check
{
	my ($name, $tables) = @_;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('$name', timeout => '180 s'); SELECT capstan.wait_for_source('$name', timeout => '180 s')");

	is($rc, 0, 'everything arrives') or diag($err);
	tables_equal($my, $pg, $tables, 'at the end');
	is($pg->safe_psql(q{
		SELECT t.source_table, r.* FROM capstan.pipeline_table t LEFT JOIN LATERAL (
			SELECT count(*) AS ranges, count(DISTINCT COALESCE(low::text, '')) AS lows, count(DISTINCT COALESCE(high::text, '')) AS highs,
			       count(*) FILTER (WHERE low IS NULL) AS firsts, count(*) FILTER (WHERE high IS NULL) AS lasts, sum(rows) AS rows,
			       count(*) FILTER (WHERE low IS NOT NULL AND NOT EXISTS (SELECT FROM range_log p WHERE p.table_id = l.table_id AND p.high = l.low)) AS gaps
			FROM range_log l WHERE l.table_id = t.id) r ON true
		WHERE (r.lows = r.ranges AND r.highs = r.ranges AND r.firsts = 1 AND r.lasts = 1 AND r.gaps = 0 AND r.rows = t.rows_copied) IS NOT TRUE LIMIT 5}),
		'', 'each range was copied once, and together they are the table');
	is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, 'no row was a surprise');
	is($pg->safe_psql(q{SELECT class, message, detail FROM capstan.incident WHERE severity = 'halt' LIMIT 5}), '', 'nothing halted');
}

# Many small tables, some large ones, and who writes to them.
sub make_source
{
	my $sql = "CREATE DATABASE f; CREATE DATABASE f_control; USE f;
		CREATE TABLE f_control.control (go INT); INSERT INTO f_control.control VALUES (1);
		CREATE TABLE f_control.seq (n INT PRIMARY KEY);
		INSERT INTO f_control.seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;\n";

	for my $n (0 .. $SMALL - 1)
	{
		my $key = $n % 10 == 1 ? '' : $n % 10 == 2 ? ', PRIMARY KEY (e, id)' : ', PRIMARY KEY (id)';
		my $rows = $n % 10 == 0 ? 0 : $n % 10 == 3 ? 1 : 8;

		$sql .= "CREATE TABLE s$n (id INT NOT NULL, v INT, e ENUM('b','a','c') NOT NULL$key) STATS_PERSISTENT = 0;\n";
		$sql .= "INSERT INTO s$n SELECT n, 0, 1 + n % 3 FROM f_control.seq WHERE n < $rows;\n" if $rows;
	}
	$my->sql($sql . <<'SQL');
CREATE TABLE z1_moved (id INT PRIMARY KEY, v INT NOT NULL, pad VARCHAR(40)) STATS_AUTO_RECALC = 0;
INSERT INTO z1_moved SELECT a.n * 1000 + b.n, 0, REPEAT('x', b.n % 40) FROM f_control.seq a, f_control.seq b WHERE a.n < 5;
CREATE TABLE z2_pairs (d DATE, n BIGINT UNSIGNED, v INT NOT NULL, PRIMARY KEY (d, n));
INSERT INTO z2_pairs SELECT '2024-01-01' + INTERVAL a.n DAY, b.n * CAST(18000000000000000 AS UNSIGNED), 0 FROM f_control.seq a, f_control.seq b WHERE a.n < 4;
CREATE TABLE z3_texts (k VARCHAR(20) PRIMARY KEY, v INT NOT NULL);
INSERT INTO z3_texts SELECT CONCAT(CHAR(65 + b.n % 26), 'ä', b.n), 0 FROM f_control.seq b;
CREATE TABLE z4_gone (id INT PRIMARY KEY, v INT NOT NULL);
INSERT INTO z4_gone SELECT a.n * 1000 + b.n, 0 FROM f_control.seq a, f_control.seq b WHERE a.n < 6;
CREATE TABLE z5_keyless (n INT, v INT);
INSERT INTO z5_keyless SELECT n, 0 FROM f_control.seq;
CREATE TABLE z6_enum (e ENUM('z','a','m'), n INT, v INT NOT NULL, PRIMARY KEY (e, n));
INSERT INTO z6_enum SELECT 1 + n % 3, n, 0 FROM f_control.seq;
CREATE TABLE z9_tail (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL);
INSERT INTO z9_tail (v) SELECT n FROM f_control.seq;
ANALYZE TABLE z1_moved, z2_pairs, z3_texts, z4_gone, z5_keyless, z6_enum, z9_tail;
DELIMITER //
CREATE PROCEDURE f_control.small(t INT)
BEGIN
  SET @s = CASE FLOOR(RAND() * 4)
    WHEN 0 THEN CONCAT('INSERT IGNORE INTO f.s', t, ' VALUES (', FLOOR(RAND() * 20), ', 1, ', 1 + FLOOR(RAND() * 3), ')')
    WHEN 1 THEN CONCAT('UPDATE f.s', t, ' SET v = v + 1 WHERE id = ', FLOOR(RAND() * 20))
    WHEN 2 THEN CONCAT('UPDATE IGNORE f.s', t, ' SET id = ', FLOOR(RAND() * 20), ', e = ', 1 + FLOOR(RAND() * 3), ' WHERE id = ', FLOOR(RAND() * 20))
    ELSE CONCAT('DELETE FROM f.s', t, ' WHERE id = ', FLOOR(RAND() * 40)) END;
  PREPARE p FROM @s; EXECUTE p; DEALLOCATE PREPARE p;
END //
CREATE PROCEDURE f.large()
BEGIN
  DECLARE a, b, r INT;
  DECLARE k, l VARCHAR(20);
  SELECT FLOOR(RAND() * 6000), FLOOR(RAND() * 6000), FLOOR(RAND() * 8) INTO a, b, r;
  SELECT CONCAT(CHAR(65 + FLOOR(RAND() * 26)), 'ä', a), CONCAT(CHAR(65 + b % 26), IF(RAND() < 0.5, 'A', 'ä'), b % 1000) INTO k, l;
  START TRANSACTION;
  CASE r
    WHEN 0 THEN UPDATE IGNORE z1_moved SET id = b, v = v + 1 WHERE id = a; UPDATE IGNORE z1_moved SET id = a + 1, v = v + 1 WHERE id = b + 1;
    WHEN 1 THEN UPDATE z1_moved SET v = v + 1 WHERE id BETWEEN a AND a + 20; INSERT IGNORE INTO z1_moved VALUES (b, 1, 'new'); DELETE FROM z1_moved WHERE id = a;
    WHEN 2 THEN UPDATE IGNORE z2_pairs SET d = d + INTERVAL 1 DAY WHERE d = '2024-01-01' + INTERVAL (a % 4) DAY AND n = (b % 1000) * CAST(18000000000000000 AS UNSIGNED);
                UPDATE IGNORE z2_pairs SET d = d - INTERVAL 1 DAY, n = n + 1 WHERE d = '2024-01-01' + INTERVAL (b % 5) DAY AND n = (a % 1000) * CAST(18000000000000000 AS UNSIGNED);
    WHEN 3 THEN UPDATE IGNORE z3_texts SET k = l, v = v + 1 WHERE k = CONCAT(CHAR(65 + a % 1000 % 26), 'ä', a % 1000); INSERT IGNORE INTO z3_texts VALUES (k, 1); DELETE FROM z3_texts WHERE k = CONCAT(CHAR(65 + b % 1000 % 26), 'ä', b % 1000);
    WHEN 4 THEN DELETE FROM z4_gone WHERE id BETWEEN a AND a + 700;
    WHEN 5 THEN INSERT IGNORE INTO z4_gone SELECT a + n, 1 FROM f_control.seq WHERE n < 400;
    WHEN 6 THEN INSERT INTO z5_keyless VALUES (a, 1), (a, 1); UPDATE z5_keyless SET v = v + 1 WHERE n = b % 1000; DELETE FROM z5_keyless WHERE n = a LIMIT 1;
    ELSE UPDATE IGNORE z6_enum SET e = 1 + a % 3, v = v + 1 WHERE e = 1 + b % 3 AND n = b % 1000; INSERT IGNORE INTO z6_enum VALUES (1 + a % 3, a, 1); DELETE FROM z6_enum WHERE e = 1 + a % 3 AND n = a % 1000;
  END CASE;
  IF RAND() < 0.03 THEN DO SLEEP(0.05); END IF;
  COMMIT;
END //
CREATE PROCEDURE f.churn(me INT)
BEGIN
  DECLARE t INT;
  DECLARE CONTINUE HANDLER FOR 1213, 1205 ROLLBACK;
  WHILE (SELECT go FROM f_control.control) DO
    SET t = FLOOR(RAND() * 200);
    CALL f_control.small(t);
    CALL large();
    IF me = 0 THEN
      INSERT INTO z9_tail (v) SELECT n FROM f_control.seq WHERE n < 40;
      UPDATE z9_tail SET v = v + 1 WHERE id = t * 3;
      SET t = t * 7 + 50;
      DELETE FROM z9_tail WHERE id BETWEEN t AND t + 10;
    END IF;
    DO SLEEP(0.02);
  END WHILE;
END //
SQL
}
