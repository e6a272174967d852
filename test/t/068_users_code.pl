# Code of the target's users, in constraints, domains and triggers of partitions, runs as the owner of the table, sees what came before, and ends nothing for ever.
#
# Why: a constraint may call a function of the table's owner, which must not act with the rights of the pipeline's owner, a superuser mostly;
# it may look at another table, whose rows are gathered; and a trigger of a partition makes nothing of a row where we know of the partitioned table's alone.
# How: domains and CHECK constraints with a function that notes who runs it: rows copied in batches, copied one by one, streamed by INSERT and UPDATE, with full and
# partial images. A CHECK, an index and a domain that look at another table, written by the same source transaction. Partitions with a trigger that returns NULL. A unique
# index, and row security, that are not what they seem.
# Asserted: the owner ran all of it; the same rows as the source's, but for what triggers suppress; a preflight that refuses; one row changed thousands of times in
# a transaction is not looked for in the index each time, and a transaction that inserts rows and updates them does not keep memory for each.
# Not asserted: that other triggers of the target fire (061).

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
my $pg = CapstanTest::Postgres->start;

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# ---- who runs it

$my->sql(q{CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES (1, 1, 1);
	CREATE TABLE k (id VARCHAR(10) PRIMARY KEY, v INT, w INT); INSERT INTO k VALUES ('a', 1, 1); CREATE TABLE keyless (id INT, v INT, w INT); INSERT INTO keyless VALUES (1, 1, 1)});
