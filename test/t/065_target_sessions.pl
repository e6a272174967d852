# Sessions of the target that write to the same rows at the same moment take nothing away from what the source did.
#
# Why: a statement that waited for somebody's row finds, when it goes on, another version of it, or another row with its key, which its
# snapshot does not show: it then touches no row at all, and says so in nothing but a number.
# How: one source, two databases with a pipeline each, capstan.direct_apply on in one and off in the other. A session of the target holds a
# row until the worker waits for it, and then goes on: it puts the row anew, takes out one that was there before its insert came, or changes a
# column of its own. Tables with a key, without one, partitioned; full and partial row images. Somebody who reads the target's log (logical decoding),
# and a publication that only inserts can be told to. A rule of the target that acts during the copy.
# Asserted: contents equal the source; columns of somebody's own keep what the session wrote; the changes that a reader of the log is told
# are the same both ways, and each can be applied; inserts need no replica identity; the rule acted once for each copied row, and where it cannot act the copy halts.
# Not asserted: triggers that suppress changes, foreign tables.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => [ '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0' ]);
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.lock_timeout' => "'120s'", wal_level => 'logical' });

$my->sql(<<'SQL');
CREATE DATABASE w; USE w;
CREATE TABLE keyed (id INT PRIMARY KEY, v INT, s VARCHAR(20));
CREATE TABLE parted LIKE keyed; CREATE TABLE told LIKE keyed; CREATE TABLE decoded LIKE keyed;
CREATE DATABASE h; USE h;
CREATE TABLE heap (a INT, b INT); CREATE TABLE parted_heap LIKE heap; CREATE TABLE ruled LIKE heap; CREATE DATABASE r; CREATE TABLE r.keyed LIKE w.keyed;
INSERT INTO w.keyed VALUES (1, 1, 'a'), (2, 2, 'b'), (4, 4, 'd'), (5, 5, 'e'), (6, 6, 'f');
INSERT INTO w.parted SELECT * FROM w.keyed; INSERT INTO r.keyed SELECT * FROM w.keyed; INSERT INTO w.decoded SELECT * FROM w.keyed;
INSERT INTO heap VALUES (1, 1), (1, 1), (2, 2), (3, 3); INSERT INTO parted_heap SELECT * FROM heap; INSERT INTO ruled SELECT * FROM heap;
SQL
$my->grant;

# A handle on another database of the same cluster.
sub database
{
	my ($name) = @_;

	return bless { %$pg, database => $name }, ref $pg;
}
$pg->safe_psql('CREATE DATABASE direct'); $pg->safe_psql('CREATE DATABASE statements');
$pg->safe_psql('ALTER DATABASE statements SET capstan.direct_apply = off');
my %db = map { $_ => database($_) } qw(direct statements);
for my $name (sort keys %db)
{
	$db{$name}->safe_psql(<<'SQL');
CREATE EXTENSION capstan; CREATE SCHEMA w; CREATE SCHEMA h; CREATE SCHEMA r;
CREATE TABLE w.parted (id integer PRIMARY KEY, v integer, s varchar(20)) PARTITION BY RANGE (id);
CREATE TABLE w.parted_low PARTITION OF w.parted FOR VALUES FROM (MINVALUE) TO (3);
CREATE TABLE w.parted_rest PARTITION OF w.parted DEFAULT;
CREATE TABLE w.told (id integer NOT NULL UNIQUE, v integer, s varchar(20));
CREATE TABLE h.ruled (a integer, b integer); CREATE TABLE r.keyed (id integer PRIMARY KEY, v integer, s varchar(20));
CREATE TABLE public.noted (a integer);
CREATE RULE also AS ON INSERT TO h.ruled DO ALSO INSERT INTO public.noted VALUES (NEW.a);
CREATE RULE also AS ON INSERT TO r.keyed DO ALSO INSERT INTO public.noted VALUES (NEW.id);
ALTER TABLE h.ruled ENABLE ALWAYS RULE also; ALTER TABLE r.keyed ENABLE ALWAYS RULE also;
CREATE TABLE h.heap (a integer, b integer, own integer);
CREATE TABLE h.parted_heap (a integer, b integer, own integer) PARTITION BY RANGE (a);
CREATE TABLE h.parted_low PARTITION OF h.parted_heap FOR VALUES FROM (MINVALUE) TO (2);
CREATE TABLE h.parted_rest PARTITION OF h.parted_heap DEFAULT;
SQL
	$db{$name}->create_server('source', $my);
	$db{$name}->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('$name', server => 'source', tables => '{w.*,h.*}')");
	$db{$name}->safe_psql("SELECT capstan.start_pipeline('$name')");
	$db{$name}->safe_psql("SELECT capstan.wait_for_snapshot('$name', timeout => '180 s')");
	is($db{$name}->value('SELECT string_agg(a::text, \',\' ORDER BY a) FROM public.noted'), '1,1,2,3', "$name: a rule of the target acts once for each copied row");
}
start_pipeline($db{direct}, 'ruled', ['r.*'], timeout => 0);
expect_halt($db{direct}, 'ruled', '0A000', qr/rules/, qr/r\.keyed/);
is($db{direct}->value('SELECT count(*) FROM r.keyed'), 0, 'and where it cannot act nothing is copied past it');
drop_pipeline($db{direct}, 'ruled');

