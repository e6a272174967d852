# The changes of the stream's benchmark: the same for MySQL and for a Postgres publisher.
#
# Tables of schema bench:
#   t, s      rows of 215 bytes, for transactions of 1000 rows and for those of one
#   hot       ten such rows, which are updated again and again
#   sb1..10   those of sysbench's OLTP load: one secondary index
#   wide      a text of 10 kB a row, which does not compress well
#   docs      a JSON document of 10 kB a row
#   cols      100 columns
#   mark      the end of each backlog
# Values are made of what both servers compute alike.

package StreamLoad;

use strict;
use warnings;
use utf8;

my $ROW = 'id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, a VARCHAR(120) NOT NULL, b VARCHAR(60) NOT NULL';
my $SBTEST = 'id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c VARCHAR(120) NOT NULL, pad VARCHAR(60) NOT NULL';
my $TEXTS = 64;

# 99 columns besides the key: numbers, short texts, decimals.
sub _columns { return join ', ', map { "c$_ " . (qw(INT BIGINT), 'VARCHAR(20)', 'DECIMAL(10,2)')[ $_ % 4 ] . ' NOT NULL' } 1 .. 99 }

# Their values in a row with the number n.
sub _values
{
	my ($cast) = @_;
	return join ', ', map { ("n + $_", "n * 1000 + $_", "concat('text ', n % 1000, ' of $_')", "n % 100000 + 0.25")[ $_ % 4 ] } 1 .. 99;
}

# How many changes of each kind; ROWS is those of the copy.
sub sizes
{
	my ($bench) = @_;
	my $n = $bench->rows;
	my %size = (bulk => $n * 0.2, single => $n * 0.1, mix => $n * 0.03, wide => $n * 0.01, docs => $n * 0.01, cols => $n * 0.03);

	for (keys %size)
	{
		$size{$_} = int($size{$_} / 1000) * 1000;
		$size{$_} = 1000 if $size{$_} < 1000;
	}
	return %size;
}

sub tables { return ('t', 's', 'hot', 'wide', 'docs', 'cols', 'mark', map { "sb$_" } 1 .. 10) }

sub mysql_tables
{
	my ($bench) = @_;
	my $texts = join ', ', map { "($_, (" . _mysql_text($_) . "), '" . _document($_) . "')" } 1 .. $TEXTS;

	return "CREATE DATABASE bench; USE bench; CREATE TABLE t ($ROW); CREATE TABLE s ($ROW); CREATE TABLE hot ($ROW);"
	  . join('', map { "CREATE TABLE sb$_ ($SBTEST, KEY k (k));" } 1 .. 10)
	  . 'CREATE TABLE wide (id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, body TEXT NOT NULL);'
	  . 'CREATE TABLE docs (id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, doc JSON NOT NULL);'
	  . 'CREATE TABLE cols (id BIGINT NOT NULL PRIMARY KEY, ' . _columns() . ');'
	  . 'CREATE TABLE mark (id INT NOT NULL PRIMARY KEY, what VARCHAR(60));'
	  . "USE lib; DROP TABLE IF EXISTS texts; CREATE TABLE texts (n INT PRIMARY KEY, body TEXT NOT NULL, doc JSON NOT NULL); INSERT INTO texts VALUES $texts;\n"
	  . mysql_procedures();
}

# 80 times 128 hexadecimal digits.
sub _mysql_text { my ($n) = @_; return 'CONCAT(' . join(', ', map { "SHA2('$n/$_', 512)" } 1 .. 80) . ')' }

sub _postgres_text { my ($n) = @_; return join ' || ', map { "encode(sha512('$n/$_'), 'hex')" } 1 .. 80 }

# An order with 100 lines.
sub _document
{
	my ($n) = @_;
	my @lines = map { sprintf '{"line": %d, "sku": "A-%06d", "quantity": %d, "price": %d.5, "note": "%s"}', $_, ($_ * 7919 + $n * 104729) % 1000000, $_ % 9 + 1,
		($_ * 31 + $n) % 500, join ' ', map { (qw(red green blue small large fragile gift express))[ ($_ * $n) % 8 ] } $_ .. $_ + 5 } 1 .. 100;

	return sprintf '{"customer": %d, "state": "open", "lines": [%s]}', $n * 17, join ', ', @lines;
}

