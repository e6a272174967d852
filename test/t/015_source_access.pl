# Access to the source: connections, descriptions of tables, rows, the stream's bytes, preflight.
#
# Why: both copies of a value (by SELECT and by the log) rest on what is read here, and a failure
# that looks like a clean end, or a password in the clear, would be the worst of all.
# How: test/modules/wire_test, SQL functions over src/wire and src/binlog alone, against a MySQL whose
# settings, accounts, certificates and life change underneath.
# Asserted: SourceValues of all types at their extremes; literals that compare as their columns do; that information_schema and table maps give the
# same signature; SQLSTATEs; that a result cut short raises; TLS modes; that no password leaves in clear or shows in a
# message; preflight's findings and fixes.
# Not asserted: what becomes of the values in Postgres (050_numbers.pl and its neighbours), pipelines.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use File::Temp ();
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;

my $my = CapstanTest::MySQL->start(options => [ "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1" ]);
my $pg = CapstanTest::Postgres->start(conf => { shared_preload_libraries => "''" });
my $port = $my->port;

# The module, into the same staged Postgres.
{
	my ($rc, $out, $err) = run_command([ 'bash', '-c', <<'SH', 'bash', $CapstanTest::TOP ]);
		set -e
		cd "$1"
		. test/lib/postgres.sh
		pg_locate
		mkdir -p build/wire_test
		make -s -C build/wire_test -f "$1/test/modules/wire_test/Makefile" PG_CONFIG="$PG_CONFIG" >&2
		make -s -C build/wire_test -f "$1/test/modules/wire_test/Makefile" PG_CONFIG="$PG_CONFIG" DESTDIR="$PG_STAGE" install >&2
SH
	is($rc, 0, 'the test module builds') or BAIL_OUT("$out$err");
}
$pg->safe_psql('CREATE EXTENSION wire_test');
$my->grant('capstan', 'sesam0pen');

my $account = "user=capstan password=sesam0pen";
my $plain = "host=127.0.0.1 port=$port $account ssl_mode=disabled";
my $secure = "host=127.0.0.1 port=$port $account ssl_mode=required";

