# A table that cannot be locked: a prepared XA transaction is in the way, or the right is gone.
#
# Why: a prepared XA transaction keeps its tables for as long as somebody forgets it, over restarts; neither the other
# tables nor the writers may wait with it, and the operator must be told how to end it.
# How: two tables of an XA transaction that is prepared before the pipeline exists, others beside them; it is ended by the statement
# that the incident gives, or by COMMIT in its place. A table that somebody keeps locked for writing. An account that loses LOCK TABLES after create_pipeline; one that loses SELECT, so that the source
# still shows it the tables, but none of their columns.
# Asserted: all other tables are copied and followed meanwhile; no process crashes; the incident names table and XA; writers of the locked table
# wait for capstan.max_lock_wait at most; then everything completes and is equal. The GRANT that the halt names is the one that mends it.
# Not asserted: XA transactions that are prepared while the pipeline runs (they halt it).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_lock_wait' => "'100ms'" });

$my->sql(q{
	CREATE DATABASE x; USE x;
	CREATE TABLE seq (n INT PRIMARY KEY); INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
	CREATE TABLE l1 (id INT PRIMARY KEY, v INT); INSERT INTO l1 SELECT a.n * 1000 + b.n, 0 FROM seq a, seq b WHERE a.n < 3;
	CREATE TABLE l2 LIKE l1; INSERT INTO l2 SELECT * FROM l1;
	CREATE TABLE s1 (id INT PRIMARY KEY, v INT); INSERT INTO s1 VALUES (1, 1), (2, 2);
	CREATE TABLE s2 LIKE s1; INSERT INTO s2 SELECT * FROM s1; CREATE TABLE s3 LIKE s1;
	ANALYZE TABLE l1, l2, s1, s2, s3});
my ($user) = $my->grant;
$my->sql("GRANT XA_RECOVER_ADMIN ON *.* TO '$user'\@'%'");
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

for my $end ('COMMIT', 'ROLLBACK')
{
	subtest "a prepared XA transaction that is ended by XA $end" => sub {
		$my->sql(q{USE x; XA START 'st\'uck', 'b', 7; UPDATE l1 SET v = v + 1 WHERE id = 5; UPDATE s1 SET v = v + 1 WHERE id = 1; XA END 'st\'uck', 'b', 7; XA PREPARE 'st\'uck', 'b', 7});
		$pg->safe_psql(q{SELECT capstan.create_pipeline('p', server => 'source', tables => '{x.*}', truncate_target => true); SELECT capstan.start_pipeline('p')});
		ok($pg->poll_query_until(q{SELECT string_agg(source_table, ' ' ORDER BY source_table) FROM capstan.table_status WHERE state <> 'streaming'}, 'l1 s1'),
			'all other tables are copied');
		$my->sql('USE x; UPDATE l2 SET v = v + 7 WHERE id < 10; REPLACE INTO s3 VALUES (9, 9); DELETE FROM s2 WHERE id = 1');
		$pg->safe_psql(q{SELECT capstan.wait_for_source('p', timeout => '180 s')});
		tables_equal($my, $pg, [ 'x.l2', 'x.s2', 'x.s3' ], '... and followed');
		ok($pg->poll_query_until(q{SELECT count(*) > 0 FROM capstan.incident_status WHERE class = 'table_lock_not_granted' AND source_table = '`x`.`l1`' AND severity = 'warning' AND resolved_at IS NULL}, 't'),
			'an incident names the table that cannot be locked') or diag($pg->safe_psql('SELECT class, source_table, message FROM capstan.incident_status'));
		my $hint = $pg->value(q{SELECT hint FROM capstan.incident_status WHERE class = 'table_lock_not_granted' AND resolved_at IS NULL ORDER BY last_at DESC LIMIT 1});
		like($hint, qr/Prepared XA transactions on the source: 1\./, '... and the XA transaction');
		my ($statement) = $hint =~ /(XA ROLLBACK X'[^;]*);/;
		my $meter = $my->stall_meter;
		my @took;
		for (1 .. 40)
		{
			my $start = time();
			$my->sql("UPDATE x.l1 SET v = v + 1 WHERE id = 100 + $_");
			push @took, time() - $start;
		}
		cmp_ok(max(@took), '<', 1.5 + 2 * $meter->worst_ms / 1000, sprintf 'its writers are held back for a moment only, worst %.3f s', max(@took));
		$statement =~ s/ROLLBACK/$end/;
		my ($rc, $out, $err) = $my->try_sql($statement);
		is($rc, 0, "$statement ends it") or diag($err);
		($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '180 s'); SELECT capstan.wait_for_source('p', timeout => '180 s')});
		is($rc, 0, 'then the copy is completed') or diag($err);
		tables_equal($my, $pg, ['x.*'], 'at the end');
		is($pg->value('SELECT count(*) FROM capstan.table_status WHERE lock_count <> lock_read + lock_flush + lock_write OR lock_count = 0'), 0, 'each lock is counted by what gave it');
		is($pg->safe_psql(q{SELECT class, message FROM capstan.incident WHERE severity = 'halt'}), '', 'nothing halted');
		drop_pipeline($pg, 'p');
	};
}

