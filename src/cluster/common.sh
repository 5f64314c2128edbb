# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034 # the engines have variables in common with this
# vramtap triage on many nodes (hosts, pods), which src/cluster/cluster.c runs as: this text, that of an engine, and "main ARG...".
#
# A node runs vramtap by itself, within its time (node.sh). Where it sees the directory of results it writes there; else it sends what it
# has written through its standard output, as text, for not every engine lets bytes through. The engine has:
#   engine_options    its own letters for getopts; engine_option LETTER ARGUMENT takes one
#   needs             the programs that it runs here
#   list_nodes        prints their names, a line each
#   run_on NODE ARG…  ends as "sh -c "$node_program" sh ARG…" there: standard input and output are those of that
#   run_on_all ARG…   if all_together is set: the same on all nodes that $work/nodes names, at once; each knows its own name
# All that runs on other machines goes through limited, and what list_nodes asks through call.
#
# Standard output (descriptor 3) is for cluster.c, a line each:
#   directory DIR     what follows is there
#   node NAME         its results are in DIR/NAME
#   missing NAME WHY  it has none
#   refused WORD      what is no name of a node
#   done, fail WHY    the last line
# Standard input (4) is a pipe from there: where nobody wants the directory it is removed when that is closed, by whatever.
set -u
exec 3>&1 4<&0 </dev/null >/dev/null

out=
seconds=60
program=
at_once=32
engine_options=
engine=
where=
version=
asker=
temporary=
input=/dev/null
all_together=
needs=
work=
pids=
# Beside vramtap's own time: for the way there and back, which is not the node's to bound.
margin=20
# Of what one node may send: blocks of 512 bytes, or of 1024; what comes out when it is unpacked; a line, which programs hold in memory.
max_blocks=2000000
max_bytes=2000000000
max_line=10000000
newline='
'

fail()
{
	printf 'fail %s\n' "$*" >&3
	exit 2
}

is_number()
{
	case $1 in
	'' | *[!0-9]* | ???????*) return 1 ;;
	esac
	[ "$1" -gt 0 ]
}

# They become names of directories, beside the report of all.
is_name()
{
	case $1 in
	report.json | summary.txt) return 1 ;;
	'' | -* | .* | *[!A-Za-z0-9._-]*) return 1 ;;
	esac
}

# limited SECONDS COMMAND...: as the last thing of a subshell, which can be killed then.
limited()
{
	exec timeout -k 2 "$@"
}

# call SECONDS COMMAND...: in the background, so that what interrupts us ends it, too, and at once.
call()
{
	limited "$@" 3>&- 4<&- &
	pids=$!
	wait "$pids"
	status=$?
	pids=
	return $status
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
	[ -z "$temporary" ] || rm -rf "$out"
}

# Whether the engine's standard input has room for a program; an engine may say otherwise.
can_send()
{
	:
}

parse()
{
	while getopts "o:t:m:b:j:v:a:w:$engine_options" letter; do
		case $letter in
		o) out=$OPTARG ;;
		t) seconds=$OPTARG ;;
		m) margin=$OPTARG ;;
		b) program=$OPTARG ;;
		j) at_once=$OPTARG ;;
		v) version=$OPTARG ;;
		a) asker=$OPTARG ;;
		w) where=$OPTARG ;;
		*) engine_option "$letter" "${OPTARG-}" ;;
		esac
	done
}

