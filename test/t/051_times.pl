# Dates and times have one value, by the copy and by the stream; zero dates follow the policy.
#
# Why: zero dates became 1970, wall clocks moved with the server's time zone, TIME beyond a
# day was refused, fractions went lost.
# How: a server whose time zone is +05:30, a table with the extremes of every type; then zero
# and partial dates under each policy, into nullable and NOT NULL columns.
# Asserted: exact values and types, equal by both ways; counters and warnings of the policy;
# what has no value halts, by the stream and by the copy, and is never another value.
# Not asserted: ON UPDATE CURRENT_TIMESTAMP and other defaults on the target.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start(options => ["--default-time-zone=+05:30"]);
my $pg = CapstanTest::Postgres->start;

$my->grant;
$pg->safe_psql("ALTER DATABASE postgres SET timezone = 'America/New_York'; CREATE EXTENSION capstan");
$pg->create_server('source', $my);

# Written by sessions in the server's own time zone.
my $times = CapstanTest::BothWays->new($my, $pg, 'v.times', [
	[ 'd', 'DATE', 'date', [ "'1000-01-01'", "'9999-12-31'", "'0001-01-01'", "'1969-12-31'", "'2024-02-29'", "'1582-10-10'", "'1900-02-28'", "'1970-01-01'" ] ],
	[ 'dt0', 'DATETIME', 'timestamp(0) without time zone', [ "'2024-03-31 02:30:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0001-01-01 00:00:00'" ] ],
	[ 'dt1', 'DATETIME(1)', 'timestamp(1) without time zone', [ [ "'2024-03-31 02:30:00.1'", '2024-03-31 02:30:00.1' ], [ "'1969-12-31 23:59:59.9'", '1969-12-31 23:59:59.9' ] ] ],
	[ 'dt3', 'DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)', 'timestamp(3) without time zone', [ "'1999-12-31 23:59:59.999'", "'1900-01-01 00:00:00.001'" ] ],
	[ 'dt6', 'DATETIME(6)', 'timestamp(6) without time zone', [ "'1950-01-01 01:00:00.999999'", "'0001-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.999999'" ] ],
	[ 'ts0', 'TIMESTAMP NULL', 'timestamp(0) with time zone', [ [ "'1970-01-01 05:30:01'", '1970-01-01 00:00:01+00' ], [ "'2038-01-19 08:44:07'", '2038-01-19 03:14:07+00' ], [ "'2024-03-31 02:30:00'", '2024-03-30 21:00:00+00' ] ] ],
	[ 'ts3', 'TIMESTAMP(3) NULL', 'timestamp(3) with time zone', [ [ "'2024-01-01 05:30:00.250'", '2024-01-01 00:00:00.25+00' ], [ "'1970-01-01 05:30:01.001'", '1970-01-01 00:00:01.001+00' ] ] ],
	[ 'ts6', 'TIMESTAMP(6) NULL', 'timestamp(6) with time zone', [ [ "'2038-01-19 08:44:07.999999'", '2038-01-19 03:14:07.999999+00' ], [ "'1970-01-01 05:30:01.000001'", '1970-01-01 00:00:01.000001+00' ] ] ],
	[ 'tsn', "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", 'timestamp(0) with time zone', [ [ "'2000-01-01 05:30:00'", '2000-01-01 00:00:00+00' ] ] ],
	[ 't0', 'TIME', 'interval(0)', [ "'838:59:59'", "'24:00:00'", "'-838:59:59'", "'00:00:00'", "'-00:00:01'", "'23:59:59'" ] ],
	[ 't2', 'TIME(2)', 'interval(2)', [ "'838:59:59'", [ "'-00:00:00.01'", '-00:00:00.01' ], [ "'100:00:00.99'", '100:00:00.99' ], [ "'-12:34:56.78'", '-12:34:56.78' ] ] ],
	[ 't4', 'TIME(4)', 'interval(4)', [ [ "'-00:00:00.0001'", '-00:00:00.0001' ], [ "'00:00:00.9999'", '00:00:00.9999' ], [ "'-01:00:00.0001'", '-01:00:00.0001' ] ] ],
	[ 't6', 'TIME(6)', 'interval(6)', [ [ "'-838:59:58.999999'", '-838:59:58.999999' ], [ "'838:59:58.999999'", '838:59:58.999999' ], [ "'-00:00:00.000001'", '-00:00:00.000001' ], "'01:02:03'" ] ],
	[ 'y', 'YEAR', 'smallint', [ 1999 ] ] ],
	session => "SET time_zone = '+05:30', explicit_defaults_for_timestamp = ON;");

