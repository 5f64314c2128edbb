/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps how much alive: a node goes when the last way to it goes, so what goes with a node is
 * what it dominates. Only nodes from which a storage is reached matter. Modules and classes are
 * taken to stay for ever: what refers to them is of no interest, and that keeps the graph small.
 *
 * The algorithm is that of T. Lengauer and R. E. Tarjan, "A Fast Algorithm for Finding Dominators
 * in a Flowgraph" (1979), with path compression alone: O(m log n). A simpler one walks up the tree
 * for each reference, and a parameter that the graphs of a thousand steps refer to, a thousand
 * nodes deep, is a million steps for it.
 */
#include "owners/internal.h"

#include <stdlib.h>

bool vt_owners_keeps(enum vt_edge_kind kind)
{
	return kind != VT_EDGE_IMPL_BORROWED && kind != VT_EDGE_ACCUMULATOR &&
	       kind != VT_EDGE_STACK_OLD;
}

enum { KEPT = 1, STAYS = 2 };

struct dominators {
	const struct vt_owners *o;
	struct vt_retained *retained;
	uint32_t last;          /* the node that stands for sys.last_value and its like */
	uint32_t *in_first;     /* by node: first in in_from; one more at the end */
	uint32_t *in_from;      /* sources of the edges to each node */
	uint8_t *flags;         /* by node. KEPT: it keeps a storage alive; STAYS: see stays() */
	uint32_t *stack, *next; /* of the search in depth: nodes, and the next edge of each */
	uint32_t *number;       /* by node: its place in order; VT_GRAPH_NONE: not reached */
	/* By the place in the order in which the search in depth comes to nodes: */
	uint32_t *order; /* the node */
	uint32_t *parent;
	size_t n;
	uint32_t *semi;               /* semidominator: a place */
	uint32_t *idom;               /* the dominator: a place */
	uint32_t *ancestor, *best;    /* the forest that is compressed; best: with the least semi */
	uint32_t *bucket, *in_bucket; /* those whose semidominator it is: first, next */
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

		if (!(d->flags[node] & KEPT)) {
			d->flags[node] |= KEPT;
			d->stack[n++] = node;
		}
	}
	while (n) {
		uint32_t node = d->stack[--n];

		if (node < d->o->graph.nodes.n && stays(d->o, node)) {
			d->flags[node] |= STAYS;
			continue;
		}
		for (uint32_t i = d->in_first[node]; i < d->in_first[node + 1]; i++) {
			uint32_t from = d->in_from[i];

			if (!(d->flags[from] & KEPT)) {
				d->flags[from] |= KEPT;
				d->stack[n++] = from;
			}
		}
	}
	d->flags[d->o->root] |= KEPT;
}

static void enter(struct dominators *d, uint32_t node, uint32_t parent)
{
	d->number[node] = (uint32_t)d->n;
	d->order[d->n] = node;
	d->parent[d->n++] = parent;
	d->next[node] = 0;
}

/* The next one that a node refers to and that was not reached yet. */
static uint32_t next_of(struct dominators *d, uint32_t node)
{
	uint32_t n_edges = 0;
	const struct vt_graph_edge *edges =
		node < d->o->graph.nodes.n ? edges_of(d->o, node, &n_edges) : NULL;

	while (d->next[node] < n_edges) {
		const struct vt_graph_edge *edge = &edges[d->next[node]++];

		if (d->flags[edge->to] == KEPT && vt_owners_keeps(edge->kind) &&
		    d->number[edge->to] == VT_GRAPH_NONE)
			return edge->to;
	}
	return VT_GRAPH_NONE;
}

/* In depth from one node, which parent refers to. */
static void descend(struct dominators *d, uint32_t first, uint32_t parent)
{
	size_t n = 0;

	if (!(d->flags[first] & KEPT) || d->number[first] != VT_GRAPH_NONE)
		return;
	enter(d, first, d->number[parent]);
	d->stack[n++] = first;
	while (n) {
		uint32_t node = d->stack[n - 1], to = next_of(d, node);

		if (to == VT_GRAPH_NONE) {
			n--;
			continue;
		}
		enter(d, to, d->number[node]);
		d->stack[n++] = to;
	}
}

