# A private MySQL server. See CapstanTest.

package CapstanTest::MySQL;

use strict;
use warnings;
use utf8;

use Carp qw(croak);
use File::Temp ();
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
# next n, so that the caller must not assume that a step was executed.
sub writer
{
	my ($self, $code) = @_;
	my $dir = File::Temp->newdir('capstan-bg.XXXXXX', TMPDIR => 1);
	my $pid = CapstanTest::spawn_code(
		sub {
			my ($client, $n) = (undef, 0);

			local $SIG{PIPE} = 'IGNORE';
			open(STDOUT, '>', "$dir/out") or die $!;
			open(STDERR, '>', "$dir/err") or die $!;
			srand($$);
			while (1)
			{
				unless ($client)
				{
					open($client, '|-', @{ $self->{words} }, '--force', '--batch', '--unbuffered')
					  or die $!;
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
	return CapstanTest::Background->new(pid => $pid, dir => $dir);
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

1;
