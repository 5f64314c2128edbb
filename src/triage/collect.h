/* SPDX-License-Identifier: Apache-2.0 */
/* Reads many processes at once, each with its own worker. */
#ifndef VT_TRIAGE_COLLECT_H
#define VT_TRIAGE_COLLECT_H

#include "collect/collect.h"
#include "report/writer.h"
#include "triage/phase.h"
#include "triage/triage.h"

struct vt_triage_options {
	struct vt_collect_options collect; /* for processes of the job */
	bool inject;                       /* the helper may run in ranks */
	struct vt_core_paths paths;        /* where the files of cores may be */
	bool ras;                          /* NCCL's RAS may be asked */
	uint64_t timeout_ns;               /* for all together */
	const char *directory;             /* where reports go; NULL nowhere */
	vt_write_fn *page;  /* of a struct vt_model: fills vt_member.page; NULL: not wanted */
	int directory_lock; /* -1 none; workers do not hold it, because they may hang */
};

/*
 * Adds each process to job as a member, with what is known about it: a worker that fails loses only
 * the rest of its own member. status: for each, the exit status of a report of it alone. *signo is
 * set to the signal with which the user ended the collection; the job then has what there was until
 * then.
 */
struct vt_error *vt_triage_collect(struct vt_suspects *suspects,
				   const struct vt_triage_options *options, struct vt_job *job,
				   int *status, int *signo);

/* ---- private to triage/collect.c and triage/worker.c ---- */

struct vt_latch;

struct vt_worker_setup {
	pid_t parent;
	int out;    /* the parent's pipe: the document; '\0' and the report for a page, if any */
	int errors; /* another pipe: standard error; does not block */
	struct vt_phases *phases;
	size_t number;          /* in phases */
	struct vt_latch *start; /* for all of them: opened when they shall stop the threads */
	struct vt_latch *go;    /* its own: opened when a processor is free for the rest */
	struct vt_latch *ask;   /* its own: opened when the CUDA debugger may hold the process */
	struct vt_lines_memo *lines_memo; /* of all; NULL none */
	struct vt_fault_log *fault_log;   /* the same */
	uint64_t deadline_ns;
	uint64_t owners_until_ns; /* looking for owners ends then, for the rest needs time, too */
	unsigned int at_once;     /* workers */
};

/*
 * triage/worker.c: for a child that reads untrusted input, right after fork(): it ends with its
 * parent, has limits on memory and time, and its standard error is errors (-1: discarded).
 */
bool vt_triage_settle_in(const struct vt_triage_options *options, pid_t parent, int errors);

/* triage/worker.c: the life of a worker, right after fork(). */
_Noreturn void vt_triage_work(struct vt_suspect *suspect, const struct vt_triage_options *options,
			      const struct vt_worker_setup *setup);

#endif
