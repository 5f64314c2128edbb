/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no root reaches. An object that has more references than those from others of its kind is
 * held by something that we do not see; what these do not reach either is garbage. It is the
 * collector's own algorithm (Python/gc.c: subtract_refs(), move_unreachable()), over Python's
 * objects and PyTorch's together: a tensor in a cycle is held through C++.
 */
#include "owners/internal.h"

#include <stdlib.h>

struct rest {
	struct vt_owners *o;
	uint32_t *inner; /* counted references from nodes that no root reaches, by node */
	VT_VEC(uint32_t) edges;
};

static bool is_reached(const struct vt_owners *o, uint32_t node)
{
	return o->reach.data[node].distance != VT_DISTANCE_NONE;
}

static void count_inner(struct rest *r)
{
	const struct vt_graph *graph = &r->o->graph;

	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct vt_graph_node *n = &graph->nodes.data[i];

		if (is_reached(r->o, (uint32_t)i) || n->flags & VT_NODE_LATER)
			continue;
		for (uint32_t e = 0; e < n->n_edges; e++) {
			const struct vt_graph_edge *edge = &graph->edges.data[n->first_edge + e];

			r->inner[edge->to] += vt_edge_is_counted(edge->kind);
		}
	}
}

static bool add_root(struct rest *r, enum vt_edge_kind kind, uint32_t to)
{
	struct vt_graph_edge *edge = vt_vec_append(&r->o->late_edges);
	uint32_t *index = vt_vec_append(&r->edges);

	if (!edge || !index)
		return false;
	*edge = (struct vt_graph_edge){ .to = to, .kind = kind };
	*index = (uint32_t)(r->o->graph.edges.n + r->o->late_edges.n - 1);
	return true;
}

/* What a name of garbage begins with, the best first: instances of classes of the program. */
static int rank(const struct vt_owners *o, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, node);

	if (!cls || cls->is & (VT_PYHEAP_IS_TENSOR | VT_PYHEAP_IS_STORAGE | VT_PYHEAP_IS_CUPY))
		return 3;
	if (cls->of_python)
		return 0;
	return cls->shape == VT_PYHEAP_LIST || cls->shape == VT_PYHEAP_FUNCTION ? 1 : 2;
}

/* Is it held by something that we do not see? Without a count that says anything: unknown, no. */
static bool is_held(struct rest *r, uint32_t node)
{
	uint64_t count = vt_owners_count(r->o, node);

	if (r->o->graph.nodes.data[node].flags & VT_NODE_LATER)
		return true;
	return count != UINT64_MAX && count > r->inner[node];
}

static bool search(struct rest *r)
{
	bool ok = vt_owners_search(r->o, r->edges.data, r->edges.n);

	r->edges.n = 0;
	return ok;
}

static bool add_held(struct rest *r)
{
	for (size_t i = 0; i < r->o->graph.nodes.n; i++) {
		if (!is_reached(r->o, (uint32_t)i) && is_held(r, (uint32_t)i) &&
		    !add_root(r, VT_EDGE_UNSEEN, (uint32_t)i))
			return false;
	}
	return search(r);
}

/* Garbage has no beginning: the best ranked ones of all that is left are called its roots. */
static bool add_garbage(struct rest *r)
{
	for (int best = 0; best <= 3; best++) {
		for (size_t i = 0; i < r->o->graph.nodes.n; i++) {
			if (!is_reached(r->o, (uint32_t)i) && rank(r->o, (uint32_t)i) == best &&
			    !add_root(r, VT_EDGE_GARBAGE, (uint32_t)i))
				return false;
		}
		if (!search(r))
			return false;
	}
	return true;
}

bool vt_owners_rest(struct vt_owners *o)
{
	struct rest r = { .o = o, .inner = calloc(o->graph.nodes.n + 1, sizeof(*r.inner)) };
	bool ok = r.inner;

	if (ok) {
		count_inner(&r);
		/* Where references are missing, anything would look like garbage. */
		ok = add_held(&r) &&
		     (!o->lists || o->graph.full || o->pages->full || add_garbage(&r));
	}
	free(r.inner);
	vt_vec_deinit(&r.edges);
	return ok;
}