$pg->safe_psql(q{CREATE ROLE alice; CREATE SCHEMA d AUTHORIZATION alice; SET ROLE alice;
	CREATE TABLE d.seen (who text, what text); GRANT ALL ON d.seen TO PUBLIC;
	CREATE FUNCTION d.spy(what text, v int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO d.seen VALUES (current_user, what || ' ' || v); RETURN true; END $$;
	CREATE DOMAIN d.dom AS int CHECK (d.spy('domain', VALUE));
	CREATE TABLE d.t (id int PRIMARY KEY, v d.dom, w int CHECK (d.spy('check', w)));
	CREATE TABLE d.k (id varchar(10) COLLATE "C" PRIMARY KEY, v d.dom, w int CHECK (d.spy('check', w)));
	CREATE TABLE d.keyless (id int, v d.dom, w int CHECK (d.spy('check', w)))});
start_pipeline($pg, 'd', ['d.*']);
$my->sql(q{USE d; INSERT INTO t VALUES (2, 2, 2), (3, 3, 3); INSERT INTO k VALUES ('b', 2, 2); INSERT INTO keyless VALUES (2, 2, 2); UPDATE t SET v = 4, w = 4 WHERE id = 2; UPDATE k SET v = 5;
	SET SESSION binlog_row_image = 'MINIMAL'; UPDATE t SET v = 6 WHERE id = 3; INSERT INTO k (id, v) VALUES ('c', 7)});
sync_pipeline($pg, 'd');
tables_equal($my, $pg, ['d.*'], 'domains and constraints that call functions');
is($pg->value(q{SELECT string_agg(DISTINCT who, ',') FROM d.seen}), 'alice', 'their owner ran them');
for my $what ('domain 1', 'check 1', 'domain 2', 'check 2', 'domain 4', 'domain 5', 'domain 6', 'domain 7') { cmp_ok($pg->value("SELECT count(*) FROM d.seen WHERE what = '$what'"), '>', 0, "... $what") }
drop_pipeline($pg, 'd');

# ---- what it sees

$my->sql(q{CREATE DATABASE l; USE l; CREATE TABLE parent (id INT PRIMARY KEY, v INT); CREATE TABLE child (id INT PRIMARY KEY, p INT); CREATE TABLE ward LIKE child; CREATE TABLE indexed LIKE child});
$pg->safe_psql(q{CREATE SCHEMA l; CREATE TABLE l.parent (id int PRIMARY KEY, v int);
	CREATE FUNCTION l.there(int) RETURNS boolean LANGUAGE sql AS 'SELECT EXISTS (SELECT FROM l.parent WHERE id = $1)';
	CREATE FUNCTION l.there_stable(int) RETURNS boolean LANGUAGE plpgsql STABLE AS 'BEGIN RETURN EXISTS (SELECT FROM l.parent WHERE id = $1); END';
	CREATE FUNCTION l.v_of(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v FROM l.parent WHERE id = $1';
	CREATE TABLE l.child (id int PRIMARY KEY, p int CHECK (l.there(p)) CHECK (l.there_stable(p)));
	CREATE DOMAIN l.known AS int CHECK (l.there(VALUE)); CREATE TABLE l.ward (id int PRIMARY KEY, p l.known);
	CREATE TABLE l.indexed (id int PRIMARY KEY, p int); CREATE INDEX of_parent ON l.indexed (l.v_of(p))});
start_pipeline($pg, 'l', ['l.*']);
$my->sql(q{USE l; INSERT INTO parent VALUES (1, 10); START TRANSACTION; INSERT INTO child VALUES (1, 1); INSERT INTO ward VALUES (1, 1); INSERT INTO indexed VALUES (1, 1);
	INSERT INTO parent VALUES (2, 20), (3, 30); INSERT INTO child VALUES (2, 2); INSERT INTO ward VALUES (2, 2); INSERT INTO indexed VALUES (2, 2); UPDATE child SET p = 3 WHERE id = 1; UPDATE ward SET p = 3; COMMIT});
sync_pipeline($pg, 'l');
tables_equal($my, $pg, ['l.*'], 'constraints that look at another table');
is($pg->value('SET enable_seqscan = off; SELECT id FROM l.indexed WHERE l.v_of(p) = 20'), 2, 'and an index');
no_surprise($pg, 'l');
drop_pipeline($pg, 'l');

# ---- partitions whose triggers make nothing of a row

$my->sql('CREATE DATABASE p; USE p; CREATE TABLE p (id INT PRIMARY KEY, v INT); INSERT INTO p VALUES (1, 1); CREATE TABLE o (id INT PRIMARY KEY)');
$pg->safe_psql(q{CREATE SCHEMA p; CREATE TABLE p.p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
	CREATE TABLE p.low PARTITION OF p.p FOR VALUES FROM (0) TO (100); CREATE TABLE p.rest PARTITION OF p.p DEFAULT;
	CREATE FUNCTION p.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.v = 99 THEN RETURN NULL; END IF; RETURN NEW; END $$});
start_pipeline($pg, 'p', ['p.*']);
$pg->safe_psql('CREATE TRIGGER no BEFORE INSERT ON p.rest FOR EACH ROW EXECUTE FUNCTION p.no(); ALTER TABLE p.rest ENABLE ALWAYS TRIGGER no');
$my->sql('USE p; INSERT INTO o VALUES (1); INSERT INTO p VALUES (200, 99), (201, 1); UPDATE p SET v = v + 1; DELETE FROM p WHERE id = 1; INSERT INTO o VALUES (2)');
sync_pipeline($pg, 'p');
tables_equal($my, $pg, ['p.o'], 'a trigger of a partition suppresses a row');
is($pg->value(q{SELECT string_agg(id || ' ' || v, ', ' ORDER BY id) FROM p.p}), '200 100, 201 2', '... until an update brings one that it lets in');
drop_pipeline($pg, 'p');

# ---- refused

$my->sql('CREATE DATABASE r; USE r; CREATE TABLE secured (id INT PRIMARY KEY); CREATE TABLE loose (k VARCHAR(20) COLLATE utf8mb4_0900_bin PRIMARY KEY); CREATE TABLE pattern LIKE loose; CREATE TABLE label (e ENUM("a", "b") PRIMARY KEY)');
$pg->safe_psql(q{CREATE SCHEMA r AUTHORIZATION alice; SET ROLE alice; CREATE TABLE r.secured (id int PRIMARY KEY); ALTER TABLE r.secured ENABLE ROW LEVEL SECURITY; ALTER TABLE r.secured FORCE ROW LEVEL SECURITY;
	CREATE TABLE r.loose (k text COLLATE "C" NOT NULL); CREATE UNIQUE INDEX ON r.loose (k bpchar_ops);
	CREATE TABLE r.pattern (k varchar(20) NOT NULL); CREATE UNIQUE INDEX ON r.pattern (k text_pattern_ops); CREATE TYPE r.ab AS ENUM ('a', 'b'); CREATE TABLE r.label (e r.ab PRIMARY KEY)});
my $found = $pg->safe_psql(q{SELECT found FROM capstan.preflight('source', tables => '{r.*}') WHERE status = 'error' ORDER BY 1});
like($found, qr/Row security of table "secured" applies to its owner, too/, 'row security that is forced upon the owner');
like($found, qr/Index "loose_k_idx" has an operator class with another equality/, 'an index that takes other keys for equal');
unlike($found, qr/pattern|label/, 'not one that only sorts in another way, and not the key of an enum');

# ---- the same rows again and again in one transaction

$my->sql(q{CREATE DATABASE h; USE h; CREATE TABLE words (k VARCHAR(20) PRIMARY KEY, n INT); CREATE TABLE numbers (a INT, b INT, n INT, PRIMARY KEY (a, b)); CREATE TABLE many (id INT PRIMARY KEY, n INT);
	INSERT INTO words VALUES ('one', 0), ('two', 0), ('three', 0); INSERT INTO numbers VALUES (1, 1, 0), (1, 2, 0), (2, 1, 0)});
$my->sql(q{USE h;
DELIMITER //
CREATE PROCEDURE often(i INT) BEGIN START TRANSACTION; WHILE i > 0 DO UPDATE words SET n = n + i % 3; UPDATE numbers SET n = n + i % 2; SET i = i - 1; END WHILE; COMMIT; END
//
DELIMITER ;});
start_pipeline($pg, 'h', ['h.*']);
my $scans = q{SELECT sum(idx_scan) FROM pg_stat_user_tables WHERE schemaname = 'h' AND relname IN ('words', 'numbers')};
my $before = $pg->value($scans) // 0;
$my->sql('CALL h.often(2000)');
sync_pipeline($pg, 'h');
# statistics are told a second later
sleep(3);
my $after = $pg->value($scans) // 0;
tables_equal($my, $pg, ['h.*'], 'rows that are updated thousands of times');
cmp_ok($after - $before, '<', 1000, '... 12000 updates, and few looks into the index');
my $pid = ($pg->worker_pids(qr/capstan pipeline/))[0];
my $anonymous = sub { open(my $in, '<', "/proc/$pid/status") or die "$pid: $!"; return (grep { defined } map { /^RssAnon:\s+(\d+)/ ? $1 : undef } <$in>)[0] };
my $kb = $anonymous->();
my $most = $kb;
my $load = $my->background(q{USE h; SET cte_max_recursion_depth = 1000000; START TRANSACTION; INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) SELECT i, 0 FROM n; UPDATE many SET n = 1; COMMIT});
is($load->wait, 0, 'rows inserted and updated in one transaction') or diag($load->errors);
my $end = $my->gtid_executed;
poll_until { my $now = $anonymous->(); $most = $now if $now > $most; $pg->value('SELECT count(*) FROM h.many') > 0 };
$most = $anonymous->() if $anonymous->() > $most;
sync_pipeline($pg, 'h');
tables_equal($my, $pg, ['h.many'], '... and equal');
cmp_ok($most - $kb, '<', 8 * 1024, '... without memory for each of them');
no_surprise($pg, 'h');

done_testing();
