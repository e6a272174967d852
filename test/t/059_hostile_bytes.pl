# A source that lies: events and answers that no server sends, with checksums that are right.
#
# Why: what a source sends decides lengths, counts and offsets here. One that is broken or hostile may halt its own pipeline,
# but a backend that crashes takes all sessions of the cluster with it.
# How: a proxy between capstan and a real MySQL alters packets: of the dump each kind of event (cut off, lengths and counts of
# all ones, random bytes), and mends length and CRC; of the handshake and of every query's answer the number of columns, their
# definitions, the rows. Several pipelines are attacked at the same time, each through a proxy of its own, by another alteration;
# one streams on a straight connection meanwhile. The queries of preflight and create_pipeline are attacked in a session.
# Asserted: Postgres is never restarted and nothing is terminated by a signal; each attacked pipeline is retrying or halted with an incident and a
# SQLSTATE out of a list, or was not impressed; its table has the contents from before the transaction or from after it; once
# the proxy is honest, contents are equal; the straight pipeline has no incident, and its contents are equal.
# Not asserted: that altered values of rows are found out, which with a right checksum nobody can (they are left alone); memory and
# time of the decoder alone (unit/test_hostile.c, fuzz/); passwords and files (015_source_access.pl).
#
# CAPSTAN_LONG=1 adds random bytes in random places, 400 of them.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Compress::Zlib qw(crc32);
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::Proxy;

use constant { HEADER => 19, FF8 => "\xfe" . "\xff" x 8 };

my $NPIPELINES = 10;

# ---- events ----

# Type codes.
my %TYPE = (query => 2, rotate => 4, format => 15, xid => 16, map => 19, insert => 30, update => 31, delete => 32, gtid => 33,
	previous => 35, payload => 40, heartbeat => 41);

# Where things are in a table map of the table below: after the header table id 6, flags 2, u8 length, schema, NUL, u8 length, table, NUL.
sub column_count_at { my ($event) = @_; my $schema = ord(substr($event, 27, 1)); return 27 + 1 + $schema + 1 + 1 + 1 + 1 }

# In a rows event: table id 6, flags 2, extra length 2 (of 2), column count.
my $ROWS_COUNT = HEADER + 10;

