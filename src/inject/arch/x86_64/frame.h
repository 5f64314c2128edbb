/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VT_INJECT_ARCH_X86_64_FRAME_H
#define VT_INJECT_ARCH_X86_64_FRAME_H

/*
 * The last two instructions are "pop %rbx; ret $VT_STUB_RET": rip and rsp change in one step. The
 * slot that they read, {rbx, rip}, ends VT_STUB_RET bytes below the original stack pointer: 128
 * bytes of red zone and 8 bytes for its alignment.
 */
#define VT_STUB_RET 136
#define VT_STUB_SLOT_SIZE 16

/* For the assembler: offsets in struct vt_stub_frame, which begins the block. */
#define VT_FRAME_FLAGS 112
#define VT_FRAME_SLOT 120
#define VT_FRAME_XSAVE_MASK 128
#define VT_FRAME_SIZE 144

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

/* The order of the registers is that of entry.S. */
struct vt_stub_frame {
	uint64_t r15, r14, r13, r12, rbp, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t flags;
	uint64_t slot;       /* address of { rbx, rip } */
	uint64_t xsave_mask; /* the state components to save */
	uint64_t rip_after;  /* behind the system call instruction: where EINTR goes */
};

#define VT_FRAME_CALLS

_Static_assert(offsetof(struct vt_stub_frame, flags) == VT_FRAME_FLAGS, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, slot) == VT_FRAME_SLOT, "entry.S");
_Static_assert(offsetof(struct vt_stub_frame, xsave_mask) == VT_FRAME_XSAVE_MASK, "entry.S");
_Static_assert(sizeof(struct vt_stub_frame) == VT_FRAME_SIZE, "entry.S");
#endif

#endif
