/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a debugger has told about the threads that it holds, or has in its core: its own numbers and
 * the registers.
 */
#ifndef VT_COLLECT_HELD_H
#define VT_COLLECT_HELD_H

#include <sys/types.h>

#include "base/vec.h"
#include "target/proc.h"
#include "target/arch/arch.h"

struct vt_held_thread {
	int number; /* the debugger's own */
	struct vt_regs regs;
	int signal; /* si_signo of its stop, 0 unknown */
	pid_t tid;  /* set when it is found among the threads; 0: it is not one of them */
};

struct vt_held {
	VT_VEC(struct vt_held_thread) threads;
	const char *debugger; /* "gdb" */
	pid_t pid;            /* of the debugger */
	/* private: the threads at the first look */
	VT_VEC(struct vt_thread_sample) samples;
};

void vt_held_deinit(struct vt_held *held);

/*
 * The thread with these two registers: no two threads share a stack. NULL: the debugger gave none.
 */
struct vt_held_thread *vt_held_find(struct vt_held *held, uint64_t sp, uint64_t pc);

/* Marks the one with these two registers, if any, as this thread. */
void vt_held_match(struct vt_held *held, pid_t tid, uint64_t sp, uint64_t pc);

/* The number of threads without registers from the debugger: it may consider them running. */
size_t vt_held_count_unknown(const struct vt_held *held);

/* By the debugger's number, NULL. */
struct vt_held_thread *vt_held_numbered(struct vt_held *held, int number);

#endif
