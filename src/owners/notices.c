/* SPDX-License-Identifier: Apache-2.0 */
/* What stands out among the owners. Evidence and doubt of each rule: see model/notices.c. */
#include "owners/internal.h"

#include <stdlib.h>

/* What is worth a line of its own: a share of the bytes in use, and not small in itself. */
#define LEAST_BYTES (UINT64_C(16) << 20)
#define PARTS 50

static uint64_t least_bytes(const struct vt_owners_input *input)
{
	uint64_t all = 0;

	for (size_t i = 0; i < input->n_blocks; i++)
		all += input->blocks[i].size;
	return all / PARTS > LEAST_BYTES ? all / PARTS : LEAST_BYTES;
}

static void map_storages(struct vt_finder *f)
{
	const struct vt_graph *graph = &f->o->graph;

	for (size_t i = 0; i < f->o->storages.n; i++)
		f->storage_of[f->o->storages.data[i].node] = (uint32_t)i + 1;
	for (size_t i = 0; i < graph->nodes.n; i++) {
		uint32_t storage;

		if (graph->nodes.data[i].kind != VT_NODE_TENSOR)
			continue;
		storage = vt_finder_follow(f, (uint32_t)i, VT_EDGE_STORAGE);
		if (storage != VT_GRAPH_NONE)
			f->storage_of[i] = f->storage_of[storage];
	}
}

static int by_code(const void *a, const void *b)
{
	const struct vt_model_notice *x = a, *y = b;

	if (x->code != y->code)
		return x->code < y->code ? -1 : 1;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static bool (*const rules[])(struct vt_finder *f) = {
	vt_owners_find_lost,   vt_owners_find_graphs,  vt_owners_find_parameters,
	vt_owners_find_copies, vt_owners_find_dataset,
};

bool vt_owners_notices(struct vt_owners *o, const struct vt_owners_input *input,
		       struct vt_arena *arena, struct vt_model_owners *owners)
{
	struct vt_finder f = {
		.o = o,
		.input = input,
		.arena = arena,
		.owners = owners,
		.least = least_bytes(input),
		.storage_of = calloc(o->graph.nodes.n + 1, sizeof(*f.storage_of)),
	};
	bool ok = f.storage_of;

	if (ok)
		map_storages(&f);
	for (size_t i = 0; ok && i < sizeof(rules) / sizeof(rules[0]); i++)
		ok = rules[i](&f);
	free(f.storage_of);
	if (owners->notices.n)
		qsort(owners->notices.data, owners->notices.n, sizeof(*owners->notices.data),
		      by_code);
	return ok;
}
