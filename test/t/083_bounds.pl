# Bounds: a warning at 80 %, a halt at the bound, and nothing lost by either.
#
# Why: a pipeline that fills the disk of its server, or whose source purges what it still needs, takes more with it than itself.
# How: targets in tablespaces that are small file systems, filled by a file; a source that keeps its binary log for seconds; a
# snapshot that a lock on the target holds up; a table of the source that an open transaction keeps from being locked; a
# target whose trigger raises what is retried.
# Asserted: for disk, retention, snapshot time and attempts the warning comes first and the halt after it; each names the bound, the
# value and the remedy; what is halted stays so over a restart and goes on after resume_pipeline, whose note is kept; retention
# halts nothing that merely streams; warnings are resolved when the value is below again. A disk that is full in earnest, in the copy and in the
# stream: retried until there is room, contents equal.
# Not asserted: that MySQL purges when it may; a full pg_wal, which stops Postgres itself.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

BAIL_OUT('083_bounds needs root: it mounts file systems') if $> != 0;

my $my = CapstanTest::MySQL->start(options => [ '--sync-binlog=0', '--innodb-flush-log-at-trx-commit=0' ]);
my $pg = CapstanTest::Postgres->start(conf => {
		'max_worker_processes' => 24, 'client_connection_check_interval' => "'100ms'", 'capstan.bounds_interval' => "'200ms'", 'capstan.max_disk_usage' => 95,
		'capstan.max_lock_wait' => "'10ms'", 'capstan.max_round_attempts' => 5 });
my @mounts;
END { local $?; system('umount', '-l', $_) for @mounts }

# A tablespace of so many MB.
sub small_tablespace
{
	my ($name, $mb) = @_;
	my $dir = $pg->dir . "/$name";
	my (undef, undef, $uid, $gid) = getpwnam('postgres');

	mkdir $dir or die $!;
	system('mount', '-t', 'tmpfs', '-o', "size=${mb}m,uid=$uid,gid=$gid,mode=700", 'tmpfs', $dir) == 0 or die "mount: $?";
	push @mounts, $dir;
	$pg->safe_psql("CREATE TABLESPACE $name LOCATION '$dir'");
	return $dir;
}

# Use up a file system so far that so many kB are left.
sub fill
{
	my ($dir, $left) = @_;
	my (undef, undef, undef, $free) = split ' ', (split /\n/, `df -k --output=target,size,used,avail $dir`)[1];
	my $kb = int($free - $left);

	system('dd', 'if=/dev/zero', "of=$dir/filler", 'bs=1k', "count=$kb", 'status=none');
}

sub drain { unlink "$_[0]/filler" or die $! }

sub state { $pg->value("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$_[0]'") }

# An incident, waited for.
sub incident
{
	my ($name, $severity, $class) = @_;
	my $from = "FROM capstan.incident WHERE pipeline = '$name' AND severity = '$severity' AND class = '$class'";

	$pg->poll_query_until("SELECT count(*) > 0 $from", 't') or return {};
	return (json_rows($pg, "SELECT row_to_json(incident) $from ORDER BY id DESC LIMIT 1"))[0];
}

