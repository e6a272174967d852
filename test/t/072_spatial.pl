# Spatial columns: geometry of PostGIS if the target has it, else bytea; SRID and coordinates as they were; x is the longitude.
#
# Why: MySQL puts an SRID before the WKB; its text shows geographic coordinates latitude first, its storage has the
# longitude first, and PostGIS wants that; a swapped pair is a place on another continent.
# How: all types of geometry, with SRIDs whose axes go every way, by both ways; before and after CREATE EXTENSION postgis;
# targets that hold less than the source.
# Asserted: types of the columns made; EWKB; ST_X is MySQL's ST_Longitude; equality byte by byte with the source; halts by name.
# Not asserted: spatial indexes, SRIDs that PostGIS does not know (it stores them all the same).

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
my $has_postgis = $pg->value("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis'");

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);

# [ name, MySQL type, WKT ...]; without an SRID in the WKT's column, [ SRID, WKT ].
my @columns = (
	[ 'g', 'GEOMETRY', 'geometry', 'POINT(1 2)', [ 4326, 'POINT(10 20)' ], 'LINESTRING(0 0,1.5 -2.25,1e300 1e-300)', 'POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,2 1,2 2,1 1))', [ 3857, 'MULTIPOINT(1 2,3 4)' ],
		'MULTILINESTRING((0 0,1 1),(2 2,3 3))', 'MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))', 'GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1),GEOMETRYCOLLECTION(POINT(2 2)))', 'GEOMETRYCOLLECTION EMPTY',
		[ 4326, 'GEOMETRYCOLLECTION(POINT(1 2),MULTIPOINT(3 4))' ], 'POINT(-0.0 0.1)', 'LINESTRING(0 0,0 0)', 'POLYGON((0 0,1 1,1 0,0 1,0 0))' ],
	[ 'p', 'POINT', 'geometry(Point)', 'POINT(1 2)', [ 4326, 'POINT(10 20)' ] ],
	[ 'p4326', 'POINT SRID 4326', 'geometry(Point,4326)', [ 4326, 'POINT(10 20)' ], [ 4326, 'POINT(-89.5 179.25)' ] ],
	[ 'p7035', 'POINT SRID 7035', 'geometry(Point,7035)', [ 7035, 'POINT(10 20)' ] ],
	[ 'p2180', 'POINT SRID 2180', 'geometry(Point,2180)', [ 2180, 'POINT(500000 600000)' ] ],
	[ 'p0', 'POINT SRID 0', 'geometry(Point)', 'POINT(3 4)' ],
	[ 'l', 'LINESTRING', 'geometry(LineString)', 'LINESTRING(0 0,1 1)' ],
	[ 'poly', 'POLYGON NOT NULL', 'geometry(Polygon)', 'POLYGON((0 0,1 0,1 1,0 0))' ],
	[ 'mp', 'MULTIPOINT', 'geometry(MultiPoint)', 'MULTIPOINT(0 0,1 1)' ],
	[ 'ml', 'MULTILINESTRING', 'geometry(MultiLineString)', 'MULTILINESTRING((0 0,1 1))' ],
	[ 'mpoly', 'MULTIPOLYGON SRID 4326', 'geometry(MultiPolygon,4326)', [ 4326, 'MULTIPOLYGON(((0 0,0 1,1 1,0 0)))' ] ],
	[ 'c', 'GEOMETRYCOLLECTION', 'geometry', 'GEOMETRYCOLLECTION(POINT(1 1))', 'MULTIPOINT(1 1)', 'GEOMETRYCOLLECTION EMPTY' ],
	[ 'g4326', 'GEOMETRY SRID 4326', 'geometry(Geometry,4326)', [ 4326, 'LINESTRING(10 20,30 40)' ] ]);

# Type and value as PostGIS has them, or as bytea; the expected value is asked of MySQL, of its storage.
sub both_ways
{
	my ($name, $postgis) = @_;
	my @made;

	for (@columns)
	{
		my ($column, $type, $pg_type, @wkts) = @$_;
		my @values;

		for my $wkt (@wkts)
		{
			my ($srid, $text) = ref $wkt ? @$wkt : (0, $wkt);
			my $literal = "ST_GeomFromText('$text', $srid)";
			my $hex = $my->value("SELECT HEX($literal)");
			my $expected = '\x' . lc $hex;

			# EWKB of the same: the bit and the SRID behind the type.
			$expected = substr($hex, 8, 10) . substr($hex, 18) if $postgis;
			$expected = substr($hex, 8, 8) . '20' . substr($hex, 0, 8) . substr($hex, 18) if $postgis && $srid;
			push @values, [ $literal, $expected ];
		}
		push @made, [ $column, $type, $postgis ? $pg_type : 'bytea', \@values ];
	}
	return CapstanTest::BothWays->new($my, $pg, $name, \@made);
}

