#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vramtap triage on many nodes by ClusterShell, put together: see usage().
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # triage-common.sh calls these functions, and has variables in common with them
set -u
# shellcheck source=/dev/null
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/triage-common.sh"

usage()
{
	cat <<'USAGE'
usage: triage-clush.sh -o DIR -w NODES [-R WORKER] [-t SECONDS] [-m SECONDS]
                       [-b PROGRAM] [-j NUMBER] [-q] [-- OPTION...]

Run vramtap triage on every node with clush, and combine the results. OPTION
selects the processes, such as --match 'train\.py'; the default is --all-gpu.

  -w NODES    in nodeset's syntax: node[1-16], @gpu
  -R WORKER   how clush reaches the nodes (default: as configured)
USAGE
	common_usage
}

nodes=
worker=

engine_option()
{
	case $1 in
	w) nodes=$2 ;;
	R) worker=$2 ;;
	esac
}

list_nodes()
{
	timeout 30 nodeset --expand --separator='\n' "$nodes"
}

# clush makes one line of what it is given, and the shell there takes it apart: so nothing is in it. What is to be done comes by
# standard input.
run_on()
{
	node=$1
	shift
	{
		printf 'run() {\n%s\n}\nrun' "$node_program"
		for word; do
			printf ' '
			quote "$word"
		done
		printf ' </dev/null\n'
	} >"$work/$node.sh"
	limited "$((seconds + margin))" clush -N -q -w "$node" -t "$margin" -u "$((seconds + margin))" ${worker:+"--worker=$worker"} sh -s \
		<"$work/$node.sh"
}

engine_options=w:R:
parse "$@"
shift $((OPTIND - 1))
[ -n "$nodes" ] || wrong_use 'which nodes? -w NODES is missing'
[ $# -gt 0 ] || set -- --all-gpu
triage_nodes "$@"