# Loops: bulk(statement kind, from, to) in steps of 1000, single(kind, from, to). A transaction of the mix is an index update, one of a text,
# a DELETE and an INSERT of the same row, of four rows of one table.
sub _loops
{
	my %bulk = (
		insert => 'INSERT INTO bench.t SELECT i + n, n * 7, repeat(concat(n, \' \'), 24), concat(\'row \', i + n, repeat(\'.\', 40)) FROM lib.k',
		update => "UPDATE bench.t SET b = concat('new ', id, repeat(',', 40)), n = n + 1 WHERE id > i AND id <= i + 1000",
		delete => 'DELETE FROM bench.t WHERE id > i AND id <= i + 1000',
		wide => "INSERT INTO bench.wide SELECT i + k.n, k.n, concat(i + k.n, t.body) FROM lib.k k JOIN lib.texts t ON t.n = k.n % $TEXTS + 1 WHERE k.n <= 100",
		wide_update => 'UPDATE bench.wide SET n = n + 1 WHERE id > i AND id <= i + 100',
		docs => "INSERT INTO bench.docs SELECT i + k.n, k.n, t.doc FROM lib.k k JOIN lib.texts t ON t.n = k.n % $TEXTS + 1 WHERE k.n <= 100",
		docs_update => 'UPDATE bench.docs SET n = n + 1 WHERE id > i AND id <= i + 100',
		cols => 'INSERT INTO bench.cols SELECT i + n, ' . _values() . ' FROM lib.k',
		cols_update => 'UPDATE bench.cols SET c4 = c4 + 1, c2 = concat(c2, 1), c99 = c99 + 1 WHERE id > i AND id <= i + 1000');
	my %single = (
		insert => "INSERT INTO bench.s VALUES (i, i % 1000, repeat(concat(i % 1000, ' '), 24), concat('row ', i, repeat('.', 40)))",
		update => "UPDATE bench.s SET b = concat('new ', i, repeat(',', 40)), n = n + 1 WHERE id = i",
		delete => 'DELETE FROM bench.s WHERE id = i',
		hot => 'UPDATE bench.hot SET n = n + 1 WHERE id = i % 10 + 1');

	return (\%bulk, \%single);
}

# Rows of a transaction.
sub _step { my ($kind) = @_; return $kind =~ /^(?:wide|docs)/ ? 100 : 1000 }

sub _mix
{
	my ($table, $r) = @_;

	return "UPDATE bench.sb$table SET k = k + 1 WHERE id = $r; UPDATE bench.sb$table SET c = concat('changed by ', i, repeat('-', 90)) WHERE id = ($r + 333) % 1000 + 1;"
	  . "DELETE FROM bench.sb$table WHERE id = ($r + 666) % 1000 + 1; INSERT INTO bench.sb$table VALUES (($r + 666) % 1000 + 1, i % 5000, concat('came by ', i, repeat('-', 90)), repeat('pad ', 14));";
}

sub mysql_procedures
{
	my ($bulk, $single) = _loops();
	my $sql = "DELIMITER //\n";

	for my $kind (sort keys %$bulk)
	{
		my $step = _step($kind);

		$sql .= "DROP PROCEDURE IF EXISTS bulk_$kind //\nCREATE PROCEDURE bulk_$kind(i INT, last INT) BEGIN WHILE i < last DO $bulk->{$kind}; SET i = i + $step; END WHILE; END //\n";
	}
	for my $kind (sort keys %$single)
	{
		$sql .= "DROP PROCEDURE IF EXISTS single_$kind //\nCREATE PROCEDURE single_$kind(i INT, last INT) BEGIN WHILE i < last DO SET i = i + 1; $single->{$kind}; END WHILE; END //\n";
	}
	$sql .= "DROP PROCEDURE IF EXISTS mix //\nCREATE PROCEDURE mix(i INT, last INT) BEGIN DECLARE r INT; WHILE i < last DO SET i = i + 1, r = (i * 7919) % 1000 + 1; START TRANSACTION; CASE i % 10 "
	  . join(' ', map { "WHEN $_ THEN " . _mix($_ || 10, 'r') } 0 .. 9) . " END CASE; COMMIT; END WHILE; END //\n";
	return "$sql\nDELIMITER ;\n";
}

sub postgres_procedures
{
	my ($bench) = @_;
	my ($bulk, $single) = _loops();
	my $texts = join ', ', map { "($_, " . _postgres_text($_) . ", '" . _document($_) . "')" } 1 .. $TEXTS;
	my $sql = "CREATE SCHEMA lib; CREATE TABLE lib.k AS SELECT n::int FROM generate_series(1, 1000) n; CREATE TABLE lib.texts (n int PRIMARY KEY, body text, doc jsonb); INSERT INTO lib.texts VALUES $texts;";
	my $loop = sub {
		my ($name, $step, $body) = @_;
		my ($before, $after) = $step == 1 ? ('i := i + 1;', '') : ('', "i := i + $step;");

		$sql .= "CREATE PROCEDURE lib.$name(i int, last int) LANGUAGE plpgsql AS \$\$ DECLARE r int; BEGIN WHILE i < last LOOP $before $body; $after COMMIT; END LOOP; END \$\$;\n";
	};

	$loop->("bulk_$_", _step($_), $bulk->{$_}) for sort keys %$bulk;
	$loop->("single_$_", 1, $single->{$_}) for sort keys %$single;
	$loop->('mix', 1, 'r := (i::bigint * 7919) % 1000 + 1; CASE i % 10 ' . join(' ', map { "WHEN $_ THEN " . _mix($_ || 10, 'r') } 0 .. 9) . ' END CASE');
	return $sql;
}

