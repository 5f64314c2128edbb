/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dict is to the objects around it, by who refers to it and under which key. Roles are given
 * before the search, so that they do not depend on its order.
 *
 * torch/nn/modules/module.py: a Module keeps its parts in the dicts _parameters, _buffers and
 * _modules. torch/optim/optimizer.py: an Optimizer keeps its state by parameter in the dict state.
 */
#include "owners/internal.h"

static const struct part {
	enum vt_role of;         /* whose attribute */
	enum vt_role attributes; /* the role of that one's dict */
	const char *key;
	enum vt_role role;
} parts[] = {
	{ VT_ROLE_MODULE, VT_ROLE_MODULE_ATTRIBUTES, "_parameters", VT_ROLE_PARAMETERS },
	{ VT_ROLE_MODULE, VT_ROLE_MODULE_ATTRIBUTES, "_buffers", VT_ROLE_BUFFERS },
	{ VT_ROLE_MODULE, VT_ROLE_MODULE_ATTRIBUTES, "_modules", VT_ROLE_MODULES },
	{ VT_ROLE_OPTIMIZER, VT_ROLE_OPTIMIZER_ATTRIBUTES, "state", VT_ROLE_STATE },
};

#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static bool is_dict(const struct vt_owners *o, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, node);

	return cls && cls->shape == VT_PYHEAP_DICT;
}

static void give(struct vt_owners *o, uint32_t node, enum vt_role role)
{
	if (is_dict(o, node))
		o->graph.nodes.data[node].role = (uint16_t)role;
}

/* The parts that the attributes of a node are, where they are in itself or in its dict. */
static void give_parts(struct vt_owners *o, uint32_t node, enum vt_role role)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[node];

	for (uint32_t i = 0; i < n->n_edges; i++) {
		const struct vt_graph_edge *edge = &o->graph.edges.data[n->first_edge + i];

		if (edge->kind != VT_EDGE_VALUE && edge->kind != VT_EDGE_INLINE)
			continue;
		for (size_t p = 0; p < N_PARTS; p++) {
			if ((role == parts[p].of || role == parts[p].attributes) &&
			    is_dict(o, edge->to) &&
			    vt_pyheap_key_is(&o->heap, node, edge, parts[p].key))
				give(o, edge->to, parts[p].role);
		}
	}
}

static enum vt_role of_class(const struct vt_pyheap_class *cls)
{
	if (cls->is & VT_PYHEAP_IS_MODULE)
		return VT_ROLE_MODULE;
	return cls->is & VT_PYHEAP_IS_OPTIMIZER ? VT_ROLE_OPTIMIZER : VT_ROLE_NONE;
}

static enum vt_role of_dict(const struct vt_pyheap_class *cls, enum vt_role object)
{
	if (object == VT_ROLE_MODULE)
		return VT_ROLE_MODULE_ATTRIBUTES;
	if (object == VT_ROLE_OPTIMIZER)
		return VT_ROLE_OPTIMIZER_ATTRIBUTES;
	return cls->shape == VT_PYHEAP_MODULE ? VT_ROLE_GLOBALS : VT_ROLE_ATTRIBUTES;
}

static void visit_object(struct vt_owners *o, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(o, node);
	struct vt_graph_node *n = &o->graph.nodes.data[node];

	if (!cls)
		return;

	enum vt_role role = of_class(cls);

	if (role)
		n->role = (uint16_t)role;
	for (uint32_t i = 0; i < n->n_edges; i++) {
		const struct vt_graph_edge *edge = &o->graph.edges.data[n->first_edge + i];

		if (edge->kind != VT_EDGE_DICT)
			continue;
		give(o, edge->to, of_dict(cls, role));
		if (role)
			give_parts(o, edge->to, of_dict(cls, role));
	}
	if (role)
		give_parts(o, node, role);
}

static void visit_state(struct vt_owners *o, uint32_t node)
{
	const struct vt_graph_node *n = &o->graph.nodes.data[node];

	for (uint32_t i = 0; i < n->n_edges; i++) {
		const struct vt_graph_edge *edge = &o->graph.edges.data[n->first_edge + i];

		if (edge->kind == VT_EDGE_VALUE)
			give(o, edge->to, VT_ROLE_STATE_OF);
	}
}

void vt_owners_roles(struct vt_owners *o)
{
	for (size_t i = 0; i < o->graph.nodes.n; i++)
		visit_object(o, (uint32_t)i);
	for (size_t i = 0; i < o->graph.nodes.n; i++) {
		if (o->graph.nodes.data[i].role == VT_ROLE_STATE)
			visit_state(o, (uint32_t)i);
	}
}
