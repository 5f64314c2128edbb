/* SPDX-License-Identifier: Apache-2.0 */
/* The general registers of a thread, by DWARF number, as unwinders want them. */
#ifndef VT_TARGET_ARCH_REGS_H
#define VT_TARGET_ARCH_REGS_H

#include <stdint.h>

struct vt_arch;

/* aarch64 has most: x0 to x30, sp, pc. The recorder keeps its own architecture's alone. */
#ifndef VT_MAX_REGS
#define VT_MAX_REGS 33
#endif

struct vt_regs {
	const struct vt_arch *arch; /* NULL: none were read */
	uint64_t r[VT_MAX_REGS];
	uint64_t thread_pointer;
	int64_t syscall_nr; /* number of the system call it was stopped in, -1 when none */
	uint64_t unknown;   /* bit n: register n is unknown (the thread was not stopped) */
	/* bits of a return address that may be its authentication code, which is no part of it */
	uint64_t pac;
};

#define VT_REG_BIT(reg) (UINT64_C(1) << (reg))

#endif
