/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of JAX's: who holds the object. Which memory is its, only C++ knows. */
#include "owners/internal.h"

static void prove(struct vt_owners *o, const struct vt_owners_input *input, uint32_t node,
		  struct vt_model_jax_array *array)
{
	struct vt_owned_storage proof = { .node = node, .certain = input->one_moment };

	vt_owners_prove(o, &proof, node);
	array->certain = proof.certain;
}

struct vt_error *vt_owners_jax(struct vt_owners *o, const struct vt_owners_input *input,
			       uint64_t object, struct vt_arena *arena,
			       struct vt_model_jax_array *array, bool *found)
{
	struct vt_arrays read = { .heap = &o->heap };
	struct vt_owner_name name = { "", "", "", "" };
	struct vt_arrays_jax is;
	uint32_t node = vt_graph_find(&o->graph, object);

	*found = node != VT_GRAPH_NONE && vt_arrays_jax(&read, object, &is);
	if (!*found)
		return NULL;
	if (o->reach.data[node].distance != VT_DISTANCE_NONE &&
	    !vt_owners_name(o, node, arena, &name))
		return &vt_enomem;
	*array = (struct vt_model_jax_array){
		.object = object,
		.bytes = is.bytes,
		.category = (uint8_t)vt_owners_category(o, node),
		.single = is.single,
		.name = name.name,
		.variable = name.variable,
		.dtype = is.dtype,
		.shape = vt_arrays_shape(arena, is.sizes, is.n_dims, VT_TENSORS_MAX_DIMS),
	};
	prove(o, input, node, array);
	return array->shape ? NULL : &vt_enomem;
}
