# A private Postgres with the extension: nothing of it touches the server that the
# machine may have.
#
# The programs are a copy of what PG_CONFIG points to, in a stage folder, into which
# the extension is installed (a Postgres finds its files relative to its binary). So
# several trees can be tested on one machine and the system keeps what it has.
#
# An instance is known by the absolute path of its folder:
#     data/    PGDATA; log: the server log
#     sockdir  the folder of the socket, readable for its owner alone; port: 5432
# The superuser is "postgres", trusted on the socket; there is no TCP.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

PG_CONFIG=${PG_CONFIG:-pg_config}

# Sets PG_STAGE and PG_BIN; copies the server there when it is new or has changed.
pg_locate()
{
	local bindir stamp top

	[ -z "${PG_BIN:-}" ] || return 0
	bindir=$("$PG_CONFIG" --bindir) || die "no $PG_CONFIG: see make deps"
	if [ -n "${CAPSTAN_STAGE:-}" ]; then
		PG_STAGE=$CAPSTAN_STAGE
	else
		mkdir -p "$CAPSTAN_TOP/build"
		# The tree may lie where the user postgres cannot look.
		if postgres_can_enter "$CAPSTAN_TOP/build"; then
			PG_STAGE=$CAPSTAN_TOP/build/stage
		else
			PG_STAGE=/var/tmp/capstan-stage.$(cksum <<<"$CAPSTAN_TOP" | cut -d' ' -f1)
		fi
	fi
	[ -z "${CAPSTAN_FAULT_POINTS:-}" ] || PG_STAGE+=-faults
	PG_BIN=$PG_STAGE$bindir
	stamp="$("$PG_CONFIG" --version) $(stat -c %Y "$bindir/postgres")"
	# Extensions that tests use (deps.sh) may have been installed since.
	for top in postgis vector mysql_fdw; do
		[ ! -e "$("$PG_CONFIG" --sharedir)/extension/$top.control" ] || stamp+=" $top"
	done
	[ "$(cat "$PG_STAGE/stamp" 2>/dev/null)" != "$stamp" ] || return 0
	(
		flock 8
		[ "$(cat "$PG_STAGE/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
		for top in "$bindir" "$("$PG_CONFIG" --pkglibdir)" "$("$PG_CONFIG" --sharedir)"; do
			mkdir -p "$PG_STAGE$top"
			rm -rf "${PG_STAGE:?}$top"
			cp -a "$top" "$PG_STAGE$top"
		done
		echo "$stamp" >"$PG_STAGE/stamp"
	) 8>"$PG_STAGE.lock" || die "copying the server to $PG_STAGE failed"
}

# Build the tree and install it into the stage. With CAPSTAN_FAULT_POINTS set that is a stage of its own, and a build
# with fault points (src/worker/fault.h), in a copy of the tree.
pg_install_extension()
{
	pg_locate
	[ -z "${CAPSTAN_FAULT_POINTS:-}" ] || {
		pg_install_fault_points
		return
	}
	(
		flock 8
		# Not a child of the make that called us: its flags are not meant for this one.
		unset MAKEFLAGS MFLAGS MAKELEVEL
		quietly make -s -C "$CAPSTAN_TOP" -j"$(nproc)" --no-print-directory PG_CONFIG="$PG_CONFIG" all &&
			quietly make -C "$CAPSTAN_TOP" --no-print-directory PG_CONFIG="$PG_CONFIG" \
				DESTDIR="$PG_STAGE" install
	) 8>"$PG_STAGE.lock" || die "building the extension failed"
}

# Objects of the tree are taken over, but for those of worker/, where the fault points are.
pg_install_fault_points()
{
	local copy=$CAPSTAN_TOP/build/fault-points

	(
		flock 8
		unset MAKEFLAGS MFLAGS MAKELEVEL
		mkdir -p "$copy/src"
		quietly make -s -C "$CAPSTAN_TOP" -j"$(nproc)" --no-print-directory PG_CONFIG="$PG_CONFIG" all &&
			cp -a "$CAPSTAN_TOP"/{Makefile,capstan--*.sql,capstan.control} "$copy" &&
			cp -a "$CAPSTAN_TOP"/src/. "$copy/src" &&
			rm -f "$copy"/src/worker/*.o "$copy/capstan.so" &&
			quietly make -s -C "$copy" -j"$(nproc)" --no-print-directory PG_CONFIG="$PG_CONFIG" \
				COPT=-DCAPSTAN_FAULT_POINTS all &&
			quietly make -C "$copy" --no-print-directory PG_CONFIG="$PG_CONFIG" DESTDIR="$PG_STAGE" install
	) 8>"$PG_STAGE.lock" || die "building the extension with fault points failed"
}

# Build a module of test/modules and install it into the stage.
pg_install_module()
{
	pg_locate
	(
		flock 8
		unset MAKEFLAGS MFLAGS MAKELEVEL
		quietly make -s -C "$CAPSTAN_TOP/test/modules/$1" --no-print-directory PG_CONFIG="$PG_CONFIG" \
			DESTDIR="$PG_STAGE" all install
	) 8>"$PG_STAGE.lock" || die "building $1 failed"
}

# pg_create DIR [line of postgresql.conf...]
pg_create()
{
	local dir=$1 line sockdir

	shift
	pg_locate
	mkdir -p "$dir"
	! is_root || chown postgres: "$dir"
	chmod 700 "$dir"
	as_postgres test -w "$dir" || die "user postgres cannot reach $dir"
	# A socket's path has room for 107 bytes.
	if [ ${#dir} -lt 80 ]; then
		sockdir=$dir
	else
		sockdir=$(as_postgres mktemp -d /tmp/capstan-pg.XXXXXX)
	fi
	echo "$sockdir" >"$dir/sockdir"
	quietly as_postgres "$PG_BIN/initdb" -D "$dir/data" -U postgres -A trust \
		--encoding=UTF8 --locale=C.UTF-8 --no-sync || die "initdb failed"
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$sockdir'"
		echo "port = 5432"
		echo "shared_preload_libraries = 'capstan'"
		echo "log_line_prefix = '%m [%p] %q%a '"
		for line in "$@"; do
			echo "$line"
		done
	} >>"$dir/data/postgresql.conf"
}

# pg_start DIR: start and wait until it answers.
pg_start()
{
	pg_locate
	pg_running "$1" || pg_clear_locks "$1"
	as_postgres "$PG_BIN/pg_ctl" -D "$1/data" -l "$1/log" -w -t 120 start >/dev/null 8>&- 9>&- </dev/null || {
		tail -30 "$1/log" >&2
		die "postgres in $1 did not start"
	}
}

# After a kill: wait until the last child is gone, then remove the lock files. Postgres
# would do that itself, but takes a postmaster that is dead and not waited for by its
# parent for a running one.
pg_clear_locks()
{
	local i

	for ((i = 0; i < 600; i++)); do
		if ! pg_children_left "$1" >/dev/null; then
			i=
			break
		fi
		sleep 0.05
	done
	[ -z "$i" ] || die "a process of $1 outlives its postmaster: $(pg_children_left "$1")"
	rm -f "$1/data/postmaster.pid" "$(cat "$1/sockdir")"/.s.PGSQL.5432*
}

# pg_stop DIR [smart|fast|immediate]
pg_stop()
{
	pg_locate
	as_postgres "$PG_BIN/pg_ctl" -D "$1/data" -m "${2:-fast}" -w -t 120 stop >/dev/null 2>&1
}

pg_pid()
{
	head -1 "$1/data/postmaster.pid" 2>/dev/null
}

pg_running()
{
	alive "$(pg_pid "$1")"
}

# Kill the postmaster alone; its children find out and leave.
pg_kill()
{
	local pid

	pid=$(pg_pid "$1") || return 0
	kill -KILL "$pid" 2>/dev/null || return 0
	wait_gone "$pid" 60
}

# Is a process left whose working directory is this cluster's PGDATA? Names it.
pg_children_left()
{
	local cwd

	cwd=$(find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$(readlink -f "$1/data")" 2>/dev/null | head -1)
	[ -n "$cwd" ] || return 1
	tr '\0' ' ' <"${cwd%cwd}cmdline"
}

# pg_psql DIR [argument...]: psql as the superuser.
pg_psql()
{
	local dir=$1

	shift
	pg_locate
	"$PG_BIN/psql" -X -h "$(cat "$dir/sockdir")" -p 5432 -U postgres "$@"
}

pg_destroy()
{
	local sockdir pid

	[ -n "$1" ] && [ -d "$1" ] || return 0
	# Without pg_ctl: the programs may be gone already.
	if pg_running "$1"; then
		pid=$(pg_pid "$1")
		kill -QUIT "$pid"
		wait_gone "$pid" 20 || kill -KILL "$pid"
	fi
	sockdir=$(cat "$1/sockdir" 2>/dev/null)
	[[ $sockdir != /tmp/capstan-pg.* ]] || rm -rf "$sockdir"
	rm -rf "$1"
}

# The words of pg_psql, one a line, for callers that are no shell.
pg_psql_words()
{
	pg_locate
	printf '%s\n' "$PG_BIN/psql" -X -h "$(cat "$1/sockdir")" -p 5432 -U postgres
}

# Where tests put their instances; see mysql_sweep for "owner".
PG_BASE=${CAPSTAN_PG_BASE:-/var/tmp/capstan-pg.$(id -u)}

# pg_new NAME [line of postgresql.conf...]: pg_create in a new folder; prints it.
pg_new()
{
	local dir

	mkdir -p "$PG_BASE"
	dir=$(mktemp -d "$PG_BASE/$1.XXXXXX")
	shift
	pg_create "$dir" "$@" >&2
	echo "$dir"
}

pg_sweep()
{
	local owner

	for owner in "$PG_BASE"/*/owner; do
		[ -e "$owner" ] || continue
		alive "$(cat "$owner")" || pg_destroy "${owner%/owner}"
	done
}
