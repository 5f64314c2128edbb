# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2094,SC2317,SC2329 # traps call some functions; a file is open twice on purpose
# What a node does: "sh -c" with this text, a POSIX shell. Whatever happens, it ends with 0: to some engines anything else means
# that all others are to be killed.
#   $1 seconds that vramtap may take
#   $2 vramtap there; "" one of the same version, or else say that there is none; "-SIZE" it comes by standard input
#   $3 the version, as --version prints it; $4 where the program that asks has its file; "" that must not be run here
#   $5 a file of this user's that is there when the directory of results is, with a copy of the program beside it; $6 that directory
#   $7 the node's name; "" it is Slurm's, and all are asked together: one that does not see the directory is asked again by itself
#   the rest: options
VRAMTAP_TRIAGE=1
export VRAMTAP_TRIAGE
seconds=$1 program=$2 version=$3 asker=$4 shared=$5 node=${7:-${SLURMD_NODENAME:-}}
dir=$6/$node
own=
child=
size=
sees=
umask 077

# By who asks, on files that this machine sees, too. Everybody may have read the path in the list of processes, and made something there:
# that would be another user's, or a link.
is_ours()
{
	[ -O "$1" ] && ! [ -L "$1" ]
}
! is_ours "${shared%/*}" || ! is_ours "$shared" || sees=1
[ -n "$7" ] || [ -n "$sees" ] || exit 0
shift 7
# Where several write to one stream nobody can say whose a message is.
[ -z "$sees" ] || exec 2>>"${shared%/*}/$node.err"

clean_up()
{
	[ -z "$own" ] || rm -rf "$own"
}
# A shell that waits for a program in the foreground would run its traps only after that.
interrupted()
{
	[ -z "$child" ] || kill "$child" 2>/dev/null
	exit 0
}
trap clean_up EXIT
trap interrupted INT TERM HUP

give_up()
{
	echo "$*" >&2
	exit 0
}

limit=
! timeout -k 1 1 true 2>/dev/null || limit="timeout -k 2 $((seconds + 3))"

limited()
{
	# shellcheck disable=SC2086 # words
	$limit "$@" <&6 &
	child=$!
	wait "$child"
	status=$?
	child=
	return $status
}

# A directory of our own for what comes and goes. Another process removes it when the last one of these has ended, even if by SIGKILL:
# they have the other end of its pipe open.
make_room()
{
	for base in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
		own=$(mktemp -d "$base/vramtap.XXXXXX" 2>/dev/null) && break
		own=
	done
	[ -n "$own" ] || give_up "there is no place for files there: neither of ${TMPDIR:-/tmp}, /tmp, /var/tmp and /dev/shm can be written"
	if mkfifo "$own/alive" 2>/dev/null && command exec 9<>"$own/alive"; then
		{
			trap "" INT TERM HUP
			read -r _ <"$own/alive"
			rm -rf "$own"
		} 6<&- 8<&- 9>&- </dev/null >/dev/null 2>&1 &
	fi
}

is_same()
{
	[ "$("$1" --version 2>/dev/null </dev/null)" = "$version" ]
}

# A file that has no name before its first byte is written: whatever ends this shell, no program is left. $1: where a program can be
# started from.
open_copy()
{
	place=$(mktemp -d "$1/vramtap.XXXXXX" 2>/dev/null) || return 1
	if printf '#!/bin/sh\nexit 0\n' >"$place/vramtap" && chmod 700 "$place/vramtap" && "$place/vramtap" 2>/dev/null &&
		command exec 7>"$place/vramtap" 8<"$place/vramtap"; then
		rm -rf "$place"
		return 0
	fi
	rm -rf "$place"
	return 1
}

# It is run by its descriptor. Nobody may have it open for writing then.
copy_program()
{
	for base in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
		! open_copy "$base" || {
			limited cat >&7
			exec 7>&-
			program=/proc/self/fd/8
			return
		}
	done
	give_up "there is no vramtap of this version there, and no place that a copy can be started from"
}

find_program()
{
	case $program in
	-*) size=${program#-} ;;
	?*)
		command -v "$program" >/dev/null 2>&1 || give_up "there is no $program there"
		return
		;;
	*)
		for program in ${asker:+"$asker"} vramtap ${sees:+"${shared%/*}/vramtap"}; do
			! is_same "$program" || return 0
		done
		if [ -z "$sees" ] || ! [ -r "${shared%/*}/vramtap" ]; then
			printf '\nvramtap-triage: no program\n'
			exit 0
		fi
		exec 6<"${shared%/*}/vramtap"
		;;
	esac
	copy_program
	# Half a program may do anything.
	[ -z "$size" ] || [ "$(wc -c <"$program")" -eq "$size" ] || give_up "the copy of vramtap came only in part"
	is_same "$program" || give_up "the copy of vramtap does not start there (it is for x86-64, and needs /proc): $("$program" --version 2>&1 </dev/null | head -n 1)"
}

# A process in the background has no input but what it is given.
exec 6<&0 </dev/null
find_program
exec 6</dev/null
[ -n "$sees" ] || {
	make_room
	dir=$own/result
}
limited "$program" triage --quiet --timeout "$seconds" -o "$dir" "$@" >/dev/null
case $? in
124 | 137) echo "vramtap did not end in time there" >&2 ;;
esac
if [ -n "$sees" ]; then
	: >"$shared.$node"
elif [ -e "$dir/report.json" ]; then
	kind=json
	if command -v tar >/dev/null 2>&1 && command -v base64 >/dev/null 2>&1; then
		kind=tar
		! command -v gzip >/dev/null 2>&1 || kind=tar.gz
	fi
	printf '\nvramtap-triage: %s\n' "$kind"
	case $kind in
	tar.gz) tar -C "$dir" -cf - . | gzip -c | base64 ;;
	tar) tar -C "$dir" -cf - . | base64 ;;
	json) cat "$dir/report.json" ;;
	esac
	printf '\nvramtap-triage: end\n'
fi
exit 0
