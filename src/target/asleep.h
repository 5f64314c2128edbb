/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call that a thread sleeps in, as the kernel shows it without a stop. Where a stop ends
 * a call with EINTR and makes the kernel forget which one that was (vt_native_forgets_calls), it is
 * asked for before. Async-signal-safe.
 */
#ifndef VT_TARGET_ASLEEP_H
#define VT_TARGET_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/arch/arch.h"

struct vt_asleep {
	int64_t nr; /* -1: it is in none, or runs, or cannot be seen */
	uint64_t args[6];
	uint64_t sp, pc;   /* pc: behind the instruction */
	uint64_t switches; /* how often it had begun to sleep, this time included */
};

/* Without .switches. */
void vt_asleep_read(pid_t tid, struct vt_asleep *asleep);

bool vt_asleep_is_same(const struct vt_asleep *a, const struct vt_asleep *b);

#endif
