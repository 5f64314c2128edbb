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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
