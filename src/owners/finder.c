/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules need of the graph. */
#include "owners/internal.h"

uint64_t vt_finder_bytes(const struct vt_finder *f, uint32_t storage)
{
	const struct vt_owned_storage *s;

	if (!storage)
		return 0;
	s = &f->o->storages.data[storage - 1];
	return s->shares ? 0 : f->input->blocks[s->block].size;
}

uint32_t vt_finder_follow(const struct vt_finder *f, uint32_t node, enum vt_edge_kind kind)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, node, &edges);

	for (uint32_t i = 0; i < n; i++) {
		if (edges[i].kind == kind)
			return edges[i].to;
	}
	return VT_GRAPH_NONE;
}

uint32_t vt_finder_tensor(const struct vt_finder *f, uint32_t wrapper)
{
	uint32_t tensor = vt_finder_follow(f, wrapper, VT_EDGE_IMPL);

	if (tensor == VT_GRAPH_NONE)
		tensor = vt_finder_follow(f, wrapper, VT_EDGE_IMPL_BORROWED);
	return tensor != VT_GRAPH_NONE && f->o->graph.nodes.data[tensor].kind == VT_NODE_TENSOR ?
		       tensor :
		       VT_GRAPH_NONE;
}

uint32_t vt_finder_storage(const struct vt_finder *f, uint32_t wrapper)
{
	uint32_t tensor = vt_finder_tensor(f, wrapper);

	return tensor == VT_GRAPH_NONE ? 0 : f->storage_of[tensor];
}

static bool is_value(const struct vt_graph_edge *edge)
{
	return edge->kind == VT_EDGE_VALUE || edge->kind == VT_EDGE_INLINE;
}

static uint32_t value_of(const struct vt_finder *f, uint32_t node, const char *name)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, node, &edges);

	for (uint32_t i = 0; i < n; i++) {
		if (is_value(&edges[i]) && vt_pyheap_key_is(&f->o->heap, node, &edges[i], name))
			return edges[i].to;
	}
	return VT_GRAPH_NONE;
}

uint32_t vt_finder_attribute(const struct vt_finder *f, uint32_t object, const char *name)
{
	uint32_t found = value_of(f, object, name);
	uint32_t dict = vt_finder_follow(f, object, VT_EDGE_DICT);

	return found == VT_GRAPH_NONE && dict != VT_GRAPH_NONE ? value_of(f, dict, name) : found;
}

static uint32_t part_of(const struct vt_finder *f, uint32_t node, enum vt_role role)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, node, &edges);

	for (uint32_t i = 0; i < n; i++) {
		if (is_value(&edges[i]) && f->o->graph.nodes.data[edges[i].to].role == role)
			return edges[i].to;
	}
	return VT_GRAPH_NONE;
}

uint32_t vt_finder_part(const struct vt_finder *f, uint32_t object, enum vt_role role)
{
	uint32_t found = part_of(f, object, role);
	uint32_t dict = vt_finder_follow(f, object, VT_EDGE_DICT);

	return found == VT_GRAPH_NONE && dict != VT_GRAPH_NONE ? part_of(f, dict, role) : found;
}

bool vt_finder_is_alive(const struct vt_finder *f, uint32_t node)
{
	return f->o->reach.data[node].distance < VT_COST_UNSEEN;
}

static bool name_of(struct vt_finder *f, uint32_t node, const char **name)
{
	struct vt_owner_name words;

	if (node == VT_GRAPH_NONE) {
		*name = *name ? *name : "";
		return true;
	}
	if (!vt_owners_name(f->o, node, f->arena, &words))
		return false;
	*name = words.name;
	return true;
}

bool vt_finder_add(struct vt_finder *f, const struct vt_model_notice *notice, uint32_t name,
		   uint32_t other)
{
	struct vt_model_notice *added = vt_vec_append(&f->owners->notices);

	if (!added)
		return false;
	*added = *notice;
	added->certain &= f->input->one_moment;
	if (!added->type)
		added->type = "";
	return name_of(f, name, &added->name) && name_of(f, other, &added->other);
}
