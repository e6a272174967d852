# The workers' memory does not grow with what they have to carry.
#
# Why: a pipeline runs for months beside a database that wants the machine's memory for itself.
# How: the anonymous memory of each worker (RssAnon in /proc) is sampled 50 times a second while it carries a transaction of 100 MB, rows of 24 MB
# by the stream and by the copy, a compressed transaction that inflates more than fifty times, changes of more tables than a worker keeps open, and a steady load
# of every kind. CAPSTAN_LONG=1: larger ones, a transaction of 10 GB of short and long rows, and five minutes of load (disk: 40 GB).
# Asserted: the peaks above what the worker has when it is idle; what it has again afterwards; the slope of the load, by least
# squares. Contents are equal.
# Not asserted: shared memory (buffers), which the server's settings bound; memory of the source.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $long = $ENV{CAPSTAN_LONG};
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0', '--max-allowed-packet=1G', '--innodb-log-buffer-size=16M',
	'--innodb-redo-log-capacity=4G', '--replica-max-allowed-packet=1G' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => { max_locks_per_transaction => 256, shared_buffers => "'64MB'", 'capstan.copy_workers' => 1 });

# A worker's anonymous memory in kB; undef if it is not there.
sub memory
{
	my ($pid) = @_;

	open(my $in, '<', "/proc/$pid/status") or return;
	local $/;
	return <$in> =~ /^RssAnon:\s+(\d+) kB/m ? $1 : undef;
}

# Beside the test: the greatest memory of a kind of worker, until ->() is called, which returns it in MB. ->('so far') goes on.
sub watch
{
	my ($who) = @_;
	my $file = File::Temp->new(TEMPLATE => 'capstan-memory.XXXXXX', TMPDIR => 1);
	my $pid = CapstanTest::spawn_code(sub {
		my ($worst, $looked, @pids) = (0, 0);

		while (getppid() != 1)
		{
			if (!@pids || time() - $looked > 0.1) { @pids = $pg->worker_pids($who); $looked = time() }
			for (@pids)
			{
				my $now = memory($_) // 0;
				next if $now <= $worst;
				$worst = $now;
				seek($file, 0, 0); syswrite($file, sprintf("%12d", $worst));
			}
			sleep(0.02);
		}
	});
	return sub {
		unless (@_)
		{
			kill('KILL', $pid);
			CapstanTest::reap($pid);
		}
		return int(CapstanTest::slurp($file->filename) || 0) / 1024;
	};
}

sub idle { my ($who) = @_; my ($pid) = $pg->worker_pids($who); return memory($pid) / 1024 }

# Of all that a command prints.
sub streamed_digest
{
	my ($rc, $out, $err) = CapstanTest::run_command(['bash', '-c', 'set -o pipefail; "$@" | sha256sum', 'bash', @_]);
	die $err if $rc != 0;
	return $out;
}

my $stream = qr/capstan pipeline "m"/;
my ($row_mb, $transaction_mb, $ntables) = $long ? (200, 2000, 3000) : (24, 100, 1100);
my $row = $row_mb * 1024 * 1024;
my $numbers = 'SET cte_max_recursion_depth = 10000000; INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <';

