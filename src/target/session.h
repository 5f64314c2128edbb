/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only place that stops and resumes threads. It uses PTRACE_SEIZE and PTRACE_INTERRUPT, never
 * SIGSTOP. Every wait has a deadline. A target that was already stopped (SIGSTOP, job control)
 * stays stopped. Whatever fails, everything that was stopped is released. If this process dies, the
 * kernel releases the target.
 *
 * A stop event is read with WNOWAIT only: if a tracer consumes a signal-delivery-stop and dies, the
 * signal is lost. A system call that a ptrace interrupt ends with EINTR although no signal came
 * (epoll_wait and similar calls) is restarted, so that the target sees nothing.
 *
 * The kernel ties a tracee to the tracing thread: all calls for one session must come from the same
 * thread. Nothing in this process may wait for any child (waitpid(-1, ...)) while a session is
 * open, since that would swallow stop events.
 */
#ifndef VT_TARGET_SESSION_H
#define VT_TARGET_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "target/live.h"
#include "target/arch/arch.h"
#include "target/sleepers.h"

struct vt_session_thread {
	pid_t tid;
	bool stopped; /* it stopped for us and regs are valid; stays so after the resume */
	bool was_group_stopped; /* a signal had stopped it before we came */
	bool sampled;        /* not stopped, but asleep: regs are valid except the unknown ones */
	struct vt_regs regs; /* valid when stopped or sampled */
	/* static text: why it is not stopped: "it did not stop in time", "it ended", ... */
	const char *why;
	/* private: */
	int phase;
	int slot;
	bool trapped;
	bool is_parent;
	uint64_t deadline_ns;
};

struct vt_session {
	pid_t pid;
	struct vt_live *live;                     /* not owned; its cache is dropped on resume */
	VT_VEC(struct vt_session_thread) threads; /* the main thread first, then by tid */
	/* when the first thread was interrupted, when the last was released */
	uint64_t stop_begin_ns, stop_end_ns;
};

/*
 * Stops all threads (also those that appear during this) and reads their registers. A thread that
 * does not stop within its own per_thread_deadline_ns costs no more time than that and has .stopped
 * = false. VT_ERR_PERMISSION when the first attach is refused (VT_ERR_BUSY naming the tracer if
 * there is another one), VT_ERR_GONE. On failure nothing is left stopped.
 */
struct vt_error *vt_session_stop_all(struct vt_session *session, pid_t pid, struct vt_live *live,
				     uint64_t per_thread_deadline_ns);
/*
 * The same, but threads that were already waited for (sleepers, NULL: none) hardly delay the
 * others.
 */
struct vt_error *vt_session_stop_soon(struct vt_session *session, pid_t pid, struct vt_live *live,
				      uint64_t per_thread_deadline_ns,
				      const struct vt_sleepers *sleepers);

/* The same, but one thread runs on: ours, which does something while the others stand still. */
struct vt_error *vt_session_stop_others(struct vt_session *session, pid_t pid, pid_t spared,
					struct vt_live *live, uint64_t per_thread_deadline_ns);
/*
 * While it is stopped: whether no thread runs but the spared one, and the registers of all are
 * known.
 */
bool vt_session_stands(const struct vt_session *session);

/*
 * Releases every thread; always succeeds. Idempotent. A thread that we asked to stop and that has
 * not stopped yet (it was runnable when we looked and then blocked uninterruptibly) cannot be let
 * go by the kernel's rules: see vt_session_settle().
 */
void vt_session_resume(struct vt_session *session);

/*
 * Lets go of threads that stopped only after their session was over, and tells whether any is still
 * outstanding. Every other call here and a handler of SIGCHLD do that too, and our exit does it for
 * good, so call this only to learn the result.
 */
bool vt_session_settle(void);

/* Resumes if needed and frees. */
void vt_session_deinit(struct vt_session *session);

/*
 * Releases everything that this process holds stopped, and waits for threads that are about to stop
 * (5 ms; up to 2 s for those that get no processor): if we just exited, the kernel would release
 * them too, but a call that our interrupt ended would return EINTR. Async-signal-safe; for the
 * handler of SIGINT, SIGTERM and SIGHUP.
 */
void vt_session_emergency_release(void);

/*
 * A word that vt_session_emergency_release() sets to 0 before anything else: code of ours in the
 * process learns by it that the process does not stand still any more. NULL: none.
 */
void vt_session_clear_first(uint32_t *word);

#endif
