/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that keep the graphs that made their items: the usual leak of a training loop. That a
 * graph is of no use any more can be proved: when a node saves a tensor it notes the tensor's
 * version, and backward() refuses another one. After an optimizer's step parameters have another. A
 * container with graphs of several versions has grown over several steps.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum { MAX_CONTAINERS = 2 };

static int by_counter(const void *a, const void *b)
{
	const struct vt_saved_version *x = a, *y = b;

	if (x->counter != y->counter)
		return x->counter < y->counter ? -1 : 1;
	return (x->then > y->then) - (x->then < y->then);
}

/* All that goes with it, as far up as it goes. What is above a marked one is marked. */
static void mark(struct vt_versions *versions, uint32_t node)
{
	while (node != VT_GRAPH_NONE && !versions->outdated[node]) {
		versions->outdated[node] = 1;
		node = versions->retained->idom[node];
	}
}

static bool add_versions(struct vt_versions *versions, struct vt_owners *o, uint32_t node)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[node];

	for (uint32_t i = 0; i < n->n_edges; i++) {
		const struct vt_graph_edge *edge = &o->graph.edges.data[n->first_edge + i];
		struct vt_tensors_version version;
		struct vt_saved_version *added;

		if (edge->kind != VT_EDGE_SAVED ||
		    !vt_tensors_version(&o->tensors, node, edge, &version))
			continue;
		added = vt_vec_append(&versions->saved);
		if (!added)
			return false;
		*added = (struct vt_saved_version){ node, version.then, version.counter };
		if (version.then < version.now)
			mark(versions, node);
	}
	return true;
}

bool vt_owners_versions_init(struct vt_versions *versions, struct vt_owners *o,
			     const struct vt_owners_input *input,
			     const struct vt_retained *retained)
{
	bool ok;

	*versions = (struct vt_versions){
		.retained = retained,
		.outdated = calloc(retained->n, sizeof(*versions->outdated)),
	};
	ok = versions->outdated;
	for (size_t i = 0; ok && input->one_moment && i < o->graph.nodes.n; i++) {
		if (o->graph.nodes.data[i].kind == VT_NODE_GRAD_FN &&
		    retained->idom[i] != VT_GRAPH_NONE)
			ok = add_versions(versions, o, (uint32_t)i);
	}
	if (versions->saved.n)
		qsort(versions->saved.data, versions->saved.n, sizeof(*versions->saved.data),
		      by_counter);
	if (!ok)
		vt_owners_versions_deinit(versions);
	return ok;
}

void vt_owners_versions_deinit(struct vt_versions *versions)
{
	free(versions->outdated);
	vt_vec_deinit(&versions->saved);
}

uint32_t vt_owners_versions_of(const struct vt_versions *versions, uint32_t node)
{
	const struct vt_saved_version *last = NULL;
	uint32_t most = 0, n = 0;

	for (size_t i = 0; versions->outdated[node] && i < versions->saved.n; i++) {
		const struct vt_saved_version *saved = &versions->saved.data[i];

		if ((last && !by_counter(last, saved)) ||
		    !vt_owners_dominates(versions->retained, node, saved->node))
			continue;
		n = last && last->counter == saved->counter ? n + 1 : 1;
		most = n > most ? n : most;
		last = saved;
	}
	return most;
}

static enum vt_why why(const struct vt_model_freed *freed)
{
	return freed->versions > 1 ? VT_WHY_GROWS : freed->outdated ? VT_WHY_OUTDATED : VT_WHY_NONE;
}

bool vt_owners_find_graphs(struct vt_finder *f)
{
	const struct vt_model_owners *owners = f->owners;
	int found = 0;

	for (size_t i = 0; i < owners->freed.n && found < MAX_CONTAINERS; i++) {
		const struct vt_model_freed *freed = &owners->freed.data[i];
		struct vt_model_notice notice = {
			.code = VT_NOTICE_KEPT_GRAPHS,
			.why = (uint8_t)why(freed),
			.certain = freed->certain,
			.bytes = freed->bytes,
			.part_bytes = freed->activation_bytes,
			.count = freed->items,
			.versions = freed->versions,
			.name = freed->name,
		};

		if (!freed->items || freed->category != VT_CATEGORY_ACTIVATION ||
		    freed->bytes < f->least)
			continue;
		if (!vt_finder_add(f, &notice, VT_GRAPH_NONE, VT_GRAPH_NONE))
			return false;
		found++;
	}
	return true;
}