subtest 'SELECT is revoked while tables are copied' => sub {
	$my->sql("REVOKE SELECT ON *.* FROM '$user'\@'%'; GRANT SELECT, INDEX, LOCK TABLES ON x.* TO '$user'\@'%'");
	$pg->safe_psql(q{SELECT capstan.create_pipeline('p', server => 'source', tables => '{x.*}', truncate_target => true)});
	my $holder = $my->background('LOCK TABLES x.l1 WRITE; SELECT SLEEP(600)');
	$my->wait_executing('SELECT SLEEP(600)');
	my $since = $pg->log_position;
	$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
	ok($pg->poll_query_until(q{SELECT string_agg(source_table, ' ') FROM capstan.table_status WHERE state <> 'streaming'}, 'l1'), 'all tables but one are copied');
	$my->sql("REVOKE SELECT ON x.* FROM '$user'\@'%'");
	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'halted'), 'halted');
	$my->kill_executing('SELECT SLEEP(600)');
	unlike(substr($pg->log, $since), qr/was terminated by signal/, 'no process crashed');
	like($pg->value(q{SELECT hint FROM capstan.incident_status WHERE severity = 'halt' ORDER BY id DESC LIMIT 1}), qr/GRANT SELECT/, 'the incident says what is missing')
	  or diag($pg->safe_psql('SELECT severity, class, message, hint FROM capstan.incident_status'));
	$my->sql("GRANT SELECT ON *.* TO '$user'\@'%'; REVOKE INDEX, LOCK TABLES ON x.* FROM '$user'\@'%'");
	$pg->safe_psql(q{SELECT capstan.resume_pipeline('p', 'granted again')});
	my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '180 s'); SELECT capstan.wait_for_source('p', timeout => '180 s')});
	is($rc, 0, 'granted and resumed, it completes') or diag($err);
	tables_equal($my, $pg, ['x.*'], 'at the end');
	drop_pipeline($pg, 'p');
};

subtest 'LOCK TABLES is revoked' => sub {
	$pg->safe_psql(q{SELECT capstan.create_pipeline('p', server => 'source', tables => '{x.*}', truncate_target => true)});
	my ($grant) = grep { /LOCK TABLES/ } $my->sql("SHOW GRANTS FOR '$user'\@'%'") =~ /(.*)/g;
	$my->sql("REVOKE LOCK TABLES ON " . ($grant =~ / ON (\S+) TO/)[0] . " FROM '$user'\@'%'");
	$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'halted'), 'halted');
	my $hint = $pg->value(q{SELECT hint FROM capstan.incident_status WHERE severity = 'halt' ORDER BY id DESC LIMIT 1});
	is($hint, "GRANT SELECT, LOCK TABLES ON `x`.* TO '$user'\@'%';", 'the incident names the GRANT');
	$my->sql($hint);
	$pg->safe_psql(q{SELECT capstan.start_pipeline('p')});
	my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('p', timeout => '180 s'); SELECT capstan.wait_for_source('p', timeout => '180 s')});
	is($rc, 0, 'granted and started, it completes') or diag($err);
	tables_equal($my, $pg, ['x.*'], 'at the end');
};

done_testing();
