# Names of schemas, tables and columns may be anything that MySQL takes: what is written between quotes stays what it is.
#
# Why: reserved words, dots, quotes, backslashes, format and pattern characters break somebody's SQL, and a name that is cut
# or folded makes two things one.
# How: schemas and tables of odd names, each with a column for every odd name, keys among them; copied in several ranges, streamed,
# changed by key; the statement of table_ddl; ALTER on some of them.
# Asserted: every value under its name; patterns mean what they should; a name that Postgres cannot keep is refused by name; an ALTER halts
# and names the table.
# Not asserted: servers that fold names (057).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { 'capstan.max_range_rows' => 10 });

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

sub my_name { my ($name) = @_; $name =~ s/`/``/g; return "`$name`" }
sub pg_name { my ($name) = @_; $name =~ s/"/""/g; return qq("$name") }
sub my_table { my ($t) = @_; return join '.', map { my_name($_) } @$t }
sub pg_table { my ($t) = @_; return join '.', map { pg_name($_) } @$t }
sub literal { my ($text) = @_; $text =~ s/'/''/g; return "'$text'" }

my @columns = ('select', 'table', 'user', 'null', 'default', 'a.b', '.', 'with space', '  leading', 'tick`x', '``', 'quo"te', '""', "it's", 'back\slash', 'end\\', 'Größe', 'UPPER', '日本語', '%d %s %n', '$1', '?', '*', ':v', '@v', 'x;y',
	'--', '/* c */', "new\nline", "ta\tb", '0', '1e5', '-1', '{a,b}', '(', 'k' x 63, 'é' x 31, "\x{1}", 'oid', 'excluded', 'ﷺ', "zero\x{200b}width");
my @tables = (
	[ 'my.db', 'order' ], [ 'my.db', 'a.b' ], [ 'my.db', '.' ], [ 'sch"ema \'x', 'tick`quo"te' ], [ 'sch"ema \'x', 'back\slash' ], [ 'select', 'select' ], [ 'select', 'UPPER' ], [ 'select', 'upper' ], [ 'Größe', '日本語' ],
	[ 'public', 'with space' ], [ 'end\\', 'end\\' ], [ '$user', '%s {} ?*' ], [ 's' x 63, 't' x 63 ], [ "new\nline", "it's;--" ]);

