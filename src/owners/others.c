/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that holds a block directly, beside what names it, and what would be freed if the reference
 * went that its name leads to. A storage, the tensors on it and their Python objects are one group:
 * who holds any of them holds the block.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum {
	MAX_NAMES = 4,         /* of holders of one block */
	MAX_LOOKED = 50000000, /* references that are looked at: some 0.2 s */
};

struct holder {
	uint32_t from, edge; /* edge: its index */
	uint32_t distance;
};

struct others {
	struct vt_owners *o;
	const struct vt_retained *retained;
	struct vt_arena *arena;
	uint32_t *group_of;     /* by node: the number of the last group that it was in, 0 none */
	uint32_t *next;         /* by node: which of its edges find_edge() looks at first */
	uint32_t number;        /* of the present group */
	VT_VEC(uint32_t) group; /* its nodes */
	struct holder best[MAX_NAMES];
	uint32_t n_best, n_others;
	uint32_t named; /* index of the edge that the name comes by */
	size_t looked;
	struct { /* the last one that was named: what is freed together follows each other mostly */
		uint32_t node;
		const char *name, *other; /* other: name of another holder of it, or NULL */
	} freed;
};

static bool is_in_group(const struct others *x, uint32_t node)
{
	return node < x->o->graph.nodes.n && x->group_of[node] == x->number;
}

static bool join(struct others *x, uint32_t node)
{
	uint32_t *added;

	if (is_in_group(x, node))
		return true;
	added = vt_vec_append(&x->group);
	if (!added)
		return false;
	*added = node;
	x->group_of[node] = x->number;
	return true;
}

/*
 * An edge between two nodes that keeps the second one alive; each call finds the next one of them.
 * It is looked for from where the last one of this node was: blocks lie mostly in the order in
 * which a list has them. VT_GRAPH_NONE: there is none.
 */
static uint32_t find_edge(struct others *x, uint32_t from, uint32_t to)
{
	const struct vt_graph_node *n = &x->o->graph.nodes.data[from];
	uint32_t at = x->next[from];

	for (uint32_t i = 0; i < n->n_edges && x->looked++ < MAX_LOOKED; i++, at++) {
		const struct vt_graph_edge *edge;

		at = at < n->n_edges ? at : 0;
		edge = &x->o->graph.edges.data[n->first_edge + at];
		if (edge->to == to && vt_owners_keeps(edge->kind)) {
			x->next[from] = at + 1;
			return n->first_edge + at;
		}
	}
	return VT_GRAPH_NONE;
}

static bool is_wrapper(struct others *x, uint32_t from, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(x->o, from);
	uint32_t edge;

	if (cls && cls->is & (VT_PYHEAP_IS_CUPY_ARRAY | VT_PYHEAP_IS_CUPY_POINTER))
		return true; /* a pointer to this memory, or an array that has this pointer */
	if (!cls || !(cls->is & (VT_PYHEAP_IS_TENSOR | VT_PYHEAP_IS_STORAGE)))
		return false;
	edge = find_edge(x, from, node);
	return edge != VT_GRAPH_NONE && vt_owners_edge(x->o, edge)->kind == VT_EDGE_IMPL;
}

/* What belongs to a node of the group: a tensor's Python object, a storage's tensors. */
static bool join_near(struct others *x, uint32_t node)
{
	const struct vt_graph_node *nodes = x->o->graph.nodes.data;
	const struct vt_retained *r = x->retained;
	const struct vt_pyheap_class *cls = vt_owners_class(x->o, node);
	bool native = nodes[node].kind == VT_NODE_TENSOR || nodes[node].kind == VT_NODE_STORAGE ||
		      (cls && cls->is & VT_PYHEAP_IS_CUPY);

	for (uint32_t i = 0; native && i < nodes[node].n_edges; i++) {
		const struct vt_graph_edge *edge =
			&x->o->graph.edges.data[nodes[node].first_edge + i];

		if ((edge->kind == VT_EDGE_WRAPPER || edge->kind == VT_EDGE_META) &&
		    !join(x, edge->to))
			return false;
	}
	for (uint32_t i = r->in_first[node]; native && i < r->in_first[node + 1]; i++) {
		uint32_t from = r->in_from[i];

		if (from == node || from >= x->o->graph.nodes.n)
			continue;
		if (((nodes[from].kind == VT_NODE_TENSOR && nodes[node].kind == VT_NODE_STORAGE) ||
		     is_wrapper(x, from, node)) &&
		    !join(x, from))
			return false;
	}
	return true;
}

