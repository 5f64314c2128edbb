#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# triage-common.sh: what triage-slurm.sh, triage-mpirun.sh, triage-kubectl.sh and triage-clush.sh share; to be sourced by them.
#
# A node (host, pod) runs vramtap by itself, within its time. Where it sees the directory of results it writes there; else it sends what it
# has written through its standard output, as text, for not every engine lets bytes through. What is there in the end is put together here.
# The script that sources this has:
#   engine_options    its own letters for getopts; engine_option LETTER ARGUMENT takes one
#   list_nodes        prints their names, a line each
#   run_on NODE ARG…  ends as "sh -c "$node_program" sh ARG…" there: standard input and output are those of that
#   run_on_all ARG…   if all_together is set: the same on all nodes that $work/nodes names, at once; each knows its own name
# and may set input (a file: what run_on is given). All that run on other machines goes through limited.

# What is started with this in its environment is of a triage, and not of the job, even if it runs in it. That of this shell is as it was
# started: so it starts again.
if [ -z "${VRAMTAP_TRIAGE-}" ]; then
	VRAMTAP_TRIAGE=1
	export VRAMTAP_TRIAGE
	exec sh "$0" "$@"
fi

out=
seconds=60
program=
at_once=32
quiet=
input=/dev/null
all_together=
work=
pids=
# Beside vramtap's own time: for the way there and back, which is not the node's to bound.
margin=20
# Of what one node may send: blocks of 512 bytes, or of 1024; and what comes out when it is unpacked.
max_blocks=2000000
max_bytes=2000000000

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

fail()
{
	say "$*"
	exit 2
}

wrong_use()
{
	[ $# = 0 ] || say "$*"
	usage >&2
	exit 64
}

is_number()
{
	case $1 in
	'' | *[!0-9]* | ???????*) return 1 ;;
	esac
	[ "$1" -gt 0 ]
}

# They become names of directories.
is_name()
{
	case $1 in
	'' | -* | .* | *[!A-Za-z0-9._-]*) return 1 ;;
	esac
}

# limited SECONDS COMMAND...: as the last thing of a subshell, which can be killed then.
limited()
{
	exec timeout -k 2 "$@"
}

# What a shell reads as this one word.
quote()
{
	printf "'"
	printf '%s' "$1" | sed "s/'/'\\\\''/g"
	printf "'"
}

# shellcheck disable=SC2317,SC2329 # called by traps
clean_up()
{
	trap '' INT TERM HUP
	for pid in $pids; do
		kill "$pid" 2>/dev/null
	done
	wait_for_all
	[ -z "$work" ] || rm -rf "$work"
}

parse()
{
	while getopts "o:t:m:b:j:qh${engine_options-}" letter; do
		case $letter in
		o) out=$OPTARG ;;
		t) is_number "$OPTARG" || wrong_use "-t takes seconds, not \"$OPTARG\"" && seconds=$OPTARG ;;
		m) is_number "$OPTARG" || wrong_use "-m takes seconds, not \"$OPTARG\"" && margin=$OPTARG ;;
		b) program=$OPTARG ;;
		j) is_number "$OPTARG" || wrong_use "-j takes a number, not \"$OPTARG\"" && at_once=$OPTARG ;;
		q) quiet=1 ;;
		h)
			usage
			exit 0
			;;
		\?) wrong_use ;;
		*) engine_option "$letter" "${OPTARG-}" ;;
		esac
	done
	[ -n "$out" ] || wrong_use 'where to? -o DIR is missing'
}

# Options of all of them, for usage().
common_usage()
{
	cat <<'USAGE'
  -o DIR      where the results go: created if missing, otherwise empty. Nodes
              that see it write to it; the others send their results.
  -t SECONDS  the limit for vramtap on each node (default 60)
  -m SECONDS  how much longer a node may take to answer (default 20); after
              that it is named and left out
  -b PROGRAM  vramtap on the nodes (default: in PATH there)
  -j NUMBER   how many nodes at once, if each is asked separately (default 32)
  -q          show no summary on the terminal
  OPTION      an option of vramtap triage, such as --inject

DIR gets report.json, summary.txt, and a directory with each node's results.
Exit status: 0 complete; 1 partial: something about a process is unknown, or
nodes are missing; 2 nothing could be learned; 64 wrong usage; 130 and 143
interrupted. Several may run at once, each with a DIR of its own. VRAMTAP in
the environment names the program here (default: in PATH).
USAGE
}

