# Columns that the source fills, hides or describes: generated, invisible, with defaults, AUTO_INCREMENT, with comments.
#
# Why: a generated column in the middle moved all behind it, SELECT * lacks what is invisible, and what a column means stands in its comment.
# How: tables in which such columns stand first, in the middle, last and in the key, by both ways; targets made by capstan and by hand; comments
# of all kinds.
# Asserted: contents, equality with the source; comments of tables that capstan makes, and of no others; table_ddl shows them.
# Not asserted: defaults and generation on the target, which are not carried over (054 has targets that generate).

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
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# name => [ definition, INSERT of id, UPDATE by id ], %d is the id.
my %tables = (
	first => [ 'v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED, id INT PRIMARY KEY, a INT', '(id, a) VALUES (%1$d, 10)', 'a = 11' ],
	middle => [ 'id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, b VARCHAR(10), s VARCHAR(20) AS (CONCAT(b, a)) STORED, z INT', '(id, a, b, z) VALUES (%1$d, 10, \'é\', 99)', 'a = 11, z = 98' ],
	last_one => [ 'a INT, id INT PRIMARY KEY, v INT AS (a + 1) VIRTUAL UNIQUE', '(id, a) VALUES (%1$d, %1$d)', 'a = -id' ],
	in_key => [ 'v INT AS (id * 2) STORED, b VARCHAR(10), id INT, PRIMARY KEY (v, b)', '(id, b) VALUES (%1$d, \'x\')', 'b = \'y\'' ],
	moved_key => [ 'id INT, a INT, k BIGINT UNSIGNED AS (id + a) STORED, z INT, PRIMARY KEY (k)', '(id, a, z) VALUES (%1$d, 1000, 5)', 'a = a + 5000' ],
	of_json => [ "id INT PRIMARY KEY, j JSON, k VARCHAR(20) AS (j ->> '\$.k') VIRTUAL, n DECIMAL(10,2) AS (j -> '\$.n') STORED, KEY (k), KEY ((CAST(j -> '\$.tags' AS CHAR(10) ARRAY)))", '(id, j) VALUES (%1$d, \'{"k": "x", "n": 1.50, "tags": ["a", "b"]}\')', 'j = \'{"k": "y"}\'' ],
	expression_key => [ 'id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY ((a * 2), (b + id)), KEY ((a + b))', '(id, a, b) VALUES (%1$d, %1$d, 1)', 'b = 2' ],
	hidden => [ 'a INT INVISIBLE DEFAULT 5, id INT PRIMARY KEY, b INT INVISIBLE, c INT, d INT AS (c + 1) VIRTUAL INVISIBLE', '(id, c) VALUES (%1$d, 1)', 'a = 6, b = 7, c = 8' ],
	hidden_key => [ 'a INT, id INT INVISIBLE AUTO_INCREMENT PRIMARY KEY, b INT', '(id, a, b) VALUES (%1$d, 1, 2)', 'b = 3' ],
	defaults => [ "id INT PRIMARY KEY, a INT NOT NULL DEFAULT 7, u CHAR(36) DEFAULT (UUID()), t TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), e ENUM('x','y') NOT NULL DEFAULT 'y', b BIT(3) DEFAULT b'101', j JSON DEFAULT (JSON_ARRAY(1.0)), g POINT SRID 4326 DEFAULT (ST_SRID(POINT(1, 2), 4326)), c INT CHECK (c > 0)",
		'(id) VALUES (%1$d)', 'a = 8' ],
	counter => [ 'n BIGINT UNSIGNED AUTO_INCREMENT UNIQUE, id INT PRIMARY KEY', '(id) VALUES (%1$d)', 'id = id + 50' ]);
my (@ddl, @fill, @stream);
for my $name (sort keys %tables)
{
	my ($columns, $insert, $update) = @{ $tables{$name} };
	push @ddl, "CREATE TABLE $name ($columns)";
	push @fill, map { sprintf "INSERT INTO $name $insert", $_ } 1 .. 4;
	push @stream, (map { sprintf "INSERT INTO $name $insert", $_ } 5 .. 8), (map { "UPDATE $name SET $update WHERE id = $_" } 1, 5), (map { "DELETE FROM $name WHERE id = $_" } 2, 6), "UPDATE $name SET id = id + 100 WHERE id IN (3, 7)";
}
$my->sql(join ";\n", 'CREATE DATABASE c; USE c; SET sql_generate_invisible_primary_key = ON; CREATE TABLE gipk (a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED INVISIBLE)', 'INSERT INTO gipk (a) VALUES (1), (1), (NULL)', @ddl, @fill);
start_pipeline($pg, 'columns', ['c.*']);
$my->sql(join ";\n", 'USE c', @stream, 'INSERT INTO gipk (a) VALUES (1), (2)', 'UPDATE gipk SET a = 3 WHERE a IS NULL', 'DELETE FROM gipk WHERE a = 1 LIMIT 1');
sync_pipeline($pg, 'columns');
no_surprise($pg, 'columns');
tables_equal($my, $pg, ['c.*'], 'every kind of column');

