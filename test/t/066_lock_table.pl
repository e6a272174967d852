# A group of source transactions that is too large for the server's lock table is applied one by one.
#
# Why: a group locks all that its transactions touch, partitions and their indexes. What is too much for the lock table (max_locks_per_transaction) is
# too much at each try, and a pipeline that tries the same group again goes nowhere, though each of its transactions would go.
# How: a small lock table; partitioned targets that got most of their partitions after the pipeline was created; two small transactions for each partition
# while the pipeline is stopped.
# Asserted: contents equal the source.
# Not asserted: that one transaction is too large by itself, which is tried again until the lock table is larger.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my ($TABLES, $PARTITIONS) = (8, 60);
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { max_locks_per_transaction => 10, max_connections => 20, max_wal_senders => 0, 'capstan.group_time' => "'60s'" });

$my->sql('CREATE DATABASE p; USE p; ' . join ' ', map { "CREATE TABLE t$_ (id INT PRIMARY KEY, v INT, w INT);" } 1 .. $TABLES);
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan; CREATE SCHEMA p;' . join '', map { "CREATE TABLE p.t$_ (id integer PRIMARY KEY, v integer, w integer) PARTITION BY RANGE (id);
	CREATE INDEX ON p.t$_ (v); CREATE INDEX ON p.t$_ (w); CREATE INDEX ON p.t$_ (v, w); CREATE INDEX ON p.t$_ (w, v); CREATE TABLE p.t${_}_0 PARTITION OF p.t$_ FOR VALUES FROM (0) TO (1);" } 1 .. $TABLES);
$pg->create_server('source', $my);
start_pipeline($pg, 'p', ['p.*']);
sync_pipeline($pg, 'p');
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
poll_until(sub { $pg->value("SELECT state FROM capstan.pipeline_status") eq 'stopped' });

# each in a transaction of its own: together they would be too much for us, too
for my $t (1 .. $TABLES)
{
	$pg->safe_psql(join '', map { "CREATE TABLE p.t${t}_$_ PARTITION OF p.t$t FOR VALUES FROM ($_) TO (" . ($_ + 1) . ");\n" } 1 .. $PARTITIONS);
	$my->sql('USE p; ' . join '; ', map {; "INSERT INTO t$t VALUES ($_, $_, $_)", "UPDATE t$t SET v = v + 1 WHERE id = $_" } 1 .. $PARTITIONS);
}
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
sync_pipeline($pg, 'p', '60 s');
tables_equal($my, $pg, ['p.*'], 'a row in each partition');
like($pg->log, qr/a group of transactions failed, they are tried one by one: out of shared memory/, 'as a group they were too much');

done_testing();
