# What bad input gets: an error with SQLSTATE, detail and a hint that mends it, before
# anything is changed.
#
# Why: somebody who sets up a pipeline learns the requirements from these errors; and a
# pipeline that starts on a source that cannot be replicated exactly would lie later.
# How: one source, one target; each case breaks one thing, asks create_pipeline, puts it
# back. The fix that preflight names is executed where it is a statement.
# Asserted: SQLSTATE, and that message, detail and hint name the thing and the remedy;
# that no pipeline, schema or table was made and no row removed; that preflight shows the
# same as a row; that it passes once the thing is mended.
# Not asserted: arguments that need no source to be wrong (sql/pipeline_errors.sql), and
# what happens when a setting changes under a running pipeline.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->sql(<<'SQL');
CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(60), at DATETIME);
INSERT INTO orders VALUES (1, 'a', '2024-01-01 00:00:00');
CREATE TABLE items (id INT PRIMARY KEY, order_id INT);
CREATE DATABASE odd;
USE odd;
CREATE TABLE isam (id INT PRIMARY KEY) ENGINE = MyISAM;
CREATE TABLE archived (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = ARCHIVE;
CREATE TABLE fleeting (id INT PRIMARY KEY) ENGINE = MEMORY;
CREATE TABLE hole (id INT PRIMARY KEY) ENGINE = BLACKHOLE;
CREATE TABLE keyless (a INT, b INT);
CREATE TABLE place (id INT PRIMARY KEY, plain INT, p GEOMETRY);
CREATE TABLE seen (id INT PRIMARY KEY);
CREATE VIEW looks AS SELECT id FROM seen;
SQL
$my->sql('CREATE TABLE odd.' . ('x' x 63) . $_ . ' (id INT PRIMARY KEY)') for 'a', 'b';
$my->sql(q{
	CREATE USER 'capstan'@'%' IDENTIFIED BY 'sesam';
	GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'capstan'@'%';
	GRANT SELECT, LOCK TABLES ON shop.* TO 'capstan'@'%';
	GRANT SELECT, LOCK TABLES ON odd.* TO 'capstan'@'%'});
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# Everything that create_pipeline could have changed.
sub traces
{
	return $pg->safe_psql(q{
		SELECT (SELECT count(*) FROM capstan.pipeline), (SELECT count(*) FROM capstan.pipeline_table),
		  (SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_'),
		  (SELECT string_agg(oid::regclass::text, ',' ORDER BY oid) FROM pg_class
		   WHERE relkind IN ('r', 'p', 'v') AND relnamespace <> 'capstan'::regnamespace AND oid >= 16384)});
}

# The three parts of an error as psql shows them.
sub error_of
{
	my ($sql, %opt) = @_;
	my ($rc, $out, $err) = $pg->psql($sql, options => [ '-v', 'VERBOSITY=verbose' ], %opt);
	my %error = (rc => $rc, out => $out, all => $err);

	@error{qw(sqlstate message)} = ($1, $2) if $err =~ /ERROR:  (\w{5}): (.*?)(?=\n(?:DETAIL|HINT|LOCATION|CONTEXT|STATEMENT|LINE \d+):)/s;
	$error{detail} = $err =~ /^DETAIL:  (.*?)(?=\n(?:HINT|LOCATION|CONTEXT):)/ms ? $1 : '';
	$error{hint} = $err =~ /^HINT:  (.*?)(?=\n(?:LOCATION|CONTEXT):)/ms ? $1 : '';
	return \%error;
}

# The statement fails in just this way, and leaves nothing behind.
sub refused
{
	my ($name, $sql, $sqlstate, %expect) = @_;
	my $before = traces();
	my $error = error_of($sql, %{ $expect{psql} // {} });

	# Not to fail all that follows.
	$pg->psql("SELECT capstan.drop_pipeline('p'); DROP SCHEMA IF EXISTS shop, odd CASCADE") if $error->{rc} == 0;
	subtest $name => sub {
		isnt($error->{rc}, 0, 'refused');
		is($error->{sqlstate}, $sqlstate, 'SQLSTATE');
		like($error->{$_}, $expect{$_}, $_) for grep { $expect{$_} } qw(message detail hint);
		is(traces(), $before, 'nothing was changed') if $error->{rc} != 0;
		unlike($error->{all}, qr/sesam/, 'no password');
		diag($error->{all}) unless Test::More->builder->is_passing;
	};
	return $error;
}

sub create
{
	my ($tables, $more) = @_;
	return "SELECT capstan.create_pipeline('p', server => 'source', tables => '{$tables}'" . ($more ? ", $more" : '') . ')';
}

# create_pipeline is refused, and preflight has the failed check with what mends it.
sub refused_create
{
	my ($name, $tables, $sqlstate, $check, %expect) = @_;

	refused($name, create($tables, $expect{more}), $sqlstate,
		message => qr/^cannot create pipeline "p": \Q$check\E/, detail => qr/^Wanted: ./, hint => qr/capstan\.preflight\('source'/, %expect);
	my ($row) = $pg->query(sprintf q{SELECT status, found, wanted, fix FROM capstan.preflight('source', '{%s}'%s) WHERE "check" LIKE '%s%%' ORDER BY status = 'error' DESC LIMIT 1},
		$tables, $expect{more} ? ", $expect{more}" : '', $check =~ s/'/''/gr =~ s/_/\\_/gr);
	is($row->[0] // 'no row', 'error', "$name: preflight shows it");
	ok($row && defined $row->[3], "$name: preflight says what mends it");
	return $row ? $row->[3] : undef;
}

sub passes
{
	my ($name, $tables, $more) = @_;
	my $failed = $pg->safe_psql("SELECT \"check\", found, wanted FROM capstan.preflight('source', '{$tables}'" . ($more ? ", $more" : '') . ") WHERE status = 'error'");
	is($failed, '', $name);
}

passes('a source as the README wants it passes', 'shop.*');

# Options, servers, mappings: more of them in sql/source_options.sql and sql/pipeline_errors.sql.
refused('a wrong option', "CREATE SERVER wrong FOREIGN DATA WRAPPER capstan OPTIONS (hots 'db1')", 'HV00D', hint => qr/"host"/);
refused('an unknown server', "SELECT capstan.create_pipeline('p', server => 'nowhere', tables => '{shop.*}')", '42704',
	message => qr/server "nowhere" does not exist/, hint => qr/CREATE SERVER nowhere/);
$pg->safe_psql(q{CREATE SERVER unmapped FOREIGN DATA WRAPPER capstan});
refused('no mapping', "SELECT capstan.create_pipeline('p', server => 'unmapped', tables => '{shop.*}')", '42704',
	message => qr/no user mapping for server "unmapped"/, hint => qr/CREATE USER MAPPING FOR postgres SERVER unmapped/);

# The connection.
$pg->safe_psql(sprintf q{
	CREATE SERVER down FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '1', connect_timeout '3');
	CREATE USER MAPPING FOR CURRENT_USER SERVER down OPTIONS (user 'capstan', password 'sesam');
	CREATE SERVER locked FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '%d');
	CREATE USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (user 'capstan', password 'wrong sesam');}, $my->port);
refused('host down', "SELECT capstan.create_pipeline('p', server => 'down', tables => '{shop.*}')", '08001',
	message => qr/./, detail => qr/127\.0\.0\.1/, hint => qr/./);
refused('wrong password', "SELECT capstan.create_pipeline('p', server => 'locked', tables => '{shop.*}')", '28P01',
	message => qr/./, hint => qr/./);

# Privileges: the fix is the GRANT, and executing it mends it.
for my $case ([ 'REPLICATION SLAVE', '*.*' ], [ 'LOCK TABLES', 'shop.*' ])
{
	my ($privilege, $on) = @$case;

	$my->sql("REVOKE $privilege ON $on FROM 'capstan'\@'%'");
	my $check = 'privilege_' . lc($privilege =~ s/ /_/gr);
	my $fix = refused_create("privilege $privilege missing", 'shop.*', '42501', $check,
		hint => qr/GRANT [A-Z, ]*$privilege/);
	my ($grant) = ($fix // '') =~ /(GRANT [^;]*)/;
	$my->sql($grant // "GRANT $privilege ON $on TO 'capstan'\@'%'");
	passes("... and its fix mends it", 'shop.*');
}

$my->sql(q{REVOKE SELECT ON shop.* FROM 'capstan'@'%'});
refused_create('privilege SELECT missing, so that the tables cannot be seen', 'shop.*', 'CA017', 'pattern shop.*', hint => qr/GRANT SELECT, LOCK TABLES ON `shop`\.\* TO 'capstan'\@'%'/);
$my->sql(q{GRANT SELECT (id) ON shop.orders TO 'capstan'@'%'});
refused_create('privilege SELECT on some of the columns', 'shop.orders', '42501', 'privilege_select shop', hint => qr/GRANT SELECT ON `shop`\.\* TO 'capstan'/);
$my->sql(q{REVOKE SELECT (id) ON shop.orders FROM 'capstan'@'%'; GRANT SELECT ON shop.* TO 'capstan'@'%'});
passes('with SELECT again', 'shop.*');

# Settings of the source: likewise.
for my $case (
	[ 'statement format', 'binlog_format', "SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL binlog_format = 'ROW'" ],
	[ 'mixed format', 'binlog_format', "SET GLOBAL binlog_format = 'MIXED'", "SET GLOBAL binlog_format = 'ROW'" ])
{
	my ($name, $check, $break, $mend) = @$case;

	$my->sql($break);
	my $fix = refused_create($name, 'shop.*', 'CA012', $check, hint => qr/SET (?:GLOBAL|PERSIST) $check/);
	my ($set) = ($fix // '') =~ /(SET (?:GLOBAL|PERSIST) [^;]*)/;
	$my->sql($set // $mend);
	passes("... and its fix mends it", 'shop.*');
}

# Settings that tell less of each row are no mistake, but have their price: a warning that says what would be better.
for my $case (
	[ 'minimal row image', 'binlog_row_image', 'MINIMAL' ], [ 'row image without blobs', 'binlog_row_image', 'NOBLOB' ],
	[ 'minimal row metadata', 'binlog_row_metadata', 'MINIMAL' ], [ 'partial JSON', 'binlog_row_value_options', 'PARTIAL_JSON' ])
{
	my ($name, $check, $less) = @$case;
	my ($rc, $out, $err);

	$my->sql("SET GLOBAL $check = '$less'" . ($check =~ /options/ ? "; SET GLOBAL binlog_row_image = 'MINIMAL'" : ''));
	passes("$name passes", 'shop.*');
	($rc, $out, $err) = $pg->psql(create('shop.*'));
	is($rc, 0, "$name: a pipeline is made");
	like($err, qr/WARNING:  pipeline "p": $check: $less\nDETAIL:  Wanted: .*\nHINT:  SET PERSIST $check = /, '... with a warning');
	$pg->safe_psql("SELECT capstan.drop_pipeline('p'); DROP SCHEMA shop CASCADE");
	my ($set) = $err =~ /HINT:  (SET PERSIST $check = [^;]*)/;
	$my->sql(($set // 'SELECT 1') . "; SET GLOBAL binlog_row_image = 'FULL'");
	is($pg->value("SELECT status FROM capstan.preflight('source', '{shop.*}') WHERE \"check\" = '$check'"), 'ok', '... whose statement mends it');
}
$my->sql("SET GLOBAL gtid_mode = $_") for qw(ON_PERMISSIVE OFF_PERMISSIVE OFF);
refused_create('gtid_mode off', 'shop.*', 'CA012', 'gtid_mode', hint => qr/gtid_mode/);
$my->sql("SET GLOBAL gtid_mode = $_") for qw(OFF_PERMISSIVE ON_PERMISSIVE ON);
passes('gtid_mode on again', 'shop.*');

# Tables of the source.
refused_create('a pattern that matches nothing', 'nothing.*', 'CA017', 'pattern nothing.*', hint => qr/spelling/);
refused_create('a pattern that matches nothing beside one that does', 'shop.*,shop.o?', 'CA017', 'pattern shop.o?');
refused_create('a table that is missing', 'shop.order', 'CA017', 'pattern shop.order', hint => qr/spelling.*GRANT SELECT/s);
refused_create('system tables', 'mysql.user', 'CA017', 'pattern mysql.user');
refused_create('a view', 'odd.looks', 'CA017', 'table odd.looks', message => qr/a view/);
refused_create("a table in $_->[1]", "odd.$_->[0]", 'CA017', "engine odd.$_->[0]", message => qr/$_->[1]/i, hint => qr/ALTER TABLE .*ENGINE/)
  for [ 'isam', 'MyISAM' ], [ 'archived', 'ARCHIVE' ], [ 'fleeting', 'MEMORY' ], [ 'hole', 'BLACKHOLE' ];
# Without a copy those can be followed whose changes are all in the binary log.
is($pg->value(q{SELECT string_agg(status || ' ' || "check", ', ' ORDER BY "check") FROM capstan.preflight('source', '{odd.isam,odd.archived,odd.fleeting,odd.hole}', snapshot => 'never') WHERE "check" LIKE 'engine%'}),
	'warning engine odd.archived, error engine odd.fleeting, error engine odd.hole, warning engine odd.isam', 'engines without a copy');
passes('a table without a key goes', 'odd.keyless');
passes('a column of every type there is goes', 'odd.place');
refused_create('two names that are one in 63 bytes', 'odd.xxx*', 'CA018', 'target_name odd.xxx', message => qr/63 bytes/);

# Several at once: all of them in one error.
my $error = error_of(create('odd.isam,odd.looks,odd.nothing'));
like($error->{detail}, qr/2 more checks fail: .*odd\./, 'the detail names the other failed checks');
is($pg->value(q{SELECT count(*) FROM capstan.preflight('source', '{odd.isam,odd.looks,odd.nothing}') WHERE status = 'error'}), 3, 'preflight shows all three');

# The target.
sub target
{
	my ($ddl) = @_;
	$pg->safe_psql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; $ddl");
}
my $good = 'CREATE TABLE shop.orders (id int PRIMARY KEY, customer varchar(60), at timestamp(0));';
target("$good INSERT INTO shop.orders VALUES (7)");
refused_create('a target that is not empty', 'shop.orders', 'CA018', 'target_empty shop.orders', hint => qr/truncate_target => true/);
is($pg->value('SELECT id FROM shop.orders'), 7, 'its row is still there');
passes('... not asked for when it is truncated', 'shop.orders', 'truncate_target => true');
passes('... or when there is no copy', 'shop.orders', "snapshot => 'never'");
target('CREATE TABLE shop.orders (id int PRIMARY KEY, customer date, at timestamp(0))');
refused_create('a pair of types without converter', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/customer/, hint => qr/table_ddl/);
target('CREATE TABLE shop.orders (id int PRIMARY KEY, customer varchar(20), at timestamp(0))');
refused_create('a column that is too narrow', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/customer/);
target('CREATE TABLE shop.orders (id int PRIMARY KEY, at timestamp(0))');
refused_create('a column that is missing', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/customer/);
target('CREATE TABLE shop.orders (id int, customer varchar(60), at timestamp(0))');
refused_create('a target without the key', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/unique|key/i);
target('CREATE TABLE shop.orders (id int, customer varchar(60), at timestamp(0)); CREATE UNIQUE INDEX ON shop.orders (id) WHERE id > 0');
refused_create('a target with a partial key', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/unique|key/i);
target('CREATE TABLE shop.orders (id int PRIMARY KEY DEFERRABLE, customer varchar(60), at timestamp(0))');
refused_create('a target with a deferrable key', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/unique|key/i);
target("$good ALTER TABLE shop.orders ADD extra int NOT NULL");
refused_create('a column more that must have a value', 'shop.orders', 'CA018', 'target_columns shop.orders', message => qr/extra/);
target($good =~ s/TABLE/UNLOGGED TABLE/r);
my $fix = refused_create('an unlogged target', 'shop.orders', 'CA018', 'target_persistence shop.orders', message => qr/unlogged/, hint => qr/SET LOGGED/);
$pg->safe_psql($fix);
passes('... and its fix mends it', 'shop.orders');
target('CREATE VIEW shop.orders AS SELECT 1 AS id');
refused_create('a view in the place of a target', 'shop.orders', '42809', 'target_kind shop.orders');
$pg->safe_psql('DROP SCHEMA shop CASCADE');

# A second pipeline that writes the same table.
$pg->safe_psql("SELECT capstan.create_pipeline('first', server => 'source', tables => '{shop.orders}')");
refused_create('a second pipeline on the same table', 'shop.*', '55006', 'target_writer shop.orders', message => qr/pipeline "first"/, hint => qr/drop_pipeline\('first'\)/);
refused('a second pipeline of that name', "SELECT capstan.create_pipeline('first', server => 'source', tables => '{shop.items}')", '42710',
	message => qr/"first" already exists/, hint => qr/drop_pipeline/);
is($pg->value(q{SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN attnotnull THEN '!' ELSE '' END, ', ' ORDER BY attnum)
	FROM pg_attribute a WHERE attrelid = 'shop.orders'::regclass AND attnum > 0}),
	'id integer!, customer character varying(60), at timestamp(0) without time zone', 'the target that it made');
is($pg->value(q{SELECT capstan.table_ddl('source', 'shop.orders') LIKE 'CREATE TABLE shop.orders (%'}), 't', 'table_ddl shows it');
refused('table_ddl of a table that is missing', q{SELECT capstan.table_ddl('source', 'shop.nothing')}, 'CA017', message => qr/shop\.nothing/, hint => qr/schema\.table/);
$pg->safe_psql(q{SELECT capstan.drop_pipeline('first')});
is($pg->value('SELECT count(*) FROM shop.orders'), 0, 'the target stays');

# truncate_target empties in the same transaction.
$pg->safe_psql("INSERT INTO shop.orders VALUES (7)");
$pg->safe_psql("BEGIN; " . create('shop.orders', 'truncate_target => true') . "; ROLLBACK");
is($pg->value('SELECT id FROM shop.orders'), 7, 'rolled back, the row is there');
$pg->safe_psql(create('shop.orders', 'truncate_target => true'));
is($pg->value('SELECT count(*) FROM shop.orders'), 0, 'truncated');
$pg->safe_psql("SELECT capstan.drop_pipeline('p'); DROP SCHEMA shop CASCADE");

# Somebody who is no superuser.
$pg->safe_psql(q{
	CREATE ROLE clerk LOGIN; CREATE ROLE boss;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA capstan TO clerk;
	GRANT USAGE ON FOREIGN SERVER source TO clerk;
	CREATE USER MAPPING FOR clerk SERVER source OPTIONS (user 'capstan', password 'sesam')});
my $as_clerk = 'SET ROLE clerk; ';
refused('no right to make the schema', $as_clerk . create('shop.orders'), '42501',
	message => qr/target_schema shop/, hint => qr/GRANT CREATE ON DATABASE postgres TO clerk/);
$pg->safe_psql('CREATE SCHEMA shop');
refused('no right to make the table', $as_clerk . create('shop.orders'), '42501',
	message => qr/target_schema shop/, hint => qr/GRANT CREATE, USAGE ON SCHEMA shop TO clerk/);
$pg->safe_psql("$good GRANT ALL ON SCHEMA shop TO clerk; GRANT ALL ON shop.orders TO clerk");
refused('a target of somebody else', $as_clerk . create('shop.orders'), '42501',
	message => qr/target_owner shop\.orders: owned by postgres/, hint => qr/ALTER TABLE shop\.orders OWNER TO clerk/);
refused('... which is not truncated either', $as_clerk . create('shop.orders', 'truncate_target => true'), '42501', message => qr/target_owner/);
$pg->safe_psql('ALTER TABLE shop.orders OWNER TO boss; ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY; ALTER TABLE shop.orders FORCE ROW LEVEL SECURITY; GRANT boss TO clerk');
refused('row security', $as_clerk . create('shop.orders'), 'CA018', message => qr/target_row_security shop\.orders/, hint => qr/ROW LEVEL SECURITY/);
$pg->safe_psql('ALTER TABLE shop.orders NO FORCE ROW LEVEL SECURITY');
$pg->safe_psql($as_clerk . create('shop.*'));
is($pg->value(q{SELECT owner FROM capstan.pipeline_status}), 'clerk', 'with rights and ownership it is created');
is($pg->value(q{SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'shop.items'::regclass}), 'clerk', 'what it made belongs to the caller');
$pg->safe_psql("SET ROLE clerk; SELECT capstan.drop_pipeline('p')");
# A trigger of the table's owner does not run with the rights of who truncates.
$pg->safe_psql(q{
	CREATE TABLE public.ran_as (who text); GRANT INSERT ON public.ran_as TO PUBLIC;
	CREATE FUNCTION shop.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran_as VALUES (current_user); RETURN NULL; END $$;
	GRANT USAGE ON SCHEMA shop TO boss;
	CREATE TRIGGER spy AFTER TRUNCATE ON shop.orders EXECUTE FUNCTION shop.spy()});
$pg->safe_psql(create('shop.orders', 'truncate_target => true'));
is($pg->value('SELECT who FROM public.ran_as'), 'boss', 'truncation runs triggers as the owner of the table');
$pg->safe_psql("SELECT capstan.drop_pipeline('p'); DROP SCHEMA shop CASCADE; DROP TABLE public.ran_as");

# Things that are allowed, and said.
target("$good CREATE FUNCTION shop.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER noisy BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.f(); ALTER TABLE shop.orders ENABLE ALWAYS TRIGGER noisy;
	CREATE TABLE shop.mine (order_id int REFERENCES shop.orders); CREATE TABLE shop.heir (more int) INHERITS (shop.orders)");
is($pg->safe_psql(q{SELECT "check" || ': ' || found FROM capstan.preflight('source', '{shop.orders}') WHERE status = 'warning' AND "check" LIKE 'target%' ORDER BY 1}),
	"target_heirs shop.orders: other tables inherit from it: updates, deletes, truncation and resyncs reach their rows, too\n"
	. "target_references shop.orders: referenced by tables that are not captured: mine_order_id_fkey of shop.mine\n"
	. "target_triggers shop.orders: enabled ALWAYS or REPLICA: noisy", 'triggers, references and heirs are warned of');
$pg->safe_psql($pg->value(q{SELECT fix FROM capstan.preflight('source', '{shop.orders}') WHERE "check" LIKE 'target_heirs%'}));
is($pg->value(q{SELECT count(*) FROM capstan.preflight('source', '{shop.orders}') WHERE "check" LIKE 'target_heirs%'}), 0, 'what is to be done about heirs is said');
$pg->safe_psql('DROP SCHEMA shop CASCADE');

# Foreign keys that InnoDB follows without logging it.
$my->sql(q{CREATE TABLE shop.lines (id INT PRIMARY KEY, order_id INT,
	CONSTRAINT follows FOREIGN KEY (order_id) REFERENCES shop.orders (id) ON DELETE CASCADE)});
my $native = ($my->query("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'"))[0];
if ($native)
{
	passes('a cascade is captured where the source logs it', 'shop.*');
	$my->restart(@{ $my->{options} }, '--innodb-native-foreign-keys=ON');
}
refused_create('a cascade that is not logged', 'shop.*', 'CA014', 'cascade shop.lines', message => qr/follows|cascade/i, hint => qr/./);
passes('... only the child table is refused', 'shop.orders,shop.items');
$my->restart('') if $native;
$my->sql('DROP TABLE shop.lines');

# A replica that keeps what it applies to itself.
$my->sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_AUTO_POSITION = 1");
$my->restart('--log-replica-updates=OFF', '--skip-replica-start');
refused_create('a replica without log_replica_updates', 'shop.*', 'CA012', 'log_replica_updates', message => qr/OFF, a replica/, hint => qr/log_replica_updates=ON/);
$my->sql('RESET REPLICA ALL');
passes('... which matters on a replica only', 'shop.*');
$my->restart('');

# TLS that the source insists on.
$my->sql('SET GLOBAL require_secure_transport = ON');
$pg->safe_psql(q{ALTER SERVER source OPTIONS (ADD ssl_mode 'disabled')});
refused('a source that wants TLS', create('shop.*'), 'HV00N', hint => qr/require_secure_transport.*ssl_mode/);
$pg->safe_psql(q{ALTER SERVER source OPTIONS (SET ssl_mode 'required')});
passes('with TLS it goes', 'shop.*');
$my->sql('SET GLOBAL require_secure_transport = OFF');
$pg->safe_psql(q{ALTER SERVER source OPTIONS (DROP ssl_mode)});

# Binary logs that are gone: known only when the pipeline wants them.
$pg->safe_psql(create('shop.*'));
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
$pg->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '180 s')");
$pg->safe_psql("SELECT capstan.stop_pipeline('p')");
$pg->poll_query_until("SELECT state FROM capstan.pipeline_status", 'stopped') or die 'it does not stop';
my $applied = $pg->value('SELECT applied FROM capstan.pipeline_status');
$my->sql("INSERT INTO shop.orders VALUES (2, 'b', NULL)");
$my->purge_logs;
$pg->safe_psql("SELECT capstan.start_pipeline('p')");
$error = error_of("SELECT capstan.wait_for_source('p', timeout => '180 s')");
is($error->{sqlstate}, 'CA019', 'purged GTIDs: who waits is told at once') or diag($error->{all});
like($error->{message}, qr/pipeline "p" is halted: .*purged/, '... that it is halted, and why');
like($error->{detail}, qr/[0-9a-f-]{36}:\d/, '... which are missing');
like($error->{hint}, qr/restart_snapshot/, '... and what to do');
is($pg->value(q{SELECT class || ' ' || sqlstate || ' ' || (resolved_at IS NULL) FROM capstan.incident_status WHERE severity = 'halt'}),
	'gtids_purged CA007 true', 'the incident');
is($pg->value('SELECT applied FROM capstan.pipeline_status'), $applied, 'the position has not moved');
is($pg->value('SELECT count(*) FROM shop.orders'), 1, 'nor has the table');
$pg->restart;
is($pg->value('SELECT state FROM capstan.pipeline_status'), 'halted', 'it stays halted over a restart');
$pg->safe_psql("SELECT capstan.stop_pipeline('p'); SELECT capstan.drop_pipeline('p'); DROP SCHEMA shop CASCADE");

# Without the library preloaded.
$pg->append_conf("shared_preload_libraries = ''");
$pg->restart;
refused('not preloaded', create('shop.*'), '55000', message => qr/preload: capstan is not in shared_preload_libraries/, hint => qr/shared_preload_libraries/);

done_testing();
