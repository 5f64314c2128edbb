#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cluster.sh NAME...: what starts programs on many machines, in the cache, to be tried on this one: slurm, openmpi, mpich, clustershell,
# kubectl.
# From Debian's packages; nothing is installed, so no daemon is started, and no user made: see apt.sh. The second time it does nothing.
#
#   $cache/cluster/NAME/bin    the programs, run with the C library and the libraries of that suite
#   $cache/cluster/NAME/root   what was in the packages
#
# Measured on 2 cores: slurm 16 MB to download and 60 MB of disk, 8 s; openmpi 29 and 110 MB, 9 s; mpich 18 and 85 MB; clustershell 17 and
# 65 MB.
# Needs apt, dpkg-deb, debian-archive-keyring. VRAMTAP_SETUP_LIMIT is how many seconds one step may take.
set -u
cache=${VRAMTAP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/vramtap}
limit=${VRAMTAP_SETUP_LIMIT:-900}
# shellcheck disable=SC1091 # it is looked at by itself
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/apt.sh"

say()
{
	printf 'cluster.sh %s: %s\n' "$name" "$*" >&2
}

# Of each: the packages, and the programs as "name in bin=path in the package".
describe()
{
	suite=bookworm
	case $name in
	slurm)
		packages='slurmctld slurmd slurm-client munge'
		programs='srun=usr/bin/srun squeue=usr/bin/squeue scontrol=usr/bin/scontrol scancel=usr/bin/scancel sbatch=usr/bin/sbatch
			slurmctld=usr/sbin/slurmctld-wlm slurmd=usr/sbin/slurmd-wlm slurmstepd=usr/sbin/slurmstepd-wlm munged=usr/sbin/munged'
		;;
	openmpi)
		packages=openmpi-bin
		programs='mpirun=usr/bin/orterun orted=usr/bin/orted'
		;;
	mpich)
		packages=mpich
		programs='mpirun=usr/bin/mpiexec.hydra hydra_pmi_proxy=usr/bin/hydra_pmi_proxy'
		;;
	clustershell)
		packages=clustershell
		programs=
		;;
	kubectl) # the one of bookworm knows no debug containers
		suite=trixie
		packages=kubernetes-client
		programs=
		;;
	*) return 1 ;;
	esac
}

# Of its own suite: patchelf as a program of the loader.
patch_elf()
{
	"$work/root/lib64/ld-linux-x86-64.so.2" --library-path "$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu" \
		"$work/root/usr/bin/patchelf" "$@"
}

# They are to find their libraries here, and those of their plugins, which say other places: an RPATH of the program serves all, but
# not those that have one themselves.
move_programs()
{
	lib=$dest/root/usr/lib/x86_64-linux-gnu
	find "$work/root/usr/lib" -name '*.so*' -type f -exec sh -c '
		for file; do
			[ -z "$("$0" --library-path "$1" "$2" --print-rpath "$file" 2>/dev/null)" ] || "$0" --library-path "$1" "$2" --remove-rpath "$file"
		done' "$work/root/lib64/ld-linux-x86-64.so.2" "$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu" \
		"$work/root/usr/bin/patchelf" {} +
	for program in $programs; do
		file=$work/root/${program#*=}
		patch_elf --set-interpreter "$dest/root/lib64/ld-linux-x86-64.so.2" --force-rpath \
			--set-rpath "$lib:$dest/root/lib/x86_64-linux-gnu:$lib/slurm-wlm:$lib/openmpi/lib" "$file" || return 1
		ln -s "../root/${program#*=}" "$work/bin/${program%%=*}" || return 1
	done
}

# What is no program of the machine's kind.
wrap_programs()
{
	# It needs nothing but a C library, of any age.
	[ "$name" != kubectl ] || ln -s ../root/usr/bin/kubectl "$work/bin/kubectl" || return 1
	[ "$name" = clustershell ] || return 0
	for program in clush nodeset; do
		cat >"$work/bin/$program" <<LAUNCHER
#!/bin/sh
PYTHONPATH=$dest/root/usr/lib/python3/dist-packages exec python3 "$dest/root/usr/bin/$program" "\$@"
LAUNCHER
		chmod +x "$work/bin/$program"
	done
}

# apt finds what it depends on by itself, for in its state no package is installed.
unpack_packages()
{
	# shellcheck disable=SC2086 # a list of names
	timeout "$limit" apt-get install -qq -y --download-only --no-install-recommends $packages patchelf >>"$work/log" 2>&1 || return 1
	mkdir -p "$work/root" "$work/bin"
	for deb in "$work"/archives/*.deb; do
		dpkg-deb -x "$deb" "$work/root" || return 1
	done
	[ -z "$programs" ] || move_programs >>"$work/log" 2>&1 || return 1
	wrap_programs
	rm -rf "$work/root/usr/share" "$work/root/usr/include" "$work/archives" "$work/lists" "$work"/*cache.bin
}

starts()
{
	case $name in
	slurm) [ -e "$dest/bin/sbatch" ] && "$dest/bin/slurmd" -V ;;
	clustershell) [ "$("$dest/bin/nodeset" --expand 'a[1-2]')" = 'a1 a2' ] ;;
	kubectl) "$dest/bin/kubectl" version --client ;;
	openmpi) OPAL_PREFIX=$dest/root/usr "$dest/bin/mpirun" --version ;;
	*) "$dest/bin/mpirun" --version ;;
	esac >/dev/null 2>&1
}

# It is made under another name and then renamed: what is half done is never taken for whole. Paths inside name the last place.
make_one()
{
	describe || {
		say 'nobody knows what that is'
		return 1
	}
	dest=$cache/cluster/$name
	work=$dest.new
	! starts || return 0
	for program in apt-get dpkg-deb timeout; do
		command -v $program >/dev/null 2>&1 || {
			say "no $program here"
			return 1
		}
	done
	rm -rf "$work"
	if ! prepare_apt "$suite" main || ! unpack_packages; then
		say "cannot go on: $(grep -v '^$' "$work/log" | tail -n 2 | tr '\n' ' ')"
		return 1
	fi
	rm -rf "$dest"
	mv "$work" "$dest"
	starts || {
		say 'what was made does not start'
		return 1
	}
}

[ $# -gt 0 ] || {
	echo 'usage: cluster.sh NAME...' >&2
	exit 64
}
name=$1
[ "$(uname -m)" = x86_64 ] || {
	say 'only x86-64 is supported'
	exit 1
}
mkdir -p "$cache/cluster" || exit 1
if command -v flock >/dev/null 2>&1 && [ -z "${VRAMTAP_SETUP_LOCKED:-}" ]; then
	VRAMTAP_SETUP_LOCKED=1
	export VRAMTAP_SETUP_LOCKED
	exec flock "$cache/cluster/.lock" sh "$0" "$@"
fi
status=0
for name; do
	make_one || status=1
done
exit $status
