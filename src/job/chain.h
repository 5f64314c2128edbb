/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of causes: what is wrong with one process, who waits for it, who waits for those. Codes;
 * the words of remedies are in chain.c, JSON has the names (doc/triage.schema.json).
 */
#ifndef VT_JOB_CHAIN_H
#define VT_JOB_CHAIN_H

#include <stdbool.h>

struct vt_job;
struct vt_job_chain;

/* What can be done about the first link of a chain. */
enum vt_cure {
	VT_CURE_CONTINUE,   /* stopped by a signal */
	VT_CURE_DETACH,     /* held by a debugger */
	VT_CURE_KERNEL,     /* in state D */
	VT_CURE_RESTART,    /* ended: it does not come back */
	VT_CURE_CORE,       /* left a core */
	VT_CURE_MEMORY,     /* out of memory, or close to it */
	VT_CURE_LOCK,       /* waits for a lock inside */
	VT_CURE_LOOK,       /* is elsewhere */
	VT_CURE_WORKER,     /* a loader worker that is busy */
	VT_CURE_SAME_ORDER, /* ranks began different collectives */
	VT_CURE_GPU,        /* its GPU has not come that far */
	VT_CURE_RESET,      /* its GPU has a fault that a new process does not cure */
	VT_CURE_CONTEXT,    /* lost its CUDA context: it does not come back */
	VT_CURE_NETWORK,    /* NCCL has lost it */
	VT_N_CURES,
};

/* Why a chain is only likely. */
enum vt_doubt {
	VT_DOUBT_NONE,     /* the data show each link */
	VT_DOUBT_LEFT_OUT, /* it may be there, but was not one of those to be read */
	VT_DOUBT_UNSEEN,   /* a rank that was not found or not read may be awaited, too */
	VT_DOUBT_GROUPS,   /* those that wait may be in a process group without it */
	VT_DOUBT_GPU,      /* those that wait do so for their GPUs, which may be busy only */
	VT_DOUBT_WORKERS,  /* its rank may wait for another of its workers */
	VT_DOUBT_SLOW,     /* it runs: it may be slow only */
	VT_N_DOUBTS,
};

/* "continue", "groups"; of VT_DOUBT_NONE NULL. */
const char *vt_cure_name(enum vt_cure cure);
const char *vt_doubt_name(enum vt_doubt doubt);

/* "its rank may wait for another of its workers"; NULL none */
const char *vt_doubt_words(enum vt_doubt doubt);

#define VT_MAX_STEPS 2

/* Fills chain->steps. False: out of memory. */
bool vt_chain_fill_steps(struct vt_job *job, struct vt_job_chain *chain);

/* The machine of the first link's processes; "" unknown, or they are on several. */
const char *vt_chain_host(const struct vt_job *job, const struct vt_job_chain *chain);

#endif
