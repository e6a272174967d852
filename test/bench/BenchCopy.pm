# make bench, the copy: rows that are in MySQL, into an empty Postgres table with its primary key.
#
# Side by side: COPY from a file that Postgres reads itself; capstan with 1, 2 and 4 copy workers; INSERT ... SELECT through
# mysql_fdw; pgloader. Then the same with two secondary indexes: those of capstan are built after the copy, for
# mysql_fdw they are there (as INSERT ... SELECT into capstan's table would have it) or are made by hand afterwards.
#
# Seconds are from the command to the end: start_pipeline to wait_for_snapshot, indexes and ANALYZE included. What starting takes
# is measured by the same on a table without rows, and taken off in "net".
#
# pgloader 3.6 cannot log in to MySQL 9: it reads a MariaDB that has the same rows.

package BenchCopy;

use strict;
use warnings;
use utf8;

use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use Bench;
use MariaDB;

my $COLUMNS = 'id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, a VARCHAR(120) NOT NULL, b VARCHAR(60) NOT NULL';

# 215 bytes a row, as MySQL counts them. Not logged: no stream is to carry them.
sub _source
{
	my ($bench) = @_;
	my $rows = $bench->rows;
	my @fill;

	for (my $from = 0; $from < $rows; $from += 1_000_000)
	{
		my $count = $rows - $from < 1_000_000 ? $rows - $from : 1_000_000;

		push @fill, "INSERT INTO plain SELECT n + $from, n * 7, LEFT(SHA2(n + $from, 512), 120), LEFT(SHA2(-n - $from, 256), 60) FROM lib.m WHERE n <= $count";
	}
	$bench->my->sql("CREATE DATABASE copy; USE copy; SET SESSION sql_log_bin = 0; CREATE TABLE plain ($COLUMNS); CREATE TABLE none ($COLUMNS);"
		  . "CREATE TABLE indexed ($COLUMNS, KEY n (n), KEY b (b));" . join('', map { "$_;" } @fill)
		  . 'INSERT INTO indexed SELECT * FROM plain; ANALYZE NO_WRITE_TO_BINLOG TABLE plain, indexed');
}

sub run
{
	my ($bench) = @_;
	my $db = $bench->database('copy');
	my %got;

	_source($bench);
	_reference($bench, $db);
	my @ways = grep { !$bench->{ways} || $_->{name} =~ $bench->{ways} } _ways($bench, $db);
	for my $repetition (1 .. $bench->repeat)
	{
		# every other time in the other order
		for my $way ($repetition % 2 ? @ways : reverse @ways)
		{
			next if $way->{missing} || $way->{once} && $repetition > 1;
			push @{ $got{ $way->{name} } }, $way->{run}->();
		}
	}
	_print($bench, \@ways, \%got);
	$bench->my->sql('DROP DATABASE copy');
	$bench->{mariadb}->destroy if $bench->{mariadb};
	$bench->pg->safe_psql('DROP DATABASE copy');
	unlink $bench->{file};
	return \%got;
}

# What all others are compared with: a copy by capstan that is compared with the source value by value, and the file made of it.
sub _reference
{
	my ($bench, $db) = @_;

	$bench->{file} = $bench->pg->data . '/bench.copy';
	$db->safe_psql('CREATE SCHEMA other');
	for my $table ('plain', 'indexed')
	{
		_capstan($bench, $db, $table, 2);
		tables_equal($bench->my, $db, ["copy.$table"], "copy of $table");
		$db->safe_psql("CREATE TABLE other.reference AS SELECT * FROM copy.plain; COPY copy.plain TO '$bench->{file}'") if $table eq 'plain';
	}
	$bench->{reference} = Bench::digest($db, 'other.reference');
	is(Bench::digest($db, 'copy.indexed'), $bench->{reference}, 'both tables have the same rows');
	_drop_copied($bench, $db);
}

# Every measured copy is compared with the reference.
sub _same { my ($bench, $db, $table, $name) = @_; is(Bench::digest($db, $table), $bench->{reference}, "$name: contents are those of the source") }

