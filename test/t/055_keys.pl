# Any key: tables of every kind of key are copied in many small ranges under writers that move
# keys, and are equal to the source.
#
# Why: this is where snapshots go wrong: a key that sorts in another way on the two sides, two keys
# that are one for the source's collation, a row that moves over the edge of a range, unique
# values handed from row to row. It tests the rule for any key (nothing is suppressed) and
# the gate for ordered keys (what lies outside the copied ranges is).
# How: one table for each kind, ranges of some 100 rows; writers that prefer the table
# that is being copied and the one that comes next, and insert, update, delete, REPLACE, change keys, change only their
# case or padding, and hand over unique values. Thrice: left alone; as
# small tables of one range each; with more copy workers, and workers and server killed and the
# pipeline stopped and started meanwhile.
# Asserted: contents are equal, every pageable table took several rounds, no row was a surprise,
# nothing halted.
# Not asserted: speed.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $ROWS = 1000;
my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.range_time' => "'10ms'", 'capstan.max_range_rows' => 70 });

# Random texts that are close to each other for a collation.
my $text = q{CONCAT(ELT(1 + FLOOR(RAND() * 10), 'a', 'A', 'ä', 'ß', 'Z', ' ', 'é', 'ss', '', 'aa'), IF(RAND() < 0.9, FLOOR(RAND() * 2000), ''), ELT(1 + FLOOR(RAND() * 5), '', ' ', 'x', 'X', 'É'))};
my $other_text = q{ELT(1 + FLOOR(RAND() * 4), UPPER(k), LOWER(k), CONCAT(RTRIM(k), ' '), RTRIM(k))};
my $bytes = q{LEFT(UNHEX(SHA2(RAND(), 256)), FLOOR(RAND() * 5))};
sub number { my ($low, $high) = @_; return "CAST($low + FLOOR(RAND() * ($high - $low)) AS SIGNED)" }

