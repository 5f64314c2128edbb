/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four functions that compilers call of their own accord. The helper links nothing, so it
 * defines them.
 */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);

/*
 * rep movsb is fast for all sizes that matter here on every processor that can host a GPU of
 * interest (ERMS).
 */
void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	void *ret = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return ret;
}

void *memmove(void *to, const void *from, size_t n)
{
	char *d = to;
	const char *s = from;

	if ((size_t)(d - s) >= n)
		return memcpy(to, from, n);
	while (n--)
		__asm__ volatile("movb (%1), %%al; movb %%al, (%0)"
				 :
				 : "r"(d + n), "r"(s + n)
				 : "al", "memory");
	return to;
}

void *memset(void *to, int c, size_t n)
{
	void *ret = to;

	__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(c) : "memory");
	return ret;
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
