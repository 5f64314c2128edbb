/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints PyTorch's objects of a process, as vramtap reads them:
 *
 *   torch_tensors [-z SEED] PID
 *     layout KNOWN WHY
 *     t ADDR CLASS COUNT FOUND DTYPE FIRST LAST GRAD SIZE…   a TensorImpl; GRAD: 0, 1, ? unknown
 *     s ADDR CLASS COUNT FOUND DATA BYTES                    a StorageImpl
 *     m ADDR CLASS COUNT FOUND                               AutogradMeta
 *     n ADDR CLASS COUNT FOUND                               a Node
 *     p ADDR                                                 a Python object that has such edges
 *       KIND NUMBER ADDR                                     an edge of it
 *
 *   -z SEED  instead: reads them some times with words of the memory damaged at random, and prints
 *            "survived"
 *
 * The process is stopped: nothing can change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "owners/owners.h"
#include "target/live.h"
#include "walk/python/python.h"

enum {
	MAX_NODES = 8000000,
	MAX_EDGES = 40000000,
	ROUNDS = 5, /* of damage */
};

#define MAX_BYTES ((size_t)1 << 30)
/* A damaged heap must not make it work without bound. */
#define MAX_DAMAGED_NS (20 * VT_NS_PER_S)

struct seen {
	struct vt_live *live;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_python py;
	struct vt_pages pages;
	struct vt_owners owners;
};

/* ---- printing ---- */

static void print_class(struct seen *seen, uint64_t addr)
{
	const char *name = vt_tensors_class(&seen->owners.tensors, addr);
	struct vt_str escaped = { 0 };

	vt_str_add_escaped(&escaped, name ? name : "?", name ? strlen(name) : 1);
	printf(" %s", vt_str_get(&escaped));
	vt_str_deinit(&escaped);
}

static void print_tensor(struct seen *seen, uint64_t addr)
{
	struct vt_tensors_shape shape;

	if (!vt_tensors_shape(&seen->owners.tensors, addr, &shape))
		return;
	printf(" %s %" PRIu64 " %" PRIu64 " %c", shape.dtype ? shape.dtype : "?", shape.first,
	       shape.last, shape.requires_grad_known ? '0' + shape.requires_grad : '?');
	for (size_t i = 0; i < shape.n_dims && i < VT_TENSORS_MAX_DIMS; i++)
		printf(" %" PRId64, shape.sizes[i]);
}

static void print_storage(struct seen *seen, uint64_t addr)
{
	struct vt_tensors_storage storage;

	if (vt_tensors_storage(&seen->owners.tensors, addr, &storage))
		printf(" %" PRIx64 " %" PRIu64, storage.data, storage.bytes);
}

static bool has_native_edge(const struct vt_graph *graph, const struct vt_graph_node *node)
{
	for (uint32_t e = 0; e < node->n_edges; e++) {
		uint32_t kind = graph->edges.data[node->first_edge + e].kind;

		if (kind >= VT_EDGE_IMPL && kind <= VT_EDGE_DATA)
			return true;
	}
	return false;
}

static void print_node(struct seen *seen, uint32_t i)
{
	static const char letters[VT_N_NODE_KINDS] = {
		[VT_NODE_PYTHON] = 'p', [VT_NODE_TENSOR] = 't',  [VT_NODE_STORAGE] = 's',
		[VT_NODE_META] = 'm',   [VT_NODE_GRAD_FN] = 'n',
	};
	const struct vt_graph *graph = &seen->owners.graph;
	const struct vt_graph_node *node = &graph->nodes.data[i];
	char letter = letters[node->kind];

	if (!letter || (letter == 'p' && !has_native_edge(graph, node)))
		return;
	printf("%c %" PRIx64, letter, node->addr);
	if (letter != 'p') {
		print_class(seen, node->addr);
		printf(" %" PRId64 " %u", (int64_t)vt_tensors_count(&seen->owners.tensors, i),
		       node->found);
	}
	if (letter == 't')
		print_tensor(seen, node->addr);
	if (letter == 's')
		print_storage(seen, node->addr);
	putchar('\n');
	for (uint32_t e = 0; e < node->n_edges; e++) {
		const struct vt_graph_edge *edge = &graph->edges.data[node->first_edge + e];

		printf(" %u %u %" PRIx64 "\n", edge->kind, edge->number,
		       graph->nodes.data[edge->to].addr);
	}
}

