# What the scenarios of make bench stand on: the servers, what they cost, and the tables that are printed.
#
#     my $bench = Bench->new(rows => 1_000_000, repeat => 3);      # MySQL, a target cluster, and for some a publisher
#     my $cost = $bench->cost_of(sub { ... });                     # CPU of each server, WAL, memory of workers
#     $bench->table('copy', $head, \@rows, $text);                 # to the terminal and to build/bench/copy.md
#
# CPU: of mysqld user and system time of its process; of a Postgres cluster that of the postmaster, of all its children, and of
# the children that have ended meanwhile (cutime, cstime), so that no worker is forgotten. Clients are not in it.
# Memory: RssAnon, what a process has for itself, sampled every 50 ms; that leaves out shared buffers.

package Bench;

use strict;
use warnings;
use utf8;

use Carp qw(croak);
use IPC::Open2 qw(open2);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;

our $OUT = $ENV{BENCH_OUT} // "$CapstanTest::TOP/build/bench";

# The settings of all Postgres clusters here, raw COPY's, capstan's, and native replication's.
our %CONF = (
	fsync => 'on', 'shared_buffers' => "'512MB'", 'max_wal_size' => "'8GB'", 'checkpoint_timeout' => "'1h'", 'wal_compression' => 'off',
	'autovacuum' => 'off', 'track_commit_timestamp' => 'on', 'wal_level' => 'logical', 'max_worker_processes' => 32, 'max_replication_slots' => 30,
	'max_wal_senders' => 30, 'max_logical_replication_workers' => 20, 'max_locks_per_transaction' => 4000,
	# how long native replication waits before it starts a worker again; 5 s by default
	'wal_retrieve_retry_interval' => "'10ms'", 'max_connections' => 60);

our @MYSQL = ('--innodb-buffer-pool-size=1G', '--innodb-redo-log-capacity=2G', '--sync-binlog=0', '--innodb-flush-log-at-trx-commit=0',
	'--table-open-cache=4000', '--max-connections=200');

my $TICKS = POSIX::sysconf(&POSIX::_SC_CLK_TCK);

sub new
{
	my ($class, %self) = @_;
	my $self = bless {%self}, $class;

	system('mkdir', '-p', $OUT) == 0 or die "mkdir: $?";
	$self->{my} = CapstanTest::MySQL->start(options => \@MYSQL);
	$self->{my}->grant;
	$self->{pg} = _postgres('target');
	$self->_library;
	return $self;
}

# One that has been in use for a while: all of its shared buffers have been written to, so that nobody pays for memory that the
# kernel has to clear first.
sub _postgres
{
	my ($name) = @_;
	my $pg = CapstanTest::Postgres->start(name => $name, measured => 1, conf => \%CONF);

	# a page a row; CREATE TABLE AS would use a few buffers again and again
	$pg->safe_psql("CREATE TABLE warm (v text); ALTER TABLE warm ALTER v SET STORAGE PLAIN; INSERT INTO warm SELECT repeat('x', 8000) FROM generate_series(1, 70000); DROP TABLE warm; CHECKPOINT");
	return $pg;
}

sub my { $_[0]{my} }
sub pg { $_[0]{pg} }
sub rows { $_[0]{rows} }
sub repeat { $_[0]{repeat} }

# The other Postgres, whose changes native replication takes to the target cluster; started when it is asked for.
sub publisher
{
	my ($self) = @_;

	$self->{publisher} //= _postgres('publisher');
	return $self->{publisher};
}

# Numbers 1 .. 1000 and 1 .. 1,000,000, in a database that no pipeline captures.
sub _library
{
	my ($self) = @_;

	$self->{my}->sql(<<'SQL');
CREATE DATABASE lib; USE lib;
SET SESSION sql_log_bin = 0;
CREATE TABLE k (n INT PRIMARY KEY);
INSERT INTO k WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s;
CREATE TABLE m (n INT PRIMARY KEY);
INSERT INTO m SELECT (a.n - 1) * 1000 + b.n FROM k a, k b;
SQL
}

# A database of the target cluster with the extension and the server "source".
sub database
{
	my ($self, $name) = @_;

	$self->{pg}->safe_psql("CREATE DATABASE $name");
	my $db = in_database($self->{pg}, $name);
	$db->safe_psql('CREATE EXTENSION capstan');
	# like with like: nobody else encrypts here
	$db->create_server('source', $self->{my}, options => $ENV{TLS} ? {} : { ssl_mode => 'disabled' });
	return $db;
}

# The same cluster, with another database for its queries.
sub in_database
{
	my ($pg, $name) = @_;

	return bless { %$pg, database => $name }, ref $pg;
}

# settings of the pipelines of a database; take effect when a worker starts
sub set
{
	my ($self, $db, %settings) = @_;

	$db->safe_psql(join '', map { "ALTER DATABASE $db->{database} SET $_ = '$settings{$_}';" } sort keys %settings);
}

sub start_pipeline { $_[1]->safe_psql("SELECT capstan.start_pipeline('p')") }

