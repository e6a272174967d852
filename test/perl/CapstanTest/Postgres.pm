# A private Postgres with capstan. See CapstanTest.

package CapstanTest::Postgres;

use strict;
use warnings;
use utf8;

use Carp qw(croak);
use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep);

my $installed = $ENV{CAPSTAN_INSTALLED};

# start(name => 'pg', conf => { name => value }, database => 'postgres'): a new cluster,
# running and answering, with the extension of this tree in shared_preload_libraries. Values
# of conf are written as they are, so quote what needs it. It does without fsync, since
# what the tests kill is processes and not the machine; and how full the machine's disk is does not matter. fault_points => 1:
# the build with fault points (fault_point), for all instances of the script. modules => ['map_test']: these of test/modules
# are built and installed, too. measured => 1: memory or time of its processes will be measured; else the C library overwrites what is freed,
# so that nobody goes on with it unnoticed.
sub start
{
	my ($class, %opt) = @_;
	my %conf = (fsync => 'off', max_worker_processes => 16, 'capstan.max_disk_usage' => 0, %{ $opt{conf} // {} });
	my $self = bless { database => $opt{database} // 'postgres', measured => $opt{measured} }, $class;

	if ($opt{fault_points} && !$ENV{CAPSTAN_FAULT_POINTS})
	{
		$ENV{CAPSTAN_FAULT_POINTS} = 1;
		$installed = 0;
	}
	unless ($installed)
	{
		CapstanTest::ctl('pg_install_extension');
		$installed = 1;
	}
	CapstanTest::ctl('pg_install_module', $_) for @{ $opt{modules} // [] };
	$self->{dir} = CapstanTest::ctl('pg_new', $opt{name} // 'pg',
		map { "$_ = $conf{$_}" } sort keys %conf);
	CapstanTest::register($self);
	$self->start_again;
	$self->{words} = [ split /\n/, CapstanTest::ctl('pg_psql_words', $self->{dir}) ];
	return $self;
}

sub dir { $_[0]{dir} }
sub data { $_[0]{dir} . '/data' }
sub port { 5432 }
sub log_path { $_[0]{dir} . '/log' }
sub log { my $log = CapstanTest::slurp($_[0]->log_path); utf8::decode($log); $log }

# The folder of the socket, which is what a client gives as its host.
sub host
{
	my ($self) = @_;
	my $host = CapstanTest::slurp("$self->{dir}/sockdir");

	chomp $host;
	return $host;
}

sub connection_string
{
	my ($self, $database) = @_;
	return sprintf('host=%s port=5432 user=postgres dbname=%s', $self->host, $database // $self->{database});
}

# The words of psql's command line; database => 'other'.
sub psql_words
{
	my ($self, %opt) = @_;
	return (@{ $self->{words} }, '-d', $opt{database} // $self->{database});
}

# psql($script, database =>, options => [...]): (rc, stdout, stderr), stops at the first
# error. Unaligned, tuples only; columns are separated by |.
sub psql
{
	my ($self, $script, %opt) = @_;

	return CapstanTest::run_command(
		[ $self->psql_words(%opt), '-qAt', '-v', 'ON_ERROR_STOP=1', @{ $opt{options} // [] } ],
		stdin => $script);
}

# safe_psql($script): its output without the last newline; dies on an error.
sub safe_psql
{
	my ($self, $script, %opt) = @_;
	my ($rc, $out, $err) = $self->psql($script, %opt);

	croak "psql: $err" if $rc != 0;
	chomp $out;
	return $out;
}

# query($sql): the rows, each an array of texts; NULL is undef.
sub query
{
	my ($self, $sql, %opt) = @_;

	return map { [ map { $_ eq "\x{1}" ? undef : $_ } split /\t/, $_, -1 ] }
	  split /\n/, $self->safe_psql($sql, %opt, options => [ '-F', "\t", '-P', "null=\x{1}" ]);
}

sub value
{
	my ($self, $sql, %opt) = @_;
	my ($row) = $self->query($sql, %opt);

	return $row ? $row->[0] : undef;
}

# incidents($condition): those of capstan.incident, a line each, for a test that expects none and should say which there was.
sub incidents
{
	my ($self, $condition, %opt) = @_;

	return join "\n", map { $_->[0] } $self->query("SELECT translate(concat_ws(' ', pipeline, severity, class, source_table, message, detail), E'\\n\\t', '  ')
		FROM capstan.incident WHERE $condition ORDER BY id", %opt);
}

# poll_query_until($sql, $expected = 't', $timeout = 180): true once the query gives it.
# A server that does not answer counts as "not yet".
sub poll_query_until
{
	my ($self, $sql, $expected, $timeout, %opt) = @_;
	my ($rc, $out, $err);

	$expected //= 't';
	my $ok = CapstanTest::poll_until(sub {
			($rc, $out, $err) = $self->psql($sql, %opt);
			chomp $out;
			return $rc == 0 && $out eq $expected;
		}, $timeout);
	diag("waited for: $sql\nexpected: $expected\nlast: $out$err") unless $ok;
	return $ok;
}

# Server and user mapping as in the README, for an instance of CapstanTest::MySQL.
sub create_server
{
	my ($self, $name, $my, %opt) = @_;
	my ($user, $password) = ($opt{user} // 'capstan', $opt{password} // 'sesam');
	my $options = join '', map { ", $_ '$opt{options}{$_}'" } sort keys %{ $opt{options} // {} };

	$self->safe_psql(sprintf(q{
		CREATE SERVER %s FOREIGN DATA WRAPPER capstan OPTIONS (host '%s', port '%s'%s);
		CREATE USER MAPPING FOR CURRENT_USER SERVER %s OPTIONS (user '%s', password '%s');},
		$name, $my->host, $my->port, $options, $name, $user, $password));
}

# background($script): runs it in a psql beside the test.
sub background
{
	my ($self, $script, %opt) = @_;
	my $dir = File::Temp->newdir('capstan-bg.XXXXXX', TMPDIR => 1);

	utf8::encode($script);
	CapstanTest::_spew("$dir/in", $script);
	my $pid = CapstanTest::spawn(
		[ $self->psql_words(%opt), '-qAt', '-v', 'ON_ERROR_STOP=1' ],
		stdin => "$dir/in", stdout => "$dir/out", stderr => "$dir/err");
	return CapstanTest::Background->new(pid => $pid, dir => $dir);
}

# Process ids of this cluster's workers whose title matches, read from /proc: it needs
# no server that answers, and leaves a terminated process out.
sub worker_pids
{
	my ($self, $re) = @_;
	my ($postmaster) = $self->postmaster_pid;
	my @pids;

	return unless $postmaster;
	for my $proc (glob '/proc/[0-9]*')
	{
		open(my $in, '<', "$proc/stat") or next;
		my $stat = <$in> // '';
		close $in;
		next unless $stat =~ /^(\d+) \(.*\) ([A-Z]) (\d+) /s && $3 == $postmaster && $2 ne 'Z';
		my $pid = $1;
		open($in, '<', "$proc/cmdline") or next;
		my $title = <$in> // '';
		close $in;
		push @pids, $pid if $title =~ $re;
	}
	return @pids;
}

sub postmaster_pid
{
	my ($self) = @_;
	my ($pid) = -e $self->data . '/postmaster.pid'
	  ? split(/\n/, CapstanTest::slurp($self->data . '/postmaster.pid')) : ();

	return $pid;
}

# Kill the postmaster alone, as a machine short of memory does; start_again after it.
sub kill9_postmaster
{
	my ($self) = @_;
	CapstanTest::ctl('pg_kill', $self->{dir});
}

# After a process was killed: waits until the server has begun anew. A connection in between would be lost with all others. $from is where
# the log ended before the kill.
sub wait_restarted
{
	my ($self, $from) = @_;

	CapstanTest::poll_until { $self->log_contains(qr/database system is ready to accept connections/, $from) }
	  or croak 'the server does not begin anew';
}

sub stop
{
	my ($self, $mode) = @_;
	CapstanTest::ctl('pg_stop', $self->{dir}, $mode // 'fast');
}

sub start_again
{
	my ($self) = @_;

	local $ENV{MALLOC_PERTURB_} = $self->{measured} ? 0 : 165;
	CapstanTest::ctl('pg_start', $self->{dir});
}

sub restart
{
	my ($self, $mode) = @_;
	$self->stop($mode);
	$self->start_again;
}

# fault_point($name, $action, passing => 1, copy_index => ...): what src/worker/fault.c says. wait_struck: until it acts; false after the timeout.
sub fault_point
{
	my ($self, $name, $action, %opt) = @_;

	# who was ended while he stood still has not taken it
	unlink($self->data . '/capstan_fault.go');
	CapstanTest::_spew($self->data . '/capstan_fault.new', join(' ', $name, $opt{passing} // 1, $action, $opt{copy_index} // '') . "\n");
	rename($self->data . '/capstan_fault.new', $self->data . '/capstan_fault') or croak $!;
}

sub wait_struck
{
	my ($self, $timeout) = @_;

	for (1 .. 100 * $timeout)
	{
		return 1 unless -e $self->data . '/capstan_fault';
		sleep(0.01);
	}
	return 0;
}

# Lets go on who stands still at a fault point of action hold.
sub fault_go { CapstanTest::_spew($_[0]->data . '/capstan_fault.go', '') }

# Add lines to postgresql.conf; follow with reload or restart.
sub append_conf
{
	my ($self, @lines) = @_;

	open(my $out, '>>', $self->data . '/postgresql.conf') or croak $!;
	print $out "$_\n" for @lines;
	close $out or croak $!;
}

sub reload
{
	my ($self) = @_;
	$self->safe_psql('SELECT pg_reload_conf()');
}

# Where the log ends now; give it to log_contains to look only at what came after.
sub log_position { -s $_[0]->log_path }

sub log_contains
{
	my ($self, $re, $from) = @_;
	my $log = CapstanTest::slurp($self->log_path);

	$log = substr($log, $from) if $from;
	utf8::decode($log);
	return $log =~ $re;
}

sub destroy
{
	my ($self) = @_;
	CapstanTest::forget($self);
	CapstanTest::ctl('pg_destroy', $self->{dir});
}

1;
