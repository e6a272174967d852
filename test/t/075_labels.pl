# Labels of ENUM and SET, however odd and many, in every type that they can become, and as keys.
#
# Why: a label is data in the schema: it is quoted there, in another character set, cut at 63 bytes by an enum type, and its number
# changes meaning with the list. The copy brings the text, the stream the number.
# How: labels with quotes, commas, backslashes, control characters, pattern characters, other scripts; 300 and 3000 of them, a SET of 64;
# targets text, varchar, enum type and text[]; ENUM and SET as keys by which rows are changed; the label '' beside the error value.
# Asserted: exact values by both ways, rows hit by key, refused ones by name.
# Not asserted: labels in every character set (071).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use CapstanTest;
use CapstanTest::BothWays;

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start;

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan; CREATE SCHEMA l');
$pg->create_server('source', $my);

sub my_list { return join ', ', map { my $l = $_; $l =~ s/(['\\])/\\$1/g; "'$l'" } @_ }
sub pg_list { return join ', ', map { my $l = $_; $l =~ s/'/''/g; "'$l'" } @_ }
sub element { my ($l) = @_; return $l if $l !~ /["\\{},\s]|^$|^null$/i; $l =~ s/(["\\])/\\$1/g; return qq("$l") }

my @odd = ("it's", 'quo"te', 'back\slash', '\\', "new\nline", "ta\tb", '%s', '_', '?', 'größe', '中文', '{}', 'null', 'NULL ', '(x)', '  lead', 'é' x 31, 'x' x 63, "\x{1}\x{7f}", "''", '\\\\n', "\\'", 'e');
s/ +$// for @odd;
@odd = grep { lc ne 'null' || $_ eq 'null' } @odd;
my @commas = (@odd, 'a,b', ',', 'e,');
my @set = map { my $n = $_; $n <= @odd ? $odd[ $n - 1 ] : "m$n" } 1 .. 64;
my @many = map { sprintf '%s %d %sq', $_ % 2 ? 'lab\'el' : 'größe', $_, 'p' x ($_ % 40) } 1 .. 3000;
my $enum = 'ENUM(' . my_list(@commas) . ')';
my $set = 'SET(' . my_list(@set) . ')';
my $text = sub { my ($mask) = @_; return join ',', map { $set[$_] } grep { $mask & 1 << $_ } 0 .. 63 };
my $array = sub { my ($mask) = @_; return '{' . join(',', map { element($set[$_]) } grep { $mask & 1 << $_ } 0 .. 63) . '}' };
my @masks = (0, 1, 3, 2**@odd - 1, ~0, 1 << 63, 1 << 62 | 1 << 10, (map { 1 << $_ } 1 .. 22));
my $longest = length $text->(~0);
my $empty = "ENUM('a','','b')";

$pg->safe_psql('CREATE TYPE l.odd AS ENUM (' . pg_list(reverse @commas) . ', \'\'); CREATE TYPE l.few AS ENUM (\'b\', \'\', \'a\')');
my @columns = (
	(map { [ "e_$_->[0]", $enum, $_->[1], [ [ 0, '' ], map { [ $_, $commas[ $_ - 1 ] ] } 1 .. @commas ] ] } [ text => 'text' ], [ varchar => 'character varying(63)' ], [ type => 'l.odd' ]),
	[ 'e_names', $enum, 'l.odd', [ map { [ my_list($_), $_ ] } @commas ] ],
	(map { [ "s_$_->[0]", $set, $_->[1], [ map { [ sprintf('%u', $_), $text->($_) ] } @masks ] ] } [ text => 'text' ], [ varchar => "character varying($longest)" ]),
	[ 's_array', $set, 'text[]', [ map { [ sprintf('%u', $_), $array->($_) ] } @masks ] ],
	[ 's_names', $set, 'text[]', [ [ my_list(join ',', @set[ 3, 1, 0 ]), $array->(11) ], [ my_list($set[63]), $array->(1 << 63) ] ] ],
	[ 'many', 'ENUM(' . my_list(@many) . ')', 'text', [ map { [ $_, $many[ $_ - 1 ] ] } 1, 2, 255, 256, 257, 2999, 3000 ] ],
	[ 'empty', $empty, 'text', [ [ 0, '' ], [ 1, 'a' ], [ 2, '' ], [ 3, 'b' ] ] ], [ 'empty_type', $empty, 'l.few', [ [ 0, '' ], [ 1, 'a' ], [ 2, '' ], [ 3, 'b' ] ] ],
	[ 'empty_set', "SET('','a')", 'text', [ [ 0, '' ], [ 1, '' ], [ 2, 'a' ], [ 3, 'a' ] ] ],
	# a comma stands between two labels only where something stands before it
	[ 'empty_middle', "SET('a','','b')", 'text', [ [ 7, 'a,,b' ], [ 3, 'a,' ], [ 6, 'b' ], [ 2, '' ], [ 5, 'a,b' ] ] ], [ 'empty_last', "SET('a','b','') CHARACTER SET utf16", 'text', [ [ 7, 'a,b,' ], [ 4, '' ], [ 5, 'a,' ] ] ]);
my $table = CapstanTest::BothWays->new($my, $pg, 'l.labels', \@columns);
$table->fill;
$pg->safe_psql('CREATE TABLE l.labels (id int PRIMARY KEY, touched int, ' . join(', ', map { "$_->[0] $_->[2]" } @columns) . ')');

# As keys. MySQL finds a row by n; a key is moved to the next label that is free.
my %keys = (
	made_enum => [ $enum, undef, [ map { [ $_, $commas[ $_ - 1 ] ] } 1 .. @commas ] ], as_type => [ $enum, 'l.odd', [ map { [ $_, $commas[ $_ - 1 ] ] } 1 .. @commas ] ],
	made_set => [ $set, undef, [ map { [ sprintf('%u', $_), $text->($_) ] } @masks ] ], as_array => [ $set, 'text[]', [ map { [ sprintf('%u', $_), $array->($_) ] } @masks ] ],
	many_keys => [ 'ENUM(' . my_list(@many[ 0 .. 299 ]) . ')', 'varchar(70)', [ map { [ $_, $many[ $_ - 1 ] ] } 1 .. 300 ] ]);
my ($before, $after, %expected) = ("$CapstanTest::BothWays::SESSION USE l;\n", "$CapstanTest::BothWays::SESSION USE l;\n");
for my $name (sort keys %keys)
{
	my ($type, $target, $values) = @{ $keys{$name} };
	my @half = grep { $_ % 2 == 0 } 0 .. $#$values;
	$before .= "CREATE TABLE $name (k $type, n INT, v INT, PRIMARY KEY (k)); INSERT INTO $name VALUES " . join(', ', map { "($values->[$_][0], $_, 0)" } @half[ 0 .. $#half - 2 ]) . ";\n";
	$pg->safe_psql("CREATE TABLE l.$name (k $target PRIMARY KEY, n int, v int)") if defined $target;
	$expected{$name} = { map { $_ => [ $values->[$_][1], 1 ] } @half };
	$after .= "INSERT INTO $name VALUES " . join(', ', map { "($values->[$_][0], $_, 0)" } @half[ -2, -1 ]) . "; UPDATE $name SET v = 1;\n";
	for my $n (@half[ 1, 3, $#half - 1 ])
	{
		$after .= "UPDATE $name SET k = $values->[ $n + 1 ][0], v = 2 WHERE n = $n;\n";
		$expected{$name}{$n} = [ $values->[ $n + 1 ][1], 2 ];
	}
	for my $n (@half[ 0, $#half ])
	{
		$after .= "DELETE FROM $name WHERE n = $n;\n";
		delete $expected{$name}{$n};
	}
}
$my->sql($before);
start_pipeline($pg, 'labels', ['l.*']);
$table->stream;
$my->sql($after);
if (sync_pipeline($pg, 'labels'))
{
	$table->check;
}
no_surprise($pg, 'labels');
tables_equal($my, $pg, [ map { "l.$_" } 'labels', sort keys %keys ], 'labels');
for my $name (sort keys %keys)
{
	my %rows = map { $_->[0] => [ @$_[ 1, 2 ] ] } json_rows($pg, "SELECT json_build_array(n, k::text, v) FROM l.$name");
	is_deeply(\%rows, $expected{$name}, "$name: rows are hit by the key");
}
drop_pipeline($pg, 'labels');

# Refused by name: a label that an enum type cannot have or has not, '' where it could not be told.
$my->sql('CREATE DATABASE r; USE r; CREATE TABLE r1 (id INT PRIMARY KEY, e ENUM(' . my_list('x' x 64) . ")); CREATE TABLE r2 (k ENUM('a','') PRIMARY KEY); CREATE TABLE r3 (id INT PRIMARY KEY, s SET('','a')); CREATE TABLE r4 (id INT PRIMARY KEY, e ENUM('it''s', 'B'))");
$pg->safe_psql("CREATE SCHEMA r; CREATE TYPE r.x AS ENUM (" . pg_list('x' x 63) . "); CREATE TABLE r.r1 (id int PRIMARY KEY, e r.x); CREATE TABLE r.r3 (id int PRIMARY KEY, s text[]); CREATE TYPE r.b AS ENUM ('it''s', 'b'); CREATE TABLE r.r4 (id int PRIMARY KEY, e r.b)");
for my $case ([ r1 => qr/"e".*lacks the source's label "x{64}"/ ], [ r2 => qr/"k" of the primary key has the label ''/ ], [ r3 => qr/"s".*the source's label '' from no label/ ], [ r4 => qr/"e".*lacks the source's label "B"/ ])
{
	my ($name, $says) = @$case;
	my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('no', server => 'source', tables => '{r.$name}')");
	isnt($rc, 0, "$name is refused");
	like($err, $says, '... by name');
}

done_testing();