$my->sql("CREATE DATABASE m; USE m; CREATE TABLE many (id INT PRIMARY KEY, v VARCHAR(2000)); CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT);
	INSERT INTO large VALUES (1, REPEAT(RANDOM_BYTES(1024), $row_mb * 1024), NULL)");
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# What a worker has more at its peak than when it is idle, in rows.
my $base;
sub in_rows { my ($peak) = @_; return ($peak - $base) / $row_mb }

my $peak = watch(qr/capstan copy "m"/);
start_pipeline($pg, 'm', ['m.*'], timeout => '300 s');
my $copied = $peak->();
$base = idle($stream);
cmp_ok($base, '<', 20, sprintf('an idle worker has %.1f MB', $base));
cmp_ok(in_rows($copied), '<', 3, sprintf('copy of a row of %d MB: %.1f times the row', $row_mb, in_rows($copied)));
cmp_ok(in_rows($copied), '>', 1, '... it was seen');

# With a lock on the target the worker stands still with the row in its hands, until that was seen.
sub step
{
	my ($what, $sql, $hold) = @_;
	my $peak = watch($stream);
	my $lock;

	if ($hold)
	{
		$lock = $pg->background('BEGIN; LOCK TABLE m.large IN SHARE MODE; SELECT pg_sleep(599)');
		$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = 'm.large'::regclass AND mode = 'ShareLock' AND granted", 1);
	}
	$my->sql("USE m; $sql");
	if ($hold)
	{
		poll_until(sub { in_rows($peak->('so far')) > 1 });
		$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()});
		$lock->wait;
	}
	sync_pipeline($pg, 'm', '600 s');
	my $worst = $peak->();
	poll_until(sub { idle($stream) < $base + 8 });
	cmp_ok(idle($stream), '<', $base + 8, sprintf('%s: afterwards the worker has %.1f MB', $what, idle($stream)));
	return $worst;
}

# A value that nothing has to be made of is moved into its tuple: once. Of an update's event both images are there.
for (['a row inserted', 1.3, "INSERT INTO large VALUES (2, NULL, REPEAT('abc', $row / 3))"], ['a row updated', 2.3, "UPDATE large SET t = REPEAT('bcd', $row / 3) WHERE id = 2"],
	['a row updated beside its large value', 2.3, "UPDATE large SET b = '1' WHERE id = 2"])
{
	my ($what, $most, $sql) = @$_;
	my $worst = step($what, $sql, 1);

	cmp_ok(in_rows($worst), '<', $most, sprintf('%s: %.1f times the row', $what, in_rows($worst)));
	cmp_ok(in_rows($worst), '>', 1, '... it was seen');
}

my $worst = step('a large transaction', "$numbers $transaction_mb * 512) SELECT i, REPEAT(CHAR(97 + i % 26), 2000) FROM n");
cmp_ok($worst, '<', $base + 12, sprintf('%d MB in one transaction: %.1f MB', $transaction_mb, $worst));
$worst = step('a compressed transaction', "SET binlog_transaction_compression = ON; UPDATE many SET v = REPEAT('y', 2000)");
my $ratio = $my->value("SELECT COALESCE(MAX(UNCOMPRESSED_BYTES_COUNTER / COMPRESSED_BYTES_COUNTER), 0) FROM performance_schema.binary_log_transaction_compression_stats WHERE COMPRESSION_TYPE = 'ZSTD'");
cmp_ok($ratio, '>', 50, sprintf('a transaction that inflates %d times', $ratio));
cmp_ok($worst, '<', $base + 20, sprintf('... of %d MB: %.1f MB', 2 * $transaction_mb, $worst));
tables_equal($my, $pg, ['m.many'], 'large transactions');
# As text that both sides write alike a row of 200 MB is longer than Postgres can say.
is(streamed_digest(@{ $my->client_words }, qw(--batch --skip-column-names -e), q{SELECT id, COALESCE(SHA2(b, 256), '-'), COALESCE(SHA2(t, 256), '-') FROM m.large ORDER BY id}),
	streamed_digest($pg->psql_words, '-c', q{COPY (SELECT id, coalesce(encode(sha256(b), 'hex'), '-'), coalesce(encode(sha256(convert_to(t, 'UTF8')), 'hex'), '-') FROM m.large ORDER BY id) TO STDOUT}), 'large rows');
drop_pipeline($pg, 'm');

# ---- 10 GB in one transaction: 5 GB of rows of 512 bytes, 5 GB of rows of 100 kB ----