/* The root refers to what stays, and to the node that stands for sys.last_value and its like. */
static void number_nodes(struct dominators *d)
{
	const struct vt_owners *o = d->o;
	uint32_t n_edges;
	const struct vt_graph_edge *edges = edges_of(o, o->root, &n_edges);

	for (size_t i = 0; i < d->retained->n; i++)
		d->number[i] = VT_GRAPH_NONE;
	enter(d, o->root, 0);
	for (size_t i = 0; i < o->late_edges.n; i++) {
		if (!(d->flags[o->late_edges.data[i].to] & STAYS))
			descend(d, o->late_edges.data[i].to, o->root);
	}
	for (size_t i = 0; i < o->graph.nodes.n; i++) {
		if (d->flags[i] & STAYS)
			descend(d, (uint32_t)i, o->root);
	}
	descend(d, d->last, o->root);
	for (int of_last = 1; of_last >= 0; of_last--) {
		for (uint32_t i = 0; i < n_edges; i++) {
			uint32_t from = source(d, o->root, &edges[i]);

			if ((from == d->last) == of_last && vt_owners_keeps(edges[i].kind) &&
			    !(d->flags[edges[i].to] & STAYS))
				descend(d, edges[i].to, from);
		}
	}
}

/* On the way from a place up to the root of its tree in the forest: the best, without that root. */
static uint32_t evaluate(struct dominators *d, uint32_t place)
{
	size_t n = 0;
	uint32_t at = place;

	if (d->ancestor[place] == VT_GRAPH_NONE)
		return place;
	for (; d->ancestor[d->ancestor[at]] != VT_GRAPH_NONE; at = d->ancestor[at])
		d->stack[n++] = at;
	while (n) {
		uint32_t above;

		at = d->stack[--n];
		above = d->ancestor[at];
		if (d->semi[d->best[above]] < d->semi[d->best[at]])
			d->best[at] = d->best[above];
		d->ancestor[at] = d->ancestor[above];
	}
	return d->best[place];
}

static void look_at(struct dominators *d, uint32_t place, uint32_t from)
{
	uint32_t best;

	if (d->number[from] == VT_GRAPH_NONE)
		return;
	best = evaluate(d, d->number[from]);
	if (d->semi[best] < d->semi[place])
		d->semi[place] = d->semi[best];
}

static void find_semidominator(struct dominators *d, uint32_t place)
{
	uint32_t node = d->order[place];

	if (node == d->last || d->flags[node] & STAYS) {
		d->semi[place] = 0;
		return;
	}
	for (uint32_t i = d->in_first[node]; i < d->in_first[node + 1]; i++) {
		if (d->in_from[i] != node)
			look_at(d, place, d->in_from[i]);
	}
}

/* Of those whose semidominator this is. Where the dominator is that of another one, it is later. */
static void empty_bucket(struct dominators *d, uint32_t parent)
{
	uint32_t place = d->bucket[parent];

	while (place != VT_GRAPH_NONE) {
		uint32_t best = evaluate(d, place);

		d->idom[place] = d->semi[best] < d->semi[place] ? best : parent;
		place = d->in_bucket[place];
	}
	d->bucket[parent] = VT_GRAPH_NONE;
}

static void find_dominators(struct dominators *d)
{
	struct vt_retained *r = d->retained;

	for (uint32_t i = 0; i < d->n; i++) {
		d->semi[i] = d->best[i] = i;
		d->ancestor[i] = d->bucket[i] = VT_GRAPH_NONE;
	}
	for (uint32_t i = (uint32_t)d->n; i-- > 1;) {
		find_semidominator(d, i);
		d->in_bucket[i] = d->bucket[d->semi[i]];
		d->bucket[d->semi[i]] = i;
		d->ancestor[i] = d->parent[i];
		empty_bucket(d, d->parent[i]);
	}
	d->idom[0] = 0;
	for (uint32_t i = 1; i < d->n; i++) {
		if (d->idom[i] != d->semi[i])
			d->idom[i] = d->idom[d->idom[i]];
	}
	for (size_t i = 0; i < r->n; i++)
		r->idom[i] = VT_GRAPH_NONE;
	for (uint32_t i = 0; i < d->n; i++)
		r->idom[d->order[i]] = d->order[d->idom[i]];
}

