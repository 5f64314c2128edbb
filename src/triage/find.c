/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes of a job: those that were named or found, their descendants, and their
 * launchers.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "triage/triage.h"

/* From a rank to its launcher: shells and the like may be between. */
#define MAX_HOPS 16

struct finding {
	struct vt_processes *processes;
	const struct vt_triage_choice *choice;
	struct vt_triage_found *found;
	bool *ours; /* this process and its ancestors, and other vramtaps */
	regex_t *match;
};

static struct vt_error *compile(const char *text, regex_t *regex)
{
	char why[128];
	int ret = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);

	if (!ret)
		return NULL;
	regerror(ret, regex, why, sizeof(why));
	return vt_error_create(VT_ERR_FORMAT,
			       "--match: \"%s\" is not a valid regular expression: %s", text, why);
}

struct vt_error *vt_triage_check_choice(const struct vt_triage_choice *choice)
{
	regex_t regex;

	if (!choice->match)
		return NULL;
	VT_TRY(compile(choice->match, &regex));
	regfree(&regex);
	return NULL;
}

static bool is_named(const struct vt_triage_choice *choice, pid_t pid)
{
	for (size_t i = 0; i < choice->pids.n; i++)
		if (choice->pids.data[i] == pid)
			return true;
	return false;
}

/* ---- ways to find them ---- */

static bool uses_gpu(const struct finding *f, size_t i)
{
	return f->choice->all_gpu && vt_process_gpu(f->processes, i, NULL) != VT_GPU_NONE;
}

static bool is_slurmstepd(const struct vt_process *process)
{
	return !strncmp(process->name, "slurmstepd", strlen("slurmstepd"));
}

/*
 * In the job's control group, but owned by root: the process that waits for the tasks of a step,
 * and its endless sleep that holds the group in the step "extern", which has no tasks. In a job of
 * root's own the first one is found as a launcher.
 */
static bool is_slurms_own(const struct finding *f, size_t i)
{
	const struct vt_process *list = f->processes->list.data, *process = &list[i];

	if (is_slurmstepd(process))
		return true;
	return !strcmp(process->name, "sleep") && process->parent != VT_NO_PROCESS &&
	       is_slurmstepd(&list[process->parent]) &&
	       strstr(vt_process_cgroup(f->processes, i), "/step_extern");
}

/* The number of a job, or of a step in it: "4711", and "4711.0" for its first step. */
static bool is_of_slurm_job(const struct finding *f, size_t i)
{
	static const char *const variables[] = { "SLURM_JOB_ID", "SLURM_JOBID" };
	char id[32];

	if (!f->choice->slurm)
		return false;
	if (vt_cgroup_slurm_job(vt_process_cgroup(f->processes, i), id, sizeof(id)))
		return !strcmp(id, f->choice->slurm) && !is_slurms_own(f, i);
	for (size_t v = 0; v < sizeof(variables) / sizeof(variables[0]); v++) {
		const char *value = vt_process_variable(f->processes, i, variables[v]);

		if (value && !strcmp(value, f->choice->slurm))
			return true;
	}
	return false;
}

static bool is_in_cgroup(const struct finding *f, size_t i)
{
	return f->choice->cgroup &&
	       vt_cgroup_is_below(vt_process_cgroup(f->processes, i), f->choice->cgroup);
}

static bool matches(const struct finding *f, size_t i)
{
	const char *command = f->processes->list.data[i].command;

	return f->match && *command && !regexec(f->match, command, 0, NULL, 0);
}

static bool is_the_parent(const struct finding *f, size_t i)
{
	return f->choice->children_of && f->processes->list.data[i].pid == f->choice->children_of;
}

static bool (*const ways[])(const struct finding *f, size_t i) = {
	uses_gpu, is_of_slurm_job, is_in_cgroup, matches, is_the_parent,
};

/* ---- */

static void mark_ours(struct finding *f)
{
	size_t at = vt_processes_find(f->processes, getpid());

	for (size_t hops = 0; at != VT_NO_PROCESS && hops < f->processes->list.n; hops++) {
		f->ours[at] = true;
		at = f->processes->list.data[at].parent;
	}
}

/*
 * Another vramtap and its shells, for example of a triage on each node of the job: they come and go
 * during the read.
 */
static void mark_others_like_us(struct finding *f)
{
	const struct vt_process *list = f->processes->list.data;

	for (size_t i = 0; i < f->processes->list.n; i++) {
		size_t at = strcmp(list[i].name, "vramtap") ? VT_NO_PROCESS : i;

		for (int hops = 0; at != VT_NO_PROCESS && hops < MAX_HOPS &&
				   (at == i || vt_triage_is_wrapper(&list[at]));
		     hops++) {
			f->ours[at] = true;
			at = list[at].parent;
		}
	}
}

/*
 * Processes that are only read when named. src/cluster/ sets the variable, and their
 * children inherit it.
 */
static bool is_excluded(const struct finding *f, size_t i)
{
	return f->ours[i] || f->processes->list.data[i].kernel_thread ||
	       vt_process_variable(f->processes, i, "VRAMTAP_TRIAGE");
}

static void find_seeds(struct finding *f)
{
	for (size_t i = 0; i < f->processes->list.n; i++) {
		if (is_named(f->choice, f->processes->list.data[i].pid))
			f->found->chosen[i] = true;
		for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]) && !f->found->chosen[i]; w++)
			f->found->chosen[i] = ways[w](f, i) && !is_excluded(f, i);
	}
}

