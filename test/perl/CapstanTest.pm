# What the TAP tests stand on: run programs, wait for things, clean up.
#
#     use CapstanTest;
#     my $my = CapstanTest::MySQL->start(options => ['--binlog-order-commits=OFF']);
#     my $pg = CapstanTest::Postgres->start(conf => { 'max_worker_processes' => 20 });
#     $my->sql('CREATE DATABASE shop; ...');
#     $pg->safe_psql('CREATE EXTENSION capstan');
#     tables_equal($my, $pg, ['shop.*'], 'after the load');
#
# The servers themselves are started by the shell library (test/lib), through
# test/bin/ctl, so that the demo and the tests have one way of doing it. Instances are
# removed when the script ends, however it ends; CAPSTAN_KEEP=1 keeps them. When a test
# failed, their logs are copied to build/log/<test>/.

package CapstanTest;

use strict;
use warnings;
use utf8;

use Carp qw(croak);
use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(basename dirname);
use File::Temp ();
use POSIX qw(:sys_wait_h _exit);
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(poll_until run_command tables_equal diag_log);

our $TOP = abs_path(dirname(__FILE__) . '/../..');

# What the environment may say to client programs, to a server that is started, or of the time of day is not meant for these.
$ENV{TZ} = 'UTC';
$ENV{LC_ALL} = 'C.UTF-8';
delete @ENV{ 'MYSQL_PWD', grep { /^PG[A-Z]/ } keys %ENV };

# All that is random in a script begins with this; CAPSTAN_SEED repeats it. It is told at the end of a script that failed.
our $SEED = $ENV{CAPSTAN_SEED} // int(rand(1e9));
srand($SEED);

# Names of tests are UTF-8.
binmode($_, ':utf8')
  for Test::More->builder->output, Test::More->builder->failure_output, Test::More->builder->todo_output;

# Instances to remove at the end, and children to end before that.
my @instances;
my %children;
my $owner = $$;

# run_command(\@command, stdin => $text or stdin_file => $path): (rc, stdout, stderr).
# Text goes in and comes out as UTF-8; give bytes => 1 for raw bytes. rc is the exit
# code, or 128 + signal.
sub run_command
{
	my ($command, %opt) = @_;
	my $dir = File::Temp->newdir('capstan-run.XXXXXX', TMPDIR => 1);

	if (defined $opt{stdin})
	{
		my $text = $opt{stdin};
		utf8::encode($text) unless $opt{bytes};
		_spew("$dir/in", $text);
	}
	my $pid = spawn($command,
		stdin => $opt{stdin_file} // (defined $opt{stdin} ? "$dir/in" : '/dev/null'),
		stdout => "$dir/out", stderr => "$dir/err");
	my $rc = reap($pid);
	my ($out, $err) = (slurp("$dir/out"), slurp("$dir/err"));
	unless ($opt{bytes})
	{
		utf8::decode($out);
		utf8::decode($err);
	}
	return ($rc, $out, $err);
}