# One copy by a pipeline; the tables stay.
sub _capstan
{
	my ($bench, $db, $table, $workers) = @_;

	_drop_copied($bench, $db);
	$bench->set($db, 'capstan.copy_workers' => $workers);
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{copy.$table}')");
	$bench->settle;
	my $cost = $bench->cost_of(sub {
			my ($tick) = @_;

			$bench->start_pipeline($db);
			my $wait = $db->background("SELECT capstan.wait_for_snapshot('p', timeout => '3600 s')");
			while ($wait->running)
			{
				$tick->();
				sleep 0.01;
			}
			die $wait->errors if $wait->wait != 0;
		});
	@$cost{qw(hold waited)} = @{ ($db->query('SELECT max(lock_hold_worst_us) / 1000.0, max(lock_wait_worst_us) / 1000.0 FROM capstan.pipeline_table'))[0] };
	$bench->drop_pipeline($db);
	return $cost;
}

sub _drop_copied { $_[1]->safe_psql('SET client_min_messages = error; DROP SCHEMA IF EXISTS copy CASCADE') }

# A table like capstan's, for others to fill.
sub _other_table
{
	my ($bench, $db, $indexes) = @_;

	$db->safe_psql("DROP TABLE IF EXISTS other.t; CREATE TABLE other.t (id bigint PRIMARY KEY, n integer NOT NULL, a varchar(120) NOT NULL, b varchar(60) NOT NULL)");
	$db->safe_psql('CREATE INDEX ON other.t (n); CREATE INDEX ON other.t (b)') if $indexes;
	$bench->settle;
}

sub _sql
{
	my ($bench, $db, $name, $sql, $indexes) = @_;

	_other_table($bench, $db, $indexes);
	my $cost = $bench->cost_of(sub { $db->safe_psql($sql) });
	_same($bench, $db, 'other.t', $name);
	return $cost;
}

# Name and code of all that is measured; missing => why it cannot be.
sub _ways
{
	my ($bench, $db) = @_;
	my $copy = "COPY other.t FROM '$bench->{file}'";
	my $foreign = 'INSERT INTO other.t SELECT * FROM other.source';
	my $indexes = 'CREATE INDEX ON other.t (n); CREATE INDEX ON other.t (b); ANALYZE other.t';
	my $fdw = _mysql_fdw($bench, $db);
	my $loader = MariaDB::installed() && -x '/usr/bin/pgloader' ? '' : 'pgloader or MariaDB is not installed';
	my @ways = ({ name => 'COPY from a file', run => sub { _sql($bench, $db, 'COPY', $copy) } });

	for my $table ('plain', 'indexed')
	{
		for my $workers ($table eq 'plain' ? (1, 2, 4) : (1, 2))
		{
			my $name = "capstan, $workers worker" . ($workers > 1 ? 's' : '') . ($table eq 'plain' ? '' : ', indexes after');

			push @ways, {
				name => $name, start => 1, table => $table,
				run => sub { my $cost = _capstan($bench, $db, $table, $workers); _same($bench, $db, "copy.$table", $name); return $cost } };
		}
		push @ways, { name => 'mysql_fdw', table => $table, missing => $fdw, run => sub { _sql($bench, $db, 'mysql_fdw', $foreign) } },
		  { name => 'pgloader, from MariaDB (once)', once => 1, table => $table, missing => $loader, run => sub { _pgloader($bench, $db) } },
		  { name => 'COPY from a file, indexes after', table => 'indexed', run => sub { _sql($bench, $db, 'COPY, indexes after', "$copy; $indexes") } }
		  if $table eq 'plain';
		push @ways, { name => 'mysql_fdw, indexes there', table => $table, missing => $fdw, run => sub { _sql($bench, $db, 'mysql_fdw, indexes there', $foreign, 1) } },
		  { name => 'mysql_fdw, indexes after', table => $table, missing => $fdw, run => sub { _sql($bench, $db, 'mysql_fdw, indexes after', "$foreign; $indexes") } }
		  if $table eq 'indexed';
	}
	push @ways, { name => 'start-up', table => 'none', run => sub { _capstan($bench, $db, 'none', 1) } };
	return @ways;
}

# '', or why there is none.
sub _mysql_fdw
{
	my ($bench, $db) = @_;

	return 'not installed' unless $db->value("SELECT count(*) FROM pg_available_extensions WHERE name = 'mysql_fdw'");
	my ($rc, $out, $err) = $db->psql(sprintf(q{
		CREATE EXTENSION mysql_fdw;
		CREATE SERVER other FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '%s', port '%s', fetch_size '10000');
		CREATE USER MAPPING FOR CURRENT_USER SERVER other OPTIONS (username 'capstan', password 'sesam');
		CREATE FOREIGN TABLE other.source (id bigint, n integer, a varchar(120), b varchar(60)) SERVER other OPTIONS (dbname 'copy', table_name 'plain');
		SELECT count(*) FROM (SELECT id FROM other.source LIMIT 1) s;}, $bench->my->host, $bench->my->port));

	return '' if $rc == 0;
	diag("mysql_fdw: $err");
	return 'not usable';
}

