# The scenarios of make scale: many tables, large tables; what they cost.
#
# Each is a source of its own making, a snapshot of it, a comparison of contents, and a hash of figures:
#   seconds      of create_pipeline (create) and from start to the end of the snapshot (copy)
#   rounds, pause worst in ms; hold, waited of the locks on the source, microseconds of each
#   wal          bytes written to the target's WAL by create and copy
#   memory       peak of each kind of worker in MB (VmHWM: shared memory it touched included; RssAnon sampled: its own)

package Scale;

use strict;
use warnings;
use utf8;

use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::LockLog;

our @CONF = ('log_min_messages' => 'debug1', 'max_locks_per_transaction' => 4000, 'max_wal_size' => "'4GB'", 'shared_buffers' => "'256MB'");

# Columns that everyday tables have.
my $COLUMNS = 'id INT PRIMARY KEY, a VARCHAR(30), b DATETIME, c DECIMAL(10,2)';

# One-row tables.
sub make_tables
{
	my ($my, $schema, $count) = @_;

	$my->sql("DROP DATABASE IF EXISTS $schema; CREATE DATABASE $schema");
	for (my $n = 0; $n < $count; $n += 500)
	{
		my $last = $n + 499 < $count ? $n + 499 : $count - 1;

		$my->sql("USE $schema; SET SESSION sql_log_bin = 0;" . join '', map {
			sprintf("CREATE TABLE t%05d ($COLUMNS); INSERT INTO t%05d VALUES (%d, 'row %d', '2024-01-01 00:00:00', %d.5);", $_, $_, $_, $_, $_)
		} $n .. $last);
	}
	return $count;
}

# Tables of 1 to 100,000 rows, few large ones: row counts fall by a power of the table's number.
sub make_mixed
{
	my ($my, $schema, $count) = @_;
	my $rows = 0;

	$my->sql("DROP DATABASE IF EXISTS $schema; CREATE DATABASE $schema; USE $schema; SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 200000;"
		  . "CREATE TABLE numbers (n INT PRIMARY KEY); INSERT INTO numbers WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100000) SELECT n FROM s;");
	for my $n (1 .. $count)
	{
		my $size = int(100000 / $n**1.2) + 1;

		$my->sql("USE $schema; SET SESSION sql_log_bin = 0; CREATE TABLE t$n ($COLUMNS); INSERT INTO t$n SELECT n, CONCAT('row ', n), '2024-01-01' + INTERVAL n MINUTE, n / 4 FROM numbers WHERE n <= $size");
		$rows += $size;
	}
	$my->sql("DROP TABLE $schema.numbers");
	return $rows;
}

# One table of so many rows of about 60 bytes.
sub make_rows
{
	my ($my, $schema, $rows) = @_;
	my $first = $rows < 1_000_000 ? $rows : 1_000_000;

	$my->sql("DROP DATABASE IF EXISTS $schema; CREATE DATABASE $schema; USE $schema; SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 2000000;"
		  . "CREATE TABLE big (id BIGINT PRIMARY KEY, n INT, a VARCHAR(40), b DECIMAL(12,2), at DATETIME);"
		  . "INSERT INTO big WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < $first) SELECT n, n * 7, CONCAT('row ', n), n / 4, '2024-01-01' + INTERVAL n SECOND FROM s");
	for (my $there = $first; $there < $rows; $there += $first)
	{
		my $more = $rows - $there < $first ? $rows - $there : $first;

		$my->sql("USE $schema; SET SESSION sql_log_bin = 0; INSERT INTO big SELECT id + $there, n + 1, a, b, at FROM big WHERE id <= $more");
	}
	$my->sql("ANALYZE NO_WRITE_TO_BINLOG TABLE $schema.big");
	return $rows;
}