# Start a program in the background, its three files redirected; the process id.
sub spawn
{
	my ($command, %opt) = @_;
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		open(STDIN, '<', $opt{stdin} // '/dev/null') or _exit(126);
		open(STDOUT, '>', $opt{stdout} // '/dev/null') or _exit(126);
		open(STDERR, '>', $opt{stderr} // '/dev/null') or _exit(126);
		{ exec { $command->[0] } @$command }
		_exit(127);
	}
	$children{$pid} = 1;
	return $pid;
}

# Wait for a child; its exit code, or 128 + signal.
sub reap
{
	my ($pid) = @_;

	waitpid($pid, 0);
	my $status = $?;
	delete $children{$pid};
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# Has the child ended? Its exit code, or undef.
sub try_reap
{
	my ($pid) = @_;

	return unless waitpid($pid, WNOHANG) == $pid;
	my $status = $?;
	delete $children{$pid};
	return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# A child that runs Perl code instead of a program; ends by _exit, so that no END
# block of ours runs in it.
sub spawn_code
{
	my ($code) = @_;
	my $pid = fork();

	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		$SIG{TERM} = 'DEFAULT';
		$SIG{INT} = 'DEFAULT';
		my $ok = eval { $code->(); 1 };
		print STDERR $@ unless $ok;
		_exit($ok ? 0 : 1);
	}
	$children{$pid} = 1;
	return $pid;
}

# Call the shell library; its standard output without the last newline.
sub ctl
{
	my (@arguments) = @_;
	my ($rc, $out, $err) = run_command([ 'bash', "$TOP/test/bin/ctl", @arguments ]);

	croak "ctl @arguments: exit $rc\n$out$err" if $rc != 0;
	chomp $out;
	return $out;
}

# Call the code until it returns true, at most $timeout seconds (default 180); what it
# returned, or false. The time is for the worst machine: who waits for what comes does not wait longer for it. Wait only for
# what stays once it is there: what may pass by is to be held up, by a lock or a fault point, until it has been seen.
sub poll_until(&;$)
{
	my ($code, $timeout) = @_;
	my $end = time() + ($timeout // 180);
	my $pause = 0.02;

	while (1)
	{
		my $result = $code->();
		return $result if $result;
		return $result if time() > $end;
		sleep($pause);
		$pause *= 1.3 if $pause < 0.25;
	}
}

# tables_equal($my, $pg, \@tables, $name): a test. A table is 'schema.table' or
# 'schema.*'. Same contents, value by value, as CapstanTest::Compare has it.
sub tables_equal
{
	my ($my, $pg, $tables, $name, %opt) = @_;
	my $result;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$result = eval {
		CapstanTest::Compare::compare(
			mysql => $my->client_words, psql => [ $pg->psql_words ],
			tables => $tables, %opt);
	};
	unless ($result)
	{
		my $error = $@;
		fail($name);
		diag($error);
		return 0;
	}
	my @bad = grep { !$_->{equal} } @$result;
	my $rows = 0;
	$rows += $_->{rows} for @$result;
	ok(!@bad, "$name: " . scalar(@$result) . " tables, $rows rows are equal");
	diag("$_->{table}: $_->{difference}") for @bad;
	return !@bad;
}

# The last lines of a server's log, as diagnostics.
sub diag_log
{
	my ($instance, $lines) = @_;
	my @all = split /\n/, $instance->log;

	$lines //= 40;
	splice(@all, 0, @all - $lines) if @all > $lines;
	diag(join("\n", @all));
}

sub slurp
{
	my ($path) = @_;

	open(my $in, '<:raw', $path) or croak "$path: $!";
	local $/;
	return <$in> // '';
}

sub _spew
{
	my ($path, $bytes) = @_;

	open(my $out, '>:raw', $path) or croak "$path: $!";
	print $out $bytes or croak "$path: $!";
	close $out or croak "$path: $!";
}

# An instance belongs to this process from now on.
sub register
{
	my ($instance) = @_;

	# In one step: an instance whose owner cannot be read has none, and is removed.
	_spew($instance->dir . '/owner.new', "$owner\n");
	rename($instance->dir . '/owner.new', $instance->dir . '/owner') or croak $!;
	push @instances, $instance;
}

sub forget
{
	my ($instance) = @_;

	@instances = grep { $_ != $instance } @instances;
}

$SIG{INT} = $SIG{TERM} = $SIG{HUP} = sub { exit(130) };

END
{
	if ($$ == $owner)
	{
		my $status = $?;
		my $failed = $status != 0 || !Test::More->builder->is_passing;

		diag("CAPSTAN_SEED=$SEED") if $failed;
		kill('KILL', $_) for keys %children;
		waitpid($_, 0) for keys %children;
		for my $instance (reverse my @all = @instances)
		{
			if ($failed)
			{
				my $to = "$TOP/build/log/" . basename($0, '.pl');
				system('mkdir', '-p', $to);
				system('cp', $instance->log_path, "$to/" . basename($instance->dir) . '.log');
			}
			if ($ENV{CAPSTAN_KEEP})
			{
				diag('kept: ' . $instance->dir);
				next;
			}
			eval { $instance->destroy; 1 } or warn $@;
		}
		$? = $status;
	}
}

package CapstanTest::Background;

# A program that runs beside the test: ->wait gives its exit code, ->stop ends it,
# ->output and ->errors what it said.

use strict;
use warnings;

sub new
{
	my ($class, %self) = @_;
	return bless {%self}, $class;
}

sub pid { $_[0]{pid} }

sub running
{
	my ($self) = @_;

	return 0 if defined $self->{rc};
	$self->{rc} = CapstanTest::try_reap($self->{pid});
	return !defined $self->{rc};
}

sub wait
{
	my ($self) = @_;

	$self->{rc} //= CapstanTest::reap($self->{pid});
	return $self->{rc};
}

sub stop
{
	my ($self) = @_;

	return $self->{rc} if defined $self->{rc};
	kill('TERM', $self->{pid});
	return $self->wait;
}

sub output { CapstanTest::slurp($_[0]{dir} . '/out') }
sub errors { CapstanTest::slurp($_[0]{dir} . '/err') }

package CapstanTest;

use CapstanTest::Compare;
use CapstanTest::MySQL;
use CapstanTest::Postgres;

1;
