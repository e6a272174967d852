# Row images that lack columns, or have differences to JSON documents, for rows that are not copied yet.
#
# Why: such a change cannot put the row; whether it may be dropped depends on who brings the row, and what it becomes on who has put
# it there already.
# How: a transaction of the source keeps its tables from being locked, so that the stream goes on before anything is copied: changes
# under MINIMAL and PARTIAL_JSON of rows that are not on the target, and of rows that whole images have put there. Then the copy, which compares
# the rows it meets bit by bit. Keys that change meanwhile; and, in a table of which a range is copied (the catalog is put into that
# state by hand), keys that move into that range and out of it.
# Asserted: dropped where the copy brings the row, applied where it is there, contents and documents equal at the end; a key that changes without the
# rest of the row halts with partial_row_image, and nothing is put.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->sql(<<'SQL');
CREATE DATABASE q;
USE q;
CREATE TABLE named (id VARCHAR(20) PRIMARY KEY, j JSON, n INT, t TEXT);
CREATE TABLE ordered LIKE named;
ALTER TABLE ordered MODIFY id INT;
INSERT INTO ordered WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300)
  SELECT n, JSON_OBJECT('a', 1.0, 'list', JSON_ARRAY(1, 2.50, 3), 'pad', REPEAT('x', 200)), n, 'text' FROM s;
INSERT INTO named SELECT CONCAT('n', id), j, n, t FROM ordered WHERE id <= 20;
SQL
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

my $minimal = 'USE q; SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON; ';

sub sleepers { return scalar(my @rows = $my->query("SELECT id FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'")) }

# Nobody can lock the tables before this ends.
sub hold
{
	my $holder = $my->background("USE q; START TRANSACTION; INSERT INTO named (id) VALUES ('held'); INSERT INTO ordered (id) VALUES (9999); DO SLEEP(600)");
	ok(CapstanTest::poll_until(sub { sleepers() == 1 }), 'a transaction keeps the tables from being locked');
	return $holder;
}

sub release
{
	my ($holder) = @_;
	$my->sql(join ';', map { "KILL $_->[0]" } $my->query("SELECT id FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'"));
	$holder->wait;
}

