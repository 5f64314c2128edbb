/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks NCCL's RAS (2.24 on) what it knows about a job: every process has a thread that listens on a
 * socket, by default localhost:28028, and answers for all processes of the job. Private to vramtap
 * triage.
 */
#ifndef VT_TRIAGE_RAS_H
#define VT_TRIAGE_RAS_H

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/map.h"
#include "base/str.h"
#include "triage/collect.h"

/* ---- triage/ras.c: the process that asks; these are for the parent of all workers ---- */

struct vt_triage_ras;

/* Starts it; it waits. NULL if no process shall be asked, or it cannot be started. */
struct vt_triage_ras *vt_triage_ras_start(const struct vt_suspects *suspects,
					  const struct vt_triage_options *options,
					  uint64_t deadline_ns);

/* Lets it ask: all threads run again, those of RAS, too. */
void vt_triage_ras_go(struct vt_triage_ras *ras);

/* It has asked: nobody needs these threads any more. True of NULL. */
bool vt_triage_ras_is_over(const struct vt_triage_ras *ras);

/*
 * Waits for its answers and adds them to job, or one note why there are none. give_up: at once.
 * mask: the signal mask of the wait, which lets the user's signals through; one that sets
 * interrupted ends the wait. Releases ras; NULL is fine.
 */
void vt_triage_ras_finish(struct vt_triage_ras *ras, bool give_up, const sigset_t *mask,
			  const volatile sig_atomic_t *interrupted, struct vt_job *job);

/* ---- triage/ras_find.c: where ranks listen ---- */

union vt_ras_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/*
 * One address in one network namespace where ranks listen: the kernel chooses which one gets a
 * connection.
 */
struct vt_ras_listener {
	union vt_ras_address address;  /* to connect to */
	char name[64];                 /* "127.0.0.1:28028" */
	const struct vt_suspect *rank; /* one of the listening ranks */
	ino_t netns;
	bool foreign; /* a process outside the job listens there, too, or may */
};

struct vt_ras_listeners {
	VT_VEC(struct vt_ras_listener) list;
	size_t n_ranks;  /* that were examined */
	size_t n_hidden; /* of them: their descriptors may not be read */
	size_t n_off;    /* of them: RAS is turned off (NCCL_RAS_ENABLE) */
};

struct vt_error *vt_ras_find(const struct vt_suspects *suspects,
			     struct vt_ras_listeners *listeners);
void vt_ras_listeners_deinit(struct vt_ras_listeners *listeners);

/*
 * The process of the job that accepted a connection from the address from to listener. 0: none yet;
 * -1: a process outside the job.
 */
pid_t vt_ras_accepted_by(const struct vt_suspects *suspects, const struct vt_ras_listener *listener,
			 const union vt_ras_address *from);

/* ---- triage/ras_ask.c: the dialogue ---- */

struct vt_ras_answer {
	pid_t pid; /* the process that answered */
	bool json, whole;
	struct vt_str text;
};

/*
 * The time that a question needs if RAS has to wait for other processes. With less, its thread may
 * poll for seconds (SAFETY.md).
 */
uint64_t vt_ras_least_ns(void);

/*
 * Asks, in the network namespace of the listener. Sends nothing before it knows which process
 * accepted the connection.
 */
struct vt_error *vt_ras_ask(const struct vt_suspects *suspects,
			    const struct vt_ras_listener *listener, uint64_t deadline_ns,
			    struct vt_ras_answer *answer);

#endif
