# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154,SC2317,SC2329 # common.sh calls these functions, and has variables in common with them
# Many nodes by ClusterShell. $where: nodes in nodeset's syntax.
engine=clush
needs='clush nodeset base64'
engine_options=R:
worker=

engine_option()
{
	worker=$2
}

list_nodes()
{
	call 30 nodeset --expand --separator='\n' -- "$where"
}

# clush makes one line of what it is given, and the shell there takes it apart: so nothing is in it. What is to be done comes by
# standard input, with the program as text behind it: a shell that reads its commands from there may read beyond them.
run_on()
{
	node=$1
	shift
	{
		printf 'run() {\n%s\n}\n' "$node_program"
		if [ "$input" = /dev/null ]; then
			printf 'run </dev/null'
		else
			printf "base64 -d <<'VRAMTAP' | run"
		fi
		for word; do
			printf ' '
			quote "$word"
		done
		printf '\n'
		[ "$input" = /dev/null ] || {
			base64 "$input"
			printf 'VRAMTAP\n'
		}
	} >"$work/$node.sh"
	limited "$((seconds + margin))" clush -N -q -w "$node" -t "$margin" -u "$((seconds + margin))" ${worker:+"--worker=$worker"} sh -s \
		<"$work/$node.sh"
}
