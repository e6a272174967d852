# Every code of every character set that the source has becomes the character that MySQL itself makes of it.
#
# Why: tables of character sets differ from maker to maker in a few codes each; a value that
# is one character off is noticed by nobody.
# How: map_test calls src/map/charset*.c; MySQL says what CONVERT(... USING utf8mb4) gives: for all bytes and pairs
# of bytes, all codes of three bytes, of four bytes in gb18030, all surrogate pairs, all numbers of utf32; and
# for strings of random bytes, which are mostly not well-formed.
# Asserted: the same characters; no result where MySQL has "?", U+FFFD or nothing. Which of two codes
# of one character MySQL prefers, too: keys depend on it.
# Not asserted: columns, labels, keys (071_charset_columns.pl).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(modules => ['map_test']);

$pg->safe_psql('CREATE EXTENSION map_test');
# A table of numbers is faster than a recursive query in each of the questions.
$my->sql('CREATE DATABASE n; CREATE TABLE n.n (n INT PRIMARY KEY);
	INSERT INTO n.n WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 255) SELECT n FROM s');

my %max_bytes = map { $_->[0] => $_->[1] } $my->query('SELECT character_set_name, maxlen FROM information_schema.character_sets');
my %unicode = map { $_ => 1 } qw(utf8mb3 utf8mb4 ucs2 utf16 utf16le utf32);
my ($codes, $characters) = (0, 0);

