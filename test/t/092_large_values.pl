# Values around and above a megabyte, which are moved into their tuples instead of being copied, arrive whole.
#
# Why: what is moved is given up at its old place while it is being written; read once more, or too late, it would be zero bytes.
# How: texts and binary values without a repetition, of lengths around the bound, around pages and around what is moved at once, several in a row, between NULLs and
# short columns; inserted alone and many in one statement, updated with and beside them, with another key, deleted and inserted again; where the target has the row
# already, or has not; compressed, and by row images without all columns. Into a plain table; into one with CHECK, an index over an expression and one over the length; into one with a
# trigger, a domain, and one without a key, where nothing is moved. Character sets and zero bytes that need the converter.
# Asserted: digests of all values on both sides; what was counted as a surprise.
# Not asserted: memory (063_memory.pl); copies, which move nothing.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--max-allowed-packet=256M', '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start;
my @tables = qw(plain checked triggered domains heap);
my $M = 1024 * 1024;

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
$my->sql('CREATE DATABASE d; USE d; SET group_concat_max_len = 100000000, cte_max_recursion_depth = 100000;
	CREATE TABLE base (n INT PRIMARY KEY, b LONGBLOB, t LONGTEXT CHARACTER SET utf8mb4);
	INSERT INTO base WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 49152) SELECT 1, GROUP_CONCAT(SHA2(i, 512) ORDER BY i SEPARATOR ""), NULL FROM n;
	UPDATE base SET t = REPLACE(REPLACE(REPLACE(CONVERT(b USING utf8mb4), "0", "é"), "1", "€"), "2", "😀"), b = UNHEX(CONCAT(b, REVERSE(b)));'
	  . join '', map { "CREATE TABLE $_ (id INT" . ($_ eq 'heap' ? '' : ' PRIMARY KEY') . ', c CHAR(3), b LONGBLOB, n INT, t LONGTEXT CHARACTER SET utf8mb4, s VARCHAR(50), m MEDIUMBLOB, l LONGTEXT CHARACTER SET latin1, u MEDIUMTEXT CHARACTER SET utf8mb3, j TINYINT);' } @tables);

# An expression for a value of about this length that begins at another place of the base for each `from`.
sub b { my ($length, $from) = @_; return "(SELECT SUBSTRING(b, $from, $length) FROM base)" }
sub t { my ($length, $from) = @_; return "(SELECT SUBSTRING(t, $from, $length) FROM base)" }