sub heaps
{
	my ($what) = @_;

	for my $table (qw(heap parted_heap))
	{
		my $wanted = $my->value("SELECT GROUP_CONCAT(CONCAT(a, '=', b) ORDER BY a, b) FROM h.$table");
		is($db{$_}->value("SELECT string_agg(a || '=' || b, ',' ORDER BY a, b) FROM h.$table"), $wanted, "$what: $_: $table") for sort keys %db;
	}
}

sub both_equal
{
	my ($what) = @_;

	for my $name (sort keys %db)
	{
		sync_pipeline($db{$name}, $name);
		tables_equal($my, $db{$name}, [ 'w.*' ], "$what: $name");
	}
	heaps($what);
}

# ---- sessions that hold a row ----

my $anew = sub { my ($table, $id) = @_; "CREATE TEMP TABLE kept AS SELECT * FROM w.$table WHERE id = $id; DELETE FROM w.$table WHERE id = $id; INSERT INTO w.$table SELECT * FROM kept" };
# Name, what the session does before the worker comes, what it does then, what the source does, what is in the target before.
my @cases = (
	[ 'update of a row that is put anew', $anew->('keyed', 1), '', "UPDATE w.keyed SET v = 11 WHERE id = 1" ],
	[ 'delete of a row that is put anew', $anew->('keyed', 2), '', "DELETE FROM w.keyed WHERE id = 2" ],
	[ 'insert of a key that is there and goes', 'SELECT FROM w.keyed WHERE id = 3 FOR UPDATE', 'DELETE FROM w.keyed WHERE id = 3', "INSERT INTO w.keyed VALUES (3, 33, 'c')", "INSERT INTO w.keyed VALUES (3, 0, 'somebody')" ],
	[ 'key change of a row that is put anew', $anew->('keyed', 5), '', 'UPDATE w.keyed SET id = 50 WHERE id = 5' ],
	[ 'partitioned: update', $anew->('parted', 1), '', 'UPDATE w.parted SET v = 11 WHERE id = 1' ],
	[ 'partitioned: delete', $anew->('parted', 2), '', 'DELETE FROM w.parted WHERE id = 2' ],
	[ 'partitioned: insert', 'SELECT FROM w.parted WHERE id = 3 FOR UPDATE', 'DELETE FROM w.parted WHERE id = 3', "INSERT INTO w.parted VALUES (3, 33, 'c')", "INSERT INTO w.parted VALUES (3, 0, 'somebody')" ],
	[ 'no key: delete beside a change of an own column', 'UPDATE h.heap SET own = 1 WHERE a = 1', '', 'DELETE FROM h.heap WHERE a = 1 LIMIT 1' ],
	[ 'no key: update beside a change of an own column', 'UPDATE h.heap SET own = 2 WHERE a = 2', '', 'UPDATE h.heap SET b = 22 WHERE a = 2' ],
	[ 'no key, partitioned: delete', 'UPDATE h.parted_heap SET own = 1 WHERE a = 1', '', 'DELETE FROM h.parted_heap WHERE a = 1 LIMIT 1' ],
	[ 'no key, partitioned: update', 'UPDATE h.parted_heap SET own = 2 WHERE a = 2', '', 'UPDATE h.parted_heap SET b = 22 WHERE a = 2' ],
	[ 'partial update of a row that is put anew', $anew->('keyed', 4), '', "SET SESSION binlog_row_image = 'MINIMAL'; UPDATE w.keyed SET v = 44 WHERE id = 4; SET SESSION binlog_row_image = 'FULL'" ]);

