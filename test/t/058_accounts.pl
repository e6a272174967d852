# Accounts and encryption, for every connection of a pipeline; what a pipeline says to the
# source, and what it never says to anybody.
#
# Why: connections for queries and for the binary log took different paths elsewhere, and one of
# them lost the certificate; passwords appeared in logs; readers wrote to their source.
# How: pipelines under accounts that want nothing, TLS, or a client certificate, through a
# snapshot, a stop, FLUSH PRIVILEGES (which empties the server's cache of passwords) and start; a
# source that comes to refuse what it took before; the source's general log.
# Asserted: contents; TLS of each session; messages that name setting and remedy; statements that
# reached the source; that no password is anywhere to be read.
# Not asserted: plugins, hostile servers, single connections (015).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep);
use CapstanTest;
use CapstanTest::BothWays;

my $secret = 'Geheim-Wort-77';
my $my = CapstanTest::MySQL->start(options => [ '--general-log=ON', '--general-log-file=general.log', '--log-raw=OFF' ]);
my $pg = CapstanTest::Postgres->start(conf => { log_min_messages => 'debug1', log_error_verbosity => 'verbose' });

my $data = $my->dir . '/data';
my $certs = File::Temp->newdir('capstan-certs.XXXXXX', TMPDIR => 1);
chmod(0755, $certs);
for my $file (qw(ca.pem client-cert.pem client-key.pem))
{
	CapstanTest::_spew("$certs/$file", CapstanTest::slurp("$data/$file"));
	chmod(0644, "$certs/$file");
}
# A private key must be its reader's alone.
system('chown', 'postgres', "$certs/client-key.pem") if $> == 0;
chmod(0600, "$certs/client-key.pem");

$my->sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1, 1), (2, 2);"
	  . join '', map { "CREATE USER $_->[0]\@'%' IDENTIFIED BY '$secret' $_->[1]; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO $_->[0]\@'%'; GRANT SELECT, LOCK TABLES ON d.* TO $_->[0]\@'%';" }
	  [ 'plain', '' ], [ 'tls', 'REQUIRE SSL' ], [ 'cert', 'REQUIRE X509' ]);
$pg->safe_psql('CREATE EXTENSION capstan');

