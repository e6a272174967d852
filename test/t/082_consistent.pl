# snapshot => 'consistent': all tables appear as they were at one moment of the source.
#
# Why: with rounds each table is exact at a moment of its own; who reads the target as a whole before the stream has caught up sees
# money that is in two accounts, or in none.
# How: writers move money between two tables, and add rows to one without a key and to one whose key is an ENUM, all in one
# transaction, so that sums and counts agree at every commit. The target is looked at from a gate (a trigger on
# capstan.pipeline_progress) that opens between the end of the copy and the first change of the stream. With
# FLUSH TABLES WITH READ LOCK and with LOCK TABLES, one capture after the other;
# a copy worker, Postgres and the source's sessions that the copy rests on are killed in mid-copy; a
# transaction and a statement that are in the way of the lock; a prepared XA transaction; a table whose statistics are those of an empty one.
# Asserted: at the cut all tables agree with each other, in every capture; a killed copy starts over as a new generation, and at the end both sides are equal; no writer is held back for longer than
# capstan.max_lock_wait and some slack; the figures of the lock are those of all tables.
# Not asserted: that nobody is ended as the victim of a deadlock under LOCK TABLES (that is the price of it).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use Time::HiRes qw(sleep time);

my $slack_ms = 1500;
my @tables = map { "bank.$_" } qw(a b keyless byenum names nothing stale);

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_range_rows' => 2000, 'capstan.max_lock_wait' => "'1s'" });

fill();
for my $user ([ 'flusher', 'FLUSH_TABLES, PROCESS, XA_RECOVER_ADMIN' ], [ 'blind', 'FLUSH_TABLES' ], [ 'plain', '' ])
{
	my ($name, $more) = @$user;

	$my->sql("CREATE USER '$name'\@'%' IDENTIFIED BY 'sesam'; GRANT SELECT, LOCK TABLES ON bank.* TO '$name'\@'%'; " .
		"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '$name'\@'%';" . ($more ? "GRANT $more ON *.* TO '$name'\@'%';" : ''));
}
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server($_, $my, user => $_) for qw(flusher blind plain);

subtest 'what preflight says' => sub {
	is(check('flusher', 'global_lock'), 'ok|FLUSH TABLES WITH READ LOCK', 'the best lock');
	like(check('blind', 'global_lock'), qr/^warning\|LOCK TABLES/, '... which is not used where XA transactions cannot be seen');
	like(check('plain', 'global_lock'), qr/^warning\|LOCK TABLES .* READ on all tables/, 'the other one is warned of');
};

$pg->safe_psql(<<'SQL');
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(82); RETURN NEW; END $$;
CREATE TRIGGER gate BEFORE UPDATE ON capstan.pipeline_progress FOR EACH ROW EXECUTE FUNCTION gate();
ALTER TABLE capstan.pipeline_progress ENABLE ALWAYS TRIGGER gate;
SQL

# Ranges that are planned are noted: when all are copied one is left of them.
$pg->safe_psql(<<'SQL');
CREATE TABLE planned (table_id int8);
CREATE FUNCTION note_planned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.planned VALUES (NEW.table_id); RETURN NEW; END $$;
CREATE TRIGGER planned AFTER INSERT ON capstan.copied_range FOR EACH ROW EXECUTE FUNCTION note_planned();
ALTER TABLE capstan.copied_range ENABLE ALWAYS TRIGGER planned;
SQL

my $gate;
my $prepared = 0;
my @writers = start_writers();

for my $user (qw(flusher plain))
{
	subtest "captures by $user" => sub {
		for my $n (1 .. 2)
		{
			close_gate();
			start("$user$n", $user);
			wait_for_cut() or last;
			is(agreement(), 'ok', "capture $n: the tables agree");
			# a lock under which the views were not open in time is given back, and taken again
			is($pg->value(q{SELECT count(*) FROM capstan.table_status WHERE lock_count >= 1 AND lock_tries >= lock_count AND lock_hold_worst > interval '0'
				AND lock_read + lock_flush = lock_count AND lock_write = 0}),
				scalar @tables, 'every table has the figures of the lock');
			is($pg->value(q{SELECT count(DISTINCT (lock_count, lock_tries, lock_read, lock_wait_total, lock_hold_total)) FROM capstan.table_status}), 1, 'the same ones');
			note($pg->value("SELECT format('tries %s, wait %s, held %s', lock_tries, lock_wait_worst, lock_hold_worst) FROM capstan.table_status LIMIT 1"));
			is($pg->safe_psql("SELECT count(*) FROM planned p JOIN capstan.pipeline_table t ON t.id = table_id WHERE source_table = 'stale'"), 3,
				'a table that is larger than its statistics say is copied by ranges');
			end("$user$n") if $n < 2;
		}
		release($gate);
		$pg->safe_psql("SELECT capstan.wait_for_source('${user}2', timeout => '180 s')");
		is($pg->value('SELECT sum(rows_missing + rows_existing) FROM capstan.table_status'), 0, 'the stream met no row that it did not expect');
		end("${user}2");
	};
}

