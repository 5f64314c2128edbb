/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to vramtap triage: which processes there are, their labels, and collecting all of them at
 * once.
 */
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
	const char *slurm;  /* number of a job, NULL */
	const char *cgroup; /* NULL */
	const char *match;  /* extended regular expression, NULL */
	pid_t children_of;  /* 0 */
};

/* One process, or core, to be read. */
struct vt_suspect {
	struct vt_label label; /* texts: the arena of its struct vt_suspects */
	bool uses_gpu;
	uint64_t devices; /* bit N: it has /dev/nvidiaN open */
	bool sure;        /* the role is no guess: its stacks must not correct it */
	const char *core; /* NULL a live process */
	const char *file; /* name of its report in the directory */
};

struct vt_suspects {
	VT_VEC(struct vt_suspect) list;
	struct vt_arena arena;
	char host[256], system[128];
};

/* VT_ERR_FORMAT: a usage error, the regular expression is invalid. */
struct vt_error *vt_triage_check_choice(const struct vt_triage_choice *choice);

/*
 * triage/find.c: finds the processes of the job. chosen and others have an element for each
 * process: chosen ones belong to the job; others do not, but use a device that the job may use.
 * This process and its ancestors are never among them, unless named by pid. Pids that do not exist
 * are in missing.
 */
struct vt_triage_found {
	bool *chosen, *others;
	VT_VEC(pid_t) missing;
};
struct vt_error *vt_triage_find(struct vt_processes *processes,
				const struct vt_triage_choice *choice,
				struct vt_triage_found *found);
/*
 * Drops processes that came and went in between: a shell's child that has not called exec looks
 * like the shell. And what a debugger has left behind.
 */
void vt_triage_drop_gone(const struct vt_processes *processes,
			 const struct vt_triage_choice *choice, struct vt_triage_found *found);
void vt_triage_found_deinit(struct vt_triage_found *found);

/* triage/none.c: that there are none. */
struct vt_error *vt_triage_none(const struct vt_triage_choice *choice);

/* triage/label.c: labels them. suspects must be zeroed. */
struct vt_error *vt_triage_label(struct vt_processes *processes,
				 const struct vt_triage_found *found, struct vt_suspects *suspects);
struct vt_error *vt_triage_add_core(struct vt_suspects *suspects, const char *core);
void vt_suspects_deinit(struct vt_suspects *suspects);

/* Makes a host name safe for a file name: keeps harmless characters only. NULL stays NULL. */
char *vt_triage_harmless(char *name);

/* Whether it is worth looking for what keeps its blocks alive: it is a rank, or may be one. */
bool vt_triage_has_owners(const struct vt_suspect *suspect);

/* Corrects a guessed label by the stacks; labels a core entirely. Texts are the model's. */
void vt_triage_correct_label(struct vt_suspect *suspect, const struct vt_model *model);

/*
 * Whether it starts ranks, by its command line; whether it only waits for what it runs, as a shell
 * does.
 */
bool vt_triage_is_launcher(const struct vt_process *process);
bool vt_triage_is_wrapper(const struct vt_process *process);

#endif
