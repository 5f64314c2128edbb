/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/arch/arch.h"
#include "target/arch/native.h"

/*
 * A signal's frame begins with struct rt_sigframe (arch/arm64/kernel/signal.c), whose first record
 * is that of the vectors: its magic and size, as one word, and where they are. Right above the
 * frame is a frame record, which is the handler's caller.
 */
#define VECTORS_WORD UINT64_C(0x0000021046508001)
#define VECTORS_AT offsetof(struct vt_stub_frame, fpsimd)
#define FRAME_SIZE 4688u

/* Signed addresses have their code above the bits that addresses have. */
uint64_t vt_stack_address_mask(uint64_t end)
{
	uint64_t mask = (UINT64_C(1) << 36) - 1;

	while (mask < end - 1)
		mask = mask << 1 | 1;
	return mask;
}

/*
 * The handler's frame, between its frame record and the signal's frame, may have any size: if the
 * latter is not among the words, the record in front of the return address says where it is.
 */
bool vt_stack_is_in_handler(struct vt_memsrc *code, struct vt_memsrc *src, const uint64_t *words,
			    size_t n, size_t i, uint64_t addr)
{
	uint64_t word;

	if (!VT_NATIVE->is_sigreturn(code, addr))
		return false;
	for (size_t k = i + 1; k < n; k++)
		if (words[k] == VECTORS_WORD)
			return true;
	return i > 0 && !vt_mem_read(src, words[i - 1] - FRAME_SIZE + VECTORS_AT, &word, 8) &&
	       word == VECTORS_WORD;
}
