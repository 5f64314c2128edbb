/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks → storages → tensors. A block of the allocator belongs to the storage whose memory begins
 * in it. Which of its tensors names it is decided over all of them: views and tied parameters share
 * a storage.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum { DEVICE_CUDA = 1 }; /* c10::DeviceType; numbers are never reused */

struct matching {
	struct vt_owners *o;
	const struct vt_owners_input *input;
	uint32_t *storage_of; /* by node: index in storages + 1, 0 none */
	/* by node: categories that its direct holders tell, 1 << enum vt_category */
	uint32_t *marks;
};

uint32_t vt_owners_block_at(const struct vt_owners_input *input, uint64_t addr)
{
	size_t low = 0, high = input->n_blocks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (input->blocks[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || addr - input->blocks[low - 1].addr >= input->blocks[low - 1].size)
		return UINT32_MAX;
	return (uint32_t)(low - 1);
}

static bool add_storage(struct matching *m, uint32_t node)
{
	struct vt_tensors_storage storage;
	struct vt_owned_storage *added;
	uint32_t block;

	if (!vt_tensors_storage(&m->o->tensors, m->o->graph.nodes.data[node].addr, &storage) ||
	    storage.device_type != DEVICE_CUDA || !storage.data)
		return true;
	block = vt_owners_block_at(m->input, storage.data);
	if (block == UINT32_MAX)
		return true;
	added = vt_vec_append(&m->o->storages);
	if (!added)
		return false;
	*added = (struct vt_owned_storage){
		.node = node,
		.block = block,
		.data = storage.data,
		.bytes = storage.bytes,
		.best = node,
		.largest = VT_GRAPH_NONE,
		.certain = m->input->one_moment,
	};
	m->storage_of[node] = (uint32_t)m->o->storages.n;
	return true;
}

static bool add_storages(struct matching *m)
{
	for (size_t i = 0; i < m->o->graph.nodes.n; i++) {
		if (m->o->graph.nodes.data[i].kind == VT_NODE_STORAGE &&
		    !add_storage(m, (uint32_t)i))
			return false;
	}
	return true;
}

void vt_owners_prove(struct vt_owners *o, struct vt_owned_storage *storage, uint32_t node)
{
	uint64_t count = vt_owners_count(o, node), found = o->graph.nodes.data[node].found;

	if (o->graph.nodes.data[node].flags & VT_NODE_LATER ||
	    !(o->graph.nodes.data[node].flags & VT_NODE_EXPLORED)) {
		storage->certain = false;
		return;
	}
	if (count == found)
		return;
	storage->certain = false;
	if (count == UINT64_MAX)
		return; /* it says nothing, so it proves nothing */
	if (count > found)
		storage->unexplained += count - found > UINT32_MAX / 2 ? UINT32_MAX / 2 :
									 (uint32_t)(count - found);
	else
		storage->surplus = true;
}

static void use(struct vt_owned_storage *storage, const struct vt_owners *o, uint32_t tensor)
{
	struct vt_tensors_shape shape;

	if (!vt_tensors_shape(&o->tensors, o->graph.nodes.data[tensor].addr, &shape))
		return;
	if (shape.last > storage->bytes || shape.first > shape.last)
		return; /* resized beneath it, or torn */
	if (shape.last - shape.first >= storage->used || storage->largest == VT_GRAPH_NONE)
		storage->largest = tensor;
	if (shape.last - shape.first > storage->used)
		storage->used = shape.last - shape.first;
}

void vt_owners_prefer(const struct vt_owners *o, struct vt_owned_storage *storage, uint32_t node)
{
	if (o->reach.data[node].distance < o->reach.data[storage->best].distance)
		storage->best = node;
}

/* Calls visit for each edge of a node of this kind, where the target has a storage. */
static void each_edge(struct matching *m, enum vt_node_kind from, enum vt_edge_kind kind,
		      void (*visit)(struct matching *m, uint32_t from, uint32_t to))
{
	const struct vt_graph *graph = &m->o->graph;

	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct vt_graph_node *n = &graph->nodes.data[i];

		if (n->kind != from)
			continue;
		for (uint32_t e = 0; e < n->n_edges; e++) {
			const struct vt_graph_edge *edge = &graph->edges.data[n->first_edge + e];

			if (edge->kind == kind && m->storage_of[edge->to])
				visit(m, (uint32_t)i, edge->to);
		}
	}
}