# Everything that is done to a table, as SQL.
sub changes
{
	my ($table) = @_;
	my ($id, @sql) = (0);

	for my $length ($M - 1, $M, $M + 1, $M + 4095, $M + 4096, 2 * $M - 1, 2 * $M, 2 * $M + 1, 5 * $M + 12345)
	{
		$id++;
		push @sql, "INSERT INTO $table (id, c, b, n) VALUES ($id, 'abc', ${\ b($length, $id * 777)}, $id)";
		$id++;
		push @sql, "INSERT INTO $table (id, b, t, s, j) VALUES ($id, 'x', ${\ t(int($length / 1.4), $id * 777)}, 's$id', 5)";
	}
	push @sql, "INSERT INTO $table VALUES (100, 'a', ${\ b(2 * $M + 3, 1)}, 1, ${\ t($M, 5)}, 'one', ${\ b(3 * $M + 1, 9)}, 'l', NULL, 1),
		(101, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (102, 'b', 'short', 2, 'short', 'two', ${\ b($M + 7, 11)}, NULL, 'u', 2), (103, 'c', ${\ b($M + 8, 12)}, 3, ${\ t(1500000, 13)}, '', ${\ b(2 * $M, 14)}, '', '', 3),
		(104, 'd', ${\ b($M, 12)}, 3, NULL, '', NULL, NULL, NULL, 4)";
	# what the converters must see
	push @sql, "INSERT INTO $table (id, l, u) VALUES (110, REPLACE(CONVERT(${\ t(1500000, 21)} USING latin1), '?', 'ü'), REPLACE(${\ t(1500000, 22)}, '😀', 'é'))";
	push @sql, "INSERT INTO $table (id, t) VALUES (111, CONCAT(${\ t(1500000, 31)}, CHAR(0), ${\ t(1500000, 32)}, CHAR(0)))";
	push @sql, "SET SESSION binlog_transaction_compression = ON", "INSERT INTO $table (id, b, t) VALUES (120, ${\ b(3 * $M, 41)}, ${\ t(2 * $M, 42)}), (121, ${\ b(2 * $M, 43)}, NULL)", "UPDATE $table SET t = ${\ t($M, 44)} WHERE id = 121",
		"SET SESSION binlog_transaction_compression = OFF";
	push @sql, "UPDATE $table SET b = ${\ b(3 * $M + 5, 51)} WHERE id = 1", "UPDATE $table SET n = n + 1, s = 'beside' WHERE id IN (3, 100)", "UPDATE $table SET t = ${\ t($M + 3, 52)}, m = ${\ b($M + 3, 53)} WHERE id = 100",
		"UPDATE $table SET m = b, b = m WHERE id IN (100, 103)", "UPDATE $table SET b = NULL, t = CONCAT(t, 'x') WHERE id = 103", "UPDATE $table SET id = id + 1000 WHERE id IN (5, 6, 102)",
		"UPDATE $table SET id = id + 1000, b = ${\ b(2 * $M + 9, 54)} WHERE id = 104", "DELETE FROM $table WHERE id IN (7, 8)", "INSERT INTO $table (id, b) VALUES (7, ${\ b(2 * $M + 11, 55)})";
	# one transaction: the same row again and again
	push @sql, 'BEGIN', "INSERT INTO $table (id, b) VALUES (130, ${\ b(2 * $M, 61)})", "UPDATE $table SET b = ${\ b(2 * $M, 62)}, t = ${\ t($M, 63)} WHERE id = 130", "DELETE FROM $table WHERE id = 130",
		"INSERT INTO $table (id, b) VALUES (130, ${\ b(2 * $M + 1, 64)})", "UPDATE $table SET n = 5 WHERE id = 130", 'COMMIT';
	for my $image (qw(MINIMAL NOBLOB))
	{
		my $n = 2000 + ($image eq 'MINIMAL' ? 0 : 10);
		push @sql, "SET SESSION binlog_row_image = $image", "INSERT INTO $table VALUES ($n, 'a', ${\ b(2 * $M + 3, 71)}, 1, ${\ t($M, 72)}, 'one', ${\ b(3 * $M + 1, 73)}, 'l', NULL, 1), ($n + 1, 'a', ${\ b(2 * $M + 3, 74)}, 1, ${\ t($M, 75)}, 'one', ${\ b(3 * $M + 1, 76)}, 'l', NULL, 1)",
			"UPDATE $table SET b = ${\ b(2 * $M + 17, 77)} WHERE id = $n",
			"UPDATE $table SET c = 'z', b = ${\ b(2 * $M + 19, 78)}, n = 9, t = ${\ t($M + 5, 79)}, s = 'all', m = ${\ b($M + 21, 80)}, l = 'll', u = 'uu', j = 3 WHERE id = $n + 1", "UPDATE $table SET n = 10 WHERE id = $n",
			'SET SESSION binlog_row_image = FULL';
	}
	return join '', map { "$_;\n" } @sql;
}

sub digests_equal
{
	my ($table, $what) = @_;
	my @text = qw(t s l u);
	my $ours = $pg->safe_psql("SELECT concat_ws(' ', coalesce(id::text, '-'), coalesce(c, '-'), coalesce(n::text, '-'), coalesce(j::text, '-'), "
		  . join(', ', map({ "coalesce(encode(sha256($_), 'hex'), '-')" } qw(b m)), map { "coalesce(encode(sha256(convert_to($_, 'UTF8')), 'hex'), '-')" } @text) . ") FROM d.$table ORDER BY id");
	my $theirs = $my->sql("SET NAMES utf8mb4; SELECT CONCAT_WS(' ', COALESCE(id, '-'), COALESCE(c, '-'), COALESCE(n, '-'), COALESCE(j, '-'), "
		  . join(', ', map({ "COALESCE(SHA2($_, 256), '-')" } qw(b m)), map { "COALESCE(SHA2(REPLACE(CONVERT($_ USING utf8mb4), CHAR(0), ''), 256), '-')" } @text) . ") FROM d.$table ORDER BY id");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok(length($theirs), '>', 1000, "$table: rows") if $what eq 'changes';
	is_deeply([ split /\n/, $ours ], [ split /\n/, $theirs ], "$table, $what: all values are equal");
}

my %type = (b => 'bytea', m => 'bytea');
$pg->safe_psql('CREATE SCHEMA d; CREATE DOMAIN d.bytes AS bytea CHECK (length(value) < 100000000); CREATE DOMAIN d.words AS text CHECK (length(value) < 100000000);'
	  . join '', map { my $table = $_; "CREATE TABLE d.$table (id int" . ($table eq 'heap' ? '' : ' PRIMARY KEY') . ', c text, b ' . ($table eq 'domains' ? 'd.bytes' : 'bytea') . ', n int, t ' . ($table eq 'domains' ? 'd.words' : 'text')
			. ', s text, m bytea, l text, u text, j smallint);' } @tables);
$pg->safe_psql(q{ALTER TABLE d.checked ADD CHECK (b IS NULL OR length(b) + length(sha256(b)) > 0), ADD CHECK (t IS NULL OR t <> ''), ADD CHECK (t IS NULL OR length(t) > 0);
	CREATE INDEX ON d.checked (md5(t), sha256(b)); CREATE INDEX ON d.checked (length(b));
	CREATE TABLE d.seen (id int, b text, t text);
	CREATE FUNCTION d.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO d.seen VALUES (new.id, md5(new.b), md5(new.t)); RETURN new; END $$;
	CREATE TRIGGER look BEFORE INSERT OR UPDATE ON d.triggered FOR EACH ROW EXECUTE FUNCTION d.look(); ALTER TABLE d.triggered ENABLE ALWAYS TRIGGER look});
start_pipeline($pg, 'p', [ map { "d.$_" } @tables ], nul_bytes => "'strip'");
$my->sql("SET NAMES utf8mb4; USE d; " . changes($_)) for @tables;
sync_pipeline($pg, 'p');
no_surprise($pg, 'p');
digests_equal($_, 'changes') for @tables;
is($pg->value('SELECT count(*) FROM d.seen s JOIN d.triggered t USING (id) WHERE s.b = md5(t.b) OR s.t = md5(t.t)') > 20, 1, 'the trigger saw them');

# A row that is there although it should not be is overwritten; one that is not there is put.
for my $table (qw(plain checked))
{
	$pg->safe_psql("INSERT INTO d.$table (id, b) VALUES (3000, 'old'), (3001, repeat('old', 1000000)::bytea); DELETE FROM d.$table WHERE id IN (9, 100)");
	$my->sql("USE d; INSERT INTO $table (id, b, t) VALUES (3000, ${\ b(2 * $M + 5, 81)}, ${\ t($M, 82)}), (3001, ${\ b(2 * $M + 6, 83)}, NULL), (3002, ${\ b(2 * $M + 7, 84)}, 'x');
		UPDATE $table SET b = ${\ b(2 * $M + 8, 85)} WHERE id = 9; UPDATE $table SET n = 77 WHERE id = 100");
	sync_pipeline($pg, 'p');
	digests_equal($table, 'surprises');
	is($pg->value("SELECT rows_missing || ' ' || rows_existing FROM capstan.table_status WHERE target = 'd.$table'::regclass"), '2 2', "$table: two rows were missing, two there");
}
drop_pipeline($pg, 'p');

done_testing();