# [type of event, name, sub that alters the event ($_[0], without its checksum)]
my @ATTACKS = (
	[ format => 'version', sub { substr($_[0], HEADER, 2) = "\xff\xff" } ],
	[ format => 'checksum algorithm', sub { substr($_[0], -1) = "\x07" } ],
	[ format => 'header lengths', sub { substr($_[0], HEADER + 57, 30) = "\xff" x 30 } ],
	[ format => 'cut off', sub { substr($_[0], HEADER + 20) = '' } ],
	[ rotate => 'cut off', sub { substr($_[0], HEADER + 3) = '' } ],
	[ rotate => 'bytes', sub { substr($_[0], HEADER + 8) = "\xff\0\xfe" x 300 } ],
	[ gtid => 'number 0', sub { substr($_[0], HEADER + 17, 8) = "\0" x 8 } ],
	[ gtid => 'number of ones', sub { substr($_[0], HEADER + 17, 8) = "\xff" x 8 } ],
	[ gtid => 'cut off', sub { substr($_[0], HEADER + 12) = '' } ],
	[ gtid => 'anonymous', sub { substr($_[0], 4, 1) = "\x22" } ],
	[ gtid => 'tagged, of random bytes', sub { substr($_[0], 4, 1) = "\x2a"; substr($_[0], HEADER) = "\xff" x 60 } ],
	[ query => 'length of schema', sub { substr($_[0], HEADER + 8, 1) = "\xff" } ],
	[ query => 'length of status', sub { substr($_[0], HEADER + 11, 2) = "\xff\xff" } ],
	[ query => 'cut off', sub { substr($_[0], HEADER + 9) = '' } ],
	[ query => 'no statement', sub { substr($_[0], -5) = "\xff\0`'\xfe" } ],
	[ query => 'of a megabyte', sub { substr($_[0], -5) = '(' x 1048576 } ],
	[ map => 'length of schema', sub { substr($_[0], HEADER + 8, 1) = "\xff" } ],
	[ map => 'column count', sub { substr($_[0], column_count_at($_[0]), 1) = FF8 } ],
	[ map => '4096 columns', sub { substr($_[0], column_count_at($_[0]), 1) = "\xfc\0\x10" } ],
	[ map => 'types', sub { substr($_[0], column_count_at($_[0]) + 1, 4) = "\xff\x14\xfe\x0f" } ],
	[ map => 'fewer columns', sub { my $at = column_count_at($_[0]); substr($_[0], $at, 2) = chr(ord(substr($_[0], $at, 1)) - 1) } ],
	[ map => 'metadata of ones', sub { substr($_[0], -60) = "\xff" x 60 } ],
	[ map => 'metadata cut off', sub { substr($_[0], -7) = '' } ],
	[ map => 'cut off', sub { substr($_[0], HEADER + 15) = '' } ],
	[ map => 'another id', sub { substr($_[0], HEADER, 6) = "\xfe" x 6 } ],
	[ insert => 'cut off', sub { substr($_[0], -9) = '' } ],
	[ insert => 'column count', sub { substr($_[0], $ROWS_COUNT, 1) = FF8 } ],
	[ insert => 'no columns', sub { substr($_[0], $ROWS_COUNT + 1, 1) = "\0" } ],
	[ insert => 'extra length', sub { substr($_[0], $ROWS_COUNT - 2, 2) = "\xff\xff" } ],
	[ insert => 'bytes behind', sub { $_[0] .= "\xff" x 100 } ],
	[ insert => 'length of a value', sub { substr($_[0], $ROWS_COUNT + 3 + 8, 1) = "\xff" } ],
	[ insert => 'as differences', sub { substr($_[0], 4, 1) = "\x27" } ],
	[ insert => 'as an update', sub { substr($_[0], 4, 1) = "\x1f" } ],
	[ update => 'as differences, random', sub { substr($_[0], 4, 1) = "\x27"; substr($_[0], $ROWS_COUNT + 4) = "\xab" x 200 } ],
	[ update => 'column count', sub { substr($_[0], $ROWS_COUNT, 1) = FF8 } ],
	[ update => 'cut off', sub { substr($_[0], -20) = '' } ],
	[ delete => 'only a header', sub { substr($_[0], HEADER + 8) = '' } ],
	[ delete => 'another table', sub { substr($_[0], HEADER, 6) = "\x42" x 6 } ],
	[ xid => 'left out', sub { $_[0] = undef } ],
	[ xid => 'of an unknown type', sub { substr($_[0], 4, 1) = "\x63" } ],
	[ xid => 'an incident', sub { substr($_[0], 4, 1) = "\x1a"; substr($_[0], HEADER) = "\1\0\xff\xff" } ],
	[ xid => 'a prepared XA', sub { substr($_[0], 4, 1) = "\x26"; substr($_[0], HEADER) = "\0" . "\xff" x 12 } ],
	[ payload => 'size', sub { $_[0] =~ s/^(.{19}\x02..)/$1/s; substr($_[0], HEADER) =~ s/\x01(.)(.)/"\x01\x09" . FF8/se } ],
	[ payload => 'compression', sub { substr($_[0], HEADER) =~ s/\x02\x01\x00/\x02\x01\x07/ } ],
	[ payload => 'frame of random bytes', sub { substr($_[0], -40) = "\xa5" x 40 } ],
	[ payload => 'cut off', sub { substr($_[0], -30) = '' } ],
	[ payload => 'a bomb', sub { substr($_[0], HEADER) = bomb() } ],
	[ payload => 'as plain bytes', sub { substr($_[0], HEADER) =~ s/\x02\x01\x00/\x02\x03\xfc\xff\x00/ } ],
	[ heartbeat => 'cut off', sub { substr($_[0], HEADER + 4) = '' } ],
	[ heartbeat => 'length of a field', sub { substr($_[0], HEADER, 2) = "\x01" . FF8 } ],
	# Not even the frame is right: these end in the sub that frames.
	[ xid => 'frame: length of ones', sub { $_[1]{length} = 0xffffffff } ],
	[ map => 'frame: length 0', sub { $_[1]{length} = 0 } ],
	[ insert => 'frame: checksum', sub { $_[1]{crc} = 1 } ],
	[ gtid => 'frame: shorter than a header', sub { substr($_[0], 7) = ''; $_[1]{length} = 11 } ],
	[ query => 'frame: another packet', sub { $_[1]{first} = "\x01" } ],
	[ query => 'frame: an error packet', sub { $_[1]{first} = "\xff" } ],
	[ map => 'frame: an empty packet', sub { $_[1]{first} = ''; $_[0] = undef } ],
);