# Two outputs, a line for each code or block of codes: code, utf-8 in hexadecimal, and what else.
sub same
{
	my ($from_mysql, $from_postgres, $name) = @_;
	my $equal = $from_mysql eq $from_postgres;
	my @mysql = split /\n/, $from_mysql;

	ok($equal && @mysql > 0, $name . ': ' . count(\@mysql)) and return;
	my @postgres = split /\n/, $from_postgres;
	my @different = grep { ($mysql[$_] // '') ne ($postgres[$_] // '') } 0 .. $#mysql;
	splice @different, 10 if @different > 10;
	diag(substr($mysql[$_] // '', 0, 200) . ' is here ' . substr($postgres[$_] // '', 0, 200)) for @different;
}

sub count
{
	my ($lines) = @_;
	my ($all, $good) = (0, 0);

	for my $line (@$lines)
	{
		my ($code, $hex) = split /\t/, $line;
		my $text = pack 'H*', $hex;
		utf8::decode($text);
		# A line is a code, or a block of them.
		my $in_line = $code =~ /^block/ ? length $text : 1;
		my $bad = () = $text =~ /\?/g;
		$all += $in_line;
		$good += $in_line - $bad;
	}
	$codes += $all;
	$characters += $good;
	return "$all codes, $good with a character";
}

# What counts as no result. In eucjpms MySQL takes a character that is cut off at the end for a well-formed one and then
# leaves it out: that is no result either, and shows when something follows.
sub mysql_hex
{
	my ($charset, $text) = @_;
	my $replaced = $unicode{$charset} ? '' : " OR LOCATE(x'EFBFBD', BINARY $text)";

	$replaced .= " OR NOT BINARY CONCAT($text, 'xx') <=> BINARY CONVERT(CONVERT(CONCAT(b, 'xx') USING eucjpms) USING utf8mb4)"
	  if $charset eq 'eucjpms';

	return "CASE WHEN $text IS NULL OR LENGTH($text) = 0 OR LOCATE(x'3F', BINARY $text)$replaced THEN '3F' ELSE HEX($text) END";
}

sub postgres_hex
{
	my ($bytes) = @_;
	return "CASE WHEN position('\\x3f' IN $bytes) > 0 OR $bytes = '' THEN '3F' ELSE upper(encode($bytes, 'hex')) END";
}

# All codes of these bytes, each by itself; CHAR(...) of numbers a, b, c.
sub by_code
{
	my ($charset, $prefix, $width) = @_;
	my @names = ('a' .. 'd')[ 0 .. $width - length($prefix) / 2 - 1 ];
	my $fixed = $prefix eq '' ? '' : '0x' . join(', 0x', $prefix =~ /../g) . ', ';
	my $bytes = "CHAR($fixed" . join(', ', map { "$_.n" } @names) . ')';
	my $hex = mysql_hex($charset, 'u');

	my $from_mysql = $my->sql("SELECT HEX(b), $hex, $hex <> '3F' AND HEX(CONVERT(u USING $charset)) <> HEX(b)
		FROM (SELECT b, CONVERT(CONVERT(b USING $charset) USING utf8mb4) u
		FROM (SELECT $bytes b FROM " . join(', ', map { "n.n $_" } @names) . ") s) t ORDER BY b", bytes => 1);

	$bytes = "decode('$prefix' || " . join(' || ', map { "lpad(to_hex($_), 2, '0')" } @names) . ", 'hex')";
	$hex = postgres_hex('u');
	my $from_postgres = $pg->safe_psql("SELECT upper(encode(b, 'hex')) || E'\\t' || $hex || E'\\t' || ($hex <> '3F' AND charset_second('$charset', b))::int
		FROM (SELECT b, charset_codes('$charset', b, $width) u FROM (SELECT $bytes b FROM "
		  . join(', ', map { "generate_series(0, 255) $_" } @names) . " ORDER BY b) s) t");
	same($from_mysql, $from_postgres, "$charset, $width bytes" . ($prefix eq '' ? '' : " from $prefix on"));
}

# Blocks of well-formed codes: MySQL converts a block in one piece. Each a query for pairs (block number, code as a number).
sub by_block
{
	my ($charset, $width, $mysql_blocks, $postgres_blocks, $name) = @_;

	my $from_mysql = $my->sql("SET group_concat_max_len = 1000000;
		SELECT CONCAT('block ', k), HEX(CONVERT(CONVERT(b USING $charset) USING utf8mb4)) FROM
		(SELECT k, GROUP_CONCAT(UNHEX(LPAD(HEX(c), 2 * $width, '0')) ORDER BY c SEPARATOR '') b FROM ($mysql_blocks) s GROUP BY k) t ORDER BY k", bytes => 1);
	my $from_postgres = $pg->safe_psql("SELECT 'block ' || k || E'\\t' || upper(encode(charset_codes('$charset', b, $width), 'hex')) FROM
		(SELECT k, string_agg(decode(lpad(to_hex(c), 2 * $width, '0'), 'hex'), '' ORDER BY c) b FROM ($postgres_blocks) s GROUP BY k) t ORDER BY k");
	same($from_mysql, $from_postgres, "$charset, $name");
}

for my $charset (grep { $_ ne 'binary' } sort keys %max_bytes)
{
	my $at_least = $charset =~ /^(?:ucs2|utf16)/ ? 2 : $charset eq 'utf32' ? 4 : 1;

	for my $width ($max_bytes{$charset} > 1 ? (1, 2) : 1)
	{
		by_code($charset, '', $width) if $width >= $at_least;
	}
}
by_code($_, '8f', 3) for qw(ujis eucjpms);
by_block('gb18030', 4,
	'SELECT a.n * 256 + b.n k, ((a.n * 256 + b.n) * 256 + c.n) * 256 + d.n c FROM n.n a, n.n b, n.n c, n.n d
		WHERE a.n BETWEEN 0x81 AND 0xfe AND b.n BETWEEN 0x30 AND 0x39 AND c.n BETWEEN 0x81 AND 0xfe AND d.n BETWEEN 0x30 AND 0x39',
	'SELECT a * 256 + b k, ((a::bigint * 256 + b) * 256 + c) * 256 + d c FROM generate_series(129, 254) a, generate_series(48, 57) b,
		generate_series(129, 254) c, generate_series(48, 57) d', '4 bytes');
for ([ 'utf16', 256, 1 ], [ 'utf16le', 1, 256 ])
{
	my ($charset, $high, $low) = @$_;
	my $code = "((\$a * $high + \$b * $low) * 65536 + \$c * $high + \$d * $low)";
	(my $in_mysql = $code) =~ s/\$(\w)/$1.n/g;
	(my $in_postgres = $code) =~ s/\$(\w)/$1\::bigint/g;

	by_block($charset, 4,
		"SELECT a.n * 256 + b.n k, $in_mysql c FROM n.n a, n.n b, n.n c, n.n d WHERE a.n BETWEEN 0xd8 AND 0xdb AND c.n BETWEEN 0xdc AND 0xdf",
		"SELECT a * 256 + b k, $in_postgres c FROM generate_series(216, 219) a, generate_series(0, 255) b, generate_series(220, 223) c, generate_series(0, 255) d", 'pairs');
}
by_block('utf32', 4,
	'SELECT a.n * 256 + b.n k, (a.n * 256 + b.n) * 256 + c.n c FROM n.n a, n.n b, n.n c WHERE a.n < 17 AND NOT (a.n = 0 AND b.n BETWEEN 0xd8 AND 0xdf)',
	'SELECT a * 256 + b k, (a * 256 + b) * 256 + c c FROM generate_series(0, 16) a, generate_series(0, 255) b, generate_series(0, 255) c WHERE NOT (a = 0 AND b BETWEEN 216 AND 223)',
	'all code points');
by_code('utf32', $_, 4) for qw(0000d8 0000df 001100 010000 ff0000);

# Random strings of bytes that lead, trail and stand alone somewhere.
srand(70);
my @interesting = (0x00, 0x20, 0x30, 0x31, 0x39, 0x40, 0x41, 0x5c, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0x84, 0x8e, 0x8f, 0x90, 0x9f, 0xa0, 0xa1, 0xa2, 0xb0, 0xc2, 0xc4,
	0xd8, 0xdb, 0xdc, 0xdf, 0xe0, 0xe3, 0xe5, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xf9, 0xfa, 0xfc, 0xfd, 0xfe, 0xff);
for my $charset (grep { $max_bytes{$_} > 1 } sort keys %max_bytes)
{
	my $unit = $charset =~ /^(?:ucs2|utf16)/ ? 2 : $charset eq 'utf32' ? 4 : 1;
	my %strings;

	while (keys %strings < 4000)
	{
		my $length = $unit * (1 + int rand 8 / $unit);
		my $hex = join '', map { sprintf '%02X', rand() < 0.7 ? $interesting[ rand @interesting ] : rand 256 } 1 .. $length;

		$hex =~ s/^....(....)/0000$1/ if $unit == 4;
		$strings{$hex} = 1 unless pack('H*', $hex) =~ /\?/;
	}
	my @strings = sort keys %strings;
	my $hex = mysql_hex($charset, 'u');
	my $from_mysql = $my->sql("SELECT HEX(b), $hex FROM (SELECT b, CONVERT(CONVERT(b USING $charset) USING utf8mb4) u FROM (VALUES "
		  . join(', ', map { "ROW(x'$_')" } @strings) . ') s (b)) t ORDER BY b', bytes => 1);
	my $from_postgres = $pg->safe_psql("SELECT upper(encode(b, 'hex')) || E'\\t' || coalesce(" . postgres_hex('u') . ", '3F')
		FROM (SELECT b, charset_text('$charset', b) u FROM (VALUES " . join(', ', map { "('\\x$_'::bytea)" } @strings) . ') s (b)) t ORDER BY b');
	my ($all, $good) = ($codes, $characters);
	same($from_mysql, $from_postgres, "$charset, random strings");
	cmp_ok($characters - $good, '>', 100, "$charset: some of them are well-formed");
	($codes, $characters) = ($all, $good);
}

cmp_ok(scalar(keys %max_bytes), '>=', 41, 'character sets: ' . keys %max_bytes);
note("$codes codes, $characters with a character");
done_testing();
