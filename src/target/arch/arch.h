/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between processors, for all that reads a process or a core: one folder of
 * src/target/arch each, whose `struct vt_arch` is a row of the table in arch.c.
 *
 * A build reads cores of every architecture in the table, so registers and the rules about them
 * are data, and whoever has registers, a core or modules knows which architecture it is of (by
 * e_machine). Only what calls ptrace(2) or makes system calls is of the native one
 * (target/arch/native.h); configure chooses its folder (VT_ARCH).
 *
 * A third architecture is a folder with the same files, a row in arch.c and in local.mk, and a file
 * in include/vramtap/arch.
 */
#ifndef VT_TARGET_ARCH_ARCH_H
#define VT_TARGET_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/arch/regs.h"
#include "vramtap/mem.h"

/* What call frame information relies on. Registers are DWARF's numbers. */
struct vt_arch_abi {
	uint16_t machine; /* e_machine */
	uint8_t n_regs;   /* at most VT_MAX_REGS */
	uint8_t pc, sp, fp;
	uint8_t ra; /* the column of the return address; where calls push it, this is pc */
	/* a call puts the return address into ra: it may still be there in the innermost frame */
	bool link_register;
	uint64_t preserved;  /* bit n: a function that says nothing of register n preserves it */
	uint8_t sign_ops[2]; /* DW_CFA_* that begin and end signed return addresses; 0: none */
};

/* A set of registers: what PTRACE_GETREGSET gives, and what a note of a core has. */
#define VT_ARCH_SET_MAX 512
struct vt_arch_set {
	uint32_t type;     /* NT_* */
	const char *owner; /* of the note; NT_PRSTATUS has more before the registers */
	uint16_t size;     /* in bytes, at most VT_ARCH_SET_MAX */
	void (*take)(const void *data, struct vt_regs *regs);
};

/* glibc's struct pthread, which a pthread_t points to. */
struct vt_arch_pthread {
	uint16_t tid; /* where it has the thread's id, in all releases since 2.4 */
	bool (*is_one)(struct vt_memsrc *src, uint64_t pthread);
};

struct vt_arch {
	struct vt_arch_abi abi;
	const char *name;
	uint32_t relative;           /* R_*_RELATIVE */
	uint64_t pac;                /* of registers, where the kernel does not say */
	unsigned int red_zone;       /* bytes that code may use below the stack pointer */
	uint8_t syscall_args[6];     /* registers with the arguments of a system call */
	uint8_t syscall_result;      /* and with what it returns */
	const char *const *syscalls; /* names by number, NULL for holes */
	size_t n_syscalls;
	int clone, clone3; /* their numbers */
	const struct vt_arch_pthread *pthread;
	const struct vt_arch_set
		*sets; /* the first is NT_PRSTATUS, without which no other counts */
	size_t n_sets;
	/*
	 * The two words at the frame pointer, the caller's frame pointer and the return address,
	 * end the frame: the caller's stack pointer is right above them.
	 */
	bool record_ends_frame;
	/*
	 * The system call whose wait a stop has interrupted, -1: none. The registers have its
	 * arguments then, except, where the first one is also the result, that after EINTR.
	 */
	int64_t (*interrupted)(struct vt_memsrc *src, const struct vt_regs *regs);
	/* Whether the instruction in front of pc is a system call. */
	bool (*is_after_syscall)(struct vt_memsrc *src, uint64_t pc);
	/* Whether the instruction in front of addr is a call. */
	bool (*is_after_call)(struct vt_memsrc *src, uint64_t addr);
	/* What the call in front of addr calls; 0 unknown. */
	uint64_t (*called_before)(struct vt_memsrc *src, uint64_t addr);
	/* Whether the C library's or the vDSO's code that ends a signal handler is at pc. */
	bool (*is_sigreturn)(struct vt_memsrc *src, uint64_t pc);
	/*
	 * There: the registers of what the signal interrupted, from the kernel's frame. False when
	 * it cannot be read: src->fault_addr.
	 */
	bool (*leave_signal)(struct vt_memsrc *src, struct vt_regs *regs);
};

extern const struct vt_arch vt_arch_x86_64;
extern const struct vt_arch vt_arch_aarch64;

/* The architecture with this e_machine; NULL: none that we know. */
const struct vt_arch *vt_arch_of(uint16_t machine);

/* The name of a system call, NULL when it is unknown. */
const char *vt_arch_syscall(const struct vt_arch *arch, int64_t nr);

/* Registers of this architecture, all of them unknown. */
struct vt_regs vt_regs_unknown(const struct vt_arch *arch);

/* 0 when none were read. */
static inline uint64_t vt_regs_pc(const struct vt_regs *regs)
{
	return regs->arch ? regs->r[regs->arch->abi.pc] : 0;
}

static inline uint64_t vt_regs_sp(const struct vt_regs *regs)
{
	return regs->arch ? regs->r[regs->arch->abi.sp] : 0;
}

#endif
