/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between processors when a thread is borrowed: one folder of src/inject/arch each,
 * which configure chooses (VT_ARCH). A third architecture is a folder with
 *
 *   frame.h   the registers as the stub keeps them (inject/arch/frame.h)
 *   caught.h  struct vt_caught: the registers of a stopped thread, as the kernel gives them
 *   caught.c  the functions below for it
 *   stack.c   what a stack shows
 *   xstate.c  inject/arch/xstate.h
 *   entry.S   the two ends of the stub: vt_stub_start, with the thread's entry VT_STUB_THREAD bytes
 *             behind it, and vt_stub_start_file_thread()
 *   leave.c   inject/stub/leave.h
 *   step.c    with --enable-fault-points: stepping through the stub
 */
#ifndef VT_INJECT_ARCH_ARCH_H
#define VT_INJECT_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/stub/stub.h"
#include "vramtap/mem.h"

#if defined(__x86_64__)
#include "inject/arch/x86_64/caught.h"
#elif defined(__aarch64__)
#include "inject/arch/aarch64/caught.h"
#endif

/* Registers */

/* A wait in a system call: where it was seen, or where the thread stopped in it. */
struct vt_wait {
	uint64_t sp, pc; /* pc: behind the system call's instruction */
	long nr;
	uint64_t args[6];
};

/* What is only known as long as the thread is not stopped yet. */
void vt_caught_prepare(pid_t tid, struct vt_caught *caught);

/*
 * Whether the thread was let go, for a moment, because a stop shows more the second time: then it
 * is to be stopped again.
 */
bool vt_caught_let_on(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen);

/* The registers of the thread, which the calling thread holds stopped (as for all of these). */
bool vt_caught_read(pid_t tid, struct vt_caught *caught);

uint64_t vt_caught_sp(const struct vt_caught *caught);
uint64_t vt_caught_thread_pointer(const struct vt_caught *caught);

/*
 * Whether the stop interrupted a system call at the place of the one that was seen; it need not be
 * the same call. *wait is set then.
 */
bool vt_caught_wait(pid_t tid, struct vt_caught *caught, const struct vt_wait *seen,
		    struct vt_wait *wait);

/*
 * If the call has ended with EINTR for our interruption, has the kernel restart it when the thread
 * is let go, whatever becomes of us. False: that failed.
 */
bool vt_caught_undo_eintr(pid_t tid, struct vt_caught *caught, const struct vt_wait *wait);

/* Whether the stub can bring the thread back to where it is, with all of its state. */
bool vt_caught_can_return(pid_t tid, const struct vt_caught *caught, struct vt_memsrc *src);

/*
 * Fills in block->frame, block->restart and the slot, whose address is given; block->signal_mask is
 * set. xstate is what vt_xstate_describe() said. slot[1] is where the thread will be back.
 */
void vt_caught_fill(const struct vt_caught *caught, uint64_t slot_addr, uint64_t xstate,
		    struct vt_stub_block *block, uint64_t slot[2]);

/*
 * Sends the thread to pc with this stack pointer, in no system call. One call of ptrace: it has
 * happened or not, whenever we are killed.
 */
bool vt_caught_send(pid_t tid, struct vt_caught *caught, uint64_t pc, uint64_t sp);

/* Stacks */

/*
 * Which bits of a word are an address, if it is one: return addresses may be signed. User addresses
 * end at end.
 */
uint64_t vt_stack_address_mask(uint64_t end);

/*
 * Whether words[i], an address in the C library or the vDSO, is where the handler of a signal
 * returns to that still runs, not one that has ended: its signal frame is whole. There are n words;
 * addr is the word's address. Code may be read from a cache, the stack not.
 */
bool vt_stack_is_in_handler(struct vt_memsrc *code, struct vt_memsrc *src, const uint64_t *words,
			    size_t n, size_t i, uint64_t addr);

#ifdef VT_FAULT_POINTS
/* Steps */

struct vt_step_regs {
	uint64_t pc;
	uint64_t back; /* if it is at a function's first instruction: the return address */
};

bool vt_step_regs_read(pid_t tid, struct vt_step_regs *regs);

/* A breakpoint of the processor's for this thread alone; 0 removes it. */
void vt_step_break_at(pid_t tid, uint64_t addr);

/* Whether stepping must begin anew behind the instruction with this code. */
bool vt_step_disturbs(const uint8_t *code);
#endif

#endif
