/* SPDX-License-Identifier: Apache-2.0 */
/* Private to vramtap triage (triage*.c): which processes, who they are, and collecting them all at once. */
#ifndef VT_TRIAGE_TRIAGE_H
#define VT_TRIAGE_TRIAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "collect/collect.h"
#include "job/job.h"
#include "target/processes.h"

/* What the command line asks for. */
struct vt_triage_choice {
	VT_VEC(pid_t) pids;
	bool all_gpu;
	const char *slurm;   /* number of a job, NULL */
	const char *cgroup;  /* NULL */
	const char *match;   /* extended regular expression, NULL */
	pid_t children_of;   /* 0 */
};

/* One process, or core, that is looked at. */
struct vt_suspect {
	struct vt_label label;    /* texts: the arena of its struct vt_suspects */
	bool uses_gpu;
	bool sure;                /* what the role rests on is no guess that its stacks may correct */
	const char *core;         /* NULL a live process */
	const char *file;         /* name of its report in the directory */
};

struct vt_suspects {
	VT_VEC(struct vt_suspect) list;
	struct vt_arena arena;
	char host[256], system[128];
};

/* A usage error: the regular expression is none. VT_ERR_FORMAT. */
struct vt_error *vt_triage_check_choice(const struct vt_triage_choice *choice);

/*
 * triage/find.c: which of the processes are of the job. chosen and others have an element for each: chosen ones are of the job;
 * others are not, but use a device that the job may use. Never this process or one that it descends from, but when it is named by its
 * pid. Pids that do not exist are in missing.
 */
struct vt_triage_found {
	bool *chosen, *others;
	VT_VEC(pid_t) missing;
};
struct vt_error *vt_triage_find(struct vt_processes *processes, const struct vt_triage_choice *choice, struct vt_triage_found *found);
/* What has come and gone while we looked is nobody's: a shell's child that executes nothing looks like the shell. */
void vt_triage_drop_gone(const struct vt_processes *processes, const struct vt_triage_choice *choice, struct vt_triage_found *found);
void vt_triage_found_deinit(struct vt_triage_found *found);

/* triage/label.c: who they are. suspects must be zeroed. */
struct vt_error *vt_triage_label(struct vt_processes *processes, const struct vt_triage_found *found, struct vt_suspects *suspects);
struct vt_error *vt_triage_add_core(struct vt_suspects *suspects, const char *core);
void vt_suspects_deinit(struct vt_suspects *suspects);

/* The name of a file: of what a host may be called, only what is harmless in one. NULL stays NULL. */
char *vt_triage_harmless(char *name);

/* What the stacks say of who it is, where that was a guess; of a core: all. Texts are the model's. */
void vt_triage_correct_label(struct vt_suspect *suspect, const struct vt_model *model);

/* Whether it starts ranks, by its command line; or only waits for what it runs, as a shell does. */
bool vt_triage_is_launcher(const struct vt_process *process);
bool vt_triage_is_wrapper(const struct vt_process *process);

#endif
