/* SPDX-License-Identifier: Apache-2.0 */
/* Private to collect/stacks.c and collect/capture.c: the threads while they are read. */
#ifndef VT_COLLECT_STACKS_H
#define VT_COLLECT_STACKS_H

#include "base/map.h"
#include "collect/collect.h"
#include "target/replay.h"
#include "target/session.h"
#include "target/snapshot.h"
#include "walk/native/native.h"
#include "walk/python/python.h"
#include "explain/wait.h"

#define VT_MAX_ROUNDS 4

/*
 * One look at threads: all of them stopped together, or, with --no-stop, those that are still to be
 * read while they sleep. Raw data only; it is consistent if a thread was stopped or did not run.
 */
struct vt_round {
	struct vt_session *session; /* the stop's, or own, a mere list of threads; NULL before */
	struct vt_session own;
	/* of the session's threads that were not stopped; NULL when there are none */
	struct vt_thread_sample *samples;
	struct vt_snapshot *snapshot; /* NULL: there are no copies */
	struct vt_python python;      /* when have_python */
};

/* The round of a thread, and its index there. */
struct vt_found_thread {
	struct vt_round *round;                /* the last one that it was in, NULL none */
	struct vt_session_thread *thread;      /* NULL: it was in none */
	const struct vt_thread_sample *sample; /* NULL: it was stopped */
	const struct vt_python_thread *python; /* NULL: it runs no Python */
};

/* Where a thread sleeps, by the kernel. */
struct vt_kernel_stack {
	const char *const *frames; /* in the model's arena */
	size_t n;
};

struct vt_stacks {
	struct vt_collect *c;
	uint64_t start_ns;
	struct vt_thread_list list; /* as /proc showed them before they were read */
	struct vt_round rounds[VT_MAX_ROUNDS];
	size_t n_rounds;
	size_t n_escaped; /* threads that could not be stopped */
	size_t n_ran;     /* of them, those that ran during the read */
	bool have_python;
	struct vt_replay *replay;       /* NULL: nothing was rehearsed */
	struct vt_kernel_stack *kernel; /* of the first n_kernel threads of list */
	size_t n_kernel;
	uint64_t recorder; /* the address of its head, 0: there is none */
	struct vt_wait wait;
	struct vt_map by_inner;         /* of a core: inner tids → tids */
	struct vt_found_thread *found;  /* one for each thread of list */
	struct vt_native_stack *native; /* the same */
	struct vt_native_lines *lines;  /* being read for them; NULL: none */
};

/* Whether its registers and stack belong together. */
static inline bool vt_is_read(const struct vt_session_thread *thread)
{
	return thread->stopped || thread->sampled;
}

/* Copies what is needed of every thread. Before a stop, in it, just after; or without any. */
void vt_capture_rehearse(struct vt_stacks *s);
void vt_capture_stopped(struct vt_stacks *s);
void vt_capture_resumed(struct vt_stacks *s);
void vt_capture_running(struct vt_stacks *s);

/*
 * What /proc shows of the registers of a sleeping thread: where it is, and its arguments of the
 * system call.
 */
void vt_registers_of_sample(const struct vt_thread_sample *sample, struct vt_regs *regs);

void vt_begin_own_session(struct vt_round *round, const struct vt_collect *c);
void vt_round_deinit(struct vt_round *round);

/* To capture again what was found once: found must exist as long as again is used. */
void vt_python_begin_again(struct vt_python *again, const struct vt_python *found);

/* asyncio.c: adds the tasks of event loops, after the threads; nothing is stopped for it. */
void vt_collect_tasks(struct vt_stacks *s);

/* Marks the threads of the model (which are those of s->list) that wait for each other. */
void vt_find_deadlocks(struct vt_stacks *s);

#endif
