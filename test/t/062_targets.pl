# Targets that are more than one table of this database: partitioned tables, foreign tables, tables that several pipelines write.
#
# Why: where a row goes is decided by a key that may change; another server commits by itself; two writers of one table could
# overwrite each other's rows. All three can lose rows without a word.
# How: partitions by range, hash and list, nested, with and without a key, and rows that move between them; postgres_fdw to a second
# cluster, on which a deferred trigger lets COMMIT take a while, so that a worker can be killed after COMMIT was sent there and before it
# is made here; two sources whose rows go to one table, and one key on both. Copies and the stream are struck by SIGKILL, changes go on meanwhile.
# Asserted: contents equal the source (the sources together, for shards), on the remote server itself, too; what is refused, and the
# incidents of a row without a partition and of a key that is there already; resync_table of partitioned and foreign tables, and
# restart_snapshot of a consistent pipeline.
# Not asserted: Citus (not to be had here), other foreign-data wrappers, speed.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;
use CapstanTest::BothWays;

my @fast = (options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $my = CapstanTest::MySQL->start(@fast);
my $other = CapstanTest::MySQL->start(@fast, name => 'other');
my $remote = CapstanTest::Postgres->start(name => 'remote');
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'100ms'", 'capstan.max_range_rows' => 1500, 'capstan.heartbeat' => "'50ms'",
	wal_writer_delay => "'10s'" }); # what is not flushed at COMMIT is lost in a crash

