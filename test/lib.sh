# What the scripts of this folder share: packages, a build in a temporary
# folder, and servers of their own, run by a user that is not root.
#
# A script sources this file and calls, in this order, install_packages,
# make_build and start_server.  What was started is stopped when it exits.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8
unset PGHOST PGPORT PGUSER PGDATABASE PGOPTIONS PGSERVICE

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null; then sudo "$@"
	else die "this needs root or sudo"; fi
}

# Servers, and all that is built and run for them.
as_user() {
	if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

# The PostgreSQL to test: that of PG_CONFIG where it is set, else the one that
# this Debian release comes with.
find_version() {
	if [ -n "${PG_CONFIG:-}" ]; then
		major=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
	else
		case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
			bookworm) major=15 ;;
			trixie) major=17 ;;
			forky | sid) major=18 ;;
			*) die "set PG_CONFIG to the pg_config of a PostgreSQL 15, 17 or 18" ;;
		esac
		PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
	fi
	export PG_CONFIG
}

# install_packages PACKAGE...: those and what the build needs, if missing.
install_packages() {
	local package missing=()

	find_version
	for package in gcc make libc6-dev procps util-linux "$@"; do
		package=${package//MAJOR/$major}
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || die "please install: ${missing[*]}"
	say "installing ${missing[*]} (a minute or two)"
	as_root apt-get -qq update >/dev/null
	package=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
		--no-install-recommends "${missing[@]}" 2>&1) ||
		{ say "$package"; die "could not install ${missing[*]}"; }
	# the program is wanted, not the service that its package starts
	for package in pgbouncer prometheus prometheus-postgres-exporter; do
		case " ${missing[*]} " in
		*" $package "*)
			as_root invoke-rc.d "$package" stop >/dev/null 2>&1 || true
			as_root update-rc.d "$package" disable >/dev/null 2>&1 || true
			;;
		esac
	done
}

# make_build: copy the tree into a temporary folder, build it there, and
# install Sift, its C tests and unify.
make_build() {
	local extension llvm=()

	work=$(mktemp -d "${TMPDIR:-/tmp}/sift.XXXXXX")
	servers=()
	trap clean_up EXIT
	bindir=$("$PG_CONFIG" --bindir)
	pgxs=$(dirname "$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")")
	tar -C "$top" --exclude=.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' -cf - . |
		tar -C "$work" -xf -
	[ "$(id -u)" != 0 ] || chown -R postgres: "$work"
	cd "$work"

	# no bitcode where the compiler for it is missing
	[ -x "$(sed -n 's/^CLANG = //p' "$pgxs/src/Makefile.global")" ] || llvm=(with_llvm=no)
	make_in() { as_user make -s -C "$@" PG_CONFIG="$PG_CONFIG" "${llvm[@]}" >"$work/make.log" 2>&1 ||
		{ cat "$work/make.log"; die "make $* failed"; }; }
	install_in() { as_root make -s -C "$1" install PG_CONFIG="$PG_CONFIG" "${llvm[@]}" >"$work/make.log" 2>&1 ||
		{ cat "$work/make.log"; die "make install in $1 failed"; }; }
	make_in . COPT="${COPT:-}"
	install_in .
	for extension in test/sift_test test/unify; do
		make_in "$extension" COPT="${COPT:-}"
		install_in "$extension"
	done
}

# start_server SETTING...: a server of its own, on a socket; PGHOST and
# PGPORT lead there.
start_server() {
	local data=$work/server setting

	as_user "$bindir/initdb" -D "$data" -A trust -U postgres -N >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log"; die "initdb failed"; }
	for setting in "listen_addresses = ''" "unix_socket_directories = '$work'" "fsync = off" "$@"; do
		say "$setting" | as_user tee -a "$data/postgresql.conf" >/dev/null
	done
	servers+=("$data")
	as_user "$bindir/pg_ctl" -s -w -D "$data" -l "$work/server.log" start ||
		{ cat "$work/server.log"; die "the server did not start"; }
	export PGHOST=$work PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

# restart_server SETTING...: with other settings.
restart_server() {
	local setting

	for setting in "$@"; do
		say "$setting" | as_user tee -a "$work/server/postgresql.conf" >/dev/null
	done
	as_user "$bindir/pg_ctl" -s -w -D "$work/server" -l "$work/server.log" restart ||
		{ cat "$work/server.log"; die "the server did not start again"; }
}

# regress FOLDER: the regression tests of an extension there, on that server.
regress() {
	as_user env PGHOST="$PGHOST" PGPORT="$PGPORT" PGUSER="$PGUSER" \
		make -s -C "$1" installcheck PG_CONFIG="$PG_CONFIG" ||
		{ cat "$1/regression.diffs"; return 1; }
}

clean_up() {
	local data

	for data in "${servers[@]}"; do
		as_user "$bindir/pg_ctl" -s -m immediate -D "$data" stop >/dev/null 2>&1 || true
	done
	cd /
	[ ! -d "$work/tiny" ] || as_root umount "$work/tiny"
	as_root rm -rf "$work"
}
