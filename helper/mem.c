/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four functions that compilers call of their own accord. The helper links nothing, so it
 * defines them.
 */
#include <stddef.h>

#include "vramtap/arch.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	vt_bytes_copy(to, from, n);
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	char *d = to;
	const char *s = from;

	if ((size_t)(d - s) >= n)
		return memcpy(to, from, n);
	while (n--) {
		d[n] = s[n];
		/* else the compiler makes a call of memmove() of it */
		__asm__ volatile("" : : : "memory");
	}
	return to;
}

void *memset(void *to, int c, size_t n)
{
	vt_bytes_set(to, c, n);
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a;
	const unsigned char *y = b;

	for (size_t i = 0; i < n; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}
