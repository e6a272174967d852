# Changes that are written without SQL statements come out as those that are: the same rows, the same refusals.
#
# Why: the executor's routines know nothing of what a statement does besides: defaults, triggers, rules, partitions,
# generated columns, rights.
# How: one source, two databases with a pipeline each, capstan.direct_apply on in one and off in the other; tables of
# every kind that the direct way must leave to statements; the same row changed many times in one
# transaction; a trigger that looks at another table; unique values handed on; a row locked by a session of the target; values in TOAST; a CHECK of the target that fails.
# Inserts, which the direct way gathers over transactions: more than it keeps, between changes of the same and of another table; keys that
# are in the target already, committed or by a session that commits or rolls back; a row refused in the middle. A schema of targets that gets another name.
# Asserted: both equal the source; triggers fired; TOAST of an update that leaves the value alone is not written again, updates
# of columns without index are HOT, and so are those of one row a thousand times, and an index of a column that stays does not grow with the others; the halts are alike, and name transaction and table of the row that is refused, though rows of other
# transactions and tables were gathered with it; the same rows are surprises.
# Not asserted: speed.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
# Without autovacuum, which may make a TOAST table smaller.
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.lock_timeout' => "'120s'", autovacuum => 'off' });

$my->sql(<<'SQL');
CREATE DATABASE d; USE d;
CREATE TABLE plain (id INT PRIMARY KEY, n INT, u INT UNIQUE, s VARCHAR(50), big LONGTEXT, d DECIMAL(10,2), c INT DEFAULT 5);
CREATE TABLE texts (k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, b VARBINARY(10), n INT, PRIMARY KEY (b, k));
CREATE TABLE parent (id INT PRIMARY KEY, v INT);
CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id));
CREATE TABLE triggered LIKE parent; CREATE TABLE parted LIKE parent; CREATE DATABASE e; CREATE TABLE e.computed LIKE parent; CREATE TABLE e.wider LIKE parent;
CREATE TABLE ruled LIKE parent; CREATE TABLE inherited LIKE parent; CREATE TABLE only_key (id INT PRIMARY KEY);
CREATE TABLE checked LIKE parent; CREATE TABLE other LIKE plain; CREATE TABLE looks LIKE parent;
CREATE TABLE ordered (id INT PRIMARY KEY, n INT, s VARCHAR(100)); CREATE TABLE ordered_two (a INT, b INT, n INT, s VARCHAR(100), PRIMARY KEY (b, a));
CREATE TABLE churned (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b));
CREATE TABLE docs (id INT PRIMARY KEY, n INT, j JSON, k JSON, t LONGTEXT); CREATE TABLE docs_parted LIKE docs; CREATE TABLE docs_keyless (id INT, n INT, j JSON, k JSON, t LONGTEXT);
SQL
$my->grant;
my $targets = <<'SQL';
CREATE EXTENSION capstan; CREATE SCHEMA d; CREATE SCHEMA e;
CREATE TABLE d.triggered (id integer PRIMARY KEY, v integer);
CREATE TABLE public.fired (id integer, what text);
CREATE FUNCTION public.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fired VALUES (COALESCE(NEW.id, OLD.id), TG_OP); RETURN COALESCE(NEW, OLD); END $$;
CREATE TRIGGER fire BEFORE INSERT OR UPDATE OR DELETE ON d.triggered FOR EACH ROW EXECUTE FUNCTION public.fire();
ALTER TABLE d.triggered ENABLE ALWAYS TRIGGER fire;
CREATE TABLE d.looks (id integer PRIMARY KEY, v integer);
CREATE TABLE public.looked (id integer, what text, found integer, n bigint);
CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO public.looked SELECT COALESCE(NEW.id, OLD.id), TG_OP, (SELECT v FROM d.parent WHERE id = COALESCE(NEW.id, OLD.id)), (SELECT count(*) FROM d.parent);
	RETURN COALESCE(NEW, OLD);