if ($long)
{
	$my->sql('DROP TABLE m.many, m.large; CREATE DATABASE g; USE g; CREATE TABLE short (id INT PRIMARY KEY, v VARCHAR(600)); CREATE TABLE wide (id INT PRIMARY KEY, v LONGTEXT)');
	$pg->safe_psql('DROP SCHEMA m CASCADE');
	start_pipeline($pg, 'g', ['g.*']);
	$my->purge_logs;
	my ($pipeline) = $pg->worker_pids(qr/capstan pipeline "g"/);
	my $peak = watch(qr/capstan pipeline "g"/);
	my $start = time();
	$my->sql('USE g; SET cte_max_recursion_depth = 100000000; BEGIN;' . join('', map { my ($table, $rows, $value) = @$_;
		"INSERT INTO $table WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $rows) SELECT i, $value FROM n;" }
		['short', 10000000, 'REPEAT(SHA2(i, 512), 4)'], ['wide', 50000, 'REPEAT(SHA2(i, 512), 782)']) . 'COMMIT');
	my $written = time();
	sync_pipeline($pg, 'g', '1800 s');
	my $worst = $peak->();
	diag(sprintf('10 GB in one transaction: %.1f GB received, source %.0f s, then %.0f s; worker at most %.1f MB, then %.1f MB', $pg->value('SELECT bytes_received FROM capstan.pipeline_status') / 1e9,
		$written - $start, time() - $written, $worst, memory($pipeline) / 1024));
	cmp_ok($worst, '<', $base + 12, sprintf('10 GB in one transaction: %.1f MB', $worst));
	is($pg->value('SELECT max(id) FROM g.short') . ' ' . $pg->value('SELECT max(id) FROM g.wide'), '10000000 50000', '... it has arrived');
	for my $table (qw(short wide))
	{
		is(streamed_digest(@{ $my->client_words }, qw(--quick --batch --skip-column-names -e), "SELECT id, SHA2(v, 256) FROM g.$table ORDER BY id"),
			streamed_digest($pg->psql_words, '-c', "COPY (SELECT id, encode(sha256(convert_to(v, 'UTF8')), 'hex') FROM g.$table ORDER BY id) TO STDOUT"), "... g.$table is equal");
	}
	drop_pipeline($pg, 'g');
	$my->sql('DROP DATABASE g');
	$my->purge_logs;
	$pg->safe_psql('DROP SCHEMA g CASCADE');
}

# ---- many tables ----

$my->sql('CREATE DATABASE n; USE n;' . join '', map { "CREATE TABLE t$_ (id INT PRIMARY KEY, a VARCHAR(20), b INT); INSERT INTO t$_ VALUES (1, 'x', 2);" } 1 .. $ntables);
$peak = watch(qr/capstan copy "n"/);
start_pipeline($pg, 'n', ['n.*'], timeout => '300 s');
my $tables_copied = $peak->();
my $tables = qr/capstan pipeline "n"/;
my $kb = (idle($tables) - $base) * 1024 / $ntables;
cmp_ok($kb, '<', 8, sprintf('a captured table that is not in use: %.1f kB', $kb));
$my->sql('USE n;' . join '', map { "INSERT INTO t$_ VALUES (2, 'y', 3);" } 1 .. $ntables);
sync_pipeline($pg, 'n', '300 s');
my $used = idle($tables);
$my->sql('USE n;' . join '', map { "UPDATE t$_ SET b = 4;" } 1 .. $ntables);
sync_pipeline($pg, 'n', '300 s');
poll_until(sub { idle($tables) < 30 });
cmp_ok(idle($tables), '<', 30, sprintf('all of %d tables changed twice: %.1f MB, %.1f MB', $ntables, $used, idle($tables)));
cmp_ok($tables_copied, '<', 70, sprintf('... and copied: %.1f MB', $tables_copied));
# a comparison table by table would take longer than all of this
is($pg->value(q{SELECT count(*) || ' ' || count(DISTINCT x) || ' ' || max(x) FROM (SELECT regexp_replace(query_to_xml(format('SELECT id, a, b FROM n.%I ORDER BY id', relname), true, true, '')::text, '\s|</?row[^>]*>', '', 'g')
	FROM pg_class WHERE relnamespace = 'n'::regnamespace AND relkind = 'r') AS t(x)}), "$ntables 1 <id>1</id><a>x</a><b>4</b><id>2</id><a>y</a><b>4</b>", '... each has its rows');
