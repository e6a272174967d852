# A source that lets nobody in any more does not end a stream that is in already.
#
# Why: the stream's worker asks the source now and then how long it keeps its log, by a connection of its own. A source that is full, or an
# account whose password is being changed, refuses that one; who gives up the other for it cannot come back.
# How: max_connections is lowered below what is there; then the account gets another password. Both until the log of Postgres says that the source
# could not be asked, several times.
# And a password that is changed for good, on the source and in the user mapping, in the middle of a copy, whose next connections are opened with the old one.
# Asserted: rows go on arriving, by the same worker; no incident; afterwards the source is asked again. The copy is tried again with the new password,
# and completes; nothing halts.
# Not asserted: what happens to a stream that is cut meanwhile (031), bounds themselves (083).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(fault_points => 1, conf => { 'capstan.bounds_interval' => "'100ms'", 'capstan.heartbeat' => "'200ms'" });

$my->grant;
$my->sql('CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO s.t VALUES (1, 0)');
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
start_pipeline($pg, 'p', ['s.t']);
sync_pipeline($pg, 'p');

my $WORKER = q{SELECT pid FROM pg_stat_activity WHERE application_name = 'capstan pipeline "p"'};

sub refusals { scalar(() = $pg->log =~ /could not be asked how long it keeps its binary log/g) }

# $begin ... $end on the source, by one session, which has to be let in before; between them it writes until it is told to stop.
sub refused
{
	my ($name, $begin, $end) = @_;
	my $worker = $pg->value($WORKER);
	my $before = refusals();
	my $file = $my->background("$begin; " . ('UPDATE s.t SET v = v + 1; DO SLEEP(0.2); ' x 60) . $end);
	my $seen = poll_until(sub { refusals() >= $before + 2 });
	my $v = $pg->value('SELECT v FROM s.t');

	ok($seen, "$name: the source could not be asked");
	ok($pg->poll_query_until("SELECT v > $v FROM s.t", 't'), '... and rows go on arriving');
	$file->wait;
	sync_pipeline($pg, 'p');
	tables_equal($my, $pg, ['s.t'], '... all of them');
	is($pg->value($WORKER), $worker, '... by the same worker');
	is($pg->safe_psql('SELECT severity, class, message FROM capstan.incident'), '', '... without an incident');
}

my ($hash) = $my->value("SELECT HEX(authentication_string) FROM mysql.user WHERE user = 'capstan'");
refused('full', 'SET GLOBAL max_connections = 1', 'SET GLOBAL max_connections = 151');
refused('another password', "ALTER USER capstan IDENTIFIED BY 'another'", "ALTER USER capstan IDENTIFIED WITH caching_sha2_password AS 0x$hash");

# each table of a shared round is locked on a connection of its own: two at a time, then more
drop_pipeline($pg, 'p');
my @tables = map { "s.r$_" } 1 .. 8;
$my->sql(join '', map { "CREATE TABLE $_ (id INT PRIMARY KEY); INSERT INTO $_ VALUES (1), (2);" } @tables);
$pg->safe_psql('ALTER SYSTEM SET capstan.max_pipeline_connections = 8');
$pg->reload;
$pg->poll_query_until('SHOW capstan.max_pipeline_connections', 8);
$pg->fault_point('plan_committed', 'hold', copy_index => 0);
start_pipeline($pg, 'p', \@tables, timeout => '');
ok($pg->wait_struck(180), 'rotated: a round is planned');
$my->sql("ALTER USER capstan IDENTIFIED BY 'rotated'");
$pg->safe_psql("ALTER USER MAPPING FOR CURRENT_USER SERVER source OPTIONS (SET password 'rotated')");
$pg->safe_psql('ALTER SYSTEM RESET capstan.max_pipeline_connections');
$pg->reload;
$pg->poll_query_until('SELECT reset_val::int > 8 FROM pg_settings WHERE name = \'capstan.max_pipeline_connections\'', 't');
$pg->fault_go;
my ($rc, $out, $err) = $pg->psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
is($rc, 0, '... and is tried again with the new password') or diag($err);
is($pg->safe_psql("SELECT severity, sqlstate FROM capstan.incident WHERE sqlstate = '28P01'"), 'retry|28P01', '... which it was told of')
  or diag($pg->safe_psql('SELECT severity, sqlstate, class, message, occurrences FROM capstan.incident'));
is($pg->safe_psql("SELECT class, message FROM capstan.incident WHERE severity = 'halt'"), '', '... and nothing halted');
sync_pipeline($pg, 'p');
tables_equal($my, $pg, \@tables, 'rotated');

done_testing();