for my $i (0 .. $#cases)
{
	my ($what, $before, $then, $source, $there) = @{ $cases[$i] };
	my $lock = 100 + $i;
	$_->safe_psql($there // '') for values %db;
	my @keepers = map { $_->background("SET application_name = 'keeper'; SELECT pg_advisory_lock($lock); SELECT pg_sleep(600)") } values %db;
	$_->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'keeper' AND wait_event = 'PgSleep' AND datname = current_database()", 1) for values %db;
	my @sessions = map { $_->background("SET application_name = 'session'; BEGIN; $before; SELECT pg_advisory_lock_shared($lock); $then; COMMIT") } values %db;
	ok($_->poll_query_until("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'session' AND wait_event = 'advisory' AND datname = current_database()", 1), "$what: a session holds the row") for values %db;
	$my->sql($source);
	ok($_->poll_query_until("SELECT count(*) FROM pg_stat_activity w, pg_stat_activity s WHERE w.backend_type = 'capstan pipeline' AND w.datname = current_database()
		AND s.application_name = 'session' AND s.pid = ANY (pg_blocking_pids(w.pid))", 1), "$what: the worker waits") for values %db;
	$pg->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'keeper'");
	$_->wait for @keepers;
	is($_->wait, 0, "$what: the session is through") for @sessions;
}
both_equal('after all sessions');
is($_->value('SELECT own FROM h.heap WHERE a = 2') . $_->value('SELECT own FROM h.parted_heap WHERE a = 2'), '22', "$_->{database}: what the sessions wrote to a column of their own") for values %db;

# ---- readers of the target's log ----

# Rows that are there already: what is told of them must fit a copy of the target.
sub stop_both
{
	$db{$_}->safe_psql("SELECT capstan.stop_pipeline('$_')") for sort keys %db;
	poll_until(sub { $db{$_}->value("SELECT state FROM capstan.pipeline_status WHERE pipeline = '$_'") eq 'stopped' }) for sort keys %db;
}
stop_both();
$_->safe_psql("INSERT INTO w.decoded VALUES (9, 0, 'there')") for values %db;
$db{$_}->safe_psql("SELECT pg_create_logical_replication_slot('$_', 'test_decoding')") for sort keys %db;
$my->sql("INSERT INTO w.decoded VALUES (8, 8, 'h'), (9, 9, 'i'), (10, 10, 'j')");
$db{$_}->safe_psql("SELECT capstan.start_pipeline('$_')") for sort keys %db;
both_equal('a row that was there');
my %told = map { $_ => $db{$_}->value("SELECT string_agg(regexp_replace(data, '^table w.decoded: ', ''), '; ') FROM pg_logical_slot_get_changes('$_', NULL, NULL) WHERE data LIKE 'table w.decoded%'") } sort keys %db;
like($told{statements}, qr/^INSERT: id\S*:8 [^;]*; UPDATE: id\S*:9 [^;]*; INSERT: id\S*:10 [^;]*$/, 'what statements tell a reader of the log');
is(join('; ', sort split /; /, $told{direct}), join('; ', sort split /; /, $told{statements}), 'without statements he is told the same');
$db{$_}->safe_psql("SELECT pg_drop_replication_slot('$_')") for sort keys %db;

# A publication of a table without replica identity: rows can be inserted, and nothing else.
$_->safe_psql('CREATE PUBLICATION pub FOR TABLE w.told') for values %db;
$my->sql("INSERT INTO w.told VALUES (1, 1, 'a'), (2, 2, 'b')");
both_equal('inserts need no replica identity');
$my->sql("DELETE FROM w.told WHERE id = 1");
for my $name (sort keys %db)
{
	expect_halt($db{$name}, $name, '55000', qr/replica identity/, qr/w\.told/);
	$db{$name}->safe_psql("ALTER TABLE w.told REPLICA IDENTITY FULL; SELECT capstan.resume_pipeline('$name', 'replica identity given')");
}
both_equal('after a replica identity was given');

done_testing();