# The protocol of each session of an account, 'TLS:' without TLS.
sub sessions
{
	my ($user) = @_;

	return map { $_->[0] } $my->query("SELECT CONCAT('TLS:', s.VARIABLE_VALUE) FROM performance_schema.threads t JOIN performance_schema.status_by_thread s USING (THREAD_ID)
		WHERE t.PROCESSLIST_USER = '$user' AND s.VARIABLE_NAME = 'Ssl_version'");
}

my %files = (ssl_ca => "$certs/ca.pem");
my %both = (%files, ssl_cert => "$certs/client-cert.pem", ssl_key => "$certs/client-key.pem");
for my $case (
	[ 'plain', 'disabled', {}, 0 ], [ 'plain', 'preferred', {}, 1 ], [ 'tls', 'required', {}, 1 ], [ 'tls', 'verify_ca', \%files, 1 ], [ 'cert', 'verify_ca', \%both, 1 ])
{
	my ($user, $mode, $files, $encrypted) = @$case;
	my $what = "$user, ssl_mode $mode";

	$my->sql('FLUSH PRIVILEGES; REPLACE INTO d.t VALUES (3, 3)');
	$pg->create_server('source', $my, user => $user, password => $secret, options => { ssl_mode => $mode, %$files });
	start_pipeline($pg, 'a', ['d.t'], truncate_target => 'true');
	$my->sql('DELETE FROM d.t WHERE id = 3');
	sync_pipeline($pg, 'a');
	# One that has just been closed is no session, and may be there half.
	my @sessions;
	poll_until { @sessions = sessions($user); @sessions && !grep { ($_ ne 'TLS:') != $encrypted } @sessions };
	cmp_ok(scalar(@sessions), '>=', 1, "$what: sessions are there");
	is(scalar(grep { ($_ ne 'TLS:') != $encrypted } @sessions), 0, $encrypted ? "$what: all of them use TLS" : "$what: none of them uses TLS");
	$pg->safe_psql("SELECT capstan.stop_pipeline('a')");
	$my->sql('FLUSH PRIVILEGES; UPDATE d.t SET v = v + 1');
	$pg->safe_psql("SELECT capstan.start_pipeline('a')");
	sync_pipeline($pg, 'a');
	tables_equal($my, $pg, ['d.t'], $what);
	drop_pipeline($pg, 'a');
	$pg->safe_psql('DROP SERVER source CASCADE');
}

# Refused, by a message that says what to do.
for my $case (
	[ 'plain', { ssl_mode => 'disabled' }, 'SET GLOBAL require_secure_transport = ON', qr/require_secure_transport/, qr/ssl_mode/ ],
	[ 'tls', { ssl_mode => 'disabled' }, '', qr/tls/, qr/ssl_mode/ ],
	[ 'cert', { ssl_mode => 'required' }, '', qr/cert/, qr/ssl_cert/ ],
	[ 'cert', { ssl_mode => 'verify_identity', %both }, '', qr/certificate|name|identity/i, qr/ssl_mode|host/ ])
{
	my ($user, $options, $sql, @says) = @$case;

	$my->sql($sql) if $sql;
	$pg->create_server('source', $my, user => $user, password => $secret, options => $options);
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('no', server => 'source', tables => '{d.t}')");
	isnt($rc, 0, "$user with ssl_mode $options->{ssl_mode} is refused");
	like($err, $_, "... the message says $_") for @says;
	unlike($err, qr/\Q$secret/, '... and not the password');
	$my->sql('SET GLOBAL require_secure_transport = OFF');
	$pg->safe_psql('DROP SERVER source CASCADE');
}

# A source that comes to want encryption, and an account that gets another password, meanwhile.
$pg->create_server('source', $my, user => 'plain', password => $secret, options => { ssl_mode => 'disabled' });
start_pipeline($pg, 'a', ['d.t'], truncate_target => 'true');
$my->sql("SET GLOBAL require_secure_transport = ON; SELECT GROUP_CONCAT(id) FROM information_schema.PROCESSLIST WHERE user = 'plain'");
# One that was asked something may have gone by itself.
$my->try_sql("KILL $_->[0]") for $my->query("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'plain'");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE pipeline = 'a' AND concat(message, detail, hint) ~ 'require_secure_transport'", 't'), 'the incident names require_secure_transport');
$my->sql("SET GLOBAL require_secure_transport = OFF; INSERT INTO d.t VALUES (10, 1)");
$pg->safe_psql("SELECT capstan.start_pipeline('a')");
sync_pipeline($pg, 'a');
$my->sql("ALTER USER plain\@'%' IDENTIFIED BY '$secret-other'; INSERT INTO d.t VALUES (11, 1)");
# One that was asked something may have gone by itself.
$my->try_sql("KILL $_->[0]") for $my->query("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'plain'");
ok($pg->poll_query_until("SELECT count(*) > 0 FROM capstan.incident WHERE pipeline = 'a' AND sqlstate LIKE '28%'", 't'), 'a changed password makes an incident')
  or diag($pg->safe_psql('SELECT sqlstate, severity, message FROM capstan.incident'));
$pg->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER source OPTIONS (SET password '$secret-other'); SELECT capstan.start_pipeline('a')");
sync_pipeline($pg, 'a');
tables_equal($my, $pg, ['d.t'], 'after the password was changed on both sides');

# Nowhere to be read: log (of level debug1), catalog but for the mapping, activity, process titles.
my %seen;
for (1 .. 20)
{
	$seen{$_}++ for $pg->safe_psql("SELECT string_agg(a::text, ' ') FROM pg_stat_activity a WHERE pid <> pg_backend_pid()") =~ /\Q$secret/ ? 'pg_stat_activity' : ();
	for my $pid ($pg->worker_pids(qr/capstan/))
	{
		$seen{"/proc/$pid"}++ if join('', map { eval { CapstanTest::slurp("/proc/$pid/$_") } // '' } qw(cmdline environ)) =~ /\Q$secret/;
	}
	sleep(0.02);
}
# The statements of this script that give a password are not logged, for log_statement is none, and none of them failed.
$seen{log}++ if $pg->log_contains(qr/\Q$secret/);
for my $table ($pg->query("SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'capstan' AND relkind IN ('r', 'v')"))
{
	$seen{ $table->[0] }++ if ($pg->value("SELECT string_agg(x::text, ' ') FROM $table->[0] x") // '') =~ /\Q$secret/;
}
is_deeply(\%seen, {}, 'the password is nowhere to be read');
$pg->safe_psql('CREATE ROLE clerk; GRANT USAGE ON FOREIGN SERVER source TO clerk');
is($pg->value('SET ROLE clerk; SELECT count(*) FROM pg_user_mappings WHERE umoptions IS NOT NULL'), 0, 'others do not see the mapping');
drop_pipeline($pg, 'a');

# What reached the source.
my $log = CapstanTest::slurp("$data/general.log");
utf8::decode($log);
unlike($log, qr/\Q$secret/, 'the source\'s general log has no password either');
my (%user, %kind, @wrong);
for my $line (split /\n/, $log)
{
	my ($id, $command, $text) = $line =~ /^\S+Z\s+(\d+) (\S.*?)\t(.*)/ or next;
	$user{$id} = $1 if $command eq 'Connect' && $text =~ /^(\w*)@/;
	next unless ($user{$id} // '') =~ /^(?:plain|tls|cert)$/;
	next unless $command =~ /^(?:Query|Prepare|Execute)$/;
	$kind{$1}++ if $text =~ /^(\w+)/;
	push @wrong, $text unless $text =~ /^(?:SELECT|SET (?!GLOBAL|PERSIST)|SHOW|LOCK TABLES|UNLOCK TABLES|FLUSH TABLES .* WITH READ LOCK|START TRANSACTION|COMMIT|ROLLBACK|KILL|XA RECOVER|DO )/;
	push @wrong, $text if $text =~ /gtid_executed/ && $text !~ /\@\@GLOBAL\.gtid_executed/i;
}
is_deeply(\@wrong, [], 'nothing but reading reached the source, and gtid_executed is read globally');
cmp_ok($kind{$_} // 0, '>', 0, "... and it was looked at: $_") for qw(SELECT SET LOCK UNLOCK START);

done_testing();
