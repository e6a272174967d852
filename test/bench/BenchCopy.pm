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
	my ($b) = @_;
	my $rows = $b->rows;
	my @fill;

	for (my $from = 0; $from < $rows; $from += 1_000_000)
	{
		my $count = $rows - $from < 1_000_000 ? $rows - $from : 1_000_000;

		push @fill, "INSERT INTO plain SELECT n + $from, n * 7, LEFT(SHA2(n + $from, 512), 120), LEFT(SHA2(-n - $from, 256), 60) FROM lib.m WHERE n <= $count";
	}
	$b->my->sql("CREATE DATABASE copy; USE copy; SET SESSION sql_log_bin = 0; CREATE TABLE plain ($COLUMNS); CREATE TABLE none ($COLUMNS);"
		  . "CREATE TABLE indexed ($COLUMNS, KEY n (n), KEY b (b));" . join('', map { "$_;" } @fill)
		  . 'INSERT INTO indexed SELECT * FROM plain; ANALYZE NO_WRITE_TO_BINLOG TABLE plain, indexed');
}

sub run
{
	my ($b) = @_;
	my $db = $b->database('copy');
	my %got;

	_source($b);
	_reference($b, $db);
	my @ways = _ways($b, $db);
	for my $repetition (1 .. $b->repeat)
	{
		# every other time in the other order
		for my $way ($repetition % 2 ? @ways : reverse @ways)
		{
			next if $way->{missing};
			push @{ $got{ $way->{name} } }, $way->{run}->();
		}
	}
	_print($b, \@ways, \%got);
	$b->my->sql('DROP DATABASE copy');
	$b->{mariadb}->destroy if $b->{mariadb};
	$b->pg->safe_psql('DROP DATABASE copy');
	unlink $b->{file};
	return \%got;
}

# What all others are compared with: a copy by capstan that is compared with the source value by value, and the file made of it.
sub _reference
{
	my ($b, $db) = @_;

	$b->{file} = $b->pg->data . '/bench.copy';
	$db->safe_psql('CREATE SCHEMA other');
	for my $table ('plain', 'indexed')
	{
		_capstan($b, $db, $table, 2);
		tables_equal($b->my, $db, ["copy.$table"], "copy of $table");
		$db->safe_psql("CREATE TABLE other.reference AS SELECT * FROM copy.plain; COPY copy.plain TO '$b->{file}'") if $table eq 'plain';
	}
	$b->{reference} = Bench::digest($db, 'other.reference');
	is(Bench::digest($db, 'copy.indexed'), $b->{reference}, 'both tables have the same rows');
	_drop_copied($b, $db);
}

# Every measured copy is compared with the reference.
sub _same { my ($b, $db, $table, $name) = @_; is(Bench::digest($db, $table), $b->{reference}, "$name: contents are those of the source") }

# One copy by a pipeline; the tables stay.
sub _capstan
{
	my ($b, $db, $table, $workers) = @_;

	_drop_copied($b, $db);
	$b->set($db, 'capstan.copy_workers' => $workers);
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{copy.$table}')");
	$b->settle;
	my $cost = $b->cost_of(sub {
			my ($tick) = @_;

			$b->start_pipeline($db);
			my $wait = $db->background("SELECT capstan.wait_for_snapshot('p', timeout => '3600 s')");
			while ($wait->running)
			{
				$tick->();
				sleep 0.01;
			}
			die $wait->errors if $wait->wait != 0;
		});
	@$cost{qw(hold waited)} = @{ ($db->query('SELECT max(lock_hold_worst_us) / 1000.0, max(lock_wait_worst_us) / 1000.0 FROM capstan.pipeline_table'))[0] };
	$b->drop_pipeline($db);
	return $cost;
}

sub _drop_copied { $_[1]->safe_psql('SET client_min_messages = error; DROP SCHEMA IF EXISTS copy CASCADE') }

# A table like capstan's, for others to fill.
sub _other_table
{
	my ($b, $db, $indexes) = @_;

	$db->safe_psql("DROP TABLE IF EXISTS other.t; CREATE TABLE other.t (id bigint PRIMARY KEY, n integer NOT NULL, a varchar(120) NOT NULL, b varchar(60) NOT NULL)");
	$db->safe_psql('CREATE INDEX ON other.t (n); CREATE INDEX ON other.t (b)') if $indexes;
	$b->settle;
}

sub _sql
{
	my ($b, $db, $name, $sql, $indexes) = @_;

	_other_table($b, $db, $indexes);
	my $cost = $b->cost_of(sub { $db->safe_psql($sql) });
	_same($b, $db, 'other.t', $name);
	return $cost;
}