prepare()
{
	for needed in timeout $needs; do
		command -v "$needed" >/dev/null 2>&1 || fail "there is no $needed here, which --$engine needs"
	done
	umask 077
	if [ -n "$out" ]; then
		case $out in
		/*) ;;
		*) out=./$out ;; # to cd, "-" is the directory before
		esac
		out=$(CDPATH='' cd -- "$out" && pwd) || fail "cannot use $out"
		[ -z "$(ls -A "$out")" ] || fail "$out is not empty: what is there must not be taken for what comes now"
	else
		out=$(mktemp -d "${TMPDIR:-/tmp}/vramtap.XXXXXX") || fail "cannot make a directory in ${TMPDIR:-/tmp}"
		temporary=1
	fi
	case $out in
	*"$newline"*) fail 'the directory has a line break in its name, and the nodes are told of it in a line' ;;
	esac
	# In a directory, which vramtap leaves alone.
	work=$(mktemp -d "$out/.triage.XXXXXX") || fail "cannot make a directory in $out"
	: >"$work/here"
	[ -n "$program" ] || copy_program
	is_only_ours "$asker" || asker=
}

# Below a directory where everybody may make files somebody else may have this path on another machine: what is there must not be run.
is_only_ours()
{
	place=$1
	while place=${place%/*} && [ -n "$place" ]; do
		[ -z "$(find "$place" -prune -perm -0002)" ] || return 1
	done
}

# What nodes without one are given. The file that runs here may be replaced meanwhile.
copy_program()
{
	cat "/proc/$PPID/exe" >"$work/vramtap" 2>/dev/null || cat "$asker" >"$work/vramtap" || fail "cannot copy this program to $work"
	chmod 700 "$work/vramtap"
}

find_nodes()
{
	list_nodes >"$work/listed" 2>"$work/list.err" || {
		why=$(grep -v '^$' "$work/list.err" | tail -n 1 | tr -dc '[:print:]' | cut -c 1-300)
		fail "the nodes could not be found: ${why:-no answer in time}"
	}
	sort -u "$work/listed" >"$work/sorted"
	while IFS= read -r node; do
		if is_name "$node"; then
			printf '%s\n' "$node"
		elif [ -n "$node" ]; then
			printf 'refused %s\n' "$(printf '%s' "$node" | tr -dc '[:graph:] ')" >>"$work/refused"
		fi
	done <"$work/sorted" >"$work/nodes"
	[ ! -e "$work/refused" ] || cat "$work/refused" >&3
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
	"$@" <"$input" 3>&- 4<&- &
	child=$!
	trap 'kill "$child" 2>/dev/null; wait "$child"; exit 143' TERM
	wait "$child"
	status=$?
	trap 'exit 143' TERM
	return $status
}

ask()
{
	in_background run_on "$node" "$seconds" "$program" "$version" "$asker" "$work/here" "$out" "$node" "$@" >"$work/$node.out" \
		2>>"$work/$node.err"
	case $? in
	124 | 137) : >"$work/$node.late" ;;
	esac
	[ "$(fold -b -w "$max_line" "$work/$node.out" | wc -c)" -eq "$(wc -c <"$work/$node.out")" ] || {
		: >"$work/$node.out"
		echo "error: what it sent is no report" >>"$work/$node.err"
	}
}

# It is only sent where there is none: not every engine bears an input that nobody reads.
run_one()
{
	node=$1
	shift
	ulimit -f "$max_blocks"
	ask "$@"
	if [ -z "$program" ] && ! has_answered "$node" && grep -q '^vramtap-triage: no program$' "$work/$node.out"; then
		if can_send; then
			program=-$(($(wc -c <"$work/vramtap"))) input=$work/vramtap
			ask "$@"
		else
			echo "error: there is no vramtap of this version there, and none can be sent; --node-program names one" >>"$work/$node.err"
		fi
	fi
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
	begin=$(date +%s)
	in_background run_on_all "$seconds" "$program" "$version" "$asker" "$work/here" "$out" '' "$@" >/dev/null 2>"$work/all.err" &
	pids=$!
	wait "$pids"
	status=$?
	pids=
	[ "$status" = 124 ] || [ "$status" = 137 ] || return 0
	# Or somebody killed it.
	[ $(($(date +%s) - begin)) -ge $((seconds + margin)) ] || return 0
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

# The first line that tells of an error, or, unless it was late, that says anything; what Slurm says without a plugin for tasks is no reason.
why_not()
{
	late=
	[ ! -e "$work/$1.late" ] || late=1
	{
		head -c "$max_line" "$work/$1.err"
		head -c "$max_line" "$work/all.err" | grep -F -e "$1"
	} 2>/dev/null | grep -v 'lacks support for cpu binding' | sed 's/^vramtap: //' | awk -v late="$late" '/error/ { print; found = 1; exit } /[[:graph:]]/ && !first { first = $0 }
		END { if (!found && !late) print first }' | tr -dc '[:print:]' | cut -c 1-300
}

tell()
{
	while IFS= read -r node; do
		if [ -s "$out/$node/report.json" ]; then
			printf 'node %s\n' "$node"
		else
			why=$(why_not "$node")
			printf 'missing %s %s\n' "$node" "${why:-no answer within $((seconds + margin)) s}"
		fi
	done <"$work/nodes"
}

# main [OPTION...] WORD...: the words are options of vramtap's for the nodes.
main()
{
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	parse "$@"
	shift $((OPTIND - 1))
	prepare
	find_nodes
	[ -z "$all_together" ] || run_together "$@"
	run_each "$@"
	printf 'directory %s\n' "$out" >&3
	tell >&3
	rm -rf "$work"
	work=
	echo 'done' >&3
	exec 3>&-
	read -r _ <&4
	exit 0
}