sub quoted { my ($text) = @_; $text =~ s/'/''/g; return "'$text'" }

# Lines of a function's result.
sub lines
{
	my ($function, @arguments) = @_;
	return split /\n/, $pg->safe_psql("SELECT $function(" . join(', ', @arguments) . ')');
}

# SQLSTATE and text of the failure, 'none' without one.
sub failure
{
	my ($function, @arguments) = @_;
	my (undef, undef, $err) = $pg->psql("SELECT $function(" . join(', ', @arguments) . ')',
		options => [ '-v', 'VERBOSITY=verbose' ]);
	return ($err =~ /(?:ERROR|FATAL):  (\w{5}): / ? $1 : "none: $err", $err);
}

sub state_is
{
	my ($expected, $name, @call) = @_;
	my ($state, $err) = failure(@call);
	is($state, $expected, $name) or diag($err);
	return $err;
}

sub connects
{
	my ($options, $tls, $name) = @_;
	my ($rc, $out, $err) = $pg->psql('SELECT wire_info(' . quoted($options) . ')');
	like($out, qr/^uuid 36 version \d+ tls $tls /, $name) or diag($err);
}

# --- values

$my->sql(<<'SQL');
CREATE DATABASE v; USE v; SET sql_mode = '';
CREATE TABLE ints (id INT PRIMARY KEY, a TINYINT UNSIGNED, b SMALLINT UNSIGNED, c MEDIUMINT UNSIGNED, d INT UNSIGNED, e BIGINT UNSIGNED,
	f TINYINT, g SMALLINT, h MEDIUMINT, i INT, j BIGINT, z INT(10) ZEROFILL, y YEAR);
INSERT INTO ints VALUES (1, 255, 65535, 16777215, 4294967295, 18446744073709551615, 127, 32767, 8388607, 2147483647, 9223372036854775807, 7, 1901),
	(2, 0, 0, 0, 0, 0, -128, -32768, -8388608, -2147483648, -9223372036854775808, 0, 0),
	(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2155);
CREATE TABLE nums (id INT PRIMARY KEY, a DECIMAL(65,30), b DECIMAL(65,0), c DECIMAL(1,1), e DECIMAL(8,3) ZEROFILL, f FLOAT, g DOUBLE);
INSERT INTO nums VALUES (1, -99999999999999999999999999999999999.999999999999999999999999999999, REPEAT('9', 65), -0.9, 1.5, 16777216, 0.1),
	(2, 0, -0.0, 0.0, 0, 3.402823466e38, 1.7976931348623157e308), (3, NULL, NULL, NULL, NULL, -0e0, -0e0);
CREATE TABLE bits (id INT PRIMARY KEY, a BIT(1), b BIT(17), c BIT(64)); INSERT INTO bits VALUES (1, b'1', b'00000000100000010', 18446744073709551615);
CREATE TABLE times (id INT PRIMARY KEY, d DATE, a DATETIME, b DATETIME(6), c TIMESTAMP NULL, e TIMESTAMP(6) NULL, f TIME, g TIME(6));
INSERT INTO times VALUES (1, '1000-01-01', '1000-01-01', '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '2038-01-19 03:14:07.999999', '838:59:59', '-00:00:00.000001'),
	(2, '0000-00-00', '2015-05-00 01:02:03', '2015-00-21', '0000-00-00', '0000-00-00', '-838:59:59', '-12:34:56.789012');
CREATE TABLE labels (id INT PRIMARY KEY, e ENUM('a''b','é','x,y','\\'), f ENUM('é','z') CHARSET latin1, g ENUM('中','a') CHARSET utf16,
	h ENUM('aé') CHARSET binary, i SET('q','r','s') CHARSET ucs2, s SET('a','b','c'));
INSERT INTO labels VALUES (1, 'a''b', 'é', '中', 'aé', 'r,q', 'c,a'), (2, '', '', '', '', '', '');
CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(10), v VARCHAR(20), b BINARY(4), vb VARBINARY(8), l VARCHAR(20) CHARSET latin1, u CHAR(10) CHARSET utf16, t TEXT);
INSERT INTO texts VALUES (1, 'a  ', 'b  ', x'0102', x'010200', '€é', 'é ', CONCAT('a', CHAR(0), 'b')), (2, '', '', '', '', '', '', '');
CREATE TABLE others (id INT PRIMARY KEY, j JSON, g GEOMETRY, p POINT SRID 4326);
INSERT INTO others VALUES (1, '{"b": 1.0, "a": null}', ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(10 20)', 4326)), (2, 'null', NULL, NULL);
CREATE TABLE longs (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO longs VALUES (1, REPEAT('0123456789', 2000000)), (2, 'short'), (3, REPEAT('y', 300000)), (4, REPEAT('0123456789', 2000000));
SQL

my %expected = (
	ints => [ 'int 1 | uint 255 | uint 65535 | uint 16777215 | uint 4294967295 | uint 18446744073709551615 | int 127 | int 32767 | int 8388607 | int 2147483647 | int 9223372036854775807 | uint 7 | int 1901',
		'int 2 | uint 0 | uint 0 | uint 0 | uint 0 | uint 0 | int -128 | int -32768 | int -8388608 | int -2147483648 | int -9223372036854775808 | uint 0 | int 0',
		'int 3 | null | null | null | null | null | null | null | null | null | null | null | int 2155' ],
	nums => [ 'int 1 | dec -99999999999999999999999999999999999.999999999999999999999999999999 | dec ' . '9' x 65 . ' | dec -0.9 | dec 1.500 | float 4b800000 | double 3fb999999999999a',
		'int 2 | dec 0.000000000000000000000000000000 | dec 0 | dec 0.0 | dec 0.000 | float 7f7fffff | double 7fefffffffffffff',
		'int 3 | null | null | null | null | float 80000000 | double 8000000000000000' ],
	bits => ['int 1 | bits 01 | bits 000102 | bits ffffffffffffffff'],
	times => [ 'int 1 | dt 1000-01-01 00:00:00.000000 | dt 1000-01-01 00:00:00.000000 | dt 9999-12-31 23:59:59.999999 | ts 1000000 | ts 2147483647999999 | time 3020399000000 | time -1',
		'int 2 | dt 0000-00-00 00:00:00.000000 | dt 2015-05-00 01:02:03.000000 | dt 2015-00-21 00:00:00.000000 | ts 0 | ts 0 | time -3020399000000 | time -45296789012' ],
	labels => [ 'int 1 | bytes 612762 | bytes e9 | bytes 4e2d | bytes 61c3a9 | bytes 0071002c0072 | bytes 612c63',
		'int 2 | bytes  | bytes  | bytes  | bytes  | bytes  | bytes ' ],
	texts => [ 'int 1 | bytes 61 | bytes 622020 | bytes 01020000 | bytes 010200 | bytes 80e9 | bytes 00e9 | bytes 610062',
		'int 2 | bytes  | bytes  | bytes 00000000 | bytes  | bytes  | bytes  | bytes ' ],
	others => [ 'int 1 | json {"a": null, "b": 1.0} | bytes 000000000101000000000000000000f03f0000000000000040 | bytes e6100000010100000000000000000034400000000000002440',
		'int 2 | json null | null | null' ]);

for my $options ($plain, $secure)
{
	my $how = $options eq $plain ? 'in clear' : 'over TLS';
	for my $table (sort keys %expected)
	{
		my @got = lines('wire_rows', quoted($options), "'v'", quoted($table));
		is(pop @got, 'after: ok', "$how: the connection is good for more after $table");
		is_deeply(\@got, $expected{$table}, "$how: values of $table");
	}
	my @longs = lines('wire_rows', quoted($options), "'v'", "'longs'");
	like($longs[0], qr/^int 1 \| bytes #20000000 hash (\d+)$/, "$how: 20 MB");
	is($longs[1], 'int 2 | bytes 73686f7274', "$how: a short value after it");
	like($longs[2], qr/bytes #300000 /, "$how: and a middling one");
	is($longs[3] =~ s/^int 4/int 1/r, $longs[0], "$how: the same 20 MB again");
}

# --- descriptions

my $before = $my->gtid_executed;
$my->sql(<<'SQL');
CREATE DATABASE d; USE d; SET sql_mode = '';
CREATE TABLE odd (`select` INT PRIMARY KEY, `a.b` INT, `tick``x` INT, `Größe` INT, `q"` INT, `inv INVISIBLE` ENUM(' unsigned', 'b') CHARSET utf8mb4);
CREATE TABLE types (a TINYINT(1), b INT UNSIGNED, c DECIMAL(10,2) UNSIGNED, d FLOAT UNSIGNED, e DOUBLE, f BIT(9), g YEAR, h DATE, i DATETIME(3), j TIME(2), k TIMESTAMP NULL,
	l CHAR(255) CHARSET utf8mb4, m VARCHAR(300) CHARSET latin1, n TINYTEXT, o TEXT CHARSET gbk, p MEDIUMTEXT, q LONGTEXT, r BINARY(255), s VARBINARY(300),
	t TINYBLOB, u BLOB, v MEDIUMBLOB, w LONGBLOB, x JSON, y GEOMETRY, z POINT NOT NULL, z2 VARCHAR(5) COLLATE utf8mb4_bin NOT NULL);
CREATE TABLE generated_columns (id INT PRIMARY KEY, v INT AS (id + 1) VIRTUAL, s INT AS (id * 2) STORED, inv INT INVISIBLE, z INT);
CREATE TABLE expression_index (id INT PRIMARY KEY, a INT, UNIQUE ((a + 1)));
SET sql_generate_invisible_primary_key = ON; CREATE TABLE gipk (a INT); SET sql_generate_invisible_primary_key = OFF;
CREATE TABLE none (a INT, b INT);
CREATE TABLE composite (a INT, b INT, c INT, PRIMARY KEY (c, a));
CREATE TABLE prefix (t TEXT NOT NULL, n INT, PRIMARY KEY (t(5), n));
CREATE TABLE one_unique (a INT NOT NULL, b INT, UNIQUE (b), UNIQUE (a));
CREATE TABLE two_unique (a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE k2 (b), UNIQUE k1 (a), UNIQUE k0 (c));
CREATE TABLE prefix_unique (v VARCHAR(30) NOT NULL, UNIQUE (v(10)));
CREATE TABLE whole_prefix (t TINYBLOB NOT NULL, UNIQUE (t(255)));
CREATE TABLE virtual_unique (a INT NOT NULL, g INT AS (a + 1) VIRTUAL NOT NULL, UNIQUE (g));
CREATE TABLE stored_unique (a INT NOT NULL, g INT AS (a + 1) STORED NOT NULL, UNIQUE (g));
CREATE TABLE labelled (e ENUM('a''b', 'é', 'x,y', '\\', 'q?'), f ENUM('é', 'z') CHARSET latin1, g ENUM('中') CHARSET utf16, h ENUM('aé') CHARSET binary, i SET('q', 'r') CHARSET ucs2, j ENUM('a[b', 'å') CHARSET swe7);
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT gone FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE);
CREATE TABLE grandchild (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES child (id));
CREATE VIEW seen AS SELECT * FROM parent;
INSERT INTO odd VALUES (1, 2, 3, 4, 5, 'b'); INSERT INTO types (z, z2) VALUES (POINT(1, 2), 'x');
INSERT INTO generated_columns (id) VALUES (1); INSERT INTO expression_index VALUES (1, 1); INSERT INTO gipk VALUES (1); INSERT INTO none VALUES (1, 1); INSERT INTO composite VALUES (1, 1, 1);
INSERT INTO prefix VALUES ('abcdefgh', 1); INSERT INTO one_unique VALUES (1, 1); INSERT INTO two_unique VALUES (1, 1, 1); INSERT INTO prefix_unique VALUES ('x'); INSERT INTO whole_prefix VALUES ('x');
INSERT INTO virtual_unique (a) VALUES (1); INSERT INTO stored_unique (a) VALUES (1); INSERT INTO labelled VALUES ('é', 'é', '中', 'aé', 'q', 'å');
INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1); INSERT INTO grandchild VALUES (1, 1);
SQL

sub signatures_agree
{
	my ($name, $gtids, @tables) = @_;
	my %mapped = map { /^(d\.[^:]+): (.*)$/ ? ($1 => $2) : () } lines('wire_signatures', quoted($plain), quoted($gtids));
	my %described = map { /^(d\.[^ ]+) \[InnoDB\][^:]*: (.*)$/ ? ($1 => $2) : () } lines('wire_tables', quoted($plain), "'{d.*}'");

	for my $table (@tables)
	{
		ok(defined $described{"d.$table"}, "$table is described");
		is($described{"d.$table"}, $mapped{"d.$table"}, "$name: schema and table map agree on $table");
	}
	return \%described;
}

my @tables = qw(odd types generated_columns expression_index gipk none composite prefix one_unique two_unique prefix_unique whole_prefix virtual_unique stored_unique
  labelled parent child grandchild);
my $described = signatures_agree('set-wise', $before, @tables);
like($described->{'d.gipk'}, qr/^"my_row_id" bigint unsigned not null invisible, .*primary key \("my_row_id"\)$/, 'an invisible key is seen');
like($described->{'d.two_unique'}, qr/primary key \("b"\)$/, 'the first unique key is the key');

# More than 64 tables take another way through information_schema.
$my->sql('USE d; ' . join('', map { "CREATE TABLE many$_ (a INT PRIMARY KEY, e ENUM('ü$_') CHARSET latin1);" } 1 .. 80));
my %many = map { /^(d\.many\d+) \[InnoDB\]: (.*)$/ ? ($1 => $2) : () } lines('wire_tables', quoted($plain), "'{d.*}'");
is(scalar(keys %many), 80, '80 more tables');
is($many{'d.many7'}, '"a" int not null, "e" enum(\'\\xfc7\') collate 8, primary key ("a")', 'with their labels in latin1');

my @found = lines('wire_tables', quoted($plain), q('{d.two_*,d.c?ild,d.seen,v.*,x.y,d.nothing*,mysql.user}'));
is_deeply([ map { /^(\S+) \[/ ? $1 : () } @found ],
	[qw(d.child d.seen d.two_unique v.bits v.ints v.labels v.longs v.nums v.others v.texts v.times)], 'patterns');
is_deeply([ map { /^unmatched: (.*)/ ? $1 : () } @found ], [qw(x.y d.nothing* mysql.user)], 'and those that match nothing');
ok((grep { /^d\.child \[InnoDB\] cascade gone:/ } @found), 'a cascading child is told');
ok((grep { /^d\.seen \[\] view:/ } @found), 'a view named by itself is told');
state_is('22023', 'a pattern without a schema', 'wire_tables', quoted($plain), q('{orders}'));

# --- a value as a literal is greater than what lies before it, equal to itself alone, and finds the index

$my->sql(<<'SQL');
CREATE DATABASE k; USE k; SET sql_mode = '', time_zone = '+00:00';
CREATE TABLE ti(k tinyint PRIMARY KEY); INSERT INTO ti VALUES(-128),(-1),(0),(1),(127);
CREATE TABLE tu(k tinyint unsigned PRIMARY KEY); INSERT INTO tu VALUES(0),(1),(255);
CREATE TABLE bi(k bigint PRIMARY KEY); INSERT INTO bi VALUES(-9223372036854775808),(-9223372036854775807),(-9007199254740993),(-9007199254740992),(-1),(0),(9007199254740992),(9007199254740993),(9223372036854775806),(9223372036854775807);
CREATE TABLE bu(k bigint unsigned PRIMARY KEY); INSERT INTO bu VALUES(0),(9007199254740992),(9007199254740993),(9223372036854775807),(9223372036854775808),(18446744073709551614),(18446744073709551615);
CREATE TABLE de(k decimal(65,30) PRIMARY KEY); INSERT INTO de VALUES(-99999999999999999999999999999999999.999999999999999999999999999999),(-99999999999999999999999999999999999.999999999999999999999999999998),(-0.000000000000000000000000000001),(0),(0.000000000000000000000000000001),(0.000000000000000000000000000002),(12345678901234567890.123456789012345678901234567890),(99999999999999999999999999999999999.999999999999999999999999999998),(99999999999999999999999999999999999.999999999999999999999999999999);
CREATE TABLE d0(k decimal(65,0) unsigned PRIMARY KEY); INSERT INTO d0 VALUES(0),(9007199254740992),(9007199254740993),(repeat('9',65)),(concat(repeat('9',64),'8'));
CREATE TABLE da(k date PRIMARY KEY); INSERT INTO da VALUES('0000-00-00'),('0000-01-01'),('1000-01-01'),('2024-00-00'),('2024-00-10'),('2024-02-00'),('2024-02-29'),('9999-12-31');
CREATE TABLE dt(k datetime(6) PRIMARY KEY); INSERT INTO dt VALUES('0000-00-00 00:00:00'),('2024-00-10 00:00:00.000001'),('2024-00-10 00:00:00.000002'),('1000-01-01 00:00:00.5'),('9999-12-31 23:59:59.999998'),('9999-12-31 23:59:59.999999');
CREATE TABLE dt0(k datetime PRIMARY KEY); INSERT INTO dt0 VALUES('0000-00-00 00:00:00'),('2024-00-10 00:00:00'),('2024-01-10 00:00:01'),('1000-01-01 00:00:00'),('9999-12-31 23:59:59');
CREATE TABLE ts(k timestamp(6) PRIMARY KEY); INSERT INTO ts VALUES('0000-00-00 00:00:00'),('1970-01-01 00:00:01'),('1970-01-01 00:00:01.000001'),('2024-03-31 01:30:00'),('2024-03-31 02:30:00'),('2038-01-19 03:14:07.999998'),('2038-01-19 03:14:07.999999');
CREATE TABLE ts3(k timestamp(3) PRIMARY KEY); INSERT INTO ts3 VALUES('0000-00-00 00:00:00'),('1970-01-01 00:00:01.001'),('2038-01-19 03:14:07.999');
CREATE TABLE tm(k time(6) PRIMARY KEY); INSERT INTO tm VALUES('-838:59:59'),('-838:59:58.999999'),('-00:00:00.000001'),('00:00:00'),('00:00:00.000001'),('23:59:59.999999'),('24:00:00'),('838:59:58.999999'),('838:59:59');
CREATE TABLE tm0(k time PRIMARY KEY); INSERT INTO tm0 VALUES('-838:59:59'),('-100:00:00'),('-00:00:01'),('00:00:00'),('100:00:00'),('838:59:59');
CREATE TABLE ye(k year PRIMARY KEY); INSERT INTO ye VALUES(0),(1901),(1999),(2000),(2001),(2069),(2070),(2155);
CREATE TABLE b1(k bit(1) PRIMARY KEY); INSERT INTO b1 VALUES(0),(1);
CREATE TABLE b64(k bit(64) PRIMARY KEY); INSERT INTO b64 VALUES(0),(1),(9007199254740992),(9007199254740993),(18446744073709551614),(18446744073709551615),(9223372036854775807),(9223372036854775808);
CREATE TABLE bn(k binary(8) PRIMARY KEY); INSERT INTO bn VALUES(''),('a'),('a '),(x'00000001'),(x'ffffffffffffffff'),(x'fffffffffffffffe'),('A'),('\\');
CREATE TABLE vb(k varbinary(20) PRIMARY KEY); INSERT INTO vb VALUES(''),('a'),('a '),(x'00'),(x'0000'),(x'ff'),('A'),('\'');
CREATE TABLE c1(k varchar(40) collate utf8mb4_0900_ai_ci PRIMARY KEY); INSERT INTO c1 VALUES(''),(' '),('a'),('a '),('B'),('c\\'),('d\''),('ß'),('zz'),('😀'),('😁x'),('日本'),('9'),('10');
CREATE TABLE c2(k varchar(40) collate utf8mb4_general_ci PRIMARY KEY); INSERT INTO c2 VALUES(''),('a'),('B'),('c\\'),('d\''),('ß'),('zz'),('日本'),('0000'),('Zzzz'),('aaaa'),('BBBB');
CREATE TABLE c3(k char(20) collate utf8mb4_bin PRIMARY KEY); INSERT INTO c3 VALUES(''),('a'),('A'),('b'),('é'),('日本'),('😀'),('a\tb'),('a\0');
CREATE TABLE c4(k varchar(20) charset latin1 collate latin1_swedish_ci PRIMARY KEY); INSERT INTO c4 VALUES(''),('a'),('é'),('€'),('z'),('ÿ'),('Å');
CREATE TABLE c5(k varchar(20) charset latin1 collate latin1_bin PRIMARY KEY); INSERT INTO c5 VALUES(''),('a'),('é'),('€'),('z'),('ÿ'),('Å');
CREATE TABLE c6(k varchar(20) charset utf16 PRIMARY KEY); INSERT INTO c6 VALUES(''),('a'),('é'),('€'),('z'),('😀'),('日本');
CREATE TABLE c7(k varchar(20) charset gbk PRIMARY KEY); INSERT INTO c7 VALUES(''),('a'),('中'),('文'),('z');
CREATE TABLE c8(k varchar(20) charset sjis PRIMARY KEY); INSERT INTO c8 VALUES(''),('a'),('日'),('本'),('表'),('z');
CREATE TABLE c9(k varchar(20) charset ucs2 collate ucs2_unicode_ci PRIMARY KEY); INSERT INTO c9 VALUES(''),('a'),('Ω'),('z');
CREATE TABLE ca(k varchar(20) charset big5 PRIMARY KEY); INSERT INTO ca VALUES(''),('a'),('圖'),('形'),('z');
CREATE TABLE cb(k varchar(20) charset utf8mb3 collate utf8mb3_unicode_ci PRIMARY KEY); INSERT INTO cb VALUES(''),('a'),('é'),('z'),('日');
CREATE TABLE cc(k varchar(20) charset ascii PRIMARY KEY); INSERT INTO cc VALUES(''),('a'),('z');
CREATE TABLE cd(k varchar(20) charset gb18030 PRIMARY KEY); INSERT INTO cd VALUES(''),('a'),('中'),('😀'),('z');
CREATE TABLE ce(k varchar(20) charset utf32 PRIMARY KEY); INSERT INTO ce VALUES(''),('a'),('中'),('😀'),('z');
CREATE TABLE cf(k varchar(20) charset utf16le PRIMARY KEY); INSERT INTO cf VALUES(''),('a'),('中'),('😀'),('z');
CREATE TABLE cg(k varchar(20) charset swe7 PRIMARY KEY); INSERT INTO cg VALUES(''),('a'),('z'),('å');
CREATE TABLE ch(k varchar(20) charset eucjpms PRIMARY KEY); INSERT INTO ch VALUES(''),('a'),('日'),('z');
CREATE TABLE ci(k char(10) collate utf8mb4_0900_as_cs PRIMARY KEY); INSERT INTO ci VALUES(''),('a'),('A'),('á'),('b');
CREATE TABLE cj(k varchar(20) collate utf8mb4_ja_0900_as_cs_ks PRIMARY KEY); INSERT INTO cj VALUES(''),('は'),('ハ'),('ば'),('a');
SQL
for my $table (split /\n/, $my->sql('SHOW TABLES FROM k'))
{
	my ($count, @wrong) = reverse(lines('wire_literals', quoted($plain), "'k'", quoted($table)));
	is_deeply(\@wrong, [], "literals of $table ($count)");
}

# --- a result cut short is never a clean end

$my->sql(q{CREATE DATABASE c; USE c; SET cte_max_recursion_depth = 20000; CREATE TABLE r (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(400));
	INSERT INTO r (v) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) SELECT REPEAT('v', 300) FROM s});
# 20,000 rows of 5 ms each: there is time to do harm in the middle.
my @slow = ("'c'", "'r'", "'WHERE SLEEP(0.005) = 0'", 'true');

# The statement, and no other: one that was cancelled in Postgres goes on in the source for a while.
sub connection_id
{
	my ($text) = @_;
	return poll_until
	{
		my $id = eval { $my->value("SELECT MAX(id) FROM information_schema.processlist
			WHERE user = 'capstan' AND command = 'Execute' AND info LIKE '%$text%'") };
		$id && $id =~ /^\d+$/ ? $id : '';
	};
}

# Seconds for which a server is stopped at most.
my $STAND_STILL = 60;

sub while_reading
{
	my ($options, $harm) = @_;
	# Those of before must be gone on the server, too, or the harm would be done before ours has begun.
	poll_until { $my->value(q{SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'capstan' AND info LIKE '%SLEEP(0.005)%'}) == 0 };
	my $child = fork() // die;
	if ($child == 0)
	{
		my $id = connection_id('SLEEP(0.005)');
		sleep(0.8);
		eval { $harm->($id) };
		POSIX::_exit(0);
	}
	my @result = failure('wire_rows', quoted($options), @slow);
	waitpid($child, 0);
	return @result;
}

# The server stands still until the statement of ours is over, or long after it should be.
sub stand_still
{
	my ($function) = @_;
	my $pid = $my->pid;

	kill('STOP', $pid);
	poll_until { $pg->value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%$function(%'") == 0 } $STAND_STILL;
	kill('CONT', $pid);
}

for my $options ($plain, $secure)
{
	my $how = $options eq $plain ? 'in clear' : 'over TLS';
	is((while_reading($options, sub { $my->sql("KILL QUERY $_[0]") }))[0], '55P03', "$how: KILL QUERY while rows come");
	is((while_reading($options, sub { $my->sql("KILL $_[0]") }))[0], '08006', "$how: KILL while rows come");
	is((while_reading("$options read_timeout=2", sub { stand_still('wire_rows') }))[0],
		'08006', "$how: a server that stands still while rows come");
	is((while_reading($options, sub { $my->kill9 }))[0], '08006', "$how: a server killed while rows come");
	$my->start_again;
	is((while_reading($options, sub { $my->stop }))[0], '08006', "$how: a server shut down while rows come");
	$my->start_again;

	my $start = time();
	my $cancel = fork() // die;
	if ($cancel == 0)
	{
		connection_id('SLEEP(300)');
		$pg->psql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%wire_rows%' AND pid <> pg_backend_pid()});
		POSIX::_exit(0);
	}
	is((failure('wire_rows', quoted($options), "'c'", "'r'", "'WHERE SLEEP(300) = 0'", 'true'))[0], '57014', "$how: a cancel in Postgres");
	waitpid($cancel, 0);
	cmp_ok(time() - $start, '<', 120, "$how: which does not wait for the source");
}
my @whole = lines('wire_rows', quoted($plain), "'c'", "'r'", "''", 'true');
like($whole[0], qr/^rows 20000 /, 'and left alone, all rows come');

# --- the stream

my $uuid = quoted('11111111-1111-1111-1111-111111111111');
my $end = quoted($my->gtid_executed);
for my $options ($plain, $secure)
{
	my @events = lines('wire_stream', quoted($options), "''", $uuid, 100, 2, 'false');
	like($events[-1], qr/^events \d{3,} bytes \d+ wrong 0$/, 'all events, each with its checksum');
}
is_deeply([ map { /^type (\d+) right$/ ? $1 : () } lines('wire_stream', quoted($plain), $end, $uuid, 100, 2) ],
	[ 4, 15, 35, 27, 27 ], 'from the end on: rotate, format, previous GTIDs, heartbeats');
my $server = $my->value('SELECT @@server_uuid');

# In a child: when the stream that comes next reads. Those of before must be gone on the server, too.
sub when_streaming
{
	my ($code) = @_;

	$my->wait_no_dump;
	my $child = fork() // die;
	return $child if $child;
	poll_until { $my->value(q{SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Binlog Dump GTID'}) };
	$code->();
	POSIX::_exit(0);
}
state_is('CA008', 'a position ahead of the source', 'wire_stream', quoted($plain), quoted("$server:1-99999999"), $uuid, 100, 2);
{
	my $second = when_streaming(sub { $pg->psql('SELECT wire_stream(' . join(', ', quoted($plain), $end, $uuid, 100, 5) . ')') });
	state_is('CA023', 'another stream under the same uuid', 'wire_stream', quoted($plain), $end, $uuid, 100, 3000);
	waitpid($second, 0);
}
{
	my $stopper = when_streaming(sub { stand_still('wire_stream') });
	my $start = time();
	state_is('08006', 'a source that falls silent', 'wire_stream', quoted("$plain read_timeout=3"), $end, $uuid, 100, 3000);
	cmp_ok(time() - $start, '<', $STAND_STILL, 'is found out while it is silent');
	waitpid($stopper, 0);
}
{
	my $stopper = when_streaming(sub { $my->stop });
	state_is('08006', 'a source that shuts down', 'wire_stream', quoted($plain), $end, $uuid, 100, 3000);
	waitpid($stopper, 0);
	$my->start_again;
}
$my->purge_logs;
state_is('CA007', 'binary logs that are gone', 'wire_stream', quoted($plain), "''", $uuid, 100, 2);

# --- accounts and preflight

$my->sql(q{CREATE USER low@'%' IDENTIFIED BY 'x'; GRANT SELECT ON v.* TO low@'%'; GRANT SELECT (id) ON d.child TO low@'%'});
my $low = "host=127.0.0.1 port=$port user=low password=x ssl_mode=disabled";
my $message = state_is('42501', 'no REPLICATION SLAVE', 'wire_stream', quoted($low), $end, $uuid, 100, 2);
like($message, qr/GRANT REPLICATION SLAVE/, 'and the hint is the grant');
$message = state_is('28P01', 'a wrong password', 'wire_info', quoted("host=127.0.0.1 port=$port user=capstan password=wr0ng"));
unlike($message, qr/wr0ng/, 'which is not in the message');
state_is('42P01', 'a table that is not there', 'wire_query', quoted($plain), quoted('SELECT 1 FROM v.nothing'));
$message = state_is('HV000', 'an error that quotes the statement', 'wire_query', quoted($plain), quoted("SELECT 'private' FROM FROM"));
unlike($message, qr/near|MySQL error.*private/, 'comes without the quotation');
state_is('08001', 'nobody there', 'wire_info', quoted("host=127.0.0.1:1 $account"));
connects("host=127.0.0.1:1,127.0.0.1:$port $account", 1, 'the next host is tried');

# status name => rest
sub preflight
{
	my ($options, $patterns, $copy) = @_;
	my %checks;
	for my $line (lines('wire_preflight', quoted($options), quoted($patterns), $copy // 'true'))
	{
		$checks{$2} = "$1: $3" if $line =~ /^(ok|warning|error) ([^:]+): (.*)/;
	}
	return \%checks;
}

my $checks = preflight($plain, '{v.*,c.*}');
is_deeply([ grep { $checks->{$_} !~ /^ok/ } sort keys %$checks ], ['tls'], 'a fit source: nothing but the missing encryption');
$checks = preflight($secure, '{d.*}');
like($checks->{tls}, qr/^ok/, 'which is seen');
like($checks->{'primary_key d.none'}, qr/^warning: .*ADD COLUMN/, 'no key');
like($checks->{'primary_key d.prefix'}, qr/^warning/, 'a key of prefixes');
ok(!exists $checks->{'cascade d.child'}, 'cascades are logged here') if $my->value('SELECT VERSION()') =~ /^(\d+)\.(\d+)/ && $1 * 100 + $2 >= 906;
like(preflight($plain, '{d.seen}')->{'table d.seen'}, qr/^error: .*a view/, 'a view');
$checks = preflight($low, '{v.*,d.child}');
like($checks->{privilege_replication_slave}, qr/^error: .*fix GRANT REPLICATION SLAVE ON \*\.\* TO 'low'\@'%'; 42501/, 'the missing grant for the stream');
like($checks->{'privilege_select v'}, qr/^ok/, 'SELECT on one schema');
like($checks->{'privilege_select d'}, qr/^error: found missing on 1 of 1 tables: child.*GRANT SELECT ON `d`/, 'columns are not a table');
like($checks->{'privilege_lock_tables v'}, qr/^error: .*GRANT LOCK TABLES ON `v`\.\* TO 'low'\@'%'; 42501/, 'the missing grant for the copy');
ok(!exists preflight($low, '{v.*}', 'false')->{'privilege_lock_tables v'}, 'which a pipeline without a copy does not need');

$my->sql("SET GLOBAL binlog_format = 'STATEMENT'");
like(preflight($plain, '{v.*}')->{binlog_format}, qr/^error: found STATEMENT, .*fix SET PERSIST binlog_format = .* CA012/s, 'binlog_format=STATEMENT');
$my->sql("SET GLOBAL binlog_format = 'ROW'");
# What tells less of a row is followed.
for my $setting ([ binlog_row_image => 'MINIMAL', 'FULL' ], [ binlog_row_image => 'NOBLOB', 'FULL' ], [ binlog_row_metadata => 'MINIMAL', 'FULL' ])
{
	my ($name, $less, $right) = @$setting;
	$my->sql("SET GLOBAL $name = '$less'");
	like(preflight($plain, '{v.*}')->{$name}, qr/^warning: found $less, wanted FULL; .*fix SET PERSIST $name = 'FULL'/s, "$name=$less");
	$my->sql("SET GLOBAL $name = '$right'");
}
$my->sql("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'");
like(preflight($plain, '{v.*}')->{binlog_row_value_options}, qr/^ok: found PARTIAL_JSON/, 'PARTIAL_JSON beside whole documents');
$my->sql("SET GLOBAL binlog_row_image = 'MINIMAL'");
like(preflight($plain, '{v.*}')->{binlog_row_value_options}, qr/^warning: found PARTIAL_JSON, .*fix SET PERSIST binlog_row_value_options = ''/s, 'PARTIAL_JSON alone');
$my->sql("SET GLOBAL binlog_row_value_options = ''; SET GLOBAL binlog_row_image = 'FULL'");
# A label that neither schema nor log tells.
$my->sql("CREATE DATABASE doubt; CREATE TABLE doubt.t (id INT PRIMARY KEY, e ENUM('a', 'really?') CHARACTER SET utf8mb4, s SET('\x{1f600}') CHARACTER SET utf8mb4, f ENUM('?'))");
$my->sql("GRANT SELECT, LOCK TABLES ON doubt.* TO capstan\@'%'");
is(scalar(grep { /^labels/ } keys %{ preflight($plain, '{doubt.*}') }), 0, 'labels are in the log');
$my->sql('SET GLOBAL binlog_row_metadata = MINIMAL');
$checks = preflight($plain, '{doubt.*}');
like($checks->{"labels doubt.t.$_"}, qr/^error: .*SET PERSIST binlog_row_metadata = 'FULL'; CA012/s, "the labels of $_ are not") for qw(e s f);
is(scalar(grep { /^labels/ } keys %{ preflight($plain, '{v.*,c.*}') }), 0, 'others are in the schema');
$my->sql('SET GLOBAL binlog_row_metadata = FULL; DROP DATABASE doubt');
for my $setting ([ sync_binlog => 0, 1 ], [ binlog_expire_logs_seconds => 3600, 2592000 ], [ innodb_flush_log_at_trx_commit => 2, 1 ])
{
	my ($name, $wrong, $right) = @$setting;
	$my->sql("SET GLOBAL $name = $wrong");
	like(preflight($plain, '{v.*}')->{$name}, qr/^warning: found $wrong/, "$name=$wrong");
	$my->sql("SET GLOBAL $name = $right");
}
$my->sql('SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = OFF; SET GLOBAL enforce_gtid_consistency = OFF');
my $steps = join("\n", lines('wire_preflight', quoted($plain), "'{v.*}'"));
like($steps, qr/error gtid_mode: found OFF, .*enforce_gtid_consistency = WARN.*enforce_gtid_consistency = ON.*gtid_mode = OFF_PERMISSIVE.*gtid_mode = ON_PERMISSIVE.*Ongoing_anonymous.*gtid_mode = ON;/s,
	'gtid_mode=OFF: the steps in their order');
state_is('CA012', 'and no stream', 'wire_stream', quoted($plain), "''", $uuid, 100, 2);
$my->sql('SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON');
$my->sql(q{XA START 'left'; INSERT INTO c.r (v) VALUES ('x'); XA END 'left'; XA PREPARE 'left'});
$my->sql(q{GRANT XA_RECOVER_ADMIN ON *.* TO capstan@'%'});
like(preflight($plain, '{c.*}')->{prepared_xa}, qr/^warning: found 1 prepared/, 'a prepared XA transaction is told');
$my->sql(q{XA ROLLBACK 'left'});
$my->restart('--binlog-ignore-db=v');
like(preflight($plain, '{v.*,c.*}')->{'binlog_filters v'}, qr/^error: .*binlog_ignore_db=v/, 'a filter that leaves the schema out');
$my->restart;

# --- TLS

my $certs = File::Temp->newdir('capstan-certs.XXXXXX', TMPDIR => 1);
chmod(0755, $certs);
is((run_command([ 'bash', '-ec', <<'SH', 'bash', "$certs", $my->dir ]))[0], 0, 'certificates') or BAIL_OUT('no openssl');
	cd "$1"
	for ca in ca other; do
		openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$ca" -keyout $ca.key -out $ca.pem
	done
	openssl req -newkey rsa:2048 -nodes -subj /CN=server -keyout server.key -out server.csr
	echo 'subjectAltName=DNS:localhost' >ext
	openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out server.pem
	openssl req -newkey rsa:2048 -nodes -subj /CN=client -keyout client.key -out client.csr
	openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out client.pem
	chmod 644 *
	mkdir -p "$2/certs"
	cp ca.pem server.pem server.key "$2/certs"
	chmod -R a+rX "$2/certs"
SH
my (undef, $inside) = run_command([ 'bash', '-c', '. "$1/test/lib/mysql.sh"; mysql_locate; mysql_inside "$2"', 'bash', $CapstanTest::TOP, $my->dir ]);
chomp $inside;
$my->restart("--ssl-ca=$inside/certs/ca.pem", "--ssl-cert=$inside/certs/server.pem", "--ssl-key=$inside/certs/server.key");
$my->sql(q{CREATE USER x509@'%' IDENTIFIED BY 'y' REQUIRE X509});

# The first login after FLUSH PRIVILEGES needs the whole password: by TLS or by the server's RSA key.
sub fresh { $my->sql('FLUSH PRIVILEGES') }

for my $host ('localhost', '127.0.0.1')
{
	my $to = "host=$host port=$port $account";
	fresh(); connects("$to ssl_mode=disabled", 0, "$host: disabled, by the server's RSA key");
	fresh(); connects("$to ssl_mode=preferred", 1, "$host: preferred");
	fresh(); connects("$to ssl_mode=required ssl_ca=$certs/other.pem", 1, "$host: required does not ask who it is");
	fresh(); connects("$to ssl_mode=verify_ca ssl_ca=$certs/ca.pem", 1, "$host: verify_ca");
	state_is('HV00N', "$host: verify_ca with another authority", 'wire_info', quoted("$to ssl_mode=verify_ca ssl_ca=$certs/other.pem"));
	state_is('22023', "$host: verify_ca without one", 'wire_info', quoted("$to ssl_mode=verify_ca"));
	state_is('HV00N', "$host: verify_identity with another authority", 'wire_info', quoted("$to ssl_mode=verify_identity ssl_ca=$certs/other.pem"));
	state_is('HV00N', "$host: verify_identity without one", 'wire_info', quoted("$to ssl_mode=verify_identity"));
}
connects("host=localhost port=$port $account ssl_mode=verify_identity ssl_ca=$certs/ca.pem", 1, 'verify_identity, the name of the certificate');
state_is('HV00N', 'verify_identity, another name', 'wire_info', quoted("host=127.0.0.1 port=$port $account ssl_mode=verify_identity ssl_ca=$certs/ca.pem"));
state_is('28P01', 'an account that wants a certificate', 'wire_info', quoted("host=localhost port=$port user=x509 password=y ssl_mode=required"));
connects("host=localhost port=$port user=x509 password=y ssl_mode=verify_identity ssl_ca=$certs/ca.pem ssl_cert=$certs/client.pem ssl_key=$certs/client.key",
	1, 'and gets it');
$my->sql('SET GLOBAL require_secure_transport = ON');
$message = state_is('HV00N', 'require_secure_transport and ssl_mode=disabled', 'wire_info', quoted($plain));
like($message, qr/require_secure_transport.*ssl_mode/s, 'the message names both');
$my->sql('SET GLOBAL require_secure_transport = OFF');

$my->restart('--tls-version=');
connects("host=127.0.0.1 port=$port $account ssl_mode=preferred", 0, 'a source without TLS: preferred does without');
for my $mode ('required', "verify_ca ssl_ca=$certs/ca.pem", "verify_identity ssl_ca=$certs/ca.pem")
{
	$message = state_is('HV00N', "a source without TLS: not with $mode", 'wire_info', quoted("host=127.0.0.1 port=$port $account ssl_mode=$mode"));
	like($message, qr/does not offer TLS/, 'and the message says why');
}

# --- a hostile server never gets the password in clear, nor a file

# Speaks just enough of the protocol to ask for a password, then logs what it is sent.
sub hostile
{
	my ($mode) = @_;
	my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die $!;
	my $log = "$certs/hostile.$mode";
	my $packet = sub { my ($n, $data) = @_; return substr(pack('V', length $data), 0, 3) . chr($n) . $data };
	my $greeting = sub {
		my ($plugin) = @_;
		my $caps = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x100000 | 0x200000 | 0x80;
		return $packet->(0, "\x0a9.7.4\0" . pack('V', 7) . 'abcdefgh' . "\0" . pack('v', $caps & 0xffff) . "\xff" . pack('v', 2) . pack('v', $caps >> 16)
			  . chr(21) . "\0" x 10 . "ijklmnopqrst\0$plugin\0");
	};
	my $pid = CapstanTest::spawn_code(sub {
		local $SIG{PIPE} = 'IGNORE';
		open(my $out, '>>:raw', $log) or die $!;
		$out->autoflush(1);
		while (my $client = $listener->accept)
		{
			my $buffer;
			my $take = sub { sysread($client, $buffer, 65536) // 0 and print $out $buffer; return length($buffer // '') ? ord(substr($buffer, 3, 1)) : 0 };
			if ($mode eq 'switch')
			{
				syswrite($client, $greeting->('mysql_clear_password'));
				syswrite($client, $packet->($take->() + 1, "\xfemysql_clear_password\0"));
			}
			elsif ($mode eq 'early')
			{
				syswrite($client, $greeting->('caching_sha2_password') . $packet->(2, "\x01\x04"));
			}
			else
			{
				syswrite($client, $greeting->('caching_sha2_password'));
				my $n = $take->();
				syswrite($client, $packet->($n + 1, "\x01\x03") . $packet->($n + 2, "\0\0\0\x02\0\0\0")) if $mode eq 'file';
				syswrite($client, $packet->($n + 1, "\x01\x04")) if $mode eq 'full';
				if ($mode eq 'file')
				{
					$take->();
					syswrite($client, $packet->(1, "\xfb/etc/passwd"));
				}
			}
			my $end = time() + 2;
			while (time() < $end && IO::Select->new($client)->can_read(1))
			{
				my $n = sysread($client, $buffer, 65536);
				last unless $n;
				print $out $buffer;
			}
			close $client;
		}
	});
	return ($listener->sockport, $log, $pid);
}

for my $mode ('full', 'early', 'switch', 'file')
{
	my ($hostile_port, $log, $pid) = hostile($mode);
	for my $ssl ('disabled', 'preferred', 'required', "verify_ca ssl_ca=$certs/ca.pem", 'verify_identity')
	{
		my ($state) = failure('wire_info', quoted("host=127.0.0.1 port=$hostile_port $account ssl_mode=$ssl connect_timeout=3 read_timeout=3"));
		unlike($state, qr/^none/, "hostile server ($mode), $ssl: no connection");
	}
	my $sent = CapstanTest::slurp($log);
	cmp_ok(length $sent, '>', 50, "hostile server ($mode): something was sent");
	unlike($sent, qr/sesam0pen/, "hostile server ($mode): not the password");
	unlike($sent, qr/root:/, "hostile server ($mode): not a file");
	kill('TERM', $pid);
	CapstanTest::reap($pid);
}

unlike($pg->log, qr/ERROR:.*sesam0pen|DETAIL:.*sesam0pen/, 'no message has the password');
is($pg->value('SELECT 1'), 1, 'no backend has crashed');
unlike($pg->log, qr/terminated by signal|server process .* exited/, 'at any time');
done_testing();
