/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners of JAX's arrays, of those that JAX said are alive (ask_jax.c). An object that has gone
 * since, and whose memory is another array's now, is told as that one.
 */
#include <stdlib.h>

#include "collect/owners.h"

static int larger_first(const void *pa, const void *pb)
{
	const struct vt_model_jax_array *a = pa, *b = pb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->object > b->object) - (a->object < b->object);
}

struct vt_error *vt_collect_owners_jax(struct vt_collect *c, struct vt_owners *owners,
				       const struct vt_owners_input *input)
{
	struct vt_model_owners *to = &c->model->owners;

	for (size_t i = 0; i < c->jax_objects.n; i++) {
		const struct vt_jax_object *object = &c->jax_objects.data[i];
		struct vt_model_jax_array array, *added;
		bool found;

		VT_TRY(vt_owners_jax(owners, input, object->object, &c->model->arena, &array,
				     &found));
		if (!found)
			continue;
		added = vt_vec_append(&to->jax);
		if (!added)
			return &vt_enomem;
		*added = array;
		added->is_host = object->is_host;
	}
	if (to->jax.n)
		qsort(to->jax.data, to->jax.n, sizeof(*to->jax.data), larger_first);
	return NULL;
}
