# A private MySQL server: found, or built, then created, started, killed, removed.
#
# A mysqld >= 8.0 on PATH is used as it is. Otherwise, on Debian, a private root is
# built from Debian unstable and kept in CAPSTAN_CACHE; mysqld runs in it by chroot,
# as "nobody", without any mount: an instance is a folder under <root>/srv.
#
# An instance is known by the absolute path of its folder:
#     data/        datadir
#     mysql.sock   socket; root@localhost comes in without a password
#     port, pid    what they say; error.log: the error log
#     options      what mysqld was started with, one a line
#
# Nothing here needs more than one caller at a time except where flock is used.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mysql_on_path()
{
	local version

	version=$(PATH=$PATH:/usr/sbin mysqld --version 2>/dev/null) || return 1
	[[ $version != *MariaDB* ]] || return 1
	version=$(sed -n 's/.*Ver \([0-9]*\)\..*/\1/p' <<<"$version")
	[ "${version:-0}" -ge 8 ] && PATH=$PATH:/usr/sbin command -v mysql >/dev/null
}

# Sets MYSQL_ROOT, '' or the private root, and MYSQL_BASE, where instances live.
mysql_locate()
{
	[ -z "${MYSQL_BASE:-}" ] || return 0
	if mysql_on_path; then
		MYSQL_ROOT=
		MYSQL_BASE=${CAPSTAN_MYSQL_BASE:-/var/tmp/capstan-mysql.$(id -u)}
		mkdir -p "$MYSQL_BASE"
	else
		MYSQL_ROOT=$CAPSTAN_CACHE/mysql-root
		[ -x "$MYSQL_ROOT/usr/sbin/mysqld" ] || mysql_build_root
		is_root || die "the private MySQL root needs chroot, so run this as root"
		MYSQL_BASE=$MYSQL_ROOT/srv
	fi
}

# The package mirror that this machine uses for Debian itself, or nothing.
debian_mirror()
{
	local uri

	uri=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian //p' | head -1)
	[ -n "$uri" ] || uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		grep -E '/debian/*$' | head -1)
	echo "$uri"
}

