/* SPDX-License-Identifier: Apache-2.0 */
#include "target/arch/arch.h"

static const struct vt_arch *const archs[] = { &vt_arch_x86_64, &vt_arch_aarch64 };

const struct vt_arch *vt_arch_of(uint16_t machine)
{
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		if (archs[i]->abi.machine == machine)
			return archs[i];
	return NULL;
}

const char *vt_arch_syscall(const struct vt_arch *arch, int64_t nr)
{
	return nr >= 0 && (uint64_t)nr < arch->n_syscalls ? arch->syscalls[nr] : NULL;
}

struct vt_regs vt_regs_unknown(const struct vt_arch *arch)
{
	return (struct vt_regs){
		.arch = arch, .syscall_nr = -1, .unknown = UINT64_MAX, .pac = arch->pac
	};
}