/* Of all storages of a block, which follow each other. */
static bool gather(struct others *x, size_t storage, size_t n)
{
	x->number++;
	x->group.n = 0;
	for (size_t i = 0; i < n; i++) {
		if (!join(x, x->o->storages.data[storage + i].node))
			return false;
	}
	for (size_t i = 0; i < x->group.n; i++) {
		if (!join_near(x, x->group.data[i]))
			return false;
	}
	return true;
}

/* Keeps those with the cheapest ways. */
static void add_holder(struct others *x, const struct holder *holder)
{
	uint32_t at = x->n_best;

	x->n_others++;
	if (x->n_best == MAX_NAMES) {
		if (x->best[--at].distance <= holder->distance)
			return;
	} else {
		x->n_best++;
	}
	while (at && x->best[at - 1].distance > holder->distance) {
		x->best[at] = x->best[at - 1];
		at--;
	}
	x->best[at] = *holder;
}

/* What only the tensor itself leads to does not hold it: a cycle. */
static bool holds(struct others *x, uint32_t from, uint32_t node)
{
	return from != node && from < x->o->graph.nodes.n && from != x->o->root &&
	       !is_in_group(x, from) && x->retained->idom[from] != VT_GRAPH_NONE &&
	       x->retained->idom[node] != VT_GRAPH_NONE &&
	       x->o->reach.data[from].distance != VT_DISTANCE_NONE &&
	       !vt_owners_dominates(x->retained, node, from);
}

static void look_at(struct others *x, uint32_t node)
{
	const struct vt_retained *r = x->retained;

	for (uint32_t i = r->in_first[node]; i < r->in_first[node + 1]; i++) {
		uint32_t from = r->in_from[i], edge;

		if (!holds(x, from, node))
			continue;
		edge = find_edge(x, from, node);
		if (edge != VT_GRAPH_NONE && edge != x->named)
			add_holder(x,
				   &(struct holder){ from, edge, x->o->reach.data[from].distance });
	}
}

static uint32_t named_edge(const struct others *x, uint32_t best)
{
	const struct vt_reach *reach = x->o->reach.data;

	while (reach[best].parent != VT_GRAPH_NONE && is_in_group(x, reach[best].parent))
		best = reach[best].parent;
	return reach[best].edge;
}

static bool name_holders(struct others *x, struct vt_model_owner *owner)
{
	const char **names;

	if (!x->n_best || x->looked >= MAX_LOOKED)
		return true; /* none, or not all is known */
	names = vt_arena_alloc(x->arena, x->n_best * sizeof(*names));
	if (!names)
		return false;
	for (uint32_t i = 0; i < x->n_best; i++) {
		names[i] = vt_owners_edge_name(x->o, x->best[i].from,
					       vt_owners_edge(x->o, x->best[i].edge), x->arena);
		if (!names[i])
			return false;
	}
	owner->holders = names;
	owner->n_holders = x->n_best;
	owner->other_holders = x->n_others;
	return true;
}

/* ---- what would be freed ---- */

enum passage {
	PASS,
	GO,   /* the program can let go of it: del, or an assignment */
	STAY, /* what was passed so far, it cannot: nobody gets at it any more */
};

static const enum passage passages[VT_N_EDGE_KINDS] = {
	[VT_EDGE_ITEM] = GO,        [VT_EDGE_VALUE] = GO,     [VT_EDGE_KEY] = GO,
	[VT_EDGE_ELEMENT] = GO,     [VT_EDGE_INLINE] = GO,    [VT_EDGE_MEMBER] = GO,
	[VT_EDGE_LOCAL] = GO,       [VT_EDGE_GRAD] = GO,      [VT_EDGE_LAST] = GO,
	[VT_EDGE_CLOSURE] = STAY,   [VT_EDGE_FREE] = STAY,    [VT_EDGE_FRAME] = STAY,
	[VT_EDGE_SUSPENDED] = STAY, [VT_EDGE_BACK] = STAY,    [VT_EDGE_TRACEBACK] = STAY,
	[VT_EDGE_CAUSE] = STAY,     [VT_EDGE_TB_NEXT] = STAY, [VT_EDGE_TB_FRAME] = STAY,
	[VT_EDGE_UNSEEN] = STAY,    [VT_EDGE_GARBAGE] = STAY,
};

static enum passage passage_of(const struct vt_owners *o, uint32_t from,
			       const struct vt_graph_edge *edge)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, from);

	if (edge->kind == VT_EDGE_ITEM && cls && cls->shape == VT_PYHEAP_TUPLE)
		return PASS; /* it never changes */
	return passages[edge->kind];
}

