/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_INJECT_ARCH_AARCH64_FRAME_H
#define VT_INJECT_ARCH_AARCH64_FRAME_H

/*
 * No instruction loads pc from memory, and at the restart of a system call every register may be in
 * use. So the kernel brings the thread back: the frame is that of a signal, written from outside,
 * and the stub ends with rt_sigreturn(). Registers, vectors and the signal mask change in one step.
 *
 * rt_sigreturn() cannot continue a sleep, though (restart_syscall() would return EINTR after it).
 * But that call takes no arguments, so x0 is free then, and the last instructions are
 * "ldp x1, x0, [sp], #16; ret x0". The slot that they read ends at the original stack pointer: code
 * uses nothing below it (AAPCS64, 6.4.5.1).
 */
#define VT_STUB_RET 0
#define VT_STUB_SLOT_SIZE 16

/* For the assembler: offsets in struct vt_stub_frame, which begins the block. */
#define VT_FRAME_SLOT 0
#define VT_FRAME_REGS 312 /* x0 to x30, sp, pc */
#define VT_FRAME_PSTATE 576
#define VT_FRAME_FPSR 600 /* and FPCR */
#define VT_FRAME_VECTORS 608
#define VT_FRAME_SIZE 1152

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct vt_stub_record {
	uint32_t magic, size;
};

/*
 * struct rt_sigframe of the kernel (arch/arm64/kernel/signal.c), as far as it is used. It takes the
 * records up to the first with magic 0. Only the vectors' must be there; without SVE's, the upper
 * bits of its registers become zero, as in every system call (Documentation/arch/arm64/sve.rst).
 */
struct vt_stub_frame {
	uint64_t slot; /* siginfo, which the kernel does not read here: address of {x1, pc} */
	uint64_t unused[15];
	uint64_t uc_flags, uc_link;
	uint64_t altstack[3]; /* the stub asks for it: nobody else may */
	uint64_t signal_mask;
	uint64_t unused_mask[15];
	uint64_t align;
	uint64_t fault_address;
	uint64_t regs[31];
	uint64_t sp, pc, pstate;
	uint64_t align_records;
	struct vt_stub_record fpsimd;
	uint32_t fpsr, fpcr;
	uint64_t vectors[64];
	struct vt_stub_record overlay; /* POR_EL0, where there is such a register; else the end */
	uint64_t por_el0;
	struct vt_stub_record end;
	uint64_t align_end;
};

#define VT_FRAME_CALLS CALL(rt_sigreturn, MUST_WORK), CALL(sigaltstack, MUST_WORK, 0, 0),

_Static_assert(offsetof(struct vt_stub_frame, slot) == VT_FRAME_SLOT, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, regs) == VT_FRAME_REGS, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, pstate) == VT_FRAME_PSTATE, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, fpsr) == VT_FRAME_FPSR, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, vectors) == VT_FRAME_VECTORS, "entry.S");
_Static_assert(sizeof(struct vt_stub_frame) == VT_FRAME_SIZE, "entry.S");
#endif

#endif
