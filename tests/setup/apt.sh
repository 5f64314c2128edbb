#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# apt.sh: packages of a Debian suite that need not be this machine's, downloaded into a state directory of their own with their
# signatures checked; nothing is installed. To be sourced; the script has set limit (the seconds that one step may take), and work (that
# directory) or home (where provide() makes things). With architecture set, packages are of that one; machine is for make_qemu.
# shellcheck disable=SC2154 # they are variables of the script that reads this
mirror=${VRAMTAP_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# prepare_apt SUITE COMPONENT...: apt with nothing of this machine but its programs, no package installed. A mirror that is behind
# will do, one that does not answer is given up soon, and said.
prepare_apt()
{
	debian=$1
	shift
	mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/etc"
	: >"$work/status"
	if ! [ -e "$keyring" ]; then
		echo "no $keyring (package debian-archive-keyring)" >"$work/log"
		return 1
	fi
	for type in deb deb-src; do
		printf '%s [signed-by=%s] %s %s %s\n' "$type" "$keyring" "$mirror" "$debian" "$*"
	done >"$work/sources.list"
	cat >"$work/apt.conf" <<CONF
Dir::Etc "$work/etc";
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$work";
Dir::State::Lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work";
Dir::Cache::archives "$work/archives";
APT::Sandbox::User "root";
APT::Architecture "${architecture:-$(dpkg --print-architecture)}";
APT::Architectures { "${architecture:-$(dpkg --print-architecture)}"; };
Acquire::Check-Valid-Until "false";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Update::Error-Mode "any";
CONF
	APT_CONFIG=$work/apt.conf
	export APT_CONFIG
	timeout "$limit" apt-get update -qq >"$work/log" 2>&1
}

# download SUITE PACKAGE...: unpacks them, and what they depend on, in $work/root.
download()
{
	prepare_apt "$1" main || return 1
	shift
	timeout "$limit" apt-get install -qq -y --download-only --no-install-recommends "$@" >>"$work/log" 2>&1 || return 1
	tree=$work/root
	mkdir -p "$tree"
	for deb in "$work"/archives/*.deb; do
		dpkg-deb -x "$deb" "$tree" || return 1
	done
	rm -rf "$work/archives" "$work/lists" "$work"/*cache.bin "$tree/usr/share/doc" "$tree/usr/share/locale" "$tree/usr/share/man"
}

# provide DIRECTORY FUNCTION ARGUMENT...: it is made under another name and then renamed: what is half done is never taken for whole.
provide()
{
	dest=$home/$1
	work=$dest.new
	shift
	made_of="$*"
	[ "$(cat "$dest/.made-of" 2>/dev/null)" != "$made_of" ] || return 0
	rm -rf "$work"
	mkdir -p "$work"
	"$@" || {
		say "cannot go on: $(grep -v '^$' "$work/log" | tail -n 2 | tr '\n' ' ')"
		return 1
	}
	printf '%s\n' "$made_of" >"$work/.made-of"
	rm -rf "$dest"
	mv "$work" "$dest"
}

# make_qemu SUITE PACKAGE...: QEMU for machines of the kind $machine, as the program "qemu". Its modules are beside its libraries, and
# firmware is in two packages.
make_qemu()
{
	download "$@" || return 1
	cat >"$work/qemu" <<LAUNCHER
#!/bin/sh
root=$dest/root
lib=\$root/usr/lib/x86_64-linux-gnu
QEMU_MODULE_DIR=\$lib/qemu exec "\$root/lib64/ld-linux-x86-64.so.2" --library-path "\$lib:\$root/lib/x86_64-linux-gnu:\$lib/pulseaudio" \\
	"\$root/usr/bin/qemu-system-$machine" -L "\$root/usr/share/qemu" -L "\$root/usr/share/seabios" "\$@"
LAUNCHER
	chmod +x "$work/qemu"
	# Since Debian 13 only links of the essential packages lead from /lib64 to where the loader is.
	loaders=$tree/lib64 # of download()
	[ -e "$loaders" ] || ln -s usr/lib64 "$loaders"
	"$loaders/ld-linux-x86-64.so.2" --version >>"$work/log" 2>&1
}
