# Copies of odd sizes: no row, one, exactly a range, keys at the ends; values of 200 MB; names
# that the source folds.
#
# Why: the edges of ranges are where rows are lost or copied twice; a value may be as
# large as Postgres allows; where names are folded the wrong table may be taken.
# How: tables of 0, 1, n - 1, n, n + 1 and 2n rows for ranges of n rows, keys at the limits of their
# type, keys whose index runs up and down, one that is long, one whose index is invisible; a row of 200 MB by the copy and by the stream; a source with lower_case_table_names = 1.
# Asserted: contents; no range larger than allowed; memory of the workers.
# Not asserted: keys of other kinds (055), locks (021).

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl";
use Test::More;
use Time::HiRes qw(sleep time);
use CapstanTest;
use CapstanTest::BothWays;

my $N = 30;
my $my = CapstanTest::MySQL->start(options => [ '--max-allowed-packet=1G', '--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0', '--innodb-doublewrite=OFF', '--innodb-redo-log-capacity=1G',
		'--innodb-buffer-pool-size=800M', '--binlog-cache-size=500M' ]);
my $pg = CapstanTest::Postgres->start(measured => 1, conf => { 'capstan.max_range_rows' => $N, shared_buffers => "'16MB'", max_wal_size => "'4GB'" });

$my->grant;
# Ranges that are planned are noted: a lock may have to be taken again for one, where the machine stood still.
$pg->safe_psql(q{
	CREATE EXTENSION capstan;
	CREATE TABLE planned (table_id int8);
	CREATE FUNCTION note_planned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.planned VALUES (NEW.table_id); RETURN NEW; END $$;
	CREATE TRIGGER planned AFTER INSERT ON capstan.copied_range FOR EACH ROW WHEN (NEW.gtid_set IS NULL) EXECUTE FUNCTION note_planned();
	ALTER TABLE capstan.copied_range ENABLE ALWAYS TRIGGER planned});
$pg->create_server('source', $my);

# Sizes around a range, with a key of each sort of paging; the last range's end is the table's end.
my @sizes = (0, 1, 2, $N - 1, $N, $N + 1, 2 * $N - 1, 2 * $N, 2 * $N + 1, 4 * $N);
my $sql = "CREATE DATABASE s; USE s; SET sql_mode = '', cte_max_recursion_depth = 10000;
	CREATE TABLE seq (n INT PRIMARY KEY); INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 999) SELECT n FROM s;";
