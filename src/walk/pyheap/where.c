/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/pyheap/internal.h"

bool vt_pyheap_where(struct vt_pyheap *heap, uint32_t frame, struct vt_pyheap_where *where)
{
	const struct vt_graph_node *node = &heap->graph->nodes.data[frame];
	struct vt_python_frame read;
	uint64_t addr = node->addr;

	/* A frame object of 3.11 on only refers to the frame. */
	if (node->kind == VT_NODE_PYTHON && vt_pyheap_has(heap, VT_PY_FRAMEOBJ_FRAME))
		addr = vt_pyheap_u64(heap, addr, VT_PY_FRAMEOBJ_FRAME);
	if (!vt_python_frame_at(heap->py, &heap->pages->src, addr, &read) || !read.function)
		return false;
	*where = (struct vt_pyheap_where){ read.function, read.file, read.line };
	return true;
}