$pg->safe_psql('DROP TRIGGER gate ON capstan.pipeline_progress');
for my $case (
	[ 'a copy worker', sub { kill 'KILL', ($pg->worker_pids(qr/capstan copy/))[0] } ],
	[ 'Postgres', sub { $pg->kill9_postmaster; $pg->start_again } ],
	[ 'the connection that pins the tables', sub { kill_connection('capstan/pin') } ],
	[ 'a view', sub { kill_connection('capstan/copy k 1') } ])
{
	my ($what, $kill) = @$case;

	subtest "killed in mid-copy: $what" => sub {
		create('k', 'flusher');
		my $lock = $pg->background('BEGIN; LOCK TABLE bank.names IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(299);');
		$pg->poll_query_until(q{SELECT count(*) FROM pg_locks WHERE relation = 'bank.names'::regclass AND mode = 'AccessExclusiveLock' AND granted}, 1);
		$pg->safe_psql("SELECT capstan.start_pipeline('k')");
		$pg->poll_query_until(q{SELECT count(*) = 2 FROM pg_locks WHERE relation = 'bank.names'::regclass AND NOT granted}, 't');
		is($pg->value('SELECT count(*) || (SELECT \' of \' || rows_copied FROM capstan.table_status WHERE source_table = \'a\') FROM bank.a'),
			'20000 of 20000', 'rows are there, and rows are missing');
		$kill->();
		release($lock);
		$pg->poll_query_until(q{SELECT count(*) = 0 FROM capstan.table_status WHERE state <> 'streaming'}, 't');
		is($pg->value('SELECT min(generation) || \' \' || max(generation) FROM capstan.table_status'), '2 2', 'a new generation');
		is($pg->value(q{SELECT count(*) FROM capstan.incident WHERE pipeline = 'k' AND class = 'snapshot_started_over'}), 1, 'a warning says so');
		is($pg->value(q{SELECT resolution FROM capstan.incident WHERE pipeline = 'k' AND class = 'snapshot_started_over'}), 'the snapshot is complete', '... which is over');
		if ($what eq 'a view')
		{
			stop_writers(@writers);
		}
		$pg->safe_psql("SELECT capstan.wait_for_source('k', timeout => '180 s')");
		is($pg->value('SELECT sum(rows_missing + rows_existing) FROM capstan.table_status'), 0, 'the stream met no row that it did not expect');
		if ($what eq 'a view')
		{
			is(agreement(), 'ok', 'the tables agree');
			tables_equal($my, $pg, \@tables, 'at the end');
		}
		end('k');
		$pg->safe_psql("DELETE FROM capstan.incident WHERE pipeline = 'k'");
	};
}

# What stands in the way of one lock, and of the other.
for my $case (
	[ 'plain', 'a transaction', 'START TRANSACTION; UPDATE bank.nothing SET id = id + 1; INSERT INTO bank.nothing VALUES (1); DO SLEEP(300)' ],
	[ 'flusher', 'a SELECT', 'SELECT SLEEP(300) FROM bank.a LIMIT 1' ])
{
	my ($user, $what, $sql) = @$case;

	subtest "$what in the way of $user" => sub {
		create('l', $user);
		# Until it is ended by name; a second at least, so that capstan takes it for a long one.
		my $long = $my->background($sql);
		$my->wait_executing('%SLEEP(300)%', seconds => 2);
		my $meter = $my->stall_meter(write => 0);
		my $probe = $my->background('CALL bank.probe(4)');
		$pg->safe_psql("SELECT capstan.start_pipeline('l')");
		if ($what eq 'a SELECT')
		{
			ok($pg->poll_query_until(q{SELECT count(*) = 0 FROM capstan.table_status WHERE state <> 'streaming'}, 't'), 'copied although it is there');
		}
		$probe->wait;
		my $stalled_ms = $meter->worst_ms;
		if ($what ne 'a SELECT')
		{
			is($pg->value(q{SELECT count(*) FROM capstan.table_status WHERE state = 'streaming' OR rows_copied > 0}), 0, 'not copied before it ended');
		}
		ok($long->running, '... which it has not yet');
		$my->kill_executing('%SLEEP(300)%');
		$long->wait;
		$pg->poll_query_until(q{SELECT count(*) = 0 FROM capstan.table_status WHERE state <> 'streaming'}, 't');
		my ($worst) = $probe->output =~ /^([\d.]+)$/m;
		note(sprintf('writers waited %.0f ms at worst; %s', $worst,
			$pg->value("SELECT format('tries %s, wait %s, held %s', lock_tries, lock_wait_worst, lock_hold_worst) FROM capstan.table_status LIMIT 1")));
		cmp_ok($worst, '<', 1000 + $slack_ms + $stalled_ms, 'no writer was held back for long');
		$pg->safe_psql("SELECT capstan.wait_for_source('l', timeout => '180 s')");
		is(agreement(), 'ok', 'the tables agree');
		end('l');
	};
}

