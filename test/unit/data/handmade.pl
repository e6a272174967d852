#!/usr/bin/perl
#
# handmade.pl
#	Writes handmade.binlog, a log file of events that the MySQL of generate.pl does not write: those of older versions,
#	those that only a replica or a member of a group is sent, and forms that are allowed but rare.
#
# Usage:  handmade.pl		needs no server, and always writes the same
#
# The bodies are those that stand above the functions of src/binlog that read them. What the decoder makes of these is
# checked in test_events.c and test_values.c; here they are for the fuzzers, and for test_corpus.c, which says what is missing.
#
use strict;
use warnings;
use Compress::Zlib qw(crc32);
use File::Basename;

my $position = 4;
my $out = "\xfebin";

# Header and body, without a checksum.
sub event
{
	my ($type, $body, $flags) = @_;
	return pack('VCVVVv', 1700000000, $type, 7, 19 + length $body, 0, $flags // 0) . $body;
}

# Adds an event of the file: position and checksum are made right.
sub add
{
	my $event = event(@_) . "\0" x 4;

	substr($event, 9, 4) = pack('V', length $event);
	$position += length $event;
	substr($event, 13, 4) = pack('V', $position);
	substr($event, -4) = pack('V', crc32(substr($event, 0, -4)));
	$out .= $event;
}

sub lenenc_string { return pack('C', length $_[0]) . $_[0] }

sub table_map
{
	my ($types, $metadata, $optional) = @_;
	return pack('vVv', 99, 0, 1) . "\4unit\0\3old\0" . lenenc_string($types) . lenenc_string($metadata)
	  . "\xff" x ((length($types) + 7) / 8) . $optional;
}

# v1 has no extra data; bitmaps of all columns.
sub rows
{
	my ($type, $ncolumns, $rows) = @_;
	my $bitmap = "\xff" x (($ncolumns + 7) / 8);

	return pack('vVv', 99, 0, 1) . ($type >= 30 ? "\2\0" : '') . pack('C', $ncolumns)
	  . $bitmap x ($type == 24 || $type == 31 ? 2 : 1) . $rows;
}

sub gtid { add(33, pack('Ca16VVCVVVV', 1, "\1" x 16, $_[0], 0, 2, 0, 0, 1, 0)) }
sub xid { return (16, pack('VV', 5, 0)) }

my @header_lengths = (0) x 42;
@header_lengths[2 - 1, 19 - 1] = (13, 8);
$header_lengths[$_ - 1] = 8 for 23 .. 25;
$header_lengths[$_ - 1] = 10 for 30 .. 32, 39;
add(15, pack('va50VC', 4, '5.6.99-log', 0, 19) . pack('C*', @header_lengths) . "\1");
add(35, "\0" x 8);

# Types of columns before 5.6, and rows events before 5.6: DATETIME, TIMESTAMP, TIME, NEWDATE, and a VAR_STRING.
my $map = table_map(pack('C*', 3, 12, 7, 11, 14, 253), pack('v', 20), "\1\1\0\2\1\x08");
my $row = "\0" . pack('V', 1) . pack('VV', 20240229235959 & 0xffffffff, 20240229235959 >> 32) . pack('V', 1700000000)
  . substr(pack('V', 1235959), 0, 3) . substr(pack('V', 2024 << 9 | 2 << 5 | 29), 0, 3) . lenenc_string('text');
gtid(1);
add(19, $map);
add(23, rows(23, 6, $row));
add(19, $map);
add(24, rows(24, 6, $row . $row));
add(19, $map);
add(25, rows(25, 6, $row));
add(30, pack('VvvvC', 0xffffff, 0, 1, 2, 0));	# the dummy that only ends a statement
add(xid());

# A transaction that is not compressed in a payload; one with an ENUM, a SET and texts in sets of their own, under their codes of one size each.
my $inner = event(2, pack('VVCvv', 1, 0, 4, 0, 0) . "unit\0BEGIN") . event(19, $map) . event(30, rows(30, 6, $row)) . event(xid());
gtid(2);
add(40, "\1\3\xfc" . pack('v', length $inner) . "\2\3\xfc" . pack('v', 255) . "\0" . $inner);
my $sets = table_map(pack('C*', 254, 254, 249, 250, 251), pack('C*', 0xf7, 1, 0xf8, 1, 1, 3, 4),
	"\3\3\x08\x1c\x3f" . "\4\12\1a\1b\1c\1d\1e" . "\6\5\2\1x\1y" . "\5\5\2\1p\1q" . "\x0b\2\x08\x21" . "\x63\1z");
gtid(3);
add(19, $sets);
add(30, rows(30, 5, "\0\1\3" . pack('C', 1) . 't' . pack('vC', 2, 0) . 'uu' . pack('V', 3) . 'vvv'));
add(xid());

# Between groups: what a group sends, what may be ignored, what prepares a statement, and what is sent while nothing happens.
add(36, 'transaction context');
add(37, 'view change');
add(28, 'ignorable');
add(200, 'of a later version', 0x80);
add(9, pack('V', 1) . 'block');
add(11, pack('V', 1));
add(27, 'binlog.000001');
add(41, "\1\15binlog.000001" . "\2\3\xfc" . pack('v', $position) . "\0");
add(3, '');

open my $fh, '>', dirname($0) . '/handmade.binlog' or die $!;
print $fh $out;
close $fh or die $!;