my $holder = hold();
start_pipeline($pg, 'q', [ 'q.named', 'q.ordered' ], timeout => '');
ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'snapshot'), 'streaming, nothing copied');
for my $table (qw(named ordered))
{
	my $key = $table eq 'named' ? "CONCAT('n', %d)" : '%d';
	my ($one, $two, $three, $four) = map { sprintf $key, $_ } 1 .. 4;

	$my->sql("$minimal
		UPDATE $table SET n = 100, j = JSON_SET(j, '\$.a', 'dropped') WHERE id = $one;
		DELETE FROM $table WHERE id = $four;
		SET binlog_row_image = FULL;
		UPDATE $table SET j = JSON_SET(j, '\$.a', 2.0) WHERE id = $two;
		SET binlog_row_image = MINIMAL;
		UPDATE $table SET j = JSON_SET(j, '\$.list[1]', 1e2, '\$.new', CAST('1.10' AS DECIMAL(5,2))) WHERE id = $two;
		UPDATE $table SET t = 'changed' WHERE id = $two;
		INSERT INTO $table (id, j) SELECT " . sprintf($key, 1000) . ", j FROM $table WHERE id = $three;
		UPDATE $table SET j = JSON_REMOVE(j, '\$.list[last]') WHERE id = " . sprintf($key, 1000) . ";
		UPDATE $table SET id = " . sprintf($key, 1001) . ", j = JSON_SET(j, '\$.moved', TRUE) WHERE id = " . sprintf($key, 1000));
}
sync_pipeline($pg, 'q');
is($pg->safe_psql("SELECT id, j - 'pad', n, t FROM q.named ORDER BY id"),
	qq(n1001|{"a": 1.0, "list": [1, 2.50], "moved": true}||\nn2|{"a": 2.0, "new": 1.10, "list": [1, 100.0, 3]}|2|changed), 'text keys: rows that came whole, with what came after');
is($pg->value('SELECT count(*) FROM q.ordered'), 0, 'ordered keys: all is left to the copy');
is($pg->value("SELECT bool_and(state IN ('pending', 'copying') AND rows_copied = 0) FROM capstan.table_status"), 't', 'nothing was copied');
release($holder);
$pg->safe_psql("SELECT capstan.wait_for_snapshot('q', timeout => '180 s')");
sync_pipeline($pg, 'q');
tables_equal($my, $pg, ['q.*'], 'after the copy');
no_surprise($pg, 'q');
drop_pipeline($pg, 'q');

# A key that changes, while its range may be copied or not: nobody can tell who brings the row.
$holder = hold();
start_pipeline($pg, 'q', [ 'q.named', 'q.ordered' ], timeout => '', truncate_target => 'true');
ok($pg->poll_query_until('SELECT state FROM capstan.pipeline_status', 'snapshot'), 'streaming, nothing copied');
$my->sql("$minimal UPDATE ordered SET id = 2000 WHERE id = 5; SET binlog_row_image = FULL; UPDATE named SET id = 'n2000' WHERE id = 'n5'");
sync_pipeline($pg, 'q');
is($pg->value('SELECT string_agg(id, chr(32)) FROM q.named'), 'n2000', 'under a whole image it goes');
$my->sql("$minimal UPDATE named SET id = 'n2001', j = JSON_SET(j, '\$.a', 3) WHERE id = 'n6'");
expect_halt($pg, 'q', 'partial_row_image', qr/key of a row that is not copied yet was changed/, qr/q\.named/, qr/binlog_row_image = FULL/);
is($pg->value('SELECT string_agg(id, chr(32)) FROM q.named'), 'n2000', 'and nothing was put');
release($holder);
drop_pipeline($pg, 'q');

# Ordered keys, of which those from 101 to 200 are copied.
$pg->safe_psql("TRUNCATE q.named, q.ordered; SELECT capstan.create_pipeline('q', server => 'source', tables => '{q.ordered}')");
(my $executed = $my->sql('SELECT @@GLOBAL.gtid_executed')) =~ s/\\n|\s//g;
my @rows = $my->query('SELECT id, j, n, t FROM q.ordered WHERE id BETWEEN 101 AND 200');
$pg->safe_psql(join "\n", (map { "INSERT INTO q.ordered VALUES ($_->[0], '$_->[1]', $_->[2], '$_->[3]');" } @rows), <<"SQL");
INSERT INTO capstan.pipeline_progress (pipeline_id, applied) SELECT id, '$executed' FROM capstan.pipeline;
UPDATE capstan.pipeline_table SET state = 'copying';
INSERT INTO capstan.snapshot_round SELECT id, 1, '$executed' FROM capstan.pipeline;
INSERT INTO capstan.copied_range (table_id, generation, seq, low, high, round, worker, gtid_set, rows)
  SELECT t.id, 1, r.seq, r.low, r.high, 1, 0, r.set::capstan.gtid_set, r.n FROM capstan.pipeline_table t,
  (VALUES (1, NULL::bytea[], ARRAY['100'::bytea], NULL, 0), (2, ARRAY['100'::bytea], ARRAY['200'::bytea], '$executed', 100),
    (3, ARRAY['200'::bytea], NULL, NULL, 0)) AS r (seq, low, high, set, n);
SQL
$holder = hold();
$my->sql("$minimal
	UPDATE ordered SET j = JSON_SET(j, '\$.a', 'in') WHERE id = 110;
	UPDATE ordered SET j = JSON_SET(j, '\$.a', 'out') WHERE id = 210;
	UPDATE ordered SET id = 3000, j = JSON_SET(j, '\$.a', 'left') WHERE id = 120;
	SET binlog_row_image = FULL;
	UPDATE ordered SET id = 120, j = JSON_SET(j, '\$.b', 'entered') WHERE id = 220");
$pg->safe_psql("SELECT capstan.start_pipeline('q')");
sync_pipeline($pg, 'q');
is($pg->value(q(SELECT string_agg(concat(id, j->'a', j->'b'), ' ' ORDER BY id) FROM q.ordered WHERE id < 101 OR id > 200 OR id IN (110, 120, 121))), '110"in" 1201.0"entered" 1211.0',
	'ordered keys: changes within, out of and, whole, into what is copied');
$my->sql("$minimal UPDATE ordered SET id = 3002 WHERE id = 130; UPDATE ordered SET id = 130, j = JSON_SET(j, '\$.a', 5) WHERE id = 230");
expect_halt($pg, 'q', 'partial_row_image', qr/key moved into the part of the table that is copied already/, qr/q\.ordered/);
is($pg->value('SELECT count(*) FROM q.ordered WHERE id IN (130, 230, 3002)'), 0, 'and nothing was put');
release($holder);
drop_pipeline($pg, 'q');

done_testing();
