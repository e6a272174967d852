# How fast it is, side by side with others, in one run on this machine.
#
#     make bench [SCENARIOS='copy stream'] [ROWS=1000000] [REPEAT=3]
#     make bench DOCUMENT=1                              puts the tables into doc/performance.md and the curves into doc/growth.svg, too
#     make bench SCENARIOS=stream KINDS='1000 rows'      of the stream only these kinds of changes, a regular expression; updates need
#                                                        the rows of the inserts before them
#     make bench SCENARIOS=copy WAYS='COPY|start-up|capstan, 1'      of the copy only these ways
#
# Tables in Markdown, as in doc/performance.md, which says how each is measured; also in build/bench. Each scenario ends with
# a comparison of contents, and the exit code is 0 only if all were equal.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../scale", "$FindBin::Bin";
use Test::More;
use Time::HiRes qw(time);
use CapstanTest;
use Bench;
use BenchCopy;
use BenchGrowth;
use BenchLive;
use BenchProfile;
use BenchStream;

my %SCENARIO = (
	copy => \&BenchCopy::run, stream => \&BenchStream::run, backlog => \&BenchStream::backlog, latency => \&BenchLive::latency, locks => \&BenchLive::locks,
	growth => \&BenchGrowth::run, idle => \&BenchLive::idle, profile => \&BenchProfile::run);
my @ORDER = qw(idle copy locks latency stream backlog growth profile);

$| = 1;
my @scenarios = split ' ', $ENV{SCENARIOS} || "@ORDER";
for (@scenarios) { die "no such scenario: $_ (there are: @ORDER)\n" unless $SCENARIO{$_} }
my $bench = Bench->new(rows => $ENV{ROWS} || 1_000_000, repeat => $ENV{REPEAT} || 3, kinds => $ENV{KINDS}, ways => $ENV{WAYS});
my $machine = $bench->machine;

print "$machine\n";
$bench->write('machine.md', "$machine\n");
for my $scenario (@scenarios)
{
	my $start = time;

	unless (eval { $SCENARIO{$scenario}->($bench); 1 })
	{
		my $error = $@;

		fail("scenario $scenario");
		diag($error);
		# what comes next would stand on what this one has left
		last;
	}
	printf "# %s took %.0f s\n", $scenario, time - $start;
}
$bench->document if $ENV{DOCUMENT};
done_testing();