# What a node does. $1 seconds; $2 vramtap there, "" in its PATH, "-" it comes by standard input; $3 a file that is there when the
# directory of results is; $4 that directory; $5 the node's name, "" Slurm's; the rest: options. Whatever happens, it ends with 0: to some
# engines anything else means that all others are to be killed.
# shellcheck disable=SC2016,SC2034 # it is expanded there; the scripts use it
node_program='
VRAMTAP_TRIAGE=1
export VRAMTAP_TRIAGE
seconds=$1 program=${2:-vramtap} shared=$3 node=${5:-${SLURMD_NODENAME:-}}
dir=$4/$node own=
shift 5
umask 077
# Where several write to one stream nobody can say whose a message is.
! [ -e "$shared" ] || exec 2>>"${shared%/*}/$node.err"
trap "[ -z \"\$own\" ] || rm -rf \"\$own\"" EXIT
trap "exit 0" INT TERM HUP
if [ "$program" = - ] || ! [ -e "$shared" ]; then
	for base in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do
		own=$(mktemp -d "$base/vramtap.XXXXXX" 2>/dev/null) || continue
		[ "$program" = - ] || break
		cat >"$own/vramtap" && chmod 700 "$own/vramtap" && "$own/vramtap" --version >/dev/null 2>&1 && break
		rm -rf "$own"
		own=
	done
	[ -n "$own" ] || {
		echo "there is no place for files there, or not for a program" >&2
		exit 0
	}
	[ "$program" != - ] || program=$own/vramtap
fi
[ -e "$shared" ] || dir=$own/result
command -v "$program" >/dev/null 2>&1 || {
	echo "there is no $program there" >&2
	exit 0
}
limit=
if timeout -k 1 1 true 2>/dev/null; then
	limit="timeout -k 2 $((seconds + 3))"
fi
$limit "$program" triage --quiet --timeout "$seconds" -o "$dir" "$@" >/dev/null
case $? in
124 | 137) echo "vramtap did not end in time there" >&2 ;;
esac
if [ -e "$shared" ]; then
	: >"$shared.$node"
elif [ -e "$dir/report.json" ]; then
	kind=json
	if command -v tar >/dev/null 2>&1 && command -v base64 >/dev/null 2>&1; then
		kind=tar
		! command -v gzip >/dev/null 2>&1 || kind=tar.gz
	fi
	printf "\nvramtap-triage: %s\n" "$kind"
	case $kind in
	tar.gz) tar -C "$dir" -cf - . | gzip -c | base64 ;;
	tar) tar -C "$dir" -cf - . | base64 ;;
	json) cat "$dir/report.json" ;;
	esac
	printf "\nvramtap-triage: end\n"
fi
exit 0
'

prepare()
{
	command -v timeout >/dev/null 2>&1 || fail 'there is no timeout (coreutils) here'
	command -v "${local_program:=${VRAMTAP:-vramtap}}" >/dev/null 2>&1 ||
		fail "there is no $local_program here: it puts the results together (VRAMTAP names another)"
	umask 077
	mkdir -p -- "$out" || exit 2
	out=$(CDPATH='' cd -- "$out" && pwd) || exit 2
	[ -z "$(ls -A "$out")" ] || fail "$out is not empty: what is there must not be taken for what comes now"
	# In a directory, which vramtap leaves alone.
	work=$(mktemp -d "$out/.triage.XXXXXX") || exit 2
	: >"$work/here"
}

find_nodes()
{
	list_nodes >"$work/listed" || fail 'the nodes could not be found'
	sort -u "$work/listed" >"$work/sorted"
	while IFS= read -r node; do
		if is_name "$node"; then
			printf '%s\n' "$node"
		elif [ -n "$node" ]; then
			say "\"$(printf '%s' "$node" | tr -dc '[:graph:] ')\" is no name of a node"
			: >"$work/refused"
		fi
	done <"$work/sorted" >"$work/nodes"
	[ -s "$work/nodes" ] || fail 'there are no nodes'
}

