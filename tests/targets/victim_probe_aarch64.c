/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__
#include <stdlib.h>
#include <string.h>

#include "victim_probe.h"

struct probe {
	uint64_t call[8];
	uint64_t kept[16]; /* x9 to x14, x19 to x28 */
	uint64_t vectors[32][2];
} __attribute__((aligned(16)));

/* syscall() uses no other register than x0 to x8, nor does its way to set errno. */
long victim_probe(const struct probe *in, struct probe *out);
__asm__("	.text\n"
	"	.globl	victim_probe\n"
	"	.type	victim_probe, %function\n"
	"victim_probe:\n"
	"	stp	x29, x30, [sp, #-176]!\n"
	"	mov	x29, sp\n"
	"	stp	x19, x20, [sp, #16]\n"
	"	stp	x21, x22, [sp, #32]\n"
	"	stp	x23, x24, [sp, #48]\n"
	"	stp	x25, x26, [sp, #64]\n"
	"	stp	x27, x28, [sp, #80]\n"
	"	stp	d8, d9, [sp, #96]\n"
	"	stp	d10, d11, [sp, #112]\n"
	"	stp	d12, d13, [sp, #128]\n"
	"	stp	d14, d15, [sp, #144]\n"
	"	str	x1, [sp, #160]\n"
	"	mov	x16, x0\n"
	"	ldp	q0, q1, [x16, #192]\n"
	"	ldp	q2, q3, [x16, #224]\n"
	"	ldp	q4, q5, [x16, #256]\n"
	"	ldp	q6, q7, [x16, #288]\n"
	"	ldp	q8, q9, [x16, #320]\n"
	"	ldp	q10, q11, [x16, #352]\n"
	"	ldp	q12, q13, [x16, #384]\n"
	"	ldp	q14, q15, [x16, #416]\n"
	"	ldp	q16, q17, [x16, #448]\n"
	"	ldp	q18, q19, [x16, #480]\n"
	"	ldp	q20, q21, [x16, #512]\n"
	"	ldp	q22, q23, [x16, #544]\n"
	"	ldp	q24, q25, [x16, #576]\n"
	"	ldp	q26, q27, [x16, #608]\n"
	"	ldp	q28, q29, [x16, #640]\n"
	"	ldp	q30, q31, [x16, #672]\n"
	"	ldp	x9, x10, [x16, #64]\n"
	"	ldp	x11, x12, [x16, #80]\n"
	"	ldp	x13, x14, [x16, #96]\n"
	"	ldp	x19, x20, [x16, #112]\n"
	"	ldp	x21, x22, [x16, #128]\n"
	"	ldp	x23, x24, [x16, #144]\n"
	"	ldp	x25, x26, [x16, #160]\n"
	"	ldp	x27, x28, [x16, #176]\n"
	"	ldp	x0, x1, [x16, #0]\n"
	"	ldp	x2, x3, [x16, #16]\n"
	"	ldp	x4, x5, [x16, #32]\n"
	"	adrp	x17, :got:syscall\n"
	"	ldr	x17, [x17, :got_lo12:syscall]\n"
	"	blr	x17\n"
	"	ldr	x16, [x29, #160]\n"
	"	stp	q0, q1, [x16, #192]\n"
	"	stp	q2, q3, [x16, #224]\n"
	"	stp	q4, q5, [x16, #256]\n"
	"	stp	q6, q7, [x16, #288]\n"
	"	stp	q8, q9, [x16, #320]\n"
	"	stp	q10, q11, [x16, #352]\n"
	"	stp	q12, q13, [x16, #384]\n"
	"	stp	q14, q15, [x16, #416]\n"
	"	stp	q16, q17, [x16, #448]\n"
	"	stp	q18, q19, [x16, #480]\n"
	"	stp	q20, q21, [x16, #512]\n"
	"	stp	q22, q23, [x16, #544]\n"
	"	stp	q24, q25, [x16, #576]\n"
	"	stp	q26, q27, [x16, #608]\n"
	"	stp	q28, q29, [x16, #640]\n"
	"	stp	q30, q31, [x16, #672]\n"
	"	stp	x9, x10, [x16, #64]\n"
	"	stp	x11, x12, [x16, #80]\n"
	"	stp	x13, x14, [x16, #96]\n"
	"	stp	x19, x20, [x16, #112]\n"
	"	stp	x21, x22, [x16, #128]\n"
	"	stp	x23, x24, [x16, #144]\n"
	"	stp	x25, x26, [x16, #160]\n"
	"	stp	x27, x28, [x16, #176]\n"
	"	ldp	x19, x20, [sp, #16]\n"
	"	ldp	x21, x22, [sp, #32]\n"
	"	ldp	x23, x24, [sp, #48]\n"
	"	ldp	x25, x26, [sp, #64]\n"
	"	ldp	x27, x28, [sp, #80]\n"
	"	ldp	d8, d9, [sp, #96]\n"
	"	ldp	d10, d11, [sp, #112]\n"
	"	ldp	d12, d13, [sp, #128]\n"
	"	ldp	d14, d15, [sp, #144]\n"
	"	ldp	x29, x30, [sp], #176\n"
	"	ret\n"
	"	.size	victim_probe, . - victim_probe\n");

static void fill_random(struct spy *spy, struct probe *probe)
{
	uint8_t *p = (uint8_t *)probe;

	for (size_t i = 0; i < sizeof(*probe); i++)
		p[i] = (uint8_t)(rand_r(&spy->seed) >> 7);
}

long victim_probe_call(struct spy *spy, long nr, const void *a, long b, long c, const void *d)
{
	static __thread struct probe in, out;
	uint64_t fpcr = (uint64_t)(rand_r(&spy->seed) & 3) << 22, fpcr_after; /* rounding */
	uint64_t fpsr = (uint64_t)(rand_r(&spy->seed) & 0x1f), fpsr_after;
	long ret;

	fill_random(spy, &in);
	in.call[0] = (uint64_t)nr;
	in.call[1] = (uint64_t)(uintptr_t)a;
	in.call[2] = (uint64_t)b;
	in.call[3] = (uint64_t)c;
	in.call[4] = (uint64_t)(uintptr_t)d;
	__asm__ volatile("msr fpcr, %0; msr fpsr, %1" : : "r"(fpcr), "r"(fpsr));
	ret = victim_probe(&in, &out);
	__asm__ volatile("mrs %0, fpcr; mrs %1, fpsr" : "=r"(fpcr_after), "=r"(fpsr_after));
	__asm__ volatile("msr fpcr, %0; msr fpsr, %0" : : "r"(UINT64_C(0)));
	for (int i = 0; i < 16; i++)
		if (in.kept[i] != out.kept[i])
			spy_wrong(spy, "x%d changed", i < 6 ? 9 + i : 13 + i);
	for (int i = 0; i < 32; i++)
		if (memcmp(in.vectors[i], out.vectors[i], sizeof(in.vectors[i])) != 0)
			spy_wrong(spy, "v%d changed", i);
	if (fpcr != fpcr_after || fpsr != fpsr_after)
		spy_wrong(spy, "fpcr 0x%llx is 0x%llx, fpsr 0x%llx is 0x%llx",
			  (unsigned long long)fpcr, (unsigned long long)fpcr_after,
			  (unsigned long long)fpsr, (unsigned long long)fpsr_after);
	return ret;
}
#endif
/* ISO C wants at least one declaration in each file. */
typedef int victim_probe_aarch64_unused;
