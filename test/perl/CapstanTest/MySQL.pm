# A private MySQL server. See CapstanTest.

package CapstanTest::MySQL;

use strict;
use warnings;
use utf8;

use Carp qw(croak);
use File::Temp ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep);

# start(name => 'mysql', options => ['--x=y', ...], port => 0, initialize => ['--x=y']): a new
# instance, running and answering; initialize is for options that the data directory is made for. It does GTIDs, row format and full metadata unless the options, which
# come last, say otherwise.
sub start
{
	my ($class, %opt) = @_;
	my $self = bless { options => $opt{options} // [] }, $class;

	# Said at the very start of a script, where it can still be skipped.
	plan(skip_all => 'needs a MySQL, and CAPSTAN_SKIP_MYSQL is set') if $ENV{CAPSTAN_SKIP_MYSQL};

	$self->{dir} = CapstanTest::ctl('mysql_create', $opt{name} // 'mysql', @{ $opt{initialize} // [] });
	CapstanTest::register($self);
	CapstanTest::ctl('mysql_start', $self->{dir}, $opt{port} // 0, @{ $self->{options} });
	$self->{words} = [ split /\n/, CapstanTest::ctl('mysql_client_words', $self->{dir}) ];
	return $self;
}

sub dir { $_[0]{dir} }
sub host { '127.0.0.1' }
sub log_path { $_[0]{dir} . '/error.log' }
sub log { my $log = CapstanTest::slurp($_[0]->log_path); utf8::decode($log); $log }

sub port
{
	my ($self) = @_;
	my $port = CapstanTest::slurp("$self->{dir}/port");

	chomp $port;
	return $port;
}

sub pid
{
	my ($self) = @_;
	my $pid = -e "$self->{dir}/pid" ? CapstanTest::slurp("$self->{dir}/pid") : '';

	chomp $pid;
	return $pid;
}

# The words of the mysql client's command line, as root@localhost.
sub client_words { [ @{ $_[0]{words} } ] }

# try_sql($script, options => [...]): (rc, stdout, stderr), stops at the first error.
sub try_sql
{
	my ($self, $script, %opt) = @_;

	return CapstanTest::run_command(
		[ @{ $self->{words} }, '--batch', '--skip-column-names', @{ $opt{options} // [] } ],
		stdin => $script, bytes => $opt{bytes});
}

# sql($script): its output, tab separated, without column names and without the last
# newline; dies when a statement fails.
sub sql
{
	my ($self, $script, %opt) = @_;
	my ($rc, $out, $err) = $self->try_sql($script, %opt);

	croak "mysql: $err" if $rc != 0;
	chomp $out;
	return $out;
}

# query($sql): the rows, each an array of texts; NULL is undef (and so is a text that
# is just NULL).
sub query
{
	my ($self, $sql) = @_;

	return map { [ map { $_ eq 'NULL' ? undef : $_ } split /\t/, $_, -1 ] }
	  split /\n/, $self->sql($sql);
}

# The first column of the first row.
sub value
{
	my ($self, $sql) = @_;
	my ($row) = $self->query($sql);

	return $row ? $row->[0] : undef;
}

# From now on the source takes these tables (with STATS_AUTO_RECALC = 0) for empty ones, whatever is in them: by itself it keeps its count.
sub stale_statistics
{
	my ($self, $schema, @tables) = @_;
	my $in = join ', ', map { "'$_'" } @tables;

	$self->sql("SET sql_log_bin = 0; UPDATE mysql.innodb_table_stats SET n_rows = 0, clustered_index_size = 1 WHERE database_name = '$schema' AND table_name IN ($in); "
		. 'FLUSH TABLES ' . join(', ', map { "$schema.$_" } @tables));
	my $rows = $self->value("SET information_schema_stats_expiry = 0; SELECT SUM(TABLE_ROWS) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$schema' AND TABLE_NAME IN ($in)");
	die "the source still knows of $rows rows" if $rows;
}

sub gtid_executed
{
	my ($self) = @_;
	my $set = $self->sql('SELECT @@GLOBAL.gtid_executed');

	$set =~ s/\\n|\s//g;
	return $set;
}

# The account of a pipeline; (user, password).
sub grant
{
	my ($self, $user, $password) = @_;

	$user //= 'capstan';
	$password //= 'sesam';
	CapstanTest::ctl('mysql_grant', $self->{dir}, $user, $password);
	return ($user, $password);
}

# background($script, options => [...]): runs it beside the test.
sub background
{
	my ($self, $script, %opt) = @_;
	my $dir = File::Temp->newdir('capstan-bg.XXXXXX', TMPDIR => 1);

	utf8::encode($script);
	CapstanTest::_spew("$dir/in", $script);
	my $pid = CapstanTest::spawn(
		[ @{ $self->{words} }, '--batch', '--skip-column-names', @{ $opt{options} // [] } ],
		stdin => "$dir/in", stdout => "$dir/out", stderr => "$dir/err");
	return CapstanTest::Background->new(pid => $pid, dir => $dir);
}

# writer($code): a client that executes what $code->($n) returns (SQL text, one or more
# statements), n = 0, 1, 2 ..., until it returns undef or ->stop. A statement that fails
# does not end it. When the server goes away it connects again, and goes on with the
# next n, so that the caller must not assume that a step was executed. After ->stop nothing is executed any more.
sub writer
{
	my ($self, $code) = @_;
	my $dir = File::Temp->newdir('capstan-bg.XXXXXX', TMPDIR => 1);
	my $seed = int(rand(1e9));
	my $pid = CapstanTest::spawn_code(
		sub {
			my ($client, $client_pid, $n) = (undef, 0, 0);

			local $SIG{PIPE} = 'IGNORE';
			# What the client has read, or could read from the pipe, would be executed all the same.
			local $SIG{TERM} = sub { kill('KILL', $client_pid) if $client_pid; POSIX::_exit(0) };
			open(STDOUT, '>', "$dir/out") or die $!;
			open(STDERR, '>', "$dir/err") or die $!;
			open(my $clients, '>', "$dir/clients") or die $!;
			$clients->autoflush(1);
			srand($seed);
			while (1)
			{
				unless ($client)
				{
					$client_pid = open($client, '|-', @{ $self->{words} }, '--force', '--batch', '--unbuffered')
					  or die $!;
					print $clients "$client_pid\n";
					binmode($client, ':utf8');
					$client->autoflush(1);
				}
				my $sql = $code->($n++);
				last unless defined $sql;
				$sql .= ';' unless $sql =~ /;\s*\z/;
				unless (print $client "$sql\n")
				{
					close $client;
					undef $client;
					sleep(0.2);
				}
			}
			close $client if $client;
		});
	return CapstanTest::Writer->new(pid => $pid, dir => $dir, my => $self);
}

# Waits until so many sessions execute a statement like this one (of SQL's LIKE), each for so many seconds already.
sub wait_executing
{
	my ($self, $like, %opt) = @_;
	my ($sessions, $seconds) = ($opt{sessions} // 1, $opt{seconds} // 0);

	return CapstanTest::poll_until {
		$self->value("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '$like' AND time >= $seconds AND id <> CONNECTION_ID()") == $sessions;
	};
}

# Ends them.
sub kill_executing
{
	my ($self, $like) = @_;

	# one that has ended meanwhile is no error
	$self->try_sql("KILL $_->[0]") for $self->query("SELECT id FROM information_schema.processlist WHERE info LIKE '$like' AND id <> CONNECTION_ID()");
}

# Waits until nobody reads the binary log: a reader that went away is noticed by the server only when it sends something.
sub wait_no_dump
{
	my ($self) = @_;

	CapstanTest::poll_until { $self->value(q{SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'}) == 0 }
	  or croak 'somebody still reads the binary log';
}

# All binary logs but a new one are gone; what was purged. One that is still being read is not purged, and MySQL does not call that an error.
sub purge_logs
{
	my ($self) = @_;

	$self->sql('FLUSH BINARY LOGS');
	my $last = ($self->query('SHOW BINARY LOGS'))[-1][0];
	CapstanTest::poll_until {
		$self->sql("PURGE BINARY LOGS TO '$last'");
		($self->query('SHOW BINARY LOGS'))[0][0] eq $last;
	} or croak 'the binary logs are not purged';
	return $self->value('SELECT @@GLOBAL.gtid_purged');
}

# What this machine alone adds to whatever is done on the server: ->worst_ms is the longest time, until then, that a session was kept from
# a statement on a table of its own; it ends the measurement. A bound on time is to be as much longer, or it fails when a virtual
# machine stands still for a second. write => 0: it only reads, and so is not held up by a lock on everything.
sub stall_meter
{
	my ($self, %opt) = @_;
	my $n = $self->{meters}++;
	my $statement = $opt{write} // 1 ? 'UPDATE beat SET n = n + 1' : 'SELECT n INTO m FROM beat';

	$self->sql(<<"SQL");
SET sql_log_bin = 0;
CREATE DATABASE stall_meter_$n; USE stall_meter_$n;
CREATE TABLE beat (n INT); INSERT INTO beat VALUES (0);
CREATE TABLE stop (n INT);
CREATE TABLE runs (began INT); INSERT INTO runs VALUES (0);
DELIMITER //
CREATE PROCEDURE run()
BEGIN
	DECLARE m, worst INT DEFAULT 0;
	DECLARE began DATETIME(6);
	SET sql_log_bin = 0;
	UPDATE runs SET began = 1;
	WHILE NOT EXISTS (SELECT 1 FROM stop) DO
		SET began = SYSDATE(6);
		DO SLEEP(0.005);
		$statement;
		SET worst = GREATEST(worst, TIMESTAMPDIFF(MICROSECOND, began, SYSDATE(6)));
	END WHILE;
	SELECT worst / 1000;
END //
SQL
	my $session = $self->background("CALL stall_meter_$n.run()");
	# Start it before what is to be bounded: what the machine adds before it runs is not seen.
	CapstanTest::poll_until { $self->value("SELECT began FROM stall_meter_$n.runs") } or croak 'the stall meter does not run';
	return bless { my => $self, schema => "stall_meter_$n", session => $session }, 'CapstanTest::StallMeter';
}

sub stop
{
	my ($self) = @_;
	CapstanTest::ctl('mysql_stop', $self->{dir});
}

sub kill9
{
	my ($self) = @_;
	CapstanTest::ctl('mysql_kill', $self->{dir});
}

# Start again after stop or kill9, on the same port; new options replace the old ones.
sub start_again
{
	my ($self, @options) = @_;
	CapstanTest::ctl('mysql_start', $self->{dir}, $self->port, @options);
}

sub restart
{
	my ($self, @options) = @_;
	$self->stop;
	$self->start_again(@options);
}

sub log_contains
{
	my ($self, $re) = @_;
	return $self->log =~ $re;
}

sub destroy
{
	my ($self) = @_;
	CapstanTest::forget($self);
	CapstanTest::ctl('mysql_destroy', $self->{dir});
}

package CapstanTest::Writer;

use strict;
use warnings;

our @ISA = ('CapstanTest::Background');

# Ends it, and waits until the server has ended what it was executing: that may be committed yet, after its client is gone.
sub stop
{
	my ($self) = @_;
	my $rc = $self->SUPER::stop;
	my $pids = join ', ', map { "'$_'" } -e "$self->{dir}/clients" ? split /\n/, CapstanTest::slurp("$self->{dir}/clients") : ();

	# A server that does not answer executes nothing.
	CapstanTest::poll_until {
		!eval { $self->{my}->value("SELECT COUNT(*) FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = '_pid' AND ATTR_VALUE IN ('', $pids)") };
	} or Carp::croak('what a writer was executing does not end');
	return $rc;
}

package CapstanTest::StallMeter;

use strict;
use warnings;

sub worst_ms
{
	my ($self) = @_;

	$self->{my}->sql("SET sql_log_bin = 0; INSERT INTO $self->{schema}.stop VALUES (1)");
	$self->{session}->wait == 0 or die $self->{session}->errors;
	my ($worst) = $self->{session}->output =~ /([\d.]+)/;
	Test::More::note("the machine stood still for $worst ms at most");
	return $worst;
}

1;
