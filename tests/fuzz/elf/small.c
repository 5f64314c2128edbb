/* SPDX-License-Identifier: Apache-2.0 */
/* As little as has an inlined function, and types that two files have in common. */
struct both {
	long a, b, c;
	struct both *next;
};
int NAME(struct both *both, int x);

static inline __attribute__((always_inline)) int add(const struct both *both, int x)
{
	return (int)(both->a + both->b + both->next->c) * x;
}

int NAME(struct both *both, int x)
{
	return add(both, x) + add(both->next, x + 1);
}
