/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a heap is walked: a child whose memory is a synthetic heap, read from outside. Objects
 * of 64 bytes fill parts of it and refer to others, mostly near ones, as they do in CPython's
 * arenas. A second child has a large memory that is searched for addresses, and many chunks of
 * malloc(). Prints the best of several runs.
 *
 *   bench/heap [MIB [MIB-TO-SEARCH]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/resident.h"
#include "walk/heap/chunks.h"
#include "walk/heap/graph.h"
#include "walk/heap/pages.h"
#include "walk/heap/seek.h"

#define RUNS 7
#define OBJECT 64
#define EDGES 4       /* of an object: 2.8 million of 0.7 million objects */
#define STRETCH 16384 /* of 40,960 bytes that much has objects: 2,500 stretches in 100 MiB */
#define PERIOD 40960
#define AHEAD 6 /* nodes, of which the memory is fetched */

static uint64_t random_state = 1;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void must(struct vt_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "%s\n", err->message);
	exit(1);
}

static uint64_t object_at(const uint8_t *base, uint64_t i)
{
	uint64_t a_stretch = STRETCH / OBJECT;

	return (uint64_t)(uintptr_t)base + i / a_stretch * PERIOD + i % a_stretch * OBJECT;
}

/* Makes the heap; the child gets it by fork(). */
static uint8_t *make_heap(size_t size, uint64_t *n_objects)
{
	uint8_t *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t n = size / PERIOD * (STRETCH / OBJECT);

	if (base == MAP_FAILED)
		exit(1);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t *words = (uint64_t *)(uintptr_t)object_at(base, i);

		for (int e = 0; e < EDGES; e++) {
			uint64_t near = (i + random_word() % 2048) % n, far = random_word() % n;

			words[2 + e] = object_at(base, e ? near : far);
		}
	}
	*n_objects = n;
	return base;
}

struct best {
	uint64_t first, again, copy, together, changed, graph, find;
};

static void keep(uint64_t *best, uint64_t begin)
{
	uint64_t ns = vt_now_ns() - begin;

	if (*best == 0 || ns < *best)
		*best = ns;
}

/* From the first object on, as owners/ does: nodes in the order in which they were found. */
static void walk(struct vt_pages *pages, struct vt_graph *graph, uint64_t root)
{
	vt_graph_clear(graph);
	vt_graph_node(graph, root, VT_NODE_PYTHON);
	for (uint32_t i = 0; vt_graph_has(graph, i); i++) {
		uint64_t addr = graph->nodes.data[i].addr;

		if (i + AHEAD < graph->nodes.n)
			vt_pages_prefetch(pages, graph->nodes.data[i + AHEAD].addr);
		vt_graph_explore(graph, i);
		for (uint64_t e = 0; e < EDGES; e++)
			vt_graph_edge(graph, VT_EDGE_ITEM, e,
				      vt_pages_u64(pages, addr + 16 + 8 * e), VT_NODE_PYTHON);
	}
}

/* The same edges again, with nothing read: ends of edges in the order in which they were found. */
static void intern(struct vt_graph *graph, const uint64_t *ends, size_t n)
{
	vt_graph_clear(graph);
	vt_graph_node(graph, ends[0], VT_NODE_PYTHON);
	for (size_t i = 1; i < n; i++) {
		if (i % EDGES == 1)
			vt_graph_explore(graph, (uint32_t)(i / EDGES));
		vt_graph_edge(graph, VT_EDGE_ITEM, i % EDGES, ends[i], VT_NODE_PYTHON);
	}
	vt_graph_flush(graph);
}

static void measure(struct vt_live *live, uint64_t root, struct best *best, bool report)
{
	struct vt_graph graph, same;
	struct vt_pages pages;
	uint64_t *ends, begin;

	must(vt_pages_init(&pages, vt_live_source(live), (size_t)1 << 30));
	if (!vt_graph_init(&graph, 1 << 23, 1 << 25) || !vt_graph_init(&same, 1 << 23, 1 << 25))
		exit(1);
	graph.lazy = same.lazy = true;

	begin = vt_now_ns();
	walk(&pages, &graph, root);
	keep(&best->first, begin);

	begin = vt_now_ns();
	must(vt_pages_copy_again(&pages));
	keep(&best->copy, begin);

	begin = vt_now_ns();
	if (vt_pages_have_changed(&pages, 1))
		exit(1);
	keep(&best->changed, begin);

	begin = vt_now_ns();
	walk(&pages, &graph, root);
	keep(&best->again, begin);

	ends = calloc(graph.edges.n + 1, sizeof(*ends));
	if (!ends)
		exit(1);
	ends[0] = root;
	for (size_t i = 0; i < graph.edges.n; i++)
		ends[i + 1] = graph.nodes.data[graph.edges.data[i].to].addr;
	intern(&same, ends, graph.edges.n + 1); /* once for the memory */
	begin = vt_now_ns();
	intern(&same, ends, graph.edges.n + 1);
	keep(&best->graph, begin);

	begin = vt_now_ns();
	for (size_t i = 0; i < graph.edges.n; i++)
		if (vt_graph_find(&graph, ends[i]) == VT_GRAPH_NONE)
			exit(1);
	keep(&best->find, begin);
	if (report)
		printf("%zu nodes, %zu edges, %zu pages asked for or read ahead\n", graph.nodes.n,
		       graph.edges.n, pages.n_pages);
	free(ends);
	vt_graph_deinit(&same);
	vt_graph_deinit(&graph);
	vt_pages_deinit(&pages);
}