# Events of 1 GB and more, in 10 kB: 2500 blocks of 128 kB of zeros behind a header.
sub bomb
{
	my $header = pack('VCVVVv', 0, 29, 7, 0x3f000000, 0, 0);
	my $frame = "\x28\xb5\x2f\xfd\x00\x50" . substr(pack('V', length($header) << 3), 0, 3) . $header
	  . (substr(pack('V', 131072 << 3 | 2), 0, 3) . "\0") x 2500 . substr(pack('V', 131072 << 3 | 3), 0, 3) . "\0";

	return "\x02\x01\x00\x03\x09\xfe" . "\xff\xff\xff\x10" . "\0" x 4 . "\x01\x09\xfe" . pack('VV', length $frame, 0) . "\0" . $frame;
}

sub framed
{
	my ($event, $frame) = @_;

	return ($frame->{first} // "\0") unless defined $event;
	$event .= "\0" x 4;
	substr($event, 9, 4) = pack('V', $frame->{length} // length $event) if length $event >= 13;
	substr($event, -4) = pack('V', crc32(substr($event, 0, -4)) ^ ($frame->{crc} // 0));
	return ($frame->{first} // "\0") . $event;
}

# Which schema a proxy's pipeline follows: the alterations below leave the rows of others alone.
sub alter_event
{
	my ($schema, $which, $connection, $packet) = @_;

	return $packet unless ($connection->{command} // 0) == 30 && length $packet > 1 + HEADER + 4 && substr($packet, 0, 1) eq "\0";
	my ($type, $name, $code);
	my $event = substr($packet, 1, -4);
	my $found = ord(substr($event, 4, 1));
	my %frame;

	$connection->{mine} = index($event, "\2$schema\0") > 0 if $found == $TYPE{map};	# 2: the length of the name
	if ($which =~ /^random (\d+)$/)
	{
		my $seed = $1;
		return $packet if $found == 15 || $found == 35 || (!$connection->{mine} && $found =~ /^(?:30|31|32)$/);
		srand($seed * 1000 + $connection->{packet});
		return $packet if rand() < 0.5;
		# Not the identity of the transaction, nor its time, by which it would be told from another of the same GTID later; nor values of rows.
		my $from = $found == 33 ? HEADER + 25 : HEADER;
		my $to = $found == 33 ? HEADER + 42 : $found =~ /^(?:30|31|32)$/ ? HEADER + 13 : length $event;
		return $packet if $from >= $to;
		substr($event, $from + int(rand($to - $from)), 1) = chr(int rand 256) for 0 .. int rand 3;
		substr($event, -1 - int(rand 10)) = '' if rand() < 0.2 && $found != 33;
		return framed($event, {});
	}
	($type, $name, $code) = @{ $ATTACKS[$which] };
	return $packet if $found != $TYPE{$type};
	return $packet if $type =~ /^(?:insert|update|delete)$/ && !$connection->{mine};
	return $packet if $type eq 'map' && !$connection->{mine};
	# The rotate event that begins a dump has no checksum of the file's.
	$code->($event, \%frame);
	return () if !defined $event && !exists $frame{first};
	return framed($event, \%frame);
}

# ---- answers to queries ----

# What becomes of an answer's packets: 1 is the number of columns, then their definitions, EOF, rows, EOF.
my %ANSWERS = (
	'no columns' => sub { my ($n, $p) = @_; $n == 1 ? "\0\0\0\2\0\0\0" : $p },
	'one column' => sub { my ($n, $p) = @_; $n == 1 ? "\1" : $p },
	'many columns' => sub { my ($n, $p) = @_; $n == 1 ? FF8 : $p },
	'a file' => sub { my ($n, $p) = @_; $n == 1 ? "\xfb/etc/passwd" : $p },
	'a short first packet' => sub { my ($n, $p) = @_; $n == 1 ? "\xfc" : $p },
	'an error' => sub { my ($n, $p) = @_; $n == 1 ? "\xff" . pack('v', 1064) . "#42000\xff\xfe" : $p },
	'an error cut off' => sub { my ($n, $p) = @_; $n == 1 ? "\xff" : $p },
	'a definition cut off' => sub { my ($n, $p) = @_; $n == 2 ? substr($p, 0, 5) : $p },
	'a definition of ones' => sub { my ($n, $p) = @_; $n == 2 ? "\xff" x length $p : $p },
	'a length in a definition' => sub { my ($n, $p) = @_; $n == 2 ? FF8 . $p : $p },
	'nulls' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? "\xfb" x $columns : $p },
	'a length in a row' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? FF8 . $p : $p },
	'a row cut off' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? substr($p, 0, length($p) / 2) : $p },
	'bytes in a row' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? "\3\xff\0\xfe" x $columns : $p },
	'large numbers in a row' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? "\x0a2147483647" x $columns : $p },
	'no rows' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? () : $p },
	'each row twice' => sub { my ($n, $p, $columns) = @_; is_row(@_) ? ($p, $p) : $p },
);