# Name and code of all that is measured; missing => why it cannot be.
sub _ways
{
	my ($b, $db) = @_;
	my $copy = "COPY other.t FROM '$b->{file}'";
	my $foreign = 'INSERT INTO other.t SELECT * FROM other.source';
	my $indexes = 'CREATE INDEX ON other.t (n); CREATE INDEX ON other.t (b); ANALYZE other.t';
	my $fdw = _mysql_fdw($b, $db);
	my $loader = MariaDB::installed() && -x '/usr/bin/pgloader' ? '' : 'pgloader or MariaDB is not installed';
	my @ways = ({ name => 'COPY from a file', run => sub { _sql($b, $db, 'COPY', $copy) } });

	for my $table ('plain', 'indexed')
	{
		for my $workers (1, 2, 4)
		{
			my $name = "capstan, $workers worker" . ($workers > 1 ? 's' : '') . ($table eq 'plain' ? '' : ', indexes after');

			push @ways, {
				name => $name, start => 1, table => $table,
				run => sub { my $cost = _capstan($b, $db, $table, $workers); _same($b, $db, "copy.$table", $name); return $cost } };
		}
		push @ways, { name => 'mysql_fdw', table => $table, missing => $fdw, run => sub { _sql($b, $db, 'mysql_fdw', $foreign) } },
		  { name => 'pgloader, from MariaDB', table => $table, missing => $loader, run => sub { _pgloader($b, $db) } },
		  { name => 'COPY from a file, indexes after', table => 'indexed', run => sub { _sql($b, $db, 'COPY, indexes after', "$copy; $indexes") } }
		  if $table eq 'plain';
		push @ways, { name => 'mysql_fdw, indexes there', table => $table, missing => $fdw, run => sub { _sql($b, $db, 'mysql_fdw, indexes there', $foreign, 1) } },
		  { name => 'mysql_fdw, indexes after', table => $table, missing => $fdw, run => sub { _sql($b, $db, 'mysql_fdw, indexes after', "$foreign; $indexes") } }
		  if $table eq 'indexed';
	}
	push @ways, { name => 'start-up', table => 'none', run => sub { _capstan($b, $db, 'none', 1) } };
	return @ways;
}

# '', or why there is none.
sub _mysql_fdw
{
	my ($b, $db) = @_;

	return 'not installed' unless $db->value("SELECT count(*) FROM pg_available_extensions WHERE name = 'mysql_fdw'");
	my ($rc, $out, $err) = $db->psql(sprintf(q{
		CREATE EXTENSION mysql_fdw;
		CREATE SERVER other FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '%s', port '%s', fetch_size '10000');
		CREATE USER MAPPING FOR CURRENT_USER SERVER other OPTIONS (username 'capstan', password 'sesam');
		CREATE FOREIGN TABLE other.source (id bigint, n integer, a varchar(120), b varchar(60)) SERVER other OPTIONS (dbname 'copy', table_name 'plain');
		SELECT count(*) FROM (SELECT id FROM other.source LIMIT 1) s;}, $b->my->host, $b->my->port));

	return '' if $rc == 0;
	diag("mysql_fdw: $err");
	return 'not usable';
}

sub _pgloader
{
	my ($b, $db) = @_;

	unless ($b->{mariadb})
	{
		my $dump = File::Temp->newdir('capstan-bench.XXXXXX', TMPDIR => 1);

		chmod 0755, "$dump";
		$b->{mariadb} = MariaDB->start;
		$b->{mariadb}->sql("CREATE DATABASE copy; CREATE TABLE copy.plain ($COLUMNS) CHARACTER SET utf8mb4");
		system('cp', $b->{file}, "$dump/rows") == 0 or die "cp: $?";
		chmod 0644, "$dump/rows";
		$b->{mariadb}->sql("LOAD DATA INFILE '$dump/rows' INTO TABLE copy.plain");
	}
	_other_table($b, $db);
	my $cost = $b->cost_of(sub {
			my ($rc, $out, $err) = CapstanTest::run_command([ 'pgloader', '--quiet', $b->{mariadb}->pgloader_file($db, 'copy', 'plain', 'other', 't') ]);

			die "pgloader: $out$err" if $rc != 0;
		});
	_same($b, $db, 'other.t', 'pgloader');
	return $cost;
}

sub _print
{
	my ($b, $ways, $got) = @_;
	my $rows = $b->rows;
	my $start = Bench::median(map { $_->{seconds} } @{ $got->{'start-up'} });
	my $speed = sub {
		my ($way) = @_;
		my $seconds = Bench::median(map { $_->{seconds} } @{ $got->{ $way->{name} } // [] }) or return (undef, undef);
		my $net = $way->{start} && $seconds > $start ? $seconds - $start : $seconds;

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
		my $fdw = $by{ $table eq 'plain' ? 'mysql_fdw' : 'mysql_fdw, indexes there' }[0];
		my $memory = sub { my ($kind) = @_; return Bench::median(map { $_->{memory}{$kind} } @cost) };

		push @lines, [ $way->{name}, @cost
			? (sprintf('%.2f', $seconds), sprintf('%.2f', $net), Bench::thousands($rows / $net), sprintf('%.2f', $by{ $base{$table} }[0] / $net), $fdw ? sprintf('%.1f', $fdw / $seconds) : '',
				$way->{name} =~ /^COPY/ ? '' : $way->{name} =~ /pgloader/ ? 'not measured' : sprintf('%.2f', $middle->('mysql') / $rows * 1e6), sprintf('%.2f', $middle->('target') / $rows * 1e6), sprintf('%.0f', $middle->('wal') / $rows),
				$way->{start} ? sprintf('%.0f, %.0f', $memory->('pipeline') // 0, $memory->('copy') // 0) : '',
				$way->{start} ? sprintf('%.1f, %.1f', map { $middle->($_) } 'waited', 'hold') : '')
			: ($way->{missing}, ('') x 9) ];
	}
	$b->table('copy', [ 'way', 'seconds', 'net', 'rows/s net', 'x COPY', 'x mysql_fdw (gross)', 'CPU s per M rows: MySQL', 'Postgres', 'WAL B/row', 'own MB: pipeline, copy worker', 'lock ms: wait, hold (worst)' ], \@lines,
		sprintf('%s rows of 215 bytes; medians of %d; start-up of a pipeline %.2f s.', Bench::thousands($rows), $b->repeat, $start // 0));
}

1;
