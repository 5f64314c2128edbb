/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <stdint.h>
#include <sys/mman.h>

#define LARGE ((size_t)8 << 20)
#define PAGE ((uintptr_t)4096)
#define FIRST 8  /* elements; of larger ones there may be only one in each of many arrays */
#define SMALL 64 /* bytes of an element */

/*
 * Tables of millions are looked at here and there, and most looks miss the TLB. malloc() gives
 * such pieces a mapping of their own. Only a wish: no result.
 */
static void want_huge_pages(void *data, size_t bytes)
{
	uintptr_t start = ((uintptr_t)data + PAGE - 1) & ~(PAGE - 1);
	uintptr_t end = ((uintptr_t)data + bytes) & ~(PAGE - 1);

	madvise((void *)start, end - start, MADV_HUGEPAGE);
}

bool vt_vec_reserve_(void **data, size_t *capacity, size_t want, size_t size)
{
	if (want <= *capacity)
		return true;

	size_t cap = *capacity + *capacity / 2;

	if (cap < want)
		cap = want;
	if (cap < FIRST && size <= SMALL)
		cap = FIRST;
	if (cap > SIZE_MAX / size)
		return false;

	void *p = realloc(*data, cap * size);

	if (!p)
		return false;
	*data = p;
	*capacity = cap;
	if (cap * size >= LARGE)
		want_huge_pages(p, cap * size);
	return true;
}

void vt_vec_trim_(void **data, size_t *capacity, size_t n, size_t size)
{
	void *p = n ? realloc(*data, n * size) : NULL;

	if (!n)
		free(*data);
	else if (!p)
		return; /* it only stays larger */
	*data = p;
	*capacity = n;
}
