# binlog_row_metadata = MINIMAL: table maps without names, labels and key.
#
# Why: it is MySQL's default. What is missing is asked of the source's schema, which is that of now, while the
# log may speak of an earlier time: old rows read with new labels or names are silently wrong.
# How: tables of all sorts, under MINIMAL from the start; the setting changes to and fro while they are
# written to. Then, for each way in which a table can change without its table map telling: the pipeline is stopped, rows
# change, the table is altered, rows change again, the pipeline is started. The same while it runs, by statements that are not logged.
# Asserted: contents are equal under both settings. After an ALTER the pipeline halts, however often it is started, and the target has
# the rows as they were before it: with FULL up to the ALTER, with MINIMAL up to where it was stopped.
# Labels that cannot be known are refused, or halt. A table altered and altered back halts at the first ALTER.
# Not asserted: statements that are not logged and undone again before the stream has come to the rows between.

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
SET GLOBAL binlog_row_metadata = MINIMAL;
CREATE DATABASE m;
USE m;
CREATE TABLE labels (id INT PRIMARY KEY, a ENUM('é', 'b') CHARACTER SET latin1, b ENUM('я', 'é') CHARACTER SET utf16, c SET('中', 'x.y', 'z') CHARACTER SET gbk,
  d ENUM('B', 'A') CHARACTER SET utf8mb4, e SET('p', 'q') CHARACTER SET binary, f ENUM('it''s', 'a\\b'));
CREATE TABLE signs (a TINYINT UNSIGNED, b TINYINT, c SMALLINT UNSIGNED, d YEAR, e MEDIUMINT UNSIGNED, f INT, g INT UNSIGNED, h FLOAT UNSIGNED, i DECIMAL(10,2) UNSIGNED, j BIGINT,
  k BIGINT UNSIGNED, l DOUBLE, PRIMARY KEY (k, f));
CREATE TABLE texts (`a b` VARCHAR(20) CHARACTER SET latin1, `"` CHAR(5) CHARACTER SET utf8mb4, `ключ` TEXT CHARACTER SET cp1251, n INT, bin VARBINARY(5), bi BINARY(3), bl BLOB, p POINT,
  j JSON, x INT DEFAULT 1 INVISIBLE, g INT AS (n + 1) STORED, v INT AS (n + 2) VIRTUAL, PRIMARY KEY (n, `a b`));
CREATE TABLE keyless (e ENUM('b', 'a'), n INT UNSIGNED, t VARCHAR(10));
CREATE TABLE busy (id INT PRIMARY KEY, e ENUM('b', 'a', 'c'), s SET('y', 'x'), n INT UNSIGNED, t VARCHAR(20) CHARACTER SET latin1);
INSERT INTO busy WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100) SELECT n, 'a', 'x', n, 'é' FROM s;
DELIMITER //
CREATE PROCEDURE every(base INT)
BEGIN
  SET SESSION sql_mode = '';
  INSERT INTO labels VALUES (base, 'é', 'я', '中,x.y', 'A', 'p,q', 'it''s'), (base + 1, 'b', 'é', '', 'B', '', 'a\\b'), (base + 2, 'wrong', NULL, NULL, NULL, NULL, NULL);
  UPDATE labels SET a = 'b', b = 'é', d = 'B' WHERE id = base;
  INSERT INTO signs VALUES (255, -1, 65535, 2024, 16777215, base, 4294967295, 1.5, 99999999.99, -5, 18446744073709551615 - base, -0.0), (1, -128, 1, 0, 1, -base, 1, 0, 0, 9223372036854775807, base, 1);
  UPDATE signs SET a = 200, b = -100, e = 9000000, g = 3000000000 WHERE f = base;
  INSERT INTO texts (`a b`, `"`, `ключ`, n, bin, bi, bl, p, j) VALUES ('é', '😀', 'ж', base, x'00ff', x'01', x'ff00', POINT(1, 2), '{"a": 1.0}'), ('k', NULL, NULL, base, NULL, NULL, NULL, NULL, NULL);
  UPDATE texts SET `"` = 'x', `a b` = CONCAT(`a b`, '2'), x = 7 WHERE n = base;
  INSERT INTO keyless VALUES ('a', 4294967295, 'x'), ('a', 4294967295, 'x'), (NULL, base, NULL);
  UPDATE keyless SET e = 'b' WHERE n = 4294967295 LIMIT 1;
  DELETE FROM keyless WHERE n = base;
  DELETE FROM labels WHERE id = base + 1;
END //
CREATE PROCEDURE churn(rounds INT)
BEGIN
  DECLARE i, r INT DEFAULT 0;
  WHILE i < rounds DO
    SET r = 1 + FLOOR(RAND() * 100);
    UPDATE busy SET e = ELT(1 + FLOOR(RAND() * 3), 'a', 'b', 'c'), s = ELT(1 + FLOOR(RAND() * 3), 'x', 'x,y', ''), n = n + 3000000000 * (n < 1000) WHERE id = r;
    UPDATE busy SET n = n % 1000, t = CONCAT('é', i) WHERE id = r;
    SET i = i + 1;
  END WHILE;
