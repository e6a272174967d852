# A load that a crash must not hurt, the crashes, and the oracles that see repetition
# and loss. Used by t/030_crash.pl (a short run) and by soak.pl (a long one).
#
# Schema "crash" on the source:
#     acct_a, acct_b   money moves between the two: the sum of both is constant
#     orders           integer key; rows come, change, go, and change their keys
#     people           text key; a unique e-mail is handed from row to row
#     order_lines      composite key; a unique slot is handed on; keys change
#     bulk             rewritten some 10,000 rows at a time: all rows carry one mark
#     ledger           append-only, integer key          \
#     notes            append-only, text key              } the oracles, see below
#     versions         v goes up by one with each change /
#     keyless          append-only, without any key
#
# Oracles. Contents that are equal at the end do not show that a change was applied twice, since
# rows are upserted by key. Triggers ENABLE ALWAYS on the target write every change
# of ledger, notes and versions into capstan_seen, in the transaction that applies it:
# each (table, key, version) must be there exactly once, and the versions of a key
# without a gap. In keyless, which has no key to upsert by, a repetition is a row too many.
# A reader of the target samples the sum and the marks while tables stream: half of a source
# transaction would show as another sum.

package CrashLoad;

use strict;
use warnings;
use utf8;

use List::Util ();
use Test::More;
use Time::HiRes qw(sleep time);

our @TABLES = map { "crash.$_" } qw(acct_a acct_b orders people order_lines bulk ledger notes versions);
my $SUM = 200_000;

# new(my =>, pg =>, rows => 40000, writers => 4, pause => 0.01): makes the source, the server in the
# target, and nothing that runs. rows is the size of the largest table, pause how long a
# writer rests between two transactions on average, freeze how long what is frozen stays so.
sub new
{
	my ($class, %opt) = @_;
	my $self = bless { rows => 40_000, writers => 4, pause => 0.01, freeze => 1.5, %opt, struck => [] }, $class;

	$self->_create_source;
	$self->{pg}->safe_psql('CREATE EXTENSION capstan');
	$self->{pg}->create_server('source', $self->{my});
	$self->{pg}->safe_psql(q{
		CREATE TABLE capstan_seen (tab text, key text, v int8);
		CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE r jsonb = to_jsonb(COALESCE(NEW, OLD));
		BEGIN
			INSERT INTO public.capstan_seen VALUES (TG_TABLE_NAME, TG_OP || ' ' || (r->>TG_ARGV[0]), COALESCE((r->>'v')::int8, 0));
			RETURN NULL;
		END $$;
		SET check_function_bodies = off;
		CREATE FUNCTION sample_once() RETURNS text LANGUAGE sql VOLATILE AS $$
			SELECT CASE
				WHEN (SELECT count(*) < 3 FROM capstan.pipeline_table WHERE source_table IN ('acct_a', 'acct_b', 'bulk') AND state = 'streaming') THEN NULL
				WHEN s.sum <> } . $SUM . q{ THEN 'sum ' || s.sum
				WHEN b.low <> b.high OR b.n % 10000 <> 0 THEN format('marks %s to %s, %s rows', b.low, b.high, b.n)
				ELSE '' END
			FROM (SELECT (SELECT sum(balance) FROM crash.acct_a) + (SELECT sum(balance) FROM crash.acct_b) AS sum) s,
			     (SELECT min(mark) AS low, max(mark) AS high, count(*) AS n FROM crash.bulk) b $$;
		CREATE TABLE samples (good int8, bad text);
		CREATE PROCEDURE sample(seconds float8) LANGUAGE plpgsql AS $$
		DECLARE until timestamptz = clock_timestamp() + seconds * '1 s'::interval; r text;
		BEGIN
			WHILE clock_timestamp() < until LOOP
				r := sample_once();
				IF r IS NOT NULL THEN INSERT INTO samples VALUES ((r = '')::int, NULLIF(r, '')); END IF;
				COMMIT;
				PERFORM pg_sleep(0.02);
			END LOOP;
		END $$;});
	return $self;
}

