/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest path from the roots to each node (Dijkstra). Costs are small integers, so nodes wait
 * in buckets by distance instead of in a heap: a ring of buckets that is longer than the dearest
 * edge.
 *
 * Costs make names short and telling: a path through a model's parts is cheaper than one through an
 * optimizer's list of parameters, a variable is cheaper than a closure, and what only an exception
 * or garbage holds comes last.
 */
#include "owners/internal.h"

#include <stdlib.h>

static const uint32_t costs[VT_N_EDGE_KINDS] = {
	[VT_EDGE_ITEM] = 10,
	[VT_EDGE_VALUE] = 10,
	[VT_EDGE_KEY] = 30,
	[VT_EDGE_ELEMENT] = 10,
	[VT_EDGE_DICT] = 0,
	[VT_EDGE_INLINE] = 10,
	[VT_EDGE_MEMBER] = 10,
	[VT_EDGE_CELL] = 0,
	[VT_EDGE_CLOSURE] = 20,
	[VT_EDGE_FREE] = 15, /* from the function to its cell: less than by way of the tuple */
	[VT_EDGE_DEFAULTS] = 20,
	[VT_EDGE_GLOBALS] = 400,
	[VT_EDGE_CODE] = 90,
	[VT_EDGE_SELF] = 5,
	[VT_EDGE_FUNCTION] = 30,
	[VT_EDGE_TYPE] = 90,
	[VT_EDGE_BASES] = 90,
	[VT_EDGE_FRAME] = 10,
	[VT_EDGE_SUSPENDED] = 10,
	[VT_EDGE_LOCAL] = 10,
	[VT_EDGE_STACK] = 30,
	[VT_EDGE_STACK_OLD] = 300,
	[VT_EDGE_BACK] = VT_COST_EXCEPTION,
	[VT_EDGE_TRACEBACK] = VT_COST_EXCEPTION,
	[VT_EDGE_CAUSE] = VT_COST_EXCEPTION,
	[VT_EDGE_TB_NEXT] = 10,
	[VT_EDGE_TB_FRAME] = VT_COST_EXCEPTION,
	[VT_EDGE_ARGS] = 10,
	[VT_EDGE_CALLBACK] = 30,
	[VT_EDGE_BODY] = 20,
	[VT_EDGE_BODY_CHUNK] = 40,
	[VT_EDGE_IMPL] = 0,
	[VT_EDGE_IMPL_BORROWED] = 0,
	[VT_EDGE_WRAPPER] = 5,
	[VT_EDGE_STORAGE] = 0,
	[VT_EDGE_META] = 0,
	[VT_EDGE_GRAD] = 5,
	[VT_EDGE_GRAD_FN] = 10,
	[VT_EDGE_ACCUMULATOR] = 90,
	[VT_EDGE_HOOKS] = 20,
	[VT_EDGE_VIEW_BASE] = 5,
	[VT_EDGE_NEXT] = 10,
	[VT_EDGE_SAVED] = 10,
	[VT_EDGE_VARIABLE] = 10,
	[VT_EDGE_PY_NODE] = 10,
	[VT_EDGE_DATA] = 10,
	[VT_EDGE_MAIN] = 0,
	[VT_EDGE_MODULE] = 60,
	[VT_EDGE_SYS] = 50,
	[VT_EDGE_LAST] = 10,
	[VT_EDGE_THREAD] = 10,
	[VT_EDGE_THREAD_STATE] = 600,
	[VT_EDGE_INTERPRETER] = 300,
	[VT_EDGE_UNSEEN] = VT_COST_UNSEEN,
	[VT_EDGE_GARBAGE] = VT_COST_GARBAGE,
};

#define RING (1U << 20) /* more than the dearest edge */
_Static_assert(RING > (unsigned int)VT_COST_GARBAGE, "the ring is longer than the dearest edge");

/*
 * A variable of a loop over the parameters is no name for one, if its module has one, nor for what
 * an optimizer has of it.
 */
#define COST_LOOSE 40

static uint32_t variable_cost(const struct vt_owners *o, const struct vt_graph_edge *edge)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, edge->to);

	bool loose = (cls && cls->is & VT_PYHEAP_IS_PARAMETER) ||
		     o->graph.nodes.data[edge->to].role == VT_ROLE_STATE_OF;

	return costs[edge->kind] + (loose ? COST_LOOSE : 0);
}

