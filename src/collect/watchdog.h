/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a process can block in the kernel for any time: a thread that hangs in a driver holds the
 * lock of its memory map, or a page must come from a program that does not answer (userfaultfd,
 * FUSE). Signal handlers do not run then, and if the process is stopped it stays so. When the time
 * is over, another thread of ours says so and ends this program: that interrupts such a read, and
 * the kernel releases all that is stopped.
 */
#ifndef VT_COLLECT_WATCHDOG_H
#define VT_COLLECT_WATCHDOG_H

#include <stdint.h>
#include <sys/types.h>

/*
 * The time runs from now; pid 0: of many processes; doing is static: "its memory is read". If no
 * thread can be started, there is no watchdog.
 */
void vt_watchdog_arm(uint64_t ns, pid_t pid, const char *doing);
void vt_watchdog_disarm(void);

/*
 * Called before this program is ended, in the other thread: only what is async-signal-safe. NULL:
 * nothing. What it changes must not change any more.
 */
void vt_watchdog_at_end(void (*f)(void));

#endif