drop_pipeline($pg, 'n');

# ---- a steady load ----

$my->sql('CREATE DATABASE s; CREATE TABLE s.a (id INT PRIMARY KEY, v INT, s VARCHAR(100), doc JSON, big TEXT); CREATE TABLE s.b (k VARCHAR(30), v INT, PRIMARY KEY (k)); CREATE TABLE s.heap (a INT, b INT)');
start_pipeline($pg, 's', ['s.*']);
my $writer = $my->writer(sub {
	my ($n) = @_;
	my $id = $n % 1000;

	select(undef, undef, undef, 0.002) if $n % 5 == 0;
	return "START TRANSACTION; REPLACE INTO s.a VALUES ($id, $n, REPEAT('s', $n % 90), JSON_OBJECT('n', $n, 'a', JSON_ARRAY(1, 2)), REPEAT('t', $n * 37 % 9000)); UPDATE s.a SET id = id + 10000 WHERE id = $id - 5;
		DELETE FROM s.a WHERE id = " . (10000 + ($n + 400) % 1000) . "; INSERT INTO s.b VALUES ('k$n', $n); DELETE FROM s.b WHERE k = 'k" . ($n - 300) . "'; INSERT INTO s.heap VALUES ($id, 1); DELETE FROM s.heap WHERE a = $id LIMIT 1;"
	  . ($n % 20 == 0 ? ' ROLLBACK' : $n % 50 == 1 ? " COMMIT; CREATE TABLE IF NOT EXISTS m.other_$n (a INT); DROP TABLE m.other_$n" : ' COMMIT');
});
my $steady = qr/capstan pipeline "s"/;
my $seconds = $long ? 300 : 8;
my $most = $long ? 0.2 : 25;
my @samples;

# Least squares: kB in a second.
sub slope
{
	my ($n, $st, $sm, $stt, $stm) = (scalar @samples, 0, 0, 0, 0);
	for (@samples) { $st += $_->[0]; $sm += $_->[1]; $stt += $_->[0]**2; $stm += $_->[0] * $_->[1] }
	return ($n * $stm - $st * $sm) / ($n * $stt - $st**2);
}

# Bytes in use of what lives as long as the worker: exact, where RssAnon counts pages, and shows a few bytes a second only after a day.
sub stream_context
{
	my ($pid) = $pg->worker_pids($steady);
	my $from = $pg->log_position;

	$pg->safe_psql("SELECT pg_log_backend_memory_contexts($pid)");
	poll_until { $pg->log_contains(qr/Grand total/, $from) };
	return substr($pg->log, $from) =~ /capstan stream: .* (\d+) used/ ? $1 : die 'no memory context of the stream';
}

# How long it takes until every cache is filled depends on the machine; what leaks does so for ever.
sleep($long ? 60 : 4);
my ($held, $since) = (stream_context(), time());
my $slope;
for (1 .. 5)
{
	my $start = time();
	@samples = ();
	while (time() - $start < $seconds)
	{
		push @samples, [ time() - $start, idle($steady) * 1024 ];
		sleep($long ? 1 : 0.2);
	}
	$slope = slope();
	last if $slope < $most;
}
my $leak = (stream_context() - $held) / (time() - $since);
note(sprintf('what lives as long as the worker grows by %.1f bytes/s', $leak));
cmp_ok($leak, '<', 20, '... which is nothing') if $long;
$writer->stop;
my $transactions = $pg->value("SELECT transactions FROM capstan.worker_stats() AS w LIMIT 1");
diag('kB, at each minute: ' . join(' ', map { $samples[$_ * 60][1] } 0 .. $#samples / 60)) if $long;
diag(sprintf('%d s of load, %s transactions: %.0f to %.0f kB, slope %.2f kB/s, %.0f MB in 72 hours', $seconds, $transactions, $samples[0][1], $samples[-1][1], $slope, $slope * 72 * 3600 / 1024));
cmp_ok($slope, '<', $most, 'memory does not grow with time');
sync_pipeline($pg, 's');

done_testing();