# name => [ columns of the key, PRIMARY KEY clause or '', values of the columns, keys that must be there, another way to change k ]
my %kinds = (
	tinyints => [ 'a TINYINT, b TINYINT UNSIGNED', '(a, b)', [ number(-128, 128), number(0, 256) ], [ '-128, 0', '127, 255', '-1, 128', '0, 127' ] ],
	smallints => [ 'a SMALLINT', '(a)', [ number(-32768, 32768) ], [ -32768, 32767, 0 ] ],
	usmallints => [ 'a SMALLINT UNSIGNED', '(a)', [ number(0, 65536) ], [ 0, 65535, 32768 ] ],
	mediumints => [ 'a MEDIUMINT', '(a)', [ number(-8388608, 8388608) ], [ -8388608, 8388607 ] ],
	umediumints => [ 'a MEDIUMINT UNSIGNED', '(a)', [ number(0, 16777216) ], [ 0, 16777215 ] ],
	ints => [ 'a INT', '(a)', [ number(-5000, 5000) ], [ -2147483648, 2147483647, 0 ] ],
	uints => [ 'a INT UNSIGNED', '(a)', [ number(2147482000, 2147486000) ], [ 0, 4294967295 ] ],
	bigints => [ 'a BIGINT', '(a)', [ number('-4600000000000000000', '4600000000000000000') ], [ '-9223372036854775808', '9223372036854775807' ] ],
	ubigints => [ 'a BIGINT UNSIGNED', '(a)', [ '9223372036854773808 + CAST(FLOOR(RAND() * 4000) AS UNSIGNED)' ], [ 0, '18446744073709551615', '18446744073709551614' ] ],
	descending => [ 'a INT, b INT', '(a DESC, b)', [ number(-30, 30), number(-100, 100) ], [ '-2147483648, 1', '2147483647, 1' ] ],
	decimals => [ 'a DECIMAL(20,5)', '(a)', [ 'CAST((RAND() - 0.5) * 2000 AS DECIMAL(20,5))' ], [ '-999999999999999.99999', '999999999999999.99999', 0 ] ],
	longdecimals => [ 'a DECIMAL(65,30)', '(a)', [ 'CAST(CONCAT(FLOOR((RAND() - 0.5) * 1000), ".", FLOOR(RAND() * 1e15)) AS DECIMAL(65,30))' ], [ '0.000000000000000000000000000001', '-0.000000000000000000000000000001' ] ],
	dates => [ 'a DATE', '(a)', [ "'1000-01-01' + INTERVAL FLOOR(RAND() * 3200000) DAY" ], [ "'0001-01-01'", "'9999-12-31'", "'1969-12-31'" ] ],
	datetimes => [ 'a DATETIME(6)', '(a)', [ "TIMESTAMPADD(MICROSECOND, FLOOR(RAND() * 1000000), '1900-01-01' + INTERVAL FLOOR(RAND() * 4000) DAY)" ], [ "'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00'" ] ],
	timestamps => [ 'a TIMESTAMP(6)', '(a)', [ 'FROM_UNIXTIME(ROUND(1 + RAND() * 2000000000, 6))' ], [ "'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'" ] ],
	wholetimestamps => [ 'a TIMESTAMP', '(a)', [ 'FROM_UNIXTIME(FLOOR(1 + RAND() * 4000))' ], [ "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'" ] ],
	times => [ 'a TIME(6)', '(a)', [ 'SEC_TO_TIME(ROUND((RAND() - 0.5) * 6000000, 6))' ], [ "'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'00:00:00'" ] ],
	years => [ 'a YEAR, b SMALLINT', '(a, b)', [ number(1901, 2156), number(-20, 20) ], [ '0000, 1', '2155, 1' ] ],
	binaries => [ 'a BINARY(4)', '(a)', [ $bytes ], [ "x''", "x'ffffffff'", "x'ff'", "x'00000001'", "x'01000000'", "x'20'" ] ],
	longbinaries => [ 'a BINARY(32)', '(a)', [ 'UNHEX(SHA2(RAND(), 256))' ], [ "x''" ] ],
	varbinaries => [ 'a VARBINARY(8)', '(a)', [ $bytes ], [ "x''", "x'00'", "x'0000'", "x'000000'", "x'ff'", "x'ff00'", "x'20'", "x'2020'" ] ],
	chars_ai => [ 'k CHAR(12) COLLATE utf8mb4_0900_ai_ci', '(k)', [ $text ], [ "''", "'aaaa'", "'BBBB'", "'0000'" ], $other_text ],
	chars_general => [ 'k CHAR(12) COLLATE utf8mb4_general_ci', '(k)', [ $text ], [ "''", "'aaaa'", "'BBBB'", "'cccc'", "'Zzzz'", "'0000'" ], $other_text ],
	chars_bin => [ 'k CHAR(12) COLLATE utf8mb4_bin', '(k)', [ $text ], [ "''", "'😀'" ], $other_text ],
	chars_latin1 => [ 'k CHAR(12) CHARACTER SET latin1', '(k)', [ $text ], [ "''", "'€'" ], $other_text ],
	varchars_ai => [ 'k VARCHAR(40) COLLATE utf8mb4_0900_ai_ci', '(k)', [ $text ], [ "''", "' '", "'😀'" ], $other_text ],
	varchars_as => [ 'k VARCHAR(40) COLLATE utf8mb4_0900_as_cs', '(k)', [ $text ], [ "''", "' '" ], $other_text ],
	varchars_bin0900 => [ 'k VARCHAR(40) COLLATE utf8mb4_0900_bin', '(k)', [ $text ], [ "''", "' '" ], $other_text ],
	varchars_general => [ 'k VARCHAR(40) COLLATE utf8mb4_general_ci', '(k)', [ $text ], [ "''", "'😀'" ], $other_text ],
	varchars_mb3 => [ 'k VARCHAR(40) COLLATE utf8mb3_general_ci', '(k)', [ $text ], [ "''" ], $other_text ],
	varchars_latin1 => [ 'k VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci', '(k)', [ $text ], [ "''", "'Å'" ], $other_text ],
	varchars_ascii => [ 'k VARCHAR(64) CHARACTER SET ascii', '(k)', [ 'SHA2(RAND(), 256)' ], [ "''" ], $other_text ],
	bits => [ 'a BIT(20)', '(a)', [ number(0, 1048576) ], [ 0, 1048575 ] ],
	longbits => [ 'a BIT(64)', '(a)', [ '9223372036854773808 + CAST(FLOOR(RAND() * 4000) AS UNSIGNED)' ], [ 0, '18446744073709551615' ] ],
	mixed_text => [ 'k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, b INT, c DATE', '(k, b, c)', [ "ELT(1 + FLOOR(RAND() * 6), 'a', 'Á', 'b', '', 'é ', 'z')", number(-3, 3), "'2020-01-01' + INTERVAL FLOOR(RAND() * 100) DAY" ], [ "'', 0, '0001-01-01'" ], $other_text ],
	mixed_binary => [ 'a BINARY(3), b DECIMAL(6,2), c TIME', '(a, b, c)', [ 'LEFT(UNHEX(SHA2(RAND(), 256)), 1)', 'ROUND((RAND() - 0.5) * 10, 1)', 'SEC_TO_TIME(FLOOR((RAND() - 0.5) * 10))' ], [ "x'', -9999.99, '-838:59:59'" ] ],
	mixed_order => [ 'c INT, b BIGINT UNSIGNED, k VARCHAR(20) COLLATE utf8mb4_general_ci, a DATETIME', '(b, k, a)', [ number(0, 9), 'ELT(1 + FLOOR(RAND() * 3), 0, 9223372036854775808, 18446744073709551615)', "ELT(1 + FLOOR(RAND() * 4), 'a', 'A', 'ä', 'b')", "'2020-01-01' + INTERVAL FLOOR(RAND() * 500) HOUR" ], [], $other_text ],
	unique_key => [ 'a INT UNSIGNED NOT NULL UNIQUE', '', [ number(0, 60000) ], [ 0, 4294967295 ] ],
	invisible_key => [ 'a INT', '', [ number(0, 60000) ], [] ],
	# in one piece
	enums => [ "a ENUM('z','y','x','w','b','a'), b INT", '(a, b)', [ "ELT(1 + FLOOR(RAND() * 6), 'z', 'y', 'x', 'w', 'b', 'a')", number(0, 1000) ], [ "'z', -1" ] ],
	sets => [ "a SET('z','b','a'), b INT", '(a, b)', [ "ELT(1 + FLOOR(RAND() * 5), '', 'z', 'a,b', 'a', 'z,a,b')", number(0, 1000) ], [ "'', -1" ] ],
	doubles => [ 'a DOUBLE', '(a)', [ '(RAND() - 0.5) * 1000' ], [ '1.7976931348623157e308', '5e-324', '0.1' ] ],
	prefixes => [ 'k TEXT', '(k(20))', [ $text ], [ "''", "'a'" ], $other_text ]);
