# Source transactions of every sort: large, compressed, tagged, XA; and one that is broken off.
#
# Why: promises P1, P3, P7: whole, once, in bounded memory.
# How: a source whose set of GTIDs is empty; transactions of 300 MB, compressed and not; an UPDATE
# of 100,000 rows during which the worker and the server are killed, with readers; GTIDs with
# tags; XA transactions in one phase and in two, on captured tables and on others.
# Asserted: equality, positions, that no reader saw half of the update, memory of the worker; that a
# prepared XA transaction with captured rows halts, and nothing of it is applied.
# Not asserted: applying prepared XA transactions.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

# So much memory may a worker have at its peak, shared buffers and libraries included.
my $MOST_KB = 100 * 1024;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0', '--innodb-redo-log-capacity=1G', '--max-binlog-cache-size=8G',
		'--max-allowed-packet=256M', '--xa-detach-on-prepare=ON', '--max-binlog-size=100M' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => { shared_buffers => "'16MB'", max_wal_size => "'4GB'", max_prepared_transactions => 2 });

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$my->sql(<<'SQL');
CREATE DATABASE d;
USE d;
CREATE TABLE t (id INT PRIMARY KEY, v INT);
CREATE TABLE other (id INT PRIMARY KEY);
CREATE TABLE many (id INT PRIMARY KEY, v INT, pad VARCHAR(100));
CREATE TABLE large (id INT PRIMARY KEY, pad VARCHAR(2000), b LONGBLOB);
CREATE TABLE seq (n INT PRIMARY KEY);
INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
INSERT INTO many SELECT a.n * 1000 + b.n, 0, 'padding' FROM seq a, seq b WHERE a.n < 100;
RESET BINARY LOGS AND GTIDS;
SQL

sub worker { return ($pg->worker_pids(qr/capstan pipeline/))[0] }

