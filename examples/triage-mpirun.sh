#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vramtap triage on many hosts by mpirun, of Open MPI or MPICH (hydra; Intel MPI), put together: see usage().
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # triage-common.sh calls these functions, and has variables in common with them
set -u
# shellcheck source=/dev/null
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/triage-common.sh"

usage()
{
	cat <<'USAGE'
usage: triage-mpirun.sh -o DIR [-H HOST,...|-f FILE] [-t SECONDS] [-m SECONDS]
                        [-b PROGRAM] [-j NUMBER] [-q] [-- OPTION...]

Run vramtap triage on every host with mpirun, and combine the results. OPTION
selects the processes, such as --match 'train\.py'; the default is --all-gpu.
MPIRUN in the environment names the program (default: mpirun).

  -H HOST,... the hosts
  -f FILE     a file with a host at the beginning of each line, like a hostfile
              (default: $PBS_NODEFILE, or $LSB_DJOB_HOSTFILE)
USAGE
	common_usage
}

hosts=
file=${PBS_NODEFILE:-${LSB_DJOB_HOSTFILE:-}}

engine_option()
{
	case $1 in
	H) hosts=$2 ;;
	f) file=$2 ;;
	esac
}

# "node1", "node1 slots=8", "node1:8"
list_nodes()
{
	if [ -n "$hosts" ]; then
		printf '%s\n' "$hosts" | tr , '\n'
	else
		sed 's/#.*//; s/^[[:space:]]*//; s/[[:space:]:].*//' "$file"
	fi
}

# What both kinds of mpirun understand: a program once, on one host. Open MPI does not run as root unasked; the user must be permitted to inspect the processes.
run_on()
{
	host=$1
	shift
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
	limited "$((seconds + margin))" "${MPIRUN:-mpirun}" -n 1 -host "$host" sh -c "$node_program" sh "$@"
}

engine_options=H:f:
parse "$@"
shift $((OPTIND - 1))
[ -n "$hosts" ] || [ -r "$file" ] || wrong_use 'which hosts? -H or -f is missing'
[ $# -gt 0 ] || set -- --all-gpu
triage_nodes "$@"