my %whole = map { $_ => 1 } qw(enums sets doubles prefixes);
my @names = sort keys %kinds;

# Tables, and a procedure for each that does one of the changes.
my $sql = "SET \@seed = $CapstanTest::SEED;\n" . <<'SQL';
SET SESSION sql_mode = '', time_zone = '+00:00', sql_generate_invisible_primary_key = ON, rand_seed1 = @seed, rand_seed2 = 55;
CREATE DATABASE k;
USE k;
CREATE TABLE seq (my_row_id INT PRIMARY KEY);
INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s;
INSERT INTO seq SELECT my_row_id + 1000 FROM seq;
CREATE TABLE control (id INT PRIMARY KEY, go INT, current INT);
INSERT INTO control VALUES (1, 1, NULL);
DELIMITER //
SQL
for my $name (@names)
{
	my ($columns, $key, $values, $fixed, $other) = @{ $kinds{$name} };
	my $list = join ', ', $columns =~ /(?:^|, )([a-ck]) /g;
	my $random = join ', ', @$values;
	my @list = split /, /, $list;
	my $assign = join ', ', map { "$list[$_] = $values->[$_]" } 0 .. $#list;
	$other = defined $other ? "k = $other" : $assign;

	$sql .= "CREATE TABLE $name ($columns, n INT, u INT UNIQUE, v INT, pad VARCHAR(40), KEY (n)" . ($key ? ", PRIMARY KEY $key" : '') . ") CHARSET utf8mb4 //\n";
	$sql .= "INSERT IGNORE INTO $name ($list, n) VALUES ($_, 0) //\n" for @$fixed;
	$sql .= "INSERT IGNORE INTO $name ($list, n, u, v, pad) SELECT $random, my_row_id, my_row_id, 0, REPEAT('x', my_row_id % 40) FROM seq WHERE my_row_id <= $ROWS //\nANALYZE TABLE $name //\n";
	$sql .= <<"SQL";
CREATE PROCEDURE step_$name()
BEGIN
  DECLARE x, y INT;
  SET x = FLOOR(RAND() * $ROWS * 1.2), y = FLOOR(RAND() * $ROWS * 1.2);
  CASE FLOOR(RAND() * 9)
  WHEN 0 THEN INSERT IGNORE INTO $name ($list, n, v) VALUES ($random, x, 1);
  WHEN 1 THEN INSERT IGNORE INTO $name ($list, n, v) VALUES ($random, x, 1), ($random, y, 2);
  WHEN 2 THEN UPDATE IGNORE $name SET $assign WHERE n = x;
  WHEN 3 THEN UPDATE IGNORE $name SET $assign, v = v + 1 WHERE n IN (x, y);
  WHEN 4 THEN UPDATE $name SET v = v + 1 WHERE n IN (x, y);
  WHEN 5 THEN DELETE FROM $name WHERE n = x;
  WHEN 6 THEN UPDATE $name SET u = NULL WHERE n = x; UPDATE IGNORE $name SET u = x WHERE n = y;
  WHEN 7 THEN REPLACE INTO $name ($list, n, u, v) VALUES ($random, x, IF(RAND() < 0.5, y, NULL), 3);
  ELSE UPDATE IGNORE $name SET $other WHERE n = x;
  END CASE;
END //
SQL
}
$sql .= "CREATE PROCEDURE step(t INT)\nCASE t\n" . join('', map { "WHEN $_ THEN CALL step_$names[$_]();\n" } 0 .. $#names) . "END CASE //\n";
$sql .= <<"SQL";
CREATE PROCEDURE churn()
BEGIN
  DECLARE t INT;
  DECLARE CONTINUE HANDLER FOR 1213, 1205 ROLLBACK;
  WHILE (SELECT go FROM control) DO
    SET t = (SELECT current FROM control);
    IF t IS NULL OR RAND() < 0.1 THEN SET t = FLOOR(RAND() * ${\ scalar @names});
    ELSEIF RAND() < 0.3 THEN SET t = LEAST(t + 1, $#names); END IF;
    START TRANSACTION;
    CALL step(t);
    IF RAND() < 0.5 THEN CALL step(t); CALL step(t); END IF;
    IF RAND() < 0.1 THEN CALL step(FLOOR(RAND() * ${\ scalar @names})); END IF;
    COMMIT;
  END WHILE;
END //
SQL
$my->sql($sql);
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

my %number = map { $names[$_] => $_ } 0 .. $#names;

# One snapshot under load; $strike->($seconds) is called again and again until it is complete, which it is not before that has returned true:
# the last table cannot be locked until then.
sub snapshot
{
	my ($what, $names, $strike) = @_;
	my $holder = $strike ? $my->background("START TRANSACTION; INSERT IGNORE INTO k.$names->[-1] (k, n, v) VALUES ('held', 99999, 1); DO SLEEP(600)") : undef;
	my @tables = map { "k.$_" } @$names;
	my $start = time();
	my @writers;

	$my->wait_executing('DO SLEEP(600)') if $holder;
	$my->sql('UPDATE k.control SET go = 1, current = NULL');
	push @writers, $my->background("SET SESSION sql_mode = '', time_zone = '+00:00'; CALL k.churn()") for 1 .. 2;
	start_pipeline($pg, 'keys', \@tables, truncate_target => 'true', timeout => '');
	my $done = poll_until {
		# A server that has just been killed does not answer.
		my ($rc, $table) = $pg->psql(q{SELECT (SELECT source_table FROM capstan.table_status WHERE state <> 'streaming' ORDER BY state, source_table LIMIT 1)
			FROM capstan.pipeline_status WHERE state <> 'halted'});
		chomp $table;
		return 0 if $rc != 0;
		return 1 if $table eq '';
		$my->sql("UPDATE k.control SET current = $number{$table}");
		if ($holder && $strike->(time() - $start))
		{
			$my->kill_executing('DO SLEEP(600)');
			$holder->wait;
			undef $holder;
		}
		return 0;
	} 600;
	ok($done, "$what: the snapshot completes");
	is($pg->value("SELECT count(*) FROM capstan.table_status WHERE state = 'streaming'"), scalar(@tables), "$what: all tables are copied")
	  or diag($pg->safe_psql('SELECT class, message, detail, gtid, source_table FROM capstan.incident'));
	$my->sql('UPDATE k.control SET go = 0');
	my @failed = grep { $_->wait != 0 } @writers;
	is(scalar(@failed), 0, "$what: the writers wrote until the end") or diag(map { $_->errors } @failed);
	sync_pipeline($pg, 'keys');
	tables_equal($my, $pg, \@tables, $what);
	is($pg->value("SELECT string_agg(format('%s: %s missing, %s existing', source_table, rows_missing, rows_existing), ', ') FROM capstan.table_status WHERE rows_missing + rows_existing > 0"),
		undef, "$what: no row was a surprise");
	is($pg->incidents("severity = 'halt'"), '', "$what: nothing halted");
	diag($pg->safe_psql("SELECT source_table, lock_count, lock_tries, lock_wait_worst, lock_wait_total, lock_hold_worst, copy_finished_at - copy_started_at FROM capstan.table_status")) if $ENV{CAPSTAN_VERBOSE};
	diag(sprintf('%s: %.0f s, %s locks, %s streamed changes, %s ranges', $what, time() - $start,
			map { $pg->value($_) } 'SELECT sum(lock_count) FROM capstan.table_status',
			'SELECT sum(rows_inserted + rows_updated + rows_deleted) FROM capstan.table_status', 'SELECT max(round) FROM capstan.copied_range'));
}

snapshot('left alone', \@names);
my @once = map { $_->[0] } $pg->query("SELECT source_table FROM capstan.table_status WHERE lock_count < 4 ORDER BY 1");
is("@once", join(' ', sort keys %whole), 'all others took several rounds');
is($pg->value("SELECT string_agg(source_table, ' ' ORDER BY source_table) FROM capstan.pipeline_table WHERE NOT key_pageable"), join(' ', sort keys %whole), 'tables in one piece');
drop_pipeline($pg, 'keys');

# As what they are, small tables: each in one range.
$pg->append_conf('capstan.max_range_rows = 100000');
$pg->reload;
snapshot('small', \@names);
is($pg->value('SELECT count(*) FROM capstan.copied_range'), scalar(@names), 'each was copied as one range');
drop_pipeline($pg, 'keys');

# The same again with some of each sort, and with everything that may break a snapshot off.
my ($struck, $next) = (0, 1);
$pg->append_conf('capstan.max_range_rows = 60', 'capstan.copy_workers = 4');
$pg->reload;
snapshot('struck', [ qw(bigints bits chars_ai datetimes enums invisible_key mixed_order mixed_text tinyints unique_key varbinaries varchars_general) ], sub {
	my ($seconds) = @_;

	return 1 if $struck >= 6;
	return 0 if $seconds < $next;
	my $kind = $struck++ % 4;
	my @workers = $pg->worker_pids(qr/capstan (?:pipeline|copy)/);
	if ($kind == 0) { kill('TERM', $workers[ rand @workers ]) if @workers }
	elsif ($kind == 1) { kill('KILL', $workers[ rand @workers ]) if @workers }
	elsif ($kind == 2)
	{
		# The server may only now begin to restart after the kill before.
		for my $call ('stop_pipeline', 'start_pipeline')
		{
			poll_until { ($pg->psql("SELECT capstan.$call('keys')"))[0] == 0 };
		}
	}
	else { $pg->restart('immediate') }
	$next = $seconds + 1;
	return 0;
});
is($struck, 6, 'it was struck several times');

done_testing();
