# A read-only replica as the source, and fail-over between the servers of a group.
#
# Why: many sources are replicas, which must not be written to; and servers are replaced.
# How: a MySQL with a super_read_only replica; one pipeline reads the replica alone, another
# has both hosts; the first server is ended, the replica promoted and written to.
# Asserted: contents are equal, the replica has no transaction of its own after the copy, the
# pipeline with two hosts goes on from the new server.
# Not asserted: a new server that lacks what was applied (see 032_position.pl).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $primary = CapstanTest::MySQL->start(name => 'primary');
my $replica = CapstanTest::MySQL->start(name => 'replica', options => [ '--replica-parallel-workers=4', '--replica-preserve-commit-order=ON' ]);
my $pg = CapstanTest::Postgres->start;

$primary->sql(<<'SQL');
CREATE USER 'repl'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%';
CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
GRANT SELECT, LOCK TABLES ON f.* TO 'capstan'@'%';
CREATE DATABASE f;
CREATE TABLE f.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20));
CREATE TABLE f.n (k VARCHAR(20) PRIMARY KEY, v INT);
INSERT INTO f.t (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT CONCAT('v', n) FROM s;
INSERT INTO f.n SELECT v, id FROM f.t;
SQL
$replica->sql(sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, SOURCE_USER = 'repl',
	SOURCE_PASSWORD = 'sesam', SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1; START REPLICA; SET GLOBAL super_read_only = ON", $primary->port));

# The replica has everything the primary has.
sub level
{
	my $executed = $primary->sql('SELECT @@GLOBAL.gtid_executed');

	$executed =~ s/\\n|\s//g;
	return $replica->sql("SELECT WAIT_FOR_EXECUTED_GTID_SET('$executed', 180)");
}
is(level(), 0, 'the replica follows');

$pg->safe_psql('CREATE EXTENSION capstan; CREATE DATABASE other');
$pg->safe_psql('CREATE EXTENSION capstan', database => 'other');
my $hosts = sprintf('127.0.0.1:%d,127.0.0.1:%d', $primary->port, $replica->port);
$pg->safe_psql("CREATE SERVER pair FOREIGN DATA WRAPPER capstan OPTIONS (host '$hosts');
	CREATE USER MAPPING FOR CURRENT_USER SERVER pair OPTIONS (user 'capstan', password 'sesam');
	SELECT capstan.create_pipeline('both', server => 'pair', tables => '{f.*}')");
$pg->safe_psql(sprintf("CREATE SERVER replica FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '%d');
	CREATE USER MAPPING FOR CURRENT_USER SERVER replica OPTIONS (user 'capstan', password 'sesam');
	SELECT capstan.create_pipeline('ro', server => 'replica', tables => '{f.*}')", $replica->port), database => 'other');
$pg->safe_psql("SELECT capstan.start_pipeline('both')");
$pg->safe_psql("SELECT capstan.start_pipeline('ro')", database => 'other');
$primary->sql("UPDATE f.t SET v = 'x' WHERE id % 10 = 0; DELETE FROM f.n WHERE v % 7 = 0; INSERT INTO f.n VALUES ('new', -1)");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('both', timeout => '180 s')");
$pg->safe_psql("SELECT capstan.wait_for_source('both', timeout => '180 s')");
tables_equal($primary, $pg, ['f.*'], 'from the primary');

is(level(), 0, 'the replica has followed');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('ro', timeout => '180 s')", database => 'other');
$pg->safe_psql("SELECT capstan.wait_for_source('ro', timeout => '180 s')", database => 'other');
is($pg->incidents("severity = 'halt'", database => 'other'), '', 'no halt on a read-only replica');
is($replica->sql(sprintf("SELECT GTID_SUBTRACT(\@\@GLOBAL.gtid_executed, '%s')", join '', map { s/\\n|\s//gr } $primary->sql('SELECT @@GLOBAL.gtid_executed'))),
	'', 'copying from the replica made no transaction there');
is($pg->value("SELECT count(*) || ' ' || sum(('x' || left(md5(id || v), 8))::bit(32)::bigint) FROM f.t", database => 'other'),
	$pg->value("SELECT count(*) || ' ' || sum(('x' || left(md5(id || v), 8))::bit(32)::bigint) FROM f.t"), 'both targets hold the same rows');

$primary->stop;
$replica->sql("STOP REPLICA; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF;
	INSERT INTO f.t (v) VALUES ('after'); UPDATE f.n SET v = v + 1 WHERE k = 'new'; DELETE FROM f.t WHERE id = 5");
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_source('both', timeout => '180 s')");
is($rc, 0, 'goes on from the other server') or diag($err);
tables_equal($replica, $pg, ['f.*'], 'after the fail-over');
is($pg->value('SELECT source_uuid FROM capstan.pipeline_status'), $replica->sql('SELECT @@GLOBAL.server_uuid'), 'and says so');

done_testing();