# The peak of a worker's memory in kB.
sub peak
{
	my ($pid) = @_;
	my ($kb) = CapstanTest::slurp("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m;

	return $kb;
}

# A source that has executed nothing yet.
is($my->gtid_executed, '', 'the set of GTIDs is empty');
start_pipeline($pg, 'p', [qw(d.t d.many d.large)]);
is($pg->value("SELECT format('[%s]', applied) FROM capstan.pipeline_status"), '[]', 'and so is the position');
$my->sql('INSERT INTO d.t VALUES (1, 1)');
sync_pipeline($pg, 'p');
is($pg->value('SELECT v FROM d.t'), 1, 'the first transaction arrives');
is($pg->value('SELECT applied::text FROM capstan.pipeline_status'), $my->gtid_executed, 'and is the position');

# Tags.
my $uuid = $my->value('SELECT @@server_uuid');
$my->sql("SET gtid_next = 'AUTOMATIC:mytag'; INSERT INTO d.t VALUES (2, 2); SET gtid_next = 'AUTOMATIC'; INSERT INTO d.t VALUES (3, 3);
	SET gtid_next = 'AUTOMATIC:other_tag'; INSERT INTO d.other VALUES (1); SET gtid_next = '$uuid:mytag:7'; INSERT INTO d.t VALUES (4, 4); SET gtid_next = AUTOMATIC");
sync_pipeline($pg, 'p');
is($pg->value('SELECT applied::text FROM capstan.pipeline_status'), $my->gtid_executed, 'tags are part of the position');
like($my->gtid_executed, qr/:mytag:1:7:other_tag:1$/, '... all of them');
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$my->sql("SET gtid_next = 'AUTOMATIC:mytag'; INSERT INTO d.t VALUES (5, 5), (6, 6)");
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['d.t'], 'after a stop between tags');

# Large transactions.
my $fill = q{INSERT INTO d.large SELECT %d + a.n * 1000 + b.n, REPEAT(SHA2(a.n * 1000 + b.n, 512), 8), NULL FROM d.seq a, d.seq b WHERE a.n < %d AND b.n < 1000;
	INSERT INTO d.large SELECT %d + n, '', REPEAT(UNHEX(SHA2(n, 512)), 16384) FROM d.seq WHERE n < %d;};
$my->sql('INSERT INTO d.seq SELECT n + 1000 * k FROM d.seq, (VALUES ROW(1), ROW(2), ROW(3), ROW(4)) x (k)') if $ENV{CAPSTAN_LONG};
for my $case (
	# With CAPSTAN_LONG beyond what 32 bits can count.
	$ENV{CAPSTAN_LONG} ? [ 'of 4.5 GB', '', 4000000, 50, 4500 ] : (),
	[ 'of 300 MB', '', 0, 50, 250 ],
	[ 'of 200 MB, compressed', 'SET SESSION binlog_transaction_compression = ON;', 2000000, 30, 170 ])
{
	my ($what, $session, $base, $thousands, $megabytes) = @$case;
	my $pid = worker();
	my $bytes = $pg->value('SELECT bytes_received FROM capstan.pipeline_status');
	my $start = time();

	$my->sql("$session BEGIN; INSERT INTO d.t VALUES ($base + 10, 0); " . sprintf($fill, $base, $thousands, $base + 1000000, $megabytes)
		  . "UPDATE d.large SET pad = CONCAT(pad, 'x') WHERE id < $base + 1000; COMMIT; INSERT INTO d.t VALUES ($base + 11, 0)");
	my $written = time();
	sync_pipeline($pg, 'p', '600 s');
	diag(sprintf('a transaction %s: source %.0f s, then %.0f s; %.0f MB received; peak of the worker %.0f MB', $what, $written - $start, time() - $written,
			($pg->value('SELECT bytes_received FROM capstan.pipeline_status') - $bytes) / 1e6, peak($pid) / 1024));
	is(worker(), $pid, "$what: by the same worker");
	cmp_ok(peak($pid), '<', $MOST_KB, "$what: bounded memory");
}
tables_equal($my, $pg, ['d.t'], 'after large transactions');
my $digests = "SELECT id, %s, %s FROM d.large ORDER BY id";
is($pg->safe_psql(sprintf($digests, "encode(sha256(convert_to(pad, 'UTF8')), 'hex')", "encode(sha256(b), 'hex')"), options => [ '-F', "\t", '-P', 'null=NULL' ]),
	$my->sql(sprintf($digests, 'SHA2(pad, 256)', 'SHA2(b, 256)')), 'all of their values are equal');
$my->sql("SET SESSION binlog_transaction_compression = ON; BEGIN; INSERT INTO d.t VALUES (20, 1); SAVEPOINT s; INSERT INTO d.t VALUES (21, 1); ROLLBACK TO s; UPDATE d.t SET v = 2 WHERE id = 20; COMMIT;
	SET SESSION binlog_transaction_compression = OFF; UPDATE d.t SET v = v + 1; SET SESSION binlog_transaction_compression = ON; UPDATE d.t SET id = id + 10000000; INSERT INTO d.other VALUES (77)");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['d.t'], 'compressed and not, in turn');
no_surprise($pg, 'p');
$my->sql('TRUNCATE d.other');

# An update of 100,000 rows that is broken off several times.
my $reader = CapstanTest::spawn_code(sub {
	my ($seen, $bad) = (0, 0);
	local $SIG{TERM} = sub { CapstanTest::_spew($pg->dir . '/reader', "$seen $bad\n"); POSIX::_exit(0) };
	while (1)
	{
		my ($rc, $out) = $pg->psql('SELECT min(v) = max(v), count(*) FROM d.many');
		next if $rc != 0;
		$seen++;
		$bad++ if $out ne "t|100000\n";
	}
});
my $broken = 0;
for my $how ('TERM', 'KILL', 'restart')
{
	# A row in the middle is held by a transaction that outlives the server, so that the worker is sure to be met there, and
	# not to come further before it has been looked at.
	$pg->safe_psql("BEGIN; UPDATE d.many SET pad = pad WHERE id = 50000; PREPARE TRANSACTION 'holder'");
	$my->sql('UPDATE d.many SET v = v + 1');
	my $pid;
	my $applying = poll_until {
		$pid = worker() or return 0;
		my ($rc, $out) = $pg->psql("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND backend_type = 'capstan pipeline' AND wait_event_type = 'Lock' AND backend_xid IS NOT NULL");
		return $rc == 0 && $out == 1;
	};
	ok($applying, "$how: the update is being applied");
	my $from = $pg->log_position;
	$how eq 'restart' ? $pg->restart('immediate') : kill($how, $pid);
	# Postgres itself begins anew after a KILL.
	$how eq 'KILL' ? $pg->wait_restarted($from) : poll_until { !grep { $_ == $pid } $pg->worker_pids(qr/capstan pipeline/) };
	$broken++ if $pg->value('SELECT max(v) FROM d.many') < $my->value('SELECT MAX(v) FROM d.many');
	$pg->safe_psql("ROLLBACK PREPARED 'holder'");
	sync_pipeline($pg, 'p');
}
kill('TERM', $reader);
CapstanTest::reap($reader);
my ($seen, $bad) = split ' ', CapstanTest::slurp($pg->dir . '/reader');
is($broken, 3, 'it was broken off in the middle');
cmp_ok($seen, '>=', 5, 'readers read');
is($bad, 0, 'no reader saw half of it');
tables_equal($my, $pg, ['d.many'], 'after updates that were broken off');
is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, 'no row was a surprise');

# XA: in one phase, and on tables that are not captured, everything passes.
$my->sql("XA START 'one'; INSERT INTO d.t VALUES (30, 1); UPDATE d.t SET v = 2 WHERE id = 30; XA END 'one'; XA COMMIT 'one' ONE PHASE");
$my->sql("XA START 'gone'; INSERT INTO d.t VALUES (31, 1); XA END 'gone'; XA ROLLBACK 'gone'");
$my->sql("XA START 'a', 'b', 7; INSERT INTO d.other VALUES (1); XA END 'a', 'b', 7; XA PREPARE 'a', 'b', 7");
$my->sql("XA START x'00ff'; INSERT INTO d.other VALUES (2); XA END x'00ff'; XA PREPARE x'00ff'");
$my->sql("INSERT INTO d.t VALUES (32, 1)");
$my->sql("XA COMMIT 'a', 'b', 7; XA ROLLBACK x'00ff'; INSERT INTO d.t VALUES (33, 1)");
$my->sql("SET SESSION binlog_transaction_compression = ON; XA START 'c'; INSERT INTO d.t VALUES (34, 1); XA END 'c'; XA COMMIT 'c' ONE PHASE");
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['d.t'], 'XA in one phase, and on other tables');
is($pg->incidents("severity = 'halt'"), '', 'nothing halted');
is($pg->value('SELECT applied::text FROM capstan.pipeline_status'), $my->gtid_executed, 'the position is the source\'s');

# In two phases it halts at PREPARE, whatever becomes of it.
for my $end ('COMMIT', 'ROLLBACK')
{
	my $before = $pg->value('SELECT count(*) FROM d.t');
	$my->sql("INSERT INTO d.t VALUES (FLOOR(RAND() * 1000000) + 1000, 1)");
	$my->sql("XA START 'two'; INSERT INTO d.t VALUES (${\ ($end eq 'COMMIT' ? 40 : 41)}, 1); XA END 'two'; XA PREPARE 'two'");
	my $incident = expect_halt($pg, 'p', 'prepared_xa', qr/two/);
	is($pg->value('SELECT count(*) FROM d.t'), $before + 1, 'nothing of it is applied, and all of what came before');
	$my->sql("XA $end 'two'");
	$pg->safe_psql("SELECT capstan.start_pipeline('p')");
	expect_halt($pg, 'p', 'prepared_xa');
	drop_pipeline($pg, 'p');
	start_pipeline($pg, 'p', ['d.t'], truncate_target => 'true');
	tables_equal($my, $pg, ['d.t'], "made anew after XA $end");
}
drop_pipeline($pg, 'p');

done_testing();