# What is prepared is in the set of GTIDs, and in no view. While the session that has prepared it is there, and after it; by accounts that may see it, and may not.
for my $user (qw(flusher blind))
{
	for my $attached (0, 1)
	{
		subtest "a prepared XA transaction: $user, " . ($attached ? 'its session is there' : 'without a session') => sub {
			my $copied = q{SELECT count(*) = 0 FROM capstan.table_status WHERE state <> 'streaming'};
			my $tries = sub { ($my->query(q{SHOW GLOBAL STATUS LIKE 'Com_lock_tables'}))[0][1] };
			my $id = ++$prepared + 4711;
			my $prepare = "XA START 'x'; INSERT INTO bank.nothing VALUES ($id); XA END 'x'; XA PREPARE 'x'";
			my $session;

			if ($attached)
			{
				$session = $my->background("$prepare; SELECT SLEEP(299)");
				$my->wait_executing('%SLEEP(299)%');
			}
			else { $my->sql($prepare) }
			create('x', $user);
			my $before = $tries->();
			$pg->safe_psql("SELECT capstan.start_pipeline('x')");
			ok((poll_until { $tries->() > $before + 1 || $pg->value($copied) eq 't' }), 'the lock is tried');
			is($pg->value($copied), 'f', 'not copied before it is committed');
			if ($attached)
			{
				$my->kill_executing('%SLEEP(299)%');
				$session->wait;
			}
			$my->sql("XA COMMIT 'x'");
			$pg->poll_query_until($copied, 't');
			$pg->safe_psql("SELECT capstan.wait_for_source('x', timeout => '180 s')");
			tables_equal($my, $pg, ['bank.nothing'], 'then its rows are there');
			end('x');
		};
	}
}

done_testing();

sub check
{
	my ($user, $check) = @_;

	return $pg->value("SELECT status || '|' || found FROM capstan.preflight('$user', tables => '{bank.*}', snapshot => 'consistent') WHERE \"check\" = '$check'");
}

sub create
{
	my ($pipeline, $user) = @_;

	$pg->safe_psql("SELECT capstan.create_pipeline('$pipeline', server => '$user', tables => '{bank.*}', snapshot => 'consistent', truncate_target => true)");
}

sub start
{
	my ($pipeline, $user) = @_;

	create($pipeline, $user);
	$pg->safe_psql("SELECT capstan.start_pipeline('$pipeline')");
}

sub end
{
	my ($pipeline) = @_;

	$pg->safe_psql("SELECT capstan.stop_pipeline('$pipeline')");
	release($gate);
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = '$pipeline'");
	$pg->safe_psql("SELECT capstan.drop_pipeline('$pipeline')");
}

# From now on the stream cannot commit anything.
sub close_gate
{
	$gate = $pg->background('SELECT pg_advisory_lock(82); SELECT pg_sleep(299);');
	$pg->poll_query_until(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 82 AND granted}, 1);
}

# Ends a session that holds a lock until then.
sub release
{
	return unless $_[0];
	# after a crash there is none any more, and maybe nobody to ask
	$pg->psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(299)%' AND pid <> pg_backend_pid()});
	$_[0]->wait;
	undef $_[0];
}

sub wait_for_cut
{
	my $ok = $pg->poll_query_until(q{SELECT count(*) = 0 FROM capstan.table_status WHERE state <> 'streaming'}, 't');

	CapstanTest::diag_log($pg) unless $ok;
	return ok($ok, 'copied');
}

