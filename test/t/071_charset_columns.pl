# Columns of every character set have one value, by the copy and by the stream; so have ENUM labels and SET members; keys
# in these sets bound ranges.
#
# Why: the character set is per column; labels come by three ways (schema, table map, row) in two character sets; a
# bound that the source reads otherwise than it was meant loses or repeats rows.
# How: two tables with a column of each set and type; a table for each set with all its characters;
# labels with quotes, commas, backslashes, 300 of them, 64 members; for each set of several
# bytes, tables whose key is text of that set, copied in ranges of 60 rows, then changed.
# Asserted: exact text, equality with the source; several ranges; a value without a character halts by name; so does the
# second code of a character in a key.
# Not asserted: each code by itself (070_charset_codes.pl).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_range_rows' => 60 });

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

my %words = (
	armscii8 => 'Հայերեն', ascii => 'plain', big5 => '圖形', binary => 'plain', cp1250 => 'čďž€', cp1251 => 'Привіт', cp1256 => 'سلام', cp1257 => 'ąčęž',
	cp850 => 'éß░', cp852 => 'čďž', cp866 => 'Привет', cp932 => '日本①ｶ', dec8 => 'éŒ', eucjpms => '日本①ｶ', euckr => '한글똠', gb18030 => '中ḿ😀é', gb2312 => '中文',
	gbk => '中文丂', geostd8 => 'ქართული', greek => 'αβγ', hebrew => 'שלום', hp8 => 'éß', keybcs2 => 'čďž', koi8r => 'Привет', koi8u => 'Їжак', latin1 => 'é€', latin2 => 'čďž',
	latin5 => 'ğış', latin7 => 'ąčęž', macce => 'čďž', macroman => 'éπ', sjis => '日本ｶ', swe7 => 'ÅÄÖé', tis620 => 'ภาษาไทย', ucs2 => 'é中', ujis => '日本丂ｶ', utf16 => 'é中😀',
	utf16le => 'é中😀', utf32 => 'é中😀', utf8mb3 => 'é中', utf8mb4 => 'é中😀');
my %max_bytes = map { $_->[0] => $_->[1] } $my->query('SELECT character_set_name, maxlen FROM information_schema.character_sets');
my @charsets = sort keys %max_bytes;

is_deeply([ sort keys %words ], \@charsets, 'a word for each character set of the source');

