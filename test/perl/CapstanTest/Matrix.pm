# The matrix: every type, character set and edge value, by every way in which it can come to Postgres.
#
#     my $matrix = CapstanTest::Matrix->new($my, $pg);
#     $matrix->fill;           before the snapshot; ->tables are to be captured
#     $matrix->stream($_);     after it, for each of ->images; and when that has been applied
#     $matrix->is_applied($_);
#     $matrix->check;          the tests, of what has been applied: that names a fault better than the halt that it led to
#
# CapstanTest::MatrixTypes has the columns and their values. Row n of a table, 1 .. N, has the n-th value of each
# column; columns with fewer values begin again; row N is NULL wherever it may be. For each row image, B = 10000,
# 20000 and 30000, there are beside them
#     B + n            inserted by the stream
#     B + 1000 + n     copied, then another column was updated
#     B + 2000 + n     copied, then deleted
#     B + 4000 + n     copied with the value of the next row, then updated to this one
#     B + 6000 + n     copied as B + 3000 + n, then the key was changed
# Key tables are the same with columns of the matrix before id in the primary key. Tables with one such column as the
# whole key are alone_...: all their rows are updated, deleted and inserted, and every value becomes the next one, under each image.
#
# The statements that change rows take the values from rows 1 .. N in MySQL, so that nothing is written twice.
# Both sides write each value as text by functions of their own (_mysql_text, _postgres_text), and all of it is
# compared here; what was copied and what was streamed is compared byte by byte in Postgres.

package CapstanTest::Matrix;

use strict;
use warnings;
use utf8;

use POSIX ();
use Test::More;
use CapstanTest::Compare;
use CapstanTest::MatrixTypes;

my @images = qw(FULL MINIMAL NOBLOB);
# By the thousands of a row's id, without the image.
my %way = (0 => 'inserted', 1 => 'touched', 2 => 'deleted', 3 => 'key not changed', 4 => 'updated', 6 => 'key changed');
my $session = "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', cte_max_recursion_depth = 100000;\n";

# Most columns of MySQL's in a key, less the id; most of its bytes, less what Postgres allows less.
my ($KEY_COLUMNS, $KEY_BYTES) = (15, 2000);