static void visit_tensor(struct matching *m, uint32_t tensor, uint32_t node)
{
	struct vt_owned_storage *storage = &m->o->storages.data[m->storage_of[node] - 1];

	m->storage_of[tensor] = m->storage_of[node];
	storage->n_tensors++;
	vt_owners_prove(m->o, storage, tensor);
	use(storage, m->o, tensor);
	vt_owners_prefer(m->o, storage, tensor);
	m->marks[node] |= m->marks[tensor];
}

static void visit_wrapper(struct matching *m, uint32_t wrapper, uint32_t node)
{
	struct vt_owned_storage *storage = &m->o->storages.data[m->storage_of[node] - 1];

	vt_owners_prove(m->o, storage, wrapper);
	m->marks[storage->node] |= m->marks[wrapper];
}

/* What the holders of a node say of it, whichever of them names it. */
static void mark(struct matching *m)
{
	const struct vt_graph *graph = &m->o->graph;

	for (size_t i = 0; i < graph->nodes.n; i++) {
		const struct vt_graph_node *n = &graph->nodes.data[i];
		const struct vt_pyheap_class *cls = vt_owners_class(m->o, (uint32_t)i);

		if (cls && cls->is & VT_PYHEAP_IS_PARAMETER)
			m->marks[i] |= 1U << VT_CATEGORY_PARAMETER;
		for (uint32_t e = 0; e < n->n_edges; e++) {
			const struct vt_graph_edge *edge = &graph->edges.data[n->first_edge + e];

			if (edge->kind == VT_EDGE_GRAD || edge->kind == VT_EDGE_SAVED ||
			    n->role == VT_ROLE_PARAMETERS || n->role == VT_ROLE_BUFFERS ||
			    n->role == VT_ROLE_STATE_OF)
				m->marks[edge->to] |=
					1U << vt_owners_step_category(m->o, (uint32_t)i, edge);
		}
	}
}

/* Of the categories that its holders tell, the first of these is its category. */
static const enum vt_category firm[] = {
	VT_CATEGORY_PARAMETER,
	VT_CATEGORY_GRADIENT,
	VT_CATEGORY_OPTIMIZER,
	VT_CATEGORY_BUFFER,
};

/* It was not computed by a graph, and none computes its gradient. */
static bool is_given(const struct vt_owners *o, const struct vt_owned_storage *storage)
{
	struct vt_tensors_shape shape;

	return storage->largest != VT_GRAPH_NONE &&
	       vt_tensors_shape(&o->tensors, o->graph.nodes.data[storage->largest].addr, &shape) &&
	       shape.requires_grad_known && !shape.requires_grad && !shape.has_grad_fn &&
	       !shape.view;
}

static void categorise(struct matching *m, struct vt_owned_storage *storage)
{
	enum vt_category category = vt_owners_category(m->o, storage->best);

	storage->category = (uint8_t)category;
	if (category == VT_CATEGORY_GARBAGE || category == VT_CATEGORY_EXCEPTION)
		return;
	for (size_t i = 0; i < sizeof(firm) / sizeof(firm[0]); i++) {
		if (m->marks[storage->node] & 1U << firm[i]) {
			storage->category = (uint8_t)firm[i];
			return;
		}
	}
	/* What only the graph holds is an activation, also if it needs no gradient. */
	if ((category == VT_CATEGORY_FRAME || category == VT_CATEGORY_PYTHON) &&
	    m->marks[storage->node] & 1U << VT_CATEGORY_ACTIVATION && is_given(m->o, storage))
		storage->category = VT_CATEGORY_INPUT;
}

bool vt_owners_storages(struct vt_owners *o, const struct vt_owners_input *input)
{
	size_t n = o->graph.nodes.n + 1;
	struct matching m = {
		.o = o,
		.input = input,
		.storage_of = calloc(n, sizeof(*m.storage_of)),
		.marks = calloc(n, sizeof(*m.marks)),
	};
	bool ok = m.storage_of && m.marks && add_storages(&m) && vt_owners_category_begin(o);

	if (ok) {
		mark(&m);
		each_edge(&m, VT_NODE_TENSOR, VT_EDGE_STORAGE, visit_tensor);
		each_edge(&m, VT_NODE_PYTHON, VT_EDGE_IMPL, visit_wrapper);
		each_edge(&m, VT_NODE_PYTHON, VT_EDGE_IMPL_BORROWED, visit_wrapper);
		for (size_t i = 0; i < o->storages.n; i++) {
			vt_owners_prove(o, &o->storages.data[i], o->storages.data[i].node);
			categorise(&m, &o->storages.data[i]);
		}
	}
	free(m.storage_of);
	free(m.marks);
	return ok;
}
