# One value, whichever way it came: tables whose values arrive by the copy and by the stream.
#
#     my $numbers = CapstanTest::BothWays->new($my, $pg, 'v.numbers', [
#         [ 'a', 'TINYINT UNSIGNED', 'smallint', [ 0, 255 ] ],
#         [ 'y', 'YEAR', 'smallint', [ [ '0000', '0' ], 1901 ] ] ]);
#     $numbers->fill;           before the snapshot: the table, and rows to be copied
#     $numbers->stream;         after it: the same values by INSERT and by UPDATE, and DELETE
#     $numbers->check;          the tests
#
# A column is [ name, MySQL type, type expected in Postgres, values ]; a value is [ SQL
# literal of MySQL, text expected in Postgres ], or just the literal where that is the
# same (but for the quotes). An expected undef is NULL. Row n of the table has the n-th value of each
# column, columns with fewer values begin again; one more row is NULL wherever it may be.
#
# Rows by id: 1.. copied; 1000.. inserted by the stream; 2000.. copied, then deleted;
# 3000.. copied with other values, then updated; 4000.. copied, then updated in the column
# "touched" alone, so that the values come back through the log. All but the 2000s must be
# what is expected, and their values equal byte by byte.
#
# Beside that, what every script with pipelines needs: see the functions at the end.

package CapstanTest::BothWays;

use strict;
use warnings;
use utf8;

use Exporter qw(import);
use JSON::PP ();
use Test::More;

our @EXPORT = qw(start_pipeline sync_pipeline drop_pipeline halted_by expect_halt no_surprise json_rows);

# Of all sessions that write values: nothing is rounded, refused or shifted.
our $SESSION = "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = '';";

