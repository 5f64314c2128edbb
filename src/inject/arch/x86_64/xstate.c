/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/arch/xstate.h"

#include <cpuid.h>

/* Components 0 and 1 (x87, SSE) and the header, Intel SDM volume 1, 13.4. */
#define LEGACY_SIZE 576u

/*
 * Left out: PKRU (9), because pthread_create() does nothing that restoring it could undo, and the
 * tiles of AMX (17, 18), which no C library touches and which the kernel may not have granted to
 * this process (arch_prctl ARCH_REQ_XCOMP_PERM).
 */
#define LEFT_OUT (UINT64_C(1) << 9 | UINT64_C(3) << 17)

static uint64_t enabled_components(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

struct vt_error *vt_xstate_describe(uint64_t *mask, uint32_t *size)
{
	uint32_t a, b, c, d, need = LEGACY_SIZE;
	uint64_t components;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return vt_error_create(VT_ERR_UNSUPPORTED, "this processor or kernel has no XSAVE");
	components = enabled_components() & ~LEFT_OUT;
	for (unsigned int i = 2; i < 63; i++) {
		if (!(components >> i & 1))
			continue;
		/* Leaf 0xd, sub-leaf i: size and offset in the standard (not compacted) format. */
		__cpuid_count(0xd, i, a, b, c, d);
		if (a + b > need)
			need = a + b;
	}
	*mask = components;
	*size = need;
	return NULL;
}