END //
DELIMITER ;
CALL every(1000);
SQL
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

start_pipeline($pg, 'm', ['m.*']);
my $base = 2000;
for my $step ([ 'MINIMAL', 'MINIMAL' ], [ 'MINIMAL', 'FULL' ], [ 'FULL', 'FULL' ], [ 'FULL', 'MINIMAL' ], [ 'MINIMAL', 'NOBLOB' ])
{
	my ($metadata, $image) = @$step;
	$base += 10;
	$my->sql("SET GLOBAL binlog_row_metadata = $metadata");
	$my->sql("USE m; SET binlog_row_image = $image; CALL every($base)");
}
my $writer = $my->background('USE m; CALL churn(400)');
while ($writer->running)
{
	$my->sql('SET GLOBAL binlog_row_metadata = FULL; SELECT SLEEP(0.02); SET GLOBAL binlog_row_metadata = MINIMAL; SELECT SLEEP(0.02); FLUSH TABLES');
}
is($writer->wait, 0, 'writer') or diag($writer->errors);
sync_pipeline($pg, 'm');
tables_equal($my, $pg, ['m.*'], 'MINIMAL, FULL, and to and fro');
no_surprise($pg, 'm');
drop_pipeline($pg, 'm');

# Tables that change in ways that their table maps do not tell. e: the target's rows, and what they are after the change before the ALTER.
my @cases = (
	[ 'labels in another order', "(id INT PRIMARY KEY, e ENUM('one', 'two'), s SET('x', 'y'))", "(1, 'one', 'x'), (2, 'two', 'y')", "UPDATE # SET e = 'two', s = 'x,y' WHERE id = 1",
		"ALTER TABLE # MODIFY e ENUM('two', 'one'), MODIFY s SET('y', 'x')", '(1,one,x) (2,two,y)', '(1,two,"x,y") (2,two,y)' ],
	[ 'names that are swapped', '(id INT PRIMARY KEY, a INT, b INT)', '(1, 10, 20)', 'UPDATE # SET a = 11 WHERE id = 1',
		'ALTER TABLE # RENAME COLUMN a TO b, RENAME COLUMN b TO a', '(1,10,20)', '(1,11,20)' ],
	[ 'another key', '(id INT PRIMARY KEY, a INT NOT NULL, UNIQUE (a))', '(1, 2), (2, 1)', 'UPDATE # SET a = 3 WHERE id = 1',
		'ALTER TABLE # DROP PRIMARY KEY, ADD PRIMARY KEY (a)', '(1,2) (2,1)', '(1,3) (2,1)' ],
	[ 'labels in another character set', "(id INT PRIMARY KEY, e ENUM('é', 'ж') CHARACTER SET utf8mb4)", "(1, 'é')", "UPDATE # SET e = 'ж' WHERE id = 1",
		"ALTER TABLE # MODIFY e ENUM('ж', 'é') CHARACTER SET utf16", '(1,é)', '(1,ж)' ],
	[ 'a column that got a sign', '(id INT PRIMARY KEY, n INT UNSIGNED)', '(1, 4000000000)', 'UPDATE # SET n = 5 WHERE id = 1', 'ALTER TABLE # MODIFY n INT; UPDATE # SET n = -1',
		'(1,4000000000)', '(1,5)' ],
	[ 'another table in its place', "(id INT PRIMARY KEY, e ENUM('one', 'two'))", "(1, 'one')", "UPDATE # SET e = 'two'",
		"CREATE TABLE #_new (id INT PRIMARY KEY, e ENUM('two', 'one')); INSERT INTO #_new VALUES (1, 'one'); RENAME TABLE # TO #_old, #_new TO #", '(1,one)', '(1,two)' ]);

sub rows { return $pg->value("SELECT string_agg(t::text, ' ' ORDER BY t::text) FROM a.$_[0] t") }

