/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the stub keeps the registers of the thread: the first part of its block (inject/stub/stub.h),
 * for the assembler and for C. Each architecture's file has
 *
 *   struct vt_stub_frame   all registers, and whatever entry.S needs to restore them
 *   VT_FRAME_SIZE          its size
 *   VT_STUB_SLOT_SIZE      of the slot: what the last instructions read, at most 16 bytes; may be 0
 *   VT_STUB_RET            bytes between the end of the slot and the original stack pointer, which
 *                          code may use below it (the red zone)
 *   VT_FRAME_CALLS         system calls of entry.S and leave.c alone, for inject/seccomp.c
 */
#ifndef VT_INJECT_ARCH_FRAME_H
#define VT_INJECT_ARCH_FRAME_H

#if defined(__x86_64__)
#include "inject/arch/x86_64/frame.h"
#elif defined(__aarch64__)
#include "inject/arch/aarch64/frame.h"
#else
#error "this architecture has no folder in src/inject/arch"
#endif

#endif