# debian_root NAME PACKAGES: build CAPSTAN_CACHE/NAME from Debian unstable, once.
debian_root()
{
	local root=$CAPSTAN_CACHE/$1 tmp mirror

	is_root || die "building $root needs root"
	mkdir -p "$CAPSTAN_CACHE"
	(
		# Two at once: the second finds it done.
		flock 9
		[ ! -e "$root" ] || exit 0
		say "building $root from Debian unstable (once; about a minute)"
		mirror=$(debian_mirror)
		if [ -z "$mirror" ]; then
			# apt names what it has lists of.
			quietly apt-get -qq -o DPkg::Lock::Timeout=300 update || exit 1
			mirror=$(debian_mirror)
		fi
		[ -n "$mirror" ] || die "no Debian mirror in this machine's apt sources"
		tmp=$root.tmp.$$
		trap 'rm -rf --one-file-system "$tmp"' EXIT
		rm -rf --one-file-system "$tmp"
		quietly mmdebstrap --variant=minbase --include="$2" \
			--aptopt='Acquire::Check-Valid-Until "false"' \
			--dpkgopt='path-exclude=/usr/share/doc/*' \
			--dpkgopt='path-exclude=/usr/share/man/*' \
			unstable "$tmp" "$mirror" || exit 1
		# apt's lists and archives are most of what is of no use any more.
		rm -rf "$tmp"/var/lib/apt/lists/* "$tmp"/var/cache/apt/*
		mv "$tmp" "$root"
	) 9>"$CAPSTAN_CACHE/.lock-$1" || die "building $root failed"
}

mysql_build_root()
{
	debian_root mysql-root mysql-server-core,mysql-client-core
}

# Sets MYSQL_RUN, the words that go before a program of MySQL: as nobody in the private
# root, else as ourselves (root as nobody too: mysqld wants root no more than Postgres).
mysql_prefix()
{
	mysql_locate
	if [ -n "$MYSQL_ROOT" ]; then
		MYSQL_RUN=(chroot --userspec=65534:65534 "$MYSQL_ROOT")
	elif is_root; then
		MYSQL_RUN=(env PATH="$PATH:/usr/sbin" setpriv --reuid=65534 --regid=65534 --clear-groups --)
	else
		MYSQL_RUN=(env PATH="$PATH:/usr/sbin")
	fi
}

mysql_version()
{
	mysql_prefix
	"${MYSQL_RUN[@]}" mysqld --version | sed 's/.*Ver \([^ ]*\).*/MySQL \1/'
}

# The path of an instance's folder as the server sees it.
mysql_inside()
{
	local dir

	dir=$(readlink -f "$1")
	echo "${dir#"$MYSQL_ROOT"}"
}

mysql_chown()
{
	! is_root || chown "$@"
}

# mysql_initialize DATADIR [option...]: make a data directory; the path is the server's.
mysql_initialize()
{
	local data=$1

	shift
	mysql_prefix
	"${MYSQL_RUN[@]}" mysqld --no-defaults --initialize-insecure --datadir="$data" \
		--innodb-buffer-pool-size=64M --innodb-redo-log-capacity=16M "$@"
}

# Sets MYSQL_TEMPLATE: an initialised datadir, made once per server version.
mysql_template()
{
	local version

	mysql_prefix
	version=$("${MYSQL_RUN[@]}" mysqld --version | sed -n 's/.*Ver \([0-9.]*\).*/\1/p')
	MYSQL_TEMPLATE=$MYSQL_BASE/template-$version
	[ ! -d "$MYSQL_TEMPLATE" ] || return 0
	(
		flock 9
		[ ! -d "$MYSQL_TEMPLATE" ] || exit 0
		tmp=$MYSQL_TEMPLATE.tmp.$$
		trap 'rm -rf "$tmp"' EXIT
		# of one that was killed and had this process id
		rm -rf "$tmp"
		mkdir -p "$tmp"
		mysql_chown 65534:65534 "$tmp"
		quietly mysql_initialize "$(mysql_inside "$tmp")/data" || exit 1
		# Each copy makes a server_uuid of its own.
		rm -f "$tmp/data/auto.cnf"
		mv "$tmp" "$MYSQL_TEMPLATE"
	) 9>"$MYSQL_BASE/.lock-template" || die "initialising MySQL failed"
}

# mysql_create NAME [option...]: a new instance; prints its folder. With options (those that
# a data directory is made for, such as lower_case_table_names) it is initialised anew.
mysql_create()
{
	local dir

	mysql_locate >&2
	mysql_template >&2
	dir=$(mktemp -d "$MYSQL_BASE/$1.XXXXXX")
	chmod 755 "$dir"
	mysql_chown 65534:65534 "$dir"
	if [ $# -gt 1 ]; then
		shift
		quietly mysql_initialize "$(mysql_inside "$dir")/data" "$@" >&2 || die "initialising MySQL failed"
	else
		cp -a "$MYSQL_TEMPLATE/data" "$dir/data"
	fi
	echo "$dir"
}

# mysql_start DIR PORT [option...]: start it and wait until it answers. PORT 0 means
# a free one. Without options those of the last start are used again.
mysql_start()
{
	local dir=$1 port=$2 try inside from

	shift 2
	mysql_prefix
	inside=$(mysql_inside "$dir")
	if [ $# -gt 0 ] || [ ! -e "$dir/options" ]; then
		printf '%s\n' "$@" >"$dir/options"
	fi
	for try in {1..20}; do
		[ "$port" != 0 ] && echo "$port" >"$dir/port" || free_port >"$dir/port"
		from=$(stat -c %s "$dir/error.log" 2>/dev/null || echo 0)
		mysql_launch "$dir" "$inside" && return 0
		tail -c "+$((from + 1))" "$dir/error.log" | grep -q 'port: .*already in use\|Address already in use' || break
		# somebody else has it: one that was asked for by number is waited for
		[ "$port" = 0 ] || sleep 1
	done
	tail -30 "$dir/error.log" >&2
	die "mysqld in $dir did not start"
}

mysql_launch()
{
	local dir=$1 inside=$2 options i

	mapfile -t options <"$dir/options"
	[ -n "${options[*]}" ] || options=()
	rm -f "$dir/mysql.sock" "$dir/mysql.sock.lock" "$dir/pid"
	# The row format and all of the metadata is what capstan asks of a source; the rest
	# keeps a server small, and lets it leave its writes to the operating system: what the
	# tests kill is processes. What the caller gives comes last and wins.
	(
		exec 8>&- 9>&- </dev/null >>"$dir/stdout" 2>&1
		exec "${MYSQL_RUN[@]}" setsid mysqld --no-defaults \
			--datadir="$inside/data" --socket="$inside/mysql.sock" \
			--pid-file="$inside/pid" --log-error="$inside/error.log" \
			--port="$(cat "$dir/port")" --bind-address=127.0.0.1 --mysqlx=OFF \
			--secure-file-priv= --local-infile=OFF \
			--server-id="$(cat "$dir/port")" \
			--gtid-mode=ON --enforce-gtid-consistency=ON \
			--log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL \
			--binlog-row-metadata=FULL \
			--innodb-buffer-pool-size=64M --innodb-redo-log-capacity=64M \
			--innodb-log-buffer-size=16M --key-buffer-size=1M \
			--sync-binlog=0 --innodb-flush-log-at-trx-commit=2 \
			--performance-schema-digests-size=200 --table-open-cache=1000 \
			--max-connections=100 --character-set-server=utf8mb4 \
			"${options[@]}"
	) &
	for ((i = 0; i < 3600; i++)); do
		sleep 0.05
		if [ -S "$dir/mysql.sock" ] &&
			mysql_client "$dir" -e 'DO 1' >/dev/null 2>&1 </dev/null; then
			return 0
		fi
		alive $! || return 1
	done
	return 1
}

# mysql_client DIR [argument...]: the mysql program as root@localhost.
mysql_client()
{
	local dir=$1

	shift
	mysql_prefix
	"${MYSQL_RUN[@]}" mysql --no-defaults --socket="$(mysql_inside "$dir")/mysql.sock" \
		--user=root --default-character-set=utf8mb4 --max-allowed-packet=1G "$@"
}

# The words of the above, one a line, for callers that are no shell.
mysql_client_words()
{
	mysql_prefix
	printf '%s\n' "${MYSQL_RUN[@]}" mysql --no-defaults \
		--socket="$(mysql_inside "$1")/mysql.sock" --user=root \
		--default-character-set=utf8mb4 --max-allowed-packet=1G
}

# mysql_grant DIR USER PASSWORD: the account that a pipeline logs in with, with what
# the README tells to grant and no more. The host is a wildcard, since which name
# 127.0.0.1 has is not known here.
mysql_grant()
{
	mysql_client "$1" <<SQL
CREATE USER '$2'@'%' IDENTIFIED BY '$3';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES ON *.* TO '$2'@'%';
SQL
}

mysql_pid()
{
	cat "$1/pid" 2>/dev/null
}

mysql_running()
{
	alive "$(mysql_pid "$1")"
}

mysql_stop()
{
	local pid

	pid=$(mysql_pid "$1") || return 0
	kill -TERM "$pid" 2>/dev/null || return 0
	wait_gone "$pid" 120 && return 0
	kill -KILL "$pid"
	wait_gone "$pid" 60
}

# As if the machine had lost it.
mysql_kill()
{
	local pid

	pid=$(mysql_pid "$1") || return 0
	kill -KILL "$pid" 2>/dev/null || return 0
	wait_gone "$pid" 60
}

mysql_destroy()
{
	[ -n "$1" ] && [ -d "$1" ] || return 0
	mysql_kill "$1"
	rm -rf "$1"
}

# Remove the instances whose test died without cleaning up: those with a file "owner"
# that holds the id of a process that runs no more.
mysql_sweep()
{
	local owner

	mysql_locate
	for owner in "$MYSQL_BASE"/*/owner; do
		[ -e "$owner" ] || continue
		alive "$(cat "$owner")" || mysql_destroy "${owner%/owner}"
	done
}
