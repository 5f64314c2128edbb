/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/arch/arch.h"
#include "target/arch/native.h"
#include "target/arch/x86_64/kernel.h"

/*
 * The saved code segment (rt_sigframe of x86-64), counted from the return address of a signal
 * handler.
 */
#define FRAME_CS_WORD 24u

uint64_t vt_stack_address_mask(uint64_t end)
{
	(void)end;
	return UINT64_MAX;
}

bool vt_stack_is_in_handler(struct vt_memsrc *code, struct vt_memsrc *src, const uint64_t *words,
			    size_t n, size_t i, uint64_t addr)
{
	(void)src;
	return VT_NATIVE->is_sigreturn(code, addr) &&
	       (n - i <= FRAME_CS_WORD || (words[i + FRAME_CS_WORD] & 0xffff) == USER_CS);
}
