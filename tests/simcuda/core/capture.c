/* SPDX-License-Identifier: Apache-2.0 */
/* Graph capture, as far as an allocator sees it: a status, an id, and a graph that counts nodes. */
#include "sim.h"

#include <stdlib.h>

struct sim_graph {
	uint32_t magic;
	size_t nodes;
};

#define GRAPH_MAGIC 0x48505247

static uint64_t next_id = 1;

int sim_graph_valid(const struct sim_graph *graph)
{
	return graph && graph->magic == GRAPH_MAGIC;
}

size_t sim_graph_nodes(const struct sim_graph *graph)
{
	return graph->nodes;
}

int sim_graph_create(struct sim_graph **graph)
{
	struct sim_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return SIM_ENOMEM;
	g->magic = GRAPH_MAGIC;
	*graph = g;
	return SIM_OK;
}

int sim_graph_destroy(struct sim_graph *graph)
{
	if (!sim_graph_valid(graph))
		return SIM_EINVAL;
	graph->magic = 0;
	free(graph);
	return SIM_OK;
}

int sim_graph_instantiate(struct sim_graph *graph, struct sim_graph **exec)
{
	int err;

	if (!sim_graph_valid(graph))
		return SIM_EINVAL;
	err = sim_graph_create(exec);
	if (!err)
		(*exec)->nodes = graph->nodes;
	return err;
}

int sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph)
{
	struct sim_capture *c = sim_stream_capture(stream);
	int err;

	if (c->graph)
		return 900; /* STREAM_CAPTURE_UNSUPPORTED: it is capturing already */
	if (!graph) {
		err = sim_graph_create(&graph);
		if (err)
			return err;
	}
	c->graph = graph;
	c->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
	return SIM_OK;
}

int sim_capture_end(struct sim_stream *stream, struct sim_graph **graph)
{
	struct sim_capture *c = sim_stream_capture(stream);

	if (!c->graph)
		return 901; /* STREAM_CAPTURE_INVALIDATED is the nearest */
	*graph = c->graph;
	sim_streams_leave_capture(c->graph);
	return SIM_OK;
}

void sim_capture_node(struct sim_stream *stream)
{
	__atomic_add_fetch(&sim_stream_capture(stream)->graph->nodes, 1, __ATOMIC_RELAXED);
}