sub is_row
{
	my ($n, $packet, $columns) = @_;
	return $columns > 0 && $n > $columns + 2 && !(length $packet < 9 && substr($packet, 0, 1) eq "\xfe");
}

# $which: "name of the alteration/number of the query, or 0 for all": queries are counted from the connection's first.
sub alter_answer
{
	my ($which, $connection, $packet) = @_;
	my ($how, $number) = split m{/}, $which;
	my $query = ($connection->{command} // 0) == 3 && $connection->{query} =~ /^\s*(?:SELECT|SHOW|XA RECOVER)/i;

	return $packet unless $query;
	if ($connection->{packet} == 1)
	{
		$connection->{number}++;
		$connection->{columns} = ord($packet) < 0xfb ? ord($packet) : 0;
	}
	return $packet if $number && $number != $connection->{number};
	if ($how eq 'flood')
	{
		# Column definitions without an end: more than is taken.
		return $connection->{packet} == 2 ? [ 'x' x 60_000, 700 ] : $packet;
	}
	return $ANSWERS{$how}->($connection->{packet}, $packet, $connection->{columns});
}

# The greeting, and what follows it.
my %GREETINGS = (
	'empty' => sub { '' },
	'cut off' => sub { substr($_[0], 0, 9) },
	'of ones' => sub { "\xff" x 200 },
	'without an end' => sub { "\x0a" . 'x' x 100_000 },
	'another version' => sub { "\x0a" . "9" x 300 . ".7.4\0" . substr($_[0], index($_[0], "\0") + 1) },
	'flood' => sub { ([ 'x' x 65536, 400 ]) },
	'an OK' => sub { "\0\0\0\2\0\0\0" },
);

sub alter_any
{
	my ($schema, $how, $connection, $packet) = @_;

	return alter_event($schema, $1, $connection, $packet) if $how =~ /^event (.*)/;
	return alter_answer($1, $connection, $packet) if $how =~ /^answer (.*)/;
	return $packet if defined $connection->{command};
	return $GREETINGS{$1}->($packet) if $how =~ /^greeting (.*)/ && $connection->{packet} == 1;
	return "\xfemysql_clear_password\0" if $how eq 'clear password' && $connection->{packet} == 2;
	return "\xff" if $how eq 'no authentication' && $connection->{packet} == 2;
	return $packet;
}

# ---- source and target ----

my $my = CapstanTest::MySQL->start;
my $pg = CapstanTest::Postgres->start(conf => { max_worker_processes => 60 });
my $started = $pg->value('SELECT pg_postmaster_start_time()');

my $table = q{(id INT PRIMARY KEY, v VARCHAR(50), n INT, b BLOB, d DECIMAL(20,5), e ENUM('x','y'), j JSON)};
my $row = q{'text', 1, x'00ff', 1.5, 'y', '{"a": [1, 2]}'};
# All of one length, see alter_event.
my @names = map { "h$_" } 0 .. $NPIPELINES - 1;
$my->sql(join "\n", map { "CREATE DATABASE $_; CREATE TABLE $_.t $table; INSERT INTO $_.t VALUES (1, $row), (2, $row), (3, $row);" } @names, 'straight');
$my->grant;
$pg->safe_psql('CREATE EXTENSION capstan');
$pg->create_server('source', $my);
my %proxy;
for my $name (@names, 'session')
{
	$proxy{$name} = CapstanTest::Proxy->start($my->host, $my->port, alter => sub { alter_any($name, @_) });
	$pg->safe_psql(sprintf q{
		CREATE SERVER %s FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '%s', ssl_mode 'disabled', read_timeout '5', connect_timeout '5');
		CREATE USER MAPPING FOR CURRENT_USER SERVER %s OPTIONS (user 'capstan', password 'sesam')}, $name, $proxy{$name}->port, $name);
}
$pg->safe_psql(join "\n", "SELECT capstan.create_pipeline('straight', server => 'source', tables => '{straight.t}');",
	(map { "SELECT capstan.create_pipeline('$_', server => '$_', tables => '{$_.t}');" } @names),
	map { "SELECT capstan.start_pipeline('$_');" } @names, 'straight');
