# Draws curves side by side as SVG: n over a logarithmic axis, figures over one that begins at zero.
#
#     draw({ title => 'us per row', x => 'rows', lines => { 'by the clock' => [ [ 1000, 5 ], [ 10_000, 5.1 ] ] } }, ...)

package Curves;

use strict;
use warnings;
use utf8;

use List::Util qw(max min);

my ($WIDTH, $HEIGHT, $LEFT, $TOP, $PLOT_WIDTH, $PLOT_HEIGHT) = (330, 260, 50, 46, 255, 150);
my @COLOURS = ('#1f5fa8', '#c2541b', '#3b7d3b');

sub draw
{
	my (@panels) = @_;
	my ($x, $svg) = (0, '');

	for my $panel (@panels)
	{
		$svg .= qq{<g transform="translate($x 0)">\n} . _panel($panel) . "</g>\n";
		$x += $WIDTH;
	}
	return qq{<svg xmlns="http://www.w3.org/2000/svg" width="$x" height="$HEIGHT" viewBox="0 0 $x $HEIGHT" font-family="sans-serif" font-size="11">\n}
	  . qq{<rect width="$x" height="$HEIGHT" fill="#ffffff"/>\n$svg</svg>\n};
}

sub _panel
{
	my ($panel) = @_;
	my @names = sort keys %{ $panel->{lines} };
	my @points = map { @{ $panel->{lines}{$_} } } @names;
	my ($low, $high) = map { log($_) / log(10) } min(map { $_->[0] } @points), max(map { $_->[0] } @points);
	my ($top, $step) = _scale(max(map { $_->[1] } @points));
	my $at = sub { my ($n) = @_; return $LEFT + ($high > $low ? (log($n) / log(10) - $low) / ($high - $low) : 0.5) * $PLOT_WIDTH };
	my $up = sub { my ($v) = @_; return $TOP + $PLOT_HEIGHT * (1 - ($v > 0 ? $v : 0) / $top) };
	my $svg = _text($LEFT, 16, $panel->{title}, 'font-weight="bold"') . _text($LEFT + $PLOT_WIDTH / 2, $TOP + $PLOT_HEIGHT + 34, $panel->{x}, 'text-anchor="middle" fill="#555555"');
	my %seen;

	for (my $v = 0; $v <= $top * 1.001; $v += $step)
	{
		$svg .= sprintf qq{<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/>\n}, $LEFT, $up->($v), $LEFT + $PLOT_WIDTH, $up->($v);
		$svg .= _text($LEFT - 6, $up->($v) + 4, sprintf('%g', $v), 'text-anchor="end" fill="#555555"');
	}
	for my $n (grep { !$seen{$_}++ } map { $_->[0] } @points)
	{
		$svg .= _text($at->($n), $TOP + $PLOT_HEIGHT + 16, _short($n), 'text-anchor="middle" fill="#555555"');
	}
	for my $i (0 .. $#names)
	{
		my @line = map { sprintf '%.1f,%.1f', $at->($_->[0]), $up->($_->[1]) } @{ $panel->{lines}{ $names[$i] } };

		$svg .= qq{<polyline fill="none" stroke="$COLOURS[$i]" stroke-width="2" points="@line"/>\n};
		$svg .= join '', map { my ($x, $y) = split /,/; qq{<circle cx="$x" cy="$y" r="3" fill="$COLOURS[$i]"/>\n} } @line;
		$svg .= _text($LEFT + $i * 115, 34, $names[$i], qq{fill="$COLOURS[$i]"});
	}
	return $svg;
}

# The top of an axis and its step, of 1, 2 or 5.
sub _scale
{
	my ($most) = @_;
	my $step = 10**POSIX::floor(log(($most || 1) / 4) / log(10));

	for my $factor (1, 2, 5, 10)
	{
		return (POSIX::ceil(($most || 1) / ($step * $factor)) * $step * $factor, $step * $factor) if ($most || 1) / ($step * $factor) <= 6;
	}
}

sub _short
{
	my ($n) = @_;

	return $n >= 1e6 ? sprintf('%gM', $n / 1e6) : $n >= 1000 ? sprintf('%gk', $n / 1000) : $n;
}

sub _text
{
	my ($x, $y, $text, $attributes) = @_;

	$text =~ s/\bus\b/µs/g;
	$text =~ s/&/&amp;/g;
	$text =~ s/</&lt;/g;
	return sprintf qq{<text x="%.1f" y="%.1f" %s>%s</text>\n}, $x, $y, $attributes // '', $text;
}

use POSIX ();

1;
