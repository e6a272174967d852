# Every type, character set and edge value is the same by every way in which it can come to Postgres.
#
# Why: a fault in one pair of a type and a way (a key change of a BINARY, a SET of 33 members in a MINIMAL image)
# is found by nobody who writes tests by hand, and is a silently wrong value.
# How: CapstanTest::Matrix makes tables of all types of the server, all its character sets, and all edge values;
# they are copied, inserted, updated (to the value, from it, of another column), deleted, and their key is changed,
# under FULL, MINIMAL and NOBLOB images; and all that may be in a primary key is in one.
# Asserted: the source's own text of each value is the target's; what was copied is byte by byte what was streamed; no row
# was a surprise; no type and no character set of this server is missing.
# Not asserted: each code of each character set (070_charset_codes.pl), types that the user chose (050 to 053),
# U+0000 and values that are refused (052_text.pl, 071_charset_columns.pl), PARTIAL_JSON.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(time);
use CapstanTest;
use CapstanTest::BothWays;
use CapstanTest::Matrix;

my $my = CapstanTest::MySQL->start(options => [qw(--innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --innodb-file-per-table=OFF --innodb-doublewrite=OFF)]);
my $pg = CapstanTest::Postgres->start;
my $start = time;
my @times;
sub lap { my ($what) = @_; push @times, sprintf('%s %.1f s', $what, time - $start); $start = time }

$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
for my $extension (map { $_->[0] } $pg->query("SELECT name FROM pg_available_extensions WHERE name IN ('postgis', 'vector')"))
{
	$pg->safe_psql("CREATE EXTENSION $extension");
}
$pg->create_server('source', $my);

my $matrix = CapstanTest::Matrix->new($my, $pg);
lap('characters');
$matrix->fill;
lap('tables');
start_pipeline($pg, 'matrix', ['m.*'], timeout => '180 s');
lap('copy');
for my $image ($matrix->images)
{
	$matrix->stream($image);
	last unless sync_pipeline($pg, 'matrix');
	$matrix->is_applied($image);
}
lap('changes');
$matrix->check;
no_surprise($pg, 'matrix');
lap('comparison');

# The edges as bounds of ranges.
if ($matrix->all_applied)
{
	drop_pipeline($pg, 'matrix');
	$pg->append_conf('capstan.max_range_rows = 2');
	$pg->reload;
	start_pipeline($pg, 'bounds', [ $matrix->alone ], truncate_target => 'true', timeout => '180 s');
	sync_pipeline($pg, 'bounds');
	$matrix->check_alone;
	no_surprise($pg, 'bounds');
	is($pg->value("SELECT string_agg(s.source_table, ' ') FROM capstan.table_status s JOIN capstan.pipeline_table t USING (source_table) WHERE t.key_pageable AND s.rows_copied > 12 AND s.lock_count < 2"),
		undef, 'tables with many edges were copied in several ranges');
	lap('bounds');
}
(my $count = $matrix->combinations) =~ s/(?<=\d)(?=(?:\d{3})+$)/,/g;
diag("$count combinations: $matrix->{summary}; " . join(', ', @times));
done_testing();
