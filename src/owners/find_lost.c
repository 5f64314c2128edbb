/* SPDX-License-Identifier: Apache-2.0 */
/* What is in use, but not used: held by nothing but exceptions, and garbage. */
#include "owners/internal.h"

#include <stdlib.h>
#include <string.h>

/* What is lost by way of one node: an exception, or the garbage of one generation. */
struct loss {
	uint32_t node;
	uint64_t bytes;
	uint32_t largest; /* index in storages */
};

struct losses {
	struct vt_finder *f;
	VT_VEC(struct loss) all; /* the largest first, once they are summed up */
	uint64_t bytes;
	bool certain;
};

static uint64_t size_of(const struct vt_finder *f, uint32_t storage)
{
	return vt_finder_bytes(f, storage + 1);
}

static int by_node(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

static int larger_first(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* One loss a node. */
static void sum_up(struct losses *l)
{
	size_t n = 0;

	if (l->all.n)
		qsort(l->all.data, l->all.n, sizeof(*l->all.data), by_node);
	for (size_t i = 0; i < l->all.n; i++) {
		struct loss *last = n ? &l->all.data[n - 1] : NULL, *next = &l->all.data[i];

		if (!last || last->node != next->node) {
			l->all.data[n++] = *next;
			continue;
		}
		last->bytes += next->bytes;
		if (size_of(l->f, next->largest) > size_of(l->f, last->largest))
			last->largest = next->largest;
	}
	l->all.n = n;
	if (n)
		qsort(l->all.data, n, sizeof(*l->all.data), larger_first);
}

/* An exception that the interpreter printed: its traceback has a name, too, sys.last_traceback. */
static uint32_t last_exception(const struct vt_owners *o, uint32_t node)
{
	const struct vt_graph_node *root = &o->graph.nodes.data[o->root];
	uint32_t exception = node;
	bool is_last = false;

	while (o->reach.data[node].parent != VT_GRAPH_NONE &&
	       vt_owners_edge(o, o->reach.data[node].edge)->kind == VT_EDGE_TB_NEXT)
		node = o->reach.data[node].parent;
	for (uint32_t i = 0; i < root->n_edges; i++) {
		const struct vt_graph_edge *edge = &o->graph.edges.data[root->first_edge + i];
		const struct vt_pyheap_class *cls = vt_owners_class(o, edge->to);

		if (edge->kind != VT_EDGE_LAST)
			continue;
		is_last |= edge->to == node;
		if (cls && cls->shape == VT_PYHEAP_EXCEPTION)
			exception = edge->to;
	}
	return is_last ? exception : node;
}

/* The exception is where the path to a storage first becomes dear: see search.c. */
static uint32_t exception_of(const struct vt_owners *o, uint32_t node)
{
	uint32_t parent = o->reach.data[node].parent;

	while (parent != VT_GRAPH_NONE && o->reach.data[parent].distance >= VT_COST_EXCEPTION) {
		node = parent;
		parent = o->reach.data[node].parent;
	}
	return parent == VT_GRAPH_NONE ? parent : last_exception(o, parent);
}

/* The generation of the nearest object on the path that is in one of the collector's lists. */
static uint32_t generation_of(const struct vt_owners *o, uint32_t node)
{
	while (node != VT_GRAPH_NONE) {
		uint8_t flags = o->graph.nodes.data[node].flags;

		if (flags & VT_NODE_COLLECTABLE)
			return (flags & VT_NODE_GENERATION) >> VT_NODE_GENERATION_SHIFT;
		node = o->reach.data[node].parent;
	}
	return 0;
}

static bool collect(struct losses *l, enum vt_category category,
		    uint32_t (*group)(const struct vt_owners *o, uint32_t node))
{
	const struct vt_owners *o = l->f->o;

	l->certain = true;
	for (size_t i = 0; i < o->storages.n; i++) {
		const struct vt_owned_storage *s = &o->storages.data[i];
		uint64_t bytes = size_of(l->f, (uint32_t)i);
		struct loss *loss;

		if (s->category != category || s->shares)
			continue;
		loss = vt_vec_append(&l->all);
		if (!loss)
			return false;
		*loss = (struct loss){ group(o, s->best), bytes, (uint32_t)i };
		l->bytes += bytes;
		l->certain &= s->certain;
	}
	sum_up(l);
	return true;
}

/*
 * The exception that a thread handles is in its state. Those whose handling it interrupted are on
 * the stacks of its frames (PUSH_EXC_INFO; up to 3.10 SETUP_FINALLY's blocks).
 */
static bool is_handled(const struct vt_finder *f, uint32_t exception)
{
	const struct vt_graph *graph = &f->o->graph;

	for (size_t i = 0; i < graph->edges.n; i++) {
		const struct vt_graph_edge *edge = &graph->edges.data[i];

		if (edge->to == exception &&
		    (edge->kind == VT_EDGE_THREAD_STATE || edge->kind == VT_EDGE_STACK))
			return true;
	}
	return false;
}

static const char *class_name(struct vt_finder *f, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(f->o, node);

	return cls && cls->shape == VT_PYHEAP_EXCEPTION ? vt_arena_strdup(f->arena, cls->name) : "";
}

/* "big in fail (train.py:12), kept by sys.last_value": the sentence has the second part already. */
static const char *without_holder(struct vt_finder *f, const char *name)
{
	const char *holder = strstr(name, ", kept by ");

	return holder ? vt_arena_strndup(f->arena, name, (size_t)(holder - name)) : name;
}

static bool find_exceptions(struct vt_finder *f)
{
	struct losses l = { .f = f };
	bool ok = collect(&l, VT_CATEGORY_EXCEPTION, exception_of);

	if (ok && l.bytes >= f->least) {
		const struct loss *most = &l.all.data[0];
		struct vt_owner_name held;
		struct vt_model_notice notice = {
			.code = VT_NOTICE_EXCEPTION,
			.why = is_handled(f, most->node) ? VT_WHY_HANDLED : VT_WHY_NONE,
			.certain = l.certain,
			.bytes = l.bytes,
			.part_bytes = most->bytes,
			.count = (uint32_t)l.all.n,
			.type = class_name(f, most->node),
		};

		ok = notice.type &&
		     vt_owners_name(f->o, f->o->storages.data[most->largest].best, f->arena, &held);
		notice.other = ok ? without_holder(f, held.name) : "";
		ok = ok && notice.other && vt_finder_add(f, &notice, most->node, VT_GRAPH_NONE);
	}
	vt_vec_deinit(&l.all);
	return ok;
}

static enum vt_why why(const struct vt_finder *f, uint32_t generation)
{
	switch (f->o->heap.collector) {
	case VT_PYHEAP_COLLECTOR_OFF:
		return VT_WHY_OFF;
	case VT_PYHEAP_COLLECTOR_NO_THRESHOLD:
		return VT_WHY_THRESHOLD;
	case VT_PYHEAP_COLLECTOR_UNKNOWN:
		return VT_WHY_NONE;
	case VT_PYHEAP_COLLECTOR_ON:
		break;
	}
	return generation == VT_PYHEAP_PERMANENT ? VT_WHY_FROZEN :
	       generation == VT_PYHEAP_OLDEST    ? VT_WHY_OLD :
						   VT_WHY_YOUNG;
}

static bool find_garbage(struct vt_finder *f)
{
	struct losses l = { .f = f };
	bool ok = collect(&l, VT_CATEGORY_GARBAGE, generation_of);

	if (ok && l.bytes >= f->least) {
		struct vt_model_notice notice = {
			.code = VT_NOTICE_GARBAGE,
			.why = (uint8_t)why(f, l.all.data[0].node),
			.certain = true, /* garbage is only told of where the graph is whole */
			.bytes = l.bytes,
			.part_bytes = l.all.data[0].bytes,
		};

		ok = vt_finder_add(f, &notice, f->o->storages.data[l.all.data[0].largest].best,
				   VT_GRAPH_NONE);
	}
	vt_vec_deinit(&l.all);
	return ok;
}

bool vt_owners_find_lost(struct vt_finder *f)
{
	return find_exceptions(f) && find_garbage(f);
}
