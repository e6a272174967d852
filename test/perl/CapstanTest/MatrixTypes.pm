# The columns of the matrix (CapstanTest::Matrix): every type of MySQL's, and the values at its edges.
#
# A table is { name, columns, ... }; a column { type, values, ... }; a value { sql }, a literal of
# MySQL's, and beside it
#     same    MySQL stores what another value of the column is already
#     no_key  not in a primary key: a zero date (NULL), ENUM's error value
# A column that has a prefix is in a key with so many characters of it. One that is alone => 1 becomes a primary key by itself, too; no_key => 1 never is one.
# A table that is loose => 1 is filled with sql_mode = '', the others with STRICT_ALL_TABLES.
# target => [ pattern, type ]: the table is made in Postgres beforehand, with types changed.

package CapstanTest::MatrixTypes;

use strict;
use warnings;
use utf8;

use Exporter qw(import);
use Math::BigInt;

our @EXPORT = qw(plain_tables character_tables character_keys);

sub _value { my ($sql, %flags) = @_; return { sql => $sql, %flags } }
sub _quote { my ($text) = @_; $text =~ s/(['\\])/\\$1/g; return "'$text'" }

# Values without repetition, by what they are to MySQL: [ sql, identity ].
sub _distinct
{
	my %seen;
	return map { _value($_->[0]) } grep { !$seen{ $_->[1] }++ } @_;
}

# ---- numbers ----

# The edges of 1 to 8 bytes and their neighbours, as far as the type reaches.
sub _integers
{
	my ($type, $bytes, $unsigned) = @_;
	my ($low, $high) = map { Math::BigInt->new($_) } $unsigned ? (0, 2) : (-2, 2);
	my @all = map { Math::BigInt->new($_) } 0, 1, -1, 100;

	$high = $unsigned ? $high->bpow(8 * $bytes)->bsub(1) : $high->bpow(8 * $bytes - 1)->bsub(1);
	$low = $high->copy->binc->bneg unless $unsigned;
	for my $bits (map { (8 * $_ - 1, 8 * $_) } 1 .. 8)
	{
		my $power = Math::BigInt->new(2)->bpow($bits);
		push @all, $power, $power->copy->bsub(1), $power->copy->bneg, $power->copy->bneg->bsub(1);
	}
	return { type => $type, values => [ _distinct(map { [ $_->bstr, $_->bstr ] } grep { $_ >= $low && $_ <= $high } @all) ] };
}

sub _integer_table
{
	my @columns;

	for ([ 'TINYINT', 1 ], [ 'SMALLINT', 2 ], [ 'MEDIUMINT', 3 ], [ 'INT', 4 ], [ 'BIGINT', 8 ])
	{
		my ($type, $bytes) = @$_;
		push @columns, map { $_->{alone} = 1; $_ } _integers($type, $bytes, 0), _integers("$type UNSIGNED", $bytes, 1);
		push @columns, _integers("$type ZEROFILL", $bytes, 1);
	}
	return { name => 'integers', columns => [ @columns, _integers('BOOL', 1, 0), _integers('INT(1)', 4, 0), _integers('BIGINT(20) UNSIGNED', 8, 1),
		_integers('INT(3) ZEROFILL', 4, 1), { type => 'YEAR', alone => 1, values => [ map { _value($_) } 0, 1901, 1902, 1969, 1970, "'0'", 2001, 2155 ] } ] };
}

sub _decimal
{
	my ($precision, $scale, $attribute) = @_;
	my $whole = $precision - $scale;
	my @digits = ([ 0, 0 ], [ 9 x $whole, 9 x $scale ], $scale ? [ 0, '0' x ($scale - 1) . '1' ] : (), [ 1, 0 ], $whole ? [ '1' . '0' x ($whole - 1), 0 ] : (),
		[ substr('123456789' x 8, 0, $whole), substr('987654321' x 8, 0, $scale) ], [ 0, 5 ], [ 0, 1 ], [ 0, '99' ], [ 7, '10' ]);

	# MySQL packs nine digits at a time.
	for my $group (map { 9 * $_ } 1 .. 7)
	{
		push @digits, [ '1' . '0' x $group, 0 ], [ 9 x $group, 0 ], [ 0, '0' x $group . '1' ], [ 0, 9 x $group ], [ '1' . '0' x $group, '0' x $group . '1' ];
	}
	@digits = grep { my ($w, $f) = @$_; $w =~ s/^0+//; $f =~ s/0+$//; length $w <= $whole && length $f <= $scale } @digits;
	return { type => "DECIMAL($precision,$scale) $attribute", values => [
		(map { my $sign = $_; _distinct(map {
			my ($w, $f) = @$_;
			$w =~ s/^0+(?=\d)//;
			# Zero has no sign.
			"$w$f" =~ /[1-9]/ || !$sign ? [ "$sign$w.$f", ($w || 0) . '.' . substr($f . '0' x 65, 0, 65) ] : ();
		} @digits) } $attribute =~ /UNSIGNED|ZEROFILL/ ? '' : ('', '-')),
		map { _value($_, same => 1) } $attribute =~ /UNSIGNED|ZEROFILL/ ? '0.0' : '-0.0', '0e0' ] };
}

sub _decimal_table
{
	my %alone = map { $_ => 1 } '65,30', '65,0', '1,1', '30,30', '18,9', '10,2';
	my @columns = map { my ($p, $s) = split /\./; my $c = _decimal($p, $s, ''); $c->{alone} = $alone{"$p,$s"}; $c }
	  qw(65.30 65.0 1.1 30.30 18.9 19.9 1.0 2.1 9.0 9.9 10.0 10.1 10.2 10.10 18.0 18.18 19.0 20.5 27.18 30.0 38.10 54.27 64.1 65.1 65.29 36.30);

	return { name => 'decimals', columns => [ @columns, map { _decimal(@$_) } [ 10, 2, 'UNSIGNED' ], [ 20, 9, 'ZEROFILL' ], [ 65, 30, 'UNSIGNED' ] ] };
}

sub _float_table
{
	my @both = qw(0 -0e0 1 -1 0.1 -0.1 1e-5 0.5 1.5 123456.7 16777216 16777217.5 8388608.5 1e10 1e15 1e16 1e17 1e-10 9.999999e20 3.402823466e38 -3.402823466e38 1.17549435e-38 -1.17549435e-38);
	my @float = (@both, qw(1e-45 -1e-45 1234567 0.333333343));
	my @double = (@both, qw(1.7976931348623157e308 -1.7976931348623157e308 2.2250738585072014e-308 5e-324 -5e-324 0.30000000000000004 9007199254740991 9007199254740993
		123456789012345678e-2 1e22 1e23 4.35 0.1e-6));
	# 16777217.5 as FLOAT is 16777218, as 8388608.5 is 8388608: other values.
	my $column = sub { my ($type, $values, %more) = @_; return { type => $type, values => [ map { _value($_) } @$values ], %more } };

	return { name => 'floats', columns => [ $column->('FLOAT', \@float, alone => 1), $column->('DOUBLE', \@double, alone => 1), $column->('REAL', \@double), $column->('FLOAT(24)', \@float), $column->('FLOAT(53)', \@double),
		$column->('FLOAT(7,3)', [qw(0 0.001 -0.001 9999.999 -9999.999 1.5 0.1 1234.567)]), $column->('DOUBLE(20,5)', [qw(0 0.00001 -0.00001 999999999999999.9 -1.5 0.1)]),
		$column->('FLOAT UNSIGNED', [ grep { !/^-/ } @float ]), $column->('DOUBLE UNSIGNED', [ grep { !/^-/ } @double ]) ] };
}

sub _bit_table
{
	return { name => 'bits', columns => [ map {
		my $n = $_;
		+{ type => "BIT($n)", alone => ($n =~ /^(?:1|20|64)$/) ? 1 : 0, values => [ _distinct(map { my $bits = substr('0' x 64 . $_, -$n); [ "b'$bits'", $bits ] }
			0, 1, '1' . '0' x ($n - 1), 1 x $n, '10' x 32, '01' x 32, '1' . '0' x 7, '1' . '0' x 8, '1' . '0' x 31, '1' . '0' x 32) ] }
	} 1 .. 64 ] };
}

# ---- dates and times ----

sub _time_table
{
	my @dates = qw(0000-01-01 0001-01-01 0001-12-31 0099-12-31 1000-01-01 1582-10-04 1582-10-10 1752-09-05 1900-02-28 1900-03-01 1969-12-31 1970-01-01 2000-02-29 2024-02-29 2038-01-19 9999-12-31);
	my @zeros = qw(0000-00-00 2015-00-21 2015-05-00 2015-00-00 0000-05-21);
	# Zero and partial dates become NULL; of 0000-05-21 MySQL knows that it is whole.
	my @zero_values = sub { map { $_ eq '0000-05-21' ? _value("'$_$_[0]'") : _value("'$_$_[0]'", same => 1, no_key => 1) } @zeros };
	my @columns = { type => 'DATE', alone => 1, values => [ (map { _value("'$_'") } @dates), $zero_values[0]->('') ] };

	for my $f (0 .. 6)
	{
		my ($least, $most, $some) = $f == 0 ? ('') x 3 : map { ".$_" } '0' x ($f - 1) . '1', 9 x $f, substr('120450', 0, $f);
		my @clocks = ('00:00:00', "23:59:59$most", _unless_same($f, "00:00:00$least", "12:34:56$some"));
		my @times = ('00:00:00', '00:00:01', '-00:00:01', '838:59:59', '-838:59:59', "838:59:58$most", "-838:59:58$most", '24:00:00', '-24:00:00', '23:59:59', '100:00:00', '-01:00:00', '01:00:00', '00:01:00',
			_unless_same($f, "00:00:00$least", "-00:00:00$least", "00:00:00$most", "-00:00:00$most", "-12:34:56$some", "-01:00:00$least", "-24:00:00$least"));

		push @columns,
		  { type => "DATETIME($f)", alone => $f == 0 || $f == 6, values => [ (map { my $d = $_; map { _value("'$d $_'") } $d =~ /^(?:0000|1969|9999)/ ? @clocks : $clocks[-1] } @dates), $zero_values[0]->(' 00:00:00') ] },
		  { type => "TIMESTAMP($f)", alone => $f == 0 || $f == 6, values => [ (map { _value("'$_'") } '1970-01-01 00:00:01', "1970-01-01 00:00:01$most", "2038-01-19 03:14:07", "2038-01-19 03:14:06$most",
				'2001-09-09 01:46:40', "2024-02-29 23:59:59$most", '2024-03-31 02:30:00', _unless_same($f, "2024-03-31 01:00:00$least", "2038-01-19 03:14:07$most")), _value("'0000-00-00 00:00:00'", same => 1, no_key => 1) ] },
		  { type => "TIME($f)", alone => $f == 0 || $f == 6, values => [ (map { _value("'$_'") } @times), _value("'-00:00:00'", same => 1) ] };
		if ($f == 0)
		{
			for my $c (@columns)
			{
				my %seen;
				$_->{same} //= $seen{ $_->{sql} }++ for @{ $c->{values} };
			}
		}
	}
	return { name => 'times', columns => \@columns };
}

# Without a fraction these are values that are there already.
sub _unless_same { my ($f, @values) = @_; return $f ? @values : () }

# ---- bytes ----

sub _binary
{
	my ($type, $size, %more) = @_;
	my $fixed = $type =~ /^BINARY/;
	my %seen;
	my @values;

	for ('', qw(00 0000 000000 01 0100 010000 0001 20 2020 2000 ff ff00 ffff 5c 27 22 0d0a 1a c3a9 e4b8ad), 'all',
		map { ("$_ 00", "$_ 01", "$_ ff00", "$_ 20") } 1, 127, 128, 255, 256, 257, 65535, 65536)
	{
		my ($sql, $identity, $length) = ("x'$_'", $_, length($_) / 2);

		if ($_ eq 'all')
		{
			$identity = unpack 'H*', join '', map { chr } 0 .. 255;
			($sql, $length) = ("x'$identity'", 256);
		}
		elsif (/^(\d+) (\w+)$/)
		{
			my $unit = length($2) / 2;
			($sql, $identity, $length) = ("LEFT(REPEAT(x'$2', $1), $1)", substr($2 x $1, 0, 2 * $1), $1);
		}
		next if $length > $size;
		$identity = substr($identity . '00' x $size, 0, 2 * $size) if $fixed;
		push @values, _value($sql, same => $seen{$identity}++ ? 1 : 0) unless $seen{"sql $sql"}++;
	}
	return { type => $type, values => \@values, %more };
}

sub _binary_tables
{
	my @small = ((map { _binary("BINARY($_)", $_, alone => $_ == 4 || $_ == 16) } 0, 1, 2, 4, 8, 15, 16, 127, 128, 254, 255),
		(map { _binary("VARBINARY($_)", $_, alone => $_ == 8) } 0, 1, 2, 8, 127, 128, 255, 256, 257));
	$_->{no_key} = $_->{type} =~ /\((?:[1-9]|1\d)\)/ ? 0 : 1 for @small;
	return { name => 'binaries', columns => \@small },
	  { name => 'blobs', columns => [ map { +{ %$_, no_key => 1 } } _binary('TINYBLOB', 255), _binary('BLOB', 65535), _binary('MEDIUMBLOB', 65536), _binary('LONGBLOB', 65536) ] },
	  { name => 'long_varbinary', columns => [ { %{ _binary('VARBINARY(65500)', 65500) }, no_key => 1 } ] };
}

# ---- labels ----

sub _label_tables
{
	my @columns;

	for my $n (1, 2, 127, 128, 255, 256, 257, 300, 1000)
	{
		my %seen;
		push @columns, { type => 'ENUM(' . join(',', map { "'l$_'" } 1 .. $n) . ')', alone => ($n =~ /^(?:2|300)$/) ? 1 : 0, values => [
			(map { _value($_) } grep { $_ >= 1 && $_ <= $n && !$seen{$_}++ } 1, 2, 127, 128, 129, 255, 256, 257, $n - 1, $n), _value(0, no_key => 1) ] };
	}
	for my $n (1, 2, 7, 8, 9, 16, 17, 24, 25, 32, 33, 40, 41, 48, 56, 57, 63, 64)
	{
		push @columns, { type => 'SET(' . join(',', map { "'m$_'" } 1 .. $n) . ')', alone => ($n =~ /^(?:9|64)$/) ? 1 : 0, values => [ _distinct(map { my $bits = substr('0' x 64 . $_, -$n); [ "b'$bits' + 0", $bits ] }
			0, 1, '1' . '0' x ($n - 1), 1 x $n, '10' x 32, '01' x 32, '1' . '0' x 7, '1' . '0' x 31, '1' . '0' x 32) ] };
	}
	# There can be 65535, but the source takes minutes to make such a table.
	my %most = (type => 'ENUM(' . join(',', map { "'$_'" } 1 .. 4000) . ')', no_key => 1, values => [ map { _value($_) } 1, 255, 256, 257, 3999, 4000 ]);
	return { name => 'labels', loose => 1, columns => \@columns }, { name => 'most_labels', columns => [ \%most ] };
}

# ---- JSON, spatial types, VECTOR ----

sub _json_tables
{
	my @text = (qw(null true false 0 -1 1 127 128 32767 32768 -32768 -32769 65535 2147483647 2147483648 -2147483649 9223372036854775807 -9223372036854775808 9223372036854775808 18446744073709551615
		1.0 -1.5 0.1 1e300 1e-300 1e16 1.7976931348623157e308 5e-324 "" "a" [] {} [[]] [null] {"":1}), '[1, "a", null, true, {"k": []}]', '{"b": 1, "aa": 2, "a": 3, "B": 4}',
		'"quote \\\\" slash \\\\\\\\ / tab \\\\t line \\\\n u \\\\u0001 \\\\u001f"', '"é中😀\\u2028"', '{"é中😀": "\\\\u00e9"}', '{"id": 1, "name": "a", "pi": 3.14, "val": 1.0}');
	my @values = ((map { _value("'$_'") } @text),
		(map { _value($_) } "JSON_QUOTE(REPEAT('x', 127))", "JSON_QUOTE(REPEAT('é', 64))", "JSON_QUOTE(REPEAT('x', 16383))", "JSON_QUOTE(REPEAT('x', 70000))", "JSON_ARRAY(REPEAT('x', 70000), 1, REPEAT('y', 300))", "CONCAT('[', REPEAT('1,', 9000), '1]')",
			"CONCAT(REPEAT('[', 90), REPEAT(']', 90))", "JSON_OBJECT(REPEAT('k', 300), 1, 'k', JSON_ARRAY(1, 2))", "CAST(CAST('2020-01-02' AS DATE) AS JSON)", "CAST(CAST('-838:59:59' AS TIME) AS JSON)", "CAST(CAST('-12:00:01.5' AS TIME(1)) AS JSON)",
			"CAST(TIMESTAMP('2020-01-02 03:04:05.678') AS JSON)", "JSON_ARRAY(CAST('12345678901234567890.123' AS DECIMAL(30,3)), CAST('-0.10' AS DECIMAL(5,2)))", "CAST(x'00ff' AS JSON)", "JSON_ARRAY(b'101')",
			"JSON_OBJECT('d', CAST('0000-01-01' AS DATE), 'y', CAST(2024 AS YEAR))"));

	return { name => 'json', columns => [ { type => 'JSON', no_key => 1, values => \@values } ] },
	  { name => 'json_text', target => [ 'jsonb', 'json' ], columns => [ { type => 'JSON', no_key => 1, values => \@values } ] };
}

my %shapes = (
	POINT => [ 'POINT(1 2)', 'POINT(-89.5 89.25)', 'POINT(0 0)', 'POINT(-0.0 1e-300)' ],
	LINESTRING => [ 'LINESTRING(0 0,1.5 -2.25)', 'LINESTRING(0 0,0 0)', 'LINESTRING(' . join(',', map { ($_ % 90) . '.5 ' . ($_ % 89) } 1 .. 300) . ')' ],
	POLYGON => [ 'POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,2 1,2 2,1 1))', 'POLYGON((0 0,1 0,1 1,0 0))' ],
	MULTIPOINT => [ 'MULTIPOINT(1 2)', 'MULTIPOINT(1 2,3 4)' ],
	MULTILINESTRING => [ 'MULTILINESTRING((0 0,1 1),(2 2,3 3))' ],
	MULTIPOLYGON => [ 'MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))' ],
	GEOMETRYCOLLECTION => [ 'GEOMETRYCOLLECTION EMPTY', 'GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1),GEOMETRYCOLLECTION(POINT(2 2)))', 'MULTIPOINT(1 1)' ]);
$shapes{GEOMETRY} = [ map { @{ $shapes{$_} } } sort keys %shapes ];

# Each with the SRIDs that it may hold, which is both where none is declared.
sub _spatial_tables
{
	my @columns;

	for my $type (sort keys %shapes)
	{
		for my $srid (undef, 0, 4326)
		{
			my %seen;
			push @columns, { type => defined $srid ? "$type SRID $srid" : $type, no_key => 1, values => [ map { my $s = $_; map { _value("ST_GeomFromText('$_', $s)") } grep { !$seen{"$s $_"}++ } @{ $shapes{$type} } } defined $srid ? $srid : (0, 4326) ] };
		}
	}
	return { name => 'spatial', columns => \@columns }, { name => 'spatial_bytes', target => [ '[\w.]*geometry(?:\([^)]*\))?', 'bytea' ], columns => \@columns };
}

sub _vector_tables
{
	my @small = ("TO_VECTOR('[0]')", "TO_VECTOR('[-0]')", "TO_VECTOR('[0.1]')", "x'01000000'", "TO_VECTOR('[3.4028235e38]')", "TO_VECTOR('[16777217]')", "x'00008080'");
	my $three = "TO_VECTOR('[1,2.5,-3]')";
	my $long = "TO_VECTOR('[" . join(',', map { $_ / 4 } 1 .. 2048) . "]')";
	my @columns = map { +{ type => $_->[0], no_key => 1, values => [ map { _value($_) } @{ $_->[1] } ] } }
	  [ 'VECTOR', [ @small, $three, $long ] ], [ 'VECTOR(1)', \@small ], [ 'VECTOR(3)', [ @small, $three ] ], [ 'VECTOR(16383)', [ @small, $three, $long ] ];

	return { name => 'vectors', columns => \@columns }, { name => 'vectors_real', target => [ '[\w.]*vector\b', 'real[]' ], columns => \@columns };
}

# All tables without character sets.
sub plain_tables
{
	return _integer_table(), _decimal_table(), _float_table(), _bit_table(), _time_table(), _binary_tables(), _label_tables(), _json_tables(), _spatial_tables(), _vector_tables();
}

# ---- characters ----

# What a character set has, as CapstanTest::Matrix finds it on the server:
#     lengths => { 1 => [ first, ..., last ], ... }, by the length of their codes
#     ascii => all printable characters of ASCII that are in it; unit => bytes of one of them
sub _text_values
{
	my ($set, $type, $characters, $bytes, %more) = @_;
	my $fixed = $type =~ /^CHAR/;
	my @picked = map { my $l = $_; map { [ $_, $l ] } @{ $set->{lengths}{$l} } } sort keys %{ $set->{lengths} };
	my $mixed = [ join('', map { $_->[0] } @picked), _sum(map { $_->[1] } @picked) ];
	my $unit = $set->{unit};
	my $has = sub { my ($text) = @_; return join '', grep { ord($_) <= 32 || index($set->{ascii}, $_) >= 0 } split //, $text };
	my $plain = sub { map { [ $_, $unit * length ] } @_ };
	my $last = $picked[-1];
	my (@texts, %seen, @values);

	push @texts, $plain->('', ' '), @picked, $mixed, $plain->($set->{ascii}, $has->(q(a'b"c\\d`e%_;,?)), "x\t\r\n\x{1}\x{1a}", $has->('\\N'), ' x', 'x ', 'x  ', 'NULL');
	# The longest, and those before and behind where a length takes another byte.
	for my $most (grep { $_ > 0 } map { ($_ - 1, $_, $_ + 1) } 255, 256, 65535)
	{
		my $count = int($most / $last->[1]);
		push @texts, [ $last->[0] x $count . 'a' x (($most % $last->[1]) / $unit), $count * $last->[1] + $unit * int(($most % $last->[1]) / $unit) ] if $most <= $bytes && !$more{short};
	}
	push @texts, map { [ $_->[0] x $characters, $_->[1] * $characters ] } $plain->('z'), $last if $characters > 1 && $characters * $last->[1] <= $bytes;
	for (@texts)
	{
		my ($text, $length) = @$_;
		next if length $text > $characters || $length > $bytes;
		my $stored = $text;
		$stored =~ s/ +$// if $fixed;
		push @values, _value(_text_literal($text), same => $seen{"stored $stored"}++ ? 1 : 0) unless $seen{"text $text"}++;
	}
	return \@values;
}

sub _sum { my $sum = 0; $sum += $_ for @_; return $sum }

# A long one that repeats one character is short to write.
sub _text_literal
{
	my ($text) = @_;
	my $hex = sub { my ($t) = @_; utf8::encode($t); return "_utf8mb4 x'" . unpack('H*', $t) . "'" };

	if ($text =~ /^(.)\1{30}/s)
	{
		my ($first, $rest) = ($1, $text);
		$rest =~ s/^\Q$first\E+//;
		return sprintf('CONCAT(REPEAT(%s, %d), %s)', $hex->($first), length($text) - length($rest), $hex->($rest));
	}
	return $hex->($text);
}

# Labels: characters of each length, and what is special in a list of labels. They end in no blank, which MySQL trims.
sub _labels
{
	my ($set) = @_;
	my @labels = map { ($_->[0], $_->[-1]) } grep { @$_ } map { [ grep { /^[^\s,'\\\x{0}-\x{20}\x{7f}]$/ } @$_ ] } @{ $set->{lengths} }{ sort keys %{ $set->{lengths} } };
	my $special = join '', grep { index($set->{ascii}, $_) >= 0 } split //, q(a'b"c\\d`e%_;?);
	my %seen;

	return grep { !$seen{$_}++ } @labels, $special, 'x ' . join('', @labels), 'NULL';
}

sub _label_list { return join ', ', map { _quote($_) } @_ }

# Tables with columns of each character type in all sets. 'binary' has no strings of characters but labels.
sub character_tables
{
	my ($sets) = @_;
	my @names = grep { $_ ne 'binary' } sort keys %$sets;
	my $columns = sub {
		my ($type, $characters, $bytes, %more) = @_;
		return map { +{ type => "$type CHARACTER SET $_", values => _text_values($sets->{$_}, $type, $characters, $bytes // 4 * $characters, %more), no_key => 1 } } @names;
	};
	my @long_sets = grep { /^(?:latin1|gbk|ujis|gb18030|ucs2|utf8mb3|utf16|utf32|utf8mb4)$/ } @names;

	# The longest, and those where lengths take another byte, for one set of each sort.
	my @long;
	for my $set (@long_sets)
	{
		my $longest = int(65500 / $sets->{$set}{max});

		push @long, { name => "longest_$set", columns => [ { type => "VARCHAR($longest) CHARACTER SET $set", no_key => 1, values => [ @{ _text_values($sets->{$set}, 'VARCHAR', $longest, 65500) }[ -6 .. -1 ] ] } ] };
		push @long, { name => "text_$set", columns => [ map {
			my ($type, $bytes) = @$_;
			my @values = @{ _text_values($sets->{$set}, $type, 65536, $bytes) };
			+{ type => "$type CHARACTER SET $set", no_key => 1, values => [ @values[ -6 .. -1 ] ] }
		} [ 'TEXT', 65535 ], [ 'MEDIUMTEXT', 65537 ], [ 'LONGTEXT', 65537 ] ] };
	}

	return @long, { name => 'chars', columns => [ map { $columns->("CHAR($_)", $_) } 0, 1, 63, 64 ] },
	  { name => 'chars255', columns => [ $columns->('CHAR(255)', 255) ] },
	  { name => 'varchars', columns => [ map { $columns->("VARCHAR($_)", $_) } 0, 1, 63, 64 ] },
	  { name => 'varchars255', columns => [ map { $columns->("VARCHAR($_)", $_) } 255, 256 ] },
	  { name => 'varchars700', columns => [ $columns->('VARCHAR(700)', 700) ] },
	  { name => 'texts', columns => [ $columns->('TINYTEXT', 255, 255), $columns->('TEXT', 65535, 65535, short => 1) ] },
	  { name => 'long_texts', columns => [ $columns->('MEDIUMTEXT', 1000, 4000), $columns->('LONGTEXT', 1000, 4000) ] },
	  { name => 'character_labels', columns => [ map {
		my ($set, $collation) = ($_, $_ eq 'binary' ? '' : "COLLATE ${_}_bin");
		my @labels = $set eq 'binary' ? qw(a plain b'c) : _labels($sets->{$set});
		my $n = @labels;
		({ type => 'ENUM(' . _label_list(@labels) . ") CHARACTER SET $set $collation", values => [ map { _value($_) } 1 .. $n ] },
			{ type => 'SET(' . _label_list(@labels) . ") CHARACTER SET $set $collation", values => [ map { _value($_) } 0, 2**$n - 1, map { 2**$_ } 0 .. $n - 1 ] })
	  } sort keys %$sets ] };
}

# Columns of key tables: by bytes, that no two values be one; short, since Postgres has 2.7 kB for an index entry.
sub character_keys
{
	my ($sets) = @_;

	my $column = sub { my ($type, $set, @more) = @_; return { type => "$type CHARACTER SET $set COLLATE ${set}_bin", values => _text_values($sets->{$set}, $type, 15, 60), @more } };
	my @names = grep { $_ ne 'binary' } sort keys %$sets;

	return (map { ($column->('CHAR(15)', $_), $column->('VARCHAR(15)', $_)) } @names),
	  (map { $column->($_, 'utf8mb4', prefix => 15) } qw(TINYTEXT TEXT MEDIUMTEXT LONGTEXT)), (map { $column->('TEXT', $_, prefix => 15) } qw(latin1 gbk utf16)),
	  map { { %{ _binary($_, 8) }, prefix => 8 } } qw(TINYBLOB BLOB MEDIUMBLOB LONGBLOB);
}

1;