sub _create_source
{
	my ($self) = @_;
	my $rows = $self->{rows};
	my $pause = $self->{pause};

	$self->{my}->sql(qq{
CREATE DATABASE crash;
USE crash;
CREATE TABLE seq (n INT PRIMARY KEY);
INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;
CREATE TABLE control (go INT);
CREATE TABLE elsewhere (x INT);
INSERT INTO control VALUES (1);
CREATE TABLE acct_a (id INT PRIMARY KEY, balance BIGINT NOT NULL);
INSERT INTO acct_a SELECT n, 1000 FROM seq WHERE n < 100;
CREATE TABLE acct_b (name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, balance BIGINT NOT NULL);
INSERT INTO acct_b SELECT CONCAT('Konto ä', n), 1000 FROM seq WHERE n < 100;
CREATE TABLE orders (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(60) NOT NULL, total DECIMAL(12,2), note TEXT, at DATETIME(6) NOT NULL);
INSERT INTO orders (customer, total, note, at)
  SELECT CONCAT('customer ', a.n), b.n * 1.5, IF(a.n % 3 = 0, NULL, REPEAT('nöte ', a.n % 7)), '2024-01-01 10:00:00.123456' + INTERVAL a.n MINUTE
  FROM seq a, seq b WHERE a.n * 1000 + b.n < $rows;
CREATE TABLE people (name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, age INT, email VARCHAR(80) UNIQUE);
INSERT INTO people SELECT CONCAT(CHAR(65 + n % 26), 'ä', n), n % 90, CONCAT('p', n, '\@example.org') FROM seq;
CREATE TABLE order_lines (order_id INT, line INT, slot INT NULL UNIQUE, sku BINARY(8), PRIMARY KEY (order_id, line));
INSERT INTO order_lines SELECT a.n, b.n, IF(b.n = 0, a.n, NULL), UNHEX(LPAD(HEX(a.n * 100 + b.n), 16, '0')) FROM seq a, seq b WHERE b.n < 10;
CREATE TABLE bulk (id INT PRIMARY KEY, mark INT NOT NULL, pad VARCHAR(60));
INSERT INTO bulk SELECT b.n * 1000 + a.n, 0, REPEAT('x', a.n % 60) FROM seq a, seq b WHERE b.n < 10;
CREATE TABLE ledger (n BIGINT AUTO_INCREMENT PRIMARY KEY, writer INT NOT NULL, at TIMESTAMP(6) NOT NULL);
INSERT INTO ledger (writer, at) SELECT 0, NOW(6) FROM seq a, seq b WHERE b.n < 5;
CREATE TABLE notes (k VARCHAR(60) PRIMARY KEY, writer INT NOT NULL);
INSERT INTO notes SELECT UUID(), 0 FROM seq;
CREATE TABLE versions (id INT PRIMARY KEY, v BIGINT NOT NULL);
INSERT INTO versions SELECT n, 0 FROM seq WHERE n < 50;
CREATE TABLE keyless (n BIGINT, writer INT, what VARCHAR(20));
INSERT INTO keyless SELECT n, 0, 'old' FROM seq;

DELIMITER //
CREATE PROCEDURE transfer(x INT)
BEGIN
  DECLARE a INT DEFAULT FLOOR(RAND() * 100);
  DECLARE b VARCHAR(40) DEFAULT CONCAT('Konto ä', FLOOR(RAND() * 100));
  START TRANSACTION;
  UPDATE acct_a SET balance = balance - x WHERE id = a;
  IF RAND() < 0.1 THEN DO SLEEP(0.02); END IF;
  UPDATE acct_b SET balance = balance + x WHERE name = b;
  COMMIT;
END //
CREATE PROCEDURE append(me INT)
BEGIN
  DECLARE some INT DEFAULT FLOOR(RAND() * 50);
  START TRANSACTION;
  INSERT INTO ledger (writer, at) VALUES (me, NOW(6));
  INSERT INTO keyless VALUES (LAST_INSERT_ID(), me, 'new');
  INSERT INTO notes VALUES (UUID(), me);
  UPDATE versions SET v = v + 1 WHERE id = some;
  UPDATE versions SET v = v + 1 WHERE id = me;
  COMMIT;
END //
CREATE PROCEDURE trade(me INT)
BEGIN
  DECLARE a, b, c INT;
  DECLARE l, m INT;
  SELECT 1 + FLOOR(RAND() * $rows), 1 + FLOOR(RAND() * $rows), 1 + FLOOR(RAND() * $rows), FLOOR(RAND() * 1000), FLOOR(RAND() * 20) INTO a, b, c, l, m;
  START TRANSACTION;
  INSERT INTO orders (customer, total, at) VALUES (CONCAT('w', me), RAND() * 100, NOW(6));
  UPDATE orders SET total = total + 1, note = CONCAT('ö', RAND()) WHERE id = a;
  DELETE FROM orders WHERE id = b;
  UPDATE IGNORE orders SET id = IF(id > 1000000000, id - 1000000000, id + 1000000000) WHERE id IN (c, c + 1000000000);
  UPDATE IGNORE order_lines SET line = (line + 10) % 40 WHERE order_id = l AND line IN (m, m + 20);
  COMMIT;
END //
CREATE PROCEDURE hand_on()
BEGIN
  DECLARE l INT DEFAULT FLOOR(RAND() * 1000);
  SET \@a = NULL, \@b = NULL, \@e = NULL, \@f = NULL, \@s = NULL;
  SELECT CONCAT(CHAR(65 + FLOOR(RAND() * 26)), 'A', FLOOR(RAND() * 1000)), CONCAT(CHAR(65 + FLOOR(RAND() * 26)), 'a', FLOOR(RAND() * 1000)) INTO \@x, \@y;
  START TRANSACTION;
  SELECT name, email INTO \@a, \@e FROM people WHERE name >= \@x ORDER BY name LIMIT 1 FOR UPDATE;
  SELECT name, email INTO \@b, \@f FROM people WHERE name >= \@y AND name <> COALESCE(\@a, '') ORDER BY name LIMIT 1 FOR UPDATE;
  UPDATE people SET email = NULL WHERE name = \@a;
  UPDATE people SET email = \@e, age = age + 1 WHERE name = \@b AND \@a IS NOT NULL;
  UPDATE people SET email = \@f WHERE name = \@a AND \@b IS NOT NULL;
  UPDATE IGNORE people SET name = CONCAT(LEFT(name, 1), IF(RAND() < 0.5, 'Ä', 'a'), FLOOR(RAND() * 5000)) WHERE name = \@a;
  SET \@s = FLOOR(RAND() * 1000);
  UPDATE order_lines SET slot = NULL WHERE slot = \@s;
  UPDATE order_lines SET slot = \@s WHERE order_id = l AND line = 1 AND slot IS NULL;
  COMMIT;
END //
CREATE PROCEDURE large()
BEGIN
  START TRANSACTION;
  IF RAND() < 0.5 THEN
    UPDATE bulk SET mark = mark + 1;
  ELSE
    SET \@m = (SELECT MAX(mark) + 1 FROM bulk);
    DELETE FROM bulk;
    INSERT INTO bulk SELECT b.n * 1000 + a.n, \@m, REPEAT('y', a.n % 60) FROM seq a, seq b WHERE b.n < 10;
  END IF;
  COMMIT;
END //
CREATE PROCEDURE noise(me INT)
BEGIN
  CREATE TEMPORARY TABLE IF NOT EXISTS scratch (x INT);
  INSERT INTO scratch VALUES (me);
  DROP TEMPORARY TABLE scratch;
  INSERT INTO elsewhere VALUES (me);
  ANALYZE TABLE elsewhere;
  IF me = 4 THEN FLUSH BINARY LOGS; END IF;
END //
CREATE PROCEDURE churn(me INT, seconds INT)
BEGIN
  DECLARE r DOUBLE;
  DECLARE until DATETIME(6) DEFAULT NOW(6) + INTERVAL seconds SECOND;
  DECLARE CONTINUE HANDLER FOR 1213, 1205, 1062 ROLLBACK;
  WHILE NOW(6) < until AND (SELECT go FROM control) DO
    SET r = RAND();
    CASE WHEN r < 0.3 THEN CALL transfer(FLOOR(RAND() * 50));
         WHEN r < 0.6 THEN CALL append(me);
         WHEN r < 0.8 THEN CALL trade(me);
         WHEN r < 0.97 THEN CALL hand_on();
         WHEN r < 0.995 THEN CALL noise(me);
         ELSE CALL large();
    END CASE;
    DO SLEEP(RAND() * 2 * $pause);
  END WHILE;
END //
DELIMITER ;
CREATE USER 'capstan'\@'%' IDENTIFIED BY 'sesam';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'\@'%';
GRANT SELECT, LOCK TABLES ON crash.* TO 'capstan'\@'%';
});
}

