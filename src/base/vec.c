/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"

#include <stdint.h>

bool vt_vec_reserve_(void **data, size_t *capacity, size_t want, size_t size)
{
	if (want <= *capacity)
		return true;

	size_t cap = *capacity + *capacity / 2;

	if (cap < want)
		cap = want;
	if (cap < 8)
		cap = 8;
	if (cap > SIZE_MAX / size)
		return false;

	void *p = realloc(*data, cap * size);

	if (!p)
		return false;
	*data = p;
	*capacity = cap;
	return true;
}