# Said literally, for those that are known from elsewhere.
is($pg->value("SELECT string_agg(concat_ws(',', id, a, v, b, s, z), ' ' ORDER BY id) FROM c.middle WHERE id IN (1, 4, 5)"), '1,11,12,é,é11,98 4,10,11,é,é10,99 5,11,12,é,é11,98', 'nothing is moved by generated columns');
is($pg->value("SELECT string_agg(concat_ws(',', my_row_id, coalesce(a::text, 'NULL'), v, s), ' ' ORDER BY my_row_id) FROM c.gipk"), '2,1,2,2 3,3,4,6 4,1,2,2 5,2,3,4', 'the generated invisible key is a key');
is($pg->value("SELECT string_agg(concat_ws(',', id, a, b, c, d), ' ' ORDER BY id) FROM c.hidden WHERE id IN (1, 4)"), '1,6,7,8,9 4,5,1,2', 'invisible columns are there');
is($pg->value("SELECT count(*) FROM pg_attrdef WHERE adrelid::regclass::text LIKE 'c.%'"), 0, 'columns are plain on the target');
drop_pipeline($pg, 'columns');

# An identity column of the target takes what the source has.
$my->sql("CREATE DATABASE i; USE i; CREATE TABLE counted (id INT PRIMARY KEY, c INT AUTO_INCREMENT UNIQUE, x INT); INSERT INTO counted VALUES (1, 1, 1), (2, 2, 2)");
$pg->safe_psql('CREATE SCHEMA i; CREATE TABLE i.counted (id int PRIMARY KEY, c int GENERATED ALWAYS AS IDENTITY, x int)');
my ($refused, $nothing, $complaint) = $pg->psql("SELECT capstan.create_pipeline('identity', server => 'source', tables => '{i.*}')");
like($complaint, qr/Target column "c" is GENERATED ALWAYS AS IDENTITY.*ALTER COLUMN c SET GENERATED BY DEFAULT/, 'one that no UPDATE can set is refused');
$pg->safe_psql('ALTER TABLE i.counted ALTER COLUMN c SET GENERATED BY DEFAULT');
start_pipeline($pg, 'identity', ['i.*']);
$my->sql("USE i; UPDATE counted SET c = 7 WHERE id = 1; SET binlog_row_image = MINIMAL; UPDATE counted SET c = 8 WHERE id = 2; INSERT INTO counted (id) VALUES (3)");
sync_pipeline($pg, 'identity');
tables_equal($my, $pg, ['i.*'], 'an identity column of the target');
drop_pipeline($pg, 'identity');

# A value that depends on the session's time zone: warned of; refused where rows are found by their values.
$my->sql(<<'SQL');
CREATE DATABASE z;
USE z;
SET time_zone = '+05:30';
CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(40) AS (CONCAT('v', ts)) VIRTUAL, w VARCHAR(40) AS (CONCAT('w', v)) VIRTUAL, ts TIMESTAMP NULL);
CREATE TABLE keyless (a INT, ts TIMESTAMP NULL, v VARCHAR(40) AS (CONCAT('v', ts)) VIRTUAL);
CREATE TABLE named (d DATE, v VARCHAR(40) AS (CONCAT(' / ', DAYNAME(d))) VIRTUAL);
CREATE TABLE parted (a INT, w VARCHAR(40) AS (CONCAT('dayname( / ', a)), v DECIMAL(20,9) AS (a / 7) VIRTUAL);
CREATE TABLE parted_by_key (a INT PRIMARY KEY, v DECIMAL(20,9) AS (a / 7) VIRTUAL);
CREATE TABLE made (a INT, dt DATETIME, v TIMESTAMP AS (dt) VIRTUAL);
CREATE TABLE fine (a INT, ts TIMESTAMP NULL, v VARCHAR(40) AS (CONCAT('v', a)) VIRTUAL, s VARCHAR(40) AS (CONCAT('s', ts)) STORED, w VARCHAR(40) AS (CONCAT(s, 'w')) VIRTUAL);
INSERT INTO keyed (id, ts) VALUES (1, '2024-01-01 05:30:00');
INSERT INTO fine (a, ts) VALUES (1, '2024-01-01 05:30:00'), (2, '2024-01-01 05:30:00'), (1, '2024-01-01 05:30:00');
SQL
is($pg->safe_psql(q{SELECT "check", status FROM capstan.preflight('source', '{z.*}') WHERE "check" LIKE 'virtual%' ORDER BY 1}),
	"virtual_column z.keyed.v|warning\nvirtual_column z.keyless.v|error\nvirtual_column z.made.v|error\nvirtual_column z.named.v|error\nvirtual_column z.parted.v|error",
	'a virtual column that depends on the time zone, or on another setting');