# Returns when its processes have gone, so that what is measured next has the machine for itself.
sub stop_pipeline
{
	my ($self, $db) = @_;

	$db->safe_psql("SELECT capstan.stop_pipeline('p')");
	$db->poll_query_until("SELECT state FROM capstan.pipeline_status WHERE pipeline = 'p'", 'stopped') or die "the pipeline does not stop\n";
	poll_until { !$self->{pg}->worker_pids(qr/capstan (?:pipeline|copy)/) } or die "workers do not end\n";
}

sub drop_pipeline
{
	my ($self, $db) = @_;

	$self->stop_pipeline($db);
	$db->safe_psql("SELECT capstan.drop_pipeline('p')");
}

# A pipeline that fails is of no use to wait for.
sub assert_running
{
	my ($db) = @_;
	my ($incident) = $db->query("SELECT class, message, detail FROM capstan.incident WHERE severity = 'halt' AND resolved_at IS NULL LIMIT 1");

	die 'halted: ' . join('; ', map { $_ // '' } @$incident) . "\n" if $incident;
}

# ----------------------------------------------------------------------
# What it costs
# ----------------------------------------------------------------------

sub process_cpu
{
	my ($pid) = @_;

	open(my $in, '<', "/proc/$pid/stat") or return (0, 0);
	my $line = <$in> // return (0, 0);
	my @field = split / /, ($line =~ /\) (.*)/s)[0];
	return (($field[11] + $field[12]) / $TICKS, ($field[13] + $field[14]) / $TICKS);
}

sub children
{
	my ($parent) = @_;
	my @pids;

	# where the kernel has it, it is much cheaper
	if (open(my $in, '<', "/proc/$parent/task/$parent/children")) { return split ' ', readline($in) // '' }
	for my $proc (glob '/proc/[0-9]*')
	{
		open(my $in, '<', "$proc/stat") or next;
		my $stat = <$in> // next;
		push @pids, $1 if $stat =~ /^(\d+) \(.*\) [A-Z] (\d+) /s && $2 == $parent;
	}
	return @pids;
}

sub cluster_cpu
{
	my ($pg) = @_;
	my $postmaster = $pg->postmaster_pid;
	my ($self, $ended) = process_cpu($postmaster);
	my $sum = $self + $ended;

	$sum += (process_cpu($_))[0] for children($postmaster);
	return $sum;
}

sub mysql_cpu { return (process_cpu($_[0]->pid))[0] }

sub lsn { return $_[0]->value("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint") }

# Peak of RssAnon in MB of each kind of process: $peak->{kind}.
my %KIND = (
	pipeline => qr/capstan pipeline/, copy => qr/capstan copy/,
	apply => qr/logical replication worker/, walsender => qr/walsender/);

sub sample_memory
{
	my ($peak, @clusters) = @_;

	for my $pid (map { children($_->postmaster_pid) } @clusters)
	{
		open(my $in, '<', "/proc/$pid/cmdline") or next;
		my $title = <$in> // next;
		my ($kind) = grep { $title =~ $KIND{$_} } keys %KIND or next;
		open($in, '<', "/proc/$pid/status") or next;
		while (my $line = <$in>)
		{
			$peak->{$kind} = $1 / 1024 if $line =~ /^RssAnon:\s+(\d+) kB/ && $1 / 1024 > ($peak->{$kind} // 0);
		}
	}
}

# $code->($tick) is measured; it calls $tick->() at least every 50 ms while it waits. What the servers spent: seconds by the wall,
# CPU seconds of mysqld, of the target and of the publisher, bytes of WAL of the target, peaks of memory.
sub cost_of
{
	my ($self, $code) = @_;
	my %cost = (memory => {});
	my @clusters = grep { $_ } $self->{pg}, $self->{publisher};
	my @cpu = $self->_cpu;
	my $lsn = lsn($self->{pg});
	my $sampled = 0;
	my $start = time;

	$cost{result} = $code->(sub {
			return if time - $sampled < 0.05;
			sample_memory($cost{memory}, @clusters);
			$sampled = time;
		});
	$cost{seconds} = time - $start;
	my @after = $self->_cpu;
	@cost{qw(mysql target publisher)} = map { $after[$_] - $cpu[$_] } 0 .. 2;
	$cost{wal} = lsn($self->{pg}) - $lsn;
	return \%cost;
}

sub _cpu
{
	my ($self) = @_;

	return (mysql_cpu($self->{my}), cluster_cpu($self->{pg}), $self->{publisher} ? cluster_cpu($self->{publisher}) : 0);
}

# All dirty pages are written before something is measured, so that none pays for what was before.
sub settle
{
	my ($self) = @_;

	$self->{pg}->safe_psql('CHECKPOINT');
	$self->{publisher}->safe_psql('CHECKPOINT') if $self->{publisher};
}

# ----------------------------------------------------------------------
# Contents
# ----------------------------------------------------------------------

# Number of rows and the sum of a 64 bit hash of each row as text: equal for equal contents in any order.
sub digest
{
	my ($db, $table) = @_;

	return $db->value("SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM $table t");
}

sub digests { my ($db, @tables) = @_; return join '; ', map { "$_: " . digest($db, $_) } @tables }

# ----------------------------------------------------------------------
# Figures
# ----------------------------------------------------------------------

sub median
{
	my @sorted = sort { $a <=> $b } grep { defined } @_;

	return undef unless @sorted;
	return @sorted % 2 ? $sorted[ $#sorted / 2 ] : ($sorted[ @sorted / 2 ] + $sorted[ @sorted / 2 - 1 ]) / 2;
}

# quantile(0.99, @sorted)
sub quantile
{
	my ($q, @sorted) = @_;
	my $i = int($q * @sorted);

	return $sorted[ $i > $#sorted ? $#sorted : $i ];
}

# 290 k, 1.2 M
sub thousands
{
	my ($n) = @_;

	return !defined $n ? '' : $n >= 999_500 ? sprintf('%.2f M', $n / 1e6) : $n >= 9950 ? sprintf('%.0f k', $n / 1e3) : $n >= 995 ? sprintf('%.1f k', $n / 1e3) : sprintf('%.0f', $n);
}

# table('copy', [ heads ], [ [ cells ], ... ], 'text before'): Markdown to the terminal, and added to build/bench/NAME.md.
sub table
{
	my ($self, $name, $head, $rows, $text) = @_;
	my $markdown = (defined $text ? "$text\n\n" : '')
	  . join '', map { '| ' . join(' | ', map { $_ // '' } @$_) . " |\n" } $head, [ map { '---' } @$head ], @$rows;

	$markdown =~ s/\| --- /|---/g;
	$markdown =~ s/\|--- \|/|---|/g;
	$self->write("$name.md", "$markdown\n");
	print "\n$markdown\n";
}

# The first of a run replaces the file, the next are added.
sub write
{
	my ($self, $name, $text) = @_;

	open(my $out, $self->{written}{$name}++ ? '>>:utf8' : '>:utf8', "$OUT/$name") or die "$OUT/$name: $!";
	print $out $text;
	close $out or die "$OUT/$name: $!";
}

# Tables of this run take the places of those in the documentation: what is between <!-- bench NAME --> and <!-- end -->.
sub document
{
	my ($self) = @_;
	my $path = "$CapstanTest::TOP/doc/performance.md";
	my $text = CapstanTest::slurp($path);
	my $machine = CapstanTest::slurp("$OUT/machine.md");

	for my $name (map { /^(.*)\.md$/ ? $1 : () } keys %{ $self->{written} })
	{
		my $table = CapstanTest::slurp("$OUT/$name.md");

		$text =~ s{<!-- bench \Q$name\E -->\n.*?<!-- end -->}{<!-- bench $name -->\n$machine\n$table<!-- end -->}s;
	}
	CapstanTest::_spew($path, $text);
	system('cp', "$OUT/growth.svg", "$CapstanTest::TOP/doc/growth.svg") if $self->{written}{'growth.svg'};
}

# Where it was measured.
sub machine
{
	my ($self) = @_;
	my ($cpu) = CapstanTest::slurp('/proc/cpuinfo') =~ /^model name\s*:\s*(.*)$/m;
	my $cores = () = CapstanTest::slurp('/proc/cpuinfo') =~ /^processor\s*:/mg;
	my ($memory) = CapstanTest::slurp('/proc/meminfo') =~ /^MemTotal:\s+(\d+) kB/m;
	my ($load) = CapstanTest::slurp('/proc/loadavg') =~ /^(\S+)/;
	my (undef, $kernel) = CapstanTest::run_command([ 'uname', '-r' ]);
	my (undef, $commit) = CapstanTest::run_command([ 'git', '-C', $CapstanTest::TOP, 'log', '-1', '--format=%h' ]);

	chomp($kernel, $commit);
	return sprintf('%s, revision %s: MySQL %s, PostgreSQL %s; %d cores (%s), %.0f GB, Linux %s; load at the start %s',
		POSIX::strftime('%-d %B %Y %H:%M', localtime), $commit || 'unknown', $self->{my}->value('SELECT VERSION()'), $self->{pg}->value("SELECT split_part(version(), ' ', 2)"), $cores, $cpu // 'unknown', $memory / 1024 / 1024, $kernel, $load);
}

package Bench::Session;

# A psql that stays, for polling: a query costs no new process.

use strict;
use warnings;
use utf8;
use IPC::Open2 qw(open2);

sub new
{
	my ($class, $pg) = @_;
	my $self = bless {}, $class;

	$self->{pid} = open2($self->{out}, $self->{in}, $pg->psql_words, '-qAt', '-F', "\t");
	return $self;
}

# The rows of one query, each an array.
sub query
{
	my ($self, $sql) = @_;
	my @rows;

	print { $self->{in} } "$sql;\nSELECT 'end of rows';\n";
	$self->{in}->flush;
	while (defined(my $line = readline $self->{out}))
	{
		chomp $line;
		return @rows if $line eq 'end of rows';
		push @rows, [ split /\t/, $line, -1 ];
	}
	die "psql ended: $sql\n";
}

sub close
{
	my ($self) = @_;

	close $self->{in};
	close $self->{out};
	waitpid($self->{pid}, 0);
}

1;