# options: table => 'CHARSET latin1', session => SQL before all of it.
sub new
{
	my ($class, $my, $pg, $name, $columns, %opt) = @_;
	my $self = bless { my => $my, pg => $pg, name => $name, table => $opt{table} // '',
		session => $SESSION . ($opt{session} // ''), columns => [] }, $class;

	for my $c (@$columns)
	{
		my ($column, $type, $pg_type, $values) = @$c;
		push @{ $self->{columns} }, {
			name => $column, type => $type, pg_type => $pg_type,
			values => [ map { ref $_ ? $_ : [ $_, _bare($_) ] } @$values ] };
		$self->{rows} = @$values if @$values > ($self->{rows} // 0);
	}
	return $self;
}

sub name { $_[0]{name} }

sub _bare
{
	my ($literal) = @_;
	return $literal =~ /^'(.*)'$/s ? $1 : $literal;
}

# The value of a column in row n, 1 .. rows + 1.
sub _value
{
	my ($self, $c, $n) = @_;
	my $values = $c->{values};

	return [ 'NULL', undef ] if $n > $self->{rows} && $c->{type} !~ /NOT NULL/;
	return $values->[ ($n - 1) % @$values ];
}

sub _quoted { my ($name) = @_; $name =~ s/`/``/g; return "`$name`" }

sub _insert
{
	my ($self, $base, $shift) = @_;
	my @rows;

	for my $n (1 .. $self->{rows} + 1)
	{
		my $from = ($n - 1 + $shift) % ($self->{rows} + 1) + 1;
		push @rows, '(' . join(', ', $base + $n, 0, map { $self->_value($_, $from)->[0] } @{ $self->{columns} }) . ')';
	}
	return "INSERT INTO $self->{name} VALUES " . join(",\n", @rows) . ";\n";
}

sub fill
{
	my ($self) = @_;
	my ($schema) = $self->{name} =~ /^([^.]+)\./;

	$self->{my}->sql("$self->{session} CREATE DATABASE IF NOT EXISTS $schema; CREATE TABLE $self->{name} (id INT PRIMARY KEY, touched INT"
		  . join('', map { ', ' . _quoted($_->{name}) . " $_->{type}" } @{ $self->{columns} })
		  . ") $self->{table};\n"
		  . $self->_insert(0, 0) . $self->_insert(2000, 0) . $self->_insert(3000, 1) . $self->_insert(4000, 0));
}

sub stream
{
	my ($self) = @_;
	my $sql = $self->_insert(1000, 0) . "DELETE FROM $self->{name} WHERE id BETWEEN 2000 AND 2999;\n";

	for my $n (1 .. $self->{rows} + 1)
	{
		$sql .= "UPDATE $self->{name} SET "
		  . join(', ', map { _quoted($_->{name}) . ' = ' . $self->_value($_, $n)->[0] } @{ $self->{columns} })
		  . ' WHERE id = ' . (3000 + $n) . ";\n";
	}
	$self->{my}->sql("$self->{session} $sql UPDATE $self->{name} SET touched = 1 WHERE id > 4000");
}

sub _pg_name { my ($name) = @_; $name =~ s/"/""/g; return qq("$name") }

sub check
{
	my ($self) = @_;
	my @columns = @{ $self->{columns} };
	my ($schema, $table) = split /\./, $self->{name}, 2;
	my $count = $self->{rows} + 1;

	my %types = map { $_->[0] => $_->[1] } json_rows($self->{pg}, sprintf(q{
		SELECT json_build_array(attname, format_type(atttypid, atttypmod)) FROM pg_attribute
		WHERE attrelid = '%s.%s'::regclass AND attnum > 0}, _pg_name($schema), _pg_name($table)));
	my %row = map { $_->[0] => $_ } json_rows($self->{pg}, 'SELECT jsonb_build_array(id)'
		  . join('', map { ' || jsonb_build_array(' . _pg_name($_->{name}) . '::text)' } @columns) . " FROM $self->{name}");

	is(scalar(keys %row), 4 * $count, "$self->{name}: rows");
	for my $i (0 .. $#columns)
	{
		my $c = $columns[$i];
		my @wanted = map { $self->_value($c, $_)->[1] } 1 .. $count;

		is($types{ $c->{name} }, $c->{pg_type}, "$self->{name}.$c->{name}, $c->{type}: type");
		for ([ 0, 'copied' ], [ 1000, 'inserted' ], [ 3000, 'updated' ], [ 4000, 'touched' ])
		{
			my ($base, $what) = @$_;
			is_deeply([ map { $row{ $base + $_ }[ $i + 1 ] } 1 .. $count ], \@wanted, "$self->{name}.$c->{name}, $c->{type}: $what");
		}
	}
	my $fields = join ', ', map { _pg_name($_->{name}) } @columns;
	is($self->{pg}->value("SELECT count(*) FROM $self->{name} a, $self->{name} b WHERE a.id <= $count AND b.id % 1000 = a.id "
			. "AND (SELECT r FROM (SELECT " . join(', ', map { 'a.' . _pg_name($_->{name}) } @columns) . ") r) "
			. "*<> (SELECT r FROM (SELECT " . join(', ', map { 'b.' . _pg_name($_->{name}) } @columns) . ') r)'),
		0, "$self->{name}: copied and streamed values are equal byte by byte");
}

# ---- pipelines ----

# json_rows($pg, $sql): each row of a query is one JSON value, decoded; values may hold anything.
sub json_rows
{
	my ($pg, $sql) = @_;
	my $json = JSON::PP->new->allow_nonref;
	my $settings = "SET timezone = 'UTC'; SET intervalstyle = postgres; SET datestyle = ISO; SET bytea_output = hex; SET extra_float_digits = 1;";

	return map { $json->decode($_) } grep { $_ ne '' } split /\n/, $pg->safe_psql("$settings $sql");
}

# Create, start, and wait for the snapshot; options are those of create_pipeline, as SQL.
sub start_pipeline
{
	my ($pg, $name, $tables, %opt) = @_;
	my $list = join ',', map { my $t = $_; $t =~ s/(["\\])/\\$1/g; $t =~ s/'/''/g; qq("$t") } @$tables;
	my $server = delete $opt{server} // 'source';
	my $timeout = delete $opt{timeout} // '180 s';
	my $options = join '', map { ", $_ => $opt{$_}" } sort keys %opt;

	$pg->safe_psql("SELECT capstan.create_pipeline('$name', server => '$server', tables => '{$list}'$options)");
	$pg->safe_psql("SELECT capstan.start_pipeline('$name')");
	$pg->safe_psql("SELECT capstan.wait_for_snapshot('$name', timeout => '$timeout')") if $timeout;
}

# Everything that the source has committed by now is applied. A test that fails otherwise.
sub sync_pipeline
{
	my ($pg, $name, $timeout) = @_;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_source('$name', timeout => '" . ($timeout // '180 s') . "')");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($rc, 0, "$name is up to date") or diag($err);
	return $rc == 0;
}

sub drop_pipeline
{
	my ($pg, $name) = @_;

	$pg->safe_psql("SELECT capstan.stop_pipeline('$name')");
	# drop_pipeline waits for some seconds only
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = '$name'");
	$pg->safe_psql("SELECT capstan.drop_pipeline('$name')");
}

# The incident that halted a pipeline, waited for: a hash, or undef.
sub halted_by
{
	my ($pg, $name, $timeout) = @_;

	$pg->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$name'", 'halted', $timeout)
	  or return;
	my ($incident) = json_rows($pg, "SELECT row_to_json(i) FROM capstan.incident i JOIN capstan.pipeline p ON p.halted_by = i.id WHERE p.name = '$name'");
	return $incident;
}

# The pipeline halts with an incident of this class, and all of it matches the expressions.
sub expect_halt
{
	my ($pg, $name, $class, @matches) = @_;
	my $incident = halted_by($pg, $name);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($incident, "$name halts") or return;
	is($incident->{class}, $class, "$name: incident of class $class");
	my $text = join "\n", map { $incident->{$_} // '' } qw(message detail hint source_table source_statement);
	like($text, $_, "$name: the incident says $_") for @matches;
	return $incident;
}

sub no_surprise
{
	my ($pg, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($pg->value("SELECT sum(rows_missing) + sum(rows_existing) FROM capstan.table_status WHERE pipeline = '$name'"),
		0, "$name: no row was a surprise");
	is($pg->incidents("pipeline = '$name' AND severity IN ('halt', 'retry')"), '', "$name: nothing failed");
}

1;