/* The last on the way to a block that the program can let go of; VT_GRAPH_NONE: nothing. */
static uint32_t last_to_go(const struct others *x, uint32_t best)
{
	const struct vt_reach *reach = x->o->reach.data;
	uint32_t found = VT_GRAPH_NONE;

	for (uint32_t node = best; reach[node].parent != VT_GRAPH_NONE; node = reach[node].parent) {
		const struct vt_graph_edge *edge = vt_owners_edge(x->o, reach[node].edge);
		enum passage passage = passage_of(x->o, reach[node].parent, edge);

		if (passage == STAY)
			found = VT_GRAPH_NONE;
		else if (passage == GO && found == VT_GRAPH_NONE)
			/* sys.last_value and its like go together */
			found = edge->kind == VT_EDGE_LAST ? (uint32_t)x->o->graph.nodes.n : node;
	}
	return found;
}

/* Another reference to a node than the one it is named by; NULL: none. */
static const char *other_holder(struct others *x, uint32_t node)
{
	x->n_best = x->n_others = 0;
	x->named = x->o->reach.data[node].edge;
	look_at(x, node);
	return x->n_best ? vt_owners_edge_name(x->o, x->best[0].from,
					       vt_owners_edge(x->o, x->best[0].edge), x->arena) :
			   NULL;
}

static const char *name_of(struct others *x, uint32_t node, struct vt_model_owner *owner)
{
	struct vt_owner_name name;

	if (node == x->o->graph.nodes.n)
		return "sys.last_value";
	if (is_in_group(x, node)) {
		owner->freed_else = owner->n_holders ? owner->holders[0] : NULL;
		return owner->name;
	}
	if (!x->freed.name || x->freed.node != node) {
		x->freed.node = node;
		x->freed.name = vt_owners_name(x->o, node, x->arena, &name) ? name.name : NULL;
		x->freed.other = other_holder(x, node);
	}
	owner->freed_else = x->freed.other;
	return x->freed.name;
}

/* Whether all storages of the block go with a node, if the reference that names it goes. */
static bool goes(struct others *x, uint32_t node, size_t storage, size_t n)
{
	if (x->retained->idom[node] == VT_GRAPH_NONE ||
	    (node < x->o->graph.nodes.n && !vt_owners_has_one_holder(x->retained, node)))
		return false;
	for (size_t i = 0; i < n; i++) {
		uint32_t of = x->o->storages.data[storage + i].node;

		if (x->retained->idom[of] == VT_GRAPH_NONE ||
		    !vt_owners_dominates(x->retained, node, of))
			return false;
	}
	return true;
}

static bool tell_freed(struct others *x, size_t storage, size_t n, struct vt_model_owner *owner)
{
	uint32_t node = last_to_go(x, x->o->storages.data[storage].best);
	bool all;

	if (node == VT_GRAPH_NONE) {
		owner->freed = "";
		return true;
	}
	all = goes(x, node, storage, n);
	owner->freed = name_of(x, node, owner);
	if (all) {
		owner->freed_bytes = x->retained->bytes[node];
		owner->freed_blocks = x->retained->blocks[node];
	}
	return owner->freed;
}

static bool tell(struct others *x, size_t storage, size_t n, struct vt_model_owner *owner)
{
	x->n_best = x->n_others = 0;
	if (x->o->reach.data[x->o->storages.data[storage].best].distance == VT_DISTANCE_NONE)
		return true;
	if (!gather(x, storage, n))
		return false;
	x->named = named_edge(x, x->o->storages.data[storage].best);
	for (size_t i = 0; i < x->group.n; i++) {
		if (x->o->graph.nodes.data[x->group.data[i]].kind != VT_NODE_META)
			look_at(x, x->group.data[i]);
	}
	return name_holders(x, owner) && tell_freed(x, storage, n, owner);
}

bool vt_owners_others(struct vt_owners *o, const struct vt_owners_input *input,
		      const struct vt_retained *retained, struct vt_arena *arena,
		      struct vt_model_owners *owners)
{
	struct others x = {
		.o = o,
		.retained = retained,
		.arena = arena,
		.group_of = calloc(o->graph.nodes.n + 1, sizeof(*x.group_of)),
		.next = calloc(o->graph.nodes.n + 1, sizeof(*x.next)),
	};
	bool ok = x.group_of && x.next;
	size_t n;

	for (size_t i = 0, item = 0; ok && i < o->storages.n; i += n) {
		const struct vt_owners_block *block = &input->blocks[o->storages.data[i].block];
		struct vt_model_owner *owner = block->is_foreign ?
						       &owners->arrays.data[block->index].owner :
						       &owners->items.data[item++];

		for (n = 1; i + n < o->storages.n && o->storages.data[i + n].shares; n++)
			;
		if (x.looked < MAX_LOOKED)
			ok = tell(&x, i, n, owner);
	}
	free(x.group_of);
	free(x.next);
	vt_vec_deinit(&x.group);
	return ok;
}