# A new pipeline "crash" over all of it, and the oracles' triggers; started.
sub start_pipeline
{
	my ($self) = @_;
	my $pg = $self->{pg};

	$pg->safe_psql(sprintf q{SELECT capstan.create_pipeline('crash', server => 'source', tables => '{%s}', truncate_target => true);
		TRUNCATE capstan_seen; TRUNCATE samples;}, join ',', @TABLES);
	for (['ledger', 'n'], ['notes', 'k'], ['versions', 'id'])
	{
		my ($table, $key) = @$_;
		$pg->safe_psql("DROP TRIGGER IF EXISTS seen ON crash.$table;
			CREATE TRIGGER seen AFTER INSERT OR UPDATE OR DELETE ON crash.$table FOR EACH ROW EXECUTE FUNCTION note_change('$key');
			ALTER TABLE crash.$table ENABLE ALWAYS TRIGGER seen");
	}
	$pg->safe_psql(q{SELECT capstan.start_pipeline('crash')});
}

sub drop_pipeline
{
	my ($self) = @_;
	my $pg = $self->{pg};

	$pg->safe_psql(q{SELECT capstan.stop_pipeline('crash')});
	# drop_pipeline waits for some seconds only
	$pg->poll_query_until(q{SELECT pid IS NULL FROM capstan.pipeline_status});
	$pg->safe_psql(q{SELECT capstan.drop_pipeline('crash')});
}

# Writers that come back when their server does: the second compresses its transactions,
# the third tags them.
sub start_writers
{
	my ($self) = @_;
	my $my = $self->{my};
	my $tags = $my->value('SELECT SUBSTRING_INDEX(VERSION(), ".", 2) + 0 >= 8.3');

	$my->sql('UPDATE crash.control SET go = 1');
	for my $me (1 .. $self->{writers})
	{
		my $session = $me == 2 ? 'SET binlog_transaction_compression = ON;'
		  : $me == 3 && $tags ? "SET gtid_next = 'AUTOMATIC:soak';" : '';
		push @{ $self->{running} }, CapstanTest::spawn_code(
			sub {
				open(STDERR, '>', '/dev/null');
				while (1)
				{
					my ($rc) = $my->try_sql("USE crash; $session CALL churn($me, 3600)");
					last if $rc == 0;
					sleep(0.2);
				}
			});
	}
	push @{ $self->{samplers} }, CapstanTest::spawn_code(
		sub {
			while (1)
			{
				my ($rc) = $self->{pg}->psql('CALL sample(2)');
				sleep(0.2) if $rc != 0;
			}
		});
}

sub stop_writers
{
	my ($self) = @_;

	# Not before somebody has looked, while tables stream that are written to.
	CapstanTest::poll_until { ($self->{pg}->psql('SELECT sum(good) > 20 FROM samples'))[1] =~ /^t/ } if $self->{samplers};
	$self->{my}->sql('UPDATE crash.control SET go = 0');
	CapstanTest::reap($_) for splice @{ $self->{running} // [] };
	sleep(0.1);
	for (splice @{ $self->{samplers} // [] })
	{
		kill('KILL', $_);
		CapstanTest::reap($_);
	}
}

# 'snapshot' while a table is being copied, else 'stream'.
sub phase
{
	my ($self) = @_;
	my $left = $self->{pg}->value(q{SELECT count(*) FROM capstan.pipeline_table WHERE state <> 'streaming'});

	return $left > 0 ? 'snapshot' : 'stream';
}

# ---------------------------------------------------------------------
# Strikes
# ---------------------------------------------------------------------

sub _signal_worker
{
	my ($self, $signal, $re) = @_;
	my @pids = $self->{pg}->worker_pids($re);

	return 0 unless @pids;
	return kill($signal, $pids[ rand @pids ]);
}

# A process that stands still, as in a machine that is paused or swaps.
sub _freeze
{
	my ($self, @pids) = @_;

	return 0 unless @pids;
	kill('STOP', @pids);
	sleep($self->{freeze});
	kill('CONT', @pids);
	return 1;
}

# Somebody locks a target table for longer than the workers are willing to wait (capstan.lock_timeout).
sub _lock_target
{
	my ($self) = @_;
	my ($rc) = $self->{pg}->psql("SET lock_timeout = '5s'; BEGIN; LOCK TABLE crash.orders IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep($self->{freeze}); COMMIT");

	return $rc == 0;
}

# Ends connections of the pipeline on the source: all of them, or one; the newest dump, since an earlier one may still be there.
sub _kill_connections
{
	my ($self, $where, $how, %opt) = @_;
	my @ids = map { $_->[0] } $self->{my}->query(
		"SELECT id FROM performance_schema.processlist WHERE user = 'capstan' AND $where ORDER BY id");

	return 0 unless @ids;
	my @victims = $opt{all} ? @ids : $opt{newest} ? $ids[-1] : $ids[ rand @ids ];
	my ($rc) = $self->{my}->try_sql(join('; ', map { "$how $_" } @victims), options => ['--force']);
	return $rc == 0 || $opt{all};
}

my $PIPELINE = qr/capstan pipeline/;
my $COPY = qr/capstan copy/;

# name => [phase it needs or '', what to do: true if there was something to hit]
my %STRIKES = (
	'kill -9 pipeline worker' => ['', sub { $_[0]->_signal_worker('KILL', $PIPELINE) }],
	'kill -9 copy worker' => ['snapshot', sub { $_[0]->_signal_worker('KILL', $COPY) }],
	'kill -9 launcher' => ['', sub { $_[0]->_signal_worker('KILL', qr/capstan launcher/) }],
	'kill -9 postmaster' => ['', sub { $_[0]{pg}->kill9_postmaster; $_[0]{pg}->start_again; 1 }],
	'immediate shutdown' => ['', sub { $_[0]{pg}->restart('immediate'); 1 }],
	'fast shutdown' => ['', sub { $_[0]{pg}->restart('fast'); 1 }],
	'SIGTERM pipeline worker' => ['', sub { $_[0]->_signal_worker('TERM', $PIPELINE) }],
	'SIGTERM copy worker' => ['snapshot', sub { $_[0]->_signal_worker('TERM', $COPY) }],
	'SIGTERM launcher' => ['', sub { $_[0]->_signal_worker('TERM', qr/capstan launcher/) }],
	'cancel pipeline worker' => ['', sub { $_[0]->_signal_worker('INT', $PIPELINE) }],
	'cancel copy worker' => ['snapshot', sub { $_[0]->_signal_worker('INT', $COPY) }],
	'kill -9 mysqld' => ['', sub { $_[0]{my}->kill9; sleep(rand 0.7); $_[0]{my}->start_again; 1 }],
	'smart shutdown' => ['', sub { $_[0]{pg}->restart('smart'); 1 }],
	'stop and start the pipeline' => ['', sub {
			$_[0]{pg}->safe_psql(q{SELECT capstan.stop_pipeline('crash')});
			sleep(rand 0.3);
			$_[0]{pg}->safe_psql(q{SELECT capstan.start_pipeline('crash')});
			1;
		}],
	'freeze pipeline worker' => ['', sub { $_[0]->_freeze($_[0]{pg}->worker_pids($PIPELINE)) }],
	'freeze copy worker' => ['snapshot', sub { $_[0]->_freeze((List::Util::shuffle($_[0]{pg}->worker_pids($COPY)))[0] // ()) }],
	'freeze mysqld' => ['', sub { $_[0]->_freeze($_[0]{my}->pid) }],
	'lock a target table' => ['', sub { $_[0]->_lock_target }],
	'KILL all connections' => ['', sub { $_[0]->_kill_connections('true', 'KILL', all => 1) }],
	'stop mysqld' => ['', sub { $_[0]{my}->stop; $_[0]{my}->start_again; 1 }],
	'KILL dump connection' => ['', sub { $_[0]->_kill_connections("command LIKE 'Binlog Dump%'", 'KILL', newest => 1) }],
	'KILL copy connection' => ['snapshot', sub { $_[0]->_kill_connections("command NOT LIKE 'Binlog Dump%'", 'KILL') }],
	'KILL QUERY copy connection' => ['snapshot', sub { $_[0]->_kill_connections("command NOT LIKE 'Binlog Dump%'", 'KILL QUERY') }],
);

# After these the same pipeline worker may go on.
my %HARMLESS = map { $_ => 1 } ('SIGTERM launcher', 'KILL copy connection', 'KILL QUERY copy connection',
	'freeze pipeline worker', 'freeze copy worker', 'freeze mysqld', 'lock a target table');

sub strikes_for { my ($self, $phase) = @_; grep { $STRIKES{$_}[0] eq '' || $STRIKES{$_}[0] eq $phase } sort keys %STRIKES }

# Is the phase still the same? (A copy worker that was hit at its very end was not missed.)
sub _still
{
	my ($self, $phase) = @_;
	return $phase eq 'stream' || (eval { $self->phase } // '') eq $phase;
}

# strike($name): does it, and waits until everything that the source had by then is
# applied. What happened: { what, phase, hit, seconds } or with error set.
sub strike
{
	my ($self, $name, $timeout) = @_;
	my $phase = $self->phase;
	my ($before) = $self->{pg}->worker_pids($PIPELINE);
	my $start = time();
	my $hit = $STRIKES{$name}[1]->($self);
	my $struck = { what => $name, phase => $phase, hit => $hit };

	if ($hit)
	{
		my $mark = $self->{my}->gtid_executed;
		my $back = CapstanTest::poll_until(
			sub {
				my ($pid) = $self->{pg}->worker_pids($PIPELINE) or return 0;
				return 0 if $pid == ($before // 0) && !$HARMLESS{$name} && $self->_still($phase);
				my ($rc, $out) = $self->{pg}->psql(
					"SELECT s.applied OPERATOR(capstan.@>) '$mark'::capstan.gtid_set AND s.state IN ('snapshot', 'streaming') FROM capstan.pipeline_status s");
				return $rc == 0 && $out =~ /^t/;
			}, $timeout);
		$struck->{seconds} = time() - $start;
		$struck->{error} = 'not back: ' . join(' | ', $self->{pg}->psql(
				'SELECT state, last_error, last_error_detail FROM capstan.pipeline_status')) unless $back;
		push @{ $self->{struck} }, $struck;
	}
	return $struck;
}

# ---------------------------------------------------------------------
# After it all
# ---------------------------------------------------------------------

# check($name): the writers have stopped; tests that nothing was lost, repeated, or halted.
sub check
{
	my ($self, $name) = @_;
	my ($my, $pg) = @$self{qw(my pg)};

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.wait_for_snapshot('crash', timeout => '180 s'); SELECT capstan.wait_for_source('crash', timeout => '180 s')});
	is($rc, 0, "$name: everything arrives") or diag($err);
	is($pg->value('SELECT applied::text FROM capstan.pipeline_progress'), _canonical($pg, $my->gtid_executed),
		"$name: position equals gtid_executed");
	CapstanTest::tables_equal($my, $pg, [@TABLES], $name);
	is($pg->safe_psql(q{
		SELECT tab, key, v, count(*) FROM capstan_seen GROUP BY 1, 2, 3 HAVING count(*) <> 1 ORDER BY 1, 2, 3 LIMIT 5}),
		'', "$name: no change was applied twice");
	is($pg->safe_psql(q{
		SELECT tab, key FROM capstan_seen WHERE tab <> 'versions' AND key NOT LIKE 'INSERT %' LIMIT 5}),
		'', "$name: appended rows were never changed");
	is($pg->safe_psql(q{
		SELECT v.id, v.v, s.* FROM crash.versions v LEFT JOIN (
			SELECT split_part(key, ' ', 2)::int AS id, count(*) AS n, min(v) AS low, max(v) AS high,
			       count(*) FILTER (WHERE key LIKE 'INSERT %') AS inserts
			FROM capstan_seen WHERE tab = 'versions' GROUP BY 1) s USING (id)
		WHERE (s.high = v.v AND s.n = s.high - s.low + 1 AND s.inserts = 1) IS NOT TRUE LIMIT 5}),
		'', "$name: every version of a row was applied once, in a row");
	is($pg->safe_psql(q{
		SELECT (SELECT count(*) FROM capstan_seen WHERE tab = 'ledger') - (SELECT count(*) FROM crash.ledger),
		       (SELECT count(*) FROM capstan_seen WHERE tab = 'notes') - (SELECT count(*) FROM crash.notes)}),
		'0|0', "$name: each appended row came once");
	is($my->value('SELECT (SELECT SUM(balance) FROM crash.acct_a) + (SELECT SUM(balance) FROM crash.acct_b)'), $SUM,
		"$name: the source's own sum is what it should be");
	is($pg->safe_psql(q{SELECT sum(rows_missing), sum(rows_existing) FROM capstan.pipeline_table}),
		'0|0', "$name: no row was a surprise");
	is($pg->safe_psql(q{SELECT class, message FROM capstan.incident WHERE severity = 'halt' LIMIT 5}), '', "$name: nothing halted");
	ok($pg->poll_query_until(q{SELECT count(*) FROM capstan.incident WHERE severity = 'retry' AND resolved_at IS NULL}, 0),
		"$name: every retry is resolved");
	my ($good, $bad) = split /\|/, $pg->safe_psql(q{SELECT COALESCE(sum(good), 0), COALESCE(max(bad), '') FROM samples}), -1;
	is($bad, '', "$name: no reader saw half of a source transaction ($good samples)");
	cmp_ok($good, '>', 20, "$name: there were samples");
}

sub _canonical
{
	my ($pg, $set) = @_;
	return $pg->value("SELECT '$set'::capstan.gtid_set::text");
}

1;
