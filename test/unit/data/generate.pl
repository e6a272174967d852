#!/usr/bin/perl
#
# generate.pl
#	Makes the fixtures of the unit tests anew: binary log files of a real MySQL, and
#	what that MySQL itself says about their content.
#
# Usage:  MYSQL='mysql -uroot -S /path/to/socket' generate.pl DIRECTORY [NAME...]
#
# NAMEs are fixtures to make, of all those below; none means all and the lists.
#
# DIRECTORY is where the server keeps its binary log. The server must be one that
# nobody else uses (its binary log is reset), started with
#	--log-bin --server-id=7 --gtid-mode=ON --enforce-gtid-consistency=ON --sql-mode= --secure-file-priv=
# MySQL 9.0 or later, for VECTOR.  What it does not write any more, or sends to a replica only, is in handmade.binlog: handmade.pl.
#
# Per fixture NAME:
#	NAME.binlog		the file, as the server wrote it
#	NAME.expected	row changes in the order of the log, made from SELECTs: kind, table, the before
#					image, the after image, all separated by tabs; values as value() writes them
#	NAME.events		SHOW BINLOG EVENTS: position, type, end position, info
#	NAME.gtids		gtid_executed at the end
#	doubles.tsv, gtids.tsv	see the functions that write them
#
use strict;
use warnings;
use File::Basename;

my $client = $ENV{MYSQL} or die "set MYSQL to the client's command line\n";
my $log_directory = shift or die "usage: generate.pl DIRECTORY [NAME...]\n";
my %only = map { $_ => 1 } @ARGV;
my $out = dirname($0);
my @expected;

# Runs SQL in one session; returns lines of fields.
sub sql
{
	my ($text) = @_;
	my $file = "$out/.generate.sql";

	open my $fh, '>', $file or die $!;
	print $fh "SET NAMES utf8mb4; SET time_zone='+00:00'; USE unit;\n$text\n";
	close $fh;
	my @lines = `$client --default-character-set=utf8mb4 --binary-as-hex=0 -N -B --raw < $file`;
	die "mysql failed on:\n$text\n" if $? != 0;
	unlink $file;
	chomp @lines;
	return map { [ split /\t/, $_, -1 ] } @lines;
}

# The SQL expression that prints a column as the test prints the decoded value.
sub value
{
	my ($name, $type, $column_type) = @_;
	my $c = "`$name`";
	my $e =
	  $type =~ /^(?:tiny|small|medium|big)?int$|^year$/ ? "CAST($c + 0 AS CHAR)"
	  : $type eq 'decimal' ? "CAST($c AS CHAR)"
	  : $type eq 'double' ? "CONCAT('f', CAST($c AS CHAR))"
	  : $type eq 'float' ? "CONCAT('f', CAST($c * 1E0 AS CHAR))"
	  : $type eq 'bit' ? "HEX(LPAD($c, LENGTH($c), 0x00))"
	  : $type =~ /^(?:date|datetime|timestamp|time)$/ ? "CAST($c AS CHAR)"
	  : $type =~ /^(?:enum|set)$/ ? "CAST($c + 0 AS UNSIGNED)"
	  : $type eq 'json' ? long("CAST($c AS CHAR)")
	  : long($c);
	return "IFNULL($e, 'NULL')";
}

# Bytes in hex; many of them by length and checksum.
sub long
{
	my ($c) = @_;
	return "IF(LENGTH($c) > 200, CONCAT('#', LENGTH($c), ':', CRC32($c)), HEX($c))";
}

my %columns;

sub columns
{
	my ($table) = @_;
	$columns{$table} //= [
		map { value(@$_) } sql(
			"SELECT column_name, data_type, column_type FROM information_schema.columns
			 WHERE table_schema = 'unit' AND table_name = '$table' ORDER BY ordinal_position")
	];
	return join(", '\t', ", @{ $columns{$table} });
}

