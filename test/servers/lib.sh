# What the scripts of this folder share: Debian trees that have the other
# versions of PostgreSQL, and running something in them.  As root, on Debian.
#
# The trees are made by debootstrap and kept in SIFT_TREES (default
# /var/cache/sift-trees), since that takes a minute or two each.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
trees=${SIFT_TREES:-/var/cache/sift-trees}
mounted=()

unmount_all() {
	local i

	for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do umount -R -l "${mounted[i]}" || true; done
	mounted=()
}
trap unmount_all EXIT

[ "$(id -u)" = 0 ] || { echo "$(basename "$0"): this needs root" >&2; exit 1; }

# suite_of VERSION: the Debian suite that has it.
suite_of() {
	case $1 in
		15) echo bookworm ;;
		17) echo trixie ;;
		18) echo forky ;;
		*) echo "$(basename "$0"): no tree for PostgreSQL $1" >&2; return 1 ;;
	esac
}

# make_tree SUITE: a minimal Debian, unless it is there.
make_tree() {
	local tree=$trees/$1

	[ ! -e "$tree/.made" ] || return 0
	command -v debootstrap >/dev/null ||
		{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y debootstrap; } >/dev/null
	echo "making a Debian $1 tree in $tree"
	rm -rf "$tree"
	mkdir -p "$tree"
	# suites that this debootstrap does not know yet are made as sid is
	debootstrap --variant=minbase "$1" "$tree" "" \
		$([ -e "/usr/share/debootstrap/scripts/$1" ] || echo sid) >"$tree.log" 2>&1 ||
		{ tail -20 "$tree.log"; return 1; }
	# a mirror may be older than its own index says
	echo 'Acquire::Check-Valid-Until "false";' >"$tree/etc/apt/apt.conf.d/sift"
	touch "$tree/.made"
}

mount_in() {
	local target=$1

	shift
	mount "$@" "$target"
	mounted+=("$target")
}

# run_in VERSION SCRIPT [ARGUMENT...]: copy this source tree into the tree of
# that version and run one of its scripts there.  Settings of the tests are
# handed on.
run_in() {
	local suite tree name settings=()

	suite=$(suite_of "$1") || return 1
	tree=$trees/$suite
	shift
	make_tree "$suite" || return 1
	mount_in "$tree/proc" -t proc proc
	mount_in "$tree/dev" --rbind --make-rslave /dev
	mount_in "$tree/sys" -t sysfs -o ro sysfs
	rm -rf "$tree/root/sift"
	mkdir "$tree/root/sift"
	tar -C "$top" --exclude=.git -cf - . | tar -C "$tree/root/sift" -xf -
	for name in ${!SIFT_TEST_*}; do settings+=("$name=${!name}"); done
	chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
		"${settings[@]}" "/root/sift/$1" "${@:2}"
}
