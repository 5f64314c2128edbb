/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "walk/heap/graph.h"

static struct vt_graph graph;

static int setup(void **state)
{
	(void)state;
	return vt_graph_init(&graph, 1 << 20, 1 << 21) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	vt_graph_deinit(&graph);
	return 0;
}

static uint32_t node(uint64_t addr)
{
	return vt_graph_node(&graph, addr, VT_NODE_PYTHON);
}

static void an_address_is_one_node_of_the_first_kind(void **state)
{
	uint32_t id = vt_graph_node(&graph, 0x7f0000001000, VT_NODE_TENSOR);

	(void)state;
	assert_int_equal(vt_graph_node(&graph, 0x7f0000001000, VT_NODE_PYTHON), id);
	assert_int_equal(graph.nodes.n, 1);
	assert_int_equal(graph.nodes.data[id].kind, VT_NODE_TENSOR);
	assert_int_equal(vt_graph_find(&graph, 0x7f0000001000), id);
	assert_int_equal(vt_graph_find(&graph, 0x7f0000001010), VT_GRAPH_NONE);
	assert_int_equal(vt_graph_find(&graph, 0), VT_GRAPH_NONE);
}

static void addresses_with_the_same_hash_are_different_nodes(void **state)
{
	uint32_t ids[16];

	(void)state;
	/* Only the low four bits differ, which the hash leaves out: they all begin at one place. */
	for (uint64_t i = 0; i < 16; i++)
		ids[i] = node(0x7f0000001000 + i);
	assert_int_equal(graph.nodes.n, 16);
	for (uint64_t i = 0; i < 16; i++) {
		assert_int_equal(vt_graph_find(&graph, 0x7f0000001000 + i), ids[i]);
		assert_int_equal(graph.nodes.data[ids[i]].addr, 0x7f0000001000 + i);
	}
	assert_int_equal(vt_graph_find(&graph, 0x7f0000001010), VT_GRAPH_NONE);
}

/* Addresses as hostile as they are usual: neighbours, pages, and powers of two apart. */
static uint64_t some_address(uint64_t i)
{
	static const int shifts[] = { 4, 12, 26 };

	return UINT64_C(0x550000000000) * (i % 3) + (i << shifts[i % 3]);
}

static void many_nodes_keep_their_ids_while_the_index_grows(void **state)
{
	enum { MANY = 300000 };

	(void)state;
	for (uint64_t i = 1; i <= MANY; i++)
		assert_int_equal(node(some_address(i)), i - 1);
	for (uint64_t i = 1; i <= MANY; i++)
		assert_int_equal(vt_graph_find(&graph, some_address(i)), i - 1);
	assert_false(graph.full);
	vt_graph_clear(&graph);
	assert_int_equal(vt_graph_find(&graph, some_address(1)), VT_GRAPH_NONE);
	assert_int_equal(node(some_address(7)), 0);
}

static void edges_of_a_node_are_together_and_count(void **state)
{
	uint32_t a = node(0x1000), b = node(0x2000), c;

	(void)state;
	vt_graph_explore(&graph, b);
	vt_graph_edge(&graph, VT_EDGE_ITEM, 5, 0x1000, VT_NODE_PYTHON);
	vt_graph_edge(&graph, VT_EDGE_STACK_OLD, 1, 0x1000, VT_NODE_PYTHON);
	vt_graph_edge(&graph, VT_EDGE_VALUE, UINT64_MAX, 0x3000, VT_NODE_TENSOR);
	c = vt_graph_find(&graph, 0x3000);
	vt_graph_explore(&graph, a);
	vt_graph_explore(&graph, c);
	vt_graph_edge(&graph, VT_EDGE_WRAPPER, 0, 0x1000, VT_NODE_PYTHON);

	assert_int_equal(graph.nodes.data[a].found, 2); /* what is left over does not count */
	assert_int_equal(graph.nodes.data[a].n_edges, 0);
	assert_true(graph.nodes.data[a].flags & VT_NODE_EXPLORED);
	assert_int_equal(graph.nodes.data[b].first_edge, 0);
	assert_int_equal(graph.nodes.data[b].n_edges, 3);
	assert_int_equal(graph.nodes.data[c].kind, VT_NODE_TENSOR);
	assert_int_equal(graph.nodes.data[c].first_edge, 3);
	assert_int_equal(graph.edges.data[0].to, a);
	assert_int_equal(graph.edges.data[0].kind, VT_EDGE_ITEM);
	assert_int_equal(graph.edges.data[0].number, 5);
	assert_int_equal(graph.edges.data[2].number, VT_EDGE_NUMBER_MAX);
	assert_int_equal(graph.edges.data[3].to, a);
}

static void weak_and_borrowed_references_do_not_count(void **state)
{
	static const enum vt_edge_kind no[] = { VT_EDGE_STACK_OLD, VT_EDGE_BODY_CHUNK,
						VT_EDGE_IMPL_BORROWED, VT_EDGE_ACCUMULATOR,
						VT_EDGE_GARBAGE };
	static const enum vt_edge_kind yes[] = { VT_EDGE_ITEM, VT_EDGE_BODY, VT_EDGE_IMPL,
						 VT_EDGE_STORAGE, VT_EDGE_SAVED };

	(void)state;
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		assert_false(vt_edge_is_counted(no[i]));
		assert_true(vt_edge_is_counted(yes[i]));
	}
}

