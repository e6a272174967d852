# Are the tables of a MySQL and of a Postgres equal, value by value?
#
# Used by the tests (tables_equal), by test/bin/compare and by the demo. It knows
# nothing of capstan: each side writes every row as one line of canonical text, by
# functions of its own, and the two streams of lines are compared as they come. Memory
# does not grow with a table. It is meant for two sides that stand still.
#
# The text of a value, NULL as the bare word NULL:
#     integers, DECIMAL, YEAR    as they are
#     FLOAT, DOUBLE              17 digits, which tell it from its neighbours
#     BIT                        binary digits
#     DATE, DATETIME, TIMESTAMP  ISO, six fractional digits, TIMESTAMP in UTC
#     TIME                       [-]hours:minutes:seconds, six fractional digits
#     characters, ENUM, SET      as a JSON string
#     binary                     hexadecimal
#     GEOMETRY                   hexadecimal, SRID and WKB, as MySQL stores it
#     VECTOR                     hexadecimal, the numbers as MySQL stores them
#     JSON                       as MySQL writes it, which is how jsonb does it too, but
#                                for numbers in scientific notation: those are expanded
# A zero or partial date counts as NULL, the default policy of a pipeline.
#
# Order: by the primary key where both sides must order it alike (numbers, dates,
# binary), else both streams are sorted by byte.

package CapstanTest::Compare;

use strict;
use warnings;

use Carp qw(croak);
use File::Temp ();
use POSIX ();

# Types whose order is the same in MySQL and Postgres.
my %same_order = map { $_ => 1 } qw(tinyint smallint mediumint int bigint decimal date
  datetime timestamp time year binary varbinary);

my $geometry = qr/^(?:geometry|point|linestring|polygon|multipoint|multilinestring|multipolygon|geomcollection)$/;

