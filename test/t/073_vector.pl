# VECTOR: vector of pgvector if the target has it, else real[]; every number bit by bit.
#
# Why: the newest type of MySQL's; client libraries do not know it; its numbers are floats, which text forms round.
# How: the same values by both ways, before and after CREATE EXTENSION vector; shorter vectors than VECTOR(n) says, and some without any number.
# Asserted: types of the columns made; vectors beside text and other types; values to the bit; a target of another length halts by name.
# Not asserted: indexes. NaN and infinities: MySQL refuses them.

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

plan(skip_all => 'the MySQL under test has no VECTOR (it came with 9.0)') if $my->value('SELECT VERSION()') =~ /^8\./;
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# As real[] prints them, and as pgvector does, in other brackets.
my $long = join ',', map { $_ / 4 } 1 .. 2048;
my @columns = (
	[ 'v', 'VECTOR(3)', [ "TO_VECTOR('[1,2.5,-3]')", '1,2.5,-3' ], [ "TO_VECTOR('[1]')", '1' ], [ "TO_VECTOR('[0.1,1e-10,3.4028235e38]')", '0.1,1e-10,3.4028235e+38' ],
		[ "x'010000000000008000008080'", '1e-45,-0,-1.1754944e-38' ] ],
	[ 'n', 'VECTOR NOT NULL', [ "TO_VECTOR('[$long]')", $long ], [ "TO_VECTOR('[7]')", '7' ] ],
	[ 'l', 'VECTOR(16383)', [ "TO_VECTOR('[16777217]')", '1.6777216e+07' ] ]);

sub replicate
{
	my ($name, $type, $open, $close) = @_;
	my $table = CapstanTest::BothWays->new($my, $pg, $name,
		[ map { my ($column, $mysql_type, @values) = @$_; [ $column, $mysql_type, $type, [ map { [ $_->[0], "$open$_->[1]$close" ] } @values ] ] } @columns ]);

	$table->fill;
	start_pipeline($pg, 'vector', [$name]);
	$table->stream;
	$table->check if sync_pipeline($pg, 'vector');
	tables_equal($my, $pg, [$name], $name);
	no_surprise($pg, 'vector');
	drop_pipeline($pg, 'vector');
}

# V01, too.
replicate('v.as_array', 'real[]', '{', '}');
$my->sql('CREATE DATABASE s; CREATE TABLE s.v01 (id INT PRIMARY KEY, v VECTOR(3)); INSERT INTO s.v01 VALUES (1, TO_VECTOR(\'[1,2.5,-3]\'))');
start_pipeline($pg, 'vector', ['s.v01']);
is($pg->value('SELECT v FROM s.v01'), '{1,2.5,-3}', 'V01');
drop_pipeline($pg, 'vector');

# What a NOT NULL column gives the rows that are there already, and what an update makes of them.
my $without = 'USE s; SET sql_mode = \'\'; CREATE TABLE %s (id INT PRIMARY KEY, n INT); INSERT INTO %1$s VALUES (1, 1), (2, 2); ALTER TABLE %1$s ADD v VECTOR(3) NOT NULL';
$my->sql(sprintf $without, 'bare');
start_pipeline($pg, 'vector', ['s.bare']);
$my->sql("USE s; UPDATE bare SET n = 3 WHERE id = 2");
sync_pipeline($pg, 'vector');
tables_equal($my, $pg, ['s.bare'], 'vectors without numbers');
is($pg->value("SELECT string_agg(v::text, ' ') FROM s.bare"), '{} {}', '... are empty arrays');
drop_pipeline($pg, 'vector');