static void show(const char *what, uint64_t ns)
{
	printf("%-40s %8.1f ms\n", what, (double)ns / 1e6);
}

static pid_t fork_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void bench_walk(size_t mib)
{
	struct best best = { 0 }, two = { 0 };
	struct vt_live *live;
	uint64_t n;
	uint8_t *base = make_heap(mib << 20, &n);
	pid_t child = fork_child();

	must(vt_live_create(child, &live));
	for (int i = 0; i < RUNS; i++)
		measure(live, object_at(base, 0), &best, i == 0);
	vt_live_read_together(live, 1);
	for (int i = 0; i < RUNS; i++)
		measure(live, object_at(base, 0), &two, false);
	show("first walk (pages and graph)", best.first);
	show("copy again, one reader", best.copy);
	show("copy again, two readers", two.copy);
	show("have changed", best.changed);
	show("walk again (pages and graph)", best.again);
	show("graph alone", best.graph);
	show("find each edge's end", best.find);
	vt_live_destroy(live);
	end_child(child);
	munmap(base, mib << 20);
}

static void seek(struct vt_live *live, const struct vt_seek_options *options, size_t n,
		 bool together)
{
	uint64_t *targets = calloc(n, sizeof(*targets)), best = 0;
	char what[64];

	if (!targets)
		exit(1);
	for (size_t i = 0; i < n; i++)
		targets[i] = UINT64_C(0x7123456789a0) + (random_word() & 0xffffff0);
	for (int i = 0; i < RUNS; i++) {
		struct vt_seek found;
		uint64_t begin = vt_now_ns();

		must(vt_seek_init(&found, vt_live_source(live), options, targets, n));
		keep(&best, begin);
		vt_seek_deinit(&found);
	}
	snprintf(what, sizeof(what), "seek %zu addresses, %s", n,
		 together ? "two readers" : "one reader");
	show(what, best);
	free(targets);
}

static void bench_seek(size_t mib)
{
	uint64_t resident_ns = 0, chunks_ns = 0, begin;
	struct vt_resident resident = { 0 };
	struct vt_chunks chunks = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_live *live;
	pid_t child;
	uint64_t n;
	uint8_t *base = make_heap(mib << 20, &n);

	for (size_t i = 0; i < 450000; i++) {
		void *volatile p = malloc(random_word() % 500); /* else they are left out */

		if (i % 3 == 0)
			free(p);
	}
	child = fork_child();
	must(vt_live_create(child, &live));
	must(vt_maps_init(&maps, child));
	for (int i = 0; i < RUNS; i++) {
		vt_resident_deinit(&resident);
		vt_chunks_deinit(&chunks);
		begin = vt_now_ns();
		must(vt_resident_init(&resident, child, &maps, UINT64_C(1) << 36));
		keep(&resident_ns, begin);
		begin = vt_now_ns();
		must(vt_chunks_init(&chunks, vt_live_source(live), &maps, &resident, 1 << 24));
		keep(&chunks_ns, begin);
	}
	printf("%zu MiB to search, %zu chunks\n", (size_t)(resident.bytes >> 20), chunks.chunks.n);
	show("where pages are", resident_ns);
	show("chunks of malloc()", chunks_ns);
	for (int together = 0; together <= 1; together++) {
		struct vt_seek_options options = { .maps = &maps,
						   .resident = &resident,
						   .chunks = &chunks,
						   .max_levels = 1,
						   .max_hits = 1000,
						   .max_hits_each = 100,
						   .deadline_ns = UINT64_MAX };

		if (together)
			vt_live_read_together(live, 1);
		seek(live, &options, 1, together);
		seek(live, &options, 30, together);
		seek(live, &options, 1000, together);
	}
	vt_chunks_deinit(&chunks);
	vt_resident_deinit(&resident);
	vt_maps_deinit(&maps);
	vt_live_destroy(live);
	end_child(child);
	munmap(base, mib << 20);
}

int main(int argc, char **argv)
{
	bench_walk(argc > 1 ? strtoul(argv[1], NULL, 10) : 108);
	bench_seek(argc > 2 ? strtoul(argv[2], NULL, 10) : 1024);
	return 0;
}