# compare(mysql => \@client, psql => \@client, tables => \@names, target => \%map):
# one hash for each table: table, rows, equal, difference. A name is 'schema.table' or
# 'schema.*'; target maps 'schema.table' to where it is in Postgres when that differs.
# Dies when there is no such table, or a side cannot be read.
sub compare
{
	my (%opt) = @_;
	my @result;

	for my $table (_expand($opt{mysql}, @{ $opt{tables} }))
	{
		my $result = _compare_table($opt{mysql}, $opt{psql}, $table,
			($opt{target} // {})->{$table} // $table);
		$opt{progress}->($result) if $opt{progress};
		push @result, $result;
	}
	return \@result;
}

sub _expand
{
	my ($mysql, @names) = @_;
	my @tables;

	for my $name (@names)
	{
		my ($schema, $table) = $name =~ /^([^.]+)\.(.+)$/ or croak "not schema.table: $name";
		if ($table eq '*')
		{
			my @found = _mysql_rows($mysql, 'SELECT table_name FROM information_schema.tables '
				  . 'WHERE table_schema = ' . _literal($schema)
				  . " AND table_type = 'BASE TABLE' ORDER BY table_name");
			croak "no tables in MySQL schema $schema" unless @found;
			push @tables, map { "$schema.$_->[0]" } @found;
		}
		else
		{
			push @tables, $name;
		}
	}
	return @tables;
}

sub _compare_table
{
	my ($mysql, $psql, $source, $target) = @_;
	my ($columns, $key) = _mysql_columns($mysql, $source);
	my $types = _postgres_columns($psql, $target);

	for my $c (@$columns)
	{
		return { table => $source, rows => 0, equal => 0, difference => "no column $c->{name} in Postgres" }
		  unless $types->{ $c->{name} };
	}
	my @extra = grep { my $name = $_; !grep { $_->{name} eq $name } @$columns } sort keys %$types;
	return { table => $source, rows => 0, equal => 0, difference => "more columns in Postgres: @extra" }
	  if @extra;

	my $ordered = @$key && !grep { !$same_order{ $_->{type} } } @$key;
	my $my_command = _mysql_command($mysql, $source, $columns, $ordered ? $key : []);
	my $pg_command = _postgres_command($psql, $target, $columns, $types, $ordered ? $key : []);
	if (!$ordered)
	{
		$_ = "$_ | LC_ALL=C sort -S 64M" for $my_command, $pg_command;
	}
	my ($rows, $equal) = _same_lines($my_command, $pg_command);
	return { table => $source, rows => $rows, equal => 1 } if $equal;
	return {
		table => $source, rows => $rows, equal => 0,
		difference => _difference($my_command, $pg_command),
	};
}

# Read both streams side by side: the number of lines that were equal, and whether all
# were.
sub _same_lines
{
	my ($my_command, $pg_command) = @_;
	my ($rows, $equal) = (0, 1);

	my $my_out = _open_pipe($my_command);
	my $pg_out = _open_pipe($pg_command);
	while (1)
	{
		my $a = <$my_out>;
		my $b = <$pg_out>;
		last unless defined $a || defined $b;
		if (!defined $a || !defined $b || $a ne $b)
		{
			$equal = 0;
			last;
		}
		$rows++;
	}
	# A side that ended early because it failed must not count as a side that ended.
	if ($equal)
	{
		close $my_out or croak "reading MySQL failed: $my_command";
		close $pg_out or croak "reading Postgres failed: $pg_command";
	}
	return ($rows, $equal);
}

sub _open_pipe
{
	my ($command) = @_;

	open(my $out, '-|:raw', 'bash', '-c', "set -o pipefail; $command") or croak "bash: $!";
	return $out;
}

# The first lines that one side has and the other has not.
sub _difference
{
	my ($my_command, $pg_command) = @_;
	my $dir = File::Temp->newdir('capstan-compare.XXXXXX', TMPDIR => 1);
	my ($text, $lines, %count) = ('', 0, '<' => 0, '>' => 0);

	for ([ $my_command, 'my' ], [ $pg_command, 'pg' ])
	{
		my ($command, $file) = @$_;
		system('bash', '-c', "set -o pipefail; $command | LC_ALL=C sort -S 64M >$dir/$file") == 0
		  or croak "reading failed: $command";
	}
	open(my $diff, '-|:raw', 'diff', '--speed-large-files', "$dir/my", "$dir/pg") or croak "diff: $!";
	while (my $line = <$diff>)
	{
		next unless $line =~ /^([<>]) (.*)/s;
		$count{$1}++;
		next if $lines++ >= 12;
		my $row = $2;
		chomp $row;
		$row = substr($row, 0, 400) . '...' if length $row > 400;
		$text .= ($1 eq '<' ? "\n  source: " : "\n  target: ") . $row;
	}
	close $diff;
	# Same rows in another order would be a fault of this comparison.
	croak 'the sides differ in nothing but the order of rows' unless $lines;
	utf8::decode($text);
	return "$count{'<'} rows only in the source, $count{'>'} only in the target:$text";
}

# Columns of a MySQL table in order, and those of its primary key.
sub _mysql_columns
{
	my ($mysql, $table) = @_;
	my ($schema, $name) = split /\./, $table, 2;
	my (@columns, %by_name, @key);
	my $where = 'WHERE table_schema = ' . _literal($schema) . ' AND table_name = ' . _literal($name);

	for my $row (_mysql_rows($mysql, 'SELECT column_name, data_type, column_type, '
			. "COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0) FROM information_schema.columns $where "
			. 'ORDER BY ordinal_position'))
	{
		my %c;
		@c{qw(name type full precision scale)} = @$row;
		push @columns, \%c;
		$by_name{ $c{name} } = \%c;
	}
	croak "no table $table in MySQL" unless @columns;
	for my $row (_mysql_rows($mysql, "SELECT column_name FROM information_schema.statistics $where "
			. "AND index_name = 'PRIMARY' ORDER BY seq_in_index"))
	{
		push @key, $by_name{ $row->[0] };
	}
	return (\@columns, \@key);
}

# Name => type of each column of a Postgres table; a domain counts as what it is over.
sub _postgres_columns
{
	my ($psql, $table) = @_;
	my ($schema, $name) = split /\./, $table, 2;
	my %types;

	my ($rc, $out, $err) = CapstanTest::run_command(
		[ @$psql, '-qAt', '-F', "\t", '-v', "schema=$schema", '-v', "name=$name" ],
		bytes => 1, stdin => q{
		SELECT a.attname, t.typname, COALESCE(b.typname, t.typname), t.typtype
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		  JOIN pg_namespace n ON n.oid = c.relnamespace
		  JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type b ON b.oid = t.typbasetype
		WHERE n.nspname = :'schema' AND c.relname = :'name' AND a.attnum > 0 AND NOT a.attisdropped;});
	croak "psql: $err" if $rc != 0;
	for my $line (split /\n/, $out)
	{
		my ($column, undef, $type) = split /\t/, $line;
		$types{$column} = $type;
	}
	croak "no table $table in Postgres" unless %types;
	return \%types;
}

# A shell command that writes the rows of a MySQL table.
sub _mysql_command
{
	my ($mysql, $table, $columns, $key) = @_;
	my ($schema, $name) = map { _mysql_name($_) } split /\./, $table, 2;
	my $sql = 'SELECT CONCAT_WS(CHAR(9), '
	  . join(', ', map { 'COALESCE(' . _mysql_text($_) . ", 'NULL')" } @$columns)
	  . ") FROM $schema.$name"
	  . (@$key ? ' ORDER BY ' . join(', ', map { _mysql_name($_->{name}) } @$key) : '');
	my $command = _shell(@$mysql, '--batch', '--raw', '--quick', '--skip-column-names',
		"--init-command=SET time_zone = '+00:00', sql_mode = '', max_execution_time = 0, sql_select_limit = 18446744073709551615",
		'-e', $sql);

	return $command . _filter($columns);
}

# What the text of numbers needs before it can be compared.
sub _filter
{
	my ($columns) = @_;
	my @json = grep { $columns->[$_]{type} eq 'json' } 0 .. $#$columns;
	my @float = grep { $columns->[$_]{type} =~ /^(?:float|double)$/ } 0 .. $#$columns;

	return '' unless @json || @float;
	return ' | ' . _shell($^X, __FILE__, '--filter', join(',', @json), join(',', @float));
}

# CSV with a quote and a delimiter that are in no value, since the values are canonical
# text without control characters, puts a line out as it is.
sub _postgres_command
{
	my ($psql, $table, $columns, $types, $key) = @_;
	my ($schema, $name) = map { _postgres_name($_) } split /\./, $table, 2;
	my @texts = map { 'coalesce(' . _postgres_text($_, $types->{ $_->{name} }) . ", 'NULL')" } @$columns;
	my @parts;

	# a function has 100 arguments at most
	while (my @some = splice @texts, 0, 90) { push @parts, "concat_ws(E'\\t', " . join(', ', @some) . ')' }
	my $sql = "COPY (SELECT concat_ws(E'\\t', " . join(', ', @parts) . ") FROM $schema.$name"
	  . (@$key ? ' ORDER BY ' . join(', ', map { _postgres_name($_->{name}) } @$key) : '')
	  . ") TO STDOUT (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01', ESCAPE E'\\x01', NULL 'NULL')";

	return _shell('env', 'PGOPTIONS=-c timezone=UTC -c datestyle=ISO -c client_encoding=UTF8 '
		  . '-c extra_float_digits=1 -c bytea_output=hex -c statement_timeout=0 -c intervalstyle=postgres',
		@$psql, '-qAt', '-v', 'ON_ERROR_STOP=1', '-c', $sql) . _filter($columns);
}

# The text of a column in MySQL.
sub _mysql_text
{
	my ($c) = @_;
	my ($q, $type) = (_mysql_name($c->{name}), $c->{type});

	if ($type =~ /^(?:tinyint|smallint|mediumint|int|bigint)$/)
	{
		# ZEROFILL would show.
		return $c->{full} =~ /zerofill/ ? "CAST(CAST($q AS UNSIGNED) AS CHAR)" : "CAST($q AS CHAR)";
	}
	return "CAST($q + 0 AS CHAR)" if $type eq 'year';
	return $c->{full} =~ /zerofill/
	  ? "CAST(CAST($q AS DECIMAL($c->{precision},$c->{scale})) AS CHAR)" : "CAST($q AS CHAR)"
	  if $type eq 'decimal';
	# CAST(... AS CHAR) of a computed double has too few digits; JSON has them all.
	return "CAST(JSON_ARRAY(CAST($q AS DOUBLE)) AS CHAR)" if $type =~ /^(?:float|double)$/;
	return "LPAD(BIN($q + 0), $c->{precision}, '0')" if $type eq 'bit';
	return "IF(MONTH($q) = 0 OR DAYOFMONTH($q) = 0, NULL, DATE_FORMAT($q, '%Y-%m-%d'))" if $type eq 'date';
	return "IF(MONTH($q) = 0 OR DAYOFMONTH($q) = 0, NULL, DATE_FORMAT($q, '%Y-%m-%d %H:%i:%s.%f'))"
	  if $type =~ /^(?:datetime|timestamp)$/;
	return "CAST(CAST($q AS TIME(6)) AS CHAR)" if $type eq 'time';
	return "JSON_QUOTE(CONVERT($q USING utf8mb4))"
	  if $type =~ /^(?:char|varchar|tinytext|text|mediumtext|longtext|enum|set)$/;
	return "HEX($q)" if $type =~ /^(?:binary|varbinary|tinyblob|blob|mediumblob|longblob|vector)$/ || $type =~ $geometry;
	return "CAST($q AS CHAR)" if $type eq 'json';
	croak "column $c->{name}: no canonical text for MySQL type $c->{full}";
}

# The text of the same column in Postgres, which has the type $pg there.
sub _postgres_text
{
	my ($c, $pg) = @_;
	my ($q, $type) = (_postgres_name($c->{name}), $c->{type});
	my $number = $pg =~ /^(?:int2|int4|int8|numeric)$/;
	my $text = $pg =~ /^(?:text|varchar|bpchar|citext)$/;

	if ($type =~ $geometry)
	{
		return "upper(encode($q, 'hex'))" if $pg eq 'bytea';
		return "upper(encode(" . _little_endian("int4send(ST_SRID($q))") . " || ST_AsBinary($q, 'NDR'), 'hex'))" if $pg eq 'geometry';
	}
	elsif ($type =~ /int$|^year$|^decimal$/)
	{
		return "$q\::text" if $number;
		return "$q\::int::text" if $pg eq 'bool';
	}
	elsif ($type =~ /^(?:float|double)$/)
	{
		return "$q\::float8::text" if $pg =~ /^float[48]$/;
	}
	elsif ($type eq 'bit')
	{
		return "$q\::text" if $pg =~ /^(?:bit|varbit)$/;
		return "$q\::int::text" if $pg eq 'bool';
		return "right($q\::int8::bit(64)::text, $c->{precision})" if $number;
		return "right(('x' || lpad(encode($q, 'hex'), 16, '0'))::bit(64)::text, $c->{precision})"
		  if $pg eq 'bytea';
	}
	elsif ($type eq 'date')
	{
		return _finite($q, "to_char($q, 'YYYY-MM-DD')") if $pg eq 'date';
	}
	elsif ($type eq 'datetime')
	{
		return _finite($q, "to_char($q, 'YYYY-MM-DD HH24:MI:SS.US')") if $pg eq 'timestamp';
	}
	elsif ($type eq 'timestamp')
	{
		return _finite($q, "to_char($q AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')")
		  if $pg eq 'timestamptz';
	}
	elsif ($type eq 'time')
	{
		# Hours only: to_char shows neither days nor months, and so tells them apart.
		return "CASE WHEN $q < interval '0' THEN '-' || to_char(-$q, 'HH24:MI:SS.US') "
		  . "ELSE to_char($q, 'HH24:MI:SS.US') END" if $pg eq 'interval';
		return "to_char($q\::interval, 'HH24:MI:SS.US')" if $pg eq 'time';
	}
	elsif ($type =~ /^(?:binary|varbinary|tinyblob|blob|mediumblob|longblob)$/)
	{
		return "upper(encode($q, 'hex'))" if $pg eq 'bytea';
		return "upper(replace($q\::text, '-', ''))" if $pg eq 'uuid';
	}
	elsif ($type eq 'vector')
	{
		# of an array without elements there is nothing to aggregate
		return "CASE WHEN $q IS NOT NULL THEN (SELECT coalesce(upper(string_agg(encode(" . _little_endian('float4send(x)') . ", 'hex'), '' ORDER BY n)), '') FROM unnest($q\::real[]) WITH ORDINALITY AS u (x, n)) END"
		  if $pg =~ /^(?:_float4|vector)$/;
	}
	elsif ($type eq 'json')
	{
		return "$q\::text::jsonb::text" if $text || $pg =~ /^jsonb?$/;
	}
	else
	{
		return "to_json(array_to_string($q, ','))::text" if $pg =~ /^_/;
		return "to_json($q\::text)::text";
	}
	croak "column $c->{name}: no canonical text for Postgres type $pg of MySQL type $c->{full}";
}

# Four bytes the other way round.
sub _little_endian
{
	my ($bytes) = @_;
	return join ' || ', map { "substr($bytes, $_, 1)" } 4, 3, 2, 1;
}

sub _finite
{
	my ($q, $text) = @_;
	return "CASE WHEN isfinite($q) THEN $text ELSE $q\::text END";
}

sub _mysql_rows
{
	my ($mysql, $sql) = @_;
	my ($rc, $out, $err) = CapstanTest::run_command(
		[ @$mysql, '--batch', '--raw', '--skip-column-names' ], stdin => $sql, bytes => 1);

	croak "mysql: $err" if $rc != 0;
	return map { [ split /\t/, $_, -1 ] } split /\n/, $out;
}

sub _literal
{
	my ($text) = @_;
	$text =~ s/(['\\])/\\$1/g;
	return "'$text'";
}

sub _mysql_name
{
	my ($name) = @_;
	$name =~ s/`/``/g;
	return "`$name`";
}

sub _postgres_name
{
	my ($name) = @_;
	$name =~ s/"/""/g;
	return qq("$name");
}

sub _shell
{
	return join ' ', map { my $word = $_; $word =~ s/'/'\\''/g; "'$word'" } @_;
}

# In a JSON document, numbers in scientific notation become plain ones, as jsonb keeps
# them, and -0.0 becomes 0.0, which is all that numeric knows.
sub _expand_numbers
{
	my ($json) = @_;

	$json =~ s{("(?:[^"\\]++|\\.)*+")|(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)}
		{defined $1 ? $1 : _expand_number($2)}ge;
	return $json;
}

sub _expand_number
{
	my ($number) = @_;
	my ($sign, $whole, $fraction, $exponent) = $number =~ /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/
	  or return $number;

	$fraction //= '';
	$exponent = int($exponent // 0);
	my $scale = length($fraction) - $exponent;
	my $digits = "$whole$fraction";
	$digits .= '0' x -$scale if $scale < 0;
	$scale = 0 if $scale < 0;
	$digits = '0' x ($scale + 1 - length $digits) . $digits if length $digits <= $scale;
	$whole = substr($digits, 0, length($digits) - $scale);
	$fraction = substr($digits, length($digits) - $scale);
	$whole =~ s/^0+(?=\d)//;
	$sign = '' if "$whole$fraction" =~ /^0*$/;
	return $sign . $whole . ($scale ? ".$fraction" : '');
}

# The text of a float, as MySQL writes it in a JSON array or Postgres by itself, to 17 digits:
# where two texts of the same length are both nearest to a value, the two sides choose differently.
sub _normal_float
{
	my ($text) = @_;
	my ($number) = $text =~ /^\[?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\]?$/ or return $text eq '[null]' ? 'NULL' : $text;

	return sprintf('%.17g', scalar POSIX::strtod($number));
}

# Called as a program, it is the filter for the JSON and float columns of a stream.
unless (caller)
{
	my (undef, $json, $float) = @ARGV;
	my @json = split /,/, $json;
	my @float = split /,/, $float;

	binmode STDIN;
	binmode STDOUT;
	while (my $line = <STDIN>)
	{
		if (@float || $line =~ /[0-9][eE][-+]?[0-9]|-0\.0/)
		{
			chomp $line;
			my @fields = split /\t/, $line, -1;
			$fields[$_] = _expand_numbers($fields[$_]) for @json;
			$fields[$_] = _normal_float($fields[$_]) for @float;
			$line = join("\t", @fields) . "\n";
		}
		print $line;
	}
}

1;