# Does the target hold a state that the source had between two transactions?
sub agreement
{
	return $pg->value(<<'SQL');
WITH f AS (SELECT
	2000000 - (SELECT sum(n) FROM bank.a) AS a,
	(SELECT sum(n) FROM bank.b) - 2000000 AS b,
	(SELECT sum(n) FROM bank.keyless) AS keyless,
	(SELECT sum(n) FROM bank.byenum) AS byenum,
	(SELECT sum(n) FROM bank.names) - 500000 AS names)
SELECT CASE WHEN a > 0 AND a = b AND a = keyless AND a = byenum AND a = names THEN 'ok' ELSE f::text END FROM f
SQL
}

sub kill_connection
{
	my ($program) = @_;
	my @ids = map { $_->[0] } $my->query("SELECT PROCESSLIST_ID FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE = '$program'");

	is(scalar @ids, 1, "there is one $program");
	$my->sql("KILL $_") for @ids;
}

sub fill
{
	$my->sql(<<'SQL');
CREATE DATABASE ctl;
CREATE TABLE ctl.stop (id INT PRIMARY KEY);
CREATE DATABASE bank;
USE bank;
CREATE TABLE a (id INT PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(200));
CREATE TABLE b (id INT PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(200));
CREATE TABLE keyless (n BIGINT, note VARCHAR(20));
CREATE TABLE byenum (k ENUM('z','y','x'), id INT, n BIGINT NOT NULL, PRIMARY KEY (k, id));
CREATE TABLE names (name VARCHAR(50) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE nothing (id INT PRIMARY KEY);
CREATE TABLE stale (id INT PRIMARY KEY, n INT) STATS_AUTO_RECALC = 0;
SET cte_max_recursion_depth = 100000;
INSERT INTO a WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) SELECT n, 100, REPEAT('a', 100) FROM s;
INSERT INTO b SELECT id, 100, note FROM a;
INSERT INTO names SELECT CONCAT(IF(id % 2, 'Ä', 'b'), id), 100 FROM a WHERE id <= 5000;
INSERT INTO stale SELECT id, id FROM a WHERE id <= 5000;
INSERT INTO keyless VALUES (0, 'first'), (0, 'first');
INSERT INTO byenum VALUES ('z', 0, 0), ('x', 0, 0);
ANALYZE NO_WRITE_TO_BINLOG TABLE a, b, names, keyless, byenum, nothing;
DELIMITER //
-- moves money from a to b, notes it in the other tables, all in one transaction; if it is ended as the victim of a deadlock, none of it
CREATE PROCEDURE move(source INT, target INT, place INT, who INT)
BEGIN
	DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;
	START TRANSACTION;
	UPDATE a SET n = n - 1 WHERE id = source;
	INSERT INTO keyless VALUES (1, 'x');
	UPDATE b SET n = n + 1 WHERE id = target;
	INSERT INTO byenum VALUES ('y', place, 1);
	UPDATE names SET n = n + 1 WHERE name = CONCAT(IF(who % 2, 'Ä', 'b'), who) COLLATE utf8mb4_0900_ai_ci;
	COMMIT;
END //
CREATE PROCEDURE transfers(writer INT)
BEGIN
	DECLARE i INT DEFAULT 0;
	WHILE NOT EXISTS (SELECT 1 FROM ctl.stop) DO
		SET i = i + 1;
		CALL move(1 + (i * 37 + writer * 5) % 20000, 1 + (i * 101 + writer * 7) % 20000, i * 10 + writer, 1 + (i * 13 + writer) % 5000);
		DO SLEEP(0.001);
	END WHILE;
END //
-- the longest time, in ms, that a statement had to wait within so many seconds
CREATE PROCEDURE probe(seconds INT)
BEGIN
	DECLARE start, before_it TIMESTAMP(6) DEFAULT NOW(6);
	DECLARE worst DOUBLE DEFAULT 0;
	WHILE SYSDATE(6) < start + INTERVAL seconds SECOND DO
		SET before_it = SYSDATE(6);
		UPDATE b SET note = note WHERE id = 1;
		SET worst = GREATEST(worst, TIMESTAMPDIFF(MICROSECOND, before_it, SYSDATE(6)) / 1000);
		DO SLEEP(0.01);
	END WHILE;
	SELECT worst;
END //
DELIMITER ;
SQL
	$my->stale_statistics('bank', 'stale');
}

# Writers that move money until stop_writers.
sub start_writers
{
	$my->sql('TRUNCATE ctl.stop');
	my @clients = map { $my->background("CALL bank.transfers($_)") } 1 .. 4;
	poll_until { $my->value('SELECT COUNT(*) > 2 FROM bank.keyless') };
	return @clients;
}

sub stop_writers
{
	$my->sql('INSERT INTO ctl.stop VALUES (1)');
	is($_->wait, 0, 'a writer ended well') or diag($_->errors) for @_;
}