# Half of the sets each, since a function of Postgres takes 100 arguments.
my (@plain, @labels);
for my $charset (@charsets)
{
	my $half = $charset lt 'h' ? 0 : 1;
	my $word = $words{$charset};
	my $type = $charset eq 'binary' ? 'bytea' : undef;
	my @values = map { [ "'$_'", $type ? '\x' . unpack('H*', $_) : $_ ] } $word, 'a', "$word $word", '';

	push @{ $plain[$half] }, [ "v_$charset", "VARCHAR(20) CHARACTER SET $charset", $type // 'character varying(20)', \@values ];
	push @{ $plain[$half] }, [ "c_$charset", "CHAR(15) CHARACTER SET $charset", 'character varying(15)', [ $values[0], $values[1], [ "'$word  '", $word ] ] ] unless $type;
	push @{ $plain[$half] }, [ "t_$charset", "TEXT CHARACTER SET $charset", $type // 'text', [ @values, [ "REPEAT('$word', 500)", $type ? '\x' . unpack('H*', $word x 500) : $word x 500 ] ] ];
	push @{ $labels[$half] }, [ "e_$charset", "ENUM('a', '$word', '') CHARACTER SET $charset", 'text', [ "'$word'", "'a'", "''", [ '0', '' ] ] ];
	push @{ $labels[$half] }, [ "s_$charset", "SET('a', '$word', 'z') CHARACTER SET $charset", 'text', [ [ '7', "a,$word,z" ], "'$word'", "''", [ '5', 'a,z' ] ] ];
}

# Labels with what is special somewhere; \x{2019} is a quote in latin1.
my @odd = (q(it's), q("quoted"), q(back\\slash), q(comma,), q(a\\'b), q(tab	), q( lead), q(%), q(;), q(??), q(é), q(ü), q(`));
my $odd = join ', ', map { my $l = $_; $l =~ s/(['\\])/\\$1/g; "'$l'" } @odd;
my @odd_values = map { [ $_ + 1, $odd[$_] ] } 0 .. $#odd;
my @members = grep { !/,/ } @odd;
my $members = join ', ', map { my $l = $_; $l =~ s/(['\\])/\\$1/g; "'$l'" } @members;
my $all_members = join ',', @members;
my @many = map { "é中 label $_" } 1 .. 300;
my @sixty_four = map { "mü$_" } 1 .. 64;
my $list = sub { join ', ', map { "'$_'" } @_ };
my @labelled = (
	(map { [ "odd_$_", "ENUM($odd) CHARACTER SET $_", 'text', \@odd_values ] } qw(latin1 utf8mb4 utf16 cp850 gb18030)),
	(map { [ "mem_$_", "SET($members) CHARACTER SET $_", 'text', [ [ 2**@members - 1, $all_members ], [ 3, "$members[0],$members[1]" ], [ 1, $members[0] ] ] ] } qw(latin1 utf8mb4 ucs2 latin2)),
	(map { [ "cjk_$_", "ENUM('中文', 'x中''文', '中\\\\', '中,文') CHARACTER SET $_", 'text', [ [ 1, '中文' ], [ 2, q(x中'文) ], [ 3, '中\\' ], [ 4, '中,文' ] ] ] } qw(gbk big5 sjis ujis gb2312 utf16 utf8mb3 utf32)),
	[ 'many', 'ENUM(' . $list->(@many) . ') CHARACTER SET gb18030', 'text', [ map { [ $_, $many[ $_ - 1 ] ] } 1, 255, 256, 257, 300 ] ],
	[ 'set64', 'SET(' . $list->(@sixty_four) . ') CHARACTER SET latin1', 'text',
		[ [ '18446744073709551615', join(',', @sixty_four) ], [ '9223372036854775808', 'mü64' ], [ '9223372036854775809', 'mü1,mü64' ], [ '1', 'mü1' ] ] ]);

my @tables = (
	(map { CapstanTest::BothWays->new($my, $pg, "v.plain$_", $plain[$_]), CapstanTest::BothWays->new($my, $pg, "v.labels$_", $labels[$_]) } 0, 1),
	CapstanTest::BothWays->new($my, $pg, 'v.labelled', \@labelled));
$_->fill for @tables;

# All characters of a set, 256 codes a row; what has none is left out.
my @all = ('a.all_bytes');
my $fill = "SET SESSION sql_mode = '', group_concat_max_len = 1000000; CREATE TABLE a.all_bytes (id INT PRIMARY KEY, t VARCHAR(9)); INSERT INTO a.all_bytes VALUES (0, 'x'), (1, 'y');\n";
$my->sql('CREATE DATABASE a; CREATE TABLE a.n (n INT PRIMARY KEY);
	INSERT INTO a.n WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 255) SELECT n FROM s;
	SET group_concat_max_len = 1000000;
	CREATE TABLE a.code (k INT, b VARBINARY(4), PRIMARY KEY (k, b));
	INSERT INTO a.code SELECT a.n, CHAR(a.n, b.n) FROM a.n a, a.n b WHERE a.n > 127;
	CREATE TABLE a.code3 LIKE a.code;
	INSERT INTO a.code3 SELECT a.n, CHAR(143, a.n, b.n) FROM a.n a, a.n b WHERE a.n > 160;
	CREATE TABLE a.point LIKE a.code;
	INSERT INTO a.point SELECT a.n, CONVERT(CONVERT(CHAR(0, CASE WHEN a.n > 250 THEN 1 + (a.n - 250) * 3 ELSE 0 END, a.n, b.n) USING utf32) USING utf8mb4) FROM a.n a, a.n b WHERE NOT a.n BETWEEN 0xd8 AND 0xdf');
for my $charset (grep { $_ ne 'binary' } @charsets)
{
	my $unicode = $charset =~ /^(?:utf|ucs)/;
	my $source = $max_bytes{$charset} == 1 ? '(SELECT n DIV 128 k, CHAR(n) b FROM a.n) s' : $unicode ? 'a.point s'
	  : $charset =~ /^(?:ujis|eucjpms)$/ ? '(SELECT * FROM a.code UNION ALL SELECT 1000 + k, b FROM a.code3) s' : 'a.code s';
	# Those that come back as one character, and U+0000 not.
	my $from = $unicode ? "CONVERT(CONVERT(b USING utf8mb4) USING $charset)" : "CONVERT(b USING $charset)";
	my $good = "CHAR_LENGTH(u) = 1 AND BINARY CONVERT(u USING utf8mb4) NOT IN (x'00', x'EFBFBD') AND (BINARY CONVERT(u USING utf8mb4) <> '?' OR b = '?')";

	my $rows = "SELECT k, CONVERT(GROUP_CONCAT(BINARY u ORDER BY b SEPARATOR '') USING $charset) t FROM (SELECT k, b, $from u FROM $source) t WHERE $good GROUP BY k";

	# All sets of one byte are columns of one table.
	if ($max_bytes{$charset} == 1)
	{
		$fill .= "CREATE TABLE a.one (k INT, t TEXT CHARACTER SET $charset); INSERT INTO a.one $rows;
			ALTER TABLE a.all_bytes ADD t_$charset TEXT CHARACTER SET $charset; UPDATE a.all_bytes, a.one SET t_$charset = one.t WHERE k = id; DROP TABLE a.one;\n";
		next;
	}
	$fill .= "CREATE TABLE a.all_$charset (id INT PRIMARY KEY, t TEXT CHARACTER SET $charset); INSERT INTO a.all_$charset $rows;\n";
	push @all, "a.all_$charset";
}
$my->sql($fill);

# Keys: letters of the set, each with a number before it and one without.
my @keys;
for my $charset (grep { $max_bytes{$_} > 1 } @charsets)
{
	my $unicode = $charset =~ /^(?:utf|ucs)/;
	my $from = $unicode ? "CONVERT(CONVERT(b USING utf8mb4) USING $charset)" : "CONVERT(b USING $charset)";
	my ($default) = $my->value("SELECT default_collate_name FROM information_schema.character_sets WHERE character_set_name = '$charset'");

	for my $collation ($default, "${charset}_bin")
	{
		my $table = "k.$collation";

		$my->sql("SET SESSION sql_mode = ''; CREATE DATABASE IF NOT EXISTS k;
			CREATE TABLE $table (k VARCHAR(6) CHARACTER SET $charset COLLATE $collation PRIMARY KEY, v INT);
			INSERT IGNORE INTO $table SELECT CONCAT(CASE WHEN k % 2 THEN '' ELSE k END, u, CASE WHEN k % 3 THEN '' ELSE 'y' END), k FROM (SELECT k, b, $from u FROM "
			  . ($unicode ? 'a.point' : 'a.code') . " WHERE (CRC32(b) >> 8) % 90 = 0) t
			WHERE CHAR_LENGTH(u) = 1 AND BINARY CONVERT(u USING utf8mb4) NOT IN (x'00', x'EFBFBD', '?') AND BINARY CONVERT(CONVERT(u USING utf8mb4) USING $charset) = BINARY u;
			INSERT IGNORE INTO $table VALUES ('', 1), ('a', 1), ('B', 1), ('Z', 1), ('~', 1), ('a\\'b', 1);");
		push @keys, $table;
	}
}

# The source's own log tells the queries, and with them the bounds.
$my->sql("SET GLOBAL log_output = 'TABLE', general_log = ON");
my $t03 = "'中文', '圖形', '日本', 'é€', 'Ω', 'é'";
$my->sql("CREATE TABLE v.t03 (id INT PRIMARY KEY, g VARCHAR(50) CHARSET gbk, b VARCHAR(50) CHARSET big5, s VARCHAR(50) CHARSET sjis,
	u VARCHAR(50) CHARSET utf16, x VARCHAR(50) CHARSET ucs2, e ENUM('é','z') CHARSET latin1); INSERT INTO v.t03 VALUES (1, $t03)");
start_pipeline($pg, 'charsets', [ (map { $_->name } @tables), 'v.t03', @all, @keys ], timeout => '180 s');
$my->sql('SET GLOBAL general_log = OFF');
for my $table (@keys)
{
	my ($collation) = $table =~ /^k\.(.*)/;
	cmp_ok($my->value("SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Prepare' AND argument LIKE 'SELECT%FROM `k`.`$collation`%COLLATE $collation%'"),
		'>=', 2, "$table: copied in ranges");
}
$_->stream for @tables;
my $changes = '';
for my $table (@all)
{
	my @columns = split /,/, $my->value("SELECT GROUP_CONCAT(column_name) FROM information_schema.columns WHERE CONCAT(table_schema, '.', table_name) = '$table' AND column_name <> 'id'");
	my $columns = join ', ', @columns;
	$changes .= "INSERT INTO $table (id, $columns) SELECT id + 5000, $columns FROM $table; UPDATE $table SET " . join(', ', map { "$_ = CONCAT($_, $_)" } grep { /^t/ } @columns) . " WHERE id < 5000;\n";
}
# Key changes, deletes, and rows between the ranges' bounds.
$changes .= "UPDATE $_ SET v = v + 1000 WHERE v % 3 = 0; DELETE FROM $_ WHERE v % 5 = 1; UPDATE IGNORE $_ SET k = CONCAT('x', LEFT(k, 5)) WHERE v % 7 = 2;
	INSERT IGNORE INTO $_ SELECT CONCAT(LEFT(k, 5), 'm'), 7 FROM $_ WHERE v % 11 = 3;\n" for @keys;
$my->sql("$changes INSERT INTO v.t03 VALUES (2, $t03)");
if (sync_pipeline($pg, 'charsets', '180 s'))
{
	$_->check for @tables;
}
tables_equal($my, $pg, [ map { $_->name } @tables ], 'columns and labels');
is($pg->value("SELECT string_agg(concat_ws(' ', g, b, s, u, x, e), '; ' ORDER BY id) FROM v.t03"), join('; ', ('中文 圖形 日本 é€ Ω é') x 2), 'T03');
tables_equal($my, $pg, \@all, 'all characters');
tables_equal($my, $pg, \@keys, 'keys');
cmp_ok($my->value("SELECT COUNT(*) FROM $_"), '>', 60, "$_: rows") for @keys;
no_surprise($pg, 'charsets');
drop_pipeline($pg, 'charsets');

# What has no character, and what could be two keys in one.
$my->sql("CREATE DATABASE h; USE h;
	CREATE TABLE none (id INT PRIMARY KEY, t VARCHAR(20) CHARACTER SET gbk); INSERT INTO none VALUES (1, '中');
	CREATE TABLE replaced (id INT PRIMARY KEY, t VARCHAR(20) CHARACTER SET tis620); INSERT INTO replaced VALUES (1, 'อ');
	CREATE TABLE two (k VARCHAR(20) CHARACTER SET cp932 COLLATE cp932_bin PRIMARY KEY, t VARCHAR(20) CHARACTER SET cp932); INSERT INTO two VALUES (_cp932 x'81be', _cp932 x'879c')");
for ([ 'none', "(2, _gbk x'73616665a2e3')", qr/Column "t".*no character/ ], [ 'replaced', "(2, _tis620 x'cda0')", qr/Column "t".*no character/ ],
	[ 'two', "(_cp932 x'879c', '')", qr/Column "k".*second of its two codes/ ])
{
	my ($table, $row, $says) = @$_;

	start_pipeline($pg, 'h', ["h.$table"], truncate_target => 'true');
	$my->sql("SET sql_mode = ''; INSERT INTO h.$table VALUES $row");
	my $incident = expect_halt($pg, 'h', 'value_not_convertible', $says, qr/h\.$table/);
	unlike(join(' ', map { $_ // '' } values %$incident), qr/safe|อ/, 'no value in the incident');
	is($pg->value("SELECT count(*) FROM h.$table"), 1, "$table: what came before is there");
	drop_pipeline($pg, 'h');
	start_pipeline($pg, 'h', ["h.$table"], truncate_target => 'true', timeout => '');
	expect_halt($pg, 'h', 'value_not_convertible', $says, qr/h\.$table/);
	drop_pipeline($pg, 'h');
}

# Labels that the source's schema shows alike, changed behind the binary log's back: each row has those of its own table map.
$my->sql("CREATE TABLE h.label (id INT PRIMARY KEY, e ENUM('😀', 'x'), s SET('😀', 'x')); INSERT INTO h.label VALUES (1, 1, 3)");
start_pipeline($pg, 'h', ['h.label']);
$my->sql('INSERT INTO h.label VALUES (2, 1, 3)');
sync_pipeline($pg, 'h');
$my->sql("SET sql_log_bin = 0; DROP TABLE h.label; CREATE TABLE h.label (id INT PRIMARY KEY, e ENUM('😁', 'x'), s SET('😁', 'x')); SET sql_log_bin = 1; INSERT INTO h.label VALUES (3, 1, 3)");
sync_pipeline($pg, 'h');
is($pg->value("SELECT string_agg(e || ' ' || s, '; ' ORDER BY id) FROM h.label"), '😀 😀,x; 😀 😀,x; 😁 😁,x', 'labels of the table map at that position');
drop_pipeline($pg, 'h');

done_testing();
