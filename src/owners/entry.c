/* SPDX-License-Identifier: Apache-2.0 */
#include "owners/internal.h"

static bool is_next(const struct vt_owners *o, uint32_t node)
{
	return o->reach.data[node].parent != VT_GRAPH_NONE &&
	       vt_owners_edge(o, o->reach.data[node].edge)->kind == VT_EDGE_NEXT;
}

/* For all nodes on the way from this one at once. */
static void enter(struct vt_owners *o, uint32_t node)
{
	uint32_t at = node, entry;

	while (o->entries.data[at] == VT_GRAPH_NONE && is_next(o, at))
		at = o->reach.data[at].parent;
	entry = o->entries.data[at] == VT_GRAPH_NONE ? at : o->entries.data[at];
	for (at = node; o->entries.data[at] == VT_GRAPH_NONE && at != entry;
	     at = o->reach.data[at].parent)
		o->entries.data[at] = entry;
	o->entries.data[entry] = entry;
}

bool vt_owners_entries(struct vt_owners *o)
{
	if (!vt_vec_reserve(&o->entries, o->graph.nodes.n))
		return false;
	o->entries.n = o->graph.nodes.n;
	for (size_t i = 0; i < o->entries.n; i++)
		o->entries.data[i] = VT_GRAPH_NONE;
	for (size_t i = 0; i < o->entries.n; i++) {
		if (o->graph.nodes.data[i].kind == VT_NODE_GRAD_FN)
			enter(o, (uint32_t)i);
	}
	return true;
}

uint32_t vt_owners_entry(const struct vt_owners *o, uint32_t node)
{
	return o->entries.data[node] == VT_GRAPH_NONE ? node : o->entries.data[node];
}