sub new
{
	my ($class, $my, $pg) = @_;
	my $self = bless { my => $my, pg => $pg }, $class;

	$self->_find_characters;
	my @all = (plain_tables(), character_tables($self->{sets}));
	my %has = map { $_ => 1 } @{ $self->server_types };
	for (@all)
	{
		@{ $_->{columns} } = grep { $has{vector} || $_->{type} !~ /^VECTOR/ } @{ $_->{columns} };
	}
	@all = grep { @{ $_->{columns} } } @all;
	my @keys = grep { !$_->{no_key} } map { @{ $_->{columns} } } @all;
	$self->{tables} = [ @all, _key_tables(@keys, character_keys($self->{sets})) ];
	$self->{alone} = [ map { +{ name => "alone_${_}_" . lc(substr($keys[$_]{type} =~ s/\W+/_/gr, 0, 20)), columns => [ $keys[$_] ] } } grep { $keys[$_]{alone} } 0 .. $#keys ];
	_name_columns($_) for @{ $self->{tables} }, @{ $self->{alone} };
	return $self;
}

sub alone { my ($self) = @_; return map { "m.$_->{name}" } @{ $self->{alone} } }
sub tables { my ($self) = @_; return map { "m.$_->{name}" } @{ $self->{tables} }, @{ $self->{alone} } }

# Names of columns, and the values in the rows, NULL at last.
sub _name_columns
{
	my ($table) = @_;
	my $i = 0;

	# A column may stand in several tables.
	$table->{columns} = [ map { +{ %$_, name => 'c' . ++$i } } @{ $table->{columns} } ];
	for my $c (@{ $table->{columns} })
	{
		my $count = @{ $c->{values} };
		$table->{rows} = $count if $count > ($table->{rows} // 0);
	}
	die "too many values in $table->{name}\n" if $table->{rows} >= 999;
}

sub _key_tables
{
	my (@columns) = @_;
	my @tables;
	my $room = 0;

	for my $c (@columns)
	{
		my $bytes = _key_bytes($c->{type});
		push @tables, { name => 'keys_' . @tables, key => 1, loose => 0, columns => [] } if !@tables || $room < $bytes || @{ $tables[-1]{columns} } == $KEY_COLUMNS;
		$room = $KEY_BYTES if !@{ $tables[-1]{columns} };
		$room -= $bytes;
		push @{ $tables[-1]{columns} }, { %$c, values => [ grep { !$_->{no_key} } @{ $c->{values} } ] };
	}
	return @tables;
}

sub _key_bytes
{
	my ($type) = @_;
	return $type =~ /^(?:VAR)?CHAR\((\d+)/ ? 4 * $1 : $type =~ /BINARY\((\d+)/ ? $1 : $type =~ /^(?:ENUM|SET)/ ? 250 : 32;
}

# ---- what the server has ----

# Its types: each word that it knows is tried as one.
sub server_types
{
	my ($self) = @_;

	return $self->{types} if $self->{types};
	my ($rc, $out) = $self->{my}->try_sql("CREATE DATABASE tried; USE tried;\n" . $self->{my}->sql(
		q{SELECT CONCAT('CREATE TABLE t', ROW_NUMBER() OVER (), ' (c ', word, rest, ');') FROM information_schema.keywords, (SELECT '' rest UNION SELECT '(1)' UNION SELECT '(''a'')') r}),
		options => ['--force']);
	$self->{types} = [ split /\n/, $self->{my}->sql("SELECT DISTINCT data_type FROM information_schema.columns WHERE table_schema = 'tried' ORDER BY 1; DROP DATABASE tried") ];
	return $self->{types};
}

# Characters of each set: the first and last code of each length and some between, of all that Unicode has and that come back.
sub _find_characters
{
	my ($self) = @_;
	my $my = $self->{my};
	my %sets = map { $_->[0] => { max => $_->[1] } } $my->query('SELECT character_set_name, maxlen FROM information_schema.character_sets');
	my $sql = $session . q{SET sql_mode = '', group_concat_max_len = 100000; CREATE DATABASE x; USE x; CREATE TABLE p (c INT PRIMARY KEY, u VARCHAR(1) COLLATE utf8mb4_bin);
		INSERT INTO p WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 65535)
		SELECT c, CONVERT(UNHEX(LPAD(HEX(c), 8, '0')) USING utf32) FROM (SELECT n c FROM s UNION ALL SELECT 65536 + n * 272 FROM s WHERE n < 3855 UNION ALL SELECT 1114111) t
		WHERE c > 0 AND NOT c BETWEEN 55296 AND 57343;};

	for my $set (grep { $_ ne 'binary' } sort keys %sets)
	{
		# Those that it may have; Unicode's own have all, in the order of the codes. Elsewhere U+FFFD stands for codes without a character.
		my $points = '(SELECT * FROM p WHERE ' . ($set =~ /^u(?:tf|cs)/ ? 'c < 300 OR c % 61 = 0 OR c IN (2047, 2048, 55295, 57344, 65535, 65536, 1114111)'
			: $sets{$set}{max} == 1 ? '(c < 12288 OR c > 63000) AND c < 65533' : 'c <> 65533') . ') p';

		$sql .= "WITH t AS (SELECT c, u, BINARY CONVERT(u USING $set) b FROM $points WHERE BINARY CONVERT(CONVERT(u USING $set) USING utf8mb4) = BINARY u),
			r AS (SELECT c, u, LENGTH(b) l, ROW_NUMBER() OVER (PARTITION BY LENGTH(b) ORDER BY b) r, COUNT(*) OVER (PARTITION BY LENGTH(b)) n FROM t)
			SELECT '$set', l, GROUP_CONCAT(HEX(u) ORDER BY r), SUM(c BETWEEN 33 AND 126) FROM r WHERE r IN (1, n) OR r % GREATEST(n DIV 4, 1) = 0 GROUP BY l
			UNION ALL SELECT '$set', 'ascii', GROUP_CONCAT(HEX(u) ORDER BY c), MIN(l) FROM r WHERE c BETWEEN 33 AND 126;\n";
	}
	for (split /\n/, $my->sql($sql))
	{
		my ($set, $length, $list, $unit) = split /\t/;
		my @characters = map { my $u = pack 'H*', $_; utf8::decode($u); $u } split /,/, $list;
		if ($length eq 'ascii') { @{ $sets{$set} }{qw(ascii unit)} = (join('', @characters), $unit) }
		else { $sets{$set}{lengths}{$length} = \@characters }
	}
	$self->{sets} = \%sets;
}

# ---- statements ----

sub _list { my ($table, $alias) = @_; return join ', ', map { $alias . $_->{name} } @{ $table->{columns} } }

sub _create
{
	my ($table) = @_;
	my $key = $table->{key} ? ' NOT NULL' : '';
	my $in_key = join ', ', map { $_->{name} . ($_->{prefix} ? "($_->{prefix})" : '') } @{ $table->{columns} };

	return "CREATE TABLE m.$table->{name} (id INT, touched INT, " . join(', ', map { "$_->{name} $_->{type}$key" } @{ $table->{columns} })
	  . ($table->{key} ? ", PRIMARY KEY ($in_key, id), KEY (id)" : ', PRIMARY KEY (id)') . ") CHARSET utf8mb4;\n";
}

sub _rows
{
	my ($table) = @_;
	return join ",\n", map {
		my $n = $_;
		"($n, 0, " . join(', ', map { my $v = $_->{values}; $v->[ ($n - 1) % @$v ]{sql} } @{ $table->{columns} }) . ')'
	} 1 .. $table->{rows};
}

# Rows 1 .. N, NULL last, and the copied ones of each image.
sub _fill
{
	my ($table) = @_;
	my ($name, $list, $count) = ("m.$table->{name}", _list($table, ''), $table->{rows});
	my $sql = ($table->{loose} ? "SET sql_mode = '';\n" : "SET sql_mode = 'STRICT_ALL_TABLES';\n") . _create($table) . "INSERT INTO $name VALUES " . _rows($table) . ";\n";

	$sql .= "INSERT INTO $name (id, touched) VALUES (" . ++$count . ", 0);\n" unless $table->{key};
	# The one statement reads what the other has not written yet: ids below 1000.
	$sql .= "INSERT INTO $name SELECT b.base + w.way + id, 0, $list FROM $name, x.bases b, x.ways w WHERE id < 1000;\n";
	$sql .= "INSERT INTO $name SELECT b.base + 4000 + s.id, 0, " . _list($table, 't.') . " FROM $name s JOIN $name t ON t.id = s.id % $count + 1, x.bases b WHERE s.id < 1000;\n";
	return $sql;
}

sub _change
{
	my ($table, $base) = @_;
	my ($name, $list) = ("m.$table->{name}", _list($table, ''));
	my ($ids) = sub { my ($way) = @_; return 'id BETWEEN ' . ($base + $way) . ' AND ' . ($base + $way + 999) };

	return ($table->{loose} ? "SET sql_mode = '';\n" : "SET sql_mode = 'STRICT_ALL_TABLES';\n")
	  . "INSERT INTO $name SELECT $base + id, 0, $list FROM $name WHERE id < 1000;\n"
	  . "UPDATE $name SET touched = 1 WHERE " . $ids->(1000) . ";\n"
	  . "DELETE FROM $name WHERE " . $ids->(2000) . ";\n"
	  . "UPDATE $name SET id = id + 3000 WHERE " . $ids->(3000) . ";\n"
	  . "UPDATE $name a JOIN $name b ON b.id = a.id % 1000 SET " . join(', ', map { "a.$_->{name} = b.$_->{name}" } @{ $table->{columns} }) . ' WHERE a.' . $ids->(4000) . ";\n";
}

sub _fill_alone
{
	my ($table) = @_;
	my ($column) = @{ $table->{columns} };
	my $values = join ', ', map { "($_->{sql})" } grep { !$_->{no_key} && !$_->{same} } @{ $column->{values} };

	# All distinct values, numbered with gaps.
	return "CREATE TABLE x.$table->{name} (id INT AUTO_INCREMENT PRIMARY KEY, c1 $column->{type} NOT NULL, KEY (c1));
		INSERT INTO x.$table->{name} (c1) VALUES $values;
		DELETE a FROM x.$table->{name} a JOIN x.$table->{name} b ON b.c1 = a.c1 AND b.id < a.id;
		CREATE TABLE m.$table->{name} (c1 $column->{type} NOT NULL PRIMARY KEY, id INT, touched INT);
		INSERT INTO m.$table->{name} SELECT c1, id, 0 FROM x.$table->{name};\n";
}

# The values move up by one, the last first.
sub _change_alone
{
	my ($table) = @_;
	my ($m, $x) = ("m.$table->{name}", "x.$table->{name}");

	return "UPDATE $m SET touched = touched + 1;
		DELETE FROM $m WHERE id % 2; INSERT INTO $m SELECT c1, id, 1 FROM $x WHERE id % 2;
		DELETE FROM $m WHERE id % 2 = 0; INSERT INTO $m SELECT c1, id, 2 FROM $x WHERE id % 2 = 0;
		DELETE FROM $m WHERE id = (SELECT MAX(id) FROM $x);
		UPDATE $m SET c1 = (SELECT c1 FROM $x WHERE $x.id > $m.id ORDER BY $x.id LIMIT 1), touched = touched + 10 ORDER BY id DESC;
		UPDATE $m JOIN $x ON $m.c1 = $x.c1 SET $m.id = $x.id;
		INSERT INTO $m SELECT c1, id, 3 FROM $x ORDER BY id LIMIT 1;\n";
}

sub fill
{
	my ($self) = @_;
	my $sql = $session . "CREATE DATABASE m; USE x;
		CREATE TABLE x.bases (base INT PRIMARY KEY); INSERT INTO x.bases VALUES (10000), (20000), (30000);
		CREATE TABLE x.ways (way INT PRIMARY KEY); INSERT INTO x.ways VALUES (1000), (2000), (3000);\n";

	$self->{my}->sql($sql . join '', (map { _fill($_) } @{ $self->{tables} }), "SET sql_mode = '';\n", map { _fill_alone($_) } @{ $self->{alone} });
	$self->{pg}->safe_psql('CREATE SCHEMA m');
	for my $table (grep { $_->{target} } @{ $self->{tables} })
	{
		my ($from, $to) = @{ $table->{target} };
		my $ddl = $self->{pg}->safe_psql("SELECT capstan.table_ddl('source', 'm.$table->{name}')");
		$ddl =~ s/ $from/ $to/g;
		$self->{pg}->safe_psql($ddl);
	}
}

sub images { return @images }

sub stream
{
	my ($self, $image) = @_;
	my ($base) = map { 10000 * ($_ + 1) } grep { $images[$_] eq $image } 0 .. $#images;

	$self->{my}->sql($session . join '', "SET SESSION binlog_row_image = $image;\n", (map { _change($_, $base) } @{ $self->{tables} }), "SET sql_mode = '';\n", map { _change_alone($_) } @{ $self->{alone} });
}

sub is_applied { my ($self, $image) = @_; $self->{applied}{$image} = 1 }
sub all_applied { my ($self) = @_; return keys %{ $self->{applied} } == @images }

# ---- the comparison ----

# Bytes as their number and, of long ones, a digest.
sub _mysql_bytes { my ($b) = @_; return "CONCAT(LENGTH($b), ':', IF(LENGTH($b) > 100, SHA2($b, 256), LOWER(HEX($b))))" }
sub _postgres_bytes { my ($b) = @_; return "octet_length($b) || ':' || CASE WHEN octet_length($b) > 100 THEN encode(sha256($b), 'hex') ELSE encode($b, 'hex') END" }

my %characters = map { $_ => 1 } qw(char varchar tinytext text mediumtext longtext enum set);
my %bytes = map { $_ => 1 } qw(binary varbinary tinyblob blob mediumblob longblob vector geometry point linestring polygon multipoint multilinestring multipolygon geomcollection);

sub _mysql_text
{
	my ($c) = @_;
	my ($q, $type) = @$c{qw(name data_type)};

	return $c->{column_type} =~ /zerofill/ ? "CAST($q + 0 AS CHAR)" : "CAST($q AS CHAR)" if $type =~ /(?<!po)int$/;
	return "CAST($q + 0 AS CHAR)" if $type eq 'year';
	return $c->{column_type} =~ /zerofill/ ? "CAST(CAST($q AS DECIMAL($c->{precision},$c->{scale})) AS CHAR)" : "CAST($q AS CHAR)" if $type eq 'decimal';
	# The only text of a double that has all its digits.
	return "CAST(JSON_ARRAY(CAST($q AS DOUBLE)) AS CHAR)" if $type =~ /^(?:float|double)$/;
	return "LPAD(BIN($q + 0), $c->{precision}, '0')" if $type eq 'bit';
	return "IF(MONTH($q) = 0 OR DAYOFMONTH($q) = 0, NULL, DATE_FORMAT($q, '%Y-%m-%d'))" if $type eq 'date';
	return "IF(MONTH($q) = 0 OR DAYOFMONTH($q) = 0, NULL, DATE_FORMAT($q, '%Y-%m-%d %H:%i:%s.%f'))" if $type =~ /^(?:datetime|timestamp)$/;
	return "CAST(CAST($q AS TIME(6)) AS CHAR)" if $type eq 'time';
	return _mysql_bytes("CAST(CONVERT($q USING utf8mb4) AS BINARY)") if $characters{$type};
	return _mysql_bytes("CAST($q AS BINARY)") if $type eq 'vector';
	return _mysql_bytes($q) if $bytes{$type};
	return "CAST($q AS CHAR)" if $type eq 'json';
	die "no text for MySQL's type $c->{column_type}\n";
}

sub _postgres_text
{
	my ($c) = @_;
	my ($q, $type, $pg) = @$c{qw(name data_type target)};
	my $year = "CASE WHEN $q < '0001-01-01' THEN '0000' ELSE to_char($q, 'YYYY') END";

	return "$q\::text" if $type =~ /^(?:\w*(?<!po)int|year|decimal|bit)$/;
	return "encode(float8send($q\::float8), 'hex')" if $type =~ /^(?:float|double)$/;
	return "$year || to_char($q, '-MM-DD')" if $type eq 'date';
	return "$year || to_char($q, '-MM-DD HH24:MI:SS.US')" if $type =~ /^(?:datetime|timestamp)$/;
	return "CASE WHEN $q < interval '0' THEN '-' ELSE '' END || to_char(greatest($q, -$q), 'HH24:MI:SS.US')" if $type eq 'time';
	return _postgres_bytes("convert_to($q\::text, 'UTF8')") if $characters{$type};
	return _postgres_bytes("(SELECT string_agg(" . _little_endian('float4send(x)') . ", '' ORDER BY n) FROM unnest($q\::real[]) WITH ORDINALITY u (x, n))") if $type eq 'vector';
	return _postgres_bytes('(' . _little_endian("int4send(ST_SRID($q))") . " || ST_AsBinary($q, 'NDR'))") if $pg eq 'geometry';
	return _postgres_bytes($q) if $bytes{$type};
	return "$q\::text" if $type eq 'json';
	die "no text for $pg\n";
}

sub _little_endian { my ($bytes) = @_; return join ' || ', map { "substr($bytes, $_, 1)" } 4, 3, 2, 1 }

# What is only another notation of MySQL's text.
sub _normal
{
	my ($c, $text) = @_;

	return CapstanTest::Compare::_expand_numbers($text) if $c->{target} eq 'jsonb';
	return $text unless $text =~ /^\[(.*)\]$/;
	return $1 eq 'null' ? 'NULL' : unpack 'H*', pack 'd>', scalar POSIX::strtod($1);
}

# Of each column: what both sides say that it is.
sub _read_types
{
	my ($self) = @_;
	my %of;

	for ($self->{my}->query("SELECT table_name, column_name, data_type, column_type, COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0), COALESCE(character_set_name, '') FROM information_schema.columns WHERE table_schema = 'm'"))
	{
		@{ $of{"$_->[0].$_->[1]"} }{qw(data_type column_type precision scale charset)} = @$_[ 2 .. 6 ];
	}
	for ($self->{pg}->query("SELECT relname, attname, typname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_type t ON t.oid = atttypid WHERE relnamespace = 'm'::regnamespace AND relkind = 'r' AND attnum > 0"))
	{
		$of{"$_->[0].$_->[1]"}{target} = $_->[2];
	}
	for my $table (@{ $self->{tables} }, @{ $self->{alone} })
	{
		%$_ = (%$_, %{ $of{"$table->{name}.$_->{name}"} }) for @{ $table->{columns} };
	}
}

# The rows of each table, by its name and their id, of one client each: many clients take long.
sub _read_rows
{
	my ($self, @tables) = @_;
	my ($source, $target) = ("$session\n", "SET timezone = 'UTC'; SET intervalstyle = postgres; SET extra_float_digits = 1;\n");

	for my $table (@tables)
	{
		my $from = " FROM m.$table->{name};\n";
		$source .= join(', ', "SELECT '$table->{name}', id, touched", map { _mysql_text($_) } @{ $table->{columns} }) . $from;
		$target .= join(', ', "SELECT '$table->{name}', id, touched", map { _postgres_text($_) } @{ $table->{columns} }) . $from;
	}
	$self->{source} = _rows_by_id($self->{my}->sql($source, options => [ '--raw', '--quick' ]));
	my ($rc, $out, $err) = $self->{pg}->psql($target, options => [ '-F', "\t", '-P', 'null=NULL' ]);
	die "psql: $err" if $rc;
	$self->{target} = _rows_by_id($out);
	for my $table (@tables)
	{
		my @columns = @{ $table->{columns} };
		for my $i (grep { $columns[$_]{target} =~ /^(?:jsonb|float4|float8)$/ } 0 .. $#columns)
		{
			$_->[ $i + 1 ] = _normal($columns[$i], $_->[ $i + 1 ]) for map { values %{ $_->{ $table->{name} } } } $self->{source}, $self->{target};
		}
	}
}

sub _rows_by_id
{
	my %rows;

	for (split /\n/, $_[0])
	{
		my ($table, $id, @values) = split /\t/, $_, -1;
		$rows{$table}{$id} = \@values;
	}
	return \%rows;
}

# How a row came, in words.
sub _way
{
	my ($id) = @_;
	my $n = $id % 1000;
	return "value $n, " . ($id < 1000 ? 'copied' : $way{ int($id / 1000) % 10 } . ' under ' . _image($id));
}

sub _image { my ($id) = @_; return $images[ int($id / 10000) - 1 ] }

sub _is_equal
{
	my ($self, $table) = @_;
	my @columns = ({ name => 'touched', column_type => 'int', charset => '' }, @{ $table->{columns} });
	my ($source, $target) = map { $_->{ $table->{name} } // {} } $self->{source}, $self->{target};
	my @different;

	for my $id (sort { $a <=> $b } grep { $_ < 1000 || $self->{applied}{ _image($_) } } keys %{ { %$source, %$target } })
	{
		my ($s, $t) = ($source->{$id}, $target->{$id});
		my $where = $table->{name} =~ /^alone/ ? "row $id" : _way($id);

		push @different, "$where: only in the " . ($s ? 'source' : 'target') if !$s || !$t;
		next if !$s || !$t;
		push @different, map { sprintf('%s, %s: source %s, target %s', _in_words($columns[$_]), $where, map { substr($_, 0, 100) } $s->[$_], $t->[$_]) }
		  grep { $s->[$_] ne $t->[$_] } 0 .. $#columns;
	}
	_judge("$table->{name}: " . @columns . ' columns, ' . keys(%$source) . ' rows are equal', %$source ? () : 'there are none', @different);
}

sub _in_words { my ($c) = @_; return join ' ', $c->{name}, substr($c->{column_type}, 0, 40), $c->{charset} }

sub _judge
{
	my ($name, @faults) = @_;

	ok(!@faults, $name) and return;
	diag(scalar(@faults) . ' faults:');
	diag($_) for @faults > 12 ? @faults[ 0 .. 11 ] : @faults;
}

# Values that the source tells apart are as many as were meant: it took them, and the text of a value is not that of another.
sub _are_meant
{
	my ($self, $table) = @_;
	my $source = $self->{source}{ $table->{name} };
	my @faults;

	for my $i (0 .. $#{ $table->{columns} })
	{
		my $c = $table->{columns}[$i];
		my %seen = map { $source->{$_}[ $i + 1 ] => 1 } grep { $_ < 1000 } keys %$source;
		delete $seen{NULL};
		my $meant = grep { !$_->{same} } @{ $c->{values} };
		push @faults, sprintf('%s: %d values, meant are %d', _in_words($c), scalar(keys %seen), $meant) if keys %seen != $meant;
	}
	_judge("$table->{name}: the values are what was meant", @faults);
}

# The tables with one key column by themselves.
sub check_alone
{
	my ($self) = @_;

	$self->_read_rows(@{ $self->{alone} });
	$self->_is_equal($_) for @{ $self->{alone} };
}

# Every row that was streamed beside the copied one of the same values, as Postgres has their bytes.
sub _are_same_bytes
{
	my ($self) = @_;
	my (%faults, %count);

	for ($self->{pg}->query(join '', map {
			my $table = $_;
			my ($a, $b) = map { my $t = $_; 'ROW(' . join(', ', map { "$t.$_->{name}" } @{ $table->{columns} }) . ')::record' } 'a', 'b';
			"SELECT '$table->{name}', b.id, $a *<> $b FROM m.$table->{name} a JOIN m.$table->{name} b ON b.id % 1000 = a.id WHERE a.id < 1000 AND b.id > 1000;\n";
		} @{ $self->{tables} }))
	{
		my ($name, $id, $differs) = @$_;
		next unless $self->{applied}{ _image($id) };
		$count{$name}++;
		push @{ $faults{$name} }, _way($id) if $differs eq 't';
	}
	for my $table (@{ $self->{tables} })
	{
		my $name = $table->{name};
		_judge("$name: copied and streamed values are equal byte by byte", @{ $faults{$name} // [] });
		is($count{$name}, 4 * keys(%{ $self->{applied} }) * ($table->{rows} + ($table->{key} ? 0 : 1)), "$name: all ways are there");
	}
}

sub check
{
	my ($self) = @_;

	$self->_read_types;
	$self->_read_rows(@{ $self->{tables} }, @{ $self->{alone} });
	$self->_is_equal($_) for @{ $self->{tables} }, $self->all_applied ? @{ $self->{alone} } : ();
	$self->_are_meant($_) for @{ $self->{tables} };
	$self->_are_same_bytes;
	$self->_is_complete;
}

# Every type that the server has is in it, every character type with every set, and every line of doc/types.md.
sub _is_complete
{
	my ($self) = @_;
	my @columns = map { @{ $_->{columns} } } @{ $self->{tables} };
	my %types = map { $_->{data_type} => 1 } @columns;
	# The schema has no name for the set 'binary'.
	my %with_set = map { ("$_->{data_type} " . ($_->{charset} || 'binary') => 1) } @columns;

	is_deeply([ grep { !$types{$_} } @{ $self->server_types } ], [], 'no type of the server is missing');
	is_deeply([ grep { !$with_set{$_} } map { my $set = $_; map { "$_ $set" } $set eq 'binary' ? qw(enum set) : sort keys %characters } sort keys %{ $self->{sets} } ], [], 'no character set of the server is missing, with any type');

	my ($listed) = CapstanTest::slurp("$CapstanTest::TOP/doc/types.md") =~ /<!-- types: begin.*?\n\|---.*?\n(.*?)\n\n<!-- types: end/s;
	my @missing;
	for (map { /^\| (\w+)( UNSIGNED)? \|/ ? [ lc $1, $2 ] : () } split /\n/, $listed)
	{
		my ($type, $unsigned) = @$_;
		push @missing, $type unless grep { $_->{data_type} eq $type && (!$unsigned || $_->{column_type} =~ /unsigned/) } @columns;
	}
	is_deeply(\@missing, [], 'no type of doc/types.md is missing');
	my %declared = map { ($_->{type} =~ s/ CHARACTER SET.*//r =~ s/\('.*\)/'(' . length($&) . ')'/er) => 1 } @columns;
	$self->{summary} = sprintf('%d types in %d declarations, %d character sets', map { scalar keys %$_ } \%types, \%declared, $self->{sets});
}

# A value times a way times an image; updated counts twice, to the value and from it.
sub combinations
{
	my ($self) = @_;
	my $count = 0;

	$count += (@{ $_->{values} } + ($_->{key} ? 0 : 1)) * (1 + 6 * @images) for map { @{ $_->{columns} } } @{ $self->{tables} };
	$count += @{ $_->{columns}[0]{values} } * (1 + 5 * @images) for @{ $self->{alone} };
	return $count;
}

1;