my $seq = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)';
$my->sql(<<"SQL");
SET cte_max_recursion_depth = 100000;
CREATE DATABASE p; USE p;
CREATE TABLE by_range (region INT, id INT, v VARCHAR(40), PRIMARY KEY (region, id));
CREATE TABLE by_hash (k VARCHAR(20), v INT, big LONGTEXT, PRIMARY KEY (k));
CREATE TABLE no_key (kind INT, v INT, s VARCHAR(20));
INSERT INTO by_range $seq SELECT i % 40, i, CONCAT('v', i) FROM n;
INSERT INTO by_hash $seq SELECT CONCAT(CHAR(97 + i % 26), i), i, IF(i % 1000, NULL, REPEAT('x', 20000)) FROM n WHERE i < 3000;
INSERT INTO no_key $seq SELECT i % 5, i % 7, 's' FROM n WHERE i < 2000;
CREATE DATABASE f; USE f;
CREATE TABLE orders (id INT PRIMARY KEY, v INT, at DATETIME(6), r DOUBLE, doc JSON, s TEXT);
CREATE TABLE texts (k VARCHAR(20), v INT, PRIMARY KEY (k));
INSERT INTO orders $seq SELECT i, i, '2026-01-02 03:04:05.678901', i / 7, JSON_OBJECT('a', i), CONCAT('s', i) FROM n WHERE i < 2500;
INSERT INTO texts $seq SELECT CONCAT('k', i), i FROM n WHERE i < 500;
CREATE DATABASE g; CREATE TABLE g.heap (a INT); CREATE TABLE g.doc (id INT PRIMARY KEY, doc JSON);
CREATE DATABASE c; CREATE TABLE c.parted (id INT PRIMARY KEY, v INT); CREATE TABLE c.away (id INT PRIMARY KEY, v INT); CREATE TABLE c.plain (id INT PRIMARY KEY, v INT);
INSERT INTO c.parted $seq SELECT i, i FROM n; INSERT INTO c.away SELECT * FROM c.parted WHERE id < 2000; INSERT INTO c.plain SELECT * FROM c.parted;
SQL
$_->grant for $my, $other;
$pg->safe_psql(<<'SQL');
CREATE EXTENSION capstan; CREATE EXTENSION postgres_fdw; CREATE SCHEMA p; CREATE SCHEMA f; CREATE SCHEMA g; CREATE SCHEMA c;
CREATE TABLE p.by_range (region integer, id integer, v varchar(40), PRIMARY KEY (region, id)) PARTITION BY RANGE (region);
CREATE TABLE p.low PARTITION OF p.by_range FOR VALUES FROM (0) TO (15);
CREATE TABLE p.middle PARTITION OF p.by_range FOR VALUES FROM (15) TO (30) PARTITION BY HASH (id);
CREATE TABLE p.middle_0 PARTITION OF p.middle FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE p.middle_1 PARTITION OF p.middle FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE p.high PARTITION OF p.by_range FOR VALUES FROM (30) TO (1000);
CREATE TABLE p.by_hash (k varchar(20) COLLATE "C" PRIMARY KEY, v integer, big text) PARTITION BY HASH (k);
CREATE TABLE p.by_hash_0 PARTITION OF p.by_hash FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE p.by_hash_1 PARTITION OF p.by_hash FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE p.by_hash_2 PARTITION OF p.by_hash FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE TABLE p.no_key (kind integer, v integer, s varchar(20)) PARTITION BY LIST (kind);
CREATE TABLE p.even PARTITION OF p.no_key FOR VALUES IN (0, 2, 4); CREATE TABLE p.others PARTITION OF p.no_key DEFAULT;
CREATE INDEX ON p.no_key (v);
CREATE TABLE c.parted (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
CREATE TABLE c.parted_low PARTITION OF c.parted FOR VALUES FROM (MINVALUE) TO (2000); CREATE TABLE c.parted_high PARTITION OF c.parted DEFAULT;
SQL
my @tables = ([ 'f.orders', 'id integer, v integer, at timestamp(6), r double precision, doc jsonb, s text', 'id' ],
	[ 'f.texts', 'k varchar(20) COLLATE "C", v integer', 'k' ], [ 'c.away', 'id integer, v integer', 'id' ],
	[ 'g.heap', 'a integer' ], [ 'g.doc', 'id integer, doc jsonb' ], [ 'g.read_only', 'a integer', 'a' ]);
$remote->safe_psql("CREATE SCHEMA f; CREATE SCHEMA c; CREATE SCHEMA g; CREATE TABLE public.slow (x int);
	CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN DELETE FROM public.slow; IF FOUND THEN PERFORM pg_advisory_xact_lock(62); END IF; RETURN NULL; END \$\$");
$pg->safe_psql(sprintf("CREATE SERVER away FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '5432', dbname 'postgres'); CREATE USER MAPPING FOR CURRENT_USER SERVER away OPTIONS (user 'postgres')", $remote->host));
for (@tables)
{
	my ($name, $columns, $key) = @$_;
	my $options = $name =~ /read_only/ ? ", updatable 'false'" : '';
	my ($schema, $table) = split /\./, $name;

	$remote->safe_psql("CREATE TABLE $name ($columns" . ($key ? ", PRIMARY KEY ($key)" : '') . ");
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE ON $name DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wait()");
	$pg->safe_psql("CREATE FOREIGN TABLE $name ($columns) SERVER away OPTIONS (schema_name '$schema', table_name '$table'$options)");
}
$pg->create_server('source', $my);
$pg->create_server('shard_b', $other);

# Ends a worker by SIGKILL: the whole cluster starts anew.
sub strike
{
	my ($who) = @_;
	my $pid;

	poll_until(sub { ($pid) = $pg->worker_pids(qr/capstan $who/) }) or return fail("$who is there");
	my $from = $pg->log_position;
	kill('KILL', $pid);
	$pg->wait_restarted($from);
}

# Kills the worker that waits for the remote server to commit, and lets that commit come through. How many rows were known here before it did.
sub strike_in_remote_commit
{
	my ($who, $why) = @_;

	ok(poll_until(sub { $remote->value("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^COMMIT' AND wait_event = 'advisory'") > 0 }), "$why: the remote server commits");
	strike($who);
	# who copies the same rows again waits for that commit
	my $known = $pg->value('SELECT sum(rows_copied) FROM capstan.table_status');
	$remote->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(599)%' AND pid <> pg_backend_pid()});
	ok(poll_until(sub { $remote->value("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^COMMIT' AND state = 'active'") == 0 }), "$why: it did");
	return $known;
}

my @holders;

# A lock holds the next commit there up, until it was struck.
sub slow
{
	push @holders, $remote->background('SELECT pg_advisory_lock(62); SELECT pg_sleep(599)');
	$remote->poll_query_until("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 62 AND granted", 1);
	$remote->safe_psql('INSERT INTO public.slow VALUES (1)');
}

# The same for what is copied to a table here, which may be looked at all the same; the crash ends the session.
sub hold
{
	my ($table) = @_;

	push @holders, $pg->background("BEGIN; LOCK TABLE $table IN SHARE MODE; SELECT pg_sleep(599)");
	$pg->poll_query_until("SELECT count(*) > 0 FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'ShareLock' AND granted");
}

sub status { my ($name, $columns) = @_; return $pg->value("SELECT $columns FROM capstan.table_status WHERE pipeline = '$name'") }

# ---- partitioned ----

$pg->safe_psql("SELECT capstan.create_pipeline('parts', server => 'source', tables => '{p.*}')");
hold('p.no_key');
$pg->safe_psql("SELECT capstan.start_pipeline('parts')");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 'p.no_key'::regclass AND NOT l.granted AND a.backend_type = 'capstan copy'"), 'a copy worker is held up');
# The other tables are copied then. Nobody writes before: the stream would come to the lock first.
my $writer = $my->writer(sub {
	my ($n) = @_;
	my ($a, $b, $kind) = (1 + $n * 7 % 5900, 1 + $n * 13 % 2900, $n % 9);
	my $k = chr(97 + $b % 26) . $b;

	select(undef, undef, undef, 0.003);
	return "START TRANSACTION; UPDATE p.by_range SET region = (region + 17) % 45 WHERE region = " . ($a % 40) . " AND id = $a;
		DELETE FROM p.by_range WHERE region = " . (($a + 3) % 40) . ' AND id = ' . ($a + 3) . "; INSERT INTO p.by_range VALUES ($n % 45, 100000 + $n, 'new');
		UPDATE p.by_hash SET k = CONCAT('moved', v), v = v + 1 WHERE k = '$k'; UPDATE p.no_key SET kind = $kind WHERE v = " . ($n % 7) . " LIMIT 3;
		INSERT INTO p.no_key VALUES ($kind, 100, 'n'); COMMIT";
});
strike('copy "parts"');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('parts', timeout => '180 s')");
strike('pipeline "parts"');
sleep(0.5);
sync_pipeline($pg, 'parts');
$writer->stop;
sync_pipeline($pg, 'parts');
tables_equal($my, $pg, ['p.*'], 'partitioned, copied and streamed through two crashes');
is(status('parts', 'sum(rows_missing) + sum(rows_existing)'), 0, 'partitioned: no row was a surprise');
cmp_ok($pg->value('SELECT count(DISTINCT tableoid) FROM p.by_range'), '==', 4, 'rows are in each partition');

$my->sql("INSERT INTO p.by_range VALUES (5, 900000, 'before'); INSERT INTO p.by_range VALUES (77123, 900001, 'nowhere'); INSERT INTO p.by_range VALUES (6, 900002, 'after')");
my $gtid = $my->gtid_executed;
my $halt = expect_halt($pg, 'parts', '23514', qr/target table "by_range" has no partition for a row/, qr/p\.by_range/, qr/CREATE TABLE \.\.\. PARTITION OF.*resume_pipeline/);
my ($last) = $gtid =~ /:\d+-(\d+)$/;
like($halt->{gtid}, qr/:@{[ $last - 1 ]}$/, 'a row without a partition: the transaction is named');
unlike(join('', map { $_ // '' } values %$halt), qr/77123/, '... and the value is not');
is($pg->value('SELECT max(id) FROM p.by_range'), 900000, '... what came before it is there');
$pg->safe_psql("CREATE TABLE p.far PARTITION OF p.by_range FOR VALUES FROM (1000) TO (100000); SELECT capstan.resume_pipeline('parts', 'partition made')");
sync_pipeline($pg, 'parts');
tables_equal($my, $pg, ['p.*'], 'with the partition');

# What a partition becomes while the pipeline runs: nothing is written to one that a crash would empty, or that keeps no constraint.
for my $case ([ 'ALTER TABLE p.low SET UNLOGGED', qr/"low" is unlogged/, 'ALTER TABLE p.low SET LOGGED' ],
	[ 'ALTER TABLE p.low ADD CONSTRAINT late UNIQUE (id) DEFERRABLE', qr/"late" of table "low" belongs to a deferrable constraint/, 'ALTER TABLE p.low DROP CONSTRAINT late' ],
	[ 'CREATE UNLOGGED TABLE p.further PARTITION OF p.by_range FOR VALUES FROM (100000) TO (200000)', qr/"further" is unlogged/, 'ALTER TABLE p.further SET LOGGED' ])
{
	my ($change, $message, $remedy) = @$case;
	my ($id, $region) = ($my->value('SELECT MAX(id) + 1 FROM p.by_range'), $change =~ /further/ ? 150000 : 5);

	$pg->safe_psql($change);
	$my->sql("INSERT INTO p.by_range VALUES ($region, $id, 'late')");
	expect_halt($pg, 'parts', 'target_table', $message, qr/p\.by_range/);
	is($pg->value("SELECT count(*) FROM p.by_range WHERE id = $id"), 0, '... and nothing is there');
	$pg->safe_psql("$remedy; SELECT capstan.resume_pipeline('parts', 'mended')");
	sync_pipeline($pg, 'parts');
	tables_equal($my, $pg, ['p.*'], $remedy);
}

# The same between two changes of one transaction, when the partitioned table is locked already: a session holds a row that comes in between.
{
	my $id = $my->value('SELECT MAX(id) + 1 FROM p.by_range');
	my $k = $my->value('SELECT MIN(k) FROM p.by_hash');
	my $holder = $pg->background("BEGIN; SELECT 1 FROM p.by_hash WHERE k = '$k' FOR UPDATE; SELECT pg_sleep(598)");

	$pg->poll_query_until(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(598)%' AND wait_event = 'PgSleep'}, 1);
	$my->sql("START TRANSACTION; INSERT INTO p.by_range VALUES (31, $id, 'before'); UPDATE p.by_hash SET v = v + 1 WHERE k = '$k'; INSERT INTO p.by_range VALUES (5, $id + 1, 'late'); COMMIT");
	ok($pg->poll_query_until(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'capstan pipeline' AND wait_event_type = 'Lock'}, 1), 'the worker waits within the transaction');
	$pg->safe_psql('ALTER TABLE p.low SET UNLOGGED');
	$pg->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(598)%' AND pid <> pg_backend_pid()});
	$holder->wait;
	expect_halt($pg, 'parts', 'target_table', qr/"low" is unlogged/, qr/p\.by_range/);
	is($pg->value("SELECT count(*) FROM p.by_range WHERE id >= $id"), 0, '... and nothing of the transaction is there');
	$pg->safe_psql("ALTER TABLE p.low SET LOGGED; SELECT capstan.resume_pipeline('parts', 'mended')");
	sync_pipeline($pg, 'parts');
	tables_equal($my, $pg, ['p.*'], 'a partition that changed within a transaction');
}

# New content, while readers see the old one, or the new one.
$pg->safe_psql('DELETE FROM p.by_range WHERE id % 3 = 0; UPDATE p.middle SET v = NULL WHERE id % 5 = 0; DELETE FROM p.no_key WHERE v = 1; INSERT INTO p.no_key VALUES (1, 1, NULL)');
my $least = $pg->value('SELECT count(*) FROM p.by_range');
for my $table (qw(by_range by_hash no_key))
{
	$pg->safe_psql("SELECT capstan.resync_table('parts', 'p.$table', reason => 'damaged')");
	$my->sql("UPDATE p.by_range SET region = 14 WHERE region = 31 LIMIT 50; DELETE FROM p.by_hash LIMIT 5; INSERT INTO p.no_key VALUES (3, 3, 'r')");
	cmp_ok($pg->value('SELECT count(*) FROM p.by_range'), '>=', $least - 50, "resync of $table: the target has its rows") if $table eq 'by_range';
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('parts', timeout => '180 s')");
}
sync_pipeline($pg, 'parts');
tables_equal($my, $pg, ['p.*'], 'partitioned, resynced');
drop_pipeline($pg, 'parts');

# ---- foreign ----

like($pg->value(q{SELECT string_agg(status || ' ' || "check", ', ' ORDER BY "check") FROM capstan.preflight('source', tables => '{f.*,g.heap}') WHERE "check" LIKE 'target%' AND status <> 'ok'}),
	qr/error target_columns g\.heap.*warning target_foreign f\.orders.*warning target_foreign f\.texts/, 'preflight: no foreign table without a key, a warning for the others');
$my->sql('CREATE TABLE g.read_only (a INT PRIMARY KEY)');
like($pg->value(q{SELECT string_agg("check" || ' ' || found, '; ') FROM capstan.preflight('source', tables => '{g.doc}') WHERE status = 'error'}), qr/target_remote_key g\.doc the remote table has no unique constraint/, 'preflight: a remote table without a key');
$remote->safe_psql('ALTER TABLE g.doc ADD PRIMARY KEY (id)');
is($pg->value(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan_remote%'}), 0, '... and nothing is left of looking');
like($pg->value(q{SELECT found FROM capstan.preflight('source', tables => '{g.read_only}') WHERE status = 'error'}), qr/does not take inserts/, 'preflight: a foreign table that takes no changes');

slow();
start_pipeline($pg, 'away', ['f.*'], timeout => '');
my $known = strike_in_remote_commit('copy "away"', 'a copy');
cmp_ok($remote->value('SELECT (SELECT count(*) FROM f.orders) + (SELECT count(*) FROM f.texts)'), '>', $known, 'rows are there that nothing here knew of');
$my->sql("DELETE FROM f.orders WHERE id % 2 = 0; UPDATE f.orders SET v = -v WHERE id % 3 = 0; UPDATE f.orders SET id = id + 50000 WHERE id % 5 = 0; DELETE FROM f.texts WHERE v % 2 = 0; UPDATE f.texts SET k = UPPER(k) WHERE v % 3 = 0");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('away', timeout => '180 s')");
sync_pipeline($pg, 'away');
tables_equal($my, $remote, ['f.*'], 'foreign, copied');

slow();
$my->sql("START TRANSACTION; INSERT INTO f.orders VALUES (100001, 1, NULL, -0.0, '[1]', ''), (100002, 2, NULL, 1e300, NULL, NULL); UPDATE f.orders SET id = 100003 WHERE id = 1; DELETE FROM f.orders WHERE id = 7; INSERT INTO f.texts VALUES ('twice', 1), ('gone', 2); DELETE FROM f.texts WHERE k = 'gone'; COMMIT");
strike_in_remote_commit('pipeline "away"', 'the stream');
is($remote->value("SELECT count(*) FROM f.texts WHERE k = 'twice'"), 1, 'the change is there before the position is here');
sync_pipeline($pg, 'away');
tables_equal($my, $remote, ['f.*'], 'foreign, streamed twice');
cmp_ok(status('away', 'sum(rows_existing)'), '>', 0, 'what came again is counted');

$remote->stop('immediate');
$my->sql("INSERT INTO f.texts VALUES ('while', 3)");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE pipeline = 'away' AND severity = 'retry' AND resolved_at IS NULL"), 'the other server is gone: tried again');
$remote->start_again;
sync_pipeline($pg, 'away');
tables_equal($my, $remote, ['f.*'], 'the other server is back');

$remote->safe_psql("DELETE FROM f.orders WHERE id % 7 = 0; UPDATE f.orders SET s = 'wrong' WHERE id % 11 = 0; INSERT INTO f.texts VALUES ('stray', 1)");
slow();
for my $table (qw(orders texts))
{
	$pg->safe_psql("SELECT capstan.resync_table('away', 'f.$table', reason => 'damaged')");
	strike_in_remote_commit('pipeline "away"', 'the exchange') if $table eq 'orders';
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('away', timeout => '180 s')");
}
sync_pipeline($pg, 'away');
tables_equal($my, $remote, ['f.*'], 'foreign, resynced');
ok($pg->poll_query_until("SELECT count(*) FROM pg_class WHERE relname LIKE 'capstan_shadow%'", 0), 'no shadow is left');
drop_pipeline($pg, 'away');

start_pipeline($pg, 'doc', ['g.doc']);
# Differences to a document, which are not the same when they are applied twice.
my $numbers = join ',', 1 .. 500;
$my->sql("INSERT INTO g.doc VALUES (1, '[$numbers]'); SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON; UPDATE g.doc SET doc = JSON_REMOVE(doc, '\$[0]')");
expect_halt($pg, 'doc', 'partial_row_image', qr/foreign table; set binlog_row_image = FULL/);
drop_pipeline($pg, 'doc');

# ---- all at one moment ----

slow();
$pg->safe_psql("SELECT capstan.create_pipeline('cut', server => 'source', tables => '{c.*}', snapshot => 'consistent')");
$pg->safe_psql("SELECT capstan.start_pipeline('cut')");
strike_in_remote_commit('copy "cut"', 'a consistent copy');
$my->sql('DELETE FROM c.away WHERE id % 2 = 0; UPDATE c.parted SET id = id + 30000 WHERE id % 10 = 0');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('cut', timeout => '180 s')");
sync_pipeline($pg, 'cut');
tables_equal($my, $pg, ['c.*'], 'consistent, started over');
$pg->safe_psql('DELETE FROM c.parted WHERE id % 2 = 0; DELETE FROM c.away WHERE id < 100; UPDATE c.plain SET v = 0');
$pg->safe_psql("SELECT capstan.restart_snapshot('cut', reason => 'damaged')");
$my->sql('UPDATE c.plain SET v = v + 1 WHERE id < 100; DELETE FROM c.parted WHERE id < 50; INSERT INTO c.away VALUES (70000, 1)');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('cut', timeout => '180 s')");
sync_pipeline($pg, 'cut');
tables_equal($my, $pg, ['c.*'], 'consistent, restarted');
drop_pipeline($pg, 'cut');

# ---- shards: several pipelines into one table ----

for my $n (0, 1)
{
	my $source = $n == 0 ? $my : $other;
	$source->sql("SET cte_max_recursion_depth = 100000; CREATE DATABASE s; USE s;
		CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, u INT, UNIQUE (u)); CREATE TABLE names (k VARCHAR(30), v INT, PRIMARY KEY (k)); CREATE TABLE heap (a INT);
		INSERT INTO t $seq SELECT i * 2 + $n, i, i * 2 + $n FROM n; INSERT INTO names $seq SELECT CONCAT('n$n-', i), i FROM n WHERE i < 1000");
}
my $all = "tables => '{s.t,s.names}'";
my $shared = "$all, shared_target => true";

sub refused
{
	my ($sql, $re, $name) = @_;
	my ($rc, $out, $err) = $pg->psql($sql);

	ok($rc != 0, "refused: $name");
	like($err, $re, "refused: $name: why");
}
refused("SELECT capstan.create_pipeline('a', server => 'source', tables => '{s.*}', shared_target => true)", qr/the table has no key/, 'no key');
refused("SELECT capstan.create_pipeline('a', server => 'source', $shared, truncate_target => true)", qr/would remove the rows of the other pipelines/, 'truncate_target');
refused("SELECT capstan.create_pipeline('a', server => 'source', $shared, snapshot => 'consistent')", qr/needs snapshot => 'incremental'/, 'consistent');
refused("SELECT capstan.create_pipeline('a', server => 'source', tables => '{f.texts}', shared_target => true)", qr/target_shared f\.texts: a foreign table/, 'foreign table');
$pg->safe_psql("SELECT capstan.create_pipeline('a', server => 'source', $shared)");
refused("SELECT capstan.create_pipeline('b', server => 'shard_b', $all)", qr/pipeline "a" writes it.*shared_target => true/s, 'a second writer that does not say so');
$pg->safe_psql("SELECT capstan.start_pipeline('a')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('a', timeout => '180 s')");
$pg->safe_psql("SELECT capstan.create_pipeline('b', server => 'shard_b', $shared)");
refused("SELECT capstan.resync_table('a', 's.t', reason => 'x')", qr/other pipelines write its target tables/, 'resync_table');
refused("SELECT capstan.restart_snapshot('a', reason => 'x')", qr/other pipelines write its target tables/, 'restart_snapshot');
refused("SELECT capstan.add_table('a', 'p.by_hash', truncate_target => true)", qr/truncate_target contradicts/, 'add_table that truncates');

hold('s.t');
$pg->safe_psql("SELECT capstan.start_pipeline('b')");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 's.t'::regclass AND NOT l.granted AND a.backend_type = 'capstan copy'"), 'a copy worker is held up');
my @writers = map {
	my ($source, $n) = @$_;
	$source->writer(sub {
		my ($i) = @_;
		my $id = 2 * (1 + $i * 7 % 5900) + $n;

		select(undef, undef, undef, 0.003);
		my ($new, $k) = (100000 + 2 * $i + $n, "n$n-" . ($i * 3 % 1000));
		return "START TRANSACTION; UPDATE s.t SET v = v + 1 WHERE id = $id; DELETE FROM s.t WHERE id = $id + 4; INSERT INTO s.t VALUES ($new, $i, $new); UPDATE s.t SET id = id + 1000000 WHERE id = $id + 2;
			UPDATE s.names SET v = v + 1 WHERE k = '$k'; DELETE FROM s.names WHERE k = 'n$n-$i'; INSERT INTO s.names VALUES ('n$n-new$i', $i); COMMIT";
	});
} [ $my, 0 ], [ $other, 1 ];
strike('copy "b"');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('b', timeout => '180 s')");
strike('pipeline "b"');
sleep(0.3);
$_->stop for @writers;

# The rows of both sources, as one sorted text.
sub shards_equal
{
	my ($name) = @_;

	sync_pipeline($pg, $_) for 'a', 'b';
	for my $table ([ 't', 'id, v, u' ], [ 'names', 'k, v' ])
	{
		my ($t, $columns) = @$table;
		my $text = "SELECT CONCAT_WS('|', $columns) FROM s.$t";
		my @wanted = sort map { split /\n/, $_->sql($text) } $my, $other;
		my @found = sort split /\n/, $pg->safe_psql($text);

		cmp_ok(scalar(@wanted), '>', 900, "$name: s.$t has rows");
		ok("@wanted" eq "@found", "$name: s.$t holds the rows of both sources") or diag(scalar(@wanted) . ' and ' . scalar(@found) . ' rows');
	}
}
shards_equal('shards');
is($pg->value("SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status WHERE pipeline IN ('a', 'b')"), 0, 'shards: no row was a surprise');

# One key in both: whoever comes second halts, and the row that is there stays.
$my->sql("INSERT INTO s.t VALUES (777777, 1, 777777)");
sync_pipeline($pg, 'a');
$other->sql("INSERT INTO s.t VALUES (777777, 2, 777778)");
expect_halt($pg, 'b', 'shared_key_conflict', qr/key of an inserted row is there already/, qr/s\.t/, qr/delete it in the other source.*resume_pipeline/);
is($pg->value('SELECT v FROM s.t WHERE id = 777777'), 1, 'the row that was there is as it was');
$my->sql('DELETE FROM s.t WHERE id = 777777');
sync_pipeline($pg, 'a');
$pg->safe_psql("SELECT capstan.resume_pipeline('b', 'the row moved')");
shards_equal('after the row moved');
# the same by a key that changes, and by a copy
$other->sql("INSERT INTO s.names VALUES ('mine', 1)");
sync_pipeline($pg, 'b');
$my->sql("INSERT INTO s.names VALUES ('yours', 2); UPDATE s.names SET k = 'mine' WHERE k = 'yours'");
expect_halt($pg, 'a', 'shared_key_conflict', qr/s\.names/);
$other->sql("DELETE FROM s.names WHERE k = 'mine'");
sync_pipeline($pg, 'b');
$pg->safe_psql("SELECT capstan.resume_pipeline('a', 'the row is gone')");
shards_equal('after the key changed');
$other->sql("CREATE TABLE s.late (k VARCHAR(10) PRIMARY KEY, v INT); INSERT INTO s.late VALUES ('x', 1)");
$my->sql("CREATE TABLE s.late (k VARCHAR(10) PRIMARY KEY, v INT); INSERT INTO s.late VALUES ('x', 1)");
$pg->safe_psql("SELECT capstan.add_table('b', 's.late')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('b', timeout => '180 s')");
$pg->safe_psql("SELECT capstan.add_table('a', 's.late')");
expect_halt($pg, 'a', 'shared_key_conflict', qr/s\.late/);
$pg->safe_psql("SELECT capstan.remove_table('a', 's.late')");
shards_equal('without the table that is in both');

done_testing();
