# The lock of a snapshot round is had, and it does not hurt.
#
# Why: a lock that waits behind long transactions holds back every writer that comes
# after it; one that never holds anybody back is never granted.
# How: writers whose transactions of 20 ms, 200 ms and 2 s overlap all the time on the
# captured table (test/exactpair, mode overlap, which measures each statement), while a
# pipeline makes its first copy; with an account that has just SELECT and LOCK TABLES, with
# one that has FLUSH_TABLES too; transactions over tables that foreign keys bind; a table of many rounds; a table that is built anew
# on the source all the while.
# Asserted: the snapshot completes; no statement of a writer took longer than
# capstan.max_lock_wait and some slack; table_status tells the tries and waits; no transaction is ended by a
# deadlock with us; contents are equal at the end. And that the measurement sees a writer who is held back: a plain LOCK
# TABLES WRITE behind a transaction of 8 s.
# Not asserted: locks on replicas (test/bin/lock-figures), prepared XA transactions (022).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use Time::HiRes qw(sleep time);

# capstan.max_lock_wait, and what a busy machine may add.
my $max_wait_ms = 1000;
my $slack_ms = 800;

my $program = build_exactpair();
my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'50ms'", 'capstan.max_range_rows' => 4000 });

$my->sql(<<'SQL');
CREATE DATABASE hot;
USE hot;
CREATE TABLE seq (n INT PRIMARY KEY);
INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
SQL
account('plain', 'SELECT, LOCK TABLES ON hot.*');
account('flusher', 'SELECT, LOCK TABLES ON hot.*', 'FLUSH_TABLES ON *.*');
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('plain', $my, user => 'plain');
$pg->create_server('flusher', $my, user => 'flusher');

subtest 'the measurement sees a writer who is held back' => sub {
	new_table('red', 1);
	my $meter = $my->stall_meter;
	# Held until they have been waited for as long as that is more than what a machine that stands still adds.
	my $holder = $my->background("START TRANSACTION; UPDATE hot.red SET n = n + 1 WHERE id = 1; DO SLEEP(8)");
	$my->wait_executing('DO SLEEP(8)');
	my $writers = start_writers('hot.red', 2, '20');
	poll_until { $my->value("SELECT COUNT(*) FROM hot.red WHERE id >= 1000000 AND n > 0") >= 2 };
	my $lock = $my->background('LOCK TABLES hot.red WRITE; UNLOCK TABLES');
	$_->wait for $holder, $lock;
	my $worst = worst_ms($writers);
	cmp_ok($worst, '>', $max_wait_ms + $slack_ms + $meter->worst_ms, 'a plain LOCK TABLES WRITE holds writers back for longer');
};

subtest 'an account with SELECT and LOCK TABLES' => sub {
	my $n = copy_under_load('plain', 'a', 1, 6, '20,200,2000');
	cmp_ok($n->{tries}, '>', 3, 'READ starves and the ladder is climbed');
	cmp_ok(statements('plain', 'lock_tables'), '>', 0, 'LOCK TABLES gave the lock');
	is(statements('plain', 'flush'), 0, 'FLUSH TABLES was refused');
	is($n->{kinds}, 'write', 'and LOCK TABLES WRITE is what table_status tells');
};

subtest 'an account with FLUSH_TABLES' => sub {
	my $n = copy_under_load('flusher', 'b', 1, 6, '20,200,2000');
	is($n->{kinds}, 'flush', 'table_status tells what gave the lock');
	cmp_ok(statements('flusher', 'flush'), '>', 0, 'FLUSH TABLES gave the lock');
};

# While a lock waits for one table it must not hold another: a transaction that has the one
# and wants the other would be told that there is a deadlock, and rolled back.
subtest 'transactions over two tables' => sub {
	copy_under_load('plain', 'e1,e2', 1, 6, '20,100');
};