END $$;
CREATE TRIGGER look BEFORE INSERT OR UPDATE OR DELETE ON d.looks FOR EACH ROW EXECUTE FUNCTION public.look();
ALTER TABLE d.looks ENABLE ALWAYS TRIGGER look;
CREATE TABLE d.parted (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
CREATE TABLE d.parted_low PARTITION OF d.parted FOR VALUES FROM (MINVALUE) TO (50);
CREATE TABLE d.parted_rest PARTITION OF d.parted DEFAULT;
CREATE TABLE d.docs_parted (id integer PRIMARY KEY, n integer, j jsonb, k jsonb, t text) PARTITION BY RANGE (id);
CREATE TABLE d.docs_parted_low PARTITION OF d.docs_parted FOR VALUES FROM (MINVALUE) TO (3);
CREATE TABLE d.docs_parted_rest PARTITION OF d.docs_parted DEFAULT;
CREATE TABLE e.computed (id integer PRIMARY KEY, v integer, w integer GENERATED ALWAYS AS (v * 2) STORED);
CREATE TABLE e.wider (id integer PRIMARY KEY, v integer, extra text DEFAULT 'there', at timestamptz DEFAULT now());
CREATE TABLE d.ruled (id integer PRIMARY KEY, v integer);
CREATE RULE also AS ON DELETE TO d.ruled DO ALSO INSERT INTO public.fired VALUES (OLD.id, 'rule');
ALTER TABLE d.ruled ENABLE ALWAYS RULE also;
CREATE TABLE d.inherited (id integer PRIMARY KEY, v integer);
CREATE TABLE public.heir () INHERITS (d.inherited);
CREATE TABLE d.checked (id integer PRIMARY KEY, v integer CONSTRAINT below_ten CHECK (v < 10));
CREATE UNIQUE INDEX ON d.checked ((v * 2 + id * 1000)) WHERE v > 0;
SQL
$pg->safe_psql('CREATE DATABASE direct'); $pg->safe_psql('CREATE DATABASE statements');
$pg->safe_psql('ALTER DATABASE statements SET capstan.direct_apply = off');

# A handle on another database of the same cluster.
sub database
{
	my ($name) = @_;

	return bless { %$pg, database => $name }, ref $pg;
}
my %db = map { $_ => database($_) } qw(direct statements);
for my $db (values %db)
{
	is($db->value('SELECT current_database()'), $db->{database}, "a database $db->{database}");
	$db->safe_psql($targets);
	$db->create_server('source', $my);
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('$db->{database}', server => 'source', tables => '{d.*,e.*}')");
	$db->safe_psql("SELECT capstan.start_pipeline('$db->{database}')");
	$db->safe_psql("SELECT capstan.wait_for_snapshot('$db->{database}', timeout => '180 s')");
	$db->safe_psql("SELECT * FROM capstan.create_constraints('$db->{database}')");
}

sub both_equal
{
	my ($what, @but) = @_;

	for my $name (sort keys %db)
	{
		sync_pipeline($db{$name}, $name);
		tables_equal($my, $db{$name}, [ 'd.*' ], "$what: $name");
		is($db{$name}->value('SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status'), 0, "$what: $name: no row was a surprise");
	}
}

my $every = join '; ', map { "INSERT INTO $_ VALUES (1, 1), (2, 2), (70, 7); UPDATE $_ SET v = v + 1 WHERE id < 50; UPDATE $_ SET id = 60 WHERE id = 2; DELETE FROM $_ WHERE id = 70" } qw(parent triggered parted e.computed e.wider ruled inherited checked);
$my->sql("USE d; $every; INSERT INTO child VALUES (1, 1), (2, 60); INSERT INTO only_key VALUES (1), (2); UPDATE only_key SET id = 3 WHERE id = 1");
both_equal('every kind');
for my $db (values %db)
{
	is($db->value(q{SELECT string_agg(id || ' ' || what, ', ' ORDER BY ctid) FROM public.fired}),
		$db{statements}->value(q{SELECT string_agg(id || ' ' || what, ', ' ORDER BY ctid) FROM public.fired}), "$db->{database}: triggers and rules acted");
	cmp_ok($db->value('SELECT count(*) FROM public.fired'), '>', 5, "$db->{database}: they did");
	is($db->value(q{SELECT string_agg(extra, ',') || ' ' || count(at) FROM e.wider}), 'there,there 2', "$db->{database}: defaults of other columns");
	is($db->value('SELECT string_agg(id || \'=\' || w, \',\' ORDER BY id) FROM e.computed'), '1=4,60=6', "$db->{database}: generated columns");
}

# What a trigger of one table sees of another one, whose inserts are gathered.
$my->sql(q{USE d; START TRANSACTION; INSERT INTO parent VALUES (301, 1); INSERT INTO looks VALUES (301, 1); INSERT INTO parent VALUES (302, 2); INSERT INTO looks VALUES (302, 1);
	INSERT INTO parent VALUES (303, 3); UPDATE looks SET v = 2 WHERE id = 301; INSERT INTO parent VALUES (304, 4); SET SESSION binlog_row_image = 'MINIMAL'; UPDATE looks SET v = 3 WHERE id = 302;
	INSERT INTO parent VALUES (305, 5); DELETE FROM looks WHERE id = 301; COMMIT});
both_equal('a trigger that looks at another table');
is($_->value(q{SELECT string_agg(id || ' ' || what || ' ' || found || ' ' || n - (SELECT min(n) FROM public.looked), ', ' ORDER BY ctid) FROM public.looked}),
	'301 INSERT 1 0, 302 INSERT 2 1, 301 UPDATE 1 2, 302 UPDATE 2 3, 301 DELETE 1 4', "$_->{database}: it sees what came before") for values %db;

# The same rows again and again in one transaction, unique values handed on, big values.
$my->sql(<<'SQL');
USE d;
START TRANSACTION;
INSERT INTO plain VALUES (1, 1, 10, 'a', REPEAT('x', 200000), 1.5, NULL), (2, 2, 20, 'b', NULL, 2.5, 6), (3, 3, 30, NULL, 'short', -0.5, 7);
UPDATE plain SET n = n + 1; UPDATE plain SET n = n + 1; UPDATE plain SET u = 40 WHERE id = 1; UPDATE plain SET u = 10 WHERE id = 2; UPDATE plain SET id = 9 WHERE id = 3;
DELETE FROM plain WHERE id = 2; INSERT INTO plain (id, n, u, s) VALUES (2, 7, 10, 'again'); REPLACE INTO plain (id, n, u) VALUES (5, 5, 10); DELETE FROM plain WHERE id = 9; INSERT INTO plain (id, u) VALUES (9, 99); DELETE FROM plain WHERE id = 9;
COMMIT;
INSERT INTO texts VALUES ('a', 'x', 1), ('B', 'x', 2), ('ä2', 'X', 3); UPDATE texts SET k = 'A' WHERE k = 'a'; UPDATE texts SET n = n + 10, b = CONCAT(b, '!'); DELETE FROM texts WHERE k = 'b';
SQL
both_equal('one row many times');

# Rows in the order of their keys, which lie one behind the other: with gaps, rows that moved, across pages, backwards, and the next one by a part of the key only.
my $seq = 'WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 1500)';
$my->sql(qq{USE d; SET cte_max_recursion_depth = 10000; INSERT INTO ordered $seq SELECT i, 0, REPEAT('o', i % 90) FROM i; INSERT INTO ordered_two $seq SELECT i DIV 7, i % 7, i, REPEAT('p', i % 80) FROM i;
	UPDATE ordered SET n = n + 1; UPDATE ordered SET n = n + 10 WHERE id % 3 = 0; DELETE FROM ordered WHERE id % 5 = 0; UPDATE ordered SET n = n + 100 ORDER BY id DESC;
	START TRANSACTION; UPDATE ordered SET n = n + 1000 WHERE id BETWEEN 100 AND 900; UPDATE ordered SET s = NULL WHERE id BETWEEN 200 AND 400; INSERT INTO ordered $seq SELECT i, -1, 'again' FROM i WHERE i % 5 = 0; COMMIT;
	UPDATE ordered SET n = n + 10000; UPDATE ordered SET id = -id WHERE id < 50; UPDATE ordered SET id = id + 2000 WHERE id BETWEEN 100 AND 160; DELETE FROM ordered WHERE id BETWEEN 600 AND 700;
	START TRANSACTION; UPDATE ordered SET n = 1 WHERE id = 801; UPDATE ordered SET n = 2 WHERE id = 802; UPDATE ordered SET n = 3 WHERE id = 801; UPDATE ordered SET n = 4 WHERE id = 804; DELETE FROM ordered WHERE id = 806; INSERT INTO ordered VALUES (806, 5, 'new'); COMMIT;
	UPDATE ordered_two SET n = n + 1 ORDER BY a, b; UPDATE ordered_two SET n = n + 10 ORDER BY b, a; DELETE FROM ordered_two WHERE a % 3 = 1 ORDER BY a, b; UPDATE ordered_two SET n = n + 100, s = CONCAT(s, '!') ORDER BY a, b});
both_equal('in order');

# A row that is changed again and again, while it does not run: old versions go in between, so that the table stays small. In one go they would take 150 pages.
$my->sql("USE d; INSERT INTO other VALUES (1, 0, 1, NULL, REPEAT('h', 200), NULL, NULL)");
both_equal('a row that will be hot');
for my $name (sort keys %db) { $db{$name}->safe_psql("SELECT capstan.stop_pipeline('$name')") }
$my->sql(q{USE d;
DELIMITER //
CREATE PROCEDURE often(i INT) BEGIN WHILE i > 0 DO UPDATE other SET n = n + 1 WHERE id = 1; SET i = i - 1; END WHILE; END
//
DELIMITER ;
CALL often(5000)});
# Alone, and not looked at meanwhile, since any transaction that runs keeps old versions. The other one would not tell: a statement does not say that the row
# was ours.
$db{direct}->safe_psql("SELECT capstan.start_pipeline('direct')");
sleep(3);
poll_until { $db{direct}->value('SELECT n FROM d.other WHERE id = 1') == 5000 };
cmp_ok($db{direct}->value(q{SELECT pg_relation_size('d.other') / current_setting('block_size')::int}), '<', 40, 'its table has few pages');
$db{statements}->safe_psql("SELECT capstan.start_pipeline('statements')");
both_equal('a hot row');
$my->sql('DELETE FROM d.other');

# Each update changes one indexed column, so that all indexes get an entry. Those whose columns stay are told so, and drop entries of dead versions rather than
# grow; a statement, which names all columns, tells none. PostgreSQL 14 has no way to say it.
my $index_pages = q{SELECT pg_relation_size(indexrelid) / current_setting('block_size')::int FROM pg_index WHERE indrelid = 'd.churned'::regclass AND indkey::text = '2'};
$my->sql("USE d; SET cte_max_recursion_depth = 10000; INSERT INTO churned WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 10000) SELECT i, i * 7919 % 10000, i FROM i");
both_equal('a table before it is updated a lot');
# pauses, so that they do not come in one group
$my->sql(join ' DO SLEEP(0.1);', map { "UPDATE d.churned SET b = b + 10000 WHERE id % 10 = $_ % 10;" } 1 .. 60);
both_equal('a table that is updated a lot');
cmp_ok($db{direct}->value($index_pages), '<', 0.8 * $db{statements}->value($index_pages), 'the index of a column that stays grows less than by statements')
  if $pg->value('SHOW server_version_num') >= 150000;

# Documents and texts that stay, beside what changes: short, compressed, in TOAST (hexadecimal digits), NULL; with a changed key, from and to NULL, and
# changed by a row before in the same transaction; the whole document, and by differences to it.
my $hex = join ', ', map { "SHA2('$_', 512)" } 1 .. 200;
my @documents = qw(docs docs_parted docs_keyless);
for my $table (@documents)
{
	$my->sql(qq{USE d; INSERT INTO $table VALUES (1, 1, '{"a": 1.50, "b": "x"}', '[1, 2]', 'short'), (2, 1, JSON_OBJECT('r', REPEAT('y', 9000)), '1.0', REPEAT('z', 9000)),
		(3, 1, JSON_ARRAY(CONCAT($hex)), JSON_OBJECT('k', 1), CONCAT($hex)), (4, 1, NULL, 'null', NULL), (5, 1, '{}', NULL, '');
		START TRANSACTION; UPDATE $table SET n = n + 1; UPDATE $table SET k = JSON_ARRAY(k, n) WHERE id < 5; UPDATE $table SET n = n + 1; UPDATE $table SET id = id + 100 WHERE id IN (2, 3);
		UPDATE $table SET n = n + 1, t = CONCAT(COALESCE(t, ''), '!') WHERE id IN (1, 103); UPDATE $table SET j = k WHERE id = 4; UPDATE $table SET j = NULL, n = 0 WHERE id = 5; UPDATE $table SET n = n + 1; COMMIT; UPDATE $table SET n = n + 1});
}
both_equal('documents that stay');
for my $table (@documents)
{
	$my->sql(qq{USE d; SET SESSION binlog_row_value_options = 'PARTIAL_JSON'; UPDATE $table SET j = JSON_SET(j, '\$.r', 'new') WHERE id = 102; UPDATE $table SET n = 7;
		SET SESSION binlog_row_image = 'NOBLOB'; UPDATE $table SET n = n + 1; DELETE FROM $table WHERE id IN (1, 103); INSERT INTO $table VALUES (1, 1, '[true]', '"x"', 'again'); UPDATE $table SET n = 2 WHERE id = 1});
}
both_equal('documents that stay, in images with less');

my $toast = q{SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'd.plain'::regclass};
my ($before, $hot) = ($db{direct}->value($toast), $db{direct}->value("SELECT pg_stat_get_tuples_hot_updated('d.plain'::regclass)"));
$my->sql('USE d; ' . join '; ', map { "UPDATE plain SET n = $_ WHERE id = 1" } 100 .. 160);
both_equal('an update beside a big value');
is($db{direct}->value($toast), $before, 'what was not changed is not written to TOAST again');
# A worker tells its statistics after a commit, if it did not just before.
poll_until(sub {
		$my->sql('UPDATE d.plain SET n = n + 1 WHERE id = 1');
		return $db{direct}->value("SELECT pg_stat_get_tuples_hot_updated('d.plain'::regclass)") >= $hot + 30;
	});
cmp_ok($db{direct}->value("SELECT pg_stat_get_tuples_hot_updated('d.plain'::regclass)"), '>=', $hot + 30, 'updates of columns without an index are HOT');
$my->sql("USE d; UPDATE plain SET big = CONCAT('y', big), n = 0 WHERE id = 1; UPDATE plain SET big = REPEAT('z', 90000) WHERE id = 2");
both_equal('big values changed');

# Who waits for advisory lock 61 is held up between these two.
my @gates;
sub close_gates
{
	@gates = map { $_->background('SELECT pg_advisory_lock(61); SELECT pg_sleep(601)') } values %db;
	$_->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(601)%' AND wait_event = 'PgSleep' AND datname = current_database()", 1) for values %db;
}

sub open_gates
{
	$pg->psql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE \'%pg_sleep(601)%\' AND pid <> pg_backend_pid()');
	$_->wait for splice @gates;
}

