/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference counts. Where the references that were found to an object are as many as it has, all
 * its owners are known: that is the proof that a name is complete.
 */
#include "owners/internal.h"

uint64_t vt_owners_count(struct vt_owners *o, uint32_t node)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[node];

	switch ((enum vt_node_kind)n->kind) {
	case VT_NODE_PYTHON:
		return vt_pyheap_count(&o->heap, n->addr);
	case VT_NODE_TENSOR:
	case VT_NODE_STORAGE:
	case VT_NODE_GRAD_FN:
		return vt_tensors_count(&o->tensors, node);
	default:
		return UINT64_MAX;
	}
}
