# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154,SC2317,SC2329 # common.sh calls these functions, and has variables in common with them
# Many hosts by mpirun, of Open MPI or MPICH (hydra; Intel MPI). $where: "HOST,..."; with a slash: a file with a host at the beginning of
# each line. MPIRUN in the environment names the program.
engine=mpirun
needs=${MPIRUN:=mpirun}

# "node1", "node1 slots=8", "node1:8"
list_nodes()
{
	case $where in
	*/*) sed 's/#.*//; s/^[[:space:]]*//; s/[[:space:]:].*//' -- "$where" ;;
	*) printf '%s\n' "$where" | tr , '\n' ;;
	esac
}

# What both kinds of mpirun understand: a program once, on one host. Open MPI does not run as root unasked; the user must be permitted
# to inspect the processes.
run_on()
{
	host=$1
	shift
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
	limited "$((seconds + margin))" "$MPIRUN" -n 1 -host "$host" sh -c "$node_program" sh "$@"
}

# A hydra gives up when a program does not read as fast as it is sent something.
can_send()
{
	timeout 10 "$MPIRUN" --version 2>/dev/null | grep -q -e OpenRTE -e 'Open MPI'
}
