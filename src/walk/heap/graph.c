/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/heap/graph.h"

#include <string.h>

#define FIRST_INDEX ((size_t)1 << 12)

_Static_assert(VT_N_EDGE_KINDS <= 1 << 6, "vt_graph_edge.kind has 6 bits");
_Static_assert(sizeof(struct vt_graph_node) == 32 && sizeof(struct vt_graph_edge) == 8,
	       "vt_graph_init() promises it");

/*
 * What the target's own count does not know: weak and borrowed references, guesses, and roots that
 * are only a shorter way to what a dict or a tuple holds anyway.
 */
static const bool uncounted[VT_N_EDGE_KINDS] = {
	[VT_EDGE_STACK_OLD] = true,   [VT_EDGE_BODY_CHUNK] = true, [VT_EDGE_IMPL_BORROWED] = true,
	[VT_EDGE_ACCUMULATOR] = true, [VT_EDGE_MAIN] = true,       [VT_EDGE_MODULE] = true,
	[VT_EDGE_SYS] = true,         [VT_EDGE_FREE] = true,       [VT_EDGE_UNSEEN] = true,
	[VT_EDGE_GARBAGE] = true,
};

bool vt_edge_is_counted(enum vt_edge_kind kind)
{
	return !uncounted[kind];
}

/* Objects are aligned to 16 bytes; the product's high bits are the well mixed ones. */
static size_t home(uint64_t addr, size_t mask)
{
	return (size_t)((addr >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 24) & mask;
}

/* Where in the index the node of this address is, or where it would go. */
static uint32_t *find(const struct vt_graph *graph, uint64_t addr)
{
	size_t i = home(addr, graph->mask);

	while (graph->index[i] && graph->nodes.data[graph->index[i] - 1].addr != addr)
		i = (i + 1) & graph->mask;
	return &graph->index[i];
}

bool vt_graph_init(struct vt_graph *graph, size_t max_nodes, size_t max_edges)
{
	*graph = (struct vt_graph){
		.index = calloc(FIRST_INDEX, sizeof(uint32_t)),
		.mask = FIRST_INDEX - 1,
		/* Ids and first_edge are 32 bits, and the last value of ids means none. */
		.max_nodes = max_nodes < VT_GRAPH_NONE - 1 ? max_nodes : VT_GRAPH_NONE - 1,
		.max_edges = max_edges < UINT32_MAX ? max_edges : UINT32_MAX,
		.exploring = VT_GRAPH_NONE,
	};
	return graph->index != NULL;
}

void vt_graph_deinit(struct vt_graph *graph)
{
	vt_vec_deinit(&graph->nodes);
	vt_vec_deinit(&graph->edges);
	free(graph->index);
	*graph = (struct vt_graph){ 0 };
}

void vt_graph_clear(struct vt_graph *graph)
{
	graph->nodes.n = 0;
	graph->edges.n = 0;
	memset(graph->index, 0, (graph->mask + 1) * sizeof(*graph->index));
	graph->exploring = VT_GRAPH_NONE;
	graph->n_waiting = 0;
	graph->full = false;
}

static bool grow_index(struct vt_graph *graph)
{
	size_t size = (graph->mask + 1) * 2;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return false;
	free(graph->index);
	graph->index = index;
	graph->mask = size - 1;
	for (size_t i = 0; i < graph->nodes.n; i++) {
		size_t at = home(graph->nodes.data[i].addr, graph->mask);

		while (index[at]) /* no two nodes have the same address */
			at = (at + 1) & graph->mask;
		index[at] = (uint32_t)i + 1;
	}
	return true;
}

static uint32_t intern(struct vt_graph *graph, uint64_t addr, enum vt_node_kind kind)
{
	uint32_t *slot = find(graph, addr);
	struct vt_graph_node *node;

	if (*slot)
		return *slot - 1;
	if (graph->nodes.n >= graph->max_nodes) {
		graph->full = true;
		return VT_GRAPH_NONE;
	}
	if (graph->nodes.n >= (graph->mask + 1) / 2) {
		if (!grow_index(graph)) {
			graph->full = true;
			return VT_GRAPH_NONE;
		}
		slot = find(graph, addr);
	}
	node = vt_vec_append(&graph->nodes);
	if (!node) {
		graph->full = true;
		return VT_GRAPH_NONE;
	}
	*node = (struct vt_graph_node){ .addr = addr, .kind = (uint8_t)kind };
	*slot = (uint32_t)graph->nodes.n;
	return *slot - 1;
}

static void add_edge(struct vt_graph *graph, const struct vt_graph_waiting *new)
{
	uint32_t id = intern(graph, new->to, (enum vt_node_kind) new->to_kind);
	struct vt_graph_node *from = &graph->nodes.data[new->from];
	struct vt_graph_edge *edge = NULL;

	if (id != VT_GRAPH_NONE && graph->edges.n < graph->max_edges)
		edge = vt_vec_append(&graph->edges);
	if (!edge) {
		from->flags |= VT_NODE_CUT;
		graph->full = true;
		return;
	}
	*edge = (struct vt_graph_edge){
		.to = id,
		.kind = new->kind & 63,
		.number = new->number &VT_EDGE_NUMBER_MAX,
	};
	if (from->n_edges++ == 0)
		from->first_edge = (uint32_t)graph->edges.n - 1;
	if (!uncounted[new->kind] && graph->nodes.data[id].found != UINT32_MAX)
		graph->nodes.data[id].found++;
}

static void add_oldest(struct vt_graph *graph)
{
	struct vt_graph_waiting *oldest = &graph->waiting[graph->first_waiting];

	graph->first_waiting = (graph->first_waiting + 1) % VT_GRAPH_WAITING;
	graph->n_waiting--;
	add_edge(graph, oldest);
}

void vt_graph_flush(struct vt_graph *graph)
{
	while (graph->n_waiting)
		add_oldest(graph);
}

/* Its place in the index first, and when it has waited for half of the time, its node. */
static void wait_for(struct vt_graph *graph, const struct vt_graph_waiting *new)
{
	uint32_t at = graph->first_waiting + graph->n_waiting;
	const struct vt_graph_waiting *half =
		&graph->waiting[(at - VT_GRAPH_WAITING / 2) % VT_GRAPH_WAITING];

	graph->waiting[at % VT_GRAPH_WAITING] = *new;
	__builtin_prefetch(&graph->index[home(new->to, graph->mask)]);
	if (++graph->n_waiting > VT_GRAPH_WAITING / 2) {
		uint32_t node = graph->index[home(half->to, graph->mask)];

		if (node)
			__builtin_prefetch(&graph->nodes.data[node - 1]);
	}
	if (graph->n_waiting == VT_GRAPH_WAITING)
		add_oldest(graph);
}

uint32_t vt_graph_node(struct vt_graph *graph, uint64_t addr, enum vt_node_kind kind)
{
	vt_graph_flush(graph);
	return intern(graph, addr, kind);
}

uint32_t vt_graph_find(const struct vt_graph *graph, uint64_t addr)
{
	uint32_t at = *find(graph, addr);

	return at ? at - 1 : VT_GRAPH_NONE;
}

void vt_graph_explore(struct vt_graph *graph, uint32_t node)
{
	struct vt_graph_node *from = &graph->nodes.data[node];

	from->flags |= VT_NODE_EXPLORED;
	from->first_edge = (uint32_t)graph->edges.n;
	from->n_edges = 0;
	graph->exploring = node;
}

void vt_graph_edge(struct vt_graph *graph, enum vt_edge_kind kind, uint64_t number, uint64_t to,
		   enum vt_node_kind to_kind)
{
	struct vt_graph_waiting new = {
		.to = to,
		.from = graph->exploring,
		.number = number < VT_EDGE_NUMBER_MAX ? (uint32_t)number : VT_EDGE_NUMBER_MAX,
		.kind = (uint8_t)kind,
		.to_kind = (uint8_t)to_kind,
	};

	if (graph->lazy)
		wait_for(graph, &new);
	else
		add_edge(graph, &new);
}

static void discount(struct vt_graph *graph, const struct vt_graph_node *from)
{
	for (uint32_t i = 0; i < from->n_edges; i++) {
		const struct vt_graph_edge *edge = &graph->edges.data[from->first_edge + i];
		struct vt_graph_node *to = &graph->nodes.data[edge->to];

		if (!uncounted[edge->kind] && to->found && to->found != UINT32_MAX)
			to->found--;
	}
}

void vt_graph_discount_later(struct vt_graph *graph)
{
	vt_graph_flush(graph);
	for (size_t i = 0; i < graph->nodes.n; i++) {
		if (graph->nodes.data[i].flags & VT_NODE_LATER)
			discount(graph, &graph->nodes.data[i]);
	}
}
