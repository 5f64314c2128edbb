/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the graph that vramtap makes of a Python process's heap:
 *
 *   python_heap [OPTION…] PID
 *     version 3.12.1 nodes N edges N lists 1
 *     o ADDR CLASS SHAPE COUNT FOUND FLAGS IS  an object; f: a frame; r: the root
 *       KIND NUMBER ADDR [TEXT]                an edge of it
 *
 *   -k       the process is stopped: nothing can change
 *   -n       with the words of each edge, and function and line of each frame
 *   -o       instead: only the first line
 *   -t       instead: how much processor time it takes
 *   -z SEED  instead: makes it some times with words of the memory damaged at random, and prints
 *            "survived"
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/live.h"
#include "walk/pyheap/pyheap.h"
#include "walk/python/python.h"

enum {
	MAX_NODES = 8000000,
	MAX_EDGES = 40000000,
	MAX_COLLECTABLE = 10000000,
	ROUNDS = 5, /* of damage */
	PASSES = 5, /* of which the quickest is told */
	ROOT = 1,
};

#define MAX_BYTES ((size_t)1 << 30)
/* A damaged heap must not make it work without bound. */
#define MAX_DAMAGED_NS (20 * VT_NS_PER_S)

struct options {
	bool stopped, names, timings, damage, once;
	uint64_t seed;
	pid_t pid;
};

struct seen {
	struct vt_live *live;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_python py;
	struct vt_pages pages;
	struct vt_graph graph;
	struct vt_pyheap heap;
	bool lists;
	size_t n_listed;
};

static void list(void *arg, uint64_t object)
{
	struct seen *seen = arg;
	uint32_t node = vt_graph_node(&seen->graph, object, VT_NODE_PYTHON);

	seen->n_listed++;
	if (node != VT_GRAPH_NONE)
		seen->graph.nodes.data[node].flags |= VT_NODE_COLLECTABLE;
}

static void explore(struct seen *seen, size_t first)
{
	for (size_t i = first; vt_graph_has(&seen->graph, i); i++) {
		vt_graph_explore(&seen->graph, (uint32_t)i);
		if (seen->graph.nodes.data[i].kind == VT_NODE_ROOT)
			vt_pyheap_roots(&seen->heap);
		else
			vt_pyheap_edges(&seen->heap, (uint32_t)i);
	}
}

static void make_graph(struct seen *seen)
{
	size_t n;

	vt_graph_clear(&seen->graph);
	seen->n_listed = 0;
	vt_graph_node(&seen->graph, ROOT, VT_NODE_ROOT);
	explore(seen, 0);
	n = seen->graph.nodes.n;
	seen->lists = vt_pyheap_collectable(&seen->heap, MAX_COLLECTABLE, list, seen);
	explore(seen, n);
}

/* ---- printing ---- */

static void print_text(struct seen *seen, uint32_t node, const struct vt_graph_edge *edge)
{
	struct vt_str text = { 0 }, escaped = { 0 };

	vt_pyheap_edge_text(&seen->heap, node, edge, true, &text);
	vt_str_add_escaped(&escaped, vt_str_get(&text), text.n);
	printf(" %s", vt_str_get(&escaped));
	vt_str_deinit(&text);
	vt_str_deinit(&escaped);
}

static void print_where(struct seen *seen, uint32_t node)
{
	struct vt_pyheap_where where;

	if (vt_pyheap_where(&seen->heap, node, &where))
		printf(" %s|%s|%d", where.function, where.file ? where.file : "?", where.line);
}