sub replicate
{
	my ($table) = @_;

	$table->fill;
	start_pipeline($pg, 'spatial', [ $table->name ]);
	$table->stream;
	$table->check if sync_pipeline($pg, 'spatial');
	tables_equal($my, $pg, [ $table->name ], $table->name);
	no_surprise($pg, 'spatial');
	drop_pipeline($pg, 'spatial');
}

# ---- without PostGIS ----

replicate(both_ways('v.as_bytea', 0));

unless ($has_postgis)
{
	diag('the Postgres under test has no PostGIS (Debian: postgresql-NN-postgis-3): only bytea was tested');
	done_testing();
	exit;
}

# ---- with it ----

$pg->safe_psql('CREATE SCHEMA gis; CREATE EXTENSION postgis SCHEMA gis; ALTER DATABASE postgres SET search_path = public, gis');
my $table = both_ways('v.as_geometry', 1);
replicate($table);
is($pg->value(q{SELECT string_agg(DISTINCT format('%s|%s', ST_SRID(p4326), ST_AsText(p4326)), ' ' ORDER BY format('%s|%s', ST_SRID(p4326), ST_AsText(p4326))) FROM v.as_geometry WHERE id < 1000 AND p4326 IS NOT NULL}),
	'4326|POINT(179.25 -89.5) 4326|POINT(20 10)', 'PostGIS reads SRID and coordinates');

# The axes: in geographic systems, whichever axis is first in the text, x is the longitude; in others x is x.
my @axes = map { [ split /\|/ ] } split /\n/, $my->sql("SELECT CONCAT_WS('|', id, ST_Longitude(p4326), ST_Latitude(p4326), ST_Longitude(p7035), ST_Latitude(p7035), ST_X(p2180), ST_Y(p2180)) FROM v.as_geometry WHERE p4326 IS NOT NULL ORDER BY id");
my @ours = map { [ split /\|/ ] } split /\n/, $pg->safe_psql("SELECT concat_ws('|', id, ST_X(p4326), ST_Y(p4326), ST_X(p7035), ST_Y(p7035), ST_X(p2180), ST_Y(p2180)) FROM v.as_geometry WHERE p4326 IS NOT NULL ORDER BY id");
is_deeply(\@ours, \@axes, 'ST_X is the longitude, ST_Y the latitude');
is("@{ $ours[0] }[1 .. 6]", '20 10 10 20 500000 600000', 'and they are what was written: latitude first in 4326, longitude first in 7035, x first in 2180');