static void print_all(struct seen *seen)
{
	printf("layout %d %s\n", seen->owners.tensors.layout.known,
	       seen->owners.tensors.why ? seen->owners.tensors.why : "");
	for (uint32_t i = 0; i < seen->owners.graph.nodes.n; i++)
		print_node(seen, i);
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

	switch (r % 6) {
	case 0:
		return word ^ UINT64_C(1) << (r >> 8) % 64;
	case 1:
		return word + (r >> 8) % 64 * 8;
	case 2:
		return damage->last;
	case 3:
		return (r >> 8) % 100;
	case 4:
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

/* ---- reading ---- */

static struct vt_error *explore(struct seen *seen, struct vt_memsrc *src)
{
	VT_TRY(vt_pages_init(&seen->pages, src, MAX_BYTES));
	return vt_owners_explore(&seen->owners, &(struct vt_owners_input){
							.python = &seen->py,
							.pages = &seen->pages,
							.maps = &seen->maps,
							.max_nodes = MAX_NODES,
							.max_edges = MAX_EDGES,
							.deadline_ns = UINT64_MAX,
						});
}

/* All that can be asked of the nodes. */
static void ask(struct seen *seen)
{
	for (uint32_t i = 0; i < seen->owners.graph.nodes.n; i++) {
		const struct vt_graph_node *node = &seen->owners.graph.nodes.data[i];
		struct vt_tensors_shape shape;
		struct vt_tensors_storage storage;

		vt_tensors_count(&seen->owners.tensors, i);
		if (node->kind == VT_NODE_TENSOR)
			vt_tensors_shape(&seen->owners.tensors, node->addr, &shape);
		if (node->kind == VT_NODE_STORAGE)
			vt_tensors_storage(&seen->owners.tensors, node->addr, &storage);
	}
}

static struct vt_error *explore_damaged(struct seen *seen, uint64_t seed)
{
	static const struct vt_memsrc_ops ops = { .read = damaged_read };
	static const uint64_t one_in[ROUNDS] = { 30, 300, 2000, 10000, 50000 };

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct damage damage = {
			.src = { .ops = &ops, .coherent = true },
			.under = vt_live_source(seen->live),
			.random = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1,
			.one_in = one_in[i],
		};
		uint64_t begin = vt_now_ns();
		struct vt_error *err = explore(seen, &damage.src);

		if (!err)
			ask(seen);
		vt_owners_deinit(&seen->owners);
		vt_pages_deinit(&seen->pages);
		seen->owners = (struct vt_owners){ 0 };
		seen->pages = (struct vt_pages){ 0 };
		if (err)
			return err;
		if (vt_now_ns() - begin > MAX_DAMAGED_NS)
			return vt_error_create(VT_ERR_TIMEOUT, "round %" PRIu64 " took too long",
					       i);
	}
	printf("survived\n");
	return NULL;
}

static struct vt_error *look(struct seen *seen, pid_t pid, bool damaged, uint64_t seed)
{
	VT_TRY(vt_live_create(pid, &seen->live));
	vt_live_set_coherent(seen->live, true);
	VT_TRY(vt_maps_init(&seen->maps, pid));
	VT_TRY(vt_modules_init(&seen->modules, pid, &seen->maps));
	VT_TRY(vt_python_find(&seen->py, &seen->modules, seen->live));
	if (damaged)
		return explore_damaged(seen, seed);
	VT_TRY(explore(seen, vt_live_source(seen->live)));
	print_all(seen);
	return NULL;
}

int main(int argc, char **argv)
{
	struct seen seen = { 0 };
	bool damaged = argc == 4 && !strcmp(argv[1], "-z");

	if (argc != 2 && !damaged) {
		fprintf(stderr, "usage: %s [-z SEED] PID\n", argv[0]);
		return 64;
	}

	struct vt_error *err = look(&seen, (pid_t)strtol(argv[argc - 1], NULL, 10), damaged,
				    damaged ? strtoull(argv[2], NULL, 0) : 0);

	if (err)
		fprintf(stderr, "%s: %s\n", vt_error_code_name(err->code), err->message);
	vt_owners_deinit(&seen.owners);
	vt_pages_deinit(&seen.pages);
	vt_python_deinit(&seen.py);
	vt_modules_deinit(&seen.modules);
	vt_maps_deinit(&seen.maps);
	vt_live_destroy(seen.live);

	int status = err ? 1 : 0;

	vt_error_destroy(err);
	return status;
}
