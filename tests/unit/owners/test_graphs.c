/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is thought about a graph, on random graphs: cheapest paths against Bellman and Ford's
 * algorithm, what would be freed against what is reached when a node is taken away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "owners/internal.h"

enum {
	GRAPHS = 400,
	MAX_NODES = 40,
	ADDRESS = 0x1000,
	BLOCK = 512,
};

struct random_graph {
	struct vt_owners o;
	struct vt_owners_block blocks[MAX_NODES];
	struct vt_owners_input input;
};

static const enum vt_edge_kind kinds[] = {
	VT_EDGE_ITEM,      VT_EDGE_VALUE, VT_EDGE_GLOBALS,   VT_EDGE_STORAGE,
	VT_EDGE_TRACEBACK, VT_EDGE_NEXT,  VT_EDGE_STACK_OLD, VT_EDGE_IMPL_BORROWED,
};

static uint64_t address(uint32_t i)
{
	return ADDRESS + 16 * (uint64_t)i;
}

static void add_storage(struct random_graph *g, uint32_t node)
{
	struct vt_owned_storage *storage = vt_vec_append(&g->o.storages);

	assert_non_null(storage);
	*storage = (struct vt_owned_storage){
		.node = node,
		.block = (uint32_t)g->input.n_blocks,
		.certain = true,
	};
	g->blocks[g->input.n_blocks++] = (struct vt_owners_block){ address(node), BLOCK, 0 };
}

/* Node 0 is the root; each node has a few edges to any others, some of them have a block. */
static void make(struct random_graph *g, unsigned int seed)
{
	struct vt_graph *graph = &g->o.graph;
	uint32_t n;

	srandom(seed);
	n = 2 + (uint32_t)random() % (MAX_NODES - 2);
	memset(g, 0, sizeof(*g));
	g->input.blocks = g->blocks;
	assert_true(vt_graph_init(graph, MAX_NODES * 2, MAX_NODES * 16));
	for (uint32_t i = 0; i < n; i++)
		vt_graph_node(graph, address(i), VT_NODE_NATIVE);
	for (uint32_t i = 0; i < n; i++) {
		vt_graph_explore(graph, i);
		for (long e = random() % 4; e >= 0; e--)
			vt_graph_edge(graph,
				      kinds[(size_t)random() % (sizeof(kinds) / sizeof(kinds[0]))],
				      0, address((uint32_t)random() % n), VT_NODE_NATIVE);
	}
	for (uint32_t i = 1; i < n; i++)
		if (random() % 3 == 0)
			add_storage(g, i);
}

static void search(struct random_graph *g)
{
	const struct vt_graph_node *root = &g->o.graph.nodes.data[0];
	uint32_t edges[16];

	assert_true(root->n_edges <= 16);
	for (uint32_t i = 0; i < root->n_edges; i++)
		edges[i] = root->first_edge + i;
	assert_true(vt_owners_search_begin(&g->o));
	assert_true(vt_owners_search(&g->o, edges, root->n_edges));
}

static uint32_t cost_between(struct random_graph *g, uint32_t edge)
{
	struct vt_owners alone = g->o;
	struct vt_reach reach[MAX_NODES];

	/* One edge alone: its cost is the distance that it makes. */
	alone.reach.data = reach;
	for (size_t i = 0; i < g->o.graph.nodes.n; i++)
		reach[i] = (struct vt_reach){ VT_DISTANCE_NONE, VT_GRAPH_NONE, VT_GRAPH_NONE };
	return vt_owners_edge_cost(&alone, 0, vt_owners_edge(&alone, edge));
}

static void paths_are_the_cheapest(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= GRAPHS; seed++) {
		struct random_graph g;
		uint64_t distance[MAX_NODES];
		const struct vt_graph *graph = &g.o.graph;

		make(&g, seed);
		search(&g);
		for (size_t i = 0; i < MAX_NODES; i++)
			distance[i] = i ? UINT64_MAX : 0;
		for (size_t round = 0; round < graph->nodes.n; round++) {
			for (size_t i = 0; i < graph->nodes.n; i++) {
				const struct vt_graph_node *n = &graph->nodes.data[i];

				for (uint32_t e = n->first_edge;
				     distance[i] != UINT64_MAX && e < n->first_edge + n->n_edges;
				     e++) {
					uint64_t to = distance[i] + cost_between(&g, e);

					if (to < distance[graph->edges.data[e].to])
						distance[graph->edges.data[e].to] = to;
				}
			}
		}
		for (size_t i = 0; i < graph->nodes.n; i++)
			assert_int_equal(g.o.reach.data[i].distance, distance[i] == UINT64_MAX ?
									     VT_DISTANCE_NONE :
									     distance[i]);
		vt_owners_deinit(&g.o);
	}
}

/* What is reached from the root without passing through one node (0: all). */
static void reach_without(const struct random_graph *g, uint32_t without, bool reached[MAX_NODES])
{
	const struct vt_graph *graph = &g->o.graph;
	bool changed = true;

	memset(reached, 0, MAX_NODES * sizeof(reached[0]));
	reached[0] = true;
	while (changed) {
		changed = false;
		for (size_t i = 0; i < graph->nodes.n; i++) {
			const struct vt_graph_node *n = &graph->nodes.data[i];

			for (uint32_t e = 0; reached[i] && e < n->n_edges; e++) {
				const struct vt_graph_edge *edge =
					&graph->edges.data[n->first_edge + e];

				if (vt_owners_keeps(edge->kind) && !reached[edge->to] &&
				    (edge->to != without || !without)) {
					reached[edge->to] = true;
					changed = true;
				}
			}
		}
	}
}

static void what_a_node_retains_is_what_only_it_reaches(void **state)
{
	(void)state;
	for (unsigned int seed = 1; seed <= GRAPHS; seed++) {
		struct random_graph g;
		struct vt_retained retained;
		bool all[MAX_NODES], without[MAX_NODES];

		make(&g, seed);
		search(&g);
		assert_true(vt_owners_retained(&g.o, &g.input, &retained));
		reach_without(&g, 0, all);
		for (uint32_t node = 1; node < g.o.graph.nodes.n; node++) {
			uint64_t bytes = 0;

			reach_without(&g, node, without);
			for (size_t s = 0; s < g.o.storages.n; s++) {
				uint32_t at = g.o.storages.data[s].node;

				if (all[at] && !without[at])
					bytes += BLOCK;
			}
			if (all[node])
				assert_int_equal(retained.bytes[node], bytes);
		}
		vt_owners_retained_deinit(&retained);
		vt_owners_deinit(&g.o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_the_cheapest),
		cmocka_unit_test(what_a_node_retains_is_what_only_it_reaches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
