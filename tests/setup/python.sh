#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python.sh KIND VERSION SUITE...: a CPython in the cache that the machine does not have; python-versions says which. The
# second time it does nothing. Nothing is installed: apt downloads into a state directory of its own and checks Debian's
# signatures; the first SUITE that has what is asked for serves.
#
#   $cache/python/debian-VERSION/python          a launcher: the program with the C library and the libraries of that suite
#   $cache/python/free-threaded-VERSION/python   a link to the interpreter that was built
#
# Measured on 2 cores: unpacking takes 8 s and 75 MB of disk, building 4 minutes and 100 MB.
# Needs apt, dpkg-deb, debian-archive-keyring; to build: gcc, make, libffi-dev, zlib1g-dev. VRAMTAP_SETUP_LIMIT is how many
# seconds one step may take.
set -u
kind=${1:?usage: python.sh KIND VERSION SUITE...}
version=$2
shift 2
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
dest=$cache/python/$kind-$version
# shellcheck disable=SC1091 # it is looked at by itself
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/apt.sh"

say()
{
	printf 'python.sh %s %s: %s\n' "$kind" "$version" "$*" >&2
}

fail()
{
	say "cannot go on: $*"
	exit 1
}

# What the interpreter and the modules of its standard library load.
libraries='libc6 zlib1g libexpat1 libffi8 libssl3t64 libbz2-1.0 liblzma5 libuuid1 libzstd1'

# write_launcher DIRECTORY. What LD_LIBRARY_PATH says serves as well: a program with other libraries than those, PyTorch's, say.
write_launcher()
{
	# The loader is in /lib64 of old packages, in /usr/lib64 of new ones; the libraries are where they always were.
	cat >"$1/python.new" <<LAUNCHER
#!/bin/sh
root=$dest/root
loader=\$root/usr/lib64/ld-linux-x86-64.so.2
[ -e "\$loader" ] || loader=\$root/lib64/ld-linux-x86-64.so.2
path=\$root/usr/lib/x86_64-linux-gnu:\$root/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
PYTHONHOME=\$root/usr exec "\$loader" --argv0 "\$root/usr/bin/python$version" --library-path "\$path" \\
	"\$root/usr/bin/python$version" "\$@"
LAUNCHER
	chmod +x "$1/python.new"
	mv -f "$1/python.new" "$1/python"
}

unpack_packages()
{
	# shellcheck disable=SC2086 # a list of names
	(cd "$work/archives" && timeout "$limit" apt-get download -qq "python$version-minimal" "libpython$version-minimal" \
		"libpython$version-stdlib" $libraries) >>"$work/log" 2>&1 || return 1
	mkdir -p "$work/root"
	for package in "$work"/archives/*.deb; do
		dpkg-deb -x "$package" "$work/root" || return 1
	done
	write_launcher "$work"
}

# Modules that no test imports; compiling them is half of the work.
unused='_bz2 _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _curses _curses_panel _dbm _decimal _elementtree _gdbm
_hashlib _lzma _sqlite3 _ssl _tkinter pyexpat readline'

# Optimised a little, for the evaluator of an unoptimised one is nothing like those of distributions; without its tests.
build_source()
{
	mkdir -p "$work/source"
	(cd "$work/source" && timeout "$limit" apt-get source -qq --download-only --tar-only "python$version" &&
		tar xf python*.orig.tar.[gx]z --strip-components 1) >>"$work/log" 2>&1 || return 1
	# shellcheck disable=SC2086 # a list of names
	printf '%s\n' '*disabled*' $unused >"$work/source/Modules/Setup.local"
	# shellcheck disable=SC2016 # the arguments are those of the inner shell
	(cd "$work/source" && nice timeout "$limit" sh -c '
		./configure -q --disable-gil --prefix="$1/install" --without-ensurepip --disable-test-modules OPT="-DNDEBUG -O1 -w" &&
		make -s -j"$(nproc)" && make -s install DESTDIR="$2"' sh "$dest" "$work/stage") >>"$work/log" 2>&1 || return 1
	mv "$work/stage$dest/install" "$work/install"
	ln -s "install/bin/python${version}t" "$work/python"
}

# It is made under another name and then renamed: what is half done is never taken for whole. Paths inside name the last place.
make_one()
{
	work=$dest.new
	rm -rf "$work"
	prepare_apt "$1" main || {
		say "apt-get update for $1 failed: $(tail -n 1 "$work/log")"
		return 1
	}
	case $kind in
	debian) unpack_packages ;;
	free-threaded) build_source ;;
	*) fail "there is no kind $kind" ;;
	esac || {
		say "$1 does not serve: $(grep -v '^$' "$work/log" | tail -n 2 | tr '\n' ' ')"
		return 1
	}
	rm -rf "$work/source" "$work/stage" "$work/archives" "$work/lists" "$work"/*cache.bin
}

starts()
{
	"$dest/python" -c "import ctypes, sys; assert '%d.%d' % sys.version_info[:2] == '$version'" 2>/dev/null
}

[ "$(uname -m)" = x86_64 ] || fail 'only x86-64 is supported'
mkdir -p "$cache/python" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/python/.lock" sh "$0" "$kind" "$version" "$@"
fi
# What an older one of these made may have another launcher.
[ "$kind" != debian ] || [ ! -d "$dest/root" ] || write_launcher "$dest"
starts && exit 0
for program in apt-get dpkg-deb timeout; do
	command -v $program >/dev/null 2>&1 || fail "no $program here"
done
for suite; do
	say "from Debian $suite"
	make_one "$suite" || continue
	rm -rf "$dest"
	mv "$dest.new" "$dest"
	starts && exit 0
	say "what was made from $suite does not start: $("$dest/python" -c 'import ctypes' 2>&1 | tail -n 1)"
done
rm -rf "$dest.new"
fail "none of the suites $* had it"