# Warning and halt of a bound.
sub both
{
	my ($name, $class, $bound, $detail, $remedy) = @_;
	my $halt = expect_halt($pg, $name, $class, qr/^$bound is reached/, $detail, $remedy, qr/resume_pipeline\('$name', /);
	my $warning = incident($name, 'warning', $class);

	like($warning->{message} // '', qr/^$bound is nearly reached/, "$name: the warning names the bound");
	like($warning->{detail}, $detail, '... the value');
	like($warning->{hint}, $remedy, '... the remedy');
	ok($halt && $warning->{id} < $halt->{id}, '... and came before the halt');
	my ($percent) = $warning->{detail} =~ /(\d+) %/;
	cmp_ok($warning->{occurrences}, '<', 6, '... and does not come again with each look');
}

sub resume
{
	my ($name) = @_;
	my $id = $pg->value("SELECT halted_by FROM capstan.pipeline WHERE name = '$name'");

	$pg->safe_psql("SELECT capstan.resume_pipeline('$name', 'mended $name')");
	is($pg->safe_psql("SELECT resolved_by, resolution FROM capstan.incident WHERE id = $id"), "postgres|mended $name", "$name: the note is kept");
}

# A lock on a target table, until ->stop.
sub hold
{
	my ($table) = @_;
	my $psql = $pg->background("BEGIN; LOCK TABLE $table; SELECT pg_sleep(1800)");

	$pg->poll_query_until("SELECT count(*) FROM pg_locks WHERE relation = '$table'::regclass AND mode = 'AccessExclusiveLock' AND granted", 1);
	return $psql;
}

# A transaction of the source that stays open on b.busy, until let_go.
my $open;
sub keep_open { $open = $my->background("USE b; START TRANSACTION; INSERT INTO busy (v) VALUES ('open'); DO SLEEP(1800)") }

sub let_go
{
	$my->kill_executing('DO SLEEP(1800)');
	$open->wait;
}

$my->sql('CREATE DATABASE b; USE b;' . join('', map { "CREATE TABLE $_ (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000));
	INSERT INTO $_ (v) VALUES ('a'), ('b'), ('c');" } qw(disk full kept slow busy whole ends)));
$my->sql("USE b; INSERT INTO $_ (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT REPEAT('x', 2000) FROM s") for qw(full);
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan; CREATE SCHEMA b');
$pg->create_server('source', $my);
my $disk = small_tablespace('disk_space', 32);
my $full = small_tablespace('full_space', 32);
$pg->safe_psql("CREATE TABLE b.disk (id INT PRIMARY KEY USING INDEX TABLESPACE disk_space, v VARCHAR(2000));
	CREATE TABLE b.whole (id INT PRIMARY KEY, v VARCHAR(2000));
	CREATE FUNCTION b.nap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END';
	CREATE TRIGGER nap BEFORE INSERT ON b.whole FOR EACH ROW EXECUTE FUNCTION b.nap(); ALTER TABLE b.whole ENABLE ALWAYS TRIGGER nap;
	CREATE TABLE b.\"full\" (id INT PRIMARY KEY USING INDEX TABLESPACE full_space, v VARCHAR(2000)) TABLESPACE full_space");

# ---- disk, while copying: the index alone is in the small tablespace; and snapshot time, of one role's pipelines

$pg->safe_psql("SELECT capstan.create_pipeline('$_', server => 'source', tables => '{b.$_}')") for qw(disk kept busy);
$pg->safe_psql("SELECT capstan.create_pipeline('whole', server => 'source', tables => '{b.whole}', snapshot => 'consistent')");
$pg->safe_psql(q{CREATE ROLE dora SUPERUSER LOGIN; ALTER ROLE dora SET capstan.max_snapshot_time = '40s';
	CREATE USER MAPPING FOR dora SERVER source OPTIONS (user 'capstan', password 'sesam');
	SET ROLE dora; SELECT capstan.create_pipeline('slow', server => 'source', tables => '{b.slow}')});
my $slow_lock = hold('b.slow');
my $disk_lock = hold('b.disk');
keep_open();
$my->wait_executing('DO SLEEP(1800)');
# As if it had begun earlier: from the warning to the halt it is 8 s, long enough for a look, however slow the machine is.
$pg->safe_psql("SELECT capstan.start_pipeline('slow')");
ok($pg->poll_query_until("SELECT snapshot_started_at IS NOT NULL FROM capstan.pipeline_progress JOIN capstan.pipeline ON id = pipeline_id WHERE name = 'slow'"), 'slow: the clock runs');
$pg->safe_psql("SELECT capstan.stop_pipeline('slow')");
$pg->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = 'slow'", 'stopped');
$pg->safe_psql("UPDATE capstan.pipeline_progress SET snapshot_started_at = snapshot_started_at - interval '28 s' FROM capstan.pipeline WHERE id = pipeline_id AND name = 'slow'");
$pg->safe_psql("SELECT capstan.start_pipeline('$_')") for qw(slow disk busy);
ok($pg->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = 'disk'", 'snapshot'), 'disk: copying');
fill($disk, 32 * 1024 * 0.15);
is(incident('disk', 'warning', 'disk_usage')->{message}, 'capstan.max_disk_usage is nearly reached: tablespace "disk_space"', 'disk: 85 % of 95 % warns');
sleep 0.5;
is(state('disk'), 'snapshot', '... and no more');
drain($disk);
ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE pipeline = 'disk' AND class = 'disk_usage' AND resolution = 'below the bound again'", 1), '... and is resolved');
fill($disk, 32 * 1024 * 0.03);
expect_halt($pg, 'disk', 'disk_usage', qr/^capstan.max_disk_usage is reached: tablespace "disk_space"/, qr/9[567] % of its file system is used, \d+ MB are free, and the bound is 95 %/, qr/raise capstan.max_disk_usage/);
$disk_lock->stop;

# ---- snapshot time

both('slow', 'snapshot_time', 'capstan.max_snapshot_time', qr/the bound is 40 s: \d+ %/, qr/a higher capstan.max_snapshot_time/);
$slow_lock->stop;
$pg->safe_psql("ALTER ROLE dora SET capstan.max_snapshot_time = 0");
$pg->restart;
is(state('slow') . state('disk'), 'haltedhalted', 'both stay halted over a restart');
resume($_) for qw(slow disk);
expect_halt($pg, 'disk', 'disk_usage', qr/disk_space/);
drain($disk);
resume('disk');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('$_', timeout => '180 s')") for qw(slow disk);
ok($pg->poll_query_until("SELECT snapshot_started_at IS NULL FROM capstan.pipeline_progress JOIN capstan.pipeline ON id = pipeline_id WHERE name = 'slow'"), 'slow: the clock stopped');
ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE pipeline = 'slow' AND severity = 'warning' AND resolved_at IS NULL", 0), '... and the warning is resolved');

# ---- disk, while streaming

fill($disk, 32 * 1024 * 0.03);
expect_halt($pg, 'disk', 'disk_usage', qr/disk_space/);
$my->sql("INSERT INTO b.disk (v) VALUES ('while halted')");
drain($disk);
resume('disk');

# ---- retention, while copying

# From the warning to the halt it is 15 % of that: again long enough.
$my->sql('SET GLOBAL binlog_expire_logs_seconds = 40');
my $kept_lock = hold('b.kept');
$pg->safe_psql("SELECT capstan.start_pipeline('kept'); SELECT capstan.start_pipeline('whole')");
$pg->poll_query_until("SELECT query FROM pg_stat_activity WHERE application_name = 'capstan pipeline \"kept\"'", 'standing still for a snapshot round');
my $writer = $my->writer(sub { sleep 0.1; "INSERT INTO b.kept (v) VALUES ('w$_[0]')" });
both('kept', 'binlog_retention', 'binlog_expire_logs_seconds of the source', qr/up to \d+ s old, and the source keeps its binary log for 40 s: \d+ %/, qr/SET PERSIST binlog_expire_logs_seconds = 160;/);
both('whole', 'binlog_retention', 'binlog_expire_logs_seconds of the source', qr/up to \d+ s old/, qr/SET PERSIST binlog_expire_logs_seconds = 160;/);
is($pg->incidents("pipeline IN ('slow', 'disk') AND class = 'binlog_retention'"), '', 'who has nothing to apply does not lag');
$my->sql('SET GLOBAL binlog_expire_logs_seconds = 3600');
$kept_lock->stop;
$pg->safe_psql('DROP FUNCTION b.nap() CASCADE');
$pg->restart;
is(state('kept') . state('whole'), 'haltedhalted', 'both stay halted over a restart');
resume('whole');
# Who copies all anew lets it go on, too, and says why; to copy one table anew is no answer to what is of the pipeline.
$pg->safe_psql("SELECT capstan.resync_table('kept', 'b.kept', 'a test')");
is(state('kept'), 'halted', 'kept: resync_table does not end it');
$pg->safe_psql("SELECT capstan.restart_snapshot('kept', 'kept for longer now')");
is($pg->safe_psql("SELECT resolved_by, resolution FROM capstan.incident WHERE pipeline = 'kept' AND severity = 'halt'"), 'postgres|kept for longer now', 'kept: restart_snapshot does');
$pg->safe_psql("SELECT capstan.wait_for_snapshot('whole', timeout => '180 s')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('kept', timeout => '180 s')");
ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE pipeline = 'kept' AND severity = 'warning' AND resolved_at IS NULL", 0), 'kept: resolved');

# ---- retention, while streaming: the worker gives way to the lock again and again

$pg->append_conf("capstan.lock_timeout = '700ms'");
$pg->reload;
$pg->safe_psql("SELECT capstan.stop_pipeline('kept')");
$pg->safe_psql("SELECT capstan.start_pipeline('kept'); SELECT 1");
sync_pipeline($pg, 'kept');
my $last = $pg->value('SELECT max(id) FROM capstan.incident');
$kept_lock = hold('b.kept');
$my->sql('SET GLOBAL binlog_expire_logs_seconds = 3');
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE id > $last AND pipeline = 'kept' AND class = 'binlog_retention' AND substring(detail FROM '(\\d+) %')::int > 100", 't'),
	'a stream that lags for longer than the source keeps warns');
is($pg->incidents("id > $last AND pipeline = 'kept' AND severity = 'halt'"), '', '... and is not halted');
is($pg->value("SELECT count(*) FROM capstan.incident WHERE id > $last AND pipeline = 'kept' AND severity = 'warning'"), 1, '... it is one warning, however often the worker starts');
$my->sql('SET GLOBAL binlog_expire_logs_seconds = 3600');
$kept_lock->stop;
$writer->stop;
sync_pipeline($pg, 'kept');

# ---- attempts

both('busy', 'round_attempts', 'capstan.max_round_attempts', qr/[45] attempts at one snapshot round so far, the bound is 5/, qr/innodb_trx.*a higher capstan.max_lock_wait or capstan.max_round_attempts/);
let_go();
resume('busy');

# ---- attempts of which each ends the process: what is retried and does not go away, in the copy and in the exchange after it

$pg->safe_psql(q{CREATE TABLE b.ends (id INT PRIMARY KEY, v VARCHAR(2000));
	CREATE FUNCTION b.limited() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'temporary file size exceeds temp_file_limit' USING ERRCODE = '53400'; END$$;
	CREATE TRIGGER limited BEFORE INSERT ON b.ends FOR EACH ROW EXECUTE FUNCTION b.limited();
	ALTER TABLE b.ends ENABLE ALWAYS TRIGGER limited;
	SELECT capstan.create_pipeline('ends', server => 'source', tables => '{b.ends}'); SELECT capstan.start_pipeline('ends')});
for my $what ('copy', 'exchange')
{
	both('ends', 'round_attempts', 'capstan.max_round_attempts', qr/[45] times in a row the copy has ended before a round of it was complete, the bound is 5\. Last failure: .*SQLSTATE 53400/,
		qr/incidents of severity retry.*raise capstan.max_round_attempts/);
	is($pg->value("SELECT count(*) FROM b.ends WHERE v = 'a'"), $what eq 'copy' ? 0 : 1, "$what: nothing of it is there");
	$pg->restart if $what eq 'copy';
	is(state('ends'), 'halted', "$what: it stays halted");
	$pg->safe_psql('ALTER TABLE b.ends DISABLE TRIGGER limited');
	resume('ends');
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('ends', timeout => '180 s')");
	ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE pipeline = 'ends' AND severity = 'warning' AND resolved_at IS NULL", 0), "$what: the warning is resolved");
	is($pg->value("SELECT starts FROM capstan.snapshot_round JOIN capstan.pipeline ON id = pipeline_id WHERE name = 'ends'"), 0, "$what: it is counted anew");
	$pg->safe_psql(q{UPDATE capstan.incident SET class = class || '.' WHERE pipeline = 'ends'; UPDATE b.ends SET v = 'wrong' WHERE id > 1; ALTER TABLE b.ends ENABLE ALWAYS TRIGGER limited;
		SELECT capstan.resync_table('ends', 'b.ends', 'a test')}) if $what eq 'copy';
}

# ---- a disk that is full: in the copy, then in the stream

$pg->append_conf("capstan.max_disk_usage = 0\ncapstan.max_round_attempts = 0");
$pg->reload;
fill($full, 600);
start_pipeline($pg, 'full', ['b.full'], timeout => 0);
is(incident('full', 'retry', '53100')->{sqlstate}, '53100', 'copy: the disk is full, a retry');
is($pg->value('SELECT count(*) FROM b."full"'), 0, '... nothing of the range is there');
drain($full);
$pg->safe_psql("SELECT capstan.wait_for_snapshot('full', timeout => '180 s')");
sync_pipeline($pg, 'full');
my $before = $pg->value("SELECT applied FROM capstan.pipeline_status WHERE pipeline = 'full'");
my $occurred = $pg->value("SELECT sum(occurrences) FROM capstan.incident WHERE pipeline = 'full' AND class = '53100'");
fill($full, 600);
$my->sql("INSERT INTO b.full (v) SELECT v FROM b.full; UPDATE b.full SET v = CONCAT('y', v) WHERE LENGTH(v) < 2000");
ok($pg->poll_query_until("SELECT sum(occurrences) > $occurred FROM capstan.incident WHERE pipeline = 'full' AND class = '53100'", 't'), 'stream: the disk is full, a retry');
like(state('full'), qr/retrying|starting|waiting|connecting|streaming/, '... that goes on');
is($pg->value("SELECT applied FROM capstan.pipeline_status WHERE pipeline = 'full'"), $before, '... the position stands');
is($pg->value('SELECT count(*) FROM b."full"'), 1002, '... and so do the rows');
drain($full);

sync_pipeline($pg, $_) for qw(full disk slow kept busy whole ends);
$pg->safe_psql("SELECT capstan.wait_for_snapshot('busy', timeout => '180 s')");
sync_pipeline($pg, 'busy');
tables_equal($my, $pg, ['b.*'], 'after all of it');
is($pg->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, 'no row was a surprise');
ok($pg->poll_query_until("SELECT count(*) FROM capstan.incident WHERE resolved_at IS NULL AND class NOT IN ('snapshot_stalled', 'snapshot_started_over')", 0), 'and nothing is open')
  or diag($pg->safe_psql('SELECT * FROM capstan.incident WHERE resolved_at IS NULL'));

$pg->safe_psql("SELECT capstan.stop_pipeline(pipeline) FROM capstan.pipeline_status");
$pg->stop('immediate');

done_testing();
