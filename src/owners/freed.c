/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would be freed if a variable were deleted. Told of names that the program itself has given
 * (variables of modules and functions, sys.last_value) and of containers, which leaks are made of.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum {
	MAX_FREED = 64,   /* that are kept */
	MIN_ITEMS = 4,    /* of a container that is told apart from what holds it */
	LEAST_PART = 200, /* one of this many parts of all bytes is the least that is told */
};

struct candidate {
	uint32_t node;
	uint64_t bytes;
};

struct freeing {
	struct vt_owners *o;
	const struct vt_retained *retained;
	struct vt_versions versions;
	VT_VEC(struct candidate) candidates;
	uint64_t least;
};

static bool is_name(const struct vt_owners *o, uint32_t from, const struct vt_graph_edge *edge)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[from];

	return (edge->kind == VT_EDGE_VALUE && n->role == VT_ROLE_GLOBALS) ||
	       edge->kind == VT_EDGE_LOCAL;
}

static bool is_container(const struct vt_owners *o, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, node);

	if (!cls || o->graph.nodes.data[node].n_edges < MIN_ITEMS || o->graph.nodes.data[node].role)
		return false;
	return cls->shape == VT_PYHEAP_LIST || cls->shape == VT_PYHEAP_DICT ||
	       cls->shape == VT_PYHEAP_DEQUE || cls->shape == VT_PYHEAP_SET;
}

static bool consider(struct freeing *f, uint32_t from, const struct vt_graph_edge *edge)
{
	const struct vt_retained *r = f->retained;
	struct candidate *candidate;

	if (r->idom[edge->to] != from || r->bytes[edge->to] < f->least ||
	    (!is_name(f->o, from, edge) && !is_container(f->o, edge->to)) ||
	    !vt_owners_has_one_holder(r, edge->to))
		return true;
	candidate = vt_vec_append(&f->candidates);
	if (!candidate)
		return false;
	*candidate = (struct candidate){ edge->to, r->bytes[edge->to] };
	return true;
}

static bool find_candidates(struct freeing *f)
{
	const struct vt_graph *graph = &f->o->graph;

	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct vt_graph_node *n = &graph->nodes.data[i];

		for (uint32_t e = 0; e < n->n_edges; e++) {
			if (!consider(f, (uint32_t)i, &graph->edges.data[n->first_edge + e]))
				return false;
		}
	}
	return true;
}

static int larger_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int most_first(const void *a, const void *b)
{
	const struct vt_model_freed *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static bool tell(struct freeing *f, uint32_t node, const char *name, struct vt_model_owners *owners)
{
	const struct vt_retained *r = f->retained;
	struct vt_model_freed *freed = vt_vec_append(&owners->freed);
	const struct vt_graph_node *n = node < f->o->graph.nodes.n ? &f->o->graph.nodes.data[node] :
								     NULL;
	uint64_t count = n ? vt_owners_count(f->o, node) : UINT64_MAX;

	if (!freed)
		return false;
	*freed = (struct vt_model_freed){
		.name = name,
		.bytes = r->bytes[node],
		.blocks = r->blocks[node],
		.category = r->activations[node] > r->bytes[node] / 2 ? VT_CATEGORY_ACTIVATION :
									VT_CATEGORY_UNKNOWN,
		.activation_bytes = r->activations[node],
		.outdated = f->versions.outdated[node],
		.certain = !r->doubtful[node] && !(n && n->flags & VT_NODE_LATER) &&
			   (count == UINT64_MAX || count == n->found),
		.items = n && is_container(f->o, node) ? n->n_edges : 0,
	};
	if (freed->items && freed->category == VT_CATEGORY_ACTIVATION)
		freed->versions = vt_owners_versions_of(&f->versions, node);
	return true;
}

static bool tell_all(struct freeing *f, struct vt_arena *arena, struct vt_model_owners *owners)
{
	uint32_t last = (uint32_t)f->o->graph.nodes.n;

	if (f->retained->bytes[last] >= f->least && !tell(f, last, "sys.last_value", owners))
		return false;
	for (size_t i = 0; i < f->candidates.n && owners->freed.n < MAX_FREED; i++) {
		struct vt_owner_name name;

		if (!vt_owners_name(f->o, f->candidates.data[i].node, arena, &name) ||
		    !tell(f, f->candidates.data[i].node, name.name, owners))
			return false;
	}
	return true;
}

static uint64_t least_bytes(const struct vt_owners_input *input)
{
	uint64_t all = 0;

	for (size_t i = 0; i < input->n_blocks; i++)
		all += input->blocks[i].size;
	return all / LEAST_PART + 1;
}

bool vt_owners_freed(struct vt_owners *o, const struct vt_owners_input *input,
		     const struct vt_retained *retained, struct vt_arena *arena,
		     struct vt_model_owners *owners)
{
	struct freeing f = { .o = o, .retained = retained, .least = least_bytes(input) };
	bool ok = vt_owners_versions_init(&f.versions, o, input, retained);

	if (!ok)
		return false;
	ok = find_candidates(&f);
	if (ok) {
		if (f.candidates.n)
			qsort(f.candidates.data, f.candidates.n, sizeof(*f.candidates.data),
			      larger_first);
		ok = tell_all(&f, arena, owners);
	}
	if (owners->freed.n)
		qsort(owners->freed.data, owners->freed.n, sizeof(*owners->freed.data), most_first);
	vt_vec_deinit(&f.candidates);
	vt_owners_versions_deinit(&f.versions);
	return ok;
}