start_pipeline($pg, 'zones', [ 'z.keyed', 'z.fine' ]);
$my->sql("USE z; SET time_zone = '+05:30'; INSERT INTO keyed (id, ts) VALUES (2, '2024-01-01 05:30:00'); UPDATE fine SET a = 3 WHERE a = 1 LIMIT 1; DELETE FROM fine WHERE a = 2; INSERT INTO fine (a, ts) VALUES (4, '2024-01-01 05:30:00')");
sync_pipeline($pg, 'zones');
no_surprise($pg, 'zones');
tables_equal($my, $pg, ['z.fine'], 'others are of no matter');
is($pg->value("SELECT string_agg(concat_ws(',', id, v, w), ' ' ORDER BY id) FROM z.keyed"), '1,v2024-01-01 00:00:00,wv2024-01-01 00:00:00 2,v2024-01-01 05:30:00,wv2024-01-01 05:30:00', '... and what it comes to with a key');
drop_pipeline($pg, 'zones');

# Comments.
my $comment = q{it's a "comment" with \\ and %s; DROP TABLE x; -- größe};
(my $literal = $comment) =~ s/(['\\])/\\$1/g;
my $long = 'ä' x 1024;
$my->sql("CREATE DATABASE m; USE m;
	CREATE TABLE said (id INT PRIMARY KEY COMMENT 'the key', `a``b \"c` INT COMMENT '$literal', n INT, e INT COMMENT '', l INT COMMENT '$long', v INT AS (n + 1) VIRTUAL COMMENT 'generated') COMMENT '$literal';
	CREATE TABLE `un\"said` (id INT PRIMARY KEY, n INT COMMENT 'new\nline'); CREATE TABLE mine (id INT PRIMARY KEY COMMENT 'theirs') COMMENT 'theirs'");
$pg->safe_psql("CREATE SCHEMA m; CREATE TABLE m.mine (id int PRIMARY KEY); COMMENT ON TABLE m.mine IS 'mine'");
start_pipeline($pg, 'comments', ['m.*']);
is_deeply([ json_rows($pg, "SELECT json_build_array(relname, attname, description) FROM pg_description d JOIN pg_class c ON c.oid = objoid AND classoid = 'pg_class'::regclass LEFT JOIN pg_attribute a ON attrelid = objoid AND attnum = objsubid AND attnum > 0
		WHERE relnamespace = 'm'::regnamespace ORDER BY relname, objsubid") ],
	[ [ 'mine', undef, 'mine' ], [ 'said', undef, $comment ], [ 'said', 'id', 'the key' ], [ 'said', 'a`b "c', $comment ], [ 'said', 'l', $long ], [ 'said', 'v', 'generated' ], [ 'un"said', 'n', "new\nline" ] ],
	'comments come along, and only with tables that capstan makes');
drop_pipeline($pg, 'comments');
my $all = "SELECT string_agg(format('%s %s', objsubid, description), ',' ORDER BY objsubid) FROM pg_description WHERE objoid = 'm.said'::regclass";
is($pg->safe_psql("BEGIN; CREATE TEMP TABLE was AS $all; SELECT capstan.table_ddl('source', 'm.said') AS ddl \\gset\nDROP TABLE m.said;\n:ddl\nSELECT (TABLE was) = ($all); ROLLBACK"), 't', 'table_ddl has them, too');
my @statements = split /\n(?=COMMENT)/, $pg->safe_psql("SELECT capstan.table_ddl('source', 'm.un\"said')");
is($statements[1], qq{COMMENT ON COLUMN m."un""said".n IS 'new\nline';}, '... as statements of their own');

done_testing();
