/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a process can block in the kernel for as long as it likes: its memory map is locked by a
 * thread that hangs in a driver, or a page is to come from somebody who does not answer
 * (userfaultfd, FUSE). No signal handler runs meanwhile, and if the process is stopped it stays so.
 * When the time is over, another thread of ours says so and ends this program, which interrupts
 * such a read, and whereupon the kernel lets go of all that is stopped.
 */
#ifndef VT_COLLECT_WATCHDOG_H
#define VT_COLLECT_WATCHDOG_H

#include <stdint.h>
#include <sys/types.h>

/*
 * From now on the time runs; doing is static: "its memory is read". When no thread can be started,
 * there is no watchdog.
 */
void vt_watchdog_arm(uint64_t ns, pid_t pid, const char *doing);
void vt_watchdog_disarm(void);

#endif
