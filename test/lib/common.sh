# Common ground of the shell library: where things are, how to speak, how to drop
# root. Sourced by the other files in test/lib; has no effect besides definitions.

CAPSTAN_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CAPSTAN_CACHE=${CAPSTAN_CACHE:-/var/cache/capstan}
# Ports for private MySQL servers, first-last. Postgres needs none: it listens on a
# Unix socket only.
CAPSTAN_PORTS=${CAPSTAN_PORTS:-23000-23999}

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf 'error: %s\n' "$*" >&2
	exit 1
}

is_root()
{
	[ "$(id -u)" = 0 ]
}

# Run a command that may take a while; its output is shown only if it fails.
quietly()
{
	local out rc

	out=$(mktemp)
	"$@" >"$out" 2>&1 </dev/null && rc=0 || rc=$?
	[ $rc = 0 ] || cat "$out" >&2
	rm -f "$out"
	return $rc
}

# A free TCP port on 127.0.0.1 out of CAPSTAN_PORTS. Free now is not reserved: who
# starts a server on it must be ready to try the next one.
free_port()
{
	local first=${CAPSTAN_PORTS%-*} last=${CAPSTAN_PORTS#*-} n i port

	n=$((last - first + 1))
	for ((i = 0; i < 200; i++)); do
		port=$((first + (RANDOM * 32768 + RANDOM) % n))
		if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return 0
		fi
	done
	die "no free port in $CAPSTAN_PORTS"
}

# Does a process run? One that is dead but not yet waited for by its parent does not.
alive()
{
	local state

	[ -n "${1:-}" ] || return 1
	state=$(sed -n 's/.*) \([A-Za-z]\) .*/\1/p' "/proc/$1/stat" 2>/dev/null)
	[[ -n $state && $state != [ZX] ]]
}

# Wait until a process is gone; $2 is the limit in seconds.
wait_gone()
{
	local i

	for ((i = 0; i < ${2:-60} * 20; i++)); do
		alive "$1" || return 0
		sleep 0.05
	done
	return 1
}

# May the user that runs Postgres reach and enter this directory?
postgres_can_enter()
{
	as_postgres test -x "$1" 2>/dev/null
}

# Run a command as the user that Postgres is to run as: "postgres" if we are root,
# since Postgres refuses root, else ourselves.
as_postgres()
{
	if is_root; then
		setpriv --reuid=postgres --regid=postgres --init-groups --inh-caps=-all -- \
			env HOME=/ "$@"
	else
		"$@"
	fi
}