# G01, and a table that was made while there was no PostGIS.
$my->sql("CREATE DATABASE s; USE s;
	CREATE TABLE g01 (id INT PRIMARY KEY, g GEOMETRY, p POINT SRID 4326);
	INSERT INTO g01 VALUES (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(10 20)', 4326));
	CREATE TABLE bytes (id INT PRIMARY KEY, g GEOMETRY); INSERT INTO bytes VALUES (1, ST_GeomFromText('POINT(1 2)'));
	CREATE TABLE less (id INT PRIMARY KEY, g GEOMETRY); INSERT INTO less VALUES (1, ST_GeomFromText('POINT(1 2)', 4326));
	CREATE TABLE typed (id INT PRIMARY KEY, p POINT SRID 4326, l LINESTRING, z POINT);
	CREATE TABLE large (id INT PRIMARY KEY, g GEOMETRY);
	CREATE PROCEDURE large(base INT) INSERT INTO large SELECT base + n, ST_GeomFromWKB(CONCAT(x'0102000000', x'40420F00', REPEAT(x'000000000000F03F0000000000000040', 1000000)))
		FROM (SELECT 1 n UNION SELECT 2) s;
	CALL large(0)");
$pg->safe_psql('CREATE SCHEMA s; CREATE TABLE s.bytes (id int PRIMARY KEY, g bytea); CREATE TABLE s.less (id int PRIMARY KEY, g geometry(Point,4326));
	CREATE TABLE s.typed (id int PRIMARY KEY, p geometry(Point,3857), l geometry(Polygon), z geometry(PointZ))');
start_pipeline($pg, 'spatial', [qw(s.g01 s.bytes s.less s.large)]);
$my->sql("INSERT INTO s.g01 SELECT 2, g, p FROM s.g01; INSERT INTO s.bytes SELECT 2, g FROM s.bytes; INSERT INTO s.less SELECT 2, g FROM s.less; CALL s.large(10)");
sync_pipeline($pg, 'spatial');
is($pg->value("SELECT string_agg(ST_AsEWKT(g) || ' ' || ST_AsEWKT(p), '; ' ORDER BY id) FROM s.g01"), 'POINT(1 2) SRID=4326;POINT(20 10); POINT(1 2) SRID=4326;POINT(20 10)', 'G01');
is($pg->value("SELECT string_agg(ST_NPoints(g) || ST_AsText(ST_PointN(g, 1000000)), ' ') FROM s.large"), join(' ', ('1000000POINT(1 2)') x 4), 'geometries of 16 MB');
tables_equal($my, $pg, [qw(s.g01 s.bytes s.less)], 'PostGIS beside bytea');

# A row without a key is found by its bytes; an index on the geometry is of PostGIS' own kind.
$my->sql("CREATE TABLE s.keyless (g GEOMETRY, v INT); INSERT INTO s.keyless VALUES (ST_GeomFromText('POINT(1 2)'), 1), (ST_GeomFromText('POINT(1 2)', 4326), 1)");
$pg->safe_psql('CREATE TABLE s.keyless (g geometry, v int); CREATE INDEX ON s.keyless (g)');
start_pipeline($pg, 'keyless', ['s.keyless']);
$my->sql("INSERT INTO s.keyless SELECT * FROM s.keyless; UPDATE s.keyless SET v = 2 WHERE ST_SRID(g) = 4326 LIMIT 1; DELETE FROM s.keyless WHERE ST_SRID(g) = 0 LIMIT 1");
sync_pipeline($pg, 'keyless');
tables_equal($my, $pg, ['s.keyless'], 'without a key');
drop_pipeline($pg, 'keyless');

# What the target does not hold.
for ([ "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)", qr/Column "g".*another type of geometry/s ], [ "ST_GeomFromText('POINT(1 2)')", qr/Column "g".*another SRID/s ])
{
	my ($value, $says) = @$_;

	$my->sql("INSERT INTO s.less VALUES (9, $value)");
	expect_halt($pg, 'spatial', 'value_not_convertible', $says, qr/s\.less/);
	$my->sql('DELETE FROM s.less WHERE id = 9');
	drop_pipeline($pg, 'spatial');
	start_pipeline($pg, 'spatial', ['s.less'], truncate_target => 'true');
}
drop_pipeline($pg, 'spatial');
my ($rc, $out, $err) = $pg->psql("SELECT capstan.create_pipeline('no', server => 'source', tables => '{s.typed}')");
isnt($rc, 0, 'columns of other types and SRIDs are refused');
like($err, qr/"p" of type \S*geometry\(Point,3857\) holds SRID 3857, the source 4326/, '... by SRID');
like($err, qr/"l" of type \S*geometry\(Polygon\) holds another type of geometry, the source LineString/, '... by type');
like($err, qr/"z" of type \S*geometry\(PointZ\) has a Z or M/, '... by dimension');

# What PostGIS does not take, or would change: an open ring, which MySQL takes in binary form, and an SRID above 999999.
start_pipeline($pg, 'spatial', ['s.g01'], truncate_target => 'true');
$my->sql('INSERT INTO s.g01 (id, g) VALUES (3, x\'0000000001030000000100000004000000000000000000000000000000000000000000000000000000000000000000F03F000000000000F03F000000000000F03F000000000000F03F0000000000000840\')');
expect_halt($pg, 'spatial', 'value_not_convertible', qr/Column "g".*SQLSTATE/, qr/s\.g01/);
drop_pipeline($pg, 'spatial');
$my->sql('DELETE FROM s.g01 WHERE id = 3');
start_pipeline($pg, 'spatial', ['s.g01'], truncate_target => 'true');
$my->sql("INSERT INTO s.g01 (id, g) VALUES (4, x'40420F000101000000000000000000F03F0000000000000000')");
expect_halt($pg, 'spatial', 'value_not_convertible', qr/SRID above 999999/, qr/bytea/);
drop_pipeline($pg, 'spatial');

done_testing();