$times->fill;
$my->sql("USE v; CREATE TABLE onupdate (id INT PRIMARY KEY, v INT, u TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
	INSERT INTO onupdate VALUES (1, 1, '2001-01-01 00:00:00'), (2, 1, '2001-01-01 00:00:00')");
start_pipeline($pg, 'times', ['v.*']);
$my->sql("UPDATE v.onupdate SET v = 2 WHERE id = 1");
$my->sql("SET GLOBAL time_zone = '-11:00'");
$times->stream;
$my->sql("SET GLOBAL time_zone = '+05:30'");
$times->check if sync_pipeline($pg, 'times');
tables_equal($my, $pg, ['v.*'], 'server in another time zone');
no_surprise($pg, 'times');
drop_pipeline($pg, 'times');

# Zero and partial dates.
my @zero = ([ 'null', undef ], [ 'infinity', '-infinity' ]);
for my $case (@zero)
{
	my ($policy, $becomes) = @$case;
	my $zero = CapstanTest::BothWays->new($my, $pg, "z.$policy", [
		[ 'd', 'DATE', 'date', [ [ "'0000-00-00'", $becomes ], [ "'2015-00-21'", $becomes ], [ "'2015-05-00'", $becomes ], "'2015-05-01'" ] ],
		[ 'dt', 'DATETIME(6) NULL', 'timestamp(6) without time zone', [ [ "'0000-00-00 00:00:00'", $becomes ], [ "'2015-00-00 10:00:00'", $becomes ], "'2015-05-01 10:00:00'" ] ],
		[ 'ts', 'TIMESTAMP NULL', 'timestamp(0) with time zone', [ [ "'0000-00-00 00:00:00'", $becomes ], [ "'2015-05-01 10:00:00'", '2015-05-01 10:00:00+00' ] ] ],
		[ 'ts6', 'TIMESTAMP(6) NULL', 'timestamp(6) with time zone', [ [ "'0000-00-00 00:00:00'", $becomes ], [ "'2015-05-01 10:00:00.5'", '2015-05-01 10:00:00.5+00' ] ] ],
		[ 'n', 'INT NOT NULL', 'integer', [ 5 ] ] ]);

	$zero->fill;
	start_pipeline($pg, 'zero', ["z.$policy"], zero_dates => "'$policy'");
	$zero->stream;
	$zero->check if sync_pipeline($pg, 'zero');
	tables_equal($my, $pg, ["z.$policy"], "zero_dates $policy") if $policy eq 'null';
	# In four rows 3 of d, 3 of dt, 2 of ts and 2 of ts6; each copied four times, and streamed three times.
	is($pg->value("SELECT zero_dates_applied FROM capstan.table_status"), 10 * 7, "$policy: the counter counts");
	is($pg->value("SELECT count(*) FROM capstan.incident WHERE class = 'zero_dates_applied' AND severity = 'warning' AND source_table = 'z.$policy'"),
		1, "$policy: said once") or diag($pg->safe_psql('SELECT class, message, detail, source_table FROM capstan.incident'));
	drop_pipeline($pg, 'zero');
}

# What has no value on the target halts, by the stream and by the copy.
$my->sql("SET sql_mode = ''; USE z; CREATE TABLE h (id INT PRIMARY KEY, d DATE NULL, n DATE NOT NULL, t TIME, k DATETIME NOT NULL);
	CREATE TABLE kd (d DATE PRIMARY KEY); INSERT INTO kd VALUES ('2020-01-01')");
my $good = "'2020-01-01', '2020-01-01', '10:00:00', '2020-01-01 00:00:00'";
for my $case (
	[ 'halt', 'h', "(2, '0000-00-00', '2020-01-01', '10:00:00', '2020-01-01')", 'd' ],
	[ 'halt', 'h', "(2, '2020-00-01', '2020-01-01', '10:00:00', '2020-01-01')", 'd' ],
	[ 'null', 'h', "(2, NULL, '0000-00-00', '10:00:00', '2020-01-01')", 'n' ],
	[ 'null', 'h', "(2, NULL, '2020-01-00', '10:00:00', '2020-01-01')", 'n' ],
	[ 'null', 'h', "(2, NULL, '2020-01-01', '10:00:00', '0000-00-00')", 'k' ],
	[ 'infinity', 'h', "(2, NULL, '2020-01-01', '24:00:01', '2020-01-01')", 't' ],
	[ 'null', 'h', "(2, NULL, '2020-01-01', '-00:00:01', '2020-01-01')", 't' ],
	[ 'null', 'h', "(2, '2021-02-31', '2020-01-01', '00:00:01', '2020-01-01')", 'd' ],
	[ 'null', 'kd', "('0000-00-00')", 'd' ],
	[ 'infinity', 'kd', "('2020-00-00')", 'd' ])
{
	my ($policy, $table, $row, $column) = @$case;
	my @hints = $column =~ /^[nk]$/ ? qr/Drop the target column's NOT NULL, set the pipeline's zero_dates to infinity/ : $policy eq 'halt' ? qr/zero_dates to null or infinity/ : ();

	$pg->safe_psql("CREATE SCHEMA IF NOT EXISTS z; DROP TABLE IF EXISTS z.h, z.kd;
		CREATE TABLE z.h (id int PRIMARY KEY, d date, n date NOT NULL, t time, k timestamp NOT NULL)");
	$my->sql("USE z; DELETE FROM h; INSERT INTO h VALUES (1, $good); DELETE FROM kd WHERE d <> '2020-01-01'");
	start_pipeline($pg, 'h', ["z.$table"], zero_dates => "'$policy'");
	$my->sql("SET sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO z.$table VALUES $row");
	expect_halt($pg, 'h', 'value_not_convertible', qr/Column "$column"/, qr/z\.$table/, @hints);
	is($pg->value("SELECT count(*) FROM z.$table"), 1, "$policy, $row: not applied");
	drop_pipeline($pg, 'h');
	start_pipeline($pg, 'h', ["z.$table"], zero_dates => "'$policy'", truncate_target => 'true', timeout => '');
	expect_halt($pg, 'h', 'value_not_convertible', qr/Column "$column"/, qr/z\.$table/, @hints);
	is($pg->value("SELECT count(*) FROM z.$table"), 0, "$policy, $row: not copied");
	drop_pipeline($pg, 'h');
}

# The target's NOT NULL is gone, as the hint says; TIME fits in a time where it does.
$my->sql("USE z; DELETE FROM h; INSERT INTO h VALUES (1, $good)");
$pg->safe_psql("DROP TABLE z.h; CREATE TABLE z.h (id int PRIMARY KEY, d date, n date, t time(0), k timestamp)");
start_pipeline($pg, 'h', ['z.h']);
$my->sql("SET sql_mode = ''; INSERT INTO z.h VALUES (2, '0000-00-00', '0000-00-00', '24:00:00', '0000-00-00'), (3, NULL, '2015-00-00', '00:00:00', '2015-00-00')");
sync_pipeline($pg, 'h');
is_deeply([ json_rows($pg, 'SELECT json_build_array(d, n, t, k) FROM z.h WHERE id > 1 ORDER BY id') ],
	[ [ undef, undef, '24:00:00', undef ], [ undef, undef, '00:00:00', undef ] ], 'NULL in columns that may be NULL');
drop_pipeline($pg, 'h');

done_testing();