# It has written to the directory itself, or it is all there.
has_answered()
{
	[ -e "$work/here.$1" ] || [ -s "$out/$1/report.json" ]
}

# What a node has sent, to its directory. It may have sent anything: no more than there may be, no links, nothing that somebody else may use.
unpack()
{
	kind=$(sed -n 's/^vramtap-triage: //p' "$work/$1.out" | head -n 1)
	[ "$(sed -n 's/^vramtap-triage: //p' "$work/$1.out" | tail -n 1)" = end ] || return 1
	mkdir -p "$out/$1" || return 1
	awk '/^vramtap-triage: end$/ { exit } found { print } /^vramtap-triage: / { found = 1 }' "$work/$1.out" >"$work/$1.body"
	case $kind in
	tar.gz) base64 -d "$work/$1.body" | gzip -dc | head -c "$max_bytes" | tar -C "$out/$1" --no-same-permissions -xof - ;;
	tar) base64 -d "$work/$1.body" | tar -C "$out/$1" --no-same-permissions -xof - ;;
	json) cp "$work/$1.body" "$out/$1/report.json" ;;
	esac
	chmod -R u=rwX,go= "$out/$1"
	find "$out/$1" ! -type f ! -type d -exec rm -f {} +
	rm -f "$work/$1.out" "$work/$1.body"
}

# Waits for a command in the background, and takes it along when it has to go. There it would have no input if it were not given one.
in_background()
{
	"$@" <"$input" &
	child=$!
	trap 'kill "$child" 2>/dev/null; exit 143' TERM
	wait "$child"
}

run_one()
{
	node=$1
	shift
	ulimit -f "$max_blocks"
	in_background run_on "$node" "$seconds" "$program" "$work/here" "$out" "$node" "$@" >"$work/$node.out" 2>>"$work/$node.err"
	has_answered "$node" || unpack "$node" 2>>"$work/$node.err"
}

wait_for_all()
{
	for pid in $pids; do
		wait "$pid"
	done
	pids=
}

# Quick, and the same moment for all; but with some engines all is lost with one node. A node that began, and did not finish in all
# the time there was, is not asked again.
run_together()
{
	in_background run_on_all "$seconds" "$program" "$work/here" "$out" '' "$@" >/dev/null 2>"$work/all.err" &
	pids=$!
	wait "$pids"
	status=$?
	pids=
	[ "$status" = 124 ] || [ "$status" = 137 ] || return 0
	while IFS= read -r node; do
		[ ! -d "$out/$node" ] || : >"$work/here.$node"
	done <"$work/nodes"
}

# Each by itself: one that does not answer costs the others nothing.
run_each()
{
	n=0
	while IFS= read -r node; do
		! has_answered "$node" || continue
		run_one "$node" "$@" &
		pids="$pids $!"
		n=$((n + 1))
		[ $((n % at_once)) != 0 ] || wait_for_all
	done <"$work/nodes"
	wait_for_all
}

# The first line that tells of an error, or that says anything.
why_not()
{
	{
		cat "$work/$1.err"
		grep -F -e "$1" "$work/all.err"
	} 2>/dev/null | sed 's/^vramtap: //' | awk '/error/ { print; found = 1; exit } /[[:graph:]]/ && !first { first = $0 }
		END { if (!found) print first }' | tr -dc '[:print:]' | cut -c 1-300
}

name_missing()
{
	while IFS= read -r node; do
		[ ! -s "$out/$node/report.json" ] || continue
		why=$(why_not "$node")
		say "$node: ${why:-no answer within $((seconds + margin)) s}"
	done <"$work/nodes"
}

merge()
{
	status=0
	set --
	while IFS= read -r node; do
		set -- "$@" "$out/$node"
	done <"$work/nodes"
	# What is missing was named already; the report says it, too.
	timeout 300 "$local_program" triage ${quiet:+--quiet} -o "$out" --from "$@" 2>"$work/merge.err" || status=$?
	[ "$status" -le 1 ] || cat "$work/merge.err" >&2
	[ ! -e "$work/refused" ] || [ "$status" != 0 ] || status=1
	exit "$status"
}

# triage_nodes OPTION...: vramtap's.
triage_nodes()
{
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	prepare
	find_nodes
	[ -z "$all_together" ] || run_together "$@"
	run_each "$@"
	name_missing
	merge
}