# All rows of a table as lines, in the order in which a full scan changes them.
sub rows
{
	my ($table, $order) = @_;
	my $list = columns($table);
	return map { join "\t", @$_ } sql("SET SESSION group_concat_max_len = 100000000;
		SELECT CONCAT($list) FROM $table ORDER BY " . ($order // 'id') . ";");
}

# Runs statements that insert, update or delete, and notes the changes between the tables' states before and after.
# Rows keep their id.
sub change
{
	my ($text, @tables) = @_;
	my %before = map { $_ => { map { /^([^\t]*)/; $1 => $_ } rows($_) } } @tables;
	my %after;

	sql($text);
	%after = map { $_ => { map { /^([^\t]*)/; $1 => $_ } rows($_) } } @tables;
	for my $table (@tables)
	{
		for my $id (sort { $a <=> $b } keys %{ { %{ $before{$table} }, %{ $after{$table} } } })
		{
			my ($old, $new) = ($before{$table}{$id}, $after{$table}{$id});
			if (!defined $old)		{ push @expected, "insert\t$table\t$new" }
			elsif (!defined $new)	{ push @expected, "delete\t$table\t$old" }
			elsif ($old ne $new)	{ push @expected, "update\t$table\t$old\t$new" }
		}
	}
}

sub begin
{
	my ($metadata) = @_;
	%columns = ();
	@expected = ();
	`$client -e 'DROP DATABASE IF EXISTS unit; CREATE DATABASE unit DEFAULT CHARACTER SET utf8mb4'`;
	sql("SET GLOBAL binlog_row_metadata = $metadata; RESET BINARY LOGS AND GTIDS;");
}

sub finish
{
	my ($name) = @_;
	my ($file) = map { $_->[0] } sql('SHOW BINARY LOGS');

	my ($gtids) = map { $_->[0] // '' } sql("SELECT REPLACE(\@\@GLOBAL.gtid_executed, '\n', '')");
	sql('FLUSH BINARY LOGS');
	save("$name.gtids", "$gtids\n");
	save("$name.expected", join('', map { "$_\n" } @expected)) if @expected;
	# Info may hold newlines and tabs: keep its first line.
	my @events = sql("SHOW BINLOG EVENTS IN '$file'");
	save("$name.events", join('', map { "$_->[1]\t$_->[2]\t$_->[4]\t" . ($_->[5] // '') . "\n" }
		grep { @$_ >= 5 && $_->[0] eq $file } @events));
	system('cp', "$log_directory/$file", "$out/$name.binlog") == 0 or die;
	chmod 0644, "$out/$name.binlog";
}

sub save
{
	my ($name, $content) = @_;
	open my $fh, '>', "$out/$name" or die $!;
	print $fh $content;
	close $fh;
}

# ---- values of every type ----

sub create_type_tables
{
	my $charsets = join ', ', map {
		my $c = $_;
		("c_$c CHAR(20) CHARACTER SET $c", "v_$c VARCHAR(20) CHARACTER SET $c", "t_$c TEXT CHARACTER SET $c")
	} qw(latin1 utf8mb3 utf8mb4 gbk big5 sjis cp932 eucjpms gb18030 utf16 utf16le ucs2 utf32 ascii koi8r binary);
	my $many = join ',', map { "'label $_'" } 1 .. 300;
	my $members = join ',', map { "'m$_'" } 1 .. 64;

	sql(<<"SQL");
CREATE TABLE ints(id INT PRIMARY KEY, a TINYINT, b SMALLINT, c MEDIUMINT, d INT, e BIGINT,
	ua TINYINT UNSIGNED, ub SMALLINT UNSIGNED, uc MEDIUMINT UNSIGNED, ud INT UNSIGNED, ue BIGINT UNSIGNED,
	z INT(5) ZEROFILL, t1 TINYINT(1), y YEAR);
CREATE TABLE decimals(id INT PRIMARY KEY, a DECIMAL(65,30), b DECIMAL(65,0), c DECIMAL(1,1), d DECIMAL(10,2) UNSIGNED,
	e DECIMAL(9,9), f DECIMAL(18,9), g DECIMAL(20,10), h DECIMAL(1,0), i DECIMAL(30,30), j DECIMAL(10,1));
CREATE TABLE floats(id INT PRIMARY KEY, f FLOAT, d DOUBLE, fu FLOAT UNSIGNED, du DOUBLE UNSIGNED, f2 FLOAT(7,2));
CREATE TABLE bits(id INT PRIMARY KEY, b1 BIT(1), b7 BIT(7), b8 BIT(8), b9 BIT(9), b17 BIT(17), b33 BIT(33), b64 BIT(64));
CREATE TABLE times(id INT PRIMARY KEY, d DATE, y YEAR,
	@{[join ', ', map { "dt$_ DATETIME($_), ts$_ TIMESTAMP($_) NULL, t$_ TIME($_)" } 0 .. 6]});
CREATE TABLE texts(id INT PRIMARY KEY, $charsets);
CREATE TABLE lengths(id INT PRIMARY KEY, c10 CHAR(10), c63 CHAR(63), c64 CHAR(64), c255 CHAR(255), c0 CHAR(0),
	v10 VARCHAR(10), v63 VARCHAR(63), v64 VARCHAR(64), v300 VARCHAR(300),
	tt TINYTEXT, t TEXT, mt MEDIUMTEXT, lt LONGTEXT,
	b1 BINARY(1), b16 BINARY(16), b255 BINARY(255), vb10 VARBINARY(10), vb300 VARBINARY(300),
	tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB);
CREATE TABLE labels(id INT PRIMARY KEY, e ENUM('new','active','gone'), em ENUM($many),
	l ENUM('é','z') CHARACTER SET latin1, q ENUM('it''s','tab\\t','') NOT NULL,
	s1 SET('a'), s3 SET('a','b','c'), s9 SET('1','2','3','4','5','6','7','8','9'),
	s20 SET(@{[join ',', map { "'$_'" } 1 .. 20]}), s40 SET(@{[join ',', map { "'$_'" } 1 .. 40]}), s64 SET($members));
CREATE TABLE jsons(id INT PRIMARY KEY, j JSON);
CREATE TABLE shapes(id INT PRIMARY KEY, g GEOMETRY, p POINT SRID 4326, l LINESTRING, a POLYGON, m MULTIPOINT, c GEOMETRYCOLLECTION);
CREATE TABLE vectors(id INT PRIMARY KEY, v VECTOR(3), w VECTOR(2048));
CREATE TABLE `odd ``na"me`(id INT, `Größe` INT INVISIBLE, `a\\b` VARCHAR(30) NOT NULL, g INT AS (id + 1), st INT AS (id * 2) STORED,
	PRIMARY KEY(`a\\b`, id));
CREATE TABLE prefixed(id INT NOT NULL, t TEXT NOT NULL, PRIMARY KEY(t(10), id));
CREATE TABLE keyless(id INT, a VARCHAR(10));
CREATE TABLE indexed(id INT PRIMARY KEY, j JSON, a VARCHAR(10), KEY mv ((CAST(j->'\$.t' AS UNSIGNED ARRAY))), KEY fn ((UPPER(a))));
CREATE TABLE parted(id INT PRIMARY KEY, v INT) PARTITION BY RANGE(id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE wide(id INT PRIMARY KEY, @{[join ', ', map { "c$_ " . ('INT', 'VARCHAR(3)', 'DATE')[$_ % 3] } 1 .. 400]});
SET sql_generate_invisible_primary_key = ON; CREATE TABLE hidden(a INT);
SQL
}

sub fill_type_tables
{
	change(<<'SQL', 'ints');
INSERT INTO ints VALUES(1,127,32767,8388607,2147483647,9223372036854775807,255,65535,16777215,4294967295,18446744073709551615,42,2,2155),
(2,-128,-32768,-8388608,-2147483648,-9223372036854775808,0,0,0,0,0,0,-1,0000),(3,-1,-1,-1,-1,-1,1,1,1,1,1,1,127,1901),
(4,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
SQL
	change(<<'SQL', 'decimals');
INSERT INTO decimals VALUES(1,-99999999999999999999999999999999999.999999999999999999999999999999,REPEAT('9',65),-0.9,0.00,0.999999999,123456789.987654321,1234567890.0123456789,9,0.000000000000000000000000000001,-123456789.5),
(2,0.000000000000000000000000000001,CONCAT('-',REPEAT('9',65)),0.1,99999999.99,-0.000000001,-0.000000001,-0.5,-9,-0.999999999999999999999999999999,0.1),
(3,0,0,0,0,0,0,0,0,0,0),(4,-0.0,-0,-0.0,0.1,-0.0,-1,-1000000000,0,0,999999999.9),
(5,100000000,1000000000,0.5,1,0.1,1.1,1000000000.1,1,0.1,-0.1),(6,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
SQL
	change(<<'SQL', 'floats');
INSERT INTO floats VALUES(1,16777216,0.1,0.1,0.1,12345.67),(2,3.402823466e38,1.7976931348623157e308,1e30,1e300,-1),
(3,1.17549435e-38,2.2250738585072014e-308,0,0,0),(4,-0e0,-0e0,0,0,0.01),(5,8388608,5e-324,1.4e-45,5e-324,1),
(6,0.3,1e0/3,1e0/3,2e0/3,NULL),(7,NULL,NULL,NULL,NULL,NULL);
SQL
	change(<<'SQL', 'bits');
INSERT INTO bits VALUES(1,b'1',b'1111111',b'00001010',b'100000001',b'10000000000000001',b'100000000000000000000000000000001',18446744073709551615),
(2,b'0',b'0',b'0',b'0',b'00000000100000010',b'0',1),(3,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
(4,1,1,255,511,131071,8589934591,9223372036854775808);
SQL
	for my $row (
		"(1,'2024-02-29',2024,'2024-02-29 23:59:59.987654')", "(2,'1000-01-01',1901,'1970-01-01 00:00:01.000001')",
		"(3,'9999-12-31',2155,'2038-01-19 03:14:07.499999')", "(4,'0000-00-00',0,'0000-00-00 00:00:00')")
	{
		my ($id, $d, $y, $at) = $row =~ /\((\d+),('.*?'),(\d+),('.*')\)/;
		my $t = { 1 => "'838:59:58.999999'", 2 => "'-838:59:58.999999'", 3 => "'-00:00:00.123456'", 4 => "'00:00:00'" }->{$id};
		change("INSERT INTO times VALUES($id,$d,$y," . join(',', map { "$at,$at,$t" } 0 .. 6) . ');', 'times');
	}
	change("INSERT INTO times(id,d,dt0,dt6,t0,t1,t2,t3,t4,t5,t6) VALUES(5,'2015-00-21','2015-00-00','0000-01-01 00:00:00.000001','24:00:00','-00:00:00.1','-00:00:00.01','-00:00:01.001','-1:00:00.0001','-01:59:59.00001','-00:00:00.000001'),
		(6,'2015-05-00','0001-01-01','9999-12-31 23:59:59.999999','-838:59:59','838:59:58.9','-10:10:10.99','100:00:00.999','-0.9999','0.99999','-0.999999'),(7,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)", 'times');
	my %sample = (latin1 => '€ œ é ', gbk => '中文', big5 => '圖形', sjis => '日本', cp932 => '日本', eucjpms => '日本',
		gb18030 => '中😀', utf16 => 'é€😀 ', utf16le => 'é€😀  ', ucs2 => 'Ω Ā', utf32 => '😀 x ', ascii => 'abc  ',
		koi8r => 'Привет', utf8mb3 => 'é€', utf8mb4 => '😀é ', binary => 'raw ');
	my @charsets = qw(latin1 utf8mb3 utf8mb4 gbk big5 sjis cp932 eucjpms gb18030 utf16 utf16le ucs2 utf32 ascii koi8r binary);
	change('INSERT INTO texts VALUES(1,' . join(',', map { ("'$sample{$_}'") x 3 } @charsets) . '),(2,'
		. join(',', ("''") x 48) . '),(3,' . join(',', ('NULL') x 48) . '),(4,' . join(',', ("'  x  '") x 48) . ');', 'texts');
	change(<<'SQL', 'lengths');
INSERT INTO lengths VALUES(1,'abc',REPEAT('é',63),REPEAT('😀',64),REPEAT('😀',255),'',REPEAT('v',10),REPEAT('😀',63),REPEAT('😀',64),REPEAT('w',300),
	REPEAT('t',255),REPEAT('u',300),REPEAT('m',66000),REPEAT('l',300),x'00',x'01020000000000000000000000000000',REPEAT(x'ff00',100),x'0100',REPEAT(x'00',300),
	x'0001ff',REPEAT(x'ab',300),REPEAT(x'cd',300),REPEAT(x'00',1000)),
(2,'','','','','','','','','','','','','','','','','','','','','',''),
(3,'x  ','x',' y ','z',NULL,'a  ','b ','c','d','e ','f','g','h','q',x'00000000000000000000000000000001',x'20','r ',x'2000',x'00','s','t','u'),
(4,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
SQL
	change(<<'SQL', 'labels');
INSERT INTO labels VALUES(1,'active','label 300','é','it''s','a','c,a','9,1','20,1','40,33',18446744073709551615),
(2,'bad','label 255','z','','','','','','',''),(3,NULL,NULL,NULL,'tab	',NULL,NULL,NULL,NULL,NULL,NULL),
(4,1,1,1,2,1,7,511,1048575,1099511627775,9223372036854775808);
SQL
	change(<<'SQL', 'shapes');
INSERT INTO shapes VALUES(1,ST_GeomFromText('POINT(1 2)'),ST_GeomFromText('POINT(10 20)',4326),ST_GeomFromText('LINESTRING(0 0,1 1)'),
	ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'),ST_GeomFromText('MULTIPOINT(1 1,2 2)'),ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))')),
(2,NULL,NULL,NULL,NULL,NULL,NULL),(3,ST_GeomFromText('GEOMETRYCOLLECTION EMPTY'),NULL,NULL,NULL,NULL,ST_GeomFromText('GEOMETRYCOLLECTION EMPTY'));
SQL
	change("INSERT INTO vectors VALUES(1,TO_VECTOR('[1,2.5,-3]'),TO_VECTOR('[" . join(',', 1 .. 100) . "]')),(2,NULL,NULL);", 'vectors');
	sql(q{INSERT INTO `odd ``na"me`(id,`Größe`,`a\\b`) VALUES(1,5,'k1'),(2,NULL,'k2');});
	push @expected, qq{insert\todd `na"me\t$_} for "1\t5\t6B31\t2\t2", "2\tNULL\t6B32\t3\t4";
	change("INSERT INTO prefixed VALUES(1,'a long text as a key'),(2,'');", 'prefixed');
	change("INSERT INTO keyless VALUES(1,'x'),(2,NULL);", 'keyless');
	change(q{INSERT INTO indexed VALUES(1,'{"t":[1,2,3]}','a'),(2,NULL,NULL); UPDATE indexed SET a = 'b' WHERE id = 3; UPDATE indexed SET id = id + 5 WHERE id = 7}, 'indexed');
	change('INSERT INTO parted VALUES(1,1),(11,2)', 'parted');
	change('UPDATE parted SET v = 9', 'parted');
	change('INSERT INTO wide(id,' . join(',', map { "c$_" } grep { $_ % 7 < 3 } 1 .. 400) . ') VALUES(1,'
		. join(',', map { (7, "'ab'", "'2024-01-01'")[$_ % 3] } grep { $_ % 7 < 3 } 1 .. 400) . '),(2' . ',NULL' x (grep { $_ % 7 < 3 } 1 .. 400) . ')', 'wide');
	sql('INSERT INTO hidden(a) VALUES(7),(8)');
	push @expected, "insert\thidden\t1\t7", "insert\thidden\t2\t8";
	# Before images of every type, and both at once.
	change($_->[0], $_->[1])
	  for (
		['UPDATE ints SET a = IFNULL(a, 0) DIV 2, ue = 9223372036854775808, y = 1970 WHERE id <> 3', 'ints'],
		['UPDATE decimals SET a = -a, c = NULL', 'decimals'],
		['UPDATE floats SET f = -f, d = NULL WHERE id < 3', 'floats'],
		['UPDATE bits SET b64 = 5', 'bits'],
		['UPDATE times SET t6 = ADDTIME(t6, 1), d = NULL WHERE id IN (1, 3)', 'times'],
		["UPDATE texts SET v_gbk = 'x', c_binary = 'y'", 'texts'],
		["UPDATE lengths SET b16 = x'ff', vb10 = x'00' WHERE id > 1", 'lengths'],
		["UPDATE labels SET e = 'gone', s3 = 'b' WHERE id <> 4", 'labels'],
		['DELETE FROM ints WHERE id > 1', 'ints'], ['DELETE FROM decimals', 'decimals'], ['DELETE FROM floats', 'floats'],
		['DELETE FROM bits', 'bits'], ['DELETE FROM times', 'times'], ['DELETE FROM texts', 'texts'],
		['DELETE FROM lengths WHERE id <> 1', 'lengths'], ['DELETE FROM labels', 'labels'], ['DELETE FROM shapes', 'shapes'],
		['DELETE FROM vectors', 'vectors'], ['DELETE FROM keyless', 'keyless'],
	  );
}

sub fill_json
{
	my $deep = '[' x 99 . '1' . ']' x 99;
	my $large = join ',', map { qq("key number $_": [$_, $_.5, "text $_", null, true, false, {}, []]) } 1 .. 1200;
	my @documents = (
		q('{"name":"a","id":1,"val":1.0,"pi":3.14}'), q('[]'), q('{}'), q('null'), q('true'), q('false'), q('"text"'), q('""'),
		q('1'), q('-1'), q('32767'), q('-32768'), q('32768'), q('65535'), q('65536'), q('-32769'), q('2147483647'), q('-2147483648'),
		q('2147483648'), q('4294967295'), q('4294967296'), q('9223372036854775807'), q('-9223372036854775808'), q('18446744073709551615'),
		q('18446744073709551616'), q('1.5'), q('-0.0'), q('1e100'), q('1.0'), q('0.1e-6'),
		q('[1,[2,[3,{"a":[4,{"b":null}]}]]]'), qq('$deep'), qq('{$large}'),
		q('{"":1,"a":2,"aa":3,"b":4}'), q('{"ü":"é€😀","\\\\u0001":"\\\\u0000"}'),
		q(JSON_QUOTE(CONVERT(CONCAT(CHAR(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31),'"\\\\/é',CHAR(127)) USING utf8mb4))),
		q(JSON_OBJECT('d',CAST('2020-01-02' AS DATE),'t',CAST('-12:00:01.5' AS TIME(1)),'dt',CAST('2020-01-02 03:04:05.678' AS DATETIME(3)),'n',CAST('12345678901234567890.123' AS DECIMAL(30,3)),'b',CAST('x' AS BINARY))),
		q(JSON_ARRAY(CAST('838:59:59' AS TIME),CAST('-00:00:00.000001' AS TIME(6)),CAST('0000-00-00' AS DATE),CAST('9999-12-31 23:59:59.999999' AS DATETIME(6)),TIMESTAMP'2020-01-02 03:04:05')),
		q(JSON_ARRAY(CAST(0 AS DECIMAL(10,2)),-0.50,1.500,CAST(-0.0 AS DECIMAL(3,1)),CAST(REPEAT('9',65) AS DECIMAL(65,0)),-0.000000000000000000000000000001)),
		(map { "JSON_ARRAY(CAST(REPEAT(x'f1',$_) AS BINARY))" } 0, 1, 2, 3, 56, 57, 58, 113, 114, 115, 200),
		q(JSON_ARRAY(b'101',x'00ff',_latin1'é',_binary'z',NULL,TRUE)), q(JSON_QUOTE(REPEAT('x',127))), q(JSON_QUOTE(REPEAT('y',128))),
		q(JSON_QUOTE(REPEAT('z',16384))), q(JSON_ARRAY(REPEAT('x',70000),1,-40000,40000,70000)),
		q(JSON_OBJECT(REPEAT('k',1000),CAST(1 AS UNSIGNED),'f',CAST(0.1 AS FLOAT),'y',CAST(2024 AS YEAR))),
		'NULL');
	my $id = 0;
	change('INSERT INTO jsons VALUES ' . join(",\n", map { '(' . ++$id . ", $_)" } @documents) . ';', 'jsons');
	change('UPDATE jsons SET j = JSON_ARRAY(id, j) WHERE id < 10', 'jsons');
}

# JSON columns logged as differences.
sub differences
{
	my @updates = (
		q(JSON_SET(j, '$.name', 'bb')), q(JSON_SET(j, '$.list[1]', 22, '$.list[0]', 'x')), q(JSON_REMOVE(j, '$.list[0]')),
		q(JSON_ARRAY_APPEND(j, '$.list', 4, '$.list', 5)), q(JSON_ARRAY_INSERT(j, '$.list[1]', 'ins')), q(JSON_INSERT(j, '$.list[9]', 'end')),
		q(JSON_INSERT(j, '$.new', JSON_OBJECT('a', 1), '$."quoted name"', 2, '$."a.b[0]"', 3, '$."q\\\\"q"', 4, '$."ü"', 5, '$."\\\\u0001"', 6)),
		q(JSON_SET(j, '$.new.a', 'deep', '$."a.b[0]"', 33, '$."q\\\\"q"', 44, '$."ü"', 55, '$."\\\\u0001"', 66)),
		q(JSON_REMOVE(j, '$."quoted name"', '$.new.a', '$."ü"')), q(JSON_SET(j, '$.new', CAST(1.50 AS DECIMAL(5,2)), '$.list[2]', CAST('2020-01-02' AS DATE))),
		q(JSON_SET(j, '$.big.k7[1]', 'changed', '$.big.k8[0].x', NULL)), q(JSON_REMOVE(j, '$.big.k7', '$.big.k8[0]')),
		q(JSON_SET(j, '$.big.k10000', 1, '$.big.k9', JSON_ARRAY())), q(JSON_ARRAY_APPEND(j, '$.big.k9', 1)), q(JSON_REPLACE(j, '$.list[0]', j)),
		q(JSON_REMOVE(j, '$.name')), q(JSON_SET(j, '$.list', CAST('[]' AS JSON), '$.$', 1, '$._x1', 2)), q(JSON_SET(JSON_REMOVE(j, '$.$'), '$._x1', TRUE)));
	my $members = join ',', map { qq("k$_":[{"x":$_},$_.5,"text $_"]) } 1 .. 40;
	my $partial = "SET binlog_row_value_options = PARTIAL_JSON;";

	sql(<<"SQL");
CREATE TABLE docs(id INT PRIMARY KEY, j JSON, n INT, k JSON);
CREATE TABLE numbers(n INT PRIMARY KEY); INSERT INTO numbers VALUES(1),(2),(3);
SQL
	push @expected, map { "insert\tnumbers\t$_" } 1 .. 3;
	change(qq~INSERT INTO docs VALUES(1,'{"name":"a","list":[1,2,3],"big":{$members}}',1,'[1,{"y":"z"}]'),
		(2,JSON_OBJECT('name','a','list',JSON_ARRAY(1,2,3),'pad',REPEAT('p',70000)),2,NULL)~, 'docs');
	change("$partial UPDATE docs SET j = $_ WHERE id = 1", 'docs') for @updates;
	change("$partial UPDATE docs SET j = $_ WHERE id = 2", 'docs') for @updates[0, 3];
	change("$partial UPDATE docs SET k = JSON_SET(k, '\$[1].y', n), j = JSON_SET(j, '\$.n', n), n = n + 1", 'docs');
	change("$partial UPDATE docs SET k = '[]', j = JSON_SET(j, '\$.n', n) WHERE id = 1", 'docs');
	change("$partial UPDATE docs SET k = NULL, j = JSON_SET(j, '\$.n', NULL)", 'docs');
}

# Doubles as JSON prints them: bits in hex, text.
sub doubles
{
	my @values = qw(0e0 -0e0 1e0 -1e0 1e15 1e16 1e14 123456789012345e0 1234567890123456e0 12345678901234567e0 123456789012345.6e0
	  1234567890123456.5e0 9007199254740993e0 0.1e0 0.01e0 1e-5 1e-6 1e-14 1e-15 1e-16 1.5e-14 1.5e-15 1.5e-16 5e-324 2.2250738585072014e-308
	  2.225073858507201e-308 1.7976931348623157e308 1e22 1e23 4.35e0 0.3e0 2.5e-15 9.5367431640625e-7 123456789.123456789e0);
	srand 7;
	for my $exponent (-1074 .. 1023)
	{
		push @values, sprintf '%.17ge0', 2**$exponent;
	}
	for (1 .. 3000)
	{
		push @values, sprintf '%.*e', int(rand 17), (rand() - 0.5) * 10**(int(rand 40) - 20);
		push @values, unpack('d>', pack('NN', int(rand 2**32) & 0xffdfffff, int(rand 2**32))) . 'e0' =~ s/e([-+]\d+)e0/e$1/r;
	}
	@values = map { s/(e[-+]?\d+)e0$/$1/r } grep { !/inf|nan/i } @values;
	@values = map { /e/ ? $_ : "${_}e0" } @values;
	sql('CREATE TABLE doubles(id INT AUTO_INCREMENT PRIMARY KEY, d DOUBLE NOT NULL, j JSON)');
	while (my @some = splice @values, 0, 500)
	{
		sql('INSERT INTO doubles(d) VALUES ' . join(',', map { "($_)" } @some) . ';');
	}
	sql('UPDATE doubles SET j = CAST(d AS JSON)');
	# A double's bytes as the server keeps them: X of the well-known binary of a point, little-endian.
	save('doubles.tsv', join '', map { "$_->[0]\t$_->[1]\n" }
		sql('SELECT HEX(SUBSTR(ST_AsWKB(POINT(d, 0)), 6, 8)), CAST(j AS CHAR) FROM doubles ORDER BY id'));
}

# GTID sets and what the server makes of them: a, b, subset(a, b), subtract(a, b), subtract(b, a), canonical a.
sub gtids
{
	my @uuids = map { sprintf '%08x-aaaa-bbbb-cccc-%012x', $_, $_ } 1 .. 3;
	my $text = '';
	srand 11;
	my $random = sub {
		my @parts;
		for my $n (1 .. int rand 4)
		{
			my $part = $uuids[ rand @uuids ];
			for my $group (0 .. int rand 2.5)
			{
				$part .= ':' . ('', 'tag', 'Other_1')[ rand 3 ] if rand() < 0.5;
				$part =~ s/:$//;
				for (0 .. int rand 4)
				{
					my $from = 1 + int rand 40;
					$part .= rand() < 0.3 ? ":$from" : ":$from-" . ($from + int rand 20);
				}
			}
			push @parts, $part;
		}
		return join ',', @parts;
	};
	my @pairs = map { [ $random->(), $random->() ] } 1 .. 400;
	push @pairs, [ "$uuids[0]:1-9223372036854775806", "$uuids[0]:5" ], [ '', '' ], [ uc $uuids[0] . ':3-5:1', " $uuids[0] : 1 - 2 ,\n$uuids[1]:9" ];
	for my $pair (@pairs)
	{
		my ($a, $b) = map { "'$_'" } @$pair;
		my ($row) = sql("SELECT GTID_SUBSET($a, $b), REPLACE(GTID_SUBTRACT($a, $b), '\n', ''), REPLACE(GTID_SUBTRACT($b, $a), '\n', ''), REPLACE(GTID_SUBTRACT($a, ''), '\n', '')");
		$text .= join("\t", (map { s/\n/ /gr } @$pair), @$row) . "\n";
	}
	save('gtids.tsv', $text);
}

# ---- shapes of transactions ----

sub transactions
{
	create_small();
	my $xa = "X'6774',X'6271',7";
	sql(<<"SQL");
INSERT INTO a VALUES(1,'one'),(2,'two');
BEGIN; INSERT INTO a VALUES(3,'three'); SAVEPOINT s; INSERT INTO a VALUES(4,'four'); ROLLBACK TO s; INSERT INTO b VALUES(1,1); COMMIT;
UPDATE a, b SET a.t = 'both', b.n = 9 WHERE a.id = b.id;
CREATE TABLE ctas AS SELECT * FROM a;
SET binlog_format = STATEMENT; INSERT INTO a VALUES(5, 'statement'); SET binlog_format = ROW;
SET SESSION binlog_rows_query_log_events = ON; DELETE FROM a WHERE id = 5; SET SESSION binlog_rows_query_log_events = OFF;
SET binlog_row_image = MINIMAL; UPDATE a SET t = 'minimal' WHERE id = 1; DELETE FROM a WHERE id = 2; INSERT INTO a(id) VALUES(6); SET binlog_row_image = FULL;
XA START $xa; INSERT INTO a VALUES(7,'xa'); XA END $xa; XA PREPARE $xa; XA COMMIT $xa;
XA START 'x'; INSERT INTO a VALUES(8,'xa'); XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x';
XA START 'y','z'; INSERT INTO a VALUES(9,'xa'); XA END 'y','z'; XA COMMIT 'y','z' ONE PHASE;
CREATE TABLE my(id INT) ENGINE=MyISAM; INSERT INTO my VALUES(1);
BEGIN; INSERT INTO my VALUES(2); INSERT INTO a VALUES(10,'mixed'); ROLLBACK;
/* a comment */ TRUNCATE TABLE b;
SET gtid_next = 'AUTOMATIC:mytag'; INSERT INTO b VALUES(5,5); SET gtid_next = AUTOMATIC;
SET gtid_next = '80ff0102-8384-fefd-7f80-0123456789ab:tag_2:77'; BEGIN; COMMIT; SET gtid_next = AUTOMATIC;
SET gtid_next = '80ff0102-8384-fefd-7f80-0123456789ab:9223372036854775806'; BEGIN; COMMIT; SET gtid_next = AUTOMATIC;
SET binlog_transaction_compression = ON;
INSERT INTO a SELECT 100 + n, REPEAT('compressed ', 50) FROM numbers WHERE n <= 200;
BEGIN; UPDATE a SET t = 'c' WHERE id > 250; INSERT INTO b VALUES(6,6); DELETE FROM a WHERE id > 280; COMMIT;
INSERT INTO a VALUES(1000, REPEAT('one row larger than any first buffer ', 20000));
SET gtid_next = 'AUTOMATIC:mytag'; INSERT INTO b VALUES(7,7); SET gtid_next = AUTOMATIC;
SET binlog_transaction_compression = OFF;
SET binlog_row_value_options = PARTIAL_JSON;
INSERT INTO docs SELECT n, '{"name":"a","list":[1,2,3]}', JSON_OBJECT('x', 1, 'pad', REPEAT('p', 60)), n FROM numbers WHERE n <= 3;
UPDATE docs SET j = JSON_SET(j, '\$.name', 'bb'), n = 5 WHERE id = 1;
UPDATE docs SET j = '[2]', k = JSON_SET(k, '\$.x', 2) WHERE id = 1;
SET binlog_row_image = MINIMAL;
UPDATE docs SET k = JSON_REPLACE(k, '\$.x', 8), n = 6 WHERE id = 2;
UPDATE docs SET j = '[3]', k = JSON_REPLACE(k, '\$.x', 9) WHERE id >= 2;
UPDATE docs SET k = NULL, n = 7 WHERE id = 3;
SET binlog_row_image = FULL;
SET binlog_row_value_options = '';
UPDATE docs SET n = n + 10 WHERE id = 1;
DELETE FROM parent;
CREATE USER unit_user; DROP USER unit_user;
SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'; CREATE TABLE "quoted"(id INT); DROP TABLE "quoted"; SET sql_mode = '';
SQL
}

sub create_small
{
	sql(<<'SQL');
CREATE TABLE a(id INT PRIMARY KEY, t MEDIUMTEXT);
CREATE TABLE b(id INT PRIMARY KEY, n INT);
CREATE TABLE docs(id INT PRIMARY KEY, j JSON, k JSON, n INT);
CREATE TABLE numbers(n INT PRIMARY KEY);
CREATE TABLE parent(id INT PRIMARY KEY); CREATE TABLE child(id INT PRIMARY KEY, p INT, FOREIGN KEY(p) REFERENCES parent(id) ON DELETE CASCADE);
INSERT INTO parent VALUES(1); INSERT INTO child VALUES(1,1),(2,1);
SET cte_max_recursion_depth = 10000;
INSERT INTO numbers WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200) SELECT n FROM r;
SQL
}

# ---- statements logged as such, and the events around them ----

sub statements
{
	my $file = "$log_directory/load.txt";
	# As the server calls it, which may live in a root of its own.
	my ($as_server) = map { $_->[0] =~ s,[^/]*$,load.txt,r } sql('SELECT @@GLOBAL.log_bin_basename');

	open my $fh, '>', $file or die $!;
	print $fh map { "$_\n" } 10 .. 19;
	close $fh;
	chmod 0644, $file;
	sql(<<"SQL");
CREATE TABLE s(id INT AUTO_INCREMENT PRIMARY KEY, r DOUBLE, u VARCHAR(20));
CREATE TABLE lost(t LONGTEXT) ENGINE=MyISAM;
SET binlog_format = STATEMENT;
SET insert_id = 5; INSERT INTO s(r) VALUES(1);
INSERT INTO s(r) VALUES(RAND());
SET \@u = 'a user variable'; INSERT INTO s(u) VALUES(\@u);
LOAD DATA INFILE '$as_server' INTO TABLE s(r);
SET binlog_format = ROW;
SET GLOBAL binlog_stmt_cache_size = 4096; SET GLOBAL max_binlog_stmt_cache_size = 4096;
SQL
	# More than may be cached for a table without transactions is written there and not logged: the server says that it lost events.
	eval { sql("INSERT INTO lost VALUES(REPEAT('x', 100000))"); 1 } and die "the server lost nothing\n";
	sql('SET GLOBAL max_binlog_stmt_cache_size = 18446744073709547520; SET GLOBAL binlog_stmt_cache_size = DEFAULT;');
	unlink $file;
}

# Row images that lack columns, within a compressed transaction, too.
sub images
{
	sql(<<"SQL");
CREATE TABLE i(id INT PRIMARY KEY, n INT, t TEXT, b BLOB, j JSON, g GEOMETRY, v VARCHAR(300), e ENUM('x', 'y') CHARACTER SET latin1, s SET('p', 'q') CHARACTER SET utf8mb4);
INSERT INTO i SELECT n, n, 'text', x'00ff', '{"a": [1, 2, 3], "b": "long enough to be worth a difference"}', POINT(1, 2), 'varchar', 'y', 'p,q'
	FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) AS numbers;
INSERT INTO i(id, j) VALUES(6, JSON_ARRAY(CAST(4000000000 AS UNSIGNED), CAST(x'00ff' AS BINARY), POINT(1, 2)));
SET binlog_row_image = NOBLOB;
UPDATE i SET n = 10 WHERE id = 1; UPDATE i SET t = 'other' WHERE id = 2; DELETE FROM i WHERE id = 2; INSERT INTO i(id, n) VALUES(5, 5);
SET binlog_row_value_options = PARTIAL_JSON;
UPDATE i SET j = JSON_REPLACE(j, '\$.a[0]', 7) WHERE id = 3;
SET binlog_row_image = MINIMAL;
UPDATE i SET e = 'x', s = 'q' WHERE id = 4;
SET binlog_transaction_compression = ON, gtid_next = 'AUTOMATIC:images';
BEGIN; UPDATE i SET j = JSON_REMOVE(j, '\$.a[1]') WHERE id = 3; DELETE FROM i WHERE id = 4; COMMIT;
SET binlog_row_image = FULL;
BEGIN; UPDATE i SET j = JSON_ARRAY_INSERT(j, '\$.a[0]', 'front') WHERE id = 3; DELETE FROM i WHERE id = 3; COMMIT;
SET binlog_transaction_compression = OFF, gtid_next = AUTOMATIC;
SQL
}

sub plain
{
	sql("CREATE TABLE plain(id INT PRIMARY KEY); INSERT INTO plain VALUES(1);");
}

# Name, metadata, what to do, and settings around it which each begin a new file.
my @fixtures = (
	[ 'types', 'FULL', sub { create_type_tables(); fill_type_tables() } ],
	[ 'json', 'FULL', sub { create_type_tables(); fill_json() } ],
	[ 'minimal', 'MINIMAL', sub { create_type_tables(); fill_type_tables() } ],
	[ 'differences', 'FULL', \&differences ],
	[ 'transactions', 'FULL', \&transactions ],
	[ 'statements', 'FULL', \&statements ],
	[ 'images', 'FULL', \&images ],
	[ 'anonymous', 'FULL', \&plain, [ map { "gtid_mode = $_" } qw(ON_PERMISSIVE OFF_PERMISSIVE) ], [ map { "gtid_mode = $_" } qw(ON_PERMISSIVE ON) ] ],
	[ 'unchecked', 'FULL', \&plain, ['binlog_checksum = NONE'], ['binlog_checksum = CRC32'] ],
);

for my $fixture (@fixtures)
{
	my ($name, $metadata, $make, $before, $after) = @$fixture;

	next if %only && !$only{$name};
	`$client -e 'SET GLOBAL $_'` for @{ $before // [] };
	begin($metadata);
	$make->();
	finish($name);
	`$client -e 'SET GLOBAL $_'` for @{ $after // [] };
}
exit 0 if %only;

begin('FULL');
doubles();
gtids();
