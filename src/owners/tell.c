/* SPDX-License-Identifier: Apache-2.0 */
/* Puts what was found out into the model. */
#include "owners/internal.h"

#include <stdlib.h>

struct telling {
	struct vt_owners *o;
	const struct vt_owners_input *input;
	struct vt_arena *arena;
	struct vt_model_owners *owners;
	struct vt_model_owner *last; /* of the block that is told */
};

/* Storages of one block one after the other, the one that names it first. */
static int by_block(const void *a, const void *b)
{
	const struct vt_owned_storage *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

void vt_owners_sort_storages(struct vt_owners *o)
{
	if (o->storages.n)
		qsort(o->storages.data, o->storages.n, sizeof(*o->storages.data), by_block);
	for (size_t i = 0; i < o->storages.n; i++)
		o->storages.data[i].shares = i && o->storages.data[i].block ==
							  o->storages.data[i - 1].block;
}

static bool tell_array(struct telling *t, uint32_t node, struct vt_model_owner *owner)
{
	struct vt_arrays read = { .heap = &t->o->heap };
	struct vt_arrays_array array;

	owner->has_grad_fn = -1;
	if (!vt_arrays_array(&read, t->o->graph.nodes.data[node].addr, &array))
		return true;
	owner->dtype = array.dtype ? array.dtype : "";
	owner->shape = vt_arrays_shape(t->arena, array.sizes, array.n_dims, VT_TENSORS_MAX_DIMS);
	return owner->shape;
}

static bool tell_shape(struct telling *t, const struct vt_owned_storage *storage,
		       struct vt_model_owner *owner)
{
	struct vt_tensors_shape shape;

	owner->dtype = owner->shape = "";
	owner->requires_grad = -1;
	if (storage->is_array && storage->largest != VT_GRAPH_NONE)
		return tell_array(t, storage->largest, owner);
	if (storage->largest == VT_GRAPH_NONE ||
	    !vt_tensors_shape(&t->o->tensors, t->o->graph.nodes.data[storage->largest].addr,
			      &shape))
		return true;
	owner->dtype = shape.dtype ? shape.dtype : "";
	owner->requires_grad = shape.requires_grad_known ? shape.requires_grad : -1;
	owner->has_grad_fn = shape.has_grad_fn;
	owner->shape = vt_arrays_shape(t->arena, shape.sizes, shape.n_dims, VT_TENSORS_MAX_DIMS);
	return owner->shape;
}

static bool tell_name(struct telling *t, const struct vt_owned_storage *storage,
		      struct vt_model_owner *owner)
{
	struct vt_owner_name name = { "", "", "", "" };

	if (t->o->reach.data[storage->best].distance != VT_DISTANCE_NONE &&
	    !vt_owners_name(t->o, storage->best, t->arena, &name))
		return false;
	owner->name = name.name;
	owner->variable = name.variable;
	owner->module = name.module;
	owner->type = name.type;
	return true;
}

/* What the search found of the ways to it. Blocks without a storage are not known here. */
static enum vt_unowned why_unowned(const struct telling *t, const struct vt_owned_storage *storage)
{
	uint32_t distance = t->o->reach.data[storage->best].distance;

	if (distance == VT_DISTANCE_NONE)
		return t->owners->whole ? VT_UNOWNED_UNREACHED : VT_UNOWNED_NOT_WHOLE;
	return distance >= VT_COST_UNSEEN && distance < VT_COST_EXCEPTION ? VT_UNOWNED_UNEXPLAINED :
									    VT_OWNED;
}

static bool tell_block(struct telling *t, const struct vt_owned_storage *storage)
{
	const struct vt_owners_block *block = &t->input->blocks[storage->block];
	struct vt_model_owner *owner = block->is_foreign ?
					       &t->owners->arrays.data[block->index].owner :
					       vt_vec_append(&t->owners->items);

	t->last = owner;
	if (!owner)
		return false;
	*owner = (struct vt_model_owner){
		.block = block->index,
		.category = storage->category,
		.unowned = (uint8_t)why_unowned(t, storage),
		.certain = storage->certain,
		.n_tensors = storage->n_tensors,
		.n_storages = 1,
		.unexplained = storage->unexplained,
		.storage_bytes = storage->bytes,
		.used_bytes = storage->used,
	};
	return tell_name(t, storage, owner) && tell_shape(t, storage, owner);
}

/* Another storage in the same block. */
static void add_to_block(struct telling *t, const struct vt_owned_storage *storage)
{
	struct vt_model_owner *owner = t->last;

	owner->n_storages++;
	owner->n_tensors += storage->n_tensors;
	owner->storage_bytes += storage->bytes;
	owner->used_bytes += storage->used;
	owner->unexplained += storage->unexplained;
	owner->certain &= storage->certain;
}

static bool tell_retained(struct telling *t)
{
	struct vt_retained retained;
	bool ok;

	if (!vt_owners_retained(t->o, t->input, &retained))
		return true; /* nothing is told of it */
	ok = vt_owners_freed(t->o, t->input, &retained, t->arena, t->owners) &&
	     (!t->input->holders ||
	      vt_owners_others(t->o, t->input, &retained, t->arena, t->owners));
	vt_owners_retained_deinit(&retained);
	return ok;
}

static enum vt_owners_bound bound(const struct vt_owners *o)
{
	return o->late        ? VT_BOUND_TIME :
	       o->graph.full  ? VT_BOUND_OBJECTS :
	       o->pages->full ? VT_BOUND_MEMORY :
				VT_BOUND_NONE;
}

bool vt_owners_tell(struct vt_owners *o, const struct vt_owners_input *input,
		    struct vt_arena *arena, struct vt_model_owners *owners)
{
	struct telling t = { o, input, arena, owners };

	owners->n_objects = o->graph.nodes.n;
	owners->n_references = o->graph.edges.n;
	owners->bound = bound(o);
	owners->whole = !owners->bound;
	owners->collector_known = o->heap.collector != VT_PYHEAP_COLLECTOR_UNKNOWN;
	owners->collector_enabled = o->heap.collector == VT_PYHEAP_COLLECTOR_ON;
	for (size_t i = 0; i < o->storages.n; i++) {
		owners->n_tensors += o->storages.data[i].n_tensors;
		if (o->storages.data[i].shares)
			add_to_block(&t, &o->storages.data[i]);
		else if (!tell_block(&t, &o->storages.data[i]))
			return false;
	}
	return tell_retained(&t) && vt_owners_notices(o, input, arena, owners);
}
