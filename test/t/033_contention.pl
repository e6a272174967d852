# Somebody else wants the same tables on the source, exclusively, all the time.
#
# Why: promise P4, locks are short and bounded. A statement that waits for our lock to go lets nobody pass, our own
# read views included, and MySQL does not see that lock and views are ours alike: a wait in a circle.
# How: a snapshot of many rounds, while others ask for LOCK TABLES .. WRITE and FLUSH TABLES on the same table, and run ANALYZE TABLE;
# with and without the right to FLUSH TABLES.
# Asserted: the snapshot completes, no lock was held for long, nothing failed, rows are equal.
# Not asserted: speed; DDL proper, which halts (040).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use List::Util qw(min);
use Test::More;
use Time::HiRes qw(time);
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'10ms'" });

$my->sql(q{
CREATE DATABASE shop; USE shop;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT);
CREATE TABLE u LIKE t;
INSERT INTO t (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT REPEAT('x', 1500) FROM s;
INSERT INTO t (v) SELECT a.v FROM t a, t b WHERE b.id <= 15;
INSERT INTO u SELECT * FROM t;
ANALYZE TABLE t, u;
CREATE TABLE control (go INT);
INSERT INTO control VALUES (1);
DELIMITER //
CREATE PROCEDURE write_rows()
BEGIN
  DECLARE r INT;
  WHILE (SELECT go FROM control) DO
    INSERT INTO t (v) VALUES ('new');
    SET r = 1 + FLOOR(RAND() * 16000);
    UPDATE u SET v = CONCAT(LEFT(v, 10), RAND()) WHERE id = r;
    DO SLEEP(0.01);
  END WHILE;
END //
CREATE PROCEDURE analyze_them()
BEGIN
  WHILE (SELECT go FROM control) DO
    ANALYZE NO_WRITE_TO_BINLOG TABLE t, u;
    DO SLEEP(0.05);
  END WHILE;
END //
DELIMITER ;
});
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# The pause of somebody's n-th wish: as they are, at first; then longer and longer. On a machine so slow that a wish comes
# between each lock and its views, no round would ever be good.
sub pause { my ($seconds, $n) = @_; return $seconds * ($n < 300 ? 1 : min(50, 1.01**($n - 300))) }

for my $right ('LOCK TABLES', 'FLUSH_TABLES')
{
	$my->sql(q{GRANT FLUSH_TABLES ON *.* TO 'capstan'@'%'}) if $right eq 'FLUSH_TABLES';
	$my->sql('UPDATE shop.control SET go = 1');
	my $meter = $my->stall_meter;
	my @others = (
		$my->background('CALL shop.write_rows()'),
		$my->background('CALL shop.analyze_them()'),
		$my->writer(sub { 'LOCK TABLES shop.t WRITE, shop.u WRITE; UNLOCK TABLES; DO SLEEP(' . pause(0.03, $_[0]) . ')' }),
		$my->writer(sub { 'LOCK TABLES shop.t WRITE; UNLOCK TABLES; FLUSH TABLES shop.u; DO SLEEP(' . pause(0.04, $_[0]) . ')' }));

	$pg->safe_psql(q{SELECT capstan.create_pipeline('p', server => 'source', tables => '{shop.t,shop.u}', truncate_target => true);
		SELECT capstan.start_pipeline('p')});
	my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '400 s')});
	my $stalled = $meter->worst_ms / 1000;
	is($rc, 0, "$right: the snapshot completes") or diag($err);
	my ($locks, $tries, $hold) = split /\|/, $pg->safe_psql(q{SELECT sum(lock_count), sum(lock_tries), max(date_part('epoch', lock_hold_worst)) FROM capstan.table_status});
	cmp_ok($locks, '>', 5, "$right: in many rounds ($locks locks, $tries tries)");
	cmp_ok($hold, '<', 1.5 + $stalled, sprintf "$right: no lock was held for long (%.3f s)", $hold);
	is($pg->safe_psql(q{SELECT severity, class, message FROM capstan.incident WHERE severity <> 'warning' LIMIT 5}), '', "$right: nothing failed");
	$my->sql('UPDATE shop.control SET go = 0');
	$_->stop for @others[ 2, 3 ];
	$_->wait for @others[ 0, 1 ];
	$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
	tables_equal($my, $pg, ['shop.t', 'shop.u'], $right) if $rc == 0;
	$pg->safe_psql(q{SELECT capstan.stop_pipeline('p')});
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'p'");
	$pg->safe_psql(q{SELECT capstan.drop_pipeline('p')});
}
done_testing();
