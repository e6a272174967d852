# Installs what a Debian machine lacks. Each need is tested by what it provides, not
# by package name, so that a Postgres or MySQL from elsewhere counts too; when nothing
# is missing this takes a few milliseconds and asks apt nothing.

. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/mysql.sh"

# Packages missing on this machine, one a line.
deps_missing()
{
	local pg

	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdio.h ] || echo libc6-dev
	command -v make >/dev/null || echo make
	command -v prove >/dev/null || echo perl
	command -v pkg-config >/dev/null || echo pkg-config
	command -v mysql_config >/dev/null || command -v mariadb_config >/dev/null ||
		pkg-config --exists mysqlclient 2>/dev/null ||
		pkg-config --exists libmariadb 2>/dev/null ||
		echo default-libmysqlclient-dev
	[ -e /usr/include/zstd.h ] || echo libzstd-dev
	[ -e /usr/include/zlib.h ] || echo zlib1g-dev
	[ -e /usr/include/openssl/ssl.h ] || echo libssl-dev
	[ -e /usr/share/zoneinfo/Europe/Berlin ] || echo tzdata

	if ! deps_have_postgres; then
		pg=$(apt-cache depends postgresql 2>/dev/null |
			sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -1)
		# Before the first "apt-get update" the version is not known yet.
		echo "postgresql-${pg:-VERSION}"
		echo "postgresql-server-dev-${pg:-VERSION}"
		deps_extensions "${pg:-VERSION}"
	else
		# Those of a Postgres that is not Debian's are its owner's business.
		pg=$("${PG_CONFIG:-pg_config}" --bindir | sed -n 's,^/usr/lib/postgresql/\([0-9]*\)/bin$,\1,p')
		# Debian has pgxs.mk in the client package, the headers in another.
		[ -z "$pg" ] || [ -e "$("${PG_CONFIG:-pg_config}" --includedir-server)/postgres.h" ] || echo "postgresql-server-dev-$pg"
		[ -z "$pg" ] || deps_extensions "$pg" "$("${PG_CONFIG:-pg_config}" --sharedir)/extension"
	fi

	if ! mysql_on_path && [ ! -x "$CAPSTAN_CACHE/mysql-root/usr/sbin/mysqld" ]; then
		command -v mmdebstrap >/dev/null || echo mmdebstrap
	fi
}

# deps_extensions VERSION [FOLDER]: PostGIS and pgvector, of which tests make columns, unless they are in the folder.
# Debian has pgvector since its Postgres 17; without it the tests say so.
deps_extensions()
{
	[ -e "${2:-}/postgis.control" ] || echo "postgresql-$1-postgis-3"
	[ "$1" = VERSION ] || [ "$1" -lt 17 ] || [ -e "${2:-}/vector.control" ] || echo "postgresql-$1-pgvector"
}

# The clang that there is, with libFuzzer: its name, or nothing. Debian's postgresql-server-dev brings a clang, but not the
# library.
deps_clang_name()
{
	local clang

	for clang in clang clang-{22..13}; do
		command -v "$clang" >/dev/null || continue
		[ -z "$(find "$("$clang" -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*' 2>/dev/null)" ] || {
			echo "$clang"
			return
		}
	done
}

# For the fuzzers alone: nothing else here needs it.
deps_clang()
{
	local version

	[ -z "$(deps_clang_name)" ] || return 0
	version=$(compgen -c clang- | sed -n 's/^clang-\([0-9]*\)$/\1/p' | sort -n | tail -1)
	if [ -n "$version" ]; then
		deps_install "libclang-rt-$version-dev"
	else
		deps_install clang libclang-rt-dev
	fi
	[ -n "$(deps_clang_name)" ] || die "still no clang with libFuzzer"
}

deps_have_postgres()
{
	local config=${PG_CONFIG:-pg_config} pgxs

	pgxs=$("$config" --pgxs 2>/dev/null) && [ -e "$pgxs" ] &&
		[ -x "$("$config" --bindir)/initdb" ]
}

deps_apt()
{
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}

# deps_install [PACKAGE...]: install what is missing, or these packages.
deps_install()
{
	local missing=$*

	[ -n "$missing" ] || missing=$(deps_missing)
	[ -n "$missing" ] || return 0

	command -v apt-get >/dev/null ||
		die "this machine lacks (Debian package names): $(echo $missing)"
	is_root || die "run as root once, or install: $(echo $missing)"

	say "installing: $(sed 's/-VERSION//g' <<<"$(echo $missing)")"
	if [[ $missing == *VERSION* ]] || ! deps_try "$missing" 2>/dev/null; then
		# No package lists, or stale ones.
		quietly deps_apt update || die "apt-get update failed"
		[ $# -gt 0 ] || missing=$(deps_missing)
		deps_try "$missing" || die "apt-get could not install: $(echo $missing)"
	fi
	[ $# -gt 0 ] || missing=$(deps_missing)
	[ $# -gt 0 ] || [ -z "$missing" ] || die "still missing after installation: $(echo $missing)"
}

deps_try()
{
	quietly deps_apt install -y --no-install-recommends $1
}

# Everything, the MySQL included; where that has to be built, the other packages are
# installed meanwhile.
deps_prepare()
{
	local job=

	if ! mysql_on_path && [ ! -x "$CAPSTAN_CACHE/mysql-root/usr/sbin/mysqld" ]; then
		command -v mmdebstrap >/dev/null || deps_install mmdebstrap
		(mysql_locate) &
		job=$!
	fi
	deps_install
	[ -z "$job" ] || wait "$job" || exit 1
	mysql_locate
}

# For make bench alone: what is measured beside capstan, and perf. What cannot be had is "not installed" in its tables.
deps_bench()
{
	local package version missing=

	version=$("${PG_CONFIG:-pg_config}" --bindir | sed -n 's,^/usr/lib/postgresql/\([0-9]*\)/bin$,\1,p')
	[ -z "$version" ] || [ -e "$("${PG_CONFIG:-pg_config}" --sharedir)/extension/mysql_fdw.control" ] || missing+=" postgresql-$version-mysql-fdw"
	command -v pgloader >/dev/null || missing+=" pgloader"
	[ -x /usr/sbin/mariadbd ] || missing+=" mariadb-server-core"
	command -v mariadb >/dev/null || missing+=" mariadb-client-core"
	command -v perf >/dev/null || missing+=" linux-perf"
	# one by one, since a package that is not there keeps none of the others away
	for package in $missing; do
		(deps_install "$package") || say "not to be had: $package"
	done
}
