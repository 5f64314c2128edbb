/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/tensors/internal.h"

/* libstdc++'s _Sp_counted_base: a virtual table, then the count of owners. */
#define CONTROL_COUNT 8

static uint64_t word_of(const struct vt_tensors *t, uint64_t addr)
{
	return vt_pages_u64(t->pages, addr);
}

uint64_t vt_tensors_count(const struct vt_tensors *tensors, uint32_t node)
{
	const struct vt_graph_node *n = &tensors->graph->nodes.data[node];
	uint64_t control;

	if (n->kind == VT_NODE_GRAD_FN && tensors->layout.node_shared) {
		/* std::weak_ptr to itself: pointer, control block. */
		if (word_of(tensors, n->addr + 8) != n->addr)
			return UINT64_MAX;
		control = word_of(tensors, n->addr + 16);
		return control ? word_of(tensors, control + CONTROL_COUNT) & UINT32_MAX :
				 UINT64_MAX;
	}
	if (n->kind != VT_NODE_TENSOR && n->kind != VT_NODE_STORAGE && n->kind != VT_NODE_GRAD_FN)
		return UINT64_MAX;
	return tensors->layout.two_counts ? word_of(tensors, n->addr + 8) :
					    word_of(tensors, n->addr + 8) & UINT32_MAX;
}
