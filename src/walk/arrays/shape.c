/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "walk/arrays/arrays.h"

const char *vt_arrays_shape(struct vt_arena *arena, const int64_t *sizes, uint64_t n, uint64_t max)
{
	struct vt_str text = { 0 };
	char *copy;

	vt_str_add(&text, "(");
	for (uint64_t i = 0; i < n && i < max; i++)
		vt_str_addf(&text, "%s%lld", i ? ", " : "", (long long)sizes[i]);
	vt_str_add(&text, n > max ? ", …)" : n == 1 ? ",)" : ")");
	copy = vt_arena_strdup(arena, vt_str_get(&text));
	vt_str_deinit(&text);
	return copy;
}
