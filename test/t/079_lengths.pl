# Every declared length: BIT(1 .. 64), DECIMAL of every precision, fractions of 0 to 6 digits, strings of no length and around
# the widths at which a length field grows.
#
# Why: each length has a layout of its own in a row, and tests like to take round ones.
# How: a column for every length, with extreme and random values, by both ways.
# Asserted: types of the columns made, exact text, equality byte by byte and with the source.
# Not asserted: combinations of DECIMAL's precision and scale beyond five scales for each precision.

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
srand(4711);

sub digits { my ($n) = @_; return join '', map { int rand 10 } 1 .. $n }

# Digits with a point before the last $scale, as MySQL and Postgres print it.
sub decimal
{
	my ($sign, $digits, $scale) = @_;
	my $whole = substr($digits, 0, length($digits) - $scale);
	my $fraction = substr($digits, length($digits) - $scale);

	$whole =~ s/^0+//;
	$whole = '0' if $whole eq '';
	return ($digits =~ /[1-9]/ ? $sign : '') . $whole . ($scale ? ".$fraction" : '');
}

my (@bits, @decimals, @times, @strings);
for my $n (1 .. 64)
{
	my @values = ('0' x $n, '1' x $n, '1' . '0' x ($n - 1), '0' x ($n - 1) . '1', map { join '', map { int rand 2 } 1 .. $n } 1 .. 3);
	push @bits, [ "b$n", "BIT($n)", "bit($n)", [ map { [ "b'$_'", $_ ] } @values ] ];
}
for my $p (1 .. 65)
{
	my %scales = map { $_ => 1 } grep { $_ <= $p && $_ <= 30 } 0, 1, int($p / 2), $p - 1, $p, 30;
	for my $s (sort { $a <=> $b } keys %scales)
	{
		my @values = ('9' x $p, '0' x $p, '0' x ($p - 1) . '1', '1' . '0' x ($p - 1), digits($p));
		push @decimals, [ "d${p}_$s", "DECIMAL($p,$s)", "numeric($p,$s)", [ map { my $v = $_; map { decimal($_, $v, $s) } '', '-' } @values ] ];
	}
}
for my $f (0 .. 6)
{
	my $cut = sub { my ($t) = @_; $t =~ s/\.\d+// if $f == 0; $t =~ s/(\.\d{$f})\d+/$1/; (my $bare = $t) =~ s/(\.\d*?)0+$/$1/; $bare =~ s/\.$//; return ($t, $bare) };
	my $values = sub { my ($zone, @texts) = @_; return [ map { my ($t, $bare) = $cut->($_); [ "'$t'", "$bare$zone" ] } @texts ] };
	push @times, [ "dt$f", "DATETIME($f)", "timestamp($f) without time zone", $values->('', '1000-01-01 00:00:00.000000', '9999-12-31 23:59:59.999999', '1969-12-31 23:59:59.123456', '2024-02-29 12:00:00.100000', '0001-01-01 00:00:00.000001') ],
		[ "ts$f", "TIMESTAMP($f) NULL", "timestamp($f) with time zone", $values->('+00', '1970-01-01 00:00:01.000000', '2038-01-19 03:14:07.999999', '2000-01-01 00:00:00.123456', '2001-02-03 04:05:06.000001') ],
		[ "t$f", "TIME($f)", "interval($f)", $values->('', '838:59:58.999999', '-838:59:58.999999', '-00:00:01.000001', '00:00:00.000001', '-00:00:01.999999', '12:34:56.789012', '-100:00:00.500000') ];
}
for my $n (0, 1, 2, 62, 63, 64, 65, 84, 85, 86, 127, 128, 254, 255, 256, 257, 511, 512, 4000)
{
	my $text = $n == 0 ? 'text' : "character varying($n)";
	my @lengths = $n == 0 ? (0) : ($n, $n - 1, 0, 1, int($n / 2));
	for my $charset ('utf8mb4', $n <= 512 ? ('utf8mb3', 'latin1') : ())
	{
		push @strings, [ "v${n}_$charset", "VARCHAR($n) CHARACTER SET $charset", $text, [ map { [ "REPEAT('ä', $_)", 'ä' x $_ ] } @lengths ] ];
		push @strings, [ "c${n}_$charset", "CHAR($n) CHARACTER SET $charset", $text, [ map { [ "REPEAT('ä', $_)", 'ä' x $_ ] } @lengths ] ] if $n <= 255;
	}
	push @strings, [ "vb$n", "VARBINARY($n)", 'bytea', [ map { [ "REPEAT(x'00', $_)", '\x' . '00' x $_ ] } @lengths ] ];
	push @strings, [ "b$n", "BINARY($n)", 'bytea', [ map { [ "REPEAT(x'ff', $_)", '\x' . 'ff' x $_ . '00' x ($n - $_) ] } @lengths ] ] if $n <= 255;
}
my @tables = (
	CapstanTest::BothWays->new($my, $pg, 'v.bits', \@bits), (map { my $part = $_; CapstanTest::BothWays->new($my, $pg, "v.decimals$part", [ @decimals[ grep { $_ % 4 == $part } 0 .. $#decimals ] ]) } 0 .. 3),
	CapstanTest::BothWays->new($my, $pg, 'v.times', \@times), (map { my $part = $_; CapstanTest::BothWays->new($my, $pg, "v.strings$part", [ @strings[ grep { $_ % 6 == $part } 0 .. $#strings ] ]) } 0 .. 5));
$_->fill for @tables;
start_pipeline($pg, 'lengths', ['v.*']);
$_->stream for @tables;
if (sync_pipeline($pg, 'lengths'))
{
	$_->check for @tables;
}
tables_equal($my, $pg, ['v.*'], 'every length');
no_surprise($pg, 'lengths');
drop_pipeline($pg, 'lengths');

done_testing();
