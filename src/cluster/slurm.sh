# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2154,SC2317,SC2329 # common.sh calls these functions, and has variables in common with them
# All nodes of a running job of Slurm (20.11 or later), by a step of its own beside those of the job. $where: the job's number.
engine=slurm
needs='squeue scontrol srun'
all_together=1

# The job, of an array or not, by its own number.
list_nodes()
{
	forget_job
	call 30 squeue --noheader --jobs="$where" --states=RUNNING,SUSPENDED,COMPLETING --format='%A %N' >"$work/job" || return 1
	number=$(sed 's/ .*//' "$work/job")
	is_number "$number" || fail "there is no such job, or it does not run, or these are several: $where"
	printf '%s\n' "$number" >"$work/number"
	call 30 scontrol show hostnames "$(sed 's/^[^ ]* //' "$work/job")"
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
		--mem=0 --gres=none --cpu-bind=none --mpi=none --export=ALL --kill-on-bad-exit=0 --wait=0 --quiet "$@"
}

run_on()
{
	node=$1
	shift
	step --nodes=1 --ntasks=1 --nodelist="$node" sh -c "$node_program" sh "$@" --job "$(cat "$work/number")"
}

run_on_all()
{
	step --nodes="$(wc -l <"$work/nodes")" --nodelist="$(paste -s -d , "$work/nodes")" --input=none sh -c "$node_program" sh "$@" \
		--job "$(cat "$work/number")"
}