for my $size (@sizes)
{
	$sql .= "CREATE TABLE i$size (id INT PRIMARY KEY); INSERT INTO i$size SELECT n FROM seq WHERE n < $size; ANALYZE TABLE i$size;\n"
	  . "CREATE TABLE c$size (k VARCHAR(10) COLLATE utf8mb4_general_ci, n INT, PRIMARY KEY (k, n)); INSERT INTO c$size SELECT ELT(n % 3 + 1, 'a', 'B', 'ä'), n FROM seq WHERE n < $size; ANALYZE TABLE c$size;\n";
}
$sql .= q{
	CREATE TABLE ends (id BIGINT UNSIGNED PRIMARY KEY);
	INSERT INTO ends SELECT n FROM seq WHERE n < 100;
	INSERT INTO ends SELECT 18446744073709551615 - n FROM seq WHERE n < 100;
	INSERT INTO ends SELECT CAST(9223372036854775758 AS UNSIGNED) + n FROM seq WHERE n < 100;
	CREATE TABLE signed_ends (id BIGINT PRIMARY KEY);
	INSERT INTO signed_ends SELECT -9223372036854775808 + n FROM seq WHERE n < 100;
	INSERT INTO signed_ends SELECT 9223372036854775807 - n FROM seq WHERE n < 100;
	INSERT INTO signed_ends SELECT n - 50 FROM seq WHERE n < 100;
	CREATE TABLE ci (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY);
	INSERT INTO ci VALUES ('aaaa'), ('BBBB'), ('cccc'), ('Zzzz'), ('0000'), (''), (' b'), ('ß'), ('é'), ('_');
	INSERT INTO ci SELECT CONCAT(CHAR(IF(n % 2, 65, 97) + n % 26), n) FROM seq;
	CREATE TABLE mixed (k VARCHAR(1100) CHARACTER SET latin1, n INT, pad MEDIUMBLOB, PRIMARY KEY (k, n DESC));
	INSERT INTO mixed SELECT CONCAT(REPEAT('x', 1030), LPAD(n * 7919 % 1000, 5, '0')), n, REPEAT('p', 60000) FROM seq WHERE n < 300;
	CREATE TABLE updown (a INT, b BIGINT UNSIGNED, c VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, PRIMARY KEY (a DESC, b, c DESC));
	INSERT INTO updown SELECT n % 7, n % 11, ELT(n % 3 + 1, CONCAT('A', n), CONCAT('ä', n), CONCAT('b', n DIV 70)), n FROM seq WHERE n < 690;
	CREATE TABLE unseen (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY f ((a + b)), UNIQUE KEY (b, a) INVISIBLE); INSERT INTO unseen SELECT n, n FROM seq WHERE n < 100;
	ANALYZE TABLE ends, signed_ends, ci, mixed, updown, unseen;
};
$my->sql($sql);
my @tables = ((map { ("s.i$_", "s.c$_") } @sizes), qw(s.ends s.signed_ends s.ci s.mixed s.updown s.unseen));
start_pipeline($pg, 's', \@tables);
is($pg->value("SELECT count(*) FROM s.i0"), 0, 'an empty table is copied');
$my->sql(join '', map { "INSERT INTO s.i$_ VALUES (5000); INSERT INTO s.c$_ VALUES ('z', 5000); DELETE FROM s.i$_ WHERE id = 0; UPDATE s.c$_ SET n = n + 10000 WHERE n = 1;" } @sizes);
$my->sql("USE s; INSERT INTO ends VALUES (5000), (18446744073709550000); DELETE FROM ends WHERE id = 18446744073709551615; INSERT INTO ci VALUES ('zzzzz')");
sync_pipeline($pg, 's');
tables_equal($my, $pg, \@tables, 'odd sizes');
no_surprise($pg, 's');
my %ranges = map { $_->[0] => [ @$_[1, 2] ] } $pg->query('SELECT t.source_table, (SELECT count(*) FROM planned p WHERE p.table_id = t.id), t.rows_copied FROM capstan.pipeline_table t');
is_deeply($ranges{"i$_"}, [ 1, $_ ], "$_ rows: one range") for grep { $_ <= $N } @sizes;
cmp_ok($ranges{$_}[0], '>=', $ranges{$_}[1] / $N, "$_: no range is larger than allowed") for map { s/^s\.//r } @tables;
cmp_ok($ranges{ci}[0], '>=', 33, 'a table of text keys too is paged evenly');
drop_pipeline($pg, 's');

# A value of 200 MB.
$my->sql(q{CREATE DATABASE l; CREATE TABLE l.l (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB);
	INSERT INTO l.l VALUES (1, REPEAT('0123456789abcde€', 11650844), 'x'), (2, 'y', REPEAT(x'00ff', 8388607)), (3, 'z', REPEAT(x'00ff', 8388608))});
my $watcher = CapstanTest::spawn_code(sub {
	my %kb;
	local $SIG{TERM} = sub {
		my %most;
		for my $title (values %kb) { $most{ $title->[0] } = $title->[1] if $title->[1] > ($most{ $title->[0] } // 0) }
		CapstanTest::_spew($pg->dir . '/peaks', join '', map { "$_ $most{$_}\n" } sort keys %most);
		POSIX::_exit(0);
	};
	while (1)
	{
		for my $kind ('pipeline', 'copy')
		{
			for my $pid ($pg->worker_pids(qr/capstan $kind/))
			{
				my $status = eval { CapstanTest::slurp("/proc/$pid/status") } // next;
				$kb{"$pid"} = [ $kind, $1 ] if $status =~ /^VmHWM:\s+(\d+) kB/m;
			}
		}
		sleep(0.02);
	}
});
my $start = time();
start_pipeline($pg, 'l', ['l.l'], timeout => '600 s');
my $copied = time();
$my->sql(q{INSERT INTO l.l SELECT id + 10, t, b FROM l.l; UPDATE l.l SET b = 'changed' WHERE id = 1});
my $written = time();
sync_pipeline($pg, 'l', '600 s');
kill('TERM', $watcher);
CapstanTest::reap($watcher);
my %peak = map { split } split /\n/, CapstanTest::slurp($pg->dir . '/peaks');
diag(sprintf('a row of 200 MB: copied in %.0f s, streamed, and updated, in %.0f s; peak of the pipeline worker %.0f MB, of a copy worker %.0f MB',
		$copied - $start, time() - $written, $peak{pipeline} / 1024, $peak{copy} / 1024));
is_deeply([ $pg->query("SELECT octet_length(t), octet_length(b), encode(sha256(convert_to(t, 'UTF8')), 'hex'), encode(sha256(b), 'hex') FROM l.l WHERE id IN (2, 3, 11) ORDER BY id") ],
	[ $my->query('SELECT LENGTH(t), LENGTH(b), SHA2(t, 256), SHA2(b, 256) FROM l.l WHERE id IN (2, 3, 11) ORDER BY id') ], 'values of 200 MB are equal');
is($pg->value("SELECT count(*) FROM l.l a JOIN l.l b ON b.id = a.id + 10 AND b.t = a.t AND (b.b = a.b OR a.b = 'changed')"), 3, 'by both ways');
cmp_ok($peak{$_}, '<', 1.5e6, "the $_ worker's memory is bounded") for qw(pipeline copy);
no_surprise($pg, 'l');
drop_pipeline($pg, 'l');

# A server that folds names.
$my->destroy;
$my = CapstanTest::MySQL->start(options => ['--lower-case-table-names=1'], initialize => ['--lower-case-table-names=1']);
$my->grant;
$pg->create_server('folded', $my);
$my->sql(q{CREATE DATABASE Shop; CREATE TABLE SHOP.Orders (Id INT PRIMARY KEY, V INT); INSERT INTO shop.orders VALUES (1, 1);
	CREATE TABLE shop.`GRÖSSE` (id INT PRIMARY KEY); CREATE TABLE shop.unwanted (id INT PRIMARY KEY)});
start_pipeline($pg, 'f', [ 'SHOP.ORDERS', 'shop.GRÖ*' ], server => 'folded');
$my->sql('INSERT INTO Shop.ORDERS VALUES (2, 2); UPDATE SHOP.orders AS O SET v = 3 WHERE O.id = 1; INSERT INTO shop.`Grösse` VALUES (5); INSERT INTO SHOP.UNWANTED VALUES (1)');
sync_pipeline($pg, 'f');
is($pg->value(q{SELECT string_agg(concat("Id", ':', "V"), ' ' ORDER BY "Id") || (SELECT count(*) FROM shop."grösse") FROM shop.orders}), '1:3 2:21', 'folded names are found');
$my->sql('ALTER TABLE Shop.Unwanted ADD x INT; INSERT INTO shop.orders VALUES (3, 3)');
sync_pipeline($pg, 'f');
$my->sql('ALTER TABLE SHOP.`GRÖSSE` ADD x INT');
expect_halt($pg, 'f', 'ddl_on_captured_table', qr/ALTER TABLE SHOP/);
drop_pipeline($pg, 'f');

done_testing();
