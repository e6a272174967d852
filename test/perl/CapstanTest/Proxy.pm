# A TCP proxy between capstan and a server that does what networks do.
#
#     my $proxy = CapstanTest::Proxy->start($my->host, $my->port);
#     $pg->create_server('source', $my, options => { host ..., port => $proxy->port, ssl_mode => 'disabled' });
#     $proxy->stall;                 # connections stay open, no byte gets through (half-open)
#     $proxy->slow(1e6);             # so many bytes a second get through from the server
#     $proxy->flip('marker');        # flips a bit of each "marker" that the server sends
#     $proxy->cut('marker');         # closes a connection in the middle of a "marker", each time
#     $proxy->refuse;                # ends all connections, accepts and closes new ones
#     $proxy->pass;                  # all is well again; what was held back is sent
#
# or that lies:
#
#     my $proxy = CapstanTest::Proxy->start($my->host, $my->port, alter => sub { my ($how, $connection, $packet) = @_; ... });
#     $proxy->alter('how');          # each packet that the server sends becomes what the sub returns for it
#
# The sub is called in the proxy's process, with a packet's payload, and returns any number of payloads; [payload, n] is one that is sent n
# times. $connection is a hash for it to keep things in: {command} is the code of the client's last command, {query} its text, {packet}
# the number of the packet in the answer, from 1; {command} is undefined until the client is let in.
#
# A marker must not be split over two reads, so keep it short; it is looked for in what the
# server sends, which must be in clear.

package CapstanTest::Proxy;

use strict;
use warnings;

use Carp qw(croak);
use Errno ();
use IO::Select;
use IO::Socket::INET;
use Socket qw(AF_UNIX SOCK_STREAM PF_UNSPEC);
use Time::HiRes qw(sleep);

sub start
{
	my ($class, $host, $port, %opt) = @_;
	my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 20, ReuseAddr => 1)
	  or croak "proxy: $!";
	socketpair(my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or croak "proxy: $!";
	my $self = bless { port => $listen->sockport, control => $ours }, $class;

	$ours->autoflush(1);
	$self->{pid} = CapstanTest::spawn_code(
		sub {
			close $ours;
			_serve($listen, $theirs, $host, $port, $opt{alter});
		});
	close $theirs;
	close $listen;
	return $self;
}

sub port { $_[0]{port} }
sub pass { $_[0]->_tell('pass') }
sub stall { $_[0]->_tell('stall') }
sub refuse { $_[0]->_tell('refuse') }
sub slow { $_[0]->_tell('slow', $_[1]) }
sub flip { $_[0]->_tell('flip', $_[1]) }
sub cut { $_[0]->_tell('cut', $_[1]) }
sub alter { $_[0]->_tell('alter', $_[1]) }

# Returns when the proxy has understood.
sub _tell
{
	my ($self, @words) = @_;
	my $control = $self->{control};

	print $control "@words\n" or croak "proxy: $!";
	sysread($control, my $answer, 1) == 1 or croak 'proxy: it is gone';
}

# Notes the commands that a client sends. Its first packet without a number is the first command.
sub _note_commands
{
	my ($connection, $bytes) = @_;

	$connection->{from_client} .= $bytes;
	while (length $connection->{from_client} >= 4)
	{
		my $length = unpack('V', substr($connection->{from_client}, 0, 3) . "\0");
		last if length $connection->{from_client} < 4 + $length;
		my $number = ord(substr($connection->{from_client}, 3, 1));
		my $packet = substr($connection->{from_client}, 4, $length);

		substr($connection->{from_client}, 0, 4 + $length) = '';
		next if $number != 0;
		@$connection{qw(command query packet extra)} = (ord($packet), substr($packet, 1), 0, 0);
	}
}

