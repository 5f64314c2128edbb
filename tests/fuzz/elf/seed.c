/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small library, from which seeds.sh makes the seeds of fuzz_elf: with inlined functions,
 * statics, and a call through its PLT.
 */
static int in_data = 3;
static char in_bss[100];
int seen_by_all[4] = { 1 };
int outside(int x);
int top(int x);

static inline __attribute__((always_inline)) int twice(int x)
{
	return outside(x) * in_data + in_bss[x & 63];
}

static inline __attribute__((always_inline)) int thrice(int x)
{
	int y = twice(x);

	return y + twice(y) + seen_by_all[x & 3];
}

static __attribute__((noinline)) int hidden(int x)
{
	volatile int big[64] = { x };

	return thrice(big[x & 63]) + x;
}

int top(int x)
{
	in_data += x;
	in_bss[x & 31]++;
	return hidden(x) + outside(x + 1);
}