$pg->safe_psql(join "\n", map { "SELECT capstan.wait_for_snapshot('$_', timeout => '180 s'); SELECT capstan.wait_for_source('$_', timeout => '180 s');" } @names, 'straight');

# The straight one has something to do all the time. Long statements, so that few of them wait in the pipe.
my $pad = '/* ' . 'x' x 4000 . ' */';
my $writer = $my->writer(sub { my ($n) = @_; "DO SLEEP(0.02); $pad REPLACE INTO straight.t VALUES (" . ($n % 50) . ", 'v$n', $n, NULL, NULL, 'x', NULL)" });

# What may come out of an attack.
my %ALLOWED = map { $_ => 1 } qw(CA001 CA002 CA003 CA004 CA005 CA006 CA010 CA011 CA012 CA015 CA016 CA017 08001 08006 08P01 0A000 HV000 HV00N 28P01 53200 54000);

sub source_contents
{
	return map { $_->[0] => $_->[1] } $my->query(join ' UNION ALL ', map {
		"SELECT '$_', (SELECT GROUP_CONCAT(CONCAT_WS('|', id, v, n, HEX(b), d, e) ORDER BY id) FROM $_.t)" } @names);
}

sub target_contents
{
	return map { $_->[0] => $_->[1] } $pg->query(join ' UNION ALL ', map {
		"SELECT '$_', (SELECT string_agg(concat_ws('|', id, v, n, upper(encode(b, 'hex')), d, e), ',' ORDER BY id) FROM $_.t)" } @names);
}

# state, number of incidents, the last SQLSTATE, is everything applied
sub look
{
	my ($executed) = @_;
	return map { $_->[0] => [ @$_[1 .. 4] ] } $pg->query(qq{
		SELECT p.name, s.state, (SELECT coalesce(sum(occurrences), 0) FROM capstan.incident i WHERE i.pipeline = p.name),
		  (SELECT sqlstate FROM capstan.incident i WHERE i.pipeline = p.name ORDER BY last_at DESC, id DESC LIMIT 1),
		  coalesce(g.applied OPERATOR(capstan.@>) '$executed', false)
		FROM capstan.pipeline p JOIN capstan.pipeline_status s ON s.pipeline = p.name
		LEFT JOIN capstan.pipeline_progress g ON g.pipeline_id = p.id});
}