# The server's packets, altered.
sub _alter
{
	my ($alter, $how, $connection, $bytes) = @_;
	my $out = '';

	$connection->{from_server} .= $bytes;
	while (length $connection->{from_server} >= 4)
	{
		my $length = unpack('V', substr($connection->{from_server}, 0, 3) . "\0");
		last if length $connection->{from_server} < 4 + $length;
		my $number = ord(substr($connection->{from_server}, 3, 1));
		my $packet = substr($connection->{from_server}, 4, $length);
		my @packets;

		substr($connection->{from_server}, 0, 4 + $length) = '';
		$connection->{packet}++;
		@packets = defined $how ? $alter->($how, $connection, $packet) : ($packet);
		$number += $connection->{extra} // 0;
		$connection->{extra} += @packets - 1;
		for my $new (@packets)
		{
			my ($payload, $times) = ref $new ? @$new : ($new, 1);
			for (1 .. $times)
			{
				$out .= substr(pack('V', length $payload), 0, 3) . chr($number++ & 255) . $payload;
			}
			$connection->{extra} += $times - 1;
		}
	}
	return $out;
}

# How many of the bytes were taken. One who is sent more than he takes may go away without a word: no longer than $patience seconds are
# waited for him.
sub _write
{
	my ($socket, $bytes, $patience) = @_;
	my $sent = 0;

	$socket->blocking(0);
	while ($sent < length $bytes)
	{
		my $n = syswrite($socket, $bytes, length($bytes) - $sent, $sent);
		next if $n && ($sent += $n);
		last unless $!{EAGAIN} && IO::Select->new($socket)->can_write($patience);
	}
	$socket->blocking(1);
	return $sent;
}

sub _serve
{
	my ($listen, $control, $host, $port, $alter) = @_;
	my ($mode, $marker) = ('pass', '');
	my %peer;
	my $select = IO::Select->new($listen, $control);

	local $SIG{PIPE} = 'IGNORE';
	my $end = sub {
		for my $socket (@_)
		{
			$select->remove($socket);
			delete $peer{$socket};
			close $socket;
		}
	};
	while (1)
	{
		for my $ready ($select->can_read)
		{
			if ($ready == $control)
			{
				return unless sysread($control, my $line, 1000);
				chomp $line;
				($mode, $marker) = split / /, $line, 2;
				# While stalled nothing is read, so that what comes later is not lost.
				for my $socket (grep { ref } map { $_->{socket} } values %peer)
				{
					$mode eq 'stall' ? $select->remove($socket) : $select->add($socket);
				}
				$end->(map { $_->{socket} } values %peer) if $mode eq 'refuse';
				syswrite($control, '.');
				last;
			}
			if ($ready == $listen)
			{
				my $client = $listen->accept or next;
				my $server = $mode eq 'refuse' ? undef
				  : IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Timeout => 5);
				if (!$server)
				{
					close $client;
					next;
				}
				my $connection = { from_client => '', from_server => '', packet => 0, extra => 0 };
				$peer{$client} = { socket => $client, other => $server, from_server => 0, connection => $connection };
				$peer{$server} = { socket => $server, other => $client, from_server => 1, connection => $connection };
				$select->add($client, $server) if $mode ne 'stall';
				next;
			}
			my $end_of = $peer{$ready} or next;
			my $other = $end_of->{other};
			my $length = sysread($ready, my $bytes, 65536);
			if (!$length)
			{
				$end->($ready, $other);
				next;
			}
			if ($alter && $end_of->{from_server})
			{
				$bytes = _alter($alter, $mode eq 'alter' ? $marker : undef, $end_of->{connection}, $bytes);
			}
			elsif ($alter)
			{
				_note_commands($end_of->{connection}, $bytes);
			}
			sleep($length / $marker) if $mode eq 'slow' && $end_of->{from_server};
			my $at = $end_of->{from_server} && $mode ne 'slow' && defined $marker && $marker ne '' ? index($bytes, $marker) : -1;
			if ($at >= 0 && $mode eq 'flip')
			{
				substr($bytes, $at, 1) ^= "\x01";
			}
			my $cut = $at >= 0 && $mode eq 'cut';
			$bytes = substr($bytes, 0, $at + 1) if $cut;
			my $sent = _write($other, $bytes, $alter ? 3 : undef);
			$end->($ready, $other) if $cut || $sent < length $bytes;
		}
	}
}

1;