# Row r of table t has in column c the number 10000 t + 100 r + c; the key are two columns, other ones in each table.
my (@ddl, @fill, @stream, %made);
for my $t (0 .. $#tables)
{
	my $name = my_table($tables[$t]);
	my @key = ($columns[ 3 * $t % @columns ], $columns[ (3 * $t + 1) % @columns ]);
	my $row = sub { my ($r) = @_; return '(' . join(', ', map { 10000 * $t + 100 * $r + $_ } 0 .. $#columns) . ')' };
	my $is = sub { my ($r) = @_; return join ' AND ', map { my_name($_) . ' = ' . (10000 * $t + 100 * $r + (grep { $columns[$_] eq $key[0] } 0 .. $#columns)[0] + ($_ eq $key[1] ? 1 : 0)) } @key };

	push @ddl, "CREATE DATABASE IF NOT EXISTS " . my_name($tables[$t][0]) unless $made{ $tables[$t][0] }++;
	push @ddl, "CREATE TABLE $name (" . join(', ', map { my_name($_) . ' INT NOT NULL' } @columns) . ', PRIMARY KEY (' . join(', ', map { my_name($_) } reverse @key) . '))';
	push @fill, "INSERT INTO $name VALUES " . join(', ', map { $row->($_) } 1 .. 30);
	push @stream, "INSERT INTO $name VALUES " . $row->(31), "UPDATE $name SET " . join(', ', map { my_name($_) . ' = -1' } grep { my $c = $_; !grep { $_ eq $c } @key } @columns) . ' WHERE ' . $is->(2),
		"DELETE FROM $name WHERE " . $is->(3), "UPDATE $name SET " . my_name($key[0]) . ' = -7 WHERE ' . $is->(4);
}
$my->sql(join ";\n", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", @ddl, @fill);

# What each side has, as JSON: rows in the order of the first column and the key.
sub rows_of
{
	my ($side, $table) = @_;

	return [ map { join ' ', map { $_ // 'NULL' } @$_ } sort { "@$a" cmp "@$b" } map { my $row = $_; [ @$row{@columns} ] }
		  $side eq 'mysql' ? map { my $row = JSON::PP->new->utf8(0)->decode($_->[0]); my %row; @row{@columns} = @$row; \%row } $my->query('SELECT JSON_ARRAY(' . join(', ', map { my_name($_) } @columns) . ') FROM ' . my_table($table))
		: json_rows($pg, 'SELECT row_to_json(t) FROM ' . pg_table($table) . ' t') ];
}

# Patterns: a dot in the name of a schema is written as ?.
start_pipeline($pg, 'odd', [ 'my?db.*', "sch\"ema 'x.*", 'select.select', 'select.?PPER', 'select.upper', 'Größe.日??', 'public.with space', 'end\\.end\\', '$user.%s {} ?*', 's*.t*', "new\nline.it's;--" ]);
is($pg->value('SELECT count(*) FROM capstan.table_status'), scalar(@tables), 'every pattern means its tables');
$my->sql(join ";\n", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", @stream);
sync_pipeline($pg, 'odd');
no_surprise($pg, 'odd');
cmp_ok($pg->value('SELECT min(seq) FROM capstan.copied_range'), '>', 1, 'copied in several ranges');
for my $table (@tables)
{
	(my $name = join '.', @$table) =~ s/\n/\\n/g;
	my $mysql = rows_of('mysql', $table);
	is(scalar(@$mysql), 30, "$name: the source's rows");
	is_deeply(rows_of('postgres', $table), $mysql, "$name: every value is under its name");

	# The statement of table_ddl makes the same table.
	my $columns = 'SELECT string_agg(format(\'%I %s %s\', attname, attnum, attnotnull), \',\' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 AND attrelid = ' . literal(pg_table($table)) . '::regclass';
	my $ddl = $pg->safe_psql("SELECT replace(encode(convert_to(capstan.table_ddl('source', " . literal(join '.', @$table) . "), 'UTF8'), 'base64'), E'\\n', '')");
	is($pg->safe_psql("BEGIN; CREATE TEMP TABLE was AS $columns; DROP TABLE " . pg_table($table) . "; DO \$do\$ BEGIN EXECUTE convert_from(decode('$ddl', 'base64'), 'UTF8'); END \$do\$; SELECT (TABLE was) = ($columns); ROLLBACK"), 't', "$name: table_ddl makes it");
}
drop_pipeline($pg, 'odd');

# `my.db`.`a.b` and `my`.`db.a.b`
$my->sql('CREATE DATABASE my; CREATE TABLE my.`db.a.b` (id INT PRIMARY KEY)');
$pg->safe_psql("SELECT capstan.create_pipeline('two', server => 'source', tables => '{my?db.a.b,my.db.a.b}', snapshot => 'never')");
for my $call ("resync_table('two', 'my.db.a.b', 'which one?')", "remove_table('two', 'my.db.a.b')")
{
	like(($pg->psql("SELECT capstan.$call"))[2], qr/"my\.db\.a\.b" is the name of 2 tables of the pipeline/, 'a name of two tables is not taken for one of them');
}
drop_pipeline($pg, 'two');

# An ALTER halts, and names its table.
for my $t (1, 3, 4, 9)
{
	my $table = $tables[$t];
	(my $pattern = $table->[0]) =~ s/\./?/;
	start_pipeline($pg, 'alter', ["$pattern.$table->[1]"], truncate_target => 'true');
	$my->sql("ALTER TABLE " . my_table($table) . ' ADD more INT');
	my $incident = expect_halt($pg, 'alter', 'ddl_on_captured_table');
	is($incident->{source_table}, "$table->[0].$table->[1]", '... by name');
	drop_pipeline($pg, 'alter');
}

# What Postgres cannot keep, or keeps for itself.
my ($long, $wide) = ('d' x 62, 'é' x 32);
$my->sql("CREATE DATABASE ${long}aa; CREATE TABLE ${long}aa.t (id INT PRIMARY KEY); CREATE DATABASE ${long}ab; CREATE TABLE ${long}ab.t (id INT PRIMARY KEY);
	CREATE DATABASE r; CREATE TABLE r.$wide (id INT PRIMARY KEY); CREATE TABLE r.c (id INT PRIMARY KEY, ${wide} INT); CREATE TABLE r.tableoid (tableoid INT PRIMARY KEY);
	CREATE DATABASE pg_odd; CREATE TABLE pg_odd.t (id INT PRIMARY KEY); CREATE DATABASE capstan; CREATE TABLE capstan.pipeline (id INT PRIMARY KEY)");
for my $case ([ "${long}a?.t", qr/${long}aa\.t and ${long}ab\.t are both/ ], [ "${long}aa.t", qr/schema "${long}aa" is longer than 63 bytes/ ], [ "r.$wide", qr/table "$wide" is longer than 63 bytes/ ],
	[ 'r.c', qr/column "$wide" is longer than 63 bytes/ ], [ 'r.tableoid', qr/"tableoid" has the name of a system column/ ], [ 'pg_odd.t', qr/schema name pg_odd is reserved/ ], [ 'capstan.pipeline', qr/schema name capstan is reserved/ ])
{
	my ($tables, $says) = @$case;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('no', server => 'source', tables => '{$tables}')");
	isnt($rc, 0, "$tables is refused");
	like($err, $says, '... by name');
}

done_testing();
