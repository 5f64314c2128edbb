/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "victim_probe.h"

struct probe {
	uint64_t call[7];
	uint64_t kept[6];
	uint64_t after[9];
	uint64_t red_zone[16];
	uint64_t masks[8];
	uint64_t pad[2];
	uint64_t vectors[32][8];
} __attribute__((aligned(64)));

long victim_probe_avx512(const struct probe *in, struct probe *out);
long victim_probe_avx(const struct probe *in, struct probe *out);

enum { AFTER_RDI, AFTER_RSI, AFTER_RDX, AFTER_R10, AFTER_R8, AFTER_R9, AFTER_RCX, AFTER_R11 };
#define CALL_VALUES (sizeof(uint64_t) * 6)

static void fill_random(struct spy *spy, struct probe *probe)
{
	uint8_t *p = (uint8_t *)probe;

	for (size_t i = 0; i < sizeof(*probe); i++)
		p[i] = (uint8_t)(rand_r(&spy->seed) >> 7);
}

static void compare(struct spy *spy, const struct probe *in, const struct probe *out, bool avx512)
{
	if (memcmp(in->kept, out->kept, sizeof(in->kept)) != 0)
		spy_wrong(spy, "rbx, rbp, r12 to r15 changed");
	/* syscall() shifts its arguments: number in rdi, the first argument in rsi ... */
	if (memcmp(in->call + 1, out->after, CALL_VALUES) != 0)
		spy_wrong(spy, "rdi, rsi, rdx, r10, r8, r9 changed");
	/* r11 has the flags: carry was set, direction and trap were not. */
	if (!(out->after[AFTER_R11] & 1) || (out->after[AFTER_R11] & 0x500))
		spy_wrong(spy, "flags 0x%llx", (unsigned long long)out->after[AFTER_R11]);
	if (memcmp(in->red_zone, out->red_zone, sizeof(in->red_zone)) != 0)
		spy_wrong(spy, "the red zone changed");
	if (avx512 && memcmp(in->masks, out->masks, sizeof(in->masks)) != 0)
		spy_wrong(spy, "k0 to k7 changed");
	for (int i = 0; i < (avx512 ? 32 : 16); i++)
		if (memcmp(in->vectors[i], out->vectors[i], avx512 ? 64 : 32) != 0)
			spy_wrong(spy, "vector register %d changed", i);
}

long victim_probe_call(struct spy *spy, long nr, const void *a, long b, long c, const void *d)
{
	static __thread struct probe in, out;
	bool avx512 = __builtin_cpu_supports("avx512bw");
	uint32_t mxcsr = 0x1f80 | (uint32_t)(rand_r(&spy->seed) & 3) << 13, mxcsr_after,
		 mxcsr_default = 0x1f80;
	uint16_t control = (uint16_t)(0x37f & ~((rand_r(&spy->seed) & 1) << 8)), control_after,
		 control_default = 0x37f;
	long ret;

	fill_random(spy, &in);
	in.call[0] = (uint64_t)nr;
	in.call[1] = (uint64_t)(uintptr_t)a;
	in.call[2] = (uint64_t)b;
	in.call[3] = (uint64_t)c;
	in.call[4] = (uint64_t)(uintptr_t)d;
	__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(control));
	ret = avx512 ? victim_probe_avx512(&in, &out) : victim_probe_avx(&in, &out);
	__asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr_after), "=m"(control_after));
	__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr_default), "m"(control_default));
	compare(spy, &in, &out, avx512);
	if ((mxcsr & 0xffc0) != (mxcsr_after & 0xffc0) || control != control_after)
		spy_wrong(spy, "mxcsr 0x%x is 0x%x, x87 control word 0x%x is 0x%x", mxcsr,
			  mxcsr_after, control, control_after);
	return ret;
}
#endif
/* ISO C wants at least one declaration in each file. */
typedef int victim_probe_x86_64_unused;
