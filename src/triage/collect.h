/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at many processes at once, each by a worker of its own. */
#ifndef VT_TRIAGE_COLLECT_H
#define VT_TRIAGE_COLLECT_H

#include "collect/collect.h"
#include "triage/phase.h"
#include "triage/triage.h"

struct vt_triage_options {
	struct vt_collect_options collect; /* of processes of the job */
	bool inject;           /* the helper may run in ranks */
	struct vt_core_places places; /* where the files of cores may be */
	bool ras;              /* NCCL's RAS may be asked */
	uint64_t timeout_ns;   /* for all together */
	const char *directory; /* where reports go */
	int directory_lock;    /* -1 none; workers, who may hang, do not hold it */
};

/*
 * Adds each to job as a member, with what is known of it: whatever becomes of a worker costs no more than the rest of its member.
 * status: for each, the exit status that a report of it alone would have. *signo is set to the signal by which the user ended it; then
 * what there was is in the job.
 */
struct vt_error *vt_triage_collect(struct vt_suspects *suspects, const struct vt_triage_options *options, struct vt_job *job,
				   int *status, int *signo);

/* ---- private to triage/collect.c and triage/worker.c ---- */

struct vt_gate;

struct vt_worker_place {
	pid_t parent;
	int out;               /* the parent's pipe: the document, and nothing else */
	int errors;            /* another one: standard error; does not block */
	struct vt_phases *phases;
	size_t number;         /* in phases */
	struct vt_gate *start; /* for all of them: opened when the threads are to be stopped */
	struct vt_gate *go;    /* its own: opened when there is a processor for the rest */
	struct vt_lines_memo *lines_memo; /* of all; NULL none */
	uint64_t deadline_ns;
};

/*
 * triage/worker.c: for a child that reads what others say, right after fork(): it ends with its parent, is bounded in
 * memory and time, and its standard error is errors (-1: goes nowhere).
 */
bool vt_triage_settle_in(const struct vt_triage_options *options, pid_t parent, int errors);

/* triage/worker.c: the life of a worker, right after fork(). */
_Noreturn void vt_triage_work(struct vt_suspect *suspect, const struct vt_triage_options *options, const struct vt_worker_place *place);

#endif
