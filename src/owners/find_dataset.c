/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data set that lies on the device: what objects of torch.utils.data hold directly, and in
 * containers and other data sets in them. What holds more than that may hold the whole program.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum { MAX_DATASETS = 256 };

struct walk {
	struct vt_finder *f;
	uint32_t *stack;
	uint32_t *seen; /* by node: the number of the walk that came here last */
	uint32_t number;
	size_t n;
	uint64_t bytes;
	bool certain;
};

static bool is_followed(enum vt_edge_kind kind)
{
	return kind == VT_EDGE_DICT || kind == VT_EDGE_INLINE || kind == VT_EDGE_VALUE ||
	       kind == VT_EDGE_ITEM || kind == VT_EDGE_MEMBER || kind == VT_EDGE_ELEMENT;
}

static bool is_entered(const struct vt_finder *f, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(f->o, node);

	if (!cls || f->o->graph.nodes.data[node].role == VT_ROLE_GLOBALS)
		return false;
	return cls->is & (VT_PYHEAP_IS_DATASET | VT_PYHEAP_IS_TENSOR) ||
	       cls->shape == VT_PYHEAP_LIST || cls->shape == VT_PYHEAP_TUPLE ||
	       cls->shape == VT_PYHEAP_DICT || cls->shape == VT_PYHEAP_SET ||
	       cls->shape == VT_PYHEAP_DEQUE;
}

static void enter(struct walk *w, uint32_t node)
{
	if (w->seen[node] == w->number || !is_entered(w->f, node))
		return;
	w->seen[node] = w->number;
	w->stack[w->n++] = node;
}

static void visit(struct walk *w, uint32_t node)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(w->f, node, &edges), storage = vt_finder_storage(w->f, node);

	if (storage) {
		const struct vt_owned_storage *s = &w->f->o->storages.data[storage - 1];

		if (w->seen[s->node] != w->number)
			w->bytes += vt_finder_bytes(w->f, storage);
		w->seen[s->node] = w->number;
		w->certain &= !s->surplus;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (is_followed((enum vt_edge_kind)edges[i].kind))
			enter(w, edges[i].to);
	}
}

static void measure(struct walk *w, uint32_t node)
{
	w->number++;
	w->bytes = 0;
	w->certain = true;
	enter(w, node);
	while (w->n)
		visit(w, w->stack[--w->n]);
}

static bool is_better(const struct vt_finder *f, const struct walk *w, uint64_t most, uint32_t node,
		      uint32_t best)
{
	if (w->bytes != most || best == VT_GRAPH_NONE)
		return w->bytes > most;
	return f->o->reach.data[node].distance < f->o->reach.data[best].distance;
}

static bool find(struct walk *w)
{
	struct vt_finder *f = w->f;
	struct vt_model_notice notice = { .code = VT_NOTICE_DATASET };
	uint32_t best = VT_GRAPH_NONE;

	for (size_t i = 0; i < f->o->graph.nodes.n && w->number < MAX_DATASETS; i++) {
		const struct vt_pyheap_class *cls = vt_owners_class(f->o, (uint32_t)i);

		if (!cls || !(cls->is & VT_PYHEAP_IS_DATASET) ||
		    !vt_finder_is_alive(f, (uint32_t)i))
			continue;
		measure(w, (uint32_t)i);
		if (!is_better(f, w, notice.bytes, (uint32_t)i, best))
			continue;
		best = (uint32_t)i;
		notice.bytes = w->bytes;
		notice.certain = w->certain;
	}
	if (best == VT_GRAPH_NONE || notice.bytes < f->least)
		return true;
	notice.type = vt_arena_strdup(f->arena, vt_owners_class(f->o, best)->name);
	return notice.type && vt_finder_add(f, &notice, best, VT_GRAPH_NONE);
}

bool vt_owners_find_dataset(struct vt_finder *f)
{
	size_t n = f->o->graph.nodes.n + 1;
	struct walk w = {
		.f = f,
		.stack = calloc(n, sizeof(*w.stack)),
		.seen = calloc(n, sizeof(*w.seen)),
	};
	bool ok = w.stack && w.seen && find(&w);

	free(w.stack);
	free(w.seen);
	return ok;
}