static void bounds_cut_the_graph_and_say_so(void **state)
{
	struct vt_graph small;
	uint32_t a;

	(void)state;
	assert_true(vt_graph_init(&small, 4, 5));
	a = vt_graph_node(&small, 0x1000, VT_NODE_PYTHON);
	vt_graph_explore(&small, a);
	for (uint64_t i = 2; i <= 4; i++)
		vt_graph_edge(&small, VT_EDGE_ITEM, i, i << 12, VT_NODE_PYTHON);
	assert_false(small.full);
	vt_graph_edge(&small, VT_EDGE_ITEM, 5, 0x5000, VT_NODE_PYTHON);
	assert_true(small.full);
	assert_int_equal(small.nodes.n, 4);
	assert_int_equal(small.nodes.data[a].n_edges, 3);
	assert_true(small.nodes.data[a].flags & VT_NODE_CUT);
	/* The nodes that are there can still be found and referred to, until there are no edges. */
	assert_int_equal(vt_graph_node(&small, 0x2000, VT_NODE_PYTHON), 1);
	assert_int_equal(vt_graph_node(&small, 0x6000, VT_NODE_PYTHON), VT_GRAPH_NONE);
	for (int i = 0; i < 5; i++)
		vt_graph_edge(&small, VT_EDGE_ITEM, 5, 0x2000, VT_NODE_PYTHON);
	assert_int_equal(small.edges.n, 5);
	assert_int_equal(small.nodes.data[1].found, 3);
	vt_graph_clear(&small);
	assert_false(small.full);
	vt_graph_deinit(&small);
}

/* Edges of 5000 nodes to some 4000 addresses, in the order in which they were found. */
static void fill(struct vt_graph *g)
{
	uint64_t random = 88172645463325252;

	vt_graph_node(g, some_address(1), VT_NODE_ROOT);
	for (size_t i = 0; i < 5000 && vt_graph_has(g, i); i++) {
		vt_graph_explore(g, (uint32_t)i);
		for (uint64_t e = 0; e < i % 7; e++) {
			random = random * 6364136223846793005 + 1442695040888963407;
			vt_graph_edge(g, e % 2 ? VT_EDGE_VALUE : VT_EDGE_BODY_CHUNK, e,
				      some_address(random >> 40 & 4095),
				      e % 3 ? VT_NODE_PYTHON : VT_NODE_TENSOR);
		}
		if (i < 4)
			vt_graph_edge(g, VT_EDGE_ITEM, 0, some_address(i), VT_NODE_PYTHON);
	}
	vt_graph_flush(g);
}

static void edges_that_wait_make_the_same_graph(void **state)
{
	static const size_t max_edges[] = { 1 << 20, 1000, 17, 16, 15, 1 };

	(void)state;
	for (size_t turn = 0; turn < sizeof(max_edges) / sizeof(max_edges[0]); turn++) {
		struct vt_graph lazy, eager;

		assert_true(vt_graph_init(&eager, turn % 2 ? 100 : 1 << 20, max_edges[turn]));
		assert_true(vt_graph_init(&lazy, turn % 2 ? 100 : 1 << 20, max_edges[turn]));
		lazy.lazy = true;
		for (int again = 0; again < 2; again++) {
			fill(&eager);
			fill(&lazy);
			assert_true(eager.nodes.n > (turn ? 1 : 2000));
			assert_int_equal(lazy.full, eager.full);
			assert_int_equal(lazy.nodes.n, eager.nodes.n);
			assert_int_equal(lazy.edges.n, eager.edges.n);
			assert_memory_equal(lazy.edges.data, eager.edges.data,
					    eager.edges.n * sizeof(eager.edges.data[0]));
			for (size_t i = 0; i < eager.nodes.n; i++) {
				const struct vt_graph_node *a = &lazy.nodes.data[i],
							   *b = &eager.nodes.data[i];

				assert_int_equal(a->addr, b->addr);
				assert_int_equal(a->kind, b->kind);
				assert_int_equal(a->found, b->found);
				assert_int_equal(a->flags, b->flags);
				assert_int_equal(a->n_edges, b->n_edges);
				if (b->n_edges)
					assert_int_equal(a->first_edge, b->first_edge);
			}
			vt_graph_clear(&lazy);
			vt_graph_clear(&eager);
		}
		vt_graph_deinit(&lazy);
		vt_graph_deinit(&eager);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(an_address_is_one_node_of_the_first_kind),
		TEST(addresses_with_the_same_hash_are_different_nodes),
		TEST(many_nodes_keep_their_ids_while_the_index_grows),
		TEST(edges_of_a_node_are_together_and_count),
		TEST(weak_and_borrowed_references_do_not_count),
		TEST(bounds_cut_the_graph_and_say_so),
		TEST(edges_that_wait_make_the_same_graph),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