sub workers_wait
{
	my ($name) = @_;

	ok($_->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'capstan pipeline' AND wait_event_type = 'Lock' AND datname = current_database()", 1), $name) for values %db;
}

# A session of the target that has the row: the worker waits for it.
close_gates();
my @holders = map { $_->background("BEGIN; UPDATE d.plain SET s = s WHERE id = 1; SELECT pg_advisory_lock(61); COMMIT") } values %db;
for my $db (values %db)
{
	ok($db->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock(61)%' AND wait_event = 'advisory' AND datname = current_database()", 1), 'a session holds a row');
}
$my->sql('USE d; UPDATE plain SET n = 77 WHERE id = 1; DELETE FROM plain WHERE id = 2');
workers_wait('the worker waits for it');
open_gates();
is($_->wait, 0, 'the holder is through') for @holders;
both_equal('after a row was held');

# A refusal of the target is the same halt.
$my->sql('USE d; UPDATE checked SET v = 507712 WHERE id = 1');
my @halts = map { halted_by($db{$_}, $_) } sort keys %db;
is("@{[ map { $_->{class} . $_->{sqlstate} . $_->{source_table} } $halts[0] ]}", "@{[ map { $_->{class} . $_->{sqlstate} . $_->{source_table} } $halts[1] ]}", 'a CHECK that fails is the same halt');
like($halts[0]{message} . ($halts[0]{detail} // ''), qr/below_ten/, '... which names the constraint');
unlike(join('', map { $_ // '' } %{ $halts[0] }), qr/507712/, '... and not the value');
$_->safe_psql('ALTER TABLE d.checked DROP CONSTRAINT below_ten') for values %db;
$db{$_}->safe_psql("SELECT capstan.start_pipeline('$_')") for keys %db;
both_equal('after the constraint was dropped');

sub for_both { my ($sql) = @_; $_->safe_psql($sql) for values %db; }
sub start_both { $db{$_}->safe_psql("SELECT capstan.start_pipeline('$_')") for sort keys %db; }
sub stop_both
{
	$db{$_}->safe_psql("SELECT capstan.stop_pipeline('$_')") for sort keys %db;
	poll_until(sub { $db{$_}->value("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$_'") eq 'stopped' }) for sort keys %db;
}

# Inserts are gathered: thousands of them, in one statement and one by one, and what is done between them.
my $numbers = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 1500) SELECT";
stop_both();
$my->sql(<<"SQL");
USE d; SET SESSION cte_max_recursion_depth = 10000; DELETE FROM plain;
INSERT INTO plain (id, n, u, s, big) $numbers n, n, n, CONCAT('s', n), IF(n % 100 = 0, REPEAT(n, 30000), NULL) FROM r;
INSERT INTO other (id, n, u) $numbers n, n, n + 5 FROM r;
START TRANSACTION;
INSERT INTO plain (id, u) VALUES (2001, 2001), (2002, 2002); INSERT INTO other (id, u) VALUES (2001, 3001); INSERT INTO plain (id, u) VALUES (2003, 2003);
UPDATE plain SET u = 2004 WHERE id = 2001; INSERT INTO plain (id, u) VALUES (2004, 2001); INSERT INTO other (id, u) VALUES (2002, 3002); DELETE FROM plain WHERE id = 2004; INSERT INTO plain (id, u) VALUES (2005, 2001);
UPDATE plain SET id = 2006 WHERE id = 2005; INSERT INTO plain (id, u) VALUES (2005, 2005); DELETE FROM other WHERE id < 100; INSERT INTO other (id, u) VALUES (7, 7), (8, 8);
SET SESSION binlog_row_image = 'MINIMAL'; UPDATE plain SET n = 1 WHERE id IN (2005, 1500); INSERT INTO plain (id, u) VALUES (2007, 2007); UPDATE plain SET n = 2 WHERE id IN (2006, 2007);
COMMIT;
SQL
$my->sql('USE d; ' . join '; ', map {; "INSERT INTO plain (id, n, u) VALUES ($_, $_, $_)", $_ % 50 ? () : "UPDATE plain SET n = n + 1 WHERE id = $_ - 7", $_ % 20 ? () : "INSERT INTO other (id, u) VALUES ($_, $_)" } 4000 .. 4700);
start_both();
both_equal('many inserts');

# Keys that are in the target already: as many surprises, and a unique value that the row had before is free for the next one.
my $surprises = q{SELECT string_agg(source_table || ' ' || rows_missing || ' ' || rows_existing, ', ' ORDER BY source_table) FROM capstan.table_status WHERE source_table IN ('plain', 'other')};
stop_both();
for_both(q{INSERT INTO d.plain (id, u, s) VALUES (5002, 5003, 'there'), (5100, 5100, 'there'); INSERT INTO d.other (id, u) VALUES (5001, 5007)});
close_gates();
# Neither lets the other one wait.
my @sessions = map { $_->background(q{BEGIN; INSERT INTO d.plain (id, u) VALUES (5200, 5200); SELECT pg_advisory_lock_shared(61); ROLLBACK}),
	$_->background(q{BEGIN; INSERT INTO d.other (id, u) VALUES (5200, 5200); SELECT pg_advisory_lock_shared(61); COMMIT}) } values %db;
ok($_->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock_shared(61)%' AND wait_event = 'advisory' AND datname = current_database()", 2), 'two sessions hold rows') for values %db;
$my->sql(q{USE d; INSERT INTO plain (id, u) VALUES (5001, 5001), (5002, 5002), (5003, 5003), (5004, 5004); INSERT INTO other (id, u) VALUES (5001, 5001), (5002, 5002);
INSERT INTO plain (id, u) VALUES (5100, 5100); INSERT INTO plain (id, u) VALUES (5101, 5101); INSERT INTO plain (id, u) VALUES (5200, 5200), (5201, 5201); INSERT INTO other (id, u) VALUES (5199, 5199), (5200, 5200), (5201, 5201)});
start_both();
workers_wait('the worker waits for one of them');
open_gates();
is($_->wait, 0, 'the session is through') for @sessions;
for my $name (sort keys %db)
{
	sync_pipeline($db{$name}, $name);
	tables_equal($my, $db{$name}, [ 'd.*' ], "rows that were there: $name");
	is($db{$name}->value($surprises), 'other 0 2, plain 0 2', "$name: each of them is counted");
}

# A row that the target refuses, among others: a unique value, then NOT NULL; the one before it is applied, the one after it is not.
for my $refusal ([ 'unique', q{INSERT INTO d.plain (id, u) VALUES (-1, 6003)}, q{DELETE FROM d.plain WHERE id = -1} ],
	[ 'not null', q{ALTER TABLE d.plain ALTER c SET NOT NULL}, q{ALTER TABLE d.plain ALTER c DROP NOT NULL} ],
	[ 'check', q{ALTER TABLE d.plain ADD CHECK (c <> 6003) NOT VALID}, q{ALTER TABLE d.plain DROP CONSTRAINT plain_c_check} ])
{
	my ($what, $before, $after) = @$refusal;

	$my->sql(q{USE d; DELETE FROM plain WHERE id > 5999 AND id < 6999; DELETE FROM other WHERE id > 5999 AND id < 6999; UPDATE plain SET c = 1 WHERE c IS NULL});
	sync_pipeline($db{$_}, $_) for sort keys %db;
	stop_both();
	for_both($before);
	$my->sql(q{USE d; INSERT INTO plain (id, u, c) VALUES (6001, 6001, 1); INSERT INTO other (id, u) VALUES (6001, 6001); INSERT INTO plain (id, u, c) VALUES (6002, 6002, 1)});
	my $applied = $my->gtid_executed;
	$my->sql($what eq 'not null' ? q{USE d; INSERT INTO plain (id, u, c) VALUES (6004, 6004, 1), (6003, 6003, NULL)} : q{USE d; INSERT INTO plain (id, u, c) VALUES (6004, 6004, 1), (6003, 6003, 6003)});
	(my $last = $my->gtid_executed) =~ s/.*[-:](\d+)$/$1/;
	$my->sql(q{USE d; INSERT INTO other (id, u) VALUES (6005, 6005); INSERT INTO plain (id, u, c) VALUES (6006, 6006, 1)});
	start_both();
	@halts = map { halted_by($db{$_}, $_) } sort keys %db;
	for my $i (0, 1)
	{
		my $name = (sort keys %db)[$i];

		is($halts[$i]{source_table}, 'd.plain', "$what: $name: the halt names the table");
		like($halts[$i]{gtid}, qr/:$last$/, "$what: $name: ... and the transaction");
		is($db{$name}->value("SELECT applied::text FROM capstan.pipeline_progress"), $applied, "$what: $name: what came before it is applied");
		is($db{$name}->value('SELECT count(*) FROM d.plain WHERE id BETWEEN 6003 AND 6999') . $db{$name}->value('SELECT count(*) FROM d.other WHERE id = 6005'), '00', "$what: $name: and nothing of it or after it");
	}
	is("$halts[0]{class} $halts[0]{sqlstate} $halts[0]{message}", "$halts[1]{class} $halts[1]{sqlstate} $halts[1]{message}", "$what: the halts are alike");
	for_both($after);
	start_both();
	for my $name (sort keys %db)
	{
		sync_pipeline($db{$name}, $name);
		tables_equal($my, $db{$name}, [ 'd.*' ], "$what: $name: afterwards");
	}
}

# The schema of targets gets another name, and a new one its old name: rows go where they went before.
$my->sql('USE e; UPDATE computed SET v = v + 1; UPDATE wider SET v = v + 1');
sync_pipeline($db{$_}, $_) for sort keys %db;
for_both('ALTER SCHEMA e RENAME TO e_before; CREATE SCHEMA e; CREATE TABLE e.computed (id integer PRIMARY KEY, v integer); CREATE TABLE e.wider (LIKE e.computed INCLUDING ALL)');
$my->sql('USE e; INSERT INTO computed VALUES (400, 1), (401, 1); UPDATE computed SET v = 5 WHERE id = 400; INSERT INTO wider VALUES (400, 6); DELETE FROM computed WHERE id = 401');
sync_pipeline($db{$_}, $_) for sort keys %db;
is($_->value(q{SELECT (SELECT count(*) FROM e.computed) + (SELECT count(*) FROM e.wider) || ' ' || (SELECT sum(v) FROM e_before.computed WHERE id >= 400) || (SELECT v FROM e_before.wider WHERE id = 400)}),
	'0 56', "$_->{database}: a schema that was renamed") for values %db;

done_testing();
