/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps how much alive: a node goes when the last way to it goes, so what goes with a node is
 * what it dominates. Only nodes from which a storage is reached matter. Modules and classes are
 * taken to stay for ever: what refers to them is of no interest, and that keeps the graph small.
 *
 * The algorithm is that of K. D. Cooper, T. J. Harvey and K. Kennedy, "A Simple, Fast Dominance
 * Algorithm" (2001): nodes in reverse postorder, dominators of predecessors are intersected until
 * nothing changes.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum { MAX_STEPS = 50000000 }; /* of all intersections: some 0.2 s */

bool vt_owners_keeps(enum vt_edge_kind kind)
{
	return kind != VT_EDGE_IMPL_BORROWED && kind != VT_EDGE_ACCUMULATOR &&
	       kind != VT_EDGE_STACK_OLD;
}

struct dominators {
	const struct vt_owners *o;
	struct vt_retained *retained;
	uint32_t last;      /* the node that stands for sys.last_value and its like */
	uint32_t *in_first; /* by node: first in in_from; one more at the end */
	uint32_t *in_from;  /* sources of the edges to each node */
	uint8_t *kept;      /* by node: it keeps a storage alive */
	uint32_t *order;    /* nodes in postorder */
	uint32_t *number;   /* by node: its place in order */
	size_t n_order;
	uint32_t *stack, *next; /* of the search in depth: nodes, and the next edge of each */
	size_t steps;
};

static uint32_t source(const struct dominators *d, uint32_t from, const struct vt_graph_edge *edge)
{
	return from == d->o->root && edge->kind == VT_EDGE_LAST ? d->last : from;
}

/* Nodes that stay, whatever refers to them. */
static bool stays(const struct vt_owners *o, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, node);

	return o->graph.nodes.data[node].role == VT_ROLE_GLOBALS ||
	       (cls && (cls->shape == VT_PYHEAP_CLASS || cls->shape == VT_PYHEAP_MODULE));
}

static const struct vt_graph_edge *edges_of(const struct vt_owners *o, uint32_t node, uint32_t *n)
{
	*n = o->graph.nodes.data[node].n_edges;
	return o->graph.edges.data + o->graph.nodes.data[node].first_edge;
}

/* Edges backwards. */
static bool turn(struct dominators *d)
{
	const struct vt_graph *graph = &d->o->graph;
	size_t n = d->retained->n;
	uint32_t *fill;

	d->in_first = calloc(n + 1, sizeof(*d->in_first));
	d->in_from = calloc(graph->edges.n + d->o->late_edges.n + 1, sizeof(*d->in_from));
	fill = calloc(n + 1, sizeof(*fill));
	if (!d->in_first || !d->in_from || !fill) {
		free(fill);
		return false;
	}
	for (size_t i = 0; i < graph->edges.n; i++)
		d->in_first[graph->edges.data[i].to + 1]++;
	for (size_t i = 0; i < d->o->late_edges.n; i++)
		d->in_first[d->o->late_edges.data[i].to + 1]++;
	for (size_t i = 0; i < n; i++)
		d->in_first[i + 1] += d->in_first[i];
	for (size_t i = 0; i < graph->nodes.n; i++) {
		uint32_t n_edges;
		const struct vt_graph_edge *edges = edges_of(d->o, (uint32_t)i, &n_edges);

		for (uint32_t e = 0; e < n_edges; e++) {
			uint32_t to = edges[e].to;
			uint32_t from = source(d, (uint32_t)i, &edges[e]);

			/* A reference that does not keep it alive is one from itself: no way. */
			d->in_from[d->in_first[to] + fill[to]++] =
				vt_owners_keeps(edges[e].kind) ? from : to;
		}
	}
	for (size_t i = 0; i < d->o->late_edges.n; i++) {
		uint32_t to = d->o->late_edges.data[i].to;

		d->in_from[d->in_first[to] + fill[to]++] = d->o->root;
	}
	free(fill);
	return true;
}

