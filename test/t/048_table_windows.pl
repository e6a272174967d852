# Small tables are read from the source as they are described, where the tables of one round are in two windows of a copy worker.
#
# Why: descriptions are read a window of tables at a time (src/worker/tablewindow.c), and each worker begins its windows where it needs
# them. A round whose first tables were in the old window and the next ones not once kept descriptions that were freed with it: where the new ones took
# their place, the rows of another table were copied, and nothing told.
# How: a build with fault points has windows of 40 tables. 120 tables of the same definition, each with rows of its own; some of the
# first ones are larger than the source believes, which the first round finds out: so the second worker's windows begin elsewhere than the first one's.
# Asserted: contents are equal, there were rounds of many tables, no worker failed.
# Not asserted: windows of the size that users have.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $TABLES = 120;
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(fault_points => 1, conf => { 'max_locks_per_transaction' => 500, 'capstan.copy_workers' => 2 });

my $sql = "SET cte_max_recursion_depth = 5000; CREATE DATABASE w; USE w;\n";
for my $n (0 .. $TABLES - 1)
{
	my $rows = $n % 4 == 3 && $n < 30 ? 1500 : 5;

	$sql .= sprintf "CREATE TABLE t%03d (id INT PRIMARY KEY, v INT) STATS_AUTO_RECALC = 0;\n", $n;
	$sql .= sprintf "INSERT INTO t%03d WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i, %d FROM s;\n", $n, $rows, $n;
}
$my->sql($sql);
$my->stale_statistics('w', map { sprintf 't%03d', $_ } 0 .. $TABLES - 1);
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql(q{SELECT capstan.create_pipeline('w', server => 'source', tables => '{w.*}'); SELECT capstan.start_pipeline('w')});
$pg->safe_psql(q{SELECT capstan.wait_for_snapshot('w', timeout => '120 s')});
is($pg->value(q{SELECT sum(rows_copied) FROM capstan.table_status}), $my->value('SELECT SUM(n) FROM (' . join(' UNION ALL ', map { sprintf 'SELECT COUNT(*) AS n FROM w.t%03d', $_ } 0 .. $TABLES - 1) . ') c'),
	'all is copied');
cmp_ok($pg->value('SELECT round FROM capstan.snapshot_round'), '<', $TABLES / 2, 'in rounds of many tables');
is($pg->value('SELECT count(*) FROM capstan.pipeline_table WHERE rows_estimate = 1001'), 7, 'which tables are larger than the source believes was found out');
is($pg->value("SELECT string_agg(class || ': ' || message, '; ') FROM capstan.incident"), undef, 'no worker has failed');
tables_equal($my, $pg, ['w.*'], 'each table has its own rows');
done_testing;