# Beside text of one and of several character sets: the table map counts vectors where it tells those.
my ($v, $text) = ("TO_VECTOR('[1,2.5,-3]')", "'é€'");
my @beside = (
	CapstanTest::BothWays->new($my, $pg, 'v.beside', [ [ 'v', 'VECTOR(3)', 'real[]', [ [ $v, '{1,2.5,-3}' ] ] ], [ 't', 'VARCHAR(5)', 'character varying(5)', [$text] ], [ 'b', 'BLOB', 'bytea', [ [ "x'00'", '\x00' ] ] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.among', [
		[ 'l', 'VARCHAR(5) CHARACTER SET latin1', 'character varying(5)', [$text] ], [ 'v', 'VECTOR(3)', 'real[]', [ [ $v, '{1,2.5,-3}' ] ] ], [ 'u', 'TEXT CHARACTER SET utf8mb4', 'text', [$text] ],
		[ 'g', 'GEOMETRY', 'bytea', [ [ "ST_GeomFromText('POINT(1 2)')", '\x000000000101000000000000000000f03f0000000000000040' ] ] ], [ 'w', 'VECTOR(2)', 'real[]', [ [ "TO_VECTOR('[7]')", '{7}' ] ] ],
		[ 'j', 'JSON', 'jsonb', [ [ "'[1]'", '[1]' ] ] ], [ 'k', 'CHAR(5) CHARACTER SET gbk', 'character varying(5)', ["'中文'"] ], [ 'b', 'VARBINARY(5)', 'bytea', [ [ "x'00'", '\x00' ] ] ],
		[ 'e', "ENUM('é') CHARACTER SET latin1", 'text', ["'é'"] ] ]),
	CapstanTest::BothWays->new($my, $pg, 'v.most', [ [ 'v', 'VECTOR(3)', 'real[]', [ [ $v, '{1,2.5,-3}' ] ] ], (map { [ "t$_", 'VARCHAR(5)' . ($_ == 3 ? ' CHARACTER SET latin1' : ''), 'character varying(5)', [$text] ] } 1 .. 9) ]));
$_->fill for @beside;
start_pipeline($pg, 'beside', [ map { $_->name } @beside ]);
$_->stream for @beside;
if (sync_pipeline($pg, 'beside'))
{
	$_->check for @beside;
}
drop_pipeline($pg, 'beside');

unless ($pg->value("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"))
{
	diag('the Postgres under test has no pgvector (Debian has postgresql-NN-pgvector from 17 on): only real[] was tested');
	done_testing();
	exit;
}

$pg->safe_psql('CREATE SCHEMA ai; CREATE EXTENSION vector SCHEMA ai; ALTER DATABASE postgres SET search_path = public, ai');
replicate('v.as_vector', 'vector', '[', ']');
$pg->safe_psql('CREATE TABLE s.two (id int PRIMARY KEY, v vector(3))');
$my->sql("USE s; CREATE TABLE two (id INT PRIMARY KEY, v VECTOR(3)); INSERT INTO two VALUES (1, TO_VECTOR('[1,2,3]'))");
start_pipeline($pg, 'vector', [qw(s.v01 s.two)], truncate_target => 'true');
$my->sql("INSERT INTO s.v01 VALUES (2, TO_VECTOR('[4]')); INSERT INTO s.two VALUES (2, TO_VECTOR('[1,2]'))");
expect_halt($pg, 'vector', 'value_not_convertible', qr/Column "v".*SQLSTATE/, qr/s\.two/);
is($pg->value("SELECT string_agg(v::text, ' ' ORDER BY id) FROM s.v01"), '{1,2.5,-3} {4}', 'real[] stays accepted');
is($pg->value("SELECT string_agg(v::text, ' ' ORDER BY id) FROM s.two"), '[1,2,3]', 'vector(3) is accepted, each value is checked');
drop_pipeline($pg, 'vector');
$my->sql(sprintf $without, 'numberless');
start_pipeline($pg, 'vector', ['s.numberless'], timeout => 0);
expect_halt($pg, 'vector', 'value_not_convertible', qr/Column "v".*without numbers/, qr/s\.numberless/);
drop_pipeline($pg, 'vector');

done_testing();
