# make bench, the profile: where a copy worker and a streaming pipeline worker spend their time, by groups of functions.
#
# perf samples the process 997 times a second of CPU (cpu-clock) while it works. Functions of capstan count for the folder of src/ whose
# object has them; those of Postgres by their names, of which a stripped binary has none
# for static ones; the rest by library.

package BenchProfile;

use strict;
use warnings;
use utf8;

use File::Temp ();
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use Bench;
use StreamLoad;

# Postgres' own, the first that fits.
my @POSTGRES = (
	[ qr/^(?:XLog|Xlog|CopyXLog|WAL|pg_comp_crc32c|GetXLog|AdvanceXL|Reserve|LogCurrentRunningXacts)/, 'Postgres: WAL' ],
	[ qr/^(?:_bt_|bt|index_|FormIndexDatum|ExecInsertIndexTuples|index|systable_)/, 'Postgres: index' ],
	[ qr/^(?:heap|Heap|RelationPutHeapTuple|RelationGetBufferForTuple|Page|page|table_|tts_|slot_|toast|Toast|pglz|visibilitymap|compactify|nocachegetattr|fill_val|HeapTuple)/, 'Postgres: heap, TOAST, tuples' ],
	[ qr/^(?:Buf|ReadBuffer|PinBuffer|UnpinBuffer|LockBuffer|ReleaseBuffer|MarkBuffer|LWLock|hash_|Lock|UnlockBuffer|ResourceOwner|GetPrivateRefCount|StartBufferIO|smgr|md|File|tag_hash|hash_bytes|SpinLock|s_lock|ExtendBuffered|IncrBufferRefCount|ReadBuffer_common|StrategyGetBuffer|ReleaseAndReadBuffer)/, 'Postgres: buffers, locks' ],
	[ qr/^(?:Alloc|palloc|pfree|repalloc|MemoryContext|Generation|Slab|MemoryChunk)/, 'Postgres: memory' ],
	[ qr/^(?:Exec|exec|SPI|_SPI|Plan|Portal|Executor|standard_Executor|Invalid|Acquire|Release|Relation|relation|CatCache|Search|SearchSysCache|ScanKey|Snapshot|GetSnapshotData|Transaction|Commit|Start|Xact|Record|ProcArray|Get|TransactionId|At|pgstat)/, 'Postgres: executor, catalogs, transactions' ],
	[ qr/./, 'Postgres: other, and functions without a name' ]);

my %SOURCE = (
	binlog => 'capstan: decoding (binlog/)', base => 'capstan: bytes, GTID sets (base/)', wire => 'capstan: connection (wire/)', map => 'capstan: converting (map/)', apply => 'capstan: writing rows (apply/)',
	worker => 'capstan: stream, groups, ranges (worker/)', meta => 'capstan: own catalog (meta/)', snapshot => 'capstan: read views (snapshot/)', src => 'capstan: rows (row.c)', sqlapi => 'capstan: SQL functions');

