# Ranges that were committed out of order become one again, and the table complete.
#
# Why: a crash can leave any subset of a round's ranges committed; a table whose ranges are
# all copied but never counted as complete would halt its pipeline for good.
# How: the catalog is put into the state that such a crash leaves, by hand: of three ranges
# the second and third are copied, the first is only planned.
# Asserted: the snapshot completes, contents are equal.
# Not asserted: how the state came about (see 030_crash.pl).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->sql(<<'SQL');
CREATE DATABASE m;
CREATE TABLE m.t (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO m.t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 600) SELECT n, CONCAT('v', n) FROM s;
CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
GRANT SELECT, LOCK TABLES ON m.* TO 'capstan'@'%';
SQL
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$pg->safe_psql("SELECT capstan.create_pipeline('m', server => 'source', tables => '{m.t}')");

(my $executed = $my->sql('SELECT @@GLOBAL.gtid_executed')) =~ s/\\n|\s//g;
$pg->safe_psql(<<"SQL");
INSERT INTO m.t SELECT n, 'v' || n FROM generate_series(101, 600) n;
INSERT INTO capstan.pipeline_progress (pipeline_id, applied) SELECT id, '$executed' FROM capstan.pipeline;
UPDATE capstan.pipeline_table SET state = 'copying';
INSERT INTO capstan.snapshot_round SELECT id, 1, '$executed' FROM capstan.pipeline;
INSERT INTO capstan.copied_range (table_id, generation, seq, low, high, round, worker, gtid_set, rows)
  SELECT t.id, 1, r.seq, r.low, r.high, 1, 0, r.set::capstan.gtid_set, r.n FROM capstan.pipeline_table t,
  (VALUES (1, NULL::bytea[], ARRAY['100'::bytea], NULL, 0), (2, ARRAY['100'::bytea], ARRAY['200'::bytea], '$executed', 100),
    (3, ARRAY['200'::bytea], ARRAY['300'::bytea], '$executed', 100), (4, ARRAY['300'::bytea], NULL, '$executed', 300)) AS r (seq, low, high, set, n);
SQL
$my->sql("UPDATE m.t SET v = 'new' WHERE id IN (50, 250, 600); DELETE FROM m.t WHERE id IN (60, 260); INSERT INTO m.t VALUES (0, 'low'), (700, 'high')");
$pg->safe_psql("SELECT capstan.start_pipeline('m')");
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('m', timeout => '180 s')");
is($rc, 0, 'the snapshot completes') or diag($err);
$pg->psql("SELECT capstan.wait_for_source('m', timeout => '180 s')");
tables_equal($my, $pg, ['m.t'], 'after the last range');
is($pg->safe_psql('SELECT count(*), bool_and(low IS NULL AND high IS NULL) FROM capstan.copied_range'), '1|t', 'the ranges have become one');
is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.pipeline_table'), 0, 'no row was a surprise');

done_testing();
