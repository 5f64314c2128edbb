/* SPDX-License-Identifier: Apache-2.0 */
/* Graph capture, as far as an allocator sees it: a status, an id, and a graph that counts nodes. */
#include "sim.h"

#include <stdlib.h>

#include <pthread.h>

struct sim_graph {
	uint32_t magic;
	size_t nodes;
	/* while it is captured */
	enum sim_capture_mode mode;
	pthread_t thread;
	int is_spoilt;
	struct sim_graph *next;
};

#define GRAPH_MAGIC 0x48505247

static uint64_t next_id = 1;
static struct sim_graph *captured; /* all that are being captured */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread enum sim_capture_mode thread_mode;

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

static void add_captured(struct sim_graph *graph, int mode)
{
	pthread_mutex_lock(&lock);
	graph->mode = (enum sim_capture_mode)mode;
	graph->thread = pthread_self();
	graph->is_spoilt = 0;
	graph->next = captured;
	captured = graph;
	pthread_mutex_unlock(&lock);
}

static void remove_captured(struct sim_graph *graph)
{
	struct sim_graph **link = &captured;

	pthread_mutex_lock(&lock);
	while (*link && *link != graph)
		link = &(*link)->next;
	if (*link)
		*link = graph->next;
	pthread_mutex_unlock(&lock);
}

static int forbids(const struct sim_graph *graph)
{
	if (thread_mode == SIM_CAPTURE_RELAXED || graph->mode == SIM_CAPTURE_RELAXED)
		return 0;
	if (pthread_equal(graph->thread, pthread_self()))
		return 1;
	return thread_mode == SIM_CAPTURE_GLOBAL && graph->mode == SIM_CAPTURE_GLOBAL;
}

int sim_capture_unsafe(void)
{
	int err = SIM_OK;

	pthread_mutex_lock(&lock);
	for (struct sim_graph *g = captured; g; g = g->next)
		if (forbids(g)) {
			g->is_spoilt = 1;
			err = 900; /* STREAM_CAPTURE_UNSUPPORTED */
		}
	pthread_mutex_unlock(&lock);
	return err;
}

void sim_capture_exchange_mode(int *mode)
{
	int old = (int)thread_mode;

	thread_mode = (enum sim_capture_mode) * mode;
	*mode = old;
}

int sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph, int mode)
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
	add_captured(graph, mode);
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
	remove_captured(*graph);
	sim_streams_leave_capture(*graph);
	if (!(*graph)->is_spoilt)
		return SIM_OK;
	*graph = NULL; /* what there was is not given out */
	return 901;
}

void sim_capture_spoil(struct sim_graph *graph)
{
	pthread_mutex_lock(&lock);
	graph->is_spoilt = 1;
	pthread_mutex_unlock(&lock);
}

void sim_capture_node(struct sim_stream *stream)
{
	__atomic_add_fetch(&sim_stream_capture(stream)->graph->nodes, 1, __ATOMIC_RELAXED);
}