# Peak of VmHWM and of RssAnon, in MB, of the workers whose title matches.
sub _sample
{
	my ($pg, $peak) = @_;

	for my $kind ('pipeline', 'copy')
	{
		for my $pid ($pg->worker_pids(qr/capstan $kind/))
		{
			open(my $in, '<', "/proc/$pid/status") or next;
			while (<$in>)
			{
				next unless /^(VmHWM|RssAnon):\s+(\d+) kB/;
				my $key = "$kind $1";
				$peak->{$key} = $2 / 1024 if $2 / 1024 > ($peak->{$key} // 0);
			}
			close $in;
		}
	}
}

sub _lsn { return $_[0]->value("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint") }

# A snapshot of the schema. timeout => seconds, sample => how often to look at memory, in seconds.
sub run
{
	my ($my, $pg, $schema, %opt) = @_;
	my %figures = (memory => {});
	my $timeout = $opt{timeout} // 3600;
	my $lsn = _lsn($pg);
	my $position = $pg->log_position;
	my $start = time;

	$pg->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('scale', server => 'source', tables => '{$schema.*}')");
	$figures{create} = time - $start;
	$figures{create_wal} = _lsn($pg) - $lsn;
	$lsn = _lsn($pg);
	$start = time;
	$pg->safe_psql("SELECT capstan.start_pipeline('scale')");
	my $wait = $pg->background("SELECT capstan.wait_for_snapshot('scale', timeout => '$timeout s')");
	while ($wait->running)
	{
		_sample($pg, $figures{memory});
		sleep($opt{sample} // 0.2);
	}
	die $wait->errors if $wait->wait != 0;
	$figures{copy} = time - $start;
	$figures{copy_wal} = _lsn($pg) - $lsn;
	@figures{qw(rows tables pause)} = @{ ($pg->query('SELECT sum(rows_copied), count(*), max(pause_worst_us) / 1000.0 FROM capstan.pipeline_table'))[0] };
	my @locks = values %{ CapstanTest::LockLog::read_from($pg->log_path, $position) };
	@figures{qw(hold waited)} = map { my $what = $_; [ map { @{ $_->{$what} } } @locks ] } qw(hold wait);
	$figures{rounds} = $pg->value('SELECT round FROM capstan.snapshot_round');
	return \%figures;
}

sub drop
{
	my ($pg, $schema) = @_;

	$pg->safe_psql("SELECT capstan.stop_pipeline('scale')");
	$pg->poll_query_until("SELECT pid IS NULL FROM capstan.pipeline_status WHERE pipeline = 'scale'");
	$pg->safe_psql("SELECT capstan.drop_pipeline('scale')");
	# a transaction cannot lock as many tables at once as there may be
	while (my @some = map { $_->[0] } $pg->query("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = '$schema' LIMIT 500"))
	{
		$pg->safe_psql('DROP TABLE ' . join ', ', @some);
	}
	$pg->safe_psql("DROP SCHEMA $schema");
}

# All tables of one shape, compared some hundred at a time: (equal tables, first difference or undef).
sub same_tables
{
	my ($my, $pg, $schema) = @_;
	my @names = map { $_->[0] } $my->query("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$schema' ORDER BY 1");
	my $compared = 0;

	while (my @some = splice @names, 0, 200)
	{
		my $mysql = join ' UNION ALL ', map { "SELECT '$_', id, a, DATE_FORMAT(b, '%Y-%m-%d %H:%i:%s'), c FROM $schema.$_" } @some;
		my $postgres = join ' UNION ALL ', map { "SELECT '$_', id, a, to_char(b, 'YYYY-MM-DD HH24:MI:SS'), c FROM $schema.$_" } @some;
		my @left = sort map { join '|', @$_ } $my->query($mysql);
		my @right = sort map { join '|', @$_ } $pg->query($postgres);

		for my $i (0 .. ($#left > $#right ? $#left : $#right))
		{
			return ($compared, ($left[$i] // 'nothing') . ' <> ' . ($right[$i] // 'nothing')) if ($left[$i] // '') ne ($right[$i] // '');
		}
		$compared += @some;
	}
	return ($compared, undef);
}

1;