/* The parts of a module are its shortest names, and an optimizer's state is its own. */
uint32_t vt_owners_edge_cost(const struct vt_owners *o, uint32_t from,
			     const struct vt_graph_edge *edge)
{
	switch ((enum vt_role)o->graph.nodes.data[from].role) {
	case VT_ROLE_MODULES:
	case VT_ROLE_PARAMETERS:
	case VT_ROLE_BUFFERS:
	case VT_ROLE_STATE:
	case VT_ROLE_STATE_OF:
		return edge->kind == VT_EDGE_VALUE ? 1 : costs[edge->kind];
	case VT_ROLE_GLOBALS:
		return variable_cost(o, edge);
	case VT_ROLE_MODULE:
	case VT_ROLE_MODULE_ATTRIBUTES:
		break;
	default:
		return edge->kind == VT_EDGE_LOCAL ? variable_cost(o, edge) : costs[edge->kind];
	}
	switch ((enum vt_role)o->graph.nodes.data[edge->to].role) {
	case VT_ROLE_MODULES:
	case VT_ROLE_PARAMETERS:
	case VT_ROLE_BUFFERS:
		return 0;
	default:
		return costs[edge->kind];
	}
}

/* A node that waits in a bucket. It may wait in several: the cheapest one counts. */
struct waiting {
	uint32_t node, distance, next; /* next: index in waiting + 1 */
};

struct vt_search {
	struct vt_owners *o;
	uint32_t *ring; /* index in waiting + 1 of the first in each bucket, 0 none */
	VT_VEC(struct waiting) waiting;
	uint32_t free; /* index + 1 of the first unused one in waiting */
	size_t n;      /* how many wait */
	bool failed;
};

static void put(struct vt_search *s, uint32_t node, uint32_t distance)
{
	struct waiting *w;
	uint32_t at = s->free;

	if (at) {
		w = &s->waiting.data[at - 1];
		s->free = w->next;
	} else if ((w = vt_vec_append(&s->waiting))) {
		at = (uint32_t)s->waiting.n;
	} else {
		s->failed = true;
		return;
	}
	*w = (struct waiting){ node, distance, s->ring[distance % RING] };
	s->ring[distance % RING] = at;
	s->n++;
}

static void follow(struct vt_search *s, uint32_t from, uint32_t index, uint32_t base)
{
	const struct vt_graph_edge *edge = vt_owners_edge(s->o, index);
	struct vt_reach *to = &s->o->reach.data[edge->to];
	uint32_t distance = base + vt_owners_edge_cost(s->o, from, edge);

	if (distance >= to->distance)
		return;
	*to = (struct vt_reach){ distance, from, index };
	put(s, edge->to, distance);
}

static void settle(struct vt_search *s, const struct waiting *w)
{
	const struct vt_graph_node *n = &s->o->graph.nodes.data[w->node];

	if (s->o->reach.data[w->node].distance != w->distance)
		return; /* a cheaper way was found since */
	for (uint32_t i = 0; i < n->n_edges; i++)
		follow(s, w->node, n->first_edge + i, w->distance);
}

static void run(struct vt_search *s, uint32_t distance)
{
	while (s->n && !s->failed) {
		uint32_t *bucket = &s->ring[distance % RING];

		while (*bucket && !s->failed) {
			uint32_t at = *bucket;
			struct waiting w = s->waiting.data[at - 1];

			*bucket = w.next;
			s->waiting.data[at - 1].next = s->free;
			s->free = at;
			s->n--;
			settle(s, &w);
		}
		distance++;
	}
}

bool vt_owners_search_begin(struct vt_owners *o)
{
	if (!vt_vec_reserve(&o->reach, o->graph.nodes.n))
		return false;
	o->reach.n = o->graph.nodes.n;
	for (size_t i = 0; i < o->reach.n; i++)
		o->reach.data[i] =
			(struct vt_reach){ VT_DISTANCE_NONE, VT_GRAPH_NONE, VT_GRAPH_NONE };
	o->reach.data[o->root].distance = 0;
	return true;
}

bool vt_owners_search(struct vt_owners *o, const uint32_t *edges, size_t n)
{
	struct vt_search s = { .o = o, .ring = calloc(RING, sizeof(*s.ring)) };
	uint32_t first = UINT32_MAX;

	if (!s.ring)
		return false;
	for (size_t i = 0; i < n; i++) {
		follow(&s, o->root, edges[i], 0);
		if (costs[vt_owners_edge(o, edges[i])->kind] < first)
			first = costs[vt_owners_edge(o, edges[i])->kind];
	}
	run(&s, first == UINT32_MAX ? 0 : first);
	vt_vec_deinit(&s.waiting);
	free(s.ring);
	return !s.failed;
}