/* Launchers of another user (Slurm's own slurmstepd) are the system's, not the job's. */
static void choose_launchers_of(struct finding *f, size_t process)
{
	const struct vt_process *list = f->processes->list.data;
	size_t at = list[process].parent;

	for (int hops = 0; at != VT_NO_PROCESS && hops < MAX_HOPS && list[at].pid > 1;
	     hops++, at = list[at].parent)
		if (list[at].uid == list[process].uid && !is_excluded(f, at) &&
		    vt_triage_is_launcher(&list[at]))
			f->found->chosen[at] = true;
}

static void choose_launchers(struct finding *f)
{
	VT_FREE bool *seeds = calloc(f->processes->list.n + 1, sizeof(*seeds));

	for (size_t i = 0; seeds && i < f->processes->list.n; i++)
		seeds[i] = f->found->chosen[i];
	for (size_t i = 0; seeds && i < f->processes->list.n; i++)
		if (seeds[i])
			choose_launchers_of(f, i);
}

/*
 * A process may have a smaller pid than its parent, so the order of the list does not help: from
 * each process, this goes up to the first ancestor with a known result.
 */
static void choose_descendants(struct finding *f, const bool *of)
{
	for (size_t i = 0; i < f->processes->list.n; i++) {
		size_t at = f->processes->list.data[i].parent;

		for (size_t hops = 0;
		     at != VT_NO_PROCESS && hops < f->processes->list.n && !f->found->chosen[i];
		     hops++) {
			f->found->chosen[i] = of[at] && !is_excluded(f, i);
			at = f->processes->list.data[at].parent;
		}
	}
}

/* For example the shell that started us: that one is left out. */
static void add_parent(const struct finding *f, bool *seeds)
{
	size_t at = vt_processes_find(f->processes, f->choice->children_of);

	if (at != VT_NO_PROCESS)
		seeds[at] = true;
}

static bool are_others_wanted(const struct vt_triage_choice *choice)
{
	return !choice->all_gpu &&
	       (choice->slurm || choice->cgroup || choice->match || choice->children_of);
}

/* Only open device files tell which devices the job uses; without them it may be any device. */
static void find_others(struct finding *f)
{
	uint64_t of_job = 0;
	bool job_known = true;

	for (size_t i = 0; i < f->processes->list.n; i++) {
		uint64_t devices = 0;

		if (!f->found->chosen[i] ||
		    vt_process_gpu(f->processes, i, &devices) == VT_GPU_NONE)
			continue;
		of_job |= devices;
		job_known = job_known && devices;
	}
	for (size_t i = 0; i < f->processes->list.n; i++) {
		uint64_t devices = 0;

		if (f->found->chosen[i] ||
		    vt_process_gpu(f->processes, i, &devices) == VT_GPU_NONE || is_excluded(f, i))
			continue;
		f->found->others[i] = !job_known || !devices || devices & of_job;
	}
}

static struct vt_error *find_missing(struct finding *f)
{
	for (size_t i = 0; i < f->choice->pids.n; i++) {
		pid_t pid = f->choice->pids.data[i], *missing;

		if (vt_processes_find(f->processes, pid) != VT_NO_PROCESS)
			continue;
		missing = vt_vec_append(&f->found->missing);
		if (!missing)
			return &vt_enomem;
		*missing = pid;
	}
	return NULL;
}

/* If the job is found by its use of GPUs, all children of its launcher belong to it. */
static struct vt_error *find_job(struct finding *f)
{
	size_t n = f->processes->list.n + 1;
	VT_FREE bool *seeds = calloc(n, sizeof(*seeds));

	if (!seeds)
		return &vt_enomem;
	mark_ours(f);
	mark_others_like_us(f);
	find_seeds(f);
	if (f->choice->all_gpu)
		choose_launchers(f);
	memcpy(seeds, f->found->chosen, n * sizeof(*seeds));
	add_parent(f, seeds);
	choose_descendants(f, seeds);
	choose_launchers(f);
	if (are_others_wanted(f->choice))
		find_others(f);
	return find_missing(f);
}

struct vt_error *vt_triage_find(struct vt_processes *processes,
				const struct vt_triage_choice *choice,
				struct vt_triage_found *found)
{
	size_t n = processes->list.n + 1;
	struct finding f = { .processes = processes,
			     .choice = choice,
			     .found = found,
			     .ours = calloc(n, sizeof(bool)) };
	struct vt_error *err = &vt_enomem;
	regex_t match;

	found->chosen = calloc(n, sizeof(bool));
	found->others = calloc(n, sizeof(bool));
	if (f.ours && found->chosen && found->others) {
		err = choice->match ? compile(choice->match, &match) : NULL;
		f.match = choice->match && !err ? &match : NULL;
		if (!err)
			err = find_job(&f);
	}
	if (f.match)
		regfree(f.match);
	free(f.ours);
	if (err)
		vt_triage_found_deinit(found);
	return err;
}

/* What cuda-gdb has left in a process: one for each look (doc/SAFETY.md). */
static bool is_of_debugger(const struct vt_process *process)
{
	return process->state == 'Z' && !strcmp(process->name, "NvDebugAgent");
}

void vt_triage_drop_gone(const struct vt_processes *processes,
			 const struct vt_triage_choice *choice, struct vt_triage_found *found)
{
	for (size_t i = 0; i < processes->list.n; i++)
		if ((found->chosen[i] || found->others[i]) &&
		    !is_named(choice, processes->list.data[i].pid) &&
		    (!vt_process_is_there(processes, i) ||
		     is_of_debugger(&processes->list.data[i])))
			found->chosen[i] = found->others[i] = false;
}

void vt_triage_found_deinit(struct vt_triage_found *found)
{
	free(found->chosen);
	free(found->others);
	found->chosen = found->others = NULL;
	vt_vec_deinit(&found->missing);
}