/* Backwards from the storages. */
static void find_keepers(struct dominators *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->o->storages.n; i++) {
		uint32_t node = d->o->storages.data[i].node;

		if (!d->kept[node]) {
			d->kept[node] = 1;
			d->stack[n++] = node;
		}
	}
	while (n) {
		uint32_t node = d->stack[--n];

		if (node < d->o->graph.nodes.n && stays(d->o, node))
			continue;
		for (uint32_t i = d->in_first[node]; i < d->in_first[node + 1]; i++) {
			uint32_t from = d->in_from[i];

			if (!d->kept[from]) {
				d->kept[from] = 1;
				d->stack[n++] = from;
			}
		}
	}
	d->kept[d->o->root] = 1;
}

/* In depth from one node; what is done is put into order. */
static void descend(struct dominators *d, uint32_t first)
{
	size_t n = 0;

	if (d->number[first] != VT_GRAPH_NONE)
		return;
	d->number[first] = 0;
	d->next[first] = 0;
	d->stack[n++] = first;
	while (n) {
		uint32_t node = d->stack[n - 1], n_edges = 0;
		const struct vt_graph_edge *edges =
			node < d->o->graph.nodes.n ? edges_of(d->o, node, &n_edges) : NULL;
		uint32_t to = VT_GRAPH_NONE;

		while (d->next[node] < n_edges && to == VT_GRAPH_NONE) {
			const struct vt_graph_edge *edge = &edges[d->next[node]++];

			if (d->kept[edge->to] && vt_owners_keeps(edge->kind) &&
			    d->number[edge->to] == VT_GRAPH_NONE)
				to = edge->to;
		}
		if (to != VT_GRAPH_NONE) {
			d->number[to] = 0;
			d->next[to] = 0;
			d->stack[n++] = to;
			continue;
		}
		n--;
		d->number[node] = (uint32_t)d->n_order;
		d->order[d->n_order++] = node;
	}
}

/* The root comes last: it is the highest in postorder. What stays hangs on the root. */
static void number_nodes(struct dominators *d)
{
	size_t n_nodes = d->o->graph.nodes.n;

	for (size_t i = 0; i < d->retained->n; i++)
		d->number[i] = VT_GRAPH_NONE;
	d->number[d->o->root] = 0; /* not entered before its turn */
	for (size_t i = 0; i < d->o->late_edges.n; i++) {
		if (d->kept[d->o->late_edges.data[i].to])
			descend(d, d->o->late_edges.data[i].to);
	}
	for (size_t i = 0; i < n_nodes; i++) {
		if (d->kept[i] && stays(d->o, (uint32_t)i))
			descend(d, (uint32_t)i);
	}
	d->number[d->o->root] = VT_GRAPH_NONE;
	descend(d, d->o->root);
	/* It stands before all that it refers to, which the root's edges have entered already. */
	if (d->kept[d->last]) {
		d->number[d->last] = d->number[d->o->root];
		d->order[d->n_order - 1] = d->last;
		d->number[d->o->root] = (uint32_t)d->n_order;
		d->order[d->n_order++] = d->o->root;
	}
}

static uint32_t intersect(struct dominators *d, uint32_t a, uint32_t b)
{
	const uint32_t *idom = d->retained->idom;

	while (a != b && d->steps < MAX_STEPS) {
		while (d->number[a] < d->number[b] && d->steps++ < MAX_STEPS)
			a = idom[a];
		while (d->number[b] < d->number[a] && d->steps++ < MAX_STEPS)
			b = idom[b];
	}
	return a;
}

static uint32_t dominator_of(struct dominators *d, uint32_t node)
{
	uint32_t found = VT_GRAPH_NONE;

	if (node == d->last || stays(d->o, node))
		return d->o->root;
	for (uint32_t i = d->in_first[node]; i < d->in_first[node + 1]; i++) {
		uint32_t from = d->in_from[i];

		if (from == node || d->retained->idom[from] == VT_GRAPH_NONE)
			continue;
		found = found == VT_GRAPH_NONE ? from : intersect(d, from, found);
	}
	return found;
}

static bool find_dominators(struct dominators *d)
{
	uint32_t *idom = d->retained->idom;
	bool changed = true;

	for (size_t i = 0; i < d->retained->n; i++)
		idom[i] = VT_GRAPH_NONE;
	idom[d->o->root] = d->o->root;
	while (changed && d->steps < MAX_STEPS) {
		changed = false;
		for (size_t i = d->n_order; i-- > 0;) {
			uint32_t node = d->order[i], found;

			if (node == d->o->root)
				continue;
			found = dominator_of(d, node);
			if (found != idom[node]) {
				idom[node] = found;
				changed = true;
			}
		}
	}
	return d->steps < MAX_STEPS;
}

