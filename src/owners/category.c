/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node is for, by the way on which it is reached: the last edge of the path that tells
 * decides. A gradient of a parameter is a gradient, and what a gradient's graph saved is an
 * activation.
 */
#include "owners/internal.h"

#include <stdlib.h>

/*
 * Holders that are known by their class: transformers/cache_utils.py; what fully_shard() puts aside
 * of a parameter while the whole one is in use (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
 * before 2.6 in torch/distributed/_composable/fsdp).
 */
static const struct {
	const char *module, *name; /* globs */
	enum vt_category category;
} by_class[] = {
	{ "transformers.cache_utils", "*Cache*", VT_CATEGORY_CACHE },
	{ "transformers.cache_utils", "*Layer", VT_CATEGORY_CACHE },
	{ "vllm.*", "*KVCache*", VT_CATEGORY_CACHE },
	{ "torch.distributed.*._fsdp_param", "FSDPParam", VT_CATEGORY_PARAMETER },
};

static const enum vt_category by_role[] = {
	[VT_ROLE_PARAMETERS] = VT_CATEGORY_PARAMETER,
	[VT_ROLE_BUFFERS] = VT_CATEGORY_BUFFER,
	[VT_ROLE_STATE_OF] = VT_CATEGORY_OPTIMIZER,
};

static const enum vt_category by_edge[VT_N_EDGE_KINDS] = {
	[VT_EDGE_GRAD] = VT_CATEGORY_GRADIENT,
	[VT_EDGE_GRAD_FN] = VT_CATEGORY_ACTIVATION,
	[VT_EDGE_NEXT] = VT_CATEGORY_ACTIVATION,
	[VT_EDGE_SAVED] = VT_CATEGORY_ACTIVATION,
};

static enum vt_category of_class(const struct vt_pyheap_class *cls)
{
	if (!cls)
		return VT_CATEGORY_UNKNOWN;
	if (cls->is & VT_PYHEAP_IS_PARAMETER)
		return VT_CATEGORY_PARAMETER;
	for (size_t i = 0; i < sizeof(by_class) / sizeof(by_class[0]); i++) {
		if (vt_glob(by_class[i].module, cls->module) &&
		    vt_glob(by_class[i].name, cls->name))
			return by_class[i].category;
	}
	return VT_CATEGORY_UNKNOWN;
}

/* What the step from a node along an edge tells; UNKNOWN: nothing. */
enum vt_category vt_owners_step_category(const struct vt_owners *o, uint32_t from,
					 const struct vt_graph_edge *edge)
{
	enum vt_role role = (enum vt_role)o->graph.nodes.data[from].role;

	if (by_edge[edge->kind])
		return by_edge[edge->kind];
	if ((edge->kind == VT_EDGE_VALUE || edge->kind == VT_EDGE_INLINE) &&
	    role < sizeof(by_role) / sizeof(by_role[0]) && by_role[role])
		return by_role[role];
	if (edge->kind == VT_EDGE_VALUE && role == VT_ROLE_STATE)
		return VT_CATEGORY_OPTIMIZER;
	return of_class(vt_owners_class(o, from));
}

/* Of a path that begins with this edge from the root. */
static enum vt_category root_category(const struct vt_graph_edge *edge)
{
	return edge->kind == VT_EDGE_THREAD ? VT_CATEGORY_FRAME : VT_CATEGORY_PYTHON;
}

/*
 * Each node's is that of its parent unless the step to it tells another one, so it is worked out
 * once for each node, from the first known one on the way to the root down.
 */
static enum vt_category of_path(struct vt_owners *o, uint32_t node)
{
	uint32_t n = 0, at = node;

	while (!o->categories.data[at] && o->reach.data[at].parent != VT_GRAPH_NONE) {
		o->way.data[n++] = at;
		at = o->reach.data[at].parent;
	}

	uint8_t category = o->categories.data[at];

	while (n--) {
		const struct vt_reach *reach = &o->reach.data[o->way.data[n]];
		const struct vt_graph_edge *edge = vt_owners_edge(o, reach->edge);
		uint8_t step = (uint8_t)(reach->parent == o->root ?
						 root_category(edge) :
						 vt_owners_step_category(o, reach->parent, edge));

		if (step)
			category = step;
		o->categories.data[o->way.data[n]] = category;
	}
	return (enum vt_category)category;
}

enum vt_category vt_owners_category(struct vt_owners *o, uint32_t node)
{
	uint32_t distance = o->reach.data[node].distance;
	enum vt_category category;

	if (distance == VT_DISTANCE_NONE)
		return VT_CATEGORY_UNKNOWN;
	if (distance >= VT_COST_GARBAGE)
		return VT_CATEGORY_GARBAGE;
	if (distance >= VT_COST_EXCEPTION)
		return VT_CATEGORY_EXCEPTION;
	category = of_path(o, node);
	if (distance >= VT_COST_UNSEEN && category == VT_CATEGORY_PYTHON)
		return VT_CATEGORY_NATIVE;
	return category;
}

bool vt_owners_category_begin(struct vt_owners *o)
{
	size_t n = o->graph.nodes.n;

	if (!vt_vec_reserve(&o->categories, n) || !vt_vec_reserve(&o->way, n))
		return false;
	o->categories.n = n;
	for (size_t i = 0; i < n; i++)
		o->categories.data[i] = 0;
	return true;
}
