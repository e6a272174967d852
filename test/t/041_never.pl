# snapshot => 'never': stream only, the target is declared to equal the source at the start.
#
# Why: for targets that were loaded by other means.
# How: rows are put into both sides by hand, the pipeline is started, the source changes;
# one row is left out on the target on purpose. Then the source is started with a filter for its binary log, and becomes a replica that does not log.
# Asserted: no lock is taken on the source, changes arrive, what was declared wrongly shows
# in rows_missing and rows_existing; contents are equal where the declaration was true. A source whose log lacks changes halts.

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
CREATE DATABASE n;
CREATE TABLE n.good (id INT PRIMARY KEY, v VARCHAR(20));
CREATE TABLE n.bad (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO n.good VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO n.bad VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
GRANT SELECT ON n.* TO 'capstan'@'%';
SQL
$pg->safe_psql(<<'SQL');
CREATE EXTENSION capstan;
CREATE SCHEMA n;
CREATE TABLE n.good (id int PRIMARY KEY, v varchar(20));
CREATE TABLE n.bad (id int PRIMARY KEY, v varchar(20));
INSERT INTO n.good VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO n.bad VALUES (1, 'a'), (3, 'c'), (4, 'd');
SQL
$pg->create_server('source', $my);
$pg->safe_psql("SELECT capstan.create_pipeline('n', server => 'source', tables => '{n.*}', snapshot => 'never')");
$pg->safe_psql("SELECT capstan.start_pipeline('n')");
$pg->safe_psql("SELECT capstan.wait_for_source('n', timeout => '180 s')");
# the position is there a moment before the stream is open
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'streaming'), 'streams at once');

$my->sql(<<'SQL');
USE n;
INSERT INTO good VALUES (4, 'd');
UPDATE good SET v = 'B' WHERE id = 2;
UPDATE good SET id = 10 WHERE id = 1;
DELETE FROM good WHERE id = 3;
UPDATE bad SET v = 'B' WHERE id = 2;
INSERT INTO bad VALUES (4, 'D');
DELETE FROM bad WHERE id = 3;
SQL
$pg->safe_psql("SELECT capstan.wait_for_source('n', timeout => '180 s')");
tables_equal($my, $pg, ['n.good', 'n.bad'], 'after changes');
# counts of what was no surprise come up to a second later
ok($pg->poll_query_until("SELECT string_agg(concat_ws('|', source_table, rows_inserted, rows_updated, rows_deleted, rows_missing, rows_existing, lock_count), ' ' ORDER BY source_table) FROM capstan.table_status",
	"bad|1|1|1|1|1|0 good|1|2|1|0|0|0"), 'surprises are counted, no lock was taken');
is($pg->incidents("severity = 'halt'"), '', 'no halt');

# ---- a source whose log lacks changes: found at each connect

sub streams { ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'streaming'), $_[0]) }
sub halts
{
	my ($name, $re) = @_;

	ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'halted'), "$name: halts");
	my ($found) = $pg->query(q{SELECT class, concat(message, ' ', detail), hint FROM capstan.incident WHERE severity = 'halt' ORDER BY id DESC LIMIT 1});
	is($found->[0], 'source_setting', "$name: with its class");
	like($found->[1], $re, "$name: says which");
	like($found->[2], qr/restart_snapshot/, "$name: says what may have been missed");
	is($pg->value('SELECT count(*) FROM n.good WHERE id >= 100'), 0, "$name: nothing was applied");
}

$my->restart('--binlog-ignore-db=n');
$my->sql("INSERT INTO n.good VALUES (100, 'lost')");
halts('a filter', qr/"n".*binlog_ignore_db=n/);
$my->restart('--binlog-do-db=n');
$my->sql('DELETE FROM n.good WHERE id = 100');
$pg->safe_psql("SELECT capstan.start_pipeline('n')");
streams('with a filter that leaves it in');

$my->restart('--log-replica-updates=OFF');
streams('no log of a replica, but it is none');
$my->sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1");
$pg->safe_psql('SELECT pg_terminate_backend(pid) FROM capstan.pipeline_status');
halts('a replica without a log', qr/log_replica_updates is OFF/);
$my->sql('RESET REPLICA ALL');
$pg->safe_psql("SELECT capstan.start_pipeline('n')");
streams('not a replica any more');
$my->sql("INSERT INTO n.good VALUES (50, 'e')");
$pg->safe_psql("SELECT capstan.wait_for_source('n', timeout => '180 s')");
tables_equal($my, $pg, ['n.good'], 'goes on');

done_testing();