/*
 * Numbers for vt_owners_dominates(): those of what a node dominates follow its own. A dominator
 * comes before what it dominates in order.
 */
static void number_tree(struct dominators *d)
{
	struct vt_retained *r = d->retained;

	for (size_t i = 0; i < r->n; i++)
		r->number[i] = VT_GRAPH_NONE;
	for (uint32_t i = (uint32_t)d->n; i-- > 0;) {
		r->size[d->order[i]]++;
		if (i)
			r->size[r->idom[d->order[i]]] += r->size[d->order[i]];
	}
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t node = d->order[i], above = r->idom[node];

		r->number[node] = i ? d->next[above] : 0;
		if (i)
			d->next[above] += r->size[node];
		d->next[node] = r->number[node] + 1;
	}
}

/* What a node dominates comes after it in order. */
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
	for (size_t i = d->n; i-- > 1;) {
		uint32_t node = d->order[i], idom = r->idom[node];

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
		.number = calloc(n, sizeof(*r->number)),
		.size = calloc(n, sizeof(*r->size)),
	};
	d->flags = calloc(n, sizeof(*d->flags));
	d->stack = calloc(n, sizeof(*d->stack));
	d->next = calloc(n, sizeof(*d->next));
	d->number = calloc(n, sizeof(*d->number));
	d->order = calloc(n, sizeof(*d->order));
	d->parent = calloc(n, sizeof(*d->parent));
	return r->bytes && r->activations && r->blocks && r->doubtful && r->idom && r->number &&
	       r->size && d->flags && d->stack && d->next && d->number && d->order && d->parent &&
	       turn(d);
}

/* For the nodes that were reached only: these are few of all. */
static bool allocate_forest(struct dominators *d)
{
	d->semi = calloc(d->n, sizeof(*d->semi));
	d->idom = calloc(d->n, sizeof(*d->idom));
	d->ancestor = calloc(d->n, sizeof(*d->ancestor));
	d->best = calloc(d->n, sizeof(*d->best));
	d->bucket = calloc(d->n, sizeof(*d->bucket));
	d->in_bucket = calloc(d->n, sizeof(*d->in_bucket));
	return d->semi && d->idom && d->ancestor && d->best && d->bucket && d->in_bucket;
}

static void forget(struct dominators *d)
{
	free(d->flags);
	free(d->stack);
	free(d->next);
	free(d->number);
	free(d->order);
	free(d->parent);
	free(d->semi);
	free(d->idom);
	free(d->ancestor);
	free(d->best);
	free(d->bucket);
	free(d->in_bucket);
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
		ok = allocate_forest(&d);
	}
	if (ok) {
		find_dominators(&d);
		number_tree(&d);
		add_up(&d, input);
	}
	retained->in_first = d.in_first;
	retained->in_from = d.in_from;
	forget(&d);
	if (!ok)
		vt_owners_retained_deinit(retained);
	return ok;
}

bool vt_owners_dominates(const struct vt_retained *retained, uint32_t node, uint32_t other)
{
	return retained->number[other] - retained->number[node] < retained->size[node];
}

bool vt_owners_has_one_holder(const struct vt_retained *retained, uint32_t node)
{
	uint32_t count = 0;

	for (uint32_t i = retained->in_first[node]; i < retained->in_first[node + 1] && count < 2;
	     i++) {
		uint32_t from = retained->in_from[i];

		count += from != node && retained->idom[from] != VT_GRAPH_NONE &&
			 !vt_owners_dominates(retained, node, from);
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
	free(retained->size);
	free(retained->in_first);
	free(retained->in_from);
	*retained = (struct vt_retained){ 0 };
}