sub run
{
	my ($bench) = @_;
	my $db = $bench->database('profile');
	my (@columns, %share);

	if ((CapstanTest::run_command([ 'perf', 'record', '-q', '-e', 'cpu-clock', '-o', '/dev/null', 'true' ]))[0] != 0)
	{
		$bench->table('profile', ['where'], [ ['perf is not installed, or may not be used'] ]);
		return {};
	}
	_copy($bench, $db, \@columns, \%share);
	_stream($bench, $db, \@columns, \%share);
	my @groups = sort { ($share{$b}{ $columns[0] } // 0) <=> ($share{$a}{ $columns[0] } // 0) || $a cmp $b } keys %share;
	$bench->table('profile', [ 'share of the CPU time, %', @columns ], [ map { my $group = $_; [ $group, map { sprintf '%.1f', $share{$group}{$_} // 0 } @columns ] } @groups ],
		'Where the time goes (perf, cpu-clock); each column is one process.');
	$bench->pg->safe_psql('DROP DATABASE profile');
	return \%share;
}

sub _copy
{
	my ($bench, $db, $columns, $share) = @_;
	my $rows = $bench->rows;

	$bench->my->sql("CREATE DATABASE profile; USE profile; SET SESSION sql_log_bin = 0; CREATE TABLE plain (id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, a VARCHAR(120) NOT NULL, b VARCHAR(60) NOT NULL);"
		  . "INSERT INTO plain SELECT n, n * 7, LEFT(SHA2(n, 512), 120), LEFT(SHA2(-n, 256), 60) FROM lib.m WHERE n <= $rows; ANALYZE NO_WRITE_TO_BINLOG TABLE plain");
	$bench->set($db, 'capstan.copy_workers' => 1);
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{profile.plain}')");
	$bench->start_pipeline($db);
	_perf($bench, qr/capstan copy/, sub { $db->safe_psql("SELECT capstan.wait_for_snapshot('p', timeout => '900 s')") }, 'copy worker', $columns, $share);
	tables_equal($bench->my, $db, ['profile.plain'], 'profile of the copy');
	$bench->drop_pipeline($db);
	$bench->my->sql('DROP DATABASE profile');
}

sub _stream
{
	my ($bench, $db, $columns, $share) = @_;
	my $mark = 0;

	$bench->my->sql(StreamLoad::mysql_tables($bench));
	$db->safe_psql("SET client_min_messages = error; SELECT capstan.create_pipeline('p', server => 'source', tables => '{bench.*}')");
	$bench->start_pipeline($db);
	$db->safe_psql("SELECT capstan.wait_for_snapshot('p')");
	$bench->stop_pipeline($db);
	for my $kind (grep { $_->{name} =~ /^(?:inserts|updates), 1000 rows|^single-row (?:inserts|updates)$|100 columns/ } StreamLoad::kinds($bench))
	{
		$bench->my->sql("USE lib; $_") for @{ $kind->{mysql} };
		$bench->my->sql('INSERT INTO bench.mark VALUES (' . ++$mark . ", 'profile')");
		$bench->start_pipeline($db);
		_perf($bench, qr/capstan pipeline/, sub { $db->poll_query_until("SELECT count(*) FROM bench.mark WHERE id = $mark", 1, 900) or die "the mark does not come\n" }, "stream: $kind->{name}", $columns, $share);
		tables_equal($bench->my, $db, [ map { "bench.$_" } @{ $kind->{tables} } ], "profile of $kind->{name}");
		$bench->stop_pipeline($db);
	}
	$bench->drop_pipeline($db);
	$bench->my->sql('DROP DATABASE bench');
}

# Samples the process whose title matches, from when it is there until $until->() is done.
sub _perf
{
	my ($bench, $title, $until, $name, $columns, $share) = @_;
	my $data = File::Temp->new(TEMPLATE => 'capstan-perf.XXXXXX', TMPDIR => 1);
	my $pid;

	poll_until { ($pid) = $bench->pg->worker_pids($title) } or die "no process to look at\n";
	# it stands still until perf looks at it
	kill('STOP', $pid);
	my $perf = CapstanTest::spawn([ 'perf', 'record', '-q', '-e', 'cpu-clock', '-F', 997, '-o', "$data", '-p', $pid ]);
	sleep 1;
	kill('CONT', $pid);
	$until->();
	kill('INT', $perf);
	CapstanTest::reap($perf);
	my ($rc, $out, $err) = CapstanTest::run_command([ 'perf', 'report', '-i', "$data", '--stdio', '--no-children', '-q', '-F', 'overhead,dso,symbol', '-t', '|' ]);
	return unless $rc == 0;
	push @$columns, $name;
	my $home = _homes();
	for my $line (split /\n/, $out)
	{
		my ($percent, $dso, $symbol) = $line =~ /^\s*([\d.]+)%?\s*\|\s*(\S+)\s*\|\s*\[.\]\s*(\S+)/ or next;

		$share->{ _group($dso, $symbol, $home) }{$name} += $percent;
	}
}

sub _group
{
	my ($dso, $symbol, $home) = @_;

	return 'kernel' if $dso =~ /^\[/;
	return $SOURCE{ $home->{$symbol} // '' } // 'capstan: other' if $dso =~ /^capstan/;
	if ($dso eq 'postgres')
	{
		for my $rule (@POSTGRES) { return $rule->[1] if $symbol =~ $rule->[0] }
	}
	return 'client library' if $dso =~ /mariadb|mysqlclient/;
	return 'TLS' if $dso =~ /ssl|crypto/;
	return 'C library: copying, allocating' if $dso =~ /^libc[.-]/;
	return "other: $dso";
}

# Function of ours => folder of src/.
my %home;

sub _homes
{
	return \%home if %home;
	my (undef, $out) = CapstanTest::run_command([ 'nm', '-A', '--defined-only', glob "$CapstanTest::TOP/src/*.o $CapstanTest::TOP/src/*/*.o" ]);

	while ($out =~ m{([^/\n]+)/[^/\n]+\.o:\S+ [tT] (\S+)$}mg) { $home{$2} = $1 }
	# names that the compiler has made of others
	for my $symbol (keys %home) { (my $plain = $symbol) =~ s/\.(?:part|isra|constprop|cold).*//; $home{$plain} //= $home{$symbol} }
	return \%home;
}

1;
