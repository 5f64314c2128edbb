/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <stdint.h>

#include "base/huge.h"

#define FIRST 8  /* elements; of larger ones there may be only one in each of many arrays */
#define SMALL 64 /* bytes of an element */

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
	vt_want_huge_pages(p, cap * size);
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
