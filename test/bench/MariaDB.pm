# A private MariaDB, for pgloader to read: it cannot log in to MySQL 9.

package MariaDB;

use strict;
use warnings;
use utf8;

use CapstanTest;
use File::Temp ();
use Time::HiRes qw(sleep);

sub installed { return -x '/usr/sbin/mariadbd' && -x '/usr/bin/mariadb-install-db' && -x '/usr/bin/mariadb' }

sub start
{
	my ($class) = @_;
	my $self = bless {}, $class;

	$self->{dir} = File::Temp->newdir('capstan-mariadb.XXXXXX', TMPDIR => 1);
	my $dir = "$self->{dir}";
	my ($rc, $out, $err);
	my @user = $> == 0 ? ('--user=nobody') : ();

	chmod 0755, $dir;
	mkdir "$dir/data" or die $!;
	chown((getpwnam('nobody'))[2, 3], $dir, "$dir/data") if $> == 0;
	($rc, $out, $err) = CapstanTest::run_command([ 'bash', '-c', ". $CapstanTest::TOP/test/lib/common.sh; free_port" ]);
	chomp($self->{port} = $out);
	($rc, $out, $err) = CapstanTest::run_command([ 'mariadb-install-db', '--no-defaults', @user, "--datadir=$dir/data", '--auth-root-authentication-method=normal', '--skip-test-db' ]);
	die "mariadb-install-db: $out$err" if $rc != 0;
	$self->{pid} = CapstanTest::spawn([ '/usr/sbin/mariadbd', '--no-defaults', @user, "--datadir=$dir/data", "--socket=$dir/sock", "--port=$self->{port}",
			'--bind-address=127.0.0.1', '--innodb-buffer-pool-size=512M', '--innodb-flush-log-at-trx-commit=0', '--secure-file-priv=', '--character-set-server=utf8mb4', "--pid-file=$dir/pid" ],
		stdout => "$dir/log", stderr => "$dir/log");
	poll_until { (CapstanTest::run_command([ $self->_words, '-e', 'DO 1' ]))[0] == 0 } or die 'MariaDB does not start: ' . CapstanTest::slurp("$dir/log");
	$self->sql(q{CREATE USER 'loader'@'127.0.0.1' IDENTIFIED BY 'sesam'; GRANT ALL ON *.* TO 'loader'@'127.0.0.1'});
	return $self;
}

sub _words { my ($self) = @_; return ('mariadb', '--no-defaults', "--socket=$self->{dir}/sock", '--user=root') }

sub sql
{
	my ($self, $sql) = @_;
	my ($rc, $out, $err) = CapstanTest::run_command([ $self->_words ], stdin => $sql);

	die "mariadb: $err" if $rc != 0;
	return $out;
}

# The load file of one table into one that is there.
sub pgloader_file
{
	my ($self, $db, $schema, $table, $target_schema, $target) = @_;
	my $host = $db->host;

	CapstanTest::_spew("$self->{dir}/load", <<"LOAD");
LOAD DATABASE FROM mysql://loader:sesam\@127.0.0.1:$self->{port}/$schema INTO postgresql://postgres\@unix:$host:5432/$db->{database}
WITH data only, workers = 2, concurrency = 1, include no drop, no truncate, no foreign keys
INCLUDING ONLY TABLE NAMES MATCHING '$table'
ALTER TABLE NAMES MATCHING '$table' RENAME TO '$target'
ALTER SCHEMA '$schema' RENAME TO '$target_schema';
LOAD
	return "$self->{dir}/load";
}

sub destroy
{
	my ($self) = @_;

	return unless $self->{pid};
	kill('TERM', $self->{pid});
	CapstanTest::reap(delete $self->{pid});
}

1;