/* Children come before their parents in postorder. */
static void add_up(struct dominators *d, const struct vt_owners_input *input)
{
	struct vt_retained *r = d->retained;

	for (size_t i = 0; i < d->o->storages.n; i++) {
		const struct vt_owned_storage *storage = &d->o->storages.data[i];

		if (storage->shares)
			continue; /* its block is another storage's already */
		r->bytes[storage->node] += input->blocks[storage->block].size;
		if (storage->category == VT_CATEGORY_ACTIVATION)
			r->activations[storage->node] += input->blocks[storage->block].size;
		r->blocks[storage->node]++;
		r->doubtful[storage->node] += !storage->certain;
	}
	for (size_t i = 0; i < d->n_order; i++) {
		uint32_t node = d->order[i], idom = r->idom[node];

		if (idom == VT_GRAPH_NONE || node == d->o->root)
			continue;
		r->bytes[idom] += r->bytes[node];
		r->activations[idom] += r->activations[node];
		r->blocks[idom] += r->blocks[node];
		r->doubtful[idom] += r->doubtful[node];
	}
}

static bool allocate(struct dominators *d, size_t n)
{
	struct vt_retained *r = d->retained;

	*r = (struct vt_retained){
		.n = n,
		.bytes = calloc(n, sizeof(*r->bytes)),
		.activations = calloc(n, sizeof(*r->activations)),
		.blocks = calloc(n, sizeof(*r->blocks)),
		.doubtful = calloc(n, sizeof(*r->doubtful)),
		.idom = calloc(n, sizeof(*r->idom)),
	};
	d->kept = calloc(n, sizeof(*d->kept));
	d->order = calloc(n, sizeof(*d->order));
	d->number = calloc(n, sizeof(*d->number));
	d->stack = calloc(n, sizeof(*d->stack));
	d->next = calloc(n, sizeof(*d->next));
	return r->bytes && r->activations && r->blocks && r->doubtful && r->idom && d->kept &&
	       d->order && d->number && d->stack && d->next && turn(d);
}

bool vt_owners_retained(const struct vt_owners *o, const struct vt_owners_input *input,
			struct vt_retained *retained)
{
	struct dominators d = {
		.o = o,
		.retained = retained,
		.last = (uint32_t)o->graph.nodes.n,
	};
	bool ok = allocate(&d, o->graph.nodes.n + 1);

	if (ok) {
		find_keepers(&d);
		number_nodes(&d);
		ok = find_dominators(&d);
	}
	if (ok)
		add_up(&d, input);
	retained->in_first = d.in_first;
	retained->in_from = d.in_from;
	retained->number = d.number;
	free(d.kept);
	free(d.order);
	free(d.stack);
	free(d.next);
	if (!ok)
		vt_owners_retained_deinit(retained);
	return ok;
}

bool vt_owners_dominates(const struct vt_retained *retained, uint32_t node, uint32_t other,
			 size_t *steps_left)
{
	while (retained->number[other] < retained->number[node] && *steps_left) {
		other = retained->idom[other];
		--*steps_left;
	}
	return other == node;
}

bool vt_owners_has_one_holder(const struct vt_retained *retained, uint32_t node, size_t *steps_left)
{
	uint32_t count = 0;

	for (uint32_t i = retained->in_first[node]; i < retained->in_first[node + 1] && count < 2;
	     i++) {
		uint32_t from = retained->in_from[i];

		count += from != node && retained->idom[from] != VT_GRAPH_NONE &&
			 !vt_owners_dominates(retained, node, from, steps_left);
	}
	return count == 1;
}

void vt_owners_retained_deinit(struct vt_retained *retained)
{
	free(retained->bytes);
	free(retained->activations);
	free(retained->blocks);
	free(retained->doubtful);
	free(retained->idom);
	free(retained->number);
	free(retained->in_first);
	free(retained->in_from);
	*retained = (struct vt_retained){ 0 };
}