# The same by one LOCK TABLES .. WRITE, which takes what foreign keys lead to along.
subtest 'a table that foreign keys lead to' => sub {
	my $fair = sub { join '|', $pg->safe_psql(qq{SELECT status, found FROM capstan.preflight('$_[0]', tables => '{$_[1]}') WHERE "check" = 'fair_lock'}) };
	$my->sql('USE hot; CREATE TABLE parent (id INT PRIMARY KEY); CREATE TABLE middle (id INT PRIMARY KEY, n INT, p INT, FOREIGN KEY (p) REFERENCES parent (id));
		CREATE TABLE child (id INT PRIMARY KEY, m INT, FOREIGN KEY (m) REFERENCES middle (id));
		INSERT INTO middle SELECT n, 0, NULL FROM seq WHERE n < 20; INSERT INTO middle SELECT 100 + n, 0, NULL FROM seq; ANALYZE TABLE middle;
		CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id))');
	like($fair->('plain', "hot.$_->[0]"), qr/^warning\|LOCK TABLES \.\.\. WRITE, but only READ, .* foreign keys \($_->[1]\)/, "preflight warns: $_->[0]") for [ 'parent', 1 ], [ 'middle', 2 ], [ '*', 2 ];
	is($fair->('plain', "hot.$_"), 'ok|LOCK TABLES ... WRITE', "... not of what no other table has to do with: $_") for qw(seq tree);
	is($fair->('flusher', 'hot.*'), 'ok|FLUSH TABLES ... WITH READ LOCK', '... nor where the right is granted');
	# some have the table, so that READ starves, others begin with its parent, and want it then
	my @writers = map {
		my $writer = $_;
		$my->background('USE hot; ' . join(' ', map {
					my $id = 1000 * $writer + $_;
					$writer < 3 ? "START TRANSACTION; UPDATE middle SET n = n + 1 WHERE id = $writer; DO SLEEP(0.3); COMMIT;" :
						"START TRANSACTION; INSERT INTO parent VALUES ($id); DO SLEEP(0.6); UPDATE middle SET n = n + 1, p = $id WHERE id = $writer; COMMIT;"
				} 1 .. ($writer < 3 ? 30 : 15)));
	} 0 .. 4;
	$my->wait_executing('DO SLEEP(0._)', sessions => 5);
	$pg->safe_psql("SELECT capstan.create_pipeline('p', server => 'plain', tables => '{hot.middle}'); SELECT capstan.start_pipeline('p')");
	is($_->wait, 0, 'no transaction is ended for our sake') or diag($_->errors) for @writers;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s'); SELECT capstan.wait_for_source('p', timeout => '180 s')");
	is($rc, 0, 'the snapshot completes') or diag($err);
	is($pg->value('SELECT sum(lock_write) FROM capstan.table_status'), 0, '... without LOCK TABLES WRITE');
	tables_equal($my, $pg, ['hot.middle'], 'after the copy');
	$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
	$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped');
	$pg->safe_psql("SELECT capstan.drop_pipeline('p')");
};

subtest 'many rounds' => sub {
	my $n = copy_under_load('plain', 'c', 40, 6, '20,60');
	cmp_ok($n->{count}, '>', 3, 'several locks');
};

# A view keeps its table's definition for as long as its range is read, and an ALTER TABLE that waits
# for that holds back writers: so it is the time of a round that counts here, and not
# the lock's. What must not be is a lock that waits for itself, until a timeout ends it.
subtest 'a table that is built anew on the source meanwhile' => sub {
	# for as long as it is built there is no lock: on a slow machine it would be built all the time
	my $rebuild = $my->writer(sub { sleep(0.03); 'SET @began = SYSDATE(6); OPTIMIZE NO_WRITE_TO_BINLOG TABLE hot.d; DO SLEEP(0.03 + TIMESTAMPDIFF(MICROSECOND, @began, SYSDATE(6)) / 1e6)' });
	copy_under_load('plain', 'd', 40, 4, '5,20', 6000);
	$rebuild->stop;
};

done_testing();

sub build_exactpair
{
	my ($rc, $out, $err) = CapstanTest::run_command(
		[ 'make', '-s', '-C', "$CapstanTest::TOP/test/exactpair" ]);

	BAIL_OUT("exactpair does not build:\n$out$err") if $rc != 0;
	return "$CapstanTest::TOP/build/exactpair/exactpair";
}

sub account
{
	my ($user, @grants) = @_;

	$my->sql("CREATE USER '$user'\@'%' IDENTIFIED BY 'sesam'; " .
		join(' ', map { "GRANT $_ TO '$user'\@'%';" } 'REPLICATION SLAVE, REPLICATION CLIENT ON *.*', @grants));
}

# A table as the writers want it, with so many thousand rows.
sub new_table
{
	my ($table, $thousands) = @_;

	$my->sql(<<SQL);
CREATE TABLE hot.$table (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(1000) NOT NULL);
INSERT INTO hot.$table SELECT a.n * 1000 + b.n, a.n, REPEAT('x', @{[ $thousands > 1 ? 600 : 20 ]})
	FROM hot.seq a, hot.seq b WHERE a.n < $thousands;
ANALYZE NO_WRITE_TO_BINLOG TABLE hot.$table;
SQL
}