sub _pgloader
{
	my ($bench, $db) = @_;

	unless ($bench->{mariadb})
	{
		my $dump = File::Temp->newdir('capstan-bench.XXXXXX', TMPDIR => 1);

		chmod 0755, "$dump";
		$bench->{mariadb} = MariaDB->start;
		$bench->{mariadb}->sql("CREATE DATABASE copy; CREATE TABLE copy.plain ($COLUMNS) CHARACTER SET utf8mb4");
		system('cp', $bench->{file}, "$dump/rows") == 0 or die "cp: $?";
		chmod 0644, "$dump/rows";
		$bench->{mariadb}->sql("LOAD DATA INFILE '$dump/rows' INTO TABLE copy.plain");
	}
	_other_table($bench, $db);
	my $cost = $bench->cost_of(sub {
			my ($rc, $out, $err) = CapstanTest::run_command([ 'pgloader', '--quiet', $bench->{mariadb}->pgloader_file($db, 'copy', 'plain', 'other', 't') ]);

			die "pgloader: $out$err" if $rc != 0;
		});
	_same($bench, $db, 'other.t', 'pgloader');
	return $cost;
}

sub _print
{
	my ($bench, $ways, $got) = @_;
	my $rows = $bench->rows;
	my $start = Bench::median(map { $_->{seconds} } @{ $got->{'start-up'} });
	my $speed = sub {
		my ($way) = @_;
		my $seconds = Bench::median(map { $_->{seconds} } @{ $got->{ $way->{name} } // [] }) or return (undef, undef);
		my $net = $way->{start} ? $seconds - $start : $seconds;

		return ($seconds, $net);
	};
	my %by = map { $_->{name} => [ $speed->($_) ] } @$ways;
	my %base = (plain => 'COPY from a file', indexed => 'COPY from a file, indexes after');
	my @lines;

	for my $way (grep { $_->{name} ne 'start-up' } @$ways)
	{
		my @cost = @{ $got->{ $way->{name} } // [] };
		my $table = $way->{table} // 'plain';
		my ($seconds, $net) = @{ $by{ $way->{name} } };
		my $middle = sub { my ($key) = @_; my $value = Bench::median(map { $_->{$key} } @cost); return $value };
		# the difference of so short times would tell nothing
		my $shown = defined $net && $net >= 0.1;
		my $base = $by{ $base{$table} } ? $by{ $base{$table} }[0] : undef;
		my $fdw = $by{ $table eq 'plain' ? 'mysql_fdw' : 'mysql_fdw, indexes there' }[0];
		my $memory = sub { my ($kind) = @_; return Bench::median(map { $_->{memory}{$kind} } @cost) };

		push @lines, [ $way->{name}, @cost
			? (sprintf('%.2f', $seconds), $shown ? (sprintf('%.2f', $net), Bench::thousands($rows / $net), $base ? sprintf('%.2f', $base / $net) : '') : ('too short', '', ''), $fdw ? sprintf('%.1f', $fdw / $seconds) : '',
				$way->{name} =~ /^COPY/ ? '' : $way->{name} =~ /pgloader/ ? 'not measured' : sprintf('%.2f', $middle->('mysql') / $rows * 1e6), sprintf('%.2f', $middle->('target') / $rows * 1e6), sprintf('%.0f', $middle->('wal') / $rows),
				$way->{start} ? sprintf('%.0f, %.0f', $memory->('pipeline') // 0, $memory->('copy') // 0) : '',
				$way->{start} ? sprintf('%.1f, %.1f', map { $middle->($_) } 'waited', 'hold') : '')
			: ($way->{missing}, ('') x 9) ];
	}
	$bench->table('copy', [ 'way', 'seconds', 'net', 'rows/s net', 'x COPY', 'x mysql_fdw (gross)', 'CPU s per M rows: MySQL', 'Postgres', 'WAL B/row', 'own MB: pipeline, copy worker', 'lock ms: wait, hold (worst)' ], \@lines,
		sprintf('%s rows of 215 bytes; medians of %d; start-up of a pipeline %.2f s.', Bench::thousands($rows), $bench->repeat, $start // 0));
}

1;
