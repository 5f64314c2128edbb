#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# vramtap triage on all nodes of a job of Slurm (20.11 or later), put together: see usage().
# shellcheck disable=SC2034,SC2154,SC2317,SC2329 # triage-common.sh calls these functions, and has variables in common with them
set -u
# shellcheck source=/dev/null
. "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/triage-common.sh"

usage()
{
	cat <<'USAGE'
usage: triage-slurm.sh -o DIR [-t SECONDS] [-m SECONDS] [-b PROGRAM]
                       [-j NUMBER] [-q] JOB [-- OPTION...]

Run vramtap triage on every node of a running Slurm job, in a step of its own
beside those of the job, and combine the results. Works from a login node or
from the job itself, as the job's user or as root.

USAGE
	common_usage
}

# The job, of an array or not, by its own number.
list_nodes()
{
	timeout 30 squeue --noheader --jobs="$job" --states=RUNNING,SUSPENDED,COMPLETING --format='%A %N' >"$work/job" || return 1
	number=$(sed 's/ .*//' "$work/job")
	is_number "$number" || fail "there is no such job, or it does not run, or these are several: $job"
	printf '%s\n' "$number" >"$work/number"
	timeout 30 scontrol show hostnames "$(sed 's/^[^ ]* //' "$work/job")"
}

# What a step in the job's own environment inherits (numbers of tasks, memory, ways to bind) is not for this one.
forget_job()
{
	for variable in $(env | sed -n 's/^\(S\(LURM\|RUN\|BATCH\)_[A-Z0-9_]*\)=.*/\1/p'); do
		[ "$variable" = SLURM_CONF ] || unset "$variable"
	done
}

# It waits for nothing that the job's steps have, and no task's end is the end of others.
step()
{
	limited "$((seconds + margin))" srun --overlap --jobid="$(cat "$work/number")" --job-name=vramtap-triage --ntasks-per-node=1 \
		--mem=0 --gres=none --cpu-bind=none --mpi=none --export=ALL --input=none --kill-on-bad-exit=0 --wait=0 --quiet "$@"
}

run_on()
{
	node=$1
	shift
	step --nodes=1 --ntasks=1 --nodelist="$node" sh -c "$node_program" sh "$@" --job "$(cat "$work/number")"
}

run_on_all()
{
	step --nodes="$(wc -l <"$work/nodes")" --nodelist="$(paste -s -d , "$work/nodes")" sh -c "$node_program" sh "$@" \
		--job "$(cat "$work/number")"
}

parse "$@"
shift $((OPTIND - 1))
[ $# -gt 0 ] || wrong_use 'which job?'
job=$1
shift
[ "${1-}" != -- ] || shift
case $job in
*[!0-9_+]* | '') wrong_use "\"$job\" is no number of a job" ;;
esac
all_together=1
forget_job
triage_nodes "$@"