sub start_writers
{
	my ($table, $n, $pauses) = @_;
	my $dir = File::Temp->newdir('capstan-overlap.XXXXXX', TMPDIR => 1);
	my $pid = CapstanTest::spawn(
		[ $program, '--socket=' . $my->dir . '/mysql.sock', '--mode=overlap', "--tables=$table",
			"--writers=$n", "--pauses=$pauses", '--seconds=600' ],
		stdout => "$dir/out", stderr => "$dir/err");

	return CapstanTest::Background->new(pid => $pid, dir => $dir);
}

# Stops them; the longest time that one of their statements took.
sub worst_ms
{
	my ($writers) = @_;
	my $rc = $writers->stop;
	my ($worst) = sort { $b <=> $a } $writers->output =~ /worst_ms=([\d.]+)/g;
	my @counts = $writers->output =~ /transactions=(\d+)/g;

	note($writers->output);
	is($rc, 0, 'the writers ended well') or diag($writers->errors);
	is(scalar(grep { $_ == 0 } @counts), 0, 'each kind of them did something');
	is(join(',', $writers->output =~ /errors=([1-9]\d*)/g), '', 'no statement of theirs failed') or diag($writers->errors);
	return $worst;
}

# How many statements of that kind the account had executed without an error.
sub statements
{
	my ($user, $kind) = @_;

	return $my->value("SELECT SUM(count_star - sum_errors) FROM performance_schema.events_statements_summary_by_user_by_event_name
		WHERE user = '$user' AND event_name = 'statement/sql/$kind'") // 0;
}

# Makes the tables, copies them while writers are at work; the checks that hold for all.
sub copy_under_load
{
	my ($server, $tables, $thousands, $n, $pauses, $limit_ms) = @_;
	my @tables = split /,/, $tables;
	my $list = join ',', map { "hot.$_" } @tables;
	my $start = time();

	$limit_ms //= $max_wait_ms + $slack_ms;
	new_table($_, $thousands) for @tables;
	my $meter = $my->stall_meter;
	my $writers = start_writers($list, $n, $pauses);
	sleep(1);
	$pg->safe_psql("SELECT capstan.create_pipeline('p', server => '$server', tables => '{$list}')");
	$pg->safe_psql("SELECT capstan.start_pipeline('p')");
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
	is($rc, 0, 'the snapshot completes') or diag($err);
	my $worst = worst_ms($writers);
	my $stalled_ms = $meter->worst_ms;
	$limit_ms += $stalled_ms;
	cmp_ok($worst, '<', $limit_ms, "a statement of a writer takes $limit_ms ms at most");

	my ($figures) = $pg->query('SELECT max(lock_count), max(lock_tries), max(lock_wait_worst_us) / 1000,
		max(lock_wait_total_us) / 1000, max(lock_hold_worst_us) / 1000 FROM capstan.pipeline_table');
	my ($count, $tries, $wait, $total, $hold) = @$figures;
	note(sprintf('%.1f s; locks %s, tries %s, worst wait %s ms, total wait %s ms, worst hold %s ms, worst statement %s ms',
		time() - $start, @$figures, $worst));
	cmp_ok($count, '>', 0, 'table_status counts locks');
	cmp_ok($tries, '>=', $count, 'and tries');
	my $kinds = $pg->value(q{SELECT concat_ws(' ', CASE WHEN sum(lock_read) > 0 THEN 'read' END, CASE WHEN sum(lock_flush) > 0 THEN 'flush' END,
		CASE WHEN sum(lock_write) > 0 THEN 'write' END) FROM capstan.table_status});
	note("by: $kinds");
	is($pg->value('SELECT sum(lock_read + lock_flush + lock_write) - sum(lock_count) FROM capstan.table_status'), 0, 'each lock is counted by what gave it');
	cmp_ok($wait, '<=', $limit_ms, 'a try waits no longer than its bound');
	cmp_ok($total, '>=', $wait, 'and waits add up');
	cmp_ok($hold, '<', 1000 + $stalled_ms, 'the lock is held for a moment');

	($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_source('p', timeout => '180 s')");
	is($rc, 0, 'the stream is level with the source') or diag($err);
	tables_equal($my, $pg, [ map { "hot.$_" } @tables ], 'after the copy');
	is($pg->incidents("severity = 'halt'"), '', 'nothing halted');
	note($pg->safe_psql('SELECT severity, class, message, detail, hint FROM capstan.incident ORDER BY id'));
	$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
	$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped');
	$pg->safe_psql("SELECT capstan.drop_pipeline('p')");
	return { count => $count, tries => $tries, kinds => $kinds };
}