# Stopped, and their workers gone: a failure of one of those must not halt what is started next.
sub stop_pipelines
{
	$pg->safe_psql(join "\n", map { "SELECT capstan.stop_pipeline('$_');" } @_);
	my $list = join ', ', map { "'$_'" } @_;
	$pg->poll_query_until("SELECT count(*) FROM capstan.worker_stats() w JOIN capstan.pipeline p ON p.id = w.pipeline_id WHERE w.pid IS NOT NULL AND p.name IN ($list)", 0);
}

my $next = 100;

# Each name's proxy gets its alteration; two transactions of each are written; all is well again. %$attack: name => what to tell
# the proxy. again: start the pipelines under attack, for what happens when they connect.
sub attack
{
	my ($attack, %opt) = @_;
	my @attacked = sort keys %$attack;
	my %before = source_contents();
	my %seen = look('');
	my ($id, %now, %done) = ($next++);
	my %compressed = map { $_ => $attack->{$_} =~ /^event (\d+)$/ && $ATTACKS[$1][0] eq 'payload' } @attacked;

	stop_pipelines(@attacked) if $opt{again};
	$proxy{$_}->alter($attack->{$_}) for @attacked;
	$my->sql(join "\n", map { "SET binlog_transaction_compression = " . ($compressed{$_} ? 'ON' : 'OFF') . "; BEGIN; INSERT INTO $_.t VALUES ($id, $row);
		UPDATE $_.t SET n = n + 1, j = '{\"a\": 3}' WHERE id = 1; DELETE FROM $_.t WHERE id = $id - 1; COMMIT; UPDATE $_.t SET v = 'v$id' WHERE id = 2;" } @attacked);
	$pg->safe_psql(join "\n", map { "SELECT capstan.start_pipeline('$_');" } @attacked) if $opt{again};
	my $executed = $my->gtid_executed;
	my %after = source_contents();
	poll_until {
		%now = look($executed);
		for my $name (@attacked)
		{
			$done{$name} //= $now{$name}[2] if $now{$name}[1] > $seen{$name}[1];
			$done{$name} //= 'applied' if $now{$name}[3] eq 't';
		}
		return keys %done == @attacked;
	};
	my %target = target_contents();
	$proxy{$_}->pass for @attacked;
	# Also those that wait for their next try.
	stop_pipelines(@attacked);
	$pg->safe_psql(join "\n", map { "SELECT capstan.start_pipeline('$_');" } @attacked);
	my ($rc, $out, $err) = $pg->psql(join "\n", map { "SELECT capstan.wait_for_source('$_', timeout => '180 s');" } @attacked);
	my %end = target_contents();
	for my $name (@attacked)
	{
		my $title = $opt{title}{$name} // $attack->{$name};
		my $outcome = $done{$name} // 'nothing';
		subtest "$title: $outcome" => sub {
			ok($outcome eq 'applied' || $ALLOWED{$outcome}, "an incident with a SQLSTATE, or it was applied")
			  or diag("state $now{$name}[0]\n" . join "\n", map { join ' ', map { $_ // '' } @$_ } $pg->query("SELECT severity, sqlstate, message, detail FROM capstan.incident WHERE pipeline = '$name' ORDER BY last_at DESC LIMIT 2"));
			# The first of the two transactions, or both, or none.
			(my $first = $after{$name}) =~ s/(^|,)2\|v$id/$1 . ($before{$name} =~ m{(?:^|,)(2\|[^|]*)} ? $1 : '')/e;
			ok(scalar(grep { $target{$name} eq $_ } $before{$name}, $first, $after{$name}), 'the target has what was there before or after')
			  or diag("before $before{$name}\nafter $after{$name}\ntarget $target{$name}");
			is($end{$name}, $after{$name}, 'once the source is honest, contents are equal');
			diag($err) if $rc != 0;
		};
	}
	unlike($pg->log, qr/terminated by signal|server process .* was terminated|reinitializing/, 'no backend has crashed')
	  or BAIL_OUT("under attack: " . join ', ', values %$attack);
	return;
}

# ---- the dump ----

my @todo = 0 .. $#ATTACKS;
while (my @some = splice @todo, 0, $NPIPELINES)
{
	my (%attack, %title);

	for my $i (0 .. $#some)
	{
		$attack{ $names[$i] } = "event $some[$i]";
		$title{ $names[$i] } = "event $ATTACKS[$some[$i]][0]: $ATTACKS[$some[$i]][1]";
	}
	# These come once, at the beginning of a dump.
	attack(\%attack, title => \%title, again => scalar grep { $ATTACKS[$_][0] =~ /^(?:format|rotate)$/ } @some);
}
if ($ENV{CAPSTAN_LONG})
{
	for my $round (0 .. 400 / $NPIPELINES)
	{
		attack({ map { $names[$_] => 'event random ' . ($round * $NPIPELINES + $_ + 1) } 0 .. $#names }, again => 1);
	}
}

# ---- the queries of a pipeline that connects ----

my @connecting = ('greeting of ones', 'greeting cut off', 'greeting flood', 'clear password', 'no authentication',
	map { "answer $_/0" } sort(keys %ANSWERS), 'flood');
while (my @some = splice @connecting, 0, $NPIPELINES)
{
	attack({ map { $names[$_] => $some[$_] } 0 .. $#some }, again => 1);
}

# ---- a session's own queries ----

sub ask
{
	my ($how, $sql) = @_;

	$proxy{session}->alter($how);
	my ($rc, $out, $err) = $pg->psql("SET statement_timeout = '120 s'; $sql", options => [ '-v', 'VERBOSITY=verbose' ]);
	$proxy{session}->pass;
	return $rc == 0 ? 'answered' : $err =~ /ERROR:  (\w{5}):/ ? $1 : "lost: $err";
}

my $preflight = q{SELECT count(*) FROM capstan.preflight('session', '{straight.t}')};
my %outcomes;
for my $how ((map { "greeting $_" } sort keys %GREETINGS), 'clear password', 'no authentication',
	map { my $number = $_; map { "answer $_/$number" } sort(keys %ANSWERS), $number == 2 ? 'flood' : () } ($ENV{CAPSTAN_LONG} ? (1 .. 30) : (1, 3, 6, 12)))
{
	my $outcome = ask($how, $preflight);
	push @{ $outcomes{$outcome} }, $how;
}
note("$_: " . scalar(@{ $outcomes{$_} })) for sort keys %outcomes;
is_deeply([ grep { !/^answered$/ && (!/^\w{5}$/ || /^57/) } sort keys %outcomes ], [], 'preflight: answers, or errors with a SQLSTATE and in time')
  or diag(join "\n", map { my $outcome = $_; map { "$_: $outcome" } @{ $outcomes{$outcome} } } grep { !/^answered$/ && (!/^\w{5}$/ || /^57/) } keys %outcomes);
is(ask('pass', $preflight), 'answered', '... and answers once the source is honest');

# ---- all in all ----

$writer->stop;
$pg->safe_psql("SELECT capstan.wait_for_source('$_', timeout => '180 s')") for @names, 'straight';
tables_equal($my, $pg, [ map { "$_.t" } @names, 'straight' ], 'at the end');
is($pg->incidents("pipeline = 'straight'"), '', 'the straight pipeline had no incident');
is($pg->value('SELECT pg_postmaster_start_time()'), $started, 'Postgres was never restarted');
unlike($pg->log, qr/terminated by signal|was terminated|reinitializing/, 'and no process was terminated');
unlike($pg->log, qr{root:x:0:|\bsesam\b}, 'neither file nor password is anywhere');

done_testing();