static void print_node(struct seen *seen, uint32_t i, bool names)
{
	const struct vt_graph_node *node = &seen->graph.nodes.data[i];
	uint32_t cls = VT_GRAPH_NONE;
	char kind = node->kind == VT_NODE_ROOT ? 'r' : node->kind == VT_NODE_FRAME ? 'f' : 'o';

	printf("%c %" PRIx64, kind, node->addr);
	if (kind == 'o')
		cls = vt_pyheap_class_of(&seen->heap, node->addr);
	if (cls != VT_GRAPH_NONE) {
		const struct vt_pyheap_class *c = &seen->heap.classes.data[cls];
		uint64_t count = vt_pyheap_count(&seen->heap, node->addr);

		struct vt_str name = { 0 };

		vt_str_add_escaped(&name, c->name, strlen(c->name));
		printf(" %s.%s %u %" PRId64 " %u %u %u", *c->module ? c->module : "?",
		       vt_str_get(&name), c->shape, (int64_t)count, node->found, node->flags,
		       c->is);
		vt_str_deinit(&name);
		if (names && c->shape == VT_PYHEAP_FRAME)
			print_where(seen, i);
	} else if (names && kind == 'f') {
		print_where(seen, i);
	}
	putchar('\n');
	for (uint32_t e = 0; e < node->n_edges; e++) {
		const struct vt_graph_edge *edge = &seen->graph.edges.data[node->first_edge + e];

		printf(" %u %u %" PRIx64, edge->kind, edge->number,
		       seen->graph.nodes.data[edge->to].addr);
		if (names)
			print_text(seen, i, edge);
		putchar('\n');
	}
}

static void print_head(const struct seen *seen)
{
	printf("version %d.%d.%d%s nodes %zu edges %zu classes %zu lists %d\n", seen->py.major,
	       seen->py.minor, seen->py.micro, seen->py.free_threaded ? "t" : "",
	       seen->graph.nodes.n, seen->graph.edges.n, seen->heap.classes.n, seen->lists);
}

static void print_graph(struct seen *seen, bool names)
{
	print_head(seen);
	for (size_t i = 0; i < seen->graph.nodes.n; i++)
		print_node(seen, (uint32_t)i, names);
}

/* On a busy machine the clock on the wall says nothing. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * VT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void print_timings(struct seen *seen)
{
	uint64_t first = 0, best = UINT64_MAX, roots = UINT64_MAX;

	for (int i = 0; i < PASSES; i++) {
		uint64_t begin = cpu_ns();

		vt_pyheap_forget(&seen->heap);
		vt_graph_clear(&seen->graph);
		vt_graph_node(&seen->graph, ROOT, VT_NODE_ROOT);
		explore(seen, 0);

		uint64_t took = cpu_ns() - begin;

		if (!i)
			first = took;
		roots = took < roots ? took : roots;
		begin = cpu_ns();
		make_graph(seen);
		took = cpu_ns() - begin;
		best = took < best ? took : best;
	}
	print_head(seen);
	printf("first %" PRIu64 " us, from the roots %" PRIu64 " us, with lists %" PRIu64
	       " us; %zu objects listed, %zu MiB of pages\n",
	       first / 1000, roots / 1000, best / 1000, seen->n_listed,
	       seen->pages.n_slots * VT_HEAP_PAGE >> 20);
}

/* ---- damage ---- */

struct damage {
	struct vt_memsrc src;
	struct vt_memsrc *under;
	uint64_t random; /* state of a xorshift generator */
	uint64_t last;   /* a word that was read before */
	uint64_t one_in; /* how many words are right */
};

static uint64_t next_random(struct damage *damage)
{
	damage->random ^= damage->random << 13;
	damage->random ^= damage->random >> 7;
	damage->random ^= damage->random << 17;
	return damage->random;
}

static uint64_t damaged_word(struct damage *damage, uint64_t word)
{
	uint64_t r = next_random(damage);

	switch (r % 7) {
	case 0:
		return word ^ UINT64_C(1) << (r >> 8) % 64;
	case 1:
		return word + (r >> 8) % 64 * 8;
	case 2:
		return damage->last;
	case 3:
		return r;
	case 4:
		return (r >> 8) % 100;
	case 5:
		return UINT64_MAX - (r >> 8) % 100;
	default:
		return UINT64_C(1) << (r >> 8) % 64;
	}
}

static int damaged_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct damage *damage = (struct damage *)(void *)src;
	uint8_t *bytes = buf;
	int ret = vt_mem_read(damage->under, addr, buf, len);

	for (size_t i = 0; !ret && i + 8 <= len; i += 8) {
		uint64_t word;

		if (next_random(damage) % damage->one_in)
			continue;
		memcpy(&word, bytes + i, sizeof(word));
		word = damaged_word(damage, word);
		memcpy(bytes + i, &word, sizeof(word));
		damage->last = word;
	}
	return ret;
}