# CALLs for both sources. In halves where two sessions write faster and the order of rows does not matter.
sub _kind
{
	my ($name, $procedure, $count, $tables, %opt) = @_;
	my $changes = $opt{changes} // $count;
	my $half = int($count / 2000) * 1000;
	my @parts = $opt{halves} && $half ? ([ 0, $half ], [ $half, $count ]) : ([ 0, $count ]);

	return {
		name => $name, changes => $changes, transactions => $opt{transactions} // $count, tables => $tables,
		mysql => [ map { "CALL lib.$procedure($_->[0], $_->[1])" } @parts ],
		postgres => ["CALL lib.$procedure(0, $count)"] };
}

# Rows for the mix, and those that are hot.
sub fill
{
	my ($bench) = @_;
	my @fill = map { my $t = "bench.sb$_"; "INSERT INTO $t SELECT n, n * 5, concat('first ', n, repeat('-', 90)), repeat('pad ', 14) FROM lib.k" } 1 .. 10;

	push @fill, "INSERT INTO bench.hot SELECT n, 0, repeat('a', 110), repeat('b', 50) FROM lib.k WHERE n <= 10";
	return { name => 'fill', mysql => [ join '; ', @fill ], postgres => [ join '; ', @fill ] };
}

# What a start takes is measured with it.
sub _nothing { return { name => 'nothing', changes => 0, tables => ['mark'], mysql => [], postgres => [] } }

# As many single-row transactions as ROWS says.
sub backlog
{
	my ($bench) = @_;
	my $nothing = _nothing();

	return ($nothing, _kind('single-row inserts', 'single_insert', $bench->rows, ['s'], halves => 1), $nothing);
}

# All rows in one transaction.
sub _one_transaction
{
	my ($rows) = @_;

	return {
		name => 'inserts, one transaction', changes => $rows, transactions => 1, tables => ['t'],
		mysql => ["START TRANSACTION; CALL lib.bulk_insert(0, $rows); COMMIT"],
		postgres => ["INSERT INTO bench.t SELECT i + n, n * 7, repeat(concat(n, ' '), 24), concat('row ', i + n, repeat('.', 40)) FROM generate_series(0, $rows - 1, 1000) i, lib.k"] };
}

sub kinds
{
	my ($bench) = @_;
	my %size = sizes($bench);
	my @sb = map { "sb$_" } 1 .. 10;

	my $nothing = _nothing();
	my @kinds = (
		$nothing,
		_kind('inserts, 1000 rows each', 'bulk_insert', $size{bulk}, ['t'], transactions => $size{bulk} / 1000),
		_kind('updates, 1000 rows each', 'bulk_update', $size{bulk}, ['t'], transactions => $size{bulk} / 1000),
		_kind('deletes, 1000 rows each', 'bulk_delete', $size{bulk}, ['t'], transactions => $size{bulk} / 1000),
		_one_transaction($size{bulk}),
		_kind('single-row inserts', 'single_insert', $size{single}, ['s'], halves => 1),
		_kind('single-row updates', 'single_update', $size{single}, ['s'], halves => 1),
		_kind('single-row deletes', 'single_delete', $size{single}, ['s'], halves => 1),
		_kind('single-row updates of ten rows', 'single_hot', $size{single}, ['hot']),
		_kind('sysbench-like mix, 10 tables, 4 rows each', 'mix', $size{mix}, \@sb, changes => $size{mix} * 4),
		$nothing,
		_kind('inserts of 10 kB texts, 100 rows each', 'bulk_wide', $size{wide}, ['wide'], transactions => $size{wide} / 100),
		_kind('updates beside 10 kB texts, 100 rows each', 'bulk_wide_update', $size{wide}, ['wide'], transactions => $size{wide} / 100),
		_kind('inserts of 10 kB documents, 100 rows each', 'bulk_docs', $size{docs}, ['docs'], transactions => $size{docs} / 100),
		_kind('updates beside 10 kB documents, 100 rows each', 'bulk_docs_update', $size{docs}, ['docs'], transactions => $size{docs} / 100),
		_kind('inserts of 100 columns, 1000 rows each', 'bulk_cols', $size{cols}, ['cols'], transactions => $size{cols} / 1000),
		_kind('updates of 100 columns, 1000 rows each', 'bulk_cols_update', $size{cols}, ['cols'], transactions => $size{cols} / 1000),
		$nothing);
	my $wanted = $bench->{kinds};

	return grep { !$_->{changes} || !defined $wanted || $_->{name} =~ $wanted } @kinds;
}

1;
