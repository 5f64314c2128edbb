/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one thread that we are attached to stands, and letting it go. Everything here is
 * async-signal-safe: system calls and the stack only, and the state is asked of the kernel, not of
 * structures that may be half written.
 */
#ifndef VT_TARGET_LET_GO_H
#define VT_TARGET_LET_GO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/arch/arch.h"
#include "target/asleep.h"

/*
 * Room for a status file up to the signal masks; the list of supplementary groups before them can
 * be long.
 */
#define VT_MAX_STATUS 32768

bool vt_status_read(pid_t tid, char *status, size_t size);
/* The number after "\nkey:" and blanks in a status file; false when there is none. */
bool vt_status_field(const char *status, const char *key, unsigned int base, uint64_t *value);

/* False when it cannot be read, or of a thread in 32-bit code. */
bool vt_stop_registers(pid_t tid, struct vt_regs *regs);

enum vt_stop_kind {
	VT_STOP_NONE,   /* not stopped */
	VT_STOP_TRAP,   /* by our interrupt */
	VT_STOP_GROUP,  /* by a signal that stops the whole process */
	VT_STOP_SIGNAL, /* about to take a signal */
	VT_STOP_DEAD,   /* ended, we may have to wait for it */
	VT_STOP_LOST,   /* not ours any more */
};

/*
 * The stop state of the thread. *signo is the signal to pass on when it is let go (0: none). If the
 * stop event was consumed (a wait without WNOWAIT), the stop itself remains; PTRACE_GETSIGINFO
 * shows it then.
 */
enum vt_stop_kind vt_stop_look(pid_t tid, int *signo);

/*
 * Waits for a dead thread; otherwise it stays a zombie, and its process with it. Not for a main
 * thread that is our own child: its exit status belongs to the code that started it here. (A child
 * of another process is only given back to that process by this.)
 */
void vt_stop_reap(pid_t tid);

/*
 * For a thread that the calling thread has just attached to: *asleep is what will be needed for
 * undoing the EINTR of a stop.
 */
void vt_stop_attached(pid_t tid, struct vt_asleep *asleep);

/* Asks such a thread to stop. False when it is dying. */
bool vt_stop_interrupt(pid_t tid, struct vt_asleep *asleep);

/*
 * For a thread that the calling thread holds stopped and is about to detach from: restarts its
 * system call if that ended with EINTR only because of our interrupt. signo: the signal that is
 * being delivered, 0 for none.
 */
void vt_stop_restart_if_spurious(pid_t tid, int signo, const struct vt_asleep *asleep);

/* True when we are no longer attached to it; false when it has not stopped yet, or is dying. */
bool vt_stop_let_go(pid_t tid, struct vt_asleep *asleep);

#endif