$my->sql('CREATE DATABASE a');
my $number = 0;
for my $metadata (qw(MINIMAL FULL))
{
	my @tables;
	$my->sql("SET GLOBAL binlog_row_metadata = $metadata");
	for my $case (@cases)
	{
		my ($name, $columns, $rows, $change, $alter, $before, $after) = @$case;
		my $table = 't' . ++$number;

		$my->sql("CREATE TABLE a.$table $columns; INSERT INTO a.$table VALUES $rows");
		start_pipeline($pg, $table, ["a.$table"], timeout => '');
		push @tables, [ $table, $case ];
	}
	$pg->safe_psql(join ';', map { "SELECT capstan.wait_for_snapshot('$_->[0]', timeout => '180 s')" } @tables);
	is(rows($_->[0]), $_->[1][5], "$metadata, $_->[1][0]: copied") for @tables;
	$pg->safe_psql(join ';', map { "SELECT capstan.stop_pipeline('$_->[0]')" } @tables);
	for (@tables)
	{
		my ($table, $case) = @$_;
		my @statements = map { s/#/$table/gr } @$case[ 3, 4, 3 ];
		$my->sql('USE a; ' . join '; ', @statements);
	}
	for my $again (0 .. ($metadata eq 'MINIMAL'))
	{
		$pg->safe_psql(join ';', map { "SELECT capstan.start_pipeline('$_->[0]')" } @tables);
		for (@tables)
		{
			my ($table, $case) = @$_;
			my $text = "$metadata, $case->[0]" . ($again ? ', again' : '');
			my $incident = CapstanTest::BothWays::halted_by($pg, $table);

			is($incident ? $incident->{class} : 'none', $metadata eq 'MINIMAL' ? 'table_map_mismatch' : 'ddl_on_captured_table', "$text: halts");
			like($incident->{message} // '', qr/a\.$table/, "$text: says where");
			is(rows($table), $metadata eq 'MINIMAL' ? $case->[5] : $case->[6], "$text: the rows before it");
		}
	}
	drop_pipeline($pg, $_->[0]) for @tables;
}

# Altered and altered back: now the schema is the captured one, but not in between.
$my->sql("SET GLOBAL binlog_row_metadata = MINIMAL; CREATE TABLE a.back (id INT PRIMARY KEY, e ENUM('one', 'two')); INSERT INTO a.back VALUES (1, 'one')");
start_pipeline($pg, 'back', ['a.back']);
$pg->safe_psql("SELECT capstan.stop_pipeline('back')");
$my->sql(q{USE a; UPDATE back SET e = 'two'; ALTER TABLE back MODIFY e ENUM('two', 'one'); UPDATE back SET e = 'one'; ALTER TABLE back MODIFY e ENUM('one', 'two'); UPDATE back SET e = 'two'});
$pg->safe_psql("SELECT capstan.start_pipeline('back')");
expect_halt($pg, 'back', 'ddl_on_captured_table', qr/a\.back/, qr/ENUM\('two', 'one'\)/);
is(rows('back'), '(1,two)', 'with the row before it');
drop_pipeline($pg, 'back');

# Statements that the log does not have, while the pipeline runs.
for my $case (
	[ 'labels', "UPDATE a.unlogged SET e = 'two' WHERE id = 1", "ALTER TABLE a.unlogged MODIFY e ENUM('two', 'one')", "UPDATE a.unlogged SET e = 'one' WHERE id = 1", 'FULL', '(1,two,3)' ],
	[ 'a default, with whole images', 'INSERT INTO a.unlogged (id) VALUES (2)', 'ALTER TABLE a.unlogged ALTER n SET DEFAULT 4', 'INSERT INTO a.unlogged (id) VALUES (3)', 'FULL', '(1,one,3) (2,,3) (3,,4)' ],
	[ 'a default', 'INSERT INTO a.unlogged (id) VALUES (2)', 'ALTER TABLE a.unlogged ALTER n SET DEFAULT 4', 'INSERT INTO a.unlogged (id) VALUES (3)', 'MINIMAL', '(1,one,3) (2,,3)' ])
{
	my ($what, $before, $alter, $after, $image, $rows) = @$case;

	$my->sql("CREATE TABLE a.unlogged (id INT PRIMARY KEY, e ENUM('one', 'two'), n INT DEFAULT 3); INSERT INTO a.unlogged VALUES (1, 'one', 3)");
	start_pipeline($pg, 'unlogged', ['a.unlogged']);
	$my->sql("SET binlog_row_image = $image; $before");
	sync_pipeline($pg, 'unlogged');
	$my->sql("SET sql_log_bin = 0; $alter");
	$my->sql("SET binlog_row_image = $image; $after");
	if ($what =~ /whole/)
	{
		sync_pipeline($pg, 'unlogged');
	}
	else
	{
		expect_halt($pg, 'unlogged', 'table_map_mismatch', qr/a\.unlogged/, qr/SET PERSIST binlog_row/);
	}
	is(rows('unlogged'), $rows, "unlogged change of $what: nothing is wrong");
	drop_pipeline($pg, 'unlogged');
	$my->sql('DROP TABLE a.unlogged');
	$pg->safe_psql('DROP TABLE a.unlogged');
}

# Labels that the schema does not tell.
$my->sql(q{CREATE TABLE a.faces (id INT PRIMARY KEY, e ENUM('x', '😀', '😡') CHARACTER SET utf8mb4)});
my ($rc, $out, $err) = $pg->psql(q{SELECT capstan.create_pipeline('faces', server => 'source', tables => '{a.faces}')});
like($err, qr/labels a\.faces\.e: a label with "\?".*SET PERSIST binlog_row_metadata = 'FULL'/s, 'unknown labels are refused');
$my->sql(q{SET GLOBAL binlog_row_metadata = FULL; INSERT INTO a.faces VALUES (1, '😀')});
start_pipeline($pg, 'faces', ['a.faces']);
$my->sql(q{UPDATE a.faces SET e = '😡'});
sync_pipeline($pg, 'faces');
is(rows('faces'), '(1,😡)', 'and known from the log');
$my->sql(q{SET GLOBAL binlog_row_metadata = MINIMAL; UPDATE a.faces SET e = '😀'});
expect_halt($pg, 'faces', 'table_map_mismatch', qr/column e of a\.faces/, qr/binlog_row_metadata = 'FULL'/);
is(rows('faces'), '(1,😡)', 'as long as it tells them');

done_testing();