static struct vt_error *make_damaged(struct seen *seen, uint64_t seed)
{
	static const struct vt_memsrc_ops ops = { .read = damaged_read };
	static const uint64_t one_in[] = { 30, 300, 2000, 10000, 50000 };

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct damage damage = {
			.src = { .ops = &ops, .coherent = true },
			.under = vt_live_source(seen->live),
			.random = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1,
			.one_in = one_in[i % 5],
		};
		uint64_t begin = vt_now_ns();
		struct vt_error *err;

		vt_pages_deinit(&seen->pages);
		vt_pyheap_deinit(&seen->heap);
		VT_TRY(vt_pages_init(&seen->pages, &damage.src, MAX_BYTES));
		err = vt_pyheap_init(&seen->heap, &seen->py, &seen->pages, &seen->graph);
		if (err)
			return err;
		make_graph(seen);
		for (uint32_t n = 0; n < seen->graph.nodes.n && n < 20000; n++)
			for (uint32_t e = 0; e < seen->graph.nodes.data[n].n_edges && e < 20; e++) {
				struct vt_str text = { 0 };

				vt_pyheap_edge_text(
					&seen->heap, n,
					&seen->graph.edges
						 .data[seen->graph.nodes.data[n].first_edge + e],
					n % 2, &text);
				vt_str_deinit(&text);
			}
		if (vt_now_ns() - begin > MAX_DAMAGED_NS)
			return vt_error_create(VT_ERR_TIMEOUT, "round %" PRIu64 " took too long",
					       i);
	}
	printf("survived\n");
	return NULL;
}

static struct vt_error *look(struct seen *seen, const struct options *options)
{
	VT_TRY(vt_live_create(options->pid, &seen->live));
	vt_live_set_coherent(seen->live, options->stopped);
	VT_TRY(vt_maps_init(&seen->maps, options->pid));
	VT_TRY(vt_modules_init(&seen->modules, options->pid, &seen->maps));
	VT_TRY(vt_python_find(&seen->py, &seen->modules, seen->live));
	VT_TRY(vt_python_capture(&seen->py, vt_live_source(seen->live)));
	VT_TRY(vt_pages_init(&seen->pages, vt_live_source(seen->live), MAX_BYTES));
	if (!vt_graph_init(&seen->graph, MAX_NODES, MAX_EDGES))
		return &vt_enomem;
	seen->graph.lazy = true;
	VT_TRY(vt_pyheap_init(&seen->heap, &seen->py, &seen->pages, &seen->graph));
	if (options->damage)
		return make_damaged(seen, options->seed);
	make_graph(seen);
	if (options->once)
		print_head(seen);
	else if (options->timings)
		print_timings(seen);
	else
		print_graph(seen, options->names);
	return NULL;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	struct seen seen = { 0 };
	int option;

	while ((option = getopt(argc, argv, "knotz:")) != -1) {
		options.stopped |= option == 'k';
		options.names |= option == 'n';
		options.timings |= option == 't';
		options.once |= option == 'o';
		if (option == 'z')
			options.seed = strtoull(optarg, NULL, 0), options.damage = true;
		if (option == '?')
			return 64;
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: %s [-k] [-n] [-o | -t | -z SEED] PID\n", argv[0]);
		return 64;
	}
	options.pid = (pid_t)strtol(argv[optind], NULL, 10);

	struct vt_error *err = look(&seen, &options);

	if (err)
		fprintf(stderr, "%s: %s\n", vt_error_code_name(err->code), err->message);
	vt_pyheap_deinit(&seen.heap);
	vt_graph_deinit(&seen.graph);
	vt_pages_deinit(&seen.pages);
	vt_python_deinit(&seen.py);
	vt_modules_deinit(&seen.modules);
	vt_maps_deinit(&seen.maps);
	vt_live_destroy(seen.live);

	int status = err ? 1 : 0;

	vt_error_destroy(err);
	return status;
}
